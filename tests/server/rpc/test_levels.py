"""Every kind of authentication at every level, with our own client and with impacket's."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

import pytest
from impacket.dcerpc.v5 import transport
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.uuid import uuidtup_to_bin

from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.ntlm_initiator import NtlmInitiator
from lior.protocols.rpc.security import Initiator
from lior.protocols.rpc.spnego import SpnegoInitiator
from tests.server.rpc.serving import ADD, BACKWARDS, PASSWORD, TEST, TEST_UUID, WHO, Client, Refused, serving

LEVELS = [2, 3, 4, 5, 6]


def ntlm(level: int, user: str = "joe", password: str = PASSWORD, domain: str = "") -> NtlmInitiator:
    return NtlmInitiator(user, password, domain, level, secrets.token_bytes, time.time)


def spnego(level: int, **who: str) -> Initiator:
    return SpnegoInitiator(ntlm(level, **who))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("initiator", [ntlm, spnego])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 5000, 5800, 100_000])
def test_calls_of_every_size_pass_at_every_level(tmp_path: Path, initiator: Any, level: int, size: int) -> None:
    async def run() -> None:
        async with serving(tmp_path, max_fragment=5840) as server:
            client = await Client.connect(server.address, initiator(level))
            body = secrets.token_bytes(size)
            for _ in range(3):
                assert bytes((await client.call(BACKWARDS, size, body)).out) == body[::-1]
            who = bytes((await client.call(WHO)).text).decode().split()
            assert who[0] == str(server.accounts.sid(server.accounts.users()[0]))
            assert who[1] == str({3: 4}.get(level, level))
            await client.close()

    asyncio.run(run())


def impacket_client(address: str, level: int, user: str = "joe", password: str = PASSWORD) -> Any:
    connection = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{address}[2103]")
    connection.set_credentials(user, password, "")
    rpc = connection.get_dce_rpc()
    if level > 1:
        rpc.set_credentials(user, password, "")
        rpc.set_auth_level(level)
    rpc.connect()
    rpc.bind(uuidtup_to_bin((TEST_UUID, "1.0")))
    return rpc


def called(rpc: Any, opnum: int, *values: Any) -> Any:
    rpc.call(opnum, TEST.methods[opnum].request.encode(values))
    return TEST.methods[opnum].response.decode(rpc.recv())


@pytest.mark.parametrize("level", [2, 5, 6])
@pytest.mark.parametrize("fragment", [0, 64])
def test_impacket_calls_with_ntlm_at_every_level_that_it_has(tmp_path: Path, level: int, fragment: int) -> None:
    def client(address: str) -> None:
        rpc = impacket_client(address, level)
        rpc.set_max_fragment_size(fragment)
        body = secrets.token_bytes(3001)
        for _ in range(3):
            answer = called(rpc, BACKWARDS, len(body), body)
            assert bytes(answer.out) == body[::-1]
        rpc.disconnect()

    async def run() -> None:
        async with serving(tmp_path) as server:
            await asyncio.to_thread(client, server.address)

    asyncio.run(run())


@pytest.mark.parametrize("level", [2, 5, 6])
def test_impacket_signs_in_again_for_another_interface_of_its_connection(tmp_path: Path, level: int) -> None:
    def client(address: str) -> None:
        first = impacket_client(address, level)
        assert called(first, ADD, 1, 2).result == 3
        second = first.alter_ctx(uuidtup_to_bin((TEST_UUID, "1.0")))
        assert called(second, ADD, 3, 4).result == 7
        assert called(first, ADD, 5, 6).result == 11

    async def run() -> None:
        async with serving(tmp_path) as server:
            await asyncio.to_thread(client, server.address)

    asyncio.run(run())


def test_impacket_without_authentication_reaches_only_what_is_open(tmp_path: Path) -> None:
    def client(address: str) -> None:
        rpc = impacket_client(address, 1)
        assert called(rpc, ADD, 3, 4).result == 7
        with pytest.raises(DCERPCException, match="rpc_s_access_denied"):
            called(rpc, WHO)

    async def run() -> None:
        async with serving(tmp_path) as server:
            await asyncio.to_thread(client, server.address)

    asyncio.run(run())


def test_impacket_with_a_wrong_password_is_refused(tmp_path: Path) -> None:
    def client(address: str) -> None:
        rpc = impacket_client(address, 5, password="wrong")
        with pytest.raises(DCERPCException, match="rpc_s_access_denied"):
            called(rpc, WHO)

    async def run() -> None:
        async with serving(tmp_path) as server:
            await asyncio.to_thread(client, server.address)

    asyncio.run(run())


@pytest.mark.parametrize("who", [{"password": "wrong"}, {"user": "nobody"}, {"password": PASSWORD.upper()}])
def test_a_wrong_password_or_name_is_refused_at_the_first_request(tmp_path: Path, who: dict[str, str]) -> None:
    async def run() -> None:
        async with serving(tmp_path) as server:
            client = await Client.connect(server.address, ntlm(5, **who))
            with pytest.raises(RpcFault) as refused:
                await client.call(ADD, 1, 2)
            assert refused.value.status == 5
            with pytest.raises(Refused):
                await Client.connect(server.address, spnego(5, **who))

    asyncio.run(run())


@pytest.mark.parametrize("domain", ["", ".", "TESTHOST", "SOMEWHERE"])
def test_the_name_of_a_user_has_no_case_and_any_domain(tmp_path: Path, domain: str) -> None:
    async def run() -> None:
        async with serving(tmp_path) as server:
            client = await Client.connect(server.address, ntlm(6, user="JOE", domain=domain))
            assert (await client.call(ADD, 1, 2)).result == 3

    asyncio.run(run())
