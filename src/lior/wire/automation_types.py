"""Automation types in NDR: how one parameter of each type is written and read ([MS-OAUT] 2.2.49.3, [C706] 14).

A type writes the part that stands in place and defers what its pointers lead to; `place` gets the value when it is
complete. Values that do not fit raise InvalidParameter (at the caller's line), octets that do not fit raise Malformed.
SAFEARRAY, VARIANT, records and objects by value are in modules of their own.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from lior.errors import InvalidParameter
from lior.wire import automation as at
from lior.wire.ndr import FIRST_REFERENT, SIZES, NdrReader, NdrWriter
from lior.wire.recorded_call import LIMITS, Limits

Place = Callable[[Any], None]
_F32, _F64 = struct.Struct("<f"), struct.Struct("<d")
_NULL_BSTR: Final = 0xFFFFFFFF  # cBytes of the BSTR that is NULL, not empty


@dataclass(frozen=True)
class ObjectCodec:
    """A class whose objects travel by value (2.2.6.1.5). `load` gets exactly what `dump` made, or raises."""

    class_id: UUID
    kind: type
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]
    interface: int = at.VT_UNKNOWN  # what it is in a VARIANT: VT_UNKNOWN or VT_DISPATCH


@dataclass
class Scope:
    """What a message may name besides methods: records by their GUID, classes of by-value objects by their CLSID."""

    records: dict[UUID, Any] = field(default_factory=dict)
    objects: dict[UUID, ObjectCodec] = field(default_factory=dict)
    limits: Limits = LIMITS

    def codec_of(self, value: Any) -> ObjectCodec | None:
        for codec in self.objects.values():
            if isinstance(value, codec.kind):
                return codec
        return None

    def record_of(self, value: Any) -> Any:
        return next((record for record in self.records.values() if type(value) is record.kind), None)


NOTHING: Final = Scope()


class AutomationWriter(NdrWriter):
    """The parameters of one call. Referent identifiers run on from call to call."""

    __slots__ = ("depth", "scope")

    def __init__(self, scope: Scope = NOTHING, referent: int = FIRST_REFERENT) -> None:
        super().__init__()
        self.referents = referent
        self.scope = scope
        self.depth = 0  # of VARIANTs

    def pair(self, code: str, value: Any) -> None:
        """One number of a struct code, aligned to its size."""
        self.align(struct.calcsize(code))
        self.data += struct.pack("<" + code, value)


@dataclass
class Budget:
    """Elements of arrays that a message may still have."""

    elements: int


class AutomationReader(NdrReader):
    """The parameters of one call. Whatever is behind the last of them is none of its business (2.2.6.1.4)."""

    __slots__ = ("budget", "depth", "scope")

    def __init__(self, data: bytes | memoryview, scope: Scope = NOTHING, budget: Budget | None = None,
                 where: str = "recorded call") -> None:
        super().__init__(data, where=where)
        self.scope = scope
        self.budget = budget or Budget(scope.limits.elements)
        self.depth = 0

    def number(self, form: struct.Struct, size: int) -> Any:
        """One number, aligned to its size."""
        at = (self.at + size - 1) & -size
        try:
            (value,) = form.unpack_from(self.data, at)
        except struct.error:
            raise self.malformed(f"{size} bytes needed, {max(self.remaining, 0)} left") from None
        self.at = at + size
        return value

    def spend(self, elements: int) -> None:
        self.budget.elements -= elements
        if self.budget.elements < 0:
            raise self.malformed("more array elements than a message may have")


class AutomationType(ABC):
    """`vt`: its VARIANT type. `size`: octets in place, the least for types that have no fixed size."""

    vt: int
    alignment: int
    size: int
    extension = False  # not among the types of 2.2.49.3, though VARIANTs have it
    nullable = False  # None is a value of it

    @abstractmethod
    def write(self, writer: AutomationWriter, value: Any) -> None: ...

    @abstractmethod
    def read(self, reader: AutomationReader, place: Place) -> None: ...

    def write_parameter(self, writer: AutomationWriter, value: Any) -> None:
        """As a top-level parameter: what its pointers lead to follows at once."""
        self.write(writer, value)
        writer.flush()

    def read_parameter(self, reader: AutomationReader) -> Any:
        found: list[Any] = []
        self.read(reader, found.append)
        reader.flush()
        return found[0]

    def __repr__(self) -> str:
        return at.type_name(self.vt)


class Simple(AutomationType):
    """A type without pointers: its value is there at once."""

    @abstractmethod
    def get(self, reader: AutomationReader) -> Any: ...

    def read(self, reader: AutomationReader, place: Place) -> None:
        place(self.get(reader))

    def read_parameter(self, reader: AutomationReader) -> Any:
        return self.get(reader)

    def write_parameter(self, writer: AutomationWriter, value: Any) -> None:
        self.write(writer, value)


class Integer(Simple):
    def __init__(self, vt: int, code: str, *, extension: bool = False) -> None:
        self.vt, self.code, self.extension = vt, code, extension
        self.alignment = self.size = SIZES[code]
        self._form = struct.Struct("<" + code)

    def write(self, writer: AutomationWriter, value: Any) -> None:
        if type(value) is not int and (not isinstance(value, int) or isinstance(value, bool)):
            raise at.refused(self.vt, f"an int is wanted, not {type(value).__name__}")
        writer.align(self.size)
        try:
            writer.data += self._form.pack(value)
        except struct.error:
            raise at.refused(self.vt, f"{value} does not fit {8 * self.size} bits"[:200]) from None

    def get(self, reader: AutomationReader) -> int:
        value: int = reader.number(self._form, self.size)
        return value


class StatusCode(Integer):
    """SCODE, HRESULT: 0x8002000E and -2147352562 are the same one."""

    def write(self, writer: AutomationWriter, value: Any) -> None:
        signed = isinstance(value, int) and 1 << 31 <= value < 1 << 32
        super().write(writer, int(value) - (1 << 32) if signed else value)

    def get(self, reader: AutomationReader) -> at.SCode:
        return at.SCode(super().get(reader) & 0xFFFFFFFF)


class Real(Simple):
    def __init__(self, vt: int, code: str) -> None:
        self.vt = vt
        self._form = _F32 if code == "f" else _F64
        self.alignment = self.size = self._form.size

    def write(self, writer: AutomationWriter, value: Any) -> None:
        if type(value) is not float and (not isinstance(value, float | int) or isinstance(value, bool)):
            raise at.refused(self.vt, f"a float is wanted, not {type(value).__name__}")
        writer.align(self.size)
        try:
            writer.data += self._form.pack(value)
        except OverflowError:
            raise at.refused(self.vt, f"{value} does not fit {8 * self.size} bits"[:200]) from None

    def get(self, reader: AutomationReader) -> Any:
        value: int = reader.number(self._form, self.size)
        return value


class Boolean(Simple):
    """VARIANT_BOOL: two octets, all bits or none; whatever is not zero is true."""

    vt, alignment, size = at.VT_BOOL, 2, 2

    def write(self, writer: AutomationWriter, value: Any) -> None:
        if not isinstance(value, bool):
            raise at.refused(self.vt, f"a bool is wanted, not {type(value).__name__}")
        writer.u16(0xFFFF if value else 0)

    def get(self, reader: AutomationReader) -> bool:
        return reader.u16() != 0


class PlainBoolean(Simple):
    """boolean of plain NDR: one octet. Never meant unless an interface says so."""

    vt, alignment, size, extension = at.VT_BOOL, 1, 1, True

    def write(self, writer: AutomationWriter, value: Any) -> None:
        if not isinstance(value, bool):
            raise at.refused(self.vt, f"a bool is wanted, not {type(value).__name__}")
        writer.u8(1 if value else 0)

    def get(self, reader: AutomationReader) -> bool:
        return reader.u8() != 0


class Enumeration(Simple):
    """An enum: 16 bits, or 32 with v1_enum ([C706] 14.2, [MS-RPCE] 2.2.4.6)."""

    vt = at.VT_I4

    def __init__(self, width: int, kind: type[IntEnum]) -> None:
        self.kind = kind
        self.alignment = self.size = width // 8
        highest = 0x7FFF if width == 16 else 0x7FFFFFFF
        for member in kind:
            if not (0 if width == 16 else -0x80000000) <= member <= highest:
                raise InvalidParameter(f"{member!r} does not fit {width} bits", where=kind.__name__)
        self._form = struct.Struct("<H" if width == 16 else "<i")

    def write(self, writer: AutomationWriter, value: Any) -> None:
        try:
            number = int(self.kind(value))
        except ValueError:
            raise at.refused(self.vt, f"{value!r} is no {self.kind.__name__}") from None
        writer.align(self.size)
        writer.data += self._form.pack(number)

    def get(self, reader: AutomationReader) -> IntEnum:
        return self.member(reader, reader.number(self._form, self.size))

    def member(self, reader: AutomationReader, number: int) -> IntEnum:
        try:
            return self.kind(number)
        except ValueError:
            raise reader.malformed(f"{number} is no {self.kind.__name__}") from None


class Currency(Simple):
    vt, alignment, size = at.VT_CY, 8, 8

    def write(self, writer: AutomationWriter, value: Any) -> None:
        writer.i64(at.currency_to_int(value))

    def get(self, reader: AutomationReader) -> Decimal:
        return at.currency_from_int(reader.i64())


class Date(Simple):
    vt, alignment, size = at.VT_DATE, 8, 8

    def write(self, writer: AutomationWriter, value: Any) -> None:
        writer.pair("d", at.date_to_days(value))

    def get(self, reader: AutomationReader) -> datetime:
        date = at.days_to_date(reader.number(_F64, 8))
        if date is None:
            raise reader.malformed("a DATE outside the years 100 to 9999")
        return date


class DecimalNumber(Simple):
    vt, alignment, size = at.VT_DECIMAL, 8, at.DECIMAL_SIZE

    def write(self, writer: AutomationWriter, value: Any) -> None:
        writer.align(8)
        writer.raw(at.decimal_to_bytes(value))

    def get(self, reader: AutomationReader) -> Decimal:
        reader.align(8)
        number = at.decimal_from_bytes(reader.raw(self.size))
        if number is None:
            raise reader.malformed("a DECIMAL with a scale over 28 or an unknown sign")
        return number


class BString(AutomationType):
    """BSTR: text, octets of an odd number, or NULL, which is neither empty nor a NULL pointer (2.2.23)."""

    vt, alignment, size, nullable = at.VT_BSTR, 4, 4, True

    def write(self, writer: AutomationWriter, value: Any) -> None:
        self.check(value)
        writer.referent()
        writer.defer(lambda: self.write_blob(writer, value))

    def write_parameter(self, writer: AutomationWriter, value: Any) -> None:
        self.check(value)
        writer.referent()
        self.write_blob(writer, value)

    def check(self, value: Any) -> None:
        if value is not None and not isinstance(value, str | bytes):
            raise at.refused(self.vt, f"a str is wanted, not {type(value).__name__}")

    @staticmethod
    def write_blob(writer: AutomationWriter, value: str | bytes | None) -> None:
        writer.align(4)
        if value is None:
            writer.data += _BLOB.pack(0, _NULL_BSTR, 0)
            return
        data = value.encode("utf-16-le", "surrogatepass") if isinstance(value, str) else value
        units = (len(data) + 1) // 2
        writer.data += _BLOB.pack(units, len(data), units)
        writer.data += data
        if len(data) % 2:
            writer.data += b"\0"

    def read(self, reader: AutomationReader, place: Place) -> None:
        if reader.referent():
            reader.defer(lambda: place(self.read_blob(reader)))
        else:  # nobody should write it; NULL is what it can only mean
            place(None)

    def read_parameter(self, reader: AutomationReader) -> str | bytes | None:
        return self.read_blob(reader) if reader.referent() else None

    @staticmethod
    def read_blob(reader: AutomationReader) -> str | bytes | None:
        maximum = reader.u32()
        count = reader.u32()
        units = reader.u32()
        if maximum != units or units != (0 if count == _NULL_BSTR else (count + 1) // 2):
            raise reader.malformed(f"BSTR counts {maximum}, {count}, {units}")
        if count == _NULL_BSTR:
            return None
        reader.check_fits(units, 2)
        data = reader.raw(2 * units)
        return data[:count] if count % 2 else data.decode("utf-16-le", "surrogatepass")


_BLOB: Final = struct.Struct("<III")  # maximum count, cBytes, clSize


I1, UI1 = Integer(at.VT_I1, "b"), Integer(at.VT_UI1, "B")
I2, UI2 = Integer(at.VT_I2, "h"), Integer(at.VT_UI2, "H")
I4, UI4 = Integer(at.VT_I4, "i"), Integer(at.VT_UI4, "I")
INT, UINT = Integer(at.VT_INT, "i"), Integer(at.VT_UINT, "I")
I8, UI8 = Integer(at.VT_I8, "q", extension=True), Integer(at.VT_UI8, "Q", extension=True)
ERROR = StatusCode(at.VT_ERROR, "i")
R4, R8 = Real(at.VT_R4, "f"), Real(at.VT_R8, "d")
BOOL, PLAIN_BOOL = Boolean(), PlainBoolean()
CY, DATE, DECIMAL, BSTR = Currency(), Date(), DecimalNumber(), BString()

SIMPLE: Final[Mapping[int, Simple]] = {kind.vt: kind for kind in (
    I1, UI1, I2, UI2, I4, UI4, INT, UINT, I8, UI8, ERROR, R4, R8, BOOL, CY, DATE, DECIMAL)}
