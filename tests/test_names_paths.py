r"""Path names and the numbers of private queues, row by row of the ledger."""


import pytest

from lior.errors import IllegalFormatName, IllegalQueuePathname
from lior.names import (
    DirectName,
    MultipleName,
    PathKind,
    PathName,
    QueueSuffix,
    parse_format_name,
    parse_path_name,
    private_queue_number,
)
from tests.name_examples import GUID, LOCAL, direct, refused, refused_path, single


@pytest.mark.spec("MQ-004")
@pytest.mark.parametrize(
    ("text", "kind", "queue", "canonical"),
    [
        (r"host\q", PathKind.PUBLIC, "q", r"host\q"),
        (r"host\Private$\q", PathKind.PRIVATE, "q", r"host\private$\q"),
        (r"Host\PRIVATE$\Q", PathKind.PRIVATE, "Q", r"Host\private$\Q"),
        (r"host\SYSTEM$;JOURNAL", PathKind.SYSTEM, "", r"host\system$;JOURNAL"),
        (r"host\system$;deadletter", PathKind.SYSTEM, "", r"host\system$;DEADLETTER"),
        (r"host\System$;DeadXact", PathKind.SYSTEM, "", r"host\system$;DEADXACT"),
    ],
)
def test_reads_the_three_kinds_of_path(text: str, kind: PathKind, queue: str, canonical: str) -> None:
    path = parse_path_name(text)
    assert (path.kind, path.queue, str(path)) == (kind, queue, canonical)


@pytest.mark.spec("MQ-004")
def test_private_dollar_without_a_backslash_is_part_of_a_public_queue_name() -> None:
    path = parse_path_name(r"host\private$q")
    assert (path.kind, path.queue) == (PathKind.PUBLIC, "private$q")
    assert parse_format_name(r"DIRECT=OS:host\private$q") == DirectName("OS", "host", queue="private$q")


@pytest.mark.parametrize("text", ["q", "", "host", r"host\private$", r"host\SYSTEM$", r"host\system$;foo", "host\\",
                                  r"host\system$;", r"\q", "host\\private$\\", r".\q\Journal$", r"h\a\b"])
def test_refuses_what_is_no_path(text: str) -> None:
    refused_path(text)


def test_a_path_without_its_computer_is_refused_with_the_remedy() -> None:
    assert r".\private$" in refused_path(r"private$\q").remedy
    assert r".\private$\orders" in refused_path("orders").remedy


def test_a_format_name_is_not_taken_for_a_path() -> None:
    assert "format name" in refused_path(r"DIRECT=OS:h\private$\q").what
    assert "DIRECT=OS:h" in refused(r"h\private$\q").remedy


def test_reserved_words_stay_reserved_in_letters_that_fold_to_them() -> None:
    refused_path("host\\\u017fystem$")
    refused_path("host\\\u017fystem$;JOURNAL")
    refused("DIRECT=OS:host\\\u017fystem$;JOURNAL")


@pytest.mark.spec("MQ-005")
def test_a_computer_name_has_1_to_256_visible_ascii_characters() -> None:
    assert parse_path_name("h" * 256 + r"\q").computer == "h" * 256
    refused_path("h" * 257 + r"\q")
    refused_path(r"\q")
    for code in range(0x100):
        visible = 0x21 <= code <= 0x7E and chr(code) != "\\"
        if visible:
            assert parse_path_name(f"a{chr(code)}b\\q").computer == f"a{chr(code)}b"
        elif chr(code) != "\\":
            refused_path(f"a{chr(code)}b\\q")


@pytest.mark.spec("MQ-005")
def test_the_dot_becomes_the_computer_name_before_the_wire() -> None:
    assert str(LOCAL.expand_dot(parse_path_name(r".\private$\q"))) == r"ALPHA\private$\q"
    assert str(LOCAL.expand_dot(single(r"DIRECT=OS:.\private$\q"))) == r"DIRECT=OS:ALPHA\private$\q"
    both = parse_format_name(r"DIRECT=OS:.\q,DIRECT=OS:beta\q")
    assert isinstance(both, MultipleName)
    assert str(LOCAL.expand_dot(both)) == r"DIRECT=OS:ALPHA\q,DIRECT=OS:beta\q"
    assert LOCAL.expand_dot(single(f"PUBLIC={GUID}")) == single(f"PUBLIC={GUID}")


def acceptance(version: int) -> set[int]:
    accepted = set()
    for code in range(0x100):
        try:
            path = parse_path_name(f"h\\a{chr(code)}b", version)
        except IllegalQueuePathname:
            continue
        if path.queue == f"a{chr(code)}b":
            accepted.add(code)
    return accepted


NOT_LATIN_CONTROLS = set(range(0xA1, 0x100))


@pytest.mark.spec("MQ-006")
def test_msmq_1_queue_names_exclude_backslash_and_semicolon_only() -> None:
    assert acceptance(1) == set(range(0x21, 0x80)) - {0x3B, 0x5C} | NOT_LATIN_CONTROLS
    assert len(parse_path_name("h\\" + "q" * 124, 1).queue) == 124
    refused_path("h\\" + "q" * 125, 1)


