"""The bulk process: told on its standard input what to do, it serves until that ends."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from lior.errors import LiorError
from lior.server.bulk.entrance import NAME, Entrance
from lior.server.bulk.flight_server import BulkServer
from lior.server.bulk.settings import BulkSection
from lior.server.bulk.sweeping import Sweeper


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the queue manager, which then lets go of us
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        server = _server(given)
    except (LiorError, OSError, ValueError) as error:
        print(json.dumps({"failed": str(error)}), flush=True)  # noqa: T201
        sys.exit(1)
    print(json.dumps({"port": server.port}), flush=True)  # noqa: T201
    gc.set_threshold(100_000, 20, 20)  # rows of a batch are many objects and none of them garbage
    Sweeper(Path(given["directory"]), BulkSection(**given["settings"]).stage_timeout, time.time).start()
    server.serve()


def _server(given: dict[str, Any]) -> BulkServer:
    directory, settings = Path(given["directory"]), BulkSection(**given["settings"])
    options: dict[str, Any] = {
        "middleware": {NAME: Entrance(Path(given["token_file"]), directory, *given["lockout"])}
    }
    scheme = "grpc+tcp"
    if settings.certificate:
        scheme = "grpc+tls"
        certificate = Path(settings.certificate).read_bytes()
        key = Path(settings.key).read_bytes() if settings.key else certificate
        options["tls_certificates"] = [(certificate, key)]
    return BulkServer(f"{scheme}://{given['address']}:{settings.port}", directory, settings, **options)


def _end_with_parent() -> None:
    """The pipe closes when the queue manager ends, however it ends."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
