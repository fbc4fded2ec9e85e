"""RemoteRead: other queue managers read queues here ([MS-MQRR] 3.1.4)."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from lior.errors import HRESULTS
from lior.message import Message
from lior.server.rpc.methods.packets import FULL_PACKET
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.remote_read import (
    REMOTE_READ,
    ST_BINARY_FIRST_SECTION,
    ST_BINARY_SECOND_SECTION,
)
from lior.wire.message_packet import to_message
from tests.server.rpc.calling import NO_GUID, QUEUE, Client, Fault, Server, format_of, user
from tests.server.rpc.remote_reading import HERE, Reader, body_of_sections, open_reading

HANDLE = bytes(20)
MISMATCH = 0x1C00001A
INVALID = HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
INVALID_HANDLE = HRESULTS["MQ_ERROR_INVALID_HANDLE"]
CANCELLED = HRESULTS["MQ_ERROR_OPERATION_CANCELLED"]
USAGE = HRESULTS["MQ_ERROR_TRANSACTION_USAGE"]
TIMEOUT = HRESULTS["MQ_ERROR_IO_TIMEOUT"]
NOT_FOUND = HRESULTS["MQ_ERROR_MESSAGE_NOT_FOUND"]
NT_ACCESS_DENIED = 0xC0000022
NT_INVALID_HANDLE = 0xC0000008
PEEK, PEEK_NEXT = 0x80000000, 0x80000001
SUBQUEUE = QUEUE + ";sub"


@pytest.fixture(autouse=True, params=[False, True], ids=["alone", "batch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule holds for calls that go to the batch handlers, too."""
    monkeypatch.setattr(Client, "in_batches", request.param)


@pytest.fixture
def server() -> Server:
    server = Server()
    server.create()
    return server


@pytest.fixture
def ordered() -> Server:
    server = Server()
    server.create(transactional=True)
    return server


def put(server: Server, *bodies: bytes, **fields: Any) -> None:
    sender = server.engine.sender()
    transactional = server.manager.core.paths[r"private$\q"].transactional
    for body in bodies:
        transaction = server.manager.begin() if transactional else None
        server.engine.send(sender, Message(body, **fields), transaction)
        if transaction is not None:
            server.engine.do(server.manager.commit, transaction.identifier)
    server.manager.close(sender)


def left(server: Server) -> list[bytes]:
    return server.engine.bodies(server.manager.core.paths[r"private$\q"])


def enlist(client: Client) -> tuple[UUID, bytes]:
    uow = uuid4()
    return uow, client.call(QMCOMM, 16, p_uow=uow).ph_int_xact


# Opening


def test_opens_and_closes_a_queue(server: Server) -> None:
    client = server.client()
    reader = Reader(client)
    assert len(server.manager.opening.descriptors) == 1
    assert reader_close(reader) == (HANDLE, 0)
    assert not server.manager.opening.descriptors
    with pytest.raises(Fault) as fault:
        reader_close(reader)
    assert fault.value.status == MISMATCH


def reader_close(reader: Reader) -> Any:
    return reader.client.call(REMOTE_READ, 3, pph_context=reader.handle)


@pytest.mark.parametrize(("name", "access", "share", "status"), [
    (QUEUE, 2, 0, "MQ_ERROR_INVALID_PARAMETER"),
    (QUEUE, 0x81, 0, "MQ_ERROR_INVALID_PARAMETER"),
    (QUEUE, 1, 2, "MQ_ERROR_UNSUPPORTED_ACCESS_MODE"),
    (r"DIRECT=HTTP://lior/msmq/private$/q", 1, 0, "MQ_ERROR_INVALID_PARAMETER"),
    ("MULTICAST=234.1.1.1:8001", 1, 0, "MQ_ERROR_INVALID_PARAMETER"),
    (f"DL={HERE}", 1, 0, "MQ_ERROR_INVALID_PARAMETER"),
    (r"DIRECT=OS:.\private$\none", 1, 0, "MQ_ERROR_QUEUE_NOT_FOUND"),
    (r"DIRECT=OS:other\private$\q", 1, 0, "MQ_ERROR_QUEUE_NOT_FOUND"),
])  # fmt: skip
@pytest.mark.spec("MP-022")
def test_a_queue_that_does_not_open_is_a_fault_with_its_hresult(
    server: Server, name: str, access: int, share: int, status: str
) -> None:
    with pytest.raises(Fault) as fault:
        open_reading(server.client(), name, access, share)
    assert fault.value.status == HRESULTS[status]
    assert not server.manager.opening.descriptors and not server.service._held


