"""What the record of fates costs: the same work with `record` off, failures and all, in turns, in one run.

    python benchmarks/bench_record.py [--seconds S] [--rounds N] [--json]

Bodies have 1 KB; a message is sent durably and received durably by the same of 64 workers. A cost is the median of
the rounds' ratios to "off". The calls on the loop are also timed by themselves.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import lior
from lior.message import INFINITE
from lior.server.fates import Recorder
from lior.server.runtime import SystemClock
from lior.store.fates import FateLog

BODY = os.urandom(1024)
WORKERS = 64
QUEUE = r".\private$\q"
LEVELS = ("off", "failures", "all")


async def rate(qm: lior.aio.QueueManager, seconds: float, recoverable: bool) -> float:
    async with await qm.open_queue(QUEUE, "send") as send, await qm.open_queue(QUEUE) as read:

        async def worker(end: float) -> int:
            count = 0
            while time.perf_counter() < end:
                await send.send(BODY, recoverable=recoverable)
                await read.receive(0)
                count += 1
            return count

        start = time.perf_counter()
        counts = await asyncio.gather(*(worker(start + seconds) for _ in range(WORKERS)))
        return sum(counts) / (time.perf_counter() - start)


async def compete(directory: Path, seconds: float, rounds: int) -> dict[str, dict[str, list[float]]]:
    managers = {}
    for level in LEVELS:
        managers[level] = await lior.aio.open(directory / level, record=level)
        await managers[level].set_properties(queue_manager_quota=INFINITE)
        await managers[level].create_queue(QUEUE)
    rates: dict[str, dict[str, list[float]]] = {"durable": {}, "express": {}}
    for round_ in range(rounds + 1):
        for kind in rates:
            for level in random.sample(LEVELS, len(LEVELS)):
                found = await rate(managers[level], seconds, kind == "durable")
                if round_:  # the first only warms up
                    rates[kind].setdefault(level, []).append(found)
    for manager in managers.values():
        await manager.close()
    return rates


async def nanoseconds(count: int = 20_000) -> dict[str, float]:
    """Of the two calls for a message, beside a loop that does nothing."""
    async with lior.aio.open(":memory:", record="off") as qm:
        await qm.create_queue(QUEUE)
        await qm.send(QUEUE, BODY)
        core = qm.backend.manager.core
        queue = next(queue for queue in core.queues.values() if queue.message_count)
        position = queue.position(queue.available.first(), core.store)
    recorder = Recorder(FateLog(None), SystemClock())
    times: dict[str, list[float]] = {"nothing": [], "arrived": [], "removed": []}
    for _ in range(20):
        start = time.perf_counter_ns()
        for _ in range(count):
            pass
        times["nothing"].append((time.perf_counter_ns() - start) / count)
        start = time.perf_counter_ns()
        for _ in range(count):
            recorder.arrived(position)
        times["arrived"].append((time.perf_counter_ns() - start) / count)
        recorder.flush()
        await asyncio.sleep(0.05)
        start = time.perf_counter_ns()
        for _ in range(count):
            recorder.removed(position, 0x4000)
        times["removed"].append((time.perf_counter_ns() - start) / count)
        recorder.flush()
        await asyncio.sleep(0.05)
    recorder.close()
    nothing = statistics.median(times["nothing"])
    return {name: statistics.median(times[name]) - nothing for name in ("arrived", "removed")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--rounds", type=int, default=15)
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
            rates = runner.run(compete(directory, arguments.seconds, arguments.rounds))
            calls = runner.run(nanoseconds())
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    costs = {
        kind: {
            level: 1 - statistics.median(a / b for a, b in zip(found[level], found["off"], strict=True))
            for level in LEVELS[1:]
        }
        for kind, found in rates.items()
    }
    if arguments.json:
        print(json.dumps({"rates": rates, "costs": costs, "nanoseconds": calls}))
        return
    for kind, found in rates.items():
        for level, numbers in found.items():
            cost = "" if level == "off" else f"   costs {costs[kind][level]:6.1%}"
            print(f"{kind:<8} {level:<9}{statistics.median(numbers):>10,.0f} sent and received a second{cost}")
    for name, number in calls.items():
        print(f"{name:<18}{number:>10,.0f} ns on the loop")


if __name__ == "__main__":
    main()
