"""When messages expire ([MS-MQDMPR] 3.1.2.4): one heap of numbers, not a timer for each message."""

import heapq
from collections.abc import Callable
from math import ceil, floor
from typing import NamedTuple

from lior.message import INFINITE, Message

_ID_BITS = 64
_QUEUE_BITS = 48
_MANY = 1 << 16  # entries: below that it is not worth looking which of them are of use


class Due(NamedTuple):
    queue_id: int
    lookup_id: int


class ExpiryQueue:
    """Entries (expires, queue, lookup id), each packed into one integer. Entries of messages that are
    gone stay until they come up; who takes them checks that the message is still there."""

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._many = _MANY
        self.is_there: Callable[[int, int], bool] | None = None  # set when everything is loaded

    def _sweep(self) -> None:
        """Drop the entries of messages that are gone, before they outnumber the others: where messages live for
        days and are read at once, they would fill the memory."""
        if self.is_there is not None:
            self._heap = [entry for entry in self._heap if self.is_there(*_due(entry))]
            heapq.heapify(self._heap)
        self._many = max(_MANY, 2 * len(self._heap))

    def add(self, expires: int, queue_id: int, lookup_id: int) -> None:
        if len(self._heap) >= self._many:
            self._sweep()
        heapq.heappush(self._heap, (expires << _QUEUE_BITS | queue_id) << _ID_BITS | lookup_id)

    def next(self) -> int | None:
        """When the next entry is due, unix seconds."""
        return self._heap[0] >> (_QUEUE_BITS + _ID_BITS) if self._heap else None

    def take_due(self, now: float, limit: int) -> list[Due]:
        due: list[Due] = []
        while self._heap and len(due) < limit and (self._heap[0] >> (_QUEUE_BITS + _ID_BITS)) <= now:
            due.append(_due(heapq.heappop(self._heap)))
        return due

    def __len__(self) -> int:
        return len(self._heap)


def _due(entry: int) -> Due:
    return Due(entry >> _ID_BITS & ((1 << _QUEUE_BITS) - 1), entry & ((1 << _ID_BITS) - 1))


def time_to_be_received_end(message: Message) -> int:
    """The second from which the message counts as not received in time; 0 for never. A message with time
    to be received t lives t whole seconds from its sent time. A dead letter has its failure behind it."""
    if message.failure_reason:
        return 0
    return _end(message, message.time_to_be_received)


def time_to_reach_queue_end(message: Message) -> int:
    """The second from which the message is late for its queue; 0 for never. On the wire both times are whole seconds,
    and it is late when more of them have passed than it was given (MQ-078)."""
    seconds = message.time_to_reach_queue
    return 0 if seconds == INFINITE else int(message.sent_time) + seconds + 1


def _end(message: Message, seconds: int) -> int:
    """Rounded up to whole seconds, but no time at all ends at once (DM-062)."""
    if seconds == INFINITE:
        return 0
    return max(1, ceil(message.sent_time + seconds) if seconds else floor(message.sent_time))


def in_transit_end(message: Message) -> int:
    """The first of the two, while the message waits in an outgoing queue."""
    ends = [end for end in (time_to_be_received_end(message), time_to_reach_queue_end(message)) if end]
    return min(ends, default=0)
