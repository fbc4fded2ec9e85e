"""When the store refuses a change: nothing is half done in memory, the caller gets the error, and it works later."""

from collections.abc import Callable
from typing import Any

import pytest

from lior.errors import StoreUnusable
from lior.message import Message
from lior.queues.definition import QueueProperties
from lior.queues.descriptor import QueueAccessType
from lior.queues.outgoing import OutgoingQueue
from lior.queues.transaction import Transaction, TransactionState
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import (
    FULL,
    QUEUE,
    RECOVERABLE,
    REMOTE,
    FullStore,
    abort,
    acknowledged,
    classes,
    commit,
    failure,
    messages,
    refused,
    system_queue,
)

SUB = QUEUE + ";s"


class Scene:
    """Two queues with three messages each, one held; handles; a message on its way out."""

    def __init__(self, **options: Any) -> None:
        self.store = FullStore()
        self.engine = engine = ManualEngine(self.store, **options)
        self.manager, self.admin = engine.manager, engine.admin
        engine.create(r".\private$\admin")
        self.plain = engine.create(journaling=True)
        self.queue = engine.create(r".\private$\t", transactional=True, journaling=True)
        self.t = r"DIRECT=OS:.\private$\t"
        fill = engine.manager.begin()
        for number in range(4):
            fields: dict[str, Any] = {"body": b"%d" % number, "delivery_guarantee": RECOVERABLE}
            engine.send(engine.sender(), acknowledged(**fields, negative_journaling_requested=True))
            engine.send(engine.sender(self.t), acknowledged(**fields), fill)
        commit(engine, fill)
        engine.send(engine.sender(REMOTE), acknowledged(delivery_guarantee=RECOVERABLE))
        self.plain_sender, self.sender, self.remote = engine.sender(), engine.sender(self.t), engine.sender(REMOTE)
        self.plain_reader, self.reader = engine.open(), engine.open(self.t)
        self.cursor = self.manager.open_cursor(self.plain_reader)
        engine.peek(self.plain_reader, cursor=self.cursor)
        self.target = engine.open(SUB, QueueAccessType.MOVE)
        self.t_target = engine.open(self.t + ";s", QueueAccessType.MOVE)
        self.holding = self.manager.begin()
        engine.receive(self.reader, transaction=self.holding)
        self.held = engine.receive(self.plain_reader, two_phase=True, cursor=None)

    def open_transaction(self) -> Transaction:
        transaction, engine = self.manager.begin(), self.engine
        engine.send(self.sender, body=b"sent", transaction=transaction)
        engine.send(self.remote, body=b"sent", transaction=transaction)
        engine.receive(self.reader, transaction=transaction)
        lookup_id = next(iter(self.queue.available))
        engine.do(lambda r: self.manager.move(self.reader, lookup_id, self.t_target, r, transaction))
        return transaction

    def picture(self) -> dict[str, Any]:
        """Everything a caller could notice."""
        core = self.manager.core
        queues = {
            queue.name: (
                list(queue.available), queue.unavailable, queue.total_bytes, queue.uncommitted_bytes,
                queue.staged_inserts, len(queue.descriptors), len(queue.waiters), queue.deleted, queue.properties,
                [(i, p.state, p.abort_count) for i, p in sorted(queue.positions.items()) if i not in queue.available],
                [m.abort_count for m in messages(self.engine, queue)], list(queue.subqueues), list(queue.peekable),
            )
            for queue in core.queues.values()
        }  # fmt: skip
        state = [(t.identifier, t.state, len(t.operations)) for t in core.transactions.values()]
        handles = [d.queue is not None for d in self.manager.opening.descriptors.values()]
        return {
            "queues": queues, "bytes": (core.total_bytes, core.journal_bytes), "transactions": state,
            "names": sorted(core.paths), "numbers": sorted(core.private_numbers), "handles": handles,
            "outgoing": [(name, queue.state) for name, queue in core.outgoing.items()],
            "cursor": (self.cursor.key, self.cursor.state), "reads": sorted(self.manager.reading.two_phase),
            "store": [tuple(entry) for entry in self.store.load_index()],
            "definitions": self.store.load().queues, "online": core.properties.connection_active,
        }  # fmt: skip

    def check_sums(self) -> None:
        core = self.manager.core
        queues = core.queues.values()
        assert core.total_bytes == sum(q.total_bytes + q.uncommitted_bytes for q in queues if not q.is_system)
        assert core.journal_bytes == sum(q.total_bytes + q.uncommitted_bytes for q in queues if q.is_system)
        assert all(q.unavailable == len(list(q.locked_positions())) for q in queues)
        assert all(q.staged_inserts == 0 for q in queues)


