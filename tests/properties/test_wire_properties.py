"""Any value survives its wire form; any bytes are a value or the one typed error."""

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

import fuzz_ndr
import fuzz_propvariant
import fuzz_structures
from lior.errors import LiorError, Malformed
from lior.message import ObjectId
from lior.names import QueueFormat, QueueFormatType, QueueSuffix
from lior.wire.ndr import NdrReader, NdrWriter
from lior.wire.propvariant import (
    NUMBER_VECTORS,
    RANGES,
    VT_BLOB,
    VT_BOOL,
    VT_CLSID,
    VT_LPWSTR,
    VT_UI1,
    VT_VARIANT,
    VT_VECTOR,
    PropVariant,
    read_propvariants,
    write_propvariants,
)
from lior.wire.queue_format import read_queue_format, write_queue_format
from lior.wire.structures import (
    MqDsPublicKey,
    MqUserSignCert,
    RsaPublicKey,
    SequenceInfo,
    TxSequenceId,
    public_keys_from_bytes,
    public_keys_to_bytes,
    sign_certs_from_bytes,
    sign_certs_to_bytes,
)
from tests.wire import second_ndr

guids = st.uuids()
texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)
u32 = st.integers(0, 2**32 - 1)


def of(vt: int, values: Any) -> Any:
    return values.map(lambda value: PropVariant(vt, value))


def tuples(values: Any) -> Any:
    return st.lists(values, max_size=4).map(tuple)


scalars = st.one_of(
    *[of(vt, st.integers(*bounds)) for vt, bounds in RANGES.items()],
    of(0, st.none()), of(1, st.none()), of(VT_BOOL, st.booleans()), of(VT_LPWSTR, st.none() | texts),
    of(VT_CLSID, st.none() | guids), of(VT_BLOB, st.binary(max_size=20)),
    of(VT_VECTOR | VT_UI1, st.binary(max_size=20)),
    *[of(vt, tuples(st.integers(*RANGES[base]))) for vt, (base, _) in NUMBER_VECTORS.items()],
    of(VT_VECTOR | VT_CLSID, tuples(guids)), of(VT_VECTOR | VT_LPWSTR, tuples(st.none() | texts)))
variants = st.recursive(scalars, lambda inner: of(VT_VECTOR | VT_VARIANT, tuples(inner)), max_leaves=10)


def plain(variant: PropVariant) -> tuple[int, Any]:
    if variant.vt == VT_VECTOR | VT_VARIANT:
        return variant.vt, tuple(plain(element) for element in variant.value)
    return variant.vt, variant.value


def depth(variant: PropVariant) -> int:
    if variant.vt != VT_VECTOR | VT_VARIANT:
        return 1
    return 1 + max((depth(element) for element in variant.value), default=0)


@given(st.lists(variants.filter(lambda variant: depth(variant) <= 8), max_size=5))
def test_variants_survive_the_wire_and_the_second_reader_agrees(values: Any) -> None:
    writer = NdrWriter()
    write_propvariants(writer, values)
    data = writer.to_bytes()
    reader = NdrReader(data)
    assert read_propvariants(reader, len(values)) == tuple(values)
    reader.end()
    assert second_ndr.variants(second_ndr.Stub(data), len(values)) == [plain(value) for value in values]


@given(st.lists(variants.filter(lambda variant: depth(variant) <= 8), min_size=1, max_size=3), st.data())
def test_a_stub_cut_short_is_malformed(values: Any, data: st.DataObject) -> None:
    writer = NdrWriter()
    write_propvariants(writer, values)
    whole = writer.to_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    try:
        read_propvariants(NdrReader(whole[:cut]), len(values))
    except Malformed:
        return
    raise AssertionError(f"{cut} of {len(whole)} bytes were taken")


@given(st.sampled_from([QueueFormatType.DIRECT, QueueFormatType.SUBQUEUE]), texts, st.sampled_from(list(QueueSuffix)),
       st.sampled_from([0, 0x80]), guids, u32)
def test_queue_formats_survive_the_wire(
        kind: QueueFormatType, name: str, suffix: QueueSuffix, flags: int, guid: UUID, number: int) -> None:
    for value in (QueueFormat(kind, suffix, flags, direct_id=name),
                  QueueFormat(QueueFormatType.PRIVATE, suffix, flags, guid=guid, number=number),
                  QueueFormat(QueueFormatType.DL, suffix, flags, guid=guid, domain=name)):
        writer = NdrWriter()
        write_queue_format(writer, value)
        writer.flush()
        found: list[Any] = []
        reader = NdrReader(writer.to_bytes())
        read_queue_format(reader, found.append)
        reader.flush()
        reader.end()
        assert found == [value]


@given(st.integers(1, 2**2048 - 1), st.integers(1, 2**32 - 1))
def test_keys_survive_their_blob(modulus: int, exponent: int) -> None:
    key = RsaPublicKey.from_bytes(RsaPublicKey(modulus, exponent).to_bytes())
    assert (key.modulus, key.public_exponent) == (modulus, exponent)


@given(st.lists(st.builds(MqDsPublicKey, st.sampled_from([1, 0x18]), texts, st.binary(max_size=30)), max_size=4))
def test_sets_of_keys_survive(keys: Any) -> None:
    assert public_keys_from_bytes(public_keys_to_bytes(keys)) == tuple(keys)


@given(st.lists(st.builds(MqUserSignCert, guids, st.binary(max_size=30)), max_size=4))
def test_certificates_survive(certificates: Any) -> None:
    assert sign_certs_from_bytes(sign_certs_to_bytes(certificates)) == tuple(certificates)


@given(st.integers(-2**63, 2**63 - 1), u32, u32)
def test_sequences_survive_and_order_as_numbers(number: Any, first: int, second: Any) -> None:
    info = SequenceInfo(number, first, second)
    assert SequenceInfo.from_bytes(info.to_bytes()) == info
    sequence = TxSequenceId(first, second)
    assert TxSequenceId.from_bytes(sequence.to_bytes()) == sequence
    other = TxSequenceId(second, first)
    assert (sequence < other) == (int(sequence) < int(other))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_value_or_the_typed_error(data: bytes) -> None:
    for target in (fuzz_ndr.target, fuzz_propvariant.target, fuzz_structures.target):
        target(data)
    # the targets let only LiorError pass in silence, so reaching this line is the proof
    assert issubclass(Malformed, LiorError)
    assert ObjectId.from_bytes(UUID(int=1).bytes_le + bytes(4)).uniquifier == 0
