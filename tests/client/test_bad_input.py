"""Whatever comes in wrong ends in one clear error, and no message is lost by it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.embedded import EmbeddedBackend
from lior.errors import (
    IllegalFormatName,
    IllegalPropertyValue,
    IllegalQueuePathname,
    InsufficientResources,
    InvalidHandle,
    LabelTooLong,
    LiorError,
    MessageTooLarge,
    QueueExists,
    QueueNotFound,
    StoreCorrupt,
    StoreForeign,
    StoreInUse,
    StoreUnusable,
    StoreVersion,
    TransactionSequence,
    TransactionUsage,
    UnsupportedFormatNameOperation,
)
from lior.message import Message, MessageSecurity
from lior.server.local import LocalBackend
from lior.testing.faulty_files import preloaded

QUEUE = r".\private$\orders"
LEDGER = r".\private$\ledger"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with two recoverable messages in it."""
    path = tmp_path / "data"
    with lior.open(path) as qm:
        qm.create_queue(QUEUE)
        qm.create_queue(LEDGER, transactional=True)
        qm.send(QUEUE, b"one", recoverable=True)
        qm.send(LEDGER, b"two")
    return path


def bodies(path: Path, queue: str = QUEUE) -> list[bytes]:
    with lior.open(path) as qm, qm.open_queue(queue, "peek") as q:
        return [message.body for message in q]


def explain(error: LiorError) -> None:
    """Every error says what, where, and what to do."""
    assert error.what and error.where and error.remedy, repr(error)


# Properties, names, handles


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"label": "x" * 250}, LabelTooLong),
        ({"label": "\N{GRINNING FACE}" * 125}, LabelTooLong),
        ({"label": 5}, IllegalPropertyValue),
        ({"priority": 8}, IllegalPropertyValue),
        ({"priority": -1}, IllegalPropertyValue),
        ({"priority": 2.5}, IllegalPropertyValue),
        ({"priority": "high"}, IllegalPropertyValue),
        ({"extension": "text"}, IllegalPropertyValue),
        ({"body_type": 1 << 32}, IllegalPropertyValue),
        ({"application_tag": -1}, IllegalPropertyValue),
        ({"application_tag": 1.5}, IllegalPropertyValue),
        ({"correlation_id": b"short"}, IllegalPropertyValue),
        ({"correlation_id": "x" * 20}, IllegalPropertyValue),
        ({"time_to_be_received": -5}, IllegalPropertyValue),
        ({"time_to_reach_queue": None}, IllegalPropertyValue),
        ({"acknowledge": 0x10}, IllegalPropertyValue),
        ({"message_class": 0x1E00}, LiorError),
        ({"admin_queue": 12}, IllegalPropertyValue),
        ({"response_queue": None}, IllegalPropertyValue),
        ({"security": "me"}, IllegalPropertyValue),
        ({"connector_type": "x"}, IllegalPropertyValue),
        ({"dead_letter": "yes"}, IllegalPropertyValue),
        ({"lookup_identifier": 1}, IllegalPropertyValue),
        ({"no_such_thing": 1}, IllegalPropertyValue),
    ],
)
@pytest.mark.parametrize("recoverable", [True, False])
def test_a_bad_message_property_is_refused_and_the_queue_goes_on(
    tmp_path: Path, properties: dict[str, Any], kind: type[LiorError], recoverable: bool
) -> None:
    with lior.open(tmp_path / "data") as qm:
        qm.create_queue(QUEUE)
        with pytest.raises(kind) as caught:
            qm.send(QUEUE, b"bad", recoverable=recoverable, **properties)
        assert caught.value.what and caught.value.where
        qm.send(QUEUE, b"good", recoverable=recoverable)
        assert qm.queue(QUEUE).messages == 1
        assert qm.receive(QUEUE, 0).body == b"good"
        assert qm.properties()["bytes"] == 0


@pytest.mark.parametrize(
    "message",
    [Message(body="text"), Message(label=None), Message(security=MessageSecurity(sender_identifier="x")),  # type: ignore[arg-type]
     Message(b"", extension=b"x" * 20, correlation_id=b"")],
)
def test_a_bad_message_object_is_refused_and_the_queue_goes_on(tmp_path: Path, message: Message) -> None:
    with lior.open(tmp_path / "data") as qm:
        qm.create_queue(QUEUE)
        message.delivery_guarantee = 1
        with pytest.raises(LiorError):
            qm.send(QUEUE, message)
        qm.send(QUEUE, b"good", recoverable=True)
        assert qm.receive(QUEUE, 0).body == b"good"


