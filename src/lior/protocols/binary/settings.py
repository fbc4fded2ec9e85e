"""Timers and sizes of the binary protocol, each with the default of [MS-MQQB] and its notes. Times are seconds."""

from dataclasses import dataclass, fields
from typing import Final

from lior.errors import BadConfiguration
from lior.wire.session_packets import ACK_TIMEOUTS, RECOVERABLE_ACK_TIMEOUTS

MAX_WINDOW: Final = 0x7FFF  # half of what 16 bits count: further apart, nobody could tell what is acknowledged

_RANGES: Final = {
    "ack_wait": (ACK_TIMEOUTS[0] / 1000, ACK_TIMEOUTS[1] / 1000),
    "shortest_recoverable_ack": (RECOVERABLE_ACK_TIMEOUTS[0] / 1000, RECOVERABLE_ACK_TIMEOUTS[1] / 1000),
    "longest_recoverable_ack": (RECOVERABLE_ACK_TIMEOUTS[0] / 1000, RECOVERABLE_ACK_TIMEOUTS[1] / 1000),
    "window_size": (1, MAX_WINDOW),
    "round_trip_delay": (0.0, 3600.0),
    "id_history_size": (1, 1 << 32),
    "receive_keys": (1, 1 << 20),
    "send_keys": (1, 1 << 20),
    "certificates": (1, 1 << 20),
}
_ANY_TIME: Final = (0.001, 10_000_000.0)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What an administrator may change; a value out of its range is refused when the settings are made."""

    # Sessions (3.1.2, notes 43 to 46)
    initialisation: float = 60.0
    cleanup: float = 300.0  # 120 on a routing server
    retry: float = 5.0
    round_trip_delay: float = 0.0  # what a slow line adds to the timers above and to ack_wait
    ack_wait: float = 20.0  # AckWaitTimeout; the initiator's holds on both sides
    ack_wait_multiplier: float = 1.0
    direct_ack_wait_multiplier: float = 2.0  # for sessions opened for a direct format name
    shortest_recoverable_ack: float = 0.5  # bounds of 8 round trips (3.1.5.3.2)
    longest_recoverable_ack: float = 120.0
    window_size: int = 64  # 3.1.1.3.1, note 36
    window_recovery: float = 30.0  # [MS-MQMQ] 2.2.20.4, note 15
    server_class: bool = False  # EstablishConnectionHeader.OperatingSystem.OS, Ping RC

    # Transactional streams (3.1.1.3.1, note 24)
    order_ack: float = 0.5  # OrderAckTimeout
    longest_order_ack_delay: float = 10.0  # MaximumOrderAckDelay
    resend_short: float = 30.0
    resend_medium: float = 300.0
    resend_long: float = 1800.0
    resend_final: float = 21600.0

    # Ping (2.1.2, notes 9 to 11)
    send_pings: bool = False
    answer_pings: bool = False
    ping_response: float = 1.0

    # The queue manager (3.1.1.3, 3.1.2.8 and following)
    id_history_size: int = 10_000
    id_history_age: float = 1800.0
    receive_keys: int = 127
    send_keys: int = 53
    key_age: float = 600.0
    certificates: int = 53
    certificate_age: float = 1200.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            low, high = _RANGES.get(one.name, _ANY_TIME)
            if not isinstance(value, bool) and not low <= value <= high:
                raise BadConfiguration(f"{one.name} is {value}", where="binary protocol",
                                       remedy=f"it is from {low} to {high}")
        if self.shortest_recoverable_ack > self.longest_recoverable_ack:
            raise BadConfiguration("shortest_recoverable_ack is above longest_recoverable_ack", where="binary protocol")

    @property
    def resend_table(self) -> tuple[float, ...]:
        """ResendTimerTable: ten entries, of which the last repeats."""
        return (*[self.resend_short] * 3, *[self.resend_medium] * 3, *[self.resend_long] * 3, self.resend_final)
