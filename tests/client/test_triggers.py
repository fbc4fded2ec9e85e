"""Triggers on a real queue manager, with real programs."""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.client.triggers import Command, Conditions, Figures, Rule, Trigger, TriggerRunner
from lior.errors import BadConfiguration, QueueNotFound, TransactionUsage
from lior.message import MessageSecurity, SenderIdentifierType
from lior.security import Sid
from lior.wire.dtyp import encode_sid
from tests.client.trigger_scenario import ORDERS, Recorder, rule, trigger, until

Manager = lior.aio.QueueManager


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def with_manager(work: Callable[[Manager], Awaitable[Any]], **queue: Any) -> Any:
    """Run on a queue manager in memory that has the queue ORDERS."""

    async def scenario() -> Any:
        async with lior.aio.open(":memory:") as manager:
            await manager.create_queue(ORDERS, **queue)
            return await work(manager)

    return asyncio.run(scenario())


async def run_once(manager: Manager, *triggers: Trigger) -> dict[str, Figures]:
    runner = TriggerRunner(manager, triggers)
    await runner.start(once=True)
    try:
        await runner.wait()
    finally:
        await runner.stop()
    return runner.figures


async def labels_in(manager: Manager, queue: str = ORDERS) -> list[str]:
    async with await manager.open_queue(queue, "peek") as opened:
        return [message.label async for message in opened]


def test_command_gets_the_properties_and_the_body_of_its_message(recorder: Recorder) -> None:
    action = recorder.command("<{label}>", "{message_id} {priority}", "{{}}", environment={"LANG": "C", "MINE": "1"})

    async def work(manager: Manager) -> Any:
        sent = await manager.send(ORDERS, b"\x00\xffbody", label="é order", priority=5, application_tag=9)
        await run_once(manager, trigger("receive", rule(action)))
        return sent

    sent = with_manager(work)
    (run,) = recorder.runs
    assert run["arguments"] == ["<é order>", f"{sent} 5", "{}"]
    assert run["body"] == b"\x00\xffbody".hex()
    environment = run["environment"]
    assert environment["LIOR_LABEL"] == "é order"
    assert environment["LIOR_MESSAGE_ID"] == str(sent)
    assert (environment["LIOR_PRIORITY"], environment["LIOR_APPLICATION_TAG"]) == ("5", "9")
    assert (environment["LIOR_TRIGGER"], environment["LIOR_RULE"], environment["LIOR_QUEUE"]) == ("t", "r", ORDERS)
    assert environment["LIOR_MESSAGE_CLASS"] == "NORMAL"
    assert "MINE" in run["others"]


def test_command_does_not_see_the_rest_of_our_environment(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "x")
    monkeypatch.setenv("LIOR_DATA", "x")

    async def work(manager: Manager) -> None:
        await manager.send(ORDERS, b"")
        await run_once(manager, trigger("receive", rule(recorder.command())))

    with_manager(work)
    (run,) = recorder.runs
    assert "DATABASE_PASSWORD" not in run["others"]
    assert "LIOR_DATA" not in run["environment"]
    assert "PATH" in run["others"]


@pytest.mark.parametrize(
    "label",
    ["$(touch x); `id` | rm -rf ~ && \"'", "two  words\tand\nlines", "{priority} {{ %s", "-rf", "*", "", "\ud800 half"],
)
def test_label_stays_one_argument_whatever_it_holds(recorder: Recorder, label: str) -> None:
    async def work(manager: Manager) -> None:
        await manager.send(ORDERS, b"", label=label)
        await run_once(manager, trigger("receive", rule(recorder.command("{label}", "end"))))

    with_manager(work)
    assert [run["arguments"] for run in recorder.runs] == [[label.replace("\ud800", "\ufffd"), "end"]]


