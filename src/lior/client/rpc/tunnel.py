"""A session of the admin API through the interface `lior`: for what the documented interfaces lack."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lior.client.session_calls import Future, Parser, plain, undoing
from lior.errors import Malformed, MessageTooLarge
from lior.wire import admin_frames
from lior.wire.admin_json import error_from_json
from lior.wire.interfaces.lior_session import CALL, CLOSE_SESSION, LIOR, OPEN_SESSION

if TYPE_CHECKING:
    from lior.client.rpc.link import Link

_REQUEST: Final = struct.Struct("<20sII")  # session, size, maximum count
_ANSWER: Final = struct.Struct("<III")  # size, referent, maximum count


class TunnelCall:
    __slots__ = ("future", "number")

    def __init__(self, number: int, future: Future) -> None:
        self.number = number
        self.future = future


class Tunnel:
    """`lior.client.session_calls.SessionChannel` on a link."""

    def __init__(self, link: Link, session: bytes, hello: Mapping[str, Any]) -> None:
        self.link = link
        self.hello = hello
        self._session = session
        self._last = 0
        self._closed = False

    @classmethod
    async def open(cls, link: Link) -> Tunnel:
        opened = await link.method(LIOR, OPEN_SESSION, ())
        try:
            hello = json.loads(bytes(opened.hello or b""))
        except ValueError:
            hello = None
        if not isinstance(hello, Mapping):
            raise Malformed("the server did not introduce itself", where=link.where)
        return cls(link, opened.session, hello)

    @property
    def lost(self) -> bool:
        return self._closed or self.link.lost

    def call(self, name: str, arguments: Mapping[str, Any], parser: Parser | None = None) -> Future:
        return self.start(name, arguments, parser).future

    def start(self, name: str, arguments: Mapping[str, Any], parser: Parser | None = None) -> TunnelCall:
        self._last += 1
        number = self._last
        blobs = admin_frames.Blobs()
        given = {key: plain(value, blobs.put) for key, value in arguments.items() if value is not None}
        frame = admin_frames.encode({"id": number, "call": name, "args": given}, blobs)
        if len(frame) > self.hello.get("max_request_bytes", len(frame)):
            future: Future = self.link.first.bound.get_loop().create_future()
            future.set_exception(MessageTooLarge(f"the call has {len(frame)} bytes", where=name,
                                                 remedy="send less at a time, or raise admin.max_request_bytes"))
            return TunnelCall(number, future)

        def parse(stub: bytes) -> Any:
            answer, beside = _frame(stub)
            if "error" in answer:
                raise error_from_json(answer["error"])
            result = answer["result"]
            return result if parser is None else parser(result, beside)

        def undo(result: Any) -> None:
            undone = undoing(name, result)
            if undone is not None:
                self.call(*undone).add_done_callback(_ignore)

        stub = _REQUEST.pack(self._session, len(frame), len(frame)) + frame
        return TunnelCall(number, self.link.call(LIOR, CALL, stub, parse, undo))

    def cancel(self, call: TunnelCall) -> None:
        self.call("cancel", {"id": call.number}).add_done_callback(_ignore)

    async def close(self) -> None:
        if not self.lost:
            self._closed = True
            await self.link.method(LIOR, CLOSE_SESSION, (self._session,))


def _frame(stub: bytes) -> tuple[Any, bytes]:
    """The answer's frame: its JSON and the bytes beside it."""
    try:
        size, _, count = _ANSWER.unpack_from(stub)
    except struct.error:
        raise Malformed("cut", where="LiorCall") from None
    if size != count or len(stub) < _ANSWER.size + size:
        raise Malformed("sizes that do not fit", where="LiorCall")
    answer, beside = admin_frames.decode(stub[_ANSWER.size : _ANSWER.size + size])
    if not isinstance(answer, Mapping) or not ("error" in answer or "result" in answer):
        raise Malformed("an answer that is none", where="LiorCall")
    return answer, beside


def _ignore(future: Future) -> None:
    if not future.cancelled():
        future.exception()


