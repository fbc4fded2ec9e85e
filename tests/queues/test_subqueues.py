"""Subqueues and moves ([MS-MQDMPR] 3.1.7.1.16): each rule once."""

from pathlib import Path

import pytest

from lior.errors import LiorError
from lior.message import Message
from lior.queues.descriptor import MessageSeekAction, OpenQueueDescriptor, QueueAccessType
from lior.queues.queue import Queue
from lior.queues.transaction import Transaction
from lior.store.sqlite import SqliteStore
from lior.testing.engine import ManualEngine
from tests.queues.scenario import (
    ADMIN,
    QUEUE,
    RECOVERABLE,
    abort,
    acknowledged,
    classes,
    commit,
    messages,
    refused,
    stored,
)

SUB = QUEUE + ";lock"
MOVE, SEND = QueueAccessType.MOVE, QueueAccessType.SEND


def move(
    engine: ManualEngine,
    source: OpenQueueDescriptor,
    lookup_id: int,
    target: OpenQueueDescriptor,
    transaction: Transaction | None = None,
) -> None:
    engine.do(lambda reply: engine.manager.move(source, lookup_id, target, reply, transaction))


def filled(engine: ManualEngine, count: int = 2, **fields: object) -> Queue:
    queue = engine.create(transactional=True)
    fill = engine.manager.begin()
    for number in range(count):
        engine.send(engine.sender(), Message(body=b"%d" % number, **fields), fill)  # type: ignore[arg-type]
    commit(engine, fill)
    return queue


@pytest.mark.spec("DM-115")
@pytest.mark.parametrize("guarantee", [0, 1])
def test_a_move_outside_a_transaction_is_visible_after_its_commit(engine: ManualEngine, guarantee: int) -> None:
    queue = engine.create()
    for body in (b"1", b"2"):
        engine.send(engine.sender(), body=body, delivery_guarantee=guarantee)
    lookup_id = list(queue.available)[1]
    move(engine, engine.open(), lookup_id, engine.open(SUB, MOVE))
    subqueue = queue.subqueues["lock"]
    assert engine.bodies(queue) == [b"1"] and engine.bodies(subqueue) == [b"2"]
    assert len(stored(engine, subqueue.queue_id)) == guarantee and len(stored(engine, queue.queue_id)) == guarantee


@pytest.mark.spec("DM-115")
def test_a_move_in_a_transaction_is_visible_at_the_commit_and_locked_before(engine: ManualEngine) -> None:
    queue = filled(engine)
    transaction = engine.manager.begin()
    target = engine.open(SUB, MOVE)
    move(engine, engine.open(), next(iter(queue.available)), target, transaction)
    assert engine.bodies(queue) == [b"1"] and queue.message_count == 2 and target.live_queue().message_count == 0
    commit(engine, transaction)
    assert queue.message_count == 1 and engine.bodies(target.live_queue()) == [b"0"]


@pytest.mark.spec("DM-115")
def test_a_moved_message_takes_its_place_by_priority_and_age(engine: ManualEngine) -> None:
    queue = engine.create()
    for body, priority in ((b"a", 3), (b"b", 3), (b"c", 7)):
        engine.send(engine.sender(), body=body, priority=priority)
    ids = {m.body: m.lookup_identifier for m in messages(engine, queue)}
    for body in (b"b", b"c", b"a"):
        move(engine, engine.open(), ids[body], engine.open(SUB, MOVE))
    assert engine.bodies(queue.subqueues["lock"]) == [b"c", b"a", b"b"]


@pytest.mark.spec("DM-115")
def test_a_move_wakes_who_waits_at_the_subqueue(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), body=b"x")
    waiting = engine.start_receive(engine.open(SUB))
    move(engine, engine.open(), next(iter(queue.available)), engine.open(SUB, MOVE))
    assert waiting.result().body == b"x" and queue.message_count == 0


@pytest.mark.spec("DM-116")
def test_a_moved_message_is_found_by_the_lookup_id_and_arrival_time_it_had(engine: ManualEngine) -> None:
    queue = filled(engine)
    before = messages(engine, queue)[1]
    engine.clock.advance(60)
    move(engine, engine.open(), before.lookup_identifier, engine.open(SUB, MOVE))
    found = engine.do(
        lambda reply: engine.manager.read_by_lookup(
            engine.open(SUB), reply, lookup_id=before.lookup_identifier, action=MessageSeekAction.CURRENT, peek=True
        )
    )
    assert (found.body, found.arrival_time) == (b"1", before.arrival_time)
    assert (found.move_count, found.last_move_time) == (1, engine.clock.wall())


