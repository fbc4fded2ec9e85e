"""An HTTP request with a message's body. The standard library's client, in a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from lior.client.triggers.properties import header_fields_of
from lior.client.triggers.rules import Http

READ: Final = 65536  # bytes of the answer's body that are read, so that the server sees its answer taken


class _Call:
    """One request. `end` may come from another thread at any time: it closes the connection under it."""

    def __init__(self, action: Http, body: bytes, properties: Mapping[str, str], timeout: float) -> None:
        self._action = action
        self._body = body
        self._timeout = timeout
        self._fields = {"Content-Type": "application/octet-stream", "User-Agent": "lior-trigger"}
        given = {name.lower() for name in action.headers}
        self._fields = {name: value for name, value in self._fields.items() if name.lower() not in given}
        self._fields |= action.headers | header_fields_of(properties) | {"Connection": "close"}
        self._lock = threading.Lock()
        self._ended = False
        self._connection: http.client.HTTPConnection | None = None

    def run(self) -> str:
        """What went wrong, or nothing."""
        url = urlsplit(self._action.url)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection = self._connect(url.scheme == "https", url.hostname or "", url.port)
        try:
            connection.connect()
            with self._lock:
                if self._ended:
                    return "it was ended while it connected"
            connection.request(self._action.method, target, self._body, self._fields)
            answer = connection.getresponse()
            answer.read(READ)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"the request failed: {str(error) or type(error).__name__}"
        finally:
            connection.close()
        return "" if 200 <= answer.status <= 299 else f"HTTP status {answer.status} {answer.reason}"[:200]

    def _connect(self, secure: bool, host: str, port: int | None) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        with self._lock:
            self._connection = connection
            if self._ended:
                raise OSError("it was ended before it began")
        return connection

    def end(self) -> None:
        with self._lock:
            self._ended = True
            found = self._connection.sock if self._connection is not None else None
        if isinstance(found, socket.socket):
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)


async def call(action: Http, body: bytes, properties: Mapping[str, str], timeout: float) -> str:
    """Make the request; answers what went wrong, or nothing. The time is for all of it: a server that answers
    one byte at a time is cut off too."""
    request = _Call(action, body, properties, timeout)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    threading.Thread(target=_run, args=(request, loop, answer), name="lior-trigger-http", daemon=True).start()
    try:
        return await asyncio.wait_for(answer, timeout)
    except TimeoutError:
        return f"it took longer than {timeout:g} s"
    finally:
        request.end()


def _run(request: _Call, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[str]) -> None:
    try:
        found = request.run()
    except Exception as error:
        found = f"the request failed: {str(error) or type(error).__name__}"
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(functools.partial(_settle, answer, found))


def _settle(answer: asyncio.Future[str], found: str) -> None:
    if not answer.done():
        answer.set_result(found)
