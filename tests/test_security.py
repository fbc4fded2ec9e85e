"""SIDs, rights, descriptors, the access check and the default descriptors."""

from uuid import UUID

import pytest

from lior.errors import IllegalSecurityDescriptor
from lior.security import (
    ADMINISTRATORS,
    ANONYMOUS,
    ANONYMOUS_CALLER,
    AUTHENTICATED_USERS,
    EVERYONE,
    LOCAL_ACCOUNT,
    OWNER_RIGHTS,
    QUEUE_MANAGER_MAPPING,
    QUEUE_MAPPING,
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Acl,
    Caller,
    ConnectedNetworkAccess,
    Control,
    EnterpriseAccess,
    GenericMapping,
    QueueAccess,
    QueueManagerAccess,
    SecurityDescriptor,
    SecurityInformation,
    Sid,
    SiteAccess,
    access_check,
    allow,
    audit_wanted,
    default_queue_descriptor,
    default_queue_manager_descriptor,
    deny,
    local_caller,
    unix_group_sid,
    unix_user_sid,
)

ANNA = unix_user_sid(1000)
BEN = unix_user_sid(1001)
DOMAIN_USER = Sid.parse("S-1-5-21-1-2-3-1105")
DOMAIN_GUEST = Sid.parse("S-1-5-21-1-2-3-501")
anna = local_caller(1000, [1000])
ben = local_caller(1001, [1001])
root = local_caller(0, [0], is_administrator=True)
domain_user = Caller(DOMAIN_USER, authenticated=True)


def guarded(*aces: Ace, owner: Sid | None = None) -> SecurityDescriptor:
    return SecurityDescriptor(owner=owner, dacl=Acl.of(*aces))


# --- SIDs


@pytest.mark.parametrize(
    ("text", "authority", "sub_authorities"),
    [
        ("S-1-0-0", 0, (0,)),
        ("S-1-5", 5, ()),
        ("S-1-5-32-544", 5, (32, 544)),
        ("S-1-5-21-1004336348-1177238915-682003330-512", 5, (21, 1004336348, 1177238915, 682003330, 512)),
        ("S-1-4294967295-4294967295", 0xFFFFFFFF, (0xFFFFFFFF,)),
        ("S-1-0x000100000000-7", 1 << 32, (7,)),
        ("S-1-0xFFFFFFFFFFFF-7", (1 << 48) - 1, (7,)),
        ("S-1-9-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15", 9, tuple(range(1, 16))),
    ],
)
def test_a_sid_is_read_and_printed_as_the_document_writes_it(
    text: str, authority: int, sub_authorities: tuple[int, ...]
) -> None:
    sid = Sid(authority, sub_authorities)
    assert Sid.parse(text) == sid
    assert str(sid) == text


def test_a_small_authority_in_hexadecimal_and_small_letters_are_read_too() -> None:
    assert Sid.parse("s-1-0x000000000005-18") == Sid(5, (18,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "S-1",
        "S-1-",
        "S-2-5-18",
        "S-1-5-",
        "S-1-5-018",
        "S-1-05-18",
        "S-1-4294967296-1",  # over 32 bits: to be written in hexadecimal
        "S-1-5-4294967296",
        "S-1-0x5-18",
        "S-1-5-18 ",
        " S-1-5-18",
        "S-1-5--18",
        "S-1-5-+1",
        "S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16",
        "S-1-5-\u0661",  # a digit, but not one of ours
        "\u017f-1-5-18",  # upper case would turn it into an S
        "S-1-5" + "-1" * 100_000,
    ],
)
def test_text_that_is_no_sid_is_refused(text: str) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        Sid.parse(text)


@pytest.mark.parametrize(
    ("authority", "sub_authorities"), [(1 << 48, ()), (-1, ()), (5, (1 << 32,)), (5, (-1,)), (5, (0,) * 16)]
)
def test_a_sid_that_has_no_byte_form_cannot_be_made(authority: int, sub_authorities: tuple[int, ...]) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        Sid(authority, sub_authorities)


def test_local_users_and_groups_have_the_sids_that_samba_gives_them() -> None:
    assert str(unix_user_sid(1000)) == "S-1-22-1-1000"
    assert str(unix_group_sid(27)) == "S-1-22-2-27"


