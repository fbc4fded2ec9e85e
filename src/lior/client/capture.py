"""Messages and session packets in captures: of the binary protocol ([MS-MQQB]), and of SRMP over HTTP ([MC-MQSRM])."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from lior.client.pcap import Piece, frames, streams
from lior.client.srmp_archive import HTTP_PORT, Request, Requests, files_of, message_of
from lior.errors import LiorError, Malformed
from lior.message import NULL_GUID, Message
from lior.protocols.binary.framer import Framer
from lior.wire.headers import IN, SIGNATURE, BaseHeader
from lior.wire.message_packet import to_message

PORT: Final = 1801
_SIGNATURE: Final = SIGNATURE.to_bytes(4, "little")
_INTERNAL: Final = {1: "session ack", 2: "establish connection", 3: "connection parameters"}


class Captured(NamedTuple):
    time: float
    source: str
    target: str
    kind: str  # message, or what kind of session packet; "" for what does not decode
    packet: bytes
    message: Message | None
    error: str | None


class Conversation:
    """One direction. Where its frame is lost, it is looked for again."""

    def __init__(self) -> None:
        self._framer: Framer | None = None

    def packets(self, piece: Piece) -> Iterator[bytes]:
        data = piece.data
        if piece.fresh:
            self._framer = None
        if self._framer is None:
            at = data.find(_SIGNATURE, 4)
            if at < 4:
                return
            data, self._framer = data[at - 4 :], Framer()
        try:
            yield from self._framer.feed(data)
        except Malformed:
            self._framer = None


def captured(paths: Sequence[str | Path], port: int = PORT, http_port: int = HTTP_PORT) -> Iterator[Captured]:
    """Several files are one capture that was cut, in the order of their names."""
    known: dict[tuple[tuple[str, int], tuple[str, int]], Conversation] = {}
    posted: dict[tuple[tuple[str, int], tuple[str, int]], Requests] = {}
    for piece in streams(chain.from_iterable(frames(path) for path in paths), port, http_port):
        if port not in (piece.source[1], piece.target[1]):
            if piece.target[1] == http_port:
                yield from _posted(posted.setdefault((piece.source, piece.target), Requests()), piece)
            continue
        conversation = known.setdefault((piece.source, piece.target), Conversation())
        for packet in conversation.packets(piece):
            yield decoded(packet, piece.time, _shown(piece.source), _shown(piece.target))


def _posted(requests: Requests, piece: Piece) -> Iterator[Captured]:
    """Of all that goes over HTTP only what says that it is SRMP."""
    if piece.fresh:
        requests.restart()
    for request in requests.feed(piece.data):
        if b"\r\nsoapaction:" in request.head.lower():
            yield from _srmp(request, piece.time, _shown(piece.source), _shown(piece.target))


def _srmp(request: Request, time: float, source: str, target: str = "") -> Iterator[Captured]:
    packet = request.head + request.body
    try:
        kind, message = message_of(request, time)
    except LiorError as error:
        yield Captured(time, source, target, "", packet, None, str(error))
        return
    yield Captured(time, source, target, kind, packet, message, None)


def archived(paths: Sequence[str | Path]) -> Iterator[Captured]:
    """Files that each hold SRMP requests or their content. A file's time of change is the time of arrival."""
    for path, changed, request in files_of(paths):
        if isinstance(request, Malformed):
            yield Captured(changed, path, "", "", b"", None, str(request))
        else:
            yield from _srmp(request, changed, path)


def decoded(packet: bytes, time: float, source: str = "", target: str = "") -> Captured:
    try:
        header = BaseHeader.decode(packet)
        if header.flags & IN:
            kind = _INTERNAL.get(int.from_bytes(packet[18:20], "little") & 15, "internal")
            return Captured(time, source, target, kind, packet, None, None)
        message = to_message(packet, queue_manager=NULL_GUID)
        message.arrival_time = time
        return Captured(time, source, target, "message", packet, message, None)
    except LiorError as error:
        return Captured(time, source, target, "", packet, None, str(error))


def stored(paths: Sequence[str | Path]) -> Iterator[Captured]:
    """Files that each hold packets, one behind the other, as they were on the wire."""
    for path in paths:
        framer = Framer()
        with Path(path).open("rb") as file, suppress(Malformed):
            while data := file.read(1 << 20):
                for packet in framer.feed(data):
                    yield decoded(packet, 0.0, str(path))


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
