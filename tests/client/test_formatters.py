"""Bodies against vectors written by hand, a second decoder made with struct, and lxml as a second XML reader."""

import base64
import json
import math
import struct
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from lxml import etree

from lior.client.formatters import (
    ACTIVEX,
    ACTIVEX_DOTNET,
    AUTO,
    BYTES,
    FORMATTERS,
    JSON,
    STRING,
    TEXT_LPSTR,
    TEXT_LPWSTR,
    XML,
    ActiveXFormatter,
    BodyType,
    BytesFormatter,
    TextFormatter,
    Variant,
    XmlFormatter,
    formatter_named,
)
from lior.errors import FormatterError

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
HEAD = b'<?xml version="1.0"?>\r\n'
NAMESPACES = b' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'


def naive(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


def refused(call: Callable[..., object], *arguments: object) -> FormatterError:
    with pytest.raises(FormatterError) as caught:
        call(*arguments)
    error = caught.value
    assert type(error) is FormatterError
    assert error.what
    assert error.where
    return error


# Written by hand: value, body type, body.
VECTORS = [
    ("abc", 8, "61 00 62 00 63 00"),  # VB: msg.Body = "abc"
    ("", 8, ""),
    ("€", 8, "AC 20"),
    ("😀", 8, "3D D8 00 DE"),
    ("abc", 31, "61 00 62 00 63 00"),
    ("a€ü", 30, "61 80 FC"),
    (-2, 16, "FE"),
    (200, 17, "C8"),
    (-2, 2, "FE FF"),
    (65534, 18, "FE FF"),
    (1, 3, "01 00 00 00"),
    (-2, 3, "FE FF FF FF"),
    (4294967294, 19, "FE FF FF FF"),
    (-2, 20, "FE FF FF FF FF FF FF FF"),
    (1 << 63, 21, "00 00 00 00 00 00 00 80"),
    (1.5, 4, "00 00 C0 3F"),
    (1.5, 5, "00 00 00 00 00 00 F8 3F"),
    (True, 11, "FF FF"),
    (False, 11, "00 00"),
    (Decimal("1.25"), 6, "D4 30 00 00 00 00 00 00"),
    (Decimal("-0.0001"), 6, "FF FF FF FF FF FF FF FF"),
    (Decimal("922337203685477.5807"), 6, "FF FF FF FF FF FF FF 7F"),
    (naive(1899, 12, 30), 7, "00 00 00 00 00 00 00 00"),
    (naive(1899, 12, 31, 12), 7, "00 00 00 00 00 00 F8 3F"),  # 1.5
    (naive(1899, 12, 29, 6), 7, "00 00 00 00 00 00 F4 BF"),  # -1.25: the day before, six hours on
    (naive(2000, 1, 1), 7, "00 00 00 00 C0 D5 E1 40"),  # 36526
    (GUID, 72, "33 22 11 00 55 44 77 66 88 99 AA BB CC DD EE FF"),
    (None, 1, ""),
    (b"\x00\xff", 0x1011, "00 FF"),
    (b"\x00\xff", 0x2011, "00 FF"),
    (b"\x00\xff", 0, "00 FF"),
]


@pytest.mark.parametrize(("value", "body_type", "text"), VECTORS)
def test_writes_and_reads_each_body_type_as_the_table_says(value: object, body_type: int, text: str) -> None:
    body = bytes.fromhex(text)
    assert ACTIVEX.encode(Variant(body_type, value)) == (body, body_type)
    for formatter in (ACTIVEX, AUTO):
        read = formatter.decode(body, body_type)
        assert read == value
        assert type(read) is type(value)


def test_reads_the_body_of_the_captured_packet() -> None:
    # [MS-MQQB] 4.1.7: BodyType VT_BSTR, MessageSize 2000, 61 00 a thousand times
    assert AUTO.decode(bytes.fromhex("61 00") * 1000, 8) == "a" * 1000


def second_decode(body: bytes, body_type: int) -> object:
    """A decoder of its own, from the table of PROPID_M_BODY_TYPE."""
    numbers = {2: "h", 3: "i", 4: "f", 5: "d", 16: "b", 17: "B", 18: "H", 19: "I", 20: "q", 21: "Q"}
    if body_type in numbers:
        return struct.unpack("<" + numbers[body_type], body)[0]
    if body_type in (8, 31):
        return "".join(map(chr, struct.unpack(f"<{len(body) // 2}H", body)))
    if body_type == 11:
        return {-1: True, 0: False}[struct.unpack("<h", body)[0]]
    if body_type == 6:
        return Decimal(struct.unpack("<q", body)[0]) / 10000
    if body_type == 7:
        days = struct.unpack("<d", body)[0]
        return naive(1899, 12, 30) + timedelta(seconds=round(days * 86400))
    if body_type == 72:
        first, second, third, *rest = struct.unpack("<IHH8B", body)
        return UUID(f"{first:08x}{second:04x}{third:04x}" + "".join(f"{each:02x}" for each in rest))
    assert body_type in (1, 0x1011)
    return body or None


@pytest.mark.parametrize(
    ("value", "body_type"),
    [
        ("Grüße", 31), (b"xyz", 0x1011), (True, 11), (False, 11), (7, 3), (-(1 << 31), 3), (1 << 31, 20),
        (-(1 << 63), 20), (1 << 63, 21), (2.5, 5), (Decimal("12.3456"), 6), (naive(2024, 2, 29, 23, 59, 59), 7),
        (GUID, 72), (None, 1),
    ],
)
def test_activex_chooses_the_body_types_of_dotnet(value: object, body_type: int) -> None:
    body, chosen = ACTIVEX.encode(value)
    assert chosen == body_type
    assert second_decode(body, chosen) == value


def test_auto_claims_nothing_for_bytes_and_writes_text_as_vb_does() -> None:
    assert AUTO.encode(b"\x01") == (b"\x01", 0)
    assert AUTO.encode(bytearray(b"\x01")) == (b"\x01", 0)
    assert AUTO.encode("abc") == (b"a\0b\0c\0", 8)
    assert AUTO.encode({"b": 1, "a": [True, None]}) == (b'{"a":[true,null],"b":1}', 0)
    assert AUTO.encode((1, 2)) == (b"[1,2]", 0)
    assert AUTO.encode(5) == (b"\5\0\0\0", 3)
    assert AUTO.encode(1 << 31)[1] == 20
    assert AUTO.encode(True) == (b"\xff\xff", 11)


def test_auto_reads_an_unknown_body_type_as_bytes() -> None:
    for body_type in (0, 10, 0xDEADBEEF, 0xFFFFFFFF, 0x4008):
        assert AUTO.decode(b"<string>x</string>", body_type) == b"<string>x</string>"


def test_activex_refuses_an_unknown_body_type_and_names_the_remedy() -> None:
    assert "'bytes'" in refused(ACTIVEX.decode, b"x", 0xDEADBEEF).remedy
    refused(ACTIVEX.encode, Variant(0xDEADBEEF, b"x"))


@pytest.mark.parametrize("body_type", [9, 13, 66, 67, 68, 69])
def test_passes_objects_through_as_bytes_with_their_type(body_type: int) -> None:
    read = AUTO.decode(b"\1\2\3", body_type)
    assert read == Variant(body_type, b"\1\2\3")
    assert AUTO.encode(read) == (b"\1\2\3", body_type)


def test_never_deserialises_a_dotnet_binary_object_but_hands_out_its_bytes() -> None:
    body = bytes.fromhex("00 01 00 00 00 FF FF FF FF 01 00 00 00 00 00 00 00")
    for name, formatter in FORMATTERS.items():
        if name == "bytes":
            assert formatter.decode(body, 768) == body
        else:
            error = refused(formatter.decode, body, 768)
            assert "BinaryMessageFormatter" in error.what
            assert "'bytes'" in error.remedy
    refused(ACTIVEX.encode, Variant(768, b""))


def test_reads_the_one_byte_boolean_of_dotnet() -> None:
    assert ACTIVEX.decode(b"\xff", 11) is True
    assert ACTIVEX.decode(b"\x00", 11) is False


def test_reads_the_ticks_that_dotnet_writes_for_a_date_and_writes_them_when_asked() -> None:
    # DateTime(2024, 1, 2, 3, 4, 5).Ticks = 638397614450000000 = 0x08DC0B3F7ABFC080
    ticks = (638397614450000000).to_bytes(8, "little")
    moment = naive(2024, 1, 2, 3, 4, 5)
    assert ACTIVEX.decode(ticks, 7) == moment
    assert ACTIVEX_DOTNET.encode(moment) == (ticks, 7)
    assert ACTIVEX_DOTNET.decode(ACTIVEX.encode(moment)[0], 7) == moment
    last = (3155378975999999999).to_bytes(8, "little")
    assert ACTIVEX.decode(last, 7) == naive(9999, 12, 31, 23, 59, 59, 999999)


def test_eight_zero_bytes_are_the_epoch_of_the_form_that_was_chosen() -> None:
    assert ACTIVEX.decode(bytes(8), 7) == naive(1899, 12, 30)
    assert ACTIVEX_DOTNET.decode(bytes(8), 7) == naive(1, 1, 1)


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), -657435.0, 2958466.0, 1e300, math.nextafter(2958466.0, 0)]
)
def test_refuses_a_date_outside_the_years_100_to_9999(number: float) -> None:
    refused(ACTIVEX.decode, struct.pack("<d", number), 7)


