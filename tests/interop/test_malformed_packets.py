"""Every length at its extremes and every value that may not be: the connection closes, and nothing else changes."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tests.interop.conftest import Target, Witness
from tests.interop.daemon import Daemon
from tests.interop.second_packets import (
    MAXIMUM,
    Establish,
    Parameters,
    Security,
    SessionAck,
    SessionHeader,
    UserMessage,
)
from tests.interop.second_peer import Identity, Session


def put(layout: str, at: int, value: int) -> Callable[[bytes], bytes]:
    """Overwrite one field."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        struct.pack_into(layout, changed, at, value)
        return bytes(changed)

    return change


def flags(clear: int, set_: int) -> Callable[[bytes], bytes]:
    """Of UserHeader.Flags."""

    def change(data: bytes) -> bytes:
        (value,) = struct.unpack_from("<I", data, 60)
        return put("<I", 60, value & ~clear | set_)(data)

    return change


def in_properties(layout: str, at: int, value: int) -> Callable[[bytes], bytes]:
    """Of the MessagePropertiesHeader, which is found behind the name of the queue."""

    def change(data: bytes) -> bytes:
        (count,) = struct.unpack_from("<H", data, 64)
        start = 64 + (2 + count + 3) // 4 * 4
        return put(layout, start + at, value)(data)

    return change


LABEL = 56  # where it starts in the MessagePropertiesHeader
# name: (ledger rows, what is done to a well-formed recoverable message with the label "label" and a body of 40 bytes)
MALFORMED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "PacketSize 0": ("QB-007", put("<I", 8, 0)),
    "PacketSize 19": ("QB-007", put("<I", 8, 19)),
    "PacketSize 20": ("QB-007", put("<I", 8, 20)),
    "PacketSize 4 MiB and 1": ("QB-007", put("<I", 8, MAXIMUM + 1)),
    "PacketSize 2 GiB": ("QB-007", put("<I", 8, 0x80000000)),
    "PacketSize all ones": ("QB-007", put("<I", 8, 0xFFFFFFFF)),
    "bytes left over": ("QB-033", lambda data: put("<I", 8, len(data) + 8)(data) + bytes(8)),
    "a body cut short": ("QB-046", lambda data: put("<I", 8, len(data) - 8)(data)[:-8]),
    "TR without DH": ("QB-006", put("<H", 2, 0x103)),
    "DH without a header": ("QB-067", put("<H", 2, 0x23)),
    "DM 2": ("QB-035", flags(0x60, 0x40)),
    "DM 3": ("QB-035", flags(0x60, 0x60)),
    "MP clear": ("QB-035", flags(1 << 21, 0)),
    "TH with DM 0": ("QB-035", flags(0x60, 1 << 20)),
    "DQ 1": ("QB-036", flags(7 << 10, 1 << 10)),
    "DQ 2": ("QB-036", flags(7 << 10, 2 << 10)),
    "DQ 4": ("QB-036", flags(7 << 10, 4 << 10)),
    "DQ 6": ("QB-036", flags(7 << 10, 6 << 10)),
    "AQ 1": ("QB-037", flags(7 << 13, 1 << 13)),
    "AQ 4": ("QB-037", flags(7 << 13, 4 << 13)),
    "Count 0": ("QB-041", put("<H", 64, 0)),
    "Count 2": ("QB-041", put("<H", 64, 2)),
    "Count odd": ("QB-041", put("<H", 64, 5)),
    "Count short of the NUL": ("QB-041", put("<H", 64, 20)),
    "Count beyond the packet": ("QB-041", put("<H", 64, 0xFFFE)),
    "Count all ones": ("QB-041", put("<H", 64, 0xFFFF)),
    "a NUL in the name": ("QB-041", put("<H", 70, 0)),
    "LabelLength 0xFB": ("QB-045", in_properties("<B", 1, 0xFB)),
    "LabelLength 0xFF": ("QB-045", in_properties("<B", 1, 0xFF)),
    "a label without a NUL": ("QB-045", in_properties("<H", LABEL + 10, 65)),
    "a label with a NUL inside": ("QB-045", in_properties("<H", LABEL + 4, 0)),
    "MessageSize beyond AllocationBodySize": ("QB-046", in_properties("<I", 32, 41)),
    "MessageSize all ones": ("QB-046", in_properties("<I", 32, 0xFFFFFFFF)),
    "AllocationBodySize all ones": ("QB-046", in_properties("<I", 36, 0xFFFFFFFF)),
    "AllocationBodySize 2 GiB": ("QB-046", in_properties("<I", 36, 0x7FFFFFFF)),
    "AllocationBodySize too much": ("QB-046", in_properties("<I", 36, 400)),
    "ExtensionSize all ones": ("QB-046", in_properties("<I", 52, 0xFFFFFFFF)),
    "ExtensionSize 2 GiB": ("QB-046", in_properties("<I", 52, 0x80000000)),
    "ExtensionSize that wraps": ("QB-046", in_properties("<I", 52, 0x100000000 - 40)),
    "SH without a header": ("QB-057", flags(0, 1 << 19)),
    "MQ without a header": ("QB-063", flags(0, 1 << 23)),
    "HH without a header": ("QB-066", flags(0, 1 << 28)),
    "CQ without a GUID": ("QB-039", flags(0, 1 << 22)),
}


