"""Callers that lie about lengths, bind halfway, never finish, shout, or use what is not theirs: each loses its own
connection or its own call, and nothing else changes."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.interop.conftest import ALLOWED_GROWTH
from tests.interop.daemon import eventually, free_address
from tests.interop.rpc.conftest import PASSWORDS, Queue, RpcDaemon, login
from tests.interop.rpc.impacket_client import ImpacketPeer, format_of
from tests.interop.rpc.second_interfaces import QMCOMM, direct, send_buffer
from tests.interop.rpc.second_ndr import To
from tests.interop.rpc.second_rpc import (
    ALTER,
    AUTH3,
    BIND,
    BIND_ACK,
    BIND_NAK,
    FAULT,
    FIRST,
    LAST,
    NDR64_SYNTAX,
    NDR_SYNTAX,
    REQUEST,
    RESPONSE,
    Connection,
    Credentials,
    Fault,
    Gone,
    Ntlm,
    Refused,
    bind_body,
    pdu,
    syntax,
)
from tests.interop.rpc.verbs import CONNECT, INTEGRITY, RECEIVE, SEND, Opened

SETTINGS = {"rpc.anonymous": "allow", "rpc.bind_timeout": 2.0, "rpc.fragment_timeout": 3.0, "rpc.max_connections": 1024}
DENIED, MISMATCH, RANGE, PROTOCOL, BAD_STUB = 5, 0x1C00001A, 0x1C010002, 0x1C01000B, 0x6F7
NDR, WIDE = syntax(*NDR_SYNTAX), syntax(*NDR64_SYNTAX)
ABSTRACT = syntax(QMCOMM.uuid, 1)
MEGABYTE = 1 << 20


class Witness:
    """An honest client beside all that: it must go on."""

    def __init__(self, server: RpcDaemon) -> None:
        self.server = server
        self.peer = ImpacketPeer(server.address, login("root", level=INTEGRITY))
        self.queue = Queue(self.peer, "witness")
        self.sender, self.reader = self.queue.open(SEND), self.queue.open(RECEIVE)

    def check(self) -> None:
        body = os.urandom(8)
        self.peer.send(self.sender, body=body).ok()
        assert self.peer.receive(self.reader).ok()["message"].body == body
        assert self.server.count("witness") == 0


@pytest.fixture(scope="module")
def witness(server: RpcDaemon) -> Iterator[Witness]:
    honest = Witness(server)
    honest.check()
    before = server.memory()
    yield honest
    honest.check()
    honest.peer.close()
    assert server.memory() - before < ALLOWED_GROWTH


@pytest.fixture
def one(server: RpcDaemon) -> Iterator[Connection]:
    with Connection(server.address, 2103) as connection:
        yield connection


@pytest.fixture
def bound(one: Connection) -> Connection:
    return one.bind("qmcomm", "qmcomm2")


def request(context: int = 0, opnum: int = 31, stub: bytes = bytes(4)) -> bytes:
    return struct.pack("<IHH", len(stub), context, opnum) + stub


def answers(connection: Connection) -> None:
    """It can still be used."""
    assert connection.call("R_QMGetRTQMServerPort", fIP=0)["result"] == 2103


# What is no PDU

GARBAGE: dict[str, bytes] = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "MSMQ": bytes.fromhex("10c00b004c494f523c020000ffffffff") + bytes(560),
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "version 4": pdu(BIND, 1, bytes(60)).replace(b"\5", b"\4", 1),
    "SMB": b"\0\0\0\x80\xfeSMB" + bytes(124),
}


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("after_bind", [False, True])
def test_other_protocols_are_shown_the_door(
    server: RpcDaemon, one: Connection, witness: Witness, what: str, after_bind: bool
) -> None:
    if after_bind:
        one.bind("qmcomm")
    one.write(GARBAGE[what])
    one.until_closed()
    witness.check()


@pytest.mark.parametrize("length", [0, 1, 15])
def test_a_fragment_shorter_than_its_header_ends_the_connection(
    bound: Connection, witness: Witness, length: int
) -> None:
    data = bytearray(pdu(REQUEST, 2, request()))
    data[8:10] = length.to_bytes(2, "little")
    bound.write(bytes(data))
    bound.until_closed()
    witness.check()


@pytest.mark.parametrize("length", [16, 17, 20, 23])
def test_a_request_cut_within_its_header_is_no_call(bound: Connection, witness: Witness, length: int) -> None:
    data = bytearray(pdu(REQUEST, 2, request())[:length])
    data[8:10] = length.to_bytes(2, "little")
    bound.write(bytes(data))
    with contextlib.suppress(Gone):
        assert bound.read().kind == FAULT
    witness.check()


@pytest.mark.parametrize("length", [5841, 20000, 65535])
def test_a_fragment_longer_than_agreed_ends_the_connection(server: RpcDaemon, witness: Witness, length: int) -> None:
    with Connection(server.address, 2103, fragment=2048).bind("qmcomm") as one:
        try:
            one.write(pdu(REQUEST, 2, request(stub=bytes(length - 24))))
            assert one.read().kind == FAULT
        except Gone:
            pass
    witness.check()


@pytest.mark.parametrize("length", [1, 16, 100, 60000])
def test_a_verifier_longer_than_the_fragment_is_no_call(bound: Connection, witness: Witness, length: int) -> None:
    data = bytearray(pdu(REQUEST, 2, request()))
    data[10:12] = length.to_bytes(2, "little")
    bound.write(bytes(data))
    with contextlib.suppress(Gone):
        assert bound.read().kind == FAULT
    witness.check()


def test_a_fragment_that_never_ends_is_not_waited_for(server: RpcDaemon, bound: Connection, witness: Witness) -> None:
    bound.write(pdu(REQUEST, 2, request(stub=bytes(400)))[:300])
    start = time.monotonic()
    bound.until_closed()
    assert time.monotonic() - start < 30
    witness.check()


def test_a_request_that_never_ends_is_not_waited_for(bound: Connection, witness: Witness) -> None:
    bound.write(pdu(REQUEST, 2, request(), flags=FIRST))
    bound.until_closed()
    witness.check()


@pytest.mark.spec("MP-024")
def test_a_request_without_end_is_cut_off_in_bounded_memory(
    server: RpcDaemon, bound: Connection, witness: Witness
) -> None:
    before = server.memory()
    flags, sent = FIRST, 0
    try:
        while sent < 64 * MEGABYTE:
            bound.write(pdu(REQUEST, 2, request(stub=bytes(5000)), flags=flags))
            flags, sent = 0, sent + 5000
        bound.write(pdu(REQUEST, 2, request(), flags=LAST))
        answer = bound.read()
        assert answer.kind == FAULT and struct.unpack_from("<I", answer.data, 8)[0] == DENIED
    except Gone:
        pass
    assert server.memory() - before < 24 * MEGABYTE
    witness.check()


def test_many_requests_without_end_are_held_in_bounded_memory(
    server: RpcDaemon, bound: Connection, witness: Witness
) -> None:
    before = server.memory()
    try:
        for call in range(2, 3000):
            bound.write(pdu(REQUEST, call, request(stub=bytes(5000)), flags=FIRST))
            bound.write(pdu(REQUEST, call, request(stub=bytes(5000)), flags=0))
    except (Gone, TimeoutError):
        pass
    assert server.memory() - before < 64 * MEGABYTE
    witness.check()


# Half binds and wrong ones


def test_who_does_not_bind_is_let_go(server: RpcDaemon, witness: Witness) -> None:
    streams = [socket.create_connection((server.address, 2103), 30) for _ in range(50)]
    for number, stream in enumerate(streams):
        if number % 2:
            stream.sendall(pdu(BIND, 1, bind_body([(0, ABSTRACT, [NDR])]))[: number])
    for stream in streams:
        assert stream.recv(1) == b""
        stream.close()
    witness.check()


def test_who_does_not_finish_signing_in_is_let_go(server: RpcDaemon, witness: Witness) -> None:
    with Connection(server.address, 2103) as one:
        half = Ntlm(Credentials("alice", PASSWORDS["alice"], level=CONNECT))
        body = bind_body([(0, ABSTRACT, [NDR])]) + struct.pack("<BBBBI", 10, CONNECT, 0, 0, 1)
        one.write(pdu(BIND, 1, body, auth=bytes(half.first.getData())))
        assert one.read().kind == BIND_ACK
        one.until_closed()
    witness.check()


def test_contexts_that_cannot_be_are_refused_one_by_one(one: Connection, witness: Witness) -> None:
    offered = [
        (0, ABSTRACT, [NDR]), (1, syntax(QMCOMM.uuid, 2), [NDR]), (2, syntax("12345678-" + QMCOMM.uuid[9:], 1), [NDR]),
        (3, ABSTRACT, [syntax(NDR_SYNTAX[0], 3)]), (4, ABSTRACT, []), (5, ABSTRACT, [WIDE, NDR]),
    ]  # fmt: skip
    one.write(pdu(BIND, 1, bind_body(offered)))
    answer = one.read()
    assert answer.kind == BIND_ACK
    found = [(result, reason) for result, reason, _ in one._results(answer)]
    assert found[0] == (0, 0) and found[5] == (0, 0)
    assert found[1] == found[2] == (2, 1) and found[3] == (2, 2) and found[4][0] == 2
    witness.check()


@pytest.mark.parametrize("count", [0, 1, 200])
def test_a_bind_that_lies_about_its_contexts_is_refused(one: Connection, witness: Witness, count: int) -> None:
    body = bytearray(bind_body([(0, ABSTRACT, [NDR])])[:40])
    body[8] = count
    one.write(pdu(BIND, 1, bytes(body)))
    with contextlib.suppress(Gone):
        answer = one.read()
        assert answer.kind in (BIND_NAK, FAULT) or not one._results(answer)  # none were offered, none were taken
    witness.check()


def test_a_bind_of_255_contexts_is_answered(one: Connection, witness: Witness) -> None:
    one.write(pdu(BIND, 1, bind_body([(number, ABSTRACT, [NDR]) for number in range(120)])))
    try:
        answer = one.read()
        assert answer.kind in (BIND_ACK, BIND_NAK)
    except Gone:
        pass
    witness.check()


@pytest.mark.parametrize("kind", [REQUEST, ALTER, AUTH3, RESPONSE, FAULT, BIND_ACK, 1, 4, 17, 20, 200])
def test_nothing_but_a_bind_comes_first(one: Connection, witness: Witness, kind: int) -> None:
    one.write(pdu(kind, 1, request() + bytes(64)))
    with contextlib.suppress(Gone):
        assert one.read().kind in (FAULT, BIND_NAK)
    witness.check()


@pytest.mark.parametrize("kind", [RESPONSE, FAULT, BIND_ACK, BIND_NAK, 1, 4, 15, 17, 20, 200])
def test_what_only_servers_say_is_not_taken_from_a_client(bound: Connection, witness: Witness, kind: int) -> None:
    bound.write(pdu(kind, 7, request() + bytes(64)))
    with contextlib.suppress(Gone, AssertionError):
        answers(bound)
    witness.check()


def test_random_bytes_and_changed_pdus_harm_nobody(server: RpcDaemon, witness: Witness, seed: int) -> None:
    chance = Random(seed)
    for number in range(150):
        with Connection(server.address, 2103) as one:
            data = bytearray(pdu(BIND, 1, bind_body([(0, ABSTRACT, [NDR])])) + pdu(REQUEST, 2, request()))
            for _ in range(chance.randrange(1, 5)):
                data[chance.randrange(len(data))] = chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            one.write(bytes(data) if number % 3 else chance.randbytes(chance.randrange(16, 400)))
            one.stream.shutdown(socket.SHUT_WR)
            one.until_closed()
        if number % 50 == 0:
            witness.check()
    witness.check()


# Calls that cannot be


@pytest.mark.spec("MP-021")
@pytest.mark.parametrize("name", ["qmcomm", "qmcomm2"])
def test_reserved_and_unknown_opnums_fault_and_nothing_else(
    server: RpcDaemon, witness: Witness, name: str
) -> None:
    numbers = [0, 5, 13, 21, 24, 25, 29, 30, 32, 33, 34, 35, 100, 65535] if name == "qmcomm" else [4, 5, 100, 65535]
    with ImpacketPeer(server.address, login("root", level=INTEGRITY)) as peer:
        for number in numbers:
            for stub in (b"", os.urandom(40)):
                with pytest.raises(Fault) as found:
                    peer.connection.raw(name, number, stub)
                assert found.value.status == RANGE
        answers(peer.connection)
    witness.check()


@pytest.mark.parametrize("context", [2, 7, 65535])
def test_a_context_that_was_not_bound_is_no_interface(bound: Connection, witness: Witness, context: int) -> None:
    bound.write(pdu(REQUEST, 9, request(context)))
    try:
        answer = bound.read()
        assert answer.kind == FAULT and struct.unpack_from("<I", answer.data, 8)[0] in (0x1C00000B, 0x1C010003,
                                                                                        0x1C01000B)
    except Gone:
        pass
    witness.check()


@pytest.mark.spec("MP-014")
def test_big_endian_callers_are_understood(one: Connection) -> None:
    def big(kind: int, body: bytes) -> bytes:
        return struct.pack(">BBBBBBBBHHI", 5, 0, kind, 3, 0, 0, 0, 0, 16 + len(body), 0, 5) + body

    abstract = UUID(QMCOMM.uuid).bytes + struct.pack(">HH", 0, 1)
    ndr = UUID(NDR_SYNTAX[0]).bytes + struct.pack(">I", NDR_SYNTAX[1])
    one.write(big(BIND, struct.pack(">HHIB3xHBB", 5840, 5840, 0, 1, 0, 1, 0) + abstract + ndr))
    assert one.read().kind == BIND_ACK
    one.write(big(REQUEST, struct.pack(">IHHI", 4, 0, 31, 1)))
    answer = one.read()
    assert answer.kind == RESPONSE and struct.unpack_from("<I", answer.data, 8)[0] == 2105


# What belongs to others


@pytest.fixture
def mine(server: RpcDaemon) -> Iterator[ImpacketPeer]:
    with ImpacketPeer(server.address, login("alice", level=INTEGRITY)) as peer:
        yield peer


@pytest.fixture
def owned(server: RpcDaemon, mine: ImpacketPeer, queue_name: str) -> Queue:
    return Queue(mine, queue_name)


def stolen(handle: bytes, name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every use of a queue handle."""
    return {
        "send": ("rpc_ACSendMessageEx", {"hQueue": handle, "ptb": send_buffer(ppBody=b"stolen")}),
        "cursor": ("rpc_ACCreateCursorEx", {"hQueue": handle}),
        "purge": ("rpc_ACPurgeQueue", {"hQueue": handle}),
        "close": ("rpc_ACCloseHandle", {"phQueue": handle}),
        "close cursor": ("rpc_ACCloseCursor", {"hQueue": handle, "hCursor": 1}),
        "format name": ("rpc_ACHandleToFormatName", {"hQueue": handle, "pdwLength": 0}),
        "commit": ("R_QMCommitTransaction", {"phIntXact": handle}),
        "close remote": ("R_QMCloseRemoteQueueContext", {"pphContext": handle}),
    }