def test_refuses_negative_ticks_and_ticks_after_the_year_9999() -> None:
    refused(ACTIVEX.decode, struct.pack("<q", -1), 7)
    refused(ACTIVEX.decode, struct.pack("<q", 3155378976000000000 + (1 << 62)), 7)


def test_refuses_a_date_with_a_time_zone_because_the_body_has_none() -> None:
    assert "replace(tzinfo=None)" in refused(ACTIVEX.encode, datetime(2024, 1, 1, tzinfo=UTC)).remedy


def test_refuses_microseconds_that_an_ole_date_would_lose() -> None:
    last = naive(9999, 12, 31, 23, 59, 59, 999999)
    for moment in (last, naive(1606, 1, 1, 0, 0, 0, 1), naive(2100, 1, 1, 0, 0, 0, 9)):
        assert "microsecond" in refused(ACTIVEX.encode, moment).remedy
        assert ACTIVEX_DOTNET.decode(*ACTIVEX_DOTNET.encode(moment)) == moment
    assert ACTIVEX.decode(*ACTIVEX.encode(naive(2024, 1, 1, 0, 0, 0, 1))) == naive(2024, 1, 1, 0, 0, 0, 1)


def test_refuses_money_with_more_than_four_decimals_instead_of_rounding_it() -> None:
    refused(ACTIVEX.encode, Decimal("1.00001"))
    assert ACTIVEX.encode(Decimal("1.000100000"))[0] == struct.pack("<q", 10001)
    for value in ("922337203685477.5808", "-922337203685477.5809", "NaN", "sNaN", "Infinity", "1E+999999", "1E-999999"):
        refused(ACTIVEX.encode, Decimal(value))


