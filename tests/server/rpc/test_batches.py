"""Sends and reads that one chunk of the network brought: as one by one, in their order."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from lior.errors import HRESULTS, MessageStorageFailed
from lior.message import Message
from lior.server.rpc.methods.send_batches import MOST
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from tests.server.rpc.calling import NO_OBJECT, QUEUE, Answered, Client, DrivenEngine, Server, sent
from tests.server.rpc.remote_reading import Reader, body_of_sections

INVALID = HRESULTS["MQ_ERROR_INVALID_PARAMETER"]


@pytest.fixture
def server() -> Server:
    server = Server()
    server.create()
    return server


def fill(server: Server, *bodies: bytes, **fields: Any) -> None:
    for body in bodies:
        server.engine.send(server.engine.sender(), Message(body, delivery_guarantee=1, **fields))


def bodies(server: Server) -> list[bytes]:
    return server.engine.bodies(server.manager.core.paths[r"private$\q"])


def request_of(handle: bytes, body: bytes, **members: Any) -> dict[str, Any]:
    identifier = members.pop("identifier", NO_OBJECT)
    return {"h_queue": handle, "ptb": sent(body, **members), "p_message_id": identifier}


def templates(client: Client, handle: bytes) -> None:
    """What makes the sends that come after usual ones."""
    for _ in range(3):
        client.send(handle, b"t")


def starts(reader: Reader, *numbers: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"ph_context": reader.handle, "lookup_id": 0, "h_cursor": 0, "ul_action": 0, "ul_timeout": 0,
             "dw_request_id": number, "dw_max_body_size": 1 << 22, "dw_max_compound_message_size": 0, **fields}
            for number in numbers]  # fmt: skip


def ends(reader: Reader, *numbers: int, ack: int = 2) -> list[dict[str, Any]]:
    return [{"ph_context": reader.handle, "dw_ack": ack, "dw_request_id": number} for number in numbers]


def results(answers: list[Answered]) -> list[int]:
    return [answered.values.result for answered in answers]


# Sends


def test_sends_that_came_together_are_one_change_and_each_is_answered_with_its_identifier(server: Server) -> None:
    client = server.client()
    handle = client.opened(QUEUE, access=2).ph_queue
    templates(client, handle)
    wanted = [b"%d" % n for n in range(MOST + 5)]
    answers = client.together(QMCOMM2, 1, [request_of(handle, body) for body in wanted])
    assert [change.count for change in server.manager.core.pending] == [MOST, 5]
    assert not any(answered.done for answered in answers)
    server.engine.commit()
    assert results(answers) == [0] * len(wanted) and bodies(server)[3:] == wanted
    queue = server.manager.core.paths[r"private$\q"]
    there = [queue.position(i, server.engine.store).message.identifier for i in queue.available][3:]
    assert [answered.values.p_message_id for answered in answers] == there


@pytest.mark.parametrize("between", [
    {"p_delivery": 0}, {"identifier": None}, {"p_uow": uuid4()}, {"ul_absolute_time_to_queue": 9},
    {"ul_relative_time_to_live": 60}, {"p_priority": 9}, {"label": "new"}, {"admin": QUEUE, "p_acknowledge": 1},
    {"p_auditing": 2},
])  # fmt: skip
def test_an_unusual_send_between_others_keeps_its_place_and_its_answer(server: Server, between: dict[str, Any]) -> None:
    found = []
    for together in (True, False):
        client = server.client()
        handle = client.opened(QUEUE, access=2).ph_queue
        templates(client, handle)
        before = len(bodies(server))
        requests = [request_of(handle, b"1"), request_of(handle, b"2"), request_of(handle, b"3"),
                    *[request_of(handle, b"x", **between) for _ in range(4)], request_of(handle, b"4")]  # fmt: skip
        if together:
            answers = client.together(QMCOMM2, 1, requests)
        else:
            answers = [client.start(QMCOMM2, 1, **request) for request in requests]
        server.engine.commit()
        found.append((results(answers), [answered.values.p_message_id is None for answered in answers],
                      bodies(server)[before:]))  # fmt: skip
    assert found[0] == found[1] and len(found[0][2]) >= 3


def test_sends_that_cannot_be_stored_are_answered_so(server: Server) -> None:
    client = server.client()
    handle = client.opened(QUEUE, access=2).ph_queue
    templates(client, handle)
    answers = client.together(QMCOMM2, 1, [request_of(handle, b"1"), request_of(handle, b"2")])
    server.manager.failed(server.manager.take_pending(), MessageStorageFailed("no room"))
    assert results(answers) == [MessageStorageFailed("").code] * 2
    assert all(answered.values.p_message_id is None for answered in answers) and len(bodies(server)) == 3


def test_who_outruns_the_disk_waits_in_line_with_all_that_it_sent() -> None:
    engine = DrivenEngine()
    server = Server(engine=engine)
    server.create()
    client = server.client()
    handle = client.opened(QUEUE, access=2).ph_queue
    templates(client, handle)
    engine.crowded = True
    answers = client.together(QMCOMM2, 1, [request_of(handle, b"1"), request_of(handle, b"2")])
    engine.commit()
    assert not any(answered.done for answered in answers)
    for call in engine.line:
        call()
    engine.commit()
    assert results(answers) == [0, 0] and bodies(server)[3:] == [b"1", b"2"]


def test_a_client_who_goes_away_while_its_sends_are_stored_hurts_nobody(server: Server) -> None:
    client = server.client()
    handle = client.opened(QUEUE, access=2).ph_queue
    templates(client, handle)
    answers = client.together(QMCOMM2, 1, [request_of(handle, b"1"), request_of(handle, b"2")])
    client.die()
    assert not any(answered.done for answered in answers) and bodies(server)[3:] == [b"1", b"2"]


# Reads


def test_messages_read_together_come_in_order_and_who_is_left_waits(server: Server) -> None:
    fill(server, b"1", b"2")
    client = server.client()
    reader = Reader(client)
    answers = client.together(REMOTE_READ, 7, starts(reader, 1, 2, 3, ul_timeout=1000))
    assert [body_of_sections(answered.values) for answered in answers[:2]] == [b"1", b"2"] and not answers[2].done
    fill(server, b"3")
    assert body_of_sections(answers[2].values) == b"3"
    ended = client.together(REMOTE_READ, 9, ends(reader, 1, 2, 3))
    assert not any(answered.done for answered in ended)
    server.engine.commit()
    assert results(ended) == [0, 0, 0] and bodies(server) == []


def test_a_read_that_is_wrong_takes_nothing_and_those_around_it_are_served(server: Server) -> None:
    fill(server, b"1", b"2", b"3")
    client = server.client()
    reader = Reader(client)
    requests = [*starts(reader, 1), *starts(reader, 3, ul_action=9), *starts(reader, 4, 4, 5)]
    answers = client.together(REMOTE_READ, 7, requests)
    assert results(answers) == [0, INVALID, 0, INVALID, 0]
    assert [body_of_sections(answers[n].values) for n in (0, 2, 4)] == [b"1", b"2", b"3"]
    requests = [*ends(reader, 1), *ends(reader, 1), *ends(reader, 9), *ends(reader, 4, 5, ack=1)]
    ended = client.together(REMOTE_READ, 9, requests)
    server.engine.commit()
    assert results(ended)[0] == results(ended)[3] == 0 and all(results(ended)[1:3])
    assert bodies(server) == [b"2", b"3"]


def test_who_wants_less_of_a_body_gets_less(server: Server) -> None:
    fill(server, b"12345678", b"12", b"123456789")
    client = server.client()
    answers = client.together(REMOTE_READ, 7, starts(Reader(client), 1, 2, 3, dw_max_body_size=4))
    assert [len(answered.values.pp_packet_sections) for answered in answers] == [2, 1, 2]


def test_a_message_that_fits_into_no_packet_stays_and_the_others_are_read(server: Server) -> None:
    queue = server.manager.core.paths[r"private$\q"]
    fill(server, b"1", b"2", b"3")
    second = sorted(queue.positions)[1]
    queue.positions[second].message.response_queue = "no name"
    client = server.client()
    answers = client.together(REMOTE_READ, 7, starts(Reader(client), 1, 2, 3))
    assert [answered.values.result for answered in answers] == [0, HRESULTS["MQ_ERROR_UNSUPPORTED_OPERATION"], 0]
    assert bodies(server) == [b"2"]


def test_what_was_read_together_goes_back_when_the_client_is_gone(server: Server) -> None:
    fill(server, b"1", b"2", b"3")
    client = server.client()
    client.together(REMOTE_READ, 7, starts(Reader(client), 1, 2))
    assert bodies(server) == [b"3"]
    client.die()
    assert bodies(server) == [b"1", b"2", b"3"]


def test_what_was_read_together_goes_back_when_no_word_comes(server: Server) -> None:
    fill(server, b"1", b"2")
    client = server.client()
    client.together(REMOTE_READ, 7, starts(Reader(client), 1, 2))
    server.clock.advance(server.service.settings.end_timeout)
    server.timers.fire()
    server.engine.commit()
    assert bodies(server) == [b"1", b"2"] and len(server.service.handed_out) == 0


def test_ends_that_cannot_be_stored_are_answered_so_and_the_messages_stay(server: Server) -> None:
    fill(server, b"1", b"2")
    client = server.client()
    reader = Reader(client)
    client.together(REMOTE_READ, 7, starts(reader, 1, 2))
    ended = client.together(REMOTE_READ, 9, ends(reader, 1, 2))
    server.manager.failed(server.manager.take_pending(), MessageStorageFailed("no room"))
    assert results(ended) == [MessageStorageFailed("").code] * 2
    assert server.manager.core.paths[r"private$\q"].message_count == 2
    client.die()
    assert bodies(server) == [b"1", b"2"]


def test_another_clients_handle_is_no_handle_in_a_batch_either(server: Server) -> None:
    fill(server, b"1")
    reader = Reader(server.client())
    other = server.client(peer="192.0.2.9")
    answers = other.together(REMOTE_READ, 7, starts(reader, 1))
    assert answers[0].status == 0x1C00001A and bodies(server) == [b"1"]
