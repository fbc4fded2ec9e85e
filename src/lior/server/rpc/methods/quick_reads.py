"""RemoteRead for the messages that come most often: R_StartReceive and R_EndReceive without the general codecs, and the
packet of a message by the template of one like it.

What is not usual takes the general way; tests hold the two against each other.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from lior.message import INFINITE, MAX_MESSAGE_SIZE, Message
from lior.server.rpc.methods.packets import FULL_PACKET, added_headers, user_message_packet
from lior.wire.ndr import NDR, Syntax
from lior.wire.rpc_interface import Codec, Interface, Method

START_RECEIVE, END_RECEIVE = 7, 9
START_TRANSACTIONAL_RECEIVE, END_TRANSACTIONAL_RECEIVE = 13, 15
TEMPLATES: Final = 256

# ---- Codecs ---------------------------------------------------------------------------------------------------------

_START: Final = struct.Struct("<20s4xQIIIIII")
_END: Final = struct.Struct("<20sII")
_STARTED: Final = struct.Struct("<I4xQIIIHxxIIII")  # up to the bytes of the one section
_PADDED: Final = (bytes(4), bytes(7), bytes(6), bytes(5))  # padding, and the HRESULT 0
_REFERENTS: Final = (0x00020000, 0x00020004)


class Quick:
    """In the place of a codec. `request` of the general codecs makes counts of [out] arrays; nothing here has any."""

    def __init__(self, codec: Codec) -> None:
        self.name = codec.name
        self.fields = codec.fields
        self.decode = codec.decode
        self.encode = codec.encode
        self.encode_parts = codec.encode_parts


class StartRequests(Quick):
    def __init__(self, codec: Codec) -> None:
        super().__init__(codec)
        self._make: Any = namedtuple("Start", codec.fields)  # type: ignore[misc]
        self._general = codec.decode
        self.decode = self._quick

    def _quick(self, stub: bytes | memoryview, request: Sequence[Any] | None = None, syntax: Syntax = NDR) -> Any:
        if syntax is NDR and len(stub) == _START.size:
            return self._make._make(_START.unpack(stub))
        return self._general(stub, request, syntax)


class EndRequests(Quick):
    def __init__(self, codec: Codec) -> None:
        super().__init__(codec)
        self._make: Any = namedtuple("End", codec.fields)  # type: ignore[misc]
        self._general = codec.decode
        self.decode = self._quick

    def _quick(self, stub: bytes | memoryview, request: Sequence[Any] | None = None, syntax: Syntax = NDR) -> Any:
        if syntax is NDR and len(stub) == _END.size:
            values = _END.unpack(stub)
            if 1 <= values[1] <= 2:
                return self._make._make(values)
        return self._general(stub, request, syntax)


class StartResponses(Quick):
    def __init__(self, codec: Codec) -> None:
        super().__init__(codec)
        self._general = codec.encode
        self.encode = self._quick

    def _quick(self, values: Sequence[Any], request: Sequence[Any] | None = None, syntax: Syntax = NDR) -> bytes:
        arrived, sequence, count, found, code = values
        if syntax is NDR and count == 1 and not code:
            section = found[0]
            size, data = section.section_size, section.p_section_buffer
            if section.section_buffer_type == FULL_PACKET and size == len(data):
                return started_stub(arrived, sequence, data)
        return self._general(values, request, syntax)


def started_stub(arrived: int, sequence: int, packet: bytes) -> bytes:
    """The response of R_StartReceive with a whole packet."""
    size = len(packet)
    head = _STARTED.pack(arrived, sequence, 1, _REFERENTS[0], 1, FULL_PACKET, size, size, _REFERENTS[1], size)
    return b"".join((head, packet, _PADDED[size & 3]))


def usual_reads(remote_read: Interface) -> Interface:
    """The interface as a server registers it: with the codecs for the reads that come most often."""
    methods = dict(remote_read.methods)
    for opnum in (START_RECEIVE, START_TRANSACTIONAL_RECEIVE):
        general = methods[opnum]
        requests: Any = StartRequests(general.request) if opnum == START_RECEIVE else general.request
        responses: Any = StartResponses(general.response)
        methods[opnum] = Method(opnum, general.name, requests, responses)
    for opnum in (END_RECEIVE, END_TRANSACTIONAL_RECEIVE):
        general = methods[opnum]
        requests = EndRequests(general.request)
        methods[opnum] = Method(opnum, general.name, requests, general.response)
    return replace(remote_read, methods=methods)


# ---- Packets --------------------------------------------------------------------------------------------------------

_BASE: Final = struct.Struct("<II")  # PacketSize, TimeToReachQueue
_BASE_AT: Final = 8
_USER: Final = struct.Struct("<III")  # TimeToBeReceived, SentTime, MessageID
_USER_AT: Final = 48
_LABEL_LENGTH_AT: Final = 1  # in MessagePropertiesHeader
_CORRELATION_AT: Final = 4
_SIZES: Final = struct.Struct("<II")  # MessageSize, AllocationBodySize
_SIZES_AT: Final = 32
_EXTENSION_SIZE_AT: Final = 52
_PROPERTIES_SIZE: Final = 56
_ROOM: Final = MAX_MESSAGE_SIZE - 4096  # beyond it the general way says whether it is too much
_PADDING: Final = (b"", bytes(3), bytes(2), bytes(1))
_templates: dict[tuple[Any, ...], tuple[bytes, bytes]] = {}  # headers, and what the queue adds
_last: tuple[tuple[Any, ...], tuple[bytes, bytes]] = (), (b"", b"")  # most messages have that of the one before


def whole_packet(
    message: Message, queue_manager: UUID, subqueue: str, counts: tuple[int, int, float] | None = None
) -> bytes:
    """The Message Packet Structure of a message ([MS-MQRR] 2.2.5), with TimeToReachQueue as the second of expiry.
    `counts` are those of a message that does not have its position's: aborts, moves, and when it was last moved."""
    global _last
    body, extension, label = message.body, message.extension, message.label
    if (
        message.transaction is not None or message.security is not None or message.soap is not None
        or message.administration_queue or message.response_queue or message.destination_multi_queue
        or message.tracing_requested or message.tracing_queue.int or len(body) + len(extension) > _ROOM
        or message.identifier is None or message.application_deadletter_queue
    ):  # fmt: skip
        return b""
    key = (
        message.destination_queue, message.source_queue_manager, message.identifier.lineage, message.message_class,
        message.priority, message.delivery_guarantee, message.acknowledgements_requested,
        message.positive_journaling_requested, message.negative_journaling_requested, message.application_tag,
        message.body_type, message.hop_count, message.connector_type, subqueue, queue_manager,
        counts or (message.abort_count, message.move_count, message.last_move_time),
    )  # fmt: skip
    if key == _last[0]:  # less than a hash of it
        found = _last[1]
    else:
        known = _templates.get(key)
        found = known if known is not None else _template(key, message, queue_manager, subqueue)
        _last = key, found
    head = bytearray(found[0])
    text = label.encode("utf-16-le", "surrogatepass") + b"\0\0" if label else b""
    size = len(head) + len(text) + len(extension) + len(body)
    padding = _PADDING[size & 3]
    reach, sent = message.time_to_reach_queue, int(message.sent_time)
    _BASE.pack_into(head, _BASE_AT, size + len(padding),
                    INFINITE if reach == INFINITE else min(sent + reach, INFINITE))
    _USER.pack_into(head, _USER_AT, message.time_to_be_received, sent, message.identifier.uniquifier)
    at = len(head) - _PROPERTIES_SIZE
    head[at + _LABEL_LENGTH_AT] = len(text) >> 1
    head[at + _CORRELATION_AT : at + _CORRELATION_AT + 20] = message.correlation_id
    _SIZES.pack_into(head, at + _SIZES_AT, len(body), len(body))
    if extension:
        head[at + _EXTENSION_SIZE_AT :] = len(extension).to_bytes(4, "little")
    return b"".join((head, text, extension, body, padding, found[1]))


def _template(key: tuple[Any, ...], message: Message, queue_manager: UUID, subqueue: str) -> tuple[bytes, bytes]:
    """From the general way, of the same message with nothing in it."""
    empty = message.copy()
    empty.body, empty.label, empty.extension = b"", "", b""
    empty.abort_count, empty.move_count, empty.last_move_time = key[-1]
    if len(_templates) >= TEMPLATES:
        _templates.clear()
    found = _templates[key] = user_message_packet(empty, queue_manager), added_headers(empty, subqueue)
    return found
