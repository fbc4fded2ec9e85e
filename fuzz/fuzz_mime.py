"""Fuzz target: entities of SRMP. The first line is the Content-Type; parts stand where they say, and write again."""

from lior.errors import Malformed
from lior.wire.mime import format_entity, parse_entity


def target(data: bytes) -> None:
    kind, _, entity = data.partition(b"\n")
    try:
        found = parse_entity(kind.decode("latin-1"), entity)
    except Malformed:
        return
    assert found.envelope in entity
    parts = []
    for part in (found.body, found.extension):
        if part is not None:
            assert entity[part.offset : part.offset + len(part.data)] == part.data
        parts.append(b"" if part is None else bytes(part.data))
    new_kind, pieces = format_entity(found.envelope, parts[0], parts[1], "guid", 1)
    again = parse_entity(new_kind, b"".join(pieces))
    if parts[0] or parts[1]:
        assert again.envelope == found.envelope
    for part, content in zip((again.body, again.extension), parts, strict=True):
        assert (b"" if part is None else bytes(part.data)) == content


if __name__ == "__main__":
    from harness import run

    run(target)
