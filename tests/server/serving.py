"""Servers of tests: each on an address of its own, with its own data."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lior.testing.serving import Serving

QUEUE = r".\private$\orders"
STREAM = r".\private$\stream"

Start = Callable[..., Serving]


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


def data_of(tmp_path: Path) -> Path:
    return tmp_path / "data"
