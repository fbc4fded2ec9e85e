"""Who signs a message: a certificate, its private key and the SID they stand for ([MS-MQQB] 3.1.7.1.4).

The key stays with the application: the library signs when it sends, and the queue manager passes the signature on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self
from uuid import UUID

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from lior.errors import HRESULTS, IllegalPropertyValue, LiorError, StoreUnusable, error_from_code
from lior.message import (
    AuthenticationLevel,
    HashAlgorithm,
    Message,
    MessageSecurity,
    PrivacyLevel,
    SenderIdentifierType,
)
from lior.names import LocalNames, MultipleName, parse_format_name
from lior.names.local import expand
from lior.protocols.security.signing import SignatureOrder, as_sent, check_level, sign
from lior.security import Sid, unix_user_sid
from lior.wire.digests import ACCEPTED_HASHES, DEFAULT_FORM, DEFAULT_HASH, DigestForm
from lior.wire.dtyp import encode_sid
from lior.wire.headers import MAX_SENDER_CERT_SIZE
from lior.wire.message_packet import to_user_message
from lior.wire.structures import AES_PROVIDER, ENHANCED_PROVIDER, PROV_RSA_AES, PROV_RSA_FULL

KEY_BITS: Final = 2048
DAYS: Final = 3650
PRIVATE_FILE: Final = 0o600
_PRIVACY: Final = {"none": PrivacyLevel.NONE, "base": PrivacyLevel.BASE, "enhanced": PrivacyLevel.ENHANCED,
                   "advanced": PrivacyLevel.ADVANCED, "body": PrivacyLevel.ADVANCED}


@dataclass(frozen=True, slots=True)
class Identity:
    """Signs messages: `qm.send(destination, body, sign=identity)`.

    `level` None signs as MSMQ 2.0 to one destination and as 3.0 to several; AuthenticationLevel.SIG10 is for
    receivers that know nothing newer. The receiver has to have the certificate registered for the SID.
    """

    certificate: bytes  # DER
    key: rsa.RSAPrivateKey = field(repr=False)
    sid: Sid
    hash_algorithm: int = DEFAULT_HASH
    level: int | None = None
    form: DigestForm = DEFAULT_FORM
    order: SignatureOrder = SignatureOrder.LITTLE

    @classmethod
    def load(cls, certificate: str | os.PathLike[str], key: str | os.PathLike[str] | None = None, *,
             sid: Sid | str | None = None, password: bytes | None = None, **options: Any) -> Self:
        """From PEM files: one with both, or one each. Without `sid` it is the one that the certificate's subject
        names (UID=, as `create` makes them), else the local user's."""
        text = read_pem(certificate)
        try:
            parsed = x509.load_pem_x509_certificate(text)
            private = serialization.load_pem_private_key(text if key is None else read_pem(key), password)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise _invalid("no certificate and private key in PEM form, or the wrong password",
                           str(certificate)) from None
        if not isinstance(private, rsa.RSAPrivateKey) or private.public_key() != parsed.public_key():
            raise _invalid("the private key is not the RSA key of the certificate", str(certificate))
        chosen = Sid.parse(sid) if isinstance(sid, str) else sid or sid_of(parsed) or local_sid()
        return cls(parsed.public_bytes(serialization.Encoding.DER), private, chosen, **options)

    @classmethod
    def create(cls, name: str, *, sid: Sid | str | None = None, bits: int = KEY_BITS, days: int = DAYS,
               **options: Any) -> Self:
        """A new key with a certificate that it signs itself, as MSMQ's internal certificates are."""
        chosen = Sid.parse(sid) if isinstance(sid, str) else sid or local_sid()
        private = rsa.generate_private_key(65537, bits)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name),
                             x509.NameAttribute(NameOID.USER_ID, str(chosen))])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=days))
            .sign(private, hashes.SHA256())
        )
        return cls(certificate.public_bytes(serialization.Encoding.DER), private, chosen, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write key and certificate into one new PEM file that only its owner reads."""
        save_pem(path, self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + self.certificate_pem)

    @property
    def certificate_pem(self) -> bytes:
        """What receivers register."""
        return x509.load_der_x509_certificate(self.certificate).public_bytes(serialization.Encoding.PEM)

    def sign(self, message: Message, destination: str, *, queue_manager: UUID, transactional: bool) -> None:
        """Put sender, certificate and signature into the message. The queue manager that sends it, the destination
        and the delivery are part of what is signed."""
        if len(self.certificate) > MAX_SENDER_CERT_SIZE or self.hash_algorithm not in ACCEPTED_HASHES:
            raise _invalid(f"a certificate of {len(self.certificate)} bytes, hash 0x{self.hash_algorithm:04X}",
                           "signature")
        several = "," in destination
        level = self.level or (AuthenticationLevel.SIG30 if several else AuthenticationLevel.SIG20)
        check_level(level, several)
        security = message.security = _copy(message.security)
        security.sender_identifier_type = SenderIdentifierType.SID.value
        security.sender_identifier = encode_sid(self.sid)
        security.sender_certificate = self.certificate
        security.hash_algorithm = self.hash_algorithm
        newer = self.hash_algorithm != HashAlgorithm.SHA1
        security.authentication_provider_type = PROV_RSA_AES if newer else PROV_RSA_FULL
        security.authentication_provider_name = AES_PROVIDER if newer else ENHANCED_PROVIDER
        security.authentication_level = int(level)
        packet = to_user_message(as_sent(message, destination, queue_manager, transactional))
        signature = sign(packet, self.key, level, self.hash_algorithm, form=self.form, order=self.order)
        security.signature = b"" if several else signature
        security.multi_queue_signature = signature if several else b""


def save_pem(path: str | os.PathLike[str], content: bytes) -> None:
    """Into a new file that only its owner reads."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreUnusable(error.strerror or str(error), where=os.fspath(path),
                            remedy="name a new file in a directory that can be written") from None


