"""`lior pipeline capture`: captures of networks into a lake, as messages and packets."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from lior.client.capture import PORT
from lior.spark.capture import CaptureOptions
from lior.spark.jobs.checking import check_writable
from lior.spark.jobs.result import Result, log_run
from lior.spark.sinks import TIMESTAMPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Capture:
    files: str
    lake: str
    kind: str = "capture"  # or packets: files that hold packets one behind the other
    port: int = PORT


def check(config: Capture, here: bool) -> None:
    if here:
        CaptureOptions(files=config.files, kind=config.kind).checked().paths()
        check_writable(config.lake)


def run(spark: SparkSession, config: Capture) -> Result:
    """Writes over what an earlier run of the same lake wrote under captures/."""
    started = time.monotonic()
    spark.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    counts: dict[str, Any] = {}
    base = f"{config.lake.rstrip('/')}/captures"
    for table in ("messages", "packets"):
        df = spark.read.format("msmq-capture").options(files=config.files, table=table, kind=config.kind,
                                                       port=str(config.port)).load()  # fmt: skip
        df.write.mode("overwrite").parquet(f"{base}/{table}")
        counts[table] = spark.read.parquet(f"{base}/{table}").count()
    kinds = spark.read.parquet(f"{base}/packets").groupBy(f.col("kind")).count().collect()
    result = Result("capture", counts["messages"], seconds=time.monotonic() - started, output=base, details={
        "packets": counts["packets"], "kinds": {row["kind"] or "damaged": row["count"] for row in kinds}})  # fmt: skip
    log_run(spark, config.lake, config, result)
    return result
