"""A message as the store keeps it: header bytes and body bytes.

    header = version (1 byte), CRC-32 of version, fields and body (4 bytes), fields
    field  = tag (1 byte), length (1 byte, or 255 and 4 bytes), payload

Tags ascend. A field is written when it differs from the default of Message. A later version may add tags:
this one skips a tag it does not know, and since the store never rewrites a header, the field stays on disk.
A change that an older reader must not skip gets a new version number. What a message's position remembers
(lookup id, arrival time, counts) is not here: those are columns.
"""

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from functools import lru_cache, partial
from itertools import compress
from operator import attrgetter, is_not
from struct import Struct
from struct import error as StructError
from typing import Any, Final
from uuid import UUID
from zlib import crc32

from lior.errors import InvalidParameter, StoreCorrupt, StoreVersion
from lior.message import (
    INFINITE,
    NULL_CORRELATION_ID,
    NULL_GUID,
    Message,
    MessageSecurity,
    MessageSoap,
    MessageTransaction,
    ObjectId,
)

VERSION: Final = 1
_HEAD: Final = Struct("<BI")
_LONG: Final = 255  # the length byte that says: four bytes of length follow
_LONG_LENGTH: Final = Struct("<I")
_SHORT: Final = 256  # what a cache may hold
_DAMAGED: Final = "run: lior doctor"

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]

_int_of: Final[Decoder] = partial(int.from_bytes, byteorder="little")


@lru_cache(maxsize=4096)  # few queue managers send many messages
def guid_of(data: bytes) -> UUID:
    return UUID(bytes=data)


def _prefix(tag: int, size: int) -> bytes:
    return bytes((tag, size)) if size < _LONG else bytes((tag, _LONG)) + _LONG_LENGTH.pack(size)


def _number(code: str) -> tuple[int, Callable[[int], Encoder], Decoder]:
    layout = Struct("<BB" + code)
    width = layout.size - 2
    if code == "d":
        real = Struct("<d").unpack
        return width, lambda tag: partial(layout.pack, tag, width), lambda data: real(data)[0]
    return width, lambda tag: partial(layout.pack, tag, width), _int_of


def _bytes_encoder(tag: int) -> Encoder:
    return lambda value: _prefix(tag, len(value)) + value


def _text_encoder(tag: int) -> Encoder:
    def encode_text(value: str) -> bytes:
        data = value.encode("utf-8", "surrogatepass")
        return _prefix(tag, len(data)) + data

    return encode_text


def _name_encoder(tag: int) -> Encoder:
    """For format names: few of them, in many messages."""
    plain = _text_encoder(tag)
    cached = lru_cache(maxsize=512)(plain)
    return lambda value: cached(value) if len(value) < _SHORT else plain(value)


@lru_cache(maxsize=512)
def _short_name_of(data: bytes) -> str:
    return _text_of(data)


def _name_of(data: bytes) -> str:
    return _short_name_of(data) if len(data) < _SHORT else _text_of(data)


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")  # labels may hold lone surrogates: they come from UTF-16


def _guid_encoder(tag: int) -> Encoder:
    prefix = _prefix(tag, 16)
    return lambda value: prefix + value.int.to_bytes(16, "big")


def _object_id_encoder(tag: int) -> Encoder:
    prefix = _prefix(tag, 20)
    return lambda value: prefix + value.lineage.int.to_bytes(16, "big") + value.uniquifier.to_bytes(4, "little")


def _object_id_of(data: bytes) -> ObjectId:
    return ObjectId(guid_of(data[:16]), _int_of(data[16:]))


def _flag_of(data: bytes) -> bool:
    if data > b"\x01":
        raise ValueError("a flag is 0 or 1")
    return data == b"\x01"


_U8, _U16, _U32, _U64, _F64 = map(_number, "BHIQd")
_FLAG = (1, _U8[1], _flag_of)
_BYTES = (None, _bytes_encoder, bytes)
_TEXT = (None, _text_encoder, _text_of)
_NAME = (None, _name_encoder, _name_of)
_GUID = (16, _guid_encoder, guid_of)
_OBJECT_ID = (20, _object_id_encoder, _object_id_of)
_CORRELATION = (20, _bytes_encoder, bytes)

Kind = tuple[int | None, Callable[[int], Encoder], Decoder]