@pytest.mark.parametrize(
    ("body", "body_type"),
    [
        (b"\0" * 3, 3), (b"\0" * 5, 3), (b"", 2), (b"\0\0", 16), (b"\0" * 7, 7), (b"\0" * 15, 72), (b"x", 1),
        (b"", 11), (b"\0\0\0", 11), (b"a", 8), (b"a\0b", 31), (b"\x00\xd8", 8), (b"\x81", 30),
    ],
)
def test_refuses_a_body_that_does_not_fit_its_type(body: bytes, body_type: int) -> None:
    for formatter in (ACTIVEX, AUTO):
        assert "'bytes'" in refused(formatter.decode, body, body_type).remedy


@pytest.mark.parametrize(
    "value",
    [
        object(), 1 << 64, -(1 << 63) - 1, "\ud800", "ends with\0", {1, 2},
        Variant(3, 1 << 31), Variant(17, -1), Variant(3, True), Variant(3, "1"), Variant(3, 1.0), Variant(4, 1e39),
        Variant(5, 10**400), Variant(11, 1), Variant(72, "x"), Variant(1, 0), Variant(7, "x"), Variant(6, 1.5),
        Variant(8, b"x"), Variant(30, "中"), Variant(68, "x"), Variant(0, "x"), naive(99, 1, 1),
    ],
)
def test_refuses_a_value_without_a_body_form(value: object) -> None:
    refused(ACTIVEX.encode, value)


