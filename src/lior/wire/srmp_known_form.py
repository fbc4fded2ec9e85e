"""The form in which queue managers write envelopes, read without building a tree.

Nearly every envelope is in the one spelling and order of `srmp_writer`, which is that of the document's examples. It is
recognised as a whole; texts in it have no markup, no references, no control characters and no line breaks, so there is
one way to read them, and XML has the same (tests compare the two on whatever this takes). Everything else goes to the
parser. Which of the two an envelope gets changes how long it takes and nothing else.
"""

import re
from typing import Final

from lior.errors import Malformed
from lior.wire import srmp_values as values
from lior.wire.srmp_elements import (
    MSMQ,
    ROUTING,
    SOAP,
    SRMP,
    CommitmentReceipt,
    DeliveryReceipt,
    Envelope,
    Msmq,
    Services,
    Stream,
    StreamReceipt,
)
from lior.wire.srmp_values import U16, U32
from lior.wire.strict_xml import XML_SPACE, malformed

LONGEST: Final = 16 << 10  # octets; what is longer has something unusual in it
DECISIONS: Final = {"positive": True, "negative": False}
_T: Final = "([^<>&\x00-\x1f\x7f\ufffe\uffff]*)"
_MARKED: Final = ' se:mustUnderstand="1">'
_HEAD: Final = re.escape(f'<se:Envelope xmlns:se="{SOAP}" xmlns="{SRMP}">')
_TAIL: Final = "<se:Body></se:Body></se:Envelope>"


def _named(name: str, group: str = "") -> str:
    return f"<{name}>{_T.replace('(', f'(?P<{group or name}>', 1)}</{name}>"


def _maybe(pattern: str) -> str:
    return f"(?:{pattern})?"


def _flag(name: str) -> str:
    return f"(?P<{name}><{name}/>)?"


_VIA: Final = f"<rev>{_named('via', 'VIA')}</rev>"
_PATTERN: Final = "".join((
    _HEAD, "(?P<header><se:Header>", f'<path xmlns="{re.escape(ROUTING)}"{_MARKED}', _named("action"), _named("to"),
    _maybe(_VIA.replace("VIA", "via_before")), _named("id"), _maybe(_VIA.replace("VIA", "via_behind")), "</path>",
    f"<properties{_MARKED}", _named("expiresAt"), _maybe(_named("sentAt")), "</properties>",
    _maybe("".join((
        f"(?P<services><services{_MARKED})", _flag("durable"),
        _maybe(f"<deliveryReceiptRequest>{_named('sendTo', 'delivery')}</deliveryReceiptRequest>"),
        _maybe(f"<commitmentReceiptRequest>{_named('sendTo', 'commitment')}{_flag('positiveOnly')}"
               f"{_flag('negativeOnly')}</commitmentReceiptRequest>"), "</services>"))),
    _maybe("".join((
        f"<(?P<stream>[Ss]tream){_MARKED}", _named("streamId"), _named("current"), _maybe(_named("previous")),
        _maybe(f"<start>{_named('sendReceiptsTo')}</start>"), "</(?P=stream)>"))),
    _maybe(f"<streamReceipt>{_named('streamId', 'receipted')}{_named('lastOrdinal')}</streamReceipt>"),
    _maybe(f"<deliveryReceipt>{_named('receivedAt')}{_named('id', 'delivered')}</deliveryReceipt>"),
    _maybe(f"<commitmentReceipt>{_named('decidedAt')}{_named('decision')}{_named('id', 'committed')}"
           "</commitmentReceipt>"),
    f'<Msmq xmlns="{re.escape(MSMQ)}">', _named("Class"), _named("Priority"), _flag("Journal"), _flag("DeadLetter"),
    _maybe(_named("Correlation")), _flag("Trace"), _maybe(_named("App")), _named("BodyType"),
    _maybe(_named("HashAlgorithm")),
    _maybe(f"(?P<eod><Eod>){_flag('First')}{_flag('Last')}</Eod>"), _named("SourceQmGuid"), _named("TTrq"),
    "</Msmq></se:Header>)", _TAIL,
))  # fmt: skip
_FORM: Final = re.compile(_PATTERN)


