"""A broker in memory with the rules of the claim log, for tests of the reader without a queue manager."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pyarrow as pa

from lior.client.message_rows import batch_of
from lior.errors import ClaimFenced, InvalidParameter, MessageNotFound
from lior.message import Message
from lior.spark.broker import Position


class MemoryBroker:
    """One queue, one subscription."""

    def __init__(self) -> None:
        self.waiting: list[Message] = []
        self.claimed: dict[int, Message] = {}
        self.received: list[Message] = []
        self._epochs = count(1)
        self._arrivals = count(1)
        self._epoch = ""
        self._last = self._released = 0

    def send(self, body: bytes, priority: int = 3) -> None:
        number = next(self._arrivals)
        self.waiting.append(Message(body, priority=priority, lookup_identifier=(7 - priority) << 56 | number))
        self.waiting.sort(key=lambda message: message.lookup_identifier)

    def position(self, subscription: str) -> Position | None:
        return Position(self._epoch, self._last, self._released, len(self.waiting)) if self._epoch else None

    def subscribe(self, subscription: str, queues: Sequence[str], takeover: bool, claim_timeout: float) -> Position:
        if self._epoch and not takeover:
            raise ClaimFenced("the subscription has a reader already", where=subscription)
        self._epoch = f"epoch {next(self._epochs)}"
        return Position(self._epoch, self._last, self._released, len(self.waiting))

    def depth(self, queues: Sequence[str]) -> int:
        return len(self.waiting)

    def _fenced(self, subscription: str, epoch: str) -> None:
        if epoch != self._epoch:
            raise ClaimFenced("another reader has taken over", where=subscription)

    def claim(self, subscription: str, epoch: str, start: int, max_rows: int, max_bytes: int) -> int:
        self._fenced(subscription, epoch)
        if not self._released <= start <= self._last:
            raise InvalidParameter("no such ordinal", where=subscription)
        if start == self._last:
            size = 0
            while self.waiting and self._last - start < max_rows and size < max_bytes:
                self._last += 1
                self.claimed[self._last] = self.waiting.pop(0)
                size += self.claimed[self._last].size
        return self._last

    def claimed_behind(self, subscription: str, start: int) -> int:
        return self._last - start

    def epoch_of(self, epoch: str, start: int) -> str:
        return epoch

    def plan(self, subscription: str, start: int, end: int, parts: int, part_bytes: int) -> list[int]:
        step = max(1, -(-(end - start) // parts))
        return [*range(start + step, end, step), end]

    def fetch(
        self, subscription: str, epoch: str, low: int, high: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        self._fenced(subscription, epoch)
        if low < self._released or high > self._last:
            raise MessageNotFound("not claimed", where=subscription)
        yield batch_of([self.claimed[at] for at in range(low + 1, high + 1)], "memory", columns, low + 1)

    def release(self, subscription: str, epoch: str, ordinal: int, wait: bool = True) -> None:
        self._fenced(subscription, epoch)
        for at in range(self._released + 1, ordinal + 1):
            self.received.append(self.claimed.pop(at))
        self._released = max(self._released, ordinal)

    def close(self) -> None:
        pass
