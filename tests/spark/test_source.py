"""The source and the sink in a real session, against a served queue manager."""

import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import lit

import lior
from lior.spark.jobs import deliver, ingest, report, traffic
from lior.spark.jobs.deliver import Deliver
from lior.spark.jobs.ingest import Ingest
from lior.spark.jobs.report import Report
from lior.testing.serving import Serving
from tests.spark.conftest import lake_of, messages, send


def source(spark: Any, server: Serving, queue: str, **options: str) -> Any:
    return spark.read.format("msmq").options(address=str(server.data), queue=queue, **options)


def config(server: Serving, tmp_path: Path, *queues: str, **more: Any) -> Ingest:
    return Ingest(str(server.data), queues, lake_of(tmp_path), queues[0].rpartition("\\")[2], once=True, **more)


def tags(lake: str) -> list[int]:
    return sorted(pq.read_table(f"{lake}/messages", columns=["app_tag"])["app_tag"].to_pylist())


def test_a_queue_is_a_table_that_stays_as_it_is(spark: Any, server: Serving, queue: str) -> None:
    send(server, queue, range(300))
    df = source(spark, server, queue, minPartitions="8").load()
    rows = df.select("app_tag", "priority", "body", "queue", "ordinal").collect()
    assert sorted(row.app_tag for row in rows) == list(range(300))
    assert all(row.priority == row.app_tag % 8 and row.body == f"body {row.app_tag}".encode() for row in rows)
    assert {(row.queue, row.ordinal) for row in rows} == {(queue, None)}
    assert messages(server, queue) == (300, 0)
    few = source(spark, server, queue, columns="label,body_size").load()
    assert few.columns == ["label", "body_size"] and few.count() == 300


def test_predicates_are_pushed_down_where_spark_may(spark: Any, server: Serving, queue: str) -> None:
    send(server, queue, range(80))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        df = source(spark, server, queue, pushDownPredicate="true").load()
        assert df.where("priority = 7").count() == 10
        middle = df.where("priority = 3").agg({"lookup_id": "max"}).first()[0]
        assert df.where(f"lookup_id >= {middle}").count() == 31
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_an_unknown_option_is_refused_with_the_nearest_name(spark: Any, server: Serving, queue: str) -> None:
    with pytest.raises(Exception, match="there is no option colums"):
        source(spark, server, queue, colums="body").load()


def test_mixed_priorities_open_transactions_and_aborting_readers_lose_and_double_nothing(
    spark: Any, server: Serving, tmp_path: Path
) -> None:
    name = r"private$\contended"
    with server.connect() as qm:
        qm.create_queue(f".\\{name}", transactional=True, journal=True)
        for start in range(0, 600, 20):
            with qm.transaction() as tx:
                for number in range(start, start + 20):
                    tx.send(f".\\{name}", b"x", app_tag=number)
    over, failed = threading.Event(), []

    def compete() -> None:
        """Receive some in a transaction and give them back; send more in ones that stay open for a while."""
        try:
            with server.connect() as qm:
                number = 600
                while not over.is_set():
                    tx = qm.transaction().begin()
                    for _ in range(5):
                        try:
                            tx.receive(f".\\{name}", timeout=0)
                        except lior.errors.Timeout:
                            break
                    tx.abort()
                    if number < 900:
                        with qm.transaction() as later:
                            for each in range(number, number + 20):
                                later.send(f".\\{name}", b"y", app_tag=each)
                        number += 20
        except Exception as error:
            failed.append(error)

    rival = threading.Thread(target=compete)
    rival.start()
    try:
        ingest.run(spark, config(server, tmp_path, name, max_messages=200))
    finally:
        over.set()
        rival.join()
    assert not failed
    ingest.run(spark, config(server, tmp_path, name))
    found = tags(lake_of(tmp_path))
    assert found == list(range(len(found))) and len(found) >= 600
    assert messages(server, name) == (0, len(found))


def test_a_lake_goes_back_into_a_queue_and_comes_out_the_same(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    send(server, queue, range(500), correlation_id=bytes(range(20)))
    result = ingest.run(spark, config(server, tmp_path, queue, max_messages=150))
    assert (result.rows, result.batches) == (500, 4)
    assert messages(server, queue) == (0, 500)
    lake = lake_of(tmp_path)
    job = Deliver(str(server.data), f"{lake}/messages", "run 1", queue=queue)
    assert deliver.run(spark, job).rows == 500
    deliver.run(spark, job)  # the same run again sends nothing
    assert messages(server, queue)[0] == 500
    again = tmp_path / "again"
    again.mkdir()
    second = Ingest(str(server.data), (queue,), str(again), queue.rpartition("\\")[2] + "2", once=True, format="delta")
    with server.connect() as qm:
        for known in qm.subscriptions():
            if known["name"] == queue.rpartition("\\")[2]:
                qm.abandon_subscription(known["name"])
    ingest.run(spark, second)
    names = ["app_tag", "body", "label", "priority", "correlation_id", "body_type", "delivery_mode", "journal"]
    before = pq.read_table(f"{lake}/messages", columns=names).sort_by("app_tag")
    from deltalake import DeltaTable

    after = DeltaTable(f"{again}/messages").to_pyarrow_table(columns=names).sort_by("app_tag")
    assert after.to_pylist() == before.to_pylist()


def test_a_stream_into_a_queue_says_destination_and_properties_by_row(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    rows = spark.range(100).selectExpr("cast(id as string) as body", "cast(id % 8 as tinyint) as priority",
                                       "id as app_tag").withColumn("destination", lit(queue))  # fmt: skip
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = stream.writeStream.format("msmq").options(address=str(server.data), writerId=f"w {queue}").option(
        "checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    found = source(spark, server, queue).load().collect()
    assert sorted(row.app_tag for row in found) == list(range(100))
    assert all(row.priority == row.app_tag % 8 and row.body == str(row.app_tag).encode() for row in found)


def test_the_report_counts_what_plain_python_counts(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    send(server, queue, range(64))
    ingest.run(spark, config(server, tmp_path, queue))
    found = report.run(spark, Report(lake_of(tmp_path)))
    assert found.rows == 64 and found.details["queues"] == 1 and found.details["classes"] == {"0x0000": 64}
    page = Path(found.output).read_text()
    assert queue in page and "<svg" in page
    df = spark.read.parquet(f"{lake_of(tmp_path)}/messages")
    (row,) = traffic.profile(df)
    assert row["bytes"] == sum(len(f"body {number}") for number in range(64)) and row["senders"] == 1
