"""Who somebody is, from outside: NTLM and SPNEGO of four implementations at all levels, and what must not pass."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from impacket.dcerpc.v5 import transport
from impacket.uuid import uuidtup_to_bin

from lior import embedded
from tests.interop.rpc.conftest import PASSWORDS, Queue, RpcDaemon, login
from tests.interop.rpc.impacket_client import ImpacketPeer, format_of
from tests.interop.rpc.scapy_client import Faulted, ScapyClient
from tests.interop.rpc.second_interfaces import QMCOMM, direct
from tests.interop.rpc.second_ndr import To
from tests.interop.rpc.second_rpc import (
    AUTH3,
    BIND,
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
from tests.interop.rpc.verbs import (
    CALL,
    CONNECT,
    INTEGRITY,
    NONE,
    NTLM,
    PACKET,
    PRIVACY,
    RECEIVE,
    SEND,
    SPNEGO,
    Login,
    Outcome,
    Peer,
)
from tests.interop.rpc.wine_client import WineClient
from tests.interop.rpc.wine_peer import WinePeer

DENIED = 5  # fault status: nca_s_fault_access_denied as Windows says it ([MS-RPCE] 3.3.3.5.2)
WINE_DENIED = (5, 0x721, 0x6F7, 0x6BE, 0x6BF)  # what its runtime makes of a refused connection or call
LEVELS = [CONNECT, CALL, PACKET, INTEGRITY, PRIVACY]


@pytest.fixture(scope="module")
def queue(server: RpcDaemon) -> Queue:
    with ImpacketPeer(server.address, login("root", level=INTEGRITY)) as peer:
        return Queue(peer, "signing")


def exchange(peer: Peer, queue: Queue, server: RpcDaemon, size: int = 10_000) -> None:
    """A message there and back."""
    body = b"s" * size
    sender, reader = queue.open(SEND, peer=peer), queue.open(RECEIVE, peer=peer)
    peer.send(sender, body=body, label="signed").ok()
    found = peer.receive(reader, body=size).ok()["message"]
    assert (found.body, found.label) == (body, "signed")
    peer.close_queue(sender).ok()
    peer.close_queue(reader).ok()


@pytest.mark.spec("MP-023")
@pytest.mark.parametrize("service", [NTLM, SPNEGO])
@pytest.mark.parametrize("level", [CONNECT, INTEGRITY, PRIVACY])
def test_wine_signs_in(server: RpcDaemon, wine: WineClient, queue: Queue, service: int,
                                      level: int) -> None:
    peer = WinePeer(wine, server.address, login("root", service=service, level=level))
    exchange(peer, queue, server)
    peer.close()


@pytest.mark.parametrize("service", [NTLM, SPNEGO])
def test_packets_that_ought_to_be_signed_and_are_not_are_refused(
    server: RpcDaemon, wine: WineClient, queue: Queue, service: int
) -> None:
    """At the level PACKET Wine's runtime signs nothing, as the tables of [MS-RPCE] 3.3.1.5.2.2 have it; Samba does."""
    peer = WinePeer(wine, server.address, login("root", service=service, level=PACKET))
    assert peer.open(queue.direct, SEND).code in WINE_DENIED
    peer.close()


@pytest.mark.spec("MP-023")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("chunk", [0, 1, 13, 100, 1431])
def test_the_second_peer_signs_in_and_cuts_as_it_likes(server: RpcDaemon, queue: Queue, level: int, chunk: int) -> None:
    with ImpacketPeer(server.address, login("root", level=level), chunk=chunk) as peer:
        exchange(peer, queue, server, 300 if chunk == 1 else 20_000)


