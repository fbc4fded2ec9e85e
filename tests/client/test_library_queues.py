"""The library's calls about queues and the queue manager, and what a restart, a backup and memory keep."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.errors import (
    AccessDenied,
    IllegalPropertyValue,
    LiorError,
    QueueNotAvailable,
    QueueNotFound,
    UnsupportedOperation,
)
from lior.message import Acknowledgements, MessageClass
from lior.security import Acl, SecurityDescriptor, SecurityInformation, local_caller
from lior.store.doctor import examine
from lior.store.record import decode, encode
from lior.store.schema import row_check
from tests.client.library_scenario import AUDIT, DEAD, LEDGER, ORDERS, bodies

# Queues and the queue manager


def test_queues_are_listed_changed_and_deleted(qm: lior.QueueManager) -> None:
    assert {q.path.rpartition("\\")[2] for q in qm.queues() if q.kind == "private"} == {"orders", "ledger", "audit"}
    qm.set_queue(ORDERS, label="Orders", journal=True, quota=1000)
    info = qm.queue(ORDERS)
    assert (info.properties["label"], info.properties["journaling"], info.properties["quota"]) == ("Orders", True, 1000)
    qm.send(ORDERS, b"x")
    qm.receive(ORDERS, 0)
    assert qm.queue(ORDERS).journal_messages == 1
    q = qm.open_queue(ORDERS)
    qm.delete_queue(ORDERS)
    assert not qm.exists(ORDERS) and qm.exists(LEDGER)
    with pytest.raises(QueueNotAvailable):
        q.receive(0)
    q.close()
    with pytest.raises(QueueNotFound):
        qm.send(ORDERS, b"x")
    qm.create_queue(ORDERS)
    qm.send(ORDERS, b"y")
    assert bodies(qm, ORDERS) == [b"y"]
    qm.purge_queue(ORDERS)
    assert bodies(qm, ORDERS) == []


def test_every_listed_queue_can_be_opened_by_its_format_name_before_and_after_a_restart(data: Path) -> None:
    for _ in range(2):
        with lior.open(data) as qm:
            if not qm.exists(ORDERS):
                qm.create_queue(ORDERS)
            names = [info.format_name for info in qm.queues()]
            assert len(names) >= 4
            for name in names:
                qm.open_queue(name, "peek").close()


def test_rights_are_read_and_set(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        before = qm.get_security(ORDERS)
        assert before.owner is not None and before.dacl is not None and before.dacl.aces
        qm.set_security(ORDERS, SecurityDescriptor(dacl=Acl(aces=())))
        after = qm.get_security(ORDERS, SecurityInformation.DACL)
        assert after.owner is None and after.dacl is not None and after.dacl.aces == ()
    stranger = local_caller(4711, (4711,), is_administrator=False)
    with lior.open(data, caller=stranger) as qm:
        for call in (lambda: qm.open_queue(ORDERS), lambda: qm.send(ORDERS, b""), lambda: qm.delete_queue(ORDERS),
                     lambda: qm.get_security(ORDERS)):
            with pytest.raises(AccessDenied):
                call()


def test_outgoing_queues_are_paused_and_resumed(qm: lior.QueueManager) -> None:
    far = r"DIRECT=OS:elsewhere.example\private$\orders"
    qm.send(far, b"x", recoverable=True)
    assert qm.queue(far).messages == 1 and qm.queue(far).kind == "outgoing"
    running = qm.queue(far).state
    qm.pause(far)
    assert qm.queue(far).state != running
    qm.resume(far)
    assert qm.queue(far).state == running
    with pytest.raises(UnsupportedOperation):
        qm.pause(ORDERS)


def test_properties_of_the_queue_manager_are_read_and_set(data: Path) -> None:
    with lior.open(data, name="here") as qm:
        assert qm.properties()["computer_name"] == "here" and qm.properties()["state"] == "ready"
        qm.set_properties(queue_manager_quota=500)
        qm.set_online(False)
        identifier = qm.properties()["identifier"]
        with pytest.raises(IllegalPropertyValue):
            qm.set_properties(nonsense=1)
    with lior.open(data, name="there") as qm:
        properties = qm.properties()
        assert (properties["identifier"], properties["computer_name"]) == (identifier, "there")
        assert (properties["queue_manager_quota"], properties["connection_active"]) == (500, False)
        qm.set_online(True)
        assert qm.properties()["connection_active"]


@pytest.mark.spec("DM-040", "DM-143", "MQ-085")
def test_recoverable_messages_survive_a_restart_and_express_ones_do_not(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        qm.send(ORDERS, b"express", express=True)
        properties: dict[str, Any] = {"label": "l", "extension": b"e", "priority": 5, "app_tag": 8}
        recoverable = qm.send(ORDERS, b"recoverable", recoverable=True, **properties)
        for express in (True, False):
            qm.send(r"DIRECT=OS:elsewhere.example\private$\x", b"far", express=express)
        before = qm.queue(ORDERS)
        assert before.messages == 2
    with lior.open(data) as qm:
        message = qm.receive(ORDERS, 0)
        assert (message.body, message.identifier, message.label) == (b"recoverable", recoverable, "l")
        assert (message.extension, message.priority, message.application_tag) == (b"e", 5, 8)
        assert qm.queue(r"DIRECT=OS:elsewhere.example\private$\x").messages == 1
        assert bodies(qm, ORDERS) == []


@pytest.mark.spec("DM-013")
def test_identifiers_and_lookup_ids_go_on_after_a_restart(data: Path) -> None:
    seen: list[tuple[int, int]] = []
    for run in range(4):
        with lior.open(data) as qm:
            if not run:
                qm.create_queue(ORDERS)
                qm.create_queue(LEDGER, transactional=True)
            for queue in (ORDERS, LEDGER, ORDERS):
                sent = qm.send(queue, b"x", recoverable=True)
                seen.append((sent.uniquifier, qm.receive(queue, 0).lookup_identifier & ((1 << 56) - 1)))
    assert seen == sorted(set(seen)) and len({lookup for _, lookup in seen}) == len(seen)


@pytest.mark.spec("DM-063")
def test_what_expired_while_nobody_ran_is_a_dead_letter_before_anybody_reads(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        qm.create_queue(AUDIT)
        qm.send(ORDERS, b"x", recoverable=True, time_to_be_received=1, admin_queue=rf"DIRECT=OS:{AUDIT}",
                acknowledge=Acknowledgements.FULL_RECEIVE)
        qm.send(ORDERS, b"y", recoverable=True, time_to_be_received=1000)
    # What the store keeps is what counts after the restart: send it long ago there, instead of waiting.
    with sqlite3.connect(data / "store.db") as connection:
        connection.create_function("row_check", 8, row_check, deterministic=True)
        [(header,)] = connection.execute("SELECT hdr FROM m WHERE body=x'78'")
        message = decode(header, b"x")
        message.sent_time = 1_000_000_000.0
        connection.execute(
            "UPDATE m SET e=1000000001, hdr=?, k=row_check(q, l, n, 1000000001, t, a, v, u) WHERE body=x'78'",
            (encode(message),))
    connection.close()
    with lior.open(data) as qm:
        assert bodies(qm, ORDERS) == [b"y"]
        with qm.open_queue(DEAD) as dead:
            assert dead.receive(0).failure_reason == MessageClass.NACK_RECEIVE_TIMEOUT
        assert qm.receive(AUDIT, 0).message_class == MessageClass.NACK_RECEIVE_TIMEOUT


def test_a_backup_made_while_messages_flow_opens_as_a_queue_manager(qm: lior.QueueManager, tmp_path: Path) -> None:
    for number in range(20):
        qm.send(LEDGER, b"%d" % number)
    copy = tmp_path / "copy"
    copy.mkdir()
    qm.backup(str(copy / "store.db"))
    qm.purge_queue(LEDGER)
    with lior.open(copy) as other:
        assert bodies(other, LEDGER) == [b"%d" % number for number in range(20)]
        assert other.queue(AUDIT).transactional
    with pytest.raises(LiorError):
        qm.backup(str(copy / "store.db"))
    assert examine(copy).healthy


def test_compacting_gives_space_back_while_in_use(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        for _ in range(50):
            qm.send(ORDERS, bytes(50_000), recoverable=True)
    with lior.open(data) as qm:
        qm.purge_queue(ORDERS)
        assert qm.compact() > 1_000_000
        qm.send(ORDERS, b"x")
        assert bodies(qm, ORDERS) == [b"x"]


def test_in_memory_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with lior.open(":memory:") as qm:
        qm.create_queue(ORDERS, transactional=True)
        with qm.transaction() as tx:
            tx.send(ORDERS, b"x")
        assert qm.receive(ORDERS, 0).body == b"x"
        assert qm.compact() == 0
    assert list(tmp_path.iterdir()) == []
    with lior.open(":memory:") as qm:
        assert not qm.exists(ORDERS)
