"""The computer of the tests of names, and readers that say what kind of name they expect."""

from uuid import UUID

import pytest

from lior.errors import IllegalFormatName, IllegalQueuePathname, LiorError
from lior.names import DirectName, LocalNames, MultipleName, SingleName, parse_format_name, parse_path_name

GUID = "0BADCAFE-1234-5678-9ABC-DEF012345678"
LOCAL = LocalNames(
    computer_name="ALPHA",
    qualified_name="alpha.example.org",
    addresses=frozenset({"127.0.0.2", "192.168.1.7", "fe80::1", "2001:db8::a"}),
    guid=UUID(GUID),
    aliases=frozenset({"queues.example.org"}),
)


def direct(text: str) -> DirectName:
    name = parse_format_name(text)
    assert isinstance(name, DirectName)
    return name


def single(text: str) -> SingleName:
    name = parse_format_name(text)
    assert not isinstance(name, MultipleName)
    return name


def refused(text: str) -> IllegalFormatName:
    with pytest.raises(LiorError) as caught:
        parse_format_name(text)
    assert type(caught.value) is IllegalFormatName
    assert caught.value.code == 0xC00E001E
    assert caught.value.remedy
    return caught.value


def refused_path(text: str, version: int = 4) -> IllegalQueuePathname:
    with pytest.raises(LiorError) as caught:
        parse_path_name(text, version)
    assert type(caught.value) is IllegalQueuePathname
    assert caught.value.code == 0xC00E0014
    assert caught.value.remedy
    return caught.value
