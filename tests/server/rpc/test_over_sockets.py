"""The methods over real sockets: a raw client of the codecs against `lior serve`, and clients that are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from lior.message import MessageClass, ObjectId
from lior.protocols.rpc.call import Send
from lior.protocols.rpc.client_association import Answer, ClientAssociation, Fault
from lior.testing.serving import Serving
from lior.wire.interfaces.qm2qm import QM2QM
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.ndr import NULL
from lior.wire.rpc_interface import Interface
from tests.server.rpc.calling import NO_GUID, NO_OBJECT, body_of, format_of, sent, wanted

QUEUE = r"DIRECT=OS:.\private$\q"
SETTINGS = {"rpc.mapper_port": 0}


class Raw:
    """A client on a blocking socket: one call after another."""

    def __init__(self, path: str, *, group: int = 0) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.association = ClientAssociation((QMCOMM, QMCOMM2, QM2QM, REMOTE_READ), group_id=group)
        self.effects: list[Any] = []
        self._do(self.association.bind())
        self._next()

    def _do(self, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.socket.sendall(effect.data)
            else:
                self.effects.append(effect)

    def _next(self) -> Any:
        while not self.effects:
            data = self.socket.recv(1 << 16)
            assert data, "the server closed the connection"
            self._do(self.association.receive(data))
        return self.effects.pop(0)

    def start(self, interface: Interface, opnum: int, **fields: Any) -> None:
        codec = interface.methods[opnum].request
        stub = codec.encode([fields[name] for name in codec.fields])
        _, data = self.association.request(interface, opnum, stub)
        self.socket.sendall(data)

    def call(self, interface: Interface, opnum: int, **fields: Any) -> Any:
        self.start(interface, opnum, **fields)
        return self.answer(interface, opnum)

    def answer(self, interface: Interface, opnum: int) -> Any:
        effect = self._next()
        assert isinstance(effect, Answer | Fault), effect
        assert isinstance(effect, Answer), hex(effect.status)
        return interface.methods[opnum].response.decode(effect.stub)

    def open(self, access: int, name: str = QUEUE) -> Any:
        response = self.call(QMCOMM, 19, p_queue_format=format_of(name), dw_desired_access=access, dw_share_mode=0,
                             h_remote_queue=0, lplp_remote_queue_name=NULL, dwp_queue=0, p_lic_guid=NO_GUID,
                             lp_client_name="raw", dw_remote_protocol=0, dwp_remote_context=0)  # fmt: skip
        assert response.result == 0
        return response

    def send(self, handle: bytes, body: bytes, **members: Any) -> ObjectId:
        response = self.call(QMCOMM2, 1, h_queue=handle, ptb=sent(body, **members), p_message_id=NO_OBJECT)
        assert response.result == 0
        identifier: ObjectId = response.p_message_id
        return identifier

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Serving(tmp_path_factory.mktemp("rpc") / "data", settings=SETTINGS) as serving:
        yield serving


def socket_of(server: Serving) -> str:
    return str(server.data / "lior.sock")


@pytest.fixture
def queue(server: Serving) -> Any:
    with server.connect() as qm:
        qm.create_queue(r".\private$\q")
        yield qm
        qm.delete_queue(r".\private$\q")


def bodies(qm: Any) -> list[bytes]:
    with qm.open_queue(r".\private$\q", "peek") as opened:
        return [message.body for message in opened]


@pytest.mark.spec("MP-006", "MP-196", "MP-017")
def test_opens_sends_peeks_receives_and_closes(server: Serving, queue: Any) -> None:
    raw = Raw(socket_of(server))
    assert raw.call(QMCOMM, 31, f_ip=0).result == 2103
    sender, reader = raw.open(2), raw.open(1)
    identifiers = [raw.send(sender.ph_queue, b"%d" % number, label=f"message {number}") for number in range(20)]
    assert len(set(identifiers)) == 20
    peeked = raw.call(QMCOMM2, 2, h_qm_context=reader.pdw_qm_context, ptb=wanted(action=0x80000000))
    assert (body_of(peeked), peeked.ptb.pp_message_id) == (b"0", identifiers[0])
    for number in range(20):
        received = raw.call(QMCOMM2, 2, h_qm_context=reader.pdw_qm_context, ptb=wanted())
        assert (body_of(received), received.ptb.pp_title) == (b"%d" % number, f"message {number}\0")
    assert raw.call(QMCOMM, 27, h_queue=reader.ph_queue).result == 0
    for opened in (sender, reader):
        assert raw.call(QMCOMM, 20, ph_queue=opened.ph_queue) == (bytes(20), 0)
    raw.close()


@pytest.mark.spec("MP-052", "MP-166")
def test_a_body_of_nearly_four_megabytes_goes_both_ways(server: Serving, queue: Any) -> None:
    raw = Raw(socket_of(server))
    body = os.urandom(4_000_000)
    raw.send(raw.open(2).ph_queue, body)
    received = raw.call(QMCOMM2, 2, h_qm_context=raw.open(1).pdw_qm_context, ptb=wanted(
        room=4_100_000, pp_msg_extension=None, ul_msg_extension_buffer_in_bytes=0))  # fmt: skip
    assert body_of(received) == body
    raw.close()


@pytest.mark.spec("MP-200")
def test_a_transaction_over_the_wire(server: Serving) -> None:
    with server.connect() as qm:
        qm.create_queue(r".\private$\t", transactional=True)
    raw = Raw(socket_of(server))
    name = r"DIRECT=OS:.\private$\t"

    uow = uuid4()
    handle = raw.call(QMCOMM, 16, p_uow=uow).ph_int_xact
    sender, reader = raw.open(2, name), raw.open(1, name)
    for number in range(3):
        raw.send(sender.ph_queue, b"%d" % number, p_uow=uow)
    assert raw.call(QMCOMM2, 2, h_qm_context=reader.pdw_qm_context, ptb=wanted()).result == 0xC00E001B
    assert raw.call(QMCOMM, 17, ph_int_xact=handle) == (bytes(20), 0)
    found = [raw.call(QMCOMM2, 2, h_qm_context=reader.pdw_qm_context, ptb=wanted()) for _ in range(3)]
    assert [body_of(each) for each in found] == [b"0", b"1", b"2"]
    assert [(each.ptb.pb_first_in_xact, each.ptb.pb_last_in_xact) for each in found] == [(1, 0), (0, 0), (0, 1)]
    raw.close()


@pytest.mark.parametrize("delivery", [0, 1], ids=["express", "recoverable"])
@pytest.mark.spec("MP-055")
def test_a_message_expires_though_nothing_else_happens(server: Serving, queue: Any, delivery: int) -> None:
    queue.create_queue(r".\private$\told")
    raw = Raw(socket_of(server))
    raw.send(raw.open(2).ph_queue, b"gone", p_delivery=delivery, ul_relative_time_to_live=1, p_acknowledge=8,
             admin=r"DIRECT=OS:.\private$\told")  # fmt: skip
    with queue.open_queue(r".\private$\told") as told:
        assert told.receive(timeout=60).message_class == MessageClass.NACK_RECEIVE_TIMEOUT
    assert bodies(queue) == []
    queue.delete_queue(r".\private$\told")
    raw.close()


CHILD = """
import sys
from tests.server.rpc.test_over_sockets import *
raw = Raw(sys.argv[1])
opened = raw.open(1)
{work}
print("ready", flush=True)
raw.socket.recv(1)
"""
WAITING = "raw.start(QMCOMM2, 2, h_qm_context=opened.pdw_qm_context, ptb=wanted(timeout=0xFFFFFFFF))"
HOLDING = """
reading = raw.call(REMOTE_READ, 2, p_queue_format=format_of(QUEUE), dw_access=1, dw_share_mode=0, p_client_id=NO_GUID,
                   f_non_routing_server=1, major=6, minor=1, build_number=1, f_workgroup=1)
