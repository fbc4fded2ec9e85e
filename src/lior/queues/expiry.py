"""When messages expire ([MS-MQDMPR] 3.1.2.4): one heap of numbers, not a timer for each message."""

import heapq
from math import ceil, floor
from typing import NamedTuple

from lior.message import INFINITE, Message

_ID_BITS = 64
_QUEUE_BITS = 48


class Due(NamedTuple):
    queue_id: int
    lookup_id: int


class ExpiryQueue:
    """Entries (expires, queue, lookup id), each packed into one integer. Entries of messages that are
    gone stay until they come up; who takes them checks that the message is still there."""

    def __init__(self) -> None:
        self._heap: list[int] = []

    def add(self, expires: int, queue_id: int, lookup_id: int) -> None:
        heapq.heappush(self._heap, (expires << _QUEUE_BITS | queue_id) << _ID_BITS | lookup_id)

    def next(self) -> int | None:
        """When the next entry is due, unix seconds."""
        return self._heap[0] >> (_QUEUE_BITS + _ID_BITS) if self._heap else None

    def take_due(self, now: float, limit: int) -> list[Due]:
        due: list[Due] = []
        while self._heap and len(due) < limit and (self._heap[0] >> (_QUEUE_BITS + _ID_BITS)) <= now:
            entry = heapq.heappop(self._heap)
            due.append(Due(entry >> _ID_BITS & ((1 << _QUEUE_BITS) - 1), entry & ((1 << _ID_BITS) - 1)))
        return due

    def __len__(self) -> int:
        return len(self._heap)


def time_to_be_received_end(message: Message) -> int:
    """The second from which the message counts as not received in time; 0 for never. A message with time
    to be received t lives t whole seconds from its sent time. A dead letter has its failure behind it."""
    if message.failure_reason:
        return 0
    return _end(message, message.time_to_be_received)


def time_to_reach_queue_end(message: Message) -> int:
    """The second from which the message is late for its queue; 0 for never."""
    return _end(message, message.time_to_reach_queue)


def _end(message: Message, seconds: int) -> int:
    """Rounded up to whole seconds, but no time at all ends at once (DM-062)."""
    if seconds == INFINITE:
        return 0
    return max(1, ceil(message.sent_time + seconds) if seconds else floor(message.sent_time))


def in_transit_end(message: Message) -> int:
    """The first of the two, while the message waits in an outgoing queue."""
    ends = [end for end in (time_to_be_received_end(message), time_to_reach_queue_end(message)) if end]
    return min(ends, default=0)
