"""Looking for messages in the whole store: by identifier, label or correlation id, none of which has an index.

SQLite reads the headers without giving them to Python, in bounded steps, on a connection of the search's own: the
writer waits for nothing, and no step keeps the log from starting over.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from lior.errors import LiorError
from lior.message import Message, ObjectId
from lior.queues.ports import StoredMessage
from lior.store import recovery
from lior.store.errors import READ_ERRORS, translate
from lior.store.record import decode, encoded_field

STEP: Final = 8192  # rows looked at in one step: a few milliseconds from memory
MOST_MESSAGES: Final = 100  # found by a label or a correlation id


class Wanted(NamedTuple):
    """One of the three."""

    identifier: ObjectId | None = None
    label: str = ""
    correlation_id: bytes = b""
    limit: int = MOST_MESSAGES

    def is_about(self, message: Message) -> bool:
        """The message itself, or one that answers it."""
        if self.identifier is not None:
            if message.identifier == self.identifier:
                return True
            return message.message_class != 0 and message.correlation_id == self.identifier.to_bytes()
        if self.label:
            return message.label == self.label
        return message.correlation_id == self.correlation_id

    def patterns(self) -> list[bytes]:
        """What the header of such a message has in it."""
        if self.identifier is not None:
            return [encoded_field("identifier", self.identifier),
                    encoded_field("correlation_id", self.identifier.to_bytes())]  # fmt: skip
        if self.label:
            return [encoded_field("label", self.label)]
        return [encoded_field("correlation_id", self.correlation_id)]


class Place(NamedTuple):
    """A message in the store. `damage` says what is wrong with the record of one that cannot be read."""

    queue_id: int
    stored: StoredMessage
    damage: str = ""


class Step(NamedTuple):
    """A part of the search: how much of how much is done, and what was found."""

    done: int
    total: int
    places: list[Place]


def search(path: Path, wanted: Wanted) -> Iterator[Step]:
    """Steps through a store file. What comes in meanwhile is found too."""
    patterns = wanted.patterns()
    condition = " OR ".join("instr(hdr, ?) > 0" for _ in patterns)
    statement = f"SELECT q, l, t, a, v, u, hdr, body FROM m WHERE id > ? AND id <= ? AND ({condition})"
    try:
        with closing(recovery.connect(path, "ro")) as connection:
            first, last = _ends(connection)
            at = start = first - 1
            while at < last:
                end = min(at + STEP, last)
                rows = connection.execute(statement, (at, end, *patterns)).fetchall()
                at = end
                if at == last:
                    _, last = _ends(connection)
                yield Step(at - start, last - start, list(_places(rows, wanted)))
    except READ_ERRORS as error:
        raise translate(error, str(path)) from error


def _ends(connection: sqlite3.Connection) -> tuple[int, int]:
    first, last = connection.execute("SELECT (SELECT min(id) FROM m), (SELECT max(id) FROM m)").fetchone()
    return (1, 0) if first is None else (first, last)


def _places(rows: Sequence[tuple[int, int, float, int, int, float, bytes, bytes]], wanted: Wanted) -> Iterator[Place]:
    for queue_id, lookup_id, arrival_time, aborts, moves, last_move, header, body in rows:
        try:
            message = decode(header, body)
        except LiorError as error:
            empty = Message(identifier=wanted.identifier, label=wanted.label)
            yield Place(queue_id, StoredMessage(lookup_id, empty, arrival_time, aborts, moves, last_move), error.what)
            continue
        if wanted.is_about(message):
            yield Place(queue_id, StoredMessage(lookup_id, message, arrival_time, aborts, moves, last_move))