got = raw.call(REMOTE_READ, 7, ph_context=reading.pph_context, lookup_id=0, h_cursor=0, ul_action=0, ul_timeout=0,
               dw_request_id=1, dw_max_body_size=1000, dw_max_compound_message_size=0)
assert got.result == 0
"""
def killed(server: Serving, work: str, waiting_reads: int = 0) -> None:
    """A client that does this, and then dies without a word, once the server knows of so many reads that wait."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(work=work), socket_of(server)],
                             stdout=subprocess.PIPE, text=True, env=environment)  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    end = time.monotonic() + 60
    with server.connect() as qm:
        while qm.properties()["waiting_reads"] != waiting_reads:
            assert time.monotonic() < end, "it does not wait"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()


def until_nothing_waits(server: Serving) -> None:
    """The server noticed that the client is gone."""
    end = time.monotonic() + 60
    with server.connect() as qm:
        while qm.properties()["waiting_reads"] or qm.properties()["transactions"]:
            assert time.monotonic() < end, "something of the dead client is left"


@pytest.mark.spec("MP-174", "MP-180")
def test_a_client_that_is_killed_while_it_waits_takes_no_message(server: Serving, queue: Any) -> None:
    killed(server, WAITING, waiting_reads=1)
    until_nothing_waits(server)
    raw = Raw(socket_of(server))
    raw.send(raw.open(2).ph_queue, b"stays")
    assert bodies(queue) == [b"stays"]
    raw.close()


