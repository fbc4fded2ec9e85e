"""The HTTP entity of an SRMP message ([MC-MQSRM] 1.3.12, 2.2.2): XML alone, or multipart/related with its payload.

Machines write no CRLF before a delimiter, and one behind the last: the lengths of every example in the document say so.
Parts are cut by their own Content-Length, so a payload may hold anything; the form of RFC 2046 is read, too.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from lior.errors import Malformed

XML_TYPE: Final = "text/xml"
MULTIPART_TYPE: Final = "multipart/related"
MAX_PARTS: Final = 16
MAX_PART_HEADER: Final = 4096
MAX_BOUNDARY: Final = 70  # RFC 2046 5.1.1
LONGEST_REMEMBERED: Final = 256  # octets; senders repeat themselves
MOST_REMEMBERED: Final = 256
UTF8: Final = ("", "utf-8", "us-ascii")
BODY: Final = "body"
EXTENSION: Final = "extension"

_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE: Final = r"[!#$%&'*+\-.^_`|~/0-9A-Za-z]+"  # machines write type=text/xml without quotes
_MEDIA_TYPE: Final = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*")
_PARAMETER: Final = re.compile(rf';\s*({_TOKEN})\s*=\s*(?:({_VALUE})|"((?:[^"\\]|\\.)*)")\s*')
_LENGTH: Final = re.compile(rb"[0-9]{1,10}")
_CRLF: Final = b"\r\n"


class Attachment(NamedTuple):
    """The payload or the extension: whose queue manager made it, and where it stands in the entity."""

    identifier: str  # what follows the @ of its Content-Id
    offset: int
    data: memoryview


@dataclass(slots=True)
class Entity:
    """What an entity holds. Attachments of other names are ignored."""

    envelope: bytes
    body: Attachment | None = None
    extension: Attachment | None = None


def malformed(what: str) -> Malformed:
    return Malformed(what, where="MIME entity", remedy="the sender made a message that is not SRMP")


def parse_content_type(text: str) -> tuple[str, Mapping[str, str]]:
    """The type in lower case, and its parameters by their names in lower case."""
    return _known_type(text) if len(text) <= LONGEST_REMEMBERED else _content_type(text)


def _content_type(text: str) -> tuple[str, Mapping[str, str]]:
    found = _MEDIA_TYPE.match(text)
    if found is None:
        raise malformed(f"the Content-Type {text[:100]!r}")
    at, parameters = found.end(), dict[str, str]()
    while at < len(text):
        parameter = _PARAMETER.match(text, at)
        if parameter is None:
            if text[at:].strip(" \t;") == "":
                break
            raise malformed(f"the parameters of the Content-Type {text[:200]!r}")
        name, token, quoted = parameter.group(1).lower(), parameter.group(2), parameter.group(3)
        if name in parameters:
            raise malformed(f"two parameters {name} in the Content-Type")
        parameters[name] = token if token is not None else re.sub(r"\\(.)", r"\1", quoted)
        at = parameter.end()
    return found.group(1).lower(), parameters


_known_type = lru_cache(MOST_REMEMBERED)(_content_type)


def parse_entity(content_type: str, data: bytes) -> Entity:
    kind, parameters = parse_content_type(content_type)
    if kind == XML_TYPE:
        _check_charset(parameters)
        return Entity(data)
    if kind != MULTIPART_TYPE:
        raise malformed(f"an entity of type {kind}; SRMP has {XML_TYPE} and {MULTIPART_TYPE}")
    boundary = parameters.get("boundary", "")
    if not 0 < len(boundary) <= MAX_BOUNDARY or not boundary.isascii():
        raise malformed("multipart without a usable boundary")
    if parameters.get("type", XML_TYPE).lower() != XML_TYPE:
        raise malformed(f"a root part of type {parameters['type'][:40]}")
    return _assembled(_parts(data, b"--" + boundary.encode("ascii")), data)


class _Part(NamedTuple):
    headers: Mapping[str, str]
    start: int
    end: int


def _assembled(parts: Iterable[_Part], data: bytes) -> Entity:
    entity: Entity | None = None
    for part in parts:
        if entity is None:
            kind, parameters = parse_content_type(part.headers.get("content-type", XML_TYPE))
            if kind != XML_TYPE:
                raise malformed(f"a root part of type {kind}")
            _check_charset(parameters)
            entity = Entity(data[part.start : part.end])
            continue
        name, _, identifier = part.headers.get("content-id", "").strip("<> \t").partition("@")
        attachment = Attachment(identifier, part.start, memoryview(data)[part.start : part.end])
        if name.lower() == BODY:
            if entity.body is not None:
                raise malformed("two bodies")
            entity.body = attachment
        elif name.lower() == EXTENSION:
            if entity.extension is not None:
                raise malformed("two extensions")
            entity.extension = attachment
    if entity is None:
        raise malformed("multipart without a part")
    return entity


def _check_charset(parameters: Mapping[str, str]) -> None:
    charset = parameters.get("charset", "").lower()
    if charset not in UTF8:
        raise malformed(f"the charset {charset[:40]}; SRMP has UTF-8")


def _parts(data: bytes, delimiter: bytes) -> Iterable[_Part]:
    at = len(_CRLF) if data.startswith(_CRLF) else 0
    if not data.startswith(delimiter, at):
        raise malformed("the first delimiter is missing")
    at += len(delimiter)
    for _ in range(MAX_PARTS + 1):
        if data.startswith(b"--", at):
            if data[at + 2 :] not in (b"", _CRLF):
                raise malformed(f"{len(data) - at - 2} octets behind the last delimiter")
            return
        headers, start = _part_headers(data, at)
        end, at = _part_end(data, headers, start, delimiter)
        yield _Part(headers, start, end)
    raise malformed(f"more than {MAX_PARTS} parts")


def _part_headers(data: bytes, at: int) -> tuple[Mapping[str, str], int]:
    """The header of the part whose delimiter ends at `at`, and where its content starts."""
    line_end = data.find(_CRLF, at, at + 80)
    if line_end < 0 or data[at:line_end].strip(b" \t"):
        raise malformed("a delimiter that is not alone in its line")
    at = line_end  # the header may be empty: then a second CRLF follows at once
    end = data.find(_CRLF + _CRLF, at, at + MAX_PART_HEADER)
    if end < 0:
        raise malformed(f"the header of a part has no end within {MAX_PART_HEADER} octets")
    lines = data[at:end]
    return (_known_lines(lines) if len(lines) <= LONGEST_REMEMBERED else _header_lines(lines)), end + 4


def _header_lines(lines: bytes) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for line in lines.split(_CRLF):
        if not line:
            continue
        name, colon, value = line.partition(b":")
        if not colon or not name.isascii() or name != name.strip() or not name:
            raise malformed(f"a header line {line[:60]!r}")
        key = name.decode("ascii").lower()
        if key in headers:
            raise malformed(f"two header lines {key} in a part")
        headers[key] = value.decode("latin-1").strip(" \t")
    return headers


_known_lines = lru_cache(MOST_REMEMBERED)(_header_lines)


def _part_end(data: bytes, headers: Mapping[str, str], start: int, delimiter: bytes) -> tuple[int, int]:
    """Where the part's content ends, and where its closing delimiter does."""
    given = headers.get("content-length")
    if given is None:  # RFC 2046: the line break before the delimiter belongs to it
        found = data.find(delimiter, start)
        if found < 0:
            raise malformed("a part without an end")
        end = found - 2 if found - 2 >= start and data[found - 2 : found] == _CRLF else found
        return end, found + len(delimiter)
    if not _LENGTH.fullmatch(given.encode("latin-1")):
        raise malformed(f"the Content-Length {given[:40]!r} of a part")
    end = start + int(given)
    if end > len(data):
        raise malformed(f"a part of {given} octets with {len(data) - start} left")
    for behind in (end, end + len(_CRLF)):
        if data.startswith(delimiter, behind) and data[end:behind] in (b"", _CRLF):
            return end, behind + len(delimiter)
    raise malformed("no delimiter behind a part")


