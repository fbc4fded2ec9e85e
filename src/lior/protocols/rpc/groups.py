"""Association groups and the context handles that live in them ([MS-RPCE] 3.3.1.1.1, 3.3.1.4.1, 3.3.3.7.1).

A group holds the connections of one client; its handles are valid on all of them, and on none of another group. When
the last connection goes, what the handles stand for is run down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lior.errors import LiorError
from lior.protocols.rpc.faults import CONTEXT_MISMATCH, OUT_OF_MEMORY, RpcFault
from lior.security import Caller

HANDLE_SIZE: Final = 20
NULL_HANDLE: Final = bytes(HANDLE_SIZE)  # [C706] 14: attributes and UUID, all zero
_ATTRIBUTES: Final = bytes(4)


class _Entry:
    __slots__ = ("caller", "kind", "rundown", "value")

    def __init__(self, kind: str, value: Any, rundown: Callable[[], None], caller: Caller) -> None:
        self.kind = kind
        self.value = value
        self.rundown = rundown
        self.caller = caller


class HandleTable:
    """Context handles: 20 bytes that nobody can guess -> what they stand for, of which kind, and whose."""

    def __init__(self, token: Callable[[], bytes], limit: int) -> None:
        self._token = token  # 16 unpredictable bytes
        self._limit = limit
        self._entries: dict[bytes, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def open(self, kind: str, value: Any, rundown: Callable[[], None], caller: Caller) -> bytes:
        """A new handle. `rundown` ends what it stands for if its client goes away without closing it."""
        if len(self._entries) >= self._limit:
            raise RpcFault(OUT_OF_MEMORY, "too many context handles", where=kind, remedy="close handles, or raise "
                           "rpc.max_handles")  # fmt: skip
        handle = _ATTRIBUTES + self._token()
        self._entries[handle] = _Entry(kind, value, rundown, caller)
        return handle

    def find(self, handle: bytes, kind: str, caller: Caller) -> Any:
        """What a handle stands for. One of another group, kind or identity is no handle."""
        entry = self._entries.get(handle)
        if entry is None or entry.kind != kind or (entry.caller is not caller and entry.caller.sid != caller.sid):
            raise RpcFault(CONTEXT_MISMATCH, where=kind, remedy="open it again on this association")
        return entry.value

    def close(self, handle: bytes) -> None:
        """Forget a handle; its rundown will not be called."""
        self._entries.pop(handle, None)

    def run_down(self) -> None:
        """The last connection of the group is gone. What a handle stood for may be gone before it: nobody is there to
        hear of an error, and none keeps the other handles."""
        failed: Exception | None = None
        while self._entries:
            _, entry = self._entries.popitem()
            try:
                entry.rundown()
            except LiorError:
                continue
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed


class Group:
    """An association group: what the connections of one client share."""

    __slots__ = ("client", "connections", "data", "handles", "identifier")

    def __init__(self, identifier: int, client: object, handles: HandleTable) -> None:
        self.identifier = identifier
        self.client = client  # only connections of this client may join (3.3.1.5.7)
        self.handles = handles
        self.connections = 0
        self.data: dict[str, Any] = {}  # of whoever serves the group


class Groups:
    """All groups of a server. `token` gives 16 unpredictable bytes."""

    def __init__(self, token: Callable[[], bytes], max_groups: int = 4096, max_handles: int = 4096) -> None:
        self._token = token
        self._max_groups = max_groups
        self._max_handles = max_handles
        self._groups: dict[int, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def handles(self) -> int:
        """Context handles in all groups."""
        return sum(len(group.handles) for group in self._groups.values())

    def join(self, identifier: int, client: object) -> Group | None:
        """The group that a bind names, or a new one for 0. None if it may not have it."""
        if identifier:
            group = self._groups.get(identifier)
            if group is None or group.client != client:
                return None
        else:
            if len(self._groups) >= self._max_groups:
                return None
            group = self._new(client)
        group.connections += 1
        return group

    def _new(self, client: object) -> Group:
        identifier = 0
        while not identifier or identifier in self._groups:
            identifier = int.from_bytes(self._token()[:4], "little")
        group = Group(identifier, client, HandleTable(self._token, self._max_handles))
        self._groups[identifier] = group
        return group

    def leave(self, group: Group) -> None:
        """A connection is gone; with the last one the handles are run down."""
        group.connections -= 1
        if not group.connections:
            self._groups.pop(group.identifier, None)
            group.handles.run_down()

    def close(self) -> None:
        for group in list(self._groups.values()):
            group.handles.run_down()
