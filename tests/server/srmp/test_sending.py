"""What a server POSTs, and what it makes of the answers ([MC-MQSRM] 3.1.7, 3.1.6). The other side is a stub."""

from __future__ import annotations

import itertools
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import lior
from lior.message import Acknowledgements, MessageClass
from lior.testing.serving import Serving, loopback_address
from tests.server.srmp import desk
from tests.server.srmp.desk import PORT, Built, Stub, post, url

DEAD = r".\system$;DEADLETTER"
DEADXACT = r".\system$;DEADXACT"
JOURNAL = r".\system$;JOURNAL"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with desk.serving(tmp_path_factory.mktemp("srmp") / "data") as found:
        yield found


@pytest.fixture
def qm(server: Serving) -> Iterator[lior.QueueManager]:
    with desk.connect(server) as found:
        yield found


def outgoing(qm: lior.QueueManager, stub: Stub) -> int:
    return sum(info.messages for info in qm.queues() if info.kind == "outgoing" and stub.address in info.name)


def drained(qm: lior.QueueManager, stub: Stub) -> None:
    desk.eventually(lambda: not outgoing(qm, stub))


def copies(qm: lior.QueueManager, path: str, body: bytes) -> list[lior.Message]:
    with qm.open_queue(path, "peek") as queue:
        return [message for message in queue if message.body == body]


@pytest.mark.spec("SR-007", "SR-012", "SR-034", "SR-036", "SR-048", "SR-189", "SR-190", "SR-194", "SR-038", "SR-002",
                  "SR-005", "SR-207", "SR-091", "SR-193", "SR-059", "SR-191")  # fmt: skip
