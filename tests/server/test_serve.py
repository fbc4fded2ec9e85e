"""`lior serve` as a real process: starting, being stopped, killed and started again, and what it says."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lior.errors import InvalidHandle, LiorError, ServiceNotAvailable, Timeout, TransactionSequence
from lior.testing.serving import NotServing, Serving, loopback_address
from tests.server.serving import QUEUE, STREAM, get, lines


def eventually(true: Callable[[], object], what: str) -> None:
    """Wait for a real condition of another process."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, what
        threading.Event().wait(0.01)


def test_says_ready_with_its_addresses_when_it_accepts_work(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        assert server.ready["admin"] == f"http://{server.bind}:15801"
        assert server.binary == (server.bind, 1801)
        assert server.ready["pid"] == server.pid
        socket.create_connection(server.binary).close()
        assert get(f"{server.admin_url}/healthz") == (200, {
            "state": "ready", "uptime": pytest.approx(0, abs=60), "serving": True, "degraded": None,
        })  # fmt: skip


def test_ready_is_one_line_of_words(tmp_path: Path) -> None:
    server = Serving(tmp_path / "data")
    command = [part for part in server.command() if part != "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=os.environ | {"PYTHONPATH": "src"}) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        assert process.stdout.read() == ""
    start = f"ready pid={process.pid} socket={tmp_path}/data/admin.sock admin=http://{server.bind}:15801 "
    assert line.startswith(start)
    assert process.returncode == 0


def test_listens_on_the_addresses_it_was_given_and_on_no_other(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"ping.port": 3527}) as server:
        opened = [os.readlink(entry) for entry in Path(f"/proc/{server.pid}/fd").iterdir()]
        inodes = {name[8:-1] for name in opened if name.startswith("socket:[")}
        assert len(inodes) >= 4
        own = bytes(reversed(socket.inet_aton(server.bind))).hex().upper()
        for protocol in ("tcp", "udp", "tcp6", "udp6"):
            for row in Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]:
                if row.split()[9] in inodes:
                    assert row.split()[1].partition(":")[0] == own, row


PORTS = ("admin.port", "binary.port", "ping.port", "srmp.http_port", "rpc.port", "rpc.qm_port", "rpc.mapper_port")


def test_ports_that_are_0_are_off(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings=dict.fromkeys(PORTS, 0)) as server:
        assert set(server.ready) == {"event", "pid", "socket"}
        for port in (80, 1801, 15801):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((server.bind, port))
        with server.connect() as qm:
            assert qm.properties()["state"] == "ready"


