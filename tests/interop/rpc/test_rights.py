"""Every method of the client protocol against every right of a queue, from outside ([MS-MQMQ] 2.2.24)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import pytest

from lior import embedded
from tests.interop.daemon import free_address
from tests.interop.rpc.conftest import Queue, RpcDaemon, Sign, login
from tests.interop.rpc.impacket_client import ImpacketPeer
from tests.interop.rpc.verbs import INTEGRITY, PEEK, PEEK_CURRENT, RECEIVE, SEND, Outcome, Peer

SETTINGS = {"rpc.anonymous": "allow"}
TAKE_MESSAGE, LOOK, WRITE, JOURNAL, SET, GET = 1, 2, 4, 8, 0x10, 0x20
DELETE, READ_SECURITY, CHANGE_SECURITY, TAKE_OWNERSHIP = 0x10000, 0x20000, 0x40000, 0x80000
BITS = (TAKE_MESSAGE, LOOK, WRITE, JOURNAL, SET, GET, DELETE, READ_SECURITY, CHANGE_SECURITY, TAKE_OWNERSHIP)
EVERYTHING = sum(BITS)
DENIED, NOT_FOUND = 0xC00E0025, 0xC00E0003
EVERYONE = bytes.fromhex("010100000000000100000000")
ANONYMOUS = bytes.fromhex("010100000000000507000000")


def sid_of(server: RpcDaemon, user: str) -> bytes:
    text = next(found["sid"] for found in embedded.accounts(server.data).list() if found["name"] == user)
    parts = [int(part) for part in str(text).split("-")[2:]]
    return struct.pack(">BB2xI", 1, len(parts) - 1, parts[0]) + struct.pack(f"<{len(parts) - 1}I", *parts[1:])


def descriptor(*entries: tuple[int, int, bytes], owner: bytes = b"") -> bytes:
    """Self-relative ([MS-DTYP] 2.4.6); entries are (0 allow or 1 deny, mask, SID)."""
    aces = b"".join(struct.pack("<BBHI", kind, 0, 8 + len(sid), mask) + sid for kind, mask, sid in entries)
    acl = struct.pack("<BBHHH", 2, 0, 8 + len(aces), len(entries), 0) + aces
    return struct.pack("<BBHIIII", 1, 0, 0x8004, 20 + len(acl) if owner else 0, 0, 0, 20) + acl + owner


def _open(access: int) -> Callable[[Peer, Queue], Outcome]:
    def run(peer: Peer, queue: Queue) -> Outcome:
        outcome = peer.open(queue.direct, access)
        if outcome.code == 0:
            peer.close_queue(outcome["queue"]).ok()
        return outcome

    return run


def _change_owner(peer: Peer, queue: Queue) -> Outcome:
    return peer.set_security(queue.direct, 1, struct.pack("<BBHIIII", 1, 0, 0x8000, 20, 0, 0, 0) + queue.reader)


METHODS: dict[str, tuple[int, Callable[[Peer, Queue], Outcome]]] = {
    "open to send": (WRITE, _open(SEND)),
    "open to peek": (LOOK, _open(PEEK)),
    "open to receive": (LOOK | TAKE_MESSAGE, _open(RECEIVE)),
    "get properties": (GET, lambda peer, queue: peer.get(queue.direct, {108: "null:"})),
    "set properties": (SET, lambda peer, queue: peer.set(queue.direct, {108: "wstr:changed"})),
    "get security": (READ_SECURITY, lambda peer, queue: peer.get_security(queue.direct, 7, 4096)),
    "set security": (CHANGE_SECURITY, lambda peer, queue: peer.set_security(queue.direct, 4, queue.granted)),
    "set owner": (TAKE_OWNERSHIP, _change_owner),
    "delete": (DELETE, lambda peer, queue: peer.delete(queue.direct)),
}


def grant(peer: Peer, queue: Queue, sid: bytes, mask: int) -> None:
    queue.reader, queue.granted = sid, descriptor((0, mask, sid))
    peer.set_security(queue.direct, 4, queue.granted).ok()


@pytest.mark.spec("MP-008", "MP-104")
@pytest.mark.parametrize("mask", [0, *BITS, LOOK | TAKE_MESSAGE], ids=hex)
def test_a_method_needs_its_right_and_no_other(
    server: RpcDaemon, sign_in: Sign, queue_name: str, mask: int
) -> None:
    root, bob = sign_in("root"), sign_in("bob")
    sid = sid_of(server, "bob")
    for number, (method, (needed, run)) in enumerate(METHODS.items()):
        queue = Queue(root, f"{queue_name}x{number}")
        grant(root, queue, sid, mask)
        outcome = run(bob, queue)
        if needed & ~mask:
            assert outcome.code == DENIED, f"{method}: {outcome.code:#x} with {mask:#x}"
            assert root.get(queue.direct, {108: "null:"}).ok()["108"] == ""
        else:
            assert outcome.code == 0, f"{method}: {outcome.code:#x} with {mask:#x}"


@pytest.mark.spec("MP-008")
@pytest.mark.parametrize("method", METHODS)
def test_a_denied_right_wins_over_a_granted_one(
    server: RpcDaemon, sign_in: Sign, queue_name: str, method: str
) -> None:
    root, bob = sign_in("root"), sign_in("bob")
    sid = sid_of(server, "bob")
    needed, run = METHODS[method]
    queue = Queue(root, queue_name)
    grant(root, queue, sid, EVERYTHING)
    root.set_security(queue.direct, 4, descriptor((1, needed, sid), (0, EVERYTHING, EVERYONE))).ok()
    assert run(bob, queue).code == DENIED
    assert METHODS["get properties"][1](sign_in("alice"), queue).code == 0


@pytest.mark.spec("MP-116")
def test_who_may_not_see_a_queue_does_not_learn_that_it_is_there(sign_in: Sign, queue: Queue, peer: Peer) -> None:
    peer.set_security(queue.direct, 4, descriptor()).ok()
    bob = sign_in("bob")
    assert bob.find(queue.path).code == bob.find(queue.path + "none").code == NOT_FOUND


@pytest.mark.spec("MP-009")
def test_nobody_is_the_anonymous_user(server: RpcDaemon, sign_in: Sign, queue: Queue, peer: Peer) -> None:
    """Where the administrator lets callers without a name in, they are S-1-5-7."""
    nobody = sign_in(None)
    peer.set_security(queue.direct, 4, descriptor((1, TAKE_MESSAGE, ANONYMOUS), (0, EVERYTHING, EVERYONE))).ok()
    assert nobody.open(queue.direct, RECEIVE).code == DENIED
    peer.set_security(queue.direct, 4, descriptor((0, EVERYTHING, sid_of(server, "bob")))).ok()
    assert nobody.open(queue.direct, PEEK).code == DENIED
    peer.set_security(queue.direct, 4, descriptor((0, LOOK, ANONYMOUS))).ok()
    looking = nobody.open(queue.direct, PEEK).ok()["queue"]
    assert nobody.receive(looking, PEEK_CURRENT).code == 0xC00E001B
    assert nobody.open(queue.direct, RECEIVE).code == DENIED


def test_a_new_queue_is_open_to_send_and_closed_to_read(sign_in: Sign, queue: Queue) -> None:
    bob = sign_in("bob")
    bob.send(bob.open(queue.direct, SEND).ok()["queue"], body=b"from bob").ok()
    for access in (PEEK, RECEIVE):
        assert bob.open(queue.direct, access).code == DENIED
    assert bob.delete(queue.direct).code == bob.set(queue.direct, {108: "wstr:x"}).code == DENIED


@pytest.mark.spec("MP-161")
def test_nobody_sends_under_another_name(server: RpcDaemon, sign_in: Sign, queue: Queue, peer: Peer) -> None:
    """ppSenderID of the client is only a claim: refused, or replaced by who signed in."""
    bob = sign_in("bob")
    sender, reader = bob.open(queue.direct, SEND).ok()["queue"], queue.open(RECEIVE)
    root = sid_of(server, "root")
    outcome = bob.send(sender, body=b"x", sender_id=root, sender_id_type=1)
    if outcome.code == 0:
        found = peer.receive(reader).ok()["message"]
        assert found.sender_id_type == 0 or found.sender_id == sid_of(server, "bob")
    assert bob.send(sender, body=b"own", sender_id=sid_of(server, "bob"), sender_id_type=1).code == 0
    assert peer.receive(reader).ok()["message"].sender_id == sid_of(server, "bob")


@pytest.mark.spec("MP-121")
def test_a_unit_of_work_is_its_owners(stream_queue: Queue, sign_in: Sign, peer: Peer, server: RpcDaemon) -> None:
    """Its 16 bytes are no ticket for others."""
    bob, uow = sign_in("bob"), os.urandom(16)
    transaction = peer.enlist(uow).ok()
    sender = bob.open(stream_queue.direct, SEND).ok()["queue"]
    assert bob.send(sender, body=b"smuggled", uow=uow).code & 0x80000000
    assert bob.enlist(uow).code == 0xC00E0051
    peer.commit(transaction["handle"]).ok()
    assert server.bodies(stream_queue.name) == []


@pytest.mark.spec("MP-176")
def test_a_queue_context_is_its_owners(queue: Queue, sign_in: Sign, peer: Peer, server: RpcDaemon) -> None:
    """pdwQMContext is only a number: others, and the same user on another host, cannot use it."""
    peer.send(queue.open(SEND), body=b"kept").ok()
    reader = queue.open(RECEIVE)
    cursor = peer.cursor(reader).ok()["cursor"]
    elsewhere = ImpacketPeer(server.address, login("root", level=INTEGRITY), source=free_address())
    for thief in (sign_in("bob"), sign_in(None), elsewhere):
        for action in (0, PEEK_CURRENT):
            assert thief.receive(reader, action).code & 0x80000000
            assert thief.receive(reader, action, cursor=cursor).code & 0x80000000
    elsewhere.close()
    assert server.bodies(queue.name) == [b"kept"]
    assert peer.receive(reader).ok()["message"].body == b"kept"
