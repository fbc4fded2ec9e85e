"""An HTTP proxy that does to requests and answers what networks do: it loses, delays, doubles and disorders. Seeded."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Tampering:
    """Probabilities for each request; durations in seconds. The default is a perfect network."""

    lose_request: float = 0.0  # the target never hears of it
    lose_answer: float = 0.0  # the target has done it, and nobody learns of it
    double: float = 0.0  # the target gets it twice
    delay: float = 0.0  # the client is told that the connection broke; the target gets it later
    delay_seconds: float = 0.2


class HttpProxy:
    """`only` says which requests are tampered with; `seen` is told of each request and the status of its answer."""

    def __init__(
        self, listen: tuple[str, int], target: tuple[str, int], seed: int, tampering: Tampering | None = None,
        only: Callable[[bytes], bool] = lambda request: True,
    ) -> None:  # fmt: skip
        self.listen, self.target = listen, target
        self.tampering = tampering or Tampering()
        self.counts: Counter[str] = Counter()
        self.requests: list[bytes] = []
        self._only = only
        self._chance = Random(seed)
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self._late: set[asyncio.Task[None]] = set()

    @property
    def cuts(self) -> int:
        return sum(self.counts[what] for what in ("lost requests", "lost answers", "delayed", "cut"))

    def __enter__(self) -> HttpProxy:
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def cut(self) -> int:
        """End a connection of a client, if there is one."""
        return self._call(self._cut_one())

    def _call(self, what: Awaitable[int]) -> int:
        async def run() -> int:
            return await what

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    async def _cut_one(self) -> int:
        writers = list(self._writers)
        if not writers:
            return 0
        self._chance.choice(writers).transport.abort()
        self.counts["cut"] += 1
        return 1

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, *self.listen, limit=1 << 24))
        self._started.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await read_message(reader)
        self.requests.append(request)
        given, chance = self.tampering, self._chance.random
        if not self._only(request):
            given = Tampering()
        if chance() < given.lose_request:
            self.counts["lost requests"] += 1
            return False
        if chance() < given.delay:
            self.counts["delayed"] += 1
            task = self._loop.create_task(self._later(request, given.delay_seconds))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            return False
        answer = await self._forward(request)
        if chance() < given.double:
            self.counts["doubled"] += 1
            await self._forward(request)
        self.counts[answer[9:12].decode()] += 1
        if chance() < given.lose_answer:
            self.counts["lost answers"] += 1
            return False
        writer.write(answer)
        await writer.drain()
        return True

    async def _later(self, request: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            await self._forward(request)

    async def _forward(self, request: bytes) -> bytes:
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(*self.target)
            try:
                writer.write(request)
                return await read_message(reader)
            finally:
                writer.transport.abort()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """A request or an answer with its entity, as it came."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")
