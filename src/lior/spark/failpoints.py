"""Where tests kill the process: LIOR_SPARK_FAIL names a point, and a file that is there as long as it is to die."""

from __future__ import annotations

import os
import signal
from typing import Final

VARIABLE: Final = "LIOR_SPARK_FAIL"


def reached(point: str) -> None:
    """`point=file`: the file is removed, so that it happens once, and then this process and the JVM above it die."""
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return
    name, _, file = wanted.partition("=")
    if name != point:
        return
    try:
        with open(file, encoding="ascii") as stream:
            pids = [int(each) for each in stream.read().split()]
        os.unlink(file)
    except FileNotFoundError:
        return
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
