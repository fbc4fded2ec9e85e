"""A client's session: what it holds, its calls under way, and its end."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.errors import (
    InvalidParameter,
    LiorError,
    Malformed,
    OperationCancelled,
    ServiceNotAvailable,
    StoreUnusable,
    TransactionSequence,
    UnsupportedOperation,
)
from lior.message import Message, ObjectId
from lior.queues.descriptor import Cursor, OpenQueueDescriptor, TwoPhaseRead
from lior.security import Caller, SecurityDescriptor
from lior.server.admin.arguments import parse
from lior.server.admin.calls import CALLS, Failed, require_administrator, too_many
from lior.wire.admin_json import ToJson, descriptor_to_json, error_to_json, message_to_json

if TYPE_CHECKING:
    from lior.server.admin.service import AdminService

log = logging.getLogger("lior.admin")

Answer = Callable[[Any, "Outcome"], None]  # the call's id as its client gave it, and what came of it
CANCEL: Final = "cancel"


class Outcome:
    """What a call came to. Its JSON is made when it is written, with the bytes of the frame it goes into."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: LiorError | None = None) -> None:
        self.value = value
        self.error = error

    def to_json(self, put: ToJson) -> dict[str, Any]:
        if self.error is not None:
            return {"error": error_to_json(self.error)}
        return {"result": presented(self.value, put)}

    @property
    def size(self) -> int:
        """About the bytes that it takes, to cut frames."""
        message = self.value.message if isinstance(self.value, TwoPhaseRead) else self.value
        return message.size + 500 if isinstance(message, Message) else 500


def presented(value: Any, put: ToJson) -> Any:
    if isinstance(value, Message):
        return message_to_json(value, put)
    if isinstance(value, TwoPhaseRead):
        return {"read": value.handle, "message": message_to_json(value.message, put)}
    if isinstance(value, SecurityDescriptor):
        return descriptor_to_json(value, put)
    if isinstance(value, UUID | ObjectId):
        return str(value)
    if isinstance(value, Failed):
        return {"error": error_to_json(value.error)}
    if isinstance(value, list):
        return [presented(each, put) for each in value]
    return value


