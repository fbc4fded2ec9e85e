"""Security descriptors as text ([MS-DTYP] 2.5.1)."""

from uuid import UUID

import pytest

from lior.errors import IllegalSecurityDescriptor
from lior.security import (
    ADMINISTRATORS,
    EVERYONE,
    NOBODY,
    Ace,
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
from lior.wire.dtyp import encode_security_descriptor
from lior.wire.sddl import MAX_TEXT, format_sddl, parse_sddl

GUID = "bf967aba-0de6-11d0-a285-00aa003049e2"

# [MS-DTYP] 2.5.1.4: the text and the bytes of one descriptor
EXAMPLE = "O:BAG:BAD:P(A;CIOI;GRGX;;;BU)(A;CIOI;GA;;;BA)(A;CIOI;GA;;;SY)(A;CIOI;GA;;;CO)S:P(AU;FA;GR;;;WD)"
EXAMPLE_BYTES = bytes.fromhex(
    "010014b090000000a00000001400000030000000"
    "02001c00010000000280140000000080010100000000000100000000"
    "02006000040000000003180000 0000a001020000000000052000000021020000"
    "000318000000001001020000000000052000000020020000"
    "0003140000000010010100000000000512000000"
    "0003140000000010010100000000000300000000"
    "01020000000000052000000020020000"
    "01020000000000052000000020020000"
)

# The aliases of 2.5.1.1 with the SIDs of 2.4.2.4
TOKENS = {
    "ED": "S-1-5-9", "BA": "S-1-5-32-544", "BG": "S-1-5-32-546", "BU": "S-1-5-32-545", "AO": "S-1-5-32-548",
    "BO": "S-1-5-32-551", "PO": "S-1-5-32-550", "SO": "S-1-5-32-549", "AU": "S-1-5-11", "PS": "S-1-5-10",
    "CO": "S-1-3-0", "CG": "S-1-3-1", "SY": "S-1-5-18", "PU": "S-1-5-32-547", "WD": "S-1-1-0",
    "RE": "S-1-5-32-552", "IU": "S-1-5-4", "NU": "S-1-5-2", "SU": "S-1-5-6", "RC": "S-1-5-12", "WR": "S-1-5-33",
    "AN": "S-1-5-7", "RU": "S-1-5-32-554", "LS": "S-1-5-19", "NS": "S-1-5-20", "RD": "S-1-5-32-555",
    "NO": "S-1-5-32-556", "MU": "S-1-5-32-558", "LU": "S-1-5-32-559", "IS": "S-1-5-32-568",
    "CY": "S-1-5-32-569", "OW": "S-1-3-4", "ER": "S-1-5-32-573", "CD": "S-1-5-32-574", "AC": "S-1-15-2-1",
    "RA": "S-1-5-32-575", "ES": "S-1-5-32-576", "MS": "S-1-5-32-577", "UD": "S-1-5-84-0-0-0-0-0",
    "HA": "S-1-5-32-578", "AA": "S-1-5-32-579", "RM": "S-1-5-32-580", "LW": "S-1-16-4096", "ME": "S-1-16-8192",
    "MP": "S-1-16-8448", "HI": "S-1-16-12288", "SI": "S-1-16-16384",
}  # fmt: skip
RELATIVE = {
    "DA": "S-1-5-21-1-2-3-512", "DG": "S-1-5-21-1-2-3-514", "DU": "S-1-5-21-1-2-3-513", "DD": "S-1-5-21-1-2-3-516",
    "DC": "S-1-5-21-1-2-3-515", "CA": "S-1-5-21-1-2-3-517", "PA": "S-1-5-21-1-2-3-520", "CN": "S-1-5-21-1-2-3-522",
    "RS": "S-1-5-21-1-2-3-553", "SA": "S-1-5-21-4-5-6-518", "EA": "S-1-5-21-4-5-6-519", "RO": "S-1-5-21-4-5-6-498",
    "LA": "S-1-5-21-7-8-9-500", "LG": "S-1-5-21-7-8-9-501",
}  # fmt: skip
DOMAIN, ROOT, MACHINE = Sid(5, (21, 1, 2, 3)), Sid(5, (21, 4, 5, 6)), Sid(5, (21, 7, 8, 9))


def rights(text: str) -> int:
    dacl = parse_sddl(f"D:(A;;{text};;;WD)").dacl
    assert dacl is not None
    return dacl.aces[0].mask


def test_the_example_of_the_document_becomes_its_bytes() -> None:
    assert encode_security_descriptor(parse_sddl(EXAMPLE)) == EXAMPLE_BYTES


def test_the_example_is_written_as_it_was_read() -> None:
    # Flags come in the order of their bits; the document's own example has CI before OI
    assert format_sddl(parse_sddl(EXAMPLE)) == EXAMPLE.replace("CIOI", "OICI")


@pytest.mark.parametrize(("token", "sid"), TOKENS.items())
def test_well_known_sids_are_read_and_written_by_their_alias(token: str, sid: str) -> None:
    assert parse_sddl(f"O:{token}G:{sid}") == SecurityDescriptor(owner=Sid.parse(sid), group=Sid.parse(sid))
    assert format_sddl(SecurityDescriptor(owner=Sid.parse(sid))) == f"O:{token}"


@pytest.mark.parametrize(("token", "sid"), RELATIVE.items())
def test_an_alias_that_depends_on_a_domain_needs_the_domain(token: str, sid: str) -> None:
    read = parse_sddl(f"O:{token}", domain=DOMAIN, root_domain=ROOT, machine=MACHINE)
    assert read.owner == Sid.parse(sid)
    assert format_sddl(read) == f"O:{sid}"
    with pytest.raises(IllegalSecurityDescriptor) as refusal:
        parse_sddl(f"O:{token}")
    assert refusal.value.remedy == "write the SID in full"


def test_the_root_domain_is_not_guessed() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        parse_sddl("O:EA", domain=DOMAIN)


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("", 0),
        ("GA", 0x10000000),
        ("GR", 0x80000000),
        ("GW", 0x40000000),
        ("GX", 0x20000000),
        ("RC", 0x20000),
        ("SD", 0x10000),
        ("WD", 0x40000),
        ("WO", 0x80000),
        ("RCSDWDWO", 0xF0000),
        ("0xf003f", 0xF003F),
        ("0XF003F", 0xF003F),
        ("0xFFFFFFFF", 0xFFFFFFFF),
        ("36", 36),
        ("0", 0),
        ("044", 0o44),
        ("037777777777", 0xFFFFFFFF),
        ("4294967295", 0xFFFFFFFF),
        # Windows prints the MSMQ rights with the letters of directory objects
        ("CCDCLCSWRPWPSDRCWDWO", 0xF003F),
        ("DTLOCR", 0x1C0),
        ("FA", 0x1F01FF),
        ("FR", 0x120089),
        ("FW", 0x120116),
        ("FX", 0x1200A0),
        ("KA", 0xF003F),
        ("KR", 0x20019),
        ("KX", 0x20019),
        ("KW", 0x20006),
    ],
)
def test_rights_are_read_as_letters_or_numbers(text: str, mask: int) -> None:
    assert rights(text) == mask


