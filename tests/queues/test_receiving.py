"""Receive and peek without a cursor; what is there again after a restart."""

from pathlib import Path

import pytest

from lior.message import Message
from lior.queues.descriptor import QueueAccessType
from lior.store.sqlite import SqliteStore
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import (
    QUEUE,
    RECOVERABLE,
    REMOTE,
    acknowledged,
    classes,
    code,
    failure,
    messages,
    refused,
    stored,
)


@pytest.mark.spec("DM-104")
@pytest.mark.parametrize("guarantee", [0, 1])
def test_receives_the_only_message_of_a_queue(engine: ManualEngine, guarantee: int) -> None:
    queue = engine.create()
    engine.send(engine.sender(), body=b"one", delivery_guarantee=guarantee)
    assert engine.receive(engine.open()).body == b"one"
    assert (queue.message_count, queue.total_bytes, engine.manager.core.total_bytes) == (0, 0, 0)
    assert stored(engine, queue.queue_id) == []


@pytest.mark.spec("DM-104", "DM-134", "MQ-207")
def test_receives_in_order_and_then_times_out(engine: ManualEngine) -> None:
    engine.create()
    for body, priority in ((b"low", 0), (b"first", 4), (b"second", 4), (b"high", 7)):
        engine.send(engine.sender(), body=body, priority=priority)
    reader = engine.open()
    assert [engine.receive(reader).body for _ in range(4)] == [b"high", b"first", b"second", b"low"]
    with refused("IO_TIMEOUT"):
        engine.receive(reader)
    with refused("IO_TIMEOUT"):
        engine.peek(reader)


@pytest.mark.spec("DM-114")
def test_a_peek_leaves_the_message(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), body=b"x")
    reader = engine.open(access=QueueAccessType.PEEK)
    assert [engine.peek(reader).body, engine.peek(reader).body] == [b"x", b"x"]
    assert queue.message_count == 1


@pytest.mark.spec("DM-134")
def test_skips_a_locked_head(engine: ManualEngine) -> None:
    engine.create(transactional=True)
    fill = engine.manager.begin()
    for body in (b"one", b"two"):
        engine.send(engine.sender(), body=body, transaction=fill)
    engine.do(engine.manager.commit, fill.identifier)
    reader = engine.open()
    held = engine.receive(reader, transaction=engine.manager.begin())
    assert held.body == b"one"
    assert engine.peek(reader).body == b"two"
    assert engine.receive(reader).body == b"two"


@pytest.mark.spec("DM-106")
def test_a_plain_receive_deletes_and_says_so_to_the_sender(engine: ManualEngine) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    engine.send(engine.sender(), acknowledged())
    assert classes(engine, admin) == [0x0002]
    engine.receive(engine.open())
    assert classes(engine, admin) == [0x0002, 0x4000] and queue.message_count == 0


@pytest.mark.spec("DM-106")
def test_a_receive_is_answered_after_its_commit_and_hides_the_message_before(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), delivery_guarantee=RECOVERABLE)
    reader = engine.open()
    answer = engine.start_receive(reader, timeout_ms=0)
    assert not answer.done and len(stored(engine, queue.queue_id)) == 1
    with refused("IO_TIMEOUT"):
        engine.peek(reader)
    engine.commit()
    assert answer.done and stored(engine, queue.queue_id) == []


@pytest.mark.spec("DM-106")
def test_a_recoverable_send_is_neither_visible_nor_answered_before_its_commit(engine: ManualEngine) -> None:
    queue, answer = engine.create(), Answer()
    engine.manager.send(engine.sender(), Message(delivery_guarantee=1), answer)
    assert not answer.done and queue.message_count == 0 and stored(engine, queue.queue_id) == []
    engine.commit()
    assert answer.done and queue.message_count == 1 and len(stored(engine, queue.queue_id)) == 1


def test_an_express_message_does_not_overtake_a_recoverable_one_sent_before_it(engine: ManualEngine) -> None:
    queue, sender = engine.create(), engine.sender()
    engine.manager.send(sender, Message(body=b"1", delivery_guarantee=1), Answer())
    express = Answer()
    engine.manager.send(sender, Message(body=b"2"), express)
    assert not express.done
    engine.commit()
    assert engine.bodies(queue) == [b"1", b"2"]


