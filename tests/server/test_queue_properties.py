"""Queue properties of a running queue manager ([MS-MQMQ] 2.3.1), read, set and given at creation."""

from uuid import UUID

import pytest

from lior.errors import (
    IllegalPropertyId,
    IllegalPropertyType,
    IllegalPropertyValue,
    IllegalQueuePathname,
    InsufficientProperties,
    InsufficientResources,
    LiorError,
    MessageNotAuthenticated,
    PropertyNotAllowed,
    TooManyProperties,
    TransactionUsage,
    UnsupportedOperation,
)
from lior.message import Message, MessageSecurity
from lior.queues.descriptor import QueueAccessType
from lior.server.properties import queue_properties_from, queue_values
from lior.testing.clock import FakeClock
from lior.testing.engine import IDENTIFIER, ManualEngine
from lior.wire.propvariant import (
    NULL,
    VT_BLOB,
    VT_CLSID,
    VT_I2,
    VT_I4,
    VT_LPWSTR,
    PropVariant,
)
from tests.server.property_answers import on_the_wire
from tests.server.queue_answers import TYPES, creating, read, setting, text, u1, u4

NULL_TYPE = 1
DIRECTORY_ONLY = (116, 117, 118, 119, 121, 123, 126)
IGNORED, UNSUPPORTED = 0x400E0003, 0x400E0004
GUID = UUID("aabbccdd-0011-2233-4455-66778899aabb")


# --- reading


@pytest.mark.spec("MQ-151")
def test_every_property_of_the_table_is_answered_with_its_type_or_null(engine: ManualEngine) -> None:
    answers = on_the_wire(queue_values(engine.manager, engine.create(), [*TYPES, *DIRECTORY_ONLY]))
    assert {propid: answers[propid][0] for propid in TYPES} == TYPES
    assert {propid: answers[propid][0] for propid in DIRECTORY_ONLY} == dict.fromkeys(DIRECTORY_ONLY, NULL_TYPE)


@pytest.mark.spec("MQ-151", "MQ-152", "MQ-159", "MQ-163", "DM-020")
def test_a_new_queue_answers_its_identity_its_times_and_the_defaults(engine: ManualEngine) -> None:
    queue = engine.create(r".\Private$\Orders")
    now = int(engine.clock.wall())
    values = read(engine, queue, *(propid for propid in TYPES if propid < 1000))
    assert values == {
        101: queue.identifier, 102: UUID(int=0), 103: r"lior\private$\Orders", 104: 0, 105: 0xFFFFFFFF, 106: 0,
        107: 0xFFFFFFFF, 108: "", 109: now, 110: now, 111: 0, 112: 1, 113: 0, 114: 1, 115: IDENTIFIER,
        124: r"lior.example.org\private$\Orders", 125: "",
    }  # fmt: skip
    assert queue.identifier != IDENTIFIER


@pytest.mark.spec("MQ-151")
def test_what_the_creator_gave_is_what_everybody_reads(engine: ManualEngine) -> None:
    given = {
        "p102": PropVariant(VT_CLSID, GUID), "p104": u1(1), "p105": u4(7), "p107": u4(8), "p108": text("orders"),
        "p111": u1(1), "p112": u4(2), "p113": u1(1),
    }  # fmt: skip
    queue = creating(engine, **given)
    values = read(engine, queue, 102, 104, 105, 107, 108, 111, 112, 113)
    assert values == {102: GUID, 104: 1, 105: 7, 107: 8, 108: "orders", 111: 1, 112: 2, 113: 1}
    assert queue.transactional and queue.properties.journaling


@pytest.mark.spec("MQ-151")
def test_an_unknown_identifier_a_wrong_type_and_too_many_are_refused(engine: ManualEngine) -> None:
    queue = engine.create()
    for call in (
        lambda: queue_values(engine.manager, queue, [101, 999]),
        lambda: setting(engine, queue, {999: u1(1)}),
    ):
        with pytest.raises(IllegalPropertyId) as unknown:
            call()
        assert unknown.value.code == 0xC00E0039
    with pytest.raises(IllegalPropertyType) as wrong:
        setting(engine, queue, {108: text("new"), 104: u4(1)})
    assert wrong.value.code == 0xC00E0019
    assert queue.properties.label == ""
    with pytest.raises(TooManyProperties):
        queue_values(engine.manager, queue, [101] * 129)


@pytest.mark.spec("MQ-159")
def test_times_after_2038_go_on_in_the_same_32_bits() -> None:
    engine = ManualEngine(clock=FakeClock(wall=2.0**31 + 7))
    queue = engine.create()
    written = read(engine, queue, 109)[109]
    assert written == -(2**31) + 7
    assert written & 0xFFFFFFFF == 2**31 + 7


@pytest.mark.spec("MQ-168")
def test_a_workgroups_queue_has_no_directory_path(engine: ManualEngine) -> None:
    assert queue_values(engine.manager, engine.create(), [126]) == {126: NULL}