# --- rights: the numbers of the tables, written out


@pytest.mark.spec("MQ-143", "MQ-144")
def test_queue_manager_rights_have_the_numbers_of_the_table() -> None:
    assert {name: int(value) for name, value in QueueManagerAccess.__members__.items()} == {
        "DELETE_DEADLETTER": 0x1,
        "PEEK_DEADLETTER": 0x2,
        "CREATE_QUEUE": 0x4,
        "SET_PROPERTIES": 0x10,
        "GET_PROPERTIES": 0x20,
        "DELETE_JOURNAL_QUEUE_MESSAGE": 0x40,
        "PEEK_JOURNAL_QUEUE_MESSAGE": 0x80,
        "DELETE_MACHINE": 0x10000,
        "GET_PERMISSIONS": 0x20000,
        "CHANGE_PERMISSIONS": 0x40000,
        "TAKE_OWNERSHIP": 0x80000,
        "RECEIVE_DEADLETTER": 0x3,
        "RECEIVE_JOURNAL": 0xC0,
        "GENERIC_READ": 0x200E3,
        "GENERIC_WRITE": 0x20024,
        "GENERIC_ALL": 0xF00F7,
        "WORLD_RIGHTS": 0x20020,
    }


@pytest.mark.spec("MQ-145", "MQ-146")
def test_queue_rights_have_the_numbers_of_the_table() -> None:
    assert {name: int(value) for name, value in QueueAccess.__members__.items()} == {
        "DELETE_MESSAGE": 0x1,
        "PEEK_MESSAGE": 0x2,
        "WRITE_MESSAGE": 0x4,
        "DELETE_JOURNAL_MESSAGE": 0x8,
        "SET_QUEUE_PROPERTIES": 0x10,
        "GET_QUEUE_PROPERTIES": 0x20,
        "DELETE_QUEUE": 0x10000,
        "GET_PERMISSIONS": 0x20000,
        "CHANGE_PERMISSIONS": 0x40000,
        "TAKE_OWNERSHIP": 0x80000,
        "RECEIVE_MESSAGE": 0x3,
        "RECEIVE_JOURNAL_MESSAGE": 0xA,
        "GENERIC_READ": 0x2002B,
        "GENERIC_WRITE": 0x20024,
        "GENERIC_ALL": 0xF003F,
    }


@pytest.mark.spec("MQ-147")
def test_site_rights_have_the_numbers_of_the_table() -> None:
    assert [int(value) for value in SiteAccess.__members__.values()] == [
        *(0x1, 0x2, 0x4, 0x10, 0x20, 0x10000, 0x20000, 0x40000, 0x80000),
        *(0x20020, 0x20024, 0xF0037),
    ]


@pytest.mark.spec("MQ-148")
def test_enterprise_rights_have_the_numbers_of_the_table() -> None:
    assert [int(value) for value in EnterpriseAccess.__members__.values()] == [
        *(0x1, 0x2, 0x4, 0x10, 0x20, 0x10000, 0x20000, 0x40000, 0x80000),
        *(0x20021, 0x20027, 0xF0037),
    ]


@pytest.mark.spec("MQ-149")
def test_connected_network_rights_have_the_numbers_of_the_table() -> None:
    assert [int(value) for value in ConnectedNetworkAccess.__members__.values()] == [
        *(0x1, 0x10, 0x20, 0x10000, 0x20000, 0x40000, 0x80000),
        *(0x20020, 0xF0031),
    ]


@pytest.mark.spec("MQ-143")
@pytest.mark.parametrize("right", list(QueueManagerAccess), ids=lambda right: str(right.name))
def test_one_queue_manager_right_grants_its_operation_and_no_other(right: QueueManagerAccess) -> None:
    everything = int(QueueManagerAccess.GENERIC_ALL)
    granted = guarded(allow(ANNA, right))
    refused = guarded(deny(ANNA, right), allow(EVERYONE, everything))
    assert access_check(granted, anna, everything, QUEUE_MANAGER_MAPPING) == everything & ~right
    assert access_check(refused, anna, everything, QUEUE_MANAGER_MAPPING) == right
    assert access_check(refused, ben, everything, QUEUE_MANAGER_MAPPING) == 0


