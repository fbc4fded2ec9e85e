"""A queue opened by rpc_QMOpenQueueInternal ([MS-MQMP] 3.2.4.7): how messages are sent, and how they are read where
RemoteRead is not offered or the queue is on another computer.

A receive here has one phase: what the server removed and the connection lost is lost. So it is the second choice.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.client.rpc.errors import failure
from lior.client.rpc.transfer_buffer import TOO_SMALL, Room, received, wanted
from lior.errors import HRESULTS, LiorError, Malformed, OperationCancelled, Timeout
from lior.message import INFINITE, Message
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.structures import CACCreateRemoteCursor, CACTransferBufferV1, Send

if TYPE_CHECKING:
    from lior.client.rpc.link import Link

GET_REMOTE_QUEUE_NAME, CREATE_REMOTE_CURSOR, CLOSE_HANDLE, CLOSE_CURSOR, SET_CURSOR_PROPERTIES = 1, 4, 20, 22, 23
HANDLE_TO_FORMAT_NAME: Final = 26
RECEIVE_MESSAGE, CREATE_CURSOR = 2, 3
FIRST_NAME, MOST_NAME = 128, 0x80000  # WCHARs
NAME_TOO_SMALL: Final = HRESULTS["MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL"]
MQ_ACTION_RECEIVE: Final = 0
REMOTE_OPERATION: Final = 0x400E03E8  # MQ_INFORMATION_REMOTE_OPERATION: the old way to a cursor elsewhere (4.4)
TRIES: Final = 8  # with larger buffers each time
SLICE_MS: Final = 5000  # how long a server that cannot be told to stop is let wait
TIMED_OUT: Final = HRESULTS["MQ_ERROR_IO_TIMEOUT"]


class OpenQueue:
    """OpenQueueContext (3.2.1.2): Handle and Context of a queue."""

    __slots__ = ("context", "handle", "link", "name", "remote", "room", "transactional")

    def __init__(self, link: Link, name: str, handle: bytes, context: int, *, remote: str = "") -> None:
        self.link = link
        self.name = name
        self.handle = handle
        self.context = context
        self.remote = remote  # the computer whose queue the server reads for us; empty if it is the server's own
        self.transactional: bool | None = None
        self.room = Room()

    def read(self, action: int, timeout_ms: int, *, cursor: int = 0, uow: UUID | None = None) -> BufferRead:
        return BufferRead(self, action, timeout_ms, cursor, uow)

    def close(self) -> asyncio.Future[Any]:
        return self.link.method(QMCOMM, CLOSE_HANDLE, (self.handle,), where=self.name)

    async def format_name(self) -> str:
        """3.2.4.14: the name that the queue was opened by, as the server knows it."""
        room, method = FIRST_NAME, QMCOMM.methods[HANDLE_TO_FORMAT_NAME]
        for _ in range(TRIES):
            values = (self.handle, room, "", room)
            answer = await self.link.call(QMCOMM, HANDLE_TO_FORMAT_NAME, method.request.encode(values),
                                          partial(method.response.decode, request=values), where=self.name)  # fmt: skip
            if answer.result == NAME_TOO_SMALL and room < answer.pdw_length <= MOST_NAME:
                room = answer.pdw_length
                continue
            if answer.result & 0x80000000:
                raise failure(answer.result, self.name)
            return str(answer.lpwcs_format_name or "").partition("\0")[0]
        raise Malformed("the server asks for more room each time", where=self.name)

    async def create_cursor(self, dial: Any) -> int:
        """3.2.4.8, with the way that old servers go to a queue on another computer."""
        pcc = CACCreateRemoteCursor()
        answer = await self.link.method(QMCOMM2, CREATE_CURSOR, (self.handle, pcc), where=self.name)
        found: CACCreateRemoteCursor = answer.pcc
        if answer.result == REMOTE_OPERATION:
            try:
                await self._remote_cursor(found, dial)
            except BaseException:
                await self.close_cursor(found.h_cursor)
                raise
        return found.h_cursor

    async def _remote_cursor(self, found: CACCreateRemoteCursor, dial: Any) -> None:
        named = await self.link.method(QMCOMM, GET_REMOTE_QUEUE_NAME, (found.cli_p_qm_queue, None), where=self.name)
        computer = str(named.lplp_remote_queue_name or "").partition("\\")[0]
        there: Link = await dial(computer)
        try:
            nothing = CACTransferBufferV1(0, Send())
            made = await there.method(QMCOMM, CREATE_REMOTE_CURSOR, (nothing, found.srv_h_ac_queue), where=self.name)
        finally:
            await there.close()
        await self.link.method(QMCOMM, SET_CURSOR_PROPERTIES, (self.handle, found.h_cursor, made.ph_cursor),
                               where=self.name)

    async def close_cursor(self, cursor: int) -> None:
        await self.link.method(QMCOMM, CLOSE_CURSOR, (self.handle, cursor), where=self.name)


class BufferRead(asyncio.Future[Any]):
    """The answer to rpc_ACReceiveMessageEx, asked again with larger buffers where the message did not fit."""

    def __init__(self, queue: OpenQueue, action: int, timeout_ms: int, cursor: int, uow: UUID | None) -> None:
        super().__init__()
        self._queue = queue
        self._action = action
        self._cursor = cursor
        self._uow = uow
        self._tries = TRIES
        self._asked = False
        self._end = None if timeout_ms == INFINITE else self.get_loop().time() + timeout_ms / 1000
        self._sent: Any = None
        self._ask(timeout_ms)

    def _ask(self, timeout_ms: int) -> None:
        link = self._queue.link
        if not link.is_lior:
            timeout_ms = min(timeout_ms, SLICE_MS)
        buffer = wanted(self._queue.room, self._action, timeout_ms, self._cursor, self._uow)
        method = QMCOMM2.methods[RECEIVE_MESSAGE]
        request = (self._queue.context, buffer)

        def parse(stub: bytes) -> Any:
            return method.response.decode(stub, request)

        self._sent = link.start(QMCOMM2, RECEIVE_MESSAGE, method.request.encode(request),
                                (self, parse, None, self._queue.name))

    def cancel(self, msg: Any | None = None) -> bool:
        """A receive that waits is asked to end; a peek takes nothing, and ends at once."""
        if self.done():
            return False
        connection, number = self._sent
        if number:
            connection.cancel(number)
        if self._action != MQ_ACTION_RECEIVE:
            return super().cancel(msg)
        self._asked = True
        return False

    # What a connection takes for a future

    def set_result(self, value: Any) -> None:
        if isinstance(value, Message):
            super().set_result(value)
            return
        if self.done():
            return
        code = value.result
        if not code & 0x80000000:
            super().set_result(received(value.ptb))
        elif code in TOO_SMALL and self._tries and self._queue.room.grown(value.ptb):
            self._tries -= 1
            self._again(0)
        elif code == TIMED_OUT and not self._queue.link.is_lior:
            self._again(code)
        else:
            self.set_exception(failure(code, self._queue.name))

    def _again(self, code: int) -> None:
        left = INFINITE if self._end is None else round((self._end - self.get_loop().time()) * 1000)
        if self._asked:
            super().cancel()
        elif code and left <= 0:
            super().set_exception(failure(code, self._queue.name))
        else:
            self._ask(max(left, 0))

    def set_exception(self, error: Any) -> None:
        if self.done():
            return
        if self._asked and isinstance(error, OperationCancelled | Timeout):
            super().cancel()
        else:
            super().set_exception(error)


def give_up(error: LiorError) -> bool:
    """Whether another way to the queue may do what this one cannot."""
    return error.code in _OTHER_WAY


_OTHER_WAY: Final = frozenset(
    HRESULTS[name]
    for name in (
        "MQ_ERROR_QUEUE_NOT_FOUND", "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION", "MQ_ERROR_ILLEGAL_FORMATNAME",
        "MQ_ERROR_INVALID_PARAMETER", "MQ_ERROR_UNSUPPORTED_OPERATION", "MQ_ERROR_QUEUE_NOT_AVAILABLE",
    )
)  # fmt: skip
