"""`lior pipeline deliver` and `replay`: rows of a lake, or of a query, as messages to queues; once for each run id."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from lior.client.bulk_names import WRITABLE
from lior.errors import BadConfiguration
from lior.spark.jobs.result import Result, log_run
from lior.spark.packet_sql import object_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK: Final = 50_000  # messages of one publication


@dataclass(frozen=True)
class Deliver:
    address: str
    source: str  # a directory of Parquet files, a Delta table, or - with --sql - nothing
    run_id: str
    queue: str = ""
    where: str = ""  # SQL over the source's columns
    sql: str = ""  # a query over the view `source`, in place of `where`
    format: str = "parquet"
    delivery: str = "recoverable"
    rate: float = 0.0  # messages a second at the most; 0: as fast as it goes
    dry_run: bool = False
    replay: bool = False  # of an archive: the old identifier goes along
    credentials_file: str = ""
    ca_file: str = ""
    log: str = ""  # a lake to log the run in


def read(spark: SparkSession, kind: str, path: str) -> DataFrame:
    """Delta by the list of its files, where Spark has no jar for it."""
    if kind == "delta":
        from deltalake import DeltaTable

        return spark.read.parquet(*DeltaTable(path).file_uris())
    if kind in ("parquet", "json", "orc"):
        return spark.read.format(kind).load(path)
    raise BadConfiguration(f"{kind!r:.60} is no format to read", where="format", remedy="use parquet, delta, json, orc")


def chosen(spark: SparkSession, config: Deliver) -> DataFrame:
    df = read(spark, config.format, config.source)
    if config.sql:
        df.createOrReplaceTempView("source")
        df = spark.sql(config.sql)
    elif config.where:
        df = df.where(config.where)
    if config.replay:
        df = replayed(df)
    if config.queue and "destination" in df.columns:
        df = df.drop("destination")
    return df.select(*[name for name in df.columns if name in WRITABLE])


def replayed(df: DataFrame) -> DataFrame:
    """A replayed message gets an identifier of its own; where it answers nothing, its correlation id says the old
    one: 16 bytes of GUID in Windows order and 4 of number, as in any acknowledgement."""
    if "message_id" not in df.columns:
        return df
    known = f.col("correlation_id") if "correlation_id" in df.columns else f.lit(None).cast("binary")
    return df.withColumn("correlation_id", f.coalesce(known, object_id("message_id")))


def run(spark: SparkSession, config: Deliver) -> Result:
    started, df = time.monotonic(), chosen(spark, config)
    if "body" not in df.columns:
        raise BadConfiguration("there is no column body", where=config.source, remedy="select one as body, with --sql")
    rows = df.count()
    result = Result("replay" if config.replay else "deliver", rows, details={"run_id": config.run_id})
    if not config.dry_run and rows:
        parts = max(1, -(-rows // CHUNK))
        if config.rate:
            parts = max(parts, int(rows / max(config.rate, 1)))
        _send(df, config, parts, rows)
        result.batches = parts
    result.seconds = time.monotonic() - started
    result.details["dry_run"] = config.dry_run
    if config.log:
        log_run(spark, config.log, config, result)
    return result


def _send(df: DataFrame, config: Deliver, parts: int, rows: int) -> None:
    """In parts that are the same whenever the run is repeated: a row's part follows from its content."""
    part = f.pmod(f.xxhash64(*[f.col(name) for name in df.columns]), f.lit(parts))
    begun = time.monotonic()
    for number in range(parts):
        some = df.where(part == number) if parts > 1 else df
        writer = some.write.format("msmq").mode("append").option("address", config.address).option(
            "writerId", f"{config.run_id}-{number}").option("delivery", config.delivery)  # fmt: skip
        for name, value in (("queue", config.queue), ("credentialsFile", config.credentials_file),
                            ("caFile", config.ca_file)):  # fmt: skip
            if value:
                writer = writer.option(name, value)
        writer.save()
        if config.rate:
            due = begun + (number + 1) * rows / parts / config.rate
            time.sleep(max(0.0, due - time.monotonic()))
