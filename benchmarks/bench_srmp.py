"""SOAP reliable messaging from queue manager to queue manager, beside RabbitMQ's durable rate, in one run.

    python benchmarks/bench_srmp.py [--count N] [--rounds N] [--json] [--quick]

Messages have 1 KB. A is a queue manager embedded in a process with 64 asyncio senders, B is `lior serve`; both on
loopback addresses. A rate runs from the first send at A to the last message stored at B. "Recoverable" and
"transactional" are on disk at A before the sender is told, and at B before B answers 200; a queue has one connection
with up to 64 requests that B has not answered; what comes to B together is on disk with one sync, and sixteen queues
have sixteen connections. RabbitMQ's rate is that of a
classic durable queue with publisher confirms, at most 64 without one, beside a consumer. Contestants take turns in
random order within each round; a ratio is the median of the rounds' ratios. CPU is microseconds a message, at each end.

The profile behind the rates says which part of the code takes what share of the time (see srmp_profile.py): at A of the
sends and the transfer, at B of the arrival.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import rabbitmq
import srmp_profile
from bench_transfer import DURABLE, Result, compete, loop_factory, median, rabbit, ratio

import lior
from lior.message import INFINITE
from lior.testing.serving import Serving, loopback_address

SENDERS, SIZE, PORT, QUEUES = 64, 1024, 8080, 16
MODES = {
    "recoverable, 1 queue": ("plain", 1), "recoverable, 16 queues": ("plain", QUEUES),
    "transactional, 1 queue": ("stream", 1), "transactional, 16 queues": ("stream", QUEUES),
    "express, 1 queue": ("plain", 1),
}  # fmt: skip


async def send(queues: list[Any], mode: str, count: int) -> None:
    left, body = count, os.urandom(SIZE)
    options: dict[str, Any] = {"dead_letter": False}
    if mode.startswith("express"):
        options["express"] = True
    if mode.startswith("transactional"):
        options["transactional"] = True

    async def sender() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await queues[left % len(queues)].send(body, **options)

    await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def serve_sending(directory: str, address: str, target: str) -> None:
    """Runs that come on standard input: `count mode`; the moment of the first send and what it cost go back. Behind
    a mode, "profiled" has the shares of the parts go back, too."""
    from lior.server import config
    from lior.server.network import soap

    settings = config.merged(
        config.load(), {"server": {"bind": [address]}, "srmp": {"http_port": PORT, "receipt_delay": 0.05}}, "bench")
    async with lior.aio.open(directory, cache_bytes=256 << 20) as qm:
        core = qm.backend.manager.core  # type: ignore[attr-defined]
        core.local = replace(core.local, addresses=frozenset({address}))  # where its receipts go to
        await qm.set_properties(queue_manager_quota=INFINITE)
        srmp = soap(qm.backend.engine, settings, Path(directory))  # type: ignore[attr-defined]
        await srmp.start()
        gc.collect()
        gc.freeze()
        print(json.dumps({"ready": True}), flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            number, _, mode = line.strip().partition(" ")
            mode, profiled, _ = mode.partition(" profiled")
            kind, count = MODES[mode]
            names = [f"DIRECT=HTTP://{target}:{PORT}/msmq/private$/{kind}{n}" for n in range(count)]
            queues = [await qm.open_queue(name, "send") for name in names]
            profile = cProfile.Profile() if profiled else nullcontext()
            start, used = time.monotonic(), time.process_time()
            with profile:
                await send(queues, mode, int(number))
                sent = time.monotonic() - start
                while sum(info.messages for info in await qm.queues() if info.kind == "outgoing"):
                    await asyncio.sleep(0.02)
            cpu = time.process_time() - used
            for queue in queues:
                await queue.close()
            parts = srmp_profile.shares(profile) if isinstance(profile, cProfile.Profile) else {}
            print(json.dumps({"start": start, "sent": sent, "cpu": cpu, "parts": parts}), flush=True)
        await srmp.stop()


class Sender:
    """The process with A."""

    def __init__(self, directory: Path, target: str) -> None:
        command = [sys.executable, __file__, "--sender", str(directory), loopback_address(), target]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
        self._process.stdin.write(f"{count} {mode}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the sending process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Soap:
    """A to B."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        settings = {"log.level": "warning", "srmp.http_port": PORT, "srmp.receipt_delay": 0.05}
        self._server = Serving(directory / "B", settings=settings)
        with lior.open(directory / "B") as qm:
            qm.set_properties(queue_manager_quota=INFINITE)
            for number in range(QUEUES):
                qm.create_queue(rf".\private$\plain{number}")
                qm.create_queue(rf".\private$\stream{number}", transactional=True)
        stack.enter_context(self._server)
        self._qm = stack.enter_context(self._server.connect())
        self._sender = stack.enter_context(Sender(directory / "A", self._server.address))

    def run(self, mode: str) -> Callable[[int], Result]:
        kind, queues = MODES[mode]
        paths = [rf".\private$\{kind}{number}" for number in range(queues)]

        def measure(count: int) -> Result:
            before = rabbitmq.cpu_seconds(self._server.pid)
            self._sender.begin(mode, count)
            end = time.monotonic() + 300
            while (stored := sum(self._qm.queue(path).messages for path in paths)) < count:
                if time.monotonic() > end:
                    raise RuntimeError(f"{stored} of {count} {mode} messages arrived")
                time.sleep(0.02)
            done = time.monotonic()
            sent = self._sender.answer()
            receiver = rabbitmq.cpu_seconds(self._server.pid) - before
            for path in paths:
                self._qm.purge_queue(path)
            return Result(rate=count / (done - sent["start"]), sent=count / sent["sent"],
                          sender=sent["cpu"] / count * 1e6, receiver=receiver / count * 1e6)  # fmt: skip

        return measure

    def profile(self, mode: str, count: int) -> dict[str, float]:
        """The shares of the parts at A."""
        self._sender.begin(f"{mode} profiled", count)
        found: dict[str, float] = self._sender.answer()["parts"]
        return found


