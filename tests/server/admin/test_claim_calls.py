"""Claims over the admin API of a real server, and on the command line."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

import lior
from lior.cli.main import cli
from lior.testing.serving import Serving

QUEUE = r".\private$\q"


def url(name: str) -> str:
    return f"http://lior/v1/{name}"


async def post(server: Serving, name: str, /, **arguments: Any) -> Any:
    connector = aiohttp.UnixConnector(server.socket_path)
    async with aiohttp.ClientSession(connector=connector) as http, http.post(url(name), json=arguments) as response:
        found = await response.json()
    if "error" in found:
        raise AssertionError(found["error"]["symbol"])
    return found["result"]


def call(server: Serving, name: str, /, **arguments: Any) -> Any:
    return asyncio.run(post(server, name, **arguments))


def run(server: Serving, *arguments: str) -> str:
    result = CliRunner().invoke(cli, [*arguments, "--data", str(server.data)])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_reader_claims_over_a_kill_and_releases(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        with server.connect() as qm:
            qm.create_queue(QUEUE)
            for number in range(10):
                qm.send(QUEUE, b"%d" % number)
        epoch = call(server, "subscribe", name="lake", queues=[QUEUE])["epoch"]
        assert call(server, "claim", name="lake", epoch=epoch, start=0, max_rows=6, max_bytes=1 << 20) == 6
        assert call(server, "plan", name="lake", start=0, end=6, parts=2) == [3, 6]
        server.kill()
        server.start()
        with server.connect() as qm:
            assert [message.body for message in qm.open_queue(QUEUE)] == [b"6", b"7", b"8", b"9"]
            [known] = qm.subscriptions()
            assert (known["claimed"], known["released"], known["lag"]) == (6, 0, 4)
        assert call(server, "reject_claimed", name="lake", epoch=epoch, ordinals=[2]) == 1
        assert call(server, "release", name="lake", epoch=epoch, ordinal=4) == 4
        with pytest.raises(AssertionError, match="LIOR_ERROR_CLAIM_FENCED"):
            call(server, "release", name="lake", epoch="00000000-0000-0000-0000-000000000001", ordinal=5)
        assert json.loads(run(server, "subscription", "list", "--json"))["claimed"] == 2
        assert "lake" in run(server, "subscription", "list")
        stats = json.loads(run(server, "stats", "--json"))
        assert [stats[name] for name in ("subscriptions", "claimed_messages", "subscription_lag")] == [1, 2, 4]
        assert "1: 2 messages claimed, 4 wait" in run(server, "stats")
        shown = json.loads(run(server, "subscription", "show", "lake", "--json"))
        assert shown["released"] == 4 and shown["queues"] == ["private$\\q"]
        assert shown["oldest"] is not None and shown["oldest"] <= shown["created"]
        assert "released" in run(server, "subscription", "show", "lake")
        run(server, "subscription", "abandon", "lake", "--yes")
        with lior.connect(str(server.data)) as qm:
            assert [message.body for message in qm.open_queue(QUEUE)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
            assert qm.subscriptions() == []


def test_a_stranger_gets_no_claims(tmp_path: Path) -> None:
    with lior.open(":memory:") as qm:
        assert qm.subscriptions() == []
        with pytest.raises(lior.errors.NoSubscription):
            qm.abandon_subscription("lake")
