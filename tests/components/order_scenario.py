"""An application that takes orders, and queue managers that it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import lior
from lior.client.message import ReceivedMessage
from lior.components import Application, Event, Long, Short, aio, current_call, dispid, interface
from lior.components.ladder import DEAD, Ladder
from lior.wire.recorded_call import EXTENSION

ORDERS = "{5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01}"
QUEUE = r".\private$\Orders"
OUT = r".\private$\out"

Manager = lior.aio.QueueManager


@interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31}")
class IOrderSink:
    def place_order(self, order_id: Long, customer: str | None, amount: float) -> None: ...

    @dispid(7)
    def add_lines(self, warehouse: Short, quantities: list[Long], urgent: bool) -> None: ...


class Journal:
    """What was played, in order; made by `application`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.made = 0
        self.fails: set[int] = set()  # order numbers that raise
        self.effects = False  # send one message to OUT for each order, in the transaction

    def placed(self) -> list[int]:
        """The numbers of the orders, in order."""
        return [call[1] for call in self.calls if call[0] == "place_order"]


def application(journal: Journal, **options: Any) -> Application:
    serving = options.pop("serving", {})
    app = Application("Orders", **options)

    @app.serves(ORDERS, IOrderSink, **serving)
    class Orders:
        def __init__(self) -> None:
            journal.made += 1

        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            if journal.effects:
                await current_call().send(OUT, str(order_id))
            journal.calls.append(("place_order", order_id, customer, amount))
            if order_id in journal.fails:
                raise ValueError(f"order {order_id} is not wanted")

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None:
            journal.calls.append(("add_lines", warehouse, quantities, urgent))

    return app


def run(work: Callable[[Manager], Awaitable[Any]], *, transactional: bool = True, data: Any = ":memory:") -> Any:
    """On a queue manager that has the application's queue, and OUT."""

    async def scenario() -> Any:
        async with lior.aio.open(data) as manager:
            for name in (QUEUE, OUT):
                if not await manager.exists(name):
                    await manager.create_queue(name, transactional=transactional)
            return await work(manager)

    return asyncio.run(scenario())


async def record(manager: Manager, *numbers: int, **options: Any) -> None:
    """One message with a call for each number."""
    async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager, **options) as recorder:
        orders = recorder.interface(IOrderSink)
        for number in numbers:
            orders.place_order(number, f"customer {number}", number / 2)


async def played(manager: Manager, app: Application, **options: Any) -> aio.Player:
    player = aio.Player(manager, app, **options)
    await player.play_waiting()
    return player


async def messages(manager: Manager, queue: str = QUEUE) -> list[ReceivedMessage]:
    async with await manager.open_queue(queue, "peek") as opened:
        return [message async for message in opened]


async def dead(manager: Manager) -> list[ReceivedMessage]:
    return await messages(manager, f"{QUEUE};{DEAD}")


async def send_body(manager: Manager, body: bytes, extension: bytes = EXTENSION, **properties: Any) -> None:
    await manager.send(QUEUE, body, extension=extension, **properties)


class Events(list[Event]):
    def __call__(self, event: Event) -> None:
        self.append(event)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self]


class Clock:
    """The queue manager's clock and the player's, moved forward by the test."""

    def __init__(self, manager: Manager) -> None:
        core: Any = manager.backend.manager.core  # type: ignore[attr-defined]
        self._real = core.clock
        self._ahead = 0.0
        core.clock = self

    def wall(self) -> float:
        return float(self._real.wall()) + self._ahead

    def monotonic(self) -> float:
        return float(self._real.monotonic()) + self._ahead

    def __call__(self) -> float:
        return self.wall()

    def go_to(self, moment: float) -> None:
        self._ahead += moment - self.wall() + 0.001


QUICK = Ladder(delays=(60.0, 120.0), tries=2)