class _Layout:
    """The fields of one class: how each is written and read, and what need not be written."""

    def __init__(self, part: type, table: list[tuple[int, str, Kind]]) -> None:
        self.part = part
        defaults = {field.name: field.default for field in dataclass_fields(part)}
        self.values = attrgetter(*[name for _, name, _ in table])
        self.defaults = tuple(defaults[name] for _, name, _ in table)
        self.encoders = tuple(kind[1](tag) for tag, _, kind in table)
        self.names = tuple(name for _, name, _ in table)
        self.decoders: list[tuple[str, int | None, Decoder] | None] = [None] * 256
        for tag, name, (width, _, decoder) in table:
            self.decoders[tag] = (name, width, decoder)

    def encode(self, part: object) -> list[bytes]:
        values = self.values(part)
        other = map(is_not, values, self.defaults)  # tells most defaults apart in half the time of !=
        return [encoder(value) for encoder, value, default in compress(
                zip(self.encoders, values, self.defaults, strict=True), other)
                if value != default]

    def decode_into(self, part: Any, data: bytes, at: int) -> None:
        decoders, end, last = self.decoders, len(data), -1
        while at < end:
            tag = data[at]
            if tag <= last:
                raise ValueError(f"field {tag} follows field {last}")
            last = tag
            size = data[at + 1]
            at += 2
            if size == _LONG:
                (size,) = _LONG_LENGTH.unpack_from(data, at)
                at += 4
            stop = at + size
            if stop > end:
                raise ValueError(f"field {tag} is {size} bytes long, {end - at} are left")
            field = decoders[tag]
            if field is not None:
                name, width, decoder = field
                if width is not None and width != size:
                    raise ValueError(f"{name} is {size} bytes long instead of {width}")
                setattr(part, name, decoder(data[at:stop]))
            at = stop

    def as_kind(self) -> Kind:
        """This class as one field of another."""

        def encoder(tag: int) -> Encoder:
            def encode_part(part: object) -> bytes:
                data = b"".join(self.encode(part))
                return _prefix(tag, len(data)) + data

            return encode_part

        def decoder(data: bytes) -> Any:
            part = self.part()
            self.decode_into(part, data, 0)
            return part

        return None, encoder, decoder


_SECURITY = _Layout(MessageSecurity, [
    (1, "sender_identifier_type", _U16),
    (2, "sender_identifier", _BYTES),
    (3, "sender_certificate", _BYTES),
    (4, "signature", _BYTES),
    (5, "multi_queue_signature", _BYTES),
    (6, "authentication_level", _U16),
    (7, "authentication_provider_type", _U32),
    (8, "authentication_provider_name", _TEXT),
    (9, "symmetric_key", _BYTES),
    (10, "privacy_level", _U32),
    (11, "hash_algorithm", _U32),
    (12, "encryption_algorithm", _U32),
])

_TRANSACTION = _Layout(MessageTransaction, [
    (1, "transaction_identifier", _GUID),
    (2, "sequence_identifier", _U64),
    (3, "sequence_number", _U32),
    (4, "previous_sequence_number", _U32),
    (5, "index", _U32),
    (6, "first_in_transaction", _FLAG),
    (7, "last_in_transaction", _FLAG),
    (8, "final_ack_required", _FLAG),
    (9, "connector_queue_manager", _GUID),
    (10, "status_queue", _TEXT),
])

_SOAP = _Layout(MessageSoap, [
    (1, "envelope", _TEXT),
    (2, "compound_message", _BYTES),
    (3, "body", _TEXT),
    (4, "header", _TEXT),
    (5, "receipts_to", _TEXT),
])

_MESSAGE = _Layout(Message, [
    (1, "label", _TEXT),
    (2, "body_type", _U32),
    (3, "extension", _BYTES),
    (4, "application_tag", _U32),
    (5, "correlation_id", _CORRELATION),
    (6, "message_class", _U16),
    (7, "priority", _U8),
    (8, "delivery_guarantee", _U8),
    (9, "acknowledgements_requested", _U8),
    (10, "positive_journaling_requested", _FLAG),
    (11, "negative_journaling_requested", _FLAG),
    (12, "time_to_reach_queue", _U32),
    (13, "time_to_be_received", _U32),
    (14, "administration_queue", _NAME),
    (15, "response_queue", _NAME),
    (16, "destination_queue", _NAME),
    (17, "destination_multi_queue", _NAME),
    (18, "application_deadletter_queue", _NAME),
    (19, "identifier", _OBJECT_ID),
    (20, "sent_time", _F64),
    (21, "tracing_requested", _FLAG),
    (22, "connector_type", _GUID),
    (23, "hop_count", _U8),
    (24, "allow_peek_when_locked", _FLAG),
    (25, "security", _SECURITY.as_kind()),
    (26, "transaction", _TRANSACTION.as_kind()),
    (27, "soap", _SOAP.as_kind()),
    (28, "failure_reason", _U32),
    (29, "failed_destination", _NAME),
    (30, "packet", _BYTES),
])
# Apart from the table: comparing two UUIDs runs Python code, a test for identity does not.
_SOURCE, _TRACING = 40, 41
_encode_source, _encode_tracing = _guid_encoder(_SOURCE), _guid_encoder(_TRACING)
_encode_label = _text_encoder(1)
_MESSAGE.decoders[_SOURCE] = ("source_queue_manager", 16, guid_of)
_MESSAGE.decoders[_TRACING] = ("tracing_queue", 16, guid_of)


