"""VARIANT in NDR, with the records and objects in it, beside a second hand: [MS-OAUT] 2.2.29, 2.2.28."""

# ruff: noqa: DTZ001  # a DATE has no time zone

import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lior.errors import InvalidParameter, LiorError, NotPersistable
from lior.wire import automation as at
from lior.wire import automation_objects as objects
from lior.wire import automation_types as types
from lior.wire.automation import EMPTY, MISSING, Bound, SafeArray, SCode, Variant
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_records import RECORD_INFO, RecordType
from lior.wire.automation_types import AutomationReader, AutomationWriter, ObjectCodec, Scope
from lior.wire.automation_variants import ANY, VARIANT, plain, variant_of
from tests.wire.automation_checks import laid_down, read, refuses, written
from tests.wire.recorded_call_vectors import PARCEL, PARCEL_ID, E, F
from tests.wire.second_recorded_call import Data, headers, object_reference

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
