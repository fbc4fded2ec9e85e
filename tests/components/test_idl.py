"""Interfaces from IDL."""

from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from lior.components import idl, interface_of
from lior.components.idl_python import import_text
from lior.components.stubs import stub_of
from lior.errors import BadConfiguration
from lior.wire.automation_arrays import SafeArrayType

TEXT = r"""
import "oaidl.idl";
#pragma once
/* everything that the
   importer knows */
cpp_quote("// nothing")
[uuid(11111111-2222-3333-4444-555555555501), version(1.0)]
library Orders {
  importlib("stdole2.tlb");
  typedef [v1_enum] enum tagColour { Red = 1, Green, Blue = 0x10, Last = Blue } Colour;
  typedef enum { None, Small = -0, Big = 7 } Size;
  typedef [uuid(11111111-2222-3333-4444-555555555502)] struct tagLine { BSTR article; short count; double price; } Line;
  struct Bare { long x; };
  typedef long OrderId;
  typedef [public] OrderId OrderNumber;
  interface IOther;
  [object, uuid(3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31), oleautomation, pointer_default(unique)]
  interface IOrderSink : IUnknown {
    HRESULT PlaceOrder([in] OrderNumber orderId, [in] BSTR customer, [in] double amount);
    [id(7), helpstring("a, b (c)")] HRESULT AddLines([in] short warehouse, [in] SAFEARRAY(long) quantities,
                                                     [in] VARIANT_BOOL urgent);
    HRESULT GetTotal([in] long id, [out, retval] double* total);
    HRESULT Paint([in] Colour c, [in] Size s, [in] Line l, [in] IUnknown* o, [in] boolean from, [in] long* p);
    HRESULT Name([in, string] wchar_t* s);
    HRESULT Raw([in] long x[10]);
    HRESULT Bare([in] struct Bare b);
    unsigned long Count();
    HRESULT Back([in, out] long* x);
    HRESULT Last(void);
  };
  [uuid(3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f35)] interface IDerived : IOrderSink { HRESULT More([in] boolean plain); };
  [uuid(3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f32), dual] interface IMore : IDispatch {
    [id(1), propput] HRESULT Priority([in] long value);
    [id(1), propget] HRESULT Priority([out, retval] long* value);
    [id(2)] HRESULT Ship([in] BSTR what, [in, out] double* weight, [in, optional] VARIANT note,
                         [in, defaultvalue(5)] long n, [in, defaultvalue("x")] BSTR t, [in, lcid] long lcid);
    [id(3), vararg] HRESULT Log([in] BSTR text, [in] SAFEARRAY(VARIANT) rest);
    [id(0xFFFFFFFC)] HRESULT Items([in] IOrderSink* sink, [in] IDispatch* d, [in] SAFEARRAY(BSTR)* names);
  };
  [uuid(3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f33)] dispinterface DEvents {
    properties: [id(5)] long Level; [id(6), readonly] long Depth;
    methods: [id(8)] void Fired([in] BSTR why); [id(9)] long Answer();
  };
  [uuid(5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01)] coclass OrderSink { [default] interface IOrderSink; };
};
"""


def module() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "orders"}
    exec(compile(import_text(TEXT, "orders.idl"), "orders", "exec"), names)  # noqa: S102
    return names


@pytest.mark.spec("QC-059", "QC-065")
def test_numbers_are_those_of_the_file_whatever_is_left_out() -> None:
    names = module()
    sink = interface_of(names["IOrderSink"])
    assert {method.name: method.number for method in sink.methods.values()} == {
        "place_order": 3, "add_lines": 4, "paint": 6, "last": 12}  # fmt: skip
    assert interface_of(names["IDerived"]).by_name["more"].number == 13
    more = interface_of(names["IMore"])
    assert {method.name: (method.number, method.dispid) for method in more.methods.values()} == {
        "priority": (7, 1), "ship": (9, 2), "log": (10, 3), "items": (11, -4)}  # fmt: skip
    assert {method.name: method.dispid for method in interface_of(names["DEvents"]).methods.values()} == {
        "level": 5, "fired": 8}  # fmt: skip
    assert str(sink.iid) == "3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31"
    assert names["ORDER_SINK"] == "{5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01}"


