"""`format("msmq")`: queues as a source and a sink of Spark."""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from lior.errors import BadConfiguration, UnsupportedOperation
from lior.spark.options import ReadOptions, WriteOptions, missing

STREAMS_SINCE = (4, 2)


class MsmqDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "msmq"

    def schema(self) -> StructType:
        from lior.spark.schema import FILES, spark_schema  # Arrow, too: who looks for sources by name needs none

        options = ReadOptions.parse(given(self.options))
        return FILES if options.files_to else spark_schema(options.column_names)

    def reader(self, schema: StructType) -> DataSourceReader:
        from lior.spark.batch import batch_reader

        options = ReadOptions.parse(given(self.options))
        if options.files_to:
            raise BadConfiguration("a batch read claims nothing, so nothing says whose its files are", where="filesTo",
                                   remedy="use readStream, or write the rows with Spark")
        return batch_reader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if tuple(map(int, pyspark.__version__.split(".")[:2])) < STREAMS_SINCE:
            raise UnsupportedOperation(f"streams need pyspark 4.2; this is {pyspark.__version__}", where="msmq",
                                       remedy="install pyspark>=4.2, or read a batch")
        from lior.spark.stream import MsmqStreamReader

        options = ReadOptions.parse(given(self.options))
        if not options.subscription:
            raise missing("subscription", "a name under which the queue manager keeps what this stream has claimed")
        if options.read_mode != "claim":
            raise BadConfiguration("a stream claims what it reads", where="readMode",
                                   remedy="read a batch with readMode=peek")
        return MsmqStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lior.spark.writer import MsmqBatchWriter

        if overwrite:
            raise BadConfiguration("what is in a queue is not overwritten", where="msmq", remedy="use mode append")
        return MsmqBatchWriter(WriteOptions.parse(given(self.options)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from lior.spark.writer import MsmqStreamWriter

        options = WriteOptions.parse(given(self.options))
        if not options.writer_id:
            raise missing("writerId", "a name under which the queue manager keeps which batches this stream has sent")
        return MsmqStreamWriter(options)


def given(options: Any) -> dict[str, str]:
    """Spark's own mapping ignores case, and `dict` of it has the names as they were given."""
    return {str(name): str(value) for name, value in options.items()}
