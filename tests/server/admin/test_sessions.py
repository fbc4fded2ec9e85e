"""Client sessions: handles, transactions and reads end with the client that has them, however it ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import lior
from lior.errors import LiorError, MessageTooLarge, OperationCancelled, Timeout
from lior.testing.serving import Serving
from lior.wire import admin_frames

SOURCE = Path(lior.__file__).resolve().parent.parent


def eventually(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, what
        threading.Event().wait(0.01)


class Client:
    """A client that was written from docs/server.md."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.last = 0
        self.answers: dict[Any, dict[str, Any]] = {}
        self.blobs: dict[Any, bytes] = {}

    async def send(self, *calls: dict[str, Any]) -> None:
        await self.ws.send_str(json.dumps(list(calls)))

    async def start(self, name: str, /, **arguments: Any) -> int:
        self.last += 1
        await self.send({"id": self.last, "call": name, "args": arguments})
        return self.last

    async def answer(self, number: Any) -> dict[str, Any]:
        while number not in self.answers:
            frame = await self.ws.receive(60)
            assert frame.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY), frame
            answers, blobs = admin_frames.decode(frame.data)
            for answer in answers:
                if "hello" not in answer:
                    self.answers[answer["id"]] = answer
                    self.blobs[answer["id"]] = blobs
        return self.answers[number]

    async def call(self, name: str, /, **arguments: Any) -> Any:
        answer = await self.answer(await self.start(name, **arguments))
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, name: str, /, **arguments: Any) -> str:
        answer = await self.answer(await self.start(name, **arguments))
        return str(answer["error"]["symbol"])


@asynccontextmanager
async def client(server: Serving, query: str = "?frames=text", **options: Any) -> AsyncIterator[Client]:
    connector = aiohttp.UnixConnector(server.socket_path)
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        http.ws_connect(f"http://lior/v1/session{query}", max_msg_size=0, **options) as ws,
    ):
        yield Client(ws)


def name_of(path: str) -> str:
    return f"DIRECT=OS:{path}"


def test_a_session_in_text_frames_from_open_to_close(server: Serving) -> None:
    path = r".\private$\text"

    async def run() -> None:
        async with client(server) as c:
            await c.call("create_queue", path=path)
            out = await c.call("open", name=name_of(path), access=2)
            assert out["transactional"] is False
            message = {"body": {"text": "grüße"}, "delivery_guarantee": 1, "extension": {"base64": "AAE="}}
            sent = await c.call("send", handle=out["handle"], message=message)
            inn = await c.call("open", name=name_of(path), access=1)
            cursor = await c.call("open_cursor", handle=inn["handle"])
            seen = await c.call("peek", handle=inn["handle"], cursor=cursor, timeout_ms=0)
            assert (seen["identifier"], seen["extension"]) == (sent, {"base64": "AAE="})
            taken = await c.call("receive", handle=inn["handle"], timeout_ms=0)
            assert taken["message"]["body"] == {"base64": "Z3LDvMOfZQ=="}
            assert (await c.call("queue", name=path))["messages"] == 1  # locked until the client has it
            await c.call("end", read=taken["read"], take=True)
            assert (await c.call("queue", name=path))["messages"] == 0
            await c.call("close_cursor", cursor=cursor)
            await c.call("close", handle=inn["handle"])
            assert await c.refused("receive", handle=inn["handle"]) == "MQ_ERROR_INVALID_HANDLE"

    asyncio.run(run())


def test_bytes_stand_beside_the_json_of_binary_frames(server: Serving) -> None:
    path = r".\private$\binary"
    body = bytes(range(256)) * 100

    async def run() -> None:
        async with client(server, "") as c:
            await c.call("create_queue", path=path)
            handle = (await c.call("open", name=name_of(path), access=2))["handle"]
            blobs = admin_frames.Blobs()
            calls = [{"id": n, "call": "send", "args": {"handle": handle, "message": {"body": blobs.put(body[n:])}}}
                     for n in (100, 101)]  # fmt: skip
            await c.ws.send_bytes(admin_frames.encode(calls, blobs))
            for number in (100, 101):
                assert "result" in await c.answer(number)
            handle = (await c.call("open", name=name_of(path), access=32))["handle"]
            for number, action in ((100, "first"), (101, "last")):
                started = await c.start("read_by_lookup", handle=handle, action=action, peek=True)
                found = (await c.answer(started))["result"]["body"]
                assert admin_frames.take(found, c.blobs[started], "body") == body[number:]

    asyncio.run(run())


