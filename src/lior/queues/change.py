"""A change: the store operations of one atomic batch, and what follows when it is on disk.

The order is fixed: commit, then visible, then wake readers, then answer. Everything after the commit is a
step added with `then`; what undoes the change in memory when the commit fails is added with `otherwise`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from lior.errors import LiorError
from lior.queues.ports import Operation


class Reply(Protocol):
    """Where an answer goes, exactly once."""

    @property
    def gone(self) -> bool:
        """Nobody waits for the answer any more: do not hand out a message to it."""
        ...

    def set_result(self, value: Any, /) -> None: ...

    def set_exception(self, error: LiorError, /) -> None: ...


class Change:
    __slots__ = ("_otherwise", "_refused", "_reply", "_then", "_value", "operations", "ordered")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.ordered = False  # nothing to store, but must not overtake changes that are waiting
        self._then: list[Callable[[], None]] = []
        self._otherwise: list[Callable[[], None]] = []
        self._reply: Reply | None = None
        self._value: Any = None
        self._refused: Reply | None = None

    @property
    def has_steps(self) -> bool:
        return bool(self._then)

    def then(self, step: Callable[..., None], *arguments: Any) -> None:
        self._then.append(partial(step, *arguments))

    def otherwise(self, step: Callable[..., None], *arguments: Any) -> None:
        self._otherwise.append(partial(step, *arguments))

    def answer(self, reply: Reply, value: Any = None) -> None:
        """After everything else: tell the caller, one way or the other."""
        self._reply = self._refused = reply
        self._value = value

    def refuse(self, reply: Reply) -> None:
        """Tell the caller only if the commit fails; another change will answer otherwise."""
        self._refused = reply

    def finish(self) -> None:
        """The commit returned."""
        for step in self._then:
            step()
        if self._reply is not None:
            self._reply.set_result(self._value)

    def fail(self, error: LiorError) -> None:
        """The commit failed: undo in reverse order, answer last."""
        for step in reversed(self._otherwise):
            step()
        if self._refused is not None:
            self._refused.set_exception(error)
