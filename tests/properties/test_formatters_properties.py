"""Formatters: what is written is read back, and any bytes end in a value or in FormatterError."""

import contextlib
from datetime import datetime, timedelta
from decimal import Decimal
from xml.sax.saxutils import escape

from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from lior.client.formatters import (
    ACTIVEX,
    ACTIVEX_DOTNET,
    AUTO,
    FORMATTERS,
    JSON,
    STRING,
    TEXT_LPWSTR,
    XML,
    BodyType,
    Formatter,
    Variant,
)
from lior.errors import FormatterError

RANGES = {16: (-128, 127), 17: (0, 255), 2: (-(1 << 15), (1 << 15) - 1), 18: (0, 65535), 3: (-(1 << 31), (1 << 31) - 1),
          19: (0, (1 << 32) - 1), 20: (-(1 << 63), (1 << 63) - 1), 21: (0, (1 << 64) - 1)}
body_types = st.one_of(st.sampled_from([int(each) for each in BodyType]), st.integers(0, 0xFFFFFFFF))
unicode_text = st.text(st.characters(exclude_categories=["Cs"]))
xml_text = st.text(
    st.one_of(st.sampled_from("\r\n\t <&>]'\""), st.characters(min_codepoint=32, exclude_categories=["Cs"]))
).map(lambda text: text.replace("\ufffe", "").replace("\uffff", ""))
money = st.integers(-(1 << 63), (1 << 63) - 1).map(lambda number: Decimal(number).scaleb(-4))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | unicode_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(unicode_text, inner, max_size=4),
    max_leaves=12,
)


def read_back(formatter: Formatter, value: object) -> object:
    return formatter.decode(*formatter.encode(value))


@given(st.binary(max_size=200), body_types)
def test_any_body_of_any_type_is_a_value_or_a_formatter_error(body: bytes, body_type: int) -> None:
    for formatter in FORMATTERS.values():
        with contextlib.suppress(FormatterError):
            formatter.decode(body, body_type)


@given(st.sampled_from(sorted(RANGES)), st.data())
def test_integers_come_back(body_type: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(*RANGES[body_type]))
    body, written = ACTIVEX.encode(Variant(body_type, value))
    assert written == body_type
    low = RANGES[body_type][0]
    assert body == value.to_bytes(len(body), "little", signed=low < 0)
    assert AUTO.decode(body, body_type) == value


@given(st.one_of(
    unicode_text, st.booleans(), st.floats(allow_nan=False), money, st.uuids(), st.none(), st.binary(),
    st.integers(-(1 << 63), (1 << 64) - 1),
))
def test_auto_reads_what_it_wrote(value: object) -> None:
    assert read_back(AUTO, value) == value


@given(unicode_text)
def test_text_is_utf_16_without_a_terminator(text: str) -> None:
    assert STRING.encode(text) == (text.encode("utf-16-le"), 8)
    if not text.endswith("\0"):
        assert read_back(TEXT_LPWSTR, text) == text


@given(st.datetimes(min_value=datetime(1720, 7, 27), max_value=datetime(2079, 6, 5)))  # noqa: DTZ001
def test_an_ole_date_keeps_microseconds_until_2079(moment: datetime) -> None:
    assert read_back(ACTIVEX, moment) == moment


@given(st.datetimes(min_value=datetime(100, 1, 1)))  # noqa: DTZ001
def test_an_ole_date_keeps_milliseconds_always(moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert read_back(ACTIVEX, moment) == moment


@given(st.datetimes())
def test_ticks_keep_every_datetime_and_no_reader_takes_them_for_an_ole_date(moment: datetime) -> None:
    body, body_type = ACTIVEX_DOTNET.encode(moment)
    epoch = datetime(1, 1, 1)  # noqa: DTZ001
    assert int.from_bytes(body, "little", signed=True) == (moment - epoch) // timedelta(microseconds=1) * 10
    assert ACTIVEX_DOTNET.decode(body, body_type) == moment
    if moment != epoch:
        assert ACTIVEX.decode(body, body_type) == moment


@given(st.one_of(
    xml_text, st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False), st.datetimes(),
    st.uuids(), st.binary(), st.decimals(allow_nan=False, allow_infinity=False, places=6, max_value=10**20,
                                         min_value=-(10**20)),
    st.lists(xml_text), st.lists(st.none() | xml_text), st.lists(st.integers(-(1 << 63), (1 << 63) - 1)),
    st.lists(st.floats(allow_nan=False)), st.lists(st.booleans()),
))
def test_xml_reads_what_it_wrote(value: object) -> None:
    assert read_back(XML, value) == value


@given(xml_text)
def test_lxml_agrees_on_every_text_that_xml_writes(text: str) -> None:
    assert (etree.fromstring(XML.encode(text)[0]).text or "") == text


@given(xml_text.map(lambda text: text.replace("\r", "")))
def test_xml_reads_what_another_writer_wrote(text: str) -> None:
    root = etree.Element("string")
    root.text = text
    assert XML.decode(etree.tostring(root, encoding="utf-8", xml_declaration=True), 0) == text
    assert XML.decode(f"<string>{escape(text)}</string>".encode(), 0) == text


@given(st.binary(max_size=100))
def test_any_content_in_an_element_is_a_value_or_a_formatter_error(content: bytes) -> None:
    for element in (b"string", b"int", b"double", b"decimal", b"dateTime", b"guid", b"base64Binary", b"char"):
        with contextlib.suppress(FormatterError):
            XML.decode(b"<" + element + b">" + content + b"</" + element + b">", 0)


@settings(max_examples=60)
@given(json_values)
def test_json_reads_what_it_wrote_and_writes_it_the_same_way_again(value: object) -> None:
    body, body_type = JSON.encode(value)
    read = JSON.decode(body, body_type)
    assert read == value
    assert JSON.encode(read)[0] == body
