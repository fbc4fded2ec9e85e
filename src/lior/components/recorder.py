"""Recorders: method calls on a local stand-in become one message for the object that serves them (3.2).

    with Recorder(r"srv01\\private$\\Orders", class_id=ORDERS, manager=qm) as recorder:
        orders = recorder.interface(IOrderSink)
        orders.place_order(1001, "Zoë", 249.5)
        orders.add_lines(-2, [10, 20, -30], True)

At the end of the block one message leaves; an exception discards what was recorded. `lior.components.aio` has the
asyncio twin.
"""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from lior.client.sync import Queue, QueueManager, Transaction
from lior.components.context import local_user
from lior.components.destinations import parse_moniker
from lior.components.recording import DEFERRED, IMMEDIATE, DispatchProxy, Recording, ndr_proxy
from lior.errors import IllegalPropertyValue, InvalidHandle
from lior.message import ObjectId
from lior.wire.recorded_call import EXTENSION, Call

T = TypeVar("T")


class RecorderCore:
    """What the recorders of both faces have in common: everything but sending.

    `destination` is a queue's name, or a queue that is open for sending and stays open. `properties` are those of the
    message: priority, label, journal, acknowledge, administration_queue, sign, privacy, ... A `mode` of "immediate"
    sends each call by itself. `workgroup`: refuse to sign, as COM+ must where there is no directory (2.1).
    """

    def __init__(
        self,
        destination: Any,
        *,
        class_id: UUID | str,
        manager: Any = None,
        transaction: Any = None,
        mode: str = DEFERRED,
        partition: UUID | str | None = None,
        identity: Any = local_user,
        lcid: int | None = None,
        workgroup: bool = False,
        **properties: Any,
    ) -> None:
        if mode not in (DEFERRED, IMMEDIATE):
            raise ValueError(f"mode is {DEFERRED} or {IMMEDIATE}")
        if isinstance(destination, str) and manager is None:
            raise ValueError("a recorder needs a queue manager, or an open queue")
        properties |= properties.pop("journaling", {})
        if workgroup and (properties.get("sign") is not None or properties.get("security") is not None):
            raise IllegalPropertyValue("messages are not signed in a workgroup", where="sign",
                                       remedy="leave out sign, or the workgroup")
        self.destination = destination
        self.mode = mode
        self._manager = manager
        self._transaction = transaction
        self._properties = properties | {"extension": EXTENSION}
        self._recording = Recording(class_id, partition=partition, identity=identity, lcid=lcid)
        self._closed = False

    @classmethod
    def of_moniker(cls, text: str, *, class_ids: dict[str, str | UUID] | None = None, **options: Any) -> Self:
        """From COM's string: `queue:Priority=6,ComputerName=srv01,QueueName=Orders/new:{clsid}`."""
        found = parse_moniker(text, class_ids)
        return cls(found.queue, class_id=found.class_id, **(found.properties | options))

    @property
    def class_id(self) -> UUID:
        return self._recording.class_id

    @property
    def pending(self) -> tuple[Call, ...]:
        """The calls that wait for `close`."""
        return tuple(self._recording.calls)

    def interface(self, kind: type[T]) -> T:
        """The object's stand-in. Nobody is asked whether such an object exists."""
        return ndr_proxy(self._recording, kind, self._record)  # type: ignore[no-any-return]

    def dispatch(self, kind: Any) -> Any:
        """The stand-in for late-bound callers: members by name, in the dispatch form."""
        return DispatchProxy(self._recording, kind, self._record)

    def discard(self) -> None:
        """Forget what was recorded."""
        self._recording.discard()

    def _record(self, call: Call, referent: int) -> Any:
        if self._closed:
            raise InvalidHandle("the recorder is closed", where=str(self.destination), remedy="make another one")
        if self.mode == IMMEDIATE:
            return self._send_alone(self._recording.alone(call))
        self._recording.add(call, referent)
        return None

    def _send_alone(self, body: bytes) -> Any:
        raise NotImplementedError

    def __del__(self) -> None:
        if getattr(self, "_recording", None) is not None and len(self._recording):
            warnings.warn(f"a recorder for {self.destination} was dropped with {len(self._recording)} calls: close it, "
                          "or use it in a with block", ResourceWarning, stacklevel=2)


class Recorder(RecorderCore):
    """Records on the synchronous library: `manager` is a lior.QueueManager, `destination` may be a lior.Queue."""

    def __init__(self, destination: str | Queue, *, manager: QueueManager | None = None,
                 transaction: Transaction | None = None, **options: Any) -> None:
        super().__init__(destination, manager=manager, transaction=transaction, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
            self._closed = True

    def close(self) -> ObjectId | None:
        """No more calls: send what was recorded, as one message; answers its identifier. A send that fails leaves
        everything as it was."""
        sent = self.flush()
        self._closed = True
        return sent

    def flush(self) -> ObjectId | None:
        """Send what was recorded so far; nothing when there is nothing."""
        if not len(self._recording):
            return None
        sent = self._send_alone(self._recording.message())
        self._recording.discard()
        return sent

    def _send_alone(self, body: bytes) -> ObjectId:
        if isinstance(self.destination, Queue):
            return self.destination.send(body, transaction=self._transaction, **self._properties)
        manager: QueueManager = self._manager
        with manager.open_queue(self.destination, "send") as queue:  # MQ_SEND_ACCESS, shared with everybody (2.1)
            return queue.send(body, transaction=self._transaction, **self._properties)
