"""What a recorded message says, for people and programs: nothing is played."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from lior.client.message import ReceivedMessage
from lior.components.application import Application, Rejected
from lior.errors import LiorError
from lior.wire import recorded_call, recorded_call_security
from lior.wire.automation_dispatch import IID_IDISPATCH, read_invocation
from lior.wire.automation_types import AutomationReader
from lior.wire.recorded_call import EXTENSION, Call, RecordedMessage

_LONGEST = 80  # characters of one argument


def message_of(body: bytes) -> ReceivedMessage:
    """A body from a file, as if it had come in a message."""
    return ReceivedMessage(body=body, extension=EXTENSION)


def dump_message(message: ReceivedMessage, application: Application | None = None) -> dict[str, Any]:
    """`error` says what is wrong with it. With an application, methods have names and arguments."""
    facts: dict[str, Any] = {"bytes": len(message.body)}
    if not recorded_call.is_recorded(message.extension):
        return facts | {"error": "its Extension is not that of a recorded message"}
    try:
        recorded = recorded_call.decode(message.body)
    except LiorError as error:
        return facts | {"error": str(error)}
    facts |= {"class_id": str(recorded.class_id), "partition": _text(recorded.partition),
              "calls": [_call(index, call) for index, call in enumerate(recorded.calls)]}  # fmt: skip
    if application is not None:
        facts |= _named(facts["calls"], message, recorded, application)
    return facts


def _text(guid: UUID | None) -> str | None:
    return None if guid is None else str(guid)


def _call(index: int, call: Call) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "index": index, "offset": call.offset, "interface_id": str(call.interface_id),
        "method_number": call.method_number, "bytes": len(call.data), "caller": _caller(call.security),
    }  # fmt: skip
    if call.interface_id == IID_IDISPATCH:
        try:
            invocation = read_invocation(AutomationReader(call.data))
        except LiorError as error:  # perhaps only a class that nobody knows here
            return facts | {"unread": str(error)}
        shown = [repr(variant.value)[:_LONGEST] for variant in reversed(invocation.complete())]
        facts |= {"method": f"dispid {invocation.dispid}", "arguments": shown}
    return facts


def _caller(data: bytes) -> str:
    """As the message claims."""
    try:
        callers = recorded_call_security.decode(data).callers
    except LiorError as error:
        return f"unknown ({error.what})"
    return " for ".join(str(caller.sid or caller.account) for caller in reversed(callers)) or "nobody"


def _named(
    calls: list[dict[str, Any]], message: ReceivedMessage, recorded: RecordedMessage, application: Application
) -> dict[str, Any]:
    try:
        playback = application.prepare(message)
    except Rejected as error:
        return {"error": str(error)}
    for facts, call in zip(calls, playback.calls, strict=True):
        facts["method"] = f"{call.interface}.{call.method}"
        facts["arguments"] = [repr(value)[:_LONGEST] for value in call.arguments]
    return {"class": playback.served.name}