@pytest.mark.spec("MP-018", "MP-027", "MP-028")
@pytest.mark.parametrize("thief", ["another group", "another user", "nobody", "a forged handle", "the null handle"])
def test_a_handle_is_worth_nothing_to_others(
    server: RpcDaemon, mine: ImpacketPeer, owned: Queue, witness: Witness, thief: str
) -> None:
    mine.send(owned.open(SEND), body=b"kept").ok()
    opened = owned.open(RECEIVE)
    handle = opened.wire
    if thief == "a forged handle":
        handle = handle[:-1] + bytes([handle[-1] ^ 1])
    elif thief == "the null handle":
        handle = bytes(20)
    who = {"another user": login("bob", level=INTEGRITY), "nobody": None}.get(thief, login("alice", level=INTEGRITY))
    with ImpacketPeer(server.address, who) as other:
        for verb, (method, values) in stolen(handle, owned.name).items():
            with pytest.raises(Fault) as found:
                other.connection.call(method, **values)
            assert found.value.status in (MISMATCH, BAD_STUB), f"{verb}: {found.value}"
        answers(other.connection)
    assert mine.receive(opened).ok()["message"].body == b"kept"
    assert mine.close_queue(opened).ok()["handle"] == bytes(20)
    witness.check()


@pytest.mark.spec("MP-017", "MP-027")
def test_a_handle_of_another_kind_is_refused(mine: ImpacketPeer, owned: Queue) -> None:
    opened = owned.open(RECEIVE)
    transaction = mine.enlist(os.urandom(16)).ok()["wire"]
    for method, values in stolen(transaction, owned.name).values():
        if method != "R_QMCommitTransaction":
            with pytest.raises(Fault) as found:
                mine.connection.call(method, **values)
            assert found.value.status == MISMATCH
    for method in ("R_QMCommitTransaction", "R_QMAbortTransaction"):
        with pytest.raises(Fault):
            mine.connection.call(method, phIntXact=opened.wire)
    mine.abort(transaction).ok()
    mine.purge(opened).ok()


