"""Fuzz target: SRMP requests in a stream of bytes. They are the same in one piece and in small ones, and each is a
message or refused."""

from lior.client.srmp_archive import Requests, message_of, requests_of
from lior.errors import LiorError


def target(data: bytes) -> None:
    whole = list(Requests().feed(data))
    pieces = Requests()
    apart = [found for at in range(0, len(data), 7) for found in pieces.feed(data[at : at + 7])]
    assert whole == apart
    try:
        given = list(requests_of(data))
    except LiorError:
        given = []
    for request in (*whole, *given):
        try:
            message_of(request, 1.0)
        except LiorError:
            continue


if __name__ == "__main__":
    from harness import run

    run(target)
