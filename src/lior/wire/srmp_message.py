"""What an SRMP envelope and a message have of each other ([MC-MQSRM] 3.1.5.1.1, 3.1.7.2.4)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from lior.errors import LiorError
from lior.message import (
    INFINITE,
    NULL_CORRELATION_ID,
    Acknowledgements,
    Message,
    MessageSecurity,
    MessageSoap,
    MessageTransaction,
)
from lior.names import DirectName, FormatName, MultipleName, parse_format_name
from lior.wire.mime import Entity
from lior.wire.srmp_elements import LAST_DATE, NAME_PREFIX, Envelope, Msmq, Services, Stream, StreamId
from lior.wire.srmp_values import LONGEST_REMEMBERED, MOST_REMEMBERED

_A: Final = Acknowledgements


@dataclass(frozen=True, slots=True)
class Receipts:
    """Where the receipts of a message go: URLs; empty for none."""

    delivery: str = ""
    commitment: str = ""
    stream: str = ""


# ---- names ----------------------------------------------------------------------------------------------------------


def format_name_of(text: str) -> str:
    """The format name that a URL or an MSMQ: name of an envelope means. A URL's query is for the web server."""
    return str(parsed_name(text))


def parsed_name(text: str) -> FormatName:
    """The same ones come again and again."""
    return _known_name(text) if len(text) <= LONGEST_REMEMBERED else _parsed_name(text)


def _parsed_name(text: str) -> FormatName:
    if text[: len(NAME_PREFIX)].upper() == NAME_PREFIX:
        return parse_format_name(text[len(NAME_PREFIX) :])
    return parse_format_name("DIRECT=" + unquote(text.partition("?")[0]))


_known_name = lru_cache(MOST_REMEMBERED)(_parsed_name)


def envelope_name(format_name: str) -> str:
    """As envelopes have it: the URL of an HTTP name, MSMQ: and the name for all others."""
    name = parse_format_name(format_name)
    return (name.url if isinstance(name, DirectName) else "") or NAME_PREFIX + format_name


def _readable(text: str) -> str:
    """For a property that only informs: nothing where the text names no queue."""
    try:
        return format_name_of(text) if text else ""
    except LiorError:
        return ""


def _joined(names: tuple[str, ...]) -> str:
    return ",".join(filter(None, map(_readable, names)))


def _split(format_names: str) -> tuple[str, ...]:
    if not format_names:
        return ()
    name = parse_format_name(format_names)
    elements = name.elements if isinstance(name, MultipleName) else (name,)
    return tuple(envelope_name(str(element)) for element in elements)


# ---- received -------------------------------------------------------------------------------------------------------


def to_message(
    envelope: Envelope, entity: Entity, compound: bytes, arrival: float, destination: str = ""
) -> Message:
    """`compound` is the request as received, its header included. What the envelope says of receipts stays in it.
    `destination` is where it was redirected to, else that of the envelope counts."""
    msmq = envelope.msmq or Msmq()
    sent = int(arrival) if envelope.sent_at is None else envelope.sent_at
    message = Message(
        body=b"" if entity.body is None else bytes(entity.body.data),
        extension=b"" if entity.extension is None else bytes(entity.extension.data),
        label=envelope.label or "",
        body_type=msmq.body_type,
        application_tag=msmq.app,
        correlation_id=msmq.correlation or NULL_CORRELATION_ID,
        message_class=msmq.message_class,
        priority=msmq.priority,
        delivery_guarantee=int(envelope.services.durable),
        acknowledgements_requested=_acknowledgements(envelope.services),
        positive_journaling_requested=msmq.journal,
        negative_journaling_requested=msmq.dead_letter,
        time_to_reach_queue=_span(sent, envelope.expires_at if envelope.msmq is None else msmq.ttrq),
        time_to_be_received=_time_to_be_received(envelope, sent),
        administration_queue=_readable(
            envelope.services.delivery_receipt_to or envelope.services.commitment_receipt_to
        ),
        response_queue=_joined(msmq.response_mqf) or _readable(envelope.via),
        destination_queue=destination or format_name_of(envelope.to),
        destination_multi_queue=_joined(msmq.destination_mqf),
        identifier=envelope.identifier,
        source_queue_manager=msmq.source_qm_guid,
        sent_time=float(sent),
        tracing_requested=msmq.trace,
        connector_type=msmq.connector_type,
        soap=MessageSoap(compound_message=compound, body=envelope.body_text, header=envelope.header_text,
                         envelope=entity.envelope.decode("utf-8")),
    )  # fmt: skip
    if envelope.signature is not None or msmq.hash_algorithm or msmq.provider_type:
        message.security = MessageSecurity(
            authentication_provider_type=msmq.provider_type,
            authentication_provider_name=msmq.provider_name,
            hash_algorithm=msmq.hash_algorithm,
        )
    if envelope.stream is not None:
        message.transaction = _transaction(envelope.stream, msmq)
    return message


