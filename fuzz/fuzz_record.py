"""Message records of the store: any bytes read or end in a typed error, and what reads writes back the same."""

import struct
import zlib

from lior.errors import LiorError
from lior.store.record import decode, encode


def target(data: bytes) -> None:
    sealed = struct.pack("<BI", 1, zlib.crc32(data, 1)) + data  # past the checksum, where the parser is
    for header in (data, sealed):
        try:
            message = decode(header, b"")
        except LiorError:
            continue
        again = decode(encode(message), b"")
        if again.sent_time == again.sent_time and again != message:  # a NaN equals nothing
            raise AssertionError(f"{message} read back as {again}")


if __name__ == "__main__":
    from harness import run

    run(target)
