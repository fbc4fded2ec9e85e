r"""Names against a second reading: regular expressions transcribed from the grammar of [MS-MQMQ] 2.1.

Corrections to the printed grammar, each a row of the ledger or a line of docs/names.md: `\private$` has its
trailing backslash (MQ-004); multicast ports run to 65535 (MQ-020); ;JOURNAL and the suffixes of machine and
connector names are read (MQ-014, MQ-018, MQ-019); HTTP names take either slash after /MSMQ (MQ-012); IPv6
(MQ-011); one semicolon at most (MQ-008); private$ and system$ name no computer and no public queue; no commas
in a DL domain; characters beyond ASCII in queue names.
"""

import re
import socket
import unicodedata
from ipaddress import IPv6Address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lior.errors import IllegalFormatName, IllegalQueuePathname
from lior.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    LocalNames,
    MachineName,
    MulticastName,
    MultipleName,
    PathKind,
    PathName,
    PrivateName,
    PublicName,
    QueueSuffix,
    SingleName,
    expand,
    from_queue_format,
    parse_format_name,
    parse_path_name,
    private_queue_number,
    to_queue_format,
)

# --- the second reading -------------------------------------------------------------------------------------------

Q1 = r"[\x21-\x3a\x3c-\x5b\x5d-\x7f]"
Q2 = r"[\x21\x23-\x2a\x2d-\x3a\x3c-\x5b\x5d-\x7f]"
NO_KEYWORD = r"(?!(?:private|system)\$(?:;|$))"
GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
HOST = r"[!$&'()0-9A-Z^_`a-z{}~.-]{1,256}"
IN_BRACKETS = r"\[[0-9a-f:.]+(?:%[0-9a-z_.-]{1,32})?\]"
V6 = r"[0-9a-f]*:[0-9a-f:.]*(?:%[0-9a-z_.-]{1,32})?"
SUBQUEUE = rf"(?:;{Q2}{{1,32}})?"
DIRECT_TAIL = (
    rf"(?:private\$\\{Q2}{{1,124}}{SUBQUEUE}|system\$;(?:journal|deadletter|deadxact)"
    rf"|{NO_KEYWORD}{Q2}{{1,124}}{SUBQUEUE})"
)
HTTP_TAIL = DIRECT_TAIL.replace(r"private\$\\", r"private\$[/\\]").replace(NO_KEYWORD, NO_KEYWORD + r"(?!private\$/)")
PORT = r"(?::(?P<port>[0-9]{0,5}))?"
OCTET = r"(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"

SINGLE = [
    re.compile(pattern, re.IGNORECASE | re.ASCII | re.DOTALL)
    for pattern in (
        rf"direct=tcp:(?P<address>{OCTET}(?:\.{OCTET}){{3}}|{V6}|{IN_BRACKETS})\\{DIRECT_TAIL}",
        rf"direct=os:(?:(?P<host>{HOST})|(?P<address>{V6}|{IN_BRACKETS}))\\{DIRECT_TAIL}",
        rf"direct=https?://(?:(?P<host>{HOST})|(?P<address>\[[0-9a-f:.]+\])){PORT}/msmq[/\\]{HTTP_TAIL}",
        rf"direct=ipx:[0-9a-f]{{1,8}}:[0-9a-f]{{1,12}}\\{DIRECT_TAIL}",
        r"direct=spx:[0-9a-f]{8}\.[0-9a-f]{12}\\private\$\\order_queue\$",
        rf"public={GUID}(?:;journal)?",
        rf"private={GUID}\\[0-9a-f]{{1,8}}(?:;journal)?",
        rf"machine={GUID}(?:;(?:journal|deadletter|deadxact))?",
        rf"connector={GUID}(?:;xactonly)?",
        rf"dl={GUID}(?:@[\x21-\x2b\x2d-\x7e]{{1,255}})?",
        rf"multicast=(?:22[4-9]|23[0-9])(?:\.{OCTET}){{3}}:(?P<multicast>0|[1-9][0-9]{{0,4}})",
    )
]
COMPUTER = (
    r"(?!(?:private|system)\$\\)(?!(?:direct|public|private|machine|connector|dl|multicast)=)"
    r"[\x21-\x5b\x5d-\x7e]{1,256}"
)
PATHS = {
    version: re.compile(
        rf"{COMPUTER}\\(?:private\$\\{queue}{{1,124}}{tail}|system\$;(?:journal|deadletter|deadxact)"
        rf"|{NO_KEYWORD}{queue}{{1,124}}{tail})",
        re.IGNORECASE | re.ASCII | re.DOTALL,
    )
    for version, queue, tail in ((1, Q1, "(?:;journal)?"), (2, Q2, "(?:;journal)?"), (4, Q2, SUBQUEUE))
}


