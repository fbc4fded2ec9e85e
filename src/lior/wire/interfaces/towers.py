"""Protocol towers: a binding as the endpoint mapper knows it ([C706] appendices I and L).

A tower is a list of floors; a floor is a protocol identifier with its data and what belongs to it. The five floors of
RPC over TCP are the interface, the transfer syntax, connection-oriented RPC, the port and the address.
"""

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, TypeAlias
from uuid import UUID

from lior.errors import Malformed

UUID_FLOOR: Final = 0x0D
RPC_CONNECTION_ORIENTED: Final = 0x0B
TCP: Final = 0x07
IP: Final = 0x09
MAX_FLOORS: Final = 16  # no protocol sequence of [C706] has more than six

Floor: TypeAlias = tuple[bytes, bytes]  # left and right hand side

_COUNT: Final = struct.Struct("<H")
_IDENTIFIER: Final = struct.Struct("<B16sH")


def encode_floors(floors: list[Floor]) -> bytes:
    parts = [_COUNT.pack(len(floors))]
    for floor in floors:
        for side in floor:
            parts += (_COUNT.pack(len(side)), side)
    return b"".join(parts)


def decode_floors(data: bytes | memoryview) -> list[Floor]:
    at = _COUNT.size
    count = _count(data, 0)
    if count > MAX_FLOORS:
        raise _malformed(f"{count} floors")
    floors: list[Floor] = []
    for _ in range(count):
        left, at = _side(data, at)
        right, at = _side(data, at)
        if not left:
            raise _malformed("a floor without a protocol identifier")
        floors.append((left, right))
    if at != len(data):
        raise _malformed(f"{len(data) - at} bytes behind the last floor")
    return floors


def _side(data: bytes | memoryview, at: int) -> tuple[bytes, int]:
    start = at + _COUNT.size
    end = start + _count(data, at)
    if end > len(data):
        raise _malformed(f"a floor of {end - start} bytes where {len(data) - start} are left")
    return bytes(data[start:end]), end


def _count(data: bytes | memoryview, at: int) -> int:
    try:
        count: int = _COUNT.unpack_from(data, at)[0]
    except struct.error:
        raise _malformed("truncated") from None
    return count


def _malformed(what: str) -> Malformed:
    return Malformed(what, where="protocol tower", remedy="the peer sent a broken tower")


@dataclass(frozen=True, slots=True)
class Tower:
    """A tower of RPC over TCP. In a request port and address are usually 0: what the mapper is asked for."""

    interface: UUID
    version: tuple[int, int]
    transfer_syntax: UUID
    transfer_syntax_version: tuple[int, int]
    port: int = 0
    address: IPv4Address = IPv4Address(0)  # noqa: RUF009 - addresses do not change

    def encode(self) -> bytes:
        return encode_floors([
            _identifier(self.interface, self.version),
            _identifier(self.transfer_syntax, self.transfer_syntax_version),
            (bytes((RPC_CONNECTION_ORIENTED,)), bytes(2)),
            (bytes((TCP,)), self.port.to_bytes(2, "big")),
            (bytes((IP,)), self.address.packed),
        ])

    @classmethod
    def decode(cls, data: bytes | memoryview) -> "Tower | None":
        """None is a tower of another protocol sequence."""
        floors = decode_floors(data)
        if [left[0] for left, _ in floors] != [UUID_FLOOR, UUID_FLOOR, RPC_CONNECTION_ORIENTED, TCP, IP]:
            return None
        interface, version = _identified(floors[0])
        syntax, syntax_version = _identified(floors[1])
        port, address = floors[3][1], floors[4][1]
        if len(port) != 2 or len(address) != 4:
            raise _malformed(f"a port of {len(port)} bytes at an address of {len(address)}")
        return cls(interface, version, syntax, syntax_version, int.from_bytes(port, "big"), IPv4Address(address))


def _identifier(uuid: UUID, version: tuple[int, int]) -> Floor:
    return _IDENTIFIER.pack(UUID_FLOOR, uuid.bytes_le, version[0]), _COUNT.pack(version[1])


def _identified(floor: Floor) -> tuple[UUID, tuple[int, int]]:
    left, right = floor
    if len(left) != _IDENTIFIER.size or len(right) != _COUNT.size:
        raise _malformed(f"an interface of {len(left)} bytes with a minor version of {len(right)}")
    _, uuid, major = _IDENTIFIER.unpack(left)
    return UUID(bytes_le=uuid), (major, _count(right, 0))
