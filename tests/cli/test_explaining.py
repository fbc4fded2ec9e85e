"""lior name, error, completion, serve."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lior.cli.error_texts import CLASS_TEXTS, ERROR_TEXTS
from lior.cli.explain import look_up
from lior.errors import HRESULTS, NAMES
from lior.message import MessageClass
from tests.cli.conftest import Lior, records


def test_every_error_and_every_message_class_is_explained() -> None:
    assert set(ERROR_TEXTS) == set(HRESULTS)
    assert set(CLASS_TEXTS) == set(MessageClass.__members__)
    for symbol, (meaning, remedy) in (ERROR_TEXTS | CLASS_TEXTS).items():
        assert meaning.endswith(".")
        if symbol not in ("MQ_OK", "NORMAL", "REPORT") and not symbol.startswith(("MQ_INFORMATION", "ACK_", "ORDER_")):
            assert remedy or symbol == "STATUS_NOT_FOUND", symbol


@pytest.mark.parametrize("symbol", sorted(HRESULTS))
def test_an_error_is_found_by_code_in_every_spelling(symbol: str) -> None:
    code = HRESULTS[symbol]
    signed = code - (1 << 32) if code & 0x80000000 else code
    for text in (f"0x{code:08X}", f"{code:08x}", str(code), str(signed), symbol, symbol.lower()):
        assert look_up(text) == [symbol]


@pytest.mark.parametrize("known", list(MessageClass))
def test_a_message_class_is_found_by_number_and_name(known: MessageClass) -> None:
    assert look_up(known.name) == [known.name]
    if known.value not in NAMES:
        assert look_up(f"0x{known.value:04X}") == [known.name]


def test_explains_an_error(lior: Lior) -> None:
    shown = lior("error", "-1072824317").output
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in shown
    assert "lior queue create" in shown
    (data,) = records(lior("error", "queue_not_found", "--json"))
    assert (data["code"], data["number"], data["kind"]) == ("0xC00E0003", 0xC00E0003, "error")
    assert "several names fit" in lior("error", "timeout", code=1).stderr
    assert "no error" in lior("error", "xyz", code=1).stderr


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (r".\private$\orders", {"name": r".\private$\orders", "local": True, "queue": "orders"}),
        (r"far\private$\orders", {"local": False, "format_name": r"DIRECT=OS:far\private$\orders"}),
        (r"direct=tcp:192.0.2.7\private$\q;journal",
         {"name": r"DIRECT=TCP:192.0.2.7\private$\q;JOURNAL", "local": False, "suffix": "JOURNAL", "usable": True}),
        ("DIRECT=HTTP://host/msmq/q", {"local": False, "protocol": "HTTP"}),
        ("MULTICAST=224.0.1.7:8001", {"kind": "format name, multicast", "usable": True}),
        ("PUBLIC=11111111-2222-3333-4444-555555555555", {"kind": "format name, public"}),
    ],
)  # fmt: skip
def test_explains_a_name(lior: Lior, name: str, expected: dict[str, object]) -> None:
    (data,) = records(lior("name", name, "--json"))
    assert {key: data[key] for key in expected} == expected
    assert data["name"] in lior("name", name).output


def test_explains_each_element_of_several(lior: Lior) -> None:
    (data,) = records(lior("name", r"DIRECT=OS:.\private$\a,DIRECT=OS:far\private$\b", "--json"))
    assert [element["local"] for element in data["elements"]] == [True, False]


def test_knows_its_own_identifier_with_a_data_directory(shop: Lior) -> None:
    (figures,) = records(shop("stats", "--json"))
    (own,) = records(shop("name", f"MACHINE={figures['identifier']};DEADXACT", "--json"))
    assert (own["local"], own["usable"]) == (True, True)
    (other,) = records(shop("name", "PRIVATE=11111111-2222-3333-4444-555555555555\\0000000f", "--json"))
    assert (other["local"], other["usable"]) == (False, False)
    assert "directory service" in other["why"]


def test_says_nothing_of_identifiers_without_one(lior: Lior, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIOR_DATA")
    (data,) = records(lior("name", "MACHINE=11111111-2222-3333-4444-555555555555;JOURNAL", "--json"))
    assert "local" not in data


def test_refuses_what_is_no_name(lior: Lior) -> None:
    assert "ILLEGAL_FORMATNAME" in lior("name", "DIRECT=XX:1", code=1).stderr
    assert "ILLEGAL_QUEUE_PATHNAME" in lior("name", "orders", code=1).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_for_lior(lior: Lior, shell: str, tmp_path: Path) -> None:
    script = lior("completion", shell).output
    assert "_LIOR_COMPLETE" in script
    if shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        subprocess.run([shell, "-n", str(file)], check=True)
    lior("completion", "tcsh", code=2)
