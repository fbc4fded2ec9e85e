"""The player: takes recorded messages from an application's queue and makes their calls (3.1).

    async with aio.Player(manager, orders) as player:
        await player.wait()

On a transactional queue, receiving a message, what its methods send, and the end of the receive are one transaction;
a method that raises undoes all of it, and the message climbs the ladder. On any other queue a message is played at most
once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Literal, Self

from lior.client.aio import Queue, QueueManager, Transaction
from lior.client.message import ReceivedMessage
from lior.components.application import Application, Playback, Rejected
from lior.components.destinations import default_queue
from lior.components.events import Event, Figures, Hook, Reporter, described
from lior.components.finals import final_retry
from lior.components.intake import Intake
from lior.components.ladder import DEAD, Ladder
from lior.components.places import Places
from lior.components.playback import CallFailed, Stage
from lior.errors import (
    LiorError,
    MessageLocked,
    MessageNotFound,
    ServiceNotAvailable,
    StoreCorrupt,
    StoreUnusable,
    Timeout,
    TransactionUsage,
)

GONE: Final = (MessageNotFound, MessageLocked, TransactionUsage)  # another reader was faster
FOR_GOOD: Final = (ServiceNotAvailable, StoreUnusable, StoreCorrupt)  # no use in going on
Outcome = Literal["dead", "drop"]


class Player:
    """`queue` None: the application's default queue. `ladder`: what happens after a failure.

    `concurrency`: messages played at a time; their order is only kept with one. `commits`: how many may be on their way
    to the disk while the next message is played already; with 1 each is there before the next begins. `ahead`: how many
    messages to receive before their turn at most, fewer when they are slow. `threads`: methods that are no coroutines
    may block. `rejected`: where a message goes that fails a check. `deduplicate`: how many message identifiers to
    remember, for queues that may deliver twice. `reasons`: the queue where the reason of each dead message is kept,
    beside the message's identifier as correlation id; None for none.
    """

    def __init__(
        self,
        manager: QueueManager,
        application: Application,
        *,
        queue: str | None = None,
        ladder: Ladder | None = None,
        concurrency: int = 1,
        commits: int = 32,
        ahead: int = 16,
        threads: bool = True,
        rejected: Outcome = "dead",
        deduplicate: int = 0,
        reasons: str | None = "auto",
        on_event: Hook | None = None,
        clock: Callable[[], float] = time.time,
        longest_wait: float = 15.0,
    ) -> None:
        if concurrency < 1 or commits < 1 or ahead < 0:
            raise ValueError("a player plays at least one message at a time")
        self.application = application
        self.queue_name = queue or default_queue(application.name)
        self.ladder = Ladder() if ladder is None else ladder
        self.reporter = Reporter(application.name, self.queue_name, on_event)
        self.manager = manager
        self._concurrency = concurrency
        self._most_commits = commits
        self._commits: deque[asyncio.Task[None]] = deque()
        self._ahead = ahead
        self._intake: Intake | None = None
        self.threads = threads
        self._rejected = rejected
        self._remembered = deduplicate
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._clock = clock
        self._longest_wait = longest_wait
        self._places = Places(manager, self.queue_name, self.ladder, reasons)
        self._stopping = asyncio.Event()
        self._moved = asyncio.Event()  # something is in a retry queue that was not
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def figures(self) -> Figures:
        return self.reporter.figures

    # Life

    async def open(self) -> Self:
        """Open the queues. A queue that is missing, or that somebody reads alone, is an error now (3.1.3)."""
        for message in await self._places.open():
            await self._set_aside(self._places.slot, message, DEAD, "the process ended while it was played",
                                  kind="interrupted")
        self._intake = Intake(self.manager, self._places.main, self._ahead)
        return self

    async def start(self) -> None:
        if self._tasks:
            raise RuntimeError("the player runs already")
        await self.open()
        work: list[Coroutine[Any, Any, None]] = [self._work() for _ in range(self._concurrency)]
        if self._places.transactional and self.ladder.levels:
            work.append(self._climb())
        self._tasks = [asyncio.create_task(each) for each in work]

    async def wait(self) -> None:
        """Until it is stopped; raises what ended it early."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in self._tasks:
                if task.done():
                    task.result()

    async def stop(self) -> None:
        """Take no further message, let those in hand end, close the queues (3.1.7)."""
        self._stopping.set()
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close()

    async def _close(self) -> None:
        await asyncio.gather(*self._commits, return_exceptions=True)
        if self._intake is not None:
            await self._intake.close()
        await self._places.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def play_waiting(self) -> int:
        """Play what is there now, and what is due on the ladder; answers how many messages were taken."""
        await self.open()
        try:
            count = 0
            while not self._stopping.is_set():
                if await self._next():
                    count += 1
                elif self._commits:
                    await self._settle()  # what they commit may be for this queue
                else:
                    break
            await self._settle()
            if self._places.transactional:
                await self.serve_due()
            return count
        finally:
            await self._close()

    # The queue

    async def _work(self) -> None:
        try:
            while not self._stopping.is_set():
                if not await self._next():
                    await self._settle()
                    await self._until(self._places.main.peek(None))
            await self._settle()
        except Exception as error:
            self.reporter.trouble(error)
            raise

    async def _until(self, waiting: Coroutine[Any, Any, Any], seconds: float | None = None) -> None:
        """Until that is there, the time is over, or the player stops."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                with suppress(Timeout):
                    tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _next(self) -> bool:
        """Play the message at the head. False: there is none."""
        if not self._places.transactional:
            return await self._next_once()
        assert self._intake is not None
        taken = await self._intake.next()
        if taken is None:
            return False
        transaction, message = taken
        await self._attempt(self._places.main, 0, message, transaction)
        return True

    async def _attempt(self, queue: Queue, level: int, message: ReceivedMessage, transaction: Transaction) -> None:
        assert self._intake is not None
        self.figures.active += 1
        began = time.perf_counter()
        try:
            failed = await self._played(queue, level, message, transaction)
            self._intake.played(time.perf_counter() - began)
            if failed is not None:
                async with self._intake.quiet():
                    await transaction.abort()
                    await self._failed(queue, level, message, failed)
        finally:
            self.figures.active -= 1

    async def _played(
        self, queue: Queue, level: int, message: ReceivedMessage, transaction: Transaction
    ) -> Rejected | CallFailed | None:
        """Checked, played and committed; or the reason to take it back."""
        try:
            if self._is_duplicate(message):
                await transaction.commit()
                return None
            playback = self.application.prepare(message)
            await self._play(playback, message, transaction, level)
        except (Rejected, CallFailed) as error:
            return error
        except BaseException:
            await transaction.abort()
            raise
        self._commits.append(asyncio.create_task(self._commit(queue, level, message, transaction, playback)))
        await self._settle(self._most_commits - 1)
        return None

    async def _commit(
        self, queue: Queue, level: int, message: ReceivedMessage, transaction: Transaction, playback: Playback
    ) -> None:
        """A commit that is refused is a failure of the message; one that nobody answers is the player's end."""
        identifier = transaction.identifier
        try:
            await transaction.commit()
        except FOR_GOOD:
            raise
        except LiorError as error:
            assert self._intake is not None
            async with self._intake.quiet():
                with suppress(LiorError):
                    await self.manager.backend.abort(identifier)
                await self._failed(queue, level, message, CallFailed(None, "commit", error))
            return
        self._done(message, playback, level)

    async def _settle(self, left: int = 0) -> None:
        """Wait until no more commits than that are on their way. They end in the order in which they began."""
        while len(self._commits) > left:
            await self._commits.popleft()

    async def _play(
        self, playback: Playback, message: ReceivedMessage, transaction: Transaction | None, level: int
    ) -> None:
        try:
            target = playback.served.factory()
        except Exception as error:
            raise CallFailed(None, playback.served.name, error) from error
        stage = Stage(self.manager, message, transaction, self.reporter, level=level, threads=self.threads)
        await stage.play(target, playback.calls)

    def _done(self, message: ReceivedMessage, playback: Playback, level: int) -> None:
        self.figures.messages_played += 1
        if self._remembered:
            self._seen[message.id] = None
            if len(self._seen) > self._remembered:
                self._seen.popitem(last=False)
        if playback.skipped:
            self.tell("skipped", message, f"headers that nobody defined: {playback.skipped!r}", level=level)
        self.tell("played", message, level=level)

    def _is_duplicate(self, message: ReceivedMessage) -> bool:
        if message.id not in self._seen:
            return False
        self.figures.duplicates += 1
        self.tell("duplicate", message)
        return True

    # Failures

    async def _failed(self, queue: Queue, level: int, message: ReceivedMessage, why: Rejected | CallFailed) -> None:
        """The message is back in its queue, and the failure is counted there."""
        if isinstance(why, Rejected):
            await self._reject(queue, message, why, level)
            return
        self.figures.messages_aborted += 1
        self.tell("aborted", message, described(why.error), call=why.index, level=level)
        if not self.ladder.is_exhausted(level, message.abort_count + 1):
            return
        if level < self.ladder.levels:
            await self._set_aside(queue, message, self.ladder.subqueue(level + 1), described(why.error),
                                  call=why.index, level=level + 1)
            self._moved.set()
            return
        if not await self._handled(queue, message, level):
            await self._set_aside(queue, message, DEAD, described(why.error), call=why.index, level=level)

    async def _reject(self, queue: Queue, message: ReceivedMessage, why: Rejected, level: int) -> None:
        """No application code ran, and none ever will for this message (3.1.5)."""
        self.figures.messages_rejected += 1
        self.tell("rejected", message, str(why), level=level)
        if self._rejected == "drop":
            with suppress(*GONE):
                await queue.receive_by_lookup_id(message.lookup_identifier)
        else:
            await self._set_aside(queue, message, DEAD, str(why), level=level)

    async def _handled(self, queue: Queue, message: ReceivedMessage, level: int) -> bool:
        """Whether an exception class took the message: told that this was the last attempt, it got all calls."""
        playback = self.application.prepare(message)
        if playback.served.exception_class is None:
            return False
        transaction = await self.manager.transaction().begin()
        try:
            await queue.receive_by_lookup_id(message.lookup_identifier, transaction=transaction)
            stage = Stage(self.manager, message, transaction, self.reporter, level=level, threads=self.threads)
            await final_retry(playback, stage, "final_server_retry")
        except GONE:
            await transaction.abort()
            return True
        except Exception as error:
            await transaction.abort()
            self.tell("aborted", message, f"exception class: {described(error)}", level=level)
            return False
        await transaction.commit()
        self.figures.messages_played += 1
        self.tell("handled", message, "by the exception class", level=level)
        return True

    async def _set_aside(
        self, queue: Queue, message: ReceivedMessage, subqueue: str, reason: str, *, call: int | None = None,
        level: int = 0, kind: Literal["interrupted"] | None = None,
    ) -> None:  # fmt: skip
        """Into a subqueue: the message stays what it is. Its reason is kept in the same transaction."""
        dead = subqueue == DEAD
        facts = {"application": self.application.name, "message_id": message.id, "reason": reason, "call": call,
                 "level": level, "time": self._clock()}  # fmt: skip
        try:
            await self._places.move(queue, message, subqueue, facts if dead else None)
        except GONE as error:
            self.tell("moved", message, f"{reason}; gone meanwhile: {described(error)}", level=level)
            return
        if dead:
            self.figures.messages_dead += 1
        else:
            self.figures.messages_moved += 1
        self.tell(kind or ("dead" if dead else "moved"), message, reason, moved_to=subqueue, call=call, level=level)

    def tell(self, kind: Any, message: ReceivedMessage, reason: str = "", **facts: Any) -> None:
        if kind in ("aborted", "dead", "rejected"):
            self.figures.last_error = reason
        self.reporter.event(Event(kind, message.id, message.lookup_identifier, reason, **facts))

    # The ladder

    async def _climb(self) -> None:
        try:
            while not self._stopping.is_set():
                self._moved.clear()
                due = await self.serve_due()
                wait = self._longest_wait if due is None else min(max(due - self._clock(), 0.0), self._longest_wait)
                await self._until(self._moved.wait(), wait)
        except Exception as error:
            self.reporter.trouble(error)
            raise

    async def serve_due(self) -> float | None:
        """Try every message of the retry queues whose time has come. Answers when the next one's comes."""
        following: float | None = None
        for level, queue in enumerate(self._places.levels, 1):
            async for message in queue:
                due = self.ladder.due(level, message)
                if due <= self._clock() and not self._stopping.is_set():
                    await self._retry(queue, level, message.lookup_identifier)
                    due += self.ladder.delays[level - 1]
                following = due if following is None else min(following, due)
        return following

    async def _retry(self, queue: Queue, level: int, lookup_id: int) -> None:
        transaction = await self.manager.transaction().begin()
        try:
            message = await queue.receive_by_lookup_id(lookup_id, transaction=transaction)
        except GONE:
            await transaction.abort()
            return
        except BaseException:
            await transaction.abort()
            raise
        await self._attempt(queue, level, message, transaction)
        await self._settle()

    # A queue without transactions

    async def _next_once(self) -> bool:
        """Out of every reader's way first, then played, then removed or kept as dead: at most once."""
        message = await self._places.take()
        if message is None:
            return False
        self.figures.active += 1
        slot = self._places.slot
        try:
            if not self._is_duplicate(message):
                playback = self.application.prepare(message)
                await self._play(playback, message, None, 0)
                self._done(message, playback, 0)
            await slot.receive_by_lookup_id(message.lookup_identifier)
        except Rejected as error:
            await self._reject(slot, message, error, 0)
        except CallFailed as error:
            self.figures.messages_aborted += 1
            self.tell("aborted", message, described(error.error), call=error.index)
            await self._set_aside(slot, message, DEAD, str(error), call=error.index)
        finally:
            self.figures.active -= 1
        return True
