"""Encryption of bodies ([MS-MQQB] 2.4.2, 3.1.5.8.3, 3.1.7.1.5): session keys, their SIMPLEBLOBs, the ciphers.

Whatever is wrong with an encrypted body ends in one answer, None, and takes the same steps: a session key that
cannot be recovered is replaced by one that the caller made up, so that nothing tells a bad padding of RSA from a bad
body. The bytes of old ciphers come from cryptography's decrepit part.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, RC2
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from lior.errors import HRESULTS, LiorError, error_from_code
from lior.message import EncryptionAlgorithm, PrivacyLevel
from lior.protocols.security.policy import SecurityPolicy
from lior.wire.structures import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    PROV_RSA_AES,
    PROV_RSA_FULL,
    MqDsPublicKey,
    RsaPublicKey,
)
from lior.wire.user_message import UserMessage

BLOB_HEADER: Final = struct.Struct("<BBHII")
SIMPLEBLOB: Final = 1
CALG_RSA_KEYX: Final = 0x0000A400
_VERSION: Final = 2
SHORT_KEY: Final = 5  # 40 bits
LONG_KEY: Final = 16  # 128 bits
MAX_RECIPIENT_KEY_BITS: Final = 8192

_AES_KEYS: Final[dict[int, int]] = {
    EncryptionAlgorithm.AES_128: 16, EncryptionAlgorithm.AES_192: 24, EncryptionAlgorithm.AES_256: 32}
_BLOCKS: Final[dict[int, int]] = {**dict.fromkeys(_AES_KEYS, 16), EncryptionAlgorithm.RC2: 8}
_OLD: Final = (EncryptionAlgorithm.RC2.value, EncryptionAlgorithm.RC4.value)


class Provider(NamedTuple):
    """A cryptographic service provider of the documents, with the PrivacyLevel that stands for it."""

    privacy_level: int
    name: str
    type: int


BASE: Final = Provider(PrivacyLevel.BASE.value, BASE_PROVIDER, PROV_RSA_FULL)
ENHANCED: Final = Provider(PrivacyLevel.ENHANCED.value, ENHANCED_PROVIDER, PROV_RSA_FULL)
ADVANCED: Final = Provider(PrivacyLevel.ADVANCED.value, AES_PROVIDER, PROV_RSA_AES)
PROVIDERS: Final[dict[int, Provider]] = {provider.privacy_level: provider for provider in (BASE, ENHANCED, ADVANCED)}


def algorithm_fits(provider: Provider, algorithm: int) -> bool:
    """[MS-MQMQ] 2.2.19.3: AES with the provider that has it, RC2 and RC4 with the other two."""
    return algorithm in (_AES_KEYS if provider is ADVANCED else _OLD)


# ---- SIMPLEBLOB -----------------------------------------------------------------------------------------------------


def wrap_key(key: bytes, algorithm: int, recipient: rsa.RSAPublicKey) -> bytes:
    """The SIMPLEBLOB of a session key. It is as long as the recipient's key makes it: the 256 bytes that 2.4.2
    prints are those of a key of 2048 bits, while queue managers publish 512 and 1024."""
    try:
        encrypted = recipient.encrypt(key, padding.PKCS1v15())
    except (ValueError, UnsupportedAlgorithm):
        raise cannot_encrypt(f"a key of {recipient.key_size} bits cannot carry {len(key)} bytes") from None
    return BLOB_HEADER.pack(SIMPLEBLOB, _VERSION, 0, algorithm, CALG_RSA_KEYX) + encrypted[::-1]


def unwrap_key(blob: bytes, algorithm: int, provider: Provider, own: rsa.RSAPrivateKey,
               substitute: bytes) -> tuple[bytes, bool]:
    """The session key of a SIMPLEBLOB, and whether it is one; `substitute` (32 random bytes) takes the place of a
    key that is none, so that what follows is the same work."""
    size = (own.key_size + 7) // 8
    encrypted = blob[BLOB_HEADER.size :]
    header = BLOB_HEADER.pack(SIMPLEBLOB, _VERSION, 0, algorithm, CALG_RSA_KEYX)
    good = len(encrypted) == size and blob[: BLOB_HEADER.size] == header
    try:
        key = own.decrypt(encrypted[::-1] if good else bytes(size), padding.PKCS1v15())
    except (ValueError, UnsupportedAlgorithm):  # OpenSSL before 3.2 tells; later ones make a key up themselves
        key, good = b"", False
    if not good or not _key_fits(key, algorithm, provider):
        return substitute[: _AES_KEYS.get(algorithm, LONG_KEY)], False
    return key, True


def _key_fits(key: bytes, algorithm: int, provider: Provider) -> bool:
    if algorithm in _AES_KEYS:
        return len(key) == _AES_KEYS[algorithm]
    if provider is BASE:
        return len(key) == SHORT_KEY or has_40_bits(key)
    return len(key) == LONG_KEY


def has_40_bits(key: bytes) -> bool:
    """3.1.5.8.3: a key of 128 bits whose last 88 are zero."""
    return len(key) == SHORT_KEY or (len(key) == LONG_KEY and not any(key[SHORT_KEY:]))


def new_key(algorithm: int, bits: int, provider: Provider, entropy: bytes) -> bytes:
    """A session key made of `entropy` (32 random bytes); a short one of the enhanced provider is filled up with
    88 zero bits (3.1.7.1.5)."""
    key = entropy[: bits // 8]
    return key + bytes(LONG_KEY - len(key)) if provider is ENHANCED and algorithm in _OLD else key


# ---- bodies ---------------------------------------------------------------------------------------------------------


def effective_key(key: bytes, algorithm: int) -> bytes:
    """The key that the cipher gets: a 40-bit key of CryptoAPI's base provider is used with eleven zero bytes behind
    it, its "salt" by default. Nothing in [MS-MQQB] says so; to be confirmed with a message of Windows."""
    return key + bytes(LONG_KEY - len(key)) if algorithm in _OLD and len(key) < LONG_KEY else key


def _cipher(algorithm: int, key: bytes, encrypting: bool) -> CipherContext:
    key = effective_key(key, algorithm)
    if algorithm == EncryptionAlgorithm.RC4:
        stream: Cipher[None] = Cipher(ARC4(key), None)
        return stream.encryptor() if encrypting else stream.decryptor()
    block = _BLOCKS[algorithm]
    cipher = Cipher(RC2(key) if algorithm == EncryptionAlgorithm.RC2 else AES(key), CBC(bytes(block)))
    return cipher.encryptor() if encrypting else cipher.decryptor()


def encrypt_body(body: bytes | memoryview, algorithm: int, key: bytes) -> bytes:
    """CBC with a vector of zeros and PKCS#5 padding; RC4 as it comes."""
    block = _BLOCKS.get(algorithm)
    context = _cipher(algorithm, key, encrypting=True)
    if block is None:
        return context.update(body) + context.finalize()
    padder = PKCS7(block * 8).padder()
    return context.update(padder.update(body) + padder.finalize()) + context.finalize()


