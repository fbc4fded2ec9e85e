"""Which kinds of authentication a server offers."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from lior.protocols.rpc.ntlm_acceptor import NtlmAcceptor, ServerNames
from lior.protocols.rpc.security import Acceptor
from lior.protocols.rpc.spnego import SpnegoAcceptor
from lior.server.rpc.accounts import AccountFile, LocalAccounts
from lior.server.rpc.kerberos import kerberos_acceptors
from lior.server.rpc.settings import RpcSection
from lior.wire.rpc_pdu import SERVICE_KERBEROS, SERVICE_NEGOTIATE, SERVICE_NTLM
from lior.wire.spnego import KERBEROS, MS_KERBEROS, NTLMSSP

log = logging.getLogger("lior.rpc")


class Offered(dict[int, Callable[[], Acceptor]]):
    """By auth_type; with the accounts that all of them look at."""

    accounts: LocalAccounts | None = None


def providers(settings: RpcSection, directory: Path | None, name: str, full_name: str) -> Offered:
    """Kerberos needs a keytab and a library; without either NTLM is what remains."""
    found = Offered()
    mechanisms: dict[bytes, Callable[[], Acceptor]] = {}
    if directory is None:
        return found
    accounts = found.accounts = LocalAccounts(AccountFile(directory), settings.lockout_attempts, settings.lockout_time)
    if settings.ntlm:
        names = ServerNames(name.upper()[:15], full_name.casefold())

        def ntlm() -> Acceptor:
            return NtlmAcceptor(accounts, names, secrets.token_bytes, time.time)

        found[SERVICE_NTLM] = ntlm
        mechanisms[NTLMSSP] = ntlm
    if settings.keytab:
        kerberos = kerberos_acceptors(settings.keytab, accounts.principal)
        found[SERVICE_KERBEROS] = kerberos
        mechanisms[KERBEROS] = mechanisms[MS_KERBEROS] = kerberos
    if mechanisms:
        found[SERVICE_NEGOTIATE] = lambda: SpnegoAcceptor(mechanisms)
    return found
