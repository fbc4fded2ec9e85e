"""Whatever happens, in whatever order, with a store that fails now and then: no message is lost, doubled or stuck."""

from random import Random
from typing import Any

import pytest

from lior.queues.descriptor import QueueAccessType, TwoPhaseRead
from lior.queues.transaction import Transaction, TransactionState
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import FULL, QUEUE, FullStore

SUB = QUEUE + ";s"


class Load:
    """Random calls on one transactional queue and its subqueue; `expected` are the bodies that must be there."""

    def __init__(self, seed: int, cache_bytes: int) -> None:
        self.random = Random(seed)
        self.store = FullStore()
        self.engine = ManualEngine(self.store, cache_bytes=cache_bytes)
        self.queue = self.engine.create(transactional=True)
        self.sender = self.engine.sender()
        self.readers = [self.engine.open(), self.engine.open(SUB)]
        self.targets = [self.engine.open(name, QueueAccessType.MOVE) for name in (SUB, QUEUE)]
        self.expected: set[int] = set()
        self.sent = 0
        self.open: dict[Transaction, tuple[set[int], set[int]]] = {}  # what each sent and took
        self.reads: list[TwoPhaseRead] = []
        self.waits: list[Answer] = []

    def step(self) -> None:
        self.random.choice(
            [self.begin, self.send, self.send, self.take, self.take, self.move, self.end, self.receive, self.hold,
             self.give_back, self.wait, self.collect]
        )()  # fmt: skip

    def settle(self) -> bool:
        """Commit; True if the store took it."""
        fails = self.random.random() < 0.25
        self.store.error = FULL if fails else None
        for _ in range(3):
            self.engine.apply(self.engine.manager.take_pending())
        self.store.error = None
        self.engine.commit()
        return not fails

    def transaction(self) -> Transaction | None:
        active = [t for t in self.open if t.state is TransactionState.ACTIVE]
        return self.random.choice(active) if active else None

    def begin(self) -> None:
        if len(self.open) < 4:
            self.open[self.engine.manager.begin()] = (set(), set())

    def send(self) -> None:
        transaction = self.transaction()
        if transaction is not None:
            self.engine.send(self.sender, body=b"%d" % self.sent, transaction=transaction)
            self.open[transaction][0].add(self.sent)
            self.sent += 1

    def take(self) -> None:
        transaction, queue = self.transaction(), self.random.randrange(2)
        if transaction is not None and self.readers[queue].live_queue().available.first() is not None:
            message = self.engine.receive(self.readers[queue], transaction=transaction)
            self.open[transaction][1].add(int(message.body))

    def move(self) -> None:
        queue, transaction = self.random.randrange(2), self.random.choice([None, self.transaction()])
        first = self.readers[queue].live_queue().available.first()
        if first is not None:
            self.engine.manager.move(self.readers[queue], first, self.targets[queue], Answer(), transaction)
            if transaction is None:
                self.settle()

    def end(self) -> None:
        transaction = self.transaction()
        if transaction is None:
            return
        sent, taken = self.open.pop(transaction)
        if self.random.random() < 0.3:
            self.engine.do(self.engine.manager.prepare, transaction.identifier)
        commits = self.random.random() < 0.6
        call, answer = (self.engine.manager.commit if commits else self.engine.manager.abort), Answer()
        call(transaction.identifier, answer)
        prepared = not self.settle() and transaction.state is TransactionState.PREPARED
        if prepared:
            self.engine.do(call, transaction.identifier)
        if commits and (prepared or answer.error is None):
            self.expected |= sent
            self.expected -= taken

    def receive(self) -> None:
        answer = self.engine.start_receive(self.readers[0], timeout_ms=1)
        self.settle()
        self.account(answer)
        self.engine.advance(1)

    def account(self, answer: Answer) -> None:
        if answer.done and answer.error is None:
            self.expected.remove(int(answer.value.body))

    def hold(self) -> None:
        if self.readers[0].live_queue().available.first() is not None:
            self.reads.append(self.engine.receive(self.readers[0], two_phase=True))

    def give_back(self) -> None:
        if self.reads:
            read = self.reads.pop(self.random.randrange(len(self.reads)))
            delete, answer = self.random.random() < 0.5, Answer()
            self.engine.manager.receive_end(read, answer, delete=delete)
            if self.settle() or not delete:
                self.expected -= {int(read.message.body)} if delete else set()
            else:
                self.reads.append(read)

    def wait(self) -> None:
        if len(self.waits) < 2 and self.readers[0].live_queue().available.first() is None:
            self.waits.append(self.engine.start_receive(self.readers[0]))

    def collect(self) -> None:
        for answer in [answer for answer in self.waits if answer.done]:
            self.waits.remove(answer)
            self.account(answer)

    def finish(self) -> None:
        for transaction in list(self.open):
            self.engine.do(self.engine.manager.abort, transaction.identifier)
        for read in self.reads:
            self.engine.do(self.engine.manager.receive_end, read, delete=False)
        self.collect()


def found(engine: ManualEngine) -> list[int]:
    queue = engine.manager.find_queue(r".\private$\q")
    return [int(body) for each in (queue, *queue.subqueues.values()) for body in engine.bodies(each)]


@pytest.mark.spec("DM-074", "DM-133")
@pytest.mark.parametrize("cache_bytes", [0, 400, 64 << 20])
@pytest.mark.parametrize("number", range(15))
def test_every_message_is_where_it_belongs_once(seed: int, number: int, cache_bytes: int) -> None:
    load = Load(seed * 1000 + number, cache_bytes)
    for _ in range(250):
        load.step()
        core = load.engine.manager.core
        queues = list(core.queues.values())
        assert core.total_bytes == sum(q.total_bytes + q.uncommitted_bytes for q in queues if not q.is_system)
        assert all(q.unavailable == len(list(q.locked_positions())) and not q.staged_inserts for q in queues)
    load.finish()
    assert sorted(found(load.engine)) == sorted(load.expected)
    assert core.cache.used == sum(p.size for q in queues for p in q.positions.values() if p.cached)
    again: Any = load.engine.restart()
    assert sorted(found(again)) == sorted(load.expected)
    for queue in again.manager.core.queues.values():
        assert list(queue.available) == sorted(queue.available)
