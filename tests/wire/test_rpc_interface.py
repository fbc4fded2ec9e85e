"""Codecs of methods: counts across request and response, values that do not fit, and descriptions that cannot be."""

import struct
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from lior.errors import InvalidParameter, Malformed
from lior.message import ObjectId
from lior.names import QueueFormat, QueueFormatType
from lior.wire.ndr import NDR, NDR64, NDR_BIG_ENDIAN, NULL, Ndr64Reader, Ndr64Writer
from lior.wire.ndr_arrays import CHARACTERS, OCTETS, PROPVARIANT, Array
from lior.wire.ndr_pointers import Full, Unique
from lior.wire.ndr_structure import Structure, Union
from lior.wire.ndr_types import ENUM, OBJECTID, QUEUE_FORMAT, STRING, U8, U16, U32, U64, Ranged, Type
from lior.wire.propvariant import VT_CLSID, VT_LPWSTR, VT_UI8, VT_VECTOR, PropVariant
from lior.wire.rpc_interface import Codec, In, InOut, Out, interface, method

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
DIRECT = QueueFormat(QueueFormatType.DIRECT, direct_id="OS:h")


@dataclass(slots=True)
class Pair:
    count: int = 0
    kind: int = 0
    values: tuple[int, ...] | None = None


@dataclass(slots=True)
class Wrong:
    values: tuple[int, ...] | None = None
    count: int = 0


PAIR = Structure(Pair, (("count", U32), ("values", Unique(Array(U16, "count"))), ("kind", ENUM)))


def codec(*parameters: tuple[str, Type]) -> Codec:
    return Codec("test", parameters)


def test_a_request_has_what_goes_in_and_a_response_what_comes_out() -> None:
    found = method(3, "Name", In("one", U32), Out("two", U8), InOut("three", STRING))
    assert (found.opnum, found.name) == (3, "Name")
    assert found.request.fields == ("one", "three")
    assert found.response.fields == ("two", "three", "result")
    assert method(4, "Void", Out("two", U8), result=None).response.fields == ("two",)
    assert interface("i", str(GUID), (1, 2), 9, found).methods == {3: found}


def test_decodes_to_a_named_tuple() -> None:
    found = codec(("one", U32), ("name", STRING)).decode(struct.pack("<IIII", 7, 2, 0, 2) + b"a\0\0\0")
    assert found == (7, "a")
    assert (found.one, found.name) == (7, "a")


@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3), ("1", 2), (-1, 2), (1 << 32, 2), (None, 2), (1, 256)])
def test_refuses_values_that_are_too_few_too_many_or_out_of_range(values: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameter):
        codec(("one", U32), ("two", U8)).encode(values)


def test_holds_a_number_to_its_range_both_ways() -> None:
    ranged = codec(("cp", Ranged(U32, 1, 128)))
    for value in (1, 128):
        assert ranged.decode(ranged.encode((value,))) == (value,)
    for value in (0, 129):
        with pytest.raises(InvalidParameter):
            ranged.encode((value,))
        with pytest.raises(Malformed, match="range"):
            ranged.decode(struct.pack("<I", value))


def test_an_out_array_takes_its_count_from_the_request() -> None:
    found = method(0, "Get", In("size", U32), Out("data", Array(OCTETS, "size")), result=None)
    assert found.response.encode((b"ab",), (4,)) == struct.pack("<I", 4) + b"ab\0\0"
    assert found.response.encode((b"ab",)) == struct.pack("<I", 2) + b"ab"
    assert found.response.decode(struct.pack("<I", 2) + b"ab") == (b"ab",)
    with pytest.raises(Malformed):
        found.response.decode(struct.pack("<I", 2) + b"ab", (4,))


def test_an_array_of_numbers_is_as_long_as_its_count() -> None:
    found = codec(("count", U32), ("length", U32), ("values", Array(U16, "count", "length")))
    assert found.encode((5, 2, (1, 2))) == struct.pack("<IIIIIHH", 5, 2, 5, 0, 2, 1, 2)
    for wrong in ((5, 3, (1, 2)), (1, 2, (1, 2))):
        with pytest.raises(InvalidParameter):
            found.encode(wrong)


def test_a_null_array_has_no_announced_elements() -> None:
    found = codec(("pair", PAIR))
    assert found.decode(struct.pack("<IIHxx", 0, 0, 5)) == (Pair(0, 5, None),)
    with pytest.raises(Malformed):
        found.decode(struct.pack("<IIHxx", 1, 0, 5))
    with pytest.raises(InvalidParameter):
        found.encode((Pair(1, 5, None),))
    with pytest.raises(InvalidParameter):
        found.encode((DIRECT,))
    alone = codec(("count", U32), ("values", Unique(Array(U16, "count"))))
    with pytest.raises(InvalidParameter):
        alone.encode((1, None))


