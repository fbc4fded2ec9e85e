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
        self._bound: dict[Syntax, tuple[tuple[Read, ...], tuple[Write, ...]]] = {}

    def encode(self, values: Sequence[Any], request: Sequence[Any] | None = None, syntax: Syntax = NDR) -> bytes:
        return self._write(values, request, syntax).to_bytes()

    def encode_parts(self, values: Sequence[Any], request: Sequence[Any] | None = None,
                     syntax: Syntax = NDR) -> list[bytes | bytearray | memoryview]:
        """The stub in pieces: a large array is not copied."""
        return self._write(values, request, syntax).to_parts()

    def decode(self, stub: bytes | memoryview, request: Sequence[Any] | None = None, syntax: Syntax = NDR) -> Any:
        """A named tuple of the fields. Views of large arrays refer to the stub."""
        reader = syntax.reader(stub, 0, self.name)
        owner = self._outer(request)
        first = len(owner)
        try:
            for read in (self._bound.get(syntax) or self._bind(syntax))[0]:
                owner.append(read(reader, owner))
        except struct.error:
            raise Malformed(f"truncated at offset {reader.at}", where=self.name) from None
        reader.end()
        return self._make._make(owner[first:] if first else owner)

    def _write(self, values: Sequence[Any], request: Sequence[Any] | None, syntax: Syntax) -> NdrWriter:
        writer = syntax.writer()
        owner = [*self._outer(request), *values]
        try:
            for write, value in zip((self._bound.get(syntax) or self._bind(syntax))[1], values, strict=True):
                write(writer, value, owner)
        except (struct.error, TypeError, AttributeError, ValueError) as error:
            raise InvalidParameter(f"{type(error).__name__}: {error}"[:200], where=self.name,
                                   remedy="give values of the types and ranges of the IDL") from None
        return writer

    def _outer(self, request: Sequence[Any] | None) -> list[Any]:
        """The parameters of the request, before those of the response."""
        if self._request is None:
            return []
        return [None] * len(self._request.fields) if request is None else list(request)

    def _bind(self, syntax: Syntax) -> tuple[tuple[Read, ...], tuple[Write, ...]]:
        outer = self._request.fields if self._request is not None else ()
        names = {name: index for index, name in enumerate((*outer, *self.fields))}
        bound = [type.bind(syntax, names) for _, type in self._parameters]
        self._bound[syntax] = result = tuple(each.read for each in bound), tuple(each.write for each in bound)
        return result


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
