r"""What names mean on this computer, and which need a directory."""

from uuid import UUID

import pytest

from lior.errors import IllegalFormatName, NoDirectory
from lior.names import (
    DirectName,
    FormatName,
    LocalNames,
    MultipleName,
    check_without_directory,
    expand,
    parse_format_name,
    parse_path_name,
    queue_path,
)
from tests.name_examples import GUID, LOCAL, single

OTHER = "11111111-2222-3333-4444-555555555555"


@pytest.mark.spec("DM-092")
@pytest.mark.parametrize(
    "host",
    [".", "localhost", "LOCALHOST", "ALPHA", "alpha", "Alpha.Example.Org", "alpha.example.org.", "127.0.0.2",
     "192.168.1.7", "FE80:0:0::1", "[fe80::1]", "fe80::1%eth0", "2001:0DB8:0:0:0:0:0:A", "::ffff:192.168.1.7",
     "::FFFF:C0A8:0107", "QUEUES.example.org"],
)
def test_knows_its_own_names_and_addresses(host: str) -> None:
    assert LOCAL.is_local(host)


@pytest.mark.spec("DM-092")
@pytest.mark.parametrize("host", ["", "beta", "alpha.example.com", "alph", "127.0.0.1", "::1", "192.168.1.70",
                                  "fe80::2",
                                  "..", "[ALPHA", "192.168.1.7.", "127.0.0.02"])
def test_does_not_take_others_for_itself(host: str) -> None:
    assert not LOCAL.is_local(host)


def test_an_unset_name_matches_nothing() -> None:
    assert not LocalNames("a", "", frozenset(), UUID(GUID)).is_local("")


@pytest.mark.spec("DM-092")
@pytest.mark.parametrize(
    ("text", "mine"),
    [(r"DIRECT=TCP:127.0.0.2\private$\none", True), (r"DIRECT=TCP:127.0.0.1\private$\none", False),
     (r"DIRECT=OS:alpha.EXAMPLE.org\private$\q", True), (r"DIRECT=OS:.\private$\q", True),
     ("DIRECT=HTTP://alpha:8080/msmq/private$/q", True), ("DIRECT=HTTPS://[2001:DB8::A]/msmq/private$/q", True),
     (r"DIRECT=OS:beta\private$\q", False), (f"PRIVATE={GUID}\\1", True), (f"PRIVATE={OTHER}\\1", False),
     (f"MACHINE={GUID};JOURNAL", True), (f"MACHINE={OTHER};JOURNAL", False), (f"PUBLIC={GUID}", False),
     ("MULTICAST=234.1.1.1:1", False), (r"DIRECT=IPX:1:2\q", False), (f"CONNECTOR={GUID}", False)],
)
def test_tells_names_that_designate_this_computer(text: str, mine: bool) -> None:
    assert LOCAL.designates_me(single(text)) is mine


def test_own_paths_get_one_spelling() -> None:
    for computer in (".", "alpha", "192.168.1.7", "alpha.example.org"):
        assert str(LOCAL.own_path(parse_path_name(rf"{computer}\private$\q"))) == r"ALPHA\private$\q"
    assert str(LOCAL.own_path(parse_path_name(r"beta\q"))) == r"beta\q"


@pytest.mark.spec("MQ-166")
def test_the_dns_path_has_the_full_name_of_the_computer() -> None:
    assert str(LOCAL.qualified_path(parse_path_name(r"ALPHA\private$\q"))) == r"alpha.example.org\private$\q"
    assert str(LOCAL.qualified_path(parse_path_name(r".\private$\q;s"))) == r"alpha.example.org\private$\q;s"
    assert str(LOCAL.qualified_path(parse_path_name(r"beta\q"))) == r"beta\q"


def path_of_number(number: int) -> str | None:
    return {0xA1: r"ALPHA\private$\orders"}.get(number)


