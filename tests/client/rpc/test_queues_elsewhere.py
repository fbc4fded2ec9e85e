"""Queues of another computer: two servers and a client ([MS-MQMP] 4.2, [MS-MQQP], [MS-MQRR])."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

import lior
from lior.client.rpc import backend
from lior.client.rpc.handles import ClassicHandle, ReadHandle
from lior.errors import AccessDenied, LiorError, QueueNotFound, SharingViolation, Timeout, TransactionUsage
from lior.server.rpc.accounts import AccountFile
from lior.testing.serving import Serving
from lior.wire.interfaces.qmcomm import QMCOMM
from tests.client.library_scenario import bodies

USER, PASSWORD = "ruth", "correct horse battery"
QUEUE = r".\private$\orders"


class Two(NamedTuple):
    here: Serving
    there: Serving
    name: str  # of the queue there


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two servers with the same user; the first one reads the other one as that user."""
    path = tmp_path_factory.mktemp("two")
    password = path / "password"
    password.write_text(PASSWORD + "\n")
    for name in ("here", "there"):
        with lior.open(path / name):
            pass
        AccountFile(path / name).add(USER, PASSWORD, administrator=True)
    reading = {"rpc.user": USER, "rpc.password_file": str(password)}
    with Serving(path / "here", settings=reading) as here, Serving(path / "there") as there:
        with there.connect() as qm:
            qm.create_queue(QUEUE)
        yield Two(here, there, there.queue("orders"))


@pytest.fixture(params=["directly", "through the server"])
def client(request: pytest.FixtureRequest, two: Two, monkeypatch: pytest.MonkeyPatch) -> Iterator[lior.QueueManager]:
    """A client of the first server, which goes to the second one as it may."""
    if request.param != "directly":  # as if the other computer had no RemoteRead
        monkeypatch.setattr(backend, "ELSEWHERE", (QMCOMM,))
    with two.there.connect() as there:
        there.purge_queue(QUEUE)
    with lior.connect(two.here.address, user=USER, password=PASSWORD) as qm:
        yield qm


def there(two: Two, *sent: bytes) -> list[bytes]:
    """What is in the queue after these were sent."""
    with two.there.connect() as qm:
        for body in sent:
            qm.send(QUEUE, body)
        return bodies(qm, QUEUE)


@pytest.mark.spec("MP-197")
def test_messages_are_received_peeked_and_walked(client: lior.QueueManager, two: Two) -> None:
    there(two, *(b"%d" % number for number in range(5)))
    with client.open_queue(two.name) as queue:
        direct = len(backend.ELSEWHERE) > 1
        assert isinstance(queue.aio.handle, ReadHandle if direct else ClassicHandle)
        assert queue.peek(0).body == b"0" == queue.receive(0).body
        with queue.cursor() as cursor:
            assert (cursor.current(0).body, cursor.next(0).body, cursor.receive(0).body) == (b"1", b"2", b"2")
        assert there(two) == [b"1", b"3", b"4"]
        assert [queue.receive(0).body for _ in range(3)] == [b"1", b"3", b"4"]
        with pytest.raises(Timeout):
            queue.receive(0.05)
    with two.there.connect() as qm:
        assert qm.queue(QUEUE).readers == 0


def test_a_read_waits_for_the_message_and_can_be_cancelled(client: lior.QueueManager, two: Two) -> None:
    import asyncio

    async def scenario(qm: lior.aio.QueueManager) -> None:
        async with await qm.open_queue(two.name) as queue:
            waiting = asyncio.ensure_future(queue.receive(60))
            await asyncio.sleep(0)
            await asyncio.to_thread(there, two, b"late")
            assert (await waiting).body == b"late"
            cancelled = asyncio.ensure_future(queue.receive(60))
            while not await asyncio.to_thread(_waits, two):
                pass
            cancelled.cancel()
            await asyncio.wait([cancelled])
            assert cancelled.cancelled()

    client._call(scenario, client.aio)
    assert there(two, b"for another one") == [b"for another one"]


def _waits(two: Two) -> bool:
    with two.there.connect() as qm:
        return int(qm.properties()["waiting_reads"]) > 0


def test_a_large_message_comes_whole(client: lior.QueueManager, two: Two) -> None:
    there(two, bytes(1_000_000))
    with client.open_queue(two.name) as queue:
        assert len(queue.receive(0).body) == 1_000_000


def test_an_exclusive_reader_keeps_the_others_out(client: lior.QueueManager, two: Two) -> None:
    with client.open_queue(two.name, exclusive=True), two.there.connect() as qm, pytest.raises(SharingViolation):
        qm.open_queue(QUEUE)
    with two.there.connect() as qm, qm.open_queue(QUEUE):
        pass


def test_no_part_in_a_transaction(client: lior.QueueManager, two: Two) -> None:
    there(two, b"x")
    with client.open_queue(two.name) as queue, pytest.raises(TransactionUsage), client.transaction() as tx:
        queue.receive(0, transaction=tx)
    assert there(two) == [b"x"]


def test_a_queue_that_is_not_there_is_not_found(client: lior.QueueManager, two: Two) -> None:
    with pytest.raises(QueueNotFound):
        client.open_queue(two.there.queue("missing"))


def test_who_is_a_stranger_there_is_refused(two: Two) -> None:
    with two.here.connect() as qm, pytest.raises(LiorError) as found:  # no password on the Unix socket, so nobody there
        qm.open_queue(two.name)
    assert isinstance(found.value, AccessDenied)


def test_a_client_that_goes_away_leaves_nothing_open_there(client: lior.QueueManager, two: Two) -> None:
    client.open_queue(two.name, exclusive=True)
    client.close()
    while True:
        with two.there.connect() as qm:
            if qm.queue(QUEUE).readers == 0:
                break
