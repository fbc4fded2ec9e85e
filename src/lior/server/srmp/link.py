"""One connection to another web server: POSTs go out, the statuses of their answers come in, in the same order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol, cast

from lior.errors import Malformed
from lior.wire.http1 import AnswerHead, Answers

SLOWEST: Final = 8192  # octets a second that a receiver takes at the least
LONGEST_ANSWER: Final = 64 << 10  # octets; SRMP's have none


class LinkOwner(Protocol):
    def answered(self, link: Link, answers: list[AnswerHead]) -> None:
        """To the oldest POSTs that had none."""

    def lost(self, link: Link, why: Exception | None) -> None:
        """The connection is over; POSTs without an answer may have arrived or not."""

    def writable(self, link: Link) -> None:
        """The peer reads again."""


class Link(asyncio.Protocol):
    def __init__(self, owner: LinkOwner, origin: object, loop: asyncio.AbstractEventLoop, send_timeout: float) -> None:
        self.origin = origin
        self.usable = False  # takes another POST
        self.full = False  # the peer does not read
        self.has_answered = False
        self._owner = owner
        self._loop = loop
        self._send_timeout = send_timeout
        self._answers = Answers(LONGEST_ANSWER)
        self._sizes: deque[int] = deque()  # of the POSTs without an answer
        self._octets = 0
        self._unwritten: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._why: Exception | None = None
        self._deadline = 0.0  # for the next answer
        self._timer: asyncio.TimerHandle | None = None

    @property
    def broke_off(self) -> bool:
        """It ended within an answer or for a fault, not between two answers. A server that ends a connection with
        requests in it resets it."""
        return not isinstance(self._why, ConnectionError | None) or not self._answers.is_between

    def post(self, octets: bytes) -> None:
        """To be followed by `flush`."""
        self._sizes.append(len(octets))
        self._octets += len(octets)
        self._unwritten.append(octets)
        if len(self._sizes) == 1:
            self._extend()

    def flush(self) -> None:
        """Write what was posted."""
        if self._unwritten and self._transport is not None:
            octets, self._unwritten = b"".join(self._unwritten), []
            self._transport.write(octets)

    def close(self) -> None:
        """Nobody waits for anything any more."""
        self.usable = False
        self._stop_timer()
        if self._transport is not None:
            if self._sizes:
                self._transport.abort()
            else:
                self._transport.close()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        self.usable = True

    def data_received(self, data: bytes) -> None:
        found: list[AnswerHead] = []
        try:
            self._answers.feed(data)
            while (answer := self._answers.next()) is not None:
                if not self._sizes:
                    raise Malformed("an answer that nobody asked for", where="HTTP connection",
                                    remedy="see what listens there")
                self._octets -= self._sizes.popleft()
                found.append(answer)
                if not answer.keep_alive:
                    self.usable = False
                    break
        except Malformed as error:
            self._fail(error)
        self._report(found)

    def _report(self, found: list[AnswerHead]) -> None:
        if not found:
            return
        self.has_answered = True
        if self._sizes:
            self._extend()
        self._owner.answered(self, found)

    def eof_received(self) -> None:
        self.usable = False
        answer = self._answers.end()
        if answer is not None and self._sizes:
            self._octets -= self._sizes.popleft()
            self._report([answer])

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._transport = None
        self._stop_timer()
        self._why = self._why or error
        self._owner.lost(self, self._why)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self._owner.writable(self)

    # A peer that reads or answers drop by drop must not hold the queue for ever

    def _extend(self) -> None:
        """An answer has this long, and what goes before it what a slow line needs."""
        self._deadline = self._loop.time() + self._send_timeout + self._octets / SLOWEST
        if self._timer is not None and self._timer.when() > self._deadline:
            self._stop_timer()
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._late)

    def _late(self) -> None:
        self._timer = None
        if not self._sizes:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._late)
        else:
            self._fail(TimeoutError("no answer in time"))

    def _fail(self, why: Exception) -> None:
        self.usable = False
        self._why = why
        if self._transport is not None:
            self._transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
