"""Automation types in NDR, beside a second hand: [MS-OAUT] 2.2.23 to 2.2.31, [C706] 14."""

# ruff: noqa: DTZ001  # a DATE has no time zone

import math
import random
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest

from lior.errors import InvalidParameter, LiorError, Malformed, NotPersistable
from lior.wire import automation as at
from lior.wire import automation_objects as objects
from lior.wire import automation_types as types
from lior.wire.automation import EMPTY, MISSING, Bound, SafeArray, SCode, Variant, indices
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_records import RECORD_INFO, RecordType
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter, ObjectCodec, Scope
from lior.wire.automation_variants import ANY, VARIANT, plain, variant_of
from lior.wire.recorded_call import Limits
from tests.wire.recorded_call_vectors import PARCEL, PARCEL_ID, E, F
from tests.wire.second_recorded_call import Data, Parameters, headers, object_reference

LONGS = SafeArrayType(types.I4)


def written(kind: AutomationType, value: Any, scope: Scope = types.NOTHING) -> bytes:
    writer = AutomationWriter(scope)
    kind.write_parameter(writer, value)
    return writer.to_bytes()


def read(kind: AutomationType, data: bytes, scope: Scope = types.NOTHING) -> Any:
    return kind.read_parameter(AutomationReader(data, scope))


def refuses(kind: AutomationType, data: bytes, scope: Scope = types.NOTHING) -> None:
    with pytest.raises(Malformed):
        read(kind, data, scope)


def laid_down(build: Any) -> bytes:
    data = Data()
    build(data)
    return data.octets


# ---- numbers --------------------------------------------------------------------------------------------------------

INTEGERS = [(types.I1, "b"), (types.UI1, "B"), (types.I2, "h"), (types.UI2, "H"), (types.I4, "i"), (types.UI4, "I"),
            (types.INT, "i"), (types.UINT, "I"), (types.I8, "q"), (types.UI8, "Q")]  # fmt: skip


@pytest.mark.spec("QC-067", "QC-066")
@pytest.mark.parametrize(("kind", "code"), INTEGERS, ids=lambda each: str(each))
def test_integers_have_their_width_alignment_and_bounds(kind: AutomationType, code: str) -> None:
    bits = 8 * struct.calcsize("<" + code)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code.islower() else (0, (1 << bits) - 1)
    for value in (low, high, 0, 1):
        assert written(kind, value) == struct.pack("<" + code, value)
        writer = AutomationWriter()
        writer.u8(0x55)
        kind.write(writer, value)
        assert writer.data == b"\x55" + bytes(kind.alignment - 1) + struct.pack("<" + code, value)
        reader = AutomationReader(b"\x55" + b"\xCC" * (kind.alignment - 1) + struct.pack("<" + code, value))
        reader.u8()
        assert kind.read_parameter(reader) == value
    bad: list[Any] = [low - 1, high + 1, 1 << 80, True, 1.0, "1", None]
    for wrong in bad:
        with pytest.raises(InvalidParameter):
            written(kind, wrong)


@pytest.mark.spec("QC-067")
def test_a_status_code_may_be_given_signed_or_unsigned() -> None:
    for value in (0x8002000E, 0x8002000E - (1 << 32)):
        assert written(types.ERROR, value) == bytes.fromhex("0E000280")
    found = read(types.ERROR, bytes.fromhex("0E000280"))
    assert found == 0x8002000E
    assert isinstance(found, SCode)
    with pytest.raises(InvalidParameter):
        written(types.ERROR, 1 << 32)


@pytest.mark.spec("QC-068")
@pytest.mark.parametrize("octets", [
    "0000000000000080", "000000000000F07F", "000000000000F0FF", "0100000000000000", "FFFFFFFFFFFFEF7F",
    "0123456789ABF8FF",
])  # fmt: skip
def test_doubles_keep_every_bit(octets: str) -> None:
    data = bytes.fromhex(octets)
    assert written(types.R8, read(types.R8, data)) == data


@pytest.mark.spec("QC-068")
@pytest.mark.parametrize("octets", ["00000080", "0000807F", "000080FF", "01000000", "FFFF7F7F", "0123C5FF"])
def test_floats_keep_every_bit(octets: str) -> None:
    data = bytes.fromhex(octets)
    assert written(types.R4, read(types.R4, data)) == data
    with pytest.raises(InvalidParameter):
        written(types.R4, 1e300)


@pytest.mark.spec("QC-069")
def test_a_boolean_is_two_octets_all_ones_or_none() -> None:
    assert written(types.BOOL, True) == b"\xFF\xFF"
    assert written(types.BOOL, False) == b"\0\0"
    for octets in (b"\xFF\xFF", b"\1\0", b"\0\1"):
        assert read(types.BOOL, octets) is True
    assert read(types.BOOL, b"\0\0") is False
    for value in (1, 0, None, "yes"):
        with pytest.raises(InvalidParameter):
            written(types.BOOL, value)
    assert written(types.PLAIN_BOOL, True) == b"\1"
    assert read(types.PLAIN_BOOL, b"\2") is True


class Colour(IntEnum):
    RED = 1
    BLUE = 0x7FFF


