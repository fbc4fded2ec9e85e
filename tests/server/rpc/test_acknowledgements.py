"""Acknowledgements, journals and classes as a client asks for them and sees them ([MS-MQMP] 2.2.3.2)."""

from __future__ import annotations

from typing import Any

import pytest

from lior.errors import CUSTOMER_BIT, HRESULTS, LiorError
from lior.message import Message, MessageClass
from tests.server.rpc.calling import Client, Server, body_of
from tests.server.rpc.test_objects import create

ADMIN = r"DIRECT=OS:.\private$\admin"
FAR = r"DIRECT=OS:far\private$\q"
C = MessageClass


def acknowledged(server: Server, client: Client) -> list[int]:
    """pClass of what is in the administration queue."""
    context = client.opened(ADMIN).pdw_qm_context
    found = []
    while (response := client.receive(context)).result == 0:
        found.append(response.ptb.p_class)
    return found


def arranged() -> tuple[Server, Client]:
    server = Server()
    server.create("admin")
    server.create()
    return server, server.client()


def expected(*pairs: tuple[int, int], asked: int) -> list[int]:
    return [message_class for bit, message_class in pairs if asked & bit]


@pytest.mark.parametrize("asked", [0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x0C, 0x0E])
@pytest.mark.spec("MP-050", "MP-044")
def test_each_value_asks_for_its_acknowledgements(asked: int) -> None:
    server, client = arranged()
    sender = client.opened(access=2).ph_queue
    client.send(sender, p_acknowledge=asked, admin=ADMIN)
    assert acknowledged(server, client) == expected((1, C.ACK_REACH_QUEUE), asked=asked)
    client.receive(client.opened().pdw_qm_context)
    assert acknowledged(server, client) == expected((2, C.ACK_RECEIVE), asked=asked)
    client.send(sender, p_acknowledge=asked & ~1, admin=ADMIN, ul_relative_time_to_live=3)
    server.engine.advance(4)
    assert acknowledged(server, client) == expected((8, C.NACK_RECEIVE_TIMEOUT), asked=asked)
    client.send(client.opened(FAR, access=2).ph_queue, p_acknowledge=asked, admin=ADMIN, ul_absolute_time_to_queue=2)
    server.engine.advance(3)
    assert acknowledged(server, client) == expected((4, C.NACK_REACH_QUEUE_TIMEOUT), asked=asked)


@pytest.mark.spec("MP-044", "MP-050")
def test_a_purge_and_a_deletion_are_told_to_who_asked() -> None:
    server, client = arranged()
    sender = client.opened(access=2).ph_queue
    client.send(sender, p_acknowledge=8, admin=ADMIN)
    client.qmcomm(27, h_queue=client.opened().ph_queue)
    assert acknowledged(server, client) == [C.NACK_Q_PURGED]
    client.send(sender, p_acknowledge=8, admin=ADMIN)
    server.engine.do(server.manager.delete_queue, server.manager.core.paths[r"private$\q"], server.engine.admin)
    assert acknowledged(server, client) == [C.NACK_Q_DELETED]


@pytest.mark.parametrize("message_class", [each.value for each in MessageClass])
@pytest.mark.spec("MP-043", "MP-044")
def test_a_class_comes_through_as_the_number_it_is(message_class: int) -> None:
    server, client = arranged()
    server.engine.send(server.engine.sender(), Message(b"x", message_class=message_class))
    assert client.receive(client.opened().pdw_qm_context).ptb.p_class == message_class


@pytest.mark.parametrize(("auditing", "dead", "journaled"), [(0, [], []), (1, [b"1"], []), (2, [], [b"2"]),
                                                             (3, [b"1"], [b"2"])])  # fmt: skip
@pytest.mark.spec("MP-051")
def test_copies_are_kept_as_auditing_says(auditing: int, dead: list[bytes], journaled: list[bytes]) -> None:
    server, client = arranged()
    client.send(client.opened(FAR, access=2).ph_queue, b"1", p_auditing=auditing, ul_absolute_time_to_queue=2)
    server.engine.advance(3)
    client.send(client.opened(access=2).ph_queue, b"2", p_auditing=auditing)
    for name, bodies in (("DEADLETTER", dead), ("JOURNAL", journaled)):
        context = client.opened(rf"DIRECT=OS:.\system$;{name}").pdw_qm_context
        found = []
        while (response := client.receive(context)).result == 0:
            found.append(body_of(response))
        assert found == bodies, name


@pytest.mark.spec("MP-055")
def test_times_are_relative_to_the_servers_clock() -> None:
    server, client = arranged()
    sender, context = client.opened(access=2).ph_queue, client.opened().pdw_qm_context
    client.send(sender, ul_relative_time_to_live=3)
    server.engine.advance(1)
    assert client.receive(context, action=0x80000000).ptb.pul_relative_time_to_live == 2
    server.engine.advance(3)
    assert client.receive(context).result == HRESULTS["MQ_ERROR_IO_TIMEOUT"]
    client.send(sender)
    assert client.receive(context).ptb.pul_relative_time_to_live == 0xFFFFFFFF


@pytest.mark.spec("MP-061", "MP-057")
def test_certificate_and_key_are_kept_byte_for_byte() -> None:
    server, client = arranged()
    queue = server.manager.core.paths[r"private$\q"]
    name = f"PRIVATE={server.manager.core.properties.identifier}\\{queue.private_number:X}"
    certificate, key = bytes(range(256)) * 2, bytes(range(200))
    client.send(client.opened(name, access=2).ph_queue, pp_sender_cert=certificate, ul_sender_cert_len=512,
                pp_symm_keys=key, ul_symm_keys_size=200)  # fmt: skip
    ptb = client.receive(client.opened().pdw_qm_context).ptb
    assert bytes(ptb.pp_sender_cert[: ptb.pul_sender_cert_len_prop]) == certificate
    assert bytes(ptb.pp_symm_keys[: ptb.pul_symm_keys_size_prop]) == key


@pytest.mark.spec("MP-011")
def test_every_failure_has_the_severity_bit_and_ours_the_customers() -> None:
    def classes(of: type[LiorError]) -> list[type[LiorError]]:
        return [of, *(each for below in of.__subclasses__() for each in classes(below))]

    for kind in classes(LiorError):
        code = kind.code
        assert code & 0x80000000, kind
        documented = code >> 16 == 0xC00E or code in (HRESULTS["STATUS_NOT_FOUND"],)
        assert documented != bool(code & CUSTOMER_BIT), kind


@pytest.mark.spec("MP-074")
def test_a_queue_made_by_a_client_is_everybodys() -> None:
    server, client = arranged()
    assert create(client, r".\private$\made") == 0
    server.engine.send(server.engine.sender(r"DIRECT=OS:.\private$\made"), Message(b"of the engine"))
    context: Any = client.opened(r"DIRECT=OS:.\private$\made").pdw_qm_context
    assert body_of(client.receive(context)) == b"of the engine"
