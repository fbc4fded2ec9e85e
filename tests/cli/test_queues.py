"""lior queue, stats, set, security, outgoing, transaction."""

import asyncio
import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest

import lior as library
from lior import embedded
from lior.queues.change import Reply
from tests.cli.conftest import PLAIN, QUEUE, Lior, records


def test_creates_a_queue_with_every_property(lior: Lior) -> None:
    lior("queue", "create", PLAIN, "--label", "Mail", "--quota", "20M", "--journal-quota", "none", "--journal",
         "--authenticate", "--privacy", "body", "--type", "11111111-2222-3333-4444-555555555555", "--multicast",
         "224.0.1.7:8001", "--max-aborts", "3", "--note", "owner=post", "--note", "since=2024")  # fmt: skip
    (info,) = records(lior("queue", "show", PLAIN, "--json"))
    assert info["properties"] == {
        "label": "Mail", "quota": 20 << 10, "journal_quota": None, "journaling": True, "authentication": True,
        "privacy_level": 2, "type": "11111111-2222-3333-4444-555555555555", "multicast_address": "224.0.1.7:8001",
        "max_aborts": 3, "description": {"owner": "post", "since": "2024"}, "transactional": False, "base_priority": 0,
    }  # fmt: skip
    shown = lior("queue", "show", PLAIN).output
    for part in ("20.0 MiB", "owner=post", "since=2024", "required", "224.0.1.7:8001", "body"):
        assert part in shown


def test_sets_what_is_given_and_keeps_the_rest(shop: Lior) -> None:
    shop("queue", "set", QUEUE, "--label", "new", "--max-aborts", "5")
    shop("queue", "set", QUEUE, "--max-aborts", "none", "--no-journal")
    (info,) = records(shop("queue", "show", QUEUE, "--json"))
    assert info["properties"]["label"] == "new"
    assert info["properties"]["max_aborts"] is None
    assert info["properties"]["journaling"] is False


def test_a_set_without_options_is_wrong_usage(shop: Lior) -> None:
    shop("queue", "set", QUEUE, code=2)
    shop("set", code=2)


@pytest.mark.parametrize("quota", ["-1", "x", "5X", "99999999999", "1.5M"])
def test_refuses_what_is_no_quota(lior: Lior, quota: str) -> None:
    assert "quota" in lior("queue", "create", PLAIN, f"--quota={quota}", code=2).stderr


def test_only_create_makes_a_directory(lior: Lior, data: Path) -> None:
    result = lior("queue", "list", code=1)
    assert "there is no store here" in result.stderr
    assert not data.exists()


def test_lists_by_pattern_and_hides_system_queues(shop: Lior) -> None:
    names = [info["name"] for info in records(shop("queue", "list", "--json"))]
    assert names == [r"private$\orders", r"private$\mail"]
    assert [info["name"] for info in records(shop("queue", "list", "ORD*", "--json"))] == [r"private$\orders"]
    assert "DEADXACT" in shop("queue", "list", "--all").output
    assert "DEADXACT" not in shop("queue", "list").output


def test_table_columns_are_aligned(shop: Lior) -> None:
    shop("send", PLAIN, "--body", "x", "--count", "12")
    lines = shop("queue", "list").stdout.splitlines()
    end = lines[0].index("MESSAGES") + len("MESSAGES")
    assert [line[:end].split()[-1] for line in lines[1:]] == ["0", "12"]


def test_purges_and_deletes(shop: Lior) -> None:
    shop("send", PLAIN, "--body", "x", "--count", "3")
    (purged,) = records(shop("queue", "purge", PLAIN, "--json"))
    assert purged["messages"] == 3
    shop("queue", "delete", PLAIN, "--yes")
    assert "MQ_ERROR_QUEUE_NOT_FOUND 0xC00E0003" in shop("queue", "show", PLAIN, code=1).stderr


