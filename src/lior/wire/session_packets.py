"""Packets of a protocol session that are no messages, and the Ping Packet ([MS-MQQB] 2.2.1 to 2.2.3, 2.2.6, 2.2.7).

`decode` takes the bytes of exactly one packet and gives all of it or raises Malformed. Reserved fields and unused bits
stay as they came, so that a packet writes back unchanged: what has to be ignored is nobody's reason to refuse.
"""

from dataclasses import dataclass, field
from typing import Final, Self

from lior.errors import InvalidParameter, Malformed
from lior.wire.headers import DH, IN, NULL_GUID_BYTES, SH, TR, BaseHeader, Header, SessionHeader, wire

# InternalHeader.Flags (2.2.1)
PT_MASK: Final = 0x000F
SESSION_ACK, ESTABLISH_CONNECTION, CONNECTION_PARAMETERS = 1, 2, 3
CS: Final = 0x0010  # connection refused

# EstablishConnectionHeader.OperatingSystem (2.2.3.1)
RE_MASK, RE = 0x00FF, 0x0010
SE: Final = 0x0100  # no Ping Request went before
OS: Final = 0x0200  # the initiator is of the server class
QS: Final = 0x0400  # guaranteed quality of service

# Ping Packet (2.2.7)
PING_SIGNATURE: Final = 0x5548  # b"HU" on the wire
RC, RF = 0x0001, 0x0002  # the initiator is not of the server class; a session would be refused

# ConnectionParametersHeader (2.2.2.1), milliseconds
RECOVERABLE_ACK_TIMEOUTS: Final = (0x1F4, 0x1D4C0)
ACK_TIMEOUTS: Final = (0x4E20, 0x1D4C0)

PADDING_SIZE: Final = 512
PADDING: Final = b"\x5a" * PADDING_SIZE  # 2.2.3.1; in requests too, where any content will do

_INTERNAL_PRIORITY: Final = 3  # as in the frames of section 4.1
_BODY_AT: Final = 20  # behind BaseHeader and InternalHeader


def internal_base(size: int, flags: int = 0) -> BaseHeader:
    """The BaseHeader of an internal packet as machines send it: priority 3, no time limit."""
    return BaseHeader(flags=_INTERNAL_PRIORITY | IN | flags, packet_size=size)


@wire("<HH", size=4)
@dataclass(slots=True)
class InternalHeader(Header):
    """2.2.1"""

    reserved: int = 0
    flags: int = 0


@wire("<16s16sIHH512s", size=552)
@dataclass(slots=True)
class EstablishConnectionHeader(Header):
    """2.2.3.1"""

    client_guid: bytes = NULL_GUID_BYTES
    server_guid: bytes = NULL_GUID_BYTES  # null in a request for a direct format name
    time_stamp: int = 0  # milliseconds; what an initiator sent comes back to it
    operating_system: int = RE | SE
    reserved: int = 0
    padding: bytes = field(default=PADDING, repr=False)


@wire("<IIHH", size=12)
@dataclass(slots=True)
class ConnectionParametersHeader(Header):
    """2.2.2.1; both times in milliseconds."""

    recoverable_ack_timeout: int = RECOVERABLE_ACK_TIMEOUTS[0]
    ack_timeout: int = ACK_TIMEOUTS[0]
    reserved: int = 0
    window_size: int = 64


def _checked(data: bytes, packet_type: int, size: int, flags: int, where: str) -> tuple[BaseHeader, InternalHeader]:
    """The two headers of an internal packet whose type, size and flags are as they have to be."""
    base = BaseHeader.decode(data)
    base.check()
    if len(data) != size or base.packet_size != size:
        raise Malformed(f"{len(data)} bytes, PacketSize {base.packet_size}", where=where,
                        remedy=f"this packet has {size} bytes")
    internal = InternalHeader.decode(data, BaseHeader.SIZE)
    if base.flags & (IN | SH | DH | TR) != IN | flags or internal.flags & PT_MASK != packet_type:
        raise Malformed(f"flags 0x{base.flags:04X} and type {internal.flags & PT_MASK}", where=where)
    return base, internal


