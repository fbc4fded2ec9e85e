"""The states of a position ([MS-MQDMPR] 3.1.1.11): every state with every step."""

import pytest

from lior.message import Message
from lior.queues.position import IllegalStep, Position, State, Step
from lior.testing.engine import ManualEngine

# Written from the specification, not from the table in the code; claims are ours
LEGAL = {
    ("staged", "publish"): "available",
    ("staged", "delete"): "deleted",
    ("available", "lock"): "locked",
    ("available", "claim"): "claimed",
    ("claimed", "release"): "available",
    ("claimed", "delete"): "deleted",
    ("locked", "release"): "available",
    ("locked", "purge"): "purge pending",
    ("locked", "delete"): "deleted",
    ("purge pending", "purge"): "purge pending",
    ("purge pending", "delete"): "deleted",
}


def position(engine: ManualEngine, state: State) -> Position:
    return Position(engine.create(), 5, Message(body=b"x"), 12.5, False, state=state)


@pytest.mark.spec("DM-029")
@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("state", State)
def test_takes_the_legal_steps_and_no_other(engine: ManualEngine, state: State, step: Step) -> None:
    it = position(engine, state)
    after = LEGAL.get((state.value, step.value))
    if after is None:
        with pytest.raises(IllegalStep):
            it.step(step)
        assert it.state is state
    else:
        it.step(step)
        assert it.state.value == after


@pytest.mark.spec("DM-029")
def test_the_states_are_those_of_the_specification_and_two_of_ours() -> None:
    """One for what is not committed yet, and one for what a subscription holds."""
    specified = {"available", "locked", "purge pending", "deleted"}
    assert {state.value for state in State} == specified | {"staged", "claimed"}


def test_a_lock_remembers_its_owner(engine: ManualEngine) -> None:
    it, owner = position(engine, State.AVAILABLE), object()
    it.lock(owner)
    assert it.owner is owner and it.state is State.LOCKED
    with pytest.raises(IllegalStep):
        it.lock(object())
    assert it.owner is owner


@pytest.mark.spec("DM-036")
def test_a_reader_gets_a_copy_with_what_the_position_knows(engine: ManualEngine) -> None:
    it = position(engine, State.AVAILABLE)
    it.abort_count, it.move_count, it.last_move_time = 2, 3, 4.5
    read = it.read()
    assert (read.lookup_identifier, read.arrival_time) == (5, 12.5)
    assert (read.abort_count, read.move_count, read.last_move_time) == (2, 3, 4.5)
    read.body = b"changed"
    assert it.message.body == b"x" and it.read().body == b"x"
