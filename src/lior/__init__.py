"""Lior: Message Queuing (MSMQ) for Linux, in Python.

    import lior

    with lior.open("./data") as qm:
        qm.create_queue(r".\\private$\\orders", transactional=True)
        qm.send(r".\\private$\\orders", "hello", label="order 1001")
        with qm.open_queue(r".\\private$\\orders") as q:
            print(q.receive(timeout=5).value())

`lior.connect(...)` gives the same on a queue manager that `lior serve` runs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lior import errors
from lior.errors import LiorError
from lior.message import Acknowledgements, Message, MessageClass, ObjectId

if TYPE_CHECKING:  # else when it is asked for: a process that only reads columns, as Spark's do, never needs it
    from lior import aio
    from lior.client.backend import QueueInfo
    from lior.client.message import ReceivedMessage
    from lior.client.signing import Identity
    from lior.client.sync import Cursor, Queue, QueueManager, Transaction
    from lior.client.xml_identity import XmlIdentity

__all__ = [
    "Acknowledgements",
    "Cursor",
    "Identity",
    "XmlIdentity",
    "LiorError",
    "Message",
    "MessageClass",
    "ObjectId",
    "Queue",
    "QueueInfo",
    "QueueManager",
    "ReceivedMessage",
    "Transaction",
    "aio",
    "connect",
    "errors",
    "open",
]


def __getattr__(name: str) -> Any:
    """What takes a while to import, all of it at the first use of any."""
    if name not in __all__:
        raise AttributeError(f"module 'lior' has no attribute {name!r}")
    import lior.aio as aio
    from lior.client.backend import QueueInfo
    from lior.client.message import ReceivedMessage
    from lior.client.signing import Identity
    from lior.client.sync import Cursor, Queue, QueueManager, Transaction
    from lior.client.xml_identity import XmlIdentity

    found = {"aio": aio} | {each.__name__: each for each in (
        QueueInfo, ReceivedMessage, Identity, Cursor, Queue, QueueManager, Transaction, XmlIdentity)}  # fmt: skip
    globals().update(found)
    return found[name]


def open(data: str | os.PathLike[str], **options: Any) -> QueueManager:
    """An embedded queue manager: its data directory is made if it is not there, and is this process's
    until it is closed. ":memory:" keeps everything in memory."""

    from lior import aio
    from lior.client.sync import QueueManager, Runner

    async def opening() -> aio.QueueManager:
        return await aio.open(data, **options)

    return QueueManager.start(opening, Runner())


def connect(
    target: str | os.PathLike[str] | None = None,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    authentication: str | None = None,
    level: str | None = None,
) -> QueueManager:
    """A queue manager that `lior serve` runs, or another one of the same protocols, with the interface of `lior.open`:
    named by its data directory, by host or host:port, or by a URL; without a name the one with its data in a default
    directory. A host wants a `user` with his `password` (or LIOR_USER and LIOR_PASSWORD_FILE), or the server's token
    (`token`, LIOR_TOKEN, or the file that LIOR_TOKEN_FILE names)."""

    from lior import aio
    from lior.client.sync import QueueManager, Runner

    async def connecting() -> aio.QueueManager:
        return await aio.connect(target, token=token, user=user, password=password, authentication=authentication,
                                 level=level)  # fmt: skip

    return QueueManager.start(connecting, Runner())
