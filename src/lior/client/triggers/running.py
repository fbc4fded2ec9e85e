"""Runs triggers on a queue manager."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lior.client.aio import QueueManager
from lior.client.triggers.matching import Searcher
from lior.client.triggers.rules import Trigger, check_distinct
from lior.client.triggers.watching import Figures, Watch


class TriggerRunner:
    """The enabled ones of some triggers, from `start` to `stop`.

        async with TriggerRunner(manager, load("triggers.toml")) as runner:
            await runner.wait()
    """

    def __init__(self, manager: QueueManager, triggers: Iterable[Trigger]) -> None:
        self._manager = manager
        self._triggers = [trigger for trigger in triggers if trigger.enabled]
        check_distinct("trigger", [trigger.name for trigger in self._triggers])
        self._searcher = Searcher()
        self._watches: list[Watch] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> TriggerRunner:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def figures(self) -> dict[str, Figures]:
        """What each trigger did, by its name."""
        return {watch.trigger.name: watch.figures for watch in self._watches}

    async def start(self, *, once: bool = False) -> None:
        """Open every queue, then begin. A queue that is missing or does not fit its trigger's mode is an error
        now; one that goes away later is waited for. With `once`, only what is there now is dealt with."""
        if self._tasks:
            raise RuntimeError("the triggers run already")
        self._watches = [Watch(self._manager, trigger, self._searcher, once=once) for trigger in self._triggers]
        try:
            for watch in self._watches:
                await watch.open()
        except BaseException:
            for watch in self._watches:
                await watch.close()
            raise
        self._tasks = [
            asyncio.create_task(watch.run(), name=f"trigger {watch.trigger.name}") for watch in self._watches
        ]

    async def wait(self) -> None:
        """Until every trigger ended: with `once`, or after `stop`. Raises what ended one of them early."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in self._tasks:
                if task.done():
                    task.result()

    async def stop(self) -> None:
        """Take no further messages, let the actions under way end, close the queues."""
        for watch in self._watches:
            watch.stop()
        tasks, self._tasks = self._tasks, []
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self._searcher.close()
