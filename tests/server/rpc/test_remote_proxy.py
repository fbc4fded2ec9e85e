"""A supporting server that reads queues of another queue manager for its clients ([MS-MQMP] 3.1.4.17, 3.1.5.3).

Two queue managers: one serves the application, the other has the queue. What stands between them here calls the other
one's methods directly; the RPC client that does it over the network has the same interface.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any
from uuid import UUID, uuid4

import pytest

from lior.errors import HRESULTS, error_from_code
from lior.message import Message
from lior.server.rpc.methods.remote_reader import RemoteMessage
from lior.server.rpc.methods.settings import MethodSettings
from lior.testing.engine import IDENTIFIER
from lior.wire.interfaces.qm2qm import QM2QM
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.structures import CACCreateRemoteCursor, CACTransferBufferV1, Send
from lior.wire.ndr import NULL
from tests.server.rpc.calling import (
    NO_GUID,
    Answered,
    Client,
    DrivenEngine,
    Fault,
    Server,
    body_of,
    format_of,
    user,
    wanted,
)
from tests.server.rpc.remote_reading import Session, open_remote, open_session

FAR = r"DIRECT=OS:far\private$\q"
HERE = r"DIRECT=OS:.\private$\q"
HANDLE = bytes(20)
DENIED = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
UNREACHABLE = HRESULTS["MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE"]
INVALID_HANDLE = HRESULTS["MQ_ERROR_INVALID_HANDLE"]
OVERFLOW = HRESULTS["MQ_ERROR_BUFFER_OVERFLOW"]
PEEK, PEEK_NEXT = 0x80000000, 0x80000001


def looped(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(test(*args, **options))

    return run


async def told(answered: Answered) -> Answered:
    if not answered.done:
        event = asyncio.Event()
        answered.told = event.set
        await event.wait()
    return answered


class FarSession:
    """RemoteSession on the far queue manager."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.client = session.client
        self.closed = False
        self.fails = 0

    def checked(self, response: Any) -> Any:
        if response.result & 0x80000000:
            raise error_from_code(response.result)
        return response

    async def receive(self, action: int, timeout_ms: int, cursor: int) -> RemoteMessage:
        answered = self.session.start(action, timeout_ms, cursor)
        try:
            await told(answered)
        except asyncio.CancelledError:
            number = self.session.number
            self.client.call(QM2QM, 5, h_queue=number, p_queue=number, dw_request_id=self.session._last)
            raise
        response = self.checked(self.client.result(answered))
        desc = response.lp_remote_read_desc
        read = None if response.pph_context == HANDLE else response.pph_context
        return RemoteMessage(bytes(desc.lp_buffer), desc.dw_arrive_time, read)

    async def end(self, read: object, taken: bool) -> None:
        if self.fails:
            raise error_from_code(self.fails)
        assert isinstance(read, bytes)
        self.checked(self.session.end(read, 2 if taken else 1))

    async def create_cursor(self) -> int:
        ptb = CACTransferBufferV1(0, Send())
        return int(self.checked(self.client.qmcomm(4, ptb1=ptb, h_queue=self.session.number)).ph_cursor)

    async def close_cursor(self, cursor: int) -> None:
        self.checked(self.client.call(QM2QM, 4, h_queue=self.session.number, h_cursor=cursor))

    async def purge(self) -> None:
        self.checked(self.client.call(QM2QM, 6, h_queue=self.session.number))

    async def close(self) -> None:
        self.closed = True
        self.checked(self.client.call(QM2QM, 3, pph_context=self.session.handle))


class FarReader:
    """RemoteReader that knows one computer."""

    def __init__(self, far: Server) -> None:
        self.far = far
        self.asked: list[str] = []
        self.sessions: list[FarSession] = []
        self.refuses = 0

    async def open(self, computer: str, queue: int, descriptor: int, context: int) -> FarSession:
        self.asked.append(computer)
        if self.refuses:
            raise error_from_code(self.refuses)
        session = Session.__new__(Session)
        session.client, session.number, session._last = self.far.client(peer="192.0.2.50"), queue, 0
        response = open_session(session.client, context)
        if response.result:
            raise error_from_code(response.result)
        session.handle = response.ph_context
        made = FarSession(session)
        self.sessions.append(made)
        return made


