"""rpc_ACSendMessageEx: what a client sends, and what becomes of it ([MS-MQMP] 3.1.5.2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lior.errors import HRESULTS
from lior.message import Message
from lior.protocols.security.encryption import ADVANCED, encrypt_body, new_key, wrap_key
from lior.security import ANONYMOUS_CALLER
from lior.server.transfer_security import Guard, SecurityFiles, SecurityPolicy
from lior.wire.dtyp import encode_sid
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.structures import Receive
from tests.server.rpc.calling import NO_OBJECT, QUEUE, Client, Fault, Server, format_of, sent, user

PROPERTY = HRESULTS["MQ_ERROR_PROPERTY"]
CONNECTOR = UUID("12345678-1234-5678-1234-567812345678")
SID = bytes.fromhex("010500000000000515000000010203040506070809000000e9030000")


@pytest.fixture(autouse=True, params=[False, True], ids=["alone", "batch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule holds for calls that go to the batch handlers, too."""
    monkeypatch.setattr(Client, "in_batches", request.param)


def one(server: Server, name: str = r"private$\q") -> Message:
    """The only message of a queue."""
    queue = server.manager.core.paths[name]
    (lookup_id,) = queue.available
    return queue.position(lookup_id, server.engine.store).read()


def count(server: Server, name: str = r"private$\q") -> int:
    return len(server.manager.core.paths[name].available)


def sender(server: Server, name: str = QUEUE, client: Client | None = None) -> tuple[Client, bytes]:
    client = client or server.client()
    return client, client.opened(name, access=2).ph_queue


@pytest.fixture
def server() -> Server:
    server = Server()
    server.create()
    return server


@pytest.mark.spec("MP-152", "MP-045")
def test_answers_the_identifier_that_the_message_has(server: Server) -> None:
    client, handle = sender(server)
    response = client.send(handle)
    assert response.result == 0
    assert response.p_message_id == one(server).identifier


@pytest.mark.spec("MP-152")
def test_answers_no_identifier_where_none_is_asked_for(server: Server) -> None:
    client, handle = sender(server)
    response = client.call(QMCOMM2, 1, h_queue=handle, ptb=sent(), p_message_id=None)
    assert (response.p_message_id, response.result) == (None, 0)


@pytest.mark.spec("MP-152")
def test_answers_only_when_the_message_is_on_disk(server: Server) -> None:
    client, handle = sender(server)
    answered = client.start(QMCOMM2, 1, h_queue=handle, ptb=sent(), p_message_id=NO_OBJECT)
    assert not answered.done
    server.engine.commit()
    assert client.result(answered).result == 0


@pytest.mark.spec("MP-153", "MP-154")
def test_substitutes_the_defaults_for_what_is_null(server: Server) -> None:
    client, handle = sender(server)
    ptb = sent(None, p_delivery=None, ul_body_buffer_size_in_bytes=0)
    assert client.call(QMCOMM2, 1, h_queue=handle, ptb=ptb, p_message_id=None).result == 0
    found = one(server)
    assert (found.priority, found.tracing_requested, found.delivery_guarantee) == (3, False, 0)
    assert (found.time_to_reach_queue, found.message_class, found.correlation_id) == (0xFFFFFFFF, 0, bytes(20))
    assert (found.positive_journaling_requested, found.negative_journaling_requested) == (False, False)
    assert (found.acknowledgements_requested, found.application_tag, found.body_type) == (0, 0, 0)
    assert (found.connector_type, found.administration_queue, found.response_queue) == (None, "", "")
    assert (found.body, found.label, found.extension, found.security) == (b"", "", b"", None)


@pytest.mark.spec("MP-082", "MP-068", "MP-048", "MP-049", "MP-051", "MP-055", "MP-046", "MP-040", "MP-067")
def test_stores_every_member(server: Server) -> None:
    client, handle = sender(server)
    response = client.send(
        handle, b"body", label="order", response=QUEUE, admin=r"DIRECT=OS:other\private$\admin", p_priority=7,
        p_delivery=1, p_acknowledge=0x0E, p_auditing=3, p_application_tag=0xFFFFFFFF, pul_body_type=0x1E,
        pp_correlation_id=bytes(range(20)), ul_absolute_time_to_queue=100, ul_relative_time_to_live=200, p_trace=1,
        pp_msg_extension=b"a\0b", ul_msg_extension_buffer_in_bytes=3, pp_connector_type=CONNECTOR,
    )  # fmt: skip
    assert response.result == 0
    found = one(server)
    assert (found.body, found.label, found.priority, found.delivery_guarantee) == (b"body", "order", 7, 1)
    assert found.response_queue == r"DIRECT=OS:lior\private$\q"  # "." is the computer of the queue manager
    assert found.administration_queue == r"DIRECT=OS:other\private$\admin"
    assert (found.acknowledgements_requested, found.application_tag) == (0x0E, 0xFFFFFFFF)
    assert (found.positive_journaling_requested, found.negative_journaling_requested) == (True, True)
    assert (found.body_type, found.correlation_id) == (0x1E, bytes(range(20)))
    assert (found.time_to_reach_queue, found.time_to_be_received) == (100, 200)
    assert (found.tracing_requested, found.extension, found.connector_type) == (True, b"a\0b", CONNECTOR)


