"""One connection of a sender: its requests in order, each taken as soon as it is there, its answers in the same order.

Requests behind one another need not wait for each other's commit: what comes in one read is on disk with one sync. So
several wait for their answers at a time, which HTTP/1.1 calls pipelining; the header Lior-Pipeline says how many.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, cast

from lior.errors import LiorError, Malformed
from lior.server.srmp.incoming import NO_ROOM, REFUSED, Request
from lior.wire.http1 import RequestHead, Requests

if TYPE_CHECKING:
    from lior.server.srmp.listener import Listener

log = logging.getLogger("lior.srmp")

DIRECTORY: Final = "/msmq/"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
PIPELINE: Final = 64  # requests of a connection that wait for their answers
MOST_WAITING: Final = 8 << 20  # octets of them
MOST_WAITING_TOGETHER: Final = 64 << 20  # of all connections, beyond which each has one request at a time
LINGERING: Final = 2.0  # seconds for what still comes behind a request that was refused
NEVER: Final = float("inf")
REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
                  500: "Internal Server Error"}  # fmt: skip


class Answer:
    """The answer to one request: where the change that stores it reports to."""

    __slots__ = ("_connection", "close", "octets", "size", "status")

    def __init__(self, connection: Connection | None, size: int) -> None:
        self._connection = connection
        self.size = size
        self.status = 0
        self.close = False
        self.octets = b""  # something else than an answer

    def cancelled(self) -> bool:
        return False

    def set_result(self, status: int, /) -> None:
        self.status = status
        if self._connection is not None:
            self._connection.answered()

    def set_exception(self, error: LiorError, /) -> None:
        log.warning("a message could not be stored", extra={"fields": {"why": str(error)}})
        self.set_result(NO_ROOM)


class Connection(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._loop = listener.loop
        settings = listener.settings
        self._requests = Requests(settings.max_body + settings.max_envelope + listener.multipart_room)
        self._answers: deque[Answer] = deque()
        self._waiting = 0  # octets of what they answer
        self._planned = False  # to write what is answered
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._paused = False  # does not read
        self._full = False  # the peer does not read
        self._ending = False  # no more requests are taken
        self._lingers = False
        self._half_closed = False  # by the peer
        self._refused = False
        self.deadline = NEVER  # when the listener ends it
        self.is_slow = False  # at the deadline because of its peer

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        if not self._listener.admit(self):
            self._transport.abort()
            self._transport = None
            return
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        self._set_deadline(self._listener.settings.header_timeout)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._ending = True
        self._answers.clear()
        self._count(-self._waiting)
        self._listener.buffered -= self._held()
        self._requests = Requests(0)
        self._listener.leave(self)

    def data_received(self, data: bytes) -> None:
        if self._ending or self._transport is None:
            return  # behind a request that was refused
        before = self._held()
        if not self.is_slow and not self._answers:  # it was idle; who goes on with empty lines gets no more time
            self._set_deadline(self._listener.settings.header_timeout)
        self._requests.feed(data)
        self._take_all()
        self._listener.buffered += self._held() - before
        if self._listener.is_crowded and self._held() and not self._ending:
            log.warning("request refused: too much comes in at a time", extra={"fields": {"peer": self._peer}})
            self._refuse(NO_ROOM)

    def eof_received(self) -> bool:
        self._ending = self._half_closed = True
        self._flush()
        transport = self._transport  # what was asked is answered all the same; over TLS there is no half of an end
        return bool(self._answers) and transport is not None and transport.can_write_eof()

    def pause_writing(self) -> None:
        self._full = True
        self._set_deadline(self._listener.settings.body_timeout)
        self._look_at_the_crowd()

    def resume_writing(self) -> None:
        self._full = False
        self.deadline = NEVER
        self._flush()

    # Requests

    def _held(self) -> int:
        return self._requests.buffered

    def _take_all(self) -> None:
        """As many requests as are there and may wait for their answers."""
        try:
            while not self._ending and not self._must_wait():
                head = self._requests.head
                if head is None:
                    head = self._requests.next_head()
                    if head is None:
                        break
                    self._begin(head)
                    if self._ending:
                        break
                entity = self._requests.entity()
                if entity is None:
                    break
                self._take(head, entity)
        except Malformed as error:
            log.info("request refused", extra={"fields": {"peer": self._peer, "why": error.what}})
            self._refuse(REFUSED)
        self._look_at_the_crowd()

    def _count(self, octets: int) -> None:
        self._waiting += octets
        self._listener.waiting += octets

    def _must_wait(self) -> bool:
        if len(self._answers) >= PIPELINE or self._waiting >= MOST_WAITING or self._full:
            return True
        return self._listener.waiting >= MOST_WAITING_TOGETHER and bool(self._answers)

    def _look_at_the_crowd(self) -> None:
        wait = self._must_wait() and not self._ending
        if wait is not self._paused and self._transport is not None:
            self._paused = wait
            if wait:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _begin(self, head: RequestHead) -> None:
        """What the header alone decides."""
        if not head.path.casefold().startswith(DIRECTORY):
            self._refuse(404)
        elif head.method != "POST":
            self._refuse(405)
        elif head.content_length is None:
            self._refuse(REFUSED)
        else:
            self._set_deadline(self._listener.settings.body_timeout)
            if head.expects_continue and head.content_length:  # curl asks before a long body
                self._say(CONTINUE)

    def _take(self, head: RequestHead, entity: bytes) -> None:
        answer = Answer(self, len(head.octets) + len(entity))
        self._answers.append(answer)
        self._count(answer.size)
        self.deadline = NEVER
        if not head.keep_alive:
            answer.close = self._ending = True
        request = Request(head.octets, head.content_type, entity, self._peer)
        try:
            status = self._listener.incoming.take(request, answer)
        except Exception:
            log.exception("a request failed")
            status, answer.close, self._ending = NO_ROOM, True, True
        if status:
            answer.set_result(status)

    def _refuse(self, status: int) -> None:
        """Nothing more is read: where the next request begins is not known, or not worth to wait for."""
        self._ending = self._refused = True
        answer = Answer(self, 0)
        answer.close = True
        self._answers.append(answer)
        answer.set_result(status)

    def _say(self, octets: bytes) -> None:
        """In its place between the answers."""
        other = Answer(self, 0)
        other.octets, other.status = octets, 100
        self._answers.append(other)
        self._flush()

    # Answers

    def answered(self) -> None:
        """Some request is: once in a turn of the loop all that may go is written."""
        if not self._planned:
            self._planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._planned = False
        transport, answers = self._transport, self._answers
        if transport is None:
            return
        pieces, close = [], self._ending and not answers
        while answers and answers[0].status and not close:
            answer = answers.popleft()
            self._count(-answer.size)
            close = answer.close or (self._ending and not answers)
            pieces.append(answer.octets or self._listener.answer(answer.status, close=close))
        if pieces:
            transport.write(b"".join(pieces))
        if close:
            self._end(transport)
            return
        if self._held() and not self._must_wait():
            before = self._held()
            self._take_all()
            self._listener.buffered += self._held() - before
        if not answers and self.deadline == NEVER:
            self._rest()
        self._look_at_the_crowd()

    def _rest(self) -> None:
        """Nothing is asked; perhaps a request has begun."""
        settings = self._listener.settings
        if self._requests.head is not None:
            self._set_deadline(settings.body_timeout)
        elif self._held():
            self._set_deadline(settings.header_timeout)
        else:
            self._set_deadline(settings.session_cleanup)
            self.is_slow = False

    def _end(self, transport: asyncio.Transport) -> None:
        """Who still writes would lose the answer if the connection were cut: its octets are thrown away for a while."""
        if self._lingers:
            return
        if self._half_closed or not (self._refused or transport.can_write_eof()):
            transport.close()
            return
        self._lingers = self._ending = True
        self._set_deadline(LINGERING)
        self.is_slow = False
        if self._paused:
            self._paused = False
            transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()

    # Limits

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = self._loop.time() + seconds
        self.is_slow = True

    def cut(self) -> None:
        """Whatever it is doing."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """No further requests; those that wait are answered."""
        self._ending = True
        self._flush()

    @property
    def is_busy(self) -> bool:
        return bool(self._answers)


def format_answer(status: int, wall: float, *, close: bool) -> bytes:
    """No content: the examples have none, and a receiver tells strangers no more than the status (SR-009)."""
    lines = [f"HTTP/1.1 {status} {REASONS[status]}", "Content-Length: 0", f"Date: {formatdate(wall, usegmt=True)}",
             f"Lior-Pipeline: {PIPELINE}"]  # fmt: skip
    if status == 405:
        lines.append("Allow: POST")
    if close:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
