"""Type stubs for editors: the recorded interface with plain Python types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lior.components.interface import NONE, Interface, Method, Parameter
from lior.wire import automation as at
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_objects import InterfacePointer
from lior.wire.automation_records import RecordType
from lior.wire.automation_types import AutomationType, Enumeration

_INTEGERS: Final = frozenset({at.VT_I1, at.VT_UI1, at.VT_I2, at.VT_UI2, at.VT_I4, at.VT_UI4, at.VT_INT, at.VT_UINT,
                              at.VT_I8, at.VT_UI8, at.VT_ERROR})
_TEXTS: Final = {at.VT_R4: "float", at.VT_R8: "float", at.VT_BOOL: "bool", at.VT_BSTR: "str | bytes | None",
                 at.VT_DATE: "datetime", at.VT_CY: "Decimal", at.VT_DECIMAL: "Decimal", at.VT_VARIANT: "Any"}


def stub_of(interfaces: Iterable[Interface]) -> str:
    """The text of a .pyi file."""
    lines: list[str] = []
    classes: set[str] = set()
    for each in interfaces:
        lines += ["", "", f"class {each.name}:"]
        for number in sorted(each.methods):
            method = each.methods[number]
            lines.append(f"    def {method.name}({', '.join(['self', *_parameters(method, classes)])}) -> None: ...")
    head = ["from typing import Any"]
    text = "\n".join(lines)
    if "datetime" in text:
        head.insert(0, "from datetime import datetime")
    if "Decimal" in text:
        head.insert(-1, "from decimal import Decimal")
    opaque = [f"class {name}: ..." for name in sorted(classes)]
    return "\n".join([*head, *([""] if opaque else []), *opaque, text]) + "\n"


def _parameters(method: Method, classes: set[str]) -> list[str]:
    return [_parameter(each, classes) for each in method.parameters]


def _parameter(each: Parameter, classes: set[str]) -> str:
    if each.is_variadic:
        return f"*{each.name}: Any"
    text = f"{each.name}: {'int' if each.is_locale else _text(each.kind, classes)}"
    return text if each.default is NONE else f"{text} = ..."


def _text(kind: AutomationType, classes: set[str]) -> str:
    if isinstance(kind, SafeArrayType):
        inner = _text(kind.element, classes)
        for _ in range(kind.dimensions):
            inner = f"list[{inner}]"
        return f"{inner} | bytes | None" if kind.element.vt == at.VT_UI1 else f"{inner} | None"
    if isinstance(kind, Enumeration | RecordType):
        classes.add(kind.kind.__name__)
        return kind.kind.__name__
    if isinstance(kind, InterfacePointer):
        if kind.kind is None:
            return "Any"
        classes.add(kind.kind.__name__)
        return f"{kind.kind.__name__} | None"
    return "int" if kind.vt in _INTEGERS else _TEXTS[kind.vt]
