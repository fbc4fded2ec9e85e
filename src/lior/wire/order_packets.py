"""OrderAck and FinalAck ([MS-MQQB] 2.2.4, 2.2.5): messages to order_queue$ about transactional messages.

Both are UserMessage packets with a body of 36 bytes. Their sender makes a Message for whoever numbers and encodes it;
their receiver asks `recognise` about every packet. What they say is a claim: nobody signs it (5.1).
"""

import struct
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, NamedTuple
from uuid import UUID

from lior.errors import InvalidParameter, Malformed
from lior.message import INFINITE, DeliveryGuarantee, Message, MessageClass
from lior.wire.headers import NULL_GUID_BYTES
from lior.wire.queue_names import DIRECT, PRIVATE_ON_DESTINATION, PacketName
from lior.wire.user_message import UserMessage

ORDER_QUEUE_NUMBER: Final = 4  # of order_queue$ on every queue manager
LABEL: Final = "QM Ordering Ack"
BODY_SIZE: Final = 0x24

_LABEL_BYTES: Final = (LABEL + "\0").encode("utf-16-le")
_ORDER_ACK: Final = int(MessageClass.ORDER_ACK)
_LOWEST_FINAL_CLASS: Final = int(MessageClass.ACK_RECEIVE)  # 3.1.5.1.1: "not less than 0x4000"
_TAIL: Final = "\\private$\\order_queue$"
_ORDER_BODY: Final = struct.Struct("<QII20x")
_FINAL_BODY: Final = struct.Struct("<QII16sI")


class OrderAck(NamedTuple):
    """All messages of a stream up to a number were accepted or rejected, in order (2.2.4.1)."""

    tx_sequence_id: int  # of the stream that is acknowledged: TimeStamp in the high half, Ordinal in the low
    tx_sequence_number: int

    def encode(self) -> bytes:
        """The body. 3.1.7.17 would put the id of our own outgoing stream here; 2.2.4.1 is right."""
        _check_number(self.tx_sequence_number)
        return _packed(_ORDER_BODY, self.tx_sequence_id, self.tx_sequence_number, self.tx_sequence_number - 1)

    @classmethod
    def decode(cls, body: bytes | memoryview) -> "OrderAck":
        """The body; what its last 20 bytes hold is ignored, and so is the previous number, which says nothing new."""
        tx_sequence_id, number, _ = _unpacked(_ORDER_BODY, body)
        return cls(tx_sequence_id, number)


class FinalAck(NamedTuple):
    """What became of one message in the end (2.2.5.1)."""

    tx_sequence_id: int
    tx_sequence_number: int
    previous_tx_sequence_number: int
    source_guid: bytes  # the queue manager that originated the message
    message_id: int
    message_class: int  # ACK_RECEIVE, or a NACK that says why; in the packet's header, not in the body

    @property
    def positive(self) -> bool:
        return self.message_class == _LOWEST_FINAL_CLASS

    def encode(self) -> bytes:
        _check_number(self.tx_sequence_number)
        if len(self.source_guid) != 16:
            raise InvalidParameter(f"a GUID of {len(self.source_guid)} bytes", where="FinalAck.SourceGUID")
        return _packed(_FINAL_BODY, *self[:5])

    @classmethod
    def decode(cls, body: bytes | memoryview, message_class: int) -> "FinalAck":
        tx_sequence_id, number, previous, source, message_id = _unpacked(_FINAL_BODY, body)
        return cls(tx_sequence_id, number, previous, source, message_id, message_class)


class Stray(NamedTuple):
    """A packet to order_queue$ that is neither; it is dropped, for nothing reads that queue."""

    reason: str


def _check_number(number: int) -> None:
    if number < 1:
        raise InvalidParameter(f"TxSequenceNumber {number}", where="order acknowledgement", remedy="the first is 1")


def _packed(layout: struct.Struct, *values: object) -> bytes:
    try:
        return layout.pack(*values)
    except struct.error as error:
        raise InvalidParameter(f"a value does not fit its field: {error}", where="order acknowledgement") from None


def _unpacked(layout: struct.Struct, body: bytes | memoryview) -> tuple[Any, ...]:
    if len(body) != BODY_SIZE:
        raise Malformed(f"a body of {len(body)} bytes", where="order acknowledgement", remedy=f"it has {BODY_SIZE}")
    values = layout.unpack(body)
    if values[1] < 1:
        raise Malformed("TxSequenceNumber 0", where="order acknowledgement", remedy="the first is 1")
    return values


