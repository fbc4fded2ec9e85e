"""Signing and privacy in the library: what is sent is signed as it will be on the wire, and claims are verified."""

import stat
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import lior
from lior import aio
from lior.client.signing import Identity, privacy_level
from lior.errors import IllegalPropertyValue, LiorError, MessageNotAuthenticated, StoreUnusable
from lior.message import Message, MessageSecurity, ObjectId
from lior.security import Sid, unix_user_sid
from lior.server.transfer_security import SecurityFiles
from lior.wire.message_packet import to_user_message
from tests.protocols.security import second_security as second
from tests.protocols.security.signed_packets import ALICE, alice, certificate_of, key_of, pem_of
from tests.server.engines import looped
from tests.wire import second_user_message

REMOTE = r"DIRECT=TCP:10.0.0.9\private$\q"
PRIVATE = r"PRIVATE=77777777-0000-0000-0000-000000000001\00000008"
HERE = UUID(int=9)
WANTED = r".\private$\wanted"
ME = Identity(alice().certificate, alice().key, ALICE)


async def outgoing(qm: aio.QueueManager) -> list[bytes]:
    """The packets of what waits to leave."""
    manager = qm.backend.manager  # type: ignore[attr-defined]
    packets = []
    for queue in manager.core.outgoing.values():
        for lookup_id in list(queue.available):
            message = queue.position(lookup_id, manager.core.store).read()
            if message.transaction is not None:
                message.transaction.sequence_number = 1
            packets.append(to_user_message(message).encode())
    return packets


async def sent(destination: Any = REMOTE, **properties: Any) -> list[bytes]:
    async with aio.open(":memory:") as qm:
        await qm.send(destination, b"the body", **properties)
        return await outgoing(qm)


EVERYTHING: dict[str, Any] = {
    "label": "a label", "app_tag": 77, "priority": 6, "journal": True, "acknowledge": 5, "extension": b"more",
    "admin_queue": r"DIRECT=OS:here\private$\admin", "response_queue": r"DIRECT=OS:here\private$\answers",
    "correlation_id": bytes(range(20)), "time_to_be_received": 60}


@pytest.mark.spec("QB-188", "QB-189")
@pytest.mark.parametrize("options", [{}, EVERYTHING, {"transactional": True, "priority": 7}, {"express": True},
                                     {"dead_letter": False}], ids=lambda options: ",".join(options) or "plain")
@looped
async def test_a_second_implementation_verifies_what_the_library_sends(options: dict[str, Any]) -> None:
    (packet,) = await sent(REMOTE, sign=ME, **options)
    read = second_user_message.decode(packet)
    flags, sender, _, signature, certificate, _, provider = read["security"]
    assert (flags & 15, certificate) == (1, alice().certificate)
    assert sender.hex() == "010500000000000515000000" + "010000000200000003000000e9030000"
    assert provider[0] == 0x18
    assert read["hash_algorithm"] == 0x800E
    assert second.verifies(signature, certificate, 0x800E, second.signed_bytes(packet, 3))


@pytest.mark.spec("QB-188")
@looped
async def test_several_destinations_are_signed_as_msmq_3_does() -> None:
    packets = await sent([r"DIRECT=TCP:10.0.0.9\private$\q", r"DIRECT=TCP:10.0.0.8\private$\q"], sign=ME)
    assert len(packets) == 2
    for packet in packets:
        read = second_user_message.decode(packet)
        assert read["security"][3] == b""
        assert second.verifies(read["multi_queue"][2], alice().certificate, 0x800E, second.signed_bytes(packet, 5))


@pytest.mark.parametrize(("options", "algorithm", "level", "kind"), [
    ({"hash_algorithm": 0x8004}, 0x8004, 3, 1), ({"hash_algorithm": 0x800C}, 0x800C, 3, 0x18),
    ({"level": 1}, 0x800E, 1, 0x18)])
@looped
async def test_hash_and_version_can_be_chosen(options: dict[str, Any], algorithm: int, level: int, kind: int) -> None:
    (packet,) = await sent(sign=Identity(alice().certificate, alice().key, ALICE, **options))
    read = second_user_message.decode(packet)
    assert second.verifies(read["security"][3], alice().certificate, algorithm, second.signed_bytes(packet, level))
    assert read["security"][6][0] == kind


@pytest.mark.parametrize("options", [{"hash_algorithm": 0x8003}, {"hash_algorithm": 5}, {"level": 5}, {"level": 7}])
@looped
async def test_what_receivers_refuse_is_not_signed(options: dict[str, Any]) -> None:
    with pytest.raises(LiorError):
        await sent(sign=Identity(alice().certificate, alice().key, ALICE, **options))


@looped
async def test_an_open_queue_and_a_transaction_sign_too() -> None:
    async with aio.open(":memory:") as qm:
        async with await qm.open_queue(REMOTE, "send") as queue:
            await queue.send(b"one", sign=ME)
        async with qm.transaction() as tx:
            await tx.send(REMOTE, b"two", sign=ME)
        packets = await outgoing(qm)
    assert len(packets) == 2
    for packet in packets:
        read = second_user_message.decode(packet)
        assert second.verifies(read["security"][3], alice().certificate, 0x800E, second.signed_bytes(packet, 3))
    with pytest.raises(IllegalPropertyValue):
        await sent(sign="me")


# ---- queues of this queue manager -----------------------------------------------------------------------------------