@pytest.mark.spec("QB-128", *sorted({rows for rows, _ in MALFORMED.values()}))
@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_message_closes_its_connection_and_changes_nothing(
    server: Daemon, session: Session, queue: Target, witness: Witness, what: str
) -> None:
    data = session.identity.message(queue.direct, b"b" * 40, delivery=1, label="label").encode()
    broken = MALFORMED[what][1](data)
    assert broken != data
    session.write(broken)
    if len(broken) >= struct.unpack_from("<I", broken, 8)[0] or struct.unpack_from("<I", broken, 8)[0] > MAXIMUM:
        assert session.until_closed() == []  # at once, with nothing more to come
    witness.check()
    assert queue.bodies() == []


SID = bytes.fromhex("010500000000000515000000AD4A9EBD36D9FA3D63A656DAE8030000")


def security(layout: str, at: int, value: int) -> Callable[[UserMessage], bytes]:
    """A message with a SID, and one field of its SecurityHeader changed."""

    def change(message: UserMessage) -> bytes:
        message.security = Security(1, (SID, b"", b"", b"", b""))
        data = message.encode()
        return put(layout, data.index(message.security.encode()) + at, value)(data)

    return change


def with_header(name: str, value: bytes) -> Callable[[UserMessage], bytes]:
    def change(message: UserMessage) -> bytes:
        setattr(message, name, value)
        return message.encode()

    return change


def addresses(identifier: int = 0x64, size: int | None = None, count: int = 0, names: bytes = b"") -> bytes:
    """An MQFAddressHeader."""
    return struct.pack("<IHHI", 12 + len(names) if size is None else size, identifier, 0, count) + names


