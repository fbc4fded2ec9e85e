"""PDUs of connection-oriented RPC: what is written is read, what is cut or broken is malformed."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import Malformed
from lior.wire import rpc_pdu as pdu
from lior.wire.rpc_big_endian import turned
from lior.wire.rpc_pdu import Authentication, Bind, BindAck, PresentationContext, Result, Syntax

SYNTAXES = st.builds(Syntax, st.uuids(), st.integers(0, 0xFFFFFFFF))
CONTEXTS = st.builds(PresentationContext, st.integers(0, 0xFFFF), SYNTAXES, st.lists(SYNTAXES, max_size=3).map(tuple))
SHORTS = st.integers(0, 0xFFFF)
BINDS = st.builds(Bind, SHORTS, SHORTS, st.integers(0, 0xFFFFFFFF), st.lists(CONTEXTS, max_size=4).map(tuple))
ACKS = st.builds(BindAck, SHORTS, SHORTS, st.integers(0, 0xFFFFFFFF), st.from_regex(r"[0-9]{0,5}", fullmatch=True),
                 st.lists(st.builds(Result, SHORTS, SHORTS, SYNTAXES), max_size=4).map(tuple))
TOKENS = st.builds(Authentication, st.integers(0, 255), st.integers(0, 255), st.just(0), st.integers(0, 0xFFFFFFFF),
                   st.binary(min_size=1, max_size=40))
# [C706] 12.6.4.3, laid out by hand: a bind to qmcomm in NDR
BIND = bytes.fromhex(
    "05000b03 10000000 48000000 01000000 d016d016 00000000 01000000 00000100"
    "30a0b3fd 5f06 d111 bb9b00a024ea5525 01000000"
    "045d888a eb1c c911 9fe808002b104860 02000000"
)


@given(BINDS, st.one_of(st.none(), TOKENS))
def test_a_bind_survives_the_way_with_what_protects_it(bind: Bind, token: Authentication | None) -> None:
    data = pdu.encode(pdu.BIND, pdu.WHOLE, 7, pdu.encode_bind(bind), token)
    header = pdu.decode_header(data)
    assert (header.ptype, header.frag_length, header.call_id) == (pdu.BIND, len(data), 7)
    end = len(data) - header.auth_length - 8 if header.auth_length else len(data)
    assert pdu.decode_bind(data, end) == bind
    if token is not None:
        found = pdu.decode_authentication(data, header.auth_length)
        assert found._replace(pad_length=0) == token


@given(ACKS)
def test_an_acknowledgement_survives_the_way(ack: BindAck) -> None:
    data = pdu.encode(pdu.BIND_ACK, pdu.WHOLE, 7, pdu.encode_bind_ack(ack))
    assert pdu.decode_bind_ack(data, len(data)) == ack


@given(BINDS, TOKENS)
def test_a_big_endian_bind_becomes_the_same(bind: Bind, token: Authentication) -> None:
    body = struct.pack(">HHIBBH", *bind[:3], len(bind.contexts), 0, 0)
    for each in bind.contexts:
        body += struct.pack(">HBB", each.identifier, len(each.transfers), 0)
        for syntax in (each.abstract, *each.transfers):
            body += syntax.uuid.bytes + struct.pack(">I", syntax.version)
    tail = struct.pack(">BBBBI", token.service, token.level, 0, 0, token.context_id) + token.token
    data = struct.pack(">BBBBIHHI", 5, 0, pdu.BIND, 3, 0, 16 + len(body) + len(tail), len(token.token), 9) + body + tail
    out = turned(data)
    header = pdu.decode_header(out)
    assert (header.drep, header.frag_length, header.call_id) == (0x10, len(data), 9)
    assert pdu.decode_bind(out, len(out) - header.auth_length - 8) == bind
    assert pdu.decode_authentication(out, header.auth_length) == token


@pytest.mark.parametrize("contexts", [1, 3])
def test_a_bind_or_acknowledgement_cut_anywhere_is_malformed(contexts: int) -> None:
    context = PresentationContext(0, pdu.NDR, (pdu.NDR, pdu.NDR64))
    bind = pdu.encode(pdu.BIND, 3, 1, pdu.encode_bind(Bind(1, 2, 3, (context,) * contexts)))
    ack = pdu.encode(pdu.BIND_ACK, 3, 1, pdu.encode_bind_ack(BindAck(1, 2, 3, "2103", (Result(0),) * contexts)))
    for cut in range(16, len(bind)):
        with pytest.raises(Malformed):
            pdu.decode_bind(bind[:cut], cut)
    for cut in range(16, len(ack)):
        with pytest.raises(Malformed):
            pdu.decode_bind_ack(ack[:cut], cut)
    for cut in range(16):
        with pytest.raises(Malformed):
            pdu.decode_header(bind[:cut])


@pytest.mark.parametrize(("auth_length", "pad"), [(100, 0), (24, 0), (4, 60)])
def test_authentication_that_does_not_fit_is_malformed(auth_length: int, pad: int) -> None:
    data = bytes(16) + bytes(16) + struct.pack("<BBBBI", 10, 5, pad, 0, 1) + b"1234"
    with pytest.raises(Malformed):
        pdu.decode_authentication(data, auth_length)


def test_a_bind_has_the_bytes_of_the_document() -> None:
    bind = pdu.decode_bind(BIND, len(BIND))
    qmcomm = Syntax(UUID("fdb3a030-065f-11d1-bb9b-00a024ea5525"), 1)
    assert bind == Bind(5840, 5840, 0, (PresentationContext(0, qmcomm, (pdu.NDR,)),))
    assert pdu.encode(pdu.BIND, pdu.WHOLE, 1, pdu.encode_bind(bind)) == BIND


@pytest.mark.parametrize("mask", [0, 1, 2, 3, 0xFF, 1 << 40])
def test_features_of_a_bind_are_part_of_a_transfer_syntax(mask: int) -> None:
    assert pdu.feature_mask(pdu.features(mask)) == mask
    assert str(pdu.features(3).uuid) == "6cb71c2c-9812-4540-0300-000000000000"
    assert pdu.feature_mask(pdu.NDR) is None
    assert pdu.feature_mask(pdu.features(1)._replace(version=2)) is None


def test_a_fault_has_no_stub_data() -> None:
    data = pdu.encode_fault(5, 1, 0xC00E0003)
    assert len(data) == pdu.decode_header(data).frag_length == 32
    assert pdu.decode_fault(data) == pdu.decode_fault(data[:28]) == 0xC00E0003
    with pytest.raises(Malformed):
        pdu.decode_fault(data[:27])
    with pytest.raises(Malformed):
        pdu.decode_bind_nak(data[:17])
