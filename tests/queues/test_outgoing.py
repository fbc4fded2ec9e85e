"""Outgoing queues: states, pause, order of transfer, history, streams ([MS-MQDMPR] 3.1.1.3 to 3.1.1.5)."""

from dataclasses import fields

import pytest

from lior.errors import InvalidParameter, MessageStorageFailed
from lior.message import Message
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import MessageAwaitsTransfer, OutgoingStateChanged
from lior.queues.outgoing import (
    HISTORY,
    ConnectionHistoryEntry,
    ConnectionStatus,
    OutgoingQueue,
    OutgoingState,
    OutgoingTransferInfo,
    SequenceInfo,
)
from lior.testing.engine import Answer, ManualEngine

A, B = r"DIRECT=TCP:192.0.2.98\private$\q", r"DIRECT=TCP:192.0.2.99\private$\q"
WEB = "DIRECT=HTTP://web.example/msmq/private$/q"
S = OutgoingState


def outgoing(engine: ManualEngine, name: str = A) -> OutgoingQueue:
    queue = engine.sender(name).queue
    assert isinstance(queue, OutgoingQueue)
    return queue


def pause(engine: ManualEngine, queue: OutgoingQueue) -> None:
    engine.do(engine.manager.administration.pause, queue, engine.admin)


def resume(engine: ManualEngine, queue: OutgoingQueue) -> None:
    engine.do(engine.manager.administration.resume, queue, engine.admin)


# --- states

# By hand: rows are states, columns the state asked for (C D d I L N W H as in the rows); x changes, = is there already.
STATES = {
    "C": S.CONNECTED,
    "D": S.DISCONNECTED,
    "d": S.DISCONNECTING,
    "I": S.INACTIVE,
    "L": S.LOCKED,
    "N": S.NEED_VALIDATION,
    "W": S.WAITING,
    "H": S.ON_HOLD,
}
TABLE = """
  CDdILNWH
C =xxxx.xx
D x=.xxxxx
d .x=xx.xx
I xx.=xxxx
L ....=.x.
N xx.xx=xx
W xx.xxx=x
H ...xx..=
"""


def steps() -> list[tuple[OutgoingState, OutgoingState, str]]:
    lines = TABLE.strip("\n").splitlines()
    columns = lines[0].split()[0]
    return [
        (STATES[line[0]], STATES[column], cell)
        for line in lines[1:]
        for column, cell in zip(columns, line[2:], strict=True)
    ]


@pytest.mark.spec("DM-022")
@pytest.mark.parametrize(("before", "after", "cell"), steps())
def test_an_outgoing_queue_changes_state_as_the_table_says(
    engine: ManualEngine, before: OutgoingState, after: OutgoingState, cell: str
) -> None:
    queue = outgoing(engine)
    queue.state = before
    if cell == ".":
        with pytest.raises(InvalidParameter):
            queue.change_state(after)
        assert queue.state is before
    else:
        assert queue.change_state(after) is (cell == "x")
        assert queue.state is after


@pytest.mark.spec("DM-022", "MQ-197")
def test_states_are_called_as_the_management_properties_print_them() -> None:
    assert {state.value for state in S} == {
        "INACTIVE",
        "WAITING",
        "NEED VALIDATION",
        "ONHOLD",
        "CONNECTED",
        "DISCONNECTING",
        "DISCONNECTED",
        "LOCKED",
    }


@pytest.mark.spec("DM-023")
def test_hardened_security_holds_what_is_not_http(engine: ManualEngine) -> None:
    for name in (A, WEB):
        engine.send(engine.sender(name))
    engine.do(engine.manager.set_manager_properties, {"hardened_security": True}, engine.admin)
    assert engine.manager.dispatchable() == [outgoing(engine, WEB)]
    assert outgoing(engine).state is S.LOCKED
    assert outgoing(engine, B).state is S.LOCKED
    engine.send(engine.sender(A))
    assert outgoing(engine).message_count == 2
    engine.do(engine.manager.set_manager_properties, {"hardened_security": False}, engine.admin)
    assert outgoing(engine).state is S.WAITING
    assert set(engine.manager.dispatchable()) == {outgoing(engine), outgoing(engine, WEB)}