def test_opens_with_the_callers_rights_and_alone_if_it_asks_for_that(server: Server) -> None:
    with pytest.raises(Fault) as fault:
        open_reading(server.client(user(7)))
    assert fault.value.status == HRESULTS["MQ_ERROR_ACCESS_DENIED"]
    reader = Reader(server.client(), share=1)
    with pytest.raises(Fault) as fault:
        open_reading(server.client())
    assert fault.value.status == HRESULTS["MQ_ERROR_SHARING_VIOLATION"]
    reader_close(reader)
    assert open_reading(server.client()).pph_context != HANDLE


def test_a_handle_is_its_clients_and_of_its_own_kind(server: Server) -> None:
    reader = Reader(server.client())
    with pytest.raises(Fault) as fault:
        server.client().call(REMOTE_READ, 6, ph_context=reader.handle)
    assert fault.value.status == MISMATCH
    with pytest.raises(Fault) as fault:
        reader.client.qmcomm(20, ph_queue=reader.handle)
    assert fault.value.status == MISMATCH


def test_tells_its_port(server: Server) -> None:
    assert server.client().call(REMOTE_READ, 0) == (2103,)


# Reading


def test_a_receive_is_over_when_its_reader_says_so(server: Server) -> None:
    put(server, b"1", b"2")
    reader = Reader(server.client())
    response = reader.read(request=7)
    assert response.result == 0 and body_of_sections(response) == b"1"
    assert response.pdw_arrive_time == int(server.clock.wall())
    assert left(server) == [b"2"]
    assert reader.end(7) == 0
    assert left(server) == [b"2"]
    reader.read(request=8)
    assert reader.end(8, ack=1) == 0
    assert left(server) == [b"2"]
    assert reader.end(8) == INVALID_HANDLE  # nothing is handed out at all
    reader.read(request=9)
    assert reader.end(8) == INVALID
    assert reader.end(9) == 0


def test_the_end_is_answered_when_it_is_on_disk(server: Server) -> None:
    put(server, b"1", delivery_guarantee=1)
    reader = Reader(server.client())
    reader.read(request=1)
    answered = reader.client.start(REMOTE_READ, 9, ph_context=reader.handle, dw_ack=2, dw_request_id=1)
    assert not answered.done
    server.engine.commit()
    assert reader.client.result(answered).result == 0


def test_a_message_without_the_readers_word_goes_back_after_a_while(server: Server) -> None:
    put(server, b"1")
    reader = Reader(server.client())
    cursor = reader.call(4).ph_cursor
    reader.read(request=1, cursor=cursor)
    assert left(server) == []
    server.clock.advance(299)
    server.timers.fire()
    assert left(server) == [] and len(server.timers.waiting) == 1
    server.clock.advance(1)
    server.timers.fire()
    server.engine.commit()
    assert left(server) == [b"1"]
    assert reader.end(1) == INVALID_HANDLE
    assert body_of_sections(reader.read(request=2, cursor=cursor)) == b"1"  # the cursor went back with it
    assert reader.end(2) == 0 and not server.service.handed_out


def test_a_peek_needs_no_end(server: Server) -> None:
    put(server, b"1", priority=2)
    reader = Reader(server.client(), access=0x20)
    (lookup_id,) = server.manager.core.paths[r"private$\q"].available
    response = reader.read(PEEK, request=1)
    assert (response.result, response.p_sequence_id) == (0, lookup_id & 0xFFFFFFFFFFFFFF)
    assert reader.end(1) == INVALID_HANDLE
    assert reader.read(request=2).result == HRESULTS["MQ_ERROR_ACCESS_DENIED"]
    assert left(server) == [b"1"]


def test_a_request_number_serves_one_request_at_a_time(server: Server) -> None:
    put(server, b"1", b"2")
    reader = Reader(server.client())
    assert reader.read(request=1).result == 0
    assert reader.read(request=1).result == INVALID
    reader.end(1)
    assert reader.read(request=1).result == 0


def test_reads_by_cursor_and_by_lookup_identifier(server: Server) -> None:
    put(server, b"1", b"2", b"3")
    ids = list(server.manager.core.paths[r"private$\q"].available)
    reader = Reader(server.client())
    cursor = reader.call(4).ph_cursor
    assert body_of_sections(reader.read(PEEK, cursor=cursor)) == b"1"
    assert body_of_sections(reader.read(PEEK_NEXT, cursor=cursor)) == b"2"
    assert body_of_sections(reader.read(0x40000010, lookup_id=ids[2])) == b"3"
    assert body_of_sections(reader.read(0x40000011, lookup_id=ids[0])) == b"2"
    assert body_of_sections(reader.read(0x40000012, lookup_id=ids[1])) == b"1"
    taken = reader.read(0x40000020, lookup_id=ids[1], request=50)
    assert body_of_sections(taken) == b"2"
    assert reader.end(50) == 0
    assert left(server) == [b"1", b"3"]
    assert reader.call(5, h_cursor=cursor).result == 0
    assert reader.call(5, h_cursor=cursor).result == INVALID_HANDLE
    assert reader.read(PEEK, cursor=cursor).result == NT_INVALID_HANDLE


