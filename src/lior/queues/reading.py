"""Receive, peek and lookup ([MS-MQDMPR] 3.1.7.1.10 to 3.1.7.1.15; cursors 3.2.7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lior.errors import (
    IllegalCursorAction,
    InvalidHandle,
    LiorError,
    MessageAlreadyReceived,
    MessageLocked,
    MessageNotFound,
    QueueNotAvailable,
    TransactionSequence,
    TransactionUsage,
    WaitNotFound,
)
from lior.message import INFINITE, MessageClass
from lior.queues.change import Change, Reply
from lior.queues.core import Core
from lior.queues.descriptor import (
    PEEK_ACCESS,
    RECEIVE_ACCESS,
    Cursor,
    CursorState,
    MessageSeekAction,
    OpenQueueDescriptor,
    TwoPhaseRead,
)
from lior.queues.outgoing import OutgoingQueue
from lior.queues.position import Position, State
from lior.queues.queue import START, Queue
from lior.queues.removal import Removal
from lior.queues.sending import Sending
from lior.queues.transaction import Dequeue, Transaction
from lior.queues.waiting import WaitingRead, cancel, cancelled, timed_out

Undo = Callable[[], None]


class Reading:
    def __init__(self, core: Core, sending: Sending, removal: Removal) -> None:
        self._core = core
        self._removal = removal
        self.two_phase: dict[int, TwoPhaseRead] = {}
        sending.offer = self._offer

    # Receive

    def receive(
        self,
        descriptor: OpenQueueDescriptor,
        reply: Reply,
        *,
        timeout_ms: int = INFINITE,
        cursor: Cursor | None = None,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        tag: Any = None,
    ) -> None:
        """Take the next message, or wait for one. Answers a Message, or a TwoPhaseRead when `two_phase`."""
        self._core.require_service()
        queue = descriptor.require(RECEIVE_ACCESS, "receive")
        self._check_transaction(queue, descriptor, transaction)
        undo: Undo | None = None
        if cursor is not None:
            cursor.require_of(descriptor)
            undo = partial(cursor.go_back, cursor.key, cursor.state)
            lookup_id = self._cursor_receive(queue, cursor, no_wait=timeout_ms == 0)
        else:
            lookup_id = queue.available.first()
        if lookup_id is not None:
            position = queue.read_ahead(lookup_id, self._core.store)
            self._take(descriptor, position, transaction, two_phase, reply, undo=undo)
        else:
            self._wait(descriptor, queue, reply, timeout_ms, True, cursor, transaction, two_phase, tag)

    def _check_transaction(
        self, queue: Queue, descriptor: OpenQueueDescriptor, transaction: Transaction | None
    ) -> None:
        if transaction is None:
            return
        transaction.require_active()
        if not queue.transactional and not queue.is_system and not isinstance(queue, OutgoingQueue):
            raise TransactionUsage(
                "the queue is not transactional", where=descriptor.text, remedy="receive without a transaction"
            )

    def _cursor_receive(self, queue: Queue, cursor: Cursor, *, no_wait: bool) -> int | None:
        """[MS-MQDMPR] 3.2.7.4"""
        if cursor.state is CursorState.READ:
            if cursor.key not in queue.available:
                raise _already_received(cursor)
            cursor.state = CursorState.UNREAD
            return cursor.key
        cursor.require_idle()
        lookup_id = queue.next_visible(cursor.key, peek=False)
        if lookup_id is not None:
            cursor.key = lookup_id
        elif no_wait:
            raise MessageNotFound("no message is ahead of the cursor", where=cursor.descriptor.text)
        return lookup_id

    def _take(
        self,
        descriptor: OpenQueueDescriptor,
        position: Position,
        transaction: Transaction | None,
        two_phase: bool,
        reply: Reply,
        *,
        undo: Undo | None = None,
        allow_peek: bool = False,
    ) -> None:
        """DM-106: lock for the transaction or the two-phase read, or remove and answer after the commit."""
        if transaction is not None:
            transaction.add(Dequeue(position))
            position.queue.lock(position, transaction)
            self._show_locked(position, allow_peek)
            reply.set_result(position.read())
            return
        if two_phase:
            read = TwoPhaseRead(self._core.handle(), descriptor, position)
            self.two_phase[read.handle] = read
            position.queue.lock(position, read)
            self._show_locked(position, allow_peek)
            reply.set_result(read)
            return
        change = Change()
        message = position.read()
        self._removal.stage(change, position, MessageClass.ACK_RECEIVE)
        if undo is not None:
            change.otherwise(undo)  # before the message is back: a read that waits at the cursor may take it
        change.answer(reply, message)
        self._core.submit(change)

    def _show_locked(self, position: Position, allow_peek: bool) -> None:
        """AllowPeekWhenLocked, asked for by this reader or set in the message; it ends with the lock (DM-034)."""
        if allow_peek or position.message.allow_peek_when_locked:
            position.queue.peekable.append(position.lookup_id)

    def end(self, read: TwoPhaseRead, reply: Reply, *, delete: bool) -> None:
        """[MS-MQDMPR] 3.1.7.1.12: the reader has the message, or gives it back."""
        if self.two_phase.pop(read.handle, None) is None:
            raise TransactionSequence("this read ended already", where=read.descriptor.text)
        if read.position.state is State.DELETED or read.descriptor.queue is None:
            raise QueueNotAvailable("the queue was deleted", where=read.descriptor.text)
        change = Change()
        if delete or read.position.state is State.PURGE_PENDING:
            purged = read.position.state is State.PURGE_PENDING
            reason = self._removal.purge_reason(read.position.queue) if purged else MessageClass.ACK_RECEIVE
            change.otherwise(self.not_ended, read)
            self._removal.stage(change, read.position, reason)
        else:
            change.then(self._removal.release_from, read, read.position)
        change.answer(reply)
        self._core.submit(change)

    def not_ended(self, read: TwoPhaseRead) -> None:
        """The commit failed: the reader may end it again, if it is still there."""
        if read.descriptor.closed:
            self._removal.release_from(read, read.position)
        else:
            self.two_phase[read.handle] = read

    def give_back_of(self, descriptor: OpenQueueDescriptor) -> None:
        """The reader is gone: what it held in two-phase reads returns to the queue (DM-108)."""
        for read in [read for read in self.two_phase.values() if read.descriptor is descriptor]:
            del self.two_phase[read.handle]
            self._removal.release_from(read, read.position)

    # Peek

    def peek(
        self,
        descriptor: OpenQueueDescriptor,
        reply: Reply,
        *,
        timeout_ms: int = INFINITE,
        cursor: Cursor | None = None,
        tag: Any = None,
    ) -> None:
        """The current message of the cursor, or the first of the queue ([MS-MQDMPR] 3.1.7.1.15)."""
        self._core.require_service()
        queue = descriptor.require(PEEK_ACCESS, "peek")
        if cursor is not None:
            cursor.require_of(descriptor)
        if cursor is None:
            lookup_id = queue.next_visible(START, peek=True)
        elif cursor.state is CursorState.READ:
            if not self._visible(queue, cursor.key):
                raise _already_received(cursor)
            lookup_id = cursor.key
        else:
            cursor.require_idle()
            lookup_id = queue.next_visible(cursor.key, peek=True)
        self._show(descriptor, queue, lookup_id, reply, timeout_ms, cursor, tag)

    def peek_next(
        self,
        descriptor: OpenQueueDescriptor,
        reply: Reply,
        *,
        cursor: Cursor,
        timeout_ms: int = INFINITE,
        tag: Any = None,
    ) -> None:
        """The message after the cursor's ([MS-MQDMPR] 3.1.7.1.14)."""
        self._core.require_service()
        queue = descriptor.require(PEEK_ACCESS, "peek")
        cursor.require_of(descriptor)
        if cursor.state is not CursorState.READ:
            raise IllegalCursorAction(
                "the cursor has no current message", where=descriptor.text, remedy="peek the current message first"
            )
        lookup_id = queue.next_visible(cursor.key, peek=True)
        self._show(descriptor, queue, lookup_id, reply, timeout_ms, cursor, tag)

    def _show(
        self,
        descriptor: OpenQueueDescriptor,
        queue: Queue,
        lookup_id: int | None,
        reply: Reply,
        timeout_ms: int,
        cursor: Cursor | None,
        tag: Any,
    ) -> None:
        if lookup_id is None:
            self._wait(descriptor, queue, reply, timeout_ms, False, cursor, None, False, tag)
            return
        if cursor is not None:
            cursor.key, cursor.state = lookup_id, CursorState.READ
        reply.set_result(queue.position(lookup_id, self._core.store).read())

    def _visible(self, queue: Queue, lookup_id: int) -> bool:
        return lookup_id in queue.available or lookup_id in queue.peekable

    # By lookup id

    def read_by_lookup(
        self,
        descriptor: OpenQueueDescriptor,
        reply: Reply,
        *,
        lookup_id: int = 0,
        action: MessageSeekAction = MessageSeekAction.CURRENT,
        peek: bool = False,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> None:
        """[MS-MQDMPR] 3.1.7.1.13; never waits. `allow_peek` keeps the message visible to peeks while the
        transaction or two-phase read holds it."""
        self._core.require_service()
        queue = descriptor.require(PEEK_ACCESS if peek else RECEIVE_ACCESS, "read by lookup id")
        self._check_transaction(queue, descriptor, transaction)
        found = self._seek(queue, descriptor, lookup_id, action, peek)
        position = queue.position(found, self._core.store)
        if peek:
            reply.set_result(position.read())
            return
        self._take(descriptor, position, transaction, two_phase, reply, allow_peek=allow_peek)

    def _seek(
        self, queue: Queue, descriptor: OpenQueueDescriptor, lookup_id: int, action: MessageSeekAction, peek: bool
    ) -> int:
        """[MS-MQDMPR] 3.1.7.3.3. First and last need no message to start from (DM-110)."""
        found: int | None
        if action is MessageSeekAction.FIRST:
            found = queue.next_visible(START, peek=peek)
        elif action is MessageSeekAction.LAST:
            found = queue.previous_visible(1 << 63, peek=peek)
        elif lookup_id not in queue:
            found = None
        elif action is MessageSeekAction.NEXT:
            found = queue.next_visible(lookup_id, peek=peek)
        elif action is MessageSeekAction.PREVIOUS:
            found = queue.previous_visible(lookup_id, peek=peek)
        else:
            found = lookup_id if self._visible(queue, lookup_id) else None
            if found is None or (not peek and lookup_id not in queue.available):
                raise _locked(descriptor, lookup_id, peek)
        if found is None:
            raise MessageNotFound(f"no message {action.value} of lookup id {lookup_id}", where=descriptor.text)
        return found

    # Waiting

    def _wait(
        self,
        descriptor: OpenQueueDescriptor,
        queue: Queue,
        reply: Reply,
        timeout_ms: int,
        destructive: bool,
        cursor: Cursor | None,
        transaction: Transaction | None,
        two_phase: bool,
        tag: Any,
    ) -> None:
        """[MS-MQDMPR] 3.1.7.3.1, in milliseconds (DM-061)."""
        if timeout_ms <= 0:
            raise timed_out(descriptor)
        deadline = None if timeout_ms == INFINITE else self._core.clock.monotonic() + timeout_ms / 1000
        wait = WaitingRead(
            descriptor, reply, destructive=destructive, deadline=deadline,
            cursor=cursor, transaction=transaction, two_phase=two_phase, tag=tag,
        )  # fmt: skip
        self._core.waits.add(queue, wait)
        if deadline is not None:
            self._core.wake()

    def _offer(self, position: Position) -> bool:
        """[MS-MQDMPR] 3.1.7.2.2: first come, first served; peekers pass the message on, a receiver keeps
        it. True if it was taken."""
        waiters = position.queue.waiters
        for wait in list(waiters):
            if wait.done or not wait.accepts(position.lookup_id):
                continue
            if wait.reply.cancelled():
                cancel(wait, cancelled(wait.descriptor, "its caller went away"))
                continue
            waiters.remove(wait)
            cursor, reply = wait.cursor, wait.reply
            undo = None if cursor is None else partial(cursor.go_back, cursor.key, wait.resume)
            wait.satisfied(position.lookup_id)
            if not wait.destructive:
                reply.set_result(position.read())
                continue
            try:
                self._take(wait.descriptor, position, wait.transaction, wait.two_phase, reply, undo=undo)
            except LiorError as error:  # the transaction ended while it waited
                reply.set_exception(error)
                continue
            return True
        return False

    def cancel(self, queue: Queue, tag: Any) -> None:
        """[MS-MQDMPR] 3.1.7.1.17"""
        if not self._cancel(queue, tag, "on request"):
            raise WaitNotFound(f"no read waits under the tag {tag}", where=queue.name)

    def cancel_quietly(self, queue: Queue, tag: Any) -> None:
        """As `cancel`, for a caller that is gone already."""
        self._cancel(queue, tag, "its caller went away")

    def _cancel(self, queue: Queue, tag: Any, why: str) -> bool:
        wait = next((wait for wait in queue.waiters if tag is not None and wait.tag == tag), None)
        if wait is not None:
            cancel(wait, cancelled(wait.descriptor, why))
        return wait is not None

    def cancel_of(self, descriptor: OpenQueueDescriptor, why: str, cursor: Cursor | None = None) -> None:
        """End the waits of a descriptor, or only those of one of its cursors."""
        queue = descriptor.queue
        for wait in list(queue.waiters) if queue is not None else ():
            if wait.descriptor is descriptor and (cursor is None or wait.cursor is cursor):
                cancel(wait, cancelled(descriptor, why))

    def cancel_of_transaction(self, transaction: Transaction) -> None:
        for queue in self._core.queues.values():
            for wait in list(queue.waiters):
                if wait.transaction is transaction:
                    cancel(wait, cancelled(wait.descriptor, "its transaction ended"))

    # Cursors

    def open_cursor(self, descriptor: OpenQueueDescriptor) -> Cursor:
        """[MS-MQDMPR] 3.1.7.1.1"""
        descriptor.require(PEEK_ACCESS, "open a cursor")
        cursor = Cursor(self._core.handle(), descriptor)
        descriptor.cursors[cursor.handle] = cursor
        return cursor

    def close_cursor(self, cursor: Cursor) -> None:
        """[MS-MQDMPR] 3.1.7.1.2. Reads that wait at the cursor end as cancelled."""
        if cursor.descriptor.cursors.pop(cursor.handle, None) is None:
            raise InvalidHandle("the cursor is closed", where=cursor.descriptor.text)
        self.cancel_of(cursor.descriptor, "its cursor was closed", cursor)


def _already_received(cursor: Cursor) -> MessageAlreadyReceived:
    return MessageAlreadyReceived(
        "another reader took the message under the cursor",
        where=cursor.descriptor.text,
        remedy="go on with the next message",
    )


def _locked(descriptor: OpenQueueDescriptor, lookup_id: int, peek: bool) -> LiorError:
    kind = TransactionUsage if peek else MessageLocked
    what = f"message {lookup_id} is held by a transaction or another reader"
    return kind(what, where=descriptor.text, remedy="try again when its transaction ended")
