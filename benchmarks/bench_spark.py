"""The pipeline's speed, as ratios within one run: what Spark makes of a queue, beside what it makes of the same rows
that need no queue, and beside a bare read over Flight; where the time goes; and what the smallest batch costs.

    python benchmarks/bench_spark.py [MESSAGES]

Messages have 1 KB and eight priorities, a batch has up to 250,000. Everything is durable: messages are claimed and
released, checkpoints written, files closed. A stream's time is that of its triggers, the last of which waits for the
release; starting a query is not in it. Each figure is the best of LIOR_ROUNDS (3); processor time says what is left
when other things ran on the machine.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lior.client.bulk import Bulk, arrow_schema, connect
from lior.server.bulk.columns import batch_of
from lior.server.bulk.rows import Rows
from lior.spark.files import ArchiveSink, staged_of
from lior.spark.session import session
from lior.store.headers import grouped
from lior.testing.serving import Serving

BODY = 1024
ROUNDS = int(os.environ.get("LIOR_ROUNDS", "3"))
QUEUE = r"private$\bench"
NEEDED = ["ordinal", "queue", "message_id", "label", "priority", "sent_at", "arrived_at", "body"]
BATCH_ROWS, BATCH_BYTES = 16384, 4 << 20  # bulk.batch_rows, bulk.batch_bytes
SINKS = ("noop", "parquet", "archive")
PARTS = ("claim", "plan", "fetch", "decode", "Arrow", "Flight", "write", "release")
BUDGETS = (
    ("queue to Parquet / prebuilt to Parquet", "stream to parquet", "prebuilt to parquet", 0.7),
    ("queue to noop / bare read", "stream to noop", "bare", 0.35),
    ("files of tasks / Spark's own Parquet", "stream to archive", "stream to parquet", 1.5),
)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    folder = Path(tempfile.mkdtemp(prefix="lior-bench-"))
    try:
        with Serving(folder / "data", settings={"bulk.port": 15802}) as server, session("local[2]", "bench") as spark:
            with server.connect() as qm:
                qm.create_queue(f".\\{QUEUE}")
            spark.range(10).mapInArrow(lambda batches: batches, "id long").count()  # the first Python stage is slow
            for kind in SINKS:
                fill(server.data, 2000, f"warm-{kind}")
                stream(spark, server.data, folder, f"warm-{kind}", kind)
            measure(server, spark, folder, count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(server: Serving, spark: Any, folder: Path, count: int) -> None:
    found: dict[str, list[float]] = {}
    spent: dict[str, dict[str, float]] = {}
    shares: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    for number in range(ROUNDS):
        for kind in SINKS:
            note("publish", fill(server.data, count, f"{kind}{number}"))
            if kind == "noop":
                note("bare, all columns", bare(server.data, None))
                note("bare", bare(server.data, NEEDED))
                note("bare, without bodies", bare(server.data, ["label", "priority", "sent_at"]))
                note("bare to Parquet", bare(server.data, NEEDED, folder / "bare.parquet"))
            before = processor_time()
            note(f"stream to {kind}", stream(spark, server.data, folder, f"{kind}{number}", kind))
            spent[kind] = {name: used - before.get(name, 0.0) for name, used in processor_time().items()}
            if kind != "archive":
                note(f"prebuilt to {kind}", prebuilt(spark, folder, count, kind))
        fill(server.data, count, f"parts{number}")
        for name, seconds in parts(server.data, folder, count).items():
            shares.setdefault(name, []).append(seconds)
    best = {name: min(values) for name, values in found.items()}
    for name, seconds in best.items():
        print(f"{name:22} {count / seconds:12,.0f} messages/s   (median {count / statistics.median(found[name]):,.0f})")
    for name, ours, theirs, budget in BUDGETS:
        ratio = best[theirs] / best[ours]
        print(f"{name:42} {ratio:5.2f}   budget {budget}   {'held' if ratio >= budget else 'MISSED'}")
    for kind, used in spent.items():
        print(f"processor time to {kind}: " + ", ".join(
            f"{name} {seconds * 1e6 / count:.1f}" for name, seconds in used.items()) + " us a message")
    alone = {name: min(shares[name]) for name in PARTS}
    print("share of each stage, one after the other: " + ", ".join(
        f"{name} {seconds / sum(alone.values()):.0%}" for name, seconds in alone.items()))
    small(server, spark, folder)


# Without Spark


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


def parts(data: Path, folder: Path, count: int) -> dict[str, float]:
    """What a batch goes through, each stage alone: seconds."""
    found = dict.fromkeys(PARTS, 0.0)

    def timed(name: str, call: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        result = call()
        found[name] += time.perf_counter() - begun
        return result

    with connect(data) as bulk:
        epoch = str(bulk.call("subscribe", name="parts", queues=[f".\\{QUEUE}"])["epoch"])
        end = timed("claim", lambda: bulk.call("claim", name="parts", epoch=epoch, start=0, max_rows=count,
                                               max_bytes=1 << 40))  # fmt: skip
        timed("plan", lambda: bulk.call("plan", name="parts", start=0, end=end, parts=2, part_bytes=64 << 20))
        read_alone(data, epoch, end, timed, found)
        batches = timed("Flight", lambda: list(bulk.fetch("parts", epoch, 0, end, NEEDED)))
        found["Flight"] = max(0.0, found["Flight"] - found["fetch"] - found["decode"] - found["Arrow"])
        timed("write", lambda: pq.write_table(pa.Table.from_batches(batches), folder / "parts.parquet"))
        timed("release", lambda: bulk.call("release", name="parts", epoch=epoch, ordinal=end))
        abandon(bulk, "parts")
    return found


def read_alone(data: Path, epoch: str, end: int, timed: Callable[[str, Callable[[], Any]], Any],
               found: dict[str, float]) -> None:  # fmt: skip
    """As the bulk process reads, in this one. What makes columns begins with decoding, which is taken off again."""
    rows = Rows(data)
    chunks: Iterator[Any] = rows.claimed("parts", epoch, 0, end, BATCH_ROWS, BATCH_BYTES)
    while (chunk := timed("fetch", lambda: next(chunks, None))) is not None:
        headers = [row[6] for row in chunk.rows]
        before = found["decode"]
        timed("decode", partial(grouped, headers))
        timed("Arrow", partial(batch_of, chunk, NEEDED))
        found["Arrow"] -= found["decode"] - before
    rows.close()


def abandon(bulk: Bulk, name: str) -> None:
    bulk.call("abandon_subscription", name=name)


# With Spark


def stream(spark: Any, data: Path, folder: Path, name: str, kind: str) -> float:
    """Seconds of the triggers of a query that takes what is there. The subscription is gone afterwards."""
    out = folder / f"out-{name}"
    options = {"address": str(data), "queue": QUEUE, "subscription": name, "columns": ",".join(NEEDED),
               "minPartitions": "2", "maxMessagesPerTrigger": "250000", "maxBytesPerTrigger": "1g"}  # fmt: skip
    if kind == "archive":
        options["filesTo"] = staged_of(str(out))
    writer = spark.readStream.format("msmq").options(**options).load().writeStream.option(
        "checkpointLocation", str(folder / f"c-{name}"))  # fmt: skip
    if kind == "archive":
        sink = ArchiveSink(str(out))
        writer = writer.foreachBatch(lambda df, batch: sink.write(df, name, batch) and None)
    else:
        writer = writer.format(kind)
    query = (writer.option("path", str(out)) if kind == "parquet" else writer).trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(out, ignore_errors=True)
    with connect(data) as bulk:
        assert not any(each["claimed"] or each["lag"] for each in bulk.subscriptions() if each["name"] == name)
        abandon(bulk, name)
    return float(sum(each.durationMs["triggerExecution"] for each in query.recentProgress)) / 1000


def prebuilt(spark: Any, folder: Path, count: int, kind: str) -> float:
    """The same columns from rows that are in memory already, through a Python task."""
    from pyspark.sql.types import StructType

    from lior.spark.schema import spark_schema

    table = pq.read_table(folder / "bare.parquet").slice(0, 16_384)
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
    made_rows: int = 2 * (count // 2 // table.num_rows) * table.num_rows
    return (time.perf_counter() - begun) * count / max(1, made_rows)


def small(server: Serving, spark: Any, folder: Path) -> None:
    """What a micro-batch costs that has next to nothing to do: ten messages each, beside Spark's own source of rows."""
    fill(server.data, 150, "small")
    df = spark.readStream.format("msmq").options(address=str(server.data), queue=QUEUE, subscription="small",
                                                 maxMessagesPerTrigger="10").load()  # fmt: skip
    query = df.writeStream.format("noop").option("checkpointLocation", str(folder / "c-small")).trigger(
        availableNow=True).start()  # fmt: skip
    query.awaitTermination()
    ours = [each.durationMs for each in query.recentProgress if each.numInputRows][3:]
    df = spark.readStream.format("rate").options(rowsPerSecond="10", numPartitions="1").load()
    query = df.writeStream.format("noop").option("checkpointLocation", str(folder / "c-rate")).start()
    end = time.monotonic() + 60
    while len(theirs := [each.durationMs for each in query.recentProgress if each.numInputRows][3:]) < 12:
        if time.monotonic() > end:
            break
        query.awaitTermination(0.5)
    query.stop()
    for name, each in (("ours", ours), ("Spark's rate source", theirs)):
        stages = ", ".join(f"{stage} {statistics.median(one.get(stage, 0) for one in each):.0f}"
                           for stage in ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets"))
        print(f"fixed cost of a micro-batch, {name}: "
              f"{statistics.median(one['triggerExecution'] for one in each):.0f} ms ({stages})")


def processor_time() -> dict[str, float]:
    """Seconds by kind of process, of this one and all below it."""
    found: dict[str, float] = {}
    parents: dict[int, int] = {}
    told: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            figures = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(figures[1])
        told[int(entry.name)] = kind_of(command), sum(map(int, figures[11:15])) / os.sysconf("SC_CLK_TCK")
    for pid, (kind, seconds) in told.items():
        above: int | None = pid
        while above is not None and above != os.getpid():
            above = parents.get(above)
        if above is not None:
            found[kind] = found.get(kind, 0.0) + seconds
    return found


def kind_of(command: str) -> str:
    kinds = {"lior.server.bulk": "bulk process", " serve ": "queue manager", "java": "JVM", "pyspark": "Python workers"}
    return next((kind for mark, kind in kinds.items() if mark in command), "driver")


if __name__ == "__main__":
    main()
