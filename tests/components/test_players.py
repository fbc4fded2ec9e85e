"""Playing: [MC-COMQC] 3.1, 4.2, and what COM+ does beyond it."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import lior
from lior.components import (
    NO_LADDER,
    Application,
    ByRef,
    Callback,
    Caller,
    Long,
    Player,
    Recorder,
    aio,
    calling_as,
    current_call,
    dispid,
    interface,
    propput,
)
from lior.components.application import Rejected
from lior.components.places import reasons_queue
from lior.errors import InsufficientResources, NotQueueable, QueueNotFound, SharingViolation
from lior.message import AuthenticationLevel, Message, MessageSecurity, SenderIdentifierType
from lior.security import Sid
from lior.wire import recorded_call_security
from lior.wire.dtyp import encode_sid
from lior.wire.recorded_call import EXTENSION, Limits
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
    CLERK,
    CONTEXT_A,
    CONTEXT_B,
    GLOBAL,
    INTERFACE,
    SYSTEM,
    A,
    B,
    C,
    place_order,
)


@pytest.fixture
def journal() -> Journal:
    return Journal()


def placed(journal: Journal) -> list[int]:
    return [call[1] for call in journal.calls if call[0] == "place_order"]


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
    assert placed(journal) == list(range(100))


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
    assert placed(journal) == [1001]


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
        assert placed(journal) == [7]
        assert player.figures.calls_played == 1
        assert player.application is app


# ---- checks ---------------------------------------------------------------------------------------------------------


def rejected(body: bytes, *, extension: bytes = EXTENSION, **options: Any) -> tuple[str, Journal]:
    """The stage at which an application refuses it, and what ran."""
    journal = Journal()
    app = application(journal, **options)

    async def work(manager: Manager) -> str:
        await send_body(manager, body, extension)
        (message,) = await messages(manager)
        try:
            app.prepare(message)
        except Rejected as error:
            return error.stage
        return ""

    return run(work), journal


def with_bent_security(body: bytes) -> bytes:
    """Its second security header is broken, all sizes are right."""
    at = [at for signature, at, _ in second.headers(body) if signature == b"SECD"][1] + 16
    return body[:at] + b"\2" + body[at + 1:]


NOBODY = "00000000-0000-0000-0000-000000000001"
UNKNOWN_CLASS = second.message(NOBODY, second.secd(b"junk"), second.meth(INTERFACE, 3, b""))
UNKNOWN_INTERFACE = second.message(CLASS, second.secd(CONTEXT_A), second.meth(GLOBAL, 3, b""))
BROKEN_SECOND = second.message(CLASS, second.secd(CONTEXT_A),
                               second.meth(INTERFACE, 3, place_order(1, "a", 1.0).octets),
                               second.smth(3, place_order(2, "b", 1.0).octets[:-4]))  # fmt: skip


@pytest.mark.spec("QC-113", "QC-116", "QC-063")
@pytest.mark.parametrize(("body", "extension", "stage"), [
    (A, EXTENSION, ""), (A, b"", "format"), (A[:-8], EXTENSION, "format"), (UNKNOWN_CLASS, EXTENSION, "class"),
    (with_bent_security(C), EXTENSION, "security"), (UNKNOWN_INTERFACE, EXTENSION, "parameters"),
    (BROKEN_SECOND, EXTENSION, "parameters"), (UNKNOWN_CLASS[:-8], b"", "format"), (b"", EXTENSION, "format"),
])  # fmt: skip
def test_the_first_check_that_fails_ends_it_and_no_object_is_made(body: bytes, extension: bytes, stage: str) -> None:
    found, journal = rejected(body, extension=extension)
    assert found == stage
    assert (journal.calls, journal.made) == ([], 0)


@pytest.mark.spec("QC-114", "QC-002", "QC-020")
def test_a_bad_message_goes_to_the_dead_queue_with_its_reason_and_the_next_one_plays(journal: Journal) -> None:
    async def work(manager: Manager) -> Any:
        bad: list[tuple[bytes, bytes]] = [(A, EXTENSION[:15]), (A, EXTENSION + b"\0"), (A, b""), (A[:-1], EXTENSION),
                                          (UNKNOWN_CLASS, EXTENSION), (BROKEN_SECOND, EXTENSION)]  # fmt: skip
        for body, extension in bad:
            await send_body(manager, body, extension)
        await send_body(manager, A)
        events = Events()
        await played(manager, application(journal), queue=QUEUE, on_event=events)
        return events, await messages(manager), await dead(manager), await messages(manager, reasons_queue(QUEUE))

    events, left, dead_ones, reasons = run(work)
    assert journal.calls[0] == ("place_order", 1001, "Zoë", 249.5)
    assert left == []
    assert events.kinds == ["rejected", "dead"] * 6 + ["played"]
    assert len(dead_ones) == len(reasons) == 6
    for message, reason in zip(dead_ones, reasons, strict=True):
        facts = json.loads(reason.value())
        assert facts["message_id"] == message.id
        assert reason.correlation_id == message.identifier.to_bytes()
        assert facts["reason"].split(":")[0] in ("format", "class", "parameters")


@pytest.mark.spec("QC-114")
def test_bad_messages_may_be_dropped_instead(journal: Journal) -> None:
    async def work(manager: Manager) -> Any:
        await send_body(manager, A[:-8])
        await send_body(manager, A)
        await played(manager, application(journal), rejected="drop")
        return await messages(manager), await dead(manager)

    assert run(work) == ([], [])
    assert placed(journal) == [1001]


@pytest.mark.spec("QC-059", "QC-063", "QC-105", "QC-130")
@pytest.mark.parametrize(("iid", "number"), [
    (INTERFACE, 0), (INTERFACE, 1), (INTERFACE, 2), (INTERFACE, 5), (INTERFACE, 99), (INTERFACE, 0xFFFFFFFF),
    (GLOBAL, 3), ("00020400-0000-0000-C000-000000000046", 3), ("00020400-0000-0000-C000-000000000046", 5),
    ("00020400-0000-0000-C000-000000000046", 7), ("00000000-0000-0000-C000-000000000046", 3),
])  # fmt: skip
def test_methods_that_are_not_registered_are_out_of_reach(iid: str, number: int) -> None:
    data = place_order(1, "a", 1.0).octets
    stage, journal = rejected(second.message(CLASS, second.secd(CONTEXT_A), second.meth(iid, number, data)))
    assert stage == "parameters"
    assert journal.made == 0


@pytest.mark.spec("QC-105")
@pytest.mark.parametrize("number", [0, 3, 4, 5, 7])
def test_of_idispatch_only_invoke_is_played(number: int) -> None:
    data = second.Data()
    data.invoke(7, [(11, -1), (0x2003, [1]), (2, 5)])
    iid = "00020400-0000-0000-C000-000000000046"

    def body(method: int) -> bytes:
        return second.message(CLASS, second.secd(CONTEXT_A), second.meth(iid, method, data.octets))

    assert rejected(body(6))[0] == ""
    assert rejected(body(number))[0] == "parameters"


@pytest.mark.spec("QC-063")
def test_the_interface_decides_how_the_octets_are_read(journal: Journal) -> None:
    data = second.Data()
    data.invoke(7, [(11, -1), (0x2003, [1]), (2, 5)])
    app = application(journal)

    async def work(manager: Manager) -> list[str]:
        stages = []
        for iid, number in (("00020400-0000-0000-C000-000000000046", 6), (INTERFACE, 4)):
            call = second.meth(iid, number, data.octets)
            await send_body(manager, second.message(CLASS, second.secd(CONTEXT_A), call))
        for message in await messages(manager):
            try:
                stages.append(str(app.prepare(message).calls[0].arguments))
            except Rejected as error:
                stages.append(error.stage)
        return stages

    assert run(work) == ["(5, [1], True)", "(7, None, False)"]


@pytest.mark.spec("QC-127")
def test_an_application_has_limits_of_its_own() -> None:
    for limits in (Limits(calls=1), Limits(elements=2), Limits(octets=511)):
        stage, _ = rejected(A, limits=limits)
        assert stage in ("format", "parameters")


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
    assert (placed(one), placed(two)) == ([1], [2])


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
    assert sorted(placed(journal)) == list(range(20))


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
    assert placed(journal) == ([1, 2, 3] if fails else [1, 2, 3, 4, 5])
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
    assert placed(journal) == [1, 2]


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
    assert placed(journal) == [2]


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
    assert placed(journal) == ([1, 2] if wanted else [1, 1, 2])


# ---- who calls ------------------------------------------------------------------------------------------------------

GUARD: dict[str, Any] = {"serving": {"roles": {"place_order": {"clerk"}}}, "members": {"clerk": [CLERK]}}


def vouched(who: str | None, level: int = 3) -> MessageSecurity:
    """As the queue manager hands over a message whose signature it verified."""
    if who is None:
        return MessageSecurity()
    return MessageSecurity(SenderIdentifierType.SID, encode_sid(Sid.parse(who)), authentication_level=level)


@pytest.mark.spec("QC-129")
@pytest.mark.parametrize(("claimed", "sender", "trusted", "level", "allowed"), [
    (CLERK, None, (), 0, False),  # unsigned: only a claim
    (CLERK, CLERK, (), 3, True),  # signed by its owner
    (CLERK, CLERK, (), 0, False),  # a sender identifier that nobody verified
    (CLERK, SYSTEM, (), 3, False),  # signed by somebody else
    (CLERK, SYSTEM, (SYSTEM,), 3, True),  # signed by a trusted sender
    (SYSTEM, SYSTEM, (), 3, False),  # himself, but without the role
    (SYSTEM, CLERK, (CLERK,), 3, False),
    (None, CLERK, (), 3, False),
])  # fmt: skip
def test_a_claimed_caller_is_believed_only_with_a_voucher(
    claimed: str | None, sender: str | None, trusted: tuple[str, ...], level: int, allowed: bool, journal: Journal
) -> None:
    app = application(journal, trusted_senders=trusted, **GUARD)

    async def work(manager: Manager) -> Any:
        with calling_as(claimed):
            await record(manager, 1)
        (message,) = await messages(manager)
        message.security = vouched(sender, level)
        try:
            return app.prepare(message).calls[0].caller
        except Rejected as error:
            assert error.error.symbol == "LIOR_ERROR_CALL_REFUSED"
            return None

    caller = run(work)
    assert (caller == Caller(Sid.parse(CLERK), None, True)) is allowed
    assert (caller is None) is not allowed


@pytest.mark.spec("QC-129")
def test_a_signed_message_plays_and_a_forged_one_does_not(journal: Journal, tmp_path: Path) -> None:
    """Through the queue manager's own verification: it knows the clerk's certificate."""
    identity = lior.Identity.create("clerk", sid=CLERK)
    stranger = lior.Identity.create("stranger", sid=SYSTEM)
    for each in (identity, stranger):
        lior.embedded.security(tmp_path).register_certificate(str(each.sid), each.certificate_pem)

    async def work(manager: Manager) -> Any:
        with calling_as(CLERK):
            await record(manager, 1)
            await record(manager, 2, sign=identity)
            await record(manager, 3, sign=stranger)
        player = await played(manager, application(journal, **GUARD), queue=QUEUE)
        trusting = aio.Player(manager, application(journal, trusted_senders=[SYSTEM], **GUARD), queue=QUEUE)
        async with await manager.open_queue(f"{QUEUE};dead") as queue:
            for message in await dead(manager):
                await queue.move(message, "")
        await trusting.play_waiting()
        return player.figures.messages_rejected, trusting.figures.messages_rejected

    assert run(work, data=tmp_path) == (2, 1)
    assert placed(journal) == [2, 3]


def test_methods_without_roles_are_everybodys(journal: Journal) -> None:
    async def work(manager: Manager) -> None:
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager) as recorder:
            recorder.interface(IOrderSink).add_lines(1, [], False)
        await played(manager, application(journal, **GUARD))

    run(work)
    assert journal.calls == [("add_lines", 1, [], False)]


@pytest.mark.spec("QC-050", "QC-135")
def test_what_is_recorded_while_playing_carries_both_callers() -> None:
    chains: list[Any] = []
    app = Application("Orders")

    @app.serves(ORDERS, IOrderSink)
    class Orders:
        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            chains.append([str(caller.sid) for caller in current_call().chain])
            if order_id == 1:
                async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager_of[0], identity=Sid.parse(SYSTEM),
                                        transaction=current_call().transaction) as recorder:  # fmt: skip
                    recorder.interface(IOrderSink).place_order(2, None, 0.0)

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    manager_of: list[Manager] = []

    async def work(manager: Manager) -> None:
        manager_of.append(manager)
        await record(manager, 1, identity=Sid.parse(CLERK))
        await played(manager, app)

    run(work)
    assert chains == [[CLERK], [CLERK, SYSTEM]]
    assert recorded_call_security.decode(CONTEXT_A).style == 0


# ---- the dispatch form ----------------------------------------------------------------------------------------------


@interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f34}", base="IDispatch")
class IDesk:
    @dispid(7)
    def ship(self, what: str, weight: ByRef[float], quantities: list[Long]) -> None: ...

    @dispid(9)
    @propput
    def priority(self, value: Long) -> None: ...


@pytest.mark.spec("QC-097", "QC-101", "QC-103", "QC-058")
def test_the_dispatch_example_is_played_and_nothing_comes_back() -> None:
    from tests.wire.recorded_call_vectors import D

    calls: list[Any] = []
    app = Application("Orders")

    @app.serves(ORDERS, IDesk)
    class Desk:
        def ship(self, what: str, weight: float, quantities: list[int]) -> None:
            calls.append((what, weight, quantities))
            weight = 99.0

        def priority(self, value: int) -> None:
            calls.append(value)

    async def work(manager: Manager) -> Any:
        await send_body(manager, D)
        await played(manager, app)
        return [queue.messages for queue in await manager.queues()]

    assert set(run(work)) == {0}
    assert calls == [("Zoë", 3.25, [1, 2, 3]), 4]


@pytest.mark.spec("QC-065", "QC-101")
def test_a_method_with_references_is_not_played_from_its_own_interface() -> None:
    app = Application("Orders")

    @app.serves(ORDERS, IDesk)
    class Desk:
        def ship(self, what: str, weight: float, quantities: list[int]) -> None: ...
        def priority(self, value: int) -> None: ...

    data = second.Data()
    data.bstr("x")
    data.put("d", 1.5)
    data.array(3, [1])

    async def work(manager: Manager) -> str:
        call = second.meth("3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f34", 7, data.octets)
        await send_body(manager, second.message(CLASS, second.secd(CONTEXT_A), call))
        with pytest.raises(Rejected) as caught:
            app.prepare((await messages(manager))[0])
        return caught.value.stage

    assert run(work) == "parameters"


# ---- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-014", "QC-107", "QC-135")
def test_an_answer_is_a_recorded_call_of_its_own() -> None:
    answers: list[Any] = []
    asker, worker = Application("Asker"), Application("Orders")

    @interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f40}")
    class IWork:
        def double(self, number: Long, back: Callback) -> None: ...

    @interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f41}")
    class IAnswer:
        def is_(self, number: Long) -> None: ...

    @worker.serves(ORDERS, IWork)
    class Worker:
        def double(self, number: int, back: Callback) -> None:
            call = current_call()
            with back.recorder(manager=call.manager, transaction=call.transaction) as recorder:
                recorder.interface(IAnswer).is_(2 * number)

    @asker.serves("{5d1c3a70-9b24-4e6f-8a51-c0de0a11ce02}", IAnswer)
    class Asker:
        def is_(self, number: int) -> None:
            answers.append(number)

    async def work(manager: Manager) -> None:
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager) as recorder:
            back = Callback(OUT, UUID("5d1c3a70-9b24-4e6f-8a51-c0de0a11ce02"))
            recorder.interface(IWork).double(21, back)
        await played(manager, worker)
        await played(manager, asker, queue=OUT)

    run(work)
    assert answers == [42]


# ---- what is told ---------------------------------------------------------------------------------------------------


def test_a_hook_that_raises_does_not_stop_the_player(journal: Journal) -> None:
    def hook(event: Any) -> None:
        raise KeyError(event.kind)

    async def work(manager: Manager) -> Any:
        await record(manager, 1)
        await record(manager, 2)
        player = await played(manager, application(journal), queue=QUEUE, on_event=hook)
        return player.figures.messages_played, player.figures.last_error

    assert run(work) == (2, "KeyError: 'played'")


def test_each_call_is_one_line_of_json_and_figures_are_metrics(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.fails = {3}

    async def work(manager: Manager) -> Any:
        await record(manager, 1, 2)
        await record(manager, 3)
        with caplog.at_level(logging.INFO, "lior.components"):
            player = await played(manager, application(journal), queue=QUEUE)
        registry = CollectorRegistry()
        registry.register(player.reporter)
        return generate_latest(registry).decode()

    text = run(work)
    lines = [json.loads(line.getMessage()) for line in caplog.records]
    calls = [line for line in lines if line["event"] == "call"]
    assert [(line["call"], line["outcome"], line["method"]) for line in calls] == [
        (0, "done", "IOrderSink.place_order"), (1, "done", "IOrderSink.place_order"),
        (0, "failed", "IOrderSink.place_order")]  # fmt: skip
    assert calls[2]["error"] == "ValueError: order 3 is not wanted"
    escaped = QUEUE.replace("\\", "\\\\")
    assert f'lior_component_calls_played_total{{application="Orders",queue="{escaped}"}} 2.0' in text
    assert "lior_component_messages_moved_total" in text


@pytest.mark.spec("QC-126")
@pytest.mark.parametrize("level", [AuthenticationLevel.SIG10, AuthenticationLevel.SIG20])
def test_older_signatures_do_not_cover_the_extension_and_the_first_check_does(
    level: int, journal: Journal, tmp_path: Path
) -> None:
    """Somebody on the way changes it: the signature still holds, and nothing is played."""
    identity = lior.Identity.create("clerk", sid=CLERK, level=level)
    lior.embedded.security(tmp_path).register_certificate(CLERK, identity.certificate_pem)

    async def work(manager: Manager) -> Any:
        handle = await manager.backend.open(f"DIRECT=OS:{QUEUE}", 2, False)
        for last in (0x31, 0x32):
            message = Message(body=A, extension=EXTENSION)
            await manager._sign(identity, message, f"DIRECT=OS:{QUEUE}", handle, None, True)
            message.extension = EXTENSION[:-1] + bytes([last])
            await manager._send(handle, message, None, True)
        levels = [message.security and message.security.authentication_level for message in await messages(manager)]
        player = await played(manager, application(journal), queue=QUEUE)
        return levels, player.figures.messages_rejected, [message.extension[-1] for message in await dead(manager)]

    assert run(work, data=tmp_path) == ([level, level], 1, [0x32])
    assert placed(journal) == [1001]
