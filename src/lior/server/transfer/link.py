"""The way to one next hop: its session, the outgoing queues that share it, dialing and trying again."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from lior.errors import LiorError
from lior.names import MachineName, PrivateName, SingleName
from lior.queues.change import Change
from lior.queues.outgoing import ConnectionHistoryEntry, ConnectionStatus, OutgoingQueue, OutgoingState
from lior.queues.position import Position
from lior.server.transfer.connection import Connection
from lior.server.transfer.departures import Departure

if TYPE_CHECKING:
    from lior.server.transfer.hub import Transfer

log = logging.getLogger("lior.transfer")

SHARE: Final = 16  # messages of one queue in a row, while others have some that are as urgent
MOST_WRITTEN: Final = 1 << 20  # bytes joined in one write: a window of the largest messages is 256 MiB

S = OutgoingState
IDLE_STATES: Final = frozenset({S.INACTIVE, S.WAITING, S.NEED_VALIDATION, S.CONNECTED, S.DISCONNECTED, S.DISCONNECTING})


# Whoever sends us messages can have us answer to any address there is: so many attempts at a time go to places where
# no session ever was (QB-214). What was reached before does not wait for them.
MOST_DIALING: Final = 128


class Hop(NamedTuple):
    """An address to connect to, and how management shows it."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{'IPv6' if ':' in self.address else 'IP'}={self.address}"


