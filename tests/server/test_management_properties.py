"""Management properties of a running queue manager ([MS-MQMQ] 2.3.11, 2.3.12)."""

import struct
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest

from lior.errors import IllegalPropertyId
from lior.queues.descriptor import QueueAccessType
from lior.queues.outgoing import (
    HISTORY,
    ConnectionHistoryEntry,
    ConnectionStatus,
    IncomingTransactionalTransferInfo,
    OutgoingQueue,
    OutgoingState,
    OutgoingTransferInfo,
    SequenceInfo,
)
from lior.queues.queue import Queue
from lior.server.properties import management_machine_values, management_queue_values
from lior.testing.engine import IDENTIFIER, ManualEngine
from lior.wire.properties import ObjectClass, check_value, property_of
from tests.server.property_answers import on_the_wire

REMOTE = r"DIRECT=TCP:192.0.2.98\private$\q"
MULTICAST = "MULTICAST=224.1.1.1:8001"
# By hand from [MS-MQMQ] 2.3.11 and 2.3.12; 1 is VT_NULL
MACHINE_TYPES = {1: 0x101F, 2: 0x101F, 3: 1, 4: 31, 5: 31, 6: 20}
TRANSFER_TYPES = {
    13: 65, 14: 3, 15: 19, 16: 65, 17: 65, 18: 65, 19: 19, 20: 19, 21: 3, 22: 19, 23: 19, 25: 0x100C,
}  # fmt: skip
QUEUE_TYPES = {
    1: 31, 2: 31, 3: 31, 4: 31, 5: 31, 6: 31, 7: 19, 8: 19, 9: 19, 10: 19, 11: 31, 12: 0x101F, **TRANSFER_TYPES,
    24: 0x100C, 26: 19, 27: 0x101F,
}  # fmt: skip
LOCAL_TYPES = QUEUE_TYPES | dict.fromkeys((12, *TRANSFER_TYPES), 1)
S = OutgoingState


def machine(engine: ManualEngine, *propids: int) -> dict[int, Any]:
    answers = on_the_wire(management_machine_values(engine.manager, propids))
    return {propid: value for propid, (_, value) in answers.items()}


def asked(engine: ManualEngine, queue: Queue, *propids: int) -> dict[int, Any]:
    answers = on_the_wire(management_queue_values(engine.manager, queue, propids))
    return {propid: value for propid, (_, value) in answers.items()}


def outgoing(engine: ManualEngine, name: str = REMOTE) -> OutgoingQueue:
    queue = engine.sender(name).queue
    assert isinstance(queue, OutgoingQueue)
    return queue


# --- the queue manager


@pytest.mark.spec("MQ-190")
def test_all_six_are_answered_in_one_call_and_there_are_no_others(engine: ManualEngine) -> None:
    answers = on_the_wire(management_machine_values(engine.manager, MACHINE_TYPES))
    assert {propid: vt for propid, (vt, _) in answers.items()} == MACHINE_TYPES
    for propid, variant in management_machine_values(engine.manager, MACHINE_TYPES).items():
        check_value(property_of(ObjectClass.MANAGEMENT_MACHINE, propid), variant)
    for unknown in (0, 7, 27, 101):
        with pytest.raises(IllegalPropertyId):
            management_machine_values(engine.manager, [unknown])


@pytest.mark.spec("MQ-191", "DM-016")
def test_active_queues_follow_open_and_close_and_what_waits_to_leave(engine: ManualEngine) -> None:
    engine.create()
    engine.create(r".\private$\idle")
    assert machine(engine, 1) == {1: ()}
    reader, sender = engine.open(), engine.sender(REMOTE)
    assert set(machine(engine, 1)[1]) == {r"DIRECT=OS:lior\private$\q", REMOTE}
    engine.send(sender)
    for handle in (reader, sender):
        engine.manager.close(handle)
    assert machine(engine, 1) == {1: (REMOTE,)}
    engine.do(engine.manager.purge, engine.manager.core.outgoing[REMOTE.casefold()], engine.admin)
    assert machine(engine, 1) == {1: ()}
    engine.open(r"DIRECT=OS:.\private$\q;JOURNAL")
    engine.open(f"MACHINE={IDENTIFIER};DEADXACT")
    assert set(machine(engine, 1)[1]) == {
        r"DIRECT=OS:lior\private$\q;JOURNAL",
        f"MACHINE={str(IDENTIFIER).upper()};DEADXACT",
    }