@pytest.mark.parametrize(("auditing", "negative", "positive"), [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1)])
@pytest.mark.spec("MP-051")
def test_audits_as_the_two_bits_say(server: Server, auditing: int, negative: int, positive: int) -> None:
    client, handle = sender(server)
    client.send(handle, p_auditing=auditing)
    found = one(server)
    assert (found.negative_journaling_requested, found.positive_journaling_requested) == (negative, positive)


@pytest.mark.spec("MP-158")
def test_ignores_what_a_server_is_to_ignore(server: Server) -> None:
    client, handle = sender(server)
    client.send(handle, label="x", p_sent_time=1, p_arrived_time=2, p_body_size=3,
                pul_title_buffer_size_in_wchars=99, pul_relative_time_to_queue=4, pul_relative_time_to_live=5,
                pul_sender_id_len_prop=6, ul_auth_level=7, p_authenticated=8, b_authenticated=9,
                pul_sender_cert_len_prop=10, pul_symm_keys_size_prop=11, pul_signature_size_prop=12,
                pp_src_qm_id=CONNECTOR, p_msg_extension_size=13, pul_version=14, pb_first_in_xact=1,
                pb_last_in_xact=1, pp_xact_id=NO_OBJECT, pp_message_id=NO_OBJECT)  # fmt: skip
    found = one(server)
    plain = Message(b"hello", "x", priority=3, delivery_guarantee=1, time_to_reach_queue=0xFFFFFFFF,
                    identifier=found.identifier, source_queue_manager=found.source_queue_manager,
                    sent_time=found.sent_time, arrival_time=found.arrival_time,
                    lookup_identifier=found.lookup_identifier,
                    destination_queue=r"DIRECT=OS:lior\private$\q")  # fmt: skip
    assert found == plain


@pytest.mark.spec("MP-054", "MP-154")
def test_cuts_a_label_at_249_characters(server: Server) -> None:
    client, handle = sender(server)
    client.send(handle, pp_title="x" * 300, ul_title_buffer_size_in_wchars=300)
    assert one(server).label == "x" * 249


@pytest.mark.spec("MP-054")
def test_keeps_a_label_of_249_characters_and_its_nul(server: Server) -> None:
    client, handle = sender(server)
    client.send(handle, label="x" * 249)
    assert one(server).label == "x" * 249


def test_a_label_ends_before_its_first_nul_and_is_cut_between_characters(server: Server) -> None:
    client, handle = sender(server)
    client.send(handle, pp_title="ab\0cd", ul_title_buffer_size_in_wchars=5)
    assert one(server).label == "ab"
    other = Server()
    other.create()
    client, handle = sender(other)
    client.send(handle, pp_title="x" * 248 + "\U0001f600", ul_title_buffer_size_in_wchars=250)
    assert one(other).label == "x" * 248


@pytest.mark.spec("MP-154", "MP-052")
def test_stores_the_bytes_in_use_and_not_those_allocated(server: Server) -> None:
    client, handle = sender(server)
    client.send(handle, b"a\0b", ul_alloc_body_buffer_in_bytes=5000)
    assert one(server).body == b"a\0b"


@pytest.mark.spec("MP-154")
def test_refuses_room_for_more_than_a_message_holds(server: Server) -> None:
    client, handle = sender(server)
    response = client.send(handle, b"a", ul_alloc_body_buffer_in_bytes=0x7FFFFFFF)
    assert response.result == HRESULTS["MQ_ERROR_INSUFFICIENT_RESOURCES"]
    assert count(server) == 0


