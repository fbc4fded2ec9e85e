"""lior dead-letter: list, replay, export, purge."""

import base64
import json
from pathlib import Path

import pytest

import lior as library
from lior.cli.deadletter import DeadLetter, resend
from tests.cli.conftest import PLAIN, QUEUE, Lior, records

ELSEWHERE = r".\private$\elsewhere"


@pytest.fixture
def dead(shop: Lior) -> Lior:
    """One dead letter of a transaction, two others."""
    shop("send", QUEUE, "--label", "order", "--body", "tea", "--ttbr", "0", "--app-tag", "7")
    shop("send", PLAIN, "--label", "mail 1", "--body", "one", "--ttbr", "0")
    shop("send", PLAIN, "--label", "mail 2", "--body", "two", "--ttbr", "0")
    return shop


def labels(shop: Lior, *options: str) -> list[str]:
    return [letter["label"] for letter in records(shop("dead-letter", "list", "--json", *options))]


def test_lists_reason_and_origin(dead: Lior) -> None:
    (letter,) = records(dead("dead-letter", "list", "--from", "deadxact", "--json"))
    assert letter["reason"] == "NACK_RECEIVE_TIMEOUT"
    assert letter["origin"].endswith(r"private$\orders")
    table = dead("dead-letter", "list").output
    assert table.count("NACK_RECEIVE_TIMEOUT") == 3
    assert r".\SYSTEM$;DEADXACT" in table


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], ["mail 1", "mail 2", "order"]),
        (["--label", "MAIL"], ["mail 1", "mail 2"]),
        (["--label", "*1"], ["mail 1"]),
        (["--reason", "timeout"], ["mail 1", "mail 2", "order"]),
        (["--reason", "nack_receive*", "--origin", "orders"], ["order"]),
        (["--reason", "PURGED"], []),
        (["--older-than", "1h"], []),
        (["--from", r".\SYSTEM$;DEADXACT"], ["order"]),
    ],
)
def test_filters(dead: Lior, options: list[str], found: list[str]) -> None:
    assert labels(dead, *options) == found


def test_replays_to_the_origin_with_the_properties(dead: Lior) -> None:
    assert "replayed 1 message" in dead("dead-letter", "replay", "--label", "order", "--ttbr", "1d").output
    (message,) = records(dead("receive", QUEUE, "--json"))
    assert (message["label"], message["body"], message["application_tag"]) == ("order", "tea", 7)
    assert message["time_to_be_received"] == 86400
    assert labels(dead) == ["mail 1", "mail 2"]


def test_replays_by_lookup_id_and_elsewhere(dead: Lior) -> None:
    lookup = records(dead("dead-letter", "list", "--label", "mail 2", "--json"))[0]["lookup_id"]
    (sent,) = records(dead("dead-letter", "replay", str(lookup), "--to", PLAIN, "--ttbr", "inf", "--json"))
    assert (sent["lookup_id"], sent["destination"]) == (lookup, PLAIN)
    (message,) = records(dead("receive", PLAIN, "--json"))
    assert (message["label"], message["recoverable"], message["id"]) == ("mail 2", True, sent["id"])
    assert "no dead letter has the lookup id" in dead("dead-letter", "replay", str(lookup), code=1).stderr


@pytest.mark.parametrize("source", ["order", "mail 1"])
@pytest.mark.parametrize("target", [PLAIN, QUEUE])
def test_replays_between_transactional_and_other_queues(dead: Lior, source: str, target: str) -> None:
    dead("dead-letter", "replay", "--label", source, "--to", target, "--ttbr", "inf")
    assert [message["label"] for message in records(dead("browse", target, "--json"))] == [source]
    assert source not in labels(dead)


def test_replays_to_another_computer(dead: Lior) -> None:
    name = r"DIRECT=OS:far\private$\q"
    dead("dead-letter", "replay", "--all", "--to", name, "--ttbr", "inf")
    assert records(dead("outgoing", "show", name, "--json"))[0]["messages"] == 3
    assert labels(dead) == []


def test_a_dry_run_changes_nothing(dead: Lior) -> None:
    assert "3 messages would be sent" in dead("dead-letter", "replay", "--all", "--dry-run").output
    assert len(labels(dead)) == 3


def test_what_cannot_be_sent_stays_and_the_others_go(dead: Lior) -> None:
    dead("queue", "delete", PLAIN)
    result = dead("dead-letter", "replay", "--all", "--ttbr", "inf", code=1)
    assert result.stderr.count("MQ_ERROR_QUEUE_NOT_FOUND") == 2
    assert "replayed 1 message" in result.stdout
    assert labels(dead) == ["mail 1", "mail 2"]


def test_a_replay_that_fails_inside_its_transaction_keeps_the_dead_letter(dead: Lior, data: Path) -> None:
    dead("queue", "set", QUEUE, "--quota", "0")
    dead("dead-letter", "replay", "--label", "order", "--ttbr", "inf", code=1)
    assert "order" in labels(dead)


def test_names_what_it_is_about_or_says_all(dead: Lior) -> None:
    for verb in ("replay", "purge"):
        dead("dead-letter", verb, code=2)
        dead("dead-letter", verb, "--all", "--label", "x", code=2)
    assert len(labels(dead)) == 3


def test_a_replayed_message_is_fresh(dead: Lior, data: Path) -> None:
    with library.open(data) as manager, manager.open_queue(r".\SYSTEM$;DEADXACT", "peek") as queue:
        (message,) = queue
        letter = DeadLetter(r".\SYSTEM$;DEADXACT", True, message)
        resend(manager, letter, QUEUE, {"time_to_be_received": 600})
        with manager.open_queue(QUEUE) as target:
            again = target.peek(0)
        assert (again.failure_reason, again.failed_destination, again.hop_count, again.packet) == (0, "", 0, b"")
        assert again.identifier != message.identifier
        assert again.transaction is not None


def test_exports_everything_and_leaves_it(dead: Lior, tmp_path: Path) -> None:
    file = tmp_path / "dead.jsonl"
    dead("dead-letter", "export", "--output", str(file))
    letters = [json.loads(line) for line in file.read_text().splitlines()]
    assert [letter["label"] for letter in letters] == ["mail 1", "mail 2", "order"]
    assert base64.b64decode(letters[0]["body_base64"]).decode("utf-16-le") == "one"
    assert dead("dead-letter", "export").stdout == file.read_text()
    assert "LIOR_ERROR_STORE_UNUSABLE" in dead("dead-letter", "export", "--output", str(file), code=1).stderr
    assert len(labels(dead)) == 3


def test_purges_by_filter_and_all(dead: Lior) -> None:
    assert records(dead("dead-letter", "purge", "--label", "mail 1", "--json")) == [{"messages": 1}]
    assert labels(dead) == ["mail 2", "order"]
    dead("dead-letter", "purge", "--reason", "timeout", "--from", "deadxact")
    assert labels(dead) == ["mail 2"]
    dead("dead-letter", "purge", "--all", "--yes")
    assert labels(dead) == []


def test_dead_letters_of_an_application_are_found_in_its_queue(shop: Lior) -> None:
    shop("queue", "create", ELSEWHERE)
    shop("send", PLAIN, "--label", "own", "--body", "x", "--ttbr", "0", "--property",
         f"application_deadletter_queue=DIRECT=OS:{ELSEWHERE}")  # fmt: skip
    assert labels(shop, "--from", ELSEWHERE) == ["own"]
    assert labels(shop) == []
