"""Opening and closing ([MS-MQDMPR] 3.1.7.1.5, 3.1.7.1.6), cursors' life, names of queues."""


import pytest

from lior.errors import (
    IllegalFormatName,
    LiorError,
    NoDirectory,
    QueueNotFound,
    UnsupportedAccessMode,
    UnsupportedFormatNameOperation,
)
from lior.names import MultipleName, queue_path
from lior.names.parsing import parse_single_name
from lior.queues.descriptor import (
    QueueAccessType,
    QueueShareMode,
)
from lior.queues.outgoing import OutgoingQueue, OutgoingState
from lior.testing.engine import IDENTIFIER, ManualEngine

A = QueueAccessType
LOCAL = r"DIRECT=OS:.\private$\q"
REMOTE = r"DIRECT=TCP:192.0.2.99\private$\q"
OTHER = "11111111-2222-3333-4444-555555555555"


# --- which names, which queues


@pytest.mark.spec("DM-089")
def test_a_distribution_list_cannot_be_expanded_without_a_directory(engine: ManualEngine) -> None:
    for name in (f"DL={OTHER}", f"{REMOTE},DL={OTHER}"):
        for access in (A.SEND, A.RECEIVE):
            with pytest.raises(NoDirectory) as caught:
                engine.open(name, access)
            assert caught.value.code == 0xC00E0013
    assert engine.manager.opening.descriptors == {}
    assert engine.manager.core.outgoing == {}


@pytest.mark.spec("DM-135")
def test_elements_are_sorted_and_taken_once_whatever_their_case(engine: ManualEngine) -> None:
    b, a = r"DIRECT=OS:b\private$\q", r"DIRECT=OS:a\private$\q"
    handle = engine.open(f"{b},{a},{a.upper()}", A.SEND)
    assert [str(child.format_name).lower() for child in handle.children] == [a.lower(), b.lower()]
    assert isinstance(handle.format_name, MultipleName)
    assert str(handle.format_name).lower() == f"{a},{b}".lower()
    single = engine.open(f"{a},{a.upper()}", A.SEND)
    assert not single.multiple
    assert single.queue is handle.children[0].queue


@pytest.mark.spec("DM-090")
def test_several_queues_are_opened_for_sending_and_for_sharing_only(engine: ManualEngine) -> None:
    engine.create()
    name = f"{LOCAL},{REMOTE}"
    for access in (A.RECEIVE, A.PEEK, A.MOVE, A.RECEIVE_ADMIN, A.PEEK_ADMIN):
        with pytest.raises(UnsupportedFormatNameOperation) as wrong:
            engine.open(name, access)
        assert wrong.value.code == 0xC00E0020
    with pytest.raises(UnsupportedAccessMode) as exclusive:
        engine.open(name, A.SEND, QueueShareMode.DENY_RECEIVE)
    assert exclusive.value.code == 0xC00E0045


@pytest.mark.spec("DM-090")
def test_one_bad_element_opens_none(engine: ManualEngine) -> None:
    queue = engine.create()
    for bad in (r"DIRECT=OS:.\private$\zzz", f"MACHINE={IDENTIFIER};DEADLETTER"):
        with pytest.raises(LiorError):
            engine.open(f"{LOCAL},{REMOTE},{bad}", A.SEND)
        assert queue.descriptors == []
        assert engine.manager.opening.descriptors == {}
        assert engine.manager.core.outgoing == {}


SEND_ONLY = ["DIRECT=HTTP://h/msmq/private$/q", "DIRECT=HTTPS://h/msmq/private$/q", "MULTICAST=224.1.1.1:8001"]


@pytest.mark.spec("DM-091")
@pytest.mark.parametrize("access", list(A))
@pytest.mark.parametrize("name", SEND_ONLY)
def test_http_and_multicast_names_are_only_sent_to(engine: ManualEngine, name: str, access: QueueAccessType) -> None:
    if access is A.SEND:
        assert isinstance(engine.open(name, access).queue, OutgoingQueue)
        return
    with pytest.raises(UnsupportedFormatNameOperation) as caught:
        engine.open(name, access)
    assert caught.value.code == 0xC00E0020


@pytest.mark.spec("DM-091")
@pytest.mark.parametrize("guid", [str(IDENTIFIER), OTHER])
def test_a_machine_name_is_never_sent_to(engine: ManualEngine, guid: str) -> None:
    with pytest.raises(UnsupportedFormatNameOperation) as caught:
        engine.open(f"MACHINE={guid};DEADXACT", A.SEND)
    assert caught.value.code == 0xC00E0020


HERE = [
    r"OS:.\private$\none",
    r"OS:lior\private$\none",
    r"OS:LIOR.example.org\private$\none",
    r"OS:localhost\private$\none",
    r"TCP:127.0.0.1\private$\none",
    r"TCP:192.0.2.7\private$\none",
    r"OS:lior\none",
    "HTTP://lior.example.org/msmq/private$/none",
]


