"""Subqueues, moving messages between them, rejecting, and the poison policy ([MS-MQDMPR] 3.1.7.1.16)."""

from __future__ import annotations

from lior.errors import MessageNotFound, TransactionUsage, UnsupportedOperation
from lior.message import MessageClass
from lior.names import PathName
from lior.queues.change import Change, Reply
from lior.queues.core import Core
from lior.queues.definition import QueueProperties, QueueType
from lior.queues.descriptor import (
    MOVE_SOURCE_ACCESS,
    MOVE_TARGET_ACCESS,
    RECEIVE_ACCESS,
    OpenQueueDescriptor,
)
from lior.queues.outgoing import OutgoingQueue, OutgoingState
from lior.queues.ports import DeleteQueue, MoveMessage
from lior.queues.position import Position, Step
from lior.queues.queue import Queue
from lior.queues.removal import Removal
from lior.queues.sending import Sending
from lior.queues.transaction import Move, Transaction

POISON = "poison"


class Moving:
    def __init__(self, core: Core, sending: Sending, removal: Removal) -> None:
        self._core = core
        self._sending = sending
        self._removal = removal
        removal.after_removal = self.forget_if_unused

    # Subqueues

    def subqueue(self, parent: Queue, name: str) -> Queue:
        """The subqueue of that name, made if need be; it is written to the store with its first message."""
        found = parent.subqueues.get(name.casefold())
        if found is not None:
            return found
        assert parent.path is not None
        path: PathName = parent.path.with_subqueue(name)
        made = Queue(
            self._core.take_queue_id(),
            QueueType.SUBQUEUE,
            f"{parent.name};{name}",
            QueueProperties(),
            identifier=self._core.ids.guid(),
            path=path,
            create_time=int(self._core.clock.wall()),
            parent=parent,
            cache=self._core.cache,
        )
        parent.subqueues[name.casefold()] = made
        self._core.queues[made.queue_id] = made
        return made

    def forget_if_unused(self, queue: Queue) -> None:
        """A subqueue is gone when it is empty and nobody has it open (DM-117), an outgoing queue when it was
        opened and never sent to: names cost no memory for good."""
        if isinstance(queue, OutgoingQueue):
            self._forget_outgoing(queue)
            return
        if queue.kind is not QueueType.SUBQUEUE or queue.deleted or queue.parent is None or queue.path is None:
            return
        if queue.message_count or queue.descriptors or queue.staged_inserts or self._is_awaited(queue):
            return
        queue.deleted = True
        key = queue.path.subqueue.casefold()
        if queue.parent.subqueues.get(key) is queue:
            del queue.parent.subqueues[key]
        del self._core.queues[queue.queue_id]
        if queue.persisted:
            change = Change()
            change.operations.append(DeleteQueue(queue.queue_id))
            self._core.submit(change)

    def _forget_outgoing(self, queue: OutgoingQueue) -> None:
        idle = queue.state in (OutgoingState.INACTIVE, OutgoingState.LOCKED) and not queue.persisted
        if idle and not (queue.message_count or queue.descriptors or queue.staged_inserts or queue.uncommitted_bytes):
            self._core.outgoing.pop(queue.destination.key, None)
            self._core.queues.pop(queue.queue_id, None)

    def forget_idle(self, change: Change, queue: OutgoingQueue) -> bool:
        """An outgoing queue that was used and has nothing left: whoever can have messages sent to names of his choice
        (an administration queue is one) would fill memory and disk with empty queues."""
        if queue.message_count or queue.descriptors or queue.staged_inserts or queue.uncommitted_bytes:
            return False
        if queue.state in (OutgoingState.ON_HOLD, OutgoingState.LOCKED):
            return False
        if queue.stream is not None and not queue.stream.is_finished:
            return False
        queue.deleted = True
        self._core.outgoing.pop(queue.destination.key, None)
        self._core.queues.pop(queue.queue_id, None)
        if queue.persisted:
            change.operations.append(DeleteQueue(queue.queue_id))
        return True

    def _is_awaited(self, queue: Queue) -> bool:
        """An open transaction moves messages into it."""
        return any(
            isinstance(operation, Move) and operation.target is queue
            for transaction in self._core.transactions.values()
            for operation in transaction.operations
        )

    # Move

    def move(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        transaction: Transaction | None,
        reply: Reply,
    ) -> None:
        self._core.require_service()
        source_queue = source.require(MOVE_SOURCE_ACCESS, "move a message from it")
        target_queue = target.require(MOVE_TARGET_ACCESS, "move a message into it")
        self._check_family(source_queue, target_queue, target)
        if transaction is not None:
            transaction.require_active()
            if not source_queue.transactional:
                raise TransactionUsage("the queue is not transactional", where=source.text)
        if lookup_id not in source_queue.available:
            raise MessageNotFound(
                f"no available message has the lookup id {lookup_id}",
                where=source.text,
                remedy="it may be received already, or held by a transaction",
            )
        position = source_queue.position(lookup_id, self._core.store)
        if transaction is not None:
            transaction.add(Move(position, target_queue))
            source_queue.lock(position, transaction)
            reply.set_result(None)
            return
        change = Change()
        self.stage(change, position, target_queue)
        change.answer(reply)
        self._core.submit(change)

    def _check_family(self, source: Queue, target: Queue, descriptor: OpenQueueDescriptor) -> None:
        if source.main is not target.main or source.is_system or target.is_system:
            raise UnsupportedOperation(
                "messages move only between a queue and its own subqueues",
                where=descriptor.text,
                remedy="to take them elsewhere, receive and send them",
            )
        if source is target:
            raise UnsupportedOperation("the message is in that queue already", where=descriptor.text)

    def stage(self, change: Change, position: Position, target: Queue) -> None:
        """Move as part of a change. The lookup id and the arrival time stay, so that readers find the
        message in the subqueue under the id they know (DM-116)."""
        source = position.queue
        now = self._core.clock.wall()
        self._removal.hold(change, position)
        moved = Position(
            target,
            position.lookup_id,
            position.message,
            position.arrival_time,
            position.stored,
            expires=position.expires,
            abort_count=0,
            move_count=position.move_count + 1,
            last_move_time=now,
        )
        if position.stored:
            if not target.persisted:
                self._sending.stage_definition(change, target)
            change.operations.append(
                MoveMessage(
                    source.queue_id,
                    position.lookup_id,
                    target.queue_id,
                    moved.lookup_id,
                    moved.abort_count,
                    moved.move_count,
                    moved.last_move_time,
                )
            )
        else:
            change.ordered = True
        target.staged_inserts += 1
        change.then(self._moved, position, moved)
        change.otherwise(self._not_moved, moved)

    def _moved(self, position: Position, moved: Position) -> None:
        moved.queue.staged_inserts -= 1
        position.queue.delete(position)
        moved.queue.total_bytes += moved.size
        moved.step(Step.PUBLISH)
        if moved.expires:
            self._core.expiries.add(moved.expires, moved.queue.queue_id, moved.lookup_id)
        if self._core.fates is not None:
            self._core.fates.moved(position, moved)
        self._sending.make_available(moved)
        self.forget_if_unused(position.queue)

    def _not_moved(self, moved: Position) -> None:
        moved.queue.staged_inserts -= 1
        moved.step(Step.DELETE)
        self.forget_if_unused(moved.queue)

    # Reject and poison

    def reject(self, descriptor: OpenQueueDescriptor, lookup_id: int, transaction: Transaction, reply: Reply) -> None:
        """The message that the transaction received is refused: its commit sends the rejection and makes
        the dead letter, instead of a receipt."""
        self._core.require_service()
        queue = descriptor.require(RECEIVE_ACCESS, "reject a message")
        transaction.require_active()
        if lookup_id not in queue:
            raise MessageNotFound(f"no message has the lookup id {lookup_id}", where=descriptor.text)
        position = queue.position(lookup_id, self._core.store)
        transaction.dequeue_of(position).reason = MessageClass.NACK_RECEIVE_REJECTED
        reply.set_result(None)

    def poison_target(self, position: Position) -> Queue | None:
        """Where a message goes that was given back once too often; None while it may try again."""
        queue = position.queue
        limit = queue.main.properties.max_aborts
        if limit is None or queue.is_system or queue.deleted or position.abort_count <= limit:
            return None
        poison = self.subqueue(queue.main, POISON)
        return None if poison is queue else poison
