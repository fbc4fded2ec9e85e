"""lior user: who may sign in over the network."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from lior import embedded
from lior.cli.output import Output
from lior.cli.security_files import on_directory
from lior.errors import InvalidParameter

HEADINGS = ("NAME", "SID", "STATE", "ADMINISTRATOR", "PASSWORD SET")


@click.group(short_help="Accounts for RPC over the network.")
def user() -> None:
    """Accounts: who may sign in over the network, with NTLM. A server that runs on the data directory sees changes by
    itself. On the server's own computer nobody needs one."""


def password_option(function: Any) -> Any:
    return click.option("--password-stdin", is_flag=True, help="Read the password from standard input, one line.")(
        function)


def taken(password_stdin: bool) -> str:
    """Never from the command line, where other users of the computer see it."""
    if password_stdin:
        return sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        raise InvalidParameter("nobody is there to type a password", where="password",
                               remedy="write it to standard input and say --password-stdin")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


@user.command(short_help="Add a user.")
@click.argument("name")
@click.option("--administrator", is_flag=True, help="May do everything, with every queue.")
@click.option("--kerberos", is_flag=True, help="No password: NAME is a principal with its realm, such as joe@REALM.")
@password_option
@on_directory
def add(out: Output, data: str, name: str, administrator: bool, kerberos: bool, password_stdin: bool) -> None:
    """Add the user NAME, who gets a SID of its own."""
    found = embedded.accounts(data).add(name, None if kerberos else taken(password_stdin), administrator)
    out.done(f"added {found['name']} {found['sid']}", **dated(found))


@user.command(name="list")
@on_directory
def list_users(out: Output, data: str) -> None:
    """List the users."""
    found = [dated(each) for each in embedded.accounts(data).list()]
    if out.as_json:
        for each in found:
            out.record(each)
        return
    out.table(HEADINGS, [
        (each["name"], each["sid"], "enabled" if each["enabled"] else "disabled",
         "yes" if each["administrator"] else "no", each["password_set"]) for each in found])


@user.command(short_help="Give a user a new password.")
@click.argument("name")
@password_option
@on_directory
def passwd(out: Output, data: str, name: str, password_stdin: bool) -> None:
    """Give the user NAME a new password. Connections that are open stay open."""
    found = embedded.accounts(data).set_password(name, taken(password_stdin))
    out.done(f"changed the password of {found['name']}", **dated(found))


@user.command(short_help="Let a user sign in again.")
@click.argument("name")
@on_directory
def enable(out: Output, data: str, name: str) -> None:
    """Let the user NAME sign in again."""
    found = embedded.accounts(data).enable(name, True)
    out.done(f"enabled {found['name']}", **dated(found))


@user.command(short_help="Let a user not sign in any more.")
@click.argument("name")
@on_directory
def disable(out: Output, data: str, name: str) -> None:
    """Let the user NAME not sign in any more. Connections that are open stay open."""
    found = embedded.accounts(data).enable(name, False)
    out.done(f"disabled {found['name']}", **dated(found))


@user.command(short_help="Remove a user.")
@click.argument("name")
@on_directory
def remove(out: Output, data: str, name: str) -> None:
    """Remove the user NAME. Rights that queues give to the SID stay, for nobody."""
    found = embedded.accounts(data).remove(name)
    out.done(f"removed {found['name']} {found['sid']}", **dated(found))


def dated(found: dict[str, Any]) -> dict[str, Any]:
    when = datetime.fromtimestamp(found["password_set"], UTC)
    return found | {"password_set": when.isoformat(timespec="seconds")}
