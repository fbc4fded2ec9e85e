"""Calls recorded and played per second: queued components beside Celery and Dramatiq on RabbitMQ, in one run.

    python benchmarks/bench_components.py [--calls N] [--rounds R] [--json]

The call is place_order(int, str, float) and does nothing. Recording is over when the last message is durable (fdatasync
in Lior, publisher confirms of persistent messages in RabbitMQ); one recorder, one player, which acknowledges (Lior:
commits) after the call. "1" and "100" are calls in a message; peers have one call in a message by design. Lior is
measured in this process and through a `lior serve` of its own. The contestants take turns in random order within each
round; a ratio is the median of the rounds' ratios.

Celery and Dramatiq run under LIOR_PEERS_PYTHON (this Python, if it is not set); a peer that cannot be imported there is
left out, and the bench says so.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rabbitmq

import lior
from lior.components import ANONYMOUS, Application, Long, Player, Recorder, interface
from lior.testing.serving import Serving

PEERS = Path(__file__).resolve().parent / "component_peers.py"
CLASS = "{5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01}"
QUEUE = r".\private$\Orders"
PLAYERS = 1

app = Application("Orders")
Rates = dict[str, float]  # "recorded" and "played", calls a second


@interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31}")
class IOrderSink:
    def place_order(self, order_id: Long, customer: str, amount: float) -> None: ...


@app.serves(CLASS, IOrderSink)
class Orders:
    async def place_order(self, order_id: int, customer: str, amount: float) -> None:
        pass


def ours(qm: lior.QueueManager, calls: int, together: int) -> Rates:
    began = time.perf_counter()
    with qm.open_queue(QUEUE, "send") as queue:
        for first in range(0, calls, together):
            with Recorder(queue, class_id=CLASS, identity=ANONYMOUS) as recorder:
                orders = recorder.interface(IOrderSink)
                for number in range(first, min(first + together, calls)):
                    orders.place_order(number, "Zoë", 249.5)
    recorded = time.perf_counter() - began
    player = Player(qm, app, concurrency=PLAYERS)
    began = time.perf_counter()
    player.play_waiting()
    played = time.perf_counter() - began
    assert player.figures.calls_played == calls, player.figures
    return {"recorded": calls / recorded, "played": calls / played}


def theirs(peer: str, python: str, port: int, calls: int) -> Rates:
    rates = {}
    queue = f"{peer}-{random.randrange(1 << 32):x}"
    for what, name in (("record", "recorded"), ("play", "played")):
        done = subprocess.run([python, PEERS, peer, what, str(port), str(calls), queue], stdout=subprocess.PIPE,
                              text=True, check=True, timeout=600)  # fmt: skip
        told = json.loads(done.stdout.splitlines()[-1])
        rates[name] = told["calls"] / told["seconds"]
    return rates


def peers(python: str) -> tuple[dict[str, str], dict[str, str]]:
    """Versions of those that can be measured, and why the others cannot."""
    there, missing = {}, {}
    for peer in ("celery", "dramatiq"):
        done = subprocess.run([python, PEERS, peer, "versions"], capture_output=True, text=True)
        if done.returncode:
            missing[peer] = f"not installed for {python}: pip install {peer}, or set LIOR_PEERS_PYTHON"
        else:
            there.update(json.loads(done.stdout))
    return there, missing


def run(calls: int, rounds: int) -> dict[str, Any]:
    python = os.environ.get("LIOR_PEERS_PYTHON", sys.executable)
    there, missing = peers(python)
    no_broker = rabbitmq.available() if there else ""
    if no_broker:
        missing |= dict.fromkeys(there, no_broker)
        there = {}
    node = rabbitmq.Node() if there else None
    with tempfile.TemporaryDirectory(prefix="lior-bench-") as directory:
        port = node.__enter__().port if node else 0
        try:
            with (lior.open(Path(directory) / "embedded") as qm, Serving(Path(directory) / "served") as server,
                  server.connect() as remote):  # fmt: skip
                for each in (qm, remote):
                    each.create_queue(QUEUE, transactional=True)
                contestants: dict[str, Callable[[], Rates]] = {
                    "lior embedded, 1": lambda: ours(qm, calls // 4, 1),
                    "lior embedded, 100": lambda: ours(qm, calls * 4, 100),
                    "lior serve, 1": lambda: ours(remote, calls // 4, 1),
                    "lior serve, 100": lambda: ours(remote, calls * 4, 100),
                }
                for peer in there:
                    contestants[peer] = lambda peer=peer: theirs(peer, python, port, calls)  # type: ignore[misc]
                results = measure(contestants, rounds)
        finally:
            if node:
                node.__exit__()
    return {"versions": there, "left out": missing, "rates": results}


def measure(contestants: dict[str, Callable[[], Rates]], rounds: int) -> dict[str, dict[str, list[float]]]:
    results: dict[str, dict[str, list[float]]] = {name: {"recorded": [], "played": []} for name in contestants}
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for name in random.sample(sorted(contestants), len(contestants)):
            for what, rate in contestants[name]().items():
                results[name][what].append(rate)
    return results


def show(found: dict[str, Any]) -> None:
    rates = found["rates"]
    against = [peer for peer in ("celery", "dramatiq") if peer in rates]
    print(f"{'calls a second':<22}{'recorded':>10}{'played':>10}" + "".join(
        f"{f'{what} x {peer}':>22}" for peer in against for what in ("recorded", "played")))
    for name, each in rates.items():
        line = f"{name:<22}{statistics.median(each['recorded']):>10,.0f}{statistics.median(each['played']):>10,.0f}"
        for peer in against:
            for what in ("recorded", "played"):
                ratios = [a / b for a, b in zip(each[what], rates[peer][what], strict=True)]
                line += f"{statistics.median(ratios):>22.2f}"
        print(line)
    for peer, version in found["versions"].items():
        print(f"{peer} {version} with RabbitMQ: persistent messages, confirms, one worker, acknowledged after the call")
    for peer, why in found["left out"].items():
        print(f"left out: {peer}: {why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.calls, options.rounds)
    print(json.dumps(found)) if options.json else show(found)


if __name__ == "__main__":
    main()