class ClientSession:
    """Everything that a client holds ends with it ([MS-MQDMPR] 3.1.7.1.6)."""

    def __init__(self, service: AdminService, caller: Caller, answer: Answer | None = None) -> None:
        self.service = service
        self.caller = caller
        self.backend = service.backend.for_caller(caller)
        self.handles: dict[int, OpenQueueDescriptor] = {}
        self.cursors: dict[int, Cursor] = {}
        self.reads: dict[int, TwoPhaseRead] = {}  # messages handed out, until the client has them
        self.transactions: set[UUID] = set()
        self.closed = False
        self._answer = answer
        self._under_way: dict[Any, asyncio.Future[Any]] = {}

    @property
    def calls_under_way(self) -> int:
        return len(self._under_way)

    # What calls use

    def now(self, awaitable: Awaitable[Any]) -> Any:
        """The result of a backend call that is answered at once."""
        assert isinstance(awaitable, asyncio.Future)
        return awaitable.result()

    def require_room(self) -> None:
        limit = self.service.settings.max_handles
        if len(self.handles) + len(self.cursors) + len(self.transactions) >= limit:
            raise too_many("handles", limit)

    def own(self, transaction: UUID | None) -> UUID | None:
        """A transaction that this session began; those of others are none of its business."""
        if transaction is not None and transaction not in self.transactions:
            raise TransactionSequence("this session has no such transaction", where=str(transaction),
                                      remedy="begin one; transactions end with the session that began them")
        return transaction

    def began(self, transaction: UUID) -> None:
        self.transactions.add(transaction)
        if self.closed:  # while the call stood in line
            self._abandon()

    # Calls

    def run(self, name: Any, given: Any, blobs: bytes) -> Any:
        """Start a call: its value, or a future or coroutine of it."""
        call = CALLS.get(name) if isinstance(name, str) else None
        if call is None:
            raise UnsupportedOperation(f"there is no call {name!r}", where="call", remedy="GET /v1 lists the calls")
        if call.session and self._answer is None:
            raise UnsupportedOperation("this call needs a session", where=name, remedy="use the WebSocket /v1/session")
        if call.administrator:
            require_administrator(self, name)
        if self.service.stopping:
            raise stopping()
        return call.run(self, **parse(self, call.arguments, given, blobs))

    def start(self, request: Any, blobs: bytes) -> None:
        """A call of a frame: {"id": ..., "call": ..., "args": {...}}."""
        if not isinstance(request, Mapping):
            raise Malformed("a call is an object", where="frame")
        number, name = request.get("id"), request.get("call")
        if not isinstance(number, int | str):
            raise Malformed("a call has an id, a number or a string", where="frame")
        if name == CANCEL:
            self._cancel(number, request.get("args"))
            return
        try:
            if number in self._under_way:
                raise InvalidParameter(f"the id {number} is in use", where="id")
            if len(self._under_way) >= self.service.settings.max_calls:
                raise too_many("calls", self.service.settings.max_calls)
            started = self.run(name, request.get("args", {}), blobs)
        except Exception as error:
            self._say(number, Outcome(error=known(error)))
            return
        if inspect.iscoroutine(started):
            started = asyncio.get_running_loop().create_task(started)
        if not isinstance(started, asyncio.Future):
            self._say(number, Outcome(started))
        elif started.done():
            self._finished(number, started)
        else:
            self._under_way[number] = started
            started.add_done_callback(partial(self._finished, number))

    def _finished(self, number: Any, future: asyncio.Future[Any]) -> None:
        self._under_way.pop(number, None)
        outcome = Outcome(error=stopping()) if future.cancelled() and self.service.stopping else outcome_of(future)
        if isinstance(outcome.value, TwoPhaseRead) and not self.closed:
            self.reads[outcome.value.handle] = outcome.value
        self._say(number, outcome)

    def _say(self, number: Any, outcome: Outcome) -> None:
        if self._answer is not None and not self.closed:
            self._answer(number, outcome)

    def _cancel(self, number: Any, given: Any) -> None:
        """The read that waits ends as cancelled. What is not a waiting read goes on and is answered."""
        wanted = given.get("id") if isinstance(given, Mapping) else None
        future = self._under_way.get(wanted) if isinstance(wanted, int | str) else None
        if future is not None and not isinstance(future, asyncio.Task):
            future.cancel()
        self._say(number, Outcome())

    # The end

    def end_waits(self) -> None:
        """The queue manager stops: no message will come for those who wait."""
        for future in list(self._under_way.values()):
            if not isinstance(future, asyncio.Task):
                future.cancel()

    def close(self) -> None:
        """The client is gone: nothing that it held stays locked."""
        if self.closed:
            return
        self.closed = True
        self._abandon()
        for future in list(self._under_way.values()):
            future.cancel()

    def _abandon(self) -> None:
        manager = self.backend.manager
        known = [manager.core.transactions.get(identifier) for identifier in self.transactions]
        manager.client_lost(self.handles.values(), [each for each in known if each is not None])
        for held in (self.handles, self.cursors, self.reads, self.transactions):
            held.clear()


def outcome_of(future: asyncio.Future[Any]) -> Outcome:
    if future.cancelled():
        return Outcome(error=OperationCancelled("the call was cancelled"))
    error = future.exception()
    return Outcome(error=known(error)) if error is not None else Outcome(future.result())


def stopping() -> LiorError:
    return ServiceNotAvailable("the queue manager is stopping", remedy="try again when it is back")


def known(error: BaseException) -> LiorError:
    """A defect of ours is told as one, and is in the log with where it happened."""
    if isinstance(error, LiorError):
        return error
    log.error("a call failed", exc_info=error)
    return StoreUnusable(f"a defect in Lior, please report it: {error!r}", where="admin API",
                         remedy="the log of the server says more")
