"""What can be told about a job's settings before Spark starts, which takes its time."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lior.client.bulk import Bulk
from lior.errors import BadConfiguration, StoreUnusable

PATIENCE = 5.0  # seconds for a queue manager that is away: somebody sits in front of this


def check_server(address: str, queues: Sequence[str], credentials_file: str, ca_file: str) -> None:
    """The queue manager answers, lets us in, and has these queues. Queues elsewhere are its own business."""
    with Bulk(address, credentials_file, ca_file, PATIENCE) as bulk:
        bulk.greet()
        for name in queues:
            if "=" not in name and ";" not in name:
                bulk.call("queue", name=name if name.startswith(".\\") else f".\\{name}")


def check_writable(path: str) -> None:
    """A directory on this computer that is there, or can be made."""
    if "://" in path:
        return
    at = os.path.abspath(path)
    while not os.path.exists(at):
        at = os.path.dirname(at)
    if not os.path.isdir(at):
        raise StoreUnusable("this is no directory", where=at, remedy="name a directory")
    if not os.access(at, os.W_OK | os.X_OK):
        raise StoreUnusable("you may not write here", where=at, remedy="make it writable, or choose another path")


def check_readable(path: str, remedy: str) -> None:
    if path and "://" not in path and not os.path.exists(path):
        raise BadConfiguration("there is nothing here", where=path, remedy=remedy)


def one_of(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise BadConfiguration(f"{value!r:.60} is no {name}", where=name, remedy=f"use {', '.join(choices)}")
