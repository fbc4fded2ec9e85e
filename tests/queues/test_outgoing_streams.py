"""Exactly-once streams at the sender: ids, numbers, gaps, order acknowledgements, links ([MS-MQQB] 3.1.1.3.1,
3.1.5.6, 3.1.7.1.3)."""

from dataclasses import replace
from typing import Any

import pytest

from lior.message import Message
from lior.queues.change import Change
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import MessageAwaitsTransfer, MessageDeleted
from lior.queues.outgoing import SequenceInfo
from lior.queues.ports import DeleteMessage, DeleteMessages, PutState
from lior.queues.position import Position, State
from lior.store.memory import MemoryStore
from lior.testing.clock import FakeClock
from lior.testing.engine import Answer, ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL, FullStore, abort, commit, messages, stored, system_queue
from tests.queues.streams import awaiting, numbers, order_ack, outgoing, place, send, take

OTHER = r"DIRECT=OS:third\private$\q"
LINK = object()


def ids(positions: list[Position]) -> set[int]:
    return {place(position).sequence_identifier for position in positions}


def previous(engine: ManualEngine, positions: list[Position]) -> list[int]:
    return [engine.manager.outgoing_streams.previous_for(position) for position in positions]


# --- ids and numbers


@pytest.mark.spec("QB-082", "QB-184")
def test_a_message_gets_its_place_at_the_commit_and_keeps_it(host: Host) -> None:
    engine = host.engine
    first, second = engine.manager.begin(), engine.manager.begin()
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"late"), first)
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"early"), second)
    commit(engine, second)
    commit(engine, first)
    taken = take(engine, LINK)
    assert [(p.message.body, n) for p, n in zip(taken, numbers(taken), strict=True)] == [(b"early", 1), (b"late", 2)]
    (sequence_id,) = ids(taken)
    assert sequence_id >> 32 == int(engine.clock.wall()) and sequence_id & 0xFFFFFFFF == 1
    again = take(host.crash(), LINK)
    assert numbers(again) == [1, 2] and ids(again) == {sequence_id}  # sent or not, who knows


@pytest.mark.spec("QB-097")
def test_each_outgoing_queue_has_a_stream_of_its_own(engine: ManualEngine) -> None:
    send(engine, b"1", b"2")
    send(engine, b"3", to=OTHER)
    send(engine, b"4")
    here, there = take(engine, LINK), take(engine, LINK, to=OTHER)
    assert (numbers(here), numbers(there)) == ([1, 2, 3], [1])
    assert len(ids(here)) == 1 and ids(here).isdisjoint(ids(there))


@pytest.mark.spec("QB-097")
@pytest.mark.parametrize("clock", [0, -10_000_000, 60])
def test_ids_grow_over_restarts_even_if_the_clock_was_set_back(host: Host, clock: int) -> None:
    before = 0
    for _ in range(4):
        engine = host.engine
        queue = send(engine, b"1")
        (position,) = take(engine, LINK)
        sequence_id = place(position).sequence_identifier
        assert sequence_id > before
        before = sequence_id
        assert order_ack(engine, sequence_id, 1) is queue
        engine.clock.set_wall(engine.clock.wall() + clock)
        host.crash()


@pytest.mark.spec("QB-097", "QB-171")
def test_a_restored_backup_uses_no_number_again() -> None:
    """The original went on after the backup: the receiver would take what is numbered alike for a repetition."""
    engine = ManualEngine(MemoryStore())
    send(engine, b"1")
    backup = MemoryStore()
    backup.apply(engine.store._as_batch())  # type: ignore[attr-defined]
    send(engine, b"2", b"3", b"4")
    original = take(engine, LINK)
    engine.clock.advance(60)
    restored = ManualEngine(backup, FakeClock(engine.clock.wall()))
    send(restored, b"new")
    (old,) = take(restored, LINK)
    assert place(old) == place(original[0])
    order_ack(restored, place(old).sequence_identifier, 1)
    (new,) = take(restored, LINK)
    assert place(new).sequence_identifier > place(original[-1]).sequence_identifier


