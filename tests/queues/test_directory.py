"""Without a directory service: every call of [MS-MQDMPR] 3.1.7.1.18 to 3.1.7.1.24 says so, and names that need one
end in the documented error."""

from uuid import UUID

import pytest

from lior.errors import LiorError, NoDirectory
from lior.queues.definition import QueueProperties
from lior.queues.descriptor import QueueAccessType
from lior.queues.directory import (
    Directory,
    DirectoryAnswer,
    DirectoryOperationResult,
    Filter,
    NullDirectory,
    by_identifier,
)
from lior.queues.outgoing import OutgoingQueue
from lior.testing.engine import Answer, ManualEngine

OTHER = UUID("aabbccdd-0011-2233-4455-66778899aabb")
SEND = QueueAccessType.SEND
R = DirectoryOperationResult


@pytest.mark.spec("DM-119")
def test_every_call_says_that_there_is_no_directory(engine: ManualEngine) -> None:
    directory: Directory = engine.manager.core.directory
    queue, manager = engine.create(), engine.manager.core.properties
    for answer in (
        directory.create(queue),
        directory.create(manager, ["QuotaKB"]),
        directory.delete(queue),
        directory.read("Queue", by_identifier(queue.identifier)),
        directory.read("QueueManager", [Filter("Identifier", "EQUALS", manager.identifier)], ["ComputerName"]),
        directory.begin_read("Queue"),
        directory.next_read(1),
        directory.end_read(1),
        directory.write(queue, attributes=["Label"]),
    ):
        assert answer == DirectoryAnswer(R.DIRECTORY_NOT_CONNECTED, None)
    assert engine.manager.take_pending() == []
    assert manager.directory_offline is False


@pytest.mark.spec("DM-119")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        (f"PUBLIC={OTHER}", 0xC00E0020),
        (f"PRIVATE={OTHER}\\00000001", 0xC00E0013),
        (f"DL={OTHER}", 0xC00E0013),
    ],
)
def test_a_name_that_only_a_directory_knows_is_refused_at_once(engine: ManualEngine, name: str, code: int) -> None:
    with pytest.raises(LiorError) as caught:
        engine.open(name, SEND)
    assert caught.value.code == code
    assert engine.manager.core.outgoing == {}


@pytest.mark.spec("DM-119")
def test_a_public_queue_is_not_created(engine: ManualEngine) -> None:
    before = set(engine.manager.core.paths)
    with pytest.raises(NoDirectory) as caught:
        engine.manager.create_queue(r".\orders", QueueProperties(), engine.admin, Answer())
    assert caught.value.code == 0xC00E0013
    assert engine.manager.take_pending() == []
    assert set(engine.manager.core.paths) == before


class OneObject(NullDirectory):
    """A directory that knows one identifier."""

    def read(self, object_type, filters=(), attributes=None):  # type: ignore[no-untyped-def]
        self.asked = (object_type, tuple(filters))
        known = tuple(filters) == by_identifier(OTHER)
        return DirectoryAnswer(R.SUCCESS if known else R.OBJECT_NOT_FOUND)


@pytest.mark.parametrize(
    ("name", "object_type"), [(f"PUBLIC={OTHER}", "Queue"), (f"PRIVATE={OTHER}\\00000001", "QueueManager")]
)
def test_what_the_directory_knows_can_be_sent_to(engine: ManualEngine, name: str, object_type: str) -> None:
    directory = OneObject()
    engine.manager.core.directory = directory
    assert isinstance(engine.open(name, SEND).queue, OutgoingQueue)
    assert directory.asked == (object_type, (Filter("Identifier", "EQUALS", OTHER),))
    with pytest.raises(LiorError):
        engine.open(name.replace("aabb", "ccdd"), SEND)