def test_errors_say_what_where_and_what_to_do(shop: Lior) -> None:
    lines = shop("queue", "create", QUEUE, code=1).stderr.splitlines()
    assert lines[0] == "error: a queue of this name exists (MQ_ERROR_QUEUE_EXISTS 0xC00E0005)"
    assert lines[1].startswith("where: ")
    assert lines[2].startswith("do:    ")


def test_names_may_be_format_names(shop: Lior) -> None:
    (info,) = records(shop("queue", "show", r"DIRECT=OS:.\private$\orders", "--json"))
    assert info["name"] == r"private$\orders"
    shop("send", info["format_name"], "--body", "x")
    assert len(records(shop("browse", info["format_name"], "--json"))) == 1


# Which queue manager


def test_says_where_it_looked_when_nothing_runs(
    lior: Lior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIOR_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    said = " ".join(lior("queue", "list", code=2).stderr.split())
    assert "--data DIR" in said
    assert "/var/lib/lior" in said
    assert f"{tmp_path}/share/lior" in said.replace(" ", "") or f"{tmp_path}/share/lior" in said


def test_options_go_before_the_environment(
    shop: Lior, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIOR_DATA", str(tmp_path / "nothing"))
    assert "orders" in shop("queue", "list", "--data", str(data)).output
    monkeypatch.setenv("LIOR_SERVER", str(tmp_path / "nobody"))
    assert "orders" in shop("queue", "list", "--data", str(data)).output


def test_a_server_that_does_not_run_is_an_error_with_a_remedy(shop: Lior, data: Path) -> None:
    result = shop("queue", "list", "--server", str(data), code=1)
    assert "no queue manager serves this directory" in result.stderr
    assert f"lior serve --data {data}" in result.stderr


def test_never_takes_a_host_for_a_directory(shop: Lior, tmp_path: Path) -> None:
    result = shop("queue", "list", "--server", "127.0.0.1:9", code=1)
    assert "cannot be reached" in result.stderr
    assert not (tmp_path / "127.0.0.1:9").exists()


@pytest.mark.parametrize("host", ["192.0.2.1", "192.0.2.1:15801"])
def test_sends_no_token_in_the_clear_over_a_network(shop: Lior, host: str) -> None:
    result = shop("queue", "list", "--server", host, code=1)
    assert "would cross the network in the clear" in result.stderr


def test_refuses_both_and_refuses_memory(shop: Lior, data: Path) -> None:
    shop("queue", "list", "--server", str(data), "--data", str(data), code=2)
    shop("queue", "list", "--data", ":memory:", code=2)


# The queue manager


def test_stats_count_messages_by_what_they_wait_for(shop: Lior) -> None:
    shop("send", PLAIN, "--body", "x", "--count", "2")
    shop("send", PLAIN, "--body", "x", "--journal")
    shop("send", PLAIN, "--body", "x", "--ttbr", "0")
    shop("send", r"DIRECT=OS:far\private$\q", "--body", "x")
    (figures,) = records(shop("stats", "--json"))
    assert [figures[name] for name in ("messages", "outgoing_messages", "dead_letters", "journal_messages")] == [
        3, 1, 1, 1,
    ]  # fmt: skip
    assert figures["state"] == "ready"
    assert "3 in queues, 1 outgoing" in shop("stats").output


def test_sets_the_queue_managers_properties(shop: Lior) -> None:
    shop("set", "--quota", "none", "--journal-quota", "1G", "--ttrq", "2h", "--insecure-nacks", "--offline")
    (figures,) = records(shop("stats", "--json"))
    assert figures["queue_manager_quota"] is None
    assert figures["journal_quota"] == 1 << 20
    assert figures["default_time_to_reach_queue"] == 7200
    assert figures["send_insecure_nacks"] is True
    assert figures["connection_active"] is False
    (changed,) = records(shop("set", "--online", "--json"))
    assert changed["connection_active"] is True


def test_shows_and_sets_rights(shop: Lior) -> None:
    shop("security", "set", PLAIN, "D:(A;;0x24;;;AN)(A;;0xf003f;;;BA)")
    (shown,) = records(shop("security", "show", PLAIN, "--json"))
    assert shown["sddl"].endswith("D:(A;;0x24;;;AN)(A;;0xf003f;;;BA)")
    assert shown["entries"][0] == {
        "kind": "access_allowed", "who": "S-1-5-7", "rights": ["write_message", "get_queue_properties"],
    }  # fmt: skip
    assert "write_message" in shop("security", "show", PLAIN).output
    assert shown["owner"] in shop("security", "show", PLAIN).output
    assert "ILLEGAL_SECURITY_DESCRIPTOR" in shop("security", "set", PLAIN, "D:(nonsense", code=1).stderr


def test_pauses_and_resumes_outgoing_queues(shop: Lior) -> None:
    name = r"DIRECT=OS:far\private$\q"
    shop("send", name, "--body", "x")
    shop("outgoing", "pause", name)
    assert "paused" in shop("outgoing", "list").output
    shop("outgoing", "resume", name)
    assert "inactive" in shop("outgoing", "show", name).output
    (info,) = records(shop("outgoing", "list", "--json"))
    assert (info["format_name"], info["messages"]) == (name, 1)
    assert "outgoing" in shop("outgoing", "show", PLAIN, code=1).stderr


class Prepared(Reply):
    """Waits for a prepare."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set_result(self, value: object, /) -> None:
        self.future.set_result(None)

    def set_exception(self, error: Exception, /) -> None:
        self.future.set_exception(error)


def leave_in_doubt(data: Path) -> UUID:
    """A transaction that sent one message and was prepared by a coordinator that is gone."""

    async def run() -> UUID:
        backend = await embedded.start(data)
        manager = backend.manager
        transaction = manager.begin(uuid4(), single_phase=False)
        handle = await backend.open(rf"DIRECT=OS:{QUEUE}", 2, False)
        await backend.send(handle, library.Message(body=b"in doubt"), transaction.identifier)
        reply = Prepared()
        manager.prepare(transaction.identifier, reply)
        await reply.future
        await backend.close()
        return transaction.identifier

    return asyncio.run(run())


@pytest.mark.parametrize(("verb", "messages"), [("commit", 1), ("abort", 0)])
def test_decides_transactions_in_doubt(shop: Lior, data: Path, verb: str, messages: int) -> None:
    identifier = leave_in_doubt(data)
    (known,) = records(shop("transaction", "list", "--json"))
    assert (known["identifier"], known["state"], known["operations"]) == (str(identifier), "prepared", 1)
    assert str(identifier) in shop("transaction", "list").output
    assert len(records(shop("browse", QUEUE, "--json"))) == 0
    shop("transaction", verb, str(identifier))
    assert records(shop("transaction", "list", "--json")) == []
    assert len(records(shop("browse", QUEUE, "--json"))) == messages
    assert "no transaction in doubt" in shop("transaction", verb, str(identifier), code=1).stderr


def test_message_identifiers_go_on_without_gaps_over_restarts(shop: Lior) -> None:
    sent = [records(shop("send", PLAIN, "--body", "x", "--json"))[0]["id"] for _ in range(3)]
    numbers = [int(identifier.rpartition("\\")[2]) for identifier in sent]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


def test_top_once_shows_the_queues(shop: Lior) -> None:
    shop("send", PLAIN, "--body", "x", "--count", "2")
    lines = shop("top", "--once").output.splitlines()
    assert lines[0] == "5 queues, 2 messages, 0 outgoing, 0 dead letters"
    assert lines[3].startswith(r"private$\mail")
    (picture,) = records(shop("top", "--once", "--json"))
    assert picture["queues"][0]["messages"] == 2


def test_json_is_one_object_a_line(shop: Lior) -> None:
    for line in shop("queue", "list", "--all", "--json").stdout.splitlines():
        assert isinstance(json.loads(line), dict)
