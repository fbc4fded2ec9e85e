"""Queues: what defines them, their creation, change and deletion ([MS-MQDMPR] 3.1.1.2, 3.1.7.1.3, 3.1.7.1.4)."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import (
    IllegalPropertyValue,
    IllegalQueuePathname,
    InsufficientResources,
    LabelTooLong,
    LiorError,
    MessageStorageFailed,
    NoDirectory,
    PropertyNotAllowed,
    QueueExists,
    QueueNotFound,
)
from lior.names import private_queue_number
from lior.queues.definition import QueueProperties, QueueScope, QueueType
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import QueueChanged
from lior.queues.queue import START, Queue
from lior.testing.clock import FakeClock
from lior.testing.engine import IDENTIFIER, Answer, ManualEngine

PATH = r".\private$\q"
NAME = r"DIRECT=OS:.\private$\q"
ADMIN = r"DIRECT=OS:.\private$\admin"


def set_properties(engine: ManualEngine, queue: Queue, **changes: Any) -> None:
    engine.do(engine.manager.set_queue_properties, queue, changes, engine.admin)


# --- creation


@pytest.mark.spec("DM-127", "DM-083", "MQ-152")
def test_a_queue_created_with_only_a_path_has_every_default(engine: ManualEngine) -> None:
    queue = engine.create()
    properties = queue.properties
    assert properties.label == ""
    assert properties.type == UUID(int=0)
    assert properties.journaling is False
    assert properties.quota == 0xFFFFFFFF
    assert properties.journal_quota == 0xFFFFFFFF
    assert properties.authentication is False
    assert properties.privacy_level == 1
    assert properties.transactional is False
    assert properties.multicast_address == ""
    assert properties.base_priority == 0
    assert properties.security is not None
    assert properties.security.owner == engine.admin.sid


@pytest.mark.spec("DM-083", "DM-014", "DM-019", "MQ-163", "DM-020")
def test_creation_sets_times_path_scope_and_a_journal_and_joins_the_collection(engine: ManualEngine) -> None:
    queue = engine.create(r".\Private$\Orders", label="l", journal_quota=5)
    assert queue.create_time == queue.modify_time == int(engine.clock.wall())
    assert str(queue.path) == r"lior\private$\Orders"
    assert queue.scope is QueueScope.ENTERPRISE
    assert int(queue.scope) == 1
    assert queue.journal is not None
    assert queue.journal.kind is QueueType.JOURNAL
    assert queue.journal.properties.quota == 5
    assert queue.journal.journal is None
    assert engine.manager.core.queues[queue.queue_id] is queue
    for name in (r".\private$\ORDERS", r"lior.example.org\private$\orders", r"DIRECT=OS:localhost\private$\orders"):
        assert engine.manager.find_queue(name) is queue
    assert engine.manager.find_queue(r".\private$\orders;JOURNAL") is queue.journal


@pytest.mark.spec("DM-083")
@pytest.mark.parametrize("again", [PATH, r"LIOR\PRIVATE$\Q", r"lior.example.org\private$\q"])
def test_a_second_queue_of_the_same_path_is_refused(engine: ManualEngine, again: str) -> None:
    engine.create()
    with pytest.raises(QueueExists) as caught:
        engine.create(again)
    assert caught.value.code == 0xC00E0005


@pytest.mark.spec("DM-083", "MQ-153")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "q",
        r".\private$",
        ".\\private$\\",
        r".\private$\a\b",
        ".\\private$\\a+b",
        r".\private$\q;sub",
        r".\private$\q;JOURNAL",
        r".\system$;DEADLETTER",
        r"elsewhere\private$\q",
        ".\\private$\\" + "n" * 300,
    ],
)
def test_a_path_that_names_no_queue_of_this_computer_is_refused(engine: ManualEngine, path: str) -> None:
    with pytest.raises(IllegalQueuePathname) as caught:
        engine.create(path)
    assert caught.value.code == 0xC00E0014
    assert len(engine.manager.core.paths) == len(ManualEngine().manager.core.paths)


@pytest.mark.spec("DM-085")
def test_a_public_queue_cannot_be_created_in_a_workgroup(engine: ManualEngine) -> None:
    with pytest.raises(NoDirectory) as caught:
        engine.create(r".\orders")
    assert caught.value.code == 0xC00E0013


@pytest.mark.spec("DM-017")
def test_the_kind_of_a_queue_follows_from_its_path(engine: ManualEngine) -> None:
    assert engine.create().kind is QueueType.PRIVATE
    assert engine.manager.find_queue(r".\system$;DEADLETTER").kind is QueueType.SYSTEM
    assert {kind.value for kind in QueueType} >= {"private", "public", "system", "connector"}


def test_nobody_finds_a_queue_before_it_is_on_disk(engine: ManualEngine) -> None:
    answer = Answer()
    engine.manager.create_queue(PATH, QueueProperties(), engine.admin, answer)
    number = private_queue_number(PATH)
    names = (PATH, NAME, f"PRIVATE={IDENTIFIER}\\{number:08x}")
    for name in names:
        with pytest.raises(QueueNotFound):
            engine.manager.find_queue(name)
    with pytest.raises(QueueExists):
        engine.create(PATH)
    assert not answer.done
    engine.commit()
    assert {engine.manager.find_queue(name) for name in names} == {answer.result()}


def test_a_creation_that_the_disk_refused_can_be_tried_again(engine: ManualEngine) -> None:
    answer = Answer()
    engine.manager.create_queue(PATH, QueueProperties(), engine.admin, answer)
    engine.manager.failed(engine.manager.take_pending(), MessageStorageFailed("full"))
    with pytest.raises(MessageStorageFailed):
        answer.result()
    assert engine.create(PATH).private_number == private_queue_number(PATH)


@pytest.mark.spec("DM-084")
def test_two_names_with_one_hash_get_two_numbers(engine: ManualEngine) -> None:
    paths = (r".\private$\aB", r".\private$\b!")
    assert private_queue_number(paths[0]) == private_queue_number(paths[1])
    answers = [Answer(), Answer()]
    for path, answer in zip(paths, answers, strict=True):
        engine.manager.create_queue(path, QueueProperties(), engine.admin, answer)
    engine.commit()
    one, other = (answer.result() for answer in answers)
    assert one.private_number == private_queue_number(paths[0])
    assert other.private_number != one.private_number
    for queue in (one, other):
        assert engine.manager.find_queue(f"PRIVATE={IDENTIFIER}\\{queue.private_number:08x}") is queue


# --- properties


@pytest.mark.spec("MQ-159", "MQ-152")
@pytest.mark.parametrize("changes", [{"label": "new"}, {"type": UUID(int=5)}, {"quota": 7}])
def test_setting_a_property_moves_the_modify_time_and_sending_does_not(
    engine: ManualEngine, changes: dict[str, Any]
) -> None:
    queue = engine.create()
    created = queue.create_time
    engine.advance(30)
    engine.send(engine.sender())
    assert queue.modify_time == created
    set_properties(engine, queue, **changes)
    assert (queue.create_time, queue.modify_time) == (created, created + 30)
    for name, value in changes.items():
        assert getattr(queue.properties, name) == value
    assert QueueChanged(queue, "changed") in engine.events


@pytest.mark.spec("MQ-159")
def test_times_go_on_after_2038() -> None:
    engine = ManualEngine(clock=FakeClock(wall=2.0**31 + 7))
    assert engine.create().create_time == 2**31 + 7


@pytest.mark.spec("MQ-152", "MQ-153", "MQ-162", "MQ-163")
@pytest.mark.parametrize(
    ("name", "value"),
    [("identifier", UUID(int=1)), ("path", PATH), ("scope", 0), ("create_time", 1), ("transactional", True)],
)
def test_what_was_given_at_creation_is_not_changed(engine: ManualEngine, name: str, value: object) -> None:
    queue = engine.create()
    with pytest.raises(PropertyNotAllowed) as caught:
        set_properties(engine, queue, **{name: value})
    assert caught.value.code == 0xC00E003E
    assert queue.transactional is False


@pytest.mark.spec("MQ-156")
def test_a_base_priority_is_accepted_and_ignored_on_a_private_queue(engine: ManualEngine) -> None:
    queue = engine.create(base_priority=9)
    assert queue.properties.base_priority == 0
    set_properties(engine, queue, base_priority=5)
    assert queue.properties.base_priority == 0
    for bad in (-32769, 32768):
        with pytest.raises(IllegalPropertyValue):
            set_properties(engine, queue, base_priority=bad)


BAD = [
    pytest.param("journaling", 2, marks=pytest.mark.spec("MQ-154")),
    pytest.param("authentication", 2, marks=pytest.mark.spec("MQ-160")),
    pytest.param("transactional", 2, marks=pytest.mark.spec("MQ-162")),
    pytest.param("privacy_level", 3, marks=pytest.mark.spec("MQ-161")),
    pytest.param("privacy_level", -1, marks=pytest.mark.spec("MQ-161")),
    pytest.param("quota", -1, marks=pytest.mark.spec("MQ-155")),
    pytest.param("quota", 1 << 32, marks=pytest.mark.spec("MQ-155")),
    pytest.param("journal_quota", -1, marks=pytest.mark.spec("MQ-157")),
    pytest.param("journal_quota", 1 << 32, marks=pytest.mark.spec("MQ-157")),
    ("quota", "7"),
    ("quota", True),
    ("label", None),
    ("label", b"bytes"),
    ("type", "not a guid"),
    ("multicast_address", None),
    ("max_aborts", -1),
    ("description", ["x"]),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_an_illegal_value_is_refused_at_creation_and_later(engine: ManualEngine, name: str, value: Any) -> None:
    with pytest.raises(IllegalPropertyValue) as caught:
        engine.create(**{name: value})
    assert caught.value.code == 0xC00E0018
    queue = engine.create()
    with pytest.raises((IllegalPropertyValue, PropertyNotAllowed)):
        set_properties(engine, queue, **{name: value})
    assert queue.properties.changed(security=None) == QueueProperties()


@pytest.mark.spec("MQ-158")
@pytest.mark.parametrize("unit", ["x", "é", "\U0001f4ec"])
def test_a_label_has_at_most_124_characters_of_16_bits(engine: ManualEngine, unit: str) -> None:
    longest = unit * (124 // (len(unit.encode("utf-16-le")) // 2))
    queue = engine.create(label=longest)
    assert queue.properties.label == longest
    with pytest.raises(LabelTooLong):
        set_properties(engine, queue, label=longest + "x")
    with pytest.raises(LabelTooLong):
        engine.create(r".\private$\p", label=longest + "x")


@pytest.mark.spec("MQ-155")
def test_a_second_message_of_one_kilobyte_does_not_fit_a_quota_of_one(engine: ManualEngine) -> None:
    engine.create(quota=1)
    engine.send(engine.sender(), body=b"b" * (1024 - 120))
    with pytest.raises(InsufficientResources):
        engine.send(engine.sender(), body=b"")


@pytest.mark.spec("MQ-154", "MQ-157")
def test_receiving_copies_to_the_journal_while_it_has_room_and_succeeds_without(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True, journal_quota=1)
    assert queue.journal is not None
    for expected in (1, 1):
        engine.send(engine.sender(), body=b"b" * 600)
        assert len(engine.receive(engine.open()).body) == 600
        assert queue.journal.message_count == expected
    engine.receive(engine.open(r"DIRECT=OS:.\private$\q;JOURNAL"))
    set_properties(engine, queue, journaling=False)
    engine.send(engine.sender())
    engine.receive(engine.open())
    assert queue.journal.message_count == 0


@pytest.mark.spec("MQ-157")
def test_a_new_journal_quota_holds_from_the_next_copy(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True, journal_quota=0)
    assert queue.journal is not None
    for quota, copies in ((0, 0), (1, 1), (0, 1)):
        set_properties(engine, queue, journal_quota=quota)
        engine.send(engine.sender())
        engine.receive(engine.open())
        assert queue.journal.message_count == copies


@pytest.mark.spec("MQ-167")
def test_a_queue_binds_a_multicast_address_and_an_empty_one_unbinds_it(engine: ManualEngine) -> None:
    queue = engine.create(multicast_address="224.1.1.1:8001")
    for address in ("239.255.255.255:65535", "224.0.0.0:1", ""):
        set_properties(engine, queue, multicast_address=address)
        assert queue.properties.multicast_address == address


@pytest.mark.spec("MQ-167")
@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1:1",
        "223.255.255.255:1",
        "240.0.0.0:1",
        "224.1.1.1",
        "224.1.1.1:",
        "224.1.1.1:65536",
        "224.1.1.1:-1",
        "224.1.1.1:+1",
        "224.1.1.1: 1",
        "224.1.1.1:8_0",
        "224.1.1:1",
        "ff02::1:1",
        "224.1.1.1:1:1",
        "x",
        "224.1.1.1:" + "9" * 5000,
    ],
)
def test_an_address_that_is_not_multicast_is_refused(engine: ManualEngine, address: str) -> None:
    queue = engine.create()
    with pytest.raises(IllegalPropertyValue) as caught:
        set_properties(engine, queue, multicast_address=address)
    assert caught.value.code == 0xC00E0018


@pytest.mark.spec("MQ-167")
def test_a_transactional_queue_binds_no_multicast_address(engine: ManualEngine) -> None:
    with pytest.raises(IllegalPropertyValue):
        engine.create(transactional=True, multicast_address="224.1.1.1:8001")
    queue = engine.create(transactional=True)
    with pytest.raises(IllegalPropertyValue):
        set_properties(engine, queue, multicast_address="224.1.1.1:8001")


def test_a_change_that_the_disk_refused_is_taken_back(engine: ManualEngine) -> None:
    queue = engine.create(label="old")
    modified = queue.modify_time
    engine.advance(9)
    engine.manager.set_queue_properties(queue, {"label": "new"}, engine.admin, Answer())
    engine.manager.failed(engine.manager.take_pending(), MessageStorageFailed("full"))
    assert (queue.properties.label, queue.modify_time) == ("old", modified)


# --- the order of messages


@pytest.mark.spec("DM-018")
@given(priorities=st.lists(st.integers(0, 7), max_size=20))
def test_messages_stand_by_priority_then_by_arrival(priorities: list[int]) -> None:
    engine = ManualEngine()
    queue = engine.create()
    assert queue.next_visible(START, peek=False) is None
    sent: list[tuple[int, int]] = []
    for number, priority in enumerate(priorities):
        engine.send(engine.sender(), body=str(number).encode(), priority=priority)
        sent.append((-priority, number))
    assert engine.bodies(queue) == [str(number).encode() for _, number in sorted(sent)]


@pytest.mark.spec("DM-019")
def test_a_subqueue_has_no_journal_of_its_own(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True)
    handle = engine.open(r"DIRECT=OS:.\private$\q;Sub", QueueAccessType.MOVE)
    assert queue.subqueues == {"sub": handle.queue}
    assert handle.queue is not None
    assert handle.queue.journal is None
    assert handle.queue.main is queue
    with pytest.raises(LiorError):
        engine.open(r"DIRECT=OS:.\private$\q;Sub;JOURNAL")
