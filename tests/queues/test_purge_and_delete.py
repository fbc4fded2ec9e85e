"""Purging a queue and deleting it: what goes, what stays, what the senders hear."""

from pathlib import Path

import pytest

from lior.message import Message
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import MessageDeleted
from lior.queues.position import State
from lior.store.sqlite import SqliteStore
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import (
    FULL,
    RECOVERABLE,
    REMOTE,
    FullStore,
    abort,
    acknowledged,
    classes,
    code,
    commit,
    failure,
    refused,
    stored,
    system_queue,
)


def purge(engine: ManualEngine, name: str = r".\private$\q") -> None:
    engine.do(engine.manager.purge, engine.manager.find_queue(name), engine.admin)


def delete(engine: ManualEngine, name: str = r".\private$\q") -> None:
    engine.do(engine.manager.delete_queue, engine.manager.find_queue(name), engine.admin)


@pytest.mark.spec("DM-098", "DM-128", "MQ-068")
def test_a_purge_deletes_what_is_available_and_tells_the_senders(engine: ManualEngine) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    sent = [engine.send(engine.sender(), acknowledged(delivery_guarantee=number % 2)) for number in range(4)]
    purge(engine)
    assert (queue.message_count, queue.total_bytes, stored(engine, queue.queue_id)) == (0, 0, [])
    nacks = [engine.receive(engine.open(r"DIRECT=OS:.\private$\admin")) for _ in range(8)]
    assert [n.message_class for n in nacks] == [0x0002] * 4 + [0xC001] * 4
    assert [n.correlation_id for n in nacks[4:]] == [i.to_bytes() for i in sent]
    assert admin.message_count == 0


@pytest.mark.spec("DM-098", "DM-076", "DM-075", "DM-029")
def test_a_locked_message_survives_the_purge_until_its_transaction_aborts(engine: ManualEngine) -> None:
    queue, admin = engine.create(transactional=True), engine.create(r".\private$\admin")
    fill, holding = engine.manager.begin(), engine.manager.begin()
    for _ in range(2):
        engine.send(engine.sender(), acknowledged(), transaction=fill)
    commit(engine, fill)
    engine.receive(engine.open(), transaction=holding)
    purge(engine)
    assert queue.message_count == 1 and [p.state for p in queue.locked_positions()] == [State.PURGE_PENDING]
    assert classes(engine, admin) == [2, 2, 0xC001]
    abort(engine, holding)
    assert (queue.message_count, queue.total_bytes, queue.positions) == (0, 0, {})
    assert classes(engine, admin) == [2, 2, 0xC001, 0xC001]


@pytest.mark.spec("DM-098")
def test_a_locked_message_that_is_committed_after_the_purge_was_received(engine: ManualEngine) -> None:
    queue, admin = engine.create(transactional=True), engine.create(r".\private$\admin")
    fill, holding = engine.manager.begin(), engine.manager.begin()
    engine.send(engine.sender(), acknowledged(), transaction=fill)
    commit(engine, fill)
    engine.receive(engine.open(), transaction=holding)
    purge(engine)
    commit(engine, holding)
    assert queue.message_count == 0 and classes(engine, admin) == [2, 0x4000]


