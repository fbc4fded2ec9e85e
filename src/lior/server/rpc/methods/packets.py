"""Messages as remote readers get them: UserMessage packets ([MS-MQQP] 2.2.2.1), and with the headers and sections that
RemoteRead adds ([MS-MQRR] 2.2.5, 3.1.4.7)."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import MessageTooLarge
from lior.message import INFINITE, Message
from lior.wire.headers import CompoundMessageHeader
from lior.wire.remote_packets import put_srmp, to_read
from lior.wire.user_message import UserMessage

FULL_PACKET, BINARY_FIRST, BINARY_SECOND, SRMP_FIRST, SRMP_SECOND = range(5)  # SectionType, 2.2.7
SEQUENCE: Final = (1 << 56) - 1  # the least significant seven bytes of a lookup identifier

_EXTENSION: Final = struct.Struct("<IIB3x")  # 2.2.5.2
_SUBQUEUE: Final = struct.Struct("<IIIII64s64s")  # 2.2.5.3
_DEAD_LETTER: Final = struct.Struct("<I")  # 2.2.5.4
_EXTENDED_ADDRESS: Final = struct.Struct("<IHHI16s")  # 2.2.5.5; type 0: to be ignored
_HAS_DEAD_LETTER, _HAS_SUBQUEUE, _HAS_EXTENDED_ADDRESS = 0x01, 0x02, 0x10
_NAME_SIZE: Final = 64
assert _SUBQUEUE.size == 148 and _EXTENDED_ADDRESS.size == 28 and _EXTENSION.size == 12


class Section(NamedTuple):
    """SectionBuffer (2.2.6)."""

    type: int
    allocated: int
    data: bytes


def user_message_packet(message: Message, queue_manager: UUID) -> bytes:
    """The packet of a message that is in a queue here. [MS-MQMQ] 2.2.20 has no place for the request of one that came
    over HTTP; its envelope's texts are in SoapHeader, its body where all have it."""
    return _encoded(_user_message(message, queue_manager))


def _encoded(packet: UserMessage) -> bytes:
    """Without the texts of an envelope where they leave no room for the message: nobody could read it otherwise."""
    try:
        return packet.encode()
    except MessageTooLarge:
        if packet.soap is None:
            raise
        packet.soap = None
        return packet.encode()


def _user_message(message: Message, queue_manager: UUID) -> UserMessage:
    """What was sent here in a transaction is in no stream between queue managers; for its header it is the first of
    one."""
    transaction = message.transaction
    if transaction is not None and not transaction.sequence_number:
        message = message.copy()
        message.transaction = replace(transaction, sequence_number=1, previous_sequence_number=0)
    return to_read(message, queue_manager)


def sequence_of(message: Message) -> int:
    """SequentialId, pSequenceId."""
    return message.lookup_identifier & SEQUENCE


def sections(
    message: Message, queue_manager: UUID, most_body: int, most_compound: int, subqueue: str
) -> list[Section]:
    """The packet whole, or its body cut: then everything before the cut, and what is behind the body (3.1.4.7). Of a
    message that came over HTTP the request is what is cut, with the header before it."""
    user_message = _user_message(message, queue_manager)
    user_message.base.time_to_reach_queue = _end_of_time_to_reach_queue(message)
    trailer = added_headers(message, subqueue)
    packet = _srmp_packet(user_message, message)
    if packet:
        decoded = UserMessage.decode(packet, remote_read=True)
        assert decoded.srmp is not None
        start = decoded.srmp.compound_at
        end = start + CompoundMessageHeader.SIZE + len(decoded.srmp.compound)
        return _cut(packet, start, end, most_compound, trailer, (SRMP_FIRST, SRMP_SECOND))
    packet = _encoded(user_message)
    if most_body >= len(message.body):
        return _whole(packet + trailer)
    decoded = UserMessage.decode(packet)
    return _cut(packet, decoded.body_at, decoded.body_end, most_body, trailer, (BINARY_FIRST, BINARY_SECOND))


def _srmp_packet(user_message: UserMessage, message: Message) -> bytes:
    """Nothing for a message that did not come over HTTP, or whose request leaves no room in a packet for its envelope
    and properties: that one is handed out as any other."""
    body, size = user_message.body, user_message.properties.message_size
    if not put_srmp(user_message, message):
        return b""
    try:
        return user_message.encode()
    except MessageTooLarge:
        user_message.srmp, user_message.body, user_message.properties.message_size = None, body, size
        return b""


def _cut(packet: bytes, start: int, end: int, most: int, trailer: bytes, kinds: tuple[int, int]) -> list[Section]:
    """What is at `start` and ends before its padding at `end`, as far as the reader wants it."""
    if most >= end - start:
        return _whole(packet + trailer)
    behind = packet[end:] + trailer
    return [Section(kinds[0], end, packet[: start + most]), Section(kinds[1], len(behind), behind)]


def _whole(packet: bytes) -> list[Section]:
    return [Section(FULL_PACKET, len(packet), packet)]


def _end_of_time_to_reach_queue(message: Message) -> int:
    """TimeToReachQueue is the second of expiry here, and not a length of time (2.2.5.1)."""
    relative = message.time_to_reach_queue
    return INFINITE if relative == INFINITE else min(int(message.sent_time) + relative, INFINITE)


def added_headers(message: Message, subqueue: str) -> bytes:
    """ExtensionHeader and what it announces."""
    if not (subqueue or message.application_deadletter_queue or message.message_class or message.abort_count
            or message.move_count or message.last_move_time):  # fmt: skip
        return _USUAL
    dead_letter = _dead_letter(message.application_deadletter_queue)
    flags = _HAS_SUBQUEUE | _HAS_EXTENDED_ADDRESS | (_HAS_DEAD_LETTER if dead_letter else 0)
    rest = _subqueue(message, subqueue) + dead_letter + _EXTENDED_ADDRESS.pack(_EXTENDED_ADDRESS.size, 0, 0, 0, b"")
    return _EXTENSION.pack(_EXTENSION.size, len(rest), flags) + rest


def _subqueue(message: Message, subqueue: str) -> bytes:
    """One bit, then sixteen of the class, then fifteen that mean nothing; read from the least significant one on."""
    moved = int(message.last_move_time * 1000) & 0xFFFFFFFF  # of which the document keeps 32 bits
    name = subqueue.encode("utf-16-le", "ignore")[: _NAME_SIZE - 2]
    return _SUBQUEUE.pack(_SUBQUEUE.size, message.message_class << 1, message.abort_count & INFINITE,
                          message.move_count & INFINITE, moved, name, b"")  # fmt: skip


def _dead_letter(name: str) -> bytes:
    if not name:
        return b""
    text = name.encode("utf-16-le", "surrogatepass") + b"\0\0"
    text += bytes(-len(text) % 4)
    return _DEAD_LETTER.pack(_DEAD_LETTER.size + len(text)) + text


_USUAL: Final = (
    _EXTENSION.pack(_EXTENSION.size, _SUBQUEUE.size + _EXTENDED_ADDRESS.size, _HAS_SUBQUEUE | _HAS_EXTENDED_ADDRESS)
    + _SUBQUEUE.pack(_SUBQUEUE.size, 0, 0, 0, 0, b"", b"")
    + _EXTENDED_ADDRESS.pack(_EXTENDED_ADDRESS.size, 0, 0, 0, b"")
)
