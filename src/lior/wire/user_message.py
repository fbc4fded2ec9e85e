"""A UserMessage packet: one whole message with its headers ([MS-MQMQ] 2.2.20).

`decode` takes the bytes of exactly one packet, its SessionHeader included, and either gives all of it or raises
Malformed; it copies no body and allocates nothing that the packet's own length does not bound. `packet` keeps what
came; `encode` writes the fields, with padding of zeros (what padding holds is nobody's business: 2.2.19.3).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Self

from lior.errors import InvalidParameter, Malformed, MessageTooLarge
from lior.wire.headers import (
    AH,
    AQ_SHIFT,
    CQ,
    DH,
    DM_SHIFT,
    DQ_SHIFT,
    HH,
    IN,
    MAX_LABEL_UNITS,
    MAX_PACKET_SIZE,
    MP,
    MQ,
    PRESENCE_MASK,
    QUEUE_TYPES_MASK,
    RQ_SHIFT,
    SH,
    TH,
    TR,
    USER_SH,
    BaseHeader,
    MessagePropertiesHeader,
    SessionHeader,
    UserHeader,
)
from lior.wire.optional_headers import Debug, MultiQueueFormat, Security, Soap, Transaction
from lior.wire.queue_names import (
    ABSENT,
    ADMINISTRATION_TYPES,
    DESTINATION_TYPES,
    PacketName,
    decode_packet_name,
    encode_packet_name,
    padding,
    utf16_text,
)
from lior.wire.srmp_packet import Srmp

_USER_AT: Final = BaseHeader.SIZE
_NAMES_AT: Final = BaseHeader.SIZE + UserHeader.SIZE
_GUID_SIZE: Final = 16


def _malformed(what: str, where: str) -> Malformed:
    return Malformed(what, where=where, remedy="the packet was cut or its sizes are wrong")


@dataclass(slots=True)
class UserMessage:
    """The parts of a packet. Sizes and presence flags in the headers are set by `encode`; the rest is the caller's."""

    base: BaseHeader
    user: UserHeader
    properties: MessagePropertiesHeader
    body: bytes | memoryview = b""  # AllocationBodySize bytes: the ciphertext where the body is encrypted
    label: bytes = b""  # UTF-16 with its NUL, or nothing
    extension: bytes = b""
    destination_queue: PacketName = ABSENT
    admin_queue: PacketName = ABSENT
    response_queue: PacketName = ABSENT
    connector_type: bytes | None = None
    transaction: Transaction | None = None
    security: Security | None = None
    debug: Debug | None = None
    srmp: Srmp | None = None  # only in what is handed out to remote readers
    soap: Soap | None = None
    multi_queue: MultiQueueFormat | None = None
    session: SessionHeader | None = None
    packet: bytes = field(default=b"", repr=False, compare=False)  # as received
    body_at: int = field(default=0, repr=False, compare=False)  # where the body was in `packet`
    body_end: int = field(default=0, repr=False, compare=False)

    @property
    def label_text(self) -> str:
        return self.label[:-2].decode("utf-16-le", "surrogatepass")

    @classmethod
    def decode(cls, packet: bytes | bytearray | memoryview, *, remote_read: bool = False) -> Self:
        """The message in one packet. Anything but bytes is copied first: a buffer may change under the body. What a
        `remote_read` gave may be a message that came over HTTP."""
        data, base = _checked_base(packet)
        end = base.packet_size
        session = SessionHeader.decode(data, end) if base.flags & SH else None
        user, destination, admin, response, connector_type, at = _decode_user_header(data, end)
        flags = user.flags
        transaction, security, debug, srmp, soap, multi_queue = None, None, None, None, None, None
        if flags & TH:
            transaction, at = Transaction.decode(data, at, end)
        if flags & USER_SH:
            security, at = Security.decode(data, at, end)
        properties = MessagePropertiesHeader.decode(data, at, end)
        label_at = at + MessagePropertiesHeader.SIZE
        extension_at = label_at + 2 * properties.label_length
        body_at = extension_at + properties.extension_size
        body_end = body_at + properties.allocation_body_size
        at = body_end + (-body_end & 3)
        if at > end or properties.label_length > MAX_LABEL_UNITS \
                or properties.message_size > properties.allocation_body_size:
            raise _bad_sizes(properties, label_at, end)
        label = data[label_at:extension_at]
        if label:
            utf16_text(label, f"Label at {label_at}")
        if base.flags & DH:
            debug, at = Debug.decode(data, at, end)
        if flags & AH and remote_read:
            srmp, at = Srmp.decode(data, at, end)
        if flags & HH:
            soap, at = Soap.decode(data, at, end, last=not flags & MQ)
        if flags & MQ:
            multi_queue, at = MultiQueueFormat.decode(data, at, end)
        # Nothing is said of padding behind the two headers that end with text or a signature.
        if at != end and at + (-at & 3) != end:
            raise _malformed(f"{end - at} bytes behind the last header", f"offset {at}")
        return cls(base, user, properties, memoryview(data)[body_at:body_end], label, data[extension_at:body_at],
                   destination, admin, response, connector_type, transaction, security, debug, srmp, soap, multi_queue,
                   session, data, body_at, body_end)

    def encode(self) -> bytes:
        """The packet: sizes, presence flags and queue types are computed and written into the headers."""
        parts: list[bytes | memoryview] = [
            b"", b"", encode_packet_name(self.destination_queue), encode_packet_name(self.admin_queue),
            encode_packet_name(self.response_queue), self.connector_type or b""]
        if self.transaction is not None:
            parts.append(self.transaction.encode())
        if self.security is not None:
            parts.append(self.security.encode())
        self._size_properties()
        parts += (self.properties.encode(), self.label, self.extension, self.body)
        parts.append(padding(len(self.label) + len(self.extension) + len(self.body)))
        if self.debug is not None:
            parts.append(self.debug.encode())
        if self.srmp is not None:
            parts.append(self.srmp.encode())
        if self.soap is not None:
            parts.append(self.soap.encode())
        if self.multi_queue is not None:
            parts.append(self.multi_queue.encode())
        size = _NAMES_AT + sum(map(len, parts))
        if size != self.base.packet_size:  # a packet may have come without padding behind its last header
            parts.append(padding(size))
            size += len(parts[-1])
        if size > MAX_PACKET_SIZE:
            raise MessageTooLarge(f"a packet of {size} bytes", where="UserMessage",
                                  remedy=f"a packet has at most {MAX_PACKET_SIZE} bytes, headers included")
        self._set_flags(size)
        parts[:2] = self.base.encode(), self.user.encode()
        if self.session is not None:
            parts.append(self.session.encode())
        return b"".join(parts)

    def _size_properties(self) -> None:
        properties, label = self.properties, self.label
        properties.label_length = len(label) // 2
        properties.extension_size = len(self.extension)
        properties.allocation_body_size = len(self.body)
        if properties.message_size > len(self.body):
            raise InvalidParameter(f"MessageSize {properties.message_size} for a body of {len(self.body)} bytes",
                                   where="MessagePropertiesHeader")
        if label and (len(label) & 1 or properties.label_length > MAX_LABEL_UNITS or label[-2:] != b"\0\0"):
            raise InvalidParameter(f"a label of {len(label)} bytes", where="MessagePropertiesHeader.Label",
                                   remedy="it has at most 249 UTF-16 units and a NUL")

    def _set_flags(self, size: int) -> None:
        base, user = self.base, self.user
        base.packet_size = size
        base.flags = (base.flags & ~(IN | SH | DH) | (SH if self.session is not None else 0)
                      | (DH if self.debug is not None else 0))
        dq, aq, rq = self.destination_queue.type, self.admin_queue.type, self.response_queue.type
        user.flags = (
            user.flags & ~(PRESENCE_MASK | QUEUE_TYPES_MASK) | MP | dq << DQ_SHIFT | aq << AQ_SHIFT | rq << RQ_SHIFT
            | (USER_SH if self.security is not None else 0) | (TH if self.transaction is not None else 0)
            | (CQ if self.connector_type is not None else 0) | (MQ if self.multi_queue is not None else 0)
            | (AH if self.srmp is not None else 0) | (HH if self.soap is not None else 0))
        what = _user_flags_problem(user.flags)
        if not what and base.flags & TR and not base.flags & DH:
            what = "tracing without a DebugHeader"
        if not what and self.connector_type is not None and len(self.connector_type) != _GUID_SIZE:
            what = f"a ConnectorType of {len(self.connector_type)} bytes"
        if what:
            raise InvalidParameter(what, where="UserMessage")

    @property
    def envelope(self) -> bytes:
        """The packet as received without its body and its SessionHeader, whatever was done to the fields since.

        `rejoin` puts the body back; one that was decrypted is not the body of this packet any more."""
        packet, body_at = self.packet, self.body_at
        if not packet or not packet[2] & SH:
            return packet[:body_at] + packet[self.body_end :]
        flags = (int.from_bytes(packet[2:4], "little") & ~SH).to_bytes(2, "little")
        return b"".join((packet[:2], flags, packet[4:body_at], packet[self.body_end : -SessionHeader.SIZE]))


