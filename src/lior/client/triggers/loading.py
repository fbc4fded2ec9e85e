"""Triggers from a TOML file. An unknown key, a wrong type or an impossible value is an error that names its place."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lior.client.triggers.checking import nearest, shown
from lior.client.triggers.rules import Command, Conditions, Http, Rule, Trigger, check_distinct
from lior.errors import BadConfiguration

LARGEST_FILE: Final = 1 << 20
TRIGGER_KEYS: Final = ("name", "queue", "mode", "concurrency", "enabled", "retry_delay", "rule")
RULE_KEYS: Final = ("name", "when", "command", "environment", "directory", "http", "body", "timeout", "stop")
HTTP_KEYS: Final = ("url", "method", "headers")
CONDITION_KEYS: Final = tuple(Conditions.__dataclass_fields__)


def load(path: str | os.PathLike[str]) -> tuple[Trigger, ...]:
    """The triggers of a file, disabled ones included."""
    file = os.fspath(path)
    try:
        with Path(path).open("rb") as source:
            data = source.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadConfiguration(error.strerror or str(error), where=file, remedy="name a readable file") from None
    if len(data) > LARGEST_FILE:
        raise BadConfiguration("the file is over 1 MiB", where=file, remedy="split it; each part runs by itself")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadConfiguration(f"byte {error.start} is no UTF-8", where=file, remedy="save it as UTF-8") from None
    return loads(text, file)


def loads(text: str, where: str = "triggers") -> tuple[Trigger, ...]:
    """The triggers of a text; `where` is how errors name it."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise BadConfiguration("it is nested too deeply", where=where) from None
    except ValueError as error:
        raise BadConfiguration(f"it is no TOML: {error}", where=where, remedy="see https://toml.io") from None
    with place(where):
        check_keys(table, ("trigger",))
        found = tuple(_each(table.get("trigger", []), "trigger", _trigger))
        check_distinct("trigger", [trigger.name for trigger in found])
        if not found:
            raise BadConfiguration("it has no triggers", remedy="write [[trigger]]")
    return found


@contextmanager
def place(where: str) -> Iterator[None]:
    """What goes wrong inside goes wrong in this place."""
    try:
        yield
    except BadConfiguration as error:
        error.where = f"{where}: {error.where}" if error.where else where
        raise


def check_keys(table: object, known: tuple[str, ...], required: tuple[str, ...] = ()) -> None:
    if not isinstance(table, dict):
        raise BadConfiguration(f"{shown(table)} is no table")
    for key in table:
        if key not in known:
            raise BadConfiguration(f"there is no key {shown(key)} here", remedy=nearest(key, known))
    for key in required:
        if key not in table:
            raise BadConfiguration(f"{key!r} is missing", remedy=f"write {key} = ...")


def _each(tables: object, what: str, build: Callable[[Any], Any]) -> Iterator[Any]:
    if not isinstance(tables, list):
        raise BadConfiguration(f"{shown(tables)} is no list of tables", where=what, remedy=f"write [[{what}]]")
    for number, table in enumerate(tables, 1):
        name = table.get("name") if isinstance(table, dict) else None
        with place(f"{what} {name[:40]}" if isinstance(name, str) and name else f"{what} number {number}"):
            yield build(table)


def _trigger(table: Any) -> Trigger:
    check_keys(table, TRIGGER_KEYS, ("name", "queue", "rule"))
    values = {key: value for key, value in table.items() if key != "rule"}
    return Trigger(**values, rules=tuple(_each(table["rule"], "rule", _rule)))


def _rule(table: Any) -> Rule:
    check_keys(table, RULE_KEYS, ("name",))
    if ("command" in table) == ("http" in table):
        raise BadConfiguration("a rule has one action", remedy="write either command = [...] or http = { url = ... }")
    with place("when"):
        conditions = table.get("when", {})
        check_keys(conditions, CONDITION_KEYS)
        when = Conditions(**conditions)
    options = {key: table[key] for key in ("body", "timeout", "stop") if key in table}
    return Rule(name=table["name"], when=when, action=_action(table), **options)


def _action(table: dict[str, Any]) -> Command | Http:
    if "command" in table:
        arguments = table["command"]
        options = {key: table[key] for key in ("environment", "directory") if key in table}
        return Command(tuple(arguments) if isinstance(arguments, list) else arguments, **options)
    for key in ("environment", "directory"):
        if key in table:
            raise BadConfiguration("it belongs to a command, not to http", where=key, remedy="take it out")
    with place("http"):
        check_keys(table["http"], HTTP_KEYS, ("url",))
        return Http(**table["http"])
