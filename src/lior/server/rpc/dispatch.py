"""From a request to the handler of its method, and from what the handler says to a response.

A handler is called with the call and the decoded request. It returns the values of the response in the order of its
fields, or an awaitable of them, or PENDING when it will use `call.answer` or `call.fault` itself: that costs least.
It raises RpcFault, or a LiorError whose code the document has travel as a fault (MP-022).

Calls of one operation that stand one after another in what the network brought go to its batch handler together, if
it has one: many messages make one change then. What is unusual about a call is left to the handler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from lior.errors import LiorError, Malformed
from lior.protocols.rpc import faults
from lior.protocols.rpc.call import PENDING, Call
from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.presentation import Interfaces
from lior.wire.ndr import NDR

log = logging.getLogger("lior.rpc")

Handler = Callable[[Call, Any], Any | Awaitable[Any]]
# Each call has its decoded `request`. Ends some of them from that place on, or will, with answer or fault; tells how
# far it came. If it came nowhere, the first of them goes to the handler.
BatchHandler = Callable[[Sequence[Call], int], int]
MAX_BATCH: Final = 1024


class Operation:
    """One method of an interface with what carries it out."""

    __slots__ = ("anonymous", "batch", "decode", "encode", "handler", "name")

    def __init__(self, method: Any, handler: Handler, batch: BatchHandler | None, anonymous: bool) -> None:
        self.name: str = method.name
        self.decode = method.request.decode
        self.encode = method.response.encode
        self.handler = handler
        self.batch = batch
        self.anonymous = anonymous


Operations = Mapping[int, Operation]


class Dispatcher:
    """The interfaces of a server. `refuses_anonymous`: callers who have not said who they are, only get what is open
    to everybody. `least_level`: what calls over the network have to be protected with."""

    def __init__(self, refuses_anonymous: bool = True, least_level: int = 0) -> None:
        self.interfaces = Interfaces()
        self.refuses_anonymous = refuses_anonymous
        self.least_level = least_level
        self.calls = 0
        self.stopping = False
        self.faults: dict[int, int] = {}  # by status

    def register(
        self,
        interface: Any,
        handlers: Mapping[int, Handler],
        *,
        allow_anonymous: frozenset[int] = frozenset(),
        batches: Mapping[int, BatchHandler] | None = None,
    ) -> None:
        """Opnums without a handler answer nca_s_op_rng_error, as reserved ones do (MP-021)."""
        given = batches or {}
        operations = {opnum: Operation(interface.methods[opnum], handler, given.get(opnum), opnum in allow_anonymous)
                      for opnum, handler in handlers.items()}
        self.interfaces.add(interface, operations)

    def invoke(self, calls: list[Call]) -> None:
        """Carry out what came together, in its order. Every call is answered through its association's host."""
        batch: list[Call] = []
        running: Operation | None = None
        for call in calls:
            operation = self._operation(call)
            if operation is None:
                continue
            if batch and operation is not running:
                self._run_batch(running, batch)
                batch = []
            if operation.batch is not None:
                running = operation
                batch.append(call)
            else:
                self._run(operation, call)
        if batch:
            self._run_batch(running, batch)

    def _operation(self, call: Call) -> Operation | None:
        """Whether the call may be made, and its request decoded; None if that has ended it."""
        self.calls += 1
        if self.stopping:
            self.refuse(call, faults.SERVICE_NOT_AVAILABLE)
            return None
        operation: Operation | None = call.context.operations.get(call.opnum)
        if operation is None:
            self.refuse(call, faults.OPERATION_RANGE)
            return None
        if not operation.anonymous and not self._may_call(call):
            self.refuse(call, faults.ACCESS_DENIED)
            return None
        try:
            self._decode(operation, call)
        except RpcFault as fault:
            self.refuse(call, fault.status)
            return None
        except Malformed as error:
            log.debug("a request that does not decode", extra={"fields": {
                "method": operation.name, "peer": call.peer, "why": str(error)}})  # fmt: skip
            self.refuse(call, faults.BAD_STUB_DATA)
            return None
        except LiorError as error:  # it decodes, and what it names cannot be: a queue suffix that there is none of
            self.refuse(call, error.code)
            return None
        except Exception as error:  # a bug: the connection's other requests go on
            self.failed(operation, call, error)
            return None
        return operation

    def _may_call(self, call: Call) -> bool:
        if not call.peer:
            return True  # the kernel has said who it is
        if not call.security.caller.authenticated:
            return not self.refuses_anonymous
        return call.security.level >= self.least_level

    def _decode(self, operation: Operation, call: Call) -> None:
        syntax = call.syntax
        if call.stub is call.whole_stub:
            call.request = operation.decode(call.stub) if syntax is NDR else operation.decode(call.stub, None, syntax)
            return
        try:
            call.request = operation.decode(call.stub, None, syntax)
        except Malformed:  # a message that happens to end like a trailer
            call.request = operation.decode(call.whole_stub, None, syntax)
            return
        if call.trailer:
            raise RpcFault(call.trailer, "a verification trailer that contradicts the request")

    def refuse(self, call: Call, status: int) -> None:
        self._count(status)
        call.association.host.refuse(call, status)

    def _count(self, status: int) -> None:
        if len(self.faults) < 256 or status in self.faults:
            self.faults[status] = self.faults.get(status, 0) + 1

    def _run(self, operation: Operation, call: Call) -> None:
        try:
            values = operation.handler(call, call.request)
        except Exception as error:
            self.failed(operation, call, error)
            return
        if values is PENDING:
            return
        if type(values) is tuple or isinstance(values, list):
            call.association.host.answer(call, values)
        else:
            self._wait(operation, call, values)

    def _wait(self, operation: Operation, call: Call, awaitable: Awaitable[Any]) -> None:
        future = asyncio.ensure_future(awaitable)

        def cancel(_: Call) -> None:
            future.cancel()

        call.on_cancel = cancel

        def done(ended: asyncio.Future[Any]) -> None:
            call.on_cancel = None
            if ended.cancelled():
                call.fault(faults.CANCELLED)
            elif (error := ended.exception()) is not None:
                self.failed(operation, call, error)
            else:
                call.answer(ended.result())

        future.add_done_callback(done)

    def _run_batch(self, operation: Operation | None, calls: list[Call]) -> None:
        assert operation is not None and operation.batch is not None
        at = 0
        while at < len(calls):
            before = at
            try:
                at = operation.batch(calls, at)
            except Exception as error:
                for call in calls[at:]:
                    if not call.is_over:
                        self.failed(operation, call, error)
                return
            if at == before:
                self._run(operation, calls[at])
                at += 1

    def failed(self, operation: Operation, call: Call, error: BaseException) -> None:
        if isinstance(error, RpcFault):
            status = error.status
        elif isinstance(error, LiorError):
            status = error.code
        else:
            log.error("a method failed", exc_info=error, extra={"fields": {
                "method": operation.name, "peer": call.peer, "caller": str(call.caller.sid)}})  # fmt: skip
            status = faults.UNSPECIFIED
        self._count(status)
        call.fault(status)

    def encoded(self, call: Call, values: Any) -> bytes | None:
        """The stub of a response; None after a failure that ended the call."""
        operation: Operation = call.context.operations[call.opnum]
        try:
            stub: bytes = operation.encode(values, call.request, call.context.syntax)
        except Exception as error:
            self.failed(operation, call, error if not isinstance(error, LiorError) else RuntimeError(str(error)))
            return None
        return stub
