"""VARIANT in NDR ([MS-OAUT] 2.2.29): a unique pointer to a structure of eight-octet alignment with a union in it."""

import struct
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from lior.errors import InvalidParameter
from lior.wire import automation as at
from lior.wire import automation_objects as objects
from lior.wire import automation_types as types
from lior.wire.automation import EMPTY, MISSING, SafeArray, SCode, Variant
from lior.wire.automation_arrays import read_pointer, write_pointer
from lior.wire.automation_records import read_record_pointer, write_record_pointer
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter, Place

_HEAD: Final = struct.Struct("<IIHHHHI")  # clSize, rpcReserved, vt, three reserved words, the union's tag
_POINTED: Final = {at.VT_BSTR: types.BSTR, at.VT_UNKNOWN: objects.UNKNOWN, at.VT_DISPATCH: objects.DISPATCH}


def tag_of(vt: int) -> int:
    """The union's discriminant: vt, but for arrays without the type of the elements."""
    return vt & (at.VT_ARRAY | at.VT_BYREF) if vt & at.VT_ARRAY else vt


def is_variant_type(vt: int) -> bool:
    base = vt & ~at.VT_BYREF
    if base & at.VT_ARRAY:
        return is_element_type(base & ~at.VT_ARRAY)
    if vt & at.VT_BYREF and base in (at.VT_EMPTY, at.VT_NULL):
        return False
    if base == at.VT_VARIANT:
        return vt == at.VT_VARIANT | at.VT_BYREF
    return base in (at.VT_EMPTY, at.VT_NULL, at.VT_RECORD) or base in types.SIMPLE or base in _POINTED


def is_element_type(vt: int) -> bool:
    if vt == at.VT_DECIMAL:
        return False
    return vt in types.SIMPLE or vt in _POINTED or vt in (at.VT_VARIANT, at.VT_RECORD)


class VariantType(AutomationType):
    """VARIANT as a parameter or an element. Values are Variants; others get the type that `variant_of` finds."""

    vt, alignment, size, nullable = at.VT_VARIANT, 4, 4, True

    def write(self, writer: AutomationWriter, value: Any) -> None:
        variant = value if isinstance(value, Variant) else variant_of(value, writer.scope)
        if not is_variant_type(variant.vt):
            raise InvalidParameter("no VARIANT has this type", where=at.type_name(variant.vt))
        writer.referent()
        depth = writer.depth + 1
        if depth > writer.scope.limits.variant_depth:
            raise InvalidParameter(f"VARIANTs more than {depth - 1} deep", where="VARIANT")
        writer.defer(lambda: _write_variant(writer, variant, depth))

    def read(self, reader: AutomationReader, place: Place) -> None:
        if not reader.referent():
            raise reader.malformed("a NULL pointer to a VARIANT")
        depth = reader.depth + 1
        if depth > reader.scope.limits.variant_depth:
            raise reader.malformed(f"VARIANTs more than {depth - 1} deep")
        reader.defer(lambda: _read_variant(reader, place, depth))


VARIANT: Final = VariantType()


# ---- writing --------------------------------------------------------------------------------------------------------


def _write_variant(writer: AutomationWriter, variant: Variant, depth: int) -> None:
    writer.align(8)
    start = len(writer.data)
    vt = variant.vt
    writer.data += _HEAD.pack(0, 0, vt, 0, 0, 0, tag_of(vt))
    outer, writer.depth = writer.depth, depth
    if vt & at.VT_BYREF:
        writer.referent()
        writer.defer(lambda: _arm(writer, vt & ~at.VT_BYREF, variant.value))
    else:
        _arm(writer, vt, variant.value)

    def finish() -> None:
        quads = (len(writer.data) - start + 7) // 8
        struct.pack_into("<I", writer.data, start, quads)
        writer.depth = outer

    writer.defer(finish)


def _arm(writer: AutomationWriter, vt: int, value: Any) -> None:
    if vt in (at.VT_EMPTY, at.VT_NULL):
        return
    if vt & at.VT_ARRAY:
        _array_arm(writer, vt & ~at.VT_ARRAY, value)
    elif vt == at.VT_RECORD:
        if value is None:
            writer.u32(0)
        else:
            write_record_pointer(writer, (value,), None)
    elif vt == at.VT_VARIANT:
        VARIANT.write(writer, value)
    else:
        (types.SIMPLE.get(vt) or _POINTED[vt]).write(writer, value)


def _array_arm(writer: AutomationWriter, element: int, value: Any) -> None:
    if value is None:
        writer.u32(0)
        return
    array = value if isinstance(value, SafeArray) else SafeArray.of(element, value)
    if array.vt != element:
        raise at.refused(at.VT_ARRAY | element, f"an array of {at.type_name(array.vt)}")
    write_pointer(writer, array)


