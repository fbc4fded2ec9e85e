"""Kerberos with MIT's KDC: our own client and impacket's at every level."""

from __future__ import annotations

import asyncio
import ctypes
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from impacket.dcerpc.v5 import transport
from impacket.dcerpc.v5.rpcrt import RPC_C_AUTHN_GSS_NEGOTIATE
from impacket.uuid import uuidtup_to_bin

from lior.errors import BadConfiguration
from lior.protocols.rpc.gss import LIBRARY, Gss, KerberosInitiator
from lior.protocols.rpc.security import AuthenticationFailed, Initiator
from lior.protocols.rpc.spnego import SpnegoInitiator
from lior.server.rpc.kerberos import kerberos_acceptors
from lior.wire.spnego import KERBEROS, MS_KERBEROS
from tests.server.rpc.realm import MISSING, REALM, Realm, realm
from tests.server.rpc.serving import ADD, BACKWARDS, TEST_UUID, WHO, Client, Refused, serving
from tests.server.rpc.test_levels import called

HOST = "server.lior.test"

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} (Debian: krb5-kdc, krb5-user) is not installed")


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with realm(tmp_path_factory.mktemp("kdc") / "realm", HOST) as made:
        yield made


def raw(level: int) -> Initiator:
    return KerberosInitiator(Gss(ctypes.CDLL(LIBRARY)), HOST, level)


def wrapped(level: int) -> Initiator:
    return SpnegoInitiator(raw(level), (MS_KERBEROS, KERBEROS))


@pytest.mark.parametrize("level", [2, 4, 5, 6])
@pytest.mark.parametrize("initiator", [raw, wrapped])
def test_calls_pass_at_every_level(tmp_path: Path, kdc: Realm, initiator: Any, level: int) -> None:
    async def run() -> None:
        async with serving(tmp_path, keytab=str(kdc.keytab)) as server:
            user = server.accounts.add(f"joe@{REALM}", None)
            client = await Client.connect(server.address, initiator(level))
            for size in (0, 15, 16, 5000, 50_000):
                body = secrets.token_bytes(size)
                assert bytes((await client.call(BACKWARDS, size, body)).out) == body[::-1]
            who = bytes((await client.call(WHO)).text).decode().split()
            assert who[:2] == [str(server.accounts.sid(user)), str(level)]

    asyncio.run(run())


def test_a_principal_without_an_account_is_refused(tmp_path: Path, kdc: Realm) -> None:
    async def run() -> None:
        async with serving(tmp_path, keytab=str(kdc.keytab)) as server:
            with pytest.raises(Refused):
                await Client.connect(server.address, raw(5))
            server.accounts.add(f"joe@{REALM}", None)
            assert (await (await Client.connect(server.address, raw(5))).call(ADD, 1, 2)).result == 3
            server.accounts.change(f"joe@{REALM}", enabled=False)
            with pytest.raises(Refused):
                await Client.connect(server.address, wrapped(5))

    asyncio.run(run())


@pytest.mark.parametrize("level", [2, 5, 6])
def test_impacket_signs_in_with_kerberos(tmp_path: Path, kdc: Realm, level: int) -> None:
    def client(address: str) -> None:
        connection = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{address}[2103]")
        connection.set_credentials("joe", "secret", REALM)
        connection.setRemoteName(HOST)
        connection.set_kerberos(True, kdcHost=None)
        rpc = connection.get_dce_rpc()
        rpc.set_credentials("joe", "secret", REALM)
        rpc.set_auth_type(RPC_C_AUTHN_GSS_NEGOTIATE)
        rpc.set_auth_level(level)
        rpc.connect()
        rpc.bind(uuidtup_to_bin((TEST_UUID, "1.0")))
        for size in (1, 16, 3001):
            body = secrets.token_bytes(size)
            assert bytes(called(rpc, BACKWARDS, size, body).out) == body[::-1]
        rpc.disconnect()

    async def run() -> None:
        async with serving(tmp_path, keytab=str(kdc.keytab)) as server:
            server.accounts.add(f"joe@{REALM}", None)
            await asyncio.to_thread(client, server.address)

    asyncio.run(run())


def test_a_name_that_the_realm_does_not_know_says_so(kdc: Realm) -> None:
    initiator = KerberosInitiator(Gss(ctypes.CDLL(LIBRARY)), "nowhere.lior.test", 5)
    with pytest.raises(AuthenticationFailed, match="not found"):
        initiator.initiate(b"")


@pytest.mark.parametrize("token", [b"", b"junk", b"\x60\x03abc", bytes(5000)])
def test_a_broken_token_is_refused(kdc: Realm, token: bytes) -> None:
    acceptor = kerberos_acceptors(str(kdc.keytab), lambda name: pytest.fail(name))()
    with pytest.raises(AuthenticationFailed):
        acceptor.accept(token, 5, 0.0)


def test_a_keytab_that_is_none_is_told_at_the_start(tmp_path: Path, kdc: Realm) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(BadConfiguration):
        kerberos_acceptors(str(tmp_path / "missing"), lambda name: pytest.fail(name))
