"""The one place that joins the queue manager to RPC: its interfaces, their handlers, and who may call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from lior.protocols.rpc.groups import Group
from lior.server.admin.service import AdminService
from lior.server.config import Settings
from lior.server.local import LocalBackend
from lior.server.rpc.methods import (
    machine,
    management,
    messages,
    objects,
    qm2qm,
    queues,
    remote_read,
    transactions,
)
from lior.server.rpc.methods.quick_reads import usual_reads
from lior.server.rpc.methods.read_batches import read_batches
from lior.server.rpc.methods.remote_reader import RemoteReader
from lior.server.rpc.methods.send_batches import send_batches
from lior.server.rpc.methods.service import QueueService, bound
from lior.server.rpc.providers import providers
from lior.server.rpc.service import RpcService
from lior.server.rpc.session_calls import SessionCalls
from lior.server.transfer import Transfer
from lior.wire.interfaces.lior_session import LIOR
from lior.wire.interfaces.management import QMMGMT
from lior.wire.interfaces.qm2qm import QM2QM
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ

PORT_QUERY = frozenset({31})  # R_QMGetRTQMServerPort: whoever asks where to go has not said who he is


class Ports:
    """Where the interfaces listen."""

    def __init__(self, service: RpcService) -> None:
        self._service = service

    def handshake(self) -> int:
        return self._service.port

    def read(self) -> int:
        return self._service.qm_port


def drop(service: RpcService, group: Group) -> None:
    """End the connections of a client."""
    for connection in list(service.connections):
        if connection.association is not None and connection.association.group is group and connection.transport:
            connection.transport.abort()


def rpc_service(
    backend: LocalBackend[Any], settings: Settings, directory: Path, admin: AdminService,
    reader_for: Callable[[UUID], RemoteReader] | None = None, transfer: Transfer | None = None,
) -> RpcService:  # fmt: skip
    """Not started yet. `reader_for` gives what reads other queue managers, from the identifier of ours; `transfer`
    has the keys of this queue manager, and sends again what an operator wants sent again."""
    properties = backend.manager.core.properties
    properties.supporting_server = settings.rpc.supporting_server
    offered = providers(settings.rpc, directory, properties.computer_name, properties.qualified_computer_name)
    service = RpcService(settings.rpc, settings.server.bind, directory, offered, asyncio.get_running_loop())
    reader = None if reader_for is None else reader_for(properties.identifier)
    methods = QueueService(
        backend.engine, Ports(service), settings=settings.rpc.methods, reader=reader, compact=backend.compact,
        decrypt=None if transfer is None else transfer.guard.clear_body,
        resend=None if transfer is None else transfer.resend,
    )  # fmt: skip
    service.closing.append(methods.close)
    qmcomm = {**queues.METHODS, **objects.METHODS, **transactions.METHODS, **machine.METHODS}
    service.register(QMCOMM, bound(qmcomm, methods), allow_anonymous=PORT_QUERY)
    service.register(messages.usual_sends(QMCOMM2), bound(messages.METHODS, methods),
                     batches=send_batches(methods))
    service.register(QM2QM, bound(qm2qm.METHODS, methods), allow_anonymous=frozenset({7, 8}))
    service.register(usual_reads(REMOTE_READ), bound(remote_read.METHODS, methods), allow_anonymous=frozenset({0}),
                     batches=read_batches(methods))
    service.register(QMMGMT, bound(management.METHODS, methods))
    sessions = SessionCalls(admin, methods, partial(drop, service))
    service.stopping.append(sessions.end_waits)
    service.register(LIOR, sessions.handlers())
    return service
