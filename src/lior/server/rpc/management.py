"""The remote management interface that every RPC server has ([C706] appendix Q, [MS-RPCE] 2.2.1.3).

Who may see what is served is asked nowhere; nobody may stop the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lior.protocols.rpc.call import Call
from lior.protocols.rpc.presentation import Interfaces
from lior.wire.interfaces.endpoint_mapper import RpcIfId

INQ_IF_IDS, INQ_STATS, IS_LISTENING, STOP_LISTENING, INQ_PRINC_NAME = range(5)
ACCESS_DENIED: Final = 5
UNKNOWN_AUTHN_SERVICE: Final = 0x000006D3  # RPC_S_UNKNOWN_AUTHN_SERVICE
CALLS_IN, CALLS_OUT, PACKETS_IN, PACKETS_OUT = range(4)


class RemoteManagement:
    def __init__(self, interfaces: Interfaces, calls: Callable[[], int]) -> None:
        self._interfaces = interfaces
        self._calls = calls

    def handlers(self) -> dict[int, Callable[[Call, Any], Any]]:
        return {INQ_IF_IDS: self.interfaces, INQ_STATS: self.statistics, IS_LISTENING: lambda call, request: (0, 1),
                STOP_LISTENING: lambda call, request: (ACCESS_DENIED,), INQ_PRINC_NAME: self.principal}

    def interfaces(self, call: Call, request: Any) -> tuple[Any, ...]:
        return tuple(RpcIfId(each.uuid, *each.version) for each in self._interfaces), 0

    def statistics(self, call: Call, request: Any) -> tuple[Any, ...]:
        """Calls in and out, packets in and out; packets are not counted."""
        found = [self._calls(), 0, 0, 0][:request.count]
        return len(found), found, 0

    def principal(self, call: Call, request: Any) -> tuple[Any, ...]:
        return b"", UNKNOWN_AUTHN_SERVICE
