"""Digital signatures of messages ([MS-MQQB] 3.1.5.8.3 and 3.1.7.1.4, [MS-MQMQ] 2.5).

A signature is RSASSA-PKCS1-v1_5 over the hash of the listed fields. Whatever is wrong with one (its bytes, the
certificate, the key, a hash that is not allowed) gives the same answer: not signed by that certificate.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils

from lior.errors import HRESULTS, InvalidParameter, LiorError, error_from_code
from lior.message import AuthenticationLevel, HashAlgorithm, Message, MessageTransaction, ObjectId
from lior.wire.digests import DEFAULT_FORM, NO_QUEUE, DigestFields, DigestForm, QueueName, QueueNameForm, message_digest
from lior.wire.headers import (
    DM_SHIFT,
    JN,
    JP,
    MAX_SENDER_CERT_SIZE,
    NULL_GUID_BYTES,
    PRIORITY_MASK,
    MQFAddressHeader,
)
from lior.wire.packet_format_names import Hosts, element_name, format_name
from lior.wire.queue_names import (
    DIRECT,
    PRIVATE_ELSEWHERE,
    PRIVATE_ON_DESTINATION,
    PRIVATE_ON_SOURCE,
    SAME_AS_ADMINISTRATION,
    PacketName,
    encode_elements,
    encode_packet_name,
)
from lior.wire.queue_names import (
    NO_QUEUE as NO_QUEUE_TYPE,
)
from lior.wire.user_message import UserMessage

MAX_KEY_BITS: Final = 8192  # a longer key makes a verification expensive without making it safer
_WHERE: Final = "signature"

# DigestInfo of RFC 8017 section 9.2, note 1, up to the digest itself
_DIGEST_INFO: Final[dict[int, bytes]] = {
    HashAlgorithm.MD2: bytes.fromhex("3020300c06082a864886f70d020205000410"),
    HashAlgorithm.MD4: bytes.fromhex("3020300c06082a864886f70d020405000410"),
    HashAlgorithm.MD5: bytes.fromhex("3020300c06082a864886f70d020505000410"),
    HashAlgorithm.SHA1: bytes.fromhex("3021300906052b0e03021a05000414"),
    HashAlgorithm.SHA256: bytes.fromhex("3031300d060960864801650304020105000420"),
    HashAlgorithm.SHA512: bytes.fromhex("3051300d060960864801650304020305000440"),
}
_SIGNING_HASHES: Final[dict[int, hashes.HashAlgorithm]] = {
    HashAlgorithm.MD5: hashes.MD5(),
    HashAlgorithm.SHA1: hashes.SHA1(),
    HashAlgorithm.SHA256: hashes.SHA256(),
    HashAlgorithm.SHA512: hashes.SHA512(),
}


class SignatureOrder(Enum):
    LITTLE = "little"
    BIG = "big"


def in_wire_order(signature: bytes, order: SignatureOrder = SignatureOrder.LITTLE) -> bytes:
    """RFC 8017's big-endian number to the bytes of the packet, and back.

    The documents do not say which end comes first. CryptoAPI, which made every signature of Windows, hands them
    out little-endian, as [MS-MQQB] 2.4.2 has the session key; only a signed message of Windows can settle it.
    """
    return signature[::-1] if order is SignatureOrder.LITTLE else signature


# ---- certificates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SenderCertificate:
    """What verification needs of a certificate: its RSA key and its dates (seconds since 1970, UTC)."""

    key: rsa.RSAPublicKey
    not_before: float
    not_after: float

    def valid_at(self, wall: float) -> bool:
        return self.not_before <= wall <= self.not_after


def read_certificate(der: bytes) -> SenderCertificate | None:
    """The certificate in these bytes; None for what is no X.509 certificate of a usable RSA key."""
    if not 0 < len(der) <= MAX_SENDER_CERT_SIZE:
        return None
    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key()
        if not isinstance(key, rsa.RSAPublicKey) or key.key_size > MAX_KEY_BITS:
            return None
        if key.public_numbers().e > 0xFFFFFFFF:  # [MS-MQMQ] 2.2.20.6: it has 32 bits
            return None
        return SenderCertificate(
            key, certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())
    except (ValueError, TypeError, OverflowError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None


# ---- what is signed -------------------------------------------------------------------------------------------------


def digest_fields(packet: UserMessage, body: bytes | memoryview, form: DigestForm = DEFAULT_FORM) -> DigestFields:
    """The fields of [MS-MQMQ] 2.5 of a packet whose clear body is `body`."""
    user, properties, multi_queue = packet.user, packet.properties, packet.multi_queue
    with_text = form.queue_names is QueueNameForm.TEXT
    hosts = _hosts(packet) if with_text else _NOWHERE
    names = NO_QUEUE
    if multi_queue is not None:
        elements = multi_queue.destination.names
        names = QueueName(encode_elements(elements, MQFAddressHeader.SIZE),
                          ",".join(map(element_name, elements)) if with_text else "")
    return DigestFields(
        correlation_id=properties.correlation_id,
        application_tag=properties.application_tag,
        body=body,
        label=packet.label_text,
        response_queue=_queue_name(packet.response_queue, hosts, with_text),
        admin_queue=_queue_name(packet.admin_queue, hosts, with_text),
        extension=packet.extension,
        format_name_list=names,
        source_queue_manager=UUID(bytes_le=user.source_queue_manager),
        delivery_mode=user.flags >> DM_SHIFT & 3,
        priority=packet.base.flags & PRIORITY_MASK,
        positive_journaling=user.flags & JP != 0,
        negative_journaling=user.flags & JN != 0,
        flags=properties.flags,
        message_class=properties.message_class,
        body_type=properties.body_type,
        connector_type=None if packet.connector_type is None else UUID(bytes_le=packet.connector_type),
        destination_queue=_queue_name(packet.destination_queue, hosts, with_text),
    )


_NOWHERE: Final = Hosts(NULL_GUID_BYTES, NULL_GUID_BYTES)
_KNOWS_ITS_HOST: Final = (PRIVATE_ON_SOURCE, PRIVATE_ON_DESTINATION, PRIVATE_ELSEWHERE)


def _hosts(packet: UserMessage) -> Hosts:
    hosts = Hosts(packet.user.source_queue_manager, packet.user.queue_manager_address)
    admin = packet.admin_queue
    return Hosts(hosts.source, hosts.destination, hosts.of(admin) if admin.type in _KNOWS_ITS_HOST else None)


def _queue_name(name: PacketName, hosts: Hosts, with_text: bool) -> QueueName:
    """The bytes without the padding: a relay may lay the packet out anew."""
    data = encode_packet_name(name)
    if name.type == DIRECT:
        data = data[: 2 + int.from_bytes(data[:2], "little")]
    if not with_text or name.type in (NO_QUEUE_TYPE, SAME_AS_ADMINISTRATION):
        return QueueName(data)
    return QueueName(data, format_name(name, hosts))


# ---- signing --------------------------------------------------------------------------------------------------------


def sign(
    packet: UserMessage,
    key: rsa.RSAPrivateKey,
    level: int,
    hash_algorithm: int,
    *,
    form: DigestForm = DEFAULT_FORM,
    order: SignatureOrder = SignatureOrder.LITTLE,
    allowed: frozenset[int] | None = None,
) -> bytes:
    """The signature of a packet with a clear body, in wire order; where it goes is the caller's to know."""
    digest = _digest(packet, packet.body, level, hash_algorithm, form, allowed)
    algorithm = _SIGNING_HASHES.get(hash_algorithm)
    if algorithm is None:
        raise _cannot_sign(f"no signature is made with hash algorithm 0x{hash_algorithm:04X}")
    try:
        signature = key.sign(digest, padding.PKCS1v15(), utils.Prehashed(algorithm))
    except (ValueError, UnsupportedAlgorithm):
        raise _cannot_sign(f"a key of {key.key_size} bits has no room for this hash") from None
    return in_wire_order(signature, order)


