"""Fuzz target: captures of networks, and what is told of their sessions and acknowledgements."""

import tempfile
from pathlib import Path

from lior.client.capture import captured
from lior.client.conversations import acknowledgements, sessions
from lior.errors import LiorError


def target(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.pcap")
        path.write_bytes(data)
        try:
            found = list(captured([path]))
        except LiorError:
            return
        list(sessions(found))
        list(acknowledgements(found))


if __name__ == "__main__":
    from harness import run

    run(target)