Call = Callable[[Scene, Answer], None]


def send(scene: Scene, reply: Answer) -> None:
    scene.manager.send(scene.plain_sender, acknowledged(body=b"new", delivery_guarantee=1), reply)


def send_express_with_a_recoverable_copy(scene: Scene, reply: Answer) -> None:
    scene.manager.send(scene.plain_sender, Message(body=b"first", delivery_guarantee=1), Answer())
    scene.manager.send(scene.plain_sender, acknowledged(body=b"express"), reply)


def send_to_all(scene: Scene, reply: Answer) -> None:
    both = scene.engine.sender(QUEUE + r",DIRECT=OS:.\private$\admin,DIRECT=OS:new\private$\q")
    scene.manager.send(both, Message(delivery_guarantee=1), reply)
    scene.manager.close(both)


def receive(scene: Scene, reply: Answer) -> None:
    scene.manager.receive(scene.plain_reader, reply, timeout_ms=0)


def receive_at_a_cursor(scene: Scene, reply: Answer) -> None:
    scene.manager.receive(scene.plain_reader, reply, timeout_ms=0, cursor=scene.manager.open_cursor(scene.plain_reader))


def receive_by_lookup_id(scene: Scene, reply: Answer) -> None:
    scene.manager.read_by_lookup(scene.plain_reader, reply, lookup_id=list(scene.plain.available)[1])


def end_a_read(scene: Scene, reply: Answer) -> None:
    scene.manager.receive_end(scene.held, reply, delete=True)


def purge(scene: Scene, reply: Answer) -> None:
    scene.manager.purge(scene.queue, scene.admin, reply)


def purge_outgoing(scene: Scene, reply: Answer) -> None:
    scene.manager.purge(scene.manager.find_queue(REMOTE), scene.admin, reply)


def delete(scene: Scene, reply: Answer) -> None:
    scene.manager.delete_queue(scene.queue, scene.admin, reply)


def create(scene: Scene, reply: Answer) -> None:
    scene.manager.create_queue(r".\private$\new", QueueProperties(), scene.admin, reply)


def set_properties(scene: Scene, reply: Answer) -> None:
    scene.manager.set_queue_properties(scene.queue, {"label": "new", "quota": 5000}, scene.admin, reply)


def move(scene: Scene, reply: Answer) -> None:
    scene.manager.move(scene.plain_reader, list(scene.plain.available)[1], scene.target, reply)


def go_offline(scene: Scene, reply: Answer) -> None:
    scene.manager.set_online(False, scene.admin, reply)


def pause(scene: Scene, reply: Answer) -> None:
    queue = scene.manager.find_queue(REMOTE)
    assert isinstance(queue, OutgoingQueue)
    scene.manager.administration.pause(queue, scene.admin, reply)


CALLS: list[Call] = [
    send, send_express_with_a_recoverable_copy, send_to_all, receive, receive_at_a_cursor, receive_by_lookup_id,
    end_a_read, purge, purge_outgoing, delete, create, set_properties, move, go_offline, pause,
]  # fmt: skip
names = pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
caches = pytest.mark.parametrize("cache_bytes", [0, 64 << 20], ids=["cold", "warm"])


def refuse(scene: Scene, call: Call) -> Answer:
    answer = Answer()
    call(scene, answer)
    scene.store.error = FULL
    scene.engine.commit()
    scene.store.error = None
    return answer


@pytest.mark.spec("DM-074")
@names
@caches
def test_a_change_that_the_store_refuses_leaves_all_as_it_was_and_can_be_done_later(
    call: Call, cache_bytes: int
) -> None:
    scene = Scene(cache_bytes=cache_bytes)
    if call is send_to_all:
        scene.engine.sender(r"DIRECT=OS:new\private$\q")  # its outgoing queue may stay
    before = scene.picture()
    assert failure(refuse(scene, call)) == 0xC00E002A
    assert scene.picture() == before
    scene.check_sums()
    answer = Answer()
    call(scene, answer)
    scene.engine.commit()
    answer.result()
    scene.check_sums()


