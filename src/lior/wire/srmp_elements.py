"""The elements of an SRMP envelope as values ([MC-MQSRM] 2.2.3 to 2.2.7)."""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from lior.message import NULL_GUID, ObjectId
from lior.wire.strict_xml import Element

SOAP: Final = "http://schemas.xmlsoap.org/soap/envelope/"
ROUTING: Final = "http://schemas.xmlsoap.org/rp/"
SRMP: Final = "http://schemas.xmlsoap.org/srmp/"
MSMQ: Final = "msmq.namespace.xml"
SIGNATURE: Final = "http://www.w3.org/2000/02/xmldsig#"  # a draft's, not the Recommendation's (2.2.7)

LABEL_PREFIX: Final = "MSMQ:"
NAME_PREFIX: Final = "MSMQ:"  # before a format name that is no URL
MULTICAST_PREFIX: Final = "MSMQ:MULTICAST="
ORDERING_ACK: Final = "QM Ordering Ack"  # the label of every stream receipt (2.2.4.1)
NO_IDENTIFIER: Final = ObjectId(NULL_GUID, 1)  # of a message without Msmq (2.2.4.3)
LAST_DATE: Final = 0x7FFFFFFF  # 2038-01-19T03:14:07: infinite


@dataclass(frozen=True, slots=True)
class StreamId:
    """`number` has the time of the stream's start in its high half ([MC-MQSRM] 2.2.5.3.1)."""

    queue_manager: UUID
    number: int

    def __str__(self) -> str:
        return f"uid:{self.queue_manager}\\{self.number}"


@dataclass(slots=True)
class Services:
    durable: bool = False
    delivery_receipt_to: str = ""
    commitment_receipt_to: str = ""
    positive_only: bool = False
    negative_only: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.durable or self.delivery_receipt_to or self.commitment_receipt_to)


@dataclass(slots=True)
class Stream:
    stream_id: StreamId
    current: int
    previous: int | None = None  # not given: the number before
    send_receipts_to: str = ""  # of `start`, which only the first message has


@dataclass(slots=True)
class DeliveryReceipt:
    received_at: int
    id: str


@dataclass(slots=True)
class CommitmentReceipt:
    decided_at: int
    positive: bool
    id: str


@dataclass(slots=True)
class StreamReceipt:
    stream_id: StreamId
    last_ordinal: int


@dataclass(slots=True)
class Msmq:
    """The properties that only Message Queuing has (2.2.6)."""

    message_class: int = 0
    priority: int = 3
    journal: bool = False
    dead_letter: bool = False
    correlation: bytes | None = None
    trace: bool = False
    connector_type: UUID | None = None
    app: int = 0
    body_type: int = 0
    hash_algorithm: int = 0
    first: bool = False
    last: bool = False
    connector_id: UUID | None = None
    provider_type: int = 0
    provider_name: str = ""
    source_qm_guid: UUID = NULL_GUID
    destination_mqf: tuple[str, ...] = ()
    admin_mqf: tuple[str, ...] = ()
    response_mqf: tuple[str, ...] = ()
    ttrq: int = LAST_DATE


@dataclass(slots=True)
class Envelope:
    """Times are unix seconds; LAST_DATE and later are infinite. URLs and names as in the document's text."""

    to: str
    label: str | None = None  # None: the action has no MSMQ: in front
    identifier: ObjectId = NO_IDENTIFIER
    via: str = ""
    expires_at: int = LAST_DATE
    sent_at: int | None = None
    services: Services = field(default_factory=Services)
    stream: Stream | None = None
    delivery_receipt: DeliveryReceipt | None = None
    commitment_receipt: CommitmentReceipt | None = None
    stream_receipt: StreamReceipt | None = None
    msmq: Msmq | None = None
    signature: Element | None = None  # as received; its octets count
    header_text: str = ""  # <Header> with all in it, as received; or elements to be added to it
    body_text: str = ""
