"""What the transfer can be told, besides the timers and sizes of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lior.protocols.binary.settings import SessionSettings

PORT = 1801  # [MS-MQQB] 2.1.1
PING_PORT = 3527  # [MS-MQQB] 2.1.2


@dataclass(frozen=True, slots=True)
class TransferSettings:
    addresses: tuple[str, ...] = ("127.0.0.1",)  # to listen on; a single one is also where connections come from
    port: int = PORT  # 0: listen nowhere
    peer_port: int = PORT  # where the others listen
    session: SessionSettings = field(default_factory=SessionSettings)
    connect_timeout: float = 30.0
    max_sessions: int = 1024
    max_half_open: int = 64  # handshakes under way for each remote address
    ping_port: int = PING_PORT
    routes: Mapping[str, str] = field(default_factory=dict)  # host or queue manager GUID -> host[:port] of the next hop
    trace_queues: Mapping[str, str] = field(default_factory=dict)  # GUID of a tracing queue -> path name
