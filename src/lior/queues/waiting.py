"""Reads that wait for a message ([MS-MQDMPR] 3.1.1.10, 3.1.7.3.1). Each completes exactly once."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

from lior.errors import LiorError, OperationCancelled, Timeout
from lior.queues.change import Reply
from lior.queues.descriptor import Cursor, CursorState, OpenQueueDescriptor
from lior.queues.queue import Queue

if TYPE_CHECKING:
    from lior.queues.transaction import Transaction


class WaitingRead:
    __slots__ = (
        "cursor",
        "deadline",
        "descriptor",
        "destructive",
        "done",
        "reply",
        "resume",
        "tag",
        "transaction",
        "two_phase",
    )

    def __init__(
        self,
        descriptor: OpenQueueDescriptor,
        reply: Reply,
        *,
        destructive: bool,
        deadline: float | None,
        cursor: Cursor | None,
        transaction: Transaction | None,
        two_phase: bool,
        tag: Any,
    ) -> None:
        self.descriptor = descriptor
        self.reply = reply
        self.destructive = destructive
        self.deadline = deadline  # on the monotonic clock
        self.cursor = cursor
        self.transaction = transaction
        self.two_phase = two_phase
        self.tag = tag
        self.done = False
        self.resume = CursorState.UNREAD if cursor is None else cursor.state  # if nothing comes
        if cursor is not None:
            cursor.state = CursorState.WAIT_RECEIVE if destructive else CursorState.WAIT_PEEK

    def accepts(self, lookup_id: int) -> bool:
        """A cursor does not look back: a message of higher priority behind it is not offered."""
        return self.cursor is None or lookup_id > self.cursor.key

    def satisfied(self, lookup_id: int) -> None:
        """[MS-MQDMPR] 3.2.7.5. Its deadline may stay in the heap for long: nothing else stays with it."""
        self.done = True
        self.reply, self.tag = _ANSWERED, None
        if self.cursor is not None:
            self.cursor.key = lookup_id
            waited_to_peek = self.cursor.state is CursorState.WAIT_PEEK
            self.cursor.state = CursorState.READ if waited_to_peek else CursorState.UNREAD

    def give_up(self, error: LiorError) -> None:
        """Timed out, cancelled or orphaned. The cursor stays where it was, so that messages that come
        later are still ahead of it ([MS-MQDMPR] 3.2.7.6 parks it at the end of today's list)."""
        self.done = True
        if self.cursor is not None:
            self.cursor.state = self.resume
        reply, self.reply, self.tag = self.reply, _ANSWERED, None
        reply.set_exception(error)


class _Answered:
    """In place of the reply of a read that ended."""

    def cancelled(self) -> bool:
        return True

    def set_result(self, value: Any, /) -> None:
        raise AssertionError("answered twice")

    set_exception = set_result


_ANSWERED: Final = _Answered()
_FEW: Final = 64


class Waits:
    """Every waiting read of the queue manager, by deadline."""

    def __init__(self) -> None:
        self._deadlines: list[tuple[float, int, WaitingRead]] = []
        self._order = 0
        self._many = _FEW

    def add(self, queue: Queue, wait: WaitingRead) -> None:
        queue.waiters.append(wait)
        if wait.deadline is not None:
            self._order += 1
            if len(self._deadlines) >= self._many:
                self._sweep()
            heapq.heappush(self._deadlines, (wait.deadline, self._order, wait))

    def _sweep(self) -> None:
        """Drop the deadlines of reads that ended, before they outnumber the others."""
        self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
        heapq.heapify(self._deadlines)
        self._many = max(_FEW, 2 * len(self._deadlines))

    def deadline(self) -> float | None:
        heap = self._deadlines
        while heap and heap[0][2].done:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def expire(self, now: float) -> None:
        """End the waits whose time is over ([MS-MQDMPR] 3.1.6.3)."""
        heap = self._deadlines
        while heap and (heap[0][2].done or heap[0][0] <= now):
            wait = heapq.heappop(heap)[2]
            if not wait.done:
                _leave(wait)
                wait.give_up(timed_out(wait.descriptor))


def timed_out(descriptor: OpenQueueDescriptor) -> Timeout:
    return Timeout("no message arrived in time", where=descriptor.text)


def cancelled(descriptor: OpenQueueDescriptor, why: str) -> OperationCancelled:
    return OperationCancelled(f"the read was cancelled: {why}", where=descriptor.text)


def cancel(wait: WaitingRead, error: LiorError) -> None:
    _leave(wait)
    wait.give_up(error)


def _leave(wait: WaitingRead) -> None:
    queue = wait.descriptor.queue
    if queue is not None and wait in queue.waiters:
        queue.waiters.remove(wait)
