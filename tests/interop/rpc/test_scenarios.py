"""The client protocol from outside, each scenario on Wine's runtime and on the second peer ([MS-MQMP] sections 3 and
4)."""

from __future__ import annotations

import os
import time
from uuid import UUID

import pytest

from tests.interop.rpc.conftest import Queue, RpcDaemon, Sign
from tests.interop.rpc.verbs import FOREVER, PEEK, PEEK_CURRENT, PEEK_NEXT, RECEIVE, SEND, Peer, walk

NOT_FOUND, EXISTS, NO_MESSAGE, DENIED = 0xC00E0003, 0xC00E0005, 0xC00E001B, 0xC00E0025
SHARED, ACCESS_MODE, BUFFER, BAD_HANDLE = 0xC00E0009, 0xC00E0045, 0xC00E001A, 0xC00E0007
DELETED_WAIT = 0xC00E0008


@pytest.mark.spec("MP-150", "MP-010", "MP-006")
def test_the_port_query_tells_where_the_interfaces_listen(sign_in: Sign, server: RpcDaemon) -> None:
    for user in ("alice", None):
        one = sign_in(user)
        assert [one.port(which) for which in (0, 1, 2, 3, 4, 0xFFFFFFFF)] == [2103, 2105, 0, 0, 0, 0]


@pytest.mark.spec("MP-196", "MP-131", "MP-126", "MP-152")
def test_a_message_is_sent_and_received(queue: Queue, peer: Peer, server: RpcDaemon) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    sent = peer.send(sender, body=b"hello", label="first", priority=5, application_tag=77, body_type=8).ok()
    assert server.bodies(queue.name) == [b"hello"]
    peeked = peer.receive(reader, PEEK_CURRENT).ok()["message"]
    message = peer.receive(reader).ok()["message"]
    for found in (peeked, message):
        assert (found.body, found.label, found.priority, found.application_tag, found.body_type) == (b"hello",
                                                                                                     "first", 5, 77, 8)
        assert found.message_id == sent["message_id"]
        assert found.delivery == 0 and found.version == 0x10
        assert abs(found.sent_time - time.time()) < 120 and found.arrived_time >= found.sent_time
        assert found.destination.lower().endswith("private$\\" + queue.name)
    assert peer.receive(reader).code == NO_MESSAGE
    assert peer.close_queue(sender).ok()["handle"] == bytes(20)
    assert peer.close_queue(reader).ok()["handle"] == bytes(20)


@pytest.mark.spec("MP-153")
def test_a_message_that_says_nothing_has_the_defaults(queue: Queue, peer: Peer) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    peer.send(sender).ok()
    found = peer.receive(reader).ok()["message"]
    assert (found.priority, found.delivery, found.acknowledge, found.auditing, found.trace) == (3, 0, 0, 0, 0)
    assert (found.body, found.label, found.extension, found.body_length) == (b"", "", b"", 0)
    assert found.application_tag == found.body_type == 0 and found.correlation == bytes(20)
    assert found.values["class"] == 0


@pytest.mark.spec("MP-082", "MP-083", "MP-040")
def test_what_is_sent_comes_back(queue: Queue, peer: Peer, server: RpcDaemon) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    correlation, connector = os.urandom(20), os.urandom(16)
    given = {"body": bytes(range(256)) * 3, "label": "lábel \u4e2d\u6587", "priority": 0, "delivery": 1, "auditing": 0,
             "application_tag": 0xFFFFFFFF, "body_type": 0x1011, "correlation": correlation, "extension": b"ext\0\1",
             "connector_type": connector}  # fmt: skip
    response = rf"direct:TCP:{server.address}\private$\{queue.name}"
    peer.send(sender, **given, response=response).ok()
    found = peer.receive(reader).ok()["message"]
    for name, value in given.items():
        assert getattr(found, name) == value, name
    assert found.response == "DIRECT=" + response.partition(":")[2]
    assert found.admin_length == 0


@pytest.mark.spec("MP-048")
def test_urgent_messages_come_first(queue: Queue, peer: Peer) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    for priority in (0, 7, 3, 7):
        peer.send(sender, body=b"%d" % priority, priority=priority).ok()
    assert [peer.receive(reader).ok()["message"].body for _ in range(4)] == [b"7", b"7", b"3", b"0"]


