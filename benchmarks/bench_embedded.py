"""The embedded queue manager beside the bare disk and bare SQLite, in one run; ratios, not absolute promises.

    python benchmarks/bench_embedded.py [--seconds S] [--rounds N] [--backlog 1000000] [--json]

Bodies have 1 KB. "durable" means on disk (fdatasync) before the sender is told. The contestants take turns in
random order within each round; a ratio is the median of the rounds' ratios. The objects that exist at the start are
frozen (gc.freeze), as docs/library.md advises for a process that moves many messages.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import lior
from lior.errors import Timeout
from lior.message import INFINITE, Message, ObjectId
from lior.queues.ports import PutMessage
from lior.store import schema
from lior.store.record import encode
from lior.store.sqlite import SqliteStore

BODY = os.urandom(1024)
SENDERS = 64
GUID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
PLAIN, STREAM, DEEP = r".\private$\plain", r".\private$\stream", r".\private$\deep"

Contestant = Callable[[float], Coroutine[Any, Any, float]]


class RawDisk:
    """One write and one fdatasync over blocks that the file has already: the floor of any durable answer."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "raw", os.O_RDWR | os.O_CREAT)
        os.write(self._fd, bytes(16 << 20))
        os.fsync(self._fd)
        self._at = 0

    async def one(self, seconds: float) -> float:
        count, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            os.pwrite(self._fd, BODY, self._at)
            os.fdatasync(self._fd)
            self._at = (self._at + 4096) % (16 << 20)
            count += 1
        return count / seconds


