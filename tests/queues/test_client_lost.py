"""A client that went without goodbye ([MS-MQDMPR] 3.1.7.1.6): what it held is free, what is prepared stays."""

import pytest

from lior.errors import OperationCancelled, SharingViolation
from lior.queues.descriptor import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from lior.queues.queue import Queue
from lior.queues.transaction import Transaction, TransactionState
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import FULL, QUEUE, REMOTE, commit, failure, refused

A = QueueAccessType


def filled(engine: ManualEngine, *bodies: bytes) -> Queue:
    queue = engine.create(transactional=True)
    fill = engine.manager.begin()
    for body in bodies:
        engine.send(engine.sender(), body=body, transaction=fill)
    commit(engine, fill)
    return queue


def lose(engine: ManualEngine, *held: OpenQueueDescriptor | Transaction) -> None:
    handles = [thing for thing in held if isinstance(thing, OpenQueueDescriptor)]
    transactions = [thing for thing in held if isinstance(thing, Transaction)]
    engine.manager.client_lost(handles, transactions)
    engine.commit()


@pytest.mark.spec("DM-097")
def test_messages_it_received_in_a_transaction_return_and_what_it_sent_vanishes(engine: ManualEngine) -> None:
    queue = filled(engine, b"1", b"2")
    reader, sender, transaction = engine.open(), engine.sender(), engine.manager.begin()
    engine.receive(reader, transaction=transaction)
    engine.send(sender, body=b"never", transaction=transaction)
    lose(engine, reader, sender, transaction)
    assert engine.bodies(queue) == [b"1", b"2"]
    assert engine.receive(engine.open()).abort_count == 1
    assert queue.uncommitted_bytes == 0
    assert engine.manager.core.transactions == {}
    assert transaction.state is TransactionState.ENDED


@pytest.mark.spec("DM-097")
def test_the_exclusive_share_is_free_at_once(engine: ManualEngine) -> None:
    engine.create()
    reader = engine.open(share=QueueShareMode.DENY_RECEIVE)
    with pytest.raises(SharingViolation):
        engine.open()
    engine.manager.client_lost([reader], [])
    assert engine.open().queue is not None
    assert reader.closed and reader.handle not in engine.manager.opening.descriptors


@pytest.mark.spec("DM-097")
def test_a_read_that_waited_for_it_takes_no_message(engine: ManualEngine) -> None:
    queue = filled(engine)
    reader, transaction = engine.open(), engine.manager.begin()
    waits = [engine.start_receive(reader), engine.start_receive(reader, transaction=transaction)]
    lose(engine, reader, transaction)
    for wait in waits:
        assert isinstance(wait.error, OperationCancelled)
    fill = engine.manager.begin()
    engine.send(engine.sender(), body=b"x", transaction=fill)
    commit(engine, fill)
    assert engine.bodies(queue) == [b"x"]


@pytest.mark.spec("DM-097")
def test_a_message_between_the_two_phases_returns(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), body=b"x")
    reader = engine.open()
    held = engine.receive(reader, two_phase=True)
    cursor = engine.manager.open_cursor(reader)
    lose(engine, reader)
    assert engine.bodies(queue) == [b"x"]
    assert cursor.handle not in reader.cursors
    with refused("TRANSACTION_SEQUENCE"):
        engine.do(engine.manager.receive_end, held, delete=True)


@pytest.mark.spec("DM-097")
def test_handles_of_several_queues_and_handles_closed_already_are_no_obstacle(engine: ManualEngine) -> None:
    engine.create()
    several, closed, other = engine.sender(f"{QUEUE},{REMOTE}"), engine.open(), engine.open()
    engine.manager.close(closed)
    lose(engine, closed, several, *several.children, other)
    assert engine.manager.opening.descriptors == {}
    assert engine.manager.active_queues() == []


@pytest.mark.spec("DM-097")
def test_the_handles_and_transactions_of_others_stay(engine: ManualEngine) -> None:
    queue = filled(engine, b"1", b"2")
    mine, theirs = engine.manager.begin(), engine.manager.begin()
    readers = engine.open(), engine.open()
    for reader, transaction in zip(readers, (mine, theirs), strict=True):
        engine.receive(reader, transaction=transaction)
    lose(engine, readers[0], mine)
    assert engine.bodies(queue) == [b"1"]
    assert not readers[1].closed
    commit(engine, theirs)
    assert queue.message_count == 1


@pytest.mark.spec("DM-097")
def test_a_prepared_transaction_stays_for_its_coordinator(engine: ManualEngine) -> None:
    queue = filled(engine, b"1")
    reader, transaction = engine.open(), engine.manager.begin(single_phase=False)
    engine.receive(reader, transaction=transaction)
    engine.do(engine.manager.prepare, transaction.identifier)
    lose(engine, reader, transaction)
    assert transaction.state is TransactionState.PREPARED
    assert queue.message_count == 1 and engine.bodies(queue) == []
    commit(engine, transaction)
    assert queue.message_count == 0


@pytest.mark.spec("DM-097")
def test_a_preparation_under_way_stays_if_it_gets_to_the_disk(engine: ManualEngine) -> None:
    queue = filled(engine, b"1")
    transaction = engine.manager.begin(single_phase=False)
    engine.receive(engine.open(), transaction=transaction)
    answer = Answer()
    engine.manager.prepare(transaction.identifier, answer)
    lose(engine, transaction)
    assert answer.result() is None
    assert transaction.state is TransactionState.PREPARED
    assert engine.bodies(queue) == []


@pytest.mark.spec("DM-097")
@pytest.mark.parametrize("together", [True, False])
def test_a_preparation_that_fails_is_aborted_for_nobody_else_would(engine: ManualEngine, together: bool) -> None:
    queue = filled(engine, b"1")
    transaction = engine.manager.begin(single_phase=False)
    engine.receive(engine.open(), transaction=transaction)
    answer = Answer()
    engine.manager.prepare(transaction.identifier, answer)
    pending = [] if together else engine.manager.take_pending()
    engine.manager.client_lost([], [transaction])
    engine.manager.failed(pending or engine.manager.take_pending(), FULL)
    engine.commit()
    assert failure(answer) == FULL.code
    assert engine.bodies(queue) == [b"1"]
    assert engine.manager.core.transactions == {}


@pytest.mark.spec("DM-097")
def test_a_commit_under_way_is_not_taken_back(engine: ManualEngine) -> None:
    queue = filled(engine)
    sender, transaction = engine.sender(), engine.manager.begin()
    engine.send(sender, body=b"kept", transaction=transaction)
    answer = Answer()
    engine.manager.commit(transaction.identifier, answer)
    lose(engine, sender, transaction, transaction)
    assert answer.result() is None
    assert engine.bodies(queue) == [b"kept"]


@pytest.mark.spec("DM-097")
def test_locks_end_even_when_the_disk_takes_nothing(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    fill = engine.manager.begin()
    engine.send(engine.sender(), body=b"x", delivery_guarantee=1, transaction=fill)
    commit(engine, fill)
    reader, transaction = engine.open(), engine.manager.begin()
    engine.receive(reader, transaction=transaction)
    engine.manager.client_lost([reader], [transaction])
    engine.manager.failed(engine.manager.take_pending(), FULL)
    assert engine.bodies(queue) == [b"x"]
    assert engine.manager.core.transactions == {}