@pytest.mark.spec("DM-120")
@pytest.mark.parametrize(
    ("text", "path", "machine"),
    [
        (r"DIRECT=OS:beta\PRIVATE$\q", r"beta\private$\q", "beta"),
        (r"DIRECT=TCP:10.0.0.1\q;JOURNAL", r"10.0.0.1\q;JOURNAL", "10.0.0.1"),
        (r"DIRECT=OS:beta\system$;DEADLETTER", r"beta\system$;DEADLETTER", "beta"),
        ("DIRECT=HTTPS://beta:8443/msmq/private$/q", r"beta\private$\q", "beta"),
        ("DIRECT=TCP:[FE80::2]\\private$\\q;s", r"FE80::2\private$\q;s", "FE80::2"),
        (f"PRIVATE={GUID}\\A1", r"ALPHA\private$\orders", "ALPHA"),
        (f"PRIVATE={GUID}\\A1;JOURNAL", r"ALPHA\private$\orders;JOURNAL", "ALPHA"),
    ],
)
def test_gives_the_path_of_a_format_name(text: str, path: str, machine: str) -> None:
    found = queue_path(single(text), LOCAL, path_of_number)
    assert (str(found), found.computer) == (path, machine)


@pytest.mark.spec("DM-120")
@pytest.mark.parametrize("text", [f"PUBLIC={GUID}", f"PRIVATE={GUID}\\A2", f"PRIVATE={OTHER}\\A1", f"CONNECTOR={GUID}",
                                  f"DL={GUID}", "MULTICAST=234.1.1.1:1", f"MACHINE={OTHER};JOURNAL"])
def test_a_name_that_only_a_directory_resolves_has_no_path(text: str) -> None:
    with pytest.raises(IllegalFormatName) as caught:
        queue_path(single(text), LOCAL, path_of_number)
    assert caught.value.code == 0xC00E001E


def without_directory(name: FormatName) -> bool:
    try:
        check_without_directory(name, LOCAL)
    except NoDirectory as error:
        return not error.remedy or error.code != 0xC00E0013
    return True


@pytest.mark.spec("MQ-016")
def test_a_private_name_works_without_a_directory_when_the_computer_is_this_one() -> None:
    assert without_directory(single(f"PRIVATE={GUID}\\A1"))
    assert str(queue_path(single(f"PRIVATE={GUID}\\A1"), LOCAL, path_of_number)) == r"ALPHA\private$\orders"
    assert not without_directory(single(f"PRIVATE={OTHER}\\A1"))


@pytest.mark.spec("MQ-017")
def test_a_distribution_list_needs_a_directory() -> None:
    assert not without_directory(single(f"DL={GUID}"))
    with pytest.raises(NoDirectory):
        expand([single(f"DL={GUID}@d"), single(r"DIRECT=OS:h\q")])


def test_direct_and_multicast_names_need_no_directory() -> None:
    assert without_directory(single(r"DIRECT=OS:beta\q"))
    assert without_directory(single("MULTICAST=234.1.1.1:1"))
    assert without_directory(single(f"MACHINE={GUID};JOURNAL"))
    for text in (f"PUBLIC={GUID}", f"MACHINE={OTHER};JOURNAL", f"CONNECTOR={GUID}"):
        assert not without_directory(single(text))


@pytest.mark.spec("MQ-023")
def test_a_list_works_without_a_directory_when_it_is_direct_and_multicast_only() -> None:
    assert without_directory(parse_format_name(r"DIRECT=OS:a\q,DIRECT=TCP:1.2.3.4\q,MULTICAST=234.1.1.1:1"))
    for element in (f"PUBLIC={GUID}", f"PRIVATE={GUID}\\A1", f"DL={GUID}"):
        assert not without_directory(parse_format_name(rf"DIRECT=OS:a\q,{element}"))


@pytest.mark.spec("DM-135")
def test_expansion_sorts_without_case_and_keeps_each_name_once() -> None:
    expanded = expand([single(rf"DIRECT=OS:{host}\q") for host in ("b", "a", "A", "C")])
    assert isinstance(expanded, MultipleName)
    assert str(expanded) == r"DIRECT=OS:a\q,DIRECT=OS:b\q,DIRECT=OS:C\q"


@pytest.mark.spec("DM-135")
def test_expansion_to_one_name_gives_a_single_name() -> None:
    name = expand([single(r"DIRECT=OS:a\q"), single(r"DIRECT=OS:A\Q")])
    assert isinstance(name, DirectName)
    assert str(name) == r"DIRECT=OS:a\q"
    with pytest.raises(IllegalFormatName):
        expand([])
