"""qm2qm: other queue managers read queues here ([MS-MQQP] 3.1.4)."""

from __future__ import annotations

from typing import Any

import pytest

from lior.errors import HRESULTS
from lior.message import Message, MessageSecurity, PrivacyLevel
from lior.queues.descriptor import RemoteReadState
from lior.wire.headers import EB
from lior.wire.interfaces.qm2qm import QM2QM, RemoteReadDesc, RemoteReadDesc2
from lior.wire.interfaces.structures import CACTransferBufferV1, Send
from lior.wire.user_message import UserMessage
from tests.server.rpc.calling import QUEUE, Fault, Server, user
from tests.server.rpc.remote_reading import HERE, Session, body_in, open_remote, open_session

HANDLE = bytes(20)
MISMATCH = 0x1C00001A
INVALID = HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
INVALID_HANDLE = HRESULTS["MQ_ERROR_INVALID_HANDLE"]
TIMEOUT = HRESULTS["MQ_ERROR_IO_TIMEOUT"]
DENIED = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
CANCELLED = HRESULTS["MQ_ERROR_OPERATION_CANCELLED"]
NT_INVALID_PARAMETER = 0xC000000D
PEEK, PEEK_NEXT = 0x80000000, 0x80000001


@pytest.fixture
def server() -> Server:
    server = Server(supporting=False)  # queue managers are served in any case
    server.create()
    return server


def put(server: Server, *bodies: bytes, **fields: Any) -> None:
    sender = server.engine.sender()
    for body in bodies:
        server.engine.send(sender, Message(body, **fields))
    server.manager.close(sender)


def left(server: Server) -> list[bytes]:
    return server.engine.bodies(server.manager.core.paths[r"private$\q"])


# Sessions


@pytest.mark.spec("MP-080", "MP-181", "MP-007", "MP-096")
def test_a_queue_whose_reader_came_stays_open_for_it(server: Server) -> None:
    put(server, b"1")
    client = server.client()
    session = Session(client)
    (descriptor,) = server.manager.opening.descriptors.values()
    assert descriptor.remote_read_state is RemoteReadState.READY_FOR_READ
    client.qmcomm(3, pph_context=session.context)
    assert not descriptor.closed
    assert body_in(session.read().lp_remote_read_desc) == b"1"
    assert client.call(QM2QM, 3, pph_context=session.handle) == (HANDLE, 0)
    assert descriptor.closed and not server.service.remote_opened


@pytest.mark.spec("MP-181")
def test_a_client_that_goes_away_leaves_the_queue_to_its_reader(server: Server) -> None:
    put(server, b"1")
    application, reader = server.client(), server.client()
    opened = open_remote(application)
    session = Session.__new__(Session)
    session.client, session.number, session._last = reader, opened.ph_queue, 0
    session.handle = open_session(reader, opened.ph_queue).ph_context
    application.die()
    assert body_in(session.read().lp_remote_read_desc) == b"1"
    reader.die()
    assert not server.manager.opening.descriptors and left(server) == [b"1"]


@pytest.mark.parametrize(("queue", "context"), [(0, 0), (0, 1), (1, 0), (1, 2)])
def test_the_numbers_of_a_session_are_one_number(server: Server, queue: int, context: int) -> None:
    client = server.client()
    number = open_remote(client).ph_queue
    numbers = [0, number, number ^ 1]
    response = client.call(QM2QM, 2, p_lic_guid=HERE, dw_mqs=0, h_queue=5, p_queue=numbers[queue],
                           dwp_context=numbers[context])  # fmt: skip
    assert response == (HANDLE, INVALID)
    assert open_session(client, number ^ 1) == (HANDLE, INVALID)
    assert open_session(client, number).result == 0
    assert open_session(client, number) == (HANDLE, INVALID)  # one reader


def test_the_number_of_a_queue_does_not_let_everybody_read(server: Server) -> None:
    put(server, b"1")
    opened = open_remote(server.client())
    thief = server.client(user(8), peer="198.51.100.5")
    assert open_session(thief, opened.ph_queue) == (HANDLE, DENIED)
    other = server.client(peer="198.51.100.6")  # a supporting server whose identity may read the queue
    assert open_session(other, opened.ph_queue).result == 0


