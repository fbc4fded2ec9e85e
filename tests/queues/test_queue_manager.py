"""The queue manager itself: identity, modes, life, quotas, connectivity ([MS-MQDMPR] 3.1.1.1, 3.1.4)."""

from collections.abc import Callable, Iterator

import pytest

from lior.errors import (
    IllegalPropertyValue,
    InsufficientResources,
    InvalidParameter,
    LiorError,
    MessageStorageFailed,
    PropertyNotAllowed,
    QueueNotFound,
    ServiceNotAvailable,
)
from lior.message import INFINITE, Message
from lior.names import LocalNames
from lior.queues.definition import QueueManagerProperties
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import ConnectivityChanged, QueueManagerStarted, QueueManagerStopped
from lior.queues.manager import QueueManager, QueueManagerState
from lior.queues.ports import IndexEntry
from lior.queues.queue import HIDDEN_QUEUES
from lior.store.memory import MemoryStore
from lior.testing.clock import FakeClock
from lior.testing.engine import IDENTIFIER, Answer, ManualEngine
from lior.testing.ids import SeededIds

LOCAL = r"DIRECT=OS:.\private$\q"
REMOTE = r"DIRECT=TCP:192.0.2.99\private$\q"
KB = 1024 - 120  # body of a message that counts 1024 bytes with its fixed headers


# --- identity and defaults


@pytest.mark.spec("DM-003")
def test_two_protocol_adapters_see_one_queue_and_one_counter(engine: ManualEngine) -> None:
    queue = engine.create()
    one = engine.sender(LOCAL)
    other = engine.open(r"DIRECT=TCP:127.0.0.1\private$\q")
    engine.send(one, body=b"x")
    assert other.queue is queue
    assert one.queue is queue
    assert other.queue.message_count == 1
    assert engine.receive(other).body == b"x"
    assert queue.message_count == 0


@pytest.mark.spec("DM-004")
def test_a_queue_manager_knows_its_names_system_and_times() -> None:
    engine = ManualEngine(name="cartagena", queue_manager_version="6.3", operating_system_version="Linux 6.1")
    properties = engine.manager.core.properties
    assert properties.identifier == IDENTIFIER
    assert properties.computer_name == "cartagena"
    assert properties.qualified_computer_name == "cartagena.example.org"
    assert properties.queue_manager_version == "6.3"
    assert properties.operating_system_version == "Linux 6.1"
    assert properties.operating_system_type == 0x100
    assert properties.create_time == properties.modify_time == int(engine.clock.wall())


@pytest.mark.spec("DM-004")
def test_changing_the_queue_manager_moves_its_modify_time_only(engine: ManualEngine) -> None:
    created = engine.manager.core.properties.create_time
    engine.advance(60)
    engine.do(engine.manager.set_manager_properties, {"journal_quota": 9}, engine.admin)
    assert engine.manager.core.properties.create_time == created
    assert engine.manager.core.properties.modify_time == created + 60


@pytest.mark.spec("DM-005")
def test_a_fresh_queue_manager_has_the_default_quotas(engine: ManualEngine) -> None:
    assert engine.manager.core.properties.queue_manager_quota == 0x00100000
    assert engine.manager.core.properties.journal_quota == 0xFFFFFFFF


@pytest.mark.spec("DM-005", "MQ-174")
def test_the_queue_managers_quota_counts_kilobytes_over_all_queues() -> None:
    engine = ManualEngine(queue_manager_quota=3)
    engine.create()
    engine.create(r".\private$\p")
    senders = [engine.sender(), engine.sender(r"DIRECT=OS:.\private$\p"), engine.sender(REMOTE)]
    for sender in senders:
        engine.send(sender, body=b"b" * KB)
    for sender in senders:
        with pytest.raises(InsufficientResources):
            engine.send(sender, body=b"")
    engine.receive(engine.open())
    engine.send(senders[1], body=b"b" * KB)


