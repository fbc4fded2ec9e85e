"""What a send makes of a message: identifiers, lookup ids, checks, several destinations."""

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.message import Acknowledgements, Message, MessageSecurity, MessageSoap, MessageTransaction
from lior.queues.acknowledgements import bit_of
from lior.queues.change import Change
from lior.queues.sending import EnqueueStatus
from lior.store.sqlite import SqliteStore
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import ADMIN, RECOVERABLE, messages, refused

COUNT = (1 << 56) - 1


@pytest.mark.spec("DM-018", "DM-032", "DM-101")
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1)), min_size=1, max_size=30))
def test_messages_stand_by_priority_then_by_arrival_and_lookup_ids_grow(sends: list[tuple[int, int]]) -> None:
    engine = ManualEngine()
    queue, sender = engine.create(), engine.sender()
    for number, (priority, guarantee) in enumerate(sends):
        engine.clock.advance(1)
        engine.send(sender, body=bytes([number]), priority=priority, delivery_guarantee=guarantee)
    found = messages(engine, queue)
    order = sorted(range(len(sends)), key=lambda number: (-sends[number][0], number))
    assert [message.body[0] for message in found] == order
    ids = [message.lookup_identifier for message in found]
    assert ids == sorted(set(ids))
    keys = [(-message.priority, message.arrival_time) for message in found]
    assert keys == sorted(keys)


@pytest.mark.spec("DM-101")
def test_the_high_byte_is_seven_minus_priority_for_every_message(engine: ManualEngine) -> None:
    queue, sender = engine.create(), engine.sender()
    for priority in range(8):
        engine.send(sender, priority=priority)
    assert [message.lookup_identifier >> 56 for message in messages(engine, queue)] == list(range(8))


@pytest.mark.spec("DM-041")
def test_a_message_without_a_priority_stands_with_those_of_three(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender())
    assert [(message.priority, message.lookup_identifier >> 56) for message in messages(engine, queue)] == [(3, 4)]


@pytest.mark.spec("DM-013")
@pytest.mark.parametrize("clean", [True, False])
def test_the_sequence_is_shared_by_all_queues_and_goes_on_after_a_restart(tmp_path: Path, clean: bool) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    used = []
    queues = [engine.create(rf".\private$\{name}") for name in "ab"]
    for _ in range(3):
        for queue in queues:
            engine.send(engine.sender(rf"DIRECT=OS:.\{queue.name}"), delivery_guarantee=RECOVERABLE)
            used.append(list(queue.available)[-1] & COUNT)
    assert used == list(range(used[0], used[0] + 6))
    again = engine.restart(clean=clean)
    again.send(again.sender(r"DIRECT=OS:.\private$\a"))
    assert list(again.manager.find_queue(r".\private$\a").available)[-1] & COUNT > max(used)


@pytest.mark.spec("DM-033")
def test_no_identifier_comes_twice_over_two_queue_managers_and_restarts() -> None:
    seen = []
    for identifier in (UUID(int=1), UUID(int=2)):
        engine = ManualEngine(identifier=identifier)
        engine.create()
        for _ in range(3):
            for number in range(3):
                given = engine.send(engine.sender(), delivery_guarantee=number % 2)
                assert given.lineage == identifier
                seen.append(given)
            engine = engine.restart()
    assert len(set(seen)) == 18


