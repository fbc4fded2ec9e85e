"""What users type: durations, sizes, identifiers, NAME=VALUE; and the question before something is lost."""

from __future__ import annotations

import re
from typing import Any, Final
from uuid import UUID

import click

from lior.cli.output import on_terminal
from lior.client.message import ALIASES, FIELDS
from lior.message import INFINITE, Message, ObjectId

_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"": 1, "K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}  # in KB, which quotas are counted in
_WITHOUT_END: Final = frozenset({"inf", "infinite", "never", "none", "unlimited"})
_NOT_BY_NAME: Final = frozenset({"body", "security", "soap", "transaction"})


def duration(text: str) -> float | None:
    """Seconds, or a number with a unit; `inf` is None: without end."""
    if text.lower() in _WITHOUT_END:
        return None
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{0,6})?)\s*([a-z]*)", text.lower())
    if match is None or match[2] not in _UNITS:
        raise click.BadParameter(f"{text!r} is not a duration: write 30, 1.5s, 5m, 2h, 4d or inf")
    return float(match[1]) * _UNITS[match[2]]


def whole_seconds(text: str) -> int:
    """A lifetime; `inf` is INFINITE."""
    seconds = duration(text)
    if seconds is None:
        return INFINITE
    if seconds != int(seconds) or seconds >= INFINITE:
        raise click.BadParameter(f"{text!r} is not a number of whole seconds below {INFINITE}")
    return int(seconds)


def quota(text: str) -> int:
    """KB, or a number with K, M, G or T; `none` is INFINITE."""
    if text.lower() in _WITHOUT_END:
        return INFINITE
    match = re.fullmatch(r"(\d{1,12})\s*([KMGT]?)(?:I?B)?", text.upper())
    if match is None or int(match[1]) * _SIZES[match[2]] > INFINITE:
        raise click.BadParameter(f"{text!r} is not a quota: write 500 (KB), 20M, 4G or none")
    return int(match[1]) * _SIZES[match[2]]


def number_or_none(text: str) -> int | str:
    """`none` stays that word: None means that the option was not given."""
    if text.lower() in _WITHOUT_END:
        return "none"
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > INFINITE:
        raise click.BadParameter(f"{text!r} is neither a number nor none")
    return int(text)


def lookup_id(text: str) -> int:
    try:
        found = int(text, 0)
    except ValueError:
        found = -1
    if not 0 <= found < 1 << 64:
        raise click.BadParameter(f"{text!r} is not a lookup id; `lior browse` shows them")
    return found


def assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return name, value


def twenty_bytes(text: str) -> bytes:
    r"""{GUID}\number as identifiers are shown, or 40 hexadecimal digits."""
    found = parse_object_id(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is neither {{GUID}}\\number nor 40 hexadecimal digits")
    return found


def parse_object_id(text: str) -> bytes | None:
    if re.fullmatch(r"[0-9A-Fa-f]{40}", text):
        return bytes.fromhex(text)
    match = re.fullmatch(r"\{?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\}?\\([0-9]{1,10})", text)
    if match is None or int(match[2]) > 0xFFFFFFFF:
        return None
    return ObjectId(UUID(match[1]), int(match[2])).to_bytes()


def message_property(name: str, text: str) -> tuple[str, Any]:
    """A --property as the library takes it."""
    field = ALIASES.get(name, name)
    if field == "soap_header":
        return field, text
    if field not in FIELDS or field in _NOT_BY_NAME:
        known = ", ".join(sorted(FIELDS - _NOT_BY_NAME | {"soap_header"}))
        raise click.BadParameter(f"there is no property {name!r} to set; there are {known}", param_hint="--property")
    default = getattr(Message(), field)
    try:
        return field, _value_like(default, field, text)
    except ValueError:
        raise click.BadParameter(f"{text!r} does not fit {name}", param_hint="--property") from None


def _value_like(default: Any, field: str, text: str) -> Any:
    if field == "correlation_id":
        found = parse_object_id(text)
        if found is None:
            raise ValueError
        return found
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise ValueError
        return text.lower() in ("true", "yes", "1")
    if isinstance(default, int):
        value = int(text, 0)
        if not 0 <= value <= 0xFFFFFFFF:
            raise ValueError
        return value
    if isinstance(default, str):
        return text
    if isinstance(default, bytes):
        return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
    return UUID(text)  # connector_type, tracing_queue


def confirm(name: str, what: str, yes: bool) -> None:
    """Ask a person for the name before something is lost. Programs are not asked: they say what they mean."""
    if yes or not on_terminal():
        return
    typed = click.prompt(f"{what}. Type its name to confirm ({name})", default="", show_default=False, err=True)
    if typed.strip().casefold() != name.casefold():
        click.echo("The names differ; nothing was done.", err=True)
        raise click.Abort