def test_many_calls_are_under_way_and_a_waiting_read_is_cancelled_among_them(server: Serving) -> None:
    path = r".\private$\pipelined"

    async def run() -> None:
        async with client(server) as c:
            await c.call("create_queue", path=path)
            handle = (await c.call("open", name=name_of(path), access=1))["handle"]
            reads = [await c.start("receive", handle=handle) for _ in range(5)]
            assert (await c.call("properties"))["waiting_reads"] == 5
            await c.call("cancel", id=reads[2])
            assert (await c.answer(reads[2]))["error"]["symbol"] == "MQ_ERROR_OPERATION_CANCELLED"
            await c.call("cancel", id=12345)
            await c.call("send_to", queue=path, messages=[{"label": str(n)} for n in range(4)])
            labels = [(await c.answer(read))["result"]["message"]["label"] for read in (*reads[:2], *reads[3:])]
            assert labels == ["0", "1", "2", "3"]

    asyncio.run(run())


def test_what_a_client_held_is_free_when_it_closes(server: Serving) -> None:
    plain, stream = r".\private$\held", r".\private$\held-stream"

    async def run() -> None:
        async with client(server) as other:
            await other.call("create_queue", path=plain)
            await other.call("create_queue", path=stream, properties={"transactional": True})
            await other.call("send_to", queue=plain, messages=[{"label": "plain"}])
            await other.call("send_to", queue=stream, messages=[{"label": "stream"}])
            async with client(server) as c:
                handle = (await c.call("open", name=name_of(plain), access=1, exclusive=True))["handle"]
                assert "read" in await c.call("receive", handle=handle, timeout_ms=0)
                transaction = await c.call("begin")
                handle = (await c.call("open", name=name_of(stream), access=1))["handle"]
                await c.call("receive", handle=handle, timeout_ms=0, transaction=transaction)
                assert await other.refused("open", name=name_of(plain), access=1) == "MQ_ERROR_SHARING_VIOLATION"
                assert await other.refused("commit", transaction=transaction) == "MQ_ERROR_TRANSACTION_SEQUENCE"
            for path in (plain, stream):
                while not await other.call("browse", queue=path):
                    pass  # the server hears of the end a moment later
            [message] = await other.call("browse", queue=stream)
            assert message["abort_count"] == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "frame",
    [
        "{", "3", '"x"', "[1]", '[{"call": "queues"}]', '[{"id": [], "call": "queues"}]',
        b"", b"\1", b"\xff\xff\xff\xff{}", b"\2\0\0\0{]", b"\2\0\0\0\xff\xff",
    ],
)  # fmt: skip
def test_what_is_no_frame_ends_the_session_with_the_reason(server: Serving, frame: str | bytes) -> None:
    async def run() -> None:
        async with client(server) as c:
            await (c.ws.send_str(frame) if isinstance(frame, str) else c.ws.send_bytes(frame))
            answer = await c.answer(None)
            assert answer["error"]["symbol"] == "LIOR_ERROR_MALFORMED"
            assert (await c.ws.receive(60)).type is aiohttp.WSMsgType.CLOSE

    asyncio.run(run())
    with server.connect() as qm:
        assert qm.properties()["state"] == "ready"


@pytest.mark.parametrize("args", ["x", [1], {"handle": 99}, {"handle": "1"}, {"handle": True}, {"colour": 1}])
def test_a_wrong_call_is_answered_and_the_session_goes_on(server: Serving, args: Any) -> None:
    async def run() -> None:
        async with client(server) as c:
            wrong = {"id": "a", "call": "receive", "args": args}
            await c.send(wrong, {"id": 7, "call": "queues"}, {"id": 8, "call": 5})
            assert "error" in await c.answer(8)
            assert "result" in await c.answer(7)
            assert "error" in c.answers["a"]

    asyncio.run(run())


def test_a_frame_over_the_limit_ends_the_session(server: Serving) -> None:
    async def run() -> None:
        async with client(server) as c:
            await c.call("queues")
            with suppress(ConnectionError):
                await c.ws.send_bytes(bytes(2 << 20))
            closed = await c.ws.receive(60)
            assert closed.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
            assert c.ws.close_code in (aiohttp.WSCloseCode.MESSAGE_TOO_BIG, 1006)

    asyncio.run(run())


