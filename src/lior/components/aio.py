"""Queued components for asyncio programs: the same Recorder and Player, on a lior.aio.QueueManager."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from lior.client.aio import Queue, QueueManager, Transaction
from lior.components.dead_letters import play_dead_letters
from lior.components.player import Player
from lior.components.recorder import RecorderCore
from lior.message import ObjectId

__all__ = ["Player", "Recorder", "play_dead_letters"]


class Recorder(RecorderCore):
    """Recording a call does not wait for anything; `close` does. In the immediate mode each call is awaited."""

    def __init__(self, destination: str | Queue, *, manager: QueueManager | None = None,
                 transaction: Transaction | None = None, **options: Any) -> None:
        super().__init__(destination, manager=manager, transaction=transaction, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self.discard()
            self._closed = True

    async def close(self) -> ObjectId | None:
        """No more calls: send what was recorded, as one message; answers its identifier. A send that fails leaves
        everything as it was."""
        sent = await self.flush()
        self._closed = True
        return sent

    async def flush(self) -> ObjectId | None:
        """Send what was recorded so far; nothing when there is nothing."""
        if not len(self._recording):
            return None
        sent: ObjectId = await self._send_alone(self._recording.message())
        self._recording.discard()
        return sent

    async def _send_alone(self, body: bytes) -> ObjectId:
        if isinstance(self.destination, Queue):
            return await self.destination.send(body, transaction=self._transaction, **self._properties)
        manager: QueueManager = self._manager
        async with await manager.open_queue(self.destination, "send") as queue:
            return await queue.send(body, transaction=self._transaction, **self._properties)
