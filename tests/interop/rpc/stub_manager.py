"""A queue manager that answers from a table: what a client sends is kept and decoded, what it gets is what the test
put there. Only for proving clients: no security, no queues. It knows association groups, several contexts, fragments
both ways and verification trailers.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from lior.testing.serving import loopback_address
from tests.interop.rpc.second_interfaces import INTERFACES
from tests.interop.rpc.second_ndr import Interface, Method
from tests.interop.rpc.second_rpc import (
    ALTER,
    ALTER_RESPONSE,
    BIND,
    BIND_ACK,
    FAULT,
    FIRST,
    LAST,
    NDR64_SYNTAX,
    NDR_SYNTAX,
    REQUEST,
    RESPONSE,
    pdu,
    syntax,
)  # fmt: skip

_groups: Final = itertools.count(0x1001)
OPERATION_RANGE: Final = 0x1C010002  # of a method that the table has not
TRAILER: Final = bytes.fromhex("8ae3137102f43671")  # begins a verification trailer ([MS-RPCE] 2.2.2.13)


@dataclass
class Seen:
    """One call as it came."""

    method: str
    values: dict[str, Any]
    stub: bytes
    group: int
    connection: int


Answer = Mapping[str, Any] | int  # values of the response, or the status of a fault


@dataclass
class StubManager:
    """`table` is method -> answer, or a function of the request that gives one."""

    table: dict[str, Answer | Callable[[dict[str, Any]], Answer]] = field(default_factory=dict)
    fragment: int = 5840
    host: str = field(default_factory=loopback_address)
    port: int = 2103
    wide: bool = True  # take NDR64 where it is offered alone

    def __post_init__(self) -> None:
        self.calls: list[Seen] = []
        self.problems: list[BaseException] = []
        self.handle = self.other = bytes(20)  # for tests that want to name one
        self._listener = socket.create_server((self.host, self.port))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for stream in self._open:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        if error is None:
            assert not self.problems, self.problems

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(stream)
            thread = threading.Thread(target=self._guard, args=(stream, len(self._open)), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _guard(self, stream: socket.socket, number: int) -> None:
        try:
            with stream:
                _Served(self, stream, number).run()
        except OSError:
            pass  # the client went away
        except Exception as error:
            self.problems.append(error)

    def last(self, method: str) -> Seen:
        return next(seen for seen in reversed(self.calls) if seen.method == method)


class _Served:
    def __init__(self, manager: StubManager, stream: socket.socket, number: int) -> None:
        self.manager, self.stream, self.number = manager, stream, number
        self.contexts: dict[int, tuple[Interface, bool]] = {}
        self.group = 0
        self.room = manager.fragment
        self.stub = b""

    def run(self) -> None:
        with self.stream.makefile("rb") as incoming:
            while header := incoming.read(16):
                kind, flags, length, auth, call = struct.unpack_from("<2xBB4xHHI", header)
                assert not auth, "this stub has no security"
                body = incoming.read(length - 16)
                if kind in (BIND, ALTER):
                    self.stream.sendall(self._bound(kind, call, body))
                elif kind == REQUEST:
                    self.stub = (b"" if flags & FIRST else self.stub) + body[8:]
                    if flags & LAST:
                        self._answer(call, *struct.unpack_from("<HH", body, 4))

    def _bound(self, kind: int, call: int, body: bytes) -> bytes:
        _, receive, group, count = struct.unpack_from("<HHIB", body)
        self.room = min(self.room, receive)
        self.group = group or self.group or next(_groups)
        at, results = 12, b""
        wide = self.manager.wide and syntax(*NDR64_SYNTAX) in body  # then NDR is refused, as MIDL's servers do
        for _ in range(count):
            context, offered = struct.unpack_from("<HB", body, at)
            abstract = UUID(bytes_le=body[at + 4 : at + 20])
            transfers = [body[at + 24 + 20 * number :][:20] for number in range(offered)]
            at += 24 + 20 * offered
            results += self._result(context, abstract, transfers, wide)
        address = b"%d\0" % self.manager.port
        start = struct.pack("<HHIH", self.manager.fragment, self.manager.fragment, self.group, len(address)) + address
        start += bytes(-len(start) % 4)
        answer = BIND_ACK if kind == BIND else ALTER_RESPONSE
        return pdu(answer, call, start + struct.pack("<B3x", count) + results)

    def _result(self, context: int, abstract: UUID, transfers: list[bytes], wide: bool) -> bytes:
        interface = next((found for found in INTERFACES.values() if UUID(found.uuid) == abstract), None)
        if interface is None:
            return struct.pack("<HH", 2, 1) + bytes(20)
        taken = syntax(*(NDR64_SYNTAX if wide else NDR_SYNTAX))
        if taken in transfers:
            self.contexts[context] = interface, wide
            return struct.pack("<HH", 0, 0) + taken
        return struct.pack("<HH", 2, 2) + bytes(20)

    def _answer(self, call: int, context: int, opnum: int) -> None:
        interface, wide = self.contexts[context]
        method: Method = interface[opnum]
        end = self.stub.rfind(TRAILER)
        if end % 4 == 0:  # rfind's -1 is not
            self.stub = self.stub[:end]
        values = method.request.decode(self.stub, wide)
        self.manager.calls.append(Seen(method.name, values, self.stub, self.group, self.number))
        answer = self.manager.table.get(method.name, OPERATION_RANGE)
        if callable(answer):
            answer = answer(values)
        if isinstance(answer, int):
            self.stream.sendall(pdu(FAULT, call, struct.pack("<IHHI4x", 0, context, 0, answer)))
            return
        stub = method.response.encode(answer, wide)
        room = self.room - 24 & ~7
        for at in range(0, len(stub), room):
            flags = (FIRST if at == 0 else 0) | (LAST if at + room >= len(stub) else 0)
            self.stream.sendall(
                pdu(RESPONSE, call, struct.pack("<IHH", len(stub), context, 0) + stub[at : at + room], flags=flags)
            )