@pytest.mark.spec("MQ-191")
def test_private_queues_are_listed_by_path_until_they_are_deleted(engine: ManualEngine) -> None:
    queue = engine.create(r".\private$\b")
    engine.create(r".\private$\a", transactional=True)
    engine.open(r"DIRECT=OS:.\private$\a;sub", QueueAccessType.MOVE)
    engine.sender(REMOTE)
    assert set(machine(engine, 2)[2]) == {r"lior\private$\a", r"lior\private$\b"}
    engine.do(engine.manager.delete_queue, queue, engine.admin)
    assert machine(engine, 2) == {2: (r"lior\private$\a",)}


@pytest.mark.spec("MQ-192")
def test_there_is_no_directory_server_and_the_network_is_on_until_it_is_taken_off(engine: ManualEngine) -> None:
    assert machine(engine, 3, 4) == {3: None, 4: "CONNECTED"}
    for active, word in ((False, "DISCONNECTED"), (True, "CONNECTED")):
        engine.do(engine.manager.set_online, active, engine.admin)
        assert machine(engine, 4) == {4: word}


@pytest.mark.spec("MQ-192", "DM-004")
def test_the_type_tells_the_versions_that_there_are() -> None:
    assert machine(ManualEngine(), 5) == {5: ""}
    told = ManualEngine(queue_manager_version="Lior 1.0", operating_system_version="Linux 6.1")
    assert machine(told, 5) == {5: "Lior 1.0, Linux 6.1"}


@pytest.mark.spec("MQ-193")
def test_bytes_in_all_queues_are_the_sum_over_each(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True)
    for size in (0, 10, 2000):
        engine.send(engine.sender(), body=b"b" * size)
    engine.send(engine.sender(REMOTE), body=b"b" * 7)
    engine.receive(engine.open())
    sender = engine.manager.core.outgoing[REMOTE.casefold()]
    parts = asked(engine, queue, 8, 10)
    assert parts == {8: 130 + 2120, 10: 120}
    assert machine(engine, 6) == {6: 130 + 2120 + 120 + 127}
    assert machine(engine, 6)[6] == parts[8] + parts[10] + asked(engine, sender, 8)[8]


# --- queues: what and where they are


@pytest.mark.spec("MQ-194", "MQ-195")
def test_all_27_are_answered_for_local_and_for_outgoing_queues(engine: ManualEngine) -> None:
    dead = engine.manager.find_queue(r".\system$;DEADLETTER")
    waiting = outgoing(engine)
    waiting.change_state(S.WAITING)
    for queue, types in ((engine.create(), LOCAL_TYPES), (dead, LOCAL_TYPES), (waiting, QUEUE_TYPES)):
        answers = on_the_wire(management_queue_values(engine.manager, queue, range(1, 28)))
        assert {propid: vt for propid, (vt, _) in answers.items()} == types
        for propid, variant in management_queue_values(engine.manager, queue, range(1, 28)).items():
            check_value(property_of(ObjectClass.MANAGEMENT_QUEUE, propid), variant)
    with pytest.raises(IllegalPropertyId):
        management_queue_values(engine.manager, dead, [28])


