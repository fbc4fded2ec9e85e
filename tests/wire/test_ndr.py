"""NDR: alignment, counts, strings and the order of pointees, against impacket and bytes written out by hand."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from impacket.dcerpc.v5.dtypes import LPWSTR, ULONG, WSTR
from impacket.dcerpc.v5.ndr import NDRPOINTER, NDRSTRUCT, NDRUHYPER, NDRUSHORT, NDRUniConformantArray

from lior.errors import InvalidParameter, Malformed
from lior.wire.ndr import FIRST_REFERENT, NdrReader, NdrWriter

PRIMITIVES = bytes.fromhex(
    "01 00 0200 03 000000 04000000 05 000000 0600000000000000 ff 00 feff fdffffff fcffffffffffffff")
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def written(action: Callable[[NdrWriter], object]) -> bytes:
    writer = NdrWriter()
    action(writer)
    writer.flush()
    return writer.to_bytes()


def test_aligns_every_primitive_to_its_own_size() -> None:
    def action(writer: NdrWriter) -> None:
        writer.u8(1)
        writer.u16(2)
        writer.u8(3)
        writer.u32(4)
        writer.u8(5)
        writer.u64(6)
        writer.i8(-1)
        writer.i16(-2)
        writer.i32(-3)
        writer.i64(-4)

    assert written(action) == PRIMITIVES


def test_reads_back_every_primitive() -> None:
    reader = NdrReader(PRIMITIVES)
    assert [reader.u8(), reader.u16(), reader.u8(), reader.u32(), reader.u8(), reader.u64()] == [1, 2, 3, 4, 5, 6]
    assert [reader.i8(), reader.i16(), reader.i32(), reader.i64()] == [-1, -2, -3, -4]
    reader.end()


@pytest.mark.spec("MQ-056")
def test_a_64_bit_number_at_an_odd_offset_is_padded_to_eight() -> None:
    def action(writer: NdrWriter) -> None:
        writer.u8(0xAA)
        writer.u64(0x1122334455667788)

    data = written(action)
    assert data == bytes.fromhex("aa00000000000000 8877665544332211")
    reader = NdrReader(data)
    assert reader.u8() == 0xAA
    assert reader.u64() == 0x1122334455667788


@pytest.mark.parametrize("name", ["u16", "u32", "u64", "i16", "i32", "i64", "guid", "wide_string"])
def test_refuses_a_stub_that_ends_inside_a_value(name: str) -> None:
    data = written(lambda writer: getattr(writer, name)(
        GUID if name == "guid" else "ab" if name == "wide_string" else 1))
    for cut in range(len(data)):
        with pytest.raises(Malformed):
            getattr(NdrReader(data[:cut]), name)()
    getattr(NdrReader(data), name)()


def test_writes_a_string_with_its_three_counts_and_terminator() -> None:
    assert written(lambda writer: writer.wide_string("hé")) == bytes.fromhex(
        "03000000 00000000 03000000 6800 e900 0000")


def test_counts_a_character_beyond_the_basic_plane_as_two() -> None:
    data = written(lambda writer: writer.wide_string("\U0001F600"))
    assert data[:12] == bytes.fromhex("03000000 00000000 03000000")
    assert NdrReader(data).wide_string() == "\U0001F600"


@pytest.mark.parametrize("stub", [
    "01000000 00000000 00000000",  # nothing, not even the terminator
    "02000000 01000000 01000000 0000",  # an offset
    "01000000 00000000 02000000 61000000",  # more than the maximum
    "02000000 00000000 02000000 61006200",  # no terminator
    "03000000 00000000 03000000 610000006200",  # terminator in the middle only
    "03000000 00000000 03000000 610000000000",  # two of them
    "02000000 00000000 02000000 00d80000",  # half a surrogate pair
    "ffffffff 00000000 ffffffff 61000000",  # far more than there is
])
def test_refuses_a_string_that_is_inconsistent(stub: str) -> None:
    with pytest.raises(Malformed):
        NdrReader(bytes.fromhex(stub)).wide_string()


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_refuses_to_write_text_that_the_wire_cannot_carry(text: str) -> None:
    with pytest.raises(InvalidParameter):
        NdrWriter().wide_string(text)


def test_pointees_follow_the_construction_in_the_order_of_their_referents() -> None:
    def action(writer: NdrWriter) -> None:
        writer.unique("a", NdrWriter.wide_string)
        writer.unique(None, NdrWriter.wide_string)
        writer.unique("b", NdrWriter.wide_string)

    assert written(action) == bytes.fromhex(
        "00000200 00000000 04000200"
        "02000000 00000000 02000000 6100 0000"
        "02000000 00000000 02000000 6200 0000")


def test_a_pointee_is_finished_with_its_own_pointees_before_the_next_starts() -> None:
    def inner(writer: NdrWriter, text: str) -> None:
        writer.u32(7)
        writer.unique(text, NdrWriter.wide_string)

    def action(writer: NdrWriter) -> None:
        writer.unique("a", inner)
        writer.unique("b", NdrWriter.wide_string)

    data = written(action)
    assert data == bytes.fromhex(
        "00000200 04000200"
        "07000000 08000200"
        "02000000 00000000 02000000 6100 0000"
        "02000000 00000000 02000000 6200 0000")
    found: list[Any] = []

    def read_inner(reader: NdrReader) -> tuple[int, str | None]:
        number = reader.u32()
        cell: list[str | None] = []
        reader.unique(NdrReader.wide_string, cell.append)
        reader.flush()
        return number, cell[0]

    reader = NdrReader(data)
    reader.unique(read_inner, found.append)
    reader.unique(NdrReader.wide_string, found.append)
    reader.flush()
    reader.end()
    assert found == [(7, "a"), "b"]


def test_forgetting_a_pointee_is_a_mistake_that_shows() -> None:
    writer = NdrWriter()
    writer.unique("a", NdrWriter.wide_string)
    with pytest.raises(AssertionError):
        writer.to_bytes()
    reader = NdrReader(FIRST_REFERENT.to_bytes(4, "little"))
    reader.unique(NdrReader.wide_string, print)
    with pytest.raises(AssertionError):
        reader.end()


def test_refuses_an_array_whose_maximum_differs_from_its_size() -> None:
    with pytest.raises(Malformed):
        NdrReader(bytes.fromhex("03000000 0102030405")).conformant(4, 1)
    assert NdrReader(bytes.fromhex("03000000 0102030405")).conformant(3, 1) == 3


def test_refuses_an_array_that_cannot_fit_before_it_is_allocated() -> None:
    with pytest.raises(Malformed):
        NdrReader(bytes.fromhex("ffffffff 01")).conformant(0xFFFFFFFF, 8)
    with pytest.raises(Malformed):
        NdrReader(b"\0" * 8).numbers("Q", 0x10000000)


@pytest.mark.parametrize(("stub", "good"), [
    ("04000000 00000000 02000000 0102", True),
    ("05000000 00000000 02000000 0102", False),
    ("04000000 01000000 02000000 0102", False),
    ("04000000 00000000 05000000 0102030405", False),
    ("04000000 00000000 03000000 0102", False),
])
def test_holds_a_varying_array_to_its_counts(stub: str, good: bool) -> None:
    reader = NdrReader(bytes.fromhex(stub))
    if good:
        assert reader.conformant_varying(4, 1) == 2
    else:
        with pytest.raises(Malformed):
            reader.conformant_varying(4, 1)


def test_refuses_bytes_behind_the_last_parameter_but_not_padding() -> None:
    reader = NdrReader(bytes(8))
    reader.u32()
    reader.end()
    reader = NdrReader(bytes(9))
    reader.u32()
    with pytest.raises(Malformed):
        reader.end()


class Numbers(NDRUniConformantArray):  # type: ignore[misc]
    item = "<H"


class PointerToNumbers(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", Numbers),)


class Record(NDRSTRUCT):  # type: ignore[misc]
    structure = (("tag", NDRUSHORT), ("name", LPWSTR), ("size", ULONG), ("numbers", PointerToNumbers),
                 ("big", NDRUHYPER))


def test_impacket_reads_a_structure_with_pointers_as_it_was_written() -> None:
    def action(writer: NdrWriter) -> None:
        writer.align(8)
        writer.u16(0x1234)
        writer.unique("name", NdrWriter.wide_string)
        writer.u32(3)
        writer.referent()
        writer.defer(lambda: writer.u32(3))
        writer.defer(lambda: writer.numbers("H", (1, 2, 3)))
        writer.u64(1 << 40)

    data = written(action)
    record = Record()
    record.fromString(data)
    record.fromStringReferents(data[24:])
    assert record["tag"] == 0x1234
    assert record["name"] == "name\0"
    assert list(record["numbers"]) == [1, 2, 3]
    assert record["big"] == 1 << 40


def test_reads_a_string_that_impacket_wrote() -> None:
    value = WSTR()
    value["Data"] = "orders\0"
    assert NdrReader(value.getData()).wide_string() == "orders"
