"""What happens in the queue manager, as lines of the log. Lines that a stranger can cause come at most once in ten
seconds for one cause, with the number of those left out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from lior.message import Message, MessageClass
from lior.queues.events import (
    AccessAudited,
    ConnectivityChanged,
    Event,
    MessageAvailable,
    MessageDeleted,
    MessageDropped,
    OutgoingStateChanged,
    QueueChanged,
    StorageFailed,
    ThrottledChanged,
)
from lior.queues.manager import QueueManager
from lior.queues.queue import is_hidden

log = logging.getLogger("lior.queues")

REPEAT: Final = 10.0  # seconds
MOST_CAUSES: Final = 1000  # remembered at a time


class EventLog:
    def __init__(self, manager: QueueManager) -> None:
        self._clock = manager.core.clock
        self._told: dict[tuple[object, ...], list[float]] = {}  # cause: when, and how many since
        self._each_message = log.isEnabledFor(logging.DEBUG)
        manager.subscribe(self._on_event, messages=self._each_message)

    def _on_event(self, event: Event) -> None:
        line = _LINES.get(type(event))
        if line is not None:
            line(self, event)

    def _write(self, level: int, text: str, **fields: Any) -> None:
        if log.isEnabledFor(level):
            log.log(level, text, extra={"fields": fields})

    def _seldom(self, level: int, text: str, cause: tuple[object, ...], **fields: Any) -> None:
        now = self._clock.monotonic()
        told = self._told.get(cause)
        if told is not None and now - told[0] < REPEAT:
            told[1] += 1
            return
        if told is not None and told[1]:
            fields["left_out"] = int(told[1])
        if len(self._told) >= MOST_CAUSES:
            self._told.clear()
        self._told[cause] = [now, 0]
        self._write(level, text, **fields)

    def _dropped(self, event: MessageDropped) -> None:
        self._seldom(logging.WARNING, "a copy or an acknowledgement was not kept", ("dropped", event.where, event.why),
                     message=_id(event.message), where=event.where, why=event.why,
                     message_class=_class(event.message.message_class))  # fmt: skip

    def _audited(self, event: AccessAudited) -> None:
        who = str(event.caller.sid)
        text, level = ("access refused", logging.WARNING) if event.denied else ("access granted", logging.INFO)
        self._seldom(level, text, ("audit", who, event.where, event.denied), who=who, where=event.where,
                     wanted=f"0x{event.wanted:X}", refused=f"0x{event.denied:X}")

    def _throttled(self, event: ThrottledChanged) -> None:
        if event.throttled:
            self._write(logging.WARNING, "new messages are refused", why=event.why)
        else:
            self._write(logging.INFO, "new messages are taken again")

    def _storage(self, event: StorageFailed) -> None:
        self._seldom(logging.ERROR, "the store failed", ("storage", event.why), why=event.why)

    def _connectivity(self, event: ConnectivityChanged) -> None:
        self._write(logging.INFO, "online" if event.active else "offline")

    def _outgoing(self, event: OutgoingStateChanged) -> None:
        self._write(logging.INFO, "outgoing queue", queue=event.queue.name, state=event.state)

    def _queue(self, event: QueueChanged) -> None:
        if not is_hidden(event.queue):
            self._write(logging.INFO, f"queue {event.what}", queue=event.queue.name)

    def _available(self, event: MessageAvailable) -> None:
        position = event.queue.positions.get(event.lookup_id)
        known = {} if position is None else {"message": _id(position.message)}
        self._write(logging.DEBUG, "message available", **known, queue=event.queue.name, lookup_id=event.lookup_id)

    def _deleted(self, event: MessageDeleted) -> None:
        self._write(logging.DEBUG, "message gone", message=_id(event.message), queue=event.queue.name,
                    why=_class(event.reason))  # fmt: skip


def _id(message: Message) -> str:
    return str(message.identifier or "")


def _class(number: int) -> str:
    try:
        return MessageClass(number).name
    except ValueError:
        return f"0x{number:04X}"


_LINES: Final[dict[type, Callable[[EventLog, Any], None]]] = {
    MessageDropped: EventLog._dropped,
    AccessAudited: EventLog._audited,
    ThrottledChanged: EventLog._throttled,
    StorageFailed: EventLog._storage,
    ConnectivityChanged: EventLog._connectivity,
    OutgoingStateChanged: EventLog._outgoing,
    QueueChanged: EventLog._queue,
    MessageAvailable: EventLog._available,
    MessageDeleted: EventLog._deleted,
}
