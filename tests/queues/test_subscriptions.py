"""Claims: out of sight, pinned, in order, and safe over crashes; who has lost the subscription is fenced off."""

import random
from typing import Any
from uuid import UUID

import pytest

from lior.errors import ClaimBusy, ClaimFenced, InvalidParameter, LiorError, MessagesClaimed, NoSubscription
from lior.message import MessageClass
from lior.queues.claim_log import ROW, ClaimLog
from lior.queues.position import State
from lior.testing.engine import Answer, ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import FULL, FullStore, classes, messages

PATH = r".\private$\q"
QUEUE = r"DIRECT=OS:.\private$\q"


def subscribe(engine: ManualEngine, name: str = "lake", *paths: str, **options: Any) -> UUID:
    queues = [engine.manager.find_queue(path) for path in paths or (PATH,)]
    log = engine.do(engine.manager.subscriptions.subscribe, name, queues, engine.admin, **options)
    assert isinstance(log, ClaimLog)
    return log.epoch


def claim(
    engine: ManualEngine, epoch: UUID, start: int, rows: int = 1000, size: int = 1 << 30, name: str = "lake"
) -> int:
    return int(engine.do(engine.manager.subscriptions.claim, name, epoch, start, rows, size))


def release(engine: ManualEngine, epoch: UUID, ordinal: int, name: str = "lake") -> int:
    return int(engine.do(engine.manager.subscriptions.release, name, epoch, ordinal))


def claimed(engine: ManualEngine, low: int, high: int, name: str = "lake") -> list[bytes]:
    """The bodies of a range, in the order of their ordinals, as the store has them."""
    found = []
    for each in engine.manager.subscriptions.find(name).between(low, high):
        stored = engine.store.fetch(each.queue_id, each.lookup_id)
        assert stored is not None
        found.append(stored.message.body)
    return found


def filled(engine: ManualEngine, count: int = 10, **options: Any) -> ManualEngine:
    engine.create(PATH)
    sender = engine.sender(QUEUE)
    for number in range(count):
        engine.send(sender, body=b"%d" % number, delivery_guarantee=1, **options)
    return engine


