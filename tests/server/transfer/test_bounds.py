"""What one peer can cost, and what a failed commit may not cost: [MS-MQQB] 5.1 and docs/spec-notes.md, QB-214."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lior.errors import BadConfiguration
from lior.protocols.binary.settings import SessionSettings
from lior.queues.ports import PutMessage
from lior.server.transfer import Transfer, TransferSettings, connection, hub
from lior.server.transfer.link import MOST_DIALING, MOST_WRITTEN
from tests.interop.second_packets import direct
from tests.interop.second_peer import Gone, Identity, Session
from tests.server.engines import LONG, Running, looped, no_room, running
from tests.server.transfer.fleet import QUEUE, fleet, free_port, fresh_address, start_host, until

WORK = direct(r"TCP:127.0.0.1\private$\work")
PLAIN = {"encryption": 0x6610}  # the algorithm that queue managers name by default: such packets come in batches


class Served(Running):
    """An engine whose commits can fail, with the network."""

    transfer: Transfer
    port: int

    def peer(self) -> Identity:
        return Identity(fresh_address(), os.urandom(16))

    @property
    def connection(self) -> connection.Connection:
        (only,) = self.transfer.connections
        return only


@asynccontextmanager
async def served(directory: Path, **options: Any) -> AsyncIterator[Served]:
    async with running(directory) as found:
        port = free_port()
        settings = TransferSettings(port=port, peer_port=port, session=SessionSettings(**options))
        transfer = Transfer(found.engine, settings)
        await transfer.start()
        host = Served(found.engine, found.store)
        host.transfer, host.port = transfer, port
        try:
            yield host
        finally:
            await asyncio.wait_for(transfer.stop(), LONG)


@pytest.mark.spec("QB-154", "QB-175")
@looped
async def test_an_express_message_beside_one_that_could_not_be_stored_comes_again_with_it(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        peer = host.peer()
        messages = [peer.message(WORK, b"durable %d" % number, delivery=1, **PLAIN) for number in range(3)]
        messages += [peer.message(WORK, b"express %d" % number, **PLAIN) for number in range(3)]

        def deliver() -> bool:
            """In one chunk; whether the session outlasts it."""
            with peer.open("127.0.0.1", port=host.port) as session:
                session.sent, session.recoverable_sent = 6, 3
                session.write(b"".join(message.encode() for message in messages))
                try:
                    session.until_persisted()
                except Gone:
                    return False
            return True

        def before() -> None:
            """The first message shows that anybody may write here; those after it come in batches."""
            with peer.open("127.0.0.1", port=host.port) as session:
                session.recoverable(WORK, b"before")
                session.until_persisted()

        await asyncio.to_thread(before)
        await host.qm.receive(r".\private$\work", LONG)
        full = [True]
        host.store.fails = lambda operations: no_room() if full and any(
            isinstance(operation, PutMessage) for operation in operations) else None
        assert not await asyncio.to_thread(deliver)
        assert await host.count() == 0
        full.clear()
        assert await asyncio.to_thread(deliver)
        async with await host.qm.open_queue(r".\private$\work") as queue:
            found = {(await queue.receive(timeout=LONG)).body for _ in messages}
        assert found == {message.body for message in messages}
        assert await asyncio.to_thread(deliver)  # now both are known
        assert await host.count() == 0


@pytest.mark.spec("QB-153")
@looped
async def test_an_express_message_that_comes_again_behind_others_in_one_chunk_is_known(tmp_path: Path) -> None:
    """Not yet in the history of identifiers, and not in the batch of the copy either."""
    async with served(tmp_path) as host:
        peer = host.peer()
        express = peer.message(WORK, b"express", **PLAIN)
        durable = peer.message(WORK, b"durable", delivery=1, **PLAIN)

        def deliver() -> None:
            with peer.open("127.0.0.1", port=host.port) as session:
                session.recoverable(WORK, b"before")  # shows that anybody may write here: what follows is a batch
                session.until_persisted()
                session.sent, session.recoverable_sent = 4, 2
                session.write(b"".join(message.encode() for message in (express, durable, express)))
                session.until_persisted()

        await asyncio.to_thread(deliver)
        assert (await host.count(), host.transfer.incoming.duplicates) == (3, 1)


@looped
async def test_a_flood_of_refused_messages_fills_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "lior.transfer")
    async with served(tmp_path) as host:
        nowhere = direct(r"TCP:127.0.0.1\private$\none")
        peer = host.peer()

        def flood() -> None:
            with peer.open("127.0.0.1", port=host.port) as session:
                for _ in range(30):
                    for _ in range(32):
                        session.recoverable(nowhere, b"x")
                    session.until_persisted()

        await asyncio.to_thread(flood)
        assert sum(host.transfer.incoming.refused.values()) == 960
    lines = [record for record in caplog.records if record.getMessage().startswith("message refused")]
    told = sum(record.__dict__["fields"]["lines"] for record in lines if "left out" in record.getMessage())
    single = [record for record in lines if "left out" not in record.getMessage()]
    assert len(single) + told == 960
    assert len(lines) < 200, "a handful in each interval"


@looped
async def test_a_window_of_large_messages_is_not_joined_into_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write = connection.Connection.write

    def watched(self: connection.Connection, data: list[bytes]) -> None:
        written.append(sum(map(len, data)))
        write(self, data)

    monkeypatch.setattr(connection.Connection, "write", watched)
    async with fleet(2) as (here, there):
        async with await here.qm.open_queue(there.name(QUEUE), "send") as queue:
            await queue.send(b"first", express=True)  # then the outgoing queue is there
            await here.qm.pause(there.name(QUEUE))
            for number in range(40):
                await queue.send(b"%d" % number + bytes(300_000), express=True)
            await here.qm.resume(there.name(QUEUE))
        async with await there.qm.open_queue(QUEUE) as queue:
            assert (await queue.receive(timeout=LONG)).body == b"first"
            for number in range(40):
                assert (await queue.receive(timeout=LONG)).body == b"%d" % number + bytes(300_000)
    assert max(written) < MOST_WRITTEN + 2 * 300_100


@pytest.mark.spec("QB-214")
@looped
async def test_what_waits_for_a_peer_that_does_not_read_is_bounded(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        session = await asyncio.to_thread(host.peer().open, "127.0.0.1", port=host.port)
        unread = host.connection
        with session:
            written, acknowledgements = 0, bytes(36 * 1000)
            while not unread.why_closed and written < 4 * connection.MOST_UNREAD:
                unread.write([acknowledgements])
                written += len(acknowledgements)
                await asyncio.sleep(0)
        assert unread.why_closed == "the peer does not read"
        assert not host.transfer.connections


@pytest.mark.spec("QB-214", "QB-128")
@looped
async def test_packets_that_never_end_have_a_bound_together_and_the_slowest_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MOST_UNFINISHED", 5_000_000)
    async with served(tmp_path) as host:

        def begin() -> Session:
            session = host.peer().open("127.0.0.1", port=host.port)
            session.write(session.identity.message(WORK, bytes(1_000_000), delivery=1).encode()[:-100])
            return session

        def finish(session: Session) -> None:
            session.sent = session.recoverable_sent = 1
            session.write(bytes(100))
            session.until_persisted()

        sessions = []
        for count in range(1, 5):
            sessions.append(await asyncio.to_thread(begin))
            await until(lambda: host.transfer.unfinished >= count * 999_000, "the begun packet")  # noqa: B023
        await asyncio.to_thread(finish, sessions[2])
        await until(lambda: host.transfer.unfinished < 3_100_000, "the end of one packet")
        for _ in range(3):
            sessions.append(await asyncio.to_thread(begin))
        assert await asyncio.to_thread(sessions[0].until_closed) == []  # it was the first, and never finished
        assert host.transfer.unfinished <= 5_000_000
        await asyncio.to_thread(finish, sessions[-1])
        assert await host.count() == 2
        for session in sessions:
            session.close()
        await until(lambda: host.transfer.unfinished == 0, "nothing left of them")


@pytest.mark.spec("QB-214")
@looped
async def test_order_acknowledgements_that_nobody_lets_through_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path, order_ack=0.01) as host:
        peer = host.peer()

        def streams(count: int) -> None:
            with peer.open("127.0.0.1", port=host.port, window=1) as session:
                for number in range(count):
                    nowhere = direct(rf"TCP:127.0.0.1\private$\none{number}")
                    session.transactional(nowhere, b"x", next(peer.streams), 1)
                while host.transfer.order_acks.sent < count:
                    session.next()
                waiting.append(len(host.connection._control))

        waiting: list[int] = []
        await asyncio.to_thread(streams, connection.MOST_CONTROL + 300)
        assert 0 < waiting[0] <= connection.MOST_CONTROL


@pytest.mark.spec("QB-214", "QB-201")
@looped
async def test_places_that_were_never_reached_do_not_take_every_attempt_to_connect() -> None:
    async def stuck(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        await asyncio.Event().wait()
        return []

    async with fleet(1, retry=0.05) as (template,):
        here = await start_host(template.transfer.settings, fresh_address(), resolve=stuck)
        address = fresh_address()
        name = rf"DIRECT=TCP:{address}\private$\orders"
        there = await start_host(template.transfer.settings, address)
        await there.qm.create_queue(QUEUE)
        await here.qm.send(name, b"reached before")
        await until(lambda: here.waiting() == 0, "acknowledgement")
        await there.stop()
        for number in range(MOST_DIALING + 50):
            await here.qm.send(rf"DIRECT=OS:nowhere{number}\private$\orders", b"x")
        await until(lambda: here.transfer.dialing >= MOST_DIALING, "attempts under way")
        again = await start_host(template.transfer.settings, address)
        await again.qm.create_queue(QUEUE)
        try:
            assert here.transfer.dialing == MOST_DIALING
            await here.qm.send(name, b"again")
            async with await again.qm.open_queue(QUEUE) as queue:
                assert (await queue.receive(timeout=LONG)).body == b"again"
            assert here.transfer.dialing <= MOST_DIALING + 1
        finally:
            await asyncio.wait_for(again.stop(), LONG)
            await asyncio.wait_for(here.stop(), LONG)


@pytest.mark.spec("QB-214", "QB-148")
@looped
async def test_a_destination_that_is_done_with_costs_nothing_for_good() -> None:
    """Not while it is paused, or something waits for it, or one of its messages has no final acknowledgement."""
    async with fleet(2, cleanup=1.0) as (here, there):
        outgoing = here.manager.core.outgoing

        async def send(name: str, body: bytes, *, transactional: bool = True, **properties: Any) -> None:
            async with await here.qm.open_queue(name, "send") as queue:
                await queue.send(body, transactional=transactional, **properties)

        for number in range(20):
            await there.qm.create_queue(rf".\private$\q{number}", transactional=True)
            await send(there.name(rf".\private$\q{number}"), b"first", dead_letter=number == 19)
        await send(there.name(QUEUE), b"x", transactional=False)
        await until(lambda: here.waiting() == 0, "acknowledgements")
        await here.qm.pause(there.name(QUEUE))
        await send(rf"DIRECT=TCP:{fresh_address()}\private$\q", b"waits")
        await until(lambda: len(outgoing) <= 3, "an end of the queues that are done with")
        assert {queue.destination.queue for queue in outgoing.values()} == {"q19", "orders", "q"}
        async with await there.qm.open_queue(r".\private$\q19") as queue:
            await queue.receive(timeout=LONG)
        await here.qm.resume(there.name(QUEUE))
        await until(lambda: len(outgoing) == 1, "an end of the others")
        assert len(here.transfer.links) == 1
        await send(there.name(r".\private$\q3"), b"second")  # in another stream
        async with await there.qm.open_queue(r".\private$\q3") as queue:
            assert [(await queue.receive(timeout=LONG)).body for _ in range(2)] == [b"first", b"second"]


@pytest.mark.parametrize("hop", ["host:", "host:x", "host:0", "host:65536", "[::1]:x", "host:+5"])
@looped
async def test_a_route_to_no_port_is_refused_at_the_start(hop: str) -> None:
    async with fleet(1) as (template,):
        settings = replace(template.transfer.settings, routes={"elsewhere": hop})
        with pytest.raises(BadConfiguration, match="no port"):
            Transfer(template.backend.engine, settings)
