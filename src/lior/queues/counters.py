"""Numbers that never repeat, across crashes too: reserved in blocks that are durable before use."""

from typing import Final

from lior.queues.change import Change
from lior.queues.ports import COUNTER, PutState

ORDINALS: Final = "ordinal"  # of message identifiers
BLOCK: Final = 1 << 16


class Counter:
    """[MS-MQDMPR] 3.1.1.1 SequentialID and the ordinals of message identifiers.

    Numbers below `reserved` may be used at once. `next` starts a new reservation when half a block is
    left, and when a number is beyond what is on disk it makes the caller's change carry the reservation.
    """

    __slots__ = ("_asked", "_last", "mask", "name", "reserved")

    def __init__(self, name: str, reserved: int, bits: int) -> None:
        self.name = name
        self.reserved = reserved  # on disk: after a crash the count goes on from here
        self._asked = reserved
        self._last = reserved
        self.mask = (1 << bits) - 1

    @property
    def last(self) -> int:
        return self._last

    def reserve(self, change: Change) -> None:
        """Add the reservation of one more block to a change."""
        self._asked += BLOCK
        self._carry(change)

    def _carry(self, change: Change) -> None:
        change.operations.append(PutState(COUNTER, self.name, self._asked.to_bytes(16, "little")))
        change.then(self._granted, self._asked)
        change.otherwise(self._lost)

    def give_back(self, change: Change) -> None:
        """At a clean stop: what is left of the reservation is not burnt. The 32 bits of ordinals would be
        gone after 65536 starts."""
        change.operations.append(PutState(COUNTER, self.name, self._last.to_bytes(16, "little")))

    def _granted(self, limit: int) -> None:
        self.reserved = max(self.reserved, limit)
        self._asked = max(self._asked, limit)

    def _lost(self) -> None:
        self._asked = self.reserved

    def wants_reservation(self) -> bool:
        return self._asked - self._last < BLOCK // 2

    def next(self, change: Change) -> int:
        self._last = last = self._last + 1
        if last > self.reserved:
            if last > self._asked:
                self._asked += BLOCK
            self._carry(change)  # one that asked for it before may fail, and this one not
            change.ordered = True
        return last & self.mask


    def take(self, change: Change, count: int) -> range:
        """As `next`, that many at once: they may pass the mask, which whoever uses them applies."""
        first = self._last + 1
        self._last = last = self._last + count
        if last > self.reserved:
            while last > self._asked:
                self._asked += BLOCK
            self._carry(change)
            change.ordered = True
        return range(first, last + 1)


def stored_limit(value: bytes | None) -> int:
    return 0 if value is None else int.from_bytes(value, "little")
