"""Fuzz target: UserMessage packets; what was read writes back, and becomes a message or one typed error."""

from contextlib import suppress
from uuid import UUID

from lior.errors import LiorError, Malformed
from lior.wire.message_packet import from_user_message, to_packet
from lior.wire.remote_packets import from_read
from lior.wire.user_message import UserMessage, rejoin

HERE = UUID(int=1)


def target(data: bytes) -> None:
    if len(data) >= 12 and data[:1] == b"\x01":  # let the length be right, or nothing gets past it
        data = b"\x10" + data[1:4] + b"LIOR" + (len(data) - (16 if data[2] & 0x10 else 0)).to_bytes(
            4, "little", signed=True) + data[12:]
    with suppress(LiorError):  # what a remote read gives may have two headers more
        read = UserMessage.decode(data, remote_read=True)
        assert UserMessage.decode(read.encode(), remote_read=True) == read
        from_read(data, queue_manager=HERE)
    try:
        message = UserMessage.decode(data)
    except Malformed:
        return
    end = message.base.packet_size
    assert rejoin(message.envelope, message.body)[4:end] == data[4:end]
    again = message.encode()
    assert len(again) == len(data)
    assert UserMessage.decode(again) == message
    with suppress(LiorError):
        received = from_user_message(message, queue_manager=HERE)
        assert from_user_message(UserMessage.decode(to_packet(received)), queue_manager=HERE).body == received.body


if __name__ == "__main__":
    from harness import run

    run(target)