def shadow(text: str) -> str:
    """The text in ASCII: a letter for each visible character beyond, a NUL for the others."""
    out = []
    for char in text:
        if char < "\x80":
            out.append(char)
        elif unicodedata.category(char) in ("Cc", "Cs", "Zs", "Zl", "Zp") or char in "\ufeff\ufffe\uffff" or (
            "\u202a" <= char <= "\u202e" or "\u2066" <= char <= "\u2069"
        ):
            out.append("\0")
        else:
            out.append("x" * (len(char.encode("utf-16-le")) // 2))
    return "".join(out)


def beyond_ascii_in_the_queue_only(text: str) -> bool:
    """The shadow stands for queue names; elsewhere a character beyond ASCII is refused."""
    found = re.match(r"[^\\]*//[^/]*/[^/\\]*[/\\]|[^\\]*\\", text, re.DOTALL)
    head = found[0] if found else text
    return head.isascii() and not text.lower().startswith(("public", "private=", "machine", "conn", "dl", "mult"))


def is_address(text: str) -> bool:
    bare = text.strip("[]").partition("%")[0]
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in bare else socket.AF_INET, bare)
    except OSError:
        return False
    return ":" in bare or not text.startswith("[")


def second_reading_of_one(text: str) -> bool:
    if not text.isascii() and not beyond_ascii_in_the_queue_only(text):
        return False
    for pattern in SINGLE:
        found = pattern.fullmatch(shadow(text))
        if found is None:
            continue
        groups = found.groupdict()
        if groups.get("address") and not is_address(groups["address"]):
            return False
        if (groups.get("host") or "").lower() in ("private$", "system$"):
            return False
        if groups.get("port") and not 1 <= int(groups["port"]) <= 65535:
            return False
        return int(groups.get("multicast") or 0) <= 65535
    return False


READ_ONLY = re.compile(
    r"machine=.*|.*;journal|direct=(?:https?://[^/]*/msmq[/\\]|(?:tcp|os|ipx):[^\\]*\\)system\$;.*",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)


def second_reading(text: str) -> bool:
    elements = [element.strip(" \t") for element in text.split(",")]
    if not all(map(second_reading_of_one, elements)) or len(elements) > 128:
        return False
    return len(elements) == 1 or not any(map(READ_ONLY.fullmatch, elements))


def accepted(text: str) -> bool:
    try:
        parse_format_name(text)
    except IllegalFormatName as error:
        if not error.remedy:
            raise
        return False
    return True


def path_accepted(text: str, version: int) -> bool:
    try:
        parse_path_name(text, version)
    except IllegalQueuePathname as error:
        if not error.remedy:
            raise
        return False
    return True


# --- names to read ------------------------------------------------------------------------------------------------


def folds_into_ascii(char: str) -> bool:
    """The long s, the Kelvin sign and ligatures: their keywords are tested by hand."""
    return char >= "\x80" and any(c < "\x80" for c in char.casefold())


QUEUE_CHARS = st.characters(
    min_codepoint=0x21, exclude_characters='\\;",+', exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")
).filter(lambda c: shadow(c) != "\0" and not folds_into_ascii(c))


def fits(limit: int) -> st.SearchStrategy[str]:
    return st.text(QUEUE_CHARS, min_size=1, max_size=limit).filter(lambda t: len(t.encode("utf-16-le")) // 2 <= limit)


queues = fits(124) | st.sampled_from(["q", "orders", "private$q", "a/b", "order_queue$", "q" * 124])
subqueues = fits(32).filter(lambda t: t.casefold() != "journal")
hosts = st.from_regex(re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,20}"), fullmatch=True) | st.sampled_from(
    [".", "10.0.0.1", "fe80::1"])
addresses = st.ip_addresses().map(str) | st.sampled_from(["FE80:0::1", "::ffff:10.0.0.1", "fe80::1%eth0"])
guids = st.uuids()
suffixes = st.sampled_from([QueueSuffix.JOURNAL, QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT])


@st.composite
def tails(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.sampled_from(["plain", "subqueue", "journal", "system"]))
    if shape == "system":
        return {"is_system": True, "suffix": draw(suffixes)}
    tail: dict[str, Any] = {"is_private": draw(st.booleans()), "queue": draw(queues)}
    if not tail["is_private"]:
        assume(str(tail["queue"]).casefold() not in ("private$", "system$"))
        assume(not str(tail["queue"]).casefold().startswith("private$/"))
    if shape == "subqueue":
        tail["subqueue"] = draw(subqueues)
    if shape == "journal":
        tail["suffix"] = QueueSuffix.JOURNAL
    return tail


@st.composite
def direct_names(draw: st.DrawFn) -> DirectName:
    protocol = draw(st.sampled_from(["TCP", "OS", "HTTP", "HTTPS", "IPX", "SPX"]))
    if protocol == "SPX":
        return DirectName("SPX", "0000000A.0000DEADBEEF", is_private=True, queue="order_queue$")
    host = draw(addresses if protocol == "TCP" else hosts) if protocol != "IPX" else "0000000A:0000DEADBEEF"
    port = draw(st.none() | st.integers(1, 65535)) if protocol.startswith("HTTP") else None
    return DirectName(protocol, host, port, **draw(tails()))


domains = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), max_size=255)
other_names = st.one_of(
    st.builds(PublicName, guids, st.sampled_from([QueueSuffix.NONE, QueueSuffix.JOURNAL])),
    st.builds(PrivateName, guids, st.integers(0, 0xFFFFFFFF), st.sampled_from([QueueSuffix.NONE, QueueSuffix.JOURNAL])),
    st.builds(MachineName, guids, st.just(QueueSuffix.NONE) | suffixes),
    st.builds(ConnectorName, guids, st.booleans()),
    st.builds(DistributionListName, guids, domains),
    st.builds(MulticastName, st.ip_addresses(v=4, network="224.0.0.0/4").map(str), st.integers(0, 65535)),
)
single_names: st.SearchStrategy[SingleName] = st.one_of(direct_names(), other_names)