@pytest.mark.spec("QB-167", "MQ-160")
def test_a_local_queue_that_wants_authentication_believes_no_claim(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        qm.create_queue(WANTED, authentication=True)
        claims: list[dict[str, Any]] = [
            {}, {"security": MessageSecurity(authentication_level=3)}, {"sign": ME},
            {"security": MessageSecurity(1, b"x", b"y", b"z", authentication_level=3)}]
        for claim in claims:
            with pytest.raises(MessageNotAuthenticated):
                qm.send(WANTED, b"x", **claim)
        SecurityFiles(tmp_path).certificates.register(ALICE, alice().certificate)
        qm.send(WANTED, b"signed", sign=ME)
        message = qm.receive(WANTED, 0)
        assert message.security is not None
        assert (message.body, message.security.authentication_level) == (b"signed", 3)


def test_a_claim_that_is_not_proven_is_not_shown_to_readers(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        qm.create_queue(WANTED)
        qm.send(WANTED, b"x", security=MessageSecurity(authentication_level=3))
        qm.send(WANTED, b"x", sign=ME)
        SecurityFiles(tmp_path).certificates.register(ALICE, alice().certificate)
        qm.send(WANTED, b"x", sign=ME)
        levels = [message.security.authentication_level for _ in range(3)
                  if (message := qm.receive(WANTED, 0)).security is not None]
    assert levels == [0, 0, 3]


def test_a_signature_counts_whether_or_not_its_level_is_claimed(tmp_path: Path) -> None:
    """A server believes no claim of a client, and drops it before the message gets here."""
    with lior.open(tmp_path) as qm:
        qm.create_queue(WANTED, authentication=True)
        SecurityFiles(tmp_path).certificates.register(ALICE, alice().certificate)
        figures = qm.properties()
        message = Message(b"x")
        ME.sign(message, f"DIRECT=OS:{figures['computer_name']}\\private$\\wanted",
                queue_manager=UUID(str(figures["identifier"])), transactional=False)
        assert message.security is not None
        message.security.authentication_level = 0
        qm.send(WANTED, message)
        received = qm.receive(WANTED, 0)
        assert received.security is not None
        assert received.security.authentication_level == 3


def test_one_signature_serves_several_local_queues(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        names = [WANTED, r".\private$\other"]
        for name in names:
            qm.create_queue(name, authentication=True)
        SecurityFiles(tmp_path).certificates.register(ALICE, alice().certificate)
        qm.send(names, b"x", sign=ME)
        for name in names:
            message = qm.receive(name, 0)
            assert message.security is not None
            assert message.security.authentication_level == 5


# ---- privacy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "level"), [
    (True, 5), (False, 0), ("advanced", 5), ("Enhanced", 3), ("base", 1), ("none", 0), ("body", 5), (5, 5), (3, 3)])
def test_privacy_is_a_level_by_name_or_number(value: Any, level: int) -> None:
    assert privacy_level(value) == level
    with lior.open(":memory:") as qm:
        qm.create_queue(WANTED)
        qm.send(WANTED, b"x", privacy=value)
        security = qm.receive(WANTED, 0).security
        assert (security.privacy_level if security is not None else 0) == level


@pytest.mark.parametrize("value", [2, "strong", None, 1.5])
def test_refuses_a_privacy_that_does_not_exist(value: Any) -> None:
    with pytest.raises(IllegalPropertyValue):
        privacy_level(value)


def test_signing_keeps_the_privacy_that_was_asked_for() -> None:
    message = Message(b"x", security=MessageSecurity(privacy_level=5, signature=b"old", symmetric_key=b"old"))
    ME.sign(message, PRIVATE, queue_manager=HERE, transactional=False)
    assert message.security is not None
    assert (message.security.privacy_level, message.security.symmetric_key) == (5, b"")
    assert message.security.signature != b"old"


@pytest.mark.spec("QB-189")
def test_a_private_name_is_signed_as_its_number() -> None:
    message = Message(b"x", label="a label")
    ME.sign(message, PRIVATE, queue_manager=HERE, transactional=False)
    message.identifier, message.destination_queue = ObjectId(HERE, 5), PRIVATE
    packet = to_user_message(message).encode()
    read = second_user_message.decode(packet)
    assert read["destination_queue"] == (3, 8)
    assert second.verifies(read["security"][3], alice().certificate, 0x800E, second.signed_bytes(packet, 3))


# ---- identities -----------------------------------------------------------------------------------------------------


def test_an_identity_is_created_saved_and_loaded(tmp_path: Path) -> None:
    file = tmp_path / "me.pem"
    created = Identity.create("Me", sid="S-1-5-21-1-2-3-1001")
    created.save(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    loaded = Identity.load(file)
    assert (loaded.certificate, loaded.sid) == (created.certificate, ALICE)
    assert pem_of(loaded.key) == pem_of(created.key)
    assert Identity.load(file, sid="S-1-5-7-1").sid == Sid.parse("S-1-5-7-1")
    assert "key=" not in repr(loaded)
    with pytest.raises(StoreUnusable):
        created.save(file)


def test_an_identity_in_two_files_belongs_to_the_local_user_unless_it_says_otherwise(tmp_path: Path) -> None:
    import os

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    (tmp_path / "key").write_bytes(pem_of(key_of(1024)))
    certificate = x509.load_der_x509_certificate(certificate_of(key_of(1024)))
    (tmp_path / "crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    assert Identity.load(tmp_path / "crt", tmp_path / "key").sid == unix_user_sid(os.geteuid())
    (tmp_path / "other").write_bytes(pem_of(key_of(1024, 1)))
    for arguments in ((tmp_path / "crt", tmp_path / "other"), (tmp_path / "crt",), (tmp_path / "key",)):
        with pytest.raises(LiorError) as caught:
            Identity.load(*arguments)
        assert caught.value.code == 0xC00E002C
    with pytest.raises(StoreUnusable):
        Identity.load(tmp_path / "missing")
