"""PROPVARIANT and what it may hold ([MS-MQMQ] 2.2.12 to 2.2.17), in memory and as NDR.

In memory a PropVariant holds plain Python values:

    VT_EMPTY, VT_NULL                    None
    integers                             int
    VT_BOOL                              bool
    VT_LPWSTR, VT_CLSID                  str, UUID; None is a NULL pointer
    VT_BLOB, VT_VECTOR|VT_UI1            bytes
    other vectors                        tuple of the element's form; VT_VECTOR|VT_LPWSTR may hold None
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID

from lior.errors import IllegalPropertyType, IllegalPropertyValue
from lior.wire.ndr import SIZES, NdrReader, NdrWriter, Number

Value: TypeAlias = Any  # which of the forms above depends on vt, which no type checker can follow


class VarEnum(IntEnum):
    """VARENUM ([MS-MQMQ] 2.2.12). It says nothing about MessagePropertiesHeader.BodyType, which is any number."""

    VT_EMPTY = 0
    VT_NULL = 1
    VT_I2 = 2
    VT_I4 = 3
    VT_BOOL = 11
    VT_VARIANT = 12
    VT_I1 = 16
    VT_UI1 = 17
    VT_UI2 = 18
    VT_UI4 = 19
    VT_I8 = 20
    VT_UI8 = 21
    VT_LPWSTR = 31
    VT_BLOB = 65
    VT_CLSID = 72
    VT_VECTOR = 0x1000


VT_EMPTY: Final = 0
VT_NULL: Final = 1
VT_I2: Final = 2
VT_I4: Final = 3
VT_BOOL: Final = 11
VT_VARIANT: Final = 12
VT_I1: Final = 16
VT_UI1: Final = 17
VT_UI2: Final = 18
VT_UI4: Final = 19
VT_I8: Final = 20
VT_UI8: Final = 21
VT_LPWSTR: Final = 31
VT_BLOB: Final = 65
VT_CLSID: Final = 72
VT_VECTOR: Final = 0x1000

VARIANT_TRUE: Final = 0xFFFF  # [MS-MQMQ] 2.2.14; anything but zero is taken as true
VARIANT_FALSE: Final = 0
MAX_DEPTH: Final = 8  # CONNECTION_HISTORY, the deepest property there is, needs 3

RANGES: Final[dict[int, tuple[int, int]]] = {
    VT_I1: (-0x80, 0x7F), VT_UI1: (0, 0xFF),
    VT_I2: (-0x8000, 0x7FFF), VT_UI2: (0, 0xFFFF),
    VT_I4: (-0x80000000, 0x7FFFFFFF), VT_UI4: (0, 0xFFFFFFFF),
    VT_I8: (-0x8000000000000000, 0x7FFFFFFFFFFFFFFF), VT_UI8: (0, 0xFFFFFFFFFFFFFFFF),
}
# CAL is signed in the IDL and "unsigned" in its prose (2.2.16.3): VT_I4 vectors hold times, the IDL is right.
NUMBER_VECTORS: Final[dict[int, tuple[int, Number]]] = {
    VT_VECTOR | VT_UI2: (VT_UI2, "H"), VT_VECTOR | VT_I4: (VT_I4, "i"),
    VT_VECTOR | VT_UI4: (VT_UI4, "I"), VT_VECTOR | VT_UI8: (VT_UI8, "Q"),
}
VECTORS: Final = frozenset(NUMBER_VECTORS) | {
    VT_VECTOR | VT_UI1, VT_VECTOR | VT_CLSID, VT_VECTOR | VT_LPWSTR, VT_VECTOR | VT_VARIANT}
TYPES: Final = frozenset(RANGES) | VECTORS | {VT_EMPTY, VT_NULL, VT_BOOL, VT_LPWSTR, VT_BLOB, VT_CLSID}


@dataclass(frozen=True, slots=True)
class PropVariant:
    """A value with its VARTYPE. `check` says whether the two fit; everything that writes one calls it."""

    vt: int
    value: Value = None

    @property
    def type_name(self) -> str:
        return type_name(self.vt)

    def check(self) -> None:
        """Raises IllegalPropertyType for a VARTYPE without an arm, IllegalPropertyValue for a value of another type."""
        _check(self, 1)


_NAMES: Final[dict[int, str]] = {member.value: member.name for member in VarEnum}
NULL: Final = PropVariant(VT_NULL)
EMPTY: Final = PropVariant(VT_EMPTY)


def type_name(vt: int) -> str:
    """The specification's name of a VARTYPE, as in `VT_VECTOR | VT_UI4`."""
    base = vt & ~VT_VECTOR
    name = _NAMES.get(base, f"0x{base:04X}")
    return f"VT_VECTOR | {name}" if vt & VT_VECTOR else name