def test_a_request_is_as_the_examples_show_it(server: Serving, qm: lior.QueueManager) -> None:
    with Stub() as stub:
        before = int(time.time())
        identifier = qm.send(f"DIRECT={url(stub.address, 'Q$x')}", b"content", label='<a>&"\x01', priority=5,
                             application_tag=7, body_type=8, dead_letter=False, extension=b"more")  # fmt: skip
        (seen,) = stub.wait(1)
        drained(qm, stub)
    assert seen.line == "POST /msmq/private$/Q$x HTTP/1.1"
    assert seen.names == ["Host", "Content-Type", "SOAPAction", "Proxy-Accept", "Content-Length"] or seen.names == [
        "Host", "Content-Type", "Content-Length", "SOAPAction", "Proxy-Accept"]  # fmt: skip
    assert seen.headers["host"] == f"{stub.address}:{PORT}"
    assert seen.headers["soapaction"] == '"MSMQMessage"'
    assert seen.headers["proxy-accept"] == "NonInteractiveClient"
    kind = seen.headers["content-type"]
    assert kind.startswith('multipart/related; boundary="MSMQ - SOAP boundary, ')
    assert kind.endswith('"; type=text/xml')
    root, body, extension = seen.parts()
    guid = str(qm.properties()["identifier"]).lower()
    assert f"\r\nContent-Id: body@{guid}\r\n".encode() in seen.entity
    assert f"\r\nContent-Id: extension@{guid}\r\n".encode() in seen.entity
    assert b"\r\n--MSMQ" not in seen.entity  # no line break before a delimiter
    assert (body, extension) == (b"content", b"more")
    sent = seen.text(".//s:sentAt") or ""
    moment = datetime.strptime(sent, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
    assert before <= moment <= time.time()
    number = identifier.uniquifier if identifier else 0
    assert root.decode() == (
        '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" xmlns="http://schemas.xmlsoap.org/srmp/">'
        '<se:Header><path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
        f'<action>MSMQ:&lt;a&gt;&amp;"\N{REPLACEMENT CHARACTER}</action>'
        f"<to>{url(stub.address, 'Q$x')}</to><id>uuid:{number}@{guid}</id></path>"
        '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
        f'<sentAt>{sent}</sentAt></properties><services se:mustUnderstand="1"><durable/></services>'
        '<Msmq xmlns="msmq.namespace.xml"><Class>0</Class><Priority>5</Priority>'
        f"<Correlation>{'A' * 27}=</Correlation><App>7</App><BodyType>8</BodyType><HashAlgorithm>0</HashAlgorithm>"
        f"<SourceQmGuid>{guid}</SourceQmGuid><TTrq>{desk.stamp(moment + 345600)}</TTrq></Msmq></se:Header>"
        "<se:Body></se:Body></se:Envelope>"
    )


@pytest.mark.spec("SR-010", "SR-128", "SR-182", "SR-197", "SR-199", "SR-060", "SR-109", "SR-110", "SR-183", "SR-177",
                  "SR-178", "SR-012")  # fmt: skip
@pytest.mark.parametrize(
    "answer", [500, 503, 202, 204, 301, 302, 401, 403, 404, 411, 413, "reset"], ids=str
)
def test_every_answer_but_200_and_400_keeps_the_message(
    server: Serving, qm: lior.QueueManager, answer: int | str
) -> None:
    body = f"kept {answer}".encode()
    with Stub([answer, answer]) as stub:
        qm.send(f"DIRECT={url(stub.address, 'q')}", body)
        first, second, third = stub.wait(3)
        drained(qm, stub)
        assert first.entity == second.entity == third.entity  # the same identifier and dates
        assert 0.15 < second.at - first.at < 20
        assert stub.connections == 3
        assert {seen.line for seen in stub.seen} == {"POST /msmq/private$/q HTTP/1.1"}
    assert copies(qm, DEAD, body) == []


@pytest.mark.spec("SR-110", "SR-182", "SR-128")
def test_silence_is_a_failure_too(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "data", srmp__send_timeout=2.0) as server, desk.connect(server) as qm, \
            Stub([None]) as stub:  # fmt: skip
        start = time.monotonic()
        qm.send(f"DIRECT={url(stub.address, 'q')}", b"silence", express=True)
        _, second = stub.wait(2)
        assert 2.0 < second.at - start < 20
        drained(qm, stub)


@pytest.mark.spec("SR-198", "SR-111", "SR-175", "SR-169", "SR-197")
def test_400_is_for_good_and_goes_to_the_dead_letters(server: Serving, qm: lior.QueueManager) -> None:
    with Stub([400, 400]) as stub:
        to = f"DIRECT={url(stub.address, 'q')}"
        qm.send(to, b"refused", journal=True)
        qm.send(to, b"forgotten", dead_letter=False)
        qm.send(to, b"delivered", journal=True)
        stub.wait(3)
        drained(qm, stub)
        assert stub.connections == 1
    (dead,) = copies(qm, DEAD, b"refused")
    assert dead.failure_reason == MessageClass.NACK_BAD_DST_Q
    assert copies(qm, DEAD, b"forgotten") == []
    assert copies(qm, JOURNAL, b"refused") == []
    assert len(copies(qm, JOURNAL, b"delivered")) == 1


@pytest.mark.spec("SR-184", "SR-111", "SR-031")
def test_a_message_whose_time_is_over_is_not_sent(server: Serving, qm: lior.QueueManager) -> None:
    with Stub([503] * 20, last=503) as stub:
        qm.send(f"DIRECT={url(stub.address, 'q')}", b"too late", time_to_reach_queue=1)
        desk.eventually(lambda: copies(qm, DEAD, b"too late"))
        (dead,) = copies(qm, DEAD, b"too late")
        assert dead.failure_reason == MessageClass.NACK_REACH_QUEUE_TIMEOUT
        assert not outgoing(qm, stub)
        qm.send(f"DIRECT={url(stub.address, 'q')}", b"for ever", time_to_reach_queue=lior.message.INFINITE)
        desk.eventually(lambda: [s.parts()[1] for s in list(stub.seen)][-2:] == [b"for ever"] * 2)
        bodies = [seen.parts()[1] for seen in stub.seen]
        begun = bodies.index(b"for ever")  # one of the other may have been under way
        assert stub.seen[begun].text(".//m:TTrq") == "20380119T031407"
        assert set(bodies[begun:]) == {b"for ever"}


@pytest.mark.spec("SR-191", "SR-139", "SR-064")
@pytest.mark.parametrize(
    ("wanted", "delivery", "commitment"),
    [(0, False, None), (Acknowledgements.POSITIVE_ARRIVAL, True, None),
     (Acknowledgements.POSITIVE_RECEIVE, False, ["positiveOnly"]),
     (Acknowledgements.NEGATIVE_RECEIVE, False, ["negativeOnly"]),
     (Acknowledgements.NEGATIVE_ARRIVAL, False, None),
     (15, True, ["positiveOnly", "negativeOnly"])],
)  # fmt: skip
@pytest.mark.parametrize("express", [True, False])
def test_services_are_what_the_message_asks_for(
    server: Serving, qm: lior.QueueManager, wanted: int, delivery: bool, commitment: list[str] | None, express: bool
) -> None:
    with Stub() as stub:
        qm.send(f"DIRECT={url(stub.address, 'q')}", b"x", express=express, acknowledge=int(wanted),
                admin_queue=rf"DIRECT=TCP:{server.address}\private$\admin" if wanted else "")  # fmt: skip
        (seen,) = stub.wait(1)
    here = f"http://{server.address}:{PORT}/msmq/private$/admin"
    assert seen.has(".//s:services") is bool(not express or delivery or commitment)
    assert seen.has(".//s:durable") is not express
    assert seen.text(".//s:deliveryReceiptRequest/s:sendTo") == (here if delivery else None)
    assert seen.text(".//s:commitmentReceiptRequest/s:sendTo") == (here if commitment else None)
    flags = [flag for flag in ("positiveOnly", "negativeOnly") if seen.has(f".//s:{flag}")]
    assert flags == (commitment or [])


def receipt(server: Serving, stream_id: str, last: int, *, decision: str = "", original: str = "") -> Built:
    entries = f"<streamReceipt><streamId>{stream_id}</streamId><lastOrdinal>{last}</lastOrdinal></streamReceipt>"
    kind = 255
    if decision:
        kind = 16384 if decision == "positive" else 49153
        now = desk.stamp(time.time())
        entries += (f"<commitmentReceipt><decidedAt>{now}</decidedAt><decision>{decision}</decision>"
                    f"<id>{original}</id></commitmentReceipt>")  # fmt: skip
    return Built(f"http://{server.address}:{PORT}/MSMQ/PRIVATE$/order_queue$", body=None, label="QM Ordering Ack",
                 entries=entries, message_class=kind)  # fmt: skip


def send_stream(qm: lior.QueueManager, stub: Stub, *bodies: bytes, **properties: object) -> None:
    with qm.transaction() as transaction:
        for body in bodies:
            transaction.send(f"DIRECT={url(stub.address, 'stream')}", body, **properties)


@pytest.mark.spec("SR-114", "SR-118", "SR-164", "SR-165", "SR-166", "SR-168", "SR-186", "SR-192", "SR-193", "SR-197",
                  "SR-084", "SR-068", "SR-099", "SR-163", "SR-188", "SR-206", "SR-074", "SR-067")  # fmt: skip
def test_a_stream_stays_until_its_receipt_and_the_next_one_begins_anew(
    server: Serving, qm: lior.QueueManager
) -> None:
    with Stub() as stub:
        send_stream(qm, stub, b"1", b"2", b"3", dead_letter=False)
        seen = stub.wait(3)
        identifier = seen[0].text(".//s:Stream/s:streamId") or ""
        guid = str(qm.properties()["identifier"]).lower()
        assert identifier.startswith(f"uid:{guid}\\")
        number = int(identifier.partition("\\")[2])
        assert abs((number >> 32) - time.time()) < 3600
        assert [s.text(".//s:current") for s in seen] == ["1", "2", "3"]
        assert [s.text(".//s:previous") for s in seen] == [None, "1", "2"]
        receipts = [s.text(".//s:start/s:sendReceiptsTo") for s in seen]
        assert receipts == [f"http://{server.address}:{PORT}/MSMQ/PRIVATE$/order_queue$", None, None]
        assert [s.has(".//m:Eod/m:First") for s in seen] == [True, False, False]
        assert [s.has(".//m:Eod/m:Last") for s in seen] == [False, False, True]
        assert all(s.has(".//s:durable") for s in seen)
        assert outgoing(qm, stub) == 3
        for forged in (receipt(server, identifier, 2**32 - 1), receipt(server, identifier, 4),
                       receipt(server, f"uid:{desk.OTHER_QM}\\{number}", 3),
                       receipt(server, f"uid:{guid}\\{number + 1}", 3), receipt(server, identifier, 0)):  # fmt: skip
            assert post(server, forged) == 200
        assert outgoing(qm, stub) == 3
        assert post(server, receipt(server, identifier, 2)) == 200
        desk.eventually(lambda: outgoing(qm, stub) == 1)
        assert post(server, receipt(server, identifier, 3)) == 200
        drained(qm, stub)
        send_stream(qm, stub, b"4", dead_letter=False)
        again = stub.wait(4)[3]
        assert again.text(".//s:current") == "1"
        assert again.has(".//s:start")
        new = again.text(".//s:Stream/s:streamId") or ""
        assert int(new.partition("\\")[2]) > number
        assert post(server, receipt(server, new, 1)) == 200
        drained(qm, stub)


@pytest.mark.spec("SR-115", "SR-170", "SR-171", "SR-176", "SR-079", "SR-169")
@pytest.mark.parametrize("early", [False, True])
def test_a_final_receipt_decides_about_a_message_with_dead_letters(
    server: Serving, qm: lior.QueueManager, early: bool
) -> None:
    bodies = [f"{name} {early}".encode() for name in ("read", "purged", "open")]
    with Stub() as stub:
        send_stream(qm, stub, *bodies, journal=True)
        seen = stub.wait(3)
        stream_id = seen[0].text(".//s:Stream/s:streamId") or ""
        ids = [s.text(".//rp:id") or "" for s in seen]
        if not early:
            assert post(server, receipt(server, stream_id, 3)) == 200
        assert post(server, receipt(server, stream_id, 1, decision="positive", original=ids[0])) == 200
        assert post(server, receipt(server, stream_id, 2, decision="negative", original=ids[1])) == 200
        desk.eventually(lambda: copies(qm, DEADXACT, bodies[1]))
        desk.eventually(lambda: copies(qm, JOURNAL, bodies[0]))
        if early:
            assert post(server, receipt(server, stream_id, 3)) == 200
        assert [len(copies(qm, DEADXACT, body)) for body in bodies] == [0, 1, 0]
        assert [len(copies(qm, JOURNAL, body)) for body in bodies] == [1, 0, 0]
        assert post(server, receipt(server, stream_id, 3, decision="positive", original=ids[2])) == 200
        desk.eventually(lambda: copies(qm, JOURNAL, bodies[2]))
        drained(qm, stub)


def awaited(qm: lior.QueueManager, stub: Stub) -> tuple[int, int]:
    """Messages of the queue to the stub that wait for a stream receipt, and for a final one."""
    for found in qm.outgoing():
        if stub.address in found["name"]:
            return found["transfer"]["eod_no_ack_count"], found["transfer"]["eod_no_read_count"]
    return 0, 0


@pytest.mark.spec("SR-097")
def test_management_shows_which_receipts_a_message_of_a_stream_waits_for(
    server: Serving, qm: lior.QueueManager
) -> None:
    with Stub() as stub:
        to = f"DIRECT={url(stub.address, 'stream')}"
        with qm.open_queue(to, "send"):
            qm.pause(to)
            send_stream(qm, stub, b"one", b"two")
            assert (outgoing(qm, stub), awaited(qm, stub)) == (2, (0, 0))  # neither, before it is sent
            qm.resume(to)
            seen = stub.wait(2)
            desk.eventually(lambda: awaited(qm, stub) == (2, 0))
            stream_id = seen[0].text(".//s:Stream/s:streamId") or ""
            assert post(server, receipt(server, stream_id, 1)) == 200
            desk.eventually(lambda: awaited(qm, stub) == (1, 1))
            assert post(server, receipt(server, stream_id, 2)) == 200
            desk.eventually(lambda: awaited(qm, stub) == (0, 2))
            ids = [s.text(".//rp:id") or "" for s in seen]
            for number, left in ((1, 1), (2, 0)):
                final = receipt(server, stream_id, number, decision="positive", original=ids[number - 1])
                assert post(server, final) == 200
                desk.eventually(partial(lambda left: awaited(qm, stub) == (0, left), left))


@pytest.mark.spec("SR-169", "SR-078")
def test_a_journal_without_dead_letters_is_written_at_the_stream_receipt(
    server: Serving, qm: lior.QueueManager
) -> None:
    with Stub() as stub:
        send_stream(qm, stub, b"journaled", journal=True, dead_letter=False)
        (seen,) = stub.wait(1)
        assert seen.has(".//m:Journal")
        assert copies(qm, JOURNAL, b"journaled") == []
        assert post(server, receipt(server, seen.text(".//s:Stream/s:streamId") or "", 1)) == 200
        desk.eventually(lambda: copies(qm, JOURNAL, b"journaled"))
        drained(qm, stub)


@pytest.mark.spec("SR-198", "SR-187", "SR-119", "SR-070")
def test_a_stream_goes_on_around_a_message_that_was_refused(server: Serving, qm: lior.QueueManager) -> None:
    with Stub([200, 400, 200]) as stub:
        send_stream(qm, stub, b"good", b"bad one", b"next")
        seen = stub.wait(3)
        assert [s.text(".//s:current") for s in seen] == ["1", "2", "3"]
        assert [s.text(".//s:previous") for s in seen] == [None, "1", "1"]
        desk.eventually(lambda: copies(qm, DEADXACT, b"bad one"))


@pytest.mark.spec("SR-102", "SR-103")
def test_each_queue_of_a_host_has_a_stream_of_its_own(server: Serving, qm: lior.QueueManager) -> None:
    with Stub() as stub:
        with qm.transaction() as transaction:
            for number in range(6):
                transaction.send(f"DIRECT={url(stub.address, f'q{number % 2}')}", b"%d" % number, dead_letter=False)
        seen = stub.wait(6)
    streams: dict[str, set[str | None]] = {s.line: set() for s in seen}
    for s in seen:
        streams[s.line].add(s.text(".//s:Stream/s:streamId"))
    assert [len(found) for found in streams.values()] == [1, 1]
    assert len(set.union(*streams.values())) == 2


@pytest.mark.spec("SR-129", "SR-179", "SR-167", "SR-120", "SR-101", "SR-131")
def test_what_has_no_receipt_is_sent_again_more_and_more_seldom(tmp_path: Path) -> None:
    ladder = {"srmp__resend_short": 0.3, "srmp__resend_medium": 0.9, "srmp__resend_long": 30.0}
    with desk.serving(tmp_path / "data", **ladder) as server, desk.connect(server) as qm, Stub() as stub:
        for _ in range(6):  # a ladder that the machine was too busy for says nothing
            stub.seen.clear()
            send_stream(qm, stub, b"1", b"2", dead_letter=False)
            seen = stub.wait(2 * 7)
            assert [s.text(".//s:current") for s in seen] == ["1", "2"] * 7
            assert {s.text(".//s:sentAt") for s in seen} == {seen[0].text(".//s:sentAt")}
            assert len({s.text(".//rp:id") for s in seen}) == 2
            gaps = [b.at - a.at for a, b in itertools.pairwise(seen[::2])]
            climbed = all(0.25 < gap < 0.85 for gap in gaps[:3]) and all(0.85 < gap < 2.5 for gap in gaps[3:6])
            if climbed:
                break
            assert post(server, receipt(server, seen[0].text(".//s:Stream/s:streamId") or "", 2)) == 200
            drained(qm, stub)
        assert climbed, gaps
        stream_id = seen[0].text(".//s:Stream/s:streamId") or ""
        assert post(server, receipt(server, stream_id, 1)) == 200
        again = stub.wait(15)[14]  # progress: from the beginning of the table
        assert again.text(".//s:current") == "2"


@pytest.mark.spec("SR-204", "SR-205", "SR-207")
def test_a_paused_queue_sends_nothing_and_a_resumed_one_everything_in_order(
    server: Serving, qm: lior.QueueManager
) -> None:
    with Stub() as stub:
        to = f"DIRECT={url(stub.address, 'q')}"
        qm.send(to, b"first")
        stub.wait(1)
        drained(qm, stub)
        name = next(info.name for info in qm.queues() if info.kind == "outgoing" and stub.address in info.name)
        qm.pause(name)
        for number in range(5):
            qm.send(to, b"%d" % number)
        with Stub() as other:  # meanwhile another queue goes on
            qm.send(f"DIRECT={url(other.address, 'q')}", b"x")
            other.wait(1)
        assert (len(stub.seen), outgoing(qm, stub)) == (1, 5)
        qm.resume(name)
        seen = stub.wait(6)
        assert [s.parts()[1] for s in seen[1:]] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.spec("SR-208", "SR-012")
def test_one_peer_that_hangs_blocks_no_other_and_priorities_count(server: Serving, qm: lior.QueueManager) -> None:
    with Stub([None], last=200) as slow, Stub([None]) as quick:
        qm.send(f"DIRECT={url(slow.address, 'q')}", b"x")
        slow.wait(1)
        to = f"DIRECT={url(quick.address, 'q')}"
        qm.send(to, b"first")
        quick.wait(1)
        for priority in (0, 7, 3, 5):
            qm.send(to, b"%d" % priority, priority=priority)
        quick.let_go()  # the first one fails, now that the others are there
        seen = quick.wait(6)
        assert [s.parts()[1] for s in seen[1:]] == [b"7", b"5", b"3", b"first", b"0"] or [
            s.parts()[1] for s in seen[1:]][:2] == [b"7", b"5"]  # fmt: skip
        assert len(slow.seen) == 1


def state_of(qm: lior.QueueManager, stub: Stub) -> str:
    (found,) = [queue for queue in qm.outgoing() if stub.address in str(queue)]
    return str(found["state"]).lower()


@pytest.mark.spec("SR-130", "SR-181", "SR-012")
def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "data", srmp__session_cleanup=2.0) as server, desk.connect(server) as qm, \
            Stub() as stub:  # fmt: skip
        for count in (1, 2):
            for _ in range(3):
                qm.send(f"DIRECT={url(stub.address, 'q')}", b"x")
            stub.wait(3 * count)
            assert stub.connections == count
            desk.eventually(lambda: state_of(qm, stub) == "disconnected")