def test_text_formatters_write_their_type_and_read_all_three() -> None:
    assert STRING.encode("abc") == (b"a\0b\0c\0", 8)
    assert TEXT_LPWSTR.encode("abc") == (b"a\0b\0c\0", 31)
    assert TEXT_LPSTR.encode("ä") == (b"\xe4", 30)
    for formatter in (STRING, TEXT_LPWSTR, TEXT_LPSTR):
        assert formatter.decode(b"a\0", 8) == "a"
        assert formatter.decode(b"a\0", 31) == "a"
        assert formatter.decode(b"a", 30) == "a"
        refused(formatter.decode, b"a\0", 3)
        refused(formatter.decode, b"a\0", 0)
        refused(formatter.encode, b"a")
    assert TextFormatter("lpstr", BodyType.VT_LPSTR, "cp932").decode(b"\x82\xa0", 30) == "あ"


def test_a_nul_at_the_end_is_the_terminator_of_lpstr_and_lpwstr_but_part_of_a_bstr() -> None:
    assert STRING.decode(b"a\0\0\0", 31) == "a"
    assert STRING.decode(b"a\0", 30) == "a"
    assert STRING.decode(b"a\0\0\0", 8) == "a\0"
    assert STRING.encode("a\0") == (b"a\0\0\0", 8)


def test_bytes_are_a_vector_unless_told_otherwise_and_every_body_can_be_had() -> None:
    assert BYTES.encode(b"x") == (b"x", 0x1011)
    assert BytesFormatter("bytes", BodyType.VT_ARRAY_UI1).encode(b"x") == (b"x", 0x2011)
    assert BytesFormatter("bytes", 0).encode(memoryview(b"x")) == (b"x", 0)
    for body_type in (0, 8, 768, 0xFFFFFFFF):
        assert BYTES.decode(b"x", body_type) == b"x"
    assert "'auto'" in refused(BYTES.encode, "x").remedy


def test_refuses_settings_that_make_no_sense() -> None:
    for name in ("utf-16", "nonsense", "hex", "cp500", "x\0y"):
        refused(TextFormatter, "lpstr", 30, name)
    refused(TextFormatter, "text", 3)
    refused(BytesFormatter, "bytes", 8)
    refused(ActiveXFormatter, "activex", "unix")
    refused(XmlFormatter, "xml", "Order")


def test_finds_formatters_by_name_and_suggests_the_nearest() -> None:
    for name in ("bytes", "string", "activex", "xml", "json", "auto"):
        assert formatter_named(name).name == name
    assert FORMATTERS["xml"] is XML
    assert "'json'" in refused(formatter_named, "jsno").remedy
    assert "'activex'" in refused(formatter_named, "ActiveX ").remedy
    refused(formatter_named, "")


# XmlMessageFormatter ------------------------------------------------------------------------------------------------