def bad_value(variant: PropVariant) -> IllegalPropertyValue:
    return IllegalPropertyValue(f"{type(variant.value).__name__} value does not fit {variant.type_name}",
                                where="PROPVARIANT", remedy="give a value of the property's own type, in its range")


def _check(variant: PropVariant, depth: int) -> None:
    vt, value = variant.vt, variant.value
    if vt not in TYPES:
        raise IllegalPropertyType(f"{variant.type_name} is not a property type", where="PROPVARIANT",
                                  remedy="use one of the types of [MS-MQMQ] 2.2.12")
    if vt in RANGES:
        fits = _is_number(value, RANGES[vt])
    elif vt in VECTORS and vt != VT_VECTOR | VT_UI1:
        fits = isinstance(value, tuple) and _elements_fit(vt, value, depth)
    else:
        fits = _single_fits(vt, value)
    if not fits:
        raise bad_value(variant)


def _single_fits(vt: int, value: Value) -> bool:
    if vt == VT_BOOL:
        return isinstance(value, bool)
    if vt == VT_LPWSTR:
        return value is None or _is_string(value)
    if vt == VT_CLSID:
        return value is None or isinstance(value, UUID)
    if vt in (VT_BLOB, VT_VECTOR | VT_UI1):
        return isinstance(value, bytes)
    return value is None


def _elements_fit(vt: int, values: tuple[object, ...], depth: int) -> bool:
    if vt in NUMBER_VECTORS:
        bounds = RANGES[NUMBER_VECTORS[vt][0]]
        return all(_is_number(value, bounds) for value in values)
    if vt == VT_VECTOR | VT_CLSID:
        return all(isinstance(value, UUID) for value in values)
    if vt == VT_VECTOR | VT_LPWSTR:
        return all(value is None or _is_string(value) for value in values)
    if depth >= MAX_DEPTH:
        raise IllegalPropertyValue(f"variants nested deeper than {MAX_DEPTH}", where="PROPVARIANT")
    for value in values:
        if not isinstance(value, PropVariant):
            return False
        _check(value, depth + 1)
    return True


def _is_number(value: object, bounds: tuple[int, int]) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and bounds[0] <= value <= bounds[1]


def _is_string(value: object) -> bool:
    """A string that a NUL-terminated UTF-16 string can carry."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf-16-le")
    except UnicodeEncodeError:
        return False
    return True


# ---- NDR ----------------------------------------------------------------------------------------------------------
# The IDL union has no ms_union attribute, so its tag is a u16 behind the eight bytes of the header and the arm follows
# at its own alignment. The largest arm aligns to 8, and so does the structure (2.2.13.1).

_HEADERS: Final = {order: struct.Struct(order + "HBBIH") for order in "<>"}  # vt, wReserved1 to 3, union tag
_HEADER: Final = _HEADERS["<"]
_ELEMENT_SIZE: Final = 16  # one element to the next; only the last may end after its tag
Place: TypeAlias = Callable[[PropVariant], None]


def write_propvariant(writer: NdrWriter, variant: PropVariant) -> None:
    """The fixed part of one PROPVARIANT; pointees follow at the writer's next flush."""
    variant.check()
    _write(writer, variant)


def write_propvariants(writer: NdrWriter, variants: Sequence[PropVariant]) -> None:
    """A conformant array of PROPVARIANT with its maximum count and all pointees."""
    for variant in variants:
        variant.check()
    _write_array(writer, variants)