@pytest.mark.spec("MQ-145")
@pytest.mark.parametrize("right", list(QueueAccess), ids=lambda right: str(right.name))
def test_one_queue_right_grants_its_operation_and_no_other(right: QueueAccess) -> None:
    everything = int(QueueAccess.GENERIC_ALL)
    granted = guarded(allow(ANNA, right))
    refused = guarded(deny(ANNA, right), allow(EVERYONE, everything))
    assert access_check(granted, anna, everything) == everything & ~right
    assert access_check(refused, anna, everything) == right
    assert access_check(refused, ben, everything) == 0


# --- the access check


def test_receiving_takes_both_the_right_to_peek_and_the_right_to_delete() -> None:
    descriptor = guarded(allow(ANNA, QueueAccess.PEEK_MESSAGE))
    assert access_check(descriptor, anna, QueueAccess.PEEK_MESSAGE) == 0
    assert access_check(descriptor, anna, QueueAccess.RECEIVE_MESSAGE) == QueueAccess.DELETE_MESSAGE


def test_rights_may_come_from_several_entries() -> None:
    descriptor = guarded(allow(ANNA, QueueAccess.PEEK_MESSAGE), allow(EVERYONE, QueueAccess.DELETE_MESSAGE))
    assert access_check(descriptor, anna, QueueAccess.RECEIVE_MESSAGE) == 0


def test_the_first_entry_that_names_a_right_decides_it() -> None:
    denied_first = guarded(deny(ANNA, QueueAccess.WRITE_MESSAGE), allow(EVERYONE, QueueAccess.WRITE_MESSAGE))
    allowed_first = guarded(allow(EVERYONE, QueueAccess.WRITE_MESSAGE), deny(ANNA, QueueAccess.WRITE_MESSAGE))
    assert access_check(denied_first, anna, QueueAccess.WRITE_MESSAGE) == QueueAccess.WRITE_MESSAGE
    assert access_check(allowed_first, anna, QueueAccess.WRITE_MESSAGE) == 0


def test_an_entry_for_a_group_holds_for_its_members_only() -> None:
    descriptor = guarded(allow(unix_group_sid(50), QueueAccess.WRITE_MESSAGE))
    assert access_check(descriptor, local_caller(1000, [50]), QueueAccess.WRITE_MESSAGE) == 0
    assert access_check(descriptor, local_caller(1000, [51]), QueueAccess.WRITE_MESSAGE) == 0x4
    assert access_check(descriptor, local_caller(50, []), QueueAccess.WRITE_MESSAGE) == 0x4  # a user, not the group


def test_no_dacl_lets_everyone_do_everything_and_an_empty_one_nobody() -> None:
    assert access_check(SecurityDescriptor(owner=ANNA), ANONYMOUS_CALLER, QueueAccess.GENERIC_ALL) == 0
    assert access_check(guarded(owner=ANNA), ben, QueueAccess.GENERIC_ALL) == QueueAccess.GENERIC_ALL


def test_the_owner_may_always_read_and_change_the_permissions() -> None:
    descriptor = guarded(deny(EVERYONE, QueueAccess.GENERIC_ALL), owner=ANNA)
    own = int(QueueAccess.GET_PERMISSIONS | QueueAccess.CHANGE_PERMISSIONS)
    assert access_check(descriptor, anna, own) == 0
    assert access_check(descriptor, ben, own) == own
    assert access_check(descriptor, anna, QueueAccess.GENERIC_ALL) == QueueAccess.GENERIC_ALL & ~own


def test_an_entry_for_the_owner_himself_takes_nothing_away() -> None:
    descriptor = guarded(allow(ANNA, QueueAccess.PEEK_MESSAGE), owner=ANNA)
    assert access_check(descriptor, anna, QueueAccess.CHANGE_PERMISSIONS) == 0


def test_an_owner_rights_entry_replaces_what_an_owner_has_by_itself() -> None:
    descriptor = guarded(allow(OWNER_RIGHTS, QueueAccess.GET_PERMISSIONS), owner=ANNA)
    assert access_check(descriptor, anna, QueueAccess.GET_PERMISSIONS) == 0
    assert access_check(descriptor, anna, QueueAccess.CHANGE_PERMISSIONS) == QueueAccess.CHANGE_PERMISSIONS
    assert access_check(descriptor, ben, QueueAccess.GET_PERMISSIONS) == QueueAccess.GET_PERMISSIONS