def test_journals_and_subqueues_answer_and_outgoing_queues_refuse(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True, label="main")
    assert queue.journal is not None
    assert read(engine, queue.journal, 103, 113)[103] == r"lior\private$\q;JOURNAL"
    subqueue = engine.open(r"DIRECT=OS:.\private$\q;s", QueueAccessType.MOVE).queue
    assert subqueue is not None
    assert read(engine, subqueue, 103, 108, 113) == {103: r"lior\private$\q;s", 108: "main", 113: 1}
    for asked in (queue.journal, subqueue):
        assert read(engine, asked, 1102) == read(engine, queue, 1102)
    dead = engine.manager.find_queue(r".\system$;DEADXACT")
    assert read(engine, dead, 103, 113, 1101, 1102) == {103: r"lior\system$;DEADXACT", 113: 1, 1101: None, 1102: None}
    remote = engine.sender(r"DIRECT=OS:elsewhere\private$\q").queue
    assert remote is not None
    with pytest.raises(UnsupportedOperation):
        queue_values(engine.manager, remote, [101])


# --- setting


@pytest.mark.spec("MQ-152", "MQ-159")
def test_setting_moves_the_modify_time_and_sending_does_not(engine: ManualEngine) -> None:
    queue = engine.create()
    created = int(engine.clock.wall())
    engine.advance(30)
    engine.send(engine.sender())
    assert read(engine, queue, 109, 110) == {109: created, 110: created}
    setting(engine, queue, {102: PropVariant(VT_CLSID, GUID)})
    assert read(engine, queue, 102, 109, 110) == {102: GUID, 109: created, 110: created + 30}
    engine.advance(30)
    setting(engine, queue, {108: text("new")})
    assert read(engine, queue, 108, 110) == {108: "new", 110: created + 60}


READ_ONLY = {
    101: PropVariant(VT_CLSID, GUID), 103: text(r".\private$\other"), 109: PropVariant(VT_I4, 1),
    110: PropVariant(VT_I4, 1), 113: u1(1), 114: u1(0), 115: PropVariant(VT_CLSID, GUID), 124: text(r"a.b\private$\q"),
    126: text("LDAP://x"),
}  # fmt: skip


@pytest.mark.spec("MQ-152", "MQ-153", "MQ-162", "MQ-163")
@pytest.mark.parametrize("propid", READ_ONLY)
def test_what_is_fixed_at_creation_is_never_set(engine: ManualEngine, propid: int) -> None:
    queue = engine.create()
    before = read(engine, queue, *TYPES)
    with pytest.raises(PropertyNotAllowed) as caught:
        setting(engine, queue, {108: text("new"), propid: READ_ONLY[propid]})
    assert caught.value.code == 0xC00E003E
    assert read(engine, queue, *TYPES) == before


@pytest.mark.spec("MQ-153")
@pytest.mark.parametrize("path", ["q", r".\private$", ".\\private$\\a\\b", "", r"a b\private$\q"])
def test_a_bad_path_creates_nothing(path: str) -> None:
    with pytest.raises(IllegalQueuePathname) as caught:
        queue_properties_from({103: text(path)})
    assert caught.value.code == 0xC00E0014
    with pytest.raises(InsufficientProperties):
        queue_properties_from({108: text("no path")})


ILLEGAL = [
    pytest.param(104, u1(2), marks=pytest.mark.spec("MQ-154")),
    pytest.param(111, u1(2), marks=pytest.mark.spec("MQ-160")),
    pytest.param(112, u4(3), marks=pytest.mark.spec("MQ-161")),
    pytest.param(108, text("x" * 125), marks=pytest.mark.spec("MQ-158")),
    pytest.param(108, text("\U0001f4ec" * 63), marks=pytest.mark.spec("MQ-158")),
    pytest.param(125, text("10.0.0.1:1"), marks=pytest.mark.spec("MQ-167")),
    pytest.param(125, text("224.1.1.1"), marks=pytest.mark.spec("MQ-167")),
    (108, PropVariant(VT_LPWSTR)),
    (102, PropVariant(VT_CLSID)),
]


@pytest.mark.parametrize(("propid", "variant"), ILLEGAL)
def test_an_illegal_value_is_refused_at_creation_and_later(
    engine: ManualEngine, propid: int, variant: PropVariant
) -> None:
    queue = engine.create()
    for call in (
        lambda: setting(engine, queue, {105: u4(9), propid: variant}),
        lambda: queue_properties_from({103: text(r".\private$\p"), propid: variant}),
    ):
        with pytest.raises(LiorError) as caught:
            call()
        assert caught.value.code == 0xC00E0018
    assert queue.properties.quota == 0xFFFFFFFF