@pytest.mark.spec("SR-193", "SR-107", "SR-108", "SR-209")
def test_redirections_and_receipt_urls(tmp_path: Path) -> None:
    with Stub() as proxy, Stub() as direct:
        settings = {
            'srmp_outbound."http://host.example/*"': f"http://{proxy.address}:{PORT}",
            "srmp.exempt": [url(direct.address, "exempt")],
            f'srmp_outbound."http://{direct.address}:{PORT}/*"': f"http://{proxy.address}:{PORT}",
            'srmp_receipts."http://host.example/msmq/private$/a*"': "http://receipts.example/r?x=1",
            "srmp.receipt_url": "http://default.example/r",
        }
        server = Serving(tmp_path / "data", settings=desk.QUICK | settings)
        with server, desk.connect(server) as qm:
            for to in ("http://host.example/msmq/private$/Abc", "http://HOST.example/MSMQ/private$/b",
                       url(direct.address, "exempt"), url(direct.address, "other")):  # fmt: skip
                qm.send(f"DIRECT={to}", to.encode(), transactional=True)
            seen = proxy.wait(3)
            (exempt,) = direct.wait(1)
    assert exempt.text(".//rp:to") == url(direct.address, "exempt")
    found = {(s.text(".//rp:to") or "").rpartition("/")[2]: s for s in seen}
    assert set(found) == {"Abc", "b", "other"}
    assert found["Abc"].headers["host"].casefold() == "host.example"
    assert found["Abc"].line.casefold() == "post /msmq/private$/abc http/1.1"
    assert found["Abc"].text(".//s:sendReceiptsTo") == "http://receipts.example/r?x=1"
    assert found["b"].text(".//s:sendReceiptsTo") == "http://default.example/r"


