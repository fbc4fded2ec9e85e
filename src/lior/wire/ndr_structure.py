"""A structure in one syntax: two functions that its description writes, as `dataclasses` writes an `__init__`.

What stands in place is one call of `struct`, pointees follow for the pointers that are set; a line for each member
leaves nothing to look up while a stub is read or written. A structure with a union has a form for each arm.

The class of the values has the members that are no pointers first, then the pointers, both in the order of the wire:
they are the arguments of its constructor. The former (and the place of a union) are the owner of the counts.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from lior.errors import InvalidParameter
from lior.wire.ndr import NDR64, NULL, PADDING, SIZES, NdrReader, NdrWriter, Syntax
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_types import Bound, Count, Names, Number, Owner, Run, Type, out_of_range

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
        bound = self._bound.get(syntax.name)
        if bound is None:
            bound = self._bound[syntax.name] = bind_structure(self.make, self.members, syntax)
        return bound


@dataclass(slots=True)
class _Form:
    """A structure with one arm of its union, or without one."""

    read: Callable[[NdrReader, tuple[Any, ...]], Any]  # from the numbers that `struct` unpacked, at the first pointee
    write: Callable[[NdrWriter, Any, bytearray, int], None]  # what stands in place goes there, pointees to the end
    unpack_from: Callable[..., tuple[Any, ...]]
    size: int
    align: int
    blank: bytes = b""  # keeps the place of what stands in it


@dataclass(slots=True)
class _Group:
    """The members of the structure itself, or of the arm of its union: expressions for what becomes of each."""

    number: int
    make: type[Any]
    names: Names
    owner: list[str] = field(default_factory=list)  # in terms of the numbers: what the counts are taken from
    arguments: list[str] = field(default_factory=list)  # the members that are no pointers
    pointers: list[str] = field(default_factory=list)
    reading: list[str] = field(default_factory=list)  # lines for the pointees
    referring: list[str] = field(default_factory=list)
    writing: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Source:
    """The two functions of a form, line by line."""

    syntax: Syntax
    groups: list[_Group]
    codes: str = ""
    offset: int = 0
    align: int = 1
    length: int = 0  # how many numbers there are
    checking: list[str] = field(default_factory=list)  # lines for the numbers that were read
    taking: list[str] = field(default_factory=list)  # from the value to the members that are no pointers
    called: dict[str, Any] = field(default_factory=dict)  # what the lines use

    def add(self, name: str, type: Type, group: _Group) -> None:
        bound = type.bind(self.syntax, group.names)
        number = self.place(bound)
        if bound.pointee is not None:
            self.pointer(name, number, bound, group)
            return
        group.owner.append(f"n{number}")
        group.arguments.append(self.loaded(number, bound))
        self.taking.append(f"n{number} = " + self.dumped(f"v{group.number}.{name}", number, bound))
        if bound.bounds is not None:
            low, high = bound.bounds
            outside = f"if not {low} <= n{number} <= {high}:"
            self.checking += [outside, f"    raise reader.malformed(out_of_range(n{number}, {low}, {high}))"]
            self.taking += [outside, f"    refuse(out_of_range(n{number}, {low}, {high}))"]

    def place(self, bound: Bound) -> int:
        if not bound.code:
            raise TypeError("not of fixed size")
        gap = -self.offset % bound.align
        self.codes += f"{gap}x{bound.code}" if gap else bound.code
        self.offset += gap + struct.calcsize(f"<{bound.code}")
        self.align = max(self.align, bound.align)
        self.length += 1
        return self.length - 1

    def pointer(self, name: str, number: int, bound: Bound, group: _Group) -> None:
        pointee = bound.pointee
        assert pointee is not None
        n, o = f"n{number}", f"o{group.number}"
        null, refuse = "None", []
        if bound.count is not None:
            self.called |= {f"null{number}": _announced(bound.count), f"check{number}": bound.count}
            null = f"null{number}(reader, {o})"
            refuse = [f"    if check{number}({o}):", f"        refuse('NULL where an array is announced: {name}')"]
        read, write = self.pointee(number, pointee, o)
        group.pointers.append(n)
        group.reading += [f"if {n}:", *read, "else:", f"    {n} = {null}"]
        group.referring += [f"p{number} = v{group.number}.{name}", f"if p{number} is None:", f"    {n} = 0", *refuse,
                            "else:", f"    {n} = referent", "    referent += 4"]
        group.writing += [f"if {n}:", *write]

    def pointee(self, number: int, pointee: Bound, owner: str) -> tuple[list[str], list[str]]:
        """Lines that read one into n<number>, and that write p<number>. A plain number needs no call."""
        n, p, code = f"n{number}", f"p{number}", pointee.code
        if code == "B" and pointee.bounds is None:
            return [f"    {n} = data[at]", "    at += 1"], [f"    out.append({p})"]
        if code in SIZES and pointee.bounds is None and pointee.pointee is None:
            size = SIZES[code]
            self.called |= {f"unpack_{code}": struct.Struct(self.syntax.reader.order + code).unpack_from,
                            f"pack_{code}": struct.Struct("<" + code).pack}
            return ([f"    at = (at + {size - 1}) & {-size}", f"    {n}, = unpack_{code}(data, at)",
                     f"    at += {size}"],
                    [f"    out += PADDING[-len(out) & {size - 1}]", f"    out += pack_{code}({p})"])
        self.called |= {f"read{number}": pointee.read, f"write{number}": pointee.write}
        if pointee.pointee is not None and pointee.pointee.run is not None and self.syntax is not NDR64:
            return self.run(number, pointee.pointee.run, owner)
        return (["    reader.at = at", f"    {n} = read{number}(reader, {owner})", "    at = reader.at"],
                [f"    write{number}(writer, {p}, {owner})", "    out = writer.data"])

    def run(self, number: int, run: Run, owner: str) -> tuple[list[str], list[str]]:
        """A pointer to an array, most of what a message buffer points to, in one step.

        What is NULL, short or wrong is left to the reading and writing of each of its parts.
        """
        size, length = (owner + each if each.startswith("[") else each for each in (run.size, run.length or run.size))
        varying = run.length is not None
        counts = struct.Struct("<IIII" if varying else "<II")
        to_read = struct.Struct(self.syntax.reader.order + counts.format[1:])
        self.called |= {f"take{number}": run.take, f"units{number}": run.units, f"pack_{counts.size}": counts.pack,
                        f"unpack_{counts.size}": to_read.unpack_from}
        agree = f"c[1] == {size} and c[3] == {length} <= c[1] and not c[2]" if varying else f"c[1] == {size}"
        read = [
            "    at = (at + 3) & -4", f"    start = at + {counts.size}", f"    end = start + {length} * {run.width}",
            f"    if end <= len(data) and (c := unpack_{counts.size}(data, at))[0] and {agree}:",
            f"        n{number} = take{number}(data, start, end)", "        at = end", "    else:",
            "        reader.at = at", f"        n{number} = read{number}(reader, {owner})", "        at = reader.at"]
        given = f"{size}, 0, {length}" if varying else size
        write = [
            f"    u = None if p{number} is NULL else units{number}(p{number})",
            f"    if u is not None and len(u) == {length} * {run.width} and {length} <= {size}:",
            "        out += PADDING[-len(out) & 3]",
            f"        out += pack_{counts.size}(writer.next_referent(), {given})", "        writer.raw(u)", "    else:",
            f"        write{number}(writer, p{number}, {owner})", "    out = writer.data"]
        return read, write

    def loaded(self, number: int, bound: Bound) -> str:
        if bound.load is None:
            return f"n{number}"
        self.called[f"load{number}"] = bound.load
        return f"load{number}(n{number})"

    def dumped(self, expression: str, number: int, bound: Bound) -> str:
        if bound.dump is None:
            return expression
        self.called[f"dump{number}"] = bound.dump
        return f"dump{number}({expression})"

    def form(self) -> _Form:
        tail = -self.offset % self.align if self.syntax is NDR64 else 0  # [MS-RPCE] 2.2.5.3.4.1
        layout = self.codes + f"{tail}x" * bool(tail)
        form, numbers = struct.Struct(self.syntax.reader.order + layout), [f"n{n}" for n in range(self.length)]
        read = [f"{', '.join(numbers)}, = numbers", *self.checking, "data, at = reader.data, reader.at"]
        arms_first = self.groups[::-1]
        write = [*self.taking, "out = writer.data", "referent = writer.referents"]
        writing = ["writer.referents = referent"]  # the pointers that stand in place have the first numbers
        for group in arms_first:  # pointees of an arm come before those of the structure
            owner = f"o{group.number} = ({', '.join(group.owner)}{',' * bool(group.owner)})"
            members = ", ".join(group.arguments + group.pointers)
            read += [owner, *group.reading, f"v{group.number} = make{group.number}({members})"]
            write += [owner, *group.referring]
            writing += group.writing
            self.called[f"make{group.number}"] = group.make
        lines = ["def read(reader, numbers):", *("    " + line for line in read), "    reader.at = at", "    return v0",
                 "def write(writer, v0, place, start):", *("    " + line for line in write + writing),
                 f"    pack_into(place, start, {', '.join(numbers)})"]
        called = {**self.called, "pack_into": struct.Struct("<" + layout).pack_into, "out_of_range": out_of_range,
                  "refuse": _refuse, "is_a": _is_a, "PADDING": PADDING, "NULL": NULL}
        # The lines hold names of members and numbers, all from the descriptions in this package.
        exec(compile("\n".join(lines), f"<{self.groups[0].make.__name__}>", "exec"), called)  # noqa: S102
        return _Form(called["read"], called["write"], form.unpack_from, form.size, self.align, bytes(form.size))


def _announced(count: Count) -> Callable[[NdrReader, Owner], None]:
    def null(reader: NdrReader, owner: Owner) -> None:
        """[MS-RPCE] 3.1.1.5.3.3.1.2"""
        if count(owner):
            raise reader.malformed(f"NULL where an array of {count(owner)} was announced")

    return null


def _refuse(what: str) -> None:
    raise InvalidParameter(what, where="NDR", remedy="give what the IDL asks for")


def _is_a(value: object, make: type[Any]) -> None:
    if not isinstance(value, make):
        _refuse(f"a {type(value).__name__} where a {make.__name__} belongs")


def _is_pointer(type: Type) -> bool:
    return isinstance(type, Unique) or (
        isinstance(type, Union) and not any(isinstance(arm, Structure) for arm in type.arms.values()))


def _group(number: int, make: type[Any], members: Sequence[Member]) -> _Group:
    scalars = [name for name, type in members if not _is_pointer(type)]
    pointers = [name for name, type in members if _is_pointer(type)]
    if [each.name for each in fields(make)] != scalars + pointers:
        raise TypeError(f"the members of {make.__name__} are not in the order of its description")
    return _Group(number, make, {name: index for index, name in enumerate(scalars)})


def _form(make: type[Any], members: Sequence[Member], syntax: Syntax, tag: int | None) -> _Form:
    first = _group(0, make, members)
    source = _Source(syntax, [first])
    source.called["class0"] = make
    source.taking.append("is_a(v0, class0)")
    for name, type in members:
        if not isinstance(type, Union):
            source.add(name, type, first)
            continue
        if syntax is NDR64 or tag is None or first.pointers or first.owner != ["n0"]:
            raise TypeError("a union stands behind its discriminant, which is the first member; and in NDR alone")
        place = f"n{source.place(type.tag.bind(syntax, {}))}"
        source.taking.append(f"{place} = n0")
        source.checking += [f"if n0 != {tag} or {place} != {tag}:",
                            f"    raise reader.malformed(f'type {{n0}} with union tag {{{place}}}')"]
        _add_arm(source, name, type.arms[tag])
    return source.form()


def _add_arm(source: _Source, name: str, arm: Type) -> None:
    first = source.groups[0]
    if not isinstance(arm, Structure):
        source.add(name, arm, first)
        return
    group = _group(1, arm.make, arm.members)
    source.groups.append(group)
    source.called["class1"] = arm.make
    source.taking += [f"v1 = v0.{name}", "is_a(v1, class1)"]
    first.owner.append("None")
    first.arguments.append("v1")
    for member, type in arm.members:
        source.add(member, type, group)


def bind_structure(make: type[Any], members: Sequence[Member], syntax: Syntax) -> Bound:
    union = next((type for _, type in members if isinstance(type, Union)), None)
    tags: Sequence[int | None] = list(union.arms) if union else [None]
    forms: Mapping[int | None, _Form] = {tag: _form(make, members, syntax, tag) for tag in tags}
    align = max(form.align for form in forms.values())
    choose_read, choose_write = _choosers(make, union, forms, syntax)
    mask = align - 1

    def begin_read(reader: NdrReader, owner: Owner) -> tuple[_Form, tuple[Any, ...]]:
        at = (reader.at + mask) & ~mask
        form = choose_read(reader, at)
        numbers = form.unpack_from(reader.data, at)
        reader.at = at + form.size
        return form, numbers

    def finish_read(reader: NdrReader, state: tuple[_Form, tuple[Any, ...]], owner: Owner) -> Any:
        form, numbers = state
        return form.read(reader, numbers)

    def read(reader: NdrReader, owner: Owner) -> Any:
        at = (reader.at + mask) & ~mask
        form = choose_read(reader, at)
        numbers = form.unpack_from(reader.data, at)
        reader.at = at + form.size
        return form.read(reader, numbers)

    def begin_write(writer: NdrWriter, value: Any, owner: Owner) -> tuple[_Form, bytearray, int]:
        form = choose_write(value)
        place = writer.data
        place += PADDING[-len(place) & mask]
        start = len(place)
        place += form.blank
        return form, place, start

    def finish_write(writer: NdrWriter, value: Any, state: tuple[_Form, bytearray, int], owner: Owner) -> None:
        form, place, start = state
        form.write(writer, value, place, start)

    def write(writer: NdrWriter, value: Any, owner: Owner) -> None:
        form, place, start = begin_write(writer, value, owner)
        form.write(writer, value, place, start)

    return Bound(align, read, write, size=min(form.size for form in forms.values()), begin_read=begin_read,
                 finish_read=finish_read, begin_write=begin_write, finish_write=finish_write)


_ReadChoice: TypeAlias = Callable[[NdrReader, int], _Form]
_WriteChoice: TypeAlias = Callable[[Any], _Form]


def _choosers(make: type[Any], union: Union | None, forms: Mapping[int | None, _Form],
              syntax: Syntax) -> tuple[_ReadChoice, _WriteChoice]:
    """What finds the form of a stub and of a value."""
    if union is None:
        form = forms[None]
        return lambda reader, at: form, lambda value: form
    switch = union.switch
    low = 0 if syntax.reader.order == "<" else union.tag.bind(syntax, {}).size - 1  # tags are small: one byte of them

    def choose_read(reader: NdrReader, at: int) -> _Form:
        form = forms.get(reader.data[at + low])
        if form is None:
            raise reader.malformed(f"{make.__name__} of a type that has no arm")
        return form

    def choose_write(value: Any) -> _Form:
        _is_a(value, make)
        tag = getattr(value, switch)
        if tag not in forms:
            _refuse(f"{make.__name__} of type {tag}, which has no arm")
        return forms[tag]

    return choose_read, choose_write
