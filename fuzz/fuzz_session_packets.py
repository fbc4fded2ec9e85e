"""Fuzz target: internal packets, pings and the bodies of order acknowledgements; what was read writes back."""

from lior.errors import Malformed
from lior.wire.headers import BaseHeader
from lior.wire.order_packets import BODY_SIZE, FinalAck, OrderAck
from lior.wire.session_packets import ConnectionParameters, EstablishConnection, Ping, SessionAck


def target(data: bytes) -> None:
    if len(data) >= 12 and data[:1] == b"\x01":  # let the length be right, or nothing gets past it
        data = b"\x10" + data[1:4] + b"LIOR" + len(data).to_bytes(4, "little") + data[12:]
    taken = 0
    for kind in (EstablishConnection, ConnectionParameters, SessionAck):
        try:
            packet = kind.decode(data)
        except Malformed:
            continue
        taken += 1
        assert packet.encode() == data
        assert kind.decode(packet.encode()) == packet
    assert taken <= 1
    try:
        ping = Ping.decode(data[: Ping.SIZE])
    except Malformed:
        pass
    else:
        assert ping.encode() == data[: Ping.SIZE]
    body = data[BaseHeader.SIZE : BaseHeader.SIZE + BODY_SIZE]
    try:
        final = FinalAck.decode(body, 0x4000)
    except Malformed:
        return
    assert final.encode() == body
    assert OrderAck.decode(body).encode()[:12] == body[:12]


if __name__ == "__main__":
    from harness import run

    run(target)