class RawSqlite:
    """sqlite3 with the store's own table and rows made beforehand; WAL, synchronous=FULL."""

    def __init__(self, directory: Path) -> None:
        self._db = sqlite3.connect(directory / "raw.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(schema._TABLES)
        self._last = 0
        message = Message(
            BODY, delivery_guarantee=1, destination_queue=r"DIRECT=OS:computer\private$\plain", sent_time=1.7e9
        )
        message.identifier, message.source_queue_manager = ObjectId(GUID, 77), GUID
        self._header = encode(message)

    def put(self, group: int) -> None:
        rows = []
        for _ in range(group):
            self._last += 1
            rows.append((1, 4 << 56 | self._last, 1144, 0, 1.7e9, 0, 0, 0.0, 0x12345678, self._header, BODY))
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO m VALUES (NULL, ?,?,?,?,?,?,?,?,?,?,?)", rows)
        self._db.execute("COMMIT")

    def grouped(self, group: int) -> Contestant:
        async def run(seconds: float) -> float:
            count, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                self.put(group)
                count += group
            return count / seconds

        return run


class Embedded:
    """Lior in this process, on this loop."""

    def __init__(self, qm: lior.aio.QueueManager, queues: dict[str, lior.aio.Queue]) -> None:
        self._qm = qm
        self._send = queues["send"]
        self._read = queues["read"]
        self._stream_read = queues["stream"]

    def send(self, senders: int, recoverable: bool) -> Contestant:
        properties = {} if recoverable else {"express": True}

        async def sender(end: float) -> int:
            count = 0
            while time.perf_counter() < end:
                await self._send.send(BODY, **properties)
                count += 1
            return count

        async def run(seconds: float) -> float:
            start = time.perf_counter()
            counts = await asyncio.gather(*(sender(start + seconds) for _ in range(senders)))
            rate = sum(counts) / (time.perf_counter() - start)
            await self._qm.purge_queue(PLAIN)
            return rate

        return run

    def receive(self, receivers: int, recoverable: bool) -> Contestant:
        async def receiver() -> None:
            while True:
                try:
                    await self._read.receive(0)
                except Timeout:
                    return

        async def run(seconds: float) -> float:
            count = int(seconds * (20_000 if receivers > 1 or not recoverable else 2_000))
            await asyncio.gather(*(self._send.send(BODY, recoverable=recoverable) for _ in range(count)))
            start = time.perf_counter()
            await asyncio.gather(*(receiver() for _ in range(receivers)))
            return count / (time.perf_counter() - start)

        return run

    def transactions(self, workers: int, size: int) -> Contestant:
        """Send `size` messages in a transaction, receive them in another."""

        async def worker(end: float) -> int:
            count = 0
            while time.perf_counter() < end:
                async with self._qm.transaction() as tx:
                    for _ in range(size):
                        await tx.send(STREAM, BODY)
                async with self._qm.transaction() as tx:
                    for _ in range(size):
                        await self._stream_read.receive(transaction=tx)
                count += size
            return count

        async def run(seconds: float) -> float:
            start = time.perf_counter()
            counts = await asyncio.gather(*(worker(start + seconds) for _ in range(workers)))
            return sum(counts) / (time.perf_counter() - start)

        return run

    async def browse(self, seconds: float) -> float:
        """A cursor over messages that come from the store, not from memory."""
        async with await self._qm.open_queue(DEEP, "peek") as queue:
            count, start = 0, time.perf_counter()
            async for _ in queue:
                count += 1
                if time.perf_counter() - start > seconds:
                    break
            return count / (time.perf_counter() - start)


async def threads_rate(qm: lior.QueueManager, seconds: float) -> float:
    """The sync face from 64 threads."""
    counts = [0] * SENDERS
    end = time.perf_counter() + seconds

    def sender(number: int) -> None:
        while time.perf_counter() < end:
            qm.send(PLAIN, BODY, recoverable=True)
            counts[number] += 1

    start = time.perf_counter()
    threads = [threading.Thread(target=sender, args=(n,)) for n in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def fill(directory: Path, count: int) -> None:
    """A backlog of `count` durable messages in the queue "deep", written through the store."""
    with lior.open(directory) as qm:
        qm.set_properties(queue_manager_quota=INFINITE)
        if not qm.exists(DEEP):
            qm.create_queue(DEEP)
    store = SqliteStore(directory)
    queue_id = next(q.queue_id for q in store.load().queues if q.name.endswith("\\deep"))
    for base in range(0, count, 4096):
        batch = []
        for number in range(base, min(base + 4096, count)):
            message = Message(BODY, delivery_guarantee=1, sent_time=1.7e9, identifier=ObjectId(GUID, number))
            batch.append(PutMessage(queue_id, 4 << 56 | number + 1, message, 1.7e9))
        store.apply(batch)
    store.close()


CHILD = r"""
import resource, sys, time, lior, gc
def rss():
    with open("/proc/self/statm") as f: return int(f.read().split()[1]) * 4096
before = rss(); start = time.perf_counter()
with lior.open(sys.argv[1]) as qm:
    took = time.perf_counter() - start
    print(took, rss() - before, qm.queue(r".\private$\deep").messages)
"""


def recovery(directory: Path, empty: Path) -> dict[str, float]:
    """Seconds from open to ready, and memory a message, of a process that finds the backlog."""

    def child(where: Path) -> tuple[float, int, int]:
        out = subprocess.run([sys.executable, "-c", CHILD, str(where)], check=True, capture_output=True, text=True)
        took, memory, messages = out.stdout.split()
        return float(took), int(memory), int(messages)

    base = child(empty)
    took, memory, messages = child(directory)
    return {"messages": messages, "seconds": took, "bytes_per_message": max(0, memory - base[1]) / messages}


async def depth_rates(directory: Path, seconds: float) -> float:
    """Durable send and receive, one after the other, on top of whatever the queue holds: the newcomer has a
    higher priority, so that both ends of the order are worked."""
    async with (
        lior.aio.open(directory) as qm,
        await qm.open_queue(DEEP, "send") as send,
        await qm.open_queue(DEEP) as read,
    ):
        async def worker(end: float) -> int:
            count = 0
            while time.perf_counter() < end:
                await send.send(BODY, recoverable=True, priority=random.choice((3, 5)))
                await read.receive(0)
                count += 1
            return count

        start = time.perf_counter()
        counts = await asyncio.gather(*(worker(start + seconds) for _ in range(SENDERS)))
        return sum(counts) / (time.perf_counter() - start)


async def compete(directory: Path, seconds: float, rounds: int) -> dict[str, list[float]]:
    results: dict[str, list[float]] = {}
    fill(directory / "lior", 20_000)
    async with lior.aio.open(directory / "lior", cache_bytes=256 << 20) as qm:
        await qm.set_properties(queue_manager_quota=INFINITE)
        await qm.create_queue(PLAIN)
        await qm.create_queue(STREAM, transactional=True)
        queues = {
            "send": await qm.open_queue(PLAIN, "send"),
            "read": await qm.open_queue(PLAIN),
            "stream": await qm.open_queue(STREAM),
        }
        ours = Embedded(qm, queues)
        raw, disk = RawSqlite(directory), RawDisk(directory)
        contestants: dict[str, Contestant] = {
            "disk 1": disk.one,
            "sqlite 1": raw.grouped(1),
            "sqlite 64": raw.grouped(64),
            "durable 1": ours.send(1, True),
            "durable 64": ours.send(SENDERS, True),
            "express 1": ours.send(1, False),
            "express 64": ours.send(SENDERS, False),
            "receive durable 1": ours.receive(1, True),
            "receive durable 64": ours.receive(SENDERS, True),
            "receive express 1": ours.receive(1, False),
            "transactions of 1": ours.transactions(1, 1),
            "transactions of 10 x 16": ours.transactions(16, 10),
            "cursor": ours.browse,
        }
        for _ in range(rounds):
            for name in random.sample(list(contestants), len(contestants)):
                results.setdefault(name, []).append(await contestants[name](seconds))
    return results


def ratio(results: dict[str, list[float]], one: str, other: str) -> float:
    return statistics.median(a / b for a, b in zip(results[one], results[other], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    new_loop = asyncio.new_event_loop
    try:
        import uvloop

        new_loop = uvloop.new_event_loop
    except ImportError:
        pass
    directory = Path(tempfile.mkdtemp(prefix="lior-bench-"))
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            results = runner.run(compete(directory, arguments.seconds, arguments.rounds))
            results["sqlite 64 beside threads"], results["durable 64 threads"] = [], []
            raw = RawSqlite(Path(tempfile.mkdtemp(dir=directory)))
            with lior.open(directory / "lior") as qm:
                for _ in range(arguments.rounds):
                    results["sqlite 64 beside threads"].append(runner.run(raw.grouped(64)(arguments.seconds)))
                    results["durable 64 threads"].append(runner.run(threads_rate(qm, arguments.seconds)))
            depths = depth_comparison(directory, runner, arguments)
        fill(directory / "empty", 1)
        report(results, depths, recovery(directory / "deep", directory / "empty"), arguments.json)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def depth_comparison(directory: Path, runner: asyncio.Runner, arguments: argparse.Namespace) -> dict[int, list[float]]:
    """The same work on queues that hold 1, 10^4 and `backlog` messages, in turns."""
    places = {1: directory / "shallow", 10_000: directory / "middle", arguments.backlog: directory / "deep"}
    for depth, place in places.items():
        fill(place, depth)
    rates: dict[int, list[float]] = {depth: [] for depth in places}
    for _ in range(arguments.rounds):
        for depth in random.sample(list(places), len(places)):
            rates[depth].append(runner.run(depth_rates(places[depth], arguments.seconds)))
    return rates


def report(
    results: dict[str, list[float]], depths: dict[int, list[float]], found: dict[str, float], as_json: bool
) -> None:
    deepest, middle = max(depths), 10_000
    ratios = {
        "durable 64 senders / sqlite in 64s": (ratio(results, "durable 64", "sqlite 64"), 0.5),
        "durable 64 threads / sqlite in 64s": (ratio(results, "durable 64 threads", "sqlite 64 beside threads"), 0),
        "durable 1 sender / sqlite one commit": (ratio(results, "durable 1", "sqlite 1"), 0.5),
        "durable 1 sender / bare fdatasync": (ratio(results, "durable 1", "disk 1"), 0),
        "express 1 / durable 1": (ratio(results, "express 1", "durable 1"), 10),
        f"depth {middle} / depth {deepest}": (
            statistics.median(a / b for a, b in zip(depths[middle], depths[deepest], strict=True)),
            -1.3,
        ),
        "seconds to load the backlog": (found["seconds"], -10),
        "bytes in memory a message": (found["bytes_per_message"], -300),
    }
    if as_json:
        print(json.dumps({"rates": results, "depths": depths, "recovery": found, "ratios": ratios}))
        return
    print(f"{'messages a second':<28}{'median':>10}{'lowest':>10}{'highest':>10}")
    for name, rates in results.items():
        print(f"{name:<28}{statistics.median(rates):>10,.0f}{min(rates):>10,.0f}{max(rates):>10,.0f}")
    for depth, rates in depths.items():
        print(f"{'send+receive, ' + format(depth, ',') + ' deep':<28}{statistics.median(rates):>10,.0f}"
              f"{min(rates):>10,.0f}{max(rates):>10,.0f}")
    print()
    for name, (value, bound) in ratios.items():
        goal = "" if not bound else f"   at {'most' if bound < 0 else 'least'} {abs(bound)}"
        met = "" if not bound else ("   met" if (value <= -bound if bound < 0 else value >= bound) else "   MISSED")
        print(f"{name:<40}{value:>10.2f}{goal}{met}")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
