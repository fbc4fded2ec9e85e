"""Packets to start from, and what both decoders must say about one."""

from typing import Any

import pytest

from lior.errors import Malformed
from lior.wire.headers import (
    BaseHeader,
    MessagePropertiesHeader,
    SecurityHeader,
    SessionHeader,
    TransactionHeader,
    UserHeader,
)
from lior.wire.optional_headers import Debug, MultiQueueFormat, Security, Soap, Transaction, provider_info
from lior.wire.queue_names import NameElement, PacketName
from lior.wire.user_message import UserMessage
from tests.wire import second_user_message
from tests.wire.packets import plain

G = bytes.fromhex("00112233445566778899AABBCCDDEEFF")
SID = bytes.fromhex("01020000 00000005 20000000 20020000")  # S-1-5-32-544
SMALLEST = bytes.fromhex(
    "10 00 0300 4C494F52 78000000 FFFFFFFF" + "00" * 32 + "FFFFFFFF 00000000 01000000 00002000" + "00" * 56)


def agreed(packet: bytes) -> UserMessage:
    """The message, which both decoders read alike and which writes back to the same bytes."""
    message = UserMessage.decode(packet)
    assert plain(message) == second_user_message.decode(packet)
    assert message.packet == packet
    assert message.encode() == packet
    return message


def refused(packet: bytes, match: str | None = None) -> None:
    with pytest.raises(Malformed, match=match) as caught:
        UserMessage.decode(packet)
    assert caught.value.where and caught.value.what
    with pytest.raises(second_user_message.Refused):
        second_user_message.decode(packet)


def patched(packet: bytes, at: int, text: str) -> bytes:
    data = bytes.fromhex(text)
    return packet[:at] + data + packet[at + len(data) :]


def built(**parts: Any) -> UserMessage:
    user = UserHeader(G, bytes(16), flags=1 << 5)
    return UserMessage(BaseHeader(), user, MessagePropertiesHeader(), **parts)


def everything(**parts: Any) -> UserMessage:
    """A packet with every optional header, each with every optional field."""
    return built(**{
        "body": b"body", "label": "label\0".encode("utf-16-le"), "extension": b"ext",
        "destination_queue": PacketName(7, text=r"OS:ab\q"), "admin_queue": PacketName(6, G, 5),
        "response_queue": PacketName(5, G), "connector_type": G,
        "transaction": Transaction(TransactionHeader(0x1E, 7, 9, 8), G),
        "security": Security(SecurityHeader(1), SID, b"key", b"signature", b"cert", provider_info(1, "CSP")),
        "debug": Debug(queue_identifier=G), "soap": Soap.of("head", "tail"),
        "multi_queue": MultiQueueFormat.of([NameElement(3, text="OS:x")], [NameElement(2, G, 1)], [], b"signature"),
        "session": SessionHeader(1, 2, 3, 4, 5, 6, 7)} | parts)
