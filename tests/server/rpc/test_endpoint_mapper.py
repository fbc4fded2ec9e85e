"""Clients ask where an interface answers."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from impacket.dcerpc.v5 import epm, mgmt, transport
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.uuid import uuidtup_to_bin

from lior.protocols.rpc.faults import RpcFault
from lior.server.rpc.service import RpcService
from lior.server.rpc.settings import RpcSection
from lior.testing.serving import loopback_address
from lior.wire.interfaces.endpoint_mapper import ENDPOINT_MAPPER, RpcIfId
from lior.wire.interfaces.rpc_management import RPC_MANAGEMENT
from lior.wire.interfaces.towers import Tower
from lior.wire.ndr import NDR, NDR64
from lior.wire.rpc_interface import interface
from tests.server.rpc.serving import TEST, TEST_UUID, Client, Server, serving


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


OTHER = interface("other", "11111111-2222-3333-4444-55555555aaaa", (2, 3), 1)
NONE = bytes(20)


def asked(directory: Path, body: Any) -> None:
    """With two interfaces besides: TEST 1.0 and OTHER 2.3."""

    async def run() -> None:
        async with serving(directory) as server:
            server.service.register(OTHER, {})
            await body(server, await Client.connect(server.address, interfaces=(ENDPOINT_MAPPER, RPC_MANAGEMENT)))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "version", "option", "found"),
    [
        (1, (2, 3), 1, True), (1, (9, 9), 1, True), (1, (2, 3), 2, True), (1, (2, 1), 2, True), (1, (2, 4), 2, False),
        (1, (1, 0), 2, False), (1, (2, 3), 3, True), (1, (2, 2), 3, False), (1, (2, 9), 4, True), (1, (3, 3), 4, False),
        (1, (2, 3), 5, True), (1, (3, 0), 5, True), (1, (2, 2), 5, False), (1, (2, 3), 6, False), (3, (2, 3), 3, True),
    ],
)  # fmt: skip
def test_looks_up_an_interface_by_its_version(
    tmp_path: Path, kind: int, version: tuple[int, int], option: int, found: bool
) -> None:
    async def body(server: Server, client: Client) -> None:
        wanted = RpcIfId(OTHER.uuid, *version)
        answer = await client.ask(ENDPOINT_MAPPER, 2, kind, None, wanted, option, NONE, 10)
        assert (answer.num_ents, answer.status) == ((1, 0) if found else (0, 0x16C9A0D6))
        if found:
            tower = Tower.decode(answer.entries[0].tower)
            assert tower is not None
            assert (tower.interface, tower.version, tower.port, str(tower.address)) == (
                OTHER.uuid, (2, 3), 2103, server.address)

    asked(tmp_path, body)


def test_a_long_answer_comes_in_pages_behind_a_handle(tmp_path: Path) -> None:
    async def body(server: Server, client: Client) -> None:
        first = await client.ask(ENDPOINT_MAPPER, 2, 0, None, None, 1, NONE, 1)
        assert first.num_ents == 1
        assert first.entry_handle != NONE
        rest = await client.ask(ENDPOINT_MAPPER, 2, 0, None, None, 1, first.entry_handle, 1)
        assert (rest.num_ents, rest.entry_handle) == (1, NONE)
        assert {each.entries[0].tower for each in (first, rest)} == {
            Tower(each.uuid, each.version, NDR.uuid, NDR.version, 2103, IPv4Address(server.address)).encode()
            for each in (TEST, OTHER)}
        with pytest.raises(RpcFault):
            await client.ask(ENDPOINT_MAPPER, 2, 0, None, None, 1, first.entry_handle, 1)
        first = await client.ask(ENDPOINT_MAPPER, 2, 0, None, None, 1, NONE, 1)
        assert await client.ask(ENDPOINT_MAPPER, 4, first.entry_handle) == (NONE, 0)
        assert await client.ask(ENDPOINT_MAPPER, 4, NONE) == (NONE, 0)
        with pytest.raises(RpcFault):
            await client.ask(ENDPOINT_MAPPER, 4, first.entry_handle)

    asked(tmp_path, body)


def test_what_nobody_registered_is_not_found_and_nonsense_is_not_looked_for(tmp_path: Path) -> None:
    async def body(server: Server, client: Client) -> None:
        for kind, thing, interface_id, status in ((7, None, None, 0x6D8), (2, UUID(int=5), None, 0x16C9A0D6),
                                                  (2, UUID(int=0), None, 0), (1, None, None, 0x16C9A0D6),
                                                  (3, UUID(int=5), RpcIfId(OTHER.uuid, 2, 3), 0x16C9A0D6)):
            answer = await client.ask(ENDPOINT_MAPPER, 2, kind, thing, interface_id, 1, NONE, 10)
            assert answer.status == status
        right = Tower(OTHER.uuid, (2, 0), NDR.uuid, NDR.version)
        for tower, status in ((right.encode(), 0), (None, 0x16C9A0D6), (b"\1\0", 0x6D8), (b"\0\0", 0x16C9A0D6),
                              (Tower(OTHER.uuid, (2, 4), NDR.uuid, NDR.version).encode(), 0x16C9A0D6),
                              (Tower(OTHER.uuid, (2, 0), NDR64.uuid, NDR64.version).encode(), 0x16C9A0D6)):
            answer = await client.ask(ENDPOINT_MAPPER, 3, None, tower, NONE, 4)
            assert (answer.status, answer.num_towers) == (status, 0 if status else 1)

    asked(tmp_path, body)


def test_nobody_stops_the_server_through_its_management(tmp_path: Path) -> None:
    async def body(server: Server, client: Client) -> None:
        assert (await client.ask(RPC_MANAGEMENT, 3)).status == 5
        assert await client.ask(RPC_MANAGEMENT, 2) == (0, 1)
        statistics = await client.ask(RPC_MANAGEMENT, 1, 4)
        assert statistics.statistics[0] == 3
        assert (await client.ask(RPC_MANAGEMENT, 4, 10, 100)).status == 0x6D3

    asked(tmp_path, body)
