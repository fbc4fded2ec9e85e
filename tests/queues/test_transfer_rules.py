"""What the queues do for the transfer besides streams: final acknowledgements that we owe, refusals, transit, routes,
tracing reports, the default time to reach a queue ([MS-MQQB] 3.1.5.8, 3.1.7.2, 3.1.7.17)."""

import struct
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from lior.errors import LiorError, NoDirectory
from lior.message import Message, MessageClass, MessageSoap, MessageTransaction
from lior.names import parse_format_name
from lior.queues.change import Change
from lior.queues.descriptor import QueueAccessType
from lior.queues.events import MessageDropped
from lior.queues.peers import MOST_PEERS, PEER
from lior.queues.queue import Queue
from lior.queues.routing import parse_single
from lior.testing.engine import IDENTIFIER, Answer, ManualEngine
from tests.queues.conftest import Host
from tests.queues.scenario import ADMIN, FULL, classes, commit, messages, system_queue
from tests.queues.streams import BACK, SENDER, arrive, incoming, outgoing

PEER_QUEUE = f"PRIVATE={str(SENDER).upper()}\\00000007"
ORDER_QUEUE = f"PRIVATE={str(SENDER).upper()}\\00000004"
NACKS = [MessageClass(c) for c in (0x8000, 0x8002, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007, 0x8009, 0x800B)]


def final_acks(engine: ManualEngine, name: str = BACK) -> list[Message]:
    queue = engine.manager.core.outgoing.get(parse_format_name(name).key)
    return [] if queue is None else messages(engine, queue)


def receive(engine: ManualEngine, queue: Queue) -> None:
    transaction = engine.manager.begin()
    engine.receive(engine.open(), transaction=transaction)
    commit(engine, transaction)


def delete(engine: ManualEngine, queue: Queue) -> None:
    engine.do(engine.manager.delete_queue, queue, engine.admin)


def purge(engine: ManualEngine, queue: Queue) -> None:
    engine.do(engine.manager.purge, queue, engine.admin)


def expire(engine: ManualEngine, queue: Queue) -> None:
    engine.advance(100)


def reject(engine: ManualEngine, queue: Queue) -> None:
    transaction, reader = engine.manager.begin(), engine.open()
    lookup_id = engine.receive(reader, transaction=transaction).lookup_identifier
    engine.do(lambda reply: engine.manager.reject(reader, lookup_id, transaction, reply))
    commit(engine, transaction)


def move_and_receive(engine: ManualEngine, queue: Queue) -> None:
    source, target = engine.open(), engine.open(r"DIRECT=OS:.\private$\q;sub", QueueAccessType.MOVE)
    lookup_id = next(iter(queue.available))
    engine.do(lambda reply: engine.manager.move(source, lookup_id, target, reply))
    assert final_acks(engine) == []
    engine.receive(engine.open(r"DIRECT=OS:.\private$\q;sub"))


EVENTS = [
    (receive, 0x4000), (delete, 0xC000), (purge, 0xC001), (expire, 0xC002), (reject, 0xC004),
    (move_and_receive, 0x4000),
]  # fmt: skip


def came(engine: ManualEngine, **fields: Any) -> Queue:
    queue = engine.create(transactional=True)
    change = arrive(engine, queue, *(incoming(n) for n in range(1, 5)), incoming(5, **fields))
    engine.manager.core.submit(change)
    engine.commit()
    for _ in range(4):
        receive(engine, queue)
    return queue


# --- final acknowledgements that we owe


