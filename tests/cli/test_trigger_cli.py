"""lior trigger, as a program of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lior

ORDERS = r".\private$\orders"

FILE = """
[[trigger]]
name = "orders"
queue = '.\\private$\\orders'
mode = "transaction"
[[trigger.rule]]
name = "ship"
when = { label_contains = "order" }
body = "text"
command = ["sh", "-c", 'cat >> "$1"; echo >> "$1"', "sh", "OUT"]

[[trigger]]
name = "watch"
queue = '.\\private$\\bills'
[[trigger.rule]]
name = "tell"
http = { url = "https://example.org/hook", headers = { Authorization = "secret" } }
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    with lior.open(directory) as manager:
        manager.create_queue(ORDERS, transactional=True)
        manager.create_queue(r".\private$\bills")
        manager.send(ORDERS, "first", label="order 1")
        manager.send(ORDERS, "second", label="other")
        manager.send(ORDERS, "third", label="order 2")
    return directory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "triggers.toml"
    path.write_text(FILE.replace("OUT", str(tmp_path / "out")))
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lior.cli.main", "trigger", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=240, env=environment())


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LIOR_")}
    return kept | {"NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def labels_in(data: Path, queue: str = ORDERS) -> list[str]:
    with lior.open(data) as manager, manager.open_queue(queue, "peek") as opened:
        return [message.label for message in opened]


def test_check_shows_the_rules_and_no_secrets(file: Path) -> None:
    shown = run("check", file)
    assert shown.returncode == 0, shown.stderr
    assert "ship" in shown.stdout
    assert "POST https://example.org/hook" in shown.stdout
    as_json = run("check", file, "--json")
    first, second = map(json.loads, as_json.stdout.splitlines())
    assert first["rules"][0]["when"] == {"label_contains": "order"}
    assert second["mode"] == "peek"
    assert "secret" not in shown.stdout + as_json.stdout


def test_check_names_the_mistake_and_the_nearest_key(file: Path) -> None:
    file.write_text(FILE.replace("label_contains", "label_contain"))
    result = run("check", file)
    assert result.returncode == 1
    assert "no key 'label_contain'" in result.stderr
    assert "trigger orders: rule ship: when" in result.stderr
    assert "did you mean 'label_contains'?" in result.stderr


def test_test_shows_what_would_match_and_does_nothing(file: Path, data: Path, tmp_path: Path) -> None:
    result = run("test", file, "--data", data, "--queue", r"DIRECT=OS:localhost\private$\orders", "--json")
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["label"], line["rules"]) for line in lines] == [
        ("order 1", ["ship"]), ("other", []), ("order 2", ["ship"]),
    ]  # fmt: skip
    assert labels_in(data) == ["order 1", "other", "order 2"]
    assert not (tmp_path / "out").exists()


def test_test_of_a_queue_that_no_trigger_watches_says_which_are(file: Path, data: Path) -> None:
    with lior.open(data) as manager:
        manager.create_queue(r".\private$\third")
    result = run("test", file, "--data", data, "--queue", r".\private$\third")
    assert result.returncode == 1
    assert "no trigger of the file watches this queue" in result.stderr
    assert ORDERS in result.stderr


def test_run_once_deals_with_what_is_there(file: Path, data: Path, tmp_path: Path) -> None:
    result = run("run", file, "--once", "--data", data, "--json")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out").read_text() == "first\nthird\n"
    assert labels_in(data) == ["other"]
    orders, _ = map(json.loads, result.stdout.splitlines())
    assert (orders["matched"], orders["unmatched"], orders["succeeded"], orders["failed"]) == (2, 1, 2, 0)
    logged = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(line["rule"], line["outcome"]) for line in logged] == [("ship", "succeeded")] * 2


def test_run_once_ends_with_1_when_an_action_failed(file: Path, data: Path) -> None:
    file.write_text(file.read_text().replace('"sh", "-c", ', '"false", '))
    result = run("run", file, "--once", "--data", data)
    assert result.returncode == 1
    assert "exit code 1" in result.stdout
    assert labels_in(data) == ["order 1", "other", "order 2"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_ends_cleanly_when_told_to(file: Path, data: Path, tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        command("run", file, "--data", data), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "running 2 triggers\n"
    for _ in range(2):
        assert json.loads(process.stderr.readline())["outcome"] == "succeeded"
    process.send_signal(number)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    assert "orders" in output
    assert labels_in(data) == ["other"]


def test_run_does_not_make_a_data_directory(file: Path, tmp_path: Path) -> None:
    result = run("run", file, "--data", tmp_path / "none")
    assert result.returncode == 1
    assert not (tmp_path / "none").exists()