@pytest.mark.spec("MP-018")
def test_a_group_is_joined_from_its_own_host_by_its_own_user(
    server: RpcDaemon, mine: ImpacketPeer, owned: Queue
) -> None:
    """Joined, the handle works on the second connection; from elsewhere there is no joining, and no handle."""
    opened, group = owned.open(RECEIVE), mine.connection.group
    assert group
    with ImpacketPeer(server.address, login("alice", level=INTEGRITY), group=group) as joined:
        joined.purge(opened).ok()
    for who, source in (("alice", free_address()), ("bob", ""), (None, "")):
        try:
            known = None if who is None else login(who, level=INTEGRITY)
            other = ImpacketPeer(server.address, known, group=group, source=source)
        except (Refused, Gone, Fault):
            continue
        assert other.purge(opened).code in (MISMATCH, DENIED), (who, source)
        other.close()
    with pytest.raises((Refused, Gone, Fault, AssertionError)):
        stranger = ImpacketPeer(server.address, login("alice", level=INTEGRITY), group=0x7FFFFFF0)
        assert stranger.connection.group != 0x7FFFFFF0
        stranger.purge(opened).ok()
    mine.purge(opened).ok()


@pytest.mark.spec("MP-180", "MP-182")
@pytest.mark.parametrize("end", ["close", "reset"])
def test_what_a_client_held_is_given_back_when_it_goes(
    server: RpcDaemon, owned: Queue, mine: ImpacketPeer, end: str
) -> None:
    """Exclusive reading, a transaction with what it sent and took, and a receive that waits."""
    mine.send(owned.open(SEND), body=b"kept").ok()
    other = ImpacketPeer(server.address, login("alice", level=INTEGRITY))
    reader = other.open(owned.direct, RECEIVE, 1).ok()["queue"]
    assert mine.open(owned.direct, RECEIVE).code == 0xC00E0009
    other.receive(reader).ok()
    waiting = other.start_receive(reader, timeout=600_000)
    assert waiting
    getattr(other.connection, end)()

    def free() -> Opened | None:
        outcome = mine.open(owned.direct, RECEIVE)
        return outcome["queue"] if outcome.code == 0 else None

    opened = eventually(free)
    assert opened is not None
    mine.send(owned.open(SEND), body=b"later").ok()
    assert mine.receive(opened).ok()["message"].body == b"later"


