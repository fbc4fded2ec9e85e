r"""Format names, row by row of the ledger."""

import copy
import pickle
import time
from itertools import product
from uuid import UUID

import pytest

from lior import names
from lior.errors import IllegalFormatName, IllegalQueuePathname
from lior.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    PublicName,
    QueueFormatType,
    QueueSuffix,
    from_queue_format,
    parse_direct_id,
    parse_format_name,
    parse_path_name,
    queue_path,
    to_queue_format,
)
from tests.name_examples import GUID, LOCAL, direct, refused, refused_path, single


@pytest.mark.spec("MQ-009")
@pytest.mark.parametrize(
    ("text", "expected", "canonical"),
    [
        (r"DIRECT=OS:h\private$\q", DirectName("OS", "h", None, True, "q"), r"DIRECT=OS:h\private$\q"),
        (r"direct=os:h\PRIVATE$\q", DirectName("OS", "h", None, True, "q"), r"DIRECT=OS:h\private$\q"),
        (r"DIRECT=TCP:10.0.0.1\q;JOURNAL",
         DirectName("TCP", "10.0.0.1", None, False, "q", "", QueueSuffix.JOURNAL), r"DIRECT=TCP:10.0.0.1\q;JOURNAL"),
        (r"Direct=Tcp:10.0.0.1\Private$\q;journal",
         DirectName("TCP", "10.0.0.1", None, True, "q", "", QueueSuffix.JOURNAL),
         r"DIRECT=TCP:10.0.0.1\private$\q;JOURNAL"),
        (r"DIRECT=OS:h\SYSTEM$;DEADXACT",
         DirectName("OS", "h", suffix=QueueSuffix.DEADXACT, is_system=True), r"DIRECT=OS:h\system$;DEADXACT"),
        (r"DIRECT=OS:h\system$;deadletter",
         DirectName("OS", "h", suffix=QueueSuffix.DEADLETTER, is_system=True), r"DIRECT=OS:h\system$;DEADLETTER"),
        (r"DIRECT=OS:h\system$;Journal",
         DirectName("OS", "h", suffix=QueueSuffix.JOURNAL, is_system=True), r"DIRECT=OS:h\system$;JOURNAL"),
    ],
)
def test_reads_direct_names(text: str, expected: DirectName, canonical: str) -> None:
    name = direct(text)
    assert fields(name) == fields(expected)
    assert str(name) == canonical
    assert fields(direct(canonical)) == fields(expected)


def fields(name: DirectName) -> tuple[object, ...]:
    return (name.protocol, name.host, name.port, name.is_private, name.queue, name.subqueue, name.suffix,
            name.is_system)


@pytest.mark.spec("MQ-009")
@pytest.mark.parametrize(
    "text",
    [r"DIRECT=OS:h\SYSTEM$;FOO", r"DIRECT=OS:h\SYSTEM$;", r"DIRECT=OS:h\SYSTEM$", r"DIRECT=OS:h\private$", "DIRECT=",
     r"DIRECT=OS:h", "DIRECT=OS:h\\", r"DIRECT=OS:\q", r"DIRECT=h\q", r"DIRECT:OS:h\q", r"DIRECT=OS:h\a\b",
     r"DIRECT=OS:h\q;", r"DIRECT=OS:private$\q", r"DIRECT=OS:h\SYSTEM$;JOURNAL;x", "", "=", "DIRECT", "\x00", "Ⅾ=",
     r"DIRECT=OS:h h\q", r"DIRECT=OS:h:1801\q", r"DIRECT=OS:[h]\q", r"DIRECT=OS:[::1\q", r"DIRECT= OS:h\q"],
)
def test_refuses_what_is_no_direct_name(text: str) -> None:
    refused(text)


@pytest.mark.spec("MQ-010")
def test_knows_the_five_protocols() -> None:
    assert direct(r"DIRECT=TCP:1.2.3.4\q").protocol == "TCP"
    assert direct(r"DIRECT=OS:h\q").protocol == "OS"
    assert direct("DIRECT=HTTP://h/msmq/q").protocol == "HTTP"
    assert direct("DIRECT=https://h/msmq/q").protocol == "HTTPS"
    assert direct(r"DIRECT=IPX:00000001:0000deadbeef\q").protocol == "IPX"
    for protocol in ("UDP", "", "TC", "TCPS", "FTP", "O\u017f"):
        refused(f"DIRECT={protocol}:h\\q")
        with pytest.raises(IllegalFormatName):
            DirectName(protocol, "h", queue="q")


