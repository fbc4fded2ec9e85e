"""Files that tasks write: each message in one of them, whatever is done again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lior.errors import BadConfiguration
from lior.spark.files import FILES, ArchiveSink, staged_of, written
from lior.spark.jobs import ingest
from lior.spark.jobs.ingest import Ingest
from lior.spark.sinks import DeltaBatchSink
from lior.testing.serving import Serving
from tests.spark.conftest import messages, send

APP = "0123456789"
ROWS = pa.schema([("ordinal", pa.int64()), ("label", pa.string()), ("body", pa.binary())])


def rows(low: int, high: int, size: int = 7) -> Iterator[pa.RecordBatch]:
    """Messages with ordinals above `low` up to `high`, a few in each batch."""
    for first in range(low + 1, high + 1, size):
        some = range(first, min(first + size, high + 1))
        yield pa.RecordBatch.from_pylist([{"ordinal": at, "label": f"{at}", "body": b"x" * at} for at in some], ROWS)


def run_tasks(spark: Any, table: Path, *ranges: tuple[int, int]) -> Any:
    """As Spark hands a batch to the driver: a row for each file."""
    staged = staged_of(str(table))
    told = [row for low, high in ranges for batch in written(rows(low, high), staged, "sub-1", low, high)
            for row in batch.to_pylist()]  # fmt: skip
    return spark.createDataFrame(told, "file string, rows bigint, bytes bigint, low bigint, high bigint")


def ordinals(table: Path) -> list[int]:
    found = [] if not table.exists() else [path for path in table.rglob("*.parquet") if "_staged" not in path.parts]
    return sorted(at for path in found for at in pq.ParquetFile(path).read(["ordinal"])["ordinal"].to_pylist())


def left_over(table: Path) -> list[Path]:
    return [path for path in Path(staged_of(str(table))).rglob("*") if path.is_file()]


def test_a_task_writes_one_file_and_says_where_it_is(tmp_path: Path) -> None:
    (told,) = written(rows(0, 100), str(tmp_path), "sub", 0, 100)
    assert told.schema == FILES
    (row,) = told.to_pylist()
    file = tmp_path / row["file"]
    assert (row["rows"], row["bytes"], row["low"], row["high"]) == (100, file.stat().st_size, 0, 100)
    assert pq.read_table(file).to_pylist() == pa.Table.from_batches(rows(0, 100)).to_pylist()
    assert list(written(iter(()), str(tmp_path), "sub", 100, 101)) == []
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(0, 50)
        raise BadConfiguration("the server went away")

    with pytest.raises(BadConfiguration):
        list(written(failing(), str(tmp_path), "sub", 0, 100))
    assert list(tmp_path.iterdir()) == []


def test_a_batch_is_there_with_all_its_files_or_not_at_all_and_once(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "messages"
    sink = ArchiveSink(str(table))
    assert sink.write(run_tasks(spark, table, (0, 40), (40, 100)), APP, 0)
    assert sink.write(run_tasks(spark, table, (100, 130)), APP, 1)
    assert not sink.write(run_tasks(spark, table, (100, 130)), APP, 1)
    assert ordinals(table) == list(range(1, 131))
    assert sink.write(run_tasks(spark, table, (130, 140)), APP, 2)
    assert left_over(table) == []
    assert spark.read.parquet(str(table)).count() == 140


def test_a_batch_that_is_cut_otherwise_the_second_time_has_only_its_new_files(spark: Any, tmp_path: Path) -> None:
    """The first driver died when it had moved a file of two."""
    table = tmp_path / "messages"
    run_tasks(spark, table, (0, 50), (50, 100))
    work = Path(staged_of(str(table))) / f"{APP[:8]}-{0:010}"
    work.mkdir()
    first = next(path for path in left_over(table) if path.name.endswith(f"{50:020}.parquet"))
    first.rename(work / first.name)
    assert ArchiveSink(str(table)).write(run_tasks(spark, table, (0, 100)), APP, 0)
    assert ordinals(table) == list(range(1, 101))
    assert left_over(table) == []


def test_delta_takes_files_of_tasks_too(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    table = tmp_path / "messages"
    sink = DeltaBatchSink(str(table))
    for batch, low in enumerate((0, 60)):
        for first in (True, False):
            df = run_tasks(spark, table, (low, low + 30), (low + 30, low + 60))
            assert sink.write(df, APP, batch) is first
    found = DeltaTable(str(table)).to_pyarrow_table(columns=["ordinal"])["ordinal"].to_pylist()
    assert sorted(found) == list(range(1, 121))


def test_an_archive_wants_a_file_system_that_renames() -> None:
    with pytest.raises(BadConfiguration, match="renames"):
        ArchiveSink("s3://bucket/lake")


@pytest.mark.timeout(600)
def test_ingest_writes_an_archive_whose_rows_never_were_in_the_jvm(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    send(server, queue, range(250))
    lake = tmp_path / "lake"
    job = Ingest(address=str(server.data), queues=(queue,), lake=str(lake), subscription=queue.rpartition("\\")[2],
                 format="archive", once=True, max_messages=100)  # fmt: skip
    result = ingest.run(spark, job)
    assert (result.rows, result.batches) == (250, 3)
    table = spark.read.parquet(str(lake / "messages"))
    assert sorted(row["app_tag"] for row in table.select("app_tag").collect()) == list(range(250))
    assert all(row["body"] == f"body {row['app_tag']}".encode() for row in table.collect())
    assert messages(server, queue) == (0, 250)
    assert left_over(lake / "messages") == []
    send(server, queue, range(250, 300))
    assert ingest.run(spark, job).rows == 50
    assert spark.read.parquet(str(lake / "messages")).count() == 300
    offsets = json.loads((lake / "checkpoints" / job.subscription / "offsets" / "3").read_text().splitlines()[-1])
    assert offsets["ord"] == 300
