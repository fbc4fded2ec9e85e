"""Final acknowledgements at the sender: what became of a message that was delivered ([MS-MQQB] 3.1.5.7)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from lior.errors import LiorError
from lior.message import Message, MessageClass, ObjectId
from lior.queues.awaiting import Awaiting, Found
from lior.queues.by_ordinal import ByOrdinal
from lior.queues.change import Change
from lior.queues.core import Core
from lior.queues.events import StorageFailed
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteMessage
from lior.queues.position import Position, State
from lior.queues.queue import Queue
from lior.queues.removal import HELD, Removal
from lior.queues.sending import Sending

Place = tuple[OutgoingQueue, int]  # with the lookup id


class FinalAcknowledgements:
    def __init__(self, core: Core, sending: Sending, removal: Removal, awaiting: Awaiting) -> None:
        self._core = core
        self._sending = sending
        self._removal = removal
        self._awaiting = awaiting
        self.sent: ByOrdinal[Place] = ByOrdinal()  # transmitted in this run, and not acknowledged
        self.moving: set[int] = set()  # lookup ids of those whose order acknowledgement is being stored
        self._early: set[int] = set()  # of these, those that have the final one already
        self.search: Callable[[int, int], Place | None] = _nowhere  # set by OutgoingStreams
        removal.unanswered = self.unanswered

    def acknowledged(
        self, change: Change, source: UUID, ordinal: int, message_class: int, sequence_id: int = 0
    ) -> bool:
        """The message was received at its destination, or refused or lost there. False if nothing is known of it.
        `sequence_id` tells copies of a message for several queues apart."""
        if source != self._core.properties.identifier or message_class < MessageClass.ACK_RECEIVE:
            return False
        position = self._outgoing(ordinal, sequence_id)
        if position is not None:
            self._stage_outgoing(change, position, message_class)
            return True
        found = self._awaiting.find(ordinal, sequence_id)
        if found is None:
            return False
        self._stage_waiting(change, ordinal, found, message_class)
        return True

    # Those that are still in their outgoing queue: the final acknowledgement overtook the other

    def _outgoing(self, ordinal: int, sequence_id: int) -> Position | None:
        places = self.sent.get(ordinal)
        if not places:
            place = None if self._awaiting.find(ordinal, sequence_id) else self.search(ordinal, sequence_id)
            places = () if place is None else (place,)
        positions = [found for queue, lookup_id in places if (found := self._at(queue, lookup_id)) is not None]
        for position in positions:
            transaction = position.message.transaction
            if transaction is not None and transaction.sequence_identifier == sequence_id:
                return position
        return positions[0] if positions and not sequence_id else None

    def _at(self, queue: OutgoingQueue, lookup_id: int) -> Position | None:
        if lookup_id not in queue:
            return None
        try:
            return queue.position(lookup_id, self._core.store)
        except LiorError as error:  # damaged
            self._core.emit(StorageFailed(str(error)))
            return None

    def _stage_outgoing(self, change: Change, position: Position, message_class: int) -> None:
        queue, lookup_id = position.queue, position.lookup_id
        if lookup_id in self.moving:
            self._stage_moving(change, position, message_class)
        elif not isinstance(position.owner, HELD):  # else it is being removed already
            self._removal.take(change, position)
            change.operations.append(DeleteMessage(queue.queue_id, lookup_id))
            self._stage_copies(change, queue, position.message, message_class)
            self._tell(change, position.message.identifier, message_class)
            change.either(self._removal.deleted, self._not_deleted, position, message_class)

    def _not_deleted(self, position: Position, message_class: int) -> None:
        self._removal.put_back(position)

    def _stage_moving(self, change: Change, position: Position, message_class: int) -> None:
        """Whether or not that move gets to the disk, nothing is left of the message when this does."""
        lookup_id = position.lookup_id
        if lookup_id in self._early:
            return
        self._early.add(lookup_id)
        change.operations.append(DeleteMessage(position.queue.queue_id, lookup_id))
        change.operations.append(DeleteMessage(self._awaiting.queue.queue_id, lookup_id))
        self._stage_copies(change, position.queue, position.message, message_class)
        self._tell(change, position.message.identifier, message_class)
        change.either(self._early_done, self._early_failed, position, message_class)

    def _early_done(self, position: Position, message_class: int) -> None:
        self._early.discard(position.lookup_id)
        if self._awaiting.remove(position) or position.state is State.DELETED:
            return
        if position.state is State.AVAILABLE:
            position.queue.lock(position, self)
        self._removal.deleted(position, message_class)

    def _early_failed(self, position: Position, message_class: int) -> None:
        self._early.discard(position.lookup_id)

    # Those that wait for it

    def _stage_waiting(self, change: Change, ordinal: int, found: Found, message_class: int) -> None:
        wanted = found.to_journal if message_class == MessageClass.ACK_RECEIVE else found.to_dead_letters
        if wanted:
            message = self._awaiting.message(found)
            if message is None:
                return  # damaged: it stays for `lior doctor`
            self._stage_copies(change, self._awaiting.queue, message, message_class)
        self._tell(change, ObjectId(self._core.properties.identifier, ordinal), message_class)
        self._awaiting.stage_removal(change, ordinal, found)

    def _tell(self, change: Change, identifier: ObjectId | None, message_class: int) -> None:
        if self._core.fates is not None and identifier is not None:
            change.then(self._core.fates.confirmed, identifier, message_class)

    def unanswered(self, change: Change, position: Position) -> None:
        """The time to be received and the margin are over, and nobody said what became of the message."""
        found = self._awaiting.find_position(position)
        identifier = position.message.identifier
        if found is not None and identifier is not None:
            reason = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
            self._stage_waiting(change, identifier.uniquifier, found, reason)

    def _stage_copies(self, change: Change, queue: Queue, message: Message, message_class: int) -> None:
        """QB-150; who asked for nothing of this kind hears nothing."""
        if message_class == MessageClass.ACK_RECEIVE:
            if message.positive_journaling_requested:
                self._sending.stage_journal_copy(change, message)
        elif message.negative_journaling_requested:
            self._removal.dead_letter(change, queue, message, message_class)


def _nowhere(ordinal: int, sequence_id: int) -> Place | None:
    return None
