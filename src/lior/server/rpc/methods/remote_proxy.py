"""The supporting server's side of remote reads: proxies of queues elsewhere ([MS-MQMP] 3.1.4.17 to 3.1.4.22, 3.1.5.3).

Each of these calls waits for another queue manager, so it runs as a task; nothing of it holds up the engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from lior.errors import HRESULTS, IllegalCursorAction, InsufficientResources, InvalidHandle, LiorError, error_from_code
from lior.message import Message
from lior.names import SingleName, queue_path
from lior.protocols.rpc.call import PENDING
from lior.protocols.rpc.faults import CANCELLED, UNSPECIFIED
from lior.server.rpc.methods.answers import OK, Failed, Values, code_only
from lior.server.rpc.methods.received_buffer import fill, not_received, receive_of, shortage
from lior.server.rpc.methods.remote_reader import RemoteReader
from lior.server.rpc.methods.tables import (
    NULL_HANDLE,
    QUEUE,
    CursorProxy,
    Owner,
    RemoteProxy,
    unknown_cursor,
)
from lior.wire.interfaces.structures import MQ_ACTION_PEEK_NEXT, MQ_ACTION_RECEIVE
from lior.wire.ndr import NULL
from lior.wire.remote_packets import from_read

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call
    from lior.server.rpc.methods.service import QueueService

log = logging.getLogger("lior.rpc")
OPEN_TIMEOUT: Final = 300.0  # [MS-MQQP] 3.2.4.1


def path_of(service: QueueService, name: SingleName) -> tuple[str, str]:
    """Get Queue Path ([MS-MQDMPR] 3.1.7.1.26): the computer, and the path name of the queue."""
    path = queue_path(name, service.core.local, lambda number: None)
    return path.computer, str(path)


def remotely(service: QueueService, call: Call, request: Any, failed: Failed, work: Awaitable[Values]) -> Any:
    """Run what waits for another computer, and answer."""
    task = service.start(_answered(call, request, failed, work))

    def cancel(_: Call) -> None:
        task.cancel()

    call.on_cancel = cancel
    return PENDING


async def _answered(call: Call, request: Any, failed: Failed, work: Awaitable[Values]) -> None:
    try:
        call.answer(await work)
    except LiorError as error:
        call.answer(failed(request, error.code))
    except asyncio.CancelledError:
        call.fault(CANCELLED)
        raise
    except Exception:
        log.exception("a remote read failed")
        call.fault(UNSPECIFIED)
    finally:
        call.on_cancel = None


# Opening (3.1.4.17, hRemoteQueue not 0)


def not_opened(request: Any, code: int) -> Values:
    return (null_name(request), 0, NULL_HANDLE, code)


def null_name(request: Any) -> Any:
    """lplpRemoteQueueName is NULL as the client's outer pointer allows: NULL itself, or pointing to NULL."""
    return None if request.lplp_remote_queue_name is None else NULL


def open_remotely(service: QueueService, call: Call, request: Any, name: SingleName) -> Any:
    owner = Owner.of(call)
    computer, path = path_of(service, name)
    reader = service.require_reachable(owner, name, computer)
    service.hold(owner)
    return remotely(service, call, request, not_opened, _open(service, call, request, name, owner, computer, path,
                                                              reader))  # fmt: skip


async def _open(service: QueueService, call: Call, request: Any, name: SingleName, owner: Owner, computer: str,
                path: str, reader: RemoteReader) -> Values:
    try:
        async with asyncio.timeout(OPEN_TIMEOUT):
            session = await reader.open(computer, request.h_remote_queue, request.dwp_queue,
                                        request.dwp_remote_context)
    except TimeoutError:
        service.let_go(owner)
        raise error_from_code(HRESULTS["MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE"], "the computer does not answer",
                              where=computer) from None
    except BaseException:
        service.let_go(owner)
        raise
    proxy = RemoteProxy(service.numbers.free(service.opened), owner, str(name), name, path, session)
    service.opened[proxy.context] = proxy
    try:
        handle = call.group.handles.open(QUEUE, proxy, lambda: close_remotely(service, proxy), call.caller)
    except LiorError:
        close_remotely(service, proxy)
        raise
    if not call.group.connections:  # its client went away meanwhile, and nobody will run the handle down
        call.group.handles.close(handle)
        close_remotely(service, proxy)
    return (null_name(request), proxy.context, handle, OK)