def test_an_inherit_only_entry_controls_nothing() -> None:
    inherit_only = int(AceFlags.INHERIT_ONLY)
    descriptor = guarded(
        deny(ANNA, QueueAccess.PEEK_MESSAGE, inherit_only),
        allow(ANNA, QueueAccess.PEEK_MESSAGE),
        allow(ANNA, QueueAccess.WRITE_MESSAGE, inherit_only),
        allow(OWNER_RIGHTS, 0, inherit_only),
        owner=ANNA,
    )
    assert access_check(descriptor, anna, QueueAccess.PEEK_MESSAGE) == 0
    assert access_check(descriptor, anna, QueueAccess.WRITE_MESSAGE) == QueueAccess.WRITE_MESSAGE
    assert access_check(descriptor, anna, QueueAccess.CHANGE_PERMISSIONS) == 0


@pytest.mark.spec("MQ-144", "MQ-146")
@pytest.mark.parametrize(
    ("mapping", "generic", "specific"),
    [
        (QUEUE_MAPPING, AccessMask.GENERIC_READ, 0x2002B),
        (QUEUE_MAPPING, AccessMask.GENERIC_WRITE, 0x20024),
        (QUEUE_MAPPING, AccessMask.GENERIC_ALL, 0xF003F),
        (QUEUE_MANAGER_MAPPING, AccessMask.GENERIC_READ, 0x200E3),
        (QUEUE_MANAGER_MAPPING, AccessMask.GENERIC_WRITE, 0x20024),
        (QUEUE_MANAGER_MAPPING, AccessMask.GENERIC_ALL, 0xF00F7),
    ],
)
def test_generic_rights_stand_for_those_of_the_object(
    mapping: GenericMapping, generic: AccessMask, specific: int
) -> None:
    descriptor = guarded(allow(ANNA, generic))
    assert access_check(descriptor, anna, 0xF00FF, mapping) == 0xF00FF & ~specific  # in an entry
    assert access_check(guarded(allow(ANNA, specific)), anna, generic, mapping) == 0  # in a request
    assert access_check(guarded(), anna, generic, mapping) == specific


def test_a_generic_right_without_a_meaning_is_never_granted() -> None:
    descriptor = guarded(allow(ANNA, 0xFFFFFFFF))
    assert access_check(descriptor, anna, AccessMask.GENERIC_EXECUTE) == AccessMask.GENERIC_EXECUTE
    with_meaning = GenericMapping(0, 0, 0x2, 0)
    assert access_check(guarded(allow(ANNA, 0x2)), anna, AccessMask.GENERIC_EXECUTE, with_meaning) == 0


@pytest.mark.parametrize("right", [AccessMask.ACCESS_SYSTEM_SECURITY, AccessMask.MAXIMUM_ALLOWED])
def test_an_entry_cannot_hand_out_what_takes_a_privilege(right: AccessMask) -> None:
    assert access_check(guarded(allow(ANNA, 0xFFFFFFFF)), anna, right) == right
    assert access_check(SecurityDescriptor(), anna, right) == right


def test_an_administrator_is_stopped_by_nothing() -> None:
    descriptor = guarded(deny(EVERYONE, 0xFFFFFFFF), owner=ANNA)
    assert access_check(descriptor, root, QueueAccess.GENERIC_ALL | AccessMask.ACCESS_SYSTEM_SECURITY) == 0


def test_a_member_of_administrators_without_the_flag_gets_what_the_list_says() -> None:
    member = Caller(DOMAIN_USER, frozenset({ADMINISTRATORS}), authenticated=True)
    assert access_check(guarded(), member, QueueAccess.PEEK_MESSAGE) == QueueAccess.PEEK_MESSAGE
    assert access_check(guarded(allow(ADMINISTRATORS, 0x2)), member, QueueAccess.PEEK_MESSAGE) == 0


