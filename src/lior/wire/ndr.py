"""NDR transfer syntax ([C706] chapter 14, [MS-RPCE] 2.2.4) and NDR64 ([MS-RPCE] 2.2.5): strict writers and readers.

Alignment counts from the first byte of the stub, so a writer or a reader holds exactly one stub. A pointer inside a
structure, union or array writes its referent in place and its pointee later: `unique` and `defer` queue the pointee,
`flush` runs the queue. A pointee that holds pointers itself is finished before the next one starts, so the one who
writes or reads a construction calls `flush` after its last member.

What is written is little endian. `BigEndianNdrReader` reads what a peer of the other kind wrote; `Ndr64Writer` and
`Ndr64Reader` have counts and pointers of eight bytes, and unions and structures aligned to their largest member.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final, Literal, TypeVar
from uuid import UUID

from lior.errors import InvalidParameter, Malformed

T = TypeVar("T")
Number = Literal["b", "B", "h", "H", "i", "I", "q", "Q"]  # struct codes; each aligns to its own size
SIZES: Final[dict[str, int]] = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8}
FIRST_REFERENT: Final = 0x00020000  # any non-zero value does; Windows starts here and counts in fours
MAX_COUNT: Final = 0x7FFFFFFF  # [MS-RPCE] 3.1.1.5.3.2.2.1
BULK: Final = 4096  # an array from here on is not copied into the writer's buffer

_U8, _U16, _U32, _U64 = (struct.Struct(code) for code in ("<B", "<H", "<I", "<Q"))
_I8, _I16, _I32, _I64 = (struct.Struct(code) for code in ("<b", "<h", "<i", "<q"))
_COUNTS: Final = struct.Struct("<III")  # maximum count, offset, actual count
_WIDE_COUNTS: Final = struct.Struct("<QQQ")
PADDING: Final = (b"", b"\0", b"\0" * 2, b"\0" * 3, b"\0" * 4, b"\0" * 5, b"\0" * 6, b"\0" * 7)


class Null(Enum):
    """A pointer that points to a NULL pointer; None is a pointer that is NULL itself."""

    NULL = 0

    def __bool__(self) -> bool:
        return False


NULL: Final = Null.NULL


class NdrWriter:
    """Builds one stub. Values must be in range: whoever builds a request checks what a user gave."""

    __slots__ = ("_deferred", "_parts", "data", "referents")
    wide: ClassVar[bool] = False  # counts and pointers of eight bytes

    def __init__(self) -> None:
        self.data = bytearray()  # its length tells the alignment: what is in _parts is a multiple of eight
        self._parts: list[bytes | bytearray | memoryview] = []
        self.referents = FIRST_REFERENT  # the next one
        self._deferred: list[Callable[[], None]] = []

    def to_bytes(self) -> bytes:
        return b"".join(self.to_parts()) if self._parts or self._deferred else bytes(self.data)

    def to_parts(self) -> list[bytes | bytearray | memoryview]:
        """The stub in pieces, large arrays as they were given."""
        return [*self._parts, self._whole()]

    def _whole(self) -> bytearray:
        if self._deferred:
            raise AssertionError("pointees wait to be written: call flush")
        return self.data

    def align(self, boundary: int) -> None:
        self.data += PADDING[-len(self.data) & (boundary - 1)]

    def u8(self, value: int) -> None:
        self.data += _U8.pack(value)

    def i8(self, value: int) -> None:
        self.data += _I8.pack(value)

    def u16(self, value: int) -> None:
        self.align(2)
        self.data += _U16.pack(value)

    def i16(self, value: int) -> None:
        self.align(2)
        self.data += _I16.pack(value)

    def u32(self, value: int) -> None:
        self.align(4)
        self.data += _U32.pack(value)

    def i32(self, value: int) -> None:
        self.align(4)
        self.data += _I32.pack(value)

    def u64(self, value: int) -> None:
        self.align(8)
        self.data += _U64.pack(value)

    def i64(self, value: int) -> None:
        self.align(8)
        self.data += _I64.pack(value)

    def guid(self, value: UUID) -> None:
        self.align(4)
        self.data += value.bytes_le

    def raw(self, value: bytes | bytearray | memoryview) -> None:
        """Bytes as they are: a byte array of known length, or something already marshalled."""
        if len(value) < BULK:
            self.data += value
            return
        view = memoryview(value)
        end = len(view) - ((len(self.data) + len(view)) & 7)
        self._parts += (self.data, view[:end])
        self.data = bytearray(view[end:])

    def numbers(self, code: Number, values: Sequence[int]) -> None:
        """The elements of an array of one primitive type, without its counts."""
        self.align(SIZES[code])
        self.data += struct.pack(f"<{len(values)}{code}", *values)

    def wide_string(self, value: str) -> None:
        """A conformant-varying [string] wchar_t array with its terminator."""
        try:
            units = value.encode("utf-16-le") + b"\0\0"
        except UnicodeEncodeError:
            raise InvalidParameter("text is not UTF-16", where=repr(value)[:200]) from None
        if "\0" in value:
            raise InvalidParameter("text with a NUL inside", where=repr(value)[:200])
        self.counts(len(units) // 2, len(units) // 2)
        self.data += units

    def count(self, value: int) -> None:
        """The maximum count of a conformant array."""
        self.u32(value)

    def counts(self, maximum: int, actual: int) -> None:
        """The counts of a conformant varying array that starts at its first element."""
        self.align(4)
        self.data += _COUNTS.pack(maximum, 0, actual)

    def unique(self, value: T | None, write: Callable[["NdrWriter", T], None]) -> None:
        """An embedded unique pointer; the pointee follows at the next flush."""
        if value is None:
            self.null()
            return
        pointee = value
        self.referent()
        self._deferred.append(lambda: write(self, pointee))

    def referent(self) -> None:
        """The identifier of a pointer that is not NULL."""
        self.u32(self.next_referent())

    def null(self) -> None:
        """A NULL pointer."""
        self.u32(0)

    def next_referent(self) -> int:
        referent = self.referents
        self.referents = referent + 4
        return referent

    def defer(self, action: Callable[[], None]) -> None:
        self._deferred.append(action)

    def flush(self) -> None:
        pending, self._deferred = self._deferred, []
        for action in pending:
            action()
            if self._deferred:
                self.flush()


class NdrReader:
    """Reads one stub. Whatever is truncated or inconsistent raises Malformed before anything is allocated for it."""

    __slots__ = ("_deferred", "at", "data", "where")
    wide: ClassVar[bool] = False
    order: ClassVar[Literal["<", ">"]] = "<"
    forms: ClassVar[dict[str, struct.Struct]] = {code: struct.Struct(f"<{code}") for code in SIZES}
    count_forms: ClassVar[tuple[struct.Struct, struct.Struct]] = (_U32, _COUNTS)

    def __init__(self, data: bytes | memoryview, at: int = 0, where: str = "NDR stub") -> None:
        self.data = data
        self.at = at
        self.where = where
        self._deferred: list[Callable[[], None]] = []

    @property
    def remaining(self) -> int:
        return len(self.data) - self.at

    def malformed(self, what: str) -> Malformed:
        return Malformed(f"{what} at offset {self.at}", where=self.where, remedy="the peer sent a broken request")

    def _truncated(self, need: int) -> Malformed:
        return self.malformed(f"{need} bytes needed, {max(self.remaining, 0)} left")

    def align(self, boundary: int) -> None:
        self.at = (self.at + boundary - 1) & -boundary

    def u8(self) -> int:
        return self._number("B", 1)

    def i8(self) -> int:
        return self._number("b", 1)

    def u16(self) -> int:
        return self._number("H", 2)

    def i16(self) -> int:
        return self._number("h", 2)

    def u32(self) -> int:
        return self._number("I", 4)

    def i32(self) -> int:
        return self._number("i", 4)

    def u64(self) -> int:
        return self._number("Q", 8)

    def i64(self) -> int:
        return self._number("q", 8)

    def _number(self, code: Number, size: int) -> int:
        at = (self.at + size - 1) & -size
        try:
            value: int = self.forms[code].unpack_from(self.data, at)[0]
        except struct.error:
            raise self._truncated(size) from None
        self.at = at + size
        return value

    def guid(self) -> UUID:
        self.align(4)
        return UUID(bytes_le=self.raw(16))

    def raw(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise self._truncated(count)
        value = bytes(self.data[self.at:end])
        self.at = end
        return value

    def numbers(self, code: Number, count: int) -> tuple[int, ...]:
        """The elements of an array of one primitive type whose count is already known."""
        size = SIZES[code]
        self.align(size)
        self.check_fits(count, size)
        values = struct.unpack_from(f"{self.order}{count}{code}", self.data, self.at)
        self.at += count * size
        return values

    def check_fits(self, count: int, size: int) -> None:
        """Refuses `count` elements of at least `size` bytes that cannot be in the rest of the stub."""
        if count > MAX_COUNT or count * size > self.remaining:
            raise self.malformed(f"{count} elements of {size} bytes do not fit in the {max(self.remaining, 0)} left")

    def conformant(self, expected: int | None, size: int) -> int:
        """The maximum count of a conformant array, which must equal its size_is value where that is known."""
        count = self._counts(0)[0]
        if expected is not None and count != expected:
            raise self.malformed(f"array of {count} elements where {expected} were announced")
        self.check_fits(count, size)
        return count

    def conformant_varying(self, expected: int | None, size: int, actual: int | None = None) -> int:
        """The actual count of a [size_is, length_is] array: never above the maximum, and the offset is zero."""
        maximum, offset, count = self._counts(1)
        if offset or count > maximum:
            raise self.malformed(f"array counts {maximum}, {offset}, {count}")
        if (expected is not None and maximum != expected) or (actual is not None and count != actual):
            raise self.malformed(f"array counts {maximum}, {count} where {expected}, {actual} were announced")
        self.check_fits(count, size)
        return count

    def wide_string(self) -> str:
        """A conformant-varying [string] wchar_t array. One terminator, at its end; a name has none inside."""
        maximum, offset, count = self._counts(1)
        if offset or not 0 < count <= maximum:
            raise self.malformed(f"string counts {maximum}, {offset}, {count}")
        self.check_fits(count, 2)
        try:
            text = self.raw(2 * count).decode("utf-16-le" if self.order == "<" else "utf-16-be")
        except UnicodeDecodeError:
            raise self.malformed("string is not UTF-16") from None
        if text.find("\0") != len(text) - 1:
            raise self.malformed("string without a single terminator at its end")
        return text[:-1]

    def _counts(self, varying: int) -> tuple[int, ...]:
        form = self.count_forms[varying]
        self.align(8 if self.wide else 4)
        try:
            counts = form.unpack_from(self.data, self.at)
        except struct.error:
            raise self._truncated(form.size) from None
        self.at += form.size
        return counts

    def referent(self) -> bool:
        """A pointer's place in its construction; True if a pointee follows."""
        return self.u32() != 0

    def unique(self, read: Callable[["NdrReader"], T], place: Callable[[T | None], None]) -> None:
        """An embedded unique pointer: `place` gets None now, or the pointee at the next flush."""
        if self.referent():
            self._deferred.append(lambda: place(read(self)))
        else:
            place(None)

    def defer(self, action: Callable[[], None]) -> None:
        self._deferred.append(action)

    def flush(self) -> None:
        pending, self._deferred = self._deferred, []
        for action in pending:
            action()
            if self._deferred:
                self.flush()

    def end(self) -> None:
        """Refuses bytes behind the last parameter; only padding to a multiple of eight may follow."""
        if self._deferred:
            raise AssertionError("pointees wait to be read: call flush")
        left = len(self.data) - self.at
        if left < 0:  # the gap at the end of a structure of NDR64
            raise self._truncated(0)
        if left > -self.at % 8:
            raise self.malformed(f"{left} bytes too many")


