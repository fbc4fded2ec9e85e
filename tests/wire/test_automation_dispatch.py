"""The dispatch form: [MC-COMQC] 2.2.6.1.2, [MS-OAUT] 3.1.4.4."""

import pickle
import struct
from typing import Any

import pytest

from lior.errors import InvalidParameter, Malformed
from lior.wire import automation_dispatch as dispatch
from lior.wire import recorded_call
from lior.wire.automation import Bound, SafeArray, SCode, Variant
from lior.wire.automation_dispatch import (
    METHOD,
    NOTHING_BACK,
    PROPERTY_PUT,
    DispatchRefused,
    Invocation,
    read_invocation,
    write_invocation,
)
from lior.wire.automation_types import AutomationReader, AutomationWriter
from tests.wire.recorded_call_vectors import D
from tests.wire.second_recorded_call import Data, Parameters


def written(invocation: Invocation, referent: int = 0x20000) -> bytes:
    writer = AutomationWriter(referent=referent)
    write_invocation(writer, invocation)
    return writer.to_bytes()


def read(data: bytes) -> Invocation:
    return read_invocation(AutomationReader(data))


def refuses(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


def built(*arguments: Any, **options: Any) -> bytes:
    data = Data()
    data.invoke(*arguments, **options)
    return data.octets


SHIP = Invocation(7, METHOD | NOTHING_BACK,
                  (Variant(0x2003, SafeArray(3, (1, 2, 3), (Bound(3),))), Variant(0), Variant(8, "Zoë")),
                  (), ((1, Variant(0x4005, 3.25)),))
PRIORITY = Invocation(9, PROPERTY_PUT | NOTHING_BACK, (Variant(3, 4),), (-3,))


@pytest.mark.spec("QC-097", "QC-100", "QC-103")
def test_both_calls_of_the_dispatch_example_are_read_and_written_octet_for_octet() -> None:
    message = recorded_call.decode(D)
    assert {call.interface_id for call in message.calls} == {dispatch.IID_IDISPATCH}
    assert [call.method_number for call in message.calls] == [dispatch.INVOKE] * 2
    assert [read(call.data) for call in message.calls] == [SHIP, PRIORITY]  # type: ignore[arg-type]
    first = written(SHIP)
    assert first == message.calls[0].data
    counted = AutomationWriter()
    write_invocation(counted, SHIP)
    second = AutomationWriter(referent=counted.referents)
    write_invocation(second, PRIORITY)
    assert second.to_bytes() == message.calls[1].data


@pytest.mark.spec("QC-097")
def test_the_second_hand_reads_what_the_codec_wrote() -> None:
    found = Parameters(written(SHIP)).invoke()
    assert found["dispid"] == 7
    assert found["flags"] == 0xE0001
    assert found["arguments"] == [(0x2003, (3, [(3, 0)], [1, 2, 3])), (0, None), (8, "Zoë")]
    assert found["references"] == [(1, (0x4005, 3.25))]
    assert Parameters(written(PRIORITY)).invoke()["named"] == [-3]


@pytest.mark.spec("QC-098")
def test_a_call_without_arguments_has_sixteen_octets_of_zeros_for_them() -> None:
    data = written(Invocation(1))
    assert data == built(1, [])
    assert data[28:44] == bytes(16)
    assert data[44:] == bytes(12)
    assert read(data) == Invocation(1)


@pytest.mark.spec("QC-098", "QC-131")
def test_refuses_counts_of_arguments_that_disagree() -> None:
    good = built(1, [(3, 1), (3, 2)], (5,))
    assert read(good).named == (5,)
    places = {"arguments": 36, "names": 40, "maximum": 44}
    for place in places.values():
        for value in (0, 1, 3, 4, 0x7FFFFFFF, 0xFFFFFFFF):
            bad = bytearray(good)
            struct.pack_into("<I", bad, place, value)
            if bytes(bad) != good:
                refuses(bytes(bad))
    for pointer in (28, 32):
        bad = bytearray(good)
        struct.pack_into("<I", bad, pointer, 0)
        refuses(bytes(bad))
    for end in range(len(good)):
        refuses(good[:end])
    with pytest.raises(InvalidParameter):
        written(Invocation(1, named=(1,)))


@pytest.mark.spec("QC-099")
def test_named_arguments_come_first_and_the_first_positional_one_last() -> None:
    """Five arguments: three by position, two by name; indices 4 to 0."""
    arguments = tuple(Variant(3, number) for number in (50, 40, 3, 2, 1))
    invocation = Invocation(1, METHOD, arguments, (12, 11))
    found = Parameters(written(invocation)).invoke()
    assert [value for _, value in found["arguments"]] == [50, 40, 3, 2, 1]
    assert found["named"] == [12, 11]
    assert read(written(invocation)) == invocation


@pytest.mark.spec("QC-100")
def test_references_fill_empty_slots_once_each() -> None:
    slots = [(0, None), (0, None), (3, 7)]
    good = built(1, slots, references=((1, 0x4003, 5), (0, 0x4008, "x")))
    assert read(good).complete() == (Variant(0x4008, "x"), Variant(0x4003, 5), Variant(3, 7))
    for references in (((1, 0x4003, 5), (1, 0x4003, 5)), ((3, 0x4003, 5),), ((2, 0x4003, 5),),
                       ((0xFFFFFFFF, 0x4003, 5),), ((0, 3, 5),)):  # fmt: skip
        refuses(built(1, slots, references=references))
    refuses(built(1, [(0x4003, 5)]))


@pytest.mark.spec("QC-102")
def test_flags_name_one_kind_and_no_interface_is_asked_for() -> None:
    for flags in (1, 2, 0x20001, 0x40001, 0x80001, 0xE0001, 0xA0002):
        assert read(built(1, [], flags=flags)).flags == flags
    for flags in (0, 3, 5, 6, 12, 16, 17, 0x10001, 0x100001, 0xFFFFFFFF):
        refuses(built(1, [], flags=flags))
    other = bytearray(built(1, []))
    other[4] = 1
    refuses(bytes(other))
    assert read(built(1, [], lcid=0x0800)).lcid == 0x0800
    assert read(written(Invocation(1))).lcid == 0x0409


@pytest.mark.spec("QC-103")
def test_a_property_is_put_by_the_one_name_for_it() -> None:
    for flags in (4, 8):
        assert read(built(9, [(3, 4)], (-3,), flags)).kind == flags
        assert read(built(9, [(3, 4), (3, 1)], (-3,), flags)).arguments == (Variant(3, 4), Variant(3, 1))
        for named in ((), (3,), (-3, -3), (-3, 1)):
            refuses(built(9, [(3, 4), (3, 4)], named, flags))
        refuses(built(9, [], flags=flags))


@pytest.mark.spec("QC-097")
def test_the_interface_of_an_invocation_is_none_and_its_numbers_stand_in_their_order() -> None:
    good = built(7, [(3, 4)])
    lcid, flags = struct.unpack_from("<II", good, 20)
    assert struct.unpack_from("<i16s", good) == (7, bytes(16))
    assert (read(good).lcid, read(good).flags) == (lcid, flags)
    for at in range(4, 20):
        refuses(good[:at] + b"\1" + good[at + 1 :])


@pytest.mark.spec("QC-095")
def test_an_argument_of_an_impossible_type_is_refused() -> None:
    good = built(1, [(3, 4)])
    at = good.find(struct.pack("<HHHHI", 3, 0, 0, 0, 3))
    for vt in (0x18, 0x1A, 0x1F, 0xC, 0x1003):
        bad = bytearray(good)
        struct.pack_into("<HHHHI", bad, at, vt, 0, 0, 0, vt)
        refuses(bytes(bad))


@pytest.mark.spec("QC-106")
def test_a_refusal_carries_its_code_through_pickles() -> None:
    error = DispatchRefused(dispatch.TYPE_MISMATCH, "no number", where="ship")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (again.code, again.symbol, str(again)) == (0x80020005, "DISP_E_TYPEMISMATCH", str(error))
    assert isinstance(SCode(error.code), int)