@pytest.mark.spec("MP-023")
@pytest.mark.parametrize("level", [CONNECT, INTEGRITY, PRIVACY])
@pytest.mark.parametrize("fragment", [0, 1432, 3000])
def test_impackets_own_transport_signs_in(server: RpcDaemon, level: int, fragment: int) -> None:
    rpc = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{server.address}[2103]")
    rpc.set_credentials("alice", PASSWORDS["alice"])
    dce = rpc.get_dce_rpc()
    dce.set_auth_level(level)
    dce.connect()
    dce.bind(uuidtup_to_bin((QMCOMM.uuid, "1.0")))
    if fragment:
        dce.set_max_fragment_size(fragment)
    method = QMCOMM["rpc_QMOpenQueueInternal"]
    name = direct(r"OS:.\private$\signing")
    dce.call(19, method.request.encode({"pQueueFormat": name, "dwDesiredAccess": SEND, "lpClientName": "c" * 3000,
                                        "lplpRemoteQueueName": To(None)}))  # fmt: skip
    found = method.response.decode(dce.recv())
    assert found["result"] == 0 and any(found["phQueue"])
    dce.disconnect()


@pytest.mark.spec("MP-023", "MP-014")
@pytest.mark.parametrize(
    ("level", "spnego"),
    [(CONNECT, False), (INTEGRITY, False), (INTEGRITY, True), (PRIVACY, False), (PRIVACY, True)],
)  # scapy encrypts the mechListMIC also where no key was exchanged, against [MS-NLMP] 3.4.4.2: no SPNEGO at CONNECT
def test_scapy_signs_in_with_a_verification_trailer(server: RpcDaemon, spnego: bool, level: int) -> None:
    with ScapyClient(server.address, "qmcomm", user="alice", password=PASSWORDS["alice"], level=level,
                     spnego=spnego) as one:
        assert one.call("R_QMGetRTQMServerPort", fIP=1).status == 2105
        answer = one.call("R_QMQueryQMRegistryInternal", dwQueryType=1)
        assert answer.status == 0


@pytest.mark.spec("MP-009", "MP-010")
def test_nobody_may_only_ask_for_the_port(server: RpcDaemon, wine: WineClient, queue: Queue) -> None:
    with ImpacketPeer(server.address) as nobody:
        assert nobody.port(0) == 2103
        assert nobody.registry(1).code == DENIED
        assert nobody.open(queue.direct, SEND).code == DENIED
        assert nobody.create(r".\private$\nobodys", {108: "wstr:x"}).code == DENIED
    peer = WinePeer(wine, server.address)
    assert peer.port(0) == 2103 and peer.open(queue.direct, SEND).code in WINE_DENIED
    with ScapyClient(server.address, "qmcomm") as one:
        assert one.call("R_QMGetRTQMServerPort", fIP=0).status == 2103
        with pytest.raises(Faulted):
            one.call("R_QMQueryQMRegistryInternal", dwQueryType=1)


def refused(server: RpcDaemon, who: Login) -> None:
    """Nothing is done for them; and they learn no more than that."""
    try:
        with ImpacketPeer(server.address, who) as peer:
            outcome = peer.registry(1)
    except (Gone, Refused, Fault) as error:
        outcome = Outcome(getattr(error, "status", DENIED))
    assert outcome.code == DENIED, hex(outcome.code)


@pytest.mark.spec("MP-008")
@pytest.mark.parametrize("level", LEVELS)
def test_wrong_passwords_and_names_open_nothing(server: RpcDaemon, level: int) -> None:
    refused(server, Login("dave", "wrong", level=level))
    refused(server, Login("dave", "", level=level))
    refused(server, Login("nobody", PASSWORDS["alice"], level=level))
    refused(server, Login("erin", PASSWORDS["dave"], level=level))
    assert not any(password in server.log for password in PASSWORDS.values())


def test_who_guesses_too_often_is_locked_out(server: RpcDaemon) -> None:
    for number in range(12):
        refused(server, Login("frank", f"guess {number}", level=INTEGRITY))
    refused(server, login("frank", level=INTEGRITY))
    with ImpacketPeer(server.address, login("alice", level=INTEGRITY)) as peer:
        peer.registry(1).ok()


