"""From a batch to SQL statements: few of them, because SQLite gives up the GIL at every step, and when the
event loop is busy each step may wait a switch interval (measured: 64 rows by executemany 0.3 s, in one
statement 8 ms). So rows of one kind are gathered into statements of up to 64 rows, over other operations
where order between them cannot matter: they touch different messages, or they are not about messages.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import repeat
from struct import error as StructError
from typing import Any, Final, cast
from zlib import crc32

from lior.errors import InvalidParameter, MessageStorageFailed
from lior.message import FIXED_HEADERS_SIZE
from lior.queues.ports import (
    SEQUENCE_MASK,
    DeleteMessage,
    DeleteMessages,
    DeleteQueue,
    DeleteState,
    ExpectState,
    MoveMessage,
    Operation,
    Packed,
    PutMessage,
    PutQueue,
    PutState,
    SetCounts,
)
from lior.store.record import encode
from lior.store.schema import ROW, queue_check, state_check

ROWS: Final = 64  # in one statement
BYTES: Final = 1 << 20  # of bodies in one statement, since SQLite copies what is bound
PUT_COLUMNS: Final = "q, l, n, e, t, a, v, u, k, hdr, body"
INT64: Final = range(-(1 << 63), 1 << 63)

GUARD: Final = "SELECT 1 FROM m WHERE q=? AND l=?"  # a statement that must find nothing
EXPECT: Final = "SELECT 1 WHERE (SELECT value FROM state WHERE kind=? AND key=?) IS NOT ?"  # so must this
_MOVE: Final = ("UPDATE m SET q=?3, l=?4, a=?5, v=?6, u=?7, t=coalesce(?8, t), "
                "k=row_check(?3, ?4, n, e, coalesce(?8, t), ?5, ?6, ?7) WHERE q=?1 AND l=?2")
_DELETE_ALL: Final = "DELETE FROM m WHERE q=? AND l BETWEEN ? AND ?"
_COUNTS: Final = "UPDATE m SET a=?3, k=row_check(q, l, n, e, t, ?3, v, u) WHERE q=?1 AND l=?2"
_PUT_QUEUE: Final = "INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?)"

Statement = tuple[str, Sequence[Any]]


@cache
def _insert(rows: int) -> str:
    return f"INSERT INTO m({PUT_COLUMNS}) VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"] * rows)


@cache
def _delete(rows: int) -> str:
    # Not (q, l) IN (VALUES ...): SQLite answers that with a scan of the whole table.
    return f"DELETE FROM m WHERE q=? AND l IN ({', '.join('?' * rows)})"


@cache
def _put_state(rows: int) -> str:
    return "INSERT OR REPLACE INTO state VALUES " + ", ".join(["(?, ?, ?, ?)"] * rows)


@cache
def _delete_state(rows: int) -> str:
    return f"DELETE FROM state WHERE kind=? AND key IN ({', '.join('?' * rows)})"


class Plan:
    """The statements of one batch, in an order that has the batch's effect.

    `highest` is the largest sequence number ever put. The index is unique over more than the position, so a
    put that is not above it gets a guard; puts of fresh lookup ids, nearly all, need none.
    """

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.statements: list[Statement] = []
        self.bytes = 0  # about how much the write-ahead log grows
        self._puts: list[PutMessage] = []
        self._deletes: dict[int, list[int]] = {}  # lookup ids by queue
        self._changes: list[MoveMessage | SetCounts] = []
        self._touched: dict[tuple[int, int], type] = {}  # which of the three lists holds a position
        self._state: dict[tuple[str, str], bytes | None] = {}

    def add(self, batch: Sequence[Operation]) -> None:
        if set(map(type, batch)) == {PutMessage}:  # nothing to keep apart, and by far the most common
            self._puts = list(cast(Sequence[PutMessage], batch))
        else:
            self._sort(batch)
        self._flush_messages()
        self._flush_state()

    def _sort(self, batch: Sequence[Operation]) -> None:
        for operation in batch:
            kind = type(operation)
            if kind is PutMessage:
                put = cast(PutMessage, operation)
                self._touch((put.queue_id, put.lookup_id), PutMessage)
                self._puts.append(put)
            elif kind is DeleteMessage:
                delete = cast(DeleteMessage, operation)
                self._touch((delete.queue_id, delete.lookup_id), DeleteMessage)
                self._deletes.setdefault(delete.queue_id, []).append(delete.lookup_id)
            else:
                _OTHERS[kind](self, operation)

    def _touch(self, position: tuple[int, int], kind: type) -> None:
        if self._touched.setdefault(position, kind) is not kind:
            self._flush_messages()
            self._touched[position] = kind

    def _delete_all(self, delete: DeleteMessages) -> None:
        positions = dict.fromkeys(zip(repeat(delete.queue_id), delete.lookup_ids), DeleteMessage)
        if not positions.keys().isdisjoint(self._touched):
            self._flush_messages()
        self._touched.update(positions)
        self._deletes.setdefault(delete.queue_id, []).extend(delete.lookup_ids)

    def _move(self, move: MoveMessage) -> None:
        self._touch((move.queue_id, move.lookup_id), MoveMessage)
        self._touch((move.target_queue_id, move.target_lookup_id), MoveMessage)
        self._touch((move.queue_id, move.lookup_id), MoveMessage)  # the second may have flushed the first
        self._changes.append(move)

    def _set_counts(self, counts: SetCounts) -> None:
        self._touch((counts.queue_id, counts.lookup_id), MoveMessage)
        self._changes.append(counts)

    def _put_queue(self, queue: PutQueue) -> None:
        try:
            definition = json.dumps(queue.definition, separators=(",", ":"), sort_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidParameter(f"a queue definition that JSON cannot hold: {error}", where=queue.name) from error
        check = queue_check(queue.queue_id, queue.kind, queue.name, definition)
        self.statements.append((_PUT_QUEUE, (queue.queue_id, queue.kind, queue.name, definition, check)))
        self.bytes += len(definition)

    def _delete_queue(self, queue: DeleteQueue) -> None:
        self._flush_messages()
        self.statements.append(("DELETE FROM m WHERE q=?", (queue.queue_id,)))
        self.statements.append(("DELETE FROM queue WHERE id=?", (queue.queue_id,)))

    def _put_state(self, state: PutState) -> None:
        self._state[state.kind, state.key] = state.value

    def _delete_state(self, state: DeleteState) -> None:
        self._state[state.kind, state.key] = None

    def _expect_state(self, expected: ExpectState) -> None:
        """What this batch put before is known; the rest is for the store to tell."""
        name = expected.kind, expected.key
        if name not in self._state:
            self.statements.append((EXPECT, expected))
        elif self._state[name] != expected.value:
            raise not_as_expected(*name)

    def _packed(self, packed: Packed) -> None:
        self._flush_messages()
        self.statements += packed.content.statements
        self.bytes += packed.content.bytes

    def _flush_messages(self) -> None:
        for chunk in _chunks(self._puts):
            self._insert(chunk)
        for queue_id, lookups in self._deletes.items():
            self._delete_some(queue_id, lookups)
        for change in self._changes:
            self._change(change)
        self._puts, self._deletes, self._changes, self._touched = [], {}, [], {}

    def _delete_some(self, queue_id: int, lookups: list[int]) -> None:
        self.bytes += 256 * len(lookups)
        first, last = (lookups[0], lookups[-1]) if lookups else (0, 0)
        if last - first == len(lookups) - 1 and lookups == list(range(first, last + 1)):
            self.statements.append((_DELETE_ALL, (queue_id, first, last)))  # nothing else can be among them
            return
        for at in range(0, len(lookups), ROWS):
            some = lookups[at:at + ROWS]
            self.statements.append((_delete(len(some)), (queue_id, *some)))

    def _insert(self, puts: list[PutMessage]) -> None:
        values: list[Any] = []
        highest, size, pack = self.highest, 0, ROW.pack
        try:
            for queue_id, lookup_id, message, arrival_time, expires, aborts, moves, last_move in puts:
                sequence = lookup_id & SEQUENCE_MASK
                if sequence <= highest:
                    self._guard(puts, queue_id, lookup_id)
                else:
                    highest = sequence
                header, body = encode(message), message.body
                counted = FIXED_HEADERS_SIZE + len(body) if not (message.label or message.extension) else message.size
                values += (
                    queue_id, lookup_id, counted, expires, arrival_time, aborts, moves, last_move,
                    crc32(pack(queue_id, lookup_id, counted, expires, arrival_time + 0.0, aborts, moves,
                               last_move + 0.0)), header, body,
                )  # fmt: skip  # with what row_check says, spelled out
                size += len(header) + len(body)
        except (StructError, TypeError) as error:
            raise InvalidParameter(f"a column cannot hold this: {error}", where="PutMessage") from error
        self.highest = highest
        self.bytes += size + 100 * len(puts)
        self.statements.append((_insert(len(puts)), values))

    def _guard(self, puts: list[PutMessage], queue_id: int, lookup_id: int) -> None:
        if sum(put.queue_id == queue_id and put.lookup_id == lookup_id for put in puts) > 1:
            raise InvalidParameter("two messages of one batch have the same position",
                                   where=f"queue {queue_id}, lookup id 0x{lookup_id:X}")
        self.statements.append((GUARD, (queue_id, lookup_id)))

    def _change(self, change: MoveMessage | SetCounts) -> None:
        self.bytes += 4096
        if isinstance(change, SetCounts):
            self.statements.append((_COUNTS, (change.queue_id, change.lookup_id, change.abort_count)))
            return
        queue_id, lookup_id, target, target_lookup, *_ = change
        if target not in INT64 or target_lookup not in INT64:
            raise InvalidParameter(f"no position can be {target}, 0x{target_lookup:X}", where="MoveMessage")
        if (queue_id, lookup_id) != (target, target_lookup):
            self.statements.append((GUARD, (target, target_lookup)))
        self.highest = max(self.highest, target_lookup & SEQUENCE_MASK)
        self.statements.append((_MOVE, change))

    def _flush_state(self) -> None:
        puts: list[tuple[str, str, bytes, int]] = []
        deletes: dict[str, list[str]] = {}
        for (kind, key), value in self._state.items():
            if value is None:
                deletes.setdefault(kind, []).append(key)
            else:
                puts.append((kind, key, value, state_check(kind, key, value)))
                self.bytes += len(value) + len(key) + 50
        for at in range(0, len(puts), ROWS):
            some = puts[at:at + ROWS]
            self.statements.append((_put_state(len(some)), [column for row in some for column in row]))
        for kind, keys in deletes.items():
            for at in range(0, len(keys), ROWS):
                names = keys[at:at + ROWS]
                self.statements.append((_delete_state(len(names)), (kind, *names)))


def not_as_expected(kind: str, key: str) -> MessageStorageFailed:
    return MessageStorageFailed("an earlier change that this one builds upon failed", where=f"{kind} {key}")


def _chunks(puts: list[PutMessage]) -> Iterator[list[PutMessage]]:
    """Runs of up to ROWS rows and about BYTES bytes; a run has one row at least."""
    if len(puts) <= ROWS and sum([len(put.message.body) for put in puts]) <= BYTES:
        if puts:
            yield puts
        return
    run: list[PutMessage] = []
    size = 0
    for put in puts:
        if run and (len(run) == ROWS or size + len(put.message.body) > BYTES):
            yield run
            run, size = [], 0
        run.append(put)
        size += len(put.message.body)
    yield run


_OTHERS: Final[dict[type, Any]] = {
    DeleteMessages: Plan._delete_all,
    MoveMessage: Plan._move,
    SetCounts: Plan._set_counts,
    PutQueue: Plan._put_queue,
    DeleteQueue: Plan._delete_queue,
    PutState: Plan._put_state,
    DeleteState: Plan._delete_state,
    ExpectState: Plan._expect_state,
    Packed: Plan._packed,
}
