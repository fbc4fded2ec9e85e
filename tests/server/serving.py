"""Servers of tests: each on an address of its own, with its own data."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from lior.testing.serving import Serving

QUEUE = r".\private$\orders"
STREAM = r".\private$\stream"


class Admin:
    """Plain HTTP to a server's admin API, over TCP with its token."""

    def __init__(self, server: Serving) -> None:
        self._server = server

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return get(self._server.admin_url + path, self._server.token, **headers)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The result; an error fails the test."""
        status, answer = self.post(name, arguments)
        assert status == 200, answer
        return answer["result"]

    def refused(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The error, with the status of its answer."""
        status, answer = self.post(name, arguments)
        assert status != 200, answer
        found: dict[str, Any] = answer["error"]
        return found | {"status": status}

    def post(self, name: str, data: Any, **headers: str) -> tuple[int, Any]:
        return get(f"{self._server.admin_url}/v1/{name}", self._server.token, data, **headers)


def get(url: str, token: str = "", data: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and JSON of a request over TCP; errors are answers, too."""
    wanted = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        wanted["Authorization"] = f"Bearer {token}"
    body = None if data is None else (data if isinstance(data, bytes) else json.dumps(data).encode())
    request = urllib.request.Request(url, body, wanted)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, read(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, read(error)


def read(answer: Any) -> Any:
    text = answer.read().decode()
    return json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text


def lines(log: str, **wanted: str) -> list[str]:
    """Lines of the log that have these words."""
    return [line for line in log.splitlines() if all(f"{name}={value}" in line for name, value in wanted.items())]

