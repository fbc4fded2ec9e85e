"""What the tests of the exactly-once streams share: two queue managers, and messages between them."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from lior.message import Message, MessageTransaction, ObjectId
from lior.queues.change import Change
from lior.queues.outgoing import OutgoingQueue
from lior.queues.position import Position
from lior.queues.queue import AWAITING_FINAL, Queue
from lior.testing.engine import ManualEngine
from tests.queues.scenario import commit

THERE = r"DIRECT=OS:elsewhere\private$\q"
SENDER = UUID("aabbccdd-0011-2233-4455-66778899aabb")
BACK = r"DIRECT=TCP:192.0.2.99\PRIVATE$\order_queue$"


def send(engine: ManualEngine, *bodies: bytes, to: str = THERE, **fields: Any) -> OutgoingQueue:
    """Messages of one transaction; the queue they wait in."""
    transaction = engine.manager.begin()
    sender = engine.sender(to)
    for body in bodies:
        engine.send(sender, Message(body, **fields), transaction)
    commit(engine, transaction)
    return outgoing(engine, to)


def outgoing(engine: ManualEngine, to: str = THERE) -> OutgoingQueue:
    queue = engine.manager.find_queue(to)
    assert isinstance(queue, OutgoingQueue)
    return queue


def awaiting(engine: ManualEngine) -> Queue:
    return engine.manager.core.paths[rf"private$\{AWAITING_FINAL}"]


def take(engine: ManualEngine, owner: object, count: int = 1000, to: str = THERE) -> list[Position]:
    """What a link gets, and sends."""
    taken: list[Position] = []
    queue = outgoing(engine, to)
    while len(taken) < count and (position := engine.manager.outgoing_streams.lock_next(queue, owner)) is not None:
        taken.append(position)
        if position.message.transaction is not None:
            engine.manager.outgoing_streams.previous_for(position)
    return taken


def place(position: Position) -> MessageTransaction:
    assert position.message.transaction is not None
    return position.message.transaction


def numbers(positions: list[Position]) -> list[int]:
    return [place(position).sequence_number for position in positions]


def order_ack(engine: ManualEngine, sequence_id: int, number: int) -> OutgoingQueue | None:
    change = Change()
    queue = engine.manager.outgoing_streams.order_acked(change, sequence_id, number)
    engine.manager.core.submit(change)
    engine.commit()
    return queue


def final_ack(engine: ManualEngine, position: Position, message_class: int = 0x4000) -> bool:
    change = Change()
    identifier = position.message.identifier
    assert identifier is not None
    known = engine.manager.outgoing_streams.final_acked(
        change, identifier.lineage, identifier.uniquifier, message_class
    )
    engine.manager.core.submit(change)
    engine.commit()
    return known


def incoming(
    number: int, previous: int | None = None, sequence_id: int = 7 << 32 | 1, sender: UUID = SENDER, **fields: Any
) -> Message:
    """A message of a stream from elsewhere."""
    return replace(
        Message(
            b"%d" % number, delivery_guarantee=1, priority=0, destination_queue=r"DIRECT=OS:lior\private$\q",
            identifier=ObjectId(sender, number), source_queue_manager=sender, sent_time=1_700_000_000.0,
            transaction=MessageTransaction(
                sequence_identifier=sequence_id, sequence_number=number,
                previous_sequence_number=number - 1 if previous is None else previous,
            ),
        ),
        **fields,
    )  # fmt: skip


def arrive(engine: ManualEngine, queue: Queue, *messages: Message) -> Change:
    """One chunk of a session: what is next in its stream goes into the queue. The change is not handed over yet."""
    manager, change = engine.manager, Change()
    for message in messages:
        assert message.transaction is not None
        info = manager.incoming_streams.position(queue, message)
        if not manager.incoming_streams.accepts(info, message.transaction):
            manager.incoming_streams.reject(info)
            continue
        info.acknowledge_to = BACK
        assert manager.sending.accept(queue, message, None, change) == 0
        manager.incoming_streams.advance(change, info, queue, message.transaction, engine.clock.wall())
    return change
