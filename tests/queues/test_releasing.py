"""Releases: in steps that outlive their caller and a crash, with all that a receive leaves behind and no more."""

from typing import Any
from uuid import UUID

import pytest

from lior.errors import ClaimBusy, LiorError
from lior.message import MessageClass
from lior.queues import releasing
from lior.testing.engine import Answer, ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL, FullStore, classes, messages
from tests.queues.streams import BACK, arrive, incoming, outgoing
from tests.queues.test_subscriptions import PATH, QUEUE, bodies, claim, filled, release, subscribe

ADMIN = r".\private$\admin"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of four messages, so that ten take three."""
    monkeypatch.setattr(releasing, "CHUNK", 4)
    monkeypatch.setattr(releasing, "LARGE", 2)


def unwatched(engine: ManualEngine) -> ManualEngine:
    """Nobody listens to each message, as in a server: what leaves nothing behind is not read."""
    engine.manager.core.message_listeners.clear()
    return engine


def step(engine: ManualEngine) -> int:
    """One commit; how many changes it had."""
    pending = engine.manager.take_pending()
    engine.apply(pending)
    return len(pending)


def begun(engine: ManualEngine, epoch: UUID, ordinal: int, wait: bool = False) -> Answer:
    answer = Answer()
    engine.manager.subscriptions.release("lake", epoch, ordinal, answer, wait=wait)
    step(engine)
    return answer


def left(engine: ManualEngine) -> int:
    return engine.manager.find_queue(PATH).message_count


def test_a_release_that_nobody_waits_for_answers_when_it_is_sure_and_goes_on() -> None:
    engine = unwatched(filled(ManualEngine()))
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    answer = begun(engine, epoch, 9)
    assert answer.result() == 9
    assert left(engine) == 6
    assert claim(engine, epoch, 10) == 10  # who reads on need not wait either
    engine.commit()
    assert left(engine) == 1
    assert engine.manager.find_queue(PATH).total_bytes == engine.manager.core.total_bytes


def test_who_waits_is_answered_when_all_is_gone() -> None:
    engine = unwatched(filled(ManualEngine()))
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    answer = begun(engine, epoch, 10, wait=True)
    late = Answer()
    engine.manager.subscriptions.release("lake", epoch, 7, late)
    assert not answer.done and not late.done
    engine.commit()
    assert (answer.result(), late.result(), left(engine)) == (10, 10, 0)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_release_that_a_crash_interrupts_ends_at_the_next_start(host: Host, steps: int) -> None:
    engine = unwatched(filled(host.engine))
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    assert begun(engine, epoch, 9).result() == 9
    for _ in range(steps):
        step(engine)
    engine = host.crash()
    assert left(engine) == 1
    assert engine.manager.subscriptions.find("lake").count == 1
    assert claim(engine, epoch, 9) == 10
    release(engine, epoch, 10)
    engine.do(engine.manager.subscriptions.abandon, "lake")
    assert left(host.crash()) == 0


def test_a_reader_that_is_faster_than_the_steps_releases_further() -> None:
    engine = unwatched(filled(ManualEngine(), 20))
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    begun(engine, epoch, 9)
    assert begun(engine, epoch, 18).result() == 18
    waits = begun(engine, epoch, 19, wait=True)
    engine.commit()
    assert (waits.result(), left(engine)) == (19, 1)


def test_what_was_released_is_not_given_back() -> None:
    engine = unwatched(filled(ManualEngine()))
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    begun(engine, epoch, 9)
    with pytest.raises(ClaimBusy):
        engine.manager.subscriptions.abandon("lake", Answer())
    engine.commit()
    engine.do(engine.manager.subscriptions.abandon, "lake")
    assert engine.bodies(engine.manager.find_queue(PATH)) == bodies(9)


def test_a_release_that_fails_in_the_middle_is_ended_by_the_next_and_before_an_abandonment() -> None:
    for ended_by in ("release", "abandon"):
        store = FullStore()
        engine = unwatched(filled(ManualEngine(store)))
        epoch = subscribe(engine)
        claim(engine, epoch, 0)
        waits = begun(engine, epoch, 9, wait=True)
        store.error = FULL
        engine.commit()
        assert isinstance(waits.error, LiorError)
        store.error = None
        assert left(engine) == 6
        if ended_by == "release":
            assert release(engine, epoch, 9) == 9
            assert left(engine) == 1
        engine.do(engine.manager.subscriptions.abandon, "lake")
        assert engine.bodies(engine.manager.find_queue(PATH)) == bodies(9)


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "unwatched"])
def test_messages_that_leave_something_behind_are_told_from_those_that_do_not(host: Host, watched: bool) -> None:
    engine = host.engine
    if not watched:
        unwatched(engine)
    engine.create(ADMIN)
    engine.create(PATH)
    sender = engine.sender(QUEUE)
    for number in range(12):
        asks: dict[str, Any] = {}
        if number % 3:
            asks = {"acknowledgements_requested": 0x0F, "administration_queue": rf"DIRECT=OS:{ADMIN}"}
        engine.send(sender, body=b"%d" % number, label=f"{number}", delivery_guarantee=1, priority=number % 8, **asks)
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    release(engine, epoch, 12)
    admin = engine.manager.find_queue(ADMIN)
    assert classes(engine, admin).count(MessageClass.ACK_RECEIVE) == 8
    assert left(engine) == 0
    assert engine.manager.core.traffic.received == 12
    engine = host.crash()
    assert left(engine) == 0
    assert classes(engine, engine.manager.find_queue(ADMIN)).count(MessageClass.ACK_RECEIVE) == 8


def test_the_journal_has_all_of_them() -> None:
    engine = unwatched(ManualEngine())
    engine.create(PATH, journaling=True)
    for number in range(9):
        engine.send(engine.sender(QUEUE), body=b"%d" % number, delivery_guarantee=1)
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    release(engine, epoch, 9)
    journal = engine.manager.find_queue(PATH).journal
    assert journal is not None
    assert engine.bodies(journal) == bodies(*range(9))


def test_whoever_waits_elsewhere_for_a_transactional_message_hears_of_it(engine: ManualEngine) -> None:
    """A message of a stream: the queue manager that sent it keeps it until it knows that it was received."""
    unwatched(engine)
    queue = engine.create(PATH, transactional=True)
    for number in (1, 2):
        message = incoming(number)
        message.negative_journaling_requested = True
        engine.manager.core.submit(arrive(engine, queue, message))
        engine.commit()
    transaction = engine.manager.begin()
    engine.send(engine.sender(QUEUE), transaction=transaction, body=b"our own", negative_journaling_requested=True)
    engine.do(engine.manager.commit, transaction.identifier)
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    release(engine, epoch, 3)
    assert left(engine) == 0
    acknowledged = messages(engine, outgoing(engine, BACK))
    assert [ack.message_class for ack in acknowledged] == [MessageClass.ACK_RECEIVE] * 2
