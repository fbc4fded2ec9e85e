"""An SRMP envelope from its octets ([MC-MQSRM] 2.2). Any deviation raises Malformed before anything is done with it."""

from typing import Final

from lior.wire import srmp_values as values
from lior.wire.srmp_elements import (
    MSMQ,
    NAME_PREFIX,
    NO_IDENTIFIER,
    ROUTING,
    SIGNATURE,
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
from lior.wire.srmp_known_form import read_known_form
from lior.wire.srmp_values import U16, U32, shown
from lior.wire.strict_xml import DEFAULT_LIMITS, Element, Limits, malformed, parse

MAX_NAMES: Final = 128
MAX_HEADER_TEXT: Final = 32768  # of an application; receivers bound the whole envelope
_NAME_STARTS: Final = ("http://", "https://", NAME_PREFIX.casefold())
MUST_UNDERSTAND: Final = (SOAP, "mustUnderstand")
DECISIONS: Final = {"positive": True, "negative": False}
KNOWN: Final = frozenset(
    [(ROUTING, "path"), (MSMQ, "Msmq"), (SIGNATURE, "Signature")]
    + [(SRMP, name) for name in ("properties", "services", "stream", "Stream")]
    + [(SRMP, name) for name in ("deliveryReceipt", "commitmentReceipt", "streamReceipt")]
)


def read_envelope(document: bytes, limits: Limits = DEFAULT_LIMITS) -> Envelope:
    found = read_known_form(document) if len(document) <= limits.octets else None
    return found if found is not None else read_any_form(document, limits)


def read_any_form(document: bytes, limits: Limits = DEFAULT_LIMITS) -> Envelope:
    root = parse(document, limits)
    header, body = _parts_of(root)
    for entry in header.children:
        if (entry.namespace, entry.name) not in KNOWN and _must_understand(entry):
            raise malformed(f"the header entry {shown(entry.name)} has to be understood, and is not")
    msmq_entry = header.maybe(MSMQ, "Msmq")
    msmq = None if msmq_entry is None else _msmq(msmq_entry)
    found = Envelope("", msmq=msmq)
    _read_path(_marked(header.one(ROUTING, "path")), found)
    _read_properties(_marked(header.one(SRMP, "properties")), found)
    if (services := header.maybe(SRMP, "services")) is not None:
        found.services = _services(_marked(services))
    if (stream := _stream_entry(header)) is not None:
        found.stream = _stream(_marked(stream))
        found.services.durable = True  # 2.2.5.3 demands it beside a stream, 4.4 shows it missing
        if msmq is None:
            raise malformed("a stream without Msmq")
    _read_receipts(header, found)
    found.signature = header.maybe(SIGNATURE, "Signature")
    found.header_text = document[header.start : header.end].decode("utf-8")
    found.body_text = body.inside(document).decode("utf-8")
    return found


def check_header_text(text: str) -> None:
    """What an application adds to the header (SR-043): whole elements, and none that the envelope has of its own."""
    if len(text) > MAX_HEADER_TEXT:
        raise malformed(f"{len(text)} characters, more than {MAX_HEADER_TEXT}", "SOAP header")
    added = parse(f'<se:Header xmlns:se="{SOAP}" xmlns="{SRMP}">{text}</se:Header>'.encode("utf-8", "surrogatepass"))
    for entry in added.children:
        if (entry.namespace, entry.name) in KNOWN:
            raise malformed(f"the header entry {shown(entry.name)} is the envelope's own", "SOAP header")


def _parts_of(root: Element) -> tuple[Element, Element]:
    if (root.namespace, root.name) != (SOAP, "Envelope"):
        raise malformed(f"the root element {shown(root.name)} in the namespace {shown(root.namespace)}")
    names = [(child.namespace, child.name) for child in root.children]
    if names[:2] != [(SOAP, "Header"), (SOAP, "Body")] or names.count(names[0]) + names.count(names[1]) > 2:
        raise malformed("an Envelope is one Header with one Body behind it")
    return root.children[0], root.children[1]


def _must_understand(entry: Element) -> bool:
    value = entry.attributes.get(MUST_UNDERSTAND, "0")
    if value not in ("0", "1"):
        raise malformed(f"mustUnderstand {shown(value)} in {entry.name}")
    return value == "1"


def _marked(entry: Element) -> Element:
    if not _must_understand(entry):
        raise malformed(f'{entry.name} without mustUnderstand="1"')
    return entry


# ---- path -----------------------------------------------------------------------------------------------------------


def _read_path(path: Element, found: Envelope) -> None:
    found.label = values.label(path.one(ROUTING, "action").text)
    found.to = values.destination(path.one(ROUTING, "to").trimmed, "to")
    text = path.one(ROUTING, "id").text
    if found.msmq is not None:
        found.identifier = values.identifier(text, source=found.msmq.source_qm_guid)
    else:
        found.identifier = NO_IDENTIFIER
    if (rev := path.maybe(ROUTING, "rev")) is not None:
        via = rev.one(ROUTING, "via").trimmed
        found.via = via and values.queue_name(via, "via")


# ---- SRMP's own entries ---------------------------------------------------------------------------------------------


def _read_properties(entry: Element, found: Envelope) -> None:
    found.expires_at = values.date(entry.one(SRMP, "expiresAt").text, "expiresAt")
    if (sent := entry.maybe(SRMP, "sentAt")) is not None:
        found.sent_at = values.date(sent.text, "sentAt")


def _services(entry: Element) -> Services:
    found = Services(durable=entry.has(SRMP, "durable"))
    if (request := entry.maybe(SRMP, "deliveryReceiptRequest")) is not None:
        found.delivery_receipt_to = _send_to(request)
    if (request := entry.maybe(SRMP, "commitmentReceiptRequest")) is not None:
        found.commitment_receipt_to = _send_to(request)
        found.positive_only = request.has(SRMP, "positiveOnly")
        found.negative_only = request.has(SRMP, "negativeOnly")
    return found


def _send_to(request: Element) -> str:
    return values.url(request.one(SRMP, "sendTo").trimmed, "sendTo")


def _stream_entry(header: Element) -> Element | None:
    """The text spells it `stream`, the examples `Stream`."""
    small, large = header.maybe(SRMP, "stream"), header.maybe(SRMP, "Stream")
    if small is not None and large is not None:
        raise malformed("two entries stream")
    return small if small is not None else large


def _stream(entry: Element) -> Stream:
    identifier = values.stream_id(entry.one(SRMP, "streamId").text, "streamId")
    found = Stream(identifier, values.number(entry.one(SRMP, "current").text, U32, "current", least=1))
    if (previous := entry.maybe(SRMP, "previous")) is not None:
        found.previous = values.number(previous.text, found.current - 1, "previous")
    start = entry.maybe(SRMP, "start")
    if (start is not None) != (found.current == 1):
        raise malformed(f"the message {found.current} of a stream {'with' if start else 'without'} start")
    if start is not None:
        found.send_receipts_to = values.url(start.one(SRMP, "sendReceiptsTo").trimmed, "sendReceiptsTo")
    return found


def _read_receipts(header: Element, found: Envelope) -> None:
    if (entry := header.maybe(SRMP, "deliveryReceipt")) is not None:
        received = values.date(entry.one(SRMP, "receivedAt").text, "receivedAt")
        found.delivery_receipt = DeliveryReceipt(received, entry.one(SRMP, "id").trimmed)
    if (entry := header.maybe(SRMP, "commitmentReceipt")) is not None:
        decided = values.date(entry.one(SRMP, "decidedAt").text, "decidedAt")
        decision = entry.one(SRMP, "decision").trimmed
        if decision not in DECISIONS:
            raise malformed(f"the decision {shown(decision)}")
        found.commitment_receipt = CommitmentReceipt(decided, DECISIONS[decision], entry.one(SRMP, "id").trimmed)
    if (entry := header.maybe(SRMP, "streamReceipt")) is not None:
        last = values.number(entry.one(SRMP, "lastOrdinal").text, U32, "lastOrdinal")
        found.stream_receipt = StreamReceipt(values.stream_id(entry.one(SRMP, "streamId").text, "streamId"), last)


# ---- Msmq -----------------------------------------------------------------------------------------------------------


def _msmq(entry: Element) -> Msmq:
    found = Msmq(
        message_class=values.number(entry.one(MSMQ, "Class").text, U16, "Class"),
        priority=values.number(entry.one(MSMQ, "Priority").text, 7, "Priority"),
        journal=entry.has(MSMQ, "Journal"),
        dead_letter=entry.has(MSMQ, "DeadLetter"),
        trace=entry.has(MSMQ, "Trace"),
        app=_optional_number(entry, "App", U32),
        body_type=values.number(entry.one(MSMQ, "BodyType").text, U32, "BodyType"),
        hash_algorithm=_optional_number(entry, "HashAlgorithm", U32),
        source_qm_guid=values.guid(entry.one(MSMQ, "SourceQmGuid").text, "SourceQmGuid"),
        destination_mqf=_names(entry, "DestinationMqf"),
        admin_mqf=_names(entry, "AdminMqf"),
        response_mqf=_names(entry, "ResponseMqf"),
        ttrq=values.date(entry.one(MSMQ, "TTrq").text, "TTrq"),
    )
    if (child := entry.maybe(MSMQ, "Correlation")) is not None:
        found.correlation = values.correlation(child.text)
    if (child := entry.maybe(MSMQ, "ConnectorType")) is not None:
        found.connector_type = values.guid(child.text, "ConnectorType")
    if (eod := entry.maybe(MSMQ, "Eod")) is not None:
        found.first, found.last = eod.has(MSMQ, "First"), eod.has(MSMQ, "Last")
        if (child := eod.maybe(MSMQ, "ConnectorId")) is not None:
            found.connector_id = values.guid(child.text, "ConnectorId")
    if (provider := entry.maybe(MSMQ, "Provider")) is not None:
        found.provider_type = values.number(provider.one(MSMQ, "Type").text, U32, "Type")
        found.provider_name = provider.one(MSMQ, "Name").text
    return found


def _optional_number(entry: Element, name: str, most: int) -> int:
    child = entry.maybe(MSMQ, name)
    return 0 if child is None else values.number(child.text, most, name)


def _names(entry: Element, name: str) -> tuple[str, ...]:
    child = entry.maybe(MSMQ, name)
    if child is None:
        return ()
    names = child.text.split(None, MAX_NAMES)
    if len(names) > MAX_NAMES:
        raise malformed(f"more than {MAX_NAMES} names in {name}")
    # 3.1.5.1.1 collects what begins so, and passes over the rest
    return tuple(values.queue_name(each, name) for each in names if each.casefold().startswith(_NAME_STARTS))
