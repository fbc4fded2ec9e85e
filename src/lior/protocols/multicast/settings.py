"""Times and sizes of PGM ([MC-MQSRM] 2.1.3.1). Seconds and octets."""

from dataclasses import dataclass
from typing import Final

MAX_APDU: Final = 64 << 10
IP_HEADER: Final = 20


@dataclass(frozen=True, slots=True)
class PgmSettings:
    rate: int = 70_000  # TXW_MAX_RTE, octets a second
    bucket: float = 0.04  # of it the bucket holds, in seconds; one packet at least
    window: float = 300.0  # TXW_SECS
    advance: float = 0.15  # of the window: TXW_ADV_SECS and TXW_ADV_IVL
    ambient_interval: float = 0.5
    ambient_packets: int = 50
    heartbeat_least: float = 1.0  # IHB_MIN
    heartbeat_most: float = 15.0  # IHB_MAX
    backoff_least: float = 0.01  # NAK_BO_IVL; the document prints the bounds the other way round
    backoff_most: float = 0.05
    repeat_interval: float = 0.75  # NAK_RPT_IVL: for the NCF
    repair_interval: float = 2.0  # NAK_RDATA_IVL: for the RDATA
    ncf_retries: int = 10
    data_retries: int = 10
    repair_delay: float = 0.06
    mtu: int = 1500
    max_apdu: int = MAX_APDU
    max_window: int = 65536  # packets that a receiver keeps or waits for
    max_early: int = 64 << 20  # octets kept of packets that came before others, of all sources together
    max_sources: int = 256
    idle_source: float = 600.0  # of which nothing was heard for so long is forgotten
