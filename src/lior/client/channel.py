"""The client's end of a session of the admin API: frames out, answers back to whoever waits for them."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from lior.client.session_calls import Future, Parser, plain, undoing
from lior.client.target import Reachable, Target, require_loopback
from lior.errors import LiorError, Malformed, MessageTooLarge, OperationCancelled, ServiceNotAvailable
from lior.message import Message
from lior.wire import admin_frames
from lior.wire.admin_json import error_from_json

FRAME: Final = 256 << 10  # bytes of calls in one frame; a longer one has a frame for itself
HEARTBEAT: Final = 30.0
CLOSE_SECONDS: Final = 5.0
LONGEST_ANSWER: Final = 64 << 20

class Call:
    __slots__ = ("arguments", "future", "name", "number", "parser", "sent")

    def __init__(
        self, number: int, name: str, arguments: Mapping[str, Any], parser: Parser | None, future: Future
    ) -> None:
        self.number = number
        self.name = name
        self.arguments = arguments
        self.parser = parser
        self.future = future
        self.sent = False


class Channel:
    """One session. `lost` when it ended, whoever ended it."""

    def __init__(self, target: Target, http: aiohttp.ClientSession, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.lost = False
        self._target = target
        self._http = http
        self._ws = ws
        self._loop = asyncio.get_running_loop()
        self._last = 0
        self._waiting: deque[Call] = deque()  # to be written
        self._calls: dict[int, Call] = {}  # written, to be answered
        self._cancelled: deque[int] = deque()
        self._changed = asyncio.Event()
        self._max_calls = 1
        self._max_frame = FRAME
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, target: Target) -> Channel:
        http = await _http_session(target)
        try:
            ws = await _connected(target, http)
            channel = cls(target, http, ws)
            await channel._begin()
        except BaseException:
            await http.close()
            raise
        return channel

    async def _begin(self) -> None:
        """The server speaks first, and says what it puts up with."""
        frame = await self._ws.receive()
        if frame.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            raise self._lost_error()
        value, _ = admin_frames.decode(frame.data)
        hello = value[0]["hello"] if isinstance(value, list) and value and "hello" in value[0] else None
        if hello is None:
            raise Malformed("the server did not introduce itself", where=str(self._target))
        self._max_calls = max(1, int(hello["max_calls"]) - 8)
        self._max_frame = int(hello["max_request_bytes"])
        self._tasks = [self._loop.create_task(self._read()), self._loop.create_task(self._write())]

    # Calls

    def call(self, name: str, arguments: Mapping[str, Any], parser: Parser | None = None) -> Future:
        """Messages and security descriptors among the arguments are written as such."""
        return self.start(name, arguments, parser).future

    def start(self, name: str, arguments: Mapping[str, Any], parser: Parser | None = None) -> Call:
        future: Future = self._loop.create_future()
        self._last += 1
        call = Call(self._last, name, arguments, parser, future)
        if self.lost:
            future.set_exception(self._lost_error())
        else:
            self._waiting.append(call)
            self._changed.set()
        return call

    def cancel(self, call: Call) -> None:
        """Ask for the end of a read that waits; its answer says whether it ended so."""
        if call.sent:
            self._cancelled.append(call.number)
            self._changed.set()
        elif not call.future.done():
            self._waiting.remove(call)
            call.future.set_exception(OperationCancelled("the read was cancelled on request"))

    # Out

    async def _write(self) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                while frame := self._frame():
                    await self._ws.send_bytes(frame)
        except ConnectionError:
            self._end()

    def _frame(self) -> bytes:
        """As many of the calls that wait as one frame and the server take; nothing for none."""
        blobs = admin_frames.Blobs()
        parts: list[dict[str, Any]] = []
        while self._cancelled:
            number = self._cancelled.popleft()
            if number in self._calls:
                self._last += 1
                parts.append({"id": self._last, "call": "cancel", "args": {"id": number}})
        size = 0
        while self._waiting and size < FRAME and len(self._calls) < self._max_calls:
            call = self._waiting.popleft()
            if call.future.done():  # its caller went away before it was written
                continue
            own = _size(call)
            if own > self._max_frame:
                call.future.set_exception(MessageTooLarge(
                    f"the call has about {own} bytes, the server takes {self._max_frame}", where=call.name,
                    remedy="send less at a time, or raise admin.max_request_bytes"))  # fmt: skip
                continue
            if parts and size + own > self._max_frame // 2:
                self._waiting.appendleft(call)
                break
            call.sent = True
            self._calls[call.number] = call
            arguments = {name: plain(value, blobs.put) for name, value in call.arguments.items() if value is not None}
            parts.append({"id": call.number, "call": call.name, "args": arguments})
            size += own
        return admin_frames.encode(parts, blobs) if parts else b""

    # In

    async def _read(self) -> None:
        try:
            async for frame in self._ws:
                if frame.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                    break
                answers, blobs = admin_frames.decode(frame.data)
                for answer in answers:
                    self._answered(answer, blobs)
                if self._waiting:
                    self._changed.set()
        except (ConnectionError, LiorError, KeyError, TypeError):
            return  # what is no answer ends the session
        finally:
            self._end()

    def _answered(self, answer: Any, blobs: bytes) -> None:
        call = self._calls.pop(answer["id"], None)
        if call is None:  # of a cancel
            return
        future = call.future
        if "error" in answer:
            if not future.done():
                future.set_exception(error_from_json(answer["error"]))
            return
        result = answer["result"]
        if future.done():
            self._undo(call, result)
            return
        try:
            future.set_result(result if call.parser is None else call.parser(result, blobs))
        except LiorError as error:
            future.set_exception(error)

    def _undo(self, call: Call, result: Any) -> None:
        undo = undoing(call.name, result)
        if undo is not None:
            self.call(*undo).add_done_callback(_ignore)

    # The end

    def _lost_error(self) -> ServiceNotAvailable:
        return ServiceNotAvailable("the connection to the queue manager was lost", where=str(self._target),
                                   remedy="see whether it runs; what was under way may have been done or not")

    def _end(self) -> None:
        if self.lost:
            return
        self.lost = True
        for call in [*self._calls.values(), *self._waiting]:
            if not call.future.done():
                call.future.set_exception(self._lost_error())
        self._calls.clear()
        self._waiting.clear()

    async def close(self) -> None:
        with suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(self._ws.close(), CLOSE_SECONDS)
        self._end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()


def _ignore(future: Future) -> None:
    if not future.cancelled():
        future.exception()


def _size(call: Call) -> int:
    """About what the call takes in a frame, and not less."""
    message = call.arguments.get("message")
    if not isinstance(message, Message):
        return 1000
    size = 2000 + len(message.body) + len(message.extension) + 12 * len(message.label) + 2 * len(message.packet)
    return size + (0 if message.security is None else 2 * len(message.security.sender_certificate) + 4096)


async def _http_session(target: Target) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    timeout = aiohttp.ClientTimeout(total=None, connect=30)
    if not target.socket_path:
        return aiohttp.ClientSession(headers=headers, timeout=timeout)
    return aiohttp.ClientSession(connector=_Local(target.socket_path), headers=headers, timeout=timeout)


class _Local(aiohttp.UnixConnector):
    """A Unix socket whose path may be longer than the address of one."""

    def __init__(self, path: str) -> None:
        self._reachable = Reachable(path)
        super().__init__(path=self._reachable.__enter__())

    async def close(self, *arguments: Any, **options: Any) -> None:
        await super().close(*arguments, **options)
        self._reachable.__exit__()


async def _connected(target: Target, http: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    url = target.url or "http://lior"
    if not target.checked:
        await _require_loopback(url)
    try:
        return await http.ws_connect(f"{url}/v1/session", heartbeat=HEARTBEAT, max_msg_size=LONGEST_ANSWER, compress=0)
    except aiohttp.WSServerHandshakeError as error:
        raise await _refusal(http, url, error) from error
    except (aiohttp.ClientError, OSError) as error:
        raise ServiceNotAvailable(f"the queue manager cannot be reached: {error}", where=str(target),
                                  remedy="see whether lior serve runs there, and on which port") from error


async def _require_loopback(url: str) -> None:
    parts = urlsplit(url)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ServiceNotAvailable(f"the host is not known: {error.strerror}", where=url,
                                  remedy="check its name") from error
    require_loopback(url, [str(info[4][0]) for info in found])


async def _refusal(http: aiohttp.ClientSession, url: str, error: aiohttp.WSServerHandshakeError) -> LiorError:
    """A refused WebSocket comes without its reason; a plain request is refused for the same one."""
    with suppress(aiohttp.ClientError, OSError, ValueError, LiorError):
        async with http.get(f"{url}/v1/properties") as response:
            told = await response.json()
            if "error" in told:
                return error_from_json(told["error"])
    return ServiceNotAvailable(f"the server refused the session: {error.status} {error.message}", where=url,
                               remedy="is this the admin port of a Lior queue manager?")
