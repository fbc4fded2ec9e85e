"""lior pipeline: the jobs between queues and a lake. Nothing of Spark is imported before a job runs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import click

from lior.cli.connection import json_option
from lior.cli.output import Output
from lior.client.target import default_directories, is_directory, is_served
from lior.errors import BadConfiguration

JOBS: Final = {  # each is a module of lior.spark.jobs, and has a class for its settings
    "ingest": "Ingest", "deliver": "Deliver", "replay": "Deliver", "samples": "Samples", "report": "Report",
    "deadletters": "Deadletters", "trace": "Trace", "capture": "Capture", "migrate": "Migrate",
}  # fmt: skip
WITHOUT_SPARK: Final = ("samples",)
WITHOUT_SERVER: Final = ("migrate",)  # may do without
# Paths as they are here, for a cluster, a server of Spark Connect and their workers stand elsewhere.
PATHS: Final = ("lake", "checkpoint", "output", "source", "files", "sent", "acknowledgements", "left", "right", "log",
                "credentials_file", "ca_file")  # fmt: skip


@click.group(short_help="Move messages between queues and a lake, with Spark.")
def pipeline() -> None:
    """Jobs on Spark: queues into Parquet, Delta or Iceberg and back, and reports about what went through.

    They need `pip install 'lior[spark]'` and Java 17 or newer.
    """


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        json_option,
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
@click.option("--format", metavar="FORMAT", help="parquet, delta or iceberg.")
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
    _run("ingest", options)


def _deliver_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--dry-run", is_flag=True, default=None, help="Only count."),
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
    _run("deliver", options)


@pipeline.command(short_help="Send archived messages again.")
@_deliver_options
def replay(**options: Any) -> None:
    """Send archived messages again, chosen by --where. They get new identifiers; the old one is the correlation id."""
    _run("replay", options | {"replay": True})


@pipeline.command(short_help="Count dead letters by reason and destination.")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Default: both dead-letter queues.")
@click.option("--where", metavar="CONDITION", help="SQL over the columns of the letters.")
@click.option("--output", metavar="PATH", help="Also write the letters there, in Parquet.")
@with_server
@common
def deadletters(**options: Any) -> None:
    """Count dead letters by reason, destination, sender and age. `lior dead-letter replay` sends them again."""
    _run("deadletters", options)


@pipeline.command(short_help="Latencies, lost and stuck messages of a lake.")
@click.option("--lake", metavar="PATH", help="What ingest wrote of the queues, and of the administration queue.")
@click.option("--sent", metavar="PATH", help="A lake of the senders' journals.")
@click.option("--acknowledgements", metavar="PATH", help="A lake of administration queues, if it is another one.")
@click.option("--patience", type=float, help="Seconds after which what is missing counts as lost or stuck.")
@click.option("--output", metavar="PATH", help="Also write a row for each message there, in Parquet.")
@common
def trace(**options: Any) -> None:
    """Join what was sent, arrived, was acknowledged and received: latencies, and what is lost or stuck."""
    _run("trace", options)


@pipeline.command(short_help="Read messages out of captures of a network.")
@click.option("--files", metavar="FILES", help="pcap and pcapng files: a path, a directory or a pattern.")
@click.option("--lake", metavar="PATH", help="captures/ is written there.")
@click.option("--kind", metavar="KIND", help="capture, or packets for files of packets as they were on the wire.")
@click.option("--port", type=int, help="TCP port of the binary protocol; default 1801.")
@common
def capture(**options: Any) -> None:
    """Read messages and session packets out of captures of a network."""
    _run("capture", options)


@pipeline.command(short_help="What queues use, and what that is elsewhere.")
@click.option("--lake", metavar="PATH", help="Traffic, for rates, sizes and what messages use.")
@click.option("--target", metavar="SYSTEM", help="kafka, rabbitmq, servicebus or lior.")
@click.option("--left", metavar="PATH", help="Compare this lake, by content,")
@click.option("--right", metavar="PATH", help="with this one.")
@with_server
@common
def migrate(**options: Any) -> None:
    """List queues with what they use, what that is elsewhere, and the gaps; compare two systems side by side."""
    _run("migrate", options)


@pipeline.command(short_help="Write a page about the traffic of a lake.")
@click.option("--lake", metavar="PATH", help="What ingest wrote.")
@click.option("--output", metavar="FILE", help="Default: report.html in the lake.")
@common
def report(**options: Any) -> None:
    """Write one HTML page about the traffic of a lake: volume, sizes, latencies, and what stands out."""
    _run("report", options)


@pipeline.command(short_help="Send synthetic traffic.")
@click.option("--messages", type=int, help="How many; default 10,000.")
@click.option("--seed", type=int, help="The same seed gives the same messages.")
@with_server
@common
def samples(**options: Any) -> None:
    """Send synthetic traffic to the queues orders, payments and shipments, which are made if they are not there."""
    _run("samples", options)


def _run(job: str, options: dict[str, Any]) -> None:
    out, given = Output(options.pop("as_json")), _settings(job, options.pop("file"))
    master = options.pop("master") or given.pop("master", "") or "local[*]"
    settings = given.pop("spark", {})
    given |= {name: value for name, value in options.items() if value not in (None, ())}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if "address" in options and not given.get("address") and job not in WITHOUT_SERVER:
        given["address"] = _running()
    given |= {name: _absolute(given[name]) for name in PATHS if given.get(name)}
    if is_directory(given.get("address", "")):
        given["address"] = os.path.abspath(given["address"])
    if job in ("deliver", "replay"):
        given.setdefault("run_id", f"{job}-{uuid4()}")
    module = _module("deliver" if job == "replay" else job)
    config = _module("result").config_from(getattr(module, JOBS[job]), given)
    if job in WITHOUT_SPARK:
        _show(out, module.run(None, config))
        return
    with _module("session", "lior.spark").session(master, f"lior {job}", settings) as spark:
        if job == "ingest":
            _show(out, module.run(spark, config, None if out.as_json else _progress))
        else:
            _show(out, module.run(spark, config))


def _settings(job: str, file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        content = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadConfiguration(str(error), where=file, remedy="give a TOML file") from error
    found: dict[str, Any] = {name: content[name] for name in ("master", "spark") if name in content}
    found |= content.get(job, {})
    return found


def _absolute(paths: str) -> str:
    return ",".join(each if "://" in each else os.path.abspath(each.strip()) for each in paths.split(","))


def _module(name: str, package: str = "lior.spark.jobs") -> Any:
    try:
        return import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "lior":
            raise
        raise BadConfiguration(f"{error.name} is not installed", where="lior pipeline",
                               remedy="pip install 'lior[spark]'") from error


def _running() -> str:
    for directory in default_directories():
        if is_served(directory):
            return str(directory)
    raise click.UsageError("which queue manager? Name one with --server (or LIOR_SERVER)")


def _progress(said: dict[str, Any]) -> None:
    click.echo(f"batch {said['batch']}: {said['rows']:,} messages, {said['total']:,} in all", err=True)


def _show(out: Output, result: Any) -> None:
    if out.as_json:
        out.record({"job": result.job, **result.to_json()})
        return
    for name, value in result.details.items():
        for line in value if isinstance(value, list) else [value]:
            shown = ", ".join(f"{key}={each}" for key, each in line.items()) if isinstance(line, dict) else line
            click.echo(f"{name}: {shown}")
    where = f" -> {result.output}" if result.output else ""
    out.done(f"{result.job}: {result.rows:,} messages in {result.seconds:.1f} s{where}", job=result.job,
             **result.to_json())  # fmt: skip
