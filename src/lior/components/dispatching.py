"""Calls in the dispatch form: from Python arguments to an Invocation, and back ([MS-OAUT] 3.1.4.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from lior.components.interface import NONE, Method, Parameter
from lior.errors import InvalidParameter, LiorError
from lior.wire import automation as at
from lior.wire import automation_dispatch as dispatch
from lior.wire.automation import MISSING, Bound, SafeArray, SCode, Variant
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_dispatch import DISPID_PROPERTY_PUT, NOTHING_BACK, DispatchRefused, Invocation
from lior.wire.automation_types import (
    AutomationReader,
    AutomationType,
    AutomationWriter,
    Enumeration,
    Integer,
    Real,
    Scope,
)
from lior.wire.automation_variants import AnyType, VariantType, plain, variant_of

_MISSING: Final = Variant(at.VT_ERROR, SCode(at.PARAMETER_NOT_FOUND))


# ---- recording ------------------------------------------------------------------------------------------------------


def invocation(method: Method, values: Sequence[Any], scope: Scope, lcid: int | None = None) -> Invocation:
    """Every parameter is sent: a default as its value, what may be left out and was as the marker for that."""
    assert method.dispid is not None
    slots: list[Variant] = []
    references: list[tuple[int, Variant]] = []  # by place among the parameters that travel
    locale = dispatch.DEFAULT_LCID if lcid is None else lcid
    for each, value in zip(method.parameters, values, strict=True):
        if each.is_locale:
            locale = value
        elif each.by_reference:
            variant = _variant(each, value, scope)
            references.append((len(slots), Variant(variant.vt | at.VT_BYREF, variant.value)))
            slots.append(Variant(at.VT_EMPTY))
        else:
            slots.append(_variant(each, value, scope))
    last = len(slots) - 1
    named: tuple[int, ...] = ()
    if method.invocation_kind != dispatch.METHOD:
        named = (DISPID_PROPERTY_PUT,)  # the value is the last parameter: rgvarg[0] when all is turned round
    flags = method.invocation_kind | NOTHING_BACK
    return Invocation(method.dispid, flags, tuple(reversed(slots)), named,
                      tuple((last - place, variant) for place, variant in reversed(references)), locale)


def _variant(each: Parameter, value: Any, scope: Scope) -> Variant:
    if each.is_variadic:
        return Variant(at.VT_ARRAY | at.VT_VARIANT, SafeArray(at.VT_VARIANT, value, (Bound(len(value)),)))
    if value is MISSING:
        return _MISSING
    kind = each.kind
    if isinstance(kind, VariantType):
        return value if isinstance(value, Variant) else variant_of(value, scope)
    if isinstance(kind, SafeArrayType):
        return Variant(kind.vt, None if value is None else kind.array(value))
    if isinstance(kind, Enumeration):
        return Variant(at.VT_I4, int(kind.kind(value)))
    return Variant(kind.vt, value)


# ---- playing --------------------------------------------------------------------------------------------------------


def arguments_of(method: Method, call: Invocation, scope: Scope) -> tuple[Any, ...]:
    """One value for each parameter; raises DispatchRefused with the DISP_E that says what is wrong."""
    if call.kind != method.invocation_kind:
        raise _refused(dispatch.MEMBER_NOT_FOUND, f"it is not called with flags 0x{call.flags:X}", method)
    given = _by_place(method, call)
    values: list[Any] = []
    for each in method.parameters:
        if each.is_locale:
            values.append(call.lcid)
        elif each.is_variadic:
            values.append(given.pop(each.name))
        else:
            values.append(_value(method, each, given.pop(each.name, None), scope))
    return tuple(values)


def _by_place(method: Method, call: Invocation) -> dict[str, Any]:
    """What was given, by the name of the parameter."""
    travelling = [each for each in method.parameters if not each.is_locale]
    complete = call.complete()
    named, positional = complete[:len(call.named)], list(reversed(complete[len(call.named):]))
    given: dict[str, Any] = {}
    if travelling and travelling[-1].is_variadic:
        if call.named:
            raise _refused(dispatch.NO_NAMED_ARGUMENTS, "further arguments have no names", method)
        given[travelling.pop().name] = _further(method, positional)
    for number, variant in zip(call.named, named, strict=True):
        put = number == DISPID_PROPERTY_PUT and method.invocation_kind != dispatch.METHOD
        place = len(travelling) - 1 if put else number
        if not 0 <= place < len(travelling) or travelling[place].name in given:
            raise _refused(dispatch.PARAMETER_NOT_FOUND, f"no parameter {number}", method)
        given[travelling[place].name] = variant
    if len(positional) > len(travelling):
        raise _refused(dispatch.BAD_PARAMETER_COUNT, f"{len(complete)} arguments", method)
    for each, variant in zip(travelling, positional, strict=False):
        if each.name in given:
            raise _refused(dispatch.BAD_PARAMETER_COUNT, f"{each.name} twice", method)
        given[each.name] = variant
    return given


def _further(method: Method, positional: list[Variant]) -> tuple[Any, ...]:
    """The last argument is the array of those that the method has no names for."""
    if not positional or positional[-1].vt != at.VT_ARRAY | at.VT_VARIANT or positional[-1].value is None:
        raise _refused(dispatch.BAD_PARAMETER_COUNT, "no array of further arguments", method)
    return tuple(map(plain, positional.pop().value.elements))


def _value(method: Method, each: Parameter, variant: Variant | None, scope: Scope) -> Any:
    if variant is None or plain(variant) is MISSING:
        if each.default is NONE:
            raise _refused(dispatch.PARAMETER_NOT_OPTIONAL, f"{each.name} is missing", method)
        return each.default
    try:
        return coerced(each.kind, variant, scope)
    except DispatchRefused as error:
        raise _refused(error.code, f"{each.name}: {error.what}", method) from None


def coerced(kind: AutomationType, variant: Variant, scope: Scope) -> Any:
    """The value as the parameter's type, converted if it can be (3.1.4.4.4)."""
    if isinstance(kind, AnyType):
        return plain(variant)
    if isinstance(kind, VariantType):
        return variant
    value: Any = variant.value
    if isinstance(value, Variant):
        return coerced(kind, value, scope)
    if isinstance(value, SafeArray) and isinstance(kind, SafeArrayType):
        value = SafeArray(value.vt, tuple(map(plain, value.elements)) if value.vt == at.VT_VARIANT else value.elements,
                          value.bounds)
        if value.vt != kind.element.vt:
            value = SafeArray(kind.element.vt, value.elements, value.bounds)
    elif variant.vt & ~at.VT_BYREF != kind.vt:
        value = _converted(kind, variant)
    return _through(kind, value, scope)


