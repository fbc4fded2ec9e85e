"""`lior pipeline report`: what went through the queues, as one HTML page to look at or to print."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lior.errors import BadConfiguration
from lior.spark.jobs import charts
from lior.spark.jobs.checking import check_readable
from lior.spark.jobs.result import Result, log_run, page_for
from lior.spark.jobs.traffic import (
    HOUR,
    Anomaly,
    Shape,
    anomalies,
    latencies_over_time,
    new_senders,
    over_time,
    profile,
    shape,
    silent,
    step_for,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES: Final = 6  # queues with a line of their own in a plot; the others share one
OTHERS: Final = "all others"
_COLUMNS: Final = ("queue", "source_qm", "message_class", "priority", "delivery_mode", "transactional", "body_size",
                   "sent_at", "arrived_at", "failure_reason")  # fmt: skip


@dataclass(frozen=True)
class Report:
    lake: str
    output: str = ""  # empty: report.html in the lake
    title: str = "Traffic of the queues"
    score: float = 4.0  # robust z-scores above this are anomalies
    silent_hours: float = 24.0
    top: int = 20


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows."""

    queues: list[dict[str, Any]]
    points: list[dict[str, Any]]  # of plots, `step` seconds apart
    step: int
    delays: list[tuple[int, list[float]]]
    shape: Shape
    anomalies: list[Anomaly]
    senders: list[dict[str, Any]]
    silent: list[str]

    @property
    def messages(self) -> int:
        return sum(row["messages"] for row in self.queues)


def check(config: Report, here: bool) -> None:
    if here:
        check_readable(f"{config.lake.rstrip('/')}/messages", "make the lake with: lior pipeline ingest")


def run(spark: SparkSession, config: Report) -> Result:
    started = time.monotonic()
    found = findings(spark, config)
    output = config.output or page_for(spark, config.lake, "report.html")
    try:
        Path(output).write_text(page(found, config), encoding="utf-8")
    except OSError as error:
        raise BadConfiguration(error.strerror or str(error), where=output, remedy="choose another --output") from error
    result = Result("report", found.messages, seconds=time.monotonic() - started, output=output, details={
        "queues": len(found.queues), "failed": found.shape.failures.total(), "anomalies": len(found.anomalies),
        "silent": found.silent,
        "classes": {f"0x{key:04X}": count for key, count in sorted(found.shape.classes.items())}})  # fmt: skip
    log_run(spark, config.lake, config, result)
    return result


def findings(spark: SparkSession, config: Report) -> Findings:
    df = spark.read.parquet(f"{config.lake.rstrip('/')}/messages")
    df = df.select(*[name for name in _COLUMNS if name in df.columns])
    missing = [name for name in _COLUMNS if name not in df.columns]
    if missing:
        raise BadConfiguration(f"the lake has no column {', '.join(missing)}", where=config.lake,
                               remedy="ingest without --columns, or with these among them")
    queues = profile(df)
    if not queues:
        raise BadConfiguration("there are no messages", where=config.lake, remedy="run: lior pipeline ingest")
    step = step_for(queues)
    points = over_time(df, step)
    hours = points if step == HOUR else over_time(df, HOUR)
    return Findings(queues, points, step, latencies_over_time(df, step), shape(df), anomalies(hours, config.score),
                    new_senders(df, config.silent_hours), silent(queues, config.silent_hours))  # fmt: skip


def page(found: Findings, config: Report) -> str:
    first, last = min(row["first"] for row in found.queues), max(row["last"] for row in found.queues)
    about = f"{charts.moment(first)} to {charts.moment(last)} UTC · {config.lake}"
    return charts.document(config.title, about, [
        _tiles(found, last - first), *_traffic(found), *_queues(found, config.top), *_kinds(found),
        *_failures(found, config.top), *_what_stands_out(found, config.top)])  # fmt: skip


def _tiles(found: Findings, span: float) -> str:
    size, failed = sum(row["bytes"] or 0 for row in found.queues), found.shape.failures.total()
    worst = max((delay[2] for _, delay in found.delays), default=0.0)
    values = {
        "messages": f"{found.messages:,}", "of bodies": charts.size(size), "queues": f"{len(found.queues):,}",
        "messages a second": charts.number(found.messages / max(span, 1.0)),
        "largest body": charts.size(max(row["largest"] or 0 for row in found.queues)),
        "worst 99 % latency": duration(worst), "failed": f"{failed:,}", "stand out": f"{len(found.anomalies):,}",
    }  # fmt: skip
    return charts.tiles(values, frozenset({"failed"} if failed else ()))


