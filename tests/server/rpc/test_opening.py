"""Opening, closing, cursors, names and purging of queues ([MS-MQMP] 3.1.4.2 to 3.1.4.4, 3.1.4.17 to 3.1.4.22)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from lior.errors import HRESULTS
from lior.message import Message
from lior.names import QueueFormat, QueueFormatType, QueueSuffix
from lior.queues.descriptor import RemoteReadState
from lior.server.rpc.methods.settings import MethodSettings
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.structures import (
    MQ_ACTION_PEEK_CURRENT,
    CACCreateRemoteCursor,
    CACTransferBufferV1,
    Receive,
    Send,
)
from lior.wire.ndr import NULL
from tests.server.rpc.calling import NO_GUID, QUEUE, Client, Fault, Server, body_of, format_of, user, wanted

MISMATCH = 0x1C00001A
HANDLE = bytes(20)
ACCESS_MODE = HRESULTS["MQ_ERROR_UNSUPPORTED_ACCESS_MODE"]
NAME_OPERATION = HRESULTS["MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"]
NOT_FOUND = HRESULTS["MQ_ERROR_QUEUE_NOT_FOUND"]
SHARING = HRESULTS["MQ_ERROR_SHARING_VIOLATION"]
DENIED = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
INVALID = HRESULTS["MQ_ERROR_INVALID_HANDLE"]
GUID = UUID("01234567-89ab-cdef-0123-456789abcdef")


@pytest.fixture
def server() -> Server:
    server = Server()
    server.create()
    return server


def put(server: Server, *bodies: bytes) -> None:
    for body in bodies:
        server.engine.send(server.engine.sender(), Message(body))


def left(server: Server) -> list[bytes]:
    return server.engine.bodies(server.manager.core.paths[r"private$\q"])


# Opening


@pytest.mark.spec("MP-131", "MP-126", "MP-075")
def test_opens_a_queue_here_under_each_of_its_names(server: Server) -> None:
    client = server.client()
    identifier = server.manager.core.properties.identifier
    number = server.manager.core.paths[r"private$\q"].private_number
    for name in (QUEUE, r"DIRECT=TCP:192.0.2.7\private$\q", r"DIRECT=OS:LIOR\PRIVATE$\Q",
                 f"PRIVATE={identifier}\\{number:X}", f"MACHINE={identifier};DEADLETTER", QUEUE + ";JOURNAL"):
        response = client.opened(name)
        assert response.lplp_remote_queue_name is NULL
        assert response.ph_queue != HANDLE and response.pdw_qm_context != 0


@pytest.mark.spec("MP-127")
def test_takes_both_forms_of_no_name(server: Server) -> None:
    client = server.client()
    assert client.open().lplp_remote_queue_name is NULL
    response = client.call(
        QMCOMM, 19, p_queue_format=format_of(QUEUE), dw_desired_access=1, dw_share_mode=0, h_remote_queue=0,
        lplp_remote_queue_name=None, dwp_queue=0, p_lic_guid=NO_GUID, lp_client_name="", dw_remote_protocol=3,
        dwp_remote_context=0,
    )  # fmt: skip
    assert (response.result, response.lplp_remote_queue_name) == (0, None)
    assert client.call(
        QMCOMM, 19, p_queue_format=format_of(r"DIRECT=OS:other\private$\q"), dw_desired_access=1, dw_share_mode=0,
        h_remote_queue=0, lplp_remote_queue_name=None, dwp_queue=0, p_lic_guid=NO_GUID, lp_client_name="",
        dw_remote_protocol=0, dwp_remote_context=0,
    ).result == HRESULTS["MQ_ERROR_INVALID_PARAMETER"]  # fmt: skip


@pytest.mark.parametrize(("access", "allowed"), [
    (1, True), (2, True), (0x20, True), (0, False), (3, False), (4, False), (0x21, False), (0x80, False),
])  # fmt: skip
@pytest.mark.spec("MP-128")
def test_opens_with_the_documents_access_modes_only(server: Server, access: int, allowed: bool) -> None:
    assert server.client().open(access=access).result == (0 if allowed else ACCESS_MODE)


@pytest.mark.spec("MP-128")
def test_admin_access_opens_the_outgoing_queue(server: Server) -> None:
    client = server.client()
    far = r"DIRECT=OS:other\private$\q"
    client.send(client.opened(far, access=2).ph_queue, b"on its way")
    peeking, receiving = client.opened(far, access=0xA0), client.opened(far, access=0x81)
    assert client.receive(peeking.pdw_qm_context).result == DENIED
    assert body_of(client.receive(peeking.pdw_qm_context, action=MQ_ACTION_PEEK_CURRENT)) == b"on its way"
    assert body_of(client.receive(receiving.pdw_qm_context)) == b"on its way"


@pytest.mark.parametrize(("name", "access", "share", "result"), [
    (r"DIRECT=HTTP://other/msmq/private$/q", 1, 0, NAME_OPERATION),
    (r"DIRECT=HTTPS://other/msmq/private$/q", 0x20, 0, NAME_OPERATION),
    (r"DIRECT=HTTP://other/msmq/private$/q", 2, 0, 0),
    ("MULTICAST=234.1.1.1:8001", 1, 0, NAME_OPERATION),
    ("MULTICAST=234.1.1.1:8001", 0x20, 0, NAME_OPERATION),
    ("MULTICAST=234.1.1.1:8001", 0x81, 0, NAME_OPERATION),
    ("MULTICAST=234.1.1.1:8001", 2, 0, 0),
    (QUEUE + ";sub", 2, 0, NAME_OPERATION),
    (QUEUE + ";sub", 1, 0, 0),
    (QUEUE + ";JOURNAL", 2, 0, NAME_OPERATION),
    (QUEUE + ";JOURNAL", 0x20, 0, 0),
    (r"DIRECT=OS:.\system$;DEADLETTER", 2, 0, NAME_OPERATION),
    (QUEUE, 2, 1, ACCESS_MODE),
    (QUEUE, 1, 1, 0),
    (QUEUE, 1, 2, ACCESS_MODE),
    (r"DIRECT=OS:other\private$\q", 2, 0, 0),
])  # fmt: skip
@pytest.mark.spec("MP-129", "MP-130")
def test_the_kind_of_a_queue_decides_how_it_opens(
    server: Server, name: str, access: int, share: int, result: int
) -> None:
    response = server.client().open(name, access, share)
    assert response.result == result
    assert (response.ph_queue == HANDLE) == bool(result)
    assert len(server.manager.opening.descriptors) == (0 if result else 1)


@pytest.mark.parametrize(("first", "second", "result"), [
    ((1, 1), (1, 0), SHARING), ((1, 1), (0x20, 0), SHARING), ((1, 0), (1, 1), SHARING), ((1, 1), (2, 0), 0),
    ((1, 0), (1, 0), 0), ((0x20, 0), (1, 0), 0),
])  # fmt: skip
@pytest.mark.spec("MP-130", "MP-094", "MP-137")
def test_an_exclusive_reader_is_alone(
    server: Server, first: tuple[int, int], second: tuple[int, int], result: int
) -> None:
    client = server.client()
    opened = client.opened(QUEUE, *first)
    assert client.open(QUEUE, *second).result == result
    client.qmcomm(20, ph_queue=opened.ph_queue)
    if result:
        assert client.open(QUEUE, *second).result == 0


@pytest.mark.spec("MP-130", "MP-180")
def test_an_exclusive_lock_ends_with_its_client(server: Server) -> None:
    first, second = server.client(), server.client()
    first.opened(share=1)
    assert second.open().result == SHARING
    first.die()
    assert second.open().result == 0


@pytest.mark.spec("MP-032", "MP-034", "MP-137")
def test_refuses_names_that_are_none(server: Server) -> None:
    client = server.client()
    illegal = HRESULTS["MQ_ERROR_ILLEGAL_FORMATNAME"]
    for queue_format in (QueueFormat(QueueFormatType.UNKNOWN),
                         QueueFormat(QueueFormatType.MACHINE, guid=GUID),
                         QueueFormat(QueueFormatType.PUBLIC, QueueSuffix.DEADLETTER, 0x80, guid=GUID),
                         QueueFormat(QueueFormatType.DIRECT, 6, direct_id=QUEUE.partition("=")[2]),
                         QueueFormat(QueueFormatType.DIRECT, 15, 0x80, direct_id=QUEUE.partition("=")[2]),
                         QueueFormat(QueueFormatType.DIRECT, direct_id="OS:no backslash")):
        response = client.qmcomm(19, p_queue_format=queue_format, dw_desired_access=1, dw_share_mode=0,
                                 h_remote_queue=0, lplp_remote_queue_name=NULL, dwp_queue=0, p_lic_guid=NO_GUID,
                                 lp_client_name="", dw_remote_protocol=0, dwp_remote_context=0)  # fmt: skip
        assert (response.result, response.ph_queue) == (illegal, HANDLE)


@pytest.mark.spec("MP-025", "MP-137")
def test_names_that_need_a_directory_fail_at_once(server: Server) -> None:
    client = server.client()
    for name in (f"PUBLIC={GUID}", f"PRIVATE={GUID}\\1", f"DL={GUID}"):
        for access in (1, 2):
            assert client.open(name, access).result & 0x80000000, name


@pytest.mark.spec("MP-095")
def test_licences_and_names_of_clients_change_nothing(server: Server) -> None:
    client = server.client()
    for guid, name in ((GUID, ""), (NO_GUID, "x" * 1000)):
        assert client.qmcomm(19, p_queue_format=format_of(QUEUE), dw_desired_access=1, dw_share_mode=0,
                             h_remote_queue=0, lplp_remote_queue_name=NULL, dwp_queue=0, p_lic_guid=guid,
                             lp_client_name=name, dw_remote_protocol=0, dwp_remote_context=0).result == 0  # fmt: skip


# A hint to another computer


@pytest.mark.parametrize("access", [1, 0x20])
@pytest.mark.spec("MP-132", "MP-126")
def test_tells_where_a_queue_of_another_computer_is(server: Server, access: int) -> None:
    response = server.client().open(r"DIRECT=OS:other\private$\q", access)
    assert (response.result, response.lplp_remote_queue_name) == (0, r"other\private$\q")
    assert (response.pdw_qm_context, response.ph_queue) == (0, HANDLE)
    assert not server.service.opened


@pytest.mark.parametrize("host", ["lior", ".", "192.0.2.7", "localhost"])
@pytest.mark.spec("MP-133")
def test_gives_no_hint_to_itself(server: Server, host: str) -> None:
    response = server.client().open(rf"DIRECT={'TCP' if host[0] == '1' else 'OS'}:{host}\private$\none")
    assert (response.result, response.lplp_remote_queue_name) == (NOT_FOUND, NULL)


@pytest.mark.spec("MP-133", "MP-025")
def test_a_private_name_of_this_computer_without_a_queue_is_not_found(server: Server) -> None:
    identifier = server.manager.core.properties.identifier
    assert server.client().open(f"PRIVATE={identifier}\\FFFFFFFF").result == NOT_FOUND


@pytest.mark.spec("MP-132")
def test_gives_no_hint_for_admin_access(server: Server) -> None:
    assert server.client().open(r"DIRECT=OS:other\private$\q", 0x81).result == NOT_FOUND


# Closing


@pytest.mark.spec("MP-138", "MP-028", "MP-027", "MP-075")
def test_closing_makes_the_handle_null_and_no_handle_any_more(server: Server) -> None:
    client = server.client()
    opened = client.opened()
    assert client.qmcomm(20, ph_queue=opened.ph_queue) == (HANDLE, 0)
    assert not server.service.opened and not server.manager.opening.descriptors
    with pytest.raises(Fault) as fault:
        client.qmcomm(20, ph_queue=opened.ph_queue)
    assert fault.value.status == MISMATCH
    assert client.receive(opened.pdw_qm_context).result == INVALID


@pytest.mark.spec("MP-027", "MP-017")
def test_a_handle_of_another_type_is_refused(server: Server) -> None:
    client = server.client()
    transaction = client.qmcomm(16, p_uow=GUID).ph_int_xact
    queue = client.opened().ph_queue
    for opnum, fields in ((20, {"ph_queue": transaction}), (17, {"ph_int_xact": queue}),
                          (3, {"pph_context": queue})):  # fmt: skip
        with pytest.raises(Fault) as fault:
            client.qmcomm(opnum, **fields)
        assert fault.value.status == MISMATCH


# Rundown


@pytest.mark.spec("MP-180", "MP-075")
def test_everything_of_a_client_goes_with_its_last_connection(server: Server) -> None:
    client = server.client()
    second = client.another()
    opened = client.opened()
    client.cursor(opened.ph_queue)
    client.die()
    assert server.service.opened and server.manager.opening.descriptors
    second.die()
    assert not server.service.opened and not server.manager.opening.descriptors
    assert not server.service._held


# Limits


@pytest.mark.spec("MP-177")
def test_a_client_opens_so_many_queues_and_cursors_and_no_more() -> None:
    server = Server(settings=MethodSettings(max_open=3, max_cursors=2))
    server.create()
    client = server.client()
    opened = [client.opened() for _ in range(3)]
    full = HRESULTS["MQ_ERROR_INSUFFICIENT_RESOURCES"]
    assert client.open().result == full
    assert server.client(user(2)).open(access=2).result == 0  # another one may
    assert client.qmcomm(20, ph_queue=opened[2].ph_queue).result == 0
    assert client.open().result == 0
    handle = opened[0].ph_queue
    assert [client.cursor(handle).result for _ in range(3)] == [0, 0, full]


# Cursors


@pytest.mark.spec("MP-177", "MP-036", "MP-140")
def test_a_cursor_has_a_number_of_its_own(server: Server) -> None:
    client = server.client()
    handle = client.opened().ph_queue
    found = [client.cursor(handle).pcc for _ in range(200)]
    assert len({pcc.h_cursor for pcc in found}) == 200
    assert {(pcc.srv_h_ac_queue, pcc.cli_p_qm_queue) for pcc in found} == {(2, 3)}  # untouched
    assert not {0, 0x0B} & {pcc.h_cursor for pcc in found}


@pytest.mark.spec("MP-177")
def test_the_numbers_0_and_11_are_never_given_to_a_cursor(server: Server) -> None:
    client = server.client()
    handle = client.opened().ph_queue
    given = iter((0, 0x0B, 0, 77))
    server.service.numbers._random = lambda bits: next(given)
    assert client.cursor(handle).pcc.h_cursor == 77


@pytest.mark.spec("MP-177")
def test_a_queue_that_was_deleted_has_no_cursors(server: Server) -> None:
    client = server.client()
    handle = client.opened().ph_queue
    server.engine.do(server.manager.delete_queue, server.manager.core.paths[r"private$\q"], server.engine.admin)
    assert client.cursor(handle).result == HRESULTS["MQ_ERROR_QUEUE_NOT_AVAILABLE"]


@pytest.mark.spec("MP-140")
def test_closing_a_cursor(server: Server) -> None:
    client = server.client()
    handle, other = client.opened().ph_queue, client.opened().ph_queue
    cursor = client.cursor(handle).pcc.h_cursor
    assert client.qmcomm(22, h_queue=handle, h_cursor=0x0B).result == 0
    assert client.qmcomm(22, h_queue=other, h_cursor=cursor).result == INVALID
    assert client.qmcomm(22, h_queue=handle, h_cursor=cursor).result == 0
    assert client.qmcomm(22, h_queue=handle, h_cursor=cursor).result == INVALID
    assert not any(each.cursors for each in server.manager.opening.descriptors.values())


def test_closing_a_cursor_ends_the_wait_at_it(server: Server) -> None:
    client = server.client()
    opened = client.opened()
    cursor = client.cursor(opened.ph_queue).pcc.h_cursor
    answered = client.start_receive(opened.pdw_qm_context, cursor=cursor)
    client.qmcomm(22, h_queue=opened.ph_queue, h_cursor=cursor)
    assert client.result(answered).result == HRESULTS["MQ_ERROR_OPERATION_CANCELLED"]


def test_a_cursor_survives_a_purge_of_its_queue(server: Server) -> None:
    put(server, b"1", b"2")
    client = server.client()
    opened = client.opened()
    cursor = client.cursor(opened.ph_queue).pcc.h_cursor
    client.receive(opened.pdw_qm_context, action=MQ_ACTION_PEEK_CURRENT, cursor=cursor)
    client.qmcomm(27, h_queue=opened.ph_queue)
    gone = client.receive(opened.pdw_qm_context, action=MQ_ACTION_PEEK_CURRENT, cursor=cursor)
    assert gone.result == HRESULTS["MQ_ERROR_MESSAGE_ALREADY_RECEIVED"]
    put(server, b"3")
    found = client.receive(opened.pdw_qm_context, action=0x80000001, cursor=cursor)
    assert body_of(found) == b"3"


@pytest.mark.spec("MP-142")
def test_setting_properties_of_a_cursor_is_obsolete_and_returns_so(server: Server) -> None:
    client = server.client()
    handle = client.opened().ph_queue
    assert client.qmcomm(23, h_proxy=handle, h_cursor=1, h_remote_cursor=2).result == 0xC00E0064


@pytest.mark.spec("MP-089", "MP-022")
def test_asking_for_the_name_of_a_remote_queue_is_obsolete_and_raises(server: Server) -> None:
    with pytest.raises(Fault) as fault:
        server.client().qmcomm(1, p_queue=1, lplp_remote_queue_name=NULL)
    assert fault.value.status == 0xC00E0064


# Format names of handles

OPENED_AS = r"DIRECT=OS:lior\private$\q"


@pytest.mark.parametrize("room", [0, 1, len(OPENED_AS), len(OPENED_AS) + 1, len(OPENED_AS) + 10])
@pytest.mark.spec("MP-143", "MP-144")
def test_the_format_name_of_a_handle(server: Server, room: int) -> None:
    client = server.client()
    handle = client.opened().ph_queue
    response = client.qmcomm(26, h_queue=handle, dw_format_name_rpc_buffer_len=room,
                             lpwcs_format_name="y" * room if room else None, pdw_length=room)  # fmt: skip
    fits = room > len(OPENED_AS)
    assert response.result == (0 if fits else HRESULTS["MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL"])
    assert response.pdw_length == len(OPENED_AS) + 1
    if room:
        assert response.lpwcs_format_name == OPENED_AS[: room - 1].ljust(room, "\0")


@pytest.mark.spec("MP-143")
def test_the_two_lengths_of_a_format_name_have_to_agree(server: Server) -> None:
    client = server.client()
    handle = client.opened().ph_queue
    response = client.qmcomm(26, h_queue=handle, dw_format_name_rpc_buffer_len=100, lpwcs_format_name="y" * 100,
                             pdw_length=99)  # fmt: skip
    assert response.result == HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
    assert response.lpwcs_format_name == "\0" * 100


# Purging


@pytest.mark.parametrize(("access", "result"), [(1, 0), (0x20, DENIED), (2, DENIED)])
@pytest.mark.spec("MP-145", "MP-128")
def test_only_a_handle_that_receives_purges(server: Server, access: int, result: int) -> None:
    put(server, b"1", b"2")
    client = server.client()
    assert client.qmcomm(27, h_queue=client.opened(access=access).ph_queue).result == result
    assert left(server) == ([b"1", b"2"] if result else [])


@pytest.mark.spec("MP-145")
def test_what_a_transaction_holds_goes_when_it_ends() -> None:
    server = Server()
    server.create(transactional=True)
    transaction = server.manager.begin()
    for number in range(10):
        server.engine.send(server.engine.sender(), Message(b"%d" % number), transaction)
    server.engine.do(server.manager.commit, transaction.identifier)
    client = server.client()
    opened = client.opened()
    handle = client.qmcomm(16, p_uow=GUID).ph_int_xact
    for _ in range(2):
        client.receive(opened.pdw_qm_context, p_uow=GUID)
    assert client.qmcomm(27, h_queue=opened.ph_queue).result == 0
    assert left(server) == []
    client.qmcomm(18, ph_int_xact=handle)  # abort: they do not come back
    assert left(server) == []


@pytest.mark.spec("MP-145")
def test_a_deleted_queue_is_not_purged(server: Server) -> None:
    client = server.client()
    handle = client.opened().ph_queue
    server.engine.do(server.manager.delete_queue, server.manager.core.paths[r"private$\q"], server.engine.admin)
    assert client.qmcomm(27, h_queue=handle).result == HRESULTS["MQ_ERROR_QUEUE_NOT_AVAILABLE"]


# For other queue managers


def open_remote(client: Client, name: str | None = QUEUE, access: int = 1, share: int = 0) -> Any:
    return client.qmcomm(2, p_queue_format=None if name is None else format_of(name), dw_calling_process_id=7,
                         dw_desired_access=access, dw_share_mode=share, p_lic_guid=GUID, dw_mqs=0x300)  # fmt: skip


@pytest.mark.spec("MP-090", "MP-092", "MP-093", "MP-078", "MP-080")
def test_opens_a_queue_for_a_remote_reader(server: Server) -> None:
    client = server.client()
    response = open_remote(client)
    assert response.result == 0
    assert response.pph_context != HANDLE
    assert response.pdw_context == response.dwp_queue == response.ph_queue != 0
    (descriptor,) = server.manager.opening.descriptors.values()
    assert descriptor.remote_read_state is RemoteReadState.OPENED


@pytest.mark.parametrize(("name", "access", "share", "result"), [
    (None, 1, 0, "MQ_ERROR_INVALID_PARAMETER"),
    (f"DL={GUID}", 1, 0, "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"),
    ("MULTICAST=234.1.1.1:8001", 1, 0, "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"),
    (r"DIRECT=HTTP://lior/msmq/private$/q", 1, 0, "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"),
    (QUEUE, 2, 0, "MQ_ERROR_UNSUPPORTED_ACCESS_MODE"),
    (QUEUE, 0x81, 0, "MQ_ERROR_UNSUPPORTED_ACCESS_MODE"),
    (QUEUE, 1, 2, "MQ_ERROR_UNSUPPORTED_ACCESS_MODE"),
    (r"DIRECT=OS:.\private$\none", 1, 0, "MQ_ERROR_QUEUE_NOT_FOUND"),
    (r"DIRECT=OS:other\private$\q", 1, 0, "MQ_ERROR_QUEUE_NOT_FOUND"),
])  # fmt: skip
@pytest.mark.spec("MP-091", "MP-092", "MP-094")
def test_opens_nothing_for_a_remote_reader_that_asks_wrongly(
    server: Server, name: str | None, access: int, share: int, result: str
) -> None:
    response = open_remote(server.client(), name, access, share)
    assert (response.result, response.pph_context) == (HRESULTS[result], HANDLE)
    assert (response.pdw_context, response.dwp_queue, response.ph_queue) == (0, 0, 0)
    assert not server.manager.opening.descriptors and not server.service.remote_opened


@pytest.mark.spec("MP-094")
def test_a_remote_reader_shares_as_a_local_one_does(server: Server) -> None:
    client = server.client()
    first = open_remote(client, share=1)
    assert open_remote(client).result == SHARING
    assert client.open().result == SHARING
    client.qmcomm(3, pph_context=first.pph_context)
    assert open_remote(client).result == 0


@pytest.mark.spec("MP-096", "MP-078", "MP-080")
def test_closing_the_context_closes_a_queue_that_nobody_came_to_read(server: Server) -> None:
    client = server.client()
    opened = open_remote(client)
    assert client.qmcomm(3, pph_context=opened.pph_context) == (HANDLE,)
    assert not server.manager.opening.descriptors and not server.service.remote_opened
    with pytest.raises(Fault) as fault:
        client.qmcomm(3, pph_context=opened.pph_context)
    assert fault.value.status == MISMATCH


@pytest.mark.spec("MP-181", "MP-078")
def test_a_client_that_goes_away_before_its_reader_came_leaves_nothing(server: Server) -> None:
    client = server.client()
    open_remote(client)
    client.die()
    assert not server.manager.opening.descriptors and not server.service.remote_opened


def remote_cursor(client: Client, number: int, ptb: CACTransferBufferV1 | None = None) -> Any:
    return client.qmcomm(4, ptb1=ptb or CACTransferBufferV1(0, Send()), h_queue=number)


@pytest.mark.spec("MP-097", "MP-098")
def test_a_remote_reader_gets_a_cursor_whatever_its_buffer_holds(server: Server) -> None:
    client = server.client()
    opened = open_remote(client)
    filled = CACTransferBufferV1(1, Receive(5, 6, 7, 8), p_class=9, ul_auth_level=10)
    for ptb in (None, filled, CACTransferBufferV1(2, CACCreateRemoteCursor(1, 2, 3))):
        response = remote_cursor(client, opened.ph_queue, ptb)
        assert response.result == 0 and response.ph_cursor not in (0, 0x0B)
    assert remote_cursor(client, opened.ph_queue ^ 1) == (0, INVALID)


@pytest.mark.spec("MP-099")
def test_the_number_of_a_queue_is_not_enough_to_get_a_cursor(server: Server) -> None:
    opened = open_remote(server.client())
    thief = server.client(user(9), peer="198.51.100.7")
    assert remote_cursor(thief, opened.ph_queue) == (0, DENIED)
    reader = server.client(peer="198.51.100.8")  # of another computer, with the right to read
    assert remote_cursor(reader, opened.ph_queue).result == 0


@pytest.mark.spec("MP-099")
def test_a_queue_that_a_local_client_opened_is_no_remote_readers(server: Server) -> None:
    client = server.client()
    opened = client.opened()
    assert remote_cursor(client, opened.pdw_qm_context).result == INVALID


# The gate


@pytest.mark.spec("MP-019")
def test_who_serves_no_clients_answers_four_methods_only() -> None:
    server = Server(supporting=False)
    server.create()
    client = server.client()
    refused = HRESULTS["MQ_ERROR_WKS_CANT_SERVE_CLIENT"]
    assert client.open().result == refused
    assert client.qmcomm(16, p_uow=GUID).result == refused
    assert client.qmcomm(28, dw_query_type=4).result == refused
    assert client.qmcomm(14, cb_buf_size=0).result == refused
    with pytest.raises(Fault) as fault:
        client.qmcomm(1, p_queue=1, lplp_remote_queue_name=NULL)
    assert fault.value.status == refused
    assert client.call(QMCOMM2, 2, h_qm_context=1, ptb=wanted()).result == refused
    assert client.qmcomm(31, f_ip=0).result == 2103
    opened = open_remote(client)
    assert remote_cursor(client, opened.ph_queue).result == 0
    assert client.qmcomm(3, pph_context=opened.pph_context) == (HANDLE,)
