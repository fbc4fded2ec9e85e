"""What went through queues, counted: by queue, over time, by size, priority and reason of failure; and what stands out.
Times are seconds since 1970: what Spark collects as a timestamp depends on the time zone of this computer."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from lior.spark.jobs.deadletters import reason_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

QUANTILES: Final = (0.5, 0.95, 0.99)
STEPS: Final = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86400, 7 * 86400)  # seconds between two points of a plot
POINTS: Final = 150  # of a plot, about
HOUR: Final = 3600


def seconds(name: str) -> Column:
    return f.col(name).cast("double")


def latency() -> Column:
    """From sending to arrival. Clocks differ: what came before it was sent came at once."""
    return f.greatest(seconds("arrived_at") - seconds("sent_at"), f.lit(0.0))


def failure() -> Column:
    """Why a dead letter failed, or what a negative acknowledgement says; null for the others."""
    return f.coalesce("failure_reason", f.when(f.col("message_class") >= 0x8000, f.col("message_class")))


def profile(df: DataFrame) -> list[dict[str, Any]]:
    """One row for each queue, the busiest first."""
    rows = df.groupBy("queue").agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum("body_size").alias("bytes"),
        f.max("body_size").alias("largest"),
        f.countDistinct("source_qm").alias("senders"),
        f.min(seconds("arrived_at")).alias("first"),
        f.max(seconds("arrived_at")).alias("last"),
        f.sum(f.when(f.col("transactional"), 1).otherwise(0)).alias("transactional"),
        f.sum(f.when(f.col("delivery_mode") == 0, 1).otherwise(0)).alias("express"),
        f.sum(f.when(failure().isNotNull(), 1).otherwise(0)).alias("failed"),
        f.percentile_approx(latency(), list(QUANTILES), f.lit(10_000)).alias("latency"),
    )  # fmt: skip
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: (-row["messages"], row["queue"]))


def step_for(queues: Sequence[dict[str, Any]]) -> int:
    span = max(row["last"] for row in queues) - min(row["first"] for row in queues)
    return next((step for step in STEPS if span / step <= POINTS), STEPS[-1])


def over_time(df: DataFrame, step: int) -> list[dict[str, Any]]:
    """Messages, bytes and latencies of each queue in each step of so many seconds."""
    at = (f.floor(seconds("arrived_at") / step) * step).alias("at")
    rows = df.groupBy("queue", at).agg(
        f.count(f.lit(1)).alias("messages"), f.sum("body_size").alias("bytes"), f.avg("body_size").alias("size"),
        f.percentile_approx(latency(), 0.95, f.lit(10_000)).alias("latency"))  # fmt: skip
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: (row["queue"], row["at"]))


def latencies_over_time(df: DataFrame, step: int) -> list[tuple[int, list[float]]]:
    at = (f.floor(seconds("arrived_at") / step) * step).alias("at")
    rows = df.groupBy(at).agg(f.percentile_approx(latency(), list(QUANTILES), f.lit(10_000)).alias("latency")).collect()
    return sorted((row["at"], row["latency"]) for row in rows if row["latency"])


@dataclass(frozen=True)
class Shape:
    """How many messages have each size, priority, latency and reason of failure."""

    sizes: Counter[int]  # by the power of two that is not below them; -1 for empty bodies
    priorities: Counter[int]
    latencies: Counter[int]  # by power of ten of milliseconds
    failures: Counter[tuple[str, str]]  # (reason, queue)
    classes: Counter[int]


def shape(df: DataFrame) -> Shape:
    """In one pass over the messages."""
    size = f.when(f.col("body_size") > 0, f.ceil(f.log2("body_size"))).otherwise(-1).cast("int").alias("size")
    delay = f.when(latency() < 0.001, -1).otherwise(f.floor(f.log10(latency() * 1000))).cast("int").alias("delay")
    reason, queue = failure().alias("reason"), f.when(failure().isNotNull(), f.col("queue")).alias("of")
    found = Shape(Counter(), Counter(), Counter(), Counter(), Counter())
    for row in df.groupBy(size, "priority", delay, reason, queue, "message_class").count().collect():
        count = row["count"]
        found.sizes[row["size"]] += count
        found.priorities[row["priority"]] += count
        found.latencies[row["delay"]] += count
        found.classes[row["message_class"]] += count
        if row["reason"] is not None:
            found.failures[reason_name(row["reason"]), row["of"]] += count
    return found


# What stands out


@dataclass(frozen=True)
class Anomaly:
    what: str
    queue: str
    at: float
    value: float
    usual: float
    score: float


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
            when = datetime.fromtimestamp(row["at"], UTC)
            groups[row["queue"], when.weekday(), when.hour].append(row)
        if max((len(rows) for rows in groups.values()), default=0) < 4:
            groups = defaultdict(list)
            for row in hours:
                groups[row["queue"],].append(row)
        for rows in groups.values():
            values = [float(row[what] or 0.0) for row in rows]
            for row, value, z in zip(rows, values, robust_scores(values), strict=True):
                if abs(z) >= score:
                    found.append(Anomaly(what, row["queue"], row["at"], value, statistics.median(values), z))
    return sorted(found, key=lambda each: -abs(each.score))


def new_senders(df: DataFrame, hours: float) -> list[dict[str, Any]]:
    """Queue managers whose first message is in the last hours of the lake; none if the lake is not older than that."""
    rows = df.groupBy("source_qm", "queue").agg(
        f.min(seconds("arrived_at")).alias("first"), f.max(seconds("arrived_at")).alias("last"),
        f.count(f.lit(1)).alias("messages")).collect()  # fmt: skip
    if not rows:
        return []
    begin, end = min(row["first"] for row in rows), max(row["last"] for row in rows)
    if end - begin < hours * HOUR:
        return []
    return [row.asDict() for row in rows if end - row["first"] < hours * HOUR]


def silent(queues: list[dict[str, Any]], hours: float) -> list[str]:
    """Queues that others outlived by so long."""
    end = max((row["last"] for row in queues), default=0.0)
    return [row["queue"] for row in queues if end - row["last"] > hours * HOUR]