@pytest.mark.spec("MP-198", "MP-177", "MP-173")
def test_a_cursor_walks_and_takes(queue: Queue, peer: Peer) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    for number in range(3):
        peer.send(sender, body=b"%d" % number).ok()
    cursor = peer.cursor(reader).ok()["cursor"]
    assert cursor not in (0, 0xB)
    assert peer.receive(reader, PEEK_NEXT, cursor=cursor).code == 0xC00E001C
    assert list(walk(peer, reader, cursor)) == [b"0", b"1", b"2"]
    other = peer.cursor(reader).ok()["cursor"]
    assert peer.receive(reader, PEEK_CURRENT, cursor=other).ok()["message"].body == b"0"
    assert peer.receive(reader, PEEK_NEXT, cursor=other).ok()["message"].body == b"1"
    assert peer.receive(reader, cursor=other).ok()["message"].body == b"1"
    assert peer.close_cursor(reader, other).code == 0
    assert peer.close_cursor(reader, other).code == BAD_HANDLE
    assert peer.close_cursor(reader, 0xB).code == 0
    assert peer.receive(reader, cursor=other).code == BAD_HANDLE


@pytest.mark.spec("MP-200", "MP-122", "MP-123", "MP-124", "MP-069")
def test_a_transaction_is_all_or_nothing(stream_queue: Queue, peer: Peer, server: RpcDaemon) -> None:
    sender, reader = stream_queue.open(SEND), stream_queue.open(RECEIVE)
    uow, other = os.urandom(16), os.urandom(16)
    transaction = peer.enlist(uow).ok()
    for number in range(3):
        peer.send(sender, body=b"%d" % number, uow=uow).ok()
    assert server.bodies(stream_queue.name) == []
    assert peer.enlist(uow).code == 0xC00E0051
    peer.commit(transaction["handle"]).ok()
    second = peer.enlist(other).ok()
    found = [peer.receive(reader, uow=other).ok()["message"] for _ in range(3)]
    assert [message.body for message in found] == [b"0", b"1", b"2"]
    assert [(message.first_in_xact, message.last_in_xact) for message in found] == [(1, 0), (0, 0), (0, 1)]
    assert len({message.xact_id for message in found}) == 1 and all(message.delivery == 1 for message in found)
    peer.abort(second["handle"]).ok()
    assert server.bodies(stream_queue.name) == [b"0", b"1", b"2"]
    assert peer.send(sender, body=b"x", uow=os.urandom(16)).code == 0xC00E0051
    assert peer.send(sender, body=b"x").code == 0xC00E0050
    assert server.count(stream_queue.name) == 3


@pytest.mark.spec("MP-145")
def test_purge_needs_the_right_to_receive(queue: Queue, peer: Peer, server: RpcDaemon) -> None:
    sender, looker, reader = queue.open(SEND), queue.open(PEEK), queue.open(RECEIVE)
    for number in range(10):
        peer.send(sender, body=b"%d" % number).ok()
    assert peer.purge(sender).code & 0x80000000 and peer.purge(looker).code == DENIED
    assert server.count(queue.name) == 10
    peer.purge(reader).ok()
    assert server.count(queue.name) == 0


@pytest.mark.spec("MP-102", "MP-109", "MP-115", "MP-131")
def test_a_queue_is_created_found_and_deleted(peer: Peer, queue_name: str) -> None:
    path = rf".\private$\{queue_name}"
    peer.create(path, {103: f"wstr:{path}", 108: "wstr:label"}).ok()
    assert peer.create(path, {103: f"wstr:{path}", 108: "wstr:other"}).code == EXISTS
    assert peer.create(path.upper(), {108: "wstr:other"}).code == EXISTS
    name = peer.find(path).ok()["name"]
    assert name.startswith("private:")
    peer.close_queue(peer.open(name, SEND).ok()["queue"]).ok()
    assert peer.get(name, {108: "null:"}).ok()["108"] == "label"
    peer.delete(name).ok()
    assert peer.open(rf"direct:OS:.\private$\{queue_name}", SEND).code == NOT_FOUND
    assert peer.delete(name).code == NOT_FOUND
    assert peer.find(path).code == NOT_FOUND


@pytest.mark.spec("MP-111", "MP-114", "MP-088", "MP-087")
def test_properties_are_read_and_changed(queue: Queue, peer: Peer) -> None:
    others = (102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 124, 125)
    everything = {101: "clsid:" + bytes(16).hex(), **dict.fromkeys(others, "null:")}
    before = peer.get(queue.direct, everything).ok().values
    assert before["103"].lower().endswith(rf"\private$\{queue.name}") and before["113"] == 0
    changes = {104: "ui1:1", 105: "ui4:1000", 107: "ui4:2000", 108: "wstr:new label", 111: "ui1:0", 112: "ui4:1"}
    peer.set(queue.direct, changes).ok()
    after = peer.get(queue.direct, everything).ok().values
    assert (after["104"], after["105"], after["107"], after["108"], after["112"]) == (1, 1000, 2000, "new label", 1)
    assert after["110"] >= before["110"] and after["109"] == before["109"]
    assert peer.set(queue.direct, {108: "wstr:third", 104: "ui1:2"}).code == 0xC00E0018
    assert peer.set(queue.direct, {108: "wstr:third", 113: "ui1:1"}).code & 0x80000000
    assert peer.get(queue.direct, {108: "null:"}).ok()["108"] == "new label"
    assert peer.get(queue.direct, {105: "i8:0"}).code == 0xC00E0002


