"""Processes around Spark that tests start and kill: a standalone cluster, drivers, executors. A kill is by pidfd, so
that it cannot hit another process, and counts when the process is seen to have ended."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lior
from lior.testing.serving import Serving, loopback_address

SOURCE = Path(lior.__file__).resolve().parent.parent
ROOT = Path(__file__).resolve().parents[2]
MARK = "LIOR_TEST_CLUSTER"  # in the environment of what belongs to one cluster
SECONDS = 120.0  # for a process to start or to end
# Spark gives each of its Python processes ten seconds to begin, and no setting changes that: on a machine with much
# else to do a query ends so without any doing of ours.
TOO_SLOW = "Timed out while waiting for the Python worker to connect back"


def environment(**more: str) -> dict[str, str]:
    """For Spark's processes and those that they start: this tree, and this interpreter."""
    places = [str(SOURCE), str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(places)), "PYSPARK_PYTHON": sys.executable,
                         "SPARK_LOCAL_IP": "127.0.0.1"} | more  # fmt: skip


def kill(pid: int) -> bool:
    """With signal 9; whether it was there to be killed, and then died."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            assert ended(descriptor), f"{pid} outlived signal 9"
            return True
        return False
    finally:
        os.close(descriptor)


def ended(descriptor: int, seconds: float = SECONDS) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def until(what: str, true: Any, seconds: float = SECONDS) -> Any:
    """The first true answer."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"after {seconds:.0f} s: {what}"
        select.select([], [], [], 0.05)
    return found


def processes() -> Iterator[tuple[int, bytes, Path]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes(), entry


def family(pid: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for child, _, entry in processes():
        with suppress(OSError, IndexError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(child)
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def executors(folder: Path) -> list[int]:
    """JVMs of the cluster's own: what its workers start has their environment."""
    found = []
    for pid, command, entry in processes():
        if b"CoarseGrainedExecutorBackend" in command:
            with suppress(OSError):
                if os.fsencode(f"{MARK}={folder}\0") in (entry / "environ").read_bytes() + b"\0":
                    found.append(pid)
    return found


def bulk_process(server: Serving) -> int | None:
    parent = f"PPid:\t{server.ready['pid']}\n"
    for pid, command, entry in processes():
        if b"lior.server.bulk" in command:
            with suppress(OSError):
                if parent in (entry / "status").read_text():
                    return pid
    return None


@contextmanager
def cluster(folder: Path, memory: str = "1500m") -> Iterator[str]:
    """One master and two workers of one core each, on an address of their own."""
    import pyspark

    home, address = str(Path(pyspark.__file__).parent), loopback_address()
    variables = environment(SPARK_HOME=home, **{MARK: str(folder), "SPARK_LOCAL_IP": address,
                                                "SPARK_DAEMON_MEMORY": "256m"})  # fmt: skip
    program, url = f"{home}/bin/spark-class", f"spark://{address}:17077"
    log = folder / "cluster.log"
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        started.append(subprocess.Popen([program, *words], env=variables, stdout=output, stderr=output))

    with log.open("w") as output:
        try:
            start("org.apache.spark.deploy.master.Master", "--host", address, "--port", "17077",
                  "--webui-port", "18180")  # fmt: skip
            for number in (1, 2):
                start("org.apache.spark.deploy.worker.Worker", "--host", address, "--cores", "1", "--memory", memory,
                      "--webui-port", f"1819{number}", "--work-dir", str(folder / f"w{number}"), url)  # fmt: skip
            until("two workers", lambda: log.read_text().count("Registering worker") >= 2)
            yield url
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


class Driver:
    """A program of tests/spark in a process of its own. It writes its JVM's process id and its own into a file."""

    def __init__(self, program: str, given: dict[str, Any], folder: Path, name: str = "driver", **more: str) -> None:
        self.pids_file = folder / f"{name}.pids"
        self.pids_file.unlink(missing_ok=True)
        self._log = folder / f"{name}.log"
        path = Path(__file__).with_name(program)
        with self._log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(path), json.dumps(given | {"pids": str(self.pids_file)})], env=environment(**more),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # fmt: skip

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def jvm(self) -> int | None:
        """None as long as it has not started one."""
        return int(self.pids_file.read_text().split()[0]) if self.pids_file.exists() else None

    def end(self) -> None:
        """With its JVM, if a test failed."""
        pids = [self.process.pid] if self.running else []
        if (jvm := self.jvm()) is not None:
            pids.append(jvm)
        for pid in pids:
            kill(pid)
        self.process.wait()


def write_pids(path: str) -> None:
    """In a driver, when its session has begun."""
    from pyspark import SparkContext

    assert SparkContext._gateway is not None
    file = Path(path)
    new = file.with_suffix(".new")
    new.write_text(f"{SparkContext._gateway.proc.pid} {os.getpid()}", encoding="ascii")
    new.rename(file)
