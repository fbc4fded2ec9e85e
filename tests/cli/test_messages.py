"""lior send, receive, peek, browse, move, journal."""

import base64
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from lior.cli.main import cli
from tests.cli.conftest import PLAIN, QUEUE, Lior, records


def one(shop: Lior, queue: str = PLAIN) -> dict[str, Any]:
    (message,) = records(shop("receive", queue, "--json"))
    return message


def test_sends_every_property(shop: Lior) -> None:
    identifier = r"{11111111-2222-3333-4444-555555555555}\7"
    shop("send", PLAIN, "--body", "text", "--label", "ä label", "--priority", "7", "--ttrq", "1h", "--ttbr", "2d",
         "--app-tag", "9", "--correlation-id", identifier, "--admin-queue", QUEUE, "--response-queue", QUEUE,
         "--ack", "not-receive", "--property", "extension=hex:CAFE", "--property", "message_class=0x1",
         "--property", "connector_type=11111111-2222-3333-4444-555555555555",
         "--property", 'soap_header=<mine xmlns="urn:m">ä</mine>')  # fmt: skip
    message = one(shop)
    assert message["soap_header"] == '<mine xmlns="urn:m">ä</mine>'
    direct = rf"DIRECT=OS:{QUEUE}"
    assert {name: message[name] for name in (
        "body", "label", "priority", "time_to_reach_queue", "time_to_be_received", "application_tag",
        "correlation_id", "administration_queue", "response_queue", "acknowledgements", "class", "recoverable",
    )} == {
        "body": "text", "label": "ä label", "priority": 7, "time_to_reach_queue": 3600,
        "time_to_be_received": 172800, "application_tag": 9, "correlation_id": identifier,
        "administration_queue": direct, "response_queue": direct,
        "acknowledgements": "negative_arrival, negative_receive", "class": "REPORT", "recoverable": True,
    }  # fmt: skip
    assert base64.b64decode(message["extension_base64"]) == b"\xca\xfe"


def test_body_comes_from_standard_input_or_a_file_as_it_is(shop: Lior, tmp_path: Path) -> None:
    shop("send", PLAIN, input=b"\xff\x00from stdin")
    file = tmp_path / "body"
    file.write_bytes(b"\x00file")
    shop("send", PLAIN, "--file", str(file))
    first, second = records(shop("receive", PLAIN, "--count", "2", "--json"))
    assert base64.b64decode(first["body_base64"]) == b"\xff\x00from stdin"
    assert (second["body"], second["body_type"]) == ("\x00file", 0)
    shop("send", PLAIN, "--file", str(file), "--body", "x", code=2)


@pytest.mark.parametrize(
    ("formatter", "text", "body", "body_type"),
    [
        ("bytes", "x", b"x", 0x1011),
        ("string", "ä", "ä".encode("utf-16-le"), 8),
        ("json", '{"a": 1}', b'{"a":1}', 0),
    ],
)
def test_formatters_write_the_body(shop: Lior, formatter: str, text: str, body: bytes, body_type: int) -> None:
    shop("send", PLAIN, "--formatter", formatter, "--body", text)
    shop("send", PLAIN, "--formatter", formatter, input=text)
    for _ in range(2):
        assert shop("peek", PLAIN, "--raw").stdout_bytes == body
        assert one(shop)["body_type"] == body_type


def test_refuses_bodies_that_do_not_fit_their_formatter(shop: Lior) -> None:
    assert "no JSON" in shop("send", PLAIN, "--formatter", "json", "--body", "{", code=2).stderr
    assert "UTF-8" in shop("send", PLAIN, "--formatter", "string", input=b"\xff", code=2).stderr


def test_refuses_a_body_over_4_mib(shop: Lior, tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(bytes(5 << 20))
    assert "MESSAGE_TOO_LARGE" in shop("send", PLAIN, "--file", str(file), code=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--property", "nothing=1"], ["--property", "body=x"], ["--property", "priority"], ["--property", "priority=x"],
        ["--property", "application_tag=-1"], ["--property", "extension=hex:XY"], ["--priority", "8"],
        ["--ttbr", "soon"], ["--ttbr", "1.5s"], ["--correlation-id", "x"], ["--ack", "receive"], ["--count", "0"],
    ],
)  # fmt: skip
def test_refuses_wrong_options(shop: Lior, arguments: list[str]) -> None:
    shop("send", PLAIN, "--body", "x", *arguments, code=2)


def test_sends_to_several_queues_at_once(shop: Lior) -> None:
    shop("queue", "create", r".\private$\second")
    shop("send", rf"DIRECT=OS:{PLAIN},DIRECT=OS:.\private$\second", "--body", "x")
    assert one(shop)["body"] == one(shop, r".\private$\second")["body"] == "x"