@names
def test_a_message_is_neither_lost_nor_doubled_by_a_refused_change(call: Call) -> None:
    scene = Scene()
    refuse(scene, call)
    abort(scene.engine, scene.holding)
    scene.engine.do(scene.manager.receive_end, scene.held, delete=False)
    assert scene.engine.bodies(scene.plain) == [b"0", b"1", b"2", b"3"]
    assert scene.engine.bodies(scene.queue) == [b"0", b"1", b"2", b"3"]
    assert classes(scene.engine, scene.manager.find_queue(r".\private$\admin")) == [2] * 8


def test_a_cursor_stays_before_the_message_whose_receive_failed() -> None:
    scene = Scene()
    cursor = scene.manager.open_cursor(scene.plain_reader)
    first = scene.engine.peek(scene.plain_reader, cursor=cursor)
    for _ in range(2):
        answer = Answer()
        scene.manager.receive(scene.plain_reader, answer, timeout_ms=0, cursor=cursor)
        scene.store.error = FULL
        scene.engine.commit()
        assert failure(answer) == 0xC00E002A
    scene.store.error = None
    assert scene.engine.peek(scene.plain_reader, cursor=cursor).body == first.body
    assert scene.engine.receive(scene.plain_reader, cursor=cursor).body == first.body


def test_a_waiting_receive_whose_commit_fails_is_told_and_the_message_goes_to_the_next() -> None:
    scene = Scene()
    scene.engine.create(r".\private$\empty")
    name = r"DIRECT=OS:.\private$\empty"
    reader = scene.engine.open(name)
    cursor = scene.manager.open_cursor(reader)
    first = scene.engine.start_receive(reader, cursor=cursor)
    scene.manager.send(scene.engine.sender(name), Message(body=b"x", delivery_guarantee=1), Answer())
    scene.engine.apply(scene.manager.take_pending())
    scene.store.error = FULL
    scene.engine.commit()
    assert failure(first) == 0xC00E002A
    scene.store.error = None
    assert scene.engine.receive(reader, cursor=cursor).body == b"x"


@pytest.mark.spec("DM-133")
def test_a_message_that_a_failed_receive_gives_back_wakes_who_waits() -> None:
    scene = Scene()
    answers = [scene.engine.start_receive(scene.plain_reader) for _ in range(4)]  # three messages are free
    scene.store.error = FULL
    scene.engine.apply(scene.manager.take_pending())
    scene.store.error = None
    scene.engine.commit()
    assert [failure(answer) for answer in answers[:3]] == [FULL.code] * 3
    assert answers[3].done and answers[3].error is None and scene.plain.message_count == 3
    scene.check_sums()


def test_a_read_that_could_not_end_is_given_back_when_its_handle_was_closed_meanwhile() -> None:
    scene = Scene()
    answer = Answer()
    scene.manager.receive_end(scene.held, answer, delete=True)
    scene.manager.close(scene.plain_reader)
    scene.store.error = FULL
    scene.engine.commit()
    assert failure(answer) == 0xC00E002A
    assert scene.engine.bodies(scene.plain) == [b"0", b"1", b"2", b"3"]
    scene.check_sums()


@pytest.mark.spec("DM-074")
@caches
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_whose_end_fails_is_over_and_its_messages_are_back(end: str, cache_bytes: int) -> None:
    scene = Scene(cache_bytes=cache_bytes)
    before = scene.picture()
    transaction, answer = scene.open_transaction(), Answer()
    getattr(scene.manager, end)(transaction.identifier, answer)
    scene.store.error = FULL
    scene.engine.commit()
    scene.store.error = None
    assert failure(answer) == 0xC00E002A and transaction.state is TransactionState.ENDED
    assert scene.picture() == before
    scene.check_sums()
    with refused("TRANSACTION_SEQUENCE"):
        scene.engine.do(scene.manager.commit, transaction.identifier)
    commit(scene.engine, scene.open_transaction())
    assert scene.engine.bodies(scene.queue) == [b"3", b"sent"]


