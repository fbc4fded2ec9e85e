"""A queue manager behind its admin API, in a thread of this process: what `lior serve` offers, quicker to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lior.client.sync import Runner
from lior.server.admin.service import AdminService
from lior.server.config import AdminSection
from lior.server.local import open_local


@contextmanager
def served(data: Path) -> Iterator[AdminService]:
    """The service on the directory's socket."""

    async def start() -> AdminService:
        backend = await open_local(data, describe=dict)
        service = AdminService(backend, AdminSection(port=0), data, "127.0.0.1")
        await service.start()
        return service

    async def stop() -> None:
        await service.stop(5.0)
        await service.backend.close()

    runner = Runner()
    try:
        service = runner.call(start)
        try:
            yield service
        finally:
            runner.call(stop)
    finally:
        runner.stop()
