"""Arrays ([C706] 14.3.3), conformant or conformant and varying, held to the members that announce their counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from lior.errors import InvalidParameter
from lior.wire.ndr import NDR64, NDR_BIG_ENDIAN, SIZES, NdrReader, NdrWriter, Syntax
from lior.wire.ndr_types import Bound, Count, Names, Owner, Read, Run, Type, Write
from lior.wire.propvariant import read_propvariants, write_propvariants


@dataclass(frozen=True)
class Elements:
    """What an array is made of, where Python has one value for all of it."""

    size: int
    take: Callable[[bytes | memoryview, int, int], Any]
    units: Callable[[Any], bytes | bytearray | memoryview]
    take_big_endian: Callable[[bytes | memoryview, int, int], Any]


@dataclass(frozen=True)
class Array(Type):
    """[size_is(size)] or [size_is(size), length_is(length)]; of names or numbers.

    The count of an [out] array is a parameter of the request. An array that is shorter than its count is filled with
    zeros: [out] buffers are as long as the caller said, whatever there was to put into them.
    """

    element: Elements | Type
    size: str | int
    length: str | int | None = None

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        size = count_in(self.size, names)
        length = None if self.length is None else count_in(self.length, names)
        run: Run | None = None
        if isinstance(self.element, Elements):
            read, write = _run(self.element, size, length, syntax)
            take = self.element.take_big_endian if syntax is NDR_BIG_ENDIAN else self.element.take
            run = Run(take, self.element.units, self.element.size, _place(self.size, names),
                      None if self.length is None else _place(self.length, names))
        elif isinstance(self.element, PropVariants):
            if syntax is NDR64:
                raise TypeError("no interface with NDR64 has PROPVARIANTs, which are described for NDR alone")
            read, write = _variants(size)
        else:
            read, write = _elements(self.element.bind(syntax, names), size, length)
        return Bound(8 if syntax is NDR64 else 4, read, write, run=run)


def _place(name: str | int, names: Names) -> str:
    """A number, or the place in the owner as one would write it."""
    return str(name) if isinstance(name, int) else f"[{names[name]}]"


def count_in(name: str | int, names: Names) -> Count:
    if isinstance(name, int):
        return lambda owner: name
    return itemgetter(names[name])


def _run(elements: Elements, size: Count, length: Count | None, syntax: Syntax) -> tuple[Read, Write]:
    width, units_of = elements.size, elements.units
    take = elements.take_big_endian if syntax is NDR_BIG_ENDIAN else elements.take

    def read(reader: NdrReader, owner: Owner) -> Any:
        count = (reader.conformant(size(owner), width) if length is None
                 else reader.conformant_varying(size(owner), width, length(owner)))
        at = reader.at
        reader.at = at + count * width
        return take(reader.data, at, reader.at)

    def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
        units = units_of(value)
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


def _octets(data: bytes | memoryview, at: int, end: int) -> bytes:
    return bytes(data[at:end])


def _view(data: bytes | memoryview, at: int, end: int) -> memoryview:
    return memoryview(data)[at:end]


def _characters(data: bytes | memoryview, at: int, end: int) -> str:
    return str(data[at:end], "utf-16-le", "surrogatepass")


def _characters_big_endian(data: bytes | memoryview, at: int, end: int) -> str:
    return str(data[at:end], "utf-16-be", "surrogatepass")


def _utf_16(value: str) -> bytes:
    return value.encode("utf-16-le", "surrogatepass")


def _as_given(value: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    return value


OCTETS: Final = Elements(1, _octets, _as_given, _octets)
VIEW: Final = Elements(1, _view, _as_given, _view)  # a large one: a memoryview of the stub, without a copy
CHARACTERS: Final = Elements(2, _characters, _utf_16, _characters_big_endian)  # not a [string]: any 16 bits
PROPVARIANT: Final = PropVariants()
