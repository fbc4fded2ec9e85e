"""Messages received ahead of their turn, each in a transaction of its own, in the order of the queue.

Over a connection, beginning a transaction and receiving take a round trip each; while one message is played the next
ones make theirs. What is received ahead is out of other players' reach: so no more than can be played in a moment.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from lior.client.aio import Queue, QueueManager, Transaction
from lior.client.calling import NO_WAIT
from lior.client.message import ReceivedMessage
from lior.errors import LiorError, Timeout

Taken = tuple[Transaction, ReceivedMessage]
MOMENT: Final = 0.05  # seconds
_WEIGHT: Final = 0.2  # of the latest message in the average


class Intake:
    def __init__(self, manager: QueueManager, queue: Queue, ahead: int) -> None:
        self._manager = manager
        self._queue = queue
        self._most = self._ahead = ahead
        self._average = 0.0  # seconds that a message takes
        self._coming: deque[asyncio.Task[Taken | None]] = deque()
        self._latest = asyncio.Event()  # the latest receive is on its way
        self._latest.set()
        self._under_way = 0  # receives
        self._quiet = 0  # who wants none
        self._changed = asyncio.Condition()

    def played(self, seconds: float) -> None:
        """How long a message took: slow ones are not hoarded."""
        self._average += _WEIGHT * (seconds - self._average)
        self._ahead = min(self._most, max(1, int(MOMENT / self._average))) if self._average else self._most

    async def next(self) -> Taken | None:
        """The message whose turn it is; None when the queue is empty."""
        empty = 0
        while empty <= self._ahead:
            while len(self._coming) <= self._ahead - empty:
                self._coming.append(self._start())
            if not self._coming:
                break
            taken = await self._coming.popleft()
            if taken is not None:
                return taken
            empty += 1
        return None

    def _start(self) -> asyncio.Task[Taken | None]:
        before, self._latest = self._latest, asyncio.Event()
        return asyncio.create_task(self._take(before, self._latest))

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """No receive in the block: a message that is given back there can be moved before anyone takes it again."""
        async with self._changed:
            self._quiet += 1
            await self._changed.wait_for(lambda: not self._under_way)
        try:
            yield
        finally:
            async with self._changed:
                self._quiet -= 1
                self._changed.notify_all()

    async def _take(self, before: asyncio.Event, issued: asyncio.Event) -> Taken | None:
        try:
            transaction = await self._manager.transaction().begin()
            await before.wait()  # receives leave in order, so messages come in order
            async with self._changed:
                await self._changed.wait_for(lambda: not self._quiet)
                self._under_way += 1
            receiving = asyncio.ensure_future(self._queue.receive(NO_WAIT, transaction=transaction))
        finally:
            issued.set()
        try:
            return transaction, await receiving
        except Timeout:
            await transaction.abort()
            return None
        except BaseException:
            with suppress(LiorError):
                await transaction.abort()
            raise
        finally:
            async with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    async def close(self) -> None:
        """Give back what was received ahead."""
        coming, self._coming = list(self._coming), deque()
        for found in await asyncio.gather(*coming, return_exceptions=True):
            if isinstance(found, tuple):
                with suppress(LiorError):
                    await found[0].abort()
