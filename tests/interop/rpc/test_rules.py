"""Rules of [MS-MQMP] one by one, from outside, on the second peer: it can say what Wine's stubs cannot."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.rpc.conftest import Queue, RpcDaemon, login, serve
from tests.interop.rpc.impacket_client import ImpacketPeer, format_of
from tests.interop.rpc.second_interfaces import direct, object_format, send_buffer
from tests.interop.rpc.second_ndr import Counts, To
from tests.interop.rpc.second_rpc import Fault
from tests.interop.rpc.verbs import FOREVER, INTEGRITY, PEEK, PEEK_CURRENT, RECEIVE, SEND

OBSOLETE, NO_DTC, WORKSTATION, ACCESS_MODE, NAME = 0xC00E0064, 0xC00E004C, 0xC00E0066, 0xC00E0045, 0xC00E001E
FAILED = 0x80000000


@pytest.fixture
def peer(server: RpcDaemon) -> Iterator[ImpacketPeer]:
    with ImpacketPeer(server.address, login("root", level=INTEGRITY)) as found:
        yield found


@pytest.fixture
def queue(peer: ImpacketPeer, queue_name: str) -> Queue:
    return Queue(peer, queue_name)


# What is obsolete or absent


@pytest.mark.spec("MP-089", "MP-022")
def test_the_name_of_a_remote_queue_is_obsolete_and_raised(peer: ImpacketPeer) -> None:
    found = peer.call("R_QMGetRemoteQueueName", pQueue=1, lplpRemoteQueueName=To(None))
    assert (found.code, found.raised) == (OBSOLETE, True)


@pytest.mark.spec("MP-142")
def test_cursor_properties_are_obsolete_and_returned(peer: ImpacketPeer, queue: Queue) -> None:
    found = peer.call("rpc_ACSetCursorProperties", hProxy=queue.open(RECEIVE).wire, hCursor=1, hRemoteCursor=1)
    assert (found.code, found.raised) == (OBSOLETE, False)


@pytest.mark.spec("MP-151")
def test_the_internal_send_is_obsolete_and_stores_nothing(peer: ImpacketPeer, queue: Queue, server: RpcDaemon) -> None:
    found = peer.call("QMSendMessageInternalEx", pQueueFormat=format_of(queue.direct),
                      ptb=send_buffer(ppBody=b"x", ulRelativeTimeToLive=FOREVER), pMessageID=bytes(20))  # fmt: skip
    assert (found.code, found.raised) == (OBSOLETE, False)
    assert server.count(queue.name) == 0


@pytest.mark.spec("MP-117", "MP-118", "MP-119", "MP-120")
def test_external_transactions_need_a_coordinator(peer: ImpacketPeer) -> None:
    for size in (0, 16, 500):
        found = peer.call("R_QMGetTmWhereabouts", cbBufSize=size)
        assert found.code == NO_DTC and found["pbWhereabouts"] == bytes(size)
    for cookie in (b"", bytes(16), os.urandom(100)):
        uow = os.urandom(16)
        found = peer.call("R_QMEnlistTransaction", pUow=uow, cbCookie=len(cookie), pbCookie=cookie)
        assert found.code == NO_DTC
        peer.abort(peer.enlist(uow).ok()["handle"]).ok()  # the failed one has left nothing behind


@pytest.mark.spec("MP-147")
def test_a_workgroup_has_no_directory_servers(peer: ImpacketPeer) -> None:
    found = peer.registry(0)
    assert found.code == 0xC00E0013 or (found.code == 0 and found["value"] == "")
    assert peer.registry(2).code & FAILED or len(peer.registry(2)["value"]) == 36


@pytest.mark.spec("MP-019")
def test_who_serves_no_clients_answers_only_what_remote_reads_need(tmp_path_factory: pytest.TempPathFactory) -> None:
    gated_server = serve(tmp_path_factory.mktemp("gated"), {"rpc.supporting_server": False})
    with gated_server.offline() as manager:
        manager.create_queue(r".\private$\q")
    with gated_server as daemon, ImpacketPeer(daemon.address, login("root", level=INTEGRITY)) as peer:
        name = direct(r"OS:.\private$\q")
        gated: dict[str, dict[str, Any]] = {
            "R_QMCreateObjectInternal": {"dwObjectType": 1, "lpwcsPathName": r".\private$\new", "cp": 1, "aProp": [108],
                                         "apVar": [{"vt": 31, "varUnion": (31, "x")}]},
            "R_QMDeleteObject": {"pObjectFormat": object_format(name)},
            "R_QMGetObjectSecurityInternal": {"pObjectFormat": object_format(name), "RequestedInformation": 7},
            "rpc_QMOpenQueueInternal": {"pQueueFormat": name, "dwDesiredAccess": 2, "lpClientName": "x",
                                        "lplpRemoteQueueName": To(None)},
            "R_QMQueryQMRegistryInternal": {"dwQueryType": 1}, "R_QMEnlistInternalTransaction": {"pUow": bytes(16)},
            "R_QMObjectPathToObjectFormat": {"lpwcsPathName": r".\private$\q",
                                             "pObjectFormat": object_format(format_of("unknown:"))},
        }  # fmt: skip
        for method, values in gated.items():
            assert peer.call(method, **values).code == WORKSTATION, method
        assert peer.port(0) == 2103
        opened = peer.call("R_QMOpenRemoteQueue", pQueueFormat=name, dwDesiredAccess=RECEIVE).ok()
        cursor = peer.call("R_QMCreateRemoteCursor", ptb1={"uTransferType": 0, "arm": (0, {})},
                           hQueue=opened["phQueue"])
        assert cursor.code in (0, 0xC00E0025)
        peer.call("R_QMCloseRemoteQueueContext", pphContext=opened["pphContext"]).ok()
    with gated_server.offline() as manager:
        assert [info.name for info in manager.queues() if info.name.endswith("new")] == []


# Opening


@pytest.mark.spec("MP-034")
def test_suffixes_and_flags_that_do_not_go_together_are_no_names(peer: ImpacketPeer, queue: Queue) -> None:
    rest = queue.direct.partition(":")[2]
    legal = {0x00, 0x81, 0x82, 0x83}
    for value in range(256):
        found = peer.call("rpc_QMOpenQueueInternal", pQueueFormat=direct(rest, value), dwDesiredAccess=PEEK,
                          lplpRemoteQueueName=To(None), lpClientName="x")  # fmt: skip
        if value not in legal:
            assert (found.code, found.raised) == (NAME, False), f"{value:#x}: {found.code:#x}"
            found = peer.call("R_QMDeleteObject", pObjectFormat=object_format(direct(rest, value)))
            assert (found.code, found.raised) == (NAME, False), f"{value:#x}: {found.code:#x}"


@pytest.mark.spec("MP-035", "MP-113")
def test_an_object_format_has_to_name_something(peer: ImpacketPeer) -> None:
    assert peer.call("R_QMDeleteObject", pObjectFormat=object_format(None)).code == 0xC00E0006
    assert peer.call("R_QMObjectPathToObjectFormat", lpwcsPathName=r".\private$\x",
                     pObjectFormat=object_format(None)).code & FAILED  # fmt: skip
    wrong = peer.call("R_QMObjectPathToObjectFormat", lpwcsPathName=r".\private$\x",
                      pObjectFormat=object_format(direct("OS:x")))
    assert wrong.code & FAILED


@pytest.mark.spec("MP-127")
def test_a_local_queue_opens_with_either_form_of_no_name(peer: ImpacketPeer, queue: Queue) -> None:
    for nothing in (None, To(None), To("ignored")):
        found = peer.call("rpc_QMOpenQueueInternal", pQueueFormat=format_of(queue.direct), dwDesiredAccess=SEND,
                          lplpRemoteQueueName=nothing, lpClientName="x", dwRemoteProtocol=3)  # fmt: skip
        assert found.code == 0 and found["lplpRemoteQueueName"] is None
    remote = peer.call("rpc_QMOpenQueueInternal", pQueueFormat=direct(r"OS:elsewhere\private$\q"),
                       dwDesiredAccess=RECEIVE,
                       lplpRemoteQueueName=None, lpClientName="x")  # fmt: skip
    assert remote.code == 0xC00E0006


@pytest.mark.spec("MP-091")
def test_the_old_open_for_remote_reads_takes_only_what_it_may(peer: ImpacketPeer, queue: Queue) -> None:
    name = format_of(queue.direct)
    refused: list[dict[str, Any]] = [
        {"pQueueFormat": None}, {"dwDesiredAccess": 2}, {"dwDesiredAccess": 0x81}, {"dwDesiredAccess": 0},
        {"dwShareMode": 2}, {"pQueueFormat": format_of("multicast:0x01020304:5")},
        {"pQueueFormat": format_of("dl:" + "11" * 16 + ":")}, {"pQueueFormat": direct("HTTP://x/msmq/private$/q")},
        {"pQueueFormat": direct(r"OS:.\private$\nowhere")},
    ]  # fmt: skip
    for values in refused:
        found = peer.call("R_QMOpenRemoteQueue", **{"pQueueFormat": name, "dwDesiredAccess": RECEIVE, **values})
        assert found.code & FAILED, values
        assert found.raised or found["pphContext"] == bytes(20)
    exclusive = peer.call("R_QMOpenRemoteQueue", pQueueFormat=name, dwDesiredAccess=RECEIVE, dwShareMode=1).ok()
    assert exclusive["pdwContext"] == exclusive["phQueue"] == exclusive["dwpQueue"] != 0
    assert peer.call("R_QMOpenRemoteQueue", pQueueFormat=name, dwDesiredAccess=RECEIVE).code in (0xC0000043, 0xC00E0009)
    peer.call("R_QMCloseRemoteQueueContext", pphContext=exclusive["pphContext"]).ok()
    with pytest.raises(Fault) as found_fault:
        peer.connection.call("R_QMCloseRemoteQueueContext", pphContext=exclusive["pphContext"])
    assert found_fault.value.status == 0x1C00001A
    peer.call("R_QMOpenRemoteQueue", pQueueFormat=name, dwDesiredAccess=RECEIVE).ok()


@pytest.mark.spec("MP-095")
def test_what_only_counted_licences_changes_nothing(peer: ImpacketPeer, queue: Queue) -> None:
    for name, guid in (("", bytes(16)), ("n" * 2000, os.urandom(16)), ("\u4e2d", b"\xff" * 16)):
        peer.call("rpc_QMOpenQueueInternal", pQueueFormat=format_of(queue.direct), dwDesiredAccess=SEND,
                  lplpRemoteQueueName=To(None), lpClientName=name, pLicGuid=guid).ok()  # fmt: skip


@pytest.mark.spec("MP-081")
def test_contexts_are_not_to_be_guessed(peer: ImpacketPeer, queue: Queue) -> None:
    numbers = [queue.open(PEEK).context for _ in range(300)]
    assert len(set(numbers)) == 300 and 0 not in numbers
    steps = {second - first for first, second in itertools.pairwise(numbers)}
    assert len(steps) > 290
    handles = {queue.open(PEEK).wire for _ in range(50)}
    assert len(handles) == 50 and all(handle[:4] == bytes(4) for handle in handles)


# Queues


@pytest.mark.spec("MP-101", "MP-085")
def test_what_cannot_be_created_is_not(peer: ImpacketPeer, server: RpcDaemon) -> None:
    before = len(server.qm.queues())
    value = {108: "wstr:x"}
    paths = [r"elsewhere\private$\q", r".\q", "q", r".\private$", ".\\private$\\", r".\private$\a,b", r".\private$\a;b",
             r".\private$\a+b", ".\\private$\\" + "x" * 125, '.\\private$\\a"', ""]  # fmt: skip
    for path in paths:
        code = peer.create(path, value).code
        assert code & FAILED and code != 0xC00E0005, (path, hex(code))
    for properties in ({101: "clsid:" + "11" * 16}, {109: "i4:0"}, {110: "i4:0"}, {124: "wstr:x"}, {126: "wstr:x"},
                       {0: "ui4:0"},
                       {1101: "ui4:0"}, {104: "ui4:1"}, {108: "ui1:1"}, {104: "ui1:2"}):  # fmt: skip
        code = peer.create(r".\private$\never", properties).code
        assert code & FAILED and code != 0xC00E0005, (properties, hex(code))
    wrong = peer.call("R_QMCreateObjectInternal", dwObjectType=2, lpwcsPathName=r".\private$\never", cp=1, aProp=[108],
                      apVar=[{"vt": 31, "varUnion": (31, "x")}])  # fmt: skip
    assert wrong.code & FAILED and len(server.qm.queues()) == before


@pytest.mark.spec("MP-086")
@pytest.mark.parametrize("number", [101, 103, 109, 110, 113, 124, 126])
def test_what_cannot_be_set_is_not(peer: ImpacketPeer, queue: Queue, number: int) -> None:
    values = {101: "clsid:" + "11" * 16, 109: "i4:5", 110: "i4:5", 113: "ui1:1"}
    given = {108: "wstr:changed", number: values.get(number, r"wstr:.\private$\other")}
    assert peer.set(queue.direct, given).code & FAILED
    assert peer.get(queue.direct, {108: "null:"}).ok()["108"] == ""


@pytest.mark.spec("MP-087", "MP-112")
def test_what_cannot_be_got_is_an_error_in_the_shape_of_an_answer(peer: ImpacketPeer, queue: Queue) -> None:
    for number in (0, 100, 114, 1101, 0xFFFFFFFF):
        found = peer.get(queue.direct, {108: "null:", number: "null:"})
        assert found.code & FAILED and len(found.values) == 2
    for vt in ("ui4:0", "i8:0", "empty:"):
        assert peer.get(queue.direct, {108: vt}).code == 0xC00E0002


@pytest.mark.spec("MP-110")
@pytest.mark.parametrize("suffix", ["@0x81", "@0x82", "@0x83"])
def test_what_the_system_made_is_not_deleted(peer: ImpacketPeer, queue: Queue, suffix: str) -> None:
    assert peer.delete(queue.direct + suffix).code & FAILED
    assert peer.delete(rf"direct:OS:.\private$\{queue.name};JOURNAL").code & FAILED
    peer.find(queue.path).ok()


@pytest.mark.spec("MP-109")
def test_deleting_a_queue_ends_waits_and_handles(peer: ImpacketPeer, queue: Queue) -> None:
    reader, sender = queue.open(RECEIVE), queue.open(SEND)
    waiting = peer.start_receive(reader, timeout=600_000)
    peer.delete(queue.direct).ok()
    assert peer.finish_receive(waiting).code in (0xC00E005A, 0xC00E004B)
    assert peer.receive(reader).code in (0xC00E005A, 0xC00E004B)
    assert peer.send(sender, body=b"x").code & FAILED
    assert peer.cursor(reader).code & FAILED and peer.purge(reader).code & FAILED
    assert peer.close_queue(reader).values["handle"] == bytes(20)


@pytest.mark.spec("MP-103", "MP-072")
def test_parts_of_a_descriptor_that_there_are_none_of(peer: ImpacketPeer, queue: Queue) -> None:
    before = peer.get_security(queue.direct, 7, 4096).ok()["security"]
    descriptor = b"\1\0\4\x80" + bytes(12) + (20).to_bytes(4, "little") + b"\2\0\x08\0\0\0\0\0"
    assert peer.set_security(queue.direct, 0, descriptor).code in (0, 0xC00E0006, 0xC00E0002)
    assert peer.get_security(queue.direct, 7, 4096).ok()["security"] == before
    for broken in (b"", b"\1", b"\1\0\4\x80" + b"\xff" * 16, descriptor[:-1], b"\2" + descriptor[1:]):
        assert peer.call("R_QMSetObjectSecurityInternal", pObjectFormat=object_format(format_of(queue.direct)),
                         SecurityInformation=4, SDSize=len(broken),
                         pSecurityDescriptor=broken or None).code & FAILED  # fmt: skip
    assert peer.get_security(queue.direct, 7, 4096).ok()["security"] == before


# Sending


SEND_ERRORS: dict[str, dict[str, Any]] = {
    "transfer type receive": {"uTransferType": 1, "arm": (1, {})},
    "transfer type cursor": {"uTransferType": 2, "arm": (2, {})},
    "priority 8": {"pPriority": 8}, "delivery 2": {"pDelivery": 2}, "trace 2": {"pTrace": 2},
    "acknowledge 16": {"pAcknowledge": 16}, "auditing 4": {"pAuditing": 4},
    "privacy over a direct name": {"pulPrivLevel": 1, "pulEncryptAlg": 0x6602},
    "a sender without a type": {"ppSenderID": b"sid"},
    "a type without a sender": {"pulSenderIDType": 1},
    "a malformed sender": {"ppSenderID": b"\xff" * 12, "pulSenderIDType": 1},
    "a signature without a hash": {"ppSignature": b"s" * 64, "fDefaultProvider": 1, "pulProvType": 1},
    "a signature without a provider": {"ppSignature": b"s" * 64, "pulHashAlg": 0x8004, "fDefaultProvider": 0},
    "a default provider of another type": {"ppSignature": b"s" * 64, "pulHashAlg": 0x8004, "fDefaultProvider": 1,
                                           "pulProvType": 2},
    "a provider without its zero": {"ppSignature": b"s" * 64, "pulHashAlg": 0x8004, "fDefaultProvider": 0,
                                    "ppwcsProvName": "CSP".encode("utf-16-le")},
    "a second signature longer than all": {"ppSignature": b"s" * 64, "pulHashAlg": 0x8004, "fDefaultProvider": 1,
                                           "pulProvType": 1, "pulAuthProvNameLenProp": 100},
    "a second signature of less than nothing": {"ppSignature": b"s" * 64, "pulHashAlg": 0x8004, "fDefaultProvider": 0,
                                                "ppwcsProvName": "CSP\0".encode("utf-16-le"),
                                                "pulAuthProvNameLenProp": 1},
}  # fmt: skip


@pytest.mark.spec("MP-155", "MP-156", "MP-157", "MP-039")
@pytest.mark.parametrize("what", SEND_ERRORS)
def test_a_buffer_that_breaks_a_rule_sends_nothing(peer: ImpacketPeer, queue: Queue, server: RpcDaemon,
                                                   what: str) -> None:
    buffer = send_buffer(**{"ppBody": b"x", "ulRelativeTimeToLive": FOREVER, **SEND_ERRORS[what]})
    found = peer.call("rpc_ACSendMessageEx", hQueue=queue.open(SEND).wire, ptb=buffer, pMessageID=bytes(20))
    assert found.code & FAILED and not found.raised, hex(found.code)
    assert server.count(queue.name) == 0


@pytest.mark.spec("MP-158")
def test_members_that_do_not_count_change_nothing(peer: ImpacketPeer, queue: Queue) -> None:
    ignored = {"pSentTime": 1, "pArrivedTime": 2, "pBodySize": 999, "pulTitleBufferSizeInWCHARs": 999,
               "pulRelativeTimeToQueue": 1, "pulRelativeTimeToLive": 1, "pulSenderIDLenProp": 9, "ulAuthLevel": 7,
               "pAuthenticated": 9, "bAuthenticated": 1, "pulSenderCertLenProp": 8, "pulSymmKeysSizeProp": 8,
               "pulSignatureSizeProp": 8, "ppSrcQMID": b"\xff" * 16, "pMsgExtensionSize": 77, "pulVersion": 5,
               "ppMessageID": b"\xee" * 20}  # fmt: skip
    sender, reader = queue.open(SEND).wire, queue.open(RECEIVE)
    found = []
    for members in ({}, ignored):
        buffer = send_buffer(ppBody=b"same", ulRelativeTimeToLive=FOREVER, **members)
        buffer |= {"pbFirstInXact": 1, "pbLastInXact": 1, "ppXactID": b"\xdd" * 20} if members else {}
        peer.call("rpc_ACSendMessageEx", hQueue=sender, ptb=buffer, pMessageID=None).ok()
        message = peer.receive(reader).ok()["message"].values
        found.append({name: value for name, value in message.items()
                      if name not in ("message_id", "sent_time", "arrived_time")})  # fmt: skip
    assert found[0] == found[1]


@pytest.mark.spec("MP-152")
def test_the_identifier_comes_back_where_it_is_wanted(peer: ImpacketPeer, queue: Queue) -> None:
    sender = queue.open(SEND).wire
    buffer = send_buffer(ppBody=b"x", ulRelativeTimeToLive=FOREVER)
    assert peer.call("rpc_ACSendMessageEx", hQueue=sender, ptb=buffer, pMessageID=None).ok()["pMessageID"] is None
    one, two = (peer.call("rpc_ACSendMessageEx", hQueue=sender, ptb=buffer, pMessageID=b"\xff" * 20).ok()["pMessageID"]
                for _ in range(2))  # fmt: skip
    assert one[:16] == two[:16] and one != two


@pytest.mark.spec("MP-054", "MP-154")
@pytest.mark.parametrize("given", [249, 250, 251, 300])
def test_long_labels_are_cut(peer: ImpacketPeer, queue: Queue, given: int) -> None:
    label = ("x" * given).encode("utf-16-le")  # without a zero at its end
    buffer = send_buffer(ppBody=b"x", ppTitle=label, ulRelativeTimeToLive=FOREVER)
    peer.call("rpc_ACSendMessageEx", hQueue=queue.open(SEND).wire, ptb=buffer, pMessageID=None).ok()
    assert peer.receive(queue.open(RECEIVE)).ok()["message"].label == "x" * 249


@pytest.mark.spec("MP-052", "MP-154")
def test_a_body_smaller_than_its_allocation(peer: ImpacketPeer, queue: Queue) -> None:
    sender, reader = queue.open(SEND).wire, queue.open(RECEIVE)
    buffer = send_buffer(ppBody=Counts(b"short", maximum=1000), ulBodyBufferSizeInBytes=5,
                         ulAllocBodyBufferInBytes=1000,
                         ulRelativeTimeToLive=FOREVER)  # fmt: skip
    peer.call("rpc_ACSendMessageEx", hQueue=sender, ptb=buffer, pMessageID=None).ok()
    assert peer.receive(reader).ok()["message"].body[:5] == b"short"
    for actual, allocated in ((5, 4), (5, 0xFFFFFFFF)):
        buffer = send_buffer(ppBody=Counts(b"short", maximum=allocated), ulBodyBufferSizeInBytes=actual,
                             ulAllocBodyBufferInBytes=allocated, ulRelativeTimeToLive=FOREVER)  # fmt: skip
        found = peer.call("rpc_ACSendMessageEx", hQueue=sender, ptb=buffer, pMessageID=None)
        assert found.code == 0x6F7 or found.code & FAILED


@pytest.mark.spec("MP-050")
@pytest.mark.parametrize(("asked", "classes"), [(0, []), (1, [0x0002]), (2, [0x4000]), (5, [0x0002]), (14, [0x4000])])
def test_acknowledgements_that_are_asked_for_arrive(
    peer: ImpacketPeer, queue: Queue, queue_name: str, asked: int, classes: list[int]
) -> None:
    admin = Queue(peer, queue_name + "admin")
    peer.send(queue.open(SEND), body=b"x", acknowledge=asked, admin=admin.direct).ok()
    peer.receive(queue.open(RECEIVE)).ok()
    reader, found = admin.open(RECEIVE), []
    for _ in classes:
        found.append(peer.receive(reader, timeout=10_000).ok()["message"].values["class"])
    assert found == classes and peer.receive(reader).code == 0xC00E001B


# Receiving


@pytest.mark.spec("MP-163", "MP-170", "MP-172", "MP-173")
def test_receives_that_cannot_be_take_nothing(peer: ImpacketPeer, queue: Queue, server: RpcDaemon) -> None:
    peer.send(queue.open(SEND), body=b"kept").ok()
    reader = queue.open(RECEIVE)
    for action in (1, 2, 0x80000002, 0x40000000, 0xFFFFFFFF):
        assert peer.receive(reader, action).code & FAILED
    for values in ({"uow": os.urandom(16)}, {"cursor": 12345}, {"cursor": 0xB}):
        assert peer.receive(reader, **values).code & FAILED
    arms: dict[int, tuple[int, dict[str, int]]] = {0: (0, {}), 2: (2, {})}
    for kind, arm in arms.items():
        found = peer.call("rpc_ACReceiveMessageEx", hQMContext=reader.context, ptb={"old": {"uTransferType": kind,
                                                                                            "arm": arm}})
        assert found.code & FAILED
    found = peer.call("rpc_ACReceiveMessageEx", hQMContext=reader.context ^ 1, ptb={"old": {"uTransferType": 1,
                                                                                            "arm": (1, {})}})
    assert found.code & FAILED
    assert server.bodies(queue.name) == [b"kept"]


@pytest.mark.spec("MP-164", "MP-168")
def test_a_receive_that_wants_nothing_takes_the_message(peer: ImpacketPeer, queue: Queue, server: RpcDaemon) -> None:
    peer.send(queue.open(SEND), body=b"gone", label="label").ok()
    empty = {"old": {"uTransferType": 1, "arm": (1, {})}}
    found = peer.call("rpc_ACReceiveMessageEx", hQMContext=queue.open(RECEIVE).context, ptb=empty).ok()
    assert all(not value or name in ("arm", "uTransferType") for name, value in found["ptb"]["old"].items())
    assert server.count(queue.name) == 0


@pytest.mark.spec("MP-165")
def test_format_name_lengths_say_what_a_name_needs(peer: ImpacketPeer, queue: Queue) -> None:
    response = r"OS:elsewhere\private$\answers"
    peer.send(queue.open(SEND), body=b"x", response="direct:" + response).ok()
    reader = queue.open(PEEK)
    whole = peer.receive(reader, PEEK_CURRENT).ok()["raw"]
    needed = whole["response_length"]
    assert needed == len("DIRECT=" + response) + 1 and whole["admin_length"] == 0
    exact = peer.receive(reader, PEEK_CURRENT, response=needed).ok()["message"]
    assert exact.response == "DIRECT=" + response
    short = peer.receive(reader, PEEK_CURRENT, response=needed - 1)
    assert short.code == 0xC00E001F and short["raw"]["response_length"] == needed


@pytest.mark.spec("MP-016", "MP-042")
def test_a_name_buffer_has_at_most_1024_characters(peer: ImpacketPeer, queue: Queue) -> None:
    reader = queue.open(RECEIVE)
    assert peer.receive(reader, response=1024, admin=1024).code == 0xC00E001B
    assert peer.receive(reader, response=1025).code == 0x6F7
