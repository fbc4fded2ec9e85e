"""`lior pipeline deliver` and `replay`: rows of a lake, or of a query, as messages to queues; once for each run id."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from lior.client.bulk import Bulk
from lior.client.bulk_names import WRITABLE
from lior.errors import BadConfiguration
from lior.message import Acknowledgements, MessageClass
from lior.spark.jobs.checking import check_readable, check_server, one_of
from lior.spark.jobs.result import Result, log_run
from lior.spark.packet_sql import object_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK: Final = 50_000  # messages of one publication
FORMATS: Final = ("parquet", "delta", "json", "orc")
DELIVERY: Final = ("express", "recoverable", "transactional")
_LOOK: Final = 0.5  # seconds between two looks at the acknowledgements
_ASKED: Final = int(Acknowledgements.FULL_REACH_QUEUE)
_ARRIVED: Final = "arrived"
_UNKNOWN: Final = "no word yet"


@dataclass(frozen=True)
class Deliver:
    address: str
    source: str  # a directory of Parquet files, or a Delta table
    run_id: str
    queue: str = ""
    where: str = ""  # SQL over the source's columns
    sql: str = ""  # a query over the view `source`, in place of `where`
    format: str = "parquet"
    delivery: str = "recoverable"
    rate: float = 0.0  # messages a second at the most; 0: as fast as it goes
    dry_run: bool = False
    replay: bool = False  # of an archive: the old identifier goes along
    outcomes: str = ""  # a queue of its own for acknowledgements, which are counted
    wait: float = 30.0  # seconds for them
    credentials_file: str = ""
    ca_file: str = ""
    log: str = ""  # a lake to log the run in


def check(config: Deliver, here: bool) -> None:
    one_of("format", config.format, FORMATS)
    one_of("delivery", config.delivery, DELIVERY)
    if config.where and config.sql:
        raise BadConfiguration("a condition and a query", where="sql", remedy="give --where or --sql")
    if here:
        check_readable(config.source, "check --source; `lior pipeline ingest` makes a lake, with messages in messages/")
        queues = [config.queue] if config.queue else []
        if config.outcomes:
            queues.append(local_path(config.outcomes))
        check_server(config.address, queues, config.credentials_file, config.ca_file)


def read(spark: SparkSession, kind: str, path: str) -> DataFrame:
    """Delta by the list of its files, where Spark has no jar for it."""
    if kind == "delta":
        from deltalake import DeltaTable

        return spark.read.parquet(*DeltaTable(path).file_uris())
    one_of("format", kind, FORMATS)
    return spark.read.format(kind).load(path)


def chosen(spark: SparkSession, config: Deliver) -> DataFrame:
    df = read(spark, config.format, config.source)
    if config.sql:
        df.createOrReplaceTempView("source")
        df = spark.sql(config.sql)
    elif config.where:
        df = df.where(config.where)
    if config.replay:
        df = replayed(df)
    if config.queue:
        df = df.drop("destination")
    if config.outcomes:
        df = df.drop("admin_queue", "acknowledge")
    return df.select(*[name for name in df.columns if name in WRITABLE])


def replayed(df: DataFrame) -> DataFrame:
    """A replayed message gets an identifier of its own; where it answers nothing, its correlation id says the old
    one: 16 bytes of GUID in Windows order and 4 of number, as in any acknowledgement."""
    if "message_id" not in df.columns:
        return df
    known = f.col("correlation_id") if "correlation_id" in df.columns else f.lit(None).cast("binary")
    return df.withColumn("correlation_id", f.coalesce(known, object_id("message_id")))


def run(spark: SparkSession, config: Deliver) -> Result:
    started, began, df = time.monotonic(), time.time(), chosen(spark, config)
    if "body" not in df.columns:
        raise BadConfiguration("there is no column body", where=config.source, remedy="select one as body, with --sql")
    wanted = destinations(df, config.queue)
    rows = wanted.total()
    result = Result("replay" if config.replay else "deliver", rows, details={
        "run_id": config.run_id, "dry_run": config.dry_run,
        "destinations": [{"destination": name, "messages": count} for name, count in wanted.most_common()],
    })  # fmt: skip
    if not config.dry_run and rows:
        parts = max(1, -(-rows // CHUNK))
        if config.rate:
            parts = max(parts, int(rows / max(config.rate, 1)))
        _send(df, config, parts, rows)
        result.batches = parts
        if config.outcomes:
            result.details["outcomes"] = outcomes(config, wanted, began)
    result.seconds = time.monotonic() - started
    if config.log:
        log_run(spark, config.log, config, result)
    return result


def destinations(df: DataFrame, queue: str) -> Counter[str]:
    """How many rows go where. A row that says nothing of it is refused before anything is sent."""
    if queue:
        return Counter({queue: df.count()})
    if "destination" not in df.columns:
        raise BadConfiguration("nothing says where to", where="destination",
                               remedy="give --queue, or select a column destination with --sql")
    found = {row["destination"]: row["count"] for row in df.groupBy("destination").count().collect()}
    if None in found or "" in found:
        raise BadConfiguration(f"{found.get(None, 0) + found.get('', 0)} rows have no destination",
                               where="destination", remedy="leave them out with --where, or give --queue")
    return Counter(found)


def _send(df: DataFrame, config: Deliver, parts: int, rows: int) -> None:
    """In parts that are the same whenever the run is repeated: a row's part follows from its content."""
    part = f.pmod(f.xxhash64(*[f.col(name) for name in df.columns]), f.lit(parts))
    begun = time.monotonic()
    options = {"address": config.address, "delivery": config.delivery, "queue": config.queue,
               "credentialsFile": config.credentials_file, "caFile": config.ca_file}  # fmt: skip
    if config.outcomes:
        options |= {"adminQueue": format_name(config.outcomes), "acknowledge": str(_ASKED)}
    for number in range(parts):
        some = df.where(part == number) if parts > 1 else df
        given = {name: value for name, value in options.items() if value} | {"writerId": f"{config.run_id}-{number}"}
        some.write.format("msmq").mode("append").options(**given).save()
        if config.rate:
            due = begun + (number + 1) * rows / parts / config.rate
            time.sleep(max(0.0, due - time.monotonic()))


