"""Every command explains itself, and docs/command-line.md has every command and option."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lior.cli import main
from lior.cli.main import cli

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "command-line.md"
SHARED = {"--data", "--server", "--user", "--password-file", "--json", "--help", "--version"}


def members(command: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield name, found


def every(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, member in members(command):
            yield from every(member, (*path, name))


COMMANDS = list(every(cli))
LEAVES = [(path, command) for path, command in COMMANDS if not isinstance(command, click.Group)]


def name_of(found: object) -> str:
    return " ".join(found) if isinstance(found, tuple) else ""


def options(command: click.Command) -> Iterator[click.Option]:
    yield from (option for option in command.params if isinstance(option, click.Option))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=name_of)
def test_help_describes_the_command_and_each_option(path: tuple[str, ...], command: click.Command) -> None:
    result = CliRunner().invoke(cli, [*path, "--help"])
    assert result.exit_code == 0
    assert command.help
    assert all(option.help for option in options(command)), [o.name for o in options(command) if not o.help]
    assert all(name in result.output for option in options(command) for name in option.opts)
    if isinstance(command, click.Group):
        for name, _ in members(command):
            line = rf"^  {re.escape(name)} +\S.*[^.]\.$"
            assert re.search(line, result.output, re.M), f"{name} is cut: {result.output}"


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """It is made without importing them."""
    assert {name: told for name, (_, told) in main.COMMANDS.items()} == {
        name: command.get_short_help_str(200) for name, command in members(cli)
    }


def test_a_command_imports_nothing_of_the_others_and_no_queue_manager() -> None:
    program = "import sys, lior.cli.main as m; m.cli.get_command(None, 'send'); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in found.stdout.split() if name.startswith("lior.")}
    assert "lior.cli.messages" in loaded
    assert not [name for name in loaded if name.split(".")[1] in ("components", "server", "queues", "store", "spark")]


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=name_of)
def test_every_command_answers_in_json_on_request(path: tuple[str, ...], command: click.Command) -> None:
    assert any("--json" in option.opts for option in options(command))


def sections() -> dict[str, str]:
    """The page's text below each heading `### lior ...`."""
    parts = re.split(r"^### lior (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_has_a_section_for_each_command_and_for_no_other() -> None:
    assert sorted(sections()) == sorted(" ".join(path) for path, _ in LEAVES)


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=name_of)
def test_the_page_has_every_option_and_no_other(path: tuple[str, ...], command: click.Command) -> None:
    section = sections()[" ".join(path)]
    listed = {name for cell in re.findall(r"^\| (`-.*?`) \|", section, re.M) for name in re.findall(r"--[\w-]+", cell)}
    there = {name for option in options(command) for name in (*option.opts, *option.secondary_opts)}
    assert listed == there - SHARED


@pytest.mark.parametrize("option", sorted(SHARED))
def test_the_page_has_the_shared_options(option: str) -> None:
    assert option in PAGE.read_text(encoding="utf-8").partition("## Commands")[0]


def test_the_page_lists_the_properties_that_can_be_set_by_name() -> None:
    from lior.cli.inputs import _NOT_BY_NAME
    from lior.client.message import FIELDS

    listed = sections()["send"].partition("`--property` sets any of these")[2].partition("|")[0]
    found = set(re.findall(r"[a-z]+(?:_[a-z]+)+|label|priority|extension", listed))
    assert found == FIELDS - _NOT_BY_NAME | {"soap_header"}