def test_a_session_serves_only_the_queue_manager_that_opened_it(server: Server) -> None:
    put(server, b"1")
    session = Session(server.client())
    for thief in (server.client(user(8)), server.client(peer="198.51.100.5")):
        desc = RemoteReadDesc(session.number, 0, 0, 0, 0, session.number, 1)
        assert thief.call(QM2QM, 0, lp_remote_read_desc=desc).result == INVALID
        assert thief.call(QM2QM, 6, h_queue=session.number).result == INVALID_HANDLE
        assert thief.call(QM2QM, 4, h_queue=session.number, h_cursor=1).result == INVALID_HANDLE
        assert thief.call(QM2QM, 5, h_queue=session.number, p_queue=session.number,
                          dw_request_id=1).result == INVALID_HANDLE  # fmt: skip
    assert left(server) == [b"1"]


# Reading


def test_a_receive_is_over_when_its_reader_says_so(server: Server) -> None:
    put(server, b"1", b"2", label="label")
    session = Session(server.client())
    response = session.read()
    desc = response.lp_remote_read_desc
    assert response.result == 0 and response.pph_context != HANDLE
    assert (body_in(desc), desc.reserved) == (b"1", 1)
    assert desc.dw_arrive_time == int(server.clock.wall())
    assert left(server) == [b"2"]  # locked
    assert session.end(response.pph_context) == (HANDLE, 0)
    assert left(server) == [b"2"]
    second = session.read()
    assert session.end(second.pph_context, 1) == (HANDLE, 0)
    assert left(server) == [b"2"]
    with pytest.raises(Fault) as fault:
        session.end(second.pph_context)
    assert fault.value.status == MISMATCH


def test_the_end_is_answered_when_it_is_on_disk(server: Server) -> None:
    put(server, b"1", delivery_guarantee=1)
    session = Session(server.client())
    handle = session.read().pph_context
    answered = session.client.start(QM2QM, 1, pph_context=handle, dw_ack=2)
    assert not answered.done
    server.engine.commit()
    assert session.client.result(answered).result == 0


def test_a_peek_hands_out_no_handle(server: Server) -> None:
    put(server, b"1")
    response = Session(server.client()).read(PEEK)
    assert (response.result, response.pph_context) == (0, HANDLE)
    assert body_in(response.lp_remote_read_desc) == b"1"
    assert left(server) == [b"1"]


def test_nothing_goes_back_with_a_failure(server: Server) -> None:
    session = Session(server.client())
    response = session.read()
    assert (response.result, response.pph_context) == (TIMEOUT, HANDLE)
    assert (response.lp_remote_read_desc.lp_buffer, response.lp_remote_read_desc.dw_size) == (None, 0)


@pytest.mark.spec("MP-097")
def test_a_cursor_of_a_remote_reader_walks(server: Server) -> None:
    put(server, b"1", b"2", b"3")
    session = Session(server.client())
    cursor = session.client.qmcomm(4, ptb1=CACTransferBufferV1(0, Send()), h_queue=session.number).ph_cursor
    assert body_in(session.read(PEEK, cursor=cursor).lp_remote_read_desc) == b"1"
    assert body_in(session.read(PEEK_NEXT, cursor=cursor).lp_remote_read_desc) == b"2"
    taken = session.read(0, cursor=cursor)
    assert body_in(taken.lp_remote_read_desc) == b"2"
    session.end(taken.pph_context)
    assert left(server) == [b"1", b"3"]
    assert session.read(PEEK, cursor=cursor ^ 1).result == NT_INVALID_PARAMETER
    close = {"h_queue": session.number, "h_cursor": cursor}
    assert session.client.call(QM2QM, 4, **close).result == 0
    assert session.client.call(QM2QM, 4, **close).result == INVALID_HANDLE
    assert session.read(PEEK_NEXT).result == NT_INVALID_PARAMETER


