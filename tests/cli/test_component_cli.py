"""lior component on real queue managers and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lior as library
from lior.components import Recorder
from tests.cli.conftest import Lior, records
from tests.components.order_scenario import ORDERS, IOrderSink
from tests.wire.recorded_call_vectors import A, D

APP = Path(__file__).resolve().parent.parent / "components" / "cli_app.py"
QUEUE = r".\private$\Orders"


@pytest.fixture
def orders(lior: Lior, data: Path) -> Lior:
    """With the application's queue, one good message and one whose second call fails."""
    lior("queue", "create", QUEUE, "--transactional")
    with library.open(data) as qm:
        for amounts in ((1.0, 2.0), (3.0, -4.0)):
            with Recorder(QUEUE, class_id=ORDERS, manager=qm) as recorder:
                for number, amount in enumerate(amounts):
                    recorder.interface(IOrderSink).place_order(number, "x", amount)
    return lior


def test_play_plays_what_is_there_and_says_how_it_went(orders: Lior) -> None:
    (told,) = records(orders("component", "play", str(APP), "--once", "--json", code=1))
    assert told["application"] == "Orders"
    assert (told["messages_played"], told["calls_played"], told["calls_failed"], told["messages_moved"]) == (1, 3, 1, 1)
    assert "MESSAGES" in orders("component", "play", f"{APP}:app", "--once", "--queue", QUEUE).stdout


@pytest.mark.spec("QC-133")
def test_dead_messages_are_shown_with_their_reason_and_played_again(orders: Lior, data: Path) -> None:
    orders("component", "play", str(APP), "--once", "--retry-delays", "", code=1)
    (shown,) = records(orders("component", "dump", "--queue", f"{QUEUE};dead", "--program", str(APP), "--json"))
    assert shown["reason"] == "ValueError: -4.0"
    assert [call["arguments"] for call in shown["calls"]] == [["0", "'x'", "3.0"], ["1", "'x'", "-4.0"]]
    assert "moved 1 message back" in orders("component", "retry", QUEUE).stdout
    again = orders("component", "play", str(APP.parent / "tolerant_app.py"), "--once", "--json")
    assert records(again)[0]["messages_played"] == 1
    with library.open(data) as qm, qm.open_queue(rf"{QUEUE};dead") as queue:
        assert list(queue) == []


@pytest.mark.spec("QC-133")
def test_move_keeps_the_message_and_stays_within_one_queue(orders: Lior, data: Path) -> None:
    def all_of(name: str) -> list[library.Message]:
        with library.open(data) as qm, qm.open_queue(name, "peek") as queue:
            return list(queue)

    first, second = all_of(QUEUE)
    orders("component", "move", QUEUE, f"{QUEUE};dead", str(second.lookup_identifier))
    assert [message.identifier for message in all_of(QUEUE)] == [first.identifier]
    (moved,) = all_of(f"{QUEUE};dead")
    assert (moved.identifier, moved.security, moved.body) == (second.identifier, second.security, second.body)
    (told,) = records(orders("component", "move", f"{QUEUE};dead", QUEUE, "--json"))
    assert told["moved"] == 1
    assert [message.identifier for message in all_of(QUEUE)] == [first.identifier, second.identifier]
    orders("queue", "create", r".\private$\other", "--transactional")
    assert "another sender" in orders("component", "move", QUEUE, r".\private$\other", code=1).output


def test_dump_shows_a_body_from_a_file(orders: Lior, tmp_path: Path) -> None:
    for name, body in (("a", A), ("d", D), ("bad", A[:-8])):
        (tmp_path / name).write_bytes(body)
    text = orders("component", "dump", str(tmp_path / "a")).stdout
    assert "class 5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01, 512 bytes" in text
    assert "0 3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31 method 3(...) by S-1-5-21-1000-2000-3000-1104, 40 bytes" in text
    named = orders("component", "dump", str(tmp_path / "a"), "--program", str(APP)).stdout
    assert "1 IOrderSink.add_lines(-2, [10, 20, -30], True)" in named
    assert "dispid 7('Zoë', 3.25" in orders("component", "dump", str(tmp_path / "d")).stdout
    (bad,) = records(orders("component", "dump", str(tmp_path / "bad"), "--json", code=1))
    assert "message size" in bad["error"]
    orders("component", "dump", code=2)


def test_what_a_message_says_cannot_steer_the_terminal(orders: Lior, data: Path) -> None:
    with library.open(data) as qm, Recorder(QUEUE, class_id=ORDERS, manager=qm) as recorder:
        recorder.interface(IOrderSink).place_order(7, "\x1b[2J\u202e", 1.0)
    text = orders("component", "dump", "--queue", QUEUE, "--program", str(APP)).stdout
    assert "\x1b" not in text
    assert "\u202e" not in text


IDL = """[uuid(3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31)] interface ISink : IUnknown { HRESULT Put([in] long a); };"""


def test_import_writes_a_module_and_its_stub(lior: Lior, tmp_path: Path) -> None:
    source, target = tmp_path / "sink.idl", tmp_path / "sink.py"
    source.write_text(IDL)
    assert "class ISink" in lior("component", "import", str(source)).stdout
    lior("component", "import", str(source), "--output", str(target), "--stub")
    assert "def put(self, a: Long) -> None: ..." in target.read_text()
    assert "def put(self, a: int) -> None: ..." in target.with_suffix(".pyi").read_text()
    assert "class ISink" in lior("component", "stub", str(target)).stdout
    assert json.loads(lior("component", "import", str(source), "--json").stdout)["python"]
    lior("component", "import", str(source), "--stub", code=2)
    source.write_text("nonsense")
    assert "line 1" in lior("component", "import", str(source), code=1).output


def test_programs_that_do_not_fit_are_refused(orders: Lior, tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.py", tmp_path / "empty.py"
    broken.write_text("1 / 0")
    empty.write_text("")
    for program, word in ((str(broken), "ZeroDivisionError"), (str(empty), "0 applications"),
                          (f"{APP}:nothing", "0 applications"), (str(tmp_path / "none.py"), "no such file"),
                          (str(APP.parent / "two_apps.py"), "2 applications")):  # fmt: skip
        assert word in orders("component", "play", program, "--once", code=1).output, program
    orders("component", "play", str(APP), "--retry-delays", "soon", code=2)
