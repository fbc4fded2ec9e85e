"""Nothing is answered, sent or acknowledged before it is on disk ([MC-MQSRM] 2.2.5.2.1); faults at each step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lior.queues.ports import PutMessage
from lior.server.properties import management_queue_values
from lior.server.replies import FutureReply
from lior.server.srmp.hub import Srmp
from lior.server.srmp.incoming import Request
from lior.server.srmp.settings import SrmpSettings
from lior.server.transfer_security.place import SecurityFiles
from lior.testing.serving import loopback_address
from lior.wire.sddl import parse_sddl
from tests.server.engines import LONG, Running, looped, no_room, once, running
from tests.server.srmp.desk import NS, OTHER_QM, Built, Stub, services, stream, url

HOST = "localhost"
STREAM = r".\private$\stream"


@asynccontextmanager
async def soap(directory: Path, **more: Any) -> AsyncIterator[tuple[Running, Srmp]]:
    async with running(directory) as found:
        if not await found.qm.exists(STREAM):
            await found.qm.create_queue(STREAM, transactional=True)
        more = {"receipt_delay": 0.01, "send_timeout": 5.0, "retransmission_timeout": 0.05} | more
        settings = SrmpSettings(addresses=(loopback_address(),), http_port=0, **more)
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


@pytest.mark.spec("SR-122")
@looped
async def test_a_receipt_goes_where_its_own_stream_wants_it_though_the_next_one_is_on_its_way_to_disk(
    tmp_path: Path
) -> None:
    with Stub() as old, Stub() as new:
        async with soap(tmp_path, receipt_delay=0.5) as (server, hub):
            first = take(hub, Built(url(HOST, "stream"), entries=stream(5, 1, url(old.address, "r"))))
            assert isinstance(first, asyncio.Future)
            assert await asyncio.wait_for(first, LONG) == 200
            server.store.hold()
            second = take(hub, Built(url(HOST, "stream"), entries=stream(6, 1, url(new.address, "r"))))
            assert isinstance(second, asyncio.Future)
            await server.store.reached()
            while not hub.stream_receipts.sent:  # that of the first one
                await asyncio.sleep(0)
            server.store.let_go()
            assert await asyncio.wait_for(second, LONG) == 200
            await until(old, 1)
            await until(new, 1)
            for stub, number in ((old, 5), (new, 6)):
                assert {seen.text(".//s:streamId") for seen in stub.seen} == {f"uid:{OTHER_QM}\\{number}"}


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


def sources(server: Running) -> list[tuple[Any, ...]]:
    """PROPID_MGMT_QUEUE_EOD_SOURCE_INFO, a row for each stream that came."""
    manager = server.engine.manager
    columns = management_queue_values(manager, manager.core.paths["private$\\stream"], [24])[24].value
    return list(zip(*(column.value for column in columns), strict=True))


@pytest.mark.spec("SR-161")
@looped
async def test_management_shows_where_a_stream_stands_and_how_often_it_was_rejected(tmp_path: Path) -> None:
    number, other = 0x7300000000000000, "0f52b9d4-3a1c-4a6e-9d3c-0a4a5b6c7d8f"
    async with soap(tmp_path) as (server, hub):

        async def come(current: int, stream_id: int = number, guid: str = OTHER_QM) -> None:
            where = url("192.0.2.7", "order_queue$") if current == 1 else ""
            built = Built(url(HOST, "stream"), guid=guid, entries=stream(stream_id, current, where, guid=guid))
            answer = take(hub, built)
            assert await asyncio.wait_for(answer, LONG) if isinstance(answer, asyncio.Future) else answer == 200

        assert sources(server) == []
        before = int(time.time())
        await come(1)
        [(name, sender, sequence, last, access, rejected)] = sources(server)
        assert (str(sender), sequence, last, rejected) == (OTHER_QM, number, 1, 0)
        assert before <= access <= time.time() and name.casefold().endswith("stream")
        for count, wrong in enumerate((5, 1, 7), start=1):  # too early, and again
            await come(wrong)
            assert sources(server)[0][3:] == (1, access, count)
        await come(2)
        assert sources(server)[0][2:4] == (number, 2) and sources(server)[0][5] == 0
        await come(1, number + 1, other)
        assert {(str(row[1]), row[2], row[3]) for row in sources(server)} == {(OTHER_QM, number, 2),
                                                                              (other, number + 1, 1)}


CLOSED = "D:(D;;0x24;;;WD)(D;;0x24;;;AN)"
REFUSALS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "no envelope": (400, "work", {"entries": "<unclosed>"}),
    "no queue": (400, "nowhere", {}),
    "another computer": (400, "http://192.0.2.9/msmq/private$/work", {}),
    "a stream for a plain queue": (400, "work", {"entries": stream(9, 1, url("192.0.2.7", "x"))}),
    "no known type": (200, "work", {"message_class": 0x4FFF}),
    "a signature that is none": (200, "work", {"entries": f"<Signature xmlns='{NS['d']}'></Signature>"}),
    "no right to write": (200, "closed", {}),
    "no room in the queue": (200, "small", {"body": bytes(5000)}),
    "came before": (200, "work", {"identifier": f"uuid:77@{OTHER_QM}"}),
    "out of its stream": (200, "stream", {"entries": stream(9, 4)}),
}


@pytest.mark.spec("SR-112")
@pytest.mark.parametrize("refusal", list(REFUSALS))
@looped
async def test_what_is_refused_at_any_step_has_its_answer_and_changes_no_queue(tmp_path: Path, refusal: str) -> None:
    """And nobody gets a receipt for its arrival."""
    status, to, fields = REFUSALS[refusal]
    with Stub() as sender:
        async with soap(tmp_path) as (server, hub):
            qm = server.qm
            await qm.create_queue(r".\private$\closed")
            await qm.set_security(r".\private$\closed", parse_sddl(CLOSED))
            await qm.create_queue(r".\private$\small", quota=1)
            first = take(hub, Built(url(HOST, "work"), entries=services(), identifier=f"uuid:77@{OTHER_QM}"))
            assert isinstance(first, asyncio.Future) and await asyncio.wait_for(first, LONG) == 200
            before = {info.name: info.messages for info in await qm.queues()}
            entries = services(delivery=url(sender.address, "r")) + fields.get("entries", "")
            built = Built(to if "://" in to else url(HOST, to), **{**fields, "entries": entries})
            answer = take(hub, built)
            assert (await asyncio.wait_for(answer, LONG) if isinstance(answer, asyncio.Future) else answer) == status
            after = {info.name: info.messages for info in await qm.queues() if info.kind != "outgoing"}
            assert after == {name: before[name] for name in after}
            # one that is taken afterwards has the only receipt
            entries = services(delivery=url(sender.address, "r"))
            taken = take(hub, Built(url(HOST, "work"), entries=entries, identifier=f"uuid:78@{OTHER_QM}"))
            assert isinstance(taken, asyncio.Future) and await asyncio.wait_for(taken, LONG) == 200
            await until(sender, 1)
            assert [seen.text(".//s:deliveryReceipt/s:id") for seen in sender.seen] == [f"uuid:78@{OTHER_QM}"]


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


@pytest.mark.spec("SR-213")
@looped
async def test_receipts_make_outgoing_queues_up_to_a_number(tmp_path: Path) -> None:
    """Whoever may send may name places for receipts, each another."""
    with Stub() as stub:
        async with soap(tmp_path, most_destinations=5) as (server, hub):
            for number in range(20):
                asked = services(delivery=url(stub.address, f"r{number}"))
                answer = take(hub, Built(url(HOST, "work"), entries=asked))
                assert isinstance(answer, asyncio.Future)
                assert await asyncio.wait_for(answer, LONG) == 200
            assert len(hub.manager.core.outgoing) == 5
            assert hub.receipts.suppressed == 15
            await until(stub, 5)
            here = services(delivery=url(HOST, "work"))  # one of our own queues needs none
            answer = take(hub, Built(url(HOST, "work"), entries=here))
            assert isinstance(answer, asyncio.Future)
            assert await asyncio.wait_for(answer, LONG) == 200
            assert hub.receipts.suppressed == 15
            assert await server.count() == 22
