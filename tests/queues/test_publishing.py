"""Batches that are published once, all of them or nothing."""

import pytest

from lior.errors import InvalidParameter, LiorError
from lior.message import Message
from lior.queues.descriptor import OpenQueueDescriptor
from lior.queues.publishing import Item
from lior.testing.engine import Answer, ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL, FullStore

PLAIN, TX = r"DIRECT=OS:.\private$\plain", r"DIRECT=OS:.\private$\tx"


def prepared(engine: ManualEngine) -> ManualEngine:
    engine.create(r".\private$\plain")
    engine.create(r".\private$\tx", transactional=True)
    return engine


def items(engine: ManualEngine, *bodies: bytes) -> list[Item]:
    """Each goes to both queues."""
    senders: list[OpenQueueDescriptor] = [engine.sender(PLAIN), engine.sender(TX)]
    return [Item(to, Message(body=body, delivery_guarantee=1)) for body in bodies for to in senders]


def publish(engine: ManualEngine, batch: int, *bodies: bytes, writer: str = "w") -> int:
    return int(engine.do(engine.manager.publishing.publish, writer, batch, items(engine, *bodies)))


def found(engine: ManualEngine) -> list[list[bytes]]:
    return [engine.bodies(engine.manager.find_queue(rf".\private$\{name}")) for name in ("plain", "tx")]


def test_a_batch_is_published_once_to_queues_of_both_kinds(host: Host) -> None:
    engine = prepared(host.engine)
    assert publish(engine, 1, b"a", b"b") == 4
    assert publish(engine, 1, b"a", b"b") == 0
    assert found(engine) == [[b"a", b"b"]] * 2
    engine = host.crash()
    assert publish(engine, 1, b"a", b"b") == 0
    assert publish(engine, 0, b"old") == 0
    assert publish(engine, 2, b"c") == 2
    assert found(engine) == [[b"a", b"b", b"c"]] * 2
    assert engine.manager.publishing.last("w") == 2


def test_writers_do_not_know_of_each_other(engine: ManualEngine) -> None:
    prepared(engine)
    assert publish(engine, 7, b"a") == 2
    assert publish(engine, 1, b"b", writer="other") == 2
    with pytest.raises(InvalidParameter):
        publish(engine, 1, writer="")


def test_an_empty_batch_counts(engine: ManualEngine) -> None:
    assert publish(prepared(engine), 3) == 0
    assert engine.manager.publishing.last("w") == 3


def test_nothing_is_sent_if_one_message_cannot_be(engine: ManualEngine) -> None:
    prepared(engine)
    engine.do(engine.manager.set_queue_properties, engine.manager.find_queue(r".\private$\plain"), {"quota": 1},
              engine.admin)
    with pytest.raises(LiorError):
        publish(engine, 1, b"x", bytes(2000))
    assert found(engine) == [[], []]
    assert engine.manager.core.transactions == {}
    assert publish(engine, 1, b"x") == 2


def test_a_batch_whose_commit_fails_was_not_published() -> None:
    store = FullStore()
    engine = prepared(ManualEngine(store))
    store.error = FULL
    first, second = Answer(), Answer()
    engine.manager.publishing.publish("w", 1, items(engine, b"a"), first)
    engine.manager.publishing.publish("w", 1, items(engine, b"a"), second)  # again, before the first is decided
    engine.commit()
    assert first.error is not None and second.error is not None
    store.error = None
    assert found(engine) == [[], []]
    assert publish(engine, 1, b"a") == 2