def test_a_pause_outlasts_hardened_security(engine: ManualEngine) -> None:
    engine.send(engine.sender(A))
    pause(engine, outgoing(engine))
    for hardened in (True, False):
        engine.do(engine.manager.set_manager_properties, {"hardened_security": hardened}, engine.admin)
        assert engine.manager.dispatchable() == []
    assert outgoing(engine).state is S.ON_HOLD


# --- pause and resume


@pytest.mark.spec("DM-080")
def test_a_pause_keeps_messages_and_a_resume_lets_them_go_in_order(engine: ManualEngine) -> None:
    queue = outgoing(engine)
    engine.send(engine.sender(A), body=b"1")
    pause(engine, queue)
    engine.send(engine.sender(A), body=b"2")
    engine.send(engine.sender(B), body=b"other")
    assert queue.state.value == "ONHOLD"
    assert engine.manager.dispatchable() == [outgoing(engine, B)]
    resume(engine, queue)
    assert queue.state.value == "INACTIVE"
    assert engine.manager.dispatchable() == [queue, outgoing(engine, B)]
    handle = engine.open(A, QueueAccessType.RECEIVE_ADMIN)
    assert [engine.receive(handle).body for _ in range(2)] == [b"1", b"2"]
    changes = [(e.queue, e.state) for e in engine.events if isinstance(e, OutgoingStateChanged)]
    assert changes == [(queue, "ONHOLD"), (queue, "INACTIVE")]


@pytest.mark.spec("DM-080")
@pytest.mark.parametrize("state", [S.INACTIVE, S.WAITING, S.CONNECTED, S.DISCONNECTED, S.NEED_VALIDATION])
def test_a_queue_is_paused_from_any_state_and_resumed_once(engine: ManualEngine, state: OutgoingState) -> None:
    queue = outgoing(engine)
    queue.state = state
    resume(engine, queue)
    assert queue.state is state
    for _ in range(2):
        pause(engine, queue)
        assert queue.state.value == "ONHOLD"
    resume(engine, queue)
    assert queue.state.value == "INACTIVE"


def test_a_pause_that_the_disk_refused_did_not_happen(engine: ManualEngine) -> None:
    engine.send(engine.sender(A), delivery_guarantee=1)
    answer = Answer()
    engine.manager.administration.pause(outgoing(engine), engine.admin, answer)
    engine.manager.failed(engine.manager.take_pending(), MessageStorageFailed("full"))
    assert isinstance(answer.error, MessageStorageFailed)
    assert outgoing(engine).state is S.INACTIVE
    pause(engine, outgoing(engine))
    assert outgoing(engine.restart()).state is S.ON_HOLD


def test_a_pause_before_the_first_message_survives_a_restart_too(engine: ManualEngine) -> None:
    pause(engine, outgoing(engine))
    assert outgoing(engine.restart()).state is S.ON_HOLD


# --- dispatch


@pytest.mark.spec("DM-060", "DM-122")
def test_the_most_urgent_message_decides_which_queue_sends_first(engine: ManualEngine) -> None:
    for name, priority in ((A, 3), (B, 3), (WEB, 4)):
        engine.send(engine.sender(name), priority=priority)
    a, b, web = outgoing(engine), outgoing(engine, B), outgoing(engine, WEB)
    assert engine.manager.dispatchable() == [web, a, b]
    engine.send(engine.sender(B), priority=5)
    assert engine.manager.dispatchable() == [b, web, a]
    a.properties = a.properties.changed(base_priority=3)
    assert engine.manager.dispatchable() == [a, b, web]


@pytest.mark.spec("DM-122")
def test_a_message_that_is_staged_or_gone_asks_for_no_transfer(engine: ManualEngine) -> None:
    sender = engine.sender(A)
    engine.manager.send(sender, Message(delivery_guarantee=1), Answer())
    assert engine.manager.dispatchable() == []
    engine.commit()
    assert engine.manager.dispatchable() == [sender.queue]
    assert sum(isinstance(event, MessageAwaitsTransfer) for event in engine.events) == 1
    engine.receive(engine.open(A, QueueAccessType.RECEIVE_ADMIN))
    assert engine.manager.dispatchable() == []


