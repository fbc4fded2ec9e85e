"""A second marshaller of NDR and NDR64, of [C706] chapter 14 and [MS-RPCE] 2.2.5, for independent peers.

It shares nothing with the server's. Values are plain: numbers, bytes, strings, None, mappings for structures, and pairs
(tag, value) for unions. Writing trusts its caller, so that a test can lie: `Counts` around an array's value says what
its counts claim. Reading refuses what the document forbids.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

NDR: Final = False
NDR64: Final = True


class Wrong(AssertionError):
    """Bytes that do not follow the description."""


class Counts(NamedTuple):
    """An array whose counts are what the test says: `None` stands for the true number."""

    value: Any
    maximum: int | None = None
    actual: int | None = None
    offset: int = 0


@dataclass
class Writer:
    wide: bool = NDR
    data: bytearray = field(default_factory=bytearray)
    referents: int = 0

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def number(self, layout: str, value: int) -> None:
        size = struct.calcsize("<" + layout)
        self.align(size)
        self.data += struct.pack("<" + layout, value)

    def count(self, value: int) -> None:
        self.number("Q" if self.wide else "I", value)

    def referent(self) -> None:
        self.referents += 1
        self.count(0x20000 + 4 * self.referents)


@dataclass
class Reader:
    data: bytes
    wide: bool = NDR
    at: int = 0

    def align(self, size: int) -> None:
        self.at += -self.at % size

    def bytes(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise Wrong(f"{size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, layout: str) -> int:
        size = struct.calcsize("<" + layout)
        self.align(size)
        return int(struct.unpack("<" + layout, self.bytes(size))[0])

    def count(self) -> int:
        return self.number("Q" if self.wide else "I")


Later = list[Callable[[], None]]  # what embedded pointers point at comes after what they are embedded in


class Type:
    default: Any = None

    def alignment(self, wide: bool) -> int:
        raise NotImplementedError

    def put(self, to: Writer, value: Any, later: Later) -> None:
        raise NotImplementedError

    def get(self, of: Reader, later: Later) -> Any:
        raise NotImplementedError


def write(to: Writer, kind: Type, value: Any) -> None:
    """A parameter or a referent, and all that it points at."""
    later: Later = []
    kind.put(to, value, later)
    for step in later:
        step()


def read(of: Reader, kind: Type) -> Any:
    later: Later = []
    value = kind.get(of, later)
    for step in later:
        step()
    return value


@dataclass
class Number(Type):
    layout: str
    default: int = 0

    def alignment(self, wide: bool) -> int:
        return struct.calcsize("<" + self.layout)

    def put(self, to: Writer, value: Any, later: Later) -> None:
        to.number(self.layout, value)

    def get(self, of: Reader, later: Later) -> int:
        return of.number(self.layout)


@dataclass
class Enumeration(Type):
    """2 bytes; 4 in NDR64 ([MS-RPCE] 2.2.5.2)."""

    default: int = 0

    def alignment(self, wide: bool) -> int:
        return 4 if wide else 2

    def put(self, to: Writer, value: Any, later: Later) -> None:
        to.number("I" if to.wide else "H", value)

    def get(self, of: Reader, later: Later) -> int:
        return of.number("I" if of.wide else "H")


@dataclass
class Fixed(Type):
    """Bytes whose number everybody knows; a GUID or a context handle is one that is aligned like its first field."""

    size: int
    aligned: int = 1

    @property
    def default(self) -> bytes:
        return bytes(self.size)

    def alignment(self, wide: bool) -> int:
        return self.aligned

    def put(self, to: Writer, value: Any, later: Later) -> None:
        to.align(self.aligned)
        assert len(value) == self.size
        to.data += value

    def get(self, of: Reader, later: Later) -> bytes:
        of.align(self.aligned)
        return of.bytes(self.size)


class To(NamedTuple):
    """A pointer that is not NULL, to a pointer that is."""

    value: Any


@dataclass
class Pointer(Type):
    """Unique or full: nothing on this wire points twice at one thing."""

    to: Type

    def alignment(self, wide: bool) -> int:
        return 8 if wide else 4

    def put(self, to: Writer, value: Any, later: Later) -> None:
        if value is None:
            to.count(0)
            return
        to.referent()
        target = value.value if isinstance(value, To) else value
        later.append(lambda: write(to, self.to, target))

    def get(self, of: Reader, later: Later) -> Any:
        if not of.count():
            return None
        box = Box()
        later.append(lambda: box.fill(read(of, self.to)))
        return box


class Box:
    """What a pointer points at, once it has been read."""

    value: Any = None

    def fill(self, value: Any) -> None:
        self.value = value


def opened(value: Any) -> Any:
    """Without boxes: pointers became what they point at."""
    if isinstance(value, Box):
        return opened(value.value)
    if isinstance(value, dict):
        return {name: opened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [opened(inner) for inner in value]
    if isinstance(value, tuple):
        return tuple(opened(inner) for inner in value)
    return value


@dataclass
class Array(Type):
    """Conformant, and varying if `varying`: items of a type, or bytes if there is none; `units` bytes an item then."""

    item: Type | None = None
    varying: bool = False
    units: int = 1
    default: Any = b""

    def alignment(self, wide: bool) -> int:
        return 8 if wide else 4

    def _wrap(self, value: Any) -> Counts:
        return value if isinstance(value, Counts) else Counts(value)

    def put(self, to: Writer, value: Any, later: Later) -> None:
        counts = self._wrap(value)
        true = len(counts.value) // (self.units if self.item is None else 1)
        actual = true if counts.actual is None else counts.actual
        to.count(actual if counts.maximum is None else counts.maximum)
        if self.varying:
            to.count(counts.offset)
            to.count(actual)
        if self.item is None:
            to.align(self.units)
            to.data += counts.value
            return
        to.align(self.item.alignment(to.wide))
        for item in counts.value:
            self.item.put(to, item, later)

    def get(self, of: Reader, later: Later) -> Any:
        maximum = of.count()
        actual = maximum
        if self.varying:
            offset, actual = of.count(), of.count()
            if offset or actual > maximum:
                raise Wrong(f"offset {offset}, {actual} of {maximum}")
        if self.item is None:
            of.align(self.units)
            return of.bytes(actual * self.units)
        if actual > len(of.data):
            raise Wrong(f"{actual} items in {len(of.data)} bytes")
        of.align(self.item.alignment(of.wide))
        return [self.item.get(of, later) for _ in range(actual)]


@dataclass
class Text(Type):
    """[string] of 16-bit characters with its zero; bytes or Counts are written as they are."""

    default: str = ""

    def alignment(self, wide: bool) -> int:
        return 8 if wide else 4

    def put(self, to: Writer, value: Any, later: Later) -> None:
        plain = (value + "\0").encode("utf-16-le", "surrogatepass") if isinstance(value, str) else value
        Array(varying=True, units=2).put(to, plain, later)

    def get(self, of: Reader, later: Later) -> str:
        data = Array(varying=True, units=2).get(of, later)
        if data[-2:] != b"\0\0":
            raise Wrong(f"a string without its zero: {data!r}")
        return str(data[:-2].decode("utf-16-le", "surrogatepass"))


class Struct(Type):
    def __init__(self, **fields: Type) -> None:
        self.fields = fields

    @property
    def default(self) -> dict[str, Any]:
        return {}

    def alignment(self, wide: bool) -> int:
        return max(kind.alignment(wide) for kind in self.fields.values())

    def put(self, to: Writer, value: Any, later: Later) -> None:
        unknown = set(value) - set(self.fields)
        assert not unknown, f"no such fields: {unknown}"
        to.align(self.alignment(to.wide))
        for name, kind in self.fields.items():
            kind.put(to, value.get(name, kind.default), later)
        if to.wide:  # [MS-RPCE] 2.2.5.3.4.1
            to.align(self.alignment(True))

    def get(self, of: Reader, later: Later) -> dict[str, Any]:
        of.align(self.alignment(of.wide))
        found = {name: kind.get(of, later) for name, kind in self.fields.items()}
        if of.wide:
            of.align(self.alignment(True))
        return found


@dataclass
class Union(Type):
    """Non-encapsulated: its tag again, then the arm. In NDR64 both begin where the largest arm may."""

    tag: Type
    arms: Mapping[int, Type | None]

    @property
    def default(self) -> tuple[int, Any]:
        first = min(self.arms)
        kind = self.arms[first]
        return first, None if kind is None else kind.default

    def alignment(self, wide: bool) -> int:
        kinds = [self.tag, *(kind for kind in self.arms.values() if kind)]
        return max(kind.alignment(wide) for kind in kinds)

    def put(self, to: Writer, value: Any, later: Later) -> None:
        tag, inner = value
        if to.wide:
            to.align(self.alignment(True))
        self.tag.put(to, tag, later)
        kind = self.arms.get(tag)
        if to.wide:
            to.align(self.alignment(True))
        if kind is not None:
            to.align(kind.alignment(to.wide))
            kind.put(to, inner, later)

    def get(self, of: Reader, later: Later) -> tuple[int, Any]:
        if of.wide:
            of.align(self.alignment(True))
        tag = self.tag.get(of, later)
        if tag not in self.arms:
            raise Wrong(f"no arm {tag}")
        kind = self.arms[tag]
        if of.wide:
            of.align(self.alignment(True))
        if kind is None:
            return tag, None
        of.align(kind.alignment(of.wide))
        return tag, kind.get(of, later)


@dataclass
class Direction:
    """The parameters of a call or of its answer, in their order."""

    fields: Mapping[str, Type]

    def encode(self, values: Mapping[str, Any], wide: bool = NDR) -> bytes:
        unknown = set(values) - set(self.fields)
        assert not unknown, f"no such parameters: {unknown}"
        to = Writer(wide)
        for name, kind in self.fields.items():
            write(to, kind, values.get(name, kind.default))
        return bytes(to.data)

    def decode(self, data: bytes, wide: bool = NDR) -> dict[str, Any]:
        of = Reader(bytes(data), wide)
        found = {name: opened(read(of, kind)) for name, kind in self.fields.items()}
        if any(of.data[of.at :]):  # zeros may pad an authenticated fragment
            raise Wrong(f"{len(of.data) - of.at} bytes too many: {of.data[of.at :].hex()}")
        return found


@dataclass
class Method:
    name: str
    opnum: int
    request: Direction
    response: Direction


@dataclass
class Interface:
    uuid: str
    version: tuple[int, int]
    methods: Sequence[Method]

    def __getitem__(self, key: str | int) -> Method:
        return next(method for method in self.methods if key in (method.name, method.opnum))


U8, U16, I16, U32, I32, U64, I8, I64 = (Number(layout) for layout in "BHhIiQbq")
GUID = Fixed(16, 4)
HANDLE = Fixed(20, 4)
ENUM = Enumeration()
