"""The settings of RPC: the section [rpc] of the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lior.server.rpc.methods.settings import MethodSettings
from lior.server.setting import port as tcp_port
from lior.server.setting import setting
from lior.wire.rpc_pdu import LARGEST_FRAGMENT, LEVEL_CONNECT, LEVEL_INTEGRITY, LEVEL_PACKET, LEVEL_PRIVACY

LEVELS: Final = {"connect": LEVEL_CONNECT, "packet": LEVEL_PACKET, "integrity": LEVEL_INTEGRITY,
                 "privacy": LEVEL_PRIVACY}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RpcSection:
    """The client protocol ([MS-MQMP]) and remote reads, over RPC. The Unix socket `lior.sock` in the data directory is
    always there."""

    port: int = tcp_port(2103, "TCP port for clients and remote readers; while it is taken, the next in steps of 11.")
    qm_port: int = tcp_port(2105, "TCP port for the older remote reads of other queue managers, likewise.")
    mapper_port: int = tcp_port(135, "TCP port of the endpoint mapper.")
    supporting_server: bool = setting(True, "Whether clients without a queue manager of their own are served "
                                      "(SupportingServer); without, only other queue managers read here.")  # fmt: skip
    user: str = setting("", "As whom queues of other queue managers are read for clients; empty: as nobody.")
    password_file: str = setting("", "File with the password of `rpc.user`.")
    anonymous: str = setting("refuse", "Calls over TCP without authentication: `refuse`, or `allow` them as those of "
                             "the anonymous user, S-1-5-7.", choices=("refuse", "allow"))  # fmt: skip
    least_level: str = setting("connect", "Least authentication level over TCP: `connect`, `packet`, `integrity` or "
                               "`privacy`.", choices=tuple(LEVELS))  # fmt: skip
    ntlm: bool = setting(True, "Whether local accounts (`lior user`) may sign in with NTLM.")
    keytab: str = setting("", "Keytab for Kerberos; empty: Kerberos is off.")
    lockout_attempts: int = setting(10, "Wrong passwords in a row after which an account is locked; 0: never.", 0)
    lockout_time: float = setting(600.0, "How long it stays locked, and how long wrong passwords count.", 0)
    max_connections: int = setting(1024, "Most connections at a time; half of them for one address.", 1)
    max_groups: int = setting(1024, "Most clients (association groups) at a time.", 1)
    max_handles: int = setting(4096, "Most context handles of one client.", 1)
    max_calls: int = setting(2048, "Most calls of one connection under way; more are answered as too busy.", 1)
    max_stub: int = setting(0x430000, "Longest request, in bytes.", 1 << 16)
    max_in_flight: int = setting(32 << 20, "Requests of one connection that are held at a time, in bytes; nothing more "
                                 "is read from it then.", 1 << 16)  # fmt: skip
    max_held: int = setting(512 << 20, "Requests of all connections that are held at a time, in bytes; more are "
                            "answered as too busy.", 1 << 20)  # fmt: skip
    max_fragment: int = setting(LARGEST_FRAGMENT, "Longest fragment, in bytes.", 1432, LARGEST_FRAGMENT)
    bind_timeout: float = setting(15.0, "A connection that has not bound and signed in by then is closed.", 0.1)
    fragment_timeout: float = setting(60.0, "A connection whose request is not complete by then is closed.", 0.1)
    methods: MethodSettings = field(default_factory=MethodSettings)  # whose settings are settings of the section