def encoded_field(name: str, value: Any) -> bytes:
    """How a header holds this value of a message, to look for it without decoding."""
    return _MESSAGE.encoders[_MESSAGE.names.index(name)](value)


def encode(message: Message) -> bytes:
    """The header of a message; its body is stored beside it. Raises InvalidParameter for a value that a
    message cannot have."""
    try:
        data = _encode_usual(message)
        if data is None:
            data = _encode_fields(message)
        return _HEAD.pack(VERSION, crc32(message.body, crc32(data, VERSION))) + data
    except (StructError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidParameter(f"a message that cannot be stored: {error}", where="message") from error


def _encode_fields(message: Message) -> bytes:
    parts = _MESSAGE.encode(message)
    source, tracing = message.source_queue_manager, message.tracing_queue
    if source is not NULL_GUID and source != NULL_GUID:
        parts.append(_encode_source(source))
    if tracing is not NULL_GUID and tracing != NULL_GUID:
        parts.append(_encode_tracing(tracing))
    if len(message.correlation_id) != 20:
        raise ValueError(f"correlation_id is {len(message.correlation_id)} bytes long instead of 20")
    return b"".join(parts)


# What nearly every message has besides its body: the same bytes as from _encode_fields, in a third of the time.
_USUAL_NUMBERS: Final = Struct("<IBBd")  # the end of field 19, all of field 20
_TIME_TO_REACH_QUEUE: Final = Message().time_to_reach_queue


def _is_usual(message: Message) -> bool:
    """Whether only label, priority, delivery guarantee, negative journaling, destination, identifier, sent time,
    transaction and source can differ from their defaults."""
    return not (
        message.body_type
        or message.extension
        or message.application_tag
        or message.correlation_id is not NULL_CORRELATION_ID
        or message.message_class
        or message.acknowledgements_requested
        or message.positive_journaling_requested
        or message.time_to_reach_queue != _TIME_TO_REACH_QUEUE
        or message.time_to_be_received != INFINITE
        or message.administration_queue
        or message.response_queue
        or message.destination_multi_queue
        or message.application_deadletter_queue
        or message.source_queue_manager is NULL_GUID
        or not message.sent_time
        or message.tracing_requested
        or message.tracing_queue is not NULL_GUID
        or message.connector_type
        or message.hop_count
        or message.allow_peek_when_locked
        or message.security
        or message.soap
        or message.failure_reason
        or message.failed_destination
        or message.packet
    )


@lru_cache(maxsize=1024)  # few destinations get many messages
def _usual_parts(priority: int, delivery_guarantee: int, negative_journaling_requested: bool, destination_queue: str,
                 lineage: int, source: int) -> tuple[bytes, bytes]:
    """What stands before and after the numbers: fields 7, 8, 11, 16 and the begin of 19; field 40."""
    part = Message(priority=priority, delivery_guarantee=delivery_guarantee,
                   negative_journaling_requested=negative_journaling_requested,
                   destination_queue=destination_queue)
    before = [*_MESSAGE.encode(part), _prefix(19, 20), lineage.to_bytes(16, "big")]
    return b"".join(before), _encode_source(UUID(int=source))


# The same numbers, and field 26 of a message that has its place in a stream behind another: its length, its fields 1 to
# 5; one that came over the network does not have the first
_IN_STREAM: Final = Struct("<IBBdBBBB16sBBQBBIBBIBBI")
_IN_STREAM_SIZE: Final = _IN_STREAM.size - _USUAL_NUMBERS.size - 2
_CAME_IN_STREAM: Final = Struct("<IBBdBBBBQBBIBBIBBI")
_CAME_IN_STREAM_SIZE: Final = _CAME_IN_STREAM.size - _USUAL_NUMBERS.size - 2
_FIRST_LAST: Final = {
    (first, last): (b"\x06\x01\x01" if first else b"") + (b"\x07\x01\x01" if last else b"")
    for first in (False, True) for last in (False, True)
}  # fields 6 and 7 of a transaction


def _encode_in_stream(message: Message, ordinal: int, transaction: MessageTransaction) -> bytes | None:
    """Fields 19 to 26; None where the transaction is not as nearly all are."""
    sequence_id, number = transaction.sequence_identifier, transaction.sequence_number
    previous, index, identifier = (
        transaction.previous_sequence_number, transaction.index, transaction.transaction_identifier.int)
    if not (sequence_id and number and previous and index) or transaction.final_ack_required or \
            transaction.connector_queue_manager is not None or transaction.status_queue:
        return None
    flags = _FIRST_LAST[transaction.first_in_transaction, transaction.last_in_transaction]
    if not identifier:
        return _CAME_IN_STREAM.pack(
            ordinal, 20, 8, message.sent_time, 26, _CAME_IN_STREAM_SIZE + len(flags),
            2, 8, sequence_id, 3, 4, number, 4, 4, previous, 5, 4, index) + flags  # fmt: skip
    return _IN_STREAM.pack(
        ordinal, 20, 8, message.sent_time, 26, _IN_STREAM_SIZE + len(flags), 1, 16, identifier.to_bytes(16, "big"),
        2, 8, sequence_id, 3, 4, number, 4, 4, previous, 5, 4, index) + flags  # fmt: skip


class _Parts:
    """What the last message had in common with the next, as a rule; found by identity, for the names and GUIDs of one
    batch are the same objects."""

    __slots__ = ("after", "before", "destination", "lineage", "numbers", "source")

    def __init__(self, numbers: tuple[int, int, bool], destination: str, lineage: UUID, source: UUID) -> None:
        self.numbers, self.destination, self.lineage, self.source = numbers, destination, lineage, source
        self.before, self.after = _usual_parts(*numbers, destination, lineage.int, source.int)


_last: _Parts | None = None


def _encode_usual(message: Message) -> bytes | None:
    global _last
    identifier = message.identifier
    if identifier is None or not _is_usual(message):
        return None
    lineage, ordinal = identifier
    destination, source, parts = message.destination_queue, message.source_queue_manager, _last
    numbers = message.priority, message.delivery_guarantee, message.negative_journaling_requested
    if parts is None or destination is not parts.destination or lineage is not parts.lineage \
            or source is not parts.source or numbers != parts.numbers:
        parts = _last = _Parts(numbers, destination, lineage, source)
    transaction = message.transaction
    if transaction is None:
        middle: bytes | None = _USUAL_NUMBERS.pack(ordinal, 20, 8, message.sent_time)
    else:
        middle = _encode_in_stream(message, ordinal, transaction)
    if middle is None:
        return None
    data = b"".join((parts.before, middle, parts.after))
    return _encode_label(message.label) + data if message.label else data


def decode(header: bytes, body: bytes) -> Message:
    """The message of a header and its body. Raises StoreCorrupt, or StoreVersion for a header that a newer
    Lior wrote."""
    try:
        version, crc = _HEAD.unpack_from(header)
        fields = header[5:]
        if crc32(body, crc32(fields, version)) != crc:
            raise ValueError("the checksum does not match")
        if version != VERSION:
            if version > VERSION:
                raise StoreVersion(f"a record of version {version}; this Lior reads {VERSION}",
                                   where="message record", remedy="use the Lior that wrote the store, or a newer one")
            raise ValueError(f"version {version}")
        message = Message(body)
        _MESSAGE.decode_into(message, fields, 0)
        return message
    except (StructError, ValueError, IndexError) as error:
        raise StoreCorrupt(f"a damaged message record: {error}", where="message record", remedy=_DAMAGED) from error


def decode_header(header: bytes) -> Message:
    """The message without its body, and so without a look at the checksum, which is over both."""
    try:
        if header[0] != VERSION:
            raise ValueError(f"version {header[0]}")
        message = Message(b"")
        _MESSAGE.decode_into(message, header[_HEAD.size:], 0)
        return message
    except (StructError, ValueError, IndexError) as error:
        raise StoreCorrupt(f"a damaged message record: {error}", where="message record", remedy=_DAMAGED) from error


def checksum(header: bytes, body: bytes) -> int:
    """What the header of a message with this body must say."""
    return crc32(body, crc32(header[_HEAD.size:], VERSION))
