"""Defects that random histories found (tests/properties/test_queue_manager_model.py), each as a short history."""

import pytest

from lior.errors import MessageStorageFailed, TransactionUsage
from lior.message import Message, MessageClass
from lior.queues.descriptor import OpenQueueDescriptor, QueueAccessType, TwoPhaseRead
from lior.queues.outgoing import OutgoingQueue, OutgoingState
from lior.queues.queue import Queue
from lior.queues.transaction import Transaction
from lior.testing.engine import Answer, ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import QUEUE, REMOTE, abort, acknowledged, commit, messages, stored, system_queue

SUB = QUEUE + ";sub"
FULL = MessageStorageFailed("no room on the disk")


def fail(engine: ManualEngine) -> None:
    """The batch that is pending cannot be stored."""
    engine.manager.failed(engine.manager.take_pending(), FULL)


def sent_in(engine: ManualEngine, sender: OpenQueueDescriptor, **fields: object) -> Transaction:
    transaction = engine.manager.begin()
    engine.send(sender, Message(**fields), transaction)  # type: ignore[arg-type]
    return transaction


def held(engine: ManualEngine, **fields: object) -> tuple[Queue, Transaction, OpenQueueDescriptor]:
    """A transactional queue with one message, which an open transaction holds."""
    queue = engine.create(transactional=True)
    commit(engine, sent_in(engine, engine.sender(), body=b"precious", **fields))
    reader = engine.open()
    transaction = engine.manager.begin()
    engine.receive(reader, transaction=transaction)
    return queue, transaction, reader


def start(engine: ManualEngine, call: str, transaction: Transaction) -> Answer:
    answer = Answer()
    getattr(engine.manager, call)(transaction.identifier, answer)
    return answer


def start_deletion(engine: ManualEngine, queue: Queue) -> Answer:
    answer = Answer()
    engine.manager.delete_queue(queue, engine.admin, answer)
    return answer


@pytest.mark.parametrize("call", ["commit", "abort"])
def test_an_end_asked_for_before_the_preparation_is_stored_does_not_count_on_it(host: Host, call: str) -> None:
    """The commit moved messages out of a preparation that never got to the disk: they were lost."""
    engine = host.engine
    engine.create(transactional=True)
    transaction = sent_in(engine, engine.sender(), body=b"payment")
    prepared = start(engine, "prepare", transaction)
    changes = engine.manager.take_pending()
    ended = start(engine, call, transaction)
    engine.manager.failed(changes, FULL)
    engine.commit()
    assert prepared.error is FULL
    ended.result()
    engine = host.crash()
    expected = [b"payment"] if call == "commit" else []
    assert engine.bodies(engine.manager.find_queue(r".\private$\q")) == expected
    assert not engine.manager.core.transactions


def test_an_end_that_fails_together_with_its_preparation_ends_the_transaction(engine: ManualEngine) -> None:
    queue, transaction, _ = held(engine)
    start(engine, "prepare", transaction)
    ended = start(engine, "commit", transaction)
    fail(engine)
    assert ended.error is FULL
    assert not engine.manager.core.transactions
    assert engine.bodies(queue) == [b"precious"]


def test_a_prepared_send_keeps_its_time_to_be_received_over_a_restart(host: Host) -> None:
    engine = host.engine
    engine.create(transactional=True)
    transaction = sent_in(engine, engine.sender(), time_to_be_received=5, negative_journaling_requested=True)
    start(engine, "prepare", transaction)
    engine.commit()
    commit(engine, transaction)
    engine.clock.advance(6)
    engine = host.crash()
    assert engine.bodies(engine.manager.find_queue(r".\private$\q")) == []
    assert len(messages(engine, system_queue(engine, "DEADXACT"))) == 1


def test_a_message_on_its_way_into_a_queue_that_is_deleted_goes_with_its_reason(engine: ManualEngine) -> None:
    """It was answered as sent and then vanished without a trace."""
    queue = engine.create(transactional=True)
    transaction = sent_in(engine, engine.sender(), body=b"precious", negative_journaling_requested=True)
    sent = start(engine, "commit", transaction)
    deleted = start_deletion(engine, queue)
    engine.commit()
    sent.result()
    deleted.result()
    [letter] = messages(engine, system_queue(engine, "DEADXACT"))
    assert (letter.body, letter.failure_reason) == (b"precious", MessageClass.NACK_Q_DELETED)


