"""Calls of the admin API's sessions, whatever carries them: arguments to JSON, and what undoes a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from lior.message import Message
from lior.security import SecurityDescriptor
from lior.wire.admin_json import descriptor_to_json, message_to_json

Parser = Callable[[Any, bytes], Any]  # of the result and the bytes beside it
Future = asyncio.Future[Any]

# What a caller asked for and did not wait for is let go again.
_UNDO: Final = {"open": "close", "open_cursor": "close_cursor", "begin": "abort"}
_HELD: Final = {"close": "handle", "close_cursor": "cursor", "abort": "transaction"}


class Started(Protocol):
    """A call on its way."""

    future: Future


class SessionChannel(Protocol):
    """A session of the admin API. `lost` when it ended, whoever ended it."""

    @property
    def lost(self) -> bool: ...

    def call(self, name: str, arguments: Mapping[str, Any], parser: Parser | None = None) -> Future:
        """Messages and security descriptors among the arguments are written as such."""
        ...

    def start(self, name: str, arguments: Mapping[str, Any], parser: Parser | None = None) -> Started: ...

    def cancel(self, call: Any) -> None:
        """Ask for the end of a read that waits; its answer says whether it ended so."""
        ...

    async def close(self) -> None: ...


def plain(value: Any, put: Callable[[bytes], Any]) -> Any:
    """An argument as JSON has it."""
    if isinstance(value, Message):
        return message_to_json(value, put)
    if isinstance(value, SecurityDescriptor):
        return descriptor_to_json(value, put)
    if isinstance(value, Mapping):
        return {name: plain(each, put) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each, put) for each in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def undoing(name: str, result: Any) -> tuple[str, dict[str, Any]] | None:
    """The call that lets go of what an answered call brought, with its arguments; None if that was nothing."""
    undo = _UNDO.get(name)
    if undo is None:
        return None
    return undo, {_HELD[undo]: result["handle"] if name == "open" else result}
