"""A source or a receiver of ours and one of libpgm, another implementation of RFC 3208, with and without loss."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server.multicast.network import NamespaceServing, machines, missing
from tests.server.srmp.desk import Built, eventually

HERE = Path(__file__).parent
GROUP = "234.1.1.1:8001"


def why_not() -> str:
    if shutil.which("gcc") is None or not Path("/usr/include/pgm-5.3/pgm/pgm.h").exists():
        return "no gcc with libpgm (Debian: libpgm-dev)"
    return missing()


WHY = why_not()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY or "-"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("libpgm")
    for name in ("receiver", "sender"):
        subprocess.run(["gcc", "-O1", "-w", "-I/usr/include/pgm-5.3", "-o", str(directory / name),
                        str(HERE / f"{name}.c"), "-lpgm-5.3"], check=True)  # fmt: skip
    return directory


@pytest.mark.spec("SR-015", "SR-016", "SR-017")
@pytest.mark.parametrize("lossy", [False, True], ids=["no loss", "1 of 3 lost"])
def test_libpgm_gets_every_message_whole_once_and_in_order(programs: Path, tmp_path: Path, lossy: bool) -> None:
    # libpgm takes messages of at most 16 packets
    bodies = [b"%03d" % number + bytes(size) for number, size in enumerate([0, 10, 1000, 5000, 20_000] * 2)]
    with machines(3) as hosts, ExitStack() as stack:
        server = stack.enter_context(NamespaceServing(
            hosts[0], tmp_path / "a", admin__port=0, srmp__http_port=0, multicast__rate=1_000_000))
        twin = stack.enter_context(NamespaceServing(hosts[2], tmp_path / "b", admin__port=0, srmp__http_port=0))
        with twin.connect() as there:  # ours, to know what the messages are
            there.create_queue(r".\private$\q", multicast_address=GROUP)
        eventually(lambda: "234.1.1.1" in hosts[2].run("ip", "maddress", "show", "dev", "e0"))
        process = hosts[1].popen(str(programs / "receiver"), f"{hosts[1].address};234.1.1.1", "8001", str(len(bodies)))
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.stderr.read() if process.stderr else ""
        if lossy:  # what the source sends, and what libpgm asks it for
            hosts[0].lose()
            hosts[1].lose()
        with server.connect() as qm:
            for body in bodies:
                qm.send(f"MULTICAST={GROUP}", body)
        try:
            found = [process.stdout.readline().split() for _ in bodies]
        finally:
            process.kill()
            process.wait()
        with twin.connect() as there:
            eventually(lambda: there.queue(r".\private$\q").messages == len(bodies))
    sizes = [int(each[0]) for each in found]
    assert len(found) == len(set(map(tuple, found))) == len(bodies)
    for size, body in zip(sizes, bodies, strict=True):
        assert 1200 < size - len(body) < 1500


@pytest.mark.spec("SR-015", "SR-016", "SR-017", "SR-019", "SR-022", "SR-023")
@pytest.mark.parametrize("lossy", [False, True], ids=["no loss", "1 of 3 lost"])
def test_every_message_of_libpgm_arrives_once_and_in_order(programs: Path, tmp_path: Path, lossy: bool) -> None:
    bodies = [b"%03d" % number for number in range(30)]
    with machines(2) as hosts, ExitStack() as stack:
        server = stack.enter_context(NamespaceServing(hosts[0], tmp_path / "a", admin__port=0, srmp__http_port=0))
        with server.connect() as here:
            here.create_queue(r".\private$\q", multicast_address=GROUP)
        eventually(lambda: "234.1.1.1" in hosts[0].run("ip", "maddress", "show", "dev", "e0"))
        if lossy:
            hosts[0].lose()
            hosts[1].lose()
        process = hosts[1].popen(str(programs / "sender"), f"{hosts[1].address};234.1.1.1", "8001",
                                 stdin=frames([apdu(body) for body in bodies], tmp_path / "frames"))  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == "sent\n", process.stderr.read() if process.stderr else ""
            with server.connect() as here:
                eventually(lambda: here.queue(r".\private$\q").messages >= len(bodies), 120)
                with here.open_queue(r".\private$\q") as queue:
                    assert [queue.receive(timeout=5).body for _ in bodies] == bodies
                assert here.queue(r".\private$\q").messages == 0
        finally:
            process.kill()
            process.wait()


def apdu(body: bytes) -> bytes:
    kind, entity = Built(f"MSMQ:MULTICAST={GROUP}", body=body).entity()
    head = f"POST {GROUP} HTTP/1.1\r\nHost: {GROUP}\r\nContent-Type: {kind}\r\nContent-Length: {len(entity)}\r\n\r\n"
    octets = head.encode() + entity
    assert len(octets) <= 1400  # one packet
    return octets


def frames(apdus: list[bytes], file: Path) -> int:
    """For the standard input of the sender; the last one is marked."""
    with file.open("wb") as out:
        for number, octets in enumerate(apdus, 1):
            out.write(len(octets).to_bytes(3, "little") + bytes([number == len(apdus)]) + octets)
    return os.open(file, os.O_RDONLY)
