"""The queue manager's side of the bulk process: started with it, started again if it ends, ended with it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from lior.errors import BadConfiguration
from lior.server.admin.identity import TOKEN_FILE
from lior.server.bulk.settings import BulkSection
from lior.server.config import Settings
from lior.server.listening import is_loopback, url_host

log = logging.getLogger("lior.bulk")

FIRST_DELAY: Final = 0.5  # seconds until it is started again; doubled each time it does not even begin to serve
LONGEST_DELAY: Final = 60.0
ADDRESS_FILE: Final = "bulk.json"


class BulkProcess:
    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings: BulkSection = settings.bulk
        self._directory = directory
        self._bind = settings.server.bind
        self._token_file = settings.admin.token_file or str(directory / TOKEN_FILE)
        self._lockout = (settings.rpc.lockout_attempts, settings.rpc.lockout_time)
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self.address = ""  # host:port, if there is a bulk port
        self.starts = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        if not self._settings.port:
            return
        if find_spec("pyarrow") is None:
            log.info("no bulk transfer: pyarrow is not installed",
                     extra={"fields": {"remedy": "pip install 'lior[spark]', or --set bulk.port=0"}})
            return
        self._host = self._chosen()
        self.address = f"{url_host(self._host)}:{self._settings.port}"
        self._task = asyncio.get_running_loop().create_task(self._keep_running())

    def _chosen(self) -> str:
        """Names and bodies of messages do not cross a network in the clear."""
        wanted = self._settings.bind
        if self._settings.certificate:
            return wanted or self._bind[0]
        if wanted and not is_loopback(wanted):
            raise BadConfiguration("bulk transfer on an address that others reach needs TLS", where="bulk.bind",
                                   remedy="set bulk.certificate, or a loopback address")
        return wanted or next((address for address in self._bind if is_loopback(address)), "127.0.0.1")

    async def _keep_running(self) -> None:
        delay = FIRST_DELAY
        while True:
            served = await self._run_once()
            delay = FIRST_DELAY if served else min(delay * 2, LONGEST_DELAY)
            await asyncio.sleep(delay)

    async def _run_once(self) -> bool:
        """Until the process ends; answers whether it served."""
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "lior.server.bulk", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"GRPC_VERBOSITY": "NONE"})  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        self.starts += 1
        given = {"directory": str(self._directory), "address": url_host(self._host),
                 "settings": asdict(self._settings), "token_file": self._token_file,
                 "lockout": self._lockout}  # fmt: skip
        process.stdin.write(json.dumps(given).encode() + b"\n")
        said: dict[str, Any] = {}
        with suppress(ValueError, ConnectionError):
            said = json.loads(await process.stdout.readline() or b"{}")
        if "port" in said:
            self._write_address(said["port"])
            log.info("bulk transfer", extra={"fields": {"where": self.address, "pid": process.pid}})
        code = await process.wait()
        log.warning("the bulk process ended; it will be started again", extra={"fields": {
            "code": code, "why": said.get("failed", ""), "where": self.address}})  # fmt: skip
        return "port" in said

    def _write_address(self, port: int) -> None:
        """For clients on this computer, who name the data directory."""
        scheme = "grpc+tls" if self._settings.certificate else "grpc+tcp"
        file = self._directory / ADDRESS_FILE
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"location": f"{scheme}://{url_host(self._host)}:{port}"}) + "\n")
        new.rename(file)

    async def stop(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
