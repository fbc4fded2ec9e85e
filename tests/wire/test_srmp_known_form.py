"""The quick reader of envelopes and the parser: whatever the quick one takes, the parser reads the same."""

from __future__ import annotations

import time
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lior.errors import Malformed
from lior.message import NULL_GUID, ObjectId
from lior.wire import srmp_elements as e
from lior.wire.srmp_known_form import LONGEST, read_known_form
from lior.wire.srmp_reader import read_any_form, read_envelope
from lior.wire.srmp_writer import EXAMPLES, TEXT, write_envelope

GUID = UUID("0f52b9d4-3a1c-4a6e-9d3c-0a4a5b6c7d8e")
URL = "http://host:8080/msmq/private$/q"
text = st.text(st.characters(), max_size=40)
u32 = st.integers(0, 2**32 - 1)
dates = st.integers(0, e.LAST_DATE)
urls = st.sampled_from([URL, "https://[::1]/MSMQ/q?x=1", "http://h/msmq/\N{LATIN SMALL LETTER E WITH ACUTE}"])
streams = st.builds(
    lambda number, current, previous, to: e.Stream(
        e.StreamId(GUID, number), current, previous if previous is None else min(previous, current - 1),
        to if current == 1 else ""),
    st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1), st.none() | u32, urls)  # fmt: skip
msmqs = st.builds(
    e.Msmq, message_class=st.integers(0, 0xFFFF), priority=st.integers(0, 7), journal=st.booleans(),
    dead_letter=st.booleans(), correlation=st.none() | st.binary(min_size=20, max_size=20), trace=st.booleans(),
    app=u32, body_type=u32, hash_algorithm=u32, first=st.booleans(), last=st.booleans(),
    source_qm_guid=st.sampled_from([GUID, NULL_GUID]), ttrq=dates)  # fmt: skip
envelopes = st.builds(
    e.Envelope, to=urls, label=st.none() | text, identifier=st.builds(ObjectId, st.just(GUID), u32),
    via=st.just("") | urls, expires_at=dates, sent_at=st.none() | dates,
    services=st.builds(e.Services, durable=st.booleans(), delivery_receipt_to=st.just("") | urls,
                       commitment_receipt_to=st.just("") | urls, positive_only=st.booleans(),
                       negative_only=st.booleans()),
    stream=st.none() | streams,
    delivery_receipt=st.none() | st.builds(e.DeliveryReceipt, dates, text),
    commitment_receipt=st.none() | st.builds(e.CommitmentReceipt, dates, st.booleans(), text),
    stream_receipt=st.none() | st.builds(e.StreamReceipt, st.builds(e.StreamId, st.just(GUID), u32), u32),
    msmq=msmqs)  # fmt: skip


def agree(octets: bytes) -> bool:
    """Whether the quick reader took it; it must not take what the parser refuses or reads otherwise."""
    quick = read_known_form(octets)
    if quick is not None:
        assert quick == read_any_form(octets), octets
    return quick is not None


@settings(max_examples=300, deadline=None)
@given(envelope=envelopes, form=st.booleans())
def test_both_readers_find_the_same_in_all_that_we_write(envelope: e.Envelope, form: bool) -> None:
    agree(write_envelope(envelope, TEXT if form else EXAMPLES))


PLAIN = e.Envelope(URL, "label", ObjectId(GUID, 7), URL, sent_at=5, services=e.Services(True, URL, URL, True, True),
                   msmq=e.Msmq(source_qm_guid=GUID, journal=True, first=True))  # fmt: skip
STREAM = e.Envelope(URL, "label", ObjectId(GUID, 7), services=e.Services(True), sent_at=5,
                    stream=e.Stream(e.StreamId(GUID, 9), 1, None, URL), msmq=e.Msmq(source_qm_guid=GUID))  # fmt: skip
RECEIPT = e.Envelope(URL, e.ORDERING_ACK, ObjectId(GUID, 7), URL, sent_at=5, msmq=e.Msmq(255, source_qm_guid=GUID),
                     commitment_receipt=e.CommitmentReceipt(5, True, "x"),
                     stream_receipt=e.StreamReceipt(e.StreamId(GUID, 1), 9))  # fmt: skip


@pytest.mark.parametrize("envelope", [PLAIN, STREAM, RECEIPT], ids=["plain", "stream", "receipt"])
def test_what_queue_managers_write_is_read_the_quick_way(envelope: e.Envelope) -> None:
    octets = write_envelope(envelope)
    assert agree(octets)
    header = octets[octets.index(b"<se:Header>") : octets.index(b"<se:Body>")]
    assert read_envelope(octets).header_text == header.decode()


PIECES = [b"<", b">", b"&", b"&amp;", b"&#13;", b"]]>", b"<!--x-->", b"<![CDATA[x]]>", b"<?x?>", b"\0", b"\n", b"\r",
          b"\t", b" ", b"\x7f", b"\xff", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbf\xbe", b"\xef\xbf\xbf",
          b"\xed\xa0\x80",
          b"\xef\xbb\xbf", b"\xf0\x9f\xbf\xbe", b"\xc0\x80", b"</id>", b"<id>", b"x", b"9", b"-", b"",
          b' xmlns="u"', b"se:", b"<durable/>"]  # fmt: skip


@pytest.mark.parametrize("envelope", [PLAIN, STREAM, RECEIPT], ids=["plain", "stream", "receipt"])
def test_both_readers_agree_on_what_somebody_changed(envelope: e.Envelope, seed: int) -> None:
    octets, chance, taken = write_envelope(envelope), Random(seed), 0
    for _ in range(4000):
        changed = octets
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(changed) + 1)
            changed = changed[:at] + chance.choice(PIECES) + changed[at + chance.choice((0, 0, 1, 4)) :]
        taken += agree(changed)
    assert taken > 20


def test_what_is_not_quite_the_form_goes_to_the_parser() -> None:
    octets = write_envelope(PLAIN)
    for changed in (b"\n" + octets, octets + b"\n", octets.replace(b"<id>", b"<id >"),
                    octets.replace(b"label", b"la&amp;bel"), octets.replace(b"<Journal/>", b"<Journal></Journal>"),
                    octets.replace(b"label", b"x" * LONGEST)):  # fmt: skip
        assert read_known_form(changed) is None
    assert read_envelope(octets.replace(b"label", b"la&amp;bel")).label == "la&bel"
    for wrong in (octets.replace(b"<Priority>3", b"<Priority>8"), octets.replace(b"<App>0", b"<App>4294967296"),
                  octets.replace(b"T000005", b"T000060"), octets.replace(b"uuid:7", b"uuid:x")):  # fmt: skip
        assert wrong != octets
        with pytest.raises(Malformed):
            read_envelope(wrong)


def test_what_almost_fits_takes_no_time() -> None:
    octets = write_envelope(PLAIN)
    start = time.process_time()
    for length in (LONGEST - len(octets) - 100,) * 50:
        assert read_known_form(octets.replace(b"label", b"x" * length)[:-1]) is None
    assert time.process_time() - start < 1
