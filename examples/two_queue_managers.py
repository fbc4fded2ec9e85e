"""Two queue managers, each a process with an address of its own. One sends to the other, which is killed in the
middle and started again; every message arrives once, the transactional ones in order.

    python examples/two_queue_managers.py

It works in a directory of its own, which it removes, and ends with exit code 0 only if all of this held.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lior

ORDERS, PAYMENTS = r".\private$\orders", r".\private$\payments"  # the second is transactional
MESSAGES = 600
PER_TRANSACTION = 20
WAIT = 60  # seconds


class Host:
    """`lior serve` on a loopback address that nobody else uses."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.address = f"127.{random.randrange(100, 250)}.{random.randrange(250)}.{random.randrange(1, 250)}"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "lior.cli.main", "serve", "--data", str(self.data), "--bind", self.address,
                   "--set", "binary.retry=0.5", "--set", "log.level=error"]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        if not self.process.stdout.readline().startswith("ready"):
            sys.exit(f"the queue manager on {self.address} did not start")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def name(self, queue: str) -> str:
        """What others call a queue of this host."""
        return f"DIRECT=TCP:{self.address}{queue[1:]}"


def send(sender: Host, receiver: Host, first: int, count: int) -> None:
    """As many recoverable messages as transactional ones, numbered on."""
    with lior.connect(sender.data) as qm:
        with qm.open_queue(receiver.name(ORDERS), "send") as queue:
            for number in range(first, first + count):
                queue.send(f"order {number}")
        for start in range(first, first + count, PER_TRANSACTION):
            with qm.transaction() as tx:
                for number in range(start, start + PER_TRANSACTION):
                    tx.send(receiver.name(PAYMENTS), f"payment {number}")


def arrived(host: Host, queue: str) -> int:
    with lior.connect(host.data) as qm:
        return qm.queue(queue).messages


def wait_for(host: Host, queue: str, count: int) -> None:
    end = time.monotonic() + WAIT
    while arrived(host, queue) < count:
        if time.monotonic() > end:
            sys.exit(f"{arrived(host, queue)} of {count} messages arrived in {queue}")
        time.sleep(0.05)


def receive(host: Host, queue: str) -> list[object]:
    found: list[object] = []
    with lior.connect(host.data) as qm, qm.open_queue(queue) as opened, contextlib.suppress(lior.errors.Timeout):
        while True:
            found.append(opened.receive(timeout=1).value())
    return found


def show(text: str) -> None:
    print(text, flush=True)


def check(held: bool, what: str) -> None:
    show(f"  {'yes' if held else 'NO '}  {what}")
    if not held:
        sys.exit(1)


def demonstrate(here: Host, there: Host) -> None:
    here.start()
    there.start()
    show(f"Two queue managers serve, on {here.address} and {there.address}.")
    with lior.connect(there.data) as qm:
        qm.create_queue(ORDERS)
        qm.create_queue(PAYMENTS, transactional=True)
    third = MESSAGES // 3
    send(here, there, 0, third)
    wait_for(there, PAYMENTS, PER_TRANSACTION)
    there.kill()
    show(f"{2 * third} messages sent to the second one, which was then killed.")
    send(here, there, third, third)
    show(f"{2 * third} more sent while it was down.")
    there.start()
    send(here, there, 2 * third, third)
    show("It is up again, and got the rest.")
    wait_for(there, ORDERS, MESSAGES)
    wait_for(there, PAYMENTS, MESSAGES)
    numbers = range(MESSAGES)
    orders, payments = receive(there, ORDERS), receive(there, PAYMENTS)
    each_once = sorted(map(str, orders)) == sorted(f"order {n}" for n in numbers)
    check(each_once, f"{MESSAGES} recoverable messages, each once")
    check(payments == [f"payment {n}" for n in numbers], f"{MESSAGES} transactional messages, each once and in order")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lior-") as parent:
        here, there = Host(Path(parent, "here")), Host(Path(parent, "there"))
        try:
            demonstrate(here, there)
        finally:
            here.stop()
            there.stop()
    show("Sent over the network, killed, received exactly once.")


if __name__ == "__main__":
    os.environ.pop("LIOR_SERVER", None)
    main()
