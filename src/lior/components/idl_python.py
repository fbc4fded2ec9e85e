"""Python interfaces from IDL: what `lior component import` writes.

Numbers are pinned, so that leaving a method out moves no other. What cannot be recorded stays as a comment that says
why.
"""

from __future__ import annotations

import keyword
import re
from typing import Final

from lior.components import idl
from lior.components.idl import Document, Interface, Method, Parameter, Type, guid_of
from lior.errors import BadConfiguration

_SCALARS: Final = {
    "char": "Char", "signed char": "Char", "small": "Char", "unsigned char": "Byte", "byte": "Byte", "BYTE": "Byte",
    "short": "Short", "short int": "Short", "unsigned short": "UShort", "int": "Int", "unsigned int": "UInt",
    "unsigned": "UInt", "signed int": "Int", "INT": "Int", "UINT": "UInt", "SHORT": "Short", "USHORT": "UShort",
    "WORD": "UShort", "long": "Long", "long int": "Long", "LONG": "Long", "unsigned long": "ULong", "ULONG": "ULong",
    "DWORD": "ULong", "hyper": "Hyper", "__int64": "Hyper", "LONGLONG": "Hyper", "unsigned hyper": "UHyper",
    "unsigned __int64": "UHyper", "ULONGLONG": "UHyper", "float": "Single", "FLOAT": "Single", "double": "float",
    "DOUBLE": "float", "BSTR": "str | None", "VARIANT_BOOL": "bool", "CURRENCY": "Currency", "CY": "Currency",
    "DATE": "Date", "DECIMAL": "Dec", "Decimal": "Dec", "SCODE": "SCode", "HRESULT": "SCode", "VARIANT": "Any",
}  # fmt: skip
_UNWORDED: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ROOTS: Final = {"IUnknown": 3, "IDispatch": 7}


class _Unknown(Exception):
    """A type, or a parameter, that no recorded call has."""


def python_of(document: Document, source: str) -> str:
    """The text of a module."""
    return _Writer(document, source).text()


def snake(name: str) -> str:
    return _safe(_UNWORDED.sub("_", name).lower().lstrip("_") or "value")


