"""Writing to queues. Each task puts its messages aside; the driver publishes them together, once for each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from lior.errors import LiorError
from lior.spark import failpoints
from lior.spark.connecting import flight_for
from lior.spark.options import WriteOptions


@dataclass
class Staged(WriterCommitMessage):
    """What a task has put aside."""

    stage: str
    count: int


def put_aside(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Staged:
    """A task's rows; none at all if it has none."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Staged("", 0)
    broker = flight_for(options)

    def every() -> Iterator[pa.RecordBatch]:
        yield first
        for batch in batches:
            failpoints.reached("mid stage")
            yield batch

    try:
        answer = broker.bulk.stage(every(), first.schema, **options.defaults())
    finally:
        broker.close()
    return Staged(answer["stage"], answer["count"])


def publish(options: WriteOptions, writer: str, batch: int, messages: Sequence[WriterCommitMessage | None]) -> int:
    stages = [each.stage for each in messages if isinstance(each, Staged) and each.stage]
    failpoints.reached("before publish")
    broker = flight_for(options)
    try:
        sent = broker.bulk.publish(writer, batch, stages)
        failpoints.reached("after publish")
        return sent
    finally:
        broker.close()


def discard(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """What cannot be discarded now expires."""
    broker = flight_for(options)
    with suppress(LiorError):
        broker.bulk.discard([each.stage for each in messages if isinstance(each, Staged) and each.stage])
    broker.close()


class MsmqBatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._writer = options.writer_id or f"batch-{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return put_aside(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        publish(self._options, self._writer, 0, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        discard(self._options, messages)


class MsmqStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return put_aside(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        publish(self._options, self._options.writer_id, batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        discard(self._options, messages)
