"""Messages out of queues, with the reason and what it calls for ([MS-MQDMPR] 3.1.7.2.1).

Every removal carries a reason; the acknowledgement, the journal copy and the dead letter that follow from it
are in the same change, so that a crash leaves all of them or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from lior.errors import LiorError, MessagesClaimed
from lior.message import Message, MessageClass
from lior.names import QueueSuffix
from lior.queues.acknowledgements import (
    POSITIVE,
    final_acknowledgement,
    wants_acknowledgement,
    wants_final_acknowledgement,
)
from lior.queues.awaiting import AwaitingQueue
from lior.queues.change import Change, Reply
from lior.queues.core import Core
from lior.queues.descriptor import TwoPhaseRead
from lior.queues.events import MessageDeleted, StorageFailed
from lior.queues.fates import Removed
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteMessage
from lior.queues.position import Position, State, Step
from lior.queues.queue import Queue
from lior.queues.routing import Routing, parse_single
from lior.queues.sending import Sending
from lior.queues.transaction import Transaction

PURGE_CHUNK = 2000  # messages removed in one change; a long purge is several

HELD: Final = (Change, Transaction, TwoPhaseRead)  # who may own a lock besides a link

# Somebody emptied or deleted the queue on purpose: outside transactions that makes no dead letters
DELIBERATE = frozenset({MessageClass.NACK_Q_PURGED, MessageClass.NACK_Q_DELETED})


# What the destination keeps of others' messages: QB-174 has the full queue, and the rest would vanish, for their sender
# learns nothing more of what has arrived. Not what somebody had no right to: he could fill the dead-letter queue.
DESTINATION_KEEPS = frozenset({
    MessageClass.NACK_RECEIVE_TIMEOUT, MessageClass.NACK_Q_EXCEED_QUOTA, MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    MessageClass.NACK_BAD_DST_Q, MessageClass.NACK_NOT_TRANSACTIONAL_MSG, MessageClass.NACK_HOP_COUNT_EXCEEDED,
})  # fmt: skip


class Removal:
    def __init__(self, core: Core, routing: Routing, sending: Sending) -> None:
        self._core = core
        self._routing = routing
        self._sending = sending
        sending.expire = self._expired_on_arrival
        self.after_removal: Callable[[Queue], None] = _ignore  # set by Subqueues: gone when empty
        self.order_queue_of: Callable[[Queue | None, Message], str] = _no_order_queue  # set by IncomingStreams
        self.unanswered: Callable[[Change, Position], None] = _ignore_both  # set by FinalAcknowledgements

    def stage(self, change: Change, position: Position, reason: MessageClass) -> None:
        """Remove a message. An available position is locked for the change; a locked one stays so."""
        self.hold(change, position)
        self._stage_held(change, position, reason)

    def _stage_held(self, change: Change, position: Position, reason: MessageClass) -> None:
        queue = position.queue
        if position.stored:
            change.operations.append(DeleteMessage(queue.queue_id, position.lookup_id))
        self._follow(change, queue, position.message, reason)
        change.then(self.deleted, position, reason)

    def hold(self, change: Change, position: Position) -> None:
        """Lock the position for a change, or take the lock over until the change is decided."""
        if position.state is State.AVAILABLE:
            position.queue.lock(position, change)
            change.otherwise(self.put_back, position)
        else:
            change.otherwise(self._keep_lock, position, position.owner)
            position.owner = change

    def take(self, change: Change, position: Position) -> None:
        """As `hold`, for a message that may be with a link: if the change fails, whoever calls must put it back.
        It does not return to the link, which may have ended meanwhile."""
        if position.state is State.AVAILABLE:
            position.queue.lock(position, change)
        else:
            position.owner = change

    def put_back(self, position: Position) -> None:
        """The change failed. If the message was to expire, that is tried again in a second, not at once:
        a full disk must not keep us busy."""
        if position.state is State.PURGE_PENDING:
            self._still_purged(position)
            return
        position.step(Step.RELEASE)
        position.queue.unlocked(position)
        if position.expires:
            self._look_again(position, position.expires)
        self._sending.make_available(position)

    def _look_again(self, position: Position, earliest: int = 0) -> None:
        soon = int(self._core.clock.wall()) + 1
        self._core.expiries.add(max(earliest, soon), position.queue.queue_id, position.lookup_id)

    def _keep_lock(self, position: Position, owner: object) -> None:
        position.owner = owner

    def deleted(self, position: Position, reason: int) -> None:
        queue = position.queue
        queue.delete(position)
        self._core.count_bytes(queue, -position.size)
        self._core.traffic.left(reason)
        if self._core.fates is not None:
            self._core.fates.removed(position, reason)
        if self._core.message_listeners:
            self._core.emit_message(MessageDeleted(queue, position.message, reason))
        self.after_removal(queue)

    def deleted_all(self, queue: Queue, positions: Sequence[Position], reason: int) -> None:
        """As `deleted` for each."""
        core = self._core
        queue.delete_all(positions)
        core.count_bytes(queue, -sum([position.size for position in positions]))
        core.traffic.left(reason, len(positions))
        if core.fates is not None:
            core.fates.removed_all(positions, reason)
        if core.message_listeners:
            for position in positions:
                core.emit_message(MessageDeleted(queue, position.message, reason))
        self.after_removal(queue)

    def received_all(self, queue: Queue, gone: Sequence[Removed], lookup_ids: Sequence[int], size: int) -> None:
        """Claimed messages that leave nothing behind them; nobody listens."""
        core = self._core
        queue.forget_claimed(lookup_ids, size)
        core.count_bytes(queue, -size)
        core.traffic.left(MessageClass.ACK_RECEIVE, len(gone))
        if core.fates is not None:
            core.fates.removed_all(gone, MessageClass.ACK_RECEIVE)
        self.after_removal(queue)

    def release_from(self, owner: object, position: Position) -> None:
        """Release the lock if it is still this owner's: a queue's deletion takes locks over."""
        if position.owner is owner:
            self.release(position)

    def release(self, position: Position) -> None:
        """A lock ends and the message stays: back to its place in the order, for whoever waits."""
        queue = position.queue
        if position.state is State.PURGE_PENDING:
            change = Change()
            self._stage_purged(change, position)
            self._core.submit(change)
            return
        position.step(Step.RELEASE)
        queue.unlocked(position)
        late = position.expires and position.expires <= self._core.clock.wall()
        if late and not (isinstance(queue, OutgoingQueue) and queue.must_outlast(position)):
            queue.publish(position)
            self.submit(position, self.expiry_reason(position))
            return
        self._sending.make_available(position)

    def _stage_purged(self, change: Change, position: Position) -> None:
        """Remove a message that was purged while locked, now that the lock is over."""
        change.otherwise(self._still_purged, position)
        self.stage(change, position, self.purge_reason(position.queue))

    def _still_purged(self, position: Position) -> None:
        position.owner = None
        self._look_again(position)

    def purge_reason(self, queue: Queue) -> MessageClass:
        outgoing = isinstance(queue, OutgoingQueue)
        return MessageClass.NACK_DELETED if outgoing else MessageClass.NACK_Q_PURGED

    def submit(self, position: Position, reason: MessageClass) -> None:
        change = Change()
        self.stage(change, position, reason)
        self._core.submit(change)

    def expiry_reason(self, position: Position) -> MessageClass:
        """In an outgoing queue the time to reach the queue is over, or the time to be received already."""
        if not isinstance(position.queue, OutgoingQueue):
            return MessageClass.NACK_RECEIVE_TIMEOUT
        message = position.message
        if message.time_to_be_received < message.time_to_reach_queue:
            return MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
        return MessageClass.NACK_REACH_QUEUE_TIMEOUT

    # What follows from the reason

    def _follow(self, change: Change, queue: Queue, message: Message, reason: MessageClass) -> None:
        if queue.is_system:
            return
        outgoing = isinstance(queue, OutgoingQueue)
        if reason is MessageClass.ACK_RECEIVE and not outgoing:
            journal = queue.main.journal
            if queue.main.properties.journaling and journal is not None:
                self._copy_to_target_journal(change, queue, journal, message)
        if message.transaction is not None and not outgoing and wants_final_acknowledgement(message):
            self._stage_final_acknowledgement(change, queue, message, reason, limited=False)
        if message.failure_reason:
            return  # a dead letter in a queue of the application: its senders were told when it failed
        if outgoing and reason in POSITIVE:
            delivered = reason is MessageClass.ACK_REACH_QUEUE  # else an administrator took it out by hand
            if delivered and message.positive_journaling_requested and self._core.is_source(message):
                self._sending.stage_journal_copy(change, message)
            return  # the acknowledgement of arrival is the receiver's to send
        if wants_acknowledgement(message, reason):
            self._sending.stage_acknowledgement(change, message, reason)
        if reason not in POSITIVE and message.negative_journaling_requested:
            self.dead_letter(change, queue, message, reason)

    def _stage_final_acknowledgement(
        self, change: Change, queue: Queue | None, message: Message, reason: int, *, limited: bool
    ) -> None:
        """[MS-MQQB] 3.1.7.17, to the order queue that the stream's acknowledgements go to. It tells nobody what he
        did not know, so insecure or not does not matter."""
        if message.failure_reason or self._core.is_source(message):
            return
        if message.soap is not None and message.soap.envelope:  # by SRMP: a final stream receipt
            self._sending.stage_final_receipt(change, message, reason)
            return
        ack = final_acknowledgement(message, reason)
        if ack is not None:
            self._sending.stamp_own(change, ack)
            self._sending.stage_own(change, self.order_queue_of(queue, message), ack, limited=limited)

    def _copy_to_target_journal(self, change: Change, queue: Queue, journal: Queue, message: Message) -> None:
        """[MC-MQAC] 3.11; dropped silently when the journal is full (DM-141)."""
        quota = queue.main.properties.journal_quota
        if journal.properties.quota != quota:
            journal.properties = journal.properties.changed(quota=quota)
        self._sending.stage_copy(change, journal, message, failed=0)

    def dead_letter(self, change: Change, queue: Queue | None, message: Message, reason: int) -> None:
        """Negative source journaling (DM-043, DM-132). Only the source queue manager keeps a message of a
        transaction; the destination keeps one outside a transaction for the reasons above."""
        transactional = message.transaction is not None
        source = self._core.is_source(message)
        arrived = not isinstance(queue, OutgoingQueue)
        if not source and (transactional or not arrived or reason not in DESTINATION_KEEPS):
            return
        if arrived and not transactional and reason in DELIBERATE:
            return
        target = self._application_dead_letter(message) if source else None
        if target is None:
            suffix = QueueSuffix.DEADXACT if transactional else QueueSuffix.DEADLETTER
            target = self._routing.system(suffix)
        assert target is not None
        self._sending.stage_copy(change, target, message, failed=reason)

    def _application_dead_letter(self, message: Message) -> Queue | None:
        """The application's own dead-letter queue, if it exists here and fits the message (DM-035)."""
        if not message.application_deadletter_queue:
            return None
        name = parse_single(message.application_deadletter_queue)
        queue = None if name is None else self._routing.find(name)
        if queue is None or queue.is_system or isinstance(queue, OutgoingQueue):
            return None
        return queue if queue.transactional is (message.transaction is not None) else None

    def _expired_on_arrival(self, change: Change, queue: Queue, message: Message) -> None:
        """A message whose time to be received was over when it came: the normal expiry path."""
        self.refuse(change, queue, message, MessageClass.NACK_RECEIVE_TIMEOUT)

    def refuse(
        self, change: Change, queue: Queue | None, message: Message, reason: MessageClass, *, keep: bool = True
    ) -> None:
        """A message that never gets into the queue, or that there is no queue for, with all that follows from it. The
        sender of a transactional one always hears of it, for it waits with what comes after."""
        if queue is None:
            self._sending.stage_acknowledgement(change, message, reason)
            if keep and message.negative_journaling_requested:
                self.dead_letter(change, None, message, reason)
        else:
            self._follow(change, queue, message, reason)
        if message.transaction is not None and (queue is None or not wants_final_acknowledgement(message)):
            self._stage_final_acknowledgement(change, queue, message, reason, limited=True)
        if self._core.fates is not None:
            change.then(self._core.fates.refused, queue, message, reason)
        change.then(self._core.traffic.left, reason)
        if self._core.message_listeners and queue is not None:
            change.then(self._core.emit_message, MessageDeleted(queue, message, reason))

    # Expiry, purge

    def expire_due(self) -> bool:
        """Remove what expired ([MS-MQDMPR] 3.1.7.2.7), a bounded number at a time; True if more is due.
        A locked message waits for the end of its lock."""
        core = self._core
        now = core.clock.wall()
        change = Change()
        for due in core.expiries.take_due(now, PURGE_CHUNK):
            queue = core.queues.get(due.queue_id)
            if queue is None or due.lookup_id not in queue:
                continue
            try:
                position = queue.position(due.lookup_id, core.store)
            except LiorError as error:  # damaged: it stays for `lior doctor`, and the others go
                core.emit(StorageFailed(str(error)))
                continue
            if position.state is State.AVAILABLE:
                self._stage_expiry(change, position, now)
            elif position.state is State.PURGE_PENDING and position.owner is None:
                self._stage_purged(change, position)
        if change.operations or change.has_steps:
            core.submit(change)
        following = core.expiries.next()
        return following is not None and following <= now

    def _stage_expiry(self, change: Change, position: Position, now: float) -> None:
        queue = position.queue
        if not position.expires or position.expires > now:  # it was moved to where it has more time
            if position.expires:
                self._core.expiries.add(position.expires, queue.queue_id, position.lookup_id)
        elif isinstance(queue, AwaitingQueue):
            self.unanswered(change, position)
        elif isinstance(queue, OutgoingQueue) and queue.must_outlast(position):
            self._look_again(position)
        else:
            self.stage(change, position, self.expiry_reason(position))

    def purge(self, queue: Queue, reply: Reply) -> None:
        """[MS-MQDMPR] 3.1.7.1.7: available messages go now, locked ones when their lock ends. Messages of
        open transactions are not in the queue yet and stay with them."""
        require_unclaimed(queue, "purged")
        held = [position for position in queue.locked_positions() if position.state is State.LOCKED]
        self._purge_some(queue, held, iter(list(queue.available)), reply)

    def _purge_some(self, queue: Queue, held: list[Position], ids: Iterator[int], reply: Reply) -> None:
        """A bounded number in one change; the next follows when it is on disk, the answer with the last."""
        change = Change()
        change.ordered = True
        chunk = [] if queue.deleted else list(islice(ids, PURGE_CHUNK))
        for position in self.positions(queue, [i for i in chunk if i in queue.available]):
            self.stage(change, position, self.purge_reason(queue))
        change.then(self._purge_on, queue, held, len(chunk) == PURGE_CHUNK, ids, reply)
        change.refuse(reply)
        self._core.submit(change)

    def _purge_on(self, queue: Queue, held: list[Position], more: bool, ids: Iterator[int], reply: Reply) -> None:
        """The chunk is on disk. What was held before goes when its lock ends; what is free again, because the
        change that held it failed, goes now, before the answer."""
        free = [found for known in held if (found := self._purge_held(known)) is not None]
        if not free and not more:
            reply.set_result(None)
            return
        try:
            self._purge_some(queue, [], chain(free, ids), reply)
        except LiorError as error:  # a damaged message
            reply.set_exception(error)

    def _purge_held(self, known: Position) -> int | None:
        """The lookup id, if nobody holds the message any more."""
        queue = known.queue
        position = queue.positions.get(known.lookup_id, known)  # it may have been out of memory meanwhile
        if position.state is State.LOCKED:
            position.step(Step.PURGE)
        elif position.state is State.AVAILABLE and position.lookup_id in queue.available:
            return position.lookup_id
        return None

    def positions(self, queue: Queue, ids: list[int]) -> list[Position]:
        """Many positions at once: read in runs, not one by one."""
        return [queue.read_ahead(lookup_id, self._core.store) for lookup_id in ids]

    # What the transfer protocols report

    def transferred(self, change: Change, position: Position) -> None:
        """The next queue manager has the message. It may have been purged or have expired meanwhile; if the change
        fails it is sent again."""
        if position.state is State.DELETED or isinstance(position.owner, HELD):
            return
        if position.state is State.AVAILABLE and not position.queue.knows(position):
            return  # given back, and with somebody else by now
        self.take(change, position)
        change.otherwise(self.put_back, position)
        self._stage_held(change, position, MessageClass.ACK_REACH_QUEUE)


def require_unclaimed(queue: Queue, what: str) -> None:
    """A reader of claims may come back for them: they are pinned."""
    if queue.claimed:
        raise MessagesClaimed(f"{len(queue.claimed)} messages are claimed, and the queue cannot be {what}",
                              where=queue.name, remedy="let the subscription finish, or: lior subscription abandon")


def _ignore(queue: Queue) -> None:
    pass


def _no_order_queue(queue: Queue | None, message: Message) -> str:
    return ""


def _ignore_both(change: Change, position: Position) -> None:
    pass
