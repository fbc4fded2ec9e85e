"""Reading queues as they stand, without claiming anything: journals and dead letters, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from lior.spark.connecting import flight_for
from lior.spark.malformed import filtered
from lior.spark.options import ReadOptions

HIGHEST = (1 << 63) - 1


@dataclass
class LookupRange(InputPartition):
    """Lookup ids above `after` up to `to` of one queue."""

    queue: str
    after: int
    to: int


class MsmqBatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._queues = options.queue_names
        self._priorities = range(8)
        self._after, self._to = 0, HIGHEST

    def partitions(self) -> Sequence[InputPartition]:
        """One for each queue, or with minPartitions one for each priority of each: its high byte is 7 - priority."""
        apart = self._options.min_partitions > len(self._queues) or len(self._priorities) < 8
        found: list[InputPartition] = []
        for queue in self._queues:
            ranges = [(0, HIGHEST)]
            if apart:
                ranges = [((7 - each) << 56, ((8 - each) << 56) - 1) for each in sorted(self._priorities, reverse=True)]
            for after, to in ranges:
                low, high = max(after, self._after), min(to, self._to)
                if low < high:
                    found.append(LookupRange(queue, low, high))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LookupRange)
        broker = flight_for(self._options)
        try:
            batches = broker.bulk.peek(partition.queue, self._options.column_names, after=partition.after,
                                       to=partition.to)  # fmt: skip
            yield from filtered(batches, self._options)
        finally:
            broker.close()


class FilteringBatchReader(MsmqBatchReader):
    """A class of its own: Spark refuses every read of a reader with `pushFilters` unless its setting
    spark.sql.python.filterPushdown.enabled is on."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for each in filters:
            if not self._take(each):
                yield each

    def _take(self, wanted: Filter) -> bool:
        attribute, value = getattr(wanted, "attribute", ()), getattr(wanted, "value", None)
        if attribute == ("lookup_id",) and isinstance(value, int):
            return self._take_lookup_id(wanted, value)
        if attribute == ("priority",) and isinstance(wanted, EqualTo | In):
            values = {value} if isinstance(wanted, EqualTo) else set(value or ())
            self._priorities = [each for each in self._priorities if each in values]  # type: ignore[assignment]
            return True
        if attribute == ("queue",) and isinstance(wanted, EqualTo | In):
            names = {value} if isinstance(wanted, EqualTo) else set(value or ())
            plain = {str(name).casefold() for name in names}
            self._queues = tuple(name for name in self._queues if name.removeprefix(".\\").casefold() in plain)
            return False  # names have more than one spelling: Spark looks, too
        return False

    def _take_lookup_id(self, wanted: Filter, value: int) -> bool:
        if isinstance(wanted, EqualTo | GreaterThanOrEqual):
            self._after = max(self._after, value - 1)
        if isinstance(wanted, EqualTo | LessThanOrEqual):
            self._to = min(self._to, value)
        if isinstance(wanted, GreaterThan):
            self._after = max(self._after, value)
        if isinstance(wanted, LessThan):
            self._to = min(self._to, value - 1)
        return isinstance(wanted, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual)


def batch_reader(options: ReadOptions, schema: Any) -> MsmqBatchReader:
    options = replace(options, columns=",".join(schema.fieldNames()), include_raw=False)
    return FilteringBatchReader(options) if options.push_down_predicate else MsmqBatchReader(options)
