"""Bodies of the COM component and of .NET's ActiveXMessageFormatter: bytes, text and single VARIANT values."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from lior.client.formatters.body_type import (
    BYTE_ARRAYS,
    OBJECTS,
    RAW_REMEDY,
    TEXTS,
    BodyType,
    Variant,
    refuse_binary,
    type_name,
)
from lior.client.formatters.ole import Dates, decode_currency, decode_date, encode_currency, encode_date
from lior.client.formatters.text import DEFAULT_CODE_PAGE, checked_code_page, decode_text, encode_text
from lior.errors import FormatterError

_INTEGERS: Final = {
    BodyType.VT_I1: struct.Struct("<b"), BodyType.VT_UI1: struct.Struct("<B"),
    BodyType.VT_I2: struct.Struct("<h"), BodyType.VT_UI2: struct.Struct("<H"),
    BodyType.VT_I4: struct.Struct("<i"), BodyType.VT_UI4: struct.Struct("<I"),
    BodyType.VT_I8: struct.Struct("<q"), BodyType.VT_UI8: struct.Struct("<Q"),
}
_FLOATS: Final = {BodyType.VT_R4: struct.Struct("<f"), BodyType.VT_R8: struct.Struct("<d")}
_SIZES: Final = {
    **{body_type: (form.size,) for body_type, form in (*_INTEGERS.items(), *_FLOATS.items())},
    BodyType.VT_CY: (8,), BodyType.VT_DATE: (8,), BodyType.VT_CLSID: (16,), BodyType.VT_NULL: (0,),
    BodyType.VT_BOOL: (2, 1),  # a VARIANT_BOOL from COM; .NET's ActiveXMessageFormatter writes one byte
}


def as_bytes(value: object, where: str) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise FormatterError(
        f"{where} takes bytes, not {type(value).__name__}", where=where, remedy="use the 'auto' formatter"
    )


def _check_size(body: bytes, body_type: int) -> None:
    sizes = _SIZES[BodyType(body_type)]
    if len(body) not in sizes:
        raise FormatterError(
            f"the body has {len(body)} bytes, {type_name(body_type)} has {' or '.join(map(str, sizes))}",
            where=type_name(body_type),
            remedy=RAW_REMEDY,
        )


@dataclass(frozen=True, slots=True)
class BytesFormatter:
    """Bytes as they are; reading takes every body type, so a body can always be had."""

    name: str = "bytes"
    body_type: int = BodyType.VT_VECTOR_UI1

    def __post_init__(self) -> None:
        if self.body_type not in BYTE_ARRAYS:
            raise FormatterError(f"{type_name(self.body_type)} is no type of byte arrays", where=self.name)

    def encode(self, value: object) -> tuple[bytes, int]:
        return as_bytes(value, self.name), int(self.body_type)

    def decode(self, body: bytes, body_type: int) -> bytes:
        return bytes(body)


@dataclass(frozen=True, slots=True)
class TextFormatter:
    """Text under one body type; reading takes all three text types."""

    name: str = "string"
    body_type: int = BodyType.VT_BSTR
    code_page: str = DEFAULT_CODE_PAGE

    def __post_init__(self) -> None:
        checked_code_page(self.code_page)
        if self.body_type not in TEXTS:
            raise FormatterError(f"{type_name(self.body_type)} is no type of text", where=self.name)

    def encode(self, value: object) -> tuple[bytes, int]:
        return encode_text(value, self.body_type, self.code_page), int(self.body_type)

    def decode(self, body: bytes, body_type: int) -> str:
        refuse_binary(body_type, self.name)
        if body_type not in TEXTS:
            raise FormatterError(
                f"{type_name(body_type)} is no text", where=self.name, remedy="use the 'auto' formatter"
            )
        return decode_text(body, body_type, self.code_page)


@dataclass(frozen=True, slots=True)
class ActiveXFormatter:
    """One VARIANT value. Body types as .NET's ActiveXMessageFormatter sets them, in bytes that COM reads too."""

    name: str = "activex"
    dates: Dates = "ole"
    code_page: str = DEFAULT_CODE_PAGE

    def __post_init__(self) -> None:
        checked_code_page(self.code_page)
        if self.dates not in ("ole", "ticks"):
            raise FormatterError(f"dates are 'ole' or 'ticks', not {self.dates!r}", where=self.name)

    def encode(self, value: object) -> tuple[bytes, int]:
        if isinstance(value, Variant):
            return self.encode_as(value.value, value.body_type), int(value.body_type)
        body_type = _variant_type(value, self.name)
        return self.encode_as(value, body_type), int(body_type)

    def encode_as(self, value: object, body_type: int) -> bytes:
        """The body of a value under a given type."""
        if body_type in TEXTS:
            return encode_text(value, body_type, self.code_page)
        if body_type in BYTE_ARRAYS or body_type in OBJECTS:
            return as_bytes(value, type_name(body_type))
        if body_type in _INTEGERS or body_type in _FLOATS:
            return _encode_number(value, BodyType(body_type))
        if body_type == BodyType.VT_DATE:
            return encode_date(value, self.dates)
        encode = _ENCODERS.get(body_type)
        if encode is None:
            raise FormatterError(
                f"{type_name(body_type)} cannot be written", where=self.name, remedy="send bytes and set the body type"
            )
        return encode(value)

    def decode(self, body: bytes, body_type: int) -> object:
        refuse_binary(body_type, self.name)
        if body_type in TEXTS:
            return decode_text(body, body_type, self.code_page)
        if body_type in BYTE_ARRAYS:
            return bytes(body)
        if body_type in OBJECTS:
            return Variant(int(body_type), bytes(body))
        if body_type not in _SIZES:
            raise FormatterError(f"{type_name(body_type)} is no type of this formatter", where=self.name,
                                 remedy=RAW_REMEDY)
        _check_size(body, body_type)
        number = _INTEGERS.get(BodyType(body_type)) or _FLOATS.get(BodyType(body_type))
        if number is not None:
            result: object = number.unpack(body)[0]
            return result
        if body_type == BodyType.VT_DATE:
            return decode_date(body, self.dates)
        return _DECODERS[body_type](body)


