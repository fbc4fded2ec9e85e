"""Receipts that messages ask for when they arrive and when they leave their queue ([MC-MQSRM] 3.1.5.1.6.2, 3.1.7.3).

What was asked for is read from the envelope, which the message keeps. A receipt is an ordinary outgoing message, in
the change that it speaks of.
"""

from __future__ import annotations

import logging

from lior.errors import LiorError
from lior.message import INFINITE, Message, MessageClass, MessageSoap, ObjectId
from lior.names import DirectName, FormatName
from lior.protocols.srmp.kinds import DECISIONS
from lior.protocols.srmp.redirection import matches
from lior.queues.acknowledgements import is_answer
from lior.queues.change import Change
from lior.queues.manager import QueueManager
from lior.server.srmp.settings import SrmpSettings
from lior.wire.srmp_elements import (
    ORDERING_ACK,
    CommitmentReceipt,
    DeliveryReceipt,
    Envelope,
    Msmq,
    StreamId,
    StreamReceipt,
)
from lior.wire.srmp_message import format_name_of, parsed_name
from lior.wire.srmp_reader import read_envelope
from lior.wire.srmp_values import format_identifier
from lior.wire.srmp_writer import write_envelope
from lior.wire.strict_xml import Limits

log = logging.getLogger("lior.srmp")

FOUR_DAYS = 345600  # the time to reach the queue that the examples show


def install(manager: QueueManager, settings: SrmpSettings) -> Receipts:
    receipts = Receipts(manager, settings)
    manager.sending.stage_receipt = receipts.stage
    manager.sending.stage_final_receipt = receipts.stage_final
    return receipts


class Receipts:
    def __init__(self, manager: QueueManager, settings: SrmpSettings) -> None:
        self._manager = manager
        self._allowed = settings.receipts_allowed
        self._most = settings.most_destinations
        self._limits = Limits(octets=settings.max_envelope)
        self.suppressed = 0

    def stage(self, change: Change, message: Message, message_class: int) -> None:
        """The receipt of one kind, if the message asks for it."""
        original = self._envelope(message)
        if original is None or is_answer(message.message_class):
            return
        services, now = original.services, int(self._manager.core.clock.wall())
        identifier = format_identifier(original.identifier)
        receipt = self._receipt(original, message_class, original.identifier)
        if message_class == MessageClass.ACK_REACH_QUEUE:
            receipt.to = services.delivery_receipt_to
            receipt.delivery_receipt = DeliveryReceipt(now, identifier)
        elif message_class in DECISIONS:
            positive = DECISIONS[message_class]
            if not (services.positive_only if positive else services.negative_only):
                return
            receipt.to = services.commitment_receipt_to
            receipt.commitment_receipt = CommitmentReceipt(now, positive, identifier)
        self.send(change, receipt, message.delivery_guarantee)

    def stage_final(self, change: Change, message: Message, message_class: int) -> None:
        """What became of a message of a stream, for a sender that keeps it until it knows (3.1.7.3.3)."""
        original = self._envelope(message)
        if original is None or original.stream is None or not message.negative_journaling_requested \
                or message.soap is None:
            return
        if message_class not in DECISIONS:  # no right, no room, not signed: the wire has no word for it, and the
            message_class = MessageClass.NACK_RECEIVE_REJECTED  # sender must not wait for ever
        receipt = self._receipt(original, message_class, original.identifier)
        receipt.to = message.soap.receipts_to
        receipt.label = ORDERING_ACK
        receipt.stream_receipt = StreamReceipt(original.stream.stream_id, original.stream.current)
        receipt.commitment_receipt = CommitmentReceipt(
            int(self._manager.core.clock.wall()), DECISIONS[message_class], format_identifier(original.identifier))
        self.send(change, receipt, 1)

    def stream_receipt(self, change: Change, to: str, stream_id: StreamId, last: int, queue_url: str) -> None:
        """Everything up to `last` is on disk here (3.1.6.3)."""
        receipt = Envelope(to, ORDERING_ACK, via=queue_url, stream_receipt=StreamReceipt(stream_id, last),
                           msmq=Msmq(message_class=MessageClass.ORDER_ACK.value, priority=0))
        self.send(change, receipt, 0)

    def _envelope(self, message: Message) -> Envelope | None:
        if message.soap is None:
            return None
        try:
            return read_envelope(message.soap.envelope.encode("utf-8"), self._limits)
        except LiorError:
            return None

    def _receipt(self, original: Envelope, message_class: int, identifier: ObjectId) -> Envelope:
        priority = 3 if original.msmq is None else original.msmq.priority
        return Envelope("", original.label or "", via=original.to, msmq=Msmq(
            message_class=int(message_class), priority=priority, correlation=identifier.to_bytes()))

    def send(self, change: Change, receipt: Envelope, delivery_guarantee: int) -> None:
        """Ordinary sending, but for the envelope, which is made now: it says what a message cannot."""
        assert receipt.msmq is not None
        if not receipt.to:
            return
        if self._allowed and not any(matches(pattern, receipt.to) for pattern in self._allowed):
            self.suppressed += 1
            log.warning("a receipt was not sent: srmp.receipts_allowed does not have its address",
                        extra={"fields": {"to": receipt.to, "class": receipt.msmq.message_class}})
            return
        try:
            name = parsed_name(receipt.to)
            destination = str(name)
        except LiorError:
            change.then(self._manager.core.dropped, Message(label=receipt.label or ""), receipt.to, "no queue's URL")
            return
        if not self._has_room(name):
            self.suppressed += 1
            change.then(self._manager.core.dropped, Message(label=receipt.label or ""), destination,
                        f"there are {self._most} outgoing queues already")
            return
        message = Message(
            label=receipt.label or "",
            message_class=receipt.msmq.message_class,
            priority=receipt.msmq.priority,
            correlation_id=receipt.msmq.correlation or bytes(20),
            response_queue=_format_name(receipt.via),
            delivery_guarantee=delivery_guarantee,
            time_to_reach_queue=FOUR_DAYS,
            time_to_be_received=INFINITE,
        )
        sending = self._manager.sending
        sending.stamp_own(change, message)
        assert message.identifier is not None
        receipt.identifier = message.identifier
        receipt.sent_at = int(message.sent_time)
        receipt.msmq.source_qm_guid = message.source_queue_manager
        receipt.msmq.ttrq = receipt.sent_at + FOUR_DAYS
        message.soap = MessageSoap(envelope=write_envelope(receipt).decode("utf-8"))
        sending.stage_own(change, destination, message)


    def _has_room(self, name: FormatName) -> bool:
        """Any sender may name any place for his receipts; a queue for each is made only up to a number. Idle ones are
        forgotten in minutes, and stream receipts come again."""
        core = self._manager.core
        if not isinstance(name, DirectName) or name.key in core.outgoing or len(core.outgoing) < self._most:
            return True
        return core.local.designates_me(name)


def _format_name(url: str) -> str:
    try:
        return format_name_of(url) if url else ""
    except LiorError:
        return ""
