"""Clients ask where an interface answers."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from impacket.dcerpc.v5 import epm, mgmt, transport
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.uuid import uuidtup_to_bin

from lior.server.rpc.service import RpcService
from lior.server.rpc.settings import RpcSection
from lior.testing.serving import loopback_address
from tests.server.rpc.serving import TEST, TEST_UUID, serving


def asking(directory: Path, client: Any, **settings: Any) -> Any:
    async def run() -> Any:
        async with serving(directory, mapper_port=135, **settings) as server:
            return await asyncio.to_thread(client, server.address)

    return asyncio.run(run())


@pytest.mark.spec("MP-004")
def test_impacket_finds_the_port_of_an_interface(tmp_path: Path) -> None:
    def client(address: str) -> None:
        found = epm.hept_map(address, uuidtup_to_bin((TEST_UUID, "1.0")), protocol="ncacn_ip_tcp")
        assert found == f"ncacn_ip_tcp:{address}[2103]"
        with pytest.raises(DCERPCException, match="16c9a0d6"):
            epm.hept_map(address, uuidtup_to_bin(("11111111-2222-3333-4444-555555555556", "1.0")),
                         protocol="ncacn_ip_tcp")

    asking(tmp_path, client)


@pytest.mark.spec("MP-004")
def test_impacket_lists_what_is_registered(tmp_path: Path) -> None:
    def client(address: str) -> list[Any]:
        return list(epm.hept_lookup(address))

    (entry,) = asking(tmp_path, client)
    assert entry["annotation"] == b"Message Queuing\0"
    floors = [floor.getData() for floor in entry["tower"]["Floors"]]
    assert TEST.uuid.bytes_le in floors[0]
    assert (2103).to_bytes(2, "big") in floors[3]


def test_impacket_asks_the_management_interface_which_interfaces_there_are(tmp_path: Path) -> None:
    def client(address: str) -> list[str]:
        rpc = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{address}[2103]").get_dce_rpc()
        rpc.connect()
        rpc.bind(mgmt.MSRPC_UUID_MGMT)
        answer = mgmt.hinq_if_ids(rpc)
        vector = answer["if_id_vector"]
        return [str(vector["if_id"][n]["Data"]["Uuid"].hex()) for n in range(vector["count"])]

    found = asking(tmp_path, client)
    assert TEST.uuid.bytes_le.hex() in found


@pytest.mark.spec("MP-005")
def test_takes_the_next_port_in_steps_of_eleven_when_it_is_taken(tmp_path: Path) -> None:
    async def run() -> None:
        address = loopback_address()
        with socket.socket() as first, socket.socket() as second:
            for taken, port in ((first, 2103), (second, 2114)):
                taken.bind((address, port))
                taken.listen()
            service = RpcService(RpcSection(mapper_port=0), [address], None, {}, asyncio.get_running_loop())
            await service.start()
            assert (service.port, service.qm_port) == (2125, 2105)
            assert service.addresses == [f"{address}:2125", f"{address}:2105"]
            await service.stop()

    asyncio.run(run())


def test_goes_on_without_a_mapper_where_another_one_has_the_port(tmp_path: Path) -> None:
    async def run() -> None:
        address = loopback_address()
        with socket.socket() as samba:
            samba.bind((address, 135))
            samba.listen()
            service = RpcService(RpcSection(), [address], None, {}, asyncio.get_running_loop())
            await service.start()
            assert service.mapper_addresses == []
            assert service.port == 2103
            await service.stop()

    asyncio.run(run())