def test_a_reader_that_may_only_peek_takes_nothing(server: Server) -> None:
    put(server, b"1")
    session = Session(server.client(), access=0x20)
    assert session.read().result == DENIED
    assert session.client.call(QM2QM, 6, h_queue=session.number).result == DENIED
    assert session.read(PEEK).result == 0
    assert left(server) == [b"1"]


@pytest.mark.parametrize("changes", [{"dw_queue": 0}, {"dw_queue": 5}, {"h_remote_queue": 5}, {"ul_action": 7}])
def test_a_read_has_to_name_its_queue_twice_and_an_action(server: Server, changes: dict[str, int]) -> None:
    put(server, b"1")
    session = Session(server.client())
    desc = session.desc()
    for name, value in changes.items():
        setattr(desc, name, value)
    assert session.client.call(QM2QM, 0, lp_remote_read_desc=desc).result == INVALID
    both = RemoteReadDesc2(p_remote_read_desc=desc)
    assert session.client.call(QM2QM, 9, lp_remote_read_desc2=both).result == INVALID
    nothing = RemoteReadDesc2(p_remote_read_desc=None)
    assert session.client.call(QM2QM, 9, lp_remote_read_desc2=nothing).result == INVALID_HANDLE
    assert left(server) == [b"1"]


# Waiting and cancelling


def test_a_read_waits_in_milliseconds(server: Server) -> None:
    session = Session(server.client())
    answered = session.start(timeout=1000)
    server.engine.advance(0.9)
    assert not answered.done
    put(server, b"1")
    response = session.client.result(answered)
    assert body_in(response.lp_remote_read_desc) == b"1"
    assert session.end(response.pph_context).result == 0


def test_a_reader_cancels_a_read_that_waits(server: Server) -> None:
    session = Session(server.client())
    client = session.client

    def cancel(request: int, queue: int | None = None) -> int:
        number = session.number if queue is None else queue
        return int(client.call(QM2QM, 5, h_queue=number, p_queue=number, dw_request_id=request).result)

    assert cancel(1) == INVALID_HANDLE
    answered = session.start(timeout=10_000, request=1)
    assert cancel(2) == HRESULTS["MQ_ERROR"]
    assert cancel(1, 0) == INVALID
    assert client.call(QM2QM, 5, h_queue=session.number, p_queue=1, dw_request_id=1).result == INVALID
    assert session.read(timeout=10, request=1).result == INVALID  # that number waits already
    assert cancel(1) == 0
    assert client.result(answered).result == 0x400E03E9
    assert client.result(answered).pph_context == HANDLE
    put(server, b"1")
    assert left(server) == [b"1"]
    assert session.read(request=1).result == 0  # the number is free again


def test_closing_the_session_ends_its_waits_and_gives_back_what_it_had(server: Server) -> None:
    put(server, b"1")
    session = Session(server.client())
    handed = session.read()
    answered = session.start(timeout=10_000)
    session.client.call(QM2QM, 3, pph_context=session.handle)
    assert session.client.result(answered).result == CANCELLED
    assert left(server) == [b"1"]
    assert session.end(handed.pph_context).result == HRESULTS["MQ_ERROR_TRANSACTION_SEQUENCE"]


def test_a_reader_that_goes_away_gives_back_what_it_had(server: Server) -> None:
    put(server, b"1", b"2")
    session = Session(server.client())
    session.read()
    session.start(timeout=10_000)  # has the second one
    session.start(timeout=10_000)  # waits
    assert left(server) == []
    session.client.die()
    assert left(server) == [b"1", b"2"]
    put(server, b"3")
    assert left(server) == [b"1", b"2", b"3"]
    assert not server.manager.opening.descriptors and not server.service.remote_opened


def test_a_message_for_a_reader_that_cancelled_its_call_stays(server: Server) -> None:
    session = Session(server.client())
    answered = session.start(timeout=10_000)
    session.client.cancel(answered)
    assert session.client.result(answered).result == CANCELLED
    put(server, b"1")
    assert left(server) == [b"1"]


# By lookup identifier, and with the sequential one