@pytest.mark.parametrize(
    "ace_type",
    [AceType.ACCESS_ALLOWED_OBJECT, AceType.ACCESS_ALLOWED_CALLBACK, AceType.ACCESS_ALLOWED_CALLBACK_OBJECT],
)
def test_an_entry_with_a_condition_or_an_object_type_never_grants(ace_type: AceType) -> None:
    assert access_check(guarded(Ace(int(ace_type), 0, 0x2, ANNA)), anna, 0x2) == 0x2


@pytest.mark.parametrize(
    "ace_type", [AceType.ACCESS_DENIED_OBJECT, AceType.ACCESS_DENIED_CALLBACK, AceType.ACCESS_DENIED_CALLBACK_OBJECT]
)
def test_an_entry_with_a_condition_or_an_object_type_still_denies(ace_type: AceType) -> None:
    assert access_check(guarded(Ace(int(ace_type), 0, 0x2, ANNA), allow(ANNA, 0x2)), anna, 0x2) == 0x2


def test_an_unknown_entry_decides_nothing() -> None:
    unknown = Ace(0x77, 0, 0, Sid(0, (0,)), b"\x02\x00\x00\x00")
    assert access_check(guarded(unknown, allow(ANNA, 0x2)), anna, 0x2) == 0


# --- callers


def test_everyone_is_in_everyone_and_only_proven_users_are_authenticated() -> None:
    assert ANONYMOUS_CALLER.sids == {ANONYMOUS, EVERYONE}
    assert anna.sids == {ANNA, unix_group_sid(1000), LOCAL_ACCOUNT, EVERYONE, AUTHENTICATED_USERS}
    assert AUTHENTICATED_USERS not in Caller(DOMAIN_USER).sids
    assert AUTHENTICATED_USERS not in Caller(DOMAIN_GUEST, authenticated=True).sids
    assert AUTHENTICATED_USERS not in Caller(ANONYMOUS, authenticated=True).sids
    assert ADMINISTRATORS in root.sids


def test_a_caller_may_make_an_owner_of_itself_and_its_groups_only() -> None:
    assert anna.may_own(ANNA)
    assert anna.may_own(unix_group_sid(1000))
    assert not anna.may_own(BEN)
    assert not anna.may_own(EVERYONE)
    assert not ANONYMOUS_CALLER.may_own(ANONYMOUS)
    assert root.may_own(BEN)


# --- auditing


def audited(*aces: Ace) -> SecurityDescriptor:
    return SecurityDescriptor(sacl=Acl.of(*aces))


def test_an_audit_entry_names_who_what_and_which_outcome() -> None:
    failures = int(AceFlags.FAILED_ACCESS)
    descriptor = audited(Ace(int(AceType.SYSTEM_AUDIT), failures, int(AccessMask.GENERIC_READ), ANNA))
    assert audit_wanted(descriptor, anna, QueueAccess.PEEK_MESSAGE, success=False)
    assert not audit_wanted(descriptor, anna, QueueAccess.PEEK_MESSAGE, success=True)
    assert not audit_wanted(descriptor, anna, QueueAccess.WRITE_MESSAGE, success=False)
    assert not audit_wanted(descriptor, ben, QueueAccess.PEEK_MESSAGE, success=False)
    successes = audited(Ace(int(AceType.SYSTEM_AUDIT), int(AceFlags.SUCCESSFUL_ACCESS), 0x2, EVERYONE))
    assert audit_wanted(successes, ben, QueueAccess.PEEK_MESSAGE, success=True)


def test_no_sacl_an_alarm_or_an_inherit_only_entry_audits_nothing() -> None:
    both = int(AceFlags.FAILED_ACCESS | AceFlags.SUCCESSFUL_ACCESS)
    assert not audit_wanted(SecurityDescriptor(), anna, 0x2, success=False)
    assert not audit_wanted(audited(Ace(int(AceType.SYSTEM_ALARM), both, 0x2, ANNA)), anna, 0x2, success=False)
    inherit_only = Ace(int(AceType.SYSTEM_AUDIT), both | int(AceFlags.INHERIT_ONLY), 0x2, ANNA)
    assert not audit_wanted(audited(inherit_only), anna, 0x2, success=False)