def read_propvariant(reader: NdrReader, place: Place) -> None:
    """One PROPVARIANT; `place` gets it at once or, if it holds a pointer, at the reader's next flush."""
    _read(reader, place, 1)


def read_propvariants(reader: NdrReader, count: int | None) -> tuple[PropVariant, ...]:
    """A conformant array of PROPVARIANT whose size_is value is `count`, if that is known, with all pointees."""
    return _read_array(reader, count, 1)


def _write_array(writer: NdrWriter, variants: Sequence[PropVariant]) -> None:
    writer.u32(len(variants))
    for variant in variants:
        _write(writer, variant)
    writer.flush()


def _read_array(reader: NdrReader, expected: int | None, depth: int) -> tuple[PropVariant, ...]:
    count = reader.conformant(expected, 1)
    if count:
        reader.align(8)
        reader.check_fits(count - 1, _ELEMENT_SIZE)
    variants: list[PropVariant] = [NULL] * count
    for index in range(count):
        _read(reader, partial(variants.__setitem__, index), depth)
    reader.flush()
    return tuple(variants)


def _write(writer: NdrWriter, variant: PropVariant) -> None:
    vt = variant.vt
    writer.align(8)
    writer.raw(_HEADER.pack(vt, 0, 0, 0, vt))
    arm = _ARMS[vt]
    arm[0](writer, variant.value)


def _read(reader: NdrReader, place: Place, depth: int) -> None:
    reader.align(8)
    try:
        vt, _, _, _, tag = _HEADERS[reader.order].unpack_from(reader.data, reader.at)
    except struct.error:
        raise reader.malformed("PROPVARIANT truncated") from None
    if vt != tag:
        raise reader.malformed(f"PROPVARIANT of type 0x{vt:04X} with union tag 0x{tag:04X}")
    arm = _ARMS.get(vt)
    if arm is None:
        raise reader.malformed(f"PROPVARIANT of type 0x{vt:04X}, which has no arm")
    reader.at += _HEADER.size
    arm[1](reader, lambda value: place(PropVariant(vt, value)), depth)


Writing: TypeAlias = Callable[[NdrWriter, Value], None]
Reading: TypeAlias = Callable[[NdrReader, Callable[[Value], None], int], None]


def _nothing(writer: NdrWriter, value: Value) -> None:
    """VT_EMPTY and VT_NULL have no arm: the structure ends behind the tag."""


def _read_nothing(reader: NdrReader, place: Callable[[Value], None], depth: int) -> None:
    place(None)


def _scalar(write: Callable[[NdrWriter, int], None], read: Callable[[NdrReader], int]) -> tuple[Writing, Reading]:
    def writing(writer: NdrWriter, value: Value) -> None:
        write(writer, value)

    def reading(reader: NdrReader, place: Callable[[Value], None], depth: int) -> None:
        place(read(reader))

    return writing, reading


def _write_bool(writer: NdrWriter, value: Value) -> None:
    writer.u16(VARIANT_TRUE if value else VARIANT_FALSE)


def _read_bool(reader: NdrReader, place: Callable[[Value], None], depth: int) -> None:
    place(reader.u16() != VARIANT_FALSE)


def _write_clsid(writer: NdrWriter, value: Value) -> None:
    writer.unique(value, NdrWriter.guid)


def _read_clsid(reader: NdrReader, place: Callable[[Value], None], depth: int) -> None:
    reader.unique(NdrReader.guid, place)


def _write_lpwstr(writer: NdrWriter, value: Value) -> None:
    writer.unique(value, NdrWriter.wide_string)


def _read_lpwstr(reader: NdrReader, place: Callable[[Value], None], depth: int) -> None:
    reader.unique(NdrReader.wide_string, place)


