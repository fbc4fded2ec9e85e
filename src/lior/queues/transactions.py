"""Begin, prepare, commit, abort and recovery ([MS-MQDMPR] 3.1.4.3 to 3.1.4.11, 3.1.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from lior.errors import InvalidParameter, LiorError, StoreCorrupt, TransactionSequence
from lior.message import NULL_GUID, Message, MessageClass, MessageTransaction
from lior.queues.change import Change, Nobody, Reply
from lior.queues.core import Core
from lior.queues.definition import QueueProperties, QueueType
from lior.queues.descriptor import OpenQueueDescriptor
from lior.queues.moving import Moving
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteMessage, DeleteState, MoveMessage, PutMessage, PutState, SetCounts
from lior.queues.position import Position, State
from lior.queues.queue import Queue
from lior.queues.reading import Reading
from lior.queues.removal import Removal
from lior.queues.sending import Sending
from lior.queues.transaction import Dequeue, Enqueue, Move, Transaction, TransactionalOperation, TransactionState

PREPARED_QUEUE: Final = 0  # the store keeps sends of prepared transactions under this queue id
PREPARED: Final = "transaction"
INDEX_BITS: Final = 20
_NO_TRANSACTION: Final = MessageTransaction()


class Transactions:
    def __init__(self, core: Core, sending: Sending, removal: Removal, moving: Moving, reading: Reading) -> None:
        self._core = core
        self._sending = sending
        self._removal = removal
        self._moving = moving
        self._reading = reading
        self._last_index = 0

    def begin(self, identifier: UUID | None = None, *, single_phase: bool = True) -> Transaction:
        """[MS-MQDMPR] 3.1.7.1.8"""
        self._core.require_service()
        identifier = identifier or self._core.ids.guid()
        if identifier in self._core.transactions:
            raise InvalidParameter("a transaction with this identifier exists", where=str(identifier))
        transaction = Transaction(identifier, self._next_index(), single_phase=single_phase)
        self._core.transactions[identifier] = transaction
        return transaction

    def _next_index(self) -> int:
        """20 bits, distinct among live transactions: the wire tells transactions apart by it (MQ-125)."""
        live = self._core.transactions
        used = {transaction.index for transaction in live.values()} if live else ()
        while True:
            self._last_index = (self._last_index + 1) & ((1 << INDEX_BITS) - 1)
            if self._last_index not in used:
                return self._last_index

    def next_indexes(self, count: int) -> list[int]:
        """As that many calls of `_next_index`, for transactions that end in the same turn."""
        if self._core.transactions or self._last_index + count >= 1 << INDEX_BITS:
            return [self._next_index() for _ in range(count)]
        first = self._last_index + 1
        self._last_index += count
        return list(range(first, first + count))

    def find(self, identifier: UUID) -> Transaction:
        transaction = self._core.transactions.get(identifier)
        if transaction is None or transaction.state in (TransactionState.ENDING, TransactionState.ENDED):
            raise TransactionSequence(
                "there is no such open transaction",
                where=str(identifier),
                remedy="begin a new one; a transaction that was not prepared ends with its client",
            )
        return transaction

    def send_alone(self, descriptor: OpenQueueDescriptor, message: Message, reply: Reply) -> None:
        """Begin, send to one queue and commit at once. Nobody else can get hold of such a transaction, so there is
        none to be found."""
        known = message.transaction or _NO_TRANSACTION
        place = MessageTransaction(
            self._core.ids.guid(), 0, 0, 0, self._next_index(), True, True, known.final_ack_required,
            known.connector_queue_manager, known.status_queue,
        )  # fmt: skip
        self._sending.send_alone(descriptor, message, place, reply)

    def give_back(self, transaction: Transaction, position: Position) -> None:
        """A message that its reader could not take after all, because its buffers were too small, returns to its
        place; the transaction goes on without it, and no abort is counted."""
        if position.owner is not transaction or transaction.state is not TransactionState.ACTIVE:
            return  # the queue was deleted, or the transaction is ending and decides
        transaction.operations.remove(transaction.dequeue_of(position))
        self._removal.release_from(transaction, position)

    # Commit

    def commit(self, identifier: UUID, reply: Reply, also: Callable[[Change], None] | None = None) -> None:
        """Everything of the transaction becomes durable and visible together (DM-074); `also` puts more into the same
        change."""
        self._core.require_service()
        transaction = self.find(identifier)
        if transaction.state is TransactionState.PREPARING:
            self._decide_later(self.commit, transaction, reply)
            return
        prepared = transaction.state is TransactionState.PREPARED
        transaction.state = TransactionState.ENDING
        self._reading.cancel_of_transaction(transaction)
        mark_first_and_last(transaction)
        change = Change()
        change.otherwise(self._commit_failed, transaction, prepared)
        if prepared:
            change.operations.append(DeleteState(PREPARED, str(identifier)))
        for operation in transaction.operations:
            if isinstance(operation, Enqueue):
                self._commit_enqueue(change, operation)
            elif operation.position.owner is transaction:
                self._commit_taken(change, operation)
        if also is not None:
            also(change)
        change.then(self._ended, transaction)
        change.answer(reply)
        self._core.submit(change)

    def _commit_enqueue(self, change: Change, operation: Enqueue) -> None:
        queue = operation.queue
        before = len(change.operations)
        self._sending.release(operation)
        change.otherwise(self._sending.reserve, operation)
        if queue.deleted:
            self._removal.refuse(change, queue, operation.message, MessageClass.NACK_Q_DELETED)
        else:
            self._sending.stage_arrival(change, queue, operation.message)
        if operation.prepared_id:
            self._use_prepared(change, operation, before)

    def _use_prepared(self, change: Change, operation: Enqueue, before: int) -> None:
        """The store has the message already: move it to its queue instead of writing it again, or delete
        it when it does not get there."""
        numbered = isinstance(operation.queue, OutgoingQueue)  # its place in a stream is in what is written now
        for at in range(before, before if numbered else len(change.operations)):
            put = change.operations[at]
            if isinstance(put, PutMessage) and put.message is operation.message:
                change.operations[at] = MoveMessage(
                    PREPARED_QUEUE, operation.prepared_id, put.queue_id, put.lookup_id, 0, 0, 0.0, put.arrival_time
                )
                return
        change.operations.append(DeleteMessage(PREPARED_QUEUE, operation.prepared_id))

    def _commit_taken(self, change: Change, operation: Dequeue | Move) -> None:
        if isinstance(operation, Dequeue):
            self._removal.stage(change, operation.position, operation.reason)
        elif operation.target.deleted:
            self._removal.stage(change, operation.position, MessageClass.NACK_Q_DELETED)
        else:
            self._moving.stage(change, operation.position, operation.target)

    def _commit_failed(self, transaction: Transaction, prepared: bool) -> None:
        """Nothing was stored. What was taken is back in its queue, what was to be sent is forgotten; a
        prepared transaction stays in doubt, for the store still has it."""
        if prepared:
            transaction.state = TransactionState.PREPARED
            return
        self._abort_unsaved(transaction)

    def _ended(self, transaction: Transaction) -> None:
        transaction.state = TransactionState.ENDED
        self._core.transactions.pop(transaction.identifier, None)
        for operation in transaction.operations:
            if isinstance(operation, Move):
                self._moving.forget_if_unused(operation.target)

    # Abort

    def abort(self, identifier: UUID, reply: Reply) -> None:
        """Received and moved messages return to their place, with one more abort counted; sends vanish."""
        transaction = self.find(identifier)
        if transaction.state is TransactionState.PREPARING:
            self._decide_later(self.abort, transaction, reply)
            return
        prepared = transaction.state is TransactionState.PREPARED
        transaction.state = TransactionState.ENDING
        self._reading.cancel_of_transaction(transaction)
        change = Change()
        if prepared:
            change.operations.append(DeleteState(PREPARED, str(identifier)))
            change.otherwise(setattr, transaction, "state", TransactionState.PREPARED)
        else:
            change.otherwise(self._abort_unsaved, transaction)
        for operation in transaction.operations:
            if isinstance(operation, Enqueue):
                self._abort_enqueue(change, operation)
            elif operation.position.owner is transaction:
                self._give_back(change, transaction, operation.position)
        change.then(self._ended, transaction)
        change.answer(reply)
        self._core.submit(change)

    def abandon(self, transaction: Transaction) -> None:
        """Its client is gone (DM-097): abort it, unless it is prepared or about to end, for then others decide."""
        if transaction.state is TransactionState.ACTIVE:
            self.abort(transaction.identifier, Nobody())
        elif transaction.state is TransactionState.PREPARING:
            change = Change()  # a preparation that fails makes it active again
            change.ordered = True
            change.then(self.abandon, transaction)
            change.otherwise(self._not_decided, transaction)
            self._core.submit(change)

    def _abort_enqueue(self, change: Change, operation: Enqueue) -> None:
        if operation.prepared_id:
            change.operations.append(DeleteMessage(PREPARED_QUEUE, operation.prepared_id))
        change.then(self._sending.release, operation)
        change.then(self._moving.forget_if_unused, operation.queue)

    def _give_back(self, change: Change, transaction: Transaction, position: Position) -> None:
        position.abort_count += 1
        change.otherwise(self._uncount_abort, position)
        if self._core.fates is not None:
            change.then(self._core.fates.given_back, position)
        poison = self._moving.poison_target(position) if position.state is State.LOCKED else None
        if poison is not None:
            self._moving.stage(change, position, poison)
            return
        if position.stored and position.state is State.LOCKED:
            change.operations.append(SetCounts(position.queue.queue_id, position.lookup_id, position.abort_count))
        change.then(self._removal.release_from, transaction, position)

    def _uncount_abort(self, position: Position) -> None:
        position.abort_count -= 1

    def _abort_unsaved(self, transaction: Transaction) -> None:
        """The store could not take the change: the locks end all the same."""
        for operation in transaction.operations:
            if isinstance(operation, Enqueue):
                self._sending.release(operation)
            else:
                self._removal.release_from(transaction, operation.position)
        self._ended(transaction)

    # Two phases and recovery

    def _decide_later(self, call: Callable[[UUID, Reply], None], transaction: Transaction, reply: Reply) -> None:
        """What a commit or an abort stores depends on whether the preparation gets to the disk: wait for it."""
        change = Change()
        change.ordered = True
        change.then(self._decide, call, transaction, reply)
        change.otherwise(self._not_decided, transaction)
        change.refuse(reply)
        self._core.submit(change)

    def _decide(self, call: Callable[[UUID, Reply], None], transaction: Transaction, reply: Reply) -> None:
        try:
            call(transaction.identifier, reply)
        except LiorError as error:  # another decision came first
            reply.set_exception(error)

    def _not_decided(self, transaction: Transaction) -> None:
        """As when the end itself could not be stored: in doubt if prepared, else over."""
        if transaction.state is TransactionState.PREPARING:
            transaction.state = TransactionState.ENDING  # fails in the same batch, after this
        elif transaction.state is TransactionState.ACTIVE:
            self._abort_unsaved(transaction)

    def _prepared(self, transaction: Transaction) -> None:
        transaction.state = TransactionState.PREPARED

    def _not_prepared(self, transaction: Transaction) -> None:
        if transaction.state is TransactionState.ENDING:
            self._abort_unsaved(transaction)
        else:
            transaction.state = TransactionState.ACTIVE

    def prepare(self, identifier: UUID, reply: Reply, *, single_phase: bool = False) -> None:
        """Make the transaction able to survive a crash without being decided (DM-068)."""
        self._core.require_service()
        transaction = self.find(identifier)
        transaction.require_active()
        transaction.single_phase = single_phase
        transaction.state = TransactionState.PREPARING
        self._reading.cancel_of_transaction(transaction)
        mark_first_and_last(transaction)
        change = Change()
        change.otherwise(self._not_prepared, transaction)
        entries = [self._prepare_operation(change, operation) for operation in transaction.operations]
        record = {"single_phase": single_phase, "index": transaction.index, "operations": entries}
        change.operations.append(PutState(PREPARED, str(identifier), json.dumps(record).encode()))
        change.then(self._prepared, transaction)
        change.answer(reply)
        self._core.submit(change)

    def _prepare_operation(self, change: Change, operation: TransactionalOperation) -> list[Any]:
        if isinstance(operation, Enqueue):
            if not operation.queue.persisted:
                self._sending.stage_definition(change, operation.queue)
            operation.prepared_id = self._core.lookup_ids.next(change)
            now = self._core.clock.wall()
            end = operation.queue.end_of(operation.message)
            change.operations.append(PutMessage(PREPARED_QUEUE, operation.prepared_id, operation.message, now, end))
            change.otherwise(setattr, operation, "prepared_id", 0)
            return ["enqueue", operation.queue.queue_id, operation.prepared_id]
        place = [operation.position.queue.queue_id, operation.position.lookup_id]
        if isinstance(operation, Dequeue):
            return ["dequeue", *place, int(operation.reason)]
        if not operation.target.persisted:
            self._sending.stage_definition(change, operation.target)
        return ["move", *place, operation.target.queue_id]

    def restore(self, records: Mapping[str, bytes]) -> None:
        """Prepared transactions as the store has them: in doubt until somebody decides."""
        for text, value in records.items():
            record = json.loads(value)
            transaction = Transaction(UUID(text), record["index"], single_phase=record["single_phase"])
            transaction.state = TransactionState.PREPARED
            for kind, queue_id, lookup_id, *rest in record["operations"]:
                operation = self._restore_operation(kind, queue_id, lookup_id, rest)
                if operation is not None:
                    transaction.operations.append(operation)
                    if not isinstance(operation, Enqueue):
                        operation.position.queue.lock(operation.position, transaction)
            self._core.transactions[transaction.identifier] = transaction
        for queue in list(self._core.queues.values()):
            self._moving.forget_if_unused(queue)  # emptied just before the crash

    def _restore_operation(
        self, kind: str, queue_id: int, lookup_id: int, rest: list[int]
    ) -> TransactionalOperation | None:
        queue = self._core.queues.get(queue_id)
        if kind == "enqueue":
            stored = self._core.store.fetch(PREPARED_QUEUE, lookup_id)
            if stored is None:
                raise StoreCorrupt(
                    f"a prepared transaction names message {lookup_id}, which is not there",
                    where="prepared transactions",
                    remedy="run: lior doctor --repair",
                )
            queue = queue or _deleted_queue(queue_id, stored.message.destination_queue)
            operation = Enqueue(queue, stored.message, lookup_id)
            self._sending.reserve(operation)
            return operation
        if queue is None or lookup_id not in queue.available:
            return None  # an express message, gone with the crash
        position = queue.position(lookup_id, self._core.store)
        if kind == "dequeue":
            return Dequeue(position, MessageClass(rest[0]))
        return Move(position, self._core.queues.get(rest[0]) or _deleted_queue(rest[0], "a subqueue"))

    def in_doubt(self) -> list[Transaction]:
        prepared = TransactionState.PREPARED
        return [transaction for transaction in self._core.transactions.values() if transaction.state is prepared]


def _deleted_queue(queue_id: int, name: str) -> Queue:
    """In place of a queue that was deleted while a prepared transaction named it: the commit refuses its
    part for that queue, as it would have without the restart."""
    queue = Queue(queue_id, QueueType.PRIVATE, name, QueueProperties(), identifier=NULL_GUID)
    queue.deleted = True
    return queue


def mark_first_and_last(transaction: Transaction) -> None:
    """FirstInTransaction and LastInTransaction concern the messages sent, for each destination (DM-069)."""
    sends: dict[Queue, list[Enqueue]] = {}
    for operation in transaction.operations:
        if isinstance(operation, Enqueue):
            sends.setdefault(operation.queue, []).append(operation)
    for enqueues in sends.values():
        for number, enqueue in enumerate(enqueues):
            known = enqueue.message.transaction or _NO_TRANSACTION
            enqueue.message.transaction = MessageTransaction(  # its own: copies to several queues share what is given
                transaction.identifier,
                index=transaction.index,
                first_in_transaction=number == 0,
                last_in_transaction=number == len(enqueues) - 1,
                final_ack_required=known.final_ack_required,
                connector_queue_manager=known.connector_queue_manager,
                status_queue=known.status_queue,
            )
