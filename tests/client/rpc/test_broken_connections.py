"""Connections that break, servers that are killed, clients that go away: nothing is lost, and what ended says so."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.client.rpc.backend import RpcBackend
from lior.errors import InvalidHandle, LiorError, ServiceNotAvailable, SharingViolation, Timeout, TransactionSequence
from lior.testing.serving import Serving
from tests.client.library_scenario import LEDGER, ORDERS, bodies
from tests.client.served import PASSWORD, USER, Served, served

SECONDS = 120


def run(data: Path, scenario: Callable[[lior.aio.QueueManager, Served], Awaitable[None]]) -> None:
    """A scenario with a client on a server in another thread."""

    async def main(server: Served) -> None:
        async with lior.aio.connect(data) as qm:
            assert isinstance(qm.backend, RpcBackend)
            await qm.create_queue(ORDERS)
            await qm.create_queue(LEDGER, transactional=True)
            await scenario(qm, server)

    with served(data) as server:
        asyncio.run(asyncio.wait_for(main(server), SECONDS))


async def dropped(server: Served) -> None:
    await asyncio.to_thread(server.drop_connections)


async def eventually(found: Callable[[], Awaitable[bool]]) -> None:
    while not await found():
        pass


def test_what_hung_on_a_lost_connection_says_so_and_the_next_call_connects_again(tmp_path: Path) -> None:
    async def scenario(qm: lior.aio.QueueManager, server: Served) -> None:
        await qm.send(ORDERS, b"x")
        queue, sender = await qm.open_queue(ORDERS), await qm.open_queue(ORDERS, "send")
        cursor = await queue.cursor()
        transaction = await qm.transaction().begin()
        await transaction.send(LEDGER, b"never")
        waiting = asyncio.ensure_future(qm.receive(LEDGER, 60))
        await eventually(lambda: _is((qm.properties()), "waiting_reads", 1))
        await dropped(server)
        with pytest.raises(ServiceNotAvailable):
            await waiting
        for call in (lambda: queue.receive(0), lambda: cursor.current(0), lambda: sender.send(b"y"), queue.cursor):
            with pytest.raises(InvalidHandle):
                await call()
        with pytest.raises(TransactionSequence):
            await transaction.send(LEDGER, b"never")
        await queue.close()
        await cursor.close()
        assert (await qm.receive(ORDERS, 0)).body == b"x"
        await qm.send(ORDERS, b"again")
        with pytest.raises(Timeout):
            await qm.receive(LEDGER, 0)

    run(tmp_path / "data", scenario)


async def _is(properties: Awaitable[dict[str, Any]], name: str, value: object) -> bool:
    return bool((await properties)[name] == value)


def test_a_message_whose_reader_lost_the_connection_before_the_second_phase_stays(tmp_path: Path) -> None:
    """The answer to R_StartReceive never arrives, or R_EndReceive is never sent: either way the queue keeps it."""

    async def scenario(qm: lior.aio.QueueManager, server: Served) -> None:
        for number in range(50):
            await qm.send(ORDERS, b"%d" % number)
        got: list[bytes] = []

        async def reader(queue: lior.aio.Queue) -> None:
            while True:
                got.append((await queue.receive(0)).body)

        queue = await qm.open_queue(ORDERS)
        readers = [asyncio.ensure_future(reader(queue)) for _ in range(8)]
        while len(got) < 10:
            await asyncio.sleep(0)
        await dropped(server)
        for task in readers:
            with pytest.raises(LiorError):
                await task
        rest = []
        async with await qm.open_queue(ORDERS) as q:
            with pytest.raises(Timeout):
                while True:
                    rest.append((await q.receive(0)).body)
        # Each message is there once, but for those whose second phase was done and not answered
        assert not set(got) & set(rest)
        assert len(got) + len(rest) >= 50 - len(readers)

    run(tmp_path / "data", scenario)


def test_no_message_is_lost_or_doubled_by_a_server_that_is_killed(tmp_path: Path) -> None:
    """What a sender was told is there, once; what a reader was given is gone."""
    with Serving(tmp_path / "data") as server:

        async def main() -> tuple[set[bytes], set[bytes]]:
            sent: set[bytes] = set()
            got: set[bytes] = set()
            async with lior.aio.connect(server.data) as qm:
                await qm.create_queue(ORDERS)

                async def sender(start: int) -> None:
                    for number in range(start, start + 10_000):
                        await qm.send(ORDERS, b"%d" % number)
                        sent.add(b"%d" % number)

                async def reader() -> None:
                    async with await qm.open_queue(ORDERS) as q:
                        while True:
                            got.add((await q.receive(60)).body)

                tasks = [asyncio.ensure_future(sender(10_000 * n)) for n in range(8)]
                tasks += [asyncio.ensure_future(reader()) for _ in range(2)]
                while len(sent) < 300 or len(got) < 100:
                    await asyncio.sleep(0)
                await asyncio.to_thread(server.kill)
                assert all(isinstance(end, LiorError) for end in await asyncio.gather(*tasks, return_exceptions=True))
            return sent, got

        sent, got = asyncio.run(main())
        server.start()
        with server.connect() as qm:
            left = bodies(qm, ORDERS)
        assert len(left) == len(set(left))
        assert not got & set(left)
        assert len(sent - got - set(left)) <= 2  # taken by a reader whose answer the kill swallowed


CLIENT = r"""
import sys, lior
qm = lior.connect(sys.argv[1])
tx = qm.transaction().begin()
tx.send(r".\private$\ledger", b"never")
assert tx.receive(r".\private$\ledger", 0).body == b"kept"
held = qm.open_queue(r".\private$\orders", exclusive=True).hold(0)
held.__enter__()
print("holding", flush=True)
qm.receive(r".\private$\audit")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_client_held_is_free_when_it_is_killed_or_hangs(how: signal.Signals, tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"admin.idle_timeout": 4.0}) as server, server.connect() as qm:
        qm.create_queue(LEDGER, transactional=True)
        qm.create_queue(ORDERS)
        qm.create_queue(r".\private$\audit")
        qm.send(LEDGER, b"kept")
        qm.send(ORDERS, b"held")
        environment = os.environ | {"PYTHONPATH": str(Path(lior.__file__).parent.parent)}
        with subprocess.Popen([sys.executable, "-c", CLIENT, str(server.data)], stdout=subprocess.PIPE,
                              env=environment) as child:  # fmt: skip
            assert child.stdout is not None
            assert child.stdout.readline() == b"holding\n"
            with pytest.raises(SharingViolation):
                qm.open_queue(ORDERS)
            child.send_signal(how)
            assert qm.receive(LEDGER, 60).body == b"kept"
            while True:
                try:
                    assert qm.receive(ORDERS, 60).body == b"held"
                    break
                except SharingViolation:
                    continue
            child.kill()
        assert bodies(qm, LEDGER) == [] and qm.transactions() == []