def _acknowledgements(services: Services) -> int:
    found = _A.POSITIVE_ARRIVAL if services.delivery_receipt_to else _A.NONE
    if services.positive_only:
        found |= _A.POSITIVE_RECEIVE
    if services.negative_only:
        found |= _A.NEGATIVE_RECEIVE
    return int(found)


def _span(start: int, end: int) -> int:
    """Seconds; a moment that the wire can only call the last one is infinite."""
    return INFINITE if end >= LAST_DATE else max(0, end - start)


def _time_to_be_received(envelope: Envelope, sent: int) -> int:
    """Nothing else carries it, and machines write it into expiresAt; a writer that follows the text puts the time to
    reach the queue there, which says nothing of it (docs/spec-notes.md, SR-059)."""
    if envelope.msmq is None or envelope.expires_at == envelope.msmq.ttrq:
        return INFINITE
    return _span(sent, envelope.expires_at)


def _transaction(stream: Stream, msmq: Msmq) -> MessageTransaction:
    previous = stream.current - 1 if stream.previous is None else stream.previous
    return MessageTransaction(
        sequence_identifier=stream.stream_id.number,
        sequence_number=stream.current,
        previous_sequence_number=previous,
        first_in_transaction=msmq.first,
        last_in_transaction=msmq.last,
        connector_queue_manager=msmq.connector_id,
    )


# ---- sent -----------------------------------------------------------------------------------------------------------


def to_envelope(
    message: Message,
    to: str,
    receipts: Receipts,
    *,
    previous: int | None = None,
    text_form: bool = False,
) -> Envelope:
    """The envelope of a message of ours. `previous` is that of the stream at this moment. In `text_form` expiresAt is
    what the document's text says, otherwise what its examples show."""
    assert message.identifier is not None
    sent = int(message.sent_time)
    reach = _moment(sent, message.time_to_reach_queue)
    transaction = message.transaction
    return Envelope(
        to=to,
        label=message.label,
        identifier=message.identifier,
        via=envelope_name(message.response_queue) if message.response_queue and not _is_multiple(message) else "",
        expires_at=reach if text_form else _moment(sent, message.time_to_be_received),
        sent_at=sent,
        services=_services(message, receipts),
        stream=None if transaction is None else Stream(
            StreamId(message.source_queue_manager, transaction.sequence_identifier), transaction.sequence_number,
            transaction.previous_sequence_number if previous is None else previous, receipts.stream),
        msmq=_msmq(message, reach),
        header_text="" if message.soap is None else message.soap.header,
    )  # fmt: skip


def _is_multiple(message: Message) -> bool:
    return isinstance(parse_format_name(message.response_queue), MultipleName)


def _moment(sent: int, seconds: int) -> int:
    return LAST_DATE if seconds == INFINITE else min(LAST_DATE, sent + seconds)


def _services(message: Message, receipts: Receipts) -> Services:
    wanted = _A(message.acknowledgements_requested)
    received = bool(wanted & (_A.POSITIVE_RECEIVE | _A.NEGATIVE_RECEIVE))
    return Services(
        durable=message.delivery_guarantee != 0,
        delivery_receipt_to=receipts.delivery if wanted & _A.POSITIVE_ARRIVAL else "",
        commitment_receipt_to=receipts.commitment if received else "",
        positive_only=bool(wanted & _A.POSITIVE_RECEIVE),
        negative_only=bool(wanted & _A.NEGATIVE_RECEIVE),
    )


def _msmq(message: Message, reach: int) -> Msmq:
    security, transaction = message.security, message.transaction
    found = Msmq(
        message_class=message.message_class,
        priority=message.priority,
        journal=message.positive_journaling_requested,
        dead_letter=message.negative_journaling_requested,
        correlation=message.correlation_id,
        trace=message.tracing_requested,
        connector_type=message.connector_type,
        app=message.application_tag,
        body_type=message.body_type,
        source_qm_guid=message.source_queue_manager,
        destination_mqf=_split(message.destination_multi_queue),
        ttrq=reach,
    )
    if "," in message.response_queue:
        found.response_mqf = _split(message.response_queue)
    if "," in message.administration_queue:
        found.admin_mqf = _split(message.administration_queue)
    if security is not None:
        found.hash_algorithm = security.hash_algorithm
        found.provider_type = security.authentication_provider_type
        found.provider_name = security.authentication_provider_name
    if transaction is not None:
        found.first, found.last = transaction.first_in_transaction, transaction.last_in_transaction
        found.connector_id = transaction.connector_queue_manager
    return found
