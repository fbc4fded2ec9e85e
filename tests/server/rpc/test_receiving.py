"""rpc_ACReceiveMessageEx: receive and peek into the client's buffers ([MS-MQMP] 3.1.5.3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from lior.errors import HRESULTS
from lior.message import Message, MessageSecurity, MessageTransaction, ObjectId
from lior.queues.events import AccessAudited
from lior.server.rpc.methods.tables import Numbers
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.structures import (
    MQ_ACTION_PEEK_CURRENT,
    MQ_ACTION_PEEK_NEXT,
    CACTransferBufferV2,
    Receive,
    Send,
)
from lior.wire.ndr import NULL
from tests.server.rpc.calling import NO_GUID, NO_OBJECT, QUEUE, Client, Server, body_of, user, wanted

TIMEOUT = HRESULTS["MQ_ERROR_IO_TIMEOUT"]
OVERFLOW = HRESULTS["MQ_ERROR_BUFFER_OVERFLOW"]
CANCELLED = HRESULTS["MQ_ERROR_OPERATION_CANCELLED"]


@pytest.fixture
def server() -> Server:
    server = Server()
    server.create()
    return server


def put(server: Server, *bodies: bytes, name: str = QUEUE, **fields: Any) -> None:
    sender = server.engine.sender(name)
    for body in bodies:
        server.engine.send(sender, Message(body, **fields))


def left(server: Server, name: str = r"private$\q") -> list[bytes]:
    return server.engine.bodies(server.manager.core.paths[name])


def reader(server: Server, access: int = 1, client: Client | None = None) -> tuple[Client, int]:
    client = client or server.client()
    return client, client.opened(access=access).pdw_qm_context


FULL = Message(
    b"body\0of bytes", "the label", 0x1E, b"extension", 0xCAFE, bytes(range(20)), priority=5, delivery_guarantee=1,
    acknowledgements_requested=0x0E, positive_journaling_requested=True, negative_journaling_requested=True,
    time_to_reach_queue=1000, time_to_be_received=500, administration_queue=r"DIRECT=OS:a\private$\admin",
    response_queue=r"DIRECT=OS:r\private$\response", tracing_requested=True, connector_type=NO_GUID,
)  # fmt: skip


@pytest.mark.spec("MP-163", "MP-083", "MP-168", "MP-166", "MP-165", "MP-045", "MP-047", "MP-053", "MP-056")
def test_fills_every_member_that_the_client_gave_room_for(server: Server) -> None:
    sent_at = server.clock.wall()
    identifier = server.engine.send(server.engine.sender(), FULL.copy())
    server.clock.advance(100)
    client, context = reader(server)
    response = client.receive(context)
    ptb, names = response.ptb, response.ptb.transfer
    assert response.result == 0
    assert body_of(response) == FULL.body and ptb.p_body_size == len(FULL.body)
    assert (ptb.pp_title, ptb.pul_title_buffer_size_in_wchars, ptb.ul_title_buffer_size_in_wchars) == (
        "the label\0", 10, 10)  # fmt: skip
    assert (ptb.pp_msg_extension[:9], ptb.p_msg_extension_size) == (b"extension", 9)
    assert (ptb.pp_message_id, ptb.pp_correlation_id) == (identifier, FULL.correlation_id)
    assert (ptb.p_class, ptb.p_priority, ptb.p_delivery, ptb.p_acknowledge, ptb.p_auditing) == (0, 5, 1, 0x0E, 3)
    assert (ptb.p_application_tag, ptb.pul_body_type, ptb.p_trace, ptb.pul_version) == (0xCAFE, 0x1E, 1, 0x10)
    assert (ptb.p_sent_time, ptb.p_arrived_time) == (int(sent_at), int(sent_at))
    assert (ptb.pul_relative_time_to_queue, ptb.pul_relative_time_to_live) == (1000, 400)
    assert ptb.pp_src_qm_id == server.manager.core.properties.identifier
    assert names.pp_response_format_name == FULL.response_queue + "\0"
    assert names.pp_admin_format_name == FULL.administration_queue + "\0"
    assert names.pp_dest_format_name == r"DIRECT=OS:lior\private$\q" + "\0"
    assert names.pul_response_format_name_len_prop == len(FULL.response_queue) + 1 == len(
        names.pp_response_format_name)  # fmt: skip
    assert (names.pul_ordering_format_name_len_prop, names.ul_ordering_format_name_len) == (0, 0)
    assert (ptb.pul_sender_id_type, ptb.pul_sender_id_len_prop, ptb.p_authenticated) == (0, 0, 0)
    assert (ptb.pb_first_in_xact, ptb.pb_last_in_xact, ptb.pp_xact_id) == (0, 0, NO_OBJECT)
    assert left(server) == []


@pytest.mark.spec("MP-082", "MP-083")
def test_what_is_sent_is_what_is_received(server: Server) -> None:
    client = server.client()
    handle = client.opened(access=2).ph_queue
    members = {"p_class": 0, "p_priority": 6, "p_delivery": 1, "p_acknowledge": 5, "p_auditing": 2,
               "p_application_tag": 77, "pul_body_type": 8, "pp_correlation_id": bytes(range(20, 40)), "p_trace": 1}
    client.send(handle, b"round trip", label="there and back", **members)
    ptb = client.receive(client.opened().pdw_qm_context).ptb
    assert {name: getattr(ptb, name) for name in members} == members
    assert ptb.pp_title == "there and back\0"


@pytest.mark.spec("MP-164")
def test_what_is_null_stays_null(server: Server) -> None:
    put(server, b"x", label="label")
    client, context = reader(server)
    ptb = CACTransferBufferV2(1, Receive(0, 0))
    response = client.call(QMCOMM2, 2, h_qm_context=context, ptb=ptb)
    assert response.result == 0
    assert response.ptb == CACTransferBufferV2(1, Receive(0, 0))


@pytest.mark.spec("MP-164")
def test_an_inner_pointer_that_is_null_stays_null(server: Server) -> None:
    put(server, b"x")
    client, context = reader(server)
    ptb = CACTransferBufferV2(1, Receive(0, 0), pp_body=NULL, pp_title=NULL, pp_message_id=NULL, pp_src_qm_id=NULL)
    response = client.call(QMCOMM2, 2, h_qm_context=context, ptb=ptb)
    assert response.result == 0
    assert (response.ptb.pp_body, response.ptb.pp_title) == (NULL, NULL)
    assert (response.ptb.pp_message_id, response.ptb.pp_src_qm_id) == (NULL, NULL)


MEMBERS = sorted(set(CACTransferBufferV2.__dataclass_fields__) - {"u_transfer_type", "transfer", "p_uow"})


@pytest.mark.parametrize("member", [name for name in MEMBERS if name.startswith(("p_", "pul", "pp", "pb"))])
@pytest.mark.spec("MP-164", "MP-168")
def test_each_member_comes_back_when_it_is_asked_for_alone(server: Server, member: str) -> None:
    put(server, b"x", label="label", extension=b"e")
    client, context = reader(server)
    full = wanted()
    sizes = {name: getattr(full, name) for name in MEMBERS if not name.startswith(("p_", "pul", "pp", "pb"))}
    mine = {"pp_body": ("ul_body_buffer_size_in_bytes", "ul_alloc_body_buffer_in_bytes"),
            "pp_title": ("ul_title_buffer_size_in_wchars",), "pp_sender_id": ("u_sender_id_len",),
            "pp_sender_cert": ("ul_sender_cert_len",), "ppwcs_prov_name": ("ul_prov_name_len",),
            "pp_symm_keys": ("ul_symm_keys_size",), "pp_signature": ("ul_signature_size",),
            "pp_msg_extension": ("ul_msg_extension_buffer_in_bytes",)}.get(member, ())  # fmt: skip
    ptb = CACTransferBufferV2(1, Receive(0, 0), **{name: sizes[name] for name in mine})
    setattr(ptb, member, getattr(full, member))
    response = client.call(QMCOMM2, 2, h_qm_context=context, ptb=ptb)
    assert response.result == 0
    for name in MEMBERS:
        if name.startswith(("p_", "pul", "pp", "pb")):
            assert (getattr(response.ptb, name) is not None) == (name == member), name


@pytest.mark.spec("MP-166")
def test_the_rest_of_the_bodys_buffer_is_zero(server: Server) -> None:
    put(server, b"ten bytes!")
    client, context = reader(server)
    response = client.receive(context, pp_body=b"\xff" * 5000, ul_body_buffer_size_in_bytes=5000,
                              ul_alloc_body_buffer_in_bytes=5000)  # fmt: skip
    assert bytes(response.ptb.pp_body) == b"ten bytes!" + bytes(4990)
    assert response.ptb.ul_body_buffer_size_in_bytes == 5000


@pytest.mark.spec("MP-166")
def test_nothing_of_the_clients_own_buffer_goes_back_with_a_failure(server: Server) -> None:
    client, context = reader(server)
    response = client.receive(context, pp_body=b"\xff" * 1000, pp_title="y" * 250)
    assert response.result == TIMEOUT
    assert bytes(response.ptb.pp_body) == bytes(1000)
    assert response.ptb.pp_title == "\0" * 250


# Buffers that are too small


SECURITY = MessageSecurity(
    1, b"\1\1\0\0\0\0\0\5\x12\0\0\0", b"certificate", b"signature", authentication_provider_type=1,
    authentication_provider_name="provider", symmetric_key=b"symmetric", hash_algorithm=0x8004,
    encryption_algorithm=0x6801,
)  # fmt: skip
SHORT: list[Any] = [
    ("body", {"pp_body": b"x" * 3, "ul_body_buffer_size_in_bytes": 3, "ul_alloc_body_buffer_in_bytes": 3}, {},
     "MQ_ERROR_BUFFER_OVERFLOW", ("p_body_size", 4)),
    ("label", {"pp_title": "x" * 5, "ul_title_buffer_size_in_wchars": 5, "pul_title_buffer_size_in_wchars": 5}, {},
     "MQ_ERROR_LABEL_BUFFER_TOO_SMALL", ("pul_title_buffer_size_in_wchars", 6)),
    ("extension", {"pp_msg_extension": b"x" * 3, "ul_msg_extension_buffer_in_bytes": 3}, {},
     "MQ_ERROR_BUFFER_OVERFLOW", ("p_msg_extension_size", 4)),
    ("sender", {"pp_sender_id": b"x" * 11, "u_sender_id_len": 11}, {},
     "MQ_ERROR_SENDERID_BUFFER_TOO_SMALL", ("pul_sender_id_len_prop", 12)),
    ("certificate", {"pp_sender_cert": b"x" * 10, "ul_sender_cert_len": 10}, {},
     "MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL", ("pul_sender_cert_len_prop", 11)),
    ("provider", {"ppwcs_prov_name": "x" * 8, "ul_prov_name_len": 8}, {},
     "MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL", ("pul_auth_prov_name_len_prop", 9)),
    ("key", {"pp_symm_keys": b"x" * 8, "ul_symm_keys_size": 8}, {},
     "MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL", ("pul_symm_keys_size_prop", 9)),
    ("signature", {"pp_signature": b"x" * 8, "ul_signature_size": 8}, {},
     "MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL", ("pul_signature_size_prop", 9)),
    ("response", {}, {"response": 25}, "MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL",
     ("pul_response_format_name_len_prop", 26)),
    ("admin", {}, {"admin": 25}, "MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL", ("pul_admin_format_name_len_prop", 26)),
    ("dest", {}, {"dest": 25}, "MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL", ("pul_dest_format_name_len_prop", 26)),
]  # fmt: skip
NAME = r"DIRECT=OS:lior\private$\q"  # 25 characters


def secured() -> Message:
    return Message(b"body", "label", extension=b"more", security=SECURITY, delivery_guarantee=1, response_queue=NAME,
                   administration_queue=NAME)  # fmt: skip


def with_names(ptb: CACTransferBufferV2, names: dict[str, int]) -> CACTransferBufferV2:
    for name, room in names.items():
        setattr(ptb.transfer, f"ul_{name}_format_name_len", room)
        setattr(ptb.transfer, f"pp_{name}_format_name", "y" * room)
        setattr(ptb.transfer, f"pul_{name}_format_name_len_prop", room)
    return ptb


@pytest.mark.parametrize("waits", [False, True], ids=["there", "waiting"])
@pytest.mark.parametrize("transactional", [False, True], ids=["alone", "transaction"])
@pytest.mark.parametrize(("members", "names", "code", "size"), [case[1:] for case in SHORT],
                         ids=[case[0] for case in SHORT])  # fmt: skip
@pytest.mark.spec("MP-169", "MP-165", "MP-166", "MP-167", "MP-175")
def test_a_message_that_does_not_fit_stays_and_its_size_is_told(
    members: dict[str, Any], names: dict[str, int], code: str, size: tuple[str, int], transactional: bool, waits: bool
) -> None:
    server = Server()
    server.create(transactional=transactional)
    client, context = reader(server)
    uow = enlisted(client) if transactional else None

    def send() -> None:
        transaction = server.manager.begin() if transactional else None
        server.engine.send(server.engine.sender(), secured(), transaction)
        if transaction is not None:
            server.engine.do(server.manager.commit, transaction.identifier)

    if not waits:
        send()
    answered = client.start(QMCOMM2, 2, h_qm_context=context,
                            ptb=with_names(wanted(timeout=1000, p_uow=uow, **members), names))  # fmt: skip
    server.engine.commit()
    if waits:
        assert not answered.done
        send()
    response = client.result(answered)
    assert response.result == HRESULTS[code]
    holder = response.ptb.transfer if hasattr(response.ptb.transfer, size[0]) else response.ptb
    assert getattr(holder, size[0]) == size[1]
    assert left(server) == [b"body"]
    again = client.receive(context, p_uow=uow)  # with room for everything
    assert again.result == 0 and body_of(again) == b"body"
    assert left(server) == []


def enlisted(client: Client) -> Any:
    from uuid import uuid4

    from lior.wire.interfaces.qmcomm import QMCOMM

    uow = uuid4()
    assert client.call(QMCOMM, 16, p_uow=uow).result == 0
    return uow


@pytest.mark.spec("MP-167", "MP-083", "MP-059", "MP-057")
def test_a_message_that_just_fits_is_received_whole(server: Server) -> None:
    server.manager.sending.authenticate = lambda message, name, transactional: 7
    server.engine.send(server.engine.sender(), secured())
    client, context = reader(server)
    members: dict[str, Any] = {}
    names: dict[str, int] = {}
    for name, short, short_names, _, _ in SHORT:
        for member, value in short.items():
            members[member] = value + 1 if isinstance(value, int) else value + value[:1]
        names |= {each: room + 1 for each, room in short_names.items()}
        assert name
    response = client.call(QMCOMM2, 2, h_qm_context=context, ptb=with_names(wanted(**members), names))
    assert response.result == 0
    ptb = response.ptb
    assert (ptb.pp_sender_id, ptb.pul_sender_id_type) == (SECURITY.sender_identifier, 1)
    assert ptb.pul_sender_id_len_prop == len(SECURITY.sender_identifier) == 12
    assert (ptb.pp_sender_cert, ptb.pp_signature, ptb.pp_symm_keys) == (b"certificate", b"signature", b"symmetric")
    assert (ptb.ppwcs_prov_name, ptb.pul_prov_type) == ("provider\0", 1)
    assert (ptb.pul_hash_alg, ptb.pul_encrypt_alg, ptb.p_authenticated) == (0x8004, 0x6801, 9)


@pytest.mark.spec("MP-167")
def test_a_message_without_security_has_sizes_of_zero(server: Server) -> None:
    put(server, b"x")
    client, context = reader(server)
    ptb = client.receive(context).ptb
    assert (ptb.pul_sender_id_len_prop, ptb.pul_sender_cert_len_prop, ptb.pul_auth_prov_name_len_prop) == (0, 0, 0)
    assert (ptb.pul_symm_keys_size_prop, ptb.pul_signature_size_prop) == (0, 0)


@pytest.mark.spec("MP-053", "MP-169")
def test_a_peek_without_room_tells_the_size_too(server: Server) -> None:
    put(server, b"12345")
    client, context = reader(server)
    response = client.receive(context, action=MQ_ACTION_PEEK_CURRENT, room=1, names=500)
    assert (response.result, response.ptb.p_body_size) == (OVERFLOW, 5)


@pytest.mark.spec("MP-165")
def test_a_size_without_a_buffer_is_answered_without_one(server: Server) -> None:
    put(server, b"x", label="label", response_queue=NAME)
    client, context = reader(server)
    receive = Receive(0, 0, pul_response_format_name_len_prop=0)
    ptb = CACTransferBufferV2(1, receive, p_body_size=0, pul_title_buffer_size_in_wchars=0)
    response = client.call(QMCOMM2, 2, h_qm_context=context, ptb=ptb)
    assert response.result == 0
    assert (response.ptb.p_body_size, response.ptb.pul_title_buffer_size_in_wchars) == (1, 6)
    assert response.ptb.transfer.pul_response_format_name_len_prop == 26
    assert (response.ptb.transfer.pp_response_format_name, response.ptb.pp_body) == (None, None)


# Transactions in the message


@pytest.mark.spec("MP-069", "MP-083")
def test_first_last_and_the_number_of_the_transaction_come_with_the_message() -> None:
    server = Server()
    server.create(transactional=True)
    transaction = server.manager.begin()
    for body in (b"1", b"2", b"3"):
        server.engine.send(server.engine.sender(), Message(body), transaction)
    server.engine.do(server.manager.commit, transaction.identifier)
    client, context = reader(server)
    found = [client.receive(context).ptb for _ in range(3)]
    assert [(ptb.pb_first_in_xact, ptb.pb_last_in_xact) for ptb in found] == [(1, 0), (0, 0), (0, 1)]
    identifier = ObjectId(server.manager.core.properties.identifier, transaction.index)
    assert [ptb.pp_xact_id for ptb in found] == [identifier] * 3


@pytest.mark.spec("MP-083")
def test_the_queue_that_keeps_the_order_is_named(server: Server) -> None:
    queue = server.manager.core.paths[r"private$\q"]
    message = Message(b"x", transaction=MessageTransaction(status_queue=NAME), destination_queue=NAME)
    from lior.queues.change import Change

    change = Change()
    server.manager.sending.stage_insert(change, queue, message)
    server.manager.core.submit(change)
    server.engine.commit()
    client, context = reader(server)
    names = client.receive(context).ptb.transfer
    assert (names.pp_ordering_format_name, names.pul_ordering_format_name_len_prop) == (NAME + "\0", 26)


# Actions


@pytest.mark.spec("MP-173", "MP-041")
def test_peek_shows_and_receive_takes(server: Server) -> None:
    put(server, b"1", b"2")
    client, context = reader(server)
    assert body_of(client.receive(context, action=MQ_ACTION_PEEK_CURRENT)) == b"1"
    assert body_of(client.receive(context)) == b"1"
    assert body_of(client.receive(context)) == b"2"
    assert client.receive(context).result == TIMEOUT


@pytest.mark.spec("MP-173", "MP-163", "MP-041")
def test_other_actions_and_types_are_refused(server: Server) -> None:
    put(server, b"1")
    client, context = reader(server)
    invalid = HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
    for action in (1, 0x80000002, 0x40000010):
        assert client.receive(context, action=action).result == invalid
    ptb = CACTransferBufferV2(0, Send())
    assert client.call(QMCOMM2, 2, h_qm_context=context, ptb=ptb).result == invalid
    assert left(server) == [b"1"]


@pytest.mark.spec("MP-173")
def test_a_cursor_walks_over_the_messages(server: Server) -> None:
    put(server, b"1", b"2", b"3", b"4", b"5")
    client = server.client()
    opened = client.opened()
    cursor = client.cursor(opened.ph_queue).pcc.h_cursor
    context = opened.pdw_qm_context
    illegal = HRESULTS["MQ_ERROR_ILLEGAL_CURSOR_ACTION"]
    assert client.receive(context, action=MQ_ACTION_PEEK_NEXT, cursor=cursor).result == illegal
    assert body_of(client.receive(context, action=MQ_ACTION_PEEK_CURRENT, cursor=cursor)) == b"1"
    assert body_of(client.receive(context, action=MQ_ACTION_PEEK_NEXT, cursor=cursor)) == b"2"
    assert body_of(client.receive(context, action=MQ_ACTION_PEEK_NEXT, cursor=cursor)) == b"3"
    taken = client.receive(context, cursor=cursor)
    assert body_of(taken) == b"3" and taken.ptb.transfer.cursor == cursor
    assert body_of(client.receive(context, action=MQ_ACTION_PEEK_CURRENT, cursor=cursor)) == b"4"
    assert left(server) == [b"1", b"2", b"4", b"5"]
    assert client.receive(context, action=MQ_ACTION_PEEK_NEXT).result == illegal  # without a cursor


@pytest.mark.spec("MP-173", "MP-175")
def test_a_message_that_another_reader_took_from_under_the_cursor_is_gone(server: Server) -> None:
    put(server, b"1", b"2")
    client = server.client()
    opened = client.opened()
    cursor = client.cursor(opened.ph_queue).pcc.h_cursor
    context = opened.pdw_qm_context
    client.receive(context, action=MQ_ACTION_PEEK_CURRENT, cursor=cursor)
    client.receive(context)
    gone = client.receive(context, cursor=cursor)
    assert gone.result == HRESULTS["MQ_ERROR_MESSAGE_ALREADY_RECEIVED"]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.spec("MP-169")
def test_a_cursor_stays_where_it_was_when_a_message_does_not_fit(server: Server, waits: bool) -> None:
    if not waits:
        put(server, b"long body", b"2")
    client = server.client()
    opened = client.opened()
    cursor = client.cursor(opened.ph_queue).pcc.h_cursor
    context = opened.pdw_qm_context
    for action in (0, MQ_ACTION_PEEK_CURRENT):
        answered = client.start_receive(context, action=action, cursor=cursor, room=1)
        if waits:
            put(server, b"long body", b"2")
        assert client.result(answered).result == OVERFLOW
        again = client.receive(context, action=action, cursor=cursor)
        assert body_of(again) == b"long body"
        if waits:
            return
        put(server, b"x")
        assert body_of(client.receive(context, action=MQ_ACTION_PEEK_CURRENT, cursor=cursor)) == b"2"
        return


@pytest.mark.spec("MP-169")
def test_a_peek_next_that_does_not_fit_shows_the_same_message_again(server: Server) -> None:
    put(server, b"1", b"long body", b"3")
    client = server.client()
    opened = client.opened()
    cursor = client.cursor(opened.ph_queue).pcc.h_cursor
    context = opened.pdw_qm_context
    client.receive(context, action=MQ_ACTION_PEEK_CURRENT, cursor=cursor)
    assert client.receive(context, action=MQ_ACTION_PEEK_NEXT, cursor=cursor, room=1).result == OVERFLOW
    assert body_of(client.receive(context, action=MQ_ACTION_PEEK_NEXT, cursor=cursor)) == b"long body"


@pytest.mark.spec("MP-172")
def test_a_cursor_of_another_handle_is_none_of_this_one(server: Server) -> None:
    put(server, b"1")
    client = server.client()
    mine, other = client.opened(), client.opened()
    cursor = client.cursor(other.ph_queue).pcc.h_cursor
    invalid = HRESULTS["MQ_ERROR_INVALID_HANDLE"]
    assert client.receive(mine.pdw_qm_context, cursor=cursor).result == invalid
    assert client.receive(other.pdw_qm_context, cursor=cursor).result == 0


# Rights of the open mode


@pytest.mark.parametrize(("access", "action", "allowed"), [
    (1, 0, True), (1, MQ_ACTION_PEEK_CURRENT, True), (0x20, 0, False), (0x20, MQ_ACTION_PEEK_CURRENT, True),
    (2, 0, False), (2, MQ_ACTION_PEEK_CURRENT, False),
])  # fmt: skip
@pytest.mark.spec("MP-172", "MP-128")
def test_the_access_mode_decides_what_is_read(server: Server, access: int, action: int, allowed: bool) -> None:
    put(server, b"1")
    client, context = reader(server, access)
    response = client.receive(context, action=action)
    assert response.result == (0 if allowed else HRESULTS["MQ_ERROR_ACCESS_DENIED"])
    assert left(server) == ([] if allowed and not action else [b"1"])


@pytest.mark.spec("MP-172")
def test_a_handle_to_peek_learns_nothing_of_sizes_by_trying_to_receive(server: Server) -> None:
    put(server, b"12345")
    client, context = reader(server, 0x20)
    response = client.receive(context, room=1)
    assert (response.result, response.ptb.p_body_size) == (HRESULTS["MQ_ERROR_ACCESS_DENIED"], 0)


# Waiting


@pytest.mark.spec("MP-174", "MP-041")
def test_a_time_out_is_in_milliseconds(server: Server) -> None:
    client, context = reader(server)
    answered = client.start_receive(context, 500)
    server.engine.advance(0.4)
    assert not answered.done
    server.engine.advance(0.2)
    assert client.result(answered).result == TIMEOUT


@pytest.mark.spec("MP-174")
def test_a_hundred_waits_do_not_hold_up_anybody(server: Server) -> None:
    client, context = reader(server)
    waiting = [client.start_receive(context, 0xFFFFFFFF) for _ in range(100)]
    sender = client.opened(access=2).ph_queue
    for number in range(100):
        assert client.send(sender, b"%d" % number).result == 0
    assert sorted(body_of(client.result(each)) for each in waiting) == sorted(b"%d" % n for n in range(100))
    assert left(server) == []


@pytest.mark.spec("MP-174", "MP-138")
def test_closing_the_handle_ends_its_waits(server: Server) -> None:
    client = server.client()
    opened = client.opened()
    answered = client.start_receive(opened.pdw_qm_context)
    client.qmcomm(20, ph_queue=opened.ph_queue)
    assert client.result(answered).result == CANCELLED
    put(server, b"stays")
    assert left(server) == [b"stays"]


@pytest.mark.spec("MP-174", "MP-109")
def test_deleting_the_queue_ends_the_waits_at_it(server: Server) -> None:
    client, context = reader(server)
    answered = client.start_receive(context)
    server.engine.do(server.manager.delete_queue, server.manager.core.paths[r"private$\q"], server.engine.admin)
    assert client.result(answered).result == HRESULTS["MQ_ERROR_QUEUE_NOT_AVAILABLE"]
    assert client.receive(context).result == HRESULTS["MQ_ERROR_QUEUE_NOT_AVAILABLE"]


@pytest.mark.parametrize("action", [0, MQ_ACTION_PEEK_CURRENT])
@pytest.mark.spec("MP-174")
def test_nothing_is_consumed_for_a_client_that_is_gone(server: Server, action: int) -> None:
    client, context = reader(server)
    client.start_receive(context, action=action)
    client.die()
    put(server, b"stays")
    assert left(server) == [b"stays"]
    assert not server.service.opened


@pytest.mark.spec("MP-174")
def test_a_connection_that_is_gone_takes_its_wait_along_though_the_client_lives(server: Server) -> None:
    client, context = reader(server)
    second = client.another()
    second.start_receive(context)
    second.die()
    put(server, b"stays")
    assert left(server) == [b"stays"]
    assert client.receive(context).result == 0


def test_a_client_that_cancels_its_call_is_answered_and_takes_nothing(server: Server) -> None:
    client, context = reader(server)
    answered = client.start_receive(context)
    client.cancel(answered)
    assert client.result(answered).result == CANCELLED
    put(server, b"stays")
    assert left(server) == [b"stays"]


@pytest.mark.spec("MP-169")
def test_answers_only_when_the_removal_is_on_disk(server: Server) -> None:
    put(server, b"1", delivery_guarantee=1)
    client, context = reader(server)
    answered = client.start(QMCOMM2, 2, h_qm_context=context, ptb=wanted())
    assert not answered.done
    server.engine.commit()
    assert body_of(client.result(answered)) == b"1"


# The number that is no handle


@pytest.mark.spec("MP-176", "MP-170")
def test_a_context_serves_only_who_opened_the_queue(server: Server) -> None:
    put(server, b"1")
    client, context = reader(server)
    denied = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
    for thief in (server.client(user(5)), server.client(peer="198.51.100.9")):
        server.engine.events.clear()
        assert thief.receive(context).result == denied
        (told,) = [event for event in server.engine.events if isinstance(event, AccessAudited)]
        assert (told.caller, told.denied != 0) == (thief.caller, True) and thief.peer in told.where
    assert left(server) == [b"1"]
    assert client.another().receive(context).result == 0


@pytest.mark.spec("MP-170", "MP-176")
def test_a_context_that_nobody_opened_is_an_invalid_handle(server: Server) -> None:
    client, context = reader(server)
    invalid = HRESULTS["MQ_ERROR_INVALID_HANDLE"]
    assert client.receive(context ^ 1).result == invalid
    assert client.receive(0).result == invalid


@pytest.mark.spec("MP-081", "MP-176")
def test_contexts_have_no_pattern(server: Server) -> None:
    client = server.client()
    found = [client.opened().pdw_qm_context for _ in range(300)]
    assert len(set(found)) == 300 and 0 not in found
    steps = {b - a for a, b in pairwise(found)}
    assert len(steps) == 299
    assert not set(found) & {each.handle for each in server.manager.opening.descriptors.values()}


@pytest.mark.spec("MP-081")
def test_a_number_is_never_zero_nor_that_of_another(server: Server) -> None:
    """Even if chance would have it so."""
    drawn = iter([0, 7, 0, 11, 7, 8, 9])
    numbers = Numbers(lambda bits: next(drawn))
    assert numbers.free(()) == 7
    assert numbers.free({7}, {8}) == 9


@pytest.mark.spec("MP-163")
def test_a_size_without_a_body_buffer_is_refused(server: Server) -> None:
    put(server, b"1")
    client, context = reader(server)
    ptb = CACTransferBufferV2(1, Receive(0, 0), ul_body_buffer_size_in_bytes=5)
    assert client.call(QMCOMM2, 2, h_qm_context=context, ptb=ptb).result == HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
    assert left(server) == [b"1"]


