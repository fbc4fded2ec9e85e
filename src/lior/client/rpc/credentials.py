"""Who a client says it is: a user and a password for NTLM or SPNEGO, a Kerberos ticket, or nobody."""

from __future__ import annotations

import ctypes
import os
import secrets
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from lior.errors import BadConfiguration
from lior.protocols.rpc.gss import LIBRARY, Gss, KerberosInitiator
from lior.protocols.rpc.ntlm_initiator import NtlmInitiator
from lior.protocols.rpc.spnego import SpnegoInitiator
from lior.wire.rpc_pdu import LEVEL_CONNECT, LEVEL_INTEGRITY, LEVEL_NONE, LEVEL_PACKET, LEVEL_PRIVACY

LEVELS: Final = {
    "none": LEVEL_NONE,
    "connect": LEVEL_CONNECT,
    "packet": LEVEL_PACKET,
    "integrity": LEVEL_INTEGRITY,
    "privacy": LEVEL_PRIVACY,
}
METHODS: Final = ("negotiate", "ntlm", "kerberos")
DEFAULT_LEVEL: Final = "privacy"


@dataclass(frozen=True)
class Credentials:
    """`level` says how calls are protected: only who they come from (`connect`), each call (`packet`), their content
    against changes (`integrity`) and against readers (`privacy`). `none` is nobody."""

    user: str = ""
    domain: str = ""
    password: str | None = field(default=None, repr=False)
    method: str = "negotiate"
    level: str = DEFAULT_LEVEL

    def initiator(self, host: str) -> Any:
        """For one connection; None without authentication."""
        level = LEVELS[self.level]
        if level == LEVEL_NONE:
            return None
        if self.method == "kerberos":
            return KerberosInitiator(_gss(), host, level)
        ntlm = NtlmInitiator(self.user, self.password, self.domain, level, secrets.token_bytes, time.time,
                             workstation="", target=f"host/{host}")
        return ntlm if self.method == "ntlm" else SpnegoInitiator(ntlm)


@lru_cache(maxsize=1)
def _gss() -> Gss:
    try:
        return Gss(ctypes.CDLL(LIBRARY))
    except (OSError, AttributeError) as error:
        raise BadConfiguration(f"Kerberos needs a library that is not here: {error}", where="authentication=kerberos",
                               remedy="install it (Debian: libgssapi-krb5-2), or give user and password") from error


def credentials(
    user: str | None = None, password: str | None = None, method: str | None = None, level: str | None = None
) -> Credentials | None:
    """What was given, or stands in LIOR_USER, LIOR_PASSWORD_FILE, LIOR_AUTHENTICATION and LIOR_LEVEL. None if nothing
    says who it is to be."""
    user = os.environ.get("LIOR_USER", "") if user is None else user
    method = method or os.environ.get("LIOR_AUTHENTICATION", "") or "negotiate"
    level = level or os.environ.get("LIOR_LEVEL", "")
    if method not in METHODS:
        raise BadConfiguration(f"{method!r} is no way to authenticate", where="authentication",
                               remedy=f"use one of {', '.join(METHODS)}")
    if level and level not in LEVELS:
        raise BadConfiguration(f"{level!r} is no level", where="level", remedy=f"use one of {', '.join(LEVELS)}")
    if level == "none":
        return Credentials(level=level)
    if method == "kerberos":
        return Credentials(method=method, level=level or DEFAULT_LEVEL)
    if not user:
        return None
    if password is None:
        password = _password_file(user)
    domain, _, name = user.rpartition("\\")
    return Credentials(name, domain, password, method, level or DEFAULT_LEVEL)


def _password_file(user: str) -> str:
    path = os.environ.get("LIOR_PASSWORD_FILE", "")
    if not path:
        raise BadConfiguration("no password", where=user, remedy="give password=, or name its file in "
                               "LIOR_PASSWORD_FILE")
    return password_in(path)


def password_in(path: str) -> str:
    """The first line of a file."""
    try:
        return Path(path).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(str(error), where=path, remedy="name a file with the password") from error
