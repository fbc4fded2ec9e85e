"""What leaves: signed before it is encrypted, encrypted for known peers, never in clear when it was to be secret."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lior.client.signing import Identity
from lior.errors import LiorError
from lior.message import Message, MessageSecurity, ObjectId
from lior.server.transfer_security import SecurityPolicy
from lior.testing.engine import IDENTIFIER
from lior.wire.headers import DE, EB
from lior.wire.message_packet import to_packet, to_user_message
from lior.wire.structures import public_keys_from_bytes
from lior.wire.user_message import UserMessage
from tests.protocols.security import second_security as second
from tests.protocols.security.signed_packets import ALICE, SENDER, alice, message, pem_of
from tests.server.transfer_security.desk import PEER, Desk, encrypted
from tests.wire import second_user_message

AES_128, AES_256, RC2, RC4 = 0x660E, 0x6610, 0x6602, 0x6801
OLD = SecurityPolicy(allow_rc2=True, allow_rc4=True, allow_40_bit_keys=True)
PRIVATE = rf"PRIVATE={PEER}\00000008"
DIRECT = r"DIRECT=TCP:10.0.0.2\private$\q"


def secret(level: int = 5, **fields: Any) -> Message:
    return message(**{"destination_queue": PRIVATE, "body": b"a secret", "administration_queue": "",
                      "response_queue": "", "security": MessageSecurity(privacy_level=level)} | fields)


def desks(policy: SecurityPolicy | None = None) -> tuple[Desk, Desk]:
    """A sender that knows the receiver's keys."""
    sender, receiver = Desk(policy=policy), Desk(policy=policy)
    sender.files.peers.put(PEER, receiver.files.keys.exported())
    return sender, receiver


def left(desk: Desk, sent: Message, recipient: UUID = PEER) -> bytes:
    packet = to_user_message(sent)
    desk.protect(packet, sent, recipient)
    return packet.encode()


def refused(desk: Desk, sent: Message, code: int, recipient: UUID = PEER) -> None:
    packet = to_user_message(sent)
    with pytest.raises(LiorError) as caught:
        desk.protect(packet, sent, recipient)
    assert caught.value.code == code


# ---- encryption -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-192", "QB-190")
def test_a_second_implementation_reads_the_packet_that_leaves() -> None:
    sender, receiver = desks()
    packet = left(sender, secret())
    read = second_user_message.decode(packet)
    flags, sender_id, blob, signature, certificate, _, provider = read["security"]
    assert (sender_id, signature, certificate) == (b"", b"", b"")
    assert flags & EB
    assert not flags & DE
    assert read["privacy_level"] == 5
    assert read["encryption_algorithm"] == AES_256
    assert provider[0] == 0x18
    assert "".join(map(chr, provider[1])) == "Microsoft Enhanced RSA and AES Cryptographic Provider"
    from lior.protocols.security.encryption import ADVANCED

    own = receiver.files.keys.get(ADVANCED)
    assert own is not None
    inside, key = second.open_blob(blob, pem_of(own))
    assert inside == AES_256
    assert second.deciphered(read["body"], AES_256, key) == b"a secret"
    assert read["message_size"] == len(read["body"]) == 16
    assert b"a secret" not in packet


@pytest.mark.spec("QB-192", "QB-191", "QB-089")
@pytest.mark.parametrize(("level", "policy", "expected"), [
    (5, SecurityPolicy(), (5, AES_256)), (1, SecurityPolicy(), (5, AES_256)),
    (5, SecurityPolicy(preferred_advanced_algorithm=AES_128), (5, AES_128)), (3, OLD, (5, AES_256))])
def test_the_privacy_level_on_the_wire_is_that_of_the_provider_used(
    level: int, policy: SecurityPolicy, expected: tuple[int, int]
) -> None:
    sender, receiver = desks(policy)
    packet = UserMessage.decode(left(sender, secret(level)))
    assert (packet.properties.privacy_level, packet.properties.encryption_algorithm) == expected
    assert receiver.check(packet, receiver.queue()).body == b"a secret"


@pytest.mark.spec("QB-192", "QB-191", "QB-089")
@pytest.mark.parametrize(("kept", "changes", "expected", "length"), [
    (2, {}, (3, RC4), 16), (2, {"preferred_enhanced_algorithm": RC2}, (3, RC2), 16),
    (2, {"preferred_enhanced_algorithm": RC2, "send_enhanced_rc2_using_40_bit_keys": True}, (3, RC2), 16),
    (1, {}, (1, RC4), 5), (1, {"preferred_base_algorithm": RC2}, (1, RC2), 5)])
