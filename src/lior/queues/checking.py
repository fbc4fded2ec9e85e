"""What a sender may put into a message ([MS-MQDMPR] 3.1.1.12)."""

from typing import Final

from lior.errors import IllegalPropertyValue, LabelTooLong, LiorError, MessageTooLarge, UnsupportedClass
from lior.message import (
    FIXED_HEADERS_SIZE,
    INFINITE,
    MAX_LABEL_LENGTH,
    MAX_MESSAGE_SIZE,
    NULL_CORRELATION_ID,
    Message,
    is_message_class,
)
from lior.names.grammar import utf16_length

ALL_ACKNOWLEDGEMENTS: Final = 0x0F


def check_message(message: Message) -> int:
    """Pass a message that may be sent, and tell its size; one clear error otherwise."""
    if type(message.body) is not bytes:
        _examine(message)
    size = message.size
    if not (
        size <= MAX_MESSAGE_SIZE
        and len(message.label) <= MAX_LABEL_LENGTH
        and message.label.isascii()
        and 0 <= message.priority <= 7
        and message.message_class == 0
        and len(message.correlation_id) == 20
        and 0 <= message.body_type <= 0xFFFFFFFF
        and 0 <= message.application_tag <= 0xFFFFFFFF
        and 0 <= message.time_to_reach_queue <= 0xFFFFFFFF
        and 0 <= message.time_to_be_received <= 0xFFFFFFFF
        and 0 <= message.acknowledgements_requested <= ALL_ACKNOWLEDGEMENTS
        and message.soap is None
    ):
        _examine(message)
    return size


def usual_size(message: Message, guarantee: int | None) -> int:
    """The size of a message that may be sent and from which nothing follows but its insertion; 0 for one that needs a
    closer look. `guarantee` is the delivery guarantee that it has to have, None for any."""
    if (
        message.time_to_be_received != INFINITE
        or message.administration_queue
        or message.positive_journaling_requested
        or message.security is not None
        or message.transaction is not None
        or message.failed_destination
        or message.connector_type is not None
        or (guarantee is not None and message.delivery_guarantee != guarantee)
    ):
        return 0
    body = message.body
    if (
        type(body) is bytes
        and not (message.label or message.extension or message.body_type or message.application_tag)
        and message.correlation_id is NULL_CORRELATION_ID
        and not (message.message_class or message.acknowledgements_requested)
        and message.soap is None
        and 0 <= message.priority <= 7
        and 0 <= message.time_to_reach_queue <= INFINITE
        and len(body) <= MAX_MESSAGE_SIZE - FIXED_HEADERS_SIZE
    ):
        return FIXED_HEADERS_SIZE + len(body)
    try:
        return check_message(message)
    except LiorError:
        return 0


def _examine(message: Message) -> None:
    """The checks one by one, for the message that is unusual or wrong."""
    for name, kind in (("body", bytes), ("extension", bytes), ("correlation_id", bytes), ("label", str)):
        if not isinstance(getattr(message, name), kind):
            raise IllegalPropertyValue(f"{type(getattr(message, name)).__name__} is not {kind.__name__}", where=name)
    units = utf16_length(message.label)
    if units > MAX_LABEL_LENGTH:
        raise LabelTooLong(
            f"the label has {units} UTF-16 code units", where="label", remedy=f"use at most {MAX_LABEL_LENGTH}"
        )
    if not 0 <= message.priority <= 7:
        raise IllegalPropertyValue(f"{message.priority} is out of range", where="priority", remedy="use 0 to 7")
    if not is_message_class(message.message_class):
        raise UnsupportedClass(
            f"{message.message_class:#06x} is not a message class",
            where="message_class",
            remedy="use 0, or a class of your own inside the mask 0xE1FF",
        )
    if len(message.correlation_id) != 20:
        raise IllegalPropertyValue(
            f"{len(message.correlation_id)} bytes", where="correlation_id", remedy="a correlation id has 20 bytes"
        )
    for name in ("application_tag", "body_type", "time_to_reach_queue", "time_to_be_received"):
        value = getattr(message, name)
        if not 0 <= value <= 0xFFFFFFFF:
            raise IllegalPropertyValue(f"{value} does not fit 32 bits", where=name, remedy="use 0 to 4294967295")
    if not 0 <= message.acknowledgements_requested <= ALL_ACKNOWLEDGEMENTS:
        raise IllegalPropertyValue(
            f"{message.acknowledgements_requested:#x}", where="acknowledgements_requested", remedy="use the bits 1 to 8"
        )
    soap = message.soap
    if soap is not None and (soap.envelope or soap.compound_message or soap.body or soap.receipts_to):
        raise IllegalPropertyValue("these SOAP parts are set by the transfer only", where="soap",
                                   remedy="set the header alone")
    if message.size > MAX_MESSAGE_SIZE:
        raise MessageTooLarge(
            f"{message.size} bytes with headers",
            where="body",
            remedy=f"a message holds at most {MAX_MESSAGE_SIZE} bytes: store the body elsewhere and send its address",
        )
