"""PGM packets over IPv4 (RFC 3208 section 8), as far as MC-MQSRM 2.1.3 asks for them.

All integers are big-endian. A packet is a header of sixteen octets, what its type has, options, and data.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv4Address
from typing import Final

from lior.errors import Malformed

PROTOCOL: Final = 113  # of IP
HEADER_SIZE: Final = 16
SERIAL: Final = 1 << 32  # sequence numbers count modulo this
AFI_IPV4: Final = 1
MAX_NAK_LIST: Final = 62

PRESENT: Final = 0x01  # bits of the octet options: there are some
NETWORK: Final = 0x02  # and network elements look at them
VARIABLE: Final = 0x40
PARITY: Final = 0x80

OPT_LENGTH: Final = 0x00
OPT_FRAGMENT: Final = 0x01
OPT_NAK_LIST: Final = 0x02
OPT_JOIN: Final = 0x03
OPT_SYN: Final = 0x0D
OPT_FIN: Final = 0x0E
OPT_RST: Final = 0x0F
OPT_END: Final = 0x80
OPX_MASK: Final = 0x03  # what to do with a packet whose option is not known
OPX_DISCARD: Final = 0x02

_HEADER: Final = struct.Struct(">HHBBH6sH")
_SPM: Final = struct.Struct(">IIIHH4s")
_DATA: Final = struct.Struct(">II")
_NAK: Final = struct.Struct(">IHH4sHH4s")
_OPTION: Final = struct.Struct(">BBBB")
_FRAGMENT: Final = struct.Struct(">BBBBIII")


class PacketType(IntEnum):
    SPM = 0x00
    POLL = 0x01
    POLR = 0x02
    ODATA = 0x04
    RDATA = 0x05
    NAK = 0x08
    NNAK = 0x09
    NCF = 0x0A
    SPMR = 0x0D


class Tsi(tuple[bytes, int]):
    """Transport session identifier: the source's global identifier and its port."""

    __slots__ = ()

    def __new__(cls, gsi: bytes, port: int) -> "Tsi":
        return tuple.__new__(cls, (gsi, port))

    def __str__(self) -> str:
        return f"{self[0].hex()}.{self[1]}"


@dataclass(slots=True)
class Fragment:
    """OPT_FRAGMENT (9.2): where the data stands in an APDU."""

    first: int  # sequence number of the APDU's first packet
    offset: int
    length: int  # of the APDU


@dataclass(slots=True)
class Options:
    fragment: Fragment | None = None
    nak_list: tuple[int, ...] = ()
    fin: bool = False
    reset: int | None = None  # OPT_RST with its error code

    @property
    def is_empty(self) -> bool:
        return self.fragment is None and not self.nak_list and not self.fin and self.reset is None


@dataclass(slots=True)
class Spm:
    """Source path message (8.1)."""

    sequence: int
    trail: int
    lead: int
    path: IPv4Address


@dataclass(slots=True)
class Data:
    """ODATA or RDATA (8.2)."""

    sequence: int
    trail: int
    data: bytes
    repair: bool = False


@dataclass(slots=True)
class Nak:
    """NAK, or with `confirms` NCF (8.3)."""

    sequence: int
    source: IPv4Address
    group: IPv4Address
    confirms: bool = False


@dataclass(slots=True)
class Packet:
    """`body` is None for a type that nothing here needs to look into."""

    gsi: bytes
    source_port: int
    destination_port: int
    kind: int
    body: Spm | Data | Nak | None
    options: Options = field(default_factory=Options)

    @property
    def tsi(self) -> Tsi:
        """Packets that go up to the source have the ports the other way round (8)."""
        upstream = self.kind in (PacketType.NAK, PacketType.NNAK, PacketType.SPMR, PacketType.POLR)
        return Tsi(self.gsi, self.destination_port if upstream else self.source_port)


def malformed(what: str) -> Malformed:
    return Malformed(what, where="PGM packet", remedy="the packet is dropped")


def checksum(data: bytes) -> int:
    """The Internet's: the complement of the sum of 16-bit words in ones' complement."""
    if len(data) & 1:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def after(one: int, other: int) -> bool:
    """Whether `one` comes later, in arithmetic modulo 2^32."""
    return 0 < (one - other) % SERIAL < SERIAL // 2


# ---- out ------------------------------------------------------------------------------------------------------------


def encode(packet: Packet) -> bytes:
    body, data = _body(packet.body)
    options = _options(packet.options)
    flags = (PRESENT if options else 0) | (NETWORK if packet.options.nak_list else 0)
    head = _HEADER.pack(packet.source_port, packet.destination_port, packet.kind, flags, 0, packet.gsi, len(data))
    octets = head + body + options + data
    number = checksum(octets) or 0xFFFF  # zero would mean that there is none
    return octets[:6] + number.to_bytes(2, "big") + octets[8:]


def _body(body: Spm | Data | Nak | None) -> tuple[bytes, bytes]:
    if isinstance(body, Data):
        return _DATA.pack(body.sequence, body.trail), body.data
    if isinstance(body, Spm):
        return _SPM.pack(body.sequence, body.trail, body.lead, AFI_IPV4, 0, body.path.packed), b""
    if isinstance(body, Nak):
        source, group = body.source.packed, body.group.packed
        return _NAK.pack(body.sequence, AFI_IPV4, 0, source, AFI_IPV4, 0, group), b""
    return b"", b""


