"""The queue manager's process, as the bulk process asks it: calls of the admin API over its Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any, Final

from lior.errors import ServiceNotAvailable
from lior.server.admin.service import SOCKET_FILE
from lior.server.listening import reachable
from lior.wire.admin_json import error_from_json

ACCOUNT: Final = "Lior-Account"
TIMEOUT: Final = 600.0  # seconds; releasing or publishing a million messages takes a while


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT)
        with reachable(self._path) as short:
            self.sock.connect(short)


def call(directory: Path, name: str, arguments: dict[str, Any], account: str = "") -> Any:
    """The answer, or the queue manager's own error. With the rights of `account`, if one is named."""
    connection = _Connection(directory / SOCKET_FILE)
    try:
        connection.request("POST", f"/v1/{name}", json.dumps(arguments),
                           {"Content-Type": "application/json"} | ({ACCOUNT: account} if account else {}))
        answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ServiceNotAvailable(f"the queue manager does not answer: {error}", where=str(directory),
                                  remedy="try again when it is back") from error
    finally:
        connection.close()
    if "error" in answer:
        raise error_from_json(answer["error"])
    return answer.get("result")
