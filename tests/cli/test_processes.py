"""Real processes: killed, in each other's way, on a terminal, with closed pipes."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import lior as library
from tests.cli.conftest import PLAIN, QUEUE, ROOT, Lior, finished, process


def test_what_one_process_sends_another_receives(data: Path) -> None:
    finished(process(data, "queue", "create", QUEUE, "--transactional"))
    finished(process(data, "send", QUEUE, "--label", "order 1001", "--body", "10 crates of tea"))
    out, err = finished(process(data, "receive", QUEUE, "--json"))
    assert json.loads(out)["body"] == "10 crates of tea"
    assert err == ""
    out, err = finished(process(data, "receive", QUEUE), code=3)
    assert out == ""
    assert "MQ_ERROR_IO_TIMEOUT" in err


def test_the_other_process_is_named(shop: Lior, data: Path) -> None:
    waiting = process(data, "receive", PLAIN, "--timeout", "inf")
    try:
        wait_until_in_use(data, waiting)
        out, err = finished(process(data, "queue", "list"), code=1)
        assert out == ""
        assert "LIOR_ERROR_STORE_IN_USE" in err
        assert f"process {waiting.pid}" in err
        assert "do:" in err
    finally:
        waiting.kill()
        waiting.communicate()
    finished(process(data, "queue", "list"))


def wait_until_in_use(data: Path, running: "subprocess.Popen[str]") -> None:
    """Until that process has locked the directory."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert running.poll() is None, running.communicate()
        with (data / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        select.select([], [], [], 0.02)
    raise AssertionError("it never took the lock")


def test_a_kill_at_any_moment_loses_no_message_that_was_sent(shop: Lior, data: Path) -> None:
    sent: list[str] = []
    for count in (1, 7, 20):
        sending = process(data, "send", QUEUE, "--body", "x", "--count", "100000", "--json")
        assert sending.stdout is not None
        for _ in range(count):
            sent.append(json.loads(sending.stdout.readline())["id"])
        sending.kill()
        sent += [json.loads(line)["id"] for line in sending.stdout if line.endswith("}\n")]
        sending.communicate()
    out, _ = finished(process(data, "receive", QUEUE, "--all", "--json"))
    received = [json.loads(line)["id"] for line in out.splitlines()]
    assert len(received) == len(set(received))
    assert [identifier for identifier in received if identifier in set(sent)] == sent


def test_a_kill_while_receiving_loses_nothing_that_was_not_shown(shop: Lior, data: Path) -> None:
    with library.open(data) as manager, manager.transaction() as transaction:
        for number in range(500):
            transaction.send(QUEUE, str(number))
    receiving = process(data, "receive", QUEUE, "--all", "--json")
    assert receiving.stdout is not None
    shown = [json.loads(receiving.stdout.readline())["body"]]
    receiving.kill()
    shown += [json.loads(line)["body"] for line in receiving.stdout if line.endswith("}\n")]
    receiving.communicate()
    out, _ = finished(process(data, "browse", QUEUE, "--json", "--limit", "1000"))
    left = [json.loads(line)["body"] for line in out.splitlines()]
    assert set(shown) | set(left) == {str(number) for number in range(500)}


def test_a_closed_pipe_costs_no_message(shop: Lior, data: Path) -> None:
    shop("send", QUEUE, "--body", "y" * 1000, "--count", "200")
    reading, writing = os.pipe()
    os.close(reading)
    receiving = process(data, "receive", QUEUE, "--all", "--json", stdout=writing)
    os.close(writing)
    _, err = finished(receiving, code=1)
    assert "Traceback" not in err
    assert "Exception" not in err
    out, _ = finished(process(data, "queue", "show", QUEUE, "--json"))
    assert json.loads(out)["messages"] == 200


def test_a_full_disk_for_the_output_costs_no_message(shop: Lior, data: Path) -> None:
    shop("send", PLAIN, "--body", "x")
    with Path("/dev/full").open("w") as full:
        _, err = finished(process(data, "receive", PLAIN, stdout=full), code=1)
    assert "No space left" in err
    finished(process(data, "receive", PLAIN))


def test_ctrl_c_ends_a_wait_with_130_and_takes_nothing(shop: Lior, data: Path) -> None:
    waiting = process(data, "receive", QUEUE, "--timeout", "inf")
    wait_until_in_use(data, waiting)
    waiting.send_signal(signal.SIGINT)
    out, err = finished(waiting, code=130)
    assert (out, err.strip()) in (("", ""), ("", "Aborted."))
    finished(process(data, "stats"))


class Terminal:
    """A `lior` on a terminal of its own."""

    def __init__(self, data: Path, *arguments: str) -> None:
        environment = {**os.environ, "LIOR_DATA": str(data), "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"}
        environment.pop("NO_COLOR", None)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # the size before anybody looks at it
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            os.execve(sys.executable, [sys.executable, "-m", "lior.cli.main", *arguments], environment)
        self.output = ""

    def until(self, text: str) -> None:
        end = time.monotonic() + 120
        while text not in self.output:
            assert select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0], f"no {text!r}: {self.output}"
            self.output += os.read(self.fd, 65536).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def end(self) -> int:
        """The exit code, with the rest of the output read."""
        try:
            while True:
                self.output += os.read(self.fd, 65536).decode(errors="replace")
        except OSError:  # what Linux says when the other side is gone
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_deleting_asks_for_the_name_on_a_terminal(shop: Lior, data: Path) -> None:
    wrong = Terminal(data, "queue", "delete", PLAIN)
    wrong.until("Type its name")
    wrong.type("orders\n")
    assert wrong.end() == 130
    assert "nothing was done" in wrong.output
    right = Terminal(data, "queue", "delete", PLAIN)
    right.until("Type its name")
    right.type("private$\\mail\n")
    assert right.end() == 0
    assert Terminal(data, "queue", "delete", QUEUE, "--yes").end() == 0


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)])
def test_top_refreshes_until_q_or_ctrl_c(shop: Lior, data: Path, key: str, code: int) -> None:
    top = Terminal(data, "top", "--interval", "0.2")
    top.until("5 queues")
    top.until("\x1b[2J")
    top.output = ""
    top.until("5 queues")  # again
    top.type(key)
    assert top.end() == code


def test_colours_and_bars_are_for_terminals(shop: Lior, data: Path) -> None:
    listing = Terminal(data, "queue", "list")
    assert listing.end() == 0
    assert "\x1b[1m" in listing.output
    sending = Terminal(data, "send", PLAIN, "--body", "x", "--count", "20")
    assert sending.end() == 0
    assert "sending" in sending.output
    out, err = finished(process(data, "send", PLAIN, "--body", "x", "--count", "20"))
    assert "\x1b" not in out
    assert err == ""


def test_a_purge_shows_its_progress_on_a_terminal(shop: Lior, data: Path) -> None:
    shop("send", PLAIN, "--body", "x", "--count", "20")
    purging = Terminal(data, "queue", "purge", PLAIN, "--yes")
    assert purging.end() == 0
    assert "removed 20 messages" in purging.output
