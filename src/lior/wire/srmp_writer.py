"""An SRMP envelope to its octets, in the order and spelling of [MC-MQSRM] 3.1.7.2.4: compact, without a declaration."""

from dataclasses import dataclass
from typing import Final

from lior.wire.srmp_elements import (
    LABEL_PREFIX,
    MSMQ,
    ROUTING,
    SOAP,
    SRMP,
    Envelope,
    Msmq,
    Services,
    Stream,
)
from lior.wire.srmp_values import escape, format_correlation, format_date, format_identifier

NULL_CORRELATION: Final = bytes(20)
_START: Final = f'<se:Envelope xmlns:se="{SOAP}" xmlns="{SRMP}"><se:Header>'
_PATH: Final = f'<path xmlns="{ROUTING}" se:mustUnderstand="1">'
_MSMQ: Final = f'<Msmq xmlns="{MSMQ}">'
_END: Final = "</se:Header><se:Body></se:Body></se:Envelope>"


@dataclass(frozen=True, slots=True)
class Spelling:
    """Where the text and the examples, which came from machines, differ. The examples' form is what peers read."""

    stream: str = "Stream"  # `stream` by the text
    zeros: bool = True  # App, HashAlgorithm and Correlation are written when they are zero


EXAMPLES: Final = Spelling()
TEXT: Final = Spelling(stream="stream", zeros=False)


def write_envelope(envelope: Envelope, spelling: Spelling = EXAMPLES, signature: str = "") -> bytes:
    """`signature` is the element Signature, ready. The texts of the envelope are elements to add, well formed."""
    parts = [_START, _path(envelope), _properties(envelope)]
    if not envelope.services.is_empty:
        parts.append(_services(envelope.services))
    if envelope.stream is not None:
        parts.append(_stream(envelope.stream, spelling))
    parts.append(_receipts(envelope))
    if envelope.msmq is not None:
        parts.append(_msmq(envelope.msmq, spelling))
    parts += [signature, envelope.header_text, _END]
    return "".join(parts).encode("utf-8")


def _element(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>"


def _number(name: str, text: str) -> str:
    """Or anything else that has no characters of XML."""
    return f"<{name}>{text}</{name}>"


def _path(envelope: Envelope) -> str:
    action = "" if envelope.label is None else LABEL_PREFIX + envelope.label
    rev = f"<rev>{_element('via', envelope.via)}</rev>" if envelope.via else ""
    identifier = _number("id", format_identifier(envelope.identifier))
    receipt = envelope.delivery_receipt or envelope.commitment_receipt or envelope.stream_receipt
    last = rev + identifier if receipt else identifier + rev  # as the examples of 4.3 and 4.4 have them
    return f"{_PATH}{_element('action', action)}{_element('to', envelope.to)}{last}</path>"


def _properties(envelope: Envelope) -> str:
    sent = "" if envelope.sent_at is None else _number("sentAt", format_date(envelope.sent_at))
    expires = _number("expiresAt", format_date(envelope.expires_at))
    return f'<properties se:mustUnderstand="1">{expires}{sent}</properties>'


def _services(services: Services) -> str:
    parts = ["<durable/>" if services.durable else ""]
    if services.delivery_receipt_to:
        send_to = _element("sendTo", services.delivery_receipt_to)
        parts.append(f"<deliveryReceiptRequest>{send_to}</deliveryReceiptRequest>")
    if services.commitment_receipt_to:
        send_to = _element("sendTo", services.commitment_receipt_to)
        positive = "<positiveOnly/>" if services.positive_only else ""
        negative = "<negativeOnly/>" if services.negative_only else ""
        parts.append(f"<commitmentReceiptRequest>{send_to}{positive}{negative}</commitmentReceiptRequest>")
    return f'<services se:mustUnderstand="1">{"".join(parts)}</services>'


def _stream(stream: Stream, spelling: Spelling) -> str:
    # Zero behind number 1 says that whatever came before may be missing; left out it would mean the number before.
    given = stream.previous or (0 if stream.current > 1 and stream.previous == 0 else None)
    previous = "" if given is None else _number("previous", str(given))
    start = ""
    if stream.current == 1:
        start = f"<start>{_element('sendReceiptsTo', stream.send_receipts_to)}</start>"
    inside = _number("streamId", str(stream.stream_id)) + _number("current", str(stream.current)) + previous + start
    return f'<{spelling.stream} se:mustUnderstand="1">{inside}</{spelling.stream}>'


def _receipts(envelope: Envelope) -> str:
    """In the order of a final stream receipt ([MC-MQSRM] 3.1.7.3.3)."""
    parts = []
    if (stream := envelope.stream_receipt) is not None:
        inside = _number("streamId", str(stream.stream_id)) + _number("lastOrdinal", str(stream.last_ordinal))
        parts.append(f"<streamReceipt>{inside}</streamReceipt>")
    if (delivery := envelope.delivery_receipt) is not None:
        inside = _number("receivedAt", format_date(delivery.received_at)) + _element("id", delivery.id)
        parts.append(f"<deliveryReceipt>{inside}</deliveryReceipt>")
    if (commitment := envelope.commitment_receipt) is not None:
        decision = "positive" if commitment.positive else "negative"
        inside = (
            _number("decidedAt", format_date(commitment.decided_at))
            + _element("decision", decision)
            + _element("id", commitment.id)
        )
        parts.append(f"<commitmentReceipt>{inside}</commitmentReceipt>")
    return "".join(parts)


def _msmq(msmq: Msmq, spelling: Spelling) -> str:
    zeros = spelling.zeros
    parts = [_MSMQ, _number("Class", str(msmq.message_class)), _number("Priority", str(msmq.priority))]
    parts += ["<Journal/>" if msmq.journal else "", "<DeadLetter/>" if msmq.dead_letter else ""]
    correlation = msmq.correlation or NULL_CORRELATION
    if zeros or correlation != NULL_CORRELATION:
        parts.append(_number("Correlation", format_correlation(correlation)))
    parts.append("<Trace/>" if msmq.trace else "")
    if msmq.connector_type is not None:
        parts.append(_number("ConnectorType", str(msmq.connector_type)))
    if zeros or msmq.app:
        parts.append(_number("App", str(msmq.app)))
    parts.append(_number("BodyType", str(msmq.body_type)))
    if zeros or msmq.hash_algorithm:
        parts.append(_number("HashAlgorithm", str(msmq.hash_algorithm)))
    parts += [_eod(msmq), _provider(msmq), _number("SourceQmGuid", str(msmq.source_qm_guid))]
    for name, names in (("DestinationMqf", msmq.destination_mqf), ("AdminMqf", msmq.admin_mqf),
                        ("ResponseMqf", msmq.response_mqf)):  # fmt: skip
        if names:
            parts.append(_element(name, "".join(f"{each}\n" for each in names)))
    parts += [_number("TTrq", format_date(msmq.ttrq)), "</Msmq>"]
    return "".join(parts)


def _eod(msmq: Msmq) -> str:
    if not (msmq.first or msmq.last or msmq.connector_id):
        return ""
    connector = "" if msmq.connector_id is None else _number("ConnectorId", str(msmq.connector_id))
    return f"<Eod>{'<First/>' if msmq.first else ''}{'<Last/>' if msmq.last else ''}{connector}</Eod>"


def _provider(msmq: Msmq) -> str:
    """Both children or none: a receiver demands both (2.2.6.12)."""
    if not (msmq.provider_type or msmq.provider_name):
        return ""
    return f"<Provider>{_element('Type', str(msmq.provider_type))}{_element('Name', msmq.provider_name)}</Provider>"