@pytest.mark.spec("QC-070")
def test_an_enumeration_has_16_bits_or_32() -> None:
    small, large = types.Enumeration(16, Colour), types.Enumeration(32, Colour)
    assert written(small, Colour.BLUE) == b"\xFF\x7F"
    assert written(large, Colour.BLUE) == b"\xFF\x7F\0\0"
    assert read(small, b"\1\0") is Colour.RED
    assert read(large, b"\1\0\0\0") is Colour.RED
    assert variant_of(Colour.RED) == Variant(at.VT_I4, 1)
    for kind in (small, large):
        refuses(kind, b"\2\0\0\0")
        with pytest.raises(InvalidParameter):
            written(kind, 2)

    class Wide(IntEnum):
        HUGE = 0x8000

    with pytest.raises(InvalidParameter):
        types.Enumeration(16, Wide)
    array = SafeArrayType(large)
    assert read(array, written(array, [Colour.RED, Colour.BLUE])) == [Colour.RED, Colour.BLUE]


@pytest.mark.spec("QC-071")
def test_currency_counts_ten_thousandths() -> None:
    assert written(types.CY, Decimal("5.25")) == bytes.fromhex("14CD000000000000")
    lowest, highest = Decimal("-922337203685477.5808"), Decimal("922337203685477.5807")
    for value in (lowest, highest, Decimal(0), Decimal("-0.0001"), Decimal("1E+3"), Decimal("1.00000")):
        assert read(types.CY, written(types.CY, value)) == value
    step = Decimal("0.0001")
    for bad in (lowest - step, highest + step, Decimal("0.00001"), Decimal("NaN"), Decimal("Infinity"), 1.5, True,
                Decimal("1E+90")):  # fmt: skip
        with pytest.raises(InvalidParameter):
            written(types.CY, bad)


@pytest.mark.spec("QC-072")
def test_a_date_counts_days_and_its_fraction_runs_forward_even_before_the_epoch() -> None:
    for days, date in ((5.25, datetime(1900, 1, 4, 6)), (-1.25, datetime(1899, 12, 29, 6)),
                       (0.0, datetime(1899, 12, 30)), (0.5, datetime(1899, 12, 30, 12)),
                       (-657434.0, datetime(100, 1, 1)), (2958465.0, datetime(9999, 12, 31))):  # fmt: skip
        assert written(types.DATE, date) == struct.pack("<d", days)
        assert read(types.DATE, struct.pack("<d", days)) == date
    for exact in (datetime(2026, 11, 19, 20, 38, 41, 123456), datetime(2500, 1, 1, 0, 0, 0, 999000)):
        assert read(types.DATE, written(types.DATE, exact)) == exact
    for days in (math.nan, math.inf, -657435.0, 2958466.0, 1e300):
        refuses(types.DATE, struct.pack("<d", days))
    for bad in (datetime(99, 1, 1), datetime(2500, 1, 1, 0, 0, 0, 1), datetime(2026, 1, 1).astimezone(), "today"):
        with pytest.raises(InvalidParameter):
            written(types.DATE, bad)


@pytest.mark.spec("QC-073")
def test_a_decimal_has_96_bits_a_scale_and_a_sign() -> None:
    for value, (negative, number, scale) in (
        (Decimal("-1234.567"), (True, 1234567, 3)), (Decimal(0), (False, 0, 0)), (Decimal("-0.0"), (True, 0, 1)),
        (Decimal((1 << 96) - 1), (False, (1 << 96) - 1, 0)), (Decimal("1E-28"), (False, 1, 28)),
        (Decimal("1E+28"), (False, 10**28, 0)), (Decimal("1.000000000000000000000000000000"), (False, 10**28, 28)),
    ):
        data = written(types.DECIMAL, value)
        assert data == laid_down(lambda out: out.decimal(negative, number, scale))  # noqa: B023
        assert read(types.DECIMAL, data) == value
        assert read(types.DECIMAL, b"\xCC\xCC" + data[2:]) == value
    for bad in (Decimal(1 << 96), Decimal("1E-29"), Decimal("1E+29"), Decimal("Infinity"), Decimal("NaN"), 1.5):
        with pytest.raises(InvalidParameter):
            written(types.DECIMAL, bad)
    good = bytearray(written(types.DECIMAL, Decimal(1)))
    for at_, octet in ((2, 29), (2, 255), (3, 1), (3, 0x7F), (3, 0xFF)):
        bad_octets = bytearray(good)
        bad_octets[at_] = octet
        refuses(types.DECIMAL, bytes(bad_octets))
    with pytest.raises(InvalidParameter):
        SafeArrayType(types.DECIMAL)


# ---- BSTR -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-075", "QC-076")
@pytest.mark.parametrize("text", ["Zoë", "", None, b"abc", "\ud800", "a\0b", "😀", "x" * 1000])
def test_text_travels_with_its_length_and_null_is_not_empty(text: str | bytes | None) -> None:
    data = written(types.BSTR, text)
    assert data == laid_down(lambda out: out.bstr(text))
    assert read(types.BSTR, data) == text
    assert Parameters(data).read("bstr") == [text]


@pytest.mark.spec("QC-075")
def test_counts_of_a_text_stand_in_front_and_nothing_ends_it() -> None:
    assert written(types.BSTR, "Zoë")[4:] == bytes.fromhex("0300000006000000030000005A006F00EB00")


