"""The headers that a UserMessage may carry, whole ([MS-MQMQ] 2.2.20.1 to 2.2.20.8).

Each `decode` takes the whole packet, where the header begins and where the packet ends, and gives the header and
where it ends. Nothing is allocated before its size has been compared with what is left. `encode` sets the sizes and
the flags that say what is there, so a header built by hand cannot contradict itself.
"""

import struct
from dataclasses import dataclass, field
from typing import Final, Self

from lior.errors import InvalidParameter, Malformed
from lior.message import SenderIdentifierType
from lior.wire.dtyp import decode_sid
from lior.wire.headers import (
    ADMINISTRATION_ID,
    CG,
    DE,
    DESTINATION_ID,
    MAX_SENDER_CERT_SIZE,
    QT_MASK,
    QT_PUBLIC,
    RESPONSE_ID,
    SIGNATURE_ID,
    SOAP_BODY_ID,
    SOAP_HEADER_ID,
    ST_MASK,
    DebugHeader,
    MQFAddressHeader,
    MQFSignatureHeader,
    SecurityHeader,
    SoapSectionHeader,
    TransactionHeader,
)
from lior.wire.queue_names import NameElement, decode_elements, encode_elements, padding, utf16_bytes, utf16_text

GUID_SIZE: Final = 16
_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")


def _malformed(what: str, where: str) -> Malformed:
    return Malformed(what, where=where, remedy="the packet was cut or its sizes are wrong")


def _take(data: bytes, at: int, size: int, end: int, where: str) -> bytes:
    if size > end - at:
        raise _malformed(f"{size} bytes announced, {max(end - at, 0)} left", f"{where} at {at}")
    return data[at : at + size]


def _check_guid(value: bytes, where: str) -> bytes:
    if len(value) != GUID_SIZE:
        raise InvalidParameter(f"a GUID of {len(value)} bytes", where=where, remedy="it has 16")
    return value


@dataclass(slots=True)
class Transaction:
    """TransactionHeader with its ConnectorQMGuid ([MS-MQMQ] 2.2.20.5)."""

    header: TransactionHeader
    connector_qm_guid: bytes | None = None

    @classmethod
    def decode(cls, data: bytes, at: int, end: int) -> tuple[Self, int]:
        header = TransactionHeader.decode(data, at, end)
        # The unused bits are ignored: the sentence that has them close the session contradicts the one that follows.
        if not header.previous_tx_sequence_number < header.tx_sequence_number:
            raise _malformed(f"message {header.tx_sequence_number} follows {header.previous_tx_sequence_number}",
                             f"TransactionHeader at {at}")
        at += TransactionHeader.SIZE
        if not header.flags & CG:
            return cls(header), at
        return cls(header, _take(data, at, GUID_SIZE, end, "ConnectorQMGuid")), at + GUID_SIZE

    def encode(self) -> bytes:
        header = self.header
        if not header.previous_tx_sequence_number < header.tx_sequence_number:
            raise InvalidParameter(
                f"message {header.tx_sequence_number} of a stream follows {header.previous_tx_sequence_number}",
                where="TransactionHeader", remedy="number the messages of a stream from 1 before they are packed")
        if self.connector_qm_guid is None:
            header.flags &= ~CG
            return header.encode()
        header.flags |= CG
        return header.encode() + _check_guid(self.connector_qm_guid, "ConnectorQMGuid")


@dataclass(slots=True)
class Security:
    """SecurityHeader with its SecurityData ([MS-MQMQ] 2.2.20.6).

    Flags.AI is no gate: frame 7 of [MS-MQQB] 4.1.7 has it clear before the data of a SID. The sizes say what is there.
    """

    header: SecurityHeader
    sender_id: bytes = b""
    encryption_key: bytes = b""
    signature: bytes = b""
    sender_cert: bytes = b""  # DER; parsed by whoever verifies
    provider_info: bytes = b""

    @classmethod
    def decode(cls, data: bytes, at: int, end: int) -> tuple[Self, int]:
        header = SecurityHeader.decode(data, at, end)
        where = f"SecurityHeader at {at}"
        sizes = (header.sender_id_size, header.encryption_key_size, header.signature_size, header.sender_cert_size,
                 header.provider_info_size)
        if header.sender_cert_size > MAX_SENDER_CERT_SIZE or not any(sizes):
            raise _malformed(f"sizes {sizes}", where)
        at += SecurityHeader.SIZE
        if sum((size + 3) & ~3 for size in sizes) > end - at:
            raise _malformed(f"sizes {sizes} with {end - at} bytes left", where)
        items: list[bytes] = []
        for size in sizes:
            items.append(data[at : at + size])
            at += (size + 3) & ~3
        security = cls(header, *items)
        what = _sender_id_problem(header.flags & ST_MASK, security.sender_id)
        if what:
            raise _malformed(what, where)
        if not header.flags & DE:
            if security.provider_info:
                _split_provider_info(security.provider_info, where)
            elif security.signature:
                raise _malformed("a signature without the provider that made it", where)
        return security, at

    @property
    def provider(self) -> tuple[int, str] | None:
        """ProviderType and ProviderName; they count only where Flags.DE is clear."""
        if not self.provider_info or self.header.flags & DE:
            return None
        return _split_provider_info(self.provider_info, "ProviderInfo")

    def encode(self) -> bytes:
        items = (self.sender_id, self.encryption_key, self.signature, self.sender_cert, self.provider_info)
        header = self.header
        (header.sender_id_size, header.encryption_key_size, header.signature_size, header.sender_cert_size,
         header.provider_info_size) = map(len, items)
        what = _sender_id_problem(header.flags & ST_MASK, self.sender_id)
        if not what and not any(items):
            what = "a security header without any data"
        if not what and header.sender_cert_size > MAX_SENDER_CERT_SIZE:
            what = f"a certificate of {header.sender_cert_size} bytes"
        if what:
            raise InvalidParameter(what, where="SecurityHeader")
        return header.encode() + b"".join([item + padding(len(item)) for item in items])


