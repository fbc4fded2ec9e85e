"""The RPC server on real sockets: who may call, what happens when clients cancel, go away or send too much."""

from __future__ import annotations

import asyncio
import os
import secrets
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from lior.protocols.rpc.client_association import Answer, Fault
from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.ntlm_initiator import NtlmInitiator
from lior.protocols.rpc.trailer import encode_trailer
from lior.security import unix_user_sid
from lior.server.rpc.service import RpcService
from lior.server.rpc.settings import RpcSection
from lior.wire import rpc_pdu as pdu
from lior.wire.rpc_pdu import NDR, Syntax
from tests.server.admin.test_http import STRANGER, as_stranger
from tests.server.rpc.serving import (
    ADD,
    BACKWARDS,
    CLOSE,
    FAIL,
    LATER,
    OPEN,
    PASSWORD,
    TEST,
    USE,
    WAIT,
    WHO,
    Client,
    Refused,
    Server,
    serving,
)


def in_server(directory: Path, body: Any, **settings: Any) -> None:
    async def run() -> None:
        async with serving(directory, **settings) as server:
            await body(server)

    asyncio.run(run())


def joe(level: int = 5) -> NtlmInitiator:
    return NtlmInitiator("joe", PASSWORD, "", level, secrets.token_bytes, time.time)


async def status_of(client: Client, opnum: int, *values: Any) -> int:
    with pytest.raises(RpcFault) as refused:
        await client.call(opnum, *values)
    return refused.value.status


# Who may call


