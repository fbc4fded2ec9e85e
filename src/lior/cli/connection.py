"""Which queue manager a command works on: one that `lior serve` runs, or the data directory itself, opened in this
process while nobody serves it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from click.core import ParameterSource

import lior
from lior.cli.output import Output
from lior.client.target import default_directories, is_served

F = TypeVar("F", bound=Callable[..., Any])

MEMORY = ":memory:"


class Session:
    """The answer's form and the queue manager of one command."""

    def __init__(self, context: click.Context, as_json: bool) -> None:
        self._context = context
        self.out = Output(as_json)

    def chosen(self) -> tuple[str, bool]:
        """A name, and whether it is that of a server. An option goes before the environment."""
        given = self._context.params
        source = self._context.get_parameter_source
        named = [name for name in ("data", "server") if source(name) is ParameterSource.COMMANDLINE]
        if len(named) > 1:
            raise click.UsageError("give --data or --server, not both", self._context)
        for name in named or ("data", "server"):
            value: str = given[name] or ""
            if value == MEMORY:
                raise click.UsageError("a queue manager in memory would be gone at the command's end; give a directory")
            if value:
                return value, name == "server" or is_served(value)
        for directory in default_directories():
            if is_served(directory):
                return os.fspath(directory), True
        tried = " and ".join(map(str, default_directories()))
        raise click.UsageError(
            f"which queue manager? None runs here; tried {tried}. Start one with lior serve, or name one with "
            "--server SERVER or --data DIR (or LIOR_SERVER, LIOR_DATA)",
            self._context,
        )

    @property
    def is_served(self) -> bool:
        """Others may use the queue manager at the same time."""
        return self.chosen()[1]

    @contextmanager
    def open(self, *, create: bool = False) -> Iterator[lior.QueueManager]:
        """The queue manager, to the end of the block. Only `create` makes a directory that is not there:
        a mistyped name must not give an empty queue manager."""
        name, served = self.chosen()
        with lior.connect(name, **self._as_whom()) if served else lior.open(name, create=create) as manager:
            yield manager

    def opening(self) -> lior.aio.Opening:
        """The same for a command that runs a loop of its own."""
        name, served = self.chosen()
        return lior.aio.connect(name, **self._as_whom()) if served else lior.aio.open(name, create=False)

    def _as_whom(self) -> dict[str, Any]:
        """Options go before the environment, which the library looks at."""
        user, file = self._context.params["user"], self._context.params["password_file"]
        if user is None or file is None:
            return {"user": user}
        from lior.client.rpc.credentials import password_in  # it knows NTLM and Kerberos, which take a while to import

        return {"user": user, "password": password_in(file)}


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON, one object a line.")(function)


def connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command on a queue manager: it gets a Session first."""

    @functools.wraps(function)
    def command(as_json: bool, **options: Any) -> Any:
        options.pop("data")
        options.pop("server")
        options.pop("user")
        options.pop("password_file")
        return function(Session(click.get_current_context(), as_json), **options)

    for option in (
        json_option,
        click.option("--password-file", metavar="FILE", envvar="LIOR_PASSWORD_FILE", show_envvar=True,
                     help="The file with his password."),
        click.option("--user", metavar="USER", envvar="LIOR_USER", show_envvar=True,
                     help="As whom to ask a server on another computer, over RPC."),
        click.option("--server", metavar="SERVER", envvar="LIOR_SERVER", show_envvar=True,
                     help="A running queue manager: its data directory, or host or host:port."),
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