@pytest.mark.spec("MQ-196", "MQ-197", "MQ-194")
def test_local_queues_are_told_by_exact_words(engine: ManualEngine) -> None:
    plain, transactional = engine.create(), engine.create(r".\private$\t", transactional=True)
    assert asked(engine, plain, 1, 2, 3, 4, 5, 6, 11, 12) == {
        1: r"lior\private$\q", 2: r"DIRECT=OS:lior\private$\q", 3: "PRIVATE", 4: "LOCAL", 5: "NO", 6: "NO",
        11: "LOCAL CONNECTION", 12: None,
    }  # fmt: skip
    assert asked(engine, transactional, 3, 5) == {3: "PRIVATE", 5: "YES"}
    dead = engine.manager.find_queue(r".\system$;DEADXACT")
    assert asked(engine, dead, 1, 2, 3, 4, 5, 11) == {
        1: r"lior\system$;DEADXACT", 2: f"MACHINE={str(IDENTIFIER).upper()};DEADXACT", 3: "MACHINE", 4: "LOCAL",
        5: "YES", 11: "LOCAL CONNECTION",
    }  # fmt: skip
    assert plain.journal is not None
    assert asked(engine, plain.journal, 1, 3, 5) == {1: r"lior\private$\q;JOURNAL", 3: "MACHINE", 5: "NO"}


@pytest.mark.spec("MQ-196")
@pytest.mark.parametrize(
    ("name", "path", "kind"),
    [
        (REMOTE, r"192.0.2.98\private$\q", "PRIVATE"),
        (r"DIRECT=OS:far\q", r"far\q", "PUBLIC"),
        ("DIRECT=HTTP://far/msmq/private$/q", r"far\private$\q", "PRIVATE"),
        ("DIRECT=HTTPS://far:1443/msmq/q", r"far\q", "PUBLIC"),
        (r"DIRECT=TCP:[2001:db8::1]\private$\q", r"2001:db8::1\private$\q", "PRIVATE"),
        (MULTICAST, None, "MULTICAST"),
    ],
)
def test_outgoing_queues_are_told_by_exact_words(engine: ManualEngine, name: str, path: str | None, kind: str) -> None:
    queue = outgoing(engine, name)
    values = asked(engine, queue, 1, 2, 3, 4, 5, 6, 11)
    assert values == {1: path, 2: str(queue.destination), 3: kind, 4: "REMOTE", 5: "UNKNOWN", 6: "NO", 11: "INACTIVE"}


@pytest.mark.spec("MQ-196")
def test_a_foreign_queue_manager_has_foreign_queues() -> None:
    foreign = ManualEngine(foreign_system=True)
    assert asked(foreign, foreign.create(), 6) == {6: "YES"}
    offline = ManualEngine(directory_offline=True)
    dead = offline.manager.find_queue(r".\system$;DEADLETTER")
    assert asked(offline, offline.create(), 6) | {0: asked(offline, dead, 6)[6]} == {6: "NO", 0: "UNKNOWN"}


def test_an_open_multicast_is_among_the_active_queues(engine: ManualEngine) -> None:
    outgoing(engine, MULTICAST)
    assert machine(engine, 1) == {1: (MULTICAST,)}


@pytest.mark.spec("MQ-194")
def test_messages_and_bytes_are_counted_in_the_queue_and_in_its_journal(engine: ManualEngine) -> None:
    queue = engine.create(journaling=True)
    for size in (1, 10, 100):
        engine.send(engine.sender(), body=b"b" * size)
    engine.receive(engine.open())
    held = engine.receive(engine.open(), two_phase=True)
    assert asked(engine, queue, 7, 8, 9, 10) == {7: 2, 8: 130 + 220, 9: 1, 10: 121}
    engine.do(engine.manager.receive_end, held, delete=True)
    engine.do(engine.manager.set_queue_properties, queue, {"journaling": False}, engine.admin)
    assert asked(engine, queue, 7, 8, 9, 10) == {7: 1, 8: 220, 9: 2, 10: 121 + 130}
    assert queue.journal is not None
    assert asked(engine, queue.journal, 7, 8, 9, 10) == {7: 2, 8: 251, 9: 0, 10: 0}
    remote = outgoing(engine)
    engine.send(engine.sender(REMOTE), body=b"b")
    assert asked(engine, remote, 7, 8, 9, 10) == {7: 1, 8: 121, 9: 0, 10: 0}


