"""qmmgmt: figures and actions ([MS-MQMR] 3.1.4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lior.errors import HRESULTS
from lior.message import Message
from lior.queues.outgoing import OutgoingQueue, OutgoingState
from lior.wire.interfaces.management import (
    MGMT_MACHINE,
    MGMT_QUEUE,
    MGMT_SESSION,
    QMMGMT,
    MgmtObject,
    QueueReference,
    Reserved,
)
from lior.wire.propvariant import NULL, VT_I8, VT_LPWSTR, VT_UI4, PropVariant
from tests.server.rpc.calling import QUEUE, Client, Server, format_of, user

FAR = r"DIRECT=OS:other\private$\q"
INVALID = HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
ILLEGAL_PROPID = HRESULTS["MQ_ERROR_ILLEGAL_PROPID"]
DENIED = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
UNSUPPORTED = HRESULTS["MQ_ERROR_UNSUPPORTED_OPERATION"]
MACHINE = MgmtObject(MGMT_MACHINE, Reserved())


def queue(name: str) -> MgmtObject:
    return MgmtObject(MGMT_QUEUE, QueueReference(format_of(name)))


def info(client: Client, subject: MgmtObject, *propids: int) -> Any:
    return client.call(QMMGMT, 0, p_object_format=subject, cp=len(propids), a_prop=list(propids),
                       ap_var=[NULL] * len(propids))  # fmt: skip


def action(client: Client, subject: MgmtObject, name: str) -> int:
    return int(client.call(QMMGMT, 1, p_object_format=subject, lpwsz_action=name).result)


@pytest.fixture
def server() -> Server:
    resent: list[OutgoingQueue] = []
    server = Server(supporting=False, resend=resent.append)
    server.resent = resent  # type: ignore[attr-defined]
    server.create()
    return server


def outgoing(server: Server) -> OutgoingQueue:
    server.engine.send(server.engine.sender(FAR), Message(b"far"))
    (found,) = server.manager.core.outgoing.values()
    return found


def test_tells_the_figures_of_a_queue(server: Server) -> None:
    sender = server.engine.sender()
    for body in (b"1", b"22"):
        server.engine.send(sender, Message(body))
    response = info(server.client(), queue(QUEUE), 7, 1, 11, 3, 26)
    assert response.result == 0
    assert response.ap_var[0] == PropVariant(VT_UI4, 2)
    assert [each.value for each in response.ap_var[1:]] == [r"lior\private$\q", "LOCAL CONNECTION", "PRIVATE", 0]


def test_tells_the_figures_of_an_outgoing_queue(server: Server) -> None:
    outgoing(server)
    response = info(server.client(), queue(FAR), 2, 4, 7, 11)
    assert [each.value for each in response.ap_var] == [FAR, "REMOTE", 1, "INACTIVE"]


def test_tells_the_figures_of_the_queue_manager(server: Server) -> None:
    response = info(server.client(), MACHINE, 2, 4, 6, 3)
    assert response.result == 0
    assert response.ap_var[0].value == (r"lior\private$\q",)
    assert (response.ap_var[1].value, response.ap_var[2].vt) == ("CONNECTED", VT_I8)
    assert response.ap_var[3] == NULL  # there is no directory server


def test_figures_of_every_property_can_be_had_at_once(server: Server) -> None:
    client = server.client()
    assert info(client, queue(QUEUE), *range(1, 28)).result == 0
    outgoing(server)
    assert info(client, queue(FAR), *range(1, 28)).result == 0
    assert info(client, MACHINE, *range(1, 7)).result == 0


def test_tells_nothing_of_what_is_not_there(server: Server) -> None:
    client = server.client()
    assert info(client, MgmtObject(MGMT_SESSION, Reserved()), 1) == ((NULL,), INVALID)
    for subject, propid in ((queue(QUEUE), 28), (queue(QUEUE), 0), (MACHINE, 7), (MACHINE, 103)):
        assert info(client, subject, 1, propid) == ((NULL, NULL), ILLEGAL_PROPID)
    assert info(client, queue(r"DIRECT=OS:.\private$\none"), 7).result == HRESULTS["MQ_ERROR_QUEUE_NOT_FOUND"]
    assert info(client, queue(FAR), 7).result == HRESULTS["MQ_ERROR_QUEUE_NOT_FOUND"]
    assert info(client, MgmtObject(MGMT_QUEUE, QueueReference(None)), 7).result == INVALID


def test_figures_are_told_to_whom_may_see_the_properties(server: Server) -> None:
    outgoing(server)
    client = server.client(user(6))
    for subject in (queue(QUEUE), queue(FAR), MACHINE):
        response = info(client, subject, 1)
        assert response.result in (0, DENIED)
        assert action(client, subject, "PAUSE") in (DENIED, INVALID, UNSUPPORTED)
    from lior.security import ADMINISTRATORS, Acl, SecurityDescriptor, allow

    closed = SecurityDescriptor(owner=ADMINISTRATORS, dacl=Acl(aces=(allow(ADMINISTRATORS, 0x3F),)))
    server.engine.do(server.manager.set_queue_security, server.manager.core.paths[r"private$\q"], 7, closed,
                     server.engine.admin)  # fmt: skip
    server.manager.core.properties.security = closed
    for subject in (queue(QUEUE), queue(FAR), MACHINE):
        assert info(client, subject, 1) == ((NULL,), DENIED)


def test_pauses_and_resumes_an_outgoing_queue_in_any_spelling(server: Server) -> None:
    found, client = outgoing(server), server.client()
    assert action(client, queue(FAR), "Pause") == 0
    assert found.state.value == OutgoingState.ON_HOLD.value
    assert action(client, queue(FAR), "resume") == 0
    assert found.state.value == OutgoingState.INACTIVE.value
    assert action(client, queue(QUEUE), "PAUSE") == UNSUPPORTED


def test_connects_and_disconnects(server: Server) -> None:
    client = server.client()
    assert action(client, MACHINE, "DISCONNECT") == 0
    assert not server.manager.core.properties.connection_active
    assert action(client, MACHINE, "connect") == 0
    assert server.manager.core.properties.connection_active
    assert action(server.client(user(3)), MACHINE, "DISCONNECT") == DENIED


def test_sends_the_pending_sequence_again(server: Server) -> None:
    found = outgoing(server)
    assert action(server.client(user(3)), queue(FAR), "EOD_RESEND") == DENIED
    assert server.resent == []  # type: ignore[attr-defined]
    assert action(server.client(), queue(FAR), "EOD_RESEND") == 0
    assert server.resent == [found]  # type: ignore[attr-defined]


def test_other_actions_fail(server: Server) -> None:
    outgoing(server)
    client = server.client()
    for subject, name in ((MACHINE, "PAUSE"), (MACHINE, ""), (queue(FAR), "CONNECT"), (queue(FAR), "TIDY"),
                          (queue(FAR), "DELETE"), (MgmtObject(MGMT_SESSION, Reserved()), "CONNECT")):  # fmt: skip
        assert action(client, subject, name) == INVALID
    assert server.manager.core.properties.connection_active


def test_tidying_gives_room_back_and_keeps_every_message() -> None:
    async def run() -> None:
        compacted = []

        async def compact() -> int:
            compacted.append(5)
            return 0

        server = Server(compact=compact)
        server.create()
        server.engine.send(server.engine.sender(), Message(b"stays"))
        assert action(server.client(user(3)), MACHINE, "TIDY") == DENIED
        client = server.client()
        answered = client.start(QMMGMT, 1, p_object_format=MACHINE, lpwsz_action="TIDY")
        await asyncio.gather(*server.service.tasks)
        await asyncio.sleep(0)
        assert client.result(answered).result == 0
        assert compacted == [5]
        assert server.engine.bodies(server.manager.core.paths[r"private$\q"]) == [b"stays"]

    asyncio.run(run())


def test_tidying_a_store_in_memory_is_not_supported(server: Server) -> None:
    assert action(server.client(), MACHINE, "TIDY") == UNSUPPORTED


def test_the_value_types_are_those_of_the_properties(server: Server) -> None:
    response = info(server.client(), queue(QUEUE), 1)
    assert response.ap_var[0].vt == VT_LPWSTR