@pytest.mark.parametrize("options", [
    {"action": 7}, {"action": 0x40000010}, {"action": 0x40000010, "lookup_id": 5, "timeout": 1},
    {"action": 0x40000010, "lookup_id": 5, "cursor": 1}, {"action": 0, "lookup_id": 5},
    {"action": PEEK, "lookup_id": 5}, {"action": PEEK_NEXT},
])  # fmt: skip
def test_what_does_not_stand_together_is_invalid(server: Server, options: dict[str, int]) -> None:
    put(server, b"1")
    assert Reader(server.client()).read(**options).result == INVALID
    assert left(server) == [b"1"]


# The packet


def test_the_packet_is_absolute_in_time_and_has_the_headers_of_a_remote_read(server: Server) -> None:
    put(server, b"body", label="label", time_to_reach_queue=1000,
        application_deadletter_queue=r"DIRECT=OS:lior\private$\dead")  # fmt: skip
    reader = Reader(server.client())
    (section,) = reader.read(PEEK).pp_packet_sections
    packet = bytes(section.p_section_buffer)
    assert (section.section_buffer_type, section.section_size_alloc) == (FULL_PACKET, section.section_size)
    assert int.from_bytes(packet[12:16], "little") == int(server.clock.wall()) + 1000
    size = int.from_bytes(packet[8:12], "little")
    extension = packet[size:]
    assert (int.from_bytes(extension[:4], "little"), int.from_bytes(extension[4:8], "little")) == (
        12, len(extension) - 12)  # fmt: skip
    assert extension[8] == 0x01 | 0x02 | 0x10  # dead letter, subqueue, extended address
    assert int.from_bytes(extension[12:16], "little") == 148
    dead_letter = extension[12 + 148 :]
    length = int.from_bytes(dead_letter[:4], "little")
    assert dead_letter[4:length].decode("utf-16-le").rstrip("\0") == r"DIRECT=OS:lior\private$\dead"
    assert dead_letter[length:] == (28).to_bytes(4, "little") + bytes(24)
    message = to_message(packet[:size], queue_manager=HERE)
    assert (message.body, message.label) == (b"body", "label")


def test_a_message_of_a_subqueue_says_so(server: Server) -> None:
    put(server, b"1")
    client = server.client()
    source, target = Reader(client), Reader(client, SUBQUEUE)
    move_into_subqueue(server, client, source)
    (section,) = target.read(PEEK).pp_packet_sections
    packet = bytes(section.p_section_buffer)
    header = packet[int.from_bytes(packet[8:12], "little") + 12 :]
    assert header[20:84].decode("utf-16-le").rstrip("\0") == "sub"
    assert int.from_bytes(header[12:16], "little") == 1  # moved once


@pytest.mark.parametrize("room", [0, 1, 4, 9])
def test_a_long_body_comes_as_far_as_it_is_wanted(server: Server, room: int) -> None:
    put(server, b"0123456789", label="label", extension=b"more", tracing_requested=True)
    reader = Reader(server.client())
    whole = reader.read(PEEK).pp_packet_sections[0]
    first, second = reader.read(PEEK, room=room).pp_packet_sections
    assert (first.section_buffer_type, second.section_buffer_type) == (
        ST_BINARY_FIRST_SECTION, ST_BINARY_SECOND_SECTION)  # fmt: skip
    assert first.section_size_alloc - first.section_size == 10 - room
    assert second.section_size_alloc == second.section_size
    together = bytes(first.p_section_buffer) + b"0123456789"[room:] + bytes(second.p_section_buffer)
    assert together == bytes(whole.p_section_buffer)


def test_a_body_that_just_fits_comes_whole(server: Server) -> None:
    put(server, b"0123456789")
    (section,) = Reader(server.client()).read(PEEK, room=10).pp_packet_sections
    assert section.section_buffer_type == FULL_PACKET


# Waiting


