"""Who comes in: the admin token, which may everything, and local accounts, which may what the queues let them."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.flight as flight

from lior.errors import LiorError
from lior.server.admin.identity import Token
from lior.server.rpc.accounts import AccountFile, LocalAccounts, hashed

REFUSED: Final = "bulk transfer needs the admin token, or the name and password of an account"
NAME: Final = "entrance"


class Admission(flight.ServerMiddleware):  # type: ignore[misc]
    """A call that came in. `account` is empty for the token, and for administrators."""

    def __init__(self, account: str = "") -> None:
        self.account = account


class Entrance(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token_file: Path, directory: Path, attempts: int, lock_time: float) -> None:
        self._token = Token(token_file)
        self._accounts = LocalAccounts(AccountFile(directory), attempts, lock_time)

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str]]) -> Admission:
        given = next((values[0] for name, values in headers.items() if name.casefold() == "authorization"), "")
        scheme, _, secret = given.partition(" ")
        if scheme.casefold() == "bearer":
            try:
                self._token.caller(given)
                return Admission()
            except LiorError:
                pass
        elif scheme.casefold() == "basic":
            found = self._account(secret)
            if found is not None:
                return found
        raise flight.FlightUnauthenticatedError(REFUSED)

    def _account(self, secret: str) -> Admission | None:
        try:
            name, _, password = base64.b64decode(secret, validate=True).decode().partition(":")
        except ValueError:
            return None
        now = time.time()
        known = self._accounts.nt_hash(name, now)
        try:
            right = known is not None and hmac.compare_digest(known.hex(), hashed(password))
        except LiorError:
            right = False
        if not right:
            self._accounts.refused(name, "bulk", "wrong name or password", now)
            return None
        return Admission("" if self._accounts.signed_in(name, "bulk", now).is_administrator else name)