def test_a_bad_message_does_not_take_the_others_of_its_moment_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with lior.aio.open(tmp_path / "data") as qm:
            await qm.create_queue(QUEUE)
            bad = Message(b"bad", delivery_guarantee=1, security=MessageSecurity(sender_identifier="x"))  # type: ignore[arg-type]
            sends = [qm.send(QUEUE, bad if n == 20 else b"%d" % n, recoverable=True) for n in range(40)]
            answers = await asyncio.gather(*sends, return_exceptions=True)
            refused = [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)]
            assert refused == [20] and isinstance(answers[20], LiorError)
            assert (await qm.queue(QUEUE)).messages == 39

    asyncio.run(main())


def test_a_message_over_four_megabytes_is_refused(tmp_path: Path) -> None:
    with lior.open(tmp_path / "data") as qm:
        qm.create_queue(QUEUE)
        with pytest.raises(MessageTooLarge) as caught:
            qm.send(QUEUE, bytes(4 << 20))
        explain(caught.value)
        qm.send(QUEUE, bytes((4 << 20) - 200), recoverable=True)
        assert len(qm.receive(QUEUE, 0).body) == (4 << 20) - 200


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", LiorError),
        ("orders", IllegalQueuePathname),
        (".\\private$\\", IllegalQueuePathname),
        (".\\private$\\" + "x" * 500, IllegalQueuePathname),
        (".\\private$\\a;b;c;d", LiorError),
        ("DIRECT=", IllegalFormatName),
        ("DIRECT=SPX:1:2\\q", LiorError),
        ("PRIVATE=zzz\\1", IllegalFormatName),
        ("DIRECT=OS:.\\private$\\missing", QueueNotFound),
        (".\\private$\\missing", QueueNotFound),
        (QUEUE + "\0", LiorError),
        ("DIRECT=OS:" + "," * 100_000, LiorError),
    ],
)
def test_a_bad_name_is_refused(tmp_path: Path, name: str, kind: type[LiorError]) -> None:
    with lior.open(tmp_path / "data") as qm:
        for call in (lambda: qm.open_queue(name), lambda: qm.send(name, b""), lambda: qm.receive(name, 0)):
            with pytest.raises(kind) as caught:
                call()
            assert caught.value.what
        with pytest.raises(LiorError):
            qm.queue(name)


def test_queue_properties_that_make_no_sense_are_refused_and_make_no_queue(tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {"label": "x" * 125}, {"quota": -1}, {"quota": 1 << 33}, {"quota": "big"}, {"privacy_level": 3},
        {"multicast_address": "1.2.3.4:5"}, {"multicast_address": "224.0.0.1:8001", "transactional": True},
        {"security": "everyone"}, {"transactional": "yes"}, {"type": "x"}, {"label": 7}, {"nonsense": 1},
        {"max_aborts": -1}, {"description": {1: object()}},
    ]  # fmt: skip
    with lior.open(tmp_path / "data") as qm:
        for properties in bad:
            with pytest.raises(LiorError):
                qm.create_queue(QUEUE, **properties)
            assert not qm.exists(QUEUE), properties
        qm.create_queue(QUEUE)
        for properties in (*bad, {"transactional": True}):
            if "multicast_address" not in properties or "transactional" not in properties:
                with pytest.raises(LiorError):
                    qm.set_queue(QUEUE, **properties)
        with pytest.raises(QueueExists):
            qm.create_queue(QUEUE.upper().replace(".\\PRIVATE$", ".\\private$"))
        qm.send(QUEUE, b"x", recoverable=True)
    assert bodies(tmp_path / "data") == [b"x"]


def test_misused_handles_transactions_and_timeouts_are_refused(tmp_path: Path) -> None:
    with lior.open(tmp_path / "data") as qm:
        qm.create_queue(QUEUE)
        qm.create_queue(LEDGER, transactional=True)
        q = qm.open_queue(QUEUE)
        with pytest.raises(ValueError):
            q.receive(-1)
        with pytest.raises(LiorError):
            q.send(b"opened to receive")
        with pytest.raises(TransactionUsage), qm.transaction() as tx:
            tx.send(QUEUE, b"not transactional")
        with pytest.raises(TransactionUsage), qm.transaction() as tx:
            q.receive(0, transaction=tx)
        ended = qm.transaction().begin()
        identifier = ended.aio.identifier
        ended.commit()
        with pytest.raises(InvalidHandle):
            ended.commit()
        with pytest.raises(TransactionSequence):
            qm._call(qm.aio.backend.commit, identifier)
        with pytest.raises(UnsupportedFormatNameOperation):
            qm.open_queue("DIRECT=OS:.\\private$\\orders,DIRECT=OS:.\\private$\\ledger")
        with pytest.raises(LiorError):
            q.receive_by_lookup_id(1 << 70)
        with pytest.raises(LiorError):
            q.peek_by_lookup_id(-5)
        q.close()
        q.close()
        with pytest.raises(InvalidHandle) as caught:
            q.receive(0)
        explain(caught.value)
        with pytest.raises(ValueError):
            qm.open_queue(QUEUE, "everything")
        assert qm.queue(QUEUE).messages == 0


