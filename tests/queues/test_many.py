"""Messages that came together, each with a caller: sent, read in two phases and taken out in one change."""

from collections.abc import Sequence
from typing import Any

import pytest

from lior.errors import LiorError, MessageStorageFailed
from lior.message import INFINITE, Message, MessageTransaction
from lior.queues.change import Change
from lior.queues.descriptor import QueueAccessType, TwoPhaseRead
from lior.queues.many import MOST
from lior.queues.ports import PutMessage
from lior.queues.position import State
from lior.testing.engine import IDENTIFIER, Answer, ManualEngine
from tests.queues.scenario import ADMIN, FULL, QUEUE, REMOTE, FullStore, classes, refused

BODIES = [b"%d" % n for n in range(40)]
EXACT = r"DIRECT=OS:.\private$\exact"
HERE = r"DIRECT=OS:.\private$\q"
WEB = "DIRECT=http://example.org/msmq/private$/q"
GROUP = "MULTICAST=239.1.2.3:8001"


class Callers:
    """Who was told what."""

    def __init__(self) -> None:
        self.told: dict[Any, Any] = {}

    def __call__(self, callers: Sequence[Any], items: Sequence[Any], error: LiorError | None) -> None:
        for caller, item in zip(callers, items, strict=True):
            assert caller not in self.told, "told twice"
            position = item.position if isinstance(item, TwoPhaseRead) else item
            self.told[caller] = position.message.body if error is None else error.code


def recoverable(*bodies: bytes, **fields: Any) -> list[Message]:
    return [Message(body, **{"delivery_guarantee": 1, **fields}) for body in bodies]


def send_together(engine: ManualEngine, *bodies: bytes, **fields: Any) -> Callers:
    told = Callers()
    assert engine.manager.send_all(engine.sender(), recoverable(*bodies, **fields), bodies, told)
    return told


def fill(engine: ManualEngine, *bodies: bytes, **fields: Any) -> None:
    for body in bodies:
        engine.send(engine.sender(), **{"body": body, "delivery_guarantee": 1, **fields})


def picture(engine: ManualEngine) -> dict[str, Any]:
    core, traffic = engine.manager.core, engine.manager.core.traffic
    return {
        "total": core.total_bytes, "staged": core.staged_bytes, "sent": traffic.sent, "arrived": traffic.arrived,
        "bytes": traffic.arrived_bytes, "received": traffic.received, "reads": len(engine.manager.reading.two_phase),
        "store": [tuple(entry) for entry in engine.store.load_index()],
        "queues": [(q.name, list(q.available), engine.bodies(q), q.total_bytes, q.uncommitted_bytes, q.staged_inserts,
                    q.unavailable, [(i, p.state) for i, p in sorted(q.positions.items()) if i not in q.available],
                    list(q.peekable)) for q in core.queues.values()],
    }  # fmt: skip


# Sends


@pytest.mark.parametrize("fields", [{}, {"priority": 7, "label": "l", "extension": b"e"}, {"time_to_reach_queue": 7}])
def test_messages_sent_together_are_as_if_sent_one_by_one(fields: dict[str, Any]) -> None:
    many, single = ManualEngine(), ManualEngine()
    answers = []
    for engine in (many, single):
        engine.create()
        engine.manager.core.properties.default_time_to_reach_queue = 77
    told = send_together(many, *BODIES, **fields)
    sender = single.sender()
    for message in recoverable(*BODIES, **fields):
        answers.append(Answer())
        single.manager.send(sender, message, answers[-1])
    assert many.manager.core.pending_count == single.manager.core.pending_count == len(BODIES)
    assert not told.told
    assert picture(many) | {"sent": 0} == picture(single) | {"sent": 0}
    for engine in (many, single):
        engine.commit()
    assert picture(many) == picture(single)
    assert list(told.told) == list(told.told.values()) == BODIES
    for engine in (many, single):
        found = engine.manager.find_queue(QUEUE)
        first = found.position(next(iter(found.available)), engine.store).read()
        assert first.destination_queue == sender.text and first.identifier == answers[0].result()
        assert first.time_to_reach_queue == fields.get("time_to_reach_queue", 77)
        assert (first.sent_time, first.source_queue_manager) == (engine.clock.wall(), IDENTIFIER)
    assert many.bodies(many.restart().manager.find_queue(QUEUE)) == BODIES


