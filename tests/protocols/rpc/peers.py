"""Both sides of an RPC connection without a network."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import UUID

from lior.protocols.rpc.call import Call, Close, Effect, Invoke, Send
from lior.protocols.rpc.client_association import Bound, ClientAssociation
from lior.protocols.rpc.groups import Groups
from lior.protocols.rpc.presentation import Interfaces
from lior.protocols.rpc.server_association import AssociationSettings, ServerAssociation
from lior.security import Caller, Sid
from lior.wire.ndr import NDR, NDR64
from lior.wire.ndr_types import U32
from lior.wire.rpc_interface import In, interface, method

FIRST = interface("first", "aaaaaaaa-0000-0000-0000-000000000001", (1, 2), 4, method(1, "M", In("x", U32)))
SECOND = interface("second", "aaaaaaaa-0000-0000-0000-000000000002", (3, 0), 4, method(1, "N", In("x", U32)),
                   syntaxes=(NDR, NDR64))
STRANGE = interface("strange", "aaaaaaaa-0000-0000-0000-00000000000f", (1, 0), 1)
ALICE = Caller(Sid(5, (21, 1, 2, 3, 1000)), authenticated=True)
BOB = Caller(Sid(5, (21, 1, 2, 3, 1001)), authenticated=True)


def tokens() -> Any:
    numbers = count(1)
    return lambda: UUID(int=next(numbers) << 96 | 7).bytes


class Peers:
    """A server with its groups; connections are made one by one."""

    def __init__(self, **settings: Any) -> None:
        self.interfaces = Interfaces()
        self.interfaces.add(FIRST)
        self.interfaces.add(SECOND)
        self.groups = Groups(tokens(), max_handles=3)
        self.settings = AssociationSettings(**settings)
        self.providers: dict[int, Any] = {}

    def server(self, client: object = "10.0.0.1", caller: Caller = ALICE, now: float = 0.0) -> ServerAssociation:
        return ServerAssociation(self.interfaces, self.groups, self.providers, self.settings, now, peer="10.0.0.1",
                                 client=client, caller=caller, secondary_address="2103")

    def connected(self, **arguments: Any) -> tuple[ClientAssociation, ServerAssociation]:
        server = self.server(arguments.pop("client", "10.0.0.1"), arguments.pop("caller", ALICE))
        client = ClientAssociation(arguments.pop("interfaces", (FIRST, SECOND)), **arguments)
        assert isinstance(exchanged(client, server)[-1], Bound)
        return client, server


def exchanged(client: ClientAssociation, server: ServerAssociation) -> list[Any]:
    """The bind, until both sides have nothing more to say; what the client's user learns."""
    told: list[Any] = []
    to_server = [effect.data for effect in client.bind() if isinstance(effect, Send)]
    while to_server:
        answers = server.receive(b"".join(to_server), 0.0)
        to_server = []
        for answer in answers:
            if isinstance(answer, Send):
                for effect in client.receive(answer.data):
                    if isinstance(effect, Send):
                        to_server.append(effect.data)
                    else:
                        told.append(effect)
    return told


def sent(effects: list[Effect]) -> bytes:
    return b"".join(effect.data for effect in effects if isinstance(effect, Send))


def invoked(effects: list[Effect]) -> list[Call]:
    return [effect.call for effect in effects if isinstance(effect, Invoke)]


def closed(effects: list[Effect]) -> str:
    return next((effect.reason for effect in effects if isinstance(effect, Close)), "")
