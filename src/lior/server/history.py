"""The rows of the record of fates as entries of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any, Final
from uuid import UUID

from lior.message import MessageClass, ObjectId
from lior.queues.definition import QueueType
from lior.queues.fates import Fate
from lior.queues.queue import Queue
from lior.store.fate_chunks import FateRow
from lior.store.fates import Found
from lior.store.search import Wanted

Entry = dict[str, Any]  # what JSON can hold
Seen = set[tuple[ObjectId | None, str, int]]  # (message, queue, lookup id)

_ARRIVALS: Final = frozenset({Fate.ARRIVED, Fate.ARRIVED_EXPRESS})
OUTGOING: Final = QueueType.OUTGOING.value
JOURNAL: Final = QueueType.JOURNAL.value
_REMOVALS: Final[dict[int, str]] = {
    MessageClass.ACK_RECEIVE: "received",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "expired",
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: "expired",
    MessageClass.NACK_Q_PURGED: "purged",
    MessageClass.NACK_DELETED: "purged",
    MessageClass.NACK_Q_DELETED: "deleted",
    MessageClass.NACK_RECEIVE_REJECTED: "rejected",
}


def class_name(number: int) -> str:
    if not number:
        return ""
    try:
        return MessageClass(number).name
    except ValueError:
        return f"0x{number:04X}"


def place_of(queue: Queue) -> Entry:
    return {"queue": queue.name, "queue_kind": queue.kind.value}


def still_there(rows: Iterable[FateRow], arrivals: Set[int] = _ARRIVALS) -> dict[tuple[ObjectId, str, int], FateRow]:
    """Of such arrivals, those whose message the rows do not tell to have left the queue: where it is now."""
    alive: dict[tuple[ObjectId, str, int], FateRow] = {}
    for row in rows:
        place = row.identifier, row.queue, row.lookup_id
        if row.kind in arrivals:
            alive[place] = row
        elif row.kind == Fate.MOVED and (found := alive.pop((row.identifier, row.detail, row.lookup_id), None)):
            alive[place] = found._replace(queue=row.queue, queue_kind=row.queue_kind)
        elif row.kind in (Fate.REMOVED, Fate.DELIVERED):
            alive.pop(place, None)
    return alive


class Teller:
    """`started` is when the record of this run began, `host_of` knows the addresses of other queue managers."""

    def __init__(self, own: UUID, wanted: Wanted, started: float, host_of: Callable[[UUID], str | None]) -> None:
        self._own = own
        self._wanted = wanted
        self._started = started
        self._host_of = host_of

    def told(self, kept: Found, now: list[Entry], there: Seen) -> list[Entry]:
        """What happened and what is, one message after the other in the order of their first sign of life."""
        rows = self._without_strangers(kept.rows)
        entries = [self._entry(row) for row in rows] + list(self._ended(rows, there))
        groups: dict[str, list[Entry]] = {}
        for entry in [*sorted(entries, key=_time), *sorted(now, key=_time)]:
            groups.setdefault(entry["message"], []).append(entry)
        first = min((entry["time"] for entry in entries), default=0.0)
        gaps = [gap for gap in kept.gaps if gap.time >= first]
        if gaps and groups:
            lost = sum(gap.rows for gap in gaps)
            for group in groups.values():
                group.append({"message": group[0]["message"], "what": "gap", "time": gaps[-1].time, "count": lost})
        return [entry for group in groups.values() for entry in group]

    def _without_strangers(self, rows: list[FateRow]) -> list[FateRow]:
        """Of what names the message in its correlation id only acknowledgements belong to it: they have a class."""
        acknowledgements = {
            row.identifier for row in rows if row.reason
            and (row.kind == Fate.DROPPED or (row.kind in _ARRIVALS and not row.detail))
        }  # fmt: skip
        return [row for row in rows if not self._answers(row) or row.identifier in acknowledgements]

    def _ended(self, rows: Iterable[FateRow], there: Seen) -> Iterable[Entry]:
        """Express messages that were in a queue when the queue manager stopped."""
        for place, row in still_there(rows, {Fate.ARRIVED_EXPRESS}).items():
            if place not in there and row.time < self._started and not self._answers(row):
                yield self._base(row) | {"what": "ended", "time": self._started, "reason": ""}

    def _answers(self, row: FateRow) -> bool:
        return self._wanted.identifier is not None and row.identifier != self._wanted.identifier

    def _base(self, row: FateRow) -> Entry:
        return {
            "message": str(row.identifier if self._wanted.identifier is None else self._wanted.identifier),
            "current": False,
            "time": row.time,
            "queue": row.queue,
            "queue_kind": row.queue_kind,
            "lookup_id": row.lookup_id,
            "label": row.label,
            "reason": class_name(row.reason),
            "detail": row.detail,
        }

    def _entry(self, row: FateRow) -> Entry:
        entry = self._base(row)
        entry["what"] = what = self._what(row)
        if what == "came":
            host = self._host_of(row.identifier.lineage)
            entry["origin"] = str(row.identifier.lineage).upper() + (f" ({host})" if host else "")
        elif what == "given back":
            entry["reason"], entry["aborts"] = "", row.reason
        if self._answers(row):
            entry["detail"] = row.detail or str(row.identifier)
        entry["express"] = row.kind == Fate.ARRIVED_EXPRESS
        return entry

    def _what(self, row: FateRow) -> str:
        if self._answers(row):
            return "answer" if row.kind in _ARRIVALS else "answer " + self._removal(row)
        if row.kind in _ARRIVALS:
            return self._arrival(row)
        if row.kind == Fate.REMOVED:
            return self._removal(row)
        if row.kind == Fate.CONFIRMED:
            return "confirmed" if row.reason == MessageClass.ACK_RECEIVE else "failed"
        return _NAMES.get(row.kind, f"fate {row.kind}")

    def _arrival(self, row: FateRow) -> str:
        if row.queue_kind == JOURNAL or row.queue.casefold() == "system$;journal":
            return "journaled"
        if row.reason and row.detail:
            return "dead letter"
        if row.queue_kind == OUTGOING:
            return "queued"
        return "sent" if row.identifier.lineage == self._own else "came"

    def _removal(self, row: FateRow) -> str:
        if row.kind != Fate.REMOVED:
            return _NAMES.get(row.kind, f"fate {row.kind}")
        if row.queue_kind == OUTGOING and row.reason == MessageClass.ACK_REACH_QUEUE:
            return "acknowledged"
        if row.queue_kind == OUTGOING and row.reason == MessageClass.ACK_RECEIVE:
            return "left"
        return _REMOVALS.get(row.reason, "failed")


_NAMES: Final[dict[int, str]] = {
    Fate.REFUSED: "refused",
    Fate.MOVED: "moved",
    Fate.GIVEN_BACK: "given back",
    Fate.DROPPED: "dropped",
    Fate.HANDED: "handed",
    Fate.DELIVERED: "acknowledged",
    Fate.CONFIRMED: "confirmed",
}


def _time(entry: Entry) -> float:
    return float(entry["time"])
