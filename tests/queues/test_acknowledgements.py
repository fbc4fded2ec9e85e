"""Administration acknowledgements: each class the queues produce, and what stands in them ([MS-MQQB] 3.1.7.15)."""

from collections.abc import Callable

import pytest

from lior.message import Message, MessageClass, MessageSecurity, ObjectId
from lior.queues.acknowledgements import acknowledgement
from lior.queues.change import Change
from lior.queues.events import MessageDropped
from lior.testing.engine import ManualEngine
from tests.queues.scenario import ADMIN, QUEUE, REMOTE, abort, classes, commit, messages

CLASSES = {
    "ACK_REACH_QUEUE": 0x0002, "ACK_RECEIVE": 0x4000, "NACK_DELETED": 0x8001, "NACK_REACH_QUEUE_TIMEOUT": 0x8002,
    "NACK_Q_DELETED": 0xC000, "NACK_Q_PURGED": 0xC001, "NACK_RECEIVE_TIMEOUT": 0xC002,
    "NACK_RECEIVE_TIMEOUT_AT_SENDER": 0xC003, "NACK_RECEIVE_REJECTED": 0xC004,
}  # fmt: skip
BITS = {0x0002: 1, 0x4000: 2, 0x8001: 4, 0x8002: 4, 0xC000: 8, 0xC001: 8, 0xC002: 8, 0xC003: 8, 0xC004: 8}


def arrive(engine: ManualEngine) -> None:
    pass


def receive(engine: ManualEngine) -> None:
    engine.receive(engine.open())


def delete(engine: ManualEngine) -> None:
    engine.do(engine.manager.delete_queue, engine.manager.find_queue(r".\private$\q"), engine.admin)


def purge(engine: ManualEngine) -> None:
    engine.do(engine.manager.purge, engine.manager.find_queue(r".\private$\q"), engine.admin)


def expire(engine: ManualEngine) -> None:
    engine.advance(50)


def reject(engine: ManualEngine) -> None:
    transaction = engine.manager.begin()
    reader = engine.open()
    lookup_id = engine.receive(reader, transaction=transaction).lookup_identifier
    engine.do(lambda r: engine.manager.reject(reader, lookup_id, transaction, r))
    commit(engine, transaction)


def purge_outgoing(engine: ManualEngine) -> None:
    (outgoing,) = engine.manager.core.outgoing.values()
    engine.do(engine.manager.purge, outgoing, engine.admin)


Scenario = tuple[str, str, int, Callable[[ManualEngine], None]]
SCENARIOS: list[Scenario] = [
    ("ACK_REACH_QUEUE", QUEUE, 0xFFFFFFFF, arrive),
    ("ACK_RECEIVE", QUEUE, 0xFFFFFFFF, receive),
    ("NACK_Q_DELETED", QUEUE, 0xFFFFFFFF, delete),
    ("NACK_Q_PURGED", QUEUE, 0xFFFFFFFF, purge),
    ("NACK_RECEIVE_TIMEOUT", QUEUE, 20, expire),
    ("NACK_RECEIVE_REJECTED", QUEUE, 0xFFFFFFFF, reject),
    ("NACK_REACH_QUEUE_TIMEOUT", REMOTE, 0xFFFFFFFF, expire),
    ("NACK_RECEIVE_TIMEOUT_AT_SENDER", REMOTE, 20, expire),
    ("NACK_DELETED", REMOTE, 0xFFFFFFFF, purge_outgoing),
]


def produce(engine: ManualEngine, scenario: Scenario, asked: int, **fields: object) -> ObjectId:
    name, destination, seconds, event = scenario
    transactional = name == "NACK_RECEIVE_REJECTED"
    engine.create(transactional=transactional)
    engine.create(r".\private$\admin")
    transaction = engine.manager.begin() if transactional else None
    message = Message(
        body=b"body", body_type=8, time_to_reach_queue=40, time_to_be_received=seconds,
        acknowledgements_requested=asked, administration_queue=ADMIN, **fields,  # type: ignore[arg-type]
    )  # fmt: skip
    identifier: ObjectId = engine.send(engine.sender(destination), message, transaction)
    if transaction is not None:
        commit(engine, transaction)
    event(engine)
    return identifier


def admin_messages(engine: ManualEngine) -> list[Message]:
    return messages(engine, engine.manager.find_queue(r".\private$\admin"))


def test_the_classes_have_the_numbers_of_the_specification() -> None:
    assert {name: MessageClass[name].value for name in CLASSES} == CLASSES


@pytest.mark.spec("MQ-066", "MQ-067", "MQ-068", "DM-128", "QB-196", "QB-205", "MQ-099")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario[0])
def test_each_class_comes_once_from_its_event_and_only_if_its_bit_asks(
    engine: ManualEngine, scenario: Scenario
) -> None:
    expected = CLASSES[scenario[0]]
    identifier = produce(engine, scenario, BITS[expected])
    (ack,) = admin_messages(engine)
    assert ack.message_class == expected and ack.correlation_id == identifier.to_bytes()


@pytest.mark.spec("DM-046")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario[0])
def test_without_its_bit_no_class_comes(engine: ManualEngine, scenario: Scenario) -> None:
    expected = CLASSES[scenario[0]]
    produce(engine, scenario, 0x0F & ~BITS[expected])
    assert expected not in [ack.message_class for ack in admin_messages(engine)]


