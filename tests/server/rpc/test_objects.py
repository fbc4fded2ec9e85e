"""Private queues as objects: creation, rights, properties, names, deletion ([MS-MQMP] 3.1.4.5 to 3.1.4.11)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from lior.errors import HRESULTS
from lior.message import Message, MessageClass
from lior.names import QueueFormat, QueueFormatType, from_queue_format
from lior.queues.events import AccessAudited
from lior.security import (
    ADMINISTRATORS,
    EVERYONE,
    Ace,
    Acl,
    Caller,
    QueueAccess,
    SecurityDescriptor,
    allow,
)
from lior.wire.dtyp import decode_security_descriptor, encode_security_descriptor
from lior.wire.interfaces.structures import ObjectFormat
from lior.wire.propvariant import (
    NULL,
    VT_I2,
    VT_I8,
    VT_LPWSTR,
    VT_UI1,
    VT_UI4,
    PropVariant,
)
from tests.server.rpc.calling import QUEUE, Client, Server, format_of, object_of, user

PATH = r".\private$\new"
EXISTS = HRESULTS["MQ_ERROR_QUEUE_EXISTS"]
ILLEGAL_PATH = HRESULTS["MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"]
INVALID = HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
NOT_FOUND = HRESULTS["MQ_ERROR_QUEUE_NOT_FOUND"]
NOT_ALLOWED = HRESULTS["MQ_ERROR_PROPERTY_NOTALLOWED"]
PROPERTY = HRESULTS["MQ_ERROR_PROPERTY"]
DENIED = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
UNSUPPORTED = HRESULTS["MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"]
BAD_DESCRIPTOR = HRESULTS["MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR"]
SMALL = HRESULTS["MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL"]
OWNER, GROUP, DACL, SACL = 1, 2, 4, 8
Pairs = tuple[tuple[int, PropVariant], ...]


@pytest.fixture
def server() -> Server:
    server = Server()
    server.create()
    return server


def acl(aces: tuple[Ace, ...]) -> Acl:
    return Acl(aces=aces)


def create(client: Client, path: str = PATH, *pairs: tuple[int, PropVariant], sd: bytes | None = None,
           kind: int = 1) -> int:  # fmt: skip
    given = pairs or ((103, PropVariant(VT_LPWSTR, path)),)
    return int(client.qmcomm(6, dw_object_type=kind, lpwcs_path_name=path, sd_size=len(sd or b""),
                             p_security_descriptor=sd, cp=len(given), a_prop=[each[0] for each in given],
                             ap_var=[each[1] for each in given]).result)  # fmt: skip


def get(client: Client, *propids: int, name: str = QUEUE, given: PropVariant = NULL) -> Any:
    return client.qmcomm(10, p_object_format=object_of(name), cp=len(propids), a_prop=list(propids),
                         ap_var=[given] * len(propids))  # fmt: skip


def put(client: Client, *pairs: tuple[int, PropVariant], name: str = QUEUE) -> int:
    return int(client.qmcomm(11, p_object_format=object_of(name), cp=len(pairs), a_prop=[each[0] for each in pairs],
                             ap_var=[each[1] for each in pairs]).result)  # fmt: skip


# Creation


@pytest.mark.spec("MP-100", "MP-102", "MP-074", "MP-085")
def test_creates_a_queue_with_the_properties_it_is_given(server: Server) -> None:
    client = server.client()
    assert create(client, PATH, (103, PropVariant(VT_LPWSTR, PATH)), (104, PropVariant(VT_UI1, 1)),
                  (105, PropVariant(VT_UI4, 77)), (106, PropVariant(VT_I2, 5)), (107, PropVariant(VT_UI4, 88)),
                  (108, PropVariant(VT_LPWSTR, "label")), (111, PropVariant(VT_UI1, 1)),
                  (112, PropVariant(VT_UI4, 2)), (113, PropVariant(VT_UI1, 1))) == 0  # fmt: skip
    properties = server.manager.core.paths[r"private$\new"].properties
    assert (properties.journaling, properties.quota, properties.journal_quota) == (True, 77, 88)
    assert (properties.label, properties.authentication, properties.privacy_level) == ("label", True, 2)
    assert (properties.transactional, properties.base_priority) == (True, 0)  # ignored for private queues
    assert create(client, r".\private$\tuned", (125, PropVariant(VT_LPWSTR, "234.1.1.1:8001"))) == 0


@pytest.mark.spec("MP-102")
def test_leaves_a_queue_that_exists_as_it_is_in_every_spelling(server: Server) -> None:
    client = server.client()
    assert create(client, PATH, (108, PropVariant(VT_LPWSTR, "first"))) == 0
    for path in (PATH, r".\PRIVATE$\New", r"lior\private$\new", r"LIOR.example.org\private$\new"):
        assert create(client, path, (108, PropVariant(VT_LPWSTR, "second"))) == EXISTS
    assert server.manager.core.paths[r"private$\new"].properties.label == "first"


@pytest.mark.spec("MP-102")
def test_a_new_queue_has_the_documents_defaults(server: Server) -> None:
    client = server.client()
    create(client)
    values = get(client, 104, 105, 106, 107, 108, 111, 112, 113, name=r"DIRECT=OS:.\private$\new").ap_var
    assert [each.value for each in values] == [0, 0xFFFFFFFF, 0, 0xFFFFFFFF, "", 0, 1, 0]


@pytest.mark.parametrize("path", [
    r"other\private$\new", r".\public", r".\private$\a;sub", r".\private$\a;JOURNAL", r".\system$;DEADLETTER",
    ".\\private$\\" + "x" * 125, "nobackslash", r".\private$\a+b", r".\private$\a,b", '.\\private$\\a"b',
])  # fmt: skip
@pytest.mark.spec("MP-101")
def test_creates_no_queue_whose_path_is_not_that_of_a_private_one_here(server: Server, path: str) -> None:
    before = set(server.manager.core.paths)
    result = create(server.client(), path)
    assert result == ILLEGAL_PATH
    assert set(server.manager.core.paths) == before


@pytest.mark.spec("MP-101")
def test_creates_queues_only(server: Server) -> None:
    assert create(server.client(), kind=2) == INVALID
    assert r"private$\new" not in server.manager.core.paths


@pytest.mark.parametrize("propid", [101, 109, 110, 114, 115, 124, 126, 1101, 1102, 1, 9999])
@pytest.mark.spec("MP-085")
def test_creates_with_the_documents_properties_only(server: Server, propid: int) -> None:
    assert create(server.client(), PATH, (propid, PropVariant(VT_UI4, 1))) == NOT_ALLOWED
    assert r"private$\new" not in server.manager.core.paths


@pytest.mark.parametrize(("propid", "variant", "result"), [
    (104, PropVariant(VT_UI1, 2), "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
    (112, PropVariant(VT_UI4, 3), "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
    (104, PropVariant(VT_UI4, 1), "MQ_ERROR_ILLEGAL_PROPERTY_VT"),
    (103, PropVariant(VT_LPWSTR, r".\private$\other"), "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"),
])  # fmt: skip
@pytest.mark.spec("MP-088", "MP-101", "MP-102")
def test_creates_nothing_from_values_that_are_wrong(
    server: Server, propid: int, variant: PropVariant, result: str
) -> None:
    assert create(server.client(), PATH, (propid, variant)) == HRESULTS[result]
    assert r"private$\new" not in server.manager.core.paths


@pytest.mark.spec("MP-102", "MP-073")
def test_creates_with_the_rights_it_is_given(server: Server) -> None:
    bob = user(2)
    given = SecurityDescriptor(dacl=acl((allow(bob.sid, int(QueueAccess.RECEIVE_MESSAGE)),)))
    assert create(server.client(), sd=encode_security_descriptor(given)) == 0
    security = server.manager.core.paths[r"private$\new"].properties.security
    assert security is not None and security.dacl is not None
    assert [ace.sid for ace in security.dacl.aces] == [bob.sid]
    assert server.client(bob).open(r"DIRECT=OS:.\private$\new").result == 0
    assert server.client(user(3)).open(r"DIRECT=OS:.\private$\new").result == DENIED


@pytest.mark.spec("MP-073", "MP-102")
def test_creates_nothing_from_a_descriptor_that_is_none(server: Server) -> None:
    for sd in (b"\1", b"\1\0\4\x80" + b"\xff" * 16, b"\xff" * 100):
        assert create(server.client(), sd=sd) == BAD_DESCRIPTOR
    assert r"private$\new" not in server.manager.core.paths



@pytest.mark.spec("MP-008")
def test_creating_takes_the_right_to_create() -> None:
    server = Server()
    stranger = Caller(user(7).sid, authenticated=True)
    server.manager.core.properties.security = SecurityDescriptor(dacl=acl((allow(ADMINISTRATORS, 0x000F003F),)))
    assert create(server.client(stranger)) == DENIED
    assert r"private$\new" not in server.manager.core.paths


# Deletion


@pytest.mark.spec("MP-109")
def test_deletes_a_queue_and_tells_what_became_of_its_messages(server: Server) -> None:
    server.create("admin")
    sender = server.engine.sender()
    server.engine.send(sender, Message(b"1", administration_queue=r"DIRECT=OS:.\private$\admin",
                                       acknowledgements_requested=8))  # fmt: skip
    client = server.client()
    assert client.qmcomm(9, p_object_format=object_of(QUEUE)).result == 0
    assert r"private$\q" not in server.manager.core.paths
    admin = server.manager.core.paths[r"private$\admin"]
    (lookup_id,) = admin.available
    message = admin.position(lookup_id, server.engine.store).message
    assert message.message_class == MessageClass.NACK_Q_DELETED
    assert client.open().result == NOT_FOUND
    assert client.qmcomm(9, p_object_format=object_of(QUEUE)).result == NOT_FOUND


@pytest.mark.parametrize("name", [
    QUEUE + ";JOURNAL", r"DIRECT=OS:.\system$;DEADLETTER", r"DIRECT=OS:.\system$;JOURNAL",
])  # fmt: skip
@pytest.mark.spec("MP-110")
def test_journals_and_system_queues_are_no_objects(server: Server, name: str) -> None:
    client = server.client()
    assert client.qmcomm(9, p_object_format=object_of(name)).result == UNSUPPORTED
    assert get(client, 105, name=name).result == UNSUPPORTED
    assert put(client, (105, PropVariant(VT_UI4, 1)), name=name) == UNSUPPORTED
    assert client.open(name).result == 0


@pytest.mark.spec("MP-035", "MP-106", "MP-109", "MP-103")
def test_an_object_is_named_and_is_here(server: Server) -> None:
    client = server.client()
    nothing = ObjectFormat(p_queue_format=None)
    far = object_of(r"DIRECT=OS:other\private$\q")
    for given, result in ((nothing, INVALID), (far, NOT_FOUND)):
        assert client.qmcomm(9, p_object_format=given).result == result
        assert client.qmcomm(8, p_object_format=given, requested_information=4, n_length=0).result == result
        assert client.qmcomm(7, p_object_format=given, security_information=4, sd_size=0,
                             p_security_descriptor=None).result == result  # fmt: skip
        assert client.qmcomm(10, p_object_format=given, cp=1, a_prop=[105], ap_var=[NULL]).result == result
        assert client.qmcomm(11, p_object_format=given, cp=1, a_prop=[105], ap_var=[NULL]).result == result


# Rights


def security_of(server: Server) -> SecurityDescriptor:
    security = server.manager.core.paths[r"private$\q"].properties.security
    assert security is not None
    return security


def get_security(client: Client, information: int, room: int = 1000, name: str = QUEUE) -> Any:
    return client.qmcomm(8, p_object_format=object_of(name), requested_information=information, n_length=room)


def set_security(client: Client, information: int, sd: SecurityDescriptor | bytes | None) -> int:
    data = encode_security_descriptor(sd) if isinstance(sd, SecurityDescriptor) else sd
    return int(client.qmcomm(7, p_object_format=object_of(QUEUE), security_information=information,
                             sd_size=len(data or b""), p_security_descriptor=data).result)  # fmt: skip


@pytest.mark.spec("MP-105", "MP-107", "MP-072")
def test_tells_each_part_of_the_rights_that_is_asked_for(server: Server) -> None:
    client = server.client()
    for information in (OWNER, GROUP, DACL, OWNER | DACL, OWNER | GROUP | DACL):
        response = get_security(client, information)
        assert response.result == 0
        data = bytes(response.p_security_descriptor[: response.lpn_length_needed])
        assert decode_security_descriptor(data) == security_of(server).select(information)


@pytest.mark.spec("MP-105", "MP-108")
def test_tells_how_much_room_the_rights_take(server: Server) -> None:
    client = server.client()
    short = get_security(client, 7, 0)
    assert (short.result, bytes(short.p_security_descriptor)) == (SMALL, b"")
    needed = short.lpn_length_needed
    almost = get_security(client, 7, needed - 1)
    assert (almost.result, bytes(almost.p_security_descriptor)) == (SMALL, bytes(needed - 1))
    exact = get_security(client, 7, needed)
    assert exact.result == 0
    larger = get_security(client, 7, needed + 50)
    assert bytes(larger.p_security_descriptor) == bytes(exact.p_security_descriptor) + bytes(50)


@pytest.mark.spec("MP-106")
def test_every_name_of_a_queue_has_the_same_rights(server: Server) -> None:
    client = server.client()
    queue = server.manager.core.paths[r"private$\q"]
    identifier = server.manager.core.properties.identifier
    names = (QUEUE, r"DIRECT=TCP:192.0.2.7\private$\q", f"PRIVATE={identifier}\\{queue.private_number:X}")
    assert len({bytes(get_security(client, 7, name=name).p_security_descriptor) for name in names}) == 1


@pytest.mark.spec("MP-103")
def test_replaces_only_the_parts_that_are_meant(server: Server) -> None:
    before = security_of(server)
    bob = user(2)
    new = SecurityDescriptor(owner=bob.sid, group=bob.sid, dacl=acl((allow(EVERYONE, 4),)))
    server.engine.events.clear()
    assert set_security(server.client(), DACL, new) == 0
    assert [event.wanted for event in server.engine.events if isinstance(event, AccessAudited)] == [
        int(QueueAccess.CHANGE_PERMISSIONS)]  # fmt: skip
    after = security_of(server)
    assert (after.owner, after.group) == (before.owner, before.group)
    assert after.dacl is not None and [ace.sid for ace in after.dacl.aces] == [EVERYONE]


def grant(server: Server, caller: Caller, mask: int) -> None:
    security = SecurityDescriptor(owner=ADMINISTRATORS, dacl=acl((allow(caller.sid, mask),)))
    queue = server.manager.core.paths[r"private$\q"]
    server.engine.do(server.manager.set_queue_security, queue, 7, security, server.engine.admin)


@pytest.mark.spec("MP-104", "MP-008")
def test_each_part_of_the_rights_takes_a_right_of_its_own(server: Server) -> None:
    bob = user(2)
    client = server.client(bob)
    new = SecurityDescriptor(owner=bob.sid, dacl=acl((allow(EVERYONE, 0x3F),)))
    grant(server, bob, int(QueueAccess.CHANGE_PERMISSIONS))
    assert set_security(client, OWNER, new) == DENIED
    grant(server, bob, int(QueueAccess.TAKE_OWNERSHIP))
    assert set_security(client, DACL, new) == DENIED
    assert security_of(server).owner == ADMINISTRATORS
    assert set_security(client, OWNER, new) == 0
    assert security_of(server).owner == bob.sid


@pytest.mark.spec("MP-104")
def test_nobody_makes_a_stranger_the_owner(server: Server) -> None:
    bob = user(2)
    grant(server, bob, int(QueueAccess.TAKE_OWNERSHIP))
    for owner in (user(3).sid, ADMINISTRATORS, EVERYONE):
        result = set_security(server.client(bob), OWNER, SecurityDescriptor(owner=owner))
        assert result == HRESULTS["MQ_ERROR_INVALID_OWNER"]
    assert security_of(server).owner == ADMINISTRATORS


@pytest.mark.spec("MP-104")
def test_audit_lists_are_for_administrators(server: Server) -> None:
    bob = user(2)
    grant(server, bob, 0x000F003F)
    held = HRESULTS["MQ_ERROR_PRIVILEGE_NOT_HELD"]
    assert set_security(server.client(bob), SACL, SecurityDescriptor(sacl=acl(()))) == held
    assert get_security(server.client(bob), SACL).result == held


@pytest.mark.spec("MP-073", "MP-072")
def test_changes_nothing_for_descriptors_and_bits_that_are_none(server: Server) -> None:
    before = security_of(server)
    client = server.client()
    for sd in (b"", None, b"\1\0\4\x80" + b"\xff" * 16, b"\2\0\4\x80" + bytes(16), b"\1\0\4\x80" + bytes(15)):
        assert set_security(client, DACL, sd) == BAD_DESCRIPTOR
    for information in (0, 0x10, 0x80000004):
        assert set_security(client, information, before) == INVALID
        assert get_security(client, information).result == INVALID
    assert security_of(server) == before


# Properties


@pytest.mark.spec("MP-087", "MP-088", "MP-111")
def test_tells_every_property_of_the_document_in_one_call(server: Server) -> None:
    propids = [101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 124, 125, 126]
    response = get(server.client(), *reversed(propids))
    assert response.result == 0
    values = dict(zip(reversed(propids), response.ap_var, strict=True))
    queue = server.manager.core.paths[r"private$\q"]
    assert values[101].value == queue.identifier
    assert values[103].value == r"lior\private$\q"
    assert values[124].value == r"lior.example.org\private$\q"
    assert values[109].value == values[110].value == queue.create_time
    assert [each.vt for each in response.ap_var if each.vt == 1] == [1]  # ADS_PATH: there is no directory


@pytest.mark.parametrize("propid", [114, 115, 1101, 1102, 0, 1, 127])
@pytest.mark.spec("MP-087")
def test_tells_no_property_beyond_those(server: Server, propid: int) -> None:
    response = get(server.client(), 105, propid)
    assert (response.result, list(response.ap_var)) == (NOT_ALLOWED, [NULL, NULL])


@pytest.mark.spec("MP-112")
def test_a_value_goes_in_as_null_or_of_the_propertys_type(server: Server) -> None:
    client = server.client()
    wrong = get(client, 105, given=PropVariant(VT_I8, 5))
    assert (wrong.result, list(wrong.ap_var)) == (PROPERTY, [PropVariant(VT_I8, 5)])
    assert get(client, 105, given=PropVariant(VT_UI4, 5)).ap_var[0].value == 0xFFFFFFFF


@pytest.mark.spec("MP-086", "MP-088", "MP-113")
def test_sets_the_properties_of_the_document(server: Server) -> None:
    client = server.client()
    server.clock.advance(100)
    new = {104: PropVariant(VT_UI1, 1), 105: PropVariant(VT_UI4, 10), 106: PropVariant(VT_I2, 3),
           107: PropVariant(VT_UI4, 20), 108: PropVariant(VT_LPWSTR, "x" * 124), 111: PropVariant(VT_UI1, 1),
           112: PropVariant(VT_UI4, 2), 125: PropVariant(VT_LPWSTR, "234.1.1.1:8001"),
           102: PropVariant(72, UUID(int=5))}  # fmt: skip
    assert put(client, *new.items()) == 0
    found = dict(zip(new, get(client, *new).ap_var, strict=True))
    assert found == new | {106: PropVariant(VT_I2, 0)}  # private queues have no base priority
    times = get(client, 109, 110).ap_var
    assert times[1].value == times[0].value + 100


@pytest.mark.parametrize("propid", [101, 103, 109, 110, 113, 124, 126, 1102, 0])
@pytest.mark.spec("MP-086", "MP-114")
def test_sets_no_property_beyond_those(server: Server, propid: int) -> None:
    client = server.client()
    assert put(client, (105, PropVariant(VT_UI4, 10)), (propid, PropVariant(VT_UI4, 1))) == NOT_ALLOWED
    assert get(client, 105).ap_var[0].value == 0xFFFFFFFF


@pytest.mark.parametrize(("propid", "variant", "result"), [
    (104, PropVariant(VT_UI1, 2), HRESULTS["MQ_ERROR_ILLEGAL_PROPERTY_VALUE"]),
    (104, PropVariant(VT_UI4, 1), PROPERTY),
    (108, PropVariant(VT_LPWSTR, "x" * 125), None),
    (108, PropVariant(VT_LPWSTR, None), None),
])  # fmt: skip
@pytest.mark.spec("MP-114", "MP-088")
def test_sets_all_or_nothing(server: Server, propid: int, variant: PropVariant, result: int | None) -> None:
    client = server.client()
    found = put(client, (105, PropVariant(VT_UI4, 10)), (propid, variant))
    assert found == result if result is not None else found & 0x80000000
    assert get(client, 105).ap_var[0].value == 0xFFFFFFFF


# Path names


def format_for(client: Client, path: str, given: QueueFormat | None = None) -> Any:
    unknown = QueueFormat(QueueFormatType.UNKNOWN)
    return client.qmcomm(12, lpwcs_path_name=path, p_object_format=ObjectFormat(p_queue_format=given or unknown))


@pytest.mark.spec("MP-115")
def test_gives_the_format_name_of_a_path(server: Server) -> None:
    client = server.client()
    response = format_for(client, r".\private$\Q")
    assert response.result == 0
    found = response.p_object_format.p_queue_format
    queue = server.manager.core.paths[r"private$\q"]
    assert (found.format_type, found.guid, found.number) == (
        QueueFormatType.PRIVATE, server.manager.core.properties.identifier, queue.private_number)  # fmt: skip
    assert client.open(str(from_queue_format(found))).result == 0


@pytest.mark.spec("MP-115", "MP-116", "MP-102")
def test_gives_no_format_name_where_there_is_none(server: Server) -> None:
    client = server.client()
    assert format_for(client, r".\private$\none").result == NOT_FOUND
    assert format_for(client, r"other\private$\q").result == NOT_FOUND
    assert format_for(client, r".\public").result == HRESULTS["MQ_ERROR_UNSUPPORTED_OPERATION"]
    assert format_for(client, "nonsense").result == ILLEGAL_PATH
    assert format_for(client, r".\private$\q", format_of(QUEUE)).result == INVALID
    nothing = client.qmcomm(12, lpwcs_path_name=r".\private$\q", p_object_format=ObjectFormat(p_queue_format=None))
    assert nothing.result == INVALID


@pytest.mark.spec("MP-116")
def test_who_may_not_see_a_queue_does_not_learn_that_it_is_there(server: Server) -> None:
    bob = user(2)
    grant(server, bob, int(QueueAccess.WRITE_MESSAGE))
    client = server.client(bob)
    hidden, missing = format_for(client, r".\private$\q"), format_for(client, r".\private$\none")
    assert hidden == missing and hidden.result == NOT_FOUND
    grant(server, bob, int(QueueAccess.GET_QUEUE_PROPERTIES))
    assert format_for(client, r".\private$\q").result == 0


# Who may do what

R = QueueAccess
OPERATIONS: dict[str, tuple[Any, int]] = {
    "delete": (lambda c: c.qmcomm(9, p_object_format=object_of(QUEUE)).result, int(R.DELETE_QUEUE)),
    "get properties": (lambda c: get(c, 105).result, int(R.GET_QUEUE_PROPERTIES)),
    "set properties": (lambda c: put(c, (105, PropVariant(VT_UI4, 9))), int(R.SET_QUEUE_PROPERTIES)),
    "get permissions": (lambda c: get_security(c, 4).result, int(R.GET_PERMISSIONS)),
    "set permissions": (lambda c: set_security(c, 4, SecurityDescriptor(dacl=acl(()))), int(R.CHANGE_PERMISSIONS)),
    "set owner": (lambda c: set_security(c, 1, SecurityDescriptor(owner=c.caller.sid)), int(R.TAKE_OWNERSHIP)),
    "open to peek": (lambda c: c.open(access=0x20).result, int(R.PEEK_MESSAGE)),
    "open to receive": (lambda c: c.open(access=1).result, int(R.RECEIVE_MESSAGE)),
    "open to send": (lambda c: c.open(access=2).result, int(R.WRITE_MESSAGE)),
    "open the journal": (lambda c: c.open(QUEUE + ";JOURNAL").result, int(R.RECEIVE_JOURNAL_MESSAGE)),
}
BITS = sorted({0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x10000, 0x20000, 0x40000, 0x80000})


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.spec("MP-008")
def test_each_operation_takes_its_right_and_no_other(operation: str) -> None:
    call, needed = OPERATIONS[operation]
    bob = user(2)
    for left_out in [bit for bit in BITS if bit & needed]:
        server = Server()
        server.create()
        grant(server, bob, sum(BITS) & ~left_out)
        assert call(server.client(bob)) == DENIED, hex(left_out)
        assert server.manager.core.paths[r"private$\q"].properties.quota == 0xFFFFFFFF
    server = Server()
    server.create()
    grant(server, bob, needed)
    assert call(server.client(bob)) == 0
