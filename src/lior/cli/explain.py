"""lior name, error and completion."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import click
from click.shell_completion import ShellComplete, get_completion_class

from lior import embedded
from lior.cli.connection import Session, connected, offline
from lior.cli.error_texts import CLASS_TEXTS, ERROR_TEXTS
from lior.cli.output import Output
from lior.errors import HRESULTS, NAMES, InvalidParameter, LiorError, StoreInUse, StoreUnusable, succeeded
from lior.message import NULL_GUID, MessageClass
from lior.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    LocalNames,
    MachineName,
    MulticastName,
    MultipleName,
    PathName,
    PrivateName,
    PublicName,
    SingleName,
    check_without_directory,
    parse_format_name,
    parse_path_name,
)

CLASSES: Final = {known.value: known.name for known in MessageClass}
USES: Final[dict[type, str]] = {
    PathName: "create, delete and open queues",
    DirectName: "open a queue to send, to receive and to peek",
    PrivateName: "open a queue here by number; elsewhere it needs a directory service",
    PublicName: "open a published queue; needs a directory service",
    MachineName: "read a dead-letter queue or a journal",
    ConnectorName: "needs a directory service and a connector",
    DistributionListName: "send to a list in a directory service",
    MulticastName: "send to all who listen to the address",
    MultipleName: "send to several queues at once",
}


@click.command(short_help="Explain a path name or a format name.")
@click.argument("text", metavar="NAME")
@connected
def name(session: Session, text: str) -> None:
    r"""Explain a path name or a format name: its kind, its parts, its one spelling, whether it is local.

    With a data directory, names that hold the queue manager's GUID are compared with it.
    """
    parsed: PathName | FormatName = parse_format_name(text) if "=" in text else parse_path_name(text)
    local, known = local_names(session)
    data = explained(parsed, local, known)
    if session.out.as_json:
        session.out.record(data)
    else:
        session.out.fields(flat(data))


def local_names(session: Session) -> tuple[LocalNames, bool]:
    """The names of this computer; True with the GUID of the queue manager, if a data directory was given."""
    try:
        with session.open() as manager:
            return embedded.own_names(UUID(manager.properties()["identifier"])), True
    except (click.UsageError, StoreInUse, StoreUnusable):
        return embedded.own_names(NULL_GUID), False


def explained(parsed: PathName | FormatName, local: LocalNames, known: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"name": str(parsed), "kind": kind_of(parsed), "use": use_of(parsed)}
    if isinstance(parsed, MultipleName):
        return data | {"elements": [explained(element, local, known) for element in parsed.elements]}
    data |= parts(parsed)
    if isinstance(parsed, PathName):
        here = local.is_local(parsed.computer)
        data["local"] = here
        data["format_name"] = str(DirectName.from_path(local.own_path(parsed)))
        return data
    if known or not isinstance(parsed, PrivateName | MachineName):
        data["local"] = local.designates_me(parsed)
    if isinstance(parsed, DirectName) and not parsed.is_http:
        data["path"] = str(local.own_path(parsed.path))
    if known or isinstance(parsed, DirectName | MulticastName):
        try:
            check_without_directory(parsed, local)
            data["usable"] = True
        except LiorError as error:
            data |= {"usable": False, "why": error.what, "do": error.remedy}
    return data


def kind_of(parsed: PathName | FormatName) -> str:
    if isinstance(parsed, PathName):
        return f"path name, {parsed.kind.name.lower()} queue"
    if isinstance(parsed, MultipleName):
        return f"multiple-element format name, {len(parsed.elements)} elements"
    return f"format name, {parsed.format_type.name.lower()}"


def use_of(parsed: PathName | FormatName) -> str:
    if isinstance(parsed, DirectName) and parsed.is_http:
        return "send over HTTP; such a name cannot be read from"
    return USES[type(parsed)]


def parts(parsed: PathName | SingleName) -> dict[str, Any]:
    """The fields of a name that say something."""
    found: dict[str, Any] = {}
    for field in type(parsed).__dataclass_fields__:
        value = getattr(parsed, field)
        if isinstance(value, UUID):
            found[field] = str(value).upper()
        elif hasattr(value, "name"):
            if value.name != "NONE" and field != "kind":
                found[field] = value.name
        elif value not in (None, "", False):
            found[field] = value
    return found


def flat(data: dict[str, Any]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, value in data.items():
        if isinstance(value, list):
            for number, element in enumerate(value, 1):
                fields |= {f"{number}. {name}": text for name, text in flat(element).items()}
        else:
            plain = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
            fields[key.replace("_", " ")] = plain
    return fields


# Errors


@click.command(
    short_help="Say what an error code or a message class means.",
    context_settings={"ignore_unknown_options": True},  # -1072824317 is a code
)
@click.argument("text", metavar="CODE|NAME")
@offline
def error(out: Output, text: str) -> None:
    """Say what an error code or a message class means and what to do about it.

    CODE is written 0xC00E0003, C00E0003, 3222142979 or -1072824317, as programs show it; NAME is
    MQ_ERROR_QUEUE_NOT_FOUND, queue_not_found, NACK_Q_PURGED, or a part that fits only one.
    """
    found = look_up(text)
    if not found:
        raise InvalidParameter("no error and no message class is called so", where=text,
                               remedy="give the code as 0x..., or a part of the name")
    if len(found) > 1:
        raise InvalidParameter(f"several names fit: {', '.join(found[:12])}" + (", ..." if len(found) > 12 else ""),
                               where=text, remedy="give more of the name")
    symbol = found[0]
    code, meaning, remedy = text_of(symbol)
    kind = "message class" if symbol in MessageClass.__members__ else "success" if succeeded(code) else "error"
    written = f"0x{code:04X}" if kind == "message class" else f"0x{code:08X}"
    if out.as_json:
        out.record({"name": symbol, "code": written, "number": code, "kind": kind, "meaning": meaning, "do": remedy})
    else:
        shown = {"name": symbol, "code": written, "kind": kind, "meaning": meaning, "do": remedy}
        out.fields({key: value for key, value in shown.items() if value})


def text_of(symbol: str) -> tuple[int, str, str]:
    if symbol in MessageClass.__members__:
        return (MessageClass[symbol].value, *CLASS_TEXTS[symbol])
    return (HRESULTS[symbol], *ERROR_TEXTS[symbol])


def look_up(text: str) -> list[str]:
    """The names that a code or a part of a name stands for; an exact one alone."""
    for code in codes(text):
        if code in NAMES:
            return [NAMES[code]]
        if code in CLASSES:
            return [CLASSES[code]]
    wanted = text.upper().replace("-", "_").replace(" ", "_")
    names = [*HRESULTS, *MessageClass.__members__]
    for prefix in ("", "MQ_ERROR_", "MQ_INFORMATION_", "LIOR_ERROR_", "MQ_", "NACK_", "ACK_"):
        if prefix + wanted in names:
            return [prefix + wanted]
    return sorted(symbol for symbol in names if wanted in symbol) if wanted else []


def codes(text: str) -> list[int]:
    """What a text means as a number: with 0x, decimal (signed as COM shows it), bare hexadecimal."""
    found = []
    for base in (0, 10, 16):
        try:
            found.append(int(text, base) & 0xFFFFFFFF)
        except ValueError:
            continue
    return found


# Shells


@click.command(short_help="Print what makes a shell complete this command.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@offline
def completion(out: Output, shell: str) -> None:
    """Print what makes SHELL complete this command, to be put where the shell reads it.

    For bash: lior completion bash > ~/.local/share/bash-completion/completions/lior
    """
    made = get_completion_class(shell)
    assert made is not None  # one of the three
    root = click.get_current_context().find_root()
    completer = made(root.command, {}, "lior", "_LIOR_COMPLETE")
    script = ShellComplete.source(completer)  # bash's own would run bash to see how old it is
    out.done(script, shell=shell, script=script)