def test_the_second_form_tells_the_sequential_identifier(server: Server) -> None:
    put(server, b"1", priority=0)
    session = Session(server.client())
    queue = server.manager.core.paths[r"private$\q"]
    (lookup_id,) = queue.available
    response = session.read2()
    assert response.lp_remote_read_desc2.sequential_id == lookup_id & 0xFFFFFFFFFFFFFF
    assert body_in(response.lp_remote_read_desc2.p_remote_read_desc) == b"1"
    assert session.end(response.pph_context).result == 0
    assert left(server) == []


@pytest.mark.parametrize(("action", "at", "body"), [
    (0x40000010, 1, b"2"), (0x40000011, 1, b"3"), (0x40000012, 1, b"1"), (0x40000011, "first", b"1"),
    (0x40000012, "last", b"3"), (0x40000020, 1, b"2"), (0x40000021, 1, b"3"), (0x40000022, 1, b"1"),
    (0x40000021, "first", b"1"), (0x40000022, "last", b"3"),
])  # fmt: skip
def test_reads_by_lookup_identifier(server: Server, action: int, at: Any, body: bytes) -> None:
    put(server, b"1", b"2", b"3")
    ids = list(server.manager.core.paths[r"private$\q"].available)
    lookup_id = {"first": 0, "last": 0xFFFFFFFFFFFFFFFF}.get(at) if isinstance(at, str) else ids[at]
    assert lookup_id is not None
    session = Session(server.client())
    response = session.by_lookup(action, lookup_id)
    assert response.result == 0
    assert body_in(response.lp_remote_read_desc2.p_remote_read_desc) == body
    receives = bool(action & 0x20)
    assert (response.pph_context != HANDLE) == receives
    if receives:
        assert session.end(response.pph_context).result == 0
        assert len(left(server)) == 2 and body not in left(server)


def test_a_read_by_lookup_identifier_has_no_cursor_no_wait_and_no_other_action(server: Server) -> None:
    put(server, b"1")
    (lookup_id,) = server.manager.core.paths[r"private$\q"].available
    session = Session(server.client())
    for changes in ({"ul_timeout": 1}, {"h_cursor": 1}, {"h_remote_queue": 0}, {"h_remote_queue": 5}):
        assert session.by_lookup(0x40000010, lookup_id, **changes).result == INVALID
    assert session.by_lookup(0, lookup_id).result == INVALID
    assert session.by_lookup(0x40000010, 0).result == INVALID
    missing = session.by_lookup(0x40000010, lookup_id + 1)
    assert missing.result & 0x80000000


# The rest


def test_purges_for_a_reader_that_receives(server: Server) -> None:
    put(server, b"1", b"2")
    session = Session(server.client())
    assert session.client.call(QM2QM, 6, h_queue=session.number ^ 1).result == INVALID_HANDLE
    assert session.client.call(QM2QM, 6, h_queue=session.number).result == 0
    assert left(server) == []


def test_tells_ports_and_version(server: Server) -> None:
    client = server.client()
    assert [client.call(QM2QM, 7, dw_port_type=kind)[0] for kind in range(4)] == [2103, 2105, 0, 0]
    version = client.call(QM2QM, 8)
    assert (version.p_major, version.p_minor) == (6, 1)


def test_a_handle_of_a_session_is_none_of_a_read(server: Server) -> None:
    put(server, b"1")
    session = Session(server.client())
    with pytest.raises(Fault) as fault:
        session.end(session.handle)
    assert fault.value.status == MISMATCH
    with pytest.raises(Fault):
        session.client.call(QM2QM, 3, pph_context=session.read().pph_context)


def test_a_body_that_was_decrypted_here_is_handed_out_clear() -> None:
    server = Server()
    server.create()
    security = MessageSecurity(1, b"\1\1\0\0\0\0\0\5\x12\0\0\0", privacy_level=PrivacyLevel.ENHANCED.value)
    server.engine.send(server.engine.sender(), Message(b"clear", security=security))
    session = Session(server.client(), QUEUE)
    desc = session.read(PEEK).lp_remote_read_desc
    assert body_in(desc) == b"clear"
    packet = UserMessage.decode(bytes(desc.lp_buffer))
    assert packet.security is not None and not packet.security.header.flags & EB
