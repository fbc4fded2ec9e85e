"""The file of the accounts, its lockout and its audit."""

from __future__ import annotations

import json
import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lior.errors import BadConfiguration, InvalidParameter, LiorError, StoreCorrupt, StoreUnusable
from lior.protocols.rpc.ntlm_session import nt_hash
from lior.protocols.rpc.security import AuthenticationFailed
from lior.security import AUTHENTICATED_USERS, LOCAL_ACCOUNT
from lior.server.rpc.accounts import MAX_WATCHED, AccountFile, LocalAccounts


def accounts(directory: Path, attempts: int = 3) -> tuple[AccountFile, LocalAccounts]:
    file = AccountFile(directory)
    file.add("Joe", "secret")
    return file, LocalAccounts(file, attempts, 60.0)


def test_the_file_is_its_owners_alone_and_holds_no_password(tmp_path: Path) -> None:
    file, _ = accounts(tmp_path)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert "secret" not in file.path.read_text()
    assert nt_hash("secret").hex() in file.path.read_text()


def test_every_user_has_a_sid_of_the_machine_that_nobody_gets_again(tmp_path: Path) -> None:
    file, _ = accounts(tmp_path)
    first = file.sid(file.users()[0])
    assert str(first).startswith("S-1-5-21-")
    second = file.sid(file.add("ann", "x"))
    assert second.sub_authorities == (*first.sub_authorities[:-1], 1001)
    file.remove("ANN")
    assert file.sid(file.add("ann", "x")).sub_authorities[-1] == 1002
    again = AccountFile(tmp_path)
    assert [(user.name, str(again.sid(user))) for user in again.users()] == [
        ("Joe", str(first)), ("ann", str(file.sid(file.users()[1])))]


def test_a_name_has_no_case_and_is_kept_as_given(tmp_path: Path) -> None:
    file, local = accounts(tmp_path)
    with pytest.raises(InvalidParameter):
        file.add("JOE", "x")
    assert local.nt_hash("jOE", 0.0) == nt_hash("secret")
    found = file.find("joe")
    assert found is not None
    assert found.name == "Joe"


@pytest.mark.parametrize("name", ["", " joe", "joe ", "a/b", "a\\b", "a:b", "x" * 65, "a\nb", "a*", "tab\t", "."])
def test_refuses_what_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidParameter):
        AccountFile(tmp_path).add(name, "x")


@pytest.mark.parametrize("password", ["", "x" * 257])
def test_refuses_what_is_no_password(tmp_path: Path, password: str) -> None:
    with pytest.raises(InvalidParameter):
        AccountFile(tmp_path).add("joe", password)
    assert AccountFile(tmp_path).users() == []


def test_other_users_of_the_computer_must_not_read_it(tmp_path: Path) -> None:
    file, local = accounts(tmp_path)
    file.path.chmod(0o640)
    with pytest.raises(BadConfiguration) as refused:
        AccountFile(tmp_path).users()
    assert "chmod 600" in refused.value.remedy
    assert LocalAccounts(AccountFile(tmp_path), 3, 60.0).nt_hash("joe", 0.0) is None
    assert local.nt_hash("joe", 0.0) is None


@pytest.mark.parametrize("content", [
    "", "{", "[]", '{"users": []}', '{"users": [{"name": 1}], "machine": "S-1-5-21-1-2-3"}',
    '{"users": [{"name": "a", "rid": 1000, "nt_hash": "00"}], "machine": "S-1-5-21-1-2-3", "next_rid": 1001}',
    '{"users": [{"name": "a", "rid": 5, "nt_hash": ""}], "machine": "S-1-5-21-1-2-3", "next_rid": 1001}',
    '{"users": [], "machine": "nobody", "next_rid": 1}'])  # fmt: skip
def test_a_broken_file_is_said_to_be_broken_and_lets_nobody_in(tmp_path: Path, content: str) -> None:
    file = AccountFile(tmp_path)
    file.path.write_text(content)
    file.path.chmod(0o600)
    with pytest.raises(StoreCorrupt):
        file.users()
    with pytest.raises(StoreCorrupt):
        file.add("joe", "x")
    assert file.path.read_text() == content
    assert LocalAccounts(file, 3, 60.0).nt_hash("a", 0.0) is None


