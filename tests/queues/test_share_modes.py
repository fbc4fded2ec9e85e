"""Who may open a queue beside whom ([MS-MQDMPR] 3.1.7.1.5, [MS-MQMP] 3.1.4.17 for what it leaves open)."""

import pytest

from lior.errors import AccessDenied, SharingViolation
from lior.queues.descriptor import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from lior.security import local_caller
from lior.testing.engine import ManualEngine

A, S = QueueAccessType, QueueShareMode

# The table by hand. Rows: what is open already. Columns: what comes, first without and then with DenyReceive.
# R receive, S send, P peek, M move, r receive-admin, p peek-admin; x is refused, "." is opened.
# An exclusive receiver refuses peeks too: the mode says so, [MS-MQMP] says so, the steps of 3.1.7.1.5 forget it.
TABLE = """
        RSPMrp RSPMrp
N   R   ...... xxxxxx
N   S   ...... ......
N   P   ...... ......
N   M   ...... ......
N   r   ...... xxxxxx
N   p   ...... ......
D   R   x.x.xx xxxxxx
D   S   ...... ......
D   P   x...x. x...x.
D   M   ...... ......
D   r   x.x.xx xxxxxx
D   p   x...x. x...x.
"""
MODES = {"N": S.DENY_NONE, "D": S.DENY_RECEIVE}
KINDS = {"R": A.RECEIVE, "S": A.SEND, "P": A.PEEK, "M": A.MOVE, "r": A.RECEIVE_ADMIN, "p": A.PEEK_ADMIN}


def cases() -> list[tuple[QueueShareMode, QueueAccessType, QueueShareMode, QueueAccessType, bool]]:
    result = []
    for line in TABLE.strip().splitlines()[1:]:
        mode, kind, plain, exclusive = line.split()
        for share, columns in ((S.DENY_NONE, plain), (S.DENY_RECEIVE, exclusive)):
            for letter, cell in zip("RSPMrp", columns, strict=True):
                result.append((MODES[mode], KINDS[kind], share, KINDS[letter], cell == "."))
    return result


def test_the_table_has_every_pair_of_modes_and_accesses() -> None:
    assert len(set(cases())) == len(cases()) == 2 * 6 * 2 * 6


@pytest.mark.spec("DM-094", "DM-095", "DM-058")
@pytest.mark.parametrize(("first_share", "first", "share", "access", "opened"), cases())
def test_a_second_opener_finds_the_queue_shared_as_the_table_says(
    engine: ManualEngine,
    first_share: QueueShareMode,
    first: QueueAccessType,
    share: QueueShareMode,
    access: QueueAccessType,
    opened: bool,
) -> None:
    queue = engine.create()
    earlier = engine.open(access=first, share=first_share)
    assert (earlier.access, earlier.share) == (first, first_share)
    if opened:
        later = engine.open(access=access, share=share)
        assert queue.descriptors == [earlier, later]
    else:
        with pytest.raises(SharingViolation) as caught:
            engine.open(access=access, share=share)
        assert caught.value.code == 0xC00E0009
        assert queue.descriptors == [earlier]
        assert list(engine.manager.opening.descriptors.values()) == [earlier]


@pytest.mark.spec("DM-094", "DM-096")
def test_the_share_ends_when_its_handle_is_closed(engine: ManualEngine) -> None:
    engine.create()
    exclusive = engine.open(share=S.DENY_RECEIVE)
    engine.manager.close(exclusive)
    again = engine.open(share=S.DENY_RECEIVE)
    engine.manager.close(again)
    assert isinstance(engine.open(), OpenQueueDescriptor)


@pytest.mark.spec("DM-094")
def test_any_of_several_openers_can_refuse(engine: ManualEngine) -> None:
    engine.create()
    engine.open(access=A.PEEK)
    engine.open(access=A.SEND)
    engine.open(access=A.RECEIVE)
    with pytest.raises(SharingViolation):
        engine.open(access=A.PEEK, share=S.DENY_RECEIVE)


@pytest.mark.spec("DM-094")
def test_an_exclusive_reader_of_a_queue_leaves_its_journal_and_subqueues_to_others(engine: ManualEngine) -> None:
    engine.create()
    engine.open(share=S.DENY_RECEIVE)
    engine.open(r"DIRECT=OS:.\private$\q;JOURNAL")
    engine.open(r"DIRECT=OS:.\private$\q;sub")


@pytest.mark.spec("DM-094")
def test_an_exclusive_administrator_of_an_outgoing_queue_does_not_hinder_senders(engine: ManualEngine) -> None:
    remote = r"DIRECT=TCP:192.0.2.99\private$\q"
    engine.send(engine.sender(remote))
    engine.open(remote, A.RECEIVE_ADMIN, S.DENY_RECEIVE)
    engine.send(engine.sender(remote))
    with pytest.raises(SharingViolation):
        engine.open(remote, A.PEEK_ADMIN)


def test_a_refused_opener_of_a_subqueue_leaves_no_empty_subqueue(engine: ManualEngine) -> None:
    queue = engine.create()
    for number in range(3):
        with pytest.raises(AccessDenied):
            engine.open(rf"DIRECT=OS:.\private$\q;s{number}", A.RECEIVE, caller=local_caller(1000, [1000]))
    assert queue.subqueues == {}
    assert all(known.parent is not queue or known is queue.journal for known in engine.manager.core.queues.values())
