"""A PGM source: one transport session to one group (RFC 3208 section 5, [MC-MQSRM] 2.1.3.1)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from lior.protocols.multicast.settings import IP_HEADER, PgmSettings
from lior.wire.pgm import HEADER_SIZE, SERIAL, Data, Fragment, Nak, Options, Packet, PacketType, Spm, encode, numbers_of

NEVER: Final = float("inf")
DATA_OVERHEAD: Final = HEADER_SIZE + 8
TICK: Final = 1e-6  # so that rounding does not wake us before there is enough
MOST_CONTROL: Final = 256  # confirmations that wait to leave
FRAGMENT_OVERHEAD: Final = 4 + 16  # OPT_LENGTH and OPT_FRAGMENT


@dataclass(slots=True)
class _Kept:
    """A packet in the transmit window."""

    data: bytes
    fragment: Fragment | None
    sent_at: float


@dataclass(frozen=True, slots=True)
class Multicast:
    """Effect: a packet for the group."""

    octets: bytes


class Source:
    """`take` gives what is to be sent now, `deadline` when to ask again. Times are of one monotonic clock."""

    def __init__(
        self, settings: PgmSettings, gsi: bytes, port: int, group: IPv4Address, group_port: int, own: IPv4Address,
        first: int, now: float,
    ) -> None:
        self.settings = settings
        self.group = group
        self._gsi, self._port, self._group_port, self._own = gsi, port, group_port, own
        self._next = first  # sequence number of the next new packet
        self._trail = first
        self._window: dict[int, _Kept] = {}
        self._new: deque[tuple[bytes, Fragment | None]] = deque()  # not sent yet
        self._repairs: dict[int, float] = {}  # RDATA owed, and when
        self._control: deque[bytes] = deque()  # SPM and NCF, which the rate does not hold up
        self._spm_sequence = 0
        self._active_at = now  # of the last data or repair
        self._tokens = float(self._bucket)
        self._filled_at = now
        self._ambient_at = now
        self._since_ambient = 0
        self._heartbeat = NEVER  # the next one, and the interval behind it
        self._heartbeat_interval = settings.heartbeat_least
        self._advance_at = now + self._advance_interval
        self._finished = False
        self.reset = False

    @property
    def _bucket(self) -> int:
        return max(self.settings.mtu, int(self.settings.rate * self.settings.bucket))

    @property
    def _advance_interval(self) -> float:
        return self.settings.window * self.settings.advance

    @property
    def lead(self) -> int:
        """Of the last packet sent."""
        return (self._next - len(self._new) - 1) % SERIAL

    @property
    def trail(self) -> int:
        return self._trail

    @property
    def backlog(self) -> int:
        """Packets of messages that were not sent yet."""
        return len(self._new)

    # In

    def send(self, apdu: bytes) -> None:
        """Whole messages only: one that is too long is refused before it comes here."""
        assert len(apdu) <= self.settings.max_apdu and not self._finished
        whole = self.settings.mtu - IP_HEADER - DATA_OVERHEAD
        if len(apdu) <= whole:
            self._append(apdu, None)
            return
        size, first = whole - FRAGMENT_OVERHEAD, self._next
        for offset in range(0, len(apdu), size):
            self._append(apdu[offset : offset + size], Fragment(first, offset, len(apdu)))

    def _append(self, data: bytes, fragment: Fragment | None) -> None:
        self._new.append((data, fragment))
        self._next = (self._next + 1) % SERIAL

    def nak(self, packet: Packet, now: float) -> None:
        """Confirmed at once, repaired a little later so that others' NAKs join (SR-019, SR-025)."""
        if self.reset or not isinstance(packet.body, Nak):
            return
        known = [sequence for sequence in dict.fromkeys(numbers_of(packet)) if sequence in self._window]
        if not known or len(self._control) >= MOST_CONTROL:
            return
        body = Nak(known[0], self._own, self.group, confirms=True)
        self._control.append(self._encode(PacketType.NCF, body, Options(nak_list=tuple(known[1:]))))
        for sequence in known:
            self._repairs.setdefault(sequence, now + self._repair_delay(sequence))

    def _repair_delay(self, sequence: int) -> float:
        span = (self.lead - self._trail + 1) % SERIAL
        return (sequence - self._trail) % SERIAL * self.settings.repair_delay / max(span, 1)

    def finish(self, now: float) -> None:
        """No more messages. Repairs are still served."""
        self._finished = True
        self._ambient_at = now

    def cancel(self) -> None:
        """What was not sent never will be, and nothing is repaired (SR-028)."""
        self._new.clear()
        self._repairs.clear()
        self.reset = True
        self._control.append(self._encode(PacketType.SPM, self._spm(), Options(reset=0)))

    # Out

    def take(self, now: float) -> list[Multicast]:
        out: list[bytes] = []
        self._advance(now)
        self._refill(now)
        if self._spm_sequence == 0:  # before any data, so that a receiver that is there misses none of it
            self._ambient(now)
        while True:
            out += self._control
            self._control.clear()
            packet = self._due_data(now)
            if packet is None:
                break
            self._tokens -= len(packet) + IP_HEADER
            self._active_at = now
            out.append(packet)
            self._since_ambient += 1
            if self._since_ambient >= self.settings.ambient_packets:
                self._ambient(now)
        if now >= self._ambient_at:
            self._ambient(now)
        if now >= self._heartbeat:
            self._beat(now)
        out += self._control
        self._control.clear()
        return [Multicast(octets) for octets in out]

    def _due_data(self, now: float) -> bytes | None:
        if self.reset:
            return None
        due = min(self._repairs, key=self._repairs.__getitem__, default=None)
        if due is not None and self._repairs[due] <= now:
            kept = self._window[due]
            if self._cost(kept.data, kept.fragment) > self._tokens:
                return None
            del self._repairs[due]
            return self._data(PacketType.RDATA, due, kept.data, kept.fragment)
        if not self._new or self._cost(*self._new[0]) > self._tokens:
            return None
        sequence = (self._next - len(self._new)) % SERIAL
        data, fragment = self._new.popleft()
        self._window[sequence] = _Kept(data, fragment, now)
        self._heartbeat_interval = self.settings.heartbeat_least
        self._heartbeat = now + self._heartbeat_interval
        return self._data(PacketType.ODATA, sequence, data, fragment)

    @staticmethod
    def _cost(data: bytes, fragment: Fragment | None) -> int:
        return IP_HEADER + DATA_OVERHEAD + len(data) + (FRAGMENT_OVERHEAD if fragment else 0)

    def _refill(self, now: float) -> None:
        self._tokens = min(float(self._bucket), self._tokens + (now - self._filled_at) * self.settings.rate)
        self._filled_at = now

    def _ambient(self, now: float) -> None:
        self._since_ambient = 0
        self._ambient_at = now + self.settings.ambient_interval
        self._control.append(self._encode(PacketType.SPM, self._spm(), Options(fin=self._finished and not self._new)))

    def _beat(self, now: float) -> None:
        self._control.append(self._encode(PacketType.SPM, self._spm()))
        self._heartbeat_interval = min(2 * self._heartbeat_interval, self.settings.heartbeat_most)
        self._heartbeat = now + self._heartbeat_interval

    def _spm(self) -> Spm:
        self._spm_sequence = (self._spm_sequence + 1) % SERIAL
        return Spm(self._spm_sequence, self._trail, self.lead, self._own)

    def _data(self, kind: PacketType, sequence: int, data: bytes, fragment: Fragment | None) -> bytes:
        body = Data(sequence, self._trail, data, kind is PacketType.RDATA)
        return self._encode(kind, body, Options(fragment=fragment))

    def _encode(self, kind: PacketType, body: Spm | Data | Nak, options: Options | None = None) -> bytes:
        return encode(Packet(self._gsi, self._port, self._group_port, kind, body, options or Options()))

    def _advance(self, now: float) -> None:
        """The window moves in steps, whatever NAKs come; a repair that is owed holds its edge (SR-021)."""
        if now < self._advance_at:
            return
        self._advance_at = now + self._advance_interval
        oldest = now - self.settings.window + self._advance_interval
        while (kept := self._window.get(self._trail)) is not None and kept.sent_at <= oldest \
                and self._trail not in self._repairs:
            del self._window[self._trail]
            self._trail = (self._trail + 1) % SERIAL

    @property
    def deadline(self) -> float:
        if self._control:
            return self._filled_at
        found = min(self._ambient_at, self._heartbeat, self._advance_at)
        if self.reset:
            return found
        if self._repairs:
            sequence = min(self._repairs, key=self._repairs.__getitem__)
            kept = self._window[sequence]
            found = min(found, max(self._repairs[sequence], self._affordable(kept.data, kept.fragment)))
        if self._new:
            found = min(found, self._affordable(*self._new[0]))
        return found

    def _affordable(self, data: bytes, fragment: Fragment | None) -> float:
        return self._filled_at + max(0.0, self._cost(data, fragment) - self._tokens) / self.settings.rate + TICK

    def settled_at(self, linger: float) -> float:
        """When nobody is likely to ask for a repair any more."""
        return self._active_at + linger if self._window else self._filled_at