def _options(options: Options) -> bytes:
    if options.is_empty:
        return b""
    parts = []
    if (fragment := options.fragment) is not None:
        option = _FRAGMENT.pack(OPT_FRAGMENT, 16, 0, 0, fragment.first, fragment.offset, fragment.length)
        parts.append(bytearray(option))
    if options.nak_list:
        numbers = struct.pack(f">{len(options.nak_list)}I", *options.nak_list)
        parts.append(bytearray(_OPTION.pack(OPT_NAK_LIST, 4 + len(numbers), 0, 0) + numbers))
    if options.fin:
        parts.append(bytearray(_OPTION.pack(OPT_FIN, 4, 0, 0)))
    if options.reset is not None:
        parts.append(bytearray(_OPTION.pack(OPT_RST, 4, 0, options.reset)))
    parts[-1][0] |= OPT_END
    total = 4 + sum(map(len, parts))
    return struct.pack(">BBH", OPT_LENGTH, 4, total) + b"".join(parts)


# ---- in -------------------------------------------------------------------------------------------------------------


def decode(octets: bytes) -> Packet:
    if len(octets) < HEADER_SIZE:
        raise malformed(f"{len(octets)} octets")
    source, destination, kind, flags, number, gsi, length = _HEADER.unpack_from(octets)
    if number and checksum(octets) != 0:
        raise malformed("wrong checksum")
    if not number and kind in (PacketType.ODATA, PacketType.RDATA):
        raise malformed("data without a checksum")  # 8: mandatory for data packets
    if flags & PARITY:
        raise malformed("parity, which nobody here announced")
    body, at = _read_body(kind, octets)
    options = Options()
    if flags & PRESENT and body is not None:
        options, at = _read_options(octets, at)
    if isinstance(body, Data):
        if length != len(octets) - at:
            raise malformed(f"{length} octets of data announced, {len(octets) - at} there")
        body.data = octets[at:]
    return Packet(gsi, source, destination, kind, body, options)


def _read_body(kind: int, octets: bytes) -> tuple[Spm | Data | Nak | None, int]:
    try:
        if kind in (PacketType.ODATA, PacketType.RDATA):
            sequence, trail = _DATA.unpack_from(octets, HEADER_SIZE)
            return Data(sequence, trail, b"", kind == PacketType.RDATA), HEADER_SIZE + _DATA.size
        if kind == PacketType.SPM:
            sequence, trail, lead, family, _, path = _SPM.unpack_from(octets, HEADER_SIZE)
            _require_ipv4(family)
            return Spm(sequence, trail, lead, IPv4Address(path)), HEADER_SIZE + _SPM.size
        if kind in (PacketType.NAK, PacketType.NCF):
            sequence, one, _, source, two, _, group = _NAK.unpack_from(octets, HEADER_SIZE)
            _require_ipv4(one, two)
            found = Nak(sequence, IPv4Address(source), IPv4Address(group), kind == PacketType.NCF)
            return found, HEADER_SIZE + _NAK.size
    except struct.error:
        raise malformed(f"a packet of type {kind} in {len(octets)} octets") from None
    return None, HEADER_SIZE


def _require_ipv4(*families: int) -> None:
    if any(family != AFI_IPV4 for family in families):
        raise malformed(f"addresses of the families {families}")


def _read_options(octets: bytes, at: int) -> tuple[Options, int]:
    if len(octets) < at + 4 or octets[at] & ~OPT_END != OPT_LENGTH or octets[at + 1] != 4:
        raise malformed("options that do not begin with their length")
    end = at + int.from_bytes(octets[at + 2 : at + 4], "big")
    if not at + 4 <= end <= len(octets):
        raise malformed("options longer than the packet")
    last, found = octets[at] & OPT_END, Options()
    at += 4
    while not last:
        if at + 4 > end or octets[at + 1] < 4 or at + octets[at + 1] > end:
            raise malformed("an option without its length")
        kind, size = octets[at], octets[at + 1]
        _read_option(kind & ~OPT_END, octets[at : at + size], found)
        last, at = kind & OPT_END, at + size
    if at != end:
        raise malformed("octets behind the last option")
    return found, end


def _read_option(kind: int, option: bytes, found: Options) -> None:
    if kind == OPT_FRAGMENT:
        if len(option) != 16:
            raise malformed("OPT_FRAGMENT of another size")
        found.fragment = Fragment(*struct.unpack_from(">III", option, 4))
    elif kind == OPT_NAK_LIST:
        if len(option) % 4 or not 8 <= len(option) <= 4 + 4 * MAX_NAK_LIST:
            raise malformed("OPT_NAK_LIST of another size")
        found.nak_list = struct.unpack(f">{len(option) // 4 - 1}I", option[4:])
    elif kind == OPT_FIN:
        found.fin = True
    elif kind == OPT_RST:
        found.reset = option[3] & 0x3F
    elif option[2] & OPX_MASK == OPX_DISCARD and kind not in (OPT_JOIN, OPT_SYN):
        raise malformed(f"an option {kind} that must be understood")


def numbers_of(packet: Packet) -> Iterable[int]:
    """What a NAK or NCF is about: its own number and those of its list."""
    return (packet.body.sequence, *packet.options.nak_list) if isinstance(packet.body, Nak) else ()
