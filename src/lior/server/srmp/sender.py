"""One outgoing queue over HTTP: one connection ([MC-MQSRM] 3.1.7.2, 3.1.7.9).

A server that says how many requests it takes in a row gets as many before it has answered the first; any other gets
one at a time (docs/decisions/0011-http-of-our-own.md).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lior.errors import LiorError
from lior.message import MessageClass
from lior.names import DirectName
from lior.protocols.binary.ordering import NEVER, ResendLadder
from lior.queues.change import Change
from lior.queues.outgoing import ConnectionHistoryEntry, ConnectionStatus, OutgoingQueue, OutgoingState
from lior.queues.position import Position, State
from lior.server.srmp.client import Post
from lior.server.srmp.link import Link
from lior.server.srmp.packing import Unsendable, pack
from lior.wire.http1 import AnswerHead

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp

log = logging.getLogger("lior.srmp")

S = OutgoingState
HELD_STATES: Final = frozenset({S.ON_HOLD, S.LOCKED})
MOST_UNRECEIPTED: Final = 64 << 20  # bytes kept in memory of one queue
MOST_IN_FLIGHT: Final = 1 << 20  # octets of requests without an answer, but for the last
DELIVERED, REJECTED = 200, 400


class _Sent(NamedTuple):
    """A POST without an answer."""

    position: Position
    size: int


class _Settled:
    """The reply to the change that removes a refused message."""

    __slots__ = ("_sender",)

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def cancelled(self) -> bool:
        return False

    def set_result(self, value: Any, /) -> None:
        self._sender.settled()

    def set_exception(self, error: LiorError, /) -> None:
        self._sender.settled()


class Sender:
    def __init__(self, hub: Srmp, queue: OutgoingQueue) -> None:
        self.queue = queue
        self._hub = hub
        self._link: Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._next: tuple[Position, Post] | None = None  # waits for a connection
        self._flight: deque[_Sent] = deque()
        self._in_flight = 0  # octets
        self._window = 1  # POSTs that may be in flight
        self._ceiling = hub.settings.pipeline  # of the window; less where connections break
        self._failure = 0  # a status behind which nothing is sent until all answers are here
        self._settling = 0  # refused messages that are not gone yet
        self._pumping = False
        self._retry: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._used = 0.0  # when the connection was
        self._ladder = ResendLadder(hub.settings.resend_table)
        self._ladder_timer: asyncio.TimerHandle | None = None
        self._unreceipted: dict[int, Position] = {}  # of streams, answered with 200; by lookup id
        self._bytes = 0
        self.posted = 0
        self.last_status = 0
        self.since = hub.clock.wall()

    @property
    def streams(self) -> set[int]:
        return set() if self.queue.stream is None else set(self.queue.stream.counts)

    @property
    def unreceipted(self) -> int:
        return len(self._unreceipted)

    # Work

    def wake(self) -> None:
        """Something waits. Not while a failed attempt is to be tried again later."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._may_send and self._send_next():
                pass
        except Exception:
            log.exception("sending to %s failed", self.queue.name)
            self._give_up()
            self._release_all()
            self._try_later()
        finally:
            self._pumping = False
        if self._link is not None:
            self._link.flush()

    @property
    def _may_send(self) -> bool:
        link = self._link
        if self._retry is not None or self._connecting is not None or self._failure or self._settling \
                or not self._hub.may_connect or not self.queue.may_transmit:  # fmt: skip
            return False
        if link is not None and (link.full or (self._flight and not link.usable)):
            return False
        return len(self._flight) < self._window and self._in_flight < MOST_IN_FLIGHT \
            and self._bytes < MOST_UNRECEIPTED  # fmt: skip

    def _send_next(self) -> bool:
        """One message; False if there is none, or it has to wait."""
        found, self._next = self._next or self._packed(), None
        if found is None:
            return False
        position, post = found
        link = self._link
        if link is None or not link.usable or link.origin != post.origin:
            self._next = found
            if not self._flight:
                self._close_link()
                self._connecting = self._hub.loop.create_task(self._connect(post))
            return False
        self._flight.append(_Sent(position, len(post.octets)))
        self._in_flight += len(post.octets)
        link.post(post.octets)
        return True

    def _packed(self) -> tuple[Position, Post] | None:
        position = self._hub.manager.outgoing_streams.lock_next(self.queue, self)
        if position is None:
            return None
        try:
            return position, pack(self._hub, self.queue, position)
        except (LiorError, Unsendable) as error:
            self._reject(position, str(error))
            return None
        except BaseException:
            self._give_back(position)
            raise

    async def _connect(self, post: Post) -> None:
        self._show(S.WAITING)
        status, why = ConnectionStatus.CONNECT_SOCKET_FAILURE, ""
        try:
            self._link = await self._hub.client.connect(post.origin, self)
            self._window = 1  # RFC 9112 9.3.2: not on a connection that has not answered yet
        except ssl.SSLError as error:
            status, why = ConnectionStatus.COULD_NOT_VALIDATE_SERVER_CERTIFICATE, str(error)
        except socket.gaierror as error:
            status, why = ConnectionStatus.DNS_FAILURE, str(error)
        except (OSError, ValueError) as error:
            why = str(error) or type(error).__name__
        self._connecting = None
        if self._link is None:
            self._give_up()
            self._failed(status, why)
            self._try_later()
        else:
            self._touch()
            self.wake()

    # What the connection tells

    def answered(self, link: Link, answers: list[AnswerHead]) -> None:
        if link is not self._link:
            return
        change = Change()
        change.lazy = True  # what is sent again after a crash is a second copy, as after a lost answer
        for answer in answers:
            sent = self._flight.popleft()
            self._in_flight -= sent.size
            self._answer(change, sent.position, answer)
        if change.operations or change.has_steps:
            self._hub.manager.core.submit(change)
        if self.queue.state is not S.CONNECTED:
            self._record(ConnectionStatus.READY)
            self.queue.next_hops = (str(link.origin),)
            self._show(S.CONNECTED)
        self._touch()
        if not self._flight:
            self._landed()
        elif not link.usable:
            link.close()  # it said that this was its last answer
        self.wake()

    def _answer(self, change: Change, position: Position, answer: AnswerHead) -> None:
        status = self.last_status = answer.status
        self.posted += 1
        self._hub.statuses[status] += 1
        if self._failure and position.message.transaction is not None:
            self._give_back(position)  # behind one that was not taken: whatever was said, it comes again in its order
        elif status == DELIVERED:
            self._delivered(change, position)
            self._widen(answer.pipeline)
        elif status == REJECTED:
            if self._flight:
                self._failure = self._failure or REJECTED
            self._reject(position, "the receiver answered 400")
        else:
            self._give_back(position)
            self._failure = status

    def _widen(self, offered: int) -> None:
        limit = min(offered, self._hub.settings.pipeline)
        self._ceiling = min(self._ceiling + 1, max(limit, 1))
        self._window = max(1, min(limit, self._ceiling))

    def _landed(self) -> None:
        """Nothing is without an answer."""
        failure, self._failure = self._failure, 0
        if failure not in (0, REJECTED):
            self._failed(ConnectionStatus.NOT_READY_FAILURE, f"the receiver answered {failure}", failure)
            self._try_later()
        elif self._link is not None and not self._link.usable:
            self._close_link()

    def lost(self, link: Link, why: Exception | None) -> None:
        if link is not self._link:
            return
        self._link = None
        lost = len(self._flight)
        failure, self._failure = self._failure, 0
        self._give_up()
        if not lost and not failure:
            self._show(S.DISCONNECTED)  # between two messages: servers do not wait for ever
        elif link.has_answered and not link.broke_off and failure in (0, REJECTED):
            self._ceiling = max(1, min(self._ceiling, lost) // 2)
            self.wake()  # it ended before it took these: they go over another one
        else:
            self._hub.statuses[0] += 1
            certificate = isinstance(why, ssl.SSLError)
            self._failed(ConnectionStatus.COULD_NOT_VALIDATE_SERVER_CERTIFICATE if certificate
                         else ConnectionStatus.SEND_FAILURE, str(why or "the connection ended without an answer"))
            self._ceiling = max(1, self._ceiling // 2)
            self._try_later()

    def writable(self, link: Link) -> None:
        self.wake()

    # What the answer means (3.1.7.2.5)

    def _delivered(self, change: Change, position: Position) -> None:
        message = position.message
        manager = self._hub.manager
        if manager.core.fates is not None:
            manager.core.fates.handed(position, self.queue.name)
        if position.state not in (State.LOCKED, State.PURGE_PENDING) or isinstance(position.owner, Change):
            return  # purged, deleted or expired meanwhile
        if message.transaction is None or not manager.core.is_source(message):
            manager.removal.transferred(change, position)
            return
        self._unreceipted[position.lookup_id] = position
        self._bytes += position.size
        self._ladder.sent(self._hub.loop.time())
        if self._ladder_timer is None:
            self._arm()

    def _reject(self, position: Position, why: str) -> None:
        """For good: to the dead letters, if it is wanted there. Of a stream, the next one bridges the gap (SR-198): so
        it must be gone before that one says which it comes after."""
        log.warning("a message was refused", extra={"fields": {
            "message": str(position.message.identifier), "queue": self.queue.name, "why": why}})
        if isinstance(position.owner, Change):
            return
        change = Change()
        self._hub.manager.removal.stage(change, position, MessageClass.NACK_BAD_DST_Q)
        self._settling += 1
        change.answer(_Settled(self))
        self._hub.manager.core.submit(change)

    def settled(self) -> None:
        self._settling -= 1
        self._hub.loop.call_soon(self.wake)

    def _give_back(self, *positions: Position) -> None:
        self._hub.manager.outgoing_streams.release(self, positions)

    def _give_up(self) -> None:
        """Whatever was on its way waits again."""
        positions = [sent.position for sent in self._flight]
        if self._next is not None:
            positions.append(self._next[0])
        self._flight.clear()
        self._in_flight, self._next = 0, None
        self._give_back(*positions)

    def _failed(self, status: ConnectionStatus, why: str, error: int = 0) -> None:
        log.info("cannot send", extra={"fields": {"queue": self.queue.name, "why": why}})
        self._record(status, error)
        self._show(S.INACTIVE)
        self._close_link()

    # Streams

    def receipted(self) -> None:
        """Forget what is gone, begin the table anew (SR-167)."""
        left = {i: p for i, p in self._unreceipted.items() if p.owner is self and p.state is State.LOCKED}
        self._unreceipted = left
        self._bytes = sum(position.size for position in left.values())
        self._ladder.acknowledged(bool(left), self._hub.loop.time())
        self._arm()
        self.wake()

    def _arm(self) -> None:
        if self._ladder_timer is not None:
            self._ladder_timer.cancel()
            self._ladder_timer = None
        if self._ladder.deadline != NEVER:
            self._ladder_timer = self._hub.loop.call_at(self._ladder.deadline, self._resend)

    def _resend(self) -> None:
        """3.1.6.2: everything without a receipt goes again, in its order."""
        self._ladder_timer = None
        self._ladder.timed_out(max(self._hub.loop.time(), self._ladder.deadline))
        info = self.queue.transfer_info
        info.eod_resend_count += 1
        info.eod_resend_interval = int(self._ladder.interval)
        info.eod_resend_time = self._hub.clock.wall() + self._ladder.deadline - self._hub.loop.time()
        self._release_all()
        self._arm()
        self.try_now()

    def _release_all(self) -> None:
        positions, self._unreceipted, self._bytes = list(self._unreceipted.values()), {}, 0
        self._hub.manager.outgoing_streams.release(self, positions)

    # Trying again, pausing, stopping

    def _try_later(self) -> None:
        """The retransmission timer (3.1.6.1)."""
        if self._retry is None:
            self._retry = self._hub.loop.call_later(self._hub.settings.retransmission_timeout, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self.wake()
        if self._idle is None:  # perhaps nothing is left to send, and there never was a connection
            self._touch()

    def try_now(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._ladder.deadline == NEVER and self._unreceipted:  # after a pause, which stopped the timer
            self._ladder.sent(self._hub.loop.time())
            self._arm()
        self.wake()

    def hold(self) -> None:
        """3.1.7.4: nothing is sent and nothing runs until somebody resumes the queue."""
        self._stop_timers()
        self._ladder.stop()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._failure = 0
        self._give_up()
        self._close_link()

    def _touch(self) -> None:
        """Session Cleanup Timer (3.1.2.4)."""
        self._used = self._hub.loop.time()
        if self._idle is None:
            self._idle = self._hub.loop.call_later(self._hub.settings.session_cleanup, self._clean_up)

    def _clean_up(self) -> None:
        self._idle = None
        left = self._used + self._hub.settings.session_cleanup - self._hub.loop.time()
        if self._flight or self._connecting is not None or left > 0:
            left = left if left > 0 else self._hub.settings.session_cleanup
            self._idle = self._hub.loop.call_later(left, self._clean_up)
            return
        self._close_link()
        self._show(S.DISCONNECTED)
        if not self._unreceipted and self._retry is None and self.queue.available.first() is None:
            self._hub.forget(self)

    def _close_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _stop_timers(self) -> None:
        for timer in (self._retry, self._ladder_timer, self._idle):
            if timer is not None:
                timer.cancel()
        self._retry = self._ladder_timer = self._idle = None

    async def stop(self) -> None:
        connecting = self._connecting
        self.hold()
        if connecting is not None:
            with suppress(asyncio.CancelledError):
                await connecting
        self._release_all()

    # What management sees

    def _record(self, status: ConnectionStatus, error: int = 0) -> None:
        name = self.queue.destination
        host = name.host if isinstance(name, DirectName) else ""
        self.queue.record_connection(ConnectionHistoryEntry(status, self._hub.clock.wall(), error, (host,)))

    def _show(self, state: OutgoingState) -> None:
        """A pause and a lock outlast whatever the network does."""
        if self.queue.state not in HELD_STATES and self.queue.state is not state:
            with suppress(LiorError):
                self.queue.change_state(state)

    def figures(self) -> dict[str, Any]:
        return {
            "address": self.queue.destination.url if isinstance(self.queue.destination, DirectName) else "",
            "queue_manager": "",
            "accepted": False,
            "state": "OPEN" if self._link is not None else "CLOSED",
            "since": self.since,
            "messages_received": 0,
            "messages_sent": self.posted,
            "bytes_received": 0,
            "window": self._window,
            "last_status": self.last_status,
            "unreceipted": len(self._unreceipted),
        }