@pytest.mark.spec("MP-008")
def test_the_kernel_says_who_calls_on_the_unix_socket(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        assert bytes((await client.call(WHO)).text).decode().split() == [str(unix_user_sid(os.geteuid())), "1", "0"]

    in_server(tmp_path, body)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as somebody else")
def test_another_local_user_is_somebody_else_and_joins_no_group_of_mine(shared_directory: Path) -> None:
    async def body(server: Server) -> None:
        mine = await Client.connect(server.socket)
        handle = (await mine.call(OPEN, 7)).handle
        with as_stranger():
            theirs = await Client.connect(server.socket)
            with pytest.raises(Refused):
                await Client.connect(server.socket, group_id=mine.association.group_id)
        assert bytes((await theirs.call(WHO)).text).decode().split()[0] == str(unix_user_sid(STRANGER))
        assert await status_of(theirs, USE, handle) == 0x1C00001A
        joined = await Client.connect(server.socket, group_id=mine.association.group_id)
        assert (await joined.call(USE, handle)).result == 7

    in_server(shared_directory, body)


@pytest.mark.spec("MP-009")
def test_who_has_not_signed_in_gets_only_what_is_open_to_everybody(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.address)
        assert (await client.call(ADD, 1, 2)).result == 3
        assert await status_of(client, WHO) == 5
        assert (await client.call(ADD, 1, 3)).result == 4

    in_server(tmp_path, body)


@pytest.mark.spec("MP-009")
def test_the_anonymous_user_may_call_where_the_configuration_says_so(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.address)
        assert bytes((await client.call(WHO)).text).decode().split()[0] == "S-1-5-7"

    in_server(tmp_path, body, anonymous="allow")


def test_less_protection_than_asked_for_is_refused(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        assert await status_of(await Client.connect(server.address, joe(4)), WHO) == 5
        assert bytes((await (await Client.connect(server.address, joe(5))).call(WHO)).text)
        assert bytes((await (await Client.connect(server.socket)).call(WHO)).text)

    in_server(tmp_path, body, least_level="integrity")


def test_a_null_session_is_the_anonymous_user(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        nobody = NtlmInitiator("", None, "", 5, secrets.token_bytes, time.time)
        client = await Client.connect(server.address, nobody)
        assert (await client.call(ADD, 1, 2)).result == 3
        assert await status_of(client, WHO) == 5

    in_server(tmp_path, body)


def test_an_account_is_locked_after_wrong_passwords_and_sees_no_difference(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        for _ in range(3):
            wrong = NtlmInitiator("joe", "wrong", "", 5, secrets.token_bytes, time.time)
            assert await status_of(await Client.connect(server.address, wrong), WHO) == 5
        assert await status_of(await Client.connect(server.address, joe()), WHO) == 5
        await asyncio.sleep(0)

    in_server(tmp_path, body, lockout_attempts=3)


def test_a_disabled_account_and_a_new_password_count_at_once(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        open_before = await Client.connect(server.address, joe())
        assert (await open_before.call(ADD, 2, 1)).result == 3
        server.accounts.change("JOE", enabled=False)
        assert await status_of(await Client.connect(server.address, joe()), WHO) == 5
        server.accounts.change("joe", enabled=True)
        assert bytes((await (await Client.connect(server.address, joe())).call(WHO)).text)
        server.accounts.change("joe", password="another one")
        assert await status_of(await Client.connect(server.address, joe()), WHO) == 5
        assert (await open_before.call(ADD, 2, 2)).result == 4

    in_server(tmp_path, body)


# Dispatch


@pytest.mark.spec("MP-021")
def test_reserved_and_unknown_opnums_leave_the_connection_usable(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        for opnum in (9, 11, 12, 99, 0xFFFF):
            for stub in (b"", secrets.token_bytes(40)):
                client.writer.write(client.association.request(TEST, opnum, stub)[1])
                answer = await client.next(Fault)
                assert (answer.status, answer.executed) == (0x1C010002, False)
        assert (await client.call(ADD, 1, 1)).result == 2

    in_server(tmp_path, body)


def test_a_stub_that_does_not_decode_is_bad_stub_data(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        for stub in (b"", b"1234567", bytes(17)):
            client.writer.write(client.association.request(TEST, ADD, stub)[1])
            answer = await client.next(Fault)
            assert (answer.status, answer.executed) == (0x6F7, False)

    in_server(tmp_path, body)


@pytest.mark.spec("MP-022")
def test_what_a_method_raises_travels_as_a_fault(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        assert await status_of(client, FAIL, 0xC00E0064) == 0xC00E0064
        assert await status_of(client, FAIL, 0) == 0x1C000012
        assert (await client.call(LATER, 7)).result == 7

    in_server(tmp_path, body)


def test_a_trailer_that_contradicts_the_request_refuses_it(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        stub = TEST.methods[ADD].request.encode((1, 2))
        own = Syntax(TEST.uuid, 1)
        client.writer.write(client.association.request(TEST, ADD, stub + encode_trailer(own, NDR, False))[1])
        await client.next(Answer)
        client.writer.write(client.association.request(TEST, ADD, stub + encode_trailer(NDR, NDR, False))[1])
        assert (await client.next(Fault)).status == 5

    in_server(tmp_path, body)


def test_a_body_that_ends_like_a_trailer_arrives_whole(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        for ending in (encode_trailer(NDR, NDR, False), encode_trailer(Syntax(TEST.uuid, 1), NDR, False)):
            content = b"body" + ending
            assert bytes((await client.call(BACKWARDS, len(content), content)).out) == content[::-1]

    in_server(tmp_path, body)


# Many calls, lost clients


def test_a_waiting_call_holds_up_no_other(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.address, joe(6))
        waiting = client.send(WAIT, 1)
        assert (await client.call(ADD, 1, 2)).result == 3
        await server.handlers.until(lambda: 1 in server.handlers.waiting)
        server.handlers.waiting[1].answer((42,))
        answer = await client.next(Answer)
        assert answer.call_id == waiting
        assert TEST.methods[WAIT].response.decode(answer.stub).result == 42

    in_server(tmp_path, body)


def test_a_cancelled_call_ends(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        call_id = client.send(WAIT, 5)
        client.writer.write(client.association.cancel(call_id))
        assert (await client.next(Fault)).status == 0xC00E0008
        assert server.handlers.cancelled == [5]

    in_server(tmp_path, body)


@pytest.mark.spec("MP-018", "MP-180")
def test_handles_live_as_long_as_one_connection_of_their_group(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        handlers = server.handlers
        one = await Client.connect(server.address, joe())
        handle = (await one.call(OPEN, 7)).handle
        two = await Client.connect(server.address, joe(), group_id=one.association.group_id)
        other = await Client.connect(server.address, joe())
        assert (await two.call(USE, handle)).result == 7
        assert await status_of(other, USE, handle) == 0x1C00001A
        assert await status_of(one, USE, bytes(20)) == 0x1C00001A
        await one.close()
        assert (await two.call(USE, handle)).result == 7
        two.send(WAIT, 3)
        await handlers.until(lambda: 3 in handlers.waiting)
        await two.close()
        await handlers.until(lambda: handlers.run_down == [7])
        assert handlers.cancelled == [3]
        closed = await Client.connect(server.address, joe())
        handle = (await closed.call(OPEN, 8)).handle
        assert (await closed.call(CLOSE, handle)).handle == bytes(20)
        assert await status_of(closed, CLOSE, handle) == 0x1C00001A

    in_server(tmp_path, body)


def test_another_user_of_the_same_computer_cannot_use_a_handle(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        server.accounts.add("eve", "x")
        one = await Client.connect(server.address, joe())
        handle = (await one.call(OPEN, 7)).handle
        eve = NtlmInitiator("eve", "x", "", 5, secrets.token_bytes, time.time)
        two = await Client.connect(server.address, eve, group_id=one.association.group_id)
        assert await status_of(two, USE, handle) == 0x1C00001A

    in_server(tmp_path, body)


def test_hundreds_of_calls_in_one_write_are_answered(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket, max_fragment=65528)
        ids = [client.send(ADD, n, 1) for n in range(1500)]
        answers = [await client.next(Answer) for _ in ids]
        assert [answer.call_id for answer in answers] == ids
        assert [TEST.methods[ADD].response.decode(answer.stub).result for answer in answers] == list(range(1, 1501))

    in_server(tmp_path, body)


def test_calls_that_come_together_go_to_a_batch_handler_together(tmp_path: Path) -> None:
    batches: list[list[int]] = []

    def several(calls: Any, at: int) -> int:
        batches.append([call.request.a for call in calls[at:]])
        if batches[-1][0] == 77:
            return at
        if batches[-1][0] == 66:
            raise RuntimeError("a bug")
        for call in calls[at:at + 2]:
            call.answer((call.request.a + call.request.b,))
        return min(at + 2, len(calls))

    async def run() -> None:
        service = RpcService(RpcSection(mapper_port=0, qm_port=0, port=0), [], tmp_path, {}, asyncio.get_running_loop())
        service.register(TEST, {ADD: lambda call, request: (0,), LATER: lambda call, request: (9,)},
                         batches={ADD: several})
        await service.start()
        client = await Client.connect(str(service.socket_path))
        data = [client.association.request(TEST, opnum, TEST.methods[opnum].request.encode(values))[1]
                for opnum, values in ((ADD, (1, 1)), (ADD, (2, 1)), (LATER, (0,)), (ADD, (3, 1)), (ADD, (4, 1)),
                                       (ADD, (77, 1)), (ADD, (8, 1)))]
        client.writer.write(b"".join(data))
        results = [TEST.methods[ADD].response.decode((await client.next(Answer)).stub).result for _ in data]
        assert results == [2, 3, 9, 4, 5, 0, 9]  # 0 is what the handler for one says
        assert batches == [[1, 2], [3, 4, 77, 8], [77, 8], [8]]
        client.send(ADD, 66, 1)
        assert (await client.next(Fault)).status == 0x1C000012
        assert (await client.call(ADD, 4, 1)).result == 5
        await service.stop()

    asyncio.run(run())


def test_values_that_do_not_fit_a_response_are_a_fault(tmp_path: Path) -> None:
    async def run() -> None:
        service = RpcService(RpcSection(mapper_port=0, qm_port=0, port=0), [], tmp_path, {}, asyncio.get_running_loop())
        service.register(TEST, {ADD: lambda call, request: (1 << 40,), LATER: lambda call, request: ("text",),
                                WAIT: lambda call, request: (1, 2)})
        await service.start()
        client = await Client.connect(str(service.socket_path))
        for opnum, values in ((ADD, (1, 1)), (LATER, (1,)), (WAIT, (1,))):
            assert await status_of(client, opnum, *values) == 0x1C000012
        await service.stop()

    asyncio.run(run())


def test_a_server_stops_reading_what_it_cannot_hold(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket, max_fragment=65528)
        waiting = TEST.methods[WAIT].request.encode((1,))
        (connection,) = server.service.connections
        assert connection.association is not None
        big = TEST.methods[BACKWARDS].request.encode((60_000, bytes(60_000)))
        for _ in range(2000):  # never read by the client: answers pile up, and nothing more is taken
            client.writer.write(client.association.request(TEST, BACKWARDS, big)[1])
        client.writer.write(client.association.request(TEST, ADD, waiting + waiting)[1])
        for _ in range(2000):
            await asyncio.sleep(0)
        assert connection.association.bytes_in_flight <= server.service.settings.max_in_flight + (1 << 20)
        assert connection.transport is not None
        assert connection.transport.get_write_buffer_size() < 4 << 20
        for _ in range(2001):
            await client.next(Answer)

    in_server(tmp_path, body, max_in_flight=1 << 16)


# Limits


def test_there_are_no_more_connections_than_allowed(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        first = await Client.connect(server.socket)
        second = await Client.connect(server.address)
        with pytest.raises((Refused, ConnectionError)):
            await Client.connect(server.address)
        await second.close()
        await first.call(ADD, 1, 1)
        for _ in range(100):
            await asyncio.sleep(0)
        assert (await (await Client.connect(server.address)).call(ADD, 1, 1)).result == 2

    in_server(tmp_path, body, max_connections=2)


def test_who_does_not_bind_in_time_is_cut_off(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        reader, writer = await asyncio.open_connection(server.address, 2103)
        writer.write(b"\x05\x00\x0b")
        async with asyncio.timeout(120):
            assert await reader.read() == b""
        writer.close()

    in_server(tmp_path, body, bind_timeout=0.1)


def test_garbage_ends_the_connection_with_a_fault(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        short = struct.pack("<IIHHI", 0x03000005, 0x10, 3, 0, 1)
        for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", short, bytes(100)):
            reader, writer = await asyncio.open_connection(server.address, 2103)
            writer.write(data)
            async with asyncio.timeout(120):
                answer = await reader.read()
            assert pdu.decode_header(answer).ptype == pdu.FAULT
            writer.close()

    in_server(tmp_path, body)


def test_a_stop_ends_every_connection_and_runs_handles_down(tmp_path: Path) -> None:
    async def body(server: Server) -> None:
        client = await Client.connect(server.socket)
        await client.call(OPEN, 4)
        client.send(WAIT, 1)
        await server.handlers.until(lambda: 1 in server.handlers.waiting)
        await server.service.stop()
        assert server.handlers.run_down == [4]
        assert not os.path.exists(server.socket)
        assert (await client.next(Fault)).status == 0xC00E000B  # the wait was ended, and its client told why
        with pytest.raises(Refused):
            await client.next(Answer)

    in_server(tmp_path, body)


@pytest.mark.spec("MP-003")
def test_listens_on_ipv6_too(tmp_path: Path) -> None:
    async def run() -> None:
        service = RpcService(RpcSection(mapper_port=0, qm_port=0, port=29103), ["::1"], None, {},
                             asyncio.get_running_loop())
        service.register(TEST, {ADD: lambda call, request: (request.a + request.b,)}, allow_anonymous=frozenset({ADD}))
        await service.start()
        client = await Client.connect("::1", port=service.port)
        assert (await client.call(ADD, 1, 2)).result == 3
        await service.stop()

    asyncio.run(run())