# What became of them


def outcomes(config: Deliver, wanted: Counter[str], since: float) -> list[dict[str, Any]]:
    """By destination: how many arrived, how many were refused and why, and of how many nothing is known yet. It is
    counted from acknowledgements that came since the run began; the queue should be this run's alone."""
    end = time.monotonic() + config.wait
    with Bulk(config.address, config.credentials_file, config.ca_file) as bulk:
        while True:
            found = _counted(bulk, local_path(config.outcomes), since)
            if found.total() >= wanted.total() or time.monotonic() > end:
                break
            time.sleep(_LOOK)
    rows = [{"destination": name, "outcome": what, "messages": count} for (name, what), count in sorted(found.items())]
    missing = wanted.total() - found.total()
    return rows + ([{"destination": "", "outcome": _UNKNOWN, "messages": missing}] if missing > 0 else [])


def _counted(bulk: Bulk, queue: str, since: float) -> Counter[tuple[str, str]]:
    """An acknowledgement names the destination as its response queue ([MS-MQQB] 3.1.7.15)."""
    found: Counter[tuple[str, str]] = Counter()
    for batch in bulk.peek(queue, ["message_class", "response_queue", "arrived_at"]):
        for row in batch.to_pylist():
            if row["message_class"] and row["arrived_at"].timestamp() >= since - 0.001:
                found[row["response_queue"] or "", outcome_of(row["message_class"])] += 1
    return found


def outcome_of(message_class: int) -> str:
    if message_class == MessageClass.ACK_REACH_QUEUE:
        return _ARRIVED
    try:
        return MessageClass(message_class).name
    except ValueError:
        return f"0x{message_class:04X}"


def format_name(queue: str) -> str:
    return queue if "=" in queue else "DIRECT=OS:.\\" + queue.removeprefix(".\\")


def local_path(queue: str) -> str:
    """The path of a queue here by which it is read: `DIRECT=TCP:10.0.0.1\\private$\\acks` is private$\\acks."""
    if "=" not in queue:
        return queue.removeprefix(".\\")
    return queue.partition("\\")[2]
