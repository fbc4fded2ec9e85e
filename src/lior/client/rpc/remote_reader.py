"""How a queue manager reads a queue of another one for its clients, over qm2qm ([MS-MQQP] 3.2.4).

The client has opened the queue there (R_QMOpenRemoteQueue); the numbers that it was given open it for us. A message is
taken in two phases here, too: RemoteQMStartReceive, then RemoteQMEndReceive.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from lior.client.rpc.credentials import Credentials
from lior.client.rpc.dialing import RpcTarget
from lior.client.rpc.errors import failure
from lior.client.rpc.link import Link
from lior.errors import HRESULTS, LiorError, ServiceNotAvailable, error_from_code
from lior.protocols.rpc.faults import RpcFault
from lior.wire.interfaces.qm2qm import QM2QM, RR_ACK, RR_NACK, RemoteReadDesc
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.structures import CACTransferBufferV1, Send

START_RECEIVE, END_RECEIVE, OPEN_QUEUE, CLOSE_QUEUE, CLOSE_CURSOR, CANCEL_RECEIVE, PURGE_QUEUE, SERVER_PORT = range(8)
CREATE_REMOTE_CURSOR: Final = 4
IP_READ: Final = 1  # dwPortType: qm2qm over TCP
PORT: Final = 2105
REMOTE_CANCELLED: Final = 0x400E03E9  # MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT
CANCELLED: Final = HRESULTS["MQ_ERROR_OPERATION_CANCELLED"]
NOT_AVAILABLE: Final = HRESULTS["MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE"]


class QmReader:
    """Sessions with other queue managers, as one identity. `identifier` is that of our queue manager."""

    def __init__(self, identifier: UUID, credentials: Credentials | None = None, port: int = PORT) -> None:
        self._credentials = credentials or Credentials(level="none")
        self._identifier = identifier
        self._port = port

    async def open(self, computer: str, queue: int, descriptor: int, context: int) -> QmSession:
        """3.2.4.1. The port is asked for where the known one is, or where the endpoint mapper says."""
        try:
            link = await self._dial(computer)
        except ServiceNotAvailable as error:
            raise _unavailable(computer, error) from error
        try:
            opened = await link.method(QM2QM, OPEN_QUEUE, (self._identifier, 0, queue, descriptor, context))
        except BaseException as error:
            await link.close()
            if isinstance(error, ServiceNotAvailable | RpcFault):
                raise _unavailable(computer, error) from error
            raise
        return QmSession(link, computer, opened.ph_context, queue)

    async def _dial(self, computer: str) -> Link:
        target = RpcTarget(host=computer, port=self._port, credentials=self._credentials, mapped=QM2QM)
        link = await Link.open(target.dial, (QM2QM, QMCOMM))
        try:
            port = (await link.method(QM2QM, SERVER_PORT, (IP_READ,))).result
        except BaseException:
            await link.close()
            raise
        if port in (0, link.port):
            return link
        await link.close()
        target = RpcTarget(host=computer, port=port, credentials=self._credentials)
        return await Link.open(target.dial, (QM2QM, QMCOMM))


class QmSession:
    """A queue that RemoteQMOpenQueue opened."""

    def __init__(self, link: Link, computer: str, session: bytes, queue: int) -> None:
        self._link = link
        self._computer = computer
        self._session = session
        self._queue = queue
        self._last = 0

    async def receive(self, action: int, timeout_ms: int, cursor: int) -> tuple[bytes, int, object | None]:
        """3.2.4.2, 3.2.4.3. Cancelled, it asks the other queue manager to end the wait; a message that was on its way
        meanwhile goes back."""
        self._last = self._last % 0xFFFFFFFF + 1
        request = self._last
        asked = RemoteReadDesc(
            h_remote_queue=self._queue, h_cursor=cursor, ul_action=action, ul_timeout=timeout_ms, dw_queue=self._queue,
            dw_request_id=request,
        )  # fmt: skip
        started = asyncio.ensure_future(self._call(QM2QM, START_RECEIVE, asked))
        try:
            answer = await asyncio.shield(started)
        except asyncio.CancelledError:
            cancel = self._call(QM2QM, CANCEL_RECEIVE, self._queue, self._queue, request)
            started.add_done_callback(self._came_too_late)
            with suppress(LiorError):
                await asyncio.shield(cancel)
            raise
        if answer.result == REMOTE_CANCELLED:
            raise failure(CANCELLED, self._computer)
        found = answer.lp_remote_read_desc
        packet = bytes(found.lp_buffer or b"")
        return packet, found.dw_arrive_time, answer.pph_context if any(answer.pph_context) else None

    def _came_too_late(self, started: asyncio.Future[Any]) -> None:
        if started.cancelled() or started.exception() is not None:
            return
        context = started.result().pph_context
        if any(context):
            self._call(QM2QM, END_RECEIVE, context, RR_NACK).add_done_callback(_ignore)

    async def end(self, read: object, taken: bool) -> None:
        await self._call(QM2QM, END_RECEIVE, read, RR_ACK if taken else RR_NACK)

    async def create_cursor(self) -> int:
        made = await self._call(QMCOMM, CREATE_REMOTE_CURSOR, CACTransferBufferV1(0, Send()), self._queue)
        return int(made.ph_cursor)

    async def close_cursor(self, cursor: int) -> None:
        await self._call(QM2QM, CLOSE_CURSOR, self._queue, cursor)

    async def purge(self) -> None:
        await self._call(QM2QM, PURGE_QUEUE, self._queue)

    async def close(self) -> None:
        """3.2.4.9"""
        try:
            await self._call(QM2QM, CLOSE_QUEUE, self._session)
        finally:
            await self._link.close()

    def _call(self, interface: Any, opnum: int, *values: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._told(interface, opnum, values))

    async def _told(self, interface: Any, opnum: int, values: tuple[Any, ...]) -> Any:
        try:
            return await self._link.method(interface, opnum, values, where=self._computer)
        except (ServiceNotAvailable, RpcFault) as error:
            raise _unavailable(self._computer, error) from error


def _unavailable(computer: str, error: LiorError) -> LiorError:
    return error_from_code(NOT_AVAILABLE, error.what, where=computer,
                           remedy="see whether it serves, and whom it lets in")


def _ignore(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
