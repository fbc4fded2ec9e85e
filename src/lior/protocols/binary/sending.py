"""The sending half of a session: numbers, window, and what acknowledgements give back ([MS-MQQB] 3.1.5.5, 3.1.7.1.3).

Numbers count from 1 for the whole life of the session and never wrap here; the 16 bits on the wire are their low half,
and a value from the peer means the number nearest to where we are. Nothing is ever compared as 16 bits.
"""

from collections import deque
from collections.abc import Sequence
from itertools import count, repeat
from typing import Final

from lior.errors import Malformed

# A peer may acknowledge what it received and never what it stored. Further apart than this, 16 bits would not say any
# more which message is meant; the window closes before.
MOST_UNSAVED: Final = 0x4000

_SAVED: Final = object()  # in place of the token of a message that is stored while an older one is not


class SendingHalf:
    """What was sent and is not settled. Tokens are the caller's; each is given back once.

    A message is in flight until AckSequenceNumber covers it. A recoverable one is then unsaved until the
    RecoverableMsgAck fields cover it. Nothing that was not sent on this session is ever touched."""

    __slots__ = ("_flight", "_holes", "_received_recoverable", "_unsaved", "_unsaved_first", "limit", "own_window",
                 "peer_window", "recoverable_sent", "sent", "usual_window", "window")

    def __init__(self, own_window: int) -> None:
        self.own_window = own_window
        self.peer_window = 0  # ReceivedWindowSize; nothing may be sent before it is known
        self.usual_window = 0  # what it grows back to when the peer made it smaller for a while
        self.limit = 0  # messages that may be in flight
        self.window = 0  # of these, the ones that are free; below zero where the peer has made its window smaller
        self.sent = 0  # MessageSentCount
        self.recoverable_sent = 0  # RecoverableMessageSentCount
        self._received_recoverable = 0  # how many of these AckSequenceNumber covers
        self._flight: deque[tuple[object, int]] = deque()  # token, recoverable number or 0
        self._unsaved: deque[object] = deque()  # tokens of recoverable messages, in order
        self._unsaved_first = 1  # number of the first of them
        self._holes = 0  # how many of them are _SAVED

    @property
    def in_flight(self) -> int:
        """UnAckedMessageCount: messages in flight on this session, not the backlog behind it (3.1.3.2 says that)."""
        return len(self._flight)

    def send(self, token: object, recoverable: bool) -> None:
        """Number a message. The caller has seen that the window is open."""
        self.window -= 1
        self.sent += 1
        if recoverable:
            self.recoverable_sent = number = self.recoverable_sent + 1
            self._unsaved.append(token)
            self._flight.append((token, number))
        else:
            self._flight.append((token, 0))

    def send_all(self, tokens: Sequence[object], recoverable: Sequence[bool]) -> None:
        """As `send` for each; there is room for all of them."""
        if True not in recoverable:
            self._flight.extend(zip(tokens, repeat(0), strict=False))
        elif False not in recoverable:
            first = self.recoverable_sent + 1
            self.recoverable_sent += len(tokens)
            self._unsaved.extend(tokens)
            self._flight.extend(zip(tokens, count(first), strict=False))
        else:
            for token, one in zip(tokens, recoverable, strict=True):
                self.send(token, one)
            return
        self.window -= len(tokens)
        self.sent += len(tokens)

    # ---- acknowledgements -------------------------------------------------------------------------------------------

    def acknowledge(self, ack_sequence_number: int) -> list[object]:
        """Tokens of the messages that AckSequenceNumber covers for the first time, in order (3.1.5.5.1)."""
        flight = self._flight
        covered = ack_sequence_number - (self.sent - len(flight)) & 0xFFFF
        if covered > len(flight):
            raise Malformed(f"AckSequenceNumber {ack_sequence_number}, {self.sent & 0xFFFF} are sent",
                            where="SessionHeader")
        tokens = []
        popleft = flight.popleft
        for _ in range(covered):
            token, number = popleft()
            tokens.append(token)
            if number:
                self._received_recoverable = number
        return tokens

    def persist(self, base: int, flags: int) -> list[object]:
        """Tokens of the recoverable messages that the peer has stored since, in order (3.1.5.5.3).

        Everything below the base is stored too. The base itself needs its bit: where no bit is set there is no base,
        and a base is 0 in good faith when 16 bits wrap."""
        if not flags:
            return []
        first = self._unsaved_first
        start = first + (base - first + 0x8000 & 0xFFFF) - 0x8000
        if start < 1 or start + flags.bit_length() - 1 > self._received_recoverable:
            raise Malformed(f"recoverable messages from {base}, flags 0x{flags:08X}, stored; "
                            f"{self._received_recoverable & 0xFFFF} are received", where="SessionHeader")
        if start >= first:
            settled = start - first
        else:
            flags >>= first - start
            settled = 0
        run = (~flags & flags + 1).bit_length() - 1  # ones at the low end
        tokens = self._take(settled + run)
        if rest := flags >> run:
            tokens += self._take_apart(rest)
        return tokens

    def _take(self, many: int) -> list[object]:
        popleft = self._unsaved.popleft
        tokens = [popleft() for _ in range(many)]
        self._unsaved_first += many
        if self._holes:
            tokens = [token for token in tokens if token is not _SAVED]
            self._holes -= many - len(tokens)
        return tokens

    def _take_apart(self, flags: int) -> list[object]:
        """Those behind a hole: bit k is the k-th of the unsaved."""
        unsaved, tokens = self._unsaved, []
        for at in range(flags.bit_length()):
            if flags >> at & 1 and unsaved[at] is not _SAVED:
                tokens.append(unsaved[at])
                unsaved[at] = _SAVED
                self._holes += 1
        return tokens

    def remaining(self) -> list[object]:
        """The tokens that were not given back, in the order of sending; they are forgotten here."""
        tokens: list[object] = []
        received = self._received_recoverable - self._unsaved_first + 1
        for token in self._unsaved:
            if received <= 0:
                break
            received -= 1
            if token is not _SAVED:
                tokens.append(token)
        tokens += [token for token, _ in self._flight]
        self._flight.clear()
        self._unsaved.clear()
        self.close()
        return tokens

    # ---- window -----------------------------------------------------------------------------------------------------

    def set_peer_window(self, size: int) -> None:
        """What the peer says its window is. 0 would stop us for ever; it means 1."""
        self.peer_window = size or 1
        self.usual_window = max(self.usual_window, self.peer_window)
        self.limit = min(self.own_window, self.peer_window)

    def recover(self) -> bool:
        """Double a window that the peer made smaller ([MS-MQMQ] 2.2.20.4, note 15); True while it is below usual."""
        self.set_peer_window(min(2 * self.peer_window, self.usual_window))
        self.refresh()
        return self.peer_window < self.usual_window

    def refresh(self) -> None:
        """The free part of the window, after anything but `send` has changed."""
        self.window = min(self.limit - len(self._flight), MOST_UNSAVED - len(self._unsaved))

    def close(self) -> None:
        self.limit = self.window = self.peer_window = 0
