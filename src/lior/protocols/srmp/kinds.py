"""What kind of message an envelope is ([MC-MQSRM] 3.1.5.1.5). What fits no kind is answered and dropped."""

from enum import Enum
from typing import Final

from lior.message import MessageClass
from lior.wire.srmp_elements import ORDERING_ACK, Envelope

DECISIONS: Final[dict[int, bool]] = {  # by class: was the message received
    MessageClass.ACK_RECEIVE: True,
    MessageClass.NACK_DELETED: False,
    MessageClass.NACK_Q_DELETED: False,
    MessageClass.NACK_Q_PURGED: False,
    MessageClass.NACK_RECEIVE_TIMEOUT: False,
    MessageClass.NACK_RECEIVE_REJECTED: False,  # made by 3.1.7.3, though this section forgets it
}


class Kind(Enum):
    USER = "user message"
    DELIVERY_RECEIPT = "delivery receipt"
    COMMITMENT_RECEIPT = "commitment receipt"
    STREAM_RECEIPT = "stream receipt"
    FINAL_STREAM_RECEIPT = "final stream receipt"


def kind_of(envelope: Envelope) -> Kind | None:
    number = 0 if envelope.msmq is None else envelope.msmq.message_class
    delivery, commitment = envelope.delivery_receipt is not None, envelope.commitment_receipt
    ordering = envelope.stream_receipt is not None
    if not (delivery or commitment or ordering):
        return Kind.USER if number == MessageClass.NORMAL else None
    if delivery:
        alone = commitment is None and not ordering
        return Kind.DELIVERY_RECEIPT if alone and number == MessageClass.ACK_REACH_QUEUE else None
    if ordering and envelope.label != ORDERING_ACK:
        return None
    if commitment is None:
        return Kind.STREAM_RECEIPT if number == MessageClass.ORDER_ACK else None
    if DECISIONS.get(number) is not commitment.positive:
        return None
    return Kind.FINAL_STREAM_RECEIPT if ordering else Kind.COMMITMENT_RECEIPT
