"""Reads that wait: first come first served, timeouts in milliseconds, cancelling, exactly one answer."""

from random import Random

import pytest

from lior.errors import WaitNotFound
from lior.message import Message
from lior.queues.descriptor import OpenQueueDescriptor
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import abort, code, commit, failure, refused

STATUS_NOT_FOUND = 0xC0000225


def start_peek(engine: ManualEngine, reader: OpenQueueDescriptor, **options: object) -> Answer:
    answer = Answer()
    engine.manager.peek(reader, answer, **options)  # type: ignore[arg-type]
    return answer


@pytest.mark.spec("DM-028")
@pytest.mark.parametrize("handles", [1, 2])
def test_blocked_receivers_are_served_in_the_order_of_their_calls(engine: ManualEngine, handles: int) -> None:
    engine.create()
    readers = [engine.open() for _ in range(handles)]
    answers = [engine.start_receive(readers[number % handles]) for number in range(4)]
    for number in range(4):
        engine.send(engine.sender(), body=b"%d" % number)
        assert [answer.done for answer in answers] == [i <= number for i in range(4)]
    assert [answer.result().body for answer in answers] == [b"0", b"1", b"2", b"3"]


@pytest.mark.spec("DM-114", "DM-129")
def test_one_message_answers_every_peeker_up_to_and_with_the_first_receiver(engine: ManualEngine) -> None:
    queue = engine.create()
    reader = engine.open()
    peeks = [start_peek(engine, reader) for _ in range(3)]
    receives = [engine.start_receive(reader) for _ in range(2)]
    engine.send(engine.sender(), body=b"x", delivery_guarantee=1)
    assert [answer.result().body for answer in peeks] == [b"x"] * 3
    assert [answer.done for answer in receives] == [True, False]
    assert receives[0].result().body == b"x" and queue.message_count == 0


@pytest.mark.spec("DM-129")
def test_a_peeker_behind_a_receiver_waits_for_another_message(engine: ManualEngine) -> None:
    engine.create()
    reader = engine.open()
    receive, peek = engine.start_receive(reader), start_peek(engine, reader)
    engine.send(engine.sender(), body=b"1")
    assert receive.result().body == b"1" and not peek.done
    engine.send(engine.sender(), body=b"2")
    assert peek.result().body == b"2"


@pytest.mark.spec("DM-129")
def test_a_message_given_back_by_an_abort_wakes_who_waits(engine: ManualEngine) -> None:
    engine.create(transactional=True)
    fill, holding = engine.manager.begin(), engine.manager.begin()
    engine.send(engine.sender(), body=b"x", transaction=fill)
    commit(engine, fill)
    reader = engine.open()
    engine.receive(reader, transaction=holding)
    answer = engine.start_receive(reader)
    assert not answer.done
    abort(engine, holding)
    assert answer.result().body == b"x"


@pytest.mark.spec("DM-129")
def test_becoming_available_again_counts_no_bytes_again(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(), body=b"x" * 10)
    size = queue.total_bytes
    assert size == 130
    for _ in range(3):
        engine.do(engine.manager.receive_end, engine.receive(engine.open(), two_phase=True), delete=False)
    assert queue.total_bytes == size == engine.manager.core.total_bytes


@pytest.mark.spec("DM-061", "DM-133")
def test_a_timeout_of_250_milliseconds_is_250_milliseconds(engine: ManualEngine) -> None:
    engine.create()
    answer = engine.start_receive(engine.open(), timeout_ms=250)
    engine.advance(0.249)
    assert not answer.done
    engine.advance(0.0011)
    assert failure(answer) == code("IO_TIMEOUT")
    assert engine.manager.next_wait_deadline() is None


@pytest.mark.spec("DM-061")
def test_the_wait_follows_the_monotonic_clock(engine: ManualEngine) -> None:
    engine.create()
    answer = engine.start_receive(engine.open(), timeout_ms=1000)
    engine.clock.set_wall(engine.clock.wall() + 86400)
    engine.advance(0)
    assert not answer.done
    assert engine.manager.next_wait_deadline() == engine.clock.monotonic() + 1