def writable(name: SingleName) -> bool:
    return not isinstance(name, MachineName) and name.suffix in (QueueSuffix.NONE, QueueSuffix.XACTONLY)


multiple_names = st.lists(single_names.filter(writable), min_size=2, max_size=6).map(lambda e: MultipleName(tuple(e)))
paths = st.builds(
    lambda computer, tail: PathName(
        computer,
        PathKind.SYSTEM if tail.get("is_system") else PathKind.PRIVATE if tail.get("is_private") else PathKind.PUBLIC,
        str(tail.get("queue", "")), str(tail.get("subqueue", "")), tail.get("suffix", QueueSuffix.NONE),
    ),
    hosts, tails(),
)

PIECES = ["DIRECT=", "direct=", "OS:", "TCP:", "HTTP:", "https:", "IPX:", "SPX:", "//", "/", "\\", "/msmq", "/MSMQ/",
          "/msmq\\",
          "private$", "PRIVATE$\\", "private$/", "system$", "\\SYSTEM$;", ";", "JOURNAL", "deadletter", "DEADXACT",
          "XACTONLY",
          "PUBLIC=", "PRIVATE=", "MACHINE=", "CONNECTOR=", "DL=", "MULTICAST=", "0badcafe-1234-5678-9ABC-def012345678",
          "@", ",", " ", "\t", "host", "q", ".", ":", "10.0.0.1", "fe80::1", "[::1]", "234.1.1.1", "8001", "65536",
          "2500", "0",
          "1:2", "00000001.0000DEADBEEF", "order_queue$", "\\0000000A", '"', "+", "=", "%eth0", "ä", "\U0001f4e6",
          "\x00", "\x7f",
          "\u202e", "q" * 124, "s" * 32, "h" * 256]


@st.composite
def nearly_names(draw: st.DrawFn) -> str:
    """A valid name with a few characters removed, doubled, replaced or inserted."""
    text = str(draw(st.one_of(single_names, multiple_names)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 2))
        text = text[:at] + draw(st.sampled_from([*PIECES, "", text[at : at + 4]])) + text[at + cut :]
    return text.swapcase() if draw(st.booleans()) else text


texts = st.one_of(nearly_names(), st.lists(st.sampled_from(PIECES), max_size=9).map("".join), st.text(max_size=40))

# --- properties ---------------------------------------------------------------------------------------------------


def all_fields(name: SingleName) -> list[object]:
    return [getattr(name, field) for field in name.__dataclass_fields__]


