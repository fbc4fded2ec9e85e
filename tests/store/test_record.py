"""Message records: bytes written out by hand, a second decoder of the documented layout, round trips."""

import struct
import zlib
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import InvalidParameter, LiorError, StoreCorrupt, StoreVersion
from lior.message import NULL_GUID, Message, MessageSecurity, MessageSoap, MessageTransaction, ObjectId
from lior.store.record import decode, encode
from lior.store.record_fields import encode_fields
from lior.store.record_usual import encode_usual
from tests.store.messages import GUID_1, full_message

OF_THE_POSITION = {"lookup_identifier", "arrival_time", "abort_count", "move_count", "last_move_time"}


def seal(data: bytes, body: bytes = b"", version: int = 1) -> bytes:
    return struct.pack("<BI", version, zlib.crc32(bytes([version]) and body, zlib.crc32(data, version))) + data


def split(header: bytes) -> dict[int, bytes]:
    """A second reader of the layout: tag, length, payload."""
    found, at = {}, 5
    while at < len(header):
        tag, size = header[at], header[at + 1]
        at += 2
        if size == 255:
            size, at = struct.unpack("<I", header[at:at + 4])[0], at + 4
        found[tag] = header[at:at + size]
        at += size
    assert at == len(header)
    return found


def test_a_message_of_defaults_is_five_bytes() -> None:
    assert encode(Message(b"body")) == struct.pack("<BI", 1, zlib.crc32(b"body", 1))


def test_writes_these_bytes() -> None:
    message = Message(b"B", label="hi", priority=6, delivery_guarantee=1, identifier=ObjectId(GUID_1, 0x01020304),
                      sent_time=1.5, transaction=MessageTransaction(sequence_number=9))
    data = bytes.fromhex("01 02 6869  07 01 06  08 01 01"
                         "13 14 00112233445566778899aabbccddeeff 04030201"
                         "14 08 000000000000f83f"
                         "1a 06 03 04 09000000")
    assert encode(message) == seal(data, b"B")
    assert decode(seal(data, b"B"), b"B") == message


def test_the_second_reader_finds_every_field_of_a_full_message() -> None:
    message = full_message()
    found = split(encode(message))
    assert found[1].decode("utf-8", "surrogatepass") == message.label
    assert found[3] == message.extension and struct.unpack("<I", found[4]) == (7,)
    assert found[6] == b"\x01\x80" and found[30] == b"\x10\x00"
    assert UUID(bytes=found[40]) == message.source_queue_manager and UUID(bytes=found[41]) == GUID_1
    assert split(bytes(5) + found[25])[3] == b"c" * 300
    assert split(bytes(5) + found[26])[2] == b"\xff" * 8
    assert split(bytes(5) + found[27])[4] == b"<h/>"
    assert sorted(found) == [*range(1, 31), 40, 41]


def test_every_field_but_those_of_the_position_comes_back() -> None:
    message = full_message()
    default = Message()
    for field in fields(Message):
        changed = getattr(message, field.name) != getattr(default, field.name)
        assert changed is (field.name not in OF_THE_POSITION), field.name
    assert decode(encode(message), message.body) == message
    for part in (MessageSecurity, MessageTransaction, MessageSoap):
        empty = part()
        name = part.__name__.removeprefix("Message").lower()
        full = getattr(message, name)
        assert all(getattr(full, field.name) != getattr(empty, field.name) for field in fields(part))
        message_with_part = Message()
        setattr(message_with_part, name, empty)
        again = decode(encode(message_with_part), b"")
        assert getattr(again, name) == empty


def test_what_the_position_remembers_is_not_written() -> None:
    assert encode(Message(lookup_identifier=5, arrival_time=1.0, abort_count=2, move_count=3, last_move_time=4.0)) \
        == encode(Message())


def test_skips_the_fields_of_a_later_version() -> None:
    data = bytes([1, 1, 65]) + bytes([200, 3]) + b"new" + bytes([201, 255]) + struct.pack("<I", 300) + bytes(300)
    assert decode(seal(data), b"") == Message(label="A")
    nested = bytes([25, 5]) + bytes([99, 3]) + b"new"
    assert decode(seal(nested), b"") == Message(security=MessageSecurity())


def test_refuses_the_record_of_a_newer_version() -> None:
    with pytest.raises(StoreVersion):
        decode(seal(b"", version=2), b"")


@pytest.mark.parametrize(("data", "says"), [
    (bytes([1, 1, 65, 1, 1, 65]), "follows field"),
    (bytes([4, 4, 0, 0, 0, 0, 2, 4, 0, 0, 0, 0]), "follows field"),
    (bytes([1, 5, 65]), "are left"),
    (bytes([1]), "index"),
    (bytes([1, 255, 1, 0]), "buffer"),
    (bytes([1, 255, 255, 255, 255, 255]), "are left"),
    (bytes([4, 3, 0, 0, 0]), "application_tag"),
    (bytes([10, 1, 2]), "flag"),
    (bytes([1, 1, 0xFF]), "utf-8"),
    (bytes([19, 19]) + bytes(19), "identifier"),
    (bytes([25, 3, 1, 1, 0]), "sender_identifier_type"),
])
def test_refuses_a_malformed_record_and_says_what(data: bytes, says: str) -> None:
    with pytest.raises(StoreCorrupt, match=says):
        decode(seal(data), b"")


