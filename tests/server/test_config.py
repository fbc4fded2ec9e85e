"""Settings: files, assignments, what they refuse, and the page that lists them."""

import re
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from lior.errors import BadConfiguration
from lior.server.config import SECTIONS, TABLES, Settings, load, merged, settable

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def value(section: Any, name: str) -> Any:
    for each in fields(section):
        found = getattr(section, each.name)
        if each.name == name:
            return found
        if is_dataclass(found) and name in settable(found):
            return value(found, name)
    raise AssertionError(name)


def listed(section: str) -> dict[str, Any]:
    """What the page's table of a section says the defaults are."""
    part = PAGE.partition(f"### [{section}]")[2].partition("###")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", part, re.M)
    return {name: tomllib.loads(f"x = {text}")["x"] for name, text in rows}


@pytest.mark.parametrize("section", sorted(set(SECTIONS) - TABLES))
def test_the_page_lists_every_setting_with_its_default_and_no_other(section: str) -> None:
    known = getattr(Settings(), section)
    defaults = {name: value(known, name) for name in settable(known)}
    assert listed(section) == {name: list(v) if isinstance(v, tuple) else v for name, v in defaults.items()}


def test_the_page_has_every_section() -> None:
    assert set(re.findall(r"^### \[(\w+)\]", PAGE, re.M)) == set(SECTIONS)


def test_an_assignment_goes_before_the_file_and_the_file_before_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "lior.toml"
    file.write_text('[server]\nbind = ["127.0.0.2"]\n[binary]\nwindow_size = 7\nport = 0\n[log]\nlevel = "error"\n')
    settings = load(file, ["log.level=debug", "binary.cleanup=120", 'server.name="x"'])
    assert settings.server.bind == ("127.0.0.2",)
    assert settings.binary.port == 0
    assert settings.binary.session.window_size == 7
    assert settings.binary.session.cleanup == 120.0
    assert settings.log.level == "debug"
    assert settings.server.name == "x"
    assert settings.binary.peer_port == 1801


def test_routes_are_by_host_or_guid_with_or_without_quotes(tmp_path: Path) -> None:
    file = tmp_path / "lior.toml"
    file.write_text('[routes]\n"A.example.org" = "192.0.2.1"\nb.example.org = "192.0.2.2:99"\n'
                    '"{0A0B0C0D-0102-0304-0506-0708090A0B0C}" = "host"\n')  # fmt: skip
    assert load(file, ["routes.c=d", "routes.e.f=g"]).routes == {
        "a.example.org": "192.0.2.1",
        "b.example.org": "192.0.2.2:99",
        "0a0b0c0d-0102-0304-0506-0708090a0b0c": "host",
        "c": "d",
        "e.f": "g",
    }


@pytest.mark.parametrize(
    ("assignment", "what", "remedy"),
    [
        ("binary.widow_size=64", "there is no setting widow_size", "did you mean window_size?"),
        ("binray.port=1", "there is no section binray", "did you mean binary?"),
        ("qqqqqq.port=1", "there is no section qqqqqq", "there are admin, binary"),
        ("binary.send_pings=true", "there is no setting send_pings", ""),
        ("binary.session=1", "there is no setting session", ""),
        ("binary.port=65536", "65536 is out of range", "from 0 to 65535"),
        ("binary.port=-1", "-1 is out of range", ""),
        ("binary.port=x", "'x' is no whole number", ""),
        ("binary.port=true", "True is no whole number", ""),
        ("binary.port=1.5", "1.5 is no whole number", ""),
        ("binary.cleanup=nan", "nan is no number", ""),
        ("binary.window_size=0", "window_size is 0", "from 1"),
        ("binary.shortest_recoverable_ack=121", "", ""),
        ("security.allow_md5=1", "1 is no true or false", ""),
        ("security.minimum_signature_bits=1", "minimum_signature_bits is 1", ""),
        ("admin.open_paths=sometimes", "'sometimes' is none of", ""),
        ("log.level=loud", "'loud' is none of", ""),
        ("server.bind=localhost", "'localhost' is no IP address", ""),
        ("server.bind=[1]", "no list of strings", ""),
        ("server.name=1", "1 is no string", ""),
        ("routes.a=1", "1 is no address", ""),
        ("routes=1", "this is no assignment", ""),
        ("log.level", "this is no assignment", ""),
        ("=", "this is no assignment", ""),
    ],
)
def test_refuses_what_it_does_not_know_and_says_what_to_do(assignment: str, what: str, remedy: str) -> None:
    with pytest.raises(BadConfiguration) as error:
        load(None, [assignment])
    assert what in error.value.what
    assert remedy in error.value.remedy
    assert assignment in error.value.where


@pytest.mark.parametrize("text", ["[server", "log = 1\n", "[log]\nlevel = 3\n", "\xff"])
def test_names_the_file_that_it_cannot_use(text: str, tmp_path: Path) -> None:
    file = tmp_path / "lior.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadConfiguration) as error:
        load(file)
    assert str(file) in error.value.where


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="No such file"):
        load(tmp_path / "none.toml")


def test_the_example_of_the_service_is_valid() -> None:
    assert load(ROOT / "deploy" / "lior.toml").server.bind == ("0.0.0.0",)


def test_a_section_may_be_changed_as_a_whole() -> None:
    assert merged(Settings(), {"server": {"bind": "::1"}}, "here").server.bind == ("::1",)
