"""The packets of [MS-MQQB], written a second time from the documents: struct only, nothing of lior.

`decode` takes what the documents allow on receipt; `check_emitted` is stricter: what they ask of a sender.
GUIDs are their sixteen raw bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

INFINITE: Final = 0xFFFFFFFF
NULL: Final = bytes(16)
MAXIMUM: Final = 0x00400000  # BaseHeader.PacketSize, [MS-MQMQ] 2.2.19.1
INTERNAL, SESSION_HEADER, DEBUG, TRACING = 0x08, 0x10, 0x20, 0x100  # BaseHeader.Flags
SESSION_ACK, ESTABLISH, PARAMETERS = 1, 2, 3  # InternalHeader.Flags.PT
ORDER_QUEUE: Final = 4  # private identifier of order_queue$ on every queue manager
ORDER_LABEL: Final = "QM Ordering Ack"
ORDER_ACK: Final = 0x00FF  # MessageClass

_BASE = struct.Struct("<BBHIII")
_INTERNAL = struct.Struct("<HH")
_ESTABLISH = struct.Struct("<16s16sIHH")
_PARAMETERS = struct.Struct("<IIHH")
_SESSION = struct.Struct("<HHIHHHH")
_USER = struct.Struct("<16s16sIIII")
_TRANSACTION = struct.Struct("<IQII")
_SECURITY = struct.Struct("<HHHHII")
_PROPERTIES = struct.Struct("<BBH20sIIIIIIII")
_ORDER_BODY = struct.Struct("<QII20s")
_FINAL_BODY = struct.Struct("<QII16sI")


class Strange(AssertionError):
    """A packet that the documents do not allow."""


def must(condition: object, what: str) -> None:
    if not condition:
        raise Strange(what)


@dataclass
class SessionHeader:
    """[MS-MQMQ] 2.2.20.4"""

    ack: int = 0
    recoverable_base: int = 0
    recoverable_flags: int = 0
    sent: int = 0
    recoverable_sent: int = 0
    window: int = 64

    def encode(self) -> bytes:
        return _SESSION.pack(
            self.ack, self.recoverable_base, self.recoverable_flags, self.sent, self.recoverable_sent, self.window, 0
        )

    @classmethod
    def decode(cls, data: bytes) -> SessionHeader:
        return cls(*_SESSION.unpack(data)[:6])

    def persisted(self) -> list[int]:
        """The recoverable numbers that it says are on disk."""
        return [self.recoverable_base + k for k in range(32) if self.recoverable_flags >> k & 1]


@dataclass
class SessionAck:
    """[MS-MQQB] 2.2.6"""

    header: SessionHeader
    reserved: int = 0
    priority: int = 0

    def encode(self) -> bytes:
        return internal(SESSION_ACK, self.header.encode(), SESSION_HEADER | self.priority, reserved=self.reserved)


@dataclass
class Establish:
    """[MS-MQQB] 2.2.3, request and response."""

    client: bytes
    server: bytes = NULL
    time_stamp: int = 0
    operating_system: int = 0x0110  # RE=0x10, SE: no ping was sent
    refused: bool = False
    padding: bytes = b"\x5a" * 512
    reserved: int = 0
    priority: int = 0

    def encode(self) -> bytes:
        body = _ESTABLISH.pack(self.client, self.server, self.time_stamp, self.operating_system, 0) + self.padding
        return internal(ESTABLISH, body, self.priority, refused=self.refused, reserved=self.reserved)


@dataclass
class Parameters:
    """[MS-MQQB] 2.2.2"""

    recoverable_ack_timeout: int = 500
    ack_timeout: int = 20000
    window: int = 64
    reserved: int = 0
    priority: int = 0
    refused: bool = False

    def encode(self) -> bytes:
        body = _PARAMETERS.pack(self.recoverable_ack_timeout, self.ack_timeout, 0, self.window)
        return internal(PARAMETERS, body, self.priority, refused=self.refused, reserved=self.reserved)


class Name(NamedTuple):
    """A queue name as UserHeader carries it: the value of DQ, AQ or RQ, and what belongs to it."""

    kind: int
    text: str = ""  # 7: direct, without "DIRECT="
    number: int = 0  # 2, 3, 4, 6: private identifier
    guid: bytes = b""  # 5: public queue; 6: queue manager

    def encode(self) -> bytes:
        if self.kind == 7:
            text = (self.text + "\0").encode("utf-16-le")
            return padded(struct.pack("<H", len(text)) + text)
        if self.kind in (2, 3, 4):
            return struct.pack("<I", self.number)
        return self.guid + (struct.pack("<I", self.number) if self.kind == 6 else b"")


def direct(text: str) -> Name:
    return Name(7, text)


def private(number: int, kind: int = 3) -> Name:
    return Name(kind, number=number)


@dataclass
class Transaction:
    """[MS-MQMQ] 2.2.20.5; the stream is TxSequenceID read as one number."""

    stream: int
    number: int
    previous: int
    first: bool = True
    last: bool = True
    final_ack: bool = False
    identifier: int = 0
    connector: bytes | None = None

    def encode(self) -> bytes:
        flags = (self.connector is not None) | self.final_ack << 1 | self.first << 2 | self.last << 3
        fixed = _TRANSACTION.pack(flags | self.identifier << 4, self.stream, self.number, self.previous)
        return fixed + (self.connector or b"")


@dataclass
class Security:
    """[MS-MQMQ] 2.2.20.6"""

    flags: int
    items: tuple[bytes, bytes, bytes, bytes, bytes] = (b"", b"", b"", b"", b"")  # id, key, signature, cert, provider

    def encode(self) -> bytes:
        return _SECURITY.pack(self.flags, *(len(i) for i in self.items)) + b"".join(padded(i) for i in self.items)


@dataclass
class UserMessage:
    """[MS-MQMQ] 2.2.20, with the SessionHeader behind it if it has one."""

    destination: Name | None
    body: bytes = b""
    source: bytes = NULL
    address: bytes = NULL
    message_id: int = 0
    sent_time: int = 0
    time_to_reach_queue: int = INFINITE
    time_to_be_received: int = INFINITE
    priority: int = 3
    hops: int = 0
    delivery: int = 0  # DM
    negative_journal: bool = False
    positive_journal: bool = False
    admin: Name | None = None
    response: Name | None = None
    connector: bytes | None = None
    transaction: Transaction | None = None
    security: Security | None = None
    acknowledge: int = 0  # PA 1, PR 2, NA 4, NR 8
    label: str = ""
    message_class: int = 0
    correlation: bytes = bytes(20)
    body_type: int = 0
    tag: int = 0
    allocated: int | None = None  # AllocationBodySize, if it is not the size of the body
    privacy: int = 0
    hash_algorithm: int = 0x800E
    encryption: int = 0
    extension: bytes = b""
    debug: bytes | None = None
    multi_queue: bytes | None = None
    session: SessionHeader | None = None
    extra_flags: int = 0  # of UserHeader
    base_flags: int = 0
    tail: bytes = field(default=b"", repr=False)

    @property
    def recoverable(self) -> bool:
        return self.delivery == 1

    def flags(self) -> int:
        kinds = [0 if name is None else name.kind for name in (self.destination, self.admin, self.response)]
        return (
            self.hops | self.delivery << 5 | self.negative_journal << 8 | self.positive_journal << 9
            | kinds[0] << 10 | kinds[1] << 13 | kinds[2] << 16
            | (self.security is not None) << 19 | (self.transaction is not None) << 20 | 1 << 21
            | (self.connector is not None) << 22 | (self.multi_queue is not None) << 23 | self.extra_flags
        )  # fmt: skip

    def encode(self) -> bytes:
        user = _USER.pack(
            self.source, self.address, self.time_to_be_received, self.sent_time, self.message_id, self.flags()
        )
        for name in (self.destination, self.admin, self.response):
            user += b"" if name is None else name.encode()
        parts = [user, self.connector or b""]
        parts += [header.encode() for header in (self.transaction, self.security) if header is not None]
        parts += [self._properties(), self.debug or b"", self.multi_queue or b"", self.tail]
        rest = b"".join(parts)
        flags = self.priority | self.base_flags | (DEBUG if self.debug is not None else 0)
        if self.session is not None:  # PacketSize leaves it out
            flags |= SESSION_HEADER
        base = _BASE.pack(0x10, 0, flags, 0x524F494C, 16 + len(rest), self.time_to_reach_queue)
        return base + rest + (self.session.encode() if self.session is not None else b"")

    def _properties(self) -> bytes:
        label = (self.label + "\0").encode("utf-16-le") if self.label else b""
        allocated = len(self.body) if self.allocated is None else self.allocated
        fixed = _PROPERTIES.pack(
            self.acknowledge, len(label) // 2, self.message_class, self.correlation, self.body_type, self.tag,
            len(self.body), allocated, self.privacy, self.hash_algorithm, self.encryption, len(self.extension),
        )  # fmt: skip
        return padded(fixed + label + self.extension + self.body.ljust(allocated, b"\0"))


class OrderBody(NamedTuple):
    """[MS-MQQB] 2.2.4.1"""

    stream: int
    number: int
    previous: int

    def encode(self, reserved: bytes = bytes(20)) -> bytes:
        return _ORDER_BODY.pack(*self, reserved)


class FinalBody(NamedTuple):
    """[MS-MQQB] 2.2.5.1"""

    stream: int
    number: int
    previous: int
    source: bytes
    message_id: int

    def encode(self) -> bytes:
        return _FINAL_BODY.pack(*self)


Packet = Establish | Parameters | SessionAck | UserMessage


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def internal(kind: int, body: bytes, flags: int = 0, *, refused: bool = False, reserved: int = 0) -> bytes:
    base = _BASE.pack(0x10, reserved, INTERNAL | flags, 0x524F494C, 20 + len(body), INFINITE)
    return base + _INTERNAL.pack(0, kind | refused << 4) + body


def order_queue_of(name: str) -> Name:
    return direct(f"TCP:{name}\\PRIVATE$\\order_queue$")


def size_of(start: bytes) -> int:
    """How many bytes the packet that starts so takes on the stream."""
    version, _, flags, signature, size, _ = _BASE.unpack(start[:16])
    must(version == 0x10, f"version {version:#x}")
    must(signature == 0x524F494C, f"signature {signature:#x}")
    must(20 <= size <= MAXIMUM, f"PacketSize {size}")
    return int(size) + (16 if flags & SESSION_HEADER and not flags & INTERNAL else 0)


def decode(data: bytes) -> Packet:
    """One whole packet."""
    must(size_of(data) == len(data), f"{len(data)} bytes, {size_of(data)} announced")
    flags = _BASE.unpack(data[:16])[2]
    return _internal_packet(data, flags) if flags & INTERNAL else _user_message(data, flags)


def _internal_packet(data: bytes, flags: int) -> Packet:
    reserved, priority = data[1], flags & 7
    kind_flags = _INTERNAL.unpack(data[16:20])[1]
    kind, refused, body = kind_flags & 15, bool(kind_flags & 16), data[20:]
    must(_BASE.unpack(data[:16])[5] == INFINITE, "TimeToReachQueue of an internal packet")
    must(not flags & DEBUG, "a DebugHeader in an internal packet")
    must(bool(flags & SESSION_HEADER) == (kind == SESSION_ACK), "BaseHeader.SH and the packet type")
    if kind == ESTABLISH:
        must(len(data) == 572, f"EstablishConnection of {len(data)} bytes")
        client, server, stamp, system, _ = _ESTABLISH.unpack(body[:40])
        must(system & 0xFF == 0x10, f"OperatingSystem {system:#x}")
        return Establish(client, server, stamp, system, refused, body[40:], reserved, priority)
    if kind == PARAMETERS:
        must(len(data) == 32, f"ConnectionParameters of {len(data)} bytes")
        recoverable, ack, _, window = _PARAMETERS.unpack(body)
        must(500 <= recoverable <= 120000, f"RecoverableAckTimeout {recoverable}")
        must(20000 <= ack <= 120000, f"AckTimeout {ack}")
        return Parameters(recoverable, ack, window, reserved, priority, refused)
    must(kind == SESSION_ACK, f"packet type {kind}")
    must(len(data) == 36 and not refused, "SessionAck")
    return SessionAck(SessionHeader.decode(body), reserved, priority)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 16

    def take(self, count: int) -> bytes:
        must(0 <= count <= len(self.data) - self.at, f"{count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def align(self, start: int) -> None:
        self.take(-(self.at - start) % 4)

    def name(self, kind: int, allowed: tuple[int, ...]) -> Name | None:
        must(kind in allowed, f"queue type {kind}")
        if kind in (0, 1):
            return None
        if kind == 7:
            (count,) = struct.unpack("<H", self.take(2))
            must(count >= 4 and count % 2 == 0, f"Count {count}")
            text = self.take(count).decode("utf-16-le")
            must(text.endswith("\0") and "\0" not in text[:-1], f"direct name {text!r}")
            self.align(16)
            return direct(text[:-1])
        guid = self.take(16) if kind in (5, 6) else b""
        number = 0 if kind == 5 else int.from_bytes(self.take(4), "little")
        return Name(kind, number=number, guid=guid)


def _user_message(data: bytes, flags: int) -> UserMessage:
    session = None
    if flags & SESSION_HEADER:
        session, data = SessionHeader.decode(data[-16:]), data[:-16]
    reader = _Reader(data)
    source, address, received, sent, number, user = _USER.unpack(reader.take(48))
    must(user >> 5 & 3 < 2, "DM")
    must(user >> 21 & 1, "MP is clear")
    message = UserMessage(
        reader.name(user >> 10 & 7, (0, 3, 5, 7)), b"", source, address, number, sent,
        time_to_reach_queue=_BASE.unpack(data[:16])[5], time_to_be_received=received, priority=flags & 7,
        hops=user & 31, delivery=user >> 5 & 3,
        negative_journal=bool(user & 0x100), positive_journal=bool(user & 0x200),
        admin=reader.name(user >> 13 & 7, (0, 2, 3, 5, 6, 7)), response=reader.name(user >> 16 & 7, tuple(range(8))),
        session=session, extra_flags=user & 0xEF000080, base_flags=flags & 0xFFC0,
    )  # fmt: skip
    must(message.hops <= 0x1D, "RC")
    message.connector = reader.take(16) if user >> 22 & 1 else None
    message.transaction = _transaction(reader, message) if user >> 20 & 1 else None
    message.security = _security(reader) if user >> 19 & 1 else None
    _properties(reader, message)
    if flags & DEBUG:
        start = reader.take(4)
        must(start[0] & 3 < 2, "QT")
        message.debug = start + (reader.take(16) if start[0] & 1 else b"")
    must(not flags & TRACING or message.debug is not None, "TR without DH")
    if user >> 23 & 1:
        message.multi_queue = reader.take(len(data) - reader.at)
    must(reader.at == len(data), f"{len(data) - reader.at} bytes left over")
    return message


def _transaction(reader: _Reader, message: UserMessage) -> Transaction:
    must(message.delivery, "TH with DM=0")
    flags, stream, number, previous = _TRANSACTION.unpack(reader.take(20))
    must(number > previous, f"number {number} after {previous}")
    bits = (bool(flags & 4), bool(flags & 8), bool(flags & 2), flags >> 4 & 0xFFFFF)
    return Transaction(stream, number, previous, *bits, reader.take(16) if flags & 1 else None)


def _security(reader: _Reader) -> Security:
    flags, *sizes = _SECURITY.unpack(reader.take(16))
    must(any(sizes), "an empty SecurityHeader")
    items = []
    for size in sizes:
        items.append(reader.take(size))
        reader.take(-size % 4)
    return Security(flags, (items[0], items[1], items[2], items[3], items[4]))


def _properties(reader: _Reader, message: UserMessage) -> None:
    start = reader.at
    (
        message.acknowledge, label, message.message_class, message.correlation, message.body_type, message.tag,
        size, allocated, message.privacy, message.hash_algorithm, message.encryption, extension,
    ) = _PROPERTIES.unpack(reader.take(56))  # fmt: skip
    must(label <= 0xFA, f"LabelLength {label}")
    must(size <= allocated, f"MessageSize {size} of {allocated}")
    text = reader.take(2 * label).decode("utf-16-le")
    must(not text or (text[-1] == "\0" and "\0" not in text[:-1]), f"label {text!r}")
    message.label = text[:-1]
    message.extension = reader.take(extension)
    message.body = reader.take(allocated)[:size]
    message.allocated = allocated if allocated != size else None
    reader.align(start)


def check_emitted(packet: Packet) -> None:
    """What the documents ask of the sender alone."""
    if isinstance(packet, Establish):
        must(not packet.operating_system & 0xF800, "unused bits of OperatingSystem")
        must(packet.padding == b"\x5a" * 512, "padding of EstablishConnection")
    elif isinstance(packet, SessionAck):
        must(packet.header.window >= 1, "WindowSize 0")
        must(packet.header.recoverable_base or not packet.header.recoverable_flags, "flags without a base")
    elif isinstance(packet, UserMessage):
        must(not packet.extra_flags & 0xEF000080, "reserved bits of UserHeader.Flags")
        must(not packet.base_flags & 0xFEC0, "reserved bits of BaseHeader.Flags")
        must(not packet.transaction or not packet.priority, "a transactional message with a priority")
        must(packet.message_id, "MessageID 0")
        name = packet.destination
        must(name is None or not name.text.upper().startswith("DIRECT="), "DIRECT= in a name")
        must(not packet.acknowledge or packet.admin is not None, "acknowledgements asked for without an admin queue")
        must((name is not None and name.kind == 7) == (packet.address == NULL), "QueueManagerAddress")
        must(packet.security is None or not packet.security.flags & 0xFF10, "AU, AS or unused bits of SecurityHeader")
