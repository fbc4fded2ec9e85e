"""The Message Packet Structure of remote reads ([MS-MQRR] 2.2.5): a UserMessage packet and what its queue adds.

The trailer tells what a packet on the wire does not: counts of aborts and moves, the class of an acknowledgement, the
dead-letter queue of the application. In the packet TimeToReachQueue is the moment at which it ends, not a duration.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from lior.errors import Malformed
from lior.message import INFINITE, Message
from lior.wire.message_packet import to_message, to_packet

DL, SQ, DI, EA = 0x01, 0x02, 0x08, 0x10  # ExtensionHeader.Flags (2.2.5.2)
_EXTENSION: Final = struct.Struct("<IIB3x")
_SUBQUEUE: Final = struct.Struct("<IHHIII64s64s")
_ADDRESS: Final = struct.Struct("<IHHI16s")
_TIME_TO_REACH_QUEUE: Final = struct.Struct("<I")
_TIME_AT: Final = 12  # of TimeToReachQueue in BaseHeader
_PACKET_SIZE: Final = struct.Struct("<I")
_PACKET_SIZE_AT: Final = 8
_NAME_UNITS: Final = 31  # of a subqueue; the field has room for a NUL
_LAST_SECOND: Final = 0xFFFFFFFF


@dataclass(slots=True)
class Trailer:
    """What stands behind the UserMessage: SubqueueHeader, DeadLetterHeader, ExtendedAddressHeader."""

    acknowledgement_class: int = 0
    abort_counter: int = 0
    move_counter: int = 0
    last_move_time: int = 0  # milliseconds, as many as fit
    subqueue: str = ""
    target_subqueue: str = ""
    dead_letter_queue: str = ""

    def encode(self) -> bytes:
        dead_letter = b""
        flags = SQ | EA
        if self.dead_letter_queue:
            text = self.dead_letter_queue.encode("utf-16-le", "surrogatepass") + b"\0\0"
            text += bytes(-len(text) % 4)
            dead_letter = (4 + len(text)).to_bytes(4, "little") + text
            flags |= DL
        subqueue = _SUBQUEUE.pack(_SUBQUEUE.size, self.acknowledgement_class << 1 & 0xFFFF,
                                  self.acknowledgement_class >> 15, self.abort_counter, self.move_counter,
                                  self.last_move_time & 0xFFFFFFFF, _name(self.subqueue), _name(self.target_subqueue))
        address = _ADDRESS.pack(_ADDRESS.size, 0, 0, 0, bytes(16))
        rest = subqueue + dead_letter + address
        return _EXTENSION.pack(_EXTENSION.size, len(rest), flags) + rest

    @classmethod
    def decode(cls, data: bytes, at: int) -> Self:
        """Nothing there: no header was sent. Sizes say where the next header is, and are within the data."""
        trailer = cls()
        if at >= len(data):
            return trailer
        try:
            size, rest, flags = _EXTENSION.unpack_from(data, at)
            at += size
            if size < _EXTENSION.size or at + rest > len(data):
                raise _malformed("sizes that do not fit", "ExtensionHeader")
            if flags & SQ:
                size, low, high, *counts, name, target = _SUBQUEUE.unpack_from(data, at)
                trailer.acknowledgement_class = (low >> 1 | high << 15) & 0xFFFF
                trailer.abort_counter, trailer.move_counter, trailer.last_move_time = counts
                trailer.subqueue, trailer.target_subqueue = _text(name), _text(target)
                at += max(size, _SUBQUEUE.size)
            if flags & DL:
                size = int.from_bytes(data[at:at + 4], "little")
                if size < 4 or at + size > len(data):
                    raise _malformed("a size that does not fit", "DeadLetterHeader")
                trailer.dead_letter_queue = _text(data[at + 4:at + size])
        except struct.error:
            raise _malformed("cut", "ExtensionHeader") from None
        return trailer


def _name(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")[: 2 * _NAME_UNITS]


def _text(data: bytes) -> str:
    return data.decode("utf-16-le", "replace").partition("\0")[0]


def _malformed(what: str, where: str) -> Malformed:
    return Malformed(what, where=where, remedy="the peer sent a broken message")


def encode_sections(message: Message, subqueue: str = "") -> tuple[bytes, bytes]:
    """Packet and trailer of a message that is read."""
    packet = bytearray(to_packet(message))
    if message.time_to_reach_queue != INFINITE:
        ends = min(int(message.sent_time) + message.time_to_reach_queue, _LAST_SECOND)
        _TIME_TO_REACH_QUEUE.pack_into(packet, _TIME_AT, ends)
    trailer = Trailer(
        message.failure_reason or message.message_class, message.abort_count, message.move_count,
        int(message.last_move_time * 1000) & 0xFFFFFFFF, subqueue, "", message.application_deadletter_queue,
    )  # fmt: skip
    return bytes(packet), trailer.encode()


def decode_sections(data: bytes, *, queue_manager: UUID) -> Message:
    """The message of a whole structure, its sections joined."""
    if len(data) < _PACKET_SIZE_AT + 4:
        raise _malformed("cut", "BaseHeader")
    (size,) = _PACKET_SIZE.unpack_from(data, _PACKET_SIZE_AT)
    if not 0 < size <= len(data):
        raise _malformed(f"a packet of {size} bytes in {len(data)}", "BaseHeader.PacketSize")
    message = to_message(data[:size], queue_manager=queue_manager)
    if message.time_to_reach_queue != INFINITE:
        message.time_to_reach_queue = max(0, message.time_to_reach_queue - int(message.sent_time))
    trailer = Trailer.decode(data, size)
    message.abort_count = trailer.abort_counter
    message.move_count = trailer.move_counter
    message.application_deadletter_queue = trailer.dead_letter_queue
    return message
