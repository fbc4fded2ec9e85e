"""The library without asyncio: threads, Ctrl-C, closing in the middle of everything, and the program's end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.client.sync import Runner
from lior.errors import LiorError, OperationCancelled, QueueNotFound, ServiceNotAvailable, StoreInUse, Timeout

LONG = 120
QUEUE = r".\private$\work"


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What each thread returned or raised."""
    results: list[Any] = [None] * count

    def run(number: int) -> None:
        try:
            results[number] = work(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive(), "a call never returned"
    return results


def python(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * LONG, check=False)


def until_somebody_waits(qm: lior.QueueManager) -> None:
    while not qm.properties()["waiting_reads"]:
        pass


# Closing


def test_closing_twice_and_from_many_threads_frees_the_directory_before_any_of_them_returns(tmp_path: Path) -> None:
    for _ in range(5):
        qm = lior.open(tmp_path)

        def close(number: int, qm: lior.QueueManager = qm) -> None:
            qm.close()
            with pytest.raises(ServiceNotAvailable):
                qm.queues()
            assert not qm._runner._thread.is_alive()

        assert in_threads(8, close) == [None] * 8
        qm.close()


def test_every_call_after_the_end_is_refused_with_one_typed_error(tmp_path: Path) -> None:
    qm = lior.open(tmp_path)
    qm.create_queue(QUEUE)
    q = qm.open_queue(QUEUE)
    cursor, tx = q.cursor(), qm.transaction().begin()
    qm.close()
    for call in (
        lambda: qm.send(QUEUE, b"x"),
        lambda: q.receive(),
        lambda: q.peek(0),
        lambda: cursor.current(),
        lambda: tx.commit(),
        lambda: list(q),
        lambda: qm.compact(),
        lambda: q.close(),
    ):
        with pytest.raises(ServiceNotAvailable):
            call()


def test_calls_of_many_threads_end_when_another_one_closes(tmp_path: Path) -> None:
    """Whatever a call was doing, it returns, and every message whose send was answered is there afterwards."""
    for turn in range(6):
        directory = tmp_path / str(turn)
        qm = lior.open(directory)
        qm.create_queue(QUEUE)
        other = r".\private$\other"
        qm.create_queue(other)
        started = threading.Barrier(9)
        sent: list[int] = []

        def work(number: int, qm: Any = qm, other: str = other, started: Any = started, sent: Any = sent) -> None:
            started.wait(LONG)
            if number == 8:
                while len(sent) < 20:
                    qm.exists(other)
                qm.close()
                return
            while True:
                if number < 4:
                    qm.send(other, b"x")
                    sent.append(number)
                elif number == 4:
                    qm.receive(QUEUE)
                elif number == 5:
                    with qm.open_queue(QUEUE) as q:
                        q.receive_by_correlation_id(bytes(20), LONG)
                elif number == 6:
                    with qm.transaction() as tx:
                        tx.send(QUEUE, b"x")
                else:
                    qm.compact()

        results = in_threads(9, work)
        assert results[8] is None
        assert all(isinstance(result, LiorError) for result in results[:8]), results
        with lior.open(directory) as again:
            # a send may be on disk though its caller was told of the end
            assert len(sent) <= again.queue(other).messages <= len(sent) + 4


def test_a_call_that_the_end_overtook_is_refused_and_not_cancelled() -> None:
    """asyncio's CancelledError is no Exception: a thread's `except Exception` would not see it."""
    runner = Runner()
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    def stop(number: int) -> Any:
        if number:
            return runner.call(wait)
        assert begun.wait(LONG)
        return runner.stop()

    results = in_threads(2, stop)
    assert results[0] is None
    assert isinstance(results[1], ServiceNotAvailable)


def test_a_call_handed_over_while_the_loop_ends_is_answered() -> None:
    for _ in range(50):
        runner = Runner()
        start = threading.Barrier(5)

        async def quick() -> int:
            return 1

        def work(number: int, runner: Runner = runner, start: Any = start, quick: Any = quick) -> Any:
            start.wait(LONG)
            if number == 0:
                return runner.stop()
            while True:
                assert runner.call(quick) == 1

        results = in_threads(5, work)
        assert results[0] is None
        assert all(isinstance(result, ServiceNotAvailable) for result in results[1:]), results


def test_the_loops_own_thread_is_told_not_to_wait_for_itself(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        for method in (qm.queues, qm.close):

            async def call(method: Any = method) -> None:
                method()

            with pytest.raises(RuntimeError):
                qm._runner.call(call)
        assert qm.queues()


def test_a_call_that_exits_the_program_ends_only_itself(tmp_path: Path) -> None:
    class Exits:
        name = "exits"

        def encode(self, value: Any) -> tuple[bytes, int]:
            raise SystemExit(3)

        def decode(self, body: bytes, body_type: int) -> Any:
            return body

    with lior.open(tmp_path) as qm:
        qm.create_queue(QUEUE)
        with pytest.raises(SystemExit):
            qm.send(QUEUE, "x", formatter=Exits())
        qm.send(QUEUE, b"y")
        assert qm.queue(QUEUE).messages == 1


def test_a_failed_open_leaves_no_thread_and_frees_the_directory(tmp_path: Path) -> None:
    with lior.open(tmp_path):
        before = threading.active_count()
        for _ in range(3):
            with pytest.raises(StoreInUse):
                lior.open(tmp_path)
        assert threading.active_count() == before
    with lior.open(tmp_path) as qm, pytest.raises(QueueNotFound):
        qm.queue(QUEUE)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("-inf")])
