"""A message's properties as text: placeholders in arguments, environment variables, HTTP header fields.

Whoever may send to a queue chooses these texts. They are put where they belong as one value, never split,
never expanded a second time, and are bounded in length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from lior.client.triggers.checking import nearest
from lior.errors import BadConfiguration, LiorError
from lior.message import Message, MessageClass, ObjectId, SenderIdentifierType
from lior.wire.dtyp import decode_sid

LONGEST_VALUE: Final = 4096  # characters; only lists of format names come near
MOST_BYTES: Final = 65536  # of all environment variables or header fields made from one message

# In the order in which they are given room in the environment.
PROPERTIES: Final = (
    "trigger",
    "rule",
    "queue",
    "lookup_id",
    "message_id",
    "label",
    "message_class",
    "priority",
    "application_tag",
    "body_type",
    "body_size",
    "correlation_id",
    "recoverable",
    "sent_time",
    "arrival_time",
    "abort_count",
    "move_count",
    "source_queue_manager",
    "sender",
    "authenticated",
    "destination_queue",
    "response_queue",
    "administration_queue",
)

_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


def clean(text: str) -> str:
    """Text that any process or peer can be given: no NUL, no half of a surrogate pair; U+FFFD in their place."""
    if text.isascii():
        return text.replace("\0", "\ufffd")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "\ufffd")


def class_name(number: int) -> str:
    try:
        return MessageClass(number).name
    except ValueError:
        return f"0x{number:04X}"


def sender_of(message: Message) -> str:
    """The sender's SID as the message claims it; it is proven only where `is_authenticated`."""
    security = message.security
    if security is None or security.sender_identifier_type != SenderIdentifierType.SID:
        return ""
    try:
        return str(decode_sid(security.sender_identifier)[0])
    except LiorError:
        return ""


def is_authenticated(message: Message) -> bool:
    return message.security is not None and message.security.authentication_level != 0


def _time(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds") if moment else ""
    except (OverflowError, ValueError, OSError):
        return ""


def properties_of(message: Message, trigger: str, rule: str, queue: str) -> dict[str, str]:
    """Every property by its name in PROPERTIES."""
    values: tuple[object, ...] = (
        trigger,
        rule,
        queue,
        message.lookup_identifier,
        message.identifier or "",
        message.label,
        class_name(message.message_class),
        message.priority,
        message.application_tag,
        message.body_type,
        len(message.body),
        ObjectId.from_bytes(message.correlation_id) if any(message.correlation_id) else "",
        int(message.is_recoverable),
        _time(message.sent_time),
        _time(message.arrival_time),
        message.abort_count,
        message.move_count,
        message.source_queue_manager,
        sender_of(message),
        int(is_authenticated(message)),
        message.destination_queue,
        message.response_queue,
        message.administration_queue,
    )
    return {name: clean(str(value)) for name, value in zip(PROPERTIES, values, strict=True)}


def _bounded(values: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What fits, and the names of what does not: half a value would be worse than none."""
    kept: dict[str, str] = {}
    omitted: list[str] = []
    room = MOST_BYTES
    for name, value in values.items():
        size = len(value.encode())
        if len(value) > LONGEST_VALUE or size > room:
            omitted.append(name)
            continue
        room -= size
        kept[name] = value
    return kept, omitted


def environment_of(properties: Mapping[str, str]) -> dict[str, str]:
    """LIOR_LABEL and its fellows; LIOR_OMITTED names those that were too long."""
    kept, omitted = _bounded(properties)
    return {f"LIOR_{name.upper()}": value for name, value in (kept | {"omitted": " ".join(omitted)}).items()}


def header_fields_of(properties: Mapping[str, str]) -> dict[str, str]:
    """X-Lior-Label and its fellows. Spaces, percent signs and all that is not ASCII are percent-encoded UTF-8."""
    encoded = {name: quote(value, safe="!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~") for name, value in properties.items()}
    kept, omitted = _bounded(encoded)
    fields = {name: value for name, value in (kept | {"omitted": " ".join(omitted)}).items() if value}
    return {f"X-Lior-{name.replace('_', '-').title()}": value for name, value in fields.items()}


@dataclass(frozen=True, slots=True)
class Template:
    """Text with placeholders: `parts` are literal text and names of properties by turns, text first."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, where: str) -> Template:
        parts = [""]
        for token in _TOKEN.finditer(text):
            found = token[0]
            if token[1] is not None:
                if token[1] not in PROPERTIES:
                    raise BadConfiguration(
                        f"there is no property {token[1][:60]!r} of a message", where=where,
                        remedy=f"{nearest(token[1], PROPERTIES)}; for a brace itself write two",
                    )  # fmt: skip
                parts += [token[1], ""]
            elif found in ("{", "}"):
                raise BadConfiguration(f"a single {found!r}", where=where, remedy="for a brace itself write two")
            else:
                parts[-1] += found[0] if found in ("{{", "}}") else found
        return cls(tuple(parts))

    @property
    def is_literal(self) -> bool:
        return len(self.parts) == 1

    def fill(self, properties: Mapping[str, str]) -> str:
        """The text with values in it. ValueError if one is too long: never act on a part of it."""
        pieces = []
        for at, part in enumerate(self.parts):
            value = properties[part] if at % 2 else part
            if at % 2 and len(value) > LONGEST_VALUE:
                raise ValueError(f"{part} has {len(value)} characters, more than {LONGEST_VALUE}")
            pieces.append(value)
        return "".join(pieces)