@pytest.mark.spec("DM-107", "MQ-210")
def test_reading_through_a_handle_whose_queue_was_deleted_is_queue_not_available(engine: ManualEngine) -> None:
    queue, reader = engine.create(), engine.open()
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    for read in (engine.receive, engine.peek):
        with refused("QUEUE_NOT_AVAILABLE"):
            read(reader)
    with refused("QUEUE_NOT_AVAILABLE"):
        engine.do(lambda reply: engine.manager.read_by_lookup(reader, reply, lookup_id=1))


@pytest.mark.spec("DM-107")
def test_a_blocked_receiver_learns_that_its_queue_was_deleted(engine: ManualEngine) -> None:
    queue = engine.create()
    answer = engine.start_receive(engine.open())
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    assert failure(answer) == code("QUEUE_NOT_AVAILABLE")


@pytest.mark.spec("MQ-207")
def test_a_handle_opened_to_peek_cannot_receive(engine: ManualEngine) -> None:
    engine.create()
    with refused("ACCESS_DENIED"):
        engine.receive(engine.open(access=QueueAccessType.PEEK))
    with refused("ACCESS_DENIED"):
        engine.peek(engine.sender())


@pytest.mark.spec("DM-040", "DM-143")
@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_keeps_recoverable_messages_and_forgets_express_ones(tmp_path: Path, clean: bool) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    engine.create()
    engine.create(r".\private$\t", transactional=True)
    for name in (QUEUE, REMOTE):
        for body, guarantee in ((b"express", 0), (b"kept", 1)):
            engine.send(engine.sender(name), body=body, delivery_guarantee=guarantee)
    done, open_still = engine.manager.begin(), engine.manager.begin()
    to_t = engine.sender(r"DIRECT=OS:.\private$\t")
    engine.send(to_t, body=b"committed", transaction=done)
    engine.do(engine.manager.commit, done.identifier)
    engine.send(to_t, body=b"uncommitted", transaction=open_still)
    remote = engine.send(engine.sender(REMOTE), transaction=(sent := engine.manager.begin()), body=b"in a transaction")
    engine.do(engine.manager.commit, sent.identifier)
    assert remote is not None
    before = {q.name: [m.lookup_identifier for m in messages(engine, q) if m.is_recoverable]
              for q in engine.manager.core.queues.values()}  # fmt: skip
    again = engine.restart(clean=clean)
    find = again.manager.core
    assert again.bodies(again.manager.find_queue(r".\private$\q")) == [b"kept"]
    assert again.bodies(again.manager.find_queue(r".\private$\t")) == [b"committed"]
    (outgoing,) = find.outgoing.values()
    assert again.bodies(outgoing) == [b"kept", b"in a transaction"]
    after = {q.name: list(q.available) for q in find.queues.values()}
    assert after == before
    assert find.total_bytes == sum(q.total_bytes for q in find.queues.values())


@pytest.mark.spec("DM-030")
def test_a_message_held_by_a_transaction_at_the_crash_is_available_afterwards(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    engine.create(transactional=True)
    fill = engine.manager.begin()
    engine.send(engine.sender(), body=b"x", transaction=fill)
    engine.do(engine.manager.commit, fill.identifier)
    lookup_id = engine.receive(engine.open(), transaction=engine.manager.begin()).lookup_identifier
    again = engine.restart()
    found = again.receive(again.open())
    assert (found.body, found.lookup_identifier) == (b"x", lookup_id)


def test_a_long_backlog_with_a_small_cache_drains_in_order() -> None:
    engine = ManualEngine(cache_bytes=1000)
    queue, sender = engine.create(), engine.sender()
    for number in range(200):
        engine.send(sender, body=b"%d" % number, delivery_guarantee=number % 2, priority=number % 3)
    order = sorted(range(200), key=lambda number: (-(number % 3), number))
    reader = engine.open()
    assert [int(engine.receive(reader).body) for _ in range(200)] == order
    assert (queue.positions, queue.total_bytes, engine.manager.core.cache.used) == ({}, 0, 0)
