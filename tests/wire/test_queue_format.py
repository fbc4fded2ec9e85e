"""QUEUE_FORMAT and its parts as NDR: bytes written out from [MS-MQMQ] 2.2.7 to 2.2.10."""

from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import pytest

from lior.errors import IllegalFormatName, Malformed
from lior.message import ObjectId
from lior.names import (
    MulticastName,
    QueueFormat,
    QueueFormatType,
    QueueSuffix,
    from_queue_format,
    parse_format_name,
    to_queue_format,
)
from lior.wire.ndr import NdrReader, NdrWriter
from lior.wire.queue_format import (
    DlId,
    MulticastId,
    read_dl_id,
    read_multicast_id,
    read_object_id,
    read_queue_format,
    read_xactuow,
    write_dl_id,
    write_multicast_id,
    write_object_id,
    write_queue_format,
    write_xactuow,
)
from tests.wire import second_ndr

T = QueueFormatType
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
HEX = "33221100 5544 7766 8899aabbccddeeff"
NAME = "05000000 00000000 05000000 4f00 5300 3a00 6800 0000"  # OS:h and its terminator
VECTORS = [
    (QueueFormat(T.UNKNOWN), "00 00 0000 00", (0, 0, None)),
    (QueueFormat(T.PUBLIC, guid=GUID), f"01 00 0000 01 000000 {HEX}", (1, 0, GUID)),
    (QueueFormat(T.PUBLIC, QueueSuffix.JOURNAL, 0x80, guid=GUID), f"01 81 0000 01 000000 {HEX}", (1, 0x81, GUID)),
    (QueueFormat(T.PRIVATE, guid=GUID, number=0x0C), f"02 00 0000 02 000000 {HEX} 0c000000", (2, 0, (GUID, 12))),
    (QueueFormat(T.DIRECT, direct_id="OS:h"), f"03 00 0000 03 000000 00000200 {NAME}", (3, 0, "OS:h")),
    (QueueFormat(T.MACHINE, QueueSuffix.DEADXACT, 0x80, guid=GUID), f"04 83 0000 04 000000 {HEX}", (4, 0x83, GUID)),
    (QueueFormat(T.CONNECTOR, QueueSuffix.XACTONLY, guid=GUID), f"05 04 0000 05 000000 {HEX}", (5, 4, GUID)),
    (QueueFormat(T.DL, guid=GUID, domain="OS:h"), f"06 00 0000 06 000000 {HEX} 00000200 {NAME}",
     (6, 0, (GUID, "OS:h"))),
    (QueueFormat(T.DL, guid=GUID), f"06 00 0000 06 000000 {HEX} 00000000", (6, 0, (GUID, None))),
    (QueueFormat(T.MULTICAST, address="224.1.2.3", port=8001), "07 00 0000 07 000000 e0010203 411f0000",
     (7, 0, (bytes((224, 1, 2, 3)), 8001))),
    (QueueFormat(T.SUBQUEUE, QueueSuffix.SUBQUEUE, direct_id="OS:h"), f"08 05 0000 08 000000 00000200 {NAME}",
     (8, 5, "OS:h")),
]


def encoded(value: QueueFormat) -> bytes:
    writer = NdrWriter()
    write_queue_format(writer, value)
    writer.flush()
    return writer.to_bytes()


def decoded(data: bytes) -> QueueFormat:
    found: list[Any] = []
    reader = NdrReader(data)
    read_queue_format(reader, found.append)
    reader.flush()
    reader.end()
    value: QueueFormat = found[0]
    return value


@pytest.mark.spec("MQ-032", "MQ-033")
@pytest.mark.parametrize(("value", "stub", "plain"), VECTORS, ids=lambda v: v.format_type.name if isinstance(
    v, QueueFormat) else "")
def test_each_arm_of_a_queue_format_is_as_the_table_says(value: QueueFormat, stub: str, plain: Any) -> None:
    data = bytes.fromhex(stub)
    assert encoded(value) == data
    assert decoded(data) == value
    assert second_ndr.queue_format(second_ndr.Stub(data)) == plain


@pytest.mark.spec("MQ-033")
def test_refuses_a_union_tag_that_differs_from_the_type() -> None:
    with pytest.raises(Malformed):
        decoded(bytes.fromhex(f"01 00 0000 04 000000 {HEX}"))


@pytest.mark.spec("MQ-032")
def test_refuses_a_type_without_an_arm() -> None:
    with pytest.raises(Malformed):
        decoded(bytes.fromhex(f"09 00 0000 09 000000 {HEX}"))


@pytest.mark.spec("MP-034")
@pytest.mark.parametrize("suffix", range(6, 16))
@pytest.mark.parametrize("flags", [0x00, 0x80, 0x70])
def test_a_suffix_that_does_not_exist_is_decoded_written_back_and_no_name(suffix: int, flags: int) -> None:
    data = bytes.fromhex(f"01 {suffix | flags:02X} 0000 01 000000 {HEX}")
    found = decoded(data)
    assert (found.suffix, found.flags) == (suffix, flags) and encoded(found) == data
    with pytest.raises(IllegalFormatName):
        from_queue_format(found)


