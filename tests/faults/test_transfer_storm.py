"""Transactional messages from one queue manager to another, while both are killed and the network between them fails.

Each message arrives exactly once and in order, transactions arrive whole, and at the end the sender has nothing left.
A send that was under way when its server was killed may have happened or not; everything else is certain.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

import lior
from lior.names import private_queue_number
from tests.faults.proxy import Faults, Proxy
from tests.interop.daemon import Daemon, eventually, free_address

QUEUES = ("first", "second")
TIMERS = {
    "binary.retry": 0.1, "binary.cleanup": 1.0, "binary.order_ack": 0.1, "binary.initialisation": 2.0,
    "binary.resend_short": 0.5, "binary.resend_medium": 1.0, "binary.resend_long": 1.0, "binary.resend_final": 1.0,
    "binary.direct_ack_wait_multiplier": 0.1, "binary.ack_wait_multiplier": 0.1, "binary.connect_timeout": 2.0,
}  # fmt: skip
NETWORK = Faults(split=0.3, delay=0.001, stall=0.02, hold=0.05, hold_seconds=0.3)
DRAIN_SECONDS = 400.0
AHEAD = 150  # how far the sender may be ahead of the next blow: each one meets messages that are under way


@dataclass
class Sent:
    """What one queue was sent: groups of numbers, each group a transaction."""

    groups: list[tuple[range, bool]] = field(default_factory=list)  # and whether it is certain

    def check(self, queue: str, bodies: Sequence[bytes]) -> list[str]:
        """The faults in what arrived."""
        numbers = [int(body) for body in bodies]
        faults = []
        if numbers != sorted(set(numbers)):
            wrong = next((b, a) for b, a in pairwise(numbers) if a <= b)
            faults.append(f"{queue}: {wrong[1]} came behind {wrong[0]}")
        arrived = set(numbers)
        for group, certain in self.groups:
            there = sum(number in arrived for number in group)
            if there != len(group) and (certain or there):
                faults.append(f"{queue}: {there} of the {len(group)} messages of {group}, certain={certain}")
        known = {number for group, _ in self.groups for number in group}
        faults += [f"{queue}: {number} was never sent" for number in sorted(arrived - known)]
        return faults


class Sender(threading.Thread):
    """Sends numbered messages in small transactions to both queues, through a client of the server."""

    def __init__(self, server: Daemon, names: dict[str, str], count: int, seed: int) -> None:
        super().__init__(name="sender")
        self.server, self.names, self.count = server, names, count
        self.sent = {queue: Sent() for queue in names}
        self.progress = 0
        self.up = threading.Event()
        self._limit = 0
        self._moved = threading.Condition()
        self.failure: BaseException | None = None
        self._chance = Random(seed)

    def run(self) -> None:
        try:
            while self.progress < self.count:
                self.up.wait()
                with contextlib.suppress(lior.LiorError, OSError), lior.connect(self.server.data) as client:
                    while self.progress < self.count:
                        self._group(client)
        except BaseException as error:
            self.failure = error
            raise

    def may_reach(self, limit: int) -> None:
        with self._moved:
            self._limit = limit
            self._moved.notify()

    def _group(self, client: lior.QueueManager) -> None:
        with self._moved:
            self._moved.wait_for(lambda: self.progress < self._limit)
        queue = self._chance.choice(list(self.names))
        numbers = range(self.progress, min(self.progress + self._chance.randrange(1, 6), self.count))
        certain = False
        try:
            with client.transaction() as transaction:
                for number in numbers:
                    transaction.send(self.names[queue], b"%d" % number)
            certain = True
        finally:
            self.sent[queue].groups.append((numbers, certain))
            self.progress = numbers.stop


def kill(server: Daemon, sender: Sender) -> None:
    """SIGKILL, and start again; the sender waits while it is his server."""
    if server is sender.server:
        sender.up.clear()
    server.kill()
    server.start()
    sender.up.set()


def storm(
    servers: Sequence[Daemon], proxies: Sequence[Proxy], sender: Sender, kills: int, cuts: int, seed: int
) -> None:
    """Kills and cuts at seeded moments of the sender's progress."""
    chance = Random(seed)
    moments = [(chance.randrange(sender.count), "kill") for _ in range(kills)]
    moments += [(chance.randrange(sender.count), "cut") for _ in range(cuts)]
    sender.up.set()
    sender.start()
    for moment, what in sorted(moments):
        sender.may_reach(moment + AHEAD)
        while sender.is_alive() and sender.progress < moment:
            select.select([], [], [], 0.002)
        if what == "kill":
            kill(chance.choice(servers), sender)
        else:  # there may be none at this moment: wait for one, but not for ever
            end = time.monotonic() + 5
            while not chance.choice(proxies).cut() and time.monotonic() < end:
                select.select([], [], [], 0.01)
    sender.may_reach(sender.count)
    sender.join(DRAIN_SECONDS)
    assert not sender.is_alive(), f"the sender is at {sender.progress} of {sender.count}"
    assert sender.failure is None, sender.failure