@pytest.mark.spec("MP-174")
def test_a_waiting_receive_holds_up_nobody_and_ends_with_its_handle(mine: ImpacketPeer, owned: Queue) -> None:
    opened = owned.open(RECEIVE)
    waits = [mine.start_receive(opened, timeout=600_000) for _ in range(100)]
    sender = owned.open(SEND)
    mine.send(sender, body=b"for the first").ok()
    assert mine.finish_receive(waits[0]).ok()["message"].body == b"for the first"
    mine.close_queue(opened).ok()
    assert {mine.finish_receive(call).code for call in waits[1:]} == {0xC00E0008}


@pytest.mark.parametrize("orphan", [False, True])
def test_a_cancelled_receive_takes_nothing(mine: ImpacketPeer, owned: Queue, orphan: bool, server: RpcDaemon) -> None:
    opened, sender = owned.open(RECEIVE), owned.open(SEND)
    call = mine.start_receive(opened, timeout=600_000)
    mine.connection.cancel(call, orphan)
    if not orphan:
        assert mine.finish_receive(call).code != 0
    answers(mine.connection)
    mine.send(sender, body=b"kept").ok()
    assert server.bodies(owned.name) == [b"kept"]


# Too many


@pytest.mark.parametrize("count", [1500, pytest.param(10_000, marks=pytest.mark.torture)])
def test_thousands_of_connections_do_not_keep_others_out(server: RpcDaemon, witness: Witness, count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 20_000)), hard))
    before, streams = server.memory(), []
    chance = Random(1)
    try:
        for number in range(count):
            stream = socket.socket()
            stream.setblocking(True)
            stream.settimeout(60)
            stream.bind((f"127.1.{number // 200 % 250}.{chance.randrange(1, 250)}", 0))
            try:
                stream.connect((server.address, 2103))
            except OSError:
                stream.close()
                continue
            streams.append(stream)
            if number % 500 == 0:
                witness.check()
        witness.check()
        assert server.memory() - before < ALLOWED_GROWTH
    finally:
        for stream in streams:
            stream.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    witness.check()
    with ImpacketPeer(server.address, login("alice", level=INTEGRITY)) as peer:
        assert peer.port(0) == 2103


