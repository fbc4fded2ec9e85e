"""Operations and rights: who may do what to a queue and to the queue manager ([MS-MQMQ] 2.2.23, 2.2.24)."""

from collections.abc import Callable
from typing import Any

import pytest

from lior.errors import (
    AccessDenied,
    IllegalPropertyValue,
    LiorError,
    MessageNotAuthenticated,
    UnsupportedOperation,
)
from lior.message import Message, MessageSecurity
from lior.queues.definition import QueueProperties
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import AccessAudited
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.security import (
    ADMINISTRATORS,
    ANONYMOUS,
    ANONYMOUS_CALLER,
    EVERYONE,
    Acl,
    Caller,
    QueueAccess,
    QueueManagerAccess,
    SecurityDescriptor,
    SecurityInformation,
    allow,
    local_caller,
    unix_user_sid,
)
from lior.testing.engine import ManualEngine

A = QueueAccessType
LOCAL = r"DIRECT=OS:.\private$\q"
REMOTE = r"DIRECT=TCP:192.0.2.99\private$\q"
ANNA, BEN = local_caller(1000, [1000]), local_caller(1001, [1001])
OWNER = unix_user_sid(9)  # who owns what the tests guard, and never asks for anything
Operation = Callable[[ManualEngine, Queue, Caller], Any]


def guarded(sid: Any, mask: int) -> SecurityDescriptor:
    return SecurityDescriptor(owner=OWNER, dacl=Acl.of(allow(sid, mask)))


def opens(access: QueueAccessType, name: str = LOCAL) -> Operation:
    return lambda engine, queue, caller: engine.open(name, access, caller=caller)


def sets_security(information: int) -> Operation:
    wanted = guarded(EVERYONE, 0x3F)
    return lambda engine, queue, caller: engine.do(
        engine.manager.set_queue_security, queue, information, wanted, caller
    )


def gets_security(engine: ManualEngine, queue: Queue, caller: Caller) -> SecurityDescriptor:
    return engine.manager.administration.get_security(queue, 0x07, caller)


# What each needs, from the tables: DELETE_MESSAGE 1, PEEK_MESSAGE 2, WRITE_MESSAGE 4, DELETE_JOURNAL_MESSAGE 8, ...
ON_A_QUEUE: dict[str, tuple[int, Operation]] = {
    "open to receive": (0x3, opens(A.RECEIVE)),
    "open to peek": (0x2, opens(A.PEEK)),
    "open to send": (0x4, opens(A.SEND)),
    "open to move": (0x3, opens(A.MOVE, LOCAL + ";sub")),
    "open a subqueue to receive": (0x3, opens(A.RECEIVE, LOCAL + ";sub")),
    "open the journal to receive": (0xA, opens(A.RECEIVE, LOCAL + ";JOURNAL")),
    "open the journal to peek": (0x2, opens(A.PEEK, LOCAL + ";JOURNAL")),
    "purge": (0x3, lambda e, q, c: e.do(e.manager.purge, q, c)),
    "purge the journal": (0xA, lambda e, q, c: e.do(e.manager.purge, q.journal, c)),
    "set properties": (0x10, lambda e, q, c: e.do(e.manager.set_queue_properties, q, {"label": "l"}, c)),
    "delete": (0x10000, lambda e, q, c: e.do(e.manager.delete_queue, q, c)),
    "get security": (0x20000, gets_security),
    "set the list": (0x40000, sets_security(SecurityInformation.DACL)),
    "take ownership": (0x80000, sets_security(SecurityInformation.OWNER)),
    "set owner and list": (0xC0000, sets_security(SecurityInformation.OWNER | SecurityInformation.DACL)),
}


def queue_with(engine: ManualEngine, mask: int) -> Queue:
    """A queue on which BEN has exactly these rights."""
    return engine.create(security=guarded(BEN.sid, mask))


@pytest.mark.spec("MQ-145", "MQ-146")
@pytest.mark.parametrize("operation", ON_A_QUEUE)
def test_an_operation_on_a_queue_needs_its_rights_and_no_others(engine: ManualEngine, operation: str) -> None:
    needed, call = ON_A_QUEUE[operation]
    call(engine, queue_with(engine, needed), BEN)


