"""A slot of a queue that holds a message ([MS-MQDMPR] 3.1.1.11), and the states it goes through.

A recoverable message that nobody touches has no Position in memory: its lookup id in the index stands for
one that is Available. A Position is made when a message is new, express, locked or held in the cache.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from lior.message import Message

if TYPE_CHECKING:
    from lior.queues.queue import Queue


class State(Enum):
    STAGED = "staged"  # in a change that is not committed yet: nobody sees it
    AVAILABLE = "available"
    CLAIMED = "claimed"  # by a subscription: out of sight, over restarts too
    LOCKED = "locked"  # by a transaction, a two-phase read or a removal under way
    PURGE_PENDING = "purge pending"  # purged while locked
    DELETED = "deleted"

    __hash__ = object.__hash__  # Enum's own is Python code, and a step looks two of them up


class Step(Enum):
    """What happens to a position."""

    PUBLISH = "publish"  # its change committed
    CLAIM = "claim"
    LOCK = "lock"
    RELEASE = "release"  # abort, or the end of a two-phase read that keeps the message
    PURGE = "purge"  # while locked
    DELETE = "delete"

    __hash__ = object.__hash__


# (state, step) -> state; what is absent is an error.
TRANSITIONS: Final[dict[tuple[State, Step], State]] = {
    (State.STAGED, Step.PUBLISH): State.AVAILABLE,
    (State.STAGED, Step.DELETE): State.DELETED,
    (State.AVAILABLE, Step.LOCK): State.LOCKED,
    (State.AVAILABLE, Step.CLAIM): State.CLAIMED,
    (State.CLAIMED, Step.RELEASE): State.AVAILABLE,
    (State.CLAIMED, Step.DELETE): State.DELETED,
    (State.LOCKED, Step.RELEASE): State.AVAILABLE,
    (State.LOCKED, Step.PURGE): State.PURGE_PENDING,
    (State.LOCKED, Step.DELETE): State.DELETED,
    (State.PURGE_PENDING, Step.PURGE): State.PURGE_PENDING,
    (State.PURGE_PENDING, Step.DELETE): State.DELETED,
}


class IllegalStep(AssertionError):
    """A position was asked for a step that its state does not have: a defect of the queue manager."""


def step_all(positions: Sequence["Position"], before: State, step: Step, owner: object = None) -> None:
    """The same step of many that are in the same state, as a rule."""
    after = TRANSITIONS[before, step]
    for position in positions:
        if position.state is before:
            position.state = after
        else:
            position.step(step)
        position.owner = owner


class Position:
    """Where one message stands in one queue."""

    __slots__ = (
        "abort_count",
        "arrival_time",
        "cached",
        "expires",
        "last_move_time",
        "lookup_id",
        "message",
        "move_count",
        "owner",
        "queue",
        "size",
        "state",
        "stored",
    )

    def __init__(
        self,
        queue: "Queue",
        lookup_id: int,
        message: Message,
        arrival_time: float,
        stored: bool,
        expires: int = 0,
        abort_count: int = 0,
        move_count: int = 0,
        last_move_time: float = 0.0,
        state: State = State.STAGED,
        size: int = 0,
    ) -> None:
        self.queue = queue
        self.lookup_id = lookup_id
        self.message = message
        self.arrival_time = arrival_time
        self.state = state
        self.stored = stored  # the store has it, or will when its change commits
        self.expires = expires
        self.size = size or message.size
        self.abort_count = abort_count
        self.move_count = move_count
        self.last_move_time = last_move_time
        self.cached = False  # content of an available stored message, counted in the cache
        self.owner: object = None  # who holds the lock

    def step(self, step: Step) -> None:
        after = TRANSITIONS.get((self.state, step))
        if after is None:
            raise IllegalStep(f"{step.value} of message {self.lookup_id:#x} that is {self.state.value}")
        self.state = after

    def lock(self, owner: object) -> None:
        self.step(Step.LOCK)
        self.owner = owner

    def read(self) -> Message:
        """The message as a reader gets it: a copy of its own, with what the position knows."""
        message = self.message.copy()
        message.lookup_identifier = self.lookup_id
        message.arrival_time = self.arrival_time
        message.abort_count = self.abort_count
        message.move_count = self.move_count
        message.last_move_time = self.last_move_time
        return message
