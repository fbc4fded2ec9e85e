"""Time to be received, time to reach the queue, and what follows ([MS-MQDMPR] 3.1.2.4, 3.1.7.2.7)."""

from pathlib import Path
from time import perf_counter
from uuid import UUID

import pytest

from lior.message import NULL_GUID, Message, MessageClass, MessageTransaction
from lior.queues.change import Change
from lior.queues.expiry import ExpiryQueue
from lior.store.sqlite import SqliteStore
from lior.testing.clock import FakeClock
from lior.testing.engine import ManualEngine
from tests.queues.scenario import (
    RECOVERABLE,
    REMOTE,
    abort,
    acknowledged,
    classes,
    commit,
    messages,
    refused,
    system_queue,
)

REMOTE_SOURCE = UUID(int=77)


def arrive(engine: ManualEngine, message: Message) -> None:
    """A message of another queue manager comes over the network."""
    if message.source_queue_manager == NULL_GUID:
        message.source_queue_manager = REMOTE_SOURCE
    message.sent_time = message.sent_time or engine.clock.wall()
    change = Change()
    queue = engine.manager.find_queue(r".\private$\q")
    assert engine.manager.sending.accept(queue, message, None, change) == 0
    engine.manager.core.submit(change)
    engine.commit()


@pytest.mark.spec("DM-062", "DM-048")
def test_a_message_without_a_time_to_be_received_stays(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender())
    assert len(engine.manager.core.expiries) == 0
    engine.advance(10 * 365 * 86400)
    assert queue.message_count == 1


@pytest.mark.spec("DM-062")
@pytest.mark.parametrize("wall", [1_700_000_000.0, 1_700_000_000.5, 1_700_000_000.999])
def test_a_message_with_no_time_at_all_is_never_visible(wall: float) -> None:
    engine = ManualEngine(clock=FakeClock(wall))
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    waiting = engine.start_receive(engine.open())
    engine.send(engine.sender(), acknowledged(time_to_be_received=0, negative_journaling_requested=True))
    assert queue.message_count == 0 and not waiting.done
    assert classes(engine, admin) == [0xC002] and system_queue(engine, "DEADLETTER").message_count == 1


@pytest.mark.spec("DM-062", "DM-131", "MQ-068", "MQ-082")
@pytest.mark.parametrize("guarantee", [0, 1])
def test_a_message_expires_its_seconds_after_it_was_sent(engine: ManualEngine, guarantee: int) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    sent = engine.send(engine.sender(), acknowledged(time_to_be_received=10, delivery_guarantee=guarantee))
    engine.advance(9.9)
    assert queue.message_count == 1
    engine.advance(0.2)
    assert (queue.message_count, queue.total_bytes) == (0, 0)
    assert classes(engine, admin) == [0x0002, 0xC002]
    assert messages(engine, admin)[1].correlation_id == sent.to_bytes()


@pytest.mark.spec("DM-048", "DM-062", "MQ-082")
def test_the_time_counts_from_the_sending_not_from_the_arrival(engine: ManualEngine) -> None:
    queue = engine.create()
    arrive(engine, Message(sent_time=engine.clock.wall() - 7, time_to_be_received=10))
    engine.advance(3)
    assert queue.message_count == 0


@pytest.mark.spec("DM-062")
def test_a_received_message_does_not_expire(engine: ManualEngine) -> None:
    engine.create()
    admin = engine.create(r".\private$\admin")
    engine.send(engine.sender(), acknowledged(time_to_be_received=10))
    engine.receive(engine.open())
    engine.advance(20)
    assert classes(engine, admin) == [0x0002, 0x4000]


@pytest.mark.spec("DM-062")
def test_timers_of_a_hundred_thousand_messages_are_one_heap() -> None:
    queue, start = ExpiryQueue(), perf_counter()
    for number in range(100_000):
        queue.add(number * 7919 % 100_000, 1, number)
    due = []
    for now in range(0, 100_000, 1000):
        due += queue.take_due(now, 2000)
    due += queue.take_due(100_000, 100_000)
    assert len({entry.lookup_id for entry in due}) == 100_000 and perf_counter() - start < 10
    assert [number * 7919 % 100_000 for number in (entry.lookup_id for entry in due)] == list(range(100_000))


