"""Batches of messages that a writer publishes once, whatever happens to it and how often it tries.

A writer numbers its batches. A batch is one change: its messages, to any queues, and its number are on disk together,
so that a batch that comes again is known and left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from lior.errors import InvalidParameter
from lior.message import Message
from lior.queues.change import Change, Nobody, Reply
from lior.queues.core import Core
from lior.queues.descriptor import OpenQueueDescriptor
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteState, ExpectState, LoadedState, PutState
from lior.queues.queue import Queue
from lior.queues.sending import Sending
from lior.queues.transactions import Transactions

WRITER: Final = "writer"  # the kind under which the store keeps the last batch of each
LONGEST_NAME: Final = 128
MOST: Final = 4096  # writers that are remembered


class Item(NamedTuple):
    """A message and its destination. `transactional` counts for destinations elsewhere; those here know."""

    descriptor: OpenQueueDescriptor
    message: Message
    transactional: bool = False


class Publishing:
    def __init__(self, core: Core, sending: Sending, transactions: Transactions) -> None:
        self._core = core
        self._sending = sending
        self._transactions = transactions
        self._last: dict[str, int] = {}

    def restore(self, state: LoadedState, change: Change) -> None:
        for (kind, key), value in state.state.items():
            if kind == WRITER:
                self._last[key] = int(value)

    def last(self, writer: str) -> int | None:
        """The number of the batch that the writer published last."""
        return self._last.get(writer)

    def publish(self, writer: str, batch: int, items: Sequence[Item], reply: Reply) -> None:
        """Answers how many messages were sent: none of a batch that was published before."""
        self._core.require_service()
        if not 0 < len(writer) <= LONGEST_NAME:
            raise InvalidParameter("a writer has a name", where="writer",
                                   remedy=f"give one of at most {LONGEST_NAME} characters")
        last = self._last.get(writer)
        if last is not None and batch <= last:
            change = Change()  # the batch may be on its way to the disk yet
            change.operations.append(ExpectState(WRITER, writer, str(last).encode()))
            change.answer(reply, 0)
            self._core.submit(change)
            return
        kinds = [self._is_transactional(item) for item in items]
        self._check(items, kinds)
        transaction = self._transactions.begin()
        try:
            for item, inside in zip(items, kinds, strict=True):
                if inside:
                    self._sending.send(item.descriptor, item.message, transaction, Nobody())
        except BaseException:
            self._transactions.abort(transaction.identifier, Nobody())
            raise
        plain = [item for item, inside in zip(items, kinds, strict=True) if not inside]
        self._transactions.commit(
            transaction.identifier, _Published(reply, len(items)), partial(self._stage, writer, batch, plain)
        )

    def _is_transactional(self, item: Item) -> bool:
        queue = item.descriptor.queue or item.descriptor.live_queue()
        return item.transactional if isinstance(queue, OutgoingQueue) else queue.transactional

    def _check(self, items: Sequence[Item], kinds: Sequence[bool]) -> None:
        """Before anything is done: nothing of a batch is sent if one message cannot be."""
        sizes: Counter[Queue] = Counter()
        for item, inside in zip(items, kinds, strict=True):
            sizes[self._sending.check(item.descriptor, item.message, inside)] += item.message.size
        for queue, size in sizes.items():
            self._core.require_room(queue, size)
        if sizes:
            self._core.require_manager_room(next(iter(sizes)), sizes.total())

    def _stage(self, writer: str, batch: int, items: Sequence[Item], change: Change) -> None:
        for item in items:
            self._sending.stage(change, item.descriptor, item.message)
        before = self._last.pop(writer, None)  # and to the end: those that nobody used for longest are forgotten
        change.operations.append(PutState(WRITER, writer, str(batch).encode()))
        self._last[writer] = batch
        change.otherwise(self._unpublished, writer, before)
        if len(self._last) > MOST:
            oldest = next(iter(self._last))
            del self._last[oldest]
            change.operations.append(DeleteState(WRITER, oldest))

    def _unpublished(self, writer: str, before: int | None) -> None:
        if before is None:
            self._last.pop(writer, None)
        else:
            self._last[writer] = before


class _Published:
    """The commit's answer says nothing; the writer wants to know how many."""

    def __init__(self, reply: Reply, count: int) -> None:
        self._reply = reply
        self._count = count

    def cancelled(self) -> bool:
        return self._reply.cancelled()

    def set_result(self, value: object, /) -> None:
        self._reply.set_result(self._count)

    def set_exception(self, error: Exception, /) -> None:
        self._reply.set_exception(error)  # type: ignore[arg-type]
