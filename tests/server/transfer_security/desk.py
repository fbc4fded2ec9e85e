"""A queue manager with a guard, a clock to set and random bytes that repeat."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric import rsa

from lior.message import Message
from lior.protocols.security.signing import sign
from lior.queues.queue import Queue
from lior.security import Sid
from lior.server.transfer_security import Checked, Guard, SecurityFiles, SecurityPolicy
from lior.testing.engine import ManualEngine
from lior.wire.dtyp import encode_sid
from lior.wire.headers import DE, EB, SecurityHeader
from lior.wire.optional_headers import Security
from lior.wire.user_message import UserMessage
from tests.protocols.security import second_security as second
from tests.protocols.security.signed_packets import (
    ALICE,
    NOW,
    SENDER,
    Signer,
    alice,
    arrived,
    bob,
    key_of,
    message,
    packet_of,
    pem_of,
    put_signature,
)

__all__ = ["Desk", "encrypted", "signed"]

PEER = UUID("77777777-0000-0000-0000-000000000001")
AES_256, SHA512 = 0x6610, 0x800E


_next = itertools.count()


def pooled_key(bits: int) -> rsa.RSAPrivateKey:
    """Another key than the last few; making each anew would take most of the time of these tests."""
    return key_of(bits, 100 + next(_next) % 4)


class Desk:
    """What the tests need around one guard."""

    def __init__(self, data: str | os.PathLike[str] | None = None, policy: SecurityPolicy | None = None) -> None:
        self.engine = ManualEngine()
        self.policy = policy or SecurityPolicy()
        self.files = SecurityFiles(data, self.policy, generate=pooled_key)
        self.now = 1000.0
        self.wall = NOW.timestamp()
        self.drawn = 0  # how often random bytes were asked for
        self.guard = Guard(self.engine.manager, self.files, wall=lambda: self.wall, entropy=self._entropy)

    def _entropy(self, size: int) -> bytes:
        self.drawn += 1
        return hashlib.sha256(b"%d" % self.drawn).digest()[:size]

    def queue(self, name: str = "q", **properties: Any) -> Queue:
        return self.engine.create(rf".\private$\{name}", **properties)

    def register(self, *signers: Signer) -> None:
        for signer in signers or (alice(), bob()):
            self.files.certificates.register(signer.sid, signer.certificate)

    def check(self, packet: UserMessage, queue: Queue | None) -> Checked:
        return self.guard.check(packet, queue, self.now)

    def protect(self, packet: UserMessage, message: Message, recipient: UUID = PEER) -> None:
        self.guard.protect(packet, message, recipient, self.now)


def signed(signer: Signer | None = None, level: int = 3, algorithm: int = SHA512, *, sid: Sid | None = None,
           made_of: Message | None = None, allowed: Iterable[int] = (0x8003, 0x8004, 0x800C, 0x800E)) -> UserMessage:
    """A message as it arrives, signed."""
    signer = signer or alice()
    packet = packet_of(made_of or message())
    signature = sign(packet, signer.key, level, algorithm, allowed=frozenset(allowed))
    put_signature(packet, signature, signer, algorithm, sid=sid, listed=level == 5)
    return arrived(packet)


def encrypted(desk: Desk, body: bytes = b"secret", *, level: int = 5, algorithm: int = AES_256, key: bytes = b"k" * 32,
              blob: bytes | None = None, packet: UserMessage | None = None) -> UserMessage:
    """A message as it arrives, its body encrypted by the second implementation for the desk's key."""
    from lior.protocols.security.encryption import PROVIDERS

    packet = packet or packet_of(message(body=body))
    clear = bytes(packet.body)
    own = desk.files.keys.make(PROVIDERS[level])
    security = packet.security
    if security is None:
        security = packet.security = Security(SecurityHeader(1 | DE), encode_sid(ALICE))
    security.header.flags |= EB
    security.encryption_key = second.make_blob(algorithm, key, pem_of(own)) if blob is None else blob
    packet.body = second.enciphered(clear, algorithm, key)
    packet.properties.message_size = len(packet.body)
    packet.properties.privacy_level, packet.properties.encryption_algorithm = level, algorithm
    packet.user.source_queue_manager = SENDER.bytes_le
    return arrived(packet)