def test_a_conditional_audit_entry_audits() -> None:
    conditional = Ace(int(AceType.SYSTEM_AUDIT_CALLBACK), int(AceFlags.FAILED_ACCESS), 0x2, ANNA, b"artx")
    assert audit_wanted(audited(conditional), anna, 0x2, success=False)


# --- parts of a descriptor

OLD = SecurityDescriptor(
    owner=ANNA,
    group=unix_group_sid(1),
    dacl=Acl.of(allow(ANNA, 0x1)),
    sacl=Acl.of(Ace(2, 0x40, 0x1, ANNA)),
    control=int(Control.DACL_PROTECTED | Control.SACL_AUTO_INHERITED | Control.OWNER_DEFAULTED),
)
NEW = SecurityDescriptor(
    owner=BEN,
    group=unix_group_sid(2),
    dacl=Acl.of(allow(BEN, 0x2)),
    sacl=Acl.of(Ace(2, 0x80, 0x2, BEN)),
    control=int(Control.DACL_AUTO_INHERITED | Control.SACL_PROTECTED | Control.GROUP_DEFAULTED),
)
PARTS = {"owner": 1, "group": 2, "dacl": 4, "sacl": 8}
CONTROL = {"owner": 0x0001, "group": 0x0002, "dacl": 0x15CC, "sacl": 0x2A30}


@pytest.mark.spec("MQ-028")
def test_security_information_has_the_numbers_of_the_table() -> None:
    assert [(part.name, int(part)) for part in SecurityInformation] == [
        *(("OWNER", 1), ("GROUP", 2), ("DACL", 4), ("SACL", 8))
    ]


@pytest.mark.spec("MQ-028")
@pytest.mark.parametrize("information", range(16))
def test_security_information_chooses_the_parts_to_read(information: int) -> None:
    chosen = OLD.select(information)
    for name, bit in PARTS.items():
        assert getattr(chosen, name) == (getattr(OLD, name) if information & bit else None)
        expected = OLD.control & CONTROL[name] if information & bit else 0
        assert chosen.control & CONTROL[name] == expected


@pytest.mark.spec("MQ-028")
@pytest.mark.parametrize("information", range(16))
def test_security_information_chooses_the_parts_to_write(information: int) -> None:
    merged = OLD.merge(NEW, information)
    for name, bit in PARTS.items():
        source = NEW if information & bit else OLD
        assert getattr(merged, name) == getattr(source, name)
        assert merged.control & CONTROL[name] == source.control & CONTROL[name]


def test_setting_an_owner_or_a_dacl_without_giving_one_is_refused() -> None:
    nothing = SecurityDescriptor()
    with pytest.raises(IllegalSecurityDescriptor):
        OLD.merge(nothing, SecurityInformation.OWNER)
    with pytest.raises(IllegalSecurityDescriptor):
        OLD.merge(nothing, SecurityInformation.DACL)
    cleared = OLD.merge(nothing, SecurityInformation.GROUP | SecurityInformation.SACL)
    assert (cleared.group, cleared.sacl) == (None, None)


def test_a_null_dacl_that_is_given_on_purpose_is_taken() -> None:
    open_to_all = OLD.merge(SecurityDescriptor(control=int(Control.DACL_PRESENT)), SecurityInformation.DACL)
    assert open_to_all.has_dacl
    assert open_to_all.dacl is None


# --- descriptors that cannot be made


@pytest.mark.parametrize("ace", [(256, 0, 0), (-1, 0, 0), (0, 256, 0), (0, -1, 0), (0, 0, 1 << 32), (0, 0, -1)])
def test_an_entry_with_a_number_that_does_not_fit_cannot_be_made(ace: tuple[int, int, int]) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        Ace(*ace, ANNA)


def test_an_entry_of_an_impossible_shape_cannot_be_made() -> None:
    guid = UUID(int=1)
    with pytest.raises(IllegalSecurityDescriptor):
        Ace(0, 0, 0, ANNA, extra=b"abc")
    with pytest.raises(IllegalSecurityDescriptor):
        Ace(0, 0, 0, ANNA, object_type=guid)
    with pytest.raises(IllegalSecurityDescriptor):
        Ace(0, 0, 0, ANNA, inherited_object_type=guid)
    with pytest.raises(IllegalSecurityDescriptor):
        Ace(0x77, 0, 0, ANNA)
    with pytest.raises(IllegalSecurityDescriptor):
        Ace(0x04, 0, 1, Sid(0, (0,)))


