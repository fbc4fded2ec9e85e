"""The interface `lior` on the server: sessions of the admin API for who came by RPC (docs/decisions/0007)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.errors import LiorError
from lior.protocols.rpc.call import PENDING
from lior.protocols.rpc.faults import BAD_STUB_DATA, TOO_BUSY, RpcFault
from lior.server.admin.session import ClientSession, Outcome
from lior.server.rpc.methods.tables import QUEUE, QUEUE_CONTEXT
from lior.wire import admin_frames
from lior.wire.interfaces.lior_session import ALIVE, CALL, CLOSE_SESSION, OPEN_SESSION

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call
    from lior.protocols.rpc.groups import Group
    from lior.queues.descriptor import Cursor, OpenQueueDescriptor
    from lior.security import Caller
    from lior.server.admin.service import AdminService
    from lior.server.rpc.methods.service import QueueService

log = logging.getLogger("lior.rpc")

KIND: Final = "LIOR_SESSION"
ALIVES: Final = 3  # signs of life in the time after which a client is gone
OK: Final = 0
NULL_HANDLE: Final = bytes(20)
_HANDLE_ARGUMENTS: Final = ("handle", "source", "target", "cursor")
_ENDING: Final = frozenset({"commit", "abort"})


class SessionCalls:
    """The handlers of the interface, and the sessions that are open."""

    def __init__(self, service: AdminService, methods: QueueService, drop: Callable[[Group], None]) -> None:
        self._service = service
        self._methods = methods
        self._drop = drop  # the connections of a client
        self._alive: dict[Group, float] = {}  # when they last said so
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None
        self._sessions: set[RpcSession] = set()

    def handlers(self) -> dict[int, Any]:
        return {OPEN_SESSION: self.open, CALL: self.call, CLOSE_SESSION: self.close, ALIVE: self.alive}

    def open(self, call: Call, request: Any) -> Any:
        if self._service.stopping or len(self._sessions) >= self._service.settings.max_sessions:
            raise RpcFault(TOO_BUSY, "no more sessions", where="admin.max_sessions")
        session = RpcSession(self._service, self._methods, call.caller, self._sessions.discard)
        handle = call.group.handles.open(KIND, session, session.end, call.caller)
        self._sessions.add(session)
        self._service.sessions_opened += 1
        hello = json.dumps(self._service.hello()).encode()
        return handle, len(hello), hello, OK

    def call(self, call: Call, request: Any) -> Any:
        session: RpcSession = call.group.handles.find(request.session, KIND, call.caller)
        session.call(call, request.frame)
        return PENDING

    def close(self, call: Call, request: Any) -> Any:
        session: RpcSession = call.group.handles.find(request.session, KIND, call.caller)
        call.group.handles.close(request.session)
        session.end()
        return NULL_HANDLE, OK

    def end_waits(self) -> None:
        """The queue manager stops: no message will come for those who wait."""
        for session in self._sessions:
            session.calls.end_waits()

    def alive(self, call: Call, request: Any) -> Any:
        idle = self._service.settings.idle_timeout
        self._alive[call.group] = self._loop.time()
        if self._look is None:
            self._look = self._loop.call_later(idle / 2, self._look_around)
        return round(idle * 1000 / ALIVES), OK

    def _look_around(self) -> None:
        idle = self._service.settings.idle_timeout
        now = self._loop.time()
        for group, said in list(self._alive.items()):
            if not group.connections:
                del self._alive[group]
            elif now - said > idle:
                del self._alive[group]
                log.warning("a client hangs: what it held is free again", extra={"fields": {
                    "client": group.client, "remedy": "raise admin.idle_timeout if it was only slow"}})  # fmt: skip
                self._drop(group)
        self._look = self._loop.call_later(idle / 2, self._look_around) if self._alive else None


class RpcSession:
    """A session and its calls that are not answered yet."""

    def __init__(
        self, service: AdminService, methods: QueueService, caller: Caller, ended: Callable[[RpcSession], None]
    ) -> None:
        self.calls = ClientSession(service, caller, self._answer)
        self._methods = methods
        self._ended = ended
        self._pending: dict[Any, Call] = {}

    def call(self, call: Call, frame: bytes) -> None:
        try:
            request, blobs = admin_frames.decode(bytes(frame))
        except LiorError:
            raise RpcFault(BAD_STUB_DATA, where="LiorCall.frame") from None
        number = request.get("id") if isinstance(request, Mapping) else None
        if not isinstance(number, int) or number in self._pending:
            raise RpcFault(BAD_STUB_DATA, "a call has an id of its own", where="LiorCall.frame")
        self._pending[number] = call
        borrowed = self._borrowed(call, request)
        try:
            self.calls.start(request, blobs)
        finally:
            for known, key in borrowed:
                known.pop(key, None) if isinstance(known, dict) else known.discard(key)

    def _borrowed(self, call: Call, request: Any) -> list[tuple[Any, Any]]:
        """Queues, cursors and a transaction that came by other interfaces. The session knows them while the arguments
        of a call are looked at, and no longer: they are not its to end."""
        arguments = request.get("args")
        borrowed: list[tuple[Any, Any]] = []
        if not isinstance(arguments, dict):
            return borrowed
        for name in _HANDLE_ARGUMENTS:
            said = arguments.get(name)
            if isinstance(said, dict) and isinstance(said.get("rpc"), str):
                found = _found(call, said)
                known: dict[int, Any] = self.calls.cursors if name == "cursor" else self.calls.handles
                arguments[name] = -1 if found is None else found.handle
                if found is not None and found.handle not in known:
                    known[found.handle] = found
                    borrowed.append((known, found.handle))
        transaction = self._borrowed_transaction(call, request.get("call"), arguments.get("transaction"))
        if transaction is not None:
            self.calls.transactions.add(transaction)
            borrowed.append((self.calls.transactions, transaction))
        return borrowed

    def _borrowed_transaction(self, call: Call, name: Any, said: Any) -> UUID | None:
        if name in _ENDING:  # by the handle that its enlistment gave
            return None
        try:
            transaction = UUID(said) if isinstance(said, str) else None
            if transaction is None or transaction in self.calls.transactions:
                return None
            self._methods.transaction_of(transaction, call)
        except (ValueError, LiorError):
            return None  # the session says what is wrong with it
        return transaction

    def _answer(self, number: Any, outcome: Outcome) -> None:
        call = self._pending.pop(number, None)
        if call is None:  # nobody waits for it
            return
        blobs = admin_frames.Blobs()
        frame = admin_frames.encode({"id": number, **outcome.to_json(blobs.put)}, blobs)
        call.answer((len(frame), frame, OK))

    def end(self) -> None:
        self.calls.close()
        self._pending.clear()
        self._ended(self)


def _found(call: Call, said: dict[str, Any]) -> OpenQueueDescriptor | Cursor | None:
    """The open queue behind a context handle of the caller's group, or one of its cursors."""
    for kind in (QUEUE_CONTEXT, QUEUE):
        with suppress(RpcFault, LiorError, ValueError, AttributeError):  # a queue elsewhere has no descriptor here
            opened = call.group.handles.find(bytes.fromhex(said["rpc"]), kind, call.caller)
            found: OpenQueueDescriptor | Cursor = (
                opened.cursors.find(said["cursor"]) if "cursor" in said else opened.descriptor)
            return found
    return None