# Files


def test_a_directory_in_use_names_the_other_process(data: Path) -> None:
    program = f"import lior, sys; qm = lior.open({str(data)!r}); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=child_environment(), text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        with pytest.raises(StoreInUse) as caught:
            lior.open(data)
        explain(caught.value)
        assert f"process {other.pid}" in caught.value.what
    finally:
        other.communicate("")
    assert bodies(data) == [b"one"]


def test_the_same_directory_twice_in_one_process_is_refused(data: Path) -> None:
    with lior.open(data) as qm:
        with pytest.raises(StoreInUse):
            lior.open(data)
        assert qm.receive(QUEUE, 0).body == b"one"


def child_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_a_truncated_database_is_refused_at_every_length_and_left_as_it_is(data: Path, tmp_path: Path) -> None:
    whole = (data / "store.db").read_bytes()
    target = tmp_path / "cut"
    for length in [1, 15, 16, 99, 100, 512, 4095, 4096, 4097, len(whole) // 2, len(whole) - 4096, len(whole) - 1]:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        (target / "store.db").write_bytes(whole[:length])
        with pytest.raises((StoreCorrupt, StoreForeign, StoreUnusable)) as caught:
            lior.open(target)
        explain(caught.value)
        assert (target / "store.db").read_bytes() == whole[:length]


@pytest.mark.parametrize("content", [b"hello, this is not a database\n" * 20, b"\x7fELF" + bytes(500)])
def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "store.db").write_bytes(content)
    with pytest.raises(StoreForeign) as caught:
        lior.open(directory)
    explain(caught.value)
    assert (directory / "store.db").read_bytes() == content


def test_the_database_of_another_application_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    with sqlite3.connect(directory / "store.db") as connection:
        connection.execute("CREATE TABLE customers (name)")
    connection.close()
    before = (directory / "store.db").read_bytes()
    with pytest.raises(StoreForeign):
        lior.open(directory)
    assert (directory / "store.db").read_bytes() == before


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(data: Path) -> None:
    with sqlite3.connect(data / "store.db") as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    before = (data / "store.db").read_bytes()
    with pytest.raises(StoreVersion) as caught:
        lior.open(data)
    explain(caught.value)
    assert (data / "store.db").read_bytes() == before


def test_a_damaged_message_is_named_and_the_others_can_still_be_read(data: Path) -> None:
    with lior.open(data) as qm:
        qm.send(QUEUE, b"first", recoverable=True, priority=7)
        for number in range(3):
            qm.send(QUEUE, b"later %d" % number, recoverable=True)
    with sqlite3.connect(data / "store.db") as connection:
        connection.execute("UPDATE m SET body=x'00' WHERE body=x'6F6E65'")
    connection.close()
    with lior.open(data) as qm, qm.open_queue(QUEUE) as q:
        assert q.receive(0).body == b"first"
        with pytest.raises(StoreCorrupt) as caught:
            q.receive(0)
        explain(caught.value)
        ids = [q.peek_by_lookup_id(0, "last").lookup_identifier]
        ids.append(q.peek_by_lookup_id(ids[0], "previous").lookup_identifier)
        assert [q.receive_by_lookup_id(i).body for i in ids] == [b"later 2", b"later 1"]
        assert qm.queue(QUEUE).messages == 2


@pytest.mark.parametrize("what", ["file", "missing-parent"])
def test_a_data_directory_that_cannot_be_one_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(StoreUnusable) as caught:
        lior.open(tmp_path / "file" / ("" if what == "file" else "below"))
    explain(caught.value)


READ_ONLY = """
    import os, sys
    import lior
    from lior.errors import StoreUnusable
    lior.open(":memory:").close()  # nobody may not be able to import what is needed
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    try:
        lior.open(sys.argv[1])
    except StoreUnusable as error:
        assert error.what and error.where and error.remedy, repr(error)
        print("refused")
"""


