"""Tables, ages, sizes, times, and what users type."""

import io
import json

import click
import pytest

from lior.cli import output
from lior.cli.inputs import assignment, duration, lookup_id, number_or_none, parse_object_id, quota, whole_seconds
from lior.message import INFINITE


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert output.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (900000, "10 d")],
)
def test_ages(seconds: int, text: str) -> None:
    assert output.age(1000.0, 1000.0 + seconds) == text
    assert output.age(0) == output.age(None) == ""
    assert output.age(2000.0, 1000.0) == "0 s"  # the clock was set back


def test_times_are_iso_in_utc() -> None:
    assert output.iso(1795041571.4756) == "2026-11-18T22:39:31.475Z"
    assert output.iso(0) is output.iso(1e300) is None


def test_tables_count_columns_of_wide_characters() -> None:
    lines = output.table_lines(("NAME", "MESSAGES", "LABEL"), [("a", "1", "x"), ("日本", "1000", "y")])
    assert lines[1:] == ["a            1  x", "日本      1000  y"]


def test_json_holds_half_a_surrogate_pair() -> None:
    text = output.json_text({"label": "\ud800"})
    assert json.loads(text)["label"] == "\ud800"
    text.encode()


def test_prints_nothing_that_steers_a_terminal() -> None:
    assert output.printable("a\x1b[2Jb\n\u202ec") == r"a\x1b[2Jb\n\u202ec"
    assert output.printable("a\nb", kept="\n") == "a\nb"


def test_no_colours_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.colours(Terminal())
    assert not output.colours(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not output.colours(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.colours(Terminal())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("1.5s", 1.5), ("500ms", 0.5), ("5m", 300), ("5 min", 300), ("2h", 7200), ("4D", 345600)],
)
def test_reads_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds
    assert duration("inf") is None


@pytest.mark.parametrize("text", ["", "-1", "s", "1y", "1 2", "1e3", "nan"])
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        duration(text)


def test_reads_lifetimes() -> None:
    assert whole_seconds("never") == INFINITE
    assert whole_seconds("2m") == 120
    for text in ("0.5", "99999999999"):
        with pytest.raises(click.BadParameter):
            whole_seconds(text)


@pytest.mark.parametrize(
    ("text", "kb"),
    [("500", 500), ("500K", 500), ("20M", 20480), ("4gb", 4 << 20), ("1TiB", 1 << 30), ("none", INFINITE)],
)
def test_reads_quotas(text: str, kb: int) -> None:
    assert quota(text) == kb


def test_reads_the_rest() -> None:
    assert number_or_none("none") == "none"
    assert number_or_none("7") == 7
    assert lookup_id("0x10") == 16
    assert assignment("a=b=c") == ("a", "b=c")
    assert parse_object_id("00" * 20) == bytes(20)
    assert parse_object_id("00" * 19) is None
    assert parse_object_id(r"{11111111-2222-3333-4444-555555555555}\4294967296") is None
