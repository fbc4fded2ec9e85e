"""`lior pipeline trace`: what became of messages, from the lakes of those who saw them: latencies, and what is lost or
stuck. Arrivals are messages of the lake; what was sent is in copies of senders' journals; acknowledgements are messages
of administration queues, whose correlation id is the message's identifier."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from lior.message import Acknowledgements, MessageClass
from lior.spark.jobs.checking import check_readable
from lior.spark.jobs.result import Result, log_run
from lior.spark.packet_sql import object_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUANTILES: Final = (0.5, 0.95, 0.99)
_RECEIVES: Final = int(Acknowledgements.POSITIVE_RECEIVE)


@dataclass(frozen=True)
class Trace:
    lake: str  # arrivals; acknowledgements too, if the administration queue was ingested into it
    sent: str = ""  # a lake of the senders' journals
    acknowledgements: str = ""  # a lake of administration queues, if it is another one
    patience: float = 3600.0  # seconds after which what has not arrived is lost, and what nobody received is stuck
    output: str = ""  # a directory for the whole table, in Parquet
    top: int = 50


def check(config: Trace, here: bool) -> None:
    for lake in (config.lake, config.sent, config.acknowledgements):
        if here and lake:
            check_readable(f"{lake.rstrip('/')}/messages", "make the lake with: lior pipeline ingest")


def messages(spark: SparkSession, lake: str) -> DataFrame:
    return spark.read.parquet(f"{lake.rstrip('/')}/messages")


def table(spark: SparkSession, config: Trace) -> DataFrame:
    """One row for each message that was sent or arrived."""
    normal = f.col("message_class") == MessageClass.NORMAL
    arrived = messages(spark, config.lake).where(normal).select(
        "message_id", "queue", "label", "acknowledge", f.col("sent_at").alias("sent"),
        f.col("arrived_at").alias("arrived")).dropDuplicates(["message_id", "queue"])  # fmt: skip
    if config.sent:
        sent = messages(spark, config.sent).where(normal).select(
            "message_id", f.col("sent_at").alias("left"), f.col("label").alias("sent_label"),
            f.col("acknowledge").alias("asked"), "destination").dropDuplicates(["message_id"])  # fmt: skip
        arrived = sent.join(arrived, "message_id", "full_outer").select(
            "message_id", "queue", "arrived", "destination", f.coalesce("sent", "left").alias("sent"),
            f.coalesce("label", "sent_label").alias("label"), f.coalesce("acknowledge", "asked").alias("acknowledge"))
    else:
        arrived = arrived.withColumn("destination", f.lit(None).cast("string"))
    acks = messages(spark, config.acknowledgements or config.lake).where(~normal).groupBy("correlation_id").agg(
        f.min(f.when(f.col("message_class") == MessageClass.ACK_REACH_QUEUE, f.col("sent_at"))).alias("reached"),
        f.min(f.when(f.col("message_class") == MessageClass.ACK_RECEIVE, f.col("sent_at"))).alias("received"),
        f.max(f.when(f.col("message_class") >= 0x8000, f.col("message_class"))).alias("refused"))  # fmt: skip
    return arrived.withColumn("key", object_id("message_id")).join(
        acks, f.col("key") == acks["correlation_id"], "left").drop("key", "correlation_id")  # fmt: skip


def run(spark: SparkSession, config: Trace) -> Result:
    started = time.monotonic()
    df = table(spark, config).persist()
    try:
        if config.output:
            df.write.mode("overwrite").parquet(config.output)
        late = f.current_timestamp().cast("double") - f.col("sent").cast("double") > config.patience
        lost = df.where(f.col("arrived").isNull() & f.col("reached").isNull() & f.col("refused").isNull() & late)
        asked = f.col("acknowledge").bitwiseAND(_RECEIVES) != 0
        stuck = df.where(asked & f.col("received").isNull() & f.col("refused").isNull()
                         & f.coalesce("arrived", "reached").isNotNull() & late)  # fmt: skip
        result = Result("trace", df.count(), output=config.output, details={
            "lost": lost.count(), "stuck": stuck.count(), "refused": df.where("refused is not null").count(),
            "lost_first": _some(lost, config.top), "stuck_first": _some(stuck, config.top),
            "latency": latencies(df)})  # fmt: skip
    finally:
        df.unpersist()
    result.seconds = time.monotonic() - started
    log_run(spark, config.lake, config, result)
    return result


def latencies(df: DataFrame) -> list[dict[str, Any]]:
    """By queue and hour of sending, in seconds: until arrival, and until somebody received it."""
    seconds = {name: f.col(name).cast("double") - f.col("sent").cast("double") for name in ("arrived", "received")}
    rows = df.where("queue is not null").groupBy("queue", f.date_trunc("hour", "sent").alias("hour")).agg(
        f.count(f.lit(1)).alias("messages"),
        *[f.percentile_approx(value, list(QUANTILES), f.lit(10_000)).alias(name) for name, value in seconds.items()],
    )
    found = [row.asDict() | {"hour": row["hour"].isoformat() if row["hour"] else None} for row in rows.collect()]
    return sorted(found, key=lambda row: (row["queue"], row["hour"] or ""))


def _some(df: DataFrame, count: int) -> list[dict[str, Any]]:
    rows = df.select("message_id", "queue", "destination", "label", "sent").orderBy("sent").limit(count).collect()
    return [row.asDict() | {"sent": row["sent"].isoformat() if row["sent"] else None} for row in rows]
