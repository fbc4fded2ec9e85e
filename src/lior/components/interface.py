"""Interfaces whose calls can be recorded, written as Python classes and checked when they are defined.

    @interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31}")
    class IOrderSink:
        def place_order(self, order_id: Long, customer: str, amount: float) -> None: ...
        @dispid(7)
        def add_lines(self, warehouse: Short, quantities: list[Long], urgent: bool) -> None: ...

Method numbers follow the order of the source, from 3 (base IUnknown) or 7 (base IDispatch), behind those of an
inherited interface; `@opnum` pins one. A method with `@dispid` can also be recorded in the dispatch form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from lior.components.annotations import BY_REFERENCE, LOCALE, caller_names, guid, hints, split, type_of
from lior.errors import NotQueueable
from lior.wire.automation import MISSING
from lior.wire.automation_dispatch import DEFAULT_LCID, IID_IDISPATCH, METHOD, PROPERTY_PUT, PROPERTY_PUT_REFERENCE
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter
from lior.wire.automation_variants import ANY

T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
Base = Literal["IUnknown", "IDispatch"]

FIRST_NUMBER: Final[dict[str, int]] = {"IUnknown": 3, "IDispatch": 7}
_INTERFACE = "__component_interface__"
_OPNUM, _DISPID, _PUT = "__component_opnum__", "__component_dispid__", "__component_put__"
NONE: Final = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: AutomationType
    by_reference: bool = False
    is_locale: bool = False
    is_variadic: bool = False
    default: Any = NONE


@dataclass(frozen=True)
class Method:
    """One method: how its calls are numbered and what they carry."""

    name: str
    number: int
    parameters: tuple[Parameter, ...]
    dispid: int | None = None
    invocation_kind: int = METHOD  # or a property to put
    defaults: tuple[Any, ...] = field(default=(), compare=False)  # of the last parameters

    @property
    def has_ndr_form(self) -> bool:
        return not any(each.by_reference or each.is_variadic for each in self.parameters)

    @property
    def extensions(self) -> list[str]:
        """Parameters of types that VARIANTs have and interfaces strictly have not."""
        return [each.name for each in self.parameters if each.kind.extension]

    def bind(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter, as Python binds them."""
        wanted = len(self.parameters)
        if not named and len(arguments) == wanted and not (wanted and self.parameters[-1].is_variadic):
            return arguments
        bound: list[Any] = []
        rest = dict(named)
        for index, each in enumerate(self.parameters):
            if each.is_variadic:
                bound.append(list(arguments[index:]))
                arguments = arguments[:index]
            elif index < len(arguments):
                if each.name in rest:
                    raise TypeError(f"{self.name}() got {each.name} twice")
                bound.append(arguments[index])
            elif each.name in rest:
                bound.append(rest.pop(each.name))
            elif each.default is not NONE:
                bound.append(each.default)
            else:
                raise TypeError(f"{self.name}() is missing {each.name}")
        if rest or len(arguments) > wanted:
            raise TypeError(f"{self.name}() takes {wanted} arguments: {', '.join(p.name for p in self.parameters)}")
        return tuple(bound)

    def write(self, writer: AutomationWriter, values: tuple[Any, ...]) -> None:
        """The NDR form (2.2.6.1.1)."""
        if not self.has_ndr_form:
            raise NotQueueable("a method with arguments by reference has no NDR form", where=self.name,
                               remedy="record it with Recorder.dispatch")
        for each, value in zip(self.parameters, values, strict=True):
            if value is MISSING and each.default is MISSING:
                raise NotQueueable(f"{each.name} cannot be left out of the NDR form", where=self.name,
                                   remedy="pass it, or record the call with Recorder.dispatch")
            each.kind.write_parameter(writer, value)

    def read(self, reader: AutomationReader) -> tuple[Any, ...]:
        """Octets behind the last parameter are nobody's (2.2.6.1.4)."""
        return tuple([each.kind.read_parameter(reader) for each in self.parameters])


@dataclass(frozen=True)
class Interface:
    name: str
    iid: UUID
    base: str
    methods: Mapping[int, Method]  # by number

    def __post_init__(self) -> None:
        by_name = {method.name: method for method in self.methods.values()}
        by_dispid = {method.dispid: method for method in self.methods.values() if method.dispid is not None}
        object.__setattr__(self, "by_name", by_name)
        object.__setattr__(self, "by_dispid", by_dispid)

    by_name: Mapping[str, Method] = field(init=False, compare=False, repr=False)
    by_dispid: Mapping[int, Method] = field(init=False, compare=False, repr=False)

    def named(self, name: str) -> Method | None:
        """As IDispatch::GetIDsOfNames finds a member: without case, and here, never by a message."""
        wanted = name.replace("_", "").casefold()
        return self.by_name.get(name) or next(
            (method for known, method in self.by_name.items() if known.replace("_", "").casefold() == wanted), None)

    @property
    def kinds(self) -> list[AutomationType]:
        return [each.kind for method in self.methods.values() for each in method.parameters]


