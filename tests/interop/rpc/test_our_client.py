"""Our client against servers that are not ours: a stub that decodes with the second marshaller, and scapy's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import lior
from lior.errors import AccessDenied, InsufficientResources, LiorError, QueueNotFound
from tests.interop.rpc.scapy_server import ScapyServer
from tests.interop.rpc.second_ndr import To
from tests.interop.rpc.stub_manager import StubManager

QUEUE = r"DIRECT=OS:elsewhere\private$\orders"
ID = bytes(range(16)) + (77).to_bytes(4, "little")


@pytest.fixture
def stub() -> Iterator[StubManager]:
    handle = bytes(4) + os.urandom(16)
    table: dict[str, Any] = {
        "rpc_QMOpenQueueInternal": {"pdwQMContext": 77, "phQueue": handle, "lplpRemoteQueueName": To(None)},
        "rpc_ACSendMessageEx": {"pMessageID": ID}, "rpc_ACCloseHandle": {"phQueue": bytes(20)},
    }  # fmt: skip
    with StubManager(table) as manager:
        manager.handle = handle
        yield manager


@pytest.fixture
def qm(stub: StubManager) -> Iterator[lior.QueueManager]:
    with lior.connect(stub.host, level="none") as found:
        yield found


@pytest.mark.spec("MP-193", "MP-189")
def test_a_message_is_sent_as_the_document_says(stub: StubManager, qm: lior.QueueManager) -> None:
    correlated = bytes(range(20))
    sent = qm.send(QUEUE, b"body", label="grüße", priority=5, app_tag=7, extension=b"ext", correlation_id=correlated,
                   time_to_be_received=60, response_queue=r"DIRECT=OS:me\private$\answers")  # fmt: skip
    assert sent.uniquifier == 77
    opened = stub.last("rpc_QMOpenQueueInternal").values
    assert opened["dwDesiredAccess"] == 2 and opened["pQueueFormat"]["id"] == (3, QUEUE.partition("=")[2])
    values = stub.last("rpc_ACSendMessageEx").values
    assert values["hQueue"] == stub.handle and values["pMessageID"] is not None
    old = values["ptb"]["old"]
    assert old["uTransferType"] == 0 and old["ppBody"] == b"body" and old["pDelivery"] == 1 and old["pUow"] is None
    assert old["ppTitle"] == "grüße\0".encode("utf-16-le") and old["ulTitleBufferSizeInWCHARs"] == 6
    assert (old["pPriority"], old["pApplicationTag"], old["ppMsgExtension"]) == (5, 7, b"ext")
    assert old["ppCorrelationID"] == correlated and old["ulRelativeTimeToLive"] == 60
    assert old["arm"][1]["pResponseQueueFormat"]["id"] == (3, r"OS:me\private$\answers")
    assert old["ulBodyBufferSizeInBytes"] == 4 and old["ulAllocBodyBufferInBytes"] >= 4


@pytest.mark.parametrize("fragment", [1432, 2000, 5840])
def test_large_messages_are_cut_to_what_the_server_takes(fragment: int) -> None:
    body = os.urandom(1 << 20)
    with StubManager(fragment=fragment) as stub:
        stub.table |= {"rpc_QMOpenQueueInternal": {"pdwQMContext": 1, "phQueue": bytes(4) + b"h" * 16,
                                                   "lplpRemoteQueueName": To(None)},
                       "rpc_ACSendMessageEx": {"pMessageID": ID}}  # fmt: skip
        with lior.connect(stub.host, level="none") as qm:
            qm.send(QUEUE, body)
        assert stub.last("rpc_ACSendMessageEx").values["ptb"]["old"]["ppBody"] == body


@pytest.mark.spec("MP-012", "MP-022")
@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize(("code", "error"), [
    (0xC00E0025, AccessDenied), (0xC00E0003, QueueNotFound), (0xC00E0027, InsufficientResources), (0xC00EABCD,
    LiorError),
])  # fmt: skip
def test_errors_returned_and_raised_are_the_same_error(
    stub: StubManager, qm: lior.QueueManager, code: int, error: type[LiorError], fault: bool
) -> None:
    stub.table["rpc_QMOpenQueueInternal"] = code if fault else {"result": code, "lplpRemoteQueueName": To(None)}
    with pytest.raises(error) as found:
        qm.send(QUEUE, b"x")
    assert found.value.code == code


def test_a_server_that_goes_away_is_an_error_and_not_a_wait(stub: StubManager, qm: lior.QueueManager) -> None:
    def leave(values: dict[str, Any]) -> dict[str, Any]:
        raise ConnectionResetError

    stub.table["rpc_ACSendMessageEx"] = leave
    with pytest.raises(LiorError):
        qm.send(QUEUE, b"x")


@pytest.mark.parametrize("level", ["connect", "integrity", "privacy"])
def test_it_signs_in_to_a_server_of_scapys(level: str) -> None:
    """scapy verifies what we sign, and we what it signs. The level `packet` it does not know: it answers unsigned."""
    handle = os.urandom(16)
    with ScapyServer({"alice": "Pässwort 1"}, {"port": 2103, "open": handle, "close": 0}) as server:
        with (
            lior.connect(server.host, user="alice", password="Pässwort 1", level=level) as qm,
            qm.open_queue(QUEUE, "send"),
        ):
            pass
        assert [name for name, _ in server.calls] == ["open", "close"]
        assert bytes(server.calls[-1][1].phQueue.uuid) == handle


def test_a_server_of_scapys_refuses_a_wrong_password() -> None:
    with ScapyServer({"alice": "Pässwort 1"}, {"port": 2103, "open": bytes(16), "close": 0}) as server:
        with (
            pytest.raises(LiorError),
            lior.connect(server.host, user="alice", password="wrong", level="connect") as qm,
            qm.open_queue(QUEUE, "send"),
        ):
            pass
        assert not [name for name, _ in server.calls if name == "open"]
        server.problems.clear()  # scapy cannot say that it refuses, and gives up
