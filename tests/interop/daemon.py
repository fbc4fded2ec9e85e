"""One real `lior serve` for a test: its own process, data directory and loopback address."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

import lior
from lior.client.sync import QueueManager
from lior.message import INFINITE

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 60.0
PORTS: Final = (1801, 15801)
# Timers of the protocol that tests do not want to wait for; what they are otherwise is in the documents.
QUICK: Final = {"binary.retry": 0.2}

T = TypeVar("T")
_second = itertools.count()
_chance = Random(f"{os.getpid()} {time.time()}")


def free_address() -> str:
    """A loopback address of whose ports nobody makes use; others may run the same tests beside us."""
    while True:
        address = f"127.{_chance.randrange(16, 250)}.{_chance.randrange(1, 250)}.{_chance.randrange(1, 250)}"
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in PORTS:
                held.enter_context(socket.create_server((address, port)))
            return address


def eventually(value: Callable[[], T], *, timeout: float = 20.0, what: str = "") -> T:
    """The first true value; polled, for it is another process's."""
    end = time.monotonic() + timeout
    while True:
        found = value()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not in {timeout} s: {what or value}")
        select.select([], [], [], 0.02)


class Daemon:
    """`with Daemon(tmp_path, queues={...}) as server: ...`; `kill` and `start` make the most of it."""

    def __init__(
        self, data: Path, *, address: str = "", settings: dict[str, Any] | None = None, command: Iterable[str] = ()
    ) -> None:
        self.data = data
        self.address = address or free_address()
        self.settings = {**QUICK, **(settings or {})}
        self.command = tuple(command) or (sys.executable, "-m", "lior.cli.main", "serve")
        self.log = data.with_name(data.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._qm: QueueManager | None = None

    # Life

    def __enter__(self) -> Daemon:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Daemon:
        assert self._process is None, "it runs"
        assignments = [f"--set={name}={value}" for name, value in self.settings.items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "--data", str(self.data), "--bind", self.address, *assignments],
                stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"},
            )  # fmt: skip
        self._wait_until_ready(self._process)
        return self

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        end = time.monotonic() + START_SECONDS
        said = b""
        while not any(line.startswith(b"ready") for line in said.splitlines()):
            wait = max(0.0, end - time.monotonic())
            data = os.read(process.stdout.fileno(), 4096) if select.select([process.stdout], [], [], wait)[0] else b""
            if not data:
                self.kill()
                raise AssertionError(f"it did not start: {said!r}\n{self.last_words()}")
            said += data

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and the process is gone when it returns."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        self._forget_client()
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            status = process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not stop\n{self.last_words()}") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()
        return status

    def restart(self) -> None:
        self.stop()
        self.start()

    def last_words(self, size: int = 4000) -> str:
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    # What it holds

    @property
    def qm(self) -> QueueManager:
        """A client of the running server."""
        if self._qm is None:
            self._qm = lior.connect(str(self.data))
        return self._qm

    def _forget_client(self) -> None:
        client, self._qm = self._qm, None
        if client is not None:
            with contextlib.suppress(lior.LiorError, OSError):
                client.close()

    @contextlib.contextmanager
    def offline(self) -> Iterator[QueueManager]:
        """The same queue manager without its server: embedded here, while the server is down."""
        assert not self.running, "the server has the directory"
        with lior.open(self.data) as manager:
            yield manager

    def prepare(self, *plain: str, transactional: Iterable[str] = (), **properties: Any) -> Daemon:
        """Queues that are there when it starts."""
        with self.offline() as manager:
            manager.set_properties(queue_manager_quota=INFINITE)
            for name in plain:
                manager.create_queue(rf".\private$\{name}", **properties)
            for name in transactional:
                manager.create_queue(rf".\private$\{name}", transactional=True, **properties)
        return self

    def memory(self) -> int:
        """Bytes in memory of the process."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def bodies(self, queue: str) -> list[bytes]:
        """What a queue of it holds, in order; nothing is taken."""
        with self.qm.open_queue(rf".\private$\{queue}", "peek") as opened:
            return [message.body for message in opened]

    def count(self, queue: str) -> int:
        return self.qm.queue(rf".\private$\{queue}").messages

    def holds(self, queue: str, count: int, timeout: float = 20.0) -> None:
        eventually(lambda: self.count(queue) >= count, timeout=timeout, what=f"{count} messages in {queue}")
        assert self.count(queue) == count
