"""The Security ORPC Extension: [MS-COM] 2.2.3.2 and 3.14.4."""

import struct

import pytest

from lior.errors import Malformed
from lior.security import Sid
from lior.wire.recorded_call_security import (
    ANONYMOUS_EXTENSION,
    CallerProperties,
    SecurityExtension,
    decode,
    encode,
    extended,
    root,
)
from tests.wire import second_recorded_call as second
from tests.wire.recorded_call_vectors import CLERK, CONTEXT_A, SYSTEM

SID = Sid.parse(CLERK)


def refuses(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode(data)


def head(collections: int, style: int = 0, version: tuple[int, int] = (1, 1)) -> bytes:
    return struct.pack("<HHHH", *version, style, collections)


def collection(kind: int, *properties: tuple[int, bytes]) -> bytes:
    return struct.pack("<HH", kind, len(properties)) + b"".join(
        struct.pack("<HH", number, len(data)) + data for number, data in properties)


CHAIN = collection(0x0A01, (0x0B10, b"\2\0\0\0"))


@pytest.mark.spec("QC-049")
def test_context_of_a_root_caller_is_that_of_the_worked_example() -> None:
    assert root(SID) == CONTEXT_A
    authenticated = second.extension(second.caller(CLERK, kind=0x0B01))
    assert root(SID, supplied=False) == authenticated


@pytest.mark.spec("QC-044", "QC-049")
def test_nobody_is_eight_octets() -> None:
    assert bytes.fromhex("0100010002000000") == ANONYMOUS_EXTENSION
    assert decode(ANONYMOUS_EXTENSION) == SecurityExtension(2)
    assert decode(ANONYMOUS_EXTENSION).direct_caller is None


@pytest.mark.spec("QC-050")
def test_a_chain_grows_by_who_calls_on_and_keeps_the_lowest_level() -> None:
    grown = extended(CONTEXT_A, Sid.parse(SYSTEM), level=6)
    assert grown == second.extension(second.caller(CLERK), second.caller(SYSTEM, level=6), minimum=2)
    assert [caller.sid for caller in decode(grown).callers] == [SID, Sid.parse(SYSTEM)]
    assert decode(extended(CONTEXT_A, Sid.parse(SYSTEM), level=1)).minimum_level == 1


@pytest.mark.spec("QC-050")
def test_a_context_that_forbids_it_is_passed_on_as_it_is() -> None:
    fixed = second.extension(second.caller(CLERK), style=2)
    assert extended(fixed, Sid.parse(SYSTEM)) == fixed


@pytest.mark.spec("QC-046")
def test_reads_what_the_second_hand_wrote() -> None:
    found = decode(second.extension(second.caller(CLERK), second.caller(SYSTEM, service=9, level=5, impersonation=4)))
    assert found.minimum_level == 2
    assert found.direct_caller == CallerProperties(SID, True, None, False, 10, 2, 3)
    assert found.callers[1] == CallerProperties(Sid.parse(SYSTEM), True, None, False, 9, 5, 4)


@pytest.mark.spec("QC-048")
def test_properties_that_are_not_there_are_none() -> None:
    found = decode(head(2) + CHAIN + collection(0x0A02, (0x0B04, b"\5\0\0\0")))
    assert found.callers == (CallerProperties(level=5),)
    assert decode(head(1) + CHAIN).callers == ()


@pytest.mark.spec("QC-052")
@pytest.mark.parametrize("number", [0, 1, 0x44, 0x64, 0x7F, 0xFFFFFFFF])
def test_unknown_numbers_are_data(number: int) -> None:
    data = number.to_bytes(4, "little")
    found = decode(head(2) + CHAIN + collection(0x0A02, (0x0B03, data), (0x0B04, data), (0x0B05, data)))
    assert (found.callers[0].service, found.callers[0].level, found.callers[0].impersonation) == (number,) * 3


@pytest.mark.spec("QC-047")
@pytest.mark.parametrize("account", ["", "A", "DOMAIN\\clerk", "Zoë"])
@pytest.mark.parametrize("supplied", [True, False])
def test_account_names_end_with_a_nul_and_fill_fours(account: str, supplied: bool) -> None:
    data = encode(SecurityExtension(0, 2, (CallerProperties(SID, supplied, account, supplied),)))
    assert decode(data).callers[0].account == account
    assert decode(data).callers[0].account_is_supplied is supplied
    wanted = account.encode("utf-16-le") + b"\0\0"
    wanted += bytes(-len(wanted) % 4)
    assert struct.pack("<HH", 0x0B07 if supplied else 0x0B02, len(wanted)) + wanted in data


TYPES = {0x0B01: "sid", 0x0B06: "sid", 0x0B02: "name", 0x0B07: "name", 0x0B03: "number", 0x0B04: "number",
         0x0B05: "number", 0x0B10: "number"}  # fmt: skip
VALUES = {"sid": second.sid(CLERK), "name": "ab".encode("utf-16-le") + bytes(4), "number": bytes(4)}


@pytest.mark.spec("QC-047")
@pytest.mark.parametrize("number", [*TYPES, 0x0B00, 0x0B08, 0x0B11, 0, 0xFFFF])
@pytest.mark.parametrize("kind", [0x0A01, 0x0A02])
@pytest.mark.parametrize("size", [0, 2, 3, 4, 5, 8, 28, 32])
def test_each_property_has_its_collection_and_its_size(number: int, kind: int, size: int) -> None:
    value = VALUES[TYPES.get(number, "number")]
    data = (value + bytes(size))[:size]
    body = head(1) if kind == 0x0A01 else head(2) + CHAIN
    whole = body + collection(kind, (number, data))
    expected = {"sid": size == 28, "name": size in (8,), "number": size == 4}[TYPES.get(number, "number")]
    in_place = (kind == 0x0A01) == (number == 0x0B10)
    if number in TYPES and expected and in_place:
        decode(whole)
    else:
        refuses(whole)


@pytest.mark.spec("QC-044")
def test_refuses_other_versions_styles_and_whatever_is_left_over() -> None:
    for version in ((0, 1), (1, 0), (2, 1), (1, 2)):
        refuses(head(0, version=version))
    for style in (1, 3, 0xFFFF):
        refuses(head(0, style=style))
    refuses(CONTEXT_A + b"\0")
    refuses(CONTEXT_A + CHAIN)
    for end in range(len(CONTEXT_A)):
        refuses(CONTEXT_A[:end])
    refuses(head(0xFFFF) + CHAIN)


@pytest.mark.spec("QC-045")
def test_the_chain_comes_first_and_callers_follow() -> None:
    caller = collection(0x0A02, (0x0B04, bytes(4)))
    refuses(head(1) + caller)
    refuses(head(2) + CHAIN + CHAIN)
    refuses(head(2) + caller + CHAIN)
    refuses(head(1) + collection(0x0A01))
    refuses(head(1) + collection(0x0A03, (0x0B10, bytes(4))))
    assert decode(head(0)) == SecurityExtension(0)


@pytest.mark.spec("QC-046", "QC-127")
def test_a_property_longer_than_the_rest_is_refused() -> None:
    refuses(head(1) + struct.pack("<HHHH", 0x0A01, 1, 0x0B10, 0xFFFF) + bytes(4))
    refuses(head(1) + struct.pack("<HH", 0x0A01, 0xFFFF) + CHAIN[4:])


@pytest.mark.spec("QC-051")
def test_a_sid_is_as_long_as_its_count_says() -> None:
    octets = second.sid(CLERK)
    for bad in (octets[:1] + b"\x0f" + octets[2:], octets[:1] + b"\x04" + octets[2:], b"\2" + octets[1:],
                octets[:1] + b"\x10" + octets[2:] + bytes(44)):  # fmt: skip
        refuses(head(2) + CHAIN + collection(0x0A02, (0x0B01, bad)))
    assert decode(head(2) + CHAIN + collection(0x0A02, (0x0B01, octets))).callers[0].sid == SID
    assert len(octets) == 8 + 4 * 5 == 28


@pytest.mark.spec("QC-047")
def test_one_property_twice_is_refused() -> None:
    refuses(head(2) + CHAIN + collection(0x0A02, (0x0B04, bytes(4)), (0x0B04, bytes(4))))
