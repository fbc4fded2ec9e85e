"""Names and small steps that the tests of the queues share."""

from collections.abc import Sequence
from typing import Any

import pytest

from lior.errors import HRESULTS, LiorError, MessageStorageFailed
from lior.message import Message
from lior.queues.ports import IndexEntry, Operation
from lior.queues.queue import Queue
from lior.queues.transaction import Transaction
from lior.store.memory import MemoryStore
from lior.testing.engine import Answer, ManualEngine

QUEUE = r"DIRECT=OS:.\private$\q"
ADMIN = r"DIRECT=OS:.\private$\admin"
REMOTE = r"DIRECT=OS:elsewhere\private$\q"
RECOVERABLE = 1
FULL = MessageStorageFailed("no space left on the device")


def code(symbol: str) -> int:
    return HRESULTS["MQ_ERROR_" + symbol]


def refused(symbol: str) -> Any:
    """Expect the error with this code of the specification."""
    return pytest.raises(LiorError, check=lambda error: error.code == code(symbol))


def failure(answer: Answer) -> int:
    """The code that a call was answered with."""
    assert answer.done, "not answered"
    assert answer.error is not None, "answered without an error"
    return answer.error.code


def system_queue(engine: ManualEngine, suffix: str) -> Queue:
    return engine.manager.core.paths[f"system$;{suffix}".casefold()]


def messages(engine: ManualEngine, queue: Queue) -> list[Message]:
    """What a reader would find in the queue, in order."""
    return [queue.position(i, engine.store).read() for i in list(queue.available)]


def classes(engine: ManualEngine, queue: Queue) -> list[int]:
    return [message.message_class for message in messages(engine, queue)]


def stored(engine: ManualEngine, queue_id: int) -> list[IndexEntry]:
    """What the store has for a queue."""
    return [IndexEntry(*entry) for entry in engine.store.load_index() if entry[0] == queue_id]


def commit(engine: ManualEngine, transaction: Transaction) -> None:
    engine.do(engine.manager.commit, transaction.identifier)


def abort(engine: ManualEngine, transaction: Transaction) -> None:
    engine.do(engine.manager.abort, transaction.identifier)


class FullStore(MemoryStore):
    """Refuses batches while `error` is set, as a full disk does."""

    def __init__(self) -> None:
        super().__init__()
        self.error: LiorError | None = None

    def apply(self, batch: Sequence[Operation]) -> None:
        if self.error is not None:
            raise self.error
        super().apply(batch)


def acknowledged(**fields: Any) -> Message:
    """A message that asks for every acknowledgement, to the queue `admin`."""
    return Message(acknowledgements_requested=0x0F, administration_queue=ADMIN, **fields)
