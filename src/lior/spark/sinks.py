"""Where batches go: Parquet, Delta and Iceberg, each of which takes a batch once however often it comes.

Parquet directories carry the name of their batch and are written over; Delta and Iceberg write down the last batch of
each writer in the commit that adds its files. Delta and Iceberg need no jar: Spark writes Parquet files, and the driver
adds them to the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

import pyarrow.fs as fs
import pyarrow.parquet as pq
from pyspark.sql import functions as f

from lior.errors import BadConfiguration
from lior.spark import failpoints
from lior.spark.files import ArchiveSink, collect, file_system, is_of_files, staged_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"  # INT96, the default, is read by few others
FORMATS: Final = ("parquet", "archive", "delta", "iceberg")
ICEBERG_TABLE: Final = "lior.messages"
_BATCH: Final = "lior.batch"
_APP: Final = "lior.app"


class BatchSink(Protocol):
    """`app` names the checkpoint that numbers the batches. Answers whether anything was done: False for a batch that
    was there already."""

    def write(self, df: DataFrame, app: str, batch_id: int) -> bool: ...


def key_of(app: str, batch_id: int) -> str:
    return f"{app[:8]}-{batch_id:010}"


class ParquetBatchSink:
    """messages/queue=.../arrived_date=.../batch=.../, sorted by arrival."""

    def __init__(self, path: str, partition_by: tuple[str, ...] = ("queue", "arrived_date")) -> None:
        self._path = path
        self._partition_by = partition_by

    def write(self, df: DataFrame, app: str, batch_id: int) -> bool:
        df.sparkSession.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
        if "arrived_date" in self._partition_by:
            df = df.withColumn("arrived_date", f.to_date("arrived_at"))
        df = df.withColumn("batch", f.lit(key_of(app, batch_id)))
        names = [*self._partition_by, "batch"]
        order = [*names, "arrived_at"] if "arrived_at" in df.columns else names
        df.sortWithinPartitions(*order).write.partitionBy(*names).mode("overwrite").option(
            "partitionOverwriteMode", "dynamic").parquet(self._path)  # fmt: skip
        failpoints.reached("after sink")
        return True


class FilesOfBatch:
    """Parquet files of one batch below a table, written by Spark and listed by the driver."""

    def __init__(self, table: str, app: str, batch_id: int) -> None:
        self._key = key_of(app, batch_id)
        self._table = table.rstrip("/")
        self.name = f"data/{self._key}"

    @property
    def path(self) -> str:
        return f"{self._table}/{self.name}"

    def write(self, df: DataFrame) -> None:
        """Or take those that tasks have written (option `filesTo`), which must be on the same file system."""
        if is_of_files(df):
            collect(df, self.path, staged_of(self._table))
            return
        # A directory for each attempt: the JVM of a driver that was killed may write on for a while
        self.name = f"data/{self._key}-{uuid4().hex[:12]}"
        df.sparkSession.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
        df.write.parquet(self.path)

    def forget_others(self) -> None:
        """Once these files are the table's: what earlier attempts have left is nobody's."""
        system, base = file_system(f"{self._table}/data")
        own = self.name.rpartition("/")[2]
        for info in system.get_file_info(fs.FileSelector(base, allow_not_found=True)):
            if info.base_name.startswith(f"{self._key}-") and info.base_name != own:
                system.delete_dir(info.path)

    def listed(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Name below the table, whole path, bytes, time of change in ms, rows."""
        system, base = file_system(self.path)
        for info in system.get_file_info(fs.FileSelector(base)):
            if info.is_file and info.base_name.endswith(".parquet"):
                rows = pq.read_metadata(info.path, filesystem=system).num_rows
                if rows:
                    changed = int(info.mtime.timestamp() * 1000)
                    yield f"{self.name}/{info.base_name}", info.path, info.size, changed, rows


