"""Reading by lookup id ([MS-MQDMPR] 3.1.7.1.13): it finds or refuses, and never waits."""

from typing import Any

import pytest

from lior.queues.descriptor import MessageSeekAction, QueueAccessType
from lior.testing.engine import ManualEngine
from tests.queues.scenario import abort, commit, refused

A = MessageSeekAction


def read(engine: ManualEngine, lookup_id: int, action: MessageSeekAction = A.CURRENT, **options: Any) -> Any:
    reader = options.pop("reader", None) or engine.open()
    return engine.do(
        lambda reply: engine.manager.read_by_lookup(reader, reply, lookup_id=lookup_id, action=action, **options)
    )


def filled(engine: ManualEngine, count: int = 3) -> list[int]:
    queue = engine.create(transactional=True)
    transaction = engine.manager.begin()
    for number in range(count):
        engine.send(engine.sender(), body=b"%d" % number, transaction=transaction)
    commit(engine, transaction)
    return list(queue.available)


@pytest.mark.spec("DM-109", "DM-110")
@pytest.mark.parametrize("peek", [True, False])
@pytest.mark.parametrize(
    ("action", "start", "found"),
    [(A.CURRENT, 1, b"1"), (A.NEXT, 1, b"2"), (A.PREVIOUS, 1, b"0"), (A.FIRST, None, b"0"), (A.LAST, None, b"2")],
)
def test_finds_by_every_action_to_peek_and_to_receive(
    engine: ManualEngine, action: MessageSeekAction, start: int | None, found: bytes, peek: bool
) -> None:
    ids = filled(engine)
    message = read(engine, 0 if start is None else ids[start], action, peek=peek)
    assert message.body == found and message.lookup_identifier == ids[int(found)]
    queue = engine.manager.find_queue(r".\private$\q")
    assert (ids[int(found)] in queue.available) is peek and queue.message_count == (3 if peek else 2)


@pytest.mark.spec("DM-111", "MQ-213", "DM-109")
@pytest.mark.parametrize("peek", [True, False])
def test_what_is_not_there_is_message_not_found(engine: ManualEngine, peek: bool) -> None:
    ids = filled(engine)
    unknown = ids[-1] + 1
    for lookup_id, action in (
        (unknown, A.CURRENT), (unknown, A.NEXT), (unknown, A.PREVIOUS), (ids[2], A.NEXT), (ids[0], A.PREVIOUS),
    ):  # fmt: skip
        with refused("MESSAGE_NOT_FOUND"):
            read(engine, lookup_id, action, peek=peek)


@pytest.mark.spec("DM-111", "DM-109")
def test_first_and_last_of_an_empty_queue_are_not_found(engine: ManualEngine) -> None:
    engine.create()
    for action in (A.FIRST, A.LAST):
        for peek in (True, False):
            with refused("MESSAGE_NOT_FOUND"):
                read(engine, 0, action, peek=peek)


@pytest.mark.spec("DM-109")
def test_lookup_in_a_transaction_returns_the_message_on_abort(engine: ManualEngine) -> None:
    ids = filled(engine)
    transaction = engine.manager.begin()
    assert read(engine, ids[1], transaction=transaction).body == b"1"
    queue = engine.manager.find_queue(r".\private$\q")
    assert list(queue.available) == [ids[0], ids[2]]
    abort(engine, transaction)
    assert list(queue.available) == ids


@pytest.mark.spec("DM-109")
def test_lookup_in_two_phases(engine: ManualEngine) -> None:
    ids = filled(engine)
    held = read(engine, ids[0], two_phase=True)
    assert held.message.body == b"0" and engine.manager.find_queue(r".\private$\q").message_count == 3
    engine.do(engine.manager.receive_end, held, delete=True)
    assert list(engine.manager.find_queue(r".\private$\q").available) == ids[1:]


@pytest.mark.spec("DM-112", "MQ-213", "MQ-210")
def test_a_message_that_a_transaction_holds_is_locked_to_others(engine: ManualEngine) -> None:
    ids = filled(engine)
    read(engine, ids[1], transaction=engine.manager.begin())
    with refused("MESSAGE_LOCKED_UNDER_TRANSACTION"):
        read(engine, ids[1], transaction=engine.manager.begin())
    with refused("MESSAGE_LOCKED_UNDER_TRANSACTION"):
        read(engine, ids[1])
    with refused("TRANSACTION_USAGE"):
        read(engine, ids[1], peek=True)


@pytest.mark.spec("DM-112")
def test_walking_steps_over_a_locked_message_and_may_start_from_one(engine: ManualEngine) -> None:
    ids = filled(engine)
    read(engine, ids[1], transaction=engine.manager.begin())
    assert read(engine, ids[0], A.NEXT, peek=True).body == b"2"
    assert read(engine, ids[2], A.PREVIOUS, peek=True).body == b"0"
    assert read(engine, ids[1], A.NEXT, peek=True).body == b"2"


@pytest.mark.spec("DM-034", "DM-134", "DM-114")
def test_a_receive_that_allows_peeks_keeps_the_message_visible_to_peeks_only(engine: ManualEngine) -> None:
    ids = filled(engine, 2)
    transaction = engine.manager.begin()
    read(engine, ids[0], transaction=transaction, allow_peek=True)
    peeker = engine.open(access=QueueAccessType.PEEK)
    assert engine.peek(peeker).body == b"0"
    for lookup_id, action in ((ids[0], A.CURRENT), (0, A.FIRST), (ids[1], A.PREVIOUS)):
        assert read(engine, lookup_id, action, peek=True).body == b"0"
    with refused("MESSAGE_LOCKED_UNDER_TRANSACTION"):
        read(engine, ids[0])
    assert engine.receive(engine.open()).body == b"1"
    commit(engine, transaction)
    with refused("IO_TIMEOUT"):
        engine.peek(peeker)


@pytest.mark.spec("DM-034")
def test_a_plain_receive_hides_the_message_even_after_one_that_allowed_peeks(engine: ManualEngine) -> None:
    ids = filled(engine, 1)
    first = engine.manager.begin()
    read(engine, ids[0], transaction=first, allow_peek=True)
    abort(engine, first)
    engine.receive(engine.open(), transaction=engine.manager.begin())
    with refused("IO_TIMEOUT"):
        engine.peek(engine.open())


@pytest.mark.spec("DM-034")
def test_last_sees_a_locked_tail_only_if_it_allows_peeks(engine: ManualEngine) -> None:
    ids = filled(engine)
    read(engine, ids[2], transaction=engine.manager.begin())
    assert read(engine, 0, A.LAST, peek=True).body == b"1"
    read(engine, ids[1], transaction=engine.manager.begin(), allow_peek=True)
    assert read(engine, 0, A.LAST, peek=True).body == b"1"
    assert read(engine, 0, A.LAST).body == b"0"