def decrypt_body(body: bytes | memoryview, algorithm: int, key: bytes) -> bytes | None:
    """The clear body, None if the length or the padding is wrong."""
    block = _BLOCKS.get(algorithm)
    try:
        context = _cipher(algorithm, key, encrypting=False)
        if block is None:
            return context.update(body) + context.finalize()
        if not len(body) or len(body) % block:
            return None
        unpadder = PKCS7(block * 8).unpadder()
        return unpadder.update(context.update(body) + context.finalize()) + unpadder.finalize()
    except (ValueError, UnsupportedAlgorithm):
        return None


def ciphertext(packet: UserMessage) -> bytes | memoryview:
    """The encrypted bytes of a packet. [MS-MQQB] sets AllocationBodySize to their number and says nothing clear of
    MessageSize, which may count the same, or the clear text; the allocation may also be larger than either."""
    body, size = packet.body, packet.properties.message_size
    block = _BLOCKS.get(packet.properties.encryption_algorithm)
    if size == len(body):
        return body
    if block is None:
        return body[:size]
    counts_clear_text = (size // block + 1) * block == len(body)
    return body if counts_clear_text or size % block or not size else body[:size]


# ---- whose key, which cipher ----------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """UseCSP, UseAlgorithm, UseSymmKeyLength and UsePublicKey of 3.1.7.1.5."""

    provider: Provider
    algorithm: int
    bits: int
    key: RsaPublicKey


def choose(wanted: int, keys: Sequence[MqDsPublicKey], policy: SecurityPolicy) -> Choice:
    """3.1.7.1.5: the strongest provider that the recipient has a key for. The level that the message asked for is
    the least it may get, and what the policy does not allow is as good as absent."""
    if wanted not in PROVIDERS:
        raise cannot_encrypt(f"privacy level {wanted} does not exist")
    for provider, preferred in (
        (ADVANCED, policy.preferred_advanced_algorithm),
        (ENHANCED, policy.preferred_enhanced_algorithm),
        (BASE, policy.preferred_base_algorithm),
    ):
        if provider.privacy_level < wanted:
            break
        found = next((key for key in keys if key.provider_name == provider.name), None)
        if found is None or preferred not in policy.allowed_ciphers or not algorithm_fits(provider, preferred):
            continue
        bits = _key_bits(provider, preferred, policy)
        if bits == SHORT_KEY * 8 and not policy.allow_40_bit_keys:
            continue
        return Choice(provider, preferred, bits, public_key_blob(found))
    raise error_from_code(
        HRESULTS["MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED"],
        f"the recipient has no key for privacy level {wanted} that may be used here", where="encryption",
        remedy="import a key set of the recipient that has one for AES, or allow the older ciphers")


def _key_bits(provider: Provider, algorithm: int, policy: SecurityPolicy) -> int:
    if provider is ADVANCED:
        return _AES_KEYS[algorithm] * 8
    short = policy.send_enhanced_rc2_using_40_bit_keys and algorithm == EncryptionAlgorithm.RC2
    return SHORT_KEY * 8 if provider is BASE or short else LONG_KEY * 8


def public_key_blob(source: MqDsPublicKey) -> RsaPublicKey:
    """3.1.7.1.5.2: MQDSPUBLICKEY to PUBLICKEYBLOB, once its lengths agree."""
    key = source.key  # refuses a blob whose sizes are wrong
    if len(source.key_blob) != 20 + (key.bit_length + 7) // 8:
        raise cannot_encrypt(f"{len(source.key_blob)} bytes hold no key of {key.bit_length} bits")
    return RsaPublicKey(key.modulus, key.public_exponent, CALG_RSA_KEYX, key.bit_length)


def usable_key(key: RsaPublicKey) -> rsa.RSAPublicKey:
    """The key of a PUBLICKEYBLOB as cryptography wants it."""
    if key.bit_length > MAX_RECIPIENT_KEY_BITS:
        raise cannot_encrypt(f"a key of {key.bit_length} bits")
    try:
        return rsa.RSAPublicNumbers(key.public_exponent, key.modulus).public_key()
    except ValueError:
        raise cannot_encrypt("the recipient's public key is no RSA key") from None


def cannot_encrypt(what: str) -> LiorError:
    return error_from_code(HRESULTS["MQ_ERROR_PUBLIC_KEY_NOT_FOUND"], what, where="encryption",
                           remedy="import the recipient's public keys: lior key import")