@pytest.mark.spec("DM-063")
def test_a_message_that_expired_while_we_were_down_is_gone_before_the_first_reader(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    engine.create()
    engine.create(r".\private$\admin")
    for seconds in (5, 60):
        engine.send(engine.sender(), acknowledged(time_to_be_received=seconds, delivery_guarantee=RECOVERABLE))
    engine.clock.advance(10)
    again = engine.restart()
    queue = again.manager.find_queue(r".\private$\q")
    assert [m.time_to_be_received for m in messages(again, queue)] == [60]
    assert classes(again, again.manager.find_queue(r".\private$\admin")) == [2, 2, 0xC002]
    again.advance(50)
    assert queue.message_count == 0


@pytest.mark.spec("DM-131")
@pytest.mark.parametrize("restarted", [False, True])
def test_expired_while_locked_it_goes_at_the_abort_and_counts_as_received_at_the_commit(
    tmp_path: Path, restarted: bool
) -> None:
    for end, answer in ((abort, 0xC002), (commit, 0x4000)):
        engine = ManualEngine(SqliteStore(tmp_path / end.__name__))
        engine.create(transactional=True)
        engine.create(r".\private$\admin")
        fill = engine.manager.begin()
        engine.send(engine.sender(), acknowledged(time_to_be_received=5), transaction=fill)
        commit(engine, fill)
        if restarted:
            engine = engine.restart()
        holding = engine.manager.begin()
        engine.receive(engine.open(), transaction=holding)
        engine.advance(6)
        queue = engine.manager.find_queue(r".\private$\q")
        assert queue.message_count == 1
        end(engine, holding)
        assert queue.message_count == 0 and queue.total_bytes == 0
        assert classes(engine, engine.manager.find_queue(r".\private$\admin")) == [0x0002, answer]


@pytest.mark.spec("DM-131")
def test_a_committed_message_of_a_finished_transaction_expires_by_itself(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    fill = engine.manager.begin()
    engine.send(engine.sender(), time_to_be_received=5, transaction=fill)
    commit(engine, fill)
    engine.advance(5)
    assert queue.message_count == 0 and engine.manager.core.transactions == {}


@pytest.mark.spec("DM-062")
def test_a_transaction_committed_after_the_end_delivers_nothing(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    fill = engine.manager.begin()
    engine.send(engine.sender(), time_to_be_received=5, negative_journaling_requested=True, transaction=fill)
    engine.advance(6)
    commit(engine, fill)
    assert queue.message_count == 0 and system_queue(engine, "DEADXACT").message_count == 1


@pytest.mark.spec("MQ-067")
def test_a_message_that_did_not_leave_in_time_answers_reach_queue_timeout(engine: ManualEngine) -> None:
    admin = engine.create(r".\private$\admin")
    engine.send(engine.sender(REMOTE), acknowledged(time_to_reach_queue=10, time_to_be_received=100))
    engine.advance(10)
    assert classes(engine, admin) == []
    engine.advance(1)
    assert classes(engine, admin) == [0x8002]


@pytest.mark.spec("MQ-068")
def test_a_message_whose_time_to_be_received_ends_at_the_sender_says_so(engine: ManualEngine) -> None:
    admin = engine.create(r".\private$\admin")
    message = acknowledged(time_to_reach_queue=100, time_to_be_received=10, negative_journaling_requested=True)
    engine.send(engine.sender(REMOTE), message)
    engine.advance(10)
    assert classes(engine, admin) == [0xC003]
    assert messages(engine, system_queue(engine, "DEADLETTER"))[0].failure_reason == 0xC003


@pytest.mark.spec("DM-047")
def test_a_message_to_elsewhere_waits_four_days_by_default(engine: ManualEngine) -> None:
    engine.send(engine.sender(REMOTE))
    (outgoing,) = engine.manager.core.outgoing.values()
    engine.advance(345600)
    assert outgoing.message_count == 1
    engine.advance(1)
    assert outgoing.message_count == 0


@pytest.mark.spec("DM-103", "MQ-067")
def test_a_message_that_came_too_late_answers_reach_queue_timeout(engine: ManualEngine) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    late = acknowledged(sent_time=engine.clock.wall() - 20, time_to_reach_queue=10)
    change = Change()
    assert engine.manager.sending.accept(queue, late, None, change) == 3
    engine.manager.removal.refuse(change, queue, late, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
    engine.manager.core.submit(change)
    engine.commit()
    assert queue.message_count == 0 and classes(engine, admin) == [0x8002]


@pytest.mark.spec("DM-132", "DM-043")
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("transactional", [True, False])
def test_the_dead_letter_of_an_expired_message(engine: ManualEngine, local: bool, transactional: bool) -> None:
    """The destination keeps one outside a transaction; one of a transaction is its source's to keep."""
    engine.create(transactional=transactional)
    source = engine.manager.core.properties.identifier if local else REMOTE_SOURCE
    message = Message(
        time_to_be_received=5, negative_journaling_requested=True, source_queue_manager=source,
        transaction=MessageTransaction() if transactional else None, delivery_guarantee=1,
    )  # fmt: skip
    arrive(engine, message)
    engine.advance(5)
    counts = [system_queue(engine, name).message_count for name in ("DEADLETTER", "DEADXACT")]
    assert counts == [0 if transactional else 1, 1 if transactional and local else 0]


def test_without_negative_journaling_an_expired_message_leaves_nothing(engine: ManualEngine) -> None:
    engine.create()
    engine.send(engine.sender(), time_to_be_received=5)
    engine.advance(5)
    assert system_queue(engine, "DEADLETTER").message_count == 0
    with refused("IO_TIMEOUT"):
        engine.receive(engine.open())


def test_dead_letters_and_journals_do_not_expire(engine: ManualEngine) -> None:
    engine.create()
    sender = engine.sender()
    engine.send(sender, time_to_be_received=5, negative_journaling_requested=True)
    engine.send(sender, time_to_be_received=50, positive_journaling_requested=True)
    engine.advance(5)
    engine.advance(100)
    assert system_queue(engine, "DEADLETTER").message_count == 1
    assert system_queue(engine, "JOURNAL").message_count == 1