def format_entity(
    envelope: bytes, body: bytes, extension: bytes, queue_manager: str, number: int
) -> tuple[str, list[bytes]]:
    """The Content-Type and the pieces of the entity. The boundary takes `number`, or the next one that is in no
    part. A message without body and extension is the envelope alone, as receipts are (2.2.2)."""
    if not body and not extension:
        return XML_TYPE, [envelope, _CRLF]
    while True:
        boundary = f"MSMQ - SOAP boundary, {number}"
        delimiter = b"--" + boundary.encode("ascii")
        if not any(delimiter in part for part in (envelope, body, extension)):
            break
        number += 1
    pieces = [_part_start(delimiter, "text/xml; charset=UTF-8", len(envelope)), envelope]
    for name, part in ((BODY, body), (EXTENSION, extension)):
        if part:
            pieces += [_part_start(delimiter, "application/octet-stream", len(part), f"{name}@{queue_manager}"), part]
    pieces.append(delimiter + b"--" + _CRLF)
    return f'{MULTIPART_TYPE}; boundary="{boundary}"; type={XML_TYPE}', pieces


def _part_start(delimiter: bytes, kind: str, length: int, content_id: str = "") -> bytes:
    named = f"Content-Id: {content_id}\r\n" if content_id else ""
    return delimiter + f"\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{named}\r\n".encode("ascii")
