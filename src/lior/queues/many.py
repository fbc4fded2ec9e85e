"""A change of many messages of one queue that came together, each with a caller who waits for an answer.

What there is to do before the commit and after it is done once for all of them. If the commit fails, the change falls
apart into changes of one message each, so that one that cannot be stored takes no other with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from lior.errors import LiorError
from lior.queues.change import Change
from lior.queues.ports import Operation

MOST: Final = 64  # messages of one change: what waits for its commit is counted in changes

# The callers, what each of them is told of, and why it failed. Called from within the queue manager's own steps: it
# raises nothing.
Told = Callable[[Sequence[Any], Sequence[Any], LiorError | None], None]


class Many(Change):
    """`items` are positions, or what has one."""

    __slots__ = ("_callers", "_told", "_untold", "items")

    def __init__(self, items: Sequence[Any], callers: Sequence[Any], told: Told) -> None:
        super().__init__()
        self.items = items
        self._callers = callers
        self._told = told
        self._untold = True

    @property
    def has_steps(self) -> bool:
        return True

    @abstractmethod
    def done(self) -> None:
        """The commit returned."""

    @abstractmethod
    def undone(self) -> None:
        """The commit failed."""

    @abstractmethod
    def operation(self, at: int) -> Operation | None:
        """What there is to store for one of them."""

    @abstractmethod
    def part(self, at: int) -> Many:
        """The same with one of them, and nothing to store yet."""

    @abstractmethod
    def shared(self) -> list[Operation]:
        """What else there is to store."""

    def finish(self) -> None:
        super().finish()
        self.done()
        self._untold = False
        self._told(self._callers, self.items, None)

    def lost(self, error: LiorError) -> None:
        if self._untold:
            self._untold = False
            self._told(self._callers, self.items, error)

    def fail(self, error: LiorError) -> None:
        self.undone()
        super().fail(error)
        self.lost(error)

    @property
    def count(self) -> int:
        return len(self.items)

    def parts(self) -> list[Change]:
        """One message each; what else there is to store goes with the first."""
        if len(self.items) < 2:
            return [self]
        shared, found = self.shared(), list[Change]()
        for at in range(len(self.items)):
            part = self.part(at)
            operation = self.operation(at)
            part.operations = shared if operation is None else [*shared, operation]
            part.ordered = self.ordered
            part._steps, self._steps, shared = self._steps, (), []
            found.append(part)
        return found
