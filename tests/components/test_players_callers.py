"""Who calls: claimed and vouched callers, signatures, roles."""

from pathlib import Path
from typing import Any

import pytest

import lior
from lior.components import (
    Application,
    Caller,
    aio,
    calling_as,
    current_call,
)
from lior.components.application import Rejected
from lior.message import AuthenticationLevel, Message, MessageSecurity, SenderIdentifierType
from lior.security import Sid
from lior.wire import recorded_call_security
from lior.wire.dtyp import encode_sid
from lior.wire.recorded_call import EXTENSION
from tests.components.order_scenario import (
    ORDERS,
    QUEUE,
    IOrderSink,
    Journal,
    Manager,
    application,
    dead,
    messages,
    played,
    record,
    run,
)
from tests.wire.recorded_call_vectors import (
    CLERK,
    CONTEXT_A,
    SYSTEM,
    A,
)

GUARD: dict[str, Any] = {"serving": {"roles": {"place_order": {"clerk"}}}, "members": {"clerk": [CLERK]}}


def vouched(who: str | None, level: int = 3) -> MessageSecurity:
    """As the queue manager hands over a message whose signature it verified."""
    if who is None:
        return MessageSecurity()
    return MessageSecurity(SenderIdentifierType.SID, encode_sid(Sid.parse(who)), authentication_level=level)


@pytest.mark.spec("QC-129")
@pytest.mark.parametrize(("claimed", "sender", "trusted", "level", "allowed"), [
    (CLERK, None, (), 0, False),  # unsigned: only a claim
    (CLERK, CLERK, (), 3, True),  # signed by its owner
    (CLERK, CLERK, (), 0, False),  # a sender identifier that nobody verified
    (CLERK, SYSTEM, (), 3, False),  # signed by somebody else
    (CLERK, SYSTEM, (SYSTEM,), 3, True),  # signed by a trusted sender
    (SYSTEM, SYSTEM, (), 3, False),  # himself, but without the role
    (SYSTEM, CLERK, (CLERK,), 3, False),
    (None, CLERK, (), 3, False),
])  # fmt: skip
def test_a_claimed_caller_is_believed_only_with_a_voucher(
    claimed: str | None, sender: str | None, trusted: tuple[str, ...], level: int, allowed: bool, journal: Journal
) -> None:
    app = application(journal, trusted_senders=trusted, **GUARD)

    async def work(manager: Manager) -> Any:
        with calling_as(claimed):
            await record(manager, 1)
        (message,) = await messages(manager)
        message.security = vouched(sender, level)
        try:
            return app.prepare(message).calls[0].caller
        except Rejected as error:
            assert error.error.symbol == "LIOR_ERROR_CALL_REFUSED"
            return None

    caller = run(work)
    assert (caller == Caller(Sid.parse(CLERK), None, True)) is allowed
    assert (caller is None) is not allowed


@pytest.mark.spec("QC-129")
def test_a_signed_message_plays_and_a_forged_one_does_not(journal: Journal, tmp_path: Path) -> None:
    """Through the queue manager's own verification: it knows the clerk's certificate."""
    identity = lior.Identity.create("clerk", sid=CLERK)
    stranger = lior.Identity.create("stranger", sid=SYSTEM)
    for each in (identity, stranger):
        lior.embedded.security(tmp_path).register_certificate(str(each.sid), each.certificate_pem)

    async def work(manager: Manager) -> Any:
        with calling_as(CLERK):
            await record(manager, 1)
            await record(manager, 2, sign=identity)
            await record(manager, 3, sign=stranger)
        player = await played(manager, application(journal, **GUARD), queue=QUEUE)
        trusting = aio.Player(manager, application(journal, trusted_senders=[SYSTEM], **GUARD), queue=QUEUE)
        async with await manager.open_queue(f"{QUEUE};dead") as queue:
            for message in await dead(manager):
                await queue.move(message, "")
        await trusting.play_waiting()
        return player.figures.messages_rejected, trusting.figures.messages_rejected

    assert run(work, data=tmp_path) == (2, 1)
    assert journal.placed() == [2, 3]


def test_methods_without_roles_are_everybodys(journal: Journal) -> None:
    async def work(manager: Manager) -> None:
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager) as recorder:
            recorder.interface(IOrderSink).add_lines(1, [], False)
        await played(manager, application(journal, **GUARD))

    run(work)
    assert journal.calls == [("add_lines", 1, [], False)]


@pytest.mark.spec("QC-050", "QC-135")
def test_what_is_recorded_while_playing_carries_both_callers() -> None:
    chains: list[Any] = []
    app = Application("Orders")

    @app.serves(ORDERS, IOrderSink)
    class Orders:
        async def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            chains.append([str(caller.sid) for caller in current_call().chain])
            if order_id == 1:
                async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager_of[0], identity=Sid.parse(SYSTEM),
                                        transaction=current_call().transaction) as recorder:  # fmt: skip
                    recorder.interface(IOrderSink).place_order(2, None, 0.0)

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    manager_of: list[Manager] = []

    async def work(manager: Manager) -> None:
        manager_of.append(manager)
        await record(manager, 1, identity=Sid.parse(CLERK))
        await played(manager, app)

    run(work)
    assert chains == [[CLERK], [CLERK, SYSTEM]]
    assert recorded_call_security.decode(CONTEXT_A).style == 0


@pytest.mark.spec("QC-126")
@pytest.mark.parametrize("level", [AuthenticationLevel.SIG10, AuthenticationLevel.SIG20])
def test_older_signatures_do_not_cover_the_extension_and_the_first_check_does(
    level: int, journal: Journal, tmp_path: Path
) -> None:
    """Somebody on the way changes it: the signature still holds, and nothing is played."""
    identity = lior.Identity.create("clerk", sid=CLERK, level=level)
    lior.embedded.security(tmp_path).register_certificate(CLERK, identity.certificate_pem)

    async def work(manager: Manager) -> Any:
        handle = await manager.backend.open(f"DIRECT=OS:{QUEUE}", 2, False)
        for last in (0x31, 0x32):
            message = Message(body=A, extension=EXTENSION)
            await manager._sign(identity, message, f"DIRECT=OS:{QUEUE}", handle, None, True)
            message.extension = EXTENSION[:-1] + bytes([last])
            await manager._send(handle, message, None, True)
        levels = [message.security and message.security.authentication_level for message in await messages(manager)]
        player = await played(manager, application(journal), queue=QUEUE)
        return levels, player.figures.messages_rejected, [message.extension[-1] for message in await dead(manager)]

    assert run(work, data=tmp_path) == ([level, level], 1, [0x32])
    assert journal.placed() == [1001]
