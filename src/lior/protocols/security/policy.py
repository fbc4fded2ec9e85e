"""What this queue manager accepts and prefers; everything old is off until it is switched on."""

from dataclasses import dataclass
from typing import Any, Final

from lior.errors import BadConfiguration
from lior.message import EncryptionAlgorithm, HashAlgorithm
from lior.protocols.security.signing import SignatureOrder
from lior.wire.digests import AbsentConnector, DigestForm, QueueNameForm

AES: Final = frozenset(
    {EncryptionAlgorithm.AES_128.value, EncryptionAlgorithm.AES_192.value, EncryptionAlgorithm.AES_256.value})

OLD: Final = frozenset({EncryptionAlgorithm.RC2.value, EncryptionAlgorithm.RC4.value})


@dataclass(frozen=True, slots=True)
class SecurityPolicy:
    """Switches of message security, with the defaults of [MS-MQQB] 3.1.3.1 where those are safe.

    allow_sha1 is on: it is what Windows up to Server 2008 signs with, and [MS-MQQB] 1.3.2.2 lists it beside SHA-256
    and SHA-512 (QB-215). allow_md5 is the default hash of Windows 2000. 40-bit keys take a switch of their own,
    for a cipher that is otherwise acceptable becomes readable by anyone with them.
    """

    allow_md5: bool = False
    allow_rsa_xml_signatures: bool = False  # SRMP names DSA; RSA under that label is for senders that have no other
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

    # What only a message of Windows can settle: see DigestForm and in_wire_order
    signature_byte_order: str = "little"  # or "big"
    signed_queue_names: str = "packet"  # or "text"
    signed_absent_connector: str = "zeros"  # or "omitted"
    signed_label_nul: bool = True
    signed_text_nul: bool = False

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadConfiguration(f"{name} is {value}", where="message security",
                                       remedy=f"it is from {low} to {high}")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                known = ", ".join(hex(choice) if isinstance(choice, int) else choice for choice in sorted(choices))
                raise BadConfiguration(f"{name} is {value}", where="message security", remedy=f"it is one of {known}")

    @property
    def digest_form(self) -> DigestForm:
        return DigestForm(self.signed_label_nul, QueueNameForm(self.signed_queue_names), self.signed_text_nul,
                          AbsentConnector(self.signed_absent_connector))

    @property
    def signature_order(self) -> SignatureOrder:
        return SignatureOrder(self.signature_byte_order)

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


_KEY_BITS: Final = (1024, 8192)
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "minimum_signature_bits": (512, 8192), "advanced_key_bits": _KEY_BITS, "enhanced_key_bits": _KEY_BITS,
    "base_key_bits": _KEY_BITS, "receive_key_cache_size": (1, 1 << 20), "send_key_cache_size": (1, 1 << 20),
    "certificate_cache_size": (1, 1 << 20), "symmetric_key_lifetime": (0, 43200), "certificate_lifetime": (0, 86400)}
_CHOICES: Final[dict[str, frozenset[Any]]] = {
    "preferred_advanced_algorithm": AES, "preferred_enhanced_algorithm": OLD, "preferred_base_algorithm": OLD,
    "signature_byte_order": frozenset(order.value for order in SignatureOrder),
    "signed_queue_names": frozenset(form.value for form in QueueNameForm),
    "signed_absent_connector": frozenset(form.value for form in AbsentConnector)}

DEFAULT_POLICY: Final = SecurityPolicy()