@pytest.mark.spec("QB-148")
def test_when_everything_is_acknowledged_a_new_stream_begins(engine: ManualEngine) -> None:
    for burst in range(1, 4):
        send(engine, b"1", b"2")
        taken = take(engine, LINK)
        assert numbers(taken) == [1, 2] and previous(engine, taken) == [0, 1]
        (sequence_id,) = ids(taken)
        assert sequence_id & 0xFFFFFFFF == burst
        order_ack(engine, sequence_id, 2)


@pytest.mark.spec("QB-148")
def test_a_stream_goes_on_while_anything_of_it_is_left_or_on_the_way_to_the_disk(engine: ManualEngine) -> None:
    send(engine, b"1")
    (position,) = take(engine, LINK)
    transaction, answer = engine.manager.begin(), Answer()
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"2"), transaction)
    engine.manager.commit(transaction.identifier, answer)
    order_ack(engine, place(position).sequence_identifier, 1)  # commits both
    send(engine, b"3")
    assert numbers(take(engine, LINK)) == [2, 3]


def test_a_commit_that_fails_leaves_a_gap_that_the_next_message_bridges(engine: ManualEngine) -> None:
    send(engine, b"1")
    transaction, answer = engine.manager.begin(), Answer()
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"2"), transaction)
    engine.manager.commit(transaction.identifier, answer)
    engine.manager.failed(engine.manager.take_pending(), FULL)
    assert answer.error is FULL
    send(engine, b"3")
    taken = take(engine, LINK)
    assert numbers(taken) == [1, 3] and previous(engine, taken) == [0, 1]


def test_when_the_numbers_are_used_up_another_stream_follows(engine: ManualEngine) -> None:
    queue = send(engine, b"1")
    assert queue.stream is not None
    queue.stream.last_number = 0xFFFFFFFE
    send(engine, b"2", b"3")
    taken = take(engine, LINK)
    assert numbers(taken) == [1, 0xFFFFFFFF]
    assert order_ack(engine, place(taken[0]).sequence_identifier, 0xFFFFFFFF) is queue
    assert numbers(take(engine, LINK)) == [1]


def test_copies_to_several_queues_have_a_place_each(engine: ManualEngine) -> None:
    engine.create(transactional=True)
    both = rf"DIRECT=OS:elsewhere\private$\q,{OTHER},DIRECT=OS:.\private$\q"
    send(engine, b"zero", to=OTHER)
    transaction = engine.manager.begin()
    engine.send(engine.sender(both), Message(b"1"), transaction)
    commit(engine, transaction)
    (here,), there = take(engine, LINK), take(engine, LINK, to=OTHER)
    assert numbers([here]) == [1] and numbers(there) == [1, 2]
    (local,) = messages(engine, engine.manager.find_queue(r".\private$\q"))
    assert local.transaction is not None and local.transaction.sequence_number == 0


def test_a_message_received_and_sent_on_gets_a_place_of_its_own(engine: ManualEngine) -> None:
    send(engine, b"1")
    (position,) = take(engine, LINK)
    transaction = engine.manager.begin()
    engine.send(engine.sender(OTHER), position.read(), transaction)
    commit(engine, transaction)
    (copy,) = take(engine, LINK, to=OTHER)
    assert place(copy).sequence_identifier != place(position).sequence_identifier


def test_what_is_sent_outside_a_transaction_has_no_place(engine: ManualEngine) -> None:
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"1", delivery_guarantee=1))
    (position,) = take(engine, LINK)
    assert position.message.transaction is None and previous(engine, [position]) == [0]


