"""The receiving half of a session: counts, and when to acknowledge ([MS-MQQB] 3.1.5.8.2, 3.1.5.8.7, 3.1.6.4).

A recoverable message is acknowledged as stored when whoever stores has said so, the oldest first: the acknowledged
numbers are a run without a hole, so the base in a SessionHeader never stands above a message that is not on disk.
"""

from typing import Final

from lior.errors import InvalidParameter
from lior.wire.headers import SessionHeader

FLAG_BITS: Final = 32  # RecoverableMsgAckFlags
NEVER: Final = float("inf")
_PIGGYBACK_SHARE: Final = 0.75  # 3.1.7.11
ENOUGH_BYTES: Final = 1 << 20  # acknowledged at once: a window of large messages would outlast the peer's patience


class ReceivingHalf:
    """What was received and is not acknowledged yet. Numbers never wrap here; the wire carries their low 16 bits."""

    __slots__ = ("_acked", "_stored", "ack_at", "ack_wait", "piggyback_at", "received",
                 "recoverable_ack", "recoverable_received", "threshold", "unacked", "volume", "window_size")

    def __init__(self, window_size: int, ack_wait: float) -> None:
        self.window_size = window_size  # as we advertise it
        self.ack_wait = ack_wait  # AckWaitTimeout
        self.recoverable_ack = ack_wait  # RecoverableAckSendTimeout; the handshake sets it
        self.threshold = 1  # half a window
        self.received = 0  # MessageReceivedCount
        self.recoverable_received = 0  # RecoverableMessageReceivedCount
        self.unacked = 0  # UnackedReceivedMsgCount
        self.volume = 0  # bytes that came since the last acknowledgement
        self._stored = 0  # recoverable ones that are durably settled
        self._acked = 0  # LastAckedRecoverableMsgSeqNumber
        self.ack_at = NEVER  # Session Ack Send Timer
        self.piggyback_at = NEVER  # when three quarters of it are over

    @property
    def unstored(self) -> int:
        """Recoverable messages whose fate is not durable yet."""
        return self.recoverable_received - self._stored

    @property
    def pending(self) -> bool:
        """Something is there to acknowledge. All may be counted already and some stored since."""
        return self.unacked > 0 or self._stored > self._acked

    @property
    def full(self) -> bool:
        """RecoverableMsgAckFlags has no room for another message."""
        return self._stored - self._acked >= FLAG_BITS

    @property
    def half_window(self) -> bool:
        """Half a window is not acknowledged (QB-173), or much in bytes, and storing keeps up with the peer.

        The documents give no rule of this kind, and without one express messages would pass 64 in 10 seconds. While
        more than a window is not stored, the acknowledgement waits for `stored`: it is what holds the peer back."""
        return ((self.unacked >= self.threshold or (self.volume >= ENOUGH_BYTES and self.unacked > 0))
                and self.recoverable_received - self._stored <= self.window_size)

    def start_timer(self, now: float, delay: float) -> None:
        """Start the Session Ack Send Timer, or bring it forward; it is never put off."""
        if now + delay < self.ack_at:
            self.ack_at = now + delay
            self.piggyback_at = now + _PIGGYBACK_SHARE * delay

    def counted(self, count: int, now: float) -> None:
        """`count` more messages are in `received`."""
        self.unacked += count
        if self.ack_at == NEVER:
            self.start_timer(now, self.ack_wait / 2)

    def stored(self, count: int, now: float) -> None:
        """The next `count` recoverable messages are durably settled."""
        if count < 0 or count > self.recoverable_received - self._stored:
            raise InvalidParameter(f"{count} messages stored of {self.unstored} received", where="session")
        if count and self._stored == self._acked:
            self.start_timer(now, self.recoverable_ack)
        self._stored += count

    def header(self, sent: int, recoverable_sent: int, now: float) -> bytes:
        """The SessionHeader for now; what it acknowledges is acknowledged (3.1.6.4, 3.1.7.1.3)."""
        count = min(self._stored - self._acked, FLAG_BITS)
        base = self._acked + 1 & 0xFFFF if count else 0
        self._acked += count
        self.unacked = self.volume = 0
        self.ack_at = self.piggyback_at = NEVER  # 3.1.6.4 would restart it, with nothing to acknowledge
        if self._stored > self._acked:
            self.start_timer(now, self.recoverable_ack)
        return SessionHeader(self.received & 0xFFFF, base, (1 << count) - 1, sent & 0xFFFF, recoverable_sent & 0xFFFF,
                             self.window_size).encode()