@pytest.mark.spec("QC-076")
def test_null_text_has_three_forms_of_which_two_are_read() -> None:
    assert written(types.BSTR, None)[4:] == bytes.fromhex("00000000FFFFFFFF00000000")
    assert read(types.BSTR, bytes(4)) is None
    assert read(types.BSTR, b"\1\0\0\0" + bytes(12)) == ""
    assert read(types.BSTR, written(types.BSTR, b"abc")[:-1] + b"\xCC") == b"abc"


@pytest.mark.spec("QC-077", "QC-127")
@pytest.mark.parametrize("counts", [
    (2, 6, 3), (3, 6, 2), (3, 5, 2), (3, 7, 3), (3, 4, 3), (0, 0xFFFFFFFF, 1), (1, 0xFFFFFFFF, 0),
    (0x7FFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF), (4, 8, 4), (0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF),
])  # fmt: skip
def test_refuses_counts_of_a_text_that_disagree_or_lead_beyond_the_end(counts: tuple[int, int, int]) -> None:
    refuses(types.BSTR, struct.pack("<IIII", 1, *counts) + bytes(6))


# ---- SAFEARRAY ------------------------------------------------------------------------------------------------------

ARRAYS: list[tuple[int, list[Any]]] = [
    (at.VT_I1, [-1, 2]), (at.VT_UI1, [255, 0, 7]), (at.VT_I2, [-2, 3]), (at.VT_UI2, [65535]), (at.VT_I4, [10, -30]),
    (at.VT_UI4, [1 << 31]), (at.VT_INT, [5]), (at.VT_UINT, [6]), (at.VT_I8, [-(1 << 62)]), (at.VT_UI8, [1 << 63]),
    (at.VT_R4, [1.5]), (at.VT_R8, [2.5, -0.0]),
]  # fmt: skip


@pytest.mark.spec("QC-078", "QC-079", "QC-080")
@pytest.mark.parametrize(("vt", "elements"), ARRAYS, ids=[at.type_name(vt) for vt, _ in ARRAYS])
def test_arrays_of_scalars_are_raw_cells_with_their_type_in_the_lock_count(vt: int, elements: list[Any]) -> None:
    kind = SafeArrayType(types.SIMPLE[vt])
    data = written(kind, elements)
    assert data == laid_down(lambda out: out.array(vt, elements))
    assert list(read(kind, data)) == elements
    assert Parameters(data).read("safearray")[0][2] == elements


@pytest.mark.spec("QC-079")
@pytest.mark.parametrize(("kind", "values"), [
    (types.BOOL, [True, False]), (types.CY, [Decimal("5.25"), Decimal("-1.0001")]),
    (types.DATE, [datetime(2026, 11, 19, 20), datetime(1899, 1, 1)]), (types.ERROR, [SCode(0x80020004), SCode(0)]),
], ids=str)  # fmt: skip
def test_cells_become_values_of_their_type(kind: AutomationType, values: list[Any]) -> None:
    array = SafeArrayType(kind)
    data = written(array, values)
    assert read(array, data) == values
    vt, bounds, cells = Parameters(data).read("safearray")[0]
    assert (vt, bounds, len(cells)) == (kind.vt, [(len(values), 0)], len(values))