class Link:
    """Outgoing queues with the same next hop share one session; each keeps its own order."""

    def __init__(self, hub: Transfer, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.departures: dict[int, Departure] = {}  # by queue id
        self.connection: Connection | None = None
        self.remote = b""  # GUID of the queue manager that was there last
        self._hub = hub
        self._hops: list[Hop] = []
        self._dialing: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._again = False  # the retry timer fired: the next attempt asks nobody first (3.1.5.2.2)
        self._pump_planned = False
        self._turn = 0
        self._express = False  # what went last was

    # Work

    def add(self, queue: OutgoingQueue) -> Departure:
        departure = self.departures.get(queue.queue_id)
        if departure is None:
            departure = self.departures[queue.queue_id] = Departure(self._hub, queue, self)
            self._show(queue, S.CONNECTED if self.is_open else S.WAITING)
            if self.connection is not None and self.is_open:  # it shares what is there
                self._ready(queue, self.connection)
        return departure

    def drop(self, queue: OutgoingQueue) -> None:
        departure = self.departures.pop(queue.queue_id, None)
        queue.awaited = False
        if departure is not None:
            departure.stop()

    @property
    def is_unused(self) -> bool:
        return not self.departures and self.connection is None and self._dialing is None and self._retry is None

    @property
    def expected(self) -> UUID | None:
        """Whom the names of all queues here mean; None for direct names, which mean whoever is at that address."""
        meant = {self._meant(departure.queue.destination) for departure in self.departures.values()}
        return meant.pop() if len(meant) == 1 else None

    def _meant(self, name: SingleName) -> UUID | None:
        if isinstance(name, PrivateName | MachineName) and not self._hub.peers.is_configured(name.guid):
            return name.guid
        return None  # a direct name, or a route: whoever is there

    def suits(self, connection: Connection) -> bool:
        """Whether a session that the other side opened is with the one whom the names here mean: several queue managers
        may share an address."""
        expected = self.expected
        return expected is None or expected.bytes_le == connection.session.remote

    @property
    def is_open(self) -> bool:
        return self.connection is not None and self.connection.is_open

    @property
    def has_work(self) -> bool:
        return any(d.queue.may_transmit and d.queue.available.first() is not None for d in self.departures.values())

    def wake(self) -> None:
        """Something waits: at the end of this turn of the loop it is sent, with all that comes with it."""
        if not self._pump_planned:
            self._pump_planned = True
            self._hub.loop.call_soon(self._pump_now)
            for departure in self.departures.values():
                departure.queue.awaited = True

    def _pump_now(self) -> None:
        self._pump_planned = False
        for departure in self.departures.values():
            departure.queue.awaited = False
        self.pump()

    def pump(self) -> None:
        """Send while the window has room. Of express messages half a window at a time: the peer, who stores nothing,
        takes and acknowledges one half while we make the other. What has to be stored goes together, for each chunk
        that comes may be a commit."""
        connection = self.connection
        if connection is None or not connection.is_open:
            self._connect()
            return
        out: list[bytes] = []
        session, batches = connection.session, self._hub.manager.batches
        blocked: set[int] = set()
        half = session.half_window
        while connection.can_send:
            departure, alone = self._next(blocked)
            if departure is None:
                break
            most = session.window if alone else min(session.window, SHARE)
            if self._express:
                most = min(most, half - len(out) % half)
            positions = batches.lock(departure.queue, self, most, any_priority=alone)
            if not positions:  # its head has to wait for acknowledgements, or cannot be read
                blocked.add(departure.queue.queue_id)
                continue
            out += self._send(connection, departure, positions)
            self._express = not positions[-1].stored
            if self._express and len(out) >= half:
                self.wake()
                break
            if sum(map(len, out)) >= MOST_WRITTEN:
                self._write(connection, out)  # and see whether the socket takes more
                out = []
        if out:
            self._write(connection, out)

    def _write(self, connection: Connection, packets: list[bytes]) -> None:
        connection.messages_sent += len(packets)
        connection.write(packets)

    def _send(self, connection: Connection, departure: Departure, positions: list[Position]) -> list[bytes]:
        """The bytes of these messages, which are locked; of those that can be sent."""
        packets, sent = self._packets(departure.queue, positions)
        departures, fates = self._hub.departures, self._hub.manager.core.fates
        if departure.queue.stream is not None:
            own = self._hub.manager.core.properties.identifier
            ours = [position for position in sent if position.message.transaction is not None
                    and (position.message.source_queue_manager is own or departures.in_stream(position))]
            if ours:
                departures.in_flight.update([position.lookup_id for position in ours])
                departure.sent(ours)
        recoverable = [position.message.delivery_guarantee != 0 for position in sent]
        out = connection.session.send_all(packets, sent, recoverable, self._hub.loop.time())
        if fates is not None:
            fates.handed_all(sent, connection.address)
        for position in sent:
            if position.message.tracing_requested:
                self._report(position, connection.address)
        return out

    def _packets(self, queue: OutgoingQueue, positions: list[Position]) -> tuple[list[bytes], list[Position]]:
        """Without those that can never be sent, which go their own way."""
        if queue.stream is not None:
            previous = self._hub.manager.outgoing_streams.previous_for_all(queue, positions)
        else:  # none of the streams that begin here
            previous = [0 if (place := position.message.transaction) is None else place.previous_sequence_number
                        for position in positions]
        packets, sent, of = list[bytes](), list[Position](), self._hub.packets.of
        for position, number in zip(positions, previous, strict=True):
            try:
                packets.append(of(position, number, self.connection))
            except LiorError as error:
                self._refuse(position, error)
            else:
                sent.append(position)
        return packets, sent

    def _next(self, blocked: set[int]) -> tuple[Departure | None, bool]:
        """The queue whose head is most urgent; equals take turns (QB-206). And whether it is the only one."""
        best: Departure | None = None
        urgency, found = -1 << 20, 0
        departures = list(self.departures.values()) if len(self.departures) > 1 else self.departures.values()
        self._turn += 1
        for at, departure in enumerate(departures):
            queue = departure.queue
            priority = queue.head_priority()
            if priority is None or not queue.may_transmit or queue.queue_id in blocked or departure.is_full:
                continue
            found += 1
            value = (priority + queue.properties.base_priority) * 4096 + (at + self._turn) % len(self.departures)
            if value > urgency:
                best, urgency = departure, value
        return best, found == 1

    def _report(self, position: Position, next_hop: str) -> None:
        """3.1.7.1.7: who asked to be told of each step is told."""
        change = Change()
        self._hub.manager.tracing.sent(change, position.message, self._hub.clock.wall(), next_hop)
        if change.operations or change.has_steps:
            self._hub.manager.core.submit(change)

    def _refuse(self, position: Position, error: LiorError) -> None:
        """It can never be sent (3.1.7.1.5.1): to the dead letters, and never in clear text."""
        log.error("a message cannot be sent", extra={"fields": {
            "message": str(position.message.identifier), "queue": position.queue.name, "why": str(error)}})
        change = Change()
        self._hub.manager.removal.stage(change, position, self._hub.packets.reason_of(error))
        self._hub.manager.core.submit(change)

    # The session

    def adopt(self, connection: Connection) -> None:
        """A session that the other side opened serves as well as one of ours."""
        self._cancel_retry()
        self.connection = connection
        self.remote = connection.session.remote
        connection.link = self
        for departure in self.departures.values():
            self._ready(departure.queue, connection)
            self._show(departure.queue, S.CONNECTED)
        self.wake()

    def lost(self, connection: Connection, tokens: list[Position | None]) -> None:
        """The session is over. What it had not finished waits for the next one."""
        if self.connection is not connection:
            return
        self.connection = None
        self._hub.departures.given_up(self, tokens)
        for departure in list(self.departures.values()):
            departure.stop()
            self._show(departure.queue, S.DISCONNECTED)
        self._try_later()

    def _connect(self) -> None:
        if self._dialing is None and self._retry is None and self.connection is None and self.has_work \
                and self._hub.may_connect:
            if not self.remote and self._hub.dialing >= MOST_DIALING:
                self._try_later()
                return
            self._dialing = self._hub.loop.create_task(self._dial())

    async def _dial(self) -> None:
        """[MS-MQQB] 3.1.5.2: resolve, ask, connect, shake hands."""
        self._hub.dialing += 1
        try:
            await self._dial_once()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("connecting to %s failed", self.host)
            self._record(ConnectionStatus.UNKNOWN_FAILURE)
        finally:
            self._dialing = None
            self._hub.dialing -= 1
        if not self.is_open:
            self._try_later()

    async def _dial_once(self) -> None:
        for departure in self.departures.values():
            self._show(departure.queue, S.WAITING)
        ask, self._again = self._hub.settings.session.send_pings and not self._again, False
        if not self._hops:
            self._hops = await self._resolve()
            if not self._hops:
                return
        known = self._hub.open_connection(self, (hop.address for hop in self._hops))
        if known is not None:
            self.adopt(known)
            return
        hop = self._hops.pop(0)
        if ask and not await self._hub.pinger.ask(hop.address):
            self._record(ConnectionStatus.PING_FAILURE, (hop.address,))
            return
        await self._open(hop, pinged=ask)

    async def _resolve(self) -> list[Hop]:
        """3.1.5.2.1: every address of the host, in the resolver's order."""
        with suppress(ValueError):
            return [Hop(str(ip_address(self.host)), self.port)]
        try:
            found = await self._hub.resolve(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._record(ConnectionStatus.DNS_FAILURE, error=error.errno or 0)
            for departure in self.departures.values():
                self._show(departure.queue, S.NEED_VALIDATION)
            return []
        return [Hop(address, self.port) for address in dict.fromkeys(str(info[4][0]) for info in found)]

    async def _open(self, hop: Hop, *, pinged: bool) -> None:
        self._record(ConnectionStatus.IN_PROGRESS, (hop.address,))
        for departure in self.departures.values():
            departure.queue.next_hops = tuple(map(str, (hop, *self._hops)))
        try:
            connection = await self._hub.dial(self, hop, pinged=pinged)
        except OSError as error:
            status = ConnectionStatus.BIND_SOCKET_FAILURE if error.errno == 99 else \
                ConnectionStatus.CONNECT_SOCKET_FAILURE
            self._record(status, (hop.address,), error.errno or 0)
            log.info("cannot connect", extra={"fields": {
                "host": self.host, "address": hop.address, "port": hop.port, "why": str(error)}})
            return
        await connection.opened
        if connection.is_open:
            self._hops = []
            return
        status = ConnectionStatus.CONNECTION_REFUSED if connection.refused else ConnectionStatus.NOT_READY_FAILURE
        self._record(status, (hop.address,))
        log.info("no session", extra={"fields": {
            "host": self.host, "address": hop.address, "why": connection.why_closed}})

    def established(self, connection: Connection) -> None:
        """Our own handshake is complete (3.1.5.4.2)."""
        self.connection = connection
        self.remote = connection.session.remote
        for departure in self.departures.values():
            self._ready(departure.queue, connection)
            self._show(departure.queue, S.CONNECTED)
        self.wake()

    # Trying again

    def _try_later(self) -> None:
        """Session Retry Connect Timer, 3.1.2.3: only while something waits."""
        if self._retry is None and self.has_work and self._hub.may_connect:
            self._retry = self._hub.loop.call_later(self._hub.settings.session.retry, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._again = self.has_work
        self.pump()

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def try_now(self) -> None:
        """Somebody resumed the queue or the network: no need to wait for the timer."""
        self._cancel_retry()
        self._hops = []
        self._again = False
        self.wake()

    async def stop(self, why: str) -> None:
        self._cancel_retry()
        if self._dialing is not None:
            self._dialing.cancel()
            with suppress(asyncio.CancelledError):
                await self._dialing
        if self.connection is not None:
            self.connection.close(why)
        self._cancel_retry()

    # What management sees

    def _record(self, status: ConnectionStatus, addresses: tuple[str, ...] = (), error: int = 0) -> None:
        entry = ConnectionHistoryEntry(status, self._hub.clock.wall(), error, addresses)
        for departure in self.departures.values():
            departure.queue.record_connection(entry)

    def _ready(self, queue: OutgoingQueue, connection: Connection) -> None:
        queue.next_hops = (str(Hop(connection.address, self.port)),)
        queue.record_connection(
            ConnectionHistoryEntry(ConnectionStatus.READY, self._hub.clock.wall(), 0, (connection.address,)))

    def _show(self, queue: OutgoingQueue, state: OutgoingState) -> None:
        """A pause and a lock outlast whatever the network does (QB-104)."""
        if queue.state in IDLE_STATES and queue.state is not state:
            with suppress(LiorError):
                queue.change_state(state)
