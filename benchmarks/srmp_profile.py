"""Where the time of SRMP goes, by part: the shares of what a profiler of functions saw.

What C code does counts for the Python function that called it. The profiler makes calls dearer than they are, so these
are shares and no times.
"""

import asyncio
import cProfile
import os
import pstats
import tempfile
from collections import defaultdict
from pathlib import Path
from uuid import UUID

import lior
from lior.message import INFINITE, Message, ObjectId
from lior.wire.mime import format_entity
from lior.wire.srmp_message import Receipts, to_envelope
from lior.wire.srmp_writer import write_envelope

PARTS = {  # the first that is in the name of the file
    "wire/http1": "HTTP", "srmp/link": "HTTP", "srmp/connection": "HTTP", "srmp/client": "HTTP", "wire/mime": "MIME",
    "wire/srmp_message": "mapping", "wire/srmp": "envelope", "wire/strict_xml": "envelope", "lior/store": "store",
    "server/committer": "store", "lior/queues": "queues", "server/engine": "queues", "server/srmp": "SRMP",
    "lior/client": "application", "server/admin": "application",
}  # fmt: skip
QUEUE_MANAGER = UUID("0f52b9d4-3a1c-4a6e-9d3c-0a4a5b6c7d8e")
COUNT, AT_ONCE = 3200, 32


def part_of(file: str) -> str:
    return next((part for name, part in PARTS.items() if name in file), "other")


def shares(profile: cProfile.Profile) -> dict[str, float]:
    """Of the time of all, largest first."""
    times: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if file == "~" and callers:
            for (caller, _, _), (_, _, spent, _) in callers.items():
                times[part_of(caller)] += spent
        else:
            times[part_of(file)] += own
    total = sum(times.values())
    return {part: time / total for part, time in sorted(times.items(), key=lambda entry: -entry[1])}


def line(found: dict[str, float]) -> str:
    return ", ".join(f"{part} {share:.0%}" for part, share in found.items() if share >= 0.01)


class Wire(asyncio.Transport):
    """Where a connection writes its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.changed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.answers += bytes(data).count(b"HTTP/1.1 200 ")
        self.changed.set()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


def request(number: int, path: str, size: int) -> bytes:
    guid = QUEUE_MANAGER
    message = Message(os.urandom(size), "", delivery_guarantee=1, time_to_reach_queue=INFINITE)
    message.identifier, message.source_queue_manager, message.sent_time = ObjectId(guid, number), guid, 1.8e9
    envelope = write_envelope(to_envelope(message, f"http://localhost{path}", Receipts()))
    kind, pieces = format_entity(envelope, message.body, b"", str(guid), 1)
    entity = b"".join(pieces)
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(entity)}\r\n\r\n").encode() + entity  # fmt: skip


async def receiving(size: int) -> dict[str, float]:
    """Shares at the receiver: requests go into one connection of a queue manager of this process, without a socket."""
    from lior.server.srmp import Srmp, SrmpSettings
    from lior.server.srmp.connection import Connection
    from lior.server.transfer_security.place import SecurityFiles

    with tempfile.TemporaryDirectory(prefix="lior-bench-") as directory:
        async with lior.aio.open(Path(directory)) as qm:
            await qm.create_queue(r".\private$\q")
            hub = Srmp(qm.backend.engine, SrmpSettings(http_port=0), SecurityFiles(None))  # type: ignore[attr-defined]
            await hub.start()
            connection, wire, profile = Connection(hub.listener), Wire(), cProfile.Profile()
            connection.connection_made(wire)
            requests = [request(number, "/msmq/private$/q", size) for number in range(1, COUNT + 1)]
            with profile:
                for at in range(0, COUNT, AT_ONCE):
                    connection.data_received(b"".join(requests[at : at + AT_ONCE]))
                    while wire.answers < at + AT_ONCE:
                        wire.changed.clear()
                        await wire.changed.wait()
            await hub.stop()
    return shares(profile)
