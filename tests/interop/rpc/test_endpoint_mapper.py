"""The endpoint mapper on port 135, asked by Wine's runtime, by impacket and by scapy ([MS-MQMP] 2.1, [C706] appendix
O)."""

from __future__ import annotations

import pytest
from impacket.dcerpc.v5 import epm, transport
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.uuid import uuidtup_to_bin
from scapy.layers.dcerpc import find_dcerpc_interface
from scapy.layers.msrpce.rpcclient import get_endpoint

from tests.interop.rpc import scapy_client
from tests.interop.rpc.conftest import PASSWORDS, Queue, RpcDaemon, login
from tests.interop.rpc.impacket_client import ImpacketPeer
from tests.interop.rpc.second_interfaces import INTERFACES
from tests.interop.rpc.verbs import INTEGRITY, SEND
from tests.interop.rpc.wine_client import WineClient, quoted
from tests.interop.rpc.wine_peer import WinePeer

PORTS = {"qmcomm": 2103, "qmcomm2": 2103, "remote_read": 2103, "qm2qm": 2105, "qmmgmt": 2103}


def asked(server: RpcDaemon, uuid: str, version: str = "1.0") -> str:
    """ncacn_ip_tcp:host[port]"""
    rpc = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{server.address}[135]")
    dce = rpc.get_dce_rpc()
    dce.connect()
    try:
        return str(epm.hept_map(server.address, uuidtup_to_bin((uuid, version)), protocol="ncacn_ip_tcp", dce=dce))
    finally:
        dce.disconnect()


@pytest.mark.spec("MP-004", "MP-005")
@pytest.mark.parametrize("name", PORTS)
def test_impacket_finds_every_interface(server: RpcDaemon, name: str) -> None:
    found = asked(server, INTERFACES[name].uuid)
    assert found == f"ncacn_ip_tcp:{server.address}[{PORTS[name]}]"


@pytest.mark.spec("MP-004")
def test_what_is_not_there_is_not_registered(server: RpcDaemon) -> None:
    for uuid, version in (("12345678-1234-abcd-ef00-0123456789ab", "1.0"), (INTERFACES["qmcomm"].uuid, "2.0")):
        with pytest.raises((DCERPCException, epm.DCERPCSessionError)) as found:
            asked(server, uuid, version)
        assert "16c9a0d6" in str(found.value).lower() or "not_registered" in str(found.value).lower(), found.value


@pytest.mark.spec("MP-004")
def test_the_mapper_lists_all_there_is(server: RpcDaemon) -> None:
    rpc = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{server.address}[135]")
    dce = rpc.get_dce_rpc()
    dce.connect()
    listed = {str(entry["tower"]["Floors"][0]).lower() for entry in epm.hept_lookup(None, dce=dce)}
    for name in PORTS:
        assert any(INTERFACES[name].uuid in floor for floor in listed), (name, listed)
    dce.disconnect()


@pytest.mark.parametrize("name", ["qmcomm", "qm2qm", "RemoteRead"])
def test_scapy_finds_interfaces(server: RpcDaemon, name: str) -> None:
    assert scapy_client.MODULES
    found = get_endpoint(server.address, find_dcerpc_interface(name), verb=False)
    assert (server.address, PORTS.get(name, 2103)) in [(str(host), int(port)) for host, port in found]


@pytest.mark.spec("MP-004", "MP-006", "MP-185")
def test_wine_resolves_and_works_without_being_told_a_port(server: RpcDaemon, wine: WineClient) -> None:
    with ImpacketPeer(server.address, login("root", level=INTEGRITY)) as root:
        queue = Queue(root, "mapped")
    signed = {"service": 10, "level": INTEGRITY, "user": "alice", "password": quoted(PASSWORDS["alice"])}
    answer = wine("bind", host=server.address, **{"as": "mapped"}, **signed).ok()
    assert answer.text("string") == f"ncacn_ip_tcp:{server.address}[2103]"
    assert wine("port", binding="mapped", which=1).result == 2105
    peer = WinePeer(wine, server.address, login("alice", level=INTEGRITY), port=None)
    peer.send(peer.open(queue.direct, SEND).ok()["queue"], body=b"mapped").ok()
    assert server.bodies("mapped") == [b"mapped"]
    second = wine("bind", host=server.address, second=1, **{"as": "mapped2"}, **signed).ok()
    assert second.text("string").endswith("[2103]")


@pytest.mark.spec("MP-006")
def test_every_interface_answers_on_every_port(server: RpcDaemon) -> None:
    for port in (2103, 2105):
        with ImpacketPeer(server.address, login("alice", level=INTEGRITY), port=port) as peer:
            assert peer.registry(1).ok()["value"] == "345600"
            peer.connection.bind("qm2qm").bind("remote_read").bind("qmmgmt")
            assert peer.connection.call("R_GetServerPort")["result"] == 2103
            assert peer.connection.call("RemoteQMGetQMQMServerPort", dwPortType=1)["result"] in (0, 2105)