@pytest.mark.spec("MQ-202")
def test_subqueues_are_counted_and_named(engine: ManualEngine) -> None:
    queue = engine.create()
    assert asked(engine, queue, 26, 27) == {26: 0, 27: ()}
    for name in ("Lock", "poison"):
        engine.send(engine.sender())
        target = engine.open(rf"DIRECT=OS:.\private$\q;{name}", QueueAccessType.MOVE)
        engine.do(engine.manager.move, engine.open(), next(iter(queue.available)), target)
        engine.manager.close(target)
    values = asked(engine, queue, 26, 27)
    assert (values[26], sorted(values[27])) == (2, ["Lock", "poison"])
    engine.receive(engine.open(r"DIRECT=OS:.\private$\q;lock"))
    engine.manager.client_lost(list(engine.manager.opening.descriptors.values()), [])
    assert asked(engine, queue, 26, 27) == {26: 1, 27: ("poison",)}


# --- queues: transfer

STATES = {
    "INACTIVE": (), "WAITING": (S.WAITING,), "NEED VALIDATION": (S.NEED_VALIDATION,), "ONHOLD": (S.ON_HOLD,),
    "CONNECTED": (S.WAITING, S.CONNECTED), "DISCONNECTING": (S.CONNECTED, S.DISCONNECTING),
    "DISCONNECTED": (S.CONNECTED, S.DISCONNECTED), "LOCKED": (S.LOCKED,),
}  # fmt: skip


@pytest.mark.spec("MQ-197")
@pytest.mark.parametrize("word", STATES)
def test_every_state_has_its_word(engine: ManualEngine, word: str) -> None:
    queue = outgoing(engine)
    for state in STATES[word]:
        queue.change_state(state)
    assert asked(engine, queue, 11) == {11: word}


@pytest.mark.spec("MQ-198")
@pytest.mark.parametrize("word", STATES)
def test_next_hops_are_told_while_connected_or_connecting(engine: ManualEngine, word: str) -> None:
    queue, group = outgoing(engine), outgoing(engine, MULTICAST)
    queue.next_hops = ("192.0.2.98", "2001:DB8::1", "fe80::1%eth0", "IP=192.0.2.99", "a host name")
    for state in STATES[word]:
        queue.change_state(state)
        group.change_state(state)
    known = word in ("CONNECTED", "WAITING")
    hops = ("IP=192.0.2.98", "IPv6=2001:db8::1", "IPv6=fe80::1", "IP=192.0.2.99")
    assert asked(engine, queue, 12) == {12: hops if known else None}
    assert asked(engine, group, 12) == {12: ("IP=224.1.1.1",) if known else None}


def sequence(identifier: int, number: int, previous: int) -> bytes:
    """SEQUENCE_INFO by the table of [MS-MQMQ] 2.2.5: a 64-bit identifier and two 32-bit numbers."""
    return struct.pack("<QII", identifier, number, previous)


@pytest.mark.spec("MQ-199", "MQ-195", "DM-025", "QB-054", "QB-101")
def test_the_stream_of_an_outgoing_queue_is_told_field_by_field(engine: ManualEngine) -> None:
    queue = outgoing(engine)
    queue.transfer_info = OutgoingTransferInfo(
        eod_first_non_ack=SequenceInfo(0xF000000000000001, 1, 0),
        eod_last_ack=SequenceInfo(2, 0xFFFFFFFF, 5),
        eod_last_non_ack=SequenceInfo(3, 3, 2),
        eod_next_seq=SequenceInfo(4, 4, 3),
        eod_last_ack_count=5,
        eod_no_ack_count=3,
        eod_no_read_count=7,
        eod_resend_count=8,
        eod_resend_interval=30,
        eod_resend_time=1000.9,
        eod_last_ack_time=2.0**31 + 1,
    )
    assert asked(engine, queue, *range(13, 24)) == {
        13: sequence(2, 0xFFFFFFFF, 5), 14: -(2**31) + 1, 15: 5, 16: sequence(0xF000000000000001, 1, 0),
        17: sequence(3, 3, 2), 18: sequence(4, 4, 3), 19: 7, 20: 3, 21: 1000, 22: 30, 23: 8,
    }  # fmt: skip
    assert len(fields(OutgoingTransferInfo)) == 11
    assert asked(engine, engine.create(), *range(13, 24)) == dict.fromkeys(range(13, 24))


