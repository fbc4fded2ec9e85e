"""What an annotation in an interface means on the wire.

    int VT_I4, float VT_R8, bool VT_BOOL, str BSTR, bytes SAFEARRAY(UI1), datetime DATE, list[T] SAFEARRAY(T),
    Any VARIANT as a plain value, Variant one with its type; classes marked with @record and @value_class.

The rest is said with the names below. What has no place in a recorded call is refused when the interface is defined.
"""

from __future__ import annotations

import dataclasses
import inspect
import types as python_types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from lior.errors import InvalidParameter, NotQueueable
from lior.wire import automation_objects as objects
from lior.wire import automation_types as types
from lior.wire.automation import SCode, Variant
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_objects import InterfacePointer
from lior.wire.automation_records import RecordType
from lior.wire.automation_types import AutomationType, ObjectCodec, Scope
from lior.wire.automation_variants import ANY, VARIANT

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)


@dataclass(frozen=True)
class Mark:
    """What an annotation adds to a type."""

    name: str


BY_REFERENCE: Final = Mark("by reference")
LOCALE: Final = Mark("locale")
WIDTH_16: Final = Mark("16 bits")
WIDTH_32: Final = Mark("32 bits")

Char = Annotated[int, types.I1]
Byte = Annotated[int, types.UI1]
Short = Annotated[int, types.I2]
UShort = Annotated[int, types.UI2]
Long = Annotated[int, types.I4]
ULong = Annotated[int, types.UI4]
Int = Annotated[int, types.I4]  # VT_I4 as well: the table of [MS-OAUT] 2.2.49.3
UInt = Annotated[int, types.UI4]
Hyper = Annotated[int, types.I8]
UHyper = Annotated[int, types.UI8]
Single = Annotated[float, types.R4]
Double = Annotated[float, types.R8]
Boolean = Annotated[bool, types.BOOL]
PlainBoolean = Annotated[bool, types.PLAIN_BOOL]
Currency = Annotated[Decimal, types.CY]
Dec = Annotated[Decimal, types.DECIMAL]
Date = Annotated[datetime, types.DATE]
BStr = Annotated[str | bytes | None, types.BSTR]
Object = Annotated[Any, objects.UNKNOWN]  # any object by value
DispatchObject = Annotated[Any, objects.DISPATCH]
Enum16 = Annotated[E, WIDTH_16]
Enum32 = Annotated[E, WIDTH_32]
ByRef = Annotated[T, BY_REFERENCE]  # [in, out], in the dispatch form only
Locale = Annotated[int, LOCALE]  # [lcid]: travels in the call's own field

_PLAIN: Final[dict[Any, AutomationType]] = {
    int: types.I4, float: types.R8, bool: types.BOOL, str: types.BSTR, datetime: types.DATE, SCode: types.ERROR,
    Any: ANY, Variant: VARIANT, bytes: SafeArrayType(types.UI1),
}  # fmt: skip
_RECORD, _VALUE = "__component_record__", "__component_value__"