XML_VECTORS = [
    ("hello", b"<string>hello</string>"),
    ("", b"<string />"),
    ("a<b>&\"'ü", "<string>a&lt;b&gt;&amp;\"'ü</string>".encode()),
    (1, b"<int>1</int>"),
    (-(1 << 31), b"<int>-2147483648</int>"),
    (1 << 31, b"<long>2147483648</long>"),
    (1 << 63, b"<unsignedLong>9223372036854775808</unsignedLong>"),
    (True, b"<boolean>true</boolean>"),
    (1.5, b"<double>1.5</double>"),
    (2.0, b"<double>2</double>"),
    (float("-inf"), b"<double>-INF</double>"),
    (Decimal("12.50"), b"<decimal>12.50</decimal>"),
    (naive(2024, 2, 29, 1, 2, 3), b"<dateTime>2024-02-29T01:02:03</dateTime>"),
    (naive(2024, 2, 29, 1, 2, 3, 120000), b"<dateTime>2024-02-29T01:02:03.12</dateTime>"),
    (datetime(2024, 2, 29, tzinfo=UTC), b"<dateTime>2024-02-29T00:00:00Z</dateTime>"),
    (
        datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
        b"<dateTime>2024-02-29T00:00:00-03:30</dateTime>",
    ),
    (GUID, b"<guid>00112233-4455-6677-8899-aabbccddeeff</guid>"),
    (b"\x00\x01\x02", b"<base64Binary>AAEC</base64Binary>"),
    (
        ["a", "", None],
        b"<ArrayOfString" + NAMESPACES + b'>\r\n  <string>a</string>\r\n  <string />\r\n  <string xsi:nil="true" />\r\n'
        b"</ArrayOfString>",
    ),
    ([1, 2], b"<ArrayOfInt" + NAMESPACES + b">\r\n  <int>1</int>\r\n  <int>2</int>\r\n</ArrayOfInt>"),
    (
        [1, 1 << 31],
        b"<ArrayOfLong" + NAMESPACES + b">\r\n  <long>1</long>\r\n  <long>2147483648</long>\r\n</ArrayOfLong>",
    ),
    ([], b"<ArrayOfString" + NAMESPACES + b" />"),
]


@pytest.mark.parametrize(("value", "document"), XML_VECTORS)
def test_writes_and_reads_the_documents_of_xmlserializer(value: object, document: bytes) -> None:
    assert XML.encode(value) == (HEAD + document, 0)
    read = XML.decode(HEAD + document, 0)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(("value", "document"), XML_VECTORS)
def test_lxml_reads_the_same_text_from_what_is_written(value: object, document: bytes) -> None:
    root = etree.fromstring(XML.encode(value)[0])
    texts = [element.text or "" for element in root] if isinstance(value, list) else [root.text or ""]
    for item, text in zip(value if isinstance(value, list) else [value], texts, strict=True):
        match item:
            case bool():
                assert text == str(item).lower()
            case bytes():
                assert base64.b64decode(text) == item
            case datetime():
                assert datetime.fromisoformat(text) == item
            case float():
                assert float(text) == item
            case None:
                assert text == ""
            case _:
                assert text == str(item)


@pytest.mark.parametrize(
    ("target", "value", "document"),
    [
        ("char", "a", b"<char>97</char>"),
        ("short", -1, b"<short>-1</short>"),
        ("byte", -128, b"<byte>-128</byte>"),
        ("unsignedByte", 255, b"<unsignedByte>255</unsignedByte>"),
        ("unsignedShort", 65535, b"<unsignedShort>65535</unsignedShort>"),
        ("unsignedInt", 1, b"<unsignedInt>1</unsignedInt>"),
        ("long", 1, b"<long>1</long>"),
        ("float", 0.5, b"<float>0.5</float>"),
        ("ArrayOfChar", ["a"], b"<ArrayOfChar" + NAMESPACES + b">\r\n  <char>97</char>\r\n</ArrayOfChar>"),
    ],
)
def test_a_target_chooses_the_dotnet_type(target: str, value: object, document: bytes) -> None:
    formatter = XmlFormatter("xml", target)
    assert formatter.encode(value) == (HEAD + document, 0)
    assert formatter.decode(HEAD + document, 0) == value
    assert XML.decode(document, 0) == value
    refused(formatter.decode, b"<string>97</string>", 0)


def test_keeps_line_ends_as_dotnet_wrote_them() -> None:
    # XmlTextWriter writes CR and LF raw, XmlTextReader reads them raw; other parsers would make CR LF one LF.
    body = HEAD + b"<string>a\r\nb\rc\nd&#xD;&#10;e\r\r\n<![CDATA[f\r\n]]></string>"
    assert XML.decode(body, 0) == "a\r\nb\rc\nd\r\ne\r\r\nf\r\n"
    written = XML.encode("a\r\nb\rc\nd")[0]
    assert XML.decode(written, 0) == "a\r\nb\rc\nd"
    assert etree.fromstring(written).text == "a\r\nb\rc\nd"


