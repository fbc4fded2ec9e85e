"""Small calculators for streams of transactional messages ([MS-MQQB] 3.1.1.6.2, 3.1.5.6, 3.1.5.8.6).

They hold times and nothing else: what a stream has acknowledged and accepted is durable and lives with the queues.
"""

from typing import Final

from lior.protocols.binary.settings import SessionSettings

NEVER: Final = float("inf")


def accept(last_id: int, last_number: int, tx_sequence_id: int, number: int, previous: int) -> bool:
    """Whether a message is the next of its stream (3.1.5.8.6); `last_*` are the stream's position, 0 for none.

    Whoever asks drops the message where this is False, leaves the position as it is, and schedules an OrderAck either
    way: a duplicate means that ours was lost."""
    if tx_sequence_id == last_id:
        return number > last_number and previous <= last_number
    return tx_sequence_id > last_id and previous == 0


class ResendLadder:
    """The Transactional Ack Wait Timer of one outgoing stream (3.1.2.6, note 24).

    The interval grows with every timeout in a row. The text moves it on every OrderAck instead, which would punish a
    peer that answers (3.1.5.6); and it starts the timer on first transmissions only, which would stop it for good
    after one resend (3.1.7.1.3)."""

    __slots__ = ("_table", "deadline", "index")

    def __init__(self, table: tuple[float, ...], index: int = 0) -> None:
        self._table = table
        self.index = min(max(index, 0), len(self._table) - 1)  # ResendIntervalIndex
        self.deadline = NEVER  # ResendTime

    @property
    def interval(self) -> float:
        """ResendInterval."""
        return self._table[self.index]

    def sent(self, now: float) -> None:
        """A message of the stream went out; the timer runs from the first one that nobody acknowledged."""
        if self.deadline == NEVER:
            self.deadline = now + self._table[self.index]

    def acknowledged(self, remaining: bool, now: float) -> None:
        """An OrderAck made progress; `remaining` messages are sent and not acknowledged."""
        self.index = 0
        self.deadline = now + self._table[0] if remaining else NEVER

    def timed_out(self, now: float) -> bool:
        """True when everything not acknowledged is to be sent again; the timer runs again then."""
        if now < self.deadline:
            return False
        self.index = min(self.index + 1, len(self._table) - 1)
        self.deadline = now + self._table[self.index]
        return True

    def stop(self) -> None:
        """Nothing is under way: the stream is empty, or has no session to be sent on."""
        self.deadline = NEVER


class OrderAckSchedule:
    """The Order Ack Send Timer of one incoming stream (3.1.2.7): a row of messages gets one OrderAck, not too late."""

    __slots__ = ("_delay", "_last_sent", "_longest", "deadline")

    def __init__(self, settings: SessionSettings, now: float) -> None:
        self._delay = settings.order_ack
        self._longest = settings.longest_order_ack_delay
        self._last_sent = now  # LastOrderAckSendTime starts with the stream (3.1.3.2)
        self.deadline = NEVER

    def received(self, now: float) -> None:
        """A message of the stream is settled durably, as accepted, rejected or duplicate."""
        if self.deadline == NEVER or now - self._last_sent < self._longest:
            self.deadline = now + self._delay

    def due(self, now: float) -> bool:
        """True when the OrderAck is to be sent now; it counts as sent."""
        if now < self.deadline:
            return False
        self.deadline = NEVER
        self._last_sent = now
        return True
