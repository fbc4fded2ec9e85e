"""Many messages at a time: what arrives, what leaves, what is sent in one turn; what is left to the calls for one."""

from typing import Any

import pytest

from lior.errors import MessageStorageFailed
from lior.message import INFINITE, Message, MessageTransaction, ObjectId
from lior.queues.change import Change
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteMessages, PutMessage
from lior.queues.sends import MOST, Sends
from lior.testing.engine import Answer, ManualEngine
from tests.queues.streams import SENDER, THERE, numbers, outgoing, send

Q = r"DIRECT=OS:.\private$\q"


def arriving(*bodies: bytes, **fields: Any) -> list[Message]:
    return [
        Message(body, identifier=ObjectId(SENDER, n), source_queue_manager=SENDER, sent_time=1e9,
                time_to_reach_queue=INFINITE, **fields)
        for n, body in enumerate(bodies, start=1)
    ]  # fmt: skip


def start_sends(engine: ManualEngine, to: str, *bodies: bytes, **fields: Any) -> list[Answer]:
    answers, sender = [], engine.sender(to)
    for body in bodies:
        answers.append(Answer())
        engine.manager.send(sender, Message(body, **{"delivery_guarantee": 1, **fields}), answers[-1])
    return answers


def state(engine: ManualEngine) -> dict[str, Any]:
    core, traffic = engine.manager.core, engine.manager.core.traffic
    return {
        "total": core.total_bytes, "staged": core.staged_bytes, "arrived": traffic.arrived, "gone": traffic.transferred,
        "queues": [(q.name, list(q.available), engine.bodies(q), q.total_bytes, q.uncommitted_bytes, q.staged_inserts,
                    q.unavailable) for q in core.queues.values()],
    }  # fmt: skip


# Arrivals


@pytest.mark.parametrize("fields", [{"delivery_guarantee": 1}, {}, {"priority": 7, "label": "l", "extension": b"e"}])
def test_a_batch_that_arrives_leaves_what_its_messages_would_leave_one_by_one(fields: dict[str, Any]) -> None:
    many, single = ManualEngine(), ManualEngine()
    bodies = [b"%d" % n for n in range(600)]
    for engine in (many, single):
        queue, change = engine.create(), Change()
        if engine is many:
            assert engine.manager.batches.arrive(change, queue, arriving(*bodies, **fields))
        else:
            for message in arriving(*bodies, **fields):
                engine.manager.sending.accept(queue, message, None, change)
        engine.manager.core.submit(change)
        engine.commit()
    assert state(many) == state(single)
    assert many.bodies(many.manager.find_queue(r".\private$\q")) == bodies
    assert many.restart().manager.core.total_bytes == single.restart().manager.core.total_bytes


def test_a_batch_whose_commit_fails_leaves_nothing() -> None:
    engine = ManualEngine()
    queue, before, change = engine.create(), None, Change()
    before = state(engine)
    assert engine.manager.batches.arrive(change, queue, arriving(b"1", b"2", delivery_guarantee=1))
    assert queue.staged_inserts == 2
    change.fail(MessageStorageFailed("no room"))
    assert state(engine) == before


@pytest.mark.parametrize("fields", [
    {"time_to_be_received": 100}, {"administration_queue": Q}, {"positive_journaling_requested": True},
])  # fmt: skip
def test_messages_that_more_follows_from_are_refused_as_a_batch(fields: dict[str, Any]) -> None:
    engine = ManualEngine()
    queue, change = engine.create(), Change()
    assert not engine.manager.batches.arrive(change, queue, [*arriving(b"1"), *arriving(b"2", **fields)])
    assert not change.operations and not change.has_steps


def test_a_batch_that_is_late_or_has_no_room_is_refused_as_a_whole() -> None:
    engine = ManualEngine()
    queue, change = engine.create(quota=1), Change()
    late = arriving(b"late")
    late[0].time_to_reach_queue = 1
    assert not engine.manager.batches.arrive(change, queue, [*arriving(b"1"), *late])
    assert not engine.manager.batches.arrive(change, queue, arriving(bytes(500), bytes(500)))
    engine.manager.core.set_throttled("the disk is full")
    assert not engine.manager.batches.arrive(change, queue, arriving(b"1"))
    assert not change.operations and not change.has_steps