@given(single_names)
def test_every_single_name_reads_back_as_itself(name: SingleName) -> None:
    again = parse_format_name(str(name))
    assert type(again) is type(name)
    assert again == name
    assert str(again) == str(name)
    assert all_fields(again) == all_fields(name)


@given(multiple_names)
def test_every_list_reads_back_as_itself(name: MultipleName) -> None:
    again = parse_format_name(str(name))
    assert isinstance(again, MultipleName)
    assert again == name
    assert str(again) == str(name)


@given(paths)
def test_every_path_reads_back_as_itself(path: PathName) -> None:
    again = parse_path_name(str(path))
    assert again == path
    assert str(again) == str(path)
    assert (again.computer, again.kind, again.queue, again.subqueue, again.suffix) == (
        path.computer, path.kind, path.queue, path.subqueue, path.suffix)


@given(single_names)
def test_every_name_survives_the_queue_format(name: SingleName) -> None:
    if isinstance(name, MachineName) and name.suffix is QueueSuffix.NONE:
        with pytest.raises(IllegalFormatName):
            to_queue_format(name)
    else:
        assert all_fields(from_queue_format(to_queue_format(name))) == all_fields(name)


@given(texts)
@example(r"DIRECT=OS:h\q, DIRECT=OS:h\r")
@example(r"DIRECT=OS:h\system$;JOURNAL,DIRECT=OS:h\q")
@example(r"DIRECT=OS:h\private$\system$;JOURNAL")
@example("DIRECT=HTTP://h/msmq/private$/")
@example("DIRECT=OS:h\\q\n")
@pytest.mark.spec("MQ-009", "MQ-010", "MQ-011", "MQ-012", "MQ-014", "MQ-015", "MQ-017", "MQ-018", "MQ-019", "MQ-020",
                  "MQ-021", "MQ-022")
def test_the_second_reading_accepts_the_same_format_names(text: str) -> None:
    assume(not any(map(folds_into_ascii, text)))
    assert accepted(text) is second_reading(text), text


@given(st.one_of(paths.map(str), st.lists(st.sampled_from(PIECES), max_size=6).map("".join), texts),
       st.sampled_from([1, 2, 4]))
@pytest.mark.spec("MQ-004", "MQ-005", "MQ-006", "MQ-007", "MQ-008")
def test_the_second_reading_accepts_the_same_paths(text: str, version: int) -> None:
    assume(not any(map(folds_into_ascii, text)))
    computer, _, _ = text.partition("\\")
    expected = computer.isascii() and PATHS[version].fullmatch(shadow(text)) is not None
    assert path_accepted(text, version) is expected, text


@given(st.text())
def test_any_text_is_a_name_or_one_typed_error(text: str) -> None:
    accepted(text)
    for version in (1, 3, 4):
        path_accepted(text, version)


@given(single_names)
def test_names_that_differ_in_case_only_are_one_name(name: SingleName) -> None:
    text = str(name)
    upper = "".join(c.upper() if c.isascii() else c for c in text)
    assert parse_format_name(upper) == name
    assert hash(parse_format_name(upper)) == hash(name)


@given(st.lists(single_names.filter(lambda n: writable(n) and not isinstance(n, DistributionListName)), min_size=1,
                max_size=6))
def test_expansion_is_sorted_unique_and_stable(elements: list[SingleName]) -> None:
    expanded = expand(elements + elements[::-1])
    kept = expanded.elements if isinstance(expanded, MultipleName) else (expanded,)
    assert [e.key for e in kept] == sorted({e.key for e in elements})
    assert expand(kept) == expanded


@given(st.ip_addresses(v=6))
def test_an_own_ipv6_address_is_known_in_every_spelling(address: IPv6Address) -> None:
    local = LocalNames("a", "a.b", frozenset({str(address)}), UUID(int=1))
    for spelling in (str(address), address.exploded, address.exploded.upper(), f"[{address}]", f"{address}%1"):
        assert local.is_local(spelling)


@given(queues)
def test_private_queue_numbers_have_32_bits(queue: str) -> None:
    number = private_queue_number(f"h\\private$\\{queue}")
    units = queue.encode("utf-16-le")
    assert number == sum(
        int.from_bytes(units[i : i + 2], "little") * 33 ** (len(units) // 2 - 1 - i // 2) for i in range(0,
                                                                len(units), 2)
    ) % 2**32