@pytest.mark.spec("QB-184")
def test_the_place_is_on_disk_with_the_message_and_sending_writes_nothing(host: Host) -> None:
    engine = host.engine
    transaction = engine.manager.begin()
    for _ in range(100):
        engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(), transaction)
    engine.manager.commit(transaction.identifier, Answer())
    (change,) = engine.manager.take_pending()
    assert not any(isinstance(operation, PutState) for operation in change.operations)
    engine.apply([change])
    assert len(take(engine, LINK)) == 100
    assert engine.manager.take_pending() == []


@pytest.mark.spec("DM-068", "QB-184")
def test_a_prepared_message_gets_its_place_when_it_is_committed(host: Host) -> None:
    engine = host.engine
    transaction = engine.manager.begin(single_phase=False)
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"1"), transaction)
    engine.do(engine.manager.prepare, transaction.identifier)
    again = host.crash()
    commit(again, again.manager.core.transactions[transaction.identifier])
    sequence = place(take(again, LINK)[0])
    assert sequence.sequence_number == 1
    assert place(take(host.crash(), LINK)[0]) == sequence
    assert stored(host.engine, 0) == []


# --- previous numbers


@pytest.mark.spec("QB-184", "QB-185")
def test_a_message_names_the_one_before_it_that_is_still_here(engine: ManualEngine) -> None:
    send(engine, b"1", b"2", time_to_reach_queue=100)
    send(engine, b"3", time_to_reach_queue=10)
    send(engine, b"4", b"5")
    taken = take(engine, LINK)
    assert previous(engine, taken) == [0, 1, 2, 3, 4]
    engine.manager.outgoing_streams.release(LINK, taken)
    engine.advance(11)
    taken = take(engine, LINK)
    assert numbers(taken) == [1, 2, 4, 5] and previous(engine, taken) == [0, 1, 2, 4]
    order_ack(engine, place(taken[0]).sequence_identifier, 2)
    assert previous(engine, taken[2:]) == [0, 4]  # sent again: whoever forgot the stream takes it too


@pytest.mark.spec("QB-184")
def test_the_first_time_a_message_names_the_last_acknowledged_one(engine: ManualEngine) -> None:
    send(engine, b"1", b"2", b"3")
    taken = take(engine, LINK, 2)
    order_ack(engine, place(taken[0]).sequence_identifier, 2)
    position = engine.manager.outgoing_streams.lock_next(outgoing(engine), LINK)
    assert position is not None
    assert previous(engine, [position]) == [2]
    assert previous(engine, [position]) == [0]


@pytest.mark.spec("QB-185")
@pytest.mark.parametrize("hold", ["two phase", "transaction"])
def test_one_that_an_administrator_holds_is_still_here_after_a_restart_too(host: Host, hold: str) -> None:
    send(host.engine, b"1", b"2", b"3", b"4")
    engine = host.crash()
    reader = engine.open(r"DIRECT=OS:elsewhere\private$\q", QueueAccessType.RECEIVE_ADMIN)
    lookup_id = list(outgoing(engine).available)[1]
    transaction = engine.manager.begin()
    options: Any = {"two_phase": True} if hold == "two phase" else {"transaction": transaction}
    engine.do(lambda reply: engine.manager.read_by_lookup(reader, reply, lookup_id=lookup_id, **options))
    taken = take(engine, LINK)
    assert numbers(taken) == [1, 3, 4] and previous(engine, taken) == [0, 2, 3]
    if hold == "transaction":
        abort(engine, transaction)
        assert numbers(take(engine, LINK)) == [2]


def test_what_others_sent_keeps_its_place_and_stays_out_of_ours(engine: ManualEngine) -> None:
    queue = send(engine, b"1")
    (own,) = take(engine, LINK)
    foreign = replace(own.message.copy(), source_queue_manager=engine.manager.core.ids.guid(), packet=b"as it came")
    foreign.transaction = replace(place(own), sequence_identifier=77, sequence_number=9, previous_sequence_number=4)
    change = Change()
    assert engine.manager.transit(change, foreign, queue.destination) == 0
    engine.manager.core.submit(change)
    engine.commit()
    send(engine, b"2")
    passing, second = take(engine, LINK)
    assert numbers([passing, second]) == [9, 2] and previous(engine, [passing, second]) == [4, 1]
    order_ack(engine, place(own).sequence_identifier, 2)
    assert queue.message_count == 1
    assert order_ack(engine, 77, 9) is None


