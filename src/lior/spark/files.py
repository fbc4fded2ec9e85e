"""Files that tasks write by themselves: rows go from the queue manager into Parquet and never through the JVM.

A task of a stream with the option `filesTo` writes the messages of its range into one file, and its only row says where
that is. The driver, which gets these rows, moves the files of a batch to where they belong: all of them at once, by the
name of the batch, so that a batch that comes again finds itself there. Until then they lie in `filesTo`, named after
their ordinals: who reads a range again writes the same file again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from lior.errors import BadConfiguration
from lior.spark import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES: Final = pa.schema([
    ("file", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("low", pa.int64()), ("high", pa.int64()),
])  # fmt: skip
STAGED: Final = "_staged"  # readers of Parquet directories pass over names that begin so
GROUP_BYTES: Final = 32 << 20  # of Arrow in one row group
# Few values in many rows: worth a dictionary. Statistics of bodies would say nothing to anybody.
_FEW: Final = ("queue", "label", "destination", "admin_queue", "response_queue", "source_qm", "transport")
_UNCOUNTED: Final = frozenset({"body", "raw", "soap_envelope", "sender_cert", "signature", "extension"})


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    if "://" in path:
        system, base = fs.FileSystem.from_uri(path)
        return system, str(base)
    return fs.LocalFileSystem(), os.path.abspath(path)


def staged_of(path: str) -> str:
    """Where tasks write what becomes of this table or archive: the value of `filesTo`."""
    return f"{path.rstrip('/')}/{STAGED}"


# In a task


def written(batches: Iterable[pa.RecordBatch], directory: str, subscription: str, low: int, high: int,
            ) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Writes the file, and says so in one row; no row if there was nothing to write."""
    system, base = file_system(directory)
    name = f"{subscription}-{low:020}-{high:020}.parquet"
    part = f"{base}/.{name}.{uuid4().hex}"
    system.create_dir(base)
    try:
        rows = _write(batches, system, part)
        failpoints.reached("mid file")
        if not rows:
            return
        _sync(system, part)
        size = system.get_file_info(part).size
        system.move(part, f"{base}/{name}")
    except BaseException:
        with suppress(OSError):
            system.delete_file(part)
        raise
    yield pa.record_batch([[name], [rows], [size], [low], [high]], schema=FILES)


def _write(batches: Iterable[pa.RecordBatch], system: fs.FileSystem, path: str) -> int:
    writer: pq.ParquetWriter | None = None
    rows, held, size = 0, list[pa.RecordBatch](), 0
    try:
        for batch in batches:
            if writer is None:
                names = batch.schema.names
                writer = pq.ParquetWriter(path, batch.schema, filesystem=system, compression="snappy",
                                          use_dictionary=[name for name in _FEW if name in names],
                                          write_statistics=[name for name in names if name not in _UNCOUNTED])
            rows, size = rows + batch.num_rows, size + batch.nbytes
            held.append(batch)
            if size >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held))
                held, size = [], 0
        if writer is not None and held:
            writer.write_table(pa.Table.from_batches(held))
    finally:
        if writer is not None:
            writer.close()
    return rows


def _sync(system: fs.FileSystem, path: str) -> None:
    """What a task has written is soon released from its queue: it must outlast the computer, as far as we can tell."""
    if isinstance(system, fs.LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# In the driver


def is_of_files(df: DataFrame) -> bool:
    return list(df.columns) == list(FILES.names)


def collect(df: DataFrame, into: str, staged: str) -> list[str]:
    """Run the tasks, and put their files, and nothing else, into a directory; answers their names."""
    rows = df.collect()
    system, target = file_system(into)
    _, source = file_system(staged)
    names = [str(row["file"]) for row in rows]
    system.create_dir(target)
    for info in system.get_file_info(fs.FileSelector(target)):
        if info.is_file and info.base_name not in names:  # of a run that was cut otherwise
            system.delete_file(info.path)
    for name in names:
        system.move(f"{source}/{name}", f"{target}/{name}")
        failpoints.reached("between files")
    _forget(system, source, rows)
    return names


def _forget(system: fs.FileSystem, staged: str, rows: Sequence[Any]) -> None:
    """Files of runs that ended before their batch was taken: whoever committed it had others of the same ordinals."""
    ends: dict[str, int] = {}
    for row in rows:
        subscription, high = _named(str(row["file"]))
        ends[subscription] = max(ends.get(subscription, 0), high)
    for info in system.get_file_info(fs.FileSelector(staged)):
        subscription, high = _named(info.base_name)
        if info.is_file and high <= ends.get(subscription, -1):
            system.delete_file(info.path)


def _named(file: str) -> tuple[str, int]:
    """The subscription and the last ordinal; ("", 0) for what we did not name."""
    before, _, high = file.removesuffix(".parquet").rpartition("-")
    return (before.rpartition("-")[0], int(high)) if high.isdecimal() else ("", 0)


class ArchiveSink:
    """`path`/batch=.../, each directory there with all of its files or not at all. For streams whose `filesTo` is
    `staged_of(path)`, on a file system that renames directories; elsewhere the sinks of Delta and Iceberg do it."""

    def __init__(self, path: str) -> None:
        self._path = path.rstrip("/")
        if "://" in path and not path.startswith(("file:", "hdfs:", "viewfs:")):
            raise BadConfiguration("an archive needs a file system that renames directories", where=path,
                                   remedy="use the format delta or iceberg")

    def write(self, df: DataFrame, app: str, batch_id: int) -> bool:
        from lior.spark.sinks import key_of

        system, base = file_system(self._path)
        key = key_of(app, batch_id)
        final, work = f"{base}/batch={key}", f"{base}/{STAGED}/{key}"
        if system.get_file_info(final).type is not fs.FileType.NotFound:
            return False
        names = collect(df, f"{staged_of(self._path)}/{key}", staged_of(self._path))
        failpoints.reached("between files and table")
        if names:
            _sync(system, work)
            system.move(work, final)
            _sync(system, base)
        else:
            system.delete_dir(work)
        failpoints.reached("after sink")
        return True
