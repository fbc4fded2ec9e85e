"""The process that the fault tests break: it commits batches and reports each one once `apply` has returned.

Batch b puts three messages (one of them large) in two queues, sets a state value, and deletes the first message
of batch b-2. A run writes "b<n>" for a batch acknowledged, "full <n>" for one refused with MessageStorageFailed
(then it goes on), "try <n>" before a batch, and the name of any other typed error before it stops.

Run as a program it serves jobs, one JSON object a line on standard input, each in a forked child.
"""

import json
import os
import sys
import traceback

from lior.errors import LiorError, MessageStorageFailed, StoreUnusable
from lior.message import Message
from lior.queues.ports import DeleteMessage, Operation, PutMessage, PutQueue, PutState
from lior.store.sqlite import SqliteStore
from lior.testing.faulty_files import FaultyFiles

LOOKUP = 4 << 56
DEFECT = 70  # an error that is not ours


def body_of(batch: int, part: int) -> bytes:
    return bytes([batch % 251, part]) * (6000 if part == 2 else 50)


def position_of(batch: int, part: int) -> tuple[int, int]:
    return 1 + part % 2, LOOKUP + 3 * batch + part


def make_batch(batch: int) -> list[Operation]:
    operations: list[Operation] = [PutQueue(1, "private", "orders", {"transactional": True})]
    operations += [PutMessage(*position_of(batch, part), Message(body_of(batch, part), label=f"{batch}.{part}"),
                              float(batch)) for part in range(3)]
    operations.append(PutState("batch", str(batch), b"applied"))
    if batch > 2:
        operations.append(DeleteMessage(*position_of(batch - 2, 0)))
    return operations


def run(directory: str, batches: int, checkpoint_every: int, first: int, out: int) -> int:
    def say(text: str) -> None:
        os.write(out, text.encode() + b"\n")

    store: SqliteStore | None = None
    try:
        store = SqliteStore(directory)
        for batch in range(first, first + batches):
            say(f"try {batch}")
            try:
                store.apply(make_batch(batch))
            except MessageStorageFailed:
                say(f"full {batch}")
                continue
            say(f"b{batch}")
            if batch % checkpoint_every == 0:
                store._log_bytes = 1 << 30  # the log is due: a short run shall have checkpoints too
                store.maintain()
        store.close()
        say("closed")
    except LiorError as error:
        if store is not None:
            for call in (lambda: store.apply(make_batch(first)), lambda: store.fetch(1, LOOKUP), store.load,
                         store.maintain, lambda: list(store.load_index()), lambda: store.scan(1, 0, 1)):
                try:
                    call()
                    say("still in use")
                except StoreUnusable:
                    pass
            store.close()
        say(type(error).__name__)
    return 0


def serve() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        reader, writer = os.pipe()
        files = FaultyFiles(job["directory"], **job["faults"])
        pid = os.fork()
        if not pid:
            status = DEFECT
            try:
                files.start_here()
                status = run(job["directory"], job["batches"], job["checkpoint_every"], 1, writer)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read().split("\n")[:-1]
        _, status = os.waitpid(pid, 0)
        answer = {"status": os.waitstatus_to_exitcode(status), "said": said, "calls": files.calls()}
        files.remove()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:  # DIRECTORY FIRST: until killed
        sys.exit(run(sys.argv[1], 1 << 30, 50, int(sys.argv[2]), 1))
    serve()