@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_directory_is_refused_and_left_as_it_is(existing: bool) -> None:
    """As somebody who may not write there; root may write anywhere."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        directory = Path(place, "data")
        if existing:
            with lior.open(directory) as qm:
                qm.create_queue(QUEUE)
                qm.send(QUEUE, b"one", recoverable=True)
            for file in directory.iterdir():
                file.chmod(0o444)
        else:
            directory.mkdir()
        before = {path.name: path.read_bytes() for path in directory.iterdir()}
        directory.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(READ_ONLY), str(directory)],
                              env=child_environment(), capture_output=True, text=True)
        assert done.stdout == "refused\n", done.stderr
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
        directory.chmod(0o755)


# A disk that is full or breaks


@pytest.mark.spec("DM-144")
def test_a_nearly_full_disk_throttles_sends_and_still_lets_messages_out(data: Path) -> None:
    with lior.open(data, low_disk_bytes=1 << 60) as qm:
        for queue in (QUEUE, LEDGER):
            with pytest.raises(InsufficientResources) as caught:
                qm.send(queue, b"more", recoverable=True)
            explain(caught.value)
        assert qm.properties()["throttled"]
        assert qm.receive(QUEUE, 0).body == b"one"
        with qm.transaction() as tx:
            assert tx.receive(LEDGER, 0).body == b"two"
        engine = backend_of(qm).engine
        engine.disk.low_bytes = 1  # room again
        qm._call(_soon, engine.disk.check)
        assert not qm.properties()["throttled"]
        qm.send(QUEUE, b"more", recoverable=True)
    assert bodies(data) == [b"more"]


def backend_of(qm: lior.QueueManager) -> EmbeddedBackend:
    backend = qm.aio.backend
    assert isinstance(backend, LocalBackend)
    return backend


async def _soon(function: Any) -> None:
    function()


FULL = """
    import resource, signal, sys
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    import lior
    from lior.errors import MessageStorageFailed, LiorError
    queue = r".\\private$\\orders"
    with lior.open(sys.argv[1]) as qm:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        sent = []
        for number in range(40):
            try:
                qm.send(queue, b"%d" % number + bytes(20_000), recoverable=True)
            except LiorError as error:
                print(type(error).__name__, bool(error.what and error.where and error.remedy))
                break
            sent.append(number)
        print(len(sent))
"""


@pytest.mark.spec("MQ-208")
def test_a_file_that_may_not_grow_any_more_refuses_the_message_and_keeps_the_others(data: Path) -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(FULL), str(data)], env=child_environment(),
                          capture_output=True, text=True)
    refusal, sent = done.stdout.splitlines()
    assert refusal in ("MessageStorageFailed True", "StoreUnusable True"), done.stderr
    found = bodies(data)
    assert len(found) == int(sent) + 1 < 40


BREAKS = """
    import asyncio, ctypes, json, os, sys
    import lior.aio
    from lior.errors import LiorError
    from lior.testing.faulty_files import FaultyFiles
    queue = r".\\private$\\orders"
    async def main():
        FaultyFiles(sys.argv[1]).start_here()  # so that the library knows the files
        qm = await lior.aio.open(sys.argv[1])
        q = await qm.open_queue(queue)
        report = {"sent": [], "errors": [], "later": []}
        files = FaultyFiles(sys.argv[1], fail_at=int(sys.argv[2]), fail_count=1, errno=int(sys.argv[3]))
        files.start_here()
        async def send(n):
            for number in range(20):
                try:
                    await qm.send(queue, b"%d %d" % (n, number), recoverable=True)
                    report["sent"].append("%d %d" % (n, number))
                except LiorError as error:
                    report["errors"].append([type(error).__name__, bool(error.what and error.where and error.remedy)])
                    return
        await asyncio.gather(*(send(n) for n in range(10)))
        for call in (lambda: qm.send(queue, b"late", recoverable=True), lambda: q.receive(0), lambda: q.peek(0),
                     lambda: qm.create_queue(r".\\private$\\new"), lambda: qm.purge_queue(queue)):
            try:
                await call()
                report["later"].append("worked")
            except LiorError as error:
                report["later"].append([type(error).__name__, bool(error.what and error.remedy)])
        await qm.close()
        print(json.dumps(report))
    asyncio.run(main())
"""


@pytest.mark.spec("DM-144")
@pytest.mark.parametrize("at", [9, 22, 35])
def test_a_store_that_breaks_tells_everybody_once_and_loses_nothing(data: Path, at: int) -> None:
    """All that wait get the error, what comes later is refused with a remedy, and the next start finds every
    acknowledged message."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(BREAKS), str(data), str(at), str(errno.EIO)],
                          env=preloaded(child_environment()), capture_output=True, text=True, timeout=240)
    report = json.loads(done.stdout)
    assert len(report["errors"]) == 10, done.stderr  # every sender, each once
    assert {kind for kind, _ in report["errors"]} <= {"StoreUnusable", "ServiceNotAvailable"}
    assert all(explained for _, explained in report["errors"])
    assert report["later"] == [["ServiceNotAvailable", True]] * 5
    with lior.open(data) as qm, qm.open_queue(QUEUE) as q:
        found = [message.body.decode() for message in q]
        assert set(report["sent"]) | {"one"} <= set(found) and len(found) == len(set(found))
        qm.send(QUEUE, b"again", recoverable=True)