def test_property_too_long_is_left_out_of_the_environment_and_never_cut_in_an_argument(recorder: Recorder) -> None:
    long = ",".join(rf"DIRECT=OS:host\private$\{'q' * 100}{n}" for n in range(50))

    async def work(manager: Manager) -> dict[str, Figures]:
        await manager.send(ORDERS, b"", response_queue=long)
        await run_once(manager, trigger("peek", rule(recorder.command())))
        return await run_once(manager, trigger("peek", rule(recorder.command("{response_queue}"))))

    figures = with_manager(work)
    (run,) = recorder.runs
    assert "LIOR_RESPONSE_QUEUE" not in run["environment"]
    assert run["environment"]["LIOR_OMITTED"] == "response_queue"
    assert "response_queue has" in figures["t"].last_error


def test_text_body_is_utf_8_whatever_its_body_type(recorder: Recorder) -> None:
    async def work(manager: Manager) -> dict[str, Figures]:
        await manager.send(ORDERS, "größe", formatter="lpwstr")
        await manager.send(ORDERS, b"\xff\xfe\x00", label="no text")
        return await run_once(manager, trigger("receive", rule(recorder.command(), body="text")))

    figures = with_manager(work)
    assert [bytes.fromhex(run["body"]).decode() for run in recorder.runs] == ["größe"]
    assert "no text form" in figures["t"].last_error


def signed(authority: int) -> MessageSecurity:
    return MessageSecurity(SenderIdentifierType.SID, encode_sid(Sid(5, (21, authority))))


CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcd"),
    ({"label_equals": "b order"}, "b"),
    ({"label_contains": "order"}, "abc"),
    ({"label_contains": "ORDER"}, ""),
    ({"label_matches": "^[ac] "}, "ac"),
    ({"priority_min": 4}, "d"),
    ({"priority_max": 2}, "a"),
    ({"priority_min": 3, "priority_max": 6}, "bc"),
    ({"application_tag_equals": 7}, "c"),
    ({"body_contains": "west"}, "ab"),
    ({"body_matches": "(?i)WEST$"}, "b"),
    ({"message_class": "REPORT"}, "d"),
    ({"message_class": 0}, "abc"),
    ({"sender": "S-1-5-21-1"}, "c"),
    ({"sender": "S-1-5-21-1", "authenticated": True}, ""),
    ({"authenticated": False, "label_contains": "a "}, "a"),
    ({"label_contains": "order", "body_contains": "west", "priority_min": 3}, "b"),
]


@pytest.mark.parametrize(("conditions", "matched"), CONDITIONS, ids=[str(c[0]) for c in CONDITIONS])
def test_every_condition_must_hold(recorder: Recorder, conditions: dict[str, Any], matched: str) -> None:
    async def work(manager: Manager) -> tuple[list[str], dict[str, Figures]]:
        await manager.send(ORDERS, b"west side", label="a order", priority=1)
        await manager.send(ORDERS, "north west", label="b order")
        await manager.send(ORDERS, b"\xff\xff", label="c order", application_tag=7, security=signed(1))
        await manager.send(ORDERS, b"", label="d", priority=7, message_class=1)
        when = Conditions(**conditions)
        figures = await run_once(manager, trigger("receive", rule(Command(("true",)), when=when)))
        return [label[0] for label in await labels_in(manager)], figures

    left, figures = with_manager(work)
    assert sorted(left) == sorted(set("abcd") - set(matched))
    assert (figures["t"].matched, figures["t"].succeeded) == (len(matched), len(matched))
    assert figures["t"].unmatched == 4 - len(matched)


def test_rules_act_in_order_until_one_says_stop(recorder: Recorder) -> None:
    rules = (
        rule(recorder.command("1"), "first"),
        rule(recorder.command("2"), "second", Conditions(label_equals="x"), stop=True),
        rule(recorder.command("3"), "third"),
    )

    async def work(manager: Manager) -> None:
        await manager.send(ORDERS, b"", label="x")
        await manager.send(ORDERS, b"", label="y")
        await run_once(manager, trigger("receive", *rules))

    with_manager(work)
    assert [run["arguments"] for run in recorder.runs] == [["1"], ["2"], ["1"], ["3"]]


