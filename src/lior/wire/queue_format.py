"""QUEUE_FORMAT and the structures inside it as NDR ([MS-MQMQ] 2.2.7 to 2.2.10, 2.2.18.1.8).

The union tag of QUEUE_FORMAT is one byte, marshalled again behind m_reserved; the arm follows at its own alignment.
In NDR64 the structure, the union and its arm align to eight bytes, the size of the largest arm's pointer, and the
structure ends at a multiple of that ([MS-RPCE] 2.2.5.3.4).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ipaddress import AddressValueError, IPv4Address
from typing import Any, Final, TypeAlias
from uuid import UUID

from lior.errors import IllegalFormatName
from lior.message import ObjectId
from lior.names import QueueFormat, QueueFormatType, split_suffix_and_flags
from lior.wire.ndr import NdrReader, NdrWriter


@dataclass(frozen=True, slots=True)
class DlId:
    """DL_ID ([MS-MQMQ] 2.2.9); a domain of None is a NULL pointer."""

    guid: UUID
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class MulticastId:
    """MULTICAST_ID ([MS-MQMQ] 2.2.10). The document leaves the byte order of m_address open: octets in spoken order."""

    address: IPv4Address
    port: int


def write_object_id(writer: NdrWriter, value: ObjectId) -> None:
    """OBJECTID ([MS-MQMQ] 2.2.8)."""
    writer.guid(value.lineage)
    writer.u32(value.uniquifier)


def read_object_id(reader: NdrReader) -> ObjectId:
    return ObjectId(reader.guid(), reader.u32())


def write_dl_id(writer: NdrWriter, value: DlId) -> None:
    """The fixed part; the domain follows at the writer's next flush."""
    writer.guid(value.guid)
    writer.unique(value.domain, NdrWriter.wide_string)


def read_dl_id(reader: NdrReader, place: Callable[[DlId], None]) -> None:
    guid = reader.guid()
    reader.unique(NdrReader.wide_string, lambda domain: place(DlId(guid, domain)))


def write_multicast_id(writer: NdrWriter, value: MulticastId) -> None:
    writer.u32(int.from_bytes(value.address.packed, "little"))
    writer.u32(value.port)


def read_multicast_id(reader: NdrReader) -> MulticastId:
    return MulticastId(IPv4Address(reader.u32().to_bytes(4, "little")), reader.u32())


def write_xactuow(writer: NdrWriter, value: UUID) -> None:
    """XACTUOW ([MS-MQMQ] 2.2.18.1.8): sixteen characters, so it aligns to one byte, unlike a GUID."""
    writer.raw(value.bytes_le)


def read_xactuow(reader: NdrReader) -> UUID:
    return UUID(bytes_le=reader.raw(16))


# ---- QUEUE_FORMAT ---------------------------------------------------------------------------------------------------

# m_qft, m_SuffixAndFlags, m_reserved (which a server must not use) and the tag of the union
_HEADS: Final = {(order, wide): struct.Struct(f"{order}BBH{'4x' * wide}B") for order in "<>" for wide in (False, True)}

Place: TypeAlias = Callable[[QueueFormat], None]
Make: TypeAlias = Callable[..., QueueFormat]
_T = QueueFormatType


def write_queue_format(writer: NdrWriter, value: QueueFormat) -> None:
    """The fixed part of one QUEUE_FORMAT; its string follows at the writer's next flush."""
    writer.align(8 if writer.wide else 4)
    writer.u8(value.format_type)
    writer.u8(value.suffix_and_flags)
    writer.u16(0)  # m_reserved
    if writer.wide:
        writer.align(8)
    writer.u8(value.format_type)
    if writer.wide:
        writer.align(8)
    _ARMS[value.format_type][0](writer, value)
    if writer.wide:
        writer.align(8)


