"""Final acknowledgements at the sender: messages that wait for them, journals, dead letters ([MS-MQQB] 3.1.5.7)."""

from typing import Any
from uuid import UUID

import pytest

from lior.errors import LiorError
from lior.message import Message, MessageTransaction
from lior.queues.awaiting import AWAITING, MARGIN
from lior.queues.change import Change
from lior.queues.descriptor import QueueAccessType
from lior.queues.ports import MoveMessage
from lior.queues.position import Position
from lior.testing.engine import ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL, FullStore, commit, messages, stored, system_queue
from tests.queues.streams import awaiting, final_ack, numbers, order_ack, outgoing, place, send, take

LINK = object()
JN: dict[str, Any] = {"negative_journaling_requested": True}
JP: dict[str, Any] = {"positive_journaling_requested": True}


def acknowledge(engine: ManualEngine, positions: list[Position]) -> None:
    order_ack(engine, place(positions[0]).sequence_identifier, place(positions[-1]).sequence_number)


def letters(engine: ManualEngine, suffix: str) -> list[tuple[bytes, int]]:
    return [(m.body, m.failure_reason) for m in messages(engine, system_queue(engine, suffix))]


def delivered(engine: ManualEngine, *bodies: bytes, **fields: Any) -> list[Position]:
    """Messages that the receiver has taken, and that wait for what becomes of them."""
    send(engine, *bodies, **fields)
    taken = take(engine, LINK)
    acknowledge(engine, taken)
    return taken


def rows(engine: ManualEngine) -> list[str]:
    return [key for kind, key in engine.store.load().state if kind == AWAITING]


@pytest.mark.spec("QB-100", "QB-146")
def test_what_asks_for_its_fate_waits_and_the_rest_is_gone(host: Host) -> None:
    engine = host.engine
    queue = send(engine, b"nothing")
    for fields in (JN, JP, {**JN, **JP}):
        send(engine, b"something", **fields)
    transaction = engine.manager.begin()
    message = Message(b"final")
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), message, transaction)
    operation: Any = transaction.operations[0]
    operation.message.transaction = MessageTransaction(final_ack_required=True)
    commit(engine, transaction)
    taken = take(engine, LINK)
    bytes_before = engine.manager.core.total_bytes
    change = Change()
    engine.manager.outgoing_streams.order_acked(change, place(taken[0]).sequence_identifier, 5)
    assert sum(isinstance(operation, MoveMessage) for operation in change.operations) == 4
    engine.manager.core.submit(change)
    engine.commit()
    assert queue.message_count == 0 and stored(engine, queue.queue_id) == []
    assert engine.bodies(awaiting(engine)) == [b"something"] * 3 + [b"final"]
    assert engine.manager.core.total_bytes == bytes_before - taken[0].size
    assert letters(engine, "JOURNAL") == [] and engine.manager.core.journal_bytes == 0
    again = host.crash()
    assert awaiting(again).message_count == 4
    assert again.manager.core.total_bytes == bytes_before - taken[0].size


@pytest.mark.spec("QB-143", "QB-150")
@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(
    ("fields", "message_class", "journal", "dead"),
    [
        (JP, 0x4000, 1, 0), (JN, 0x4000, 0, 0), ({**JN, **JP}, 0x4000, 1, 0),
        (JP, 0xC001, 0, 0), (JN, 0xC001, 0, 1), ({**JN, **JP}, 0x8003, 0, 1), (JN, 0xC002, 0, 1), (JN, 0xC0FF, 0, 1),
    ],
)  # fmt: skip
def test_the_final_acknowledgement_decides_once(
    host: Host, fields: dict[str, Any], message_class: int, journal: int, dead: int, crash: bool
) -> None:
    (position,) = delivered(host.engine, b"1", **fields)
    engine = host.crash() if crash else host.engine
    assert letters(engine, "JOURNAL") == []
    assert final_ack(engine, position, message_class)
    assert letters(engine, "JOURNAL") == [(b"1", 0)] * journal
    assert letters(engine, "DEADXACT") == [(b"1", message_class)] * dead
    assert not final_ack(engine, position, message_class)
    for again in (engine, host.crash()):
        assert awaiting(again).message_count == awaiting(again).total_bytes == 0
        assert len(letters(again, "JOURNAL")) == journal and len(letters(again, "DEADXACT")) == dead
        assert again.manager.core.total_bytes == 0


