"""Settings of multicast."""

from dataclasses import dataclass, field

from lior.protocols.multicast.settings import PgmSettings


@dataclass(frozen=True, slots=True)
class MulticastSettings:
    interface: str = ""  # our address on the network that the groups are on; empty: the first that we listen on
    addresses: tuple[str, ...] = ()
    ttl: int = 16
    session_cleanup: float = 300.0
    pgm: PgmSettings = field(default_factory=PgmSettings)
