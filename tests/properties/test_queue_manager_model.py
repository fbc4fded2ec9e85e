"""The queue manager against a model of plain lists: any history of calls, commits, failures and crashes.

`make torture` runs many more histories, with new seeds that it prints; LIOR_LONG=SECONDS says how long.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from lior.errors import MessageStorageFailed
from lior.message import Message
from lior.queues.change import Change
from lior.queues.definition import QueueProperties
from lior.queues.descriptor import MessageSeekAction, QueueAccessType
from lior.queues.outgoing import OutgoingQueue, OutgoingState
from lior.queues.ports import Store
from lior.server.committer import count_of
from lior.store.sqlite import SqliteStore
from lior.testing.engine import Answer
from tests.properties.both_sides import OUT, BothSides
from tests.properties.model import FOREVER, Curs, Desc, Entry, Q

SYSTEM: Final = ("DEADLETTER", "DEADXACT", "JOURNAL")
LAYOUT: Final[dict[str, dict[str, Any]]] = {
    "n1": {"journaling": True, "quota": 3},
    "n2": {"max_aborts": 1},
    "t1": {"transactional": True, "journaling": True, "journal_quota": 1, "max_aborts": 1},
    "t2": {"transactional": True, "quota": 3},
    "adm": {"quota": 1},
}
NAMES: Final = tuple(LAYOUT)
SEEKS: Final = tuple(action.value for action in MessageSeekAction)
PICK: Final = st.integers(0, 255)
SIZES: Final = st.sampled_from((0, 0, 40, 400, 900))
TIMEOUTS: Final = st.sampled_from((0, 0, 250, 3000, FOREVER))
LIVES: Final = st.sampled_from((FOREVER, FOREVER, FOREVER, 0, 1, 4))
MODE: Final = st.sampled_from(("plain", "plain", "transaction", "two phase"))


class Machine(BothSides):
    """Each rule makes the same call on both sides."""

    # Rules: queues and handles

    @initialize()
    def set_up(self) -> None:
        for name in NAMES:
            self.create(name)
        self.commit_all()
        self.open_all()

    def create(self, name: str) -> None:
        properties = QueueProperties(**LAYOUT[name])
        limits = {k: v * 1024 for k, v in LAYOUT[name].items() if "quota" in k}
        queue = Q(f"private$\\{name}", **{**LAYOUT[name], **limits})
        path = f".\\private$\\{name}"
        self.call(
            lambda answer: self.engine.manager.create_queue(path, properties, self.engine.admin, answer),
            lambda token: self.model.create(token, queue),
        )

    def open_all(self) -> None:
        for name in NAMES:
            for access in ("SEND", "RECEIVE"):
                self.open(f"private$\\{name}", access)
        self.open(OUT, "SEND")

    @rule(pick=PICK)
    def create_again(self, pick: int) -> None:
        name = NAMES[pick % len(NAMES)]
        self.create(name)

    @rule(pick=PICK, suffix=st.sampled_from(("", "", ";s", ";s", ";poison", ";JOURNAL")),
          access=st.sampled_from(("SEND", "RECEIVE", "RECEIVE", "PEEK", "MOVE", "MOVE")))
    def open_one(self, pick: int, suffix: str, access: str) -> None:
        if len(self.descs) < 30:
            self.open(f"private$\\{NAMES[pick % len(NAMES)]}{suffix}", access)

    @rule(pick=PICK, access=st.sampled_from(("RECEIVE", "PEEK")))
    def open_special(self, pick: int, access: str) -> None:
        names = [f"system$;{name}" for name in SYSTEM] + [OUT]
        if len(self.descs) < 30:
            self.open(names[pick % len(names)], access)

    @rule(picks=st.sets(st.sampled_from(("n1", "n2", "adm")), min_size=2))
    def open_several(self, picks: set[str]) -> None:
        if len(self.descs) < 30 and all(f"private$\\{name}" in self.model.queues for name in picks):
            text = ",".join(f"DIRECT=OS:.\\private$\\{name}" for name in sorted(picks))
            real = self.engine.open(text, QueueAccessType.SEND)
            found = [self.model.queues[child.live_queue().name] for child in real.children]
            self.descs.append((real, [self.model.handle(queue) for queue in found], "SEND"))

    @rule(pick=PICK)
    def close(self, pick: int) -> None:
        if self.descs and pick % 3 == 0:
            real, modelled, _ = self.descs.pop(pick % len(self.descs))
            self.cursors = [c for c in self.cursors if c[1].desc is not modelled[0]]
            self.engine.manager.close(real)
            for desc in modelled:
                self.model.close(desc)

    @rule(pick=PICK)
    def purge(self, pick: int) -> None:
        if pick % 3:
            return
        usable = [q for q in self.model.queues.values() if self.find(q.name) is not None]
        queue = usable[pick % len(usable)]
        real = self.find(queue.name)
        assert real is not None
        self.call(
            lambda answer: self.engine.manager.purge(real, self.engine.admin, answer),
            lambda token: self.model.purge(token, queue),
        )

    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        queue = self.model.queues.get(f"private$\\{NAMES[pick % len(NAMES)]}")
        if queue is None or pick % 4:
            return
        real = self.find(queue.name)
        assert real is not None
        self.call(
            lambda answer: self.engine.manager.delete_queue(real, self.engine.admin, answer),
            lambda token: self.model.delete(token, queue),
        )

    # Rules: messages

    @rule(pick=PICK, size=SIZES, priority=st.integers(0, 7), durable=st.booleans(), life=LIVES, reach=LIVES,
          asked=st.sampled_from((0, 0, 15, 14, 5, 8)), journal=st.booleans(), dead=st.booleans())
    def send(self, pick: int, size: int, priority: int, durable: bool, life: int, reach: int, asked: int,
             journal: bool, dead: bool) -> None:
        desc = self.pick_desc(pick, "SEND")
        if desc is not None:
            self.send_to(desc, pick, size, priority, durable, life, reach, asked, journal, dead)

    def send_to(self, desc: tuple[Any, list[Desc], str], pick: int, size: int, priority: int, durable: bool, life: int,
                reach: int, asked: int, journal: bool, dead: bool) -> None:
        real, modelled, _ = desc
        tx = self.pick_tx(pick) if pick % 7 == 0 or any(d.queue and d.queue.transactional for d in modelled) else None
        body = b"%d." % self.last_token + bytes(size)
        message = Message(
            body=body, label="l", priority=priority, delivery_guarantee=int(durable), time_to_be_received=life,
            time_to_reach_queue=reach, acknowledgements_requested=asked, positive_journaling_requested=journal,
            negative_journaling_requested=dead,
            administration_queue="DIRECT=OS:lior\\private$\\adm" if asked else "",
        )

        def modelled_send(token: int) -> None:
            identifier = message.identifier.to_bytes() if message.identifier else b""
            entry = Entry(
                (body, 0, bytes(20), 0), 120 + len(body) + 2, priority, durable, identifier, body, life, reach,
                self.engine.clock.wall(), asked, "private$\\adm" if asked else "", journal, dead,
            )
            self.model.send(token, modelled, entry, None if tx is None else tx[1])

        transaction = None if tx is None else self.core.transactions[tx[0]]
        self.call(lambda answer: self.engine.manager.send(real, message, answer, transaction), modelled_send)

    @rule(pick=PICK, priorities=st.lists(st.integers(0, 7), min_size=1, max_size=4), dead=st.booleans())
    def send_several(self, pick: int, priorities: list[int], dead: bool) -> None:
        for priority in priorities:
            self.send_one(pick, priority, dead)

    def send_one(self, pick: int, priority: int, dead: bool) -> None:
        sends = [d for d in self.descs if d[2] == "SEND"]
        if sends:
            self.send_to(sends[pick % len(sends)], pick, 0, priority, bool(pick % 3), FOREVER, FOREVER, 8, dead, dead)

    def read_options(self, pick: int, mode: str, cursor: bool, desc: tuple[Any, list[Desc], str]) -> tuple[Any, ...]:
        tx = self.pick_tx(pick) if mode == "transaction" else None
        own = [c for c in self.cursors if c[1].desc is desc[1][0]]
        chosen = own[pick % len(own)] if cursor and own else (None, None)
        return tx, None if tx is None else self.core.transactions[tx[0]], chosen

    @rule(pick=PICK, timeout=TIMEOUTS, mode=MODE, cursor=st.booleans(), tag=st.integers(0, 3))
    def receive(self, pick: int, timeout: int, mode: str, cursor: bool, tag: int) -> None:
        self.receive_one(pick, mode, timeout, cursor, tag)

    def receive_one(self, pick: int, mode: str, timeout: int = 0, cursor: bool = False, tag: int = 0) -> None:
        desc = self.pick_reader(pick, mode == "transaction", "RECEIVE", "RECEIVE_ADMIN")
        if desc is None:
            return
        tx, transaction, (real_cursor, model_cursor) = self.read_options(pick, mode, cursor, desc)
        two_phase = mode == "two phase"
        self.call(
            lambda answer: self.engine.manager.receive(
                desc[0], answer, timeout_ms=timeout, cursor=real_cursor, transaction=transaction,
                two_phase=two_phase, tag=tag,
            ),
            lambda token: self.model.receive(
                token, desc[1][0], _seconds(timeout), model_cursor, tx and tx[1], two_phase, tag
            ),
        )

    @rule(pick=PICK, timeout=TIMEOUTS, cursor=st.booleans(), following=st.booleans(), tag=st.integers(0, 3))
    def peek(self, pick: int, timeout: int, cursor: bool, following: bool, tag: int) -> None:
        desc = self.pick_reader(pick, False, "RECEIVE", "RECEIVE_ADMIN", "PEEK")
        if desc is None:
            return
        _, _, (real_cursor, model_cursor) = self.read_options(pick, "plain", cursor, desc)
        manager = self.engine.manager
        if following and model_cursor is not None:
            self.call(
                lambda answer: manager.peek_next(desc[0], answer, cursor=real_cursor, timeout_ms=timeout, tag=tag),
                lambda token: self.model.peek_next(token, desc[1][0], _seconds(timeout), model_cursor, tag),
            )
        else:
            self.call(
                lambda answer: manager.peek(desc[0], answer, cursor=real_cursor, timeout_ms=timeout, tag=tag),
                lambda token: self.model.peek(token, desc[1][0], _seconds(timeout), model_cursor, tag),
            )

    @rule(pick=PICK, entry=PICK, seek=st.sampled_from(SEEKS), peek=st.booleans(), mode=MODE, show=st.booleans())
    def lookup(self, pick: int, entry: int, seek: str, peek: bool, mode: str, show: bool) -> None:
        self.lookup_one(pick, entry, seek, peek, mode, show)

    def lookup_one(self, pick: int, entry: int, seek: str, peek: bool, mode: str, show: bool) -> None:
        desc = self.pick_reader(pick, mode == "transaction", "RECEIVE", "RECEIVE_ADMIN")
        if desc is None:
            return
        found = self.pick_entry(desc[1][0], entry)
        tx, transaction, _ = self.read_options(pick, "plain" if peek else mode, False, desc)
        two_phase = mode == "two phase" and not peek
        self.call(
            lambda answer: self.engine.manager.read_by_lookup(
                desc[0], answer, lookup_id=found.lookup_id if found else 0, action=MessageSeekAction(seek), peek=peek,
                transaction=transaction, two_phase=two_phase, allow_peek=show,
            ),
            lambda token: self.model.lookup(
                token, desc[1][0], found, seek, peek, tx and tx[1], two_phase, show
            ),
        )

    @precondition(lambda self: self.model.reads)
    @rule(pick=PICK, delete=st.booleans())
    def end_read(self, pick: int, delete: bool) -> None:
        modelled = self.model.reads[pick % len(self.model.reads)]
        real = self.reads[id(modelled)]
        self.call(
            lambda answer: self.engine.manager.receive_end(real, answer, delete=delete),
            lambda token: self.model.end(token, modelled, delete),
        )

    @rule(pick=PICK)
    def open_cursor(self, pick: int) -> None:
        desc = self.pick_reader(pick, False, "RECEIVE", "PEEK")
        if desc is not None and desc[1][0].queue is not None and len(self.cursors) < 8:
            self.cursors.append((self.engine.manager.open_cursor(desc[0]), Curs(desc[1][0])))

    @precondition(lambda self: self.cursors)
    @rule(pick=PICK)
    def close_cursor(self, pick: int) -> None:
        real, modelled = self.cursors.pop(pick % len(self.cursors))
        self.engine.manager.close_cursor(real)
        self.model.close_cursor(modelled)

    @precondition(lambda self: self.model.waits)
    @rule(pick=PICK, tag=st.integers(0, 3))
    def cancel(self, pick: int, tag: int) -> None:
        queue = self.model.waits[pick % len(self.model.waits)].queue
        real = self.find(queue.name)
        assert real is not None

        def cancel_model(token: int) -> None:
            self.model.cancel(queue, tag)
            self.model.do_tell(token, "done")

        def cancel_real(answer: Answer) -> None:
            self.engine.manager.cancel(real, tag)
            answer.set_result(None)

        self.call(cancel_real, cancel_model)

    @rule(pick=PICK, entry=PICK, to=PICK, transacted=st.booleans())
    def move(self, pick: int, entry: int, to: int, transacted: bool) -> None:
        source = self.pick_reader(pick, transacted, "RECEIVE", "MOVE")
        if source is None:
            return
        main = source[1][0].queue.main if source[1][0].queue else None
        if main is not None and main.kind == "plain" and to % 3 == 0 and len(self.descs) < 30:
            self.open(f"{main.name};s", "MOVE")
        apt = [d for d in self.descs if d[2] == "MOVE" and d[1][0].queue and d[1][0].queue.main is main]
        into = apt[to % len(apt)] if apt and to % 7 else self.pick_desc(to, "MOVE")
        if into is None:
            return
        found = self.pick_entry(source[1][0], entry)
        tx = self.pick_tx(pick) if transacted else None
        transaction = None if tx is None else self.core.transactions[tx[0]]
        lookup_id = found.lookup_id if found else 1
        self.call(
            lambda answer: self.engine.manager.move(source[0], lookup_id, into[0], answer, transaction),
            lambda token: self.model.move(token, source[1][0], found, into[1][0], tx and tx[1]),
        )

    @rule(pick=PICK, entry=PICK)
    def reject(self, pick: int, entry: int) -> None:
        desc, tx = self.pick_reader(pick, True, "RECEIVE"), self.pick_tx(pick)
        if desc is None or tx is None:
            return
        found = self.pick_entry(desc[1][0], entry)
        transaction = self.core.transactions[tx[0]]
        lookup_id = found.lookup_id if found else 1
        self.call(
            lambda answer: self.engine.manager.reject(desc[0], lookup_id, transaction, answer),
            lambda token: self.model.reject(token, desc[1][0], found, tx[1]),
        )

    @rule(pick=PICK, times=st.integers(1, 3), mode=MODE, seek=st.sampled_from(SEEKS))
    def take_some(self, pick: int, times: int, mode: str, seek: str) -> None:
        for number in range(times):
            self.receive_one(pick, mode)
            self.lookup_one(pick, number, seek, False, mode, bool(pick % 2))

    # Rules: outgoing queues

    @rule()
    def transfer(self) -> None:
        """The next queue manager took the first message of the outgoing queue."""
        queue, modelled = self.find(OUT), self.model.queues.get(OUT)
        head = None if queue is None else queue.available.first()
        if queue is None or head is None or modelled is None or self.model.paused:
            return
        assert self.engine.manager.dispatchable() == [queue]
        change = Change()
        self.engine.manager.removal.transferred(change, queue.position(head, self.engine.store))
        self.core.submit(change)
        self.model.transferred(self.model.of(modelled, "available")[0])

    @rule(hold=st.booleans())
    def pause_or_resume(self, hold: bool) -> None:
        queue = self.find(OUT)
        under_way = any(a[0] == "pause" for op in self.model.flight + self.model.pending for a in op.actions)
        if queue is None or under_way:
            return
        administration = self.engine.manager.administration
        act = administration.pause if hold else administration.resume
        self.call(
            lambda answer: act(queue, self.engine.admin, answer),  # type: ignore[arg-type]
            lambda token: self.model.pause(token, hold),
        )

    # Rules: transactions

    @rule()
    def begin(self) -> None:
        self.pick_tx(0)

    def end_tx(self, pick: int, name: str) -> None:
        identifier, tx = self.txs[pick % len(self.txs)]
        self.call(
            lambda answer: getattr(self.engine.manager, name)(identifier, answer),
            lambda token: getattr(self.model, name)(token, tx),
        )

    @precondition(lambda self: self.txs)
    @rule(pick=PICK)
    def prepare(self, pick: int) -> None:
        self.end_tx(pick, "prepare")

    @precondition(lambda self: self.txs)
    @rule(pick=PICK)
    def commit(self, pick: int) -> None:
        self.end_tx(pick, "commit")

    @precondition(lambda self: self.txs)
    @rule(pick=PICK)
    def abort(self, pick: int) -> None:
        self.end_tx(pick, "abort")

    # Rules: the store, time, crashes

    @precondition(lambda self: not self.batch and self.core.pending)
    @rule(count=st.integers(1, 4), stored=st.booleans())
    def take_batch(self, count: int, stored: bool) -> None:
        """The writer takes the first changes; the rest waits."""
        pending = self.engine.manager.take_pending()
        self.batch, self.core.pending[:0] = pending[:count], pending[count:]
        taken = count_of(self.batch)  # sends to one queue are one change; the model has one for each
        self.model.flight, self.model.pending = self.model.pending[:taken], self.model.pending[taken:]
        self.stored = False
        if stored:
            self.write()

    def write(self) -> None:
        operations = [operation for change in self.batch for operation in change.operations]
        if operations and not self.stored:
            self.engine.store.apply(operations)
        self.stored = True

    @precondition(lambda self: self.batch)
    @rule()
    def finish_batch(self) -> None:
        self.write()
        batch, self.batch, flight, self.model.flight = self.batch, [], self.model.flight, []
        self.engine.manager.committed(batch)
        for op in flight:
            self.model.finish(op)
        self.tick()  # what came late is due already

    @precondition(lambda self: self.batch and not self.stored)
    @rule()
    def fail_batch(self) -> None:
        batch, self.batch, flight, self.model.flight = self.batch, [], self.model.flight, []
        self.engine.manager.failed(batch, MessageStorageFailed("no room on the disk"))
        self.model.fail(flight)

    @rule()
    def commit_all(self) -> None:
        while self.batch or self.core.pending:
            if not self.batch:
                self.take_batch(1000, False)
            self.finish_batch()
            self.align()
            assert count_of(self.core.pending) == len(self.model.pending)

    @rule(seconds=st.sampled_from((0.25, 1.0, 1.0, 4.0)))
    def advance(self, seconds: float) -> None:
        self.engine.clock.advance(seconds)
        self.model.now += seconds
        self.model.uptime += seconds
        self.tick()

    def tick(self) -> None:
        self.learn_numbers()
        self.engine.manager.tick()
        self.model.tick()

    def learn_numbers(self) -> None:
        """What is due at the same moment goes queue by queue, in the order of their numbers."""
        for queue in self.model.known_queues():
            real = self.find(queue.name)
            queue.number = queue.number if real is None else real.queue_id

    @rule(really=st.integers(0, 3))
    def crash(self, really: int) -> None:
        if really:
            return
        self.model.crash(self.stored and bool(self.batch))
        self.batch, self.descs, self.cursors, self.reads = [], [], [], {}
        self.answers.clear()
        old = self.engine
        old.store = self.reopen_store()
        self.engine = old.restart(cache_bytes=self.cache_bytes, seed=self.last_token)
        self.txs = [t for t in self.txs if t[1] in self.model.transactions]
        assert set(self.core.transactions) == {t[0] for t in self.txs}
        self.learn_numbers()
        self.model.tick()
        while self.model.pending:
            pending, self.model.pending = self.model.pending, []
            for op in pending:
                self.model.finish(op)
        out = self.find(OUT)
        on_hold = isinstance(out, OutgoingQueue) and out.state is OutgoingState.ON_HOLD
        assert on_hold or not self.model.paused_on_disk
        self.model.paused = self.model.paused_on_disk = on_hold
        self.open_all()


def _seconds(timeout_ms: int) -> float | None:
    return None if timeout_ms == FOREVER else timeout_ms / 1000


class SmallCache(Machine):
    """Next to no message stays in memory: everything is read back from the store."""

    cache_bytes = 200


class Sqlite(SmallCache):
    def open_store(self) -> Store:
        self.directory = tempfile.TemporaryDirectory(prefix="lior-")
        return SqliteStore(Path(self.directory.name) / "data")

    def reopen_store(self) -> Store:
        self.engine.store.close()
        return SqliteStore(Path(self.directory.name) / "data")

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


def bounds(examples: int, steps: int, *, derandomize: bool = True) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=derandomize,
        database=None, suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize(("machine", "examples"), [(Machine, 60), (SmallCache, 30), (Sqlite, 10)])
def test_any_history_agrees_with_the_model(machine: type[Machine], examples: int) -> None:
    run_state_machine_as_test(machine, settings=bounds(examples, 40))


ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "pick": tuple(range(256)), "entry": tuple(range(256)), "to": tuple(range(256)),
    "suffix": ("", ";s", ";s", ";poison", ";JOURNAL"), "access": ("SEND", "RECEIVE", "RECEIVE", "PEEK", "MOVE", "MOVE"),
    "picks": ({"n1", "n2"}, {"n1", "adm"}, {"n1", "n2", "adm"}), "size": (0, 0, 40, 400, 900),
    "priority": tuple(range(8)), "life": (FOREVER, FOREVER, FOREVER, 0, 1, 4), "reach": (FOREVER, FOREVER, 0, 1, 4),
    "asked": (0, 0, 15, 14, 5, 8), "priorities": ([3], [3, 3, 7], [0, 7, 4, 4]), "tag": (0, 1, 2, 3),
    "timeout": (0, 0, 250, 3000, FOREVER), "mode": ("plain", "plain", "transaction", "two phase"), "seek": SEEKS,
    "times": (1, 2, 3), "count": (1, 2, 3, 1000), "stored": (False, False, True),
    "seconds": (0.25, 1.0, 1.0, 4.0), "really": (0, 1, 2, 3),
}
OFTEN: Final = {
    "send": 4, "send_several": 4, "receive": 4, "take_some": 3, "lookup": 3, "move": 4, "commit": 3, "abort": 3,
    "take_batch": 9, "finish_batch": 6, "fail_batch": 4, "commit_all": 2, "end_read": 3, "advance": 2, "delete": 2,
}


def walk(machine: type[Machine], number: int, steps: int) -> None:
    """A history drawn from a seed, even and fast: what hypothesis draws is shorter and more peculiar."""
    chance = random.Random(number)
    subject = machine()
    rules = sorted(machine.setup_state().rules, key=lambda each: each.function.__name__)
    weights = [OFTEN.get(each.function.__name__, 1) for each in rules]
    history: list[str] = []
    try:
        subject.set_up()
        while len(history) < steps:
            chosen = chance.choices(rules, weights)[0]
            if all(condition(subject) for condition in chosen.preconditions):
                drawn = {name: chance.choice(ARGUMENTS.get(name, (False, True))) for name in sorted(chosen.arguments)}
                history.append(f"{chosen.function.__name__} {drawn}")
                chosen.function(subject, **drawn)
                subject.agree()
    except BaseException as error:
        error.add_note(f"walk {machine.__name__} {number}, step {len(history)}:\n" + "\n".join(history))
        raise
    finally:
        subject.teardown()


@pytest.mark.parametrize(("machine", "walks"), [(Machine, 40), (SmallCache, 30), (Sqlite, 6)])
def test_long_walks_agree_with_the_model(machine: type[Machine], walks: int) -> None:
    for number in range(walks):
        walk(machine, number, 120)


LONG: Final = float(os.environ.get("LIOR_LONG", "300"))  # seconds for each machine


@pytest.mark.timeout(0)
@pytest.mark.torture
@pytest.mark.parametrize("machine", [Machine, SmallCache, Sqlite])
def test_many_histories_agree_with_the_model(machine: type[Machine]) -> None:
    until = time.monotonic() + LONG
    first = random.SystemRandom().getrandbits(32)
    print(f"seeds from {first}", flush=True)
    number = first
    while time.monotonic() < until:
        walk(machine, number, 200)
        number += 1
    print(f"to {number}, {BothSides.steps} steps", flush=True)
    seeded = seed(first)(type(machine.__name__, (machine,), {}))
    run_state_machine_as_test(seeded, settings=bounds(300, 60, derandomize=False))
