"""Who owns which certificate: the local stand-in for the user objects of a directory ([MS-MQMQ] 2.2.21, 2.2.22).

One file a user, named after the SID, holding MQUSERSIGNCERTS. Without a directory of files the registry lives in
memory, for queue managers that do.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from lior.errors import HRESULTS, LiorError, error_from_code
from lior.protocols.security.signing import read_certificate
from lior.protocols.security.xml_signing import read_xml_certificate
from lior.security import ANONYMOUS, EVERYONE, NOBODY, Sid
from lior.server.transfer_security import files
from lior.wire.structures import MqUserSignCert, sign_certs_from_bytes, sign_certs_to_bytes

log = logging.getLogger("lior.security")

SUFFIX: Final = ".certs"
MOST_OF_A_USER: Final = 64


Owner = Sid | UUID  # a user, or a queue manager that signs what it sends itself


def owner_of(text: str) -> Owner:
    """A SID, or the GUID of a queue manager."""
    try:
        return UUID(text)
    except ValueError:
        return Sid.parse(text)


def owner_name(owner: Owner) -> str:
    return str(owner).upper()


class RegisteredCertificate(NamedTuple):
    """A certificate and whose it is."""

    owner: Owner
    entry: MqUserSignCert

    @property
    def digest(self) -> str:
        return self.entry.digest.hex()


class CertificateRegistry:
    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._entries: dict[Owner, tuple[MqUserSignCert, ...]] = {}
        self._stamp: files.Stamp | None = None
        self.generation = 0  # counts the changes that were seen: what was cached before one is out of date

    # For who verifies

    def of(self, owner: Owner) -> tuple[MqUserSignCert, ...]:
        """The certificates of a user or a queue manager, as they are now."""
        self.refresh()
        return self._entries.get(owner, ())

    def refresh(self) -> int:
        """Read the files again if they changed; the generation."""
        if self._directory is None:
            return self.generation
        now = files.stamp(self._directory)
        if now is None or now != self._stamp:
            self._read()
            self._stamp = now
        return self.generation

    def _read(self) -> None:
        assert self._directory is not None
        entries: dict[Owner, tuple[MqUserSignCert, ...]] = {}
        for name in files.names(self._directory, SUFFIX):
            try:
                data = files.read(self._directory / (name + SUFFIX))
                if data is not None:
                    entries[owner_of(name)] = sign_certs_from_bytes(data)
            except LiorError as error:  # whoever is named in it is unknown until it is repaired
                log.warning("certificates of %s cannot be read: %s", name, error)
        if entries != self._entries:
            self._entries = entries
            self.generation += 1

    # For who administers

    def register(self, owner: Owner, certificate: bytes, identifier: UUID | None = None) -> RegisteredCertificate:
        """Let messages signed with this certificate count as the user's. Doing it twice changes nothing."""
        if owner in (ANONYMOUS, EVERYONE, NOBODY):
            raise _invalid(f"{owner} is nobody in particular", "name the user who signs with the certificate")
        if read_certificate(certificate) is None and read_xml_certificate(certificate) is None:
            raise _invalid("this is no X.509 certificate with an RSA key, nor with a DSA key of XML signatures",
                           "give one in PEM or DER form")
        present = self.of(owner)
        for entry in present:
            if entry.certificate == certificate:
                return RegisteredCertificate(owner, entry)
        if len(present) >= MOST_OF_A_USER:
            raise _invalid(f"{owner} has {len(present)} certificates", "remove those that are not used any more")
        added = MqUserSignCert(identifier or uuid4(), certificate)
        self._put(owner, (*present, added))
        return RegisteredCertificate(owner, added)

    def remove(self, digest: str, owner: Owner | None = None) -> list[RegisteredCertificate]:
        """Forget the certificates whose digest begins so, of one user or of all; what was removed."""
        removed = [found for found in self.find(digest) if owner is None or found.owner == owner]
        for each in {found.owner for found in removed}:
            gone = {found.entry.digest for found in removed if found.owner == each}
            self._put(each, tuple(entry for entry in self.of(each) if entry.digest not in gone))
        return removed

    def find(self, digest: str) -> list[RegisteredCertificate]:
        wanted = digest.casefold()
        return [found for found in self.list() if wanted and found.digest.startswith(wanted)]

    def list(self) -> list[RegisteredCertificate]:
        self.refresh()
        return [RegisteredCertificate(owner, entry)
                for owner, entries in sorted(self._entries.items(), key=lambda item: str(item[0])) for entry in entries]

    def _put(self, owner: Owner, entries: tuple[MqUserSignCert, ...]) -> None:
        if self._directory is not None:
            path = self._directory / f"{owner_name(owner)}{SUFFIX}"
            if entries:
                files.write(path, sign_certs_to_bytes(entries))
            else:
                files.remove(path)
        self._stamp = None
        self._entries = {**self._entries, owner: entries} if entries else {
            other: kept for other, kept in self._entries.items() if other != owner}
        self.generation += 1


def _invalid(what: str, remedy: str) -> LiorError:
    return error_from_code(HRESULTS["MQ_ERROR_INVALID_CERTIFICATE"], what, where="certificate", remedy=remedy)