@pytest.mark.parametrize(
    "members",
    [
        {"p_priority": 8},
        {"p_delivery": 2},
        {"p_acknowledge": 0x10},
        {"p_auditing": 4},
        {"p_trace": 2},
        {"ul_signature_size": 3, "pp_signature": b"sig", "f_default_provider": 1, "pul_prov_type": 1},
        {"ul_signature_size": 3, "pp_signature": b"sig", "pul_hash_alg": 0x8004},
        {"ul_signature_size": 3, "pp_signature": b"sig", "pul_hash_alg": 0x8004, "f_default_provider": 1},
        {"ul_signature_size": 3, "pp_signature": b"sig", "pul_hash_alg": 0x8004, "f_default_provider": 1,
         "pul_prov_type": 24},
        {"ul_signature_size": 3, "pp_signature": b"sig", "pul_hash_alg": 0x9999, "f_default_provider": 1,
         "pul_prov_type": 1},
        {"ul_signature_size": 3, "pp_signature": b"sig", "pul_hash_alg": 0x8004, "ppwcs_prov_name": "CSP",
         "ul_prov_name_len": 3},
        {"ul_signature_size": 3, "pp_signature": b"sig", "pul_hash_alg": 0x8004, "f_default_provider": 1,
         "pul_prov_type": 1, "pul_auth_prov_name_len_prop": 4},
        {"ul_signature_size": 3, "pp_signature": b"sig", "pul_hash_alg": 0x8004, "ppwcs_prov_name": "CSP\0",
         "ul_prov_name_len": 4, "pul_auth_prov_name_len_prop": 3},
        {"pul_priv_level": 4},
        {"pul_sender_id_type": 1},
        {"pul_sender_id_type": 3, "pp_sender_id": SID, "u_sender_id_len": len(SID)},
        {"pul_sender_id_type": 0, "pp_sender_id": SID, "u_sender_id_len": len(SID)},
        {"pp_sender_id": SID, "u_sender_id_len": len(SID)},
        {"pul_sender_id_type": 1, "pp_sender_id": b"\1\2\3", "u_sender_id_len": 3},
        {"pul_sender_id_type": 2, "pp_sender_id": bytes(16), "u_sender_id_len": 16},
        {"pul_hash_alg": 0x1234},
        {"pul_encrypt_alg": 0x1234},
    ],
)  # fmt: skip
@pytest.mark.spec("MP-155", "MP-156", "MP-057", "MP-060", "MP-063")
def test_refuses_what_violates_a_precondition(server: Server, members: dict[str, Any]) -> None:
    client, handle = sender(server)
    assert client.send(handle, **members).result == PROPERTY
    assert count(server) == 0


@pytest.mark.spec("MP-157", "MP-058")
def test_encrypts_nothing_for_a_queue_that_was_opened_by_a_direct_name(server: Server) -> None:
    client, handle = sender(server)
    encrypted: list[dict[str, Any]] = [{"pul_priv_level": 1, "pul_encrypt_alg": 0x6801}, {"b_encrypted": 1}]
    for members in encrypted:
        assert client.send(handle, **members).result == HRESULTS["MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"]
    assert client.send(handle, pul_priv_level=0, pul_encrypt_alg=0).result == 0
    assert count(server) == 1


def private_name(server: Server) -> str:
    queue = server.manager.core.paths[r"private$\q"]
    return f"PRIVATE={str(server.manager.core.properties.identifier).upper()}\\{queue.private_number:08X}"


@pytest.mark.parametrize(("given", "kept"), [(1, 1), (2, 3), (3, 3), (5, 5)])
@pytest.mark.spec("MP-058")
def test_takes_the_privacy_levels_of_the_document_and_of_the_interface(given: int, kept: int) -> None:
    server = Server()
    server.create()
    client, handle = sender(server, private_name(server))
    assert client.send(handle, pul_priv_level=given, pul_encrypt_alg=0x6801).result == 0
    security = one(server).security
    assert security is not None and security.privacy_level == kept


@pytest.mark.spec("MP-155")
def test_a_privacy_level_needs_its_algorithm(server: Server) -> None:
    client, handle = sender(server, private_name(server))
    assert client.send(handle, pul_priv_level=1).result == PROPERTY


@pytest.mark.spec("MP-156", "MP-062", "MP-065")
def test_takes_the_second_of_two_signatures(server: Server) -> None:
    client, handle = sender(server)
    signature = b"A" * 40 + b"B" * 64
    client.send(handle, pp_signature=signature, ul_signature_size=len(signature), pul_hash_alg=0x8004,
                ppwcs_prov_name="Provider\0\0", ul_prov_name_len=10, pul_prov_type=1,
                pul_auth_prov_name_len_prop=10 + 64)  # fmt: skip
    security = one(server).security
    assert security is not None
    assert security.signature == b"B" * 64
    assert (security.authentication_provider_name, security.authentication_provider_type) == ("Provider", 1)