# --- order acknowledgements


@pytest.mark.spec("QB-145", "QB-146")
def test_an_order_acknowledgement_takes_everything_up_to_its_number(host: Host) -> None:
    engine = host.engine
    queue = send(engine, *[b"%d" % n for n in range(1, 11)])
    taken = take(engine, LINK)
    (sequence_id,) = ids(taken)
    assert order_ack(engine, sequence_id, 4) is queue
    assert queue.message_count == 6 and len(stored(engine, queue.queue_id)) == 6
    engine.manager.outgoing_streams.release(LINK, taken[4:7])  # acknowledged although they wait to be sent again
    assert order_ack(engine, sequence_id, 10) is queue
    assert queue.message_count == 0 and stored(engine, queue.queue_id) == []
    assert engine.manager.core.total_bytes == 0 and all(p.state is State.DELETED for p in taken)
    engine.manager.outgoing_streams.release(LINK, taken)  # the link learns it late


@pytest.mark.spec("QB-145")
def test_stale_unknown_and_too_high_acknowledgements_are_ignored(engine: ManualEngine) -> None:
    queue = send(engine, b"1", b"2")
    (old,) = ids(take(engine, LINK))
    order_ack(engine, old, 2)
    send(engine, *[b"%d" % n for n in range(10)])
    (new,) = ids(take(engine, LINK))
    for sequence_id, number in ((old, 2), (old, 10), (new + 1, 3), (new - 1 << 32, 1), (new, 11), (new, 0), (0, 1)):
        assert order_ack(engine, sequence_id, number) is None
    assert queue.message_count == 10
    assert order_ack(engine, new, 10) is queue


@pytest.mark.spec("QB-146")
def test_an_acknowledgement_that_cannot_be_stored_takes_nothing(engine: ManualEngine) -> None:
    engine = ManualEngine(FullStore())
    queue = send(engine, b"1", b"2", negative_journaling_requested=True)
    send(engine, b"3", b"4")
    taken = take(engine, LINK)
    engine.store.error = FULL  # type: ignore[attr-defined]
    order_ack(engine, place(taken[0]).sequence_identifier, 4)
    engine.store.error = None  # type: ignore[attr-defined]
    engine.manager.outgoing_streams.release(LINK, taken)  # it was not the link's any more
    again = take(engine, LINK)
    assert numbers(again) == [1, 2, 3, 4] and queue.message_count == 4
    order_ack(engine, place(again[0]).sequence_identifier, 4)
    assert queue.message_count == 0 and awaiting(engine).message_count == 2
    core = engine.manager.core
    assert core.total_bytes == awaiting(engine).total_bytes > 0


@pytest.mark.spec("QB-146")
def test_an_acknowledgement_of_many_is_stored_in_pieces(engine: ManualEngine) -> None:
    queue = send(engine, *[b""] * 2500)
    (sequence_id,) = ids(take(engine, LINK, 2500))
    change = Change()
    engine.manager.outgoing_streams.order_acked(change, sequence_id, 2500)
    assert sum(len(o.lookup_ids) for o in change.operations if isinstance(o, DeleteMessages)) == 1024
    engine.manager.core.submit(change)
    assert engine.commit() == 3
    assert queue.message_count == 0


@pytest.mark.spec("QB-146")
def test_an_acknowledgement_after_a_restart_spares_the_messages_it_is_about(host: Host) -> None:
    """They were sent before; the receiver has them and need not see them again."""
    send(host.engine, *[b"%d" % n for n in range(1, 301)])
    engine = host.crash()
    sender = engine.sender(r"DIRECT=OS:elsewhere\private$\q")
    for _ in range(5):
        engine.send(sender, Message(b"plain", delivery_guarantee=1, priority=0))
    (first,) = take(engine, LINK, 1)
    order_ack(engine, place(first).sequence_identifier, 200)
    assert outgoing(engine).message_count == 105
    taken = take(engine, LINK)
    assert [p.message.body for p in taken] == [b"%d" % n for n in range(201, 301)] + [b"plain"] * 5


