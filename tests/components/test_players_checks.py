"""What is checked of a message before anything of it is played: [MC-COMQC] 3.1, 4.2."""

import json
from typing import Any

import pytest

from lior.components.application import Rejected
from lior.components.places import reasons_queue
from lior.wire.recorded_call import EXTENSION, Limits
from tests.components.order_scenario import (
    QUEUE,
    Events,
    Journal,
    Manager,
    application,
    dead,
    messages,
    played,
    run,
    send_body,
)
from tests.wire import second_recorded_call as second
from tests.wire.recorded_call_vectors import (
    CLASS,
    CONTEXT_A,
    GLOBAL,
    INTERFACE,
    A,
    C,
    place_order,
)


def rejected(body: bytes, *, extension: bytes = EXTENSION, **options: Any) -> tuple[str, Journal]:
    """The stage at which an application refuses it, and what ran."""
    journal = Journal()
    app = application(journal, **options)

    async def work(manager: Manager) -> str:
        await send_body(manager, body, extension)
        (message,) = await messages(manager)
        try:
            app.prepare(message)
        except Rejected as error:
            return error.stage
        return ""

    return run(work), journal


def with_bent_security(body: bytes) -> bytes:
    """Its second security header is broken, all sizes are right."""
    at = [at for signature, at, _ in second.headers(body) if signature == b"SECD"][1] + 16
    return body[:at] + b"\2" + body[at + 1:]


NOBODY = "00000000-0000-0000-0000-000000000001"
UNKNOWN_CLASS = second.message(NOBODY, second.secd(b"junk"), second.meth(INTERFACE, 3, b""))
UNKNOWN_INTERFACE = second.message(CLASS, second.secd(CONTEXT_A), second.meth(GLOBAL, 3, b""))
BROKEN_SECOND = second.message(CLASS, second.secd(CONTEXT_A),
                               second.meth(INTERFACE, 3, place_order(1, "a", 1.0).octets),
                               second.smth(3, place_order(2, "b", 1.0).octets[:-4]))  # fmt: skip


@pytest.mark.spec("QC-113", "QC-116", "QC-063")
@pytest.mark.parametrize(("body", "extension", "stage"), [
    (A, EXTENSION, ""), (A, b"", "format"), (A[:-8], EXTENSION, "format"), (UNKNOWN_CLASS, EXTENSION, "class"),
    (with_bent_security(C), EXTENSION, "security"), (UNKNOWN_INTERFACE, EXTENSION, "parameters"),
    (BROKEN_SECOND, EXTENSION, "parameters"), (UNKNOWN_CLASS[:-8], b"", "format"), (b"", EXTENSION, "format"),
])  # fmt: skip
def test_the_first_check_that_fails_ends_it_and_no_object_is_made(body: bytes, extension: bytes, stage: str) -> None:
    found, journal = rejected(body, extension=extension)
    assert found == stage
    assert (journal.calls, journal.made) == ([], 0)


@pytest.mark.spec("QC-114", "QC-002", "QC-020")
def test_a_bad_message_goes_to_the_dead_queue_with_its_reason_and_the_next_one_plays(journal: Journal) -> None:
    async def work(manager: Manager) -> Any:
        bad: list[tuple[bytes, bytes]] = [(A, EXTENSION[:15]), (A, EXTENSION + b"\0"), (A, b""), (A[:-1], EXTENSION),
                                          (UNKNOWN_CLASS, EXTENSION), (BROKEN_SECOND, EXTENSION)]  # fmt: skip
        for body, extension in bad:
            await send_body(manager, body, extension)
        await send_body(manager, A)
        events = Events()
        await played(manager, application(journal), queue=QUEUE, on_event=events)
        return events, await messages(manager), await dead(manager), await messages(manager, reasons_queue(QUEUE))

    events, left, dead_ones, reasons = run(work)
    assert journal.calls[0] == ("place_order", 1001, "Zoë", 249.5)
    assert left == []
    assert events.kinds == ["rejected", "dead"] * 6 + ["played"]
    assert len(dead_ones) == len(reasons) == 6
    for message, reason in zip(dead_ones, reasons, strict=True):
        facts = json.loads(reason.value())
        assert facts["message_id"] == message.id
        assert reason.correlation_id == message.identifier.to_bytes()
        assert facts["reason"].split(":")[0] in ("format", "class", "parameters")


@pytest.mark.spec("QC-114")
def test_bad_messages_may_be_dropped_instead(journal: Journal) -> None:
    async def work(manager: Manager) -> Any:
        await send_body(manager, A[:-8])
        await send_body(manager, A)
        await played(manager, application(journal), rejected="drop")
        return await messages(manager), await dead(manager)

    assert run(work) == ([], [])
    assert journal.placed() == [1001]


@pytest.mark.spec("QC-059", "QC-063", "QC-105", "QC-130")
@pytest.mark.parametrize(("iid", "number"), [
    (INTERFACE, 0), (INTERFACE, 1), (INTERFACE, 2), (INTERFACE, 5), (INTERFACE, 99), (INTERFACE, 0xFFFFFFFF),
    (GLOBAL, 3), ("00020400-0000-0000-C000-000000000046", 3), ("00020400-0000-0000-C000-000000000046", 5),
    ("00020400-0000-0000-C000-000000000046", 7), ("00000000-0000-0000-C000-000000000046", 3),
])  # fmt: skip
def test_methods_that_are_not_registered_are_out_of_reach(iid: str, number: int) -> None:
    data = place_order(1, "a", 1.0).octets
    stage, journal = rejected(second.message(CLASS, second.secd(CONTEXT_A), second.meth(iid, number, data)))
    assert stage == "parameters"
    assert journal.made == 0


@pytest.mark.spec("QC-105")
@pytest.mark.parametrize("number", [0, 3, 4, 5, 7])
def test_of_idispatch_only_invoke_is_played(number: int) -> None:
    data = second.Data()
    data.invoke(7, [(11, -1), (0x2003, [1]), (2, 5)])
    iid = "00020400-0000-0000-C000-000000000046"

    def body(method: int) -> bytes:
        return second.message(CLASS, second.secd(CONTEXT_A), second.meth(iid, method, data.octets))

    assert rejected(body(6))[0] == ""
    assert rejected(body(number))[0] == "parameters"


@pytest.mark.spec("QC-063")
def test_the_interface_decides_how_the_octets_are_read(journal: Journal) -> None:
    data = second.Data()
    data.invoke(7, [(11, -1), (0x2003, [1]), (2, 5)])
    app = application(journal)

    async def work(manager: Manager) -> list[str]:
        stages = []
        for iid, number in (("00020400-0000-0000-C000-000000000046", 6), (INTERFACE, 4)):
            call = second.meth(iid, number, data.octets)
            await send_body(manager, second.message(CLASS, second.secd(CONTEXT_A), call))
        for message in await messages(manager):
            try:
                stages.append(str(app.prepare(message).calls[0].arguments))
            except Rejected as error:
                stages.append(error.stage)
        return stages

    assert run(work) == ["(5, [1], True)", "(7, None, False)"]


@pytest.mark.spec("QC-127")
def test_an_application_has_limits_of_its_own() -> None:
    for limits in (Limits(calls=1), Limits(elements=2), Limits(octets=511)):
        stage, _ = rejected(A, limits=limits)
        assert stage in ("format", "parameters")