def test_older_peers_get_what_they_can_read_where_it_is_allowed(
    kept: int, changes: dict[str, Any], expected: tuple[int, int], length: int
) -> None:
    from lior.protocols.security.encryption import PROVIDERS
    from lior.wire.structures import public_keys_to_bytes

    sender = Desk(policy=SecurityPolicy(allow_rc2=True, allow_rc4=True, allow_40_bit_keys=True, **changes))
    receiver = Desk(policy=OLD)
    keys = public_keys_from_bytes(receiver.files.keys.exported())
    sender.files.peers.put(PEER, public_keys_to_bytes(keys[:kept]))
    packet = UserMessage.decode(left(sender, secret(1)))
    assert (packet.properties.privacy_level, packet.properties.encryption_algorithm) == expected
    assert packet.security is not None
    own = receiver.files.keys.get(PROVIDERS[expected[0]])
    assert own is not None
    _, key = second.open_blob(packet.security.encryption_key, pem_of(own))
    assert len(key) == length
    assert (key[5:] == bytes(11)) == ("send_enhanced_rc2_using_40_bit_keys" in changes)
    assert receiver.check(packet, receiver.queue()).body == b"a secret"


@pytest.mark.spec("QB-090", "QB-117", "QB-192")
def test_messages_share_a_session_key_for_ten_minutes() -> None:
    sender, _ = desks()
    blobs = []
    for now in (0.0, 1.0, 599.0, 661.0, 662.0):
        sender.now = now
        security = UserMessage.decode(left(sender, secret())).security
        assert security is not None
        blobs.append(security.encryption_key)
    assert blobs[0] == blobs[1] == blobs[2] != blobs[3] == blobs[4]


def test_a_peer_whose_key_changed_gets_a_new_session_key() -> None:
    sender, receiver = desks()
    left(sender, secret())
    other = Desk()
    sender.files.peers.put(PEER, other.files.keys.exported())
    packet = UserMessage.decode(left(sender, secret()))
    assert other.check(packet, other.queue()).body == b"a secret"
    assert receiver.check(UserMessage.decode(packet.packet), receiver.queue()).refused == 0x8007


@pytest.mark.spec("QB-190")
def test_nothing_is_encrypted_for_a_direct_name() -> None:
    sender, receiver = desks()
    refused(sender, secret(destination_queue=DIRECT), code("UNSUPPORTED_FORMATNAME_OPERATION"))
    extended = Desk(policy=SecurityPolicy(encrypt_direct_names=True))
    refused(extended, secret(destination_queue=DIRECT), code("PUBLIC_KEY_NOT_FOUND"))
    extended.files.peers.put(PEER, receiver.files.keys.exported())
    packet = UserMessage.decode(left(extended, secret(destination_queue=DIRECT)))
    assert receiver.check(packet, receiver.queue()).body == b"a secret"


def code(symbol: str) -> int:
    from lior.errors import HRESULTS

    return HRESULTS[f"MQ_ERROR_{symbol}"]


@pytest.mark.spec("QB-190", "QB-193")
def test_without_the_recipients_keys_nothing_leaves() -> None:
    refused(Desk(), secret(), code("PUBLIC_KEY_NOT_FOUND"))
    with pytest.raises(LiorError):
        to_packet(secret())


@pytest.mark.spec("QB-190")
def test_the_destinations_key_is_used_and_not_that_of_the_router_on_the_way() -> None:
    sender, receiver = desks()
    router = Desk()
    sender.files.peers.put(SENDER, router.files.keys.exported())
    packet = UserMessage.decode(left(sender, secret(), recipient=SENDER))
    assert receiver.check(packet, receiver.queue()).body == b"a secret"


@pytest.mark.spec("QB-193")
@pytest.mark.parametrize("bad", [b"", b"garbage", b"\x08\0\0\0\0\0\0\0", bytes(500)])
def test_a_broken_key_file_keeps_the_message_here(tmp_path: Path, bad: bytes) -> None:
    sender = Desk(tmp_path)
    place = tmp_path / "security" / "peers"
    place.mkdir(parents=True)
    (place / f"{str(PEER).upper()}.keys").write_bytes(bad)
    sent = secret()
    packet = to_user_message(sent)
    with pytest.raises(LiorError):
        sender.protect(packet, sent)
    assert packet.security is None or not packet.security.encryption_key