def _counted(empty: bytes | tuple[int, ...], write: Callable[[NdrWriter, Value], None],
             read: Callable[[NdrReader, int, int], Value]) -> tuple[Writing, Reading]:
    """BLOB and the counted arrays: cElems and a pointer to a conformant array of so many elements."""

    def writing(writer: NdrWriter, value: Value) -> None:
        writer.u32(len(value))
        if value:
            writer.referent()
            writer.defer(lambda: write(writer, value))
        else:
            writer.u32(0)

    def reading(reader: NdrReader, place: Callable[[Value], None], depth: int) -> None:
        count = reader.u32()
        if reader.referent():
            reader.defer(lambda: place(read(reader, count, depth)))
        elif count:
            raise reader.malformed(f"NULL array with {count} elements")
        else:
            place(empty)

    return writing, reading


def _write_bytes(writer: NdrWriter, value: Value) -> None:
    writer.u32(len(value))
    writer.raw(value)


def _read_bytes(reader: NdrReader, count: int, depth: int) -> bytes:
    return reader.raw(reader.conformant(count, 1))


def _numbers(code: Number) -> tuple[Writing, Reading]:
    def write(writer: NdrWriter, value: Value) -> None:
        writer.u32(len(value))
        writer.numbers(code, value)

    def read(reader: NdrReader, count: int, depth: int) -> tuple[int, ...]:
        return reader.numbers(code, reader.conformant(count, SIZES[code]))

    return _counted((), write, read)


def _write_clsids(writer: NdrWriter, value: Value) -> None:
    writer.u32(len(value))
    writer.raw(b"".join([guid.bytes_le for guid in value]))


def _read_clsids(reader: NdrReader, count: int, depth: int) -> tuple[UUID, ...]:
    return tuple(reader.guid() for _ in range(reader.conformant(count, 16)))


def _write_strings(writer: NdrWriter, value: Value) -> None:
    writer.u32(len(value))
    for text in value:
        writer.unique(text, NdrWriter.wide_string)
    writer.flush()


def _read_strings(reader: NdrReader, count: int, depth: int) -> tuple[str | None, ...]:
    texts: list[str | None] = [None] * reader.conformant(count, 4)
    for index in range(count):
        reader.unique(NdrReader.wide_string, partial(texts.__setitem__, index))
    reader.flush()
    return tuple(texts)


def _write_variants(writer: NdrWriter, value: Value) -> None:
    _write_array(writer, value)


def _read_variants(reader: NdrReader, count: int, depth: int) -> tuple[PropVariant, ...]:
    if depth >= MAX_DEPTH:
        raise reader.malformed(f"variants nested deeper than {MAX_DEPTH}")
    return _read_array(reader, count, depth + 1)


_ARMS: Final[dict[int, tuple[Writing, Reading]]] = {
    VT_EMPTY: (_nothing, _read_nothing),
    VT_NULL: (_nothing, _read_nothing),
    VT_I1: _scalar(NdrWriter.i8, NdrReader.i8),
    VT_UI1: _scalar(NdrWriter.u8, NdrReader.u8),
    VT_I2: _scalar(NdrWriter.i16, NdrReader.i16),
    VT_UI2: _scalar(NdrWriter.u16, NdrReader.u16),
    VT_I4: _scalar(NdrWriter.i32, NdrReader.i32),
    VT_UI4: _scalar(NdrWriter.u32, NdrReader.u32),
    VT_I8: _scalar(NdrWriter.i64, NdrReader.i64),
    VT_UI8: _scalar(NdrWriter.u64, NdrReader.u64),
    VT_BOOL: (_write_bool, _read_bool),
    VT_CLSID: (_write_clsid, _read_clsid),
    VT_LPWSTR: (_write_lpwstr, _read_lpwstr),
    VT_BLOB: _counted(b"", _write_bytes, _read_bytes),
    VT_VECTOR | VT_UI1: _counted(b"", _write_bytes, _read_bytes),
    VT_VECTOR | VT_CLSID: _counted((), _write_clsids, _read_clsids),
    VT_VECTOR | VT_LPWSTR: _counted((), _write_strings, _read_strings),
    VT_VECTOR | VT_VARIANT: _counted((), _write_variants, _read_variants),
    **{vt: _numbers(code) for vt, (_, code) in NUMBER_VECTORS.items()},
}