def bodies(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_what_is_claimed_is_out_of_sight_and_stays_in_the_queue(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine)
    assert claim(engine, epoch, 0, rows=4) == 4
    queue = engine.manager.find_queue(PATH)
    assert engine.bodies(queue) == bodies(4, 5, 6, 7, 8, 9)
    assert queue.message_count == 10
    assert engine.receive(engine.open(QUEUE)).body == b"4"
    assert claimed(engine, 0, 4) == bodies(0, 1, 2, 3)


def test_claims_follow_the_priorities_over_all_queues(engine: ManualEngine) -> None:
    engine.create(PATH)
    engine.create(r".\private$\r")
    for number, (path, priority) in enumerate([("q", 3), ("r", 7), ("q", 0), ("r", 3), ("q", 7)]):
        sender = engine.sender(rf"DIRECT=OS:.\private$\{path}")
        engine.send(sender, body=b"%d" % number, priority=priority, delivery_guarantee=1)
    epoch = subscribe(engine, "both", PATH, r".\private$\r")
    assert claim(engine, epoch, 0, name="both") == 5
    assert claimed(engine, 0, 5, "both") == bodies(1, 4, 0, 3, 2)


def test_a_claim_is_bounded_by_rows_and_bytes_and_takes_one_message_at_least(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine)
    size = messages(engine, engine.manager.find_queue(PATH))[0].size
    assert claim(engine, epoch, 0, size=1) == 1
    assert claim(engine, epoch, 1, size=3 * size) == 4
    assert claim(engine, epoch, 4, rows=2) == 6


def test_the_subscription_is_bounded_too(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine, max_rows=3)
    assert claim(engine, epoch, 0) == 3
    assert claim(engine, epoch, 3) == 3
    release(engine, epoch, 2)
    assert claim(engine, epoch, 3) == 5


@pytest.mark.parametrize(
    "options",
    [{"max_rows": 0}, {"max_rows": 1.5}, {"max_rows": True}, {"max_bytes": -1}, {"max_bytes": 1 << 50},
     {"claim_timeout": -1.0}, {"claim_timeout": float("nan")}, {"store_express": 1}, {"last": 7}, {"epoch": "mine"}],
)  # fmt: skip
def test_what_a_subscription_may_claim_has_bounds_itself(engine: ManualEngine, options: dict[str, Any]) -> None:
    filled(engine, 1)
    with pytest.raises(InvalidParameter):
        subscribe(engine, **options)
    assert list(engine.manager.subscriptions) == []


def test_bytes_that_are_claimed_are_bounded_too(engine: ManualEngine) -> None:
    filled(engine)
    size = messages(engine, engine.manager.find_queue(PATH))[0].size
    epoch = subscribe(engine, max_bytes=4 * size)
    assert claim(engine, epoch, 0) == 4
    assert claim(engine, epoch, 4) == 4
    release(engine, epoch, 3)
    assert claim(engine, epoch, 4) == 7


def test_a_claim_that_nobody_wrote_down_is_answered_again_and_not_extended(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine)
    assert claim(engine, epoch, 0, rows=3) == 3
    assert claim(engine, epoch, 0, rows=9) == 3
    assert claim(engine, epoch, 3, rows=9) == 10


def test_messages_that_come_later_with_a_higher_priority_are_claimed_next(engine: ManualEngine) -> None:
    filled(engine, 2)
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    engine.send(engine.sender(QUEUE), body=b"urgent", priority=7, delivery_guarantee=1)
    assert claim(engine, epoch, 2) == 3
    release(engine, epoch, 2)
    assert claimed(engine, 2, 3) == [b"urgent"]


def test_a_release_is_a_receive_with_its_acknowledgements_and_its_journal(engine: ManualEngine) -> None:
    engine.create(r".\private$\admin")
    admin = engine.manager.find_queue(r".\private$\admin")
    engine.create(PATH, journaling=True)
    engine.send(engine.sender(QUEUE), body=b"x", delivery_guarantee=1, acknowledgements_requested=0x0F,
                administration_queue=r"DIRECT=OS:.\private$\admin")
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    assert classes(engine, admin) == [MessageClass.ACK_REACH_QUEUE]
    assert release(engine, epoch, 1) == 1
    assert classes(engine, admin) == [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE]
    queue = engine.manager.find_queue(PATH)
    assert queue.message_count == 0
    assert queue.total_bytes == 0
    assert queue.journal is not None
    assert engine.bodies(queue.journal) == [b"x"]


def test_releasing_again_or_less_changes_nothing(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    assert release(engine, epoch, 6) == 6
    assert release(engine, epoch, 6) == 6
    assert release(engine, epoch, 3) == 6
    assert claimed(engine, 6, 10) == bodies(6, 7, 8, 9)
    with pytest.raises(InvalidParameter):
        release(engine, epoch, 11)


def test_a_reader_that_was_replaced_is_fenced_off(engine: ManualEngine) -> None:
    filled(engine)
    old = subscribe(engine)
    claim(engine, old, 0, rows=3)
    with pytest.raises(ClaimFenced):
        subscribe(engine)
    new = subscribe(engine, takeover=True)
    for call in (claim, release):
        with pytest.raises(ClaimFenced):
            call(engine, old, 3)
    assert claim(engine, new, 0) == 3
    with pytest.raises(NoSubscription):
        claim(engine, new, 0, name="other")


def test_claims_outlive_a_crash(host: Host) -> None:
    engine = filled(host.engine, 20)
    epoch = subscribe(engine)
    claim(engine, epoch, 0, rows=12)
    release(engine, epoch, 5)
    engine = host.crash()
    queue = engine.manager.find_queue(PATH)
    assert engine.bodies(queue) == bodies(*range(12, 20))
    assert claimed(engine, 5, 12) == bodies(*range(5, 12))
    assert claim(engine, epoch, 5) == 12
    release(engine, epoch, 12)
    assert queue.message_count == 8
    assert host.crash().manager.find_queue(PATH).message_count == 8


def test_a_claimed_express_message_outlives_a_crash(host: Host) -> None:
    engine = host.engine
    engine.create(PATH)
    engine.send(engine.sender(QUEUE), body=b"express")
    epoch = subscribe(engine)
    assert claim(engine, epoch, 0) == 1
    assert claimed(host.crash(), 0, 1) == [b"express"]


def test_express_messages_can_be_left_to_others(engine: ManualEngine) -> None:
    filled(engine, 1)
    engine.send(engine.sender(QUEUE), body=b"express", priority=7)
    epoch = subscribe(engine, store_express=False)
    assert claim(engine, epoch, 0) == 1
    assert claimed(engine, 0, 1) == bodies(0)
    assert engine.bodies(engine.manager.find_queue(PATH)) == [b"express"]


def test_what_is_claimed_does_not_expire_until_it_is_given_back(engine: ManualEngine) -> None:
    filled(engine, 2, time_to_be_received=10)
    epoch = subscribe(engine)
    claim(engine, epoch, 0, rows=1)
    engine.advance(60)
    assert claimed(engine, 0, 1) == bodies(0)
    queue = engine.manager.find_queue(PATH)
    assert queue.message_count == 1
    engine.do(engine.manager.subscriptions.abandon, "lake")
    engine.advance(0)
    assert queue.message_count == 0


def test_a_queue_with_claims_is_neither_purged_nor_deleted(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine)
    claim(engine, epoch, 0, rows=1)
    queue = engine.manager.find_queue(PATH)
    for call in (engine.manager.purge, engine.manager.delete_queue):
        with pytest.raises(MessagesClaimed):
            engine.do(call, queue, engine.admin)
    assert queue.message_count == 10
    release(engine, epoch, 1)
    engine.do(engine.manager.delete_queue, queue, engine.admin)


def test_abandoning_gives_everything_back_and_counts_an_abort(host: Host) -> None:
    engine = filled(host.engine)
    epoch = subscribe(engine)
    claim(engine, epoch, 0, rows=7)
    release(engine, epoch, 2)
    engine.do(engine.manager.subscriptions.abandon, "lake")
    for each in (engine, host.crash()):
        queue = each.manager.find_queue(PATH)
        assert each.bodies(queue) == bodies(*range(2, 10))
        assert [m.abort_count for m in messages(each, queue)] == [1] * 5 + [0] * 3
        with pytest.raises(NoSubscription):
            each.manager.subscriptions.find("lake")


def test_rejected_messages_are_in_poison_and_the_others_keep_their_ordinals(host: Host) -> None:
    engine = filled(host.engine)
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    assert engine.do(engine.manager.subscriptions.reject, "lake", epoch, [3, 5]) == 2
    with pytest.raises(LiorError):
        engine.do(engine.manager.subscriptions.reject, "lake", epoch, [3])
    engine = host.crash()
    assert engine.bodies(engine.manager.find_queue(PATH).subqueues["poison"]) == bodies(2, 4)
    kept = {each.ordinal: each.lookup_id for each in engine.manager.subscriptions.find("lake").between(0, 10)}
    assert sorted(kept) == [1, 2, 4, 6, 7, 8, 9, 10]
    release(engine, epoch, 10)
    assert engine.manager.find_queue(PATH).message_count == 0


def test_claims_of_a_reader_that_is_gone_come_back_after_the_timeout(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine, claim_timeout=30.0)
    claim(engine, epoch, 0, rows=4)
    engine.advance(29)
    assert len(engine.bodies(engine.manager.find_queue(PATH))) == 6
    engine.advance(2)
    assert engine.bodies(engine.manager.find_queue(PATH)) == bodies(*range(10))
    with pytest.raises(ClaimFenced):
        release(engine, epoch, 4)


def test_ranges_are_cut_by_bytes(engine: ManualEngine) -> None:
    engine.create(PATH)
    for size in (10_000, 10, 10, 10, 10_000, 10):
        engine.send(engine.sender(QUEUE), body=bytes(size), delivery_guarantee=1)
    epoch = subscribe(engine)
    end = claim(engine, epoch, 0)
    plan = engine.manager.subscriptions.plan
    assert plan("lake", 0, end, 2) == [3, 6]
    assert plan("lake", 0, end, 1) == [6]
    assert plan("lake", 6, 6, 4) == []
    assert plan("lake", 0, end, 100)[-1] == 6
    assert plan("lake", 0, end, 1, 1 << 20) == [6]
    assert plan("lake", 0, end, 1, 11_000) == plan("lake", 0, end, 2) == [3, 6]


def test_a_commit_that_fails_leaves_the_messages_where_they_were() -> None:
    store = FullStore()
    engine = filled(ManualEngine(store))
    engine.send(engine.sender(QUEUE), body=b"express")
    epoch = subscribe(engine)
    store.error = FULL
    with pytest.raises(LiorError):
        claim(engine, epoch, 0)
    store.error = None
    assert engine.bodies(engine.manager.find_queue(PATH)) == [*bodies(*range(10)), b"express"]
    assert claim(engine, epoch, 0) == 11
    store.error = FULL
    with pytest.raises(LiorError):
        release(engine, epoch, 5)
    with pytest.raises(LiorError):
        engine.do(engine.manager.subscriptions.abandon, "lake")
    store.error = None
    assert len(claimed(engine, 0, 11)) == 11
    epoch = engine.manager.subscriptions.find("lake").epoch
    assert release(engine, epoch, 11) == 11


def test_a_call_while_another_is_under_way_is_told_to_wait(engine: ManualEngine) -> None:
    filled(engine)
    epoch = subscribe(engine)
    claim(engine, epoch, 0)
    engine.manager.subscriptions.release("lake", epoch, 5, Answer())
    with pytest.raises(ClaimBusy):
        release(engine, epoch, 6)


def test_more_than_a_row_and_a_chunk_come_and_go(host: Host) -> None:
    engine = host.engine
    engine.create(PATH)
    sender = engine.sender(QUEUE)
    total = 2 * ROW + 5
    for number in range(total):
        engine.send(sender, body=b"%d" % number, delivery_guarantee=1)
    epoch = subscribe(engine)
    assert claim(engine, epoch, 0, rows=10**6) == total
    release(engine, epoch, ROW + 1)
    engine = host.crash()
    assert claimed(engine, ROW + 1, total) == bodies(*range(ROW + 1, total))
    release(engine, epoch, total)
    assert engine.manager.find_queue(PATH).message_count == 0
    assert not [key for key in engine.store.load().state if key[0] == "claims"]


def test_competitors_priorities_and_aborts_lose_and_double_nothing(host: Host, seed: int) -> None:
    """Against a plain count: every message is read by the subscription or by a competitor, once."""
    chance = random.Random(seed)
    engine = host.engine
    engine.create(PATH, transactional=True)
    epoch, at, sent, seen = subscribe(engine), 0, 0, []
    others: list[bytes] = []
    for _ in range(120):
        step = chance.randrange(6)
        if step < 2:
            transaction = engine.manager.begin()
            for _ in range(chance.randrange(1, 5)):
                engine.send(engine.sender(QUEUE), transaction=transaction, body=b"%d" % sent)
                sent += 1
            engine.do(engine.manager.commit, transaction.identifier)
        elif step == 2 and engine.manager.find_queue(PATH).available:
            transaction = engine.manager.begin()
            body = engine.receive(engine.open(QUEUE), transaction=transaction).body
            if chance.random() < 0.5:
                engine.do(engine.manager.abort, transaction.identifier)
            else:
                engine.do(engine.manager.commit, transaction.identifier)
                others.append(body)
        elif step == 3:
            engine = host.crash()
        else:
            end = claim(engine, epoch, at, rows=chance.randrange(1, 6))
            again = claimed(engine, at, end)
            if chance.random() < 0.3:
                engine = host.crash()
                assert claimed(engine, at, end) == again
            seen += again
            at = end
            release(engine, epoch, at)
    seen += claimed(engine, at, claim(engine, epoch, at, rows=10**6))
    assert sorted(seen + others, key=int) == bodies(*range(sent))


def test_a_claimed_position_has_its_row_in_the_table_of_states() -> None:
    from lior.queues.position import TRANSITIONS, Step

    assert TRANSITIONS[State.AVAILABLE, Step.CLAIM] is State.CLAIMED
    assert (State.LOCKED, Step.CLAIM) not in TRANSITIONS


def test_an_unknown_epoch_is_no_key(engine: ManualEngine) -> None:
    filled(engine)
    subscribe(engine)
    with pytest.raises(ClaimFenced):
        claim(engine, UUID(int=7), 0)
