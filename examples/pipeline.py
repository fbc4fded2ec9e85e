"""Traffic between two queue managers, which ends in a lake: one sends to the other, Spark takes the messages out of its
queues into Parquet, and a report says what went through.

    python examples/pipeline.py [LAKE]

It needs the extra `spark` and Java 17 or newer, and says so if they are missing. Without LAKE it uses .build/lake.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from two_queue_managers import Host, show, wait_for

import lior

QUEUES = ("orders", "payments")  # the second is transactional
MESSAGES = 1000  # to each


def missing() -> str:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return "pip install 'lior[spark]'"
    return "" if shutil.which("java") else "apt-get install openjdk-17-jre-headless"


def traffic(here: Host, there: Host) -> None:
    with lior.connect(there.data) as qm:
        qm.create_queue(r".\private$\orders")
        qm.create_queue(r".\private$\payments", transactional=True)
    with lior.connect(here.data) as qm:
        with qm.open_queue(there.name(r".\private$\orders"), "send") as queue:
            for number in range(MESSAGES):
                queue.send({"order": number, "amount": number % 97}, label=f"order {number}", priority=number % 8)
        for first in range(0, MESSAGES, 100):
            with qm.transaction() as tx:
                for number in range(first, first + 100):
                    tx.send(there.name(r".\private$\payments"), f"payment {number}", label=f"payment {number}")
    for name in QUEUES:
        wait_for(there, rf".\private$\{name}", MESSAGES)


def pipeline(*arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "lior.cli.main", "pipeline", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    remedy = missing()
    if remedy:
        show(f"The pipeline is left out: run {remedy}, and then make run again.")
        return
    lake = Path(sys.argv[1] if len(sys.argv) > 1 else ".build/lake")
    shutil.rmtree(lake, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="lior-") as parent:
        here, there = Host(Path(parent, "here")), Host(Path(parent, "there"))
        try:
            here.start()
            there.start()
            traffic(here, there)
            show(f"{2 * MESSAGES} messages sent from {here.address} to {there.address}; Spark takes them into {lake}.")
            queues = [part for name in QUEUES for part in ("--queue", rf"private$\{name}")]
            done = pipeline("ingest", "--server", str(there.data), *queues, "--lake", str(lake), "--once")
            found = pipeline("report", "--lake", str(lake))
        finally:
            here.stop()
            there.stop()
    if done["rows"] != 2 * MESSAGES or found["rows"] != 2 * MESSAGES:
        sys.exit(f"{done['rows']} messages were ingested, {found['rows']} are in the lake, {2 * MESSAGES} were sent")
    show(f"  yes  {2 * MESSAGES} messages in Parquet, each once")
    show(f"The report: {Path(str(found['output'])).resolve()}")


if __name__ == "__main__":
    main()
