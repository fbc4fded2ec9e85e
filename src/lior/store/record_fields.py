"""The fields of a message record: how each is written and read, and what need not be written."""

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from functools import lru_cache, partial
from itertools import compress
from operator import attrgetter, is_not
from struct import Struct
from typing import Any, Final
from uuid import UUID

from lior.message import NULL_GUID, Message, MessageSecurity, MessageSoap, MessageTransaction, ObjectId

LONG: Final = 255  # the length byte that says: four bytes of length follow
_LONG_LENGTH: Final = Struct("<I")
_SHORT: Final = 256  # what a cache may hold

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]

_int_of: Final[Decoder] = partial(int.from_bytes, byteorder="little")


@lru_cache(maxsize=4096)  # few queue managers send many messages
def guid_of(data: bytes) -> UUID:
    return UUID(bytes=data)


def prefix(tag: int, size: int) -> bytes:
    return bytes((tag, size)) if size < LONG else bytes((tag, LONG)) + _LONG_LENGTH.pack(size)


def _number(code: str) -> tuple[int, Callable[[int], Encoder], Decoder]:
    layout = Struct("<BB" + code)
    width = layout.size - 2
    if code == "d":
        real = Struct("<d").unpack
        return width, lambda tag: partial(layout.pack, tag, width), lambda data: real(data)[0]
    return width, lambda tag: partial(layout.pack, tag, width), _int_of


def _bytes_encoder(tag: int) -> Encoder:
    return lambda value: prefix(tag, len(value)) + value


def _text_encoder(tag: int) -> Encoder:
    def encode_text(value: str) -> bytes:
        data = value.encode("utf-8", "surrogatepass")
        return prefix(tag, len(data)) + data

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
    head = prefix(tag, 16)
    return lambda value: head + value.int.to_bytes(16, "big")


def _object_id_encoder(tag: int) -> Encoder:
    head = prefix(tag, 20)
    return lambda value: head + value.lineage.int.to_bytes(16, "big") + value.uniquifier.to_bytes(4, "little")


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


class Layout:
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
            if size == LONG:
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
                return prefix(tag, len(data)) + data

            return encode_part

        def decoder(data: bytes) -> Any:
            part = self.part()
            self.decode_into(part, data, 0)
            return part

        return None, encoder, decoder


_SECURITY = Layout(MessageSecurity, [
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

_TRANSACTION = Layout(MessageTransaction, [
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

_SOAP = Layout(MessageSoap, [
    (1, "envelope", _TEXT),
    (2, "compound_message", _BYTES),
    (3, "body", _TEXT),
    (4, "header", _TEXT),
    (5, "receipts_to", _TEXT),
])

MESSAGE = Layout(Message, [
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
encode_source, _encode_tracing = _guid_encoder(_SOURCE), _guid_encoder(_TRACING)
encode_label = _text_encoder(1)
MESSAGE.decoders[_SOURCE] = ("source_queue_manager", 16, guid_of)
MESSAGE.decoders[_TRACING] = ("tracing_queue", 16, guid_of)


def encode_fields(message: Message) -> bytes:
    parts = MESSAGE.encode(message)
    source, tracing = message.source_queue_manager, message.tracing_queue
    if source is not NULL_GUID and source != NULL_GUID:
        parts.append(encode_source(source))
    if tracing is not NULL_GUID and tracing != NULL_GUID:
        parts.append(_encode_tracing(tracing))
    if len(message.correlation_id) != 20:
        raise ValueError(f"correlation_id is {len(message.correlation_id)} bytes long instead of 20")
    return b"".join(parts)
