"""What a POST brings: from its octets to the change that stores it ([MC-MQSRM] 3.1.5.1).

The checks come first and the change last. Message, stream position and identifier are on disk together; only then
the request is answered and receipts leave (docs/spec-notes.md, SR-134).
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from lior.errors import AccessDenied, LiorError, Malformed
from lior.message import Message, MessageClass
from lior.names import DirectName
from lior.protocols.srmp.kinds import Kind, kind_of
from lior.queues.change import Change, Nobody, Reply
from lior.queues.definition import QueueType
from lior.queues.message_history import KEY_SIZE, MessageHistory
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.queues.sending import EnqueueStatus
from lior.security import ANONYMOUS_CALLER, QueueAccess
from lior.wire.mime import Entity, parse_entity
from lior.wire.srmp_elements import NO_IDENTIFIER, Envelope
from lior.wire.srmp_message import parsed_name, to_message
from lior.wire.srmp_reader import read_envelope
from lior.wire.srmp_values import identifier
from lior.wire.strict_xml import Limits

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp

log = logging.getLogger("lior.srmp")

ACCEPTED: Final = 200
REFUSED: Final = 400
LATER: Final = 0
NO_ROOM: Final = 500  # and whatever else may be over when the sender tries again
ORDER_QUEUE: Final = "order_queue$"
NACK: Final = MessageClass


@dataclass(slots=True)
class Request:
    """A POST as it came."""

    head: bytes  # request line and header, with the empty line
    content_type: str
    body: bytes
    peer: str


@dataclass(slots=True)
class Received:
    """A request whose form is right."""

    request: Request
    entity: Entity
    envelope: Envelope
    kind: Kind
    reply: Reply


class _Copy:
    """The answer to a second copy of a message whose first one was under way to the disk: what became of that."""

    __slots__ = ("_history", "_key", "_now", "_reply")

    def __init__(self, reply: Reply, history: MessageHistory, key: bytes, now: float) -> None:
        self._reply, self._history, self._key, self._now = reply, history, key, now

    def cancelled(self) -> bool:
        return self._reply.cancelled()

    def set_result(self, status: int, /) -> None:
        stored = self._history.seen(self._key, self._now) and self._history.settled(self._key)
        self._reply.set_result(status if stored else NO_ROOM)

    def set_exception(self, error: LiorError, /) -> None:
        self._reply.set_exception(error)


class Incoming:
    def __init__(self, hub: Srmp) -> None:
        self._hub = hub
        self._manager = hub.manager
        self._limits = Limits(octets=hub.settings.max_envelope)
        self.outcomes: Counter[str] = Counter()

    def take(self, request: Request, reply: Reply) -> int:
        """The status to answer with; or LATER, when something has to be stored first: then `reply` is told."""
        try:
            entity = parse_entity(request.content_type, request.body)
            envelope = read_envelope(entity.envelope, self._limits)
        except Malformed as error:
            return self._refused(request, error.what)
        if (long := self._longest(entity)) > self._hub.settings.max_body:
            return self._refused(request, f"a body of {long} octets, more than {self._hub.settings.max_body}")
        kind = kind_of(envelope)
        if kind is None:
            return self._dropped("unknown type", request, envelope)
        if kind is not Kind.USER and (entity.body is not None or entity.extension is not None):
            return self._refused(request, "a receipt with an attachment")
        try:
            return self._route(Received(request, entity, envelope, kind, reply))
        except LiorError as error:
            self._failed(request, envelope, error)
            return NO_ROOM

    @staticmethod
    def _longest(entity: Entity) -> int:
        return max((len(part.data) for part in (entity.body, entity.extension) if part is not None), default=0)

    def take_multicast(self, apdu: bytes, address: str) -> None:
        """A message that came to a group: a copy for each queue that listens to it. Nobody is answered."""
        head, _, body = apdu.partition(b"\r\n\r\n")
        kind = next((line.partition(b":")[2].strip() for line in head.split(b"\r\n")
                     if line[:13].lower() == b"content-type:"), b"")
        request = Request(head + b"\r\n\r\n", kind.decode("latin-1"), body, address)
        try:
            entity = parse_entity(request.content_type, body)
            envelope = read_envelope(entity.envelope, self._limits)
        except Malformed as error:
            self._refused(request, error.what)
            return
        if kind_of(envelope) is not Kind.USER or envelope.stream is not None \
                or envelope.to.casefold() != f"msmq:multicast={address}":
            self._dropped("unknown type", request, envelope)
            return
        received = Received(request, entity, envelope, Kind.USER, Nobody())
        try:
            self._store_copies(received, apdu, [
                queue for queue in self._manager.core.queues.values()
                if queue.properties.multicast_address == address and not queue.deleted
            ])  # fmt: skip
        except LiorError as error:
            self._failed(request, envelope, error)

    def _store_copies(self, received: Received, apdu: bytes, queues: list[Queue]) -> None:
        """Duplicates are told once for all copies (SR-172)."""
        now, change = self._now, Change()
        message = to_message(received.envelope, received.entity, apdu, now)
        key = self._key(message, received.envelope.to)
        if key and self._manager.message_history.seen(key, now):
            self.outcomes["duplicate"] += 1
            return
        for queue in queues:
            self.outcomes["accepted"] += self._insert(change, received, queue, message.copy()) is EnqueueStatus.OK
        self._remember(change, key, message, now)
        self._manager.core.submit(change)

    # Where to

    def _route(self, received: Received) -> int:
        """3.1.5.1.3"""
        hub, envelope = self._hub, received.envelope
        redirected = hub.settings.inbound.target(envelope.to)
        try:
            name = parsed_name(redirected or envelope.to)
        except LiorError as error:
            return self._refused(received.request, f"the destination {envelope.to!r:.200}: {error.what}")
        if not isinstance(name, DirectName):
            return self._refused(received.request, "a multicast address in a request over HTTP")
        if not self._manager.core.local.designates_me(name):
            if redirected is None and not hub.settings.store_and_forward:
                return self._refused(received.request, f"the destination is on another computer: {name.host}")
            return hub.forwarding.take(received, name)
        if received.kind in (Kind.STREAM_RECEIPT, Kind.FINAL_STREAM_RECEIPT):
            return self._stream_receipt(received, name)
        return self._to_queue(received, name, redirected is not None)

    def _to_queue(
        self, received: Received, name: DirectName, redirected: bool = False
    ) -> int:
        queue = self._manager.routing.find(name)
        if queue is None or isinstance(queue, OutgoingQueue) or queue.is_system or queue.kind is QueueType.SUBQUEUE \
                or name.suffix:
            return self._refused(received.request, f"there is no queue {name}")
        if queue.transactional is not (received.envelope.stream is not None):
            kind = "transactional" if queue.transactional else "not transactional"
            return self._refused(received.request, f"the queue {name} is {kind}")
        request = received.request
        message = to_message(received.envelope, received.entity, request.head + request.body, self._now,
                             destination=str(name) if redirected else "")
        return self._store(received, queue, message)

    @property
    def _now(self) -> float:
        return self._hub.clock.wall()

    # One change

    def _store(self, received: Received, queue: Queue, message: Message) -> int:
        now = self._now
        change = Change()
        key = self._key(message, str(queue.queue_id))
        history = self._manager.message_history
        duplicate = bool(key) and history.seen(key, now)
        if duplicate and not history.settled(key):
            received.reply = _Copy(received.reply, history, key, now)
        if message.transaction is not None and not self._in_stream(change, received, queue, message):
            return self._answered(change, "duplicate", received)
        if duplicate:
            if message.transaction is not None:  # in another stream: this one goes on without it
                self._hub.stream_receipts.advance(change, received.envelope, queue, message)
            return self._answered(change, "duplicate", received)
        outcome = self._insert(change, received, queue, message)
        if outcome is EnqueueStatus.QUEUE_MANAGER_QUOTA:
            self.outcomes["no room"] += 1
            return NO_ROOM
        if message.transaction is not None:
            self._hub.stream_receipts.advance(change, received.envelope, queue, message)
        self._remember(change, key, message, now)
        return self._answered(change, "accepted" if outcome is EnqueueStatus.OK else "dropped", received)

    def _remember(self, change: Change, key: bytes, message: Message, now: float) -> None:
        """To know the message when it comes again: over a restart if it is kept over one itself."""
        if key and message.is_recoverable:
            self._manager.message_history.record(change, (key,), now)
        elif key:
            self._manager.message_history.record_volatile((key,), now)

    def _key(self, message: Message, place: str) -> bytes:
        """What tells duplicates; nothing for a message without Msmq (3.1.5.1.11). Messages to several queues of ours
        have one identifier, and none of them is the other's duplicate."""
        identifier = message.identifier
        if identifier is None or identifier == NO_IDENTIFIER:
            return b""
        return blake2b(identifier.to_bytes() + place.casefold().encode(), digest_size=KEY_SIZE).digest()

    def _in_stream(self, change: Change, received: Received, queue: Queue, message: Message) -> bool:
        """3.1.5.1.6.3. A message that is not the next one is dropped, and the last one that was is acknowledged again:
        its receipt was lost (SR-158)."""
        assert message.transaction is not None
        streams = self._manager.incoming_streams
        info = self._hub.stream_receipts.position(received.envelope, queue, message)
        if streams.accepts(info, message.transaction):
            assert message.soap is not None and received.envelope.stream is not None
            message.soap.receipts_to = received.envelope.stream.send_receipts_to or info.acknowledge_to
            return True
        streams.reject(info)
        self._hub.stream_receipts.owe(change, info)
        return False

    def _insert(self, change: Change, received: Received, queue: Queue, message: Message) -> EnqueueStatus | None:
        """None for a message that is dropped for good, and answered as received (design ruling 4)."""
        reason = self._objection(received, queue, message)
        status = None
        if not reason:
            status = self._manager.sending.accept(queue, message, None, change)
            if status in (EnqueueStatus.OK, EnqueueStatus.QUEUE_MANAGER_QUOTA):
                return status
            # Late on arrival is the only expiry that SRMP has receipts for: nobody will receive it (design ruling 3).
            reason = {EnqueueStatus.QUEUE_QUOTA: NACK.NACK_Q_EXCEED_QUOTA}.get(status, NACK.NACK_RECEIVE_TIMEOUT)
        log.info("message refused", extra={"fields": {
            "message": str(message.identifier), "queue": queue.name, "class": reason.name}})
        self._manager.removal.refuse(change, queue, message, reason)
        return None

    def _objection(self, received: Received, queue: Queue, message: Message) -> MessageClass | None:
        """Who may write here: SRMP's senders are nobody in particular (3.1.5.1.12)."""
        if not self._hub.signatures.verify(received, queue, message, self._now):
            return NACK.NACK_BAD_SIGNATURE
        try:
            self._manager.access.check_queue(ANONYMOUS_CALLER, queue, int(QueueAccess.WRITE_MESSAGE))
        except AccessDenied:
            return NACK.NACK_ACCESS_DENIED
        return None

    # Receipts for streams of ours

    def _stream_receipt(self, received: Received, name: DirectName) -> int:
        """3.1.5.1.8, 3.1.5.1.9. To our own order queue it is consumed, to a queue of the application put there."""
        change = Change()
        envelope = received.envelope
        receipt = envelope.stream_receipt
        assert receipt is not None
        streams = self._manager.outgoing_streams
        own = self._manager.core.properties.identifier
        number, last = receipt.stream_id.number, receipt.last_ordinal
        if receipt.stream_id.queue_manager != own:
            pass  # of a stream that is not ours: nothing waits for it
        elif received.kind is Kind.FINAL_STREAM_RECEIPT:
            self._final(change, envelope, number)
        elif self._is_forged(number, last):
            self.outcomes["forged receipt"] += 1
            log.warning("a stream receipt is about messages that do not exist", extra={"fields": {
                "peer": received.request.peer, "stream": str(receipt.stream_id), "last": last}})
        else:  # what was not sent in this run waits to be sent again, though it may have arrived (SR-165)
            queue = streams.order_acked(change, number, min(last, self._hub.highest_sent(number)))
            if queue is not None:
                change.then(self._hub.receipted, queue)
        if name.is_private and name.queue.casefold() == ORDER_QUEUE:
            return self._answered(change, "stream receipt", received)
        return self._to_queue_too(change, received, name)

    def _is_forged(self, sequence_id: int, last: int) -> bool:
        queue = self._manager.outgoing_streams.queue_of(sequence_id)
        stream = None if queue is None else queue.stream
        return stream is not None and sequence_id == stream.sequence_id and last > stream.last_number

    def _final(self, change: Change, envelope: Envelope, number: int) -> None:
        """What became of one message. It may overtake the stream receipt (SR-171)."""
        commitment, msmq = envelope.commitment_receipt, envelope.msmq
        assert commitment is not None and msmq is not None
        with suppress(Malformed):
            original = identifier(commitment.id)
            self._manager.outgoing_streams.final_acked(
                change, original.lineage, original.uniquifier, msmq.message_class, number)

    def _to_queue_too(self, change: Change, received: Received, name: DirectName) -> int:
        if change.operations or change.has_steps:
            self._manager.core.submit(change)
        return self._to_queue(received, name)

    # Answers

    def _answered(self, change: Change, outcome: str, received: Received) -> int:
        """When the change is on disk, and all that was begun before it."""
        self.outcomes[outcome] += 1
        change.ordered = True
        change.answer(received.reply, ACCEPTED)
        self._manager.core.submit(change)
        return LATER

    def _failed(self, request: Request, envelope: Envelope, error: LiorError) -> None:
        self.outcomes["failed"] += 1
        log.warning("a message cannot be taken now", extra={"fields": {
            "peer": request.peer, "message": str(envelope.identifier), "why": str(error)}})

    def _refused(self, request: Request, why: str) -> int:
        self.outcomes["refused"] += 1
        log.info("request refused", extra={"fields": {"peer": request.peer, "why": why}})
        return REFUSED

    def _dropped(self, outcome: str, request: Request, envelope: Envelope) -> int:
        self.outcomes[outcome] += 1
        log.info("message dropped", extra={"fields": {
            "peer": request.peer, "message": str(envelope.identifier), "why": outcome}})
        return ACCEPTED

