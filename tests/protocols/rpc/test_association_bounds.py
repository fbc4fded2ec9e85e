"""What a connection may hold, for how long: handles, timers, memory."""

from __future__ import annotations

import pytest

from lior.errors import InvalidHandle
from lior.protocols.rpc.call import Close
from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.groups import NULL_HANDLE
from lior.protocols.rpc.server_association import Budget, ServerAssociation
from lior.security import ANONYMOUS_CALLER
from lior.wire import rpc_pdu as pdu
from tests.protocols.rpc.associations import bind, bound, fault, first, pdus, request
from tests.protocols.rpc.peers import ALICE, BOB, Peers, invoked, sent

# Handles


@pytest.mark.spec("MP-018", "MP-028")
def test_a_handle_belongs_to_its_group_its_identity_and_its_kind() -> None:
    peers = Peers()
    one, server = peers.connected()
    ran_down: list[str] = []
    group = server.group
    assert group is not None
    handle = group.handles.open("queue", "the value", lambda: ran_down.append("queue"), ALICE)
    assert len(handle) == 20
    assert handle[:4] == bytes(4)
    _, joined = peers.connected(group_id=one.group_id)
    _, other = peers.connected()
    assert joined.group is group
    assert group.handles.find(handle, "queue", ALICE) == "the value"
    assert other.group is not None
    for handles, given, kind, caller in (
        (other.group.handles, handle, "queue", ALICE), (group.handles, handle, "transaction", ALICE),
        (group.handles, handle, "queue", BOB), (group.handles, NULL_HANDLE, "queue", ALICE),
        (group.handles, handle[:-1] + b"?", "queue", ALICE),
    ):  # fmt: skip
        with pytest.raises(RpcFault) as refused:
            handles.find(given, kind, caller)
        assert refused.value.status == 0x1C00001A
    for connection in (server, other):
        connection.connection_lost()
        connection.leave()
    assert ran_down == []
    joined.connection_lost()
    joined.leave()
    assert ran_down == ["queue"]
    assert len(peers.groups) == 0


def test_a_handle_that_was_closed_is_not_run_down() -> None:
    _, server = Peers().connected()
    assert server.group is not None
    handle = server.group.handles.open("queue", 1, lambda: pytest.fail("run down"), ALICE)
    server.group.handles.close(handle)
    with pytest.raises(RpcFault):
        server.group.handles.find(handle, "queue", ALICE)
    server.leave()


def test_a_rundown_that_fails_keeps_no_other_handle() -> None:
    peers = Peers()
    _, server = peers.connected()
    assert server.group is not None
    ran_down: list[int] = []

    def gone() -> None:
        ran_down.append(0)
        raise InvalidHandle("the queue was deleted")

    def broken() -> None:
        ran_down.append(1)
        raise RuntimeError("a bug")

    for rundown in (gone, broken, lambda: ran_down.append(2)):
        server.group.handles.open("queue", 1, rundown, ALICE)
    with pytest.raises(RuntimeError):
        server.leave()
    assert sorted(ran_down) == [0, 1, 2]
    assert len(peers.groups) == 0


def test_a_client_has_no_more_handles_than_allowed() -> None:
    _, server = Peers().connected()
    assert server.group is not None
    for _ in range(3):
        server.group.handles.open("queue", 1, lambda: None, ALICE)
    with pytest.raises(RpcFault) as refused:
        server.group.handles.open("queue", 1, lambda: None, ALICE)
    assert refused.value.status == 0x1C00001B


# Timers


def test_a_client_that_does_not_bind_or_finish_is_given_up() -> None:
    server = Peers(bind_timeout=10, fragment_timeout=30).server(now=100.0)
    assert server.timeout(109.0) == []
    server.receive(bind(first())[:20], 109.0)
    assert isinstance(server.timeout(110.0)[0], Close)

    server = bound(Peers(bind_timeout=10, fragment_timeout=30))
    assert server.deadline is None
    server.receive(request(3, b"x", pdu.FIRST_FRAG), 50.0)
    server.receive(request(3, b"x", 0), 70.0)  # drop by drop does not help
    assert server.deadline == 80.0
    server.receive(request(3, b"x", pdu.LAST_FRAG), 79.0)
    assert server.deadline is None
    server.receive(request(4, b"xxxxx")[:-1], 90.0)
    assert isinstance(server.timeout(120.0)[0], Close)
    assert server.timeout(121.0) == []


def test_a_busy_connection_is_not_taken_for_a_slow_one() -> None:
    server = bound(Peers(fragment_timeout=30))
    data = request(3, b"x" * 100)
    stream = b"".join(request(n, b"x" * 100) for n in range(3, 200))
    at = 0
    for second in range(len(stream) // (len(data) + 1)):
        for call in invoked(server.receive(stream[at:at + len(data) + 1], float(second))):
            server.respond(call, b"", 0.0)
        at += len(data) + 1
        assert server.timeout(float(second)) == []
    server = bound(Peers(fragment_timeout=30))
    server.receive(request(3, b"x", pdu.FIRST_FRAG) + data[:5], 0.0)
    server.receive(data[5:20], 29.0)
    assert server.deadline == 30.0


def test_who_has_not_said_who_he_is_does_not_stay_for_nothing() -> None:
    for caller, timeout, leaves in ((ANONYMOUS_CALLER, 60, True), (ANONYMOUS_CALLER, 0, False), (ALICE, 60, False)):
        server = Peers(open_timeout=timeout).server(caller=caller)
        server.receive(bind(first()), 0.0)
        server.receive(request(3, b"x"), 50.0)
        assert server.timeout(109.0) == []
        assert bool(server.timeout(110.0)) == leaves


# Memory


def test_all_connections_together_hold_no_more_than_the_budget() -> None:
    peers = Peers()
    budget = Budget(10_000)
    servers = [ServerAssociation(peers.interfaces, peers.groups, {}, peers.settings, 0.0, peer="x", client="x",
                                 caller=ALICE, budget=budget) for _ in range(4)]
    for server in servers:
        server.receive(bind(first()), 0.0)
    statuses = []
    for server in servers:
        server.receive(request(3, bytes(3000), pdu.FIRST_FRAG), 0.0)
        effects = server.receive(request(3, bytes(3000), 0), 0.0)
        statuses += [fault(each)[1] for each in pdus(sent(effects))]
    assert statuses == [0x1C010014] * 3
    assert budget.held == 6000
    assert len(invoked(servers[1].receive(request(9, b"small"), 0.0))) == 1
    for server in servers:
        server.connection_lost()
        server.leave()
    assert budget.held == 0


def test_who_has_not_said_who_he_is_gets_little_memory() -> None:
    for caller, limit in ((ALICE, 5000), (ANONYMOUS_CALLER, 1000)):
        server = Peers(max_stub=5000, max_open_stub=1000).server(caller=caller)
        server.receive(bind(first()), 0.0)
        server.receive(request(3, bytes(limit), pdu.FIRST_FRAG), 0.0)
        assert fault(sent(server.receive(request(3, b"x", pdu.LAST_FRAG), 0.0))) == (3, 5)
        assert server.bytes_in_flight == 0
