"""The queues that the tests of the library use."""

import lior

ORDERS = r".\private$\orders"
LEDGER = r".\private$\ledger"
AUDIT = r".\private$\audit"
DEAD = r".\system$;DEADLETTER"
DEAD_TRANSACTIONAL = r".\system$;DEADXACT"


def bodies(qm: lior.QueueManager, name: str) -> list[bytes]:
    with qm.open_queue(name, "peek") as q:
        return [message.body for message in q]