@dataclass(slots=True)
class EstablishConnection:
    """EstablishConnection Packet (2.2.3), request or response."""

    SIZE = 572

    header: EstablishConnectionHeader
    internal: InternalHeader = field(default_factory=lambda: InternalHeader(flags=ESTABLISH_CONNECTION))
    base: BaseHeader = field(default_factory=lambda: internal_base(EstablishConnection.SIZE))

    @property
    def refused(self) -> bool:
        return self.internal.flags & CS != 0

    @classmethod
    def decode(cls, data: bytes) -> Self:
        base, internal = _checked(data, ESTABLISH_CONNECTION, cls.SIZE, 0, "EstablishConnection")
        header = EstablishConnectionHeader.decode(data, _BODY_AT)
        if header.operating_system & RE_MASK != RE:
            raise Malformed(f"OperatingSystem 0x{header.operating_system:04X}", where="EstablishConnection",
                            remedy="its low byte is 0x10 (2.2.3.1)")
        return cls(header, internal, base)

    def encode(self) -> bytes:
        return b"".join((self.base.encode(), self.internal.encode(), self.header.encode()))


@dataclass(slots=True)
class ConnectionParameters:
    """ConnectionParameters Packet (2.2.2), request or response."""

    SIZE = 32

    header: ConnectionParametersHeader
    internal: InternalHeader = field(default_factory=lambda: InternalHeader(flags=CONNECTION_PARAMETERS))
    base: BaseHeader = field(default_factory=lambda: internal_base(ConnectionParameters.SIZE))

    @property
    def refused(self) -> bool:
        return self.internal.flags & CS != 0

    @classmethod
    def decode(cls, data: bytes) -> Self:
        base, internal = _checked(data, CONNECTION_PARAMETERS, cls.SIZE, 0, "ConnectionParameters")
        header = ConnectionParametersHeader.decode(data, _BODY_AT)
        if what := _timeout_problem(header):
            raise Malformed(what, where="ConnectionParameters", remedy="2.2.2.1 gives the ranges")
        return cls(header, internal, base)

    def encode(self) -> bytes:
        if what := _timeout_problem(self.header):
            raise InvalidParameter(what, where="ConnectionParameters", remedy="2.2.2.1 gives the ranges")
        return b"".join((self.base.encode(), self.internal.encode(), self.header.encode()))


def _timeout_problem(header: ConnectionParametersHeader) -> str:
    recoverable, ack = header.recoverable_ack_timeout, header.ack_timeout
    if not RECOVERABLE_ACK_TIMEOUTS[0] <= recoverable <= RECOVERABLE_ACK_TIMEOUTS[1]:
        return f"RecoverableAckTimeout {recoverable}"
    return "" if ACK_TIMEOUTS[0] <= ack <= ACK_TIMEOUTS[1] else f"AckTimeout {ack}"


@dataclass(slots=True)
class SessionAck:
    """SessionAck Packet (2.2.6). PacketSize counts its SessionHeader: frame 8 does, [MS-MQMQ] 2.2.19.1 does not."""

    SIZE = 36

    session: SessionHeader
    internal: InternalHeader = field(default_factory=lambda: InternalHeader(flags=SESSION_ACK))
    base: BaseHeader = field(default_factory=lambda: internal_base(SessionAck.SIZE, SH))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        base, internal = _checked(data, SESSION_ACK, cls.SIZE, SH, "SessionAck")
        if internal.flags & CS:
            raise Malformed("the refusal of a connection", where="SessionAck", remedy="2.2.1 forbids CS here")
        return cls(SessionHeader.decode(data, _BODY_AT), internal, base)

    def encode(self) -> bytes:
        return b"".join((self.base.encode(), self.internal.encode(), self.session.encode()))


SESSION_ACK_HEAD: Final = SessionAck(SessionHeader()).encode()[:_BODY_AT]  # what stands before its SessionHeader


def with_session_header(packet: bytes, header: bytes) -> bytes:
    """A UserMessage that carries a SessionHeader behind it. PacketSize stays: it leaves the header out.

    So [MS-MQMQ] 2.2.19.1 says; the Framer and UserMessage.decode read it so. Only a capture of two Windows machines
    would prove it.
    """
    return b"".join((packet[:2], bytes((packet[2] | SH,)), packet[3:], header))


@wire("<HHI16s", size=24)
@dataclass(slots=True)
class _PingFields(Header):
    flags: int = 0  # bits 2 to 15 may hold anything
    signature: int = PING_SIGNATURE
    cookie: int = 0
    qm_guid: bytes = NULL_GUID_BYTES


class Ping(_PingFields):
    """Ping Packet (2.2.7): a whole datagram."""

    __slots__ = ()

    @classmethod
    def decode(cls, data: bytes | memoryview, at: int = 0, end: int | None = None) -> Self:
        if len(data) != cls.SIZE:
            raise Malformed(f"{len(data)} bytes", where="Ping", remedy=f"a Ping Packet has {cls.SIZE} bytes")
        ping = super().decode(data, at, end)
        if ping.signature != PING_SIGNATURE:
            raise Malformed(f"signature 0x{ping.signature:04X}", where="Ping")
        return ping
