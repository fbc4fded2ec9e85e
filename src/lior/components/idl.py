"""Reads a subset of IDL: libraries, interfaces, dispinterfaces, coclasses, enums, structures, aliases.

What it does not know it names with its line: a file that was half understood would number methods wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeVar

from lior.errors import BadConfiguration

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)|(?P<string>L?"(?:\\.|[^"\\\n])*")|(?P<char>'[^'\n]*')"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F]+|\d[\w.]*)|(?P<mark>\.\.\.|::|.)""",
    re.DOTALL | re.VERBOSE,
)
_GUID: Final = re.compile(r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}")
_LONGEST: Final = 4 << 20
_BASES: Final = frozenset({
    "void", "boolean", "char", "byte", "small", "short", "int", "long", "hyper", "__int64", "float", "double", "signed",
    "unsigned", "wchar_t",
})  # fmt: skip

T = TypeVar("T")
Attributes = dict[str, str]  # name -> what stands in its parentheses


@dataclass(frozen=True)
class Type:
    """`name` is the words of a base type, or an identifier; `element` is that of a SAFEARRAY."""

    name: str
    pointers: int = 0
    element: Type | None = None
    is_array: bool = False  # a C array

    def __str__(self) -> str:
        inner = f"SAFEARRAY({self.element})" if self.element is not None else self.name
        return inner + "*" * self.pointers + ("[]" if self.is_array else "")


@dataclass(frozen=True)
class Parameter:
    name: str
    type: Type
    attributes: Attributes


@dataclass(frozen=True)
class Method:
    name: str
    result: Type
    parameters: tuple[Parameter, ...]
    attributes: Attributes
    line: int


@dataclass(frozen=True)
class Interface:
    name: str
    base: str
    attributes: Attributes
    methods: tuple[Method, ...]
    is_dispatch_only: bool = False


@dataclass(frozen=True)
class Structure:
    name: str
    attributes: Attributes
    members: tuple[Parameter, ...]


@dataclass(frozen=True)
class Enumeration:
    name: str
    attributes: Attributes
    members: tuple[tuple[str, int], ...]


@dataclass
class Document:
    """What a file says, in its order. `classes`: coclass name -> attributes."""

    interfaces: dict[str, Interface] = field(default_factory=dict)
    structures: dict[str, Structure] = field(default_factory=dict)
    enumerations: dict[str, Enumeration] = field(default_factory=dict)
    aliases: dict[str, Type] = field(default_factory=dict)
    classes: dict[str, Attributes] = field(default_factory=dict)
    library: Attributes = field(default_factory=dict)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def parse(text: str, where: str = "IDL") -> Document:
    if len(text) > _LONGEST:
        raise BadConfiguration(f"{len(text)} characters, at most {_LONGEST} are read", where=where)
    return _Parser(list(_tokens(text)), where).document()


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "mark"
        if kind != "space":
            yield _Token(kind, match[0], line)
        line += match[0].count("\n")
    yield _Token("end", "the end of the file", line)


