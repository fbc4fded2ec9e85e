"""Ping: is there a queue manager, and would it take a session? ([MS-MQQB] 2.1.2, 3.1.7.6 to 3.1.7.9)"""

from dataclasses import dataclass
from typing import Final

from lior.errors import Malformed
from lior.protocols.binary.settings import SessionSettings
from lior.wire.session_packets import RC, RF, Ping

MOST_WAITING: Final = 1024  # requests under way; one more would be an attack on somebody


def answer(datagram: bytes, own: bytes, refuse: bool) -> bytes | None:
    """The response to a request (3.1.7.7); None for anything that is no Ping Packet. Junk in its flags stays there."""
    try:
        request = Ping.decode(datagram)
    except Malformed:
        return None
    return Ping((request.flags & RC) | (RF if refuse else 0), cookie=request.cookie, qm_guid=own).encode()


@dataclass(slots=True)
class PingResult:
    """What became of a request."""

    address: object
    accepted: bool  # a session would be accepted; False too when nobody answered
    answered: bool


class Pinger:
    """Requests under way, each with a cookie of its own: several hosts may be asked at once (3.1.1.3 has one cookie).

    `address` is the caller's, whatever it sends datagrams to. A new request to the same address replaces the old one.
    """

    __slots__ = ("_cookie", "_flags", "_own", "_timeout", "_waiting")

    def __init__(self, settings: SessionSettings, own: bytes) -> None:
        self._own = own
        self._flags = 0 if settings.server_class else RC
        self._timeout = settings.ping_response
        self._cookie = 0  # PingCookie
        self._waiting: dict[object, tuple[int, float]] = {}  # address -> cookie, deadline; the oldest first

    @property
    def deadline(self) -> float | None:
        """When the next request fails; None while none is under way."""
        for _, deadline in self._waiting.values():
            return deadline
        return None

    def request(self, address: object, now: float) -> bytes | None:
        """The datagram to send (3.1.7.6); None when too many are under way."""
        self._waiting.pop(address, None)
        if len(self._waiting) >= MOST_WAITING:
            return None
        self._cookie = self._cookie + 1 & 0xFFFFFFFF
        self._waiting[address] = self._cookie, now + self._timeout
        return Ping(self._flags, cookie=self._cookie, qm_guid=self._own).encode()

    def receive(self, datagram: bytes, address: object) -> PingResult | None:
        """What a datagram says (3.1.7.8); None for what answers no request of ours."""
        try:
            response = Ping.decode(datagram)
        except Malformed:
            return None
        waiting = self._waiting.get(address)
        if waiting is None or waiting[0] != response.cookie:
            return None
        del self._waiting[address]
        return PingResult(address, not response.flags & RF, answered=True)

    def tick(self, now: float) -> list[PingResult]:
        """The requests that nobody answered in time (3.1.6.8)."""
        late = [address for address, (_, deadline) in self._waiting.items() if deadline <= now]
        for address in late:
            del self._waiting[address]
        return [PingResult(address, accepted=False, answered=False) for address in late]
