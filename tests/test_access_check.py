"""The access check, callers and auditing."""

import pytest

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
    GenericMapping,
    QueueAccess,
    SecurityDescriptor,
    Sid,
    access_check,
    allow,
    audit_wanted,
    deny,
    local_caller,
    unix_group_sid,
)
from tests.security_examples import ANNA, BEN, DOMAIN_GUEST, DOMAIN_USER, anna, ben, guarded, root

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
