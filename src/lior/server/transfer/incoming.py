"""What arrives: the steps of [MS-MQQB] 3.1.5.8 in the order that loses nothing (see docs/spec-notes.md, QB-152).

Everything that one chunk of bytes brought is one change: the messages, the stream positions and the identifiers that
tell duplicates are on disk together, and only then the session may acknowledge what was to be stored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lior.errors import LiorError
from lior.message import Message, MessageClass, ObjectId
from lior.names import (
    DirectName,
    MultipleName,
    PrivateName,
    PublicName,
    QueueSuffix,
    SingleName,
    parse_format_name,
)
from lior.queues.change import Change
from lior.queues.definition import QueueType
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.queues.sending import EnqueueStatus
from lior.server.log_limit import LogLimit
from lior.wire.headers import DM_SHIFT, NULL_GUID_BYTES, TR
from lior.wire.message_packet import from_user_message
from lior.wire.order_packets import FinalAck, OrderAck, recognise
from lior.wire.packet_format_names import Hosts, format_name, guid_of
from lior.wire.plain_packets import PlainMessage, Way
from lior.wire.queue_names import DIRECT, PacketName
from lior.wire.user_message import UserMessage

if TYPE_CHECKING:
    from lior.server.transfer.connection import Connection
    from lior.server.transfer.hub import Transfer

log = logging.getLogger("lior.transfer")

MANY_TARGETS: Final = 4096
NACK: Final = MessageClass
STATUS_CLASS: Final = {
    EnqueueStatus.QUEUE_QUOTA: NACK.NACK_Q_EXCEED_QUOTA,
    EnqueueStatus.TIMED_OUT: NACK.NACK_REACH_QUEUE_TIMEOUT,
    EnqueueStatus.HOP_COUNT: NACK.NACK_HOP_COUNT_EXCEEDED,
}


class NotStored(LiorError):
    """The queue manager has no room: close without an acknowledgement (QB-175)."""


class Target:
    """Where a destination leads: a queue here, a name elsewhere, or nowhere; `ours` if that would be here."""

    __slots__ = ("elsewhere", "ours", "queue")

    def __init__(self, queue: Queue | None = None, elsewhere: SingleName | None = None, *, ours: bool = False) -> None:
        self.queue = queue
        self.elsewhere = elsewhere
        self.ours = ours


class Incoming:
    def __init__(self, hub: Transfer) -> None:
        self._hub = hub
        self._manager = hub.manager
        self._targets: dict[tuple[PacketName, bytes], Target] = {}
        self._express: dict[bytes, None] = {}  # keys of the express messages of the chunk
        self.accepted = 0
        self.duplicates = 0
        self.refused: dict[int, int] = {}  # by message class
        self._refusals = LogLimit(log, logging.INFO, "message refused", hub.loop)
        self._failures = LogLimit(log, logging.WARNING, "what a peer sent cannot be taken", hub.loop)

    def stop(self) -> None:
        self._refusals.tell()
        self._failures.tell()

    def forget_targets(self) -> None:
        """A queue came, went or changed."""
        self._targets.clear()

    def process(self, connection: Connection, messages: list[UserMessage | PlainMessage]) -> None:
        change = Change()
        stored = 0
        keys: dict[bytes, None] = {}  # of recoverable messages: remembered on disk with them
        self._express.clear()
        now = self._hub.clock.wall()
        full = False
        for one in _in_batches(messages):
            if isinstance(one, list):
                if self._take_plain(change, connection, one, keys, now):
                    stored += len(one) if one[0].message.delivery_guarantee else 0
                    continue
                some = [UserMessage.decode(plain.packet) for plain in one]
            else:
                some = [one]
            for user_message in some:
                try:
                    self._take(change, connection, user_message, keys, now)
                except LiorError as error:  # NotStored above all
                    if self._failures.allows():
                        log.warning("what a peer sent cannot be taken", extra={"fields": {
                            "peer": connection.address, "message": _identifier(user_message), "why": str(error)}})
                    full = True
                    break
                stored += user_message.user.flags >> DM_SHIFT & 1
            if full:
                break
        self._remember(change, list(keys), list(self._express), now)
        if stored and not full:
            change.ordered = True  # what has nothing to store must not overtake what has
            change.then(connection.stored, stored)
        change.otherwise(connection.not_stored)
        change.lazy = not stored and all(map(self._is_order_ack, messages))  # as with acknowledgements of the session
        self._manager.core.submit(change)
        if full:
            connection.not_stored()
        elif self._hub.engine.crowded:
            connection.hold_reading()

    def _remember(self, change: Change, keys: list[bytes], express: list[bytes], now: float) -> None:
        """What came, to know it when it comes again."""
        history = self._manager.message_history
        if keys:
            history.record(change, keys, now)
        if express:
            history.record_volatile(express, now)
            if change.operations:  # if they cannot be stored, the express messages between them are lost, too
                change.otherwise(history.forget, express)

    def _is_order_ack(self, message: UserMessage | PlainMessage) -> bool:
        return isinstance(message, UserMessage) and isinstance(
            recognise(message, self._hub.own, _any_host), OrderAck)

    def _take_plain(
        self, change: Change, connection: Connection, batch: list[PlainMessage], keys: dict[bytes, None], now: float
    ) -> bool:
        """Plain messages of one kind on the same way, all of them; False where one needs a closer look."""
        manager, way = self._manager, batch[0].way
        queue = self._target(way.name, way.source, way.address).queue
        messages = [plain.message for plain in batch]
        first = messages[0]
        if queue is None or not self._hub.guard.is_open(queue) or self._objection(queue, first):
            return False
        if first.transaction is not None:
            info = manager.incoming_streams.position(queue, first)
            if not manager.incoming_streams.accepts_all(info, messages):
                return False
        else:
            found = dict.fromkeys([plain.packet[16:32] + plain.packet[56:60] for plain in batch])
            known = keys.keys() | self._express.keys() if self._express else keys.keys()
            if len(found) != len(batch) or not known.isdisjoint(found) \
                    or not manager.message_history.has_none_of(found):
                return False
        if not manager.batches.arrive(change, queue, messages):
            return False
        last = messages[-1]
        if last.transaction is not None:
            info.acknowledge_to = self._hub.order_acks.address_for(last, connection)
            manager.incoming_streams.advance(change, info, queue, last.transaction, now)
            self._hub.order_acks.wanted(change, info, last, connection)
        elif first.delivery_guarantee:
            keys.update(found)
        else:
            self._express.update(found)
        self.accepted += len(messages)
        return True

    def _take(
        self, change: Change, connection: Connection, user_message: UserMessage, keys: dict[bytes, None], now: float
    ) -> None:
        """One message. Whatever becomes of it, the session counts it as received."""
        control = recognise(user_message, self._hub.own, _any_host)
        if control is not None:
            self._control(change, connection, user_message, control, keys, now)
            return
        key = b""
        if user_message.transaction is None:
            key = key_of(user_message)
            if key in keys or key in self._express or self._is_duplicate(key, now):
                self.duplicates += 1
                return
        user = user_message.user
        target = self._target(user_message.destination_queue, user.source_queue_manager, user.queue_manager_address)
        if target.queue is not None:
            self._to_queue(change, connection, user_message, target.queue, now)
        elif target.elsewhere is not None:
            self._pass_on(change, user_message, target.elsewhere)
        else:
            self._nowhere(change, connection, user_message, ours=target.ours)
        if not key:
            return
        if user_message.user.flags >> DM_SHIFT & 1:  # only now: one that was not stored comes again (QB-154)
            keys[key] = None
        else:
            self._express[key] = None

    def _is_duplicate(self, key: bytes, now: float) -> bool:
        history = self._manager.message_history
        if not history.seen(key, now):
            return False
        if not history.settled(key):  # over another session, and not on disk yet
            raise NotStored("the first copy of the message is being stored", where="duplicate")
        return True

    # Acknowledgements of streams

    def _control(
        self, change: Change, connection: Connection, user_message: UserMessage, control: object,
        keys: dict[bytes, None], now: float,
    ) -> None:
        """[MS-MQQB] 3.1.5.6, 3.1.5.7. Anything else for the order queue is dropped."""
        if isinstance(control, OrderAck):
            streams = self._manager.outgoing_streams
            queue = streams.queue_of(control.tx_sequence_id)
            if queue is None or not self._hub.leads_to(queue, connection):
                return  # QB-145: of nothing that waits, or from a stranger
            if streams.order_acked(change, control.tx_sequence_id, control.tx_sequence_number) is not None:
                change.then(self._hub.ordered, queue)
        elif isinstance(control, FinalAck):
            key = key_of(user_message)
            if key not in keys and not self._is_duplicate(key, now):
                keys[key] = None
                self._manager.outgoing_streams.final_acked(
                    change, guid_of(control.source_guid), control.message_id, control.message_class,
                    control.tx_sequence_id)

    # A queue of ours

    def _to_queue(
        self, change: Change, connection: Connection, user_message: UserMessage, queue: Queue, now: float
    ) -> None:
        transaction = user_message.transaction
        message = self._message(user_message)
        streams = self._manager.incoming_streams
        if transaction is not None:
            assert message.transaction is not None
            info = streams.position(queue, message)
            self._hub.order_acks.wanted(change, info, message, connection)
            if not streams.accepts(info, message.transaction):
                streams.reject(info)
                self.duplicates += 1
                return
        reason = self._objection(queue, message) or self._checked(user_message, message, queue)
        if not reason:
            status = self._manager.sending.accept(queue, message, None, change)
            if status is EnqueueStatus.QUEUE_MANAGER_QUOTA:
                raise NotStored("the queue manager has no room", where=queue.name)
            reason = STATUS_CLASS.get(status, 0)
        if message.transaction is not None:
            info.acknowledge_to = self._hub.order_acks.address_for(message, connection)
            streams.advance(change, info, queue, message.transaction, now)
        if reason:
            self._refuse(change, queue, message, reason)
            return
        self.accepted += 1
        if user_message.base.flags & TR:
            self._manager.tracing.arrived(change, message, now)

    def _message(self, user_message: UserMessage) -> Message:
        message = from_user_message(user_message, queue_manager=self._manager.core.properties.identifier)
        if user_message.security is None and user_message.multi_queue is None and user_message.soap is None:
            message.packet = b""  # nothing in its bytes that the message does not have
        return message

    def _objection(self, queue: Queue, message: Message) -> int:
        """What the kind of the queue refuses (QB-157, QB-158)."""
        if message.transaction is not None and not queue.transactional:
            return NACK.NACK_NOT_TRANSACTIONAL_Q
        if message.transaction is None and queue.transactional:
            return NACK.NACK_NOT_TRANSACTIONAL_MSG
        return 0

    def _checked(self, user_message: UserMessage, message: Message, queue: Queue) -> int:
        checked = self._hub.guard.check(user_message, queue, self._hub.loop.time())
        if message.security is not None:
            checked.settle(message)
        return checked.refused

    def _refuse(
        self, change: Change, queue: Queue | None, message: Message, reason: int, *, keep: bool = True
    ) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        if self._refusals.allows():
            log.info("message refused", extra={"fields": {
                "message": str(message.identifier), "queue": message.destination_queue,
                "class": MessageClass(reason).name}})
        self._manager.removal.refuse(change, queue, message, MessageClass(reason), keep=keep)

    # Elsewhere, nowhere

    def _nowhere(self, change: Change, connection: Connection, user_message: UserMessage, *, ours: bool) -> None:
        """No such queue (QB-156). There is no stream to keep a position in: each message is acknowledged as it comes,
        so that its sender goes on (QB-151). Dead letters for others are not our business."""
        message = self._message(user_message)
        if message.transaction is not None:
            self._hub.order_acks.rejected(change, message, connection)
        self._refuse(change, None, message, NACK.NACK_BAD_DST_Q, keep=ours)

    def _pass_on(self, change: Change, user_message: UserMessage, name: SingleName) -> None:
        """For somebody else: into the outgoing queue that leads there (QB-155, QB-159, QB-170)."""
        message = from_user_message(user_message, queue_manager=self._manager.core.properties.identifier)
        message.destination_queue = str(name)
        status = self._manager.transit(change, message, name)
        if status is EnqueueStatus.QUEUE_MANAGER_QUOTA:
            raise NotStored("the queue manager has no room", where=str(name))
        if status is not EnqueueStatus.OK:
            self._refuse(change, None, message, STATUS_CLASS[status])

    # Destinations

    def _target(self, packet_name: PacketName, source: bytes, address: bytes) -> Target:
        key = (packet_name, address)
        found = self._targets.get(key)
        if found is None or (found.queue is not None and found.queue.deleted):
            if len(self._targets) >= MANY_TARGETS:
                self._targets.clear()
            found = self._targets[key] = self._find(packet_name, source, address)
        return found

    def _find(self, packet_name: PacketName, source: bytes, address: bytes) -> Target:
        """A null QueueManagerAddress is local, as every direct name's is; a direct name must name this computer,
        or one that a route leads to (QB-155)."""
        name = self._name(packet_name, source, address)
        if name is None:
            return Target()
        local = self._manager.core.local
        direct = isinstance(name, DirectName)
        if not (local.designates_me(name) if direct else address in (NULL_GUID_BYTES, self._hub.own)):
            return Target(elsewhere=name) if self._manager.routing.is_on_the_way(name) else Target()
        queue = self._manager.routing.find(name)
        if queue is None or isinstance(queue, OutgoingQueue) or not _takes_remote(queue, name):
            return Target(ours=True)
        return Target(queue)

    def _name(self, packet_name: PacketName, source: bytes, address: bytes) -> SingleName | None:
        host = address if address != NULL_GUID_BYTES else self._hub.own
        text = f"DIRECT={packet_name.text}" if packet_name.type == DIRECT else format_name(
            packet_name, Hosts(source, host, None))
        try:
            name = parse_format_name(text)
        except LiorError:
            return None
        return None if isinstance(name, MultipleName) else name


def _takes_remote(queue: Queue, name: SingleName) -> bool:
    """Journals, dead letters and subqueues are not written from outside (QB-170)."""
    if queue.kind is QueueType.SUBQUEUE or queue.is_system:
        return False
    suffix = getattr(name, "suffix", QueueSuffix.NONE)
    return isinstance(name, DirectName | PrivateName | PublicName) and suffix is QueueSuffix.NONE


def _in_batches(
    messages: list[UserMessage | PlainMessage],
) -> Iterator[UserMessage | list[PlainMessage]]:
    """Plain messages of one kind that came one after the other on the same way together, all others one by one."""
    batch: list[PlainMessage] = []
    kind: tuple[Way, bool, int] | None = None
    for message in messages:
        if isinstance(message, PlainMessage):
            way, content, _ = message
            this = (way, content.transaction is None, content.delivery_guarantee)
            if this == kind:
                batch.append(message)
                continue
            if batch:
                yield batch
            batch, kind = [message], this
            continue
        if batch:
            yield batch
        batch, kind = [], None
        yield message
    if batch:
        yield batch


def key_of(user_message: UserMessage) -> bytes:
    """What tells duplicates: the source queue manager and its number of the message (QB-153)."""
    user = user_message.user
    return user.source_queue_manager + user.message_id.to_bytes(4, "little")


def _identifier(user_message: UserMessage) -> str:
    return str(ObjectId(guid_of(user_message.user.source_queue_manager), user_message.user.message_id))


def _any_host(host: str) -> bool:
    """Whatever the sender calls us, for behind an address translation it is not our address: acknowledgements to an
    order queue that come here are ours."""
    return True
