"""Machines of a test: network namespaces on one bridge, with packets lost where a test says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lior.testing.serving import Serving


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def missing() -> str:
    """Why there can be no such network here; empty if there can."""
    for tool in ("ip", "nft"):
        if shutil.which(tool) is None:
            return f"there is no program {tool}"
    name = f"lior{os.getpid()}probe"
    try:
        run("ip", "netns", "add", name)
    except OSError as error:
        return f"no network namespaces: {error}"
    try:
        run("ip", "netns", "exec", name, "ip", "link", "add", "name", "bridge0", "type", "bridge")
        return ""
    except OSError as error:
        return f"no bridges in namespaces: {error}"
    finally:
        run("ip", "netns", "del", name)


class Machine:
    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address

    def run(self, *command: str) -> str:
        return run("ip", "netns", "exec", self.name, *command)

    def popen(self, *command: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        return subprocess.Popen(["ip", "netns", "exec", self.name, *command], text=True, stdin=stdin,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def lose(self, rule: str = "numgen inc mod 3 == 1") -> None:
        """Of the PGM packets that arrive."""
        self.run("nft", "add table ip lossy")
        self.run("nft", "add chain ip lossy arriving { type filter hook input priority 0 ; }")
        self.run("nft", f"add rule ip lossy arriving ip protocol 113 {rule} drop")

    def heal(self) -> None:
        self.run("nft", "delete table ip lossy")


@contextmanager
def machines(count: int) -> Iterator[Sequence[Machine]]:
    """The last is the bridge, which sees all packets."""
    prefix = f"lior{os.getpid()}"
    found = [Machine(f"{prefix}n{number}", f"10.113.0.{number + 1}") for number in range(count)]
    bridge = Machine(f"{prefix}br", "")
    made = []
    try:
        for machine in (*found, bridge):
            run("ip", "netns", "add", machine.name)
            made.append(machine)
            machine.run("ip", "link", "set", "lo", "up")
        bridge.run("ip", "link", "add", "name", "bridge0", "type", "bridge", "mcast_snooping", "0")
        bridge.run("ip", "link", "set", "bridge0", "up")
        for number, machine in enumerate(found):
            port = f"port{number}"
            machine.run("ip", "link", "add", "e0", "type", "veth", "peer", "name", port, "netns", bridge.name)
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "e0")
            machine.run("ip", "link", "set", "e0", "up")
            machine.run("ip", "route", "add", "224.0.0.0/4", "dev", "e0")
            bridge.run("ip", "link", "set", port, "master", "bridge0", "up")
        yield [*found, bridge]
    finally:
        for machine in made:
            run("ip", "netns", "del", machine.name)


class NamespaceServing(Serving):
    """A server on a machine of its own; its clients use the Unix socket, which is the same everywhere."""

    def __init__(self, machine: Machine, data: Path, **settings: Any) -> None:
        named = {name.replace("__", "."): value for name, value in settings.items()}
        super().__init__(data, bind=machine.address, settings=named)
        self.machine = machine

    def command(self) -> list[str]:
        return ["ip", "netns", "exec", self.machine.name, *super().command()]
