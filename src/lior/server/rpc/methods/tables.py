"""What clients hold: open queues, remote proxies, remote opens, units of work ([MS-MQMP] 3.1.1, [MS-MQQP] 3.1.1).

Context handles live with their association group. The DWORDs beside them (pdwQMContext, dwpQueue, hCursor) are only
numbers that anybody can send, so they are random, and each entry knows who may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from lior.errors import AccessDenied, InsufficientResources, InvalidHandle
from lior.names import SingleName
from lior.queues.descriptor import Cursor, OpenQueueDescriptor
from lior.queues.transaction import Transaction
from lior.security import Caller, Sid

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call
    from lior.server.rpc.methods.remote_reader import RemoteSession

RESERVED: Final = frozenset({0, 0x0B})  # 0 is "none"; rpc_ACCloseCursor takes no action for 0xB (3.1.4.19)
NULL_HANDLE: Final = bytes(20)

# Kinds of context handles: one of another kind is refused (MP-017, MP-027)
QUEUE: Final = "RPC_QUEUE_HANDLE"
TRANSACTION: Final = "RPC_INT_XACT_HANDLE"
OPEN_REMOTE: Final = "PCTX_OPENREMOTE_HANDLE_TYPE"
SESSION: Final = "PCTX_RRSESSION_HANDLE_TYPE"
REMOTE_READ: Final = "PCTX_REMOTEREAD_HANDLE_TYPE"
QUEUE_CONTEXT: Final = "QUEUE_CONTEXT_HANDLE"


class Owner(NamedTuple):
    """Who may use a number: the same identity from the same host."""

    sid: Sid
    host: str

    @classmethod
    def of(cls, call: Call) -> Owner:
        return cls(call.caller.sid, call.peer)


class Numbers:
    """Random 32-bit numbers for one name space (MP-081)."""

    def __init__(self, random: Callable[[int], int]) -> None:
        self._random = random

    def free(self, used: Container[int], besides: Container[int] = ()) -> int:
        while True:
            number = self._random(32)
            if number not in used and number not in besides and number not in RESERVED:
                return number


class Cursors:
    """The cursors of one open queue, by the numbers that its client knows (MP-177)."""

    __slots__ = ("_known", "_limit", "_numbers")

    def __init__(self, numbers: Numbers, limit: int) -> None:
        self._known: dict[int, Cursor] = {}
        self._numbers = numbers
        self._limit = limit

    def __len__(self) -> int:
        return len(self._known)

    def require_room(self) -> None:
        if len(self._known) >= self._limit:
            raise InsufficientResources(f"the handle has {self._limit} cursors already", where="hCursor",
                                        remedy="close some, or raise rpc.max_cursors")

    def add(self, cursor: Cursor) -> int:
        number = self._numbers.free(self._known)
        self._known[number] = cursor
        return number

    def find(self, number: int) -> Cursor:
        cursor = self._known.get(number)
        if cursor is None:
            raise unknown_cursor(number)
        return cursor

    def take(self, number: int) -> Cursor:
        cursor = self.find(number)
        del self._known[number]
        return cursor


class OpenQueue:
    """LocalQueueContextHandle (3.1.1.3): a queue that is open here, local or outgoing."""

    __slots__ = ("caller", "context", "cursors", "descriptor", "direct", "name", "owner", "sender_sid")

    def __init__(self, context: int, descriptor: OpenQueueDescriptor, name: SingleName, owner: Owner, caller: Caller,
                 cursors: Cursors, *, direct: bool, sender_sid: bytes) -> None:
        self.context = context
        self.descriptor = descriptor
        self.name = name
        self.owner = owner
        self.caller = caller
        self.cursors = cursors
        self.direct = direct  # opened by a direct name: no privacy (MP-157)
        self.sender_sid = sender_sid  # what its messages say of their sender; empty for nobody


class CursorProxy(NamedTuple):
    """3.1.1.6; made with the remote handle, so IsRemoteCursorHandleInitialized is always true."""

    remote_handle: int


class RemoteProxy:
    """RemoteQueueProxyHandle (3.1.1.5): a queue on another computer that this server reads for its client."""

    __slots__ = ("context", "cursors", "format_name", "name", "owner", "path_name", "session")

    def __init__(self, context: int, owner: Owner, format_name: str, name: SingleName, path_name: str,
                 session: RemoteSession) -> None:
        self.context = context
        self.owner = owner
        self.format_name = format_name
        self.name = name
        self.path_name = path_name
        self.session = session
        self.cursors: dict[int, CursorProxy] = {}


class OpenRemote:
    """OpenQueueDescriptor of R_QMOpenRemoteQueue, whose reader is another queue manager (3.1.1.8)."""

    __slots__ = ("cursors", "descriptor", "number", "owner", "reads", "session_owner")

    def __init__(self, number: int, descriptor: OpenQueueDescriptor, owner: Owner, cursors: Cursors) -> None:
        self.number = number  # pdwContext = phQueue = dwpQueue (MP-093)
        self.descriptor = descriptor
        self.owner = owner
        self.cursors = cursors
        self.session_owner: Owner | None = None  # who called RemoteQMOpenQueue
        self.reads: dict[int, object] = {}  # RemoteReadEntry by RequestId: reads that wait


class UnitOfWork(NamedTuple):
    """An enlisted transaction and who may use it (MP-121)."""

    transaction: Transaction
    owner: Owner


def unknown_cursor(number: int) -> InvalidHandle:
    return InvalidHandle(f"the handle has no cursor 0x{number:08X}", where="hCursor",
                         remedy="create the cursor with the handle that it is used with")


def not_yours(what: str) -> AccessDenied:
    return AccessDenied(f"{what} belongs to another client", where=what,
                        remedy="use it from the computer and as the user that it was made for")


def uow_of(value: UUID | bytes) -> UUID:
    """XACTUOW ([MS-MQMQ] 2.2.18.1.8) as the identifier of a transaction."""
    return value if isinstance(value, UUID) else UUID(bytes_le=bytes(value))
