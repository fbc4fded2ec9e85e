"""`lior pipeline deadletters`: what failed, why, where, and since when."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from lior.message import MessageClass
from lior.spark.jobs.checking import check_server
from lior.spark.jobs.result import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES: Final = (";DEADLETTER", ";DEADXACT")
AGES: Final = ((3600, "under an hour"), (86400, "under a day"), (7 * 86400, "under a week"))
OLDER: Final = "a week and more"
_COLUMNS: Final = ("queue,lookup_id,message_id,label,sent_at,arrived_at,source_qm,failure_reason,failed_destination,"
                   "destination,body_size,_error")  # fmt: skip


@dataclass(frozen=True)
class Deadletters:
    address: str
    queues: tuple[str, ...] = QUEUES
    where: str = ""  # SQL over the columns of dead letters
    output: str = ""  # a directory for the letters themselves, in Parquet
    credentials_file: str = ""
    ca_file: str = ""


def check(config: Deadletters, here: bool) -> None:
    if here:
        check_server(config.address, config.queues, config.credentials_file, config.ca_file)


def letters(spark: SparkSession, config: Deadletters) -> DataFrame:
    reader = spark.read.format("msmq").options(address=config.address, queues=",".join(config.queues), columns=_COLUMNS)
    for name, value in (("credentialsFile", config.credentials_file), ("caFile", config.ca_file)):
        if value:
            reader = reader.option(name, value)
    age = f.current_timestamp().cast("double") - f.col("arrived_at").cast("double")
    band = f.lit(OLDER)
    for seconds, text in reversed(AGES):
        band = f.when(age < seconds, text).otherwise(band)
    df = reader.load().withColumn("age", band).withColumn(
        "failed", f.coalesce("failed_destination", "destination"))  # fmt: skip
    return df.where(config.where) if config.where else df


def run(spark: SparkSession, config: Deadletters) -> Result:
    started, df = time.monotonic(), letters(spark, config)
    rows = df.groupBy("queue", "failure_reason", "failed", "source_qm", "age").agg(
        f.count(f.lit(1)).alias("messages"), f.sum("body_size").alias("bytes"), f.min("arrived_at").alias("oldest"))
    found = sorted((_plain(row.asDict()) for row in rows.collect()), key=lambda row: -row["messages"])
    if config.output:
        df.write.mode("overwrite").parquet(config.output)
    total = sum(row["messages"] for row in found)
    return Result("deadletters", total, seconds=time.monotonic() - started, output=config.output,
                  details={"groups": found, "replay": "lior dead-letter replay"})  # fmt: skip


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    reason = row["failure_reason"]
    row["failure_reason"] = reason_name(reason)
    row["oldest"] = row["oldest"].isoformat() if row["oldest"] else None
    return row


def reason_name(reason: int | None) -> str:
    if reason is None:
        return ""
    try:
        return MessageClass(reason).name
    except ValueError:
        return f"0x{reason:04X}"