@pytest.mark.parametrize("call", ["commit", "abort"])
def test_a_transaction_ends_while_the_queue_of_its_message_is_being_deleted(engine: ManualEngine, call: str) -> None:
    queue, transaction, _ = held(engine, negative_journaling_requested=True)
    deleted = start_deletion(engine, queue)
    ended = start(engine, call, transaction)
    engine.commit()
    deleted.result()
    ended.result()
    assert len(messages(engine, system_queue(engine, "DEADXACT"))) == 1
    assert engine.manager.core.total_bytes == 0


def test_a_reader_leaves_while_the_queue_of_its_message_is_being_deleted(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), delivery_guarantee=1)
    reader = engine.open()
    assert isinstance(engine.receive(reader, two_phase=True), TwoPhaseRead)
    deleted = start_deletion(engine, queue)
    engine.manager.close(reader)
    engine.commit()
    deleted.result()
    assert engine.manager.core.total_bytes == 0


def test_a_held_message_outlives_a_deletion_that_failed(engine: ManualEngine) -> None:
    """It was marked as purged and vanished when its transaction ended."""
    queue, transaction, _ = held(engine)
    start_deletion(engine, queue)
    fail(engine)
    abort(engine, transaction)
    assert engine.bodies(queue) == [b"precious"]


def test_a_held_message_is_back_when_its_holder_ended_during_a_deletion_that_failed(engine: ManualEngine) -> None:
    queue, transaction, _ = held(engine)
    start_deletion(engine, queue)
    changes = engine.manager.take_pending()
    start(engine, "abort", transaction)
    engine.manager.failed(changes, FULL)
    engine.commit()
    assert engine.bodies(queue) == [b"precious"]


def test_a_move_in_a_transaction_arrives_though_the_target_handle_was_closed(engine: ManualEngine) -> None:
    """The empty subqueue was forgotten, and the commit deleted the message."""
    queue = engine.create(transactional=True)
    commit(engine, sent_in(engine, engine.sender(), body=b"precious"))
    source, target = engine.open(), engine.open(SUB, QueueAccessType.MOVE)
    transaction = engine.manager.begin()
    [lookup_id] = queue.available
    engine.do(engine.manager.move, source, lookup_id, target, transaction=transaction)
    engine.manager.close(target)
    commit(engine, transaction)
    assert engine.bodies(queue.subqueues["sub"]) == [b"precious"]


def test_a_move_that_is_given_up_leaves_no_subqueue_behind(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), delivery_guarantee=1)
    source, target = engine.open(), engine.open(SUB, QueueAccessType.MOVE)
    [lookup_id] = queue.available
    engine.manager.move(source, lookup_id, target, Answer())
    engine.manager.close(target)
    fail(engine)
    assert not queue.subqueues
    assert len(queue.available) == 1


def test_a_subqueue_emptied_just_before_a_crash_is_forgotten(host: Host) -> None:
    engine = host.engine
    queue = engine.create()
    engine.send(engine.sender(), delivery_guarantee=1)
    target = engine.open(SUB, QueueAccessType.MOVE)
    engine.do(engine.manager.move, engine.open(), queue.available.first(), target)
    engine.manager.close(target)
    reader = engine.open(SUB)
    engine.start_receive(reader, timeout_ms=0)
    engine.commit()
    engine.manager.close(reader)  # its DeleteQueue is pending when the crash comes
    engine = host.crash()
    assert not engine.manager.find_queue(r".\private$\q").subqueues


def test_the_store_forgets_a_prepared_send_that_its_queue_refuses(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    transaction = sent_in(engine, engine.sender())
    late = sent_in(engine, engine.sender(), time_to_be_received=0)
    for each in (transaction, late):
        start(engine, "prepare", each)
    engine.commit()
    commit(engine, late)
    start_deletion(engine, queue)
    engine.commit()
    commit(engine, transaction)
    assert stored(engine, 0) == []


def test_an_abort_that_failed_is_not_counted(engine: ManualEngine) -> None:
    queue, transaction, _ = held(engine)
    start(engine, "prepare", transaction)
    engine.commit()
    start(engine, "abort", transaction)
    fail(engine)
    abort(engine, transaction)
    assert [message.abort_count for message in messages(engine, queue)] == [1]


def test_a_message_whose_receive_failed_does_not_outlive_a_purge(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), delivery_guarantee=1)
    engine.start_receive(engine.open(), timeout_ms=0)
    changes = engine.manager.take_pending()
    purged = Answer()
    engine.manager.purge(queue, engine.admin, purged)
    engine.manager.failed(changes, FULL)
    engine.commit()
    purged.result()
    assert queue.message_count == 0


