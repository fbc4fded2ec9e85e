"""The one place that joins the queue manager to RPC: its interfaces, their handlers, and who may call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from lior.server.config import Settings
from lior.server.local import LocalBackend
from lior.server.rpc.providers import providers
from lior.server.rpc.service import RpcService


def rpc_service(backend: LocalBackend[Any], settings: Settings, directory: Path) -> RpcService:
    """Not started yet."""
    properties = backend.manager.core.properties
    offered = providers(settings.rpc, directory, properties.computer_name, properties.qualified_computer_name)
    return RpcService(settings.rpc, settings.server.bind, directory, offered, asyncio.get_running_loop())