def rejoin(envelope: bytes, body: bytes | memoryview) -> bytes:
    """The packet whose envelope and body were kept apart, byte for byte as it was received."""
    end = BaseHeader.decode(envelope).packet_size
    if len(envelope) + len(body) != end:
        raise _malformed(f"{len(envelope)} bytes of headers and {len(body)} of body make no packet of {end}",
                         "envelope")
    body_at = _body_at(envelope, len(envelope))
    return b"".join((envelope[:body_at], body, envelope[body_at:]))


def _body_at(data: bytes, end: int) -> int:
    user, _, _, _, _, at = _decode_user_header(data, end)
    if user.flags & TH:
        _, at = Transaction.decode(data, at, end)
    if user.flags & USER_SH:
        _, at = Security.decode(data, at, end)
    properties = MessagePropertiesHeader.decode(data, at, end)
    return at + MessagePropertiesHeader.SIZE + 2 * properties.label_length + properties.extension_size


def _checked_base(packet: bytes | bytearray | memoryview) -> tuple[bytes, BaseHeader]:
    if len(packet) > MAX_PACKET_SIZE + SessionHeader.SIZE:
        raise _malformed(f"{len(packet)} bytes", "UserMessage")
    data = packet if type(packet) is bytes else bytes(packet)
    base = BaseHeader.decode(data)
    base.check()
    if base.flags & (IN | TR) and (base.flags & IN or not base.flags & DH):
        raise _malformed(f"flags 0x{base.flags:04X}: internal, or traced without a DebugHeader", "BaseHeader.Flags")
    size = base.packet_size + (SessionHeader.SIZE if base.flags & SH else 0)
    if len(data) != size:
        raise _malformed(f"{len(data)} bytes where PacketSize and flags say {size}", "BaseHeader.PacketSize")
    return data, base