@pytest.mark.spec("MQ-154", "MQ-157")
def test_journaling_follows_the_property_and_a_full_journal_drops_the_copy(engine: ManualEngine) -> None:
    queue = engine.create()
    assert queue.journal is not None
    for journal, quota, copies in ((0, 0xFFFFFFFF, 0), (1, 0xFFFFFFFF, 1), (1, 0, 1), (0, 9, 1)):
        setting(engine, queue, {104: u1(journal), 107: u4(quota)})
        assert read(engine, queue, 104, 107) == {104: journal, 107: quota}
        engine.send(engine.sender())
        engine.receive(engine.open())
        assert queue.journal.message_count == copies


@pytest.mark.spec("MQ-155")
def test_a_quota_of_one_kilobyte_refuses_the_second_kilobyte(engine: ManualEngine) -> None:
    queue = engine.create()
    setting(engine, queue, {105: u4(1)})
    engine.send(engine.sender(), body=b"b" * (1024 - 120))
    with pytest.raises(InsufficientResources):
        engine.send(engine.sender())


@pytest.mark.spec("MQ-156")
def test_a_base_priority_is_taken_without_error_and_stays_zero(engine: ManualEngine) -> None:
    queue = creating(engine, p106=PropVariant(VT_I2, 9))
    assert read(engine, queue, 106) == {106: 0}
    engine.advance(10)
    assert setting(engine, queue, {106: PropVariant(VT_I2, 5)}) == (IGNORED,)
    assert read(engine, queue, 106, 110) == {106: 0, 110: queue.create_time}


@pytest.mark.spec("MQ-158")
def test_a_label_of_124_characters_is_kept_whole(engine: ManualEngine) -> None:
    queue = engine.create()
    setting(engine, queue, {108: text("é" * 124)})
    assert read(engine, queue, 108) == {108: "é" * 124}


@pytest.mark.spec("MQ-160", "MQ-161")
def test_what_a_queue_wants_of_its_messages_holds_from_then_on(engine: ManualEngine) -> None:
    queue = engine.create()
    setting(engine, queue, {111: u1(1), 112: u4(2)})
    assert read(engine, queue, 111, 112) == {111: 1, 112: 2}
    with pytest.raises(MessageNotAuthenticated):
        engine.send(engine.sender(), Message(security=MessageSecurity(privacy_level=5)))
    with pytest.raises(IllegalPropertyValue):
        engine.send(engine.sender(), Message(security=MessageSecurity(authentication_level=5)))
    engine.send(engine.sender(), Message(security=MessageSecurity(authentication_level=5, privacy_level=5)))


@pytest.mark.spec("MQ-162")
def test_a_transactional_queue_keeps_the_rules_of_one(engine: ManualEngine) -> None:
    queue = creating(engine, p113=u1(1))
    assert read(engine, queue, 113) == {113: 1}
    with pytest.raises(TransactionUsage):
        engine.send(engine.sender())


@pytest.mark.spec("MQ-164")
def test_reserved_values_are_dropped_whatever_they_are(engine: ManualEngine) -> None:
    queue = creating(engine, p118=u4(1), p119=u4(0xFFFFFFFF))
    before = read(engine, queue, *TYPES)
    for value in (0, 1, 0xFFFFFFFF):
        assert setting(engine, queue, {118: u4(value), 119: u4(value)}) == (IGNORED, IGNORED)
    assert read(engine, queue, *TYPES) == before
    assert queue_values(engine.manager, queue, [118, 119]) == {118: NULL, 119: NULL}


@pytest.mark.spec("MQ-151")
def test_properties_of_directories_are_told_apart_from_those_that_are_kept(engine: ManualEngine) -> None:
    queue = engine.create()
    statuses = setting(engine, queue, {108: text("kept"), 121: text("CN=q"), 117: PropVariant(VT_BLOB, b"x")})
    assert statuses == (0, UNSUPPORTED, IGNORED)
    assert read(engine, queue, 108) == {108: "kept"}


def test_of_a_property_given_twice_the_first_counts(engine: ManualEngine) -> None:
    queue = engine.create()
    assert setting(engine, queue, [(108, text("first")), (105, u4(7)), (108, text("second"))]) == (0, 0, 0x400E0005)
    assert read(engine, queue, 105, 108) == {105: 7, 108: "first"}


@pytest.mark.spec("MQ-167")
def test_a_queue_binds_any_class_d_address_and_an_empty_one_unbinds_it(engine: ManualEngine) -> None:
    queue = creating(engine, p125=text("224.1.1.1:8001"))
    for address in ("239.255.255.255:65535", "224.0.0.0:0", ""):
        setting(engine, queue, {125: text(address)})
        assert read(engine, queue, 125) == {125: address}
    transactional = engine.create(r".\private$\tx", transactional=True)
    with pytest.raises(IllegalPropertyValue):
        setting(engine, transactional, {125: text("224.1.1.1:8001")})
    with pytest.raises(LiorError) as conflict:
        queue_properties_from({103: text(r".\private$\p"), 113: u1(1), 125: text("224.1.1.1:8001")})
    assert conflict.value.code == 0xC00E0087