def test_a_timeout_that_is_no_time_is_refused(tmp_path: Path, timeout: float) -> None:
    with lior.open(":memory:") as qm:
        qm.create_queue(QUEUE)
        with qm.open_queue(QUEUE) as q, pytest.raises(ValueError, match="timeout"):
            q.receive(timeout)


def test_an_infinite_timeout_waits(tmp_path: Path) -> None:
    with lior.open(":memory:") as qm:
        qm.create_queue(QUEUE)

        def work(number: int) -> Any:
            if number:
                until_somebody_waits(qm)
                return qm.send(QUEUE, b"x")
            return qm.receive(QUEUE, float("inf")).body

        assert in_threads(2, work)[0] == b"x"


# Ctrl-C


def interrupted(qm: lior.QueueManager, call: Callable[[], Any]) -> None:
    """Make the call in this thread, and press Ctrl-C when a read waits."""
    me = threading.main_thread().ident
    assert me is not None and threading.get_ident() == me

    def press() -> None:
        until_somebody_waits(qm)
        signal.pthread_kill(me, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    presser.join(LONG)


def test_ctrl_c_ends_a_receive_which_then_takes_nothing(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        qm.create_queue(QUEUE)
        with qm.open_queue(QUEUE) as q:
            interrupted(qm, q.receive)
            qm.send(QUEUE, b"x")
            assert q.receive(0).body == b"x"


def test_ctrl_c_in_a_transaction_puts_back_what_it_took(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        qm.create_queue(QUEUE, transactional=True)
        qm.send(QUEUE, b"1")

        def both() -> None:
            with qm.open_queue(QUEUE) as q, qm.transaction() as tx:
                assert q.receive(0, transaction=tx).body == b"1"
                q.receive(transaction=tx)

        interrupted(qm, both)
        assert qm.transactions() == []
        with qm.open_queue(QUEUE) as q:
            again = q.receive(0)
            assert (again.body, again.abort_count) == (b"1", 1)


def test_ctrl_c_leaves_the_with_block_closed_and_everything_answered_on_disk(tmp_path: Path) -> None:
    def block() -> None:
        with lior.open(tmp_path) as qm:
            opened.append(qm)
            qm.create_queue(QUEUE)
            qm.create_queue(r".\private$\empty")
            for n in range(20):
                qm.send(QUEUE, b"%d" % n)
            ready.set()
            qm.receive(r".\private$\empty")

    opened: list[lior.QueueManager] = []
    ready = threading.Event()

    def press() -> None:
        assert ready.wait(LONG)
        until_somebody_waits(opened[0])
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        block()
    presser.join(LONG)
    with lior.open(tmp_path) as again:
        assert again.queue(QUEUE).messages == 20


# The program's end


def test_a_program_that_ends_without_closing_loses_nothing_and_ends(tmp_path: Path) -> None:
    program = """
import sys, threading, lior
qm = lior.open(sys.argv[1])
if not qm.exists(r".\\private$\\work"):
    qm.create_queue(r".\\private$\\work")
waiting = threading.Thread(target=lambda: qm.open_queue(r"DIRECT=OS:.\\private$\\work").peek(), daemon=True)
waiting.start()
for n in range(10):
    qm.send(r".\\private$\\work", b"x")
"""
    for count in (10, 20):
        done = python(program, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        with lior.open(tmp_path) as qm:
            assert qm.queue(QUEUE).messages == count
    with lior.open(tmp_path) as qm:
        number = qm.send(QUEUE, b"last").uniquifier
        assert number <= 100  # the numbers of the sends before were given back, not burnt by blocks


def test_a_forked_process_is_refused_and_leaves_its_parents_queue_manager_alone(tmp_path: Path) -> None:
    program = """
import os, sys, lior
from lior.errors import ServiceNotAvailable
qm = lior.open(sys.argv[1])
qm.create_queue(r".\\private$\\work")
child = os.fork()
if child == 0:
    try:
        qm.send(r".\\private$\\work", b"child")
    except ServiceNotAvailable:
        qm.close()
        sys.exit(7)
    sys.exit(1)
_, status = os.waitpid(child, 0)
qm.send(r".\\private$\\work", b"parent")
assert qm.queue(r".\\private$\\work").messages == 1
qm.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = python(program, tmp_path)
    assert (done.returncode, done.stderr) == (7, "")
    with lior.open(tmp_path) as qm:
        assert qm.receive(QUEUE, 0).body == b"parent"


def test_the_directory_is_free_after_a_close_though_a_forked_process_lives_on(tmp_path: Path) -> None:
    program = """
import os, sys, lior
qm = lior.open(sys.argv[1])
ours, theirs = os.pipe()
child = os.fork()
if child == 0:
    os.close(theirs)
    os.read(ours, 1)
    os._exit(0)
qm.close()
lior.open(sys.argv[1]).close()
os.close(theirs)
os.waitpid(child, 0)
"""
    done = python(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_two_queue_managers_serve_one_program(tmp_path: Path) -> None:
    with lior.open(tmp_path / "a") as a, lior.open(tmp_path / "b") as b:
        for qm in (a, b):
            qm.create_queue(QUEUE)
        a.send(QUEUE, b"a")
        a.close()
        b.send(QUEUE, b"b")
        assert b.receive(QUEUE, 0).body == b"b"
        with pytest.raises(Timeout):
            b.receive(QUEUE, 0)


def test_a_read_that_waits_ends_as_cancelled_when_the_queue_manager_closes(tmp_path: Path) -> None:
    qm = lior.open(tmp_path)
    qm.create_queue(QUEUE)

    def work(number: int) -> Any:
        if number:
            until_somebody_waits(qm)
            return qm.close()
        return qm.receive(QUEUE)

    assert isinstance(in_threads(2, work)[0], OperationCancelled)