@pytest.mark.spec("SR-087", "SR-194", "SR-054", "SR-142")
def test_lists_of_queues_arrive_in_their_order(server: Serving, qm: lior.QueueManager) -> None:
    with Stub() as stub:
        names = [url(stub.address, f"q{number}") for number in range(3)]
        qm.send(",".join(f"DIRECT={name}" for name in names), b"x", response_queue=f"DIRECT={names[0]}",
                correlation_id=bytes(range(20)), tracing_requested=True,
                connector_type=UUID(desk.OTHER_QM))  # fmt: skip
        seen = stub.wait(3)
    for s in seen:
        lists = (s.text(".//m:DestinationMqf") or "")
        assert lists.split() == sorted(names, key=str.casefold)
        assert lists.endswith("\n")
        assert s.text(".//rp:via") == names[0]
        assert s.text(".//m:Correlation") == "AAECAwQFBgcICQoLDA0ODxAREhM="
        assert s.has(".//m:Trace")
        assert s.text(".//m:ConnectorType") == desk.OTHER_QM
    assert {s.text(".//rp:to") for s in seen} == set(names)
    assert len({s.text(".//rp:id") for s in seen}) == 1


@pytest.mark.spec("SR-195", "SR-091", "SR-155")
def test_a_signed_message_goes_out_with_its_signature(server: Serving, qm: lior.QueueManager) -> None:
    from tests.protocols.security.test_xml_signing import key_of, second_verifier

    identity = lior.XmlIdentity.create("me")
    for connect in (desk.connect, lambda server: server.connect()):
        with Stub() as stub, connect(server) as client:
            client.send(f"DIRECT={url(stub.address, 'q')}", b"signed", sign=identity)
            (seen,) = stub.wait(1)
            text = seen.parts()[0].decode()
            signature = text[text.index("<Signature") : text.index("</Signature>") + 12]
            assert second_verifier(signature, key_of(identity), {"body": b"signed"})
            assert text.index("</Msmq>") < text.index("<Signature") < text.index("</se:Header>")


