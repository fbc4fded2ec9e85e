"""Copies: the target journal, the source journal, dead letters in the system's and the application's queues."""

from pathlib import Path

import pytest

from lior.message import Message, MessageClass
from lior.queues.change import Change
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import MessageDropped
from lior.queues.ports import DeleteMessage, PutMessage
from lior.store.sqlite import SqliteStore
from lior.testing.engine import ManualEngine
from tests.queues.scenario import (
    QUEUE,
    RECOVERABLE,
    REMOTE,
    acknowledged,
    classes,
    commit,
    messages,
    system_queue,
)

DLQ = r"DIRECT=OS:.\private$\dlq"


@pytest.mark.spec("DM-141")
@pytest.mark.parametrize("journaling", [True, False])
def test_a_receive_leaves_a_copy_in_the_journal_of_a_journaling_queue(engine: ManualEngine, journaling: bool) -> None:
    queue = engine.create(journaling=journaling)
    engine.send(engine.sender(), body=b"x", label="l")
    engine.peek(engine.open())
    assert queue.journal is not None and queue.journal.message_count == 0
    engine.receive(engine.open())
    assert engine.bodies(queue.journal) == ([b"x"] if journaling else [])


@pytest.mark.spec("DM-141")
def test_the_copy_and_the_delete_are_one_change(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True)
    engine.send(engine.sender(), delivery_guarantee=RECOVERABLE)
    engine.start_receive(engine.open())
    (change,) = engine.manager.take_pending()
    assert {type(operation) for operation in change.operations} >= {DeleteMessage, PutMessage}
    engine.apply([change])
    assert queue.journal is not None and queue.journal.message_count == 1


@pytest.mark.spec("DM-141")
@pytest.mark.parametrize("end", ["purge", "expire", "delete the journal's message"])
def test_only_a_receive_is_journaled_and_reading_the_journal_is_not(engine: ManualEngine, end: str) -> None:
    queue = engine.create(journaling=True)
    assert queue.journal is not None
    engine.send(engine.sender(), time_to_be_received=5)
    if end == "purge":
        engine.do(engine.manager.purge, queue, engine.admin)
    elif end == "expire":
        engine.advance(5)
    else:
        engine.receive(engine.open())
        engine.receive(engine.open(QUEUE + ";JOURNAL"))
    assert queue.message_count == 0 and queue.journal.message_count == 0


@pytest.mark.spec("DM-141")
def test_a_full_journal_drops_the_copy_and_not_the_receive(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True, journal_quota=1)
    for _ in range(2):
        engine.send(engine.sender(), body=bytes(800))
        assert engine.receive(engine.open()).body == bytes(800)
    assert queue.journal is not None and queue.journal.message_count == 1
    assert len([event for event in engine.events if isinstance(event, MessageDropped)]) == 1


@pytest.mark.spec("DM-141")
def test_a_transaction_journals_at_its_commit_and_a_move_does_not(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True, transactional=True)
    fill, taking = engine.manager.begin(), engine.manager.begin()
    for body in (b"1", b"2"):
        engine.send(engine.sender(), body=body, transaction=fill)
    commit(engine, fill)
    engine.receive(engine.open(), transaction=taking)
    target = engine.open(QUEUE + ";s", QueueAccessType.MOVE)
    engine.do(lambda r: engine.manager.move(engine.open(), next(iter(queue.available)), target, r, taking))
    assert queue.journal is not None and queue.journal.message_count == 0
    commit(engine, taking)
    assert engine.bodies(queue.journal) == [b"1"]
    engine.receive(engine.open(QUEUE + ";s"))
    assert engine.bodies(queue.journal) == [b"1", b"2"]


@pytest.mark.spec("DM-042", "MQ-086")
def test_the_source_journal_keeps_a_copy_of_what_reached_a_local_queue(engine: ManualEngine) -> None:
    queue = engine.create()
    for asked in (True, False):
        engine.send(engine.sender(), body=b"%d" % asked, positive_journaling_requested=asked)
    assert engine.bodies(system_queue(engine, "JOURNAL")) == [b"1"] and queue.message_count == 2
    engine.receive(engine.open())
    assert system_queue(engine, "JOURNAL").message_count == 1


