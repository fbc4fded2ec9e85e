"""What becomes of messages that arrive, and who is told: [MS-MQQB] 3.1.5.8, 3.1.7.2, 3.1.7.15."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from lior.names import private_queue_number
from tests.interop.conftest import Target, new_queue
from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import (
    Name,
    UserMessage,
    direct,
    private,
)
from tests.interop.second_peer import PATIENCE, Identity, Listener, Session, Silence, is_order_message

SETTINGS = {"binary.order_ack": 0.1}
ARRIVED, RECEIVED, NOT_ARRIVED, NOT_RECEIVED = 1, 2, 4, 8
EVERYTHING: Final = ARRIVED | RECEIVED | NOT_ARRIVED | NOT_RECEIVED


def admin(me: Identity) -> Name:
    return direct(rf"TCP:{me.address}\private$\admin")


def notices(session: Session, listener: Listener, count: int, wait: float = 0.4) -> list[UserMessage]:
    """Administration acknowledgements since the last call, on whichever connection they come; all acknowledged.
    That many have to come; then, or if there are none to come, it is quiet for a while."""
    found: list[UserMessage] = []
    end = time.monotonic() + PATIENCE
    while True:
        found += [message for message in come(session, listener, wait) if not is_order_message(message)]
        if len(found) >= count or time.monotonic() > end:
            return found


def come(session: Session, listener: Listener, wait: float) -> list[UserMessage]:
    for _ in session.arriving(wait):
        pass
    session.acknowledge()
    found, session.messages = session.messages, []
    try:
        with listener.accept(timeout=0.2) as other:
            found += [p for p in other.arriving(wait) if isinstance(p, UserMessage)]
            other.acknowledge()
    except Silence:
        pass
    return found


def classes(messages: list[UserMessage]) -> list[int]:
    return [message.message_class for message in messages]


# What arrives


@pytest.mark.spec("QB-006", "QB-035", "QB-039", "QB-043", "QB-046", "QB-050", "QB-051", "QB-058")
def test_what_the_queue_manager_need_not_understand_arrives_untouched(session: Session, queue: Target) -> None:
    session.recoverable(
        queue.direct, b"body", label="l" * 249, extension=b"extension", body_type=0x1011, tag=0xDEADBEEF,
        message_class=0x0123, correlation=bytes(range(20)), connector=bytes(range(16)), priority=5,
        extra_flags=0xE0000080, base_flags=0xFE00, response=direct(r"OS:elsewhere\private$\answers"),
    )  # fmt: skip
    session.until_persisted()
    with queue.server.qm.open_queue(queue.path) as opened:
        message = opened.receive(60)
    assert (message.body, message.label, message.extension) == (b"body", "l" * 249, b"extension")
    assert (message.body_type, message.application_tag, message.message_class) == (0x1011, 0xDEADBEEF, 0x0123)
    assert (message.correlation_id, message.priority) == (bytes(range(20)), 5)
    assert message.connector_type is not None
    assert message.connector_type.bytes_le == bytes(range(16))
    assert message.response_queue == r"DIRECT=OS:elsewhere\private$\answers"


@pytest.mark.spec("QB-174")
def test_priorities_decide_the_order_in_a_queue(session: Session, queue: Target) -> None:
    for priority in range(8):
        session.recoverable(queue.direct, b"%d" % priority, priority=priority)
    session.until_persisted()
    queue.holds(*(b"%d" % priority for priority in range(7, -1, -1)))


@pytest.mark.spec("QB-170", "QB-155")
def test_names_are_compared_without_case_and_only_ours_are_ours(
    server: Daemon, session: Session, queue: Target
) -> None:
    session.recoverable(direct(rf"tcp:{server.address}\PRIVATE$\{queue.name.upper()}"), b"1")
    session.recoverable(direct(rf"OS:{server.address}\private$\{queue.name}"), b"2")
    session.recoverable(direct(rf"TCP:192.0.2.77\private$\{queue.name}"), b"not ours")
    session.recoverable(direct(rf"OS:.\private$\{queue.name}"), b"3")
    session.until_persisted()
    bodies = eventually(queue.bodies)
    assert b"not ours" not in bodies
    assert bodies[:1] == [b"1"]


@pytest.mark.spec("QB-170")
@pytest.mark.parametrize("suffix", [";JOURNAL", ";journal", ";sub", ";DEADLETTER"])
def test_journals_and_subqueues_take_nothing_from_the_wire(
    server: Daemon, session: Session, queue: Target, suffix: str
) -> None:
    session.recoverable(direct(queue.direct.text + suffix), b"no")
    session.recoverable(direct(rf"TCP:{server.address}\SYSTEM$;DEADLETTER"), b"no")
    session.recoverable(queue.direct, b"yes")
    session.until_persisted()
    queue.holds(b"yes")
    assert not any(info.messages for info in server.qm.queues() if info.name.startswith("system$"))


@pytest.mark.spec("QB-036", "QB-040", "QB-170")
def test_a_private_number_reaches_the_same_queue_as_its_name(server: Daemon, me: Identity, queue: Target) -> None:
    with me.open(server.address) as probe:
        guid = probe.remote
    number = private_queue_number(queue.path)
    with me.open(server.address, guid) as session:
        session.recoverable(private(number), b"number", address=guid)
        session.recoverable(queue.direct, b"name")
        session.recoverable(private(number ^ 1), b"nobody", address=guid)
        session.until_persisted()
    queue.holds(b"number", b"name")


@pytest.mark.spec("QB-169")
def test_what_comes_too_late_is_ignored_and_what_comes_from_the_future_is_not(session: Session, queue: Target) -> None:
    now = int(time.time())
    session.recoverable(queue.direct, b"late", sent_time=now - 60, time_to_reach_queue=30)
    session.recoverable(queue.direct, b"too old to be read", sent_time=now - 60, time_to_be_received=30)
    session.recoverable(queue.direct, b"future", sent_time=now + 3600, time_to_reach_queue=30)
    session.until_persisted()
    assert session.acked == 3
    queue.holds(b"future")


# Who is told


@pytest.mark.spec("QB-178", "QB-052", "QB-204", "QB-044", "MQ-099")
@pytest.mark.parametrize("delivery", [0, 1])
def test_an_arrival_is_told_once_with_the_identifier_of_the_message(
    server: Daemon, me: Identity, told: tuple[Session, Listener], queue: Target, delivery: int
) -> None:
    session, listener = told
    message = me.message(queue.direct, b"x", delivery=delivery, acknowledge=ARRIVED, admin=admin(me))
    session.send(message)
    (notice,) = notices(session, listener, 1)
    assert notice.message_class == 0x0002
    assert notice.correlation == me.guid + message.message_id.to_bytes(4, "little")
    assert notice.destination == admin(me)
    assert (notice.body, notice.delivery, notice.acknowledge) == (b"", delivery, 0)
    assert (notice.admin, notice.negative_journal, notice.positive_journal) == (None, False, False)
    assert notice.response is not None
    assert notice.response.text.lower() == queue.direct.text.lower()
    session.send(message)  # again: it is a duplicate
    assert notices(session, listener, 0) == []
    queue.holds(b"x")


@pytest.mark.spec("QB-196", "QB-044")
def test_a_receive_is_told_when_it_is_committed(
    server: Daemon, me: Identity, told: tuple[Session, Listener], queue: Target
) -> None:
    session, listener = told
    session.recoverable(queue.direct, b"plain", acknowledge=RECEIVED, admin=admin(me))
    assert notices(session, listener, 0) == []
    with server.qm.open_queue(queue.path) as opened:
        opened.receive(60)
        assert classes(notices(session, listener, 1)) == [0x4000]


@pytest.mark.spec("QB-196")
def test_a_receive_that_is_rolled_back_is_not_told(
    server: Daemon, me: Identity, told: tuple[Session, Listener], stream_queue: Target
) -> None:
    session, listener = told
    session.transactional(stream_queue.direct, b"x", next(me.streams), 1, acknowledge=RECEIVED, admin=admin(me))
    stream_queue.holds(b"x")
    with server.qm.open_queue(stream_queue.path) as opened:
        with pytest.raises(RuntimeError), server.qm.transaction() as transaction:
            opened.receive(60, transaction=transaction)
            raise RuntimeError
        assert notices(session, listener, 0) == []
        with server.qm.transaction() as transaction:
            opened.receive(60, transaction=transaction)
        assert classes(notices(session, listener, 1)) == [0x4000]


@pytest.mark.spec("QB-174", "QB-158", "QB-157", "QB-169", "QB-204", "QB-044")
def test_refusals_are_told_with_the_message(
    server: Daemon, me: Identity, told: tuple[Session, Listener], queue: Target, stream_queue: Target
) -> None:
    session, listener = told
    small = new_queue(server, quota=1)
    about: dict[str, Any] = {"acknowledge": NOT_ARRIVED, "admin": admin(me)}
    session.recoverable(small.direct, b"q" * 5000, **about)
    session.recoverable(stream_queue.direct, b"plain", **about)
    session.transactional(queue.direct, b"transactional", next(me.streams), 1, **about)
    session.recoverable(queue.direct, b"late", sent_time=int(time.time()) - 60, time_to_reach_queue=30, **about)
    session.express(stream_queue.direct, b"express", **about)
    found = notices(session, listener, 5)
    assert {(notice.message_class, notice.body, notice.delivery) for notice in found} == {
        (0x8003, b"q" * 5000, 1), (0x800A, b"plain", 1), (0x8009, b"transactional", 1), (0x8002, b"late", 1),
        (0x800A, b"express", 0),
    }  # fmt: skip
    assert len(found) == 5


@pytest.mark.spec("QB-203", "QB-087", "QB-156")
def test_a_missing_queue_is_told_to_nobody(server: Daemon, me: Identity, told: tuple[Session, Listener]) -> None:
    session, listener = told
    for number in range(20):
        missing = direct(rf"TCP:{server.address}\private$\missing{number}")
        session.recoverable(missing, b"x", acknowledge=EVERYTHING, admin=admin(me))
    session.until_persisted()
    assert notices(session, listener, 0) == []


@pytest.mark.spec("QB-196", "QB-205", "QB-119", "QB-044")
def test_the_ways_in_which_a_message_is_never_read_are_told(
    server: Daemon, me: Identity, told: tuple[Session, Listener], queue: Target
) -> None:
    session, listener = told
    purged, expiring = new_queue(server), new_queue(server)
    about: dict[str, Any] = {"acknowledge": NOT_RECEIVED, "admin": admin(me)}
    session.recoverable(queue.direct, b"deleted", **about)
    session.recoverable(purged.direct, b"purged", **about)
    session.recoverable(expiring.direct, b"expired", time_to_be_received=2, **about)
    session.until_persisted()
    server.qm.purge_queue(purged.path)
    server.qm.delete_queue(queue.path)
    found = classes(notices(session, listener, 3))
    assert sorted(found) == [0xC000, 0xC001, 0xC002]


@pytest.mark.spec("QB-044", "QB-037")
@pytest.mark.parametrize("asked", [0, ARRIVED, RECEIVED, ARRIVED | RECEIVED, NOT_ARRIVED, NOT_RECEIVED, EVERYTHING])
def test_only_what_was_asked_for_is_told(
    server: Daemon, me: Identity, told: tuple[Session, Listener], queue: Target, asked: int
) -> None:
    session, listener = told
    session.recoverable(queue.direct, b"x", acknowledge=asked, admin=admin(me) if asked else None)
    session.until_persisted()
    with server.qm.open_queue(queue.path) as opened:
        opened.receive(60)
    expected = [0x0002] * bool(asked & ARRIVED) + [0x4000] * bool(asked & RECEIVED)
    assert classes(notices(session, listener, len(expected))) == expected


@pytest.mark.spec("QB-204", "QB-037", "QB-180")
def test_an_administration_queue_here_gets_its_notice_here(server: Daemon, session: Session, queue: Target) -> None:
    local = new_queue(server)
    session.recoverable(queue.direct, b"x", acknowledge=ARRIVED, admin=local.direct)
    session.recoverable(queue.direct, b"y", acknowledge=ARRIVED, admin=private(private_queue_number(local.path)))
    session.until_persisted()
    server.holds(local.name, 2)
    with server.qm.open_queue(local.path) as opened:
        assert [opened.receive(0).message_class for _ in range(2)] == [0x0002] * 2


@pytest.mark.spec("QB-204", "QB-038")
def test_an_administration_queue_of_the_sender_is_found_by_its_number(
    server: Daemon, me: Identity, told: tuple[Session, Listener], queue: Target
) -> None:
    session, listener = told
    session.recoverable(queue.direct, b"x", acknowledge=ARRIVED, admin=private(77, kind=2))
    (notice,) = notices(session, listener, 1)
    assert notice.destination == private(77)
    assert notice.address == me.guid


@pytest.mark.spec("QB-180", "QB-203")
def test_an_acknowledgement_is_delivered_and_never_acknowledged(
    server: Daemon, me: Identity, told: tuple[Session, Listener], queue: Target
) -> None:
    session, listener = told
    session.recoverable(queue.direct, b"", message_class=0x4000, acknowledge=EVERYTHING, admin=admin(me))
    session.until_persisted()
    with server.qm.open_queue(queue.path) as opened:
        assert opened.receive(60).message_class == 0x4000
    assert notices(session, listener, 0) == []


# Journals and dead letters of the receiver


@pytest.mark.spec("QB-174")
def test_what_a_full_queue_refuses_is_kept_here_if_the_sender_wanted_it_kept(server: Daemon, session: Session) -> None:
    small, body = new_queue(server, quota=1), os.urandom(3000)
    session.recoverable(small.direct, body, negative_journal=True)
    session.recoverable(small.direct, body[::-1])
    session.until_persisted()
    with server.qm.open_queue(r".\SYSTEM$;DEADLETTER", "peek") as dead:
        letters = [message for message in dead if message.body in (body, body[::-1])]
    assert [(letter.body, letter.failure_reason) for letter in letters] == [(body, 0x8003)]
    with server.qm.open_queue(r".\SYSTEM$;DEADLETTER") as dead:
        dead.receive_by_lookup_id(letters[0].lookup_identifier)


@pytest.mark.spec("QB-156", "QB-157", "QB-169")
def test_what_nobody_else_would_know_of_is_kept_here_if_the_sender_wanted_it_kept(
    server: Daemon, session: Session, queue: Target, stream_queue: Target
) -> None:
    """Of a recoverable message its sender knows only that we have it. What is for others is not kept."""
    missing = direct(rf"TCP:{server.address}\private$\missing")
    late: dict[str, Any] = {"sent_time": int(time.time()) - 60, "time_to_reach_queue": 30}
    kept = {b"missing": 0x8000, b"plain": 0x800A, b"late": 0x8002}
    for journal in (True, False):
        about = {"negative_journal": journal}
        mark = b"" if journal else b"not "
        session.recoverable(missing, mark + b"missing", **about)
        session.recoverable(stream_queue.direct, mark + b"plain", **about)
        session.recoverable(queue.direct, mark + b"late", **late, **about)
        session.recoverable(private(5), mark + b"for another", address=os.urandom(16), **about)
        session.transactional(missing, mark + b"transactional", next(session.identity.streams), 1, **about)
    session.until_persisted()
    with server.qm.open_queue(r".\SYSTEM$;DEADLETTER", "peek") as dead:
        found = {bytes(message.body): message.failure_reason for message in dead}
    assert {body: reason for body, reason in found.items() if body.split()[-1] in kept or b"an" in body} == kept


def test_a_queue_with_a_journal_keeps_what_is_read_from_it(server: Daemon, session: Session) -> None:
    target = new_queue(server, journal=True)
    session.recoverable(target.direct, b"kept")
    session.until_persisted()
    with server.qm.open_queue(target.path) as opened:
        opened.receive(60)
    with server.qm.open_queue(target.path + ";JOURNAL", "peek") as journal:
        assert [message.body for message in journal] == [b"kept"]


# Through this queue manager to another


@pytest.mark.spec("QB-159", "QB-155", "QB-199", "MQ-084")
def test_a_message_for_another_goes_on_with_one_more_hop(tmp_path: Path, me: Identity) -> None:
    far = Identity(me.address.rpartition(".")[0] + ".252", os.urandom(16))
    routes = {f'routes."{lior_guid(far.guid)}"': far.address, f'routes."{lior_guid(me.guid)}"': me.address}
    with Daemon(tmp_path / "data", settings=routes).prepare() as server, far.listen() as there, me.listen() as here:
        with me.open(server.address) as probe:
            guid = probe.remote
        with me.open(server.address, guid) as session:
            stream = next(me.streams)
            about: dict[str, Any] = {"address": far.guid, "acknowledge": NOT_ARRIVED, "admin": private(9, kind=2)}
            first = session.recoverable(private(5), b"first", hops=0, **about)
            session.transactional(private(6), b"second", stream, 7, previous=6, hops=0x1C, **about)
            session.recoverable(private(5), b"third", hops=0x1D, **about)
            session.until_persisted()
            with there.accept() as onward:
                messages = [onward.message(), onward.message()]
                assert [m.body for m in messages] == [b"first", b"second"]
                assert [m.hops for m in messages] == [1, 0x1D]
                assert messages[0].message_id == first.message_id
                assert {m.source for m in messages} == {me.guid}
                assert {m.address for m in messages} == {far.guid}
                assert messages[1].transaction is not None
                assert (messages[1].transaction.stream, messages[1].transaction.number) == (stream, 7)
                assert messages[1].transaction.previous == 6
                onward.nothing(0.3)
                onward.acknowledge()
            found = notices(session, here, 1)
            assert [(n.message_class, n.body) for n in found] == [(0x8005, b"third")]


def lior_guid(raw: bytes) -> str:
    return str(UUID(bytes_le=raw))


@pytest.mark.spec("QB-155", "QB-156")
def test_a_message_for_somebody_unknown_is_not_kept(server: Daemon, me: Identity) -> None:
    with me.open(server.address) as probe:
        guid = probe.remote
    before = server.outgoing()
    with me.open(server.address, guid) as session:
        session.recoverable(private(5), b"for nobody", address=os.urandom(16))
        message = session.transactional(private(5), b"for nobody", next(me.streams), 1, address=os.urandom(16))
        final, body = session.final_body()
        assert (final.message_class, body.message_id) == (0x8000, message.message_id)
        session.acknowledge()
        eventually(lambda: server.outgoing() == before)