@pytest.mark.spec("MP-105", "MP-107", "MP-108", "MP-103", "MP-106")
def test_security_descriptors_are_read_in_two_steps_and_changed_in_parts(queue: Queue, peer: Peer) -> None:
    first = peer.get_security(queue.direct, 7, 0)
    assert first.code == 0xC00E0023 and first["needed"] > 20
    whole = peer.get_security(queue.direct, 7, first["needed"]).ok()["security"]
    larger = peer.get_security(queue.direct, 7, first["needed"] + 100).ok()
    assert larger["security"] == whole + bytes(100)
    owner, dacl = (int.from_bytes(whole[at : at + 4], "little") for at in (4, 16))
    assert owner and dacl
    only = peer.get_security(queue.direct, 4, 4096).ok()
    assert int.from_bytes(only["security"][4:8], "little") == 0 and only["needed"] < first["needed"]
    assert not any(only["security"][only["needed"] :])
    empty = b"\1\0\4\x80" + bytes(12) + (20).to_bytes(4, "little") + b"\2\0\x08\0\0\0\0\0"
    peer.set_security(queue.direct, 4, empty).ok()
    now = peer.get_security(queue.direct, 7, 4096).ok()
    assert now["needed"] < first["needed"]
    assert whole[owner : owner + 8] in now["security"]
    assert peer.set_security(queue.direct, 4, b"\1\0\4\x80" + b"\xff" * 16).code == 0xC00E0021


@pytest.mark.spec("MP-143", "MP-144")
def test_the_format_name_of_a_handle_is_cut_to_what_there_is_room_for(queue: Queue, peer: Peer) -> None:
    opened = queue.open(SEND)
    measured = peer.format_name(opened, 0)
    assert measured.code == 0xC00E001F
    needed = measured["length"]
    whole = peer.format_name(opened, needed).ok()
    assert len(whole["name"]) + 1 == needed == whole["length"] and whole["name"].upper().startswith("DIRECT=OS:")
    short = peer.format_name(opened, needed - 1)
    assert (short.code, short["name"], short["length"]) == (0xC00E001F, whole["name"][: needed - 2], needed)
    assert peer.format_name(opened, needed + 10).ok()["name"] == whole["name"]


@pytest.mark.spec("MP-146", "MP-148", "MP-149")
def test_the_registry_answers_what_clients_ask(peer: Peer, queue: Queue) -> None:
    assert peer.registry(1).ok()["value"] == "345600"
    parts = peer.registry(3).ok()["value"].split(".")
    assert len(parts) == 3 and all(part.isdigit() and len(part) <= 4 for part in parts)
    guid = peer.registry(4).ok()["value"]
    lineage = bytes.fromhex(peer.find(queue.path).ok()["name"].split(":")[1])
    assert UUID(guid).bytes_le == lineage and "{" not in guid
    wrong = peer.registry(5)
    assert wrong.code & 0x80000000 and wrong["value"] is None


@pytest.mark.spec("MP-130")
def test_exclusive_reading_excludes_others_until_it_ends(queue: Queue, peer: Peer, sign_in: Sign) -> None:
    other = sign_in("root")
    first = queue.open(RECEIVE, share=1)
    assert other.open(queue.direct, RECEIVE).code == SHARED
    assert other.open(queue.direct, PEEK).code == SHARED
    queue.open(SEND, peer=other)
    peer.close_queue(first).ok()
    second = queue.open(RECEIVE, peer=other)
    assert peer.open(queue.direct, RECEIVE, 1).code == SHARED
    other.close_queue(second).ok()
    queue.open(RECEIVE, share=1)
    assert peer.open(queue.direct, SEND, 1).code == ACCESS_MODE


@pytest.mark.spec("MP-128")
@pytest.mark.parametrize("access", [0, 3, 4, 0x21, 0x22, 0x40, 0x80, 0x82, 0xFFFFFFFF])
def test_unknown_access_modes_are_refused(queue: Queue, peer: Peer, access: int) -> None:
    assert peer.open(queue.direct, access).code == ACCESS_MODE