def test_ndr64_has_wide_pointers_counts_enumerations_and_gaps() -> None:
    found = codec(("pair", PAIR), ("byte", U8))
    stub = found.encode((Pair(2, 5, (6, 7)), 9), None, NDR64)
    assert stub == struct.pack("<IxxxxQixxxxQHHB", 2, 0x20000, 5, 2, 6, 7, 9)
    assert found.decode(stub, None, NDR64) == (Pair(2, 5, (6, 7)), 9)


def test_a_queue_format_of_ndr64_aligns_union_and_arm_to_eight() -> None:
    found = codec(("byte", U8), ("format", QUEUE_FORMAT), ("end", U8))
    stub = found.encode((1, DIRECT, 2), None, NDR64)
    assert stub == bytes.fromhex(
        "01 00000000000000 03 00 0000 00000000 03 00000000000000 0000020000000000"
        "0500000000000000 0000000000000000 0500000000000000 4f00 5300 3a00 6800 0000 02")
    assert found.decode(stub, None, NDR64) == (1, DIRECT, 2)
    multicast = QueueFormat(QueueFormatType.PRIVATE, guid=GUID, number=3)
    stub = found.encode((1, multicast, 2), None, NDR64)
    assert stub == bytes.fromhex("01 00000000000000 02 00 0000 00000000 02 00000000000000") + GUID.bytes_le + bytes(
        (3, 0, 0, 0, 0, 0, 0, 0, 2))


def test_reads_variants_of_a_big_endian_peer() -> None:
    found = codec(("count", U32), ("values", Array(PROPVARIANT, "count")))
    stub = bytes.fromhex(
        "00000003 00000003"
        "0015 00 00 00000000 0015 000000000000 0000000000000007"
        "001f 00 00 00000000 001f 0000 00020000"
        "1048 00 00 00000000 1048 0000 00000001 00020004"
        "00000002 00000000 00000002 00e4 0000"
        "00000001" + GUID.hex)
    assert found.decode(stub, None, NDR_BIG_ENDIAN).values == (
        PropVariant(VT_UI8, 7), PropVariant(VT_LPWSTR, "ä"), PropVariant(VT_VECTOR | VT_CLSID, (GUID,)))


def test_a_full_pointer_to_a_pointer_tells_two_kinds_of_null_apart() -> None:
    found = codec(("name", Full(Unique(STRING))))
    assert found.encode((None,)) == bytes(4)
    assert found.encode((NULL,)) == struct.pack("<II", 0x20000, 0)
    assert found.decode(bytes(4)) == (None,)
    assert found.decode(struct.pack("<II", 1, 0)) == (NULL,)
    assert not NULL


@pytest.mark.parametrize("value", [
    ObjectId(GUID, 0xFFFFFFFF), ObjectId(UUID(int=0), 0), ObjectId(UUID(int=2**128 - 1), 1)])
def test_an_object_identifier_is_equal_to_one_made_elsewhere(value: ObjectId) -> None:
    found = codec(("id", OBJECTID)).decode(value.to_bytes()).id
    assert found == value == ObjectId.from_bytes(value.to_bytes())
    assert hash(found) == hash(value)
    assert repr(found) == repr(value)


def test_counts_of_an_array_may_not_exceed_what_a_reader_takes() -> None:
    found = codec(("count", U32), ("text", Array(CHARACTERS, "count")))
    for count in (0x80000000, 0xFFFFFFFF, 0x7FFFFFFF):
        with pytest.raises(Malformed):
            found.decode(struct.pack("<II", count, count))


@pytest.mark.parametrize(("make", "members"), [
    (Wrong, (("count", U32), ("values", Unique(Array(U16, "count"))))),  # the class has another order
    (Pair, (("count", U32), ("kind", STRING), ("values", Unique(U32)))),  # not of fixed size in its place
])
def test_a_description_that_cannot_be_is_a_mistake_that_shows(make: type[Any], members: Any) -> None:
    with pytest.raises(TypeError):
        codec(("value", Structure(make, members))).decode(bytes(64))


def test_unions_and_variants_are_described_for_ndr_alone() -> None:
    @dataclass(slots=True)
    class One:
        kind: int
        of: int | None = None

    union = Structure(One, (("kind", U32), ("of", Union("kind", U32, {1: Unique(U64)}))))
    assert codec(("one", union)).decode(struct.pack("<IIIIQ", 1, 1, 1, 0, 5)) == (One(1, 5),)
    for type_ in (union, Array(PROPVARIANT, 1)):
        with pytest.raises(TypeError):
            codec(("one", type_)).decode(bytes(64), None, NDR64)


def test_the_syntaxes_are_those_of_the_documents() -> None:
    assert (NDR.version, NDR64.version, NDR_BIG_ENDIAN.uuid) == ((2, 0), (1, 0), NDR.uuid)
    writer = Ndr64Writer()
    writer.wide_string("a")
    writer.unique(None, Ndr64Writer.wide_string)
    reader = Ndr64Reader(writer.to_bytes())
    assert reader.wide_string() == "a"
    assert not reader.referent()
    reader.end()
