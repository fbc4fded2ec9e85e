"""Sends of one turn of the loop: one change for all of them, an answer for each, and everything in its order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lior.client.aio import Queue
from lior.client.message import build
from lior.errors import LiorError, Timeout
from lior.message import Message, ObjectId
from lior.queues.many import MOST
from lior.queues.ports import PutMessage
from lior.queues.send_batches import Sent
from lior.server.gathering import MOST_AT_ONCE
from tests.server.engines import LONG, QUEUE, Running, looped, no_room, running, turns

EXACT = r".\private$\exact"
ELSEWHERE = r"DIRECT=OS:elsewhere\private$\q"


def begun(host: Running, queue: Queue, count: int) -> list[asyncio.Future[ObjectId]]:
    """Sends of which nobody waits for the answer yet."""
    messages = [build(b"%d" % number, None, {}) for number in range(count)]
    return [asyncio.ensure_future(host.qm.backend.send(queue.handle, message, None)) for message in messages]


async def bodies(host: Running, name: str = QUEUE) -> list[bytes]:
    async with await host.qm.open_queue(name) as queue:
        found = []
        while True:
            try:
                found.append((await queue.receive(timeout=0)).body)
            except Timeout:
                return found


async def sends(host: Running, *calls: tuple[str, dict[str, Any]]) -> list[ObjectId | BaseException]:
    """All in one turn."""
    for name, _ in calls:
        await host.qm._open_to_send(name)
    tasks = [host.qm.send(name, b"%d" % number, **options) for number, (name, options) in enumerate(calls)]
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("options", [{}, {"transactional": True}])
@looped
async def test_what_many_programs_send_in_one_turn_is_one_change(tmp_path: Path, options: dict[str, Any]) -> None:
    async with running(tmp_path) as host:
        await host.qm.create_queue(EXACT, transactional=True)
        name = EXACT if options else QUEUE
        await host.qm.send(name, b"first", **options)
        host.store.committed.clear()
        answers = await sends(host, *[(name, options)] * 40)
        assert len({str(answer) for answer in answers}) == 40
        assert [sum(isinstance(o, PutMessage) for o in batch) for batch in host.store.committed] == [40]
        assert await bodies(host, name) == [b"first", *[b"%d" % n for n in range(40)]]


@looped
async def test_programs_with_handles_of_their_own_share_a_change(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        queues = [await host.qm.open_queue(QUEUE, "send") for _ in range(10)]
        host.store.hold()
        tasks = [asyncio.ensure_future(queue.send(b"%d" % number)) for number, queue in enumerate(queues)]
        await turns(1)
        assert host.engine.gathering
        host.engine.gathering.stage()
        (change,) = host.core.pending
        assert isinstance(change, Sent) and change.count == 10
        host.store.let_go()
        await asyncio.gather(*tasks)


@looped
async def test_order_is_that_of_the_calls_whatever_kinds_they_are(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        kinds: list[dict[str, Any]] = [
            {}, {"express": True}, {}, {}, {"express": True}, {"express": True}, {"journal": True}, {},
        ]  # fmt: skip
        answers = await sends(host, *[(QUEUE, kind) for kind in kinds * 8])
        assert not [answer for answer in answers if isinstance(answer, BaseException)]
        assert await bodies(host) == [b"%d" % n for n in range(64)]


@looped
async def test_who_reads_in_the_same_turn_comes_after_what_was_sent(tmp_path: Path) -> None:
    async with (
        running(tmp_path) as host, await host.qm.open_queue(QUEUE, "send") as there,
        await host.qm.open_queue(QUEUE) as queue,
    ):  # fmt: skip
        await there.send(b"opened")
        await queue.receive(timeout=LONG)
        sent = [asyncio.ensure_future(there.send(b"%d" % n, express=True)) for n in range(MOST_AT_ONCE + 5)]
        read = [asyncio.ensure_future(queue.receive(timeout=0)) for _ in sent]
        await asyncio.gather(*sent)
        assert [message.body for message in await asyncio.gather(*read)] == [b"%d" % n for n in range(MOST_AT_ONCE + 5)]


@looped
async def test_one_that_is_refused_takes_no_other_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        kinds: list[dict[str, Any]] = [{}, {"label": "x" * 300}, {"transactional": True}, {}]
        answers = await sends(host, *[(QUEUE, kind) for kind in kinds])
        assert [isinstance(answer, LiorError) for answer in answers] == [False, True, True, False]
        assert await bodies(host) == [b"0", b"3"]


@looped
async def test_a_message_that_is_none_is_its_callers_trouble_and_nobody_elses(tmp_path: Path) -> None:
    async with running(tmp_path) as host, await host.qm.open_queue(QUEUE, "send") as queue:
        await queue.send(b"first")
        wrong: Any = Message(b"x", delivery_guarantee=1, priority="high")  # type: ignore[arg-type]
        futures = begun(host, queue, 3)
        futures.append(asyncio.ensure_future(host.qm.backend.send(queue.handle, wrong, None)))
        *sent, refused = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(refused, TypeError) and all(isinstance(answer, ObjectId) for answer in sent)
        assert await bodies(host) == [b"first", b"0", b"1", b"2"]


@looped
async def test_one_that_cannot_be_stored_takes_no_other_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as host:
        await host.qm.send(ELSEWHERE, b"first", transactional=True)
        host.store.fails = lambda operations: no_room() if any(
            isinstance(o, PutMessage) and o.message.body == b"2" for o in operations) else None
        answers = await sends(host, *[(ELSEWHERE, {"transactional": True})] * 5)
        assert [isinstance(answer, LiorError) for answer in answers] == [False, False, True, False, False]
        (queue,) = host.core.outgoing.values()
        assert queue.message_count == 5 and queue.stream is not None and queue.stream.staged == 0


@looped
async def test_who_went_away_before_the_turn_ended_sends_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as host, await host.qm.open_queue(QUEUE, "send") as queue:
        await queue.send(b"first")
        futures = begun(host, queue, 4)
        futures[1].cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        assert await bodies(host) == [b"first", b"0", b"2", b"3"]


@looped
async def test_who_sends_without_end_in_one_turn_is_counted_as_he_goes(tmp_path: Path) -> None:
    async with running(tmp_path) as host, await host.qm.open_queue(QUEUE, "send") as queue:
        await queue.send(b"first")
        host.store.hold()
        futures = begun(host, queue, 3 * MOST + 1)
        assert host.core.pending_count == 3 * MOST and host.engine.gathering
        host.store.let_go()
        await asyncio.gather(*futures)


@looped
async def test_what_was_sent_just_before_the_end_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as host, await host.qm.open_queue(QUEUE, "send") as queue:
        await queue.send(b"first")
        futures = begun(host, queue, 3)
        await host.engine.close()
        assert all(future.done() and future.exception() is None for future in futures)
    async with running(tmp_path) as host:
        assert await bodies(host) == [b"first", b"0", b"1", b"2"]


@looped
async def test_one_program_that_sends_express_messages_lets_the_loop_go_on(tmp_path: Path) -> None:
    async with running(tmp_path) as host, await host.qm.open_queue(QUEUE, "send") as queue:
        await queue.send(b"first", express=True)
        turned = 0

        async def count() -> None:
            nonlocal turned
            while True:
                turned += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        for _ in range(10 * MOST_AT_ONCE):
            await queue.send(b"x", express=True)
        counting.cancel()
        assert turned >= 9
        assert len(await bodies(host)) == 10 * MOST_AT_ONCE + 1
