"""Arrow batches as messages to send. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final

import pyarrow as pa

from lior.errors import InvalidParameter
from lior.message import (
    INFINITE,
    NULL_CORRELATION_ID,
    Message,
)
from lior.names import parse_format_name
from lior.server.bulk.columns import TYPES
from lior.store.stages import Staged
from lior.wire import bulk


def messages_of(batch: pa.RecordBatch, defaults: dict[str, Any]) -> Iterator[Staged]:
    """A message for each row: its columns, then `defaults`, then what a message has by itself."""
    names = batch.schema.names
    for name in (*names, *defaults):
        if name not in bulk.WRITABLE:
            raise InvalidParameter(f"a message to send has no column {name!r:.60}", where="columns",
                                   remedy=f"select some of {', '.join(bulk.WRITABLE)}")
    if "body" not in names:
        raise InvalidParameter("there is no column body", where="columns", remedy="select one as body")
    columns = {name: _values(batch, name) for name in names}
    given = {name: repeat(value) for name, value in defaults.items() if value is not None and name not in columns}
    every = {**columns, **given}
    for values in zip(*every.values(), strict=False):
        said = {name: value for name, value in zip(every, values, strict=True) if value is not None}
        for name, value in defaults.items():
            if value is not None:
                said.setdefault(name, value)
        yield _staged(said)


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    wanted = TYPES[bulk.WRITABLE[name]]
    try:
        if name == "body" and pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        return column.cast(wanted).to_pylist()  # type: ignore[no-any-return]
    except pa.ArrowInvalid as error:
        raise InvalidParameter(f"{error}"[:200], where=name, remedy=f"the column has the type {wanted}") from None
    except pa.ArrowNotImplementedError:
        raise InvalidParameter(f"{column.type} instead of {wanted}", where=name, remedy="cast the column") from None


_DIRECT: Final = {
    "label": "label", "priority": "priority", "app_tag": "application_tag", "correlation_id": "correlation_id",
    "body_type": "body_type", "extension": "extension", "acknowledge": "acknowledgements_requested",
    "time_to_reach_queue": "time_to_reach_queue", "time_to_be_received": "time_to_be_received",
    "admin_queue": "administration_queue", "response_queue": "response_queue", "message_class": "message_class",
}  # fmt: skip


def _staged(said: dict[str, Any]) -> Staged:
    destination = said.get("destination")
    if not destination:
        raise InvalidParameter("a message without a destination", where="destination",
                               remedy="give the option queue, or a column destination")
    message = Message(said.get("body", b""), delivery_guarantee=1, negative_journaling_requested=True)
    for name, attribute in _DIRECT.items():
        if name in said:
            setattr(message, attribute, said[name])
    if "delivery_mode" in said:
        message.delivery_guarantee = said["delivery_mode"]
    if "journal" in said:
        message.negative_journaling_requested = bool(said["journal"] & bulk.JOURNAL_DEAD_LETTER)
        message.positive_journaling_requested = bool(said["journal"] & bulk.JOURNAL_COPY)
    _check(message)
    return Staged(format_name_of(destination), message, bool(said.get("transactional", False)))


def _check(message: Message) -> None:
    bounds = {"priority": 7, "delivery_guarantee": 1, "application_tag": INFINITE, "body_type": INFINITE,
              "acknowledgements_requested": 15, "time_to_reach_queue": INFINITE, "time_to_be_received": INFINITE,
              "message_class": 0xFFFF}  # fmt: skip
    for name, highest in bounds.items():
        value = getattr(message, name)
        if not 0 <= value <= highest:
            raise InvalidParameter(f"{value} is out of range", where=name, remedy=f"use 0 to {highest}")
    if len(message.correlation_id) != len(NULL_CORRELATION_ID):
        raise InvalidParameter(f"a correlation id has 20 bytes, not {len(message.correlation_id)}",
                               where="correlation_id")


_names: dict[str, str] = {}


def format_name_of(text: str) -> str:
    """A format name as it is, and a path of this computer (`private$\\orders`) as the name that opens it."""
    found = _names.get(text)
    if found is None:
        if "=" in text:
            parse_format_name(text)
            found = text
        else:
            found = "DIRECT=OS:.\\" + text.replace("/", "\\").removeprefix(".\\")
            parse_format_name(found)
        if len(_names) > 10_000:
            _names.clear()
        _names[text] = found
    return found