def test_sends_so_many(shop: Lior) -> None:
    assert "sent 5 messages" in shop("send", QUEUE, "--body", "x", "--count", "5").output
    assert len(records(shop("receive", QUEUE, "--all", "--json"))) == 5


def test_dead_letters_are_wanted_unless_told_otherwise(shop: Lior) -> None:
    shop("send", PLAIN, "--body", "x", "--ttbr", "0", "--no-dead-letter")
    assert records(shop("dead-letter", "list", "--json")) == []


def test_an_express_message_is_gone_with_its_command_which_says_so(shop: Lior) -> None:
    assert "ends with the queue manager" in shop("send", PLAIN, "--body", "x", "--express").stderr
    shop("receive", PLAIN, code=3)


# Receive


def test_receive_ends_with_3_when_there_is_no_message(shop: Lior) -> None:
    assert "MQ_ERROR_IO_TIMEOUT 0xC00E001B" in shop("receive", PLAIN, code=3).stderr
    shop("receive", QUEUE, "--timeout", "0.01", code=3)
    shop("receive", PLAIN, "--all", code=3)
    shop("peek", PLAIN, code=3)


@pytest.mark.parametrize("queue", [PLAIN, QUEUE])
def test_receive_gives_what_came_and_ends_with_3_when_more_was_asked(shop: Lior, queue: str) -> None:
    shop("send", queue, "--body", "x", "--count", "2")
    result = shop("receive", queue, "--count", "3", "--json", code=3)
    assert len(records(result)) == 2
    assert "only 2 of 3" in result.stderr


def test_a_transaction_receives_all_or_nothing(shop: Lior) -> None:
    shop("send", QUEUE, "--body", "x", "--count", "2")
    result = shop("receive", QUEUE, "--count", "3", "--transaction", "--json", code=3)
    assert result.stdout == ""
    messages = records(shop("receive", QUEUE, "--count", "2", "--transaction", "--json"))
    assert [message["abort_count"] for message in messages] == [1, 1]
    assert "TRANSACTION_USAGE" in shop("receive", PLAIN, "--transaction", code=1).stderr


def test_receives_across_batches_in_order(shop: Lior) -> None:
    shop("send", QUEUE, "--body", "x", "--count", "230")
    ids = [message["lookup_id"] for message in records(shop("receive", QUEUE, "--all", "--json"))]
    assert len(ids) == 230
    assert ids == sorted(ids)


@pytest.mark.parametrize("queue", [PLAIN, QUEUE])
def test_output_dir_holds_the_bodies_and_their_properties(shop: Lior, queue: str, tmp_path: Path) -> None:
    shop("send", queue, "--label", "one", input=b"\x00\xff")
    out = tmp_path / "out"
    shop("receive", queue, "--output-dir", str(out))
    (body,) = out.glob("*.body")
    (properties,) = out.glob("*.json")
    assert body.read_bytes() == b"\x00\xff"
    data = json.loads(properties.read_text())
    assert (data["label"], base64.b64decode(data["body_base64"])) == ("one", b"\x00\xff")
    shop("receive", queue, code=3)