@pytest.mark.spec("DM-068", "DM-074")
@caches
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_prepared_transaction_stays_in_doubt_until_its_end_is_stored(end: str, cache_bytes: int) -> None:
    scene = Scene(cache_bytes=cache_bytes)
    transaction, answer = scene.open_transaction(), Answer()
    active = scene.picture()
    scene.manager.prepare(transaction.identifier, answer)
    scene.store.error = FULL
    scene.engine.commit()
    assert failure(answer) == 0xC00E002A and scene.picture() == active
    scene.store.error = None
    scene.engine.do(scene.manager.prepare, transaction.identifier)
    before = scene.picture()
    for _ in range(2):
        answer = Answer()
        getattr(scene.manager, end)(transaction.identifier, answer)
        scene.store.error = FULL
        scene.engine.commit()
        assert failure(answer) == 0xC00E002A and scene.picture() == before
        scene.check_sums()
    scene.store.error = None
    (commit if end == "commit" else abort)(scene.engine, transaction)
    scene.check_sums()
    expected = [b"3", b"sent"] if end == "commit" else [b"1", b"2", b"3"]
    assert scene.engine.bodies(scene.queue) == expected
    if end == "abort":
        assert [m.abort_count for m in messages(scene.engine, scene.queue)] == [1, 1, 0]


@pytest.mark.spec("DM-062")
@caches
def test_an_expiry_that_fails_is_tried_again_later_and_not_in_a_circle(cache_bytes: int) -> None:
    scene = Scene(cache_bytes=cache_bytes)
    engine = scene.engine
    engine.create(r".\private$\e")
    name = r"DIRECT=OS:.\private$\e"
    engine.send(engine.sender(name), time_to_be_received=5, negative_journaling_requested=True, delivery_guarantee=1)
    queue = engine.manager.find_queue(r".\private$\e")
    scene.store.error = FULL
    engine.clock.advance(6)
    for _ in range(3):
        engine.manager.tick()
        rounds = 0
        while pending := engine.manager.take_pending():
            engine.apply(pending)
            rounds += 1
        assert rounds <= 2 and len(queue.available) == 1
        engine.clock.advance(1.5)
    scene.store.error = None
    engine.advance(2)
    assert queue.message_count == 0 and system_queue(engine, "DEADLETTER").message_count == 1
    scene.check_sums()


@pytest.mark.spec("DM-098")
def test_a_message_purged_while_held_goes_in_the_end_though_its_removal_failed_once() -> None:
    scene = Scene()
    scene.engine.do(scene.manager.purge, scene.plain, scene.admin)
    scene.manager.close(scene.plain_reader)
    scene.store.error = FULL
    scene.engine.commit()
    assert scene.plain.message_count == 1 and list(scene.plain.available) == []
    scene.engine.advance(2)
    scene.store.error = None
    scene.engine.advance(2)
    assert scene.plain.message_count == 0
    scene.check_sums()


def test_a_store_that_cannot_be_trusted_ends_the_service() -> None:
    scene = Scene()
    answers = [Answer() for _ in range(2)]
    receive(scene, answers[0])
    scene.store.error = StoreUnusable("fsync failed")
    pending = scene.manager.take_pending()
    send(scene, answers[1])
    scene.engine.apply(pending)
    assert [failure(answer) for answer in answers] == [StoreUnusable.code] * 2
    for call in (send, receive, purge, create, move, delete):
        with refused("SERVICE_NOT_AVAILABLE"):
            call(scene, Answer())
    assert scene.manager.take_pending() == []


@pytest.mark.spec("DM-074")
def test_every_change_is_one_batch_and_the_store_applies_it_whole() -> None:
    scene = Scene()
    transaction, answer = scene.open_transaction(), Answer()
    scene.manager.commit(transaction.identifier, answer)
    (change,) = scene.manager.take_pending()
    kinds = [type(operation).__name__ for operation in change.operations]
    assert kinds.count("PutMessage") == 4 and kinds.count("DeleteMessage") == 1 and kinds.count("MoveMessage") == 1
    scene.engine.apply([change])
    assert answer.done