@pytest.mark.spec("QB-023", "QB-024", "QB-025", "QB-197", "QB-205", "QB-207")
@pytest.mark.parametrize(("event", "message_class"), EVENTS)
@pytest.mark.parametrize(
    "asked", [{"positive_journaling_requested": True}, {"negative_journaling_requested": True}, "final",
              {"negative_journaling_requested": True, "soap": MessageSoap(header="<came-over-tcp/>")}]
)
def test_when_a_message_of_a_stream_leaves_its_queue_its_sender_hears_of_it(
    engine: ManualEngine, event: Any, message_class: int, asked: Any
) -> None:
    if asked == "final":
        transaction = MessageTransaction(
            sequence_identifier=7 << 32 | 1, sequence_number=5, previous_sequence_number=4, final_ack_required=True
        )
        asked = {"transaction": transaction}
    queue = came(engine, time_to_be_received=100, **asked)
    assert final_acks(engine) == []
    event(engine, queue)
    (ack,) = final_acks(engine)
    assert ack.message_class == message_class and ack.label == "QM Ordering Ack" and ack.body_type == 0
    assert struct.unpack("<QII", ack.body[:16]) == (7 << 32 | 1, 5, 4)
    assert ack.body[16:] == SENDER.bytes_le + (5).to_bytes(4, "little") and len(ack.body) == 36
    assert (ack.delivery_guarantee, ack.priority, ack.destination_queue) == (1, 0, BACK)
    assert (ack.time_to_reach_queue, ack.time_to_be_received) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert (ack.administration_queue, ack.response_queue, ack.acknowledgements_requested) == ("", "", 0)
    assert not ack.positive_journaling_requested and not ack.negative_journaling_requested
    assert ack.transaction is None and ack.security is None and not ack.tracing_requested
    assert ack.source_queue_manager == IDENTIFIER and ack.identifier is not None


@pytest.mark.spec("QB-197")
def test_who_asked_for_nothing_hears_nothing(engine: ManualEngine) -> None:
    queue = came(engine)
    receive(engine, queue)
    assert final_acks(engine) == []


@pytest.mark.spec("QB-197")
def test_only_messages_of_streams_are_acknowledged_in_the_end(engine: ManualEngine) -> None:
    asked: dict[str, Any] = {"positive_journaling_requested": True, "negative_journaling_requested": True}
    queue = engine.create(r".\private$\plain")
    change = Change()
    plain = replace(incoming(1, **asked), transaction=None)
    engine.manager.sending.accept(queue, plain, None, change)
    engine.manager.core.submit(change)
    engine.commit()
    engine.receive(engine.open(r"DIRECT=OS:.\private$\plain"))
    engine.create(transactional=True)
    transaction = engine.manager.begin()
    engine.send(engine.sender(), Message(b"ours", **asked), transaction)
    commit(engine, transaction)
    engine.receive(engine.open())
    assert engine.manager.core.outgoing == {}


@pytest.mark.spec("QB-197")
def test_the_message_leaves_and_the_acknowledgement_is_made_in_one_change(host: Host) -> None:
    engine = host.engine
    came(engine, positive_journaling_requested=True)
    transaction = engine.manager.begin()
    engine.receive(engine.open(), transaction=transaction)
    engine.manager.commit(transaction.identifier, Answer())
    (change,) = engine.manager.take_pending()
    engine.manager.failed([change], FULL)
    assert final_acks(engine) == []
    receive(engine, engine.manager.find_queue(r".\private$\q"))
    (ack,) = final_acks(host.crash())
    assert ack.message_class == 0x4000


@pytest.mark.spec("QB-207")
def test_without_a_known_session_the_acknowledgement_goes_to_the_sender_s_queue_manager(host: Host) -> None:
    came(host.engine, positive_journaling_requested=True)
    engine = host.crash()
    engine.manager.core.incoming.clear()
    receive(engine, engine.manager.find_queue(r".\private$\q"))
    (ack,) = final_acks(engine, ORDER_QUEUE)
    assert ack.destination_queue == ORDER_QUEUE


def test_an_acknowledgement_takes_the_place_of_its_message_even_if_the_quota_is_used_up(engine: ManualEngine) -> None:
    queue = came(engine, positive_journaling_requested=True)
    engine.manager.core.properties.queue_manager_quota = 0
    receive(engine, queue)
    assert len(final_acks(engine)) == 1


# --- refusals


def refuse(engine: ManualEngine, queue: Queue | None, message: Message, reason: MessageClass) -> None:
    change = Change()
    engine.manager.removal.refuse(change, queue, message, reason)
    engine.manager.core.submit(change)
    engine.commit()


