"""Message classes against the enumeration of [MS-MQMQ] 2.2.18.1.6."""

import pytest

from lior.message import CUSTOM_CLASS_MASK, MessageClass, is_message_class

ACKNOWLEDGEMENTS = {"NORMAL": 0x0000, "REPORT": 0x0001, "ACK_REACH_QUEUE": 0x0002, "ORDER_ACK": 0x00FF,
                    "ACK_RECEIVE": 0x4000}
DELIVERY = {
    "NACK_BAD_DST_Q": 0x8000, "NACK_DELETED": 0x8001, "NACK_REACH_QUEUE_TIMEOUT": 0x8002,
    "NACK_Q_EXCEED_QUOTA": 0x8003, "NACK_ACCESS_DENIED": 0x8004, "NACK_HOP_COUNT_EXCEEDED": 0x8005,
    "NACK_BAD_SIGNATURE": 0x8006, "NACK_BAD_ENCRYPTION": 0x8007, "NACK_COULD_NOT_ENCRYPT": 0x8008,
    "NACK_NOT_TRANSACTIONAL_Q": 0x8009, "NACK_NOT_TRANSACTIONAL_MSG": 0x800A,
    "NACK_UNSUPPORTED_CRYPTO_PROVIDER": 0x800B, "NACK_SOURCE_COMPUTER_GUID_CHANGED": 0x800C}
RECEIVING = {"NACK_Q_DELETED": 0xC000, "NACK_Q_PURGED": 0xC001, "NACK_RECEIVE_TIMEOUT": 0xC002,
             "NACK_RECEIVE_TIMEOUT_AT_SENDER": 0xC003, "NACK_RECEIVE_REJECTED": 0xC004}


def classes_between(first: int, last: int) -> dict[str, int]:
    return {member.name: member.value for member in MessageClass if first <= member.value <= last}


@pytest.mark.spec("MQ-066")
def test_the_normal_and_positive_classes_have_their_values() -> None:
    assert classes_between(0, 0x7FFF) == ACKNOWLEDGEMENTS


@pytest.mark.spec("MQ-067")
def test_the_negative_classes_of_delivery_have_their_values() -> None:
    assert classes_between(0x8000, 0xBFFF) == DELIVERY


@pytest.mark.spec("MQ-068")
def test_the_negative_classes_of_receiving_have_their_values() -> None:
    assert classes_between(0xC000, 0xFFFF) == RECEIVING


@pytest.mark.spec("MQ-069")
def test_an_application_may_use_the_bits_of_the_mask_and_no_others() -> None:
    assert CUSTOM_CLASS_MASK == 0xE1FF
    for value in (0x0100, 0x0123, 0xE1FF, *MessageClass):
        assert is_message_class(value)
    for value in (0x0200, 0x0400, 0x0800, 0x1000, 0x1E00, 0x10000, -1):
        assert not is_message_class(value)
