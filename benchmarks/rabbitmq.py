"""A private RabbitMQ node for benchmarks, and a pika program that publishes to it.

The node has its own directories, ports and epmd on 127.0.0.1, so that a RabbitMQ of this machine is left alone.

    python benchmarks/rabbitmq.py PORT durable|plain COUNT WINDOW BYTES [consumer]     publishes, prints JSON
    python benchmarks/rabbitmq.py PORT send|receive|'one by one' COUNT WINDOW BYTES    durable, one direction
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
QUEUE = "bench"
TICKS = os.sysconf("SC_CLK_TCK")


def available() -> str:
    """Empty if there is a RabbitMQ to start, after installing it if that can be done; else why there is none."""
    if SERVER.exists():
        return ""
    if os.geteuid() or not shutil.which("apt-get"):
        return "rabbitmq-server is not installed (as root: apt-get install rabbitmq-server)"
    print("installing rabbitmq-server", file=sys.stderr)
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]
    # invoke-rc.d starts no service in run level 1: the package's own node stays off
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in ([*install, "rabbitmq-server"], ["apt-get", "update"], [*install, "rabbitmq-server"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if SERVER.exists():
            return ""
    return f"rabbitmq-server could not be installed: {done.stderr.strip()[-200:]}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """What a process has used, its own threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Node:
    """`with Node() as node: node.publish(...)`"""

    def __enter__(self) -> "Node":
        self._directory = Path(tempfile.mkdtemp(prefix="lior-rabbitmq-"))
        self.port, epmd_port, dist_port = free_port(), free_port(), free_port()
        directory = self._directory
        (directory / "rabbitmq.conf").write_text("loopback_users = none\nlog.console = false\nlog.file.level = error\n")
        (directory / "plugins").write_text("[].\n")
        (directory / "advanced.config").write_text("[].\n")
        environment = {
            **os.environ,
            "HOME": str(directory),  # the Erlang cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_NODENAME": "lior-bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "no-environment"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
        }
        # in the foreground and ours: epmd as a daemon would outlive the node
        self._epmd = subprocess.Popen(["epmd", "-address", "127.0.0.1", "-port", str(epmd_port)], env=environment)
        self._log = (directory / "output").open("w")
        self._server = subprocess.Popen([SERVER], env=environment, stdout=self._log, stderr=self._log, cwd=directory)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        end = time.monotonic() + 90
        while time.monotonic() < end:
            if self._server.poll() is not None:
                raise RuntimeError(f"RabbitMQ ended: {(self._directory / 'output').read_text()[-2000:]}")
            try:
                pika.BlockingConnection(parameters(self.port)).close()
            except (pika.exceptions.AMQPError, OSError):
                time.sleep(0.2)
            else:
                self.pid = int((self._directory / "pid").read_text())
                return
        raise RuntimeError("RabbitMQ did not start in 90 s")

    def __exit__(self, *_: object) -> None:
        self._server.terminate()
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._epmd.terminate()
        self._epmd.wait()
        self._log.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def publish(
        self, count: int, *, durable: bool, window: int, size: int = 1024, consumer: bool = False
    ) -> dict[str, Any]:
        """One publisher process; its rate, and the CPU seconds a message of broker and publisher."""
        arguments = [str(self.port), "durable" if durable else "plain", str(count), str(window), str(size)]
        before = cpu_seconds(self.pid)
        done = subprocess.run(
            [sys.executable, __file__, *arguments, *(["consumer"] if consumer else [])],
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        result: dict[str, Any] = json.loads(done.stdout)
        result["broker_cpu"] = (cpu_seconds(self.pid) - before) / count
        return result

    def durable(self, count: int, kind: str, *, window: int, size: int = 1024) -> dict[str, Any]:
        """One process that sends with confirms, one message after the other, or receives what is there."""
        done = subprocess.run([sys.executable, __file__, str(self.port), kind, str(count), str(window), str(size)],
                              env={**os.environ, "LIOR_BENCH_BROKER": str(self.pid)}, check=True,
                              stdout=subprocess.PIPE, text=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result


def parameters(port: int) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)


def published(channel: BlockingChannel, count: int, body: bytes, *, durable: bool, window: int) -> None:
    """Publish, and return when the last is confirmed; at most `window` are not, or 0: no confirms.

    BlockingChannel.basic_publish waits for each confirm, and process_data_events for its whole time limit: the
    window needs what is below both.
    """
    inner, until = channel._impl, channel.connection._flush_output
    properties = pika.BasicProperties(delivery_mode=2 if durable else 1)
    confirmed = sent = 0

    def on_confirm(frame: Any) -> None:
        nonlocal confirmed
        if isinstance(frame.method, pika.spec.Basic.Nack):
            raise RuntimeError("RabbitMQ refused a message")
        confirmed = frame.method.delivery_tag if frame.method.multiple else confirmed + 1

    if window:
        selected: list[Any] = []
        inner.confirm_delivery(on_confirm, callback=selected.append)
        until(lambda: bool(selected))

    def room() -> bool:
        return not window or sent - confirmed < window

    while sent < count:
        inner.basic_publish("", QUEUE, body, properties)
        sent += 1
        if not room() or (not window and sent % 64 == 0):
            until(room)
    until(lambda: not window or confirmed >= count)


def all_there(channel: BlockingChannel, count: int) -> None:
    while channel.queue_declare(QUEUE, passive=True).method.message_count < count:
        channel.connection.process_data_events(time_limit=0.005)


def consume(port: int, count: int, ready: int) -> None:
    """Take and acknowledge each; tells through the pipe that it is there."""
    connection = pika.BlockingConnection(parameters(port))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=256)
    os.write(ready, b"r")
    for method, _, _ in channel.consume(QUEUE):
        channel.basic_ack(method.delivery_tag)
        count -= 1
        if not count:
            break
    connection.close()


