"""What this queue manager accepts and prefers; everything old is off until it is switched on."""

from dataclasses import dataclass, field
from typing import Final

from lior.message import EncryptionAlgorithm, HashAlgorithm
from lior.protocols.security.signing import SignatureOrder
from lior.wire.digests import DEFAULT_FORM, DigestForm

AES: Final = frozenset(
    {EncryptionAlgorithm.AES_128.value, EncryptionAlgorithm.AES_192.value, EncryptionAlgorithm.AES_256.value})


@dataclass(frozen=True, slots=True)
class SecurityPolicy:
    """Switches of message security, with the defaults of [MS-MQQB] 3.1.3.1 where those are safe.

    allow_sha1 is on: it is what Windows up to Server 2008 signs with, and [MS-MQQB] 1.3.2.2 lists it beside SHA-256
    and SHA-512 (QB-215). allow_md5 is the default hash of Windows 2000. 40-bit keys take a switch of their own,
    for a cipher that is otherwise acceptable becomes readable by anyone with them.
    """

    allow_md5: bool = False
    allow_sha1: bool = True
    allow_rc2: bool = False
    allow_rc4: bool = False
    allow_40_bit_keys: bool = False
    minimum_signature_bits: int = 1024  # shorter RSA keys can be factored: their signatures prove nothing
    check_certificate_dates: bool = True
    encrypt_direct_names: bool = False  # [MS-MQQB] 5.1: not for direct names; here only if a key is configured

    preferred_advanced_algorithm: int = EncryptionAlgorithm.AES_256.value
    preferred_enhanced_algorithm: int = EncryptionAlgorithm.RC4.value
    preferred_base_algorithm: int = EncryptionAlgorithm.RC4.value
    send_enhanced_rc2_using_40_bit_keys: bool = False
    advanced_key_bits: int = 2048  # of our own RSA keys; Windows makes 1024, 1024 and 512
    enhanced_key_bits: int = 1024
    base_key_bits: int = 1024

    receive_key_cache_size: int = 127
    send_key_cache_size: int = 53
    certificate_cache_size: int = 53
    symmetric_key_lifetime: float = 600.0  # seconds
    certificate_lifetime: float = 1200.0

    # What only a message of Windows can settle
    digest_form: DigestForm = field(default=DEFAULT_FORM)
    signature_order: SignatureOrder = SignatureOrder.LITTLE

    @property
    def allowed_hashes(self) -> frozenset[int]:
        hashes = {HashAlgorithm.SHA256.value, HashAlgorithm.SHA512.value}
        if self.allow_sha1:
            hashes.add(HashAlgorithm.SHA1.value)
        if self.allow_md5:
            hashes.add(HashAlgorithm.MD5.value)
        return frozenset(hashes)

    @property
    def allowed_ciphers(self) -> frozenset[int]:
        ciphers = set(AES)
        if self.allow_rc2:
            ciphers.add(EncryptionAlgorithm.RC2.value)
        if self.allow_rc4:
            ciphers.add(EncryptionAlgorithm.RC4.value)
        return frozenset(ciphers)


DEFAULT_POLICY: Final = SecurityPolicy()
