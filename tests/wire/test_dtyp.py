"""GUIDs, SIDs, lists and descriptors as bytes: vectors from the tables of [MS-DTYP], and impacket as second reader."""

import struct
from typing import Any
from uuid import UUID

import pytest
from impacket.ldap import ldaptypes

from lior.errors import IllegalSecurityDescriptor, LiorError, Malformed
from lior.security import (
    ADMINISTRATORS,
    EVERYONE,
    NOBODY,
    Ace,
    AceType,
    Acl,
    Caller,
    Control,
    SecurityDescriptor,
    Sid,
    allow,
    default_queue_descriptor,
    deny,
    unix_user_sid,
)
from lior.wire.dtyp import (
    decode_ace,
    decode_acl,
    decode_security_descriptor,
    decode_sid,
    encode_ace,
    encode_acl,
    encode_security_descriptor,
    encode_sid,
    guid_from_bytes,
    guid_to_bytes,
)

USER = Sid.parse("S-1-5-21-1004336348-1177238915-682003330-512")
USER_BYTES = bytes.fromhex(
    "01 05"  # Revision, SubAuthorityCount
    "00 00 00 00 00 05"  # IdentifierAuthority, big-endian
    "15 00 00 00 dc f4 dc 3b 83 3d 2b 46 82 8b a6 28 00 02 00 00"  # SubAuthority, little-endian
)
GUID = UUID("bf967aba-0de6-11d0-a285-00aa003049e2")
GUID_BYTES = bytes.fromhex("ba7a96bf e60d d011 a285 00aa003049e2")
EVERYONE_BYTES = bytes.fromhex("01 01 000000000001 00000000")

# [MS-DTYP] 2.5.1.4, the worked example
EXAMPLE = bytes.fromhex(
    "010014b090000000a00000001400000030000000"
    "02001c000100000002801400000000800101000000000001"
    "00000000"
    "02006000040000000003180000 0000a001020000000000052000000021020000"
    "000318000000001001020000000000052000000020020000"
    "0003140000000010010100000000000512000000"
    "0003140000000010010100000000000300000000"
    "01020000000000052000000020020000"
    "01020000000000052000000020020000"
)
EXAMPLE_DESCRIPTOR = SecurityDescriptor(
    owner=ADMINISTRATORS,
    group=ADMINISTRATORS,
    dacl=Acl(
        2,
        (
            Ace(0, 0x03, 0xA0000000, Sid(5, (32, 545))),
            Ace(0, 0x03, 0x10000000, Sid(5, (32, 544))),
            Ace(0, 0x03, 0x10000000, Sid(5, (18,))),
            Ace(0, 0x03, 0x10000000, Sid(3, (0,))),
        ),
    ),
    sacl=Acl(2, (Ace(2, 0x80, 0x80000000, EVERYONE),)),
    control=int(Control.DACL_PROTECTED | Control.SACL_PROTECTED),
)


# --- GUID and SID


def test_a_guid_is_little_endian_in_its_first_three_members() -> None:
    assert guid_to_bytes(GUID) == GUID_BYTES
    assert guid_from_bytes(b"\xff" + GUID_BYTES, 1) == GUID
    assert guid_from_bytes(memoryview(GUID_BYTES)) == GUID


@pytest.mark.parametrize(
    ("data", "at"), [(GUID_BYTES[:15], 0), (GUID_BYTES, 1), (b"", 0), (GUID_BYTES, 99), (GUID_BYTES, -16)]
)
def test_a_guid_that_is_cut_short_is_malformed(data: bytes, at: int) -> None:
    with pytest.raises(Malformed):
        guid_from_bytes(data, at)


@pytest.mark.spec("MQ-129")
def test_a_sid_has_a_big_endian_authority_and_little_endian_sub_authorities() -> None:
    assert encode_sid(USER) == USER_BYTES
    assert len(encode_sid(USER)) == 28
    assert decode_sid(b"\xcd\xcd" + USER_BYTES + b"\xcd", 2) == (USER, 28)
    assert decode_sid(memoryview(USER_BYTES)) == (USER, 28)


