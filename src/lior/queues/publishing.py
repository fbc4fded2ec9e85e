"""Batches of messages that a writer publishes once, whatever happens to it and how often it tries.

A writer numbers its batches. A batch is one change: its messages, to any queues, and its number are on disk together,
so that a batch that comes again is known and left out. What there is to do for a large one is done in slices, before
the commit and after it, so that others get their turn; nobody sees a message before all are on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lior.errors import ClaimBusy, InvalidParameter, LiorError
from lior.message import Message, MessageTransaction
from lior.queues.change import Change, Nobody, Reply
from lior.queues.core import Core
from lior.queues.descriptor import OpenQueueDescriptor
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteState, ExpectState, LoadedState, Packed, PutState
from lior.queues.queue import Queue
from lior.queues.sending import Sending
from lior.queues.transactions import Transactions

WRITER: Final = "writer"  # the kind under which the store keeps the last batch of each
LONGEST_NAME: Final = 128
MOST: Final = 4096  # writers that are remembered
SLICE: Final = 256  # messages between two turns of others
_NO_TRANSACTION: Final = MessageTransaction()


class Item(NamedTuple):
    """A message and its destination. `transactional` counts for destinations elsewhere; those here know."""

    descriptor: OpenQueueDescriptor
    message: Message
    transactional: bool = False


class SlicedChange(Change):
    """What follows its commit is done a part at a time; changes that come meanwhile are not overtaken."""

    __slots__ = ("_at", "_submit")

    def __init__(self, submit: Callable[[Change], None]) -> None:
        super().__init__()
        self._at = 0
        self._submit = submit

    def finish(self) -> None:
        steps = self._steps
        end = min(len(steps), self._at + 3 * SLICE * 2)  # a message has about two steps
        for at in range(self._at, end, 3):
            if steps[at] is not None:
                steps[at](*steps[at + 2])
        self._at = end
        if end < len(steps):
            following = Change()
            following.ordered = True
            following.then(self.finish)
            if self._refused is not None:
                following.refuse(self._refused)
            self._submit(following)
        elif self._reply is not None and not self._reply.cancelled():
            self._reply.set_result(self._value)


class Publication:
    """A batch on its way: `add` its messages, then `end`, or `give_up`."""

    def __init__(self, publishing: Publishing, writer: str, batch: int, reply: Reply) -> None:
        self._publishing = publishing
        self.writer = writer
        self.batch = batch
        self.reply = reply
        self.again: list[Reply] = []  # of those who ask for the same while it is under way
        self.change = SlicedChange(publishing.core.submit)
        self.change.refuse(reply)
        self.count = 0
        self._transaction = publishing.transactions.begin()  # for its identifier and index, which nobody else has now
        self._held: dict[Queue, Item] = {}  # the last so far of each transactional queue: it may be the last of all
        self._begun: set[Queue] = set()

    def add(self, items: Sequence[Item]) -> None:
        """Raises the error of one that cannot be sent; then nothing of the batch is."""
        try:
            for item in items:
                queue = item.descriptor.queue or item.descriptor.live_queue()
                transactional = item.transactional if isinstance(queue, OutgoingQueue) else queue.transactional
                if not transactional:
                    self._publishing.sending.stage(self.change, item.descriptor, item.message)
                    continue
                before = self._held.get(queue)
                self._held[queue] = item
                if before is not None:
                    self._stage_placed(queue, before, last=False)
            self.count += len(items)
            self._pack()
        except LiorError as error:
            self.give_up(error)
            raise

    def _stage_placed(self, queue: Queue, item: Item, *, last: bool) -> None:
        known, transaction = item.message.transaction or _NO_TRANSACTION, self._transaction
        place = MessageTransaction(
            transaction.identifier, index=transaction.index, first_in_transaction=queue not in self._begun,
            last_in_transaction=last, final_ack_required=known.final_ack_required,
            connector_queue_manager=known.connector_queue_manager, status_queue=known.status_queue,
        )  # fmt: skip
        self._begun.add(queue)
        self._publishing.sending.stage(self.change, item.descriptor, item.message, place)

    def _pack(self) -> None:
        change = self.change
        if len(change.operations) > SLICE:
            change.operations[:] = [*_packed(change.operations), self._publishing.core.store.pack(
                [each for each in change.operations if type(each) is not Packed])]  # fmt: skip

    def end(self) -> None:
        try:
            for queue, item in self._held.items():
                self._stage_placed(queue, item, last=True)
        except LiorError as error:
            self.give_up(error)
            raise
        self._publishing.ended(self)
        self._publishing.transactions.abort(self._transaction.identifier, Nobody())  # it holds nothing itself

    def give_up(self, error: LiorError) -> None:
        self._publishing.forget(self)
        self.change.refuse(Nobody())  # who called hears of it from the call
        self.change.fail(error)
        self._publishing.transactions.abort(self._transaction.identifier, Nobody())
        for reply in self.again:
            reply.set_exception(error)


def _packed(operations: Sequence[Any]) -> list[Any]:
    return [each for each in operations if type(each) is Packed]


class Publishing:
    def __init__(self, core: Core, sending: Sending, transactions: Transactions) -> None:
        self.core = core
        self.sending = sending
        self.transactions = transactions
        self._last: dict[str, int] = {}
        self._under_way: dict[str, Publication] = {}

    def restore(self, state: LoadedState, change: Change) -> None:
        for (kind, key), value in state.state.items():
            if kind == WRITER:
                self._last[key] = int(value)

    def last(self, writer: str) -> int | None:
        """The number of the batch that the writer published last."""
        return self._last.get(writer)

    def publish(self, writer: str, batch: int, items: Sequence[Item], reply: Reply) -> None:
        """Answers how many messages were sent: none of a batch that was published before."""
        publication = self.begin(writer, batch, reply)
        if publication is not None:
            publication.add(items)
            publication.end()

    def begin(self, writer: str, batch: int, reply: Reply) -> Publication | None:
        """None for a batch that was published, or is just being published: the answer comes by itself."""
        self.core.require_service()
        if not 0 < len(writer) <= LONGEST_NAME:
            raise InvalidParameter("a writer has a name", where="writer",
                                   remedy=f"give one of at most {LONGEST_NAME} characters")
        under_way = self._under_way.get(writer)
        if under_way is not None:
            if batch != under_way.batch:
                raise ClaimBusy(f"the batch {under_way.batch} of the writer is under way", where=writer,
                                remedy="wait for its answer")
            under_way.again.append(reply)
            return None
        last = self._last.get(writer)
        if last is not None and batch <= last:
            self._answer_again(writer, last, reply)
            return None
        self._under_way[writer] = found = Publication(self, writer, batch, reply)
        return found

    def _answer_again(self, writer: str, last: int, reply: Reply) -> None:
        change = Change()  # the batch may be on its way to the disk yet
        change.operations.append(ExpectState(WRITER, writer, str(last).encode()))
        change.answer(reply, 0)
        self.core.submit(change)

    def forget(self, publication: Publication) -> None:
        self._under_way.pop(publication.writer, None)

    def ended(self, publication: Publication) -> None:
        """All of it is staged: to the disk with it."""
        writer, batch, change = publication.writer, publication.batch, publication.change
        self.forget(publication)
        before = self._last.pop(writer, None)  # and to the end: those that nobody used for longest are forgotten
        change.operations.append(PutState(WRITER, writer, str(batch).encode()))
        self._last[writer] = batch
        change.otherwise(self._unpublished, writer, before)
        if len(self._last) > MOST:
            oldest = next(iter(self._last))
            del self._last[oldest]
            change.operations.append(DeleteState(WRITER, oldest))
        change.answer(publication.reply, publication.count)
        self.core.submit(change)
        for reply in publication.again:
            self._answer_again(writer, batch, reply)

    def _unpublished(self, writer: str, before: int | None) -> None:
        if before is None:
            self._last.pop(writer, None)
        else:
            self._last[writer] = before