@pytest.mark.parametrize("fields", [
    {"time_to_be_received": 100}, {"administration_queue": ADMIN}, {"positive_journaling_requested": True},
    {"delivery_guarantee": 0}, {"label": "x" * 250}, {"priority": 8}, {"failed_destination": QUEUE},
])  # fmt: skip
def test_a_message_that_more_follows_from_is_not_sent_with_others(fields: dict[str, Any]) -> None:
    engine = ManualEngine()
    engine.create()
    before, told = picture(engine), Callers()
    messages = recoverable(b"1", b"2") + recoverable(b"3", **fields)
    assert not engine.manager.send_all(engine.sender(), messages, (1, 2, 3), told)
    assert picture(engine) == before and not told.told and not engine.manager.core.pending


@pytest.mark.parametrize("why", ["transactional", "web", "group", "several", "reader", "quota", "throttled", "too many",
                                 "deleted", "stopped", "broken"])  # fmt: skip
def test_what_the_queue_may_not_take_is_for_the_call_for_one_to_say(why: str) -> None:
    engine = ManualEngine()
    queue = engine.create(quota=1 if why == "quota" else INFINITE)
    engine.create(r".\private$\exact", transactional=True)
    to = {"transactional": EXACT, "web": WEB, "group": GROUP, "several": f"{QUEUE},{EXACT}"}.get(why, QUEUE)
    descriptor = engine.open() if why == "reader" else engine.sender(to)
    if why == "throttled":
        engine.manager.core.set_throttled("the disk is full")
    elif why == "deleted":
        engine.do(engine.manager.delete_queue, queue, engine.admin)
    elif why == "stopped":
        engine.manager.stop()
    elif why == "broken":
        engine.manager.core.broken = MessageStorageFailed("gone")
    bodies = BODIES * 2 if why == "too many" else BODIES[:2]
    sizes = {"body": bytes(600)} if why == "quota" else {}
    messages = [Message(sizes.get("body", body), delivery_guarantee=1) for body in bodies]
    assert len(messages) > MOST or why != "too many"
    assert not engine.manager.send_all(descriptor, messages, bodies, Callers())
    assert not engine.manager.core.pending and engine.manager.core.staged_bytes == 0


KINDS = {  # how, and where to
    "recoverable": ({}, REMOTE), "express": ({"express": True}, REMOTE), "express here": ({"express": True}, HERE),
    "alone": ({"alone": True}, REMOTE), "alone here": ({"alone": True}, EXACT),
}  # fmt: skip


def single_sends(engine: ManualEngine, to: str, how: dict[str, Any], *bodies: bytes) -> list[Answer]:
    answers = []
    for message in recoverable(*bodies, delivery_guarantee=0 if how.get("express") else 1):
        answers.append(Answer())
        send = engine.manager.transactions.send_alone if how.get("alone") else engine.manager.send
        send(engine.sender(to), message, answers[-1])
    return answers


def sends_together(engine: ManualEngine, to: str, how: dict[str, Any], *bodies: bytes) -> Callers:
    told = Callers()
    messages = recoverable(*bodies, delivery_guarantee=0 if how.get("express") else 1)
    assert engine.manager.send_batches.send(engine.sender(to), messages, bodies, told, **how)
    return told


def streams(engine: ManualEngine, to: str) -> Any:
    """What the messages of a queue say of their transactions, and where their stream stands."""
    queue = engine.manager.find_queue(to)
    found = []
    for lookup_id in list(queue.available):
        message = queue.position(lookup_id, engine.store).message
        place = message.transaction
        found.append((message.priority, message.delivery_guarantee, place and (
            place.sequence_identifier, place.sequence_number, place.previous_sequence_number, place.index,
            place.first_in_transaction, place.last_in_transaction, place.final_ack_required)))
    stream = getattr(queue, "stream", None)
    return found, stream and (list(stream.entries), stream.counts, stream.staged, stream.last_number, stream.change)


@pytest.mark.parametrize("kind", KINDS)
def test_sends_together_of_every_kind_are_as_if_made_one_by_one(kind: str) -> None:
    how, to = KINDS[kind]
    many, single = ManualEngine(), ManualEngine()
    for engine in (many, single):
        engine.create()
        engine.create(r".\private$\exact", transactional=True)
    told = sends_together(many, to, how, *BODIES)
    answers = single_sends(single, to, how, *BODIES)
    told_more = sends_together(many, to, how, b"more", b"and more")
    answers += single_sends(single, to, how, b"more", b"and more")
    assert bool(told.told) == ("express" in kind)
    for engine in (many, single):
        engine.commit()
    assert picture(many) == picture(single) and streams(many, to) == streams(single, to)
    assert list(told.told) == BODIES and list(told_more.told) == [b"more", b"and more"]
    assert all(answer.done for answer in answers)
    assert list(many.manager.core.expiries._ids) == list(single.manager.core.expiries._ids)
    assert len(many.manager.core.expiries) == len(single.manager.core.expiries)
    if "express" not in kind:
        again = [engine.restart() for engine in (many, single)]
        assert streams(again[0], to) == streams(again[1], to)
        assert again[0].bodies(again[0].manager.find_queue(to)) == [*BODIES, b"more", b"and more"]


