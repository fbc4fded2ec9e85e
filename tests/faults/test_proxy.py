"""The proxy of the transfer storms does what it says, and no more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.faults.proxy import Cut, Faults, Proxy

ADDRESS = "127.53.0.1"


class Echo:
    """A server that sends back what comes, and remembers it."""

    def __init__(self) -> None:
        self.listener = socket.create_server((ADDRESS, 0))
        self.address = (ADDRESS, int(self.listener.getsockname()[1]))
        self.peers: list[str] = []
        self.heard: list[bytearray] = []
        self.ended = threading.Condition()
        self.endings = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self.listener.accept()
            except OSError:
                return
            self.peers.append(peer[0])
            self.heard.append(bytearray())
            threading.Thread(target=self._serve, args=(connection, self.heard[-1]), daemon=True).start()

    def _serve(self, connection: socket.socket, heard: bytearray) -> None:
        try:
            while data := connection.recv(1 << 16):
                heard += data
                connection.sendall(data)
        except OSError:
            pass
        finally:
            connection.close()
            with self.ended:
                self.endings += 1
                self.ended.notify_all()

    def wait_for_endings(self, count: int) -> None:
        with self.ended:
            assert self.ended.wait_for(lambda: self.endings >= count, 60)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.listener.close()


def read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(proxy.listen, 60, source_address=("127.53.0.7", 0))


def free() -> tuple[str, int]:
    with socket.create_server((ADDRESS, 0)) as listener:
        return ADDRESS, int(listener.getsockname()[1])


def test_bytes_keep_their_order_through_splits_delays_and_stalls(echo: Echo, seed: int) -> None:
    data = bytes(range(256)) * 400
    with Proxy(free(), echo.address, seed, Faults(split=0.9, delay=0.002, stall=0.1)) as proxy:
        connections = [connect(proxy) for _ in range(3)]
        for connection in connections:
            threading.Thread(target=connection.sendall, args=(data,)).start()
        for connection in connections:
            assert read(connection, len(data)) == data
            connection.close()
    assert echo.peers == ["127.53.0.7"] * 3


@pytest.mark.parametrize("how", Cut)
def test_a_cut_ends_both_sides(echo: Echo, how: Cut, seed: int) -> None:
    with Proxy(free(), echo.address, seed) as proxy:
        connection = connect(proxy)
        connection.sendall(b"before")
        assert read(connection, 6) == b"before"
        assert proxy.cut(how) == 1
        assert proxy.cut(how) == 0
        try:
            rest = connection.recv(10)
        except ConnectionResetError:
            rest = b""
        assert rest == b""
        echo.wait_for_endings(1)
        connection.close()
    assert bytes(echo.heard[0]) == b"before"


def test_a_connection_is_lost_after_some_bytes(echo: Echo, seed: int) -> None:
    with Proxy(free(), echo.address, seed, Faults(lose_after=1000)) as proxy:
        connection = connect(proxy)
        try:
            connection.sendall(bytes(5000))
            while connection.recv(10000):
                pass
        except OSError:
            pass
        connection.close()
        echo.wait_for_endings(1)
        assert proxy.cuts == 1
    assert len(echo.heard[0]) < 1000


def test_a_held_connection_is_accepted_and_answered_by_nobody(echo: Echo, seed: int) -> None:
    with Proxy(free(), echo.address, seed, Faults(hold=1.0, hold_seconds=0.05)) as proxy:
        connection = connect(proxy)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        connection.close()
        assert proxy.held == 1
    assert echo.peers == []
