"""Multicast between machines: real servers, raw sockets and lost packets in network namespaces ([MC-MQSRM] 2.1.2)."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import lior
from lior.testing.serving import Serving
from tests.server.multicast.network import Machine, NamespaceServing, machines, missing
from tests.server.srmp.desk import eventually

GROUP = "234.1.1.1:8001"
OTHER = "234.1.1.1:8002"
PATH = r".\private$\news"
WHY = missing()

pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY or "-"), pytest.mark.timeout(600)]


@pytest.fixture
def hosts() -> Iterator[Sequence[Machine]]:
    with machines(3) as found:
        yield found


def serving(stack: ExitStack, hosts: Sequence[Machine], directory: Path, **settings: object) -> list[Serving]:
    found: list[Serving] = []
    for number, machine in enumerate(hosts[:3]):
        server = NamespaceServing(machine, directory / str(number), admin__port=0, srmp__http_port=0, **settings)
        found.append(stack.enter_context(server))
        if number:
            with server.connect() as qm:
                qm.create_queue(PATH, multicast_address=GROUP)
    return found


def bodies(server: Serving, path: str = PATH) -> list[bytes]:
    with server.connect() as qm, qm.open_queue(path, "peek") as queue:
        return [message.body for message in queue]


def arrived(server: Serving, count: int, seconds: float = 60, path: str = PATH) -> list[bytes]:
    with server.connect() as qm:
        eventually(lambda: qm.queue(path).messages >= count, seconds)
    return bodies(server, path)


def joined(server: Serving) -> None:
    assert isinstance(server, NamespaceServing)
    eventually(lambda: "234.1.1.1" in server.machine.run("ip", "maddress", "show", "dev", "e0"))


@pytest.mark.spec("SR-013", "SR-015", "SR-016", "SR-017", "SR-018", "SR-019", "SR-027", "SR-049", "SR-014", "SR-029",
                  "SR-096", "SR-207", "SR-217")  # fmt: skip
def test_two_receivers_of_whom_one_loses_every_third_packet_get_everything(
    hosts: Sequence[Machine], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        source, one, other = serving(stack, hosts, tmp_path, multicast__rate=1_000_000)
        for server in (one, other):
            joined(server)
        hosts[2].lose()
        capture = tmp_path / "packets"
        sniffer = sniff(hosts[3], capture)
        sent = [b"%03d" % number + bytes(20_000) for number in range(30)] + [b"small", "ardenwhite".encode("utf-16-le")]
        with source.connect() as qm:
            for body in sent:
                qm.send(f"MULTICAST={GROUP}", body, body_type=8, label="news")
            eventually(lambda: not sum(info.messages for info in qm.queues() if info.kind == "outgoing"))
        assert arrived(one, len(sent)) == sent
        assert arrived(other, len(sent)) == sent
        if sniffer is not None:
            sniffer.send_signal(signal.SIGINT)
            sniffer.wait(60)
            check_capture(capture, hosts)


def sniff(bridge: Machine, file: Path) -> subprocess.Popen[str] | None:
    if shutil.which("tshark") is None:
        return None
    process = bridge.popen("tshark", "-q", "-i", "bridge0", "-f", "ip proto 113", "-w", str(file))
    eventually(lambda: file.exists() and file.stat().st_size > 0)
    return process


def check_capture(file: Path, hosts: Sequence[Machine]) -> None:
    """tshark's reading of the packets: every checksum is right, NAKs go to the source, and are few."""
    done = subprocess.run(
        ["tshark", "-r", str(file), "-o", "pgm.check_checksum:TRUE", "-T", "fields", "-E", "separator=;",
         "-E", "occurrence=l",
         *(part for name in ("pgm.hdr.type", "pgm.hdr.cksum.status", "ip.src", "ip.dst", "ip.ttl", "pgm.hdr.dport",
                             "pgm.hdr.sport") for part in ("-e", name))],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    rows = [line.split(";") for line in done.stdout.splitlines()]
    kinds = {int(row[0], 0) for row in rows}
    assert kinds >= {0, 4, 5, 8, 10}, kinds
    assert {row[1] for row in rows} <= {"1", "Good"}, {row[1] for row in rows}
    source, loser = hosts[0].address, hosts[2].address
    for kind, _, src, dst, ttl, dport, sport in rows:
        if int(kind, 0) == 8:
            assert src == loser
            assert dst == source or (dst == "234.1.1.1" and ttl == "1")
            assert sport == "8001"
        else:
            assert (src, dst, ttl, dport) == (source, "234.1.1.1", "16", "8001")


@pytest.mark.spec("SR-014", "SR-144", "SR-172", "SR-050")
def test_each_queue_of_a_group_gets_its_copy_and_no_other_queue(hosts: Sequence[Machine], tmp_path: Path) -> None:
    with ExitStack() as stack:
        source, one, _ = serving(stack, hosts, tmp_path, multicast__rate=1_000_000)
        with one.connect() as qm:
            qm.create_queue(r".\private$\second", multicast_address=GROUP)
            qm.create_queue(r".\private$\third", multicast_address=OTHER)
        joined(one)
        with source.connect() as qm:
            qm.send(f"MULTICAST={GROUP}", b"first group")
            arrived(one, 1)
            arrived(one, 1, path=r".\private$\second")
            assert bodies(one, r".\private$\third") == []
            qm.send(f"MULTICAST={OTHER}", b"second group")
            assert arrived(one, 1, path=r".\private$\third") == [b"second group"]
            for name in (PATH, r".\private$\second"):
                assert bodies(one, name) == [b"first group"]
            with pytest.raises(lior.LiorError), one.connect() as there:
                there.create_queue(r".\private$\tx", transactional=True, multicast_address=GROUP)


@pytest.mark.spec("SR-029", "SR-028", "SR-003", "SR-219", "SR-220")
def test_what_cannot_be_sent_to_a_group_is_refused(hosts: Sequence[Machine], tmp_path: Path) -> None:
    with ExitStack() as stack:
        source, one, _ = serving(stack, hosts, tmp_path, multicast__rate=1_000_000)
        joined(one)
        with source.connect() as qm:
            with pytest.raises(lior.LiorError):
                qm.send(f"MULTICAST={GROUP}", bytes(65537))
            with pytest.raises(lior.LiorError):
                qm.send(f"MULTICAST={GROUP}", b"x", transactional=True)
            qm.send(f"MULTICAST={GROUP}", b"too long" + bytes(65500))  # with its envelope
            with qm.open_queue(r".\system$;DEADLETTER", "peek") as dead:
                eventually(lambda: [message for message in dead if message.body.startswith(b"too long")])
            qm.send(f"MULTICAST={GROUP}", bytes(60_000), express=True)
            assert arrived(one, 1) == [bytes(60_000)]
            with pytest.raises(lior.LiorError) as refused:
                qm.open_queue(f"MULTICAST={GROUP}", "receive")
            assert "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION" in str(refused.value)
            qm.set_properties(srmp_pgm_support=False)
            with pytest.raises(lior.LiorError):
                qm.send(f"MULTICAST={GROUP}", b"x")
        with one.connect() as qm:
            qm.set_properties(srmp_pgm_support=False)
            eventually(lambda: "234.1.1.1" not in hosts[1].run("ip", "maddress", "show", "dev", "e0"))


@pytest.mark.spec("SR-029", "SR-024", "SR-021")
def test_a_receiver_that_was_cut_off_for_long_goes_on_with_what_comes(
    hosts: Sequence[Machine], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        source, one, other = serving(stack, hosts, tmp_path, multicast__rate=1_000_000, multicast__window=2)
        for server in (one, other):
            joined(server)
        with source.connect() as qm:
            qm.send(f"MULTICAST={GROUP}", b"first")
            arrived(other, 1)
            hosts[2].lose("")
            for number in range(5):
                qm.send(f"MULTICAST={GROUP}", b"missed %d" % number)
            arrived(one, 6)
            start = time.monotonic()
            while time.monotonic() - start < 4:  # longer than the window
                qm.send(f"MULTICAST={GROUP}", b"meanwhile", express=True)
                time.sleep(0.5)
            hosts[2].heal()
            qm.send(f"MULTICAST={GROUP}", b"last")
        eventually(lambda: bodies(other)[-1:] == [b"last"], 60)
        assert bodies(other)[0] == b"first"
        assert b"missed 0" not in bodies(other)
        eventually(lambda: "multicast packets were lost for good" in other.log)


@pytest.mark.spec("SR-014", "SR-098")
def test_both_sides_may_be_killed_and_new_messages_come(hosts: Sequence[Machine], tmp_path: Path) -> None:
    with ExitStack() as stack:
        source, one, _ = serving(stack, hosts, tmp_path, multicast__rate=1_000_000)
        joined(one)
        for number, server in enumerate((None, source, one, source)):
            if server is not None:
                server.restart(kill=True)
                joined(one)
            with source.connect() as qm:
                qm.send(f"MULTICAST={GROUP}", b"%d" % number)
            arrived(one, number + 1)
        assert bodies(one) == [b"0", b"1", b"2", b"3"]


@pytest.mark.spec("SR-013", "SR-143")
def test_rubbish_between_good_messages_changes_nothing(hosts: Sequence[Machine], tmp_path: Path) -> None:
    """Raw packets of another source: the request line may be anything, the rest may not."""
    from lior.wire.pgm import Data, Packet, PacketType, encode
    from tests.server.srmp.desk import Built

    kind, data = Built(f"MSMQ:MULTICAST={GROUP}", body=b"by hand").entity()
    wrong, wrong_data = Built("MSMQ:MULTICAST=234.1.1.1:9999", body=b"another group").entity()
    head = f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    apdus = [b"rubbish", b"POST x\r\n\r\n<x/>", b"\0\xff CORRUPT line\r\n" + head + data,
             f"POST x HTTP/1.1\r\nContent-Type: {wrong}\r\n\r\n".encode() + wrong_data]  # fmt: skip
    octets = [encode(Packet(b"others", 7777, 8001, PacketType.ODATA, Data(number, 1, apdu)))
              for number, apdu in enumerate(apdus, 1)]  # fmt: skip
    bad = bytearray(octets[2])
    bad[-1] ^= 1
    program = ("import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_RAW,113)\n"
               f"for o in {[bytes(bad), *octets, b'', b'x' * 15]!r}: s.sendto(o,('234.1.1.1',0))")  # fmt: skip
    with ExitStack() as stack:
        source, one, _ = serving(stack, hosts, tmp_path, multicast__rate=1_000_000)
        joined(one)
        with source.connect() as qm:
            qm.send(f"MULTICAST={GROUP}", b"before")
            arrived(one, 1)
            hosts[0].run("python3", "-c", program)
            arrived(one, 2)
            qm.send(f"MULTICAST={GROUP}", b"after")
        assert arrived(one, 3) == [b"before", b"by hand", b"after"]


def test_the_missing_capability_is_told_with_its_remedy(hosts: Sequence[Machine], tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("there is no program setpriv")

    class Unprivileged(NamespaceServing):
        def command(self) -> list[str]:
            prefix = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
            command = super().command()
            return command[:4] + prefix + command[4:]

    server = Unprivileged(hosts[0], tmp_path / "data", admin__port=0, srmp__http_port=0)
    with server, server.connect() as qm:
        qm.send(f"MULTICAST={GROUP}", b"x")
        eventually(lambda: "CAP_NET_RAW" in server.log)
        assert re.search("AmbientCapabilities=CAP_NET_RAW", server.log)
        assert sum(info.messages for info in qm.queues() if info.kind == "outgoing") == 1
