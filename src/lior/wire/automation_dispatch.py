"""The dispatch form: the [in] parameters of IDispatch::Invoke, opnum 6 ([MS-OAUT] 3.1.4.4, [MC-COMQC] 2.2.6.1.2).

Arguments stand in reverse: named ones first, then positional ones, the first of them last. What is passed by
reference stands in an array of its own and leaves an empty slot behind.
"""

from typing import Any, Final, NamedTuple
from uuid import UUID

from lior.errors import InvalidParameter, LiorError
from lior.message import NULL_GUID
from lior.wire import automation as at
from lior.wire.automation import Variant
from lior.wire.automation_types import AutomationReader, AutomationWriter
from lior.wire.automation_variants import VARIANT

IID_IDISPATCH: Final = UUID("00020400-0000-0000-C000-000000000046")
INVOKE: Final = 6  # opnum; 3 to 5 answer something and are never recorded

METHOD, PROPERTY_GET, PROPERTY_PUT, PROPERTY_PUT_REFERENCE = 1, 2, 4, 8
KINDS: Final = frozenset({METHOD, PROPERTY_GET, PROPERTY_PUT, PROPERTY_PUT_REFERENCE})
NO_RESULT, NO_EXCEPTION, NO_ARGUMENT_ERROR = 0x20000, 0x40000, 0x80000
NOTHING_BACK: Final = NO_RESULT | NO_EXCEPTION | NO_ARGUMENT_ERROR  # a recorder has no use for any of them
DISPID_PROPERTY_PUT: Final = -3
DEFAULT_LCID: Final = 0x0409

UNKNOWN_INTERFACE, MEMBER_NOT_FOUND, PARAMETER_NOT_FOUND = 0x80020001, 0x80020003, 0x80020004
TYPE_MISMATCH, NO_NAMED_ARGUMENTS, BAD_VARIABLE_TYPE = 0x80020005, 0x80020007, 0x80020008
OVERFLOW, BAD_PARAMETER_COUNT, PARAMETER_NOT_OPTIONAL = 0x8002000A, 0x8002000E, 0x8002000F
_SYMBOLS: Final = {
    UNKNOWN_INTERFACE: "DISP_E_UNKNOWNINTERFACE", MEMBER_NOT_FOUND: "DISP_E_MEMBERNOTFOUND",
    PARAMETER_NOT_FOUND: "DISP_E_PARAMNOTFOUND", TYPE_MISMATCH: "DISP_E_TYPEMISMATCH",
    NO_NAMED_ARGUMENTS: "DISP_E_NONAMEDARGS", BAD_VARIABLE_TYPE: "DISP_E_BADVARTYPE", OVERFLOW: "DISP_E_OVERFLOW",
    BAD_PARAMETER_COUNT: "DISP_E_BADPARAMCOUNT", PARAMETER_NOT_OPTIONAL: "DISP_E_PARAMNOTOPTIONAL",
}  # fmt: skip


class DispatchRefused(LiorError):
    """Arguments that a member does not take; its code is the DISP_E of 3.1.4.4."""

    def __init__(self, code: int, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.code = code

    @property
    def symbol(self) -> str:
        return _SYMBOLS.get(self.code, super().symbol)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.code, self.what, self.where, self.remedy)


def _rebuild(code: int, what: str, where: str, remedy: str) -> DispatchRefused:
    return DispatchRefused(code, what, where=where, remedy=remedy)


class Invocation(NamedTuple):
    """One call. `arguments` is rgvarg as it stands; `references` fill its empty slots, by index."""

    dispid: int
    flags: int = METHOD | NOTHING_BACK
    arguments: tuple[Variant, ...] = ()
    named: tuple[int, ...] = ()
    references: tuple[tuple[int, Variant], ...] = ()
    lcid: int = DEFAULT_LCID

    @property
    def kind(self) -> int:
        return self.flags & 0xF

    def complete(self) -> tuple[Variant, ...]:
        """rgvarg with the references in their slots."""
        found = list(self.arguments)
        for index, variant in self.references:
            found[index] = variant
        return tuple(found)