@pytest.mark.spec("MP-128", "MP-172")
def test_a_handle_does_only_what_it_was_opened_for(queue: Queue, peer: Peer, server: RpcDaemon) -> None:
    sender, looker, reader = queue.open(SEND), queue.open(PEEK), queue.open(RECEIVE)
    peer.send(sender, body=b"one").ok()
    assert peer.receive(sender).code & 0x80000000 and peer.receive(sender, PEEK_CURRENT).code & 0x80000000
    assert peer.receive(looker).code == DENIED
    assert peer.receive(looker, PEEK_CURRENT).ok()["message"].body == b"one"
    for handle in (looker, reader):
        assert peer.send(handle, body=b"two").code & 0x80000000
    assert server.bodies(queue.name) == [b"one"]


@pytest.mark.spec("MP-166", "MP-169", "MP-164")
def test_a_message_too_large_for_the_buffer_stays(queue: Queue, peer: Peer) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    body = b"b" * 3000
    peer.send(sender, body=body, label="label").ok()
    for size in (0, 1, 2999):
        short = peer.receive(reader, body=size)
        assert (short.code, short["raw"]["body_length"]) == (BUFFER, 3000)
        assert len(short["raw"]["body"]) == size
    found = peer.receive(reader, body=5000).ok()
    assert found["message"].body == body and found["raw"]["body"] == body + bytes(2000)


@pytest.mark.spec("MP-165", "MP-169")
def test_names_and_labels_too_long_for_the_buffer_keep_the_message(queue: Queue, peer: Peer) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    peer.send(sender, body=b"x", label="0123456789", response=r"direct:OS:elsewhere\private$\q").ok()
    label = peer.receive(reader, label=10)
    assert (label.code, label["raw"]["label_length"]) == (0xC00E005E, 11)
    name = peer.receive(reader, response=5)
    assert name.code == 0xC00E001F and name["raw"]["response_length"] > 5
    assert peer.receive(reader, label=11, response=name["raw"]["response_length"]).ok()["message"].label == "0123456789"


@pytest.mark.spec("MP-024", "MP-052")
@pytest.mark.parametrize("size", [1, 5000, 65536, 1 << 20, 4_000_000])
def test_bodies_of_every_size_go_both_ways(queue: Queue, peer: Peer, size: int) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    body = os.urandom(1000) * (size // 1000) + b"e" * (size % 1000)
    peer.send(sender, body=body).ok()
    assert peer.receive(reader, body=size).ok()["message"].body == body


@pytest.mark.spec("MP-174", "MP-041")
def test_a_receive_waits_for_milliseconds(queue: Queue, peer: Peer) -> None:
    reader = queue.open(RECEIVE)
    start = time.monotonic()
    assert peer.receive(reader, timeout=500).code == NO_MESSAGE
    assert 0.4 < time.monotonic() - start < 20


@pytest.mark.spec("MP-132", "MP-133", "MP-025")
def test_names_of_other_places(peer: Peer, server: RpcDaemon) -> None:
    own = peer.open(r"direct:OS:.\private$\nowhere", RECEIVE)
    assert own.code == NOT_FOUND
    assert peer.open(rf"direct:TCP:{server.address}\private$\nowhere", RECEIVE).code == NOT_FOUND
    assert peer.open("public:" + os.urandom(16).hex(), RECEIVE).code in (0xC00E0013, 0xC00E001E)
    assert peer.open("private:" + os.urandom(16).hex() + ":1", RECEIVE).code in (0xC00E0013, 0xC00E001E)
    hint = peer.open(r"direct:OS:elsewhere\private$\q", RECEIVE).ok()




    assert hint["remote"].lower() == r"elsewhere\private$\q"
    assert hint["queue"].wire == bytes(20) and hint["queue"].context == 0
    outgoing = peer.open(r"direct:TCP:127.0.0.1\private$\q", SEND).ok()["queue"]
    peer.close_queue(outgoing).ok()


@pytest.mark.spec("MP-118")
def test_there_is_no_transaction_coordinator(peer: Peer) -> None:
    assert peer.whereabouts(0).code == peer.whereabouts(500).code == 0xC00E004C


@pytest.mark.spec("MP-055")
@pytest.mark.parametrize("delivery", [0, 1])
def test_a_time_to_be_received_runs_out(queue: Queue, peer: Peer, delivery: int) -> None:
    sender, reader = queue.open(SEND), queue.open(RECEIVE)
    peer.send(sender, body=b"gone", time_to_live=3, delivery=delivery).ok()
    peer.send(sender, body=b"stays", time_to_live=FOREVER, delivery=delivery).ok()
    found = peer.receive(reader, PEEK_CURRENT).ok()["message"]
    assert found.body == b"gone" and found.relative_time_to_live <= 3
    deadline = time.monotonic() + 60
    while found.body == b"gone" and time.monotonic() < deadline:
        found = peer.receive(reader, PEEK_CURRENT).ok()["message"]
    assert found.body == b"stays"
