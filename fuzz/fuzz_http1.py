"""Fuzz target: requests and answers of HTTP. The first octet says in what steps the rest comes."""

from lior.errors import Malformed
from lior.wire.http1 import MAX_HEAD, Answers, Requests

LONGEST = 4096


def requests(data: bytes, step: int) -> list[object]:
    reader = Requests(LONGEST)
    found: list[object] = []
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        try:
            while (head := reader.head or reader.next_head()) is not None and (entity := reader.entity()) is not None:
                found.append((head.octets, entity))
        except Malformed:
            return [*found, "refused"]
        assert reader.buffered <= LONGEST + MAX_HEAD
    return found


def answers(data: bytes, step: int) -> list[object]:
    reader = Answers(LONGEST)
    found: list[object] = []
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        try:
            while (answer := reader.next()) is not None:
                found.append(answer)
        except Malformed:
            return [*found, "refused"]
    return [*found, reader.end()]


def target(data: bytes) -> None:
    step, data = (data[0] if data else 0) + 1, data[1:]
    for read in (requests, answers):
        whole, cut = read(data, len(data) or 1), read(data, step)
        assert whole == cut, (whole, cut)


if __name__ == "__main__":
    from harness import run

    run(target)
