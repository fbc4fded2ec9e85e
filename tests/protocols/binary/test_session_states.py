"""Every packet in every state, from one table; calls on a session that is over ([MS-MQQB] 3.1.5.3 to 3.1.5.9)."""

import pytest

from lior.errors import InvalidParameter
from lior.message import Message, ObjectId
from lior.protocols.binary.session import Close, Effect, Opened, Received, Send, SessionState
from lior.wire.message_packet import to_packet
from lior.wire.order_packets import FinalAck, OrderAck, final_ack_message, order_ack_message, order_queue_of
from lior.wire.packet_format_names import guid_of
from lior.wire.session_packets import EstablishConnection
from tests.protocols.binary.peers import (
    EXPRESS,
    OWN,
    PEER,
    acceptor,
    acknowledgement,
    check_emitted,
    closed,
    connection,
    in_state,
    initiator,
    opened,
    parameters,
)
from tests.wire.session_packet_values import put

EC, ECR, CP, CPR, OPEN, CLOSED = (
    SessionState.WAITING_EC, SessionState.WAITING_ECR, SessionState.WAITING_CP, SessionState.WAITING_CPR,
    SessionState.OPEN, SessionState.CLOSED)


def order_packet(message: Message) -> bytes:
    message.identifier = ObjectId(guid_of(PEER), 9)
    return to_packet(message)


ORDER_QUEUE = order_queue_of(guid_of(OWN))
PACKETS = {
    "EstablishConnection request": connection(),
    "EstablishConnection response": connection(OWN, PEER, 0),
    "ConnectionParameters": parameters(),
    "SessionAck": acknowledgement(),
    "UserMessage": EXPRESS,
    "OrderAck": order_packet(order_ack_message(OrderAck(1, 1), ORDER_QUEUE)),
    "FinalAck": order_packet(final_ack_message(FinalAck(1, 1, 0, OWN, 7, 0x4000), ORDER_QUEUE)),
    "type 0": put(acknowledgement(), 18, b"\0"),
    "type 4": put(acknowledgement(), 18, b"\4"),
    "type 15": put(acknowledgement(), 18, b"\x0f"),
}

# What a packet leads to; what is not here ends the session.
TABLE: dict[tuple[SessionState, str], tuple[SessionState, list[type[Effect]]]] = {
    (EC, "EstablishConnection request"): (CP, [Send]),
    (ECR, "EstablishConnection response"): (CPR, [Send]),
    (CP, "ConnectionParameters"): (OPEN, [Send, Opened]),
    (CPR, "ConnectionParameters"): (OPEN, [Opened]),
    (OPEN, "SessionAck"): (OPEN, []),
    (OPEN, "UserMessage"): (OPEN, [Received]),
    (OPEN, "OrderAck"): (OPEN, [Received]),
    (OPEN, "FinalAck"): (OPEN, [Received]),
}


@pytest.mark.spec("QB-133", "QB-070", "QB-071", "QB-072", "QB-073", "QB-074", "QB-010")
@pytest.mark.parametrize("packet", PACKETS)
@pytest.mark.parametrize("state", [EC, ECR, CP, CPR, OPEN])
def test_a_packet_does_what_the_table_says_or_ends_the_session(state: SessionState, packet: str) -> None:
    session = in_state(state)
    effects = session.receive(PACKETS[packet], 1.0)
    if (state, packet) in TABLE:
        after, kinds = TABLE[state, packet]
        assert session.state is after
        assert [type(effect) for effect in effects] == kinds
        return
    end = closed(effects)
    refusal = state is EC and packet == "EstablishConnection response"  # read as a request to somebody else
    assert [type(effect) for effect in effects] == ([Send, Close] if refusal else [Close])
    assert end.refused is refusal and end.malformed is not refusal
    assert session.state is CLOSED and session.reason == end.reason


@pytest.mark.spec("QB-075")
@pytest.mark.parametrize("packet", PACKETS)
def test_a_closed_session_does_nothing_more(packet: str) -> None:
    session = in_state(CLOSED)
    assert session.receive(PACKETS[packet], 1.0) == []
    assert session.tick(1e9) == [] and session.stored(0, 1.0) == [] and session.flush(1.0) == []
    assert session.set_window(5, 1.0) == []
    assert session.deadline is None and session.window == 0 and session.in_flight == 0
    assert session.close("again") == [] and session.reason == "the test wants it closed"
    with pytest.raises(InvalidParameter):
        session.send(EXPRESS, 1, False, 1.0)


@pytest.mark.spec("QB-075", "QB-128")
def test_nothing_comes_after_close_whatever_follows_in_the_chunk() -> None:
    session = opened()
    effects = session.receive(EXPRESS + put(EXPRESS, 60, b"\0\0\0\0") + EXPRESS + acknowledgement(), 1.0)
    assert [type(effect) for effect in effects] == [Received, Close]
    assert session.receive(EXPRESS, 1.0) == []


@pytest.mark.spec("QB-133")
def test_a_message_too_early_is_refused_before_its_bytes_are_kept() -> None:
    for state in (EC, ECR, CP, CPR):
        session = in_state(state)
        head = EXPRESS[:8] + (1 << 20).to_bytes(4, "little") + EXPRESS[12:16]
        assert closed(session.receive(head, 1.0)).malformed


@pytest.mark.parametrize("state", [EC, ECR, CP, CPR])
def test_nothing_can_be_sent_before_the_session_is_open(state: SessionState) -> None:
    session = in_state(state)
    assert session.window == 0
    with pytest.raises(InvalidParameter):
        session.send(EXPRESS, 1, False, 1.0)
    assert session.stored(0, 1.0) == [] and session.set_window(8, 1.0) == []


def test_only_an_initiator_starts_and_only_once() -> None:
    with pytest.raises(InvalidParameter):
        acceptor().start(0.0)
    session = initiator()
    session.start(0.0)
    with pytest.raises(InvalidParameter):
        session.start(0.0)


def test_an_initiator_that_has_not_started_takes_no_request() -> None:
    assert closed(initiator().receive(connection(), 0.0)).malformed


@pytest.mark.spec("QB-132", "QB-133")
@pytest.mark.parametrize("state", [CP, OPEN])
def test_a_second_establish_connection_ends_the_session(state: SessionState) -> None:
    assert closed(in_state(state).receive(connection(), 1.0)).malformed


def test_a_whole_handshake_and_messages_may_come_in_one_chunk_or_byte_by_byte() -> None:
    stream = connection() + parameters() + EXPRESS * 3 + acknowledgement(sent=3)
    whole = acceptor().receive(stream, 0.0)
    session, pieces = acceptor(), []
    for at in range(len(stream)):
        pieces += session.receive(stream[at : at + 1], 0.0)
    assert whole == pieces
    assert [type(effect) for effect in whole] == [Send, Send, Opened, Received, Received, Received]
    for effect in whole:
        if isinstance(effect, Send):
            check_emitted(effect.data)
    first = whole[0]
    assert isinstance(first, Send) and EstablishConnection.decode(first.data).header.server_guid == OWN