@pytest.mark.spec("QB-145", "QB-146", "QB-121")
def test_an_acknowledgement_after_a_restart_reaches_what_waits_between_the_sent_and_the_new(host: Host) -> None:
    send(host.engine, *(b"%d" % number for number in range(1, 7)))
    (sequence_id,) = ids(take(host.engine, LINK))  # all of them were sent and arrived, and the sender was killed
    engine = host.crash()
    send(engine, b"of this run")
    assert numbers(take(engine, LINK, 2)) == [1, 2]  # the window has no room for more
    order_ack(engine, sequence_id, 5)
    assert [place(p).sequence_number for p in take(engine, LINK)] == [6]
    order_ack(engine, sequence_id, 6)
    (new,) = take(engine, LINK)
    assert new.message.body == b"of this run"


@pytest.mark.spec("QB-184")
def test_no_message_names_one_behind_it_as_the_one_before(engine: ManualEngine) -> None:
    """An acknowledgement may speak of more than this run has sent, while its messages are still being removed."""
    queue = send(engine, b"1", b"2", b"3")
    (first,) = take(engine, LINK, 1)
    change = Change()
    engine.manager.outgoing_streams.order_acked(change, place(first).sequence_identifier, 3)
    assert queue.stream is not None and queue.stream.acked[1] == 3  # and nothing is on disk
    engine.manager.outgoing_streams.release(LINK, [first])
    queue.stream.sent_to = 0
    assert previous(engine, [first]) == [0]


def test_what_somebody_else_removes_is_left_to_him(engine: ManualEngine) -> None:
    queue = send(engine, b"1", b"2", b"3", b"4", b"5")
    taken = take(engine, LINK)
    sequence_id = place(taken[0]).sequence_identifier
    engine.manager.outgoing_streams.release(LINK, taken[:2])
    reader = engine.open(r"DIRECT=OS:elsewhere\private$\q", QueueAccessType.RECEIVE_ADMIN)
    transaction = engine.manager.begin()
    engine.receive(reader, transaction=transaction)
    read = engine.receive(reader, two_phase=True)
    engine.do(engine.manager.purge, queue, engine.admin)  # 3 to 5 are with the link: they go when that lets go
    order_ack(engine, sequence_id, 4)
    assert queue.message_count == 3
    engine.manager.outgoing_streams.release(LINK, taken)
    engine.commit()
    engine.do(engine.manager.receive_end, read, delete=False)
    abort(engine, transaction)
    assert queue.message_count == 0  # purged meanwhile
    events = [(e.message.body, e.reason) for e in engine.events if isinstance(e, MessageDeleted)]
    assert sorted(events) == [(b"1", 0x8001), (b"2", 0x8001), (b"3", 2), (b"4", 2), (b"5", 0x8001)]


# --- what management shows


