"""From the queue manager's replies to the answers of calls: no future and no task for a call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lior.errors import HRESULTS, LiorError
from lior.protocols.rpc.faults import UNSPECIFIED, RpcFault

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

log = logging.getLogger("lior.rpc")

OK = HRESULTS["MQ_OK"]
Values = Sequence[Any]  # of a response, in the order of its codec's fields
Failed = Callable[[Any, int], Values]  # from the request and an HRESULT


def answer(call: Call, make: Callable[[], Values]) -> None:
    """Answer from within the queue manager's own steps, where nothing may be raised: an error here must not be taken
    for one of the commit that came before."""
    try:
        call.answer(make())
    except Exception:
        log.exception("an answer of %s could not be made", call.interface.name)
        call.fault(UNSPECIFIED)


class Done:
    """The reply to what changes something: fixed values when it is on disk, others when it failed. The client waits
    for it even if it would rather cancel, so it is never taken back."""

    __slots__ = ("_call", "_failed", "_request", "_values")

    def __init__(self, call: Call, request: Any, values: Values, failed: Failed) -> None:
        self._call = call
        self._request = request
        self._values = values
        self._failed = failed

    def cancelled(self) -> bool:
        return False

    def set_result(self, value: Any, /) -> None:
        answer(self._call, lambda: self._values)

    def set_exception(self, error: LiorError, /) -> None:
        answer(self._call, lambda: self._failed(self._request, error.code))


class Then:
    """The reply to a step after which there is more to do."""

    __slots__ = ("_call", "_failed", "_request", "_then")

    def __init__(self, call: Call, request: Any, then: Callable[[Any], Values | None], failed: Failed) -> None:
        self._call = call
        self._request = request
        self._then = then  # gives the values of the answer, or None if it answers itself
        self._failed = failed

    def cancelled(self) -> bool:
        return False

    def set_result(self, value: Any, /) -> None:
        finish(self._call, self._request, self._failed, lambda: self._then(value))

    def set_exception(self, error: LiorError, /) -> None:
        answer(self._call, lambda: self._failed(self._request, error.code))


def finish(call: Call, request: Any, failed: Failed, then: Callable[[], Values | None]) -> None:
    try:
        values = then()
        if values is not None:
            call.answer(values)
    except RpcFault as fault:
        call.fault(fault.status)
    except LiorError as error:
        code = error.code
        answer(call, lambda: failed(request, code))
    except Exception:
        log.exception("a call of %s failed", call.interface.name)
        call.fault(UNSPECIFIED)


def code_only(request: Any, code: int) -> Values:
    return (code,)
