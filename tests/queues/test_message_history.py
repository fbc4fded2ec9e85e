"""The identifiers of messages received lately ([MS-MQQB] 3.1.1.3, 3.1.5.8.1)."""

from uuid import UUID

import pytest

from lior.queues.change import Change
from lior.queues.message_history import CAPACITY, HISTORY, MAXIMUM_AGE, MessageHistory
from lior.queues.ports import PutState
from lior.testing.engine import ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL

A, B = UUID(int=1).bytes_le, UUID(int=2).bytes_le


def key(ordinal: int, source: bytes = A) -> bytes:
    return source + ordinal.to_bytes(4, "little")


def record(engine: ManualEngine, *keys: bytes) -> Change:
    change = Change()
    engine.manager.message_history.record(change, keys, engine.clock.wall())
    engine.manager.core.submit(change)
    return change


def seen(engine: ManualEngine, *keys: bytes) -> list[bool]:
    return [engine.manager.message_history.seen(key, engine.clock.wall()) for key in keys]


@pytest.mark.spec("QB-153")
def test_a_message_is_told_by_its_queue_manager_and_its_number(engine: ManualEngine) -> None:
    record(engine, key(1), key(2))
    engine.manager.message_history.record_volatile([key(3)], engine.clock.wall())
    engine.commit()
    assert seen(engine, key(1), key(2), key(3)) == [True] * 3
    assert seen(engine, key(4), key(1, B), key(3, B)) == [False] * 3


@pytest.mark.spec("QB-086", "QB-106")
def test_what_was_stored_is_known_after_a_restart(host: Host) -> None:
    for ordinal in range(300):
        record(host.engine, key(ordinal))
    host.engine.commit()
    host.engine.manager.message_history.record_volatile([key(1000)], host.engine.clock.wall())
    record(host.engine, key(2000))  # the crash comes first
    again = host.crash()
    assert seen(again, *map(key, range(300))) == [True] * 300
    assert seen(again, key(1000), key(2000)) == [False, False]


@pytest.mark.spec("QB-154")
def test_express_messages_that_were_lost_beside_others_are_forgotten(engine: ManualEngine) -> None:
    history, now = engine.manager.message_history, engine.clock.wall()
    history.record_volatile([key(1), key(2), key(3)], now)
    history.forget([key(1), key(3), key(9)])
    assert seen(engine, key(1), key(2), key(3)) == [False, True, False]
    history.record_volatile([key(1)], now)
    history.clean_up(now + 10_000)
    assert len(history) == 0


@pytest.mark.spec("QB-154")
def test_what_could_not_be_stored_is_not_remembered(host: Host) -> None:
    engine = host.engine
    change = record(engine, key(1), key(2))
    assert seen(engine, key(1)) == [True] and not engine.manager.message_history.settled(key(1))
    engine.manager.take_pending()
    engine.manager.failed([change], FULL)
    assert seen(engine, key(1), key(2)) == [False, False]
    record(engine, key(2))
    engine.commit()
    assert engine.manager.message_history.settled(key(2))
    assert seen(host.crash(), key(1), key(2)) == [False, True]


def test_a_change_writes_one_small_row(engine: ManualEngine) -> None:
    change = Change()
    for ordinal in range(64):
        engine.manager.message_history.record(change, [key(ordinal)], engine.clock.wall())
    (row,) = change.operations
    assert isinstance(row, PutState) and row.kind == HISTORY and len(row.value) < 64 * 20 + 64
    other = record(engine, key(100))
    assert len(other.operations) == 1
    engine.manager.core.submit(change)
    engine.commit()
    assert seen(engine, key(0), key(63), key(100)) == [True] * 3


@pytest.mark.spec("QB-086")
@pytest.mark.parametrize("size", [1, 64])
def test_ten_thousand_are_known_and_then_the_oldest_gives_way(engine: ManualEngine, size: int) -> None:
    for first in range(0, CAPACITY - size + 1, size):
        record(engine, *map(key, range(first, first + size)))
    engine.commit()
    last = (CAPACITY // size) * size
    assert seen(engine, key(0), key(last - 1)) == [True, True]
    for ordinal in range(last, CAPACITY + 1):
        record(engine, key(ordinal))
        engine.commit()
    assert seen(engine, key(0), key(size), key(CAPACITY)) == [False, True, True]


@pytest.mark.spec("QB-086")
def test_neither_memory_nor_rows_grow_without_end(host: Host) -> None:
    engine = host.engine
    engine.manager.message_history.capacity = 50
    for ordinal in range(500):
        record(engine, key(ordinal))
        engine.manager.message_history.record_volatile([key(ordinal, B)], engine.clock.wall())
        engine.commit()
    assert len(engine.manager.message_history) <= 50
    assert len([name for name in engine.store.load().state if name[0] == HISTORY]) <= 52
    assert seen(engine, key(499), key(499, B)) == [True, True]
    again = host.crash()
    again.manager.message_history.capacity = 50
    record(again, key(600))
    again.commit()
    assert seen(again, key(600), key(499)) == [True, True]
    assert len([name for name in again.store.load().state if name[0] == HISTORY]) <= 52


@pytest.mark.spec("QB-114")
@pytest.mark.parametrize("volatile", [False, True])
def test_what_is_too_old_is_forgotten(engine: ManualEngine, volatile: bool) -> None:
    history = engine.manager.message_history
    if volatile:
        history.record_volatile([key(1)], engine.clock.wall())
    else:
        record(engine, key(1))
        engine.commit()
    engine.clock.advance(MAXIMUM_AGE)
    assert len(history) == 1
    engine.clock.advance(1)
    assert seen(engine, key(1)) == [False]
    history.clean_up(engine.clock.wall())
    assert len(history) == 0


@pytest.mark.spec("QB-153")
def test_one_that_is_seen_again_starts_anew(engine: ManualEngine) -> None:
    record(engine, key(1))
    engine.commit()
    for _ in range(10):
        engine.clock.advance(MAXIMUM_AGE / 2)
        assert seen(engine, key(1)) == [True]
    engine.manager.message_history.clean_up(engine.clock.wall())
    assert seen(engine, key(1)) == [True]


def test_one_message_sent_over_and_over_does_not_drive_out_the_others(engine: ManualEngine) -> None:
    history = engine.manager.message_history = MessageHistory(capacity=10)
    record(engine, key(1), key(2))
    engine.commit()
    for _ in range(100):
        assert history.seen(key(1), engine.clock.wall())
    assert history.seen(key(2), engine.clock.wall())
