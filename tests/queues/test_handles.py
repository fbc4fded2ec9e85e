"""What an opener holds: descriptors, what they allow, cursors, and their end ([MS-MQDMPR] 3.1.1.16, 3.1.7.1.6)."""

from typing import Any

import pytest

from lior.errors import (
    AccessDenied,
    InvalidHandle,
    LiorError,
    OperationCancelled,
    QueueNotAvailable,
)
from lior.queues.descriptor import (
    CursorState,
    MessageSeekAction,
    OpenQueueDescriptor,
    QueueAccessType,
    QueueShareMode,
    RemoteReadState,
)
from lior.queues.queue import START
from lior.testing.engine import ManualEngine

A = QueueAccessType
LOCAL = r"DIRECT=OS:.\private$\q"
REMOTE = r"DIRECT=TCP:192.0.2.99\private$\q"
OTHER = "11111111-2222-3333-4444-555555555555"


# --- descriptors


@pytest.mark.spec("DM-055", "DM-095")
def test_a_descriptor_says_how_it_was_opened(engine: ManualEngine) -> None:
    queue = engine.create()
    handle = engine.open(LOCAL, A.PEEK, QueueShareMode.DENY_RECEIVE)
    assert handle.access is A.PEEK
    assert handle.share is QueueShareMode.DENY_RECEIVE
    assert handle.queue is queue
    assert str(handle.format_name) == r"DIRECT=OS:lior\private$\q"
    assert handle.multiple is False
    assert handle.children == ()
    assert handle.remote_read_state is RemoteReadState.NONE
    assert queue.descriptors == [handle]
    assert engine.manager.opening.find(handle.handle) is handle


@pytest.mark.spec("DM-055")
def test_handles_and_context_values_are_never_used_twice(engine: ManualEngine) -> None:
    engine.create()
    handles: set[int] = set()
    contexts: set[int] = set()
    for number in range(20):
        descriptor = engine.open(LOCAL, A.PEEK)
        handles.add(descriptor.handle)
        contexts.add(descriptor.context_value)
        handles.add(engine.manager.open_cursor(descriptor).handle)
        if number % 2:
            engine.manager.close(descriptor)
            with pytest.raises(InvalidHandle):
                engine.manager.opening.find(descriptor.handle)
    assert len(handles) == 40
    assert len(contexts) == 20


@pytest.mark.spec("DM-056")
def test_a_descriptor_of_several_queues_only_sends_and_has_no_queue(engine: ManualEngine) -> None:
    queue = engine.create()
    handle = engine.open(f"{REMOTE},{LOCAL}", A.SEND)
    assert handle.multiple
    assert handle.access is A.SEND
    assert handle.queue is None
    assert handle.remote_read_state is RemoteReadState.NONE
    assert [child.access for child in handle.children] == [A.SEND, A.SEND]
    name, caller = handle.format_name, engine.admin
    for wrong_queue, access in ((queue, A.SEND), (None, A.PEEK)):
        with pytest.raises(AssertionError):
            OpenQueueDescriptor(1, wrong_queue, name, access, QueueShareMode.DENY_NONE, caller, handle.children)


OPERATIONS: dict[str, tuple[Any, str]] = {
    "peek": (lambda e, h: e.peek(h), "RECEIVE PEEK"),
    "peek by lookup id": (lambda e, h: lookup(e, h, peek=True), "RECEIVE PEEK"),
    "open a cursor": (lambda e, h: e.manager.open_cursor(h), "RECEIVE PEEK"),
    "receive": (lambda e, h: e.receive(h), "RECEIVE"),
    "receive by lookup id": (lambda e, h: lookup(e, h, peek=False), "RECEIVE"),
    "send": (lambda e, h: e.send(h), "SEND"),
    "move from": (lambda e, h: move(e, h, e.open(LOCAL + ";sub", A.MOVE)), "RECEIVE MOVE"),
    "move to": (lambda e, h: move(e, e.open(LOCAL + ";sub"), h), "MOVE"),
}


def lookup(engine: ManualEngine, handle: OpenQueueDescriptor, *, peek: bool) -> Any:
    return engine.do(
        lambda reply: engine.manager.read_by_lookup(handle, reply, action=MessageSeekAction.FIRST, peek=peek)
    )


def move(engine: ManualEngine, source: OpenQueueDescriptor, target: OpenQueueDescriptor) -> None:
    assert source.queue is not None
    first = source.queue.available.first()
    assert first is not None
    engine.do(engine.manager.move, source, first, target)


@pytest.mark.spec("DM-057")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("access", [A.RECEIVE, A.SEND, A.PEEK, A.MOVE])
def test_an_operation_needs_a_handle_opened_for_it(
    engine: ManualEngine, operation: str, access: QueueAccessType
) -> None:
    engine.create()
    engine.send(engine.sender(LOCAL))
    engine.send(engine.sender(LOCAL))
    move(engine, engine.open(LOCAL), engine.open(LOCAL + ";sub", A.MOVE))
    call, allowed = OPERATIONS[operation]
    handle = engine.open(LOCAL, access)
    if access.name in allowed.split():
        call(engine, handle)
        return
    with pytest.raises(LiorError) as caught:
        call(engine, handle)
    assert caught.value.code in (0xC00E0025, 0xC00E0045)


@pytest.mark.spec("DM-057")
@pytest.mark.parametrize(("access", "receives"), [(A.RECEIVE_ADMIN, True), (A.PEEK_ADMIN, False)])
def test_admin_access_reads_outgoing_queues(engine: ManualEngine, access: QueueAccessType, receives: bool) -> None:
    engine.send(engine.sender(REMOTE), body=b"waits")
    handle = engine.open(REMOTE, access)
    assert engine.peek(handle).body == b"waits"
    if receives:
        assert engine.receive(handle).body == b"waits"
    else:
        with pytest.raises(AccessDenied):
            engine.receive(handle)


