"""A change: the store operations of one atomic batch, and what follows when it is on disk.

The order is fixed: commit, then visible, then wake readers, then answer. Everything after the commit is a
step added with `then`; what undoes the change in memory when the commit fails is added with `otherwise`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from lior.errors import LiorError
from lior.queues.ports import Operation

MANY: Final = 96  # of what steps are made of


class Reply(Protocol):
    """Where an answer goes, exactly once. An asyncio future is one."""

    def cancelled(self) -> bool:
        """Nobody waits for the answer any more: do not hand out a message to it."""
        return False

    def set_result(self, value: Any, /) -> None: ...

    def set_exception(self, error: LiorError, /) -> None: ...


class Nobody:
    """A reply that nobody waits for."""

    def cancelled(self) -> bool:
        return False

    def set_result(self, value: Any, /) -> None:
        pass

    def set_exception(self, error: LiorError, /) -> None:
        pass


FEW: Final = 24  # entries of steps, three each, that are kept as a tuple


class Change:
    __slots__ = ("_refused", "_reply", "_steps", "_value", "lazy", "operations", "ordered")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.ordered = False  # nothing to store, but must not overtake changes that are waiting
        self.lazy = False  # nobody waits for it: it may go with the next that somebody waits for
        # Flat triples (after the commit, after its failure, arguments): each object less here is one that the
        # garbage collector does not look at for every message. A tuple while there are few, as nearly always; then a
        # list, for a purge adds thousands, and each would copy all before it.
        self._steps: tuple[Any, ...] | list[Any] = ()
        self._reply: Reply | None = None
        self._value: Any = None
        self._refused: Reply | None = None

    @property
    def has_steps(self) -> bool:
        return bool(self._steps)

    def then(self, step: Callable[..., None], *arguments: Any) -> None:
        self._steps += (step, None, arguments)  # type: ignore[operator]
        if len(self._steps) == FEW:
            self._steps = list(self._steps)

    def otherwise(self, step: Callable[..., None], *arguments: Any) -> None:
        self._steps += (None, step, arguments)  # type: ignore[operator]
        if len(self._steps) == FEW:
            self._steps = list(self._steps)

    def either(self, then: Callable[..., None], otherwise: Callable[..., None], *arguments: Any) -> None:
        """One or the other, with the same arguments."""
        self._steps += (then, otherwise, arguments)  # type: ignore[operator]
        if len(self._steps) == FEW:
            self._steps = list(self._steps)

    def answer(self, reply: Reply, value: Any = None) -> None:
        """After everything else: tell the caller, one way or the other."""
        self._reply = self._refused = reply
        self._value = value

    def refuse(self, reply: Reply) -> None:
        """Tell the caller only if the commit fails; another change will answer otherwise."""
        self._refused = reply

    def finish(self) -> None:
        """The commit returned."""
        steps = self._steps
        for at in range(0, len(steps), 3):
            if steps[at] is not None:
                steps[at](*steps[at + 2])
        reply = self._reply
        if reply is not None and not reply.cancelled():
            reply.set_result(self._value)

    @property
    def count(self) -> int:
        """How many changes it is made of: `parts`."""
        return 1

    def parts(self) -> list[Change]:
        """What it consists of, each to be committed or to fail by itself."""
        return [self]

    def lost(self, error: LiorError) -> None:
        """A step after the commit raised: no answer would come any more."""
        if self._refused is not None and not self._refused.cancelled():
            self._refused.set_exception(error)

    def fail(self, error: LiorError) -> None:
        """The commit failed: undo in reverse order, answer last."""
        steps = self._steps
        for at in range(len(steps) - 3, -1, -3):
            if steps[at + 1] is not None:
                steps[at + 1](*steps[at + 2])
        if self._refused is not None and not self._refused.cancelled():
            self._refused.set_exception(error)
