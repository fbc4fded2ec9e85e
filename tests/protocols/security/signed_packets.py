"""Keys, certificates and packets that the tests of message security share."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from lior.message import Message, MessageTransaction, ObjectId
from lior.security import Sid
from lior.wire.dtyp import encode_sid
from lior.wire.headers import DE, SecurityHeader
from lior.wire.message_packet import to_user_message
from lior.wire.optional_headers import Security
from lior.wire.user_message import UserMessage

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "security"
ALICE = Sid.parse("S-1-5-21-1-2-3-1001")
BOB = Sid.parse("S-1-5-21-1-2-3-1002")
SENDER = UUID("99999999-8888-7777-6666-555555555555")
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@cache
def key_of(bits: int, number: int = 0) -> rsa.RSAPrivateKey:
    """A key of this size; `number` tells keys of one size apart."""
    if bits >= 1024:
        return rsa.generate_private_key(65537, bits)
    key = serialization.load_pem_private_key((VECTORS / "rsa512.pem").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def pem_of(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


@cache
def certificate_of(key: Any, name: str = "alice", start: int = -10, days: int = 365) -> bytes:
    """DER, signed by itself; valid from `start` days after NOW."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = NOW + timedelta(days=start)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).serial_number(5)
    builder = builder.public_key(key.public_key()).not_valid_before(begin).not_valid_after(begin + timedelta(days=days))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@dataclass(frozen=True)
class Signer:
    key: rsa.RSAPrivateKey
    certificate: bytes
    sid: Sid = ALICE

    @property
    def pem(self) -> bytes:
        return pem_of(self.key)


@cache
def alice(bits: int = 1024) -> Signer:
    return Signer(key_of(bits), certificate_of(key_of(bits)))


@cache
def bob() -> Signer:
    return Signer(key_of(1024, 1), certificate_of(key_of(1024, 1), "bob"), BOB)


def message(**fields: Any) -> Message:
    """One that has something in every field that a signature covers."""
    values: dict[str, Any] = {
        "body": b"the body of the message", "label": "A label", "body_type": 8, "extension": b"extension",
        "application_tag": 0x01020304, "correlation_id": bytes(range(20)), "priority": 5, "delivery_guarantee": 1,
        "acknowledgements_requested": 5, "positive_journaling_requested": True,
        "administration_queue": r"DIRECT=TCP:10.0.0.1\private$\admin",
        "response_queue": r"PRIVATE=99999999-8888-7777-6666-555555555555\0000000A",
        "destination_queue": r"DIRECT=OS:lior\private$\q", "identifier": ObjectId(SENDER, 7),
        "connector_type": UUID("11111111-2222-3333-4444-555555555555"),
    }
    return Message(**values | fields)


def transactional(**fields: Any) -> Message:
    return message(transaction=MessageTransaction(sequence_identifier=9, sequence_number=1), **fields)


def several(**fields: Any) -> Message:
    names = r"DIRECT=OS:lior\private$\q,DIRECT=TCP:10.1.1.1\private$\r,PUBLIC=00000000-0000-0000-0000-0000000000AB"
    return message(destination_multi_queue=names, **fields)


def packet_of(message: Message) -> UserMessage:
    """The packet as it is decoded on arrival."""
    return UserMessage.decode(to_user_message(message).encode())


def arrived(packet: UserMessage) -> UserMessage:
    """What the receiver has of a packet that was built here."""
    return UserMessage.decode(packet.encode())


def put_signature(packet: UserMessage, signature: bytes, signer: Signer, hash_algorithm: int, *,
                  sid: Sid | None = None, listed: bool = False) -> None:
    """Into the packet: SecurityData.Signature, or MultiQueueFormatHeader.Signature."""
    sender = encode_sid(sid or signer.sid)
    packet.security = Security(SecurityHeader(1 | DE), sender, b"", b"" if listed else signature, signer.certificate)
    if listed:
        assert packet.multi_queue is not None
        packet.multi_queue.signature = signature
    packet.properties.hash_algorithm = hash_algorithm
