"""One trigger at work: takes each message in the trigger's mode and does what its rules say."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from lior.client.aio import Queue, QueueManager
from lior.client.message import ReceivedMessage
from lior.client.triggers.actions import act
from lior.client.triggers.matching import Searcher, SearchTimeout, matching_rules
from lior.client.triggers.rules import Rule, Trigger
from lior.client.triggers.scanning import Scanner
from lior.errors import (
    IllegalFormatName,
    LiorError,
    MessageLocked,
    MessageNotFound,
    ServiceNotAvailable,
    StoreCorrupt,
    StoreUnusable,
    TransactionUsage,
)
from lior.names import DirectName, parse_format_name

log = logging.getLogger("lior.triggers")

FAILED: Final = "failed"  # subqueue for messages whose action failed in mode receive
UNDER_WAY: Final = "trigger-"  # with the trigger's name: subqueue for messages whose action runs in mode receive
LONGEST_DELAY: Final = 60.0  # seconds between two attempts
FOR_GOOD: Final = (ServiceNotAvailable, StoreUnusable, StoreCorrupt)  # no use in trying again


@dataclass(slots=True)
class Figures:
    """What a trigger did since it started. Messages: matched, unmatched. Actions: succeeded, failed."""

    matched: int = 0
    unmatched: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0  # messages whose actions run or wait to be tried again
    last_error: str = ""


class Watch:
    def __init__(self, manager: QueueManager, trigger: Trigger, searcher: Searcher, *, once: bool = False) -> None:
        self.trigger = trigger
        self.figures = Figures()
        self._manager = manager
        self._searcher = searcher
        self._once = once
        self._busy: set[int] = set()
        self._slots = asyncio.Semaphore(trigger.concurrency)
        self._stopping = asyncio.Event()
        self._queue: Queue | None = None
        self._under_way: Queue | None = None
        self._scanner: Scanner | None = None
        self._settled: dict[int, None] = {}  # messages that stay in the queue and are dealt with

    # Life

    async def open(self) -> None:
        trigger = self.trigger
        queue = await self._manager.open_queue(trigger.queue, "peek" if trigger.mode == "peek" else "receive")
        self._queue = queue
        if trigger.mode == "transaction" and not await self._takes_transactions(queue):
            raise TransactionUsage(
                f"trigger {trigger.name} takes messages in transactions, but the queue is not transactional",
                where=trigger.queue, remedy='set mode = "receive", or create the queue with --transactional',
            )  # fmt: skip
        if trigger.mode == "receive":
            self._under_way = await self._manager.open_queue(self._subqueue(UNDER_WAY + trigger.name), "receive")
            await self._set_aside_interrupted(self._under_way)
        self._scanner = Scanner(queue, self._settled, self._busy)
        if self._stopping.is_set():
            self._scanner.stop()

    async def _takes_transactions(self, queue: Queue) -> bool:
        try:
            return await queue.is_transactional()
        except LiorError:  # a queue of another computer: its owner will say
            return True

    def _subqueue(self, name: str) -> str:
        full = parse_format_name(self._opened.format_name)
        if not isinstance(full, DirectName):
            raise IllegalFormatName("only a direct format name has subqueues", where=self.trigger.queue)
        return str(DirectName.from_path(full.path.without_subqueue().with_subqueue(name), full.protocol))

    @property
    def _opened(self) -> Queue:
        assert self._queue is not None
        return self._queue

    async def _set_aside_interrupted(self, under_way: Queue) -> None:
        """Their actions began and nobody knows how they ended: not again, but not forgotten either."""
        left = [message async for message in under_way]
        for message in left:
            await under_way.move(message, FAILED)
            self._failed("the process ended while its action ran")
            self._log(logging.WARNING, "interrupted", message, moved_to=FAILED)

    async def close(self) -> None:
        """Close the queues; what was settled stays known."""
        if self._scanner is not None:
            await self._scanner.close()
        for queue in (self._queue, self._under_way):
            if queue is not None:
                with suppress(LiorError):
                    await queue.close()
        self._queue = self._under_way = None

    def stop(self) -> None:
        """No new messages; `run` returns when the actions under way have ended."""
        self._stopping.set()
        if self._scanner is not None:
            self._scanner.stop()

    async def run(self) -> None:
        """Until stopped. A queue that was deleted may come back; a store that broke does not."""
        delay = 1.0
        try:
            while not self._stopping.is_set():
                try:
                    if self._queue is None:
                        await self.open()
                        delay = 1.0
                    await self._dispatch()
                    return
                except FOR_GOOD as error:
                    self._trouble(error)
                    raise
                except LiorError as error:
                    self._trouble(error)
                    if self._once:
                        raise
                    await self.close()
                    await self._pause(delay)
                    delay = min(2 * delay, LONGEST_DELAY)
        finally:
            await self.close()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    # Messages

    async def _dispatch(self) -> None:
        """Hand each new message to a task; `concurrency` of them run at a time."""
        assert self._scanner is not None
        trouble: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks: set[asyncio.Task[None]] = set()
        try:
            while not trouble.done():
                await self._slots.acquire()
                message = None
                try:
                    message = await self._scanner.next(wait=not self._once)
                    rules = [] if message is None else await self._due(message)
                finally:
                    if message is None or not rules:
                        self._slots.release()
                if message is None:
                    break
                if rules:
                    self._busy.add(message.lookup_identifier)
                    self.figures.active += 1
                    task = asyncio.create_task(self._deal_with(message, rules, trouble))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
        finally:
            await asyncio.gather(*tasks)
            if not trouble.done():
                trouble.cancel()
        if not trouble.cancelled():
            trouble.result()

    async def _due(self, message: ReceivedMessage) -> list[Rule]:
        """The rules that the message matches. One that none matches stays where it is."""
        assert self._scanner is not None
        error = ""
        try:
            rules = await matching_rules(self.trigger.rules, message, self._searcher)
        except SearchTimeout as late:
            rules, error = [], str(late)
        if rules:
            self.figures.matched += 1
            return rules
        self.figures.unmatched += 1
        self._scanner.settled(message.lookup_identifier)
        if error:
            self._failed(error)
            self._log(logging.WARNING, "undecided", message, error=error)
        return []

    async def _deal_with(
        self, message: ReceivedMessage, rules: Sequence[Rule], trouble: asyncio.Future[None]
    ) -> None:
        deal = {"peek": self._peeked, "receive": self._received, "transaction": self._in_transactions}
        try:
            await deal[self.trigger.mode](message, rules)
        except Exception as error:
            if not trouble.done():
                trouble.set_exception(error)
            if self._scanner is not None:
                self._scanner.stop()
        finally:
            self._busy.discard(message.lookup_identifier)
            self.figures.active -= 1
            self._slots.release()

    async def _act(self, message: ReceivedMessage, rules: Sequence[Rule]) -> bool:
        """The actions in order; one that fails is the last."""
        for rule in rules:
            began = time.monotonic()
            outcome = await act(rule, message, self.trigger.name, self.trigger.queue)
            facts: dict[str, Any] = {"rule": rule.name, "action": rule.action.kind}
            facts["seconds"] = round(time.monotonic() - began, 3)
            if outcome.succeeded:
                self.figures.succeeded += 1
                self._log(logging.INFO, "succeeded", message, **facts)
                continue
            self._failed(f"rule {rule.name}: {outcome.error}")
            self._log(logging.WARNING, "failed", message, **facts, error=outcome.error, output=outcome.output)
            return False
        return True

    async def _peeked(self, message: ReceivedMessage, rules: Sequence[Rule]) -> None:
        assert self._scanner is not None
        self._scanner.settled(message.lookup_identifier)
        await self._act(message, rules)

    async def _received(self, message: ReceivedMessage, rules: Sequence[Rule]) -> None:
        """Out of every reader's way first, durably; then act; then remove it, or keep it as failed."""
        assert self._under_way is not None
        lookup_id = message.lookup_identifier
        try:
            await self._opened.move(lookup_id, UNDER_WAY + self.trigger.name)
        except (MessageNotFound, MessageLocked):
            return  # another reader was faster
        done = await self._act(message, rules)
        try:
            if done:
                await self._under_way.receive_by_lookup_id(lookup_id)
            else:
                await self._under_way.move(lookup_id, FAILED)
        except (MessageNotFound, MessageLocked) as error:
            self._log(logging.WARNING, "gone", message, error=f"while its action ran: {error}")

    async def _in_transactions(self, message: ReceivedMessage, rules: Sequence[Rule]) -> None:
        """Again and again, until the action succeeds or the message is no longer in the queue: the policy on
        aborts moved it, it expired, or another reader took it."""
        assert self._scanner is not None
        failures = 0
        while await self._fails(message.lookup_identifier, rules):
            if self._once:
                self._scanner.settled(message.lookup_identifier)
                return
            await self._pause(min(self.trigger.retry_delay * 2.0 ** min(failures, 20), LONGEST_DELAY))
            failures += 1
            if self._stopping.is_set():
                return

    async def _fails(self, lookup_id: int, rules: Sequence[Rule]) -> bool:
        """One attempt. True: the action failed, and the message is back in its place."""
        async with self._manager.transaction() as transaction:
            try:
                message = await self._opened.receive_by_lookup_id(lookup_id, transaction=transaction)
            except (MessageNotFound, MessageLocked):
                await transaction.abort()
                return False
            if await self._act(message, rules):
                return False
            await transaction.abort()
        try:
            await self._opened.peek_by_lookup_id(lookup_id)
        except MessageNotFound:
            self._log(logging.WARNING, "gone", message, error="given back once too often, or expired")
            return False
        except TransactionUsage:
            return False  # another reader has it
        return True

    # What happened

    def _failed(self, error: str) -> None:
        self.figures.failed += 1
        self.figures.last_error = error

    def _trouble(self, error: LiorError) -> None:
        self.figures.last_error = str(error)
        self._write(logging.ERROR, {"event": "trouble", "error": str(error), "remedy": error.remedy})

    def _log(self, level: int, outcome: str, message: ReceivedMessage, **facts: Any) -> None:
        about = {"message_id": message.id, "lookup_id": message.lookup_identifier}
        told = {name: value for name, value in facts.items() if value != ""}
        self._write(level, {"event": "message", "outcome": outcome} | about | told)

    def _write(self, level: int, facts: dict[str, Any]) -> None:
        """One line of JSON: labels and outputs cannot break out of it."""
        trigger = self.trigger
        about = {"trigger": trigger.name, "queue": trigger.queue, "mode": trigger.mode}
        log.log(level, "%s", json.dumps(about | facts))