@pytest.mark.spec("DM-036")
def test_the_arrival_time_is_when_it_came_into_the_queue(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.clock.advance(17.25)
    engine.send(engine.sender())
    assert messages(engine, queue)[0].arrival_time == engine.clock.wall()


@pytest.mark.spec(*[f"DM-0{n}" for n in (34, 37, 38, 39, 40, 41, 42, 43, 45, 46, 47, 48)])
def test_a_message_with_nothing_set_has_the_defaults_of_the_model(engine: ManualEngine) -> None:
    engine.create()
    engine.send(engine.sender())
    message = engine.receive(engine.open())
    assert (message.message_class, message.priority, message.delivery_guarantee) == (0, 3, 0)
    assert not message.positive_journaling_requested and not message.negative_journaling_requested
    assert (message.time_to_reach_queue, message.time_to_be_received) == (345600, 0xFFFFFFFF)
    assert (message.body, message.label, message.extension) == (b"", "", b"")
    assert (message.body_type, message.application_tag, message.correlation_id) == (0, 0, bytes(20))
    assert message.acknowledgements_requested == 0 and not message.allow_peek_when_locked
    security = message.security or MessageSecurity()
    assert (security.privacy_level, security.authentication_level) == (0, 0)


@pytest.mark.spec("DM-044")
def test_names_are_empty_unless_given(engine: ManualEngine) -> None:
    message = Message()
    assert message.administration_queue == message.response_queue == message.destination_queue == ""
    assert message.destination_multi_queue == message.application_deadletter_queue == ""


@pytest.mark.spec("DM-049")
def test_new_sends_hash_with_sha_512_and_encrypt_with_aes_256() -> None:
    assert (MessageSecurity().hash_algorithm, MessageSecurity().encryption_algorithm) == (0x800E, 0x6610)


@pytest.mark.spec("DM-046")
def test_acknowledgements_requested_are_these_bits() -> None:
    names = ("ACK_NACK_REACH_QUEUE", "FULL_REACH_QUEUE", "NACK_RECEIVE", "FULL_RECEIVE")
    assert [Acknowledgements[name].value for name in names] == [4, 5, 12, 14]
    asked = {0x0002: 1, 0x4000: 2, 0x8001: 4, 0x8002: 4, 0x8003: 4, 0xC000: 8, 0xC001: 8, 0xC002: 8, 0xC004: 8}
    assert {message_class: int(bit_of(message_class)) for message_class in asked} == asked


@pytest.mark.spec("DM-045")
def test_opaque_attributes_come_back_byte_for_byte_after_a_restart(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    engine.create()
    sent = Message(
        body=bytes(range(256)) * 5, label="\x00ä\U0001f4e8" * 50, body_type=0xFFFFFFFF, extension=b"\xff\0ext",
        application_tag=0xFFFFFFFE, correlation_id=bytes(range(20)), delivery_guarantee=RECOVERABLE,
        response_queue=r"DIRECT=OS:other\private$\r", administration_queue=ADMIN,
    )  # fmt: skip
    engine.send(engine.sender(), sent.copy())
    again = engine.restart()
    got = again.receive(again.open())
    for name in (
        "body", "label", "body_type", "extension", "application_tag", "correlation_id", "response_queue",
        "administration_queue",
    ):  # fmt: skip
        assert getattr(got, name) == getattr(sent, name), name


@pytest.mark.spec("DM-051")
def test_the_place_in_a_stream_survives_a_restart_and_is_empty_outside_one(tmp_path: Path) -> None:
    engine = ManualEngine(SqliteStore(tmp_path))
    queue = engine.create()
    engine.send(engine.sender(), delivery_guarantee=RECOVERABLE)
    place = MessageTransaction(engine.manager.core.properties.identifier, 1 << 40, 7, 6, 0xFFFFF, True, False, True)
    message = Message(delivery_guarantee=1, transaction=place, sent_time=engine.clock.wall())
    change = Change()
    engine.manager.sending.accept(queue, message, None, change)
    engine.manager.core.submit(change)
    engine.commit()
    again = engine.restart()
    plain, streamed = messages(again, again.manager.find_queue(r".\private$\q"))
    assert plain.transaction is None
    assert streamed.transaction == place


@pytest.mark.spec("DM-045", "MQ-210")
def test_refuses_a_label_of_250_characters(engine: ManualEngine) -> None:
    queue, sender = engine.create(), engine.sender()
    engine.send(sender, label="x" * 249)
    with refused("LABEL_TOO_LONG"):
        engine.send(sender, label="x" * 250)
    assert queue.message_count == 1


@pytest.mark.spec("DM-045")
def test_counts_a_label_in_utf_16_units(engine: ManualEngine) -> None:
    engine.create()
    with refused("LABEL_TOO_LONG"):
        engine.send(engine.sender(), label="\U0001f4e8" * 125)


@pytest.mark.spec("DM-037", "MQ-069")
def test_carries_a_custom_class_inside_the_mask_and_refuses_one_outside(engine: ManualEngine) -> None:
    engine.create()
    engine.send(engine.sender(), message_class=0x0100)
    assert engine.receive(engine.open()).message_class == 0x0100
    for outside in (0x0200, 0x0400, 0x0800, 0x1000, 0x10000):
        with refused("UNSUPPORTED_CLASS"):
            engine.send(engine.sender(), message_class=outside)


@pytest.mark.spec("DM-052")
def test_refuses_soap_parts_from_an_application(engine: ManualEngine) -> None:
    engine.create()
    with refused("ILLEGAL_PROPERTY_VALUE"):
        engine.send(engine.sender(), soap=MessageSoap(envelope="<e/>"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("priority", 8), ("priority", -1), ("correlation_id", b"x"), ("application_tag", 1 << 32), ("body_type", -1),
     ("acknowledgements_requested", 0x10), ("time_to_be_received", 1 << 32)],
)  # fmt: skip
def test_refuses_values_that_no_message_can_have(engine: ManualEngine, name: str, value: object) -> None:
    queue, sender = engine.create(), engine.sender()
    with refused("ILLEGAL_PROPERTY_VALUE"):
        engine.send(sender, Message(**{name: value}))  # type: ignore[arg-type]
    assert (queue.message_count, queue.used_bytes(), engine.manager.core.total_bytes) == (0, 0, 0)


@pytest.mark.spec("DM-044")
def test_a_send_to_several_queues_names_the_one_and_the_many(engine: ManualEngine) -> None:
    queues = [engine.create(rf".\private$\{name}") for name in "ab"]
    names = [r"DIRECT=OS:.\private$\a", r"DIRECT=OS:.\private$\b"]
    engine.send(engine.sender(",".join(names)), body=b"x")
    for queue, name in zip(queues, names, strict=True):
        (message,) = messages(engine, queue)
        assert message.destination_queue == name.replace(".", "lior", 1)
        assert message.destination_multi_queue == ",".join(names).replace(".", "lior")


@pytest.mark.spec("DM-121")
@pytest.mark.parametrize("full", ["a", "b"])
def test_a_send_to_several_queues_puts_it_in_all_or_in_none(engine: ManualEngine, full: str) -> None:
    for name in "ab":
        engine.create(rf".\private$\{name}", quota=1 if name == full else 100)
    sender = engine.sender(r"DIRECT=OS:.\private$\a,DIRECT=OS:.\private$\b")
    with refused("INSUFFICIENT_RESOURCES"):
        engine.send(sender, body=bytes(2000))
    for name in "ab":
        queue = engine.manager.find_queue(rf".\private$\{name}")
        assert (queue.message_count, queue.used_bytes()) == (0, 0)
    assert engine.manager.core.total_bytes == 0


@pytest.mark.spec("DM-121")
def test_room_for_one_copy_is_not_room_for_two_in_the_queue_manager(engine: ManualEngine) -> None:
    for name in "ab":
        engine.create(rf".\private$\{name}")
    engine.manager.core.properties.queue_manager_quota = 3
    sender = engine.sender(r"DIRECT=OS:.\private$\a,DIRECT=OS:.\private$\b")
    with refused("INSUFFICIENT_RESOURCES"):
        engine.send(sender, body=bytes(2000))
    assert engine.manager.core.total_bytes == 0
    engine.send(sender, body=bytes(1000))


@pytest.mark.spec("DM-100")
def test_the_queue_quota_counts_what_is_not_committed(engine: ManualEngine) -> None:
    queue = engine.create(quota=2, transactional=True)
    first, second = engine.manager.begin(), engine.manager.begin()
    engine.send(engine.sender(), transaction=first, body=bytes(1500))
    with refused("INSUFFICIENT_RESOURCES"):
        engine.send(engine.sender(), transaction=second, body=bytes(1500))
    assert second.operations == [] and queue.uncommitted_bytes == 1620


@pytest.mark.spec("DM-100")
def test_two_sends_under_way_cannot_share_the_same_room(engine: ManualEngine) -> None:
    engine.create(quota=2)
    sender = engine.sender()
    engine.manager.send(sender, Message(body=bytes(1500), delivery_guarantee=1), Answer())
    with refused("INSUFFICIENT_RESOURCES"):
        engine.manager.send(sender, Message(body=bytes(1500), delivery_guarantee=1), Answer())


def accept(engine: ManualEngine, **fields: object) -> EnqueueStatus:
    """As a transfer protocol does it."""
    change = Change()
    queue = engine.manager.find_queue(r".\private$\q")
    fields = {"sent_time": engine.clock.wall(), **fields}
    status = engine.manager.sending.accept(queue, Message(**fields), None, change)  # type: ignore[arg-type]
    engine.manager.core.submit(change)
    engine.commit()
    return status


@pytest.mark.spec("DM-100")
def test_the_transfer_learns_which_quota_is_used_up(engine: ManualEngine) -> None:
    queue = engine.create(quota=1)
    assert accept(engine, body=bytes(500)) == 0
    assert accept(engine, body=bytes(500)) == 1
    engine.manager.core.properties.queue_manager_quota = 0
    assert accept(engine, body=b"") == 2
    assert queue.message_count == 1 and queue.used_bytes() == 620


@pytest.mark.spec("DM-103", "MQ-078", "QB-169")
@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.999])
def test_a_message_late_for_its_queue_is_not_inserted(engine: ManualEngine, fraction: float) -> None:
    """Late is more seconds than it was given, both times in whole seconds: a short time is no shorter here because the
    sender's clock was at the end of its second."""
    queue = engine.create()
    sent = int(engine.clock.wall())
    engine.clock.advance(sent + 10 + fraction - engine.clock.wall())
    assert accept(engine, sent_time=sent, time_to_reach_queue=9) == 3
    assert queue.message_count == 0 and queue.used_bytes() == 0
    assert accept(engine, sent_time=sent, time_to_reach_queue=10) == 0
    assert accept(engine, sent_time=sent + 3600, time_to_reach_queue=0) == 0