def test_wine_with_a_wrong_password_is_refused(server: RpcDaemon, wine: WineClient, queue: Queue) -> None:
    for service in (NTLM, SPNEGO):
        peer = WinePeer(wine, server.address, Login("erin", "wrong", level=INTEGRITY, service=service))
        assert peer.open(queue.direct, SEND).code in WINE_DENIED


def test_an_account_that_was_switched_off_is_refused(server: RpcDaemon) -> None:
    accounts = embedded.accounts(server.data)
    accounts.add("carol", "Carols 1", False)
    who = Login("carol", "Carols 1", level=INTEGRITY)
    with ImpacketPeer(server.address, who) as peer:
        peer.registry(1).ok()
    accounts.enable("carol", False)
    refused(server, who)
    accounts.enable("carol", True)
    accounts.set_password("carol", "other 2")
    refused(server, who)
    with ImpacketPeer(server.address, Login("CAROL", "other 2", level=PRIVACY)) as peer:
        peer.registry(1).ok()
    accounts.remove("carol")
    refused(server, Login("carol", "other 2", level=INTEGRITY))


def started(server: RpcDaemon, level: int) -> Connection:
    who = Credentials("alice", PASSWORDS["alice"], level=level)
    return Connection(server.address, 2103, credentials=who).bind("qmcomm", "qmcomm2")


def query(connection: Connection, flags: int = 3) -> bytes:
    """A whole request that is answered if nothing is wrong with it."""
    stub = QMCOMM["R_QMQueryQMRegistryInternal"].request.encode({"dwQueryType": 1})
    data = connection.request(connection.calls, 0, 28, stub, flags)
    connection.calls += 1
    return data


def ends(connection: Connection) -> None:
    """In a fault 5 or in a closed connection, and not in an answer."""
    try:
        with pytest.raises(Fault) as found:
            connection.finish(connection.calls - 1)
        assert found.value.status in (DENIED, 0x1C00001B, 0x721)
    except Gone:
        pass


@pytest.mark.spec("MP-023")
@pytest.mark.parametrize("level", [PACKET, INTEGRITY, PRIVACY])
@pytest.mark.parametrize("part", ["call", "opnum", "context", "stub", "trailer", "checksum", "sequence"])
def test_what_was_changed_on_the_way_is_refused(server: RpcDaemon, level: int, part: str) -> None:
    where = {"call": 12, "opnum": 22, "context": 20, "stub": 24, "trailer": -17, "checksum": -8, "sequence": -1}[part]
    with started(server, level) as one:
        data = bytearray(query(one))
        data[where] ^= 1
        if part == "call":
            one.calls = data[12] + 1
        one.write(bytes(data))
        ends(one)


@pytest.mark.parametrize("level", [PACKET, INTEGRITY, PRIVACY])
def test_a_request_is_not_taken_twice(server: RpcDaemon, level: int) -> None:
    with started(server, level) as one:
        data = query(one)
        one.write(data)
        assert one.finish(one.calls - 1)
        one.write(data)
        ends(one)


@pytest.mark.parametrize("level", [PACKET, INTEGRITY, PRIVACY])
def test_a_request_without_its_signature_is_refused(server: RpcDaemon, level: int) -> None:
    with started(server, level) as one:
        assert one.security is not None
        one.security.level = CONNECT
        one.write(query(one))
        ends(one)


def test_a_lower_level_than_was_agreed_is_refused(server: RpcDaemon) -> None:
    with started(server, PRIVACY) as one:
        assert one.security is not None
        one.security.level = INTEGRITY
        one.write(query(one))
        ends(one)


def test_a_call_before_the_last_leg_is_refused(server: RpcDaemon) -> None:
    """A half bind is nobody: bind and challenge, but no AUTH3."""
    with Connection(server.address, 2103) as one:
        half = Ntlm(Credentials("alice", PASSWORDS["alice"], level=CONNECT))
        body = bind_body([(0, syntax(QMCOMM.uuid, 1), [syntax("8a885d04-1ceb-11c9-9fe8-08002b104860", 2)])])
        trailer = struct.pack("<BBBBI", 10, CONNECT, 0, 0, 79231)
        one.write(pdu(BIND, 1, body + trailer, auth=bytes(half.first.getData())))
        one.read()
        one.contexts["qmcomm"] = (0, QMCOMM, False)
        one.calls = 2
        one.write(query(one))
        ends(one)


