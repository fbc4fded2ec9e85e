"""The stream receipts that we owe: one for a row of messages, not too late ([MC-MQSRM] 3.1.1.3.2, 3.1.2.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lior.message import Message
from lior.queues.change import Change
from lior.queues.outgoing import IncomingTransactionalTransferInfo
from lior.queues.queue import Queue
from lior.wire.srmp_elements import Envelope, StreamId
from lior.wire.srmp_message import envelope_name

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp


class _Owed:
    """The Stream Receipt Coalescing Timer of one stream."""

    __slots__ = ("first", "info", "timer")

    def __init__(self, info: IncomingTransactionalTransferInfo, now: float) -> None:
        self.info = info
        self.first = now  # UnackedStreamMessageArrivalTime
        self.timer: asyncio.TimerHandle | None = None


class StreamReceipts:
    def __init__(self, hub: Srmp) -> None:
        self._hub = hub
        self._owed: dict[int, _Owed] = {}  # by the identity of the stream's record
        self.sent = 0

    def position(self, envelope: Envelope, queue: Queue, message: Message) -> IncomingTransactionalTransferInfo:
        assert envelope.stream is not None
        streams = self._hub.manager.incoming_streams
        return streams.position(queue, message, envelope.stream.stream_id.queue_manager)

    def advance(self, change: Change, envelope: Envelope, queue: Queue, message: Message) -> None:
        """The message is accepted, or refused for good: the stream goes on either way."""
        assert envelope.stream is not None and message.transaction is not None
        info = self.position(envelope, queue, message)
        if envelope.stream.send_receipts_to:
            info.acknowledge_to = envelope.stream.send_receipts_to
        self._hub.manager.incoming_streams.advance(change, info, queue, message.transaction, self._hub.clock.wall())
        self.owe(change, info)

    def owe(self, change: Change, info: IncomingTransactionalTransferInfo) -> None:
        change.then(self._schedule, info)

    def _schedule(self, info: IncomingTransactionalTransferInfo) -> None:
        settings, loop = self._hub.settings, self._hub.loop
        now = loop.time()
        owed = self._owed.get(id(info))
        if owed is None:
            owed = self._owed[id(info)] = _Owed(info, now)
        if owed.timer is not None:
            owed.timer.cancel()
        due = min(now + settings.receipt_delay, owed.first + settings.longest_receipt_delay)
        owed.timer = loop.call_at(due, self._send, owed)

    def _send(self, owed: _Owed) -> None:
        del self._owed[id(owed.info)]
        info, manager = owed.info, self._hub.manager
        place = manager.incoming_streams.stored_place(info)  # not what is still on its way to disk
        if not place.sequence_id or not place.acknowledge_to:
            return
        change = Change()
        self._hub.receipts.stream_receipt(change, place.acknowledge_to, StreamId(info.sender, place.sequence_id),
                                          place.number, envelope_name(info.format_name))  # fmt: skip
        if change.operations or change.has_steps:
            self.sent += 1
            manager.core.submit(change)

    def stop(self) -> None:
        for owed in self._owed.values():
            if owed.timer is not None:
                owed.timer.cancel()
        self._owed.clear()
