"""Steps of a change: their order, and that many of them cost no more than few."""

from __future__ import annotations

from lior.errors import MessageStorageFailed
from lior.queues.change import FEW, Change


def with_steps(count: int, done: list[int]) -> Change:
    change = Change()
    for number in range(count):
        add = (change.then, change.otherwise)[number % 2] if number % 3 else None
        if add is None:
            change.either(done.append, done.append, number)
        else:
            add(done.append, number)
    return change


def test_steps_after_a_commit_run_in_their_order_however_many_there_are() -> None:
    for count in (1, FEW // 3 - 1, FEW // 3, FEW // 3 + 1, 1000):
        done: list[int] = []
        with_steps(count, done).finish()
        assert done == [n for n in range(count) if n % 3 == 0 or n % 2 == 0]


def test_steps_after_a_failure_run_backwards_however_many_there_are() -> None:
    for count in (1, FEW // 3 - 1, FEW // 3, FEW // 3 + 1, 1000):
        done: list[int] = []
        with_steps(count, done).fail(MessageStorageFailed("no room"))
        assert done == [n for n in reversed(range(count)) if n % 3 == 0 or n % 2]


def test_a_step_more_does_not_copy_those_before_it() -> None:
    """A purge adds two for each of thousands of messages."""
    change = with_steps(FEW, [])
    steps = change._steps
    change.then(print)
    assert change._steps is steps