def variant_of(value: Any, scope: types.Scope = types.NOTHING) -> Variant:
    """The VARIANT that a Python value becomes when nobody says which."""
    found = _BY_TYPE.get(type(value))
    if found is not None:
        return found(value)
    if isinstance(value, bool):
        return Variant(at.VT_BOOL, value)
    if isinstance(value, int):
        return _integer(int(value))
    for kind, make in _BY_TYPE.items():
        if isinstance(value, kind):
            return make(value)
    if scope.record_of(value) is not None:
        return Variant(at.VT_RECORD, value)
    codec = scope.codec_of(value)
    if codec is not None:
        return Variant(codec.interface, value)
    objects.object_octets(scope, value)  # raises what it says of objects without a by-value form
    raise AssertionError("unreachable")


def _integer(value: int) -> Variant:
    for vt, low, high in ((at.VT_I4, -(1 << 31), 1 << 31), (at.VT_I8, -(1 << 63), 1 << 63), (at.VT_UI8, 0, 1 << 64)):
        if low <= value < high:
            return Variant(vt, value)
    raise at.refused(at.VT_UI8, f"{value} does not fit 64 bits"[:200], "pass a Decimal")


def _marker(value: at.Marker) -> Variant:
    return Variant(at.VT_EMPTY) if value is EMPTY else Variant(at.VT_ERROR, SCode(at.PARAMETER_NOT_FOUND))


def _list(value: Any) -> Variant:
    return Variant(at.VT_ARRAY | at.VT_VARIANT, SafeArray.of(at.VT_VARIANT, value))


def _octets(value: bytes | bytearray) -> Variant:
    return Variant(at.VT_ARRAY | at.VT_UI1, SafeArray(at.VT_UI1, bytes(value), (at.Bound(len(value)),)))


_BY_TYPE: Final[dict[type, Callable[[Any], Variant]]] = {
    at.Marker: _marker,
    type(None): lambda value: Variant(at.VT_NULL),
    bool: lambda value: Variant(at.VT_BOOL, value),
    SCode: lambda value: Variant(at.VT_ERROR, value),
    int: _integer,
    float: lambda value: Variant(at.VT_R8, value),
    str: lambda value: Variant(at.VT_BSTR, value),
    bytes: _octets,
    bytearray: _octets,
    datetime: lambda value: Variant(at.VT_DATE, value),
    Decimal: lambda value: Variant(at.VT_DECIMAL, value),
    list: _list,
    tuple: _list,
    SafeArray: lambda value: Variant(at.VT_ARRAY | value.vt, value),
    Variant: lambda value: value,
}


# ---- reading --------------------------------------------------------------------------------------------------------


def _read_variant(reader: AutomationReader, place: Place, depth: int) -> None:
    reader.align(8)
    _, _, vt, _, _, _, tag = _HEAD.unpack(reader.raw(_HEAD.size))  # never steered by clSize
    if not is_variant_type(vt) or tag != tag_of(vt):
        raise reader.malformed(f"a VARIANT of type 0x{vt:04X} and tag 0x{tag:X}")
    outer, reader.depth = reader.depth, depth

    def placed(value: Any) -> None:
        place(Variant(vt, value))

    if vt & at.VT_BYREF:
        if not reader.referent():
            raise reader.malformed(f"a NULL pointer to {at.type_name(vt & ~at.VT_BYREF)}")
        reader.defer(lambda: _read_arm(reader, vt & ~at.VT_BYREF, placed))
    else:
        _read_arm(reader, vt, placed)

    def finish() -> None:
        reader.depth = outer

    reader.defer(finish)


def _read_arm(reader: AutomationReader, vt: int, place: Place) -> None:
    if vt in (at.VT_EMPTY, at.VT_NULL):
        place(None)
    elif vt & at.VT_ARRAY:
        _read_array_arm(reader, vt & ~at.VT_ARRAY, place)
    elif vt == at.VT_RECORD:
        read_record_pointer(reader, 1, lambda found: place(found[0] if found else None), None)
    elif vt == at.VT_VARIANT:
        VARIANT.read(reader, place)
    else:
        (types.SIMPLE.get(vt) or _POINTED[vt]).read(reader, place)


def _read_array_arm(reader: AutomationReader, element: int, place: Place) -> None:
    read_pointer(reader, place, element)


def plain(variant: Variant) -> Any:
    """A Python value without its type: what a parameter annotated `Any` gets."""
    vt, value = variant.vt, variant.value
    if vt == at.VT_EMPTY:
        return EMPTY
    if vt & ~at.VT_BYREF == at.VT_ERROR and value == at.PARAMETER_NOT_FOUND:
        return MISSING
    if isinstance(value, Variant):
        return plain(value)
    if isinstance(value, SafeArray):
        return plain_array(value)
    return value


def plain_array(array: SafeArray) -> Any:
    if isinstance(array.elements, bytes) and len(array.bounds) == 1:
        return array.elements
    if array.vt == at.VT_VARIANT:
        array = SafeArray(array.vt, tuple(map(plain, array.elements)), array.bounds)
    return array.to_list()


class AnyType(VariantType):
    """A VARIANT whose Python value is plain."""

    def read(self, reader: AutomationReader, place: Place) -> None:
        super().read(reader, lambda variant: place(plain(variant)))


ANY: Final = AnyType()