@pytest.mark.spec("MQ-174")
def test_the_journal_quota_of_the_system_counts_all_journals_together() -> None:
    engine = ManualEngine(journal_quota=2)
    for name in ("p", "q"):
        queue = engine.create(rf".\private$\{name}", journaling=True)
        for _ in range(2):
            engine.send(engine.sender(rf"DIRECT=OS:.\private$\{name}"), body=b"b" * KB)
            engine.receive(engine.open(rf"DIRECT=OS:.\private$\{name}"))
        assert queue.journal is not None
    journals = [queue.journal for queue in engine.manager.core.queues.values() if queue.journal is not None]
    assert sum(journal.message_count for journal in journals) == 2


@pytest.mark.spec("MQ-174")
@pytest.mark.parametrize("name", ["queue_manager_quota", "journal_quota"])
def test_a_quota_of_the_queue_manager_has_32_bits(engine: ManualEngine, name: str) -> None:
    for good in (0, INFINITE):
        engine.do(engine.manager.set_manager_properties, {name: good}, engine.admin)
        assert getattr(engine.manager.core.properties, name) == good
    for bad in (-1, INFINITE + 1, "9", None):
        with pytest.raises(IllegalPropertyValue):
            engine.do(engine.manager.set_manager_properties, {name: bad}, engine.admin)
        assert getattr(engine.manager.core.properties, name) == INFINITE


@pytest.mark.spec("DM-006", "DM-009", "DM-066")
def test_a_workgroup_queue_manager_has_no_role_and_no_directory(engine: ManualEngine) -> None:
    properties = engine.manager.core.properties
    for role in (
        "foreign_system",
        "remote_access_server",
        "supporting_server",
        "routing_server",
        "directory_server",
        "clustered",
        "directory_integrated",
        "directory_offline",
        "hardened_security",
    ):
        assert getattr(properties, role) is False, role
    assert properties.connection_active is True
    assert engine.manager.core.throttled == ""
    assert ManualEngine(supporting_server=True).manager.core.properties.supporting_server is True


@pytest.mark.spec("DM-007")
def test_a_workgroup_queue_manager_lists_no_public_keys(engine: ManualEngine) -> None:
    length_and_count = (8).to_bytes(4, "little") + (0).to_bytes(4, "little")
    assert engine.manager.core.properties.public_encryption_key_list == length_and_count
    assert engine.manager.core.properties.public_signing_key_list == length_and_count


@pytest.mark.spec("DM-002")
@pytest.mark.parametrize("name", ["identifier", "create_time", "computer_name", "security", "connection_active"])
def test_what_makes_the_queue_manager_itself_is_not_set_as_a_property(engine: ManualEngine, name: str) -> None:
    before = getattr(engine.manager.core.properties, name)
    with pytest.raises(PropertyNotAllowed):
        engine.do(engine.manager.set_manager_properties, {name: before}, engine.admin)


def test_an_unknown_property_of_the_queue_manager_is_refused(engine: ManualEngine) -> None:
    with pytest.raises(IllegalPropertyValue):
        engine.do(engine.manager.set_manager_properties, {"colour": 1}, engine.admin)


def test_properties_of_the_queue_manager_return_when_the_store_cannot_take_them(engine: ManualEngine) -> None:
    sender = engine.sender(REMOTE)
    engine.advance(5)
    modified = engine.manager.core.properties.modify_time
    answer = Answer()
    engine.manager.set_manager_properties({"hardened_security": True, "journal_quota": 9}, engine.admin, answer)
    fail_pending(engine)
    properties = engine.manager.core.properties
    assert properties.hardened_security is False
    assert properties.journal_quota == INFINITE
    assert properties.modify_time == modified
    engine.send(sender)
    assert engine.manager.dispatchable() == [sender.queue]


def fail_pending(engine: ManualEngine) -> None:
    engine.manager.failed(engine.manager.take_pending(), MessageStorageFailed("the disk is full"))


# --- life


