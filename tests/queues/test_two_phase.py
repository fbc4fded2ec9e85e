"""Reads in two phases ([MS-MQDMPR] 3.1.7.1.11, 3.1.7.1.12): handed out, then kept or given back."""

from pathlib import Path

import pytest

from lior.queues.position import State
from lior.store.sqlite import SqliteStore
from lior.testing.engine import ManualEngine
from tests.queues.scenario import (
    RECOVERABLE,
    acknowledged,
    classes,
    commit,
    refused,
    stored,
    system_queue,
)


@pytest.mark.spec("DM-106", "DM-108")
def test_the_message_is_locked_until_the_reader_says_delete(engine: ManualEngine) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    engine.send(engine.sender(), acknowledged(body=b"x", delivery_guarantee=RECOVERABLE))
    held = engine.receive(engine.open(), two_phase=True)
    assert held.message.body == b"x" and held.position.state is State.LOCKED
    assert (queue.message_count, classes(engine, admin)) == (1, [0x0002])
    with refused("IO_TIMEOUT"):
        engine.receive(engine.open())
    engine.do(engine.manager.receive_end, held, delete=True)
    assert (queue.message_count, queue.total_bytes, classes(engine, admin)) == (0, 0, [0x0002, 0x4000])
    assert stored(engine, queue.queue_id) == []


@pytest.mark.spec("DM-108")
def test_given_back_it_returns_to_its_place_without_an_abort_counted(engine: ManualEngine) -> None:
    queue = engine.create()
    for body in (b"1", b"2"):
        engine.send(engine.sender(), body=body)
    held = engine.receive(engine.open(), two_phase=True)
    engine.do(engine.manager.receive_end, held, delete=False)
    assert engine.bodies(queue) == [b"1", b"2"]
    assert engine.receive(engine.open()).abort_count == 0


@pytest.mark.spec("DM-108", "MQ-210")
@pytest.mark.parametrize("delete", [True, False])
def test_a_read_ends_once(engine: ManualEngine, delete: bool) -> None:
    queue = engine.create()
    engine.send(engine.sender())
    held = engine.receive(engine.open(), two_phase=True)
    engine.do(engine.manager.receive_end, held, delete=False)
    with refused("TRANSACTION_SEQUENCE"):
        engine.do(engine.manager.receive_end, held, delete=delete)
    assert queue.message_count == 1


@pytest.mark.spec("DM-108")
@pytest.mark.parametrize("delete", [True, False])
def test_purged_meanwhile_it_goes_whatever_the_reader_says(engine: ManualEngine, delete: bool) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    engine.send(engine.sender(), acknowledged())
    held = engine.receive(engine.open(), two_phase=True)
    engine.do(engine.manager.purge, queue, engine.admin)
    assert queue.message_count == 1 and held.position.state is State.PURGE_PENDING
    engine.do(engine.manager.receive_end, held, delete=delete)
    assert queue.message_count == 0 and classes(engine, admin) == [0x0002, 0xC001]


@pytest.mark.spec("DM-108")
def test_inside_a_transaction_the_message_is_left_to_the_transaction(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    fill, taking = engine.manager.begin(), engine.manager.begin()
    engine.send(engine.sender(), transaction=fill)
    commit(engine, fill)
    engine.receive(engine.open(), two_phase=True, transaction=taking)
    assert engine.manager.reading.two_phase == {} and queue.message_count == 1
    commit(engine, taking)
    assert queue.message_count == 0


@pytest.mark.spec("DM-108")
def test_closing_the_handle_gives_back_what_it_held(engine: ManualEngine) -> None:
    queue, reader = engine.create(), engine.open()
    for body in (b"1", b"2"):
        engine.send(engine.sender(), body=body)
    held = [engine.receive(reader, two_phase=True) for _ in range(2)]
    engine.manager.close(reader)
    assert engine.bodies(queue) == [b"1", b"2"]
    with refused("TRANSACTION_SEQUENCE"):
        engine.do(engine.manager.receive_end, held[0], delete=True)


@pytest.mark.spec("DM-108", "DM-030")
def test_a_crash_of_the_queue_manager_gives_it_back(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    engine.create()
    engine.send(engine.sender(), body=b"x", delivery_guarantee=RECOVERABLE)
    engine.receive(engine.open(), two_phase=True)
    again = engine.restart()
    assert again.receive(again.open()).body == b"x"


@pytest.mark.spec("DM-108", "MQ-210")
def test_ending_after_the_queue_was_deleted_is_queue_not_available(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender())
    held = engine.receive(engine.open(), two_phase=True)
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    with refused("QUEUE_NOT_AVAILABLE"):
        engine.do(engine.manager.receive_end, held, delete=True)
    assert engine.manager.core.total_bytes == 0 and engine.manager.reading.two_phase == {}


@pytest.mark.spec("DM-131")
def test_a_message_that_expired_while_held_goes_when_it_is_given_back(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), time_to_be_received=5, negative_journaling_requested=True)
    held = engine.receive(engine.open(), two_phase=True)
    engine.advance(6)
    assert queue.message_count == 1
    engine.do(engine.manager.receive_end, held, delete=False)
    assert queue.message_count == 0 and system_queue(engine, "DEADLETTER").message_count == 1