@pytest.mark.spec("QB-150")
@pytest.mark.parametrize("exists", [True, False])
def test_a_dead_letter_goes_to_the_queue_that_the_application_named(engine: ManualEngine, exists: bool) -> None:
    if exists:
        engine.create(r".\private$\dead", transactional=True)
    (position,) = delivered(engine, b"1", application_deadletter_queue=r"DIRECT=OS:.\private$\dead", **JN)
    final_ack(engine, position, 0xC001)
    assert letters(engine, "DEADXACT") == ([] if exists else [(b"1", 0xC001)])
    if exists:
        (letter,) = messages(engine, engine.manager.find_queue(r".\private$\dead"))
        assert (letter.body, letter.failure_reason) == (b"1", 0xC001)


@pytest.mark.spec("QB-150")
def test_it_must_speak_of_a_message_of_ours(engine: ManualEngine) -> None:
    (position,) = delivered(engine, b"1", **JN)
    identifier = position.message.identifier
    assert identifier is not None
    streams, change = engine.manager.outgoing_streams, Change()
    assert not streams.final_acked(change, UUID(int=1), identifier.uniquifier, 0x8000)
    assert not streams.final_acked(change, identifier.lineage, identifier.uniquifier + 1, 0x8000)
    assert not streams.final_acked(change, identifier.lineage, identifier.uniquifier, 0x00FF)
    assert change.operations == [] and awaiting(engine).message_count == 1


@pytest.mark.spec("QB-150", "QB-151", "QB-185")
@pytest.mark.parametrize("fields", [{}, JN, JP])
@pytest.mark.parametrize("crash", [False, True])
def test_a_refusal_before_the_order_acknowledgement_takes_the_message_out_of_its_queue(
    host: Host, fields: dict[str, Any], crash: bool
) -> None:
    """Also for a peer whose stream does not go on behind what it refuses: the next message bridges the gap."""
    send(host.engine, b"1", b"2", b"3", **fields)
    taken = take(host.engine, LINK)
    engine = host.crash() if crash else host.engine
    assert final_ack(engine, taken[1], 0x8003)
    assert letters(engine, "DEADXACT") == [(b"2", 0x8003)] * bool(fields is JN)
    engine.manager.outgoing_streams.release(LINK, taken)
    left = take(engine, LINK)
    assert numbers(left) == [1, 3]
    assert [engine.manager.outgoing_streams.previous_for(position) for position in left] == [0, 1]
    assert not final_ack(engine, taken[1], 0x8003)


@pytest.mark.spec("QB-150")
def test_a_receipt_that_overtakes_the_order_acknowledgement_ends_it(host: Host) -> None:
    engine = host.engine
    queue = send(engine, b"1", b"2", **JP)
    taken = take(engine, LINK)
    assert final_ack(engine, taken[0])
    acknowledge(engine, taken)
    assert final_ack(engine, taken[1])
    for again in (engine, host.crash()):
        assert letters(again, "JOURNAL") == [(b"1", 0), (b"2", 0)]
        assert awaiting(again).message_count == again.manager.core.total_bytes == 0
    assert queue.message_count == 0


