"""Reading a queue as a stream. An offset is an ordinal of the claim log; executors only look at claimed ranges, and the
driver releases a range when Spark has written down that the batch is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from lior.errors import ClaimBusy, ClaimFenced, InvalidParameter, MessageNotFound
from lior.spark import failpoints
from lior.spark.broker import Broker, Position
from lior.spark.connecting import broker_for
from lior.spark.malformed import filtered
from lior.spark.offsets import ClaimOffset
from lior.spark.options import ReadOptions

BUSY_SECONDS: Final = 60.0  # for which another call on the subscription may be under way
T = TypeVar("T")


@dataclass
class ClaimRange(InputPartition):
    """Ordinals above `low` up to `high`."""

    epoch: str
    low: int
    high: int


class MsmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._name = options.subscription
        self._broker: Broker | None = None
        self._epoch = ""
        self._waiting: int | None = None  # messages at the beginning of a run that ends with those
        self._target: int | None = None  # the ordinal with which that run ends
        self._end = 0  # the last ordinal claimed
        self._waiting_since: float | None = None
        self._released = 0  # by this reader
        self._unfinished = False  # messages of a release may still be on their way out

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_broker": None}

    @property
    def broker(self) -> Broker:
        if self._broker is None:
            self._broker = broker_for(self._options)
        return self._broker

    # Offsets, in the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The same whenever it is asked: Spark asks again to repeat a first batch. Nothing is claimed yet."""
        return ClaimOffset(self._name).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        position = self.broker.position(self._name)
        self._waiting = self.broker.depth(self._options.queue_names) if position is None else position.lag
        self._target = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Everything up to `start` is in the sink, and Spark has written that down: it is released here, because
        `commit` comes a batch later and never for the last one."""
        at = ClaimOffset.from_json(start, self._name)
        failpoints.reached("after commit file")
        if at.epoch:
            self._epoch = at.epoch
            self._release(at, wait=False)
        else:
            at = self._first(at)
        rows, size = self._limits(limit)
        if self._waiting is not None:
            if self._target is None:
                claimed = self.broker.claimed_behind(self._name, at.ordinal)
                self._target = at.ordinal + claimed + self._waiting
            rows = min(rows, self._target - at.ordinal)
        if rows <= 0 or self._should_wait(limit):
            return self._at_rest(at, start)
        end = self._patiently(lambda: self.broker.claim(self._name, self._epoch, at.ordinal, rows, size))
        failpoints.reached("after claim")
        self._end = end
        if end == at.ordinal:
            return self._at_rest(at, start)
        self._waiting_since = None
        return ClaimOffset(self._name, self.broker.epoch_of(self._epoch, at.ordinal), end).to_json()

    def _at_rest(self, at: ClaimOffset, start: dict[str, Any]) -> dict[str, Any]:
        """Nothing to read. A query may end now: what it has read is out of the queues before it does."""
        if at.epoch == self._epoch and self._unfinished:
            self._release(at, wait=True)
        return start

    def _first(self, at: ClaimOffset) -> ClaimOffset:
        """A checkpoint without a batch yet. Whoever claimed without ever releasing did not get to write it down, and
        is replaced; a reader that did stays, unless it is to be taken over."""
        if self._epoch:
            position = self.broker.position(self._name)
            if position is None or position.epoch != self._epoch:
                raise ClaimFenced("another reader has taken over the subscription", where=self._name,
                                  remedy="stop this query")
        else:
            position = self._subscribed(self.broker.position(self._name))
            self._epoch = position.epoch
        return ClaimOffset(self._name, self._epoch, position.released)

    def _subscribed(self, known: Position | None) -> Position:
        options = self._options
        takeover = known is not None and (options.starting_position == "takeover" or not known.released)
        try:
            return self._patiently(lambda: self.broker.subscribe(
                self._name, options.queue_names, takeover, options.claim_timeout))
        except ClaimFenced:
            if known is not None:
                raise
            # There was none a moment ago: the answer to our own call was lost, and it was made again
            known = self.broker.position(self._name)
            if known is None or known.released:
                raise
            return self._subscribed(known)

    def _limits(self, limit: ReadLimit) -> tuple[int, int]:
        """One limit comes at a time; ours go with it. A run that is to end still takes no more than fits a batch."""
        rows, size = self._options.max_messages_per_trigger, self._options.max_bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            rows = min(rows, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            size = min(size, limit.max_bytes)
        elif not isinstance(limit, ReadAllAvailable | ReadMinRows):
            raise InvalidParameter(f"a limit of the kind {type(limit).__name__}", where="limit")
        return rows, size

    def _should_wait(self, limit: ReadLimit) -> bool:
        """For more messages, unless it was long enough."""
        wanted = limit.min_rows if isinstance(limit, ReadMinRows) else self._options.min_messages_per_trigger
        if not wanted or self._waiting is not None:
            return False
        position = self.broker.position(self._name)
        if position is None or position.lag >= wanted:
            return False
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since < self._options.max_trigger_delay

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For progress: where it would stand with all that waits."""
        position = self.broker.position(self._name)
        if position is None:
            return None
        return ClaimOffset(self._name, position.epoch, max(position.last, self._end) + position.lag).to_json()

    def commit(self, end: dict[str, Any]) -> None:
        at = ClaimOffset.from_json(end, self._name)
        if at.epoch:
            self._release(at, wait=False)

    def _release(self, at: ClaimOffset, *, wait: bool) -> None:
        """Nobody needs to wait for the messages to go while there is a batch to read: they will."""
        if wait or at.ordinal > self._released:
            self._patiently(lambda: self.broker.release(self._name, at.epoch, at.ordinal, wait))
        self._released = max(self._released, at.ordinal)
        self._unfinished = not wait
        failpoints.reached("after release")

    def _patiently(self, call: Callable[[], T]) -> T:
        """An exception here would end the query: another call that is under way is waited for."""
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return call()
            except ClaimBusy:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    # Reading, planned in the driver and done in executors

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        failpoints.reached("after offset log")
        first = ClaimOffset.from_json(start, self._name)
        last = ClaimOffset.from_json(end, self._name)
        low = first.ordinal
        if not first.epoch:  # nothing of the first batch has been released, however often it is run
            position = self.broker.position(self._name)
            low = 0 if position is None else position.released
        if last.ordinal <= low:
            return []
        options = self._options
        ends = self.broker.plan(self._name, low, last.ordinal, options.min_partitions, options.max_bytes_per_partition)
        starts = [low, *ends[:-1]]
        return [ClaimRange(last.epoch, one, other) for one, other in zip(starts, ends, strict=True)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ClaimRange)
        options = self._options
        broker = broker_for(options)
        try:
            batches = broker.fetch(self._name, partition.epoch, partition.low, partition.high, options.column_names)
            rows = filtered(batches, options)
            if options.files_to:
                from lior.spark.files import written

                rows = written(rows, options.files_to, self._name, partition.low, partition.high)
            yield from rows
        except MessageNotFound:
            if options.fail_on_data_loss:
                raise
        finally:
            broker.close()
