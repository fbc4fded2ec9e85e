"""impacket's NDR engine as a third reader and writer of parameters."""

from typing import Any

import pytest
from impacket.dcerpc.v5.dcom.oaut import FLAGGED_WORD_BLOB
from impacket.dcerpc.v5.dtypes import DOUBLE, LONG, SHORT, ULONG, USHORT
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRPOINTER,
    NDRSTRUCT,
    NDRUniConformantArray,
)

from lior.wire import automation_types as types
from lior.wire import recorded_call
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_types import AutomationReader, AutomationWriter
from tests.wire.recorded_call_vectors import A, add_lines, place_order


class Blob(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", FLAGGED_WORD_BLOB),)


class PlaceOrder(NDRCALL):  # type: ignore[misc]
    structure = (("orderId", LONG), ("customer", Blob), ("amount", DOUBLE))


class Longs(NDRUniConformantArray):  # type: ignore[misc]
    item = "<l"


class LongsPointer(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", Longs),)


class Bound(NDRSTRUCT):  # type: ignore[misc]
    structure = (("cElements", ULONG), ("lLbound", LONG))


class Bounds(NDRUniConformantArray):  # type: ignore[misc]
    item = Bound


class Array(NDRSTRUCT):  # type: ignore[misc]
    """_wireSAFEARRAY with the arm for four-octet scalars."""

    structure = (("cDims", USHORT), ("fFeatures", USHORT), ("cbElements", ULONG), ("cLocks", ULONG), ("sfType", ULONG),
                 ("clSize", ULONG), ("pData", LongsPointer), ("rgsabound", Bounds))  # fmt: skip


class ArrayPointer(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", Array),)


class ArrayPointerPointer(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", ArrayPointer),)


class AddLines(NDRCALL):  # type: ignore[misc]
    structure = (("warehouse", SHORT), ("quantities", ArrayPointerPointer), ("urgent", USHORT))


@pytest.mark.spec("QC-064", "QC-075", "QC-131")
@pytest.mark.parametrize(("number", "customer", "amount"), [(1001, "Zoë", 249.5), (-1, "", 0.0), (7, "x" * 77, -1e300)])
def test_impacket_reads_the_parameters_of_a_call(number: int, customer: str, amount: float) -> None:
    writer = AutomationWriter()
    for kind, value in ((types.I4, number), (types.BSTR, customer), (types.R8, amount)):
        kind.write_parameter(writer, value)
    found: Any = PlaceOrder(writer.to_bytes())
    assert found["orderId"] == number
    assert "".join(found["customer"]["asData"]) == customer
    assert found["customer"]["cBytes"] == 2 * len(customer)
    assert found["amount"] == amount
    assert place_order(number, customer, amount).octets == writer.to_bytes()


@pytest.mark.spec("QC-064", "QC-066")
def test_what_impacket_writes_is_read_here() -> None:
    call: Any = PlaceOrder()
    call["orderId"] = 1001
    call["customer"]["cBytes"] = 6
    call["customer"]["clSize"] = 3
    call["customer"]["asData"] = "Zoë"
    call["amount"] = 249.5
    reader = AutomationReader(call.getData())
    assert [kind.read_parameter(reader) for kind in (types.I4, types.BSTR, types.R8)] == [1001, "Zoë", 249.5]


@pytest.mark.spec("QC-078", "QC-079", "QC-083")
def test_impacket_reads_an_array_and_what_stands_behind_it() -> None:
    (_, second) = recorded_call.decode(A).calls
    found: Any = AddLines(bytes(second.data))
    array = found["quantities"]
    assert found["warehouse"] == -2
    assert (array["cDims"], array["fFeatures"], array["cbElements"], array["cLocks"]) == (1, 0x80, 4, 3 << 16)
    assert list(array["pData"]) == [10, 20, -30]
    assert [(bound["cElements"], bound["lLbound"]) for bound in array["rgsabound"]] == [(3, 0)]
    assert found["urgent"] == 0xFFFF
    writer = AutomationWriter()
    for kind, value in ((types.I2, 5), (SafeArrayType(types.I4), list(range(100))), (types.BOOL, False)):
        kind.write_parameter(writer, value)
    assert writer.to_bytes() == add_lines(5, list(range(100)), False).octets
    longer: Any = AddLines(writer.to_bytes())
    assert list(longer["quantities"]["pData"]) == list(range(100))
    assert (longer["warehouse"], longer["urgent"]) == (5, 0)
