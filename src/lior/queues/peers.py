"""Other queue managers and the way to them, in place of what a directory service would know (QB-199, QB-216).

Configured routes hold for good; what sessions show is learned beside them, durably and up to a limit. A session's
claim is nobody's signature, so it never overrides the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from lior.message import NULL_GUID
from lior.names.grammar import folded_host
from lior.queues.change import Change
from lior.queues.directory import DirectoryAnswer, DirectoryOperationResult, Filter, NullDirectory
from lior.queues.ports import DeleteState, LoadedState, PutState

PEER: Final = "peer"  # the kind under which the store keeps addresses
MOST_PEERS: Final = 10_000  # learned; the first learned is the first forgotten


class PeerDirectory(NullDirectory):
    """Knows where queue managers are by their identifier, and nothing else."""

    def __init__(self) -> None:
        self._routes: dict[str, str] = {}
        self._learned: dict[UUID, str] = {}

    def configure(self, routes: Mapping[str, str]) -> None:
        """The next hop, `host` or `host:port`, of each host or queue manager's GUID."""
        self._routes = {folded_host(place): hop for place, hop in routes.items()}

    def restore(self, state: LoadedState, change: Change) -> None:
        for (kind, key), value in state.state.items():
            if kind == PEER:
                self._learned[UUID(key)] = value.decode()

    def learn(self, change: Change, identifier: UUID, address: str) -> None:
        """The queue manager answers at this address."""
        before = self._learned.get(identifier)
        if before == address or identifier == NULL_GUID:
            return
        if before is None and len(self._learned) >= MOST_PEERS:
            oldest = next(iter(self._learned))
            change.operations.append(DeleteState(PEER, str(oldest)))
            change.otherwise(self._learned.__setitem__, oldest, self._learned.pop(oldest))
        self._learned[identifier] = address
        change.operations.append(PutState(PEER, str(identifier), address.encode()))
        change.otherwise(self._not_learned, identifier, address, before)

    def _not_learned(self, identifier: UUID, address: str, before: str | None) -> None:
        if self._learned.get(identifier) != address:
            return
        if before is None:
            del self._learned[identifier]
        else:
            self._learned[identifier] = before

    def host_of(self, identifier: UUID) -> str | None:
        """The next hop to a queue manager; None if nobody said."""
        return self._routes.get(str(identifier)) or self._learned.get(identifier)

    def is_configured(self, identifier: UUID) -> bool:
        return str(identifier) in self._routes

    def route(self, host: str) -> str | None:
        """The next hop to a host, if that is another one."""
        return self._routes.get(folded_host(host))

    def read(
        self, object_type: str, filters: Iterable[Filter] = (), attributes: Iterable[str] | None = None
    ) -> DirectoryAnswer:
        """The host of a queue manager."""
        wanted = list(filters)
        if object_type == "QueueManager" and len(wanted) == 1 and wanted[0][:2] == ("Identifier", "EQUALS"):
            host = self.host_of(wanted[0].value)
            if host is not None:
                return DirectoryAnswer(DirectoryOperationResult.SUCCESS, host)
        return self._not_connected()