# ---- switches, names -------------------------------------------------------------------------------------------------


@pytest.mark.spec("SR-219", "SR-220", "SR-006")
def test_the_switch_closes_the_port_and_refuses_to_send(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "data") as server, desk.connect(server) as qm, Stub() as stub:
        to = f"DIRECT={url(stub.address, 'q')}"
        for access in ("receive", "peek"):
            with pytest.raises(lior.LiorError) as refused:
                qm.open_queue(to, access)
            assert "UNSUPPORTED_FORMATNAME" in str(refused.value)
        with pytest.raises(lior.LiorError):
            qm.send(f"DIRECT={url(server, 'nosuch')}", b"x")
        qm.set_properties(srmp_http_support=False)
        desk.eventually(lambda: not listening(server))
        with pytest.raises(lior.LiorError):
            qm.send(to, b"x")
        server.restart()
        assert not listening(server)
        with desk.connect(server) as again:
            again.set_properties(srmp_http_support=True)
            desk.eventually(lambda: listening(server))
            again.send(to, b"x")
            stub.wait(1)
            again.set_properties(hardened_security=True)
            again.send(to, b"hardened")
            stub.wait(2)


def listening(server: Serving) -> bool:
    import socket

    try:
        socket.create_connection((server.address, PORT), timeout=60).close()
    except OSError:
        return False
    return True