@pytest.mark.spec("DM-010", "DM-067")
def test_a_queue_manager_goes_from_ready_to_stopped_and_tells_each_adapter_once(engine: ManualEngine) -> None:
    other: list[object] = []
    engine.manager.subscribe(other.append)
    engine.create()
    seen: list[QueueManagerState] = [engine.manager.state]

    class Blocked(Answer):
        def set_exception(self, error: LiorError, /) -> None:
            seen.append(engine.manager.state)
            super().set_exception(error)

    blocked = Blocked()
    engine.manager.receive(engine.open(), blocked)
    engine.manager.stop()
    engine.manager.stop()
    seen.append(engine.manager.state)
    assert seen == [QueueManagerState.READY, QueueManagerState.STOPPING, QueueManagerState.STOPPED]
    assert blocked.error is not None
    started = [event for event in engine.events if isinstance(event, QueueManagerStarted)]
    assert started == [QueueManagerStarted(IDENTIFIER)]
    for events in (engine.events, other):
        stopped = [event for event in events if isinstance(event, QueueManagerStopped)]
        assert stopped == [QueueManagerStopped(IDENTIFIER)]


@pytest.mark.spec("DM-010")
def test_a_queue_manager_is_initializing_while_it_loads() -> None:
    states: list[QueueManagerState] = []

    class Watched(MemoryStore):
        def load_index(self) -> Iterator[IndexEntry]:
            states.append(manager.state)
            return super().load_index()

    properties = QueueManagerProperties(IDENTIFIER, "lior")
    local = LocalNames("lior", "", frozenset(), IDENTIFIER)
    manager = QueueManager(properties, local, Watched(), FakeClock(), SeededIds())
    assert manager.state.value == "stopped"
    manager.start()
    assert states == [QueueManagerState.INITIALIZING]
    assert manager.state.value == "ready"


CALLS: dict[str, Callable[[ManualEngine], object]] = {
    "create": lambda e: e.create(r".\private$\new"),
    "delete": lambda e: e.do(e.manager.delete_queue, e.manager.core.paths[r"private$\q"], e.admin),
    "set": lambda e: e.do(e.manager.set_queue_properties, e.manager.core.paths[r"private$\q"], {}, e.admin),
    "purge": lambda e: e.do(e.manager.purge, e.manager.core.paths[r"private$\q"], e.admin),
    "find": lambda e: e.manager.find_queue(LOCAL),
    "open": lambda e: e.open(LOCAL),
    "begin": lambda e: e.manager.begin(),
    "online": lambda e: e.do(e.manager.set_online, False, e.admin),
    "manager": lambda e: e.do(e.manager.set_manager_properties, {}, e.admin),
}


@pytest.mark.spec("DM-010")
@pytest.mark.parametrize("call", CALLS)
def test_a_stopped_queue_manager_answers_that_it_is_not_available(engine: ManualEngine, call: str) -> None:
    engine.create()
    engine.manager.stop()
    with pytest.raises(ServiceNotAvailable) as caught:
        CALLS[call](engine)
    assert caught.value.code == 0xC00E000B


@pytest.mark.spec("DM-010")
def test_messages_of_a_stopped_queue_manager_stay_where_they_are(engine: ManualEngine) -> None:
    queue = engine.create()
    sender, reader = engine.sender(), engine.open()
    engine.send(sender, body=b"stays")
    transaction = engine.manager.begin()
    engine.manager.stop()
    with pytest.raises(ServiceNotAvailable):
        engine.receive(reader)
    with pytest.raises(ServiceNotAvailable):
        engine.peek(reader)
    with pytest.raises(ServiceNotAvailable):
        engine.send(sender)
    with pytest.raises(ServiceNotAvailable):
        engine.do(engine.manager.commit, transaction.identifier)
    assert engine.bodies(queue) == [b"stays"]


# --- system queues


@pytest.mark.spec("DM-011")
@pytest.mark.parametrize("suffix", ["DEADLETTER", "DEADXACT", "JOURNAL"])
def test_an_administrator_reads_the_system_queues(engine: ManualEngine, suffix: str) -> None:
    machine = f"MACHINE={IDENTIFIER};{suffix}"
    direct = rf"DIRECT=OS:.\system$;{suffix}"
    for name in (machine, direct):
        for access in (QueueAccessType.PEEK, QueueAccessType.RECEIVE):
            descriptor = engine.open(name, access)
            assert descriptor.queue is engine.manager.find_queue(rf".\system$;{suffix}")
            engine.manager.close(descriptor)


