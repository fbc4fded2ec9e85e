"""A program that sends in transactions is killed in the middle. What it had committed is there, whole; the
rest is not. Then everything is received, exactly once.

    python examples/first_steps.py

It works in a directory of its own, which it removes, and ends with exit code 0 only if all of this held.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lior

QUEUE = r".\private$\orders"
MESSAGES = 100
PER_TRANSACTION = 5
LAST_SENT = 43  # the third order of the ninth transaction


def sender(directory: str) -> None:
    """The child: order 1 to 100 in transactions of five. It prints the last order of each commit, and does
    not live to see the end: in the middle of a transaction it waits for its killer."""
    with lior.open(directory) as qm:
        for first in range(1, MESSAGES + 1, PER_TRANSACTION):
            with qm.transaction() as tx:
                for number in range(first, first + PER_TRANSACTION):
                    tx.send(QUEUE, f"{number} crates of tea", label=f"order {number}")
                    if number == LAST_SENT:
                        print("sent", number, flush=True)
                        signal.pause()
            print("committed", number, flush=True)


def send_and_kill(directory: str) -> int:
    """Start the child and kill it while it sends. Returns the last order that it committed."""
    child = subprocess.Popen([sys.executable, __file__, directory], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    committed = sent = 0
    for line in child.stdout:
        what, number = line.split()
        if what == "sent":
            sent = int(number)
            child.send_signal(signal.SIGKILL)
        else:
            committed = int(number)
    code = child.wait()
    show(f"A child process was to send {MESSAGES} orders in transactions of {PER_TRANSACTION}.")
    show(f"It committed {committed}, sent {sent - committed} more, and was killed (exit code {code}).")
    check(code == -signal.SIGKILL and sent == LAST_SENT, "it was killed in the middle of a transaction")
    return committed


def examine(directory: str, committed: int) -> None:
    """Reopen and look."""
    started = time.perf_counter()
    with lior.open(directory) as qm, qm.open_queue(QUEUE, "peek") as queue:
        opened = time.perf_counter() - started
        labels = [message.label for message in queue]
    show(f"Reopened in {opened * 1000:.0f} ms: {len(labels)} orders are in the queue.")
    check(len(labels) == committed, "exactly the committed ones; nothing of the transaction that was open")
    check(labels == [f"order {number}" for number in range(1, committed + 1)], "in the order of sending, each once")


def receive(directory: str, committed: int) -> None:
    """Take everything in one transaction; first in vain, then for good."""
    with lior.open(directory) as qm:
        with contextlib.suppress(ChangeOfMind), qm.transaction() as tx:
            taken = len(bodies(qm, tx))
            raise ChangeOfMind
        left = qm.queue(QUEUE).messages
        check(taken == left == committed, f"a transaction that is given up gives all {left} orders back")
        with qm.transaction() as tx:
            received = bodies(qm, tx)
        whole = received == [f"{number} crates of tea" for number in range(1, committed + 1)]
        check(whole, f"{len(received)} orders received in a transaction, with their bodies")
    with lior.open(directory) as qm:
        check(qm.queue(QUEUE).messages == 0, "after one more restart the queue is empty: each was received once")


class ChangeOfMind(Exception):
    """A reason to give up a transaction."""


def bodies(qm: lior.QueueManager, tx: lior.Transaction) -> list[object]:
    """What every message of the queue holds, taken in the transaction."""
    found: list[object] = []
    with qm.open_queue(QUEUE) as queue, contextlib.suppress(lior.errors.Timeout):
        while True:
            found.append(queue.receive(timeout=0, transaction=tx).value())
    return found


def show(text: str) -> None:
    print(text, flush=True)


def check(held: bool, what: str) -> None:
    show(f"  {'yes' if held else 'NO '}  {what}")
    if not held:
        sys.exit(1)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lior-") as parent:
        directory = os.fspath(Path(parent, "data"))
        with lior.open(directory) as qm:
            info = qm.create_queue(QUEUE, transactional=True)
            show(f"Made the transactional queue {info.path} in a new data directory.")
        committed = send_and_kill(directory)
        examine(directory, committed)
        receive(directory, committed)
    show("Sent, killed, received exactly once.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sender(sys.argv[1])
    else:
        main()
