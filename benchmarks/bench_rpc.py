"""The client over RPC, beside RabbitMQ through pika, in one run; ratios, not absolute promises.

    python benchmarks/bench_rpc.py [--count N] [--rounds N] [--tcp] [--json] [--quick]

Messages have 1 KB and are durable: on disk (fdatasync) before the sender is told. "Send" has 64 sends under way from
one client process, as RabbitMQ's publisher with confirms has at most 64 without one; "one by one" waits for each.
"Receive" takes messages that are there, 64 reads under way, each two-phase: the message leaves the queue when the
client said that it has it, and the call returns when that is on disk. RabbitMQ's consumer has a prefetch of 64 and
acknowledges each; its acknowledgements are answered by nobody. The client is `lior.aio.connect` on the Unix socket of a
`lior serve`, or with --tcp on its port 2103, authenticated with NTLM at the level "connect". Contestants take turns in
random order within each round; a ratio is the median of the rounds' ratios. CPU is microseconds a message, at each end.
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
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import rabbitmq
from bench_transfer import loop_factory

import lior
from lior.message import INFINITE
from lior.testing.serving import Serving

WINDOW = 64
SIZE = 1024
QUEUE = r".\private$\bench"
USER, PASSWORD = "bench", "a password of the benchmark"


class Result(dict[str, float]):
    """rate, the CPU of client and server in microseconds a message, p50 and p99 in milliseconds."""


# The client, in a process of its own


async def send(qm: Any, count: int) -> list[float]:
    left, body = count, os.urandom(SIZE)
    async with await qm.open_queue(QUEUE, "send") as queue:

        async def sender() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await queue.send(body, dead_letter=False)

        await asyncio.gather(*(sender() for _ in range(min(WINDOW, count))))
    return []


async def send_one_by_one(qm: Any, count: int) -> list[float]:
    body, taken = os.urandom(SIZE), []
    async with await qm.open_queue(QUEUE, "send") as queue:
        for _ in range(count):
            start = time.perf_counter()
            await queue.send(body, dead_letter=False)
            taken.append(time.perf_counter() - start)
    return taken


async def receive(qm: Any, count: int) -> list[float]:
    left = count
    async with await qm.open_queue(QUEUE) as queue:

        async def reader() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await queue.receive(10)

        await asyncio.gather(*(reader() for _ in range(WINDOW)))
    return []


KINDS: dict[str, Callable[[Any, int], Coroutine[Any, Any, list[float]]]] = {
    "send": send, "one by one": send_one_by_one, "receive": receive,
}  # fmt: skip


async def serve_client(target: str) -> None:
    """Runs that come on standard input: `count kind`."""
    options = {"user": USER, "password": PASSWORD, "level": "connect"} if "/" not in target else {}
    async with lior.aio.connect(target, **options) as qm:
        gc.collect()
        gc.freeze()
        print(json.dumps({"ready": True}), flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            count, _, kind = line.strip().partition(" ")
            start, used = time.perf_counter(), time.process_time()
            taken = await KINDS[kind](qm, int(count))
            answer = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used}
            if taken:
                answer |= percentiles(taken)
            print(json.dumps(answer), flush=True)


def percentiles(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {"p50": ordered[len(ordered) // 2] * 1e3, "p99": ordered[len(ordered) * 99 // 100] * 1e3}


class Client:
    def __init__(self, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--client", target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, kind: str, count: int) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count} {kind}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the client ended")
        answer: dict[str, float] = json.loads(line)
        return answer


# The contestants


class Rpc:
    def __init__(self, directory: Path, stack: ExitStack, *, tcp: bool) -> None:
        data = directory / "data"
        self._server = Serving(data, settings={"log.level": "warning"})
        with lior.open(data) as qm:
            qm.set_properties(queue_manager_quota=INFINITE)
            qm.create_queue(QUEUE)
        if tcp:
            add = [sys.executable, "-m", "lior.cli.main", "user", "add", USER, "--data", str(data), "--administrator",
                   "--password-stdin"]  # fmt: skip
            subprocess.run(add, check=True, input=PASSWORD + "\n", text=True, stdout=subprocess.DEVNULL)
        stack.enter_context(self._server)
        self._qm = stack.enter_context(self._server.connect())
        self._client = stack.enter_context(Client(self._server.address if tcp else str(data)))

    def run(self, kind: str) -> Callable[[int], Result]:
        def measure(count: int) -> Result:
            if kind == "receive":
                self._client.run("send", count)
            before = rabbitmq.cpu_seconds(self._server.pid)
            found = self._client.run(kind, count)
            server = rabbitmq.cpu_seconds(self._server.pid) - before
            self._qm.purge_queue(QUEUE)
            latencies = {name: found[name] for name in ("p50", "p99") if name in found}
            return Result(rate=count / found["seconds"], client=found["cpu"] / count * 1e6,
                          server=server / count * 1e6, **latencies)

        return measure


def rabbit(node: rabbitmq.Node, kind: str) -> Callable[[int], Result]:
    def measure(count: int) -> Result:
        found = node.durable(count, kind, window=WINDOW, size=SIZE)
        latencies = {name: found[name] for name in ("p50", "p99") if name in found}
        return Result(rate=found["rate"], client=found["client_cpu"] * 1e6, server=found["broker_cpu"] * 1e6,
                      **latencies)

    return measure


GOALS = {"send": ("rate", 2.0), "one by one": ("p99", 1.0), "receive": ("rate", 1.0)}


def compete(
    contestants: dict[str, Callable[[int], Result]], count: int, rounds: int
) -> dict[str, list[Result]]:
    results: dict[str, list[Result]] = {name: [] for name in contestants}
    for name, measure in contestants.items():
        measure(counted(name, max(1000, count // 10)))
    for number in range(rounds):
        for name in random.sample(list(contestants), len(contestants)):
            results[name].append(contestants[name](counted(name, count)))
            print(f"round {number + 1}: {name:<28}{results[name][-1]['rate']:>9,.0f} /s", file=sys.stderr)
    return results


def counted(name: str, count: int) -> int:
    return max(500, count // 10) if name.endswith("one by one") else count


def report(results: dict[str, list[Result]]) -> None:
    heads = ("median", "lowest", "highest", "CPU cl", "CPU srv", "p50 ms", "p99 ms")
    print(f"{'durable messages of 1 KB a second':<36}" + "".join(f"{head:>9}" for head in heads))
    for name, found in results.items():
        rates = [each["rate"] for each in found]
        line = "".join(f"{value:>9,.0f}" for value in (statistics.median(rates), min(rates), max(rates)))
        for field in ("client", "server"):
            line += f"{statistics.median(each[field] for each in found):>9.1f}"
        if "p99" in found[0]:
            line += "".join(f"{statistics.median(each[field] for each in found):>9.2f}" for field in ("p50", "p99"))
        print(f"{name:<36}{line}")
    print()
    for kind, (field, goal) in GOALS.items():
        ours, theirs = results.get(f"Lior {kind}"), results.get(f"RabbitMQ {kind}")
        if not ours or not theirs:
            continue
        ratio = statistics.median(a[field] / b[field] for a, b in zip(ours, theirs, strict=True))
        met = ratio >= goal if field == "rate" else ratio <= goal
        bound = "at least" if field == "rate" else "at most"
        name = f"{kind}, {field}: Lior / RabbitMQ"
        print(f"{name:<44}{ratio:>6.2f}   {bound} {goal:g}   {'met' if met else 'MISSED'}")


def measure_all(directory: Path, count: int, rounds: int, *, tcp: bool) -> dict[str, list[Result]]:
    with ExitStack() as stack:
        ours = Rpc(directory, stack, tcp=tcp)
        contestants = {f"Lior {kind}": ours.run(kind) for kind in KINDS}
        missing = rabbitmq.available()
        if missing:
            print(f"RabbitMQ is left out: {missing}")
        else:
            node = stack.enter_context(rabbitmq.Node())
            contestants |= {f"RabbitMQ {kind}": rabbit(node, kind) for kind in KINDS}
        return compete(contestants, count, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tcp", action="store_true", help="over TCP with NTLM, not the Unix socket")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 5,000")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve_client(arguments.client))
        return
    count, rounds = (5000, 2) if arguments.quick else (arguments.count, arguments.rounds)
    directory = Path(tempfile.mkdtemp(prefix="lior-bench-"))
    try:
        results = measure_all(directory, count, rounds, tcp=arguments.tcp)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps(results)) if arguments.json else report(results)


if __name__ == "__main__":
    main()
