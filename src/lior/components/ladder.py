"""The ladder that a message climbs when playing it fails, as COM+ has it: after the first failure it waits in a first
retry queue, is tried there three times with a minute between, then goes to the next with two minutes, and so on.

The retry queues are subqueues, so that a message is moved, not sent again: it keeps its sender, its signature, its
identifier and its place. How often it was tried on a level and since when it waits are durable facts of its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lior.client.message import ReceivedMessage
from lior.errors import BadConfiguration

DEAD: Final = "dead"
PLAYING: Final = "playing"  # with a number: where a player keeps what it has taken from a queue without transactions
MINUTE: Final = 60.0


@dataclass(frozen=True)
class Ladder:
    """`delays` in seconds, one for each retry queue; none at all sends a failure to the dead queue at once."""

    delays: Sequence[float] = (MINUTE, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE, 16 * MINUTE)
    tries: int = 3
    prefix: str = "retry_"

    def __post_init__(self) -> None:
        if self.tries < 1 or any(not delay >= 0 for delay in self.delays):
            raise BadConfiguration("a ladder has tries, and delays of no less than no time", where="ladder")

    @property
    def levels(self) -> int:
        return len(self.delays)

    def subqueue(self, level: int) -> str:
        """Of level 1 and up; the level above the last is the end."""
        return f"{self.prefix}{level - 1}" if level <= self.levels else DEAD

    def due(self, level: int, message: ReceivedMessage) -> float:
        """When it is to be tried again: so long after it came or, if it was tried here before, after as many waits."""
        return message.last_move_time + self.delays[level - 1] * (message.abort_count + 1)

    def is_exhausted(self, level: int, aborts: int) -> bool:
        """After `aborts` failures on this level the message moves on."""
        return level == 0 or aborts >= self.tries


NO_LADDER: Final = Ladder(delays=())