MISSING = [(name, bit) for name, (needed, _) in ON_A_QUEUE.items() for bit in QueueAccess if needed & bit]
SINGLE = [(name, int(bit)) for name, bit in MISSING if int(bit).bit_count() == 1]


@pytest.mark.spec("MQ-145", "MQ-146")
@pytest.mark.parametrize(("operation", "bit"), SINGLE)
def test_an_operation_on_a_queue_fails_when_one_of_its_rights_is_missing(
    engine: ManualEngine, operation: str, bit: int
) -> None:
    queue = queue_with(engine, 0xF003F & ~bit)
    with pytest.raises(AccessDenied) as caught:
        ON_A_QUEUE[operation][1](engine, queue, BEN)
    assert caught.value.code == 0xC00E0025
    audited = [event for event in engine.events if isinstance(event, AccessAudited)]
    assert [(event.caller, event.wanted, event.denied) for event in audited] == [
        (BEN, ON_A_QUEUE[operation][0], bit)
    ]
    assert not queue.deleted
    assert queue.properties.label == ""


def system(suffix: str) -> str:
    return rf"DIRECT=OS:.\system$;{suffix}"


# DELETE_DEADLETTER 1, PEEK_DEADLETTER 2, CREATE_QUEUE 4, SET_PROPERTIES 0x10, the journal's 0x40 and 0x80, ...
ON_THE_MANAGER: dict[str, tuple[int, Operation]] = {
    "receive dead letters": (0x3, opens(A.RECEIVE, system("DEADLETTER"))),
    "peek dead letters": (0x2, opens(A.PEEK, system("DEADLETTER"))),
    "receive transactional dead letters": (0x3, opens(A.RECEIVE, system("DEADXACT"))),
    "peek transactional dead letters": (0x2, opens(A.PEEK, system("DEADXACT"))),
    "receive the journal": (0xC0, opens(A.RECEIVE, system("JOURNAL"))),
    "peek the journal": (0x80, opens(A.PEEK, system("JOURNAL"))),
    "purge dead letters": (0x3, lambda e, q, c: e.do(e.manager.purge, e.manager.find_queue(system("DEADLETTER")), c)),
    "create a queue": (0x4, lambda e, q, c: e.create(r".\private$\new", c)),
    "set properties": (0x10, lambda e, q, c: e.do(e.manager.set_manager_properties, {"journal_quota": 1}, c)),
    "go offline": (0x10, lambda e, q, c: e.do(e.manager.set_online, False, c)),
    "pause": (0x10, lambda e, q, c: e.do(e.manager.administration.pause, q, c)),
    "resume": (0x10, lambda e, q, c: e.do(e.manager.administration.resume, q, c)),
    "get security": (0x20000, lambda e, q, c: e.manager.machine.get_security(0x07, c)),
    "set the list": (0x40000, lambda e, q, c: e.do(e.manager.set_manager_security, 4, guarded(EVERYONE, 1), c)),
    "take ownership": (0x80000, lambda e, q, c: e.do(e.manager.set_manager_security, 1, guarded(EVERYONE, 1), c)),
}


def manager_with(mask: int) -> tuple[ManualEngine, OutgoingQueue]:
    """A queue manager on which BEN has exactly these rights, and a paused outgoing queue of it."""
    engine = ManualEngine(security=guarded(BEN.sid, mask))
    outgoing = engine.sender(REMOTE).queue
    assert isinstance(outgoing, OutgoingQueue)
    return engine, outgoing


@pytest.mark.spec("MQ-143", "MQ-144", "DM-008")
@pytest.mark.parametrize("operation", ON_THE_MANAGER)
def test_an_operation_on_the_queue_manager_needs_its_rights_and_no_others(operation: str) -> None:
    needed, call = ON_THE_MANAGER[operation]
    engine, outgoing = manager_with(needed)
    call(engine, outgoing, BEN)


