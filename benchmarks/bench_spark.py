"""The pipeline's speed, as ratios within one run: what Spark makes of a queue, beside what it makes of the same rows
that need no queue, and beside a bare read over Flight.

    python benchmarks/bench_spark.py [MESSAGES]

Messages have 1 KB. Everything is durable: messages are claimed and released, checkpoints written, files closed.
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lior.client.bulk import arrow_schema, connect
from lior.spark.session import session
from lior.testing.serving import Serving

BODY = 1024
ROUNDS = int(os.environ.get("LIOR_ROUNDS", "3"))
QUEUE = r"private$\bench"
NEEDED = ["ordinal", "queue", "message_id", "label", "priority", "sent_at", "arrived_at", "body"]


def fill(data: Path, count: int, writer: str) -> float:
    schema = pa.schema([("body", pa.binary()), ("label", pa.string()), ("priority", pa.int8())])
    body, begun = b"x" * BODY, time.perf_counter()
    with connect(data) as bulk:
        for number, first in enumerate(range(0, count, 20_000)):
            rows = [{"body": body, "label": f"{each}", "priority": each % 8}
                    for each in range(first, min(count, first + 20_000))]
            bulk.write(pa.Table.from_pylist(rows, schema), destination=QUEUE, writer=writer, batch=number)
    return time.perf_counter() - begun


def bare(data: Path, columns: list[str] | None, path: Path | None = None) -> float:
    begun = time.perf_counter()
    with connect(data) as bulk:
        writer = pq.ParquetWriter(path, arrow_schema(columns)) if path else None
        for batch in bulk.peek(QUEUE, columns):
            if writer is not None:
                writer.write_batch(batch)
        if writer is not None:
            writer.close()
    return time.perf_counter() - begun


def stream(spark: Any, data: Path, folder: Path, name: str, kind: str) -> tuple[float, list[dict[str, Any]]]:
    df = spark.readStream.format("msmq").options(address=str(data), queue=QUEUE, subscription=name,
                                                 columns=",".join(NEEDED), minPartitions="2").load()  # fmt: skip
    writer = df.writeStream.format(kind).option("checkpointLocation", str(folder / f"c-{name}"))
    if kind == "parquet":
        writer = writer.option("path", str(folder / f"out-{name}"))
    begun = time.perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return time.perf_counter() - begun, [json.loads(each.json) if hasattr(each, "json") else each
                                         for each in query.recentProgress]  # fmt: skip


def prebuilt(spark: Any, folder: Path, count: int, kind: str) -> float:
    """The same columns from rows that are in memory already, through a Python task."""
    from pyspark.sql.types import StructType

    table = pq.read_table(folder / "bare.parquet").slice(0, 16_384)
    from lior.spark.schema import spark_schema

    schema: StructType = spark_schema(NEEDED)

    def made(_: Any) -> Any:
        (batch,) = table.combine_chunks().to_batches()
        for _number in range(count // 2 // batch.num_rows):
            yield batch

    df = spark.range(2, numPartitions=2).mapInArrow(made, schema)
    begun = time.perf_counter()
    if kind == "noop":
        df.write.format("noop").mode("overwrite").save()
    else:
        df.write.mode("overwrite").parquet(str(folder / "prebuilt"))
    return (time.perf_counter() - begun) * count / max(1, 2 * (count // 2 // table.num_rows) * table.num_rows)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    folder = Path(tempfile.mkdtemp(prefix="lior-bench-"))
    try:
        with Serving(folder / "data", settings={"bulk.port": 15802}) as server, session("local[2]", "bench") as spark:
            measure(server, spark, folder, count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(server: Serving, spark: Any, folder: Path, count: int) -> None:
    with server.connect() as qm:
        qm.create_queue(f".\\{QUEUE}")
    found: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()  # the first Python stage is slow
    shares: dict[str, float] = {}
    for number in range(ROUNDS):
        for kind in ("noop", "parquet"):
            note("publish", fill(server.data, count, f"{kind}{number}"))
            note("bare, all columns", bare(server.data, None))
            note("bare", bare(server.data, NEEDED))
            note("bare to Parquet", bare(server.data, NEEDED, folder / "bare.parquet"))
            seconds, progress = stream(spark, server.data, folder, f"{kind}{number}", kind)
            note(f"stream to {kind}", seconds)
            note(f"prebuilt to {kind}", prebuilt(spark, folder, count, kind))
            for each in progress:
                for stage, ms in each["durationMs"].items():
                    shares[stage] = shares.get(stage, 0.0) + ms
            with server.connect() as qm:
                qm.abandon_subscription(f"{kind}{number}")
    best = {name: min(values) for name, values in found.items()}
    for name, seconds in best.items():
        print(f"{name:22} {count / seconds:12,.0f} messages/s   (median {count / statistics.median(found[name]):,.0f})")
    for name, ratio, budget in (
        ("queue to Parquet / prebuilt to Parquet", best["prebuilt to parquet"] / best["stream to parquet"], 0.7),
        ("queue to noop / bare read", best["bare"] / best["stream to noop"], 0.35),
    ):
        print(f"{name:42} {ratio:5.2f}   budget {budget}   {'held' if ratio >= budget else 'MISSED'}")
    total = shares.get("triggerExecution", 0.0) or 1.0
    print("share of a trigger: " + ", ".join(f"{name} {ms / total:.0%}" for name, ms in sorted(shares.items())))
    print(f"fixed cost of a micro-batch: {fixed_cost(server, spark, folder):.0f} ms")


def fixed_cost(server: Serving, spark: Any, folder: Path) -> float:
    """Ten batches of ten messages."""
    fill(server.data, 100, "small")
    df = spark.readStream.format("msmq").options(address=str(server.data), queue=QUEUE, subscription="small",
                                                 maxMessagesPerTrigger="10").load()  # fmt: skip
    query = df.writeStream.format("noop").option("checkpointLocation", str(folder / "c-small")).trigger(
        availableNow=True).start()  # fmt: skip
    query.awaitTermination()
    return statistics.median(each["durationMs"]["triggerExecution"] for each in query.recentProgress[1:]
                             if each["numInputRows"])  # fmt: skip


if __name__ == "__main__":
    main()
