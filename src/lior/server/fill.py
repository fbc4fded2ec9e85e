"""Warnings before something is full: a queue's quota, the queue manager's, what an outgoing queue may hold.

Compared every few seconds, not with each message. A level that was reached is told again only after the fill
went well below it, so that a queue at its limit does not fill the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from lior.message import INFINITE
from lior.queues.core import Core
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue, is_hidden

log = logging.getLogger("lior.quota")

LEVELS: Final = (0.80, 0.95)
BACK: Final = 0.05  # so far below a level it counts as left


class Fill(NamedTuple):
    what: str  # "queue", "journal", "outgoing queue", "queue manager", "journals"
    name: str
    used: int
    limit: int  # bytes; above 0

    @property
    def share(self) -> float:
        return self.used / self.limit


def quota_bytes(quota: int) -> int | None:
    """Of a quota in KB; None for no limit."""
    return None if quota == INFINITE else quota * 1024


def fills(core: Core) -> Iterator[Fill]:
    """Everything that has a limit, and how much of it is used."""
    whole = quota_bytes(core.properties.queue_manager_quota)
    if whole:
        yield Fill("queue manager", core.properties.computer_name, core.total_bytes, whole)
    journals = quota_bytes(core.properties.journal_quota)
    if journals:
        yield Fill("journals", core.properties.computer_name, core.journal_bytes, journals)
    for queue in core.queues.values():
        if queue.parent is None and not is_hidden(queue):
            yield from _of_queue(queue, whole)


def _of_queue(queue: Queue, whole: int | None) -> Iterator[Fill]:
    limit = quota_bytes(queue.properties.quota)
    if isinstance(queue, OutgoingQueue):
        limits = [each for each in (limit, whole) if each]  # one that grows alone can fill the queue manager
        if limits:
            yield Fill("outgoing queue", queue.name, queue.used_bytes(), min(limits))
        return
    if limit:
        yield Fill("queue", queue.name, queue.used_bytes(), limit)
    journal_limit = quota_bytes(queue.properties.journal_quota)
    if journal_limit and queue.journal is not None:
        yield Fill("journal", queue.journal.name, queue.journal.used_bytes(), journal_limit)


class FillWatch:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._reached: dict[tuple[str, str], float] = {}  # the highest level told

    def look(self) -> None:
        seen = set()
        for fill in fills(self._core):
            seen.add(fill[:2])
            self._compare(fill)
        for gone in self._reached.keys() - seen:
            del self._reached[gone]

    def _compare(self, fill: Fill) -> None:
        key = fill[:2]
        told = self._reached.get(key, 0.0)
        level = max((level for level in LEVELS if fill.share >= level), default=0.0)
        if level > told:
            self._reached[key] = level
            log.warning("nearly full" if level < LEVELS[-1] else "almost full", extra={"fields": _fields(fill, level)})
        elif told and fill.share < told - BACK:
            if level:
                self._reached[key] = level
            else:
                del self._reached[key]
            log.info("has room again", extra={"fields": _fields(fill, level)})


def _fields(fill: Fill, level: float) -> dict[str, object]:
    return {"what": fill.what, "name": fill.name, "used_bytes": fill.used, "limit_bytes": fill.limit,
            "percent": int(fill.share * 100), "reached": int(level * 100)}  # fmt: skip