def test_a_remote_reader_that_is_killed_gives_back_what_it_had(server: Serving, queue: Any) -> None:
    raw = Raw(socket_of(server))
    raw.send(raw.open(2).ph_queue, b"back")
    killed(server, HOLDING)
    response = raw.call(QMCOMM2, 2, h_qm_context=raw.open(1).pdw_qm_context, ptb=wanted(timeout=30_000))
    assert body_of(response) == b"back"
    raw.close()


@pytest.mark.spec("MP-182", "MP-180")
def test_a_client_that_goes_away_in_a_transaction_gives_back_what_it_had(server: Serving) -> None:
    with server.connect() as qm:
        qm.create_queue(r".\private$\x", transactional=True)
        with qm.transaction() as transaction:
            transaction.send(r".\private$\x", b"back")
    raw = Raw(socket_of(server))
    uow = uuid4()
    raw.call(QMCOMM, 16, p_uow=uow)
    opened = raw.open(1, r"DIRECT=OS:.\private$\x")
    taken = raw.call(QMCOMM2, 2, h_qm_context=opened.pdw_qm_context, ptb=wanted(p_uow=uow))
    assert body_of(taken) == b"back"
    raw.close()
    with server.connect() as qm, qm.open_queue(r".\private$\x") as queue:
        assert queue.receive(timeout=60).body == b"back"


@pytest.mark.spec("MP-032")
def test_a_queue_format_of_a_kind_or_suffix_that_there_is_none_of_is_refused_and_the_connection_goes_on(
    server: Serving, queue: Any
) -> None:
    raw = Raw(socket_of(server))

    def answer(at: int, value: int) -> Any:
        stub = bytearray(QMCOMM.methods[2].request.encode([format_of(QUEUE), 0, 1, 0, NO_GUID, 0]))
        stub[at] = value
        _, data = raw.association.request(QMCOMM, 2, bytes(stub))
        raw.socket.sendall(data)
        return raw._next()

    kind = answer(4, 9)  # m_qft
    assert isinstance(kind, Fault) and kind.status == 0x000006F7
    suffix = answer(5, 0x0F)  # m_SuffixAndFlags
    assert isinstance(suffix, Answer)
    assert QMCOMM.methods[2].response.decode(suffix.stub).result == 0xC00E001E
    assert raw.open(1).result == 0
    raw.close()


@pytest.mark.spec("MP-159", "MP-152")
def test_what_was_answered_is_there_once_after_the_server_was_killed(tmp_path: Path, seed: int) -> None:
    """Sends, 64 under way, until the server dies in the middle of them."""
    server = Serving(tmp_path / "data", settings=SETTINGS).start()
    with server.connect() as qm:
        qm.create_queue(r".\private$\q")
    raw = Raw(socket_of(server))
    handle = raw.open(2).ph_queue
    sent_as: dict[int, bytes] = {}
    acknowledged: dict[str, bytes] = {}
    wanted_before = Random(seed).randrange(500, 3000)
    codec = QMCOMM2.methods[1]
    with suppress(OSError, AssertionError):
        while True:
            while len(sent_as) < 64:
                body = b"%d" % (len(acknowledged) + len(sent_as))
                stub = codec.request.encode([handle, sent(body), NO_OBJECT])
                call_id, data = raw.association.request(QMCOMM2, 1, stub)
                sent_as[call_id] = body
                raw.socket.sendall(data)
            effect = raw._next()
            if isinstance(effect, Answer):
                acknowledged[str(codec.response.decode(effect.stub).p_message_id)] = sent_as.pop(effect.call_id)
            if len(acknowledged) == wanted_before:
                server.kill()
    raw.close()
    server.start()
    found: Counter[str] = Counter()
    with server.connect() as qm, qm.open_queue(r".\private$\q", "peek") as queue:
        for message in queue:
            found[message.id] += 1
    server.terminate()
    assert len(acknowledged) >= wanted_before
    assert max(found.values()) == 1
    lost = [body for identifier, body in acknowledged.items() if not found[identifier]]
    assert not lost
