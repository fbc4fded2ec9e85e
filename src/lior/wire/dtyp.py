"""Byte forms of the Windows data types: GUID, SID, ACE, ACL, SECURITY_DESCRIPTOR ([MS-DTYP] 2.3.4, 2.4).

A GUID or a SID that stands alone and does not decode is Malformed; anything wrong inside a list or a
descriptor is IllegalSecurityDescriptor, the code that the protocols answer.
"""

import struct
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import IllegalSecurityDescriptor, Malformed
from lior.security import (
    LAID_OUT_TYPES,
    NOBODY,
    NT4_TYPES,
    OBJECT_TYPES,
    Ace,
    Acl,
    Control,
    SecurityDescriptor,
    Sid,
)

Bytes = bytes | bytearray | memoryview

GUID_SIZE: Final = 16
_SID_HEADER: Final = 8
_ACE_HEADER: Final = struct.Struct("<BBH")  # AceType, AceFlags, AceSize
_ACL_HEADER: Final = struct.Struct("<BBHHH")  # AclRevision, Sbz1, AclSize, AceCount, Sbz2
_DESCRIPTOR: Final = struct.Struct("<BBHIIII")  # Revision, Sbz1, Control, OffsetOwner, -Group, -Sacl, -Dacl
_U32: Final = struct.Struct("<I")
_OBJECT_TYPE_PRESENT: Final = 0x1
_INHERITED_OBJECT_TYPE_PRESENT: Final = 0x2
_LARGEST: Final = 0xFFFF  # AceSize and AclSize are 16 bits


def guid_to_bytes(guid: UUID) -> bytes:
    """2.3.4.2: the first three members are little-endian."""
    return guid.bytes_le


def guid_from_bytes(data: Bytes, at: int = 0) -> UUID:
    if at < 0 or len(data) - at < GUID_SIZE:
        raise Malformed(f"a GUID needs {GUID_SIZE} bytes, {max(len(data) - at, 0)} are left", where=f"offset {at}")
    return UUID(bytes_le=bytes(data[at : at + GUID_SIZE]))


def encode_sid(sid: Sid) -> bytes:
    """2.4.2.2: the authority is big-endian, the sub-authorities are little-endian."""
    count = len(sid.sub_authorities)
    return struct.pack(f"<BB6s{count}I", 1, count, sid.authority.to_bytes(6, "big"), *sid.sub_authorities)


def decode_sid(data: Bytes, at: int = 0) -> tuple[Sid, int]:
    """The SID at `at` and the number of bytes it takes."""
    left = len(data) - at
    if at < 0 or left < _SID_HEADER:
        raise Malformed(f"a SID needs {_SID_HEADER} bytes, {max(left, 0)} are left", where=f"SID at {at}")
    revision, count = data[at], data[at + 1]
    if revision != 1 or count > 15:
        raise Malformed(f"revision {revision} with {count} sub-authorities", where=f"SID at {at}")
    size = _SID_HEADER + 4 * count
    if left < size:
        raise Malformed(f"{count} sub-authorities need {size} bytes, {left} are left", where=f"SID at {at}")
    authority = int.from_bytes(data[at + 2 : at + 8], "big")
    return Sid(authority, struct.unpack_from(f"<{count}I", data, at + _SID_HEADER)), size


def encode_ace(ace: Ace) -> bytes:
    parts: list[bytes] = []
    if ace.type in LAID_OUT_TYPES:
        parts.append(_U32.pack(ace.mask))
        if ace.type in OBJECT_TYPES:
            types = [guid_to_bytes(guid) for guid in (ace.object_type, ace.inherited_object_type) if guid is not None]
            present = _OBJECT_TYPE_PRESENT if ace.object_type is not None else 0
            present |= _INHERITED_OBJECT_TYPE_PRESENT if ace.inherited_object_type is not None else 0
            parts += [_U32.pack(present), *types]
        parts.append(encode_sid(ace.sid))
    body = b"".join((*parts, ace.extra))
    size = _ACE_HEADER.size + len(body)
    if size > _LARGEST:
        raise IllegalSecurityDescriptor(f"{size} bytes do not fit the size field", where="ACE")
    return _ACE_HEADER.pack(ace.type, ace.flags, size) + body


