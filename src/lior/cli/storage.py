"""lior doctor, backup and restore: the store's files, with or without a queue manager on them."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from lior import embedded
from lior.cli.connection import offline
from lior.cli.output import FAILED, Output, number, printable, size

DIRECTORY = click.Path(file_okay=False)
FILE = click.Path(dir_okay=False)


@click.command(short_help="Examine the store in a data directory, or repair it.")
@click.argument("directory", type=DIRECTORY, envvar="LIOR_DATA", metavar="DIR")
@click.option("--repair", "repairing", is_flag=True,
              help="Bring a damaged store back into use; the damaged files are kept beside it.")
@offline
def doctor(out: Output, directory: str, repairing: bool) -> None:
    """Examine the store in the data directory DIR (default: LIOR_DATA), without changing it.

    It may run beside a queue manager; a repair may not. Exit code 1: something is damaged.
    """
    report = (embedded.repair if repairing else embedded.examine)(directory)
    if out.as_json:
        findings = [asdict(finding) | {"severity": finding.severity.name.lower()} for finding in report.findings]
        out.record(asdict(report) | {"findings": findings, "healthy": report.healthy})
    else:
        for finding in report.findings:
            out.line(printable(str(finding)))
        out.line(f"{number(report.queues, 'queue')}, {number(report.messages, 'message')} read")
        if report.repaired:
            out.line(f"repaired: {report.quarantined} put aside, {report.lost} lost; the old files are in "
                     f"{report.kept_in}")
        out.line("healthy" if report.healthy or report.repaired else "damaged")
    if not report.healthy and not report.repaired:
        raise SystemExit(FAILED)


@click.command(short_help="Copy the store to a file, also while it is in use.")
@click.argument("directory", type=DIRECTORY, metavar="DIR")
@click.argument("file", type=FILE, metavar="FILE")
@offline
def backup(out: Output, directory: str, file: str) -> None:
    """Write a consistent copy of the store in DIR to the new file FILE, also while it is in use."""
    embedded.backup(directory, file)
    written = os.stat(file).st_size
    out.done(f"wrote {file} ({size(written)})", file=file, bytes=written)


@click.command()
@click.argument("file", type=FILE, metavar="FILE")
@click.argument("directory", type=DIRECTORY, metavar="DIR")
@offline
def restore(out: Output, file: str, directory: str) -> None:
    """Make the data directory DIR from the backup FILE. DIR must not hold a store yet.

    The restored queue manager has the identity of the one that was backed up: never run both.
    """
    report = embedded.restore(file, directory)
    out.done(f"restored {number(report.queues, 'queue')} and {number(report.messages, 'message')} into {directory}",
             directory=directory, queues=report.queues, messages=report.messages)  # fmt: skip
