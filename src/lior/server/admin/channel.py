"""A client session's WebSocket: frames in, calls to its session, answers out, many in one frame."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from lior.errors import LiorError, Malformed
from lior.security import Caller
from lior.server.admin.session import ClientSession, Outcome
from lior.wire import admin_frames
from lior.wire.admin_json import error_to_json

if TYPE_CHECKING:
    from lior.server.admin.service import AdminService

log = logging.getLogger("lior.admin")

FRAME: Final = 256 << 10  # bytes of answers in one frame; a longer one has a frame for itself
STOPPING: Final = b"the queue manager stops"


class Channel:
    def __init__(self, service: AdminService, caller: Caller, *, text: bool) -> None:
        self.session = ClientSession(service, caller, self._answer)
        self._service = service
        self._text = text  # a client that wants no binary frames
        self._socket = web.WebSocketResponse(
            heartbeat=service.settings.idle_timeout, max_msg_size=service.settings.max_request_bytes, compress=False
        )
        self._answers: deque[tuple[Any, Outcome]] = deque()
        self._changed = asyncio.Event()  # there are answers, or it ends
        self._written = asyncio.Event()  # no answers are left
        self._over = asyncio.Event()  # nothing is under way any more, and nothing comes
        self._finishing = False

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        await self._socket.prepare(request)
        writer = asyncio.get_running_loop().create_task(self._write())
        try:
            await self._read()
        finally:
            self.session.close()
            self._over.set()
            writer.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await writer
        return self._socket

    # In

    async def _read(self) -> None:
        limit = self._service.settings.max_calls
        async for frame in self._socket:
            if frame.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                continue
            try:
                self._take(frame.data)
            except Malformed as error:
                await self._refuse(error)
                return
            while len(self._answers) >= limit:  # it does not read its answers: no more calls of it
                self._written.clear()
                await self._written.wait()

    def _take(self, data: bytes | str) -> None:
        value, blobs = admin_frames.decode(data)
        for request in value if isinstance(value, list) else [value]:
            self.session.start(request, blobs)

    async def _refuse(self, error: LiorError) -> None:
        """What is no frame of ours ends the session: who knows what the next one would be."""
        with suppress(ConnectionError):
            await self._socket.send_json([{"id": None, "error": error_to_json(error)}])
            await self._socket.close(code=WSCloseCode.INVALID_TEXT, message=error.what.encode()[:120])

    # Out

    def _answer(self, number: Any, outcome: Outcome) -> None:
        self._answers.append((number, outcome))
        self._changed.set()

    async def _write(self) -> None:
        await self._send([{"hello": self._service.hello()}], admin_frames.Blobs())
        while True:
            while self._answers:
                blobs = admin_frames.Blobs()
                put = admin_frames.base64 if self._text else blobs.put
                answers, size = [], 0
                while self._answers and size < FRAME:
                    number, outcome = self._answers.popleft()
                    answers.append({"id": number, **outcome.to_json(put)})
                    size += outcome.size
                await self._send(answers, blobs)
            self._written.set()
            self._changed.clear()
            if self._finishing and not self.session.calls_under_way:
                self._over.set()
            await self._changed.wait()

    async def _send(self, answers: list[Any], blobs: admin_frames.Blobs) -> None:
        if self._text:
            await self._socket.send_json(answers)
        else:
            await self._socket.send_bytes(admin_frames.encode(answers, blobs))

    async def finish(self, seconds: float) -> None:
        """Answer what is under way, end the reads that wait, and say goodbye."""
        self._finishing = True
        self.session.end_waits()
        self._changed.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        with suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(self._socket.close(code=WSCloseCode.GOING_AWAY, message=STOPPING), 2.0)
