"""The seam between the server's remote proxies and whoever dials out ([MS-MQMP] 3.1.5.3, [MS-MQQP] 3.2.4).

The server is a supporting server: it reads queues of other queue managers for clients that cannot. How it gets there
(name resolution, ports, RPC, identity) is the business of the reader that is given to it. Without one the documented
error is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol


class RemoteMessage(NamedTuple):
    """What RemoteQMStartReceive gave; any tuple of these will do."""

    packet: bytes  # a UserMessage packet
    arrive_time: int
    read: object | None  # to end the read with; None for a peek


class RemoteSession(Protocol):
    """A queue that RemoteQMOpenQueue opened. Every call raises a LiorError with the remote HRESULT, or
    MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE where none came. A receive that is cancelled cancels the remote read, and
    gives back a message that has come already."""

    def receive(self, action: int, timeout_ms: int, cursor: int) -> Awaitable[tuple[bytes, int, object | None]]:
        """RemoteQMStartReceive with a request number of its own; RemoteQMCancelReceive if it is cancelled."""
        ...

    async def end(self, read: object, taken: bool) -> None:
        """RemoteQMEndReceive."""
        ...

    async def create_cursor(self) -> int:
        """R_QMCreateRemoteCursor on the remote qmcomm."""
        ...

    async def close_cursor(self, cursor: int) -> None: ...

    async def purge(self) -> None: ...

    async def close(self) -> None:
        """RemoteQMCloseQueue, then dispose of the binding whatever came of it."""
        ...


class RemoteReader(Protocol):
    def open(self, computer: str, queue: int, descriptor: int, context: int) -> Awaitable[RemoteSession]:
        """Ask for the port, bind, RemoteQMOpenQueue ([MS-MQQP] 3.2.4.1) within five minutes; at most one attempt."""
        ...
