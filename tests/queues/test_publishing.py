"""Batches that are published once, all of them or nothing."""

import pytest

from lior.errors import ClaimBusy, InvalidParameter, LiorError
from lior.message import Message
from lior.queues.descriptor import OpenQueueDescriptor
from lior.queues.publishing import SLICE, Item
from lior.testing.engine import Answer, ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL, FullStore, messages

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


def test_a_large_batch_goes_in_slices_between_which_others_are_served(host: Host) -> None:
    engine = prepared(host.engine)
    answer = Answer()
    publication = engine.manager.publishing.begin("w", 1, answer)
    assert publication is not None
    bodies = [b"%d" % number for number in range(3 * SLICE)]
    for at in range(0, len(bodies), SLICE):
        publication.add(items(engine, *bodies[at : at + SLICE]))
        engine.send(engine.sender(PLAIN), body=b"another", delivery_guarantee=1)
        assert found(engine)[0] == [b"another"] * (at // SLICE + 1)  # and none of the batch
    publication.end()
    engine.apply(engine.manager.take_pending())
    assert not answer.done  # on disk, and on its way to be seen
    assert 0 < len(found(engine)[1]) < len(bodies)
    engine.commit()
    assert answer.result() == 2 * len(bodies)
    engine = host.crash()
    plain, transactional = found(engine)
    assert transactional == bodies
    assert [body for body in plain if body != b"another"] == bodies
    places = [message.transaction for message in messages(engine, engine.manager.find_queue(r".\private$\tx"))]
    assert [each.first_in_transaction for each in places if each] == [True] + [False] * (len(bodies) - 1)
    assert [each.last_in_transaction for each in places if each] == [False] * (len(bodies) - 1) + [True]
    assert len({each.transaction_identifier for each in places if each}) == 1
    assert engine.manager.publishing.last("w") == 1


def test_a_crash_before_the_end_of_a_batch_leaves_nothing_of_it(host: Host) -> None:
    engine = prepared(host.engine)
    publication = engine.manager.publishing.begin("w", 1, Answer())
    assert publication is not None
    publication.add(items(engine, *[b"%d" % number for number in range(2 * SLICE)]))
    engine.send(engine.sender(PLAIN), body=b"another", delivery_guarantee=1)
    engine = host.crash()
    assert found(engine) == [[b"another"], []]
    assert publish(engine, 1, b"a") == 2


def test_who_asks_for_a_batch_that_is_under_way_hears_how_it_ends(engine: ManualEngine) -> None:
    prepared(engine)
    for gives_up in (True, False):
        first, second = Answer(), Answer()
        publication = engine.manager.publishing.begin("w", 1, first)
        assert publication is not None
        publication.add(items(engine, b"a"))
        assert engine.manager.publishing.begin("w", 1, second) is None
        with pytest.raises(ClaimBusy):
            engine.manager.publishing.begin("w", 2, Answer())
        if gives_up:
            publication.give_up(InvalidParameter("the caller went away"))
            engine.commit()
            assert second.error is not None
            assert found(engine) == [[], []]
            core = engine.manager.core
            assert (core.staged_bytes, core.total_bytes, core.transactions) == (0, 0, {})
        else:
            publication.end()
            engine.commit()
            assert (first.result(), second.result()) == (2, 0)
    assert found(engine) == [[b"a"]] * 2
