"""Subscriptions: a durable claim log over queues, for readers that keep their place elsewhere.

A reader claims messages, reads them as often as it must, and releases them when what it made of them is safe. Claimed
messages are out of everybody's sight, over restarts too, and cannot expire, be purged or be deleted with their queue:
who reads a range of ordinals again sees the same messages. A position in the queue would not do: messages of a higher
priority, of transactions that end late and of readers that give back come in before it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby, islice
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from lior.errors import (
    ClaimBusy,
    ClaimFenced,
    InvalidParameter,
    LiorError,
    MessageNotFound,
    NoSubscription,
    UnsupportedOperation,
)
from lior.queues.access import Access
from lior.queues.change import Change, Nobody, Reply
from lior.queues.claim_log import CLAIMS, SUBSCRIPTION, Claim, ClaimLog, Definition, Row, check_options
from lior.queues.core import Core
from lior.queues.definition import QueueType
from lior.queues.descriptor import QueueAccessType
from lior.queues.moving import POISON, Moving
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteState, LoadedState, PutMessage, SetCounts
from lior.queues.position import Position
from lior.queues.queue import Queue
from lior.queues.releasing import Releasing
from lior.queues.removal import Removal
from lior.security import Caller

CHUNK: Final = 1024  # messages given back in one change
MOST: Final = 256  # subscriptions
LONGEST_NAME: Final = 64


class Subscriptions:
    def __init__(self, core: Core, access: Access, removal: Removal, moving: Moving) -> None:
        self._core = core
        self._access = access
        self._removal = removal
        self._moving = moving
        self._releasing = Releasing(core, removal)
        self._logs: dict[str, ClaimLog] = {}

    def __iter__(self) -> Iterator[ClaimLog]:
        return iter(list(self._logs.values()))

    # At start

    def restore(self, state: LoadedState, change: Change) -> None:
        rows: dict[str, list[Row]] = {}
        for (kind, key), value in state.state.items():
            if kind == SUBSCRIPTION:
                self._logs[key] = ClaimLog(Definition.from_bytes(value))
            elif kind == CLAIMS:
                rows.setdefault(key.rpartition("/")[0], []).append(Row.from_bytes(value))
        for name, log in self._logs.items():
            for row in sorted(rows.get(name, ()), key=lambda each: each.first):
                log.adopt(row)
                for claim in row.claims(log.definition.gone + 1, row.last):
                    queue = self._core.queues.get(claim.queue_id)
                    if queue is None or claim.lookup_id not in queue.available:
                        log.rejected([claim])  # released, or repaired away
                    else:
                        queue.claim(claim.lookup_id)

    # Names

    def find(self, name: str) -> ClaimLog:
        found = self._logs.get(name.casefold())
        if found is None:
            raise _not_found(name)
        return found

    def _fenced(self, name: str, epoch: UUID) -> ClaimLog:
        """Only who knows the epoch acts for the subscription: a reader that was replaced does not."""
        log = self.find(name)
        if log.epoch != epoch:
            raise ClaimFenced(f"another reader has taken over the subscription {log.name}", where=log.name,
                              remedy="stop this reader, or take over again with startingPosition=takeover")
        log.definition.touched = self._core.clock.wall()
        return log

    def subscribe(
        self, name: str, queues: Sequence[Queue], caller: Caller, reply: Reply, *, takeover: bool = False,
        **options: Any,
    ) -> None:
        """Make the subscription, or take it over. Answers its log. Who resumes one names its epoch instead."""
        self._core.require_service()
        _check_name(name)
        check_options(options)
        self._check_queues(queues, caller)
        ids = [queue.queue_id for queue in queues]
        log = self._logs.get(name.casefold())
        if log is not None:
            self._take_over(log, ids, takeover, reply)
            return
        if len(self._logs) >= MOST:
            raise InvalidParameter(f"there are {MOST} subscriptions", where=name,
                                   remedy="abandon those that are not used: lior subscription list")
        now = self._core.clock.wall()
        log = ClaimLog(Definition(name, str(self._core.ids.guid()), ids, created=now, touched=now, **options))
        self._logs[name.casefold()] = log
        change = Change()
        change.operations.append(log.definition.record())
        for queue in queues:
            if not queue.persisted:
                change.operations.append(queue.definition())
                change.then(queue.mark_persisted)
        change.otherwise(self._forget, name)
        change.answer(reply, log)
        self._core.submit(change)

    def _forget(self, name: str) -> None:
        self._logs.pop(name.casefold(), None)

    def _take_over(self, log: ClaimLog, queues: list[int], takeover: bool, reply: Reply) -> None:
        if queues != log.definition.queues:
            raise InvalidParameter("the subscription is over other queues", where=log.name,
                                   remedy="use another name, or abandon it: lior subscription abandon")
        if not takeover:
            raise ClaimFenced("the subscription has a reader already", where=log.name,
                              remedy="resume from that reader's checkpoint, or use startingPosition=takeover")
        self._new_epoch(log, reply)

    def _new_epoch(self, log: ClaimLog, reply: Reply) -> None:
        before = log.definition.epoch
        log.definition.epoch = str(self._core.ids.guid())
        change = Change()
        change.operations.append(log.definition.record())
        change.otherwise(setattr, log.definition, "epoch", before)
        change.answer(reply, log)
        self._core.submit(change)

    def _check_queues(self, queues: Sequence[Queue], caller: Caller) -> None:
        if not queues or len({queue.queue_id for queue in queues}) != len(queues):
            raise InvalidParameter("a subscription is over one queue or several different ones", where="queues")
        for queue in queues:
            if isinstance(queue, OutgoingQueue) or queue.kind is QueueType.SUBQUEUE:
                raise UnsupportedOperation("messages on their way and subqueues are not claimed", where=queue.name)
            self._access.check_open(caller, queue, QueueAccessType.RECEIVE)

    # Claim

    def claim(self, name: str, epoch: UUID, start: int, max_rows: int, max_bytes: int, reply: Reply) -> None:
        """Claim what comes next, in priority order. Answers the last ordinal. What was claimed beyond `start` before
        is answered first, and nothing is added to it: whoever claimed it did not get to write that down."""
        self._core.require_service()
        log = self._fenced(name, epoch)
        definition = log.definition
        if not definition.released <= start <= definition.last:
            raise InvalidParameter(f"the ordinal {start} is not between {definition.released} and {definition.last}",
                                   where=log.name, remedy="the checkpoint is of another subscription, or too old")
        self._require_idle(log)
        if definition.last > start:
            reply.set_result(definition.last)
            return
        rows = min(max_rows, definition.max_rows - log.count)
        room = min(max_bytes, definition.max_bytes - log.bytes)
        taken = self._choose(definition, rows, room) if rows > 0 and room > 0 else []
        if not taken:
            reply.set_result(definition.last)
            return
        self._stage_claims(log, taken, reply)

    def _choose(self, definition: Definition, rows: int, room: int) -> list[tuple[Queue, int, int]]:
        """The first messages of all queues together, as many as may be; one at least, however large."""
        found: list[tuple[Queue, int, int]] = []
        queues = [q for q in map(self._core.queues.get, definition.queues) if q is not None and not q.deleted]
        heads = [self._head(queue, rows, definition.store_express) for queue in queues]
        for lookup_id, size, queue in islice(heapq.merge(*heads, key=lambda each: each[0]), rows):
            room -= size
            if room < 0 and found:
                break
            found.append((queue, lookup_id, size))
        return found

    def _head(self, queue: Queue, rows: int, express: bool) -> list[tuple[int, int, Queue]]:
        ids = queue.available.head(rows)
        if not ids:
            return []
        sizes = dict(self._core.store.sizes(queue.queue_id, ids[0], ids[-1]))
        head: list[tuple[int, int, Queue]] = []
        for lookup_id in ids:
            position = queue.positions.get(lookup_id)
            if position is not None and (position.stored or express):
                head.append((lookup_id, position.size, queue))
            elif position is None and lookup_id in sizes:
                head.append((lookup_id, sizes[lookup_id], queue))
        return head

    def _stage_claims(self, log: ClaimLog, taken: list[tuple[Queue, int, int]], reply: Reply) -> None:
        change = Change()
        before, definition = log.definition.last, log.definition
        undo: list[tuple[Queue, int, Position | None]] = []
        change.otherwise(self._not_claimed, log, before, undo)
        for queue, lookup_id, _ in taken:
            position = queue.claim(lookup_id)
            express = position is not None and not position.stored
            undo.append((queue, lookup_id, position if express else None))
            if position is not None and express:  # it has to outlive a restart now
                change.operations.append(PutMessage(
                    queue.queue_id, lookup_id, position.message, position.arrival_time, position.expires,
                    position.abort_count, position.move_count, position.last_move_time))
        rows = log.extend([(queue.queue_id, lookup_id, size) for queue, lookup_id, size in taken])
        definition.last = rows[-1].last
        log.busy = True
        change.operations += [row.record(log.name) for row in rows]
        change.operations.append(definition.record())
        change.then(self._claimed, log, rows)
        change.answer(reply, definition.last)
        self._core.submit(change)

    def _claimed(self, log: ClaimLog, rows: list[Row]) -> None:
        log.busy = False
        for row in rows:
            log.adopt(row)

    def _not_claimed(self, log: ClaimLog, before: int, taken: list[tuple[Queue, int, Position | None]]) -> None:
        log.busy = False
        log.definition.last = before
        for queue, lookup_id, position in taken:
            if position is None:
                position = queue.claimed_positions([lookup_id], self._core.store)[0]
            self._give_back(position)

    def _give_back(self, position: Position) -> None:
        queue = position.queue
        queue.claimed.discard(position.lookup_id)
        if position.expires:  # its time went on, and nobody looked at it
            self._core.expiries.add(position.expires, queue.queue_id, position.lookup_id)
        self._removal.release(position)

    # Plan

    def plan(self, name: str, start: int, end: int, parts: int, part_bytes: int = 0) -> list[int]:
        """Ordinals at which ranges of about the same size end: `parts` of them, or more if they would have more than
        `part_bytes` each; at least one, at most one for each message."""
        log = self.find(name)
        ranges = [part for row in log.rows if row.last > start and row.first <= end
                  and (part := row.part(start, end)).ends]  # fmt: skip
        befores = [0, *accumulate(part.ends[-1] for part in ranges)]
        total, cuts = befores[-1], list[int]()
        parts = min(max(parts, -(-total // part_bytes) if part_bytes else 1, 1), sum(len(part.ends) for part in ranges))
        for share in range(1, parts):
            wanted = -(-total * share // parts)
            at = min(bisect_left(befores, wanted) - 1, len(ranges) - 1)
            ordinal = ranges[at].ordinals[bisect_left(ranges[at].ends, wanted - befores[at])]
            if ordinal < end and (not cuts or ordinal > cuts[-1]):
                cuts.append(ordinal)
        return [*cuts, end] if end > start else []

    # Release, reject, abandon

    def release(self, name: str, epoch: UUID, ordinal: int, reply: Reply, *, wait: bool = True) -> None:
        """Everything up to `ordinal` is received: journals, acknowledgements and counts as for any receive. Without
        `wait` the answer comes when it is sure, and not only when it is done."""
        self._core.require_service()
        log = self._fenced(name, epoch)
        if ordinal > log.definition.last:
            raise InvalidParameter(f"the ordinal {ordinal} was not claimed yet", where=log.name,
                                   remedy="the checkpoint is of another subscription")
        self._releasing.release(log, ordinal, reply, wait=wait)

    def resume(self) -> None:
        """Releases that were under way when the queue manager ended."""
        for log in self:
            if log.definition.gone < log.definition.released:
                self._releasing.resume(log, Nobody())

    def _positions(self, claims: Sequence[Claim]) -> list[Position]:
        """In runs of one queue each, as they were claimed."""
        found: list[Position] = []
        for queue_id, run in groupby(claims, key=attrgetter("queue_id")):
            queue = self._core.queues.get(queue_id)
            if queue is not None:
                found += queue.claimed_positions([claim.lookup_id for claim in run], self._core.store)
        return found

    def reject(self, name: str, epoch: UUID, ordinals: Sequence[int], reply: Reply) -> None:
        """Messages that nobody can use: to the subqueue `poison`, where an operator finds them. Answers how many."""
        self._core.require_service()
        log = self._fenced(name, epoch)
        self._require_idle(log)
        claims = [self._claim_of(log, ordinal) for ordinal in sorted(set(ordinals))]
        change = Change()
        for position in self._positions(claims):
            self._moving.stage(change, position, self._moving.subqueue(position.queue, POISON))
        for first in sorted({row.first for claim in claims if (row := log.row_of(claim.ordinal))}):
            row = log.row_of(first)
            assert row is not None
            change.operations.append(row.without({claim.ordinal for claim in claims}).record(log.name))
        change.then(log.rejected, claims)
        change.answer(reply, len(claims))
        self._core.submit(change)

    def _claim_of(self, log: ClaimLog, ordinal: int) -> Claim:
        row = log.row_of(ordinal)
        found = next(iter(() if row is None else row.claims(ordinal, ordinal)), None)
        queue = None if found is None else self._core.queues.get(found.queue_id)
        if found is None or queue is None or ordinal <= log.definition.released:
            raise MessageNotFound(f"no message is claimed with the ordinal {ordinal}", where=log.name,
                                  remedy="reject before the release")
        if queue.is_system:
            raise UnsupportedOperation("a journal has no subqueue to put rejected messages into", where=queue.name)
        return found

    def abandon(self, name: str, reply: Reply, *, forget: bool = True) -> None:
        """Give everything back to the queues. The reader, if there is one, is locked out."""
        self._core.require_service()
        log = self.find(name)
        self._require_idle(log)
        if log.window is not None:
            raise ClaimBusy("a release goes on", where=log.name, remedy="try again when it is done")
        if log.definition.gone < log.definition.released:  # one that failed: what was released is not given back
            self._releasing.resume(log, _Then(reply, partial(self._abandon_rest, log, forget, reply)))
        else:
            self._abandon_rest(log, forget, reply)

    def _abandon_rest(self, log: ClaimLog, forget: bool, reply: Reply) -> None:
        log.busy = True
        log.definition.epoch = str(self._core.ids.guid())
        self._abandon_some(log, forget, reply)

    def _abandon_some(self, log: ClaimLog, forget: bool, reply: Reply) -> None:
        """In steps. Each leaves a subscription with fewer claims on disk."""
        definition = log.definition
        some = list(islice(log.between(definition.released, definition.last), CHUNK))
        try:
            positions = self._positions(some)
        except LiorError as error:
            log.busy = False
            reply.set_exception(error)
            return
        change = Change()
        change.otherwise(self._not_abandoned, log, definition.released)
        for position in positions:
            change.operations.append(
                SetCounts(position.queue.queue_id, position.lookup_id, position.abort_count + 1))
        self._stage_end(change, log, some, some[-1].ordinal if len(some) == CHUNK else definition.last)
        if forget and definition.released == definition.last:
            change.operations.append(DeleteState(SUBSCRIPTION, log.name.casefold()))
        change.then(self._abandoned_some, log, positions, forget, reply)
        change.refuse(reply)
        self._core.submit(change)

    def _stage_end(self, change: Change, log: ClaimLog, claims: list[Claim], to: int) -> None:
        """Claims up to `to` end with this change."""
        log.definition.released = to
        change.operations.append(log.definition.record(gone=to))
        change.operations += [DeleteState(CLAIMS, row.key(log.name)) for row in log.rows if row.last <= to]
        change.then(log.left, len(claims), sum(claim.size for claim in claims))
        change.then(log.ended, to)

    def _not_abandoned(self, log: ClaimLog, before: int) -> None:
        log.definition.released = before
        log.busy = False

    def _abandoned_some(self, log: ClaimLog, given: list[Position], forget: bool, reply: Reply) -> None:
        for position in given:
            position.abort_count += 1
            self._give_back(position)
        if log.definition.released < log.definition.last:
            self._abandon_some(log, forget, reply)
            return
        log.busy = False
        if forget:
            self._forget(log.name)
        if not reply.cancelled():
            reply.set_result(None)

    def _require_idle(self, log: ClaimLog) -> None:
        if log.busy:
            raise ClaimBusy("another call on the subscription is under way", where=log.name,
                            remedy="wait for its answer")

    # Time

    def next_timeout(self) -> float | None:
        """When the first reader has left its claims for too long; None if there is no such time."""
        ends = [end for log in self._logs.values() if (end := log.overdue_at) is not None]
        return min(ends, default=None)

    def give_back_overdue(self) -> None:
        now = self._core.clock.wall()
        for log in list(self._logs.values()):
            end = log.overdue_at
            if end is not None and end <= now:
                self.abandon(log.name, Nobody(), forget=False)

    # What an operator sees

    def figures(self, log: ClaimLog) -> dict[str, Any]:
        definition = log.definition
        queues = [q for q in map(self._core.queues.get, definition.queues) if q is not None]
        return {
            "name": log.name,
            "epoch": definition.epoch,
            "queues": [queue.name for queue in queues],
            "claimed": log.count,
            "claimed_bytes": log.bytes,
            "last": definition.last,
            "released": definition.released,
            "lag": sum(len(queue.available) for queue in queues),
            "created": definition.created,
            "touched": definition.touched,
            "claim_timeout": definition.claim_timeout,
        }


class _Then:
    """What follows if a call succeeds; who waits for it hears of its failure."""

    def __init__(self, reply: Reply, follow: Callable[[], None]) -> None:
        self._reply = reply
        self._follow = follow

    def cancelled(self) -> bool:
        return False

    def set_result(self, value: object, /) -> None:
        self._follow()

    def set_exception(self, error: LiorError, /) -> None:
        self._reply.set_exception(error)


def _check_name(name: str) -> None:
    good = 0 < len(name) <= LONGEST_NAME and all(c.isalnum() or c in "-_." for c in name)
    if not good:
        raise InvalidParameter(f"{name!r:.100} is no name of a subscription", where="subscription",
                               remedy=f"use at most {LONGEST_NAME} letters, digits, - _ and .")


def _not_found(name: str) -> LiorError:
    return NoSubscription(f"there is no subscription {name!r:.100}", where="subscription",
                          remedy="see: lior subscription list")

