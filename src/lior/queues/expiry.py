"""When messages expire ([MS-MQDMPR] 3.1.2.4): one heap of numbers, not a timer for each message."""

import heapq
from array import array
from collections.abc import Callable, Iterable
from math import ceil, floor
from typing import NamedTuple

from lior.message import INFINITE, Message

_QUEUE_BITS = 48
_QUEUE_MASK = (1 << _QUEUE_BITS) - 1
_MANY = 1 << 16  # entries: below that it is not worth looking which of them are of use


class Due(NamedTuple):
    queue_id: int
    lookup_id: int


class ExpiryQueue:
    """Lookup ids by second and queue, eight bytes each. Those of messages that are gone stay until they come up;
    who takes them checks that the message is still there."""

    def __init__(self) -> None:
        self._heap: list[int] = []  # second and queue in one number, once each
        self._ids: dict[int, array[int]] = {}
        self._count = 0
        self._many = _MANY
        # Of these lookup ids those that are in the queue; set when everything is loaded
        self.still_there: Callable[[int, Iterable[int]], Iterable[int]] | None = None

    def _sweep(self) -> None:
        """Drop the entries of messages that are gone, before they outnumber the others: where messages live for
        days and are read at once, they would fill the memory."""
        if self.still_there is not None:
            for key, ids in list(self._ids.items()):
                left = array("Q", self.still_there(key & _QUEUE_MASK, ids))
                self._count -= len(ids) - len(left)
                if left:
                    self._ids[key] = left
                else:
                    del self._ids[key]
            self._heap = list(self._ids)
            heapq.heapify(self._heap)
        self._many = max(_MANY, 2 * self._count)

    def add(self, expires: int, queue_id: int, lookup_id: int) -> None:
        key = expires << _QUEUE_BITS | queue_id
        ids = self._ids.get(key)
        if ids is None:
            ids = self._ids[key] = array("Q")
            heapq.heappush(self._heap, key)
        ids.append(lookup_id)
        self._count += 1
        if self._count > self._many:
            self._sweep()

    def add_all(self, expires: int, queue_id: int, lookup_ids: list[int]) -> None:
        """As `add` for each."""
        self.add(expires, queue_id, lookup_ids[0])
        ids = self._ids.get(expires << _QUEUE_BITS | queue_id)
        if ids is None:  # what was there was of no use, it seems
            for lookup_id in lookup_ids[1:]:
                self.add(expires, queue_id, lookup_id)
            return
        ids.extend(lookup_ids[1:])
        self._count += len(lookup_ids) - 1

    def next(self) -> int | None:
        """When the next entry is due, unix seconds."""
        return self._heap[0] >> _QUEUE_BITS if self._heap else None

    def take_due(self, now: float, limit: int) -> list[Due]:
        due: list[Due] = []
        while self._heap and len(due) < limit and (self._heap[0] >> _QUEUE_BITS) <= now:
            key = self._heap[0]
            ids = self._ids[key]
            some = ids[: limit - len(due)]
            due += [Due(key & _QUEUE_MASK, lookup_id) for lookup_id in some]
            del ids[: len(some)]
            if not ids:
                del self._ids[key]
                heapq.heappop(self._heap)
        self._count -= len(due)
        return due

    def __len__(self) -> int:
        return self._count


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
    return ceil(message.sent_time + seconds) if seconds and message.sent_time > 0 else _at_once(message, seconds)


def _at_once(message: Message, seconds: int) -> int:
    return max(1, ceil(message.sent_time + seconds) if seconds else floor(message.sent_time))


def in_transit_end(message: Message) -> int:
    """The first of the two, while the message waits in an outgoing queue."""
    reach = time_to_reach_queue_end(message)
    received = message.time_to_be_received
    if received == INFINITE or message.failure_reason:
        return reach
    end = _end(message, received)
    return min(reach, end) if reach else end
