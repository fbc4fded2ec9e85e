"""What survives a restart, and what a queue manager does before it serves ([MS-MQDMPR] 3.1.1, 3.1.3)."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from lior.errors import StoreCorrupt
from lior.message import Message
from lior.names import LocalNames
from lior.queues.change import Change
from lior.queues.definition import QueueManagerProperties, QueueProperties
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import MessageAwaitsTransfer
from lior.queues.manager import QueueManager
from lior.queues.outgoing import (
    ConnectionHistoryEntry,
    ConnectionStatus,
    IncomingTransactionalTransferInfo,
    OutgoingQueue,
    OutgoingState,
)
from lior.queues.ports import DeleteQueue
from lior.security import Acl, SecurityDescriptor, allow, unix_user_sid
from lior.testing.clock import FakeClock
from lior.testing.engine import IDENTIFIER, Answer, ManualEngine
from lior.testing.ids import SeededIds
from tests.queues.conftest import Host

REMOTE = r"DIRECT=TCP:192.0.2.99\private$\q"
PATH = r".\private$\q"

EVERYTHING: dict[str, Any] = {
    "label": "orders of today",
    "type": UUID("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"),
    "journaling": True,
    "quota": 4000,
    "journal_quota": 300,
    "authentication": True,
    "privacy_level": 2,
    "transactional": False,
    "multicast_address": "224.1.1.1:8001",
    "security": SecurityDescriptor(owner=unix_user_sid(7), dacl=Acl.of(allow(unix_user_sid(7), 0x2B))),
    "max_aborts": 4,
    "description": {"team": "billing"},
}


def outgoing(engine: ManualEngine, name: str = REMOTE) -> OutgoingQueue:
    queue = engine.manager.find_queue(name)
    assert isinstance(queue, OutgoingQueue)
    return queue


# --- identity


@pytest.mark.spec("DM-002")
def test_the_guid_survives_restart_upgrade_and_another_host_name(host: Host) -> None:
    first = host.engine.create()
    again = host.crash(name="renamed", queue_manager_version="9.9")
    properties = again.manager.core.properties
    assert properties.identifier == IDENTIFIER
    assert properties.computer_name == "renamed"
    assert properties.queue_manager_version == "9.9"
    queue = again.manager.find_queue(r"renamed\private$\q")
    assert queue.identifier == first.identifier
    assert str(queue.path) == r"renamed\private$\q"


@pytest.mark.spec("DM-002")
def test_a_new_installation_over_an_old_store_keeps_the_old_guid_in_names_too(host: Host) -> None:
    queue = host.engine.create()
    other = UUID("99999999-9999-9999-9999-999999999999")
    manager = QueueManager(
        QueueManagerProperties(other, "lior"),
        LocalNames("lior", "", frozenset(), other),
        host.engine.store,
        FakeClock(),
        SeededIds(5),
    )
    manager.start()
    assert manager.core.properties.identifier == IDENTIFIER
    assert manager.find_queue(f"PRIVATE={IDENTIFIER}\\{queue.private_number:08x}").identifier == queue.identifier


@pytest.mark.spec("DM-001", "DM-009")
def test_properties_and_modes_of_the_queue_manager_survive(host: Host) -> None:
    changes = {
        "hardened_security": True,
        "srmp_http_support": True,
        "srmp_pgm_support": True,
        "queue_manager_quota": 77,
        "journal_quota": 88,
        "routing_server": True,
    }
    created = host.engine.manager.core.properties.create_time
    host.engine.advance(100)
    host.engine.do(host.engine.manager.set_manager_properties, changes, host.engine.admin)
    host.engine.advance(100)
    properties = host.crash().manager.core.properties
    for name, value in changes.items():
        assert getattr(properties, name) == value, name
    assert properties.create_time == created
    assert properties.modify_time == created + 100


@pytest.mark.spec("DM-001")
def test_rights_on_the_queue_manager_survive(host: Host) -> None:
    rights = SecurityDescriptor(owner=unix_user_sid(3), dacl=Acl.of(allow(unix_user_sid(3), 0x24)))
    host.engine.do(host.engine.manager.set_manager_security, 0x05, rights, host.engine.admin)
    kept = host.crash().manager.core.properties.security
    assert kept is not None
    assert (kept.owner, kept.dacl) == (rights.owner, rights.dacl)


# --- queues


@pytest.mark.spec("DM-001", "DM-014", "DM-083", "MQ-152")
def test_a_private_queue_returns_with_everything_it_was_created_with(host: Host) -> None:
    before = host.engine.create(r".\PRIVATE$\Orders", **EVERYTHING)
    host.engine.advance(50)
    host.engine.do(host.engine.manager.set_queue_properties, before, {"label": "of tomorrow"}, host.engine.admin)
    queue = host.crash().manager.find_queue(r".\private$\orders")
    assert queue is not before
    for name, value in {**EVERYTHING, "label": "of tomorrow"}.items():
        if name != "security":
            assert getattr(queue.properties, name) == value, name
    security = EVERYTHING["security"]
    assert isinstance(security, SecurityDescriptor)
    assert queue.properties.security is not None
    assert queue.properties.security.dacl == security.dacl
    assert queue.properties.security.owner == security.owner
    assert queue.identifier == before.identifier
    assert queue.private_number == before.private_number
    assert queue.kind is before.kind
    assert str(queue.path) == str(before.path) == r"lior\private$\Orders"
    assert (queue.create_time, queue.modify_time) == (before.create_time, before.create_time + 50)
    assert queue.journal is not None
    assert before.journal is not None
    assert queue.journal.identifier == before.journal.identifier
    assert queue.journal.properties.quota == 300


@pytest.mark.spec("DM-084")
def test_a_private_queue_keeps_its_number_even_when_its_hash_collided(host: Host) -> None:
    one, other = host.engine.create(r".\private$\aB"), host.engine.create(r".\private$\b!")
    assert one.private_number != other.private_number
    again = host.crash()
    for queue in (one, other):
        found = again.manager.find_queue(f"PRIVATE={IDENTIFIER}\\{queue.private_number:08x}")
        assert found.identifier == queue.identifier


@pytest.mark.spec("DM-001", "DM-015")
def test_counters_are_made_anew_from_the_stored_messages_and_the_rest_is_gone(host: Host) -> None:
    engine = host.engine
    engine.create(journaling=True)
    sender = engine.sender()
    for size in (10, 20, 30):
        engine.send(sender, body=b"b" * size, delivery_guarantee=1)
    engine.send(sender, body=b"express")
    engine.receive(engine.open(), two_phase=True)
    engine.receive(engine.open())
    again = host.crash()
    queue = again.manager.find_queue(PATH)
    assert queue.total_bytes == 120 + 10 + 120 + 30
    assert again.bodies(queue) == [b"b" * 10, b"b" * 30]
    assert queue.journal is not None
    assert queue.journal.total_bytes == 120 + 20
    assert again.manager.core.total_bytes == queue.total_bytes
    assert again.manager.core.journal_bytes == queue.journal.total_bytes
    assert queue.descriptors == []
    assert queue.waiters == []
    assert not queue.active
    assert again.manager.opening.descriptors == {}


@pytest.mark.spec("DM-013")
def test_numbers_grow_by_one_and_are_never_used_again_after_a_crash(host: Host) -> None:
    engine = host.engine
    engine.create()
    engine.create(r".\private$\p")
    names = (r"DIRECT=OS:.\private$\q", r"DIRECT=OS:.\private$\p")
    numbers: list[int] = []
    for name in names * 2:
        engine.send(engine.sender(name), delivery_guarantee=0)
        numbers.append(engine.peek(engine.open(name)).lookup_identifier & ((1 << 56) - 1))
        engine.receive(engine.open(name))
    assert [number - numbers[0] for number in numbers] == [0, 1, 2, 3]
    again = host.crash()
    identifier = again.send(again.sender(), delivery_guarantee=0)
    assert again.receive(again.open()).lookup_identifier & ((1 << 56) - 1) > numbers[-1]
    assert identifier.uniquifier > 4


def test_a_restart_starts_with_no_messages_in_a_queue_that_was_deleted(host: Host) -> None:
    queue = host.engine.create()
    host.engine.send(host.engine.sender(), delivery_guarantee=1)
    host.engine.do(host.engine.manager.delete_queue, queue, host.engine.admin)
    again = host.crash()
    assert again.create().message_count == 0
    assert all(entry[0] != queue.queue_id for entry in again.store.load_index())



# --- outgoing queues


@pytest.mark.spec("DM-021", "DM-001")
def test_an_outgoing_queue_with_pending_mail_returns_and_its_connection_does_not(host: Host) -> None:
    engine = host.engine
    engine.send(engine.sender(REMOTE), body=b"pending", delivery_guarantee=1)
    engine.send(engine.sender("MULTICAST=224.1.1.1:8001"), delivery_guarantee=1)
    before = outgoing(engine)
    before.next_hops = ("192.0.2.99",)
    before.record_connection(ConnectionHistoryEntry(ConnectionStatus.READY, 1.0))
    before.change_state(OutgoingState.CONNECTED)
    again = host.crash()
    queue = outgoing(again)
    assert queue is not before
    assert str(queue.destination) == REMOTE
    assert queue.identifier == before.identifier
    assert again.bodies(queue) == [b"pending"]
    assert not queue.multicast
    assert outgoing(again, "MULTICAST=224.1.1.1:8001").multicast
    assert queue.next_hops == ()
    assert list(queue.connection_history) == []
    assert queue.state is OutgoingState.INACTIVE
    assert MessageAwaitsTransfer(queue) in again.events


def test_a_paused_outgoing_queue_is_still_paused_after_a_crash(host: Host) -> None:
    engine = host.engine
    engine.send(engine.sender(REMOTE), delivery_guarantee=1)
    engine.do(engine.manager.administration.pause, outgoing(engine), engine.admin)
    again = host.crash()
    assert outgoing(again).state is OutgoingState.ON_HOLD
    assert again.manager.dispatchable() == []


@pytest.mark.spec("DM-065", "DM-023")
def test_hardened_security_locks_what_is_not_http_at_the_next_start_and_unlocks_it_after(host: Host) -> None:
    web = "DIRECT=HTTP://elsewhere.example/msmq/private$/q"
    for name in (REMOTE, web):
        host.engine.send(host.engine.sender(name), delivery_guarantee=1)
    host.engine.do(host.engine.manager.set_manager_properties, {"hardened_security": True}, host.engine.admin)
    again = host.crash()
    assert outgoing(again).state is OutgoingState.LOCKED
    assert outgoing(again, web).state is OutgoingState.INACTIVE
    assert again.manager.dispatchable() == [outgoing(again, web)]
    again.do(again.manager.set_manager_properties, {"hardened_security": False}, again.admin)
    assert outgoing(again).state is OutgoingState.WAITING
    once_more = host.crash()
    assert outgoing(once_more).state is not OutgoingState.LOCKED
    assert len(once_more.manager.dispatchable()) == 2


# --- streams from elsewhere


@pytest.mark.spec("DM-026", "DM-027")
def test_the_place_of_every_senders_stream_is_committed_with_its_message(host: Host) -> None:
    engine = host.engine
    queue = engine.create(PATH, transactional=True)
    senders = [UUID(int=1), UUID(int=2)]
    for name in (r"DIRECT=OS:lior\private$\q", r"DIRECT=TCP:192.0.2.7\private$\q"):
        for sender in senders:
            change = Change()
            message = Message(delivery_guarantee=1, source_queue_manager=sender, sent_time=engine.clock.wall())
            engine.manager.sending.accept(queue, message, None, change)
            info = IncomingTransactionalTransferInfo(name, sender, (9 << 32) + sender.int, 41, 12.5, 3)
            change.operations.append(info.record(queue.queue_id))
            engine.manager.core.submit(change)
    assert host.crash().manager.core.incoming == {}  # neither the messages nor the places are there
    assert host.engine.manager.find_queue(PATH).message_count == 0


@pytest.mark.spec("DM-026", "DM-027")
def test_streams_are_told_apart_by_queue_name_and_sender_after_a_crash(host: Host) -> None:
    engine = host.engine
    queue = engine.create(PATH, transactional=True)
    names = (r"DIRECT=OS:lior\private$\q", r"DIRECT=TCP:192.0.2.7\private$\q")
    infos = [
        IncomingTransactionalTransferInfo(name, UUID(int=sender), (9 << 32) + sender, 41 + sender, 12.5, 3)
        for name in names
        for sender in (1, 2)
    ]
    change = Change()
    engine.manager.sending.accept(queue, Message(delivery_guarantee=1, sent_time=engine.clock.wall()), None, change)
    change.operations += [info.record(queue.queue_id) for info in infos]
    engine.manager.core.submit(change)
    engine.commit()
    again = host.crash().manager
    assert again.core.incoming == {info.key(queue.queue_id): info for info in infos}
    assert len(again.core.incoming) == 4
    assert again.find_queue(PATH).message_count == 1


@pytest.mark.spec("DM-027")
def test_a_new_queue_never_inherits_the_streams_of_a_deleted_one(host: Host) -> None:
    engine = host.engine
    queue = engine.create(PATH, transactional=True)
    info = IncomingTransactionalTransferInfo("DIRECT=OS:lior\\private$\\q", UUID(int=1), 1, 41)
    change = Change()
    change.operations.append(info.record(queue.queue_id))
    change.then(engine.manager.core.incoming.__setitem__, info.key(queue.queue_id), info)
    engine.manager.core.submit(change)
    engine.commit()
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    assert engine.manager.core.incoming == {}
    again = host.crash()
    assert again.manager.core.incoming == {}
    assert again.create(PATH, transactional=True).queue_id > queue.queue_id


# --- damage


def test_a_journal_without_its_queue_is_reported_not_served(host: Host) -> None:
    queue = host.engine.create()
    host.engine.store.apply([DeleteQueue(queue.queue_id)])
    with pytest.raises(StoreCorrupt):
        host.crash()


def test_starting_reads_what_was_written_while_it_answered(host: Host) -> None:
    """A definition that only was asked for is not there; nobody was told that it is."""
    answer = Answer()
    host.engine.manager.create_queue(PATH, QueueProperties(), host.engine.admin, answer)
    assert not answer.done
    again = host.crash()
    assert again.create(PATH).message_count == 0


@pytest.mark.spec("DM-066")
def test_a_restart_needs_nothing_but_the_store_and_the_given_names(host: Host) -> None:
    host.engine.create()
    manager = QueueManager(
        replace(host.engine.manager.core.properties),
        LocalNames("lior", "", frozenset(), IDENTIFIER),
        host.engine.store,
        FakeClock(),
        SeededIds(9),
    )
    manager.start()
    admin = host.engine.admin
    assert manager.open(r"DIRECT=OS:lior\private$\q", QueueAccessType.PEEK, caller=admin).queue is not None