@pytest.mark.spec("DM-011")
@pytest.mark.parametrize("name", HIDDEN_QUEUES)
def test_applications_never_reach_the_queues_of_the_protocols(engine: ManualEngine, name: str) -> None:
    hidden = engine.manager.core.paths[rf"private$\{name}"]
    spelled = (
        rf"DIRECT=OS:.\private$\{name}",
        rf"DIRECT=OS:lior\PRIVATE$\{name.upper()}",
        f"PUBLIC={hidden.identifier}",
    )
    for format_name in spelled:
        for access in (QueueAccessType.SEND, QueueAccessType.RECEIVE, QueueAccessType.PEEK):
            with pytest.raises(LiorError):
                engine.open(format_name, access)
    with pytest.raises(QueueNotFound):
        engine.manager.find_queue(rf".\private$\{name}")


# --- the network


@pytest.mark.spec("DM-079", "DM-009")
def test_offline_keeps_sends_in_their_outgoing_queue_and_online_drains_them(engine: ManualEngine) -> None:
    engine.create()
    sender = engine.sender(REMOTE)
    engine.do(engine.manager.set_online, False, engine.admin)
    engine.send(sender, body=b"later")
    assert engine.manager.dispatchable() == []
    assert sender.queue is not None
    assert engine.bodies(sender.queue) == [b"later"]
    engine.send(engine.sender(), body=b"local")
    assert engine.receive(engine.open()).body == b"local"
    engine.do(engine.manager.set_online, True, engine.admin)
    assert engine.manager.dispatchable() == [sender.queue]
    changes = [event.active for event in engine.events if isinstance(event, ConnectivityChanged)]
    assert changes == [False, True]


@pytest.mark.spec("DM-079")
def test_going_offline_twice_tells_it_once(engine: ManualEngine) -> None:
    engine.do(engine.manager.set_online, False, engine.admin)
    engine.do(engine.manager.set_online, False, engine.admin)
    assert sum(isinstance(event, ConnectivityChanged) for event in engine.events) == 1


# --- transactions and figures


@pytest.mark.spec("DM-099")
def test_a_transaction_with_the_identifier_of_another_is_refused(engine: ManualEngine) -> None:
    first = engine.manager.begin()
    assert engine.manager.core.transactions[first.identifier] is first
    with pytest.raises(InvalidParameter):
        engine.manager.begin(first.identifier)
    assert engine.manager.begin().identifier != first.identifier


@pytest.mark.spec("DM-016")
def test_active_queues_follow_open_and_close_and_what_waits_to_leave(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.create(r".\private$\idle")
    assert engine.manager.active_queues() == []
    reader = engine.open()
    assert engine.manager.active_queues() == [queue]
    sender = engine.sender(REMOTE)
    engine.send(sender)
    outgoing = sender.queue
    assert outgoing is not None
    engine.manager.close(sender)
    engine.manager.close(reader)
    assert engine.manager.active_queues() == [outgoing]
    engine.do(engine.manager.purge, outgoing, engine.admin)
    assert engine.manager.active_queues() == []


@pytest.mark.spec("MQ-193")
def test_bytes_in_all_queues_is_the_sum_over_the_queues(engine: ManualEngine) -> None:
    engine.create(journaling=True)
    engine.create(r".\private$\tx", transactional=True)
    for size in (0, 10, 2000):
        engine.send(engine.sender(), Message(body=b"b" * size, negative_journaling_requested=True))
    engine.send(engine.sender(REMOTE), body=b"b" * 7)
    engine.receive(engine.open())
    transaction = engine.manager.begin()
    engine.send(engine.sender(r"DIRECT=OS:.\private$\tx"), transaction=transaction, body=b"open")
    sizes = (120 + 10) + (120 + 2000) + (120 + 7) + 120  # the first is in the journal
    assert engine.manager.bytes_in_all_queues() == sizes
    assert engine.manager.bytes_in_all_queues() == sum(q.total_bytes for q in engine.manager.core.queues.values())
    engine.do(engine.manager.commit, transaction.identifier)
    assert engine.manager.bytes_in_all_queues() == sizes + 124
