"""The table of codes against a transcription of [MS-MQMQ] 2.4, and how errors carry them."""

import ast
import copy
import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from lior import errors
from lior.errors import CUSTOMER_BIT, HRESULTS, LiorError, error_from_code, succeeded

ROOT = Path(__file__).parents[1]
with (ROOT / "tests/vectors/hresults.csv").open(newline="", encoding="utf-8") as file:
    TRANSCRIBED = {row["name"]: int(row["code"], 16) for row in csv.DictReader(file)}
MQ_FACILITY = {name: code for name, code in HRESULTS.items() if name.startswith("MQ") and name != "MQ_OK"}
RANGES = [  # ledger row, first code, last code
    ("MQ-205", 0x400E0001, 0x400E000B), ("MQ-206", 0xC00E0001, 0xC00E0014), ("MQ-207", 0xC00E0018, 0xC00E0028),
    ("MQ-208", 0xC00E002A, 0xC00E0037), ("MQ-209", 0xC00E0038, 0xC00E0049), ("MQ-210", 0xC00E004A, 0xC00E005E),
    ("MQ-211", 0xC00E005F, 0xC00E0072), ("MQ-212", 0xC00E0073, 0xC00E0086), ("MQ-213", 0xC00E0087, 0xC00E009C),
    ("MQ-214", 0xC00E0504, 0xC00E0504)]


@pytest.mark.parametrize(("first", "last"), [pytest.param(a, b, marks=pytest.mark.spec(row), id=row)
                                             for row, a, b in RANGES])
def test_every_code_has_the_value_of_the_document(first: int, last: int) -> None:
    transcribed = {name: code for name, code in TRANSCRIBED.items() if first <= code <= last}
    assert {name: code for name, code in MQ_FACILITY.items() if first <= code <= last} == transcribed
    assert transcribed


def test_the_table_holds_the_whole_document_and_nothing_else_of_its_facility() -> None:
    assert MQ_FACILITY == TRANSCRIBED
    assert len(TRANSCRIBED) == 145
    assert len(set(HRESULTS.values())) == len(HRESULTS)


@pytest.mark.spec("MQ-205")
def test_informational_codes_are_successes_and_the_others_are_not() -> None:
    for name, code in MQ_FACILITY.items():
        assert succeeded(code) == name.startswith("MQ_INFORMATION")
    assert succeeded(0)
    with pytest.raises(ValueError, match="not a failure"):
        error_from_code(0x400E0003)


def emitted_codes() -> Iterator[int]:
    """Every number in the package that looks like an HRESULT of the facility, and every class's own code."""
    for path in sorted((ROOT / "src/lior").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, int) and value >> 16 & 0x1FFF == 0x000E and value >> 30 and value <= 0xFFFFFFFF:
                yield value
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, LiorError):
            yield error.code


@pytest.mark.spec("MQ-001")
def test_a_code_of_ours_carries_the_customer_bit() -> None:
    elsewhere = {0xC0000225, 0x400E03E8, 0x400E03E9}  # [MS-ERREF], [MS-MQMP] 3.1.5.4, [MS-MQQP] 3.1.4.4
    published = {0, *elsewhere, *TRANSCRIBED.values()}
    ours = {code for code in [*HRESULTS.values(), *emitted_codes()] if code not in published}
    assert ours
    for code in ours:
        assert code & CUSTOMER_BIT, hex(code)
    assert CUSTOMER_BIT == 0x20000000
    assert not any(code & CUSTOMER_BIT for code in published)


def test_each_error_class_is_found_by_its_code_and_survives_a_copy() -> None:
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, LiorError) and error is not LiorError:
            raised = error_from_code(error.code, "what", where="where", remedy="remedy")
            assert type(raised) is error
            again = copy.copy(raised)
            assert (type(again), again.code, again.what, again.where, again.remedy) == (
                error, error.code, "what", "where", "remedy")


def test_an_unknown_code_is_a_plain_error_that_keeps_it() -> None:
    error = error_from_code(0xC00E7777)
    assert type(error) is LiorError
    assert error.code == 0xC00E7777
    assert error.symbol == "0xC00E7777"
    assert str(error) == "unknown error (0xC00E7777 0xC00E7777)"
