"""Session keys and bodies, compared with a second implementation in both directions."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import LiorError
from lior.protocols.security.encryption import (
    ADVANCED,
    BASE,
    ENHANCED,
    PROVIDERS,
    Provider,
    algorithm_fits,
    choose,
    ciphertext,
    decrypt_body,
    encrypt_body,
    has_40_bits,
    new_key,
    public_key_blob,
    unwrap_key,
    usable_key,
    wrap_key,
)
from lior.protocols.security.policy import SecurityPolicy
from lior.wire.structures import MqDsPublicKey, RsaPublicKey
from tests.protocols.security import second_security as second
from tests.protocols.security.signed_packets import key_of, message, packet_of, pem_of

AES_128, AES_192, AES_256, RC2, RC4 = 0x660E, 0x660F, 0x6610, 0x6602, 0x6801
OLD = SecurityPolicy(allow_rc2=True, allow_rc4=True, allow_40_bit_keys=True)
ENTROPY = bytes(range(100, 132))
SUBSTITUTE = bytes(range(32))
KINDS: list[tuple[Provider, int, int]] = [
    (ADVANCED, AES_128, 128), (ADVANCED, AES_192, 192), (ADVANCED, AES_256, 256), (ENHANCED, RC2, 128),
    (ENHANCED, RC2, 40), (ENHANCED, RC4, 128), (BASE, RC2, 40), (BASE, RC4, 40)]


def published(provider: Provider, bits: int = 1024) -> MqDsPublicKey:
    numbers = key_of(bits).public_key().public_numbers()
    return MqDsPublicKey(provider.type, provider.name, RsaPublicKey(numbers.n, numbers.e).to_bytes())


def code_of(caught: pytest.ExceptionInfo[LiorError]) -> int:
    return caught.value.code


@pytest.mark.spec("QB-192", "QB-049", "MQ-107")
@pytest.mark.parametrize(("provider", "algorithm", "bits"), KINDS)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 15, 16, 17, 1000])
def test_a_second_implementation_reads_our_bodies_and_we_its(
    provider: Provider, algorithm: int, bits: int, size: int
) -> None:
    key, body = new_key(algorithm, bits, provider, ENTROPY), bytes(range(256)) * 4
    data = encrypt_body(body[:size], algorithm, key)
    assert second.deciphered(data, algorithm, key) == body[:size]
    assert data == second.enciphered(body[:size], algorithm, key)
    assert decrypt_body(second.enciphered(body[:size], algorithm, key), algorithm, key) == body[:size]


@pytest.mark.spec("MQ-107", "QB-165")
def test_a_whole_last_block_gets_another_one_and_nothing_becomes_one_block() -> None:
    for algorithm, block in ((AES_256, 16), (RC2, 8)):
        key = bytes(32 if block == 16 else 16)
        assert len(encrypt_body(bytes(block), algorithm, key)) == 2 * block
        assert len(encrypt_body(b"", algorithm, key)) == block
        assert decrypt_body(encrypt_body(b"", algorithm, key), algorithm, key) == b""


@pytest.mark.spec("QB-165", "QB-049")
@pytest.mark.parametrize("algorithm", [AES_128, AES_192, AES_256, RC2])
def test_a_wrong_length_or_padding_is_no_body(algorithm: int) -> None:
    key = bytes({AES_128: 16, AES_192: 24, AES_256: 32, RC2: 16}[algorithm])
    good = encrypt_body(b"fifteen bytes..", algorithm, key)
    for bad in (b"", good[:-1], good + b"x", b"x" * 15, second.cipher(algorithm, key).encrypt(bytes(16)),
                second.cipher(algorithm, key).encrypt(b"\x11" * 16)):
        assert decrypt_body(bad, algorithm, key) is None


@pytest.mark.spec("QB-032")
@pytest.mark.parametrize("bits", [512, 1024, 2048])
@pytest.mark.parametrize(("provider", "algorithm", "key_bits"), KINDS)
def test_a_simpleblob_is_as_long_as_the_key_and_a_second_implementation_opens_it(
    bits: int, provider: Provider, algorithm: int, key_bits: int
) -> None:
    key = new_key(algorithm, key_bits, provider, ENTROPY)
    blob = wrap_key(key, algorithm, key_of(bits).public_key())
    assert len(blob) == 12 + bits // 8
    assert second.open_blob(blob, pem_of(key_of(bits))) == (algorithm, key)
    assert unwrap_key(blob, algorithm, provider, key_of(bits), SUBSTITUTE) == (key, True)
    theirs = second.make_blob(algorithm, key, pem_of(key_of(bits)))
    assert unwrap_key(theirs, algorithm, provider, key_of(bits), SUBSTITUTE) == (key, True)


def bent(key: bytes = ENTROPY, algorithm: int = AES_256, **options: Any) -> bytes:
    return second.make_blob(algorithm, key, pem_of(key_of(1024)), **options)


BLOBS: dict[str, bytes] = {
    "empty": b"", "cut": bent()[:-1], "too long": bent() + b"\0", "header only": bent()[:12],
    "another type": b"\6" + bent()[1:], "another version": b"\1\3" + bent()[2:],
    "another algorithm inside": bent(algorithm=AES_128), "not for key exchange": bent()[:8] + bytes(4) + bent()[12:],
    "a short key": bent(ENTROPY[:31]), "a long key": bent(ENTROPY + b"x"), "no key": bent(b""),
    "padding of a signature": bent(kind=b"\0\1"), "padding that begins with 1": bent(kind=b"\1\2"),
    "zeros": bent()[:12] + bytes(128), "larger than the modulus": bent()[:12] + b"\xff" * 128,
    "of a longer key": wrap_key(ENTROPY, AES_256, key_of(2048).public_key()),
    "of another key": wrap_key(ENTROPY, AES_256, key_of(1024, 1).public_key()),
}


@pytest.mark.spec("QB-164", "QB-032")
@pytest.mark.parametrize("name", BLOBS)
def test_a_blob_that_is_none_gives_the_substitute_and_never_an_error(name: str) -> None:
    key, good = unwrap_key(BLOBS[name], AES_256, ADVANCED, key_of(1024), SUBSTITUTE)
    if name in ("of another key", "padding of a signature", "padding that begins with 1"):
        assert len(key) == 32  # RSA says nothing: OpenSSL may have made the key up, or we
        assert key != ENTROPY
    else:
        assert (key, good) == (SUBSTITUTE, False)


@pytest.mark.parametrize(("provider", "algorithm", "length", "fits"), [
    (ADVANCED, AES_128, 16, True), (ADVANCED, AES_128, 32, False), (ADVANCED, AES_192, 24, True),
    (ENHANCED, RC4, 16, True), (ENHANCED, RC4, 5, False), (ENHANCED, RC2, 5, False), (BASE, RC4, 5, True),
    (BASE, RC2, 5, True), (BASE, RC4, 16, False), (BASE, RC4, 7, False)])
@pytest.mark.spec("QB-164")
def test_a_session_key_has_the_length_of_its_algorithm(
    provider: Provider, algorithm: int, length: int, fits: bool
) -> None:
    blob = second.make_blob(algorithm, ENTROPY[:length], pem_of(key_of(1024)))
    key, good = unwrap_key(blob, algorithm, provider, key_of(1024), SUBSTITUTE)
    assert good == fits
    assert (key == ENTROPY[:length]) == fits


def test_keys_of_40_bits_are_recognised() -> None:
    assert has_40_bits(b"12345")
    assert has_40_bits(b"12345" + bytes(11))
    assert not has_40_bits(b"123456" + bytes(10))
    assert not has_40_bits(bytes(32))
    assert new_key(RC2, 40, ENHANCED, ENTROPY) == ENTROPY[:5] + bytes(11)
    assert new_key(RC4, 40, BASE, ENTROPY) == ENTROPY[:5]


@given(st.binary(max_size=300), st.sampled_from(KINDS))
def test_no_bytes_make_the_unwrapping_raise(blob: bytes, kind: tuple[Provider, int, int]) -> None:
    provider, algorithm, _ = kind
    key, good = unwrap_key(blob, algorithm, provider, key_of(1024), SUBSTITUTE)
    assert not good
    decrypt_body(blob, algorithm, key)


# ---- what of the packet is encrypted --------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "allocated", "size", "expected"), [
    (AES_256, 32, 32, 32), (AES_256, 32, 17, 32), (AES_256, 32, 16, 32), (AES_256, 48, 16, 16),
    (AES_256, 48, 0, 48), (AES_256, 16, 0, 16), (RC2, 16, 8, 16), (RC2, 24, 8, 8), (RC4, 20, 20, 20),
    (RC4, 20, 13, 13)])
def test_the_two_sizes_of_a_body_say_where_the_ciphertext_ends(
    algorithm: int, allocated: int, size: int, expected: int
) -> None:
    packet = packet_of(message(body=bytes(allocated)))
    packet.properties.message_size, packet.properties.encryption_algorithm = size, algorithm
    assert len(ciphertext(packet)) == expected


# ---- whose key, which cipher ----------------------------------------------------------------------------------------

EVERY = [published(BASE, 512), published(ENHANCED), published(ADVANCED)]


@pytest.mark.spec("QB-191", "QB-089", "QB-047")
@pytest.mark.parametrize(("wanted", "keys", "policy", "expected"), [
    (5, EVERY, SecurityPolicy(), (ADVANCED, AES_256, 256)),
    (1, EVERY, SecurityPolicy(), (ADVANCED, AES_256, 256)),
    (3, EVERY, SecurityPolicy(preferred_advanced_algorithm=AES_128), (ADVANCED, AES_128, 128)),
    (3, EVERY, SecurityPolicy(preferred_advanced_algorithm=AES_192), (ADVANCED, AES_192, 192)),
    (3, EVERY[:2], OLD, (ENHANCED, RC4, 128)),
    (1, EVERY[:2], OLD, (ENHANCED, RC4, 128)),
    (3, EVERY[:2], replace(OLD, preferred_enhanced_algorithm=RC2), (ENHANCED, RC2, 128)),
    (3, EVERY[:2], replace(OLD, preferred_enhanced_algorithm=RC2, send_enhanced_rc2_using_40_bit_keys=True),
     (ENHANCED, RC2, 40)),
    (3, EVERY[:2], replace(OLD, send_enhanced_rc2_using_40_bit_keys=True), (ENHANCED, RC4, 128)),
    (1, EVERY[:1], OLD, (BASE, RC4, 40)),
    (1, EVERY[:1], replace(OLD, preferred_base_algorithm=RC2), (BASE, RC2, 40)),
])
def test_the_strongest_provider_that_the_recipient_has_is_chosen(
    wanted: int, keys: list[MqDsPublicKey], policy: SecurityPolicy, expected: tuple[Provider, int, int]
) -> None:
    choice = choose(wanted, keys, policy)
    assert (choice.provider, choice.algorithm, choice.bits) == expected
    assert algorithm_fits(choice.provider, choice.algorithm)
    assert usable_key(choice.key).public_numbers().n == choice.key.modulus


@pytest.mark.spec("QB-191")
@pytest.mark.parametrize(("wanted", "keys", "policy"), [
    (5, EVERY[:2], OLD), (3, EVERY[:1], OLD), (1, [], OLD),
    (3, EVERY[:2], SecurityPolicy()),  # RC4 and RC2 are off
    (1, EVERY[:1], SecurityPolicy(allow_rc4=True)),  # so are keys of 40 bits
    (3, EVERY[:2], SecurityPolicy(allow_rc2=True, preferred_enhanced_algorithm=RC2,
                                  send_enhanced_rc2_using_40_bit_keys=True)),
])
def test_without_a_key_that_will_do_nothing_is_chosen(
    wanted: int, keys: list[MqDsPublicKey], policy: SecurityPolicy
) -> None:
    with pytest.raises(LiorError) as caught:
        choose(wanted, keys, policy)
    assert code_of(caught) == 0xC00E006B


@pytest.mark.spec("QB-193", "QB-031")
def test_a_published_key_becomes_a_blob_only_if_its_lengths_agree() -> None:
    key = published(ADVANCED)
    blob = public_key_blob(key).to_bytes()
    assert blob == key.key_blob
    assert blob[:8].hex() == "0602000000a40000"
    assert blob[8:12] == b"RSA1"
    assert int.from_bytes(blob[12:16], "little") == 1024 == 8 * (len(blob) - 20)
    assert int.from_bytes(blob[20:], "little") == key_of(1024).public_key().public_numbers().n
    for bad in (blob[:-1], blob + b"\0", blob[:12] + bytes(8) + blob[20:], b"", blob[:20]):
        with pytest.raises(LiorError):
            public_key_blob(MqDsPublicKey(ADVANCED.type, ADVANCED.name, bad))


def test_a_key_that_is_no_rsa_key_encrypts_nothing() -> None:
    for key in (RsaPublicKey(1 << 1023, 2, bit_length=1024), RsaPublicKey((1 << 16383) + 1, 3, bit_length=16384),
                RsaPublicKey(5, 3, bit_length=8)):
        with pytest.raises(LiorError):
            wrap_key(ENTROPY, AES_256, usable_key(key))


def test_levels_stand_for_providers() -> None:
    assert {level: provider.name for level, provider in PROVIDERS.items()} == {
        1: "Microsoft Base Cryptographic Provider v1.0", 3: "Microsoft Enhanced Cryptographic Provider v1.0",
        5: "Microsoft Enhanced RSA and AES Cryptographic Provider"}
