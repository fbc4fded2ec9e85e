"""Parts of security descriptors, those that cannot be made, and the default ones."""

from uuid import UUID

import pytest

from lior.errors import IllegalSecurityDescriptor
from lior.security import (
    ADMINISTRATORS,
    ANONYMOUS,
    ANONYMOUS_CALLER,
    EVERYONE,
    QUEUE_MANAGER_MAPPING,
    AccessMask,
    Ace,
    Acl,
    Caller,
    Control,
    QueueAccess,
    QueueManagerAccess,
    SecurityDescriptor,
    SecurityInformation,
    Sid,
    access_check,
    allow,
    default_queue_descriptor,
    default_queue_manager_descriptor,
    unix_group_sid,
)
from tests.security_examples import ANNA, BEN, DOMAIN_GUEST, DOMAIN_USER, anna, ben, domain_user, root

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
