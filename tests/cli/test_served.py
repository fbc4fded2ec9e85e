"""The command line on a server: through the data directory's socket, by host and token, and beside other readers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lior.cli.main import cli
from lior.testing.serving import Serving
from tests.cli.conftest import PLAIN, QUEUE, Lior, finished, process, records


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("served") / "data") as server:
        yield server


@pytest.fixture
def lior(server: Serving, monkeypatch: pytest.MonkeyPatch) -> Lior:
    """Run a command on the server's data directory; its queues are empty."""
    monkeypatch.setenv("LIOR_DATA", str(server.data))
    monkeypatch.delenv("LIOR_SERVER", raising=False)

    def run(*arguments: str, code: int = 0, input: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(cli, list(arguments), input=input)
        assert result.exit_code == code, f"{arguments}: {result.exit_code}\n{result.output}\n{result.exc_info}"
        return result

    for path, options in ((QUEUE, ("--transactional",)), (PLAIN, ())):
        if CliRunner().invoke(cli, ["queue", "show", path]).exit_code == 0:
            run("queue", "delete", path, "--yes")
        run("queue", "create", path, *options)
    return run


def test_the_commands_work_on_the_directory_that_a_server_has(lior: Lior, server: Serving) -> None:
    for queue in (QUEUE, PLAIN):
        lior("send", queue, "--body", "tea", "--label", "order", "--count", "3")
        assert records(lior("peek", queue, "--json"))[0]["body"] == "tea"
        assert len(records(lior("browse", queue, "--json"))) == 3
        assert records(lior("receive", queue, "--json"))[0]["label"] == "order"
        assert len(records(lior("receive", queue, "--all", "--json"))) == 2
        lior("receive", queue, code=3)
    assert records(lior("stats", "--json"))[0]["state"] == "ready"
    assert QUEUE[2:] in lior("top", "--once").output
    assert "Lior" not in lior("queue", "list").output
    assert records(lior("queue", "show", QUEUE, "--json"))[0]["transactional"] is True
    lior("queue", "set", QUEUE, "--label", "new")
    lior("security", "set", QUEUE, "D:(A;;GA;;;WD)")
    assert "D:(A;;" in lior("security", "show", QUEUE).output
    assert "gave back" in lior("compact").output
    assert lior("name", QUEUE).output
    lior("doctor", str(server.data))


def test_moves_dead_letters_and_journals_work(lior: Lior) -> None:
    lior("queue", "set", PLAIN, "--journal")
    lior("send", PLAIN, "--body", "x", "--ttbr", "0")
    [letter] = records(lior("dead-letter", "list", "--json"))
    assert letter["reason"] == "NACK_RECEIVE_TIMEOUT"
    lior("dead-letter", "replay", "--all", "--ttbr", "inf")
    [message] = records(lior("browse", PLAIN, "--json"))
    lior("move", PLAIN, str(message["lookup_id"]), "later")
    assert len(records(lior("browse", f"{PLAIN};later", "--json"))) == 1
    lior("move", f"{PLAIN};later", "--all", "")
    lior("receive", PLAIN)
    assert len(records(lior("journal", PLAIN, "--json"))) == 1
    lior("queue", "purge", f"{PLAIN};JOURNAL", "--yes")


def test_two_commands_that_drain_a_queue_show_each_message_once(lior: Lior, server: Serving) -> None:
    for queue in (PLAIN, QUEUE):
        lior("send", queue, "--body", "x", "--count", "300")
        there = [message["id"] for message in records(lior("browse", queue, "--json", "--limit", "300"))]
        readers = [process(server.data, "receive", queue, "--all", "--json") for _ in range(3)]
        shown = []
        for reader in readers:
            out, _ = reader.communicate(timeout=240)
            assert reader.returncode in (0, 3)  # another one may have been faster for all of them
            shown += [json.loads(line)["id"] for line in out.splitlines()]
        assert sorted(shown) == sorted(there)


def test_a_reader_that_is_killed_gives_back_what_it_did_not_show(lior: Lior, server: Serving) -> None:
    lior("send", PLAIN, "--body", "x" * 20_000, "--count", "30")
    reader = process(server.data, "receive", PLAIN, "--all", "--json")  # its pipe fills, for nobody reads
    assert reader.stdout is not None
    first = json.loads(reader.stdout.readline())
    assert reader.stdout.readline()  # it comes when the server knows that the first was written
    reader.kill()
    reader.communicate()
    left = {message["id"] for message in records(lior("receive", PLAIN, "--all", "--json", "--timeout", "2"))}
    assert first["id"] not in left
    assert len(left) >= 20


def test_a_server_is_named_by_host_and_token(lior: Lior, server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    host = f"{server.bind}:15801"
    lior("send", PLAIN, "--body", "x")
    assert "needs its token" in lior("receive", PLAIN, "--server", host, code=1).stderr
    monkeypatch.setenv("LIOR_TOKEN", server.token)
    lior("receive", PLAIN, "--server", host)
    lior("send", PLAIN, "--body", "y", "--server", server.bind)
    monkeypatch.delenv("LIOR_DATA")
    monkeypatch.setenv("LIOR_SERVER", host)
    lior("receive", PLAIN)


def test_the_running_server_is_found_without_a_name(
    lior: Lior, server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIOR_DATA")
    (tmp_path / "lior").symlink_to(server.data)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert QUEUE[2:] in lior("queue", "list").output


def test_an_outgoing_queue_says_why_its_messages_do_not_leave(lior: Lior) -> None:
    far = r"DIRECT=TCP:127.254.254.253\private$\far"
    lior("send", far, "--body", "x", "--ttrq", "1h")

    def shown() -> dict[str, object]:
        [found] = [queue for queue in records(lior("outgoing", "list", "--json")) if queue["format_name"] == far]
        return found

    while not shown()["history"] or shown()["history"][-1]["status"] == "IN_PROGRESS":  # type: ignore[index]
        pass  # the first attempt is under way
    text = lior("outgoing", "show", far).output
    assert "next hops" in text and "127.254.254.253" in text
    assert "connect socket failure" in text
    assert far in lior("outgoing", "list").output
    lior("outgoing", "pause", far)
    assert "paused" in lior("outgoing", "show", far).output
    lior("outgoing", "resume", far)
    lior("outgoing", "connections")


def test_messages_travel_from_server_to_server_and_the_connection_is_shown(lior: Lior, tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as other:
        lior("queue", "create", PLAIN, "--data", str(other.data))
        lior("send", other.queue("mail"), "--body", "hello")
        [message] = records(lior("receive", PLAIN, "--data", str(other.data), "--timeout", "60s", "--json"))
        assert message["body"] == "hello"
        [connection] = records(lior("outgoing", "connections", "--json"))
        assert connection["address"] == other.address
        assert f"to {other.address}" in lior("outgoing", "connections").output
        history = records(lior("outgoing", "show", other.queue("mail"), "--json"))[0]["history"]
        assert "READY" in {entry["status"] for entry in history}


def test_a_directory_goes_to_its_server_and_back_to_the_command_when_that_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    finished(process(data, "queue", "create", PLAIN))
    with Serving(data) as server:
        finished(process(data, "send", PLAIN, "--body", "through the server"))
        server.kill()
        out, _ = finished(process(data, "receive", PLAIN, "--json"))  # its socket is still there, and nobody behind it
        assert json.loads(out)["body"] == "through the server"
