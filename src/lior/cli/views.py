"""Queues and messages as rows, fields and JSON objects."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any, Final

from lior.cli.output import age, duration, iso, printable, size
from lior.client.backend import QueueInfo
from lior.client.message import ReceivedMessage
from lior.errors import LiorError
from lior.message import INFINITE, NULL_CORRELATION_ID, Acknowledgements, Message, MessageClass, ObjectId

PREVIEW: Final = 40  # characters of a body in a table
_QUOTAS: Final = ("quota", "journal_quota", "queue_manager_quota")


def queue_json(info: QueueInfo) -> dict[str, Any]:
    data = asdict(info)
    for name in ("oldest", "create_time", "modify_time"):
        data[name] = iso(data[name])
    for name in _QUOTAS:
        if data["properties"].get(name) == INFINITE:
            data["properties"][name] = None
    return data


def quota_text(quota: int) -> str:
    return "none" if quota == INFINITE else size(quota * 1024)


QUEUE_HEADINGS: Final = ("QUEUE", "KIND", "MESSAGES", "SIZE", "JOURNAL", "READERS", "OLDEST", "LABEL")


def queue_row(info: QueueInfo) -> tuple[str, ...]:
    kind = info.kind + (" transactional" if info.transactional and info.kind == "private" else "")
    label = "" if info.kind == "outgoing" else info.properties.get("label", "")
    return (info.name, kind, str(info.messages), size(info.bytes), str(info.journal_messages), str(info.readers),
            age(info.oldest), label)


def queue_fields(info: QueueInfo) -> dict[str, str]:
    properties = info.properties
    outgoing = info.kind == "outgoing"
    fields = {
        "path": info.path,
        "format name": info.format_name,
        "by number": info.private_name,
        "kind": info.kind,
        "transactional": _yes(info.transactional),
        "label": "" if outgoing else properties["label"],
        "messages": f"{info.messages} ({size(info.bytes)})",
        "oldest": f"{age(info.oldest)} ago" if info.oldest else "",
        "journal": ("on" if properties["journaling"] else "off")
        + f", {info.journal_messages} messages ({size(info.journal_bytes)})",
        "readers": str(info.readers),
        "quota": quota_text(properties["quota"]),
        "journal quota": quota_text(properties["journal_quota"]),
        "authentication": "required" if properties["authentication"] else "not required",
        "privacy": ("none", "optional", "body")[properties["privacy_level"]],
        "multicast": properties["multicast_address"],
        "max aborts": "none" if properties["max_aborts"] is None else str(properties["max_aborts"]),
        "notes": "\n".join(f"{name}={value}" for name, value in properties["description"].items()),
        "identifier": info.identifier,
        "created": iso(info.create_time) or "",
        "changed": iso(info.modify_time) or "",
    }
    if outgoing:
        for name in ("journal", "label", "transactional", "authentication", "privacy", "max aborts"):
            del fields[name]
        fields["state"] = state_text(info)
    return {name: printable(value, kept="\n") for name, value in fields.items() if value}


def state_text(info: QueueInfo) -> str:
    """In words; the specification writes ONHOLD."""
    return {"ONHOLD": "paused"}.get(info.state, info.state.lower())


def _yes(value: bool) -> str:
    return "yes" if value else "no"


# Messages


def class_name(number: int) -> str:
    try:
        return MessageClass(number).name
    except ValueError:
        return f"0x{number:04X}"


def body_value(message: ReceivedMessage) -> Any:
    """The body as a JSON value, or None where only its bytes say it all."""
    try:
        value = message.value()
    except LiorError:
        return None
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str | int | float | bool) else None


def message_json(message: ReceivedMessage, *, whole: bool = False) -> dict[str, Any]:
    """`whole` gives the body's bytes beside its value, so that nothing depends on how it was read."""
    value = body_value(message)
    data: dict[str, Any] = {
        "id": message.id,
        "lookup_id": message.lookup_identifier,
        "label": message.label,
        "body_type": message.body_type,
    }
    if value is not None:
        data["body"] = value
    if value is None or whole:
        data["body_base64"] = base64.b64encode(message.body).decode()
    data |= {
        "class": class_name(message.message_class),
        "priority": message.priority,
        "recoverable": message.is_recoverable,
        "application_tag": message.application_tag,
        "sent": iso(message.sent_time),
        "arrived": iso(message.arrival_time),
        "time_to_reach_queue": _lifetime(message.time_to_reach_queue),
        "time_to_be_received": _lifetime(message.time_to_be_received),
        "destination": message.destination_queue,
        "transactional": message.transaction is not None,
        "abort_count": message.abort_count,
        "move_count": message.move_count,
    }
    if message.correlation_id != NULL_CORRELATION_ID:
        data["correlation_id"] = str(ObjectId.from_bytes(message.correlation_id))
    if message.extension or whole:
        data["extension_base64"] = base64.b64encode(message.extension).decode()
    for name in ("response_queue", "administration_queue", "application_deadletter_queue", "soap_header"):
        if getattr(message, name):
            data[name] = getattr(message, name)
    if message.acknowledgements_requested:
        data["acknowledgements"] = acknowledgements_text(message)
    if message.failure_reason:
        data["reason"] = class_name(message.failure_reason)
    if message.failed_destination:
        data["failed_destination"] = message.failed_destination
    return data


def _lifetime(seconds: int) -> int | None:
    return None if seconds == INFINITE else seconds


def acknowledgements_text(message: Message) -> str:
    asked = [flag.name.lower() for flag in Acknowledgements
             if flag.name and message.acknowledgements_requested & flag == flag and flag.bit_count() == 1]
    return ", ".join(asked)


MESSAGE_HEADINGS: Final = ("LOOKUP-ID", "LABEL", "CLASS", "PRIORITY", "SIZE", "AGE", "ABORTS", "BODY")


def message_row(message: ReceivedMessage) -> tuple[str, ...]:
    return (str(message.lookup_identifier), shortened(message.label), class_name(message.message_class),
            str(message.priority), size(message.size), age(message.arrival_time), str(message.abort_count),
            shortened(body_text(message)))


def body_text(message: ReceivedMessage) -> str:
    value = body_value(message)
    return f"<{len(message.body)} bytes>" if value is None else str(value)


def shortened(text: str) -> str:
    return text if len(text) <= PREVIEW else text[: PREVIEW - 3] + "..."


def message_fields(message: ReceivedMessage) -> dict[str, str]:
    fields = {
        "id": message.id,
        "lookup id": str(message.lookup_identifier),
        "label": message.label,
        "class": "" if message.message_class == 0 else class_name(message.message_class),
        "priority": str(message.priority),
        "application tag": str(message.application_tag or ""),
        "sent": f"{iso(message.sent_time)} ({age(message.sent_time)} ago)" if message.sent_time else "",
        "expires": "" if message.time_to_be_received == INFINITE else f"{duration(message.time_to_be_received)} "
        "after it was sent, if not received",
        "answer to": message.response_queue,
        "reason": class_name(message.failure_reason) if message.failure_reason else "",
        "was for": message.failed_destination,
        "aborts": str(message.abort_count or ""),
        "size": size(message.size),
        "body": body_text(message),
    }
    return {name: printable(value, kept="\n\t") for name, value in fields.items() if value}
