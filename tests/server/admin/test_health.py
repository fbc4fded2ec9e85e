"""/healthz when something is wrong, and plain HTTP clients that go away."""

import http.client
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import lior
from lior.errors import StoreUnusable
from lior.server.admin.service import AdminService
from tests.client.served import served


class Local(http.client.HTTPConnection):
    def __init__(self, service: AdminService) -> None:
        super().__init__("lior", timeout=60)
        self._path = str(service.socket_path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


def ask(service: AdminService, method: str, path: str, data: Any = None) -> tuple[int, Any]:
    connection = Local(service)
    try:
        connection.request(method, path, None if data is None else json.dumps(data))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_broken_store_is_503_with_the_reason(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        service = server.admin
        assert ask(service, "GET", "/healthz")[0] == 200
        engine = service.backend.engine
        done = threading.Event()

        def break_it() -> None:
            engine._stop_serving(StoreUnusable("the disk is gone", where="store.db", remedy="get another one"))
            done.set()

        engine._loop.call_soon_threadsafe(break_it)
        assert done.wait(60)
        status, health = ask(service, "GET", "/healthz")
        assert (status, health["serving"]) == (503, False)
        assert "the disk is gone" in health["reason"]
        assert health["remedy"] == "get another one"
        message = {"queue": r".\private$\q", "messages": []}
        status, answer = ask(service, "POST", "/v1/send_to", message)
        assert (status, answer["error"]["symbol"]) == (503, "MQ_ERROR_SERVICE_NOT_AVAILABLE")
        assert "the disk is gone" in answer["error"]["what"]


def test_a_client_that_goes_away_while_it_waits_takes_no_message(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server, lior.connect(tmp_path / "data") as qm:
        service = server.admin
        qm.create_queue(r".\private$\q")
        connection = Local(service)
        connection.request("POST", "/v1/receive_from", json.dumps({"queue": r".\private$\q", "timeout_ms": 60_000}))
        wait_until(lambda: qm.properties()["waiting_reads"] == 1)
        connection.close()
        wait_until(lambda: qm.properties()["waiting_reads"] == 0)
        qm.send(r".\private$\q", "still here")
        assert qm.receive(r".\private$\q", 0).value() == "still here"


def wait_until(true: Any) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end


def test_a_client_that_waits_over_http_gets_the_message(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server, lior.connect(tmp_path / "data") as qm:
        service = server.admin
        qm.create_queue(r".\private$\q")
        answers: list[tuple[int, Any]] = []
        receive = {"queue": r".\private$\q", "timeout_ms": 60_000}
        waiting = threading.Thread(target=lambda: answers.append(ask(service, "POST", "/v1/receive_from", receive)))
        waiting.start()
        wait_until(lambda: qm.properties()["waiting_reads"] == 1)
        qm.send(r".\private$\q", b"x")
        waiting.join(60)
        assert answers[0][0] == 200
        assert answers[0][1]["result"]["body"] == {"base64": "eA=="}
        assert qm.queue(r".\private$\q").messages == 0
