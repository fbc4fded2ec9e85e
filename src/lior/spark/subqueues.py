"""Queue managers without a claim log, such as Windows: their own claim is the subqueue.

A batch that begins behind the count S moves its messages to `queue;lior_<subscription>_<S>`. What is in there is the
batch, whatever happens to whoever moved it: membership, not position, so that priorities do no harm. Releasing it is
receiving it. An offset's epoch is S. Messages in a subqueue may still expire; one partition reads it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import lior
from lior.client.message_rows import batch_of
from lior.client.target import is_directory
from lior.errors import BadConfiguration, InvalidParameter, MessageLocked, MessageNotFound, QueueNotFound, Timeout
from lior.spark.broker import Position, path_name

EPOCH: Final = "subqueues"
LONGEST_NAME: Final = 31  # characters of a subqueue's name, [MS-MQMQ] 2.1.2
ROWS: Final = 512
_GONE: Final = (MessageNotFound, MessageLocked)


class SubqueueBroker:
    def __init__(self, address: str, queues: Sequence[str], credentials_file: str = "") -> None:
        self._address = address
        self._queues = [path_name(queue) for queue in queues]
        self._credentials_file = credentials_file
        self._manager: Any = None
        self._transactional: dict[str, bool] = {}

    def _connected(self) -> Any:
        if self._manager is None:
            self._manager = lior.connect(self._address, **self._as_whom())
        return self._manager

    def _as_whom(self) -> dict[str, str]:
        if not self._credentials_file:
            if not is_directory(self._address):
                raise BadConfiguration("no credentials", where=self._address,
                                       remedy="give credentialsFile: a file with a line user:password")
            return {}
        user, _, password = Path(self._credentials_file).read_text(encoding="utf-8").strip().partition(":")
        return {"user": user, "password": password}

    def close(self) -> None:
        if self._manager is not None:
            self._manager.close()
            self._manager = None

    def position(self, subscription: str) -> Position | None:
        return Position(EPOCH, 0, 0, self.depth(self._queues))

    def subscribe(self, subscription: str, queues: Sequence[str], takeover: bool, claim_timeout: float) -> Position:
        subqueue_of(subscription, 0)
        return Position(EPOCH, 0, 0, self.depth(self._queues))

    def depth(self, queues: Sequence[str]) -> int:
        return sum(int(self._connected().queue(path_name(queue)).messages) for queue in queues)

    def epoch_of(self, epoch: str, start: int) -> str:
        return str(start)

    def claimed_behind(self, subscription: str, start: int) -> int:
        name = subqueue_of(subscription, start)
        return sum(self._count(f"{queue};{name}") for queue in self._queues)

    def claim(self, subscription: str, epoch: str, start: int, max_rows: int, max_bytes: int) -> int:
        """What an earlier attempt has moved is the batch, and nothing is added to it."""
        name = subqueue_of(subscription, start)
        there = self.claimed_behind(subscription, start)
        if there:
            return start + there
        moved, size = 0, 0
        for queue in self._queues:
            with self._connected().open_queue(queue) as opened:
                for message in opened:
                    if moved >= max_rows or size >= max_bytes:
                        return start + moved
                    with suppress(*_GONE):  # somebody else was quicker
                        self._move(opened, queue, message.lookup_identifier, name)
                        moved, size = moved + 1, size + message.size
        return start + moved

    def _is_transactional(self, queue: str) -> bool:
        """A subqueue is as its queue, of which alone one may ask."""
        if queue not in self._transactional:
            self._transactional[queue] = bool(self._connected().queue(queue).transactional)
        return self._transactional[queue]

    def _move(self, opened: Any, queue: str, lookup_id: int, name: str) -> None:
        if not self._is_transactional(queue):
            opened.move(lookup_id, name)
            return
        with self._connected().transaction() as transaction:
            opened.move(lookup_id, name, transaction=transaction)

    def _count(self, subqueue: str) -> int:
        try:
            with self._connected().open_queue(subqueue) as opened:
                return sum(1 for _ in opened)
        except QueueNotFound:
            return 0

    def plan(self, subscription: str, start: int, end: int, parts: int, part_bytes: int) -> list[int]:
        return [end]

    def fetch(
        self, subscription: str, epoch: str, low: int, high: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        name, ordinal = subqueue_of(subscription, int(epoch)), low + 1
        for queue in self._queues:
            some: list[Any] = []
            for message in self._messages(f"{queue};{name}"):
                some.append(message)
                if len(some) == ROWS:
                    yield batch_of(some, queue.removeprefix(".\\"), columns, ordinal)
                    ordinal, some = ordinal + len(some), []
            if some:
                yield batch_of(some, queue.removeprefix(".\\"), columns, ordinal)
                ordinal += len(some)

    def _messages(self, subqueue: str) -> Iterator[Any]:
        with suppress(QueueNotFound), self._connected().open_queue(subqueue) as opened:
            yield from opened

    def release(self, subscription: str, epoch: str, ordinal: int, wait: bool = True) -> None:
        name = subqueue_of(subscription, int(epoch))
        for queue in self._queues:
            with suppress(QueueNotFound, Timeout), self._connected().open_queue(f"{queue};{name}") as opened:
                while True:
                    self._receive(opened, queue)

    def _receive(self, opened: Any, queue: str) -> None:
        if not self._is_transactional(queue):
            opened.receive(timeout=0)
            return
        with self._connected().transaction() as transaction:
            opened.receive(timeout=0, transaction=transaction)


def subqueue_of(subscription: str, start: int) -> str:
    name = f"lior_{subscription}_{start}"
    if len(name) > LONGEST_NAME:
        raise InvalidParameter(f"{subscription} is too long for the name of a subqueue", where="subscription",
                               remedy="use at most 14 characters with a queue manager that has no claim log")
    return name
