"""A queue manager inside this process: the composition root that joins server and library."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from lior.client.backend import QueueInfo
from lior.client.target import default_directories
from lior.names import LocalNames
from lior.security import Caller
from lior.server.local import MEMORY, LocalBackend, open_local
from lior.server.rpc.accounts import AccountAdministration
from lior.server.runtime import fresh_properties, local_names
from lior.server.transfer_security.administration import SecurityAdministration, policy_for
from lior.store import backup as backups
from lior.store.doctor import examine, repair
from lior.store.report import Report

__all__ = ["MEMORY", "EmbeddedBackend", "accounts", "backup", "describe", "examine", "own_names", "repair", "restore",
           "security", "serve", "start"]

EmbeddedBackend = LocalBackend[QueueInfo]


def describe(figures: dict[str, Any]) -> QueueInfo:
    return QueueInfo(**figures)


async def start(
    data: str | os.PathLike[str],
    *,
    name: str = "",
    caller: Caller | None = None,
    cache_bytes: int = 64 << 20,
    low_disk_bytes: int = 64 << 20,
    create: bool = True,
    record: str = "all",
) -> EmbeddedBackend:
    """Open the data directory (or ":memory:") and bring its queue manager up on the running loop.
    Without `create`, a directory that holds no store is an error. `record` says what is written down of the fates of
    messages: "all", "failures" or "off"."""
    return await open_local(
        data,
        describe=describe,
        name=name,
        caller=caller,
        cache_bytes=cache_bytes,
        low_disk_bytes=low_disk_bytes,
        create=create,
        record=record,
    )


# Without a queue manager: what the command line does with files. `examine` and `repair` are the store's.


def backup(directory: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """A consistent copy of a data directory's store, whether or not a queue manager has it open."""
    backups.copy_of(directory, path)


def restore(path: str | os.PathLike[str], directory: str | os.PathLike[str]) -> Report:
    """A data directory from a backup; answers what was found in it. The directory must hold no store."""
    backups.restore(path, directory)
    return examine(directory)


def security(
    directory: str | os.PathLike[str], providers: tuple[str, ...] = ("advanced",)
) -> SecurityAdministration:
    """Keys and certificates of a data directory, whether or not a queue manager has it open. `providers` are those
    whose own keys are looked at."""
    return SecurityAdministration.of_directory(directory, policy_for(providers))


def accounts(directory: str | os.PathLike[str]) -> AccountAdministration:
    """The local accounts of a data directory, whether or not a queue manager has it open."""
    return AccountAdministration(directory)


def own_names(identifier: UUID) -> LocalNames:
    """What names mean on this computer, for a queue manager with this identifier."""
    return local_names(fresh_properties(identifier))


# The daemon


def serve(
    announce: Callable[[dict[str, Any]], None],
    *,
    data: str = "",
    bind: Sequence[str] = (),
    config: str | None = None,
    assignments: Sequence[str] = (),
) -> None:
    """Run a queue manager that others reach, until a signal ends it. `announce` gets its addresses."""
    from lior.client.rpc.credentials import credentials, password_in
    from lior.client.rpc.remote_reader import QmReader
    from lior.server import config as configuration  # so that nobody else waits for the HTTP server's import
    from lior.server import main

    settings = configuration.load(config, assignments)
    if bind:
        settings = configuration.merged(settings, {"server": {"bind": list(bind)}}, "--bind")
    directory = data or settings.server.data or default_directories()[0]
    reading_as = None
    if settings.rpc.user:
        reading_as = credentials(settings.rpc.user, password_in(settings.rpc.password_file))
    main.run(settings, Path(directory).absolute(), announce, lambda identifier: QmReader(identifier, reading_as))
