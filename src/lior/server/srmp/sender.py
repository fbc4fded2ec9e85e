"""One outgoing queue over HTTP: one connection, one request at a time ([MC-MQSRM] 3.1.7.2, 3.1.7.9)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from lior.errors import LiorError
from lior.message import MessageClass
from lior.names import DirectName
from lior.protocols.binary.ordering import NEVER, ResendLadder
from lior.queues.change import Change
from lior.queues.outgoing import ConnectionHistoryEntry, ConnectionStatus, OutgoingQueue, OutgoingState
from lior.queues.position import Position, State
from lior.server.engine import FutureReply
from lior.server.srmp.packing import Unsendable, pack

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp

log = logging.getLogger("lior.srmp")

S = OutgoingState
HELD_STATES: Final = frozenset({S.ON_HOLD, S.LOCKED})
MOST_UNRECEIPTED: Final = 64 << 20  # bytes kept in memory of one queue
DELIVERED, REJECTED = 200, 400


class Sender:
    def __init__(self, hub: Srmp, queue: OutgoingQueue) -> None:
        self.queue = queue
        self._hub = hub
        self._session: aiohttp.ClientSession | None = None
        self._running: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
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
        if self._running is None and self._retry is None and self._hub.may_connect and self.queue.may_transmit \
                and self.queue.available.first() is not None:
            self._running = self._hub.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._hub.may_connect and self.queue.may_transmit and self._bytes < MOST_UNRECEIPTED:
                position = self._hub.manager.outgoing_streams.lock_next(self.queue, self)
                if position is None or not await self._send(position):
                    break
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("sending to %s failed", self.queue.name)
            self._release_all()
            self._try_later()
        finally:
            self._running = None
        self.wake()

    async def _send(self, position: Position) -> bool:
        """One message; False to stop for now."""
        try:
            post = pack(self._hub, self.queue, position)
        except (LiorError, Unsendable) as error:
            await self._reject(position, str(error))
            return True
        status = 0
        try:
            status = await self._post(post)
        except asyncio.CancelledError:
            self._give_back(position)
            raise
        except ssl.SSLError as error:
            await self._failed(ConnectionStatus.COULD_NOT_VALIDATE_SERVER_CERTIFICATE, str(error))
        except aiohttp.ClientConnectorDNSError as error:
            await self._failed(ConnectionStatus.DNS_FAILURE, str(error))
        except aiohttp.ClientConnectorError as error:
            certificate = isinstance(error, aiohttp.ClientSSLError)
            await self._failed(
                ConnectionStatus.COULD_NOT_VALIDATE_SERVER_CERTIFICATE if certificate
                else ConnectionStatus.CONNECT_SOCKET_FAILURE, str(error), error.errno or 0)  # fmt: skip
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await self._failed(ConnectionStatus.SEND_FAILURE, str(error) or type(error).__name__)
        self.last_status = status
        self._hub.statuses[status] += 1
        if status == DELIVERED:
            self._delivered(position)
        elif status == REJECTED:
            await self._reject(position, "the receiver answered 400")
        else:
            self._give_back(position)
            if status:
                await self._failed(ConnectionStatus.NOT_READY_FAILURE, f"the receiver answered {status}", status)
            self._try_later()
            return False
        self._start_idle_timer()
        return True

    async def _post(self, post: Any) -> int:
        hub = self._hub
        if self._idle is not None:
            self._idle.cancel()
        if self._session is None:
            self._show(S.WAITING)
            self._session = hub.client.session(post.url)
        status = await hub.client.post(self._session, post)
        self.posted += 1
        if self.queue.state is not S.CONNECTED:
            self._record(ConnectionStatus.READY)
            self.queue.next_hops = (post.url,)
            self._show(S.CONNECTED)
        return status

    # What the answer means (3.1.7.2.5)

    def _delivered(self, position: Position) -> None:
        message = position.message
        manager = self._hub.manager
        if manager.core.fates is not None:
            manager.core.fates.handed(position, self.queue.name)
        if position.state not in (State.LOCKED, State.PURGE_PENDING) or isinstance(position.owner, Change):
            return  # purged, deleted or expired meanwhile
        if message.transaction is None or not manager.core.is_source(message):
            change = Change()
            manager.removal.transferred(change, position)
            manager.core.submit(change)
            return
        self._unreceipted[position.lookup_id] = position
        self._bytes += position.size
        self._ladder.sent(self._hub.loop.time())
        if self._ladder_timer is None:
            self._arm()

    async def _reject(self, position: Position, why: str) -> None:
        """For good: to the dead letters, if it is wanted there. Of a stream, the next one bridges the gap (SR-198): so
        it must be gone before that one says which it comes after."""
        log.warning("a message was refused", extra={"fields": {
            "message": str(position.message.identifier), "queue": self.queue.name, "why": why}})
        if isinstance(position.owner, Change):
            return
        change = Change()
        self._hub.manager.removal.stage(change, position, MessageClass.NACK_BAD_DST_Q)
        gone: asyncio.Future[None] = self._hub.engine.future()
        change.answer(FutureReply(gone))
        self._hub.manager.core.submit(change)
        with suppress(LiorError):
            await gone

    def _give_back(self, position: Position) -> None:
        self._hub.manager.outgoing_streams.release(self, (position,))

    async def _failed(self, status: ConnectionStatus, why: str, error: int = 0) -> None:
        log.info("cannot send", extra={"fields": {"queue": self.queue.name, "why": why}})
        self._record(status, error)
        await self._disconnect(S.INACTIVE)

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
        for timer in (self._retry, self._ladder_timer):
            if timer is not None:
                timer.cancel()
        self._retry = self._ladder_timer = None
        self._ladder.stop()
        if self._running is not None:
            self._running.cancel()
        self._hub.loop.create_task(self._disconnect(None))

    def _start_idle_timer(self) -> None:
        """Session Cleanup Timer (3.1.2.4)."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._hub.loop.call_later(self._hub.settings.session_cleanup, self._clean_up)

    def _clean_up(self) -> None:
        if self._running is None:
            self._hub.loop.create_task(self._disconnect(S.DISCONNECTED))
            if not self._unreceipted and self._retry is None and self.queue.available.first() is None:
                self._hub.forget(self)

    async def _disconnect(self, state: OutgoingState | None) -> None:
        session, self._session = self._session, None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if state is not None:
            self._show(state)
        if session is not None:
            await session.close()

    async def stop(self) -> None:
        for timer in (self._retry, self._ladder_timer, self._idle):
            if timer is not None:
                timer.cancel()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        self._release_all()
        await self._disconnect(None)

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
            "state": "OPEN" if self._session is not None else "CLOSED",
            "since": self.since,
            "messages_received": 0,
            "messages_sent": self.posted,
            "bytes_received": 0,
            "window": 1,
            "last_status": self.last_status,
            "unreceipted": len(self._unreceipted),
        }