@pytest.mark.spec("DM-042", "MQ-086")
def test_the_source_journal_keeps_a_copy_when_the_next_queue_manager_has_the_message(engine: ManualEngine) -> None:
    engine.send(engine.sender(REMOTE), body=b"x", positive_journaling_requested=True)
    (outgoing,) = engine.manager.core.outgoing.values()
    journal = system_queue(engine, "JOURNAL")
    assert journal.message_count == 0
    change = Change()
    engine.manager.removal.transferred(change, outgoing.position(next(iter(outgoing.available)), engine.store))
    engine.manager.core.submit(change)
    engine.commit()
    assert engine.bodies(journal) == [b"x"] and outgoing.message_count == 0


@pytest.mark.spec("DM-042")
def test_a_message_of_another_source_is_not_journaled_here(engine: ManualEngine) -> None:
    queue, change = engine.create(), Change()
    message = Message(positive_journaling_requested=True, sent_time=engine.clock.wall())
    engine.manager.sending.accept(queue, message, None, change)
    engine.manager.core.submit(change)
    engine.commit()
    assert queue.message_count == 1 and system_queue(engine, "JOURNAL").message_count == 0


@pytest.mark.spec("DM-042", "DM-043")
def test_full_journals_drop_copies_and_nothing_else(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.manager.core.properties.journal_quota = 0
    engine.send(engine.sender(), positive_journaling_requested=True)
    engine.send(engine.sender(), negative_journaling_requested=True, time_to_be_received=5)
    assert queue.message_count == 2
    engine.advance(5)
    assert queue.message_count == 1
    assert [system_queue(engine, name).message_count for name in ("JOURNAL", "DEADLETTER", "DEADXACT")] == [0, 0, 0]
    assert len([event for event in engine.events if isinstance(event, MessageDropped)]) == 2


@pytest.mark.spec("DM-043", "MQ-086")
@pytest.mark.parametrize("transactional", [True, False])
def test_a_failed_message_becomes_a_dead_letter_that_says_why(engine: ManualEngine, transactional: bool) -> None:
    engine.create(transactional=transactional)
    transaction = engine.manager.begin() if transactional else None
    fields = {"body": b"x", "label": "l", "time_to_be_received": 5, "negative_journaling_requested": True}
    sent = engine.send(engine.sender(), Message(**fields), transaction)  # type: ignore[arg-type]
    if transaction is not None:
        commit(engine, transaction)
    engine.advance(5)
    names = ("DEADXACT", "DEADLETTER") if transactional else ("DEADLETTER", "DEADXACT")
    (dead,) = messages(engine, system_queue(engine, names[0]))
    assert system_queue(engine, names[1]).message_count == 0
    assert (dead.body, dead.label, dead.identifier) == (b"x", "l", sent)
    assert dead.failure_reason == MessageClass.NACK_RECEIVE_TIMEOUT
    assert dead.failed_destination == r"DIRECT=OS:lior\private$\q"


@pytest.mark.spec("DM-043")
def test_reading_a_dead_letter_makes_no_acknowledgement_and_no_copy(engine: ManualEngine) -> None:
    engine.create()
    admin = engine.create(r".\private$\admin")
    engine.send(engine.sender(), acknowledged(time_to_be_received=5, negative_journaling_requested=True))
    engine.advance(5)
    assert classes(engine, admin) == [0x0002, 0xC002]
    engine.receive(engine.open(r"DIRECT=OS:.\SYSTEM$;DEADLETTER"))
    assert classes(engine, admin) == [0x0002, 0xC002]
    assert system_queue(engine, "DEADLETTER").message_count == 0


def fail_with_dead_letter_queue(engine: ManualEngine, name: str, transactional: bool = False) -> None:
    engine.create(transactional=transactional)
    transaction = engine.manager.begin() if transactional else None
    message = acknowledged(
        body=b"x", time_to_be_received=5, negative_journaling_requested=True, application_deadletter_queue=name
    )
    engine.send(engine.sender(), message, transaction)
    if transaction is not None:
        commit(engine, transaction)
    engine.advance(5)


@pytest.mark.spec("DM-035")
@pytest.mark.parametrize("transactional", [True, False])
def test_a_failed_message_goes_to_the_queue_the_application_named(engine: ManualEngine, transactional: bool) -> None:
    queue = engine.create(r".\private$\dlq", transactional=transactional)
    fail_with_dead_letter_queue(engine, DLQ, transactional)
    assert engine.bodies(queue) == [b"x"]
    assert [system_queue(engine, name).message_count for name in ("DEADLETTER", "DEADXACT")] == [0, 0]


@pytest.mark.spec("DM-035")
@pytest.mark.parametrize("transactional", [True, False])
def test_a_dead_letter_queue_that_does_not_fit_is_passed_over(engine: ManualEngine, transactional: bool) -> None:
    queue = engine.create(r".\private$\dlq", transactional=not transactional)
    fail_with_dead_letter_queue(engine, DLQ, transactional)
    assert queue.message_count == 0
    assert system_queue(engine, "DEADXACT" if transactional else "DEADLETTER").message_count == 1


@pytest.mark.spec("DM-035")
@pytest.mark.parametrize("name", ["nonsense", r"DIRECT=OS:.\private$\none", REMOTE, QUEUE + ";JOURNAL"])
def test_a_dead_letter_queue_that_is_not_there_is_passed_over(engine: ManualEngine, name: str) -> None:
    fail_with_dead_letter_queue(engine, name)
    assert system_queue(engine, "DEADLETTER").message_count == 1


@pytest.mark.spec("DM-035")
def test_a_dead_letter_is_still_in_the_application_s_queue_after_a_restart(tmp_path: Path) -> None:
    """Its time is over, which is why it is there: it must not expire a second time."""
    engine = ManualEngine(SqliteStore(tmp_path))
    engine.create(r".\private$\dlq", transactional=True)
    fail_with_dead_letter_queue(engine, DLQ, transactional=True)
    engine.advance(3600)
    again = engine.restart()
    again.advance(3600)
    assert again.bodies(again.manager.find_queue(r".\private$\dlq")) == [b"x"]


@pytest.mark.spec("DM-035")
@pytest.mark.parametrize("end", ["receive", "purge", "move"])
def test_what_becomes_of_a_dead_letter_is_told_to_nobody(engine: ManualEngine, end: str) -> None:
    queue = engine.create(r".\private$\dlq", journaling=True)
    admin = engine.create(r".\private$\admin")
    fail_with_dead_letter_queue(engine, DLQ)
    engine.advance(3600)
    assert (queue.message_count, classes(engine, admin)) == (1, [0x0002, 0xC002])
    if end == "receive":
        assert engine.receive(engine.open(DLQ)).body == b"x"
        assert queue.journal is not None and queue.journal.message_count == 1
    elif end == "purge":
        engine.do(engine.manager.purge, queue, engine.admin)
    else:
        target = engine.open(DLQ + ";later", QueueAccessType.MOVE)
        engine.do(lambda r: engine.manager.move(engine.open(DLQ), next(iter(queue.available)), target, r))
        engine.advance(3600)
        assert target.live_queue().message_count == 1
    assert classes(engine, admin) == [0x0002, 0xC002]
    assert system_queue(engine, "DEADLETTER").message_count == 0


def test_a_dead_letter_that_is_sent_again_is_a_message_like_any_other(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.create(r".\private$\admin")
    engine.send(engine.sender(), acknowledged(time_to_be_received=5, negative_journaling_requested=True))
    engine.advance(5)
    dead = engine.receive(engine.open(r"DIRECT=OS:.\SYSTEM$;DEADLETTER"))
    engine.send(engine.sender(), dead)
    (again,) = messages(engine, queue)
    assert (again.failure_reason, again.failed_destination) == (0, "")
    engine.advance(5)
    assert queue.message_count == 0