def test_a_message_that_does_not_fit_a_frame_is_refused_by_the_library(server: Serving) -> None:
    with lior.connect(server.admin_url, token=server.token) as qm:
        qm.create_queue(r".\private$\fits")
        with pytest.raises(MessageTooLarge, match="server takes 1048576"):
            qm.send(r".\private$\fits", bytes(1 << 20))
        qm.send(r".\private$\fits", bytes(1_000_000))
        assert len(qm.receive(r".\private$\fits", 0).body) == 1_000_000


def test_handles_of_a_session_have_a_bound(server: Serving) -> None:
    async def run() -> None:
        async with client(server) as c:
            await c.call("create_queue", path=r".\private$\bound")
            for _ in range(50):
                await c.call("open", name=name_of(r".\private$\bound"), access=2)
            for call in ("begin", "open"):
                arguments = {"name": name_of(r".\private$\bound"), "access": 2} if call == "open" else {}
                assert await c.refused(call, **arguments) == "MQ_ERROR_INSUFFICIENT_RESOURCES"

    asyncio.run(run())


def test_calls_and_sessions_have_bounds(tmp_path: Path) -> None:
    async def run() -> None:
        async with client(server) as c:
            await c.call("create_queue", path=r".\private$\q")
            handle = (await c.call("open", name=name_of(r".\private$\q"), access=1))["handle"]
            for _ in range(20):
                await c.start("receive", handle=handle)
            assert await c.refused("queues") == "MQ_ERROR_INSUFFICIENT_RESOURCES"
            async with client(server):
                with pytest.raises(aiohttp.WSServerHandshakeError) as error:
                    async with client(server):
                        pass
                assert error.value.status == 503

    with Serving(tmp_path / "data", settings={"admin.max_calls": 20, "admin.max_sessions": 2}) as server:
        asyncio.run(run())
        with server.connect() as qm:  # the library keeps within the bound by itself
            names = [r".\private$\q"] * 500

            async def many() -> list[lior.ObjectId]:
                return await asyncio.gather(*(qm.aio.send(name, b"x") for name in names))

            assert len(set(qm._runner.call(many))) == 500


def test_a_client_that_does_not_read_its_answers_is_not_read_either(tmp_path: Path) -> None:
    """Its calls wait in its own socket; the others are served."""

    async def run() -> None:
        async with client(server) as c:
            await c.call("create_queue", path=r".\private$\q")
            await c.call("send_to", queue=r".\private$\q", messages=[{"body": {"text": "x" * 100_000}}])
            browse = {"call": "browse", "args": {"queue": r".\private$\q"}}

            async def flood() -> None:
                for number in range(100_000):
                    await c.send({"id": number, **browse})

            flooding = asyncio.ensure_future(flood())
            before = -1
            while before != c.last:  # until nothing is taken any more
                before = c.last
                await asyncio.wait([flooding], timeout=0.5)
            assert not flooding.done()
            async with client(server) as other:
                assert (await other.call("properties"))["state"] == "ready"
            flooding.cancel()
        memory = Path(f"/proc/{server.pid}/status").read_text().partition("VmRSS:")[2].split()[0]
        assert int(memory) < 400_000

    with Serving(tmp_path / "data", settings={"admin.max_calls": 50}) as server:
        asyncio.run(run())