def test_who_waits_gets_the_first_of_a_batch() -> None:
    engine = ManualEngine()
    queue, change = engine.create(), Change()
    waiting = [engine.start_receive(engine.open(), timeout_ms=1000) for _ in range(2)]
    engine.manager.batches.arrive(change, queue, arriving(b"1", b"2", b"3", delivery_guarantee=1))
    engine.manager.core.submit(change)
    engine.commit()
    assert [answer.result().body for answer in waiting] == [b"1", b"2"] and engine.bodies(queue) == [b"3"]


# Departures


def sent_to(engine: ManualEngine, *bodies: bytes, **fields: Any) -> OutgoingQueue:
    start_sends(engine, THERE, *bodies, **fields)
    engine.commit()
    return outgoing(engine)


def test_what_is_locked_at_once_is_what_would_be_locked_one_by_one() -> None:
    engine, link = ManualEngine(), object()
    queue = sent_to(engine, *[b"%d" % n for n in range(700)])
    sent_to(engine, b"urgent", priority=7)
    taken = engine.manager.batches.lock(queue, link, 600)
    assert [p.message.body for p in taken] == [b"urgent", *[b"%d" % n for n in range(599)]]
    assert all(p.owner is link for p in taken) and queue.unavailable == 600
    rest = engine.manager.batches.lock(queue, link, 600)
    assert [p.message.body for p in rest] == [b"%d" % n for n in range(599, 700)]
    assert engine.manager.batches.lock(queue, link, 5) == []
    engine.manager.outgoing_streams.release(link, taken)
    assert queue.available.first() == taken[0].lookup_id and len(queue.available) == 600


def test_of_several_queues_only_what_is_as_urgent_as_the_first_is_locked_at_once() -> None:
    engine = ManualEngine()
    sent_to(engine, b"1", b"2", priority=6)
    queue = sent_to(engine, b"3", priority=2)
    taken = engine.manager.batches.lock(queue, object(), 10, any_priority=False)
    assert [p.message.body for p in taken] == [b"1", b"2"]


def test_a_message_that_expired_is_not_locked_and_goes_its_own_way() -> None:
    engine = ManualEngine()
    queue = sent_to(engine, b"soon gone", time_to_reach_queue=1, priority=5)
    sent_to(engine, b"stays")
    engine.clock.advance(5)
    taken = engine.manager.batches.lock(queue, object(), 10)
    assert [p.message.body for p in taken] == [b"stays"]


def test_a_paused_queue_gives_nothing() -> None:
    engine = ManualEngine()
    queue = sent_to(engine, b"1", b"2")
    engine.do(engine.manager.administration.pause, queue, engine.admin)
    assert engine.manager.batches.lock(queue, object(), 10) == []


def test_what_the_next_queue_manager_has_leaves_in_one_operation() -> None:
    engine = ManualEngine()
    queue = sent_to(engine, *[b"%d" % n for n in range(10)])
    taken = engine.manager.batches.lock(queue, object(), 6)
    change = Change()
    engine.manager.batches.transferred(change, taken)
    assert [type(operation) for operation in change.operations] == [DeleteMessages]
    engine.manager.core.submit(change)
    engine.commit()
    assert engine.bodies(queue) == [b"6", b"7", b"8", b"9"] and queue.unavailable == 0
    assert engine.manager.core.traffic.transferred == 6
    assert engine.bodies(outgoing(again := engine.restart())) == [b"6", b"7", b"8", b"9"]
    assert again.manager.core.total_bytes == engine.manager.core.total_bytes


