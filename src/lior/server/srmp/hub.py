"""SOAP reliable messaging of one queue manager: its server, its senders, and what joins them to the queues."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from typing import Any

from lior.queues.events import (
    ConnectivityChanged,
    Event,
    MessageAwaitsTransfer,
    OutgoingStateChanged,
    SupportChanged,
)
from lior.queues.outgoing import OutgoingQueue
from lior.server.engine import Engine
from lior.server.srmp.client import HttpClient, Origin
from lior.server.srmp.forwarding import Forwarding
from lior.server.srmp.incoming import Incoming
from lior.server.srmp.listener import Listener
from lior.server.srmp.packing import MOST_KNOWN, place_of
from lior.server.srmp.receipts import install
from lior.server.srmp.sender import Sender
from lior.server.srmp.settings import SrmpSettings
from lior.server.srmp.signatures import Signatures
from lior.server.srmp.stream_receipts import StreamReceipts
from lior.server.transfer_security.place import SecurityFiles

log = logging.getLogger("lior.srmp")

class Srmp:
    """Everything between the queues and HTTP. Runs on the engine's loop."""

    def __init__(self, engine: Engine, settings: SrmpSettings, security: SecurityFiles) -> None:
        self.engine = engine
        self.manager = engine.manager
        self.settings = settings
        self.loop = engine.own_loop()
        self.clock = self.manager.core.clock
        self.receipts = install(self.manager, settings)
        self.signatures = Signatures(security.certificates, security.policy)
        self.stream_receipts = StreamReceipts(self)
        self.forwarding = Forwarding(self)
        self.incoming = Incoming(self)
        self.client = HttpClient(settings)
        self.listener = Listener(self)
        self.senders: dict[int, Sender] = {}  # by queue id
        self.statuses: Counter[int] = Counter()  # of answers
        self._sent: dict[int, int] = {}  # the highest number sent of each stream, in this run
        self.receipt_urls: dict[str, str] = {}  # that go with URLs
        self._places: dict[str, tuple[Origin, str, str]] = {}  # of URLs
        self._stopping = False
        self._switching: asyncio.Task[None] | None = None

    # Life

    async def start(self) -> None:
        """Listen, then send what waits. The queues are loaded already (3.1.4.1)."""
        await self.client.start()
        if self.manager.core.properties.srmp_http_support:
            await self.listener.start()
        self.manager.subscribe(self._on_event, messages=False)
        for queue in self.manager.dispatchable():
            self._wake(queue)

    async def stop(self) -> None:
        self._stopping = True
        with suppress(ValueError):
            self.manager.core.listeners.remove(self._on_event)
        if self._switching is not None:
            await self._switching
        await self.listener.stop()
        self.stream_receipts.stop()
        for sender in list(self.senders.values()):
            await sender.stop()
        await self.client.stop()

    @property
    def addresses(self) -> list[str]:
        return self.listener.addresses

    @property
    def may_connect(self) -> bool:
        core = self.manager.core
        properties = core.properties
        active = properties.connection_active and properties.srmp_http_support
        return active and not self._stopping and core.broken is None

    # Events of the queues

    def _on_event(self, event: Event) -> None:
        """Only plans: the queue manager must not be called back before it has finished."""
        if isinstance(event, MessageAwaitsTransfer):
            if event.queue.is_http:
                self.loop.call_soon(self._wake, event.queue)
        elif isinstance(event, OutgoingStateChanged):
            if event.queue.is_http:
                self.loop.call_soon(self._state_changed, event.queue)
        elif isinstance(event, ConnectivityChanged):
            self.loop.call_soon(self._connectivity, event.active)
        elif isinstance(event, SupportChanged):
            self._switching = self.loop.create_task(self._switch(event.http, self._switching))

    async def _switch(self, on: bool, before: asyncio.Task[None] | None) -> None:
        """SrmpHttpSupport (SR-219), one change after the other."""
        if before is not None:
            await before
        if self._stopping:
            return
        if on and not self.listener.addresses:
            await self.listener.start()
        elif not on:
            await self.listener.stop()
        self._connectivity(on and self.manager.core.properties.connection_active)

    def _wake(self, queue: OutgoingQueue) -> None:
        if self._stopping or not queue.is_http or queue.deleted:
            return
        sender = self.senders.get(queue.queue_id)
        if sender is None:
            sender = self.senders[queue.queue_id] = Sender(self, queue)
        sender.wake()

    def _state_changed(self, queue: OutgoingQueue) -> None:
        sender = self.senders.get(queue.queue_id)
        if sender is None:
            self._wake(queue)
        elif queue.may_transmit:
            sender.try_now()
        else:
            sender.hold()

    def _connectivity(self, active: bool) -> None:
        for sender in list(self.senders.values()):
            if active:
                sender.try_now()
            else:
                sender.hold()
        if active:
            for queue in self.manager.dispatchable():
                self._wake(queue)

    def place(self, to: str) -> tuple[Origin, str, str]:
        """See `place_of`."""
        found = self._places.get(to)
        if found is None:
            if len(self._places) >= MOST_KNOWN:
                self._places.clear()
            found = self._places[to] = place_of(to, self.settings.outbound)
        return found

    def forget(self, sender: Sender) -> None:
        """Its queue is empty and its connection closed; another comes with the next message."""
        if self.senders.get(sender.queue.queue_id) is sender:
            del self.senders[sender.queue.queue_id]

    # Streams of ours

    def note_sent(self, sequence_id: int, number: int) -> None:
        if number > self._sent.get(sequence_id, 0):
            self._sent[sequence_id] = number

    def highest_sent(self, sequence_id: int) -> int:
        return self._sent.get(sequence_id, 0)

    def receipted(self, queue: OutgoingQueue) -> None:
        """A stream receipt made progress in the queue's stream."""
        sender = self.senders.get(queue.queue_id)
        if sender is not None:
            sender.receipted()
        live = {sequence_id for each in self.senders.values() for sequence_id in each.streams}
        for sequence_id in [known for known in self._sent if known not in live]:
            del self._sent[sequence_id]

    # Management

    def figures(self) -> list[dict[str, Any]]:
        return [sender.figures() for sender in self.senders.values()]
