"""lior trace."""

from __future__ import annotations

import pytest

from lior.cli.trace import in_percent
from tests.cli.conftest import PLAIN, QUEUE, Lior, records

UNKNOWN = r"{00000000-0000-0000-0000-000000000001}\1"


def send(shop: Lior, *options: str) -> str:
    (sent,) = records(shop("send", *options, "--body", "x", "--json"))
    return str(sent["id"])


def test_says_in_order_what_became_of_a_message_and_where_it_is(shop: Lior) -> None:
    message = send(shop, QUEUE, "--label", "order 1001")
    shop("receive", QUEUE)
    first, *lines = shop("trace", message).stdout.splitlines()
    assert first == f"{message}  order 1001"
    assert lines[0].endswith(r"sent to private$\orders on this queue manager")
    assert any(line.endswith(r"received from private$\orders by an application") for line in lines)
    assert lines[-1].split(maxsplit=1) == ["now", r"copy in the journal private$\orders;JOURNAL"]


def test_says_when_a_message_is_nowhere_any_more(shop: Lior) -> None:
    message = send(shop, PLAIN)
    shop("receive", PLAIN)
    last = shop("trace", message).stdout.splitlines()[-1]
    assert last.split(maxsplit=1) == ["now", "not on this queue manager"]


@pytest.mark.parametrize("spell", [str, str.lower, lambda text: text.replace("{", "").replace("}", "")])
def test_takes_the_identifier_with_or_without_its_braces(shop: Lior, spell: object) -> None:
    message = send(shop, PLAIN)
    assert callable(spell)
    assert [entry["what"] for entry in records(shop("trace", spell(message), "--json"))] == ["sent", "waiting"]


def test_json_has_every_field_and_the_words(shop: Lior) -> None:
    message = send(shop, PLAIN, "--label", "tea")
    past, now = records(shop("trace", message, "--json"))
    assert (past["message"], past["label"], past["queue"], past["current"]) == (message, "tea", r"private$\mail", False)
    assert past["time"].endswith("Z")
    assert (now["what"], now["state"], now["current"]) == ("waiting", "available", True)
    assert now["text"] == r"in private$\mail, available"


def test_a_label_shows_each_of_its_messages(shop: Lior) -> None:
    sent = [send(shop, PLAIN, "--label", "tea") for _ in range(2)]
    lines = shop("trace", "--label", "tea").stdout.splitlines()
    assert [line for line in lines if line.endswith("  tea")] == [f"{message}  tea" for message in sent]
    assert "" in lines


def test_a_correlation_id_finds_its_messages(shop: Lior) -> None:
    message = send(shop, PLAIN, "--correlation-id", UNKNOWN)
    assert message in shop("trace", "--correlation", UNKNOWN).stdout
    assert "nothing is known" in shop("trace", UNKNOWN, code=1).stderr


def test_an_unknown_message_ends_with_an_error_and_a_way_on(shop: Lior) -> None:
    stderr = shop("trace", UNKNOWN, code=1).stderr
    assert "nothing is known here of such a message" in stderr
    assert "--server" in stderr


@pytest.mark.parametrize("arguments", [(), (UNKNOWN, "--label", "x"), ("x",), ("--correlation", "x")])
def test_asks_for_one_thing_to_look_for(shop: Lior, arguments: tuple[str, ...]) -> None:
    shop("trace", *arguments, code=2)


def test_what_a_stranger_wrote_in_a_label_does_not_steer_the_terminal(shop: Lior) -> None:
    message = send(shop, PLAIN, "--label", "\x1b[31mred")
    assert "\x1b" not in shop("trace", message).stdout


def test_progress_is_shown_in_percent_and_never_more_than_all() -> None:
    steps: list[int] = []
    show = in_percent(steps.append)
    for done, total in ((1, 1000), (500, 1000), (500, 2000), (2000, 2000), (2000, 2000)):
        show(done, total)
    assert steps == [50, 50]
    show = in_percent(steps.append)
    show(0, 0)
    assert steps[-1] == 100
