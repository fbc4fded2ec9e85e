"""The dispatch form of a call, answers, and what is told of what was played."""

import json
import logging
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lior.components import (
    Application,
    ByRef,
    Callback,
    Long,
    aio,
    current_call,
    dispid,
    interface,
    propput,
)
from lior.components.application import Rejected
from tests.components.order_scenario import (
    ORDERS,
    OUT,
    QUEUE,
    Journal,
    Manager,
    application,
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
)

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