def _sender_id_problem(sender_type: int, sender_id: bytes) -> str:
    if sender_type == SenderIdentifierType.SID:
        try:
            _, size = decode_sid(sender_id)
        except Malformed as error:
            return f"SecurityID: {error.what}"
        return "" if size == len(sender_id) else f"a SID of {size} bytes in {len(sender_id)}"
    if sender_type == SenderIdentifierType.QUEUE_MANAGER:
        return "" if len(sender_id) == GUID_SIZE else f"a queue manager's GUID of {len(sender_id)} bytes"
    if sender_type != SenderIdentifierType.NONE:
        return f"no sender id has type {sender_type}"
    return f"{len(sender_id)} bytes of a sender id without a type" if sender_id else ""


def _split_provider_info(data: bytes, where: str) -> tuple[int, str]:
    if len(data) < 6 or len(data) & 1:
        raise _malformed(f"ProviderInfo of {len(data)} bytes", where)
    return _U32.unpack_from(data)[0], utf16_text(data[4:], f"{where}: ProviderName")


def provider_info(provider_type: int, provider_name: str) -> bytes:
    """ProviderInfo: the type and the name with its NUL."""
    if not 0 <= provider_type <= 0xFFFFFFFF:
        raise InvalidParameter(f"provider type {provider_type}", where="ProviderInfo", remedy="the type has 32 bits")
    return _U32.pack(provider_type) + utf16_bytes(provider_name, "ProviderName")


@dataclass(slots=True)
class Debug:
    """DebugHeader with its QueueIdentifier ([MS-MQMQ] 2.2.20.8)."""

    header: DebugHeader = field(default_factory=DebugHeader)
    queue_identifier: bytes | None = None

    @classmethod
    def decode(cls, data: bytes, at: int, end: int) -> tuple[Self, int]:
        header = DebugHeader.decode(data, at, end)
        queue_type = header.flags & QT_MASK
        if queue_type > QT_PUBLIC:
            raise _malformed(f"queue type {queue_type}", f"DebugHeader at {at}")
        at += DebugHeader.SIZE
        if not queue_type:
            return cls(header), at
        return cls(header, _take(data, at, GUID_SIZE, end, "QueueIdentifier")), at + GUID_SIZE

    def encode(self) -> bytes:
        self.header.flags &= ~QT_MASK
        if self.queue_identifier is None:
            return self.header.encode()
        self.header.flags |= QT_PUBLIC
        return self.header.encode() + _check_guid(self.queue_identifier, "QueueIdentifier")


@dataclass(slots=True)
class Soap:
    """SoapHeader: two sections of text ([MS-MQMQ] 2.2.20.7).

    Lengths count UTF-16 units. Nothing is said of padding behind a section; both forms are read, the padded one is
    written, since every header begins at a multiple of four.
    """

    header_section: SoapSectionHeader
    header: bytes  # UTF-16 with its NUL, or nothing
    body_section: SoapSectionHeader
    body: bytes
    padded: bool = True

    @classmethod
    def of(cls, header: str, body: str) -> Self:
        return cls(SoapSectionHeader(SOAP_HEADER_ID), utf16_bytes(header, "SoapHeader.Header"),
                   SoapSectionHeader(SOAP_BODY_ID), utf16_bytes(body, "SoapHeader.Body"))

    @property
    def texts(self) -> tuple[str, str]:
        return (self.header[:-2].decode("utf-16-le", "surrogatepass"),
                self.body[:-2].decode("utf-16-le", "surrogatepass"))

    @classmethod
    def decode(cls, data: bytes, at: int, end: int, *, last: bool) -> tuple[Self, int]:
        """`last` says that no header follows inside PacketSize."""
        header_section, header, stop = _soap_section(data, at, end, SOAP_HEADER_ID)
        aligned = stop + (-stop & 3)
        padded = aligned == stop or data[aligned : aligned + 2] == _U16.pack(SOAP_BODY_ID)
        body_section, body, body_stop = _soap_section(data, aligned if padded else stop, end, SOAP_BODY_ID)
        aligned_end = body_stop + (-body_stop & 3)
        if padded and aligned == stop and aligned_end != body_stop:  # only the end can tell the two forms apart
            padded = body_stop != end if last else _begins_destinations(data, aligned_end)
        soap = cls(header_section, header, body_section, body, padded)
        body_stop = aligned_end if padded else body_stop
        if body_stop > end:
            raise _malformed("its padding is behind the end of the packet", f"SoapHeader at {at}")
        return soap, body_stop

    def encode(self) -> bytes:
        parts: list[bytes] = []
        for section, text in ((self.header_section, self.header), (self.body_section, self.body)):
            section.data_length = len(text) // 2
            parts += (section.encode(), text, padding(len(text)) if self.padded else b"")
        return b"".join(parts)


