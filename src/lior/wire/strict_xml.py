"""XML as SOAP 1.1 section 3 allows it: no document type, no entities, no processing instruction; all of it bounded.

An element knows where it stands in the document, since a signature covers octets and applications get parts of the
envelope as they came.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from xml.parsers import expat

from lior.errors import Malformed

XML_SPACE: Final = " \t\r\n"
LONGEST_KEPT: Final = 100
UTF8: Final = ("utf-8", "us-ascii", "ascii")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may have at the most."""

    octets: int = 256 << 10
    depth: int = 32
    elements: int = 4096
    attributes: int = 64  # of one element, namespace declarations apart
    namespaces: int = 256  # declarations in the document


DEFAULT_LIMITS: Final = Limits()


@dataclass(slots=True)
class Element:
    """One element; `text` is what stands directly in it, the text around its children joined."""

    namespace: str
    name: str
    attributes: dict[tuple[str, str], str]
    start: int  # the octet of its "<"
    end: int = 0  # the octet behind its last ">"
    inside_end: int = 0  # the octet of its end tag; 0 for an element without one
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def inside(self, document: bytes) -> bytes:
        """What stands between its tags."""
        return document[_end_of_tag(document, self.start) : self.inside_end] if self.inside_end else b""

    @property
    def trimmed(self) -> str:
        """The text without the white space around it."""
        return self.text.strip(XML_SPACE)

    def all(self, namespace: str, name: str) -> list["Element"]:
        return [child for child in self.children if child.name == name and child.namespace == namespace]

    def maybe(self, namespace: str, name: str) -> "Element | None":
        """The child of that name, which may be missing and may not be there twice."""
        found = self.all(namespace, name)
        if len(found) > 1:
            raise malformed(f"{len(found)} elements {name} in {self.name}")
        return found[0] if found else None

    def one(self, namespace: str, name: str) -> "Element":
        found = self.maybe(namespace, name)
        if found is None:
            raise malformed(f"no element {name} in {self.name}")
        return found

    def has(self, namespace: str, name: str) -> bool:
        return self.maybe(namespace, name) is not None


def malformed(what: str, where: str = "SOAP envelope") -> Malformed:
    return Malformed(what, where=where, remedy="the sender made a message that is not SRMP")


def parse(document: bytes, limits: Limits = DEFAULT_LIMITS) -> Element:
    """The root element. Whatever is not well formed, not allowed or too large raises Malformed."""
    if len(document) > limits.octets:
        raise malformed(f"{len(document)} octets of XML, more than {limits.octets}")
    return _Reader(document, limits).read()


class _Reader:
    def __init__(self, document: bytes, limits: Limits) -> None:
        self._document = document
        self._limits = limits
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._root: Element | None = None
        self._elements = 0
        self._namespaces = 0
        self._parser = parser = expat.ParserCreate("UTF-8", " ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartNamespaceDeclHandler = self._namespace
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype
        parser.ProcessingInstructionHandler = self._instruction
        parser.EntityDeclHandler = self._doctype
        parser.ExternalEntityRefHandler = self._doctype
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def read(self) -> Element:
        try:
            self._parser.Parse(self._document, True)
        except expat.ExpatError as error:
            raise malformed(f"not well-formed XML: {error}") from None
        assert self._root is not None  # expat refuses a document without an element
        return self._root

    # What expat calls

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if version != "1.0" or (encoding is not None and encoding.lower() not in UTF8):
            raise malformed(f"XML {version} in {encoding}; UTF-8 of XML 1.0 is what SRMP has")

    def _doctype(self, *_: object) -> int:
        raise malformed("a document type, which SOAP does not allow")

    def _instruction(self, target: str, data: str) -> None:
        raise malformed(f"a processing instruction {target[:40]!r}, which SOAP does not allow")

    def _namespace(self, prefix: str | None, uri: str | None) -> None:
        self._namespaces += 1
        if self._namespaces > self._limits.namespaces:
            raise malformed(f"more than {self._limits.namespaces} namespaces")
        if uri is not None and " " in uri:
            raise malformed("a space in the name of a namespace")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > self._limits.elements:
            raise malformed(f"more than {self._limits.elements} elements")
        if len(self._open) >= self._limits.depth:
            raise malformed(f"elements more than {self._limits.depth} deep")
        if len(attributes) > self._limits.attributes:
            raise malformed(f"more than {self._limits.attributes} attributes in one element")
        at = self._parser.CurrentByteIndex
        namespace, local = _split(name)
        found = {_split(key): value for key, value in attributes.items()} if attributes else {}
        element = Element(namespace, local, found, at)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)
        self._texts.append([])

    def _characters(self, text: str) -> None:
        if self._texts:
            self._texts[-1].append(text)

    def _end(self, name: str) -> None:
        element, texts = self._open.pop(), self._texts.pop()
        element.text = "".join(texts)
        at = self._parser.CurrentByteIndex
        document = self._document
        if not element.children and not texts and document[at - 2 : at] == b"/>":
            element.end = at  # <name/>: there is no end tag
        else:
            element.end = document.index(b">", at) + 1
            element.inside_end = at


def _split(name: str) -> tuple[str, str]:
    return _split_short(name) if len(name) <= LONGEST_KEPT else _split_any(name)


def _split_any(name: str) -> tuple[str, str]:
    namespace, _, local = name.rpartition(" ")
    return namespace, local


_split_short = lru_cache(256)(_split_any)  # every envelope has the same names


def _end_of_tag(document: bytes, at: int) -> int:
    """Behind the ">" of the start tag at `at`: one that stands in no quoted value."""
    quote = 0
    while True:
        octet = document[at]
        at += 1
        if quote:
            if octet == quote:
                quote = 0
        elif octet in (0x22, 0x27):
            quote = octet
        elif octet == 0x3E:
            return at
