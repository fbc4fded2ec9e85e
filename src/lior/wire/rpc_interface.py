"""Interfaces, methods and the two stubs of each: what a request or a response holds, and its bytes.

A method is a list of parameters; the request has the [in] ones, the response the [out] ones and "result", the value
that the method returns. Values are as `lior.wire.ndr_types` describes them, context handles 20 bytes.
"""

import struct
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from lior.errors import InvalidParameter, Malformed
from lior.wire.ndr import NDR, NdrWriter, Syntax
from lior.wire.ndr_types import U32, Read, Type, Write


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: Type
    is_in: bool
    is_out: bool


def In(name: str, type: Type) -> Parameter:  # noqa: N802 - as in the IDL
    return Parameter(name, type, True, False)


def Out(name: str, type: Type) -> Parameter:  # noqa: N802 - as in the IDL
    return Parameter(name, type, False, True)


def InOut(name: str, type: Type) -> Parameter:  # noqa: N802 - as in the IDL
    return Parameter(name, type, True, True)


class Codec:
    """One direction of one method.

    The count of an [out] array is often a parameter of the request: give the decoded `request` to `encode` and
    `decode` of its response, and the array is filled to that count, or held to it. Without it any count goes.
    """

    def __init__(self, name: str, parameters: Sequence[tuple[str, Type]], request: "Codec | None" = None) -> None:
        self.name = name
        self.fields: tuple[str, ...] = tuple(field for field, _ in parameters)
        self._parameters = tuple(parameters)
        self._request = request
        self._make: Any = namedtuple(name.replace(" ", "_"), self.fields)  # type: ignore[misc]
        self._bound: dict[Syntax, _Bound] = {}

    def encode(self, values: Sequence[Any], request: Sequence[Any] | None = None, syntax: Syntax = NDR) -> bytes:
        return self._write(values, request, syntax).to_bytes()

    def encode_parts(self, values: Sequence[Any], request: Sequence[Any] | None = None,
                     syntax: Syntax = NDR) -> list[bytes | bytearray | memoryview]:
        """The stub in pieces: a large array is not copied."""
        return self._write(values, request, syntax).to_parts()

    def decode(self, stub: bytes | memoryview, request: Sequence[Any] | None = None, syntax: Syntax = NDR) -> Any:
        """A named tuple of the fields. Views of large arrays refer to the stub."""
        bound = self._bound.get(syntax) or self._bind(syntax)
        reader = syntax.reader(stub, 0, self.name)
        owner = [] if not bound.outer else [None] * bound.outer if request is None else list(request)
        try:
            for read in bound.reads:
                owner.append(read(reader, owner))
        except (struct.error, IndexError):
            raise Malformed(f"truncated at offset {reader.at}", where=self.name) from None
        reader.end()
        return self._make._make(owner[bound.outer:] if bound.outer else owner)

    def _write(self, values: Sequence[Any], request: Sequence[Any] | None, syntax: Syntax) -> NdrWriter:
        bound = self._bound.get(syntax) or self._bind(syntax)
        writer = syntax.writer()
        owner = values if not bound.outer else [*(request or [None] * bound.outer), *values]
        try:
            for write, value in zip(bound.writes, values, strict=True):
                write(writer, value, owner)
        except (struct.error, TypeError, AttributeError, ValueError) as error:
            raise InvalidParameter(f"{type(error).__name__}: {error}"[:200], where=self.name,
                                   remedy="give values of the types and ranges of the IDL") from None
        return writer

    def _bind(self, syntax: Syntax) -> "_Bound":
        try:
            self._bound[syntax] = bound = self._bound_with((), syntax)
        except KeyError:  # a count is a parameter of the request
            if self._request is None:
                raise
            self._bound[syntax] = bound = self._bound_with(self._request.fields, syntax)
        return bound

    def _bound_with(self, outer: Sequence[str], syntax: Syntax) -> "_Bound":
        names = {name: index for index, name in enumerate((*outer, *self.fields))}
        bound = [type.bind(syntax, names) for _, type in self._parameters]
        return _Bound(tuple(each.read for each in bound), tuple(each.write for each in bound), len(outer))


@dataclass(slots=True)
class _Bound:
    """A codec in one syntax. The parameters are the owner of the counts, behind `outer` ones of the request."""

    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    outer: int


@dataclass(frozen=True, slots=True)
class Method:
    opnum: int
    name: str
    request: Codec
    response: Codec


@dataclass(frozen=True, slots=True)
class Interface:
    """`opnums` counts the reserved ones too: those below it that `methods` does not have."""

    name: str
    uuid: UUID
    version: tuple[int, int]
    opnums: int
    methods: Mapping[int, Method]
    syntaxes: tuple[Syntax, ...] = (NDR,)


def method(opnum: int, name: str, *parameters: Parameter, result: Type | None = U32) -> Method:
    """HRESULT and DWORD are the same on the wire; a void method has no result."""
    request = Codec(f"{name} request", [(each.name, each.type) for each in parameters if each.is_in])
    outs = [(each.name, each.type) for each in parameters if each.is_out]
    if result is not None:
        outs.append((RESULT, result))
    return Method(opnum, name, request, Codec(f"{name} response", outs, request))


def interface(name: str, uuid: str, version: tuple[int, int], opnums: int, *methods: Method,
              syntaxes: tuple[Syntax, ...] = (NDR,)) -> Interface:
    return Interface(name, UUID(uuid), version, opnums, {each.opnum: each for each in methods}, syntaxes)


RESULT: Final = "result"
