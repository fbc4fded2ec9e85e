"""Our client against scapy's server: no code of ours at the other end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.rpc.serving import ADD, PASSWORD, Client, Refused
from tests.server.rpc.test_levels import ntlm, spnego

PROGRAM = Path(__file__).with_name("scapy_server.py")
INITIATORS: dict[str, Any] = {"none": lambda level, **who: None, "ntlm": ntlm, "spnego": spnego}


@contextmanager
def scapys_server(kind: str) -> Iterator[int]:
    """Its port: on 127.0.0.1, for scapy listens on the address of an interface."""
    process = subprocess.Popen([sys.executable, str(PROGRAM), kind, PASSWORD], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("kind", "level"), [
    ("none", 1), ("ntlm", 2), ("ntlm", 5), ("ntlm", 6), ("spnego", 2), ("spnego", 5), ("spnego", 6)])
def test_scapys_server_understands_our_client(kind: str, level: int) -> None:
    async def run(port: int) -> None:
        client = await Client.connect("127.0.0.1", INITIATORS[kind](level), port=port)
        for number in range(5):
            assert (await client.call(ADD, number, 3)).result == number + 3
        await client.close()

    with scapys_server(kind) as port:
        asyncio.run(run(port))


def test_our_client_does_not_get_in_with_a_wrong_password() -> None:
    async def run(port: int) -> None:
        with pytest.raises(Refused):
            client = await Client.connect("127.0.0.1", spnego(5, password="wrong"), port=port)
            await client.call(ADD, 1, 2)

    with scapys_server("spnego") as port:
        asyncio.run(run(port))
