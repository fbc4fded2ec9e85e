"""The client's side of a connection."""

from __future__ import annotations

import struct

import pytest

from lior.protocols.rpc.call import Close, Send
from lior.protocols.rpc.client_association import Bound, ClientAssociation
from lior.wire import rpc_pdu as pdu
from tests.protocols.rpc.peers import FIRST, SECOND, STRANGE, Peers, exchanged, invoked, sent


def test_a_client_learns_why_it_may_not_bind() -> None:
    server, client = Peers(max_contexts=1).server(), ClientAssociation((FIRST, SECOND))
    (told,) = exchanged(client, server)
    assert isinstance(told, Close)
    assert "limit" in told.reason
    server, client = Peers().server(), ClientAssociation((STRANGE,))
    (told,) = exchanged(client, server)
    assert isinstance(told, Close)
    assert "none of these interfaces" in told.reason


def test_a_client_uses_what_the_server_has_of_what_it_asked_for() -> None:
    server, client = Peers().server(), ClientAssociation((STRANGE, SECOND))
    (told,) = exchanged(client, server)
    assert isinstance(told, Bound)
    assert told.contexts == {SECOND.uuid: 1}


@pytest.mark.parametrize("answer", [
    pdu.encode(pdu.REQUEST, pdu.WHOLE, 2, bytes(8)), pdu.encode(pdu.BIND_ACK, pdu.WHOLE, 1, bytes(8)),
    b"\x04" + bytes(30), pdu.encode(pdu.RESPONSE, pdu.LAST_FRAG, 2, bytes(8)),
    pdu.encode(pdu.RESPONSE, pdu.FIRST_FRAG, 2, bytes(8)), pdu.encode(pdu.SHUTDOWN, pdu.WHOLE, 0, b""),
    pdu.encode(pdu.RESPONSE, pdu.WHOLE, 2, bytes(4)),
])
def test_a_client_leaves_a_server_that_breaks_the_protocol(answer: bytes) -> None:
    client, _ = Peers().connected()
    client.request(FIRST, 1, b"x")
    assert isinstance(client.receive(answer)[-1], Close)
    assert client.receive(answer) == []


def test_a_client_takes_no_answer_without_end() -> None:
    client, _ = Peers().connected(max_stub=100)
    client.request(FIRST, 1, b"x")
    piece = struct.pack("<IHBB", 0, 0, 0, 0) + bytes(60)
    assert client.receive(pdu.encode(pdu.RESPONSE, pdu.FIRST_FRAG, 2, piece)) == []
    assert isinstance(client.receive(pdu.encode(pdu.RESPONSE, 0, 2, piece))[0], Close)


def test_answers_to_calls_that_were_given_up_are_dropped() -> None:
    client, server = Peers().connected()
    call_id, data = client.request(FIRST, 1, b"x")
    (call,) = invoked(server.receive(data, 0.0))
    answer = sent(server.respond(call, b"late", 0.0))
    assert client.orphan(call_id)
    assert client.receive(answer) == []
    assert client.calls == {}


def test_effects_have_no_more_than_they_say() -> None:
    assert Send(b"x").data == b"x"
