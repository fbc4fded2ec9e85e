"""SIDs, and the numbers and meaning of rights."""

import pytest

from lior.errors import IllegalSecurityDescriptor
from lior.security import (
    EVERYONE,
    QUEUE_MANAGER_MAPPING,
    ConnectedNetworkAccess,
    EnterpriseAccess,
    QueueAccess,
    QueueManagerAccess,
    Sid,
    SiteAccess,
    access_check,
    allow,
    deny,
    unix_group_sid,
    unix_user_sid,
)
from tests.security_examples import ANNA, anna, ben, guarded

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
