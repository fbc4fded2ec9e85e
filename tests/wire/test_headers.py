"""The fixed headers: bytes written out by hand from the tables of [MS-MQMQ] 2.2.19 and 2.2.20, and the frames."""

from dataclasses import dataclass, fields

import pytest

from lior.errors import InvalidParameter, Malformed
from lior.wire.headers import (
    BaseHeader,
    DebugHeader,
    Header,
    MessagePropertiesHeader,
    MQFAddressHeader,
    MQFSignatureHeader,
    SecurityHeader,
    SessionHeader,
    SoapSectionHeader,
    TransactionHeader,
    UserHeader,
    wire,
)
from tests.wire.packets import FRAME_8, FRAMES, frame, frame_fields

G1 = bytes(range(16))
G2 = bytes(range(0xF0, 0x100))

# Each table row by row; a value of every field that no other field has.
BY_HAND: list[tuple[Header, str]] = [
    (BaseHeader(0x10, 0xC0, 0x0123, 0x524F494C, 0x8B0, 0x54600), "10 C0 2301 4C494F52 B0080000 00460500"),
    (UserHeader(G1, G2, 1, 2, 3, 0x281C00),
     "000102030405060708090A0B0C0D0E0F F0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF 01000000 02000000 03000000 001C2800"),
    (MessagePropertiesHeader(0x0F, 0xFA, 0x8002, bytes(range(20)), 8, 9, 10, 11, 5, 0x800E, 0x6610, 12),
     "0FFA0280" + bytes(range(20)).hex() + "0800000009000000 0A0000000B000000 050000000E800000 106600000C000000"),
    (SessionHeader(1, 2, 0x80000003, 4, 5, 64, 0xFFFF), "0100 0200 03000080 0400 0500 4000 FFFF"),
    (TransactionHeader(0x1F, 0x0000000200000001, 3, 2), "1F000000 01000000 02000000 03000000 02000000"),
    (SecurityHeader(0x0041, 28, 128, 64, 600, 50), "4100 1C00 8000 4000 58020000 32000000"),
    (SoapSectionHeader(0x0320, 7, 11), "2003 0700 0B000000"),
    (DebugHeader(1, 7), "0100 0700"),
    (MQFAddressHeader(0x0C, 0x64, 7, 2), "0C000000 6400 0700 02000000"),
    (MQFSignatureHeader(0x015E, 7, 4), "5E01 0700 04000000"),
]
IDS = [type(header).__name__ for header, _ in BY_HAND]


@pytest.mark.spec("MQ-071", "MQ-079", "MQ-096", "MQ-114", "MQ-115", "MQ-117", "MQ-127")
@pytest.mark.parametrize(("header", "text"), BY_HAND, ids=IDS)
def test_a_header_is_the_bytes_of_its_table_both_ways(header: Header, text: str) -> None:
    data = bytes.fromhex(text)
    assert header.encode() == data
    assert type(header).decode(data) == header
    assert type(header).decode(b"before" + data + b"behind", 6) == header


@pytest.mark.parametrize(("header", "text"), BY_HAND, ids=IDS)
def test_a_header_is_refused_at_every_shorter_length(header: Header, text: str) -> None:
    data = bytes.fromhex(text)
    for size in range(len(data)):
        with pytest.raises(Malformed, match=type(header).__name__):
            type(header).decode(data[:size])
        with pytest.raises(Malformed, match=type(header).__name__):
            type(header).decode(data, 0, size)


@pytest.mark.parametrize(("header", "text"), BY_HAND, ids=IDS)
def test_a_value_wider_than_its_field_is_refused(header: Header, text: str) -> None:
    for field in fields(header):  # type: ignore[arg-type]  # every header is a dataclass
        value = getattr(header, field.name)
        for wrong in ((value + b"\0", value[:-1]) if isinstance(value, bytes) else (1 << 64, -1)):
            other = type(header).decode(bytes.fromhex(text))
            setattr(other, field.name, wrong)
            with pytest.raises(InvalidParameter, match=type(header).__name__):
                other.encode()


@pytest.mark.spec("MQ-002", "MQ-071")
@pytest.mark.parametrize("name", [name for name in FRAMES if "ping" not in name])
def test_the_base_header_of_every_frame_reads_as_printed_and_writes_back(name: str) -> None:
    _, expected = frame_fields(name)
    header = BaseHeader.decode(frame(name))
    header.check()
    assert {field.name: getattr(header, field.name) for field in fields(header)} == expected["base_header"]
    assert header.encode() == frame(name)[:16]


@pytest.mark.spec("MQ-117")
def test_the_session_header_of_frame_8_reads_as_printed_and_writes_back() -> None:
    _, expected = frame_fields(FRAME_8)
    header = SessionHeader.decode(frame(FRAME_8), 20)
    assert {field.name: getattr(header, field.name) for field in fields(header)} == expected["session_header"]
    assert header.encode() == frame(FRAME_8)[20:]


@pytest.mark.spec("MQ-073")
def test_the_flags_of_frame_8_are_priority_3_internal_and_session_header() -> None:
    from lior.wire import headers

    flags = BaseHeader.decode(frame(FRAME_8)).flags
    assert flags & headers.PRIORITY_MASK == 3
    assert [bool(flags & bit) for bit in (headers.IN, headers.SH, headers.DH, headers.TR)] == [True, True, False, False]
    assert (headers.PRIORITY_MASK, headers.IN, headers.SH, headers.DH, headers.TR) == (7, 8, 16, 32, 256)


@pytest.mark.spec("MQ-077")
def test_every_frame_has_its_fields_and_as_many_bytes_as_it_says() -> None:
    assert len(FRAMES) == 8
    for name in FRAMES:
        kind, expected = frame_fields(name)
        assert kind
        if "base_header" in expected:
            assert len(frame(name)) == expected["base_header"]["packet_size"]


@pytest.mark.spec("MQ-072")
@pytest.mark.parametrize("bit", range(40))
def test_one_wrong_bit_in_version_or_signature_is_refused(bit: int) -> None:
    data = bytearray(frame(FRAME_8)[:16])
    data[(0, 4, 5, 6, 7)[bit // 8]] ^= 1 << bit % 8
    with pytest.raises(Malformed, match="signature"):
        BaseHeader.decode(bytes(data)).check()


@pytest.mark.spec("MQ-077")
@pytest.mark.parametrize(("size", "good"), [(0, False), (15, False), (16, True), (0x400000, True), (0x400001, False),
                                            (0xFFFFFFFF, False)])
def test_a_packet_has_16_bytes_to_4_mib(size: int, good: bool) -> None:
    header = BaseHeader(packet_size=size)
    if good:
        header.check()
    else:
        with pytest.raises(Malformed, match="PacketSize"):
            header.check()


def test_a_layout_that_disagrees_with_its_class_or_the_size_is_refused_at_import() -> None:
    @dataclass(slots=True)
    class Pair(Header):
        first: int
        second: int

    for layout, size in (("<HH", 5), ("<HHH", 6), ("<I", 4)):
        with pytest.raises(TypeError, match="Pair"):
            wire(layout, size)(Pair)
    assert wire("<HH", 4)(Pair).decode(b"\1\0\2\0") == Pair(1, 2)
