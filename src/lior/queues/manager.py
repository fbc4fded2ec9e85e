"""The queue manager: one object that every protocol adapter, the library and the console call.

It holds no rules of its own; each call goes to the part that has them. Calls change memory at once and the
store through changes that the engine commits (`take_pending`, `committed`, `failed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any
from uuid import UUID

from lior.errors import LiorError, QueueNotFound, ServiceNotAvailable, StoreUnusable
from lior.message import INFINITE, Message
from lior.names import FormatName, LocalNames, MultipleName, PathName, SingleName, parse_format_name, parse_path_name
from lior.queues.access import Access
from lior.queues.administration import Administration
from lior.queues.awaiting import Awaiting
from lior.queues.batches import Batches
from lior.queues.change import Change, Nobody, Reply
from lior.queues.core import Clock, Core
from lior.queues.definition import QueueManagerProperties, QueueProperties
from lior.queues.descriptor import (
    Cursor,
    MessageSeekAction,
    OpenQueueDescriptor,
    QueueAccessType,
    QueueShareMode,
    TwoPhaseRead,
)
from lior.queues.events import Event, MessageAwaitsTransfer, QueueManagerStarted, QueueManagerStopped
from lior.queues.incoming_streams import IncomingStreams
from lior.queues.machine import Machine
from lior.queues.many import Told
from lior.queues.message_history import MessageHistory
from lior.queues.moving import Moving
from lior.queues.opening import Opening
from lior.queues.outgoing import OutgoingQueue, dispatch_order
from lior.queues.outgoing_streams import OutgoingStreams
from lior.queues.ports import Ids, Store, TransactionOutcomes
from lior.queues.publishing import Publishing
from lior.queues.queue import Queue
from lior.queues.read_batches import ReadBatches
from lior.queues.reading import Reading
from lior.queues.removal import Removal
from lior.queues.routing import Routing
from lior.queues.send_batches import SendBatches
from lior.queues.sending import EnqueueStatus, Sending
from lior.queues.startup import load
from lior.queues.subscriptions import Subscriptions
from lior.queues.tracing import Tracing
from lior.queues.transaction import Transaction
from lior.queues.transactions import Transactions
from lior.queues.waiting import cancel
from lior.security import Caller, SecurityDescriptor


class QueueManagerState(Enum):
    STOPPED = "stopped"
    INITIALIZING = "initializing"
    READY = "ready"
    STOPPING = "stopping"


class QueueManager:
    """[MS-MQDMPR] 3.1.1.1; one instance for a data directory, shared by everything in the process."""

    def __init__(
        self,
        properties: QueueManagerProperties,
        local: LocalNames,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        cache_bytes: int = 64 << 20,
    ) -> None:
        self.core = Core(properties, local, store, clock, ids, cache_bytes=cache_bytes)
        self.state = QueueManagerState.STOPPED
        self.routing = Routing(self.core)
        self.access = Access(self.core)
        self.sending = Sending(self.core, self.routing)
        self.removal = Removal(self.core, self.routing, self.sending)
        self.reading = Reading(self.core, self.sending, self.removal)
        self.moving = Moving(self.core, self.sending, self.removal)
        self.transactions = Transactions(self.core, self.sending, self.removal, self.moving, self.reading)
        self.opening = Opening(self.core, self.routing, self.access, self.reading, self.moving)
        self.administration = Administration(self.core, self.access, self.removal, self.reading)
        self.machine = Machine(self.core, self.access)
        self.outgoing_streams = OutgoingStreams(self.core, self.sending, self.removal, Awaiting(self.core))
        self.incoming_streams = IncomingStreams(self.core, self.removal)
        self.batches = Batches(self.core, self.sending, self.removal, self.outgoing_streams)
        self.send_batches = SendBatches(self.core, self.sending, self.outgoing_streams, self.transactions)
        self.read_batches = ReadBatches(self.core, self.reading, self.removal)
        self.message_history = MessageHistory()
        self.publishing = Publishing(self.core, self.sending, self.transactions)
        self.subscriptions = Subscriptions(self.core, self.access, self.removal, self.moving)
        self.tracing = Tracing(self.sending)

    # Life

    def start(self, outcomes: TransactionOutcomes | None = None) -> None:
        """[MS-MQDMPR] 3.1.3: load, decide what can be decided, expire what is overdue; then serve. Once:
        a queue manager that was stopped is not started again, its store belongs to a new one."""
        if self.state is not QueueManagerState.STOPPED or self.core.queues:
            raise ServiceNotAvailable("this queue manager was started before", remedy="open the data anew")
        self.state = QueueManagerState.INITIALIZING
        parts = (
            self.outgoing_streams,
            self.incoming_streams,
            self.message_history,
            self.core.peers,
            self.subscriptions,
            self.publishing,
        )
        load(self.core, self.transactions, parts)
        for transaction in self.transactions.in_doubt():
            self._decide(transaction, outcomes)
        while self.removal.expire_due():
            pass
        self.subscriptions.resume()
        self.state = QueueManagerState.READY
        self.core.emit(QueueManagerStarted(self.core.properties.identifier))
        for queue in self.dispatchable():
            self.core.emit(MessageAwaitsTransfer(queue))

    def _decide(self, transaction: Transaction, outcomes: TransactionOutcomes | None) -> None:
        """Nobody outside knows of an internal transaction: one that was not committed is aborted."""
        if transaction.single_phase:
            self.transactions.abort(transaction.identifier, Nobody())
            return
        outcome = None if outcomes is None else outcomes.outcome(transaction.identifier)
        if outcome is True:
            self.transactions.commit(transaction.identifier, Nobody())
        elif outcome is False:
            self.transactions.abort(transaction.identifier, Nobody())

    def stop(self) -> None:
        """End what waits. The engine commits what is pending after this."""
        if self.state is not QueueManagerState.READY:
            return
        self.state = QueueManagerState.STOPPING
        for descriptor in list(self.opening.descriptors.values()):
            if not descriptor.closed:
                self.opening.close(descriptor)
        self.state = QueueManagerState.STOPPED
        self.core.emit(QueueManagerStopped(self.core.properties.identifier))

    def give_back_counters(self) -> None:
        """The last change of a clean stop, when nothing that could take a number is pending any more."""
        if self.state is QueueManagerState.STOPPED and self.core.broken is None:
            change = Change()
            for counter in (self.core.lookup_ids, self.core.ordinals):
                counter.give_back(change)
            self.core.submit(change)

    def _require_ready(self) -> None:
        if self.state is not QueueManagerState.READY:
            raise ServiceNotAvailable(
                f"the queue manager is {self.state.value}", remedy="start it, or wait until it is ready"
            )

    def subscribe(self, listener: Callable[[Event], None], *, messages: bool = True) -> None:
        """Without `messages`, not of each message that becomes available or leaves a local queue."""
        self.core.listeners.append(listener)
        if messages:
            self.core.message_listeners.append(listener)

    # The engine's side

    def take_pending(self) -> list[Change]:
        return self.core.take_pending()

    def committed(self, changes: Iterable[Change]) -> None:
        """Make them visible and answer. A step that fails is a defect, raised when all the others are done:
        they are on disk, and their callers have a right to know."""
        defect: Exception | None = None
        for change in changes:
            try:
                change.finish()
            except Exception as error:
                change.lost(StoreUnusable(f"a defect in Lior, please report it: {error!r}", remedy="restart it"))
                defect = defect or error
        if self.state is QueueManagerState.READY:
            self.core.top_up_counters()
        if defect is not None:
            raise defect

    def failed(self, changes: Iterable[Change], error: Exception) -> None:
        known = error if isinstance(error, LiorError) else StoreUnusable(str(error), where="store")
        served = self.core.broken is None
        self.core.storage_failed(changes, known)
        if served and self.core.broken is not None:
            for queue in list(self.core.queues.values()):
                for wait in list(queue.waiters):
                    cancel(wait, self.core.broken)  # nothing will come any more

    def next_wait_deadline(self) -> float | None:
        """On the monotonic clock: when a waiting read times out."""
        return self.core.waits.deadline()

    def forget_idle(self, queues: Iterable[OutgoingQueue]) -> list[OutgoingQueue]:
        """Those of the outgoing queues that had nothing left, which are gone now."""
        change = Change()
        gone = [q for q in queues if not self.outgoing_streams.unconfirmed(q) and self.moving.forget_idle(change, q)]
        if change.operations:
            self.core.submit(change)
        return gone

    def next_expiry(self) -> float | None:
        """On the wall clock: when a message expires, or a claim ends."""
        ends = [end for end in (self.core.expiries.next(), self.subscriptions.next_timeout()) if end is not None]
        return min(ends, default=None)

    def tick(self) -> None:
        """Do what is due now."""
        self.core.waits.expire(self.core.clock.monotonic())
        while self.removal.expire_due():
            pass
        self.subscriptions.give_back_overdue()

    # Queues

    def create_queue(self, path: PathName | str, properties: QueueProperties, caller: Caller, reply: Reply) -> None:
        self._require_ready()
        self.administration.create(path, properties, caller, reply)

    def delete_queue(self, queue: Queue, caller: Caller, reply: Reply) -> None:
        self._require_ready()
        self.administration.delete(queue, caller, reply)

    def set_queue_properties(self, queue: Queue, changes: dict[str, Any], caller: Caller, reply: Reply) -> None:
        self._require_ready()
        self.administration.set_properties(queue, changes, caller, reply)

    def set_queue_security(
        self, queue: Queue, information: int, descriptor: SecurityDescriptor, caller: Caller, reply: Reply
    ) -> None:
        self._require_ready()
        self.administration.set_security(queue, information, descriptor, caller, reply)

    def purge(self, queue: Queue, caller: Caller, reply: Reply) -> None:
        self._require_ready()
        self.administration.purge(queue, caller, reply)

    def find_queue(self, name: str | PathName | FormatName) -> Queue:
        """By path name, format name, or the text of either."""
        self._require_ready()
        queue = self._find(name)
        if queue is None or queue.deleted:
            raise QueueNotFound("there is no such queue here", where=str(name), remedy="see: lior queue list")
        return queue

    def _find(self, name: str | PathName | FormatName) -> Queue | None:
        if isinstance(name, str):
            name = parse_format_name(name) if "=" in name else parse_path_name(name)
        if isinstance(name, PathName):
            if not self.core.local.is_local(name.computer):
                return None
            return self.routing.by_path(name)
        return None if isinstance(name, MultipleName) else self.routing.find(name)

    # Handles

    def open(
        self,
        name: FormatName | str,
        access: QueueAccessType,
        share: QueueShareMode = QueueShareMode.DENY_NONE,
        *,
        caller: Caller,
    ) -> OpenQueueDescriptor:
        self._require_ready()
        return self.opening.open(name, access, share, caller)

    def close(self, descriptor: OpenQueueDescriptor) -> None:
        self.opening.close(descriptor)

    def open_cursor(self, descriptor: OpenQueueDescriptor) -> Cursor:
        self._require_ready()
        return self.reading.open_cursor(descriptor)

    def close_cursor(self, cursor: Cursor) -> None:
        self.reading.close_cursor(cursor)

    # Messages

    def send(
        self, descriptor: OpenQueueDescriptor, message: Message, reply: Reply, transaction: Transaction | None = None
    ) -> None:
        self._require_ready()
        self.sending.send(descriptor, message, transaction, reply)

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
        self._require_ready()
        self.reading.receive(
            descriptor,
            reply,
            timeout_ms=timeout_ms,
            cursor=cursor,
            transaction=transaction,
            two_phase=two_phase,
            tag=tag,
        )

    def receive_end(self, read: TwoPhaseRead, reply: Reply, *, delete: bool) -> None:
        self._require_ready()
        self.reading.end(read, reply, delete=delete)

    def send_all(
        self, descriptor: OpenQueueDescriptor, messages: Sequence[Message], callers: Sequence[Any], told: Told
    ) -> bool:
        """As `send` for each; `told` of the callers and the positions of their messages. False: nothing was done."""
        return self.state is QueueManagerState.READY and self.send_batches.send(descriptor, messages, callers, told)

    def receive_first(self, descriptor: OpenQueueDescriptor, most: int) -> list[TwoPhaseRead]:
        """As `receive` in two phases for each of the first messages, as far as that can be said at once."""
        return self.read_batches.take(descriptor, most) if self.state is QueueManagerState.READY else []

    def receive_end_all(self, reads: Sequence[TwoPhaseRead], callers: Sequence[Any], told: Told) -> bool:
        """As `receive_end` with deletion for each; `told` of the callers whose read ended, or did not. False: nothing
        was done."""
        return self.state is QueueManagerState.READY and self.read_batches.end(reads, callers, told)

    def peek(
        self,
        descriptor: OpenQueueDescriptor,
        reply: Reply,
        *,
        timeout_ms: int = INFINITE,
        cursor: Cursor | None = None,
        tag: Any = None,
    ) -> None:
        self._require_ready()
        self.reading.peek(descriptor, reply, timeout_ms=timeout_ms, cursor=cursor, tag=tag)

    def peek_next(
        self,
        descriptor: OpenQueueDescriptor,
        reply: Reply,
        *,
        cursor: Cursor,
        timeout_ms: int = INFINITE,
        tag: Any = None,
    ) -> None:
        self._require_ready()
        self.reading.peek_next(descriptor, reply, cursor=cursor, timeout_ms=timeout_ms, tag=tag)

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
        self._require_ready()
        self.reading.read_by_lookup(
            descriptor,
            reply,
            lookup_id=lookup_id,
            action=action,
            peek=peek,
            transaction=transaction,
            two_phase=two_phase,
            allow_peek=allow_peek,
        )

    def move(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        reply: Reply,
        transaction: Transaction | None = None,
    ) -> None:
        self._require_ready()
        self.moving.move(source, lookup_id, target, transaction, reply)

    def reject(self, descriptor: OpenQueueDescriptor, lookup_id: int, transaction: Transaction, reply: Reply) -> None:
        self._require_ready()
        self.moving.reject(descriptor, lookup_id, transaction, reply)

    def cancel(self, queue: Queue, tag: Any) -> None:
        self.reading.cancel(queue, tag)

    # Transactions

    def begin(self, identifier: UUID | None = None, *, single_phase: bool = True) -> Transaction:
        self._require_ready()
        return self.transactions.begin(identifier, single_phase=single_phase)

    def prepare(self, identifier: UUID, reply: Reply, *, single_phase: bool = False) -> None:
        self._require_ready()
        self.transactions.prepare(identifier, reply, single_phase=single_phase)

    def commit(self, identifier: UUID, reply: Reply) -> None:
        self._require_ready()
        self.transactions.commit(identifier, reply)

    def abort(self, identifier: UUID, reply: Reply) -> None:
        self._require_ready()
        self.transactions.abort(identifier, reply)

    def client_lost(self, descriptors: Iterable[OpenQueueDescriptor], transactions: Iterable[Transaction]) -> None:
        """[MS-MQDMPR] 3.1.7.1.6: what a transport does for a client that went without goodbye. Nothing that it
        held stays locked; its prepared transactions stay, for their coordinator to decide."""
        for descriptor in list(descriptors):
            if not descriptor.closed:
                self.opening.close(descriptor)
        for transaction in list(transactions):
            self.transactions.abandon(transaction)

    # The queue manager itself

    def set_online(self, active: bool, caller: Caller, reply: Reply) -> None:
        self._require_ready()
        self.machine.set_online(active, caller, reply)

    def set_manager_properties(self, changes: dict[str, Any], caller: Caller, reply: Reply) -> None:
        self._require_ready()
        self.machine.set_properties(changes, caller, reply)

    def set_manager_security(
        self, information: int, descriptor: SecurityDescriptor, caller: Caller, reply: Reply
    ) -> None:
        self._require_ready()
        self.machine.set_security(information, descriptor, caller, reply)

    def transit(self, change: Change, message: Message, name: SingleName) -> EnqueueStatus:
        """Pass on what is for another queue manager, as part of the transfer's change."""
        return self.sending.transit(change, message, name)

    def dispatchable(self) -> list[OutgoingQueue]:
        """The outgoing queues with something to send now, most urgent first (DM-122)."""
        return dispatch_order(self.core.outgoing.values(), self.core.properties.connection_active)

    def active_queues(self) -> list[Queue]:
        return [queue for queue in self.core.queues.values() if queue.active]

    def bytes_in_all_queues(self) -> int:
        """[MS-MQMQ] 2.3.11.6: journals and dead letters included, what is not committed yet not."""
        return sum(queue.total_bytes for queue in self.core.queues.values())
