"""The queue manager and its model side by side: the same calls to both, and the comparison after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis.stateful import RuleBasedStateMachine, invariant

from lior.errors import LiorError
from lior.message import Message
from lior.queues.change import Change
from lior.queues.descriptor import QueueAccessType, TwoPhaseRead
from lior.queues.ports import Store
from lior.queues.queue import Queue
from lior.server.committer import count_of
from lior.store.memory import MemoryStore
from lior.testing.engine import Answer, ManualEngine
from tests.properties.model import FOREVER, Curs, Desc, Entry, Op, Q, Refused, Tx
from tests.properties.model_calls import ModelManager

OUT: Final = r"DIRECT=OS:elsewhere\private$\x"


class BothSides(RuleBasedStateMachine):
    """Rules make the same call on both sides; `agree` compares everything after each."""

    cache_bytes = 64 << 20
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.engine = ManualEngine(
            self.open_store(), cache_bytes=self.cache_bytes, queue_manager_quota=8, journal_quota=5
        )
        self.model = ModelManager(8192, 5120, self.engine.clock.wall())
        self.batch: list[Change] = []
        self.stored = False  # the batch under way is on disk
        self.descs: list[tuple[Any, list[Desc], str]] = []
        self.cursors: list[tuple[Any, Curs]] = []
        self.txs: list[tuple[Any, Tx]] = []
        self.reads: dict[int, TwoPhaseRead] = {}
        self.answers: dict[int, Answer] = {}
        self.ids: dict[int, tuple[Any, ...]] = {}
        self.last_token = 0

    def open_store(self) -> Store:
        return MemoryStore()

    def reopen_store(self) -> Store:
        return self.engine.store

    # Both sides

    @property
    def core(self) -> Any:
        return self.engine.manager.core

    def call(self, real: Callable[[Answer], Any], modelled: Callable[[int], Any]) -> bool:
        """True if both took the call; a refusal must be the same on both sides."""
        self.last_token += 1
        token, answer = self.last_token, Answer()
        got, expected = "", ""
        try:
            real(answer)
        except LiorError as error:
            got = type(error).__name__
        try:
            modelled(token)
        except Refused as error:
            expected = str(error)
        if answer.done and answer.error is not None and token not in self.model.outcomes:
            got = type(answer.error).__name__
        assert got == expected, f"{got or 'accepted'}, the model says {expected or 'accepted'}"
        if not got:
            self.answers[token] = answer
        return not got

    def find(self, name: str) -> Queue | None:
        for queue in self.core.queues.values():
            if queue.name.casefold() == name.casefold() and not queue.deleted:
                return queue  # type: ignore[no-any-return]
        return None

    def open(self, name: str, access: str) -> None:
        found = self.model.queues.get(name)
        if found is None and ";" in name and access != "SEND":
            parent = self.model.queues.get(name.partition(";")[0])
            found = self.model.subqueue(parent, name.partition(";")[2]) if parent else None
        if found is None and name == OUT:
            found = self.model.add(Q(OUT, kind="outgoing"))
        if found is None or (found.kind in ("journal", "sub", "system") and access == "SEND"):
            return
        text = name if name == OUT else f"DIRECT=OS:.\\{name}"
        if name == OUT and access != "SEND":
            access = "RECEIVE_ADMIN"
            if self.find(OUT) is None:
                return  # opened and closed without a message: forgotten
        self.descs.append((self.engine.open(text, QueueAccessType[access]), [self.model.handle(found)], access))

    def pick_desc(self, pick: int, *access: str) -> tuple[Any, list[Desc], str] | None:
        fitting = [d for d in self.descs if d[2] in access]
        return fitting[pick % len(fitting)] if fitting else None

    def pick_reader(self, pick: int, transacted: bool, *access: str) -> tuple[Any, list[Desc], str] | None:
        """Mostly a handle of a queue that holds messages, and that suits the transaction."""
        fitting = [d for d in self.descs if d[2] in access]
        full = [d for d in fitting if d[1][0].queue and self.model.of(d[1][0].queue, "available", "held")]
        apt = [d for d in full if d[1][0].queue and (d[1][0].queue.transactional or not transacted)]
        fitting = (apt or full or fitting) if pick % 8 else fitting
        return fitting[pick % len(fitting)] if fitting else None

    def pick_tx(self, pick: int) -> tuple[Any, Tx] | None:
        active = [t for t in self.txs if t[1].state == "active"]
        if not active and len(self.txs) < 4:
            identifier = self.engine.manager.begin().identifier
            active = [(identifier, self.model.begin(identifier))]
            self.txs += active
        return active[pick % len(active)] if active else None

    def pick_entry(self, desc: Desc, pick: int) -> Entry | None:
        """A message of the queue, mostly; sometimes one of another queue, or none that is left."""
        here = [e for e in self.model.entries if e.queue is desc.queue and e.lookup_id]
        anywhere = [e for e in self.model.entries if e.lookup_id]
        chosen = here if pick % 5 and here else anywhere
        return chosen[pick % len(chosen)] if chosen else None

    def align(self) -> None:
        """A subqueue that became empty is forgotten in a change of its own, of which the lists know nothing."""
        for place, change in enumerate(self.core.pending):
            at = count_of(self.core.pending[:place])
            forgets = [type(operation).__name__ for operation in change.operations] == ["DeleteQueue"]
            if forgets and not change.has_steps and (at >= len(self.model.pending) or self.model.pending[at].actions):
                self.model.pending.insert(at, Op([], True))

    # What must hold after every step

    @invariant()
    def agree(self) -> None:
        BothSides.steps += 1
        self.check_answers()
        self.align()
        assert count_of(self.core.pending) == len(self.model.pending), "changes that wait for the store"
        assert count_of(self.batch) == len(self.model.flight)
        for queue in self.core.queues.values():
            if not queue.deleted:
                self.check_queue(queue, self.model.queues.get(queue.name))
        for modelled in self.model.queues.values():
            assert self.find(modelled.name) is not None or not self.model.of(modelled, "available", "held", "staged")
        assert self.core.total_bytes == self.model.bytes_of_all(False)
        assert self.core.journal_bytes == self.model.bytes_of_all(True)
        assert self.core.total_bytes <= 8192 and self.core.journal_bytes <= 5120
        self.txs = [t for t in self.txs if t[1].state != "ended"]
        assert set(self.core.transactions) == {t[0] for t in self.txs}
        if not self.batch and not self.core.pending:
            self.check_store()

    def check_answers(self) -> None:
        for token, answer in list(self.answers.items()):
            outcome = self.model.outcomes.get(token)
            assert answer.done == (outcome is not None), f"answer {answer.value or answer.error}, model {outcome}"
            if outcome is None:
                continue
            del self.answers[token]
            got = type(answer.error).__name__ if answer.error is not None else ""
            assert got == (outcome[1] if outcome[0] == "error" else ""), f"{answer.error!r}, model {outcome}"
            if outcome[0] in ("message", "read"):
                message = answer.value.message if outcome[0] == "read" else answer.value
                assert _key(message) == outcome[1].key
                assert message.lookup_identifier == self.learn(outcome[1], message.lookup_identifier)
            if outcome[0] == "read":
                self.reads[id(outcome[2])] = answer.value

    def learn(self, entry: Entry, lookup_id: int) -> int:
        """Every position of the queue manager has a lookup id of its own, for good."""
        if not entry.lookup_id:
            assert lookup_id not in self.ids, "a lookup id came back"
            assert lookup_id >> 56 == 7 - entry.priority
            self.ids[lookup_id] = entry.key
            entry.lookup_id = lookup_id
        return entry.lookup_id

    def check_queue(self, queue: Queue, modelled: Q | None) -> None:
        if modelled is None:
            assert not queue.message_count and not queue.total_bytes and not queue.uncommitted_bytes, queue
            return
        expected, ids = self.model.of(modelled, "available"), list(queue.available)
        found = [queue.position(i, self.engine.store) for i in ids]
        assert [_key(p.message) for p in found] == [e.key for e in expected], queue
        assert ids == sorted(set(ids))
        assert [self.learn(e, i) for e, i in zip(expected, ids, strict=True)] == ids
        assert [(p.abort_count, p.move_count) for p in found] == [(e.aborts, e.moves) for e in expected], queue
        held = self.model.of(modelled, "held")
        assert queue.unavailable == len(held) and queue.message_count == len(expected) + len(held), queue
        assert sorted(queue.peekable) == sorted(e.lookup_id for e in held if e.shown), queue
        assert queue.total_bytes == self.model.total(modelled), queue
        assert queue.uncommitted_bytes == self.model.uncommitted(modelled), queue
        assert queue.staged_inserts == len(self.model.of(modelled, "staged")), queue
        assert modelled.main.quota == FOREVER or queue.used_bytes() <= modelled.main.quota
        waits = [w for w in self.model.waits if w.queue is modelled]
        assert [w.tag for w in queue.waiters] == [w.tag for w in waits], queue
        for wait in queue.waiters:
            assert not any(wait.accepts(i) for i in ids), f"a message is there, and a read of {queue} waits"

    def check_store(self) -> None:
        """On disk is what the model calls durable, and nothing else."""
        expected: list[tuple[Any, ...]] = []
        for queue in self.model.queues.values():
            real = self.find(queue.name)
            stored = [e for e in self.model.of(queue, "available", "held") if e.durable]
            expected += [(real.queue_id if real else None, e.lookup_id) for e in stored if e.lookup_id]
        prepared = sum(o[0] == "send" and o[2] for t in self.model.transactions if t.stored for o in t.operations)
        index = [(e[0], e[1]) for e in self.engine.store.load_index()]
        assert sum(place[0] == 0 for place in index) == prepared, "sends of prepared transactions"
        assert sorted(place for place in index if place[0]) == sorted(expected)

    def teardown(self) -> None:
        self.engine.store.close()


def _key(message: Message) -> tuple[Any, ...]:
    return (message.body, message.message_class, message.correlation_id, message.failure_reason)