@pytest.mark.parametrize(
    ("mask", "text"), [(0, ""), (0x10000000, "GA"), (0xC00F0000, "GRGWRCSDWDWO"), (0xF003F, "0xf003f"), (0x24, "0x24")]
)
def test_rights_are_written_as_letters_only_if_letters_say_all(mask: int, text: str) -> None:
    assert format_sddl(SecurityDescriptor(dacl=Acl.of(allow(EVERYONE, mask)))) == f"D:(A;;{text};;;WD)"
    assert rights(text) == mask


@pytest.mark.parametrize("text", ["G", "XX", "GAX", "0x", "0x100000000", "4294967296", "08", "-1", "GA ", "0x1g", "٣"])
def test_rights_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        rights(text)


@pytest.mark.parametrize(
    ("text", "descriptor"),
    [
        ("", SecurityDescriptor()),
        ("D:", SecurityDescriptor(dacl=Acl())),
        ("S:", SecurityDescriptor(sacl=Acl())),
        ("D:NO_ACCESS_CONTROL", SecurityDescriptor(control=int(Control.DACL_PRESENT))),
        ("S:NO_ACCESS_CONTROL", SecurityDescriptor(control=int(Control.SACL_PRESENT))),
        ("D:P", SecurityDescriptor(dacl=Acl(), control=0x1000)),
        ("D:PARAI", SecurityDescriptor(dacl=Acl(), control=0x1500)),
        ("S:PARAI", SecurityDescriptor(sacl=Acl(), control=0x2A00)),
        ("D:AINO_ACCESS_CONTROL", SecurityDescriptor(control=0x0404)),
        ("O:S-1-22-1-1000G:BAD:", SecurityDescriptor(unix_user_sid(1000), ADMINISTRATORS, Acl())),
        ("O:S-1-0x000100000000-1D:", SecurityDescriptor(Sid(1 << 32, (1,)), dacl=Acl())),
        ("O:S-1-0-0", SecurityDescriptor(NOBODY)),
        (
            "D:(D;;0x3;;;AN)(A;OICINPIOID;0x24;;;WD)",
            SecurityDescriptor(dacl=Acl.of(deny(Sid(5, (7,)), 3), allow(EVERYONE, 0x24, 0x1F))),
        ),
        ("S:(AU;SAFA;GA;;;WD)", SecurityDescriptor(sacl=Acl.of(Ace(2, 0xC0, 0x10000000, EVERYONE)))),
        (
            f"D:(OA;;0x100;{GUID};;WD)(OD;;0x10;;{GUID};WD)(OA;;0x1;;;WD)",
            SecurityDescriptor(
                dacl=Acl(
                    4,
                    (
                        Ace(5, 0, 0x100, EVERYONE, object_type=UUID(GUID)),
                        Ace(6, 0, 0x10, EVERYONE, inherited_object_type=UUID(GUID)),
                        Ace(5, 0, 0x1, EVERYONE),
                    ),
                )
            ),
        ),
        (
            f"S:(OU;FA;0x10;{GUID};{GUID};WD)(ML;;0x1;;;LW)(SP;;;;;S-1-17-1)",
            SecurityDescriptor(
                sacl=Acl(
                    4,
                    (
                        Ace(7, 0x80, 0x10, EVERYONE, b"", UUID(GUID), UUID(GUID)),
                        Ace(0x11, 0, 0x1, Sid(16, (4096,))),
                        Ace(0x13, 0, 0, Sid(17, (1,))),
                    ),
                )
            ),
        ),
    ],
)
def test_descriptors_of_every_shape_go_both_ways(text: str, descriptor: SecurityDescriptor) -> None:
    assert parse_sddl(text) == descriptor
    assert format_sddl(descriptor) == text