def report(results: dict[str, list[Result]]) -> None:
    print(f"{'messages of 1 KB a second':<40}" + "".join(
        f"{head:>9}" for head in ("median", "lowest", "highest", "CPU from", "CPU to")))  # fmt: skip
    for name, found in results.items():
        rates = [result["rate"] for result in found]
        cpu = "".join(f"{median(found, end):>9.1f}" for end in ("sender", "receiver"))
        print(f"{name:<40}{median(found, 'rate'):>9,.0f}{min(rates):>9,.0f}{max(rates):>9,.0f}{cpu}")
    if DURABLE in results:
        print()
        for mode in MODES:
            if not mode.startswith("express"):
                print(f"{f'{mode} / {DURABLE}':<60}{ratio(results, mode, DURABLE):>6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="1 round of 2,000")
    parser.add_argument("--sender", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sender:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve_sending(*arguments.sender))
        return
    count, rounds = (2000, 1) if arguments.quick else (arguments.count, arguments.rounds)
    directory = Path(tempfile.mkdtemp(prefix="lior-bench-"))
    try:
        with ExitStack() as stack:
            soap = Soap(directory, stack)
            contestants = {mode: soap.run(mode) for mode in MODES}
            missing = rabbitmq.available()
            if missing:
                print(f"RabbitMQ is left out: {missing}")
            else:
                node = stack.enter_context(rabbitmq.Node())
                contestants[DURABLE] = rabbit(node, durable=True, consumer=True)
            results = compete(contestants, count, rounds)
            profiled = "recoverable, 1 queue"
            parts = {f"A, {profiled}": soap.profile(profiled, 2000)}
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            parts["B, recoverable"] = runner.run(srmp_profile.receiving(SIZE))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if arguments.json:
        print(json.dumps(results | {"profile": parts}))
    else:
        report(results)
        print()
        for end, found in parts.items():
            print(f"time at {end}: {srmp_profile.line(found)}")


if __name__ == "__main__":
    main()
