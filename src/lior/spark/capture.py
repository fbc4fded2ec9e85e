"""`format("msmq-capture")`: captures of networks, and files of packets, as messages or as packets."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lior.client.capture import PORT, Captured, captured, stored
from lior.client.message_rows import batch_of
from lior.errors import BadConfiguration
from lior.spark.options import _Options, missing, one_of
from lior.spark.schema import MESSAGES

PACKETS: Final = StructType([
    StructField("captured_at", TimestampType()), StructField("source", StringType()),
    StructField("target", StringType()), StructField("kind", StringType()), StructField("size", LongType()),
    StructField("message_id", StringType()), StructField("message_class", IntegerType()),
    StructField("packet", BinaryType()), StructField("_error", StringType()),
])  # fmt: skip
_ARROW: Final = pa.schema([
    ("captured_at", pa.timestamp("us", tz="UTC")), ("source", pa.string()), ("target", pa.string()),
    ("kind", pa.string()), ("size", pa.int64()), ("message_id", pa.string()), ("message_class", pa.int32()),
    ("packet", pa.binary()), ("_error", pa.string()),
])  # fmt: skip
ROWS: Final = 2048


@dataclass(frozen=True)
class CaptureOptions(_Options):
    files: str = ""  # a file, a directory or a pattern; several by comma
    table: str = "messages"
    kind: str = "capture"
    port: int = PORT
    joined: bool = True  # the files are one capture that was cut

    def checked(self) -> CaptureOptions:
        self.check()
        return self

    def check(self) -> None:
        if not self.files:
            raise missing("files", "capture files: a path, a directory or a pattern")
        one_of("table", self.table, ("messages", "packets"))
        one_of("kind", self.kind, ("capture", "packets"))

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
        return MESSAGES if self._options().table == "messages" else PACKETS

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
        every = captured(partition.paths, options.port) if options.kind == "capture" else stored(partition.paths)
        if options.table == "messages":
            every = (each for each in every if each.message is not None)
        while some := list(islice(every, ROWS)):
            yield messages_of(some) if options.table == "messages" else packets_of(some)


def messages_of(found: list[Captured]) -> pa.RecordBatch:
    """`queue` is the destination: nobody knows more of a queue that was only seen on the way."""
    messages = [each.message for each in found if each.message is not None]
    batch = batch_of(messages, "", MESSAGES.fieldNames())
    at = batch.schema.get_field_index("queue")
    queues = pa.array([message.destination_queue for message in messages], pa.string())
    return batch.set_column(at, batch.schema.field(at), queues)


def packets_of(found: list[Captured]) -> pa.RecordBatch:
    def row(each: Captured) -> dict[str, Any]:
        message = each.message
        return {"captured_at": round(each.time * 1e6), "source": each.source, "target": each.target, "kind": each.kind,
                "size": len(each.packet), "packet": each.packet, "_error": each.error,
                "message_id": None if message is None else str(message.identifier),
                "message_class": None if message is None else message.message_class}  # fmt: skip

    return pa.RecordBatch.from_pylist([row(each) for each in found], _ARROW)