class BigEndianNdrReader(NdrReader):
    """NDR of a peer whose numbers are big endian, as its data representation label says ([C706] 14.1)."""

    __slots__ = ()
    order = ">"
    forms = {code: struct.Struct(f">{code}") for code in SIZES}  # noqa: RUF012
    count_forms = (struct.Struct(">I"), struct.Struct(">III"))

    def guid(self) -> UUID:
        self.align(4)
        return UUID(bytes=self.raw(16))


class Ndr64Writer(NdrWriter):
    """[MS-RPCE] 2.2.5.3"""

    __slots__ = ()
    wide = True

    def count(self, value: int) -> None:
        self.u64(value)

    def counts(self, maximum: int, actual: int) -> None:
        self.align(8)
        self.data += _WIDE_COUNTS.pack(maximum, 0, actual)

    def referent(self) -> None:
        self.u64(self.next_referent())

    def null(self) -> None:
        self.u64(0)


class Ndr64Reader(NdrReader):
    """[MS-RPCE] 2.2.5.3"""

    __slots__ = ()
    wide = True
    count_forms = (_U64, _WIDE_COUNTS)

    def referent(self) -> bool:
        return self.u64() != 0


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """A transfer syntax and, of NDR, the byte order of what is read. There are three objects of it."""

    name: str
    uuid: UUID
    version: tuple[int, int]
    writer: type[NdrWriter]
    reader: type[NdrReader]


_NDR_UUID: Final = UUID("8a885d04-1ceb-11c9-9fe8-08002b104860")  # [MS-RPCE] 2.2.4.12
NDR: Final = Syntax("NDR", _NDR_UUID, (2, 0), NdrWriter, NdrReader)
NDR_BIG_ENDIAN: Final = Syntax("NDR, big endian", _NDR_UUID, (2, 0), NdrWriter, BigEndianNdrReader)
NDR64: Final = Syntax("NDR64", UUID("71710533-beba-4937-8319-b5dbef9ccc36"), (1, 0), Ndr64Writer, Ndr64Reader)
