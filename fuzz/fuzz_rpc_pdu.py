"""A connection of RPC fed anything: effects until Close, no more bytes held than there are, every call ended once.

The first byte says which side is fed, whether it has bound already and in pieces of what size the rest comes.
"""

from typing import Any
from uuid import UUID

from lior.protocols.rpc.call import Close, Invoke
from lior.protocols.rpc.client_association import ClientAssociation
from lior.protocols.rpc.groups import Groups
from lior.protocols.rpc.ntlm_acceptor import NtlmAcceptor, ServerNames
from lior.protocols.rpc.ntlm_session import nt_hash
from lior.protocols.rpc.presentation import Interfaces
from lior.protocols.rpc.server_association import AssociationSettings, ServerAssociation
from lior.protocols.rpc.spnego import SpnegoAcceptor
from lior.security import ANONYMOUS_CALLER, Caller
from lior.wire.interfaces.endpoint_mapper import ENDPOINT_MAPPER
from lior.wire.interfaces.rpc_management import RPC_MANAGEMENT
from lior.wire.rpc_pdu import BIND, NDR, WHOLE, Bind, PresentationContext, Syntax, encode, encode_bind
from lior.wire.spnego import NTLMSSP

SETTINGS = AssociationSettings(max_stub=4096, max_calls=8, max_contexts=8, max_security_contexts=2)
INTERFACES = Interfaces()
for each in (ENDPOINT_MAPPER, RPC_MANAGEMENT):
    INTERFACES.add(each, {})
CONTEXT = PresentationContext(0, Syntax(ENDPOINT_MAPPER.uuid, 3), (NDR,))
BOUND = encode(BIND, WHOLE, 1, encode_bind(Bind(5840, 5840, 0, (CONTEXT,))))
HASH = nt_hash("password")


class Accounts:
    def nt_hash(self, user: str, now: float) -> bytes | None:
        return HASH if user == "joe" else None

    def signed_in(self, user: str, workstation: str, now: float) -> Caller:
        return ANONYMOUS_CALLER

    def refused(self, user: str, workstation: str, why: str, now: float) -> None:
        return None


def acceptor() -> Any:
    return NtlmAcceptor(Accounts(), ServerNames("HOST", "host"), bytes, lambda: 0.0)


def target(data: bytes) -> None:
    how, rest = (data[0], data[1:]) if data else (0, b"")
    size = (1, 7, 64, 1 << 16)[how >> 2 & 3]
    pieces = [rest[at:at + size] for at in range(0, len(rest), size)]
    if how & 1:
        fed_client(pieces, bool(how & 2))
    else:
        fed_server(pieces, bool(how & 2))


def fed_server(pieces: list[bytes], bound: bool) -> None:
    groups = Groups(lambda: UUID(int=1 << 96).bytes, max_groups=2)
    providers = {10: acceptor, 9: lambda: SpnegoAcceptor({NTLMSSP: acceptor})}
    server = ServerAssociation(INTERFACES, groups, providers, SETTINGS, 0.0, peer="x")
    if bound:
        server.receive(BOUND, 0.0)
    calls = []
    for piece in pieces:
        assert not server.closed or server.receive(piece, 1.0) == []
        effects = server.receive(piece, 1.0)
        assert not any(isinstance(effect, Close) for effect in effects[:-1])
        calls += [effect.call for effect in effects if isinstance(effect, Invoke)]
        assert len(server.calls) <= SETTINGS.max_calls
        assert server.bytes_in_flight <= SETTINGS.max_stub * (SETTINGS.max_calls + 1)
        assert len(server._rest) < 1 << 16
        if len(calls) > 4:
            server.respond(calls.pop(0), bytes(3000), 1.0)
    for call in calls:
        server.respond(call, b"answer", 1.0)
    assert server.calls == {}
    assert server.bytes_in_flight == server._size
    server.connection_lost()
    server.leave()
    assert len(groups) == 0


def fed_client(pieces: list[bytes], bound: bool) -> None:
    client = ClientAssociation((ENDPOINT_MAPPER,), max_stub=4096)
    if bound:
        groups = Groups(lambda: UUID(int=1 << 96).bytes)
        server = ServerAssociation(INTERFACES, groups, {}, SETTINGS, 0.0, peer="x")
        for offer in client.bind():
            for effect in server.receive(getattr(offer, "data", b""), 0.0):
                client.receive(getattr(effect, "data", b""))
    if client.bound:
        client.request(ENDPOINT_MAPPER, 3, b"stub")
    for piece in pieces:
        client.receive(piece)
        assert len(client._rest) < 1 << 16
        assert sum(client.calls.values()) <= 4096


if __name__ == "__main__":
    from harness import run

    run(target)
