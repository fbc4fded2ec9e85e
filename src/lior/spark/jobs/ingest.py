"""`lior pipeline ingest`: queues into a lake, exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as f

from lior.errors import BadConfiguration
from lior.spark.files import staged_of
from lior.spark.jobs.checking import check_server, check_writable, one_of
from lior.spark.jobs.result import Result, log_run
from lior.spark.sinks import FORMATS, BatchSink, ParquetBatchSink, sink_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Ingest:
    address: str
    queues: tuple[str, ...]
    lake: str
    subscription: str = "lake"
    format: str = "parquet"
    checkpoint: str = ""  # empty: in the lake
    once: bool = False
    seconds: float = 0.0  # end after so long; 0: go on until it is stopped
    trigger_seconds: float = 1.0
    takeover: bool = False
    columns: tuple[str, ...] = ()
    max_messages: int = 100_000
    min_partitions: int = 2
    credentials_file: str = ""
    ca_file: str = ""
    catalog: dict[str, str] | None = None
    options: dict[str, str] = field(default_factory=dict)  # more of the source's

    @property
    def by_tasks(self) -> bool:
        """Tasks write the files, and rows say where they are."""
        return self.format == "archive"

    @property
    def checkpoint_path(self) -> str:
        return self.checkpoint or f"{self.lake.rstrip('/')}/checkpoints/{self.subscription}"


class WriteBatch:
    """Rows that decode go to the table, the others to quarantine/. What it needs can be pickled: under Spark Connect it
    runs in the server."""

    def __init__(self, config: Ingest) -> None:
        self._config = config
        self._app = ""

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        config = self._config
        app = self._app = self._app or query_id(df.sparkSession, config.checkpoint_path)
        sink: BatchSink = sink_for(config.format, config.lake, config.catalog)
        if "_error" not in df.columns:
            sink.write(df, app, batch_id)
            return
        observed = Observation()
        counted = df.observe(observed, f.count("_error").alias("bad"))
        bad = df.where(f.col("_error").isNotNull())
        if sink.write(counted.where(f.col("_error").isNull()), app, batch_id):
            some = observed.get["bad"] > 0
        else:  # written before; whether its quarantine was, too, nobody knows
            some = not bad.isEmpty()
        if some:
            ParquetBatchSink(f"{config.lake.rstrip('/')}/quarantine", ()).write(bad, app, batch_id)


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """Batches are numbered by checkpoint: a new one begins at 0 again, and must not write over what is there."""
    rows = spark.read.text(f"{checkpoint}/metadata").collect()
    return str(json.loads("".join(row.value for row in rows))["id"])


def check(config: Ingest, here: bool) -> None:
    if not config.queues:
        raise BadConfiguration("no queue", where="ingest", remedy="give at least one with --queue")
    one_of("format", config.format, FORMATS)
    if here:
        check_server(config.address, config.queues, config.credentials_file, config.ca_file)
        check_writable(config.lake)


def run(spark: SparkSession, config: Ingest, progress: Callable[[dict[str, Any]], None] | None = None) -> Result:
    started, query = time.monotonic(), start(spark, config)
    seen: dict[int, int] = {}
    try:
        while query.isActive:
            query.awaitTermination(0.5)
            _note(query.recentProgress, seen, progress, config)
            if config.seconds and time.monotonic() - started > config.seconds:
                query.stop()
        _note(query.recentProgress, seen, progress, config)
        error = query.exception()
    except KeyboardInterrupt:
        query.stop()
        error = None
    result = Result("ingest", sum(seen.values()), sum(1 for rows in seen.values() if rows),
                    time.monotonic() - started, config.lake)  # fmt: skip
    log_run(spark, config.lake, config, result, "" if error is None else str(error)[:2000])
    if error is not None:
        raise error
    return result


def start(spark: SparkSession, config: Ingest) -> Any:
    reader = spark.readStream.format("msmq").options(**source_options(config))
    writer = reader.load().writeStream.foreachBatch(WriteBatch(config)).option(
        "checkpointLocation", config.checkpoint_path)  # fmt: skip
    if config.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{config.trigger_seconds} seconds").start()


def source_options(config: Ingest) -> dict[str, str]:
    found = {"address": config.address, "queues": ",".join(config.queues), "subscription": config.subscription,
             "maxMessagesPerTrigger": str(config.max_messages), "minPartitions": str(config.min_partitions)}
    for name, value in (("credentialsFile", config.credentials_file), ("caFile", config.ca_file),
                        ("columns", ",".join(config.columns)),
                        ("startingPosition", "takeover" if config.takeover else ""),
                        ("filesTo", staged_of(f"{config.lake.rstrip('/')}/messages") if config.by_tasks else ""),
                        ):  # fmt: skip
        if value:
            found[name] = value
    return found | config.options


def messages_of(progress: Any) -> int:
    """Of a batch whose rows are files: what lies between its offsets."""
    (source, *_) = progress.sources
    start, end = json.loads(source.startOffset or "null"), json.loads(source.endOffset)
    return int(end["ord"]) - (0 if start is None else int(start["ord"]))  # none before the first batch


def read_once(rows: int, progress: Any, config: Ingest) -> int:
    """Spark counts what it read, and a batch with rows for quarantine is read twice. The first offset of a checkpoint
    says nothing of where it begins, and those of foreign queue managers count batches."""
    return rows if config.options.get("broker", "flight") != "flight" else min(rows, messages_of(progress))


def _note(recent: Any, seen: dict[int, int], progress: Callable[[dict[str, Any]], None] | None,
          config: Ingest) -> None:  # fmt: skip
    for each in recent:
        batch, rows = each.batchId, each.numInputRows  # as items they are null under Spark Connect
        if rows and batch not in seen:
            seen[batch] = rows = messages_of(each) if config.by_tasks else read_once(rows, each, config)
            if progress is not None:
                progress({"batch": batch, "rows": rows, "total": sum(seen.values()), "waiting": _waiting(each)})


def _waiting(progress: Any) -> int:
    """Messages that came while the batch was made; -1 where Spark does not tell."""
    try:
        source = progress.sources[0]
        return max(0, int(json.loads(source.latestOffset)["ord"]) - int(json.loads(source.endOffset)["ord"]))
    except (IndexError, KeyError, TypeError, ValueError):
        return -1
