"""`format("msmq-capture")`: captures of networks, files of packets and SRMP archives, as messages, packets, sessions or
acknowledgements."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lior.client.capture import PORT, Captured, archived, captured, stored
from lior.client.conversations import Session, acknowledgements, sessions
from lior.client.message_rows import batch_of
from lior.client.srmp_archive import HTTP_PORT
from lior.errors import BadConfiguration
from lior.spark.options import _Options, missing, one_of
from lior.spark.schema import MESSAGES

_STRING, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
_WHEN, _BYTES, _FLAG = pa.timestamp("us", tz="UTC"), pa.binary(), pa.bool_()
TABLES: Final = {  # those that have columns of their own
    "packets": pa.schema([
        ("captured_at", _WHEN), ("source", _STRING), ("target", _STRING), ("kind", _STRING), ("size", _LONG),
        ("message_id", _STRING), ("message_class", _INT), ("packet", _BYTES), ("_error", _STRING)]),
    "sessions": pa.schema([
        ("client", _STRING), ("server", _STRING), ("transport", _STRING), ("began_at", _WHEN), ("ended_at", _WHEN),
        ("client_qm", _STRING), ("server_qm", _STRING), ("window_size", _INT), ("packets", _LONG), ("messages", _LONG),
        ("acknowledgements", _LONG), ("damaged", _LONG), ("bytes", _LONG), ("refused", _FLAG)]),
    "acknowledgements": pa.schema([
        ("captured_at", _WHEN), ("source", _STRING), ("target", _STRING), ("kind", _STRING), ("message_id", _STRING),
        ("message_class", _INT), ("reason", _STRING), ("queue", _STRING), ("acknowledged", _INT),
        ("recoverable", _INT), ("flags", _LONG), ("_error", _STRING)]),
}  # fmt: skip
KINDS: Final = ("capture", "packets", "srmp")
ROWS: Final = 2048
T = TypeVar("T")


@dataclass(frozen=True)
class CaptureOptions(_Options):
    files: str = ""  # a file, a directory or a pattern; several by comma
    table: str = "messages"
    kind: str = "capture"
    port: int = PORT
    http_port: int = HTTP_PORT
    joined: bool = True  # the files are one capture that was cut

    def checked(self) -> CaptureOptions:
        self.check()
        return self

    def check(self) -> None:
        if not self.files:
            raise missing("files", "capture files: a path, a directory or a pattern")
        one_of("table", self.table, ("messages", *TABLES))
        one_of("kind", self.kind, KINDS)

    def paths(self) -> list[str]:
        found: list[str] = []
        for text in self.files.split(","):
            pattern = os.path.join(text.strip(), "*") if os.path.isdir(text.strip()) else text.strip()
            found += sorted(each for each in glob.glob(pattern) if os.path.isfile(each))
        if not found:
            raise BadConfiguration("there is no such file", where=self.files, remedy="check the option files")
        return found


@dataclass
class Files(InputPartition):
    paths: list[str]


class MsmqCaptureSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "msmq-capture"

    def _options(self) -> CaptureOptions:
        given = {str(name): str(value) for name, value in self.options.items()}
        path = next((value for name, value in given.items() if name.casefold() == "path"), "")
        return CaptureOptions.parse({"files": path} | given if path else given)

    def schema(self) -> StructType:
        table = self._options().table
        return MESSAGES if table == "messages" else from_arrow_schema(TABLES[table])

    def reader(self, schema: StructType) -> DataSourceReader:
        return CaptureReader(self._options())


class CaptureReader(DataSourceReader):
    def __init__(self, options: CaptureOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        paths = self._options.paths()
        return [Files(paths)] if self._options.joined else [Files([path]) for path in paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        options = self._options
        every = self._found(partition.paths)
        if options.table == "messages":
            yield from map(messages_of, chunks(each for each in every if each.message is not None))
            return
        rows: Iterator[dict[str, Any]] = map(_packet, every)
        if options.table == "sessions":
            rows = map(_session, sessions(every))
        elif options.table == "acknowledgements":
            rows = acknowledgements(every)
        for some in chunks(rows):
            yield pa.RecordBatch.from_pylist(some, TABLES[options.table])

    def _found(self, paths: list[str]) -> Iterator[Captured]:
        if self._options.kind == "capture":
            return captured(paths, self._options.port, self._options.http_port)
        return stored(paths) if self._options.kind == "packets" else archived(paths)


def chunks(every: Iterable[T]) -> Iterator[list[T]]:
    given = iter(every)
    while some := list(islice(given, ROWS)):
        yield some


def messages_of(found: list[Captured]) -> pa.RecordBatch:
    """`queue` is the destination: nobody knows more of a queue that was only seen on the way."""
    messages = [each.message for each in found if each.message is not None]
    batch = batch_of(messages, "", MESSAGES.fieldNames())
    at = batch.schema.get_field_index("queue")
    queues = pa.array([message.destination_queue for message in messages], pa.string())
    return batch.set_column(at, batch.schema.field(at), queues)


def _packet(each: Captured) -> dict[str, Any]:
    message = each.message
    return {"captured_at": round(each.time * 1e6), "source": each.source, "target": each.target, "kind": each.kind,
            "size": len(each.packet), "packet": each.packet, "_error": each.error,
            "message_id": None if message is None else str(message.identifier),
            "message_class": None if message is None else message.message_class}  # fmt: skip


def _session(each: Session) -> dict[str, Any]:
    names = ("client", "server", "transport", "window_size", "packets", "messages", "acknowledgements", "damaged",
             "bytes", "refused")  # fmt: skip
    return {name: getattr(each, name) for name in names} | {
        "began_at": round(each.began * 1e6), "ended_at": round(each.ended * 1e6),
        "client_qm": None if each.client_qm is None else str(each.client_qm),
        "server_qm": None if each.server_qm is None else str(each.server_qm)}  # fmt: skip
