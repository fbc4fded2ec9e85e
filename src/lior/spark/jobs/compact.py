"""`lior pipeline compact`: many small files of a lake into a few large ones, beside an ingest that goes on.

Delta and Iceberg change their files in one commit, and readers see it before or after. A directory of Parquet has no
commits: batches that Spark will not run again are written anew beside the others and then take their place. What takes
whose place is written down first, so that a run that is killed is finished by the next one; who reads meanwhile may see
rows twice.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow.fs as fs

from lior.errors import BadConfiguration
from lior.spark import failpoints
from lior.spark.files import file_system
from lior.spark.jobs.checking import check_readable, one_of
from lior.spark.jobs.result import Result, log_run
from lior.spark.sinks import FORMATS, ICEBERG_TABLE, TIMESTAMPS, open_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN: Final = "_compaction.json"  # names that begin with _ are no data to Spark
STAGED: Final = "_compacting"
COMPACTED: Final = "compacted"


@dataclass(frozen=True)
class Compact:
    lake: str
    format: str = "parquet"
    target_mb: int = 128  # of a file, about
    catalog: dict[str, str] | None = None


@dataclass
class Counts:
    before: int = 0
    after: int = 0
    rows: int = 0


def check(config: Compact, here: bool) -> None:
    one_of("format", config.format, [each for each in FORMATS if each != "archive"])  # its files are large
    if config.target_mb < 1:
        raise BadConfiguration(f"{config.target_mb} is too little", where="target_mb", remedy="use 1 or more")
    if here:
        check_readable(config.lake, "make the lake with: lior pipeline ingest")


def run(spark: SparkSession, config: Compact) -> Result:
    started = time.monotonic()
    spark.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    target = config.target_mb << 20
    if config.format == "delta":
        found = _delta(f"{config.lake.rstrip('/')}/messages", target)
    elif config.format == "iceberg":
        found = _iceberg(spark, config.lake, config.catalog, target)
    else:
        found = ParquetLake(spark, f"{config.lake.rstrip('/')}/messages").compact(target)
    result = Result("compact", found.rows, seconds=time.monotonic() - started, output=config.lake,
                    details={"files_before": found.before, "files_after": found.after})  # fmt: skip
    log_run(spark, config.lake, config, result)
    return result


def _delta(path: str, target: int) -> Counts:
    from deltalake import DeltaTable

    table = DeltaTable(path)
    before = len(table.file_uris())
    table.optimize.compact(target_size=target)
    rows = sum(table.get_add_actions(flatten=True).column("num_records").to_pylist())
    return Counts(before, len(table.file_uris()), rows)


def _iceberg(spark: SparkSession, lake: str, catalog: dict[str, str] | None, target: int) -> Counts:
    """Small files leave the table and large ones come into it in one snapshot."""
    from pyiceberg.io.pyarrow import parquet_files_to_data_files

    table = open_catalog(lake, catalog).load_table(ICEBERG_TABLE)
    files = [task.file for task in table.scan().plan_files()]
    small = [each for each in files if each.file_size_in_bytes < target // 2]
    rows = sum(each.record_count for each in files)
    if len(small) < 2:
        return Counts(len(files), len(files), rows)
    folder = f"{lake.rstrip('/')}/{ICEBERG_TABLE.replace('.', '/')}/data/{COMPACTED}-{uuid4().hex[:12]}"
    parts = math.ceil(sum(each.file_size_in_bytes for each in small) / target)
    spark.read.parquet(*[each.file_path for each in small]).coalesce(parts).write.parquet(folder)
    prefix = "" if "://" in lake else "file://"
    new = [f"{prefix}{path}" for path, _ in _files_below(folder)]
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as change:
        for each in small:
            change.delete_data_file(each)
        for each in parquet_files_to_data_files(table.io, transaction.table_metadata, iter(new)):
            change.append_data_file(each)
    return Counts(len(files), len(files) - len(small) + len(new), rows)


def _files_below(path: str) -> list[tuple[str, int]]:
    system, base = file_system(path)
    found = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return [(each.path, each.size) for each in found if each.is_file and each.path.endswith(".parquet")]


class ParquetLake:
    """messages/queue=.../arrived_date=.../batch=.../*.parquet, or messages/batch=.../*.parquet of an archive."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._system, self._base = file_system(path)

    def compact(self, target: int) -> Counts:
        self._finish()
        found = Counts(before=len(self._files()))
        for partition, batches in self._settled(target):
            self._replace(partition, batches, target)
            found.rows += self._spark.read.parquet(f"{self._path}{partition}").count()
        found.after = len(self._files())
        return found

    def _files(self) -> list[tuple[str, int]]:
        """Those with data: by their path below the lake, with their size."""
        found = [("/" + path.removeprefix(self._base).strip("/"), size) for path, size in _files_below(self._path)]
        return [(path, size) for path, size in found if "/_" not in path]

    def _settled(self, target: int) -> Iterator[tuple[str, list[str]]]:
        """Partitions with several batches that are small and will not be run again: of each checkpoint the last may
        be."""
        sizes: dict[tuple[str, str], int] = defaultdict(int)
        for path, size in self._files():
            partition, mark, rest = path.rpartition("/batch=")
            if mark:
                sizes[partition, rest.partition("/")[0]] += size
        last: dict[str, str] = {}
        for _, batch in sizes:
            app = batch.partition("-")[0]
            last[app] = max(last.get(app, ""), batch)
        found: dict[str, list[str]] = defaultdict(list)
        for (partition, batch), size in sorted(sizes.items()):
            app = batch.partition("-")[0]
            if size < target // 2 and (app == COMPACTED or batch != last[app]):
                found[partition].append(batch)
        return ((partition, batches) for partition, batches in found.items() if len(batches) > 1)

    def _replace(self, partition: str, batches: list[str], target: int) -> None:
        """Written aside, written down, and only then put in the place of the others."""
        old = [f"{partition}/batch={each}" for each in batches]
        size = sum(size for each in old for _, size in _files_below(f"{self._path}{each}"))
        rows = self._spark.read.parquet(*[f"{self._path}{each}" for each in old])
        rows.coalesce(math.ceil(size / target)).sortWithinPartitions("arrived_at").write.mode("overwrite").parquet(
            f"{self._path}/{STAGED}")  # fmt: skip
        plan = {"new": f"{partition}/batch={COMPACTED}-{uuid4().hex[:12]}", "old": old}
        with self._system.open_output_stream(f"{self._base}/{PLAN}.new") as stream:
            stream.write(json.dumps(plan).encode())
        self._system.move(f"{self._base}/{PLAN}.new", f"{self._base}/{PLAN}")
        failpoints.reached("compaction planned")
        self._finish()

    def _finish(self) -> None:
        """What was written down is done, as far as it was not; what was not is forgotten."""
        system, base = self._system, self._base
        if system.get_file_info(f"{base}/{PLAN}").is_file:
            with system.open_input_stream(f"{base}/{PLAN}") as stream:
                plan: dict[str, Any] = json.loads(stream.read())
            if system.get_file_info(f"{base}/{STAGED}").type == fs.FileType.Directory:
                system.move(f"{base}/{STAGED}", f"{base}{plan['new']}")
                failpoints.reached("compaction moved")
            for each in plan["old"]:
                with suppress(FileNotFoundError):
                    system.delete_dir(f"{base}{each}")
            system.delete_file(f"{base}/{PLAN}")
        if system.get_file_info(f"{base}/{STAGED}").type == fs.FileType.Directory:
            system.delete_dir(f"{base}/{STAGED}")
