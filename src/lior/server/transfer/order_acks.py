"""The order acknowledgements that we owe: batched, volatile, on any session with who waits ([MS-MQQB] 3.1.7.17)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import UUID

from lior.message import Message, ObjectId
from lior.protocols.binary.ordering import NEVER, OrderAckSchedule
from lior.queues.change import Change
from lior.queues.outgoing import IncomingTransactionalTransferInfo
from lior.wire.message_packet import to_packet
from lior.wire.order_packets import OrderAck, order_ack_message, order_queue_at, order_queue_of

if TYPE_CHECKING:
    from lior.server.transfer.connection import Connection
    from lior.server.transfer.hub import Transfer

MANY_STREAMS: Final = 4096
MANY_MESSAGES: Final = 1024


class _Stream:
    """One incoming stream whose position the sender is to learn."""

    __slots__ = ("asked", "connection", "info", "last_sent", "schedule", "timer", "to")

    def __init__(self, info: IncomingTransactionalTransferInfo, schedule: OrderAckSchedule) -> None:
        self.info = info
        self.schedule = schedule
        self.connection: Connection | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.to = ""
        self.last_sent = 0
        self.asked = False  # in a change that is not on disk yet


class OrderAcks:
    def __init__(self, hub: Transfer) -> None:
        self._hub = hub
        self._streams: dict[int, _Stream] = {}  # by the identity of the stream's record
        self._refused: dict[tuple[UUID, str], IncomingTransactionalTransferInfo] = {}  # streams to no queue of ours
        self.sent = 0

    def wanted(
        self, change: Change, info: IncomingTransactionalTransferInfo, message: Message, connection: Connection
    ) -> None:
        """After the commit: it speaks of what is on disk, never of what is about to be. One timer for a stream; a
        chunk with many of its messages asks once."""
        stream = self._streams.get(id(info))
        if stream is None:
            schedule = OrderAckSchedule(self._hub.settings.session, self._hub.loop.time())
            stream = self._streams[id(info)] = _Stream(info, schedule)
        if stream.asked and stream.connection is connection:
            return
        stream.asked = True
        stream.connection = connection
        stream.to = self.address_for(message, connection)
        change.ordered = True
        change.either(self._schedule, self._not_stored, stream)

    def rejected(self, change: Change, message: Message, connection: Connection) -> None:
        """A message for a queue that does not exist: nothing of its stream is on disk, the acknowledgement says all."""
        transaction = message.transaction
        assert transaction is not None
        if len(self._refused) >= MANY_STREAMS:
            self._refused.clear()
        key = (message.source_queue_manager, message.destination_queue)
        info = self._refused.setdefault(
            key, IncomingTransactionalTransferInfo(message.destination_queue, message.source_queue_manager))
        info.sequence_id = transaction.sequence_identifier
        info.last_sequence_number = transaction.sequence_number
        self.wanted(change, info, message, connection)

    def _not_stored(self, stream: _Stream) -> None:
        stream.asked = False

    def _schedule(self, stream: _Stream) -> None:
        """3.1.1.6.2: later arrivals put it off, but not for ever."""
        stream.asked = False
        stream.schedule.received(self._hub.loop.time())
        if stream.info.last_sequence_number - stream.last_sent >= MANY_MESSAGES:
            stream.schedule.due(stream.schedule.deadline)  # before the timer: the sender keeps all of them meanwhile
            self._send(stream)
        elif stream.timer is None:
            stream.timer = self._hub.loop.call_at(stream.schedule.deadline, self._due, stream)

    def _due(self, stream: _Stream) -> None:
        """The timer is set once; what came meanwhile moved the deadline only."""
        stream.timer = None
        now = self._hub.loop.time()
        if stream.schedule.deadline == NEVER:
            return
        if stream.schedule.deadline > now + 0.002:
            stream.timer = self._hub.loop.call_at(stream.schedule.deadline, self._due, stream)
            return
        stream.schedule.due(max(now, stream.schedule.deadline))
        self._send(stream)
        if len(self._streams) > MANY_STREAMS:
            self._streams = {key: s for key, s in self._streams.items() if s.timer is not None}

    def _send(self, stream: _Stream) -> None:
        """To the queue manager that sent the messages. If no session leads to it now, its next try asks again."""
        info = stream.info
        sequence_id, number = self._hub.manager.incoming_streams.stored(info)  # not what is still on its way to disk
        if not sequence_id:
            return  # nothing was ever accepted
        stream.last_sent = number
        connection = stream.connection
        if connection is None or not connection.is_open:
            connection = self._hub.session_with(info.sender.bytes_le)
        manager = self._hub.manager
        change = Change()
        message = order_ack_message(OrderAck(sequence_id, number), stream.to)
        message.source_queue_manager = manager.core.properties.identifier
        message.identifier = ObjectId(message.source_queue_manager, manager.core.ordinals.next(change))
        message.sent_time = self._hub.clock.wall()
        if connection is not None and connection.session.remote == info.sender.bytes_le:
            change.then(connection.send_control, to_packet(message))
            self.sent += 1
        elif self._hub.peers.host_of(info.sender) is not None:  # behind a router
            manager.sending.stage_own(change, message.destination_queue, message)
            self.sent += 1
        if change.operations or change.has_steps:
            manager.core.submit(change)

    def address_for(self, message: Message, connection: Connection) -> str:
        """2.2.4: by address if the messages come to a direct name, else by queue manager; and by queue manager too
        when a router stands between."""
        sender = message.source_queue_manager
        if connection.session.direct and connection.session.remote == sender.bytes_le:
            return order_queue_at(connection.address)
        return order_queue_of(sender)

    def stop(self) -> None:
        for stream in self._streams.values():
            if stream.timer is not None:
                stream.timer.cancel()