@pytest.mark.parametrize("to", [HERE, REMOTE])
def test_express_messages_sent_together_do_not_come_before_durable_ones(to: str) -> None:
    engine = ManualEngine()
    engine.create()
    single_sends(engine, to, {}, b"durable")
    told = sends_together(engine, to, {"express": True}, b"1", b"2")
    assert not told.told
    engine.commit()
    assert engine.bodies(engine.manager.find_queue(to)) == [b"durable", b"1", b"2"]
    assert list(told.told) == [b"1", b"2"]


def test_places_in_a_stream_fall_apart_with_their_change() -> None:
    engine = ManualEngine()
    told = sends_together(engine, REMOTE, {"alone": True}, b"1", b"2", b"3", b"4")
    (change,) = engine.manager.take_pending()
    parts = change.parts()
    assert [sum(isinstance(o, PutMessage) for o in part.operations) for part in parts] == [1, 1, 1, 1]
    engine.apply(parts[:1])
    engine.manager.failed(parts[1:2], FULL)
    engine.apply(parts[2:])
    assert told.told == {b"1": b"1", b"2": FULL.code, b"3": b"3", b"4": b"4"}
    (places, stream) = streams(engine, REMOTE)
    assert [place[2][1] for place in places] == [1, 3, 4]
    assert stream[2:] == (0, 4, None)


def test_a_failed_change_of_a_stream_leaves_its_numbers_unused() -> None:
    engine = ManualEngine()
    sends_together(engine, REMOTE, {"alone": True}, b"1")
    engine.commit()
    told = sends_together(engine, REMOTE, {"alone": True}, b"2", b"3")
    engine.manager.failed(engine.manager.take_pending(), FULL)
    assert told.told == {b"2": FULL.code, b"3": FULL.code}
    sends_together(engine, REMOTE, {"alone": True}, b"4")
    engine.commit()
    assert [place[2][1] for place in streams(engine, REMOTE)[0]] == [1, 4]


def test_sends_whose_commit_fails_leave_nothing_and_each_caller_is_told() -> None:
    engine = ManualEngine(FullStore())
    engine.create()
    before = picture(engine)
    told = send_together(engine, b"1", b"2")
    engine.store.error = FULL  # type: ignore[attr-defined]
    engine.commit()
    assert told.told == {b"1": FULL.code, b"2": FULL.code}
    assert picture(engine) | {"sent": 0} == before | {"sent": 0}


def test_sends_fall_apart_into_sends_that_fail_or_succeed_alone() -> None:
    engine = ManualEngine()
    queue = engine.create()
    told = send_together(engine, b"1", b"2", b"3")
    (change,) = engine.manager.take_pending()
    extra = [operation for operation in change.operations if not isinstance(operation, PutMessage)]
    parts = change.parts()
    assert [sum(isinstance(o, PutMessage) for o in part.operations) for part in parts] == [1, 1, 1]
    assert parts[0].operations[: len(extra)] == extra and [part.count for part in parts] == [1, 1, 1]
    engine.apply(parts[:1])
    engine.manager.failed(parts[1:2], FULL)
    engine.apply(parts[2:])
    assert told.told == {b"1": b"1", b"2": FULL.code, b"3": b"3"}
    assert engine.bodies(queue) == [b"1", b"3"] == engine.bodies(engine.restart().manager.find_queue(QUEUE))
    assert queue.staged_inserts == queue.uncommitted_bytes == engine.manager.core.staged_bytes == 0


def test_a_reader_who_waits_has_the_message_before_its_sender_is_told() -> None:
    engine = ManualEngine()
    engine.create()
    order: list[Any] = []

    class Waiting(Answer):
        def set_result(self, value: Any, /) -> None:
            order.append(value.body)

    engine.manager.receive(engine.open(), Waiting())
    engine.manager.send_all(engine.sender(), recoverable(b"1", b"2"), ("a", "b"), lambda *_: order.append("told"))
    engine.commit()
    assert order == ["told", b"1"]  # taken at once; given when its removal is on disk, which is another commit
    assert engine.bodies(engine.manager.find_queue(QUEUE)) == [b"2"]


