"""Text bodies: VT_BSTR, VT_LPWSTR and VT_LPSTR, and bytes that hold text."""

import codecs
from typing import Final

from lior.client.formatters.body_type import BYTE_ARRAYS, RAW_REMEDY, TEXTS, BodyType, refuse_binary, type_name
from lior.errors import FormatterError

DEFAULT_CODE_PAGE: Final = "cp1252"  # the ANSI code page of western Windows; LPSTR does not name its own


def checked_code_page(code_page: str) -> str:
    """The code page, if Python has it and it holds ASCII as single bytes like every ANSI code page."""
    try:
        if "Az09".encode(code_page) == b"Az09":
            return code_page
    except (LookupError, UnicodeError, ValueError):
        pass
    raise FormatterError(f"{code_page!r} is no ANSI code page", where="VT_LPSTR", remedy="use a name such as 'cp1252'")


def encode_text(value: object, body_type: int, code_page: str = DEFAULT_CODE_PAGE) -> bytes:
    """Text without a terminator: the body's length is the string's, as COM and .NET write it."""
    where = type_name(body_type)
    if not isinstance(value, str):
        raise FormatterError(f"{where} takes a str, not {type(value).__name__}", where=where)
    if body_type != BodyType.VT_BSTR and value.endswith("\0"):
        raise FormatterError(
            "a reader takes a NUL at the end for the terminator", where=where, remedy="send it with 'string' (VT_BSTR)"
        )
    encoding = code_page if body_type == BodyType.VT_LPSTR else "utf-16-le"
    try:
        return value.encode(encoding)
    except UnicodeError:
        raise FormatterError(
            f"the text has a character that {encoding} cannot hold", where=where, remedy="send it as bytes"
        ) from None


def decode_text(body: bytes, body_type: int, code_page: str = DEFAULT_CODE_PAGE) -> str:
    """The text; LPSTR and LPWSTR are defined with a terminator, so one NUL at their end is not part of it."""
    encoding = code_page if body_type == BodyType.VT_LPSTR else "utf-16-le"
    try:
        text = bytes(body).decode(encoding)
    except UnicodeError:
        raise FormatterError(
            f"the body of {len(body)} bytes is no {encoding} text", where=type_name(body_type), remedy=RAW_REMEDY
        ) from None
    return text if body_type == BodyType.VT_BSTR else text.removesuffix("\0")


def document_text(body: bytes, body_type: int, where: str, limit: int) -> tuple[str, str]:
    """The text of an XML or JSON document and its encoding ("" if the body type, not the bytes, decides it).

    Byte bodies are UTF-8, or UTF-16 with a byte order mark; VB programs also send documents as strings.
    """
    refuse_binary(body_type, where)
    if len(body) > limit:
        raise FormatterError(f"a document of {len(body)} bytes is over the limit of {limit}", where=where)
    if body_type in TEXTS:
        return decode_text(body, body_type).removeprefix("\ufeff"), ""
    if body_type not in BYTE_ARRAYS:
        raise FormatterError(
            f"{type_name(body_type)} holds no document", where=where, remedy="use the 'auto' formatter"
        )
    utf16 = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if utf16 else "utf-8"
    try:
        return bytes(body).decode(encoding).removeprefix("\ufeff"), encoding
    except UnicodeError:
        raise FormatterError(f"the body is no {encoding} text", where=where, remedy=RAW_REMEDY) from None
