"""OLE Automation: the numbers of its types, and the values that Python has no type for ([MS-OAUT] 2.2.7 to 2.2.27)."""

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import Enum
from typing import Any, Final, NamedTuple

from lior.errors import InvalidParameter

VT_EMPTY, VT_NULL, VT_I2, VT_I4, VT_R4, VT_R8, VT_CY, VT_DATE, VT_BSTR, VT_DISPATCH = range(10)
VT_ERROR, VT_BOOL, VT_VARIANT, VT_UNKNOWN, VT_DECIMAL = range(10, 15)
VT_I1, VT_UI1, VT_UI2, VT_UI4, VT_I8, VT_UI8, VT_INT, VT_UINT = range(16, 24)
VT_RECORD: Final = 36
VT_ARRAY: Final = 0x2000
VT_BYREF: Final = 0x4000

PARAMETER_NOT_FOUND: Final = 0x80020004  # DISP_E_PARAMNOTFOUND: in a VT_ERROR it marks an argument left out

NAMES: Final = {
    VT_EMPTY: "VT_EMPTY", VT_NULL: "VT_NULL", VT_I2: "VT_I2", VT_I4: "VT_I4", VT_R4: "VT_R4", VT_R8: "VT_R8",
    VT_CY: "VT_CY", VT_DATE: "VT_DATE", VT_BSTR: "VT_BSTR", VT_DISPATCH: "VT_DISPATCH", VT_ERROR: "VT_ERROR",
    VT_BOOL: "VT_BOOL", VT_VARIANT: "VT_VARIANT", VT_UNKNOWN: "VT_UNKNOWN", VT_DECIMAL: "VT_DECIMAL",
    VT_I1: "VT_I1", VT_UI1: "VT_UI1", VT_UI2: "VT_UI2", VT_UI4: "VT_UI4", VT_I8: "VT_I8", VT_UI8: "VT_UI8",
    VT_INT: "VT_INT", VT_UINT: "VT_UINT", VT_RECORD: "VT_RECORD",
}  # fmt: skip


def type_name(vt: int) -> str:
    """VT_ARRAY|VT_I4, or the number of a type that does not exist."""
    flags = [name for bit, name in ((VT_BYREF, "VT_BYREF"), (VT_ARRAY, "VT_ARRAY")) if vt & bit]
    rest = vt & ~(VT_BYREF | VT_ARRAY)
    return "|".join((*flags, NAMES.get(rest, f"0x{rest:04X}")))


class Marker(Enum):
    """Values of a VARIANT that are no data. VT_NULL is None."""

    EMPTY = "empty"  # VT_EMPTY
    MISSING = "missing"  # an optional argument that the caller left out

    def __repr__(self) -> str:
        return self.name


EMPTY: Final = Marker.EMPTY
MISSING: Final = Marker.MISSING


