"""The headers that carry message security, byte for byte."""

import pytest

from lior.errors import Malformed
from lior.wire.dtyp import encode_sid
from lior.wire.headers import DE, SecurityHeader
from lior.wire.optional_headers import Security, provider_info
from lior.wire.user_message import UserMessage
from tests.protocols.security.signed_packets import ALICE, alice, message, packet_of, put_signature, several
from tests.wire import second_user_message
from tests.wire.packets import FRAME_7, frame

AES_NAME = "Microsoft Enhanced RSA and AES Cryptographic Provider"


def secured(flags: int, *items: bytes) -> UserMessage:
    packet = packet_of(message())
    packet.security = Security(SecurityHeader(flags), *items)
    return packet


def where_the_header_is(packet: bytes, security: Security) -> int:
    at = packet.index(security.header.encode())
    assert packet.count(security.header.encode()) == 1
    return at


@pytest.mark.spec("QB-057")
def test_frame_7_carries_a_sid_and_nothing_else() -> None:
    data = frame(FRAME_7)
    packet = UserMessage.decode(data)
    assert packet.security is not None
    at = where_the_header_is(data, packet.security)
    assert data[at : at + 16].hex() == "01001c00000000000000000000000000"
    assert len(packet.security.sender_id) == 28
    assert not (packet.security.signature or packet.security.encryption_key or packet.security.sender_cert)
    with pytest.raises(Malformed):
        UserMessage.decode(data[: at + 2] + bytes(14) + data[at + 16 :])


@pytest.mark.spec("QB-059", "QB-057")
def test_items_of_odd_sizes_begin_at_multiples_of_four_and_their_sizes_are_not_believed() -> None:
    packet = secured(1 | DE, encode_sid(ALICE), b"\x05" * 5, b"\x07" * 7, b"\x0b" * 11)
    data = packet.encode()
    assert packet.security is not None
    at = where_the_header_is(data, packet.security)
    assert data[at : at + 16].hex() == "41001c00050007000b00000000000000"
    sid_end = at + 16 + 28
    assert data[sid_end : sid_end + 8] == b"\x05" * 5 + bytes(3)
    assert data[sid_end + 8 : sid_end + 16] == b"\x07" * 7 + bytes(1)
    assert data[sid_end + 16 : sid_end + 28] == b"\x0b" * 11 + bytes(1)
    assert second_user_message.decode(data)["security"][2:5] == (b"\x05" * 5, b"\x07" * 7, b"\x0b" * 11)
    for offset, size in ((8, 0xFFFFFFFF), (8, 0x10000), (12, 0xFFFFFFFF), (2, 0xFFFF), (2, 27), (2, 0)):
        width = 4 if offset in (8, 12) else 2
        bent = data[: at + offset] + size.to_bytes(4, "little")[:width] + data[at + offset + width :]
        with pytest.raises(Malformed):
            UserMessage.decode(bent)


@pytest.mark.spec("QB-060")
def test_provider_info_counts_where_de_is_clear_and_a_signature_needs_one_of_the_two() -> None:
    info = provider_info(0x18, AES_NAME)
    assert len(info) == 4 + 2 * (len(AES_NAME) + 1)
    data = secured(1, encode_sid(ALICE), b"", b"signature", b"certificate", info).encode()
    security = UserMessage.decode(data).security
    assert security is not None
    assert security.provider == (0x18, AES_NAME)
    assert second_user_message.decode(data)["security"][6][0] == 0x18
    default = UserMessage.decode(secured(1 | DE, encode_sid(ALICE), b"", b"signature").encode()).security
    assert default is not None
    assert default.provider is None
    with pytest.raises(Malformed):
        UserMessage.decode(secured(1, encode_sid(ALICE), b"", b"signature").encode())


@pytest.mark.spec("QB-065")
def test_the_header_of_a_signature_for_several_destinations_is_there_without_a_signature_too() -> None:
    packet = packet_of(several())
    assert packet.encode().endswith(bytes.fromhex("5e01000000000000"))
    put_signature(packet, b"s" * 128, alice(), 0x800E, listed=True)
    data = packet.encode()
    assert data.endswith(bytes.fromhex("5e01000080000000") + b"s" * 128)
    again = UserMessage.decode(data)
    assert again.multi_queue is not None
    assert again.multi_queue.signature == b"s" * 128
