"""`lior pipeline migrate`: what an estate has and uses, what that becomes elsewhere, what has no counterpart there, and
whether two systems that run side by side got the same messages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from lior.client.bulk import Bulk
from lior.errors import BadConfiguration
from lior.spark.jobs.checking import check_readable, check_server, one_of
from lior.spark.jobs.result import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What each target makes of a feature; "" is a gap, for which the text of GAPS says what to do.
TARGETS: Final[dict[str, dict[str, str]]] = {
    "lior": dict.fromkeys(
        ("queue", "transactional", "journal", "priority", "expiry", "acknowledgements", "responses", "signed",
         "encrypted", "multicast"), "the same"),
    "kafka": {
        "queue": "topic", "transactional": "transactional producer, read_committed", "journal": "retention",
        "priority": "", "expiry": "retention.ms of the topic", "acknowledgements": "", "responses": "reply topic",
        "signed": "", "encrypted": "TLS", "multicast": "consumer groups"},
    "rabbitmq": {
        "queue": "quorum queue", "transactional": "publisher confirms and deduplication by message id",
        "journal": "stream", "priority": "x-max-priority (classic queues), high and normal in quorum queues",
        "expiry": "per-message TTL", "acknowledgements": "", "responses": "reply-to", "signed": "",
        "encrypted": "TLS", "multicast": "fanout exchange"},
    "servicebus": {
        "queue": "queue", "transactional": "sessions and transactions within a namespace",
        "journal": "a second subscription", "priority": "", "expiry": "TimeToLive", "acknowledgements": "",
        "responses": "ReplyTo", "signed": "", "encrypted": "TLS", "multicast": "topic"},
}  # fmt: skip
GAPS: Final = {
    "priority": "one queue for each priority, or none: measure whether anything depends on it",
    "acknowledgements": "let the receiver send a reply of its own",
    "signed": "sign bodies in the application",
}


@dataclass(frozen=True)
class Migrate:
    address: str = ""
    lake: str = ""  # traffic, for rates, sizes and the features that messages use
    target: str = "kafka"
    left: str = ""  # two lakes to compare
    right: str = ""
    credentials_file: str = ""
    ca_file: str = ""


def check(config: Migrate, here: bool) -> None:
    one_of("target", config.target, tuple(TARGETS))
    if bool(config.left) != bool(config.right):
        raise BadConfiguration("a comparison has two sides", where="left" if config.right else "right",
                               remedy="give --left and --right")
    if not config.address and not config.lake and not config.left:
        raise BadConfiguration("nothing to look at", where="migrate",
                               remedy="give --server, --lake, or --left and --right")
    if here:
        if config.address:
            check_server(config.address, (), config.credentials_file, config.ca_file)
        for lake in (config.lake, config.left, config.right):
            if lake:
                check_readable(f"{lake.rstrip('/')}/messages", "make the lake with: lior pipeline ingest")


def run(spark: SparkSession, config: Migrate) -> Result:
    started = time.monotonic()
    details: dict[str, Any] = {}
    rows = 0
    if config.address or config.lake:
        details["queues"] = inventory(spark, config)
        details["gaps"] = sorted({f"{name}: {GAPS.get(name, 'nothing like it')}" for queue in details["queues"]
                                  for name, there in queue["mapping"].items() if not there})  # fmt: skip
        rows = len(details["queues"])
    if config.left and config.right:
        details["comparison"] = compare(spark, config.left, config.right)
        rows = rows or details["comparison"]["left"]
    return Result("migrate", rows, seconds=time.monotonic() - started, details=details)


def inventory(spark: SparkSession, config: Migrate) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if config.address:
        with Bulk(config.address, config.credentials_file, config.ca_file) as bulk:
            for queue in bulk.call("queues"):
                if queue["kind"] == "private":
                    found[queue["name"]] = _of_queue(queue)
    if config.lake:
        for row in features(spark.read.parquet(f"{config.lake.rstrip('/')}/messages")):
            known = found.setdefault(row["queue"], {"queue": row["queue"], "uses": set()})
            known |= {name: row[name] for name in ("messages", "bytes", "largest", "per_second")}
            known["uses"] |= {name for name in _MESSAGE_FEATURES if row[name]}
    for known in found.values():
        known["uses"] = sorted(known["uses"] | {"queue"})
        known["mapping"] = {name: TARGETS[config.target].get(name, "") for name in known["uses"]}
    return sorted(found.values(), key=lambda each: str(each["queue"]))


def _of_queue(queue: dict[str, Any]) -> dict[str, Any]:
    properties = queue["properties"]
    uses = {name for name, used in (
        ("transactional", queue["transactional"]), ("journal", properties["journaling"]),
        ("signed", properties["authentication"]), ("encrypted", properties["privacy_level"] == 2),
        ("multicast", bool(properties["multicast_address"]))) if used}  # fmt: skip
    return {"queue": queue["name"], "waiting": queue["messages"], "waiting_bytes": queue["bytes"], "uses": uses}


_MESSAGE_FEATURES: Final = {
    "transactional": "max(transactional)",
    "priority": "count(distinct priority) > 1",
    "expiry": "count(time_to_be_received) > 0",
    "acknowledgements": "max(acknowledge) > 0",
    "responses": "count(response_queue) > 0",
    "signed": "count(signature) > 0",
    "encrypted": "max(privacy_level) > 0",
}


def features(df: DataFrame) -> list[dict[str, Any]]:
    """What the messages of each queue use, and how many there are."""
    span = f.greatest(f.max("arrived_at").cast("double") - f.min("arrived_at").cast("double"), f.lit(1.0))
    rows = df.groupBy("queue").agg(
        f.count(f.lit(1)).alias("messages"), f.sum("body_size").alias("bytes"), f.max("body_size").alias("largest"),
        (f.count(f.lit(1)) / span).alias("per_second"),
        *[f.expr(text).alias(name) for name, text in _MESSAGE_FEATURES.items()])  # fmt: skip
    return [row.asDict() for row in rows.collect()]


def compare(spark: SparkSession, left: str, right: str) -> dict[str, int]:
    """By content: a hash over body and label, and how often each occurs. Identifiers differ between systems."""
    sides = []
    for path in (left, right):
        df = spark.read.parquet(f"{path.rstrip('/')}/messages")
        label = f.encode(f.coalesce("label", f.lit("")), "UTF-8")
        content = f.sha2(f.concat(f.coalesce("body", f.lit(b"")), label), 256)
        sides.append(df.select(content.alias("hash")).groupBy("hash").agg(f.count(f.lit(1)).alias("times")))
    one, two = sides
    both = one.join(two.withColumnRenamed("times", "other"), "hash", "full_outer").select(
        f.coalesce("times", f.lit(0)).alias("times"), f.coalesce("other", f.lit(0)).alias("other"))  # fmt: skip
    row = both.agg(f.sum("times").alias("left"), f.sum("other").alias("right"),
                   f.sum(f.least("times", "other")).alias("same")).first()  # fmt: skip
    counts = {name: int((row[name] if row is not None else 0) or 0) for name in ("left", "right", "same")}
    return counts | {"only_left": counts["left"] - counts["same"], "only_right": counts["right"] - counts["same"]}
