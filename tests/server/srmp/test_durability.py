"""Nothing is answered, sent or acknowledged before it is on disk ([MC-MQSRM] 2.2.5.2.1); faults at each step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lior.queues.ports import PutMessage
from lior.server.replies import FutureReply
from lior.server.srmp.hub import Srmp
from lior.server.srmp.incoming import Request
from lior.server.srmp.settings import SrmpSettings
from lior.server.transfer_security.place import SecurityFiles
from lior.testing.serving import loopback_address
from tests.server.engines import LONG, Running, looped, no_room, once, running
from tests.server.srmp.desk import Built, Stub, services, stream, url

HOST = "localhost"
STREAM = r".\private$\stream"


@asynccontextmanager
async def soap(directory: Path) -> AsyncIterator[tuple[Running, Srmp]]:
    async with running(directory) as found:
        if not await found.qm.exists(STREAM):
            await found.qm.create_queue(STREAM, transactional=True)
        settings = SrmpSettings(addresses=(loopback_address(),), http_port=0, receipt_delay=0.01, send_timeout=5.0,
                                retransmission_timeout=0.05)  # fmt: skip
        hub = Srmp(found.engine, settings, SecurityFiles(None))
        await hub.start()
        try:
            yield found, hub
        finally:
            await hub.stop()


def take(hub: Srmp, built: Built) -> int | asyncio.Future[int]:
    kind, data = built.entity()
    answer = hub.engine.future()
    request = Request(b"POST /msmq/x HTTP/1.1\r\n\r\n", kind, data, "192.0.2.1")
    return hub.incoming.take(request, FutureReply(answer)) or answer


async def until(stub: Stub, count: int) -> None:
    await asyncio.to_thread(stub.wait, count)


@pytest.mark.spec("SR-062", "SR-010", "SR-156", "SR-122", "SR-134")
@pytest.mark.parametrize("kind", ["durable", "stream"])
@looped
async def test_neither_the_answer_nor_a_receipt_leaves_before_the_message_is_on_disk(tmp_path: Path, kind: str) -> None:
    with Stub() as sender:
        async with soap(tmp_path) as (server, hub):
            to, asked = url(sender.address, "r"), services(delivery=url(sender.address, "r"))
            entries = asked if kind == "durable" else asked + stream(5, 1, to)
            queue = "work" if kind == "durable" else "stream"
            server.store.hold()
            answer = take(hub, Built(url(HOST, queue), entries=entries))
            assert isinstance(answer, asyncio.Future)
            await server.store.reached()
            await asyncio.sleep(0.1)  # longer than a receipt waits
            assert not answer.done()
            assert sender.seen == []
            assert await server.count(rf".\private$\{queue}") == 0
            server.store.let_go()
            assert await asyncio.wait_for(answer, LONG) == 200
            await until(sender, 1 if kind == "durable" else 2)
            assert await server.count(rf".\private$\{queue}") == 1


@pytest.mark.spec("SR-062", "SR-183")
@looped
async def test_a_durable_message_is_on_disk_before_it_is_posted(tmp_path: Path) -> None:
    with Stub() as receiver:
        async with soap(tmp_path) as (server, _):
            name = f"DIRECT={url(receiver.address, 'q')}"
            async with await server.qm.open_queue(name, "send") as queue:
                server.store.hold()
                sending = asyncio.create_task(queue.send(b"x"))
                await server.store.reached()
                await asyncio.sleep(0.1)
                assert receiver.seen == []
                server.store.let_go()
                await asyncio.wait_for(sending, LONG)
                await until(receiver, 1)
            stored = [operation for batch in server.store.committed for operation in batch]
            assert any(isinstance(operation, PutMessage) for operation in stored)


@pytest.mark.spec("SR-112", "SR-172", "SR-134", "SR-010")
@pytest.mark.parametrize("kind", ["durable", "stream"])
@looped
async def test_a_commit_that_fails_leaves_nothing_behind_and_the_message_may_come_again(
    tmp_path: Path, kind: str
) -> None:
    with Stub() as sender:
        async with soap(tmp_path) as (server, hub):
            entries = services(delivery=url(sender.address, "r"))
            queue = "work"
            if kind == "stream":
                entries, queue = entries + stream(5, 1, url(sender.address, "s")), "stream"
            built = Built(url(HOST, queue), entries=entries, identifier="uuid:9@0f52b9d4-3a1c-4a6e-9d3c-0a4a5b6c7d8e")
            server.store.fails = once(no_room())
            answer = take(hub, built)
            assert isinstance(answer, asyncio.Future)
            with pytest.raises(Exception, match="disk is full"):  # which the listener answers with 500
                await asyncio.wait_for(answer, LONG)
            assert await server.count(rf".\private$\{queue}") == 0
            assert sender.seen == []
            again = take(hub, built)
            assert isinstance(again, asyncio.Future)
            assert await asyncio.wait_for(again, LONG) == 200
            assert await server.count(rf".\private$\{queue}") == 1
            await until(sender, 1)


@pytest.mark.spec("SR-200", "SR-172")
@pytest.mark.parametrize("fails", [False, True])
@looped
async def test_a_second_copy_while_the_first_is_written_is_answered_as_that_one_fares(
    tmp_path: Path, fails: bool
) -> None:
    async with soap(tmp_path) as (server, hub):
        built = Built(url(HOST, "work"), entries=services(), identifier="uuid:9@0f52b9d4-3a1c-4a6e-9d3c-0a4a5b6c7d8e")
        server.store.hold()
        first = take(hub, built)
        await server.store.reached()
        if fails:
            server.store.fails = lambda operations: no_room()
        second = take(hub, built)
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)
        await asyncio.sleep(0)
        assert not second.done()
        server.store.let_go()
        if fails:
            with pytest.raises(Exception, match="disk is full"):
                await asyncio.wait_for(first, LONG)
            assert await asyncio.wait_for(second, LONG) == 500
        else:
            assert await asyncio.wait_for(first, LONG) == 200
            assert await asyncio.wait_for(second, LONG) == 200
        assert await server.count() == (0 if fails else 1)


@pytest.mark.spec("SR-185", "SR-184", "SR-119")
@looped
async def test_a_first_message_that_is_late_leaves_with_those_behind_it(tmp_path: Path) -> None:
    """Its receiver drops it and takes the others; alone it expires here."""
    with Stub(last=503) as receiver:
        async with soap(tmp_path) as (server, _):
            name = f"DIRECT={url(receiver.address, 'q')}"
            async with server.qm.transaction() as transaction:
                for number in range(3):
                    reach = 1 if number == 0 else 1000
                    await transaction.send(name, b"%d" % number, time_to_reach_queue=reach)
            other = f"DIRECT={url(receiver.address, 'alone')}"
            await server.qm.send(other, b"alone", transactional=True, time_to_reach_queue=1)
            dead = r".\system$;DEADXACT"
            end = asyncio.get_running_loop().time() + LONG
            while not (await server.qm.queue(dead)).messages:
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.05)
            receiver._last = 200
            count = len(receiver.seen)
            await until(receiver, count + 3)

            def bodies() -> list[bytes]:
                return [seen.parts()[1] for seen in receiver.seen[count:] if "alone" not in seen.line]

            while bodies()[-1:] != [b"2"]:
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.05)
            assert bodies()[:3] == [b"0", b"1", b"2"] or bodies()[1:4] == [b"0", b"1", b"2"]
            async with await server.qm.open_queue(dead) as queue:
                assert (await queue.receive(timeout=60)).body == b"alone"
            assert (await server.qm.queue(dead)).messages == 0