def one_direction(port: int, kind: str, count: int, window: int, size: int) -> dict[str, float]:
    connection = pika.BlockingConnection(parameters(port))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    body = os.urandom(size)
    if kind == "receive":
        published(channel, count, body, durable=True, window=window)
    pid = int(os.environ["LIOR_BENCH_BROKER"])
    before, start, used = cpu_seconds(pid), time.perf_counter(), time.process_time()
    taken: list[float] = []
    if kind == "receive":
        channel.basic_qos(prefetch_count=window)
        left = count
        for method, _, _ in channel.consume(QUEUE):
            channel.basic_ack(method.delivery_tag)
            left -= 1
            if not left:
                break
        channel.cancel()
    elif kind == "send":
        published(channel, count, body, durable=True, window=window)
    else:
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2)
        for _ in range(count):
            begun = time.perf_counter()
            channel.basic_publish("", QUEUE, body, properties)
            taken.append(time.perf_counter() - begun)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    result = {"rate": count / seconds, "client_cpu": used / count, "broker_cpu": (cpu_seconds(pid) - before) / count}
    if taken:
        taken.sort()
        result |= {"p50": taken[count // 2] * 1e3, "p99": taken[count * 99 // 100] * 1e3}
    channel.queue_delete(QUEUE)
    connection.close()
    return result


def consumer_process(port: int, count: int) -> int:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            consume(port, count, writer)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    return pid


def main() -> None:
    port, kind, count, window, size = int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])
    if kind not in ("durable", "plain"):
        print(json.dumps(one_direction(port, kind, count, window, size)))
        return
    connection = pika.BlockingConnection(parameters(port))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=kind == "durable")
    consumer = consumer_process(port, count) if sys.argv[6:] == ["consumer"] else 0
    start, used = time.perf_counter(), time.process_time()
    published(channel, count, os.urandom(size), durable=kind == "durable", window=window)
    used = time.process_time() - used
    if consumer and os.waitstatus_to_exitcode(os.waitpid(consumer, 0)[1]):
        raise RuntimeError("the consumer failed")
    if not consumer and not window:
        all_there(channel, count)
    seconds = time.perf_counter() - start
    channel.queue_delete(QUEUE)
    connection.close()
    print(json.dumps({"rate": count / seconds, "client_cpu": used / count}))


if __name__ == "__main__":
    main()
