"""NTLMv2: keys, and the signatures and seals that are made with them ([MS-NLMP] 3.3.2, 3.4).

Extended session security with 128-bit keys and key exchange only: what is weaker is refused before it comes here.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext

from lior.protocols.rpc.security import AuthenticationFailed
from lior.wire.md4 import md4

SIGNATURE_SIZE: Final = 16
_VERSION: Final = b"\x01\x00\x00\x00"
_CLIENT_SIGNING: Final = b"session key to client-to-server signing key magic constant\0"
_SERVER_SIGNING: Final = b"session key to server-to-client signing key magic constant\0"
_CLIENT_SEALING: Final = b"session key to client-to-server sealing key magic constant\0"
_SERVER_SEALING: Final = b"session key to server-to-client sealing key magic constant\0"


def nt_hash(password: str) -> bytes:
    """NTOWFv1: all that is kept of a password, and all that its owner needs to know."""
    return md4(password.encode("utf-16-le", "surrogatepass"))


def response_key(nt_hash: bytes, user: str, domain: str) -> bytes:
    """NTOWFv2"""
    return hmac_md5(nt_hash, (user.upper() + domain).encode("utf-16-le"))


def hmac_md5(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "md5")


def rc4(key: bytes) -> CipherContext:
    return Cipher(ARC4(key), mode=None).encryptor()


def rc4k(key: bytes, data: bytes) -> bytes:
    return rc4(key).update(data)


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


class _Direction:
    """One way of a session: its keys, the state of its RC4 stream, its sequence number."""

    __slots__ = ("_encrypts", "_sealing_key", "_signing_key", "_stream", "sequence")

    def __init__(self, signing_key: bytes, sealing_key: bytes, key_exchange: bool) -> None:
        self._encrypts = key_exchange  # checksums, where a key was exchanged (3.4.4.2)
        self._signing_key = signing_key
        self._sealing_key = sealing_key
        self._stream = rc4(sealing_key)
        self.sequence = 0

    def restart_stream(self) -> None:
        """After a mechListMIC ([MS-SPNG] 3.2.5.1): the stream starts over, the sequence goes on."""
        self._stream = rc4(self._sealing_key)

    def crypt(self, data: bytes) -> bytes:
        return self._stream.update(data)

    def mac(self, message: bytes) -> bytes:
        sequence = self.sequence.to_bytes(4, "little")
        self.sequence = self.sequence + 1 & 0xFFFFFFFF
        checksum = hmac.digest(self._signing_key, sequence + message, "md5")[:8]
        return _VERSION + (self._stream.update(checksum) if self._encrypts else checksum) + sequence


class NtlmSession:
    """Message security after an authentication; `is_client` tells which half of the keys is whose."""

    signs_headers = True  # what is not to be signed is included nevertheless (3.4.6, 3.4.8)

    def __init__(self, exported_session_key: bytes, is_client: bool, key_exchange: bool = True) -> None:
        key = self.exported_session_key = exported_session_key
        client = _Direction(_md5(key + _CLIENT_SIGNING), _md5(key + _CLIENT_SEALING), key_exchange)
        server = _Direction(_md5(key + _SERVER_SIGNING), _md5(key + _SERVER_SEALING), key_exchange)
        self._out, self._in = (client, server) if is_client else (server, client)

    def signature_size(self, privacy: bool) -> int:
        return SIGNATURE_SIZE

    def sign(self, message: bytes) -> bytes:
        return self._out.mac(message)

    def verify(self, message: bytes, signature: bytes) -> None:
        expected = self._in.mac(message)
        if not hmac.compare_digest(expected, signature[:SIGNATURE_SIZE]):
            raise AuthenticationFailed("a signature that does not fit", where="NTLM",
                                       remedy="something changed, repeated or dropped what was sent")

    def seal(self, before: bytes, body: bytes, after: bytes) -> tuple[bytes, bytes]:
        sealed = self._out.crypt(body)  # before the checksum: both use one stream
        return sealed, self._out.mac(b"".join((before, body, after)))

    def unseal(self, before: bytes, body: bytes, after: bytes, signature: bytes) -> bytes:
        plain = self._in.crypt(body)
        self.verify(b"".join((before, plain, after)), signature)
        return plain

    def mech_list_mic(self, message: bytes) -> bytes:
        signature = self._out.mac(message)
        self._out.restart_stream()
        return signature

    def verify_mech_list_mic(self, message: bytes, signature: bytes) -> None:
        self.verify(message, signature)
        self._in.restart_stream()