def test_a_receive_that_is_cancelled_takes_nothing_or_gives_what_it_took(tmp_path: Path) -> None:
    async def scenario(qm: lior.aio.QueueManager, server: Served) -> None:
        sent, got = [], []
        async with await qm.open_queue(ORDERS) as q:

            async def reader() -> None:
                got.append((await q.receive(60)).body)

            for number in range(60):
                task = asyncio.ensure_future(reader())
                sending = asyncio.ensure_future(qm.send(ORDERS, b"%d" % number))
                for _ in range(number % 9):
                    await asyncio.sleep(0)
                task.cancel()
                await sending
                sent.append(b"%d" % number)
                await asyncio.wait([task])
            while len(got) < len(sent):
                got.append((await q.receive(0)).body)
            with pytest.raises(Timeout):
                await q.receive(0)
        assert sorted(got) == sorted(sent)

    run(tmp_path / "data", scenario)


def test_a_receive_and_a_peek_that_wait_for_ever_end_when_they_are_cancelled(tmp_path: Path) -> None:
    async def scenario(qm: lior.aio.QueueManager, server: Served) -> None:
        async with await qm.open_queue(ORDERS) as q:
            for wait in (q.receive, q.peek):
                task = asyncio.ensure_future(wait())
                await eventually(lambda: _is(qm.properties(), "waiting_reads", 1))
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
                await eventually(lambda: _is(qm.properties(), "waiting_reads", 0))
            await qm.send(ORDERS, b"x")
            assert (await q.receive(0)).body == b"x"

    run(tmp_path / "data", scenario)


