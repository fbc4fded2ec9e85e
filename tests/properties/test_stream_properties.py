"""Exactly-once streams between two queue managers over a bad network: messages and acknowledgements are lost, come
late and twice, sessions break, commits fail one by one, both sides crash, messages expire and are purged. What is
received is what was sent, each once and in order."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lior.message import Message, MessageClass
from lior.queues.change import Change
from lior.queues.events import MessageDeleted
from lior.queues.outgoing import OutgoingQueue
from lior.queues.position import Position
from lior.queues.routing import parse_single
from lior.queues.sending import EnqueueStatus
from lior.store.memory import MemoryStore
from lior.testing.engine import Answer, ManualEngine
from tests.queues.scenario import FULL, messages, system_queue

SENDER = UUID("00112233-4455-6677-8899-aabbccddeeff")
RECEIVER = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
QUEUE = r"DIRECT=OS:elsewhere\private$\q"
BACK = r"DIRECT=TCP:192.0.2.99\PRIVATE$\order_queue$"

LUCK = st.sampled_from((0, 0, 0, 0, 1, 2, 3, 5))  # bits: which of the next commits fail
SOME = st.integers(1, 6)
PICK = st.integers(0, 255)


class Link:
    """Who holds what is on its way."""


class Peers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.a = ManualEngine(MemoryStore(), identifier=SENDER)
        self.b = ManualEngine(MemoryStore(), self.a.clock, name="elsewhere", identifier=RECEIVER, seed=1)
        self.link = Link()
        self.held: list[Position] = []
        self.wire: list[Message] = []  # what the session carries, in order
        self.strays: list[Message] = []  # what may come out of the network at any time
        self.acks: list[tuple[int, int]] = []
        self.sent = 0
        self.wanted: dict[int, bool] = {}  # every message that was committed; whether a journal copy is asked for
        self.received: list[int] = []
        self.late: set[int] = set()  # at the receiver
        self.removed: set[int] = set()  # at the sender, before anybody said what became of them

    @initialize()
    def set_up(self) -> None:
        self.b.create(transactional=True)

    # The machines

    def commit(self, engine: ManualEngine, luck: int = 0) -> None:
        """Each change by itself; some fail for want of room."""
        while pending := engine.manager.take_pending():
            for change in pending:
                fails = luck & 1 and change.operations
                luck >>= 1
                try:
                    if fails:
                        raise FULL
                    engine.store.apply(change.operations)
                except type(FULL) as error:
                    engine.manager.failed([change], error)
                else:
                    engine.manager.committed([change])
        if engine is self.a:
            for event in engine.events:
                if isinstance(event, MessageDeleted) and event.reason not in (0x0002, 0x4000):
                    self.removed.add(int(event.message.body or b"-1"))
            engine.events.clear()

    @property
    def outgoing(self) -> OutgoingQueue | None:
        name = parse_single(QUEUE)
        found = None if name is None else self.a.manager.routing.find(name)
        return found if isinstance(found, OutgoingQueue) else None

    # At the sender

    @rule(count=SOME, dead_letter=st.booleans(), journal=st.booleans(), life=st.sampled_from((40, 10**6)), luck=LUCK)
    def send(self, count: int, dead_letter: bool, journal: bool, life: int, luck: int) -> None:
        transaction = self.a.manager.begin()
        sender = self.a.sender(QUEUE)
        for _ in range(count):
            message = Message(
                b"%d" % self.sent, time_to_reach_queue=life, negative_journaling_requested=dead_letter,
                positive_journaling_requested=journal,
            )  # fmt: skip
            self.a.manager.send(sender, message, Answer(), transaction)
            self.sent += 1
        answer = Answer()
        self.a.manager.commit(transaction.identifier, answer)
        self.commit(self.a, luck)
        if answer.error is None:
            self.wanted.update(dict.fromkeys(range(self.sent - count, self.sent), journal))

    @rule(count=SOME, stray=st.booleans())
    def transmit(self, count: int, stray: bool) -> None:
        queue = self.outgoing
        if queue is None:
            return
        streams = self.a.manager.outgoing_streams
        for _ in range(count):
            position = streams.lock_next(queue, self.link)
            if position is None:
                break
            self.held.append(position)
            packet = position.message.copy()
            assert packet.transaction is not None
            packet.transaction = replace(packet.transaction, previous_sequence_number=streams.previous_for(position))
            self.wire.append(packet)
            if stray:
                self.strays.append(packet)
        self.commit(self.a)

    @rule(resend=st.booleans())
    def give_up(self, resend: bool) -> None:
        """The session breaks; or nothing came for so long that all is sent again."""
        if not resend:
            self.wire.clear()
        self.a.manager.outgoing_streams.release(self.link, self.held)
        self.held, self.link = [], self.link if resend else Link()
        self.commit(self.a)

    @rule(seconds=st.sampled_from((1, 30, 3600)), luck=LUCK)
    def wait(self, seconds: int, luck: int) -> None:
        self.a.clock.advance(seconds)
        self.a.manager.tick()
        self.commit(self.a, luck)

    @rule(luck=LUCK)
    def purge(self, luck: int) -> None:
        queue = self.outgoing
        if queue is not None and self.sent % 3 == 0:
            self.a.manager.purge(queue, self.a.admin, Answer())
            self.commit(self.a, luck)

    @rule()
    def crash_of_the_sender(self) -> None:
        self.commit(self.a)
        self.wire.clear()
        self.held.clear()
        self.link = Link()
        self.a = self.a.restart()

    @rule(pick=PICK, together=st.booleans(), luck=LUCK)
    def order_ack_comes(self, pick: int, together: bool, luck: int) -> None:
        if not self.acks:
            return
        change = Change()
        self.a.manager.outgoing_streams.order_acked(change, *self.acks.pop(pick % len(self.acks)))
        self.a.manager.core.submit(change)
        if together:
            self.final_acks_come(change=change, luck=luck)
        else:
            self.commit(self.a, luck)

    @rule(luck=LUCK)
    def final_acks_come(self, luck: int, change: Change | None = None) -> None:
        """What the receiver's queue manager sends stays in its outgoing queue until ours has stored what it means."""
        change = change or Change()
        taken = []
        for queue in self.b.manager.core.outgoing.values():
            while (position := self.b.manager.outgoing_streams.lock_next(queue, self.link)) is not None:
                taken.append(position)
        for position in taken:
            message = position.message
            assert (message.label, len(message.body), message.delivery_guarantee) == ("QM Ordering Ack", 36, 1)
            source, ordinal = UUID(bytes_le=message.body[16:32]), struct.unpack("<I", message.body[32:])[0]
            self.a.manager.outgoing_streams.final_acked(change, source, ordinal, message.message_class)
        answer = Answer()
        change.answer(answer)
        self.a.manager.core.submit(change) if change not in self.a.manager.core.pending else None
        self.commit(self.a, luck)
        if answer.error is not None:
            self.b.manager.outgoing_streams.release(self.link, taken)
        else:
            done = Change()
            for position in taken:
                self.b.manager.removal.transferred(done, position)
            self.b.manager.core.submit(done)
        self.commit(self.b)

    # At the receiver

    @rule(count=SOME, chunks=st.integers(1, 3), luck=LUCK)
    def arrive(self, count: int, chunks: int, luck: int) -> None:
        for _ in range(chunks):
            self.take(self.wire[:count])
            del self.wire[:count]
        self.commit(self.b, luck)
        if luck:
            self.give_up(resend=False)  # what is not stored closes the session

    @rule(pick=PICK, luck=LUCK)
    def a_stray_comes(self, pick: int, luck: int) -> None:
        if self.strays:
            self.take([self.strays.pop(pick % len(self.strays))])
            self.commit(self.b, luck)

    def take(self, packets: list[Message]) -> None:
        """One chunk, one change."""
        manager, change = self.b.manager, Change()
        queue = manager.find_queue(r".\private$\q")
        for packet in packets:
            message = packet.copy()
            assert message.transaction is not None
            info = manager.incoming_streams.position(queue, message)
            if manager.incoming_streams.accepts(info, message.transaction):
                info.acknowledge_to = BACK
                if manager.sending.accept(queue, message, None, change) is EnqueueStatus.TIMED_OUT:
                    manager.removal.refuse(change, queue, message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
                    self.late.add(int(message.body))
                manager.incoming_streams.advance(change, info, queue, message.transaction, self.b.clock.wall())
            else:
                manager.incoming_streams.reject(info)
        manager.core.submit(change)

    @rule()
    def order_ack_goes(self) -> None:
        for info in self.b.manager.core.incoming.values():
            sequence_id, number = self.b.manager.incoming_streams.stored(info)
            if sequence_id:
                self.acks.append((sequence_id, number))

    @rule(count=SOME, luck=LUCK)
    def consume(self, count: int, luck: int) -> None:
        transaction = self.b.manager.begin()
        bodies = []
        queue = self.b.manager.find_queue(r".\private$\q")
        for _ in range(min(count, len(queue.available))):
            answer = self.b.start_receive(self.b.open(), timeout_ms=0, transaction=transaction)
            bodies.append(int(answer.result().body))
        done = Answer()
        self.b.manager.commit(transaction.identifier, done)
        self.commit(self.b, luck)
        if done.error is None:
            self.received += bodies

    @rule()
    def crash_of_the_receiver(self) -> None:
        self.commit(self.b)
        self.give_up(resend=False)
        self.b = self.b.restart()

    # What must hold

    @invariant()
    def each_is_received_once_and_in_order(self) -> None:
        assert self.received == sorted(set(self.received))
        assert set(self.received) <= set(self.wanted)

    def teardown(self) -> None:
        for _ in range(200):
            self.give_up(resend=False)
            self.transmit(6, False)
            self.arrive(6, 3, 0)
            self.order_ack_goes()
            while self.acks:
                self.order_ack_comes(0, False, 0)
            self.consume(6, 0)
            self.final_acks_come(0)
            queue = self.outgoing
            if not queue or not queue.message_count:
                break
        self.consume(10_000, 0)
        self.final_acks_come(0)
        self.each_is_received_once_and_in_order()
        assert queue is None or queue.message_count == 0, "stuck"
        assert set(self.wanted) - self.removed - self.late <= set(self.received), "lost"
        awaiting = self.a.manager.core.paths[r"private$\awaiting_final_queue$"]
        assert awaiting.message_count == 0 and awaiting.total_bytes == 0
        journal = Counter(int(m.body) for m in messages(self.a, system_queue(self.a, "JOURNAL")))
        asked = {number for number in self.received if self.wanted[number]}
        assert set(journal.values()) <= {1} and set(journal) <= asked
        assert asked - self.removed <= set(journal)
        core = self.a.manager.core
        assert core.total_bytes == sum(q.total_bytes for q in core.queues.values() if not q.is_system)
        assert self.a.restart().manager.core.total_bytes == core.total_bytes


TestPeers = Peers.TestCase
TestPeers.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, report_multiple_bugs=False)