@pytest.mark.spec("DM-059")
def test_a_lookup_goes_to_the_first_previous_current_next_and_last(engine: ManualEngine) -> None:
    queue = engine.create()
    for body in (b"1", b"2", b"3"):
        engine.send(engine.sender(LOCAL), body=body)
    ids = list(queue.available)
    handle = engine.open(LOCAL)

    def at(action: MessageSeekAction, lookup_id: int) -> Any:
        return engine.do(
            lambda reply: engine.manager.read_by_lookup(handle, reply, lookup_id=lookup_id, action=action, peek=True)
        ).body

    assert {action.value for action in MessageSeekAction} == {"first", "previous", "current", "next", "last"}
    assert at(MessageSeekAction.FIRST, 0) == b"1"
    assert at(MessageSeekAction.PREVIOUS, ids[1]) == b"1"
    assert at(MessageSeekAction.CURRENT, ids[1]) == b"2"
    assert at(MessageSeekAction.NEXT, ids[1]) == b"3"
    assert at(MessageSeekAction.LAST, 0) == b"3"


# --- cursors


@pytest.mark.spec("DM-081")
def test_a_cursor_starts_unread_before_the_first_message(engine: ManualEngine) -> None:
    engine.create()
    handle = engine.open(LOCAL)
    one, other = engine.manager.open_cursor(handle), engine.manager.open_cursor(handle)
    assert one.handle != other.handle
    assert (one.key, one.state, one.descriptor) == (START, CursorState.UNREAD, handle)
    assert handle.cursors == {one.handle: one, other.handle: other}


@pytest.mark.spec("DM-081")
def test_a_cursor_on_a_deleted_queue_is_refused(engine: ManualEngine) -> None:
    queue = engine.create()
    handle = engine.open(LOCAL)
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    with pytest.raises(QueueNotAvailable):
        engine.manager.open_cursor(handle)


@pytest.mark.spec("DM-082")
def test_a_read_that_waits_at_a_cursor_ends_when_the_cursor_closes(engine: ManualEngine) -> None:
    queue = engine.create()
    handle = engine.open(LOCAL)
    cursor, other = engine.manager.open_cursor(handle), engine.manager.open_cursor(handle)
    blocked = engine.start_receive(handle, cursor=cursor)
    waiting = engine.start_receive(handle, cursor=other)
    engine.manager.close_cursor(cursor)
    assert isinstance(blocked.error, OperationCancelled)
    assert not waiting.done
    assert handle.cursors == {other.handle: other}
    engine.send(engine.sender(LOCAL), body=b"x")
    assert waiting.result().body == b"x"
    assert queue.waiters == []
    with pytest.raises(InvalidHandle):
        engine.manager.close_cursor(cursor)


# --- closing


@pytest.mark.spec("DM-096")
def test_closing_ends_waiting_reads_cursors_and_the_descriptor(engine: ManualEngine) -> None:
    queue = engine.create()
    handle, other = engine.open(LOCAL), engine.open(LOCAL)
    cursor = engine.manager.open_cursor(handle)
    tagged, untagged = engine.start_receive(handle, tag="t"), engine.start_receive(handle)
    at_cursor, elsewhere = engine.start_receive(handle, cursor=cursor), engine.start_receive(other)
    engine.manager.close(handle)
    for answer in (tagged, untagged, at_cursor):
        assert answer.error is not None
        assert answer.error.code == 0xC00E0008
    assert not elsewhere.done
    assert handle.cursors == {}
    assert queue.descriptors == [other]
    for call in (engine.receive, engine.peek, engine.manager.close):
        with pytest.raises(LiorError):
            call(handle)


@pytest.mark.spec("DM-096")
@pytest.mark.parametrize("early", [False, True])
def test_closing_a_descriptor_of_several_queues_closes_its_children(engine: ManualEngine, early: bool) -> None:
    queue = engine.create()
    handle = engine.open(f"{LOCAL},{REMOTE}", A.SEND)
    if early:
        engine.manager.close(handle.children[0])
    engine.manager.close(handle)
    assert all(child.closed for child in handle.children)
    assert queue.descriptors == []
    assert engine.manager.opening.descriptors == {}


def test_closing_what_a_lost_client_held_frees_its_locks_and_its_share(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    for body in (b"1", b"2", b"3"):
        send = engine.manager.begin()
        engine.send(engine.sender(LOCAL), transaction=send, body=body)
        engine.do(engine.manager.commit, send.identifier)
    lost = engine.open(LOCAL, share=QueueShareMode.DENY_RECEIVE)
    transaction = engine.manager.begin()
    engine.receive(lost, transaction=transaction)
    engine.receive(lost, two_phase=True)
    engine.do(engine.manager.abort, transaction.identifier)
    engine.manager.close(lost)
    assert engine.bodies(queue) == [b"1", b"2", b"3"]
    assert engine.receive(engine.open(LOCAL, share=QueueShareMode.DENY_RECEIVE)).body == b"1"


def test_outgoing_queues_that_were_only_opened_are_forgotten(engine: ManualEngine) -> None:
    for number in range(50):
        engine.manager.close(engine.open(rf"DIRECT=OS:host{number}\q", A.SEND))
    assert engine.manager.core.outgoing == {}
    handle = engine.sender(REMOTE)
    engine.send(handle)
    engine.manager.close(handle)
    assert len(engine.manager.core.outgoing) == 1
