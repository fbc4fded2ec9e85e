"""SRMP messages ([MC-MQSRM]) in files and in connections that were captured: HTTP requests one behind another, single
requests without their first line, MIME entities, and bare envelopes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lior.errors import Malformed
from lior.message import Message
from lior.protocols.srmp.kinds import kind_of
from lior.wire.mime import parse_entity
from lior.wire.srmp_message import to_message
from lior.wire.srmp_reader import read_envelope

HTTP_PORT: Final = 80
LONGEST_HEAD: Final = 64 << 10
LONGEST_BODY: Final = 64 << 20
_START: Final = re.compile(rb"(?:POST|PUT|GET|HEAD|OPTIONS|DELETE) [^\r\n]{1,8192} HTTP/1\.[01]\r\n")
_NAMED: Final = re.compile(rb"[!-9;-~]{1,100}:[^\r\n]*\r\n")
_LONGEST_START: Final = 8300
_END: Final = b"\r\n\r\n"


class Request(NamedTuple):
    head: bytes  # with the empty line
    content_type: str
    body: bytes


class Requests:
    """The requests in one direction of a connection. What is no request is passed over, up to the next one."""

    def __init__(self) -> None:
        self._held = bytearray()

    def restart(self) -> None:
        """What came before is unknown."""
        self._held.clear()

    def feed(self, data: bytes) -> Iterator[Request]:
        self._held += data
        while True:
            found = _START.search(self._held)
            if found is None:
                del self._held[: max(0, len(self._held) - _LONGEST_START)]
                return
            del self._held[: found.start()]
            end = self._held.find(_END)
            if end < 0:
                if len(self._held) > LONGEST_HEAD:
                    del self._held[: found.end() - found.start()]
                    continue
                return
            head = bytes(self._held[: end + len(_END)])
            whole = self._body(head)
            if whole is None:
                return
            if whole < 0:  # no request that we know: look behind its head
                del self._held[: len(head)]
                continue
            given = bytes(self._held[len(head) : whole])
            del self._held[:whole]
            body = given if header(head, "transfer-encoding").casefold() != "chunked" else unchunked(given)
            yield Request(head, header(head, "content-type"), body)

    def _body(self, head: bytes) -> int | None:
        """Where the request ends; None if that has not come yet, -1 if nobody can tell."""
        if header(head, "transfer-encoding").casefold() == "chunked":
            end = chunks_end(self._held, len(head))
            return -1 if len(self._held) > LONGEST_BODY and end is None else end
        text = header(head, "content-length") or "0"
        if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > LONGEST_BODY:
            return -1
        end = len(head) + int(text)
        return end if len(self._held) >= end else None


def header(head: bytes, name: str) -> str:
    wanted = name.encode() + b":"
    for line in head.split(b"\r\n")[1:]:
        if line[: len(wanted)].lower() == wanted:
            return line[len(wanted) :].strip().decode("latin-1")
    return ""


def chunks_end(data: bytes | bytearray, at: int) -> int | None:
    """Behind the last of the chunks that begin at `at`, and -1 if these are none."""
    while True:
        end = data.find(b"\r\n", at, at + 100)
        if end < 0:
            return None if len(data) - at < 100 else -1
        try:
            size = int(bytes(data[at:end]).partition(b";")[0], 16)
        except ValueError:
            return -1
        if not 0 <= size <= LONGEST_BODY:
            return -1
        if size == 0:
            last = data.find(_END, end)
            return None if last < 0 else last + len(_END)
        at = end + 2 + size + 2
        if at > len(data):
            return None


def unchunked(data: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while True:
        end = data.find(b"\r\n", at)
        size = int(data[at:end].partition(b";")[0], 16)
        if not size:
            return b"".join(parts)
        parts.append(data[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def requests_of(data: bytes) -> Iterator[Request]:
    """Those in a file."""
    if _START.match(data):
        yield from Requests().feed(data)
    elif _NAMED.match(data):
        head, _, body = data.partition(_END)
        yield Request(head + _END, header(b"\r\n" + head, "content-type"), body)
    elif data.startswith(b"--"):
        boundary = data[2 : data.find(b"\r\n")].decode("latin-1")
        yield Request(b"", f'multipart/related; boundary="{boundary}"; type=text/xml', data)
    elif data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        yield Request(b"", "text/xml; charset=utf-8", data)
    else:
        raise Malformed("this is neither an HTTP request nor a MIME entity nor an envelope", where="SRMP archive",
                        remedy="give files of SRMP requests as they came")


def files_of(paths: Sequence[str | Path]) -> Iterator[tuple[str, float, Request | Malformed]]:
    for path in map(Path, paths):
        if path.stat().st_size > 16 * LONGEST_BODY:
            yield str(path), 0.0, Malformed("the file is too large", where=str(path), remedy="cut it")
            continue
        data, changed = path.read_bytes(), path.stat().st_mtime
        try:
            for request in requests_of(data):
                yield str(path), changed, request
        except Malformed as error:
            yield str(path), changed, error


def message_of(request: Request, arrival: float) -> tuple[str, Message]:
    """What kind of message it is, in the words of [MC-MQSRM], and the message."""
    entity = parse_entity(request.content_type, request.body)
    envelope = read_envelope(entity.envelope)
    kind = kind_of(envelope)
    if kind is None:
        raise Malformed("an envelope of no kind", where="SRMP", remedy="its class and its receipts disagree")
    message = to_message(envelope, entity, request.head + request.body, arrival)
    message.arrival_time = arrival
    return kind.value, message
