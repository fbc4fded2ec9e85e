"""Fuzz target: a stream cut into chunks gives the same packets as in one piece, or Malformed.

The first byte says how large the chunks are.
"""

from lior.errors import Malformed
from lior.protocols.binary.framer import Framer
from lior.wire.headers import MAX_PACKET_SIZE


def packets(stream: bytes, size: int) -> tuple[list[bytes], int | None]:
    """The packets of a stream and what waits for more; None where it was refused."""
    framer, out = Framer(), []
    try:
        for at in range(0, len(stream), size):
            for packet in framer.feed(stream[at : at + size]):
                out.append(packet)
            assert framer.pending < MAX_PACKET_SIZE + 16
    except Malformed:
        return out, None
    return out, framer.pending


def target(data: bytes) -> None:
    if not data:
        return
    stream = data[1:]
    whole, rest = packets(stream, max(len(stream), 1))
    cut, cut_rest = packets(stream, data[0] + 1)
    assert cut == whole
    assert cut_rest == rest
    joined = b"".join(whole)
    assert stream.startswith(joined)
    if rest is not None:
        assert len(joined) + rest == len(stream)


if __name__ == "__main__":
    from harness import run

    run(target)
