"""Queues, actions that leave a record of themselves, and a web server, for the tests of triggers."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lior.client.triggers import Command, Conditions, Http, Rule, Trigger

ORDERS = r".\private$\orders"

RECORDER = """
import json, os, sys
record = {
    "arguments": sys.argv[2:],
    "environment": {n: v for n, v in os.environ.items() if n.startswith("LIOR_")},
    "others": [n for n in os.environ if not n.startswith("LIOR_")],
    "body": sys.stdin.buffer.read().hex(),
}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(record) + "\\n")
fails = sys.argv[1] + ".fails"
if os.path.exists(fails):
    left = int(open(fails).read())
    if left:
        open(fails, "w").write(str(left - 1))
        print("no luck")
        sys.exit(3)
"""


class Recorder:
    """A program that writes down how it was run, and fails as often as it is told to."""

    def __init__(self, directory: Path) -> None:
        self._program = directory / "recorder.py"
        self._program.write_text(RECORDER)
        self._file = directory / "record"

    def command(self, *arguments: str, **options: Any) -> Command:
        return Command((sys.executable, "-S", str(self._program), str(self._file), *arguments), **options)

    def fail(self, times: int) -> None:
        Path(f"{self._file}.fails").write_text(str(times))

    @property
    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._file.read_text().splitlines()] if self._file.exists() else []

    @property
    def labels(self) -> list[str]:
        return [run["environment"]["LIOR_LABEL"] for run in self.runs]


def rule(action: Command | Http, name: str = "r", when: Conditions | None = None, **options: Any) -> Rule:
    return Rule(name=name, action=action, when=when or Conditions(), **options)


def trigger(mode: str, *rules: Rule, **options: Any) -> Trigger:
    values: dict[str, Any] = {"name": "t", "queue": ORDERS, "mode": mode, "rules": rules, "retry_delay": 0.01}
    return Trigger(**values | options)


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Until something that happens outside of this loop has happened."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebServer:
    url: str = ""
    status: int = 200
    requests: list[Received] = field(default_factory=list)
    drip: threading.Event | None = None  # answer one byte at a time until it is set


@contextmanager
def web_server() -> Iterator[WebServer]:
    state = WebServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append(Received(self.command, self.path, dict(self.headers), body))
            self.send_response(state.status)
            self.send_header("Location", state.url)
            self.end_headers()
            while state.drip is not None and not state.drip.wait(0.05):
                self.wfile.write(b".")
                self.wfile.flush()

        do_PUT = do_POST  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        if state.drip is not None:
            state.drip.set()
        server.shutdown()
        thread.join()
        server.server_close()
