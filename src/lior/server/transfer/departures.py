"""What is on its way out of the outgoing queues: locked while a link has it, removed when the peer says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from lior.protocols.binary.ordering import NEVER, ResendLadder
from lior.queues.change import Change
from lior.queues.outgoing import OutgoingQueue
from lior.queues.position import Position, State

if TYPE_CHECKING:
    from lior.server.transfer.hub import Transfer
    from lior.server.transfer.link import Link

log = logging.getLogger("lior.transfer")

_LOCKED: Final = State.LOCKED
MOST_UNORDERED: Final = 64 << 20  # bytes of one queue


class Departure:
    """One outgoing queue on its link."""

    def __init__(self, hub: Transfer, queue: OutgoingQueue, link: Link) -> None:
        self.queue = queue
        self.link = link
        self.unordered: dict[int, Position] = {}  # transactional, sent, not order-acknowledged; by lookup id
        self.ladder = ResendLadder(hub.settings.session.resend_table)
        self.bytes = 0  # of those: they are kept in memory
        self._hub = hub
        self._timer: asyncio.TimerHandle | None = None

    def sent(self, positions: Iterable[Position]) -> None:
        """Transactional messages left: the stream's timer runs (3.1.2.6)."""
        for position in positions:
            self.unordered[position.lookup_id] = position
            self.bytes += position.size
        self.ladder.sent(self._hub.loop.time())
        if self._timer is None:
            self._arm()

    @property
    def is_full(self) -> bool:
        """So much without an order acknowledgement that the rest has to wait for one."""
        return self.bytes >= MOST_UNORDERED

    def ordered(self) -> None:
        """An order acknowledgement made progress: forget what is gone, begin the ladder anew."""
        link = self.link
        self.unordered = {i: p for i, p in self.unordered.items() if p.owner is link and p.state is State.LOCKED}
        self.bytes = sum(position.size for position in self.unordered.values())
        self.ladder.acknowledged(bool(self.unordered), self._hub.loop.time())
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.ladder.deadline != NEVER:
            self._timer = self._hub.loop.call_at(self.ladder.deadline, self._resend)

    def _resend(self) -> None:
        """3.1.6.5: everything without an order acknowledgement goes again, in its old order. What the session has
        not acknowledged yet is still on its way, and is left to it."""
        self._timer = None
        now = self._hub.loop.time()
        if not self.ladder.timed_out(max(now, self.ladder.deadline) if self.ladder.deadline - now < 0.002 else now):
            self._arm()
            return
        in_flight = self._hub.departures.in_flight
        again = [position for position in self.unordered.values() if position.lookup_id not in in_flight]
        self.note_ladder()
        self._arm()
        if again:
            log.info("no order acknowledgement: sending again",
                     extra={"fields": {"queue": self.queue.name, "messages": len(again)}})
            self.give_back(again)
            self.link.pump()

    def send_again(self) -> None:
        """An operator asks for it (EOD_RESEND, [MS-MQMR] 3.1.4.2), whatever the timer says."""
        in_flight = self._hub.departures.in_flight
        again = [position for position in self.unordered.values() if position.lookup_id not in in_flight]
        if again:
            self.give_back(again)
            self.link.pump()

    def note_ladder(self) -> None:
        info = self.queue.transfer_info
        info.eod_resend_count += 1
        info.eod_resend_interval = int(self.ladder.interval)
        info.eod_resend_time = self._hub.clock.wall() + self.ladder.deadline - self._hub.loop.time()

    def give_back(self, positions: Iterable[Position]) -> None:
        """To their place in the queue."""
        positions = list(positions)
        for position in positions:
            if self.unordered.pop(position.lookup_id, None) is not None:
                self.bytes -= position.size
        self._hub.manager.outgoing_streams.release(self.link, positions)

    def stop(self) -> None:
        """The link is gone: nothing is known of what had no acknowledgement."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.ladder.stop()
        self.give_back(self.unordered.values())


class Departures:
    """Acknowledgements of sessions and of streams, applied to the queues."""

    def __init__(self, hub: Transfer) -> None:
        self._hub = hub
        self.in_flight: set[int] = set()  # lookup ids of transactional messages that no session acknowledged yet

    def acknowledged(self, express: list[Position | None], recoverable: list[Position | None]) -> None:
        """[MS-MQQB] 3.1.5.5: express messages leave with AckSequenceNumber, recoverable ones when they are on the
        other disk, transactional ones with their order acknowledgement."""
        change = Change()
        change.lazy = True  # after a crash what was not removed is sent again, and known there
        gone: list[Position] = []
        own = self._hub.manager.core.properties.identifier
        for position in express:
            if position is None:
                continue
            message = position.message
            if message.transaction is not None and (
                    message.source_queue_manager is own or self.in_stream(position)):
                self.in_flight.discard(position.lookup_id)
            elif not message.delivery_guarantee and (position.state is _LOCKED or is_held(position)):
                gone.append(position)
        for position in recoverable:
            if position is None or (position.message.transaction is not None and (
                    position.message.source_queue_manager is own or self.in_stream(position))):
                continue
            if position.state is _LOCKED or is_held(position):
                gone.append(position)
        self._hub.manager.batches.transferred(change, gone)
        if change.operations or change.has_steps:
            self._hub.manager.core.submit(change)

    def in_stream(self, position: Position) -> bool:
        """Of an exactly-once stream that begins here. On its way through us a transactional message is like any
        recoverable one: only its source and its destination know the stream (QB-171)."""
        message = position.message
        return message.transaction is not None and self._hub.manager.core.is_source(message)

    def given_up(self, link: Link, positions: list[Position | None]) -> None:
        """A session ended with these in flight: their place in the queue is theirs again."""
        kept = []
        for position in positions:
            if position is None:
                continue
            if self.in_stream(position):
                self.in_flight.discard(position.lookup_id)
            else:
                kept.append(position)
        self._hub.manager.outgoing_streams.release(link, kept)


def is_held(position: Position) -> bool:
    """Still as the link left it: nobody purged it or took it over for its expiry."""
    return position.state in (State.LOCKED, State.PURGE_PENDING) and not isinstance(position.owner, Change)