def test_the_answer_to_another_challenge_is_refused(server: RpcDaemon) -> None:
    """A token of one connection is worth nothing on the next."""
    who = Credentials("alice", PASSWORDS["alice"], level=CONNECT)
    tokens: list[bytes] = []

    class Kept(Ntlm):
        def authenticate(self, challenge: bytes) -> bytes:
            tokens.append(super().authenticate(challenge))
            return tokens[0]

    def bound() -> Connection:
        one = Connection(server.address, 2103)
        body = bind_body([(0, syntax(QMCOMM.uuid, 1), [syntax("8a885d04-1ceb-11c9-9fe8-08002b104860", 2)])])
        trailer = struct.pack("<BBBBI", 10, CONNECT, 0, 0, 79231)
        half = Kept(who)
        one.write(pdu(BIND, 1, body + trailer, auth=bytes(half.first.getData())))
        token = half.authenticate(one.read().verifier)
        one.write(pdu(AUTH3, 1, b"    " + trailer, auth=token))
        one.contexts["qmcomm"] = (0, QMCOMM, False)
        one.calls = 2
        return one

    with bound() as first:
        first.write(query(first))
        assert first.finish(first.calls - 1)
    with bound() as second:
        second.write(query(second))
        ends(second)


@pytest.mark.parametrize("level", [0, 7, 255])
def test_a_level_that_does_not_exist_is_refused(server: RpcDaemon, level: int) -> None:
    refused(server, Login("alice", PASSWORDS["alice"], level=level) if level else Login("alice", "x", level=NONE))


@pytest.mark.parametrize("service", [0, 1, 14, 16, 68, 255])
def test_a_service_that_is_not_offered_is_refused(server: RpcDaemon, service: int) -> None:
    with Connection(server.address, 2103) as one:
        body = bind_body([(0, syntax(QMCOMM.uuid, 1), [syntax("8a885d04-1ceb-11c9-9fe8-08002b104860", 2)])])
        one.write(pdu(BIND, 1, body + struct.pack("<BBBBI", service, INTEGRITY, 0, 0, 1),
                      auth=b"NTLMSSP\0" + bytes(32)))
        try:
            answer = one.read()
        except Gone:
            return
        assert answer.kind in (3, 13), answer


@pytest.mark.parametrize("cut", [1, 7, 8, 12, 31, 63])
def test_tokens_that_are_cut_are_refused(server: RpcDaemon, cut: int) -> None:
    who: dict[str, Any] = {"user": "alice", "password": PASSWORDS["alice"], "level": INTEGRITY}

    class Cutting(Ntlm):
        def authenticate(self, challenge: bytes) -> bytes:
            return super().authenticate(challenge)[:cut]

    with Connection(server.address, 2103) as one:
        body = bind_body([(0, syntax(QMCOMM.uuid, 1), [syntax("8a885d04-1ceb-11c9-9fe8-08002b104860", 2)])])
        trailer = struct.pack("<BBBBI", 10, INTEGRITY, 0, 0, 79231)
        half = Cutting(Credentials(**who))
        one.write(pdu(BIND, 1, body + trailer, auth=bytes(half.first.getData())))
        token = half.authenticate(one.read().verifier)
        one.write(pdu(AUTH3, 1, b"    " + trailer, auth=token))
        one.contexts["qmcomm"] = (0, QMCOMM, False)
        one.security, one.calls = None, 2
        one.write(query(one))
        ends(one)
    with started(server, INTEGRITY) as fine:
        assert fine.call("R_QMGetRTQMServerPort", fIP=0)["result"] == 2103
    assert format_of("direct:x")
