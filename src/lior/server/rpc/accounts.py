"""Local accounts: who may sign in over the network, and under which SID.

The file `accounts.json` in the data directory holds NT hashes. Whoever reads it can sign in as its users, so it is its
owner's alone; passwords themselves are nowhere. A server that runs sees changes by itself.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from lior.errors import BadConfiguration, InvalidParameter, LiorError, StoreCorrupt, StoreUnusable
from lior.protocols.rpc.ntlm_session import nt_hash
from lior.protocols.rpc.security import AuthenticationFailed
from lior.security import LOCAL_ACCOUNT, NETWORK, USERS, Caller, Sid
from lior.server.transfer_security import files

log = logging.getLogger("lior.rpc.accounts")

FILE: Final = "accounts.json"
VERSION: Final = 1
FIRST_RID: Final = 1000  # below are the well-known ones ([MS-DTYP] 2.4.2.4)
MAX_USERS: Final = 4096
MAX_NAME: Final = 64
MAX_PASSWORD: Final = 256
REJECTED: Final = frozenset('"/\\[]:;|=,+*?<>\0')  # what names of accounts may not contain; @ is for principals
MAX_WATCHED: Final = 4096  # names whose wrong passwords are counted


@dataclass(frozen=True, slots=True)
class User:
    name: str
    rid: int
    nt_hash: str  # hexadecimal; empty: signs in with Kerberos only
    enabled: bool = True
    administrator: bool = False
    password_set: float = 0.0


class AccountFile:
    """The accounts of one data directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory) / FILE
        self._stamp: files.Stamp | None = None
        self._machine: Sid | None = None
        self._next_rid = FIRST_RID  # never given twice: queues keep the rights of who was removed
        self._users: dict[str, User] = {}

    # Reading

    def find(self, name: str) -> User | None:
        self._refresh()
        return self._users.get(name.casefold())

    def users(self) -> list[User]:
        self._refresh()
        return sorted(self._users.values(), key=lambda user: user.rid)

    def sid(self, user: User) -> Sid:
        assert self._machine is not None
        return Sid(self._machine.authority, (*self._machine.sub_authorities, user.rid))

    def _refresh(self) -> None:
        stamp = files.stamp(self.path)
        if stamp is not None and stamp == self._stamp:
            return
        self._read()
        self._stamp = stamp

    def _read(self) -> None:
        try:
            mode = self.path.stat().st_mode
        except OSError:
            mode = 0
        if mode & 0o077:
            raise BadConfiguration("others may read or write the file of the accounts", where=str(self.path),
                                   remedy=f"chmod 600 {self.path}, and give the users new passwords")
        data = files.read(self.path)
        if data is None:
            self._machine, self._next_rid, self._users = None, FIRST_RID, {}
            return
        try:
            content = json.loads(data)
            users = [User(**each) for each in content["users"]]
            self._machine = Sid.parse(content["machine"])
            self._users = {user.name.casefold(): _checked(user) for user in users}
            self._next_rid = max([int(content["next_rid"]), *(user.rid + 1 for user in users)])
        except (ValueError, TypeError, KeyError, LiorError) as error:
            raise StoreCorrupt(f"this is no file of accounts: {error}", where=str(self.path),
                               remedy="restore it from a backup, or remove it and add the users again") from error

    # Changing

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One process at a time reads, changes and writes."""
        if not self.path.parent.is_dir():
            raise StoreUnusable("there is no such data directory", where=str(self.path.parent),
                                remedy="name the directory of a queue manager")
        try:
            descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise files.unusable(self.path.parent, error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._read()
            yield
            self._write()
        finally:
            os.close(descriptor)

    def _write(self) -> None:
        content = {"version": VERSION, "machine": str(self._machine), "next_rid": self._next_rid,
                   "users": [asdict(user) for user in sorted(self._users.values(), key=lambda user: user.rid)]}
        files.write(self.path, json.dumps(content, indent=1).encode() + b"\n")
        self._stamp = None

    def add(self, name: str, password: str | None, administrator: bool = False) -> User:
        """Without a password only Kerberos lets the user in: the name is that of its principal, with the realm."""
        check_name(name)
        with self._changing():
            if name.casefold() in self._users:
                raise InvalidParameter("there is such a user already", where=name,
                                       remedy="give the user a new password with: lior user passwd")
            if len(self._users) >= MAX_USERS:
                raise InvalidParameter(f"there are {MAX_USERS} users already", where=name)
            if self._machine is None:
                self._machine = Sid(5, (21, *(secrets.randbits(32) for _ in range(3))))
            rid, self._next_rid = self._next_rid, self._next_rid + 1
            secret = "" if password is None else hashed(password)
            user = User(name, rid, secret, administrator=administrator, password_set=time.time())
            self._users[name.casefold()] = user
        return user

    def change(self, name: str, password: str | None = None, **changes: Any) -> User:
        with self._changing():
            user = self._users.get(name.casefold())
            if user is None:
                raise unknown(name)
            if password is not None:
                changes |= {"nt_hash": hashed(password), "password_set": time.time()}
            user = self._users[name.casefold()] = replace(user, **changes)
        return user

    def remove(self, name: str) -> User:
        with self._changing():
            user = self._users.pop(name.casefold(), None)
            if user is None:
                raise unknown(name)
        return user


def _checked(user: User) -> User:
    right = len(bytes.fromhex(user.nt_hash)) in (0, 16) and len(user.name) <= MAX_NAME
    if not right or not FIRST_RID <= user.rid < 1 << 32:
        raise ValueError(f"user {user.name[:MAX_NAME]!r}")
    return user


def hashed(password: str) -> str:
    if not 1 <= len(password) <= MAX_PASSWORD:
        raise InvalidParameter(f"a password has 1 to {MAX_PASSWORD} characters", where="password")
    return nt_hash(password).hex()


def check_name(name: str) -> None:
    if not name or len(name) > MAX_NAME or name != name.strip(" .") or REJECTED & set(name) or not name.isprintable():
        raise InvalidParameter(f"{name[:MAX_NAME]!r} is no name of a user", where="user",
                               remedy=f"take 1 to {MAX_NAME} letters, digits, blanks, dots, dashes")


def unknown(name: str) -> InvalidParameter:
    return InvalidParameter("there is no such user", where=name, remedy="lior user list shows who there is")


def caller_of_account(sid: Sid, administrator: bool) -> Caller:
    return Caller(sid, frozenset({LOCAL_ACCOUNT, USERS, NETWORK}), administrator, authenticated=True)


class LocalAccounts:
    """What an authentication asks (lior.protocols.rpc.ntlm_acceptor.Accounts), with lockout and audit.

    Wrong passwords are counted by name, whether or not there is such a user, so that the lock tells nothing."""

    def __init__(self, file: AccountFile, attempts: int, lock_time: float) -> None:
        self._file = file
        self._attempts = attempts
        self._lock_time = lock_time
        self._wrong: dict[str, tuple[int, float]] = {}  # name -> how often, when last
        self._callers: dict[tuple[str, bool], Caller] = {}
        self.signed_in_count = 0
        self.refused_count = 0

    def is_locked(self, name: str, now: float) -> bool:
        count, last = self._wrong.get(name.casefold(), (0, 0.0))
        return bool(self._attempts) and count >= self._attempts and now - last < self._lock_time

    def nt_hash(self, user: str, now: float) -> bytes | None:
        if self.is_locked(user, now):
            return None
        try:
            found = self._file.find(user)
        except LiorError as error:
            log.error("accounts cannot be read", extra={"fields": {"why": str(error)}})
            return None
        return bytes.fromhex(found.nt_hash) or None if found is not None and found.enabled else None

    def signed_in(self, user: str, workstation: str, now: float) -> Caller:
        self._wrong.pop(user.casefold(), None)
        self.signed_in_count += 1
        found = self._file.find(user)
        if found is None:  # removed in this very moment
            raise InvalidParameter("there is no such user", where=user)
        return self._admitted(found, workstation)

    def _admitted(self, user: User, workstation: str) -> Caller:
        caller = self.caller(user)
        log.info("a user signed in", extra={"fields": {
            "user": user.name, "sid": str(caller.sid), "workstation": workstation}})  # fmt: skip
        return caller

    def principal(self, name: str) -> Caller:
        """Who signed in with Kerberos: the account of that name, with its realm."""
        try:
            found = self._file.find(name)
        except LiorError as error:
            log.error("accounts cannot be read", extra={"fields": {"why": str(error)}})
            found = None
        if found is None or not found.enabled:
            self.refused_count += 1
            log.warning("a user was refused", extra={"fields": {
                "user": name, "why": "no account of this name" if found is None else "disabled",
                "remedy": f"lior user add {name} --kerberos"}})  # fmt: skip
            raise AuthenticationFailed("no account for this principal", where="Kerberos")
        self.signed_in_count += 1
        return self._admitted(found, "")

    def caller(self, user: User) -> Caller:
        sid = self._file.sid(user)
        known = self._callers.get((str(sid), user.administrator))
        if known is None:
            known = caller_of_account(sid, user.administrator)
            if len(self._callers) > MAX_USERS:
                self._callers.clear()
            self._callers[str(sid), user.administrator] = known
        return known

    def refused(self, user: str, workstation: str, why: str, now: float) -> None:
        self.refused_count += 1
        name = user.casefold()
        count, last = self._wrong.pop(name, (0, 0.0))
        if now - last >= self._lock_time:
            count = 0
        while len(self._wrong) >= MAX_WATCHED:
            self._wrong.pop(next(iter(self._wrong)))
        self._wrong[name] = count + 1, now
        log.warning("a user was refused", extra={"fields": {
            "user": user, "workstation": workstation, "why": why, "attempts": count + 1,
            "locked": self.is_locked(user, now)}})  # fmt: skip


class AccountAdministration:
    """The work of `lior user`. Answers are plain data."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._file = AccountFile(directory)

    def add(self, name: str, password: str | None, administrator: bool) -> dict[str, Any]:
        return self._plain(self._file.add(name, password, administrator))

    def list(self) -> list[dict[str, Any]]:
        return [self._plain(user) for user in self._file.users()]

    def remove(self, name: str) -> dict[str, Any]:
        return self._plain(self._file.remove(name))

    def set_password(self, name: str, password: str) -> dict[str, Any]:
        return self._plain(self._file.change(name, password))

    def enable(self, name: str, enabled: bool) -> dict[str, Any]:
        return self._plain(self._file.change(name, enabled=enabled))

    def _plain(self, user: User) -> dict[str, Any]:
        return {"name": user.name, "sid": str(self._file.sid(user)), "enabled": user.enabled,
                "administrator": user.administrator, "kerberos": not user.nt_hash, "password_set": user.password_set}
