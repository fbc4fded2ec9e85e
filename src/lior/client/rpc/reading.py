"""Reading a queue where it is, over RemoteRead ([MS-MQRR] 3.2): in two phases, so that no message is lost on its way.

R_StartReceive hands a message out and keeps it locked; R_EndReceive says that it has arrived, and it leaves the queue.
The stubs of these calls are packed here, for they come with every message; a test holds them against the codecs.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.client.rpc.errors import failure
from lior.errors import LiorError, Malformed, OperationCancelled, UnsupportedOperation
from lior.message import Message
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.message_sections import SectionsDecoder

if TYPE_CHECKING:
    from lior.client.rpc.link import Link

Otherwise = Callable[[], Awaitable[Any]]

START_RECEIVE, CANCEL_RECEIVE, END_RECEIVE = 7, 8, 9
START_TRANSACTIONAL_RECEIVE, END_TRANSACTIONAL_RECEIVE = 13, 15
ACTION_RECEIVE, ACTION_PEEK_CURRENT, ACTION_PEEK_NEXT = 0x00000000, 0x80000000, 0x80000001
LOOKUP_PEEK: Final = {"current": 0x40000010, "next": 0x40000011, "previous": 0x40000012}
LOOKUP_RECEIVE: Final = {"current": 0x40000020, "next": 0x40000021, "previous": 0x40000022}
RR_NACK, RR_ACK = 1, 2
WHOLE: Final = 0xFFFFFFFF  # of body and compound message: as much as there is
SEQUENCE_BITS: Final = 56  # of a lookup identifier; above them is 7 - priority

_START: Final = struct.Struct("<20s4xQIIIIII")
_END: Final = struct.Struct("<20sII")
_CANCEL: Final = struct.Struct("<20sI")
_STARTED: Final = struct.Struct("<I4xQIIIHxxIIII")  # of one section, up to its bytes
_CODE: Final = struct.Struct("<I")
FULL_PACKET: Final = 0  # SectionType


def start_stub(
    context: bytes, lookup_id: int, cursor: int, action: int, timeout_ms: int, request: int, uow: UUID | None = None
) -> bytes:
    stub = _START.pack(context, lookup_id, cursor, action, timeout_ms, request, WHOLE, WHOLE)
    return stub if uow is None else stub + uow.bytes_le


def parse_code(stub: bytes) -> None:
    """Of a method that answers an HRESULT and nothing else."""
    if len(stub) != _CODE.size:
        raise Malformed(f"an answer of {len(stub)} bytes", where="RemoteRead")
    (code,) = _CODE.unpack(stub)
    if code:
        raise failure(code)


def started(opnum: int, decoder: SectionsDecoder, stub: bytes) -> Message:
    """The message that R_StartReceive or R_StartTransactionalReceive gave."""
    code = int.from_bytes(stub[-4:], "little")
    if code:
        raise failure(code)
    try:
        arrived, sequence, count, _, _, kind, _, size, _, _ = _STARTED.unpack_from(stub)
    except struct.error:
        raise Malformed("cut", where="RemoteRead") from None
    end = _STARTED.size + size
    if count == 1 and kind == FULL_PACKET and len(stub) == end + (-end & 3) + _CODE.size:
        packet = stub[_STARTED.size : end]
    else:
        found = REMOTE_READ.methods[opnum].response.decode(stub)
        arrived, sequence = found[0], found[1]
        packet = b"".join(bytes(section.p_section_buffer or b"") for section in found[3] or ())
    message = decoder.decode(packet, arrived)
    message.lookup_identifier = 7 - message.priority << SEQUENCE_BITS | sequence
    return message


class QueueReader:
    """A queue that R_OpenQueue opened: QUEUE_CONTEXT_HANDLE."""

    __slots__ = ("_request", "context", "decoder", "link", "name")

    def __init__(self, link: Link, name: str, context: bytes, queue_manager: UUID) -> None:
        self.link = link
        self.name = name
        self.context = context
        self.decoder = SectionsDecoder(queue_manager)  # packets that say "here" mean that one
        self._request = 0

    def request(self) -> int:
        """dwRequestId: unique among the requests of this handle that are not ended."""
        self._request = self._request % 0xFFFFFFFF + 1
        return self._request

    def read(
        self, action: int, timeout_ms: int = 0, *, cursor: int = 0, lookup_id: int = 0, uow: UUID | None = None,
        kept: bool = False, ending: bool = True, otherwise: Otherwise | None = None,
    ) -> TwoPhaseRead:  # fmt: skip
        return TwoPhaseRead(self, action, timeout_ms, cursor, lookup_id, uow, kept=kept, ending=ending,
                            otherwise=otherwise)

    def end(self, request: int, take: bool, *, transactional: bool = False) -> asyncio.Future[Any]:
        opnum = END_TRANSACTIONAL_RECEIVE if transactional else END_RECEIVE
        stub = _END.pack(self.context, RR_ACK if take else RR_NACK, request)
        return self.link.call(REMOTE_READ, opnum, stub, parse_code, where=self.name)


class Taken:
    """A message that its queue keeps locked until `end`."""

    __slots__ = ("_reader", "_request", "message")

    def __init__(self, reader: QueueReader, request: int, message: Message) -> None:
        self._reader = reader
        self._request = request
        self.message = message

    async def end(self, take: bool) -> None:
        await self._reader.end(self._request, take)


class TwoPhaseRead(asyncio.Future[Any]):
    """The answer to a read. Cancelling asks the server to end the wait, and what comes first counts: the read ends as
    cancelled, or the message came after all. A message that leaves its queue (`kept`) is the caller's when the server
    has taken note that it arrived. Not `ending`, that is left to the caller. `otherwise` reads a message that does not
    fit into a packet."""

    def __init__(
        self, reader: QueueReader, action: int, timeout_ms: int, cursor: int, lookup_id: int, uow: UUID | None, *,
        kept: bool, ending: bool, otherwise: Otherwise | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._otherwise = otherwise
        self._other: asyncio.Future[Any] | None = None
        self._reader = reader
        self._kept = kept
        self._ending = ending
        self._asked = False
        self._message: Message | None = None
        self._transactional = uow is not None
        self._request = reader.request()
        opnum = START_RECEIVE if uow is None else START_TRANSACTIONAL_RECEIVE
        stub = start_stub(reader.context, lookup_id, cursor, action, timeout_ms, self._request, uow)
        decoder = reader.decoder
        pending = (_Started(self), lambda answer: started(opnum, decoder, answer), None, reader.name)
        self._sent = reader.link.start(REMOTE_READ, opnum, stub, pending)

    def cancel(self, msg: Any | None = None) -> bool:
        if self.done() or self._asked or self._message is not None:
            return False
        if self._other is not None:
            return self._other.cancel()
        if not self._kept:  # a peek takes nothing: it may end here and now, whatever the server does
            self._stop_waiting()
            return super().cancel(msg)
        self._asked = True
        reader = self._reader
        stub = _CANCEL.pack(reader.context, self._request)
        reader.link.call(REMOTE_READ, CANCEL_RECEIVE, stub, parse_code).add_done_callback(_ignore)
        return False

    def _stop_waiting(self) -> None:
        connection, number = self._sent
        if number:
            connection.cancel(number)

    # What the server says

    def came(self, message: Message) -> None:
        if self.done():
            return
        if not self._kept:
            self.set_result(message)
        elif not self._ending:
            self.set_result(Taken(self._reader, self._request, message))
        else:
            self._message = message
            reader = self._reader
            opnum = END_TRANSACTIONAL_RECEIVE if self._transactional else END_RECEIVE
            stub = _END.pack(reader.context, RR_ACK, self._request)
            reader.link.start(REMOTE_READ, opnum, stub, (_Ended(self), parse_code, None, reader.name))

    def failed(self, error: LiorError) -> None:
        if self.done():
            return
        if isinstance(error, OperationCancelled) and self._asked:
            super().cancel()
            return
        if isinstance(error, UnsupportedOperation) and self._otherwise is not None:
            self._other = asyncio.ensure_future(self._otherwise())
            self._other.add_done_callback(self._other_came)
            return
        if isinstance(error, Malformed) and self._kept:  # it is there, and stays there for who can read it
            self._reader.end(self._request, False, transactional=self._transactional).add_done_callback(_ignore)
        self.set_exception(error)

    def ended(self) -> None:
        self.set_result(self._message)

    def _other_came(self, other: asyncio.Future[Any]) -> None:
        if other.cancelled():
            super().cancel()
        elif (error := other.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(other.result())


class _Started:
    """What a connection takes for the future of R_StartReceive."""

    __slots__ = ("_read",)

    def __init__(self, read: TwoPhaseRead) -> None:
        self._read = read

    def done(self) -> bool:
        return False

    def set_result(self, message: Message) -> None:
        self._read.came(message)

    def set_exception(self, error: LiorError) -> None:
        self._read.failed(error)


class _Ended:
    """The same for R_EndReceive."""

    __slots__ = ("_read",)

    def __init__(self, read: TwoPhaseRead) -> None:
        self._read = read

    def done(self) -> bool:
        return False

    def set_result(self, _: None) -> None:
        self._read.ended()

    def set_exception(self, error: LiorError) -> None:
        self._read.set_exception(error)


def _ignore(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
