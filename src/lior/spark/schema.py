"""The schema of messages, as Spark sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lior.client.bulk import arrow_schema
from lior.client.bulk import columns as bulk_columns

__all__ = ["FILES", "MESSAGES", "arrow_schema", "spark_schema"]

_TYPES: Final[dict[str, DataType]] = {
    "string": StringType(), "bigint": LongType(), "int": IntegerType(), "tinyint": ByteType(),
    "boolean": BooleanType(), "timestamp": TimestampType(), "binary": BinaryType(),
}  # fmt: skip


def spark_schema(columns: Sequence[str] | None = None) -> StructType:
    return StructType([StructField(name, _TYPES[kind]) for name, kind in bulk_columns(columns).items()])


MESSAGES: Final = spark_schema()
FILES: Final = StructType([  # what a stream with the option `filesTo` says of the files that its tasks wrote
    StructField("file", StringType()), StructField("rows", LongType()), StructField("bytes", LongType()),
    StructField("low", LongType()), StructField("high", LongType()),
])  # fmt: skip
