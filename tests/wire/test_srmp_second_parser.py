"""Envelopes of ours, read by lxml: a second opinion that shares nothing with lior.wire ([MC-MQSRM] 3.1.7.2.4)."""

from __future__ import annotations

import time
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from lior.message import INFINITE, Message, MessageSoap, ObjectId
from lior.names import parse_format_name
from lior.wire.srmp_elements import (
    CommitmentReceipt,
    DeliveryReceipt,
    Envelope,
    Msmq,
    Services,
    Stream,
    StreamId,
    StreamReceipt,
)
from lior.wire.srmp_message import Receipts, to_envelope
from lior.wire.srmp_reader import read_envelope
from lior.wire.srmp_values import format_date
from lior.wire.srmp_writer import EXAMPLES, TEXT, write_envelope

NS = {"se": "http://schemas.xmlsoap.org/soap/envelope/", "rp": "http://schemas.xmlsoap.org/rp/",
      "s": "http://schemas.xmlsoap.org/srmp/", "m": "msmq.namespace.xml"}  # fmt: skip
TO = "http://host/msmq/private$/q"
GUID = UUID("0f52b9d4-3a1c-4a6e-9d3c-0a4a5b6c7d8e")
text = st.text(st.characters(), max_size=60)


def speakable(label: str) -> str:
    """What XML 1.0 can carry of it."""
    return "".join(
        c if c in "\t\n\r" or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE or ord(c) > 0xFFFF else "\ufffd"
        for c in label
    )


@pytest.mark.spec("SR-196", "SR-045", "SR-190", "SR-194", "SR-076", "SR-077", "SR-031", "SR-048")
@settings(max_examples=200, deadline=None)
@given(
    label=text, priority=st.integers(0, 7), app=st.integers(0, 2**32 - 1),
    reach=st.sampled_from([0, 5, 86400, INFINITE]), sent=st.integers(0, 2**31 - 1),
    number=st.integers(1, 2**32 - 1), form=st.booleans(),
    journal=st.booleans(), dead=st.booleans(),
)  # fmt: skip
def test_another_parser_finds_the_same(
    label: str, priority: int, app: int, reach: int, sent: int, number: int, form: bool, journal: bool, dead: bool
) -> None:
    message = Message(b"x", label, priority=priority, application_tag=app, time_to_reach_queue=reach,
                      positive_journaling_requested=journal, negative_journaling_requested=dead)  # fmt: skip
    message.identifier, message.source_queue_manager, message.sent_time = ObjectId(GUID, number), GUID, float(sent)
    octets = write_envelope(to_envelope(message, TO, Receipts(), text_form=form), TEXT if form else EXAMPLES)
    root = etree.fromstring(octets)
    assert b"\n" not in octets or "\n" in label or "\t" in label
    assert root.findtext(".//rp:action", namespaces=NS) == "MSMQ:" + speakable(label)
    assert root.findtext(".//rp:to", namespaces=NS) == TO
    assert root.findtext(".//rp:id", namespaces=NS) == f"uuid:{number}@{GUID}"
    assert root.findtext(".//m:Priority", namespaces=NS) == str(priority)
    assert root.findtext(".//m:App", namespaces=NS) == (None if form and not app else str(app))
    assert (root.find(".//m:Journal", NS) is not None) is journal
    assert (root.find(".//m:DeadLetter", NS) is not None) is dead
    ends = root.findtext(".//m:TTrq", namespaces=NS)
    assert ends is not None and len(ends) == 15
    end = 2**31 - 1 if reach == INFINITE else min(sent + reach, 2**31 - 1)
    assert ends == time.strftime("%Y%m%dT%H%M%S", time.gmtime(end))
    assert end < 2**31 - 1 or ends == "20380119T031407"
    header = root.find("se:Header", NS)
    assert header is not None
    assert [child.tag for child in header][:2] == [f"{{{NS['rp']}}}path", f"{{{NS['s']}}}properties"]
    again = read_envelope(octets)
    assert again.label == speakable(label)
    assert isinstance(again.msmq, Msmq) and again.msmq.app == app


@pytest.mark.spec("SR-189")
def test_every_entry_of_the_header_has_its_place() -> None:
    envelope = Envelope(
        TO, "label", services=Services(durable=True), stream=Stream(StreamId(GUID, 7), 2, 1, "http://me/r"),
        delivery_receipt=DeliveryReceipt(1, f"uuid:1@{GUID}"),
        commitment_receipt=CommitmentReceipt(1, True, f"uuid:2@{GUID}"),
        stream_receipt=StreamReceipt(StreamId(GUID, 7), 2),
        msmq=Msmq(), header_text='<mine xmlns="u"/>',
    )  # fmt: skip
    root = etree.fromstring(write_envelope(envelope, EXAMPLES, '<Signature xmlns="d"/>'))
    header, body = root
    assert [etree.QName(entry).localname for entry in header] == [
        "path", "properties", "services", "Stream", "streamReceipt", "deliveryReceipt", "commitmentReceipt", "Msmq",
        "Signature", "mine"]  # fmt: skip
    assert etree.QName(body).localname == "Body" and len(body) == 0


@pytest.mark.spec("SR-031")
@pytest.mark.parametrize("seconds", [2**31 - 1, 2**31, 2**32 - 1, 1e11])
def test_a_moment_that_31_bits_do_not_hold_is_the_last_that_they_do(seconds: float) -> None:
    assert format_date(seconds) == "20380119T031407"


@pytest.mark.spec("SR-043", "SR-189")
def test_what_an_application_adds_stands_last_in_the_header() -> None:
    message = Message(b"x", soap=MessageSoap(header='<mine xmlns="u">ü</mine>'))
    message.identifier, message.source_queue_manager = ObjectId(GUID, 1), GUID
    octets = write_envelope(to_envelope(message, TO, Receipts()))
    header = etree.fromstring(octets).find("se:Header", NS)
    assert header is not None
    assert header[-1].tag == "{u}mine"
    assert '<mine xmlns="u">ü</mine></se:Header>' in read_envelope(octets).header_text


@pytest.mark.spec("SR-137", "SR-220")
def test_slashes_and_backslashes_are_the_same_in_a_url() -> None:
    one, other = (parse_format_name(f"DIRECT=HTTP://h/msmq{mark}private$/q") for mark in "/\\")
    assert one == other