def test_refuses_a_direct_name_that_is_a_null_pointer() -> None:
    with pytest.raises(Malformed):
        decoded(bytes.fromhex("03 00 0000 03 000000 00000000"))


@pytest.mark.spec("MQ-036")
@pytest.mark.parametrize("reserved", ["0000", "ffff"])
def test_the_reserved_field_is_sent_as_zero_and_not_looked_at(reserved: str) -> None:
    value = QueueFormat(T.PUBLIC, guid=GUID)
    assert decoded(bytes.fromhex(f"01 00 {reserved} 01 000000 {HEX}")) == value
    assert encoded(QueueFormat(T.PUBLIC, guid=GUID, reserved=0xFFFF))[2:4] == b"\0\0"


def test_every_vector_cut_at_any_length_is_malformed() -> None:
    for value, stub, _ in VECTORS:
        data = bytes.fromhex(stub)
        for cut in range(len(data)):
            with pytest.raises(Malformed):
                decoded(data[:cut])
        assert decoded(data) == value


def test_two_in_a_row_share_alignment_and_referents() -> None:
    writer = NdrWriter()
    for name in ("OS:h", "OS:h"):
        write_queue_format(writer, QueueFormat(T.DIRECT, direct_id=name))
    writer.flush()
    assert writer.to_bytes() == bytes.fromhex(
        f"03 00 0000 03 000000 00000200 03 00 0000 03 000000 04000200 {NAME} 0000 {NAME}")


def test_a_value_without_its_member_is_refused() -> None:
    with pytest.raises(IllegalFormatName):
        encoded(QueueFormat(T.PUBLIC))
    with pytest.raises(IllegalFormatName):
        encoded(QueueFormat(T.MULTICAST, address="nowhere"))


@pytest.mark.spec("MQ-038")
def test_an_object_identifier_is_a_guid_and_a_number() -> None:
    writer = NdrWriter()
    writer.u8(0)
    write_object_id(writer, ObjectId(GUID, 0x01020304))
    assert writer.to_bytes() == bytes.fromhex(f"00 000000 {HEX} 04030201")
    reader = NdrReader(writer.to_bytes(), 1)
    assert read_object_id(reader) == ObjectId(GUID, 0x01020304)
    assert str(ObjectId(GUID, 16909060)) == "{00112233-4455-6677-8899-AABBCCDDEEFF}\\16909060"


@pytest.mark.spec("MQ-039")
@pytest.mark.parametrize(("domain", "tail"), [(None, "00000000"), ("OS:h", f"00000200 {NAME}"),
                                              ("", "00000200 01000000 00000000 01000000 0000")])
def test_a_distribution_list_has_a_domain_or_a_null_pointer(domain: str | None, tail: str) -> None:
    writer = NdrWriter()
    write_dl_id(writer, DlId(GUID, domain))
    writer.flush()
    assert writer.to_bytes() == bytes.fromhex(HEX + tail)
    found: list[Any] = []
    reader = NdrReader(writer.to_bytes())
    read_dl_id(reader, found.append)
    reader.flush()
    assert found == [DlId(GUID, domain)]


@pytest.mark.spec("MQ-040")
def test_a_multicast_address_keeps_the_order_of_its_octets_through_name_and_structure() -> None:
    writer = NdrWriter()
    write_multicast_id(writer, MulticastId(IPv4Address("224.1.2.3"), 8001))
    assert writer.to_bytes() == bytes((224, 1, 2, 3)) + (8001).to_bytes(4, "little")
    assert read_multicast_id(NdrReader(writer.to_bytes())) == MulticastId(IPv4Address("224.1.2.3"), 8001)
    name = parse_format_name("MULTICAST=224.1.2.3:8001")
    assert isinstance(name, MulticastName)
    again = from_queue_format(decoded(encoded(to_queue_format(name))))
    assert str(again) == "MULTICAST=224.1.2.3:8001"


@pytest.mark.spec("MQ-070")
def test_a_unit_of_work_is_sixteen_octets_without_alignment() -> None:
    writer = NdrWriter()
    writer.u8(7)
    write_xactuow(writer, GUID)
    assert writer.to_bytes() == bytes.fromhex(f"07 {HEX}")
    reader = NdrReader(writer.to_bytes(), 1)
    assert read_xactuow(reader) == GUID
    with pytest.raises(Malformed):
        read_xactuow(NdrReader(bytes(15)))


def test_behind_pointers_each_name_is_finished_before_the_next() -> None:
    """QUEUE_FORMAT*, QUEUE_FORMAT*: structure, its string, then the second structure."""
    value = QueueFormat(T.DIRECT, direct_id="OS:h")
    writer = NdrWriter()
    writer.unique(value, write_queue_format)
    writer.unique(value, write_queue_format)
    writer.flush()
    data = writer.to_bytes()
    structure = "03 00 0000 03 000000"
    assert data == bytes.fromhex(
        f"00000200 04000200 {structure} 08000200 {NAME} 0000 {structure} 0c000200 {NAME}")
    found: list[Any] = []
    reader = NdrReader(data)
    for _ in range(2):
        assert reader.referent()
        reader.defer(lambda: read_queue_format(reader, found.append))
    reader.flush()
    reader.end()
    assert found == [value, value]
