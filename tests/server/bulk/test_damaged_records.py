"""A record that was damaged on the disk stops no reader of claims: he is told, and it goes with the others."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from lior.client.bulk import arrow_schema, connect
from lior.testing.serving import Serving
from tests.server.bulk.test_bulk import ORDERS, PORT, send, wait_for


def damage(server: Serving, header: str) -> None:
    """The last of the messages."""
    store = sqlite3.connect(server.data / "store.db", timeout=60)
    with store:
        changed = store.execute(f"UPDATE m SET hdr=x'{header}' WHERE l=(SELECT max(l) FROM m)").rowcount
    store.close()
    assert changed == 1


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("header", ["", "FFFFFFFF", "01000000000110"])
def test_what_is_damaged_is_told_and_released_with_the_others(tmp_path: Path, journal: bool, header: str) -> None:
    with Serving(tmp_path / "data", settings=PORT) as server:
        wait_for(server)
        with server.connect() as qm:
            qm.create_queue(ORDERS, journal=journal)
        send(server, 12)
        damage(server, header)
        with connect(server.data) as bulk:
            epoch = bulk.call("subscribe", name="lake", queues=[ORDERS])["epoch"]
            end = bulk.call("claim", name="lake", epoch=epoch, start=0, max_rows=100, max_bytes=1 << 30)
            rows = pa.Table.from_batches(bulk.fetch("lake", epoch, 0, end), arrow_schema()).to_pylist()
            (bad,) = [row for row in rows if row["_error"]]
            assert len(rows) == end == 12 and bad["body"].startswith(b"body ") and bad["message_id"] is None
            bulk.call("release", name="lake", epoch=epoch, ordinal=end)
            (known,) = bulk.subscriptions()
            assert (known["claimed"], known["claimed_bytes"], known["released"]) == (0, 0, 12)
        with server.connect() as qm:
            found = qm.queue(ORDERS)
        assert (found.messages, found.bytes, found.journal_messages) == (0, 0, 11 if journal else 0)
