"""Packets of a handshake: what to send, and what an answer must say ([MS-MQQB] 3.1.5.2.3, 3.1.5.3, 3.1.5.4)."""

from typing import Final

from lior.protocols.binary.settings import SessionSettings
from lior.wire.headers import NULL_GUID_BYTES
from lior.wire.session_packets import (
    CONNECTION_PARAMETERS,
    CS,
    ESTABLISH_CONNECTION,
    OS,
    RE,
    SE,
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    InternalHeader,
)

_ROUND_TRIPS: Final = 8  # a RecoverableAckSendTimeout, 3.1.5.3.2


def connection_request(settings: SessionSettings, own: bytes, remote: bytes, pinged: bool, now: float) -> bytes:
    """3.1.5.2.3; `remote` is null for a direct format name."""
    system = RE | (0 if pinged else SE) | (OS if settings.server_class else 0)
    return EstablishConnection(EstablishConnectionHeader(own, remote, int(now * 1000) & 0xFFFFFFFF, system)).encode()


def connection_response(request: EstablishConnection, own: bytes, refuse: bool) -> EstablishConnection:
    """3.1.5.3.1. SE comes back, and OS with it: both speak of the initiator."""
    header = request.header
    wrong = header.server_guid not in (own, NULL_GUID_BYTES)  # 2.2.1 refuses null too, and so every direct name
    flags = ESTABLISH_CONNECTION | (CS if wrong or refuse else 0)
    system = RE | header.operating_system & (SE | OS)
    return EstablishConnection(EstablishConnectionHeader(header.client_guid, own, header.time_stamp, system),
                               InternalHeader(flags=flags))


def response_problem(response: EstablishConnection, own: bytes, remote: bytes) -> str:
    """What makes a response invalid (3.1.5.3.2). A direct format name expects nobody in particular."""
    header = response.header
    if header.client_guid != own:
        return "the response is to somebody else"
    if header.server_guid == NULL_GUID_BYTES:
        return "the peer does not say who it is"
    if remote not in (NULL_GUID_BYTES, header.server_guid):
        return "the peer is another queue manager than expected"
    return ""


def recoverable_ack_timeout(settings: SessionSettings, round_trip: float) -> float:
    """Seconds, whole milliseconds. The round trip is what we measured: the TimeStamp that comes back is a claim."""
    seconds = min(max(_ROUND_TRIPS * round_trip, settings.shortest_recoverable_ack), settings.longest_recoverable_ack)
    return round(seconds * 1000) / 1000


def parameters(recoverable_ack: float, ack_wait: float, window_size: int) -> bytes:
    """Request and response alike (3.1.5.3.2, 3.1.5.4.1)."""
    header = ConnectionParametersHeader(round(recoverable_ack * 1000), round(ack_wait * 1000), 0, window_size)
    return ConnectionParameters(header, InternalHeader(flags=CONNECTION_PARAMETERS)).encode()
