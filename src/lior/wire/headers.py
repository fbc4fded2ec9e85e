"""Fixed MSMQ headers: bytes <-> slotted objects ([MS-MQMQ] 2.2.19 and 2.2.20).

Only the parts of constant size are here; what follows them (names, blobs, text) belongs to the modules that know
the whole packet. Reserved fields and unused flag bits are kept as they came, so that a packet writes back unchanged.
GUIDs stay 16 raw bytes: most packets are passed on, and making a UUID costs more than the rest of the header.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Final, Self, TypeVar

from lior.errors import InvalidParameter, Malformed
from lior.message import INFINITE, MAX_MESSAGE_SIZE, NULL_CORRELATION_ID

SIGNATURE: Final = 0x524F494C  # b"LIOR" on the wire
VERSION: Final = 0x10
NULL_GUID_BYTES: Final = bytes(16)
MAX_PACKET_SIZE: Final = MAX_MESSAGE_SIZE
MAX_LABEL_UNITS: Final = 0xFA  # LabelLength counts the NUL
MAX_HOPS: Final = 0x1D
MAX_SENDER_CERT_SIZE: Final = 0xFFFF

# BaseHeader.Flags
PRIORITY_MASK: Final = 0x0007
IN, SH, DH, TR = 0x0008, 0x0010, 0x0020, 0x0100  # internal, SessionHeader, DebugHeader, tracing

# UserHeader.Flags; DQ, AQ and RQ are three bits each at these shifts
HOPS_MASK: Final = 0x1F  # RC
DM_SHIFT, DQ_SHIFT, AQ_SHIFT, RQ_SHIFT = 5, 10, 13, 16
QUEUE_TYPES_MASK: Final = 0x1FF << DQ_SHIFT
JN, JP = 1 << 8, 1 << 9
USER_SH, TH, MP, CQ, MQ = 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23  # a SecurityHeader here, not a session's
AH, HH = 1 << 25, 1 << 28
PRESENCE_MASK: Final = USER_SH | TH | MP | CQ | MQ | HH

# MessagePropertiesHeader.Flags
ACK_MASK: Final = 0x0F

# TransactionHeader.Flags
CG, FA, FM, LM = 1, 2, 4, 8
TX_ID_SHIFT, TX_ID_MASK = 4, 0xFFFFF

# SecurityHeader.Flags
ST_MASK: Final = 0x000F
AU, EB, DE, AI = 0x0010, 0x0020, 0x0040, 0x0080
AS_SHIFT, AS_MASK = 8, 0x0F00

# DebugHeader.Flags
QT_MASK, QT_PUBLIC = 0x0003, 0x0001

# Section and header identifiers
DESTINATION_ID, ADMINISTRATION_ID, RESPONSE_ID, SIGNATURE_ID = 0x0064, 0x00C8, 0x012C, 0x015E
SOAP_HEADER_ID, SOAP_BODY_ID = 0x0320, 0x0384


class Header:
    """A header of constant size; subclasses are @wire dataclasses, one field for each field on the wire."""

    __slots__ = ()
    SIZE: ClassVar[int]
    _unpack_from: ClassVar[Callable[..., Any]]
    _pack: ClassVar[Callable[..., bytes]]
    _values: ClassVar[Callable[..., Any]]
    _blobs: ClassVar[tuple[tuple[str, int], ...]]

    @classmethod
    def decode(cls, data: bytes | memoryview, at: int = 0, end: int | None = None) -> Self:
        """The header at `at`; nothing at or after `end` is read."""
        if end is not None and end - at < cls.SIZE:
            raise _cut(cls, at, end)
        try:
            return cls(*cls._unpack_from(data, at))
        except struct.error:
            raise _cut(cls, at, len(data)) from None

    def encode(self) -> bytes:
        for name, size in self._blobs:  # struct would cut or fill them without a word
            if len(getattr(self, name)) != size:
                raise InvalidParameter(f"{name} has {len(getattr(self, name))} bytes where {size} belong",
                                       where=type(self).__name__)
        try:
            return self._pack(*self._values(self))
        except struct.error as error:
            raise InvalidParameter(f"a value does not fit its field: {error}", where=type(self).__name__,
                                   remedy="numbers are unsigned, as wide as [MS-MQMQ] 2.2.19 says") from None


def _cut(cls: type[Header], at: int, end: int) -> Malformed:
    return Malformed(f"{cls.SIZE} bytes belong here, {max(end - at, 0)} are left", where=f"{cls.__name__} at {at}",
                     remedy="the packet was cut or its sizes are wrong")


H = TypeVar("H", bound=Header)


def wire(layout: str, size: int) -> Callable[[type[H]], type[H]]:
    """Compile once; refuse at import a class that disagrees with the layout or with the specification's size."""
    compiled = struct.Struct(layout)

    def bind(cls: type[H]) -> type[H]:
        names = [f.name for f in fields(cls)]  # type: ignore[arg-type]  # every subclass is a dataclass
        empty = compiled.unpack(bytes(compiled.size))
        if compiled.size != size or len(empty) != len(names):
            raise TypeError(f"{cls.__name__}: {layout} is not {names} in {size} bytes")
        cls.SIZE, cls._unpack_from, cls._pack = size, compiled.unpack_from, compiled.pack
        cls._values = attrgetter(*names)
        cls._blobs = tuple((n, len(v)) for n, v in zip(names, empty, strict=True) if isinstance(v, bytes))
        return cls

    return bind