@pytest.mark.spec("MQ-200", "MQ-195", "DM-026")
def test_each_sender_is_one_row_of_six_columns(engine: ManualEngine) -> None:
    queue, other = engine.create(), engine.create(r".\private$\other")
    rows = [
        IncomingTransactionalTransferInfo("DIRECT=OS:lior\\private$\\q", UUID(int=1), 2**64 - 1, 7, 1000.5, 2),
        IncomingTransactionalTransferInfo("DIRECT=TCP:192.0.2.7\\private$\\q", UUID(int=2), 5, 2**32 - 1, 2.0**31, 0),
    ]
    for row in rows:
        engine.manager.core.incoming[row.key(queue.queue_id)] = row
    engine.manager.core.incoming[rows[0].key(other.queue_id)] = rows[0]
    assert asked(engine, queue, 24)[24] == (
        (0x101F, ("DIRECT=OS:lior\\private$\\q", "DIRECT=TCP:192.0.2.7\\private$\\q")),
        (0x1048, (UUID(int=1), UUID(int=2))),
        (0x1015, (2**64 - 1, 5)),
        (0x1013, (7, 2**32 - 1)),
        (0x1003, (1000, -(2**31))),
        (0x1013, (2, 0)),
    )
    assert [len(values) for _, values in asked(engine, other, 24)[24]] == [1] * 6
    empty = asked(engine, engine.create(r".\private$\e"), 24)[24]
    assert empty == ((0x101F, ()), (0x1048, ()), (0x1015, ()), (0x1013, ()), (0x1003, ()), (0x1013, ()))


@pytest.mark.spec("MQ-201", "DM-024")
def test_the_history_is_four_columns_with_a_row_for_each_attempt(engine: ManualEngine) -> None:
    queue = outgoing(engine)
    assert asked(engine, queue, 25)[25] == ((0x1013, ()), (0x1003, ()), (0x1003, ()), (0x100C, ()))
    queue.record_connection(ConnectionHistoryEntry(ConnectionStatus.DNS_FAILURE, 5.0, 0x800706BA))
    queue.record_connection(
        ConnectionHistoryEntry(ConnectionStatus.CONNECT_SOCKET_FAILURE, 6.5, 111, ("192.0.2.98", "192.0.2.99"))
    )
    queue.record_connection(ConnectionHistoryEntry(ConnectionStatus.READY, 2.0**31, 0, ("192.0.2.98",)))
    assert asked(engine, queue, 25)[25] == (
        (0x1013, (0x80000008, 0x80000004, 2)),
        (0x1003, (5, 6, -(2**31))),
        (0x1003, (0x800706BA - 2**32, 111, 0)),
        (0x100C, ((0x101F, ()), (0x101F, ("192.0.2.98", "192.0.2.99")), (0x101F, ("192.0.2.98",)))),
    )


@pytest.mark.spec("MQ-201", "DM-024")
def test_the_history_holds_every_status_and_no_more_than_the_latest(engine: ManualEngine) -> None:
    queue = outgoing(engine)
    statuses = [0, 1, 2, *range(0x80000000, 0x8000000E)]
    for status in statuses:
        queue.record_connection(ConnectionHistoryEntry(ConnectionStatus(status), 1.0))
    assert asked(engine, queue, 25)[25][0] == (0x1013, tuple(statuses))
    for number in range(3 * HISTORY):
        queue.record_connection(ConnectionHistoryEntry(ConnectionStatus.PING_FAILURE, float(number)))
    assert [len(values) for _, values in asked(engine, queue, 25)[25]] == [HISTORY] * 4
    assert asked(engine, queue, 25)[25][1] == (0x1003, tuple(range(2 * HISTORY, 3 * HISTORY)))
