"""The crash tests' oracle: what the children of workload.py said, against what is in the data directory.

An operation that was answered has happened; one that was refused has not; one that was under way when the
child died has happened whole or not at all. Every queue of the load but the bin keeps a journal, so each
durable message that ever was is in exactly one place: its queue or subqueue, the journal if somebody took it,
or the dead letters if it expired. That place tells what became of the unanswered operations.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

import lior.aio
from lior.client.message import ReceivedMessage
from lior.message import MessageClass, ObjectId
from tests.faults.workload import ADMIN, BIN, LATER, PLAIN, TRANSACTIONAL

QUEUE, SUBQUEUE, JOURNAL, DEAD = "queue", "subqueue", "journal", "dead letters"
SEQUENCE: Final = (1 << 56) - 1  # of a lookup id: what never repeats
DEAD_LETTERS: Final = (r".\system$;DEADLETTER", r".\system$;DEADXACT")


@dataclass
class Sent:
    body: str
    queue: str
    run: int
    op: int
    acks: bool = False
    express: bool = False
    expires: bool = False
    at: int = 0  # place in the order of events


@dataclass
class Operation:
    """`fate` is None while nobody can know."""

    kind: str
    run: int
    fate: bool | None = None
    queue: str = ""
    body: str = ""  # of a take or move whose message is known
    sends: list[str] = field(default_factory=list)
    takes: list[str] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    tx: str = ""
    stage: str = "active"  # of a transaction: active, preparing, prepared, commit, abort
    two_phase: bool = False
    begun: int = 0
    ended: int = 0


class Place(dict[str, list[tuple[str, str, ReceivedMessage]]]):
    """Where each body was found: (kind, queue, message)."""


class Ledger:
    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.operations: dict[int, Operation] = {}
        self.aliases: dict[int, Operation] = {}  # decisions on transactions of earlier runs
        self.transactions: dict[str, Operation] = {}
        self.identifiers: dict[str, str] = {}  # message identifier to body
        self.lookups: dict[int, tuple[str, str]] = {}  # sequence to body and kind of place
        self.faults: list[str] = []
        self.kills = 0
        self._clock = 0
        self._opened = True

    def fault(self, what: str) -> None:
        self.faults.append(what)

    # What the children say

    def read(self, lines: Iterable[str]) -> None:
        """All lines of one run, up to its death."""
        for line in lines:
            event = json.loads(line)
            self._clock += 1
            getattr(self, f"_{event.pop('e')}")(**event)
        for operation in self.operations.values():
            if operation.kind == "transaction" and operation.fate is None and operation.stage == "active":
                operation.fate = False  # never ended, never prepared
            elif operation.stage == "abort" and not operation.two_phase:
                operation.fate = False

    def _open(self, run: int, in_doubt: list[str]) -> None:
        self.run = run
        listed = set(in_doubt)
        for operation in list(self.operations.values()):
            if not operation.two_phase or operation.fate is not None:
                continue
            found = operation.tx in listed
            listed.discard(operation.tx)
            if found:
                operation.stage = "prepared"
            elif operation.stage == "prepared":
                self.fault(f"run {run}: prepared transaction {operation.tx} is not in doubt any more")
            else:  # what was under way when the process died
                operation.fate = operation.stage == "commit"
        for unknown in listed:
            self.fault(f"run {run}: transaction {unknown} is in doubt and should not be")

    def _send(self, op: int, queue: str, body: str, **about: bool) -> None:
        self.sent[body] = Sent(body, queue, self.run, op, at=self._clock, **about)
        self.operations[op] = Operation("send", self.run, queue=queue, sends=[body])

    def _take(self, op: int, queue: str, body: str = "") -> None:
        self.operations[op] = Operation("take", self.run, queue=queue, body=body)

    def _move(self, op: int, body: str) -> None:
        self.operations[op] = Operation("move", self.run, body=body)

    def _purge(self, op: int, queue: str) -> None:
        self.operations[op] = Operation("purge", self.run, queue=queue, begun=self._clock)

    def _begin(self, op: int, tx: str) -> None:
        self.operations[op] = Operation("transaction", self.run, tx=tx)
        self.transactions[tx] = self.operations[op]

    def _part(self, op: int, do: str, queue: str, body: str, id: str = "", lookup: int = 0, **about: bool) -> None:
        transaction = self.operations[op]
        if do == "send":
            self.sent[body] = Sent(body, queue, self.run, op, at=self._clock, **about)
            transaction.sends.append(body)
            return
        self._saw(body, id, lookup)
        (transaction.takes if do == "receive" else transaction.moves).append(body)

    def _refused(self, op: int, error: str) -> None:
        pass

    def _preparing(self, op: int) -> None:
        self.operations[op].two_phase = True
        self.operations[op].stage = "preparing"

    def _prepared(self, op: int) -> None:
        self.operations[op].stage = "prepared"

    def _ending(self, op: int, how: str) -> None:
        operation = self.operations[op]
        operation.two_phase = operation.stage == "prepared"
        operation.stage = how

    def _decide(self, op: int, tx: str, how: str) -> None:
        self.aliases[op] = self.transactions[tx]
        self.transactions[tx].stage = how

    def _ok(self, op: int, id: str = "", body: str = "", lookup: int = 0) -> None:
        operation = self._operation(op)
        operation.fate = operation.stage != "abort"
        operation.ended = self._clock
        if operation.kind == "send":
            self._identified(operation.sends[0], id)
        elif operation.kind == "take":
            if operation.body and operation.body != body:
                self.fault(f"op {op}: asked for {operation.body} by lookup id, got {body}")
            operation.body = body
            self._saw(body, id, lookup)

    def _operation(self, op: int) -> Operation:
        return self.aliases.get(op) or self.operations[op]

    def _no(self, op: int, error: str, maybe: bool) -> None:
        operation = self._operation(op)
        if maybe:
            return
        if operation.kind == "transaction" and operation.two_phase:
            operation.stage = "prepared"
        else:
            operation.fate = False

    def _stopped(self) -> None:
        pass

    def _closed(self) -> None:
        pass

    def _unusable(self, error: str, what: str) -> None:
        pass

    def _identified(self, body: str, identifier: str) -> None:
        if self.identifiers.setdefault(identifier, body) != body:
            self.fault(f"identifier {identifier} is both {self.identifiers[identifier]}'s and {body}'s")

    def _saw(self, body: str, identifier: str, lookup: int, kind: str = QUEUE) -> None:
        sent = self.sent.get(body)
        if sent is None:
            self.fault(f"{body!r} was never sent")
            return
        if sent.express and sent.run != self.run:
            self.fault(f"express message {body} of run {sent.run} came back in run {self.run}")
        self._identified(body, identifier)
        kind = QUEUE if kind == SUBQUEUE else kind
        if self.lookups.setdefault(lookup & SEQUENCE, (body, kind)) != (body, kind):
            self.fault(f"lookup id {lookup:#x} is both {self.lookups[lookup & SEQUENCE]}'s and {(body, kind)}'s")

    # What is there

    async def inspect(self, directory: str | os.PathLike[str]) -> None:
        """Open the directory as the next run would, decide what is in doubt, look everywhere, compare."""
        opened = time.time()
        async with lior.aio.open(directory) as qm:
            in_doubt = [t["identifier"] for t in await qm.transactions() if t["state"] == "prepared"]
            self._open(10**6, in_doubt)
            for number, identifier in enumerate(in_doubt):
                operation = self.transactions[identifier]
                operation.fate = number % 2 == 0
                decide = qm.backend.commit if operation.fate else qm.backend.abort
                await decide(UUID(identifier))
            places, acknowledgements = Place(), list[ReceivedMessage]()
            for name in (*PLAIN, *TRANSACTIONAL, BIN, ADMIN):
                if not await qm.exists(name):
                    continue  # died before it was made
                for path, kind in ((name, QUEUE), (f"{name};{LATER}", SUBQUEUE), (f"{name};poison", SUBQUEUE),
                                   (f"{name};JOURNAL", JOURNAL)):
                    found = await self._look(qm, path)
                    if name == ADMIN:
                        acknowledgements += found
                        continue
                    for message in found:
                        self._place(places, kind, path, message)
                        if kind != JOURNAL and message.time_to_be_received < 10 and (
                                message.sent_time + message.time_to_be_received + 1 < opened):
                            self.fault(f"{message.label} expired before the start and is in {path}")
            for path in DEAD_LETTERS:
                for message in await self._look(qm, path):
                    self._place(places, DEAD, path, message)
            await self._recount(qm)
        self._compare(places)
        self._compare_bin(places)
        self._compare_acknowledgements(places, acknowledgements)

    async def _look(self, qm: lior.aio.QueueManager, path: str) -> list[ReceivedMessage]:
        async with await qm.open_queue(path, "peek") as queue:
            return [message async for message in queue]

    def _place(self, places: Place, kind: str, path: str, message: ReceivedMessage) -> None:
        body = message.body.decode().rstrip()
        if body != message.label:
            self.fault(f"{path}: body {body[:40]!r} has the label {message.label!r}")
        self._saw(body, message.id, message.lookup_identifier, kind)
        places.setdefault(body, []).append((kind, path, message))

    async def _recount(self, qm: lior.aio.QueueManager) -> None:
        """The queue manager's figures against a count of what its queues show."""
        in_queues = in_journals = 0
        for info in await qm.queues():
            messages = await self._look(qm, info.format_name)
            counted = (len(messages), sum(message.size for message in messages))
            if (info.messages, info.bytes) != counted:
                self.fault(f"{info.path}: says {info.messages}, {info.bytes} bytes; counted {counted}")
            if info.kind == "system":
                in_journals += counted[1]
            else:
                in_queues += counted[1]
            if info.kind == "private":
                copies = await self._look(qm, f"{info.path};JOURNAL")
                size = sum(message.size for message in copies)
                in_journals += size
                if (info.journal_messages, info.journal_bytes) != (len(copies), size):
                    self.fault(f"{info.path}: its journal says {info.journal_messages}, counted {len(copies)}")
        figures = await qm.properties()
        if (figures["bytes"], figures["journal_bytes"]) != (in_queues, in_journals):
            self.fault(f"the queue manager says {figures['bytes']} and {figures['journal_bytes']} bytes; "
                       f"counted {in_queues} and {in_journals}")

    def _compare(self, places: Place) -> None:
        taken, maybe_taken = Counter[str](), Counter[str]()
        for operation in self.operations.values():
            bodies = operation.takes if operation.kind == "transaction" else [operation.body]
            if operation.kind in ("take", "transaction") and operation.fate is not False:
                (taken if operation.fate else maybe_taken).update(body for body in bodies if body)
        for body, times in taken.items():
            if times > 1:
                self.fault(f"{body} was received {times} times")
        unexplained = Counter[str]()
        for body, sent in self.sent.items():
            if sent.queue == BIN or sent.express:  # _compare_bin; _saw watches that no express one comes back
                continue
            self._compare_message(sent, places.get(body, []), received=bool(taken[body]))
            kinds = [kind for kind, *_ in places.get(body, ())]
            if JOURNAL in kinds and not taken[body] and not maybe_taken[body]:
                unexplained[sent.queue] += 1
        self._compare_transactions(places, taken, maybe_taken, unexplained)
        self._compare_journals(unexplained)

    def _compare_message(
        self, sent: Sent, found: list[tuple[str, str, ReceivedMessage]], *, received: bool
    ) -> None:
        body, kinds = sent.body, [kind for kind, *_ in found]
        where = ", ".join(path for _, path, _ in found) or "nowhere"
        fate = self.operations[sent.op].fate
        if len(found) > 1:
            self.fault(f"{body} is there {len(found)} times: {where}")
        if fate is True and not found:
            self.fault(f"{body} was acknowledged and is nowhere (sent to {sent.queue} in run {sent.run})")
        if fate is False and found:
            self.fault(f"{body} was never committed and is in {where}")
        if received and kinds != [JOURNAL]:
            self.fault(f"{body} was received and is in {where}, not in the journal")
        if DEAD in kinds and not sent.expires:
            self.fault(f"{body} is a dead letter")
        if DEAD in kinds and found[0][2].failure_reason != MessageClass.NACK_RECEIVE_TIMEOUT:
            self.fault(f"{body} is a dead letter for the reason {found[0][2].failure_reason:#x}")

    def _compare_journals(self, unexplained: Counter[str]) -> None:
        """A journal copy that nobody was told of can only be of a receive that was under way at a death."""
        open_takes = Counter(operation.queue for operation in self.operations.values()
                             if operation.kind == "take" and operation.fate is None and not operation.body)
        for queue, count in unexplained.items():
            if count > open_takes[queue]:
                self.fault(f"{queue}: {count} messages were taken and handed to nobody; "
                           f"{open_takes[queue]} receives were under way at a death")

    def _compare_transactions(
        self, places: Place, taken: Counter[str], maybe: Counter[str], unexplained: Counter[str]
    ) -> None:
        """Unanswered commits: all of their sends and receives, or none."""
        for operation in self.transactions.values():
            if operation.fate is not None:
                continue
            received = {body: any(kind == JOURNAL for kind, *_ in places.get(body, ()))
                        for body in operation.takes if not taken[body] and maybe[body] == 1}
            signs = {bool(places.get(body)) for body in operation.sends}
            if not all(received.values()):
                signs.add(False)
            if len(signs) > 1:
                self.fault(f"transaction {operation.tx} of run {operation.run} is half there")
            elif signs == {False}:  # what it had received went back, and somebody else took it
                unexplained.update(self.sent[body].queue for body, gone in received.items() if gone)
            elif signs and any(taken[body] for body in operation.takes):
                self.fault(f"transaction {operation.tx} committed a receive of what another received")

    def _compare_bin(self, places: Place) -> None:
        purges = [o for o in self.operations.values() if o.kind == "purge" and o.fate is not False]
        last_sure = max((o.begun for o in purges if o.fate), default=0)
        for sent in (sent for sent in self.sent.values() if sent.queue == BIN):
            found, operation = places.get(sent.body, []), self.operations[sent.op]
            if len(found) > 1 or (operation.fate is False and found):
                self.fault(f"{sent.body} is in the bin {len(found)} times")
            if found and operation.fate and operation.ended < last_sure:
                self.fault(f"{sent.body} outlived a purge")
            if not found and operation.fate and not any((o.ended or 1 << 60) > sent.at for o in purges):
                self.fault(f"{sent.body} is gone from the bin, and nobody purged it")

    def _compare_acknowledgements(self, places: Place, acknowledgements: list[ReceivedMessage]) -> None:
        told: dict[str, Counter[int]] = {}
        for ack in acknowledgements:
            identifier = str(ObjectId.from_bytes(ack.correlation_id))
            told.setdefault(self.identifiers.get(identifier, identifier), Counter())[ack.message_class] += 1
        strangers = 0
        for body, classes in told.items():
            if body in self.sent:
                continue
            strangers += 1
            if classes != {MessageClass.ACK_REACH_QUEUE: 1, MessageClass.NACK_Q_PURGED: 1}:
                self.fault(f"acknowledgements {dict(classes)} of {body}, which nobody knows")
        if strangers > sum(o.kind == "send" and o.queue == BIN and o.fate is None for o in self.operations.values()):
            self.fault(f"{strangers} messages that nobody sent were purged")
        for body, sent in self.sent.items():
            if not sent.acks or sent.express or sent.queue == BIN:
                continue
            kinds = {kind for kind, *_ in places.get(body, ())}
            wanted = Counter[int]()
            if kinds:
                wanted[MessageClass.ACK_REACH_QUEUE] = 1
            if JOURNAL in kinds:
                wanted[MessageClass.ACK_RECEIVE] = 1
            if DEAD in kinds:
                wanted[MessageClass.NACK_RECEIVE_TIMEOUT] = 1
            if told.get(body, Counter()) != wanted:
                self.fault(f"{body} in {kinds}: acknowledged as {told.get(body)}, not {wanted}")

    def summary(self) -> str:
        fates = Counter(operation.fate for operation in self.operations.values())
        return (f"{self.kills} kills, {len(self.operations)} operations ({fates[True]} answered, "
                f"{fates[False]} refused or aborted, {fates[None]} unknown), {len(self.sent)} messages, "
                f"{len(self.transactions)} transactions")


def child_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def run_and_kill(directory: Path, seed: int, run: int, *, answers: int = 0, seconds: float = 0.0) -> list[str]:
    """Start a child and kill it after so many answers, or so many seconds after its start."""
    command = [sys.executable, "-m", "tests.faults.workload", os.fspath(directory), str(seed), str(run)]
    child = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True,
                             cwd=Path(__file__).parents[2])
    timer = threading.Timer(seconds, child.send_signal, (signal.SIGKILL,))
    if not answers:
        timer.start()
    said = []
    assert child.stdout is not None
    for line in child.stdout:
        said.append(line)
        answers -= '"e": "ok"' in line
        if not answers:
            child.send_signal(signal.SIGKILL)
    timer.cancel()
    status = child.wait()
    assert status == -signal.SIGKILL, f"run {run} of seed {seed} ended by itself with status {status}"
    return said