@pytest.mark.spec("QB-149", "QB-176", "QB-054", "QB-101")
def test_management_sees_how_far_the_stream_got(engine: ManualEngine) -> None:
    queue = send(engine, b"1", b"2", b"3", negative_journaling_requested=True)
    taken = take(engine, LINK, 2)
    (sequence_id,) = ids(taken)
    info, streams = queue.transfer_info, engine.manager.outgoing_streams
    assert streams.transfer_info(queue) is info
    assert (info.eod_no_ack_count, info.eod_no_read_count, info.eod_last_ack_count) == (2, 0, 0)
    assert (info.eod_first_non_ack, info.eod_last_non_ack) == (
        SequenceInfo(sequence_id, 1, 0),
        SequenceInfo(sequence_id, 2, 1),
    )
    assert (info.eod_next_seq.sequence_id, info.eod_next_seq.sequence_number) == (sequence_id, 4)
    assert info.eod_next_seq.previous_number == 3
    engine.advance(5)
    order_ack(engine, sequence_id, 1)
    streams.transfer_info(queue)
    assert (info.eod_no_ack_count, info.eod_no_read_count, info.eod_last_ack_count) == (1, 1, 1)
    assert info.eod_last_ack_time == engine.clock.wall()
    assert (info.eod_last_ack.sequence_id, info.eod_last_ack.sequence_number) == (sequence_id, 1)
    assert info.eod_first_non_ack.sequence_number == info.eod_last_non_ack.sequence_number == 2
    take(engine, LINK)
    order_ack(engine, sequence_id, 3)
    streams.transfer_info(queue)
    assert (info.eod_no_ack_count, info.eod_no_read_count, info.eod_last_ack_count) == (0, 3, 2)
    assert (info.eod_first_non_ack.sequence_number, info.eod_next_seq.sequence_number) == (0, 1)
    assert info.eod_next_seq.sequence_id > sequence_id


# --- links


def test_a_link_gets_messages_in_order_each_once_and_back_to_their_place(engine: ManualEngine) -> None:
    send(engine, b"a", b"b")
    sender = engine.sender(r"DIRECT=OS:elsewhere\private$\q")
    for body, priority, guarantee in ((b"urgent", 7, 0), (b"plain", 3, 1)):
        engine.send(sender, Message(body, priority=priority, delivery_guarantee=guarantee))
    first, second = object(), object()
    assert [p.message.body for p in take(engine, first, 3)] == [b"urgent", b"plain", b"a"]
    held = take(engine, second)
    assert [p.message.body for p in held] == [b"b"]
    assert take(engine, second) == []
    positions = [p for p in outgoing(engine).positions.values() if p.owner is first]
    engine.manager.outgoing_streams.release(first, positions)
    engine.manager.outgoing_streams.release(first, held)  # not its own
    assert [p.message.body for p in take(engine, second)] == [b"urgent", b"plain", b"a"]


def test_nothing_leaves_a_queue_that_is_on_hold(engine: ManualEngine) -> None:
    queue = send(engine, b"1")
    engine.do(engine.manager.administration.pause, queue, engine.admin)
    assert take(engine, LINK) == []
    engine.do(engine.manager.administration.resume, queue, engine.admin)
    assert len(take(engine, LINK)) == 1


@pytest.mark.spec("QB-183")
@pytest.mark.parametrize("transactional", [True, False])
def test_what_expired_is_not_sent_whether_or_not_anybody_looked_before(
    engine: ManualEngine, transactional: bool
) -> None:
    engine.create(r".\private$\admin")
    fields: dict[str, Any] = {
        "time_to_reach_queue": 3, "negative_journaling_requested": True, "acknowledgements_requested": 4,
        "administration_queue": r"DIRECT=OS:.\private$\admin",
    }  # fmt: skip
    if transactional:
        queue = send(engine, b"1", b"2", **fields)
    else:
        for body in (b"1", b"2"):
            sender = engine.sender(r"DIRECT=OS:elsewhere\private$\q")
            engine.send(sender, Message(body, delivery_guarantee=1, **fields))
        queue = outgoing(engine)
    send(engine, b"3")
    engine.clock.advance(4)
    assert [p.message.body for p in take(engine, LINK)] == [b"3"]
    engine.commit()
    assert queue.message_count == 1
    dead = messages(engine, system_queue(engine, "DEADXACT" if transactional else "DEADLETTER"))
    assert [(m.body, m.failure_reason) for m in dead] == [(b"1", 0x8002), (b"2", 0x8002)]
    admin = messages(engine, engine.manager.find_queue(r".\private$\admin"))
    assert [m.message_class for m in admin] == [0x8002, 0x8002]


