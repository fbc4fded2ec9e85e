"""What the host tells: names, addresses, caller; and that a host with odd names still starts."""

from __future__ import annotations

import os
import socket
import time
from copy import copy
from typing import Any
from uuid import RFC_4122, UUID

import pytest

from lior.server import runtime
from lior.server.runtime import (
    RandomIds,
    SystemClock,
    computer_names,
    fresh_properties,
    local_names,
    own_addresses,
    process_caller,
)


def test_the_two_clocks_are_the_systems() -> None:
    clock = SystemClock()
    assert time.time() <= clock.wall() <= time.time()
    assert time.monotonic() <= clock.monotonic() <= time.monotonic()


def test_identifiers_are_random_and_of_version_4() -> None:
    ids = RandomIds()
    found = {ids.guid() for _ in range(1000)}
    assert len(found) == 1000 and {guid.version for guid in found} == {4}
    for guid in found:
        assert guid.variant == RFC_4122 and UUID(str(guid)) == guid == copy(guid)


@pytest.mark.parametrize(
    ("host", "short", "full"),
    [("web", "web", "web"), ("web.example.org", "web", "web.example.org"), ("", "localhost", "")],
)
def test_names_come_from_the_host_name(monkeypatch: pytest.MonkeyPatch, host: str, short: str, full: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    monkeypatch.setattr(socket, "getaddrinfo", no_answer)
    assert computer_names() == (short, full or "localhost")


def no_answer(*arguments: Any, **options: Any) -> Any:
    raise socket.gaierror("the name service does not answer")


def answers(canonical: str) -> Any:
    return lambda *a, **o: [(socket.AF_INET, 0, 0, canonical, ("192.0.2.9", 0))]


@pytest.mark.parametrize(
    ("canonical", "full"),
    [("web.example.org", "web.example.org"), ("WEB.example.org", "WEB.example.org"), ("other.example.org", "web")],
)
def test_the_full_name_is_the_name_services_if_it_is_of_this_computer(
    monkeypatch: pytest.MonkeyPatch, canonical: str, full: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "web")
    monkeypatch.setattr(socket, "getaddrinfo", answers(canonical))
    assert computer_names() == ("web", full)


@pytest.mark.parametrize("host", ["h" * 64, "a..b", "web"])
def test_a_host_name_that_is_none_in_dns_does_not_stop_the_start(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Linux allows 64 characters; the idna codec refuses labels beyond 63 with a UnicodeError."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert computer_names()[0] == host.partition(".")[0]
    assert {"127.0.0.1", "::1"} <= own_addresses()


def test_a_host_without_network_has_its_loopback_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", no_answer)
    monkeypatch.setattr(runtime, "_source_address", lambda family, target: "")
    assert own_addresses() == {"127.0.0.1", "::1"}


def test_addresses_lose_their_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **o: [(socket.AF_INET6, 0, 0, "", ("fe80::1%eth0", 0))])
    assert "fe80::1" in own_addresses()


def test_a_given_name_is_taken_for_both_names() -> None:
    properties = fresh_properties(RandomIds().guid(), "box")
    assert (properties.computer_name, properties.qualified_computer_name) == ("box", "box")
    names = local_names(properties, ["192.0.2.7"])
    assert names.is_local("box") and names.is_local("192.0.2.7") and not names.is_local("192.0.2.8")


def test_who_runs_the_process_administers_its_queue_manager() -> None:
    caller = process_caller()
    assert caller.is_administrator
    assert str(os.geteuid()) in str(caller.sid) or os.geteuid() == 0


def test_a_forked_process_makes_identifiers_of_its_own() -> None:
    ids = RandomIds()
    ids.guid()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, ids.guid().bytes)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 16) != ids.guid().bytes
