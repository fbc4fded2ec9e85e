"""Programs on the server's own computer, which come by its Unix socket."""

from pathlib import Path

import pytest

import lior
from lior.testing.serving import Serving

QUEUE = r".\private$\q"


@pytest.mark.spec("MP-019")
def test_a_server_that_serves_no_clients_serves_the_programs_beside_it(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"rpc.supporting_server": False}) as server, server.connect() as qm:
        qm.create_queue(QUEUE)
        qm.send(QUEUE, b"x")
        assert qm.receive(QUEUE, 60).body == b"x"
        with qm.transaction():
            pass
        qm.delete_queue(QUEUE)
        with pytest.raises(lior.errors.QueueNotFound):
            qm.queue(QUEUE)
