"""Whatever a server answers: a value, or one typed error, and the connection ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lior
from lior.client.rpc.handles import sent_identifier
from lior.client.rpc.reading import parse_code, started
from lior.client.rpc.tunnel import _frame
from lior.errors import LiorError
from lior.message import Message, ObjectId
from lior.wire.interfaces.remote_read import REMOTE_READ, SectionBuffer
from lior.wire.message_packet import to_packet
from lior.wire.message_sections import SectionsDecoder, decode_sections, decode_trailer

HERE = UUID("11111111-2222-3333-4444-555555555555")
PACKET = to_packet(Message(b"body", label="label", identifier=ObjectId(HERE, 3), destination_queue="DIRECT=OS:a\\b"))
ANSWER = REMOTE_READ.methods[7].response.encode(
    (1, 2, 1, (SectionBuffer(0, len(PACKET), len(PACKET), PACKET),), 0))


@given(st.binary(max_size=400))
def test_arbitrary_answers_are_values_or_typed_errors(data: bytes) -> None:
    for parse in (sent_identifier, parse_code, _frame, decode_trailer,
                  lambda stub: started(7, SectionsDecoder(HERE), stub), SectionsDecoder(HERE).decode,
                  lambda packet: decode_sections(packet, queue_manager=HERE)):  # fmt: skip
        with suppress(LiorError):
            parse(data)


@given(st.integers(0, len(ANSWER) - 1), st.integers(0, 255))
def test_an_answer_with_a_changed_byte_is_a_value_or_a_typed_error(at: int, value: int) -> None:
    changed = bytearray(ANSWER)
    changed[at] = value
    with suppress(LiorError):
        assert isinstance(started(7, SectionsDecoder(HERE), bytes(changed)), Message)


@pytest.mark.parametrize("said", [
    b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(1000), b"\5\0\x0c\3\x10\0\0\0\x10\0\0\0\1\0\0\0", b"\xff" * 70_000,
])  # fmt: skip
def test_who_is_no_rpc_server_is_told_from_one(tmp_path: Path, said: bytes) -> None:
    async def scenario() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                await reader.read(10)
                writer.write(said)
                writer.close()

        server = await asyncio.start_unix_server(talk, tmp_path / "lior.sock")
        try:
            with pytest.raises(LiorError):
                await lior.aio.connect(tmp_path)
        finally:
            server.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