@pytest.mark.spec("MQ-143", "MQ-144", "DM-008")
@pytest.mark.parametrize(
    ("operation", "bit"),
    [(name, 1 << n) for name, (needed, _) in ON_THE_MANAGER.items() for n in range(20) if needed & 1 << n],
)
def test_an_operation_on_the_queue_manager_fails_when_one_of_its_rights_is_missing(operation: str, bit: int) -> None:
    engine, outgoing = manager_with(0xF00F7 & ~bit)
    if operation == "resume":
        engine.do(engine.manager.administration.pause, outgoing, engine.admin)
    with pytest.raises(AccessDenied) as caught:
        ON_THE_MANAGER[operation][1](engine, outgoing, BEN)
    assert caught.value.code == 0xC00E0025
    assert engine.manager.core.properties.connection_active
    assert engine.manager.core.properties.journal_quota == 0xFFFFFFFF


def test_strangers_do_not_read_outgoing_queues_and_administrators_do(engine: ManualEngine) -> None:
    engine.send(engine.open(REMOTE, A.SEND, caller=ANONYMOUS_CALLER), body=b"x")
    for access in (A.PEEK_ADMIN, A.RECEIVE_ADMIN):
        with pytest.raises(AccessDenied):
            engine.open(REMOTE, access, caller=ANNA)
        engine.open(REMOTE, access)
    with pytest.raises(AccessDenied):
        engine.do(engine.manager.purge, engine.manager.find_queue(REMOTE), ANNA)


def test_changed_rights_hold_from_the_next_open(engine: ManualEngine) -> None:
    queue = queue_with(engine, 0x3)
    handle = engine.open(LOCAL, caller=BEN)
    sets_security(SecurityInformation.DACL)(engine, queue, engine.admin)
    assert queue.properties.security is not None
    assert queue.properties.security.owner == OWNER
    engine.open(LOCAL, A.SEND, caller=ANNA)
    engine.send(engine.sender(LOCAL))
    assert engine.receive(handle) is not None


@pytest.mark.parametrize("name", [system("DEADLETTER"), REMOTE])
def test_queues_without_rights_of_their_own_have_none_to_show_or_set(engine: ManualEngine, name: str) -> None:
    engine.sender(REMOTE)
    queue = engine.manager.find_queue(name)
    for call in (gets_security, sets_security(4), ON_A_QUEUE["delete"][1], ON_A_QUEUE["set properties"][1]):
        with pytest.raises(UnsupportedOperation):
            call(engine, queue, engine.admin)


# --- defaults


@pytest.mark.spec("DM-008")
def test_a_user_of_this_computer_creates_queues_and_a_stranger_does_not(engine: ManualEngine) -> None:
    assert engine.create(caller=ANNA).properties.security is not None
    stranger = Caller(unix_user_sid(5), authenticated=True)
    for caller in (ANONYMOUS_CALLER, stranger):
        with pytest.raises(AccessDenied) as caught:
            engine.create(r".\private$\p", caller)
        assert caught.value.code == 0xC00E0025


@pytest.mark.spec("DM-086")
def test_a_hardened_queue_is_sent_to_by_anyone_and_read_by_its_owner(engine: ManualEngine) -> None:
    queue = engine.create(caller=ANNA)
    security = queue.properties.security
    assert security is not None
    assert security.owner == ANNA.sid
    for caller in (ANONYMOUS_CALLER, BEN, ANNA, engine.admin):
        engine.open(LOCAL, A.SEND, caller=caller)
    for access in (A.RECEIVE, A.PEEK, A.MOVE):
        for caller in (ANONYMOUS_CALLER, BEN):
            with pytest.raises(AccessDenied):
                engine.open(LOCAL, access, caller=caller)
        engine.open(LOCAL, access, caller=ANNA)
    for name in ("purge", "set properties", "delete", "set the list"):
        with pytest.raises(AccessDenied):
            ON_A_QUEUE[name][1](engine, queue, BEN)
    ON_A_QUEUE["delete"][1](engine, queue, ANNA)