@pytest.mark.spec("QB-024", "QB-156", "QB-157", "QB-159", "QB-174", "QB-203", "QB-207")
@pytest.mark.parametrize("reason", NACKS)
@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_a_refused_message_of_a_stream_is_always_acknowledged_in_the_end(
    engine: ManualEngine, reason: MessageClass, insecure: bool, there: bool
) -> None:
    engine.manager.core.properties.send_insecure_nacks = insecure
    queue, admin = engine.create(transactional=True), engine.create(r".\private$\admin")
    message = incoming(5, acknowledgements_requested=4, administration_queue=ADMIN)
    refuse(engine, queue if there else None, message, reason)
    (ack,) = final_acks(engine, ORDER_QUEUE)
    assert ack.message_class == reason and struct.unpack("<I", ack.body[8:12]) == (5,)
    secret = reason in (0x8000, 0x8004, 0x8006, 0x8007, 0x800B)
    assert classes(engine, admin) == ([] if secret and not insecure else [reason])
    assert queue.message_count == 0


@pytest.mark.spec("QB-158", "QB-174")
@pytest.mark.parametrize("there", [False, True])
def test_others_are_not(engine: ManualEngine, there: bool) -> None:
    queue, admin = engine.create(transactional=True), engine.create(r".\private$\admin")
    message = replace(incoming(5, acknowledgements_requested=4, administration_queue=ADMIN), transaction=None)
    refuse(engine, queue if there else None, message, MessageClass.NACK_NOT_TRANSACTIONAL_MSG)
    assert classes(engine, admin) == [0x800A]
    assert engine.manager.core.outgoing == {}


@pytest.mark.spec("QB-174")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("reason", [
    MessageClass.NACK_Q_EXCEED_QUOTA, MessageClass.NACK_REACH_QUEUE_TIMEOUT, MessageClass.NACK_ACCESS_DENIED])
def test_the_receiver_keeps_what_found_no_room_or_came_late_if_it_asks_for_it(
    engine: ManualEngine, transactional: bool, asked: bool, reason: MessageClass
) -> None:
    queue = engine.create(transactional=transactional)
    message = incoming(5, negative_journaling_requested=asked)
    if not transactional:
        message.transaction = None
    refuse(engine, queue, message, reason)
    kept = asked and not transactional and reason is not MessageClass.NACK_ACCESS_DENIED
    assert [m.failure_reason for m in messages(engine, system_queue(engine, "DEADLETTER"))] == [reason] * kept
    assert messages(engine, system_queue(engine, "DEADXACT")) == []


@pytest.mark.spec("QB-169")
def test_a_message_of_a_stream_without_time_to_be_received_is_refused_in_the_end(engine: ManualEngine) -> None:
    queue = engine.create(transactional=True)
    engine.manager.core.submit(arrive(engine, queue, incoming(1, time_to_be_received=0), incoming(2)))
    engine.commit()
    assert engine.bodies(queue) == [b"2"]
    (ack,) = final_acks(engine)
    assert ack.message_class == 0xC002


def test_refusals_do_not_fill_the_queue_manager(engine: ManualEngine) -> None:
    engine.manager.core.properties.queue_manager_quota = 1
    for number in range(1, 100):
        refuse(engine, None, incoming(number), MessageClass.NACK_BAD_DST_Q)
    assert engine.manager.core.total_bytes <= 1024
    assert any(isinstance(event, MessageDropped) for event in engine.events)


@pytest.mark.spec("QB-217")
def test_an_acknowledgement_that_cannot_be_delivered_vanishes(engine: ManualEngine) -> None:
    engine.create()
    to = r"DIRECT=OS:elsewhere\private$\admin"
    asked: dict[str, Any] = {"positive_journaling_requested": True, "negative_journaling_requested": True}
    message = Message(acknowledgements_requested=1, administration_queue=to, delivery_guarantee=1, **asked)
    engine.send(engine.sender(), message)
    engine.do(engine.manager.purge, outgoing(engine, to), engine.admin)
    for suffix in ("DEADLETTER", "DEADXACT"):
        assert messages(engine, system_queue(engine, suffix)) == []
    assert [m.message_class for m in messages(engine, system_queue(engine, "JOURNAL"))] == [0]


# --- transit, routes, peers


def pass_on(engine: ManualEngine, message: Message, name: str = PEER_QUEUE) -> int:
    change, parsed = Change(), parse_single(name)
    assert parsed is not None
    status = engine.manager.transit(change, message, parsed)
    engine.manager.core.submit(change)
    engine.commit()
    return status