def test_pattern_that_takes_for_ever_is_cut_off_and_its_message_stays(recorder: Recorder) -> None:
    bad = rule(recorder.command(), when=Conditions(label_matches="^(a+)+$"))

    async def work(manager: Manager) -> tuple[list[str], dict[str, Figures]]:
        await manager.send(ORDERS, b"", label="a" * 60 + "!")
        await manager.send(ORDERS, b"", label="aaa")
        return await labels_in(manager), await run_once(manager, trigger("receive", bad))

    _, figures = with_manager(work)
    assert recorder.labels == ["aaa"]
    assert (figures["t"].matched, figures["t"].unmatched, figures["t"].failed) == (1, 1, 1)
    assert "took longer than 1 s" in figures["t"].last_error


def test_peek_leaves_the_messages_and_fires_once_for_each_while_it_runs(recorder: Recorder) -> None:
    async def work(manager: Manager) -> list[str]:
        await manager.send(ORDERS, b"", label="a", priority=2)
        async with TriggerRunner(manager, [trigger("peek", rule(recorder.command()))]) as runner:
            await until(lambda: runner.figures["t"].succeeded == 1)
            await manager.send(ORDERS, b"", label="b", priority=2)
            await manager.send(ORDERS, b"", label="c", priority=7)
            await manager.send(ORDERS, b"", label="d", priority=0)
            await until(lambda: runner.figures["t"].succeeded == 4)
            await manager.send(ORDERS, b"", label="last", priority=1)
            await until(lambda: runner.figures["t"].succeeded == 5)
        return await labels_in(manager)

    assert with_manager(work) == ["c", "a", "b", "last", "d"]
    assert sorted(recorder.labels) == ["a", "b", "c", "d", "last"]


def test_peek_finds_what_arrives_behind_its_place_and_not_at_the_head(recorder: Recorder) -> None:
    async def work(manager: Manager) -> None:
        await manager.send(ORDERS, b"", label="head", priority=7)
        await manager.send(ORDERS, b"", label="tail", priority=1)
        async with TriggerRunner(manager, [trigger("peek", rule(recorder.command()))]) as runner:
            await until(lambda: runner.figures["t"].succeeded == 2)
            await manager.send(ORDERS, b"", label="between", priority=4)
            await until(lambda: runner.figures["t"].succeeded == 3)

    with_manager(work)
    assert recorder.labels == ["head", "tail", "between"]


def test_peek_does_not_fire_again_for_a_message_that_a_transaction_gave_back(recorder: Recorder) -> None:
    async def work(manager: Manager) -> None:
        await manager.send(ORDERS, b"", label="a")
        async with TriggerRunner(manager, [trigger("peek", rule(recorder.command()))]) as runner:
            await until(lambda: runner.figures["t"].succeeded == 1)
            transaction = await manager.transaction().begin()
            await transaction.receive(ORDERS, 0)
            await manager.send(ORDERS, b"", label="b")
            await until(lambda: runner.figures["t"].succeeded == 2)
            await transaction.abort()
            await manager.send(ORDERS, b"", label="c")
            await until(lambda: runner.figures["t"].succeeded == 3)

    with_manager(work, transactional=True)
    assert recorder.labels == ["a", "b", "c"]


def test_peek_fires_again_after_a_restart_and_does_not_repeat_what_failed(recorder: Recorder) -> None:
    async def work(manager: Manager) -> list[Figures]:
        await manager.send(ORDERS, b"", label="a")
        recorder.fail(1)
        return [(await run_once(manager, trigger("peek", rule(recorder.command()))))["t"] for _ in range(2)]

    first, second = with_manager(work)
    assert recorder.labels == ["a", "a"]
    assert (first.failed, first.succeeded, second.failed, second.succeeded) == (1, 0, 0, 1)
    assert first.last_error == "rule r: exit code 3"


