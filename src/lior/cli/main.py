"""The `lior` command: its subcommands, and how errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from lior.cli import (
    component,
    deadletter,
    explain,
    messages,
    operation,
    pipeline,
    queue,
    receiving,
    security_files,
    serve,
    storage,
    subscription,
    top,
    trace,
    trigger,
    user,
)
from lior.cli.output import DONE, FAILED, INTERRUPTED, NO_MESSAGE, show_error
from lior.errors import LiorError, Timeout

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Root(click.Group):
    """Commands in the order below; every error ends in its exit code and three lines at most."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

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


for command in (
    serve.serve, queue.queue, messages.send, receiving.receive, receiving.peek, receiving.browse, messages.move,
    receiving.journal, deadletter.dead_letter, operation.outgoing, operation.transaction, operation.security,
    operation.stats, top.top, trace.trace, operation.set_, storage.doctor, storage.backup, storage.restore,
    operation.compact,
    security_files.certificate, security_files.key, user.user, trigger.trigger, component.component,
    subscription.subscription, pipeline.pipeline, explain.name, explain.error,
    explain.completion,
):  # fmt: skip
    cli.add_command(command)


def main() -> NoReturn:
    cli.main(prog_name="lior")


if __name__ == "__main__":
    main()