# ---- where acknowledgements go (3.1.7.17) ---------------------------------------------------------------------------


def order_queue_at(address: str) -> str:
    """The order queue of the queue manager at an IP address: what a direct-format session is answered to.

    An IPv4 address that arrived in IPv6 form is written as IPv4; there are no brackets and no zone (2.2.4 takes
    IPv6address from RFC 3986).
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        raise InvalidParameter(f"{address[:80]!r} is no IP address", where="order_queue$") from None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return f"DIRECT=TCP:{ip}\\PRIVATE$\\order_queue$"


def order_queue_of(queue_manager: UUID) -> str:
    """The order queue of a queue manager known by its identifier."""
    return f"PRIVATE={str(queue_manager).upper()}\\{ORDER_QUEUE_NUMBER:08X}"


def order_ack_message(ack: OrderAck, destination_queue: str) -> Message:
    """An OrderAck to send: express, for the sender of the stream sends again what was not acknowledged.

    3.1.7.17 says recoverable, but 2.2.4 wants all flags but DQ and MP clear. Both are accepted on receipt.
    """
    return _message(ack.encode(), destination_queue, _ORDER_ACK, DeliveryGuarantee.EXPRESS)


def final_ack_message(ack: FinalAck, destination_queue: str) -> Message:
    """A FinalAck to send: recoverable, for nobody asks for it again."""
    if not _LOWEST_FINAL_CLASS <= ack.message_class <= 0xFFFF:
        raise InvalidParameter(f"class 0x{ack.message_class:04X}", where="FinalAck", remedy="it is 0x4000 or above")
    return _message(ack.encode(), destination_queue, ack.message_class, DeliveryGuarantee.RECOVERABLE)


def _message(body: bytes, destination_queue: str, message_class: int, delivery: DeliveryGuarantee) -> Message:
    return Message(body=body, label=LABEL, message_class=int(message_class), priority=0,
                   delivery_guarantee=int(delivery), time_to_reach_queue=INFINITE, destination_queue=destination_queue)


# ---- what arrives (3.1.5.1.1) ---------------------------------------------------------------------------------------


def recognise(user_message: UserMessage, own: bytes,
              is_me: Callable[[str], bool]) -> OrderAck | FinalAck | Stray | None:
    """The acknowledgement in a packet that came to our order queue; None for every packet to somewhere else.

    `own` is our identifier, `is_me` says whether a host or address of a direct name is ours. Destination and class
    decide, then label and size; flags that 2.2.4 wants clear are tolerated, for a SessionHeader sets one of them.
    """
    name = user_message.destination_queue
    if name.type == DIRECT:
        # Most names end otherwise: one comparison, and nothing is split or folded.
        if name.text[-12:].lower() != "order_queue$" or not _is_direct_order_queue(name.text, is_me):
            return None
    elif not _is_own_number(name, user_message.user.queue_manager_address, own):
        return None
    message_class = user_message.properties.message_class
    if user_message.label != _LABEL_BYTES or user_message.properties.message_size != BODY_SIZE:
        return Stray(f"a message of class 0x{message_class:04X} with another label or size")
    try:
        if message_class == _ORDER_ACK:
            return OrderAck.decode(user_message.body[:BODY_SIZE])
        if message_class >= _LOWEST_FINAL_CLASS:
            return FinalAck.decode(user_message.body[:BODY_SIZE], message_class)
    except Malformed as error:
        return Stray(str(error))
    return Stray(f"a message of class 0x{message_class:04X}")


def names_an_order_queue(name: PacketName) -> bool:
    """Whether a destination may be an order queue, ours or another's."""
    if name.type == DIRECT:
        return name.text[-12:].lower() == "order_queue$"
    return name.type == PRIVATE_ON_DESTINATION and name.number == ORDER_QUEUE_NUMBER


def _is_own_number(name: PacketName, address: bytes, own: bytes) -> bool:
    return (name.type == PRIVATE_ON_DESTINATION and name.number == ORDER_QUEUE_NUMBER
            and address in (own, NULL_GUID_BYTES))


def _is_direct_order_queue(text: str, is_me: Callable[[str], bool]) -> bool:
    protocol, _, rest = text.partition(":")
    at = len(rest) - len(_TAIL)
    if at < 1 or rest[at:].lower() != _TAIL or protocol.upper() not in ("TCP", "OS"):
        return False
    return is_me(rest[:at])
