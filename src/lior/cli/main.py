"""The `lior` command: its subcommands, and how errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NoReturn

import click

from lior.cli.output import DONE, FAILED, INTERRUPTED, NO_MESSAGE, show_error
from lior.errors import LiorError, Timeout

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


# Imported, with all that they need, when one of their commands is wanted.
MODULES: Final[dict[str, Callable[[], ModuleType]]] = {
    "serve": lambda: import_module("lior.cli.serve"),
    "queue": lambda: import_module("lior.cli.queue"),
    "messages": lambda: import_module("lior.cli.messages"),
    "receiving": lambda: import_module("lior.cli.receiving"),
    "deadletter": lambda: import_module("lior.cli.deadletter"),
    "operation": lambda: import_module("lior.cli.operation"),
    "top": lambda: import_module("lior.cli.top"),
    "trace": lambda: import_module("lior.cli.trace"),
    "storage": lambda: import_module("lior.cli.storage"),
    "security_files": lambda: import_module("lior.cli.security_files"),
    "user": lambda: import_module("lior.cli.user"),
    "trigger": lambda: import_module("lior.cli.trigger"),
    "component": lambda: import_module("lior.cli.component"),
    "subscription": lambda: import_module("lior.cli.subscription"),
    "pipeline": lambda: import_module("lior.cli.pipeline"),
    "explain": lambda: import_module("lior.cli.explain"),
}

# Module and short help of each, in the order of the help.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "serve": ("serve", "Run a queue manager that other programs and computers reach."),
    "queue": ("queue", "Create, list, change and delete queues."),
    "send": ("messages", "Send a message to a queue, or to several."),
    "receive": ("receiving", "Take messages from the queue SOURCE."),
    "peek": ("receiving", "Show the next message of the queue SOURCE and leave it there."),
    "browse": ("receiving", "List the messages of a queue and leave them there."),
    "move": ("messages", "Move messages into a subqueue, or back."),
    "journal": ("receiving", "List what was received and kept in a journal."),
    "dead-letter": ("deadletter", "Messages that failed: list, replay, export, purge."),
    "outgoing": ("operation", "Queues to other computers and their connections."),
    "transaction": ("operation", "Transactions in doubt: list, commit, abort."),
    "security": ("operation", "Who may do what with a queue: show, set."),
    "stats": ("operation", "Show figures of the queue manager."),
    "top": ("top", "Show the busiest queues live, until q or Ctrl-C."),
    "trace": ("trace", "Tell where a message is, and what became of it."),
    "set": ("operation", "Change properties of the queue manager."),
    "doctor": ("storage", "Examine the store in a data directory, or repair it."),
    "backup": ("storage", "Copy the store to a file, also while it is in use."),
    "restore": ("storage", "Make the data directory DIR from the backup FILE."),
    "compact": ("operation", "Give the free space of the store's file back to the disk."),
    "certificate": ("security_files", "Certificates: whose signatures count."),
    "key": ("security_files", "Keys for the encryption of bodies."),
    "user": ("user", "Accounts for RPC over the network."),
    "trigger": ("trigger", "Run commands or HTTP requests for the messages of a queue."),
    "component": ("component", "Queued components: method calls that travel in a message."),
    "subscription": ("subscription", "Readers that claim messages: list, show, abandon."),
    "pipeline": ("pipeline", "Move messages between queues and a lake, with Spark."),
    "name": ("explain", "Explain a path name or a format name."),
    "error": ("explain", "Say what an error code or a message class means."),
    "completion": ("explain", "Print what makes a shell complete this command."),
}


class Root(click.Group):
    """The commands above; every error ends in its exit code and three lines at most."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        found = getattr(MODULES[module](), "set_" if cmd_name == "set" else cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in COMMANDS.items()])

    def main(  # type: ignore[override]  # never answers: it always ends the process
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name, **extra)
            flush()
        except click.Abort:
            click.echo("Aborted.", err=True)
            sys.exit(INTERRUPTED)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except LiorError as error:
            show_error(error)
            sys.exit(NO_MESSAGE if isinstance(error, Timeout) else FAILED)
        except BrokenPipeError:
            close_stdout()
            sys.exit(FAILED)
        except OSError as error:
            click.echo(f"error: {error.strerror or error}\nwhere: {error.filename or 'standard output'}", err=True)
            close_stdout()
            sys.exit(FAILED)
        sys.exit(code if isinstance(code, int) else DONE)


def flush() -> None:
    """A full disk or a closed pipe shows itself here, not after the exit code is decided."""
    sys.stdout.flush()


def close_stdout() -> None:
    """Nobody reads on: keep the interpreter from complaining about it when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


@click.group(cls=Root, context_settings=CONTEXT)
@click.version_option(package_name="lior", message="Lior %(version)s")
def cli() -> None:
    """Lior: Message Queuing (MSMQ) for Linux.

    Commands work on a queue manager that `lior serve` runs, or on a data directory that nobody serves. Exit
    codes: 0 done, 1 an error with its code and remedy on stderr, 2 wrong usage, 3 no message in time, 130 Ctrl-C.
    """


def main() -> NoReturn:
    cli.main(prog_name="lior")


if __name__ == "__main__":
    main()