def test_one_client_gets_no_endless_handles_and_cursors(server: RpcDaemon, owned: Queue, mine: ImpacketPeer,
                                                        witness: Witness) -> None:
    opened = owned.open(RECEIVE)
    codes = {mine.cursor(opened).code for _ in range(3000)}
    assert codes == {0, 0xC00E0027}
    handles: list[Opened] = []
    code = 0
    while code == 0 and len(handles) < 6000:
        outcome = mine.open(owned.direct, SEND)
        code = outcome.code
        if code == 0:
            handles.append(outcome["queue"])
    assert code and len(handles) < 6000
    witness.check()
    mine.close_queue(handles[0]).ok()
    mine.open(owned.direct, SEND).ok()


def test_binding_again_and_again_is_bounded(server: RpcDaemon, bound: Connection, witness: Witness) -> None:
    before = server.memory()
    try:
        for number in range(5000):
            bound.write(pdu(ALTER, 10 + number, bind_body([(10 + number, ABSTRACT, [NDR])])))
            bound.read()
    except Gone:
        pass
    assert server.memory() - before < 16 * MEGABYTE
    witness.check()


def test_a_queue_name_of_every_kind_that_cannot_be_opened_is_an_error(mine: ImpacketPeer, witness: Witness) -> None:
    names = ["unknown:", "direct:", "direct:OS:", "direct:TCP:x", "direct:" + "x" * 5000, "direct:HTTP://x",
             "subqueue:OS:.",
             "multicast:0:0", "dl:" + "00" * 16 + ":", "machine:" + "00" * 16, "connector:" + "00" * 16,
             "direct:OS:.\\private$\\q;evil", "direct:OS:.\\..\\..\\etc\\passwd"]  # fmt: skip
    for name in names:
        assert mine.open(name, RECEIVE).code & 0x80000000 or mine.open(name, RECEIVE)["remote"], name
        assert format_of(name)
    for flags in range(0, 256, 17):
        code = mine.call("rpc_QMOpenQueueInternal", pQueueFormat=direct(r"OS:.\private$\none", flags),
                         dwDesiredAccess=1,
                         lplpRemoteQueueName=To(None), lpClientName="x").code  # fmt: skip
        assert code & 0x80000000 or code == BAD_STUB
    witness.check()