@wire("<BBHIII", size=16)
@dataclass(slots=True)
class BaseHeader(Header):
    """[MS-MQMQ] 2.2.19.1"""

    version_number: int = VERSION
    reserved: int = 0  # ignored on receipt: the frames of [MS-MQQB] 4.1 carry C0, 5A and CD
    flags: int = 3  # bits 0-2: priority
    signature: int = SIGNATURE
    packet_size: int = 0  # without the SessionHeader of a UserMessage, with that of a SessionAck
    time_to_reach_queue: int = INFINITE

    def check(self) -> None:
        """What every packet must have before its PacketSize may be believed."""
        if self.version_number != VERSION or self.signature != SIGNATURE:
            raise Malformed(f"version 0x{self.version_number:02X} and signature 0x{self.signature:08X}",
                            where="BaseHeader", remedy="the peer does not speak the binary message queuing protocol")
        if not self.SIZE <= self.packet_size <= MAX_PACKET_SIZE:
            raise Malformed(f"a packet of {self.packet_size} bytes", where="BaseHeader.PacketSize",
                            remedy=f"a packet has {self.SIZE} to {MAX_PACKET_SIZE} bytes")


@wire("<16s16sIIII", size=48)
@dataclass(slots=True)
class UserHeader(Header):
    """[MS-MQMQ] 2.2.19.2, the part before the queue names"""

    source_queue_manager: bytes = NULL_GUID_BYTES
    queue_manager_address: bytes = NULL_GUID_BYTES  # null for a direct format name
    time_to_be_received: int = INFINITE
    sent_time: int = 0
    message_id: int = 0
    flags: int = MP


@wire("<BBH20sIIIIIIII", size=56)
@dataclass(slots=True)
class MessagePropertiesHeader(Header):
    """[MS-MQMQ] 2.2.19.3, the part before the label"""

    flags: int = 0
    label_length: int = 0  # UTF-16 code units with the NUL, 0 for no label
    message_class: int = 0
    correlation_id: bytes = NULL_CORRELATION_ID
    body_type: int = 0
    application_tag: int = 0
    message_size: int = 0
    allocation_body_size: int = 0  # what the body takes in the packet
    privacy_level: int = 0
    hash_algorithm: int = 0
    encryption_algorithm: int = 0
    extension_size: int = 0


@wire("<HHIHHHH", size=16)
@dataclass(slots=True)
class SessionHeader(Header):
    """[MS-MQMQ] 2.2.20.4"""

    ack_sequence_number: int = 0
    recoverable_msg_ack_seq_number: int = 0
    recoverable_msg_ack_flags: int = 0
    user_msg_sequence_number: int = 0
    recoverable_msg_seq_number: int = 0
    window_size: int = 64
    reserved: int = 0


@wire("<IQII", size=20)
@dataclass(slots=True)
class TransactionHeader(Header):
    """[MS-MQMQ] 2.2.20.5, the part before ConnectorQMGuid"""

    flags: int = 0
    tx_sequence_id: int = 0  # TimeStamp in the high half, Ordinal in the low: one little-endian number
    tx_sequence_number: int = 1
    previous_tx_sequence_number: int = 0


@wire("<HHHHII", size=16)
@dataclass(slots=True)
class SecurityHeader(Header):
    """[MS-MQMQ] 2.2.20.6, the part before SecurityData"""

    flags: int = 0
    sender_id_size: int = 0
    encryption_key_size: int = 0
    signature_size: int = 0
    sender_cert_size: int = 0
    provider_info_size: int = 0


@wire("<HHI", size=8)
@dataclass(slots=True)
class SoapSectionHeader(Header):
    """[MS-MQMQ] 2.2.20.7: what stands before each of the two texts"""

    section_id: int
    reserved: int = 0
    data_length: int = 0  # UTF-16 code units with the NUL


@wire("<HHIII", size=16)
@dataclass(slots=True)
class CompoundMessageHeader(Header):
    """[MS-MQRR] 2.2.5.1.2.2, the part before Data"""

    header_id: int
    reserved: int = 0
    http_body_size: int = 0
    msg_body_size: int = 0
    msg_body_offset: int = 0  # in Data


@wire("<HH", size=4)
@dataclass(slots=True)
class DebugHeader(Header):
    """[MS-MQMQ] 2.2.20.8, the part before QueueIdentifier"""

    flags: int = 0
    reserved: int = 0


@wire("<IHHI", size=12)
@dataclass(slots=True)
class MQFAddressHeader(Header):
    """[MS-MQMQ] 2.2.20.2, the part before FormatNameList"""

    header_size: int = 12  # with itself and the names
    header_id: int = DESTINATION_ID
    reserved: int = 0
    element_count: int = 0


@wire("<HHI", size=8)
@dataclass(slots=True)
class MQFSignatureHeader(Header):
    """[MS-MQMQ] 2.2.20.3, the part before Signature; unlike 2.2.20.2 the identifier is first"""

    header_id: int = SIGNATURE_ID
    reserved: int = 0
    size: int = 0  # of the signature alone