def test_a_reader_cancels_a_read_that_waits(server: Server) -> None:
    reader = Reader(server.client())
    answered = reader.start(0, 10_000, request=5)
    assert reader.call(8, dw_request_id=6).result == INVALID
    assert reader.call(8, dw_request_id=5).result == 0
    assert reader.client.result(answered).result == CANCELLED
    put(server, b"1")
    assert left(server) == [b"1"]
    assert reader.read(request=5).result == 0
    assert reader.call(8, dw_request_id=5).result == INVALID  # it does not wait any more


def test_a_read_times_out_and_its_number_is_free(server: Server) -> None:
    reader = Reader(server.client())
    answered = reader.start(0, 1000, request=5)
    server.engine.advance(1.1)
    assert reader.client.result(answered).result == TIMEOUT
    assert reader.read(request=5).result == TIMEOUT


def test_a_reader_that_goes_away_takes_nothing_along(server: Server) -> None:
    put(server, b"1")
    reader = Reader(server.client())
    reader.read(request=1)
    reader.start(0, 10_000, request=2)
    reader.client.die()
    assert left(server) == [b"1"]
    put(server, b"2")
    assert left(server) == [b"1", b"2"]
    assert not server.manager.opening.descriptors and not server.service.handed_out and not server.service._held


def test_closing_the_queue_gives_back_what_was_handed_out(server: Server) -> None:
    put(server, b"1")
    reader = Reader(server.client())
    reader.read(request=1)
    answered = reader.start(0, 10_000, request=2)
    reader_close(reader)
    assert reader.client.result(answered).result == CANCELLED
    assert left(server) == [b"1"] and not server.service.handed_out


def test_purges_for_a_reader_that_receives(server: Server) -> None:
    put(server, b"1", b"2")
    assert Reader(server.client(), access=0x20).call(6).result == NT_ACCESS_DENIED
    assert left(server) == [b"1", b"2"]
    assert Reader(server.client()).call(6).result == 0
    assert left(server) == []


# Moving


def open_for_move(client: Client, name: str = SUBQUEUE) -> Any:
    return open_reading(client, name, 4, 0, 11)


def move(reader: Reader, target: int, lookup_id: int, uow: UUID = NO_GUID) -> int:
    response = reader.client.call(REMOTE_READ, 10, ph_context_from=reader.handle, ull_context_to=target,
                                  lookup_id=lookup_id, p_transaction_id=uow)  # fmt: skip
    return int(response.result)


def move_into_subqueue(server: Server, client: Client, source: Reader) -> None:
    (lookup_id,) = server.manager.core.paths[r"private$\q"].available
    assert move(source, open_for_move(client).p_move_context, lookup_id) == 0


def test_moves_a_message_into_a_subqueue(server: Server) -> None:
    put(server, b"1")
    client = server.client()
    reader = Reader(client)
    (lookup_id,) = server.manager.core.paths[r"private$\q"].available
    target = open_for_move(client).p_move_context
    assert target > 0xFFFFFFFF
    assert move(reader, target, lookup_id + 1) == NOT_FOUND
    assert move(reader, target, lookup_id) == 0
    assert left(server) == []
    assert body_of_sections(Reader(client, SUBQUEUE).read(PEEK)) == b"1"


def test_moves_only_where_the_same_client_opened_a_queue_to_move_to(server: Server) -> None:
    put(server, b"1")
    (lookup_id,) = server.manager.core.paths[r"private$\q"].available
    reader = Reader(server.client())
    assert move(reader, 12345, lookup_id) == INVALID_HANDLE
    elsewhere = open_for_move(server.client(peer="198.51.100.1")).p_move_context
    assert move(reader, elsewhere, lookup_id) == INVALID_HANDLE
    opened = open_for_move(reader.client)
    reader.client.call(REMOTE_READ, 3, pph_context=opened.pph_context)
    assert move(reader, opened.p_move_context, lookup_id) == INVALID_HANDLE
    server.create("other")
    other = open_for_move(reader.client, r"DIRECT=OS:.\private$\other;sub").p_move_context
    assert move(reader, other, lookup_id) == 0xC000000D
    assert left(server) == [b"1"]


def test_opens_for_moving_with_the_documents_modes_only(server: Server) -> None:
    for access, share in ((1, 0), (4, 1)):
        with pytest.raises(Fault) as fault:
            open_reading(server.client(), SUBQUEUE, access, share, 11)
        assert fault.value.status == INVALID


