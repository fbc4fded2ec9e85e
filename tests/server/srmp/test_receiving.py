"""What is POSTed to a server, and what its applications read ([MC-MQSRM] 2.2, 3.1.5.1)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

import lior
from lior.message import AuthenticationLevel, MessageClass, ObjectId
from lior.protocols.security.xml_signing import write_signature
from lior.server.transfer_security.administration import SecurityAdministration
from lior.testing.serving import Serving
from lior.wire.sddl import parse_sddl
from tests.server.srmp import desk
from tests.server.srmp.desk import ADMIN, OTHER_QM, PLAIN, PORT, STREAM, Built, Stub, post, services, stream, url
from tests.wire import srmp_examples as examples

RECEIPTS = "http://127.0.0.1:1/msmq/private$/order_queue$"  # nobody listens there


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with desk.serving(tmp_path_factory.mktemp("srmp") / "data") as found:
        yield found


@pytest.fixture
def qm(server: Serving) -> Iterator[lior.QueueManager]:
    with desk.connect(server) as found:
        for path in (PLAIN, STREAM, ADMIN):
            found.purge_queue(path)
        yield found


def taken(qm: lior.QueueManager, path: str = PLAIN) -> list[lior.Message]:
    with qm.open_queue(path, "peek") as queue:
        return list(queue)


def only(qm: lior.QueueManager, path: str = PLAIN) -> lior.Message:
    (found,) = taken(qm, path)
    return found


# ---- the document's examples, with their dates shifted ---------------------------------------------------------------


def shifted(server: Serving, document: bytes, queue: str, by: float) -> bytes:
    """The example with this server in it, and each date later by the same time."""
    def later(found: re.Match[bytes]) -> bytes:
        text = found[1].decode()
        if text.startswith("2038"):
            return found[0]
        moment = datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
        return b">" + desk.stamp(moment + by).encode() + b"<"

    document = re.sub(rb">(\d{8}T\d{6})<", later, document)
    document = document.replace(b"machine2", f"{server.address}:{PORT}".encode())
    return document.replace(b"simpleq", queue.encode()).replace(b"simpleQ", queue.upper().encode())


def since(text: str) -> float:
    return time.time() - datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()


@pytest.mark.spec("SR-214", "SR-075", "SR-052", "SR-009", "SR-135", "SR-136", "SR-036", "SR-037", "SR-138")
def test_the_minimal_example_has_the_defaults_and_comes_twice_when_posted_twice(
    server: Serving, qm: lior.QueueManager
) -> None:
    envelope = shifted(server, examples.SIMPLE, "plain", since("20070608T164419"))
    kind, entity = examples.multipart(53287, envelope, b"First Message", examples.PART_GUID)
    head = desk.request(server.address, kind, b"").partition(b"\r\nContent-Length")[0]
    whole = head + f"\r\nContent-Length: {len(entity)}\r\n\r\n".encode() + entity
    answer = desk.raw(server, whole)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 0\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")
    message = only(qm)
    assert message.body == b"First Message"
    assert message.label == "mqsender label"
    assert (message.priority, message.message_class, message.body_type, message.application_tag) == (3, 0, 0, 0)
    assert message.time_to_reach_queue == 86400
    assert message.time_to_be_received == lior.message.INFINITE
    assert message.identifier == ObjectId(UUID(int=0), 1)
    assert message.destination_queue.casefold() == f"direct={url(server, 'plain')}".casefold()
    assert not message.positive_journaling_requested and not message.negative_journaling_requested
    assert message.delivery_guarantee == 0 and message.acknowledgements_requested == 0
    assert message.correlation_id == bytes(20) and message.transaction is None
    assert message.soap is not None
    assert message.soap.compound_message == whole
    assert message.soap.envelope.encode() == envelope
    assert message.soap.header.startswith("<se:Header>") and message.soap.header.endswith("</se:Header>")
    assert message.soap.body == ""
    assert desk.status(desk.raw(server, whole)) == 200
    assert len(taken(qm)) == 2


@pytest.mark.spec("SR-214", "SR-008", "SR-148", "SR-076", "SR-077", "SR-082", "SR-083", "SR-086", "SR-088", "SR-142")
def test_the_example_with_properties_has_them_whatever_the_case_of_its_queue(
    server: Serving, qm: lior.QueueManager
) -> None:
    guid = "caf195ea-615c-4264-ae08-11a4e60194c0"
    envelope = shifted(server, examples.WITH_MSMQ, "plain", since("20070719T031140"))
    assert b"PLAIN" in envelope
    kind, entity = examples.multipart(26500, envelope, examples.ORDER, guid)
    assert desk.status(desk.raw(server, desk.request(server.address, kind, entity, "/MSMQ/anything?x=y"))) == 200
    message = only(qm)
    assert message.body == examples.ORDER
    assert message.label == ""
    assert message.identifier == ObjectId(UUID(guid), 20503)
    assert message.source_queue_manager == UUID(guid)
    assert message.time_to_reach_queue == 345600
    assert message.time_to_be_received == lior.message.INFINITE
    assert (message.priority, message.body_type) == (3, 0)
    assert message.security is not None and message.security.hash_algorithm == 32772


@pytest.mark.spec("SR-215", "SR-065", "SR-072", "SR-073", "SR-125", "SR-046", "SR-140", "SR-121", "SR-127", "SR-002",
                  "SR-035", "SR-156", "SR-202")  # fmt: skip
def test_the_example_with_requests_is_answered_by_its_receipts(server: Serving, qm: lior.QueueManager) -> None:
    with Stub() as machine1:
        by = since("20070719T032452")
        envelope = shifted(server, examples.WITH_REQUESTS, "plain", by)
        envelope = envelope.replace(b"machine1", f"{machine1.address}:{PORT}".encode())
        kind, entity = examples.multipart(7, envelope, b"x" * 45, examples.PART_GUID)
        assert post(server, (kind, entity)) == 200
        (delivery,) = machine1.wait(1)
        assert taken(qm)[0].label == ""
        with qm.open_queue(PLAIN) as queue:
            queue.receive(timeout=60)
        commitment = machine1.wait(2)[1]
    to = url(server, "plain")
    for receipt, target, number in ((delivery, "receipts", "2"), (commitment, "deliverydone", "16384")):
        assert receipt.headers["content-type"] == "text/xml"
        assert receipt.text(".//rp:action") == "MSMQ:"
        assert receipt.text(".//rp:to") == f"http://{machine1.address}:{PORT}/MSMQ/private$/{target}"
        assert (receipt.text(".//rp:rev/rp:via") or "").casefold() == to.casefold()
        assert receipt.text(".//m:Class") == number
        assert receipt.text(".//m:Priority") == "3"
        assert receipt.text(".//m:Correlation") == "AAAAAAAAAAAAAAAAAAAAAAEAAAA="
        assert [receipt.text(f".//m:{name}") for name in ("BodyType", "App", "HashAlgorithm")] == ["0", "0", "0"]
        assert receipt.text(".//s:expiresAt") == "20380119T031407"
        assert not receipt.has(".//s:services")
    assert delivery.text(".//s:deliveryReceipt/s:id") == examples.NULL_ID
    assert abs(time.time() - date(delivery.text(".//s:receivedAt"))) < 10
    assert commitment.text(".//s:commitmentReceipt/s:decision") == "positive"
    assert commitment.text(".//s:commitmentReceipt/s:id") == examples.NULL_ID
    assert len(machine1.seen) == 2


def date(text: str | None) -> float:
    assert text is not None
    return datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()


@pytest.mark.spec("SR-215", "SR-162", "SR-151", "SR-152")
def test_the_receipts_of_the_document_land_in_the_queue_that_they_name(
    server: Serving, qm: lior.QueueManager
) -> None:
    by = since("20070719T032451")
    for example in (examples.DELIVERY_RECEIPT, examples.COMMITMENT_RECEIPT):
        envelope = shifted(server, example, "x", by).replace(
            b"http://machine1/MSMQ/private$/receipts", url(server, "admin").encode())
        assert post(server, ("text/xml", envelope + b"\r\n")) == 200
    found = taken(qm, ADMIN)
    assert [message.message_class for message in found] == [2, 16384]
    assert all(message.correlation_id == bytes(16) + b"\1\0\0\0" for message in found)


@pytest.mark.spec("SR-216", "SR-067", "SR-061", "SR-071", "SR-074", "SR-123", "SR-047")
def test_the_stream_of_the_document_is_three_messages_in_order_and_a_receipt(
    server: Serving, qm: lior.QueueManager
) -> None:
    with Stub() as machine1:
        by = since("20070619T165959")
        for number in (1, 2, 3):
            envelope = shifted(server, examples.stream_message(number), "x", by).replace(b"tx", b"stream")
            envelope = envelope.replace(b"machine1", f"{machine1.address}:{PORT}".encode())
            entity = examples.multipart(1672, envelope, b"%d" % number, examples.PART_GUID)
            assert post(server, entity) == 200
        receipt = desk.eventually(
            lambda: next((s for s in machine1.seen if s.text(".//s:lastOrdinal") == "3"), None))
    assert [message.body for message in taken(qm, STREAM)] == [b"1", b"2", b"3"]
    assert receipt.line == "POST /MSMQ/private$/receipts?SenderStream=XRntV HTTP/1.1"
    assert receipt.text(".//rp:action") == "MSMQ:QM Ordering Ack"
    assert receipt.text(".//s:streamReceipt/s:streamId") == examples.STREAM
    assert (receipt.text(".//m:Class"), receipt.text(".//m:Priority")) == ("255", "0")
    assert receipt.text(".//m:Correlation") == examples.CORRELATION
    assert len(machine1.seen) <= 3


# ---- the table of outcomes -------------------------------------------------------------------------------------------


def sub(text: str, by: str) -> Callable[[bytes], bytes]:
    def change(envelope: bytes) -> bytes:
        assert text.encode() in envelope, text
        return envelope.replace(text.encode(), by.encode(), 1)

    return change


REFUSED: dict[str, Callable[[bytes], bytes]] = {
    "a document type": lambda e: b"<!DOCTYPE x>" + e,
    "an entity": lambda e: b'<!DOCTYPE x [<!ENTITY a "b">]>' + e.replace(b"label", b"&a;"),
    "a processing instruction": sub("<se:Header>", "<?php x?><se:Header>"),
    "another root": lambda e: e.replace(b"se:Envelope", b"se:Envelop"),
    "SOAP 1.2": lambda e: e.replace(desk.SOAP.encode(), b"http://www.w3.org/2003/05/soap-envelope"),
    "no Body": sub("<se:Body></se:Body>", ""),
    "two Headers": sub("<se:Body>", "<se:Header/><se:Body>"),
    "Body first": lambda e: e.replace(b"<se:Body></se:Body>", b"").replace(b"<se:Header>", b"<se:Body/><se:Header>"),
    "an unknown entry to be understood": sub("</se:Header>", '<x xmlns="u" se:mustUnderstand="1"/></se:Header>'),
    "mustUnderstand that is no number": sub("</se:Header>", '<x xmlns="u" se:mustUnderstand="yes"/></se:Header>'),
    "a path that is not marked": sub('rp/" se:mustUnderstand="1"', 'rp/"'),
    "two paths": lambda e: e.replace(b"<properties", e[e.index(b"<path") : e.index(b"</path>") + 7] + b"<properties"),
    "a path of another namespace": sub('xmlns="http://schemas.xmlsoap.org/rp/"', 'xmlns="http://example.org/rp/"'),
    "two properties": sub("<properties", '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
                          "</properties><properties"),
    "properties that are not marked": sub('<properties se:mustUnderstand="1">', "<properties>"),
    "services that are not marked": sub("</properties>", "</properties><services><durable/></services>"),
    "no action": sub("<action>MSMQ:label</action>", ""),
    "a label that is too long": sub("MSMQ:label", "MSMQ:" + "x" * 250),
    "a destination of another kind": sub("<to>http:", "<to>ftp:"),
    "a destination by its format name": sub("<to>http:", "<to>MSMQ:DIRECT=OS:x\\private$\\q#"),
    "a destination with a user": sub("<to>http://", "<to>http://me@"),
    "no destination": lambda e: re.sub(rb"<to>[^<]*</to>", b"<to> </to>", e),
    "an id without @": sub("<id>uuid:", "<id>uuid"),
    "an index of 33 bits": lambda e: re.sub(rb"uuid:\d+@", b"uuid:4294967296@", e),
    "a GUID in braces": sub(f"<SourceQmGuid>{OTHER_QM}", f"<SourceQmGuid>{{{OTHER_QM}}}"),
    "a GUID that is too short": sub(f"<SourceQmGuid>{OTHER_QM}", f"<SourceQmGuid>{OTHER_QM[:-1]}"),
    "the 29th of February": sub("<expiresAt>20380119T031407", "<expiresAt>20230229T000000"),
    "a date with a zone": sub("<expiresAt>20380119T031407", "<expiresAt>20380119T031407Z"),
    "a date without T": sub("<expiresAt>20380119T031407", "<expiresAt>20380119031407"),
    "priority 8": sub("<Priority>3<", "<Priority>8<"),
    "a negative number": sub("<Priority>3<", "<Priority>-1<"),
    "an empty number": sub("<Priority>3<", "<Priority><"),
    "a number with an exponent": sub("<BodyType>0<", "<BodyType>1e3<"),
    "a class of 17 bits": sub("<Class>0<", "<Class>65536<"),
    "a provider without a type": sub("<TTrq>", "<Provider><Name>x</Name></Provider><TTrq>"),
    "a correlation of 19 octets": sub("<TTrq>", "<Correlation>AAAAAAAAAAAAAAAAAAAAAAAAAA==</Correlation><TTrq>"),
    "a connector that is no GUID": sub("<TTrq>", "<ConnectorType>x</ConnectorType><TTrq>"),
    "two vias": sub("</path>", "<rev><via/><via/></rev></path>"),
    "a receipt to nowhere": sub("</properties>", "</properties>" + services(delivery=" ")),
    "a receipt to no URL": sub("</properties>", "</properties>" + services(delivery="MSMQ:DIRECT=OS:m\\private$\\q")),
    "a receipt to another place of its server": sub("</properties>", "</properties>" + services(
        delivery="http://h/msmq/..%2Fadmin")),
    "a receipt to another place, not disguised": sub("</properties>", "</properties>" + services(
        commitment="http://h/msmq/private$/../../x", flags="<positiveOnly/>")),
    "a stream without a number": sub("</properties>", "</properties>" + stream(5, 0, RECEIPTS)),
    "a stream that is not marked": sub("</properties>", "</properties>" + stream(5, 1, RECEIPTS).replace(
        ' se:mustUnderstand="1"', "")),
    "a first message without start": sub("</properties>", "</properties>" + stream(5, 1)),
    "a second message with start": sub("</properties>", "</properties>" + stream(5, 2, RECEIPTS)),
    "a stream with a slash": sub("</properties>", "</properties>" + stream(5, 1, RECEIPTS).replace("\\", "/")),
    "a number of 33 bits": sub("</properties>", "</properties>" + stream(5, 4294967296)),
    "a stream number of 65 bits": sub("</properties>", "</properties>" + stream(1 << 64, 1, RECEIPTS)),
    "another decision": sub("</properties>", "</properties><commitmentReceipt><decidedAt>20380119T031407</decidedAt>"
                            "<decision>Positive</decision><id>x</id></commitmentReceipt>"),
    "octets that are no UTF-8": lambda e: e.replace(b"MSMQ:label", b"MSMQ:\xff"),
    "another encoding": lambda e: b'<?xml version="1.0" encoding="utf-16"?>' + e,
    "something behind the end": lambda e: e + b"<x/>",
    "a prefix that is not declared": sub("</se:Header>", "<no:x/></se:Header>"),
}  # fmt: skip


@pytest.mark.spec("SR-010", "SR-030", "SR-031", "SR-032", "SR-033", "SR-040", "SR-041", "SR-042", "SR-044", "SR-045",
                  "SR-050", "SR-051", "SR-054", "SR-056", "SR-057", "SR-058", "SR-061", "SR-063", "SR-066", "SR-068",
                  "SR-069", "SR-071", "SR-073", "SR-076", "SR-077", "SR-080", "SR-081", "SR-085", "SR-086", "SR-143",
                  "SR-211")  # fmt: skip
@pytest.mark.parametrize("defect", REFUSED)
def test_each_defect_of_an_envelope_is_answered_400_and_changes_no_queue(
    server: Serving, qm: lior.QueueManager, defect: str
) -> None:
    good = Built(url(server, "plain"))
    envelope = good.envelope()
    changed = REFUSED[defect](envelope)
    assert changed != envelope
    assert post(server, desk.entity(changed, b"body")) == 400
    assert taken(qm) == []


@pytest.mark.spec("SR-066", "SR-075")
def test_a_stream_needs_msmq(server: Serving, qm: lior.QueueManager) -> None:
    built = Built(url(server, "stream"), entries=stream(5, 1, RECEIPTS), msmq_there=False)
    assert post(server, built) == 400


TAKEN: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda e: e,
    "a declaration": lambda e: b'<?xml version="1.0" encoding="UTF-8"?>' + e,
    "a byte order mark": lambda e: b"\xef\xbb\xbf" + e,
    "white space everywhere": lambda e: e.replace(b"><", b">\r\n\t <"),
    "spaces around a number": sub("<Priority>3<", "<Priority> 3 <"),
    "spaces around the destination": lambda e: e.replace(b"<to>", b"<to>\r\n ").replace(b"</to>", b" \r\n</to>"),
    "a GUID in capitals": sub(OTHER_QM + "</SourceQmGuid>", OTHER_QM.upper() + "</SourceQmGuid>"),
    "an unknown entry": sub("</se:Header>", '<x xmlns="u"/></se:Header>'),
    "elements to be ignored": lambda e: e.replace(b"</path>", b"<fwd/><from>x</from><relatesTo/><fault/></path>"),
    "something in Body": sub("<se:Body></se:Body>", "<se:Body><x xmlns='u'>y</x></se:Body>"),
    "an empty via": sub("</path>", "<rev><via></via></rev></path>"),
    "an empty via that is written short": sub("</path>", "<rev><via/></rev></path>"),
    "other prefixes": lambda e: e.replace(b"se:", b"soap:").replace(b":se=", b":soap="),
    "declarations further up": lambda e: e.replace(b' xmlns="msmq.namespace.xml"', b"").replace(
        b"Msmq>", b"q:Msmq>").replace(b"<se:Header>", b'<se:Header xmlns:q="msmq.namespace.xml">').replace(
        b"<q:Msmq>", b'<Msmq xmlns="msmq.namespace.xml">').replace(b"</q:Msmq>", b"</Msmq>"),
    "another order": lambda e: e.replace(
        props := e[e.index(b"<properties") : e.index(b"</properties>") + 13], b"").replace(
        b"</se:Header>", props + b"</se:Header>"),
    "no sentAt": lambda e: re.sub(rb"<sentAt>[^<]*</sentAt>", b"", e),
    "a scheme in capitals": sub("<to>http:", "<to>HTTP:"),
    "a comment": sub("<se:Header>", "<se:Header><!-- > -->"),
}  # fmt: skip


@pytest.mark.spec("SR-030", "SR-032", "SR-033", "SR-038", "SR-041", "SR-042", "SR-050", "SR-054", "SR-055", "SR-056",
                  "SR-060", "SR-008")  # fmt: skip
@pytest.mark.parametrize("form", TAKEN)
def test_each_form_that_is_allowed_is_taken(server: Serving, qm: lior.QueueManager, form: str) -> None:
    envelope = TAKEN[form](Built(url(server, "plain")).envelope())
    assert post(server, desk.entity(envelope, b"body")) == 200
    message = only(qm)
    assert (message.body, message.label, message.priority, message.response_queue) == (b"body", "label", 3, "")
    assert message.soap is not None
    assert message.soap.body.strip() == ("<x xmlns='u'>y</x>" if form == "something in Body" else "")
    assert ("<x xmlns=" in message.soap.header) is (form == "an unknown entry")


@pytest.mark.spec("SR-043", "SR-042")
def test_an_unknown_entry_stays_readable(server: Serving, qm: lior.QueueManager) -> None:
    envelope = Built(url(server, "plain")).envelope().replace(b"</se:Header>", b"<x xmlns='u'>y</x></se:Header>")
    assert post(server, desk.entity(envelope, b"b")) == 200
    message = only(qm)
    assert message.soap is not None and "<x xmlns='u'>y</x></se:Header>" in message.soap.header


@pytest.mark.spec("SR-039", "SR-034")
def test_bodies_and_extensions_of_any_octets_survive(server: Serving, qm: lior.QueueManager) -> None:
    nasty = bytes(range(256)) * 3 + b"\r\n--MSMQ - SOAP boundary, 1--\r\n"
    for body, extension in ((nasty, None), (None, nasty), (nasty, nasty[::-1]), (None, None), (b"", None)):
        assert post(server, Built(url(server, "plain"), body=body, extension=extension)) == 200
    found = [(message.body, message.extension) for message in taken(qm)]
    assert found == [(nasty, b""), (b"", nasty), (nasty, nasty[::-1]), (b"", b""), (b"", b"")]


def windows_form(envelope: bytes, body: bytes) -> tuple[str, bytes]:
    return examples.multipart(9, envelope, body, OTHER_QM)


@pytest.mark.spec("SR-036", "SR-037")
def test_lying_and_odd_entities(server: Serving, qm: lior.QueueManager) -> None:
    def built() -> bytes:
        return Built(url(server, "plain")).envelope()

    kind, good = windows_form(built(), b"body")
    for entity in (
        good.removesuffix(b"\r\n"), b"\r\n" + windows_form(built(), b"body")[1],
        windows_form(built(), b"body")[1].replace(b"--MSMQ", b"\r\n--MSMQ", 2).removeprefix(b"\r\n"),
    ):  # fmt: skip
        assert post(server, (kind, entity)) == 200
    assert len(taken(qm)) == 3
    kind, good = windows_form(built(), b"body")
    bad = [
        good.replace(b"Content-Length: 4\r\n", b"Content-Length: 5\r\n"),
        good.replace(b"Content-Length: 4\r\n", b"Content-Length: 3\r\n"),
        good.replace(b"Content-Length: 4\r\n", b"Content-Length: 99999999\r\n"),
        good.replace(b"Content-Length: 4\r\n", b"Content-Length: -4\r\n"),
        good.replace(b"Content-Length: 4\r\n", b"Content-Length: 4\r\nContent-Length: 4\r\n"),
        good.replace(b"charset=UTF-8", b"charset=utf-16"),
        good.replace(b"9--", b"8--"), good[:-8], good + b"more", good[20:], b"",
    ]  # fmt: skip
    for entity in bad:
        assert entity != good
        assert post(server, (kind, entity)) == 400, entity[:2000]
    for wrong in ("application/soap+xml", "multipart/related", 'multipart/mixed; boundary="x"', "",
                  f'{kind}; boundary="y"', kind.replace("text/xml", "image/png"), "text/xml; charset=latin-1"):
        assert post(server, (wrong, good)) == 400, wrong
    assert len(taken(qm)) == 3


@pytest.mark.spec("SR-035", "SR-143")
def test_a_receipt_with_an_attachment_is_refused(server: Serving, qm: lior.QueueManager) -> None:
    entry = "<deliveryReceipt><receivedAt>20240229T000000</receivedAt><id>x</id></deliveryReceipt>"
    built = Built(url(server, "admin"), entries=entry, message_class=2)
    assert post(server, built) == 400
    built.body = None
    assert post(server, built) == 200
    assert only(qm, ADMIN).message_class == 2


@pytest.mark.spec("SR-011", "SR-008", "SR-007")
def test_what_is_no_srmp_request_is_told_so(server: Serving, qm: lior.QueueManager) -> None:
    kind, data = Built(url(server, "plain")).entity()
    for method, path, wanted in (
        ("GET", "/msmq/private$/plain", 405), ("PUT", "/msmq/x", 405), ("HEAD", "/msmq/x", 405),
        ("DELETE", "/msmq/x", 405), ("POST", "/", 404), ("POST", "/msmqx/private$/plain", 404), ("GET", "/", 404),
        ("POST", "/msmq", 404),
    ):  # fmt: skip
        answer = desk.raw(server, desk.request(server.address, kind, data, path, method))
        assert desk.status(answer) == wanted, (method, path)
        assert (b"\r\nAllow: POST\r\n" in answer) is (wanted == 405)
        assert b"Traceback" not in answer
    assert taken(qm) == []


# ---- where to --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("SR-145", "SR-148", "SR-149", "SR-010", "SR-106", "SR-136")
def test_only_queues_of_this_machine_that_fit_are_delivered_to(server: Serving, qm: lior.QueueManager) -> None:
    name = qm.properties()["computer_name"]
    good = [url(server, "plain"), url(server, "PLAIN").replace("msmq", "MSMQ"), url(name, "plain"),
            url("localhost", "plain"), f"http://{server.address}/msmq/Private$/Plain",
            f"http://{server.address}:{PORT}/msmq/private$\\plain", url(server, "pl%61in") + "?a=b",
            f"https://{server.address}/msmq/private$/plain"]  # fmt: skip
    for to in good:
        assert post(server, Built(to)) == 200, to
    assert len(taken(qm)) == len(good)
    bad = [url(server, "nosuch"), f"http://{server.address}/msmq/plain", url("192.0.2.7", "plain"),
           url("elsewhere.example", "plain"), f"http://{server.address}/other/private$/plain",
           url(server, "plain;sub"), url(server, "plain;journal"), "MSMQ:MULTICAST=234.1.1.1:8001"]  # fmt: skip
    for to in bad:
        assert post(server, Built(to)) == 400, to
    assert post(server, Built(url(server, "stream"))) == 400
    assert post(server, Built(url(server, "plain"), entries=stream(5, 1, RECEIPTS))) == 400
    assert len(taken(qm)) == len(good)
    assert taken(qm, STREAM) == []


@pytest.mark.spec("SR-151", "SR-152", "SR-126", "SR-010", "SR-047")
def test_what_is_of_no_kind_is_answered_and_dropped(server: Serving, qm: lior.QueueManager) -> None:
    delivery = "<deliveryReceipt><receivedAt>20240229T000000</receivedAt><id>x</id></deliveryReceipt>"
    decided = ("<commitmentReceipt><decidedAt>20240229T000000</decidedAt><decision>{}</decision><id>x</id>"
               "</commitmentReceipt>")  # fmt: skip
    receipt = f"<streamReceipt><streamId>uid:{OTHER_QM}\\7</streamId><lastOrdinal>1</lastOrdinal></streamReceipt>"
    pairs = [(16384, "positive"), (32769, "negative"), (49152, "negative"), (49153, "negative"), (49154, "negative"),
             (49156, "negative")]  # fmt: skip
    for number, decision in pairs:
        built = Built(url(server, "admin"), body=None, entries=decided.format(decision), message_class=number)
        assert post(server, built) == 200
    assert [message.message_class for message in taken(qm, ADMIN)] == [number for number, _ in pairs]
    qm.purge_queue(ADMIN)
    dropped = [(0, delivery), (255, delivery), (1, ""), (12345, ""), (2, ""), (16384, decided.format("negative")),
               (49152, decided.format("positive")), (2, decided.format("positive")), (255, receipt),
               (2, delivery + receipt)]  # the stream receipt has another label  # fmt: skip
    for number, entries in dropped:
        body = b"x" if not entries else None
        built = Built(url(server, "admin"), body=body, entries=entries, message_class=number)
        assert post(server, built) == 200, (number, entries)
    assert taken(qm, ADMIN) == []


# ---- duplicates and streams ------------------------------------------------------------------------------------------


@pytest.mark.spec("SR-100", "SR-172", "SR-053", "SR-200", "SR-010", "SR-134")
def test_a_message_that_comes_again_is_dropped_but_not_its_copy_for_another_queue(
    server: Serving, qm: lior.QueueManager
) -> None:
    one = Built(url(server, "plain"), identifier=f"uuid:4000000077@{OTHER_QM}", entries=services())
    other = Built(url(server, "plain"), identifier="uuid:4000000077@11111111-2222-3333-4444-555555555555")  # note 7
    assert [post(server, one), post(server, one), post(server, other)] == [200, 200, 200]
    assert only(qm).identifier == ObjectId(UUID(OTHER_QM), 4000000077)
    one.to = url(server, "admin")
    assert post(server, one) == 200
    assert only(qm, ADMIN).identifier == ObjectId(UUID(OTHER_QM), 4000000077)


def numbers(qm: lior.QueueManager) -> list[bytes]:
    return [message.body for message in taken(qm, STREAM)]


def in_stream(server: Serving, number: int, current: int, previous: int | None = None, receipts: str = RECEIPTS,
              **fields: object) -> int:  # fmt: skip
    start = receipts if current == 1 else ""
    body = b"%d.%d" % (number, current)
    built = Built(url(server, "stream"), body=body, entries=stream(number, current, start, previous))
    for name, value in fields.items():
        setattr(built, name, value)
    return post(server, built)


@pytest.mark.spec("SR-157", "SR-116", "SR-070", "SR-159", "SR-069", "SR-141", "SR-010", "SR-118")
def test_a_stream_is_taken_in_its_order_alone(server: Serving, qm: lior.QueueManager) -> None:
    base = 0x7000000000000000 + (time.time_ns() & 0xFFFFFFFFFF)
    steps = [(0, 2, None), (0, 1, None), (0, 1, None), (0, 3, None), (0, 2, None), (0, 5, 2), (0, 4, None), (0, 9, 6),
             (1, 2, 1), (1, 1, None), (0, 6, None), (0, 1, None), (1, 2, None)]  # fmt: skip
    for offset, current, previous in steps:
        assert in_stream(server, base + offset, current, previous) == 200
    found = [int(body.split(b".")[1]) for body in numbers(qm)]
    offsets = [int(body.split(b".")[0]) - base for body in numbers(qm)]
    assert list(zip(offsets, found, strict=True)) == [(0, 1), (0, 2), (0, 5), (1, 1), (1, 2)]
    transactions = [message.transaction for message in taken(qm, STREAM)]
    assert all(t is not None for t in transactions)
    assert [t.previous_sequence_number for t in transactions if t] == [0, 1, 2, 0, 1]


@pytest.mark.spec("SR-122", "SR-123", "SR-158", "SR-160", "SR-180", "SR-105")
def test_receipts_of_a_stream_say_how_far_it_got_and_come_again_for_what_comes_again(
    server: Serving, qm: lior.QueueManager
) -> None:
    number = 0x7100000000000000 + (time.time_ns() & 0xFFFFFFFFFF)
    with Stub() as sender:
        to = url(sender.address, "order_queue$")

        def told(ordinal: str, after: int) -> int:
            """How many receipts there are when one after those says so."""
            desk.eventually(lambda: ordinal in [s.text(".//s:lastOrdinal") for s in list(sender.seen)[after:]])
            return len(sender.seen)

        for current, previous in ((1, None), (2, None), (4, None)):
            assert in_stream(server, number, current, previous, to) == 200
        count = told("2", 0)
        assert in_stream(server, number, 4, 2, to) == 200  # 3 expired: the way to 4 is from 2
        count = told("4", count)
        assert in_stream(server, number, 2, None, to) == 200
        count = told("4", count)
        assert {s.text(".//s:streamId") for s in sender.seen} == {f"uid:{OTHER_QM}\\{number}"}
        server.restart(kill=True)  # the address of the receipts is kept
        assert in_stream(server, number, 5, None, to) == 200
        told("5", count)
        ordinals = [int(s.text(".//s:lastOrdinal") or 0) for s in sender.seen]
        assert ordinals == sorted(ordinals) and 3 not in ordinals


@pytest.mark.spec("SR-123", "SR-160")
def test_receipts_of_a_busy_stream_are_not_put_off_for_ever(tmp_path: object) -> None:
    from pathlib import Path

    settings = {"srmp__receipt_delay": 2.5, "srmp__longest_receipt_delay": 3.5}
    with desk.serving(Path(str(tmp_path)) / "data", **settings) as server, Stub() as sender:
        to, number, start = url(sender.address, "x"), 0x7200000000000000, time.monotonic()
        current = 0
        while not sender.seen:
            current += 1
            assert in_stream(server, number, current, None, to) == 200
            assert time.monotonic() - start < 60
            sender._changed.acquire()
            sender._changed.wait(0.2)
            sender._changed.release()
        waited = sender.seen[0].at - start
        assert 3.4 < waited < 20.0
        assert 1 < int(sender.seen[0].text(".//s:lastOrdinal") or 0) <= current


# ---- receipts --------------------------------------------------------------------------------------------------------


FLAGS = ["", "<positiveOnly/>", "<negativeOnly/>", "<negativeOnly/><positiveOnly/>"]


@pytest.mark.spec("SR-065", "SR-064", "SR-113", "SR-121", "SR-202", "SR-139")
@pytest.mark.parametrize("flags", FLAGS)
def test_commitment_receipts_are_of_the_outcomes_that_were_asked_for(
    server: Serving, qm: lior.QueueManager, flags: str
) -> None:
    with Stub() as sender:
        asked = services(commitment=url(sender.address, "done"), flags=flags)
        outcomes = {"received": 16384, "purged": 49153, "deleted": 49152, "expired": 49154}
        for outcome in outcomes:
            path = rf".\private$\{outcome}-{FLAGS.index(flags)}"
            qm.create_queue(path)
            soon = desk.stamp(time.time() + 1) if outcome == "expired" else "20380119T031407"
            built = Built(url(server, path.rpartition("\\")[2]), entries=asked, label=outcome, expires=soon)
            assert post(server, built) == 200
            with qm.open_queue(path) as queue:
                if outcome == "received":
                    queue.receive(timeout=60)
            if outcome == "purged":
                qm.purge_queue(path)
            elif outcome == "deleted":
                qm.delete_queue(path)
        wanted = {outcome: number for outcome, number in outcomes.items()
                  if ("positive" if number == 16384 else "negative") in flags}  # fmt: skip
        desk.eventually(lambda: not qm.queue(rf".\private$\expired-{FLAGS.index(flags)}").messages)
        sender.wait(len(wanted))
        found = {(s.text(".//rp:action") or "").removeprefix("MSMQ:"): s for s in sender.seen}
        assert {label: int(s.text(".//m:Class") or 0) for label, s in found.items()} == wanted
        for seen in sender.seen:
            positive = seen.text(".//m:Class") == "16384"
            assert seen.text(".//s:decision") == ("positive" if positive else "negative")


@pytest.mark.spec("SR-124", "SR-203", "SR-117", "SR-079", "SR-115")
@pytest.mark.parametrize("dead_letter", [True, False])
def test_final_stream_receipts_are_for_messages_with_dead_letters(
    server: Serving, qm: lior.QueueManager, dead_letter: bool
) -> None:
    number = 0x7400000000000000 + (time.time_ns() & 0xFFFFFFFFFF)
    with Stub() as sender:
        to = url(sender.address, "finals")
        msmq = "<DeadLetter/>" if dead_letter else ""
        assert in_stream(server, number, 1, None, to, msmq=msmq) == 200
        assert in_stream(server, number, 2, None, to, msmq=msmq) == 200
        assert sender.wait(1)[-1].text(".//m:Class") == "255"
        assert in_stream(server, number + 1, 1, None, url(sender.address, "later"), msmq="") == 200  # another stream
        with qm.open_queue(STREAM) as queue, qm.transaction() as transaction:
            queue.receive(timeout=60, transaction=transaction)
            transaction.abort()
        with qm.open_queue(STREAM) as queue:
            queue.receive(timeout=60)
            queue.receive(timeout=60)
        if dead_letter:
            finals = desk.eventually(lambda: found if len(found := [
                s for s in list(sender.seen) if s.has(".//s:commitmentReceipt")]) == 2 else None)
            assert [s.text(".//s:lastOrdinal") for s in finals] == ["1", "2"]
            assert {s.text(".//rp:to") for s in finals} == {to}
            assert {s.text(".//s:decision") for s in finals} == {"positive"}
            assert {s.text(".//rp:action") for s in finals} == {"MSMQ:QM Ordering Ack"}
        desk.eventually(lambda: any("later" in s.line for s in list(sender.seen)))
        assert sum(s.has(".//s:commitmentReceipt") for s in sender.seen) == (2 if dead_letter else 0)


@pytest.mark.spec("SR-126")
def test_a_receipt_gets_no_receipt(server: Serving, qm: lior.QueueManager) -> None:
    with Stub() as sender:
        entries = services(delivery=url(sender.address, "x")) + (
            "<deliveryReceipt><receivedAt>20240229T000000</receivedAt><id>x</id></deliveryReceipt>")
        built = Built(url(server, "admin"), body=None, entries=entries, message_class=2)
        assert post(server, built) == 200
        built = Built(url(server, "plain"), entries=services(delivery=url(sender.address, "y")))
        assert post(server, built) == 200
        assert [s.line.split()[1] for s in sender.wait(1)] == ["/msmq/private$/y"]


@pytest.mark.spec("SR-060", "SR-150", "SR-059", "SR-138")
def test_a_message_that_comes_too_late_is_answered_and_takes_the_way_of_expired_ones(
    server: Serving, qm: lior.QueueManager
) -> None:
    with Stub() as sender:
        where = url(sender.address, "x")
        asked = services(commitment=where, flags="<negativeOnly/>", delivery=where)
        late = Built(url(server, "plain"), entries=asked, sent=time.time() - 100, reach=50, msmq="<DeadLetter/>")
        assert post(server, late) == 200
        (receipt,) = sender.wait(1)
        assert receipt.text(".//m:Class") == "49154"
        assert receipt.text(".//s:decision") == "negative"
        assert taken(qm) == []
    with qm.open_queue(r".\system$;DEADLETTER", "peek") as dead:
        assert [m.failure_reason for m in dead if m.body == b"body"][-1:] == [MessageClass.NACK_RECEIVE_TIMEOUT]


# ---- rights, quotas, signatures --------------------------------------------------------------------------------------


@pytest.mark.spec("SR-010", "SR-174", "SR-134")
def test_a_full_queue_drops_and_a_full_machine_makes_the_sender_wait(server: Serving, qm: lior.QueueManager) -> None:
    path = r".\private$\full"
    qm.create_queue(path, quota=1)
    with Stub() as sender:
        asked = services(delivery=url(sender.address, "x"))
        for _ in range(3):
            assert post(server, Built(url(server, "full"), body=bytes(700), entries=asked)) == 200
        assert len(taken(qm, path)) < 3
        sent = len(sender.seen)
        assert sent <= len(taken(qm, path))
    before = qm.properties()["queue_manager_quota"]
    qm.set_properties(queue_manager_quota=1)
    try:
        assert post(server, Built(url(server, "plain"), body=bytes(5000))) == 500
    finally:
        qm.set_properties(queue_manager_quota=before)
    qm.delete_queue(path)


@pytest.mark.spec("SR-153", "SR-154", "SR-155", "SR-010", "SR-089")
def test_signed_messages(server: Serving, qm: lior.QueueManager) -> None:
    path = r".\private$\signed"
    qm.create_queue(path, authentication=True)
    signer, stranger = lior.XmlIdentity.create("one"), lior.XmlIdentity.create("two")
    SecurityAdministration.of_directory(server.data).register_certificate(OTHER_QM, signer.certificate_pem)

    def send(to: str, by: lior.XmlIdentity | None, body: bytes = b"body", signed: bytes = b"body",
             key_info: bool = False) -> None:  # fmt: skip
        text = "" if by is None else write_signature(
            signed, b"", OTHER_QM, by.key, 0x8004, by.certificate if key_info else b"")
        assert post(server, Built(url(server, to), body=body, entries=text, label=str(key_info))) == 200

    for to, count in (("signed", 0), ("plain", 0)):
        send(to, signer, body=b"tampered")
        send(to, stranger)
        send(to, signer, signed=b"another body")
        assert len(taken(qm, rf".\private$\{to}")) == count
    send("signed", None)
    send("signed", stranger, key_info=True)
    assert taken(qm, path) == []
    send("signed", signer)
    send("signed", signer, key_info=True)
    send("plain", signer)
    send("plain", stranger, key_info=True)
    levels = [m.security.authentication_level if m.security else 0 for m in taken(qm, path) + taken(qm)]
    assert levels == [AuthenticationLevel.XML_SIG] * 3 + [AuthenticationLevel.NONE]
    qm.delete_queue(path)


@pytest.mark.spec("SR-173", "SR-010")
def test_who_may_not_write_here_is_answered_and_dropped(server: Serving, qm: lior.QueueManager) -> None:
    path = r".\private$\closed"
    qm.create_queue(path)
    assert post(server, Built(url(server, "closed"))) == 200
    assert len(taken(qm, path)) == 1
    descriptor = qm.get_security(path)
    assert descriptor.owner is not None
    qm.set_security(path, parse_sddl(f"D:(A;;0x2003F;;;{descriptor.owner})"))
    with Stub() as sender:
        asked = services(delivery=url(sender.address, "r"))
        assert post(server, Built(url(server, "closed"), entries=asked)) == 200
        assert post(server, Built(url(server, "plain"), entries=asked)) == 200
        sender.wait(1)
        assert len(taken(qm, path)) == 1
        assert len(sender.seen) == 1
    qm.delete_queue(path)


@pytest.mark.spec("SR-137", "SR-136", "SR-054")
def test_a_response_queue_is_a_format_name_that_can_be_opened(server: Serving, qm: lior.QueueManager) -> None:
    for via in (url(server, "admin"), rf"MSMQ:DIRECT=TCP:{server.address}\private$\admin"):
        assert post(server, Built(url(server, "plain"), via=via)) == 200
        with qm.open_queue(PLAIN) as queue:
            message = queue.receive(timeout=60)
        assert message.response_queue.startswith("DIRECT=")
        qm.send(message.response_queue, b"answer")
        with qm.open_queue(ADMIN) as queue:
            assert queue.receive(timeout=60).body == b"answer"


@pytest.mark.spec("SR-201")
def test_what_did_not_come_by_srmp_gets_no_srmp_receipt(server: Serving, qm: lior.QueueManager) -> None:
    with Stub() as other:
        qm.send(PLAIN, b"local", acknowledge=15, admin_queue=f"DIRECT={url(other.address, 'a')}")
        with qm.open_queue(PLAIN) as queue:
            queue.receive(timeout=60)
        qm.send(f"DIRECT={url(other.address, 'q')}", b"x")
        for seen in other.wait(1):
            assert not seen.has(".//s:deliveryReceipt")
            assert not seen.has(".//s:commitmentReceipt")
