"""SAFEARRAY in NDR ([MS-OAUT] 2.2.30): a pointer to a pointer to a conformant structure, whose elements follow it.

Scalars travel as raw cells of 1, 2, 4 or 8 octets; what they are is in the high word of cLocks. The count of every
array is in the message three times, and all three must agree.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from lior.errors import InvalidParameter
from lior.wire import automation as at
from lior.wire import automation_objects as objects
from lior.wire import automation_types as types
from lior.wire.automation import Bound, SafeArray
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter, Place

SF_ERROR, SF_I1, SF_I2, SF_I4, SF_I8 = 0x0A, 0x10, 0x02, 0x03, 0x14
SF_BSTR, SF_UNKNOWN, SF_DISPATCH, SF_VARIANT, SF_RECORD, SF_HAVEIID = 0x08, 0x0D, 0x09, 0x0C, 0x24, 0x800D

FADF_IGNORED: Final = 0x0001 | 0x0002 | 0x0004 | 0x0010  # AUTO, STATIC, EMBEDDED, FIXEDSIZE
FADF_RECORD, FADF_HAVEIID, FADF_HAVEVARTYPE = 0x0020, 0x0040, 0x0080
FADF_BSTR, FADF_UNKNOWN, FADF_DISPATCH, FADF_VARIANT = 0x0100, 0x0200, 0x0400, 0x0800

_CELLS: Final = {SF_I1: 1, SF_I2: 2, SF_I4: 4, SF_I8: 8}
_SF_OF: Final = {
    at.VT_I1: SF_I1, at.VT_UI1: SF_I1, at.VT_I2: SF_I2, at.VT_UI2: SF_I2, at.VT_BOOL: SF_I2,
    at.VT_ERROR: SF_I4, at.VT_I4: SF_I4, at.VT_UI4: SF_I4, at.VT_R4: SF_I4, at.VT_INT: SF_I4, at.VT_UINT: SF_I4,
    at.VT_I8: SF_I8, at.VT_UI8: SF_I8, at.VT_R8: SF_I8, at.VT_CY: SF_I8, at.VT_DATE: SF_I8,
    at.VT_BSTR: SF_BSTR, at.VT_VARIANT: SF_VARIANT, at.VT_UNKNOWN: SF_UNKNOWN, at.VT_DISPATCH: SF_DISPATCH,
    at.VT_RECORD: SF_RECORD,
}  # fmt: skip
_CODES: Final = {  # scalars whose cells are what Python's struct reads
    at.VT_I1: "b", at.VT_UI1: "B", at.VT_I2: "h", at.VT_UI2: "H", at.VT_I4: "i", at.VT_UI4: "I", at.VT_INT: "i",
    at.VT_UINT: "I", at.VT_R4: "f", at.VT_I8: "q", at.VT_UI8: "Q", at.VT_R8: "d",
}  # fmt: skip
# sfType -> what fFeatures may be, FADF_IGNORED aside (the table in 2.2.30.10)
_FEATURES: Final = {
    SF_BSTR: (FADF_BSTR, FADF_BSTR | FADF_HAVEVARTYPE),
    SF_VARIANT: (FADF_VARIANT, FADF_VARIANT | FADF_HAVEVARTYPE),
    SF_RECORD: (FADF_RECORD,),
    SF_UNKNOWN: (FADF_UNKNOWN, FADF_UNKNOWN | FADF_HAVEVARTYPE, FADF_UNKNOWN | FADF_HAVEIID),
    SF_DISPATCH: (FADF_DISPATCH, FADF_DISPATCH | FADF_HAVEVARTYPE, FADF_DISPATCH | FADF_HAVEIID),
    SF_HAVEIID: (FADF_UNKNOWN | FADF_HAVEIID, FADF_DISPATCH | FADF_HAVEIID),
}
_SCALAR_FEATURES: Final = (0, FADF_HAVEVARTYPE)
_ELEMENT_SIZES: Final = {**_CELLS, SF_BSTR: 4, SF_UNKNOWN: 4, SF_DISPATCH: 4, SF_VARIANT: 16, SF_RECORD: 4,
                         SF_HAVEIID: 4}  # fmt: skip
_INTERFACES: Final = {at.VT_UNKNOWN: FADF_UNKNOWN, at.VT_DISPATCH: FADF_DISPATCH}
_MAX_DIMENSIONS: Final = 60  # COM's own limit
_HEAD: Final = struct.Struct("<HHIII")  # cDims, fFeatures, cbElements, cLocks, sfType

WriteElement = Callable[[AutomationWriter, Any], None]
ReadElement = Callable[[AutomationReader, Place], None]


class SafeArrayType(AutomationType):
    """SAFEARRAY(element). Python values are lists (of lists), a SafeArray, bytes for octets, or None for no array."""

    alignment, size, nullable = 4, 4, True

    def __init__(self, element: AutomationType, *, dimensions: int = 1) -> None:
        if element.vt == at.VT_DECIMAL or element.vt & at.VT_ARRAY or element.vt not in _SF_OF:
            raise InvalidParameter(f"a SAFEARRAY has no elements of {element!r}", where="SAFEARRAY")
        self.element, self.dimensions = element, dimensions
        self.vt = at.VT_ARRAY | element.vt

    def write(self, writer: AutomationWriter, value: Any) -> None:
        if value is None:
            writer.u32(0)
            return
        write_pointer(writer, self.array(value), self.element)

    def array(self, value: Any) -> SafeArray:
        if isinstance(value, SafeArray):
            if value.vt != self.element.vt:
                raise at.refused(self.vt, f"an array of {at.type_name(value.vt)}")
            return value
        if isinstance(value, bytes | bytearray) and self.element.vt == at.VT_UI1:
            return SafeArray(at.VT_UI1, value, (Bound(len(value)),))
        if not isinstance(value, list | tuple):
            raise at.refused(self.vt, f"a list is wanted, not {type(value).__name__}")
        return SafeArray.of(self.element.vt, value, self.dimensions)

    def read(self, reader: AutomationReader, place: Place) -> None:
        def placed(array: SafeArray | None) -> None:
            if array is not None and len(array.bounds) != self.dimensions:
                raise reader.malformed(f"an array of {len(array.bounds)} dimensions, not {self.dimensions}")
            place(None if array is None else self._value(reader, array))

        read_pointer(reader, placed, self.element.vt, self.element)

    def _value(self, reader: AutomationReader, array: SafeArray) -> Any:
        if self.element.vt == at.VT_UI1 and self.dimensions == 1 and isinstance(array.elements, bytes):
            return array.elements
        if isinstance(self.element, types.Enumeration):
            member = self.element.member
            array = SafeArray(array.vt, [member(reader, number) for number in array.elements], array.bounds)
        return array.to_list()

    def __repr__(self) -> str:
        return f"SAFEARRAY({self.element!r})"


# ---- writing --------------------------------------------------------------------------------------------------------


def write_pointer(writer: AutomationWriter, array: SafeArray, element: AutomationType | None = None) -> None:
    """PSAFEARRAY: two referents, the second behind the first one."""
    check(array)
    writer.referent()

    def second() -> None:
        writer.referent()
        writer.defer(lambda: _write_array(writer, array, element))

    writer.defer(second)


def check(array: SafeArray) -> None:
    total = math.prod(bound.length for bound in array.bounds)
    if not 0 < len(array.bounds) <= _MAX_DIMENSIONS or total != len(array.elements):
        raise at.refused(at.VT_ARRAY | array.vt, f"{len(array.elements)} elements in bounds of {total}")
    for bound in array.bounds:
        if not 0 <= bound.length <= 0xFFFFFFFF or not -(1 << 31) <= bound.lower < 1 << 31:
            raise at.refused(at.VT_ARRAY | array.vt, f"bound {bound} does not fit 32 bits")
    if array.vt not in _SF_OF:
        raise at.refused(at.VT_ARRAY | array.vt, "arrays have no such elements")


def _write_array(writer: AutomationWriter, array: SafeArray, element: AutomationType | None) -> None:
    kind = _SF_OF[array.vt]
    features = _FEATURES[kind][0] if kind in _FEATURES else FADF_HAVEVARTYPE
    if array.iid is not None:
        kind, features = SF_HAVEIID, features | FADF_HAVEIID
    count = len(array.elements)
    writer.u32(len(array.bounds))
    locks = array.vt << 16 if features & FADF_HAVEVARTYPE else 0
    writer.data += _HEAD.pack(len(array.bounds), features, _ELEMENT_SIZES[kind], locks, kind)
    writer.u32(1 if kind == SF_RECORD else count)
    writer.referent()
    if array.iid is not None:
        writer.guid(array.iid)
    for bound in reversed(array.bounds):
        writer.u32(bound.length)
        writer.i32(bound.lower)
    if kind in _CELLS:
        writer.defer(lambda: _write_cells(writer, array, _CELLS[kind]))
    elif kind == SF_RECORD:
        writer.defer(lambda: _write_records(writer, array, element))
    else:
        writer.defer(lambda: _write_pointers(writer, array, element or element_type(array.vt)))


def _write_cells(writer: AutomationWriter, array: SafeArray, size: int) -> None:
    elements = array.elements
    writer.u32(len(elements))
    writer.align(size)
    if isinstance(elements, bytes | bytearray) and array.vt == at.VT_UI1:
        writer.raw(bytes(elements))
        return
    code = _CODES.get(array.vt)
    if code is not None and not any(isinstance(element, bool) for element in elements):
        try:
            writer.data += struct.pack(f"<{len(elements)}{code}", *elements)
        except (struct.error, OverflowError):
            pass  # one of them does not fit: find out which
        else:
            return
    element_kind = types.SIMPLE[array.vt]
    for element in elements:
        element_kind.write(writer, element)


def _write_pointers(writer: AutomationWriter, array: SafeArray, kind: AutomationType) -> None:
    """BSTRs, VARIANTs, interface pointers: referents first, what they lead to behind the last."""
    writer.u32(len(array.elements))
    for element in array.elements:
        kind.write(writer, element)


def _write_records(writer: AutomationWriter, array: SafeArray, element: AutomationType | None) -> None:
    from lior.wire.automation_records import write_record_pointer  # records may hold arrays

    writer.u32(1)
    write_record_pointer(writer, array.elements, element)


def element_type(vt: int) -> AutomationType:
    """Of an element whose type is all that is known of it."""
    if vt in types.SIMPLE:
        return types.SIMPLE[vt]
    if vt == at.VT_VARIANT:
        from lior.wire.automation_variants import VARIANT  # a VARIANT may hold an array

        return VARIANT
    return {at.VT_BSTR: types.BSTR, at.VT_UNKNOWN: objects.UNKNOWN, at.VT_DISPATCH: objects.DISPATCH}[vt]


# ---- reading --------------------------------------------------------------------------------------------------------


def read_pointer(
    reader: AutomationReader,
    place: Callable[[SafeArray | None], None],
    vt: int,
    element: AutomationType | None = None,
) -> None:
    """PSAFEARRAY of elements of type `vt`; either pointer may be NULL. `element`: what an interface says of them."""
    if not reader.referent():
        place(None)
        return

    def second() -> None:
        if reader.referent():
            reader.defer(lambda: _read_array(reader, place, vt, element))
        else:
            place(None)

    reader.defer(second)


def _read_array(
    reader: AutomationReader,
    place: Callable[[SafeArray | None], None],
    vt: int,
    element: AutomationType | None,
) -> None:
    maximum = reader.u32()
    reader.align(4)
    dimensions, features, cell, locks, kind = _HEAD.unpack(reader.raw(_HEAD.size))
    if not 0 < dimensions <= _MAX_DIMENSIONS or maximum != dimensions:
        raise reader.malformed(f"an array of {dimensions} and {maximum} dimensions")
    _check_element(reader, vt, (kind, features, cell, locks))
    count = reader.u32()
    pointer = reader.u32()
    iid: UUID | None = reader.guid() if kind == SF_HAVEIID else None
    reader.check_fits(dimensions, 8)
    reverse = [Bound(reader.u32(), reader.i32()) for _ in range(dimensions)]
    bounds = tuple(reversed(reverse))
    total = math.prod(bound.length for bound in bounds)
    if count != (1 if kind == SF_RECORD else total):
        raise reader.malformed(f"an array of {count} elements in bounds of {total}")
    reader.spend(total)
    if kind in _CELLS:
        if not pointer:
            if total:
                raise reader.malformed(f"a NULL pointer to {total} elements")
            place(SafeArray(vt, (), bounds))
            return
        reader.defer(lambda: place(SafeArray(vt, _read_cells(reader, vt, kind, total), bounds)))
    elif kind == SF_RECORD:  # the pointers of all other arms are ref pointers: their octets say nothing
        reader.defer(lambda: _read_records(reader, total, lambda found: place(SafeArray(vt, found, bounds)), element))
    else:
        known = element or element_type(vt)
        reader.defer(lambda: _read_pointers(
            reader, total, known, lambda found: place(SafeArray(vt, found, bounds, iid))))


def _check_element(reader: AutomationReader, vt: int, said: tuple[int, int, int, int]) -> None:
    """The consistency rules of 2.2.30.10; any of them broken is bad stub data. An array that carries no type is one
    of the type that is expected here."""
    kind, features, cell, locks = said
    wanted = features & ~FADF_IGNORED
    if kind not in _ELEMENT_SIZES or cell != _ELEMENT_SIZES[kind]:
        raise reader.malformed(f"array elements of kind 0x{kind:X} and {cell} octets")
    if wanted not in _FEATURES.get(kind, _SCALAR_FEATURES):
        raise reader.malformed(f"array features 0x{features:X} for elements of kind 0x{kind:X}")
    named = locks >> 16
    if named != (vt if wanted & FADF_HAVEVARTYPE else 0):
        raise reader.malformed(f"an array of {at.type_name(named)} where one of {at.type_name(vt)} belongs")
    if kind != _SF_OF[vt] and not (kind == SF_HAVEIID and wanted & _INTERFACES.get(vt, 0)):
        raise reader.malformed(f"an array of {at.type_name(vt)} with elements of kind 0x{kind:X}")


def _read_cells(reader: AutomationReader, vt: int, kind: int, count: int) -> Sequence[Any]:
    size = _CELLS[kind]
    if reader.u32() != count:
        raise reader.malformed(f"array data of another size than {count} elements")
    reader.align(size)
    reader.check_fits(count, size)
    if vt == at.VT_UI1:
        return reader.raw(count)
    code = _CODES.get(vt)
    if code is not None:
        return struct.unpack(f"<{count}{code}", reader.raw(count * size))
    simple = types.SIMPLE[vt]
    return tuple(simple.get(reader) for _ in range(count))


def _read_pointers(
    reader: AutomationReader, count: int, kind: AutomationType, place: Callable[[Sequence[Any]], None]
) -> None:
    if reader.u32() != count:
        raise reader.malformed(f"array data of another size than {count} elements")
    reader.check_fits(count, kind.size)
    found: list[Any] = [None] * count
    for index in range(count):
        kind.read(reader, _into(found, index))
    reader.defer(lambda: place(tuple(found)))


def _into(found: list[Any], index: int) -> Place:
    def place(value: Any) -> None:
        found[index] = value

    return place


def _read_records(reader: AutomationReader, count: int, place: Callable[[Sequence[Any]], None],
                  element: AutomationType | None) -> None:
    from lior.wire.automation_records import read_record_pointer  # records may hold arrays

    def placed(found: Sequence[Any]) -> None:
        if len(found) != count:
            raise reader.malformed(f"{len(found)} records in an array of {count}")
        place(found)

    if reader.u32() != 1:
        raise reader.malformed("an array of records has one pointer")
    read_record_pointer(reader, count, placed, element)
