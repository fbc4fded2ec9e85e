"""Acknowledgements: when, and what is in them ([MS-MQQB] 3.1.7.15, 3.1.7.17)."""

from struct import Struct
from typing import Final

from lior.message import INFINITE, Acknowledgements, Message, MessageClass

POSITIVE = frozenset({MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE})

# Not sent unless SendInsecureNacks: they tell a stranger what exists here ([MS-MQQB] 3.1.7.15)
INSECURE = frozenset(
    {
        MessageClass.NACK_BAD_DST_Q,
        MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_BAD_SIGNATURE,
        MessageClass.NACK_ACCESS_DENIED,
        MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    }
)

FINAL_LABEL: Final = "QM Ordering Ack"
_FINAL_BODY: Final = Struct("<QII16sI")  # [MS-MQQB] 2.2.5.1

ANSWERS = POSITIVE | {MessageClass.REPORT, MessageClass.ORDER_ACK}
_NACK_BIT = 0x8000
_RECEIVE_NACK_BITS = 0x4000  # set in the classes that speak of what happened after arrival


def bit_of(message_class: int) -> Acknowledgements:
    """The bit of AcknowledgementsRequested that asks for this class."""
    if message_class == MessageClass.ACK_REACH_QUEUE:
        return Acknowledgements.POSITIVE_ARRIVAL
    if message_class == MessageClass.ACK_RECEIVE:
        return Acknowledgements.POSITIVE_RECEIVE
    if message_class & _RECEIVE_NACK_BITS:
        return Acknowledgements.NEGATIVE_RECEIVE
    return Acknowledgements.NEGATIVE_ARRIVAL


def is_answer(message_class: int) -> bool:
    """Acknowledgements and reports, which nobody acknowledges: two queue managers would never come to an end."""
    return message_class in ANSWERS or message_class & _NACK_BIT != 0


def wants_acknowledgement(message: Message, message_class: int) -> bool:
    """An acknowledgement needs an administration queue to go to, and its own bit."""
    return bool(
        message.administration_queue
        and message.acknowledgements_requested & bit_of(message_class)
        and not is_answer(message.message_class)
    )


def acknowledgement(message: Message, message_class: MessageClass, *, insecure: bool) -> Message | None:
    """The acknowledgement of `message`, if one is asked for and may be sent."""
    if not wants_acknowledgement(message, message_class):
        return None
    if message_class in INSECURE and not insecure:
        return None
    ack = Message(
        message_class=message_class.value,
        correlation_id=message.identifier.to_bytes() if message.identifier else bytes(20),
        response_queue=message.destination_queue,
        delivery_guarantee=message.delivery_guarantee,
        time_to_reach_queue=INFINITE,
        time_to_be_received=INFINITE,
    )
    if message_class not in POSITIVE and not message.is_encrypted:
        ack.body = message.body
        ack.body_type = message.body_type
    return ack


def wants_final_acknowledgement(message: Message) -> bool:
    """Its sender keeps it until it knows what became of it ([MS-MQQB] 3.1.7.2.2)."""
    if message.positive_journaling_requested or message.negative_journaling_requested:
        return True
    return message.transaction is not None and message.transaction.final_ack_required


def final_acknowledgement(message: Message, message_class: int) -> Message | None:
    """What became of a message of an exactly-once stream ([MS-MQQB] 2.2.5); None for one that came in none."""
    transaction, identifier = message.transaction, message.identifier
    if transaction is None or not transaction.sequence_number or identifier is None:
        return None
    body = _FINAL_BODY.pack(
        transaction.sequence_identifier,
        transaction.sequence_number,
        transaction.previous_sequence_number,
        message.source_queue_manager.bytes_le,
        identifier.uniquifier,
    )
    return Message(
        body,
        FINAL_LABEL,
        message_class=int(message_class),
        priority=0,
        delivery_guarantee=1,
        time_to_reach_queue=INFINITE,
        time_to_be_received=INFINITE,
    )