def decode_ace(data: Bytes, at: int = 0, *, end: int | None = None) -> tuple[Ace, int]:
    """The ACE at `at` and its AceSize; nothing at or after `end` is read."""
    end = len(data) if end is None else min(end, len(data))
    where = f"ACE at {at}"
    if at < 0 or end - at < _ACE_HEADER.size:
        raise IllegalSecurityDescriptor(f"an ACE needs {_ACE_HEADER.size} bytes, {end - at} are left", where=where)
    ace_type, flags, size = _ACE_HEADER.unpack_from(data, at)
    if size % 4 or not _ACE_HEADER.size <= size <= end - at:
        raise IllegalSecurityDescriptor(f"size {size} with {end - at} bytes left", where=where)
    body = bytes(data[at + _ACE_HEADER.size : at + size])
    if ace_type not in LAID_OUT_TYPES:
        return Ace(ace_type, flags, 0, NOBODY, body), size
    try:
        return _laid_out_ace(ace_type, flags, body), size
    except (Malformed, struct.error) as error:
        what = error.what if isinstance(error, Malformed) else "the entry is cut short"
        raise IllegalSecurityDescriptor(what, where=where) from None


def _laid_out_ace(ace_type: int, flags: int, body: bytes) -> Ace:
    """Mask, the object types that an object ACE has, SID, and the rest as it is."""
    (mask,) = _U32.unpack_from(body)
    at = 4
    guids: list[UUID | None] = [None, None]
    if ace_type in OBJECT_TYPES:
        (present,) = _U32.unpack_from(body, at)
        if present & ~(_OBJECT_TYPE_PRESENT | _INHERITED_OBJECT_TYPE_PRESENT):
            raise Malformed(f"object flags 0x{present:X} are not defined")
        at += 4
        for index, bit in enumerate((_OBJECT_TYPE_PRESENT, _INHERITED_OBJECT_TYPE_PRESENT)):
            if present & bit:
                guids[index] = guid_from_bytes(body, at)
                at += GUID_SIZE
    sid, size = decode_sid(body, at)
    return Ace(ace_type, flags, mask, sid, body[at + size :], guids[0], guids[1])


def encode_acl(acl: Acl) -> bytes:
    aces = b"".join(map(encode_ace, acl.aces))
    size = _ACL_HEADER.size + len(aces)
    if size > _LARGEST:
        raise IllegalSecurityDescriptor(
            f"{len(acl.aces)} entries take {size} bytes, a list has room for {_LARGEST}",
            where="ACL",
            remedy="name groups instead of their members",
        )
    return _ACL_HEADER.pack(acl.revision, 0, size, len(acl.aces), 0) + aces


def decode_acl(data: Bytes, at: int = 0, *, nt4_aces_only: bool = False) -> tuple[Acl, int]:
    """The ACL at `at` and its AclSize. Room after the last entry is allowed, and forgotten."""
    where = f"ACL at {at}"
    left = len(data) - at
    if at < 0 or left < _ACL_HEADER.size:
        raise IllegalSecurityDescriptor(f"an ACL needs {_ACL_HEADER.size} bytes, {max(left, 0)} are left", where=where)
    revision, _, size, count, _ = _ACL_HEADER.unpack_from(data, at)
    if not _ACL_HEADER.size + count * _ACE_HEADER.size <= size <= left:
        raise IllegalSecurityDescriptor(f"size {size} for {count} entries with {left} bytes left", where=where)
    aces: list[Ace] = []
    position, end = at + _ACL_HEADER.size, at + size
    for _ in range(count):
        ace, ace_size = decode_ace(data, position, end=end)
        if nt4_aces_only and ace.type not in NT4_TYPES:
            raise IllegalSecurityDescriptor(
                f"an ACE of type {ace.type} is not allowed here",
                where=where,
                remedy="use allow, deny and audit entries",
            )
        aces.append(ace)
        position += ace_size
    return Acl(revision, tuple(aces)), size