def drained(source: Daemon, target: Daemon, sender: Sender) -> dict[str, list[bytes]]:
    """Wait until nothing is under way; what arrived."""

    def nothing_left() -> bool:
        return not source.outgoing()

    eventually(nothing_left, timeout=DRAIN_SECONDS, what=f"an empty outgoing queue of {source.address}")
    return {queue: target.bodies(queue) for queue in sender.names}


def check(sender: Sender, arrived: dict[str, list[bytes]], seed: int) -> None:
    faults = [fault for queue, sent in sender.sent.items() for fault in sent.check(queue, arrived[queue])]
    assert not faults, "\n".join([f"seed {seed}: {len(faults)} faults", *faults[:20]])


def take_all(target: Daemon) -> None:
    """Consume everything in transactions, so that every message has its end."""
    for queue in QUEUES:
        with target.qm.open_queue(rf".\private$\{queue}") as opened:
            while target.count(queue):
                with target.qm.transaction() as transaction:
                    for _ in range(min(100, target.count(queue))):
                        opened.receive(60, transaction=transaction)


def nothing_left_behind(*servers: Daemon) -> None:
    """Neither waiting nor dead, on any of them."""
    eventually(
        lambda: not any(server.outgoing() for server in servers), timeout=DRAIN_SECONDS, what="the last acks"
    )
    left = []
    for server in servers:
        server.terminate()
        with server.offline() as manager:
            left += [describe(manager, info.name) for info in manager.queues() if info.messages]
    trouble = [line for server in servers for line in server.log.splitlines() if "level=error" in line]
    assert not left, "\n".join([*left, *trouble[:20]])


def describe(manager: lior.QueueManager, name: str) -> str:
    """A queue that should be empty."""
    with manager.open_queue(name if "=" in name else rf".\{name}", "peek") as queue:
        return f"{name}: {[(m.body, hex(m.message_class), hex(m.failure_reason or 0)) for m in queue][:5]}"


@pytest.fixture
def pair(tmp_path: Path, seed: int) -> Iterator[tuple[Daemon, Daemon, list[Proxy]]]:
    """A and B, each reaching the other through a proxy of its own."""
    addresses = {name: free_address() for name in ("A", "B", "to A", "to B")}
    proxies = [
        Proxy((addresses[f"to {name}"], 1801), (addresses[name], 1801), seed + number, NETWORK)
        for number, name in enumerate("AB")
    ]
    with contextlib.ExitStack() as stack:
        for proxy in proxies:
            stack.enter_context(proxy)
        servers = []
        for name, other in (("A", "B"), ("B", "A")):
            settings = {**TIMERS, f"routes.{addresses[other]}": addresses[f"to {other}"]}
            server = Daemon(tmp_path / name, address=addresses[name], settings=settings)
            server.prepare(transactional=QUEUES if name == "B" else ())
            servers.append(stack.enter_context(server))
        yield servers[0], servers[1], proxies
        for server in servers:
            assert "Traceback" not in server.log, server.log


