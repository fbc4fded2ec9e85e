"""Signed and encrypted messages between two queue managers over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from lior.client.signing import Identity
from lior.message import MessageClass
from lior.server.transfer_security import Guard, SecurityFiles, SecurityPolicy
from tests.protocols.security.signed_packets import ALICE, alice
from tests.server.engines import looped
from tests.server.transfer.fleet import LONG, QUEUE, TRANSACTIONAL, Host, fleet, until
from tests.server.transfer_security.desk import pooled_key

ME = Identity(alice().certificate, alice().key, ALICE)
DEAD = r".\system$;DEADLETTER"
DEAD_TRANSACTIONAL = r".\system$;DEADXACT"
WANTED = r".\private$\wanted"
DIRECT_TOO = SecurityPolicy(encrypt_direct_names=True, check_certificate_dates=False)


def guarded(host: Host, policy: SecurityPolicy = DIRECT_TOO) -> SecurityFiles:
    """Give the host a guard whose files the test can fill."""
    files = SecurityFiles(None, policy, generate=pooled_key)
    host.transfer.guard = Guard(host.manager, files)
    return files


@pytest.mark.spec("QB-161", "QB-188")
@looped
async def test_a_signed_message_arrives_with_its_sender_known() -> None:
    async with fleet(2) as (here, there):
        guarded(there).certificates.register(ALICE, alice().certificate)
        await there.qm.create_queue(WANTED, authentication=True)
        await here.qm.send(there.name(WANTED), b"signed", sign=ME, label="a label")
        message = await there.qm.receive(WANTED, LONG)
        assert message.security is not None
        assert (message.body, message.security.authentication_level) == (b"signed", 3)


@pytest.mark.spec("QB-167", "QB-162")
@looped
async def test_what_a_queue_refuses_ends_in_the_senders_dead_letters_with_the_reason() -> None:
    async with fleet(2) as (here, there):
        guarded(there)
        await there.qm.create_queue(WANTED, authentication=True, transactional=True)
        for signer in (None, ME):
            await here.qm.send(there.name(WANTED), b"refused", transactional=True, sign=signer)
            message = await here.qm.receive(DEAD_TRANSACTIONAL, LONG)
            assert (message.body, message.failure_reason) == (b"refused", MessageClass.NACK_BAD_SIGNATURE)
        assert (await there.qm.queue(WANTED)).messages == 0


@pytest.mark.spec("QB-160", "QB-165")
@looped
async def test_a_signed_and_encrypted_message_is_read_by_its_receiver_only() -> None:
    async with fleet(2) as (here, there):
        mine, theirs = guarded(here), guarded(there)
        theirs.certificates.register(ALICE, alice().certificate)
        mine.peers.put(there.manager.core.properties.identifier, theirs.keys.exported())
        await there.qm.create_queue(WANTED, authentication=True, privacy_level=2)
        await here.qm.send(there.name(WANTED), b"secret and signed", sign=ME, privacy=True)
        message = await there.qm.receive(WANTED, LONG)
        assert message.security is not None
        assert (message.body, message.security.authentication_level) == (b"secret and signed", 3)
        assert message.security.privacy_level == 5
        assert b"secret" not in message.packet
        await until(lambda: here.waiting() == 0, "acknowledgement")


@pytest.mark.spec("QB-190", "QB-193")
@pytest.mark.parametrize(("queue", "dead"), [(QUEUE, DEAD), (TRANSACTIONAL, DEAD_TRANSACTIONAL)])
@looped
async def test_what_cannot_be_encrypted_stays_here_in_the_dead_letters(queue: str, dead: str) -> None:
    async with fleet(2) as (here, there):
        for policy in (DIRECT_TOO, SecurityPolicy()):  # no keys; not for direct names
            guarded(here, policy)
            guarded(there)
            await here.qm.send(there.name(queue), b"secret", privacy=True, transactional=queue == TRANSACTIONAL)
            message = await here.qm.receive(dead, LONG)
            assert message.body == b"secret"
        assert (await there.qm.queue(queue)).messages == 0
        assert here.waiting() == 0


@looped
async def test_a_message_for_another_queue_follows_one_that_could_not_be_encrypted() -> None:
    async with fleet(2) as (here, there):
        guarded(here)
        await here.qm.send(there.name(QUEUE), b"secret", privacy=True)
        await here.qm.send(there.name(QUEUE), b"plain")
        assert (await asyncio.wait_for(there.qm.receive(QUEUE, LONG), LONG)).body == b"plain"