class SCode(int):
    """A status code: VT_ERROR in a VARIANT."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"SCode(0x{self & 0xFFFFFFFF:08X})"


@dataclass(frozen=True, slots=True)
class Variant:
    """A value with its type, as it stands in a VARIANT."""

    vt: int
    value: Any = None

    def __repr__(self) -> str:
        return f"Variant({type_name(self.vt)}, {self.value!r})"


class Bound(NamedTuple):
    """One dimension: how many elements, and the index of the first."""

    length: int
    lower: int = 0


@dataclass(frozen=True, slots=True)
class SafeArray:
    """An array with its type and shape. `elements` are in the order of the wire: the first index runs fastest
    (as COM stores them; the document does not say). `bounds` start with the first dimension."""

    vt: int
    elements: Sequence[Any]
    bounds: tuple[Bound, ...]
    iid: Any = None  # of interface pointers, when the array names their interface

    @classmethod
    def of(cls, vt: int, nested: Sequence[Any], dimensions: int = 1, lower: int = 0) -> "SafeArray":
        """From lists of lists; all of one depth have one length."""
        counts = []
        level: Any = nested
        for depth in range(dimensions):
            if not isinstance(level, list | tuple):
                raise InvalidParameter(f"{dimensions} dimensions, the lists are {depth} deep", where="SAFEARRAY")
            counts.append(len(level))
            level = level[0] if level else []
        flat = _flat(nested, counts)
        return cls(vt, flat, tuple(Bound(count, lower) for count in counts))

    def to_list(self) -> list[Any]:
        """Lists of lists, the first index outermost; the lower bounds are forgotten."""
        if len(self.bounds) == 1:
            return list(self.elements)
        return _nested(self.elements, [bound.length for bound in self.bounds])


def _flat(nested: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    if len(nested) != counts[0]:
        raise InvalidParameter(f"a list of {len(nested)} where the others have {counts[0]}", where="SAFEARRAY")
    if len(counts) == 1:
        return list(nested)
    for inner in nested:
        if not isinstance(inner, list | tuple):
            raise InvalidParameter("a dimension of lists holds something else", where="SAFEARRAY")
    columns = [_flat(inner, counts[1:]) for inner in nested]
    return [column[at] for at in range(len(columns[0]) if columns else 0) for column in columns]


def _nested(flat: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    if len(counts) == 1:
        return list(flat)
    return [_nested(flat[first :: counts[0]], counts[1:]) for first in range(counts[0])]


def indices(bounds: Sequence[Bound]) -> Iterator[tuple[int, ...]]:
    """The indices of the elements in their order on the wire."""
    current = [bound.lower for bound in bounds]
    for _ in range(math.prod(bound.length for bound in bounds)):
        yield tuple(current)
        for dimension, bound in enumerate(bounds):
            current[dimension] += 1
            if current[dimension] < bound.lower + bound.length:
                break
            current[dimension] = bound.lower


# ---- CURRENCY, DATE, DECIMAL ----------------------------------------------------------------------------------------

_EXACT: Final = Context(prec=80, traps=[Inexact, InvalidOperation])
_EPOCH: Final = datetime(1899, 12, 30)  # noqa: DTZ001  # a DATE has no time zone
_FIRST_DATE: Final = datetime(100, 1, 1)  # noqa: DTZ001
_DAY: Final = 86_400_000_000  # microseconds
_MICROSECOND_DAYS: Final = 65536.0  # a double of more days (after 2079) is sure of milliseconds only
_SCALES: Final = 28
_96_BITS: Final = (1 << 96) - 1


def refused(vt: int, what: str, remedy: str = "") -> InvalidParameter:
    return InvalidParameter(what, where=type_name(vt), remedy=remedy)


def currency_to_int(value: Any) -> int:
    """2.2.24: ten-thousandths; more digits are refused, not rounded."""
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise refused(VT_CY, f"a Decimal is wanted, not {type(value).__name__}")
    try:
        number = int(_EXACT.quantize(Decimal(value), Decimal("0.0001")).scaleb(4, _EXACT))
    except (Inexact, InvalidOperation, ValueError, OverflowError):
        raise refused(VT_CY, f"{value} has more than four decimal places or is no number", "quantize it") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise refused(VT_CY, f"{value} is outside +-922337203685477.5807")
    return number


def currency_from_int(number: int) -> Decimal:
    return Decimal(number).scaleb(-4, _EXACT)


def date_to_days(value: Any) -> float:
    """2.2.25: days since 1899-12-30. Before it the sign belongs to the day, the fraction counts forward from its
    midnight."""
    if not isinstance(value, datetime):
        raise refused(VT_DATE, f"a datetime is wanted, not {type(value).__name__}")
    if value.tzinfo is not None:
        raise refused(VT_DATE, "a DATE has no time zone, the datetime has one",
                      "decide whose clock is meant: value.astimezone(zone).replace(tzinfo=None)")
    if value < _FIRST_DATE:
        raise refused(VT_DATE, "a DATE begins with the year 100")
    days, time = divmod((value - _EPOCH) // timedelta(microseconds=1), _DAY)
    number = (days * _DAY + time) / _DAY if days >= 0 else -((-days * _DAY + time) / _DAY)
    if days_to_date(number) != value:
        raise refused(VT_DATE, "a DATE before 1720 or after 2079 has milliseconds, the datetime has microseconds",
                      "drop them: value.replace(microsecond=value.microsecond // 1000 * 1000)")
    return number


def days_to_date(number: float) -> datetime | None:
    """None: no calendar of this protocol has the date."""
    if not math.isfinite(number) or not -657435.0 < number < 2958466.0:
        return None
    days = math.trunc(number)
    time = round(abs(number - days) * _DAY)
    if abs(number) >= _MICROSECOND_DAYS:
        time = round(time / 1000) * 1000
    try:
        return _EPOCH + timedelta(days=days, microseconds=time)
    except OverflowError:
        return None


_DECIMAL: Final = struct.Struct("<HBBIQ")  # wReserved, scale, sign, Hi32, Lo64
DECIMAL_SIZE: Final = _DECIMAL.size


def decimal_to_bytes(value: Any) -> bytes:
    """2.2.26: sign, 96 bits, a scale of up to 28."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        raise refused(VT_DECIMAL, f"a finite Decimal is wanted, not {value!r}"[:200])
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if exponent < -_SCALES or exponent > _SCALES or len(digits) > 60:
        try:  # zeros at the end of the fraction say nothing
            value = _EXACT.quantize(value, Decimal((0, (1,), max(exponent, -_SCALES)))) if exponent < 0 else value
        except (Inexact, InvalidOperation):
            raise refused(VT_DECIMAL, f"{value} has more than 28 decimal places") from None
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
    if exponent > _SCALES:
        raise refused(VT_DECIMAL, f"{value} needs more than 96 bits")
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    if number > _96_BITS:
        raise refused(VT_DECIMAL, f"{value} needs more than 96 bits")
    return _DECIMAL.pack(0, max(-exponent, 0), 0x80 if sign else 0, number >> 64, number & (1 << 64) - 1)


def decimal_from_bytes(data: bytes) -> Decimal | None:
    """None: a scale or sign that does not exist. The reserved field may hold anything."""
    _, scale, sign, high, low = _DECIMAL.unpack(data)
    if scale > _SCALES or sign not in (0, 0x80):
        return None
    number = Decimal(high << 64 | low).scaleb(-scale, _EXACT)
    return number.copy_negate() if sign else number
