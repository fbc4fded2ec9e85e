"""Packets of plain messages, which nearly all are, between bytes and Message in one step ([MS-MQMQ] 2.2.19, 2.2.20).

Plain is a message for one queue by a direct name or a number, of a transaction or not, that asks for no answer, is
neither signed nor encrypted nor traced, and has no header besides those. What these functions say is what `UserMessage`
and `message_packet` would say; of every other packet they say nothing, not even what is wrong with it.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import LiorError
from lior.message import (
    MAX_LABEL_LENGTH,
    MAX_MESSAGE_SIZE,
    NULL_CORRELATION_ID,
    NULL_GUID,
    Message,
    MessageTransaction,
    ObjectId,
)
from lior.wire.headers import (
    ACK_MASK,
    CG,
    DM_SHIFT,
    DQ_SHIFT,
    FA,
    FM,
    HOPS_MASK,
    JN,
    JP,
    LM,
    MAX_HOPS,
    MP,
    NULL_GUID_BYTES,
    PRIORITY_MASK,
    SIGNATURE,
    TH,
    TX_ID_MASK,
    TX_ID_SHIFT,
    VERSION,
)
from lior.wire.message_packet import LAST_SECOND, PLAIN_ALGORITHMS, destination_of
from lior.wire.order_packets import names_an_order_queue
from lior.wire.packet_format_names import Hosts, format_name, guid_of
from lior.wire.queue_names import (
    DIRECT,
    PRIVATE_ON_DESTINATION,
    PacketName,
    decode_packet_name,
    encode_packet_name,
    padding,
)

_HEAD: Final = Struct("<BBHIII32sIIII")  # BaseHeader, and UserHeader with its two GUIDs in one
_NAME_AT: Final = _HEAD.size
_USER_AT: Final = 16
_COUNT: Final = Struct("<H")
_TRANSACTION: Final = Struct("<IQII")
_PROPERTIES: Final = Struct("<BBH20sIIIIIIII")
_ADDRESSES_AT: Final = 16
_FLAGS_AT: Final = 60  # of UserHeader
_FLAGS: Final = Struct("<I")
_TH_AT, _TH_BIT = _FLAGS_AT + 2, TH >> 16  # in one byte of it
_PRIVACY, _DIGEST, _CIPHER = map(int, PLAIN_ALGORITHMS)
_MODE: Final = 3 << DM_SHIFT
_DQ: Final = 7 << DQ_SHIFT
# Everything else in UserHeader.Flags makes a message unusual: whoever reads it looks closer.
_UNUSUAL: Final = 0xFFFFFFFF & ~(HOPS_MASK | 1 << DM_SHIFT | JN | _DQ | TH | MP)
_MOST_WAYS: Final = 1024  # remembered

_object_id: Final[Callable[[tuple[UUID, int]], ObjectId]] = partial(tuple.__new__, ObjectId)


def fixed_part(name: bytes, *, transaction: bool = False) -> Struct:
    """BaseHeader, UserHeader with a destination of this size, TransactionHeader, MessagePropertiesHeader."""
    return Struct(f"{_HEAD.format}{len(name)}s{_TRANSACTION.format[1:] if transaction else ''}{_PROPERTIES.format[1:]}")


class Way:
    """What many packets have in common: where they come from and where they go."""

    __slots__ = (
        "address", "addresses", "in_stream", "name", "name_bytes", "outside", "queue_type", "source", "template",
    )  # fmt: skip

    def __init__(self, addresses: bytes, queue_type: int, name: PacketName, name_bytes: bytes, own: bytes) -> None:
        self.addresses = addresses  # of UserHeader: SourceQueueManager and QueueManagerAddress
        self.source = addresses[:16]
        self.address = addresses[16:]
        self.queue_type = queue_type
        self.name = name
        self.name_bytes = name_bytes
        host = self.address if self.address != NULL_GUID_BYTES else own
        destination = f"DIRECT={name.text}" if name.type == DIRECT else format_name(
            name, Hosts(self.source, host, None))
        guid = guid_of(self.source)
        self.template = Message(destination_queue=destination, source_queue_manager=guid)
        self.outside, self.in_stream = fixed_part(name_bytes), fixed_part(name_bytes, transaction=True)


class PlainMessage(NamedTuple):
    """A plain message that came in."""

    way: Way
    message: Message
    packet: bytes  # all of it, for whoever finds that the message needs a closer look after all

    @property
    def key(self) -> bytes:
        """What tells duplicates: SourceQueueManager and MessageID."""
        return self.packet[16:32] + self.packet[56:60]


_plain_message: Final[Callable[[tuple[Way, Message, bytes]], PlainMessage]] = partial(tuple.__new__, PlainMessage)


class PlainDecoder:
    """Of packets that come to one queue manager, in one connection."""

    __slots__ = ("_last", "_own", "_ways")

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._ways: dict[tuple[bytes, int, bytes], Way] = {}
        self._last = Way(bytes(32), -1, PacketName(), b"", own)  # no packet has that type

    def decode(self, packet: bytes) -> PlainMessage | None:
        """None for a packet that is not plain, or not right. The Framer has seen to signature and size."""
        end = len(packet)
        if end < _NAME_AT + 2:
            return None
        in_stream = packet[_TH_AT] & _TH_BIT
        way = self._last
        fixed = way.in_stream if in_stream else way.outside
        if not packet.startswith(way.name_bytes, _NAME_AT) or not packet.startswith(way.addresses, _ADDRESSES_AT) \
                or end < fixed.size:
            found = self._other_way(packet)
            if found is None:
                return None
            way = self._last = found
            fixed = way.in_stream if in_stream else way.outside
            if end < fixed.size:
                return None
        message = way.template.copy()
        if in_stream:
            (_, _, base_flags, _, size, message.time_to_reach_queue, _, message.time_to_be_received, sent, number,
             flags, _, tx_flags, sequence_id, tx_number, previous, acknowledgements, label_units, message.message_class,
             correlation_id, message.body_type, message.application_tag, body_size, allocated, privacy, digest, cipher,
             extension_size) = fixed.unpack_from(packet)
            if tx_flags & CG or previous >= tx_number or not flags & _MODE:
                return None
            message.transaction = MessageTransaction(
                NULL_GUID, sequence_id, tx_number, previous, tx_flags >> TX_ID_SHIFT & TX_ID_MASK, tx_flags & FM != 0,
                tx_flags & LM != 0, tx_flags & FA != 0)
            message.priority = 0
        else:
            (_, _, base_flags, _, size, message.time_to_reach_queue, _, message.time_to_be_received, sent, number,
             flags, _, acknowledgements, label_units, message.message_class, correlation_id, message.body_type,
             message.application_tag, body_size, allocated, privacy, digest, cipher, extension_size
             ) = fixed.unpack_from(packet)
            message.priority = base_flags
        if base_flags & ~PRIORITY_MASK or flags & _UNUSUAL or not flags & MP or size != end \
                or flags & _DQ != way.queue_type:
            return None
        texts_at = fixed.size
        at = texts_at + 2 * label_units + extension_size
        body_end = at + allocated
        if body_end + (-body_end & 3) != end or body_size > allocated or digest != _DIGEST or cipher != _CIPHER \
                or privacy != _PRIVACY:
            return None
        if (label_units or extension_size) and not _set_texts(message, packet, texts_at, label_units, at):
            return None
        message.body = packet[at : at + body_size]
        if acknowledgements:
            message.acknowledgements_requested = acknowledgements & ACK_MASK
        if correlation_id != NULL_CORRELATION_ID:
            message.correlation_id = correlation_id
        message.delivery_guarantee = 1 if flags & _MODE else 0
        message.negative_journaling_requested = flags & JN != 0
        message.identifier = _object_id((message.source_queue_manager, number))
        message.sent_time = float(sent)
        message.hop_count = flags & HOPS_MASK
        return _plain_message((way, message, packet))

    def _other_way(self, packet: bytes) -> Way | None:
        """Of a packet that did not come on the last one."""
        addresses = packet[_ADDRESSES_AT : _ADDRESSES_AT + 32]
        (flags,) = _FLAGS.unpack_from(packet, _FLAGS_AT)
        return self._way(packet, addresses, flags & _DQ)

    def _way(self, packet: bytes, addresses: bytes, queue_type: int) -> Way | None:
        """The way of a packet, known or new; None if its name is no plain one. Acknowledgements of streams are not
        for queues."""
        kind = queue_type >> DQ_SHIFT
        if kind not in (DIRECT, PRIVATE_ON_DESTINATION):
            return None
        try:
            name, stop = decode_packet_name(kind, packet, _NAME_AT, len(packet), _USER_AT)
            name_bytes = packet[_NAME_AT:stop]
            way = self._ways.get((addresses, queue_type, name_bytes))
            if way is None and not names_an_order_queue(name):
                way = Way(addresses, queue_type, name, name_bytes, self._own)
                if len(self._ways) >= _MOST_WAYS:
                    self._ways.clear()
                self._ways[addresses, queue_type, name_bytes] = way
        except LiorError:
            return None
        return way


def _set_texts(message: Message, packet: bytes, at: int, units: int, end: int) -> bool:
    """Label and extension."""
    label = packet[at : at + 2 * units].decode("utf-16-le", "surrogatepass")
    if units and (units > MAX_LABEL_LENGTH + 1 or label.find("\0") != len(label) - 1):
        return False
    message.label = label[:-1]
    message.extension = packet[at + 2 * units : end]
    return True


class PlainEncoder:
    """Of messages that begin here."""

    __slots__ = ("_addresses", "_destination", "_in_stream", "_name", "_outside", "_source", "_type_bits")

    def __init__(self) -> None:
        self._destination = ""  # of the last message, and its source: most have the same
        self._source = NULL_GUID
        self._addresses = b""
        self._name = b""
        self._type_bits = 0
        self._outside = fixed_part(b"")  # everything before label, extension and body in one step
        self._in_stream = fixed_part(b"", transaction=True)

    def encode(self, message: Message, previous: int) -> bytes | None:
        """The packet; `previous` is PreviousTxSequenceNumber. None for a message that is not plain, or that has
        something in it that no packet can hold: whoever wants to know what, encodes it in full."""
        identifier, label = message.identifier, message.label
        correlation_id = message.correlation_id
        if (
            identifier is None
            or message.security is not None
            or message.soap is not None
            or message.connector_type is not None
            or message.administration_queue
            or message.response_queue
            or message.destination_multi_queue
            or message.tracing_requested
            or message.tracing_queue is not NULL_GUID
            or not 0 <= message.hop_count <= MAX_HOPS
            or (label and "\0" in label)
            or (correlation_id is not NULL_CORRELATION_ID and len(correlation_id) != 20)
        ):
            return None
        if message.source_queue_manager is not self._source or message.destination_queue != self._destination:
            self._look_up(message)
        if not self._name:
            return None
        flags = message.hop_count | self._type_bits
        if message.negative_journaling_requested:
            flags |= JN
        if message.positive_journaling_requested:
            flags |= JP
        try:
            return self._pack(message, identifier[1], flags, previous)
        except (OverflowError, TypeError, ValueError, StructError):
            return None

    def _pack(self, message: Message, number: int, flags: int, previous: int) -> bytes | None:
        transaction, body, extension = message.transaction, message.body, message.extension
        label = message.label and (message.label + "\0").encode("utf-16-le", "surrogatepass")
        body_size = len(body)
        variable = len(label) + len(extension) + body_size
        fixed = self._outside if transaction is None else self._in_stream
        size = fixed.size + variable + (-variable & 3)
        sent = int(message.sent_time)
        if not 0 <= sent <= LAST_SECOND:
            sent = min(max(sent, 0), LAST_SECOND)
        if size > MAX_MESSAGE_SIZE or len(label) > 2 * MAX_LABEL_LENGTH + 2:
            return None
        if transaction is None:
            priority, mode = message.priority, message.delivery_guarantee
            if not 0 <= priority <= 7 or not 0 <= mode <= 1:
                return None
            head = fixed.pack(
                VERSION, 0, priority, SIGNATURE, size, message.time_to_reach_queue, self._addresses,
                message.time_to_be_received, sent, number, flags | mode << DM_SHIFT, self._name,
                message.acknowledgements_requested & ACK_MASK, len(label) >> 1, message.message_class,
                message.correlation_id, message.body_type, message.application_tag, body_size, body_size,
                *PLAIN_ALGORITHMS, len(extension))  # fmt: skip
        else:
            if transaction.connector_queue_manager is not None or previous >= transaction.sequence_number \
                    or transaction.index > TX_ID_MASK:
                return None
            head = fixed.pack(
                VERSION, 0, 0, SIGNATURE, size, message.time_to_reach_queue, self._addresses,
                message.time_to_be_received, sent, number, flags | TH | 1 << DM_SHIFT, self._name,
                transaction.index << TX_ID_SHIFT | (FA if transaction.final_ack_required else 0)
                | (FM if transaction.first_in_transaction else 0) | (LM if transaction.last_in_transaction else 0),
                transaction.sequence_identifier, transaction.sequence_number, previous,
                message.acknowledgements_requested & ACK_MASK, len(label) >> 1, message.message_class,
                message.correlation_id, message.body_type, message.application_tag, body_size, body_size,
                *PLAIN_ALGORITHMS, len(extension))  # fmt: skip
        if variable == body_size and not variable & 3:
            return head + body
        return b"".join((head, label or b"", extension, body, padding(variable)))

    def _look_up(self, message: Message) -> None:
        self._destination, self._source = message.destination_queue, message.source_queue_manager
        self._name = b""
        if self._source.int == 0:
            return
        try:
            name, address = destination_of(self._destination, NULL_GUID)
            self._addresses = self._source.bytes_le + address
            self._name = encode_packet_name(name)
            self._type_bits = MP | name.type << DQ_SHIFT
        except LiorError:
            return
        self._outside, self._in_stream = fixed_part(self._name), fixed_part(self._name, transaction=True)