def interface_of(kind: Any) -> Interface:
    found = getattr(kind, "__dict__", {}).get(_INTERFACE)
    if not isinstance(found, Interface):
        raise NotQueueable("it is no interface", where=getattr(kind, "__name__", repr(kind)),
                           remedy='mark the class with @interface("{iid}")')
    return found


def opnum(number: int) -> Callable[[F], F]:
    """Pins a method's number; those behind it go on from there."""
    return _marking(_OPNUM, number)


def dispid(number: int) -> Callable[[F], F]:
    """Gives a method a dispatch form."""
    return _marking(_DISPID, number)


def propput(function: F) -> F:
    """Sets a property: the last parameter is its value."""
    return _marking(_PUT, PROPERTY_PUT)(function)


def propputref(function: F) -> F:
    """Sets a property to an object."""
    return _marking(_PUT, PROPERTY_PUT_REFERENCE)(function)


def _marking(name: str, value: int) -> Callable[[F], F]:
    def mark(function: F) -> F:
        setattr(function, name, value)
        return function

    return mark


def interface(identifier: str | UUID, base: Base | None = None) -> Callable[[T], T]:
    """A class as an interface. `base` is IUnknown, or IDispatch where a dispatch form is wanted of all methods."""
    names = caller_names()

    def mark(cls: T) -> T:
        setattr(cls, _INTERFACE, _described(cls, identifier, base, names))
        return cls

    return mark


def _described(cls: type, identifier: str | UUID, base: Base | None, names: Mapping[str, Any]) -> Interface:
    where = cls.__name__
    iid = guid(identifier, where)
    if iid == IID_IDISPATCH:
        raise NotQueueable("IDispatch itself is not defined anew", where=where, remedy="use base='IDispatch'")
    inherited = [parent.__dict__[_INTERFACE] for parent in cls.__bases__ if _INTERFACE in parent.__dict__]
    if len(inherited) > 1:
        raise NotQueueable("it inherits from several interfaces", where=where)
    parent: Interface | None = inherited[0] if inherited else None
    chosen = base or (parent.base if parent else "IUnknown")
    if chosen not in FIRST_NUMBER or (parent is not None and parent.base != chosen):
        raise NotQueueable(f"{chosen} is no base of it", where=where, remedy="IUnknown or IDispatch")
    methods: dict[int, Method] = dict(parent.methods) if parent else {}
    number = max([FIRST_NUMBER[chosen] - 1, *methods]) + 1
    for name, function in cls.__dict__.items():
        if not inspect.isfunction(function) or name.startswith("_"):
            continue
        number = getattr(function, _OPNUM, number)
        method = _method(function, number, f"{where}.{name}", names)
        if number in methods or number < FIRST_NUMBER[chosen]:
            raise NotQueueable(f"number {number} is taken", where=f"{where}.{name}")
        if any(method.name == other.name or (method.dispid is not None and method.dispid == other.dispid)
               for other in methods.values()):
            raise NotQueueable("its name or its dispid is taken", where=f"{where}.{name}")
        methods[number] = method
        number += 1
    if not methods:
        raise NotQueueable("it has no methods", where=where)
    return Interface(where, iid, chosen, methods)


def _method(function: Callable[..., Any], number: int, where: str, names: Mapping[str, Any]) -> Method:
    known = hints(function, where, names)
    if known.pop("return", None) is not type(None):
        raise NotQueueable("a recorded call has no result", where=where, remedy="annotate it with -> None, and let "
                           "the other side answer by a call of its own")
    signature = list(inspect.signature(function).parameters.values())[1:]
    parameters = tuple(_parameter(each, known, where) for each in signature)
    identifier: int | None = getattr(function, _DISPID, None)
    kind: int = getattr(function, _PUT, METHOD)
    if identifier is None:
        for each in parameters:
            if each.by_reference or each.is_variadic or each.is_locale:
                raise NotQueueable(f"{each.name} exists in the dispatch form only", where=where,
                                   remedy="give the method a @dispid")
        if kind != METHOD:
            raise NotQueueable("a property is put in the dispatch form", where=where, remedy="give it a @dispid")
    if kind != METHOD and (not parameters or parameters[-1].is_variadic or parameters[-1].is_locale):
        raise NotQueueable("a property needs a value, its last parameter", where=where)
    if identifier is not None and not -(1 << 31) <= identifier < 1 << 31:
        raise NotQueueable(f"{identifier} is no dispid", where=where)
    return Method(function.__name__, number, parameters, identifier, kind)


def _parameter(each: inspect.Parameter, known: Mapping[str, Any], where: str) -> Parameter:
    place = f"{where}({each.name})"
    if each.name not in known:
        raise NotQueueable("it has no annotation", where=place)
    if each.kind is each.VAR_POSITIONAL:
        if known[each.name] is not Any:
            raise NotQueueable("further arguments are VARIANTs", where=place, remedy="annotate them with Any")
        return Parameter(each.name, ANY, is_variadic=True)
    if each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
        raise NotQueueable("it cannot be passed by position", where=place)
    _, marks = split(known[each.name])
    is_locale = LOCALE in marks
    default = DEFAULT_LCID if is_locale and each.default is NONE else each.default
    return Parameter(each.name, type_of(known[each.name], place), BY_REFERENCE in marks, is_locale, default=default)
