"""A backlog that waited for its destination leaves with never more than the window in flight."""

from __future__ import annotations

import pytest

from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import UserMessage, order_queue_of
from tests.interop.second_peer import Identity, Session
from tests.interop.test_sending import to

KINDS = ("express", "recoverable", "transactional")
COUNT = 1000


def fill(server: Daemon, me: Identity, kind: str) -> None:
    if kind == "transactional":
        for start in range(0, COUNT, 100):
            with server.qm.transaction() as transaction:
                for number in range(start, start + 100):
                    transaction.send(to(me, kind), b"%d" % number)
        return
    with server.qm.open_queue(to(me, kind), "send") as queue:
        for number in range(COUNT):
            queue.send(b"%d" % number, express=kind == "express")


class Drain:
    """Takes everything, acknowledges in steps, and watches how much was in flight."""

    def __init__(self, session: Session, step: int) -> None:
        self.session, self.step = session, step
        self.told = 0  # acknowledged by us
        self.most = 0

    def take(self, count: int) -> None:
        while self.session.received < count:
            self.session.next()
            self.most = max(self.most, self.session.received - self.told)
            if self.session.received - self.told >= self.step or self.session.received == count:
                self.acknowledge()

    def acknowledge(self) -> None:
        self.session.acknowledge()
        while self.session.recoverable_acked < self.session.recoverable_received:
            self.session.acknowledge()
        self.told = self.session.received

    def bodies(self, kind: str) -> list[int]:
        messages = [m for m in self.session.messages if m.destination and m.destination.text.endswith(kind)]
        return [int(message.body) for message in messages]


def confirm(server: Daemon, messages: list[UserMessage], session: Session) -> None:
    """One OrderAck for the last of each stream."""
    last: dict[int, int] = {}
    for message in messages:
        if message.transaction is not None:
            last[message.transaction.stream] = message.transaction.number
    for stream, number in last.items():
        session.order_ack(order_queue_of(server.address), stream, number)


@pytest.mark.spec("QB-122", "QB-181", "QB-095", "QB-206", "QB-123")
@pytest.mark.parametrize(("window", "step"), [(64, 64), (64, 7), (8, 3)])
def test_a_backlog_of_every_kind_leaves_within_the_window(server: Daemon, me: Identity, window: int, step: int) -> None:
    for kind in KINDS:
        fill(server, me, kind)
    assert server.outgoing(me.address) == 3 * COUNT
    with me.listen() as listener, listener.accept(window=window) as session:
        drain = Drain(session, step)
        drain.take(3 * COUNT)
        assert step <= drain.most <= window
        for kind in KINDS:
            assert drain.bodies(kind) == list(range(COUNT))
        confirm(server, session.messages, session)
        eventually(lambda: not server.outgoing(me.address), what="an empty outgoing queue")
        session.nothing(0.2)


def wait_for_at_most(server: Daemon, me: Identity, count: int) -> None:
    eventually(lambda: server.outgoing(me.address) <= count)


@pytest.mark.spec("QB-121", "QB-198")
def test_a_backlog_leaves_over_many_connections_without_a_loss_or_a_double_in_a_stream(
    server: Daemon, me: Identity
) -> None:
    """Each connection ends after some hundred messages; what was acknowledged does not come again."""
    fill(server, me, "transactional")
    fill(server, me, "recoverable")
    stored: set[int] = set()
    accepted = 0
    with me.listen() as listener:
        while server.outgoing(me.address):
            with listener.accept() as session:
                for packet in session.arriving(0.3):
                    assert isinstance(packet, UserMessage)
                    number = int(packet.body)
                    if packet.transaction is None:
                        assert number not in stored
                        stored.add(number)
                    elif packet.transaction.previous <= accepted < packet.transaction.number:
                        assert packet.transaction.number == accepted + 1
                        accepted = packet.transaction.number
                    if session.received % 30 == 0:
                        session.acknowledge()
                    if session.received == 330:
                        break
                while session.recoverable_acked < session.recoverable_received:
                    session.acknowledge()
                session.acknowledge()
                confirm(server, session.messages, session)
                wait_for_at_most(server, me, 2 * COUNT - len(stored) - accepted)
    assert (len(stored), accepted) == (COUNT, COUNT)
