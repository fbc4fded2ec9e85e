"""What a queue holds: a message and its enumerations ([MS-MQDMPR] 3.1.1.12).

Numbers are plain ints in messages; the enumerations name them at the edges. A message that a queue has
taken is never changed: what happens to it there (locks, counts) lives in its position.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple
from uuid import UUID

INFINITE: Final = 0xFFFFFFFF  # a time or a quota without end
NULL_GUID: Final = UUID(int=0)
NULL_CORRELATION_ID: Final = bytes(20)
MAX_MESSAGE_SIZE: Final = 0x00400000  # [MS-MQMQ] 2.2.19.1: a whole packet, headers included
MAX_LABEL_LENGTH: Final = 249  # UTF-16 code units without the NUL, [MS-MQMQ] 2.2.19.3
FIXED_HEADERS_SIZE: Final = 120  # BaseHeader 16, UserHeader 48, MessagePropertiesHeader 56


class ObjectId(NamedTuple):
    """OBJECTID ([MS-MQMQ] 2.2.8): a message, a correlation or a private queue."""

    lineage: UUID
    uniquifier: int

    def __str__(self) -> str:
        return f"{{{str(self.lineage).upper()}}}\\{self.uniquifier}"

    def to_bytes(self) -> bytes:
        return self.lineage.bytes_le + self.uniquifier.to_bytes(4, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> "ObjectId":
        return cls(UUID(bytes_le=data[:16]), int.from_bytes(data[16:20], "little"))


class DeliveryGuarantee(IntEnum):
    EXPRESS = 0
    RECOVERABLE = 1


class MessageClass(IntEnum):
    """[MS-MQMQ] 2.2.18.1.6 and the two that only [MC-MQAC] lists."""

    NORMAL = 0x0000
    REPORT = 0x0001
    ACK_REACH_QUEUE = 0x0002
    ORDER_ACK = 0x00FF
    ACK_RECEIVE = 0x4000
    NACK_BAD_DST_Q = 0x8000
    NACK_DELETED = 0x8001  # the API calls it PURGED
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    NACK_Q_EXCEED_QUOTA = 0x8003
    NACK_ACCESS_DENIED = 0x8004
    NACK_HOP_COUNT_EXCEEDED = 0x8005
    NACK_BAD_SIGNATURE = 0x8006
    NACK_BAD_ENCRYPTION = 0x8007
    NACK_COULD_NOT_ENCRYPT = 0x8008
    NACK_NOT_TRANSACTIONAL_Q = 0x8009
    NACK_NOT_TRANSACTIONAL_MSG = 0x800A
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C
    NACK_Q_DELETED = 0xC000
    NACK_Q_PURGED = 0xC001
    NACK_RECEIVE_TIMEOUT = 0xC002
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003
    NACK_RECEIVE_REJECTED = 0xC004


CUSTOM_CLASS_MASK: Final = 0xE1FF  # the bits that an application's own class may use


def is_message_class(value: int) -> bool:
    """A class that may stand in a message: known, or custom inside the mask."""
    return 0 <= value <= 0xFFFF and not value & ~CUSTOM_CLASS_MASK


class Acknowledgements(IntFlag):
    """AcknowledgementsRequested; the bits of MessagePropertiesHeader.Flags ([MS-MQMQ] 2.2.19.3)."""

    NONE = 0
    POSITIVE_ARRIVAL = 1
    POSITIVE_RECEIVE = 2
    NEGATIVE_ARRIVAL = 4
    NEGATIVE_RECEIVE = 8
    ACK_NACK_REACH_QUEUE = 4
    FULL_REACH_QUEUE = 5
    NACK_RECEIVE = 12
    FULL_RECEIVE = 14


class PrivacyLevel(IntEnum):
    NONE = 0
    BASE = 1
    ENHANCED = 3
    ADVANCED = 5


class AuthenticationLevel(IntEnum):
    NONE = 0
    SIG10 = 1
    SIG20 = 3
    SIG30 = 5
    XML_SIG = 7


class HashAlgorithm(IntEnum):
    MD2 = 0x8001
    MD4 = 0x8002
    MD5 = 0x8003
    SHA1 = 0x8004
    SHA256 = 0x800C
    SHA512 = 0x800E


class EncryptionAlgorithm(IntEnum):
    RC2 = 0x6602
    AES_128 = 0x660E
    AES_192 = 0x660F
    AES_256 = 0x6610
    RC4 = 0x6801


class SenderIdentifierType(IntEnum):
    NONE = 0
    SID = 1
    QUEUE_MANAGER = 2


@dataclass(slots=True)
class MessageSecurity:
    """Who sent the message, and how it is signed and encrypted."""

    sender_identifier_type: int = SenderIdentifierType.NONE
    sender_identifier: bytes = b""  # a SID or a queue manager's GUID, as on the wire
    sender_certificate: bytes = b""
    signature: bytes = b""
    multi_queue_signature: bytes = b""  # MQFSignatureHeader
    authentication_level: int = AuthenticationLevel.NONE  # as verified here, never as claimed
    authentication_provider_type: int = 0
    authentication_provider_name: str = ""
    symmetric_key: bytes = b""
    privacy_level: int = PrivacyLevel.NONE
    hash_algorithm: int = HashAlgorithm.SHA512
    encryption_algorithm: int = EncryptionAlgorithm.AES_256


@dataclass(slots=True)
class MessageTransaction:
    """The transaction that a message was sent in, and its place in the stream."""

    transaction_identifier: UUID = NULL_GUID
    sequence_identifier: int = 0  # TxSequenceID: TimeStamp in the high half, Ordinal in the low
    sequence_number: int = 0
    previous_sequence_number: int = 0
    index: int = 0  # the 20 bits of TransactionHeader.Flags.ID
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    final_ack_required: bool = False
    connector_queue_manager: UUID | None = None
    status_queue: str = ""


@dataclass(slots=True)
class MessageSoap:
    """What SRMP left with the message; set by the transfer only."""

    envelope: str = ""
    compound_message: bytes = b""
    body: str = ""
    header: str = ""
    receipts_to: str = ""  # URL of the stream's receipts: only the first message of a stream says it


@dataclass(slots=True)
class Message:
    """A message. Names are those of [MS-MQDMPR] 3.1.1.12 in snake_case; format names are strings."""

    body: bytes = b""
    label: str = ""
    body_type: int = 0
    extension: bytes = b""
    application_tag: int = 0
    correlation_id: bytes = NULL_CORRELATION_ID
    message_class: int = MessageClass.NORMAL.value
    priority: int = 3
    delivery_guarantee: int = DeliveryGuarantee.EXPRESS.value
    acknowledgements_requested: int = 0
    positive_journaling_requested: bool = False
    negative_journaling_requested: bool = False
    time_to_reach_queue: int = 0x54600  # four days
    time_to_be_received: int = INFINITE
    administration_queue: str = ""  # several elements are joined by commas, here and below
    response_queue: str = ""
    destination_queue: str = ""
    destination_multi_queue: str = ""
    application_deadletter_queue: str = ""
    identifier: ObjectId | None = None  # given by the queue manager that first takes the message
    source_queue_manager: UUID = NULL_GUID
    sent_time: float = 0.0  # unix seconds, UTC
    tracing_requested: bool = False
    tracing_queue: UUID = NULL_GUID
    connector_type: UUID | None = None
    hop_count: int = 0
    allow_peek_when_locked: bool = False
    security: MessageSecurity | None = None
    transaction: MessageTransaction | None = None
    soap: MessageSoap | None = None
    failure_reason: int = 0  # dead letters: the class that says why
    failed_destination: str = ""  # dead letters and journals: the queue it was in or meant for
    packet: bytes = b""  # headers as received from the wire, the truth for forwarding
    # Set from the position when a message is read:
    lookup_identifier: int = 0
    arrival_time: float = 0.0
    abort_count: int = 0
    move_count: int = 0
    last_move_time: float = 0.0

    @property
    def size(self) -> int:
        """Bytes that quotas count: headers and body ([MS-MQDMPR] 3.1.7.2.1)."""
        size = FIXED_HEADERS_SIZE + len(self.body) + len(self.extension)
        label = self.label  # UTF-16 on the wire
        if label:
            size += 2 * len(label) if label.isascii() else len(label.encode("utf-16-le", "surrogatepass"))
        return size

    @property
    def is_recoverable(self) -> bool:
        return self.delivery_guarantee != 0

    @property
    def is_encrypted(self) -> bool:
        return self.security is not None and self.security.privacy_level != PrivacyLevel.NONE

    def copy(self) -> "Message":
        """A message of its own with the same content; the immutable parts are shared."""
        new = Message.__new__(Message)  # spelled out: a loop over the names takes three times as long
        new.body = self.body
        new.label = self.label
        new.body_type = self.body_type
        new.extension = self.extension
        new.application_tag = self.application_tag
        new.correlation_id = self.correlation_id
        new.message_class = self.message_class
        new.priority = self.priority
        new.delivery_guarantee = self.delivery_guarantee
        new.acknowledgements_requested = self.acknowledgements_requested
        new.positive_journaling_requested = self.positive_journaling_requested
        new.negative_journaling_requested = self.negative_journaling_requested
        new.time_to_reach_queue = self.time_to_reach_queue
        new.time_to_be_received = self.time_to_be_received
        new.administration_queue = self.administration_queue
        new.response_queue = self.response_queue
        new.destination_queue = self.destination_queue
        new.destination_multi_queue = self.destination_multi_queue
        new.application_deadletter_queue = self.application_deadletter_queue
        new.identifier = self.identifier
        new.source_queue_manager = self.source_queue_manager
        new.sent_time = self.sent_time
        new.tracing_requested = self.tracing_requested
        new.tracing_queue = self.tracing_queue
        new.connector_type = self.connector_type
        new.hop_count = self.hop_count
        new.allow_peek_when_locked = self.allow_peek_when_locked
        new.security = self.security
        new.transaction = self.transaction
        new.soap = self.soap
        new.failure_reason = self.failure_reason
        new.failed_destination = self.failed_destination
        new.packet = self.packet
        new.lookup_identifier = self.lookup_identifier
        new.arrival_time = self.arrival_time
        new.abort_count = self.abort_count
        new.move_count = self.move_count
        new.last_move_time = self.last_move_time
        return new
