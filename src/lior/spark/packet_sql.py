"""SQL expressions over what messages carry as bytes, so that Spark needs no Python for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column

_GUID_BYTES = (7, 5, 3, 1, 11, 9, 15, 13)  # of the hexadecimal digits: the first three parts are little-endian
SIGNATURE = 0x4C494F52  # "LIOR", at offset 4 of every packet


def object_id(message_id: Column | str) -> Column:
    """`{GUID}\\number` as the 20 bytes that a correlation id holds ([MS-MQMQ] 2.2.8)."""
    digits = f.regexp_replace(f.regexp_extract(message_id, r"\{(.*)\}", 1), "-", "")
    number = f.lpad(f.hex(f.regexp_extract(message_id, r"\\(\d+)$", 1).cast("long")), 8, "0")
    guid = [f.substring(digits, at, 2) for at in _GUID_BYTES]
    return f.unhex(f.concat(*guid, f.substring(digits, 17, 16), *[f.substring(number, at, 2) for at in (7, 5, 3, 1)]))


def _number(packet: str, at: int, size: int) -> Column:
    """A little-endian number at an offset."""
    digits = f.hex(f.substring(packet, at + 1, size))
    return f.conv(f.concat(*[f.substring(digits, 2 * (size - 1 - each) + 1, 2) for each in range(size)]), 16, 10).cast(
        "long")  # fmt: skip


def is_packet(packet: str) -> Column:
    """Long enough for a BaseHeader, and signed; look at nothing else of a row for which this is not so."""
    return (f.length(packet) >= 16) & (f.hex(f.substring(packet, 5, 4)) == f"{SIGNATURE:08X}")


def packet_size(packet: str) -> Column:
    """BaseHeader.PacketSize ([MS-MQMQ] 2.2.19.1)."""
    return _number(packet, 8, 4)


def packet_priority(packet: str) -> Column:
    """The low three bits of BaseHeader.Flags."""
    return _number(packet, 2, 2).bitwiseAND(7)


def text_of(body: str, body_type: str = "body_type") -> Column:
    """Bodies that say they are text: UTF-16 of types 8 and 31, ANSI of type 30; null for others."""
    return (f.when(f.col(body_type).isin(8, 31), f.decode(body, "UTF-16LE"))
            .when(f.col(body_type) == 30, f.decode(body, "ISO-8859-1")))  # fmt: skip
