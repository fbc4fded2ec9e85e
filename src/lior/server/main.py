"""`lior serve`: the composition root of the daemon, from its settings to its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from prometheus_client.registry import Collector

from lior.server import logs
from lior.server.admin.service import AdminService
from lior.server.bulk.supervisor import BulkProcess
from lior.server.config import Settings
from lior.server.fill import FillWatch
from lior.server.journal import EventLog
from lior.server.lag import LoopLag
from lior.server.listening import is_loopback
from lior.server.local import open_local
from lior.server.metrics import Figures, SoapFigures, exposition
from lior.server.network import multicast, network, soap
from lior.server.notify import Notifier
from lior.server.rpc.compose import rpc_service
from lior.server.rpc.figures import RpcFigures
from lior.server.rpc.methods.remote_reader import RemoteReader
from lior.server.rpc.service import RpcService
from lior.server.srmp import Srmp
from lior.server.transfer import Transfer

log = logging.getLogger("lior.server")

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GARBAGE: Final = 20_000, 20, 50  # thresholds of Python's collector: with its own it takes a tenth of the time
ReaderFor = Callable[[UUID], RemoteReader]
Announce = Callable[[dict[str, Any]], None]


def run(settings: Settings, directory: Path, announce: Announce, reader_for: ReaderFor | None = None) -> None:
    """Serve until a signal. `announce` gets the addresses when work is accepted; `reader_for` gives what reads queues
    of other queue managers."""
    logs.start_logging(settings.log)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(Server(settings, directory, reader_for).serve(partial(_begun, announce)))


def _begun(announce: Announce, addresses: dict[str, Any]) -> None:
    """What is there now stays; what comes are messages, of which few are ever part of a cycle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    announce(addresses)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # not on every interpreter
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def own_addresses(bind: Iterable[str]) -> frozenset[str] | None:
    """What the queue manager is known under: the addresses that it listens on, or all that the computer has. On
    127.0.0.1 it is that of the computer's other loopback name, too; others may have 127.0.0.2."""
    given = {ip_address(address) for address in bind}
    if any(address.is_unspecified for address in given):
        return None
    found = {str(address) for address in given}
    return frozenset(found | {"::1"} if "127.0.0.1" in found else found)


def admin_address(bind: Iterable[str]) -> str:
    return next((address for address in bind if is_loopback(address)), "127.0.0.1")


class Server:
    def __init__(self, settings: Settings, directory: Path, reader_for: ReaderFor | None = None) -> None:
        self._reader_for = reader_for
        self._settings = settings
        self._directory = directory
        self._told_to_stop = asyncio.Event()
        self._notifier = Notifier()

    async def serve(self, announce: Announce) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._told_to_stop.set)
        async with AsyncExitStack() as parts:
            addresses = await self._start(parts)
            announce(addresses)
            self._notifier.ready("serving " + " ".join(f"{name}={value}" for name, value in addresses.items()))
            log.info("ready", extra={"fields": addresses})
            await self._told_to_stop.wait()
            self._notifier.stopping()
            log.info("stopping")
        log.info("stopped")

    async def _start(self, parts: AsyncExitStack) -> dict[str, Any]:
        """Each part is stopped in reverse order: first nothing new comes in, last the store is closed."""
        given, record = self._settings.server, self._settings.record
        backend = await open_local(
            self._directory,
            describe=dict,
            name=given.name,
            cache_bytes=given.cache_bytes,
            low_disk_bytes=given.low_disk_bytes,
            addresses=own_addresses(given.bind),
            record=record.messages,
            record_rows=record.max_rows,
            record_days=record.days,
        )
        parts.push_async_callback(backend.close)
        transfer = network(backend.engine, self._settings, self._directory)
        admin = AdminService(backend, self._settings.admin, self._directory, admin_address(given.bind))
        parts.push_async_callback(transfer.stop)
        await transfer.start()
        srmp = soap(backend.engine, self._settings, self._directory)
        parts.push_async_callback(srmp.stop)
        await srmp.start()
        groups = multicast(backend.engine, self._settings, srmp)
        parts.push_async_callback(groups.stop)
        await groups.start()
        rpc = rpc_service(backend, self._settings, self._directory, admin, self._reader_for, transfer)
        parts.push_async_callback(rpc.stop)
        await rpc.start()
        parts.push_async_callback(admin.stop, given.stop_timeout)
        admin.connections = lambda: transfer.figures() + srmp.figures()
        self._watch(parts, admin, transfer, RpcFigures(rpc), SoapFigures(srmp, groups))
        await admin.start()
        bulk = BulkProcess(self._settings, self._directory)
        parts.push_async_callback(bulk.stop)
        await bulk.start()
        found = self._addresses(admin, transfer, srmp, rpc)
        return found | {"bulk": bulk.address} if bulk.address else found

    def _addresses(
        self, admin: AdminService, transfer: Transfer, srmp: Srmp, rpc: RpcService
    ) -> dict[str, Any]:
        found: dict[str, Any] = {"pid": os.getpid(), "socket": str(admin.socket_path)}
        if admin.url:
            found["admin"] = admin.url
        if transfer.addresses:
            found["binary"] = ",".join(transfer.addresses)
        if srmp.addresses:
            found["srmp"] = ",".join(srmp.addresses)
        if rpc.addresses:
            found["rpc"] = ",".join(rpc.addresses)
        if rpc.mapper_addresses:
            found["mapper"] = ",".join(rpc.mapper_addresses)
        return found

    def _watch(self, parts: AsyncExitStack, admin: AdminService, transfer: Transfer, *further: Collector) -> None:
        """Measure, and tell who wants to know."""
        loop = asyncio.get_running_loop()
        manager = admin.backend.manager
        EventLog(manager)
        lag = LoopLag(loop)
        lag.start()
        parts.callback(lag.stop)
        admin.metrics = exposition([Figures(admin, transfer, lag), *further])
        watching = [loop.create_task(self._watch_fill(FillWatch(manager.core)))]
        if self._notifier.watchdog:
            watching.append(loop.create_task(self._stay_alive(admin)))
        for task in watching:
            parts.callback(task.cancel)

    async def _watch_fill(self, watch: FillWatch) -> None:
        while True:
            watch.look()
            await asyncio.sleep(self._settings.log.fill_interval)

    async def _stay_alive(self, admin: AdminService) -> None:
        """systemd restarts a service that says nothing any more: one whose store is broken, for example."""
        while admin.backend.engine.broken is None:
            self._notifier.alive()
            await asyncio.sleep(self._notifier.watchdog)
