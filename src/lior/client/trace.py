"""What is known of a message: where it is, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

REASONS: Final = {
    "NACK_BAD_DST_Q": "the queue does not exist",
    "NACK_DELETED": "removed on purpose on its way",
    "NACK_REACH_QUEUE_TIMEOUT": "not in its queue in time",
    "NACK_Q_EXCEED_QUOTA": "the queue was full",
    "NACK_ACCESS_DENIED": "its sender may not send to the queue",
    "NACK_HOP_COUNT_EXCEEDED": "too many queue managers on its way",
    "NACK_BAD_SIGNATURE": "its signature is wrong, or missing",
    "NACK_BAD_ENCRYPTION": "it could not be decrypted",
    "NACK_COULD_NOT_ENCRYPT": "it could not be sent encrypted, or not at all",
    "NACK_NOT_TRANSACTIONAL_Q": "the queue is not transactional",
    "NACK_NOT_TRANSACTIONAL_MSG": "the queue takes messages of transactions only",
    "NACK_UNSUPPORTED_CRYPTO_PROVIDER": "its cryptographic provider is not known",
    "NACK_SOURCE_COMPUTER_GUID_CHANGED": "its sender has another identifier than before",
    "NACK_Q_DELETED": "the queue was deleted",
    "NACK_Q_PURGED": "the queue was purged",
    "NACK_RECEIVE_TIMEOUT": "not received in time",
    "NACK_RECEIVE_TIMEOUT_AT_SENDER": "not received in time, as its sender knows",
    "NACK_RECEIVE_REJECTED": "the receiving application refused it",
    "ACK_REACH_QUEUE": "it reached its queue",
    "ACK_RECEIVE": "it was received",
}


@dataclass(slots=True, frozen=True)
class TraceEntry:
    """One place where a message is (`current`), or one thing that happened to it."""

    message: str  # its identifier
    what: str
    time: float  # unix seconds; of a place, since when
    current: bool = False
    queue: str = ""
    queue_kind: str = ""
    lookup_id: int = 0
    label: str = ""
    reason: str = ""  # a message class: why it failed, or what an acknowledgement says
    detail: str = ""
    origin: str = ""  # the queue manager it came from
    state: str = ""  # of a place: available, or by what it is held
    aborts: int = 0
    express: bool = False
    count: int = 0

    @property
    def text(self) -> str:
        """In words."""
        tell = (_PLACES if self.current else _EVENTS).get(self.what)
        return f"{self.what} {self.queue}".rstrip() if tell is None else tell(self)


def _why(entry: TraceEntry) -> str:
    if not entry.reason:
        return ""
    return f"{REASONS.get(entry.reason, 'failed')} ({entry.reason})"


def _in(entry: TraceEntry) -> str:
    aborts = f", given back {_times(entry.aborts)}" if entry.aborts else ""
    express = ", in memory only" if entry.express else ""
    return f"in {entry.queue}, {entry.state}{aborts}{express}"


def _on_its_way(entry: TraceEntry) -> str:
    express = ", in memory only" if entry.express else ""
    return f"in the outgoing queue to {entry.queue} ({entry.detail}), {entry.state}{express}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _removed(entry: TraceEntry, how: str) -> str:
    return f"{how}, from {entry.queue}: {_why(entry)}"


_Telling = Callable[[TraceEntry], str]

_PLACES: Final[dict[str, _Telling]] = {
    "waiting": _in,
    "outgoing": _on_its_way,
    "unconfirmed": lambda e: "delivered, waits here for its final acknowledgement",
    "dead letter": lambda e: f"dead letter in {e.queue}: {_why(e)}; it was for {e.detail}",
    "journal": lambda e: f"copy in the journal {e.queue}",
    "answer": lambda e: f"its acknowledgement {e.reason} is in {e.queue}",
    "unsent": lambda e: f"not sent yet, to {e.queue}: {e.state}",
}

_EVENTS: Final[dict[str, _Telling]] = {
    "sent": lambda e: f"sent to {e.queue} on this queue manager",
    "came": lambda e: f"came to {e.queue} from queue manager {e.origin}",
    "queued": lambda e: f"put into the outgoing queue to {e.queue}",
    "handed": lambda e: f"handed to the next hop {e.detail}, to {e.queue}",
    "acknowledged": lambda e: f"taken over by the next hop, to {e.queue}",
    "confirmed": lambda e: "received by an application at its destination",
    "failed": lambda e: f"failed{' in ' + e.queue if e.queue else ' at its destination'}: {_why(e)}",
    "left": lambda e: f"left the outgoing queue to {e.queue}",
    "received": lambda e: f"received from {e.queue} by an application",
    "expired": lambda e: _removed(e, "expired"),
    "purged": lambda e: _removed(e, "purged"),
    "deleted": lambda e: _removed(e, "deleted"),
    "rejected": lambda e: _removed(e, "rejected"),
    "refused": lambda e: f"refused: {_why(e)}; it was for {e.detail}",
    "moved": lambda e: f"moved from {e.detail} to {e.queue}",
    "given back": lambda e: f"given back to {e.queue} by an aborted transaction, {_times(e.aborts)} so far",
    "dropped": lambda e: f"a copy or an acknowledgement could not be kept in {e.detail}",
    "dead letter": lambda e: f"kept as a dead letter in {e.queue}: {_why(e)}",
    "journaled": lambda e: f"copied to the journal {e.queue}",
    "answer": lambda e: f"its acknowledgement {e.reason} came to {e.queue}",
    "answer received": lambda e: f"its acknowledgement was received from {e.queue}",
    "answer dropped": lambda e: f"its acknowledgement could not be kept in {e.detail}",
    "ended": lambda e: f"gone from {e.queue}: an express message lives in memory, and the queue manager was stopped",
    "gap": lambda e: f"up to here the record leaves out at least {e.count} things, of this message or others",
}
