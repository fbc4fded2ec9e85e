"""From queue manager to queue manager, beside RabbitMQ through pika, in one run; ratios, not absolute promises.

    python benchmarks/bench_transfer.py [--count N] [--rounds N] [--json] [--quick]

Messages have 1 KB. A Lior rate runs from the first send at A to the last message stored at B: A is a queue manager
embedded in a process with 64 asyncio senders, B is `lior serve`; both are processes of their own, joined by the binary
protocol on loopback addresses. "Recoverable" and "transactional" are on disk (fdatasync) at A before the sender is
told, and at B before B acknowledges; "express" is on no disk. A transaction here has one message, so each pays for a
commit. "Sent" is the rate at which A answered its senders.

RabbitMQ's durable rate is that of a classic durable queue with publisher confirms, at most 64 without one: on disk
once, in one place. Its other rate is without confirms, in memory. Each is measured beside a consumer that takes and
acknowledges everything, which the goals are stated for, and without one, which is less work. Contestants take turns
in random order within each round; a ratio is the median of the rounds' ratios. CPU is microseconds a message, at each
end.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import rabbitmq

import lior
from lior.message import INFINITE
from lior.testing.serving import Serving, loopback_address

SENDERS = 64
SIZE = 1024
MODES = {"recoverable": "plain", "transactional": "stream", "express": "plain"}  # and the queue of B that takes them


class Result(dict[str, float]):
    """rate, sent, and the CPU of sender and receiver, which is the broker, in microseconds a message."""


# The sending side, in a process of its own


async def send(queue: Any, mode: str, count: int) -> None:
    left = count
    body = os.urandom(SIZE)
    options: dict[str, Any] = {"dead_letter": False}  # as with Windows, no final acknowledgements unless asked for
    if mode == "express":
        options["express"] = True
    if mode == "transactional":
        options["transactional"] = True

    async def sender() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await queue.send(body, **options)

    await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def serve_sending(directory: str, address: str, target: str) -> None:
    """Runs that come on standard input: `mode count`; the moment of the first send and what it cost go back."""
    from lior.server import config
    from lior.server.network import network

    settings = config.merged(config.load(), {"server": {"bind": [address]}}, "bench")
    async with lior.aio.open(directory, cache_bytes=256 << 20) as qm:
        await qm.set_properties(queue_manager_quota=INFINITE)
        transfer = network(qm.backend.engine, settings, Path(directory))  # type: ignore[attr-defined]
        await transfer.start()
        gc.collect()
        gc.freeze()  # both as docs/library.md advises
        gc.set_threshold(20_000, 20, 50)
        print(json.dumps({"ready": True}), flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            mode, count = line.split()
            async with await qm.open_queue(rf"DIRECT=TCP:{target}\private$\{MODES[mode]}", "send") as queue:
                start, used = time.monotonic(), time.process_time()
                await send(queue, mode, int(count))
                sent = time.monotonic() - start
            while sum(info.messages for info in await qm.queues() if info.kind == "outgoing"):
                await asyncio.sleep(0.02)
            cpu = time.process_time() - used
            print(json.dumps({"start": start, "sent": sent, "cpu": cpu}), flush=True)
        await transfer.stop()


class Sender:
    """The process with A."""

    def __init__(self, directory: Path, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--sender", str(directory), loopback_address(), target],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.answer()

    def __enter__(self) -> "Sender":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def begin(self, mode: str, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{mode} {count}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the sending process ended")
        answer: dict[str, float] = json.loads(line)
        return answer


# The contestants


class Transfer:
    """A to B."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._server = Serving(directory / "B", settings={"log.level": "warning"})
        with lior.open(directory / "B") as qm:
            qm.set_properties(queue_manager_quota=INFINITE)
            qm.create_queue(r".\private$\plain")
            qm.create_queue(r".\private$\stream", transactional=True)
        stack.enter_context(self._server)
        self._qm = stack.enter_context(self._server.connect())
        self._sender = stack.enter_context(Sender(directory / "A", self._server.address))

    def run(self, mode: str) -> Callable[[int], Result]:
        path = rf".\private$\{MODES[mode]}"

        def measure(count: int) -> Result:
            before = rabbitmq.cpu_seconds(self._server.pid)
            self._sender.begin(mode, count)
            end = time.monotonic() + 120
            while (arrived := self._qm.queue(path).messages) < count:
                if time.monotonic() > end:
                    raise RuntimeError(f"{arrived} of {count} {mode} messages arrived")
                time.sleep(0.1 if arrived < 0.7 * count else 0.01)  # to ask costs B as much as 15 messages
            stored = time.monotonic()
            sent = self._sender.answer()
            receiver = rabbitmq.cpu_seconds(self._server.pid) - before
            self._qm.purge_queue(path)
            seconds = stored - sent["start"]
            return Result(
                rate=count / seconds, sent=count / sent["sent"], sender=sent["cpu"] / count * 1e6,
                receiver=receiver / count * 1e6,
            )  # fmt: skip

        return measure


