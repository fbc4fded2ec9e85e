"""What the packet tests share: the frames of [MS-MQQB] 4.1, random packets, and a packet as plain values."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from lior.wire.headers import (
    AS_MASK,
    BaseHeader,
    DebugHeader,
    MessagePropertiesHeader,
    MQFSignatureHeader,
    SecurityHeader,
    SessionHeader,
    SoapSectionHeader,
    TransactionHeader,
    UserHeader,
)
from lior.wire.optional_headers import Debug, MQFAddress, MultiQueueFormat, Security, Soap, Transaction, provider_info
from lior.wire.queue_names import NameElement, PacketName
from lior.wire.user_message import UserMessage

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "mqqb"
FRAMES = sorted(file.stem for file in VECTORS.glob("*.hex"))
FRAME_7 = "frame7_user_message"
FRAME_8 = "frame8_session_ack"


@cache
def frame(name: str) -> bytes:
    return bytes.fromhex((VECTORS / f"{name}.hex").read_text())


def frame_fields(name: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """The kind of a frame and its fields as the bytes have them: the text, then the errata over it."""
    document = tomllib.loads((VECTORS / f"{name}.toml").read_text())
    fields: dict[str, dict[str, Any]] = document["fields"]
    for erratum in document.get("errata", ()):
        header, _, field = erratum["field"].partition(".")
        wrong = fields[header][field]
        right = erratum["value"] if "value" in erratum else erratum["bytes"]
        assert wrong != right, f"{name}: {erratum['field']} is no erratum"
        fields[header][field] = right
    return document["kind"], fields


# ---- a packet as plain values, in the form of second_user_message.decode --------------------------------------------


def units(text: bytes | str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass") if isinstance(text, str) else text[:-2]
    return [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]


def _name(name: PacketName) -> tuple[Any, ...]:
    if name.type == 7:
        return 7, units(name.text)
    if name.type in (2, 3, 4):
        return name.type, name.number
    if name.type == 5:
        return name.type, name.guid
    return (name.type, name.guid, name.number) if name.type == 6 else (name.type,)


def _element(element: NameElement) -> tuple[Any, ...]:
    if element.format_type == 3:
        return 3, units(element.text)
    return (element.format_type, element.guid, element.number) if element.format_type == 2 else (
        element.format_type, element.guid)


def plain(message: UserMessage) -> dict[str, Any]:
    base, user, properties = message.base, message.user, message.properties
    out: dict[str, Any] = {
        "reserved": base.reserved, "base_flags": base.flags, "time_to_reach_queue": base.time_to_reach_queue,
        "source_queue_manager": user.source_queue_manager, "queue_manager_address": user.queue_manager_address,
        "time_to_be_received": user.time_to_be_received, "sent_time": user.sent_time, "message_id": user.message_id,
        "user_flags": user.flags, "destination_queue": _name(message.destination_queue),
        "admin_queue": _name(message.admin_queue), "response_queue": _name(message.response_queue),
        "ack_flags": properties.flags, "message_class": properties.message_class,
        "correlation_id": properties.correlation_id, "body_type": properties.body_type,
        "application_tag": properties.application_tag, "message_size": properties.message_size,
        "privacy_level": properties.privacy_level, "hash_algorithm": properties.hash_algorithm,
        "encryption_algorithm": properties.encryption_algorithm,
        "label": units(message.label) if message.label else None, "extension": message.extension,
        "body": bytes(message.body),
    }
    out |= _optional(message)
    if message.session is not None:
        session = message.session
        out["session"] = (
            session.ack_sequence_number, session.recoverable_msg_ack_seq_number, session.recoverable_msg_ack_flags,
            session.user_msg_sequence_number, session.recoverable_msg_seq_number, session.window_size,
            session.reserved)
    return out


def _optional(message: UserMessage) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if message.connector_type is not None:
        out["connector_type"] = message.connector_type
    if message.transaction is not None:
        header = message.transaction.header
        out["transaction"] = (header.flags, divmod(header.tx_sequence_id, 1 << 32), header.tx_sequence_number,
                              header.previous_tx_sequence_number, message.transaction.connector_qm_guid)
    if message.security is not None:
        s = message.security
        provider = (s.provider[0], units(s.provider[1])) if s.provider is not None else None
        out["security"] = (s.header.flags, s.sender_id, s.encryption_key, s.signature, s.sender_cert,
                           s.provider_info, provider)
    if message.debug is not None:
        out["debug"] = (message.debug.header.flags, message.debug.header.reserved, message.debug.queue_identifier)
    if message.soap is not None:
        sections = ((message.soap.header_section, message.soap.header), (message.soap.body_section, message.soap.body))
        out["soap"] = [(section.reserved, units(text) if text else None) for section, text in sections]
    if message.multi_queue is not None:
        lists = message.multi_queue
        out["multi_queue"] = (
            [(one.header.reserved, [_element(e) for e in one.names])
             for one in (lists.destination, lists.administration, lists.response)],
            lists.signature_header.reserved, lists.signature)
    return out


# ---- random packets -------------------------------------------------------------------------------------------------

U8, U16, U32 = st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
U64 = st.integers(0, (1 << 64) - 1)
GUIDS = st.binary(min_size=16, max_size=16)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=()), min_size=1, max_size=20)


def sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def names(types: tuple[int, ...]) -> st.SearchStrategy[PacketName]:
    return st.sampled_from(types).flatmap(_names_of)


def _names_of(kind: int) -> st.SearchStrategy[PacketName]:
    null = st.just(bytes(16))
    return st.builds(
        PacketName, st.just(kind), GUIDS if kind in (5, 6) else null, U32 if kind in (2, 3, 4, 6) else st.just(0),
        TEXTS if kind == 7 else st.just(""))


ELEMENTS = st.lists(
    st.builds(NameElement, st.sampled_from((1, 6)), GUIDS)
    | st.builds(NameElement, st.just(2), GUIDS, U32)
    | st.builds(lambda text: NameElement(3, text=text), TEXTS),
    max_size=4)

@st.composite
def multi_queues(draw: st.DrawFn) -> MultiQueueFormat:
    lists = []
    for identifier in (0x64, 0xC8, 0x12C):
        address = MQFAddress.of(identifier, draw(ELEMENTS))
        address.header.reserved = draw(U16)
        lists.append(address)
    destination, administration, response = lists
    signature_header = MQFSignatureHeader(reserved=draw(U16))
    return MultiQueueFormat(destination, administration, response, signature_header, draw(st.binary(max_size=9)))


@st.composite
def securities(draw: st.DrawFn) -> Security:
    sender_type = draw(st.integers(0, 2))
    count = draw(st.integers(0, 15))
    sender = (b"", bytes((1, count)) + draw(st.binary(min_size=6 + 4 * count, max_size=6 + 4 * count)),
              draw(GUIDS))[sender_type]
    key, signature, certificate = (draw(st.binary(max_size=9)) for _ in range(3))
    flags = sender_type | draw(st.sampled_from((0, 0x10, 0x20, 0x80, AS_MASK, 0xF000)))
    info = b""
    if signature and draw(st.booleans()):
        info = provider_info(draw(U32), draw(TEXTS))
    elif signature:
        flags |= 0x40
    if not (sender or key or signature or certificate):
        certificate = b"certificate"
    return Security(SecurityHeader(flags), sender, key, signature, certificate, info)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    number = draw(st.integers(1, 0xFFFFFFFF))
    header = TransactionHeader(draw(U32), draw(U64), number, draw(st.integers(0, number - 1)))
    return Transaction(header, draw(sometimes(GUIDS)))


@st.composite
def soaps(draw: st.DrawFn) -> Soap:
    texts = [draw(st.just(b"") | TEXTS.map(lambda t: (t + "\0").encode("utf-16-le", "surrogatepass")))
             for _ in range(2)]
    return Soap(SoapSectionHeader(0x320, draw(U16)), texts[0], SoapSectionHeader(0x384, draw(U16)), texts[1])


SESSIONS = st.builds(SessionHeader, U16, U16, U32, U16, U16, U16, U16)
DEBUGS = st.builds(Debug, st.builds(DebugHeader, st.integers(0, 0xFFFF), U16), sometimes(GUIDS))


@st.composite
def user_messages(draw: st.DrawFn) -> UserMessage:
    """Any packet that the tables allow, reserved fields and unused bits filled."""
    transaction, debug = draw(sometimes(transactions())), draw(sometimes(DEBUGS))
    flags = draw(U32) & ~0x60 | (0x20 if transaction is not None or draw(st.booleans()) else 0)
    base_flags = draw(U16) & ~(0x100 if debug is None else 0)
    body = draw(st.binary(max_size=40))
    label = draw(st.just(b"") | st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=9)
                 .map(lambda t: (t + "\0").encode("utf-16-le", "surrogatepass")))
    return UserMessage(
        BaseHeader(reserved=draw(U8), flags=base_flags, time_to_reach_queue=draw(U32)),
        UserHeader(draw(GUIDS), draw(GUIDS), draw(U32), draw(U32), draw(U32), flags),
        MessagePropertiesHeader(
            draw(U8), 0, draw(U16), draw(st.binary(min_size=20, max_size=20)), draw(U32), draw(U32),
            draw(st.integers(0, len(body))), 0, draw(U32), draw(U32), draw(U32), 0),
        body, label, draw(st.binary(max_size=9)),
        draw(names((0, 3, 5, 7))), draw(names((0, 2, 3, 5, 6, 7))), draw(names((0, 1, 2, 3, 4, 5, 6, 7))),
        draw(sometimes(GUIDS)), transaction, draw(sometimes(securities())), debug,
        soap=draw(sometimes(soaps())), multi_queue=draw(sometimes(multi_queues())), session=draw(sometimes(SESSIONS)))