def exactly_once(pair: tuple[Daemon, Daemon, list[Proxy]], count: int, kills: int, cuts: int, seed: int) -> None:
    source, target, proxies = pair
    names = {queue: rf"DIRECT=TCP:{target.address}\private$\{queue}" for queue in QUEUES}
    sender = Sender(source, names, count, seed)
    start = time.monotonic()
    storm((source, target), proxies, sender, kills, cuts, seed)
    arrived = drained(source, target, sender)
    told = sum(proxy.cuts for proxy in proxies), sum(proxy.held for proxy in proxies)
    print(f"seed {seed}: {count} messages, {kills} kills, {told[0]} cuts, {told[1]} held connections, "
          f"{sum(proxy.accepted for proxy in proxies)} connections, {time.monotonic() - start:.1f} s")  # fmt: skip
    check(sender, arrived, seed)
    assert sum(map(len, arrived.values())) >= sum(len(g) for s in sender.sent.values() for g, sure in s.groups if sure)
    take_all(target)
    nothing_left_behind(source, target)


@pytest.mark.spec("QB-106", "QB-083", "QB-082", "QB-098", "QB-121", "QB-171", "QB-184", "QB-194", "QB-198")
@pytest.mark.timeout(1200)
def test_kills_and_cuts_lose_double_and_disorder_nothing(pair: tuple[Daemon, Daemon, list[Proxy]], seed: int) -> None:
    exactly_once(pair, 1500, 8, 15, seed)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.spec("QB-106")
def test_a_storm_of_kills_and_cuts_loses_doubles_and_disorders_nothing(
    pair: tuple[Daemon, Daemon, list[Proxy]], seed: int
) -> None:
    exactly_once(pair, 20_000, int(os.environ.get("LIOR_KILLS", "100")), 200, seed)


# Over a queue manager between the two


@pytest.fixture
def chain(tmp_path: Path, seed: int) -> Iterator[tuple[list[Daemon], list[Proxy], UUID]]:
    """A reaches B over R alone, and B answers over R: each knows the next hop to the other's GUID."""
    addresses = {name: free_address() for name in ("A", "R", "B", "to R", "to B")}
    servers = {name: Daemon(tmp_path / name, address=addresses[name], settings=dict(TIMERS)) for name in "ARB"}
    guids = {}
    for name, server in servers.items():
        server.prepare(transactional=QUEUES if name == "B" else ())
        with server.offline() as manager:
            guids[name] = UUID(str(manager.properties()["identifier"]))
    servers["A"].settings[f"routes.{guids['B']}"] = addresses["to R"]
    servers["R"].settings[f"routes.{guids['B']}"] = addresses["to B"]
    servers["R"].settings[f"routes.{guids['A']}"] = addresses["A"]
    servers["B"].settings[f"routes.{guids['A']}"] = addresses["R"]
    with contextlib.ExitStack() as stack:
        proxies = [
            stack.enter_context(Proxy((addresses[f"to {n}"], 1801), (addresses[n], 1801), seed, NETWORK)) for n in "RB"
        ]
        for server in servers.values():
            stack.enter_context(server)
        yield list(servers.values()), proxies, guids["B"]
        for server in servers.values():
            assert "Traceback" not in server.log, server.log


def over_a_router(chain: tuple[list[Daemon], list[Proxy], UUID], count: int, kills: int, cuts: int, seed: int) -> None:
    (source, router, target), proxies, guid = chain
    numbers = {queue: private_queue_number(rf".\private$\{queue}") for queue in QUEUES}
    names = {queue: rf"PRIVATE={guid}\{number:08x}" for queue, number in numbers.items()}
    sender = Sender(source, names, count, seed)
    storm((source, router, target), proxies, sender, kills, cuts, seed)
    arrived = drained(source, target, sender)
    print(f"seed {seed}: {count} messages over a router, {kills} kills, {sum(proxy.cuts for proxy in proxies)} cuts")
    check(sender, arrived, seed)
    take_all(target)
    nothing_left_behind(source, router, target)


@pytest.mark.spec("QB-106", "QB-155", "QB-171", "QB-199", "QB-207")
@pytest.mark.timeout(1200)
def test_store_and_forward_loses_doubles_and_disorders_nothing(
    chain: tuple[list[Daemon], list[Proxy], UUID], seed: int
) -> None:
    over_a_router(chain, 600, 6, 6, seed)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.spec("QB-106", "QB-155")
def test_a_storm_over_a_router_loses_doubles_and_disorders_nothing(
    chain: tuple[list[Daemon], list[Proxy], UUID], seed: int
) -> None:
    over_a_router(chain, 5000, int(os.environ.get("LIOR_KILLS", "100")), 100, seed)
