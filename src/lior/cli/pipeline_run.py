"""How `lior pipeline` runs a job: its settings from options and a file, Spark's noise in a log, errors in 3 lines."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import click

from lior.cli.output import Output
from lior.client.target import default_directories, is_directory, is_served
from lior.errors import BadConfiguration, LiorError

JOBS: Final = {  # each is a module of lior.spark.jobs, and has a class for its settings
    "ingest": "Ingest", "deliver": "Deliver", "replay": "Deliver", "samples": "Samples", "report": "Report",
    "deadletters": "Deadletters", "trace": "Trace", "capture": "Capture", "migrate": "Migrate", "compact": "Compact",
}  # fmt: skip
WITHOUT_SPARK: Final = ("samples",)
WITHOUT_SERVER: Final = ("migrate",)  # may do without
# Paths as they are here, for a cluster, a server of Spark Connect and their workers stand elsewhere.
PATHS: Final = ("lake", "checkpoint", "output", "source", "files", "sent", "acknowledgements", "left", "right", "log",
                "credentials_file", "ca_file")  # fmt: skip


def run_job(job: str, options: dict[str, Any]) -> None:
    out, verbose = Output(options.pop("as_json")), options.pop("verbose")
    given = _settings(job, options.pop("file"))
    master = options.pop("master") or given.pop("master", "") or "local[*]"
    given.pop("master", None)
    settings = given.pop("spark", {})
    given |= {name: value for name, value in options.items() if value not in (None, ())}
    if "address" in options and not given.get("address") and job not in WITHOUT_SERVER:
        given["address"] = _running()
    if job in ("deliver", "replay"):
        given.setdefault("run_id", f"{job}-{uuid4()}")
    module = _module("deliver" if job == "replay" else job)
    config = _module("result").config_from(getattr(module, JOBS[job]), _located(given))
    if hasattr(module, "check"):  # what can be said without Spark, which takes seconds to start
        module.check(config, here=not master.startswith("sc://"))
    if job in WITHOUT_SPARK:
        _show(out, module.run(None, config))
        return
    with _spark(job, master, settings, verbose) as spark:
        if job == "ingest":
            _show(out, module.run(spark, config, None if out.as_json else _progress))
        else:
            _show(out, module.run(spark, config))


@contextmanager
def _spark(job: str, master: str, settings: dict[str, Any], verbose: bool) -> Iterator[Any]:
    """A session. What it prints goes into a file, which stays if the job fails; an error says what to do."""
    log = ""
    if not verbose:
        descriptor, log = tempfile.mkstemp(prefix=f"lior-{job}-", suffix=".log")
        os.close(descriptor)
    kept = False
    try:
        texts = {name: str(value) for name, value in settings.items()}
        with _module("session", "lior.spark").session(master, f"lior {job}", texts, log) as spark:
            yield spark
    except LiorError:
        raise
    except Exception as error:
        if verbose:
            raise
        kept = bool(log) and os.path.getsize(log) > 0
        raise _module("explaining", "lior.spark").explained(error, log if kept else "") from error
    finally:
        if log and not kept:
            with suppress(OSError):
                os.unlink(log)


def _settings(job: str, file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        content = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadConfiguration(str(error), where=file, remedy="give a TOML file") from error
    found: dict[str, Any] = {name: content[name] for name in ("master", "spark") if name in content}
    for name, kind, what in (("master", str, "a string"), ("spark", dict, "a table"), (job, dict, "a table")):
        if not isinstance(content.get(name, kind()), kind):
            raise BadConfiguration(f"{name} is no {what.partition(' ')[2]}", where=file, remedy=f"write {what}")
    for name in content:
        if name not in (*JOBS, "master", "spark"):
            raise BadConfiguration(f"there is no table {name}", where=file,
                                   remedy=f"there are master, spark, {', '.join(JOBS)}")
    found |= content.get(job, {})
    return found


def _located(given: dict[str, Any]) -> dict[str, Any]:
    found = dict(given)
    for name in PATHS:
        if isinstance(found.get(name), str) and found[name]:
            found[name] = ",".join(each if "://" in each else os.path.abspath(each.strip())
                                   for each in found[name].split(","))  # fmt: skip
    if isinstance(found.get("address"), str) and is_directory(found["address"]):
        found["address"] = os.path.abspath(found["address"])
    return found


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
    waiting = f", {said['waiting']:,} wait" if said["waiting"] >= 0 else ""
    click.echo(f"batch {said['batch']}: {said['rows']:,} messages, {said['total']:,} in all{waiting}", err=True)


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