def _converted(kind: AutomationType, variant: Variant) -> Any:
    value = plain(variant)
    convert = _CONVERSIONS.get(kind.vt) if not isinstance(kind, Enumeration) else _whole
    if convert is None or not isinstance(value, bool | int | float | str | Decimal | datetime):
        raise DispatchRefused(dispatch.TYPE_MISMATCH, f"{at.type_name(variant.vt)} is no {kind!r}")
    try:
        return convert(value)
    except OverflowError:
        raise DispatchRefused(dispatch.OVERFLOW, f"{value!r} does not fit {kind!r}"[:200]) from None
    except (ValueError, TypeError, ArithmeticError):
        raise DispatchRefused(dispatch.TYPE_MISMATCH, f"{value!r} is no {kind!r}"[:200]) from None


def _through(kind: AutomationType, value: Any, scope: Scope) -> Any:
    """Written and read: what does not fit is found, what fits has the type's own form."""
    writer = AutomationWriter(scope)
    try:
        kind.write_parameter(writer, value)
        return kind.read_parameter(AutomationReader(writer.to_bytes(), scope))
    except InvalidParameter as error:
        numbers = isinstance(kind, Integer | Real) and isinstance(value, int | float)
        raise DispatchRefused(dispatch.OVERFLOW if numbers else dispatch.TYPE_MISMATCH, error.what) from None
    except LiorError as error:
        raise DispatchRefused(dispatch.TYPE_MISMATCH, error.what) from None


def _whole(value: Any) -> int:
    if isinstance(value, datetime):
        raise TypeError
    if isinstance(value, bool):
        return -1 if value else 0  # VARIANT_TRUE is all ones
    return int(value) if isinstance(value, int | str) else round(value)


def _real(value: Any) -> float:
    if isinstance(value, datetime):
        return at.date_to_days(value)
    return float(-1 if value is True else value)


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.casefold() in ("true", "false"):
        return value.casefold() == "true"
    return _real(value) != 0


def _date(value: Any) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    found = at.days_to_date(_real(value))
    if found is None:
        raise OverflowError
    return found


def _number(value: Any) -> Decimal:
    return Decimal(str(_real(value))) if isinstance(value, float | bool | datetime) else Decimal(value)


_CONVERSIONS: Final[dict[int, Callable[[Any], Any]]] = {
    **dict.fromkeys((at.VT_I1, at.VT_UI1, at.VT_I2, at.VT_UI2, at.VT_I4, at.VT_UI4, at.VT_INT, at.VT_UINT, at.VT_I8,
                     at.VT_UI8, at.VT_ERROR), _whole),
    at.VT_R4: _real, at.VT_R8: _real, at.VT_BSTR: _text, at.VT_BOOL: _truth, at.VT_DATE: _date,
    at.VT_CY: _number, at.VT_DECIMAL: _number,
}  # fmt: skip


def _refused(code: int, what: str, method: Method) -> DispatchRefused:
    return DispatchRefused(code, what, where=method.name)
