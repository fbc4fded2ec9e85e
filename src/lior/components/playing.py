"""The player for programs without asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from lior.client.sync import QueueManager
from lior.components import player as asynchronous
from lior.components.application import Application
from lior.components.dead_letters import play_dead_letters
from lior.components.events import Figures


class Player:
    """As `lior.components.aio.Player`, on a lior.QueueManager: it plays in the background from `start` to `stop`.

        with Player(qm, orders) as player:
            player.wait()
    """

    def __init__(self, manager: QueueManager, application: Application, **options: Any) -> None:
        self._call = manager._call
        self.aio: asynchronous.Player = self._call(_made, manager, application, options)

    @property
    def application(self) -> Application:
        return self.aio.application

    @property
    def figures(self) -> Figures:
        return self.aio.figures

    def start(self) -> None:
        self._call(self.aio.start)

    def stop(self) -> None:
        """Take no further message, let those in hand end, close the queues."""
        self._call(self.aio.stop)

    def wait(self) -> None:
        """Until it is stopped, from another thread or by Ctrl-C; raises what ended it early."""
        self._call(self.aio.wait)

    def play_waiting(self) -> int:
        """Play what is there now, and what is due on the ladder; answers how many messages were taken."""
        return self._call(self.aio.play_waiting)

    def play_dead_letters(self, queue: str) -> int:
        """See `lior.components.aio.play_dead_letters`."""
        return self._call(play_dead_letters, self.aio, queue)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


async def _made(
    manager: QueueManager, application: Application, options: dict[str, Any]
) -> asynchronous.Player:
    return asynchronous.Player(manager.aio, application, **options)
