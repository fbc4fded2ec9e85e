"""Body types: what PROPID_M_BODY_TYPE says of a body, and a value that carries its own type."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from lior.errors import FormatterError

RAW_REMEDY: Final = "read the body as it is with the 'bytes' formatter"


class BodyType(IntEnum):
    """The VARTYPE values that message bodies carry; any other u32 is legal on the wire and stays bytes here."""

    VT_EMPTY = 0
    VT_NULL = 1
    VT_I2 = 2
    VT_I4 = 3
    VT_R4 = 4
    VT_R8 = 5
    VT_CY = 6
    VT_DATE = 7
    VT_BSTR = 8
    VT_DISPATCH = 9
    VT_BOOL = 11
    VT_UNKNOWN = 13
    VT_I1 = 16
    VT_UI1 = 17
    VT_UI2 = 18
    VT_UI4 = 19
    VT_I8 = 20
    VT_UI8 = 21
    VT_LPSTR = 30
    VT_LPWSTR = 31
    VT_STREAM = 66
    VT_STORAGE = 67
    VT_STREAMED_OBJECT = 68
    VT_STORED_OBJECT = 69
    VT_CLSID = 72
    DOTNET_BINARY = 0x0300  # what .NET's BinaryMessageFormatter sets; no VARTYPE
    VT_VECTOR_UI1 = 0x1011
    VT_ARRAY_UI1 = 0x2011


BYTE_ARRAYS: Final = frozenset({BodyType.VT_EMPTY, BodyType.VT_VECTOR_UI1, BodyType.VT_ARRAY_UI1})
TEXTS: Final = frozenset({BodyType.VT_BSTR, BodyType.VT_LPWSTR, BodyType.VT_LPSTR})
OBJECTS: Final = frozenset({
    BodyType.VT_DISPATCH, BodyType.VT_UNKNOWN, BodyType.VT_STREAM, BodyType.VT_STORAGE,
    BodyType.VT_STREAMED_OBJECT, BodyType.VT_STORED_OBJECT,
})


@dataclass(frozen=True, slots=True)
class Variant:
    """A value with its body type: to choose a type when sending, and for objects passed through as bytes."""

    body_type: int
    value: object


class Formatter(Protocol):
    """Values to bodies and back."""

    @property
    def name(self) -> str: ...

    def encode(self, value: object) -> tuple[bytes, int]:
        """The body and its body type."""
        ...

    def decode(self, body: bytes, body_type: int) -> object:
        """The value of a body; FormatterError if it has none here."""
        ...


def type_name(body_type: int) -> str:
    """The name of a body type for people."""
    try:
        return BodyType(body_type).name
    except ValueError:
        return f"body type 0x{body_type:X}"


def refuse_binary(body_type: int, where: str) -> None:
    """Stop at a body of .NET's BinaryMessageFormatter: building its object graph runs code of the sender's choice."""
    if body_type == BodyType.DOTNET_BINARY:
        raise FormatterError(
            "the body is a .NET BinaryMessageFormatter object (body type 768), which is never deserialised here: "
            "it could run code chosen by the sender",
            where=where,
            remedy=f"{RAW_REMEDY}, or let the sender use XmlMessageFormatter or ActiveXMessageFormatter",
        )