@pytest.mark.spec("DM-086")
def test_the_literal_default_of_a_workgroup_gives_everyone_everything() -> None:
    engine = ManualEngine(literal_default_rights=True, srmp_http_support=False)
    queue = engine.create(caller=ANNA)
    assert queue.properties.security == SecurityDescriptor(
        owner=ANONYMOUS, dacl=Acl.of(allow(EVERYONE, QueueAccess.GENERIC_ALL))
    )
    engine.open(LOCAL, A.RECEIVE, caller=BEN)


@pytest.mark.spec("DM-086")
@pytest.mark.parametrize("literal", [False, True])
def test_a_list_that_the_creator_supplies_is_kept(literal: bool) -> None:
    engine = ManualEngine(literal_default_rights=literal)
    supplied = SecurityDescriptor(dacl=Acl.of(allow(BEN.sid, 0x2)))
    queue = engine.create(caller=ANNA, security=supplied)
    assert queue.properties.security is not None
    assert queue.properties.security.dacl == supplied.dacl
    engine.open(LOCAL, A.PEEK, caller=BEN)
    with pytest.raises(AccessDenied):
        engine.open(LOCAL, A.SEND, caller=BEN)


@pytest.mark.spec("DM-087")
@pytest.mark.parametrize("reachable", [False, True])
def test_a_queue_that_http_reaches_lets_world_and_anonymous_write(reachable: bool) -> None:
    engine = ManualEngine(literal_default_rights=True, srmp_http_support=reachable)
    security = engine.create(caller=ANNA).properties.security
    assert security is not None
    assert security.dacl is not None
    writers = {ace.sid for ace in security.dacl.aces if ace.mask & QueueAccess.WRITE_MESSAGE}
    assert (ANONYMOUS in writers) is reachable
    assert EVERYONE in writers


def test_the_default_rights_of_the_queue_manager_keep_dead_letters_to_administrators(engine: ManualEngine) -> None:
    security = engine.manager.core.properties.security
    assert security is not None
    assert security.owner == ADMINISTRATORS
    with pytest.raises(AccessDenied):
        engine.open(system("DEADLETTER"), A.PEEK, caller=ANNA)
    engine.manager.access.check_manager(ANNA, QueueManagerAccess.GET_PROPERTIES, "")


# --- what a queue wants of its messages


@pytest.mark.spec("MQ-160")
def test_a_queue_that_authenticates_takes_signed_messages_only(engine: ManualEngine) -> None:
    queue = engine.create(authentication=True)
    for security in (None, MessageSecurity(signature=b"unverified")):
        with pytest.raises(MessageNotAuthenticated) as caught:
            engine.send(engine.sender(), Message(security=security))
        assert caught.value.code == 0xC00E009B
    engine.send(engine.sender(), Message(security=MessageSecurity(authentication_level=5)))
    engine.do(engine.manager.set_queue_properties, queue, {"authentication": False}, engine.admin)
    engine.send(engine.sender(), Message())
    assert queue.message_count == 2


# rows: what the queue wants (0 clear, 1 either, 2 encrypted); columns: the message's privacy 0, 1, 3, 5
PRIVACY = {0: "x...", 1: "xxxx", 2: ".xxx"}


@pytest.mark.spec("MQ-161")
@pytest.mark.parametrize("wanted", PRIVACY)
def test_a_queue_takes_the_privacy_it_wants(engine: ManualEngine, wanted: int) -> None:
    queue = engine.create(privacy_level=wanted)
    taken = ""
    for level in (0, 1, 3, 5):
        try:
            engine.send(engine.sender(), Message(security=MessageSecurity(privacy_level=level)))
            taken += "x"
        except IllegalPropertyValue:
            taken += "."
    assert taken == PRIVACY[wanted]
    assert queue.message_count == taken.count("x")


def test_every_queue_here_has_rights_from_its_creation_on(engine: ManualEngine) -> None:
    assert QueueProperties().security is None
    for queue in (engine.create(), engine.create(r".\private$\p", ANNA)):
        assert engine.manager.access.descriptor_of(queue).owner is not None
        assert queue.journal is not None
        assert engine.manager.access.descriptor_of(queue.journal) is queue.properties.security
    with pytest.raises(LiorError):
        engine.create(security="everyone")
