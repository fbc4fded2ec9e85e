"""A queue manager driven by hand: every commit, failure and tick happens when the test says so."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from lior.errors import LiorError
from lior.message import Message
from lior.names import LocalNames
from lior.queues.change import Change
from lior.queues.definition import QueueManagerProperties, QueueProperties
from lior.queues.descriptor import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from lior.queues.events import Event
from lior.queues.manager import QueueManager
from lior.queues.ports import Store, TransactionOutcomes
from lior.queues.queue import Queue
from lior.queues.transaction import Transaction
from lior.security import Caller, local_caller
from lior.store.memory import MemoryStore
from lior.testing.clock import FakeClock
from lior.testing.ids import SeededIds

IDENTIFIER = UUID("00112233-4455-6677-8899-aabbccddeeff")


class Answer:
    """A reply that remembers what it was told, and refuses a second word."""

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.error: LiorError | None = None

    def cancelled(self) -> bool:
        return False

    def set_result(self, value: Any, /) -> None:
        self._once()
        self.value = value

    def set_exception(self, error: LiorError, /) -> None:
        self._once()
        self.error = error

    def _once(self) -> None:
        if self.done:
            raise AssertionError("answered twice")
        self.done = True

    def result(self) -> Any:
        if not self.done:
            raise AssertionError("not answered yet")
        if self.error is not None:
            raise self.error
        return self.value


class ManualEngine:
    """Stands where the real engine does, over any store; changes wait until `commit`."""

    def __init__(
        self,
        store: Store | None = None,
        clock: FakeClock | None = None,
        *,
        name: str = "lior",
        identifier: UUID = IDENTIFIER,
        seed: int = 0,
        cache_bytes: int = 64 << 20,
        outcomes: TransactionOutcomes | None = None,
        **properties: Any,
    ) -> None:
        self.store = store if store is not None else MemoryStore()
        self.clock = clock or FakeClock()
        qualified = f"{name}.example.org"
        local = LocalNames(name, qualified, frozenset({"127.0.0.1", "::1", "192.0.2.7"}), identifier)
        self.manager = QueueManager(
            QueueManagerProperties(identifier, name, qualified, **properties),
            local,
            self.store,
            self.clock,
            SeededIds(seed),
            cache_bytes=cache_bytes,
        )
        self.admin = local_caller(0, (0,), is_administrator=True)
        self.events: list[Event] = []
        self.manager.subscribe(self.events.append)
        self.manager.start(outcomes)
        self.commit()

    # The engine's work

    def commit(self) -> int:
        """Apply what is pending, and what follows from it, until nothing is; how many changes."""
        count = 0
        while pending := self.manager.take_pending():
            self.apply(pending)
            count += len(pending)
        return count

    def apply(self, changes: list[Change]) -> None:
        operations = [operation for change in changes for operation in change.operations]
        try:
            if operations:
                self.store.apply(operations)
        except LiorError as error:
            self.manager.failed(changes, error)
        else:
            self.manager.committed(changes)

    def advance(self, seconds: float) -> None:
        """Time passes; what is due happens and is committed."""
        self.clock.advance(seconds)
        self.manager.tick()
        self.commit()

    def restart(
        self, *, clean: bool = False, outcomes: TransactionOutcomes | None = None, **changes: Any
    ) -> ManualEngine:
        """A new queue manager on the same store, as after a crash (or a clean stop)."""
        if clean:
            self.manager.stop()
            self.commit()
        properties = {"seed": self.manager.core.last_handle + 1, **changes}
        core = self.manager.core
        return ManualEngine(
            self.store,
            self.clock,
            name=properties.pop("name", core.properties.computer_name),
            identifier=core.properties.identifier,
            outcomes=outcomes,
            **properties,
        )

    # Calls with their commit

    def create(self, path: str = r".\private$\q", caller: Caller | None = None, **properties: Any) -> Queue:
        answer = Answer()
        self.manager.create_queue(path, QueueProperties(**properties), caller or self.admin, answer)
        self.commit()
        queue: Queue = answer.result()
        return queue

    def open(
        self,
        name: str = r"DIRECT=OS:.\private$\q",
        access: QueueAccessType = QueueAccessType.RECEIVE,
        share: QueueShareMode = QueueShareMode.DENY_NONE,
        caller: Caller | None = None,
    ) -> OpenQueueDescriptor:
        return self.manager.open(name, access, share, caller=caller or self.admin)

    def sender(self, name: str = r"DIRECT=OS:.\private$\q") -> OpenQueueDescriptor:
        return self.open(name, QueueAccessType.SEND)

    def send(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message | None = None,
        transaction: Transaction | None = None,
        **fields: Any,
    ) -> Any:
        """Send, commit and give the identifier."""
        answer = Answer()
        self.manager.send(descriptor, message or Message(**fields), answer, transaction)
        self.commit()
        return answer.result()

    def receive(self, descriptor: OpenQueueDescriptor, *, timeout_ms: int = 0, **options: Any) -> Any:
        answer = self.start_receive(descriptor, timeout_ms=timeout_ms, **options)
        self.commit()
        return answer.result()

    def start_receive(self, descriptor: OpenQueueDescriptor, **options: Any) -> Answer:
        answer = Answer()
        self.manager.receive(descriptor, answer, **options)
        return answer

    def peek(self, descriptor: OpenQueueDescriptor, *, timeout_ms: int = 0, **options: Any) -> Any:
        answer = Answer()
        self.manager.peek(descriptor, answer, timeout_ms=timeout_ms, **options)
        return answer.result()

    def do(self, call: Any, *arguments: Any, **options: Any) -> Any:
        """Any call of the manager that answers through a reply given as its last positional argument."""
        answer = Answer()
        call(*arguments, answer, **options)
        self.commit()
        return answer.result()

    def bodies(self, queue: Queue) -> list[bytes]:
        """What is in the queue, in order."""
        return [queue.position(i, self.store).message.body for i in list(queue.available)]