def test_what_is_sent_outlives_a_clean_stop_and_a_kill(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        for number, stop in enumerate((server.terminate, server.kill)):
            with server.connect() as qm:
                if not number:
                    qm.create_queue(QUEUE)
                qm.send(QUEUE, f"{number}")
            assert stop() == (-signal.SIGKILL if number else 0)
            server.start()
        with server.connect() as qm, qm.open_queue(QUEUE) as q:
            assert [m.value() for m in q] == ["0", "1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stops_cleanly_on_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        os.kill(server.pid, number)
        assert server.wait() == 0
        assert lines(server.log, event="stopped")
        assert not (tmp_path / "data" / "admin.sock").exists()
        assert not (tmp_path / "data" / "store.db-wal").exists()


def test_a_stop_during_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Nor does it wait for ever: what comes after the signal is refused."""
    check_load(tmp_path, Serving.terminate)


def test_a_kill_during_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    check_load(tmp_path, Serving.kill)


def check_load(tmp_path: Path, stop: Callable[[Serving], int]) -> None:
    sent: list[str] = []
    unknown: list[str] = []
    with Serving(tmp_path / "data") as server:
        with server.connect() as qm:
            qm.create_queue(QUEUE)

        def load(sender: int) -> None:
            with server.connect() as qm:
                for number in range(100_000):
                    text = f"{sender}/{number}"
                    try:
                        qm.send(QUEUE, text)
                    except LiorError:
                        unknown.append(text)
                        return
                    sent.append(text)

        threads = [threading.Thread(target=load, args=(sender,)) for sender in range(4)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(sent) > 200, "nothing is sent")
        stop(server)
        for thread in threads:
            thread.join()
        server.start()
        with server.connect() as qm, qm.open_queue(QUEUE) as q:
            there = [message.value() for message in q]
    assert len(there) == len(set(there))
    assert set(sent) <= set(there) <= {*sent, *unknown}


def test_a_read_that_waits_ends_when_the_server_stops(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server, server.connect() as qm:
        qm.create_queue(QUEUE)
        failures: list[LiorError] = []

        def wait() -> None:
            try:
                qm.receive(QUEUE)
            except LiorError as error:
                failures.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: qm.properties()["waiting_reads"], "it does not wait")
        assert server.terminate() == 0
        thread.join()
        assert [type(error) for error in failures] == [ServiceNotAvailable]
        assert "stopping" in failures[0].what


def test_a_second_server_on_the_same_data_names_the_first(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        with pytest.raises(NotServing) as error, Serving(tmp_path / "data"):
            pass
        assert "LIOR_ERROR_STORE_IN_USE" in str(error.value)
        assert f"process {server.pid}" in str(error.value)
        with server.connect() as qm:
            assert qm.properties()["state"] == "ready"


@pytest.mark.parametrize(("port", "setting"), [(1801, "binary.port"), (15801, "admin.port")])
def test_a_port_in_use_is_an_error_that_names_the_setting(port: int, setting: str, tmp_path: Path) -> None:
    address = loopback_address()
    with socket.create_server((address, port)), pytest.raises(NotServing) as error, Serving(tmp_path / "data", address):
        pass
    assert f"{address}:{port}" in str(error.value)
    assert f"--set {setting}=PORT" in str(error.value)
    with Serving(tmp_path / "data", address):
        pass  # nothing of the failed start is left


def test_an_address_of_nobody_here_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotServing, match="this computer has no such address"), Serving(tmp_path / "data", "192.0.2.1"):
        pass


class Unprivileged(Serving):
    """Started without the right to listen on low ports, whoever starts it."""

    def command(self) -> list[str]:
        drop = "ctypes.CDLL(None).prctl(24, 10, 0, 0, 0)"  # PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE
        return [sys.executable, "-c", f"import ctypes, os, sys; {drop}; os.execv(sys.argv[1], sys.argv[1:])",
                *super().command()]  # fmt: skip


def test_a_port_without_the_privilege_for_it_is_a_warning_with_a_remedy(tmp_path: Path) -> None:
    settings = {"binary.port": 81, "srmp.http_port": 0, "rpc.mapper_port": 0}
    with Unprivileged(tmp_path / "data", settings=settings) as server:
        assert "binary" not in server.ready
        eventually(lambda: lines(server.log, level="warning"), "no warning")
        [line] = lines(server.log, level="warning")
        assert "--set binary.port=PORT" in line
        assert "CAP_NET_BIND_SERVICE" in line
        with server.connect() as qm:
            assert qm.properties()["state"] == "ready"


def test_connections_come_back_after_a_restart_and_old_handles_say_so(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server, server.connect() as qm:
        qm.create_queue(QUEUE)
        qm.create_queue(STREAM, transactional=True)
        qm.send(QUEUE, "before")
        q = qm.open_queue(QUEUE)
        tx = qm.transaction().begin()
        tx.send(STREAM, "never committed")
        server.restart(kill=True)
        with pytest.raises(TransactionSequence):
            tx.commit()
        with pytest.raises(InvalidHandle):
            q.receive(0)
        q.close()
        qm.send(QUEUE, "after")
        with qm.open_queue(QUEUE) as q:
            assert [m.value() for m in q] == ["before", "after"]
        with pytest.raises(Timeout):
            qm.receive(STREAM, 0)


# Notifications


def notify_socket(tmp_path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(str(tmp_path / "notify"))
    listening.settimeout(60)
    return listening


def test_tells_systemd_when_it_is_ready_lives_and_stops(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with notify_socket(tmp_path) as heard, Serving(tmp_path / "data", environment=environment) as server:
        said = heard.recv(4096).decode().splitlines()
        while "READY=1" not in said:
            assert said == ["WATCHDOG=1"]
            said = heard.recv(4096).decode().splitlines()
        assert f"MAINPID={server.pid}" in said
        assert heard.recv(4096) == b"WATCHDOG=1"
        assert heard.recv(4096) == b"WATCHDOG=1"
        server.terminate()
        heard.setblocking(False)
        last = b""
        while not last.startswith(b"STOPPING=1"):
            last = heard.recv(4096)


def test_nobody_at_the_notify_socket_hinders_nothing(tmp_path: Path) -> None:
    nobody = {"NOTIFY_SOCKET": "@nobody-is-there"}
    with Serving(tmp_path / "data", environment=nobody) as server, server.connect() as qm:
        assert qm.properties()["state"] == "ready"


# The log


def test_each_line_of_the_log_is_json_on_request(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"log.format": "json", "log.level": "debug"}) as server:
        with server.connect() as qm:
            qm.create_queue(QUEUE)
            sent = qm.send(QUEUE, "x")
            qm.receive(QUEUE)
        server.terminate()
        said = [json.loads(line) for line in server.log.splitlines()]
    assert {"ready", "queue created", "stopping", "stopped"} <= {line["event"] for line in said}
    assert {line["event"] for line in said if line.get("message") == str(sent)} == {"message available", "message gone"}
    assert all(line["level"] and line["part"] and line["time"] for line in said)


def test_the_journal_gets_priorities_instead_of_times(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", environment={"JOURNAL_STREAM": "1:2"}) as server:
        server.terminate()
        assert all(line.startswith("<6>level=info ") for line in server.log.splitlines())


def test_says_nothing_below_the_level_that_is_asked_for(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"log.level": "warning"}) as server:
        server.terminate()
        assert server.log == ""


def test_warns_before_a_quota_is_full_and_once_for_each_level(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"log.fill_interval": 0.02}) as server, server.connect() as qm:
        qm.create_queue(QUEUE, quota=10)
        for count, level in ((8, 80), (1, 95)):
            for _ in range(count):
                qm.send(QUEUE, b"x" * 1000)
            eventually(lambda: lines(server.log, reached=str(level)), server.log)  # noqa: B023  # used at once
        qm.purge_queue(QUEUE)
        eventually(lambda: lines(server.log, event='"has room again"'), server.log)
        warnings = lines(server.log, level="warning", what="queue")
        assert [line.partition("reached=")[2] for line in warnings] == ["80", "95"]
        assert all("used_bytes=" in line and "limit_bytes=10240" in line for line in warnings)


def test_a_server_with_a_wrong_setting_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(NotServing, match="did you mean level"), Serving(tmp_path / "data", settings={"log.leven": "x"}):
        pass
    assert not (tmp_path / "data").exists()
