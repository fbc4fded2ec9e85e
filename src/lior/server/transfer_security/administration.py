"""What an administrator does with keys and certificates: the work of `lior key`, `lior certificate` and of the admin
API. Answers are plain data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lior.errors import HRESULTS, InvalidParameter, LiorError, StoreUnusable, error_from_code
from lior.protocols.security.encryption import ADVANCED, BASE, ENHANCED, Provider
from lior.protocols.security.policy import DEFAULT_POLICY, SecurityPolicy
from lior.server.transfer_security.certificates import RegisteredCertificate, owner_name, owner_of
from lior.server.transfer_security.keys import FILES
from lior.server.transfer_security.place import SecurityFiles
from lior.wire.structures import MqDsPublicKey

NAMES: dict[str, Provider] = {"advanced": ADVANCED, "enhanced": ENHANCED, "base": BASE}
_PEM = b"-----BEGIN"


class SecurityAdministration:
    """On the files of one queue manager, whether or not it runs."""

    def __init__(self, files: SecurityFiles) -> None:
        self._files = files

    @classmethod
    def of_directory(cls, data: str | os.PathLike[str], policy: SecurityPolicy = DEFAULT_POLICY) -> Self:
        """A mistyped name must not give an empty registry."""
        if not Path(data).is_dir():
            raise StoreUnusable("there is no such data directory", where=os.fspath(data),
                                remedy="name the directory of a queue manager")
        return cls(SecurityFiles(data, policy))

    # Certificates of users

    def register_certificate(self, sid: str, certificate: bytes) -> dict[str, Any]:
        """A certificate in PEM or DER form counts as the user's from now on, or as the queue manager's of a GUID."""
        return _certificate(self._files.certificates.register(owner_of(sid), der(certificate)))

    def certificates(self, sid: str = "") -> list[dict[str, Any]]:
        wanted = owner_of(sid) if sid else None
        found = self._files.certificates.list()
        return [_certificate(each) for each in found if wanted is None or each.owner == wanted]

    def certificate(self, digest: str) -> list[dict[str, Any]]:
        """Those whose digest begins so, with the certificate itself in PEM form."""
        found = self._files.certificates.find(digest)
        if not found:
            raise _unknown(digest)
        return [_certificate(each) | {"pem": pem(each.entry.certificate)} for each in found]

    def remove_certificate(self, digest: str, sid: str = "") -> list[dict[str, Any]]:
        removed = self._files.certificates.remove(digest, owner_of(sid) if sid else None)
        if not removed:
            raise _unknown(digest)
        return [_certificate(each) for each in removed]

    # Keys

    def own_keys(self, *, make: bool = True) -> list[dict[str, Any]]:
        return [_key(key) for key in self._files.keys.public(make=make)]

    def export_keys(self) -> bytes:
        """MQDSPUBLICKEYS for the peers, once the keys are made."""
        return self._files.keys.exported()

    def import_peer(self, guid: str, keys: bytes) -> dict[str, Any]:
        peer = _guid(guid)
        return _peer(peer, self._files.peers.put(peer, keys))

    def peers(self) -> list[dict[str, Any]]:
        return [_peer(guid, keys) for guid, keys in self._files.peers.list()]

    def remove_peer(self, guid: str) -> None:
        if not self._files.peers.remove(_guid(guid)):
            raise InvalidParameter("no keys of this queue manager are known", where=guid, remedy="see: lior key list")


def policy_for(providers: tuple[str, ...]) -> SecurityPolicy:
    """A policy under which these providers have keys, for who exports them without a server's configuration."""
    old = "enhanced" in providers or "base" in providers
    return SecurityPolicy(allow_rc4=old, allow_40_bit_keys="base" in providers)


def der(certificate: bytes) -> bytes:
    if not certificate.lstrip().startswith(_PEM):
        return certificate
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise error_from_code(HRESULTS["MQ_ERROR_INVALID_CERTIFICATE"], "no certificate in PEM form",
                              where="certificate", remedy="give the file with BEGIN CERTIFICATE") from None
    return parsed.public_bytes(serialization.Encoding.DER)


def pem(certificate: bytes) -> str:
    return x509.load_der_x509_certificate(certificate).public_bytes(serialization.Encoding.PEM).decode()


def _certificate(found: RegisteredCertificate) -> dict[str, Any]:
    data: dict[str, Any] = {
        "sid": owner_name(found.owner), "digest": found.digest, "identifier": str(found.entry.identifier),
        "subject": "", "key_bits": 0, "not_before": None, "not_after": None, "sha256": "",
    }
    try:
        certificate = x509.load_der_x509_certificate(found.entry.certificate)
        key = certificate.public_key()
        data["subject"] = certificate.subject.rfc4514_string()
        data["key_bits"] = key.key_size if isinstance(key, rsa.RSAPublicKey) else 0
        data["not_before"] = certificate.not_valid_before_utc.timestamp()
        data["not_after"] = certificate.not_valid_after_utc.timestamp()
        data["sha256"] = certificate.fingerprint(hashes.SHA256()).hex()
    except ValueError:  # registered by hand: shown as far as it can be read
        pass
    return data


def _key(key: MqDsPublicKey) -> dict[str, Any]:
    return {"provider": key.provider_name, "type": key.provider_type, "bits": key.key.bit_length,
            "file": next((FILES[each] for each in NAMES.values() if each.name == key.provider_name), "")}


def _peer(guid: UUID, keys: tuple[MqDsPublicKey, ...]) -> dict[str, Any]:
    return {"queue_manager": str(guid),
            "keys": [{"provider": key.provider_name, "bits": key.key.bit_length} for key in keys]}


def _guid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidParameter("this is no GUID", where=text[:80],
                               remedy="lior stats shows the identifier of a queue manager") from None


def _unknown(digest: str) -> LiorError:
    return error_from_code(HRESULTS["MQ_ERROR_INVALID_CERTIFICATE"], "no certificate has a digest that begins so",
                           where=digest[:80], remedy="see: lior certificate list")