@pytest.mark.spec("DM-144")
def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    message = Message(b"some body", label="label", application_tag=9, security=MessageSecurity(1, b"sid"))
    header = encode(message)
    for at in range(len(header)):
        for bit in range(8):
            damaged = bytearray(header)
            damaged[at] ^= 1 << bit
            with pytest.raises((StoreCorrupt, StoreVersion)):
                decode(bytes(damaged), message.body)
        with pytest.raises(StoreCorrupt):
            decode(header[:at], message.body)
    for at in range(len(message.body)):
        body = bytearray(message.body)
        body[at] ^= 4
        with pytest.raises(StoreCorrupt):
            decode(header, bytes(body))


@pytest.mark.parametrize("message", [
    Message(application_tag=-1), Message(priority=256), Message(correlation_id=b"short"),
    Message(identifier=ObjectId(GUID_1, 1 << 32)), Message(label=5),  # type: ignore[arg-type]
    Message(security=MessageSecurity(sender_identifier_type=1 << 16)),
])
def test_refuses_to_write_a_value_that_a_message_cannot_have(message: Message) -> None:
    with pytest.raises(InvalidParameter):
        encode(message)


u8, u16, u32, u64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
text = st.text(st.characters(codec=None), max_size=300)
messages = st.builds(
    Message, body=st.binary(max_size=300), label=text, body_type=u32, extension=st.binary(max_size=600),
    application_tag=u32, correlation_id=st.binary(min_size=20, max_size=20), message_class=u16, priority=u8,
    delivery_guarantee=u8, acknowledgements_requested=u8, positive_journaling_requested=st.booleans(),
    negative_journaling_requested=st.booleans(), time_to_reach_queue=u32, time_to_be_received=u32,
    administration_queue=text, response_queue=text, destination_queue=text,
    identifier=st.none() | st.builds(ObjectId, st.uuids(), u32), source_queue_manager=st.uuids(),
    sent_time=st.floats(allow_nan=False), tracing_queue=st.uuids(), connector_type=st.none() | st.uuids(),
    hop_count=u8,
    security=st.none() | st.builds(MessageSecurity, u16, st.binary(), st.binary(), authentication_level=u16),
    transaction=st.none() | st.builds(MessageTransaction, st.uuids(), u64, u32, u32, u32, st.booleans()),
    soap=st.none() | st.builds(MessageSoap, text, st.binary(), text), failure_reason=u32,
    packet=st.binary(max_size=999))


@given(messages)
def test_whatever_is_written_reads_back(message: Message) -> None:
    assert decode(encode(message), message.body) == message


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_read_or_end_in_a_typed_error(data: bytes, sealed: bool) -> None:
    try:
        message = decode(seal(data) if sealed else data, b"")
    except LiorError:
        return
    if message.sent_time == message.sent_time:  # a NaN equals nothing
        assert decode(encode(message), b"") == message


@pytest.mark.parametrize("changes", [
    {},
    {"label": "order 1001 €"},
    {"label": "x" * 249, "delivery_guarantee": 1, "negative_journaling_requested": True},
    {"destination_queue": "DIRECT=OS:" + "h" * 250 + r"\private$\q"},
    {"sent_time": 0.0},
    {"source_queue_manager": UUID(int=7)},
    {"priority": 5},
    {"correlation_id": bytes(range(20))},
    {"tracing_queue": UUID(int=9)},
    {"identifier": None},
    {"transaction": MessageTransaction(UUID(int=8), 7 << 32, 3, 2, 9, True, True), "priority": 0},
    {"transaction": MessageTransaction(NULL_GUID, 1, 3, 1, 9, False, True)},
    {"transaction": MessageTransaction(UUID(int=8), 1, 1, 0, 9, True, False)},
    {"transaction": MessageTransaction(UUID(int=0), 1, 2, 1, 9)},
    {"transaction": MessageTransaction(UUID(int=8), 1, 2, 1, 9, final_ack_required=True)},
])  # fmt: skip
def test_a_usual_message_has_the_same_bytes_by_the_short_way_and_the_long_one(changes: dict[str, Any]) -> None:
    usual = {"identifier": ObjectId(UUID(int=5), 77), "source_queue_manager": UUID(int=5), "sent_time": 1.7e9}
    message = Message(b"body", **{**usual, **changes})
    short = encode_usual(message)
    assert short is None or short == encode_fields(message)
    part = message.transaction
    unusual = part is not None and (part.final_ack_required or not part.previous_sequence_number)
    assert (short is None) is (unusual or any(name in changes for name in ("correlation_id", "tracing_queue"))) or (
        changes in ({"sent_time": 0.0}, {"identifier": None}) or message.source_queue_manager.int == 0
    )


@pytest.mark.parametrize("name", sorted(
    {field.name for field in fields(Message)}
    - {"body", "label", "delivery_guarantee", "negative_journaling_requested", "destination_queue", "identifier"}
    - {"source_queue_manager", "sent_time", "priority"}
    - {"lookup_identifier", "arrival_time", "abort_count", "move_count", "last_move_time"}  # the position's
))
def test_every_other_field_takes_the_long_way(name: str) -> None:
    message = Message(b"", identifier=ObjectId(GUID_1, 7), source_queue_manager=GUID_1, sent_time=1.7e9)
    assert encode_usual(message) is not None
    setattr(message, name, getattr(full_message(), name))
    assert encode_usual(message) is None