def encode_security_descriptor(descriptor: SecurityDescriptor) -> bytes:
    """The self-relative form, its parts in the order of 2.4.6 note 72: Sacl, Dacl, OwnerSid, GroupSid."""
    parts = (
        encode_acl(descriptor.sacl) if descriptor.sacl is not None else b"",
        encode_acl(descriptor.dacl) if descriptor.dacl is not None else b"",
        encode_sid(descriptor.owner) if descriptor.owner is not None else b"",
        encode_sid(descriptor.group) if descriptor.group is not None else b"",
    )
    offsets: list[int] = []
    position = _DESCRIPTOR.size
    for part in parts:
        offsets.append(position if part else 0)
        position += len(part)
    sacl, dacl, owner, group = offsets
    control = descriptor.control | int(Control.SELF_RELATIVE)
    header = _DESCRIPTOR.pack(1, descriptor.resource_manager, control, owner, group, sacl, dacl)
    return b"".join((header, *parts))


class _Extent(NamedTuple):
    name: str
    start: int
    end: int


def decode_security_descriptor(data: Bytes, *, nt4_aces_only: bool = False) -> SecurityDescriptor:
    """Read the self-relative form. `nt4_aces_only` is for PROPID_Q_SECURITY ([MS-MQMQ] 2.3.1.25 note 27)."""
    where = "security descriptor"
    if len(data) < _DESCRIPTOR.size:
        raise IllegalSecurityDescriptor(f"it needs {_DESCRIPTOR.size} bytes, {len(data)} are there", where=where)
    revision, sbz1, control, *offsets = _DESCRIPTOR.unpack_from(data)
    if revision != 1:
        raise IllegalSecurityDescriptor(f"revision {revision}, only 1 is known", where=where)
    if not control & Control.SELF_RELATIVE:
        raise IllegalSecurityDescriptor("it is not marked as self-relative", where=where)
    owner_at, group_at, sacl_at, dacl_at = offsets
    for name, offset, present in (("Sacl", sacl_at, Control.SACL_PRESENT), ("Dacl", dacl_at, Control.DACL_PRESENT)):
        if offset and not control & present:
            raise IllegalSecurityDescriptor(f"{name} is at {offset} but marked as absent", where=where)
    extents: list[_Extent] = []
    # A list that is marked as present at offset 0 is the NULL list
    descriptor = SecurityDescriptor(
        owner=_sid_part(data, owner_at, "OwnerSid", extents),
        group=_sid_part(data, group_at, "GroupSid", extents),
        sacl=_acl_part(data, sacl_at, "Sacl", extents, nt4_aces_only),
        dacl=_acl_part(data, dacl_at, "Dacl", extents, nt4_aces_only),
        control=control,
        resource_manager=sbz1,
    )
    _refuse_overlaps(extents)
    return descriptor


def _sid_part(data: Bytes, at: int, name: str, extents: list[_Extent]) -> Sid | None:
    if not at:
        return None
    try:
        sid, size = decode_sid(data, at)
    except Malformed as error:
        raise IllegalSecurityDescriptor(error.what, where=f"{name} at {at}") from None
    extents.append(_Extent(name, at, at + size))
    return sid


def _acl_part(data: Bytes, at: int, name: str, extents: list[_Extent], nt4_aces_only: bool) -> Acl | None:
    if not at:
        return None
    acl, size = decode_acl(data, at, nt4_aces_only=nt4_aces_only)
    extents.append(_Extent(name, at, at + size))
    return acl


def _refuse_overlaps(extents: list[_Extent]) -> None:
    """Parts lie behind the header and apart, in any order; two may be the very same bytes (owner = group)."""
    last = _Extent("the header", 0, _DESCRIPTOR.size)
    for extent in sorted(extents, key=lambda part: part[1:]):
        if extent.start < last.end and extent[1:] != last[1:]:
            raise IllegalSecurityDescriptor(
                f"{extent.name} at {extent.start} overlaps {last.name}", where="security descriptor"
            )
        last = extent