REST = addresses(0xC8) + addresses(0x12C) + struct.pack("<HHI", 0x15E, 0, 0)
MQ = 1 << 23
HEADERS: dict[str, tuple[str, Callable[[UserMessage], bytes]]] = {
    "no security data at all": ("QB-057", security("<H", 2, 0)),
    "SenderIdSize all ones": ("QB-059", security("<H", 2, 0xFFFF)),
    "SenderIdSize that no SID has": ("QB-059", security("<H", 2, 27)),
    "EncryptionKeySize all ones": ("QB-059", security("<H", 4, 0xFFFF)),
    "SignatureSize all ones": ("QB-059", security("<H", 6, 0xFFFF)),
    "SenderCertSize all ones": ("QB-059", security("<I", 8, 0xFFFFFFFF)),
    "SenderCertSize beyond 64 KiB": ("QB-059", security("<I", 8, 0x10000)),
    "ProviderInfoSize all ones": ("QB-059", security("<I", 12, 0xFFFFFFFF)),
    "ProviderInfoSize that wraps": ("QB-059", security("<I", 12, 0xFFFFFFFD)),
    "MQF HeaderSize 0": ("QB-063", with_header("multi_queue", addresses(size=0) + REST)),
    "MQF HeaderSize 11": ("QB-063", with_header("multi_queue", addresses(size=11) + REST)),
    "MQF HeaderSize all ones": ("QB-063", with_header("multi_queue", addresses(size=0xFFFFFFFF) + REST)),
    "MQF ElementCount 2 GiB": ("QB-063", with_header("multi_queue", addresses(count=0x7FFFFFFF) + REST)),
    "MQF ElementCount all ones": ("QB-063", with_header("multi_queue", addresses(count=0xFFFFFFFF) + REST)),
    "MQF HeaderID": ("QB-063", with_header("multi_queue", addresses(0x65) + REST)),
    "MQF FormatType": ("QB-064", with_header("multi_queue", addresses(count=1, names=b"\x09\0" + bytes(18)) + REST)),
    "MQF name without an end": (
        "QB-064", with_header("multi_queue", addresses(count=1, names=b"\x03\0" + b"a\0" * 9) + REST),
    ),
    "MQF signature all ones": (
        "QB-065",
        with_header("multi_queue", addresses() + REST[:-8] + struct.pack("<HHI", 0x15E, 0, 0xFFFFFFFF)),
    ),
    "Debug QT 2": ("QB-067", with_header("debug", b"\2\0\0\0" + bytes(16))),
    "Debug QT 3": ("QB-067", with_header("debug", b"\3\0\0\0" + bytes(16))),
    "Debug QT 1 without a GUID": ("QB-067", with_header("debug", b"\1\0\0\0")),
}  # fmt: skip


@pytest.mark.spec("QB-128", *sorted({rows for rows, _ in HEADERS.values()}))
@pytest.mark.parametrize("what", HEADERS)
def test_a_malformed_optional_header_closes_its_connection(
    session: Session, queue: Target, witness: Witness, what: str
) -> None:
    session.write(HEADERS[what][1](session.identity.message(queue.direct, b"body", delivery=1)))
    assert session.until_closed() == []
    witness.check()
    assert queue.bodies() == []


def soap(first: int, second: int = 1) -> bytes:
    return struct.pack("<HHI", 0x0320, 0, first) + bytes(4) + struct.pack("<HHI", 0x0384, 0, second) + bytes(4)


@pytest.mark.spec("QB-066")
@pytest.mark.parametrize("count", [0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 1 << 20])
@pytest.mark.parametrize("second", [True, False])
def test_lengths_of_a_soap_header_do_not_wrap(
    session: Session, queue: Target, witness: Witness, count: int, second: bool
) -> None:
    message = session.identity.message(queue.direct, b"body", delivery=1, extra_flags=1 << 28)
    message.tail = soap(2, count) if second else soap(count)
    session.write(message.encode())
    assert session.until_closed() == []
    witness.check()


@pytest.mark.spec("QB-055")
@pytest.mark.parametrize(("number", "previous"), [(0, 0), (1, 1), (5, 7), (1, 0xFFFFFFFF)])
def test_numbers_of_a_stream_that_cannot_be_close_the_connection(
    session: Session, me: Identity, stream_queue: Target, witness: Witness, number: int, previous: int
) -> None:
    session.write(me.transactional(stream_queue.direct, b"x", 5 << 32 | 1, number, previous=previous).encode())
    assert session.until_closed() == []
    witness.check()
    assert stream_queue.bodies() == []


@pytest.mark.spec("QB-015", "QB-012", "QB-026", "QB-128")
@pytest.mark.parametrize("change", [-4, -1, 1, 4])
@pytest.mark.parametrize("kind", ["EstablishConnection", "ConnectionParameters", "SessionAck"])
def test_internal_packets_have_one_size(server: Daemon, me: Identity, witness: Witness, kind: str, change: int) -> None:
    with me.connect(server.address) as session:
        packet = Establish(me.guid).encode()
        if kind != "EstablishConnection":
            session.write(packet)
            session.take(Establish)
            packet = Parameters().encode()
        if kind == "SessionAck":
            session.write(packet)
            session.take(Parameters)
            packet = SessionAck(SessionHeader()).encode()
        packet = put("<I", 8, len(packet) + change)(packet) + bytes(8)
        session.write(packet[: len(packet) - 8 + change])
        assert session.until_closed() == []
    witness.check()
