"""Recorded calls: every value of every type comes back, whatever stands around it; every cut is refused."""

# ruff: noqa: DTZ001

import itertools
import struct
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lior.errors import LiorError, Malformed
from lior.security import Sid
from lior.wire import automation_objects as objects
from lior.wire import automation_types as types
from lior.wire import recorded_call
from lior.wire import recorded_call_security as security
from lior.wire.automation import EMPTY, Bound, SafeArray, SCode, Variant
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_dispatch import Invocation, read_invocation, write_invocation
from lior.wire.automation_types import AutomationReader, AutomationWriter
from lior.wire.automation_variants import ANY, VARIANT
from lior.wire.recorded_call import Call, RecordedMessage
from lior.wire.recorded_call_security import CallerProperties, SecurityExtension
from tests.wire.second_recorded_call import Parameters, headers

texts = st.none() | st.text() | st.binary().filter(lambda data: len(data) % 2 == 1)
milliseconds = st.integers(0, 86_400_000 * 20_000)
dates = milliseconds.map(lambda count: datetime(1899, 12, 30) + timedelta(milliseconds=count))
currencies = st.integers(-(1 << 63), (1 << 63) - 1).map(lambda number: Decimal(number) / 10_000)
decimals = st.builds(lambda number, scale: Decimal(number).scaleb(-scale), st.integers(-(10**27), 10**27),
                     st.integers(0, 28))
floats = st.floats(allow_nan=False)

SCALARS: dict[int, tuple[Any, st.SearchStrategy[Any]]] = {
    **{kind.vt: (kind, st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)) for kind, bits in (
        (types.I1, 8), (types.I2, 16), (types.I4, 32), (types.INT, 32), (types.I8, 64))},
    **{kind.vt: (kind, st.integers(0, (1 << bits) - 1)) for kind, bits in (
        (types.UI1, 8), (types.UI2, 16), (types.UI4, 32), (types.UINT, 32), (types.UI8, 64))},
    types.R4.vt: (types.R4, st.floats(width=32, allow_nan=False)), types.R8.vt: (types.R8, floats),
    types.BOOL.vt: (types.BOOL, st.booleans()), types.ERROR.vt: (types.ERROR, st.integers(0, 0xFFFFFFFF).map(SCode)),
    types.CY.vt: (types.CY, currencies), types.DATE.vt: (types.DATE, dates),
    types.DECIMAL.vt: (types.DECIMAL, decimals), types.BSTR.vt: (types.BSTR, texts),
}  # fmt: skip
kinds = st.sampled_from(sorted(SCALARS))


@st.composite
def arrays(draw: st.DrawFn, elements: st.SearchStrategy[Any] | None = None) -> SafeArray:
    vt = draw(kinds.filter(lambda each: each != 14)) if elements is None else 12
    bounds = tuple(Bound(draw(st.integers(0, 4)), draw(st.integers(-5, 5))) for _ in range(draw(st.integers(1, 3))))
    total = 1
    for bound in bounds:
        total *= bound.length
    values = SCALARS[vt][1] if elements is None else elements
    return SafeArray(vt, tuple(draw(st.lists(values, min_size=total, max_size=total))), bounds)


def simple_variants() -> st.SearchStrategy[Variant]:
    scalars = kinds.flatmap(lambda vt: SCALARS[vt][1].map(lambda value: Variant(vt, value)))
    by_reference = scalars.map(lambda variant: Variant(variant.vt | 0x4000, variant.value))
    held = arrays().map(lambda array: Variant(0x2000 | array.vt, array))
    return st.sampled_from([Variant(0), Variant(1)]) | scalars | by_reference | held


variants = st.recursive(
    simple_variants(),
    lambda inner: inner.map(lambda variant: Variant(0x400C, variant)) | arrays(inner).map(
        lambda array: Variant(0x200C, array)), max_leaves=6,
)  # fmt: skip


def normal(value: Any) -> Any:
    """Arrays of octets are bytes; the rest compares as it is."""
    if isinstance(value, Variant):
        return Variant(value.vt, normal(value.value))
    if isinstance(value, SafeArray):
        return SafeArray(value.vt, tuple(normal(each) for each in value.elements), value.bounds)
    return value


@pytest.mark.spec("QC-067", "QC-068", "QC-071", "QC-072", "QC-073", "QC-076", "QC-096")
@given(st.lists(kinds.flatmap(lambda vt: st.tuples(st.just(vt), SCALARS[vt][1]))), st.binary(max_size=4096))
def test_parameters_come_back_whatever_lies_behind_them(values: list[tuple[int, Any]], slack: bytes) -> None:
    writer = AutomationWriter()
    for vt, value in values:
        SCALARS[vt][0].write_parameter(writer, value)
    reader = AutomationReader(writer.to_bytes() + slack)
    for vt, value in values:
        assert SCALARS[vt][0].read_parameter(reader) == value
    assert reader.at == len(writer.data)


@pytest.mark.spec("QC-086", "QC-090", "QC-093", "QC-094")
@given(variants)
def test_every_variant_comes_back_and_the_second_hand_finds_its_end(variant: Variant) -> None:
    writer = AutomationWriter()
    VARIANT.write_parameter(writer, variant)
    data = writer.to_bytes()
    assert normal(VARIANT.read_parameter(AutomationReader(data))) == normal(variant)
    second = Parameters(data)
    second.read("variant")
    assert second.at == len(data)


