"""What is left of a deleted queue: nothing ([MS-MQDMPR] 3.1.7.1.4)."""

from collections.abc import Callable

import pytest

from lior.errors import LiorError, MessageStorageFailed, QueueNotAvailable, QueueNotFound, UnsupportedOperation
from lior.names import private_queue_number
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import QueueChanged
from lior.testing.engine import IDENTIFIER, Answer, ManualEngine
from tests.queues.conftest import Host

PATH = r".\private$\q"
LOCAL = r"DIRECT=OS:.\private$\q"
ADMIN = r"DIRECT=OS:.\private$\admin"


def names(engine: ManualEngine) -> tuple[str, ...]:
    number = private_queue_number(PATH)
    return (LOCAL, f"PRIVATE={IDENTIFIER}\\{number:08x}", LOCAL + ";JOURNAL", LOCAL + ";sub")


@pytest.mark.spec("DM-088")
def test_everyone_who_asked_hears_that_the_queue_was_deleted(engine: ManualEngine) -> None:
    engine.create(r".\private$\admin")
    queue = engine.create(journaling=True)
    for asked in (0, 8, 14):
        engine.send(
            engine.sender(LOCAL),
            body=b"%d" % asked,
            acknowledgements_requested=asked,
            administration_queue=r"DIRECT=OS:lior\private$\admin",
        )
    sub = engine.open(LOCAL + ";sub", QueueAccessType.MOVE)
    last = list(queue.available)[-1]
    engine.do(engine.manager.move, engine.open(LOCAL), last, sub)
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    nacks = engine.manager.find_queue(ADMIN)
    told = [nacks.position(i, engine.store).message for i in nacks.available]
    assert sorted(nack.body for nack in told) == [b"14", b"8"]
    assert {nack.message_class for nack in told} == {0xC000}
    assert engine.manager.bytes_in_all_queues() == sum(nack.size for nack in told)
    assert engine.manager.core.total_bytes == sum(nack.size for nack in told)
    assert QueueChanged(queue, "deleted") in engine.events


@pytest.mark.spec("DM-088")
def test_open_handles_of_a_deleted_queue_say_so_and_can_be_closed(engine: ManualEngine) -> None:
    queue = engine.create()
    reader, sender = engine.open(LOCAL), engine.sender(LOCAL)
    engine.send(sender)
    journal = engine.open(LOCAL + ";JOURNAL")
    cursor = engine.manager.open_cursor(reader)
    held = engine.receive(reader, two_phase=True)
    blocked = engine.start_receive(journal)
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    assert isinstance(blocked.error, QueueNotAvailable)
    calls: tuple[Callable[[], object], ...] = (
        lambda: engine.receive(reader),
        lambda: engine.peek(reader, cursor=cursor),
        lambda: engine.peek(journal),
        lambda: engine.send(sender),
        lambda: engine.do(engine.manager.receive_end, held, delete=True),
    )
    for call in calls:
        with pytest.raises(LiorError) as caught:
            call()
        assert caught.value.code in (0xC00E004B, 0xC00E005A)
    for handle in (reader, sender, journal):
        engine.manager.close(handle)
    assert engine.manager.opening.descriptors == {}


@pytest.mark.spec("DM-088")
def test_no_name_leads_to_a_deleted_queue_from_the_moment_of_the_call(engine: ManualEngine) -> None:
    queue = engine.create()
    number, journal = queue.private_number, queue.journal
    engine.open(LOCAL + ";sub", QueueAccessType.MOVE)
    answer = Answer()
    engine.manager.delete_queue(queue, engine.admin, answer)
    for committed in (False, True):
        for name in names(engine):
            with pytest.raises(QueueNotFound):
                engine.open(name)
        with pytest.raises(QueueNotFound):
            engine.manager.find_queue(PATH)
        assert answer.done is committed
        engine.commit()
    assert journal is not None
    assert queue.queue_id not in engine.manager.core.queues
    assert journal.queue_id not in engine.manager.core.queues
    assert queue.identifier not in engine.manager.core.identifiers
    assert all(known.parent is not queue for known in engine.manager.core.queues.values())
    assert engine.create().private_number == number


def test_a_deletion_that_the_disk_refused_leaves_the_queue_with_its_messages(engine: ManualEngine) -> None:
    queue = engine.create()
    engine.send(engine.sender(LOCAL), body=b"kept", delivery_guarantee=1)
    answer = Answer()
    engine.manager.delete_queue(queue, engine.admin, answer)
    engine.manager.failed(engine.manager.take_pending(), MessageStorageFailed("full"))
    assert isinstance(answer.error, MessageStorageFailed)
    assert engine.manager.find_queue(PATH) is queue
    assert engine.receive(engine.open(LOCAL)).body == b"kept"
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    assert engine.create() is not queue


@pytest.mark.spec("DM-088")
def test_a_queue_deleted_and_made_again_is_another_queue_after_a_restart(host: Host) -> None:
    engine = host.engine
    old = engine.create(journaling=True)
    engine.send(engine.sender(LOCAL), delivery_guarantee=1)
    engine.receive(engine.open(LOCAL))
    engine.send(engine.sender(LOCAL), delivery_guarantee=1)
    engine.do(engine.manager.delete_queue, old, engine.admin)
    new = engine.create()
    assert new.identifier != old.identifier
    again = host.crash().manager.find_queue(PATH)
    assert again.identifier == new.identifier
    assert again.message_count == 0
    assert again.journal is not None
    assert again.journal.message_count == 0
    assert host.engine.manager.core.journal_bytes == 0


@pytest.mark.parametrize("suffix", ["DEADLETTER", "DEADXACT", "JOURNAL"])
def test_a_system_queue_is_not_deleted(engine: ManualEngine, suffix: str) -> None:
    with pytest.raises(UnsupportedOperation):
        engine.do(engine.manager.delete_queue, engine.manager.find_queue(rf".\system$;{suffix}"), engine.admin)
