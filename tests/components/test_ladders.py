"""What becomes of a message that fails: the ladder, the exception class, the dead queue. COM+ documents these, the
protocol does not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.components import NO_LADDER, Ladder, Player, aio, current_call
from lior.components.ladder import DEAD
from lior.components.places import reasons_queue
from lior.errors import BadConfiguration
from tests.components.order_scenario import (
    ORDERS,
    OUT,
    QUEUE,
    QUICK,
    Clock,
    Events,
    IOrderSink,
    Journal,
    Manager,
    application,
    dead,
    messages,
    record,
    run,
)

MINUTE = 60.0


class Poison:
    """One message that always fails, a player that is never started by itself, and a clock that the test moves."""

    def __init__(self, manager: Manager, journal: Journal, ladder: Ladder | None = None, **serving: Any) -> None:
        journal.fails = {13}
        self.journal = journal
        self.events = Events()
        self.clock = Clock(manager)
        self.manager = manager
        self.player = aio.Player(manager, application(journal, serving=serving), queue=QUEUE, ladder=ladder,
                                 on_event=self.events, clock=self.clock)  # fmt: skip

    async def begin(self) -> None:
        await record(self.manager, 1, 13, 2)
        await self.player.open()
        while await self.player._next():
            pass

    async def climb(self, steps: int) -> list[tuple[int, str]]:
        """Go from one due moment to the next; each attempt with the seconds since the last."""
        seen = []
        for _ in range(steps):
            before = self.clock()
            tried = len(self.events)
            due = await self.player.serve_due()
            assert len(self.events) == tried  # nothing before its time
            if due is None:
                break
            self.clock.go_to(due)
            await self.player.serve_due()
            seen.append((round(self.clock() - before), " ".join(self.events.kinds[tried:])))
        return seen


@pytest.mark.spec("QC-132", "QC-133", "QC-135")
def test_a_poisoned_message_is_tried_three_times_on_each_of_five_levels_and_then_is_dead() -> None:
    async def work(manager: Manager) -> Any:
        poison = Poison(manager, Journal())
        await poison.begin()
        steps = await poison.climb(40)
        reasons = [json.loads(message.value()) for message in await messages(manager, reasons_queue(QUEUE))]
        return poison, steps, await dead(manager), reasons

    poison, steps, dead_ones, reasons = run(work)
    assert poison.events.kinds[:2] == ["aborted", "moved"]
    outcomes = ["aborted", "aborted", "aborted moved"] * 4 + ["aborted", "aborted", "aborted dead"]
    assert [outcome for _, outcome in steps] == outcomes
    minutes = [1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 16, 16, 16]
    assert [seconds for seconds, _ in steps] == [MINUTE * each for each in minutes]
    assert [event.moved_to for event in poison.events if event.moved_to] == [
        "retry_0", "retry_1", "retry_2", "retry_3", "retry_4", DEAD]  # fmt: skip
    assert len(dead_ones) == 1
    assert len(poison.journal.calls) == 2 * 16
    assert reasons[0]["reason"] == "ValueError: order 13 is not wanted"
    assert (reasons[0]["call"], reasons[0]["level"]) == (1, 5)


@pytest.mark.spec("QC-132")
def test_a_ladder_may_have_fewer_levels_or_none() -> None:
    async def work(manager: Manager, ladder: Ladder) -> Any:
        poison = Poison(manager, Journal(), ladder)
        await poison.begin()
        return [outcome for _, outcome in await poison.climb(10)], len(await dead(manager))

    assert run(lambda manager: work(manager, QUICK)) == (
        ["aborted", "aborted moved", "aborted", "aborted dead"], 1)  # fmt: skip
    assert run(lambda manager: work(manager, NO_LADDER)) == ([], 1)
    with pytest.raises(BadConfiguration):
        Ladder(delays=(-1.0,))
    with pytest.raises(BadConfiguration):
        Ladder(tries=0)


def test_the_place_on_the_ladder_survives_the_player(tmp_path: Path) -> None:
    """How often it was tried and since when it waits are facts of the store."""
    journal = Journal()

    async def first(manager: Manager) -> float:
        poison = Poison(manager, journal, QUICK)
        await poison.begin()
        await poison.climb(1)
        return poison.clock()

    async def second(manager: Manager) -> Any:
        poison = Poison(manager, journal, QUICK)
        await poison.player.open()
        poison.clock.go_to(now)
        return [outcome for _, outcome in await poison.climb(10)]

    now = run(first, data=tmp_path / "data")
    assert run(second, data=tmp_path / "data") == ["aborted moved", "aborted", "aborted dead"]


def test_a_message_that_succeeds_on_the_ladder_is_done_and_knows_where_it_was() -> None:
    async def work(manager: Manager) -> Any:
        journal = Journal()
        poison = Poison(manager, journal, QUICK)
        await poison.begin()
        await poison.climb(1)
        levels: list[tuple[int, int]] = []
        served = poison.player.application.served[0]

        def factory() -> Any:
            target = served.factory()

            async def place_order(order_id: int, customer: str | None, amount: float) -> None:
                levels.append((current_call().retry_level, current_call().attempt))

            target.place_order = place_order
            return target

        poison.player.application._table[served.partition, served.class_id] = type(served)(
            served.class_id, served.partition, factory, served.interfaces, served.dispatch, served.roles, None,
            served.scope, served.name)  # fmt: skip
        await poison.climb(1)
        return levels, await dead(manager), poison.events.kinds[-1]

    assert run(work) == ([(1, 2)] * 3, [], "played")


class Failures:
    """An exception class: it knows that this was the last attempt, and gets the calls."""

    seen: list[Any]

    def final_server_retry(self) -> None:
        self.seen.append("final_server_retry")

    def final_client_retry(self) -> None:
        self.seen.append("final_client_retry")

    async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
        self.seen.append(order_id)
        await current_call().send(OUT, f"kept {order_id}")

    def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...


@pytest.mark.spec("QC-134", "QC-135")
def test_the_exception_class_gets_the_calls_before_the_message_would_be_dead() -> None:
    Failures.seen = []

    async def work(manager: Manager) -> Any:
        poison = Poison(manager, Journal(), QUICK, exception_class=Failures)
        await poison.begin()
        await poison.climb(10)
        return await dead(manager), len(await messages(manager, OUT)), poison.events.kinds[-1]

    assert run(work) == ([], 3, "handled")
    assert Failures.seen == ["final_server_retry", 1, 13, 2]


@pytest.mark.spec("QC-134")
def test_an_exception_class_that_fails_leaves_the_message_dead_and_no_effects() -> None:
    class Broken(Failures):
        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            await super().place_order(order_id, customer, amount)
            if order_id == 13:
                raise KeyError(order_id)

    Failures.seen = []

    async def work(manager: Manager) -> Any:
        poison = Poison(manager, Journal(), QUICK, exception_class=Broken)
        await poison.begin()
        await poison.climb(10)
        return len(await dead(manager)), len(await messages(manager, OUT)), poison.events.kinds[-2:]

    assert run(work) == (1, 0, ["aborted", "dead"])


@pytest.mark.spec("QC-134")
def test_the_senders_dead_letters_go_to_the_exception_class_too() -> None:
    Failures.seen = []
    letters = r".\system$;DEADXACT"

    async def work(manager: Manager) -> Any:
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager,
                                time_to_be_received=0, dead_letter=True) as recorder:  # fmt: skip
            recorder.interface(IOrderSink).place_order(5, None, 1.0)
        await manager.send(QUEUE, b"no recorded message", time_to_be_received=0, dead_letter=True)
        while len(await messages(manager, letters)) < 2:
            await asyncio.sleep(0)
        player = aio.Player(manager, application(Journal(), serving={"exception_class": Failures}), queue=QUEUE)
        handled = await aio.play_dead_letters(player, letters)
        return handled, len(await messages(manager, letters)), len(await messages(manager, OUT))

    assert run(work) == (1, 1, 1)
    assert Failures.seen == ["final_client_retry", 5]


@pytest.mark.spec("QC-133")
def test_a_dead_message_that_is_moved_back_is_the_same_message() -> None:
    async def work(manager: Manager) -> Any:
        journal = Journal()
        poison = Poison(manager, journal, NO_LADDER)
        await poison.begin()
        (before,) = await dead(manager)
        async with await manager.open_queue(f"{QUEUE};{DEAD}") as queue:
            await queue.move(before, "")
        (after,) = await messages(manager)
        assert (after.identifier, after.security, after.body, after.lookup_identifier) == (
            before.identifier, before.security, before.body, before.lookup_identifier)  # fmt: skip
        journal.fails = set()
        journal.calls.clear()
        await poison.player._next()
        return [call[1] for call in journal.calls], len(await dead(manager))

    assert run(work) == ([1, 13, 2], 0)


def test_a_running_player_climbs_by_itself() -> None:
    """With real time, and hardly any of it."""
    events = Events()
    journal = Journal()
    journal.fails = {13}
    with lior.open(":memory:") as qm:
        qm.create_queue(QUEUE, transactional=True)
        import threading

        from lior.components import Recorder
        from tests.components.order_scenario import ORDERS, IOrderSink

        over = threading.Event()

        def on_event(event: Any) -> None:
            events(event)
            if event.kind == "dead":
                over.set()

        ladder = Ladder(delays=(0.01, 0.01), tries=2)
        with Player(qm, application(journal), queue=QUEUE, ladder=ladder, on_event=on_event):
            with Recorder(QUEUE, class_id=ORDERS, manager=qm) as recorder:
                recorder.interface(IOrderSink).place_order(13, None, 1.0)
            assert over.wait(60)
    assert events.kinds == ["aborted", "moved", "aborted", "aborted", "moved", "aborted", "aborted", "dead"]
