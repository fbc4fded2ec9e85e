"""The figures of a running queue manager are true, and cost it nothing when something is damaged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from uuid import UUID

import pytest

from lior.errors import StoreUnusable
from lior.server import figures
from lior.testing.clock import FakeClock
from tests.server.engines import QUEUE, looped, running


@looped
async def test_a_queue_shows_what_is_in_it_and_in_its_journal(tmp_path: Path) -> None:
    clock = FakeClock(wall=1000.0)
    async with running(tmp_path, clock) as run:
        await run.qm.set_queue(QUEUE, journal=True)
        for n in range(3):
            clock.set_wall(1000.0 + n)
            await run.qm.send(QUEUE, b"%d" % n)
        async with await run.qm.open_queue(QUEUE) as q:
            await q.receive(0)
            info = await run.qm.queue(QUEUE)
            assert (info.messages, info.journal_messages, info.readers) == (2, 1, 1)
            assert info.bytes == 2 * info.journal_bytes
            assert info.oldest == 1001.0
        info = await run.qm.queue(QUEUE)
        assert (info.name, info.kind, info.transactional, info.state) == (r"private$\work", "private", False, "")
        assert info.path == r"host\private$\work"
        assert info.format_name == r"DIRECT=OS:host\private$\work"
        assert "security" not in info.properties


@looped
async def test_the_oldest_message_is_found_behind_a_younger_one_of_higher_priority(tmp_path: Path) -> None:
    clock = FakeClock(wall=1000.0)
    async with running(tmp_path, clock) as run:
        assert (await run.qm.queue(QUEUE)).oldest is None
        await run.qm.send(QUEUE, b"old", priority=0)
        clock.set_wall(2000.0)
        await run.qm.send(QUEUE, b"young", priority=7)
        assert (await run.qm.queue(QUEUE)).oldest == 1000.0
        async with await run.qm.open_queue(QUEUE) as q, run.qm.transaction():
            await q.receive(0)
        assert (await run.qm.queue(QUEUE)).oldest == 1000.0


@looped
async def test_a_damaged_message_does_not_hide_the_figures(tmp_path: Path) -> None:
    clock = FakeClock(wall=1000.0)
    async with running(tmp_path, clock, cache_bytes=0) as run:
        await run.qm.send(QUEUE, b"damaged", priority=7)
        clock.set_wall(2000.0)
        await run.qm.send(QUEUE, b"sound", priority=0)
        other = sqlite3.connect(run.store.path)
        other.execute("UPDATE m SET body=x'ff' WHERE body=CAST('damaged' AS BLOB)")
        other.commit()
        other.close()
        info = await run.qm.queue(QUEUE)
        assert (info.messages, info.oldest) == (2, 2000.0)


@looped
async def test_figures_are_shown_when_the_store_stopped(tmp_path: Path) -> None:
    async with running(tmp_path, cache_bytes=0) as run:
        await run.qm.send(QUEUE, b"x")
        run.store.fails = lambda operations: StoreUnusable("gone")
        with pytest.raises(StoreUnusable):
            await run.qm.send(QUEUE, b"y")
        run.store._failed = StoreUnusable("gone")
        info = await run.qm.queue(QUEUE)
        assert (info.messages, info.oldest) == (1, None)
        assert [queue.name for queue in await run.qm.queues()]
        run.store._failed = None  # so that the store closes as usual


@looped
async def test_system_queues_have_a_name_by_which_they_open_and_journals_are_not_listed(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await run.qm.send(r"DIRECT=OS:elsewhere.example\private$\far", b"x")
        listed = {queue.kind: queue for queue in await run.qm.queues()}
        assert set(listed) == {"private", "system", "outgoing"}
        identifier = str(run.core.properties.identifier).upper()
        assert listed["system"].format_name.upper().startswith(f"MACHINE={identifier};")
        assert listed["outgoing"].format_name == r"DIRECT=OS:elsewhere.example\private$\far"
        for queue in await run.qm.queues():
            access = "peek-admin" if queue.kind == "outgoing" else "peek"
            async with await run.qm.open_queue(queue.format_name, access):
                pass


@looped
async def test_the_queue_manager_counts_its_handles_reads_and_transactions(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        before = await run.qm.properties()
        reading = q._backend.receive(q.handle, 60_000)
        async with run.qm.transaction():
            now = await run.qm.properties()
            assert now["transactions"] == before["transactions"] + 1
            assert now["waiting_reads"] == before["waiting_reads"] + 1
            (transaction,) = await run.qm.transactions()
            assert (transaction["state"], transaction["operations"], transaction["internal"]) == ("active", 0, True)
        assert now["open_handles"] >= 1
        assert now["throttled"] == "" and now["state"] == "ready"
        assert "security" not in now and json.dumps(now)
        await run.qm.send(QUEUE, b"x")
        await reading


def test_the_identifier_is_read_from_what_the_store_keeps() -> None:
    identifier = UUID(int=5)
    assert figures.identifier_of(json.dumps({"identifier": str(identifier)}).encode()) == identifier
