"""lior serve: a queue manager that others reach."""

from __future__ import annotations

from typing import Any

import click

from lior import embedded
from lior.cli.connection import offline
from lior.cli.output import Output


@click.command(short_help="Run a queue manager that other programs and computers reach.")
@click.option("--data", metavar="DIR", envvar="LIOR_DATA", show_envvar=True,
              help="Data directory; made if it is not there.")
@click.option("--bind", multiple=True, metavar="ADDRESS",
              help="Listen on this address, 127.0.0.1 if none is given; again for more. 0.0.0.0 and :: mean all.")
@click.option("--config", type=click.Path(dir_okay=False), metavar="FILE",
              help="Settings in TOML (docs/configuration.md).")
@click.option("--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE",
              help="One setting, before those of the file; again for more.")
@offline
def serve(
    out: Output, data: str | None, bind: tuple[str, ...], config: str | None, assignments: tuple[str, ...]
) -> None:
    """Run a queue manager until SIGTERM or Ctrl-C.

    It prints one line `ready` with its addresses when it accepts work, and its log on stderr. Without --data its
    directory is the one of the settings, else /var/lib/lior for root and ~/.local/share/lior for others.
    """

    def announce(addresses: dict[str, Any]) -> None:
        words = " ".join(["ready", *(f"{name}={value}" for name, value in addresses.items())])
        out.done(words, event="ready", **addresses)
        out.flush()

    embedded.serve(announce, data=data or "", bind=bind, config=config, assignments=assignments)
