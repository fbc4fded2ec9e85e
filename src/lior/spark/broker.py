"""The queue manager as source and sink see it: the calls of a claim log, over whatever the queue manager offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lior.client.bulk import Bulk


@dataclass(frozen=True)
class Position:
    """Where a subscription stands."""

    epoch: str
    last: int
    released: int
    lag: int


class Broker(Protocol):
    def position(self, subscription: str) -> Position | None: ...
    def subscribe(self, subscription: str, queues: Sequence[str], takeover: bool, claim_timeout: float) -> Position: ...
    def depth(self, queues: Sequence[str]) -> int: ...
    def claim(self, subscription: str, epoch: str, start: int, max_rows: int, max_bytes: int) -> int: ...
    def claimed_behind(self, subscription: str, start: int) -> int:
        """How many an earlier attempt has claimed behind `start`."""
        ...

    def epoch_of(self, epoch: str, start: int) -> str:
        """What the offset of a batch that begins behind `start` says as its epoch."""
        ...

    def plan(self, subscription: str, start: int, end: int, parts: int, part_bytes: int) -> list[int]: ...
    def fetch(
        self, subscription: str, epoch: str, low: int, high: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]: ...
    def release(self, subscription: str, epoch: str, ordinal: int, wait: bool = True) -> None:
        """Without `wait` it is enough that what is released will be gone."""
        ...

    def close(self) -> None: ...


class FlightBroker:
    """Our own queue manager: everything over its bulk port."""

    def __init__(self, address: str, credentials_file: str = "", ca_file: str = "", patience: float = 60.0) -> None:
        self.bulk = Bulk(address, credentials_file, ca_file, patience)

    def position(self, subscription: str) -> Position | None:
        for each in self.bulk.subscriptions():
            if each["name"].casefold() == subscription.casefold():
                return _position(each)
        return None

    def subscribe(self, subscription: str, queues: Sequence[str], takeover: bool, claim_timeout: float) -> Position:
        names = [path_name(queue) for queue in queues]
        options = {"claim_timeout": claim_timeout} if claim_timeout else {}
        return _position(self.bulk.call("subscribe", name=subscription, queues=names, takeover=takeover,
                                        options=options))  # fmt: skip

    def depth(self, queues: Sequence[str]) -> int:
        return sum(int(self.bulk.call("queue", name=path_name(queue))["messages"]) for queue in queues)

    def claim(self, subscription: str, epoch: str, start: int, max_rows: int, max_bytes: int) -> int:
        return int(self.bulk.call("claim", name=subscription, epoch=epoch, start=start, max_rows=max_rows,
                                  max_bytes=max_bytes))  # fmt: skip

    def claimed_behind(self, subscription: str, start: int) -> int:
        position = self.position(subscription)
        return 0 if position is None else max(0, position.last - start)

    def epoch_of(self, epoch: str, start: int) -> str:
        return epoch

    def plan(self, subscription: str, start: int, end: int, parts: int, part_bytes: int) -> list[int]:
        ends: list[int] = self.bulk.call("plan", name=subscription, start=start, end=end, parts=parts,
                                         part_bytes=part_bytes)  # fmt: skip
        return ends

    def fetch(
        self, subscription: str, epoch: str, low: int, high: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        return self.bulk.fetch(subscription, epoch, low, high, columns)

    def release(self, subscription: str, epoch: str, ordinal: int, wait: bool = True) -> None:
        self.bulk.call("release", name=subscription, epoch=epoch, ordinal=ordinal, wait=wait)

    def reject(self, subscription: str, epoch: str, ordinals: Iterable[int]) -> int:
        return int(self.bulk.call("reject_claimed", name=subscription, epoch=epoch, ordinals=list(ordinals)))

    def close(self) -> None:
        self.bulk.close()


def _position(said: dict[str, Any]) -> Position:
    return Position(said["epoch"], said["last"], said["released"], said["lag"])


def path_name(queue: str) -> str:
    """`private$\\orders` as the path name that opens it; other names as they are."""
    return queue if "=" in queue or queue.startswith(".\\") else f".\\{queue}"
