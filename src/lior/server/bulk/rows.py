"""Rows of the store as another process reads them: on a connection of its own, batch by batch, so that no view of the
store stays open while a slow client takes its time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from lior.errors import ClaimFenced, MessageNotFound, NoSubscription, QueueNotFound, StoreUnusable
from lior.queues.claim_log import CLAIMS, SUBSCRIPTION, Definition, Part, Row
from lior.server.bulk.columns import Chunk
from lior.store import recovery
from lior.store.errors import READ_ERRORS

_COLUMNS: Final = {True: "m.l, n, e, t, a, v, hdr, body", False: "m.l, n, e, t, a, v, hdr, length(body)"}
_CLAIMED: Final = {bodies: f"SELECT {names} FROM json_each(?) AS j CROSS JOIN m ON m.q=? AND m.l=j.value"  # noqa: S608
                   for bodies, names in _COLUMNS.items()}  # fmt: skip
_SCAN: Final = {bodies: f"SELECT {names} FROM m WHERE q=? AND l>? AND l<=? ORDER BY l LIMIT ?"  # noqa: S608
                for bodies, names in _COLUMNS.items()}  # fmt: skip
HIGHEST: Final = (1 << 63) - 1
PEEKED: Final = 512  # rows looked at in one step of a peek


class Rows:
    """One connection to the store. Not for several threads at a time."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / recovery.STORE_FILE
        try:
            self._connection = recovery.connect(self._path, "ro")
            self._connection.execute("PRAGMA query_only=1")
        except sqlite3.Error as error:
            raise StoreUnusable(str(error), where=str(self._path)) from error
        self._names: dict[int, str] = {}

    def close(self) -> None:
        self._connection.close()

    def _all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except READ_ERRORS as error:
            raise StoreUnusable(str(error), where=str(self._path), remedy="run: lior doctor") from error

    def queue_name(self, queue_id: int) -> str:
        name = self._names.get(queue_id)
        if name is None:
            found = self._all("SELECT name FROM queue WHERE id=?", (queue_id,))
            name = self._names[queue_id] = found[0][0] if found else ""
        return name

    def queue_id(self, name: str) -> int:
        """By the name that `lior queue list` shows; `;JOURNAL` at its end is its journal."""
        wanted = name.replace("/", "\\").removeprefix(".\\").casefold()
        for queue_id, known in self._all("SELECT id, name FROM queue", ()):
            if known.casefold() == wanted or known.casefold() == f"system${wanted}":
                return int(queue_id)
        raise QueueNotFound("there is no such queue on disk", where=name, remedy="see: lior queue list")

    # Claims

    def definition(self, name: str) -> Definition:
        found = self._all("SELECT value FROM state WHERE kind=? AND key=?", (SUBSCRIPTION, name.casefold()))
        if not found:
            raise NoSubscription(f"there is no subscription {name!r:.100}", where="subscription",
                                 remedy="see: lior subscription list")
        return Definition.from_bytes(found[0][0])

    def require(self, name: str, epoch: str, low: int, high: int) -> None:
        """The reader is the one that claimed, and what it wants has not been released."""
        definition = self.definition(name)
        if definition.epoch != epoch:
            raise ClaimFenced(f"another reader has taken over the subscription {definition.name}", where=name,
                              remedy="stop this reader, or take over again with startingPosition=takeover")
        if low < definition.released or high > definition.last:
            raise MessageNotFound(f"the ordinals above {low} up to {high} are not all claimed; claimed are those "
                                  f"above {definition.released} up to {definition.last}", where=name,
                                  remedy="the checkpoint is too old, or of another subscription")

    def _rows(self, name: str, low: int, high: int) -> Iterator[Row]:
        """Rows of claims, from the one that holds what follows `low`."""
        prefix = f"{name.casefold()}/"
        start = self._all("SELECT max(key) FROM state WHERE kind=? AND key>=? AND key<=?",
                          (CLAIMS, prefix, f"{prefix}{low + 1:020}"))  # fmt: skip
        key = start[0][0] or prefix
        while True:
            found = self._all("SELECT key, value FROM state WHERE kind=? AND key>=? AND key<=? ORDER BY key LIMIT 1",
                              (CLAIMS, key, f"{prefix}{high:020}"))  # fmt: skip
            if not found:
                return
            key, value = found[0][0] + "\0", found[0][1]
            yield Row.from_bytes(value)

    def claimed(
        self, name: str, epoch: str, low: int, high: int, rows: int, size: int, *, bodies: bool = True
    ) -> Iterator[Chunk]:
        """The messages with ordinals above `low` up to `high`, in batches of at most so many rows and about so many
        bytes. Who was replaced in between gets no further."""
        self.require(name, epoch, low, high)
        begun = False
        for row in self._rows(name, low, high):
            part = row.part(low, high)
            at = 0
            while at < len(part.ordinals):
                if begun:
                    self.require(name, epoch, low, high)
                begun = True
                end = part.cut(at, rows, size)
                yield self._fetched(name, part, at, end, bodies)
                at = end

    def _fetched(self, name: str, part: Part, at: int, end: int, bodies: bool) -> Chunk:
        found: list[tuple[Any, ...]] = []
        queues: list[tuple[str, int]] = []
        for queue_id, run in groupby(range(at, end), key=part.queue_ids.__getitem__):
            places = list(run)
            ids = part.lookup_ids[places[0] : places[-1] + 1]
            rows = self._all(_CLAIMED[bodies], (json.dumps(ids), queue_id))
            if len(rows) != len(ids):
                raise MessageNotFound(f"{len(ids) - len(rows)} claimed messages are not in the store", where=name,
                                      remedy="they were released meanwhile, or run: lior doctor")
            found += rows
            queues.append((self.queue_name(queue_id), len(rows)))
        return Chunk(part.ordinals[at:end], queues, found, bodies)

    # Without a claim

    def peeked(
        self, queue: str, after: int, to: int, limit: int, size: int, *, bodies: bool = True
    ) -> Iterator[Chunk]:
        """What is on disk of a queue, in its order: messages with lookup ids above `after`. Those that a subscription
        has claimed belong to its reader, and are left out."""
        queue_id = self.queue_id(queue)
        name = self.queue_name(queue_id)
        claimed = self._claimed_of(queue_id)
        left, step = limit, PEEKED
        while left > 0:
            rows = self._all(_SCAN[bodies], (queue_id, after, to, min(step, left + len(claimed))))
            if not rows:
                return
            after = rows[-1][0]
            kept = [row for row in rows if row[0] not in claimed][:left] if claimed else rows[:left]
            left -= len(kept)
            average = 1 + (sum([row[1] for row in kept]) // max(len(kept), 1) if bodies else 0)
            step = max(16, min(16384, size // average))
            if kept:
                yield Chunk(None, [(name, len(kept))], kept, bodies)

    def _claimed_of(self, queue_id: int) -> set[int]:
        found: set[int] = set()
        for name, value in self._all("SELECT key, value FROM state WHERE kind=?", (SUBSCRIPTION,)):
            definition = Definition.from_bytes(value)
            if queue_id not in definition.queues:
                continue
            for row in self._rows(name, definition.gone, definition.last):
                part = row.part(definition.gone, definition.last)
                found.update(lookup_id for lookup_id, each in zip(part.lookup_ids, part.queue_ids, strict=True)
                             if each == queue_id)  # fmt: skip
        return found
