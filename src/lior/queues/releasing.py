"""Releases: claimed messages are received, all that a release names, in bounded steps.

The first step writes down how far the reader is done. From then on nothing is left to him: the other steps follow
whether or not he waits for them, and after a restart, too. Messages go in the order in which they came to the store,
not in that of the claims, which has priorities first: neighbours in the store go together, and each of its pages is
written once instead of once for each priority.

Most messages leave nothing behind them: no journal, no acknowledgement. Of those only the header is looked at. A
damaged record is released, too, and leaves nothing: its reader was handed what is left of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from lior.errors import ClaimBusy, LiorError, StoreCorrupt
from lior.message import NULL_CORRELATION_ID, NULL_GUID, MessageClass
from lior.queues.change import Change, Reply
from lior.queues.claim_log import CLAIMS, ClaimLog
from lior.queues.core import Core
from lior.queues.ports import SEQUENCE_MASK, DeleteMessages, DeleteState, Outline, PutState
from lior.queues.position import Position
from lior.queues.queue import Queue
from lior.queues.removal import Removal

CHUNK: Final = 1024  # messages in one change
LARGE: Final = 256  # of those that are read whole
WINDOW: Final = 32  # rows of claims that are put in order together
_PLACE: Final = 20  # bits of a place in a window


class Gone(NamedTuple):
    """What is told of a message that left."""

    queue: Queue
    lookup_id: int
    message: Outline


_gone: Final = partial(tuple.__new__, Gone)  # in half the time


class Window:
    """The claims of some rows, in the order in which their messages came."""

    def __init__(self, log: ClaimLog) -> None:
        low, high = log.definition.gone, log.definition.released
        self.queue_ids: array[int] = array("Q")
        self.lookup_ids: array[int] = array("Q")
        self.sizes: array[int] = array("I")
        self.end = high
        for row in islice(log.rows, WINDOW):
            if row.first > high:
                break
            part = slice(max(low + 1 - row.first, 0), high + 1 - row.first)
            self.queue_ids += row.queue_ids[part]
            self.lookup_ids += row.lookup_ids[part]
            self.sizes += row.sizes[part]
            self.end = min(high, row.last)
        places = [(lookup_id & SEQUENCE_MASK) << _PLACE | at for at, lookup_id in enumerate(self.lookup_ids)]
        places.sort()
        self._places: Iterator[int] = iter(places)
        self.left = len(places)

    def take(self, count: int) -> dict[int, list[tuple[int, int]]]:
        """The next: (lookup id, size) by queue, without those that were rejected."""
        found: dict[int, list[tuple[int, int]]] = {}
        for place in islice(self._places, count):
            at = place & ((1 << _PLACE) - 1)
            queue_id = self.queue_ids[at]
            if queue_id:
                found.setdefault(queue_id, []).append((self.lookup_ids[at], self.sizes[at]))
        self.left -= count
        return found


class Releasing:
    def __init__(self, core: Core, removal: Removal) -> None:
        self._core = core
        self._removal = removal

    def release(self, log: ClaimLog, ordinal: int, reply: Reply, *, wait: bool) -> None:
        """With `wait` the answer comes when all is gone, else when the release is on disk: then it will go."""
        definition = log.definition
        if ordinal > definition.released or (wait and log.window is None and definition.gone < definition.released):
            if log.busy:
                raise ClaimBusy("another call on the subscription is under way", where=log.name,
                                remedy="wait for its answer")
            self._begin(log, max(ordinal, definition.released), reply, wait)
        elif wait and log.window is not None:
            log.waiting.append(reply)
        else:
            reply.set_result(definition.released)

    def resume(self, log: ClaimLog, reply: Reply) -> None:
        """What a crash, or a full disk, has left of a release."""
        self._begin(log, log.definition.released, reply, True)

    def _begin(self, log: ClaimLog, ordinal: int, reply: Reply, wait: bool) -> None:
        definition, change, first = log.definition, Change(), log.window is None
        log.busy = True
        change.otherwise(self._not_begun, log, definition.released, first)
        change.refuse(reply)
        definition.released = ordinal
        try:
            if first:
                log.window = Window(log)
                self._stage_some(change, log, log.window)
            change.operations.append(self._record(log) if first else definition.record())
        except LiorError as error:
            change.fail(error)
            return
        change.then(self._begun, log, reply, wait)
        if first:
            change.then(self._stepped, log)
        self._core.submit(change)

    def _not_begun(self, log: ClaimLog, before: int, first: bool) -> None:
        log.busy = False
        if first:
            log.window = None
        # A release that went on meanwhile may have come further already
        log.definition.released = max(before, log.definition.gone, 0 if log.window is None else log.window.end)

    def _begun(self, log: ClaimLog, reply: Reply, wait: bool) -> None:
        log.busy = False
        if wait and log.window is not None:
            log.waiting.append(reply)
        elif not reply.cancelled():
            reply.set_result(log.definition.released)

    # Steps

    def _stepped(self, log: ClaimLog) -> None:
        window = log.window
        assert window is not None
        if window.left <= 0:
            log.ended(window.end)
            if log.definition.gone >= log.definition.released:
                log.window = None
                self._answer(log, None)
                return
            log.window = window = Window(log)
        change = Change()
        change.otherwise(self._stopped, log)
        change.refuse(_Everybody(self, log))
        try:
            self._stage_some(change, log, window)
        except LiorError as error:
            change.fail(error)
            return
        if window.left <= 0:
            change.operations.append(self._record(log))
        change.then(self._stepped, log)
        self._core.submit(change)

    def _record(self, log: ClaimLog) -> PutState:
        """What is written with the first step of a release, and with the last of each window."""
        window = log.window
        assert window is not None
        return log.definition.record(gone=window.end) if window.left <= 0 else log.definition.record()

    def _stopped(self, log: ClaimLog) -> None:
        """A step failed. Who releases again begins with what is left."""
        log.window = None
        for row in log.rows:
            for claim in row.claims(log.definition.gone + 1, log.definition.released):
                queue = self._core.queues.get(claim.queue_id)
                if queue is None or claim.lookup_id not in queue.claimed:
                    row.drop(claim.ordinal)

    def _answer(self, log: ClaimLog, error: LiorError | None) -> None:
        waiting, log.waiting = log.waiting, []
        for reply in waiting:
            if error is not None:
                reply.set_exception(error)
            elif not reply.cancelled():
                reply.set_result(log.definition.released)

    def _stage_some(self, change: Change, log: ClaimLog, window: Window) -> None:
        """The next messages; with the last of a window, the rows of its claims."""
        core = self._core
        large = bool(core.message_listeners) or any(
            queue.main.properties.journaling for each in log.definition.queues if (queue := core.queues.get(each)))
        found: list[tuple[Queue, list[tuple[int, int]], list[Outline]]] = []
        count = size = 0
        for queue_id, claims in window.take(LARGE if large else CHUNK).items():
            count, size = count + len(claims), size + sum([each for _, each in claims])
            queue = core.queues.get(queue_id)
            if queue is not None:
                ids = [lookup_id for lookup_id, _ in claims]
                found.append((queue, claims, [] if large else self._outlines(queue, ids)))
        for queue, claims, outlines in found:
            self._stage_of_queue(change, queue, dict(claims), self._plain(outlines))
        change.then(log.left, count, size)
        if window.left <= 0:
            change.operations += [DeleteState(CLAIMS, row.key(log.name)) for row in log.rows if row.last <= window.end]

    def _outlines(self, queue: Queue, lookup_ids: Sequence[int]) -> list[Outline]:
        """None of them if one is damaged: then each is read whole."""
        try:
            return self._core.store.outlines(queue.queue_id, lookup_ids)
        except StoreCorrupt:
            return []

    def _whole(self, queue: Queue, lookup_ids: Sequence[int]) -> tuple[list[Position], list[Outline]]:
        """The messages, and of damaged records what is known: where they stand."""
        store = self._core.store
        try:
            return queue.claimed_positions(lookup_ids, store), []
        except StoreCorrupt:
            if len(lookup_ids) == 1:
                if not store.sizes(queue.queue_id, lookup_ids[0], lookup_ids[0]):
                    raise  # it is not there at all
                return [], [Outline(lookup_ids[0], None, "", NULL_CORRELATION_ID, NULL_GUID, False, False)]
        each = [self._whole(queue, [lookup_id]) for lookup_id in lookup_ids]
        return [one for found, _ in each for one in found], [one for _, found in each for one in found]

    def _plain(self, messages: Sequence[Outline]) -> list[Outline]:
        """Those from whose being received nothing follows ([MS-MQDMPR] 3.1.7.2.1): no acknowledgement is asked for,
        and no other queue manager waits to hear of it."""
        own = self._core.properties.identifier
        return [each for each in messages if not each.answered
                and (not each.transactional or each.source_queue_manager == own)]  # fmt: skip

    def _stage_of_queue(self, change: Change, queue: Queue, sizes: dict[int, int], plain: Sequence[Outline]) -> None:
        gone = [_gone((queue, each.lookup_id, each)) for each in plain]
        if len(gone) < len(sizes):
            positions, damaged = self._whole(queue, sorted(sizes.keys() - {each.lookup_id for each in plain}))
            for position in positions:
                self._removal.stage(change, position, MessageClass.ACK_RECEIVE)
            gone += [Gone(queue, message.lookup_id, message) for message in damaged]
        if gone:
            ids = [each.lookup_id for each in gone]
            change.operations.append(DeleteMessages(queue.queue_id, ids))
            change.then(self._removal.received_all, queue, gone, ids, sum([sizes[each] for each in ids]))


class _Everybody:
    """Those who wait for the end of a release."""

    def __init__(self, releasing: Releasing, log: ClaimLog) -> None:
        self._releasing = releasing
        self._log = log

    def cancelled(self) -> bool:
        return False

    def set_result(self, value: object, /) -> None:
        raise AssertionError("a step of a release has no result")

    def set_exception(self, error: LiorError, /) -> None:
        self._releasing._answer(self._log, error)
