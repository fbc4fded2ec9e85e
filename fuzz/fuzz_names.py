"""Fuzz target: path names, format names, direct identifiers, and the way back."""

from contextlib import suppress

from lior.errors import LiorError
from lior.names import (
    MultipleName,
    from_queue_format,
    parse_direct_id,
    parse_format_name,
    parse_path_name,
    private_queue_number,
    to_queue_format,
)


def target(data: bytes) -> None:
    version = data[0] % 7 if data else 4
    text = data[1:].decode("utf-8", "surrogatepass" if version % 2 else "replace") if _decodes(data[1:]) else (
        data[1:].decode("latin-1"))
    with suppress(LiorError):
        name = parse_format_name(text)
        assert parse_format_name(str(name)) == name
        if not isinstance(name, MultipleName):
            assert from_queue_format(to_queue_format(name)) == name
    with suppress(LiorError):
        path = parse_path_name(text, version)
        assert parse_path_name(str(path), version) == path
        private_queue_number(text)
    with suppress(LiorError):
        parse_direct_id(text)


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


if __name__ == "__main__":
    from harness import run

    run(target)