@pytest.mark.spec("QB-150")
@pytest.mark.parametrize("order_fails", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_both_acknowledgements_may_come_in_one_breath(order_fails: bool, together: bool) -> None:
    engine = ManualEngine(FullStore())
    queue = send(engine, b"1", b"2", **JN)
    taken = take(engine, LINK)
    identifier = taken[1].message.identifier
    assert identifier is not None
    order, final = Change(), Change()
    streams = engine.manager.outgoing_streams
    streams.order_acked(order, place(taken[0]).sequence_identifier, 2)
    for _ in range(2):
        assert streams.final_acked(order if together else final, identifier.lineage, identifier.uniquifier, 0x8003)
    if order_fails:
        engine.manager.failed([order], FULL)
    else:
        engine.apply([order])
    if not together:
        engine.apply([final])
    if order_fails and together:  # nothing was stored: the peer says both again
        take(engine, LINK)
        acknowledge(engine, taken)
        assert final_ack(engine, taken[1], 0x8003)
    assert letters(engine, "DEADXACT") == [(b"2", 0x8003)]
    left = queue if order_fails and not together else awaiting(engine)
    assert engine.bodies(left) == [b"1"]
    assert engine.manager.core.total_bytes == left.total_bytes == taken[0].size
    again = engine.restart()
    assert again.manager.core.total_bytes == taken[0].size
    assert letters(again, "DEADXACT") == [(b"2", 0x8003)]


@pytest.mark.spec("QB-150")
@pytest.mark.parametrize("waiting", [False, True])
def test_one_that_cannot_be_stored_can_come_again(waiting: bool) -> None:
    engine = ManualEngine(FullStore())
    send(engine, b"1", **JN)
    (position,) = take(engine, LINK)
    if waiting:
        acknowledge(engine, [position])
    engine.store.error = FULL  # type: ignore[attr-defined]
    final_ack(engine, position, 0xC001)
    engine.store.error = None  # type: ignore[attr-defined]
    assert letters(engine, "DEADXACT") == [] and engine.manager.core.total_bytes == position.size
    assert final_ack(engine, position, 0xC001)
    assert letters(engine, "DEADXACT") == [(b"1", 0xC001)] and engine.manager.core.total_bytes == 0


def test_copies_for_several_queues_are_told_apart_by_their_stream(engine: ManualEngine) -> None:
    both = r"DIRECT=OS:elsewhere\private$\q,DIRECT=OS:third\private$\q"
    transaction = engine.manager.begin()
    engine.send(engine.sender(both), Message(b"1", **JN), transaction)
    commit(engine, transaction)
    copies = take(engine, LINK) + take(engine, LINK, to=r"DIRECT=OS:third\private$\q")
    streams = engine.manager.outgoing_streams

    def final(position: Position, message_class: int) -> bool:
        change, identifier = Change(), position.message.identifier
        assert identifier is not None
        known = streams.final_acked(
            change, identifier.lineage, identifier.uniquifier, message_class, place(position).sequence_identifier
        )
        engine.manager.core.submit(change)
        engine.commit()
        return known

    for copy in copies:
        acknowledge(engine, [copy])
    assert final(copies[1], 0x4000)
    assert final(copies[0], 0xC001)
    assert [m.failed_destination for m in messages(engine, system_queue(engine, "DEADXACT"))] == [
        r"DIRECT=OS:elsewhere\private$\q"
    ]


@pytest.mark.spec("QB-100")
@pytest.mark.parametrize(("fields", "dead"), [(JN, 1), (JP, 0)])
@pytest.mark.parametrize("crash", [False, True])
def test_without_an_answer_in_time_the_message_counts_as_in_doubt(
    host: Host, fields: dict[str, Any], dead: int, crash: bool
) -> None:
    delivered(host.engine, b"1", time_to_be_received=100, time_to_reach_queue=50, **fields)
    engine = host.crash() if crash else host.engine
    engine.advance(100 + MARGIN - 1)
    assert awaiting(engine).message_count == 1 and letters(engine, "DEADXACT") == []
    engine.advance(1)
    assert awaiting(engine).message_count == 0 and engine.manager.core.total_bytes == 0
    assert letters(engine, "DEADXACT") == [(b"1", 0xC003)] * dead
    assert letters(engine, "JOURNAL") == []


@pytest.mark.spec("QB-100")
def test_a_message_with_all_the_time_in_the_world_waits_as_long(host: Host) -> None:
    (position,) = delivered(host.engine, b"1", time_to_reach_queue=50, **JP)
    engine = host.crash()
    engine.advance(10**8)
    assert final_ack(engine, position)
    assert letters(engine, "JOURNAL") == [(b"1", 0)]


def test_rows_that_say_where_messages_wait_go_with_the_last_of_them(host: Host) -> None:
    engine = host.engine
    first, second = delivered(engine, b"1", b"2", **JN), delivered(engine, b"3", **JN)
    assert len(rows(engine)) == 2
    for position in (*first, *second):
        final_ack(engine, position)
    delivered(engine, b"4", **JN)
    assert len(rows(engine)) == 1
    assert awaiting(host.crash()).message_count == 1


def test_applications_do_not_see_what_waits(engine: ManualEngine) -> None:
    delivered(engine, b"1", **JN)
    for access in (QueueAccessType.RECEIVE, QueueAccessType.SEND):
        with pytest.raises(LiorError):
            engine.open(r"DIRECT=OS:.\private$\awaiting_final_queue$", access)


def test_purging_the_outgoing_queue_leaves_alone_what_was_delivered(engine: ManualEngine) -> None:
    delivered(engine, b"1", **JN)
    send(engine, b"2", **JN)
    engine.do(engine.manager.purge, outgoing(engine), engine.admin)
    assert awaiting(engine).message_count == 1
    assert letters(engine, "DEADXACT") == [(b"2", 0x8001)]


def test_a_message_that_waits_is_not_held_in_memory(engine: ManualEngine) -> None:
    delivered(engine, *[b"x" * 100] * 50, **JN)
    assert awaiting(engine).message_count == 50 and awaiting(engine).positions == {}
    assert engine.manager.core.cache.used == 0
