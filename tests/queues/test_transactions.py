"""Transactions: all or nothing, in order, with the errors of misuse ([MS-MQDMPR] 3.1.4.3 to 3.1.4.11)."""

from pathlib import Path
from uuid import UUID

import pytest

from lior.message import Message
from lior.queues.descriptor import QueueAccessType
from lior.queues.queue import Queue
from lior.queues.transaction import Dequeue, Enqueue, Move, Transaction, TransactionState
from lior.store.sqlite import SqliteStore
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import (
    QUEUE,
    REMOTE,
    abort,
    acknowledged,
    classes,
    commit,
    messages,
    refused,
    stored,
    system_queue,
)

UNKNOWN = UUID(int=404)


def filled(engine: ManualEngine, *bodies: bytes, path: str = r".\private$\q") -> Queue:
    queue = engine.create(path, transactional=True)
    fill = engine.manager.begin()
    for body in bodies:
        engine.send(engine.sender(f"DIRECT=OS:{path}"), acknowledged(body=body), transaction=fill)
    commit(engine, fill)
    return queue


@pytest.mark.spec("DM-102", "DM-070")
def test_an_uncommitted_send_is_invisible_to_all_and_the_commit_wakes_the_reader(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    transaction = engine.manager.begin()
    engine.send(engine.sender(), body=b"x", transaction=transaction)
    with refused("IO_TIMEOUT"):
        engine.peek(engine.open())
    with refused("IO_TIMEOUT"):
        engine.receive(engine.open(), transaction=transaction)
    assert queue.message_count == 0 and stored(engine, queue.queue_id) == []
    waiting = engine.start_receive(engine.open())
    commit(engine, transaction)
    assert waiting.result().body == b"x"


@pytest.mark.spec("DM-070", "DM-054", "DM-101")
def test_messages_of_a_transaction_stand_together_in_the_order_of_sending(engine: ManualEngine) -> None:
    queues = [engine.create(rf".\private$\{name}", transactional=True) for name in "ab"]
    first, second = engine.manager.begin(), engine.manager.begin()
    for number in range(6):
        for transaction, text in ((first, b"first %d"), (second, b"second %d")):
            name = rf"DIRECT=OS:.\private$\{'ab'[number % 2]}"
            engine.send(engine.sender(name), body=text % number, priority=number, transaction=transaction)
    commit(engine, second)
    commit(engine, first)
    assert engine.bodies(queues[0]) == [b"second 0", b"second 2", b"second 4", b"first 0", b"first 2", b"first 4"]
    assert engine.bodies(queues[1]) == [b"second 1", b"second 3", b"second 5", b"first 1", b"first 3", b"first 5"]
    assert {m.priority for m in messages(engine, queues[0])} == {0}


@pytest.mark.spec("DM-106", "DM-071")
def test_a_commit_deletes_what_was_received_and_acknowledges_once(engine: ManualEngine) -> None:
    admin, queue = engine.create(r".\private$\admin"), filled(engine, b"x")
    taking = engine.manager.begin()
    assert engine.receive(engine.open(), transaction=taking).body == b"x"
    assert (queue.message_count, classes(engine, admin)) == (1, [2])
    commit(engine, taking)
    assert (queue.message_count, queue.total_bytes, classes(engine, admin)) == (0, 0, [2, 0x4000])


@pytest.mark.spec("DM-071", "DM-075")
def test_an_abort_returns_messages_to_their_place_counts_and_acknowledges_nothing(engine: ManualEngine) -> None:
    admin, queue = engine.create(r".\private$\admin"), filled(engine, b"1", b"2", b"3")
    ids = list(queue.available)
    taking = engine.manager.begin()
    engine.receive(engine.open(), transaction=taking)
    engine.send(engine.sender(), body=b"never", transaction=taking)
    abort(engine, taking)
    assert engine.bodies(queue) == [b"1", b"2", b"3"] and list(queue.available) == ids
    assert [m.abort_count for m in messages(engine, queue)] == [1, 0, 0]
    assert classes(engine, admin) == [2, 2, 2] and queue.uncommitted_bytes == 0


@pytest.mark.spec("DM-075")
def test_abort_counts_of_recoverable_messages_survive_a_restart(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    filled(engine, b"x")
    for _ in range(2):
        taking = engine.manager.begin()
        engine.receive(engine.open(), transaction=taking)
        abort(engine, taking)
    again = engine.restart()
    assert again.peek(again.open()).abort_count == 2


@pytest.mark.spec("DM-077")
def test_a_hundred_receives_and_aborts_change_no_bytes(engine: ManualEngine) -> None:
    queue = filled(engine, b"x")
    before = (queue.total_bytes, engine.manager.core.total_bytes)
    for _ in range(100):
        taking = engine.manager.begin()
        engine.receive(engine.open(), transaction=taking)
        assert queue.total_bytes == before[0]
        abort(engine, taking)
    assert (queue.total_bytes, engine.manager.core.total_bytes) == before


@pytest.mark.spec("DM-069")
def test_first_and_last_concern_the_sends_of_each_destination(engine: ManualEngine) -> None:
    filled(engine, b"received")
    other = engine.create(r".\private$\other", transactional=True)
    transaction = engine.manager.begin()
    engine.receive(engine.open(), transaction=transaction)
    sends = [r"DIRECT=OS:.\private$\q", r"DIRECT=OS:.\private$\other", r"DIRECT=OS:.\private$\q"]
    for name in sends:
        engine.send(engine.sender(name), transaction=transaction)
    commit(engine, transaction)
    queue = engine.manager.find_queue(r".\private$\q")
    sent = [m.transaction for q in (queue, other) for m in messages(engine, q) if m.transaction]
    assert {place.transaction_identifier for place in sent} == {transaction.identifier}
    marks = [(place.first_in_transaction, place.last_in_transaction) for place in sent]
    assert marks == [(True, False), (False, True), (True, True)]


@pytest.mark.spec("DM-069")
def test_a_message_that_is_only_received_keeps_the_marks_of_its_own_transaction(engine: ManualEngine) -> None:
    queue = filled(engine, b"1", b"2")
    before = [m.transaction for m in messages(engine, queue)]
    transaction = engine.manager.begin()
    got = engine.receive(engine.open(), transaction=transaction)
    engine.send(engine.sender(), transaction=transaction)
    engine.do(engine.manager.prepare, transaction.identifier)
    assert got.transaction == before[0] and got.transaction.transaction_identifier != transaction.identifier
    assert (before[0].first_in_transaction, before[0].last_in_transaction) == (True, False)  # type: ignore[union-attr]


@pytest.mark.spec("DM-068", "DM-073", "MQ-210")
def test_an_unknown_transaction_is_a_wrong_sequence(engine: ManualEngine) -> None:
    filled(engine, b"x")
    for call in (engine.manager.commit, engine.manager.abort, engine.manager.prepare):
        with refused("TRANSACTION_SEQUENCE"):
            engine.do(call, UNKNOWN)
    assert engine.manager.core.pending == []


@pytest.mark.spec("DM-073", "MQ-210")
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_once_even_while_its_end_is_under_way(engine: ManualEngine, committed: bool) -> None:
    queue = filled(engine)
    transaction = engine.manager.begin()
    engine.send(engine.sender(), transaction=transaction)
    answer = Answer()
    (engine.manager.commit if committed else engine.manager.abort)(transaction.identifier, answer)
    for call in (engine.manager.commit, engine.manager.abort, engine.manager.prepare):
        with refused("TRANSACTION_SEQUENCE"):
            engine.do(call, transaction.identifier)
    engine.commit()
    assert answer.result() is None and queue.message_count == committed
    for call in (engine.manager.commit, engine.manager.abort):
        with refused("TRANSACTION_SEQUENCE"):
            engine.do(call, transaction.identifier)
    with refused("TRANSACTION_SEQUENCE"):
        engine.send(engine.sender(), transaction=transaction)
    with refused("TRANSACTION_SEQUENCE"):
        engine.receive(engine.open(), transaction=transaction)
    assert queue.message_count == committed and queue.uncommitted_bytes == 0


@pytest.mark.spec("MQ-210")
def test_transactions_and_queues_that_do_not_fit_are_refused(engine: ManualEngine) -> None:
    engine.create(r".\private$\plain")
    filled(engine, b"x")
    transaction = engine.manager.begin()
    plain = r"DIRECT=OS:.\private$\plain"
    with refused("TRANSACTION_USAGE"):
        engine.send(engine.sender(), body=b"no transaction")
    with refused("TRANSACTION_USAGE"):
        engine.send(engine.sender(plain), transaction=transaction)
    with refused("TRANSACTION_USAGE"):
        engine.receive(engine.open(plain), transaction=transaction)
    assert transaction.operations == []
    assert engine.receive(engine.open()).body == b"x"  # outside a transaction is allowed


@pytest.mark.spec("DM-072")
@pytest.mark.parametrize("end", [commit, abort])
def test_a_move_carries_the_bytes_with_it_at_the_commit(engine: ManualEngine, end: object) -> None:
    queue = filled(engine, b"12345")
    size, total = queue.total_bytes, engine.manager.core.total_bytes
    target = engine.open(r"DIRECT=OS:.\private$\q;s", QueueAccessType.MOVE)
    transaction = engine.manager.begin()
    engine.do(lambda r: engine.manager.move(engine.open(), next(iter(queue.available)), target, r, transaction))
    assert (queue.total_bytes, target.live_queue().total_bytes, queue.message_count) == (size, 0, 1)
    end(engine, transaction)  # type: ignore[operator]
    bytes_after = (queue.total_bytes, target.live_queue().total_bytes)
    assert bytes_after == ((0, size) if end is commit else (size, 0))
    assert queue.used_bytes() == size and engine.manager.core.total_bytes == total


def everything(engine: ManualEngine, queue: Queue) -> Transaction:
    """A transaction with two sends, a receive and a move."""
    transaction = engine.manager.begin()
    reader = engine.open()
    engine.send(engine.sender(), body=b"sent 1", transaction=transaction)
    engine.receive(reader, transaction=transaction)
    target = engine.open(r"DIRECT=OS:.\private$\q;s", QueueAccessType.MOVE)
    engine.do(lambda r: engine.manager.move(reader, next(iter(queue.available)), target, r, transaction))
    engine.send(engine.sender(REMOTE), body=b"sent 2", transaction=transaction)
    return transaction


@pytest.mark.spec("DM-053", "DM-054", "DM-068")
def test_a_prepared_transaction_comes_back_with_its_operations_in_order(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    queue = filled(engine, b"received", b"moved", b"left")
    ids = list(queue.available)
    transaction = everything(engine, queue)
    engine.do(engine.manager.prepare, transaction.identifier)
    again = engine.restart()
    (back,) = again.manager.transactions.in_doubt()
    assert (back.identifier, back.single_phase, back.index) == (transaction.identifier, False, transaction.index)
    assert [type(operation) for operation in back.operations] == [Enqueue, Dequeue, Move, Enqueue]
    sent, received, moved, remote = back.operations
    assert isinstance(sent, Enqueue) and isinstance(remote, Enqueue)
    assert isinstance(received, Dequeue) and isinstance(moved, Move)
    assert (sent.message.body, sent.queue.name) == (b"sent 1", queue.name)
    assert remote.message.body == b"sent 2" and "elsewhere" in remote.queue.name
    assert (received.position.lookup_id, received.reason) == (ids[0], 0x4000)
    assert (moved.position.lookup_id, moved.target.name) == (ids[1], queue.name + ";s")
    assert again.bodies(again.manager.find_queue(r".\private$\q")) == [b"left"]


@pytest.mark.spec("DM-078", "DM-068", "DM-074")
@pytest.mark.parametrize("outcome", [True, False, None])
@pytest.mark.parametrize("twice", [False, True])
def test_a_coordinator_decides_prepared_transactions_at_start(
    tmp_path: Path, outcome: bool | None, twice: bool
) -> None:
    class Coordinator:
        def outcome(self, transaction: UUID) -> bool | None:
            return outcome

    engine = ManualEngine(SqliteStore(tmp_path))
    queue = filled(engine, b"received", b"moved", b"left")
    transaction = everything(engine, queue)
    engine.do(engine.manager.prepare, transaction.identifier)
    if twice:
        engine = engine.restart()
    again = engine.restart(outcomes=Coordinator())
    queue = again.manager.find_queue(r".\private$\q")
    (outgoing,) = again.manager.core.outgoing.values()
    if outcome is None:
        assert again.bodies(queue) == [b"left"] and queue.message_count == 3
        commit(again, again.manager.transactions.in_doubt()[0])
    if outcome is False:
        assert again.bodies(queue) == [b"received", b"moved", b"left"] and outgoing.message_count == 0
        assert [m.abort_count for m in messages(again, queue)] == [1, 1, 0]
    else:
        assert again.bodies(queue) == [b"left", b"sent 1"] and again.bodies(outgoing) == [b"sent 2"]
        assert again.bodies(queue.subqueues["s"]) == [b"moved"]
    assert again.manager.transactions.in_doubt() == [] and stored(again, 0) == []
    core = again.manager.core
    assert core.total_bytes == sum(q.total_bytes for q in core.queues.values())
    assert all(q.uncommitted_bytes == 0 for q in core.queues.values())


@pytest.mark.spec("DM-068")
def test_prepare_is_answered_when_it_is_durable_and_holds_the_transaction_still(engine: ManualEngine) -> None:
    filled(engine, b"x")
    transaction = engine.manager.begin()
    engine.receive(engine.open(), transaction=transaction)
    answer = Answer()
    engine.manager.prepare(transaction.identifier, answer)
    assert not answer.done
    engine.commit()
    assert answer.done and transaction.state is TransactionState.PREPARED
    with refused("TRANSACTION_SEQUENCE"):
        engine.do(engine.manager.prepare, transaction.identifier)
    with refused("TRANSACTION_SEQUENCE"):
        engine.send(engine.sender(), transaction=transaction)
    commit(engine, transaction)


@pytest.mark.spec("DM-074")
def test_a_prepared_send_to_a_queue_that_is_deleted_does_not_stop_the_next_start(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    engine.create(r".\private$\admin")
    queue = filled(engine)
    transaction = engine.manager.begin()
    engine.send(engine.sender(), acknowledged(body=b"x"), transaction=transaction)
    engine.do(engine.manager.prepare, transaction.identifier)
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    again = engine.restart()
    (back,) = again.manager.transactions.in_doubt()
    commit(again, back)
    assert classes(again, again.manager.find_queue(r".\private$\admin")) == [0xC000]
    assert stored(again, 0) == [] and again.restart().manager.transactions.in_doubt() == []


def test_a_prepared_send_that_expired_leaves_nothing_in_the_store(engine: ManualEngine) -> None:
    queue = filled(engine)
    transaction = engine.manager.begin()
    engine.send(engine.sender(), time_to_be_received=5, transaction=transaction)
    engine.do(engine.manager.prepare, transaction.identifier)
    assert len(stored(engine, 0)) == 1
    engine.advance(6)
    commit(engine, transaction)
    assert queue.message_count == 0 and stored(engine, 0) == []


@pytest.mark.spec("DM-074")
def test_a_move_into_a_subqueue_whose_handle_was_closed_keeps_the_message(engine: ManualEngine) -> None:
    queue = filled(engine, b"x")
    target = engine.open(r"DIRECT=OS:.\private$\q;s", QueueAccessType.MOVE)
    transaction = engine.manager.begin()
    engine.do(lambda r: engine.manager.move(engine.open(), next(iter(queue.available)), target, r, transaction))
    engine.manager.close(target)
    commit(engine, transaction)
    assert engine.bodies(queue.subqueues["s"]) == [b"x"]


def test_an_aborted_move_forgets_the_empty_subqueue(engine: ManualEngine) -> None:
    queue = filled(engine, b"x")
    target = engine.open(r"DIRECT=OS:.\private$\q;s", QueueAccessType.MOVE)
    transaction = engine.manager.begin()
    engine.do(lambda r: engine.manager.move(engine.open(), next(iter(queue.available)), target, r, transaction))
    engine.manager.close(target)
    abort(engine, transaction)
    assert queue.subqueues == {} and engine.bodies(queue) == [b"x"]


def test_the_same_identifier_cannot_begin_twice(engine: ManualEngine) -> None:
    first = engine.manager.begin(UNKNOWN)
    with refused("INVALID_PARAMETER"):
        engine.manager.begin(UNKNOWN)
    assert engine.manager.begin().index != first.index


@pytest.mark.spec("MQ-125")
def test_indexes_wrap_at_20_bits_and_tell_live_transactions_apart(engine: ManualEngine) -> None:
    alive = engine.manager.begin()
    engine.manager.transactions._last_index = (1 << 20) - 3  # a million transactions later
    indexes = [engine.manager.begin().index for _ in range(4)]
    assert (alive.index, indexes) == (1, [(1 << 20) - 2, (1 << 20) - 1, 0, 2])


def test_a_send_in_a_transaction_is_recoverable_and_the_system_queues_take_part(engine: ManualEngine) -> None:
    filled(engine)
    engine.create(r".\private$\plain")
    engine.send(engine.sender(r"DIRECT=OS:.\private$\plain"), time_to_be_received=0, negative_journaling_requested=True)
    transaction = engine.manager.begin()
    engine.receive(engine.open(r"DIRECT=OS:.\SYSTEM$;DEADLETTER"), transaction=transaction)
    engine.send(engine.sender(QUEUE), Message(), transaction=transaction)
    commit(engine, transaction)
    assert system_queue(engine, "DEADLETTER").message_count == 0
    assert messages(engine, engine.manager.find_queue(r".\private$\q"))[0].delivery_guarantee == 1


def test_a_message_that_is_given_back_leaves_the_transaction_and_counts_no_abort(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    first = engine.manager.begin()
    for body in (b"1", b"2"):
        engine.send(engine.sender(), Message(body), first)
    engine.do(engine.manager.commit, first.identifier)
    reader, transaction = engine.open(), engine.manager.begin()
    taken = [engine.receive(reader, transaction=transaction) for _ in range(2)]
    position = queue.positions[taken[0].lookup_identifier]
    engine.manager.transactions.give_back(transaction, position)
    engine.manager.transactions.give_back(transaction, position)  # it is not the transaction's any more
    assert engine.bodies(queue) == [b"1"]
    engine.do(engine.manager.commit, transaction.identifier)
    assert engine.bodies(queue) == [b"1"]
    assert queue.position(taken[0].lookup_identifier, engine.store).abort_count == 0