@pytest.mark.spec("QC-096", "QC-070", "QC-069")
def test_types_are_those_of_the_table() -> None:
    names = module()
    sink = interface_of(names["IOrderSink"])
    kinds = [repr(each.kind) for method in ("place_order", "add_lines", "paint")
             for each in sink.by_name[method].parameters]
    assert kinds == ["VT_I4", "VT_BSTR", "VT_R8", "VT_I2", "SAFEARRAY(VT_I4)", "VT_BOOL", "VT_I4", "VT_I4", "Line",
                     "VT_UNKNOWN", "VT_BOOL", "VT_I4"]  # fmt: skip
    colour, size = (sink.by_name["paint"].parameters[at].kind for at in (0, 1))
    assert (colour.size, size.size) == (4, 2)
    assert sink.by_name["paint"].parameters[4].kind.size == 2  # boolean of Automation
    assert interface_of(names["IDerived"]).by_name["more"].parameters[0].kind.size == 1  # of plain NDR
    ship = interface_of(names["IMore"]).by_name["ship"]
    assert [each.by_reference for each in ship.parameters] == [False, True, False, False, False, False]
    assert [each.default for each in ship.parameters[3:5]] == [5, "x"]
    assert ship.parameters[5].is_locale
    items = interface_of(names["IMore"]).by_name["items"].parameters[2].kind
    assert isinstance(items, SafeArrayType)
    assert issubclass(names["Colour"], IntEnum)
    assert [member.value for member in names["Colour"].__members__.values()] == [1, 2, 16, 16]
    assert names["Size"].None_ == 0


def test_what_cannot_be_recorded_stays_as_a_comment_with_its_reason() -> None:
    text = import_text(TEXT, "orders.idl")
    for line in ("# 5 GetTotal: it has a result, total", "# 7 Name: s is [string]", "# 8 Raw: long[] is a C array",
                 "# 10 Count: it answers unsigned long", "# 11 Back: x comes back", "# 8 Priority: it answers",
                 "# struct Bare cannot be recorded: it has no uuid"):  # fmt: skip
        assert line in text, line


@pytest.mark.parametrize("text", [
    "", "interface", "interface IFoo { HRESULT Bar( };", "[uuid(x)] interface IFoo : IUnknown {", "garbage",
    "typedef enum { A = x } B;", "interface IA : IUnknown { HRESULT B(); }; interface IA : IUnknown { HRESULT B(); };",
    "[uuid(3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31)] interface IA : INowhere { HRESULT B(); };",
    "interface IA : IUnknown { HRESULT B(); };", "dispinterface D { interface INowhere; };", "typedef union { } U;",
])  # fmt: skip
def test_a_file_that_is_not_understood_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(BadConfiguration):
        import_text(text, "bad.idl")


def test_an_error_names_its_line() -> None:
    with pytest.raises(BadConfiguration) as caught:
        idl.parse("\n\ninterface IA : IUnknown {\n  HRESULT B(;\n};", "x.idl")
    assert "line 4" in caught.value.where


def test_a_file_cannot_write_python_of_its_own(tmp_path: Path) -> None:
    """Names are words, defaults are literals, the file's name is cleaned."""
    text = TEXT.replace('defaultvalue("x")', r'defaultvalue("x\" + exit() + \"")')
    module_text = import_text(text, 'evil"""\nimport os\n"""')
    assert "\nimport os" not in module_text
    compile(module_text, "x", "exec")
    assert "exit()" not in module_text.replace(repr(r"x\" + exit() + \""), "")


def test_the_stub_has_plain_types() -> None:
    names = module()
    text = stub_of([interface_of(names["IOrderSink"]), interface_of(names["IMore"])])
    compile(text, "stub", "exec")
    assert "def place_order(self, order_id: int, customer: str | bytes | None, amount: float) -> None: ..." in text
    assert "def log(self, text: str | bytes | None, *rest: Any) -> None: ..." in text
    assert "class Colour: ..." in text
