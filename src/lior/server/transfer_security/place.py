"""Where a data directory keeps keys and certificates."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa

from lior.protocols.security.policy import DEFAULT_POLICY, SecurityPolicy
from lior.server.transfer_security.certificates import CertificateRegistry
from lior.server.transfer_security.keys import OwnKeys, PeerKeys


class SecurityFiles:
    """`DIR/security` of a data directory; None for a queue manager in memory, whose keys end with it."""

    def __init__(self, data: str | os.PathLike[str] | None, policy: SecurityPolicy = DEFAULT_POLICY, *,
                 generate: Callable[[int], rsa.RSAPrivateKey] | None = None) -> None:
        place = None if data is None else Path(data) / "security"
        self.policy = policy
        self.keys = OwnKeys(place and place / "keys", policy, generate)
        self.peers = PeerKeys(place and place / "peers")
        self.certificates = CertificateRegistry(place and place / "certificates")
