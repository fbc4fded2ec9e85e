"""Which host comes next on the way to a destination: static routes, and what handshakes taught (QB-199, QB-216)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from lior.errors import NoDirectory
from lior.names import DirectName, MachineName, PrivateName, SingleName
from lior.names.grammar import folded_host

MOST_LEARNED = 10_000


class Routes:
    def __init__(self, static: Mapping[str, str], peer_port: int) -> None:
        self._static = {key.casefold(): split_host(value, peer_port) for key, value in static.items()}
        self._peer_port = peer_port
        self._learned: dict[UUID, str] = {}

    def next_hop(self, name: SingleName) -> tuple[str, int]:
        """Host and port; raises where no way is known."""
        if isinstance(name, DirectName):
            host = folded_host(name.host)
            return self._static.get(host, (host, self._peer_port))
        if isinstance(name, PrivateName | MachineName):
            found = self._of(name.guid)
            if found is not None:
                return found
        raise NoDirectory("the computer of this name is not known", where=str(name),
                          remedy="give a route to it under [routes], or use a direct name")

    def _of(self, queue_manager: UUID) -> tuple[str, int] | None:
        static = self._static.get(str(queue_manager))
        if static is not None:
            return static
        learned = self._learned.get(queue_manager)
        return None if learned is None else (learned, self._peer_port)

    def knows(self, queue_manager: UUID) -> bool:
        return self._of(queue_manager) is not None

    def has_route(self, name: DirectName) -> bool:
        """Whether messages of others to this host go through us (QB-155)."""
        return folded_host(name.host) in self._static

    def expected(self, host: str, name: SingleName) -> UUID | None:
        """Who must answer there: nobody in particular for a direct name, or behind a route."""
        if isinstance(name, PrivateName | MachineName) and str(name.guid) not in self._static:
            return name.guid
        return None

    def learn(self, queue_manager: UUID, address: str) -> None:
        """Who opened a session with us, or answered one, is there."""
        if len(self._learned) >= MOST_LEARNED:
            del self._learned[next(iter(self._learned))]
        self._learned[queue_manager] = address


def split_host(text: str, port: int) -> tuple[str, int]:
    """host, host:port, [v6]:port or v6 alone."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return folded_host(host), int(rest[1:]) if rest.startswith(":") else port
    if text.count(":") == 1:
        host, _, number = text.partition(":")
        return folded_host(host), int(number)
    return folded_host(text), port