@pytest.mark.spec("QC-083")
def test_bounds_stand_in_reverse_and_the_first_index_runs_fastest() -> None:
    kind = SafeArrayType(types.R8, dimensions=2)
    nested = [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
    data = written(kind, nested)
    assert data == laid_down(lambda out: out.array(5, [0.0, 10.0, 1.0, 11.0, 2.0, 12.0], [(2, 0), (3, 0)]))
    assert data.find(struct.pack("<IiIi", 3, 0, 2, 0)) > 0
    assert read(kind, data) == nested
    order = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert list(indices((Bound(2), Bound(3)))) == order
    cube = [[[float(100 * a + 10 * b + c) for c in range(4)] for b in range(3)] for a in range(2)]
    three = SafeArrayType(types.R8, dimensions=3)
    assert read(three, written(three, cube)) == cube
    for bad in ([[1.0], [1.0, 2.0]], [1.0, 2.0], [[1.0], 2.0]):
        with pytest.raises(InvalidParameter):
            written(kind, bad)


@pytest.mark.spec("QC-084")
def test_an_empty_array_is_no_null_array() -> None:
    assert written(LONGS, []) == laid_down(lambda out: out.array(3, []))
    assert read(LONGS, written(LONGS, [])) == []
    assert written(LONGS, None) == bytes(4)
    assert read(LONGS, bytes(4)) is None
    assert read(LONGS, struct.pack("<II", 1, 0)) is None
    null_data = bytearray(written(LONGS, []))
    null_data[32:36] = bytes(4)
    assert read(LONGS, bytes(null_data[:-4])) == []


@pytest.mark.spec("QC-085")
def test_arrays_of_text_have_their_pointers_first() -> None:
    kind = SafeArrayType(types.BSTR)
    array = SafeArray(at.VT_BSTR, ["a", "", None], (Bound(3, 1),))
    data = written(kind, array)
    assert data == laid_down(lambda out: out.array(8, ["a", "", None], [(3, 1)]))
    assert read(kind, data) == ["a", "", None]
    without = bytearray(data)
    third = 4 + 4 + 4 + 16 + 8 + 8 + 4 + 8
    assert without[third:third + 4] != bytes(4)
    without[third:third + 4] = bytes(4)
    assert read(kind, bytes(without)) == ["a", "", None]


@pytest.mark.spec("QC-086")
def test_arrays_of_variants_nest_as_deep_as_the_limit() -> None:
    kind = SafeArrayType(ANY)
    data = written(kind, [1, "x", None, 2.5])
    assert data == laid_down(lambda out: out.array(12, [(3, 1), (8, "x"), (1, None), (5, 2.5)]))
    assert read(kind, data) == [1, "x", None, 2.5]
    nested: Any = 1
    for _ in range(15):
        nested = [nested]
    assert read(ANY, written(ANY, nested)) == nested
    with pytest.raises(InvalidParameter):
        written(ANY, [nested])
    deep = written(ANY, [nested], Scope(limits=Limits(variant_depth=17)))
    refuses(ANY, deep)
    assert read(ANY, deep, Scope(limits=Limits(variant_depth=17))) == [nested]


def array_octets(kind: int, features: int, size: int, locks: int, *, elements: int = 1) -> bytes:
    """An array of one element, of whatever is said; its data fits any kind."""
    head = struct.pack("<II", 1, 2) + struct.pack("<IHHIII", 1, 1, features, size, locks, kind)
    iid = bytes(16) if kind == 0x800D else b""
    return head + struct.pack("<II", elements, 3) + iid + struct.pack("<Ii", 1, 0) + struct.pack("<I", 1) + bytes(64)


SF = {"I1": 0x10, "I2": 2, "I4": 3, "I8": 0x14, "BSTR": 8, "UNKNOWN": 13, "DISPATCH": 9, "VARIANT": 12, "RECORD": 36,
      "HAVEIID": 0x800D, "ERROR": 10}  # fmt: skip
SIZES = {"I1": 1, "I2": 2, "I4": 4, "I8": 8, "BSTR": 4, "UNKNOWN": 4, "DISPATCH": 4, "VARIANT": 16, "RECORD": 4,
         "HAVEIID": 4, "ERROR": 4}  # fmt: skip
KINDS = {16: "I1", 17: "I1", 2: "I2", 18: "I2", 11: "I2", 10: "I4", 3: "I4", 19: "I4", 4: "I4", 22: "I4", 23: "I4",
         20: "I8", 21: "I8", 5: "I8", 6: "I8", 7: "I8", 8: "BSTR"}  # fmt: skip


@pytest.mark.spec("QC-081")
@pytest.mark.parametrize("vt", sorted(KINDS))
@pytest.mark.parametrize("kind", sorted(SF))
def test_type_and_kind_of_elements_agree_as_the_table_says(vt: int, kind: str) -> None:
    array = SafeArrayType(types.SIMPLE.get(vt) or types.BSTR)
    features = 0x80 | {"BSTR": 0x100, "UNKNOWN": 0x200, "DISPATCH": 0x400, "VARIANT": 0x800, "RECORD": 0x20,
                       "HAVEIID": 0x240}.get(kind, 0)  # fmt: skip
    data = array_octets(SF[kind], features, SIZES[kind], vt << 16)
    if KINDS[vt] == kind:
        read(array, data)
    else:
        refuses(array, data)
    refuses(array, array_octets(SF[kind], features, SIZES[kind], 14 << 16))


@pytest.mark.spec("QC-080", "QC-082")
def test_features_sizes_and_lock_counts_are_checked_and_flags_of_memory_ignored() -> None:
    assert read(LONGS, array_octets(3, 0x80, 4, 3 << 16)) == [0]
    assert read(LONGS, array_octets(3, 0x80, 4, 3 << 16 | 1)) == [0]
    assert read(LONGS, array_octets(3, 0x92, 4, 3 << 16)) == [0]
    assert read(LONGS, array_octets(3, 0x97, 4, 3 << 16)) == [0]
    assert read(LONGS, array_octets(3, 0, 4, 0)) == [0]
    assert read(SafeArrayType(types.R4), array_octets(3, 0, 4, 0)) == [0.0]
    refuses(SafeArrayType(types.R8), array_octets(3, 0, 4, 0))
    for features, size, locks in ((0, 4, 3 << 16), (0x100, 4, 0), (0x180, 4, 3 << 16), (0x80, 8, 3 << 16), (0x80, 4, 0),
                                  (0x80, 4, 19 << 16), (0x1080, 4, 3 << 16), (0xA0, 4, 3 << 16)):  # fmt: skip
        refuses(LONGS, array_octets(3, features, size, locks))
    texts = SafeArrayType(types.BSTR)
    for features, locks in ((0x100, 0), (0x180, 8 << 16)):
        assert read(texts, array_octets(8, features, 4, locks)) == [None]
    for features, locks in ((0x100, 8 << 16), (0x80, 8 << 16), (0, 0), (0x800, 0)):
        refuses(texts, array_octets(8, features, 4, locks))


@pytest.mark.spec("QC-078", "QC-083", "QC-127", "QC-131")
def test_refuses_counts_of_an_array_that_disagree_or_promise_too_much() -> None:
    good = written(LONGS, [1, 2, 3])
    assert read(LONGS, good) == [1, 2, 3]
    places = {"maximum": 8, "dimensions": 12, "count": 28, "bound": 36, "data count": 44}
    for name, place in places.items():
        for value in (0, 2, 4, 61, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF):
            form = "<H" if name == "dimensions" else "<I"
            if name == "dimensions":
                value &= 0xFFFF
            bad = bytearray(good)
            struct.pack_into(form, bad, place, value)
            refuses(LONGS, bytes(bad))
    for end in range(4, len(good)):
        refuses(LONGS, good[:end])
    null = bytearray(good)
    null[32:36] = bytes(4)
    refuses(LONGS, bytes(null))
    huge = struct.pack("<II", 1, 2) + struct.pack("<IHHIII", 2, 2, 0x80, 4, 3 << 16, 3) + struct.pack("<II", 0, 3)
    refuses(SafeArrayType(types.I4, dimensions=2), huge + struct.pack("<IiIi", 1 << 31, 0, 1 << 31, 0) + bytes(8))
    refuses(LONGS, good, Scope(limits=Limits(elements=2)))


# ---- VARIANT --------------------------------------------------------------------------------------------------------

VARIANTS: list[tuple[int, Any, int]] = [  # vt, value, octets
    (0, None, 20), (1, None, 20), (16, -1, 21), (17, 1, 21), (2, -2, 22), (18, 2, 22), (3, 4, 24), (19, 4, 24),
    (22, 4, 24), (23, 4, 24), (4, 1.5, 24), (5, 2.5, 32), (20, -8, 32), (21, 8, 32),
]  # fmt: skip


@pytest.mark.spec("QC-092", "QC-090")
@pytest.mark.parametrize(("vt", "value", "octets"), VARIANTS, ids=[at.type_name(vt) for vt, _, _ in VARIANTS])
def test_each_scalar_variant_has_its_length(vt: int, value: Any, octets: int) -> None:
    data = written(VARIANT, Variant(vt, value))
    assert data == laid_down(lambda out: out.variant(vt, value))
    assert len(data) == 8 + octets  # behind the pointer and four octets to align
    assert read(VARIANT, data) == Variant(vt, value)
    assert struct.unpack_from("<I", data, 8) == (-(-octets // 8),)


@pytest.mark.spec("QC-092")
def test_variants_of_the_other_scalars_hold_what_python_has_for_them() -> None:
    for vt, value in ((11, True), (10, SCode(0x80070005)), (7, datetime(1900, 1, 4, 6)), (6, Decimal("5.25")),
                      (14, Decimal("-1234.567"))):  # fmt: skip
        data = written(VARIANT, Variant(vt, value))
        assert read(VARIANT, data) == Variant(vt, value)
    assert len(written(VARIANT, Variant(14, Decimal(1)))) == 8 + 24 + 16
    assert plain(Variant(0)) is EMPTY
    assert plain(Variant(1)) is None


@pytest.mark.spec("QC-090")
def test_the_size_of_a_variant_counts_eights_and_nobody_is_led_by_it() -> None:
    for value, quads in ((1, 3), (2.5, 4), ("hi", 5)):
        data = bytearray(written(ANY, value))
        assert struct.unpack_from("<I", data, 8) == (quads,)
        for wrong in (0, 1, 100, 0xFFFFFFFF):
            struct.pack_into("<I", data, 8, wrong)
            assert read(ANY, bytes(data)) == value
        struct.pack_into("<I", data, 12, 0xCCCCCCCC)
        data[18:24] = b"\xCC" * 6
        assert read(ANY, bytes(data)) == value


@pytest.mark.spec("QC-091")
def test_the_tag_repeats_the_type_but_for_arrays() -> None:
    data = bytearray(written(VARIANT, Variant(0x2003, [1, 2, 3])))
    assert struct.unpack_from("<H", data, 16) == (0x2003,)
    assert struct.unpack_from("<I", data, 24) == (0x2000,)
    assert bytes(data) == laid_down(lambda out: out.variant(0x2003, [1, 2, 3]))
    for vt, value in ((3, 1), (8, "x"), (0x2003, [1]), (0x4005, 1.5), (0x6003, [1])):
        data = bytearray(written(VARIANT, Variant(vt, value)))
        for tag in (0, 2, 0x2003, 0x4000, 0x12000, 0xFFFFFFFF):
            if tag != (vt & 0x6000 if vt & 0x2000 else vt):
                struct.pack_into("<I", data, 24, tag)
                refuses(VARIANT, bytes(data))


@pytest.mark.spec("QC-093")
def test_variants_hold_texts_arrays_objects_and_one_variant_in_another() -> None:
    for vt, value in ((8, "text"), (8, None), (0x2008, ["a", "", None]), (0x2005, ([0.0, 1.0], [(2, 5)]))):
        data = laid_down(lambda out: out.variant(vt, value))  # noqa: B023
        array = SafeArray(5, (0.0, 1.0), (Bound(2, 5),))
        given = array if isinstance(value, tuple) else value
        assert written(VARIANT, Variant(vt, given)) == data
    inner = Variant(0x400C, Variant(8, "nested"))
    assert written(VARIANT, inner) == laid_down(lambda out: out.variant(0x400C, (8, "nested")))
    assert read(VARIANT, written(VARIANT, inner)) == inner
    assert plain(inner) == "nested"
    with pytest.raises(InvalidParameter):
        written(VARIANT, Variant(at.VT_VARIANT, Variant(3, 1)))
    assert read(VARIANT, written(VARIANT, Variant(0xD, None))) == Variant(0xD, None)


@pytest.mark.spec("QC-094")
@pytest.mark.parametrize(("vt", "value"), [
    (16, -1), (17, 1), (2, 2), (18, 2), (3, 3), (19, 3), (22, 3), (23, 3), (4, 1.5), (5, 3.25), (20, 5), (21, 5),
    (11, True), (10, SCode(5)), (6, Decimal(1)), (7, datetime(2026, 1, 1)), (14, Decimal("1.5")), (8, "text"),
    (0x2003, SafeArray(3, (1, 2), (Bound(2),))),
])  # fmt: skip
def test_a_value_by_reference_is_behind_one_more_pointer(vt: int, value: Any) -> None:
    variant = Variant(vt | 0x4000, value)
    data = written(VARIANT, variant)
    assert read(VARIANT, data) == variant
    null = bytearray(data)
    null[28:32] = bytes(4)
    refuses(VARIANT, bytes(null))
    if vt in (3, 5, 8):
        assert data == laid_down(lambda out: out.variant(vt | 0x4000, value))


@pytest.mark.spec("QC-095", "QC-094")
@pytest.mark.parametrize("vt", [
    0x18, 0x19, 0x1A, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 0x25, 0x26, 0x0F, 0x4000, 0x4001, 0x0C, 0x1003, 0x8003, 0x200E,
    0x2000, 0x2001, 0x2018, 0x4018, 0x27, 0xFFFF, 0x6000, 0x5003,
])  # fmt: skip
def test_refuses_types_that_no_variant_has(vt: int) -> None:
    head = struct.pack("<IIIIHHHHI", 1, 0, 0, 0, vt, 0, 0, 0, vt & 0x6000 if vt & 0x2000 else vt)
    refuses(VARIANT, head + struct.pack("<I", 1) * 40)
    with pytest.raises(InvalidParameter):
        written(VARIANT, Variant(vt, 0))


@pytest.mark.spec("QC-096")
def test_python_values_find_their_variant_and_come_back() -> None:
    values = [EMPTY, None, True, False, 1, -1, 1 << 40, 1 << 63, 1.5, "text", "", datetime(2026, 11, 19),
              Decimal("1.25"), b"octets", b"", [1, "two", [3.0, None]], [], MISSING, SCode(0x80020003)]  # fmt: skip
    for value in values:
        found = read(ANY, written(ANY, value))
        assert found == value
        assert type(found) is type(value)
    wanted = [0, 1, 11, 11, 3, 3, 20, 21, 5, 8, 8, 7, 14, 0x2011, 0x2011, 0x200C, 0x200C, 10, 10]
    assert [variant_of(value).vt for value in values] == wanted
    for bad in (object(), {1: 2}, 1 << 64, -(1 << 63) - 1):
        with pytest.raises(LiorError):
            written(ANY, bad)


@pytest.mark.spec("QC-072", "QC-073", "QC-083", "QC-085", "QC-093")
def test_reads_the_sampler_of_the_second_hand() -> None:
    [(_, _, rest)] = [header for header in headers(F) if header[0] == b"METH"]
    reader = AutomationReader(rest[40:])
    found = [VARIANT.read_parameter(reader) for _ in range(12)]
    assert found[:4] == [Variant(7, datetime(1900, 1, 4, 6)), Variant(7, datetime(1899, 12, 29, 6)),
                         Variant(14, Decimal("-1234.567")), Variant(6, Decimal("5.25"))]  # fmt: skip
    assert found[4].value.to_list() == [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
    assert found[5].value == SafeArray(8, ("a", "", None), (Bound(3, 1),))
    assert plain(found[6]) == [1, "x", None, 2.5]
    assert plain(found[7]) == "nested"
    assert [plain(each) for each in found[8:]] == [EMPTY, MISSING, True, -5]
    writer = AutomationWriter()
    for variant in found:
        VARIANT.write_parameter(writer, variant)
    assert writer.to_bytes() == rest[40:40 + len(writer.data)]


# ---- pointers -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-074")
def test_identifiers_of_pointers_say_nothing_but_null(seed: int) -> None:
    rng = random.Random(seed)
    kind = SafeArrayType(ANY)
    value = [1, "x", [b"\1\2", None, "y"], 2.5]
    data = written(kind, value)
    referents = sorted({at_ for at_ in range(0, len(data) - 3, 4)
                        if 0x20000 <= struct.unpack_from("<I", data, at_)[0] < 0x20100})  # fmt: skip
    assert len(referents) > 10
    for _ in range(50):
        changed = bytearray(data)
        for place in referents:
            struct.pack_into("<I", changed, place, rng.randrange(1, 1 << 32))
        assert read(kind, bytes(changed)) == value


@pytest.mark.spec("QC-074")
def test_a_ref_pointer_of_zero_is_no_null() -> None:
    kind = SafeArrayType(types.BSTR)
    data = bytearray(written(kind, ["a", "b"]))
    assert struct.unpack_from("<I", data, 32)[0] >= 0x20000
    data[32:36] = bytes(4)
    assert read(kind, bytes(data)) == ["a", "b"]


@pytest.mark.spec("QC-066")
def test_octets_of_a_gap_say_nothing() -> None:
    writer = AutomationWriter()
    types.I2.write(writer, -2)
    LONGS.write_parameter(writer, [1])
    types.R8.write(writer, 2.5)
    data = bytearray(writer.to_bytes())
    assert data[2:4] == b"\0\0"
    data[2:4] = b"\xCC\xCC"
    reader = AutomationReader(bytes(data))
    assert [types.I2.read_parameter(reader), LONGS.read_parameter(reader), types.R8.read_parameter(reader)] == [
        -2, [1], 2.5]  # fmt: skip


# ---- records and objects --------------------------------------------------------------------------------------------

LINE_ID = UUID("11111111-2222-3333-4444-555555555555")


@dataclass
class Line:
    article: str | None
    count: int
    price: float


LINE = RecordType(Line, LINE_ID, [("article", types.BSTR), ("count", types.I2), ("price", types.R8)],
                  library=UUID(int=5), version=(2, 7), lcid=9)
LINES = Scope(records={LINE_ID: LINE})


@pytest.mark.spec("QC-088")
def test_a_record_as_parameter_is_a_plain_structure() -> None:
    line = Line("bolt", 3, 0.25)

    def build(out: Data) -> None:
        out.pointer()
        out.put("h", 3)
        out.put("d", 0.25)
        out.blob("bolt")

    assert written(LINE, line) == laid_down(build)
    assert read(LINE, written(LINE, line)) == line
    assert LINE.alignment == 8


@pytest.mark.spec("QC-088", "QC-089")
def test_a_record_in_a_variant_names_its_type_and_repeats_its_size() -> None:
    line = Line("bolt", 3, 0.25)
    data = written(ANY, line, LINES)
    assert read(ANY, data, LINES) == line
    info = (b"MEOW" + struct.pack("<I", 4) + RECORD_INFO + RECORD_INFO + bytes(8) + UUID(int=5).bytes_le
            + struct.pack("<I", 2) + LINE_ID.bytes_le + struct.pack("<II", 7, 9))
    assert len(info) == 92
    place = data.find(info)
    assert struct.unpack_from("<II", data, place - 8) == (92, 92)
    flags, size = struct.unpack_from("<II", data, 32)
    assert flags == 1
    image_at = place + 92
    assert struct.unpack_from("<II", data, image_at) == (size, size)  # count of the array, prefix of the record
    assert len(data) - image_at - 4 == size

    def build(out: Data) -> None:  # the image's own alignment starts behind its prefix
        out.pointer()
        out.put("h", 3)
        out.put("d", 0.25)
        out.blob("bolt")

    assert data[image_at + 8:][4:] == laid_down(build)[4:]
    for wrong in (0, 2, 0xFFFFFFFF):
        bad = bytearray(data)
        struct.pack_into("<I", bad, 32, wrong)
        refuses(ANY, bytes(bad), LINES)
    for offset in (image_at, image_at + 4, 36):
        bad = bytearray(data)
        struct.pack_into("<I", bad, offset, size + 4)
        refuses(ANY, bytes(bad), LINES)


@pytest.mark.spec("QC-089", "QC-130")
def test_a_record_whose_type_is_not_registered_is_refused() -> None:
    data = written(ANY, Line("bolt", 3, 0.25), LINES)
    refuses(ANY, data)
    for part, other in ((LINE_ID.bytes_le, bytes(16)), (RECORD_INFO + RECORD_INFO, RECORD_INFO + bytes(16)),
                        (RECORD_INFO + RECORD_INFO, bytes(16) + RECORD_INFO), (b"MEOW\4", b"MEOW\1"),
                        (b"MEOW\4", b"MEOX\4"), (b"MEOW\4", b"MEOW\2"), (b"MEOW\4", b"MEOW\x08")):  # fmt: skip
        assert part in data
        refuses(ANY, data.replace(part, other), LINES)


@pytest.mark.spec("QC-088")
def test_an_array_of_records_is_one_collection() -> None:
    kind = SafeArrayType(LINE)
    lines = [Line("bolt", 3, 0.25), Line(None, -1, 1.5), Line("", 0, -0.5)]
    data = written(kind, lines, LINES)
    assert read(kind, data, LINES) == lines
    assert read(ANY, written(VARIANT, Variant(0x2024, SafeArray(36, lines, (Bound(3),))), LINES), LINES) == lines
    assert struct.unpack_from("<HHIII", data, 12) == (1, 0x20, 4, 0, 36)
    assert struct.unpack_from("<I", data, 28) == (1,)
    wrong = bytearray(data)
    struct.pack_into("<I", wrong, 28, 3)
    refuses(kind, bytes(wrong), LINES)


@dataclass
class Parcel:
    octets: bytes


def load_parcel(octets: bytes) -> Parcel:
    if not octets.startswith(b"\x07"):
        raise KeyError("no parcel")
    return Parcel(octets[1:])


PARCEL_CODEC = ObjectCodec(PARCEL_ID, Parcel, lambda parcel: b"\x07" + parcel.octets, load_parcel)
PARCELS = Scope(objects={PARCEL_ID: PARCEL_CODEC})


@pytest.mark.spec("QC-108", "QC-109", "QC-110")
def test_an_object_stands_in_the_array_where_a_reference_would() -> None:
    [(_, _, rest)] = [header for header in headers(E) if header[0] == b"METH"]
    data = rest[40:]
    writer = AutomationWriter(PARCELS)
    objects.UNKNOWN.write_parameter(writer, Parcel(b"parcel"))
    objects.UNKNOWN.write_parameter(writer, None)
    assert writer.to_bytes() == data[:len(writer.data)]
    reader = AutomationReader(data, PARCELS)
    assert objects.UNKNOWN.read_parameter(reader) == Parcel(b"parcel")
    assert objects.UNKNOWN.read_parameter(reader) is None


@pytest.mark.spec("QC-109")
def test_the_place_of_an_object_is_decided_in_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a capture show another place, these two change, and nothing else."""
    monkeypatch.setattr(objects, "object_octets", lambda scope, value: b"elsewhere" + value.octets)
    monkeypatch.setattr(objects, "object_of", lambda reader, data: Parcel(data[9:]))
    for kind in (objects.UNKNOWN, SafeArrayType(objects.UNKNOWN)):
        value: Any = Parcel(b"x") if kind is objects.UNKNOWN else [Parcel(b"x"), Parcel(b"y")]
        assert read(kind, written(kind, value, PARCELS), PARCELS) == value
        assert b"elsewherex" in written(kind, value, PARCELS)


@pytest.mark.spec("QC-107", "QC-110", "QC-130")
def test_objects_of_unknown_classes_are_neither_written_nor_read() -> None:
    with pytest.raises(NotPersistable):
        written(objects.UNKNOWN, object(), PARCELS)
    with pytest.raises(NotPersistable):
        written(ANY, object(), PARCELS)

    def octets(reference: bytes) -> bytes:
        return laid_down(lambda out: (out.pointer(), out.objects(reference)))

    good = object_reference(PARCEL, b"\x07x")
    assert read(objects.UNKNOWN, octets(good), PARCELS) == Parcel(b"x")
    assert read(objects.UNKNOWN, octets(good[:8] + b"\3" + good[9:]), PARCELS) == Parcel(b"x")
    assert read(objects.UNKNOWN, octets(b"\xCC" * 4 + good[4:28] + b"\xCC" * 4 + good[32:]), PARCELS) == Parcel(b"x")
    for size in (0, 16, 31, 33, 64, 0xFFFFFFFF):
        refuses(objects.UNKNOWN, octets(good[:4] + struct.pack("<I", size) + good[8:]), PARCELS)
    for place in (4, 8):  # both counts of the octets
        bad = bytearray(octets(good + b"longer"))
        struct.pack_into("<I", bad, place, len(good))
        refuses(objects.UNKNOWN, bytes(bad), PARCELS)
    refuses(objects.UNKNOWN, octets(object_reference(PARCEL, b"\x08x")), PARCELS)  # the loader raises
    refuses(objects.UNKNOWN, octets(object_reference(str(LINE_ID), b"\x07x")), PARCELS)
    refuses(objects.UNKNOWN, octets(good[:31]), PARCELS)
    for flags in (1, 2, 8):  # live references: standard, handler, extended
        refuses(objects.UNKNOWN, octets(b"MEOW" + struct.pack("<I", flags) + bytes(60)), PARCELS)


@pytest.mark.spec("QC-087")
def test_arrays_of_objects_travel_with_or_without_the_identifier_of_their_interface() -> None:
    parcels = [Parcel(b"x"), None, Parcel(b"yy")]
    kind = SafeArrayType(objects.UNKNOWN)
    assert read(kind, written(kind, parcels, PARCELS), PARCELS) == parcels
    iid = UUID(int=0x1234)
    array = SafeArray(at.VT_UNKNOWN, parcels, (Bound(3),), iid)
    data = written(kind, array, PARCELS)
    assert struct.unpack_from("<HHIII", data, 12) == (1, 0x240, 4, 0, 0x800D)
    assert data[36:52] == iid.bytes_le
    assert struct.unpack_from("<Ii", data, 52) == (3, 0)
    assert read(kind, data, PARCELS) == parcels
    dispatch = SafeArrayType(objects.DISPATCH)
    assert read(dispatch, written(dispatch, parcels, PARCELS), PARCELS) == parcels
    refuses(dispatch, data, PARCELS)
    held = Variant(0x2009, SafeArray(9, parcels, (Bound(3),)))
    assert plain(read(VARIANT, written(VARIANT, held, PARCELS), PARCELS)) == parcels


@pytest.mark.spec("QC-096")
def test_time_differences_and_other_strangers_are_refused() -> None:
    for bad in (timedelta(1), {"a": 1}, {1}, 1j):
        with pytest.raises(LiorError):
            written(ANY, bad)