def test_callers_are_told_once_and_when_their_messages_can_be_read() -> None:
    engine = ManualEngine()
    queue = engine.create()
    seen: list[Any] = []
    engine.manager.send_all(engine.sender(), recoverable(b"1"), "a", lambda *_: seen.append(engine.bodies(queue)))
    (change,) = engine.manager.take_pending()
    engine.apply([change])
    change.lost(FULL)
    reads = engine.manager.receive_first(engine.open(), 1)
    engine.manager.receive_end_all(reads, "b", lambda *_: seen.append(queue.message_count))
    (change,) = engine.manager.take_pending()
    engine.apply([change])
    change.lost(FULL)
    assert seen == [[b"1"], 0]


def test_a_step_that_raises_after_the_commit_tells_those_who_were_not_told() -> None:
    engine = ManualEngine()
    engine.create()
    told = send_together(engine, b"1", b"2")
    (change,) = engine.manager.take_pending()
    for _ in range(2):
        change.lost(FULL)
    assert told.told == {b"1": FULL.code, b"2": FULL.code}


# Reads


def held(engine: ManualEngine, most: int = MOST) -> tuple[Any, list[TwoPhaseRead]]:
    reader = engine.open()
    return reader, engine.manager.receive_first(reader, most)


@pytest.mark.parametrize("cache_bytes", [0, 64 << 20], ids=["cold", "warm"])
@pytest.mark.parametrize("fields", [{}, {"delivery_guarantee": 0}, {"priority": 5}])
def test_messages_read_together_are_as_if_read_one_by_one(fields: dict[str, Any], cache_bytes: int) -> None:
    many, single = ManualEngine(cache_bytes=cache_bytes), ManualEngine(cache_bytes=cache_bytes)
    for engine in (many, single):
        engine.create()
        fill(engine, *BODIES, **fields)
    reads: list[TwoPhaseRead] = []
    reader = many.open()
    while len(reads) < 30:
        found = many.manager.receive_first(reader, 30 - len(reads))
        assert found
        reads += found
    alone = single.open()
    others = [single.receive(alone, two_phase=True) for _ in range(30)]
    assert [read.message.body for read in reads] == [read.message.body for read in others] == BODIES[:30]
    assert [read.message.lookup_identifier for read in reads] == [read.message.lookup_identifier for read in others]
    assert picture(many) == picture(single)
    told = Callers()
    assert many.manager.receive_end_all(reads, BODIES[:30], told)
    for read in others:
        single.manager.receive_end(read, Answer(), delete=True)
    assert many.manager.core.pending_count == single.manager.core.pending_count
    assert bool(told.told) is (fields == {"delivery_guarantee": 0})  # on disk first, if it is there
    for engine in (many, single):
        engine.commit()
    assert picture(many) == picture(single)
    assert list(told.told.values()) == BODIES[:30]
    left = [] if fields == {"delivery_guarantee": 0} else BODIES[30:]
    assert many.bodies(many.restart().manager.find_queue(QUEUE)) == left


def test_no_more_is_read_than_there_is_and_nothing_of_an_empty_queue() -> None:
    engine = ManualEngine()
    engine.create()
    assert held(engine)[1] == []
    fill(engine, b"1", b"2")
    assert [read.message.body for read in held(engine)[1]] == [b"1", b"2"]


@pytest.mark.parametrize("why", ["sender", "peek when locked", "closed", "elsewhere", "stopped", "broken"])
def test_what_is_unusual_is_not_read_with_others(why: str) -> None:
    engine = ManualEngine()
    engine.create()
    fill(engine, b"1", allow_peek_when_locked=why == "peek when locked")
    engine.send(engine.sender(REMOTE), body=b"1", delivery_guarantee=1)
    reader = engine.sender() if why == "sender" else engine.open()
    if why == "elsewhere":
        reader = engine.open(REMOTE, QueueAccessType.RECEIVE_ADMIN)
    if why == "closed":
        engine.manager.close(reader)
    elif why == "stopped":
        engine.manager.stop()
    elif why == "broken":
        engine.manager.core.broken = FULL
    before = picture(engine)
    assert engine.manager.receive_first(reader, 2) == []
    assert picture(engine) == before


