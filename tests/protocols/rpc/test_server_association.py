"""The server's side of a connection: every state and every PDU, in pieces of every size."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from lior.protocols.rpc.call import Cancelled, Invoke, Orphaned
from lior.protocols.rpc.client_association import Answer, Fault
from lior.protocols.rpc.trailer import encode_trailer
from lior.wire import rpc_pdu as pdu
from lior.wire.rpc_pdu import NDR, NDR64, Bind, PresentationContext, Result, Syntax, features
from tests.protocols.rpc.associations import (
    NCA_PROTOCOL_ERROR,
    abstract,
    acknowledged,
    bind,
    bound,
    fault,
    first,
    pdus,
    request,
)
from tests.protocols.rpc.peers import ALICE, FIRST, SECOND, STRANGE, Peers, closed, invoked, sent

# Binding


@pytest.mark.spec("MP-014", "MP-023")
def test_each_context_item_gets_its_result_in_its_place() -> None:
    server = Peers().server()
    ack = acknowledged(sent(server.receive(bind(
        PresentationContext(0, abstract(FIRST), (NDR,)),
        PresentationContext(1, abstract(FIRST), (NDR64,)),
        PresentationContext(2, abstract(FIRST), (features(3),)),
        PresentationContext(3, abstract(STRANGE), (NDR,)),
        PresentationContext(4, abstract(FIRST, 2), (NDR,)),
        PresentationContext(5, abstract(FIRST, 1), (NDR,)),
        PresentationContext(6, abstract(FIRST, 1 | 3 << 16), (NDR,)),
        PresentationContext(7, abstract(SECOND), (NDR64,)),
        PresentationContext(8, abstract(FIRST), (NDR64, NDR)),
        PresentationContext(9, abstract(FIRST), (Syntax(UUID(int=9), 1),)),
    ), 0.0)))
    assert ack.results == (
        Result(pdu.ACCEPTANCE, 0, NDR),
        Result(pdu.PROVIDER_REJECTION, pdu.TRANSFER_SYNTAXES_NOT_SUPPORTED),
        Result(pdu.NEGOTIATE_ACK, 3),
        Result(pdu.PROVIDER_REJECTION, pdu.ABSTRACT_SYNTAX_NOT_SUPPORTED),
        Result(pdu.PROVIDER_REJECTION, pdu.ABSTRACT_SYNTAX_NOT_SUPPORTED),
        Result(pdu.ACCEPTANCE, 0, NDR),
        Result(pdu.PROVIDER_REJECTION, pdu.ABSTRACT_SYNTAX_NOT_SUPPORTED),
        Result(pdu.ACCEPTANCE, 0, NDR64),
        Result(pdu.ACCEPTANCE, 0, NDR),
        Result(pdu.PROVIDER_REJECTION, pdu.TRANSFER_SYNTAXES_NOT_SUPPORTED),
    )
    assert ack.assoc_group_id
    assert ack.secondary_address == "2103"


def test_ndr64_is_taken_only_when_ndr_is_not_offered() -> None:
    server = Peers().server()
    ack = acknowledged(sent(server.receive(bind(
        PresentationContext(0, abstract(SECOND), (NDR64,)), PresentationContext(1, abstract(SECOND), (NDR,))), 0.0)))
    assert [each.result for each in ack.results] == [pdu.PROVIDER_REJECTION, pdu.ACCEPTANCE]


def test_fragments_become_as_small_as_the_smaller_side_wants() -> None:
    server = Peers(max_fragment=4280).server()
    ack = acknowledged(sent(server.receive(
        pdu.encode(pdu.BIND, pdu.WHOLE, 1, pdu.encode_bind(Bind(2000, 3000, 0, (first(),)))), 0.0)))
    assert (ack.max_xmit_frag, ack.max_recv_frag) == (3000, 2000)


@pytest.mark.parametrize("frag", [0, 1, 59, 64, 1431])
def test_everybody_takes_fragments_of_1432_bytes_whatever_they_say(frag: int) -> None:
    server = Peers().server()
    ack = acknowledged(sent(server.receive(bind(first(), frag=frag), 0.0)))
    assert ack.max_xmit_frag == 1432
    (call,) = invoked(server.receive(request(3, b"x"), 0.0))
    assert {len(each) for each in pdus(sent(server.respond(call, bytes(5000), 0.0)))[:-1]} == {1432}


def test_multiplexing_is_granted_when_it_is_asked_for() -> None:
    for flags in (pdu.WHOLE, pdu.WHOLE | pdu.CONC_MPX):
        answer = sent(Peers().server().receive(bind(first(), flags=flags), 0.0))
        assert pdu.decode_header(answer).flags == flags


@pytest.mark.spec("MP-018")
def test_a_connection_joins_the_group_of_its_client_and_no_other() -> None:
    peers = Peers()
    group = acknowledged(sent(peers.server().receive(bind(first()), 0.0))).assoc_group_id
    assert acknowledged(sent(peers.server().receive(bind(first(), group=group), 0.0))).assoc_group_id == group
    for server, wanted in ((peers.server(client="10.0.0.2"), group), (peers.server(), group + 1)):
        effects = server.receive(bind(first(), group=wanted), 0.0)
        assert pdu.decode_header(sent(effects)).ptype == pdu.BIND_NAK
        assert closed(effects)
    assert len(peers.groups) == 1


def test_too_many_contexts_are_refused_as_a_local_limit() -> None:
    effects = Peers(max_contexts=3).server().receive(bind(*(first(n) for n in range(4))), 0.0)
    assert pdu.decode_bind_nak(sent(effects)) == pdu.NAK_LOCAL_LIMIT
    assert closed(effects)


def test_an_alter_context_adds_an_interface_and_cannot_change_one() -> None:
    server = bound()
    data = bind(PresentationContext(0, abstract(SECOND), (NDR,)), PresentationContext(7, abstract(SECOND), (NDR,)),
                first(), ptype=pdu.ALTER_CONTEXT)
    ack = acknowledged(sent(server.receive(data, 0.0)))
    assert [each.result for each in ack.results] == [pdu.PROVIDER_REJECTION, pdu.ACCEPTANCE, pdu.ACCEPTANCE]
    (call,) = invoked(server.receive(request(3, b"x", context_id=7), 0.0))
    assert call.interface is SECOND


def test_an_unknown_kind_of_authentication_is_named_in_the_nak() -> None:
    body = pdu.encode_bind(Bind(5840, 5840, 0, (first(),)))
    token = pdu.Authentication(0x44, pdu.LEVEL_INTEGRITY, 0, 1, b"token")
    effects = Peers().server().receive(pdu.encode(pdu.BIND, pdu.WHOLE, 1, body, token), 0.0)
    assert pdu.decode_bind_nak(sent(effects)) == pdu.NAK_AUTHENTICATION_TYPE


# Every PDU in every state

TYPES = [*range(21), 0x80, 0xFF]


@pytest.mark.parametrize("ptype", [each for each in TYPES if each != pdu.BIND])
def test_nothing_goes_before_the_bind(ptype: int) -> None:
    effects = Peers().server().receive(pdu.encode(ptype, pdu.WHOLE, 5, bytes(40)), 0.0)
    assert fault(sent(effects)) == (5, NCA_PROTOCOL_ERROR)
    assert closed(effects)


@pytest.mark.parametrize("ptype", [each for each in TYPES if each not in (
    pdu.REQUEST, pdu.ALTER_CONTEXT, pdu.AUTH_3, pdu.CO_CANCEL, pdu.ORPHANED)])
def test_a_bound_connection_ends_at_a_pdu_that_a_client_does_not_send(ptype: int) -> None:
    effects = bound().receive(pdu.encode(ptype, pdu.WHOLE, 5, bytes(40)), 0.0)
    assert fault(sent(effects)) == (5, NCA_PROTOCOL_ERROR)
    assert closed(effects)


@pytest.mark.parametrize("ptype", TYPES)
def test_a_closed_connection_hears_nothing(ptype: int) -> None:
    server = bound()
    server.receive(pdu.encode(pdu.SHUTDOWN, pdu.WHOLE, 5, b""), 0.0)
    assert server.receive(pdu.encode(ptype, pdu.WHOLE, 5, bytes(40)), 0.0) == []


@pytest.mark.parametrize("ptype", [each for each in TYPES if each not in (
    pdu.REQUEST, pdu.ALTER_CONTEXT, pdu.AUTH_3, pdu.CO_CANCEL, pdu.ORPHANED)])
def test_the_same_holds_within_a_request(ptype: int) -> None:
    server = bound()
    assert server.receive(request(3, b"12345678", pdu.FIRST_FRAG), 0.0) == []
    assert closed(server.receive(pdu.encode(ptype, pdu.WHOLE, 5, bytes(40)), 0.0))


@pytest.mark.parametrize(("at", "value"), [(0, 4), (1, 1), (4, 0x01), (4, 0x11), (8, 15)],
                         ids=["major", "minor", "big endian ebcdic", "ebcdic", "short"])
def test_what_is_not_rpc_5_0_is_refused(at: int, value: int) -> None:
    for server, data in ((Peers().server(), bind(first())), (bound(), request(9, b"x"))):
        broken = bytearray(data)
        broken[at] = value
        if at == 8:
            broken[9] = 0
        effects = server.receive(bytes(broken), 0.0)
        kind = pdu.decode_header(sent(effects)).ptype
        assert kind == (pdu.BIND_NAK if data[2] == pdu.BIND else pdu.FAULT)
        assert closed(effects)


# Requests


def big(ptype: int, body: bytes, call_id: int = 5, flags: int = pdu.WHOLE) -> bytes:
    return struct.pack(">BBBBBBBBHHI", 5, 0, ptype, flags, 0, 0, 0, 0, 16 + len(body), 0, call_id) + body


def big_bind(interface: Any, transfer: Syntax) -> bytes:
    body = struct.pack(">HHIBBHHBB", 5840, 5840, 0, 1, 0, 0, 0, 1, 0)
    for syntax in (abstract(interface), transfer):
        body += syntax.uuid.bytes + struct.pack(">I", syntax.version)
    return big(pdu.BIND, body)


@pytest.mark.spec("MP-014")
@pytest.mark.parametrize("size", [1, 17, 1000])
def test_a_big_endian_client_is_understood_and_answered_in_little_endian(size: int) -> None:
    stub = struct.pack(">I", 0x01020304)
    whole = big_bind(FIRST, NDR) + big(pdu.REQUEST, struct.pack(">IHH", 4, 0, 1) + stub, 6)
    whole += big(pdu.REQUEST, struct.pack(">IHH", 4, 0, 1) + UUID(int=77).bytes + stub, 7, pdu.WHOLE | pdu.OBJECT_UUID)
    whole += big(pdu.CO_CANCEL, b"", 7)
    server = Peers().server()
    effects = [effect for at in range(0, len(whole), size) for effect in server.receive(whole[at:at + size], 0.0)]
    assert acknowledged(sent(effects)).results == (Result(pdu.ACCEPTANCE, 0, NDR),)
    one, two = invoked(effects)
    for call in (one, two):
        assert call.interface.methods[1].request.decode(call.stub, None, call.syntax).x == 0x01020304
    assert two.object == UUID(int=77).bytes_le
    assert two.cancelled
    assert fault(sent(server.fault(one, 0xC00E0003))) == (6, 0xC00E0003)


@pytest.mark.parametrize("broken", [
    big(pdu.BIND, b"1234"), big(pdu.BIND, struct.pack(">HHIBBH", 1, 1, 0, 9, 0, 0)),
    big_bind(FIRST, NDR)[:-1].replace(b"\0\x48\0\0", b"\0\x47\0\0"),
    big_bind(FIRST, NDR) + big(pdu.REQUEST, b"1234567"),
    big_bind(FIRST, NDR) + big(pdu.REQUEST, bytes(12), flags=pdu.WHOLE | pdu.OBJECT_UUID),
    big_bind(SECOND, NDR64) + big(pdu.REQUEST, struct.pack(">IHH", 4, 0, 1) + bytes(8)),
])
def test_a_big_endian_client_that_breaks_the_protocol_is_told_so(broken: bytes) -> None:
    server = Peers().server()
    effects = server.receive(broken, 0.0)
    assert fault(pdus(sent(effects))[-1])[1] == NCA_PROTOCOL_ERROR
    assert closed(effects)


def test_a_call_is_invoked_and_answered_in_the_order_of_completion() -> None:
    client, server = Peers().connected()
    stubs = [b"one", b"two", b"three"]
    data = b"".join(client.request(FIRST, 1, stub)[1] for stub in stubs)
    calls = invoked(server.receive(data, 0.0))
    assert [(call.stub, call.opnum, call.caller, call.peer) for call in calls] == [
        (stub, 1, ALICE, "10.0.0.1") for stub in stubs]
    answers = [server.respond(calls[n], b"answer %d" % n, 0.0) for n in (2, 0, 1)]
    told = client.receive(b"".join(map(sent, answers)))
    assert told == [Answer(calls[n].call_id, b"answer %d" % n) for n in (2, 0, 1)]
    assert server.calls == {}
    assert server.bytes_in_flight == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 24, 100])
@pytest.mark.spec("MP-023")
def test_the_stream_may_come_in_pieces_of_any_size(size: int) -> None:
    whole, server = bind(first()), Peers().server()
    for call_id, stub in ((2, b""), (3, b"x" * 5), (4, b"y" * 200)):
        whole += request(call_id, stub)
    whole += request(5, b"a" * 16, pdu.FIRST_FRAG) + request(5, b"b" * 16, 0) + request(5, b"c", pdu.LAST_FRAG)
    effects = [effect for at in range(0, len(whole), size) for effect in server.receive(whole[at:at + size], 0.0)]
    assert [call.stub for call in invoked(effects)] == [b"", b"x" * 5, b"y" * 200, b"a" * 16 + b"b" * 16 + b"c"]
    assert not closed(effects)


def test_a_stream_cut_anywhere_only_waits() -> None:
    whole = bind(first()) + request(3, b"stub of a call", pdu.FIRST_FRAG) + request(3, b"rest", pdu.LAST_FRAG)
    for cut in range(len(whole)):
        server = Peers().server()
        effects = server.receive(whole[:cut], 0.0)
        assert not closed(effects)
        assert invoked(effects) == []
        assert server.deadline is not None or cut == len(bind(first()))
        assert [call.stub for call in invoked(server.receive(whole[cut:], 0.0))] == [b"stub of a callrest"]


@pytest.mark.parametrize("stub", [0, 1, 1407, 1408, 1409, 5000, 70_000])
@pytest.mark.parametrize("frag", [1432, 4280, 65528])
def test_fragments_go_both_ways(frag: int, stub: int) -> None:
    client, server = Peers().connected(max_fragment=frag)
    body = bytes(n * 7 & 0xFF for n in range(stub))
    _, data = client.request(FIRST, 1, body)
    assert max(len(each) for each in pdus(data)) <= frag
    (call,) = invoked(server.receive(data, 0.0))
    assert call.stub == body
    answer = sent(server.respond(call, body[::-1], 0.0))
    assert max(len(each) for each in pdus(answer)) <= frag
    assert client.receive(answer) == [Answer(call.call_id, body[::-1])]
    hints = [struct.unpack_from("<I", each, 16)[0] for each in pdus(answer)]
    assert hints[0] == stub
    assert hints[-1] == len(pdus(answer)[-1]) - 24


@pytest.mark.spec("MP-024")
def test_a_request_over_the_limit_is_refused_before_it_is_all_there() -> None:
    server = bound(Peers(max_stub=1000))
    effects = server.receive(request(3, bytes(600), pdu.FIRST_FRAG), 0.0)
    assert server.bytes_in_flight == 600
    effects = server.receive(request(3, bytes(600), 0), 0.0)
    assert fault(sent(effects)) == (3, 5)
    assert server.bytes_in_flight == 0
    for _ in range(1000):  # the rest is dropped as it comes
        assert server.receive(request(3, bytes(600), 0), 0.0) == []
    assert server.receive(request(3, bytes(600), pdu.LAST_FRAG), 0.0) == []
    assert server.bytes_in_flight == 0
    assert len(invoked(server.receive(request(4, bytes(1000)), 0.0))) == 1


def test_more_calls_than_allowed_are_told_to_come_later() -> None:
    server = bound(Peers(max_calls=2))
    effects = server.receive(b"".join(request(n, b"x") for n in range(3, 7)), 0.0)
    assert [call.call_id for call in invoked(effects)] == [3, 4]
    assert [fault(data) for data in pdus(sent(effects))] == [(5, 0x1C010014), (6, 0x1C010014)]
    server.respond(invoked(effects)[0], b"", 0.0)
    assert len(invoked(server.receive(request(7, b"x"), 0.0))) == 1


@pytest.mark.parametrize(
    ("data", "status", "closes"),
    [
        (request(3, b"x", context_id=9), 0x1C010003, False),
        (request(2, b"x"), NCA_PROTOCOL_ERROR, True),
        (request(3, b"x", 0) + request(400, b"x", 0), NCA_PROTOCOL_ERROR, True),
        (request(3, b"x", pdu.FIRST_FRAG) + request(4, b"x", pdu.FIRST_FRAG), NCA_PROTOCOL_ERROR, True),
        (request(3, b"x", pdu.FIRST_FRAG) + request(3, b"x", 0, opnum=2), NCA_PROTOCOL_ERROR, True),
        (request(3, b"x", pdu.FIRST_FRAG) + request(3, b"x", 0, context_id=2), NCA_PROTOCOL_ERROR, True),
        (request(3, b"x", pdu.FIRST_FRAG) + request(3, b"", 0), NCA_PROTOCOL_ERROR, True),
        (pdu.encode(pdu.REQUEST, pdu.WHOLE, 3, b"1234567"), NCA_PROTOCOL_ERROR, True),
        (pdu.encode(pdu.REQUEST, pdu.WHOLE | pdu.OBJECT_UUID, 3, bytes(20)), NCA_PROTOCOL_ERROR, True),
        (pdu.encode(pdu.AUTH_3, pdu.WHOLE, 3, bytes(4)), NCA_PROTOCOL_ERROR, True),
    ],
)
def test_a_broken_request_is_told_so(data: bytes, status: int, closes: bool) -> None:
    server = bound()
    assert len(invoked(server.receive(request(2, b"x"), 0.0))) == 1
    effects = server.receive(data, 0.0)
    assert fault(pdus(sent(effects))[-1])[1] == status
    assert bool(closed(effects)) == closes


def test_a_fault_that_must_not_be_sent_goes_out_as_unspecified() -> None:
    server = bound()
    (call,) = invoked(server.receive(request(2, b"x"), 0.0))
    assert fault(sent(server.fault(call, 0xC0000005))) == (2, 0x1C000012)
    assert server.fault(call, 5) == []  # it is over


def test_an_object_uuid_is_kept_apart_from_the_stub() -> None:
    server = bound()
    body = struct.pack("<IHH", 1, 0, 1) + UUID(int=77).bytes_le + b"x"
    (call,) = invoked(server.receive(pdu.encode(pdu.REQUEST, pdu.WHOLE | pdu.OBJECT_UUID, 3, body), 0.0))
    assert (call.object, call.stub) == (UUID(int=77).bytes_le, b"x")


# Cancel, orphan, loss


def test_a_cancelled_call_may_still_be_answered() -> None:
    client, server = Peers().connected()
    call_id, data = client.request(FIRST, 1, b"x")
    (call,) = invoked(server.receive(data, 0.0))
    assert server.receive(client.cancel(call_id), 0.0) == [Cancelled(call)]
    assert server.receive(client.cancel(call_id), 0.0) == []
    assert client.receive(sent(server.fault(call, 0x1C00000D))) == [Fault(call_id, 0x1C00000D, True)]
    assert client.cancel(call_id) == b""


def test_an_orphan_is_not_answered() -> None:
    client, server = Peers().connected()
    call_id, data = client.request(FIRST, 1, b"x")
    (call,) = invoked(server.receive(data, 0.0))
    assert server.receive(client.orphan(call_id), 0.0) == [Orphaned(call)]
    assert call.is_over
    assert server.respond(call, b"", 0.0) == []
    server.receive(request(50, b"x", pdu.FIRST_FRAG), 0.0)
    assert server.receive(pdu.encode(pdu.ORPHANED, pdu.WHOLE, 50, b""), 0.0) == []
    assert server.receive(request(50, b"x", pdu.LAST_FRAG), 0.0) == []
    assert server.bytes_in_flight == 0


def test_a_request_that_comes_with_its_cancel_is_both() -> None:
    server = bound()
    effects = server.receive(request(3, b"x", pdu.WHOLE | pdu.PENDING_CANCEL), 0.0)
    assert [type(effect) for effect in effects] == [Invoke, Cancelled]


def test_nobody_waits_for_the_calls_of_a_lost_connection() -> None:
    server = bound()
    calls = invoked(server.receive(request(3, b"x") + request(4, b"y"), 0.0))
    assert server.connection_lost() == calls
    assert all(server.respond(call, b"", 0.0) == [] for call in calls)


# The verification trailer


@pytest.mark.spec("MP-023")
def test_a_verification_trailer_is_taken_off_and_compared() -> None:
    server = bound()
    stub = b"stub"
    good = stub + encode_trailer(abstract(FIRST), NDR, False)
    (call,) = invoked(server.receive(request(3, good), 0.0))
    assert (call.stub, call.whole_stub, call.trailer) == (stub, good, 0)
    for wrong in (
        stub + encode_trailer(abstract(SECOND), NDR, False), stub + encode_trailer(abstract(FIRST), NDR64, False),
        stub + encode_trailer(abstract(FIRST), NDR, True),
        stub + bytes.fromhex("8ae3137102f43671") + struct.pack("<HHI", 0x4001, 4, 1),
        stub + bytes.fromhex("8ae3137102f43671") + struct.pack("<HHBBHIIHH", 0x4003, 16, 0, 0, 0, 0x10, 99, 0, 1),
        stub + bytes.fromhex("8ae3137102f43671") + struct.pack("<HHI", 0xC009, 4, 1),
    ):
        (call,) = invoked(server.receive(request(4, wrong), 0.0))
        assert (call.stub, call.trailer) == (stub, 5)
        server.respond(call, b"", 0.0)
    right = stub + bytes.fromhex("8ae3137102f43671") + struct.pack("<HHI", 0x0009, 4, 1) + struct.pack(
        "<HHBBHIIHH", 0x4003, 16, 0, 0, 0, 0x10, 5, 0, 1)
    (call,) = invoked(server.receive(request(5, right), 0.0))
    assert (call.stub, call.trailer) == (stub, 0)


@pytest.mark.parametrize("body", [
    bytes.fromhex("8ae3137102f43671"), bytes.fromhex("8ae3137102f4367101400400"),
    bytes.fromhex("8ae3137102f436710140040001000000") + b"and more",
    b"odd" + bytes.fromhex("8ae3137102f436710140040000000000"),
    bytes.fromhex("8ae3137102f436710140050001000000ff"), bytes.fromhex("8ae3137102f436710100040000000000"),
])
def test_what_only_looks_like_a_trailer_stays_in_the_stub(body: bytes) -> None:
    (call,) = invoked(bound().receive(request(3, body), 0.0))
    assert call.stub == call.whole_stub == body
