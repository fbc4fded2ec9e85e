"""Many senders, many receivers: everything exactly once and in order; giving up a receive loses nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lior
from lior.errors import InvalidHandle, OperationCancelled, ServiceNotAvailable, Timeout
from lior.queues.manager import QueueManager
from lior.server.engine import Engine
from lior.server.local import LocalBackend
from lior.store.doctor import examine

SENDERS, RECEIVERS, EACH = 64, 16, 25
QUEUE = r".\private$\work"
END = b"end"


def check(taken: list[list[tuple[int, bytes]]], senders: int = SENDERS) -> None:
    """Exactly once, and what one receiver got of one sender at one priority is in the order of sending."""
    everything = sorted(body for mine in taken for _, body in mine)
    assert everything == sorted(b"%d %d" % (s, n) for s in range(senders) for n in range(EACH))
    for mine in taken:
        last: dict[tuple[int, int], int] = defaultdict(lambda: -1)
        for priority, body in mine:
            sender, number = map(int, body.split())
            assert number > last[sender, priority], (sender, priority, number)
            last[sender, priority] = number


@pytest.mark.parametrize("transactional", [False, True])
def test_64_senders_and_16_receivers_move_every_message_once_and_in_order(tmp_path: Path, transactional: bool) -> None:
    async def send(qm: lior.aio.QueueManager, sender: int) -> None:
        chance = Random(sender)
        for number in range(EACH):
            recoverable = chance.random() < 0.7
            await qm.send(QUEUE, b"%d %d" % (sender, number), priority=chance.randrange(8), recoverable=recoverable)

    async def receive(qm: lior.aio.QueueManager, taken: list[tuple[int, bytes]], receiver: int) -> None:
        async with await qm.open_queue(QUEUE) as q:
            while True:
                if transactional and receiver % 2:
                    async with qm.transaction() as tx:
                        message = await q.receive(30, transaction=tx)
                else:
                    message = await q.receive(120)
                if message.body == END:
                    return
                taken.append((message.priority, message.body))

    async def main() -> None:
        async with lior.aio.open(tmp_path / "data") as qm:
            await qm.create_queue(QUEUE, transactional=transactional)
            taken: list[list[tuple[int, bytes]]] = [[] for _ in range(RECEIVERS)]
            receivers = [asyncio.create_task(receive(qm, mine, n)) for n, mine in enumerate(taken)]
            await asyncio.gather(*(send(qm, sender) for sender in range(SENDERS)))
            for _ in receivers:
                await qm.send(QUEUE, END, priority=0)
            await asyncio.gather(*receivers)
            check(taken)
            assert (await qm.queue(QUEUE)).messages == 0

    asyncio.run(main())


def test_64_threads_send_and_16_threads_receive_on_the_sync_face(tmp_path: Path) -> None:
    taken: list[list[tuple[int, bytes]]] = [[] for _ in range(RECEIVERS)]
    with lior.open(tmp_path / "data") as qm:
        qm.create_queue(QUEUE)

        def send(sender: int) -> None:
            for number in range(EACH):
                qm.send(QUEUE, b"%d %d" % (sender, number), recoverable=number % 3 != 0)

        def receive(mine: list[tuple[int, bytes]]) -> None:
            with qm.open_queue(QUEUE) as q:
                while (message := q.receive(120)).body != END:
                    mine.append((message.priority, message.body))

        receivers = [threading.Thread(target=receive, args=(mine,)) for mine in taken]
        senders = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
        for thread in receivers + senders:
            thread.start()
        for thread in senders:
            thread.join()
        for _ in receivers:
            qm.send(QUEUE, END, priority=0)
        for thread in receivers:
            thread.join()
        check(taken)


def test_an_express_message_does_not_overtake_the_recoverable_one_sent_before_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with lior.aio.open(tmp_path / "data") as qm:
            await qm.create_queue(QUEUE)
            async with await qm.open_queue(QUEUE) as q:
                for _ in range(50):
                    waits = [asyncio.ensure_future(q.receive(60)) for _ in range(2)]
                    await asyncio.sleep(0)
                    first = asyncio.ensure_future(qm.send(QUEUE, b"1", recoverable=True))
                    for _ in range(2):
                        await asyncio.sleep(0)  # the first is with the writer now
                    second = asyncio.ensure_future(qm.send(QUEUE, b"2", express=True))
                    got = [message.body for message in await asyncio.gather(*waits)]
                    await asyncio.gather(first, second)
                    assert got == [b"1", b"2"]

    asyncio.run(main())


@pytest.mark.parametrize("recoverable", [True, False])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_receives_that_time_out_while_messages_arrive_lose_nothing(
    tmp_path: Path, seed: int, recoverable: bool, in_transaction: bool
) -> None:
    chance, count = Random(seed), 300

    async def send(qm: lior.aio.QueueManager) -> None:
        for number in range(count):
            await qm.send(QUEUE, b"%d" % number, recoverable=recoverable)
            await asyncio.sleep(chance.random() * 0.001)

    async def receive(qm: lior.aio.QueueManager, q: lior.aio.Queue, taken: list[int]) -> None:
        """Give up at every stage: while it waits, while the message is being taken, when it is on its way."""
        while len(taken) < count:
            try:
                if in_transaction:
                    async with qm.transaction() as tx:
                        taken.append(int((await limited(q.receive(transaction=tx))).body))
                else:
                    taken.append(int((await limited(q.receive())).body))
            except TimeoutError:
                continue

    async def limited(receiving: object) -> lior.ReceivedMessage:
        if chance.random() < 0.5:
            return await asyncio.wait_for(receiving, chance.random() * 0.002)  # type: ignore[arg-type]
        async with asyncio.timeout(chance.random() * 0.002):
            return await receiving  # type: ignore[misc,no-any-return]

    async def main() -> None:
        async with lior.aio.open(tmp_path / "data") as qm:
            await qm.create_queue(QUEUE, transactional=in_transaction)
            taken: list[int] = []
            async with await qm.open_queue(QUEUE) as q:
                await asyncio.gather(send(qm), receive(qm, q, taken))
            assert sorted(taken) == list(range(count))

    asyncio.run(main())


def test_cancelling_a_consumer_ends_it_and_loses_nothing(tmp_path: Path, seed: int) -> None:
    """Its loop must end even when the cancellation came while a message was being taken."""
    chance, rounds = Random(seed), 200

    async def consume(q: lior.aio.Queue, taken: list[int]) -> None:
        while True:
            taken.append(int((await q.receive()).body))

    async def main() -> None:
        async with lior.aio.open(tmp_path / "data") as qm:
            await qm.create_queue(QUEUE)
            taken: list[int] = []
            async with await qm.open_queue(QUEUE) as q:
                for number in range(rounds):
                    consumer = asyncio.create_task(consume(q, taken))
                    sending = asyncio.create_task(qm.send(QUEUE, b"%d" % number, recoverable=True))
                    for _ in range(chance.randrange(12)):
                        await asyncio.sleep(0)
                    await asyncio.sleep(chance.choice((0, 0.0005, 0.001, 0.002)))
                    consumer.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await asyncio.wait_for(consumer, 60)
                    await sending
                taken += [int(message.body) async for message in q]
            assert sorted(taken) == list(range(rounds))

    asyncio.run(main())


def test_closing_the_queue_manager_ends_what_waits_and_answers_what_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        qm = await lior.aio.open(tmp_path / "data")
        await qm.create_queue(QUEUE)
        async with await qm.open_queue(QUEUE) as q:
            waits = [asyncio.create_task(q.receive()) for _ in range(20)]
            peeks = [asyncio.create_task(q.peek(60)) for _ in range(5)]
            await asyncio.sleep(0)
            other = r".\private$\other"
            await qm.create_queue(other)
            sends = [asyncio.create_task(qm.send(other, b"%d" % n, recoverable=True)) for n in range(50)]
            await asyncio.sleep(0)
            await qm.close()
            for ended in await asyncio.gather(*waits, *peeks, return_exceptions=True):
                assert isinstance(ended, OperationCancelled)
            answers = await asyncio.gather(*sends, return_exceptions=True)
            refusals = [answer for answer in answers if isinstance(answer, BaseException)]
            assert all(isinstance(refused, ServiceNotAvailable | InvalidHandle) for refused in refusals)
            sent = len(answers) - len(refusals)
            with pytest.raises(ServiceNotAvailable):
                await qm.send(QUEUE, b"late")
            with pytest.raises((ServiceNotAvailable, InvalidHandle)):
                await q.receive(0)
        async with lior.aio.open(tmp_path / "data") as again:
            assert (await again.queue(r".\private$\other")).messages == sent > 0

    asyncio.run(main())


def test_closing_does_not_wait_for_ever_for_a_change_that_stores_nothing(tmp_path: Path) -> None:
    """A purge of an empty queue only keeps its turn."""

    async def main() -> None:
        qm = await lior.aio.open(tmp_path / "data")
        await qm.create_queue(QUEUE)
        purging = asyncio.ensure_future(qm.purge_queue(QUEUE))
        await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(qm.close(), qm.close()), 60)
        await purging
        await asyncio.wait_for(qm.close(), 60)

    asyncio.run(main())


def test_a_close_that_is_cancelled_is_finished_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        qm = await lior.aio.open(tmp_path / "data")
        await qm.create_queue(QUEUE)
        sending = asyncio.ensure_future(qm.send(QUEUE, b"x", recoverable=True))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(qm.close())
        for _ in range(2):
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await sending
        await qm.close()
        async with lior.aio.open(tmp_path / "data") as again:
            assert (await again.queue(QUEUE)).messages == 1

    asyncio.run(main())


def test_threads_that_wait_learn_that_the_queue_manager_was_closed(tmp_path: Path) -> None:
    ended: list[BaseException] = []
    qm = lior.open(tmp_path / "data")
    qm.create_queue(QUEUE)
    waiting = threading.Semaphore(0)

    def wait() -> None:
        with pytest.raises((OperationCancelled, ServiceNotAvailable)) as caught:
            q = qm.open_queue(QUEUE)
            waiting.release()
            q.receive()
        ended.append(caught.value)

    threads = [threading.Thread(target=wait) for _ in range(10)]
    for thread in threads:
        thread.start()
    for _ in threads:
        waiting.acquire()
    qm.close()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 10
    with pytest.raises(ServiceNotAvailable):
        qm.send(QUEUE, b"late")


def test_a_closed_handle_ends_the_reads_that_wait_on_it_and_no_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with lior.aio.open(tmp_path / "data") as qm:
            await qm.create_queue(QUEUE)
            q, other = await qm.open_queue(QUEUE), await qm.open_queue(QUEUE)
            closed, kept = asyncio.create_task(q.receive()), asyncio.create_task(other.receive(60))
            await asyncio.sleep(0)
            await q.close()
            with pytest.raises(OperationCancelled):
                await closed
            await qm.send(QUEUE, b"x")
            assert (await kept).body == b"x"
            with pytest.raises(Timeout):
                await other.receive(0.01)

    asyncio.run(main())


def test_what_expires_while_the_queue_manager_closes_uses_no_number_twice(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(3):
            qm = await lior.aio.open(tmp_path / "data")
            if not await qm.exists(QUEUE):
                await qm.create_queue(QUEUE)
            await asyncio.gather(
                *(qm.send(QUEUE, b"x", recoverable=True, time_to_be_received=1) for _ in range(200))
            )
            backend = qm.backend
            assert isinstance(backend, LocalBackend)
            engine, manager = backend.engine, backend.manager
            give_back = manager.give_back_counters

            def give_back_late(manager: QueueManager = manager, engine: Engine = engine, do: Any = give_back) -> None:
                """The messages expire now, and the timer goes off."""
                do()
                manager.core.clock.wall = lambda: time.time() + 100  # type: ignore[method-assign]
                engine._tick()

            manager.give_back_counters = give_back_late  # type: ignore[method-assign]
            await qm.close()
            assert examine(tmp_path / "data").healthy

    asyncio.run(main())
