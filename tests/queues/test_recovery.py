"""Transactions over a restart ([MS-MQDMPR] 3.1.3)."""

from uuid import UUID

import pytest

from lior.message import Message, MessageClass
from lior.queues.transaction import TransactionState
from lior.testing.engine import ManualEngine
from tests.queues.conftest import Host

TX = r"DIRECT=OS:.\private$\tx"


def work_in_a_transaction(engine: ManualEngine) -> UUID:
    """A transaction that received the first message of the queue and sent another."""
    engine.create(r".\private$\tx", transactional=True)
    first = engine.manager.begin()
    engine.send(engine.sender(TX), transaction=first, body=b"old")
    engine.do(engine.manager.commit, first.identifier)
    transaction = engine.manager.begin()
    assert engine.receive(engine.open(TX), transaction=transaction).body == b"old"
    engine.send(engine.sender(TX), transaction=transaction, body=b"new")
    return transaction.identifier


@pytest.mark.spec("DM-065")
def test_a_crash_with_an_open_internal_transaction_undoes_it(host: Host) -> None:
    work_in_a_transaction(host.engine)
    again = host.crash()
    assert again.manager.core.transactions == {}
    assert again.bodies(again.manager.find_queue(r".\private$\tx")) == [b"old"]


@pytest.mark.spec("DM-065")
def test_an_internal_transaction_that_was_prepared_is_aborted_at_start(host: Host) -> None:
    identifier = work_in_a_transaction(host.engine)
    host.engine.do(host.engine.manager.prepare, identifier, single_phase=True)
    again = host.crash()
    assert again.manager.core.transactions == {}
    assert again.bodies(again.manager.find_queue(r".\private$\tx")) == [b"old"]
    assert host.crash().manager.core.transactions == {}


class Outcomes:
    def __init__(self, outcome: bool | None) -> None:
        self._outcome = outcome

    def outcome(self, transaction: UUID) -> bool | None:
        return self._outcome


@pytest.mark.spec("DM-012", "DM-065")
@pytest.mark.parametrize(("outcome", "bodies"), [(True, [b"new"]), (False, [b"old"])])
def test_a_prepared_transaction_waits_for_its_coordinator_over_restarts(
    host: Host, outcome: bool, bodies: list[bytes]
) -> None:
    identifier = work_in_a_transaction(host.engine)
    host.engine.do(host.engine.manager.prepare, identifier, single_phase=False)
    for outcomes in (None, Outcomes(None)):
        again = host.crash(outcomes=outcomes)
        restored = again.manager.core.transactions[identifier]
        assert restored.state is TransactionState.PREPARED
        assert len(restored.operations) == 2
        assert again.bodies(again.manager.find_queue(r".\private$\tx")) == []
    decided = host.crash(outcomes=Outcomes(outcome))
    assert decided.manager.core.transactions == {}
    assert decided.bodies(decided.manager.find_queue(r".\private$\tx")) == bodies
    assert host.crash().manager.core.transactions == {}


@pytest.mark.spec("DM-012")
def test_a_prepared_transaction_over_a_deleted_queue_does_not_stop_the_next_start(host: Host) -> None:
    identifier = work_in_a_transaction(host.engine)
    queue = host.engine.manager.find_queue(r".\private$\tx")
    host.engine.do(host.engine.manager.prepare, identifier, single_phase=False)
    host.engine.do(host.engine.manager.delete_queue, queue, host.engine.admin)
    again = host.crash()
    other = again.create(r".\private$\other", transactional=True)
    again.do(again.manager.commit, identifier)
    assert again.manager.core.transactions == {}
    assert other.message_count == 0


@pytest.mark.spec("DM-012")
def test_what_a_prepared_transaction_sent_to_a_deleted_queue_becomes_a_dead_letter(host: Host) -> None:
    engine = host.engine
    queue = engine.create(r".\private$\tx", transactional=True)
    transaction = engine.manager.begin()
    lost = Message(body=b"lost", negative_journaling_requested=True)
    engine.send(engine.sender(TX), lost, transaction)
    engine.do(engine.manager.prepare, transaction.identifier, single_phase=False)
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    again = host.crash()
    again.do(again.manager.commit, transaction.identifier)
    dead = again.receive(again.open(r"DIRECT=OS:.\system$;DEADXACT"))
    assert dead.body == b"lost"
    assert dead.failure_reason == MessageClass.NACK_Q_DELETED
