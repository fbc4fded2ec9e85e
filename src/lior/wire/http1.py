"""HTTP/1.1 (RFC 9112) as SRMP has it: POSTs whose length is one number, and answers to them.

A server must read a request as everything before it does, or requests can be smuggled: what two readers might
understand differently is refused (a Transfer-Encoding, two lengths, a line break that is not CRLF, a folded line, white
space before a colon). The reader of answers takes what web servers send, in bounded memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lior.errors import Malformed

MAX_HEAD: Final = 16 << 10  # octets of a request line or status line with its header
MAX_LINES: Final = 100
MAX_CHUNK_LINE: Final = 256
LONGEST_REMEMBERED: Final = 1024  # octets
MOST_REMEMBERED: Final = 128
ANY_LENGTH: Final = -1  # of an answer: until the connection ends
CHUNKED: Final = -2

_END: Final = b"\r\n\r\n"
_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_VERSION: Final = re.compile(rb"HTTP/1\.([0-9])")
_STATUS: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_TEXT: Final = bytes([9, 10, 13, *range(32, 127), *range(128, 256)])  # what a head may have in it
_NAMES: dict[bytes, bytes] = {}  # as they are spelled -> in lower case
_MOST_NAMES: Final = 256
_SINGLE: Final = frozenset((b"content-length", b"content-type", b"host", b"transfer-encoding"))


def malformed(what: str) -> Malformed:
    return Malformed(what, where="HTTP request", remedy="the sender does not speak HTTP as SRMP has it")


@dataclass(frozen=True, slots=True)
class RequestHead:
    octets: bytes  # as it came, with the empty line
    method: str
    path: str  # without the query
    content_type: str
    content_length: int | None
    expects_continue: bool
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class AnswerHead:
    status: int
    length: int  # of what follows; or ANY_LENGTH or CHUNKED
    keep_alive: bool
    pipeline: int  # requests that the server takes before it answers; 0 if it does not say


def read_request_head(octets: bytes) -> RequestHead:
    """`octets` ends with the empty line. Those of one sender are often the same."""
    return _known_request(octets) if len(octets) <= LONGEST_REMEMBERED else _request_head(octets)


def _request_head(octets: bytes) -> RequestHead:
    lines, headers = _lines(octets)
    parts = lines[0].split(b" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not parts[1] or b"\t" in parts[1]:
        raise malformed("the first line is no request line")
    version = _VERSION.fullmatch(parts[2])
    if version is None:
        raise malformed("the version is not HTTP/1.1")
    modern = version[1] != b"0"
    if b"transfer-encoding" in headers:  # beside a length or alone: SRMP's requests say how long they are
        raise malformed("a Transfer-Encoding")
    if modern and b"host" not in headers:
        raise malformed("no Host")
    length = headers.get(b"content-length")
    if length is not None and not _LENGTH.fullmatch(length):
        raise malformed("the Content-Length is no number")
    connection = headers.get(b"connection", b"").lower()
    return RequestHead(
        octets, parts[0].decode("ascii"), _path(parts[1].decode("latin-1")),
        headers.get(b"content-type", b"").decode("latin-1"), None if length is None else int(length),
        modern and headers.get(b"expect", b"").lower() == b"100-continue",
        modern and (not connection or b"close" not in _tokens(connection)))  # fmt: skip


_known_request = lru_cache(MOST_REMEMBERED)(_request_head)


def _lines(octets: bytes) -> tuple[list[bytes], dict[bytes, bytes]]:
    """The lines, and the header by its names in lower case; lists of one name are joined."""
    lines = octets[:-4].split(b"\r\n")
    if octets.translate(None, _TEXT) or octets.count(b"\r") != len(lines) + 1 or octets.count(b"\n") != len(lines) + 1:
        raise malformed("a control character in the header")
    if len(lines) > MAX_LINES:
        raise malformed(f"more than {MAX_LINES} lines of header")
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        spelled, colon, value = line.partition(b":")
        name = _NAMES.get(spelled) or _name(spelled)
        if not colon:
            raise malformed("a line of the header without a colon")
        if name not in headers:
            headers[name] = value.strip(b" \t")
        elif name in _SINGLE:
            raise malformed(f"{name.decode('ascii')} twice")
        else:
            headers[name] += b", " + value.strip(b" \t")
    return lines, headers


def _name(spelled: bytes) -> bytes:
    if not _TOKEN.fullmatch(spelled):
        raise malformed("a line of the header that does not begin with a name")
    name = spelled.lower()
    if len(_NAMES) < _MOST_NAMES and len(spelled) < 64:
        _NAMES[spelled] = name
    return name


def header_values(head: bytes, name: bytes) -> list[bytes]:
    """What the header lines of a name say, in their order."""
    found = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return [value.strip(b" \t") for spelled, _, value in found if spelled.lower() == name]


def passed_by(head: bytes) -> list[str]:
    """Who took the message and passed it on, by the header Via (RFC 9110 7.6.3)."""
    entries = _tokens(b",".join(header_values(head, b"via")))
    return [entry.decode("latin-1") for entry in entries if entry]


def _tokens(value: bytes) -> list[bytes]:
    return [token.strip(b" \t") for token in value.split(b",")]


def _path(target: str) -> str:
    """RFC 9112 3.2.2: a server takes the whole URL, too."""
    path = target.partition("?")[0]
    if path[:7].lower() == "http://" or path[:8].lower() == "https://":
        return "/" + path.partition("://")[2].partition("/")[2]
    return path


class HeadTooLong(Malformed):
    """There is no end of the head within MAX_HEAD."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_HEAD} octets of header", where="HTTP request",
                         remedy="the sender does not speak HTTP as SRMP has it")


