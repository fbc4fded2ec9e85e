"""The queues of a player: the application's own, its retry queues, and where the reasons of dead messages are kept."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from lior.client.aio import Queue, QueueManager
from lior.client.calling import NO_WAIT
from lior.client.message import ReceivedMessage
from lior.components.events import log
from lior.components.ladder import DEAD, PLAYING, Ladder
from lior.errors import LiorError, MessageLocked, MessageNotFound, QueueExists, SharingViolation, Timeout
from lior.message import ObjectId

_SLOTS = 64  # players of one queue without transactions


def reasons_queue(queue: str) -> str:
    """Beside the application's queue, with a name of its own."""
    return f"{queue}_reasons"


class Places:
    def __init__(self, manager: QueueManager, name: str, ladder: Ladder, reasons: str | None) -> None:
        self._manager = manager
        self._name = name
        self._ladder = ladder
        local = "=" not in name  # a path; only those can be made here
        self._reasons = reasons_queue(name) if reasons == "auto" and local else None if reasons == "auto" else reasons
        self._main: Queue | None = None
        self._slot: Queue | None = None
        self._dead: Queue | None = None
        self.levels: list[Queue] = []
        self.transactional = True

    @property
    def main(self) -> Queue:
        assert self._main is not None
        return self._main

    @property
    def slot(self) -> Queue:
        """Where messages are while they are played from a queue without transactions."""
        assert self._slot is not None
        return self._slot

    async def open(self) -> list[ReceivedMessage]:
        """Answers what a player that died left behind in its slot."""
        manager = self._manager
        self._main = await manager.open_queue(self._name)  # MQ_RECEIVE_ACCESS, shared (2.1)
        self.transactional = await self._main.is_transactional()
        self._dead = await manager.open_queue(f"{self._name};{DEAD}", "peek")  # that it is there, even empty
        await self._make_reasons()
        if not self.transactional:
            self._slot = await self._free_slot()
            return [message async for message in self._slot]
        for level in range(1, self._ladder.levels + 1):
            self.levels.append(await manager.open_queue(f"{self._name};{self._ladder.subqueue(level)}"))
        return []

    async def _make_reasons(self) -> None:
        if self._reasons is None:
            return
        try:
            with suppress(QueueExists):
                await self._manager.create_queue(self._reasons, transactional=self.transactional,
                                                 label="why messages are dead")
        except LiorError as error:
            log.warning("%s", json.dumps({"event": "trouble", "queue": self._reasons, "error": str(error)}))
            self._reasons = None

    async def _free_slot(self) -> Queue:
        """The first one that no living player has."""
        for number in range(_SLOTS):
            with suppress(SharingViolation):
                return await self._manager.open_queue(f"{self._name};{PLAYING}_{number}", exclusive=True)
        raise SharingViolation(f"{_SLOTS} players read this queue already", where=self._name)

    async def close(self) -> None:
        for queue in (self._main, self._slot, self._dead, *self.levels):
            if queue is not None:
                with suppress(LiorError):
                    await queue.close()
        self._main = self._slot = self._dead = None
        self.levels = []

    async def take(self) -> ReceivedMessage | None:
        """Move the head of the queue into the slot; None when the queue is empty."""
        while True:
            try:
                message = await self.main.peek(NO_WAIT)
                await self.main.move(message, self.slot.format_name.rpartition(";")[2])
            except Timeout:
                return None
            except (MessageNotFound, MessageLocked):
                continue
            return message

    async def move(
        self, queue: Queue, message: ReceivedMessage, subqueue: str, facts: dict[str, Any] | None
    ) -> None:
        """With the reason in one transaction, where there are transactions."""
        if facts is None or self._reasons is None:
            await queue.move(message, subqueue)
        elif self.transactional:
            async with self._manager.transaction() as transaction:
                await queue.move(message, subqueue, transaction=transaction)
                await self._keep(message, facts, transaction=transaction)
        else:
            await queue.move(message, subqueue)
            await self._keep(message, facts)

    async def _keep(self, message: ReceivedMessage, facts: dict[str, Any], **options: Any) -> None:
        assert self._reasons is not None
        identifier = message.identifier
        correlation = identifier.to_bytes() if isinstance(identifier, ObjectId) else bytes(20)
        await self._manager.send(self._reasons, json.dumps(facts), correlation_id=correlation,
                                 label=str(facts["reason"])[:200], **options)
