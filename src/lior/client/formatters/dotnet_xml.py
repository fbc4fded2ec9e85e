"""Bodies of .NET's XmlMessageFormatter: single values and arrays of them, body type 0."""

import io
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from lior.client.formatters.body_type import BodyType
from lior.client.formatters.text import document_text
from lior.client.formatters.xsd import ARRAYS, SCALARS, element_name, read_scalar, write_scalar
from lior.errors import FormatterError

MAX_SIZE: Final = 0x00400000  # no body is larger
_INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
_NIL: Final = f"{_INSTANCE} nil"
_SPACE: Final = "http://www.w3.org/XML/1998/namespace space"
_DECLARATION: Final = '<?xml version="1.0"?>\r\n'
# The order in which the .NET Framework writes them
_NAMESPACES: Final = f' xmlns:xsi="{_INSTANCE}" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
_REMEDY: Final = "read the body with the 'bytes' formatter and parse it with your own code"


@dataclass(frozen=True, slots=True)
class XmlFormatter:
    """Values under the element names of XmlSerializer; `target` fixes the element, as TargetTypes does in .NET."""

    name: str = "xml"
    target: str = ""

    def __post_init__(self) -> None:
        if self.target and self.target not in SCALARS and self.target not in ARRAYS:
            raise FormatterError(
                f"there is no element {self.target!r}", where="xml", remedy=f"use one of {', '.join(SCALARS)}"
            )

    def encode(self, value: object) -> tuple[bytes, int]:
        element = self.target or element_name(value)
        if element in ARRAYS:
            document = _DECLARATION + _array(element, value)
        else:
            document = f"{_DECLARATION}{_element(element, value)}"
        return document.encode(), int(BodyType.VT_EMPTY)

    def decode(self, body: bytes, body_type: int) -> object:
        text, encoding = document_text(body, body_type, "xml", MAX_SIZE)
        reading = _Reading(text.encode(), encoding)
        if self.target and reading.root != self.target:
            raise FormatterError(f"the root is {reading.root}, not {self.target}", where="xml", remedy=_REMEDY)
        return reading.value


def _element(element: str, value: object) -> str:
    text = write_scalar(element, value)
    return f"<{element}>{text}</{element}>" if text else f"<{element} />"


def _array(element: str, value: object) -> str:
    if not isinstance(value, list | tuple):
        raise FormatterError(f"{element} takes a list, not {type(value).__name__}", where="xml")
    item = ARRAYS[element]
    if not value:
        return f"<{element}{_NAMESPACES} />"
    parts = [f"<{element}{_NAMESPACES}>\r\n"]
    for each in value:
        if each is None and item in ("string", "base64Binary"):
            parts.append(f'  <{item} xsi:nil="true" />\r\n')
        else:
            parts.append(f"  {_element(item, each)}\r\n")
    parts.append(f"</{element}>")
    return "".join(parts)


class _Reading:
    """One parse of a document: a scalar, or an array of scalars, and nothing else."""

    def __init__(self, data: bytes, encoding: str) -> None:
        self.root = ""
        self.value: object = None
        self._data = data
        self._encoding = encoding
        self._items: list[object] = []
        self._open = ""  # the scalar being read
        self._nil = False
        self._text = io.StringIO()
        self._depth = 0
        self._parser = self._make_parser()
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            raise FormatterError(
                f"the body is no XML: {expat.ErrorString(error.code)}",
                where=f"xml line {error.lineno} column {error.offset}", remedy=_REMEDY,
            ) from None

    def _make_parser(self) -> expat.XMLParserType:
        # The text is UTF-8 by now; the argument keeps a declared encoding from choosing another decoder.
        parser = expat.ParserCreate("utf-8", " ")
        parser.XmlDeclHandler = self._declaration
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = lambda *_: self._refuse("a document type declaration")
        parser.EntityDeclHandler = lambda *_: self._refuse("an entity declaration")
        parser.ProcessingInstructionHandler = lambda *_: self._refuse("a processing instruction")
        parser.CommentHandler = lambda *_: self._refuse("a comment")
        return parser

    def _refuse(self, what: str) -> None:
        raise FormatterError(
            f"{what} is not allowed in a body",
            where=f"xml line {self._parser.CurrentLineNumber} column {self._parser.CurrentColumnNumber}",
            remedy=_REMEDY,
        )

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if version != "1.0":
            self._refuse(f"XML version {version[:20]!r}")
        if encoding is not None and self._encoding and encoding.lower() != self._encoding:
            self._refuse(f"encoding {encoding[:40]!r} over {self._encoding} bytes")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        for attribute, value in attributes.items():
            if attribute not in (_NIL, _SPACE):
                self._refuse(f"the attribute {attribute[:80]!r}")
            if attribute == _NIL and value.strip() not in ("true", "false", "1", "0"):
                self._refuse(f"the nil value {value[:20]!r}")
        if self._depth == 1:
            self.root = name
            if name not in SCALARS and name not in ARRAYS:
                self._refuse(f"the root element {name[:80]!r}, which is none of the simple types,")
        elif self._depth > 2 or ARRAYS.get(self.root) != name:
            self._refuse(f"the element {name[:80]!r} inside {self._open or self.root}")
        if name in SCALARS:
            self._open = name
            self._nil = attributes.get(_NIL, "").strip() in ("true", "1")
            self._text = io.StringIO()
        elif _NIL in attributes:
            self._refuse("a nil array")

    def _characters(self, text: str) -> None:
        if text == "\n":
            # .NET writes and reads line ends as they are; expat reports each as a token of its own, made "\n".
            at = self._parser.CurrentByteIndex
            if self._data[at:at + 1] == b"\r":
                text = "\r\n" if self._data[at + 1:at + 2] == b"\n" else "\r"
        if self._open:
            self._text.write(text)
        elif text.strip(" \t\r\n"):
            self._refuse(f"text between the items of {self.root}")

    def _end(self, name: str) -> None:
        self._depth -= 1
        if not self._open:
            self.value = self._items
            return
        text = self._text.getvalue()
        if self._nil:
            if text:
                self._refuse("content in a nil element")
            value: object = None
        else:
            value = read_scalar(name, text)
        self._open = ""
        if self._depth:
            self._items.append(value)
        else:
            self.value = value