def read_known_form(document: bytes) -> Envelope | None:
    """None where the parser has to be asked: for another form, and for what is wrong with this one."""
    if len(document) > LONGEST or not document.startswith(b"<se:Envelope "):
        return None
    try:
        found = _FORM.fullmatch(document.decode("utf-8"))
        return None if found is None else _envelope(found)
    except (UnicodeDecodeError, Malformed):
        return None


def _envelope(found: re.Match[str]) -> Envelope:
    (header, action, to, via_before, identifier, via_behind, expires, sent, services, durable, delivery, commitment,
     positive, negative, stream, stream_id, current, previous, receipts_to, receipted, last_ordinal, received_at,
     delivered, decided_at, decision, committed, message_class, priority, journal, dead_letter, correlation, trace, app,
     body_type, hash_algorithm, _eod, first, last, source, ttrq) = found.groups()  # fmt: skip
    number = values.number
    guid = values.guid(source, "SourceQmGuid")
    msmq = Msmq(
        message_class=number(message_class, U16, "Class"),
        priority=number(priority, 7, "Priority"),
        journal=journal is not None,
        dead_letter=dead_letter is not None,
        correlation=None if correlation is None else values.correlation(correlation),
        trace=trace is not None,
        app=0 if app is None else number(app, U32, "App"),
        body_type=number(body_type, U32, "BodyType"),
        hash_algorithm=0 if hash_algorithm is None else number(hash_algorithm, U32, "HashAlgorithm"),
        first=first is not None,
        last=last is not None,
        source_qm_guid=guid,
        ttrq=values.date(ttrq, "TTrq"),
    )
    if via_before is not None and via_behind is not None:
        raise malformed("two elements rev")
    via = (via_before or via_behind or "").strip(XML_SPACE)
    envelope = Envelope(
        values.destination(to.strip(XML_SPACE), "to"),
        values.label(action),
        values.identifier(identifier, source=guid),
        via and values.queue_name(via, "via"),
        values.date(expires, "expiresAt"),
        None if sent is None else values.date(sent, "sentAt"),
        msmq=msmq,
        header_text=header,
    )
    if services is not None:
        envelope.services = Services(
            durable is not None, _url(delivery), _url(commitment), positive is not None, negative is not None)
    if stream is not None:
        envelope.stream = _stream(stream_id, current, previous, receipts_to)
        envelope.services.durable = True
    if receipted is not None:
        envelope.stream_receipt = StreamReceipt(
            values.stream_id(receipted, "streamId"), number(last_ordinal, U32, "lastOrdinal"))
    if delivered is not None:
        envelope.delivery_receipt = DeliveryReceipt(
            values.date(received_at, "receivedAt"), delivered.strip(XML_SPACE))
    if committed is not None:
        positive_one = DECISIONS.get(decision.strip(XML_SPACE))
        if positive_one is None:
            raise malformed("the decision")
        envelope.commitment_receipt = CommitmentReceipt(
            values.date(decided_at, "decidedAt"), positive_one, committed.strip(XML_SPACE))
    return envelope


def _url(text: str | None) -> str:
    return "" if text is None else values.url(text.strip(XML_SPACE), "sendTo")


def _stream(stream_id: str, current: str, previous: str | None, receipts_to: str | None) -> Stream:
    number = values.number(current, U32, "current", least=1)
    if (receipts_to is not None) != (number == 1):
        raise malformed("a stream whose start is not where it should be")
    return Stream(
        values.stream_id(stream_id, "streamId"), number,
        None if previous is None else values.number(previous, number - 1, "previous"),
        "" if receipts_to is None else values.url(receipts_to.strip(XML_SPACE), "sendReceiptsTo"))
