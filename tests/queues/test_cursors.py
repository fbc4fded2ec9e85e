"""Cursors ([MS-MQDMPR] 3.2): a state table, and what moves below a cursor while it stands still."""

import pytest

from lior.queues.descriptor import Cursor, CursorState
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import code, failure, refused

READ, UNREAD = CursorState.READ, CursorState.UNREAD


def filled(engine: ManualEngine, *bodies: bytes) -> Cursor:
    engine.create()
    for body in bodies:
        engine.send(engine.sender(), body=body)
    return engine.manager.open_cursor(engine.open())


def peek(engine: ManualEngine, cursor: Cursor) -> bytes:
    body: bytes = engine.peek(cursor.descriptor, cursor=cursor).body
    return body


def start_next(engine: ManualEngine, cursor: Cursor, timeout_ms: int = 0) -> Answer:
    answer = Answer()
    engine.manager.peek_next(cursor.descriptor, answer, cursor=cursor, timeout_ms=timeout_ms)
    return answer


def peek_next(engine: ManualEngine, cursor: Cursor) -> bytes:
    body: bytes = start_next(engine, cursor).result().body
    return body


def receive(engine: ManualEngine, cursor: Cursor) -> bytes:
    body: bytes = engine.receive(cursor.descriptor, cursor=cursor).body
    return body


def take(engine: ManualEngine) -> None:
    """Another reader takes the first message."""
    engine.receive(engine.open())