@pytest.mark.spec("DM-098")
def test_a_purge_leaves_what_a_sender_has_not_committed(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    transaction = engine.manager.begin()
    engine.send(engine.sender(), body=b"x", transaction=transaction)
    purge(engine)
    commit(engine, transaction)
    assert engine.bodies(queue) == [b"x"]


def test_a_purge_of_thousands_is_answered_when_all_are_gone(engine: ManualEngine) -> None:
    queue, sender = engine.create(), engine.sender()
    for _ in range(4100):
        engine.manager.send(sender, Message(delivery_guarantee=1), Answer())
    engine.commit()
    answer = Answer()
    engine.manager.purge(queue, engine.admin, answer)
    while pending := engine.manager.take_pending():
        for change in pending:
            assert not answer.done
            engine.apply([change])
    assert answer.done and queue.message_count == 0 and stored(engine, queue.queue_id) == []


def test_a_long_purge_that_the_store_refuses_midway_says_so_and_keeps_the_rest() -> None:
    store = FullStore()
    engine = ManualEngine(store)
    queue, sender, answer = engine.create(), engine.sender(), Answer()
    for _ in range(4500):
        engine.manager.send(sender, Message(delivery_guarantee=1), Answer())
    engine.commit()
    engine.manager.purge(queue, engine.admin, answer)
    engine.apply(engine.manager.take_pending())
    store.error = FULL
    engine.commit()
    assert failure(answer) == FULL.code
    assert len(queue.available) == queue.message_count == len(stored(engine, queue.queue_id)) == 2500
    assert queue.total_bytes == engine.manager.core.total_bytes == 2500 * 120
    store.error = None
    purge(engine)
    assert queue.message_count == 0


@pytest.mark.spec("MQ-067", "DM-128")
def test_a_purged_outgoing_queue_answers_deleted_and_fills_the_dead_letter_queue(engine: ManualEngine) -> None:
    admin = engine.create(r".\private$\admin")
    engine.send(engine.sender(REMOTE), acknowledged(body=b"x", negative_journaling_requested=True))
    (outgoing,) = engine.manager.core.outgoing.values()
    engine.do(engine.manager.purge, outgoing, engine.admin)
    assert outgoing.message_count == 0 and classes(engine, admin) == [0x8001]
    (dead,) = [engine.receive(engine.open(r"DIRECT=OS:.\SYSTEM$;DEADLETTER"))]
    assert (dead.body, dead.failure_reason) == (b"x", 0x8001)


@pytest.mark.spec("MQ-067")
@pytest.mark.parametrize("kept", [True, False])
def test_a_message_under_way_when_its_outgoing_queue_is_purged_answers_deleted_too(
    engine: ManualEngine, kept: bool
) -> None:
    admin = engine.create(r".\private$\admin")
    engine.send(engine.sender(REMOTE), acknowledged())
    (outgoing,) = engine.manager.core.outgoing.values()
    reader = engine.open(REMOTE, QueueAccessType.RECEIVE_ADMIN)
    held = engine.receive(reader, two_phase=True)
    engine.do(engine.manager.purge, outgoing, engine.admin)
    if kept:
        engine.manager.close(reader)
        engine.commit()
    else:
        engine.do(engine.manager.receive_end, held, delete=False)
    assert outgoing.message_count == 0 and classes(engine, admin) == [0x8001]


@pytest.mark.spec("DM-128", "MQ-068")
def test_deleting_a_queue_tells_the_senders_of_every_message_in_it_locked_ones_too(engine: ManualEngine) -> None:
    queue, admin = engine.create(transactional=True), engine.create(r".\private$\admin")
    fill, holding = engine.manager.begin(), engine.manager.begin()
    sent = [engine.send(engine.sender(), acknowledged(), transaction=fill) for _ in range(3)]
    commit(engine, fill)
    engine.receive(engine.open(), transaction=holding)
    delete(engine)
    nacks = [m for m in _all(engine) if m.message_class != 2]
    assert [n.message_class for n in nacks] == [0xC000] * 3
    assert sorted(n.correlation_id for n in nacks) == sorted(i.to_bytes() for i in sent)
    assert stored(engine, queue.queue_id) == [] and admin.message_count == 0
    core = engine.manager.core
    assert core.total_bytes == sum(q.total_bytes for q in core.queues.values()) == 0
    commit(engine, holding)


def _all(engine: ManualEngine) -> list[Message]:
    reader = engine.open(r"DIRECT=OS:.\private$\admin")
    count = engine.manager.find_queue(r".\private$\admin").message_count
    return [engine.receive(reader) for _ in range(count)]


@pytest.mark.spec("DM-128")
def test_every_removal_says_why(engine: ManualEngine) -> None:
    engine.create()
    sender, reader = engine.sender(), engine.open()
    engine.send(sender)
    engine.receive(reader)
    engine.send(sender)
    purge(engine)
    engine.send(sender, time_to_be_received=1)
    engine.advance(1)
    engine.send(sender)
    delete(engine)
    reasons = [event.reason for event in engine.events if isinstance(event, MessageDeleted)]
    assert reasons == [0x4000, 0xC001, 0xC002, 0xC000]


@pytest.mark.spec("DM-128")
def test_a_message_sent_into_a_queue_that_is_deleted_before_the_commit_is_not_lost_silently(
    engine: ManualEngine,
) -> None:
    engine.create(transactional=True)
    admin = engine.create(r".\private$\admin")
    transaction = engine.manager.begin()
    engine.send(engine.sender(), acknowledged(negative_journaling_requested=True), transaction=transaction)
    delete(engine)
    commit(engine, transaction)
    assert classes(engine, admin) == [0xC000]
    assert system_queue(engine, "DEADXACT").message_count == 1
    assert engine.manager.core.total_bytes == admin.total_bytes


@pytest.mark.spec("DM-128")
def test_a_send_under_way_when_the_queue_is_deleted_hears_of_it(engine: ManualEngine) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    answer = Answer()
    engine.manager.send(engine.sender(), acknowledged(delivery_guarantee=1), answer)
    deleted = Answer()
    engine.manager.delete_queue(queue, engine.admin, deleted)
    engine.commit()
    assert answer.done and deleted.result() is None
    assert classes(engine, admin) == [0x0002, 0xC000]
    assert stored(engine, queue.queue_id) == []
    core = engine.manager.core
    assert core.total_bytes == sum(q.total_bytes for q in core.queues.values())


@pytest.mark.spec("MQ-210")
def test_a_deleted_queue_cannot_be_changed_purged_or_deleted(engine: ManualEngine) -> None:
    queue = engine.create()
    delete(engine)
    manager, admin = engine.manager, engine.admin
    with refused("QUEUE_DELETED"):
        engine.do(manager.delete_queue, queue, admin)
    with refused("QUEUE_DELETED"):
        engine.do(manager.set_queue_properties, queue, {"label": "x"}, admin)
    with refused("QUEUE_DELETED"):
        engine.do(manager.purge, queue, admin)
    assert all(record.queue_id != queue.queue_id for record in engine.store.load().queues)


@pytest.mark.spec("MQ-210")
def test_deleting_twice_in_one_batch_is_refused_the_second_time(engine: ManualEngine) -> None:
    queue, first, second = engine.create(), Answer(), Answer()
    engine.manager.delete_queue(queue, engine.admin, first)
    with refused("QUEUE_DELETED"):
        engine.manager.delete_queue(queue, engine.admin, second)
    engine.commit()
    assert first.result() is None and code("QUEUE_DELETED") == 0xC00E005A


def test_a_deleted_queue_is_gone_after_a_restart_with_its_messages_journal_and_subqueues(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    queue = engine.create(journaling=True)
    for _ in range(3):
        engine.send(engine.sender(), delivery_guarantee=RECOVERABLE)
    message = engine.receive(engine.open())
    assert message is not None
    target = engine.open(r"DIRECT=OS:.\private$\q;s", QueueAccessType.MOVE)
    engine.do(lambda reply: engine.manager.move(engine.open(), next(iter(queue.available)), target, reply))
    delete(engine)
    assert list(engine.store.load_index()) == []
    again = engine.restart()
    with refused("QUEUE_NOT_FOUND"):
        again.manager.find_queue(r".\private$\q")
    again.create()
