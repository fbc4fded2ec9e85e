"""Which queue manager a command works on. Without the network that is a data directory, opened in this process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

import lior
from lior.cli.output import Output
from lior.errors import UnsupportedOperation

F = TypeVar("F", bound=Callable[..., Any])

MEMORY = ":memory:"


class Session:
    """The answer's form and the queue manager of one command."""

    def __init__(self, context: click.Context, as_json: bool) -> None:
        self._context = context
        self.out = Output(as_json)

    def directory(self) -> str:
        """An option goes before the environment."""
        given = self._context.params
        source = self._context.get_parameter_source
        named = [name for name in ("data", "server") if source(name) is ParameterSource.COMMANDLINE]
        if len(named) > 1:
            raise click.UsageError("give --data or --server, not both", self._context)
        for name in named or ("data", "server"):
            value = given[name]
            if value:
                return server_directory(value) if name == "server" else data_directory(value)
        raise click.UsageError(
            "which queue manager? Give its data directory with --data DIR, or set LIOR_DATA", self._context
        )

    @contextmanager
    def open(self, *, create: bool = False) -> Iterator[lior.QueueManager]:
        """The queue manager, to the end of the block. Only `create` makes a directory that is not there:
        a mistyped name must not give an empty queue manager."""
        with lior.open(self.directory(), create=create) as manager:
            yield manager


def data_directory(text: str) -> str:
    if text == MEMORY:
        raise click.UsageError("a queue manager in memory would be gone when the command ends; give a directory")
    return text


def server_directory(text: str) -> str:
    """--server takes a directory too. A host name needs the network, which is not there yet."""
    if os.sep in text or text in (".", "..") or Path(text).is_dir():
        return data_directory(text)
    raise UnsupportedOperation(
        "other hosts cannot be reached yet: servers come with the network protocols",
        where=f"--server {text}",
        remedy=f"give a data directory; if {text} is to be one, write ./{text}",
    )


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON, one object a line.")(function)


def connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command on a queue manager: it gets a Session first."""

    @functools.wraps(function)
    def command(as_json: bool, **options: Any) -> Any:
        options.pop("data")
        options.pop("server")
        return function(Session(click.get_current_context(), as_json), **options)

    for option in (
        json_option,
        click.option("--server", metavar="SERVER", envvar="LIOR_SERVER", show_envvar=True,
                     help="The queue manager: for now its data directory, as for --data."),
        click.option("--data", metavar="DIR", envvar="LIOR_DATA", show_envvar=True,
                     help="Data directory of the queue manager."),
    ):  # fmt: skip
        command = option(command)
    return command


def offline(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command that needs no queue manager: it gets an Output first."""

    @functools.wraps(function)
    def command(as_json: bool, **options: Any) -> Any:
        return function(Output(as_json), **options)

    return json_option(command)