@pytest.mark.spec("DM-136")
def test_a_fresh_cursor_stands_before_the_first_message_under_a_handle_of_its_own(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1")
    other = engine.manager.open_cursor(cursor.descriptor)
    assert cursor.handle != other.handle and cursor.state is UNREAD
    assert {state.value for state in CursorState} == {"unread", "wait receive", "wait peek", "read"}
    assert peek(engine, cursor) == peek(engine, other) == b"1"


@pytest.mark.spec("DM-137")
def test_peek_shows_the_current_message_again_and_again(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1", b"2")
    assert [peek(engine, cursor), peek(engine, cursor)] == [b"1", b"1"]
    assert cursor.state is READ


@pytest.mark.spec("DM-137", "DM-114", "MQ-207")
def test_peek_of_a_current_message_that_another_took_is_already_received(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1", b"2")
    peek(engine, cursor)
    take(engine)
    with refused("MESSAGE_ALREADY_RECEIVED"):
        peek(engine, cursor)
    assert peek_next(engine, cursor) == b"2"


@pytest.mark.spec("DM-137", "DM-140")
def test_peek_on_an_empty_queue_waits_and_then_stands_on_what_came(engine: ManualEngine) -> None:
    cursor = filled(engine)
    answer = Answer()
    engine.manager.peek(cursor.descriptor, answer, cursor=cursor, timeout_ms=1000)
    assert cursor.state is CursorState.WAIT_PEEK
    engine.send(engine.sender(), body=b"1")
    assert answer.result().body == b"1" and cursor.state is READ
    assert peek(engine, cursor) == b"1"


@pytest.mark.spec("DM-113", "DM-138", "MQ-207")
def test_peek_next_first_is_an_illegal_cursor_action(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1")
    with refused("ILLEGAL_CURSOR_ACTION"):
        peek_next(engine, cursor)
    assert peek(engine, cursor) == b"1"


@pytest.mark.spec("DM-113", "DM-138", "DM-140")
def test_walks_three_messages_and_waits_for_the_fourth(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1", b"2", b"3")
    assert [peek(engine, cursor), peek_next(engine, cursor), peek_next(engine, cursor)] == [b"1", b"2", b"3"]
    answer = start_next(engine, cursor, 5000)
    assert not answer.done and cursor.state is CursorState.WAIT_PEEK
    engine.send(engine.sender(), body=b"4")
    assert answer.result().body == b"4" and cursor.state is READ
    assert peek(engine, cursor) == b"4"


@pytest.mark.spec("DM-139")
def test_receive_on_a_fresh_cursor_takes_message_after_message(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1", b"2")
    assert [receive(engine, cursor), receive(engine, cursor)] == [b"1", b"2"]
    assert cursor.state is UNREAD


@pytest.mark.spec("DM-139")
def test_after_receiving_the_current_message_peek_shows_the_following(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1", b"2", b"3")
    peek(engine, cursor)
    assert peek_next(engine, cursor) == b"2"
    assert receive(engine, cursor) == b"2" and cursor.state is UNREAD
    assert peek(engine, cursor) == b"3"
    assert engine.receive(engine.open()).body == b"1"


@pytest.mark.spec("DM-105", "DM-139", "MQ-207")
def test_receive_of_a_current_message_that_another_took_is_already_received(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1", b"2")
    peek(engine, cursor)
    take(engine)
    for _ in range(2):
        with refused("MESSAGE_ALREADY_RECEIVED"):
            receive(engine, cursor)
    assert engine.bodies(engine.manager.find_queue(r".\private$\q")) == [b"2"]


@pytest.mark.spec("DM-105", "DM-139", "MQ-213")
def test_receive_past_the_end_without_waiting_is_message_not_found(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1")
    receive(engine, cursor)
    with refused("MESSAGE_NOT_FOUND"):
        receive(engine, cursor)
    assert cursor.state is UNREAD


@pytest.mark.spec("DM-105", "DM-139", "DM-140")
def test_receive_past_the_end_waits(engine: ManualEngine) -> None:
    cursor = filled(engine)
    answer = engine.start_receive(cursor.descriptor, cursor=cursor, timeout_ms=1000)
    assert cursor.state is CursorState.WAIT_RECEIVE
    engine.send(engine.sender(), body=b"1")
    assert answer.result().body == b"1" and cursor.state is UNREAD
    engine.send(engine.sender(), body=b"2")
    assert peek(engine, cursor) == b"2"


@pytest.mark.spec("DM-140")
def test_after_a_timeout_the_next_receive_finds_what_came_meanwhile(engine: ManualEngine) -> None:
    cursor = filled(engine)
    answer = engine.start_receive(cursor.descriptor, cursor=cursor, timeout_ms=1000)
    engine.advance(1.5)
    assert failure(answer) == code("IO_TIMEOUT") and cursor.state is UNREAD
    engine.send(engine.sender(), body=b"late")
    assert receive(engine, cursor) == b"late"


@pytest.mark.spec("DM-140")
def test_after_a_peek_next_that_timed_out_the_cursor_can_be_used(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1")
    peek(engine, cursor)
    answer = start_next(engine, cursor, 1000)
    engine.advance(2)
    assert failure(answer) == code("IO_TIMEOUT")
    engine.send(engine.sender(), body=b"2")
    assert [peek(engine, cursor), peek_next(engine, cursor)] == [b"1", b"2"]


@pytest.mark.spec("DM-140")
def test_a_higher_priority_behind_the_cursor_is_seen_by_a_new_cursor_only(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1")
    peek(engine, cursor)
    answer = start_next(engine, cursor, 5000)
    engine.send(engine.sender(), body=b"urgent", priority=7)
    assert not answer.done
    engine.send(engine.sender(), body=b"2")
    assert answer.result().body == b"2"
    assert peek(engine, engine.manager.open_cursor(cursor.descriptor)) == b"urgent"


@pytest.mark.spec("DM-031")
def test_a_cursor_on_a_deleted_message_goes_on_with_the_next_and_leaves_nothing_behind(engine: ManualEngine) -> None:
    cursor = filled(engine, b"%d" % 0)
    queue, reader, sender = engine.manager.find_queue(r".\private$\q"), engine.open(), engine.sender()
    for number in range(1, 3000):
        engine.send(sender, body=b"%d" % number, delivery_guarantee=number % 2)
        if number > 1:
            assert peek_next(engine, cursor) == b"%d" % number
        else:
            peek(engine, cursor)
            assert peek_next(engine, cursor) == b"1"
        engine.receive(reader)
    assert len(queue.positions) == len(queue.available) == queue.message_count == 1
    assert len(engine.manager.core.expiries) == 0 and not queue.waiters


@pytest.mark.spec("DM-137")
def test_a_cursor_does_not_show_a_message_locked_by_a_transaction(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1", b"2")
    peek(engine, cursor)
    held = engine.receive(cursor.descriptor, two_phase=True)
    with refused("MESSAGE_ALREADY_RECEIVED"):
        peek(engine, cursor)
    engine.do(engine.manager.receive_end, held, delete=False)
    assert peek(engine, cursor) == b"1"


@pytest.mark.spec("MQ-207")
def test_a_second_read_at_a_cursor_that_waits_is_an_illegal_cursor_action(engine: ManualEngine) -> None:
    cursor = filled(engine)
    waiting = engine.start_receive(cursor.descriptor, cursor=cursor)
    for call in (peek, receive, peek_next):
        with refused("ILLEGAL_CURSOR_ACTION"):
            call(engine, cursor)
    assert not waiting.done


def test_closing_a_cursor_cancels_its_reads_and_ends_it(engine: ManualEngine) -> None:
    cursor = filled(engine)
    other = engine.start_receive(cursor.descriptor)
    waiting = engine.start_receive(cursor.descriptor, cursor=cursor)
    engine.manager.close_cursor(cursor)
    assert failure(waiting) == 0xC00E0008 and not other.done
    with refused("INVALID_HANDLE"):
        engine.manager.close_cursor(cursor)


def test_a_closed_cursor_cannot_read(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1")
    engine.manager.close_cursor(cursor)
    for call in (peek, receive, peek_next):
        with refused("INVALID_HANDLE"):
            call(engine, cursor)


def test_a_cursor_of_another_handle_is_refused(engine: ManualEngine) -> None:
    cursor = filled(engine, b"1")
    for call in (engine.peek, engine.receive):
        with refused("INVALID_HANDLE"):
            call(engine.open(), cursor=cursor)