def close_remotely(service: QueueService, proxy: RemoteProxy) -> None:
    """RemoteQMCloseQueue in the background (3.1.4.18, 3.1.7.1): the client does not wait for the other computer."""
    if service.opened.pop(proxy.context, None) is None:
        return
    service.let_go(proxy.owner)
    service.start(_close(proxy))


async def _close(proxy: RemoteProxy) -> None:
    try:
        await proxy.session.close()
    except LiorError as error:
        log.warning("the remote queue %s could not be closed: %s", proxy.path_name, error)


# Reading


def receive_remotely(service: QueueService, call: Call, request: Any, proxy: RemoteProxy) -> Any:
    receive = receive_of(request.ptb)
    cursor = 0
    if receive.cursor:
        cursor = _cursor(proxy, receive.cursor).remote_handle
    elif receive.action == MQ_ACTION_PEEK_NEXT:
        raise IllegalCursorAction("the next message is that of a cursor", where=proxy.format_name,
                                  remedy="peek the current message with a cursor first")
    return remotely(service, call, request, not_received, _receive(service, call, request, proxy, cursor))


async def _receive(service: QueueService, call: Call, request: Any, proxy: RemoteProxy, cursor: int) -> Values:
    """The message is the client's when its answer leaves, so it is acknowledged just before. What cannot be passed on
    goes back to its queue."""
    receive = receive_of(request.ptb)
    packet, arrived, read = await proxy.session.receive(receive.action, receive.request_timeout, cursor)
    taken = False
    try:
        message: Message = from_read(packet, queue_manager=service.core.properties.identifier)
        message.arrival_time = float(arrived)
        code = shortage(request.ptb, message)
        if code:
            return not_received(request, code)
        fill(request.ptb, message, service.core.clock.wall())
        taken = not call.cancelled
    finally:
        if receive.action == MQ_ACTION_RECEIVE and read is not None:
            # not left half done by a client that goes away in the middle
            await asyncio.shield(service.start(proxy.session.end(read, taken)))
    return (request.ptb, OK)


def purge_remotely(service: QueueService, call: Call, request: Any, proxy: RemoteProxy) -> Any:
    async def work() -> Values:
        await proxy.session.purge()
        return (OK,)

    return remotely(service, call, request, code_only, work())


# Cursors


def _cursor(proxy: RemoteProxy, number: int) -> CursorProxy:
    found = proxy.cursors.get(number)
    if found is None:
        raise unknown_cursor(number)
    return found


def create_remote_cursor(service: QueueService, call: Call, request: Any, proxy: RemoteProxy) -> Any:
    if len(proxy.cursors) >= service.settings.max_cursors:
        raise InsufficientResources("the handle has too many cursors", where="hCursor", remedy="close some")

    async def work() -> Values:
        remote = await proxy.session.create_cursor()
        if proxy.context not in service.opened:
            with suppress(LiorError):
                await proxy.session.close_cursor(remote)
            raise InvalidHandle("the queue was closed meanwhile", where=proxy.format_name)
        number = service.numbers.free(proxy.cursors)
        proxy.cursors[number] = CursorProxy(remote)
        request.pcc.h_cursor = number
        return (request.pcc, OK)

    return remotely(service, call, request, lambda request, code: (request.pcc, code), work())


def close_remote_cursor(service: QueueService, call: Call, request: Any, proxy: RemoteProxy) -> Any:
    """The proxy goes whatever the other computer says (3.1.4.19)."""
    remote = _cursor(proxy, request.h_cursor).remote_handle
    del proxy.cursors[request.h_cursor]

    async def work() -> Values:
        await proxy.session.close_cursor(remote)
        return (OK,)

    return remotely(service, call, request, code_only, work())
