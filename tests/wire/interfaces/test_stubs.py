"""Every stub of every interface against a second reading of the IDL (tests/wire/second_rpc.py), byte for byte."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lior.errors import Malformed
from lior.wire.ndr import NDR, NDR64, NDR_BIG_ENDIAN, Syntax
from lior.wire.rpc_interface import Codec
from tests.wire import second_rpc
from tests.wire.rpc_values import INTERFACES, METHODS, SYNTAXES, calls, plain_call

COMPARED = sorted(second_rpc.METHODS)
FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def sink(syntax: Syntax) -> second_rpc.Sink:
    return second_rpc.Sink(syntax is NDR64, ">" if syntax is NDR_BIG_ENDIAN else "<")


def same_referents(stub: bytes, theirs: second_rpc.Sink) -> bytes:
    """The stub with the other one's referents. Each pointer has one of its own, as full pointers must."""
    changed, seen = bytearray(stub), set()
    width = 8 if theirs.wide else 4
    for at in theirs.referents:
        seen.add(bytes(changed[at:at + width]))
        changed[at:at + width] = theirs.out[at:at + width]
    assert len(seen) == len(theirs.referents)
    assert bytes(width) not in seen
    return bytes(changed)


def compare(codec: Codec, values: tuple[Any, ...], request: tuple[Any, ...] | None, syntax: Syntax,
            expected: second_rpc.Parameters, outer: dict[str, Any]) -> None:
    plain = plain_call(codec, values)
    theirs = sink(syntax)
    second_rpc.run(theirs, expected, plain, outer)
    stub = theirs.end()
    assert codec.decode(stub, request, syntax) == values
    if syntax is NDR_BIG_ENDIAN:
        return
    ours = codec.encode(values, request, syntax)
    assert b"".join(codec.encode_parts(values, request, syntax)) == ours
    assert same_referents(ours, theirs) == stub
    source = second_rpc.Source(stub, syntax is NDR64)
    found = second_rpc.run(source, expected, {}, outer)
    source.end()
    assert {name: value for name, value in found.items() if value is not None} == plain


@pytest.mark.spec("MP-028")
@pytest.mark.spec("MP-030")
@pytest.mark.spec("MP-031")
@pytest.mark.spec("MP-032")
@pytest.mark.spec("MP-033")
@pytest.mark.spec("MP-037")
@pytest.mark.spec("MP-038")
@pytest.mark.spec("MP-064")
@pytest.mark.parametrize(("name", "opnum"), COMPARED)
def test_agrees_with_a_second_reading_of_the_idl(name: str, opnum: int) -> None:
    method = METHODS[name, opnum]

    @FEW
    @given(calls(method))
    def check(call: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
        request, response = call
        asked, answered = second_rpc.METHODS[name, opnum]
        outer = plain_call(method.request, request)
        for syntax in (*SYNTAXES[name], NDR_BIG_ENDIAN):
            compare(method.request, request, None, syntax, asked, {})
            compare(method.response, response, request, syntax, answered, outer)

    check()


@pytest.mark.parametrize(("name", "opnum"), sorted(METHODS))
def test_gives_back_what_it_took(name: str, opnum: int) -> None:
    method = METHODS[name, opnum]

    @FEW
    @given(calls(method))
    def check(call: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
        request, response = call
        for syntax in SYNTAXES[name]:
            assert method.request.decode(method.request.encode(request, None, syntax), None, syntax) == request
            stub = method.response.encode(response, request, syntax)
            assert method.response.decode(stub, request, syntax) == response
            assert method.response.decode(memoryview(stub), request, syntax) == response
            assert method.response.decode(stub, None, syntax) == response

    check()


@pytest.mark.parametrize(("name", "opnum"), sorted(METHODS))
def test_refuses_a_stub_cut_anywhere(name: str, opnum: int) -> None:
    method = METHODS[name, opnum]

    @settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(calls(method))
    def check(call: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
        request, response = call
        for syntax in SYNTAXES[name]:
            for codec, values, asked in ((method.request, request, None), (method.response, response, request)):
                stub = codec.encode(values, asked, syntax)
                for cut in range(len(stub)):
                    with pytest.raises(Malformed):
                        codec.decode(stub[:cut], asked, syntax)
                with pytest.raises(Malformed):
                    codec.decode(stub + bytes(9), asked, syntax)

    check()


@pytest.mark.parametrize(("name", "opnum"), sorted(METHODS))
def test_a_changed_stub_is_refused_or_means_what_it_says(name: str, opnum: int) -> None:
    """Any other number in place of four bytes: one error, or values that are written as they were read."""
    method = METHODS[name, opnum]

    @FEW
    @given(calls(method), st.data())
    def check(call: tuple[tuple[Any, ...], tuple[Any, ...]], data: st.DataObject) -> None:
        for codec, values in ((method.request, call[0]), (method.response, call[1])):
            stub = bytearray(codec.encode(values))
            if len(stub) < 4:
                continue
            at = 4 * data.draw(st.integers(0, len(stub) // 4 - 1))
            stub[at:at + 4] = data.draw(st.sampled_from([0, 1, 2, 3, 20, 21, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]).map(
                lambda number: number.to_bytes(4, "little")))
            try:
                found = codec.decode(bytes(stub))
            except Malformed:
                continue
            assert codec.decode(codec.encode(found)) == found

    check()


@pytest.mark.spec("MP-001")
@pytest.mark.spec("MP-002")
def test_has_the_identities_and_opnums_of_the_documents() -> None:
    found = {interface.name: (str(interface.uuid), interface.version, interface.opnums, sorted(interface.methods))
             for interface in INTERFACES}
    assert found == {
        "qmcomm": ("fdb3a030-065f-11d1-bb9b-00a024ea5525", (1, 0), 35,
                   [1, 2, 3, 4, *range(6, 13), *range(14, 21), 22, 23, 26, 27, 28, 31]),
        "qmcomm2": ("76d12b80-3467-11d3-91ff-0090272f9ea3", (1, 0), 4, [0, 1, 2, 3]),
        "qm2qm": ("1088a980-eae5-11d0-8d9b-00a02453c337", (1, 0), 11, list(range(11))),
        "RemoteRead": ("1a9134dd-7b39-45ba-ad88-44d01ca47f28", (1, 0), 16, [0, *range(2, 16)]),
        "qmmgmt": ("41208ee0-e970-11d1-9b9e-00e02c064c39", (1, 0), 2, [0, 1]),
        "epmapper": ("e1af8308-5d1f-11c9-91a4-08002b14a0fa", (3, 0), 7, [2, 3, 4]),
        "mgmt": ("afa8bd80-7d8a-11c9-bef4-08002b102989", (1, 0), 5, [0, 1, 2, 3, 4]),
    }


def test_offers_ndr64_where_a_document_asks_for_it() -> None:
    assert {name: [syntax.name for syntax in syntaxes] for name, syntaxes in SYNTAXES.items()} == {
        "qmcomm": ["NDR"], "qmcomm2": ["NDR"], "qm2qm": ["NDR", "NDR64"], "RemoteRead": ["NDR", "NDR64"],
        "qmmgmt": ["NDR"], "epmapper": ["NDR"], "mgmt": ["NDR"]}
    assert [str(NDR.uuid), str(NDR64.uuid)] == [
        "8a885d04-1ceb-11c9-9fe8-08002b104860", "71710533-beba-4937-8319-b5dbef9ccc36"]