def test_closing_a_handle_ends_the_reads_that_wait_on_it(tmp_path: Path) -> None:
    async def scenario(qm: lior.aio.QueueManager, server: Served) -> None:
        queue = await qm.open_queue(ORDERS)
        waiting = asyncio.ensure_future(queue.receive())
        await eventually(lambda: _is(qm.properties(), "waiting_reads", 1))
        await queue.close()
        with pytest.raises(LiorError) as found:
            await waiting
        assert found.value.symbol == "MQ_ERROR_OPERATION_CANCELLED"

    run(tmp_path / "data", scenario)


def test_two_hundred_reads_wait_on_one_connection_and_hold_up_nobody(tmp_path: Path) -> None:
    async def scenario(qm: lior.aio.QueueManager, server: Served) -> None:
        async with await qm.open_queue(ORDERS) as q:
            waiting = [asyncio.ensure_future(q.receive(60)) for _ in range(200)]
            await eventually(lambda: _is(qm.properties(), "waiting_reads", 200))
            assert server.rpc is not None and len(server.rpc.connections) == 1
            await asyncio.gather(*(qm.send(ORDERS, b"%d" % number) for number in range(200)))
            got = [(await task).body for task in waiting]
            assert sorted(got) == sorted(b"%d" % number for number in range(200))

    run(tmp_path / "data", scenario)


def test_two_clients_see_each_other_and_keep_out_of_each_others_transactions(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data, tcp=True) as server, lior.connect(data) as one, \
            lior.connect(server.address, user=USER, password=PASSWORD) as other:
        one.create_queue(LEDGER, transactional=True)
        tx = one.transaction().begin()
        tx.send(LEDGER, b"a")
        assert bodies(other, LEDGER) == []
        stolen = other.transaction().begin()
        own, stolen.aio._identifier = stolen.aio._identifier, tx.aio._identifier
        with pytest.raises(LiorError):  # the same user on the same computer would be let in; this one is another
            stolen.send(LEDGER, b"stolen")
        stolen.aio._identifier = own
        stolen.abort()
        tx.commit()
        assert bodies(other, LEDGER) == [b"a"]


@pytest.mark.parametrize("level", ["connect", "packet", "integrity", "privacy"])
@pytest.mark.parametrize("method", ["ntlm", "negotiate"])
def test_every_level_and_method_works(level: str, method: str, tmp_path: Path) -> None:
    with served(tmp_path / "data", tcp=True) as server, lior.connect(
            server.address, user=USER, password=PASSWORD, authentication=method, level=level) as qm:
        qm.create_queue(ORDERS)
        qm.send(ORDERS, bytes(300_000), label=level)
        message = qm.receive(ORDERS, 0)
        assert (len(message.body), message.label) == (300_000, level)
        assert qm.properties()["state"] == "ready"


def test_a_wrong_password_and_nobody_are_refused(tmp_path: Path) -> None:
    with served(tmp_path / "data", tcp=True) as server:
        with pytest.raises(LiorError):
            lior.connect(server.address, user=USER, password="wrong").send(ORDERS, b"x")
        with pytest.raises(LiorError):
            lior.connect(server.address, level="none").send(ORDERS, b"x")