_Names = tuple[UserHeader, PacketName, PacketName, PacketName, bytes | None, int]


def _decode_user_header(data: bytes, end: int) -> _Names:
    user = UserHeader.decode(data, _USER_AT, end)
    flags = user.flags
    what = _user_flags_problem(flags)
    if what:
        raise _malformed(what, "UserHeader.Flags")
    at = _NAMES_AT
    destination = admin = response = ABSENT
    if dq := flags >> DQ_SHIFT & 7:
        destination, at = decode_packet_name(dq, data, at, end, _USER_AT)
    if aq := flags >> AQ_SHIFT & 7:
        admin, at = decode_packet_name(aq, data, at, end, _USER_AT)
    if rq := flags >> RQ_SHIFT & 7:
        response, at = decode_packet_name(rq, data, at, end, _USER_AT)
    if not flags & CQ:
        return user, destination, admin, response, None, at
    if end - at < _GUID_SIZE:
        raise _malformed(f"{_GUID_SIZE} bytes belong here, {end - at} are left", f"ConnectorType at {at}")
    return user, destination, admin, response, data[at : at + _GUID_SIZE], at + _GUID_SIZE


@lru_cache(maxsize=1024)
def _user_flags_problem(flags: int) -> str:
    """What 2.2.19.2 does not allow. A hop count of 30 or 31 is answered with its own class, not here."""
    mode = flags >> DM_SHIFT & 3
    if not flags & MP:
        return "no MessagePropertiesHeader"
    if mode > 1:
        return f"delivery mode {mode}"
    if flags & TH and not mode:
        return "an express message with a TransactionHeader"
    if flags >> DQ_SHIFT & 7 not in DESTINATION_TYPES:
        return f"destination queue type {flags >> DQ_SHIFT & 7}"
    if flags >> AQ_SHIFT & 7 not in ADMINISTRATION_TYPES:  # RQ may have all its eight values
        return f"administration queue type {flags >> AQ_SHIFT & 7}"
    return ""


def _bad_sizes(properties: MessagePropertiesHeader, at: int, end: int) -> Malformed:
    return _malformed(
        f"label of {properties.label_length} units, extension of {properties.extension_size} bytes, body of "
        f"{properties.message_size} in {properties.allocation_body_size} bytes, {max(end - at, 0)} bytes left",
        f"MessagePropertiesHeader at {at - MessagePropertiesHeader.SIZE}")
