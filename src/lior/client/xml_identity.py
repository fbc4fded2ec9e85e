"""Who signs messages over HTTP and multicast: a certificate and its private key ([MC-MQSRM] 2.2.7).

An XML signature covers body and extension and nothing else; see docs/message-security.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, rsa
from cryptography.x509.oid import NameOID

from lior.client.signing import DAYS, KEY_BITS, read_pem, save_pem
from lior.errors import HRESULTS, InvalidParameter, error_from_code
from lior.message import AuthenticationLevel, HashAlgorithm, Message, MessageSecurity
from lior.names import DirectName, MulticastName, parse_format_name
from lior.protocols.security.xml_signing import PrivateKey, read_xml_certificate, write_signature

_MAKE: Final[Mapping[str, Any]] = {
    "dsa": lambda: dsa.generate_private_key(KEY_BITS),  # with a q of 256 bits
    "rsa": lambda: rsa.generate_private_key(65537, KEY_BITS),
}


@dataclass(frozen=True, slots=True)
class XmlIdentity:
    """Signs messages to HTTP and multicast names: `qm.send("DIRECT=HTTP://...", body, sign=identity)`.

    Receivers look the certificate up under the sending queue manager's GUID; with `key_info` it also travels in the
    message, which the specification does not have. Keys are DSA with a q of 256 bits; RSA is for receivers that were
    told to take it.
    """

    certificate: bytes  # DER
    key: PrivateKey = field(repr=False)
    hash_algorithm: int = HashAlgorithm.SHA1
    key_info: bool = False

    @classmethod
    def create(cls, name: str, *, kind: str = "dsa", days: int = DAYS, **options: Any) -> Self:
        """A new key with a certificate that it signs itself."""
        if kind not in _MAKE:
            raise InvalidParameter(f"a key of kind {kind!r}", where="signature", remedy="kinds: dsa, rsa")
        private: PrivateKey = _MAKE[kind]()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
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
        return cls(certificate.public_bytes(serialization.Encoding.DER), private, **options)

    @classmethod
    def load(cls, certificate: str | os.PathLike[str], key: str | os.PathLike[str] | None = None, *,
             password: bytes | None = None, **options: Any) -> Self:
        """From PEM files: one with both, or one each."""
        text = read_pem(certificate)
        try:
            parsed = x509.load_pem_x509_certificate(text)
            private = serialization.load_pem_private_key(text if key is None else read_pem(key), password)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise _invalid("no certificate and private key in PEM form, or the wrong password", certificate) from None
        der = parsed.public_bytes(serialization.Encoding.DER)
        usable = isinstance(private, dsa.DSAPrivateKey | rsa.RSAPrivateKey) and read_xml_certificate(der) is not None
        if not isinstance(private, dsa.DSAPrivateKey | rsa.RSAPrivateKey) or not usable \
                or private.public_key() != parsed.public_key():
            raise _invalid("the private key is no DSA or RSA key of the certificate", certificate)
        return cls(der, private, **options)

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
        """Put the signature into the message; only body and extension count for it."""
        name = parse_format_name(destination)
        if not isinstance(name, MulticastName) and not (isinstance(name, DirectName) and name.is_http):
            raise InvalidParameter("an XML signature is for one HTTP or multicast name", where=destination,
                                   remedy="sign with Identity")
        text = write_signature(message.body, message.extension, str(queue_manager), self.key, self.hash_algorithm,
                               self.certificate if self.key_info else b"")
        message.security = MessageSecurity(
            authentication_level=AuthenticationLevel.XML_SIG.value, hash_algorithm=int(self.hash_algorithm),
            signature=text.encode("ascii"), sender_certificate=self.certificate)


def _invalid(what: str, where: str | os.PathLike[str]) -> Exception:
    return error_from_code(HRESULTS["MQ_ERROR_INVALID_CERTIFICATE"], what, where=os.fspath(where),
                           remedy="give a certificate and its DSA or RSA key in PEM form")
