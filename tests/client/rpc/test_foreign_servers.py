"""Servers that are not Lior: what their documented interfaces offer works, the rest says that it is not offered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lior
from lior.client.rpc.handles import ClassicHandle, ReadHandle
from lior.errors import MessageNotFound, QueueExists, QueueNotFound, Timeout, UnsupportedOperation
from lior.message import ObjectId
from lior.protocols.rpc.faults import OPERATION_RANGE
from lior.security import SecurityInformation
from lior.wire.interfaces.lior_session import LIOR
from lior.wire.interfaces.remote_read import REMOTE_READ
from tests.client.library_scenario import LEDGER, ORDERS, bodies
from tests.client.served import served

SERVERS = {"modern": (LIOR,), "old": (LIOR, REMOTE_READ)}  # by what they do not have


@pytest.fixture(params=SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def foreign(tmp_path: Path, kind: str) -> Iterator[lior.QueueManager]:
    data = tmp_path / "data"
    with served(data, without=SERVERS[kind]), lior.connect(data) as qm:
        qm.create_queue(ORDERS)
        qm.create_queue(LEDGER, transactional=True, label="the ledger", journal=True, quota=1000)
        yield qm


@pytest.mark.spec("MP-192", "MP-194")
def test_messages_are_sent_peeked_and_received(foreign: lior.QueueManager, kind: str) -> None:
    correlated = bytes(range(20))
    sent = foreign.send(
        ORDERS, b"one", label="grüße", priority=5, app_tag=7, extension=b"ext", correlation_id=correlated)
    with foreign.open_queue(ORDERS) as q:
        assert isinstance(q.aio.handle, ReadHandle if kind == "modern" else ClassicHandle)
        assert q.peek(0).body == b"one"
        message = q.receive(0)
        assert (message.identifier, message.label, message.priority) == (sent, "grüße", 5)
        assert (message.application_tag, message.extension) == (7, b"ext")
        assert message.correlation_id == correlated and message.arrival_time > 0
        with pytest.raises(Timeout):
            q.receive(0.01)


def test_figures_of_a_queue_are_told(foreign: lior.QueueManager) -> None:
    for body in (b"one", b"three"):
        foreign.send(ORDERS, body)
    found = foreign.queue(ORDERS)
    assert (found.messages, found.transactional) == (2, False) and found.bytes >= 8
    assert (foreign.queue(LEDGER).messages, foreign.queue(LEDGER).transactional) == (0, True)


@pytest.mark.spec("MP-194")
def test_buffers_grow_to_what_a_message_needs(foreign: lior.QueueManager) -> None:
    response = rf"DIRECT=OS:here\private$\{'x' * 120}"
    for size in (0, 4096, 4097, 300_000):
        foreign.send(ORDERS, bytes(size), extension=bytes(100), response_queue=response, label="y" * 249)
    with foreign.open_queue(ORDERS) as q:
        for size in (0, 4096, 4097, 300_000):
            message = q.receive(0)
            assert len(message.body) == size and len(message.extension) == 100 and len(message.label) == 249


@pytest.mark.spec("MP-191")
def test_a_cursor_walks_the_queue(foreign: lior.QueueManager) -> None:
    for number in range(4):
        foreign.send(ORDERS, b"%d" % number)
    with foreign.open_queue(ORDERS) as q, q.cursor() as cursor:
        assert cursor.current(0).body == b"0"
        assert cursor.next(0).body == b"1"
        assert cursor.receive(0).body == b"1"
        assert cursor.current(0).body == b"2"
    assert bodies(foreign, ORDERS) == [b"0", b"2", b"3"]


def test_transactions_commit_and_abort(foreign: lior.QueueManager, kind: str) -> None:
    with foreign.transaction() as tx:
        tx.send(LEDGER, b"a")
        tx.send(LEDGER, b"b")
    first, second = foreign.receive(LEDGER, 0), foreign.receive(LEDGER, 0)
    for message, flags in ((first, (True, False)), (second, (False, True))):
        assert message.transaction is not None
        assert (message.transaction.first_in_transaction, message.transaction.last_in_transaction) == flags
    foreign.send(LEDGER, b"c")  # in a transaction of its own: R_QMGetObjectProperties says that the queue wants one
    with pytest.raises(ZeroDivisionError), foreign.transaction() as tx:
        assert tx.receive(LEDGER, 0).body == b"c"
        raise ZeroDivisionError
    with foreign.transaction() as tx:
        assert tx.receive(LEDGER, 0).body == b"c"
    assert bodies(foreign, LEDGER) == []


@pytest.mark.spec("MP-186", "MP-188")
def test_queues_are_created_changed_described_purged_and_deleted(foreign: lior.QueueManager) -> None:
    info = foreign.queue(LEDGER)
    assert info.transactional and info.properties["label"] == "the ledger" and info.properties["quota"] == 1000
    foreign.set_queue(LEDGER, label="new", quota=77)
    assert foreign.queue(LEDGER).properties["label"] == "new"
    with pytest.raises(QueueExists):
        foreign.create_queue(LEDGER)
    foreign.send(ORDERS, b"x")
    foreign.purge_queue(ORDERS)
    assert bodies(foreign, ORDERS) == []
    foreign.delete_queue(ORDERS)
    assert not foreign.exists(ORDERS)
    with pytest.raises(QueueNotFound):
        foreign.send(ORDERS, b"x")


@pytest.mark.spec("MP-187")
def test_security_is_read_and_written(foreign: lior.QueueManager) -> None:
    security = foreign.get_security(ORDERS)
    assert security.owner is not None
    foreign.set_security(ORDERS, security, SecurityInformation.DACL)
    assert foreign.get_security(ORDERS).dacl == security.dacl


def test_what_is_not_offered_says_so(foreign: lior.QueueManager, kind: str, tmp_path: Path) -> None:
    foreign.send(ORDERS, b"x")
    for call in (
        foreign.queues, foreign.outgoing, foreign.connections, foreign.transactions, foreign.compact,
        lambda: foreign.trace("x"), lambda: foreign.backup(str(tmp_path / "b")),
        lambda: foreign.pause("DIRECT=OS:a\\b"), lambda: foreign.set_online(False),
        lambda: foreign.set_properties(queue_manager_quota=1), lambda: foreign.set_queue(ORDERS, max_aborts=1),
        lambda: foreign.send(ORDERS, b"x", dead_letter_queue=f"DIRECT=OS:{LEDGER}"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedOperation):
            call()
    with foreign.open_queue(ORDERS) as q:
        with pytest.raises(UnsupportedOperation):
            q.peek_by_lookup_id(0, "last")
        if kind == "old":
            with pytest.raises(UnsupportedOperation), q.hold(0):
                pass
            with pytest.raises(UnsupportedOperation):
                q.peek_by_lookup_id(1)
    assert bodies(foreign, ORDERS) == [b"x"]


@pytest.mark.parametrize("kind", ["modern"], indirect=True)
def test_remote_read_gives_lookups_holds_moves_and_rejections(foreign: lior.QueueManager) -> None:
    for number in range(3):
        foreign.send(ORDERS, b"%d" % number)
    with foreign.open_queue(ORDERS) as q:
        ids = [message.lookup_identifier for message in q]
        assert q.peek_by_lookup_id(ids[1]).body == b"1"
        assert q.peek_by_lookup_id(ids[1], "previous").body == b"0"
        assert q.peek_by_lookup_id(0, "first").body == b"0"
        with q.hold(0) as message:
            assert message.body == b"0" == message.body
            assert bodies(foreign, ORDERS) == [b"1", b"2"]
        with pytest.raises(ZeroDivisionError), q.hold(lookup_id=ids[1]):
            raise ZeroDivisionError
        with pytest.raises(MessageNotFound):
            q.peek_by_lookup_id(ids[0])
        q.move(ids[2], "later")
    assert bodies(foreign, ORDERS) == [b"1"] and bodies(foreign, ORDERS + ";later") == [b"2"]


def test_who_serves_is_told(foreign: lior.QueueManager) -> None:
    """R_QMQueryQMRegistryInternal gives what a signature needs."""
    assert foreign.properties()["identifier"]
    assert isinstance(foreign.send(ORDERS, b"x"), ObjectId)


@pytest.mark.spec("MP-020")
def test_a_whole_day_of_calls_uses_no_reserved_opnum(tmp_path: Path, kind: str) -> None:
    """A server refuses those, and counts what it refuses."""
    data = tmp_path / "data"
    with served(data, without=SERVERS[kind]) as server, lior.connect(data) as qm:
        qm.create_queue(ORDERS, label="x")
        qm.create_queue(LEDGER, transactional=True)
        qm.set_queue(ORDERS, quota=1000)
        qm.set_security(ORDERS, qm.get_security(ORDERS))
        for number in range(3):
            qm.send(ORDERS, b"%d" % number)
        with qm.open_queue(ORDERS) as q, q.cursor() as cursor:
            cursor.current(0), cursor.next(0), cursor.receive(0), q.peek(0), q.receive(0)
        for commit in (True, False):
            tx = qm.transaction().begin()
            tx.send(LEDGER, b"x")
            tx.commit() if commit else tx.abort()
        with qm.transaction() as tx:
            tx.receive(LEDGER, 0)
        assert qm.queue(ORDERS).properties["quota"] == 1000 and qm.properties()["identifier"]
        qm.purge_queue(ORDERS)
        qm.delete_queue(ORDERS)
        assert server.rpc is not None and server.rpc.dispatcher.calls > 30
        assert OPERATION_RANGE not in server.rpc.dispatcher.faults
