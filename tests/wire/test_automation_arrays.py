"""SAFEARRAY in NDR, beside a second hand: [MS-OAUT] 2.2.30."""

# ruff: noqa: DTZ001  # a DATE has no time zone

import struct
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from lior.errors import InvalidParameter
from lior.wire import automation as at
from lior.wire import automation_types as types
from lior.wire.automation import Bound, SafeArray, SCode, indices
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_types import AutomationType, Scope
from lior.wire.automation_variants import ANY
from lior.wire.recorded_call import Limits
from tests.wire.automation_checks import LONGS, laid_down, read, refuses, written
from tests.wire.second_recorded_call import Parameters

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