@pytest.mark.spec("DM-116", "DM-117")
def test_a_subqueue_with_messages_survives_a_restart_with_all_it_knows(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    queue = filled(engine)
    taking = engine.manager.begin()
    engine.receive(engine.open(), transaction=taking)
    abort(engine, taking)
    move(engine, engine.open(), next(iter(queue.available)), engine.open(SUB, MOVE))
    before = messages(engine, queue.subqueues["lock"])
    again = engine.restart()
    after = messages(again, again.manager.find_queue(r".\private$\q").subqueues["lock"])
    assert after == before and before[0].abort_count == 0 and before[0].move_count == 1


@pytest.mark.spec("DM-115")
def test_what_is_held_or_gone_cannot_be_moved(engine: ManualEngine) -> None:
    queue = filled(engine)
    source, target = engine.open(), engine.open(SUB, MOVE)
    held = engine.receive(source, transaction=engine.manager.begin()).lookup_identifier
    for lookup_id in (held, 1 << 40):
        with refused("MESSAGE_NOT_FOUND"):
            move(engine, source, lookup_id, target)
    assert queue.message_count == 2


@pytest.mark.spec("DM-115")
def test_a_move_in_a_transaction_needs_a_transactional_queue(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender())
    with refused("TRANSACTION_USAGE"):
        move(engine, engine.open(), next(iter(queue.available)), engine.open(SUB, MOVE), engine.manager.begin())
    assert len(queue.available) == 1


@pytest.mark.spec("DM-117")
def test_a_subqueue_is_made_by_its_first_opening_and_gone_with_the_last(engine: ManualEngine) -> None:
    queue = engine.create()
    first, second = engine.open(SUB, MOVE), engine.open(QUEUE + ";LOCK")
    assert list(queue.subqueues) == ["lock"] and first.live_queue() is second.live_queue()
    engine.manager.close(first)
    assert list(queue.subqueues) == ["lock"]
    engine.manager.close(second)
    assert queue.subqueues == {}


@pytest.mark.spec("DM-117")
def test_a_subqueue_that_is_closed_goes_with_its_last_message(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    queue = engine.create()
    engine.send(engine.sender(), time_to_be_received=60, delivery_guarantee=RECOVERABLE)
    target = engine.open(SUB, MOVE)
    move(engine, engine.open(), next(iter(queue.available)), target)
    engine.manager.close(target)
    assert list(queue.subqueues) == ["lock"]
    engine.advance(61)
    assert queue.subqueues == {}
    assert [record.kind for record in engine.store.load().queues].count("subqueue") == 0


@pytest.mark.spec("DM-117")
def test_a_subqueue_cannot_be_sent_to(engine: ManualEngine) -> None:
    engine.create()
    for _ in range(2):
        with refused("UNSUPPORTED_FORMATNAME_OPERATION"):
            engine.open(SUB, SEND)
        engine.open(SUB)  # also not when it exists


@pytest.mark.spec("DM-117")
def test_a_subqueue_has_no_properties_rights_or_end_of_its_own(engine: ManualEngine) -> None:
    engine.create()
    subqueue = engine.open(SUB).live_queue()
    manager, admin = engine.manager, engine.admin
    with refused("UNSUPPORTED_OPERATION"):
        engine.do(manager.set_queue_properties, subqueue, {"quota": 1}, admin)
    with refused("UNSUPPORTED_OPERATION"):
        engine.do(manager.set_queue_properties, subqueue, {"multicast_address": "224.0.1.7:1"}, admin)
    with refused("UNSUPPORTED_OPERATION"):
        engine.do(manager.delete_queue, subqueue, admin)


@pytest.mark.spec("DM-117")
def test_a_subqueue_shares_its_queue_s_quota_and_journal(engine: ManualEngine) -> None:
    queue = engine.create(quota=2, journaling=True)
    engine.send(engine.sender(), body=bytes(1500))
    move(engine, engine.open(), next(iter(queue.available)), engine.open(SUB, MOVE))
    with refused("INSUFFICIENT_RESOURCES"):
        engine.send(engine.sender(), body=bytes(1500))
    engine.receive(engine.open(SUB))
    engine.send(engine.sender(), body=bytes(1500))
    assert queue.journal is not None and queue.journal.message_count == 1


@pytest.mark.spec("DM-117")
def test_messages_move_only_inside_one_family(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.create(r".\private$\other")
    engine.send(engine.sender(), body=b"x")
    lookup_id = next(iter(queue.available))
    targets = (r"DIRECT=OS:.\private$\other;lock", r"DIRECT=OS:.\private$\other", QUEUE)
    for name in targets:
        with refused("UNSUPPORTED_OPERATION"):
            move(engine, engine.open(), lookup_id, engine.open(name, MOVE))
    assert engine.bodies(queue) == [b"x"]


@pytest.mark.spec("DM-117")
def test_a_message_moves_between_subqueues_and_back(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), body=b"x")
    lookup_id = next(iter(queue.available))
    for source, target in ((QUEUE, SUB), (SUB, QUEUE + ";b"), (QUEUE + ";b", QUEUE)):
        move(engine, engine.open(source), lookup_id, engine.open(target, MOVE))
    assert engine.bodies(queue) == [b"x"] and messages(engine, queue)[0].move_count == 3


@pytest.mark.spec("DM-117", "DM-115")
@pytest.mark.parametrize(
    "name", [QUEUE + ";JOURNAL;lock", r"DIRECT=OS:.\SYSTEM$;DEADLETTER;lock", r"DIRECT=OS:.\private$\none;lock"]
)
def test_there_are_no_subqueues_of_journals_system_queues_or_nothing(engine: ManualEngine, name: str) -> None:
    queue = engine.create()
    with pytest.raises(LiorError):
        engine.open(name, MOVE)
    assert queue.subqueues == {} and queue.journal is not None and queue.journal.subqueues == {}


@pytest.mark.spec("DM-117", "DM-142")
def test_a_message_received_from_a_subqueue_is_acknowledged_like_any_other(engine: ManualEngine) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    engine.send(engine.sender(), acknowledged(body=b"x"))
    move(engine, engine.open(), next(iter(queue.available)), engine.open(SUB, MOVE))
    assert classes(engine, admin) == [0x0002]
    engine.receive(engine.open(SUB))
    assert classes(engine, admin) == [0x0002, 0x4000]
    assert engine.bodies(engine.manager.find_queue(ADMIN)) == [b"", b""]


def test_a_message_given_back_too_often_goes_to_the_poison_subqueue(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True, max_aborts=1)
    fill = engine.manager.begin()
    engine.send(engine.sender(), body=b"x", transaction=fill)
    commit(engine, fill)
    for _ in range(2):
        assert queue.message_count == 1
        taking = engine.manager.begin()
        engine.receive(engine.open(), transaction=taking)
        abort(engine, taking)
    assert queue.message_count == 0 and engine.bodies(queue.subqueues["poison"]) == [b"x"]
