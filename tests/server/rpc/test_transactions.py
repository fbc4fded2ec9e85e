"""Units of work: enlisted, used, committed, aborted, run down ([MS-MQMP] 3.1.4.12 to 3.1.4.16, 3.1.7.3)."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from lior.errors import HRESULTS, MessageStorageFailed, error_from_code
from lior.message import Message
from lior.queues.transaction import TransactionState
from lior.server.rpc.methods.transactions import STXINFO_SIGNATURE
from lior.store.memory import MemoryStore
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from tests.server.rpc.calling import (
    NO_OBJECT,
    Client,
    DrivenEngine,
    Fault,
    Server,
    body_of,
    sent,
    user,
    wanted,
)

HANDLE = bytes(20)
MISMATCH = 0x1C00001A
SEQUENCE = HRESULTS["MQ_ERROR_TRANSACTION_SEQUENCE"]
DENIED = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
DTC = HRESULTS["MQ_ERROR_DTC_CONNECT"]


@pytest.fixture
def server() -> Server:
    server = Server()
    server.create(transactional=True)
    return server


def left(server: Server) -> list[bytes]:
    return server.engine.bodies(server.manager.core.paths[r"private$\q"])


def enlist(client: Client, uow: UUID | None = None) -> tuple[UUID, bytes]:
    uow = uow or uuid4()
    response = client.qmcomm(16, p_uow=uow)
    assert response.result == 0
    return uow, response.ph_int_xact


def send(client: Client, handle: bytes, body: bytes, uow: UUID) -> Any:
    return client.call(QMCOMM2, 1, h_queue=handle, ptb=sent(body, p_uow=uow), p_message_id=NO_OBJECT)


# Internal transactions


@pytest.mark.spec("MP-122", "MP-079", "MP-066")
def test_each_unit_of_work_is_enlisted_once(server: Server) -> None:
    client = server.client()
    uow, first = enlist(client)
    _, second = enlist(client)
    assert len({first, second, HANDLE}) == 3
    assert client.qmcomm(16, p_uow=uow) == (HANDLE, SEQUENCE)
    assert len(server.manager.core.transactions) == 2


@pytest.mark.spec("MP-200", "MP-123", "MP-069", "MP-048")
def test_what_is_sent_in_a_transaction_is_there_after_its_commit_and_in_order(server: Server) -> None:
    client = server.client()
    sender, reader = client.opened(access=2), client.opened()
    uow, handle = enlist(client)
    for number, priority in enumerate((0, 7, 3)):
        response = client.call(QMCOMM2, 1, h_queue=sender.ph_queue, p_message_id=NO_OBJECT,
                               ptb=sent(b"%d" % number, p_uow=uow, p_priority=priority))  # fmt: skip
        assert response.result == 0 and response.p_message_id != NO_OBJECT
    assert left(server) == []
    assert client.qmcomm(17, ph_int_xact=handle) == (HANDLE, 0)
    found = [client.receive(reader.pdw_qm_context) for _ in range(3)]
    assert [body_of(each) for each in found] == [b"0", b"1", b"2"]
    assert [(each.ptb.pb_first_in_xact, each.ptb.pb_last_in_xact) for each in found] == [(1, 0), (0, 0), (0, 1)]
    assert not server.manager.core.transactions and not server.service.units_of_work


@pytest.mark.spec("MP-123")
def test_a_commit_is_answered_when_it_is_on_disk(server: Server) -> None:
    client = server.client()
    uow, handle = enlist(client)
    send(client, client.opened(access=2).ph_queue, b"x", uow)
    answered = client.start(QMCOMM, 17, ph_int_xact=handle)
    assert not answered.done
    server.engine.commit()
    assert client.result(answered) == (HANDLE, 0)


@pytest.mark.spec("MP-153", "MP-123")
def test_a_transactional_message_is_recoverable_whatever_it_asks_for(server: Server) -> None:
    client = server.client()
    uow, handle = enlist(client)
    ptb = sent(b"x", p_uow=uow, p_delivery=0)
    client.call(QMCOMM2, 1, h_queue=client.opened(access=2).ph_queue, ptb=ptb, p_message_id=None)
    client.qmcomm(17, ph_int_xact=handle)
    server.engine = server.engine.restart()  # type: ignore[assignment]
    queue = server.engine.manager.core.paths[r"private$\q"]
    assert server.engine.bodies(queue) == [b"x"]


@pytest.mark.spec("MP-124", "MP-200")
def test_an_abort_undoes_sends_and_receives(server: Server) -> None:
    client = server.client()
    sender, reader = client.opened(access=2), client.opened()
    uow, handle = enlist(client)
    for body in (b"1", b"2"):
        send(client, sender.ph_queue, body, uow)
    client.qmcomm(17, ph_int_xact=handle)
    uow, handle = enlist(client)
    assert body_of(client.receive(reader.pdw_qm_context, p_uow=uow)) == b"1"
    send(client, sender.ph_queue, b"3", uow)
    assert left(server) == [b"2"]
    assert client.qmcomm(18, ph_int_xact=handle) == (HANDLE, 0)
    assert left(server) == [b"1", b"2"]


@pytest.mark.spec("MP-123", "MP-124", "MP-125", "MP-027")
def test_a_handle_that_was_used_up_is_none(server: Server) -> None:
    client = server.client()
    for opnum in (17, 18):
        _, handle = enlist(client)
        client.qmcomm(opnum, ph_int_xact=handle)
        for again in (17, 18):
            with pytest.raises(Fault) as fault:
                client.qmcomm(again, ph_int_xact=handle)
            assert fault.value.status == MISMATCH


@pytest.mark.spec("MP-182", "MP-079")
def test_a_client_that_goes_away_aborts_its_transactions(server: Server) -> None:
    other = server.client(peer="192.0.2.2")
    uow, handle = enlist(other)
    send(other, other.opened(access=2).ph_queue, b"there", uow)
    other.qmcomm(17, ph_int_xact=handle)
    client = server.client()
    uow, _ = enlist(client)
    send(client, client.opened(access=2).ph_queue, b"gone", uow)
    client.receive(client.opened().pdw_qm_context, p_uow=uow)
    assert left(server) == []
    client.die()
    assert left(server) == [b"there"]
    assert not server.manager.core.transactions and not server.service.units_of_work
    enlist(server.client(), uow)  # and the identifier is free


class Failing(MemoryStore):
    fails = False

    def apply(self, batch: Any) -> None:
        if self.fails:
            raise MessageStorageFailed("the disk is full")
        super().apply(batch)


@pytest.mark.spec("MP-125")
def test_a_commit_that_fails_leaves_no_transaction_and_no_handle() -> None:
    store = Failing()
    server = Server(engine=DrivenEngine(store))
    server.create(transactional=True)
    client = server.client()
    uow, handle = enlist(client)
    send(client, client.opened(access=2).ph_queue, b"x", uow)
    store.fails = True
    response = client.qmcomm(17, ph_int_xact=handle)
    assert response == (HANDLE, HRESULTS["MQ_ERROR_MESSAGE_STORAGE_FAILED"])
    store.fails = False
    assert not server.manager.core.transactions and left(server) == []
    with pytest.raises(Fault):
        client.qmcomm(17, ph_int_xact=handle)


@pytest.mark.spec("MP-125")
def test_a_transaction_that_ended_by_itself_still_gives_a_null_handle(server: Server) -> None:
    client = server.client()
    uow, handle = enlist(client)
    server.engine.do(server.manager.abort, uow)
    assert client.qmcomm(17, ph_int_xact=handle) == (HANDLE, SEQUENCE)


def test_who_outruns_the_disk_waits_before_the_transaction_begins(server: Server) -> None:
    client = server.client()
    server.engine.crowded = True
    answered = client.start(QMCOMM, 16, p_uow=uuid4())
    assert not answered.done
    server.engine.line[0]()
    assert client.result(answered).result == 0


def test_a_client_that_goes_away_while_it_waits_in_line_leaves_no_transaction(server: Server) -> None:
    client = server.client()
    server.engine.crowded = True
    client.start(QMCOMM, 16, p_uow=uuid4())
    client.die()
    server.engine.line[0]()
    server.engine.commit()
    assert not server.manager.core.transactions and not server.service.units_of_work


# Units of work that are somebody else's, or nobody's


@pytest.mark.spec("MP-159", "MP-170")
def test_a_unit_of_work_has_to_be_enlisted(server: Server) -> None:
    client = server.client()
    uow = uuid4()
    assert send(client, client.opened(access=2).ph_queue, b"x", uow).result == SEQUENCE
    assert client.receive(client.opened().pdw_qm_context, p_uow=uow).result == SEQUENCE
    assert left(server) == []


@pytest.mark.spec("MP-121")
def test_a_unit_of_work_serves_only_who_enlisted_it(server: Server) -> None:
    client = server.client()
    uow, handle = enlist(client)
    for thief in (server.client(user(4)), server.client(peer="198.51.100.1")):
        queue = thief.opened(access=2).ph_queue
        assert send(thief, queue, b"stolen", uow).result == DENIED
        if thief.caller.is_administrator:
            assert thief.receive(thief.opened().pdw_qm_context, p_uow=uow).result == DENIED
        with pytest.raises(Fault):
            thief.qmcomm(17, ph_int_xact=handle)
    assert client.qmcomm(17, ph_int_xact=handle).result == 0
    assert left(server) == []


@pytest.mark.spec("MP-159", "MP-162")
def test_a_queue_that_is_not_transactional_takes_part_in_no_transaction(server: Server) -> None:
    server.create("plain")
    client = server.client()
    uow, _ = enlist(client)
    usage = HRESULTS["MQ_ERROR_TRANSACTION_USAGE"]
    name = r"DIRECT=OS:.\private$\plain"
    assert send(client, client.opened(name, access=2).ph_queue, b"x", uow).result == usage
    assert client.receive(client.opened(name).pdw_qm_context, p_uow=uow).result == usage


# Receiving in transactions


@pytest.mark.spec("MP-174", "MP-182")
def test_a_receive_that_waits_ends_with_its_transaction(server: Server) -> None:
    client = server.client()
    uow, handle = enlist(client)
    answered = client.start_receive(client.opened().pdw_qm_context, p_uow=uow)
    client.qmcomm(18, ph_int_xact=handle)
    assert client.result(answered).result == HRESULTS["MQ_ERROR_OPERATION_CANCELLED"]


@pytest.mark.spec("MP-174")
def test_a_receive_that_waits_takes_the_message_into_its_transaction(server: Server) -> None:
    client = server.client()
    uow, handle = enlist(client)
    answered = client.start_receive(client.opened().pdw_qm_context, p_uow=uow)
    other, commit = enlist(client)
    send(client, client.opened(access=2).ph_queue, b"x", other)
    client.qmcomm(17, ph_int_xact=commit)
    assert body_of(client.result(answered)) == b"x"
    assert left(server) == []
    client.qmcomm(18, ph_int_xact=handle)
    assert left(server) == [b"x"]


def test_a_message_given_back_for_want_of_room_counts_no_abort(server: Server) -> None:
    transaction = server.manager.begin()
    server.engine.send(server.engine.sender(), Message(b"long body"), transaction)
    server.engine.do(server.manager.commit, transaction.identifier)
    client = server.client()
    uow, handle = enlist(client)
    context = client.opened().pdw_qm_context
    small = wanted(room=1, p_uow=uow)
    assert client.call(QMCOMM2, 2, h_qm_context=context, ptb=small).result == HRESULTS["MQ_ERROR_BUFFER_OVERFLOW"]
    queue = server.manager.core.paths[r"private$\q"]
    (lookup_id,) = queue.available
    assert queue.position(lookup_id, server.engine.store).abort_count == 0
    assert client.qmcomm(17, ph_int_xact=handle).result == 0
    assert left(server) == [b"long body"]


@pytest.mark.spec("MP-169")
def test_a_cursor_in_a_transaction_stays_where_it_was_when_a_message_does_not_fit(server: Server) -> None:
    transaction = server.manager.begin()
    for body in (b"long body", b"2"):
        server.engine.send(server.engine.sender(), Message(body), transaction)
    server.engine.do(server.manager.commit, transaction.identifier)
    client = server.client()
    uow, _ = enlist(client)
    opened = client.opened()
    cursor = client.cursor(opened.ph_queue).pcc.h_cursor
    context = opened.pdw_qm_context
    small = client.receive(context, cursor=cursor, room=1, p_uow=uow)
    assert small.result == HRESULTS["MQ_ERROR_BUFFER_OVERFLOW"]
    assert body_of(client.receive(context, cursor=cursor, p_uow=uow)) == b"long body"


# A coordinator's transactions


@pytest.mark.spec("MP-118", "MP-120", "MP-117")
def test_without_a_coordinator_its_transactions_are_refused(server: Server) -> None:
    client = server.client()
    for room in (0, 100):
        response = client.qmcomm(14, cb_buf_size=room)
        assert (response.result, response.pcb_whereabouts, bytes(response.pb_whereabouts)) == (DTC, 0, bytes(room))
    assert client.qmcomm(15, p_uow=uuid4(), cb_cookie=3, pb_cookie=b"xyz").result == DTC
    assert not server.manager.core.transactions


class Coordinator:
    """As much of one as the server sees."""

    def __init__(self) -> None:
        self.enlisted: list[tuple[UUID, bytes]] = []
        self.refuses = False

    def whereabouts(self) -> bytes:
        return b"where the coordinator is"

    async def enlist(self, uow: UUID, cookie: bytes) -> None:
        if self.refuses:
            raise error_from_code(HRESULTS["MQ_ERROR_TRANSACTION_ENLIST"])
        self.enlisted.append((uow, cookie))


def coordinated() -> tuple[Server, Coordinator]:
    coordinator = Coordinator()
    server = Server(coordinator=coordinator)
    server.create(transactional=True)
    return server, coordinator


@pytest.mark.spec("MP-117", "MP-118")
def test_tells_where_the_coordinator_is_and_how_much_room_that_takes() -> None:
    server, coordinator = coordinated()
    client = server.client()
    where = coordinator.whereabouts()
    short = client.qmcomm(14, cb_buf_size=5)
    assert (short.result, short.pcb_whereabouts) == (HRESULTS["MQ_ERROR_USER_BUFFER_TOO_SMALL"], len(where))
    assert bytes(short.pb_whereabouts) == bytes(5)
    long = client.qmcomm(14, cb_buf_size=len(where) + 4)
    assert (long.result, bytes(long.pb_whereabouts), long.pcb_whereabouts) == (0, where + bytes(4), len(where))


def cookie_of(uow: UUID, *, long: bool = True) -> bytes:
    return STXINFO_SIGNATURE.bytes_le + uow.bytes_le + bytes(8) if long else uow.bytes_le


def enlist_external(client: Client, uow: UUID, cookie: bytes) -> int:
    async def run() -> int:
        answered = client.start(QMCOMM, 15, p_uow=uow, cb_cookie=len(cookie), pb_cookie=cookie)
        await asyncio.gather(*client.server.service.tasks)
        return int(client.result(answered).result)

    return asyncio.run(run())


@pytest.mark.parametrize("long", [True, False])
@pytest.mark.spec("MP-119")
def test_a_coordinators_transaction_is_imported_once(long: bool) -> None:
    server, coordinator = coordinated()
    client = server.client()
    uow = uuid4()
    cookie = cookie_of(uow, long=long)
    assert enlist_external(client, uow, cookie) == 0
    assert enlist_external(client, uow, cookie) == 0
    assert coordinator.enlisted == [(uow, cookie)]
    transaction = server.manager.core.transactions[uow]
    assert not transaction.single_phase
    assert send(client, client.opened(access=2).ph_queue, b"x", uow).result == 0
    assert left(server) == []
    server.engine.do(server.manager.prepare, uow)
    server.engine.do(server.manager.commit, uow)
    assert left(server) == [b"x"]


@pytest.mark.spec("MP-120")
def test_a_cookie_has_to_be_of_its_unit_of_work() -> None:
    server, coordinator = coordinated()
    client = server.client()
    uow = uuid4()
    for cookie in (b"", b"short", cookie_of(uuid4()), cookie_of(uow)[:39], cookie_of(uuid4(), long=False)):
        assert enlist_external(client, uow, cookie) == HRESULTS["MQ_ERROR_TRANSACTION_IMPORT"]
    assert not coordinator.enlisted and not server.manager.core.transactions


@pytest.mark.spec("MP-120", "MP-119")
def test_an_enlistment_that_fails_leaves_no_transaction() -> None:
    server, coordinator = coordinated()
    coordinator.refuses = True
    uow = uuid4()
    result = enlist_external(server.client(), uow, cookie_of(uow))
    assert result == HRESULTS["MQ_ERROR_TRANSACTION_ENLIST"]
    assert not server.manager.core.transactions


@pytest.mark.spec("MP-121")
def test_the_second_enlistment_is_its_owners_too() -> None:
    server, _ = coordinated()
    uow = uuid4()
    enlist_external(server.client(), uow, cookie_of(uow))
    assert enlist_external(server.client(user(3)), uow, cookie_of(uow)) == DENIED
    assert server.manager.core.transactions[uow].state is TransactionState.ACTIVE