def test_if_that_change_fails_they_are_sent_again_in_their_order() -> None:
    engine = ManualEngine()
    queue = sent_to(engine, b"1", b"2", b"3")
    taken = engine.manager.batches.lock(queue, object(), 10)
    change = Change()
    engine.manager.batches.transferred(change, taken)
    change.fail(MessageStorageFailed("no room"))
    assert [p.message.body for p in engine.manager.batches.lock(queue, object(), 10)] == [b"1", b"2", b"3"]


def test_a_source_journal_gets_its_copies_all_the_same() -> None:
    engine = ManualEngine()
    queue = sent_to(engine, b"plain", b"plain too")
    sent_to(engine, b"journaled", positive_journaling_requested=True)
    change = Change()
    engine.manager.batches.transferred(change, engine.manager.batches.lock(queue, object(), 10))
    engine.manager.core.submit(change)
    engine.commit()
    journal = engine.manager.core.paths["system$;journal"]
    assert engine.bodies(journal) == [b"journaled"] and not queue.message_count


def test_messages_of_a_stream_are_locked_with_those_of_no_other() -> None:
    engine = ManualEngine()
    queue = send(engine, b"1", b"2")
    again = engine.restart()
    send(again, b"3")
    queue = outgoing(again)
    taken = again.manager.batches.lock(queue, object(), 10)
    while more := again.manager.batches.lock(queue, object(), 10):
        taken += more
    assert [p.message.body for p in taken] == [b"1", b"2"]  # the next stream waits until these are acknowledged


# Sends of one turn


def test_sends_of_one_turn_are_one_change_with_an_answer_for_each() -> None:
    engine = ManualEngine()
    queue = engine.create()
    answers = start_sends(engine, Q, *[b"%d" % n for n in range(MOST + 3)])
    pending = engine.manager.core.pending
    assert [change.count for change in pending] == [MOST, 3] and engine.manager.core.pending_count == MOST + 3
    assert not any(answer.done for answer in answers)
    engine.commit()
    assert engine.bodies(queue) == [b"%d" % n for n in range(MOST + 3)]
    assert len({answer.result() for answer in answers}) == MOST + 3


@pytest.mark.parametrize("between", ["other queue", "express", "acknowledged", "transaction"])
def test_what_comes_between_two_sends_is_not_overtaken(between: str) -> None:
    engine = ManualEngine()
    engine.create()
    engine.create(r".\private$\other")
    engine.create(r".\private$\exact", transactional=True)
    start_sends(engine, Q, b"1")
    if between == "other queue":
        start_sends(engine, r"DIRECT=OS:.\private$\other", b"x")
    elif between == "express":
        start_sends(engine, Q, b"x", delivery_guarantee=0)
    elif between == "acknowledged":
        start_sends(engine, Q, b"x", administration_queue=r"DIRECT=OS:.\private$\other", acknowledgements_requested=1)
    else:
        transaction = engine.manager.begin()
        engine.manager.send(engine.sender(r"DIRECT=OS:.\private$\exact"), Message(b"x"), Answer(), transaction)
        engine.manager.commit(transaction.identifier, Answer())
    start_sends(engine, Q, b"2")
    assert [change.count for change in engine.manager.core.pending] == [1, 1, 1]
    engine.commit()
    bodies = engine.bodies(engine.manager.find_queue(r".\private$\q"))
    assert bodies == ([b"1", b"x", b"2"] if between in ("express", "acknowledged") else [b"1", b"2"])


def test_a_change_of_sends_that_fails_answers_each_and_leaves_nothing() -> None:
    engine = ManualEngine()
    engine.create()
    before = state(engine)
    answers = start_sends(engine, Q, b"1", b"2")
    engine.manager.failed(engine.manager.take_pending(), MessageStorageFailed("no room"))
    assert all(isinstance(answer.error, MessageStorageFailed) for answer in answers)
    assert state(engine) == before


