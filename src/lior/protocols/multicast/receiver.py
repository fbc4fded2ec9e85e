"""A PGM receiver: one transport session of one source (RFC 3208 section 6, [MC-MQSRM] 2.1.3.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address
from typing import Final

from lior.protocols.multicast.settings import PgmSettings
from lior.wire.pgm import (
    SERIAL,
    Data,
    Fragment,
    Nak,
    Packet,
    PacketType,
    Spm,
    Tsi,
    after,
    encode,
    numbers_of,
)

NEVER: Final = float("inf")
MOST_NAKS: Final = 64  # at a time
MOST_NUMBERS: Final = 65536  # a forged packet makes as many missing as a window has
OWN_NUMBERS: Final = 1024  # of each source, whatever others take


@dataclass(frozen=True, slots=True)
class Deliver:
    """Effect: a whole message, in the order in which they were sent."""

    apdu: bytes


@dataclass(frozen=True, slots=True)
class SendNak:
    """Effect: a NAK to the last hop towards the source, and one to the group with a TTL of 1 (note 3)."""

    octets: bytes
    to: IPv4Address


@dataclass(frozen=True, slots=True)
class Lost:
    """Effect: packets that nobody repaired. Their messages are not delivered."""

    count: int


Effect = Deliver | SendNak | Lost


class _Phase(Enum):
    BACK_OFF = "back-off"
    WAIT_NCF = "wait for NCF"
    WAIT_DATA = "wait for data"


@dataclass(slots=True)
class _Missing:
    phase: _Phase
    due: float
    ncf_tries: int = 0
    data_tries: int = 0


@dataclass(slots=True)
class _Arrived:
    data: bytes
    fragment: Fragment | None


class Budget:
    """What all receivers together may keep: octets of packets that came too early, and numbers of missing ones."""

    def __init__(self, limit: int, numbers: int = MOST_NUMBERS) -> None:
        self.limit = limit
        self.used = 0
        self.numbers_limit = numbers
        self.numbers = 0


class Receiver:
    """`uniform` gives a number from 0 to 1, evenly. Times are of one monotonic clock."""

    def __init__(
        self, settings: PgmSettings, tsi: Tsi, group: IPv4Address, group_port: int, source: IPv4Address,
        uniform: Callable[[], float], budget: Budget | None = None,
    ) -> None:
        self.settings = settings
        self._budget = budget or Budget(settings.max_early)
        self.tsi = tsi
        self._group, self._group_port = group, group_port
        self._path = self._source = source  # NAKs go to the last SPM's NLA
        self._uniform = uniform
        self._next: int | None = None  # the number that is delivered next; None before the first
        self._lead = 0
        self._spm_sequence: int | None = None
        self._arrived: dict[int, _Arrived] = {}
        self._missing: dict[int, _Missing] = {}
        self._trail: int | None = None  # the last that was looked at
        self._earliest = NEVER  # of the missing ones, or sooner
        self._lost: set[int] = set()
        self._counted = 0  # of missing and lost ones, in the budget
        self._parts: list[bytes] = []  # of the message that is being put together
        self._expected: Fragment | None = None
        self.finished = False
        self.reset = False
        self.heard_at = 0.0
        self.lost = 0

    # In

    def receive(self, packet: Packet, now: float) -> list[Effect]:
        try:
            return self._receive(packet, now)
        finally:
            self._count()

    def _count(self) -> None:
        counted = len(self._missing) + len(self._lost)
        self._budget.numbers += counted - self._counted
        self._counted = counted

    def _receive(self, packet: Packet, now: float) -> list[Effect]:
        self.heard_at = now
        body = packet.body
        if packet.options.reset is not None:
            self.finished = self.reset = True
            self.close()
        if self.reset:
            return []
        if packet.options.fin:
            self.finished = True
        if isinstance(body, Spm):
            return self._spm(body, now)
        if isinstance(body, Data):
            return self._data(body, packet.options.fragment, now)
        if isinstance(body, Nak) and body.confirms:
            self._confirmed(packet, now)
        elif isinstance(body, Nak):
            self._heard_nak(packet, now)
        return []

    def _spm(self, spm: Spm, now: float) -> list[Effect]:
        if self._spm_sequence is not None and not after(spm.sequence, self._spm_sequence):
            return []
        self._spm_sequence = spm.sequence
        if not spm.path.is_unspecified:
            self._path = spm.path
        if self._next is None:  # a late joiner begins with the data that comes from now on, and misses none of it
            self._next, self._lead = (spm.lead + 1) % SERIAL, spm.lead
            return []
        effects = self._trailed(spm.trail)
        if not self._look_ahead(spm.lead, now):
            return effects + self._begin_anew((spm.lead + 1) % SERIAL)
        return effects + self._deliverable()

    def _begin_anew(self, sequence: int) -> list[Effect]:
        """So much is missing that nobody waits for it: the session goes on with what comes now."""
        assert self._next is not None
        count = (sequence - self._next) % SERIAL - len(self._arrived)
        self.close()
        self._next, self._lead = sequence, (sequence - 1) % SERIAL
        self.lost += count
        return [Lost(count)]

    def close(self) -> None:
        """Keep nothing any more."""
        self._budget.used -= sum(len(arrived.data) for arrived in self._arrived.values())
        self._arrived.clear()
        self._missing.clear()
        self._lost.clear()
        self._count()
        self._drop_parts()

    def _data(self, data: Data, fragment: Fragment | None, now: float) -> list[Effect]:
        if fragment is not None and not self._is_sound(data, fragment):
            return []
        sequence = data.sequence
        if self._next is None:
            self._next, self._lead = sequence, (sequence - 1) % SERIAL
        if (sequence - self._next) % SERIAL >= SERIAL // 2:
            return []  # before what was delivered, or given up
        effects = self._trailed(data.trail)
        if not self._look_ahead(sequence, now):
            effects += self._begin_anew(sequence)
        ahead = (sequence - self._next) % SERIAL
        if ahead and ahead < SERIAL // 2 and self._budget.used + len(data.data) > self._budget.limit:
            return effects  # as if it had been lost: it is asked for again
        self._missing.pop(sequence, None)
        if sequence in self._lost:  # given up, and here after all
            self._lost.discard(sequence)
            self.lost -= 1
        if ahead < SERIAL // 2 and sequence not in self._arrived:
            self._arrived[sequence] = _Arrived(data.data, fragment)
            self._budget.used += len(data.data)
        return effects + self._deliverable()

    def _is_sound(self, data: Data, fragment: Fragment) -> bool:
        """Before anything is kept for it (SR-026)."""
        distance = (data.sequence - fragment.first) % SERIAL
        return fragment.length <= self.settings.max_apdu and distance < self.settings.max_window and \
            fragment.offset + len(data.data) <= fragment.length

    def _look_ahead(self, lead: int, now: float) -> bool:
        """Everything up to there was sent; what is not here is missing. False for a jump that is no gap."""
        assert self._next is not None
        if not after(lead, self._lead):
            return True
        gap = (lead - self._lead) % SERIAL
        room = max(self._budget.numbers_limit - self._budget.numbers, OWN_NUMBERS - self._counted)
        if (lead - self._next) % SERIAL >= self.settings.max_window or gap - 1 > room:
            return False
        sequence = self._lead
        while sequence != lead:
            sequence = (sequence + 1) % SERIAL
            if sequence not in self._arrived:
                due = now + self._back_off()
                self._missing[sequence] = _Missing(_Phase.BACK_OFF, due)
                self._earliest = min(self._earliest, due)
        self._lead = lead
        return True

    def _back_off(self) -> float:
        least, most = self.settings.backoff_least, self.settings.backoff_most
        return least + (most - least) * self._uniform()

    def _trailed(self, trail: int) -> list[Effect]:
        """What the source does not keep any more cannot be repaired."""
        if trail == self._trail:
            return []
        self._trail = trail
        return self._give_up([sequence for sequence in self._missing if after(trail, sequence)])

    def _give_up(self, gone: list[int]) -> list[Effect]:
        for sequence in gone:
            del self._missing[sequence]
            self._lost.add(sequence)
        self.lost += len(gone)
        return [Lost(len(gone)), *self._deliverable()] if gone else []

    def _confirmed(self, packet: Packet, now: float) -> None:
        for sequence in numbers_of(packet):
            missing = self._missing.get(sequence)
            if missing is not None and missing.phase is not _Phase.WAIT_DATA:
                missing.phase = _Phase.WAIT_DATA
                missing.due = now + self.settings.repair_interval
                self._earliest = min(self._earliest, missing.due)

    def _heard_nak(self, packet: Packet, now: float) -> None:
        """Another receiver asked already: his NCF is ours, too (6.3)."""
        for sequence in numbers_of(packet):
            missing = self._missing.get(sequence)
            if missing is not None and missing.phase is _Phase.BACK_OFF:
                missing.phase = _Phase.WAIT_NCF
                missing.due = now + self.settings.repeat_interval
                self._earliest = min(self._earliest, missing.due)

    # Time

    @property
    def deadline(self) -> float:
        """No later than something is due; perhaps sooner."""
        return self._earliest if self._missing else NEVER

    def tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        gone: list[int] = []
        for sequence, missing in self._missing.items():
            if missing.due > now:
                continue
            if missing.phase is not _Phase.BACK_OFF:
                if not self._try_again(missing, now):
                    gone.append(sequence)
            elif len(effects) >= MOST_NAKS:  # one packet can make many of them missing: not all at once
                missing.due = now + self.settings.backoff_most
            else:
                effects.append(self._nak(sequence))
                missing.phase, missing.due = _Phase.WAIT_NCF, now + self.settings.repeat_interval
        found = effects + self._give_up(gone)
        self._earliest = min((missing.due for missing in self._missing.values()), default=NEVER)
        self._count()
        return found

    def _try_again(self, missing: _Missing, now: float) -> bool:
        if missing.phase is _Phase.WAIT_NCF:
            missing.ncf_tries += 1
            again = missing.ncf_tries < self.settings.ncf_retries
        else:
            missing.data_tries += 1
            missing.ncf_tries = 0
            again = missing.data_tries < self.settings.data_retries
        missing.phase, missing.due = _Phase.BACK_OFF, now + self._back_off()
        return again

    def _nak(self, sequence: int) -> SendNak:
        body = Nak(sequence, self._source, self._group)
        packet = Packet(self.tsi[0], self._group_port, self.tsi[1], PacketType.NAK, body)
        return SendNak(encode(packet), self._path)

    # Out

    def _deliverable(self) -> list[Effect]:
        """In order, whole, and each once."""
        found: list[Effect] = []
        assert self._next is not None
        while True:
            sequence = self._next
            arrived = self._arrived.pop(sequence, None)
            if arrived is None:
                if sequence not in self._lost:
                    return found
                self._lost.discard(sequence)
                self._drop_parts()
            else:
                self._budget.used -= len(arrived.data)
                apdu = self._joined(sequence, arrived)
                if apdu is not None:
                    found.append(Deliver(apdu))
            self._next = (sequence + 1) % SERIAL

    def _joined(self, sequence: int, arrived: _Arrived) -> bytes | None:
        fragment = arrived.fragment
        if fragment is None:
            self._drop_parts()
            return arrived.data
        if fragment.offset == 0:
            self._drop_parts()
            if fragment.first != sequence:
                return None
            self._expected = Fragment(fragment.first, 0, fragment.length)
        expected = self._expected
        if expected is None or (expected.first, expected.offset, expected.length) != (
            fragment.first, fragment.offset, fragment.length
        ):  # fmt: skip
            self._drop_parts()  # a part of a message whose beginning is not here
            return None
        self._parts.append(arrived.data)
        expected.offset += len(arrived.data)
        if expected.offset < expected.length:
            return None
        apdu = b"".join(self._parts)
        self._drop_parts()
        return apdu

    def _drop_parts(self) -> None:
        self._parts, self._expected = [], None