def test_reads_other_spellings_of_the_same_value() -> None:
    assert XML.decode(b"\xef\xbb\xbf<int> +5\n</int>", 0) == 5
    assert XML.decode('<?xml version="1.0" encoding="utf-16"?><string>ü</string>'.encode("utf-16"), 0) == "ü"
    assert XML.decode(b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><boolean>1</boolean>', 0) is True
    assert XML.decode("<?xml version='1.0' encoding='utf-16'?><string>ü</string>".encode("utf-16-le"), 8) == "ü"
    assert XML.decode(b"<string>x</string>", 0x1011) == "x"
    moment = datetime(2024, 1, 1, microsecond=123456, tzinfo=UTC)
    assert XML.decode(b"<dateTime>2024-01-01T00:00:00.1234567Z</dateTime>", 0) == moment
    assert XML.decode(b"<base64Binary>AA\r\n EC</base64Binary>", 0) == b"\0\1\2"
    assert XML.decode(b'<string xml:space="preserve">  </string>', 0) == "  "
    nil = b'<string xmlns:x="http://www.w3.org/2001/XMLSchema-instance" x:nil="true" />'
    assert XML.decode(nil, 0) is None


BOMB = b'<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><string>&b;</string>'


@pytest.mark.parametrize(
    "body",
    [
        BOMB,
        b'<!DOCTYPE string SYSTEM "file:///etc/passwd"><string/>',
        b"<!DOCTYPE string><string/>",
        b"<string>&other;</string>",
        b'<?xml-stylesheet href="x"?><string/>',
        b"<string><?php x?></string>",
        b"<string><!-- x --></string>",
        b"<string><string>x</string></string>",
        b"<ArrayOfInt><int>1</int><string>x</string></ArrayOfInt>",
        b"<ArrayOfInt>1<int>1</int></ArrayOfInt>",
        b"<ArrayOfInt><int>1<int>1</int></int></ArrayOfInt>",
        b"<ArrayOfInt><ArrayOfInt/></ArrayOfInt>",
        b"<Order><id>1</id></Order>",
        b'<string xmlns="urn:x">x</string>',
        b'<string id="x">x</string>',
        b'<string xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="true">x</string>',
        b'<string xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="maybe"/>',
        b'<ArrayOfInt xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="true"/>',
        b'<?xml version="1.1"?><string/>',
        b'<?xml version="1.0" encoding="iso-8859-1"?><string>\xfc</string>',
        b'<?xml version="1.0" encoding="iso-8859-1"?><string>x</string>',
        b'<?xml version="1.0" encoding="utf-16"?><string>x</string>',
        b"<string>\xff</string>",
        b"<string>&#0;</string>",
        b"<string>x",
        b"<string>x</string><string>y</string>",
        b"",
        b"hello",
        b"<" * 100000,
        b"<int>" * 100000,
        b"<string>" + b"x" * 0x400000 + b"</string>",
        b"<int></int>", b"<int>1.0</int>", b"<int>2147483648</int>", b"<int>" + b"9" * 5000 + b"</int>",
        b"<int>1_000</int>", "<int>١</int>".encode(), b"<boolean>yes</boolean>", b"<boolean>True</boolean>",
        b"<double>1e999</double>", b"<double>inf</double>", b"<double>0x1</double>", b"<decimal>1e5</decimal>",
        b"<decimal>NaN</decimal>", b"<char>65536</char>", b"<char>55296</char>", b"<char>a</char>",
        b"<guid>{00112233-4455-6677-8899-aabbccddeeff}</guid>", b"<base64Binary>A</base64Binary>",
        b"<base64Binary>AA*EC</base64Binary>", b"<dateTime>2024-02-30T00:00:00</dateTime>",
        b"<dateTime>2024-01-01</dateTime>", b"<dateTime>2024-01-01T00:00:00+14:01</dateTime>",
        b"<dateTime>2024-01-01T00:00:00+01:60</dateTime>", b"<dateTime>0000-01-01T00:00:00</dateTime>",
    ],
)
def test_refuses_xml_that_is_hostile_or_none_of_the_simple_types(body: bytes) -> None:
    assert "'bytes'" in refused(XML.decode, body, 0).remedy or len(body) > 0x400000


@pytest.mark.parametrize(
    "value",
    [
        None, {"a": 1}, object(), "\0", "\ud800", "\ufffe", 1 << 64, Decimal("NaN"), Decimal("1E+29"), Decimal(1 << 96),
        Decimal("1E-29"), Decimal("1E+999999"), [1, "a"], [1, None], [[1]], [1, 1 << 63], [True, 1],
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=15))),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=1))),
    ],
)
def test_refuses_a_value_without_an_xml_element(value: object) -> None:
    refused(XML.encode, value)


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("char", "ab"), ("char", "😀"), ("char", "\ud800"), ("short", 40000), ("int", True), ("string", 1),
        ("float", 1e39), ("double", 10**400), ("double", "1"), ("ArrayOfInt", 1), ("ArrayOfInt", [None]),
        ("guid", "x"), ("base64Binary", "x"), ("boolean", 1),
    ],
)
def test_refuses_a_value_that_does_not_fit_the_target(target: str, value: object) -> None:
    refused(XmlFormatter("xml", target).encode, value)


