"""`lior pipeline report`: what went through the queues, as one HTML file: traffic, sizes, latencies, anomalies."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from lior.spark.jobs import charts
from lior.spark.jobs.checking import check_readable
from lior.spark.jobs.result import Result, log_run, page_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class Report:
    lake: str
    output: str = ""  # empty: report.html in the lake
    score: float = 4.0  # robust z-scores above this are anomalies
    silent_hours: float = 24.0
    top: int = 20


@dataclass(frozen=True)
class Anomaly:
    what: str
    queue: str
    when: str
    value: float
    usual: float
    score: float


def check(config: Report, here: bool) -> None:
    if here:
        check_readable(f"{config.lake.rstrip('/')}/messages", "make the lake with: lior pipeline ingest")


def profile(df: DataFrame) -> list[dict[str, Any]]:
    """One row for each queue."""
    latency = f.col("arrived_at").cast("double") - f.col("sent_at").cast("double")
    rows = df.groupBy("queue").agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum("body_size").alias("bytes"),
        f.max("body_size").alias("largest"),
        f.countDistinct("source_qm").alias("senders"),
        f.min("arrived_at").alias("first"),
        f.max("arrived_at").alias("last"),
        f.sum(f.when(f.col("transactional"), 1).otherwise(0)).alias("transactional"),
        f.sum(f.when(f.col("delivery_mode") == 0, 1).otherwise(0)).alias("express"),
        f.percentile_approx(latency, list(QUANTILES), f.lit(10_000)).alias("latency"),
    )  # fmt: skip
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: -row["messages"])


def by_hour(df: DataFrame) -> list[dict[str, Any]]:
    latency = f.col("arrived_at").cast("double") - f.col("sent_at").cast("double")
    rows = df.groupBy("queue", f.date_trunc("hour", "arrived_at").alias("hour")).agg(
        f.count(f.lit(1)).alias("messages"), f.avg("body_size").alias("size"),
        f.percentile_approx(latency, 0.95).alias("latency"))  # fmt: skip
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: (row["queue"], row["hour"]))


def robust_scores(values: Sequence[float]) -> list[float]:
    """How far each is from the median, in units that a normal distribution would call standard deviations."""
    if len(values) < 4:
        return [0.0] * len(values)
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values) * 1.4826
    spread = spread or statistics.mean(abs(value - middle) for value in values) * 1.2533
    return [(value - middle) / spread if spread else 0.0 for value in values]


def anomalies(hours: list[dict[str, Any]], score: float) -> list[Anomaly]:
    """Hours that stand out among those of their queue: of the same hour of the week where there are enough."""
    found = []
    for what in ("messages", "size", "latency"):
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
        for row in hours:
            groups[row["queue"], row["hour"].weekday(), row["hour"].hour].append(row)
        if max((len(rows) for rows in groups.values()), default=0) < 4:
            groups = defaultdict(list)
            for row in hours:
                groups[row["queue"],].append(row)
        for rows in groups.values():
            values = [float(row[what] or 0.0) for row in rows]
            for row, value, z in zip(rows, values, robust_scores(values), strict=True):
                if abs(z) >= score:
                    found.append(Anomaly(what, row["queue"], f"{row['hour']:%Y-%m-%d %H:00}", value,
                                         statistics.median(values), z))  # fmt: skip
    return sorted(found, key=lambda each: -abs(each.score))


def new_senders(df: DataFrame, hours: float) -> list[dict[str, Any]]:
    """Queue managers whose first message is in the last hours of the lake."""
    end = df.agg(f.max("arrived_at").alias("end")).first()
    if end is None or end["end"] is None:
        return []
    rows = df.groupBy("source_qm", "queue").agg(f.min("arrived_at").alias("first"),
                                                f.count(f.lit(1)).alias("messages")).collect()  # fmt: skip
    begin = min(row["first"] for row in rows)
    recent = [row.asDict() for row in rows if (end["end"] - row["first"]).total_seconds() < hours * 3600]
    return recent if (end["end"] - begin).total_seconds() >= hours * 3600 else []


def silent(queues: list[dict[str, Any]], hours: float) -> list[str]:
    """Queues that others outlived by so long."""
    if not queues:
        return []
    end = max(row["last"] for row in queues)
    return [row["queue"] for row in queues if (end - row["last"]).total_seconds() > hours * 3600]


def run(spark: SparkSession, config: Report) -> Result:
    started = time.monotonic()
    df = spark.read.parquet(f"{config.lake.rstrip('/')}/messages")
    queues, hours = profile(df), by_hour(df)
    found = anomalies(hours, config.score)
    senders, quiet = new_senders(df, config.silent_hours), silent(queues, config.silent_hours)
    classes = {row["message_class"]: row["count"] for row in df.groupBy("message_class").count().collect()}
    output = config.output or page_for(spark, config.lake, "report.html")
    Path(output).write_text(page(queues, hours, found, senders, quiet, config.top), encoding="utf-8")
    rows = sum(row["messages"] for row in queues)
    result = Result("report", rows, seconds=time.monotonic() - started, output=output, details={
        "queues": len(queues), "anomalies": len(found), "silent": quiet,
        "classes": {f"0x{key:04X}": count for key, count in sorted(classes.items())}})  # fmt: skip
    log_run(spark, config.lake, config, result)
    return result


def page(
    queues: list[dict[str, Any]], hours: list[dict[str, Any]], found: list[Anomaly], senders: list[dict[str, Any]],
    quiet: list[str], top: int,
) -> str:
    names = [row["queue"] for row in queues][:top]
    series = {name: [(row["hour"].timestamp(), float(row["messages"])) for row in hours if row["queue"] == name]
              for name in names}  # fmt: skip
    delays = {name: [(row["hour"].timestamp(), float(row["latency"] or 0.0)) for row in hours if row["queue"] == name]
              for name in names}  # fmt: skip
    parts = [
        charts.heading("Messages by hour"), charts.lines(series, "messages"),
        charts.heading("Queues"),
        charts.table(("queue", "messages", "bytes", "largest", "senders", "transactional", "express", "p50", "p95",
                      "p99", "first", "last"), [_row(row) for row in queues[:top]]),
        charts.heading("Messages and bytes by queue"),
        charts.bars({row["queue"]: float(row["messages"]) for row in queues[:top]}, "messages"),
        charts.bars({row["queue"]: float(row["bytes"] or 0) for row in queues[:top]}, "bytes"),
        charts.heading("Time from sending to arrival, 95 % by hour, in seconds"), charts.lines(delays, "seconds"),
        charts.heading("What stands out"),
        charts.table(("what", "queue", "hour", "value", "usual", "score"),
                     [(a.what, a.queue, a.when, f"{a.value:,.3g}", f"{a.usual:,.3g}", f"{a.score:+.1f}")
                      for a in found[:top]]),
        charts.heading("New senders"),
        charts.table(("queue manager", "queue", "first", "messages"),
                     [(row["source_qm"], row["queue"], _when(row["first"]), f"{row['messages']:,}")
                      for row in senders[:top]]),
        charts.heading("Queues that fell silent"), charts.table(("queue",), [(name,) for name in quiet]),
    ]  # fmt: skip
    return charts.document("Traffic of the queues", parts)


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    p50, p95, p99 = (f"{value:.3f} s" for value in (row["latency"] or (0.0, 0.0, 0.0)))
    return (row["queue"], f"{row['messages']:,}", f"{row['bytes'] or 0:,}", f"{row['largest'] or 0:,}",
            f"{row['senders']:,}", f"{row['transactional']:,}", f"{row['express']:,}", p50, p95, p99,
            _when(row["first"]), _when(row["last"]))  # fmt: skip


def _when(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
