"""Pointers ([C706] 14.3.10 to 14.3.12): a referent in place, what it points to behind."""

from dataclasses import dataclass, replace
from typing import Any

from lior.errors import InvalidParameter
from lior.wire.ndr import NULL, NdrReader, NdrWriter, Syntax
from lior.wire.ndr_arrays import Array, count_in
from lior.wire.ndr_types import Bound, Names, Number, Owner, Read, Type, Write


@dataclass(frozen=True)
class Unique(Type):
    """[unique]: NULL or not. A [ref] parameter is described by what it points to, which stands in its place."""

    target: Type

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        pointee = self.target.bind(syntax, names)
        inner = pointee.pointee is not None
        read_pointee = _read_inner(pointee) if inner else pointee.read
        write_pointee = _write_inner(pointee) if inner else pointee.write
        count = count_in(self.target.size, names) if isinstance(self.target, Array) else None

        in_place = Number("I", "Q").bind(syntax, names)
        read_referent, write_referent, size = in_place.read, in_place.write, in_place.size

        def finish_read(reader: NdrReader, referent: Any, owner: Owner) -> Any:
            if referent:
                return read_pointee(reader, owner)
            if count is not None and count(owner):
                raise reader.malformed(f"NULL where an array of {count(owner)} was announced")
            return None

        def begin_write(writer: NdrWriter, value: Any, owner: Owner) -> None:
            if value is None and count is not None and count(owner):
                raise InvalidParameter(f"NULL where an array of {count(owner)} is announced", where="NDR")
            write_referent(writer, 0 if value is None else writer.next_referent(), owner)

        def finish_write(writer: NdrWriter, value: Any, state: None, owner: Owner) -> None:
            if value is not None:
                write_pointee(writer, value, owner)

        def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
            begin_write(writer, value, owner)
            finish_write(writer, value, None, owner)

        def read(reader: NdrReader, owner: Owner) -> Any:
            if read_referent(reader, owner):
                return read_pointee(reader, owner)
            return None if count is None else finish_read(reader, 0, owner)

        return Bound(
            size, read, write, in_place.code,
            size=size, pointee=replace(pointee, read=read_pointee, write=write_pointee), count=count,
            begin_read=read_referent, finish_read=finish_read, begin_write=begin_write, finish_write=finish_write)


class Full(Unique):
    """[ptr]. No method here has two of them that could point to one thing, so no referent comes twice."""


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