@pytest.mark.spec("DM-100", "DM-130")
def test_a_throttled_queue_manager_refuses_messages_until_flow_control_ends(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.manager.core.set_throttled("the disk is full")
    assert accept(engine) == 2
    with refused("INSUFFICIENT_RESOURCES"):
        engine.send(engine.sender())
    assert queue.message_count == 0
    engine.manager.core.set_throttled("")
    assert accept(engine) == 0
    engine.send(engine.sender())
    assert queue.message_count == 2


@pytest.mark.spec("DM-050")
def test_a_message_names_the_queue_manager_that_took_it_and_no_sender_unless_signed(engine: ManualEngine) -> None:
    engine.create()
    engine.send(engine.sender())
    message = engine.receive(engine.open())
    assert message.source_queue_manager == engine.manager.core.properties.identifier
    assert message.security is None


@pytest.mark.spec("MQ-213")
def test_a_queue_that_wants_signed_messages_refuses_unsigned_ones(engine: ManualEngine) -> None:
    queue = engine.create(authentication=True)
    with refused("MESSAGE_NOT_AUTHENTICATED"):
        engine.send(engine.sender())
    engine.send(engine.sender(), security=MessageSecurity(authentication_level=3))
    assert queue.message_count == 1


def test_a_queue_takes_clear_or_encrypted_bodies_as_its_privacy_says(engine: ManualEngine) -> None:
    clear, encrypted = MessageSecurity(), MessageSecurity(privacy_level=5)
    for level, wanted, unwanted in ((0, clear, encrypted), (2, encrypted, clear)):
        queue = engine.create(rf".\private$\p{level}", privacy_level=level)
        sender = engine.sender(rf"DIRECT=OS:.\private$\p{level}")
        engine.send(sender, security=wanted)
        with refused("ILLEGAL_PROPERTY_VALUE"):
            engine.send(sender, security=unwanted)
        assert queue.message_count == 1