def rabbit(node: rabbitmq.Node, *, durable: bool, consumer: bool) -> Callable[[int], Result]:
    def measure(count: int) -> Result:
        found = node.publish(count, durable=durable, window=64 if durable else 0, size=SIZE, consumer=consumer)
        return Result(
            rate=found["rate"], sent=found["rate"], sender=found["client_cpu"] * 1e6, receiver=found["broker_cpu"] * 1e6
        )

    return measure


DURABLE, MEMORY = "RabbitMQ durable, confirms", "RabbitMQ in memory"
DURABLE_ALONE, MEMORY_ALONE = f"{DURABLE}, no consumer", f"{MEMORY}, no consumer"
SAFETY = {
    "recoverable": "synced at A and at B",
    "transactional": "synced at A and at B, exactly once, in order",
    "express": "in memory",
    DURABLE: "synced once, at least once",
    DURABLE_ALONE: "synced once, at least once",
    MEMORY: "in memory",
    MEMORY_ALONE: "in memory",
}
GOALS = {  # of the design: at least, beside whom
    "recoverable": (DURABLE, 2.0), "transactional": (DURABLE, 2.0), "express": (MEMORY, 3.0),
}  # fmt: skip
ALSO = {"recoverable": DURABLE_ALONE, "transactional": DURABLE_ALONE, "express": MEMORY_ALONE}


def compete(contestants: dict[str, Callable[[int], Result]], count: int, rounds: int) -> dict[str, list[Result]]:
    results: dict[str, list[Result]] = {name: [] for name in contestants}
    for measure in contestants.values():  # connections, caches, files
        measure(max(1000, count // 10))
    for number in range(rounds):
        for name in random.sample(list(contestants), len(contestants)):
            results[name].append(contestants[name](count))
            print(f"round {number + 1}: {name:<38}{results[name][-1]['rate']:>9,.0f} /s", file=sys.stderr)
    return results


def median(results: list[Result], field: str) -> float:
    return statistics.median(result[field] for result in results)


def ratio(results: dict[str, list[Result]], one: str, other: str) -> float:
    return statistics.median(a["rate"] / b["rate"] for a, b in zip(results[one], results[other], strict=True))


def report(results: dict[str, list[Result]]) -> None:
    heads = ("median", "lowest", "highest", "sent", "CPU from", "CPU to")
    print(f"{'messages of 1 KB a second':<40}" + "".join(f"{head:>9}" for head in heads))
    for name, found in results.items():
        rates = [result["rate"] for result in found]
        columns = (statistics.median(rates), min(rates), max(rates), median(found, "sent"))
        cpu = "".join(f"{median(found, end):>9.1f}" for end in ("sender", "receiver"))
        print(f"{name:<40}" + "".join(f"{value:>9,.0f}" for value in columns) + cpu + f"   {SAFETY[name]}")
    print()
    for mode, (peer, goal) in GOALS.items():
        if peer not in results:
            continue
        value = ratio(results, mode, peer)
        print(f"{f'{mode} / {peer}':<54}{value:>6.2f}   at least {goal:g}   {'met' if value >= goal else 'MISSED'}")
        print(f"{f'{mode} / {ALSO[mode]}':<54}{ratio(results, mode, ALSO[mode]):>6.2f}")


def measure_all(directory: Path, count: int, rounds: int) -> dict[str, list[Result]]:
    with ExitStack() as stack:
        transfer = Transfer(directory, stack)
        contestants = {mode: transfer.run(mode) for mode in MODES}
        missing = rabbitmq.available()
        if missing:
            print(f"RabbitMQ is left out: {missing}")
        else:
            node = stack.enter_context(rabbitmq.Node())
            contestants |= {
                DURABLE: rabbit(node, durable=True, consumer=True),
                DURABLE_ALONE: rabbit(node, durable=True, consumer=False),
                MEMORY: rabbit(node, durable=False, consumer=True),
                MEMORY_ALONE: rabbit(node, durable=False, consumer=False),
            }
        return compete(contestants, count, rounds)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 5,000")
    parser.add_argument("--sender", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sender:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve_sending(*arguments.sender))
        return
    count, rounds = (5000, 2) if arguments.quick else (arguments.count, arguments.rounds)
    directory = Path(tempfile.mkdtemp(prefix="lior-bench-"))
    try:
        results = measure_all(directory, count, rounds)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if arguments.json:
        print(json.dumps(results))
    else:
        report(results)


if __name__ == "__main__":
    main()
