"""Exactly-once streams at the receiver: order, durability, and changes that fail ([MS-MQQB] 3.1.5.8.6)."""

from itertools import permutations
from uuid import UUID

import pytest

from lior.queues import incoming_streams
from lior.queues.change import Change
from lior.queues.outgoing import INCOMING, IncomingTransactionalTransferInfo
from lior.queues.ports import ExpectState, PutState
from lior.queues.queue import Queue
from lior.testing.engine import ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL
from tests.queues.streams import BACK, SENDER, arrive, incoming

OTHER = UUID("aabbccdd-0011-2233-4455-66778899aabc")


def submit(engine: ManualEngine, change: Change) -> None:
    engine.manager.core.submit(change)
    engine.commit()


def info(engine: ManualEngine) -> IncomingTransactionalTransferInfo:
    (only,) = engine.manager.core.incoming.values()
    return only


@pytest.fixture
def queue(engine: ManualEngine) -> Queue:
    return engine.create(transactional=True)


@pytest.mark.spec("QB-171")
def test_whatever_the_order_of_arrival_each_message_is_taken_once_and_in_order(
    engine: ManualEngine, queue: Queue
) -> None:
    for sequence, order in enumerate(permutations(range(1, 6)), start=1):
        expected, last = [], 0
        for number in (*order, *order, *range(1, 6)):
            submit(engine, arrive(engine, queue, incoming(number, sequence_id=sequence)))
            if number == last + 1:
                expected.append(b"%d" % number)
                last = number
        assert engine.bodies(queue)[-5:] == [b"1", b"2", b"3", b"4", b"5"] == expected


@pytest.mark.spec("QB-171")
@pytest.mark.parametrize(
    ("sequence_id", "number", "previous", "taken"),
    [
        (5, 4, 3, True), (5, 4, 2, True), (5, 4, 0, True), (5, 9, 3, True),  # the next, with or without a gap
        (5, 3, 2, False), (5, 1, 0, False),  # again
        (5, 5, 4, False),  # the one before it is not here
        (6, 1, 0, True), (6, 9, 0, True), (1 << 63, 1, 0, True),  # a later stream from its first message on
        (6, 4, 3, False), (6, 2, 1, False), (4, 9, 0, False), (4, 4, 3, False), (1, 1, 0, False),
    ],
)  # fmt: skip
def test_a_message_is_taken_if_it_is_the_next_or_begins_a_later_stream(
    engine: ManualEngine, queue: Queue, sequence_id: int, number: int, previous: int, taken: bool
) -> None:
    submit(engine, arrive(engine, queue, *(incoming(n, sequence_id=5) for n in (1, 2, 3))))
    submit(engine, arrive(engine, queue, incoming(number, previous, sequence_id)))
    assert queue.message_count == 3 + taken
    known = info(engine)
    place = (known.sequence_id, known.last_sequence_number)
    assert place == ((sequence_id, number) if taken else (5, 3))
    assert known.reject_count == (not taken)


@pytest.mark.spec("QB-083", "QB-098")
def test_streams_of_senders_queues_and_names_do_not_meet(engine: ManualEngine, queue: Queue) -> None:
    other = engine.create(r".\private$\other", transactional=True)
    for sender in (SENDER, OTHER):
        for where in (queue, other):
            for name in (r"DIRECT=OS:lior\private$\q", r"DIRECT=TCP:192.0.2.7\private$\q"):
                message = incoming(1, sender=sender, destination_queue=name)
                submit(engine, arrive(engine, where, message, message))
    assert (queue.message_count, other.message_count) == (4, 4)
    assert len(engine.manager.core.incoming) == 8


@pytest.mark.spec("QB-083", "QB-098", "QB-106", "DM-027")
def test_a_restart_in_the_middle_neither_loses_nor_repeats(host: Host) -> None:
    queue = host.engine.create(transactional=True)
    submit(host.engine, arrive(host.engine, queue, *map(incoming, (1, 2, 3))))
    lost = arrive(host.engine, queue, *map(incoming, (4, 5)))
    host.engine.manager.core.submit(lost)
    again = host.crash()
    queue = again.manager.find_queue(r".\private$\q")
    assert info(again).acknowledge_to == BACK
    submit(again, arrive(again, queue, *map(incoming, (2, 3, 4, 5))))
    assert again.bodies(queue) == [b"1", b"2", b"3", b"4", b"5"]
    assert again.manager.incoming_streams.stored(info(again)) == (7 << 32 | 1, 5)