def split(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type and what is said of it."""
    if get_origin(annotation) is Annotated:
        base, *marks = get_args(annotation)
        inner, more = split(base)
        return inner, (*more, *marks)
    return annotation, ()


def type_of(annotation: Any, where: str) -> AutomationType:
    base, marks = split(annotation)
    for mark in marks:
        if isinstance(mark, AutomationType):
            return mark
        if mark in (WIDTH_16, WIDTH_32):
            return _enumeration(base, 16 if mark is WIDTH_16 else 32, where)
    if marks and not all(isinstance(mark, Mark) for mark in marks):
        raise _refused(f"{marks!r} is no type of a recorded call", where)
    return _unmarked(base, where)


def _unmarked(base: Any, where: str) -> AutomationType:
    if get_origin(base) in (Union, python_types.UnionType):
        return _optional(base, where)
    if get_origin(base) is list:
        return _array(base, where)
    if isinstance(base, type):
        for name in (_RECORD, _VALUE):
            if name in base.__dict__:
                found = base.__dict__[name]
                return found if isinstance(found, RecordType) else InterfacePointer(found.interface, base)
        if issubclass(base, IntEnum):
            raise _refused(f"{base.__name__} has no width", where, f"write Enum16[{base.__name__}] or Enum32[...]")
    if base is Decimal:
        raise _refused("a Decimal has two forms", where, "write Currency or Dec")
    found_plain = _PLAIN.get(base) if _hashable(base) else None
    if found_plain is None:
        raise _refused(f"{_name(base)} is no type of a recorded call", where,
                       "use the types of lior.components, or mark the class with @record or @value_class")
    return found_plain


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _optional(base: Any, where: str) -> AutomationType:
    rest = [each for each in get_args(base) if each is not type(None)]
    if set(rest) == {str, bytes}:
        return types.BSTR
    if len(rest) != 1 or len(rest) == len(get_args(base)):
        raise _refused(f"{base} may be several things", where, "write Any for a VARIANT")
    found = type_of(rest[0], where)
    if not found.nullable:
        raise _refused(f"{_name(rest[0])} has no value for None", where, "write Any for a VARIANT")
    return found


def _array(base: Any, where: str) -> AutomationType:
    (element,) = get_args(base) or (Any,)
    dimensions = 1
    while get_origin(split(element)[0]) is list:
        (element,) = get_args(split(element)[0])
        dimensions += 1
    try:
        return SafeArrayType(type_of(element, where), dimensions=dimensions)
    except InvalidParameter as error:
        raise _refused(error.what, where) from None


def _enumeration(base: Any, width: int, where: str) -> AutomationType:
    if not (isinstance(base, type) and issubclass(base, IntEnum)):
        raise _refused(f"{_name(base)} is no IntEnum", where)
    try:
        return types.Enumeration(width, base)
    except InvalidParameter as error:
        raise _refused(error.what, where) from None


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _refused(what: str, where: str, remedy: str = "") -> NotQueueable:
    return NotQueueable(what, where=where, remedy=remedy)


def guid(value: str | UUID, where: str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError):
        raise _refused(f"{value!r} is no GUID", where) from None


def hints(thing: Any, where: str, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Its annotations, even if they are strings; `names` are those of the function it is defined in."""
    try:
        return get_type_hints(thing, localns=dict(names) if names else None, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise _refused(f"its annotations do not evaluate: {error}", where) from None


def caller_names(depth: int = 2) -> Mapping[str, Any]:
    """The local names where a decorator is used."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None else None
    return {} if frame is None else frame.f_locals


# ---- classes that travel --------------------------------------------------------------------------------------------


def record(
    identifier: str | UUID, *, library: str | UUID | None = None, version: tuple[int, int] = (1, 0), lcid: int = 0
) -> Callable[[type[T]], type[T]]:
    """A dataclass as a user-defined type: `identifier` is its GUID, its fields are the members in order."""
    names = caller_names()

    def mark(cls: type[T]) -> type[T]:
        where = cls.__name__
        if not dataclasses.is_dataclass(cls):
            raise _refused("a record is a dataclass", where, "put @record above @dataclass")
        found = hints(cls, where, names)
        members = [(each.name, type_of(found[each.name], f"{where}.{each.name}")) for each in dataclasses.fields(cls)]
        for name, kind in members:
            if isinstance(kind, InterfacePointer):
                raise _refused("a record holds no objects", f"{where}.{name}")
        try:
            known = RecordType(cls, guid(identifier, where), members, version=version, lcid=lcid,
                               library=None if library is None else guid(library, where))
        except InvalidParameter as error:
            raise _refused(error.what, where) from None
        setattr(cls, _RECORD, known)
        return cls

    return mark


def value_class(
    class_id: str | UUID,
    *,
    dump: Callable[[Any], bytes] | None = None,
    load: Callable[[bytes], Any] | None = None,
    dispatch: bool = False,
) -> Callable[[type[T]], type[T]]:
    """A class whose objects travel by value: `dump` makes their octets (else its method `dump`), `load` makes an object
    of them (else its class method `load`). What comes from a message goes into `load`: let it check everything."""

    def mark(cls: type[T]) -> type[T]:
        dumper, loader = dump or getattr(cls, "dump", None), load or getattr(cls, "load", None)
        if not callable(dumper) or not callable(loader):
            raise _refused("no dump and load", cls.__name__, "define both, or pass them to @value_class")
        vt = objects.DISPATCH.vt if dispatch else objects.UNKNOWN.vt
        setattr(cls, _VALUE, ObjectCodec(guid(class_id, cls.__name__), cls, dumper, loader, vt))
        return cls

    return mark


class OpenScope(Scope):
    """For writing: every class that is marked may be written."""

    def codec_of(self, value: Any) -> ObjectCodec | None:
        found = getattr(type(value), _VALUE, None)
        return found if isinstance(found, ObjectCodec) and type(value) is found.kind else None

    def record_of(self, value: Any) -> RecordType | None:
        found = type(value).__dict__.get(_RECORD)
        return found if isinstance(found, RecordType) else None


def scope_of(kinds: Iterable[AutomationType], classes: Iterable[type] = (), **options: Any) -> Scope:
    """For reading: what these types can lead to and these classes, and nothing else."""
    scope = Scope(**options)
    for kind in kinds:
        _collect(kind, scope)
    for cls in classes:
        _collect(type_of(cls, cls.__name__), scope)
    return scope


def _collect(kind: AutomationType, scope: Scope) -> None:
    if isinstance(kind, SafeArrayType):
        _collect(kind.element, scope)
    elif isinstance(kind, RecordType):
        scope.records[kind.guid] = kind
        for _, member in kind.members:
            _collect(member, scope)
    elif isinstance(kind, InterfacePointer) and kind.kind is not None:
        codec: ObjectCodec = kind.kind.__dict__[_VALUE]
        scope.objects[codec.class_id] = codec
