"""The process that the crash tests kill: a mixed, seeded load on an embedded queue manager.

    python -m tests.faults.workload DIRECTORY SEED RUN [OPERATIONS]

Every event is one line of JSON on standard output, written in one call: the intent before an operation starts,
and "ok" (or "no", when it was refused) after its answer. What was intended and not answered may have happened
or not; ledger.py holds the queue manager to everything else. Every message has a body of its own.

Without OPERATIONS the load runs until it is killed. With --serve it forks one bounded load for each job that it
reads from standard input, with the file faults of that job: see test_power_cuts.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

import lior.aio
from lior.errors import LiorError, MessageStorageFailed, ServiceNotAvailable, StoreUnusable
from lior.message import Acknowledgements, Message
from lior.server.local import LocalBackend
from lior.testing.faulty_files import FaultyFiles

PLAIN: Final = (r".\private$\plain", r".\private$\urgent")
TRANSACTIONAL: Final = (r".\private$\first", r".\private$\second", r".\private$\third")
BIN: Final = r".\private$\bin"  # purged now and then; no journal
ADMIN: Final = r".\private$\admin"  # acknowledgements; nobody reads it before the end
LATER: Final = "later"  # a subqueue
TASKS: Final = 12
RUN_NUMBERS: Final = 1_000_000  # of operations and bodies in one run
DEFECT: Final = 70  # exit status: an error that is not of lior.errors

T = TypeVar("T")


class Stop(Exception):
    """The store is unusable: this run is over."""


class Workload:
    def __init__(self, qm: lior.aio.QueueManager, seed: int, run: int, operations: int, out: int) -> None:
        self.qm = qm
        self.run = run
        self._left = operations
        self._out = out
        self._last = run * RUN_NUMBERS
        self._chance = Random(seed * 7919 + run)
        assert isinstance(qm.backend, LocalBackend)
        self._backend = qm.backend

    def say(self, **event: Any) -> None:
        os.write(self._out, json.dumps(event).encode() + b"\n")

    def number(self) -> int:
        self._last += 1
        return self._last

    async def sure(self, op: int, answer: Awaitable[T]) -> T | None:
        """Await an answer and report it; None when the operation was refused."""
        try:
            result = await answer
        except LiorError as error:
            self.say(e="no", op=op, error=type(error).__name__, maybe=isinstance(error, StoreUnusable))
            if isinstance(error, StoreUnusable) or self._backend.engine.broken is not None:
                raise Stop from error
            return None
        self.say(e="ok", op=op, **seen(result))
        return result

    # Starting

    async def prepare(self) -> None:
        in_doubt = [t["identifier"] for t in await self.qm.transactions() if t["state"] == "prepared"]
        self.say(e="open", run=self.run, in_doubt=in_doubt)
        for path in (*PLAIN, *TRANSACTIONAL, BIN, ADMIN):
            if not await self.qm.exists(path):
                journal = path not in (BIN, ADMIN)
                limit = 3 if path == TRANSACTIONAL[1] else None
                await self.qm.create_queue(
                    path, transactional=path in TRANSACTIONAL, journaling=journal, max_aborts=limit
                )
        for identifier in in_doubt:
            if self._chance.random() < 0.7:
                await self._decide(UUID(identifier))

    async def _decide(self, identifier: UUID) -> None:
        how = self._chance.choice(("commit", "abort"))
        op = self.number()
        self.say(e="decide", op=op, tx=str(identifier), how=how)
        await self.sure(op, self._end(identifier, how))

    def _end(self, identifier: UUID, how: str) -> Awaitable[None]:
        return self._backend.commit(identifier) if how == "commit" else self._backend.abort(identifier)

    # The load

    async def load(self) -> None:
        tasks = [asyncio.create_task(self._task(Random(self._chance.random()))) for _ in range(TASKS)]
        try:
            await asyncio.gather(*tasks)
        except Stop:
            self.say(e="stopped")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _task(self, chance: Random) -> None:
        kinds: list[tuple[Callable[[Random], Awaitable[None]], int]] = [
            (self._send, 34), (self._take, 14), (self._take_named, 6), (self._transaction, 24),
            (self._two_phase, 8), (self._move, 6), (self._fill_bin, 6), (self._purge, 2),
        ]
        steps, weights = [kind for kind, _ in kinds], [weight for _, weight in kinds]
        while self._left:
            self._left -= 1
            try:
                await chance.choices(steps, weights)[0](chance)
            except ServiceNotAvailable:  # another task's operation broke the store: nothing was begun
                raise Stop from None

    def _message(self, chance: Random, **given: Any) -> tuple[Message, dict[str, Any]]:
        """A message and what the ledger has to know of it."""
        body = f"m{self.number()}"
        acknowledged = chance.random() < 0.2
        message = Message(
            body=body.encode() + b" " * chance.choice((0, 30, 3000)),
            label=body,
            priority=chance.randrange(8),
            delivery_guarantee=1,
            negative_journaling_requested=True,
            **given,
        )
        if acknowledged:
            message.administration_queue = rf"DIRECT=OS:{ADMIN}"
            message.acknowledgements_requested = Acknowledgements.FULL_REACH_QUEUE | Acknowledgements.FULL_RECEIVE
        return message, {"body": body, "acks": acknowledged}

    async def _send(self, chance: Random) -> None:
        queue = chance.choice((*PLAIN, PLAIN[0], *TRANSACTIONAL))
        message, about = self._message(chance)
        if chance.random() < 0.15:
            message.time_to_be_received = 1
            about["expires"] = True
        elif queue in PLAIN and chance.random() < 0.2:
            message.delivery_guarantee = 0
            about["express"] = True
        op = self.number()
        self.say(e="send", op=op, queue=queue, **about)
        await self.sure(op, self.qm.send(queue, message))

    async def _fill_bin(self, chance: Random) -> None:
        message, about = self._message(chance)
        op = self.number()
        self.say(e="send", op=op, queue=BIN, **about)
        await self.sure(op, self.qm.send(BIN, message))

    async def _purge(self, chance: Random) -> None:
        op = self.number()
        self.say(e="purge", op=op, queue=BIN)
        await self.sure(op, self.qm.purge_queue(BIN))

    async def _take(self, chance: Random) -> None:
        queue = chance.choice((*PLAIN, *TRANSACTIONAL))
        async with await self.qm.open_queue(queue) as q:
            op = self.number()
            self.say(e="take", op=op, queue=queue)
            await self.sure(op, q.receive(chance.choice((0, 0, 0.01, 0.05))))

    async def _peeked(self, q: lior.aio.Queue, chance: Random) -> Message | None:
        """One of the first messages."""
        wanted = chance.randrange(5)
        found: Message | None = None
        async for message in q:
            found = message
            if not wanted:
                break
            wanted -= 1
        return found

    async def _take_named(self, chance: Random) -> None:
        queue = chance.choice((*PLAIN, *TRANSACTIONAL, PLAIN[0] + ";" + LATER))
        async with await self.qm.open_queue(queue) as q:
            message = await self._peeked(q, chance)
            if message is None:
                return
            op = self.number()
            self.say(e="take", op=op, queue=queue, body=message.label)
            await self.sure(op, q.receive_by_lookup_id(message.lookup_identifier))

    async def _move(self, chance: Random) -> None:
        queue = chance.choice((PLAIN[0], *TRANSACTIONAL))
        back = chance.random() < 0.4
        async with await self.qm.open_queue(f"{queue};{LATER}" if back else queue) as q:
            message = await self._peeked(q, chance)
            if message is None:
                return
            op = self.number()
            self.say(e="move", op=op, body=message.label)
            await self.sure(op, q.move(message, "" if back else LATER))

    # Transactions

    async def _part(self, chance: Random, op: int, identifier: UUID) -> None:
        """One send, receive or move of a transaction. Refusals leave nothing behind."""
        queue = chance.choice(TRANSACTIONAL)
        kind = chance.choice(("send", "send", "receive", "receive", "move"))
        if kind == "send":
            message, about = self._message(chance)
            handle = await self._backend.open(f"DIRECT=OS:{queue}", 0x02, False)
            await self._backend.send(handle, message, identifier)
            await self._backend.close_handle(handle)
            self.say(e="part", op=op, do="send", queue=queue, **about)
            return
        async with await self.qm.open_queue(queue) as q:
            if kind == "receive":
                taken = await self._backend.receive(q.handle, 0, transaction=identifier)
                self.say(e="part", op=op, do=kind, queue=queue, **seen(taken))
                return
            message_there = await self._peeked(q, chance)
            if message_there is None:
                return
            target = await self._backend.open(f"DIRECT=OS:{queue};{LATER}", 0x04, False)
            await self._backend.move(q.handle, message_there.lookup_identifier, target, identifier)
            await self._backend.close_handle(target)
            self.say(e="part", op=op, do=kind, queue=queue, **seen(message_there))

    async def _parts(self, chance: Random, op: int, identifier: UUID) -> None:
        for _ in range(chance.randrange(1, 5)):
            try:
                await self._part(chance, op, identifier)
            except StoreUnusable as error:
                raise Stop from error
            except LiorError as error:
                self.say(e="refused", op=op, error=type(error).__name__)
                if self._backend.engine.broken is not None:
                    raise Stop from error

    async def _transaction(self, chance: Random) -> None:
        op = self.number()
        identifier = await self._begin(op)
        await self._parts(chance, op, identifier)
        how = "commit" if chance.random() < 0.75 else "abort"
        self.say(e="ending", op=op, how=how)
        await self.sure(op, self._end(identifier, how))

    async def _begin(self, op: int, *, single_phase: bool = True) -> UUID:
        try:
            identifier = self._backend.manager.begin(single_phase=single_phase).identifier
        except LiorError as error:
            raise Stop from error
        self.say(e="begin", op=op, tx=str(identifier))
        return identifier

    async def _two_phase(self, chance: Random) -> None:
        op = self.number()
        identifier = await self._begin(op, single_phase=False)
        await self._parts(chance, op, identifier)
        self.say(e="preparing", op=op)
        try:
            await self._backend.engine.call(self._backend.manager.prepare, identifier)
        except LiorError as error:
            if isinstance(error, StoreUnusable) or self._backend.engine.broken is not None:
                raise Stop from error
            self.say(e="refused", op=op, error=type(error).__name__)  # it is active still
            self.say(e="ending", op=op, how="abort")
            await self.sure(op, self._end(identifier, "abort"))
            return
        self.say(e="prepared", op=op)
        how = chance.choice(("commit", "commit", "abort", ""))
        if how:
            self.say(e="ending", op=op, how=how)
            await self.sure(op, self._end(identifier, how))


def seen(result: Any) -> dict[str, Any]:
    """What an answer tells the ledger."""
    if isinstance(result, Message):
        return {"body": result.label, "id": str(result.identifier), "lookup": result.lookup_identifier}
    return {} if result is None else {"id": str(result)}


async def run(directory: str, seed: int, number: int, operations: int, out: int) -> None:
    try:
        async with lior.aio.open(directory) as qm:
            work = Workload(qm, seed, number, operations, out)
            try:
                await work.prepare()
                await work.load()
            except Stop:
                work.say(e="stopped")
        work.say(e="closed")
    except (StoreUnusable, MessageStorageFailed) as error:  # while it was opened, set up or closed
        os.write(out, json.dumps({"e": "unusable", "error": type(error).__name__, "what": str(error)}).encode() + b"\n")


def serve() -> None:
    """Fork a bounded load for each job: ten times faster than an interpreter each."""
    for line in sys.stdin:
        job = json.loads(line)
        files = FaultyFiles(job["directory"], **job["faults"])
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            status = DEFECT
            try:
                os.close(reader)
                files.start_here()
                asyncio.run(run(job["directory"], job["seed"], job["run"], job["operations"], writer))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read().splitlines()
        _, status = os.waitpid(pid, 0)
        answer = {"status": os.waitstatus_to_exitcode(status), "said": said, "calls": files.calls()}
        print(json.dumps(answer), flush=True)
        files.remove()


if __name__ == "__main__":
    logging.getLogger("lior").addHandler(logging.NullHandler())  # failed commits are this load's daily bread
    if sys.argv[1] == "--serve":
        serve()
    else:
        limit = int(sys.argv[4]) if len(sys.argv) > 4 else -1
        asyncio.run(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), limit, 1))