def canonical(destination: str, computer_name: str) -> str:
    """The format name as the queue manager keeps it: several sorted, each once, "." as the computer's name."""
    local = LocalNames(computer_name, "", frozenset(), UUID(int=0))
    name = local.expand_dot(parse_format_name(destination))
    return str(expand(name.elements) if isinstance(name, MultipleName) else name)


def privacy_level(value: Any) -> int:
    """True asks for AES; a name or a number for the least that will do."""
    if isinstance(value, bool):
        return PrivacyLevel.ADVANCED.value if value else PrivacyLevel.NONE.value
    if isinstance(value, str) and value.casefold() in _PRIVACY:
        return _PRIVACY[value.casefold()].value
    if isinstance(value, int) and value in set(PrivacyLevel):
        return int(value)
    raise IllegalPropertyValue(f"{value!r} is no privacy level", where="privacy",
                               remedy="use True, advanced, enhanced, base or none")


def set_privacy(message: Message, value: Any) -> None:
    level = privacy_level(value)
    if level or message.security is not None:
        message.security = _copy(message.security)
        message.security.privacy_level = level


def _copy(security: MessageSecurity | None) -> MessageSecurity:
    """Of its own: a signature made before, or a key of somebody's, is not this message's."""
    if security is None:
        return MessageSecurity()
    return MessageSecurity(privacy_level=security.privacy_level, encryption_algorithm=security.encryption_algorithm,
                           hash_algorithm=security.hash_algorithm)


def sid_of(certificate: x509.Certificate) -> Sid | None:
    """The SID that the subject names, if it does."""
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.USER_ID):
        try:
            return Sid.parse(str(attribute.value))
        except LiorError:
            continue
    return None


def local_sid() -> Sid:
    return unix_user_sid(os.geteuid())


def read_pem(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StoreUnusable(error.strerror or str(error), where=os.fspath(path),
                            remedy="check the file and its rights") from None


def _invalid(what: str, where: str) -> LiorError:
    return error_from_code(HRESULTS["MQ_ERROR_INVALID_CERTIFICATE"], what, where=where,
                           remedy="make one with: lior certificate create")
