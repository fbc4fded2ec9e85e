"""Frames of the admin API and what stands in them: values or one typed error, and what was read is written again."""

from contextlib import suppress

from lior.errors import LiorError
from lior.wire import admin_frames, admin_json


def target(data: bytes) -> None:
    text: bytes | str = data
    if data[:1] == b"\0":
        text = data[1:].decode("utf-8", "replace")
    with suppress(LiorError):
        value, blobs = admin_frames.decode(text)
        for item in value if isinstance(value, list) else [value]:
            one(item, blobs)


def one(item: object, blobs: bytes) -> None:
    for sending in (True, False):
        with suppress(LiorError):
            message = admin_json.message_from_json(item, blobs, sending=sending)
            written = admin_json.message_to_json(message, admin_frames.base64)
            again = admin_json.message_from_json(written, b"", sending=False)
            assert admin_json.message_to_json(again, admin_frames.base64) == written
    with suppress(LiorError):
        admin_json.descriptor_from_json(item, blobs)
    with suppress(LiorError):
        admin_frames.take(item, blobs, "here")
    assert isinstance(admin_json.error_from_json(item), LiorError)


if __name__ == "__main__":
    from harness import run

    run(target)
