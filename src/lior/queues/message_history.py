"""Identifiers of messages received lately, to know one that is sent again ([MS-MQQB] 3.1.1.3, MessageIDHistoryTable).

Identifiers are kept in groups. A group of one change has a row of its own in the store, so that a change writes what
it brought and no more, and no row speaks of a change that failed. Rows are used in a ring: the row of a group that is
forgotten is overwritten by a later one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from lior.queues.change import Change
from lior.queues.ports import LoadedState, PutState

HISTORY: Final = "history"  # the kind under which the store keeps rows
CAPACITY: Final = 10_000  # identifiers
MAXIMUM_AGE: Final = 1800.0  # seconds
KEY_SIZE: Final = 20  # the GUID of the queue manager, and the ordinal: OBJECTID as on the wire
GROUP: Final = 256  # identifiers of express messages, which share a group that has no row
GROUP_AGE: Final = 60.0  # seconds in which they share it

_HEAD: Final = Struct("<Qd")  # number of the group, time


class Group:
    __slots__ = ("keys", "number", "row", "settled", "time")

    def __init__(self, number: int, time: float, row: int | None) -> None:
        self.number = number
        self.time = time
        self.row = row  # None: not in the store
        self.settled = row is None  # the change is on disk
        self.keys: list[bytes] = []

    def record(self) -> PutState:
        return PutState(HISTORY, str(self.row), _HEAD.pack(self.number, self.time) + b"".join(self.keys))


class MessageHistory:
    def __init__(self, capacity: int = CAPACITY, maximum_age: float = MAXIMUM_AGE) -> None:
        self.capacity = capacity
        self.maximum_age = maximum_age
        self._groups: deque[Group] = deque()  # oldest first
        self._by_key: dict[bytes, Group] = {}  # the latest group of each
        self._kept = 0  # identifiers in all groups, those seen again counted again
        self._number = 0
        self._rows = 0  # ever used
        self._free: list[int] = []
        self._change: Change | None = None  # the last that recorded something, and where
        self._open = Group(0, 0.0, None)
        self._at = 0
        self._shared: Group | None = None

    def __len__(self) -> int:
        return len(self._by_key)

    def seen(self, key: bytes, now: float) -> bool:
        """Whether the message came before; if so its age starts anew (QB-153), noted once in a while."""
        group = self._by_key.get(key)
        if group is None or group.time + self.maximum_age < now:
            return False
        if group.settled and now - group.time > GROUP_AGE:
            self.record_volatile((key,), now)
        return True

    def has_none_of(self, keys: Iterable[bytes]) -> bool:
        """None of them came before, not even long ago."""
        return self._by_key.keys().isdisjoint(keys)

    def settled(self, key: bytes) -> bool:
        """False while the change that brings the message is under way: a second copy must not be acknowledged, for
        that change may fail yet."""
        group = self._by_key.get(key)
        return group is None or group.settled

    def record(self, change: Change, keys: Sequence[bytes], now: float) -> None:
        """Known from now on, and after a restart if the change gets to the disk; forgotten if it fails (QB-154)."""
        if not keys:
            return
        self._make_room(len(keys), now)
        if self._change is not change:
            self._begin(change, now)
        self._add(self._open, keys)
        change.operations[self._at] = self._open.record()

    def _begin(self, change: Change, now: float) -> None:
        if self._free:
            row = self._free.pop()
        else:
            row = self._rows
            self._rows += 1
        self._change, self._open, self._at = change, self._append(now, row), len(change.operations)
        change.operations.append(self._open.record())
        change.either(self._stored, self._failed, self._open)

    def _stored(self, group: Group) -> None:
        group.settled = True
        if self._open is group:
            self._change = None

    def _failed(self, group: Group) -> None:
        if self._open is group:
            self._change = None
        group.settled = True
        for key in group.keys:
            if self._by_key.get(key) is group:
                del self._by_key[key]
        self._kept -= len(group.keys)
        group.keys = []

    def record_volatile(self, keys: Sequence[bytes], now: float) -> None:
        """For express messages, which do not survive a restart either."""
        self._make_room(len(keys), now)
        group = self._shared
        if group is None or len(group.keys) >= GROUP or not 0 <= now - group.time < GROUP_AGE:
            group = self._shared = self._append(now, None)
        self._add(group, keys)

    def forget(self, keys: Sequence[bytes]) -> None:
        """Express messages that were lost with the change of others that failed: they come again."""
        for key in keys:
            self._by_key.pop(key, None)

    def _append(self, now: float, row: int | None) -> Group:
        self._number += 1
        group = Group(self._number, now, row)
        self._groups.append(group)
        return group

    def _add(self, group: Group, keys: Sequence[bytes]) -> None:
        group.keys += keys
        self._kept += len(keys)
        self._by_key.update(dict.fromkeys(keys, group))

    def clean_up(self, now: float) -> None:
        """Forget what is too old (QB-114). Whatever is recorded does this too."""
        self._make_room(0, now)

    def _make_room(self, count: int, now: float) -> None:
        groups, limit = self._groups, self.capacity - count
        while groups and (self._kept > limit or groups[0].time + self.maximum_age < now):
            if not groups[0].settled:
                return  # its row is on its way to the disk
            self._forget(groups.popleft())

    def _forget(self, group: Group) -> None:
        for key in group.keys:
            if self._by_key.get(key) is group:
                del self._by_key[key]
        self._kept -= len(group.keys)
        if group.row is not None:
            self._free.append(group.row)
        if self._shared is group:
            self._shared = None

    def restore(self, state: LoadedState, change: Change) -> None:
        found = []
        for (kind, key), value in state.state.items():
            if kind == HISTORY:
                number, time = _HEAD.unpack_from(value)
                found.append((number, time, int(key), value[_HEAD.size :]))
        for number, time, row, data in sorted(found):
            group = Group(number, time, row)
            group.settled = True
            self._groups.append(group)
            self._add(group, [data[at : at + KEY_SIZE] for at in range(0, len(data), KEY_SIZE)])
            self._number, self._rows = number, max(self._rows, row + 1)
        used = {group.row for group in self._groups}
        self._free = [row for row in range(self._rows) if row not in used]
        self._make_room(0, self._groups[-1].time if self._groups else 0.0)
