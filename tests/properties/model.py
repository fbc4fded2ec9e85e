"""A queue manager as plain lists, written from [MS-MQDMPR] 3.1 and 3.2 and the ledger, sharing no code with it.

Every message anywhere is an Entry in one list; what a queue holds, its order and its bytes are found by going
through that list each time. A call leaves an Op: actions that happen, in order, when its commit is done, and that
are taken back, in reverse, when it fails. Ops that need no commit happen at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

FOREVER = 0xFFFFFFFF
ARRIVED, RECEIVED = 0x0002, 0x4000
PURGED_OUTGOING, LATE = 0x8001, 0x8002
QUEUE_DELETED, PURGED, NOT_RECEIVED, NOT_RECEIVED_AT_SENDER, REJECTED = 0xC000, 0xC001, 0xC002, 0xC003, 0xC004
ASKED_BY = {ARRIVED: 1, RECEIVED: 2, PURGED_OUTGOING: 4, LATE: 4, QUEUE_DELETED: 8, PURGED: 8, NOT_RECEIVED: 8,
            NOT_RECEIVED_AT_SENDER: 8, REJECTED: 8}
START = (-1, 0)


@dataclass(eq=False)
class Q:
    name: str
    number: int = 0  # of its creation
    transactional: bool = False
    journaling: bool = False
    quota: int = FOREVER  # bytes, as all quotas here
    journal_quota: int = FOREVER
    max_aborts: int | None = None
    parent: Q | None = None
    journal: Q | None = None
    kind: str = "plain"  # "sub", "journal", "system", "outgoing"
    deleted: bool = False

    handles: list[tuple[Desc, Q]] = field(default_factory=list)  # while its deletion is under way

    @property
    def main(self) -> Q:
        return self.parent if self.kind == "sub" and self.parent is not None else self

    @property
    def system(self) -> bool:
        return self.kind in ("journal", "system")


@dataclass(eq=False)
class Entry:
    """A message in a place."""

    key: tuple[Any, ...]
    size: int
    priority: int
    durable: bool
    identifier: bytes = b""
    body: bytes = b""
    time_to_be_received: int = FOREVER
    time_to_reach_queue: int = FOREVER
    sent: float = 0.0
    asked: int = 0
    admin: str = ""
    journal: bool = False
    dead_letter: bool = False
    in_transaction: bool = False
    queue: Q = field(default_factory=lambda: Q("nowhere"))
    serial: int = 0
    state: str = "new"  # "staged", "available", "held", "gone"
    moving: bool = False
    holder: object = None
    purged: bool = False
    shown: bool = False
    again: int = 0  # its removal failed: not before this time
    aborts: int = 0
    stored_aborts: int = 0
    aborts_known: bool = True
    moves: int = 0
    lookup_id: int = 0  # learned from the queue manager

    @property
    def place(self) -> tuple[int, int]:
        return (7 - self.priority, self.serial)

    @property
    def end(self) -> int:
        if self.queue.system:
            return 0
        ends = []
        if (life := self.time_to_be_received) != FOREVER:
            ends.append(ceil(self.sent + life) if life else int(self.sent))
        if self.queue.kind == "outgoing" and self.time_to_reach_queue != FOREVER:
            ends.append(int(self.sent) + self.time_to_reach_queue + 1)  # more whole seconds than it was given
        return min(ends, default=0)

    def copy(self, **changes: Any) -> Entry:
        return Entry(**{**self.__dict__, "holder": None, "moving": False, "purged": False, "shown": False, "again": 0,
                        "lookup_id": 0, **changes})


@dataclass(eq=False)
class Tx:
    identifier: Any
    # ["send", entry, counted], ["take", entry, reason] or ["move", entry, target]
    operations: list[list[Any]] = field(default_factory=list)
    state: str = "active"
    stored: bool = False  # prepared, on disk


@dataclass(eq=False)
class Desc:
    queue: Q | None
    closed: bool = False


@dataclass(eq=False)
class Curs:
    desc: Desc
    at: tuple[int, int] = START
    state: str = "unread"


@dataclass(eq=False)
class Read:
    desc: Desc
    entry: Entry
    ended: bool = False


@dataclass(eq=False)
class Wait:
    token: int
    desc: Desc
    queue: Q
    takes: bool
    deadline: float | None
    cursor: Curs | None
    tx: Tx | None
    two_phase: bool
    tag: object
    resume: str = ""


@dataclass(eq=False)
class Op:
    actions: list[tuple[Any, ...]] = field(default_factory=list)
    waits_for_store: bool = False


class Refused(Exception):
    """The name of the error that the specification asks for."""


class Model:
    def __init__(self, quota: int, journal_quota: int, now: float) -> None:
        self.quota, self.journal_quota, self.now = quota, journal_quota, now
        self.uptime = 0.0
        self.queues: dict[str, Q] = {}
        self.leaving: set[str] = set()
        self.entries: list[Entry] = []
        self.transactions: list[Tx] = []
        self.descs: list[Desc] = []
        self.waits: list[Wait] = []
        self.reads: list[Read] = []
        self.pending: list[Op] = []
        self.flight: list[Op] = []
        self.outcomes: dict[int, tuple[Any, ...]] = {}
        self.serial = 0
        self.reserved: list[tuple[Q, int]] = []  # room for the copies that are still to be staged
        for name in ("DEADLETTER", "DEADXACT", "JOURNAL"):
            self.add(Q("system$;" + name, kind="system", transactional=name == "DEADXACT"))

    # Looking

    def add(self, queue: Q) -> Q:
        self.serial += 1
        queue.number = self.serial
        self.queues[queue.name] = queue
        return queue

    def of(self, queue: Q, *states: str) -> list[Entry]:
        return sorted((e for e in self.entries if e.queue is queue and e.state in states), key=lambda e: e.place)

    def sends_of(self, queue: Q) -> list[Entry]:
        sends = [o[1] for t in self.transactions for o in t.operations if o[0] == "send" and o[2]]
        return [entry for entry in sends if entry.queue is queue]

    def total(self, queue: Q) -> int:
        return sum(e.size for e in self.of(queue, "available", "held"))

    def uncommitted(self, queue: Q) -> int:
        coming = [e for e in self.of(queue, "staged") if not e.moving] + self.sends_of(queue)
        return sum(e.size for e in coming) + sum(size for q, size in self.reserved if q is queue)

    def used(self, queue: Q) -> int:
        family = [queue.main] + [q for q in self.known_queues() if q.kind == "sub" and q.parent is queue.main]
        return sum(self.total(q) + self.uncommitted(q) for q in family)

    def known_queues(self) -> list[Q]:
        known = list(self.queues.values())
        for entry in self.entries + [o[1] for t in self.transactions for o in t.operations]:
            if entry.queue not in known:
                known.append(entry.queue)
        return known

    def bytes_of_all(self, system: bool) -> int:
        return sum(self.total(q) + self.uncommitted(q) for q in self.known_queues() if q.system is system)

    def room(self, queue: Q, size: int, copies: int = 1) -> bool:
        limit = self.journal_quota if queue.system else self.quota
        if limit != FOREVER and self.bytes_of_all(queue.system) + size * copies > limit:
            return False
        quota = queue.main.quota
        return quota == FOREVER or self.used(queue) + size <= quota

    def visible(self, queue: Q, peek: bool) -> list[Entry]:
        return [e for e in self.of(queue, "available", "held") if e.state == "available" or (peek and e.shown)]

    def beyond(self, queue: Q, at: tuple[int, int], peek: bool) -> Entry | None:
        return next((e for e in self.visible(queue, peek) if e.place > at), None)

    def overdue(self, entry: Entry) -> bool:
        return bool(entry.end) and entry.end <= self.now

    # Ops

    def submit(self, op: Op) -> None:
        if op.waits_for_store:
            self.pending.append(op)
        else:
            self.finish(op)

    def finish(self, op: Op) -> None:
        for action in op.actions:
            getattr(self, "do_" + action[0])(*action[1:])

    def fail(self, ops: list[Op]) -> None:
        for op in reversed(ops):
            for action in reversed(op.actions):
                undo: Callable[..., None] | None = getattr(self, "undo_" + action[0], None)
                if undo is not None:
                    undo(*action[1:])

    def do_tell(self, token: int, *outcome: Any) -> None:
        assert token not in self.outcomes, "the model answered twice"
        self.outcomes[token] = outcome

    def undo_tell(self, token: int, *outcome: Any) -> None:
        self.do_tell(token, "error", "MessageStorageFailed")

    # Into queues

    def put(self, op: Op, queue: Q, entry: Entry) -> None:
        self.serial += 1
        entry.queue, entry.serial = queue, self.serial
        op.waits_for_store |= entry.durable or bool(self.of(queue, "staged"))
        entry.state = "staged"
        self.entries.append(entry)
        op.actions.append(("insert", entry))

    def do_insert(self, entry: Entry) -> None:
        self.show(entry)

    def undo_insert(self, entry: Entry) -> None:
        entry.state = "gone"
        self.entries.remove(entry)

    def take(self, desc: Desc, entry: Entry, tx: Tx | None, two_phase: bool, token: int,
             before: tuple[Any, ...] = (), shown: bool = False) -> None:
        raise NotImplementedError  # a call: see model_calls

    def show(self, entry: Entry) -> None:
        entry.state, entry.holder, entry.shown = "available", None, False
        for wait in [w for w in self.waits if w.queue is entry.queue]:
            if wait.cursor is not None and entry.place <= wait.cursor.at:
                continue
            self.waits.remove(wait)
            before = (wait.cursor, wait.cursor.at, wait.resume) if wait.cursor is not None else ()
            if wait.cursor is not None:
                wait.cursor.at, wait.cursor.state = entry.place, "unread" if wait.takes else "read"
            if wait.takes:
                self.take(wait.desc, entry, wait.tx, wait.two_phase, wait.token, before)
                return
            self.do_tell(wait.token, "message", entry)

    def arrive(self, op: Op, queue: Q, entry: Entry) -> None:
        entry.queue = queue
        if queue.kind == "outgoing":
            self.put(op, queue, entry)
            return
        if self.overdue(entry):
            self.follow(op, entry, NOT_RECEIVED)
            return
        self.put(op, queue, entry)
        self.acknowledge(op, entry, ARRIVED)
        if entry.journal:
            self.keep_copy(op, self.queues["system$;JOURNAL"], entry, 0)

    def acknowledge(self, op: Op, entry: Entry, reason: int) -> None:
        if not entry.admin or not entry.asked & ASKED_BY[reason]:
            return
        admin = self.queues.get(entry.admin)
        body = entry.body if reason & 0x8000 else b""
        if admin is None or admin.transactional or not self.room(admin, 120 + len(body)):
            return
        key = (body, reason, entry.identifier, 0)
        self.put(op, admin, Entry(key, 120 + len(body), 3, entry.durable, body=body, sent=self.now))

    def keep_copy(self, op: Op, queue: Q, entry: Entry, reason: int) -> None:
        if self.room(queue, entry.size):
            copy = entry.copy(key=(*entry.key[:3], reason), aborts=0, stored_aborts=0, moves=0, aborts_known=True)
            self.put(op, queue, copy)

    # Out of queues

    def hold(self, op: Op, entry: Entry) -> None:
        op.actions.append(("hold", entry, entry.holder, entry.state))
        entry.state, entry.holder = "held", op

    def do_hold(self, entry: Entry, holder: object, state: str) -> None:
        pass

    def undo_hold(self, entry: Entry, holder: object, state: str) -> None:
        entry.holder = holder
        if state == "available":
            entry.again = int(self.now) + 1
            if not entry.purged:
                self.show(entry)

    def remove(self, op: Op, entry: Entry, reason: int) -> None:
        self.hold(op, entry)
        op.waits_for_store |= entry.durable
        self.follow(op, entry, reason)
        op.actions.append(("remove", entry))

    def do_remove(self, entry: Entry) -> None:
        entry.state = "gone"
        self.entries.remove(entry)

    def follow(self, op: Op, entry: Entry, reason: int) -> None:
        queue = entry.queue
        if queue.system:
            return
        if reason == RECEIVED and queue.main.journaling and queue.main.journal is not None:
            self.keep_copy(op, queue.main.journal, entry, 0)
        if queue.kind == "outgoing" and reason in (ARRIVED, RECEIVED):
            if entry.journal and reason == ARRIVED:
                self.keep_copy(op, self.queues["system$;JOURNAL"], entry, 0)
            return
        self.acknowledge(op, entry, reason)
        deliberate = reason in (PURGED, QUEUE_DELETED) and not entry.in_transaction
        if reason != RECEIVED and entry.dead_letter and not deliberate:
            name = "system$;DEADXACT" if entry.in_transaction else "system$;DEADLETTER"
            self.keep_copy(op, self.queues[name], entry, reason)

    def release(self, entry: Entry) -> None:
        entry.holder, entry.shown = None, False
        if entry.purged or self.overdue(entry):
            op = Op()
            self.leave(op, entry)
            self.submit(op)
        else:
            self.show(entry)

    def leave(self, op: Op, entry: Entry) -> None:
        """It was purged or is late, and nobody holds it."""
        entry.state = "available"
        self.remove(op, entry, self.purge_reason(entry.queue) if entry.purged else self.late_reason(entry))

    def purge_reason(self, queue: Q) -> int:
        return PURGED_OUTGOING if queue.kind == "outgoing" else PURGED

    def late_reason(self, entry: Entry) -> int:
        if entry.queue.kind != "outgoing":
            return NOT_RECEIVED
        return NOT_RECEIVED_AT_SENDER if entry.time_to_be_received < entry.time_to_reach_queue else LATE

    def move_in(self, op: Op, entry: Entry, target: Q) -> None:
        self.hold(op, entry)
        moved = entry.copy(queue=target, state="staged", moving=True, aborts=0, stored_aborts=0, aborts_known=True,
                           moves=entry.moves + 1, lookup_id=entry.lookup_id)
        op.waits_for_store = True
        self.entries.append(moved)
        op.actions.append(("move", entry, moved))

    def do_move(self, entry: Entry, moved: Entry) -> None:
        self.do_remove(entry)
        moved.moving = False
        self.show(moved)

    def undo_move(self, entry: Entry, moved: Entry) -> None:
        self.entries.remove(moved)
