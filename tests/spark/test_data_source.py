"""What the options of the source and the sink do, in a real session."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import col, lit

from lior.errors import BadConfiguration, InvalidParameter, LiorError, Malformed
from lior.spark.explaining import explained
from lior.spark.jobs import ingest
from lior.spark.jobs.ingest import Ingest
from lior.testing.serving import Serving, loopback_address
from tests.server.bulk.test_bulk_access import PASSWORD, certified, lior
from tests.spark.conftest import messages, send, wait_for_bulk


def read(spark: Any, server: Serving, queue: str, **options: str) -> Any:
    return spark.read.format("msmq").options(address=str(server.data), queue=queue, **options).load()


def refusal(action: Any) -> LiorError:
    """The error of ours that a user is told. Spark gives its Python ten seconds to start, which a busy machine may not
    do: that is tried again."""
    for _ in range(6):
        try:
            action()
        except Exception as error:
            found = explained(error)
            if "did not start in time" not in found.what:
                return found
        else:
            raise AssertionError("nothing was refused")
    return found


# Rows that do not decode


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, str]]:
    """Ten messages, one of which has no header that anybody can read."""
    queue = "private$\\damaged"
    with Serving(tmp_path_factory.mktemp("damaged") / "data", settings={"bulk.port": 15802}) as server:
        wait_for_bulk(server)
        with server.connect() as qm:
            qm.create_queue(f".\\{queue}")
        send(server, queue, range(10))
        with sqlite3.connect(server.data / "store.db", timeout=60) as store:
            changed = store.execute("UPDATE m SET hdr=x'FFFFFFFF' WHERE l=(SELECT max(l) FROM m)").rowcount
        store.close()
        assert changed == 1
        yield server, queue


def test_a_damaged_row_is_handed_on_with_its_error_unless_another_mode_is_wanted(
    spark: Any, damaged: tuple[Serving, str]
) -> None:
    server, queue = damaged
    rows = read(spark, server, queue).select("lookup_id", "app_tag", "label", "body", "_error").collect()
    (bad,) = [row for row in rows if row["_error"] is not None]
    assert len(rows) == 10 and bad.app_tag is None and bad.lookup_id and bad.body.startswith(b"body ")
    assert read(spark, server, queue, mode="permissive").count() == 10
    kept = read(spark, server, queue, mode="DROPMALFORMED").select("app_tag", "_error").collect()
    assert len(kept) == 9 and all(row["_error"] is None and row["app_tag"] is not None for row in kept)
    error = refusal(lambda: read(spark, server, queue, mode="FAILFAST").collect())
    assert isinstance(error, Malformed) and "does not decode" in error.what and "PERMISSIVE" in error.remedy
    assert read(spark, server, queue, mode="FAILFAST", columns="lookup_id,body").count() == 10  # nobody looked at it


def test_a_damaged_message_ends_in_quarantine_and_the_others_in_the_lake(
    spark: Any, damaged: tuple[Serving, str], tmp_path: Path
) -> None:
    server, queue = damaged
    lake = tmp_path / "lake"
    found = ingest.run(spark, Ingest(str(server.data), (queue,), str(lake), "damaged", once=True))
    assert found.rows == 10
    (bad,) = pq.read_table(lake / "quarantine").to_pylist()
    good = pq.read_table(lake / "messages", columns=["app_tag", "_error"]).to_pylist()
    assert len(good) == 9 and all(row["_error"] is None for row in good)
    assert bad["_error"] and bad["body"] == f"body {({*range(10)} - {row['app_tag'] for row in good}).pop()}".encode()
    assert messages(server, queue)[0] == 0


# What can be read


def test_journals_and_dead_letters_are_tables_too(spark: Any, server: Serving, queue: str) -> None:
    send(server, queue, range(6))
    with server.connect() as qm, qm.open_queue(f".\\{queue}") as opened:
        for _ in range(4):
            opened.receive(timeout=0)
    assert read(spark, server, f"{queue};JOURNAL").count() == 4
    send(server, queue, range(100, 103), time_to_be_received=0)
    letters = read(spark, server, ";DEADLETTER", columns="app_tag,failure_reason,failed_destination")
    mine = [row for row in letters.collect() if (row.failed_destination or "").endswith(queue)]
    assert sorted(row.app_tag for row in mine) == [100, 101, 102] and all(row.failure_reason for row in mine)
    both = spark.read.format("msmq").options(address=str(server.data), queues=f"{queue}, {queue};JOURNAL").load()
    assert both.count() == 6


def test_a_stream_takes_what_its_limits_allow_and_ends_with_what_was_there(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    def sizes(name: str, **options: str) -> list[int]:
        stream = spark.readStream.format("msmq").options(
            address=str(server.data), queue=queue, subscription=f"{queue[-8:]}{name}", **options).load()  # fmt: skip
        query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name)).trigger(
            availableNow=True).start()  # fmt: skip
        query.awaitTermination()
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    send(server, queue, range(100))
    assert sizes("rows", maxMessagesPerTrigger="40") == [40, 40, 20]
    assert messages(server, queue) == (0, 100)
    send(server, queue, range(100))
    by_bytes = sizes("bytes", maxBytesPerTrigger="2k")
    assert sum(by_bytes) == 100 and len(by_bytes) > 2
    assert sizes("bytes", maxBytesPerTrigger="2k") == []  # nothing is there, and it ends


# What can be written


def test_each_row_says_where_it_goes_and_what_its_properties_are(
    spark: Any, server: Serving, queue: str
) -> None:
    other = f"{queue}o"
    with server.connect() as qm:
        qm.create_queue(f".\\{other}")
    rows = spark.range(40).select(
        col("id").cast("string").cast("binary").alias("body"), (col("id") % 8).cast("byte").alias("priority"),
        lit("by row").alias("label"), col("id").alias("app_tag"), lit(bytes(range(20))).alias("correlation_id"),
        (col("id") % 2).cast("byte").alias("delivery_mode"), (lit(3600) + col("id")).alias("time_to_be_received"),
        lit(b"ext").alias("extension"), lit(8).cast("long").alias("body_type"), lit(3).cast("byte").alias("journal"),
        lit(f"DIRECT=OS:.\\{queue}").alias("response_queue"),
    ).selectExpr("*", f"CASE WHEN app_tag < 30 THEN r'{queue}' ELSE r'{other}' END AS destination")  # fmt: skip
    rows.write.format("msmq").mode("append").options(address=str(server.data), priority="1", label="by option").save()
    with server.connect() as qm:
        assert [qm.queue(f".\\{name}").messages for name in (queue, other)] == [30, 10]
        with qm.open_queue(f".\\{queue}") as opened:
            found = list(opened)
    for message in found:
        number = message.application_tag
        assert (message.body, message.priority, message.label) == (str(number).encode(), number % 8, "by row")
        assert message.delivery_guarantee == number % 2 and message.time_to_be_received <= 3600 + number
        assert (message.extension, message.body_type, message.correlation_id) == (b"ext", 8, bytes(range(20)))
        assert message.positive_journaling_requested and message.negative_journaling_requested
        assert message.response_queue == f"DIRECT=OS:.\\{queue}"


def test_options_say_what_no_column_says(spark: Any, server: Serving, queue: str) -> None:
    spark.createDataFrame([("x",)], "body string").write.format("msmq").mode("append").options(
        address=str(server.data), queue=queue, priority="6", label="all", timeToBeReceived="1h", delivery="express",
        deadLetter="false").save()  # fmt: skip
    with server.connect() as qm, qm.open_queue(f".\\{queue}") as opened:
        (message,) = list(opened)
    assert (message.body, message.priority, message.label, message.delivery_guarantee) == (b"x", 6, "all", 0)
    assert message.time_to_be_received <= 3600 and not message.negative_journaling_requested


def test_nothing_is_sent_of_rows_that_are_no_messages(spark: Any, server: Serving, queue: str) -> None:
    def writer(df: Any, **options: str) -> Any:
        return df.write.format("msmq").mode("append").options(address=str(server.data), queue=queue, **options)

    good = "CAST('x' AS binary) AS body"
    for columns, what in (("1 AS colour", "colour"), ("1 AS priority", "body"), (f"{good}, 9 AS priority", "range"),
                          (f"{good}, 'high' AS priority", "priority")):  # fmt: skip
        error = refusal(lambda columns=columns: writer(spark.range(3).selectExpr(*columns.split(", "))).save())
        assert isinstance(error, InvalidParameter) and what in f"{error.where} {error.what}", error
    error = refusal(lambda: writer(spark.range(3).selectExpr(good), priorty="3").save())
    assert isinstance(error, BadConfiguration) and "did you mean" in error.remedy
    assert messages(server, queue) == (0, 0)


def test_what_a_source_and_a_sink_cannot_do_is_said(spark: Any, server: Serving, queue: str, tmp_path: Path) -> None:
    address, rows = str(server.data), spark.range(1).selectExpr("CAST('x' AS binary) AS body")

    def stream(**options: str) -> Any:
        df = spark.readStream.format("msmq").options(address=address, queue=queue, **options).load()
        writer = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        return writer.start().awaitTermination()

    for action, what, remedy in (
        (lambda: rows.write.format("msmq").mode("overwrite").options(address=address, queue=queue).save(),
         "not overwritten", "append"),
        (lambda: stream(), "subscription is missing", "a name under which"),
        (lambda: stream(subscription="s", readMode="peek"), "claims what it reads", "batch"),
        (lambda: stream(subscription="s", subscripton="t"), "no option subscripton", "subscription"),
        (lambda: read(spark, server, queue, mode="LENIENT").count(), "is no mode", "PERMISSIVE"),
        (lambda: read(spark, server, r"private$\nowhere").count(), "no such queue", "lior queue list"),
        (lambda: read(spark, server, queue, columns="colour").count(), "no column 'colour'", "there are"),
    ):  # fmt: skip
        error = refusal(action)
        assert what in error.what and remedy in error.remedy, error


# Who comes in


def test_spark_signs_in_with_an_account_over_tls_and_with_nothing_less(spark: Any, tmp_path: Path) -> None:
    address = loopback_address()
    with Serving(tmp_path / "data", bind=address, settings=certified(tmp_path, address)) as server:
        lior(server, "user", "add", "ruth", "--administrator", "--password-stdin", input=PASSWORD)
        with server.connect() as qm:
            qm.create_queue(r".\private$\safe")
        send(server, r"private$\safe", range(3))
        (tmp_path / "right").write_text(f"ruth:{PASSWORD}")
        (tmp_path / "wrong").write_text("ruth:guess")

        def count(credentials: str, ca: str) -> int:
            options = {"address": str(server.ready["bulk"]), "queue": r"private$\safe", "fetchTimeout": "20",
                       "credentialsFile": str(tmp_path / credentials), "caFile": str(tmp_path / ca)}  # fmt: skip
            found: int = spark.read.format("msmq").options(**options).load().count()
            return found

        assert count("right", "ca.pem") == 3
        error = refusal(lambda: count("wrong", "ca.pem"))
        assert error.symbol == "MQ_ERROR_ACCESS_DENIED" and "credentialsFile" in error.remedy
        error = refusal(lambda: spark.read.format("msmq").options(
            address=str(server.ready["bulk"]), queue=r"private$\safe", fetchTimeout="1",
            credentialsFile=str(tmp_path / "right"), caFile=str(tmp_path / "other.pem")).load().count())  # fmt: skip
        assert error.symbol == "MQ_ERROR_SERVICE_NOT_AVAILABLE"


def test_times_are_in_utc_whatever_the_clock_of_the_session_says(spark: Any, server: Serving, queue: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    send(server, queue, range(1))
    (row,) = read(spark, server, queue).selectExpr("unix_micros(arrived_at) AS at").collect()
    assert before <= datetime.fromtimestamp(row["at"] / 1e6, UTC) <= datetime.now(UTC) + timedelta(seconds=1)