class Both:
    """The application's server and the far one, with an application."""

    def __init__(self, **options: Any) -> None:
        identifier = UUID(int=IDENTIFIER.int + 1)
        self.far = Server(supporting=False, seed=9, engine=DrivenEngine(name="far", identifier=identifier))
        self.far.create()
        self.reader = FarReader(self.far)
        self.near = Server(reader=self.reader, **options)
        self.client = self.near.client()
        self.at_far = self.far.client(peer="192.0.2.1")

    def put(self, *bodies: bytes) -> None:
        sender = self.far.engine.sender()
        for body in bodies:
            self.far.engine.send(sender, Message(body, label="label", response_queue=FAR))
        self.far.manager.close(sender)

    @property
    def left(self) -> list[bytes]:
        return self.far.engine.bodies(self.far.manager.core.paths[r"private$\q"])

    async def call(self, interface: Any, opnum: int, client: Client | None = None, **fields: Any) -> Any:
        client = client or self.client
        return client.result(await told(client.start(interface, opnum, **fields)))

    async def open(self, access: int = 1, name: str = FAR, client: Client | None = None) -> Any:
        """The whole sequence of 3.2.4.7."""
        client = client or self.client
        hint = client.open(name, access)
        assert (hint.result, hint.lplp_remote_queue_name) == (0, r"far\private$\q")
        opened = open_remote(self.at_far, HERE, access)
        response = await self.second(opened.ph_queue, access, name, client)
        if response.result == 0:
            self.at_far.qmcomm(3, pph_context=opened.pph_context)
        return response

    async def second(self, number: int, access: int = 1, name: str = FAR, client: Client | None = None) -> Any:
        return await self.call(QMCOMM, 19, client, p_queue_format=format_of(name), dw_desired_access=access,
                               dw_share_mode=0, h_remote_queue=number, lplp_remote_queue_name=NULL, dwp_queue=number,
                               p_lic_guid=NO_GUID, lp_client_name="client", dw_remote_protocol=0,
                               dwp_remote_context=number)  # fmt: skip

    async def receive(self, context: int, **options: Any) -> Any:
        return await self.call(QMCOMM2, 2, h_qm_context=context, ptb=wanted(**options))

    async def settled(self) -> None:
        while self.near.service.tasks:
            await asyncio.gather(*self.near.service.tasks, return_exceptions=True)


@pytest.mark.spec("MP-197", "MP-134", "MP-076", "MP-080", "MP-007", "MP-171")
@looped
async def test_an_application_reads_a_queue_of_another_computer_through_its_server() -> None:
    both = Both()
    both.put(b"1", b"2")
    opened = await both.open()
    assert opened.result == 0 and opened.ph_queue != HANDLE and opened.pdw_qm_context
    assert opened.lplp_remote_queue_name is NULL
    peeked = await both.receive(opened.pdw_qm_context, action=PEEK)
    assert body_of(peeked) == b"1" and both.left == [b"1", b"2"]
    received = await both.receive(opened.pdw_qm_context)
    assert body_of(received) == b"1" and received.ptb.pp_title == "label\0"
    assert received.ptb.transfer.pp_response_format_name == FAR + "\0"
    assert received.ptb.pp_src_qm_id == both.far.manager.core.properties.identifier
    assert both.left == [b"2"]
    assert (await both.call(QMCOMM, 27, h_queue=opened.ph_queue)).result == 0
    assert both.left == []
    assert (await both.call(QMCOMM, 20, ph_queue=opened.ph_queue)) == (HANDLE, 0)
    await both.settled()
    assert both.reader.sessions[0].closed
    assert not both.far.manager.opening.descriptors and not both.near.service.opened
    assert not both.near.service._held


@pytest.mark.spec("MP-134")
@looped
async def test_an_open_that_fails_far_away_leaves_nothing() -> None:
    both = Both()
    both.client.open(FAR)
    assert (await both.second(12345)).result == HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
    both.reader.refuses = UNREACHABLE
    response = await both.second(1)
    assert (response.result, response.ph_queue, response.pdw_qm_context) == (UNREACHABLE, HANDLE, 0)
    assert not both.near.service.opened and not both.near.service._held


@pytest.mark.spec("MP-135")
@looped
async def test_the_server_connects_only_where_this_client_was_pointed_to() -> None:
    both = Both()
    number = open_remote(both.at_far, HERE).ph_queue
    assert (await both.second(number)).result == DENIED
    other = both.near.client(user(4))
    both.client.open(FAR)
    assert (await both.second(number, client=other)).result == DENIED
    assert (await both.second(number, name=r"DIRECT=OS:elsewhere\private$\q")).result == DENIED
    assert both.reader.asked == []
    assert (await both.second(number)).result == 0
    assert both.reader.asked == ["far"]


