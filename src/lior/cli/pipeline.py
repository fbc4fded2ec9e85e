"""lior pipeline: the jobs between queues and a lake. Nothing of Spark is imported before a job runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lior.cli.connection import json_option
from lior.cli.pipeline_run import run_job


@click.group(short_help="Move messages between queues and a lake, with Spark.")
def pipeline() -> None:
    """Jobs on Spark: queues into Parquet, Delta or Iceberg and back, and reports about what went through.

    They need `pip install 'lior[spark]'` and Java 17 or newer.
    """


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        json_option,
        click.option("--verbose", is_flag=True, help="Show what Spark prints, and its own errors."),
        click.option("--config", "file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
                     help="Settings in TOML: a table with the name of the job. Options go before it."),
        click.option("--master", metavar="URL", help="Spark's master, local[*] if none is given; sc://host for "
                     "Spark Connect."),
    ):  # fmt: skip
        function = option(function)
    return function


def with_server(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--ca-file", metavar="FILE", help="Authorities that its TLS certificate is believed by."),
        click.option("--credentials-file", metavar="FILE", help="The admin token, or user:password."),
        click.option("--server", "address", metavar="SERVER", envvar="LIOR_SERVER", show_envvar=True,
                     help="The queue manager: its data directory, or host:port of its bulk transfer."),
    ):  # fmt: skip
        function = option(function)
    return function


@pipeline.command(short_help="Copy messages from queues into a lake.")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Queue to read; again for more.")
@click.option("--lake", metavar="PATH", help="Where messages/, quarantine/ and runs/ are written.")
@click.option("--subscription", metavar="NAME", help="What the queue manager knows this reader by; default lake.")
@click.option("--format", metavar="FORMAT", help="parquet, archive, delta or iceberg.")
@click.option("--checkpoint", metavar="PATH", help="Spark's checkpoint; default inside the lake.")
@click.option("--once", is_flag=True, default=None, help="End with what was there at the beginning.")
@click.option("--seconds", type=float, help="End after so long.")
@click.option("--takeover", is_flag=True, default=None, help="Replace another reader of the subscription.")
@with_server
@common
def ingest(**options: Any) -> None:
    """Copy messages from queues into a lake, each exactly once, and take them out of the queues.

    A message leaves its queue when it is safe in the lake. Stop it as you like: it goes on where it was.
    """
    run_job("ingest", options)


def _deliver_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--dry-run", is_flag=True, default=None, help="Only count, by destination."),
        click.option("--wait", type=float, help="Seconds to wait for acknowledgements; default 30."),
        click.option("--outcomes", metavar="QUEUE", help="Ask for acknowledgements in this queue, and say what "
                     "arrived and what was refused."),
        click.option("--rate", type=float, help="Messages a second at the most."),
        click.option("--delivery", metavar="KIND", help="express, recoverable or transactional."),
        click.option("--run-id", metavar="ID", help="Repeating a run with the same id sends nothing twice."),
        click.option("--format", metavar="FORMAT", help="parquet, delta, json or orc."),
        click.option("--sql", metavar="QUERY", help="A query over the view `source`."),
        click.option("--where", metavar="CONDITION", help="SQL over the columns of the source."),
        click.option("--queue", metavar="QUEUE", help="Where to; else the column destination says it."),
        click.option("--source", metavar="PATH", help="What to send."),
    ):  # fmt: skip
        function = option(function)
    return with_server(common(function))


@pipeline.command(short_help="Send the rows of a table or a query.")
@_deliver_options
def deliver(**options: Any) -> None:
    """Send the rows of a table or a query as messages; columns named like properties are these."""
    run_job("deliver", options)


@pipeline.command(short_help="Send archived messages again.")
@_deliver_options
def replay(**options: Any) -> None:
    """Send archived messages again, chosen by --where. They get new identifiers; the old one is the correlation id."""
    run_job("replay", options | {"replay": True})


@pipeline.command(short_help="Count dead letters by reason and destination.")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Default: both dead-letter queues.")
@click.option("--where", metavar="CONDITION", help="SQL over the columns of the letters.")
@click.option("--output", metavar="PATH", help="Also write the letters there, in Parquet.")
@with_server
@common
def deadletters(**options: Any) -> None:
    """Count dead letters by reason, destination, sender and age. `lior dead-letter replay` sends them again."""
    run_job("deadletters", options)


@pipeline.command(short_help="Latencies, lost and stuck messages of a lake.")
@click.option("--lake", metavar="PATH", help="What ingest wrote of the queues, and of the administration queue.")
@click.option("--sent", metavar="PATH", help="A lake of the senders' journals.")
@click.option("--acknowledgements", metavar="PATH", help="A lake of administration queues, if it is another one.")
@click.option("--patience", type=float, help="Seconds after which what is missing counts as lost or stuck.")
@click.option("--output", metavar="PATH", help="Also write a row for each message there, in Parquet.")
@common
def trace(**options: Any) -> None:
    """Join what was sent, arrived, was acknowledged and received: latencies, and what is lost or stuck."""
    run_job("trace", options)


@pipeline.command(short_help="Read messages out of captures of a network.")
@click.option("--files", metavar="FILES", help="pcap and pcapng files, or what --kind says: a path, a "
              "directory or a pattern.")
@click.option("--lake", metavar="PATH", help="captures/ is written there.")
@click.option("--kind", metavar="KIND", help="capture; packets, for files of packets as they were on the wire; "
              "srmp, for files of SRMP requests.")
@click.option("--port", type=int, help="TCP port of the binary protocol; default 1801.")
@click.option("--http-port", type=int, help="TCP port of SRMP; default 80.")
@common
def capture(**options: Any) -> None:
    """Read messages, session packets, sessions and acknowledgements out of captures of a network."""
    run_job("capture", options)


@pipeline.command(short_help="What queues use, and what that is elsewhere.")
@click.option("--lake", metavar="PATH", help="Traffic, for rates, sizes and what messages use.")
@click.option("--target", metavar="SYSTEM", help="kafka, rabbitmq, servicebus or lior.")
@click.option("--left", metavar="PATH", help="Compare this lake, by content,")
@click.option("--right", metavar="PATH", help="with this one.")
@with_server
@common
def migrate(**options: Any) -> None:
    """List queues with what they use, what that is elsewhere, and the gaps; compare two systems side by side."""
    run_job("migrate", options)


@pipeline.command(short_help="Write a page about the traffic of a lake.")
@click.option("--lake", metavar="PATH", help="What ingest wrote.")
@click.option("--output", metavar="FILE", help="Default: report.html in the lake.")
@common
def report(**options: Any) -> None:
    """Write one HTML page about the traffic of a lake: volume, sizes, latencies, and what stands out."""
    run_job("report", options)


@pipeline.command(short_help="Make few large files of many small ones.")
@click.option("--lake", metavar="PATH", help="What ingest wrote.")
@click.option("--format", metavar="FORMAT", help="parquet, archive, delta or iceberg.")
@click.option("--target-mb", type=int, help="Size of a file in MiB, about; default 128.")
@common
def compact(**options: Any) -> None:
    """Make few large files of the many small ones that a continuous ingest leaves; it may go on meanwhile.

    Readers of a directory of Parquet may see rows twice while it works; those of Delta and Iceberg do not.
    """
    run_job("compact", options)


@pipeline.command(short_help="Send synthetic traffic.")
@click.option("--messages", type=int, help="How many; default 10,000.")
@click.option("--seed", type=int, help="The same seed gives the same messages.")
@with_server
@common
def samples(**options: Any) -> None:
    """Send synthetic traffic to the queues orders, payments and shipments, which are made if they are not there."""
    run_job("samples", options)