@pytest.mark.spec("DM-092")
@pytest.mark.parametrize("name", [f"DIRECT={here}" for here in HERE] + [f"PRIVATE={IDENTIFIER}\\00000001"])
def test_a_queue_that_should_be_here_and_is_not_is_not_found(engine: ManualEngine, name: str) -> None:
    for access in (A.SEND,) if "HTTP" in name else (A.SEND, A.RECEIVE, A.PEEK):
        with pytest.raises(QueueNotFound) as caught:
            engine.open(name, access)
        assert caught.value.code == 0xC00E0003
    assert engine.manager.core.outgoing == {}


@pytest.mark.spec("DM-092")
@pytest.mark.parametrize("name", [here.replace("none", "q") for here in HERE if "private" in here])
def test_every_name_of_this_computer_means_the_local_queue(engine: ManualEngine, name: str) -> None:
    assert engine.create() is engine.open(f"DIRECT={name}", A.SEND).queue


@pytest.mark.spec("DM-092")
@pytest.mark.parametrize("name", [REMOTE, r"DIRECT=OS:else\q", f"PRIVATE={OTHER}\\1", f"PUBLIC={OTHER}"])
def test_a_queue_elsewhere_is_not_found_for_reading(engine: ManualEngine, name: str) -> None:
    if name is REMOTE:
        engine.open(name, A.SEND)
    for access in (A.RECEIVE, A.PEEK, A.MOVE):
        with pytest.raises(QueueNotFound) as caught:
            engine.open(name, access)
        assert caught.value.code == 0xC00E0003


@pytest.mark.spec("DM-092")
def test_a_public_name_cannot_be_sent_to_without_a_directory(engine: ManualEngine) -> None:
    with pytest.raises(UnsupportedFormatNameOperation) as caught:
        engine.open(f"PUBLIC={OTHER}", A.SEND)
    assert caught.value.code == 0xC00E0020


@pytest.mark.spec("DM-093")
def test_an_outgoing_queue_is_made_for_each_distinct_name(engine: ManualEngine) -> None:
    names = (REMOTE, r"DIRECT=OS:there\private$\q", "MULTICAST=224.1.1.1:8001")
    queues = [engine.open(name, A.SEND).queue for name in names]
    assert len({queue.identifier for queue in queues if queue is not None}) == 3
    for queue, name in zip(queues, names, strict=True):
        assert isinstance(queue, OutgoingQueue)
        assert queue.properties.label == str(queue.destination) == name
        assert queue.state is OutgoingState.INACTIVE
        assert queue.next_hops == ()
        assert queue.properties.base_priority == 0
        assert queue.multicast is name.startswith("MULTICAST")
        assert engine.open(name.lower().replace("direct", "DIRECT"), A.SEND).queue is queue


@pytest.mark.spec("DM-093")
def test_a_hardened_queue_manager_locks_new_outgoing_queues_but_http(engine: ManualEngine) -> None:
    hardened = ManualEngine(hardened_security=True)
    states = [hardened.open(name, A.SEND).queue for name in (REMOTE, *SEND_ONLY)]
    found = [queue.state for queue in states if isinstance(queue, OutgoingQueue)]
    assert found == [OutgoingState.LOCKED, OutgoingState.INACTIVE, OutgoingState.INACTIVE, OutgoingState.LOCKED]


# --- path of a format name


@pytest.mark.spec("DM-120")
def test_a_format_name_leads_to_a_path_where_no_directory_is_needed(engine: ManualEngine) -> None:
    queue = engine.create(r".\private$\Q")

    def path_of(number: int) -> str | None:
        found = engine.manager.core.private_numbers.get(number)
        return None if found is None else str(found.path)

    def path(name: str) -> str:
        return str(queue_path(parse_single_name(name), engine.manager.core.local, path_of))

    own = f"PRIVATE={IDENTIFIER}\\{queue.private_number:08x}"
    assert path(r"DIRECT=TCP:192.0.2.99\private$\q") == r"192.0.2.99\private$\q"
    assert path("DIRECT=HTTP://web.example/msmq/private$/q") == r"web.example\private$\q"
    assert path(own) == r"lior\private$\Q"
    assert path(own + ";JOURNAL") == r"lior\private$\Q;JOURNAL"
    foreign = f"PRIVATE={OTHER}\\{queue.private_number:08x}"
    for unknown in (f"PUBLIC={OTHER}", foreign, f"PRIVATE={IDENTIFIER}\\00000001"):
        with pytest.raises(IllegalFormatName) as caught:
            path(unknown)
        assert caught.value.code == 0xC00E001E
