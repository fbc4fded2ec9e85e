"""The one place that joins the server to what carries messages between queue managers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lior.server.config import Settings
from lior.server.engine import Engine
from lior.server.transfer import Transfer, TransferSettings
from lior.server.transfer.settings import PING_PORT
from lior.server.transfer_security import install


def network(engine: Engine, settings: Settings, directory: Path) -> Transfer:
    """The binary protocol, with the guard that checks what it brings."""
    binary, ping = settings.binary, settings.ping
    session = replace(
        binary.session,
        send_pings=ping.before_connecting,
        answer_pings=ping.port != 0,
        ping_response=ping.response_timeout,
    )
    told = TransferSettings(
        addresses=settings.server.bind,
        port=binary.port,
        peer_port=binary.peer_port,
        session=session,
        connect_timeout=binary.connect_timeout,
        max_sessions=binary.max_sessions,
        max_half_open=binary.max_half_open,
        ping_port=ping.port or PING_PORT,
        routes=settings.routes,
        trace_queues=settings.trace_queues,
    )
    return Transfer(engine, told, guard=install(engine.manager, directory, settings.security))