def test_xml_writes_and_reads_a_double_that_is_no_number() -> None:
    assert XML.encode(math.nan)[0] == HEAD + b"<double>NaN</double>"
    read = XML.decode(b"<double>NaN</double>", 0)
    assert isinstance(read, float)
    assert math.isnan(read)


def test_the_largest_dotnet_decimal_fits() -> None:
    largest = Decimal((1 << 96) - 1)
    assert XML.decode(XML.encode(largest)[0], 0) == largest


# JSON ---------------------------------------------------------------------------------------------------------------


def test_equal_values_have_equal_json_bodies() -> None:
    body, body_type = JSON.encode({"b": [1, 2.5, None, True], "a": "ü"})
    assert body == '{"a":"ü","b":[1,2.5,null,true]}'.encode()
    assert body_type == 0
    assert JSON.encode({"a": "ü", "b": [1, 2.5, None, True]})[0] == body


def test_reads_json_in_bytes_and_in_the_strings_of_vb() -> None:
    for body, body_type in ((b'{"a":1}', 0), (b'\xef\xbb\xbf{"a":1}', 0x1011), ('{"a":1}'.encode("utf-16-le"), 8)):
        assert JSON.decode(body, body_type) == {"a": 1}
    assert JSON.decode(b'"\\"[[[\\\\"', 0) == '"[[[\\'
    assert JSON.decode(b'"\\ud83d\\ude00"', 0) == "😀"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nul", b"NaN", b"[Infinity]", b"1e999", b'{"a":1,"a":2}', b"\xff", b"[1,]", b"9" * 5000,
        b"[" * 65 + b"]" * 65, b"[" * 200000, b'{"a":' * 100000, b'"\\ud800"', b'"\\uD800"', b'"' + b'\\"' * 500000,
        b" " * 0x400001,
    ],
)
def test_refuses_what_is_no_json(body: bytes) -> None:
    refused(JSON.decode, body, 0)


def test_refuses_a_very_long_number_even_where_python_would_convert_it() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        refused(JSON.decode, b"9" * 5000, 0)
    finally:
        sys.set_int_max_str_digits(limit)


def test_refuses_a_document_under_the_type_of_a_number() -> None:
    for formatter in (JSON, XML):
        refused(formatter.decode, b"1111", 3)


@pytest.mark.parametrize(
    "value", [{1: 2}, float("nan"), [float("inf")], "\ud800", object(), {"a": Decimal(1)}, {"a": {2, 3}}]
)
def test_refuses_a_value_without_a_json_form(value: object) -> None:
    refused(JSON.encode, value)


def test_refuses_a_cycle_and_a_deep_value() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    refused(JSON.encode, cycle)
    deep: object = 1
    for _ in range(64):
        deep = [deep]
    assert json.loads(JSON.encode(deep)[0]) == JSON.decode(JSON.encode(deep)[0], 0)
    refused(JSON.encode, [deep])
