"""A source of ours and a receiver of libpgm, another implementation of RFC 3208."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server.multicast.network import NamespaceServing, machines, missing
from tests.server.srmp.desk import eventually

SOURCE = Path(__file__).parent / "receiver.c"
GROUP = "234.1.1.1:8001"


def why_not() -> str:
    if shutil.which("gcc") is None or not Path("/usr/include/pgm-5.3/pgm/pgm.h").exists():
        return "no gcc with libpgm (Debian: libpgm-dev)"
    return missing()


WHY = why_not()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY or "-"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("libpgm") / "receiver"
    subprocess.run(
        ["gcc", "-O1", "-w", "-I/usr/include/pgm-5.3", "-o", str(program), str(SOURCE), "-lpgm-5.3"], check=True)
    return program


@pytest.mark.spec("SR-015", "SR-016", "SR-017")
def test_libpgm_gets_every_message_whole_once_and_in_order(receiver: Path, tmp_path: Path) -> None:
    # libpgm takes messages of at most 16 packets
    bodies = [b"%03d" % number + bytes(size) for number, size in enumerate([0, 10, 1000, 5000, 20_000] * 4)]
    with machines(3) as hosts, ExitStack() as stack:
        server = stack.enter_context(NamespaceServing(
            hosts[0], tmp_path / "a", admin__port=0, srmp__http_port=0, multicast__rate=1_000_000))
        twin = stack.enter_context(NamespaceServing(hosts[2], tmp_path / "b", admin__port=0, srmp__http_port=0))
        with twin.connect() as there:  # ours, to know what the messages are
            there.create_queue(r".\private$\q", multicast_address=GROUP)
        eventually(lambda: "234.1.1.1" in hosts[2].run("ip", "maddress", "show", "dev", "e0"))
        process = hosts[1].popen(str(receiver), f"{hosts[1].address};234.1.1.1", "8001", str(len(bodies)))
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.stderr.read() if process.stderr else ""
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
