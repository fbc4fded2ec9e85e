"""HTTP actions of triggers, with a real web server."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest

import lior
from lior.client.triggers import Figures, Http, TriggerRunner
from tests.client.trigger_scenario import ORDERS, WebServer, rule, trigger, web_server


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as state:
        yield state


def send_and_run(action: Http, body: Any = b"body", *, timeout: float = 20.0, **properties: Any) -> Figures:
    async def scenario() -> Figures:
        async with lior.aio.open(":memory:") as manager:
            await manager.create_queue(ORDERS)
            await manager.send(ORDERS, body, **properties)
            runner = TriggerRunner(manager, [trigger("receive", rule(action, timeout=timeout))])
            await runner.start(once=True)
            try:
                await runner.wait()
            finally:
                await runner.stop()
            return runner.figures["t"]

    return asyncio.run(scenario())


def test_request_carries_the_body_and_the_properties(server: WebServer) -> None:
    action = Http(f"{server.url}?x=1", headers={"Authorization": "Bearer y", "Content-Type": "text/plain"})
    figures = send_and_run(action, b"\x00\xffbody", label="50% é\r\nX-Evil: 1", priority=6)
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/hook?x=1", b"\x00\xffbody")
    assert unquote(request.headers["X-Lior-Label"]) == "50% é\r\nX-Evil: 1"
    assert request.headers["X-Lior-Priority"] == "6"
    assert unquote(request.headers["X-Lior-Queue"]) == ORDERS
    assert request.headers["Authorization"] == "Bearer y"
    assert request.headers["Content-Type"] == "text/plain"
    assert "X-Evil" not in request.headers
    assert (figures.succeeded, figures.failed) == (1, 0)


def test_method_is_the_rules(server: WebServer) -> None:
    send_and_run(Http(server.url, "PUT"))
    assert [request.method for request in server.requests] == ["PUT"]


@pytest.mark.parametrize("status", [200, 204, 299])
def test_answer_from_200_to_299_is_success(server: WebServer, status: int) -> None:
    server.status = status
    assert send_and_run(Http(server.url)).succeeded == 1


@pytest.mark.parametrize("status", [302, 307, 400, 503])
def test_any_other_answer_is_failure_and_a_redirect_is_not_followed(server: WebServer, status: int) -> None:
    server.status = status
    figures = send_and_run(Http(server.url))
    assert (figures.succeeded, figures.failed) == (0, 1)
    assert f"HTTP status {status}" in figures.last_error
    assert len(server.requests) == 1


def test_server_that_answers_byte_by_byte_is_cut_off(server: WebServer) -> None:
    server.drip = threading.Event()
    figures = send_and_run(Http(server.url), timeout=0.4)
    assert figures.last_error == "rule r: it took longer than 0.4 s"


def test_server_that_is_not_there_is_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but it does not listen
        figures = send_and_run(Http(f"http://127.0.0.1:{taken.getsockname()[1]}/"))
    assert "Connection refused" in figures.last_error


def test_peer_that_speaks_no_http_is_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.sendall(b"SSH-2.0-x\r\n")
                peer.recv(65536)

        thread = threading.Thread(target=answer)
        thread.start()
        figures = send_and_run(Http(f"http://127.0.0.1:{listening.getsockname()[1]}/"))
        thread.join()
    assert figures.failed == 1
    assert "the request failed" in figures.last_error


def test_https_refuses_a_peer_without_a_certificate(server: WebServer) -> None:
    figures = send_and_run(Http(server.url.replace("http:", "https:")))
    assert figures.failed == 1
    assert server.requests == []
