"""The binary protocol of one queue manager: listening, sessions, links, and the events that make them work."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from lior.errors import BadConfiguration, LiorError
from lior.names.grammar import folded_host
from lior.protocols.binary.session import Session
from lior.queues.change import Change
from lior.queues.events import (
    ConnectivityChanged,
    Event,
    MessageAwaitsTransfer,
    OutgoingStateChanged,
    QueueChanged,
    ThrottledChanged,
)
from lior.queues.outgoing import OutgoingQueue
from lior.queues.position import Position
from lior.server.engine import Engine
from lior.server.listening import tcp_socket, url_host
from lior.server.transfer.connection import Connection
from lior.server.transfer.departures import Departures
from lior.server.transfer.incoming import Incoming
from lior.server.transfer.link import Hop, Link
from lior.server.transfer.order_acks import OrderAcks
from lior.server.transfer.packets import Packets
from lior.server.transfer.pinger import Pinger
from lior.server.transfer.settings import TransferSettings
from lior.server.transfer_security import Guard, SecurityFiles
from lior.wire.packet_format_names import guid_of

log = logging.getLogger("lior.transfer")

STOPPING: Final = "the queue manager stops"
OFFLINE: Final = "the queue manager is offline"

MOST_UNFINISHED: Final = 256 << 20  # bytes

Resolver = Callable[..., Awaitable[Sequence[tuple[Any, ...]]]]  # as getaddrinfo of a loop


@dataclass(slots=True)
class Totals:
    """What went over connections."""

    connections: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0

    def add(self, connection: Connection) -> None:
        self.messages_sent += connection.messages_sent
        self.messages_received += connection.messages_received
        self.bytes_sent += connection.bytes_sent
        self.bytes_received += connection.bytes_received


class Transfer:
    """Everything between the queues and TCP port 1801. Runs on the engine's loop."""

    def __init__(
        self, engine: Engine, settings: TransferSettings, *, guard: Guard | None = None, resolve: Resolver | None = None
    ) -> None:
        self.engine = engine
        self.manager = engine.manager
        self.settings = settings
        self.loop = engine.own_loop()
        self.resolve = resolve or self.loop.getaddrinfo
        self.clock = self.manager.core.clock
        self.own = self.manager.core.properties.identifier.bytes_le
        self.guard = guard or Guard(self.manager, SecurityFiles(None))
        history = self.manager.message_history
        history.capacity, history.maximum_age = settings.session.id_history_size, settings.session.id_history_age
        self.peers = self.manager.core.peers
        self.peers.configure(settings.routes)
        for hop in settings.routes.values():
            split_host(hop, settings.peer_port)
        self.manager.tracing.configure({UUID(guid): name for guid, name in settings.trace_queues.items()})
        self.packets = Packets(self)
        self.departures = Departures(self)
        self.incoming = Incoming(self)
        self.order_acks = OrderAcks(self)
        self.pinger = Pinger(self)
        self.links: dict[tuple[str, int], Link] = {}
        self.connections: set[Connection] = set()
        self.refusals: Counter[str] = Counter()
        self.unfinished = 0  # bytes of packets of all connections of which the rest did not come yet
        self.dialing = 0  # attempts to connect under way
        self._past = Totals()  # of the connections that ended
        self.addresses: list[str] = []
        self._servers: list[asyncio.Server] = []
        self._by_queue: dict[int, Link] = {}
        self._half_open: Counter[str] = Counter()
        self._stopping = False
        self._idle: set[int] = set()  # outgoing queues that had nothing to do when we looked last
        self._sweeping: asyncio.TimerHandle | None = None

    # Life

    async def start(self) -> None:
        """Listen, then send what waits ([MS-MQQB] 3.1.4.1). The queues are loaded already."""
        self.manager.subscribe(self._on_event, messages=False)
        if self.settings.port:
            for address in self.settings.addresses:
                await self._listen(address)
        await self.pinger.start()
        for queue in self.manager.dispatchable():
            self._wake(queue)
        self._sweep()

    async def _listen(self, address: str) -> None:
        listening = tcp_socket(address, self.settings.port, "binary.port")
        if listening is None:
            return
        self._servers.append(await self.loop.create_server(self._accept, sock=listening))
        self.addresses.append(f"{url_host(address)}:{self.settings.port}")

    async def stop(self) -> None:
        """[MS-MQQB] 3.1.4.2: no packet announces it. What is locked for a peer is given back."""
        self._stopping = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for server in self._servers:
            server.close()
        self.pinger.stop()
        for link in list(self.links.values()):
            await link.stop(STOPPING)
        self.order_acks.stop()
        self.incoming.stop()
        for connection in list(self.connections):
            connection.close(STOPPING)
        with suppress(ValueError):
            self.manager.core.listeners.remove(self._on_event)

    @property
    def may_connect(self) -> bool:
        core = self.manager.core
        return not self._stopping and core.properties.connection_active and core.broken is None

    # Events of the queues

    def _on_event(self, event: Event) -> None:
        """Only plans: the queue manager must not be called back before it has finished."""
        if isinstance(event, MessageAwaitsTransfer):
            queue = event.queue
            link = self._by_queue.get(queue.queue_id)
            if link is not None:
                link.wake()
            else:
                self.loop.call_soon(self._wake, queue)
        elif isinstance(event, QueueChanged):
            self.incoming.forget_targets()
        elif isinstance(event, OutgoingStateChanged):
            self.loop.call_soon(self._state_changed, event.queue)
        elif isinstance(event, ConnectivityChanged):
            self.loop.call_soon(self._connectivity, event.active)
        elif isinstance(event, ThrottledChanged):
            self.loop.call_soon(self._throttle, event.throttled)

    def _wake(self, queue: OutgoingQueue) -> None:
        if self._stopping or queue.is_http or queue.multicast or queue.deleted:
            return
        link = self._by_queue.get(queue.queue_id) or self._link_for(queue)
        if link is not None:
            link.wake()

    def _link_for(self, queue: OutgoingQueue) -> Link | None:
        try:
            host, port = self.next_hop(queue)
        except LiorError as error:
            log.warning("no way to a destination", extra={"fields": {"queue": queue.name, "why": str(error)}})
            return None
        link = self.links.get((host, port))
        if link is None:
            link = self.links[host, port] = Link(self, host, port)
        self._by_queue[queue.queue_id] = link
        link.add(queue)
        return link

    def next_hop(self, queue: OutgoingQueue) -> tuple[str, int]:
        """Where the queue's messages go next: its host, or what a route says (QB-199, QB-216)."""
        return split_host(self.manager.routing.next_hop(queue.destination), self.settings.peer_port)

    def _state_changed(self, queue: OutgoingQueue) -> None:
        link = self._by_queue.get(queue.queue_id)
        if link is not None and queue.may_transmit:
            link.try_now()
        elif link is None:
            self._wake(queue)

    def _connectivity(self, active: bool) -> None:
        if active:
            for queue in self.manager.dispatchable():
                self._wake(queue)
            for link in self.links.values():
                link.try_now()
            return
        for connection in list(self.connections):
            connection.close(OFFLINE)

    def _throttle(self, throttled: bool) -> None:
        """A receiver without room slows its senders down instead of closing on each of them (QB-096)."""
        for connection in list(self.connections):
            connection.advertise(1 if throttled else self.settings.session.window_size)

    def _sweep(self) -> None:
        """Destinations cost nothing for good: a queue that had nothing to send from one look to the next, and is not
        connected, is forgotten."""
        idle = {queue.queue_id: queue for queue in self.manager.core.outgoing.values()
                if not queue.message_count and not self._is_connected(queue)}
        for queue in self.manager.forget_idle(queue for number, queue in idle.items() if number in self._idle):
            del idle[queue.queue_id]
            link = self._by_queue.pop(queue.queue_id, None)
            if link is not None:
                link.drop(queue)
                if link.is_unused:
                    del self.links[link.host, link.port]
        self._idle = set(idle)
        self._sweeping = self.loop.call_later(self.settings.session.cleanup, self._sweep)

    def _is_connected(self, queue: OutgoingQueue) -> bool:
        link = self._by_queue.get(queue.queue_id)
        return link is not None and link.connection is not None

    # Connections

    @property
    def has_room(self) -> bool:
        return self.may_connect and len(self.connections) < self.settings.max_sessions

    def _accept(self) -> Connection:
        session = Session(self.settings.session, own=self.own, initiator=False, now=self.loop.time())
        return Connection(self, session)

    def admit(self, connection: Connection) -> bool:
        """Caps that the text leaves to us (QB-138, QB-214)."""
        if self._stopping:
            return False
        if connection.accepted:
            address = connection.address
            if not self.has_room:
                self.refusals["sessions"] += 1
                return False
            if self._half_open[address] >= self.settings.max_half_open:
                self.refusals["half open"] += 1
                return False
            self._half_open[address] += 1
            connection.half_open = True
        self.connections.add(connection)
        self._past.connections += 1
        return True

    async def dial(self, link: Link, hop: Hop, *, pinged: bool) -> Connection:
        remote = link.expected
        session = Session(
            self.settings.session,
            own=self.own,
            initiator=True,
            remote=None if remote is None else remote.bytes_le,
            pinged=pinged,
            now=self.loop.time(),
        )
        source = self.source_for(hop.address)
        _, connection = await asyncio.wait_for(
            self.loop.create_connection(lambda: Connection(self, session, link), hop.address, hop.port,
                                        local_addr=source),
            self.settings.connect_timeout,
        )
        return connection

    def source_for(self, address: str) -> tuple[str, int] | None:
        """From the one address that is ours, so that the other side knows us by it."""
        own = [a for a in self.settings.addresses if (":" in a) == (":" in address)]
        if len(own) != 1 or own[0] in ("0.0.0.0", "::"):
            return None
        return own[0], 0

    def opened(self, connection: Connection) -> None:
        if connection.accepted:
            self._done_waiting(connection)
        if not connection.opened.done():
            connection.opened.set_result(None)
        log.info("session open", extra={"fields": {
            "peer": connection.address, "queue_manager": str(guid_of(connection.session.remote)),
            "accepted": connection.accepted}})
        self._learn(connection)
        if connection.link is not None:
            connection.link.established(connection)
            return
        for link in self.links.values():
            if link.connection is None and link.host == connection.address and link.has_work and link.suits(connection):
                link.adopt(connection)
                return

    def _learn(self, connection: Connection) -> None:
        """Where a queue manager is that names its queues by GUID."""
        change = Change()
        self.peers.learn(change, guid_of(connection.session.remote), connection.address)
        if change.operations:
            self.manager.core.submit(change)

    def closed(self, connection: Connection, tokens: list[Position | None]) -> None:
        if connection in self.connections:
            self.connections.discard(connection)
            self._past.add(connection)
        if connection.accepted:
            self._done_waiting(connection)
        log.info("session closed", extra={"fields": {"peer": connection.address, "why": connection.why_closed}})
        if connection.link is not None:
            connection.link.lost(connection, tokens)

    def leads_to(self, queue: OutgoingQueue, connection: Connection) -> bool:
        """Whether the other end of the session is where the queue's messages were sent, as far as that is known. Behind
        a router it is not: the destination may answer over another way than they took."""
        link = self._by_queue.get(queue.queue_id)
        return link is None or link.remote in (b"", connection.session.remote) \
            or self.manager.routing.is_routed(queue.destination)

    def ordered(self, queue: OutgoingQueue) -> None:
        """An order acknowledgement made progress in the queue's stream."""
        link = self._by_queue.get(queue.queue_id)
        departure = None if link is None else link.departures.get(queue.queue_id)
        if departure is not None:
            departure.ordered()
            departure.link.wake()

    def resend(self, queue: OutgoingQueue) -> None:
        """What is without an order acknowledgement goes again now."""
        link = self._by_queue.get(queue.queue_id)
        departure = None if link is None else link.departures.get(queue.queue_id)
        if departure is not None:
            departure.send_again()

    def _done_waiting(self, connection: Connection) -> None:
        """The handshake ended one way or the other; counted once for each connection."""
        if connection.half_open:
            connection.half_open = False
            self._half_open[connection.address] -= 1
            if self._half_open[connection.address] <= 0:
                del self._half_open[connection.address]

    def open_connection(self, link: Link, addresses: Iterable[str]) -> Connection | None:
        """An open session with one of these addresses that no link uses yet."""
        wanted = set(addresses)
        for connection in self.connections:
            if connection.is_open and connection.link is None and connection.address in wanted \
                    and link.suits(connection):
                return connection
        return None

    def hold(self, change: int) -> None:
        """Begun packets of all connections together have a bound (QB-214). Whoever leaves one unfinished for longest
        has to begin again: large packets that come in go before those that do not."""
        self.unfinished += change
        if change > 0 and self.unfinished > MOST_UNFINISHED:
            slowest = min((c for c in self.connections if c.unfinished), key=lambda c: c.unfinished_since, default=None)
            if slowest is not None:
                self.refusals["memory"] += 1
                slowest.close("too many packets are unfinished, and this one for longest")

    def session_with(self, queue_manager: bytes) -> Connection | None:
        """Any open session with a queue manager, for what is not kept in a queue."""
        for connection in self.connections:
            if connection.is_open and connection.session.remote == queue_manager:
                return connection
        return None

    # Management

    def totals(self) -> Totals:
        """Since the start, of all connections."""
        found = replace(self._past)
        for connection in self.connections:
            found.add(connection)
        return found

    def figures(self) -> list[dict[str, Any]]:
        """The sessions, for whoever operates this."""
        return [
            {
                "address": c.address,
                "queue_manager": str(guid_of(c.session.remote)),
                "accepted": c.accepted,
                "state": c.session.state.name,
                "since": c.since,
                "messages_received": c.messages_received,
                "messages_sent": c.messages_sent,
                "bytes_received": c.bytes_received,
                "window": c.session.window,
            }
            for c in self.connections
        ]


def port_of(number: str, text: str) -> int:
    if not (number.isascii() and number.isdigit() and 0 < int(number) < 0x10000):
        raise BadConfiguration(f"{number!r} is no port", where=f"[routes] {text}", remedy="write host or host:port")
    return int(number)


def split_host(text: str, port: int) -> tuple[str, int]:
    """host, host:port, [v6]:port or v6 alone."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return folded_host(host), port_of(rest[1:], text) if rest.startswith(":") else port
    if text.count(":") == 1:
        host, _, number = text.partition(":")
        return folded_host(host), port_of(number, text)
    return folded_host(text), port