@pytest.mark.spec("DM-123")
def test_a_message_in_progress_holds_up_neither_its_queue_nor_another(engine: ManualEngine) -> None:
    for name in (A, A, B):
        engine.send(engine.sender(name))
    first = engine.open(A, QueueAccessType.RECEIVE_ADMIN)
    engine.receive(first, two_phase=True)
    assert engine.manager.dispatchable() == [outgoing(engine), outgoing(engine, B)]
    engine.receive(first, two_phase=True)
    assert engine.manager.dispatchable() == [outgoing(engine, B)]
    assert outgoing(engine).active


# --- connection history


# By hand from [MS-MQMQ] 2.3.12.25, under the names of [MS-MQDMPR] 3.1.1.3
HISTORY_CODES = {
    0x00000000: "InProcess",
    0x00000001: "EstablishPacketReceived",
    0x00000002: "Established",
    0x80000000: "UnknownFailure",
    0x80000001: "PingFailure",
    0x80000002: "SocketCreateFailure",
    0x80000003: "SocketBindFailure",
    0x80000004: "SocketConnectFailure",
    0x80000005: "TcpNotEnabled",
    0x80000006: "SocketSendFailure",
    0x80000007: "ConnectionNotReady",
    0x80000008: "DnsFailure",
    0x80000009: "CertificateValidationFailure",
    0x8000000A: "ConnectionLimitReached",
    0x8000000B: "ConnectionRefused",
    0x8000000C: "RoutingDataNotAvailable",
    0x8000000D: "LowResource",
}


@pytest.mark.spec("DM-024", "QB-105")
@pytest.mark.parametrize("code", HISTORY_CODES)
def test_every_outcome_of_a_connection_has_its_entry(engine: ManualEngine, code: int) -> None:
    queue = outgoing(engine)
    addresses = ("192.0.2.98", "2001:db8::1")
    entry = ConnectionHistoryEntry(ConnectionStatus(code), engine.clock.wall(), 0xC00E0069, addresses)
    queue.record_connection(entry)
    assert list(queue.connection_history) == [entry]
    assert (entry.status, entry.error, entry.addresses) == (code, 0xC00E0069, addresses)
    assert len(ConnectionStatus) == len(HISTORY_CODES) == 17


@pytest.mark.spec("DM-024", "QB-105")
def test_the_history_keeps_the_latest_attempts_only(engine: ManualEngine) -> None:
    queue = outgoing(engine)
    for second in range(3 * HISTORY):
        queue.record_connection(ConnectionHistoryEntry(ConnectionStatus.CONNECT_SOCKET_FAILURE, float(second)))
    assert [entry.time for entry in queue.connection_history] == [float(s) for s in range(2 * HISTORY, 3 * HISTORY)]
    assert HISTORY <= 100


# --- streams


@pytest.mark.spec("DM-025")
def test_a_new_outgoing_queue_has_an_empty_stream(engine: ManualEngine) -> None:
    info = outgoing(engine).transfer_info
    assert outgoing(engine, B).transfer_info is not info
    assert {field.name for field in fields(OutgoingTransferInfo)} == {
        "eod_first_non_ack",
        "eod_last_ack",
        "eod_last_non_ack",
        "eod_next_seq",
        "eod_last_ack_count",
        "eod_no_ack_count",
        "eod_no_read_count",
        "eod_resend_count",
        "eod_resend_interval",
        "eod_resend_time",
        "eod_last_ack_time",
    }
    for name in ("eod_first_non_ack", "eod_last_ack", "eod_last_non_ack", "eod_next_seq"):
        assert getattr(info, name) == SequenceInfo(0, 0, 0)
    counts = (info.eod_last_ack_count, info.eod_no_ack_count, info.eod_no_read_count, info.eod_resend_count)
    assert counts == (0, 0, 0, 0)