@pytest.mark.spec("DM-061")
def test_an_infinite_wait_never_times_out(engine: ManualEngine) -> None:
    engine.create()
    answer = engine.start_receive(engine.open(), timeout_ms=0xFFFFFFFF)
    assert engine.manager.next_wait_deadline() is None
    engine.advance(400 * 86400)
    assert not answer.done
    engine.send(engine.sender())
    assert answer.done


@pytest.mark.spec("DM-061")
def test_the_longest_finite_wait_is_not_infinite(engine: ManualEngine) -> None:
    engine.create()
    answer = engine.start_receive(engine.open(), timeout_ms=0xFFFFFFFE)
    engine.advance(0xFFFFFFFE / 1000 + 1)
    assert failure(answer) == code("IO_TIMEOUT")


@pytest.mark.spec("DM-133")
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_to_wait_fails_at_once(engine: ManualEngine, timeout_ms: int) -> None:
    queue = engine.create()
    with refused("IO_TIMEOUT"):
        engine.receive(engine.open(), timeout_ms=timeout_ms)
    assert queue.waiters == []


@pytest.mark.spec("DM-133")
def test_arrival_against_timeout_never_loses_or_doubles_a_message(seed: int) -> None:
    random = Random(seed)
    engine = ManualEngine()
    queue, reader, sender = engine.create(), engine.open(), engine.sender()
    answers: list[Answer] = []
    sent = 0
    for _ in range(300):
        match random.randrange(5):
            case 0 | 1:
                answers.append(engine.start_receive(reader, timeout_ms=random.choice((100, 200, 0xFFFFFFFF))))
            case 2 | 3:
                engine.manager.send(sender, Message(body=b"%d" % sent, delivery_guarantee=sent % 2), Answer())
                sent += 1
            case _:
                engine.clock.advance(0.1)
                engine.manager.tick()
        if random.random() < 0.5:
            engine.commit()
    engine.commit()
    got = [int(answer.value.body) for answer in answers if answer.done and answer.error is None]
    left = [int(body) for body in engine.bodies(queue)]
    assert sorted(got + left) == list(range(sent))
    assert {failure(answer) for answer in answers if answer.error} <= {code("IO_TIMEOUT")}


@pytest.mark.spec("DM-118", "DM-028")
def test_cancels_by_tag_over_all_handles_of_the_queue(engine: ManualEngine) -> None:
    queue = engine.create()
    first = engine.start_receive(engine.open(), tag=1)
    second = engine.start_receive(engine.open(), tag=2)
    engine.manager.cancel(queue, 2)
    assert failure(second) == 0xC00E0008 and not first.done
    with pytest.raises(WaitNotFound) as caught:
        engine.manager.cancel(queue, 2)
    assert caught.value.code == STATUS_NOT_FOUND
    engine.send(engine.sender(), body=b"x")
    assert first.result().body == b"x"


@pytest.mark.spec("DM-118")
def test_a_read_without_a_tag_cannot_be_cancelled_by_one(engine: ManualEngine) -> None:
    queue = engine.create()
    answer = engine.start_receive(engine.open())
    with pytest.raises(WaitNotFound):
        engine.manager.cancel(queue, None)
    assert not answer.done


def test_a_cancelled_read_takes_no_message_and_does_not_time_out_later(engine: ManualEngine) -> None:
    queue = engine.create()
    answer = engine.start_receive(engine.open(), timeout_ms=1000, tag="t")
    engine.manager.cancel(queue, "t")
    engine.send(engine.sender())
    engine.advance(2)
    assert failure(answer) == 0xC00E0008 and queue.message_count == 1


def test_closing_the_handle_cancels_its_reads_only(engine: ManualEngine) -> None:
    engine.create()
    closing, staying = engine.open(), engine.open()
    ends, stays = engine.start_receive(closing), engine.start_receive(staying)
    engine.manager.close(closing)
    assert failure(ends) == 0xC00E0008 and not stays.done


def test_a_read_in_a_transaction_that_ends_is_cancelled(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    reader = engine.open()
    for end in (commit, abort):
        transaction = engine.manager.begin()
        answer = engine.start_receive(reader, transaction=transaction)
        end(engine, transaction)
        assert failure(answer) == 0xC00E0008
    assert queue.waiters == []