@pytest.mark.spec("MP-135")
@looped
async def test_an_operator_can_say_which_computers_are_read() -> None:
    both = Both(settings=MethodSettings(remote_hosts=("FAR",)))
    number = open_remote(both.at_far, HERE).ph_queue
    assert (await both.second(number)).result == 0
    closed = Both(settings=MethodSettings(remote_hosts=("elsewhere",)))
    closed.client.open(FAR)
    assert (await closed.second(open_remote(closed.at_far, HERE).ph_queue)).result == DENIED


@looped
async def test_without_a_reader_the_other_computer_is_not_available() -> None:
    both = Both()
    both.near.service.reader = None
    both.client.open(FAR)
    assert (await both.second(5)).result == UNREACHABLE


@pytest.mark.spec("MP-129", "MP-136")
@looped
async def test_the_second_call_is_for_reading_and_has_all_its_numbers() -> None:
    both = Both()
    both.client.open(FAR)
    number = open_remote(both.at_far, HERE).ph_queue
    assert (await both.second(number, access=2)).result == HRESULTS["MQ_ERROR_UNSUPPORTED_ACCESS_MODE"]
    for queue, context in ((0, number), (number, 0)):
        response = both.client.open(FAR, remote=(number, queue, context))
        assert response.result == HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
    assert both.reader.asked == []


@pytest.mark.spec("MP-171", "MP-169")
@looped
async def test_a_message_that_does_not_fit_here_stays_there() -> None:
    both = Both()
    both.put(b"long body")
    context = (await both.open()).pdw_qm_context
    response = await both.receive(context, room=1)
    assert (response.result, response.ptb.p_body_size) == (OVERFLOW, 9)
    assert both.left == [b"long body"]
    assert body_of(await both.receive(context)) == b"long body"


@pytest.mark.spec("MP-171")
@looped
async def test_a_receive_whose_acknowledgement_fails_fails() -> None:
    both = Both()
    both.put(b"1")
    context = (await both.open()).pdw_qm_context
    both.reader.sessions[0].fails = UNREACHABLE
    assert (await both.receive(context)).result == UNREACHABLE


@pytest.mark.spec("MP-170")
@looped
async def test_a_remote_queue_is_not_read_in_a_transaction() -> None:
    both = Both()
    both.put(b"1")
    context = (await both.open()).pdw_qm_context
    uow = uuid4()
    assert (await both.receive(context, p_uow=uow)).result == HRESULTS["MQ_ERROR_TRANSACTION_SEQUENCE"]
    both.client.qmcomm(16, p_uow=uow)
    assert (await both.receive(context, p_uow=uow)).result == HRESULTS["MQ_ERROR_TRANSACTION_USAGE"]
    assert both.left == [b"1"]


@pytest.mark.spec("MP-176", "MP-081")
@looped
async def test_the_context_of_a_proxy_is_its_clients() -> None:
    both = Both()
    both.put(b"1")
    context = (await both.open()).pdw_qm_context
    for thief in (both.near.client(user(3)), both.near.client(peer="198.51.100.3")):
        answered = thief.start(QMCOMM2, 2, h_qm_context=context, ptb=wanted())
        assert thief.result(answered).result == DENIED
    assert both.left == [b"1"]


@pytest.mark.spec("MP-159", "MP-128")
@looped
async def test_nothing_is_sent_through_a_proxy() -> None:
    both = Both()
    opened = await both.open()
    assert both.client.send(opened.ph_queue).result == DENIED


# Cursors


@pytest.mark.spec("MP-178", "MP-141", "MP-077")
@looped
async def test_a_cursor_walks_over_a_queue_of_another_computer() -> None:
    both = Both()
    both.put(b"1", b"2", b"3")
    opened = await both.open()

    async def cursor() -> Any:
        return await both.call(QMCOMM2, 3, h_queue=opened.ph_queue, pcc=CACCreateRemoteCursor(0, 8, 9))

    first, second = await cursor(), await cursor()
    number = first.pcc.h_cursor
    assert first.result == 0 and number not in (0, 0x0B, second.pcc.h_cursor)
    context = opened.pdw_qm_context
    assert body_of(await both.receive(context, action=PEEK, cursor=number)) == b"1"
    assert body_of(await both.receive(context, action=PEEK_NEXT, cursor=number)) == b"2"
    assert body_of(await both.receive(context, cursor=number)) == b"2"
    assert body_of(await both.receive(context, action=PEEK, cursor=second.pcc.h_cursor)) == b"1"
    assert (await both.receive(context, cursor=number ^ 1)).result == INVALID_HANDLE
    illegal = HRESULTS["MQ_ERROR_ILLEGAL_CURSOR_ACTION"]
    assert (await both.receive(context, action=PEEK_NEXT)).result == illegal
    assert (await both.call(QMCOMM, 22, h_queue=opened.ph_queue, h_cursor=number)).result == 0
    assert (await both.call(QMCOMM, 22, h_queue=opened.ph_queue, h_cursor=number)).result == INVALID_HANDLE
    (far,) = both.far.manager.opening.descriptors.values()
    assert len(far.cursors) == 1