@pytest.mark.spec("QB-191")
def test_a_level_that_the_peer_has_no_key_for_is_an_error() -> None:
    from lior.wire.structures import public_keys_to_bytes

    sender = Desk(policy=OLD)
    keys = public_keys_from_bytes(Desk(policy=OLD).files.keys.exported())
    sender.files.peers.put(PEER, public_keys_to_bytes(keys[:1]))
    for level in (3, 5, 2, 7):
        sent = secret(level)
        refused(sender, sent, code("PUBLIC_KEY_NOT_FOUND" if level in (2, 7) else "ENCRYPTION_PROVIDER_NOT_SUPPORTED"))


def test_the_stored_message_is_not_touched() -> None:
    sender, _ = desks()
    sent = secret()
    left(sender, sent)
    assert sent.body == b"a secret"
    assert sent.security == MessageSecurity(privacy_level=5)


def test_a_message_that_arrived_encrypted_is_encrypted_anew_when_it_is_sent_again() -> None:
    sender, receiver = desks()
    old = encrypted(Desk(), b"x")
    assert old.security is not None
    sent = secret(security=MessageSecurity(privacy_level=5, symmetric_key=old.security.encryption_key))
    packet = UserMessage.decode(left(sender, sent))
    assert receiver.check(packet, receiver.queue()).body == b"a secret"


def test_a_packet_on_its_way_from_somebody_else_is_passed_on_as_it_is() -> None:
    receiver = Desk()
    packet = encrypted(receiver, b"for the receiver")
    before = bytes(packet.body)
    Desk().protect(packet, secret(), PEER)
    assert bytes(packet.body) == before
    assert receiver.check(packet, receiver.queue()).body == b"for the receiver"


def test_a_plain_message_leaves_as_it_is() -> None:
    for security in (None, MessageSecurity()):
        sent = secret(security=security)
        assert left(Desk(), sent) == to_user_message(sent).encode()


# ---- signatures -----------------------------------------------------------------------------------------------------


def identity(**options: Any) -> Identity:
    return Identity(alice().certificate, alice().key, ALICE, **options)


def signed_message(destination: str = PRIVATE, **fields: Any) -> Message:
    sent = secret(**{"security": None, "destination_queue": destination,
                     "identifier": ObjectId(IDENTIFIER, 3)} | fields)
    identity().sign(sent, destination, queue_manager=IDENTIFIER, transactional=False)
    return sent


@pytest.mark.spec("QB-160", "QB-188", "QB-192")
def test_a_message_is_signed_before_it_is_encrypted() -> None:
    sender, receiver = desks()
    receiver.register()
    sent = signed_message()
    assert sent.security is not None
    sent.security.privacy_level = 5
    packet = left(sender, sent)
    read = second_user_message.decode(packet)
    data = second.signed_bytes(packet, 3, clear_body=b"a secret")
    assert second.verifies(read["security"][3], alice().certificate, 0x800E, data)
    checked = receiver.check(UserMessage.decode(packet), receiver.queue())
    assert (checked.refused, checked.authentication_level, checked.caller.sid) == (0, 3, ALICE)
    assert checked.body == b"a secret"


def test_a_message_that_asks_for_a_signature_and_has_none_stays_here() -> None:
    refused(Desk(), secret(security=MessageSecurity(authentication_level=3)), code("CERTIFICATE_NOT_PROVIDED"))


def test_a_message_that_was_changed_after_it_was_signed_stays_here() -> None:
    sent = signed_message()
    left(Desk(), sent)
    sent.label = "another"
    refused(Desk(), sent, code("FAIL_VERIFY_SIGNATURE_EX"))


def test_keys_of_other_sizes_are_published_and_used() -> None:
    for bits in (1024, 2048):
        sender, receiver = desks(SecurityPolicy(advanced_key_bits=bits))
        (key,) = public_keys_from_bytes(receiver.files.keys.exported())
        assert key.key.bit_length == bits
        packet = UserMessage.decode(left(sender, secret()))
        assert packet.security is not None
        assert len(packet.security.encryption_key) == 12 + bits // 8
        assert receiver.check(packet, receiver.queue()).body == b"a secret"