@pytest.mark.spec("MP-156", "MP-065")
def test_takes_the_whole_buffer_where_nothing_says_that_there_are_two_signatures(server: Server) -> None:
    client, handle = sender(server)
    client.send(handle, pp_signature=b"sig", ul_signature_size=3, pul_hash_alg=0x8003, f_default_provider=1,
                pul_prov_type=1, pp_sender_cert=b"certificate", ul_sender_cert_len=11)  # fmt: skip
    security = one(server).security
    assert security is not None
    assert (security.signature, security.sender_certificate, security.hash_algorithm) == (
        b"sig", b"certificate", 0x8003)  # fmt: skip


# Who sent it


@pytest.mark.spec("MP-161", "MP-057")
def test_the_sender_is_who_was_authenticated_and_not_who_the_buffer_names(server: Server) -> None:
    bob = user(2)
    client, handle = sender(server, client=server.client(bob))
    client.send(handle, pul_sender_id_type=1, pp_sender_id=SID, u_sender_id_len=len(SID))
    security = one(server).security
    assert security is not None
    assert security.sender_identifier == encode_sid(bob.sid)
    assert (security.sender_identifier_type, security.authentication_level) == (1, 0)


@pytest.mark.spec("MP-161")
def test_an_anonymous_sender_has_no_identity_whatever_it_says(server: Server) -> None:
    client, handle = sender(server, client=server.client(ANONYMOUS_CALLER))
    client.send(handle, pul_sender_id_type=1, pp_sender_id=SID, u_sender_id_len=len(SID))
    assert one(server).security is None


@pytest.mark.spec("MP-161", "MP-044")
def test_only_a_connector_of_an_administrator_sends_other_classes(server: Server) -> None:
    client, handle = sender(server)
    missing = HRESULTS["MQ_ERROR_MISSING_CONNECTOR_TYPE"]
    assert client.send(handle, p_class=0x4000).result == missing
    assert client.send(handle, p_class=0x4000, pp_connector_type=CONNECTOR).result == 0
    assert one(server).message_class == 0x4000
    client, handle = sender(server, client=server.client(user(1)))
    denied = HRESULTS["MQ_ERROR_ACCESS_DENIED"]
    assert client.send(handle, p_class=0x4000, pp_connector_type=CONNECTOR).result == denied
    assert client.send(handle, p_class=0, pp_connector_type=CONNECTOR).result == 0


@pytest.mark.spec("MP-160")
def test_stores_clear_what_was_encrypted_for_this_queue_manager() -> None:
    server = Server(decrypt=lambda message, queue, now: message.body[::-1])
    server.create()
    client, handle = sender(server, private_name(server))
    client.send(handle, b"olleh", pul_priv_level=1, pul_encrypt_alg=0x6801, b_encrypted=1, pp_symm_keys=b"key",
                ul_symm_keys_size=3)  # fmt: skip
    found = one(server)
    assert found.body == b"hello"
    assert found.security is not None and found.security.symmetric_key == b""


@pytest.mark.spec("MP-160")
def test_refuses_what_it_cannot_decrypt() -> None:
    server = Server(decrypt=lambda message, queue, now: None)
    server.create()
    client, handle = sender(server, private_name(server))
    response = client.send(handle, pul_priv_level=1, pul_encrypt_alg=0x6801, b_encrypted=1, pp_symm_keys=b"key",
                           ul_symm_keys_size=3)  # fmt: skip
    assert response.result == HRESULTS["MQ_ERROR_CORRUPTED_SECURITY_DATA"]
    assert count(server) == 0


# Where it goes


@pytest.mark.spec("MP-159", "MP-162")
def test_answers_insufficient_resources_when_the_quota_is_used_up() -> None:
    server = Server()
    server.create(quota=1)
    client, handle = sender(server)
    assert client.send(handle, bytes(800)).result == 0
    assert client.send(handle, bytes(800)).result == HRESULTS["MQ_ERROR_INSUFFICIENT_RESOURCES"]
    assert count(server) == 1


@pytest.mark.spec("MP-159", "MP-162")
def test_transactions_and_queues_have_to_fit_each_other(server: Server) -> None:
    server.create("t", transactional=True)
    client, handle = sender(server, r"DIRECT=OS:.\private$\t")
    assert client.send(handle).result == HRESULTS["MQ_ERROR_TRANSACTION_USAGE"]


