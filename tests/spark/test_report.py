"""The report, on a lake that plain Python made and counts."""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lior.client.bulk import arrow_schema
from lior.spark.jobs import charts, report, traffic
from lior.spark.jobs.report import Report

BEGIN = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
QUEUES = [f"private$\\q{number}" for number in range(9)]
COLUMNS = ["queue", "source_qm", "message_class", "priority", "delivery_mode", "transactional", "body_size", "sent_at",
           "arrived_at", "failure_reason"]  # fmt: skip


def made(seed: int) -> list[dict[str, Any]]:
    """Three days; one hour is loud, one queue falls silent, one sender is new, some messages failed."""
    chance = random.Random(seed)
    rows = []
    for minute in range(0, 3 * 24 * 60, 3):
        for _ in range(12 if minute // 60 == 40 else 1):
            queue = QUEUES[min(chance.randrange(20), 8)]
            if queue == QUEUES[7] and minute > 24 * 60:
                continue
            arrived = BEGIN + timedelta(minutes=minute, seconds=chance.random() * 60)
            failed = chance.random() < 0.05
            rows.append({
                "queue": queue, "source_qm": "new" if minute > 60 * 60 and chance.random() < 0.1 else "old",
                "message_class": 0x8003 if failed and chance.random() < 0.5 else 0, "priority": chance.randrange(8),
                "delivery_mode": chance.randrange(2), "transactional": chance.random() < 0.2,
                "body_size": int(chance.expovariate(0.001)),
                "sent_at": arrived - timedelta(milliseconds=chance.expovariate(0.01)), "arrived_at": arrived,
                "failure_reason": 0x8001 if failed else None})  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def rows(seed: int = 11) -> list[dict[str, Any]]:
    return made(seed)


@pytest.fixture
def lake(tmp_path: Path, rows: list[dict[str, Any]]) -> str:
    table = pa.Table.from_pylist(rows, arrow_schema(COLUMNS))
    pq.write_to_dataset(table, tmp_path / "lake" / "messages", partition_cols=["queue"])
    return str(tmp_path / "lake")


@pytest.fixture
def far_away() -> Iterator[None]:
    """A computer whose clock on the wall is not UTC's."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


class Well(HTMLParser):
    """What is opened is closed, but for what HTML lets be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen[tag] += 1
        if tag in ("svg", "table", "h2", "style", "ul", "div"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("svg", "table", "h2", "style", "ul", "div"):
            assert self.open.pop() == tag


def test_every_number_of_the_report_is_what_plain_python_counts(
    spark: Any, rows: list[dict[str, Any]], lake: str, far_away: None
) -> None:
    found = report.findings(spark, Report(lake, silent_hours=12))
    assert found.messages == len(rows)
    for row in found.queues:
        mine = [each for each in rows if each["queue"] == row["queue"]]
        assert row["messages"] == len(mine) and row["bytes"] == sum(each["body_size"] for each in mine)
        assert row["largest"] == max(each["body_size"] for each in mine)
        assert row["express"] == sum(each["delivery_mode"] == 0 for each in mine)
        assert row["transactional"] == sum(each["transactional"] for each in mine)
        assert row["failed"] == sum(each["failure_reason"] is not None for each in mine)
        assert row["first"] == pytest.approx(min(each["arrived_at"] for each in mine).timestamp())
        delays = sorted((each["arrived_at"] - each["sent_at"]).total_seconds() for each in mine)
        assert delays[0] <= row["latency"][0] <= row["latency"][1] <= delays[-1] + 1e-6
    assert found.step == 3600
    hours = Counter((row["queue"], row["arrived_at"].timestamp() // 3600 * 3600) for row in rows)
    assert {(row["queue"], row["at"]): row["messages"] for row in found.points} == hours
    assert found.shape.priorities == Counter(row["priority"] for row in rows)
    assert found.shape.sizes == Counter((row["body_size"] - 1).bit_length() if row["body_size"] else -1 for row in rows)
    assert found.shape.classes == Counter(row["message_class"] for row in rows)
    assert found.shape.failures.total() == sum(row["failure_reason"] is not None for row in rows)
    assert found.silent == [QUEUES[7]] or QUEUES[7] in found.silent
    assert {row["source_qm"] for row in found.senders if row["source_qm"] == "new"} == {"new"}
    loud = (BEGIN + timedelta(hours=40)).timestamp()
    assert any(each.what == "messages" and each.at == loud for each in found.anomalies)


def test_the_page_has_its_plots_and_needs_nothing_else(spark: Any, lake: str, tmp_path: Path, far_away: None) -> None:
    output = str(tmp_path / "page.html")
    report.run(spark, Report(lake, output, title="Ours & theirs <now>"))
    text = Path(output).read_text()
    assert "Ours &amp; theirs &lt;now&gt;" in text and "2026-03-02 06:0" in text
    parser = Well()
    parser.feed(text)
    assert not parser.open and parser.seen["svg"] == 9 and parser.seen["polyline"] == 2 * 7 + 3
    assert not parser.seen["script"] and "http" not in text.replace("http-equiv", "")
    for title in ("Messages in each hour", "Seconds from sending", "Sizes of bodies", "Priorities", "Queues by volume",
                  "Dead letters and refusals by reason", "NACK_", "@media print"):  # fmt: skip
        assert title in text


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (999, "999"), (12_345, "12.3k"), (1.5, "1.5"), (2e6, "2M")])
def test_numbers_are_short(value: float, shown: str) -> None:
    assert charts.number(value) == shown


def test_scales_end_above_what_they_show() -> None:
    for highest in (1e-6, 0.3, 1, 3, 7, 99, 101, 12345.6):
        assert highest <= charts.nice(highest) * 1.00001 and charts.nice(highest) <= highest * 2.5


def test_time_without_messages_is_drawn_as_nothing() -> None:
    drawn = charts.lines({"a": [(0.0, 1.0), (30.0, 1.0)]}, "messages", 10.0)
    assert drawn.count("<circle") == 4


def test_plots_of_nothing_say_so() -> None:
    assert "None." in charts.lines({}, "x") and "None." in charts.bars({}, "x") and "None." in charts.columns([], "x")
    assert traffic.silent([], 1) == []