def write_invocation(writer: AutomationWriter, invocation: Invocation) -> None:
    arguments, named = invocation.arguments, invocation.named
    if len(named) > len(arguments):
        raise InvalidParameter(f"{len(named)} names for {len(arguments)} arguments", where="IDispatch::Invoke")
    writer.i32(invocation.dispid)
    writer.guid(NULL_GUID)
    writer.u32(invocation.lcid)
    writer.u32(invocation.flags)
    for array in (arguments, named):
        if array:
            writer.referent()
        else:
            writer.u32(0)
    writer.u32(len(arguments))
    writer.u32(len(named))
    if arguments:
        writer.defer(lambda: _write_variants(writer, arguments))
    if named:
        writer.defer(lambda: _write_names(writer, named))
    writer.flush()
    references = invocation.references
    writer.u32(len(references))
    writer.u32(len(references))
    writer.numbers("I", [index for index, _ in references])
    _write_variants(writer, tuple(variant for _, variant in references))
    writer.flush()


def _write_variants(writer: AutomationWriter, variants: tuple[Variant, ...]) -> None:
    writer.u32(len(variants))
    for variant in variants:
        VARIANT.write(writer, variant)


def _write_names(writer: AutomationWriter, named: tuple[int, ...]) -> None:
    writer.u32(len(named))
    writer.numbers("i", named)


def read_invocation(reader: AutomationReader) -> Invocation:
    dispid = reader.i32()
    riid = reader.guid()
    lcid, flags = reader.u32(), reader.u32()
    if riid != NULL_GUID:
        raise reader.malformed(f"interface {riid} where none belongs")
    if flags & ~NOTHING_BACK not in KINDS:
        raise reader.malformed(f"invocation flags 0x{flags:X}")
    has_arguments, has_names = reader.referent(), reader.referent()
    count, names = reader.u32(), reader.u32()
    if names > count or (count and not has_arguments) or (names and not has_names):
        raise reader.malformed(f"{names} names for {count} arguments")
    arguments: list[Variant] = []
    named: list[int] = []
    if has_arguments:
        reader.defer(lambda: _read_variants(reader, count, arguments))
    if has_names:
        reader.defer(lambda: named.extend(reader.numbers("i", reader.conformant(names, 4))))
    reader.flush()
    if any(argument.vt & at.VT_BYREF for argument in arguments):
        raise reader.malformed("an argument by reference among those by value")
    references = _read_references(reader, arguments)
    invocation = Invocation(dispid, flags, tuple(arguments), tuple(named), references, lcid)
    if invocation.kind in (PROPERTY_PUT, PROPERTY_PUT_REFERENCE) and invocation.named != (DISPID_PROPERTY_PUT,):
        raise reader.malformed(f"a property is put with names {list(named)}")
    return invocation


def _read_variants(reader: AutomationReader, count: int, found: list[Variant]) -> None:
    reader.conformant(count, 4)
    reader.spend(count)
    found.extend([Variant(at.VT_EMPTY)] * count)

    def into(index: int) -> Any:
        def place(variant: Variant) -> None:
            found[index] = variant

        return place

    for index in range(count):
        VARIANT.read(reader, into(index))


def _read_references(reader: AutomationReader, arguments: list[Variant]) -> tuple[tuple[int, Variant], ...]:
    count = reader.u32()
    places = reader.numbers("I", reader.conformant(count, 4))
    if len(set(places)) != count or any(place >= len(arguments) for place in places):
        raise reader.malformed(f"references to arguments {list(places)[:20]} of {len(arguments)}")
    if any(arguments[place].vt != at.VT_EMPTY for place in places):
        raise reader.malformed("a reference to an argument that is there")
    variants: list[Variant] = []
    _read_variants(reader, count, variants)
    reader.flush()
    if any(not variant.vt & at.VT_BYREF for variant in variants):
        raise reader.malformed("a value where a reference belongs")
    return tuple(zip(places, variants, strict=True))
