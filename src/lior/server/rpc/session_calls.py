"""The interface `lior` on the server: sessions of the admin API for who came by RPC (docs/decisions/0007)."""

from __future__ import annotations

import json
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
from lior.wire.interfaces.lior_session import CALL, CLOSE_SESSION, OPEN_SESSION

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call
    from lior.queues.descriptor import OpenQueueDescriptor
    from lior.security import Caller
    from lior.server.admin.service import AdminService
    from lior.server.rpc.methods.service import QueueService

KIND: Final = "LIOR_SESSION"
OK: Final = 0
NULL_HANDLE: Final = bytes(20)
_HANDLE_ARGUMENTS: Final = ("handle", "source", "target")
_ENDING: Final = frozenset({"commit", "abort"})


class SessionCalls:
    """The handlers of the interface, and the sessions that are open."""

    def __init__(self, service: AdminService, methods: QueueService) -> None:
        self._service = service
        self._methods = methods
        self._sessions: set[RpcSession] = set()

    def handlers(self) -> dict[int, Any]:
        return {OPEN_SESSION: self.open, CALL: self.call, CLOSE_SESSION: self.close}

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
        """The queue manager stops."""
        for session in self._sessions:
            session.calls.end_waits()


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
        handles, transaction = self._borrowed(call, request)
        try:
            self.calls.start(request, blobs)
        finally:
            for handle in handles:
                self.calls.handles.pop(handle, None)
            if transaction is not None:
                self.calls.transactions.discard(transaction)

    def _borrowed(self, call: Call, request: Any) -> tuple[list[int], UUID | None]:
        """Queues and a transaction that came by other interfaces. The session knows them while the arguments of a call
        are looked at, and no longer: they are not its to end."""
        arguments = request.get("args")
        handles: list[int] = []
        if not isinstance(arguments, dict):
            return handles, None
        for name in _HANDLE_ARGUMENTS:
            said = arguments.get(name)
            if isinstance(said, dict) and isinstance(said.get("rpc"), str):
                descriptor = _descriptor(call, said["rpc"])
                if descriptor is not None and descriptor.handle not in self.calls.handles:
                    self.calls.handles[descriptor.handle] = descriptor
                    handles.append(descriptor.handle)
                arguments[name] = -1 if descriptor is None else descriptor.handle
        if request.get("call") in _ENDING:  # by the handle that its enlistment gave
            return handles, None
        return handles, self._borrowed_transaction(call, arguments.get("transaction"))

    def _borrowed_transaction(self, call: Call, said: Any) -> UUID | None:
        try:
            transaction = UUID(said) if isinstance(said, str) else None
            if transaction is None or transaction in self.calls.transactions:
                return None
            self._methods.transaction_of(transaction, call)
        except (ValueError, LiorError):
            return None  # the session says what is wrong with it
        self.calls.transactions.add(transaction)
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


def _descriptor(call: Call, text: str) -> OpenQueueDescriptor | None:
    """The open queue behind a context handle of the caller's group."""
    try:
        handle = bytes.fromhex(text)
        for kind in (QUEUE_CONTEXT, QUEUE):
            with suppress(RpcFault):
                found: OpenQueueDescriptor = call.group.handles.find(handle, kind, call.caller).descriptor
                return found
    except (ValueError, AttributeError):  # a queue elsewhere has no descriptor here
        return None
    return None