def _traffic(found: Findings) -> list[str]:
    unit = {1: "second", 60: "minute", 3600: "hour", 86400: "day"}.get(found.step, duration(found.step))
    delays = {f"{name} %": [(float(at), delay[each]) for at, delay in found.delays]
              for each, name in enumerate(("50", "95", "99"))}  # fmt: skip
    return [
        charts.section(f"Messages in each {unit}", charts.lines(_series(found, "messages"), "messages", found.step)),
        charts.section(f"Bytes of bodies in each {unit}", charts.lines(_series(found, "bytes"), "bytes", found.step)),
        charts.section("Seconds from sending to arrival", charts.lines(delays, "seconds"),
                       note="Of so many per cent of the messages, at the most. Clocks of senders count."),
    ]  # fmt: skip


def _series(found: Findings, what: str) -> dict[str, list[tuple[float, float]]]:
    """The busiest queues each, and the others together."""
    own = {row["queue"] for row in found.queues[:LINES]}
    sums: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in found.points:
        sums[row["queue"] if row["queue"] in own else OTHERS][float(row["at"])] += float(row[what] or 0)
    names = [row["queue"] for row in found.queues[:LINES]] + ([OTHERS] if OTHERS in sums else [])
    return {name: sorted(sums[name].items()) for name in names}


def _queues(found: Findings, top: int) -> list[str]:
    busiest = found.queues[:top]
    headings = ("queue", "messages", "bytes", "largest", "senders", "transactional", "express", "failed", "50 %",
                "95 %", "99 %", "first", "last")  # fmt: skip
    note = f"The busiest {top} of {len(found.queues)}." if len(found.queues) > top else ""
    return [
        charts.section("Queues by volume", charts.bars({row["queue"]: float(row["messages"]) for row in busiest},
                                                       "messages"),
                       charts.bars({row["queue"]: float(row["bytes"] or 0) for row in busiest}, "bytes",
                                   charts.COLOURS[2]), note=note),
        charts.section("Queues in numbers", charts.table(headings, [_row(row) for row in busiest]), note=note),
    ]  # fmt: skip


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    figures = [f"{row[name] or 0:,}" for name in ("messages", "bytes", "largest", "senders", "transactional", "express",
                                                  "failed")]  # fmt: skip
    delays = [duration(value) for value in row["latency"] or (0.0, 0.0, 0.0)]
    return (row["queue"], *figures, *delays, charts.moment(row["first"]), charts.moment(row["last"]))


def _kinds(found: Findings) -> list[str]:
    form = found.shape
    sizes = [("0" if power < 0 else charts.size(2.0**power), float(form.sizes[power]))
             for power in _between(form.sizes)]  # fmt: skip
    delays = [("<1 ms" if power < 0 else f"≥{duration(10.0**power / 1000)}", float(form.latencies[power]))
              for power in _between(form.latencies)]  # fmt: skip
    priorities = [(str(each), float(form.priorities[each])) for each in range(8)]
    return [charts.pair(
        charts.section("Sizes of bodies", charts.columns(sizes, "messages by size"), note="Up to this size each."),
        charts.section("Latencies", charts.columns(delays, "messages by latency", charts.COLOURS[1]),
                       note="From this on, up to the next."),
        charts.section("Priorities", charts.columns(priorities, "messages by priority", charts.COLOURS[2]),
                       note="7 goes first."),
    )]  # fmt: skip


def _between(counts: dict[int, int]) -> range:
    return range(min(counts, default=0), max(counts, default=0) + 1)


def _failures(found: Findings, top: int) -> list[str]:
    reasons: dict[str, float] = defaultdict(float)
    for (reason, _), count in found.shape.failures.items():
        reasons[reason] += count
    rows = [(reason, queue, f"{count:,}") for (reason, queue), count in found.shape.failures.most_common(top)]
    drawn = charts.bars(dict(sorted(reasons.items(), key=lambda each: -each[1])), "messages", charts.COLOURS[1])
    parts = [drawn, charts.table(("reason", "queue", "messages"), rows)] if rows else [drawn]
    return [charts.section("Dead letters and refusals by reason", *parts,
                           note="Of dead-letter and administration queues that were ingested.")]  # fmt: skip


def _what_stands_out(found: Findings, top: int) -> list[str]:
    hours = [(a.what, a.queue, charts.moment(a.at)[:13] + " h", charts.number(a.value), charts.number(a.usual),
              f"{a.score:+.1f}") for a in found.anomalies[:top]]  # fmt: skip
    senders = [(row["source_qm"] or "", row["queue"], charts.moment(row["first"]), f"{row['messages']:,}")
               for row in found.senders[:top]]  # fmt: skip
    return [
        charts.section("Hours that stand out",
                       charts.table(("what", "queue", "hour", "value", "usual", "score"), hours),
                       note="Against the same hour of other weeks, where there are enough of them; else other hours."),
        charts.section("New senders", charts.table(("queue manager", "queue", "first", "messages"), senders)),
        charts.section("Queues that fell silent", charts.table(("queue",), [(name,) for name in found.silent])),
    ]  # fmt: skip


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:,.3g} ms"
    for limit, letter in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= limit:
            return f"{seconds / limit:,.3g} {letter}"
    return f"{seconds:,.3g} s"
