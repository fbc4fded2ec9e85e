"""Finding the messages of a queue that are new to a trigger.

A cursor remembers the place, but what arrives behind it (a higher priority, a message that a transaction gave
back) it never shows. So the first message is looked at each time, and the queue is gone through again from the
start now and then; the identifiers of messages that were dealt with are remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from lior.client.aio import Cursor, Queue
from lior.client.message import ReceivedMessage
from lior.errors import LiorError, MessageAlreadyReceived, MessageNotFound, Timeout

POLL: Final = 0.5  # seconds between looks at the head of a queue that holds only known messages
SHARE: Final = 20  # going through the queue again takes at most 1/20 of the time
REMEMBERED: Final = 1_000_000  # identifiers kept of messages that are no longer seen
TURN: Final = 64  # messages passed over before others get their turn on the loop


class Scanner:
    """Messages of one queue, each once: until `settled` it may be shown again, afterwards never."""

    def __init__(self, queue: Queue, settled: dict[int, None], busy: Collection[int]) -> None:
        """`settled` grows in the order of settling and outlives the scanner; `busy` are being dealt with."""
        self._queue = queue
        self._busy = busy
        self._settled = settled
        self._cursor: Cursor | None = None
        self._at_start = True
        self._came: ReceivedMessage | None = None  # while waiting at the cursor
        self._empty = False
        self._seen: set[int] = set()  # in this pass
        self._pass_began = 0.0
        self._next_pass = 0.0
        self._stopping = asyncio.Event()

    def settled(self, lookup_id: int) -> None:
        """This message is done with, though it may stay in the queue."""
        self._settled[lookup_id] = None

    def stop(self) -> None:
        self._stopping.set()

    async def close(self) -> None:
        cursor, self._cursor = self._cursor, None
        self._came = None
        if cursor is not None:
            with suppress(LiorError):
                await cursor.close()

    async def next(self, *, wait: bool) -> ReceivedMessage | None:
        """The next message to deal with. None: stopped, or, without `wait`, none is left."""
        while not self._stopping.is_set():
            found = await self._head() or await self._onward()
            if found is not None:
                return found
            if not wait:
                return None
            await self._until_something_may_be_there()
        return None

    def _is_new(self, message: ReceivedMessage) -> bool:
        lookup_id = message.lookup_identifier
        return lookup_id not in self._settled and lookup_id not in self._busy

    async def _head(self) -> ReceivedMessage | None:
        """Priority goes first: what came to the head of the queue does not wait for the next pass."""
        try:
            message = await self._queue.peek(0)
        except Timeout:
            self._empty = True
            return None
        self._empty = False
        return message if self._is_new(message) else None

    async def _onward(self) -> ReceivedMessage | None:
        """The next new message of this pass; None at its end."""
        loop = asyncio.get_running_loop()
        cursor = self._cursor or await self._begin_pass()
        passed = 0
        while not self._stopping.is_set():
            message = self._came or await self._step(cursor, 0.0)
            self._came = None
            if message is None:
                self._end_pass(loop.time())
                return None
            self._seen.add(message.lookup_identifier)
            if self._is_new(message):
                return message
            passed += 1
            if passed % TURN == 0:
                await asyncio.sleep(0)
        return None

    async def _begin_pass(self) -> Cursor:
        await self.close()
        self._cursor = await self._queue.cursor()
        self._at_start, self._pass_began = True, asyncio.get_running_loop().time()
        self._seen.clear()
        return self._cursor

    async def _step(self, cursor: Cursor, timeout: float) -> ReceivedMessage | None:
        try:
            message = await (cursor.current if self._at_start else cursor.next)(timeout)
        except (Timeout, MessageNotFound, MessageAlreadyReceived):
            return None
        self._at_start = False
        return message

    def _end_pass(self, now: float) -> None:
        """Forget the longest settled of what the queue no longer shows; a million is kept, for a message that
        a transaction holds comes back."""
        if not self._next_pass:
            self._next_pass = now + max(POLL, SHARE * (now - self._pass_began))
        if len(self._settled) > REMEMBERED + len(self._seen):
            gone = [lookup_id for lookup_id in self._settled if lookup_id not in self._seen]
            for lookup_id in gone[: len(gone) - REMEMBERED]:
                del self._settled[lookup_id]

    async def _until_something_may_be_there(self) -> None:
        """Wait at the cursor, not longer than POLL; then see whether a new pass is due."""
        cursor = self._cursor
        if cursor is None or self._empty:
            cursor = await self._begin_pass()  # at the start of an empty queue nothing can come behind it
        waiting = asyncio.ensure_future(self._step(cursor, POLL))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            waiting.cancel()
            await asyncio.gather(waiting, stopping, return_exceptions=True)
        if not waiting.cancelled():
            self._came = waiting.result()
        if self._came is None and self._next_pass and asyncio.get_running_loop().time() >= self._next_pass:
            self._next_pass = 0.0
            await self.close()