@pytest.mark.spec("DM-142", "QB-196", "QB-204", "MQ-086")
@pytest.mark.parametrize("guarantee", [0, 1])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario[0])
def test_an_acknowledgement_field_by_field(engine: ManualEngine, scenario: Scenario, guarantee: int) -> None:
    expected = CLASSES[scenario[0]]
    produce(
        engine, scenario, BITS[expected], delivery_guarantee=guarantee, label="label",
        positive_journaling_requested=True, negative_journaling_requested=True, tracing_requested=True,
    )  # fmt: skip
    (ack,) = admin_messages(engine)
    assert ack.response_queue == scenario[1].replace("OS:.", "OS:lior")
    assert ack.delivery_guarantee == (1 if scenario[0] == "NACK_RECEIVE_REJECTED" else guarantee)
    assert (ack.acknowledgements_requested, ack.administration_queue) == (0, "")
    assert not ack.positive_journaling_requested and not ack.negative_journaling_requested
    assert (ack.time_to_reach_queue, ack.time_to_be_received) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert ack.security is None and ack.transaction is None
    assert (ack.body, ack.body_type) == ((b"body", 8) if "NACK" in scenario[0] else (b"", 0))
    assert ack.source_queue_manager == engine.manager.core.properties.identifier
    assert ack.identifier is not None and ack.identifier.to_bytes() != ack.correlation_id
    assert ack.destination_queue == ADMIN and ack.sent_time == ack.arrival_time == engine.clock.wall()


@pytest.mark.spec("DM-142", "QB-204")
def test_an_encrypted_body_is_not_copied_into_a_nack() -> None:
    message = Message(
        body=b"secret", administration_queue=ADMIN, acknowledgements_requested=0x0F,
        security=MessageSecurity(privacy_level=5),
    )  # fmt: skip
    nack = acknowledgement(message, MessageClass.NACK_Q_PURGED, insecure=True)
    assert nack is not None and nack.body == b"" and nack.security is None


@pytest.mark.spec("DM-142", "QB-203")
def test_without_an_administration_queue_nothing_is_sent(engine: ManualEngine) -> None:
    engine.create()
    engine.send(engine.sender(), acknowledgements_requested=0x0F)
    engine.receive(engine.open())
    assert not [event for event in engine.events if isinstance(event, MessageDropped)]
    assert engine.manager.core.total_bytes == 0


@pytest.mark.spec("DM-142", "QB-203")
@pytest.mark.parametrize("insecure", [True, False])
@pytest.mark.parametrize("message_class", [0x8000, 0x8004, 0x8006, 0x8007, 0x800B, 0x8003, 0x8009, 0x800A])
def test_what_tells_a_stranger_too_much_is_sent_only_if_enabled(
    engine: ManualEngine, message_class: int, insecure: bool
) -> None:
    queue, admin = engine.create(), engine.create(r".\private$\admin")
    engine.manager.core.properties.send_insecure_nacks = insecure
    change = Change()
    message = Message(administration_queue=ADMIN, acknowledgements_requested=0x0F)
    engine.manager.removal.refuse(change, queue, message, MessageClass(message_class))
    engine.manager.core.submit(change)
    engine.commit()
    secret = message_class in (0x8000, 0x8004, 0x8006, 0x8007, 0x800B)
    assert classes(engine, admin) == ([message_class] if insecure or not secret else [])


@pytest.mark.spec("MQ-068", "DM-071", "QB-196")
def test_a_rejection_that_is_aborted_says_nothing_and_can_be_received_after_all(engine: ManualEngine) -> None:
    queue, admin = engine.create(transactional=True), engine.create(r".\private$\admin")
    fill, refusing, taking = (engine.manager.begin() for _ in range(3))
    engine.send(engine.sender(), Message(acknowledgements_requested=0x0E, administration_queue=ADMIN), fill)
    commit(engine, fill)
    reader = engine.open()
    lookup_id = engine.receive(reader, transaction=refusing).lookup_identifier
    engine.do(lambda r: engine.manager.reject(reader, lookup_id, refusing, r))
    abort(engine, refusing)
    assert queue.message_count == 1 and admin.message_count == 0
    engine.receive(reader, transaction=taking)
    commit(engine, taking)
    assert classes(engine, admin) == [0x4000]


def test_an_acknowledgement_to_another_computer_waits_in_its_outgoing_queue(engine: ManualEngine) -> None:
    engine.create()
    engine.send(engine.sender(), acknowledgements_requested=1, administration_queue=REMOTE)
    (outgoing,) = engine.manager.core.outgoing.values()
    assert classes(engine, outgoing) == [0x0002]


@pytest.mark.parametrize(
    "name", [r"DIRECT=OS:.\private$\none", r"DIRECT=OS:.\private$\transactional", r"DIRECT=OS:.\private$\q;sub",
             r"DIRECT=OS:.\private$\q;JOURNAL", "nonsense", r"DIRECT=OS:.\SYSTEM$;DEADLETTER"]
)  # fmt: skip
def test_an_acknowledgement_that_nobody_can_get_is_dropped_with_an_event(engine: ManualEngine, name: str) -> None:
    queue = engine.create()
    engine.create(r".\private$\transactional", transactional=True)
    engine.send(engine.sender(), acknowledgements_requested=1, administration_queue=name)
    (event,) = [event for event in engine.events if isinstance(event, MessageDropped)]
    assert event.message.message_class == 2 and event.where == name
    assert engine.manager.core.total_bytes == queue.total_bytes and engine.manager.core.outgoing == {}