@pytest.mark.spec("MP-129", "MP-131")
def test_sends_to_another_computer_through_an_outgoing_queue(server: Server) -> None:
    client, handle = sender(server, r"DIRECT=OS:other\private$\q")
    assert client.send(handle, b"far").result == 0
    (outgoing,) = server.manager.core.outgoing.values()
    assert server.engine.bodies(outgoing) == [b"far"]


@pytest.mark.spec("MP-152", "MP-128")
def test_a_queue_that_was_opened_to_receive_is_not_sent_to(server: Server) -> None:
    client = server.client()
    handle = client.opened(access=1).ph_queue
    assert client.send(handle).result == HRESULTS["MQ_ERROR_ACCESS_DENIED"]
    assert count(server) == 0


@pytest.mark.spec("MP-152", "MP-109")
def test_a_queue_that_was_deleted_is_not_sent_to(server: Server) -> None:
    client, handle = sender(server)
    server.engine.do(server.manager.delete_queue, server.manager.core.paths[r"private$\q"], server.engine.admin)
    assert client.send(handle).result == HRESULTS["MQ_ERROR_QUEUE_NOT_AVAILABLE"]


@pytest.mark.spec("MP-039")
def test_a_buffer_of_a_receive_is_not_sent(server: Server) -> None:
    client, handle = sender(server)
    ptb = sent()
    ptb.u_transfer_type, ptb.transfer = 1, Receive()
    response = client.call(QMCOMM2, 1, h_queue=handle, ptb=ptb, p_message_id=None)
    assert response.result == HRESULTS["MQ_ERROR_INVALID_PARAMETER"]
    assert count(server) == 0


@pytest.mark.spec("MP-028", "MP-027")
def test_a_handle_that_nobody_gave_out_is_a_fault(server: Server) -> None:
    client = server.client()
    for wrong in (bytes(4) + b"x" * 16, bytes(20)):
        with pytest.raises(Fault) as fault:
            client.send(wrong)
        assert fault.value.status == 0x1C00001A


@pytest.mark.spec("MP-017", "MP-018")
def test_a_handle_of_one_interface_serves_on_another_connection_of_the_client_and_of_nobody_else(
    server: Server,
) -> None:
    client, handle = sender(server)
    assert client.another().send(handle).result == 0
    with pytest.raises(Fault) as fault:
        server.client().send(handle)
    assert fault.value.status == 0x1C00001A


@pytest.mark.spec("MP-151", "MP-142")
def test_the_obsolete_send_returns_illegal_operation(server: Server) -> None:
    response = server.client().call(QMCOMM2, 0, p_queue_format=format_of(QUEUE), ptb=sent(), p_message_id=None)
    assert response.result == 0xC00E0064
    assert count(server) == 0


def test_who_outruns_the_disk_waits_in_line(server: Server) -> None:
    client, handle = sender(server)
    server.engine.crowded = True
    answered = client.start(QMCOMM2, 1, h_queue=handle, ptb=sent(b"late"), p_message_id=None)
    server.engine.commit()
    assert not answered.done and count(server) == 0
    (go_on,) = server.engine.line
    go_on()
    server.engine.commit()
    assert client.result(answered).result == 0
    assert one(server).body == b"late"


@pytest.mark.spec("MP-160")
def test_opens_with_its_own_key_what_a_client_encrypted_with_the_public_one(tmp_path: Path) -> None:
    server = Server()
    server.create()
    files = SecurityFiles(tmp_path, SecurityPolicy())
    guard = Guard(server.manager, files)
    server.service.decrypt = guard.clear_body
    public = files.keys.make(ADVANCED).public_key()
    algorithm = 0x6610  # AES-256
    key = new_key(algorithm, 256, ADVANCED, os.urandom(32))
    body, wrapped = encrypt_body(b"for this queue manager alone", algorithm, key), wrap_key(key, algorithm, public)
    members: dict[str, Any] = {"pul_priv_level": 5, "pul_encrypt_alg": algorithm, "b_encrypted": 1,
                               "ul_symm_keys_size": len(wrapped)}  # fmt: skip
    client, handle = sender(server, private_name(server))
    assert client.send(handle, body, pp_symm_keys=wrapped, **members).result == 0
    assert one(server).body == b"for this queue manager alone"
    wrong = client.send(handle, body, pp_symm_keys=bytes(len(wrapped)), **members)
    assert wrong.result == HRESULTS["MQ_ERROR_CORRUPTED_SECURITY_DATA"]
    assert count(server) == 1