@pytest.mark.parametrize("queue", [PLAIN, QUEUE])
@pytest.mark.parametrize("options", [(), ("--count", "2")])
def test_a_message_that_cannot_be_written_stays(
    shop: Lior, queue: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    shop("send", queue, "--body", "x", "--count", "2")
    first, second = records(shop("browse", queue, "--json"))
    out = tmp_path / "out"
    out.mkdir()
    taken = first if not options else second
    (out / f"{taken['lookup_id']}.json").write_text("mine")
    result = shop("receive", queue, *options, "--output-dir", str(out), code=1)
    assert "LIOR_ERROR_STORE_UNUSABLE" in result.stderr
    left = {message["lookup_id"] for message in records(shop("browse", queue, "--json"))}
    assert taken["lookup_id"] in left
    kept = {file.name for file in out.glob("*.body")}
    assert kept == {f"{lookup}.body" for lookup in {first["lookup_id"], second["lookup_id"]} - left}
    assert (out / f"{taken['lookup_id']}.json").read_text() == "mine"


@pytest.mark.parametrize("queue", [PLAIN, QUEUE])
def test_receives_by_lookup_id_and_by_correlation_id(shop: Lior, queue: str) -> None:
    identifier = "00" * 16 + "05000000"
    for number in range(3):
        more = ("--correlation-id", identifier) if number == 1 else ()
        shop("send", queue, "--body", str(number), *more)
    last = records(shop("browse", queue, "--json"))[-1]["lookup_id"]
    assert json.loads(shop("peek", queue, "--lookup-id", str(last), "--json").stdout)["body"] == "2"
    assert one_by(shop, queue, "--lookup-id", str(last))["body"] == "2"
    assert one_by(shop, queue, "--correlation-id", identifier)["body"] == "1"
    shop("receive", queue, "--correlation-id", identifier, code=3)
    assert "MESSAGE_NOT_FOUND" in shop("receive", queue, "--lookup-id", str(last), code=1).stderr
    shop("receive", queue, "--lookup-id", "1", "--count", "2", code=2)
    shop("receive", queue, "--lookup-id", "1", "--correlation-id", identifier, code=2)


def one_by(shop: Lior, queue: str, *how: str) -> dict[str, Any]:
    (message,) = records(shop("receive", queue, *how, "--json"))
    return message


def test_output_forms_exclude_each_other(shop: Lior) -> None:
    shop("receive", PLAIN, "--json", "--raw", code=2)
    shop("peek", PLAIN, "--raw", "--output-dir", "x", code=2)


def test_peek_and_browse_take_nothing(shop: Lior) -> None:
    shop("send", PLAIN, "--label", "first", "--body", "x")
    shop("send", PLAIN, "--label", "second", "--body", "y" * 200)
    assert "first" in shop("peek", PLAIN).output
    listing = shop("browse", PLAIN).output
    assert "second" in listing
    assert "yyy..." in listing
    assert "1 of 2 messages; more with --limit" in shop("browse", PLAIN, "--limit", "1").output
    assert len(records(shop("browse", PLAIN, "--json"))) == 2


def test_control_characters_are_escaped_for_people_only(shop: Lior) -> None:
    evil = "\x1b]0;title\x07\x1b[2J"
    shop("send", PLAIN, "--label", evil, "--body", evil + "\nline")
    for command in ("browse", "peek"):
        text = shop(command, PLAIN).output
        assert "\x1b" not in text
        assert r"\x1b[2J" in text
    assert one(shop)["label"] == evil


# Move, journal


def test_moves_messages_between_a_queue_and_its_subqueues(shop: Lior) -> None:
    for queue in (PLAIN, QUEUE):
        shop("send", queue, "--body", "x", "--count", "3")
        first, second, _ = (str(message["lookup_id"]) for message in records(shop("browse", queue, "--json")))
        shop("move", queue, first, second, "retry")
        moved = records(shop("browse", f"{queue};retry", "--json"))
        assert [str(message["lookup_id"]) for message in moved] == [first, second]
        assert [message["move_count"] for message in moved] == [1, 1]
        shop("move", f"{queue};retry", "--all", "")
        assert len(records(shop("browse", queue, "--json"))) == 3


def test_a_move_of_a_transactional_queue_is_all_or_nothing(shop: Lior) -> None:
    shop("send", QUEUE, "--body", "x")
    (message,) = records(shop("browse", QUEUE, "--json"))
    shop("move", QUEUE, str(message["lookup_id"]), "123", "retry", code=1)
    assert len(records(shop("browse", QUEUE, "--json"))) == 1


def test_move_needs_lookup_ids_or_all(shop: Lior) -> None:
    shop("move", PLAIN, "retry", code=2)
    shop("move", PLAIN, "1", "retry", "--all", code=2)
    shop("move", PLAIN, "abc", "retry", code=2)


def test_journals_are_shown_and_emptied(shop: Lior) -> None:
    shop("send", QUEUE, "--label", "kept", "--body", "x")
    shop("receive", QUEUE)
    assert "kept" in shop("journal", QUEUE).output
    assert len(records(shop("journal", rf"DIRECT=OS:{QUEUE}", "--json"))) == 1
    shop("journal", QUEUE, "--purge", "--yes")
    assert records(shop("journal", QUEUE, "--json")) == []
    shop("send", PLAIN, "--label", "mine", "--body", "x", "--journal")
    assert "mine" in shop("journal").output


def test_labels_and_bodies_survive_json(shop: Lior) -> None:
    shop("send", PLAIN, "--label", 'a "quote" \\ and ü', "--body", "line\nline\t€")
    message = one(shop)
    assert (message["label"], message["body"]) == ('a "quote" \\ and ü', "line\nline\t€")
    assert str(UUID(message["id"][1:37])).upper() == message["id"][1:37]


def test_a_wrong_command_is_wrong_usage() -> None:
    assert CliRunner().invoke(cli, ["nonsense"]).exit_code == 2