@pytest.mark.parametrize(
    ("sid", "data"),
    [
        (EVERYONE, EVERYONE_BYTES),
        (NOBODY, bytes.fromhex("01 01 000000000000 00000000")),
        (Sid(5), bytes.fromhex("01 00 000000000005")),
        (Sid(0x0102030405FF, (0xFFFFFFFF,)), bytes.fromhex("01 01 0102030405ff ffffffff")),
        (Sid(9, tuple(range(15))), bytes.fromhex("01 0f 000000000009") + struct.pack("<15I", *range(15))),
        (unix_user_sid(1000), bytes.fromhex("01 02 000000000016 01000000 e8030000")),
    ],
)
def test_sids_of_every_shape_go_both_ways(sid: Sid, data: bytes) -> None:
    assert encode_sid(sid) == data
    assert decode_sid(data) == (sid, len(data))


@pytest.mark.parametrize(
    "data",
    [
        *(USER_BYTES[:length] for length in range(28)),
        b"\x02" + USER_BYTES[1:],  # revision
        b"\x00" + USER_BYTES[1:],
        b"\x01\x10" + bytes(6 + 64),  # sixteen sub-authorities
        b"\x01\xff" + bytes(6 + 255 * 4),
    ],
)
def test_a_sid_that_is_cut_short_or_of_another_kind_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_sid(data)


def test_a_sid_is_not_looked_for_outside_the_buffer() -> None:
    for at in (-1, 28, 1000):
        with pytest.raises(Malformed):
            decode_sid(USER_BYTES, at)


# --- ACE


ACES = [
    (allow(EVERYONE, 0x20024), bytes.fromhex("00 00 1400 24000200") + EVERYONE_BYTES),
    (deny(USER, 0xF003F, 0x13), bytes.fromhex("01 13 2400 3f000f00") + USER_BYTES),
    (Ace(0x02, 0xC0, 0x1, EVERYONE), bytes.fromhex("02 c0 1400 01000000") + EVERYONE_BYTES),
    (Ace(0x03, 0x40, 0x1, EVERYONE), bytes.fromhex("03 40 1400 01000000") + EVERYONE_BYTES),
    (Ace(0x11, 0, 0x1, Sid(16, (4096,))), bytes.fromhex("11 00 1400 01000000 01 01 000000000010 00100000")),
    (Ace(0x13, 0, 0, Sid(17, (1,))), bytes.fromhex("13 00 1400 00000000 01 01 000000000011 01000000")),
    # more bytes than the fields take: to be ignored, and kept
    (Ace(0x00, 0, 0x4, EVERYONE, b"\1\2\3\4"), bytes.fromhex("00 00 1800 04000000") + EVERYONE_BYTES + b"\1\2\3\4"),
    # object ACEs: Flags, then the GUIDs that it announces
    (Ace(0x05, 0, 0x100, EVERYONE), bytes.fromhex("05 00 1800 00010000 00000000") + EVERYONE_BYTES),
    (
        Ace(0x05, 0, 0x100, EVERYONE, object_type=GUID),
        bytes.fromhex("05 00 2800 00010000 01000000") + GUID_BYTES + EVERYONE_BYTES,
    ),
    (
        Ace(0x06, 0, 0x10, EVERYONE, inherited_object_type=GUID),
        bytes.fromhex("06 00 2800 10000000 02000000") + GUID_BYTES + EVERYONE_BYTES,
    ),
    (
        Ace(0x0F, 0x80, 0x10, EVERYONE, b"artx", UUID(int=0), GUID),
        bytes.fromhex("0f 80 3c00 10000000 03000000") + bytes(16) + GUID_BYTES + EVERYONE_BYTES + b"artx",
    ),
    # callback ACEs: the condition follows the SID
    (
        Ace(0x09, 0, 0x2, EVERYONE, b"artx\0\0\0\0"),
        bytes.fromhex("09 00 1c00 02000000") + EVERYONE_BYTES + b"artx\0\0\0\0",
    ),
    # types without a published layout stay as they are
    (Ace(0x04, 0x02, 0, NOBODY, b"whatever"), bytes.fromhex("04 02 0c00") + b"whatever"),
    (Ace(0x77, 0xFF, 0, NOBODY), bytes.fromhex("77 ff 0400")),
]