def test_a_directory_that_is_not_there_gets_no_accounts(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        AccountFile(tmp_path / "missing").add("joe", "x")
    assert AccountFile(tmp_path / "missing").users() == []


def test_changes_of_several_at_once_are_all_kept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: AccountFile(tmp_path).add(f"user{n}", "x"), range(24)))
    users = AccountFile(tmp_path).users()
    assert sorted(user.name for user in users) == sorted(f"user{n}" for n in range(24))
    assert len({user.rid for user in users}) == 24
    assert json.loads((tmp_path / "accounts.json").read_text())["next_rid"] == 1024


def test_a_locked_name_is_locked_for_its_time_and_no_other_name_is(tmp_path: Path) -> None:
    file, local = accounts(tmp_path, attempts=3)
    file.add("ann", "x")
    for moment in (0.0, 10.0, 20.0):
        assert local.nt_hash("joe", moment) is not None
        local.refused("JOE" if moment else "joe", "", "wrong", moment)
    assert local.nt_hash("joe", 21.0) is None
    assert local.nt_hash("ann", 21.0) is not None
    assert local.nt_hash("joe", 79.0) is None
    assert local.nt_hash("joe", 80.0) is not None
    local.refused("joe", "", "wrong", 81.0)
    assert local.nt_hash("joe", 82.0) is not None  # counted anew


def test_a_right_password_forgives_wrong_ones(tmp_path: Path) -> None:
    _, local = accounts(tmp_path, attempts=2)
    for moment in range(6):
        local.refused("joe", "", "wrong", float(moment))
        assert local.nt_hash("joe", moment + 0.5) is not None
        local.signed_in("joe", "", moment + 0.5)


def test_attempts_of_zero_never_lock(tmp_path: Path) -> None:
    _, local = accounts(tmp_path, attempts=0)
    for moment in range(100):
        local.refused("joe", "", "wrong", float(moment))
    assert local.nt_hash("joe", 100.0) is not None


def test_made_up_names_fill_no_memory(tmp_path: Path) -> None:
    _, local = accounts(tmp_path)
    for number in range(MAX_WATCHED + 100):
        local.refused(f"name {number}", "", "no such user", 0.0)
    assert len(local._wrong) == MAX_WATCHED


def test_who_signed_in_and_who_was_refused_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, local = accounts(tmp_path, attempts=1)
    with caplog.at_level(logging.INFO):
        caller = local.signed_in("joe", "DESK", 0.0)
        local.refused("eve", "DESK", "wrong user name or password", 0.0)
    told = [record.__dict__["fields"] for record in caplog.records]
    assert told[0] == {"user": "Joe", "sid": str(caller.sid), "workstation": "DESK"}
    assert (told[1]["user"], told[1]["locked"]) == ("eve", True)
    assert {AUTHENTICATED_USERS, LOCAL_ACCOUNT} <= caller.sids
    assert not caller.is_administrator


def test_a_kerberos_account_has_no_password_to_guess(tmp_path: Path) -> None:
    file, local = accounts(tmp_path)
    file.add("ann@EXAMPLE.ORG", None)
    assert local.nt_hash("ann@EXAMPLE.ORG", 0.0) is None
    assert local.principal("ann@EXAMPLE.ORG").authenticated
    for name in ("joe@EXAMPLE.ORG", "ann@ELSEWHERE"):
        with pytest.raises(AuthenticationFailed):
            local.principal(name)
    file.change("ann@EXAMPLE.ORG", enabled=False)
    with pytest.raises(AuthenticationFailed):
        local.principal("ann@EXAMPLE.ORG")


def test_unknown_users_are_said_to_be_unknown(tmp_path: Path) -> None:
    file, _ = accounts(tmp_path)
    with pytest.raises(LiorError, match="no such user"):
        file.remove("ann")
    with pytest.raises(LiorError, match="no such user"):
        file.change("ann", password="x")
