"""Stubs as scapy and impacket read them: definitions that neither this project nor its second reading wrote."""

import importlib
import warnings
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from impacket.dcerpc.v5 import epm, mgmt
from impacket.uuid import bin_to_uuidtup, uuidtup_to_bin

from lior.wire.interfaces.endpoint_mapper import EPT_S_NOT_REGISTERED, EptEntry, RpcIfId
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.towers import Tower
from lior.wire.ndr import NDR, NDR64
from lior.wire.ndr_types import NULL_HANDLE
from tests.wire.rpc_values import METHODS, SYNTAXES, calls

MODULES = {"qmcomm": ("ms_mqmp", "QMCOMM_OPNUMS"), "qmcomm2": ("ms_mqmp", "QMCOMM2_OPNUMS"),
           "qm2qm": ("ms_mqqp", "QM2QM_OPNUMS"), "RemoteRead": ("ms_mqrr", "REMOTEREAD_OPNUMS"),
           "qmmgmt": ("ms_mqmr", "QMMGMT_OPNUMS")}
# What scapy's generator gets wrong: it takes [size_is(, n)] X** for an array of pointers (every CACTransferBuffer and
# ppPacketSections), gives void methods a status, and knows no request where it reads a response.
POINTERS = {("qmcomm", 4, 0), ("qmcomm2", 0, 0), ("qmcomm2", 1, 0), ("qmcomm2", 2, 0), ("qmcomm2", 2, 1),
            ("RemoteRead", 7, 1), ("RemoteRead", 13, 1)}
VOID = {("qmcomm", 3, 1), ("qm2qm", 8, 1), ("RemoteRead", 2, 1), ("RemoteRead", 11, 1)}
SIZED = {("qmcomm", 8, 1), ("qmcomm", 10, 1), ("qmcomm", 14, 1), ("qmcomm", 26, 1), ("qmmgmt", 0, 1)}
READ = sorted({(name, opnum, answer) for name, opnum in METHODS if name in MODULES for answer in (0, 1)}
              - POINTERS - VOID - SIZED)

INTERFACE = UUID("fdb3a030-065f-11d1-bb9b-00a024ea5525")
TOWER = Tower(QMCOMM.uuid, QMCOMM.version, NDR.uuid, NDR.version, 2103, IPv4Address("127.0.0.5"))


@pytest.mark.parametrize(("name", "opnum", "answer"), READ)
def test_scapy_reads_and_writes_the_same_bytes(name: str, opnum: int, answer: int) -> None:
    method = METHODS[name, opnum]
    codec = method.response if answer else method.request
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, table = MODULES[name]
        shapes = getattr(importlib.import_module(f"msrpcs.{module}"), table)[opnum]
    shape = shapes.response if answer else shapes.request

    @settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(calls(method))
    def check(call: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
        for syntax in SYNTAXES[name]:
            stub = codec.encode(call[answer], call[0] if answer else None, syntax)
            assert bytes(shape(stub, ndr64=syntax is NDR64)) == stub

    check()


def test_impacket_asks_where_an_interface_is() -> None:
    tower = epm.EPMTower()
    interface, syntax = epm.EPMRPCInterface(), epm.EPMRPCDataRepresentation()
    interface["InterfaceUUID"], interface["MajorVersion"], interface["MinorVersion"] = INTERFACE.bytes_le, 1, 0
    syntax["DataRepUuid"], syntax["MajorVersion"], syntax["MinorVersion"] = NDR.uuid.bytes_le, 2, 0
    protocol, port, host = epm.EPMProtocolIdentifier(), epm.EPMPortAddr(), epm.EPMHostAddr()
    protocol["ProtIdentifier"] = epm.FLOOR_RPCV5_IDENTIFIER
    port["IpPort"], host["Ip4addr"] = 0, b"\0" * 4
    tower["NumberOfFloors"] = 5
    tower["Floors"] = b"".join(floor.getData() for floor in (interface, syntax, protocol, port, host))
    request = epm.ept_map()
    request["max_towers"] = 4
    request["map_tower"]["tower_length"] = len(tower)
    request["map_tower"]["tower_octet_string"] = tower.getData()
    found = METHODS["epmapper", 3].request.decode(request.getData())
    assert (found.obj, found.entry_handle, found.max_towers) == (UUID(int=0), NULL_HANDLE, 4)
    assert Tower.decode(found.map_tower) == Tower(INTERFACE, (1, 0), NDR.uuid, (2, 0))


def test_impacket_is_told_where_an_interface_is() -> None:
    answer = epm.ept_mapResponse(METHODS["epmapper", 3].response.encode((NULL_HANDLE, 1, (TOWER.encode(),), 0), (
        None, None, NULL_HANDLE, 4)))
    assert (answer["num_towers"], answer["status"]) == (1, 0)
    tower = epm.EPMTower(b"".join(answer["ITowers"][0]["Data"]["tower_octet_string"]))
    floors = tower["Floors"]
    assert bin_to_uuidtup(floors[0]["InterfaceUUID"] + bytes(4))[0].lower() == str(INTERFACE)
    assert epm.PrintStringBinding(floors) == "ncacn_ip_tcp:127.0.0.5[2103]"


def test_impacket_lists_the_endpoints() -> None:
    request = epm.ept_lookup()
    request["inquiry_type"], request["vers_option"], request["max_ents"] = 0, 1, 500
    request["object"], request["Ifid"] = epm.NULL, epm.NULL
    found = METHODS["epmapper", 2].request.decode(request.getData())
    assert found == (0, None, None, 1, NULL_HANDLE, 500)
    answer = epm.ept_lookupResponse(METHODS["epmapper", 2].response.encode((NULL_HANDLE, 2, (
        EptEntry(UUID(int=0), TOWER.encode(), b"Message Queuing"), EptEntry(INTERFACE, TOWER.encode())), 0), found))
    assert answer["num_ents"] == 2
    entries = answer["entries"]
    assert [b"".join(entry["tower"]["tower_octet_string"]) for entry in entries] == [TOWER.encode()] * 2
    assert [b"".join(entry["annotation"]).rstrip(b"\0") for entry in entries] == [b"Message Queuing", b""]
    none = epm.ept_lookupResponse(METHODS["epmapper", 2].response.encode(
        (NULL_HANDLE, 0, (), EPT_S_NOT_REGISTERED), found))
    assert (none["num_ents"], none["status"]) == (0, EPT_S_NOT_REGISTERED)


def test_impacket_lists_the_interfaces_of_a_server() -> None:
    ids = tuple(RpcIfId(each.uuid, *each.version) for each in (QMCOMM, QMCOMM2))
    answer = mgmt.inq_if_idsResponse(METHODS["mgmt", 0].response.encode((ids, 0)))
    assert answer["if_id_vector"]["count"] == 2
    assert [each["Data"]["Uuid"] + bytes((1, 0, 0, 0)) for each in answer["if_id_vector"]["if_id"]] == [
        uuidtup_to_bin((str(each.uuid), "1.0")) for each in (QMCOMM, QMCOMM2)]
