"""A TCP proxy that does to connections what networks do: delays, splits, cuts, holds and overtakes. Seeded.

It runs a loop in a thread of its own and connects to the target from the address of the client, so that the target
sees the same peer as without it. Bytes of one direction keep their order, as TCP promises; nothing else is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import struct
import threading
from dataclasses import dataclass
from random import Random

CHUNK = 1 << 16
CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Faults:
    """Probabilities, and durations in seconds. The default is a perfect network."""

    split: float = 0.0  # of a chunk to go in pieces
    delay: float = 0.0  # the longest wait of a piece
    stall: float = 0.0  # of a piece to wait ten times as long: other connections overtake it
    hold: float = 0.0  # of a connection to be accepted and answered by nobody
    hold_seconds: float = 1.0  # and then closed
    lose_after: int = 0  # a connection is cut after a random number of bytes up to this; 0: never


class Cut(enum.Enum):
    """How a connection ends."""

    RESET = "both sides get an RST"
    CLOSE = "both sides get a FIN"
    FORGET = "the client gets an RST; what it had sent still reaches the target, late"
    DEAF = "the target gets an RST; the client is told later"


class Link:
    """A connection of a client, and ours to the target."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.target: asyncio.StreamWriter | None = None
        self.left = -1  # bytes until it is cut; -1: no limit
        self.tasks: list[asyncio.Task[None]] = []

    def abort(self, writer: asyncio.StreamWriter | None) -> None:
        """With an RST."""
        if writer is None:
            return
        connection = writer.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


class Proxy:
    """`with Proxy(("127.0.0.9", 1801), ("127.0.0.2", 1801), seed) as proxy: ... proxy.cut()`"""

    def __init__(
        self, listen: tuple[str, int], target: tuple[str, int], seed: int, faults: Faults | None = None
    ) -> None:
        self.listen = listen
        self.target = target
        self.faults = faults or Faults()
        self.accepted = 0
        self.held = 0
        self.cuts = 0
        self._chance = Random(seed)
        self._links: set[Link] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._run, name=f"proxy {listen[0]}", daemon=True)
        self._started = threading.Event()

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._started.wait(60)
        if self._server is None:
            raise OSError(f"nobody listens on {self.listen}")
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self, how: Cut | None = None) -> int:
        """End one connection, if there is one: how many were cut."""
        return asyncio.run_coroutine_threadsafe(self._cut_one(how), self._loop).result(10)

    def become(self, faults: Faults) -> None:
        """Other faults from now on."""
        self.faults = faults

    # On the loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._server = self._loop.run_until_complete(asyncio.start_server(self._accept, *self.listen))
        except OSError:
            return
        finally:
            self._started.set()
        self._loop.run_forever()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [task for link in self._links for task in link.tasks]
        for link in list(self._links):
            self._end(link, Cut.RESET)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = Link(writer)
        self._links.add(link)
        task = asyncio.current_task()
        assert task is not None
        link.tasks.append(task)
        try:
            if self._chance.random() < self.faults.hold:
                self.held += 1
                await asyncio.sleep(self.faults.hold_seconds)
                return
            await self._join(link, reader)
        except (OSError, TimeoutError):
            pass
        finally:
            self._end(link, Cut.RESET)

    async def _join(self, link: Link, reader: asyncio.StreamReader) -> None:
        source = link.client.get_extra_info("peername")[0]
        async with asyncio.timeout(CONNECT_SECONDS):
            answers, link.target = await asyncio.open_connection(*self.target, local_addr=(source, 0))
        if self.faults.lose_after:
            link.left = self._chance.randrange(1, self.faults.lose_after)
        there = asyncio.create_task(self._pump(link, reader, link.target))
        back = asyncio.create_task(self._pump(link, answers, link.client))
        link.tasks += [there, back]
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)

    async def _pump(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                for piece in self._pieces(data):
                    if wait := self._wait():
                        await asyncio.sleep(wait)
                    if link.left >= 0:
                        piece = piece[: link.left]
                        link.left -= len(piece)
                    writer.write(piece)
                    await writer.drain()
                    if link.left == 0:
                        self.cuts += 1
                        return

    def _pieces(self, data: bytes) -> list[bytes]:
        if self._chance.random() >= self.faults.split:
            return [data]
        places = sorted(self._chance.randrange(len(data) + 1) for _ in range(self._chance.randrange(1, 5)))
        return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b]

    def _wait(self) -> float:
        wait = self._chance.uniform(0, self.faults.delay)
        return wait * 10 if self._chance.random() < self.faults.stall else wait

    async def _cut_one(self, how: Cut | None) -> int:
        joined = [link for link in self._links if link.target is not None]
        if not joined:
            return 0
        self.cuts += 1
        self._end(self._chance.choice(joined), how or self._chance.choice(list(Cut)))
        return 1

    def _end(self, link: Link, how: Cut) -> None:
        if link not in self._links:
            return
        self._links.discard(link)
        if how is Cut.CLOSE:
            link.client.close()
            if link.target is not None:
                link.target.close()
            return
        if how is not Cut.DEAF:
            link.abort(link.client)
        if how is not Cut.FORGET:
            link.abort(link.target)
        if how in (Cut.FORGET, Cut.DEAF):
            self._loop.call_later(10 * self.faults.delay + 0.1, self._forget, link)

    def _forget(self, link: Link) -> None:
        link.abort(link.client)
        link.abort(link.target)
