"""Kerberos, where this computer has its library: MIT's libgssapi_krb5, with the keytab of the configuration."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from lior.errors import BadConfiguration
from lior.protocols.rpc.gss import LIBRARY, Gss, KerberosAcceptor, acceptor_credentials
from lior.protocols.rpc.security import Acceptor, AuthenticationFailed
from lior.security import Caller


def kerberos_acceptors(keytab: str, caller: Callable[[str], Caller]) -> Callable[[], Acceptor]:
    """What makes an acceptor for each authentication. `caller` says who a principal is here."""
    where = f"rpc.keytab = {keytab}"
    if not Path(keytab).is_file() or not os.access(keytab, os.R_OK):
        raise BadConfiguration("there is no such keytab, or it cannot be read", where=where,
                               remedy="make one with `kadmin ktadd` for the principal host/NAME@REALM")
    try:
        gss = Gss(ctypes.CDLL(LIBRARY))
        credentials = acceptor_credentials(gss, keytab)
    except (OSError, AttributeError) as error:
        raise BadConfiguration(f"Kerberos needs a library that is not here: {error}", where=where,
                               remedy="install it (Debian: libgssapi-krb5-2), or leave rpc.keytab empty") from error
    except AuthenticationFailed as error:
        raise BadConfiguration(error.what, where=where, remedy="look into it with `klist -k`") from error
    return lambda: KerberosAcceptor(gss, credentials, caller)