def read_queue_format(reader: NdrReader, place: Place) -> None:
    """One QUEUE_FORMAT; `place` gets it at once or, if it holds a string, at the reader's next flush."""
    reader.align(8 if reader.wide else 4)
    head = _HEADS[reader.order, reader.wide]
    try:
        format_type, suffix_and_flags, _, tag = head.unpack_from(reader.data, reader.at)
    except struct.error:
        raise reader.malformed("QUEUE_FORMAT truncated") from None
    reader.at += head.size
    if tag != format_type:
        raise reader.malformed(f"QUEUE_FORMAT of type {format_type} with union tag {tag}")
    arm = _ARMS.get(format_type)
    if arm is None:
        raise reader.malformed(f"QUEUE_FORMAT of type {format_type}, which has no arm")
    suffix, flags = split_suffix_and_flags(suffix_and_flags)  # what is no name is the method's to refuse (MP-034)
    if reader.wide:
        reader.align(8)
    arm[1](reader, partial(QueueFormat, _T(format_type), suffix, flags), place)
    if reader.wide:
        reader.align(8)


def _write_nothing(writer: NdrWriter, value: QueueFormat) -> None:
    """No member is set."""


def _read_nothing(reader: NdrReader, make: Make, place: Place) -> None:
    place(make())


def _write_guid(writer: NdrWriter, value: QueueFormat) -> None:
    writer.guid(_guid(value))


def _read_guid(reader: NdrReader, make: Make, place: Place) -> None:
    place(make(guid=reader.guid()))


def _write_private(writer: NdrWriter, value: QueueFormat) -> None:
    write_object_id(writer, ObjectId(_guid(value), value.number))


def _read_private(reader: NdrReader, make: Make, place: Place) -> None:
    private_id = read_object_id(reader)
    place(make(guid=private_id.lineage, number=private_id.uniquifier))


def _write_string(writer: NdrWriter, value: QueueFormat) -> None:
    writer.unique(value.direct_id, NdrWriter.wide_string)


def _read_string(reader: NdrReader, make: Make, place: Place) -> None:
    def named(direct_id: str | None) -> None:
        if direct_id is None:
            raise reader.malformed("QUEUE_FORMAT with a NULL name")
        place(make(direct_id=direct_id))

    reader.unique(NdrReader.wide_string, named)


def _write_dl(writer: NdrWriter, value: QueueFormat) -> None:
    write_dl_id(writer, DlId(_guid(value), value.domain or None))


def _read_dl(reader: NdrReader, make: Make, place: Place) -> None:
    read_dl_id(reader, lambda dl: place(make(guid=dl.guid, domain=dl.domain or "")))


def _write_multicast(writer: NdrWriter, value: QueueFormat) -> None:
    try:
        address = IPv4Address(value.address)
    except AddressValueError:
        raise IllegalFormatName("not an IPv4 address", where=value.address[:200],
                                remedy="give an address from 224.0.0.0 to 239.255.255.255") from None
    write_multicast_id(writer, MulticastId(address, value.port))


def _read_multicast(reader: NdrReader, make: Make, place: Place) -> None:
    multicast = read_multicast_id(reader)
    place(make(address=str(multicast.address), port=multicast.port))


def _guid(value: QueueFormat) -> UUID:
    if value.guid is None:
        raise IllegalFormatName(f"no GUID in a QUEUE_FORMAT of type {value.format_type}", where="QUEUE_FORMAT",
                                remedy="fill the member of the union that the type selects")
    return value.guid


_Arm: TypeAlias = tuple[Callable[[NdrWriter, QueueFormat], Any], Callable[[NdrReader, Make, Place], Any]]
_ARMS: Final[dict[int, _Arm]] = {
    _T.UNKNOWN: (_write_nothing, _read_nothing),
    _T.PUBLIC: (_write_guid, _read_guid),
    _T.PRIVATE: (_write_private, _read_private),
    _T.DIRECT: (_write_string, _read_string),
    _T.MACHINE: (_write_guid, _read_guid),
    _T.CONNECTOR: (_write_guid, _read_guid),
    _T.DL: (_write_dl, _read_dl),
    _T.MULTICAST: (_write_multicast, _read_multicast),
    _T.SUBQUEUE: (_write_string, _read_string),
}