def _digest(packet: UserMessage, body: bytes | memoryview, level: int, hash_algorithm: int, form: DigestForm,
            allowed: frozenset[int] | None) -> bytes:
    fields = digest_fields(packet, body, form)
    if allowed is None:
        return message_digest(level, fields, hash_algorithm, form=form)
    return message_digest(level, fields, hash_algorithm, form=form, allowed=allowed)


def _cannot_sign(what: str) -> LiorError:
    return error_from_code(HRESULTS["MQ_ERROR_CANNOT_SIGN_DATA_EX"], what, where=_WHERE,
                           remedy="use SHA-512 and an RSA key of 2048 bits")


# ---- verification ---------------------------------------------------------------------------------------------------


def verified_level(
    packet: UserMessage,
    body: bytes | memoryview,
    key: rsa.RSAPublicKey,
    *,
    allowed: frozenset[int],
    form: DigestForm = DEFAULT_FORM,
    order: SignatureOrder = SignatureOrder.LITTLE,
) -> int:
    """The AuthenticationLevel that the packet's signature proves under this key; 0 if it proves nothing.

    3.1.5.8.3: SecurityData.Signature is tried as one of MSMQ 2.0, then of 1.0; only without one is
    MultiQueueFormatHeader.Signature looked at.
    """
    security, lists = packet.security, packet.multi_queue
    if security is not None and security.signature:
        return _first_match(packet, body, key, security.signature, _SINGLE, allowed, form, order)
    if lists is not None and lists.signature:
        return _first_match(packet, body, key, lists.signature, _MULTIPLE, allowed, form, order)
    return AuthenticationLevel.NONE


