"""A queue manager as a child process: `lior serve`, started, killed and started again by a test.

    with Serving(tmp_path / "data", bind="127.0.0.2") as server:
        with server.connect() as qm:
            qm.create_queue(r".\\private$\\orders")
        server.kill()
        server.start()

Without `bind` each server has a loopback address of its own, so that many run on the standard ports at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Any, Final, Self

import lior

SECONDS: Final = 180.0  # for a start or a stop, on a machine with much else to do
_SOURCE: Final = Path(lior.__file__).resolve().parent.parent
_random = SystemRandom()


class NotServing(AssertionError):
    """The server ended before it was ready, or did not end in time."""


def loopback_address() -> str:
    """One of 16 million, so that no two tests meet."""
    return f"127.{_random.randrange(1, 255)}.{_random.randrange(256)}.{_random.randrange(1, 255)}"


class Serving:
    """`settings` are those of docs/configuration.md: {"log.level": "debug", "admin.port": 0}."""

    def __init__(
        self,
        data: str | os.PathLike[str],
        bind: str | None = None,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data = Path(data)
        self.bind = bind or loopback_address()
        self.settings = {"bulk.port": 0, **(settings or {})}  # a process more, which few tests want
        self.environment = dict(environment or {})
        self.ready: dict[str, Any] = {}  # what the line `ready` said
        self.process: subprocess.Popen[str] | None = None
        self._log: list[str] = []
        self._reader: threading.Thread | None = None

    # What it says

    @property
    def address(self) -> str:
        """Its own: the host of `DIRECT=TCP:...` names."""
        return self.bind

    @property
    def admin_url(self) -> str:
        """http://address:port; empty if the port is off."""
        return str(self.ready.get("admin", ""))

    @property
    def socket_path(self) -> str:
        return str(self.ready["socket"])

    @property
    def binary(self) -> tuple[str, int]:
        """Where it listens for other queue managers."""
        host, _, port = str(self.ready["binary"]).partition(",")[0].rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def token(self) -> str:
        return (self.data / "admin.token").read_text().strip()

    @property
    def log(self) -> str:
        """Standard error so far."""
        return "".join(self._log)

    def queue(self, name: str) -> str:
        """The format name of a private queue on this server, for others."""
        return f"DIRECT=TCP:{self.bind}\\private$\\{name}"

    def connect(self) -> lior.QueueManager:
        return lior.connect(self.data)

    # Its life

    def command(self) -> list[str]:
        assignments = [f"--set={name}={_toml(value)}" for name, value in self.settings.items()]
        return [sys.executable, "-m", "lior.cli.main", "serve", f"--data={self.data}", f"--bind={self.bind}", "--json",
                *assignments]  # fmt: skip

    def start(self) -> Self:
        """Start, and wait until it accepts work."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LIOR_")}
        environment = kept | {"PYTHONPATH": str(_SOURCE)} | self.environment
        self.ready = {}
        self.process = subprocess.Popen(
            self.command(), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._keep_log, args=(self.process.stderr,), daemon=True)
        self._reader.start()
        watchdog = threading.Timer(SECONDS, self.process.kill)
        watchdog.start()
        try:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            code = self.wait()
            raise NotServing(f"lior serve ended with {code} before it was ready:\n{self.log}")
        self.ready = json.loads(line)
        return self

    def _keep_log(self, stream: Any) -> None:
        for line in stream:
            self._log.append(line)
        stream.close()

    def wait(self, seconds: float = SECONDS) -> int:
        """Until it ended; its exit code."""
        assert self.process is not None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise NotServing(f"lior serve did not end within {seconds} s:\n{self.log}") from None
        if self._reader is not None:
            self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def kill(self) -> int:
        """As a crash: no warning."""
        assert self.process is not None
        self.process.kill()
        return self.wait()

    def terminate(self) -> int:
        """As systemd stops a service; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def restart(self, *, kill: bool = False) -> Self:
        """Stop it, or kill it, and start it on the same data and address."""
        if self.running:
            self.kill() if kill else self.terminate()
        return self.start()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running:
            self.terminate() if error is None else self.kill()
        elif self.process is not None:
            self.wait()


def _toml(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value) if isinstance(value, str) else str(value)
