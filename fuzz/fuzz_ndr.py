"""Fuzz target: the NDR reader, driven by a script of operations taken from the data, and the forms of queue names."""

from contextlib import suppress
from typing import Any

from lior.errors import LiorError
from lior.wire.ndr import NdrReader, NdrWriter
from lior.wire.queue_format import read_dl_id, read_queue_format, write_queue_format

OPERATIONS = (
    NdrReader.u8, NdrReader.u16, NdrReader.u32, NdrReader.u64, NdrReader.i8, NdrReader.i16, NdrReader.i32,
    NdrReader.i64, NdrReader.guid, NdrReader.wide_string, NdrReader.flush, NdrReader.end,
)


def target(data: bytes) -> None:
    steps, stub = data[:16], data[16:]
    with suppress(LiorError):
        reader = NdrReader(stub)
        for step in steps:
            _step(reader, step)
        reader.flush()
    with suppress(LiorError):
        _queue_format(stub)


def _step(reader: NdrReader, step: int) -> None:
    operation, argument = step & 0x0F, step >> 4
    if operation < len(OPERATIONS):
        if operation == 11:
            reader.flush()
        OPERATIONS[operation](reader)
    elif operation == 12:
        reader.numbers("Q", reader.conformant(reader.u32(), 8))
    elif operation == 13:
        reader.raw(reader.conformant_varying(argument, 1))
    elif operation == 14:
        reader.unique(NdrReader.wide_string, _ignore)
    else:
        read_dl_id(reader, _ignore)


def _queue_format(stub: bytes) -> None:
    found: list[Any] = []
    reader = NdrReader(stub)
    read_queue_format(reader, found.append)
    reader.flush()
    writer = NdrWriter()
    write_queue_format(writer, found[0])
    writer.flush()
    again: list[Any] = []
    reader = NdrReader(writer.to_bytes())
    read_queue_format(reader, again.append)
    reader.flush()
    assert again == found


def _ignore(value: object) -> None:
    pass


if __name__ == "__main__":
    from harness import run

    run(target)