@pytest.mark.spec("QB-155", "QB-159", "QB-170", "MQ-084")
@pytest.mark.parametrize(("hops", "status"), [(0, 0), (27, 0), (28, 0), (29, 4), (31, 4)])
def test_a_message_for_somebody_else_goes_on_with_one_hop_more(host: Host, hops: int, status: int) -> None:
    engine = host.engine
    message = incoming(7, destination_queue=PEER_QUEUE, hop_count=hops, packet=b"as it came")
    before = message.transaction
    assert pass_on(engine, message) == status
    if status:
        assert engine.manager.core.total_bytes == 0
        return
    (waiting,) = messages(engine, outgoing(host.crash(), PEER_QUEUE))
    assert (waiting.hop_count, waiting.packet, waiting.transaction) == (hops + 1, b"as it came", before)


def test_a_message_for_somebody_else_needs_room_and_time(engine: ManualEngine) -> None:
    late = incoming(1, time_to_reach_queue=10, sent_time=engine.clock.wall() - 11)
    assert pass_on(engine, late) == 3
    engine.manager.core.properties.queue_manager_quota = 0
    assert pass_on(engine, incoming(1)) == 2
    engine.manager.core.properties.queue_manager_quota = 1 << 20
    engine.manager.core.set_throttled("the disk is full")
    assert pass_on(engine, incoming(1)) == 2


@pytest.mark.spec("QB-216")
def test_private_names_of_known_queue_managers_can_be_sent_to(host: Host) -> None:
    with pytest.raises(NoDirectory):
        host.engine.open(PEER_QUEUE, QueueAccessType.SEND)
    change = Change()
    host.engine.manager.core.peers.learn(change, SENDER, "192.0.2.50")
    host.engine.manager.core.submit(change)
    host.engine.commit()
    engine = host.crash()
    engine.send(engine.sender(PEER_QUEUE), Message(b"1", delivery_guarantee=1))
    assert engine.manager.routing.next_hop(outgoing(engine, PEER_QUEUE).destination) == "192.0.2.50"
    with pytest.raises(LiorError):
        engine.open(f"PRIVATE={UUID(int=9)}\\00000001", QueueAccessType.SEND)


@pytest.mark.spec("QB-216")
@pytest.mark.parametrize(
    ("name", "hop", "on_the_way"),
    [
        (r"DIRECT=OS:plain\private$\q", "plain", False), (r"DIRECT=TCP:192.0.2.1\private$\q", "192.0.2.1", False),
        (r"DIRECT=OS:Behind\private$\q", "router:1802", True), (PEER_QUEUE, "learned", True),
        (r"DIRECT=TCP:2001:DB8:0::1\private$\q", "six", True), (f"MACHINE={SENDER};DEADXACT", "learned", True),
        (f"PRIVATE={UUID(int=5)}\\00000001", "configured", True), (f"PRIVATE={UUID(int=6)}\\00000001", "", False),
        (f"PUBLIC={SENDER}", "", False), ("MULTICAST=224.1.1.1:8001", "", False),
    ],
)  # fmt: skip
def test_the_next_hop_is_the_host_unless_a_route_says_another(
    engine: ManualEngine, name: str, hop: str, on_the_way: bool
) -> None:
    routes = {"behind": "router:1802", str(UUID(int=5)): "configured", "2001:db8::1": "six"}
    engine.manager.core.peers.configure(routes)
    change = Change()
    for identifier, address in ((SENDER, "learned"), (UUID(int=5), "a claim")):
        engine.manager.core.peers.learn(change, identifier, address)
    parsed = parse_single(name)
    assert parsed is not None
    assert engine.manager.routing.is_on_the_way(parsed) is on_the_way
    if hop:
        assert engine.manager.routing.next_hop(parsed) == hop
    else:
        with pytest.raises(NoDirectory):
            engine.manager.routing.next_hop(parsed)


def test_an_address_is_stored_when_it_is_new_and_taken_back_if_it_cannot_be(engine: ManualEngine) -> None:
    peers = engine.manager.core.peers
    for address, operations, fails in (
        ("first", 1, False),
        ("first", 0, False),
        ("second", 1, True),
        ("third", 1, False),
    ):
        change = Change()
        peers.learn(change, SENDER, address)
        assert len(change.operations) == operations
        if fails:
            engine.manager.failed([change], FULL)
        else:
            engine.apply([change])
        assert peers.host_of(SENDER) == ("first" if fails else address)