def test_case_order_and_surrounding_space_do_not_matter() -> None:
    assert parse_sddl(" d:(a;;ga;;;wd)o:ba\n") == parse_sddl("O:BAD:(A;;GA;;;WD)")


@pytest.mark.parametrize(
    "text",
    [
        "X:BA",
        "O",
        "O:",
        "O:B",
        "O:XX",
        "O:BAO:BA",
        "D:D:",
        "D:(A;;GA;;;WD)D:",
        "O:BA G:BA",
        "O:S-1",
        "O:S-1-5-018",
        "O:S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16",
        "D:X",
        "D:(",
        "D:()",
        "D:(A;;GA;;;WD",
        "D:(A;;GA;;;WD))",
        "D:(A;;GA;;;)",
        "D:(A;;GA;;;WDX)",
        "D:(A;;GA;;WD)",
        "D:(A;;GA;;;;WD)",
        "D:(Q;;GA;;;WD)",
        "D:(A;XX;GA;;;WD)",
        "D:(A;C;GA;;;WD)",
        f"D:(A;;GA;{GUID};;WD)",
        "D:(OA;;GA;nonsense;;WD)",
        f"D:(OA;;GA;{{{GUID}}};;WD)",
        "D:NO_ACCESS_CONTROL(A;;GA;;;WD)",
        "D:(AU;FA;GA;;;WD)",  # an entry of the other list
        "S:(A;;GA;;;WD)",
        "D:(XA;;GA;;;WD;(@User.Title==1))",
        'S:(RA;;;;;WD;("Project",TS,0,"Windows"))',
        "D:(A;;GA;;;WÐ)",
        "O:" + "B" * MAX_TEXT,
    ],
)
def test_text_that_is_no_descriptor_is_refused(text: str) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        parse_sddl(text)


def test_a_refusal_says_where() -> None:
    with pytest.raises(IllegalSecurityDescriptor) as refusal:
        parse_sddl("O:BAD:(A;;GA;;;WD)(A;;??;;;WD)")
    assert refusal.value.where == "SDDL at character 18"


@pytest.mark.parametrize("ace", [Ace(9, 0, 2, EVERYONE, b"artx"), Ace(0x77, 0, 0, NOBODY), Ace(0, 0x20, 2, EVERYONE)])
def test_an_entry_without_a_text_form_is_refused_and_not_left_out(ace: Ace) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        format_sddl(SecurityDescriptor(dacl=Acl.of(ace)))


def test_a_list_longer_than_64_kib_is_refused_when_it_becomes_bytes() -> None:
    descriptor = parse_sddl("D:" + "(A;;GA;;;WD)" * 5000)
    with pytest.raises(IllegalSecurityDescriptor):
        encode_security_descriptor(descriptor)


def test_the_default_of_a_new_queue_reads_as_the_documentation_prints_it() -> None:
    made = default_queue_descriptor(Caller(unix_user_sid(1000), authenticated=True), "hardened")
    text = "O:S-1-22-1-1000D:(A;;0x24;;;WD)(A;;0x24;;;AN)(A;;0xf003f;;;BA)(A;;0xf003f;;;S-1-22-1-1000)"
    assert format_sddl(made) == text
    assert parse_sddl(text) == made
