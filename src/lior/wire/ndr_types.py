"""The types of which interfaces are described, once: `bind` makes reader and writer of each transfer syntax from them.

A structure is a list of members, a method a list of parameters (`lior.wire.rpc_interface`). An array names the members
or parameters that hold its counts; whoever reads is strict about them as [MS-RPCE] 3.1.1.5.3 (target level 6.0) asks.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from uuid import UUID, SafeUUID

from lior.errors import InvalidParameter
from lior.message import ObjectId
from lior.wire.ndr import NDR64, NDR_BIG_ENDIAN, PADDING, NdrReader, NdrWriter, Syntax
from lior.wire.queue_format import read_queue_format, write_queue_format

Owner: TypeAlias = Sequence[Any]  # the members or parameters among which counts are found
Names: TypeAlias = Mapping[str, int]  # where in the owner a name is
Read: TypeAlias = Callable[[NdrReader, Owner], Any]
Write: TypeAlias = Callable[[NdrWriter, Any, Owner], None]
Count: TypeAlias = Callable[[Owner], int | None]


@dataclass(slots=True)
class Run:
    """An array of which Python has one value, as `lior.wire.ndr_structure` puts it into its lines."""

    take: Callable[[bytes | memoryview, int, int], Any]
    units: Callable[[Any], bytes | bytearray | memoryview]
    width: int
    size: str  # a number, or "[7]": the place in the owner
    length: str | None


@dataclass(slots=True)
class Bound:
    """A type in one syntax. `read` and `write` do all of it: what stands in place and the pointees behind."""

    align: int
    read: Read
    write: Write
    code: str = ""  # in place it is of fixed size: a code of `struct`
    load: Callable[[Any], Any] | None = None  # from what `struct` unpacks
    dump: Callable[[Any], Any] | None = None
    bounds: tuple[int, int] | None = None
    size: int = 1  # it has at least so many bytes
    pointee: "Bound | None" = None  # of a pointer
    count: Count | None = None  # of the array that it points to: not zero where the pointer is NULL
    run: Run | None = None
    # An element of an array: what stands in place, and later its pointees. `begin` gives what `finish` goes on with.
    begin_read: Read | None = None
    finish_read: Callable[[NdrReader, Any, Owner], Any] | None = None
    begin_write: Callable[[NdrWriter, Any, Owner], Any] | None = None
    finish_write: Callable[[NdrWriter, Any, Any, Owner], None] | None = None


class Type:
    """A type of the IDL."""

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        raise NotImplementedError


def out_of_range(value: object, low: int, high: int) -> str:
    return f"{value} is not in the range {low} to {high}"


@dataclass(frozen=True)
class Number(Type):
    code: str
    wide_code: str = ""  # in NDR64, if that differs

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        wide = self.wide_code and syntax is NDR64
        code = self.wide_code if wide else self.code
        form = struct.Struct(syntax.reader.order + code)
        unpack_from, pack, size = form.unpack_from, form.pack, form.size
        mask = size - 1

        def read(reader: NdrReader, owner: Owner) -> int:
            at = (reader.at + mask) & -size
            value: int
            (value,) = unpack_from(reader.data, at)
            reader.at = at + size
            return value

        def write(writer: NdrWriter, value: int, owner: Owner) -> None:
            data = writer.data
            data += PADDING[-len(data) & mask]
            data += pack(value)

        return Bound(size, read, write, code, size=size)


@dataclass(frozen=True)
class Ranged(Type):
    """[range(low, high)]"""

    type: Number
    low: int
    high: int

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        bound, low, high = self.type.bind(syntax, names), self.low, self.high

        def read(reader: NdrReader, owner: Owner) -> int:
            value: int = bound.read(reader, owner)
            if not low <= value <= high:
                raise reader.malformed(out_of_range(value, low, high))
            return value

        def write(writer: NdrWriter, value: int, owner: Owner) -> None:
            if not low <= value <= high:
                raise InvalidParameter(out_of_range(value, low, high), where="NDR")
            bound.write(writer, value, owner)

        return replace(bound, read=read, write=write, bounds=(low, high))


@dataclass(frozen=True)
class Fixed(Type):
    """So many bytes, of which Python makes one value."""

    size: int
    align: int
    load: Callable[[bytes], Any]
    dump: Callable[[Any], bytes]
    load_big_endian: Callable[[bytes], Any]

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        load = self.load_big_endian if syntax is NDR_BIG_ENDIAN else self.load
        dump, size, mask = self.dump, self.size, self.align - 1

        unpack_from = struct.Struct(f"{size}s").unpack_from

        def read(reader: NdrReader, owner: Owner) -> Any:
            at = (reader.at + mask) & ~mask
            (data,) = unpack_from(reader.data, at)
            reader.at = at + size
            return load(data)

        def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
            data = writer.data
            data += PADDING[-len(data) & mask]
            data += dump(value)

        return Bound(self.align, read, write, f"{size}s", load, dump, size=size)


@dataclass(frozen=True)
class String(Type):
    """[string] wchar_t*, what is behind the pointer."""

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        return Bound(8 if syntax is NDR64 else 4, lambda reader, owner: reader.wide_string(),
                     lambda writer, value, owner: writer.wide_string(value))


@dataclass(frozen=True)
class Leaf(Type):
    """A type that its own module reads and writes, pointees and all."""

    align: int
    read: Callable[[NdrReader], Any]
    write: Callable[[NdrWriter, Any], None]

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        read, write = self.read, self.write
        return Bound(self.align, lambda reader, owner: read(reader), lambda writer, value, owner: write(writer, value))


def _queue_format(reader: NdrReader) -> Any:
    found: list[Any] = []
    read_queue_format(reader, found.append)
    reader.flush()
    return found[0]


def _write_queue_format(writer: NdrWriter, value: Any) -> None:
    write_queue_format(writer, value)
    writer.flush()


def _guid(data: bytes) -> UUID:
    """UUID(bytes_le=data) in half the time: every message has an identifier."""
    low, middle, high, rest = _GUID.unpack_from(data)
    guid = object.__new__(UUID)
    object.__setattr__(guid, "int", low << 96 | middle << 80 | high << 64 | int.from_bytes(rest, "big"))
    object.__setattr__(guid, "is_safe", SafeUUID.unknown)
    return guid


def _object_id(data: bytes) -> ObjectId:
    return ObjectId(_guid(data), int.from_bytes(data[16:], "little"))


def _guid_big_endian(data: bytes) -> UUID:
    return UUID(bytes=data)


def _object_id_big_endian(data: bytes) -> ObjectId:
    return ObjectId(UUID(bytes=data[:16]), int.from_bytes(data[16:], "big"))


def _handle(value: bytes) -> bytes:
    if len(value) != CONTEXT_HANDLE_SIZE:
        raise InvalidParameter(f"a context handle of {len(value)} bytes", where="NDR")
    return value


def _handle_big_endian(data: bytes) -> bytes:
    """As the one who issued it wrote it: attributes and a UUID."""
    return data[3::-1] + UUID(bytes=data[4:]).bytes_le


_GUID: Final = struct.Struct("<IHH8s")
CONTEXT_HANDLE_SIZE: Final = 20
NULL_HANDLE: Final = bytes(CONTEXT_HANDLE_SIZE)

U8: Final = Number("B")
U16: Final = Number("H")
U32: Final = Number("I")
I32: Final = Number("i")
U64: Final = Number("Q")
ENUM: Final = Number("H", "i")  # without v1_enum two bytes in NDR and four in NDR64 ([MS-RPCE] 2.2.5.2)
GUID: Final = Fixed(16, 4, _guid, lambda value: value.bytes_le, _guid_big_endian)
XACTUOW: Final = Fixed(16, 1, GUID.load, GUID.dump, GUID.load)  # characters: no alignment, no byte order
OBJECTID: Final = Fixed(20, 4, _object_id, ObjectId.to_bytes, _object_id_big_endian)
CONTEXT_HANDLE: Final = Fixed(CONTEXT_HANDLE_SIZE, 4, bytes, _handle, _handle_big_endian)
STRING: Final = String()
QUEUE_FORMAT: Final = Leaf(4, _queue_format, _write_queue_format)