_SINGLE: Final = (AuthenticationLevel.SIG20.value, AuthenticationLevel.SIG10.value)
_MULTIPLE: Final = (AuthenticationLevel.SIG30.value,)


def _first_match(packet: UserMessage, body: bytes | memoryview, key: rsa.RSAPublicKey, signature: bytes,
                 levels: tuple[int, ...], allowed: frozenset[int], form: DigestForm, order: SignatureOrder) -> int:
    algorithm = packet.properties.hash_algorithm
    prefix = _DIGEST_INFO.get(algorithm)
    if prefix is None or algorithm not in allowed:
        return AuthenticationLevel.NONE
    signed = _recovered(key, in_wire_order(signature, order))
    if signed is None:
        return AuthenticationLevel.NONE
    for level in levels:
        try:
            digest = _digest(packet, body, level, algorithm, form, allowed)
        except LiorError:  # a label that is no UTF-16, a hash that this build lacks
            return AuthenticationLevel.NONE
        if signed == prefix + digest:  # all of it: nothing may stand before, between or behind
            return level
    return AuthenticationLevel.NONE


def _recovered(key: rsa.RSAPublicKey, signature: bytes) -> bytes | None:
    """What was signed, once the whole padding was checked: RFC 8017 8.2.2."""
    if len(signature) != (key.key_size + 7) // 8:
        return None
    try:
        return key.recover_data_from_signature(signature, padding.PKCS1v15(), None)
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return None


# ---- before there is a packet ----------------------------------------------------------------------------------------


def as_sent(message: Message, destination: str, queue_manager: UUID, transactional: bool) -> Message:
    """The message with what its queue manager is going to add, as far as a signature covers it."""
    sent = message.copy()
    sent.identifier = ObjectId(queue_manager, 1)
    sent.source_queue_manager = queue_manager
    sent.transaction = MessageTransaction() if transactional else None
    if "," in destination:
        sent.destination_multi_queue = destination
        destination = destination.partition(",")[0]  # each copy has its own, and no signature of theirs covers it
    sent.destination_queue = destination
    return sent


def check_level(level: int, several: bool) -> None:
    """3.1.7.1.4: several destinations are signed as MSMQ 3.0 does, a single one as 1.0 or 2.0."""
    right = (AuthenticationLevel.SIG30,) if several else (AuthenticationLevel.SIG10, AuthenticationLevel.SIG20)
    if level not in right:
        raise InvalidParameter(
            f"authentication level {level} for {'several destinations' if several else 'one destination'}",
            where=_WHERE, remedy="levels: 1 or 3 for one destination, 5 for several")