def test_a_move_in_a_transaction_is_over_with_its_commit(ordered: Server) -> None:
    put(ordered, b"1")
    (lookup_id,) = ordered.manager.core.paths[r"private$\q"].available
    client = ordered.client()
    reader, target = Reader(client), open_for_move(client).p_move_context
    uow, handle = enlist(client)
    assert move(reader, target, lookup_id, uuid4()) == HRESULTS["MQ_ERROR_TRANSACTION_SEQUENCE"]
    assert move(reader, target, lookup_id, uow) == 0
    assert left(ordered) == []
    client.qmcomm(18, ph_int_xact=handle)
    assert left(ordered) == [b"1"]
    plain = Server()
    plain.create()
    put(plain, b"1")
    client = plain.client()
    uow, _ = enlist(client)
    (lookup_id,) = plain.manager.core.paths[r"private$\q"].available
    assert move(Reader(client), open_for_move(client).p_move_context, lookup_id, uow) == USAGE


# Transactions


def test_without_a_transaction_the_transactional_receive_is_the_other_one(server: Server) -> None:
    put(server, b"1")
    reader = Reader(server.client())
    response = reader.read(request=1, uow=NO_GUID)
    assert body_of_sections(response) == b"1"
    assert reader.end(1, transactional=True) == 0
    assert left(server) == []


def test_a_transactional_receive_is_over_with_its_transaction(ordered: Server) -> None:
    put(ordered, b"1", b"2", b"3")
    client = ordered.client()
    reader = Reader(client)
    uow, handle = enlist(client)
    assert body_of_sections(reader.read(request=1, uow=uow)) == b"1"
    assert reader.end(1) == INVALID
    assert reader.end(1, transactional=True) == 0
    assert body_of_sections(reader.read(request=2, uow=uow)) == b"2"
    assert reader.end(2, ack=1, transactional=True) == 0  # back, and out of the transaction
    assert left(ordered) == [b"2", b"3"]
    client.qmcomm(17, ph_int_xact=handle)
    assert left(ordered) == [b"2", b"3"]
    uow, handle = enlist(client)
    reader.read(request=3, uow=uow)
    reader.end(3, transactional=True)
    client.qmcomm(18, ph_int_xact=handle)
    assert left(ordered) == [b"2", b"3"]


def test_a_transactional_receive_without_the_readers_word_goes_back(ordered: Server) -> None:
    put(ordered, b"1")
    client = ordered.client()
    reader = Reader(client)
    uow, handle = enlist(client)
    reader.read(request=1, uow=uow)
    ordered.clock.advance(301)
    ordered.timers.fire()
    ordered.engine.commit()
    assert left(ordered) == [b"1"]
    client.qmcomm(17, ph_int_xact=handle)
    assert left(ordered) == [b"1"]


def test_transactional_receives_are_of_transactional_queues_and_known_units_of_work(
    server: Server, ordered: Server
) -> None:
    put(server, b"1")
    put(ordered, b"1")
    client = server.client()
    uow, _ = enlist(client)
    assert Reader(client).read(uow=uow).result == USAGE
    client = ordered.client()
    uow, _ = enlist(client)
    reader = Reader(client)
    assert reader.read(PEEK, uow=uow).result == USAGE
    assert reader.read(uow=uuid4()).result == HRESULTS["MQ_ERROR_TRANSACTION_SEQUENCE"]
    thief = Reader(ordered.client(peer="198.51.100.1"))
    assert thief.read(uow=uow).result == HRESULTS["MQ_ERROR_ACCESS_DENIED"]
    assert left(ordered) == [b"1"]


def test_a_message_of_a_transaction_can_be_rejected(ordered: Server) -> None:
    put(ordered, b"1", negative_journaling_requested=True)
    client = ordered.client()
    reader = Reader(client)
    (lookup_id,) = ordered.manager.core.paths[r"private$\q"].available

    def reject(of_class: int = 0xC004, at: int = lookup_id) -> int:
        return int(reader.call(14, lookup_id=at, us_class=of_class).result)

    assert reject(at=lookup_id + 1) == NOT_FOUND
    assert reject() == USAGE
    uow, handle = enlist(client)
    reader.read(request=1, uow=uow)
    reader.end(1, transactional=True)
    assert reject(0x8000) == INVALID
    assert reject(0) == 0
    assert reject() == 0
    client.qmcomm(17, ph_int_xact=handle)
    dead = ordered.manager.core.paths["system$;deadxact"]
    assert ordered.engine.bodies(dead) == [b"1"]


def test_a_coordinators_transaction_is_not_enlisted_here(server: Server) -> None:
    response = server.client().call(REMOTE_READ, 12, p_transaction_id=uuid4(), cb_propagation_token=2,
                                    pb_propagation_token=b"xy", p_queue_format=format_of(QUEUE))  # fmt: skip
    assert response.result == HRESULTS["MQ_ERROR_DTC_CONNECT"]