class _Parser:
    def __init__(self, tokens: list[_Token], where: str) -> None:
        self._tokens = tokens
        self._at = 0
        self._where = where
        self._found = Document()

    def document(self) -> Document:
        while self._now.kind != "end":
            self._definition()
        return self._found

    # Tokens

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _fail(self, wanted: str) -> NoReturn:
        raise BadConfiguration(f"{wanted} expected, {self._now.text!r} found",
                               where=f"{self._where}, line {self._now.line}",
                               remedy="the importer reads interfaces, dispinterfaces, coclasses, enums and structs")

    def _next(self) -> _Token:
        token = self._now
        if token.kind == "end":
            self._fail("more")
        self._at += 1
        return token

    def _is(self, text: str) -> bool:
        return self._now.text == text and self._now.kind in ("word", "mark")

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail(repr(text))

    def _word(self) -> str:
        if self._now.kind != "word":
            self._fail("a name")
        return self._next().text

    def _skip_to(self, text: str) -> None:
        while not self._accept(text):
            self._next()

    # Definitions

    def _definition(self) -> None:
        attributes = self._attributes()
        if self._now.kind != "word":
            self._fail("a definition")
        keyword = self._next().text
        known: dict[str, Callable[[], None]] = {
            "import": lambda: self._skip_to(";"), "importlib": lambda: self._skip_to(";"),
            "cpp_quote": lambda: self._skip_to(")"), "midl_pragma": lambda: self._skip_to(")"),
            "library": lambda: self._library(attributes), "interface": lambda: self._interface(attributes),
            "dispinterface": lambda: self._dispinterface(attributes), "coclass": lambda: self._coclass(attributes),
            "typedef": self._typedef, "enum": lambda: self._tagged("enum", attributes),
            "struct": lambda: self._tagged("struct", attributes),
        }  # fmt: skip
        if keyword not in known:
            self._at -= 1
            self._fail("a definition")
        known[keyword]()
        self._accept(";")

    def _attributes(self) -> Attributes:
        found: Attributes = {}
        while self._accept("["):
            while not self._accept("]"):
                name = self._word()
                found[name] = self._parenthesis() if self._is("(") else ""
                if not self._is("]"):
                    self._expect(",")
        return found

    def _parenthesis(self) -> str:
        self._expect("(")
        depth, parts = 1, []
        while depth:
            token = self._next()
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            parts.append(token.text)
        return "".join(parts[:-1])

    def _library(self, attributes: Attributes) -> None:
        self._word()
        self._found.library = attributes
        self._expect("{")
        while not self._accept("}"):
            self._definition()

    def _interface(self, attributes: Attributes) -> None:
        name = self._word()
        if self._is(";"):
            return
        base = self._word() if self._accept(":") else ""
        self._expect("{")
        methods = []
        while not self._accept("}"):
            if self._is("typedef") or self._is("cpp_quote") or self._is("import"):
                self._definition()
            else:
                methods.append(self._method())
        self._add(self._found.interfaces, name, Interface(name, base, attributes, tuple(methods)))

    def _dispinterface(self, attributes: Attributes) -> None:
        name = self._word()
        if self._is(";"):
            return
        self._expect("{")
        methods: list[Method] = []
        if self._accept("interface"):
            of = self._word()
            self._expect(";")
            if of not in self._found.interfaces:
                self._fail(f"the definition of {of} in front")
            methods = list(self._found.interfaces[of].methods)
        section = ""
        while not self._accept("}"):
            if self._is("properties") or self._is("methods"):
                section = self._next().text
                self._expect(":")
            elif section == "properties":
                methods.append(self._property())
            else:
                methods.append(self._method())
        self._add(self._found.interfaces, name, Interface(name, "IDispatch", attributes, tuple(methods), True))

    def _property(self) -> Method:
        """A variable of a dispinterface: what can be recorded of it is that it is set."""
        line, attributes = self._now.line, self._attributes()
        kind, name = self._type(), self._word()
        self._expect(";")
        value = Parameter("value", kind, {"in": ""})
        put = "" if "readonly" in attributes else "propput"
        return Method(name, Type("void"), (value,) if put else (), attributes | ({put: ""} if put else {"propget": ""}),
                      line)

    def _method(self) -> Method:
        line, attributes = self._now.line, self._attributes()
        result = self._type()
        while self._now.text in ("STDMETHODCALLTYPE", "__stdcall", "_stdcall", "stdcall", "__cdecl"):
            self._next()
        name = self._word()
        self._expect("(")
        parameters: list[Parameter] = []
        if self._is("void") and self._tokens[self._at + 1].text == ")":
            self._next()
        while not self._accept(")"):
            parameters.append(self._parameter(len(parameters)))
            if not self._is(")"):
                self._expect(",")
        self._expect(";")
        return Method(name, result, tuple(parameters), attributes, line)

    def _parameter(self, place: int) -> Parameter:
        attributes = self._attributes()
        kind = self._type()
        name = self._word() if self._now.kind == "word" else f"argument_{place}"
        return Parameter(name, self._array_of(kind), attributes)

    def _array_of(self, kind: Type) -> Type:
        is_array = False
        while self._accept("["):
            self._skip_to("]")
            is_array = True
        return Type(kind.name, kind.pointers, kind.element, is_array) if is_array else kind

    def _type(self) -> Type:
        while self._accept("const"):
            pass
        if self._accept("SAFEARRAY"):
            self._expect("(")
            element = self._type()
            self._expect(")")
            return Type("SAFEARRAY", self._stars(), element)
        if self._now.text in ("struct", "enum", "interface", "dispinterface"):
            self._next()
        words = [self._word()]
        if words[0] in _BASES:
            while self._now.text in _BASES:
                words.append(self._next().text)
        return Type(" ".join(words), self._stars())

    def _stars(self) -> int:
        count = 0
        while self._is("*") or self._is("const"):
            count += self._next().text == "*"
        return count

    def _coclass(self, attributes: Attributes) -> None:
        name = self._word()
        if self._is(";"):
            return
        self._expect("{")
        self._skip_to("}")
        self._add(self._found.classes, name, attributes)

    def _typedef(self) -> None:
        attributes = self._attributes()
        if self._is("struct") or self._is("enum"):
            keyword = self._next().text
            tag = self._word() if self._now.kind == "word" else ""
            if self._is("{"):
                body = self._body(keyword)
                name = self._word() if self._now.kind == "word" else tag
                self._define(keyword, name, attributes, body)
                if tag and tag != name:
                    self._found.aliases[tag] = Type(name)
                while self._accept(","):  # pointer names
                    self._type()
                return
            self._found.aliases[self._word()] = Type(tag, self._stars())
            return
        kind = self._type()
        self._found.aliases[self._word()] = self._array_of(kind)

    def _tagged(self, keyword: str, attributes: Attributes) -> None:
        name = self._word()
        if self._is("{"):
            self._define(keyword, name, attributes, self._body(keyword))

    def _body(self, keyword: str) -> tuple[Parameter, ...] | tuple[tuple[str, int], ...]:
        self._expect("{")
        if keyword == "struct":
            members: list[Parameter] = []
            while not self._accept("}"):
                attributes = self._attributes()
                kind, name = self._type(), self._word()
                members.append(Parameter(name, self._array_of(kind), attributes))
                self._expect(";")
            return tuple(members)
        values: list[tuple[str, int]] = []
        while not self._accept("}"):
            self._attributes()
            name = self._word()
            value = self._value(dict(values)) if self._accept("=") else values[-1][1] + 1 if values else 0
            values.append((name, value))
            if not self._is("}"):
                self._expect(",")
        return tuple(values)

    def _value(self, known: dict[str, int]) -> int:
        negative = self._accept("-")
        token = self._next()
        if token.kind == "word" and token.text in known:
            number = known[token.text]
        else:
            try:
                number = int(token.text.rstrip("uUlL"), 0)
            except ValueError:
                self._at -= 1
                self._fail("a number")
        return -number if negative else number

    def _define(self, keyword: str, name: str, attributes: Attributes,
                body: tuple[Parameter, ...] | tuple[tuple[str, int], ...]) -> None:
        if not name:
            self._fail("a name")
        if keyword == "struct":
            self._add(self._found.structures, name, Structure(name, attributes, body))  # type: ignore[arg-type]
        else:
            self._add(self._found.enumerations, name, Enumeration(name, attributes, body))  # type: ignore[arg-type]

    def _add(self, table: dict[str, T], name: str, value: T) -> None:
        if name in table:
            self._fail(f"another name than {name}")
        table[name] = value


def guid_of(attributes: Attributes) -> str | None:
    match = _GUID.search(attributes.get("uuid", ""))
    return match[0].lower() if match else None