def _begins_destinations(data: bytes, at: int) -> bool:
    return data[at + 4 : at + 6] == _U16.pack(DESTINATION_ID)


def _soap_section(data: bytes, at: int, end: int, section_id: int) -> tuple[SoapSectionHeader, bytes, int]:
    section = SoapSectionHeader.decode(data, at, end)
    where = f"SoapHeader section at {at}"
    if section.section_id != section_id:
        raise _malformed(f"section 0x{section.section_id:04X} where 0x{section_id:04X} belongs", where)
    at += SoapSectionHeader.SIZE
    text = _take(data, at, 2 * section.data_length, end, where)
    if text:
        utf16_text(text, where)
    return section, text, at + len(text)


@dataclass(slots=True)
class MQFAddress:
    """MQFAddressHeader with its names ([MS-MQMQ] 2.2.20.2). HeaderSize with or without padding is read."""

    header: MQFAddressHeader
    names: list[NameElement] = field(default_factory=list)

    @classmethod
    def of(cls, header_id: int, names: list[NameElement]) -> Self:
        return cls(MQFAddressHeader(header_id=header_id), names)

    @classmethod
    def decode(cls, data: bytes, at: int, end: int, header_id: int) -> tuple[Self, int]:
        header = MQFAddressHeader.decode(data, at, end)
        where = f"MQFAddressHeader at {at}"
        stop = at + header.header_size
        if header.header_id != header_id:
            raise _malformed(f"header 0x{header.header_id:04X} where 0x{header_id:04X} belongs", where)
        after = stop + (-header.header_size & 3)
        if header.header_size < MQFAddressHeader.SIZE or after > end:
            raise _malformed(f"HeaderSize {header.header_size} with {end - at} bytes left", where)
        names, names_end = decode_elements(data, at + MQFAddressHeader.SIZE, stop, at, header.element_count)
        if stop - names_end > 3 or names_end + (at - names_end & 3) != after:
            raise _malformed(f"{stop - names_end} bytes behind the last name", where)
        return cls(header, names), after

    def encode(self) -> bytes:
        names = encode_elements(self.names, MQFAddressHeader.SIZE)
        size = MQFAddressHeader.SIZE + len(names)
        pad = padding(size)
        self.header.element_count = len(self.names)
        if not size <= self.header.header_size <= size + len(pad):  # else it came from the wire: as it was there
            self.header.header_size = size
        return b"".join((self.header.encode(), names, pad))


@dataclass(slots=True)
class MultiQueueFormat:
    """MultiQueueFormatHeader ([MS-MQMQ] 2.2.20.1)."""

    destination: MQFAddress
    administration: MQFAddress
    response: MQFAddress
    signature_header: MQFSignatureHeader = field(default_factory=MQFSignatureHeader)
    signature: bytes = b""

    @classmethod
    def of(cls, destination: list[NameElement], administration: list[NameElement], response: list[NameElement],
           signature: bytes = b"") -> Self:
        return cls(MQFAddress.of(DESTINATION_ID, destination), MQFAddress.of(ADMINISTRATION_ID, administration),
                   MQFAddress.of(RESPONSE_ID, response), signature=signature)

    @classmethod
    def decode(cls, data: bytes, at: int, end: int) -> tuple[Self, int]:
        destination, at = MQFAddress.decode(data, at, end, DESTINATION_ID)
        administration, at = MQFAddress.decode(data, at, end, ADMINISTRATION_ID)
        response, at = MQFAddress.decode(data, at, end, RESPONSE_ID)
        header = MQFSignatureHeader.decode(data, at, end)
        if header.header_id != SIGNATURE_ID:
            raise _malformed(f"header 0x{header.header_id:04X} where 0x{SIGNATURE_ID:04X} belongs",
                             f"MQFSignatureHeader at {at}")
        at += MQFSignatureHeader.SIZE
        signature = _take(data, at, header.size, end, "MQFSignatureHeader.Signature")
        return cls(destination, administration, response, header, signature), at + header.size

    def encode(self) -> bytes:
        self.signature_header.size = len(self.signature)
        return b"".join((self.destination.encode(), self.administration.encode(), self.response.encode(),
                         self.signature_header.encode(), self.signature))
