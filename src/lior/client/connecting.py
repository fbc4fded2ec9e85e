"""Which protocol leads to a queue manager: RPC, or the admin API over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from lior.client.backend import Backend
from lior.client.remote import RemoteBackend
from lior.client.rpc import dialing
from lior.client.rpc.credentials import Credentials, credentials
from lior.client.target import Target, default_directories, find, is_directory
from lior.errors import AccessDenied, BadConfiguration


async def connected(
    target: str | os.PathLike[str] | None, *, token: str | None = None, user: str | None = None,
    password: str | None = None, authentication: str | None = None, level: str | None = None,
) -> Backend:  # fmt: skip
    """A directory is reached through its socket `lior.sock`, a host as the user that is given; queues of other
    computers are read as that user, too. Who gives a token or a URL, and no user, means the admin API."""
    if target is None or target == "" or isinstance(target, os.PathLike) or is_directory(target):
        found = _served(target, partial(credentials, user, password, authentication, level))
        if found is not None:
            return await found.connect()
    elif not target.startswith(("http://", "https://")) and (token is None or user is not None):
        given = credentials(user, password, authentication, level)
        if given is not None:
            return await dialing.of_host(target, given).connect()
    return await _by_http(find(target, token))


def _served(target: Any, given: Callable[[], Credentials | None]) -> dialing.RpcTarget | None:
    """The directory, or the first of the default ones that somebody serves. On this computer nobody needs a password;
    what is wrong with it matters to who asks for another computer."""
    others = None
    with suppress(BadConfiguration):
        others = given()
    for directory in (target,) if target else default_directories():
        with suppress(AccessDenied):
            found = dialing.of_directory(directory, others)
            if found is not None:
                return found
    return None


async def _by_http(target: Target) -> RemoteBackend:
    from lior.client.channel import Channel  # the HTTP client takes a while to import

    return await RemoteBackend.connect(lambda: Channel.open(target), str(target))