@pytest.mark.parametrize(("ace", "data"), ACES)
def test_entries_of_every_form_go_both_ways(ace: Ace, data: bytes) -> None:
    assert encode_ace(ace) == data
    assert decode_ace(b"\xcd" * 4 + data + b"\xcd" * 4, 4) == (ace, len(data))


@pytest.mark.parametrize(("ace", "data"), ACES)
def test_an_entry_cut_at_any_length_is_refused(ace: Ace, data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(IllegalSecurityDescriptor):
            decode_ace(data[:length])
        with pytest.raises(IllegalSecurityDescriptor):
            decode_ace(data, end=length)


@pytest.mark.parametrize(("ace", "data"), [pair for pair in ACES if pair[0].type not in (0x04, 0x77)])
def test_an_entry_whose_size_leaves_out_its_fields_is_refused(ace: Ace, data: bytes) -> None:
    fields = len(data) - len(ace.extra)
    for size in range(fields):
        with pytest.raises(IllegalSecurityDescriptor):
            decode_ace(data[:2] + struct.pack("<H", size) + data[4:])


@pytest.mark.parametrize("size", [0, 3, 0x15, 0x16, 0x17, 0x18, 0xFFFC])
def test_an_entry_of_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        decode_ace(b"\0\0" + struct.pack("<H", size) + bytes.fromhex("24000200") + EVERYONE_BYTES)


def test_undefined_object_flags_are_refused() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        decode_ace(bytes.fromhex("05 00 1800 00010000 04000000") + EVERYONE_BYTES)


def test_an_entry_is_not_looked_for_outside_the_buffer() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        decode_ace(ACES[0][1], -1)


def test_an_entry_too_large_for_its_size_field_is_refused() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        encode_ace(Ace(9, 0, 0, EVERYONE, bytes(65536)))


# --- ACL


def test_a_list_has_its_size_and_count_before_its_entries() -> None:
    acl = Acl(2, (ACES[0][0], ACES[1][0]))
    data = bytes.fromhex("02 00 4000 0200 0000") + ACES[0][1] + ACES[1][1]
    assert encode_acl(acl) == data
    assert decode_acl(b"\xcd" + data + b"\xcd", 1) == (acl, 0x40)
    assert encode_acl(Acl()) == bytes.fromhex("02 00 0800 0000 0000")


def test_reserved_fields_and_room_after_the_last_entry_are_ignored() -> None:
    data = bytes.fromhex("04 5a 2000 0100 a55a") + ACES[0][1] + b"free"
    assert decode_acl(data) == (Acl(4, (ACES[0][0],)), 0x20)


@pytest.mark.parametrize(
    "header",
    [
        "01 00 1c00 0100 0000",  # revisions that are not 2 or 4
        "03 00 1c00 0100 0000",
        "02 00 0700 0000 0000",  # sizes less than the header, the entries, or more than there is
        "02 00 0800 0100 0000",
        "02 00 1800 0100 0000",
        "02 00 2000 0100 0000",
        "02 00 ffff 0100 0000",
        "02 00 1c00 0200 0000",  # counts with too little behind them
        "02 00 1c00 ffff 0000",
    ],
)
def test_a_list_whose_header_does_not_fit_is_refused(header: str) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        decode_acl(bytes.fromhex(header) + ACES[0][1])


def test_a_list_cut_at_any_length_is_refused() -> None:
    data = encode_acl(Acl.of(*(ace for ace, _ in ACES if ace.type in (0, 1))))
    for length in range(len(data)):
        with pytest.raises(IllegalSecurityDescriptor):
            decode_acl(data[:length])
    with pytest.raises(IllegalSecurityDescriptor):
        decode_acl(data, -1)


def test_a_list_over_64_kib_is_refused_when_written() -> None:
    most = Acl.of(*[ACES[0][0]] * ((0xFFFF - 8) // 20))
    assert decode_acl(encode_acl(most))[0] == most
    with pytest.raises(IllegalSecurityDescriptor):
        encode_acl(Acl.of(*most.aces, ACES[0][0]))


# --- SECURITY_DESCRIPTOR


def test_the_example_of_the_document_goes_both_ways() -> None:
    assert decode_security_descriptor(EXAMPLE) == EXAMPLE_DESCRIPTOR
    assert encode_security_descriptor(EXAMPLE_DESCRIPTOR) == EXAMPLE


def test_a_descriptor_cut_at_any_length_is_refused() -> None:
    for length in range(len(EXAMPLE)):
        with pytest.raises(IllegalSecurityDescriptor):
            decode_security_descriptor(EXAMPLE[:length])


def test_parts_may_come_in_any_order_and_with_gaps() -> None:
    dacl = encode_acl(Acl.of(allow(EVERYONE, 4)))
    data = (
        struct.pack("<BBHIIII", 1, 0, 0x8004, 21, 0, 0, 33 + 3) + b"\xcd" + EVERYONE_BYTES + bytes(3) + dacl + b"tail"
    )
    assert decode_security_descriptor(data) == SecurityDescriptor(owner=EVERYONE, dacl=Acl.of(allow(EVERYONE, 4)))


def test_owner_and_group_may_be_the_same_bytes() -> None:
    data = struct.pack("<BBHIIII", 1, 0, 0x8000, 20, 20, 0, 0) + EVERYONE_BYTES
    assert decode_security_descriptor(data) == SecurityDescriptor(owner=EVERYONE, group=EVERYONE)


def part_at(owner: int = 0, group: int = 0, sacl: int = 0, dacl: int = 0, control: int = 0x8014) -> bytes:
    """A header with the given offsets over bytes that read as a SID at 20, 32 and 44 and as an empty ACL at 56."""
    header = struct.pack("<BBHIIII", 1, 0, control, owner, group, sacl, dacl)
    return header + EVERYONE_BYTES * 3 + bytes.fromhex("02 00 0800 0000 0000")


@pytest.mark.parametrize(
    "data",
    [
        part_at(owner=1),  # inside the header
        part_at(owner=19),
        part_at(dacl=8),
        part_at(owner=64),  # at and behind the end
        part_at(owner=60),
        part_at(group=65),
        part_at(dacl=0xFFFFFFFF),
        part_at(sacl=0x80000000),
        part_at(owner=20, group=24),
        part_at(dacl=56, control=0x8010),  # there, but marked as absent
        part_at(sacl=56, control=0x8004),
        part_at(owner=20, control=0x0014),  # not self-relative
        b"\0" + part_at(owner=20)[1:],  # revision
        b"\2" + part_at(owner=20)[1:],
    ],
)
def test_a_descriptor_with_wrong_offsets_or_marks_is_refused(data: bytes) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        decode_security_descriptor(data)


def test_parts_that_overlap_in_part_are_refused() -> None:
    """A SID of two sub-authorities, the second of which could begin another SID."""
    sids = bytes.fromhex("01 02 000000000001 00000000 01000000 00000000") + bytes(16)
    header = struct.pack("<BBHIIII", 1, 0, 0x8000, 20, 32, 0, 0)
    with pytest.raises(IllegalSecurityDescriptor) as refusal:
        decode_security_descriptor(header + sids)
    assert "overlaps" in refusal.value.what
    apart = struct.pack("<BBHIIII", 1, 0, 0x8000, 20, 36, 0, 0)
    with pytest.raises(IllegalSecurityDescriptor):
        decode_security_descriptor(apart + sids)  # the bytes there are no SID: nothing was read in between


def test_a_null_list_an_absent_list_and_an_empty_list_stay_apart() -> None:
    null, absent, empty = (
        decode_security_descriptor(part_at(control=0x8004)),
        decode_security_descriptor(part_at(control=0x8000)),
        decode_security_descriptor(part_at(dacl=56, control=0x8004)),
    )
    assert (null.has_dacl, null.dacl) == (True, None)
    assert (absent.has_dacl, absent.dacl) == (False, None)
    assert empty.dacl == Acl()
    for descriptor in (null, absent, empty):
        assert decode_security_descriptor(encode_security_descriptor(descriptor)) == descriptor


def test_control_bits_and_resource_manager_bits_are_kept() -> None:
    data = b"\x01\xa5" + struct.pack("<H", 0xFFEB) + bytes(16)
    descriptor = decode_security_descriptor(data)
    assert descriptor.control == 0x7FEB
    assert descriptor.resource_manager == 0xA5
    assert encode_security_descriptor(descriptor) == data


def test_sbz1_means_nothing_without_its_control_bit() -> None:
    data = bytes.fromhex("01 a5 0080") + bytes(16)
    assert decode_security_descriptor(data) == SecurityDescriptor()
    assert encode_security_descriptor(SecurityDescriptor()) == bytes.fromhex("01 00 0080") + bytes(16)


def test_entries_in_the_wrong_list_are_refused() -> None:
    audit = encode_acl(Acl(2, (Ace(2, 0x40, 1, EVERYONE),)))
    as_sacl = struct.pack("<BBHIIII", 1, 0, 0x8010, 0, 0, 20, 0) + audit
    as_dacl = struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 20) + audit
    assert decode_security_descriptor(as_sacl).sacl is not None
    with pytest.raises(IllegalSecurityDescriptor):
        decode_security_descriptor(as_dacl)


# --- PROPID_Q_SECURITY


@pytest.mark.spec("MQ-169")
def test_a_descriptor_that_is_set_comes_back_with_the_same_dacl() -> None:
    made = default_queue_descriptor(Caller(USER, authenticated=True), "hardened")
    data = encode_security_descriptor(made)
    assert data[2:4] == b"\x04\x80"  # self-relative
    stored = SecurityDescriptor(owner=EVERYONE).merge(decode_security_descriptor(data, nt4_aces_only=True), 0x7)
    returned = decode_security_descriptor(encode_security_descriptor(stored.select(0x4)))
    assert returned.dacl == made.dacl
    assert returned.owner is None


@pytest.mark.spec("MQ-169")
@pytest.mark.parametrize("ace_type", range(256))
def test_q_security_takes_the_entry_types_of_nt4_only(ace_type: int) -> None:
    body = bytes(8) if ace_type == 4 or ace_type > 0x13 else bytes(8) + EVERYONE_BYTES
    if ace_type in (0, 1, 2, 3, 9, 0xA, 0xD, 0xE, 0x11, 0x12, 0x13):
        body = bytes(4) + EVERYONE_BYTES
    acl = struct.pack("<BBHHHBBH", 2, 0, 12 + len(body), 1, 0, ace_type, 0, 4 + len(body)) + body
    control, sacl, dacl = (0x8010, 20, 0) if ace_type in (2, 3) else (0x8004, 0, 20)
    if ace_type in (7, 8, 0xD, 0xE, 0xF, 0x10, 0x11, 0x12, 0x13):
        control, sacl, dacl = 0x8010, 20, 0
    data = struct.pack("<BBHIIII", 1, 0, control, 0, 0, sacl, dacl) + acl
    decode_security_descriptor(data)  # PROPID_Q_OBJ_SECURITY takes them all
    if ace_type in (0, 1, 2, 3):
        decode_security_descriptor(data, nt4_aces_only=True)
    else:
        with pytest.raises(IllegalSecurityDescriptor):
            decode_security_descriptor(data, nt4_aces_only=True)


# --- impacket, which shares no code with us


def impacket_view(data: bytes) -> dict[str, Any]:
    descriptor = ldaptypes.SR_SECURITY_DESCRIPTOR(data=data)

    def aces(acl: Any) -> list[tuple[int, int, int, str, bytes]]:
        return [
            (
                ace["AceType"],
                ace["AceFlags"],
                ace["Ace"]["Mask"]["Mask"],
                ace["Ace"]["Sid"].formatCanonical(),
                ace["Ace"]["ObjectType"] if ace["AceType"] in (5, 6) else b"",
            )
            for ace in acl["Data"]
        ]

    return {
        "owner": descriptor["OwnerSid"].formatCanonical(),
        "group": descriptor["GroupSid"].formatCanonical(),
        "dacl": aces(descriptor["Dacl"]),
        "sacl": aces(descriptor["Sacl"]),
        "control": descriptor["Control"],
    }


def our_view(descriptor: SecurityDescriptor) -> dict[str, Any]:
    def aces(acl: Acl | None) -> list[tuple[int, int, int, str, bytes]]:
        assert acl is not None
        return [
            (ace.type, ace.flags, ace.mask, str(ace.sid), b"" if ace.object_type is None else ace.object_type.bytes_le)
            for ace in acl.aces
        ]

    return {
        "owner": str(descriptor.owner),
        "group": str(descriptor.group),
        "dacl": aces(descriptor.dacl),
        "sacl": aces(descriptor.sacl),
        "control": descriptor.control | 0x8000,
    }


RICH = SecurityDescriptor(
    owner=USER,
    group=Sid(5, (32, 545)),
    dacl=Acl.of(
        deny(USER, 0x10001, 0x10),
        Ace(int(AceType.ACCESS_DENIED_OBJECT), 0, 0x30, USER, object_type=GUID),
        allow(EVERYONE, 0x24),
        Ace(
            int(AceType.ACCESS_ALLOWED_OBJECT), 2, 0x100, EVERYONE, object_type=GUID, inherited_object_type=UUID(int=7)
        ),
        Ace(int(AceType.ACCESS_ALLOWED_CALLBACK), 0, 0x2, USER, b"artx" + bytes(8)),
    ),
    sacl=Acl.of(Ace(int(AceType.SYSTEM_AUDIT), 0xC0, 0xF003F, EVERYONE)),
    control=int(Control.DACL_PROTECTED),
)


@pytest.mark.spec("MQ-169")
@pytest.mark.parametrize("descriptor", [EXAMPLE_DESCRIPTOR, RICH])
def test_impacket_reads_what_we_write(descriptor: SecurityDescriptor) -> None:
    assert impacket_view(encode_security_descriptor(descriptor)) == our_view(descriptor)


@pytest.mark.spec("MQ-169")
@pytest.mark.parametrize("descriptor", [EXAMPLE_DESCRIPTOR, RICH])
def test_we_read_what_impacket_writes(descriptor: SecurityDescriptor) -> None:
    def sid(value: Sid | None) -> Any:
        made = ldaptypes.LDAP_SID()
        made.fromCanonical(str(value))
        return made

    def acl(value: Acl | None) -> Any:
        assert value is not None
        made = ldaptypes.ACL()
        made["AclRevision"], made["Sbz1"], made["Sbz2"] = value.revision, 0, 0
        made.aces = []
        for ace in value.aces:
            entry = ldaptypes.ACE()
            entry["AceType"], entry["AceFlags"] = ace.type, ace.flags
            body = ldaptypes.ACE_TYPE_MAP[ace.type]()
            body["Mask"] = ldaptypes.ACCESS_MASK()
            body["Mask"]["Mask"] = ace.mask
            body["Sid"] = sid(ace.sid)
            if ace.type in (5, 6):
                body["Flags"] = 0
                body["ObjectType"] = ace.object_type.bytes_le if ace.object_type else b""
                body["InheritedObjectType"] = ace.inherited_object_type.bytes_le if ace.inherited_object_type else b""
            elif ace.type == 9:
                body["ApplicationData"] = ace.extra
            entry["Ace"] = body
            made.aces.append(entry)
        return made

    theirs = ldaptypes.SR_SECURITY_DESCRIPTOR()
    theirs["Revision"], theirs["Sbz1"] = b"\x01", b"\x00"
    theirs["Control"] = descriptor.control | 0x8000
    theirs["OwnerSid"], theirs["GroupSid"] = sid(descriptor.owner), sid(descriptor.group)
    theirs["Sacl"], theirs["Dacl"] = acl(descriptor.sacl), acl(descriptor.dacl)
    data = theirs.getData()
    assert decode_security_descriptor(data) == descriptor
    assert encode_security_descriptor(descriptor) == data


def test_a_changed_byte_anywhere_ends_in_a_descriptor_or_the_one_error() -> None:
    data = encode_security_descriptor(RICH)
    for at in range(len(data)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                descriptor = decode_security_descriptor(changed)
            except LiorError as error:
                assert type(error) is IllegalSecurityDescriptor
            else:
                assert decode_security_descriptor(encode_security_descriptor(descriptor)) == descriptor
