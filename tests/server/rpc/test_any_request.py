"""Whatever decodes is answered: no request, however odd, ends in a defect or leaves a call without an answer."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from lior.errors import LiorError
from lior.message import Message
from lior.security import ANONYMOUS_CALLER
from lior.wire.interfaces.management import QMMGMT
from lior.wire.interfaces.qm2qm import QM2QM, RemoteReadDesc2
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.interfaces.structures import CACCreateRemoteCursor, CACTransferBufferV1, ObjectFormat, Receive, Send
from lior.wire.ndr import NULL
from lior.wire.propvariant import NULL as NULL_VALUE
from lior.wire.propvariant import VT_LPWSTR, VT_UI4, PropVariant
from tests.server.rpc.calling import NO_GUID, NO_OBJECT, QUEUE, Client, Server, format_of, object_of, sent, user, wanted
from tests.server.rpc.remote_reading import Reader, Session
from tests.server.rpc.test_management_methods import MACHINE, queue

INTERFACES = {each.name: each for each in (QMCOMM, QMCOMM2, QM2QM, REMOTE_READ, QMMGMT)}
Sample = tuple[str, int, dict[str, Any]]


def arranged() -> tuple[Server, Client]:
    server = Server()
    server.create()
    server.create("t", transactional=True)
    sender = server.engine.sender()
    for number in range(20):
        server.engine.send(sender, Message(b"%d" % number, label="label", response_queue=QUEUE))
    return server, server.client()


def samples(client: Client) -> list[Sample]:
    """A request of every method that would do something."""
    sender, reader = client.opened(access=2), client.opened()
    cursor = client.cursor(reader.ph_queue).pcc.h_cursor
    uow = NO_GUID.__class__(int=77)
    transaction = client.qmcomm(16, p_uow=uow).ph_int_xact
    session, remote = Session(client), Reader(client)
    read = session.read()
    opening = {"p_queue_format": format_of(QUEUE), "dw_access": 1, "dw_share_mode": 0, "p_client_id": NO_GUID,
               "f_non_routing_server": 1, "major": 6, "minor": 1, "build_number": 1, "f_workgroup": 1}  # fmt: skip
    reading = {"ph_context": remote.handle, "lookup_id": 0, "h_cursor": 0, "ul_action": 0, "ul_timeout": 0,
               "dw_request_id": 1, "dw_max_body_size": 5, "dw_max_compound_message_size": 0}  # fmt: skip
    ending = {"ph_context": remote.handle, "dw_ack": 2, "dw_request_id": 1}
    properties = {"p_object_format": object_of(QUEUE), "cp": 2, "a_prop": [105, 108],
                  "ap_var": [PropVariant(VT_UI4, 5), PropVariant(VT_LPWSTR, "label")]}  # fmt: skip
    qmcomm: dict[int, dict[str, Any]] = {
        1: {"p_queue": 1, "lplp_remote_queue_name": NULL},
        2: {"p_queue_format": format_of(QUEUE), "dw_calling_process_id": 1, "dw_desired_access": 1, "dw_share_mode": 0,
            "p_lic_guid": NO_GUID, "dw_mqs": 0},
        3: {"pph_context": session.context},
        4: {"ptb1": CACTransferBufferV1(0, Send()), "h_queue": session.number},
        6: {"dw_object_type": 1, "lpwcs_path_name": r".\private$\new", "sd_size": 0, "p_security_descriptor": None,
            "cp": 1, "a_prop": [108], "ap_var": [PropVariant(VT_LPWSTR, "label")]},
        7: {"p_object_format": object_of(QUEUE), "security_information": 4, "sd_size": 4,
            "p_security_descriptor": b"\1\0\4\x80"},
        8: {"p_object_format": object_of(QUEUE), "requested_information": 7, "n_length": 300},
        9: {"p_object_format": object_of(r"DIRECT=OS:.\private$\t")},
        10: {**properties, "ap_var": [NULL_VALUE, NULL_VALUE]},
        11: properties,
        12: {"lpwcs_path_name": r".\private$\q", "p_object_format": ObjectFormat(p_queue_format=format_of(QUEUE))},
        14: {"cb_buf_size": 100},
        15: {"p_uow": uow, "cb_cookie": 16, "pb_cookie": uow.bytes_le},
        16: {"p_uow": NO_GUID.__class__(int=78)},
        17: {"ph_int_xact": transaction},
        18: {"ph_int_xact": transaction},
        19: {"p_queue_format": format_of(QUEUE), "dw_desired_access": 1, "dw_share_mode": 0, "h_remote_queue": 0,
             "lplp_remote_queue_name": NULL, "dwp_queue": 0, "p_lic_guid": NO_GUID, "lp_client_name": "client",
             "dw_remote_protocol": 0, "dwp_remote_context": 0},
        20: {"ph_queue": sender.ph_queue},
        22: {"h_queue": reader.ph_queue, "h_cursor": cursor},
        23: {"h_proxy": reader.ph_queue, "h_cursor": cursor, "h_remote_cursor": 1},
        26: {"h_queue": reader.ph_queue, "dw_format_name_rpc_buffer_len": 10, "lpwcs_format_name": "x" * 10,
             "pdw_length": 10},
        27: {"h_queue": reader.ph_queue},
        28: {"dw_query_type": 1},
        31: {"f_ip": 0},
    }  # fmt: skip
    qmcomm2 = {
        0: {"p_queue_format": format_of(QUEUE), "ptb": sent(), "p_message_id": NO_OBJECT},
        1: {"h_queue": sender.ph_queue, "ptb": sent(b"x", label="l", p_priority=3), "p_message_id": NO_OBJECT},
        2: {"h_qm_context": reader.pdw_qm_context, "ptb": wanted(room=20, names=30, title=20)},
        3: {"h_queue": reader.ph_queue, "pcc": CACCreateRemoteCursor()},
    }
    both = RemoteReadDesc2(p_remote_read_desc=session.desc(0x80000000))
    qm2qm: dict[int, dict[str, Any]] = {
        0: {"lp_remote_read_desc": session.desc()}, 1: {"pph_context": read.pph_context, "dw_ack": 1},
        2: {"p_lic_guid": NO_GUID, "dw_mqs": 0, "h_queue": session.number, "p_queue": session.number,
            "dwp_context": session.number},
        3: {"pph_context": session.handle}, 4: {"h_queue": session.number, "h_cursor": 1},
        5: {"h_queue": session.number, "p_queue": session.number, "dw_request_id": 1}, 6: {"h_queue": session.number},
        7: {"dw_port_type": 1}, 8: {}, 9: {"lp_remote_read_desc2": both},
        10: {"lookup_id": 5, "lp_remote_read_desc2": RemoteReadDesc2(p_remote_read_desc=session.desc(0x40000011))},
    }  # fmt: skip
    remote_read: dict[int, dict[str, Any]] = {
        0: {}, 2: opening, 3: {"pph_context": remote.handle}, 4: {"ph_context": remote.handle},
        5: {"ph_context": remote.handle, "h_cursor": 1}, 6: {"ph_context": remote.handle}, 7: reading,
        8: {"ph_context": remote.handle, "dw_request_id": 1}, 9: ending,
        10: {"ph_context_from": remote.handle, "ull_context_to": 5, "lookup_id": 5, "p_transaction_id": uow},
        11: {**opening, "dw_access": 4}, 13: {**reading, "p_transaction_id": uow},
        12: {"p_transaction_id": uow, "cb_propagation_token": 2, "pb_propagation_token": b"xy",
             "p_queue_format": format_of(QUEUE)},
        14: {"ph_context": remote.handle, "lookup_id": 5, "us_class": 0xC004}, 15: ending,
    }  # fmt: skip
    qmmgmt = {
        0: {"p_object_format": queue(QUEUE), "cp": 2, "a_prop": [7, 24], "ap_var": [NULL_VALUE, NULL_VALUE]},
        1: {"p_object_format": MACHINE, "lpwsz_action": "CONNECT"},
    }
    tables = {"qmcomm": qmcomm, "qmcomm2": qmcomm2, "qm2qm": qm2qm, "RemoteRead": remote_read, "qmmgmt": qmmgmt}
    return [(name, opnum, fields) for name, table in tables.items() for opnum, fields in table.items()]


def test_there_is_a_sample_of_every_method() -> None:
    _, client = arranged()
    found = {(name, opnum) for name, opnum, _ in samples(client)}
    assert found == {(each.name, opnum) for each in INTERFACES.values() for opnum in each.methods}


def changed(random: Random, stub: bytes) -> bytes:
    data = bytearray(stub)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(data)) if data else 0
        if data:
            data[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, data[at] ^ 1, random.randrange(256)))
    return bytes(data)


@pytest.mark.parametrize("who", ["administrator", "user", "anonymous"])
def test_any_request_that_decodes_is_answered(seed: int, who: str, caplog: pytest.LogCaptureFixture) -> None:
    random, server, client = Random(seed), *arranged()
    caller = {"administrator": client.caller, "user": user(3), "anonymous": ANONYMOUS_CALLER}[who]
    stubs: list[tuple[str, int, bytes]] = []
    decoded = 0
    for turn in range(4000):
        if turn % 400 == 0:  # what was used up is opened again
            server, client = arranged()
            stubs = []
            for name, opnum, fields in samples(client):
                codec = INTERFACES[name].methods[opnum].request
                stubs.append((name, opnum, codec.encode([fields[field] for field in codec.fields])))
            client.caller = caller
        name, opnum, stub = random.choice(stubs)
        method = INTERFACES[name].methods[opnum]
        try:
            request = method.request.decode(changed(random, stub))
        except LiorError:
            continue
        decoded += 1
        answered = client.start(INTERFACES[name], opnum, **dict(zip(method.request.fields, request, strict=True)))
        server.engine.commit()
        if not answered.done:  # it waits: then it can be cancelled
            client.cancel(answered)
        assert answered.done, method.name
        assert answered.status not in (0x1C000012,), method.name
    assert decoded > 1000
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.spec("MP-163", "MP-164")
def test_a_receive_of_any_shape_answers_in_that_shape(seed: int) -> None:
    random = Random(seed)
    _, client = arranged()
    context = client.opened().pdw_qm_context
    full = wanted(room=30, names=30, title=20)
    for _ in range(300):
        ptb = wanted(room=30, names=30, title=20, action=0x80000000)
        for name in full.__dataclass_fields__:
            if name.startswith(("p_", "pul", "pb")) and name != "p_uow" and random.random() < 0.3:
                setattr(ptb, name, None)
        for name, sizes in (("pp_body", ("ul_body_buffer_size_in_bytes", "ul_alloc_body_buffer_in_bytes")),
                            ("pp_title", ("ul_title_buffer_size_in_wchars",)), ("pp_signature", ("ul_signature_size",)),
                            ("pp_msg_extension", ("ul_msg_extension_buffer_in_bytes",))):  # fmt: skip
            if random.random() < 0.4:
                setattr(ptb, name, random.choice((None, NULL)))
                for size in sizes:
                    setattr(ptb, size, 0)
        before = {name: getattr(ptb, name) is None for name in ptb.__dataclass_fields__}
        response = client.call(QMCOMM2, 2, h_qm_context=context, ptb=ptb)
        assert response.result == 0
        assert {name: getattr(response.ptb, name) is None for name in ptb.__dataclass_fields__} == before
        assert isinstance(response.ptb.transfer, Receive)