# ---- TLS -------------------------------------------------------------------------------------------------------------


class Authority:
    """A certificate authority and its certificates, in PEM files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.file = self._write("ca", self._signed(self.name, self.key.public_key(), None, 1, authority=True), self.key)

    def certificate(self, name: str, address: str, days: int = 1) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._write(name, self._signed(subject, key.public_key(), address, days), key)

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, address: str | None, days: int,
                authority: bool = False) -> x509.Certificate:  # fmt: skip
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key) \
            .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=3)) \
            .not_valid_after(now + timedelta(days=days)) \
            .add_extension(x509.BasicConstraints(authority, None), critical=True)  # fmt: skip
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Path:
        file = self.directory / f"{name}.pem"
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return file


def certificate_refused(qm: lior.QueueManager, address: str) -> bool:
    return any(address in str(queue) and "CERTIFICATE" in str(queue).upper() for queue in qm.outgoing())


@pytest.mark.spec("SR-005", "SR-006")
def test_https_goes_to_servers_whose_certificate_is_good_and_to_no_others(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    stranger, authority = Authority(tmp_path / "other"), Authority(tmp_path)
    good, expired, misnamed, unknown = (loopback_address() for _ in range(4))
    files = {
        good: authority.certificate("good", good), expired: authority.certificate("expired", expired, days=-1),
        misnamed: authority.certificate("misnamed", "127.0.0.1"), unknown: stranger.certificate("unknown", unknown),
    }  # fmt: skip
    servers = {
        address: Serving(tmp_path / f"to-{address}", bind=address, settings={
            "srmp.http_port": 0, "srmp.https_port": 8443, "srmp.certificate": str(file)})
        for address, file in files.items()
    }  # fmt: skip
    source = Serving(tmp_path / "from", settings=desk.QUICK | {"srmp.ca_file": str(authority.file)})
    with source, desk.connect(source) as qm:
        for address, server in servers.items():
            with server:
                with server.connect() as there:
                    there.create_queue(r".\private$\q")
                name = f"DIRECT=HTTPS://{address}:8443/msmq/private$/q"
                qm.send(name, b"secret")
                with server.connect() as there:
                    if address == good:
                        with there.open_queue(r".\private$\q") as queue:
                            assert queue.receive(timeout=60).body == b"secret"
                        with pytest.raises(ssl.SSLError):
                            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
                            old.maximum_version = ssl.TLSVersion.TLSv1_1
                            import socket

                            with socket.create_connection((address, 8443)) as plain:
                                old.wrap_socket(plain)
                    else:
                        desk.eventually(partial(certificate_refused, qm, address))
                        assert there.queue(r".\private$\q").messages == 0
                        assert next(i.messages for i in qm.queues() if i.kind == "outgoing" and address in i.name) == 1


def cannot_send(server: Serving) -> bool:
    return "cannot send" in server.log


@pytest.mark.spec("SR-210", "SR-005")
def test_a_server_that_asks_for_certificates_lets_only_known_senders_in(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    to, known, stranger = (loopback_address() for _ in range(3))
    target = Serving(tmp_path / "to", bind=to, settings={
        "srmp.http_port": 0, "srmp.https_port": 8443, "srmp.certificate": str(authority.certificate("to", to)),
        "srmp.client_ca_file": str(authority.file)})  # fmt: skip
    certificates = {known: {"srmp.certificate": str(authority.certificate("known", known)), "srmp.https_port": 0},
                    stranger: {}}  # fmt: skip
    with target, target.connect() as there:
        there.create_queue(r".\private$\q")
        for address in (stranger, known):
            settings = desk.QUICK | {"srmp.ca_file": str(authority.file)} | certificates[address]
            source = Serving(tmp_path / address, bind=address, settings=settings)
            with source, desk.connect(source) as qm:
                qm.send(f"DIRECT=HTTPS://{to}:8443/msmq/private$/q", address.encode())
                if address == known:
                    with there.open_queue(r".\private$\q") as queue:
                        assert queue.receive(timeout=60).body == known.encode()
                else:
                    desk.eventually(partial(cannot_send, source))
                    assert there.queue(r".\private$\q").messages == 0
