"""A stream of bytes -> whole packets ([MS-MQMQ] 2.2.19.1).

PacketSize is believed only behind a right version and signature, and nothing is kept of a packet that is too large:
what a peer can make us hold is one packet and the chunk that came last.
"""

import struct
from collections.abc import Iterator
from typing import Final

from lior.errors import Malformed
from lior.wire.headers import IN, MAX_PACKET_SIZE, SH, SIGNATURE, VERSION, BaseHeader, SessionHeader

SMALLEST_PACKET: Final = 20  # a BaseHeader and an InternalHeader

_HEAD: Final = struct.Struct("<BxHII")  # version, flags, signature, PacketSize
_HEAD_SIZE: Final = BaseHeader.SIZE
_SIGNATURE_BYTES: Final = SIGNATURE.to_bytes(4, "little")


class Framer:
    """One direction of one connection. After Malformed it is of no more use: the stream has lost its frame."""

    __slots__ = ("_needed", "_pending", "limit")

    def __init__(self, limit: int = MAX_PACKET_SIZE) -> None:
        self.limit = limit  # of PacketSize; may be changed between two packets
        self._pending = bytearray()  # the beginning of a packet
        self._needed = _HEAD_SIZE  # how long it must get before it is looked at again

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their packet."""
        return len(self._pending)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """The packets that are complete now, in order; Malformed behind those that came before the fault.

        Everything is kept once the iterator is exhausted; who stops early has no use for the rest."""
        pending = self._pending
        if pending:
            if len(pending) + len(data) < self._needed:
                pending += data
                if self._needed == _HEAD_SIZE:
                    _check_beginning(pending)
                return
            data = b"".join((pending, data))
            pending.clear()
        elif type(data) is not bytes:
            data = bytes(data)
        at, end, unpack = 0, len(data), _HEAD.unpack_from
        stop = _HEAD_SIZE
        while end - at >= _HEAD_SIZE:
            version, flags, signature, size = unpack(data, at)
            if version != VERSION or signature != SIGNATURE or not SMALLEST_PACKET <= size <= self.limit:
                raise _bad_head(version, signature, size, self.limit)
            # The SessionHeader behind a UserMessage is not in its PacketSize, that of a SessionAck is.
            stop = at + size + SessionHeader.SIZE if flags & (IN | SH) == SH else at + size
            if stop > end:
                break
            yield data[at:stop]
            at = stop
        else:
            stop = at + _HEAD_SIZE
        if at < end:
            pending += data[at:]
            self._needed = stop - at
            if self._needed == _HEAD_SIZE:
                _check_beginning(pending)


def _check_beginning(head: bytearray) -> None:
    """Refuse what cannot become a BaseHeader any more: whoever speaks another protocol need not wait for an answer."""
    if head[0] != VERSION or not _SIGNATURE_BYTES.startswith(bytes(head[4:8])):
        raise Malformed(f"the bytes {bytes(head[:8]).hex()}", where="BaseHeader",
                        remedy="the peer does not speak the binary message queuing protocol")


def _bad_head(version: int, signature: int, size: int, limit: int) -> Malformed:
    if version != VERSION or signature != SIGNATURE:
        return Malformed(f"version 0x{version:02X} and signature 0x{signature:08X}", where="BaseHeader",
                         remedy="the peer does not speak the binary message queuing protocol")
    return Malformed(f"a packet of {size} bytes", where="BaseHeader.PacketSize",
                     remedy=f"a packet has {SMALLEST_PACKET} to {limit} bytes here")
