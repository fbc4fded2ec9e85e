"""A store without a disk, for tests and for `lior.open(":memory:")`: the same rules, gone at close."""

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from lior.errors import InvalidParameter, StoreUnusable
from lior.queues.ports import (
    DeleteMessage,
    DeleteMessages,
    DeleteQueue,
    DeleteState,
    ExpectState,
    IndexEntry,
    LoadedState,
    MoveMessage,
    Operation,
    Outline,
    Packed,
    PutMessage,
    PutQueue,
    PutState,
    SetCounts,
    StoredMessage,
)
from lior.store.outline import outline
from lior.store.plan import INT64, not_as_expected
from lior.store.record import decode, encode
from lior.store.search import Place, Step, Wanted


class _Row(NamedTuple):
    """A message as bytes, so that nobody shares a Message with the store."""

    size: int
    expires: int
    arrival_time: float
    abort_count: int
    move_count: int
    last_move_time: float
    header: bytes
    body: bytes


class MemoryStore:
    commits_quickly = True  # as a rule: who measures that it does not may use another thread

    def __init__(self) -> None:
        self._messages: dict[int, dict[int, _Row]] = {}
        self._queues: dict[int, tuple[str, str, str]] = {}
        self._state: dict[tuple[str, str], bytes] = {}
        self._undo: list[Callable[[], object]] = []
        self._access = threading.RLock()
        self._closed = False

    def load(self) -> LoadedState:
        with self._access:
            self._check()
            queues = [PutQueue(queue_id, kind, name, json.loads(definition))
                      for queue_id, (kind, name, definition) in sorted(self._queues.items())]
            return LoadedState(queues, dict(self._state))

    def load_index(self) -> Iterator[IndexEntry]:
        with self._access:
            self._check()
            entries = [IndexEntry(queue_id, lookup_id, row.size, row.expires)
                       for queue_id, rows in sorted(self._messages.items())
                       for lookup_id, row in sorted(rows.items())]
        yield from entries

    def fetch(self, queue_id: int, lookup_id: int) -> StoredMessage | None:
        with self._access:
            self._check()
            row = self._messages.get(queue_id, {}).get(lookup_id)
        return None if row is None else _stored(lookup_id, row)

    def scan(self, queue_id: int, after_lookup_id: int, limit: int) -> list[StoredMessage]:
        with self._access:
            self._check()
            rows = sorted(item for item in self._messages.get(queue_id, {}).items() if item[0] > after_lookup_id)
        return [_stored(lookup_id, row) for lookup_id, row in rows[:max(limit, 0)]]

    def fetch_all(self, queue_id: int, lookup_ids: Sequence[int]) -> list[StoredMessage]:
        with self._access:
            self._check()
            rows = self._messages.get(queue_id, {})
            return [_stored(lookup_id, rows[lookup_id]) for lookup_id in lookup_ids if lookup_id in rows]

    def outlines(self, queue_id: int, lookup_ids: Sequence[int]) -> list[Outline]:
        with self._access:
            self._check()
            rows = self._messages.get(queue_id, {})
            return [outline(lookup_id, rows[lookup_id].header) for lookup_id in lookup_ids if lookup_id in rows]

    def sizes(self, queue_id: int, first: int, last: int) -> list[tuple[int, int]]:
        with self._access:
            self._check()
            rows = self._messages.get(queue_id, {}).items()
            return sorted((lookup_id, row.size) for lookup_id, row in rows if first <= lookup_id <= last)

    def search(self, wanted: Wanted) -> Iterator[Step]:
        """As SqliteStore's, one queue a step."""
        with self._access:
            self._check()
            queues = list(self._messages)
        for number, queue_id in enumerate(queues, start=1):
            with self._access:
                rows = list(self._messages.get(queue_id, {}).items())
            stored = (_stored(lookup_id, row) for lookup_id, row in rows)
            found = [Place(queue_id, each) for each in stored if wanted.is_about(each.message)]
            yield Step(number, len(queues), found)

    def apply(self, batch: Sequence[Operation]) -> None:
        with self._access:
            self._check()
            self._undo = []
            try:
                for operation in batch:
                    _APPLY[type(operation)](self, operation)
            except BaseException:
                for undo in reversed(self._undo):
                    undo()
                raise
            finally:
                self._undo = []

    def prepare(self, batch: Sequence[Operation]) -> list[Operation]:
        return list(batch)

    def pack(self, operations: Sequence[Operation]) -> Packed:
        return Packed(list(operations))

    def commit(self, plans: Sequence[list[Operation]]) -> None:
        self.apply([operation for plan in plans for operation in plan])

    def copy_log(self, idle: bool = True) -> None:
        """Nothing to do in memory."""
        self._check()

    def maintain(self, idle: bool = True) -> None:
        """Nothing to do in memory."""
        self._check()

    def compact(self) -> int:
        self._check()
        return 0

    def snapshot(self, path: str) -> None:
        """Write the content as a store file, as SqliteStore does."""
        from lior.store.sqlite import SqliteStore  # only this needs a disk

        with tempfile.TemporaryDirectory(prefix="lior-") as directory:
            store = SqliteStore(Path(directory))
            try:
                store.apply(self._as_batch())
                store.snapshot(path)
            finally:
                store.close()

    def _as_batch(self) -> list[Operation]:
        with self._access:
            self._check()
            batch: list[Operation] = [*self.load().queues]
            batch += [PutState(kind, key, value) for (kind, key), value in self._state.items()]
            batch += [PutMessage(queue_id, lookup_id, decode(row.header, row.body), row.arrival_time, row.expires,
                                 row.abort_count, row.move_count, row.last_move_time)
                      for queue_id, rows in self._messages.items() for lookup_id, row in rows.items()]
            return batch

    def free_bytes(self) -> int:
        """Memory that can be had: what the system caches files in counts, for it is given back on demand."""
        with suppress(OSError, ValueError, IndexError), open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise StoreUnusable("the store is closed", where=":memory:")

    def _set(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Set, or with None remove, one key, and remember how to take it back."""
        if key in mapping:
            old = mapping[key]
            self._undo.append(lambda: mapping.__setitem__(key, old))
        else:
            self._undo.append(lambda: mapping.pop(key, None))
        if value is None:
            mapping.pop(key, None)
        else:
            mapping[key] = value

    def _rows(self, queue_id: int) -> dict[int, _Row]:
        return self._messages.setdefault(queue_id, {})

    def _insert(self, queue_id: int, lookup_id: int, row: _Row) -> None:
        where = f"queue {queue_id}, lookup id 0x{lookup_id:X}"
        if queue_id not in INT64 or lookup_id not in INT64:
            raise InvalidParameter("no message can have this position", where=where)
        if lookup_id in self._rows(queue_id):
            raise InvalidParameter("another message has this position", where=where)
        self._set(self._rows(queue_id), lookup_id, row)

    def _put(self, put: PutMessage) -> None:
        row = _Row(put.message.size, put.expires, put.arrival_time, put.abort_count, put.move_count,
                   put.last_move_time, encode(put.message), bytes(put.message.body))
        self._insert(put.queue_id, put.lookup_id, row)

    def _delete(self, delete: DeleteMessage) -> None:
        self._set(self._rows(delete.queue_id), delete.lookup_id, None)

    def _delete_all(self, delete: DeleteMessages) -> None:
        for lookup_id in delete.lookup_ids:
            self._set(self._rows(delete.queue_id), lookup_id, None)

    def _move(self, move: MoveMessage) -> None:
        source, target = (move.queue_id, move.lookup_id), (move.target_queue_id, move.target_lookup_id)
        if source != target and move.target_lookup_id in self._rows(move.target_queue_id):
            raise InvalidParameter("another message has this position", where=f"queue {target[0]}")
        row = self._rows(move.queue_id).get(move.lookup_id)
        if row is None:
            return
        arrival_time = row.arrival_time if move.arrival_time is None else move.arrival_time
        self._set(self._rows(move.queue_id), move.lookup_id, None)
        self._insert(*target, row._replace(arrival_time=arrival_time, abort_count=move.abort_count,
                                           move_count=move.move_count, last_move_time=move.last_move_time))

    def _set_counts(self, counts: SetCounts) -> None:
        rows = self._rows(counts.queue_id)
        if counts.lookup_id in rows:
            self._set(rows, counts.lookup_id, rows[counts.lookup_id]._replace(abort_count=counts.abort_count))

    def _put_queue(self, queue: PutQueue) -> None:
        try:
            definition = json.dumps(queue.definition)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidParameter(f"a queue definition that JSON cannot hold: {error}", where=queue.name) from error
        self._set(self._queues, queue.queue_id, (queue.kind, queue.name, definition))

    def _delete_queue(self, queue: DeleteQueue) -> None:
        self._set(self._queues, queue.queue_id, None)
        self._set(self._messages, queue.queue_id, None)

    def _put_state(self, state: PutState) -> None:
        self._set(self._state, (state.kind, state.key), bytes(state.value))

    def _delete_state(self, state: DeleteState) -> None:
        self._set(self._state, (state.kind, state.key), None)

    def _packed(self, packed: Packed) -> None:
        for operation in packed.content:
            _APPLY[type(operation)](self, operation)

    def _expect_state(self, expected: ExpectState) -> None:
        if self._state.get((expected.kind, expected.key)) != expected.value:
            raise not_as_expected(expected.kind, expected.key)


def _stored(lookup_id: int, row: _Row) -> StoredMessage:
    return StoredMessage(lookup_id, decode(row.header, row.body), row.arrival_time, row.abort_count, row.move_count,
                         row.last_move_time)


_APPLY: Final[dict[type, Callable[[MemoryStore, Any], None]]] = {
    PutMessage: MemoryStore._put,
    DeleteMessage: MemoryStore._delete,
    DeleteMessages: MemoryStore._delete_all,
    MoveMessage: MemoryStore._move,
    SetCounts: MemoryStore._set_counts,
    PutQueue: MemoryStore._put_queue,
    DeleteQueue: MemoryStore._delete_queue,
    PutState: MemoryStore._put_state,
    DeleteState: MemoryStore._delete_state,
    ExpectState: MemoryStore._expect_state,
    Packed: MemoryStore._packed,
}