def _variant_type(value: object, where: str) -> BodyType:
    """The body type for a Python value, as .NET's ActiveXMessageFormatter chooses it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return integer_type(value, where)
    for kind, body_type in _TYPES:
        if isinstance(value, kind):
            return body_type
    raise FormatterError(
        f"{type(value).__name__} has no body type", where=where, remedy="use the 'xml' or 'json' formatter"
    )


def integer_type(value: int, where: str) -> BodyType:
    """VT_I4 if it fits, as a Long of VB and an int of .NET; else 64 bits."""
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return BodyType.VT_I4
    if -(1 << 63) <= value < 1 << 63:
        return BodyType.VT_I8
    if 0 <= value < 1 << 64:
        return BodyType.VT_UI8
    raise FormatterError("the integer does not fit 64 bits", where=where, remedy="send it as text")


_TYPES: Final[tuple[tuple[type, BodyType], ...]] = (
    (str, BodyType.VT_LPWSTR),
    (bytes, BodyType.VT_VECTOR_UI1),
    (bytearray, BodyType.VT_VECTOR_UI1),
    (memoryview, BodyType.VT_VECTOR_UI1),
    (bool, BodyType.VT_BOOL),
    (float, BodyType.VT_R8),
    (Decimal, BodyType.VT_CY),
    (datetime, BodyType.VT_DATE),
    (UUID, BodyType.VT_CLSID),
    (type(None), BodyType.VT_NULL),
)


def _encode_number(value: object, body_type: BodyType) -> bytes:
    where = body_type.name
    integer = body_type in _INTEGERS
    if isinstance(value, bool) or not isinstance(value, int if integer else int | float):
        raise FormatterError(f"{where} takes a number, not {type(value).__name__}", where=where)
    try:
        return (_INTEGERS if integer else _FLOATS)[body_type].pack(value)
    except (struct.error, OverflowError):
        raise FormatterError(f"the number does not fit {where}", where=where, remedy="use a wider type") from None


def _encode_bool(value: object) -> bytes:
    if not isinstance(value, bool):
        raise FormatterError(f"VT_BOOL takes a bool, not {type(value).__name__}", where="VT_BOOL")
    return b"\xff\xff" if value else b"\0\0"  # .NET looks at the first byte, COM at both


def _encode_clsid(value: object) -> bytes:
    if not isinstance(value, UUID):
        raise FormatterError(f"VT_CLSID takes a UUID, not {type(value).__name__}", where="VT_CLSID")
    return value.bytes_le


def _encode_null(value: object) -> bytes:
    if value is not None:
        raise FormatterError(f"VT_NULL takes None, not {type(value).__name__}", where="VT_NULL")
    return b""


_ENCODERS: Final[dict[int, Callable[[object], bytes]]] = {
    BodyType.VT_BOOL: _encode_bool,
    BodyType.VT_CY: encode_currency,
    BodyType.VT_CLSID: _encode_clsid,
    BodyType.VT_NULL: _encode_null,
}
_DECODERS: Final[dict[int, Callable[[bytes], object]]] = {
    BodyType.VT_BOOL: any,
    BodyType.VT_CY: decode_currency,
    BodyType.VT_CLSID: lambda body: UUID(bytes_le=bytes(body)),
    BodyType.VT_NULL: lambda body: None,
}
