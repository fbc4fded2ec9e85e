"""Playing: [MC-COMQC] 3.1, 4.2, and what COM+ does beyond it."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

import lior
from lior.components import (
    NO_LADDER,
    Application,
    Player,
    Recorder,
    aio,
    current_call,
)
from lior.components.places import reasons_queue
from lior.errors import InsufficientResources, NotQueueable, QueueNotFound, SharingViolation
from lior.message import Message
from lior.wire.recorded_call import EXTENSION
from tests.components.order_scenario import (
    ORDERS,
    OUT,
    QUEUE,
    Events,
    IOrderSink,
    Journal,
    Manager,
    application,
    dead,
    messages,
    played,
    record,
    run,
    send_body,
)
from tests.wire import second_recorded_call as second
from tests.wire.recorded_call_vectors import (
    CLASS,
    CONTEXT_A,
    CONTEXT_B,
    GLOBAL,
    INTERFACE,
    A,
    B,
    C,
    place_order,
)

# ---- what arrives is played -----------------------------------------------------------------------------------------


@pytest.mark.spec("QC-137", "QC-115", "QC-062")
@pytest.mark.parametrize("body", [A, B], ids=["A", "B"])
def test_the_worked_example_is_played(body: bytes, journal: Journal) -> None:
    async def work(manager: Manager) -> Any:
        await send_body(manager, body)
        player = await played(manager, application(journal))
        return player.figures, await messages(manager)

    figures, left = run(work)
    assert journal.calls == [("place_order", 1001, "Zoë", 249.5), ("add_lines", -2, [10, 20, -30], True)]
    assert journal.made == 1  # one object for the message
    assert (figures.messages_played, figures.calls_played, left) == (1, 2, [])


@pytest.mark.spec("QC-115", "QC-014")
def test_calls_are_played_in_order_and_nothing_is_answered(journal: Journal) -> None:
    async def work(manager: Manager) -> Any:
        await record(manager, *range(50), response_queue=rf"DIRECT=OS:{OUT}")
        await record(manager, *range(50, 100), response_queue=rf"DIRECT=OS:{OUT}")
        await played(manager, application(journal))
        return [queue.messages for queue in await manager.queues()]

    assert set(run(work)) == {0}
    assert journal.placed() == list(range(100))


@pytest.mark.spec("QC-011", "QC-003")
@pytest.mark.parametrize("properties", [
    {"priority": 0}, {"priority": 7}, {"express": True}, {"journal": True},
    {"acknowledge": 15, "administration_queue": f"DIRECT=OS:{OUT}"},
    {"label": "x" * 249}, {"application_tag": 0xFFFFFFFF}, {"body_type": 0}, {"body_type": 0x11},
    {"body_type": 0x2011}, {"correlation_id": bytes(range(20))}, {"message_class": 0x1FF}, {"tracing_requested": True},
], ids=str)  # fmt: skip
def test_no_property_of_the_message_keeps_it_from_being_played(properties: dict[str, Any], journal: Journal) -> None:
    async def work(manager: Manager) -> None:
        kept = Message(body=A, extension=EXTENSION, body_type=properties.pop("body_type", 0))
        await manager.send(QUEUE, kept, **properties)
        await played(manager, application(journal))

    run(work, transactional=False)
    assert journal.placed() == [1001]


@pytest.mark.spec("QC-038", "QC-053", "QC-115")
def test_each_call_sees_its_own_context_and_none_is_left_behind() -> None:
    seen: list[Any] = []
    app = Application("Orders")

    @app.serves(ORDERS, IOrderSink)
    class Orders:
        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            seen.append(current_call().security_data)
            if order_id == 2:
                raise ValueError

        async def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    async def work(manager: Manager) -> None:
        await send_body(manager, C)
        player = aio.Player(manager, app, queue=QUEUE)
        await player.play_waiting()  # in this task, whose context the methods share
        assert player.figures.calls_failed == 1
        with pytest.raises(LookupError):
            current_call()

    run(work)
    assert seen == [CONTEXT_A, CONTEXT_B, CONTEXT_A]
    with pytest.raises(LookupError):
        current_call()


@pytest.mark.spec("QC-053")
def test_messages_played_at_a_time_do_not_see_each_others_context() -> None:
    seen: dict[int, set[str]] = {}
    app = Application("Orders")
    both = asyncio.Event()

    @app.serves(ORDERS, IOrderSink)
    class Orders:
        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            seen[order_id] = {current_call().idempotency_key}
            if len(seen) == 2:
                both.set()
            await both.wait()
            seen[order_id].add(current_call().idempotency_key)

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    async def work(manager: Manager) -> None:
        await record(manager, 1)
        await record(manager, 2)
        async with aio.Player(manager, app, queue=QUEUE, concurrency=2) as player:
            while player.figures.messages_played < 2:
                await asyncio.sleep(0)

    run(work)
    assert len(seen[1]) == len(seen[2]) == 1
    assert seen[1] != seen[2]


def test_methods_that_block_run_in_a_thread_and_may_send() -> None:
    threads: list[bool] = []
    app = Application("Orders")

    @app.serves(ORDERS, IOrderSink)
    class Orders:
        def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            threads.append(threading.current_thread() is threading.main_thread())
            current_call().send(OUT, str(order_id))
            with Recorder(OUT, class_id=ORDERS, manager=current_call().manager,
                          transaction=current_call().transaction) as recorder:  # fmt: skip
                recorder.interface(IOrderSink).place_order(order_id, None, 0.0)
            if order_id == 2:
                current_call().abort("enough")

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    async def work(manager: Manager) -> int:
        await record(manager, 1)
        await record(manager, 1, 2)
        await played(manager, app)
        return len(await messages(manager, OUT))

    assert run(work) == 2
    assert threads == [False] * 3


def test_the_synchronous_player_plays_until_it_is_stopped(journal: Journal) -> None:
    reached = threading.Event()
    app = application(journal)

    def on_event(event: Any) -> None:
        if event.kind == "played":
            reached.set()

    with lior.open(":memory:") as qm:
        qm.create_queue(QUEUE, transactional=True)
        with Player(qm, app, queue=QUEUE, on_event=on_event) as player:
            with Recorder(QUEUE, class_id=ORDERS, manager=qm) as recorder:
                recorder.interface(IOrderSink).place_order(7, None, 0.0)
            assert reached.wait(120)
        assert journal.placed() == [7]
        assert player.figures.calls_played == 1
        assert player.application is app


# ---- the object table -----------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-035", "QC-031", "QC-111")
def test_a_class_is_looked_up_in_its_partition_and_else_in_the_global_one() -> None:
    mine = "11111111-1111-1111-1111-111111111111"
    seen: list[str] = []
    app = Application("Orders")

    def served(name: str, **options: Any) -> None:
        @app.serves(ORDERS, IOrderSink, **options)
        class Orders:
            def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
                seen.append(name)

            def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    served("global")
    served("mine", partition=mine)
    with pytest.raises(NotQueueable):
        served("again")

    def body(*parts: bytes) -> bytes:
        return second.message(CLASS, *parts, second.secd(CONTEXT_A),
                              second.meth(INTERFACE, 3, place_order(1, None, 1.0).octets))  # fmt: skip

    async def work(manager: Manager) -> None:
        for parts in ((), (second.part(GLOBAL),), (second.part(mine),), (second.part(str(UUID(int=0))),),
                      (second.part("22222222-2222-2222-2222-222222222222"),)):  # fmt: skip
            await send_body(manager, body(*parts))
        await played(manager, app)

    run(work)
    assert seen == ["global", "global", "mine", "global", "global"]


@pytest.mark.spec("QC-111", "QC-112")
def test_two_applications_serve_one_class_from_their_own_queues() -> None:
    one, two = Journal(), Journal()

    async def work(manager: Manager) -> None:
        await record(manager, 1)
        async with aio.Recorder(OUT, class_id=ORDERS, manager=manager) as recorder:
            recorder.interface(IOrderSink).place_order(2, None, 1.0)
        await played(manager, application(one), queue=QUEUE)
        await played(manager, application(two), queue=OUT)

    run(work)
    assert (one.placed(), two.placed()) == ([1], [2])


@pytest.mark.spec("QC-112")
def test_each_message_gets_a_new_object_or_the_one_that_was_named() -> None:
    made: list[Any] = []

    class Orders:
        def __init__(self) -> None:
            made.append(self)

        def place_order(self, order_id: int, customer: str | None, amount: float) -> None: ...
        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    for instance, expected in ((None, 2), (Orders(), 1)):
        made.clear()
        if instance is not None:
            made.append(instance)
        app = Application("Orders")
        app.serves(ORDERS, IOrderSink, instance=instance)(Orders)

        async def work(manager: Manager, app: Application = app) -> None:
            await record(manager, 1)
            await record(manager, 2)
            await played(manager, app)

        run(work)
        assert len(made) == expected


@pytest.mark.spec("QC-112", "QC-007")
def test_a_player_that_cannot_open_its_queue_does_not_start(journal: Journal) -> None:
    async def work(manager: Manager) -> None:
        with pytest.raises(QueueNotFound):
            await aio.Player(manager, application(journal), queue=r".\private$\nowhere").start()
        async with await manager.open_queue(QUEUE, exclusive=True):
            with pytest.raises(SharingViolation) as caught:
                await aio.Player(manager, application(journal), queue=QUEUE).start()
            assert caught.value.code == 0xC00E0009

    run(work)


@pytest.mark.spec("QC-007", "QC-008")
@pytest.mark.parametrize("transactional", [True, False])
def test_players_share_a_queue(transactional: bool, journal: Journal) -> None:
    async def work(manager: Manager) -> None:
        opened: list[tuple[int, bool]] = []
        open_ = manager.backend.open

        def watched(name: str, access: int, exclusive: bool) -> Any:
            opened.append((access, exclusive))
            return open_(name, access, exclusive)

        manager.backend.open = watched  # type: ignore[method-assign]
        async with aio.Player(manager, application(journal), queue=QUEUE) as one:
            assert opened[0] == (1, False)  # MQ_RECEIVE_ACCESS, MQ_DENY_NONE
            async with aio.Player(manager, application(journal), queue=QUEUE) as two:
                for number in range(20):
                    await record(manager, number)
                while one.figures.messages_played + two.figures.messages_played < 20:
                    await asyncio.sleep(0)

    run(work, transactional=transactional)
    assert sorted(journal.placed()) == list(range(20))


def test_a_class_is_checked_against_its_interfaces_when_it_is_served() -> None:
    app = Application("Orders")

    class Half:
        def place_order(self, order_id: int, customer: str | None, amount: float) -> None: ...

    attempts: list[Callable[[], Any]] = [
        lambda: app.serves(ORDERS, IOrderSink)(Half), lambda: app.serves(ORDERS)(Half),
        lambda: app.serves("x", IOrderSink)(Half),
        lambda: app.serves(ORDERS, IOrderSink, IOrderSink, roles={"nothing": {"x"}})(Half),
    ]  # fmt: skip
    for attempt in attempts:
        with pytest.raises(NotQueueable):
            attempt()
    assert app.served == ()


# ---- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-117", "QC-008")
@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_effects_and_message_stand_or_fall_together_on_a_transactional_queue(
    transactional: bool, fails: bool, journal: Journal
) -> None:
    journal.effects = True
    journal.fails = {3} if fails else set()

    async def work(manager: Manager) -> Any:
        await record(manager, 1, 2, 3, 4, 5)
        player = await played(manager, application(journal), queue=QUEUE, ladder=NO_LADDER)
        effects = [message.value() for message in await messages(manager, OUT)]
        return effects, len(await messages(manager)), await dead(manager), player.figures

    effects, left, dead_ones, figures = run(work, transactional=transactional)
    assert journal.placed() == ([1, 2, 3] if fails else [1, 2, 3, 4, 5])
    assert left == 0
    assert len(dead_ones) == (1 if fails else 0)
    if not fails:
        assert effects == ["1", "2", "3", "4", "5"]
    elif transactional:
        assert effects == []
    else:
        assert effects == ["1", "2", "3"]
    assert figures.calls_failed == (1 if fails else 0)


@pytest.mark.spec("QC-117")
def test_the_reason_names_the_call_that_failed(journal: Journal) -> None:
    journal.fails = {3}

    async def work(manager: Manager) -> Any:
        await record(manager, 1, 2, 3, 4)
        await played(manager, application(journal), queue=QUEUE, ladder=NO_LADDER)
        return json.loads((await messages(manager, reasons_queue(QUEUE)))[0].value())

    facts = run(work)
    assert facts["call"] == 2
    assert "order 3 is not wanted" in facts["reason"]


def test_a_commit_that_is_refused_fails_its_message_and_not_the_player(journal: Journal) -> None:
    async def work(manager: Manager) -> Any:
        await record(manager, 1)
        await record(manager, 2)
        commit, refusals = manager.backend.commit, [True]

        async def refusing(transaction: UUID) -> None:
            if refusals:
                refusals.pop()
                raise InsufficientResources("the quota is used up")
            await commit(transaction)

        manager.backend.commit = refusing  # type: ignore[method-assign]
        events = Events()
        player = await played(manager, application(journal), queue=QUEUE, on_event=events)
        return sorted(events.kinds), len(await messages(manager, f"{QUEUE};retry_0")), player.figures.messages_played

    assert run(work) == (["aborted", "moved", "played"], 1, 1)
    assert journal.placed() == [1, 2]


@pytest.mark.spec("QC-008", "QC-117")
def test_what_a_dead_process_was_playing_is_not_played_again(journal: Journal) -> None:
    """A queue without transactions: at most once, and nothing is forgotten."""

    async def work(manager: Manager) -> Any:
        await record(manager, 1)
        await record(manager, 2)
        async with await manager.open_queue(QUEUE) as queue:
            await queue.move(await queue.peek(0), "playing_0")
        events = Events()
        await played(manager, application(journal), queue=QUEUE, on_event=events)
        return events.kinds, len(await dead(manager))

    assert run(work, transactional=False) == (["interrupted", "played"], 1)
    assert journal.placed() == [2]


@pytest.mark.spec("QC-118")
def test_stopping_lets_the_message_in_hand_end_and_closes_every_queue() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    done: list[int] = []
    app = Application("Orders")

    @app.serves(ORDERS, IOrderSink)
    class Orders:
        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            begun.set()
            await may_end.wait()
            done.append(order_id)

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    async def work(manager: Manager) -> Any:
        await record(manager, 1)
        await record(manager, 2)
        player = aio.Player(manager, app, queue=QUEUE)
        await player.start()
        await begun.wait()
        stopping = asyncio.ensure_future(player.stop())
        await asyncio.sleep(0)
        may_end.set()
        await stopping
        readers = [queue.readers for queue in await manager.queues()]
        return [len(await messages(manager)), sum(readers)]

    assert run(work) == [1, 0]
    assert done == [1]


def test_slow_messages_are_not_hoarded() -> None:
    """Another player gets what this one could not begin for a while."""
    began, go_on = asyncio.Event(), asyncio.Event()
    app = Application("Orders")

    @app.serves(ORDERS, IOrderSink)
    class Orders:
        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            if order_id == 3:
                began.set()
                await go_on.wait()

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    async def work(manager: Manager) -> Any:
        for number in range(40):
            await record(manager, number)
        player = aio.Player(manager, app, queue=QUEUE)
        await player.start()
        await began.wait()
        assert player._intake is not None
        quick = player._intake._ahead
        player._intake.played(10.0)
        slow = player._intake._ahead
        free = len(await messages(manager))
        go_on.set()
        await player.stop()
        return quick, slow, free >= 40 - 4 - 17, len(await messages(manager)) + player.figures.messages_played

    assert run(work) == (16, 1, True, 40)


@pytest.mark.spec("QC-128")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_message_that_comes_twice_is_played_once_if_wanted(wanted: bool, journal: Journal) -> None:
    """An express queue whose transport delivers one packet again: the message is back under its old identifier."""

    async def work(manager: Manager) -> Any:
        await record(manager, 1)
        await record(manager, 2)
        player = aio.Player(manager, application(journal), queue=QUEUE, deduplicate=2 if wanted else 0)
        await player.open()
        receive = player._places.slot.receive_by_lookup_id

        async def again(lookup_id: int) -> Any:
            if not journal.fails:  # the first time it stays where it is, and is moved back
                journal.fails.add(-1)
                return await player._places.slot.move(lookup_id, "")
            return await receive(lookup_id)

        player._places.slot.receive_by_lookup_id = again  # type: ignore[assignment, method-assign]
        while await player._next():
            pass
        await player.stop()
        return player.figures.duplicates

    assert run(work, transactional=False) == (1 if wanted else 0)
    assert journal.placed() == ([1, 2] if wanted else [1, 1, 2])