def test_a_purge_finds_a_message_that_left_memory_meanwhile() -> None:
    engine = ManualEngine(cache_bytes=0)
    queue = engine.create(transactional=True)
    commit(engine, sent_in(engine, engine.sender()))
    reader, first, second = engine.open(), engine.manager.begin(), engine.manager.begin()
    engine.receive(reader, transaction=first)
    start(engine, "abort", first)
    engine.manager.purge(queue, engine.admin, Answer())
    pending = engine.manager.take_pending()
    engine.apply(pending[:1])
    engine.receive(reader, transaction=second)
    engine.apply(pending[1:])
    engine.commit()
    abort(engine, second)
    assert queue.message_count == 0


def test_a_purged_message_is_not_kept_until_it_expires_when_its_removal_failed(engine: ManualEngine) -> None:
    queue, transaction, _ = held(engine, time_to_be_received=86400)
    engine.do(engine.manager.purge, queue, engine.admin)
    start(engine, "abort", transaction)
    fail(engine)  # the removal that the end of the lock asked for
    assert queue.message_count == 1
    engine.advance(2)
    assert queue.message_count == 0


def test_a_read_that_waits_at_a_cursor_gets_the_message_whose_receive_there_failed(engine: ManualEngine) -> None:
    engine.create()
    engine.send(engine.sender(), delivery_guarantee=1, body=b"precious")
    reader = engine.open()
    cursor = engine.manager.open_cursor(reader)
    engine.start_receive(reader, cursor=cursor)
    waiting = engine.start_receive(reader, cursor=cursor)
    fail(engine)
    engine.commit()
    assert waiting.result().body == b"precious"


def test_acknowledgements_do_not_take_the_room_of_further_copies() -> None:
    """The queue manager's quota was exceeded by the acknowledgement of the first copy."""
    engine = ManualEngine(queue_manager_quota=1)
    for name in ("a", "admin", "b"):
        engine.create(rf".\private$\{name}")
    both = engine.sender(r"DIRECT=OS:.\private$\a,DIRECT=OS:.\private$\b")
    engine.send(both, acknowledged(body=bytes(380)))
    assert engine.manager.core.total_bytes <= 1024
    assert len(engine.bodies(engine.manager.find_queue(r".\private$\b"))) == 1


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_rejecting_what_another_holds_is_the_same_error_in_and_out_of_memory(cache_bytes: int) -> None:
    engine = ManualEngine(cache_bytes=cache_bytes)
    queue = engine.create(transactional=True)
    commit(engine, sent_in(engine, engine.sender()))
    lookup_id = queue.available.first()
    with pytest.raises(TransactionUsage):
        engine.do(engine.manager.reject, engine.open(), lookup_id, engine.manager.begin())


def test_the_hold_of_an_outgoing_queue_that_never_had_a_message_survives_a_restart(host: Host) -> None:
    engine = host.engine
    queue = engine.sender(REMOTE).queue
    assert isinstance(queue, OutgoingQueue)
    engine.do(engine.manager.administration.pause, queue, engine.admin)
    engine = host.crash()
    [again] = engine.manager.core.outgoing.values()
    assert again.state is OutgoingState.ON_HOLD


def test_a_purge_beside_one_that_fails_answers_only_when_its_messages_are_gone() -> None:
    engine = ManualEngine()
    queue = engine.create()
    engine.send(engine.sender(), body=b"x", delivery_guarantee=1)
    first, second = Answer(), Answer()
    engine.manager.purge(queue, engine.admin, first)
    engine.manager.purge(queue, engine.admin, second)
    failing, following = engine.manager.take_pending()
    engine.manager.failed([failing], MessageStorageFailed("full"))
    engine.apply([following])
    assert isinstance(first.error, MessageStorageFailed)
    assert not second.done, "answered while the message is on disk"
    engine.commit()
    assert second.result() is None
    assert queue.message_count == 0
    assert not list(engine.store.load_index())