@pytest.mark.spec("MQ-007")
@pytest.mark.parametrize("version", [2, 3, 4, 6])
def test_later_queue_names_exclude_quote_plus_and_comma_too(version: int) -> None:
    assert acceptance(version) == set(range(0x21, 0x80)) - {0x22, 0x2B, 0x2C, 0x3B, 0x5C} | NOT_LATIN_CONTROLS
    assert len(parse_path_name("h\\" + "q" * 124, version).queue) == 124
    refused_path("h\\" + "q" * 125, version)


def test_queue_names_may_be_written_in_any_script() -> None:
    for queue in ("Aufträge", "заказы", "注文", "\U0001f4e6"):
        assert parse_path_name(f"h\\private$\\{queue}").queue == queue
        assert direct(f"DIRECT=OS:h\\private$\\{queue};{queue}").subqueue == queue
    assert len(parse_path_name("h\\" + "\U0001f4e6" * 62).queue) == 62
    refused_path("h\\" + "\U0001f4e6" * 63)  # 126 UTF-16 code units


@pytest.mark.parametrize("code", [0x80, 0x9F, 0xA0, 0x2028, 0x202E, 0x2067, 0x3000, 0xD800, 0xDFFF, 0xFEFF, 0xFFFF])
def test_refuses_characters_that_nobody_sees(code: int) -> None:
    refused_path(f"h\\a{chr(code)}b")
    refused(f"DIRECT=OS:h\\a{chr(code)}b")
    refused(f"DIRECT=OS:h\\a;a{chr(code)}b")


@pytest.mark.spec("MQ-008")
def test_a_subqueue_follows_a_semicolon() -> None:
    path = parse_path_name(r"h\private$\q;s")
    assert (path.queue, path.subqueue, path.suffix) == ("q", "s", QueueSuffix.NONE)
    assert parse_path_name(r"h\q;" + "s" * 32).subqueue == "s" * 32
    refused_path(r"h\q;" + "s" * 33)
    refused_path(r"h\q;")
    refused_path(r"h\q;a;b")
    refused_path(r"h\q;a;JOURNAL")
    for char in '"+,;\\ \t\x1f':
        refused_path(f"h\\q;a{char}b")
    for version in (1, 2, 3):
        refused_path(r"h\q;s", version)


@pytest.mark.spec("MQ-008")
@pytest.mark.parametrize("text", [r"h\private$\q;JOURNAL", r"h\private$\q;Journal", r"h\q;journal"])
def test_journal_is_the_journal_and_no_subqueue(text: str) -> None:
    path, name = parse_path_name(text), direct(f"DIRECT=OS:{text}")
    assert (path.suffix, path.subqueue) == (QueueSuffix.JOURNAL, "")
    assert (name.suffix, name.subqueue) == (QueueSuffix.JOURNAL, "")
    assert str(path).endswith(";JOURNAL")
    for version in (1, 2, 3):
        assert parse_path_name(text, version) == path


@pytest.mark.spec("MQ-008")
def test_a_subqueue_cannot_be_built_with_the_name_of_the_journal() -> None:
    with pytest.raises(IllegalQueuePathname):
        PathName("h", PathKind.PRIVATE, "q", "Journal")
    with pytest.raises(IllegalFormatName):
        DirectName("OS", "h", is_private=True, queue="q", subqueue="s", suffix=QueueSuffix.JOURNAL)


def test_a_path_gives_its_relatives() -> None:
    path = parse_path_name(r"h\private$\q;s")
    assert str(path.without_subqueue()) == r"h\private$\q"
    assert str(path.journal()) == r"h\private$\q;JOURNAL"
    assert str(path.journal().without_suffix()) == r"h\private$\q"
    assert str(path.with_subqueue("t")) == r"h\private$\q;t"
    system = parse_path_name(r"h\system$;DEADXACT")
    assert system.without_suffix() == system
    assert path.is_private
    assert path.subqueue
    assert not system.is_private


def test_paths_compare_without_case() -> None:
    first, second = parse_path_name(r"Host\PRIVATE$\Orders;Bad"), parse_path_name(r"HOST\private$\ORDERS;bad")
    assert first == second
    assert hash(first) == hash(second)
    assert first.key == second.key
    assert first.local_key == r"private$\orders;bad"
    assert parse_path_name(r"h\private$\a") != parse_path_name(r"h\a")
    assert parse_path_name(r"h\a") != "h\\a"


def hashed(name: str) -> int:
    """[MC-MQAC] 3.1.6.2 step by step: shift by five, add the character, add what was there before."""
    value = 0
    for char in name:
        old = value
        value = value << 5 & 0xFFFFFFFF
        value = value + ord(char) & 0xFFFFFFFF
        value = value + old & 0xFFFFFFFF
    return value


def test_a_private_queue_number_is_the_hash_of_the_queue_name_alone() -> None:
    assert private_queue_number(r"h\private$\a") == 0x61
    assert private_queue_number(r"h\private$\ab") == 0x61 * 33 + 0x62
    for queue in ("orders", "ORDERS", "q" * 124, "заказы"):
        assert private_queue_number(rf"host\PRIVATE$\{queue}") == hashed(queue)
        assert private_queue_number(rf".\private$\{queue};sub") == hashed(queue)
    for text in (r"h\q", r"h\system$;JOURNAL", "q"):
        with pytest.raises(IllegalQueuePathname):
            private_queue_number(text)
