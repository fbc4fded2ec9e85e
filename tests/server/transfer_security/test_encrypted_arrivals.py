"""Encrypted bodies on arrival: providers, keys and their cache, and one answer for everything that is wrong."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lior.message import Message, MessageSecurity
from lior.protocols.security.encryption import ADVANCED, BASE, ENHANCED, PROVIDERS
from lior.queues.definition import QueuePrivacy
from lior.server.transfer_security import SecurityPolicy
from lior.wire.message_packet import from_user_message
from lior.wire.user_message import UserMessage
from tests.protocols.security import second_security as second
from tests.protocols.security.signed_packets import (
    ALICE,
    SENDER,
    alice,
    arrived,
    key_of,
    message,
    packet_of,
    pem_of,
    put_signature,
)
from tests.server.transfer_security.desk import Desk, encrypted

DENIED, BAD_SIGNATURE, BAD_ENCRYPTION, UNSUPPORTED = 0x8004, 0x8006, 0x8007, 0x800B
AES_128, AES_192, AES_256, RC2, RC4 = 0x660E, 0x660F, 0x6610, 0x6602, 0x6801
OLD = SecurityPolicy(allow_rc2=True, allow_rc4=True, allow_40_bit_keys=True, base_key_bits=1024)
KINDS = [(5, AES_128, 16), (5, AES_192, 24), (5, AES_256, 32), (3, RC2, 16), (3, RC4, 16), (1, RC2, 5), (1, RC4, 5)]
KEY = bytes(range(1, 33))


@pytest.mark.spec("QB-164", "QB-165", "QB-047", "QB-049", "MQ-105", "MQ-102")
@pytest.mark.parametrize(("level", "algorithm", "length"), KINDS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 1000])
def test_reads_what_a_second_implementation_encrypted(level: int, algorithm: int, length: int, size: int) -> None:
    desk = Desk(policy=OLD)
    body = bytes(range(250)) * 4
    checked = desk.check(encrypted(desk, body[:size], level=level, algorithm=algorithm, key=KEY[:length]), desk.queue())
    assert (checked.refused, checked.body) == (0, body[:size])


@pytest.mark.spec("QB-160")
def test_a_message_that_was_signed_and_then_encrypted_arrives_authenticated() -> None:
    desk = Desk()
    desk.register()
    packet = packet_of(message(body=b"signed in clear"))
    signature = second.signed(alice().pem, 0x800E, second.signed_bytes(packet.packet, 3))
    put_signature(packet, signature, alice(), 0x800E)
    checked = desk.check(encrypted(desk, packet=packet), desk.queue())
    assert (checked.refused, checked.authentication_level, checked.caller.sid) == (0, 3, ALICE)
    assert checked.body == b"signed in clear"
    packet = packet_of(message(body=b"signed in clear"))
    put_signature(packet, signature, alice(), 0x800E)
    packet.body = b"another clear body"
    assert desk.check(encrypted(desk, packet=packet), desk.queue("r")).refused == BAD_SIGNATURE


def test_what_was_found_is_written_into_the_message() -> None:
    desk = Desk()
    packet = encrypted(desk, b"clear")
    received = from_user_message(packet, queue_manager=SENDER)
    assert received.body != b"clear"
    desk.check(packet, desk.queue()).settle(received)
    assert received.body == b"clear"
    assert received.security is not None
    assert (received.security.symmetric_key, received.security.privacy_level) == (b"", 5)
    claimed = Message(security=MessageSecurity(authentication_level=3))
    desk.check(packet_of(message()), desk.queue("r")).settle(claimed)
    assert claimed.security is not None
    assert claimed.security.authentication_level == 0


Bend = Callable[[UserMessage], None]


def privacy(level: int) -> Bend:
    def bend(packet: UserMessage) -> None:
        packet.properties.privacy_level = level

    return bend


def algorithm(number: int) -> Bend:
    def bend(packet: UserMessage) -> None:
        packet.properties.encryption_algorithm = number

    return bend


def blob(change: Callable[[bytes], bytes]) -> Bend:
    def bend(packet: UserMessage) -> None:
        assert packet.security is not None
        packet.security.encryption_key = change(packet.security.encryption_key)

    return bend


def body(change: Callable[[bytes], bytes]) -> Bend:
    def bend(packet: UserMessage) -> None:
        packet.body = change(bytes(packet.body))
        packet.properties.message_size = len(packet.body)

    return bend


def another_key(_: bytes) -> bytes:
    return second.make_blob(AES_256, KEY, pem_of(key_of(2048, 9)))


BENDS: dict[str, Bend] = {
    "privacy level 0": privacy(0), "privacy level 2": privacy(2), "privacy level 7": privacy(7),
    "AES under a level for RC4": privacy(3), "level for 40 bits": privacy(1),
    "algorithm 0": algorithm(0), "algorithm 0x6601": algorithm(0x6601), "RC4 under a level for AES": algorithm(RC4),
    "another algorithm than in the blob": algorithm(AES_128),
    "no blob": blob(lambda data: b""), "cut blob": blob(lambda data: data[:-1]), "long blob": blob(lambda d: d + b"x"),
    "bent blob": blob(lambda data: data[:-1] + bytes([data[-1] ^ 1])), "blob of zeros": blob(lambda d: bytes(len(d))),
    "blob for another key": blob(another_key),
    "short key": blob(lambda data: second.make_blob(AES_256, KEY[:31], own_pem())),
    "empty body": body(lambda data: b""), "cut body": body(lambda data: data[:-1]),
    "half a block too many": body(lambda data: data + bytes(8)),
}
_own: list[bytes] = []


def own_pem() -> bytes:
    return _own[-1]


@pytest.mark.spec("QB-164", "QB-165", "QB-032", "QB-047", "QB-049", "MQ-105", "MQ-102")
@pytest.mark.parametrize("name", BENDS)
def test_everything_that_is_wrong_with_an_encrypted_body_has_one_answer(name: str) -> None:
    desk = Desk()
    _own.append(pem_of(desk.files.keys.make(ADVANCED)))
    packet = encrypted(desk, b"secret", key=KEY)
    queue = desk.queue()
    assert desk.check(arrived(packet), queue).refused == 0
    BENDS[name](packet)
    checked = desk.check(arrived(packet), queue)
    assert (checked.refused, checked.body) == (BAD_ENCRYPTION, None)


@pytest.mark.spec("MQ-106", "QB-047")
@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize("algorithm", [AES_128, AES_192, AES_256, RC2, RC4])
def test_an_algorithm_goes_with_the_levels_whose_provider_has_it(level: int, algorithm: int) -> None:
    length = {AES_128: 16, AES_192: 24, AES_256: 32}.get(algorithm, 5 if level == 1 else 16)
    desk = Desk(policy=OLD)
    packet = encrypted(desk, b"secret", level=level, algorithm=algorithm, key=KEY[:length])
    fits = (level == 5) == (algorithm in (AES_128, AES_192, AES_256))
    checked = desk.check(packet, desk.queue())
    assert (checked.refused, checked.body) == ((0, b"secret") if fits else (BAD_ENCRYPTION, None))


@pytest.mark.spec("QB-165")
@pytest.mark.parametrize("size", [1, 15, 17])
def test_a_body_that_is_no_multiple_of_the_block_is_refused(size: int) -> None:
    desk = Desk()
    packet = encrypted(desk, b"secret", key=KEY)
    packet.body = bytes(size)
    packet.properties.message_size = size
    assert desk.check(arrived(packet), desk.queue()).refused == BAD_ENCRYPTION


@pytest.mark.spec("QB-164", "QB-090", "QB-116")
def test_the_second_message_with_the_same_blob_does_no_rsa_and_after_ten_minutes_one_does() -> None:
    desk = Desk()
    queue, packet = desk.queue(), encrypted(desk, key=KEY)
    drawn = []
    for now in (0.0, 1.0, 599.0, 600.5, 601.0, 1201.0):
        desk.now = now
        assert desk.check(arrived(packet), queue).refused == 0
        drawn.append(desk.drawn)  # a substitute key is drawn whenever RSA is done
    assert drawn == [1, 1, 1, 2, 2, 3]


@pytest.mark.spec("QB-164")
def test_a_key_is_remembered_for_its_sender_blob_algorithm_and_provider_only() -> None:
    desk = Desk()
    queue, packet = desk.queue(), encrypted(desk, key=KEY)
    assert desk.check(arrived(packet), queue).refused == 0
    packet.user.source_queue_manager = b"\7" * 16
    assert desk.check(arrived(packet), queue).refused == 0
    assert desk.drawn == 2
    packet.properties.encryption_algorithm = AES_128
    assert desk.check(arrived(packet), queue).refused == BAD_ENCRYPTION
    assert desk.drawn == 3


@pytest.mark.spec("QB-164")
def test_a_blob_that_is_none_is_remembered_too_so_that_the_second_try_takes_as_long_as_a_good_one() -> None:
    desk = Desk()
    queue, packet = desk.queue(), encrypted(desk, key=KEY)
    assert packet.security is not None
    packet.security.encryption_key = packet.security.encryption_key[:-1] + b"\0"
    for _ in range(3):
        assert desk.check(arrived(packet), queue).refused == BAD_ENCRYPTION
    assert desk.drawn == 1


@pytest.mark.spec("QB-090")
def test_the_cache_of_received_keys_is_bounded() -> None:
    desk = Desk(policy=SecurityPolicy(receive_key_cache_size=4))
    queue = desk.queue()
    packet = encrypted(desk, key=KEY)
    for number in range(50):
        packet.user.source_queue_manager = number.to_bytes(16, "little")
        assert desk.check(arrived(packet), queue).refused == 0
        assert len(desk.guard._received_keys) <= 4


# ---- what is switched off -------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-165", "QB-047")
@pytest.mark.parametrize(("level", "cipher", "length"), KINDS[3:])
def test_old_ciphers_are_refused_until_they_are_allowed(level: int, cipher: int, length: int) -> None:
    desk = Desk(policy=OLD)
    packet = encrypted(desk, level=level, algorithm=cipher, key=KEY[:length])
    assert desk.check(arrived(packet), desk.queue()).refused == 0
    strict = Desk()
    strict.files.keys.make(ADVANCED)
    assert strict.check(arrived(packet), strict.queue()).refused == BAD_ENCRYPTION


@pytest.mark.spec("QB-165", "QB-089")
@pytest.mark.parametrize("cipher", [RC2, RC4])
def test_forty_bits_are_refused_even_where_their_cipher_is_allowed(cipher: int) -> None:
    lenient = Desk(policy=OLD)
    own = lenient.files.keys.make(ENHANCED)
    short = encrypted(lenient, level=3, algorithm=cipher, key=KEY[:5] + bytes(11))
    full = encrypted(lenient, level=3, algorithm=cipher, key=KEY[:16])
    strict = Desk(policy=SecurityPolicy(allow_rc2=True, allow_rc4=True))
    strict.files.keys._keys[ENHANCED] = own
    for packet, lenient_class, strict_class in ((short, 0, BAD_ENCRYPTION), (full, 0, 0)):
        assert lenient.check(arrived(packet), lenient.queue(f"q{len(lenient.engine.events)}")).refused == lenient_class
        assert strict.check(arrived(packet), strict.queue(f"q{len(strict.engine.events)}")).refused == strict_class
    base = encrypted(lenient, level=1, algorithm=cipher, key=KEY[:5])
    assert strict.check(arrived(base), strict.queue()).refused == BAD_ENCRYPTION


def test_without_a_key_for_the_provider_the_class_says_so() -> None:
    desk, stranger = Desk(), Desk()
    assert stranger.check(encrypted(desk), stranger.queue()).refused == UNSUPPORTED
    assert stranger.files.keys.public(make=False) == ()


# ---- what the queue and the list say --------------------------------------------------------------------------------


@pytest.mark.spec("QB-167", "MQ-161")
@pytest.mark.parametrize(("privacy", "clear", "secret"), [
    (QueuePrivacy.NONE, 0, BAD_ENCRYPTION), (QueuePrivacy.OPTIONAL, 0, 0), (QueuePrivacy.BODY, BAD_ENCRYPTION, 0)])
def test_the_privacy_of_a_queue_governs_its_bodies(privacy: QueuePrivacy, clear: int, secret: int) -> None:
    desk = Desk()
    queue = desk.queue(privacy_level=privacy.value)
    assert desk.check(packet_of(message()), queue).refused == clear
    assert desk.check(encrypted(desk), queue).refused == secret


@pytest.mark.spec("QB-167")
def test_an_encrypted_body_without_a_signature_is_not_authenticated() -> None:
    desk = Desk()
    checked = desk.check(encrypted(desk), desk.queue(authentication=True))
    assert (checked.refused, checked.body) == (BAD_SIGNATURE, None)


@settings(deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=64), st.sampled_from([1, 3, 5]),
       st.sampled_from([AES_128, AES_192, AES_256, RC2, RC4, 0]))
def test_no_blob_and_no_body_raise(blob: bytes, data: bytes, level: int, cipher: int) -> None:
    desk = Desk(policy=OLD)
    packet = encrypted(desk, level=5, key=KEY, blob=blob)
    desk.files.keys.make(PROVIDERS[level])
    packet.body, packet.properties.message_size = data, len(data)
    packet.properties.privacy_level, packet.properties.encryption_algorithm = level, cipher
    assert packet.security is not None
    assert desk.check(arrived(packet), desk.queue()).refused == BAD_ENCRYPTION


def test_every_provider_has_a_key_of_its_own() -> None:
    desk = Desk(policy=OLD)
    assert len({pem_of(desk.files.keys.make(provider)) for provider in (BASE, ENHANCED, ADVANCED)}) == 3
