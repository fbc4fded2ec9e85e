"""Transactions: the operations they hold until commit or abort ([MS-MQDMPR] 3.1.1.13, 3.1.1.14)."""

from __future__ import annotations

from enum import Enum
from uuid import UUID

from lior.errors import TransactionSequence, TransactionUsage
from lior.message import Message, MessageClass
from lior.queues.position import Position
from lior.queues.queue import Queue


class TransactionState(Enum):
    ACTIVE = "active"
    PREPARING = "being prepared"  # not on disk yet
    PREPARED = "prepared"
    ENDING = "ending"  # its commit or abort is under way
    ENDED = "ended"


class Enqueue:
    """A message that the commit puts into a queue."""

    __slots__ = ("message", "prepared_id", "queue", "size")

    def __init__(self, queue: Queue, message: Message, prepared_id: int = 0) -> None:
        self.queue = queue
        self.message = message
        self.size = message.size
        self.prepared_id = prepared_id  # where the store keeps it between prepare and commit


class Dequeue:
    """A position that the commit deletes."""

    __slots__ = ("position", "reason")

    def __init__(self, position: Position, reason: MessageClass = MessageClass.ACK_RECEIVE) -> None:
        self.position = position
        self.reason = reason


class Move:
    """A position that the commit moves to another queue."""

    __slots__ = ("position", "target")

    def __init__(self, position: Position, target: Queue) -> None:
        self.position = position
        self.target = target


TransactionalOperation = Enqueue | Dequeue | Move


class Transaction:
    __slots__ = ("identifier", "index", "operations", "single_phase", "state")

    def __init__(self, identifier: UUID, index: int, *, single_phase: bool = True) -> None:
        self.identifier = identifier
        self.index = index  # 20 bits for the wire; distinct among live transactions (MQ-125)
        self.single_phase = single_phase  # internal: no coordinator outside
        self.operations: list[TransactionalOperation] = []
        self.state = TransactionState.ACTIVE

    def require_active(self) -> None:
        if self.state is not TransactionState.ACTIVE:
            raise TransactionSequence(
                f"the transaction is {self.state.value}",
                where=str(self.identifier),
                remedy="begin a new transaction",
            )

    def add(self, operation: TransactionalOperation) -> None:
        self.require_active()
        self.operations.append(operation)

    def dequeue_of(self, position: Position) -> Dequeue:
        for operation in self.operations:
            if isinstance(operation, Dequeue) and operation.position is position:
                return operation
        raise TransactionUsage(
            "the message was not received in this transaction",
            where=f"lookup id {position.lookup_id}",
            remedy="receive it in the transaction first",
        )
