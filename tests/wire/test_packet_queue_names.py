"""Queue names in packets: bytes written out by hand from [MS-MQMQ] 2.2.18.1.4, 2.2.18.1.5 and 2.2.18.1.7."""

import tracemalloc

import pytest

from lior.errors import InvalidParameter, Malformed
from lior.wire.queue_names import (
    DIRECT,
    ELEMENT_DIRECT,
    ELEMENT_DISTRIBUTION_LIST,
    ELEMENT_PRIVATE,
    ELEMENT_PUBLIC,
    PRIVATE_ELSEWHERE,
    PUBLIC,
    NameElement,
    PacketName,
    decode_elements,
    decode_packet_name,
    encode_elements,
    encode_packet_name,
)

G = bytes.fromhex("00112233445566778899AABBCCDDEEFF")

UTF16_OS_A = "4F00 5300 3A00 6100 5C00 7100 0000"  # OS:a\q and its NUL

BY_HAND = [
    pytest.param(PacketName(0), "", marks=pytest.mark.spec("MQ-090")),
    pytest.param(PacketName(1), "", marks=pytest.mark.spec("MQ-090")),
    pytest.param(PacketName(2, number=0x1234), "34120000", marks=pytest.mark.spec("MQ-064", "MQ-090")),
    pytest.param(PacketName(3, number=0xFFFFFFFF), "FFFFFFFF", marks=pytest.mark.spec("MQ-064", "MQ-090")),
    pytest.param(PacketName(4, number=4), "04000000", marks=pytest.mark.spec("MQ-064", "MQ-090")),
    pytest.param(PacketName(PUBLIC, G), G.hex(), marks=pytest.mark.spec("MQ-062", "MQ-090")),
    pytest.param(PacketName(PRIVATE_ELSEWHERE, G, 7), G.hex() + "07000000",
                 marks=pytest.mark.spec("MQ-063", "MQ-090")),
    pytest.param(PacketName(DIRECT, text=r"OS:a\q"), "0E00" + UTF16_OS_A, marks=pytest.mark.spec("MQ-065", "MQ-090")),
    pytest.param(PacketName(DIRECT, text=r"OS:ab\q"), "1000 4F00 5300 3A00 6100 6200 5C00 7100 0000 0000",
                 marks=pytest.mark.spec("MQ-065")),
]


@pytest.mark.parametrize(("name", "text"), BY_HAND)
@pytest.mark.parametrize("origin", [0, 16, 1020])
def test_a_name_is_the_bytes_of_its_table_both_ways(name: PacketName, text: str, origin: int) -> None:
    data = bytes.fromhex(text)
    assert encode_packet_name(name) == data
    packet = bytes(origin) + data + b"behind"
    assert decode_packet_name(name.type, packet, origin, len(packet), origin) == (name, origin + len(data))


@pytest.mark.spec("MQ-065", "QB-041")
def test_the_padding_of_a_direct_name_counts_from_its_header_and_may_hold_anything() -> None:
    data = bytes.fromhex("1000 4F00 5300 3A00 6100 6200 5C00 7100 0000 ABCD")
    assert decode_packet_name(DIRECT, data, 0, len(data), 0) == (PacketName(DIRECT, text=r"OS:ab\q"), 20)
    for offset in (1, 2, 3):  # the header begins before the name, not at a multiple of four of the packet
        _, after = decode_packet_name(DIRECT, bytes(offset) + data + bytes(8), offset, 28, offset)
        assert after == offset + 20


@pytest.mark.spec("MQ-065", "QB-041")
@pytest.mark.parametrize("length", [1, 2, 3, 249, 300, 0x7FFE])
def test_direct_names_of_every_length_come_back(length: int) -> None:
    name = PacketName(DIRECT, text="x" * length)
    data = encode_packet_name(name)
    assert len(data) % 4 == 0 and data[:2] == (2 * length + 2).to_bytes(2, "little")
    assert decode_packet_name(DIRECT, data, 0, len(data), 0) == (name, len(data))


@pytest.mark.spec("MQ-065", "QB-041")
@pytest.mark.parametrize("text", [
    "0000 0000", "0200 0000", "0300 4100 00", "0D00" + UTF16_OS_A, "0F00" + UTF16_OS_A, "1000" + UTF16_OS_A,
    "FFFF" + UTF16_OS_A, "FEFF" + UTF16_OS_A,
    "0400 4100 4200", "0600 4100 0000 0000", "0600 0000 4100 0000"])
