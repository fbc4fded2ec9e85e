"""How a queue is opened: in the queue manager that is asked, or the way to another one ([MS-MQMP] 3.2.4.7)."""

from __future__ import annotations

import socket
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_OID, UUID, getnode, uuid5

from lior.client.rpc.classic import OpenQueue
from lior.client.rpc.reading import QueueReader
from lior.errors import IllegalFormatName, UnsupportedFormatNameOperation
from lior.message import NULL_GUID
from lior.names import MultipleName, QueueFormat, SingleName, parse_format_name, to_queue_format
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.ndr import NULL
from lior.wire.ndr_types import NULL_HANDLE

if TYPE_CHECKING:
    from lior.client.rpc.link import Link

OPEN_QUEUE, CLOSE_QUEUE, OPEN_FOR_MOVE = 2, 3, 11  # RemoteRead
OPEN_REMOTE_QUEUE, CLOSE_REMOTE_CONTEXT, OPEN_QUEUE_INTERNAL, CLOSE_HANDLE = 2, 3, 19, 20  # qmcomm
NON_ROUTING, WORKGROUP = 1, 1
VERSION: Final = (6, 3, 9600)  # Major, Minor, BuildNumber
MQS_NOT_DECLARED: Final = 0  # dwMQS: no operating system whose clients are counted
MOVE_ACCESS: Final = 4


@lru_cache(maxsize=1)
def licence_guid() -> UUID:
    """LicenceGuid (3.2.1.1): the same for all programs of this computer, and over its restarts."""
    try:
        computer = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        computer = ""
    return uuid5(NAMESPACE_OID, f"lior client {computer or f'{socket.gethostname()} {getnode()}'}")


@lru_cache(maxsize=256)
def single(name: str) -> SingleName:
    parsed = parse_format_name(name)
    if isinstance(parsed, MultipleName):
        raise UnsupportedFormatNameOperation("several queues cannot be opened at once here", where=name[:200],
                                             remedy="open one after the other")
    return parsed


@lru_cache(maxsize=256)
def queue_format(name: str) -> QueueFormat:
    return to_queue_format(single(name))


def is_several(name: str) -> bool:
    return isinstance(parse_format_name(name), MultipleName)


# RemoteRead


async def open_to_read(link: Link, name: str, access: int, exclusive: bool, queue_manager: UUID) -> QueueReader:
    """A queue of the queue manager at the other end, by R_OpenQueue."""
    values = (queue_format(name), access, int(exclusive), licence_guid(), NON_ROUTING, *VERSION, WORKGROUP)
    opened = await link.method(REMOTE_READ, OPEN_QUEUE, values, where=name, undo=partial(_close_reader, link, 0))
    return QueueReader(link, name, opened[0], queue_manager)


async def open_to_move(link: Link, name: str) -> tuple[int, bytes]:
    """Where messages are moved to, by R_OpenQueueForMove: its pMoveContext and its handle."""
    values = (queue_format(name), MOVE_ACCESS, 0, licence_guid(), NON_ROUTING, *VERSION, WORKGROUP)
    opened = await link.method(REMOTE_READ, OPEN_FOR_MOVE, values, where=name, undo=partial(_close_reader, link, 1))
    return opened[0], opened[1]


def _close_reader(link: Link, place: int, opened: Any) -> None:
    link.method(REMOTE_READ, CLOSE_QUEUE, (opened[place],)).add_done_callback(_ignore)


# qmcomm


async def open_queue(link: Link, name: str, access: int, exclusive: bool) -> OpenQueue | str:
    """By rpc_QMOpenQueueInternal. A queue elsewhere is not opened: the name of its computer is the answer."""
    here = await _open_internal(link, name, access, exclusive)
    path = here.lplp_remote_queue_name
    if isinstance(path, str) and path:
        return path.partition("\\")[0]
    return OpenQueue(link, name, here.ph_queue, here.pdw_qm_context)


async def open_through(link: Link, there: Link, computer: str, name: str, access: int, exclusive: bool) -> OpenQueue:
    """A queue elsewhere, opened there and read through the server that was asked."""
    values = (queue_format(name), 0, access, int(exclusive), licence_guid(), MQS_NOT_DECLARED)
    remote = await there.method(QMCOMM, OPEN_REMOTE_QUEUE, values, where=name)
    try:
        opened = await _open_internal(link, name, access, exclusive, remote.ph_queue, remote.dwp_queue,
                                      remote.pdw_context)
    finally:  # the proxy has its own by now; without one the queue must not stay open there
        await there.method(QMCOMM, CLOSE_REMOTE_CONTEXT, (remote.pph_context,), where=name)
    return OpenQueue(link, name, opened.ph_queue, opened.pdw_qm_context, remote=computer)


async def _open_internal(
    link: Link, name: str, access: int, exclusive: bool, remote_queue: int = 0, queue: int = 0, context: int = 0
) -> Any:
    values = (queue_format(name), access, int(exclusive), remote_queue, NULL, queue, licence_guid(),
              socket.gethostname(), 0, context)
    return await link.method(QMCOMM, OPEN_QUEUE_INTERNAL, values, where=name, undo=partial(_close_handle, link))


def _close_handle(link: Link, opened: Any) -> None:
    if opened.ph_queue != NULL_HANDLE:
        link.method(QMCOMM, CLOSE_HANDLE, (opened.ph_queue,)).add_done_callback(_ignore)


def _ignore(future: Any) -> None:
    if not future.cancelled():
        future.exception()


def queue_manager_of(name: str) -> UUID:
    """Whose private queues a packet means that came to this queue; unknown for most names."""
    try:
        return getattr(single(name), "guid", NULL_GUID)
    except IllegalFormatName:
        return NULL_GUID
