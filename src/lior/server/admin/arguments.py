"""What the calls of the admin API take: each argument has a kind, which checks it and makes a value of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from lior.errors import InvalidHandle, InvalidParameter, LiorError, Malformed
from lior.wire import admin_json

if TYPE_CHECKING:
    from lior.server.admin.session import ClientSession

REQUIRED: Final = object()
MAX_BATCH: Final = 10_000  # messages in one call


class Argument(NamedTuple):
    name: str
    kind: str
    default: Any = REQUIRED


def parse(session: ClientSession, wanted: tuple[Argument, ...], given: Any, blobs: bytes) -> dict[str, Any]:
    """The values of a call's arguments; none may be missing and none may be left over."""
    if not isinstance(given, Mapping):
        raise Malformed("the arguments are an object", where="arguments")
    values = {}
    for argument in wanted:
        said = given.get(argument.name)
        if said is None:
            if argument.default is REQUIRED:
                raise InvalidParameter(f"the argument {argument.name} is missing", where=argument.name)
            values[argument.name] = argument.default
        else:
            values[argument.name] = KINDS[argument.kind](session, said, blobs, argument.name)
    unknown = set(given) - {argument.name for argument in wanted}
    if unknown:
        names = ", ".join(argument.name for argument in wanted) or "none"
        raise InvalidParameter(f"there is no argument {min(unknown)}", where=str(min(unknown)),
                               remedy=f"arguments: {names}")
    return values


def wrong(value: Any, what: str, where: str) -> LiorError:
    return InvalidParameter(f"{type(value).__name__} instead of {what}", where=where)


def _text(session: ClientSession, value: Any, blobs: bytes, where: str) -> str:
    if not isinstance(value, str):
        raise wrong(value, "a string", where)
    return value


def _whole(session: ClientSession, value: Any, blobs: bytes, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise wrong(value, "a whole number from 0 to 2^64 - 1", where)
    return value


def _milliseconds(session: ClientSession, value: Any, blobs: bytes, where: str) -> int:
    return min(_whole(session, value, blobs, where), 0xFFFFFFFF)


def _flag(session: ClientSession, value: Any, blobs: bytes, where: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(value, "true or false", where)
    return value


def _texts(session: ClientSession, value: Any, blobs: bytes, where: str) -> list[str]:
    if not isinstance(value, list) or len(value) > MAX_BATCH:
        raise InvalidParameter(f"this is a list of at most {MAX_BATCH} strings", where=where)
    return [_text(session, each, blobs, where) for each in value]


def _numbers(session: ClientSession, value: Any, blobs: bytes, where: str) -> list[int]:
    if not isinstance(value, list) or len(value) > MAX_BATCH:
        raise InvalidParameter(f"this is a list of at most {MAX_BATCH} whole numbers", where=where)
    return [_whole(session, each, blobs, where) for each in value]


def _uuid(session: ClientSession, value: Any, blobs: bytes, where: str) -> UUID:
    return admin_json.uuid(value, where)


def _object(session: ClientSession, value: Any, blobs: bytes, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(value, "an object", where)
    return value


def _queue_properties(session: ClientSession, value: Any, blobs: bytes, where: str) -> dict[str, Any]:
    """As JSON has them; the type is a GUID and the rights are a security descriptor."""
    changes = _object(session, value, blobs, where)
    if isinstance(changes.get("type"), str):
        changes["type"] = admin_json.uuid(changes["type"], f"{where}.type")
    if changes.get("security") is not None:
        changes["security"] = admin_json.descriptor_from_json(changes["security"], blobs)
    return changes


def _message(session: ClientSession, value: Any, blobs: bytes, where: str) -> Any:
    return admin_json.message_from_json(value, blobs, sending=True)


def _messages(session: ClientSession, value: Any, blobs: bytes, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_BATCH:
        raise InvalidParameter(f"this is a list of at most {MAX_BATCH} messages", where=where)
    return [admin_json.message_from_json(each, blobs, sending=True) for each in value]


def _descriptor(session: ClientSession, value: Any, blobs: bytes, where: str) -> Any:
    return admin_json.descriptor_from_json(value, blobs)


def _held(what: str) -> Callable[[ClientSession, Any, bytes, str], Any]:
    def find(session: ClientSession, value: Any, blobs: bytes, where: str) -> Any:
        found = getattr(session, what).get(value) if type(value) is int else None
        if found is None:
            raise InvalidHandle(f"this session has no {where} {value}", where=where,
                                remedy="handles end with the session that opened them: open it again")
        return found

    return find


KINDS: Final[dict[str, Callable[[Any, Any, bytes, str], Any]]] = {
    "text": _text,
    "whole": _whole,
    "milliseconds": _milliseconds,
    "flag": _flag,
    "texts": _texts,
    "numbers": _numbers,
    "uuid": _uuid,
    "object": _object,
    "queue properties": _queue_properties,
    "message": _message,
    "messages": _messages,
    "security descriptor": _descriptor,
    "handle": _held("handles"),
    "cursor": _held("cursors"),
    "read": _held("reads"),
}
