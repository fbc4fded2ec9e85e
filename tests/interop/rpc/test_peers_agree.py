"""The independent peers, proven on each other: what Wine's stubs, scapy-rpc and our second marshaller put on the wire
is the same bytes, and each reads what the others write."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.rpc import wine_build
from tests.interop.rpc.scapy_client import Faulted, ScapyClient, handle_of
from tests.interop.rpc.second_interfaces import INTERFACES, QMCOMM, QMCOMM2, REMOTE_READ, direct, private, send_buffer
from tests.interop.rpc.second_ndr import Method
from tests.interop.rpc.second_rpc import Connection, Fault, Refused
from tests.interop.rpc.stub_manager import Seen, StubManager
from tests.interop.rpc.wine_client import WineClient, quoted

GUID = bytes(range(16))
UOW = bytes(range(100, 116))
ID = bytes(range(50, 70))
QUEUE = r"OS:.\private$\orders"
NAMES: dict[str, dict[str, Any]] = {
    "unknown:": {"m_qft": 0, "id": (0, None)},
    f"public:{GUID.hex()}": {"m_qft": 1, "id": (1, GUID)},
    f"private:{GUID.hex()}:77": private(GUID, 77),
    "direct:" + quoted(QUEUE): direct(QUEUE),
    f"machine:{GUID.hex()}@0x81": {"m_qft": 4, "m_SuffixAndFlags": 0x81, "id": (4, GUID)},
    f"connector:{GUID.hex()}@4": {"m_qft": 5, "m_SuffixAndFlags": 4, "id": (5, GUID)},
    f"dl:{GUID.hex()}:example.org": {"m_qft": 6, "id": (6, {"m_DlGuid": GUID, "m_pwzDomain": "example.org"})},
    "multicast:0x01020304:99": {"m_qft": 7, "id": (7, {"m_address": 0x01020304, "m_port": 99})},
    "subqueue:" + quoted(QUEUE + ";retry") + "@5": {"m_qft": 8, "m_SuffixAndFlags": 5, "id": (8, QUEUE + ";retry")},
}  # fmt: skip


@pytest.fixture(scope="module")
def wine() -> Iterator[WineClient]:
    with WineClient() as client:
        yield client


@pytest.fixture
def stub() -> Iterator[StubManager]:
    handle = fresh_handle()
    table: dict[str, Any] = {
        "R_QMGetRTQMServerPort": {"result": 2103},
        "rpc_QMOpenQueueInternal": {"pdwQMContext": 77, "phQueue": handle, "lplpRemoteQueueName": None},
        "rpc_ACReceiveMessageEx": lambda values: {"ptb": values["ptb"]},
        "R_QMGetObjectProperties": lambda values: {"apVar": values["apVar"]},
    }
    with StubManager(table) as manager:
        manager.handle, manager.other = handle, fresh_handle()
        yield manager


def fresh_handle() -> bytes:
    """Wine takes a handle that it has seen for the one it was, on the binding of then."""
    return bytes(4) + os.urandom(16)


@pytest.fixture
def bound(wine: WineClient, stub: StubManager) -> WineClient:
    assert wine.bind(stub.host).result == 0
    return wine


def method_of(seen: Seen) -> Method:
    return next(
        method for interface in INTERFACES.values() for method in interface.methods if method.name == seen.method
    )


def same_bytes(seen: Seen) -> None:
    """Read and written again it is the same, but for the numbers of referents."""
    again = method_of(seen).request.encode(seen.values)
    size = len(again)
    assert len(seen.stub) >= size and not any(seen.stub[size:]), f"{seen.method}: {len(seen.stub)} bytes, not {size}"
    for at in range(0, size - 3, 4):
        mine, theirs = again[at : at + 4], seen.stub[at : at + 4]
        (number,) = struct.unpack("<I", mine)
        if mine != theirs and not (0x20000 <= number < 0x30000 and any(theirs)):
            raise AssertionError(f"{seen.method} at {at}: {theirs.hex()} is {mine.hex()} in ours")


def same_values(found: Any, expected: Any) -> None:
    """All that is expected is there; nothing else but zeros and nothing."""
    if isinstance(expected, dict):
        for name, value in found.items():
            if name in expected:
                same_values(value, expected[name])
            else:
                assert not value or isinstance(value, tuple | dict), (name, value)
    elif isinstance(expected, tuple):
        assert found[0] == expected[0]
        same_values(found[1], expected[1])
    else:
        assert found == expected


# Wine


@pytest.mark.parametrize("name", NAMES)
def test_wine_writes_every_kind_of_queue_name_as_we_do(bound: WineClient, stub: StubManager, name: str) -> None:
    stub.table["R_QMDeleteObject"] = {"result": 0xC00E0003}
    assert bound("delete", binding="binding", name=name).result == 0xC00E0003
    seen = stub.last("R_QMDeleteObject")
    same_bytes(seen)
    same_values(seen.values["pObjectFormat"]["object"][1], NAMES[name])


def test_wine_opens_a_queue_with_an_empty_name_behind_a_full_pointer(bound: WineClient, stub: StubManager) -> None:
    answer = bound("open", binding="binding", name="direct:" + quoted(QUEUE), access=0x20, share=1, **{"as": "q"}).ok()
    assert (answer.number("context"), answer.bytes("handle")) == (77, stub.handle)
    seen = stub.last("rpc_QMOpenQueueInternal")
    outer, inner = struct.unpack_from("<II", seen.stub, seen.stub.index(b"\x20\0\0\0\1\0\0\0") + 12)
    assert outer and not inner
    assert seen.values["dwShareMode"] == 1 and seen.values["dwDesiredAccess"] == 0x20
    stub.table["rpc_ACCloseHandle"] = {"phQueue": bytes(20)}
    assert bound("close", handle="q").ok().bytes("handle") == bytes(20)
    assert stub.last("rpc_ACCloseHandle").values["phQueue"] == stub.handle


def test_wine_uses_both_interfaces_on_two_connections_of_one_group(bound: WineClient, stub: StubManager) -> None:
    stub.table["rpc_ACSendMessageEx"] = {"pMessageID": ID}
    bound("open", binding="binding", name="direct:OS", access=2, **{"as": "q"}).ok()
    assert bound("send", handle="q", body=b"x").ok().bytes("message_id") == ID
    opened, sent = stub.last("rpc_QMOpenQueueInternal"), stub.last("rpc_ACSendMessageEx")
    assert opened.connection != sent.connection and opened.group == sent.group
    assert sent.values["hQueue"] == stub.handle


SENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "body": ({"body": b"hello"}, {"ppBody": b"hello", "ulBodyBufferSizeInBytes": 5, "ulAllocBodyBufferInBytes": 5}),
    "label": ({"label": "order"}, {"ppTitle": "order\0".encode("utf-16-le"), "ulTitleBufferSizeInWCHARs": 6}),
    "scalars": (
        {"class": 0x4000, "priority": 7, "delivery": 1, "acknowledge": 15, "auditing": 3, "application_tag": 0xFFFFFFFF,
         "trace": 1, "sender_id_type": 1, "priv_level": 0, "hash_alg": 0x800E, "encrypt_alg": 0x6801, "prov_type": 1,
         "body_type": 8, "time_to_queue": 3600, "time_to_live": 7200, "default_provider": 1, "encrypted": 1},
        {"pClass": 0x4000, "pPriority": 7, "pDelivery": 1, "pAcknowledge": 15, "pAuditing": 3, "pTrace": 1,
         "pApplicationTag": 0xFFFFFFFF, "pulSenderIDType": 1, "pulPrivLevel": 0, "pulHashAlg": 0x800E,
         "pulEncryptAlg": 0x6801, "pulProvType": 1, "pulBodyType": 8, "ulAbsoluteTimeToQueue": 3600,
         "ulRelativeTimeToLive": 7200, "fDefaultProvider": 1, "bEncrypted": 1},
    ),
    "fixed": (
        {"uow": UOW, "correlation": ID, "connector_type": GUID},
        {"pUow": UOW, "ppCorrelationID": ID, "ppConnectorType": GUID},
    ),
    "buffers": (
        {"extension": b"ext", "certificate": b"certif", "symmetric_key": b"k", "signature": b"sig45",
         "sender_id": b"sid"},
        {"ppMsgExtension": b"ext", "ulMsgExtensionBufferInBytes": 3, "ppSenderCert": b"certif", "ulSenderCertLen": 6,
         "ppSymmKeys": b"k", "ulSymmKeysSize": 1, "ppSignature": b"sig45", "ulSignatureSize": 5, "ppSenderID": b"sid",
         "uSenderIDLen": 3},
    ),
    "provider": (
        {"provider": "CSP", "prov_name_prop": 12},
        {"ppwcsProvName": "CSP\0".encode("utf-16-le"), "ulProvNameLen": 4, "pulAuthProvNameLenProp": 12},
    ),
    "large": ({"body": b"b" * 100_000}, {"ppBody": b"b" * 100_000, "ulBodyBufferSizeInBytes": 100_000,
              "ulAllocBodyBufferInBytes": 100_000}),
}  # fmt: skip


@pytest.mark.parametrize("what", SENT)
def test_wine_writes_transfer_buffers_to_send_as_we_do(bound: WineClient, stub: StubManager, what: str) -> None:
    given, expected = SENT[what]
    stub.table["rpc_ACSendMessageEx"] = {"pMessageID": None}
    bound("open", binding="binding", name="direct:OS", access=2, **{"as": "q"}).ok()
    bound("send", handle="q", no_id=1, **given).ok()
    seen = stub.last("rpc_ACSendMessageEx")
    same_bytes(seen)
    same_values(seen.values["ptb"]["old"], {**expected, "uTransferType": 0})
    ours = QMCOMM2["rpc_ACSendMessageEx"].request.encode({"hQueue": stub.handle, "ptb": send_buffer(**expected)})
    theirs = seen.stub[: len(ours)]
    assert len(theirs) == len(ours) and theirs[-len(b"hello") :] == ours[-len(b"hello") :]


@pytest.mark.parametrize("name", NAMES)
def test_wine_writes_names_inside_a_transfer_buffer_as_we_do(bound: WineClient, stub: StubManager, name: str) -> None:
    stub.table["rpc_ACSendMessageEx"] = {"pMessageID": ID}
    bound("open", binding="binding", name="direct:OS", access=2, **{"as": "q"}).ok()
    bound("send", handle="q", body=b"b", admin=name, response="direct:" + quoted(QUEUE)).ok()
    seen = stub.last("rpc_ACSendMessageEx")
    same_bytes(seen)
    same_values(
        seen.values["ptb"]["old"]["arm"][1], {"pAdminQueueFormat": NAMES[name], "pResponseQueueFormat": direct(QUEUE)}
    )


def test_wine_reads_every_member_of_a_transfer_buffer_of_ours(bound: WineClient, stub: StubManager) -> None:
    def filled(values: dict[str, Any]) -> dict[str, Any]:
        buffer = values["ptb"]
        old = dict(buffer["old"])
        for number, name in enumerate(sorted(old)):
            if isinstance(old[name], int) and re.match(r"p[^p]", name):
                old[name] = number
            elif isinstance(old[name], bytes):
                old[name] = bytes((number,)) * len(old[name])
        return {"ptb": {**buffer, "old": old, "pbFirstInXact": 1, "pbLastInXact": 1, "ppXactID": ID}}

    stub.table["rpc_ACReceiveMessageEx"] = filled
    sizes = {"body": 100, "label": 20, "extension": 7, "sender_id": 28, "certificate": 5, "provider": 6,
             "symmetric_key": 9,
             "signature": 11, "response": 10, "admin": 11, "destination": 12, "ordering": 13}  # fmt: skip
    answer = bound("receive", binding="binding", context=77, timeout=5, action=0x80000001, cursor=9, **sizes).ok()
    seen = stub.last("rpc_ACReceiveMessageEx")
    same_bytes(seen)
    names = sorted(seen.values["ptb"]["old"])
    arm = seen.values["ptb"]["old"]["arm"][1]
    assert (arm["RequestTimeout"], arm["Action"], arm["Cursor"]) == (5, 0x80000001, 9)
    assert arm["ulOrderingFormatNameLen"] == 13 and len(arm["ppOrderingFormatName"]) == 26
    members = {"body": ("ppBody", 1), "label": ("ppTitle", 2), "extension": ("ppMsgExtension", 1),
               "sender_id": ("ppSenderID", 1),
               "certificate": ("ppSenderCert", 1), "provider": ("ppwcsProvName", 2), "symmetric_key": ("ppSymmKeys", 1),
               "signature": ("ppSignature", 1)}  # fmt: skip
    for key, (name, unit) in members.items():
        assert answer.bytes(key) == bytes((names.index(name),)) * (sizes[key] * unit), key
    for key, name in {
        "priority": "pPriority",
        "version": "pulVersion",
        "sent_time": "pSentTime",
        "class": "pClass",
    }.items():
        assert answer.number(key) == names.index(name)
    assert answer.bytes("xact_id") == ID and answer.number("last_in_xact") == 1


VARIANTS = {
    "empty:": (0, None), "null:": (1, None), "i1:-5": (16, -5), "ui1:200": (17, 200), "i2:-300": (2, -300),
    "ui2:60000": (18, 60000), "i4:-70000": (3, -70000), "ui4:4000000000": (19, 4000000000), "i8:-1": (20, -1),
    "ui8:123456789012": (21, 123456789012), "bool:-1": (11, -1), f"clsid:{GUID.hex()}": (72, GUID),
    "blob:0102030405": (65, {"cbSize": 5, "pBlobData": bytes((1, 2, 3, 4, 5))}), "wstr:label": (31, "label"),
    "wstr:": (31, ""),
    "v_ui1:1,2,3": (0x1011, {"cElems": 3, "pElems": [1, 2, 3]}), "v_ui2:1,2": (0x1012, {"cElems": 2, "pElems": [1, 2]}),
    "v_i4:7": (0x1003, {"cElems": 1, "pElems": [7]}), "v_ui4:8,9": (0x1013, {"cElems": 2, "pElems": [8, 9]}),
    "v_ui8:1": (0x1015, {"cElems": 1, "pElems": [1]}), f"v_clsid:{GUID.hex()}": (0x1048, {"cElems": 1,
                                                                                          "pElems": [GUID]}),
    "v_wstr:a,bcd": (0x101F, {"cElems": 2, "pElems": ["a", "bcd"]}), "v_variant:": (0x100C, {"cElems": 0,
                                                                                             "pElems": []}),
}  # fmt: skip


@pytest.mark.parametrize("path", ["q", "odd"])
def test_wine_writes_and_reads_every_kind_of_property_as_we_do(bound: WineClient, stub: StubManager, path: str) -> None:
    stub.table["R_QMCreateObjectInternal"] = {"result": 0x400E0001}
    given = {str(101 + number): text for number, text in enumerate(VARIANTS)}
    answer = bound("create", binding="binding", path=path, security=b"\1\2\3", **given)
    assert answer.result == 0x400E0001
    seen = stub.last("R_QMCreateObjectInternal")
    same_bytes(seen)
    assert [value["varUnion"] for value in seen.values["apVar"]] == list(VARIANTS.values())
    assert seen.values["aProp"] == list(range(101, 101 + len(VARIANTS)))
    got = bound("get", binding="binding", name="direct:OS", **given).ok()
    same_bytes(stub.last("R_QMGetObjectProperties"))
    assert got.number("104.17") == 200 and got.text("114.31") == "label"
    assert got.bytes("113.65") == bytes((1, 2, 3, 4, 5)) and got.number("110.21") == 123456789012


def test_wine_puts_the_arrays_of_set_properties_behind_pointers(bound: WineClient, stub: StubManager) -> None:
    stub.table["R_QMSetObjectProperties"] = {}
    bound("set", binding="binding", name="direct:OS", **{"104": "ui1:1"}).ok()
    seen = stub.last("R_QMSetObjectProperties")
    same_bytes(seen)
    bound("set", binding="binding", name="direct:OS", absent=1, **{"104": "ui1:1"}).ok()
    assert stub.last("R_QMSetObjectProperties").values["aProp"] is None
    same_bytes(stub.last("R_QMSetObjectProperties"))


def test_wine_reads_the_other_answers_of_ours(bound: WineClient, stub: StubManager) -> None:
    name = "orders\0".encode("utf-16-le")
    stub.table |= {
        "R_QMGetObjectSecurityInternal": lambda v: {"pSecurityDescriptor": b"s" * v["nLength"], "lpnLengthNeeded": 99,
                                                    "result": 0xC00E0023},
        "R_QMObjectPathToObjectFormat": {"pObjectFormat": {"ObjType": 1, "object": (1, private(GUID, 5))}},
        "R_QMEnlistInternalTransaction": {"phIntXact": stub.other}, "R_QMCommitTransaction": {"phIntXact": bytes(20)},
        "rpc_ACHandleToFormatName": {"lpwcsFormatName": name, "pdwLength": 7},
        "R_QMQueryQMRegistryInternal": {"lplpMQISServer": "345600"}, "rpc_ACPurgeQueue": 0xC00E0025,
        "R_QMOpenRemoteQueue": {"pphContext": stub.other, "pdwContext": 1, "dwpQueue": 2, "phQueue": 3},
        "R_QMCloseRemoteQueueContext": {"pphContext": bytes(20)}, "R_QMCreateRemoteCursor": {"phCursor": 12},
        "rpc_ACCreateCursorEx": {"pcc": {"hCursor": 9, "srv_hACQueue": 8, "cli_pQMQueue": 7}},
    }  # fmt: skip
    answer = bound("get_security", binding="binding", name="direct:OS", parts=7, length=3)
    assert (answer.result, answer.number("needed"), answer.bytes("security")) == (0xC00E0023, 99, b"sss")
    found = bound("find", binding="binding", path=quoted(r".\private$\q")).ok()
    assert found.values["format"] == "2:0:0" and found.bytes("lineage") == GUID and found.number("uniquifier") == 5
    assert bound("enlist", binding="binding", uow=UOW, **{"as": "tx"}).ok().bytes("handle") == stub.other
    assert bound("commit", handle="tx").ok().bytes("handle") == bytes(20)
    bound("open", binding="binding", name="direct:OS", **{"as": "q"}).ok()
    assert bound("format_name", handle="q", length=7).ok().text("name") == "orders"
    assert bound("registry", binding="binding", query=1).ok().text("value") == "345600"
    assert bound("purge", handle="q").fault == 0xC00E0025
    assert bound("cursor", handle="q", a=1, b=2, c=3).ok().values == {"cursor": "9", "b": "8", "c": "7"}
    remote = bound("open_remote", binding="binding", name="direct:OS", **{"as": "r"}).ok()
    assert [remote.number(key) for key in ("context", "queue", "remote_queue")] == [1, 2, 3]
    assert bound("remote_cursor", binding="binding", queue=3).ok().number("cursor") == 12
    assert bound("close_remote", handle="r").ok().bytes("handle") == bytes(20)
    for seen in stub.calls:
        if seen.method != "rpc_QMOpenQueueInternal":  # its empty inner pointer reads like no outer one
            same_bytes(seen)


def test_fragments_of_any_size_reach_wine(wine: WineClient) -> None:
    body = bytes(range(256)) * 100
    table: dict[str, Any] = {"rpc_ACReceiveMessageEx": lambda values: {
        "ptb": {**values["ptb"], "old": {**values["ptb"]["old"], "ppBody": body}}}}  # fmt: skip
    for size in (1024, 1432, 2999, 5840):
        with StubManager(table, fragment=size) as stub:
            wine.bind(stub.host).ok()
            assert wine("receive", binding="binding", context=1, body=len(body)).ok().bytes("body") == body


def test_what_widl_writes_is_repaired_or_refused() -> None:
    with pytest.raises(AssertionError, match="is this not widl"):
        wine_build.repaired("#define TYPE_FORMAT_STRING_SIZE 12\n")


def test_without_wine_the_tests_fail_and_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(wine_build, "HEADERS", str(tmp_path))
    with pytest.raises(wine_build.WineMissing, match=r"libwine-dev.*make debian"):
        wine_build.require_wine()


# The second peer, and scapy


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("chunk", [0, 1, 7, 333])
def test_the_second_peer_and_the_stub_understand_each_other(stub: StubManager, wide: bool, chunk: int) -> None:
    stub.table["RemoteQMGetQMQMServerPort"] = {"result": 2105}
    stub.table["R_QMMgmtAction"] = 0xC00E0001
    with Connection(stub.host, stub.port, chunk=chunk).bind("qm2qm", "qmcomm2", wide=wide) as one:
        one.bind("qmmgmt", wide=wide)
        assert one.call("RemoteQMGetQMQMServerPort", dwPortType=1) == {"result": 2105}
        buffer = send_buffer(ppBody=b"x" * 2000, admin=direct(QUEUE))
        assert one.call("rpc_ACReceiveMessageEx", hQMContext=5, ptb=buffer)["ptb"]["old"]["ppBody"] == b"x" * 2000
        with pytest.raises(Fault, match="0xc00e0001"):
            one.call("R_QMMgmtAction", pObjectFormat={"type": 1, "object": (1, 0)}, lpwszAction="x")
        first = one.begin("RemoteQMGetQMQMServerPort", dwPortType=1)
        second = one.begin("RemoteQMGetQMQMServerPort", dwPortType=2)
        assert one.complete(second, "RemoteQMGetQMQMServerPort") == one.complete(first, "RemoteQMGetQMQMServerPort")


def test_the_second_peer_says_when_a_bind_is_refused(stub: StubManager) -> None:
    stub.wide = False
    with Connection(stub.host, stub.port) as one, pytest.raises(Refused):
        one.bind("qm2qm", wide=True)


DESCRIPTOR = {"hRemoteQueue": 5, "hCursor": 6, "ulAction": 0x80000000, "ulTimeout": 7, "dwQueue": 5, "dwRequestID": 9}


@pytest.mark.parametrize("wide", [False, True])
def test_scapy_and_the_second_peer_agree_on_old_remote_reads(stub: StubManager, wide: bool) -> None:
    def packet(values: dict[str, Any]) -> dict[str, Any]:
        given = values["lpRemoteReadDesc2"]["pRemoteReadDesc"]
        filled = {**given, "dwSize": 5, "lpBuffer": b"12345", "dwArriveTime": 77}
        return {"pphContext": stub.handle, "lpRemoteReadDesc2": {"pRemoteReadDesc": filled, "SequentialId": 1 << 40}}

    stub.table |= {"RemoteQMStartReceive2": packet, "RemoteQMEndReceive": {"pphContext": bytes(20)},
                   "RemoteQMOpenQueue": {"phContext": stub.other}, "RemoteQMPurgeQueue": 0xC00E0007}  # fmt: skip
    with ScapyClient(stub.host, "qm2qm", wide=wide) as scapy:
        opened = scapy.call("RemoteQMOpenQueue", pLicGuid=scapy.make("GUID"), dwMQS=0, hQueue=5, pQueue=5, dwpContext=5)
        assert handle_of(opened.phContext) == stub.other
        descriptor = scapy.make("REMOTEREADDESC", **DESCRIPTOR, dwSize=0, lpBuffer=None)
        outer = scapy.make("REMOTEREADDESC2", pRemoteReadDesc=descriptor)
        answer = scapy.call("RemoteQMStartReceive2", lpRemoteReadDesc2=outer)
        same_bytes_of_syntax(stub.last("RemoteQMStartReceive2"), wide)
        found = answer.lpRemoteReadDesc2.pRemoteReadDesc.value
        assert (found.dwSize, found.dwArriveTime, answer.lpRemoteReadDesc2.SequentialId) == (5, 77, 1 << 40)
        assert found.lpBuffer.value.value[0].value == b"12345" or bytes(found.lpBuffer.value.value.value) == b"12345"
        ended = scapy.call("RemoteQMEndReceive", pphContext=scapy.handle(stub.handle), dwAck=2)
        assert (
            handle_of(ended.pphContext) == bytes(20)
            and stub.last("RemoteQMEndReceive").values["pphContext"] == stub.handle
        )
        with pytest.raises(Faulted, match="0xc00e0007"):
            scapy.call("RemoteQMPurgeQueue", hQueue=5)


def same_bytes_of_syntax(seen: Seen, wide: bool) -> None:
    again = method_of(seen).request.encode(seen.values, wide)
    assert len(again) == len(seen.stub)


@pytest.mark.parametrize("wide", [False, True])
def test_scapy_and_the_second_peer_agree_on_new_remote_reads(stub: StubManager, wide: bool) -> None:
    sections = [{"SectionBufferType": 1, "SectionSizeAlloc": 4, "SectionSize": 3, "pSectionBuffer": b"abc"},
                {"SectionBufferType": 2, "SectionSizeAlloc": 9, "SectionSize": 5,
                 "pSectionBuffer": b"defgh"}]  # fmt: skip
    stub.table |= {"R_OpenQueue": {"pphContext": stub.handle}, "R_EndReceive": {}, "R_StartReceive": {
        "pdwArriveTime": 7, "pSequenceId": 1 << 33, "pdwNumberOfSections": 2, "ppPacketSections": sections,
    }}  # fmt: skip
    with ScapyClient(stub.host, "RemoteRead", wide=wide) as scapy:
        handle = scapy.handle(stub.handle)
        stubbed = scapy.stub("R_StartReceive", phContext=handle, LookupId=8, hCursor=1, ulAction=2, ulTimeout=3,
                             dwRequestId=4, dwMaxBodySize=5, dwMaxCompoundMessageSize=6)  # fmt: skip
        seen = stub.last("R_StartReceive")
        assert list(seen.values.values()) == [stub.handle, 8, 1, 2, 3, 4, 5, 6]
        same_bytes_of_syntax(seen, wide)
        assert REMOTE_READ["R_StartReceive"].response.decode(stubbed, wide)["ppPacketSections"] == sections
        assert scapy.call("R_EndReceive", phContext=handle, dwAck=2, dwRequestId=4).status == 0


def test_the_opnums_are_those_of_the_documents() -> None:
    assert [method.opnum for method in QMCOMM2.methods] == list(range(4))
    assert [method.opnum for method in INTERFACES["qm2qm"].methods] == list(range(11))
    unused = {0, 5, 13, 21, 24, 25, 29, 30, 32, 33, 34}
    assert {method.opnum for method in QMCOMM.methods} == set(range(35)) - unused
    assert {method.opnum for method in REMOTE_READ.methods} == set(range(16)) - {1}
