"""Transactional messages over HTTP while both ends are killed and answers, requests and receipts are tampered with.

Each message arrives exactly once and in order, transactions arrive whole, and at the end the sender has nothing left.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.faults.http_proxy import HttpProxy, Tampering
from tests.faults.test_transfer_storm import QUEUES, Sender, check, drained, kill, nothing_left_behind, take_all
from tests.interop.daemon import Daemon, free_address

PORT = 8080
TIMERS = {
    "srmp.http_port": PORT, "srmp.retransmission_timeout": 0.1, "srmp.receipt_delay": 0.05, "srmp.send_timeout": 5.0,
    "srmp.resend_short": 0.5, "srmp.resend_medium": 1.0, "srmp.resend_long": 1.0, "srmp.resend_final": 1.0,
    "srmp.connect_timeout": 2.0,
}  # fmt: skip
LOSES_ONE_IN_TEN = Tampering(lose_answer=0.1)
EVERYTHING = Tampering(lose_answer=0.1, lose_request=0.05, double=0.1, delay=0.05, delay_seconds=0.3)
AHEAD = 100

Setting = tuple[Daemon, Daemon, list[HttpProxy]]


def setting(directory: Path, seed: int, tampering: Tampering, stack: contextlib.ExitStack) -> Setting:
    """A and B; what each sends to the other goes over a proxy of its own."""
    addresses = {name: free_address() for name in ("A", "B", "to A", "to B")}
    proxies = [
        stack.enter_context(HttpProxy((addresses[f"to {name}"], PORT), (addresses[name], PORT), seed + n, tampering))
        for n, name in enumerate("AB")
    ]
    servers = []
    for name, other in (("A", "B"), ("B", "A")):
        redirection = f'srmp_outbound."http://{addresses[other]}:{PORT}/*"'
        settings = {**TIMERS, redirection: f"http://{addresses['to ' + other]}:{PORT}"}
        server = Daemon(directory / name, address=addresses[name], settings=settings)
        server.prepare(transactional=QUEUES if name == "B" else ())
        servers.append(stack.enter_context(server))
    return servers[0], servers[1], proxies


@pytest.fixture(params=[LOSES_ONE_IN_TEN, EVERYTHING], ids=["lost answers", "everything"])
def pair(tmp_path: Path, seed: int, request: pytest.FixtureRequest) -> Iterator[Setting]:
    with contextlib.ExitStack() as stack:
        found = setting(tmp_path, seed, request.param, stack)
        yield found
        for server in found[:2]:
            assert "Traceback" not in server.log, server.log


def storm(servers: tuple[Daemon, Daemon], sender: Sender, kills: int, seed: int) -> None:
    chance = Random(seed)
    sender.up.set()
    sender.start()
    for moment in sorted(chance.randrange(sender.count) for _ in range(kills)):
        sender.may_reach(moment + AHEAD)
        while sender.is_alive() and sender.progress < moment:
            time.sleep(0.002)  # another thread's progress
        kill(chance.choice(servers), sender)
    sender.may_reach(sender.count)
    sender.join(400)
    assert not sender.is_alive(), f"the sender is at {sender.progress} of {sender.count}"
    assert sender.failure is None, sender.failure


def exactly_once(pair: Setting, count: int, kills: int, seed: int) -> None:
    source, target, proxies = pair
    names = {queue: f"DIRECT=HTTP://{target.address}:{PORT}/msmq/private$/{queue}" for queue in QUEUES}
    sender = Sender(source, names, count, seed)
    start = time.monotonic()
    storm((source, target), sender, kills, seed)
    arrived = drained(source, target, sender)
    print(f"seed {seed}: {count} messages, {kills} kills, {[dict(proxy.counts) for proxy in proxies]}, "
          f"{time.monotonic() - start:.1f} s")  # fmt: skip
    check(sender, arrived, seed)
    take_all(target)
    for proxy in proxies:  # what the last acknowledgements need is proven; now let them come
        proxy.tampering = Tampering()
    nothing_left_behind(source, target)


@pytest.mark.spec("SR-095", "SR-096", "SR-098", "SR-104", "SR-105", "SR-132", "SR-157", "SR-158", "SR-172", "SR-183",
                  "SR-187", "SR-200", "SR-120", "SR-122", "SR-124")  # fmt: skip
@pytest.mark.timeout(1200)
def test_kills_and_tampering_lose_double_and_disorder_nothing(pair: Setting, seed: int) -> None:
    exactly_once(pair, 250, 5, seed)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.spec("SR-095")
def test_a_storm_of_kills_loses_doubles_and_disorders_nothing(pair: Setting, seed: int) -> None:
    exactly_once(pair, 2000, int(os.environ.get("LIOR_KILLS", "50")), seed)