@pytest.mark.spec("QB-183")
def test_an_idle_queue_expires_too(engine: ManualEngine) -> None:
    queue = send(engine, b"1", time_to_reach_queue=3)
    engine.advance(3)
    assert queue.message_count == 1
    engine.advance(1)
    assert queue.message_count == 0


@pytest.mark.spec("QB-121")
def test_after_a_restart_the_new_waits_until_the_old_is_acknowledged(host: Host) -> None:
    """A receiver that took the first of a later stream would refuse the rest of the earlier one for ever."""
    send(host.engine, b"1", b"2")
    host.crash()
    send(host.engine, b"3")
    engine = host.crash()
    send(engine, b"4")
    bodies = []
    for count in (2, 1, 1):
        taken = take(engine, LINK)
        assert len(taken) == count and len(ids(taken)) == 1
        bodies += [p.message.body for p in taken]
        engine.events.clear()
        order_ack(engine, place(taken[0]).sequence_identifier, place(taken[-1]).sequence_number)
        woken = [e.queue for e in engine.events if isinstance(e, MessageAwaitsTransfer)]
        assert woken == ([outgoing(engine)] if len(bodies) < 4 else [])
    assert bodies == [b"1", b"2", b"3", b"4"]


def test_a_message_delivered_after_it_was_purged_or_had_expired_is_gone_once(engine: ManualEngine) -> None:
    sender = engine.sender(r"DIRECT=OS:elsewhere\private$\q")
    for body in (b"1", b"2", b"3"):
        engine.send(sender, Message(body, delivery_guarantee=1))
    taken = take(engine, LINK)
    engine.do(engine.manager.purge, outgoing(engine), engine.admin)
    engine.manager.outgoing_streams.release(LINK, taken[:1])
    engine.commit()
    change = Change()
    for position in (*taken, *taken):
        engine.manager.removal.transferred(change, position)
    engine.manager.core.submit(change)
    engine.commit()
    assert outgoing(engine).message_count == 0 and engine.manager.core.total_bytes == 0
    deleted = [e.reason for e in engine.events if isinstance(e, MessageDeleted)]
    assert deleted == [0x8001, 2, 2]


def test_a_late_word_on_a_message_that_another_link_has_changes_nothing() -> None:
    engine = ManualEngine(cache_bytes=0)
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"1", delivery_guarantee=1))
    (early,) = take(engine, LINK)
    engine.manager.outgoing_streams.release(LINK, [early])
    (position,) = take(engine, other := object())
    change = Change()
    engine.manager.removal.transferred(change, early)
    assert change.operations == [] and position.owner is other
    engine.manager.removal.transferred(change, position)
    engine.manager.core.submit(change)
    engine.commit()
    queue = outgoing(engine)
    assert queue.message_count == queue.unavailable == 0 and engine.manager.core.total_bytes == 0


@pytest.mark.spec("QB-099")
def test_a_delivery_that_cannot_be_noted_is_sent_again_even_if_the_link_ended_meanwhile() -> None:
    engine = ManualEngine(FullStore())
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(b"1", delivery_guarantee=1))
    (position,) = take(engine, LINK)
    change = Change()
    engine.manager.removal.transferred(change, position)
    engine.manager.core.submit(change)
    engine.manager.outgoing_streams.release(LINK, [position])
    engine.store.error = FULL  # type: ignore[attr-defined]
    engine.commit()
    engine.store.error = None  # type: ignore[attr-defined]
    assert [p.message.body for p in take(engine, object())] == [b"1"]


def test_a_damaged_message_does_not_hold_up_the_others(engine: ManualEngine) -> None:
    send(engine, b"1", b"2", b"3")
    engine = engine.restart()
    queue = outgoing(engine)
    engine.store.apply([DeleteMessage(queue.queue_id, list(queue.available)[1])])
    taken = take(engine, LINK)
    assert [p.message.body for p in taken] == [b"1", b"3"]
    assert take(engine, LINK) == []
