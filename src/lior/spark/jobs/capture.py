"""`lior pipeline capture`: captures of networks and SRMP archives into a lake: messages, packets, sessions and
acknowledgements."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from lior.client.capture import PORT
from lior.client.srmp_archive import HTTP_PORT
from lior.spark.capture import CaptureOptions
from lior.spark.jobs.checking import check_writable
from lior.spark.jobs.result import Result, log_run
from lior.spark.sinks import TIMESTAMPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TABLES: Final = ("messages", "packets", "sessions", "acknowledgements")


@dataclass(frozen=True)
class Capture:
    files: str
    lake: str
    kind: str = "capture"  # or packets: files that hold packets one behind the other; or srmp: HTTP requests
    port: int = PORT
    http_port: int = HTTP_PORT


def check(config: Capture, here: bool) -> None:
    if here:
        CaptureOptions(files=config.files, kind=config.kind).checked().paths()
        check_writable(config.lake)


def run(spark: SparkSession, config: Capture) -> Result:
    """Writes over what an earlier run of the same lake wrote under captures/."""
    started = time.monotonic()
    spark.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    base = f"{config.lake.rstrip('/')}/captures"
    options = {"files": config.files, "kind": config.kind, "port": str(config.port),
               "httpPort": str(config.http_port)}  # fmt: skip
    for table in TABLES:
        df = spark.read.format("msmq-capture").options(table=table, **options).load()
        df.write.mode("overwrite").parquet(f"{base}/{table}")
    counts = {table: spark.read.parquet(f"{base}/{table}").count() for table in TABLES}
    kinds = spark.read.parquet(f"{base}/packets").groupBy(f.col("kind")).count().collect()
    result = Result("capture", counts.pop("messages"), seconds=time.monotonic() - started, output=base, details={
        **counts, "kinds": {row["kind"] or "damaged": row["count"] for row in kinds}})  # fmt: skip
    log_run(spark, config.lake, config, result)
    return result
