"""Message security of a queue manager: its keys, what it knows of others, and the guard at both ends of a transfer."""

from lior.protocols.security.policy import DEFAULT_POLICY, SecurityPolicy
from lior.server.transfer_security.certificates import CertificateRegistry, RegisteredCertificate
from lior.server.transfer_security.guard import PLAIN, Checked, Guard, install
from lior.server.transfer_security.keys import OwnKeys, PeerKeys
from lior.server.transfer_security.place import SecurityFiles

__all__ = [
    "DEFAULT_POLICY",
    "PLAIN",
    "CertificateRegistry",
    "Checked",
    "Guard",
    "OwnKeys",
    "PeerKeys",
    "RegisteredCertificate",
    "SecurityFiles",
    "SecurityPolicy",
    "install",
]