def test_a_list_of_an_unknown_revision_cannot_be_made() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        Acl(3)


def test_a_list_has_the_revision_that_its_entries_ask_for() -> None:
    assert Acl.of(allow(ANNA, 1)).revision == 2
    assert Acl.of(allow(ANNA, 1), Ace(5, 0, 1, ANNA)).revision == 4


def test_entries_in_the_wrong_list_are_refused() -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        SecurityDescriptor(dacl=Acl.of(Ace(2, 0x40, 1, ANNA)))
    with pytest.raises(IllegalSecurityDescriptor):
        SecurityDescriptor(sacl=Acl.of(allow(ANNA, 1)))


@pytest.mark.parametrize(("control", "resource_manager"), [(1 << 16, 0), (-1, 0), (0x4000, 256), (0x4000, -1)])
def test_control_bits_that_do_not_fit_are_refused(control: int, resource_manager: int) -> None:
    with pytest.raises(IllegalSecurityDescriptor):
        SecurityDescriptor(control=control, resource_manager=resource_manager)


# --- default descriptors


def test_in_the_hardened_default_anyone_may_send_and_nobody_else_may_do_more() -> None:
    descriptor = default_queue_descriptor(anna, "hardened")
    public = int(QueueAccess.WRITE_MESSAGE | QueueAccess.GET_QUEUE_PROPERTIES)
    for stranger in (ben, ANONYMOUS_CALLER, domain_user):
        assert access_check(descriptor, stranger, public) == 0
        assert access_check(descriptor, stranger, QueueAccess.GENERIC_ALL) == QueueAccess.GENERIC_ALL & ~public
    assert descriptor.owner == ANNA
    for entitled in (anna, root, Caller(DOMAIN_USER, frozenset({ADMINISTRATORS}))):
        assert access_check(descriptor, entitled, QueueAccess.GENERIC_ALL) == 0


def test_the_hardened_default_names_anonymous_for_systems_where_everyone_leaves_it_out() -> None:
    descriptor = default_queue_descriptor(anna, "hardened")
    assert descriptor.dacl is not None
    assert allow(ANONYMOUS, 0x24) in descriptor.dacl.aces


def test_a_queue_of_nobody_in_particular_belongs_to_the_administrators() -> None:
    descriptor = default_queue_descriptor(ANONYMOUS_CALLER, "hardened")
    assert descriptor.owner == ADMINISTRATORS
    assert access_check(descriptor, ANONYMOUS_CALLER, QueueAccess.CHANGE_PERMISSIONS) != 0


def test_a_hardened_queue_is_given_to_another_owner_only_by_an_administrator() -> None:
    for_ben = SecurityDescriptor(owner=BEN)
    assert default_queue_descriptor(anna, "hardened", for_ben).owner == ANNA
    assert default_queue_descriptor(root, "hardened", for_ben).owner == BEN
    for_group = SecurityDescriptor(owner=unix_group_sid(1000))
    assert default_queue_descriptor(anna, "hardened", for_group).owner == unix_group_sid(1000)
    assert default_queue_descriptor(ben, "hardened", SecurityDescriptor(owner=EVERYONE)).owner == BEN


@pytest.mark.spec("DM-086")
def test_the_literal_default_of_a_workgroup_gives_everyone_full_control() -> None:
    for creator in (anna, root, ANONYMOUS_CALLER, Caller(DOMAIN_GUEST)):
        descriptor = default_queue_descriptor(creator, "literal")
        assert descriptor.dacl == Acl(2, (Ace(0, 0, 0xF003F, EVERYONE),))
    assert default_queue_descriptor(anna, "literal").owner == ANONYMOUS
    assert default_queue_descriptor(Caller(DOMAIN_GUEST), "literal").owner == DOMAIN_GUEST


