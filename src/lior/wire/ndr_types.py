"""The types of which interfaces are described, once: `bind` makes reader and writer of each transfer syntax from them.

A structure is a list of members, a method a list of parameters (`lior.wire.rpc_interface`). An array names the members
or parameters that hold its counts; whoever reads is strict about them as [MS-RPCE] 3.1.1.5.3 (target level 6.0) asks.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

from lior.errors import InvalidParameter
from lior.message import ObjectId
from lior.wire.ndr import NDR64, NDR_BIG_ENDIAN, NULL, PADDING, SIZES, NdrReader, NdrWriter, Syntax
from lior.wire.propvariant import read_propvariants, write_propvariants
from lior.wire.queue_format import read_queue_format, write_queue_format

Owner: TypeAlias = Sequence[Any]  # the members or parameters among which counts are found
Names: TypeAlias = Mapping[str, int]  # where in the owner a name is
Read: TypeAlias = Callable[[NdrReader, Owner], Any]
Write: TypeAlias = Callable[[NdrWriter, Any, Owner], None]
Count: TypeAlias = Callable[[Owner], int | None]


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

        def read(reader: NdrReader, owner: Owner) -> Any:
            at = reader.at = (reader.at + mask) & ~mask
            reader.at = at + size
            data = bytes(reader.data[at:at + size])
            if len(data) != size:
                raise reader.malformed(f"{size} bytes needed, {len(data)} left")
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
    narrow: bool = False  # no interface with NDR64 has it

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        if self.narrow and syntax is NDR64:
            raise TypeError("not described for NDR64")
        read, write = self.read, self.write
        return Bound(self.align, lambda reader, owner: read(reader), lambda writer, value, owner: write(writer, value))


@dataclass(frozen=True)
class Unique(Type):
    """[unique]: NULL or not. A [ref] parameter is described by what it points to, which stands in its place."""

    target: Type

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        pointee = self.target.bind(syntax, names)
        inner = pointee.pointee is not None
        read_pointee = _read_inner(pointee) if inner else pointee.read
        write_pointee = _write_inner(pointee) if inner else pointee.write
        count = _count(self.target.size, names) if isinstance(self.target, Array) else None

        def finish_read(reader: NdrReader, referent: Any, owner: Owner) -> Any:
            if referent:
                return read_pointee(reader, owner)
            if count is not None and count(owner):
                raise reader.malformed(f"NULL where an array of {count(owner)} was announced")
            return None

        def begin_write(writer: NdrWriter, value: Any, owner: Owner) -> None:
            if value is not None:
                writer.referent()
                return
            if count is not None and count(owner):
                raise InvalidParameter(f"NULL where an array of {count(owner)} is announced", where="NDR")
            writer.null()

        def finish_write(writer: NdrWriter, value: Any, state: None, owner: Owner) -> None:
            if value is not None:
                write_pointee(writer, value, owner)

        def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
            begin_write(writer, value, owner)
            finish_write(writer, value, None, owner)

        size = 8 if syntax is NDR64 else 4
        return Bound(
            size, lambda reader, owner: finish_read(reader, reader.referent(), owner), write, "Q" if size == 8 else "I",
            size=size, pointee=replace(pointee, read=read_pointee, write=write_pointee), count=count,
            begin_read=lambda reader, owner: reader.referent(), finish_read=finish_read, begin_write=begin_write,
            finish_write=finish_write)


class Full(Unique):
    """[ptr]. No method of these interfaces gives two parameters that could be aliases, so a referent is never met twice."""


def _read_inner(pointer: Bound) -> Read:
    """The pointer that a pointer points to."""
    read_pointer = pointer.read

    def read(reader: NdrReader, owner: Owner) -> Any:
        value = read_pointer(reader, owner)
        return NULL if value is None else value

    return read


def _write_inner(pointer: Bound) -> Write:
    write_pointer = pointer.write

    def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
        write_pointer(writer, None if value is NULL else value, owner)

    return write


# ---- arrays ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Elements:
    """What an array is made of, where Python has one value for all of it."""

    size: int
    read: Callable[[NdrReader, int], Any]
    units: Callable[[Any, NdrWriter], bytes | bytearray | memoryview]


@dataclass(frozen=True)
class Array(Type):
    """[size_is(size)] or [size_is(size), length_is(length)]; of names or numbers.

    The count of an [out] array is a parameter of the request. An array that is shorter than its count is filled with
    zeros: [out] buffers are as long as the caller said, whatever there was to put into them.
    """

    element: "Elements | Type"
    size: str | int
    length: str | int | None = None

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        size = _count(self.size, names)
        length = None if self.length is None else _count(self.length, names)
        if isinstance(self.element, Elements):
            read, write = _run(self.element, size, length)
        elif isinstance(self.element, PropVariants):
            read, write = _variants(size)
        else:
            read, write = _elements(self.element.bind(syntax, names), size, length)
        return Bound(8 if syntax is NDR64 else 4, read, write)


def _count(name: str | int, names: Names) -> Count:
    if isinstance(name, int):
        return lambda owner: name
    return itemgetter(names[name])


def _run(elements: Elements, size: Count, length: Count | None) -> tuple[Read, Write]:
    width, read_elements, units_of = elements.size, elements.read, elements.units

    def read(reader: NdrReader, owner: Owner) -> Any:
        if length is None:
            return read_elements(reader, reader.conformant(size(owner), width))
        return read_elements(reader, reader.conformant_varying(size(owner), width, length(owner)))

    def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
        units = units_of(value, writer)
        maximum = size(owner)
        actual = maximum if length is None else length(owner)
        if actual is None:
            actual = len(units) // width
        if maximum is None:
            maximum = actual
        missing = actual * width - len(units)
        if missing < 0 or actual > maximum:
            raise InvalidParameter(f"{len(units)} bytes in an array of {actual} of {maximum}", where="NDR",
                                   remedy="make the counts those of the array")
        if length is None:
            writer.count(maximum)
        else:
            writer.counts(maximum, actual)
        writer.raw(units)
        if missing:
            writer.raw(bytes(missing))

    return read, write


def _elements(bound: Bound, size: Count, length: Count | None) -> tuple[Read, Write]:
    """An array of numbers, structures or pointers, as a tuple."""
    if bound.pointee is None and bound.code and bound.load is None:
        return _numbers(bound.code, size, length)
    begin_read, finish_read = bound.begin_read or bound.read, bound.finish_read
    begin_write, finish_write = bound.begin_write or bound.write, bound.finish_write

    def read(reader: NdrReader, owner: Owner) -> tuple[Any, ...]:
        count = (reader.conformant(size(owner), bound.size) if length is None
                 else reader.conformant_varying(size(owner), bound.size, length(owner)))
        begun = [begin_read(reader, owner) for _ in range(count)]
        return tuple(begun if finish_read is None else [finish_read(reader, state, owner) for state in begun])

    def write(writer: NdrWriter, value: Sequence[Any], owner: Owner) -> None:
        _write_counts(writer, len(value), size, length, owner)
        begun = [begin_write(writer, element, owner) for element in value]
        if finish_write is not None:
            for element, state in zip(value, begun, strict=True):
                finish_write(writer, element, state, owner)

    return read, write


def _numbers(code: Any, size: Count, length: Count | None) -> tuple[Read, Write]:
    width = SIZES[code]

    def read(reader: NdrReader, owner: Owner) -> tuple[int, ...]:
        return reader.numbers(code, reader.conformant(size(owner), width) if length is None
                              else reader.conformant_varying(size(owner), width, length(owner)))

    def write(writer: NdrWriter, value: Sequence[int], owner: Owner) -> None:
        _write_counts(writer, len(value), size, length, owner)
        writer.numbers(code, value)

    return read, write


def _write_counts(writer: NdrWriter, count: int, size: Count, length: Count | None, owner: Owner) -> None:
    maximum = size(owner)
    actual = maximum if length is None else length(owner)
    if count != (count if actual is None else actual) or count > (count if maximum is None else maximum):
        raise InvalidParameter(f"{count} elements where {actual} of {maximum} are announced", where="NDR",
                               remedy="make the counts those of the array")
    if length is None:
        writer.count(count)
    else:
        writer.counts(count if maximum is None else maximum, count)


@dataclass(frozen=True)
class PropVariants(Type):
    """The elements of an array of PROPVARIANT."""


def _variants(size: Count) -> tuple[Read, Write]:
    def read(reader: NdrReader, owner: Owner) -> Any:
        return read_propvariants(reader, size(owner))

    def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
        expected = size(owner)
        if expected is not None and len(value) != expected:
            raise InvalidParameter(f"{len(value)} variants where {expected} are announced", where="NDR")
        write_propvariants(writer, value)

    return read, write


def _utf_16(value: str, writer: NdrWriter) -> bytes:
    return value.encode("utf-16-le", "surrogatepass")


def _as_given(value: Any, writer: NdrWriter) -> Any:
    return value


def _queue_format(reader: NdrReader) -> Any:
    found: list[Any] = []
    read_queue_format(reader, found.append)
    reader.flush()
    return found[0]


def _write_queue_format(writer: NdrWriter, value: Any) -> None:
    write_queue_format(writer, value)
    writer.flush()


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


CONTEXT_HANDLE_SIZE: Final = 20
NULL_HANDLE: Final = bytes(CONTEXT_HANDLE_SIZE)

OCTETS: Final = Elements(1, NdrReader.raw, _as_given)
VIEW: Final = Elements(1, NdrReader.view, _as_given)  # a large one: a memoryview of the stub, without a copy
CHARACTERS: Final = Elements(2, NdrReader.characters, _utf_16)  # WCHARs that are not a [string]: any 16 bits
U8: Final = Number("B")
U16: Final = Number("H")
U32: Final = Number("I")
I32: Final = Number("i")
U64: Final = Number("Q")
ENUM: Final = Number("H", "i")  # without v1_enum two bytes in NDR and four in NDR64 ([MS-RPCE] 2.2.5.2)
GUID: Final = Fixed(16, 4, lambda data: UUID(bytes_le=data), lambda value: value.bytes_le, _guid_big_endian)
XACTUOW: Final = Fixed(16, 1, GUID.load, GUID.dump, GUID.load)  # characters: no alignment, no byte order
OBJECTID: Final = Fixed(20, 4, ObjectId.from_bytes, ObjectId.to_bytes, _object_id_big_endian)
CONTEXT_HANDLE: Final = Fixed(CONTEXT_HANDLE_SIZE, 4, bytes, _handle, _handle_big_endian)
STRING: Final = String()
QUEUE_FORMAT: Final = Leaf(4, _queue_format, _write_queue_format)
PROPVARIANT: Final = PropVariants()


# ---- structures -----------------------------------------------------------------------------------------------------

Member: TypeAlias = tuple[str, Type]


@dataclass(frozen=True)
class Union(Type):
    """[switch_is(switch)] union: a member that holds what the arm of its tag describes; an arm of None is void."""

    switch: str
    tag: Number
    arms: Mapping[int, Type]


@dataclass(frozen=True)
class Structure(Type):
    """A structure, and the class of its values, whose members have the same names."""

    make: type[Any]
    members: tuple[Member, ...]
    _bound: dict[str, Bound] = field(default_factory=dict, compare=False, repr=False)

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        from lior.wire.ndr_structure import bind_structure
        bound = self._bound.get(syntax.name)
        if bound is None:
            bound = self._bound[syntax.name] = bind_structure(self.make, self.members, syntax)
        return bound