@pytest.mark.spec("MQ-010")
def test_spx_names_the_order_queue_only() -> None:
    name = direct(r"DIRECT=SPX:00000001.0000DEADBEEF\PRIVATE$\order_queue$")
    assert (name.protocol, name.host) == ("SPX", "00000001.0000DEADBEEF")
    refused(r"DIRECT=SPX:00000001.0000DEADBEEF\PRIVATE$\other")
    refused(r"DIRECT=SPX:00000001.0000DEADBEEF\order_queue$")
    refused(r"DIRECT=SPX:00000001.0000DEADBEEF\PRIVATE$\order_queue$;JOURNAL")
    refused(r"DIRECT=SPX:1.2.3.4\PRIVATE$\order_queue$")


@pytest.mark.spec("MQ-011")
def test_tcp_takes_an_address_and_os_a_name() -> None:
    assert direct(r"DIRECT=TCP:192.168.1.7\private$\q").host == "192.168.1.7"
    assert direct(r"DIRECT=OS:host.example.org\private$\q").host == "host.example.org"
    assert direct(r"DIRECT=OS:NET_BIOS-1\private$\q").host == "NET_BIOS-1"
    assert "DIRECT=OS:hostname" in refused(r"DIRECT=TCP:hostname\private$\q").remedy
    for address in ("256.1.1.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "", ".", "1.2.3.4:1801", "::1::", "[::1",
    "[1.2.3.4]",
                    "fe80::1%", "fe80::1%a%b", "1.2.3.4%eth0", "\u0661.2.3.4"):
        refused(f"DIRECT=TCP:{address}\\private$\\q")
    for address in ("1", "1:2:3", "123456789:1", "1:1234567890123", "x:1", "1.1"):
        refused(f"DIRECT=IPX:{address}\\q")


@pytest.mark.spec("MQ-011")
@pytest.mark.parametrize("text", ["fe80::1", "[fe80::1]", "FE80:0:0::1", "[FE80:0000::0.0.0.1]"])
def test_ipv6_addresses_are_read_with_and_without_brackets(text: str) -> None:
    for protocol in ("TCP", "OS"):
        name = direct(f"DIRECT={protocol}:{text}\\private$\\q")
        assert name.host == text.strip("[]")
        assert str(name) == f"DIRECT={protocol}:{text.strip('[]')}\\private$\\q"
        assert name == direct(f"DIRECT={protocol}:fe80::1\\private$\\q")


def test_an_ipv6_address_may_name_its_zone() -> None:
    assert direct(r"DIRECT=TCP:fe80::1%eth0\private$\q").host == "fe80::1%eth0"
    refused("DIRECT=HTTP://[fe80::1%eth0]/msmq/q")


@pytest.mark.spec("MQ-012")
@pytest.mark.parametrize(
    ("text", "host", "port", "effective", "canonical"),
    [
        ("DIRECT=HTTPS://Host/msmq/private$/q", "Host", None, 443, "DIRECT=HTTPS://Host/msmq/private$/q"),
        ("DIRECT=http://host/MSMQ\\Private$\\q", "host", None, 80, "DIRECT=HTTP://host/msmq/private$/q"),
        ("DIRECT=HTTP://host:8080/Msmq/PRIVATE$\\q", "host", 8080, 8080, "DIRECT=HTTP://host:8080/msmq/private$/q"),
        ("DIRECT=HTTP://host:/msmq/private$/q", "host", None, 80, "DIRECT=HTTP://host/msmq/private$/q"),
        ("DIRECT=HTTP://10.0.0.1:80/msmq\\private$/q", "10.0.0.1", 80, 80,
         "DIRECT=HTTP://10.0.0.1:80/msmq/private$/q"),
        ("DIRECT=HTTP://[2001:db8::1]:81/msmq/private$/q", "2001:db8::1", 81, 81,
         "DIRECT=HTTP://[2001:db8::1]:81/msmq/private$/q"),
    ],
)
def test_reads_http_names(text: str, host: str, port: int | None, effective: int, canonical: str) -> None:
    name = direct(text)
    assert (name.host, name.port, name.effective_port, name.is_http) == (host, port, effective, True)
    assert (name.is_private, name.queue) == (True, "q")
    assert str(name) == canonical
    assert fields(direct(canonical)) == fields(name)


@pytest.mark.spec("MQ-012")
@pytest.mark.parametrize(
    "text",
    ["HTTP:/host/msmq/q", "HTTP:host/msmq/q", "HTTP:///msmq/q", "HTTP://host/msmq", "HTTP://host/msmq/",
     "HTTP://host/q",
     "HTTP://host:x/msmq/q", "HTTP://host:65536/msmq/q", "HTTP://host:0/msmq/q", "HTTP://host:123456/msmq/q",
     "HTTP://host:1:2/msmq/q", "HTTP://[::1/msmq/q", "HTTP://[::1]x/msmq/q", "HTTP://::1/msmq/q", "HTTP://a@b/msmq/q",
     "HTTP://[h]/msmq/q", "HTTP://host\\msmq\\q", "HTTP://host/msmqx/q", "HTTP://host/msmq/private$/", "HTTP:",
     "HTTP://h\\x/msmq/q", "HTTP://host/msmq/a\\b", "HTTP://host/msmq/private$/a\\b", "HTTP://host:\u0661/msmq/q"],
)
def test_refuses_what_is_no_http_name(text: str) -> None:
    refused(f"DIRECT={text}")


@pytest.mark.spec("MQ-012")
def test_http_names_compare_without_case_and_with_the_default_port() -> None:
    plain = direct("DIRECT=HTTP://Host/msmq/private$/Q")
    assert plain == direct("DIRECT=http://host:80/MSMQ\\PRIVATE$\\q")
    assert plain != direct("DIRECT=HTTP://host:8080/msmq/private$/q")
    assert plain != direct("DIRECT=HTTPS://host/msmq/private$/q")
    assert plain != direct("DIRECT=HTTP://host/msmq/q")
    assert plain.url == "http://Host/msmq/private$/Q"
    assert direct(r"DIRECT=OS:h\q").url == ""
    assert direct(r"DIRECT=OS:h\q").effective_port is None


def test_an_http_queue_name_may_contain_a_slash() -> None:
    name = direct("DIRECT=HTTP://h/msmq/private$/a/b")
    assert (name.is_private, name.queue, str(name)) == (True, "a/b", "DIRECT=HTTP://h/msmq/private$/a/b")
    assert direct("DIRECT=HTTP://h/msmq/a/b;s").queue == "a/b"
    with pytest.raises(IllegalFormatName):
        DirectName("HTTP", "h", queue="PRIVATE$/x")


def test_values_that_no_text_could_give_are_not_built() -> None:
    with pytest.raises(IllegalFormatName):
        PrivateName(UUID(GUID), 1 << 32)
    with pytest.raises(IllegalFormatName):
        PublicName(UUID(GUID), QueueSuffix.DEADLETTER)
    with pytest.raises(IllegalFormatName):
        DirectName("OS", "h", queue="q", suffix=QueueSuffix.DEADLETTER)
    with pytest.raises(IllegalFormatName):
        DirectName("OS", "h", queue="q", suffix=QueueSuffix.JOURNAL, is_system=True)
    with pytest.raises(IllegalFormatName):
        MulticastName("234.1.1.1", 65536)
    with pytest.raises(IllegalFormatName):
        parse_direct_id("OS:" + "h" * 0x10000 + "\\q")


def test_only_http_names_have_a_port() -> None:
    for protocol, host in (("OS", "h"), ("TCP", "1.2.3.4")):
        with pytest.raises(IllegalFormatName):
            DirectName(protocol, host, 1801, True, "q")


@pytest.mark.spec("MQ-013")
def test_a_subqueue_in_a_direct_name_is_a_type_of_its_own() -> None:
    name = direct(r"DIRECT=OS:h\q;poison")
    assert (name.queue, name.subqueue) == ("q", "poison")
    assert name.format_type is QueueFormatType.SUBQUEUE
    form = to_queue_format(name)
    assert (form.format_type, form.suffix, form.flags, form.direct_id) == (8, 5, 0x00, r"OS:h\q;poison")
    assert from_queue_format(form) == name
    private = direct(r"DIRECT=OS:h\private$\q;sub")
    assert from_queue_format(to_queue_format(private)) == private


def test_direct_names_and_paths_turn_into_each_other() -> None:
    for text in (r"h\q", r"h\private$\q", r"h\private$\q;s", r"h\private$\q;JOURNAL", r"h\system$;DEADLETTER"):
        path = parse_path_name(text)
        assert str(DirectName.from_path(path)) == f"DIRECT=OS:{text}"
        assert str(DirectName.from_path(path).path) == text
    assert parse_direct_id(r"OS:h\q") == direct(r"DIRECT=OS:h\q")
    with pytest.raises(IllegalFormatName):
        parse_direct_id(r"DIRECT=OS:h\q")


# The other kinds


@pytest.mark.spec("MQ-014")
def test_reads_public_names() -> None:
    assert parse_format_name(f"PUBLIC={GUID}") == PublicName(UUID(GUID))
    assert str(parse_format_name(f"public={GUID.lower()}")) == f"PUBLIC={GUID}"
    journal = parse_format_name(f"PUBLIC={GUID};journal")
    assert journal == PublicName(UUID(GUID), QueueSuffix.JOURNAL)
    assert str(journal) == f"PUBLIC={GUID};JOURNAL"
    for text in (f"{{{GUID}}}", GUID.replace("-", ""), GUID[:-1], GUID + "0", GUID[:-1] + "G", "", f"{GUID};DEADLETTER",
                 f"{GUID};", f"{GUID};JOURNAL;", f"urn:uuid:{GUID}", GUID.replace("-", "_"), GUID[:-1] + "\u0661"):
        refused(f"PUBLIC={text}")


@pytest.mark.spec("MQ-015")
def test_reads_private_names() -> None:
    short, padded, upper = (parse_format_name(f"PRIVATE={GUID}\\{n}") for n in ("a1", "000000A1", "A1"))
    assert short == padded == upper == PrivateName(UUID(GUID), 0xA1)
    assert hash(short) == hash(padded)
    assert str(short) == f"PRIVATE={GUID}\\000000A1"
    assert str(parse_format_name(f"private={GUID.lower()}\\4;Journal")) == f"PRIVATE={GUID}\\00000004;JOURNAL"
    assert parse_format_name(f"PRIVATE={GUID}\\FFFFFFFF") == PrivateName(UUID(GUID), 0xFFFFFFFF)
    for text in ("\\0000000A1", "/A1", "\\", "", "\\0xA1", "\\G", "\\A1;DEADLETTER", "\\ A1", "\\-1", "\\A\\1",
    "\\1_0"):
        refused(f"PRIVATE={GUID}{text}")


@pytest.mark.spec("MQ-017")
def test_reads_distribution_list_names() -> None:
    assert parse_format_name(f"DL={GUID}") == DistributionListName(UUID(GUID))
    name = parse_format_name(f"dl={GUID.lower()}@Example.Org")
    assert isinstance(name, DistributionListName)
    assert name.domain == "Example.Org"
    assert str(name) == f"DL={GUID}@Example.Org"
    assert parse_format_name(f"DL={GUID}@{'d' * 255}") == DistributionListName(UUID(GUID), "d" * 255)
    for text in (f"{GUID}@", f"{GUID}@{'d' * 256}", f"{GUID}@a b", f"{GUID}@\u00e4", f"@{GUID}", f"{GUID};JOURNAL"):
        refused(f"DL={text}")


@pytest.mark.spec("MQ-018")
@pytest.mark.parametrize("suffix", ["JOURNAL", "DEADLETTER", "DEADXACT"])
def test_a_machine_name_names_the_queues_of_a_computer(suffix: str) -> None:
    name = single(f"machine={GUID.lower()};{suffix.lower()}")
    assert name == MachineName(UUID(GUID), QueueSuffix[suffix])
    assert str(name) == f"MACHINE={GUID};{suffix}"
    assert str(queue_path(name, LOCAL, lambda _: None)) == f"ALPHA\\system$;{suffix}"
    form = to_queue_format(name)
    assert (form.format_type, form.suffix, form.flags) == (4, QueueSuffix[suffix], 0x80)
    assert from_queue_format(form) == name


@pytest.mark.spec("MQ-018")
def test_a_machine_name_without_suffix_names_no_queue() -> None:
    name = single(f"MACHINE={GUID}")
    assert name == MachineName(UUID(GUID))
    with pytest.raises(IllegalFormatName):
        to_queue_format(name)
    with pytest.raises(IllegalFormatName):
        queue_path(name, LOCAL, lambda _: None)
    refused(f"MACHINE={GUID};XACTONLY")
    refused(f"MACHINE={GUID};q")


@pytest.mark.spec("MQ-019")
def test_reads_connector_names() -> None:
    name = single(f"CONNECTOR={GUID}")
    assert name == ConnectorName(UUID(GUID))
    assert name.suffix is QueueSuffix.NONE
    twin = single(f"connector={GUID};xactonly")
    assert twin == ConnectorName(UUID(GUID), transactional=True)
    assert str(twin) == f"CONNECTOR={GUID};XACTONLY"
    form = to_queue_format(twin)
    assert (form.format_type, form.suffix) == (5, 4)
    assert from_queue_format(form) == twin
    assert (to_queue_format(name).format_type, to_queue_format(name).suffix) == (5, 0)
    refused(f"CONNECTOR={GUID};JOURNAL")


@pytest.mark.spec("MQ-020")
@pytest.mark.parametrize("text", ["224.0.0.1:8001", "239.255.255.255:65535", "234.1.1.1:0", "234.1.1.1:2500",
                                  "234.10.99.249:99", "229.1.1.1:999", "230.1.1.1:9999", "234.1.1.1:65529"])
def test_reads_multicast_names(text: str) -> None:
    name = parse_format_name(f"multicast={text}")
    address, port = text.split(":")
    assert name == MulticastName(address, int(port))
    assert str(name) == f"MULTICAST={text}"


@pytest.mark.spec("MQ-020")
@pytest.mark.parametrize("text", ["223.1.1.1:1", "240.1.1.1:1", "234.1.1.1:65536", "234.1.1.256:1", "234.1.1:1",
                                  "234.1.1.1",
                                  "234.1.1.1:", "234.1.1.1:-1", "234.1.1.1:007", "234.01.1.1:1", "234.1.1.1:1:1",
                                  "ff02::1:1",
                                  "234.1.1.1:99999", "234.1.1.1:100000", "234.1.1.1:\u0661", "234.1.1.1:1;JOURNAL",
                                  "h:1"])
def test_refuses_what_is_no_multicast_name(text: str) -> None:
    refused(f"MULTICAST={text}")


# Multiple-element names


@pytest.mark.spec("MQ-021")
def test_reads_a_list_of_every_kind_but_machine() -> None:
    parts = [r"DIRECT=OS:h\q", f"PUBLIC={GUID}", f"PRIVATE={GUID}\\0000000A", f"DL={GUID}@d", f"CONNECTOR={GUID}",
             "MULTICAST=234.1.1.1:8001", "DIRECT=HTTP://h/msmq/private$/q"]
    name = parse_format_name(" , \t".join(parts))
    assert isinstance(name, MultipleName)
    assert len(name.elements) == 7
    assert str(name) == ",".join(parts)
    assert parse_format_name(str(name)) == name
    assert name.format_type is QueueFormatType.UNKNOWN
    assert name.suffix is QueueSuffix.NONE
    refused(f"DIRECT=OS:h\\q,MACHINE={GUID}")
    refused(f"DIRECT=OS:h\\q,MACHINE={GUID};JOURNAL")


@pytest.mark.spec("MQ-021")
@pytest.mark.parametrize("text", [r"DIRECT=OS:h\q,", r",DIRECT=OS:h\q", r"DIRECT=OS:h\q,,DIRECT=OS:h\r", ",", " , ",
                                  r"DIRECT=OS:h\q,r"])
def test_refuses_a_list_with_a_hole(text: str) -> None:
    refused(text)


@pytest.mark.spec("MQ-021")
def test_one_element_is_a_single_name() -> None:
    assert isinstance(parse_format_name(r" DIRECT=OS:h\q "), DirectName)
    with pytest.raises(IllegalFormatName):
        MultipleName((DirectName("OS", "h", queue="q"),))


@pytest.mark.spec("MQ-022")
@pytest.mark.parametrize("element", [r"DIRECT=OS:h\q;JOURNAL", r"DIRECT=OS:h\SYSTEM$;DEADLETTER",
                                     f"PUBLIC={GUID};JOURNAL",
                                     r"DIRECT=OS:h\SYSTEM$;DEADXACT", f"PRIVATE={GUID}\\1;JOURNAL",
                                     r"DIRECT=TCP:1.2.3.4\SYSTEM$;JOURNAL"])
def test_a_read_only_element_makes_the_whole_list_illegal(element: str) -> None:
    assert names.is_read_only(parse_format_name(element))
    refused(rf"DIRECT=OS:h\q,{element}")
    refused(rf"{element},DIRECT=OS:h\q")


def test_a_list_has_at_most_128_elements_and_64_kib() -> None:
    full = parse_format_name(",".join(rf"DIRECT=OS:h\q{i}" for i in range(128)))
    assert isinstance(full, MultipleName)
    assert len(full.elements) == 128
    assert "129" in refused(",".join(rf"DIRECT=OS:h\q{i}" for i in range(129))).what
    refused(r"DIRECT=OS:h\q" + " " * 0x10000)
    longest = DirectName("HTTPS", "h" * 256, 65535, True, "q" * 124, "s" * 32)
    assert len(str(MultipleName((longest,) * 128))) <= names.MAX_TEXT_LENGTH


def test_an_error_repeats_only_a_bounded_part_of_the_text() -> None:
    for text in ("x" * 60000, "DIRECT=" + "O" * 60000, "DIRECT=TCP:" + "1" * 60000 + "\\q",
                 "DIRECT=OS:" + "h" * 60000, "DIRECT=OS:h\\" + "q" * 60000,
                 "DIRECT=OS:h\\system$;" + "q" * 60000, "PUBLIC=" + GUID + ";" + "x" * 60000, "x" * 200000,
                 "DIRECT=HTTP://" + "h" * 60000 + "/msmq/q", "DIRECT=HTTP://h:" + "1" * 60000 + "/msmq/q",
                 "MULTICAST=" + "1" * 60000, "PRIVATE=" + "1" * 60000, "DL=" + GUID + "@" + "x" * 60000):
        error = refused(text)
        assert len(error.what) + len(error.where) + len(error.remedy) < 1000
        path_error = refused_path(text)
        assert len(path_error.what) + len(path_error.where) + len(path_error.remedy) < 1000


def test_long_hostile_texts_are_refused_in_linear_time() -> None:
    heads = ("", "DIRECT=OS:", "DIRECT=TCP:", "DIRECT=HTTP://", "DIRECT=HTTP://h/msmq/", "DIRECT=OS:h\\", "MULTICAST=")
    bodies = (":", "\\", ";", "/", "[", "1", "a", ".", ",", "=", " ", "%", "\u017f", "/msmq", "::", "SYSTEM$;",
                                     "DIRECT=OS:h\\q,")
    for head, body in product(heads, bodies):
        for size in (0xFF00, 100_000):
            text = (head + body * size)[:size]
            start = time.perf_counter()
            with pytest.raises(IllegalFormatName):
                parse_format_name(text)
            with pytest.raises(IllegalQueuePathname):
                parse_path_name(text)
            assert time.perf_counter() - start < 1.0  # quadratic work on this size takes minutes


# Equality


def test_format_names_compare_without_case_and_serve_as_keys() -> None:
    first, second = direct(r"DIRECT=OS:Host\PRIVATE$\Orders"), direct(r"direct=os:HOST\private$\ORDERS")
    assert first == second
    assert first.key == second.key
    assert len({first, second}) == 1
    assert first != direct(r"DIRECT=OS:host\orders")
    assert first != direct(r"DIRECT=OS:host\private$\orders;JOURNAL")
    assert first != "DIRECT=OS:Host\\private$\\Orders"
    assert single(f"PUBLIC={GUID}") != single(f"MACHINE={GUID}")
    assert parse_format_name(r"DIRECT=OS:A\q,DIRECT=OS:b\q") == parse_format_name(r"DIRECT=OS:a\q, DIRECT=OS:B\Q")


def test_names_can_be_copied_and_pickled() -> None:
    for text in (r"DIRECT=OS:h\private$\q;s", f"PRIVATE={GUID}\\1", rf"DIRECT=OS:h\q,PUBLIC={GUID}", f"DL={GUID}@d"):
        name = parse_format_name(text)
        assert pickle.loads(pickle.dumps(name)) == name == copy.deepcopy(name)  # noqa: S301
    assert pickle.loads(pickle.dumps(LOCAL)).is_local("alpha")  # noqa: S301