def test_a_change_writes_where_a_stream_stands_once(engine: ManualEngine, queue: Queue) -> None:
    change = arrive(engine, queue, *map(incoming, range(1, 65)))
    (record,) = [op for op in change.operations if isinstance(op, PutState) and op.kind == INCOMING]
    assert IncomingTransactionalTransferInfo.from_bytes(record.value).last_sequence_number == 64
    assert not any(isinstance(op, ExpectState) for op in change.operations)
    submit(engine, change)
    assert engine.store.load().state[INCOMING, record.key] == record.value


@pytest.mark.spec("QB-083", "QB-171")
def test_a_change_that_failed_takes_those_with_it_that_build_upon_it(host: Host) -> None:
    """A full disk refuses the first and has room for the second: it must not be stored alone."""
    engine = host.engine
    queue = engine.create(transactional=True)
    submit(engine, arrive(engine, queue, incoming(1)))
    first = arrive(engine, queue, incoming(2), incoming(3))
    second = arrive(engine, queue, incoming(4))
    assert engine.manager.incoming_streams.stored(info(engine)) == (7 << 32 | 1, 1)
    engine.manager.failed([first], FULL)
    third = arrive(engine, queue, incoming(2))
    engine.apply([second])
    engine.apply([third])
    assert engine.bodies(queue) == [b"1", b"2"]
    assert info(engine).last_sequence_number == 2
    submit(engine, arrive(engine, queue, incoming(3), incoming(4)))
    assert host.crash().bodies(host.engine.manager.find_queue(r".\private$\q")) == [b"1", b"2", b"3", b"4"]


def test_changes_that_build_upon_each_other_are_stored_together(host: Host) -> None:
    engine = host.engine
    queue = engine.create(transactional=True)
    for numbers in ((1, 2), (3,), (4, 5)):
        engine.manager.core.submit(arrive(engine, queue, *map(incoming, numbers)))
    assert len(engine.bodies(queue)) == 0
    engine.commit()
    assert len(host.crash().bodies(host.engine.manager.find_queue(r".\private$\q"))) == 5


def test_a_stream_whose_first_change_failed_is_as_if_it_had_never_come(engine: ManualEngine, queue: Queue) -> None:
    engine.manager.failed([arrive(engine, queue, incoming(1), incoming(2))], FULL)
    assert engine.manager.core.incoming == {}
    submit(engine, arrive(engine, queue, incoming(1)))
    assert engine.bodies(queue) == [b"1"] and info(engine).last_sequence_number == 1


def test_the_longest_unused_streams_give_way_to_new_ones(
    engine: ManualEngine, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_streams, "MOST_STREAMS", 100)
    for number in range(200):
        engine.advance(1)
        submit(engine, arrive(engine, queue, incoming(1, sender=UUID(int=number + 1))))
        submit(engine, arrive(engine, queue, incoming(1, sender=UUID(int=1))))  # refused: known while it is used
    assert len(engine.manager.core.incoming) <= 101
    assert len([key for key in engine.store.load().state if key[0] == INCOMING]) <= 101
    assert any(known.sender == UUID(int=200) for known in engine.manager.core.incoming.values())


def test_a_stream_to_a_queue_that_is_not_there_is_remembered_too(host: Host) -> None:
    engine, change, message = host.engine, Change(), incoming(1)
    streams = engine.manager.incoming_streams
    assert message.transaction is not None
    known = streams.position(None, message)
    streams.advance(change, known, None, message.transaction, engine.clock.wall())
    submit(engine, change)
    again = host.crash().manager.incoming_streams
    assert not again.accepts(again.position(None, message), message.transaction)


def test_where_acknowledgements_go_is_the_stream_s_or_else_the_sender(engine: ManualEngine, queue: Queue) -> None:
    streams, message = engine.manager.incoming_streams, incoming(1)
    assert streams.acknowledge_to(queue, message) == f"PRIVATE={str(SENDER).upper()}\\00000004"
    submit(engine, arrive(engine, queue, message))
    assert streams.acknowledge_to(queue, message) == BACK
