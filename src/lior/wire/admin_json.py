"""Messages, security descriptors and errors as JSON, for the admin API. Names are the specification's."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final
from uuid import UUID

from lior.errors import LiorError, Malformed, error_from_code, succeeded
from lior.message import Message, MessageSecurity, MessageSoap, MessageTransaction, ObjectId
from lior.security import SecurityDescriptor
from lior.wire import admin_frames
from lior.wire.dtyp import decode_security_descriptor, encode_security_descriptor
from lior.wire.sddl import format_sddl, parse_sddl
from lior.wire.srmp_reader import check_header_text

ToJson = Callable[[bytes], Any]  # how bytes are written: `Blobs.put` or `base64`

_DEFAULTS: Final[dict[str, Any]] = {each.name: getattr(Message(), each.name) for each in fields(Message)}
_PARTS: Final[dict[str, type]] = {"security": MessageSecurity, "transaction": MessageTransaction, "soap": MessageSoap}
_PART_DEFAULTS: Final[dict[type, dict[str, Any]]] = {
    part: {each.name: getattr(part(), each.name) for each in fields(part)} for part in _PARTS.values()
}
_UUIDS: Final = frozenset({"connector_type", "connector_queue_manager"})
# What the queue manager gives a message; nobody says it of a message that he sends.
NOT_SENT: Final = frozenset(
    {
        "abort_count", "arrival_time", "failed_destination", "failure_reason", "hop_count", "identifier",
        "last_move_time", "lookup_identifier", "move_count", "packet", "sent_time",
        "source_queue_manager", "transaction",
    }
)  # fmt: skip


# Messages


def message_to_json(message: Message, put: ToJson) -> dict[str, Any]:
    """The properties that differ from those of a fresh message."""
    data: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = getattr(message, name)
        if value != default:
            data[name] = _plain(value, put)
    return data


def _plain(value: Any, put: ToJson) -> Any:
    if isinstance(value, bytes):
        return put(value)
    if isinstance(value, UUID | ObjectId):
        return str(value)
    defaults = _PART_DEFAULTS.get(type(value))
    if defaults is not None:
        found = {name: getattr(value, name) for name in defaults}
        return {name: _plain(each, put) for name, each in found.items() if each != defaults[name]}
    return value


def message_from_json(data: Any, blobs: bytes, *, sending: bool) -> Message:
    """`sending` refuses what only a queue manager says, and believes no claim to have verified a signature."""
    if not isinstance(data, Mapping):
        raise Malformed("a message is an object", where="message")
    message = Message()
    for name, value in data.items():
        if name not in _DEFAULTS or (sending and name in NOT_SENT):
            raise Malformed(f"there is no message property {name} to set", where=f"message.{name}",
                            remedy=f"settable: {', '.join(sorted(set(_DEFAULTS) - NOT_SENT))}")
        part = _PARTS.get(name)
        setattr(message, name, _value(name, value, _DEFAULTS[name], blobs) if part is None
                else _part(part, name, value, blobs))  # fmt: skip
    if sending and message.security is not None:
        message.security.authentication_level = 0
    if sending and message.soap is not None:
        if message.soap != MessageSoap(header=message.soap.header):
            raise Malformed("only the header is an application's", where="message.soap", remedy="leave the rest out")
        check_header_text(message.soap.header)
        message.soap = message.soap if message.soap.header else None
    return message


def _part(kind: type, name: str, data: Any, blobs: bytes) -> Any:
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise Malformed("this is an object", where=f"message.{name}")
    part = kind()
    for key, value in data.items():
        defaults = _PART_DEFAULTS[kind]
        if key not in defaults:
            raise Malformed(f"there is no property {key}", where=f"message.{name}")
        setattr(part, key, _value(key, value, defaults[key], blobs))
    return part


def _value(name: str, value: Any, default: Any, blobs: bytes) -> Any:
    where = f"message.{name}"
    if isinstance(default, bytes):
        return admin_frames.take(value, blobs, where)
    if name == "identifier":
        return None if value is None else object_id(value)
    if isinstance(default, UUID) or name in _UUIDS:
        return None if value is None and default is None else uuid(value, where)
    if isinstance(default, bool) or not isinstance(default, int | float):
        good = isinstance(value, type(default))
    else:
        good = isinstance(value, int | float if isinstance(default, float) else int) and not isinstance(value, bool)
    if not good:
        raise Malformed(f"{type(value).__name__} instead of {type(default).__name__}", where=where)
    return value


def uuid(value: Any, where: str) -> UUID:
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise Malformed(f"{value!r} is no GUID", where=where) from None


def object_id(value: Any) -> ObjectId:
    lineage, _, number = value.partition("\\") if isinstance(value, str) else ("", "", "")
    if not (number.isascii() and number.isdecimal() and len(number) <= 10 and int(number) <= 0xFFFFFFFF):
        raise Malformed(f"{value!r} is no message identifier", where="identifier", remedy=r"write {GUID}\number")
    return ObjectId(uuid(lineage, "identifier"), int(number))


# Security descriptors: the byte form says everything, SDDL is for people


def descriptor_to_json(descriptor: SecurityDescriptor, put: ToJson) -> dict[str, Any]:
    return {"sddl": format_sddl(descriptor), "bytes": put(encode_security_descriptor(descriptor))}


def descriptor_from_json(data: Any, blobs: bytes) -> SecurityDescriptor:
    if isinstance(data, str):
        return parse_sddl(data)
    if isinstance(data, Mapping) and "bytes" in data:
        return decode_security_descriptor(admin_frames.take(data["bytes"], blobs, "security descriptor"))
    raise Malformed("this is no security descriptor", where="security descriptor", remedy="write it in SDDL")


# Errors


def error_to_json(error: LiorError) -> dict[str, Any]:
    return {"code": error.code, "symbol": error.symbol, "what": error.what, "where": error.where,
            "remedy": error.remedy}  # fmt: skip


def error_from_json(data: Any) -> LiorError:
    code = data.get("code") if isinstance(data, Mapping) else None
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= 0xFFFFFFFF or succeeded(code):
        return Malformed("the server answered with an error that is none", where="answer")
    what, where, remedy = (str(data.get(name) or "") for name in ("what", "where", "remedy"))
    return error_from_code(code, what, where=where, remedy=remedy)