class Requests:
    """Requests out of a stream of octets. After an error nothing more is read."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._data = b""
        self._at = 0
        self._chunks: list[bytes] = []  # of the entity, without its last
        self._missing = 0  # octets of the entity
        self.head: RequestHead | None = None  # whose entity has not come yet

    @property
    def buffered(self) -> int:
        """Octets of what is not complete."""
        held = len(self._data) - self._at
        return held if self.head is None else held + (self.head.content_length or 0) - self._missing

    def feed(self, data: bytes) -> None:
        if self.head is not None and self._missing > len(data):
            self._chunks.append(data)
            self._missing -= len(data)
        else:
            self._data = self._data[self._at :] + data if self._at < len(self._data) else data
            self._at = 0

    def next_head(self) -> RequestHead | None:
        """The next request, as soon as its header is there; to be followed by `entity`, or by nothing at all."""
        data, at = self._data, self._at
        if self.head is not None:
            return None
        while data.startswith(b"\r\n", at):  # RFC 9112 2.2: empty lines before a request are passed over
            at += 2
        end = data.find(_END, at, at + MAX_HEAD)
        if end < 0:
            self._at = at
            if len(data) - at >= MAX_HEAD:
                raise HeadTooLong
            return None
        head = self.head = read_request_head(data[at : end + 4])
        self._at = end + 4
        self._missing = head.content_length or 0
        self._chunks = []
        if self._missing > self._longest:
            raise malformed(f"an entity of {self._missing} octets, more than {self._longest}")
        held = len(data) - self._at
        if held < self._missing:
            if held:
                self._chunks.append(data[self._at :])
            self._missing -= held
            self._data, self._at = b"", 0
        return head

    def entity(self) -> bytes | None:
        """All of the entity that belongs to the last head; None as long as some of it is missing."""
        data, at, missing = self._data, self._at, self._missing
        if len(data) - at < missing:
            return None
        last = data[at : at + missing]
        self._at = at + missing
        self.head, self._missing = None, 0
        if not self._chunks:
            return last
        whole = b"".join((*self._chunks, last))
        self._chunks = []
        return whole


class Answers:
    """Answers to POSTs out of a stream of octets: the status counts, the content is thrown away."""

    def __init__(self, longest: int) -> None:
        self._longest = longest  # octets of the content of one answer
        self._data = b""
        self._at = 0
        self._head: AnswerHead | None = None
        self._missing = 0
        self._taken = 0  # octets of content of this answer
        self._in_trailer = False

    @property
    def is_between(self) -> bool:
        """No answer has begun."""
        return self._head is None and self._at >= len(self._data)

    def feed(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    def next(self) -> AnswerHead | None:
        """The next answer that is complete. Interim ones are passed over (SR-199)."""
        while True:
            if self._head is None and not self._read_head():
                return None
            head = self._head
            assert head is not None
            if not self._skipped(head):
                return None
            self._head = None
            if head.status >= 200:
                return head

    def end(self) -> AnswerHead | None:
        """The connection ended: with it, perhaps, an answer that has no length."""
        head, self._head = self._head, None
        return head if head is not None and head.length == ANY_LENGTH else None

    def _read_head(self) -> bool:
        data, at = self._data, self._at
        end = data.find(_END, at, at + MAX_HEAD)
        if end < 0:
            if len(data) - at >= MAX_HEAD:
                raise HeadTooLong
            return False
        head = self._head = read_answer_head(data[at : end + 4])
        self._at = end + 4
        self._missing = max(0, head.length)
        self._taken = 0
        self._in_trailer = False
        if self._missing > self._longest:
            raise malformed(f"an answer of {self._missing} octets")
        return True

    def _skipped(self, head: AnswerHead) -> bool:
        """Whether the content is over."""
        if head.length == CHUNKED:
            return self._skipped_chunks()
        here = len(self._data) - self._at
        if head.length == ANY_LENGTH:
            self._take(here)
            return False
        step = min(here, self._missing)
        self._at += step
        self._missing -= step
        return not self._missing

    def _skipped_chunks(self) -> bool:
        while True:
            step = min(len(self._data) - self._at, self._missing)
            self._take(step)
            self._missing -= step
            if self._missing:
                return False
            end = self._data.find(b"\r\n", self._at, self._at + MAX_CHUNK_LINE)
            if end < 0:
                if len(self._data) - self._at >= MAX_CHUNK_LINE:
                    raise malformed("a chunk without a size")
                return False
            line = self._data[self._at : end]
            self._take(end + 2 - self._at)
            if self._in_trailer:
                if not line:
                    return True
                continue
            size = _CHUNK.fullmatch(line)
            if size is None:
                raise malformed("a chunk without a size")
            length = int(size[1], 16)
            self._in_trailer = not length
            self._missing = length + 2 if length else 0  # with the line break behind it

    def _take(self, count: int) -> None:
        self._at += count
        self._taken += count
        if self._taken > self._longest:
            raise malformed(f"an answer of more than {self._longest} octets")


def read_answer_head(octets: bytes) -> AnswerHead:
    return _known_answer(octets) if len(octets) <= LONGEST_REMEMBERED else _answer_head(octets)


def _answer_head(octets: bytes) -> AnswerHead:
    lines, headers = _lines(octets)
    found = _STATUS.fullmatch(lines[0])
    if found is None:
        raise malformed("the first line is no status line")
    status, modern = int(found[2]), found[1] != b"0"
    connection = _tokens(headers.get(b"connection", b"").lower())
    keep_alive = b"close" not in connection if modern else b"keep-alive" in connection
    if status < 200 or status in (204, 304):
        length = 0
    elif b"transfer-encoding" in headers:
        if headers[b"transfer-encoding"].lower() != b"chunked" or b"content-length" in headers:
            raise malformed("an answer whose length is not clear")
        length = CHUNKED
    elif b"content-length" in headers:
        if not _LENGTH.fullmatch(headers[b"content-length"]):
            raise malformed("the Content-Length is no number")
        length = int(headers[b"content-length"])
    else:
        length, keep_alive = ANY_LENGTH, False
    pipeline = headers.get(b"lior-pipeline", b"")
    return AnswerHead(status, length, keep_alive, int(pipeline) if modern and re.fullmatch(rb"[0-9]{1,4}", pipeline)
                      else 0)  # fmt: skip


_known_answer = lru_cache(MOST_REMEMBERED)(_answer_head)