@pytest.mark.spec("DM-086")
def test_the_literal_default_of_a_domain_user_gives_the_owner_full_control() -> None:
    machine = Sid.parse("S-1-5-21-1-2-3-2001")
    descriptor = default_queue_descriptor(domain_user, "literal", machine=machine)
    assert descriptor.owner == DOMAIN_USER
    assert descriptor.dacl == Acl(
        2, (Ace(0, 0, 0x20020, EVERYONE), Ace(0, 0, 0x20020, machine), Ace(0, 0, 0xF003F, DOMAIN_USER))
    )


@pytest.mark.spec("DM-086")
@pytest.mark.parametrize("profile", ["hardened", "literal"])
def test_supplied_lists_are_kept(profile: str) -> None:
    supplied = SecurityDescriptor(
        dacl=Acl.of(allow(BEN, 0x2)),
        sacl=Acl.of(Ace(2, 0x80, 0x2, BEN)),
        group=unix_group_sid(7),
        control=int(Control.DACL_PROTECTED),
    )
    made = default_queue_descriptor(anna, "literal" if profile == "literal" else "hardened", supplied, True)
    assert (made.dacl, made.sacl, made.group) == (supplied.dacl, supplied.sacl, supplied.group)
    assert made.control == supplied.control
    only_sacl = SecurityDescriptor(sacl=supplied.sacl)
    made = default_queue_descriptor(anna, "literal" if profile == "literal" else "hardened", only_sacl)
    assert made.sacl == supplied.sacl
    assert made.dacl is not None


@pytest.mark.spec("DM-086")
def test_a_supplied_owner_is_kept_by_the_literal_default_if_he_is_a_domain_user() -> None:
    assert default_queue_descriptor(anna, "literal", SecurityDescriptor(owner=DOMAIN_USER)).owner == DOMAIN_USER
    assert default_queue_descriptor(domain_user, "literal", SecurityDescriptor(owner=BEN)).owner == ANONYMOUS


def test_a_null_dacl_that_the_creator_asks_for_is_kept() -> None:
    asked = SecurityDescriptor(control=int(Control.DACL_PRESENT))
    for made in (default_queue_descriptor(anna, "hardened", asked), default_queue_descriptor(anna, "literal", asked)):
        assert made.has_dacl
        assert made.dacl is None


@pytest.mark.spec("DM-087")
def test_world_and_anonymous_may_send_to_a_queue_only_if_http_can_reach_it() -> None:
    closed = default_queue_descriptor(domain_user, "literal")
    reachable = default_queue_descriptor(domain_user, "literal", http_reachable=True)
    assert access_check(closed, ANONYMOUS_CALLER, QueueAccess.WRITE_MESSAGE) == QueueAccess.WRITE_MESSAGE
    assert reachable.dacl == Acl(
        2, (Ace(0, 0, 0x20024, EVERYONE), Ace(0, 0, 0x4, ANONYMOUS), Ace(0, 0, 0xF003F, DOMAIN_USER))
    )
    assert access_check(reachable, ANONYMOUS_CALLER, QueueAccess.WRITE_MESSAGE) == 0


@pytest.mark.spec("DM-008")
def test_the_queue_manager_is_guarded_by_queue_manager_rights() -> None:
    descriptor = default_queue_manager_descriptor(anna)
    rights = QueueManagerAccess
    for stranger in (ANONYMOUS_CALLER, domain_user):
        assert access_check(descriptor, stranger, rights.WORLD_RIGHTS, QUEUE_MANAGER_MAPPING) == 0
        assert access_check(descriptor, stranger, rights.CREATE_QUEUE, QUEUE_MANAGER_MAPPING) == rights.CREATE_QUEUE
    assert access_check(descriptor, ben, rights.CREATE_QUEUE, QUEUE_MANAGER_MAPPING) == 0
    assert access_check(descriptor, ben, rights.PEEK_DEADLETTER, QUEUE_MANAGER_MAPPING) == rights.PEEK_DEADLETTER
    for entitled in (anna, root):
        assert access_check(descriptor, entitled, AccessMask.GENERIC_ALL, QUEUE_MANAGER_MAPPING) == 0
    assert descriptor.owner == ANNA


def test_a_queue_manager_of_nobody_in_particular_belongs_to_the_administrators() -> None:
    assert default_queue_manager_descriptor(ANONYMOUS_CALLER).owner == ADMINISTRATORS
