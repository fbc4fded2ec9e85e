"""Queues of other queue managers, from outside: the steps of [MS-MQMP] 4.2 through a supporting server, and remote
reads
of [MS-MQQP] and [MS-MQRR] by scapy and the second peer, in NDR and NDR64. Kills lose and double nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.daemon import eventually
from tests.interop.rpc.conftest import PASSWORDS, Queue, RpcDaemon, login, serve
from tests.interop.rpc.impacket_client import ImpacketPeer, format_of
from tests.interop.rpc.scapy_client import ScapyClient, handle_of
from tests.interop.rpc.second_interfaces import REMOTE_READ, direct
from tests.interop.rpc.second_ndr import To
from tests.interop.rpc.second_rpc import Connection, Credentials, Fault
from tests.interop.rpc.verbs import CONNECT, INTEGRITY, PEEK, PEEK_CURRENT, PEEK_NEXT, RECEIVE, SEND, Opened
from tests.interop.rpc.wine_client import WineClient, quoted

SETTINGS: dict[str, Any] = {"rpc.anonymous": "allow"}
ACK, NACK = 2, 1
LOOKUP_PEEK = 0x40000010
MOVE = 4  # dwAccess of R_OpenQueueForMove
NO_MESSAGE, CANCELLED = 0xC00E001B, 0x400E03E9
EVERYONE_ALL = bytes.fromhex("0100048000000000000000000000000014000000") + bytes.fromhex(
    "02001c000100000000001400ff010f00010100000000000100000000")  # fmt: skip


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDaemon]:
    """Where the queues are; everybody may read them."""
    with serve(tmp_path_factory.mktemp("far"), SETTINGS) as daemon:
        yield daemon
    assert "Traceback" not in daemon.log, daemon.log


def filled(daemon: RpcDaemon, name: str, count: int, delivery: int = 1) -> Queue:
    """Recoverable messages b"0", b"1", ..."""
    with ImpacketPeer(daemon.address, login("root", level=INTEGRITY)) as peer:
        queue = Queue(peer, name)
        peer.set_security(queue.direct, 4, EVERYONE_ALL).ok()
        sender = queue.open(SEND)
        for number in range(count):
            peer.send(sender, body=b"%d" % number, label=f"number {number}", delivery=delivery).ok()
    return queue


# Old remote reads: MS-MQQP


class OldReader:
    """The steps of a remote read of [MS-MQQP] 3.2: open at the far server over qmcomm, then qm2qm."""

    def __init__(self, daemon: RpcDaemon, name: str, wide: bool = True, access: int = RECEIVE,
                 user: str = "alice") -> None:
        who = Credentials(user, PASSWORDS[user], "", CONNECT)
        self.opener = Connection(daemon.address, 2103, credentials=who).bind("qmcomm")
        self.connection = Connection(daemon.address, 2105, credentials=who).bind("qm2qm", wide=wide)
        opened = self.opener.call("R_QMOpenRemoteQueue", pQueueFormat=direct(rf"OS:.\private$\{name}"),
                                  dwDesiredAccess=access)  # fmt: skip
        assert opened["result"] == 0, hex(opened["result"])
        self.number, self.context, self.queue = opened["phQueue"], opened["pdwContext"], opened["dwpQueue"]
        found = self.connection.call("RemoteQMOpenQueue", hQueue=self.number, pQueue=self.queue,
                                     dwpContext=self.context)
        assert found["result"] == 0, hex(found["result"])
        self.session = found["phContext"]
        assert self.opener.call("R_QMCloseRemoteQueueContext",
                                pphContext=opened["pphContext"])["pphContext"] == bytes(20)
        self.requests = 0

    def start(self, action: int = 0, timeout: int = 0, cursor: int = 0) -> int:
        self.requests += 1
        return self.connection.begin("RemoteQMStartReceive", lpRemoteReadDesc={
            "hRemoteQueue": self.number, "dwQueue": self.queue, "ulAction": action, "ulTimeout": timeout,
            "hCursor": cursor, "dwRequestID": self.requests})  # fmt: skip

    def finish(self, call: int) -> tuple[int, bytes, bytes]:
        found = self.connection.complete(call, "RemoteQMStartReceive")
        return found["result"], found["lpRemoteReadDesc"]["lpBuffer"] or b"", found["pphContext"]

    def read(self, action: int = 0, **values: int) -> tuple[int, bytes, bytes]:
        return self.finish(self.start(action, **values))

    def end(self, handle: bytes, word: int) -> int:
        found = self.connection.call("RemoteQMEndReceive", pphContext=handle, dwAck=word)
        assert found["pphContext"] == bytes(20)
        return int(found["result"])

    def close(self) -> None:
        self.connection.close()
        self.opener.close()


@pytest.mark.spec("MP-080", "MP-090", "MP-092", "MP-093", "MP-096")
@pytest.mark.parametrize("wide", [False, True])
def test_an_old_remote_read_takes_what_it_acknowledges(server: RpcDaemon, queue_name: str, wide: bool) -> None:
    filled(server, queue_name, 3)
    reader = OldReader(server, queue_name, wide)
    code, packet, handle = reader.read(PEEK_CURRENT)
    assert code == 0 and packet[4:8] == b"LIOR" and handle == bytes(20)
    code, packet, handle = reader.read()
    assert code == 0 and handle != bytes(20) and "number 0".encode("utf-16-le") in packet
    assert reader.end(handle, NACK) == 0
    code, packet, handle = reader.read()
    assert "number 0".encode("utf-16-le") in packet
    assert reader.end(handle, ACK) == 0
    assert server.bodies(queue_name) == [b"1", b"2"]
    with pytest.raises(Fault):
        reader.end(handle, ACK)
    found = reader.connection.call("RemoteQMPurgeQueue", hQueue=reader.number)
    assert found["result"] == 0 and server.count(queue_name) == 0
    assert reader.read()[0] == NO_MESSAGE
    closed = reader.connection.call("RemoteQMCloseQueue", pphContext=reader.session)
    assert closed == {"pphContext": bytes(20), "result": 0}
    reader.close()


@pytest.mark.spec("MP-097")
def test_a_cursor_for_old_remote_reads(server: RpcDaemon, queue_name: str) -> None:
    filled(server, queue_name, 3)
    reader = OldReader(server, queue_name)
    found = reader.opener.call("R_QMCreateRemoteCursor", ptb1={"uTransferType": 0, "arm": (0, {})},
                               hQueue=reader.number)
    assert found["result"] == 0
    cursor = found["phCursor"]
    labels = []
    for action in (PEEK_CURRENT, PEEK_NEXT, PEEK_NEXT):
        code, packet, _ = reader.read(action, cursor=cursor)
        assert code == 0
        labels += [number for number in range(3) if f"number {number}".encode("utf-16-le") in packet]
    assert labels == [0, 1, 2]
    assert reader.connection.call("RemoteQMCloseCursor", hQueue=reader.number, hCursor=cursor)["result"] == 0
    assert reader.read(PEEK_CURRENT, cursor=cursor)[0] & 0x80000000
    reader.close()


@pytest.mark.parametrize("wide", [False, True])
def test_a_waiting_old_read_is_cancelled(server: RpcDaemon, queue_name: str, wide: bool) -> None:
    filled(server, queue_name, 0)
    reader = OldReader(server, queue_name, wide)
    waiting = reader.start(timeout=600_000)
    found = reader.connection.call("RemoteQMCancelReceive", hQueue=reader.number, pQueue=reader.queue, dwRequestID=1)
    assert found["result"] == 0
    assert reader.finish(waiting)[0] == CANCELLED
    reader.close()


def test_a_message_handed_out_comes_back_when_its_reader_goes(server: RpcDaemon, queue_name: str) -> None:
    filled(server, queue_name, 2)
    reader = OldReader(server, queue_name)
    assert reader.read()[0] == 0
    assert reader.read(PEEK_CURRENT)[0] == 0
    reader.connection.reset()
    reader.close()
    eventually(lambda: server.bodies(queue_name) == [b"0", b"1"], what="the message is back")


@pytest.mark.parametrize("wide", [False, True])
def test_scapy_reads_from_afar_the_old_way(server: RpcDaemon, queue_name: str, wide: bool) -> None:
    filled(server, queue_name, 1)
    reader = OldReader(server, queue_name)  # opens; scapy reads with the numbers it got
    with ScapyClient(server.address, "qm2qm", port=2105, wide=wide, user="alice", password=PASSWORDS["alice"],
                     level=CONNECT) as scapy:  # fmt: skip
        version = scapy.stub("RemoteQmGetVersion")  # scapy-rpc expects a status, which a void method has not
        assert len(version) == 4 and version[0] >= 5
        assert scapy.call("RemoteQMGetQMQMServerPort", dwPortType=1).status in (0, 2105)
        second = reader.opener.call("R_QMOpenRemoteQueue", pQueueFormat=direct(rf"OS:.\private$\{queue_name}"),
                                    dwDesiredAccess=RECEIVE)  # fmt: skip
        opened = scapy.call("RemoteQMOpenQueue", pLicGuid=scapy.make("GUID"), dwMQS=0, hQueue=second["phQueue"],
                            pQueue=second["dwpQueue"], dwpContext=second["pdwContext"])  # fmt: skip
        assert opened.status == 0
        descriptor = scapy.make("REMOTEREADDESC", hRemoteQueue=second["phQueue"], dwQueue=second["dwpQueue"], dwSize=0,
                                lpBuffer=None, dwRequestID=1)  # fmt: skip
        answer = scapy.call("RemoteQMStartReceive", lpRemoteReadDesc=descriptor)
        assert answer.status == 0 and answer.lpRemoteReadDesc.dwSize > 100
        ended = scapy.call("RemoteQMEndReceive", pphContext=scapy.handle(handle_of(answer.pphContext)), dwAck=ACK)
        assert ended.status == 0 and server.count(queue_name) == 0
    reader.close()


@pytest.mark.spec("MP-099")
def test_the_numbers_of_an_old_remote_read_are_worth_nothing_to_others(server: RpcDaemon, queue_name: str) -> None:
    """They are bare numbers: the user who opened, on the host that opened, and nobody else."""
    filled(server, queue_name, 1)
    reader, other = OldReader(server, queue_name), OldReader(server, queue_name, user="bob")
    cursor = reader.opener.call("R_QMCreateRemoteCursor", ptb1={"arm": (0, {})}, hQueue=reader.number)["phCursor"]
    waiting = reader.start(timeout=600_000, action=PEEK_NEXT, cursor=cursor)
    assert reader.finish(waiting)[0] & 0x80000000  # it has not peeked yet
    own, other.number, other.queue = (other.number, other.queue), reader.number, reader.queue
    for action in (0, PEEK_CURRENT):
        code, packet, handle = other.read(action)
        assert code & 0x80000000 and not packet and handle == bytes(20)
    for method, values in (
        ("RemoteQMPurgeQueue", {"hQueue": reader.number}),
        ("RemoteQMCloseCursor", {"hQueue": reader.number, "hCursor": cursor}),
        ("RemoteQMCancelReceive", {"hQueue": reader.number, "pQueue": reader.queue, "dwRequestID": 1}),
        ("RemoteQMOpenQueue", {"hQueue": reader.number, "pQueue": reader.queue, "dwpContext": reader.context}),
    ):
        assert other.connection.call(method, **values)["result"] & 0x80000000, method
    other.number, other.queue = own
    code, _, handle = reader.read()
    assert code == 0
    with pytest.raises(Fault):
        other.end(handle, ACK)
    assert reader.end(handle, ACK) == 0 and server.count(queue_name) == 0
    reader.close()
    other.close()


@pytest.mark.spec("MP-099")
def test_a_cursor_for_remote_reads_needs_a_queue_opened_for_them(server: RpcDaemon, queue_name: str) -> None:
    queue = filled(server, queue_name, 1)
    with ImpacketPeer(server.address, login("alice", level=INTEGRITY)) as peer:
        local = peer.open(queue.direct, RECEIVE).ok()["queue"]
        for number in (local.context, 0, 1, 0xFFFFFFFF):
            found = peer.call("R_QMCreateRemoteCursor", ptb1={"arm": (0, {})}, hQueue=number)
            assert found.code & 0x80000000 and found["phCursor"] == 0


# New remote reads: MS-MQRR


class NewReader:
    def __init__(self, daemon: RpcDaemon, name: str, wide: bool = True, access: int = RECEIVE,
                 user: str = "alice") -> None:
        who = Credentials(user, PASSWORDS[user], "", CONNECT)
        self.connection = Connection(daemon.address, 2103, credentials=who).bind("remote_read", wide=wide)
        self.handle = self.connection.call(
            "R_OpenQueue", pQueueFormat=direct(rf"OS:.\private$\{name}"), dwAccess=access, pClientId=os.urandom(16),
            Major=6, Minor=1, BuildNumber=7600, fWorkgroup=1)["pphContext"]  # fmt: skip
        self.requests = 0

    def start(self, action: int = 0, timeout: int = 0, cursor: int = 0, lookup: int = 0, body: int = 1 << 22) -> int:
        self.requests += 1
        return self.connection.begin(
            "R_StartReceive", phContext=self.handle, LookupId=lookup, hCursor=cursor, ulAction=action,
            ulTimeout=timeout, dwRequestId=self.requests, dwMaxBodySize=body,
            dwMaxCompoundMessageSize=body)  # fmt: skip

    def finish(self, call: int) -> dict[str, Any]:
        return self.connection.complete(call, "R_StartReceive")

    def read(self, action: int = 0, **values: int) -> dict[str, Any]:
        return self.finish(self.start(action, **values))

    def end(self, word: int, request: int = 0) -> int:
        found = self.connection.call("R_EndReceive", phContext=self.handle, dwAck=word,
                                     dwRequestId=request or self.requests)
        return int(found["result"])

    def close(self) -> None:
        self.connection.close()


def label_in(found: dict[str, Any], number: int) -> bool:
    packet = b"".join(section["pSectionBuffer"] for section in found["ppPacketSections"])
    return f"number {number}".encode("utf-16-le") in packet


@pytest.mark.parametrize("wide", [False, True])
def test_a_new_remote_read_takes_what_it_acknowledges(server: RpcDaemon, queue_name: str, wide: bool) -> None:
    filled(server, queue_name, 3)
    reader = NewReader(server, queue_name, wide)
    assert reader.connection.call("R_GetServerPort")["result"] == 2103
    peeked = reader.read(PEEK_CURRENT)
    assert peeked["result"] == 0 and label_in(peeked, 0) and peeked["ppPacketSections"][0]["SectionBufferType"] in (0,
                                                                                                                    1)
    taken = reader.read()
    assert taken["result"] == 0 and taken["pSequenceId"] == peeked["pSequenceId"]
    assert reader.end(NACK) == 0
    again = reader.read()
    assert label_in(again, 0) and reader.end(ACK) == 0
    assert reader.end(ACK) & 0x80000000
    assert server.bodies(queue_name) == [b"1", b"2"]
    cursor = reader.connection.call("R_CreateCursor", phContext=reader.handle)["phCursor"]
    assert label_in(reader.read(PEEK_CURRENT, cursor=cursor), 1) and label_in(reader.read(PEEK_NEXT, cursor=cursor), 2)
    assert reader.connection.call("R_CloseCursor", phContext=reader.handle, hCursor=cursor)["result"] == 0
    assert reader.connection.call("R_PurgeQueue", phContext=reader.handle)["result"] == 0
    assert reader.read()["result"] == NO_MESSAGE and server.count(queue_name) == 0
    closed = reader.connection.call("R_CloseQueue", pphContext=reader.handle)
    assert closed == {"pphContext": bytes(20), "result": 0}
    reader.close()


def test_a_waiting_new_read_is_cancelled_and_takes_nothing(server: RpcDaemon, queue_name: str) -> None:
    queue = filled(server, queue_name, 0)
    reader = NewReader(server, queue_name)
    waiting = reader.start(timeout=600_000)
    assert reader.connection.call("R_CancelReceive", phContext=reader.handle, dwRequestId=1)["result"] == 0
    assert reader.finish(waiting)["result"] & 0x80000000
    second = reader.start(timeout=600_000)
    with ImpacketPeer(server.address, login("root", level=INTEGRITY)) as peer:
        peer.send(queue.open(SEND, peer=peer), body=b"x", label="number 7").ok()
        assert label_in(reader.finish(second), 7) and reader.end(ACK) == 0
    assert server.count(queue_name) == 0
    reader.close()


@pytest.mark.parametrize("wide", [False, True])
def test_messages_move_into_a_subqueue_and_back(server: RpcDaemon, queue_name: str, wide: bool) -> None:
    filled(server, queue_name, 2)
    reader = NewReader(server, queue_name, wide)
    call = reader.connection.call
    subqueue = format_of(rf"subqueue:OS:.\private$\{queue_name};later@0x5")
    opened = {"dwAccess": MOVE, "pClientId": os.urandom(16), "Major": 6, "Minor": 1, "fWorkgroup": 1}
    there = call("R_OpenQueueForMove", pQueueFormat=subqueue, **opened)
    back = call("R_OpenQueueForMove", pQueueFormat=format_of(rf"direct:OS:.\private$\{queue_name}"), **opened)
    with server.qm.open_queue(rf".\private$\{queue_name}", "peek") as looked_at:
        first = next(iter(looked_at)).lookup_identifier
    assert reader.read(PEEK_CURRENT)["pSequenceId"] == first & (1 << 56) - 1
    assert label_in(reader.read(LOOKUP_PEEK, lookup=first), 0)
    thief = NewReader(server, queue_name, wide, user="bob")
    stolen = thief.connection.call("R_MoveMessage", phContextFrom=thief.handle, ullContextTo=there["pMoveContext"],
                                   LookupId=first)  # fmt: skip
    assert stolen["result"] & 0x80000000 and server.count(queue_name) == 2
    thief.close()
    moved = call("R_MoveMessage", phContextFrom=reader.handle, ullContextTo=there["pMoveContext"], LookupId=first)
    assert moved["result"] == 0 and server.bodies(queue_name) == [b"1"]
    again = call("R_MoveMessage", phContextFrom=reader.handle, ullContextTo=there["pMoveContext"], LookupId=first)
    assert again["result"] & 0x80000000
    forged = call("R_MoveMessage", phContextFrom=reader.handle, ullContextTo=there["pMoveContext"] ^ 1, LookupId=first)
    assert forged["result"] & 0x80000000
    from_there = call("R_OpenQueue", pQueueFormat=subqueue, **{**opened, "dwAccess": RECEIVE})["pphContext"]
    returned = call("R_MoveMessage", phContextFrom=from_there, ullContextTo=back["pMoveContext"], LookupId=first)
    assert returned["result"] == 0 and sorted(server.bodies(queue_name)) == [b"0", b"1"]
    reader.close()


def test_transactional_remote_reads_need_a_coordinator(server: RpcDaemon, queue_name: str) -> None:
    filled(server, queue_name, 1)
    reader = NewReader(server, queue_name)
    uow = os.urandom(16)
    enlisted = reader.connection.call("R_QMEnlistRemoteTransaction", pTransactionId=uow, cbPropagationToken=4,
                                      pbPropagationToken=b"tokn", pQueueFormat=direct(r"OS:.\private$\x"))  # fmt: skip
    assert enlisted["result"] & 0x80000000
    started = reader.connection.call("R_StartTransactionalReceive", phContext=reader.handle, dwRequestId=9,
                                     dwMaxBodySize=100, dwMaxCompoundMessageSize=100, pTransactionId=uow)  # fmt: skip
    assert started["result"] & 0x80000000 and started["ppPacketSections"] is None
    ended = reader.connection.call("R_EndTransactionalReceive", phContext=reader.handle, dwAck=ACK, dwRequestId=9)
    assert ended["result"] & 0x80000000
    refused = reader.connection.call("R_SetUserAcknowledgementClass", phContext=reader.handle, LookupId=1,
                                     usClass=0xC004)
    assert refused["result"] & 0x80000000
    assert server.bodies(queue_name) == [b"0"]
    reader.close()


@pytest.mark.parametrize("thief", ["bob", "alice"])
def test_a_remote_reader_cannot_end_what_another_started(server: RpcDaemon, queue_name: str, thief: str) -> None:
    filled(server, queue_name, 1)
    reader, other = NewReader(server, queue_name), NewReader(server, queue_name, user=thief)
    assert reader.read()["result"] == 0
    with pytest.raises(Fault):
        other.connection.call("R_EndReceive", phContext=reader.handle, dwAck=ACK, dwRequestId=1)
    assert other.end(ACK, request=1) & 0x80000000
    assert reader.end(ACK) == 0
    reader.close()
    other.close()


@pytest.mark.parametrize("wide", [False, True])
def test_scapy_reads_from_afar_the_new_way(server: RpcDaemon, queue_name: str, wide: bool) -> None:
    filled(server, queue_name, 1)
    with ScapyClient(server.address, "RemoteRead", wide=wide, user="alice", password=PASSWORDS["alice"],
                     level=INTEGRITY) as scapy:  # fmt: skip
        assert scapy.call("R_GetServerPort").status == 2103
        given = {"pQueueFormat": format_of(rf"direct:OS:.\private$\{queue_name}"), "dwAccess": RECEIVE, "Major": 6,
                 "fWorkgroup": 1}  # fmt: skip
        request = scapy.module.R_OpenQueue_Request(REMOTE_READ["R_OpenQueue"].request.encode(given, wide), ndr64=wide)
        handle = scapy.stub("R_OpenQueue", **{name: request.getfieldval(name) for name in request.fields})[:20]
        assert any(handle)
        found = REMOTE_READ["R_StartReceive"].response.decode(scapy.stub(
            "R_StartReceive", phContext=scapy.handle(handle), LookupId=0, hCursor=0, ulAction=0, ulTimeout=0,
            dwRequestId=1, dwMaxBodySize=1 << 20, dwMaxCompoundMessageSize=1 << 20), wide)  # fmt: skip
        assert found["result"] == 0 and label_in(found, 0)
        assert scapy.call("R_EndReceive", phContext=scapy.handle(handle), dwAck=ACK, dwRequestId=1).status == 0
        assert server.count(queue_name) == 0


# Through a supporting server: [MS-MQMP] 4.2


def open_through(peer: ImpacketPeer, middle: RpcDaemon, far: RpcDaemon, name: str, access: int = RECEIVE) -> Opened:
    """The client's part of 4.2: a hint, the far server's numbers, and the supporting server again."""
    queue = direct(rf"TCP:{far.address}\private$\{name}")
    hint = peer.call("rpc_QMOpenQueueInternal", pQueueFormat=queue, dwDesiredAccess=access,
                     lplpRemoteQueueName=To(None),
                     lpClientName="second").ok()  # fmt: skip
    assert hint["lplpRemoteQueueName"] and hint["phQueue"] == bytes(20)
    who = login("alice", level=INTEGRITY)
    with ImpacketPeer(far.address, who) as at_far:
        remote = at_far.call("R_QMOpenRemoteQueue", pQueueFormat=queue, dwDesiredAccess=access).ok()
        found = peer.call("rpc_QMOpenQueueInternal", pQueueFormat=queue, dwDesiredAccess=access,
                          lplpRemoteQueueName=To(None),
                          lpClientName="second", hRemoteQueue=remote["phQueue"], dwpQueue=remote["dwpQueue"],
                          dwpRemoteContext=remote["pdwContext"]).ok()  # fmt: skip
        at_far.call("R_QMCloseRemoteQueueContext", pphContext=remote["pphContext"]).ok()
    assert found["lplpRemoteQueueName"] is None
    return Opened(found["phQueue"], found["phQueue"], found["pdwQMContext"])


@pytest.fixture
def client(server: RpcDaemon) -> Iterator[ImpacketPeer]:
    with ImpacketPeer(server.address, login("alice", level=INTEGRITY)) as peer:
        yield peer


@pytest.mark.spec("MP-197", "MP-134", "MP-141", "MP-171", "MP-178")
def test_a_queue_of_another_server_is_read_through_ours(
    server: RpcDaemon, far: RpcDaemon, client: ImpacketPeer, queue_name: str
) -> None:
    filled(far, queue_name, 3)
    opened = open_through(client, server, far, queue_name)
    cursor = client.cursor(opened).ok()["cursor"]
    assert client.receive(opened, PEEK_CURRENT, cursor=cursor).ok()["message"].body == b"0"
    assert client.receive(opened, PEEK_NEXT, cursor=cursor).ok()["message"].body == b"1"
    client.close_cursor(opened, cursor).ok()
    short = client.receive(opened, body=0)
    assert short.code == 0xC00E001A
    assert client.receive(opened).ok()["message"].body == b"0"
    eventually(lambda: far.bodies(queue_name) == [b"1", b"2"], what="taken there")
    assert client.receive(opened, uow=os.urandom(16)).code & 0x80000000
    client.purge(opened).ok()
    assert far.count(queue_name) == 0
    assert client.receive(opened, timeout=300).code == NO_MESSAGE
    client.close_queue(opened).ok()


@pytest.mark.spec("MP-197")
def test_wine_reads_a_queue_of_another_server_through_ours(
    server: RpcDaemon, far: RpcDaemon, wine: WineClient, queue_name: str
) -> None:
    filled(far, queue_name, 2)
    name = "direct:" + quoted(rf"TCP:{far.address}\private$\{queue_name}")
    signed = {"service": 10, "level": INTEGRITY, "user": "alice", "password": quoted(PASSWORDS["alice"])}
    wine("bind", host=server.address, port=2103, **{"as": "near"}, **signed).ok()
    wine("bind", host=far.address, port=2103, **{"as": "far"}, **signed).ok()
    hint = wine("open", binding="near", name=name, access=RECEIVE, **{"as": "hint"}).ok()
    assert hint.text("remote").lower().endswith(rf"private$\{queue_name}")
    assert wine("port", binding="far", which=0).result == 2103
    remote = wine("open_remote", binding="far", name=name, access=RECEIVE, **{"as": "remote"}).ok()
    opened = wine("open", binding="near", name=name, access=RECEIVE, remote_queue=remote.number("remote_queue"),
                  queue=remote.number("queue"), remote_context=remote.number("context"),
                  **{"as": "through"}).ok()  # fmt: skip
    wine("close_remote", handle="remote").ok()
    for number in range(2):
        found = wine("receive", binding="near", context=opened.number("context"), body=100, label=100).ok()
        assert found.bytes("body")[: found.number("body_length")] == b"%d" % number
    assert wine("receive", binding="near", context=opened.number("context"), body=100).result == NO_MESSAGE
    wine("close", handle="through").ok()
    assert far.count(queue_name) == 0


@pytest.mark.spec("MP-134")
def test_a_far_server_that_is_not_there_is_an_error(server: RpcDaemon, client: ImpacketPeer) -> None:
    name = direct(r"TCP:127.250.250.250\private$\q")
    found = client.call("rpc_QMOpenQueueInternal", pQueueFormat=name, dwDesiredAccess=RECEIVE,
                        lplpRemoteQueueName=To(None),
                        lpClientName="x", hRemoteQueue=5, dwpQueue=5, dwpRemoteContext=5)  # fmt: skip
    assert found.code & 0x80000000
    assert client.port(0) == 2103


@pytest.mark.parametrize("victim", ["client", "middle", "far"])
def test_kills_during_remote_reads_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, victim: str, wine: WineClient
) -> None:
    """Every message is read once, or is still there: what the client was given it had, however it ended."""
    middle = serve(tmp_path_factory.mktemp("middle"), SETTINGS)
    far = serve(tmp_path_factory.mktemp("far"), SETTINGS)
    middle.start()
    far.start()
    total, read = 60, []
    try:
        filled(far, "kills", total)
        for round_number in range(4):
            with ImpacketPeer(middle.address, login("alice", level=INTEGRITY)) as client:
                opened = open_through(client, middle, far, "kills")
                for _ in range(5):
                    read.append(client.receive(opened).ok()["message"].body)
                pending = client.start_receive(opened)
                if victim == "client":
                    client.connection.reset()
                else:
                    daemon = middle if victim == "middle" else far
                    daemon.kill()
                    try:
                        outcome = client.finish_receive(pending)
                        if outcome.code == 0:
                            read.append(outcome["message"].body)
                    except AssertionError:
                        pass  # the answer was lost with the server
                    daemon.start()
            assert round_number < 4
        eventually(lambda: len(set(far.bodies("kills"))) + len(set(read)) >= total - 4, what="all are somewhere")
        left = far.bodies("kills")
        assert len(left) == len(set(left)) and len(read) == len(set(read))
        assert not set(left) & set(read), "a message that was read is there again"
        missing = {b"%d" % number for number in range(total)} - set(left) - set(read)
        assert len(missing) <= 4, missing  # at most the one whose answer was on its way, each round
    finally:
        for daemon in (middle, far):
            if daemon.running:
                daemon.terminate()


def test_exclusive_reading_ends_with_the_far_reader(server: RpcDaemon, far: RpcDaemon, queue_name: str) -> None:
    filled(far, queue_name, 1)
    reader = NewReader(far, queue_name, access=PEEK)
    assert reader.read(PEEK_CURRENT)["result"] == 0
    assert reader.read()["result"] & 0x80000000  # opened to peek only
    reader.close()