def test_queue_managers_that_are_learned_have_a_limit(engine: ManualEngine) -> None:
    change = Change()
    for number in range(1, MOST_PEERS + 50):
        engine.manager.core.peers.learn(change, UUID(int=number), "192.0.2.1")
    engine.manager.core.submit(change)
    engine.commit()
    assert engine.manager.core.peers.host_of(UUID(int=1)) is None
    assert engine.manager.core.peers.host_of(UUID(int=MOST_PEERS)) == "192.0.2.1"
    assert len([key for key in engine.store.load().state if key[0] == PEER]) == MOST_PEERS


# --- tracing reports

TRACE = UUID("12345678-0000-0000-0000-000000000001")


@pytest.mark.spec("QB-177", "QB-195")
def test_a_report_says_which_message_passed_and_when(engine: ManualEngine) -> None:
    trace = engine.create(r".\private$\trace")
    engine.manager.tracing.configure({TRACE: r"DIRECT=OS:.\private$\trace"})
    message = incoming(0xAB, tracing_requested=True, tracing_queue=TRACE, hop_count=3)
    change = Change()
    engine.manager.tracing.arrived(change, message, 1_700_000_000.0)
    engine.manager.tracing.sent(change, message, 1_700_000_000.0 - 12 * 3600, "192.0.2.9")
    engine.manager.core.submit(change)
    engine.commit()
    arrived, sent = messages(engine, trace)
    source = str(SENDER).upper()
    assert arrived.label == f"AABB:000000AB:03 received by {source} at 22:13:20 PM Tue,Nov 14 23"
    assert sent.label == f"AABB:000000AB:03 received by {source} at 10:13:20 AM Tue,Nov 14 23"
    common = "<MESSAGE ID>000000AB</MESSAGE ID>\r\n<TARGET QUEUE>DIRECT=OS:lior\\private$\\q</TARGET QUEUE>\r\n"
    assert arrived.body.decode("utf-16-le") == common
    more = "<NEXT HOP>192.0.2.9</NEXT HOP>\r\n<HOP COUNT>03 </HOP COUNT>\r\n"
    assert sent.body.decode("utf-16-le") == common + more
    for report in (arrived, sent):
        assert (report.message_class, report.delivery_guarantee, report.tracing_requested) == (1, 0, False)


@pytest.mark.spec("QB-177")
@pytest.mark.parametrize("fields", [{"tracing_requested": False}, {"tracing_queue": UUID(int=1)}, {"message_class": 1}])
def test_nothing_is_reported_unasked_to_unknown_queues_or_of_reports(
    engine: ManualEngine, fields: dict[str, Any]
) -> None:
    engine.create(r".\private$\trace")
    engine.manager.tracing.configure({TRACE: r"DIRECT=OS:.\private$\trace"})
    message = incoming(1, **{"tracing_requested": True, "tracing_queue": TRACE, **fields})
    change = Change()
    engine.manager.tracing.arrived(change, message, 1.0)
    assert change.operations == [] and not change.has_steps


@pytest.mark.spec("QB-177")
def test_a_report_that_nobody_can_get_is_dropped(engine: ManualEngine) -> None:
    engine.manager.tracing.configure({TRACE: r"DIRECT=OS:.\private$\none"})
    change = Change()
    engine.manager.tracing.arrived(change, incoming(1, tracing_requested=True, tracing_queue=TRACE), 1.0)
    assert not any(type(operation).__name__ == "PutMessage" for operation in change.operations)


# --- the default time to reach a queue


@pytest.mark.spec("DM-047")
@pytest.mark.parametrize(("given", "seconds"), [({}, 50), ({"time_to_reach_queue": 99}, 99)])
def test_the_time_to_reach_a_queue_that_the_sender_left_open_is_the_queue_manager_s(
    engine: ManualEngine, given: dict[str, Any], seconds: int
) -> None:
    engine.do(engine.manager.set_manager_properties, {"default_time_to_reach_queue": 50}, engine.admin)
    engine.send(engine.sender(r"DIRECT=OS:elsewhere\private$\q"), Message(**given))
    (message,) = messages(engine, outgoing(engine, r"DIRECT=OS:elsewhere\private$\q"))
    assert message.time_to_reach_queue == seconds
    engine.advance(seconds)
    assert outgoing(engine).message_count == 1
    engine.advance(1)
    assert outgoing(engine).message_count == 0