def test_a_direct_name_with_a_wrong_count_or_nul_is_refused(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(Malformed, match="DirectQueueFormatName at 0"):
        decode_packet_name(DIRECT, data, 0, len(data), 0)


@pytest.mark.parametrize(("name", "text"), BY_HAND)
def test_a_name_is_refused_at_every_shorter_length(name: PacketName, text: str) -> None:
    data = bytes.fromhex(text)
    for size in range(len(data)):
        with pytest.raises(Malformed):
            decode_packet_name(name.type, data[:size], 0, size, 0)
        with pytest.raises(Malformed):  # bytes behind the end are not read
            decode_packet_name(name.type, data, 0, size, 0)


@pytest.mark.parametrize("name", [
    PacketName(DIRECT), PacketName(DIRECT, text="a\0b"), PacketName(DIRECT, text="x" * 0x7FFF), PacketName(PUBLIC, b""),
    PacketName(2, number=1 << 32), PacketName(3, number=-1), PacketName(8), PacketName(PRIVATE_ELSEWHERE, G + b"\0")])
def test_a_name_that_no_packet_can_carry_is_refused(name: PacketName) -> None:
    with pytest.raises(InvalidParameter):
        encode_packet_name(name)


# ---- MQFFormatNameElement -------------------------------------------------------------------------------------------

# A direct name, then each of the others at offsets 2 mod 4 and 0 mod 4, so that every alignment is seen.
ELEMENTS = [
    NameElement(ELEMENT_DIRECT, text=r"OS:a\q"),
    NameElement(ELEMENT_PUBLIC, G),
    NameElement(ELEMENT_PRIVATE, G, 7),
    NameElement(ELEMENT_DISTRIBUTION_LIST, G),
    NameElement(ELEMENT_DIRECT, text=r"OS:ab\q"),
    NameElement(ELEMENT_DISTRIBUTION_LIST, G),
]
LIST = bytes.fromhex(
    "0300" + UTF16_OS_A  # 12..28
    + "0100 0000" + G.hex()  # 28: two bytes to the next multiple of four
    + "0200 0000" + G.hex() + "07000000"  # 48
    + "0600 0000" + G.hex()  # 72
    + "0300 4F00 5300 3A00 6100 6200 5C00 7100 0000"  # 92..110
    + "0600" + G.hex()  # 110: the GUID begins at 112
)


@pytest.mark.spec("MQ-059", "MQ-060", "MQ-061", "MQ-062", "MQ-063", "QB-064")
def test_a_list_of_all_four_types_is_the_bytes_of_its_tables_both_ways() -> None:
    assert encode_elements(ELEMENTS, 12) == LIST
    data = bytes(12) + LIST
    assert decode_elements(data, 12, len(data), 0, len(ELEMENTS)) == (ELEMENTS, len(data))


@pytest.mark.spec("MQ-059")
def test_padding_inside_a_list_may_hold_anything() -> None:
    data = bytearray(bytes(12) + LIST)
    for at in (30, 50, 74):
        assert data[at : at + 2] == b"\0\0"
        data[at : at + 2] = b"\xAB\xCD"
    assert decode_elements(bytes(data), 12, len(data), 0, len(ELEMENTS))[0] == ELEMENTS


@pytest.mark.spec("MQ-059", "QB-064")
@pytest.mark.parametrize("format_type", [0, 4, 5, 7, 0x0100, 0xFFFF])
def test_an_element_of_another_type_is_refused(format_type: int) -> None:
    data = format_type.to_bytes(2, "little") + bytes(30)
    with pytest.raises(Malformed, match=f"type {format_type}"):
        decode_elements(data, 0, len(data), 0, 1)
    with pytest.raises(InvalidParameter, match=f"type {format_type}"):
        encode_elements([NameElement(format_type, G)], 0)


@pytest.mark.spec("MQ-060", "QB-064")
def test_the_nul_of_a_direct_element_is_looked_for_inside_its_header_only() -> None:
    for text, name in (("0300 4100 4200 0000", "AB"), ("0300 4100 4201 0000", "A\u0142")):
        data = bytes.fromhex(text)
        assert decode_elements(data, 0, 8, 0, 1) == ([NameElement(ELEMENT_DIRECT, text=name)], 8)
        for end in range(8):
            with pytest.raises(Malformed):
                decode_elements(data, 0, end, 0, 1)


@pytest.mark.spec("MQ-060")
def test_zero_bytes_of_two_neighbouring_characters_are_no_nul() -> None:
    data = bytes.fromhex("0300 0001 0001 0041 0000")  # U+0100 U+0100 U+4100
    assert decode_elements(data, 0, 10, 0, 1)[0] == [NameElement(ELEMENT_DIRECT, text="ĀĀ䄀")]
    assert encode_elements([NameElement(ELEMENT_DIRECT, text="A\u0100")], 0) == bytes.fromhex("0300 4100 0001 0000")


def test_a_list_is_refused_at_every_shorter_length() -> None:
    data = bytes(12) + LIST
    for end in range(12, len(data)):
        with pytest.raises(Malformed):
            decode_elements(data, 12, end, 0, len(ELEMENTS))


@pytest.mark.parametrize("element", [
    NameElement(ELEMENT_DIRECT), NameElement(ELEMENT_DIRECT, text="a\0"), NameElement(ELEMENT_PUBLIC, b"x"),
    NameElement(ELEMENT_PRIVATE, G, -1)])
def test_an_element_that_no_list_can_carry_is_refused(element: NameElement) -> None:
    with pytest.raises(InvalidParameter):
        encode_elements([element], 12)


@pytest.mark.spec("MQ-114", "QB-063")
def test_a_count_beyond_the_bytes_is_refused_before_anything_is_allocated() -> None:
    data = bytes(12) + LIST
    tracemalloc.start()
    for count in (0x7FFFFFFF, 0xFFFFFFFF, len(LIST) // 6 + 1):
        with pytest.raises(Malformed, match="names in"):
            decode_elements(data, 12, len(data), 0, count)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