class DeltaBatchSink:
    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, df: DataFrame, app: str, batch_id: int) -> bool:
        from deltalake import DeltaTable, Schema
        from deltalake.transaction import AddAction, CommitProperties, Transaction, create_table_with_add_actions

        where = self._path if "://" in self._path else os.path.abspath(self._path)
        table = DeltaTable(where) if DeltaTable.is_deltatable(where) else None
        last = None if table is None else table.transaction_version(app)
        if last is not None and batch_id <= last:
            return False
        files = FilesOfBatch(where, app, batch_id)
        files.write(df)
        failpoints.reached("between files and table")
        listed = list(files.listed())
        added = [AddAction(name, size, {}, changed, True, f'{{"numRecords":{rows}}}')
                 for name, _, size, changed, rows in listed]  # fmt: skip
        properties = CommitProperties(app_transactions=[Transaction(app, batch_id)])
        if table is None:
            if not listed:
                return True
            schema = Schema.from_arrow(_arrow_schema(listed[0][1], where))
            create_table_with_add_actions(where, schema, added, mode="error", commit_properties=properties)
        else:
            table.create_write_transaction(added, "append", table.schema(), commit_properties=properties)
        files.forget_others()
        failpoints.reached("after sink")
        return True


def _arrow_schema(file: str, near: str) -> Any:
    return pq.read_schema(file, filesystem=file_system(near)[0])


class IcebergBatchSink:
    """`path` is the warehouse; the catalog is an SQLite file in it, or what `catalog` describes to pyiceberg."""

    def __init__(self, path: str, table: str = ICEBERG_TABLE, catalog: dict[str, str] | None = None) -> None:
        self._path = path
        self._table = table
        self._catalog = catalog

    def write(self, df: DataFrame, app: str, batch_id: int) -> bool:
        catalog = open_catalog(self._path, self._catalog)
        known = catalog.table_exists(self._table)
        table = catalog.load_table(self._table) if known else None
        if table is not None and batch_id <= last_batch(table, app):
            return False
        files = FilesOfBatch(f"{self._path.rstrip('/')}/{self._table.replace('.', '/')}", app, batch_id)
        files.write(df)
        failpoints.reached("between files and table")
        listed = list(files.listed())
        if table is None:
            if not listed:
                return True
            namespace = self._table.rpartition(".")[0]
            catalog.create_namespace_if_not_exists(namespace)
            table = catalog.create_table(self._table, _arrow_schema(listed[0][1], self._path))
        if listed:
            prefix = "" if "://" in self._path else "file://"
            table.add_files([prefix + path for _, path, _, _, _ in listed],
                            snapshot_properties={_APP: app, _BATCH: str(batch_id)})  # fmt: skip
            files.forget_others()
        failpoints.reached("after sink")
        return True


def open_catalog(path: str, described: dict[str, str] | None = None) -> Any:
    from pyiceberg.catalog import load_catalog

    if described is not None:
        return load_catalog("lior", **described)
    if "://" in path:
        raise BadConfiguration("a warehouse that is no local directory needs a catalog", where=path,
                               remedy="describe one under [ingest.catalog], as pyiceberg wants it")
    where = os.path.abspath(path)
    os.makedirs(where, exist_ok=True)
    return load_catalog("lior", type="sql", uri=f"sqlite:///{where}/catalog.db", warehouse=f"file://{where}")


def last_batch(table: Any, app: str) -> int:
    """The newest snapshot of the app says how far it came; -1 if there is none."""
    for snapshot in reversed(table.metadata.snapshots):
        said = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if said.get(_APP) == app:
            return int(said[_BATCH])
    return -1


def sink_for(kind: str, path: str, catalog: dict[str, str] | None = None) -> BatchSink:
    if kind == "parquet":
        return ParquetBatchSink(f"{path.rstrip('/')}/messages")
    if kind == "archive":
        return ArchiveSink(f"{path.rstrip('/')}/messages")
    if kind == "delta":
        return DeltaBatchSink(f"{path.rstrip('/')}/messages")
    if kind == "iceberg":
        return IcebergBatchSink(path, catalog=catalog)
    raise BadConfiguration(f"{kind!r:.60} is no format", where="format", remedy=f"use {', '.join(FORMATS)}")