CLIENT = """
import sys, lior
qm = lior.connect(sys.argv[1])
tx = qm.transaction().begin()
tx.receive(r".\\private$\\stream", 0)
held = qm.open_queue(r".\\private$\\plain").hold(0)
held.__enter__()
print("holding", flush=True)
qm.receive(r".\\private$\\nothing")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_client_held_is_free_when_it_is_killed_or_hangs(how: signal.Signals, tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"admin.idle_timeout": 4.0}) as server, server.connect() as qm:
        qm.create_queue(r".\private$\stream", transactional=True)
        qm.create_queue(r".\private$\plain")
        qm.create_queue(r".\private$\nothing")
        for queue in ("stream", "plain"):
            qm.send(rf".\private$\{queue}", queue)
        command = [sys.executable, "-c", CLIENT, str(server.data)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(SOURCE)}) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"holding\n"
            for queue in ("stream", "plain"):
                with pytest.raises(Timeout):
                    qm.receive(rf".\private$\{queue}", 0)
            os.kill(child.pid, how)
            assert qm.receive(r".\private$\plain", 60).value() == "plain"
            assert qm.receive(r".\private$\stream", 60).value() == "stream"
            eventually(lambda: not qm.properties()["waiting_reads"], "a dead client waits")
            child.kill()


# The library over sessions


def test_a_cancelled_receive_takes_nothing_or_returns_what_it_took(server: Serving) -> None:
    path = r".\private$\cancelled"

    async def run() -> tuple[list[str], list[str]]:
        sent, got = [], []
        async with lior.aio.connect(server.data) as qm:
            await qm.create_queue(path)
            async with await qm.open_queue(path) as q:

                async def reader() -> None:
                    with suppress(asyncio.CancelledError):
                        got.append((await q.receive(60)).label)

                for number in range(100):
                    task = asyncio.ensure_future(reader())
                    sending = asyncio.ensure_future(qm.send(path, b"", label=str(number)))
                    for _ in range(number % 10):
                        await asyncio.sleep(0)
                    task.cancel()
                    await sending
                    sent.append(str(number))
                    with suppress(asyncio.CancelledError):  # before it began
                        await task
                while True:
                    try:
                        got.append((await q.receive(0)).label)
                    except Timeout:
                        return sent, got

    sent, got = asyncio.run(run())
    assert sorted(got) == sorted(sent)


def test_wait_for_over_a_receive_loses_no_message(server: Serving) -> None:
    path = r".\private$\wait-for"

    async def run() -> list[str]:
        got: list[str] = []
        async with lior.aio.connect(server.data) as qm:
            await qm.create_queue(path)
            async with await qm.open_queue(path) as q:
                for number in range(40):
                    sending = asyncio.get_running_loop().create_task(qm.send(path, b"", label=str(number)))
                    with suppress(TimeoutError):
                        got.append((await asyncio.wait_for(q.receive(None), number / 10_000)).label)
                    await sending
                while (await q.info()).messages:
                    got.append((await q.receive(0)).label)
        return got

    assert sorted(asyncio.run(run()), key=int) == [str(number) for number in range(40)]


def test_a_held_message_is_nobody_elses_until_it_is_given_back(server: Serving) -> None:
    path = r".\private$\hold"
    with server.connect() as qm:
        qm.create_queue(path)
        with qm.open_queue(path) as q:
            hold_and_give_back(qm, q, path)


def hold_and_give_back(qm: lior.QueueManager, q: lior.Queue, path: str) -> None:
    qm.send(path, "1")
    with pytest.raises(RuntimeError, match="no"), q.hold(0) as message:
        assert message.value() == "1"
        with pytest.raises(Timeout):
            q.receive(0)
        raise RuntimeError("no")
    with q.hold(0) as message:
        assert message.value() == "1"
    with pytest.raises(Timeout):
        q.receive(0)
    qm.send(path, "2")
    [lookup] = [message.lookup_identifier for message in q]
    with q.hold(lookup_id=lookup) as message:
        assert message.value() == "2"
    assert q.info().messages == 0


def test_an_open_that_nobody_waits_for_any_more_leaves_no_handle(server: Serving) -> None:
    path = r".\private$\forgotten"

    async def run() -> None:
        async with lior.aio.connect(server.data) as qm:
            await qm.create_queue(path)
            before = (await qm.properties())["open_handles"]
            for _ in range(20):
                task = asyncio.ensure_future(qm.open_queue(path))
                await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            while (await qm.properties())["open_handles"] != before:
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_token_opens_the_server_over_tcp_and_a_wrong_one_does_not(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = f"{server.bind}:15801"
    with lior.connect(server.bind, token=server.token) as qm:
        assert qm.properties()["state"] == "ready"
    monkeypatch.setenv("LIOR_TOKEN_FILE", str(server.data / "admin.token"))
    with lior.connect(host) as qm:
        assert qm.properties()["state"] == "ready"
    monkeypatch.setenv("LIOR_TOKEN", "wrong")
    for target in (host, f"http://{host}", f"http://{host}/"):
        with pytest.raises(LiorError, match="needs its token"):
            lior.connect(target)


def test_closing_while_calls_are_under_way_answers_them(server: Serving) -> None:
    path = r".\private$\closing"
    qm = server.connect()
    qm.create_queue(path)
    failures: list[LiorError] = []

    def wait() -> None:
        try:
            qm.receive(path)
        except LiorError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: qm.properties()["waiting_reads"], "it does not wait")
    qm.close()
    thread.join(60)
    assert len(failures) == 1
    assert not isinstance(failures[0], OperationCancelled) or failures[0].what
