"""RSA keys for the exchange of session keys: our own, one a provider, and the public ones of peers.

Files: `keys/advanced.pem`, `enhanced.pem`, `base.pem` (PKCS#8, readable by their owner alone) and
`peers/<GUID>.keys` (MQDSPUBLICKEYS, as `lior key export` writes them).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lior.errors import InvalidParameter, LiorError, StoreUnusable
from lior.protocols.security.encryption import ADVANCED, BASE, ENHANCED, PROVIDERS, Provider, public_key_blob
from lior.protocols.security.policy import SecurityPolicy
from lior.server.transfer_security import files
from lior.wire.structures import (
    CALG_RSA_KEYX,
    MqDsPublicKey,
    RsaPublicKey,
    public_keys_from_bytes,
    public_keys_to_bytes,
)

FILES: Final = {ADVANCED: "advanced.pem", ENHANCED: "enhanced.pem", BASE: "base.pem"}
PEER_SUFFIX: Final = ".keys"


class OwnKeys:
    """The private keys. A provider whose ciphers the policy refuses has none: peers that read the exported set
    then pick one that is accepted here."""

    def __init__(self, directory: Path | None, policy: SecurityPolicy,
                 generate: Callable[[int], rsa.RSAPrivateKey] | None = None) -> None:
        self._directory = directory
        self._policy = policy
        self._generate = generate or partial(rsa.generate_private_key, 65537)
        self._keys: dict[Provider, rsa.RSAPrivateKey] = {}
        self._stamps: dict[Provider, files.Stamp | None] = {}

    def allowed(self, provider: Provider) -> bool:
        policy = self._policy
        if provider is ADVANCED:
            return True
        return (policy.allow_rc2 or policy.allow_rc4) and (provider is not BASE or policy.allow_40_bit_keys)

    def get(self, provider: Provider) -> rsa.RSAPrivateKey | None:
        """The key if there is one: nobody can have encrypted for a key that was never made."""
        if not self.allowed(provider):
            return None
        if self._directory is None:
            return self._keys.get(provider)
        path = self._directory / FILES[provider]
        now = files.stamp(path)
        if now is None or self._stamps.get(provider) != now:
            self._load(provider, path)
            self._stamps[provider] = now
        return self._keys.get(provider)

    def _load(self, provider: Provider, path: Path) -> None:
        data = files.read(path)
        if data is None:
            self._keys.pop(provider, None)
            return
        try:
            key = serialization.load_pem_private_key(data, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise StoreUnusable("no private key in PEM form", where=str(path),
                                remedy="restore the file, or remove it and give peers the new key") from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise StoreUnusable("not an RSA key", where=str(path), remedy="remove the file")
        self._keys[provider] = key

    def make(self, provider: Provider) -> rsa.RSAPrivateKey:
        """The key, made now if there is none yet."""
        found = self.get(provider)
        if found is not None:
            return found
        if not self.allowed(provider):
            raise InvalidParameter(f"the ciphers of the {provider.name} are not allowed", where="key",
                                   remedy="allow them in the security section of the configuration")
        key = self._generate(self._bits(provider))
        if self._directory is None:
            self._keys[provider] = key
            return key
        data = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                 serialization.NoEncryption())
        files.write(self._directory / FILES[provider], data, replace=False)
        made = self.get(provider)  # perhaps another process was faster
        assert made is not None
        return made

    def _bits(self, provider: Provider) -> int:
        policy = self._policy
        return {ADVANCED: policy.advanced_key_bits, ENHANCED: policy.enhanced_key_bits,
                BASE: policy.base_key_bits}[provider]

    def public(self, *, make: bool = True) -> tuple[MqDsPublicKey, ...]:
        """What peers need to encrypt for us: PublicEncryptionKeyList."""
        found = [(provider, self.make(provider) if make else self.get(provider))
                 for provider in PROVIDERS.values() if self.allowed(provider)]
        return tuple(_published(provider, key) for provider, key in found if key is not None)

    def exported(self) -> bytes:
        return public_keys_to_bytes(self.public())


def _published(provider: Provider, key: rsa.RSAPrivateKey) -> MqDsPublicKey:
    numbers = key.public_key().public_numbers()
    blob = RsaPublicKey(numbers.n, numbers.e, CALG_RSA_KEYX, key.key_size).to_bytes()
    return MqDsPublicKey(provider.type, provider.name, blob)


class PeerKeys:
    """The public keys of other queue managers, by their GUID."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._keys: dict[UUID, tuple[MqDsPublicKey, ...]] = {}
        self._stamps: dict[UUID, files.Stamp | None] = {}

    def of(self, guid: UUID) -> tuple[MqDsPublicKey, ...]:
        """The keys of a queue manager, none if it is not known."""
        if self._directory is None:
            return self._keys.get(guid, ())
        path = self._path(guid)
        now = files.stamp(path)
        if now is None or self._stamps.get(guid) != now:
            data = files.read(path)
            self._stamps[guid] = now
            self._keys[guid] = () if data is None else public_keys_from_bytes(data)
        return self._keys[guid]

    def put(self, guid: UUID, data: bytes) -> tuple[MqDsPublicKey, ...]:
        """Take over a set that the peer exported."""
        keys = public_keys_from_bytes(data)
        for key in keys:
            public_key_blob(key)
        if not keys:
            raise InvalidParameter("the set holds no key", where="key", remedy="export it again on the other side")
        if self._directory is not None:
            files.write(self._path(guid), data)
        self._stamps[guid] = None
        self._keys[guid] = keys
        return keys

    def remove(self, guid: UUID) -> bool:
        known = bool(self._keys.pop(guid, ()))
        self._stamps.pop(guid, None)
        return files.remove(self._path(guid)) if self._directory is not None else known

    def list(self) -> list[tuple[UUID, tuple[MqDsPublicKey, ...]]]:
        if self._directory is None:
            return sorted(self._keys.items())
        found: list[tuple[UUID, tuple[MqDsPublicKey, ...]]] = []
        for name in files.names(self._directory, PEER_SUFFIX):
            try:
                guid = UUID(name)
            except ValueError:
                continue
            try:
                found.append((guid, self.of(guid)))
            except LiorError:  # shown as what it is: a peer without usable keys
                found.append((guid, ()))
        return found

    def _path(self, guid: UUID) -> Path:
        assert self._directory is not None
        return self._directory / f"{str(guid).upper()}{PEER_SUFFIX}"
