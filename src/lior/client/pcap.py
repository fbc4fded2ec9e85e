"""Captures of networks, pcap and pcapng, without libpcap: packets with their times, and the TCP streams in them.

What is cut off at the end is left out; what is no capture at all is refused. Everything that is kept has a bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from lior.errors import Malformed

LONGEST_PACKET: Final = 1 << 18
LONGEST_BLOCK: Final = 1 << 24
MOST_PENDING: Final = 1 << 20  # bytes of one direction that wait for what came before them
MOST_STREAMS: Final = 10_000
ETHERNET, NULL, RAW, SLL, SLL2 = 1, 0, 101, 113, 276
_VLANS: Final = (0x8100, 0x88A8)
_PCAP: Final = {b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
                b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9)}  # fmt: skip
_SECTION: Final = b"\x0a\x0d\x0d\x0a"


class Frame(NamedTuple):
    time: float
    link: int
    data: bytes


class Segment(NamedTuple):
    time: float
    source: tuple[str, int]
    target: tuple[str, int]
    sequence: int
    starts: bool  # SYN
    data: bytes


class Piece(NamedTuple):
    """Bytes of one direction in their order; `fresh` if what came before is unknown."""

    time: float
    source: tuple[str, int]
    target: tuple[str, int]
    data: bytes
    fresh: bool


def frames(path: str | Path) -> Iterator[Frame]:
    with Path(path).open("rb") as file:
        magic = file.read(4)
        if magic in _PCAP:
            yield from _pcap(file, *_PCAP[magic])
        elif magic == _SECTION:
            file.seek(0)
            yield from _pcapng(file)
        elif magic:
            raise Malformed("this is neither pcap nor pcapng", where=str(path), remedy="give a capture file")


def _pcap(file: BinaryIO, order: str, unit: float) -> Iterator[Frame]:
    head = file.read(20)
    if len(head) < 20:
        return
    link = struct.unpack(order + "I", head[16:20])[0] & 0x0FFFFFFF
    record = struct.Struct(order + "IIII")
    while len(given := file.read(16)) == 16:
        seconds, fraction, size, _ = record.unpack(given)
        if size > LONGEST_PACKET:
            raise Malformed(f"a packet of {size} bytes", where=file.name, remedy="the capture is damaged here")
        data = file.read(size)
        if len(data) < size:
            return
        yield Frame(seconds + fraction * unit, link, data)


def _pcapng(file: BinaryIO) -> Iterator[Frame]:
    order, interfaces = "<", list[tuple[int, float]]()
    while len(head := file.read(8)) == 8:
        if head[:4] == _SECTION:
            mark = file.read(4)
            order = "<" if mark == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
            file.seek(-4, 1)
        kind, size = struct.unpack(order + "II", head)
        if not 12 <= size <= LONGEST_BLOCK or size % 4:
            raise Malformed(f"a block of {size} bytes", where=file.name, remedy="the capture is damaged here")
        body = file.read(size - 8)
        if len(body) < size - 8:
            return
        body = body[:-4]
        if kind == 1 and len(body) >= 8:
            interfaces.append((struct.unpack_from(order + "H", body)[0], _resolution(body[8:], order)))
        elif kind == 6 and len(body) >= 20:
            which, high, low, captured = struct.unpack_from(order + "IIII", body)
            if which < len(interfaces):
                link, unit = interfaces[which]
                yield Frame((high << 32 | low) * unit, link, body[20 : 20 + captured])


def _resolution(options: bytes, order: str) -> float:
    at = 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from(order + "HH", options, at)
        if code == 9 and size >= 1 and at + 4 < len(options):
            value = options[at + 4]
            return 2.0 ** -(value & 0x7F) if value & 0x80 else 10.0**-value
        if code == 0:
            break
        at += 4 + size + (-size % 4)
    return 1e-6


def segment(frame: Frame) -> Segment | None:
    """The TCP segment in a frame, if there is one; fragments of IP packets are left out."""
    data = _network(frame)
    try:
        if data[:1] and data[0] >> 4 == 4:
            header, total = (data[0] & 15) * 4, int.from_bytes(data[2:4])
            if data[9] != 6 or int.from_bytes(data[6:8]) & 0x3FFF:
                return None
            source, target = data[12:16], data[16:20]
            tcp = data[header : total or None]
        elif data[:1] and data[0] >> 4 == 6:
            if data[6] != 6:
                return None
            source, target = data[8:24], data[24:40]
            tcp = data[40 : 40 + int.from_bytes(data[4:6]) or None]
        else:
            return None
        ports = struct.unpack_from(">HHI", tcp)
        offset, flags = (tcp[12] >> 4) * 4, tcp[13]
        return Segment(frame.time, (str(ip_address(source)), ports[0]), (str(ip_address(target)), ports[1]),
                       ports[2], bool(flags & 2), tcp[offset:])  # fmt: skip
    except (IndexError, struct.error, ValueError):
        return None


def _network(frame: Frame) -> bytes:
    data = frame.data
    if frame.link == ETHERNET:
        at = 12
        while int.from_bytes(data[at : at + 2]) in _VLANS:
            at += 4
        return data[at + 2 :]
    return data[{NULL: 4, SLL: 16, SLL2: 20}.get(frame.link, 0) :]


class Direction:
    """One direction of a connection. Sequence numbers are compared around 2^32."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._waiting: dict[int, bytes] = {}
        self._pending = 0

    def feed(self, given: Segment) -> Iterator[Piece]:
        sequence = given.sequence
        if given.starts:
            self._next, sequence = None, (sequence + 1) & 0xFFFFFFFF
            self._waiting.clear()
            self._pending = 0
        if not given.data:
            if given.starts:
                self._next = sequence
            return
        fresh = self._next is None and not given.starts
        if self._next is None:
            self._next = sequence
        if _after(sequence, self._next) > 0:
            self._keep(sequence, given.data)
            if self._pending <= MOST_PENDING:
                return
            self._next, fresh = min(self._waiting, key=lambda each: _after(each, self._next or 0)), True
        else:
            self._keep(sequence, given.data)
        data = self._joined()
        if data:
            yield Piece(given.time, given.source, given.target, data, fresh)

    def _keep(self, sequence: int, data: bytes) -> None:
        known = self._waiting.get(sequence, b"")
        if len(data) > len(known):
            self._pending += len(data) - len(known)
            self._waiting[sequence] = data

    def _joined(self) -> bytes:
        """What follows without a gap; what came before is a retransmission and is cut off."""
        assert self._next is not None
        found: list[bytes] = []
        while True:
            ready = [each for each in self._waiting if _after(each, self._next) <= 0]
            if not ready:
                return b"".join(found)
            for sequence in sorted(ready, key=lambda each: _after(each, self._next or 0)):
                data = self._waiting.pop(sequence)
                self._pending -= len(data)
                new = data[-_after(sequence, self._next) :] if sequence != self._next else data
                if len(data) > -_after(sequence, self._next):
                    found.append(new)
                    self._next = (self._next + len(new)) & 0xFFFFFFFF


def _after(one: int, other: int) -> int:
    return (one - other + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def streams(given: Iterator[Frame], *ports: int) -> Iterator[Piece]:
    """The bytes of every connection to or from one of the ports, as they become complete."""
    known: dict[tuple[tuple[str, int], tuple[str, int]], Direction] = {}
    for frame in given:
        found = segment(frame)
        if found is None or (found.source[1] not in ports and found.target[1] not in ports):
            continue
        key = found.source, found.target
        if key not in known and len(known) >= MOST_STREAMS:
            del known[next(iter(known))]
        yield from known.setdefault(key, Direction()).feed(found)
