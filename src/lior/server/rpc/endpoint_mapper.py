"""The endpoint mapper: which interface answers where ([C706] appendix O, [MS-RPCE] 2.2.1.2).

Only what this server itself listens on is in its map. Whoever asks may do so without signing in (3.1.1.5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final
from uuid import UUID

from lior.errors import Malformed
from lior.protocols.rpc.call import Call
from lior.wire.interfaces.endpoint_mapper import (
    EPT_S_CANT_PERFORM_OP,
    EPT_S_NOT_REGISTERED,
    RPC_C_EP_ALL_ELTS,
    RPC_C_EP_MATCH_BY_BOTH,
    RPC_C_EP_MATCH_BY_IF,
    RPC_C_EP_MATCH_BY_OBJ,
    EptEntry,
)
from lior.wire.interfaces.towers import Tower
from lior.wire.ndr_types import NULL_HANDLE

ALL, COMPATIBLE, EXACT, MAJOR_ONLY, UP_TO = range(1, 6)  # vers_option (2.2.1.2.4)
NO_UUID: Final = UUID(int=0)
HANDLE: Final = "ept_lookup_handle_t"
LOOKUP, MAP, FREE = 2, 3, 4


@dataclass(frozen=True, slots=True)
class Endpoint:
    interface: Any
    port: int
    annotation: str = ""


class EndpointMapper:
    """`endpoints` tells what is served now; `address` where a client reached this server."""

    def __init__(self, endpoints: Callable[[], Sequence[Endpoint]], address: Callable[[Call], str]) -> None:
        self._endpoints = endpoints
        self._address = address

    def handlers(self) -> dict[int, Callable[[Call, Any], Any]]:
        return {LOOKUP: self.lookup, MAP: self.map, FREE: self.free}

    def _towers(self, call: Call) -> Iterator[tuple[Endpoint, Tower]]:
        try:
            address = IPv4Address(self._address(call))
        except ValueError:  # over IPv6: the client takes the host that it asked
            address = IPv4Address(0)
        for endpoint in self._endpoints():
            interface = endpoint.interface
            for syntax in interface.syntaxes:
                if syntax.name == "NDR":
                    yield endpoint, Tower(interface.uuid, interface.version, syntax.uuid, syntax.version,
                                          endpoint.port, address)

    def lookup(self, call: Call, request: Any) -> tuple[Any, ...]:
        """ept_lookup (2.2.1.2.4)"""
        if request.entry_handle != NULL_HANDLE:
            found = self._taken(call, request.entry_handle)
        elif request.inquiry_type not in (RPC_C_EP_ALL_ELTS, RPC_C_EP_MATCH_BY_IF, RPC_C_EP_MATCH_BY_OBJ,
                                          RPC_C_EP_MATCH_BY_BOTH):  # fmt: skip
            return NULL_HANDLE, 0, (), EPT_S_CANT_PERFORM_OP
        else:
            found = [EptEntry(NO_UUID, tower.encode(), endpoint.annotation.encode("ascii", "replace")[:63])
                     for endpoint, tower in self._towers(call) if _matches(request, endpoint.interface)]
        handle, entries = self._page(call, found, request.max_ents)
        return handle, len(entries), entries, 0 if entries else EPT_S_NOT_REGISTERED

    def map(self, call: Call, request: Any) -> tuple[Any, ...]:
        """ept_map (2.2.1.2.5)"""
        if request.entry_handle != NULL_HANDLE:
            found = self._taken(call, request.entry_handle)
        else:
            try:
                wanted = Tower.decode(request.map_tower) if request.map_tower is not None else None
            except Malformed:
                return NULL_HANDLE, 0, (), EPT_S_CANT_PERFORM_OP
            found = [] if wanted is None else [
                tower.encode() for _, tower in self._towers(call)
                if tower.interface == wanted.interface and _compatible(tower.version, wanted.version)
                and tower.transfer_syntax == wanted.transfer_syntax]
        handle, towers = self._page(call, found, request.max_towers)
        return handle, len(towers), towers, 0 if towers else EPT_S_NOT_REGISTERED

    def free(self, call: Call, request: Any) -> tuple[Any, ...]:
        """ept_lookup_handle_free (2.2.1.2.8)"""
        if request.entry_handle != NULL_HANDLE:
            self._taken(call, request.entry_handle)
        return NULL_HANDLE, 0

    def _taken(self, call: Call, handle: bytes) -> list[Any]:
        found: list[Any] = call.group.handles.find(handle, HANDLE, call.caller)
        call.group.handles.close(handle)
        return found

    def _page(self, call: Call, found: list[Any], most: int) -> tuple[bytes, list[Any]]:
        """So many of them as are asked for; the rest waits behind a handle."""
        page, rest = found[:most], found[most:]
        if not rest or not page:
            return NULL_HANDLE, page
        return call.group.handles.open(HANDLE, rest, lambda: None, call.caller), page


def _matches(request: Any, interface: Any) -> bool:
    kind = request.inquiry_type
    if kind in (RPC_C_EP_MATCH_BY_OBJ, RPC_C_EP_MATCH_BY_BOTH) and request.object not in (None, NO_UUID):
        return False  # nothing is registered for an object of its own
    if kind in (RPC_C_EP_ALL_ELTS, RPC_C_EP_MATCH_BY_OBJ):
        return True
    wanted = request.ifid
    if wanted is None or wanted.uuid != interface.uuid:
        return False
    return _version(request.vers_option, tuple(interface.version), (wanted.vers_major, wanted.vers_minor))


def _version(option: int, ours: tuple[int, int], asked: tuple[int, int]) -> bool:
    if option == ALL:
        return True
    if option == COMPATIBLE:
        return _compatible(ours, asked)
    if option == EXACT:
        return ours == asked
    if option == MAJOR_ONLY:
        return ours[0] == asked[0]
    return option == UP_TO and ours <= asked


def _compatible(ours: tuple[int, int], asked: tuple[int, int]) -> bool:
    return ours[0] == asked[0] and ours[1] >= asked[1]