@given(arrays())
def test_every_array_comes_back_with_its_shape(array: SafeArray) -> None:
    kind = SafeArrayType(SCALARS[array.vt][0], dimensions=len(array.bounds))
    writer = AutomationWriter()
    kind.write_parameter(writer, array)
    found = kind.read_parameter(AutomationReader(writer.to_bytes()))
    if not isinstance(found, bytes):
        assert found == SafeArray(array.vt, array.elements, array.bounds).to_list()
    second = Parameters(writer.to_bytes()).read("safearray")[0]
    assert second[1] == [tuple(bound) for bound in array.bounds]


plain = st.recursive(
    st.just(EMPTY) | st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | floats | st.text() | dates
    | decimals | st.binary(),
    lambda inner: st.lists(inner, max_size=4), max_leaves=10,
)  # fmt: skip


@given(plain)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    writer = AutomationWriter()
    ANY.write_parameter(writer, value)
    assert ANY.read_parameter(AutomationReader(writer.to_bytes())) == value


@pytest.mark.spec("QC-097", "QC-098", "QC-100")
@given(st.data(), st.integers(-(1 << 31), (1 << 31) - 1), st.lists(simple_variants().filter(lambda v: v.vt < 0x4000)))
def test_every_invocation_comes_back(data: st.DataObject, dispid: int, arguments: list[Variant]) -> None:
    slots = data.draw(st.sets(st.integers(0, max(len(arguments) - 1, 0)))) if arguments else set()
    references = []
    for slot in sorted(slots, reverse=True):
        if arguments[slot].vt > 1:
            references.append((slot, Variant(arguments[slot].vt | 0x4000, arguments[slot].value)))
            arguments[slot] = Variant(0)
    named = tuple(range(data.draw(st.integers(0, len(arguments)))))
    invocation = Invocation(dispid, 1, tuple(arguments), named, tuple(references))
    writer = AutomationWriter()
    write_invocation(writer, invocation)
    found = read_invocation(AutomationReader(writer.to_bytes()))
    assert found._replace(arguments=tuple(map(normal, found.arguments)), references=tuple(
        (slot, normal(value)) for slot, value in found.references)) == invocation._replace(
        arguments=tuple(map(normal, arguments)),
        references=tuple((slot, normal(value)) for slot, value in references))  # fmt: skip


contexts = st.sampled_from([b"", b"a" * 8, b"b" * 9, b"c" * 80])
interfaces = st.sampled_from([UUID(int=1), UUID(int=2)])
calls = st.builds(Call, interfaces, st.integers(0, 0xFFFFFFFF), contexts, st.binary(max_size=64))


@pytest.mark.spec("QC-019", "QC-028", "QC-039", "QC-040", "QC-042", "QC-057")
@given(st.uuids(), st.lists(calls, min_size=1, max_size=12), st.none() | st.uuids())
def test_every_message_comes_back_and_shares_all_that_it_may(
    class_id: UUID, recorded: list[Call], partition: UUID | None
) -> None:
    body = recorded_call.encode(RecordedMessage(class_id, recorded, partition))
    found = recorded_call.decode(body, strict=True)
    assert (found.class_id, found.partition) == (class_id, partition)
    assert [call[:4] for call in found.calls] == [call[:4] for call in recorded]
    signatures = [signature for signature, at, _ in headers(body)]
    assert signatures.count(b"SECD") == len({call.security for call in recorded})
    changes = sum(one.security != other.security for one, other in itertools.pairwise(recorded))
    assert signatures.count(b"SECD") + signatures.count(b"SECR") == 1 + changes
    moves = sum(one.interface_id != other.interface_id for one, other in itertools.pairwise(recorded))
    assert signatures.count(b"METH") == 1 + moves
    for end in range(0, len(body), 8):
        with pytest.raises(Malformed):
            recorded_call.decode(body[:end])


sids = st.builds(lambda authority, numbers: Sid(authority, tuple(numbers)), st.integers(0, (1 << 48) - 1),
                 st.lists(st.integers(0, 0xFFFFFFFF), max_size=15))
numbers = st.none() | st.integers(0, 0xFFFFFFFF)
accounts = st.none() | st.text(max_size=40).filter(lambda text: "\0" not in text)
callers = st.builds(CallerProperties, sids, st.booleans(), accounts, st.just(False), numbers, numbers, numbers)


@pytest.mark.spec("QC-044", "QC-045", "QC-046", "QC-051")
@given(st.sampled_from([0, 2]), st.integers(0, 0xFFFFFFFF), st.lists(callers, max_size=4))
def test_every_security_extension_comes_back_and_every_cut_is_refused(
    style: int, level: int, chain: list[CallerProperties]
) -> None:
    extension = SecurityExtension(style, level, tuple(chain))
    data = security.encode(extension)
    assert security.decode(data) == extension
    for end in range(len(data)):
        with pytest.raises(Malformed):
            security.decode(data[:end])


@pytest.mark.spec("QC-127", "QC-131")
@given(st.binary(max_size=400), st.sampled_from([ANY, VARIANT, types.BSTR, objects.UNKNOWN, SafeArrayType(ANY)]))
def test_octets_are_read_or_refused_with_one_error(data: bytes, kind: Any) -> None:
    try:
        kind.read_parameter(AutomationReader(data))
    except Malformed:
        return


@pytest.mark.spec("QC-127")
@given(variants, st.integers(0, 300), st.integers(0, 0xFFFFFFFF))
def test_a_variant_with_a_number_changed_is_read_or_refused_with_one_error(
    variant: Variant, at: int, value: int
) -> None:
    writer = AutomationWriter()
    VARIANT.write_parameter(writer, variant)
    data = bytearray(writer.to_bytes())
    if at + 4 <= len(data):
        struct.pack_into("<I", data, at, value)
    try:
        VARIANT.read_parameter(AutomationReader(bytes(data)))
    except LiorError as error:
        assert type(error) is Malformed
