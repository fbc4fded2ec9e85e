"""Frames of the admin API's client sessions: JSON with the bytes beside it.

A binary frame is the length of its JSON (u32, little-endian), the JSON, then the bytes one after the other; in
the JSON `{"blob": [offset, length]}` stands for them. A text frame is JSON alone, with `{"base64": "..."}`.
Both kinds are accepted everywhere; whoever writes by hand may also say `{"text": "..."}` for UTF-8.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from lior.errors import Malformed

MAX_DEPTH: Final = 16  # of what is nested in a frame
_HEAD: Final = 4


class Blobs:
    """Collects the bytes of a frame while its values are made."""

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def put(self, data: bytes) -> dict[str, Any]:
        at = self.size
        self.parts.append(data)
        self.size = at + len(data)
        return {"blob": [at, len(data)]}


def base64(data: bytes) -> dict[str, Any]:
    """For JSON without a frame around it."""
    return {"base64": b64encode(data).decode()}


def encode(value: Any, blobs: Blobs) -> bytes:
    """The binary frame of a value that was made with these blobs."""
    text = json.dumps(value, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(_HEAD, "little"), text, *blobs.parts))


def decode(frame: bytes | str) -> tuple[Any, bytes]:
    """The JSON value of a frame of either kind, and the bytes beside it."""
    if isinstance(frame, str):
        return parse(frame), b""
    size = int.from_bytes(frame[:_HEAD], "little")
    if len(frame) < _HEAD + size:
        raise Malformed("the frame is shorter than its JSON", where="binary frame")
    return parse(frame[_HEAD : _HEAD + size]), frame[_HEAD + size :]


def parse(text: bytes | str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}", where="request") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def take(value: Any, blobs: bytes, where: str) -> bytes:
    """The bytes that a value of the JSON stands for."""
    if isinstance(value, Mapping) and len(value) == 1:
        kind, said = next(iter(value.items()))
        if kind == "blob" and _is_extent(said, len(blobs)):
            return blobs[said[0] : said[0] + said[1]]
        try:
            if kind == "base64" and isinstance(said, str):
                return b64decode(said, validate=True)
            if kind == "text" and isinstance(said, str):
                return said.encode()
        except ValueError:
            pass
    raise Malformed("these are no bytes", where=where, remedy='write {"base64": "..."} or {"text": "..."}')


def _is_extent(said: Any, size: int) -> bool:
    if not isinstance(said, list) or len(said) != 2 or not all(type(part) is int for part in said):
        return False
    at, length = said
    return bool(min(at, length) >= 0 and at + length <= size)
