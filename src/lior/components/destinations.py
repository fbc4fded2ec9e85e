"""Where recorded messages go: default queue names (2.1) and COM's string for a queued object, the queue moniker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from lior.errors import BadConfiguration
from lior.message import Acknowledgements


def default_queue(application: str, host: str = ".", *, directory: bool = False) -> str:
    """The path of an application's queue: private in a workgroup, public where there is a directory. The host is its
    short name in lower case; the application's name may have spaces, as COM+ names do."""
    short = host if host == "." else host.partition(".")[0].lower()
    return f"{short}\\{application}" if directory else f"{short}\\PRIVATE$\\{application}"


@dataclass(frozen=True)
class Moniker:
    """What `queue:.../new:...` says: a destination, a class, and properties as Recorder takes them."""

    queue: str
    class_id: UUID
    properties: dict[str, Any] = field(default_factory=dict)


def parse_moniker(text: str, class_ids: dict[str, str | UUID] | None = None) -> Moniker:
    """`queue:Priority=6,ComputerName=srv01/new:{clsid}`; `class_ids` knows the names that stand for a class."""
    head, found, tail = text.partition("/new:")
    kind, colon, options = head.partition(":")
    if not found or not colon or kind.casefold() != "queue":
        raise _bad(text, "it is not of the form queue:NAME=VALUE,.../new:CLASS")
    names: dict[str, str] = {}
    properties: dict[str, Any] = {}
    for pair in filter(None, map(str.strip, options.split(","))):
        name, equals, value = pair.partition("=")
        folded = name.strip().casefold()
        if not equals:
            raise _bad(text, f"{pair!r} is no NAME=VALUE")
        if folded in _PLACES:
            names[folded] = value.strip()
        elif folded in _PROPERTIES:
            key, read = _PROPERTIES[folded]
            try:
                properties[key] = read(value.strip())
            except (ValueError, KeyError):
                raise _bad(text, f"{value!r} is no value for {name}") from None
        else:
            raise _bad(text, f"{name!r} is not known here")
    return Moniker(_destination(text, names), _class(text, tail.strip(), class_ids or {}), properties)


def _destination(text: str, names: dict[str, str]) -> str:
    if "formatname" in names:
        return names["formatname"]
    if "pathname" in names:
        return names["pathname"]
    queue, computer = names.get("queuename"), names.get("computername", ".")
    if queue is None:
        raise _bad(text, "it names no queue", "add QueueName=, PathName= or FormatName=")
    return f"{computer}\\{queue}" if "\\" in queue else default_queue(queue, computer)


def _class(text: str, name: str, class_ids: dict[str, str | UUID]) -> UUID:
    found = next((value for known, value in class_ids.items() if known.casefold() == name.casefold()), name)
    try:
        return found if isinstance(found, UUID) else UUID(found)
    except ValueError:
        raise _bad(text, f"{name!r} is no class identifier and no name for one") from None


def _bad(text: str, what: str, remedy: str = "write queue:QueueName=Orders,Priority=6/new:{clsid}") -> BadConfiguration:
    return BadConfiguration(what, where=text[:200], remedy=remedy)


def _privacy(value: str) -> Any:
    known = {"none": "none", "body": "advanced", "body_base": "base", "body_enhanced": "enhanced"}
    return known[value.casefold().removeprefix("mqmsg_priv_level_")]


def _journal(value: str) -> dict[str, bool]:
    bits = int(value) if value.isdigit() else {
        "none": 0, "deadletter": 1, "journal": 2, "mqmsg_journal_none": 0, "mqmsg_deadletter": 1, "mqmsg_journal": 2,
    }[value.casefold()]
    return {"dead_letter": bool(bits & 1), "journal": bool(bits & 2)}


def _delivery(value: str) -> bool:
    return {"express": False, "recoverable": True, "mqmsg_delivery_express": False,
            "mqmsg_delivery_recoverable": True}[value.casefold()]


_PLACES: Final = frozenset({"formatname", "pathname", "computername", "queuename"})
_PROPERTIES: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "priority": ("priority", int), "label": ("label", str), "appspecific": ("application_tag", int),
    "delivery": ("recoverable", _delivery), "privlevel": ("privacy", _privacy),
    "maxtimetoreachqueue": ("time_to_reach_queue", int), "maxtimetoreceive": ("time_to_be_received", int),
    "journal": ("journaling", _journal), "adminqueue": ("administration_queue", str),
    "acknowledge": ("acknowledge", lambda value: int(Acknowledgements(int(value)))),
    "trace": ("tracing_requested", lambda value: bool(int(value))),
}  # fmt: skip