@pytest.mark.spec("MP-141", "MP-178")
@looped
async def test_a_cursor_is_gone_here_although_the_other_computer_fails() -> None:
    both = Both()
    opened = await both.open()
    created = await both.call(QMCOMM2, 3, h_queue=opened.ph_queue, pcc=CACCreateRemoteCursor())
    (proxy,) = both.near.service.opened.values()

    async def fail(*arguments: Any) -> int:
        raise error_from_code(UNREACHABLE)

    both.reader.sessions[0].close_cursor = fail  # type: ignore[assignment,method-assign]
    both.reader.sessions[0].create_cursor = fail  # type: ignore[method-assign]
    closed = await both.call(QMCOMM, 22, h_queue=opened.ph_queue, h_cursor=created.pcc.h_cursor)
    assert closed.result == UNREACHABLE
    assert not proxy.cursors
    assert (await both.call(QMCOMM2, 3, h_queue=opened.ph_queue, pcc=CACCreateRemoteCursor())).result == UNREACHABLE
    assert not proxy.cursors


# The name and the end


@pytest.mark.spec("MP-144", "MP-076")
@looped
async def test_a_proxy_has_the_format_name_it_was_opened_with() -> None:
    both = Both()
    opened = await both.open()
    response = both.client.qmcomm(26, h_queue=opened.ph_queue, dw_format_name_rpc_buffer_len=100,
                                  lpwcs_format_name="y" * 100, pdw_length=100)  # fmt: skip
    assert response.lpwcs_format_name.rstrip("\0") == FAR


@pytest.mark.spec("MP-139")
@looped
async def test_a_client_does_not_wait_for_the_other_computer_to_close() -> None:
    both = Both()
    opened = await both.open()
    gate = asyncio.Event()
    close = both.reader.sessions[0].close

    async def slowly() -> None:
        await gate.wait()
        await close()

    both.reader.sessions[0].close = slowly  # type: ignore[method-assign]
    assert both.client.qmcomm(20, ph_queue=opened.ph_queue) == (HANDLE, 0)
    assert not both.near.service.opened and not both.reader.sessions[0].closed
    gate.set()
    await both.settled()
    assert both.reader.sessions[0].closed
    with pytest.raises(Fault):
        both.client.qmcomm(20, ph_queue=opened.ph_queue)


@pytest.mark.spec("MP-180")
@looped
async def test_a_client_that_goes_away_leaves_no_session_and_takes_no_message() -> None:
    both = Both()
    opened = await both.open()
    both.client.start(QMCOMM2, 2, h_qm_context=opened.pdw_qm_context, ptb=wanted(timeout=60_000))
    await asyncio.sleep(0)
    both.client.die()
    await both.settled()
    both.put(b"1")
    assert both.left == [b"1"]
    assert not both.near.service.opened and not both.far.manager.opening.descriptors


@looped
async def test_a_client_that_goes_away_during_the_open_leaves_no_proxy() -> None:
    both = Both()
    both.client.open(FAR)
    number = open_remote(both.at_far, HERE).ph_queue
    gate = asyncio.Event()
    really = both.reader.open

    async def slowly(*arguments: Any) -> FarSession:
        await asyncio.shield(gate.wait())
        return await really(*arguments)

    both.reader.open = slowly  # type: ignore[method-assign,assignment]
    both.client.start(QMCOMM, 19, p_queue_format=format_of(FAR), dw_desired_access=1, dw_share_mode=0,
                      h_remote_queue=number, lplp_remote_queue_name=NULL, dwp_queue=number, p_lic_guid=NO_GUID,
                      lp_client_name="", dw_remote_protocol=0, dwp_remote_context=number)  # fmt: skip
    await asyncio.sleep(0)
    both.client.die()
    gate.set()
    await both.settled()
    assert not both.near.service.opened and not both.near.service._held