@pytest.mark.parametrize("transactional", [False, True])
def test_a_change_of_sends_falls_apart_into_sends_that_fail_or_succeed_alone(transactional: bool) -> None:
    engine = ManualEngine()
    answers = []
    for body in (b"1", b"2", b"3", b"4"):
        answers.append(Answer())
        message = Message(body, delivery_guarantee=1)
        if transactional:
            engine.manager.transactions.send_alone(engine.sender(THERE), message, answers[-1])
        else:
            engine.manager.send(engine.sender(THERE), message, answers[-1])
    (change,) = engine.manager.take_pending()
    assert isinstance(change, Sends)
    parts = change.parts()
    assert [sum(isinstance(o, PutMessage) for o in part.operations) for part in parts] == [1, 1, 1, 1]
    engine.apply(parts[:1])
    engine.manager.failed(parts[1:2], MessageStorageFailed("no room"))
    engine.apply(parts[2:])
    assert [answer.error is None for answer in answers] == [True, False, True, True]
    assert engine.bodies(outgoing(engine)) == [b"1", b"3", b"4"]
    assert engine.bodies(outgoing(engine.restart())) == [b"1", b"3", b"4"]
    if transactional:
        taken = engine.manager.batches.lock(outgoing(engine), object(), 10)
        assert [engine.manager.outgoing_streams.previous_for(p) for p in taken] == [0, 1, 3]
        assert numbers(taken) == [1, 3, 4]
        assert outgoing(engine).stream is not None and outgoing(engine).stream.staged == 0  # type: ignore[union-attr]


def test_a_step_that_raises_after_the_commit_tells_those_who_have_no_answer() -> None:
    engine = ManualEngine()
    engine.create()
    answers = start_sends(engine, Q, b"1", b"2")
    (change,) = engine.manager.take_pending()
    change.lost(MessageStorageFailed("a defect"))
    assert all(isinstance(answer.error, MessageStorageFailed) for answer in answers)


# A transaction that is one send


def test_a_message_that_is_a_transaction_by_itself_is_as_one_that_was_begun_and_committed() -> None:
    engine = ManualEngine()
    queue = engine.create(transactional=True)
    identifier = engine.do(engine.manager.transactions.send_alone, engine.sender(), Message(b"alone", priority=5))
    transaction = engine.manager.begin()
    engine.send(engine.sender(), Message(b"begun"), transaction)
    engine.do(engine.manager.commit, transaction.identifier)
    alone, begun = (queue.position(i, engine.store).message for i in list(queue.available))
    assert alone.identifier == identifier and not engine.manager.core.transactions
    assert alone.priority == begun.priority == 0 and alone.delivery_guarantee == 1
    for message in (alone, begun):
        place = message.transaction
        assert isinstance(place, MessageTransaction)
        assert place.first_in_transaction and place.last_in_transaction and place.transaction_identifier.version == 4
    assert alone.transaction.index + 1 == begun.transaction.index  # type: ignore[union-attr]


def test_outside_transactional_queues_such_a_send_is_refused_like_any_other() -> None:
    engine = ManualEngine()
    engine.create()
    with pytest.raises(Exception, match="not transactional"):
        engine.do(engine.manager.transactions.send_alone, engine.sender(), Message(b"x"))


def test_what_stands_before_a_message_is_asked_for_when_it_was_given_back_or_is_gone() -> None:
    engine, link = ManualEngine(), object()
    queue = send(engine, b"1", b"2", b"3", b"4")
    streams = engine.manager.outgoing_streams
    first, second, *_ = taken = engine.manager.batches.lock(queue, link, 4)
    assert [streams.previous_for(position) for position in taken[:2]] == [0, 1]
    streams.release(link, taken)
    assert streams.previous_for(second) == 1  # again: what is there before it
    third, fourth = taken[2:]
    change = Change()
    for position in (first, second):
        engine.manager.removal.stage(change, position, engine.manager.removal.purge_reason(queue))
    engine.manager.core.submit(change)
    engine.commit()
    assert queue.stream is not None and queue.stream.last is None
    taken = engine.manager.batches.lock(queue, link, 4)
    assert taken[0].lookup_id == third.lookup_id and taken[1].lookup_id == fourth.lookup_id
    assert [streams.previous_for(position) for position in taken] == [0, 3]
