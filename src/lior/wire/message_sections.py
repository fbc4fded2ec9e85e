"""The Message Packet Structure of remote reads ([MS-MQRR] 2.2.5): a UserMessage packet and what its queue adds.

The trailer tells what a packet on the wire does not: counts of aborts and moves, the class of an acknowledgement, the
dead-letter queue of the application. In the packet TimeToReachQueue is the moment at which it ends, not a duration.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import Malformed
from lior.message import INFINITE, Message
from lior.wire.headers import MAX_PACKET_SIZE, SIGNATURE, VERSION
from lior.wire.plain_packets import PlainDecoder
from lior.wire.remote_packets import from_read

DL, SQ = 0x01, 0x02  # ExtensionHeader.Flags (2.2.5.2)
_EXTENSION: Final = struct.Struct("<IIB3x")
_SUBQUEUE: Final = struct.Struct("<IIIII64s64s")  # size, class and reserved bits, counts and time, names
_PACKET_SIZE: Final = struct.Struct("<I")
_PACKET_SIZE_AT: Final = 8
_LOW: Final = 0xFFFFFFFF
_BASE: Final = struct.Struct("<BBHII")


class Trailer(NamedTuple):
    """What stands behind the UserMessage: SubqueueHeader, DeadLetterHeader, ExtendedAddressHeader."""

    abort_counter: int = 0
    move_counter: int = 0
    last_move_time: int = 0  # milliseconds, as many as fit
    subqueue: str = ""
    dead_letter_queue: str = ""


@lru_cache(maxsize=64)
def decode_trailer(data: bytes) -> Trailer:
    """Nothing there: no header was sent. Sizes say where the next header is, and are within the data. Most messages of
    a queue have the same one."""
    aborts, moves, moved, subqueue, dead_letter_queue = 0, 0, 0, "", ""
    if not data:
        return Trailer()
    try:
        at, rest, flags = _EXTENSION.unpack_from(data)
        if at < _EXTENSION.size or at + rest > len(data):
            raise _malformed("sizes that do not fit", "ExtensionHeader")
        if flags & SQ:
            size, _, aborts, moves, moved, name, _ = _SUBQUEUE.unpack_from(data, at)
            subqueue = _text(name)
            at += max(size, _SUBQUEUE.size)
        if flags & DL:
            size = int.from_bytes(data[at:at + 4], "little")
            if size < 4 or at + size > len(data):
                raise _malformed("a size that does not fit", "DeadLetterHeader")
            dead_letter_queue = _text(data[at + 4:at + size])
    except struct.error:
        raise _malformed("cut", "ExtensionHeader") from None
    return Trailer(aborts, moves, moved, subqueue, dead_letter_queue)


def _text(data: bytes) -> str:
    return data.decode("utf-16-le", "replace").partition("\0")[0]


def _malformed(what: str, where: str) -> Malformed:
    return Malformed(what, where=where, remedy="the peer sent a broken message")


def decode_sections(data: bytes, *, queue_manager: UUID, arrived: int = 0) -> Message:
    """The message of a whole structure, its sections joined, that arrived in that second."""
    if len(data) < _PACKET_SIZE_AT + 4:
        raise _malformed("cut", "BaseHeader")
    (size,) = _PACKET_SIZE.unpack_from(data, _PACKET_SIZE_AT)
    if not 0 < size <= len(data):
        raise _malformed(f"a packet of {size} bytes in {len(data)}", "BaseHeader.PacketSize")
    return _completed(from_read(data[:size], queue_manager=queue_manager), data[size:], arrived)


def _completed(message: Message, behind: bytes, arrived: int) -> Message:
    """With what stands behind the packet, and times as they are."""
    if message.time_to_reach_queue != INFINITE:
        message.time_to_reach_queue = max(0, message.time_to_reach_queue - int(message.sent_time))
    trailer = decode_trailer(behind)
    message.abort_count = trailer.abort_counter
    message.arrival_time = float(arrived)
    message.move_count = trailer.move_counter
    if trailer.move_counter:  # of the time there are 32 bits, which come round every seven weeks
        message.last_move_time = (arrived * 1000 + (trailer.last_move_time - arrived * 1000 & _LOW)) / 1000
    message.application_deadletter_queue = trailer.dead_letter_queue
    return message


class SectionsDecoder:
    """Of the messages of one queue, which belongs to that queue manager: plain ones in one step."""

    __slots__ = ("_plain", "_queue_manager")

    def __init__(self, queue_manager: UUID) -> None:
        self._queue_manager = queue_manager
        self._plain = PlainDecoder(queue_manager.bytes_le)

    def decode(self, data: bytes, arrived: int = 0) -> Message:
        """As `decode_sections`; but a plain message has nothing in its packet that it does not have, so none is kept
        with it."""
        if len(data) >= _BASE.size:
            version, _, _, signature, size = _BASE.unpack_from(data)
            if version == VERSION and signature == SIGNATURE and size <= min(len(data), MAX_PACKET_SIZE):
                plain = self._plain.decode(data[:size])
                if plain is not None:
                    return _completed(plain[1], data[size:], arrived)
        return decode_sections(data, queue_manager=self._queue_manager, arrived=arrived)
