"""Stubs of every method with bytes changed, cut and added, in fragments of any size: each is answered, the connection
and
the server go on, and memory stays where it was."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.interop.conftest import ALLOWED_GROWTH
from tests.interop.rpc.conftest import Queue, RpcDaemon, login
from tests.interop.rpc.impacket_client import ImpacketPeer
from tests.interop.rpc.second_interfaces import INTERFACES, direct, object_format, send_buffer
from tests.interop.rpc.second_ndr import Method, To
from tests.interop.rpc.second_rpc import Connection, Credentials, Fault
from tests.interop.rpc.verbs import CONNECT, INTEGRITY, RECEIVE, SEND

ROUNDS_OF_A_CONNECTION = 40
EDGES = [0, 1, 2, 3, 0x7F, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
NAME = direct(r"OS:.\private$\mutated")
VALUES = [{"vt": 31, "varUnion": (31, "label")}, {"vt": 17, "varUnion": (17, 1)},
          {"vt": 0x101F, "varUnion": (0x101F, {"cElems": 2, "pElems": ["a", "b"]})},
          {"vt": 0x100C, "varUnion": (0x100C, {"cElems": 1, "pElems": [{"vt": 72, "varUnion": (72, bytes(16))}]})},
          {"vt": 65, "varUnion": (65, {"cbSize": 3, "pBlobData": b"abc"})}]  # fmt: skip


_names = itertools.count(1)


class Session:
    """A connection with things open, for requests that are right but for the mutation."""

    def __init__(self, server: RpcDaemon, wide: bool) -> None:
        self.path = rf".\private$\mutated{next(_names)}"
        self.name = direct("OS:" + self.path)
        who = login("alice")
        self.connection = Connection(server.address, 2103, credentials=Credentials(who.user, who.password, "", CONNECT))
        self.connection.bind("qmcomm", "qmcomm2").bind("qmmgmt").bind("qm2qm", "remote_read", wide=wide)
        call = self.connection.call
        made = {"dwObjectType": 1, "lpwcsPathName": self.path, "cp": 1, "aProp": [108], "apVar": VALUES[:1]}
        assert call("R_QMCreateObjectInternal", **made)["result"] == 0
        opened: dict[str, Any] = {"pQueueFormat": self.name, "lplpRemoteQueueName": To(None), "lpClientName": "m"}
        reader = call("rpc_QMOpenQueueInternal", **opened, dwDesiredAccess=RECEIVE)
        self.reader, self.context = reader["phQueue"], reader["pdwQMContext"]
        self.sender = call("rpc_QMOpenQueueInternal", **opened, dwDesiredAccess=SEND)["phQueue"]
        self.uow = os.urandom(16)
        self.transaction = call("R_QMEnlistInternalTransaction", pUow=self.uow)["phIntXact"]
        remote = call("R_QMOpenRemoteQueue", pQueueFormat=self.name, dwDesiredAccess=RECEIVE)
        self.remote, self.number = remote["pphContext"], remote["phQueue"]
        self.read = call("R_OpenQueue", pQueueFormat=self.name, dwAccess=RECEIVE, Major=6, fWorkgroup=1)["pphContext"]

    def valid(self, method: Method) -> dict[str, Any]:
        """Something for every parameter; what a field is not given is zero."""
        buffer = send_buffer(ppBody=b"body", ppTitle="t\0".encode("utf-16-le"), admin=self.name, response=self.name,
                             ulRelativeTimeToLive=60, ppCorrelationID=bytes(20), ppMsgExtension=b"ext",
                             pPriority=1, ppSenderCert=b"cert", ppConnectorType=bytes(16))  # fmt: skip
        if method.name in ("rpc_ACReceiveMessageEx",):
            arm = {"RequestTimeout": 1, "ppDestFormatName": bytes(200), "ulDestFormatNameLen": 100,
                   "pulDestFormatNameLenProp": 100}  # fmt: skip
            buffer = {"old": {**buffer["old"], "uTransferType": 1, "arm": (1, arm)}}
        given: dict[str, Any] = {
            "pQueueFormat": self.name, "pObjectFormat": object_format(self.name), "ptb": buffer, "ptb1": buffer["old"],
            "lpwcsPathName": r".\private$\mutated2", "cp": len(VALUES), "aProp": [108, 104, 103, 101, 125],
            "apVar": VALUES, "SDSize": 4, "pSecurityDescriptor": b"sdsd", "nLength": 100, "dwObjectType": 1,
            "lplpRemoteQueueName": To("name"), "lpClientName": "client", "dwDesiredAccess": RECEIVE,
            "dwAccess": RECEIVE,
            "hQueue": self.reader, "phQueue": self.reader, "hProxy": self.reader, "pphContext": self.read,
            "phContext": self.read, "phContextFrom": self.read, "phIntXact": self.transaction, "pUow": os.urandom(16),
            "hQMContext": self.context, "cbBufSize": 64, "cbCookie": 4, "pbCookie": b"cook", "pMessageID": bytes(20),
            "dwFormatNameRPCBufferLen": 40, "lpwcsFormatName": bytes(80), "pdwLength": 40, "dwQueryType": 1,
            "SecurityInformation": 4, "RequestedInformation": 7, "lpwszAction": "PAUSE", "dwAck": 1,
            "lpRemoteReadDesc": {"hRemoteQueue": self.number, "dwQueue": self.number},
            "lpRemoteReadDesc2": {"pRemoteReadDesc": {"hRemoteQueue": self.number, "dwQueue": self.number}},
            "cbPropagationToken": 3, "pbPropagationToken": b"tok", "pTransactionId": self.uow, "Major": 6,
        }  # fmt: skip
        if method.name in ("R_QMMgmtGetInfo", "R_QMMgmtAction"):
            given["pObjectFormat"] = {"type": 2, "object": (2, self.name)}
        if method.name == "rpc_ACSendMessageEx":
            given["hQueue"] = self.sender
        if method.name in ("RemoteQMCloseCursor", "RemoteQMCancelReceive", "RemoteQMPurgeQueue", "RemoteQMOpenQueue"):
            given |= {"hQueue": self.number, "pQueue": self.number, "dwpContext": self.number}
        if method.name == "R_QMCreateRemoteCursor":
            given["hQueue"] = self.number
        if method.name == "R_QMCloseRemoteQueueContext":
            given["pphContext"] = self.remote
        return {name: given[name] for name in method.request.fields if name in given}


def _change(chance: Random, stub: bytearray) -> None:
    if stub:
        stub[chance.randrange(len(stub))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _edge(chance: Random, stub: bytearray) -> None:
    if len(stub) >= 4:
        struct.pack_into("<I", stub, chance.randrange(len(stub) // 4) * 4, chance.choice(EDGES))


def _cut(chance: Random, stub: bytearray) -> None:
    del stub[chance.randrange(len(stub) + 1) :]


def _insert(chance: Random, stub: bytearray) -> None:
    at = chance.randrange(len(stub) + 1)
    stub[at:at] = chance.randbytes(chance.choice((1, 2, 4, 8, 100)))


def _swap(chance: Random, stub: bytearray) -> None:
    if len(stub) >= 8:
        one, two = (chance.randrange(len(stub) // 4) * 4 for _ in range(2))
        stub[one : one + 4], stub[two : two + 4] = stub[two : two + 4], stub[one : one + 4]


MUTATIONS: list[Callable[[Random, bytearray], None]] = [_change, _edge, _edge, _cut, _insert, _swap]


def storm(server: RpcDaemon, root: ImpacketPeer, seed: int, rounds: int) -> None:
    chance = Random(seed)
    methods = [(name, method) for name, interface in INTERFACES.items() for method in interface.methods]
    sequence = [methods[number % len(methods)] for number in range(rounds)]
    chance.shuffle(sequence)
    for start in range(0, rounds, ROUNDS_OF_A_CONNECTION):
        session = Session(server, wide=bool(start // ROUNDS_OF_A_CONNECTION % 2))
        with session.connection as connection:
            for name, method in sequence[start : start + ROUNDS_OF_A_CONNECTION]:
                stub = bytearray(method.request.encode(session.valid(method), connection.contexts[name][2]))
                for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
                    chance.choice(MUTATIONS)(chance, stub)
                connection.chunk = chance.choice((0, 0, 1, 3, 8, 17, 64, 500)) if len(stub) < 600 else 0
                connection.start(name, method.opnum, bytes(stub))  # it may wait for a message: its answer is not
                connection.chunk = 0
                try:
                    alive = connection.call("R_QMGetRTQMServerPort", fIP=0)["result"]
                except AssertionError as error:
                    raise AssertionError(f"{method.name} of {name} with {stub.hex()}: {error}") from error
                assert alive == 2103
        root.delete("direct:OS:" + session.path)  # it may be gone already


def run(server: RpcDaemon, seed: int, rounds: int) -> None:
    with (
        ImpacketPeer(server.address, login("alice", level=INTEGRITY)) as peer,
        ImpacketPeer(server.address, login("root", level=INTEGRITY)) as root,
    ):
        honest = Queue(peer, "honest")
        sender, reader = honest.open(SEND), honest.open(RECEIVE)
        storm(server, root, seed, ROUNDS_OF_A_CONNECTION * 2)  # what it needs anyway it has by now
        before, descriptors = server.memory(), server.descriptors()
        storm(server, root, seed + 1, rounds)
        assert server.memory() - before < ALLOWED_GROWTH
        assert server.descriptors() - descriptors < 20
        peer.send(sender, body=b"still here").ok()
        assert peer.receive(reader).ok()["message"].body == b"still here"
    complaints = [line for line in server.log.splitlines() if "level=error" in line or "Traceback" in line]
    assert not complaints, complaints[0]


@pytest.mark.spec("MP-015", "MP-016")
def test_every_method_survives_changed_stubs(server: RpcDaemon, seed: int) -> None:
    print(f"seed {seed}")
    run(server, seed, 2400)


@pytest.mark.torture
def test_a_hundred_thousand_changed_stubs_change_nothing(server: RpcDaemon, seed: int) -> None:
    print(f"seed {seed}")
    run(server, seed + 1000, 100_000)


@pytest.mark.spec("MP-016")
@pytest.mark.parametrize(("method", "values"), [
    ("R_QMGetObjectProperties", {"cp": 0, "aProp": [], "apVar": []}),
    ("R_QMGetObjectProperties", {"cp": 129, "aProp": [108] * 129, "apVar": VALUES[:1] * 129}),
    ("R_QMGetObjectProperties", {"cp": 2, "aProp": [108], "apVar": VALUES[:1]}),
    ("R_QMGetObjectSecurityInternal", {"nLength": 524289}),
    ("R_QMSetObjectSecurityInternal", {"SDSize": 524289, "pSecurityDescriptor": bytes(524289)}),
    ("R_QMSetObjectSecurityInternal", {"SDSize": 4, "pSecurityDescriptor": None}),
    ("R_QMGetTmWhereabouts", {"cbBufSize": 131073}),
    ("R_QMEnlistTransaction", {"cbCookie": 131073, "pbCookie": bytes(131073)}),
    ("R_QMSetObjectProperties", {"aProp": None}),
    ("rpc_QMOpenQueueInternal", {"pQueueFormat": {"m_qft": 9, "id": (9, None)}}),
    ("rpc_QMOpenQueueInternal", {"pQueueFormat": {"m_qft": 1, "id": (2, bytes(20))}}),
    ("rpc_QMOpenQueueInternal", {"lpClientName": b"x\0y\0"}),
])  # fmt: skip
def test_what_a_range_or_a_count_forbids_is_a_bad_stub(
    server: RpcDaemon, method: str, values: dict[str, Any]
) -> None:
    with ImpacketPeer(server.address, login("root", level=CONNECT)) as peer:
        if peer.find(r".\private$\mutated").code:
            Queue(peer, "mutated")
        valid = {"pQueueFormat": NAME, "pObjectFormat": object_format(NAME), "dwDesiredAccess": RECEIVE, "cp": 1,
                 "aProp": [108], "apVar": VALUES[:1], "lpClientName": "c", "lplpRemoteQueueName": To(None)}  # fmt: skip
        fields = INTERFACES["qmcomm"][method].request.fields
        given = {name: value for name, value in {**valid, **values}.items() if name in fields}
        with pytest.raises(Fault) as found:
            peer.connection.call(method, **given)
        assert found.value.status in (0x6F7, 0x1C000006), hex(found.value.status)