def test_receive_keeps_a_message_whose_action_failed_in_the_subqueue_failed(recorder: Recorder) -> None:
    async def work(manager: Manager) -> tuple[list[str], list[str], list[str]]:
        await manager.send(ORDERS, b"", label="bad")
        await manager.send(ORDERS, b"", label="good")
        recorder.fail(1)
        await run_once(manager, trigger("receive", rule(recorder.command())))
        return await labels_in(manager), await labels_in(manager, f"{ORDERS};failed"), [
            info.name for info in await manager.queues() if info.kind == "subqueue"
        ]  # fmt: skip

    assert with_manager(work) == ([], ["bad"], [r"private$\orders;failed"])
    assert recorder.labels == ["bad", "good"]


def test_receive_takes_the_message_out_of_every_readers_way_before_it_acts(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def work(manager: Manager) -> tuple[list[str], list[str], list[str]]:
        await manager.send(ORDERS, b"", label="a")
        waits = rule(Command(("sh", "-c", 'read line < "$1"', "sh", str(gate))))
        async with TriggerRunner(manager, [trigger("receive", waits)]) as runner:
            end = await asyncio.to_thread(gate.open, "w")  # opens when the action does
            during = await labels_in(manager), await labels_in(manager, f"{ORDERS};trigger-t")
            end.write("go on\n")
            end.close()
            await until(lambda: runner.figures["t"].active == 0)
            assert runner.figures["t"].succeeded == 1
            return *during, await labels_in(manager, f"{ORDERS};trigger-t")

    assert with_manager(work) == ([], ["a"], [])


def test_transaction_tries_again_until_the_action_succeeds_and_removes_the_message_once(recorder: Recorder) -> None:
    async def work(manager: Manager) -> tuple[list[str], Figures]:
        for label in "ab":
            await manager.send(ORDERS, b"", label=label)
        recorder.fail(2)
        async with TriggerRunner(manager, [trigger("transaction", rule(recorder.command()))]) as runner:
            await until(lambda: runner.figures["t"].succeeded == 2)
        return await labels_in(manager), runner.figures["t"]

    left, figures = with_manager(work, transactional=True)
    assert left == []
    assert recorder.labels == ["a", "a", "a", "b"]
    assert [run["environment"]["LIOR_ABORT_COUNT"] for run in recorder.runs] == ["0", "1", "2", "0"]
    assert (figures.failed, figures.succeeded, figures.active) == (2, 2, 0)


def test_transaction_that_fails_too_often_leaves_its_message_in_the_subqueue_poison(recorder: Recorder) -> None:
    async def work(manager: Manager) -> tuple[list[str], list[str], Figures]:
        for label in ("bad", "good"):
            await manager.send(ORDERS, b"", label=label)
        recorder.fail(3)
        async with TriggerRunner(manager, [trigger("transaction", rule(recorder.command()))]) as runner:
            await until(lambda: runner.figures["t"].succeeded == 1)
        return await labels_in(manager), await labels_in(manager, f"{ORDERS};poison"), runner.figures["t"]

    left, poison, figures = with_manager(work, transactional=True, max_aborts=2)
    assert (left, poison) == ([], ["bad"])
    assert recorder.labels == ["bad", "bad", "bad", "good"]
    assert (figures.failed, figures.succeeded) == (3, 1)


def test_once_tries_a_failing_transaction_one_time_and_leaves_its_message(recorder: Recorder) -> None:
    async def work(manager: Manager) -> list[str]:
        for label in "ab":
            await manager.send(ORDERS, b"", label=label)
        recorder.fail(1)
        await run_once(manager, trigger("transaction", rule(recorder.command())))
        return await labels_in(manager)

    assert with_manager(work, transactional=True) == ["a"]
    assert recorder.labels == ["a", "b"]


def test_as_many_actions_run_at_a_time_as_concurrency_says(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waits = rule(Command(("sh", "-c", 'read line < "$1"', "sh", str(gate))))

    async def work(manager: Manager) -> tuple[int, list[str]]:
        for label in "abcde":
            await manager.send(ORDERS, b"", label=label)
        async with TriggerRunner(manager, [trigger("receive", waits, concurrency=3)]) as runner:
            await until(lambda: runner.figures["t"].active == 3)
            waiting = await labels_in(manager)
            busy = runner.figures["t"].active
            opener = asyncio.create_task(keep_open(gate, lambda: runner.figures["t"].succeeded == 5))
            await until(lambda: runner.figures["t"].succeeded == 5)
            await opener
        return busy, waiting

    busy, waiting = with_manager(work)
    assert busy == 3
    assert waiting == ["d", "e"]


async def keep_open(gate: Path, done: Callable[[], bool]) -> None:
    """Let every reader of the pipe go on."""
    descriptor = os.open(gate, os.O_RDWR | os.O_NONBLOCK)
    try:
        while not done():
            os.write(descriptor, b"\n")
            await asyncio.sleep(0.005)
    finally:
        os.close(descriptor)


def test_stop_lets_the_action_under_way_end_and_takes_no_further_message(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waits = rule(Command(("sh", "-c", 'read line < "$1"', "sh", str(gate))))

    async def work(manager: Manager) -> tuple[bool, list[str], Figures]:
        for label in "ab":
            await manager.send(ORDERS, b"", label=label)
        runner = TriggerRunner(manager, [trigger("transaction", waits)])
        await runner.start()
        end = await asyncio.to_thread(gate.open, "w")
        stopping = asyncio.create_task(runner.stop())
        await asyncio.wait([stopping], timeout=0.05)
        waited = not stopping.done()
        end.write("go on\n")
        end.close()
        await stopping
        return waited, await labels_in(manager), runner.figures["t"]

    waited, left, figures = with_manager(work, transactional=True)
    assert waited
    assert left == ["b"]
    assert figures.matched == 1


def test_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = 'trap "" TERM; sleep 1000 & echo $! > "$1"; echo begun; wait; wait'
    slow = rule(Command(("sh", "-c", script, "sh", str(pids))), timeout=3.0)

    async def work(manager: Manager) -> Figures:
        await manager.send(ORDERS, b"x" * 1_000_000)  # more than a pipe holds, and nobody reads it
        return (await run_once(manager, trigger("receive", slow)))["t"]

    figures = with_manager(work)
    assert figures.last_error == "rule r: it took longer than 3 s and was ended"
    end = time.monotonic() + 60
    while is_running(int(pids.read_text())):
        assert time.monotonic() < end


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (Command(("/no/such/program",)), "could not be started"),
        (Command(("true",), directory="/no/such/directory"), "could not be started"),
        (Command(("sh", "-c", "kill -9 $$")), "ended by signal 9"),
        (Command(("false",)), "exit code 1"),
    ],
)
def test_command_that_cannot_do_its_work_has_failed(command: Command, error: str) -> None:
    async def work(manager: Manager) -> tuple[list[str], Figures]:
        await manager.send(ORDERS, b"", label="a")
        figures = await run_once(manager, trigger("receive", rule(command)))
        return await labels_in(manager, f"{ORDERS};failed"), figures["t"]

    failed, figures = with_manager(work)
    assert failed == ["a"]
    assert error in figures.last_error


def test_each_action_is_one_line_of_json_in_the_log(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lior.triggers")

    async def work(manager: Manager) -> str:
        sent = await manager.send(ORDERS, b"", label="a")
        recorder.fail(1)
        async with TriggerRunner(manager, [trigger("transaction", rule(recorder.command()))]) as runner:
            await until(lambda: runner.figures["t"].succeeded == 1)
        return str(sent)

    sent = with_manager(work, transactional=True)
    failed, succeeded = (json.loads(record.getMessage()) for record in caplog.records)
    assert failed["outcome"] == "failed"
    assert failed["output"] == "no luck"
    assert failed["error"] == "exit code 3"
    assert succeeded["outcome"] == "succeeded"
    for line in (failed, succeeded):
        assert (line["trigger"], line["rule"], line["mode"], line["message_id"]) == ("t", "r", "transaction", sent)
        assert line["seconds"] >= 0


def test_transaction_needs_a_transactional_queue_and_every_mode_a_queue() -> None:
    async def start(manager: Manager, *triggers: Trigger) -> None:
        async with TriggerRunner(manager, triggers):
            pass

    act = rule(Command(("true",)))
    with pytest.raises(TransactionUsage, match="not transactional"):
        with_manager(lambda manager: start(manager, trigger("transaction", act)))
    with pytest.raises(QueueNotFound):
        with_manager(lambda manager: start(manager, trigger("peek", act, queue=r".\private$\none")))
    with pytest.raises(BadConfiguration, match="two are named"):
        with_manager(lambda manager: start(manager, trigger("peek", act), trigger("receive", act)))
    with_manager(lambda manager: start(manager, trigger("transaction", act, enabled=False)))


def test_queue_that_is_deleted_is_waited_for_and_found_again(recorder: Recorder) -> None:
    async def work(manager: Manager) -> None:
        async with TriggerRunner(manager, [trigger("receive", rule(recorder.command()))]) as runner:
            await manager.delete_queue(ORDERS)
            await until(lambda: runner.figures["t"].last_error != "")
            await manager.create_queue(ORDERS)
            await manager.send(ORDERS, b"", label="again")
            await until(lambda: runner.figures["t"].succeeded == 1)

    with_manager(work)
    assert recorder.labels == ["again"]


# A runner that is killed

CHILD = r"""
import asyncio, sys
import lior
from lior.client.triggers import Command, Rule, Trigger, TriggerRunner

async def main(data, mode, gate):
    action = Command(("sh", "-c", 'read line < "$1"', "sh", gate))
    trigger = Trigger(name="t", queue=r".\private$\orders", mode=mode, rules=(Rule(name="r", action=action),))
    async with lior.aio.open(data) as manager, TriggerRunner(manager, [trigger]) as runner:
        await runner.wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def kill_in_the_middle(tmp_path: Path, mode: str) -> str:
    data, gate = str(tmp_path / "data"), tmp_path / "gate"
    os.mkfifo(gate)
    async with lior.aio.open(data) as manager:
        await manager.create_queue(ORDERS, transactional=mode == "transaction")
        await manager.send(ORDERS, b"", label="a", recoverable=True)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, data, mode, str(gate))
    end = await asyncio.to_thread(gate.open, "w")  # its action runs
    child.send_signal(signal.SIGKILL)
    await child.wait()
    end.close()
    return data


def test_message_is_back_when_a_runner_is_killed_in_a_transaction(tmp_path: Path, recorder: Recorder) -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        async with lior.aio.open(await kill_in_the_middle(tmp_path, "transaction")) as manager:
            before = await labels_in(manager)
            await run_once(manager, trigger("transaction", rule(recorder.command())))
            return before, await labels_in(manager)

    assert asyncio.run(scenario()) == (["a"], [])
    assert recorder.labels == ["a"]


def test_message_is_set_aside_and_not_acted_on_again_when_a_runner_is_killed_in_mode_receive(
    tmp_path: Path, recorder: Recorder
) -> None:
    async def scenario() -> tuple[list[str], list[str], Figures]:
        async with lior.aio.open(await kill_in_the_middle(tmp_path, "receive")) as manager:
            figures = await run_once(manager, trigger("receive", rule(recorder.command())))
            return await labels_in(manager), await labels_in(manager, f"{ORDERS};failed"), figures["t"]

    left, failed, figures = asyncio.run(scenario())
    assert (left, failed) == ([], ["a"])
    assert recorder.runs == []
    assert figures.last_error == "the process ended while its action ran"


def test_rule_names_are_distinct_in_a_trigger() -> None:
    act = Command(("true",))
    with pytest.raises(BadConfiguration, match="two are named"):
        trigger("peek", Rule(name="r", action=act), Rule(name="R", action=act))