@pytest.mark.parametrize("why", [
    "acknowledged", "journal", "dead letter", "transactional", "ended", "purged", "deleted", "other queue", "too many",
])  # fmt: skip
def test_reads_from_whose_end_more_follows_end_one_by_one(why: str) -> None:
    engine = ManualEngine()
    queue = engine.create(journaling=why == "journal")
    engine.create(r".\private$\admin")
    engine.create(r".\private$\other")
    fields: dict[str, Any] = {}
    if why == "acknowledged":
        fields = {"administration_queue": ADMIN, "acknowledgements_requested": 0x0F}
    fill(engine, *(BODIES * 2 if why == "too many" else BODIES[:2]), **fields)
    _, reads = held(engine, 100)
    if why == "dead letter":
        reads[1].position.message.failure_reason = 0x8001
    elif why == "transactional":
        reads[1].position.message.transaction = MessageTransaction(sequence_identifier=1, sequence_number=1)
    elif why == "ended":
        engine.do(engine.manager.receive_end, reads[1], delete=False)
    elif why == "purged":
        engine.do(engine.manager.purge, queue, engine.admin)
    elif why == "deleted":
        engine.do(engine.manager.delete_queue, queue, engine.admin)
    elif why == "other queue":
        engine.send(engine.sender(r"DIRECT=OS:.\private$\other"), body=b"o")
        reads += engine.manager.receive_first(engine.open(r"DIRECT=OS:.\private$\other"), 1)
    before = picture(engine)
    assert not engine.manager.receive_end_all(reads, range(len(reads)), Callers())
    assert picture(engine) == before
    if why == "acknowledged":
        for read in reads:
            engine.do(engine.manager.receive_end, read, delete=True)
        assert classes(engine, engine.manager.find_queue(ADMIN)).count(0x4000) == 2


@pytest.mark.spec("DM-108")
def test_reads_that_could_not_end_can_be_ended_again() -> None:
    engine = ManualEngine(FullStore())
    engine.create()
    fill(engine, b"1", b"2")
    _, reads = held(engine)
    before, told = picture(engine), Callers()
    assert engine.manager.receive_end_all(reads, "ab", told)
    with refused("TRANSACTION_SEQUENCE"):
        engine.manager.receive_end(reads[0], Answer(), delete=True)
    engine.store.error = FULL  # type: ignore[attr-defined]
    engine.commit()
    engine.store.error = None  # type: ignore[attr-defined]
    assert told.told == {"a": FULL.code, "b": FULL.code} and picture(engine) == before
    assert engine.manager.receive_end_all(reads, "cd", told)
    engine.commit()
    assert engine.manager.find_queue(QUEUE).message_count == 0 and told.told["c"] == b"1"


@pytest.mark.spec("DM-108")
def test_reads_that_could_not_end_are_given_back_when_their_handle_was_closed_meanwhile() -> None:
    engine = ManualEngine(FullStore())
    queue = engine.create()
    fill(engine, b"1", b"2", b"3")
    reader, reads = held(engine, 2)
    assert engine.manager.receive_end_all(reads, "ab", Callers())
    engine.manager.close(reader)
    engine.store.error = FULL  # type: ignore[attr-defined]
    engine.commit()
    engine.store.error = None  # type: ignore[attr-defined]
    assert engine.bodies(queue) == [b"1", b"2", b"3"] and queue.unavailable == 0


def test_ends_fall_apart_into_ends_that_fail_or_succeed_alone() -> None:
    engine = ManualEngine()
    queue = engine.create()
    fill(engine, b"1", b"2", b"3")
    _, reads = held(engine)
    told = Callers()
    assert engine.manager.receive_end_all(reads, "abc", told)
    (change,) = engine.manager.take_pending()
    parts: list[Change] = change.parts()
    engine.apply(parts[:1])
    engine.manager.failed(parts[1:2], FULL)
    engine.apply(parts[2:])
    assert told.told == {"a": b"1", "b": FULL.code, "c": b"3"}
    assert reads[1].position.state is State.LOCKED and reads[1].position.owner is reads[1]
    engine.do(engine.manager.receive_end, reads[1], delete=False)
    assert engine.bodies(queue) == [b"2"] == engine.bodies(engine.restart().manager.find_queue(QUEUE))


@pytest.mark.parametrize("what", ["purge", "delete"])
def test_a_queue_that_is_emptied_while_reads_end_loses_each_message_once(what: str) -> None:
    engine = ManualEngine()
    queue = engine.create()
    fill(engine, b"1", b"2", b"3")
    _, reads = held(engine, 2)
    told = Callers()
    assert engine.manager.receive_end_all(reads, "ab", told)
    answer = Answer()
    getattr(engine.manager, "purge" if what == "purge" else "delete_queue")(queue, engine.admin, answer)
    engine.commit()
    answer.result()
    assert told.told == {"a": b"1", "b": b"2"}
    assert engine.manager.core.total_bytes == 0 and list(engine.store.load_index()) == []
