"""What becomes of each message, told to whoever keeps a record of it.

A port, not events: these calls come for every message, and an event object that nobody else wants costs more than
the rest of the record. All of them come after the commit of what they tell, so that a record never lies. An
implementation must not raise and must not call back into the queue manager.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from lior.message import Message, ObjectId
from lior.queues.position import Position
from lior.queues.queue import Queue


class Fate(IntEnum):
    """What a record keeps as numbers: never change one."""

    ARRIVED = 1
    ARRIVED_EXPRESS = 2  # in memory only: it ends with the queue manager
    REMOVED = 3
    REFUSED = 4
    MOVED = 5
    GIVEN_BACK = 6
    DROPPED = 7
    HANDED = 8
    DELIVERED = 9
    CONFIRMED = 10


class Told(Protocol):
    """What a record wants to know of a message."""

    @property
    def identifier(self) -> ObjectId | None: ...

    @property
    def label(self) -> str: ...

    @property
    def correlation_id(self) -> bytes: ...


class Removed(Protocol):
    """A position, or what is left of one."""

    @property
    def queue(self) -> Queue: ...

    @property
    def lookup_id(self) -> int: ...

    @property
    def message(self) -> Told: ...


class Fates(Protocol):
    def arrived(self, position: Position) -> None:
        """A new message is in its queue: sent, come from elsewhere, or a copy for a journal or the dead letters."""
        ...

    def arrived_all(self, positions: Sequence[Position]) -> None:
        """As `arrived` for each."""
        ...

    def removed_all(self, positions: Sequence[Removed], reason: int) -> None:
        """As `removed` for each."""
        ...

    def handed_all(self, positions: Sequence[Position], hop: str) -> None:
        """As `handed` for each."""
        ...

    def removed(self, position: Position, reason: int) -> None:
        """It left its queue; `reason` is a message class ([MS-MQDMPR] 3.1.7.2.1)."""
        ...

    def refused(self, queue: Queue | None, message: Message, reason: int) -> None:
        """It never got into the queue, or there is no such queue."""
        ...

    def moved(self, position: Position, moved: Position) -> None:
        """From a queue to one of its subqueues, or back."""
        ...

    def given_back(self, position: Position) -> None:
        """The transaction that had received it was aborted."""
        ...

    def dropped(self, message: Message, where: str, why: str) -> None:
        """A copy, or an acknowledgement, that could not be kept."""
        ...

    def handed(self, position: Position, hop: str) -> None:
        """Written to the connection with the next hop. The next hop has it when it is removed."""
        ...

    def delivered(self, position: Position) -> None:
        """Its stream was acknowledged up to here; what became of it there is yet to be told."""
        ...

    def confirmed(self, identifier: ObjectId, reason: int) -> None:
        """Its final acknowledgement came: received, or what failed. Or none came in time."""
        ...