def _safe(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


class _Writer:
    def __init__(self, document: Document, source: str) -> None:
        self._document = document
        self._source = re.sub(r"[^\w. -]", "_", source)  # it stands in the module's first line
        self._used: set[str] = {"interface"}
        self._enum_widths = {name: "Enum32" if "v1_enum" in each.attributes else "Enum16"
                             for name, each in document.enumerations.items()}

    def text(self) -> str:
        body = [*self._classes(), *self._enumerations(), *self._structures(), *self._interfaces()]
        if not any(line.startswith("@interface") for line in body):
            raise BadConfiguration("it defines no interface that can be recorded", where=self._source)
        return "\n".join([*self._head(), *body]).rstrip() + "\n"

    def _head(self) -> list[str]:
        imports = ["from typing import Any"] if "Any" in self._used else []
        if "record" in self._used:
            imports.insert(0, "from dataclasses import dataclass")
        if self._document.enumerations:
            imports.insert(1 if "record" in self._used else 0, "from enum import IntEnum")
        known = ", ".join(sorted(self._used - {"Any"}, key=lambda name: (not name.isupper(), name[0].islower(), name)))
        return [f'"""Interfaces of {self._source}, written by `lior component import`: change the IDL instead."""', "",
                *imports, *([""] if imports else []), f"from lior.components import {known}"]

    def _classes(self) -> list[str]:
        lines = [""]
        for name, attributes in self._document.classes.items():
            guid = guid_of(attributes)
            if guid:
                lines.append(f'{snake(name).upper()} = "{{{guid}}}"')
        return lines if len(lines) > 1 else []

    def _enumerations(self) -> list[str]:
        lines: list[str] = []
        for each in self._document.enumerations.values():
            lines += ["", "", f"class {each.name}(IntEnum):"]
            lines += [f"    {_safe(name)} = {value}" for name, value in each.members]
        return lines

    def _structures(self) -> list[str]:
        lines: list[str] = []
        library = guid_of(self._document.library)
        for each in self._document.structures.values():
            guid = guid_of(each.attributes)
            try:
                if guid is None:
                    raise _Unknown("it has no uuid")
                members = [f"    {snake(member.name)}: {self._annotation(member.type, automation=True)}"
                           for member in each.members]
            except _Unknown as error:
                lines += ["", "", f"# struct {each.name} cannot be recorded: {error}"]
                continue
            self._used.add("record")
            more = f', library="{{{library}}}"' if library else ""
            lines += ["", "", f'@record("{{{guid}}}"{more})', "@dataclass", f"class {each.name}:", *members]
        return lines

    # Interfaces

    def _interfaces(self) -> list[str]:
        lines: list[str] = []
        numbers: dict[str, int] = dict(_ROOTS)
        for each in self._document.interfaces.values():
            base = each.base or "IUnknown"
            if base not in numbers:
                lines += ["", "", f"# interface {each.name}: its base {base} is not in this file"]
                continue
            numbers[each.name] = numbers[base] + len(each.methods)
            lines += self._interface(each, numbers[base])
        return lines

    def _interface(self, each: Interface, number: int) -> list[str]:
        guid = guid_of(each.attributes)
        if guid is None:
            return ["", "", f"# interface {each.name} has no uuid"]
        automation = each.is_dispatch_only or bool({"oleautomation", "dual"} & each.attributes.keys())
        body: list[str] = []
        for at, method in enumerate(each.methods):
            try:
                body += self._method(each, method, number + at, automation)
            except _Unknown as error:
                body += ["", f"    # {number + at} {method.name}: {error}"]
        if not any(line.startswith("    def ") for line in body):
            return ["", "", f"# interface {each.name} has no method that can be recorded", *body]
        own = self._document.interfaces.get(each.base)
        base = "" if own is not None else f', base="{each.base or "IUnknown"}"'
        parent = f"({own.name})" if own is not None else ""
        return ["", "", f'@interface("{{{guid}}}"{base})', f"class {each.name}{parent}:", *body[1:]]

    def _method(self, each: Interface, method: Method, number: int, automation: bool) -> list[str]:
        if {"propget", "local", "call_as", "restricted"} & method.attributes.keys():
            raise _Unknown("it answers something" if "propget" in method.attributes else "it is not called remotely")
        if method.result.pointers or method.result.name not in ("HRESULT", "SCODE", "void"):
            raise _Unknown(f"it answers {method.result}")
        identifier = method.attributes.get("id")
        parameters = [self._parameter(one, automation, identifier is not None, "vararg" in method.attributes
                                      and one is method.parameters[-1]) for one in method.parameters]
        defaults = ["=" in one for one in parameters if not one.startswith("*")]
        if defaults != sorted(defaults):
            raise _Unknown("a parameter that is needed stands behind one that is not")
        lines = [""]
        if not each.is_dispatch_only:
            self._used.add("opnum")
            lines.append(f"    @opnum({number})")
        if identifier is not None:
            self._used.add("dispid")
            lines.append(f"    @dispid({_number(identifier)})")
        for put in ("propput", "propputref"):
            if put in method.attributes:
                self._used.add(put)
                lines.append(f"    @{put}")
        return [*lines, f"    def {snake(method.name)}({', '.join(['self', *parameters])}) -> None: ..."]

    def _parameter(self, one: Parameter, automation: bool, has_dispid: bool, is_last_of_vararg: bool) -> str:
        attributes = one.attributes
        name = snake(one.name)
        if "retval" in attributes or ("out" in attributes and "in" not in attributes):
            raise _Unknown(f"it has a result, {one.name}")
        for word in ("string", "size_is", "length_is", "iid_is", "switch_is", "max_is"):
            if word in attributes:
                raise _Unknown(f"{one.name} is [{word}]")
        if is_last_of_vararg:
            self._used.add("Any")
            return f"*{name}: Any"
        if "lcid" in attributes and has_dispid:
            self._used.add("Locale")
            return f"{name}: Locale = 0x0409"
        if "out" in attributes:
            if not has_dispid:
                raise _Unknown(f"{one.name} comes back")
            self._used.add("ByRef")
            inner = Type(one.type.name, max(one.type.pointers - 1, 0), one.type.element, one.type.is_array)
            return f"{name}: ByRef[{self._annotation(inner, automation=True)}]"
        text = f"{name}: {self._annotation(one.type, automation=automation)}"
        if "defaultvalue" in attributes:
            return f"{text} = {_default(attributes['defaultvalue'])}"
        if "optional" in attributes and has_dispid:
            self._used.add("MISSING")
            return f"{text} = MISSING"  # type checkers: a marker, not a value of the type
        return text

    def _annotation(self, kind: Type, *, automation: bool, depth: int = 0) -> str:
        if depth > 16:
            raise _Unknown(f"{kind} is an alias of itself")
        if kind.is_array:
            raise _Unknown(f"{kind} is a C array")
        document = self._document
        if kind.name in document.aliases:
            known = document.aliases[kind.name]
            return self._annotation(Type(known.name, known.pointers + kind.pointers, known.element, known.is_array),
                                    automation=automation, depth=depth + 1)
        if kind.name in ("IUnknown", "IDispatch") or kind.name in document.interfaces:
            if kind.pointers != 1:
                raise _Unknown(f"{kind} is no object")
            own = document.interfaces.get(kind.name)
            is_dispatch = kind.name == "IDispatch" or (own is not None and (own.is_dispatch_only
                                                                            or "dual" in own.attributes))
            return self._use("DispatchObject" if is_dispatch else "Object")
        if kind.pointers > 1:
            raise _Unknown(f"{kind} is a pointer to a pointer")
        if kind.element is not None:
            return f"list[{self._annotation(kind.element, automation=True, depth=depth + 1)}] | None"
        if kind.name == "boolean":
            return "bool" if automation else self._use("PlainBoolean")
        if kind.name in self._enum_widths:
            return f"{self._use(self._enum_widths[kind.name])}[{kind.name}]"
        if kind.name in document.structures and guid_of(document.structures[kind.name].attributes):
            return kind.name
        if kind.name not in _SCALARS:
            raise _Unknown(f"{kind} is no type of a recorded call")
        return self._use(_SCALARS[kind.name])

    def _use(self, name: str) -> str:
        if name[0].isupper():
            self._used.add(name)
        return name


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise _Unknown(f"its id is {text!r}, no number") from None
    return value - (1 << 32) if value >= 1 << 31 else value


def _default(text: str) -> str:
    text = text.removeprefix("L")
    if text.startswith('"'):
        return repr(text[1:-1])
    folded = {"VARIANT_TRUE": "True", "TRUE": "True", "VARIANT_FALSE": "False", "FALSE": "False", "NULL": "None"}
    if text in folded:
        return folded[text]
    try:
        return repr(float(text)) if "." in text else repr(int(text, 0))
    except ValueError:
        raise _Unknown(f"a default of {text!r}") from None


def import_text(text: str, source: str) -> str:
    """The module for the text of an IDL file."""
    return python_of(idl.parse(text, source), source)
