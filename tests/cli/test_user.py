"""lior user."""

from __future__ import annotations

import stat
from pathlib import Path

from click.testing import CliRunner

from lior.cli.main import cli
from lior.server.rpc.accounts import AccountFile
from tests.cli.conftest import Lior, records


def test_a_user_is_added_listed_changed_and_removed(shop: Lior, data: Path) -> None:
    (made,) = records(shop("user", "add", "ann", "--password-stdin", "--json", input="secret\n"))
    assert (made["name"], made["enabled"], made["administrator"], made["kerberos"]) == ("ann", True, False, False)
    assert made["sid"].endswith("-1000")
    assert stat.S_IMODE((data / "accounts.json").stat().st_mode) == 0o600
    shop("user", "add", "ANN", "--password-stdin", input="x\n", code=1)
    (root,) = records(shop("user", "add", "root", "--administrator", "--password-stdin", "--json", input="x\n"))
    assert root["administrator"]
    assert [each["name"] for each in records(shop("user", "list", "--json"))] == ["ann", "root"]
    assert "disabled" not in shop("user", "list").output
    assert shop("user", "disable", "ann").output == "disabled ann\n"
    assert "disabled" in shop("user", "list").output
    shop("user", "enable", "ann")
    before = AccountFile(data).find("ann")
    shop("user", "passwd", "ann", "--password-stdin", input="another\n")
    after = AccountFile(data).find("ann")
    assert before is not None
    assert after is not None
    assert before.nt_hash != after.nt_hash
    shop("user", "remove", "ann")
    shop("user", "remove", "ann", code=1)
    assert [each["name"] for each in records(shop("user", "list", "--json"))] == ["root"]


def test_a_principal_needs_no_password(shop: Lior) -> None:
    (made,) = records(shop("user", "add", "ann@EXAMPLE.ORG", "--kerberos", "--json"))
    assert made["kerberos"]


def test_a_password_is_never_taken_from_nowhere(shop: Lior) -> None:
    assert "--password-stdin" in shop("user", "add", "ann", code=1).stderr
    shop("user", "add", "ann", "--password-stdin", input="\n", code=1)
    assert records(shop("user", "list", "--json")) == []


def test_a_mistyped_directory_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["user", "add", "ann", "--kerberos", "--data", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert not (tmp_path / "none").exists()
