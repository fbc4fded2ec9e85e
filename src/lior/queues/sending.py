"""Messages into queues: checks, lookup ids, quotas ([MS-MQDMPR] 3.1.7.1.9, 3.1.7.1.27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import Final
from uuid import UUID

from lior.errors import (
    IllegalPropertyValue,
    MessageNotAuthenticated,
    TransactionUsage,
    UnsupportedFormatNameOperation,
)
from lior.message import INFINITE, Message, MessageClass, MessageTransaction, ObjectId
from lior.names import QueueSuffix, SingleName
from lior.queues.acknowledgements import acknowledgement, wants_acknowledgement
from lior.queues.change import Change, Reply
from lior.queues.checking import check_message
from lior.queues.core import Core
from lior.queues.definition import QueuePrivacy, QueueType
from lior.queues.descriptor import SEND_ACCESS, OpenQueueDescriptor
from lior.queues.events import MessageAvailable, MessageAwaitsTransfer
from lior.queues.expiry import in_transit_end, time_to_be_received_end, time_to_reach_queue_end
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import PutMessage
from lior.queues.position import Position, State, Step, step_all
from lior.queues.queue import Queue
from lior.queues.routing import Routing, parse_single
from lior.queues.sends import MOST, Sends
from lior.queues.transaction import Enqueue, Transaction

TIME_TO_REACH_QUEUE: Final = Message().time_to_reach_queue
MOST_MULTICAST: Final = 64 << 10
MOST_HOPS: Final = 0x1D  # [MS-MQMQ] 2.2.19.2
# For every message: looking up a member of an Enum runs Python code, and so does making a NamedTuple.
_PUBLISH: Final = Step.PUBLISH
_AVAILABLE: Final = State.AVAILABLE
_object_id: Final[Callable[[tuple[UUID, int]], ObjectId]] = partial(tuple.__new__, ObjectId)
_put_message: Final[Callable[[tuple[int, int, Message, float, int, int, int, float]], PutMessage]] = partial(
    tuple.__new__, PutMessage
)


class EnqueueStatus(IntEnum):
    """rStatus of Enqueue Message ([MS-MQDMPR] 3.1.7.1.9), for the transfer protocols."""

    OK = 0
    QUEUE_QUOTA = 1
    QUEUE_MANAGER_QUOTA = 2
    TIMED_OUT = 3
    HOP_COUNT = 4  # ours: only a message in transit can have too many


class Sending:
    def __init__(self, core: Core, routing: Routing) -> None:
        self._core = core
        self._routing = routing
        self._outcomes = self._inserted, self.insert_failed  # of an insert; made once, and not for every message
        self._sends: Sends | None = None  # the last change of this kind
        self.offer: Callable[[Position], bool] = _nobody  # set by Reading: wake who waits
        self.expire: Callable[[Change, Queue, Message], None] = _forget  # set by Removal
        self.stage_in_stream: Callable[[Change, OutgoingQueue, Message], None] = _forget  # set by OutgoingStreams
        # Set by the server: the level that the signature of a message to this format name proves, in a transaction
        # or not. Without a server nothing can be verified, and who embeds the queues answers for what is claimed.
        self.stage_receipt: Callable[[Change, Message, int], None] = _no_receipt  # set by SRMP, both
        self.stage_final_receipt: Callable[[Change, Message, int], None] = _no_receipt
        self.authenticate: Callable[[Message, str, bool], int] = _believed

    # The application's send

    def send(
        self, descriptor: OpenQueueDescriptor, message: Message, transaction: Transaction | None, reply: Reply
    ) -> None:
        """Send to the queue or queues of a descriptor; answers the message's identifier. Inside a
        transaction the answer comes at once and says only that the transaction holds the message."""
        core = self._core
        if core.broken is not None:
            core.require_service()
        size = check_message(message)
        if descriptor.children:
            self._send_to_all(descriptor, message, transaction, reply)
            return
        queue = descriptor.require(SEND_ACCESS, "send")
        self._check_target(queue, descriptor, message, transaction is not None)
        core.require_room(queue, size)
        change = Change() if transaction is not None or not message.delivery_guarantee else self._change(queue, message)
        self._stamp(change, message)
        self._address(queue, descriptor, message, transaction is not None)
        if transaction is not None:
            self.enlist(transaction, queue, message)
        else:
            self.stage_arrival(change, queue, message, size)
        change.answer(reply, message.identifier)
        core.traffic.sent += 1
        if core.pending and core.pending[-1] is change:
            core.joined_pending()
        else:
            core.submit(change)

    def stage(
        self, change: Change, descriptor: OpenQueueDescriptor, message: Message, place: MessageTransaction | None = None
    ) -> None:
        """Send to one queue, in a transaction if it has a place in one, as part of somebody's change."""
        size = check_message(message)
        queue = descriptor.require(SEND_ACCESS, "send")
        self._check_target(queue, descriptor, message, place is not None)
        self._core.require_room(queue, size)
        self._stamp(change, message)
        self._address(queue, descriptor, message, place is not None)
        if place is not None:
            message.priority, message.delivery_guarantee = 0, 1  # [MS-MQMQ] 2.2.19.1
            message.transaction = place
        self.stage_arrival(change, queue, message, size)
        change.then(self._count_sent)

    def _count_sent(self) -> None:
        self._core.traffic.sent += 1

    def _change(self, queue: Queue, message: Message) -> Change:
        """The change for a recoverable message: that of the one before, if this goes to the same queue and nothing
        came in between; one of its own for a message that more follows from than its insertion."""
        if message.time_to_be_received != INFINITE or message.administration_queue \
                or message.positive_journaling_requested:
            return Change()
        sends, pending = self._sends, self._core.pending
        if sends is None or not pending or pending[-1] is not sends or sends.queue is not queue \
                or sends.count >= MOST:
            sends = self._sends = Sends(queue, self.inserted_all, self.insert_failed_all)
        return sends

    def send_alone(
        self, descriptor: OpenQueueDescriptor, message: Message, place: MessageTransaction, reply: Reply
    ) -> None:
        """Send to one queue as all that there is to a transaction, which is committed with it: one answer, when the
        message is in its queue."""
        core = self._core
        core.require_service()
        size = check_message(message)
        queue = descriptor.require(SEND_ACCESS, "send")
        self._check_target(queue, descriptor, message, True)
        core.require_room(queue, size)
        change = self._change(queue, message)
        self._stamp(change, message)
        self._address(queue, descriptor, message, True)
        message.priority, message.delivery_guarantee = 0, 1
        message.transaction = place
        self.stage_arrival(change, queue, message, size)
        change.answer(reply, message.identifier)
        core.traffic.sent += 1
        if core.pending and core.pending[-1] is change:
            core.joined_pending()
        else:
            core.submit(change)

    def _send_to_all(
        self, descriptor: OpenQueueDescriptor, message: Message, transaction: Transaction | None, reply: Reply
    ) -> None:
        """[MS-MQDMPR] 3.1.7.1.27, but all or nothing (DM-121): every check comes before the first copy. The
        copies are one message to whoever asks for it, so they share its identifier."""
        targets = [(child.require(SEND_ACCESS, "send"), child) for child in descriptor.children]
        message.destination_multi_queue = descriptor.text
        for queue, child in targets:
            self._check_target(queue, child, message, transaction is not None)
        self._require_room_in_all([queue for queue, _ in targets], message.size)
        change = Change()
        self._stamp(change, message)
        size = message.size if transaction is None else 0
        for queue, _ in targets:
            self._reserve(queue, size)  # or the acknowledgement of the first copy takes the room of the last
        for queue, child in targets:
            self._reserve(queue, -size)
            self._stage_send(change, queue, child, message.copy(), transaction)
        change.answer(reply, message.identifier)
        self._core.traffic.sent += 1
        self._core.submit(change)

    def _reserve(self, queue: Queue, size: int) -> None:
        queue.uncommitted_bytes += size
        self._core.count_bytes(queue, size)

    def _stamp(self, change: Change, message: Message) -> None:
        core = self._core
        source = core.properties.identifier
        message.identifier = _object_id((source, core.ordinals.next(change)))
        message.source_queue_manager = source
        message.sent_time = core.clock.wall()
        default = core.properties.default_time_to_reach_queue
        if default != TIME_TO_REACH_QUEUE and message.time_to_reach_queue == TIME_TO_REACH_QUEUE:
            message.time_to_reach_queue = default  # the sender left it open (DM-047)
        if message.failed_destination:  # a dead letter or a journal copy that is sent again
            message.failure_reason, message.failed_destination = 0, ""

    def _stage_send(
        self,
        change: Change,
        queue: Queue,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None,
    ) -> None:
        self._address(queue, descriptor, message, transaction is not None)
        if transaction is not None:
            self.enlist(transaction, queue, message)
        else:
            self.stage_arrival(change, queue, message)

    def _address(self, queue: Queue, target: OpenQueueDescriptor, message: Message, transactional: bool) -> None:
        message.destination_queue = target.text
        security = message.security
        if security is not None and not isinstance(queue, OutgoingQueue):
            level = self.authenticate(message, target.text, transactional)
            if level != security.authentication_level:  # what a reader sees is proven, never claimed
                message.security = replace(security, authentication_level=level)

    def _check_target(
        self, queue: Queue, target: OpenQueueDescriptor, message: Message, transactional: bool
    ) -> None:
        if isinstance(queue, OutgoingQueue):
            if queue.multicast or queue.is_http:
                self._check_soap(queue, message, target, transactional)
            return
        properties = queue.main.properties
        if properties.takes_plain and not transactional and message.security is None:
            return
        if queue.transactional and not transactional:
            raise TransactionUsage(
                "the queue is transactional: it takes messages only inside a transaction",
                where=target.text,
                remedy="send within a transaction",
            )
        if transactional and not queue.transactional:
            raise TransactionUsage(
                "the queue is not transactional: it takes no messages of a transaction",
                where=target.text,
                remedy="send outside the transaction, or create the queue as transactional",
            )
        security = message.security
        if properties.authentication and (
            security is None or not self.authenticate(message, target.text, transactional)
        ):
            raise MessageNotAuthenticated(
                "the queue takes signed messages only", where=target.text, remedy="sign the message"
            )
        encrypted = message.is_encrypted
        if properties.privacy_level == QueuePrivacy.BODY and not encrypted:
            raise IllegalPropertyValue(
                "the queue takes encrypted bodies only", where=target.text, remedy="set a privacy level"
            )
        if properties.privacy_level == QueuePrivacy.NONE and encrypted:
            raise IllegalPropertyValue(
                "the queue takes clear bodies only", where=target.text, remedy="send without privacy"
            )

    def _check_soap(
        self, queue: OutgoingQueue, message: Message, target: OpenQueueDescriptor, transactional: bool
    ) -> None:
        """[MC-MQSRM] 1.6, 2.1.3: a group acknowledges nothing, so there is no transaction with it. The switches may
        have been turned while the queue was open."""
        properties = self._core.properties
        if not (properties.srmp_pgm_support if queue.multicast else properties.srmp_http_support):
            raise UnsupportedFormatNameOperation("this kind of transfer is switched off here", where=target.text,
                                                 remedy="set srmp_http_support or srmp_pgm_support of the machine")
        if not queue.multicast:
            return
        if transactional:
            raise TransactionUsage(
                "a message to a multicast address is in no transaction",
                where=target.text,
                remedy="send outside the transaction",
            )
        size = len(message.body) + len(message.extension)
        if size > MOST_MULTICAST:
            raise IllegalPropertyValue(
                f"{size} bytes to a multicast address",
                where=target.text,
                remedy="send at most 64 KiB, envelope included, or to a queue",
            )

    def _require_room_in_all(self, queues: list[Queue], size: int) -> None:
        """All or nothing over several queues: the copies are counted together (DM-121)."""
        self._core.require_room(queues[0], size)
        for number, queue in enumerate(queues[1:], start=1):
            copies = 1 + sum(other.main is queue.main for other in queues[:number])
            self._core.require_room(queue, size * copies)
        if len(queues) > 1:
            self._core.require_manager_room(queues[0], size * len(queues))

    def enlist(self, transaction: Transaction, queue: Queue, message: Message) -> None:
        """Keep the message in the transaction; nobody sees it before the commit."""
        message.priority = 0  # [MS-MQMQ] 2.2.19.1: in a stream, order is by sending alone
        message.delivery_guarantee = 1
        operation = Enqueue(queue, message)
        transaction.add(operation)
        self.reserve(operation)

    def reserve(self, held: Enqueue) -> None:
        """Count what a transaction is to send against the quotas."""
        held.queue.uncommitted_bytes += held.size
        self._core.count_bytes(held.queue, held.size)

    def release(self, held: Enqueue | Position) -> None:
        """Give back what was counted for a message that is not in its queue yet."""
        held.queue.uncommitted_bytes -= held.size
        self._core.count_bytes(held.queue, -held.size)

    # The transfer protocols' enqueue

    def accept(self, queue: Queue, message: Message, transaction: Transaction | None, change: Change) -> EnqueueStatus:
        """[MS-MQDMPR] 3.1.7.1.9 for a message that came over the network, as part of the adapter's
        change. A message that is late is not inserted (DM-103), and takes the expiry path."""
        size = message.size
        if self._core.throttled or not self._core.has_room(queue, size):
            return EnqueueStatus.QUEUE_MANAGER_QUOTA
        if not queue.has_room(size):
            return EnqueueStatus.QUEUE_QUOTA
        late = time_to_reach_queue_end(message)
        if late and late <= self._core.clock.wall():
            return EnqueueStatus.TIMED_OUT
        if transaction is not None:
            self.enlist(transaction, queue, message)
        else:
            self.stage_arrival(change, queue, message)
        return EnqueueStatus.OK

    def transit(self, change: Change, message: Message, name: SingleName) -> EnqueueStatus:
        """A message for somebody else goes on, one hop further (3.1.5.8.2.1). Its place in its stream is its sender's,
        and so is its packet, which the message keeps."""
        hops = message.hop_count + 1
        if hops > MOST_HOPS:
            return EnqueueStatus.HOP_COUNT
        queue = self._routing.outgoing(name)
        if self._core.throttled or not self._core.has_room(queue, message.size):
            return EnqueueStatus.QUEUE_MANAGER_QUOTA
        late = in_transit_end(message)
        if late and late <= self._core.clock.wall():
            return EnqueueStatus.TIMED_OUT
        message.hop_count = hops
        self.stage_insert(change, queue, message)
        return EnqueueStatus.OK

    # Staging

    def stage_arrival(self, change: Change, queue: Queue, message: Message, size: int = 0) -> None:
        """The message reaches its queue: insert it, acknowledge the arrival, journal at the source. One
        that has no time left never becomes visible and goes straight to what follows its expiry."""
        if isinstance(queue, OutgoingQueue):
            if message.transaction is not None and self._core.is_source(message):
                self.stage_in_stream(change, queue, message)
            else:
                self.stage_insert(change, queue, message, size=size)
            return
        if message.time_to_be_received != INFINITE and self._has_expired(message):
            self.expire(change, queue, message)
            return
        self.stage_insert(change, queue, message, size=size)
        if message.administration_queue and wants_acknowledgement(message, MessageClass.ACK_REACH_QUEUE):
            self.stage_acknowledgement(change, message, MessageClass.ACK_REACH_QUEUE)
        if message.positive_journaling_requested and self._core.is_source(message):
            self.stage_journal_copy(change, message)

    def _has_expired(self, message: Message) -> bool:
        return time_to_be_received_end(message) <= self._core.clock.wall()

    def stage_insert(
        self,
        change: Change,
        queue: Queue,
        message: Message,
        *,
        abort_count: int = 0,
        move_count: int = 0,
        size: int = 0,
    ) -> Position:
        """A new position, visible when the change is on disk ([MS-MQDMPR] 3.1.7.1.9)."""
        core = self._core
        now = core.clock.wall()
        if isinstance(queue, OutgoingQueue):
            expires = in_transit_end(message)
        elif queue.is_system or message.time_to_be_received == INFINITE:
            expires = 0
        else:
            expires = time_to_be_received_end(message)
        lookup_id = (7 - message.priority) << 56 | core.lookup_ids.next(change)
        stored = message.delivery_guarantee != 0
        position = Position(
            queue, lookup_id, message, now, stored, expires, abort_count, move_count, 0.0, State.STAGED, size
        )
        size = position.size
        if stored:
            if not queue.persisted:
                self.stage_definition(change, queue)
            change.operations.append(
                _put_message((queue.queue_id, lookup_id, message, now, expires, abort_count, move_count, 0.0))
            )
        elif queue.staged_inserts:
            change.ordered = True  # not before the durable messages that came earlier
        queue.staged_inserts += 1
        queue.uncommitted_bytes += size
        core.staged_bytes += size
        core.count_bytes(queue, size)
        if type(change) is Sends and change.queue is queue:
            change.positions.append(position)
        else:
            inserted, insert_failed = self._outcomes
            change.either(inserted, insert_failed, position)
        return position

    def stage_definition(self, change: Change, queue: Queue) -> None:
        change.operations.append(queue.definition())
        change.then(queue.mark_persisted)

    def _inserted(self, position: Position) -> None:
        queue, size = position.queue, position.size
        queue.staged_inserts -= 1
        queue.uncommitted_bytes -= size
        queue.total_bytes += size
        self._core.staged_bytes -= size
        traffic = self._core.traffic
        traffic.arrived += 1
        traffic.arrived_bytes += size
        position.step(_PUBLISH)
        if position.expires:
            self._core.expiries.add(position.expires, queue.queue_id, position.lookup_id)
            if not position.stored:
                self._core.wake()  # no commit comes after which the engine would look when it expires
        if self._core.fates is not None:
            self._core.fates.arrived(position)
        self.make_available(position)

    def inserted_all(self, queue: Queue, positions: Sequence[Position]) -> None:
        """As `_inserted` for each: new positions of one queue, in its order."""
        core, count = self._core, len(positions)
        total = sum([position.size for position in positions])
        queue.staged_inserts -= count
        queue.uncommitted_bytes -= total
        queue.total_bytes += total
        core.staged_bytes -= total
        core.traffic.arrived += count
        core.traffic.arrived_bytes += total
        step_all(positions, State.STAGED, _PUBLISH)
        self._note_expiry(queue, positions)
        if core.fates is not None:
            core.fates.arrived_all(positions)
        if queue.waiters or core.message_listeners:
            for position in positions:
                self.make_available(position)
            return
        queue.publish_all(positions)
        if isinstance(queue, OutgoingQueue) and not queue.awaited and core.listeners:
            core.emit(MessageAwaitsTransfer(queue))

    def _note_expiry(self, queue: Queue, positions: Sequence[Position]) -> None:
        expiries, ends = self._core.expiries, {position.expires for position in positions}
        if len(ends) == 1:  # nearly always: they were sent in the same second
            (end,) = ends
            if end:
                expiries.add_all(end, queue.queue_id, [position.lookup_id for position in positions])
        else:
            for position in positions:
                if position.expires:
                    expiries.add(position.expires, queue.queue_id, position.lookup_id)
        if not positions[0].stored and any(ends):
            self._core.wake()  # no commit comes after which the engine would look when they expire

    def insert_failed_all(self, queue: Queue, positions: Sequence[Position]) -> None:
        for position in reversed(positions):
            self.insert_failed(position)

    def insert_failed(self, position: Position) -> None:
        position.queue.staged_inserts -= 1
        self._core.staged_bytes -= position.size
        self.release(position)
        position.step(Step.DELETE)

    def make_available(self, position: Position) -> None:
        """[MS-MQDMPR] 3.1.7.2.2: into the order, then to who waits. The bytes are counted already."""
        queue = position.queue
        assert position.state is _AVAILABLE
        queue.publish(position)
        if queue.waiters:
            self.offer(position)
        if isinstance(queue, OutgoingQueue):
            if not queue.awaited and self._core.listeners:
                self._core.emit(MessageAwaitsTransfer(queue))
        elif self._core.message_listeners:
            self._core.emit_message(MessageAvailable(queue, position.lookup_id))

    # Messages of the queue manager's own

    def stage_acknowledgement(self, change: Change, message: Message, message_class: MessageClass) -> None:
        """[MS-MQQB] 3.1.7.15, as part of the change that it speaks of. A message that came by SRMP is answered by
        receipts, at the addresses that its envelope names."""
        core = self._core
        if message.soap is not None and message.soap.envelope:
            self.stage_receipt(change, message, message_class)
            return
        ack = acknowledgement(message, message_class, insecure=core.properties.send_insecure_nacks)
        if ack is None:
            return
        self.stamp_own(change, ack)
        self.stage_own(change, message.administration_queue, ack)

    def stamp_own(self, change: Change, message: Message) -> None:
        core = self._core
        message.identifier = ObjectId(core.properties.identifier, core.ordinals.next(change))
        message.source_queue_manager = core.properties.identifier
        message.sent_time = core.clock.wall()

    def stage_own(self, change: Change, format_name: str, message: Message, *, limited: bool = True) -> None:
        """Send a message that the queue manager made. What cannot be delivered is dropped with an event:
        there is nobody to tell. Not `limited` by quotas is what takes the place of a message that leaves."""
        name = parse_single(format_name)
        queue = None if name is None else self._own_target(name)
        why = ""
        if queue is None:
            why = "there is no such queue"
        elif queue.transactional or queue.kind is QueueType.SUBQUEUE:
            why = "the queue does not take messages outside a transaction"
        elif limited and not self._core.takes(queue, message.size):
            why = "the queue's quota is used up"
        if why or queue is None:
            change.then(self._core.dropped, message, format_name, why)
            return
        message.destination_queue = format_name
        self.stage_insert(change, queue, message)

    def _own_target(self, name: SingleName) -> Queue | None:
        queue = self._routing.for_sending(name)
        return None if queue is None or (queue.is_system and queue.kind is not QueueType.OUTGOING) else queue

    def stage_journal_copy(self, change: Change, message: Message) -> None:
        """Positive source journaling: a copy to the system journal, dropped when that is full (DM-042)."""
        journal = self._routing.system(QueueSuffix.JOURNAL)
        assert journal is not None
        self.stage_copy(change, journal, message, failed=0)

    def stage_copy(self, change: Change, queue: Queue, message: Message, *, failed: int) -> bool:
        """A copy of the message for a journal or a dead-letter queue; False if there is no room."""
        if not self._core.takes(queue, message.size):
            change.then(self._core.dropped, message, queue.name, "its quota is used up")
            return False
        copy = message.copy()
        copy.failure_reason = failed
        copy.failed_destination = message.destination_queue
        self.stage_insert(change, queue, copy)
        return True


def _believed(message: Message, destination: str, transactional: bool) -> int:
    return message.security.authentication_level if message.security is not None else 0


def _no_receipt(change: Change, message: Message, message_class: int) -> None:
    pass


def _nobody(position: Position) -> bool:
    return False


def _forget(change: Change, queue: Queue, message: Message) -> None:
    raise AssertionError("Sending is not wired")
