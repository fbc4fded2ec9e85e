"""UserMessage packets: frame 7, every header by hand, and what has to be refused ([MS-MQMQ] 2.2.19, 2.2.20)."""

import itertools
import tracemalloc

import pytest

from lior.errors import InvalidParameter, LiorError, Malformed, MessageTooLarge
from lior.wire import headers as h
from lior.wire.headers import (
    DebugHeader,
    SessionHeader,
)
from lior.wire.optional_headers import Debug, MultiQueueFormat
from lior.wire.queue_names import NameElement, PacketName
from lior.wire.user_message import UserMessage, rejoin
from tests.wire import second_user_message
from tests.wire.packet_checks import SID, SMALLEST, G, agreed, built, everything, patched, refused
from tests.wire.packets import FRAME_7, frame, frame_fields, plain

# ---- frame 7 --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQ-002", "MQ-045", "MQ-065", "MQ-071", "MQ-079", "MQ-080", "MQ-096", "MQ-127", "MQ-131")
def test_frame_7_reads_as_printed_and_writes_back() -> None:
    message = agreed(frame(FRAME_7))
    _, expected = frame_fields(FRAME_7)
    for name, header in (("base_header", message.base), ("user_header", message.user),
                         ("message_properties_header", message.properties)):
        for field, value in expected[name].items():
            actual = getattr(header, field)
            assert (actual.hex().upper() if isinstance(actual, bytes) else actual) == value, field
    assert message.security is not None
    for field, value in expected["security_header"].items():
        assert getattr(message.security.header, field) == value, field
    destination = expected["destination_queue"]
    assert message.destination_queue == PacketName(destination["type"], text=destination["text"])
    assert message.label_text == expected["content"]["label"]
    assert bytes(message.body).decode("utf-16-le") == "a" * 1000
    assert message.security.sender_id.hex().upper() == "010500000000000515000000AD4A9EBD36D9FA3D63A656DAE8030000"


@pytest.mark.spec("MQ-089")
def test_frame_7_asks_for_acknowledgements_without_an_administration_queue_and_is_accepted() -> None:
    message = UserMessage.decode(frame(FRAME_7))
    assert message.properties.flags == 0x0F and message.admin_queue.type == 0


@pytest.mark.parametrize("packet", [SMALLEST, frame(FRAME_7)[:1650]], ids=["smallest", "frame 7 as printed"])
def test_a_packet_is_refused_at_every_shorter_length(packet: bytes) -> None:
    for size in range(len(packet)):
        refused(packet[:size])
        if size >= 16:  # and where its PacketSize agrees with the cut
            refused(packet[:8] + size.to_bytes(4, "little") + packet[12:size])


def test_a_packet_with_every_header_is_refused_at_every_shorter_length() -> None:
    lists = MultiQueueFormat.of([NameElement(3, text="OS:x")], [NameElement(2, G, 1)], [], b"8 bytes.")
    packet = everything(multi_queue=lists).encode()
    agreed(packet)
    whole = len(packet) - 16
    for size in range(16, whole):
        for session in (b"", packet[whole:]):
            cut = packet[:8] + size.to_bytes(4, "little") + packet[12:size] + session
            with pytest.raises(Malformed):
                UserMessage.decode(cut)


def test_the_smallest_packet_has_120_bytes() -> None:
    message = agreed(SMALLEST)
    assert (len(SMALLEST), message.body, message.label, message.extension) == (120, b"", b"", b"")


def test_bytes_behind_the_packet_are_refused() -> None:
    refused(SMALLEST + b"\0", "PacketSize")
    refused(everything().encode() + bytes(16))


# ---- BaseHeader -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQ-073")
def test_reserved_bits_of_the_base_header_are_accepted_and_kept() -> None:
    assert agreed(patched(SMALLEST, 2, "C3FE")).base.flags == 0xFEC3
    assert agreed(patched(SMALLEST, 1, "CD")).base.reserved == 0xCD


@pytest.mark.spec("MQ-111")
def test_an_internal_packet_is_no_user_message() -> None:
    refused(patched(SMALLEST, 2, "0B00"), "internal")
    assert not UserMessage.decode(built().encode()).base.flags & h.IN
    message = built()
    message.base.flags |= h.IN
    assert not UserMessage.decode(message.encode()).base.flags & h.IN


@pytest.mark.spec("MQ-076")
def test_tracing_without_a_debug_header_is_refused() -> None:
    refused(patched(SMALLEST, 2, "0301"), "DebugHeader")
    message = built()
    message.base.flags |= h.TR
    with pytest.raises(InvalidParameter, match="DebugHeader"):
        message.encode()
    message.debug = Debug()
    assert agreed(message.encode()).base.flags & (h.TR | h.DH) == h.TR | h.DH


@pytest.mark.spec("MQ-072")
@pytest.mark.parametrize(("at", "text"), [(0, "11"), (0, "00"), (4, "4D"), (7, "53")])
def test_another_version_or_signature_is_refused(at: int, text: str) -> None:
    refused(patched(SMALLEST, at, text), "signature")


@pytest.mark.spec("MQ-077")
def test_a_session_header_is_behind_the_packet_size() -> None:
    packet = built(session=SessionHeader(1, 2, 3, 4, 5, 64, 6)).encode()
    assert len(packet) == 136 and packet[8:12] == b"\x78\0\0\0"
    assert packet[120:] == bytes.fromhex("0100 0200 03000000 0400 0500 4000 0600")
    assert agreed(packet).session == SessionHeader(1, 2, 3, 4, 5, 64, 6)
    refused(packet[:120], "PacketSize")
    refused(patched(packet, 8, "88000000"), "PacketSize")


@pytest.mark.spec("MQ-077")
def test_a_packet_has_at_most_4_mib_without_its_session_header() -> None:
    message = built(body=bytes(0x400000 - 120), session=SessionHeader())
    packet = message.encode()
    assert len(packet) == 0x400010 and UserMessage.decode(packet).base.packet_size == 0x400000
    message.body = bytes(0x400000 - 119)
    with pytest.raises(MessageTooLarge, match="4194308"):
        message.encode()
    with pytest.raises(Malformed):
        UserMessage.decode(patched(bytes(0x400004), 0, SMALLEST[:8].hex() + "04004000"))
    with pytest.raises(Malformed, match="bytes"):
        UserMessage.decode(bytearray(0x400011))


# ---- UserHeader -----------------------------------------------------------------------------------------------------


def with_user_flags(flags: int) -> bytes:
    return patched(SMALLEST, 60, flags.to_bytes(4, "little").hex())


@pytest.mark.spec("MQ-087", "MQ-088")
@pytest.mark.parametrize(("shift", "kind"), [(10, 1), (10, 2), (10, 4), (10, 6), (13, 1), (13, 4)])
def test_a_queue_type_that_is_not_allowed_there_is_refused(shift: int, kind: int) -> None:
    packet = with_user_flags(1 << 21 | kind << shift)
    refused(packet[:8] + b"\xA0\0\0\0" + packet[12:] + bytes(40), "queue type")
    wrong = {10: "destination_queue", 13: "admin_queue"}[shift]
    with pytest.raises(InvalidParameter, match="queue type"):
        built(**{wrong: PacketName(kind, G)}).encode()


@pytest.mark.spec("MQ-087", "MQ-088", "MQ-090", "MQ-095", "QB-042")
@pytest.mark.parametrize(("field", "shift", "sizes"), [
    ("destination_queue", 10, {0: 0, 3: 4, 5: 16, 7: 20}),
    ("admin_queue", 13, {0: 0, 2: 4, 3: 4, 5: 16, 6: 20, 7: 20}),
    ("response_queue", 16, {0: 0, 1: 0, 2: 4, 3: 4, 4: 4, 5: 16, 6: 20, 7: 20})])
def test_each_queue_type_takes_the_bytes_of_its_table(field: str, shift: int, sizes: dict[int, int]) -> None:
    for kind, size in sizes.items():
        name = PacketName(kind, G if kind in (5, 6) else bytes(16), 9 if kind in (2, 3, 4, 6) else 0,
                          r"OS:ab\q" if kind == 7 else "")
        packet = built(**{field: name}).encode()
        assert len(packet) == 120 + size
        message = agreed(packet)
        assert message.user.flags >> shift & 7 == kind and getattr(message, field) == name


@pytest.mark.spec("MQ-095")
def test_names_stand_in_the_order_destination_administration_response_connector() -> None:
    packet = built(destination_queue=PacketName(3, number=0x11111111), admin_queue=PacketName(2, number=0x22222222),
                   response_queue=PacketName(4, number=0x33333333), connector_type=b"\x44" * 16).encode()
    assert packet[64:92].hex() == "111111112222222233333333" + "44" * 16
    assert (len(packet) - 16 - 56) % 4 == 0


@pytest.mark.spec("MQ-080", "MQ-085")
@pytest.mark.parametrize(("flags", "what"), [
    (0, "MessagePropertiesHeader"), (2 << 5 | 1 << 21, "delivery mode 2"), (3 << 5 | 1 << 21, "delivery mode 3"),
    (1 << 20 | 1 << 21, "express message with a TransactionHeader")])
def test_flags_that_contradict_the_table_are_refused(flags: int, what: str) -> None:
    refused(with_user_flags(flags), what)


@pytest.mark.spec("MQ-091")
def test_the_properties_header_is_always_there() -> None:
    refused(with_user_flags(0), "MessagePropertiesHeader")
    message = built()
    message.user.flags = 0
    assert agreed(message.encode()).user.flags == h.MP


@pytest.mark.spec("MQ-080")
def test_unused_bits_and_the_http_mark_are_accepted_and_kept() -> None:
    unused = 1 << 7 | 1 << 24 | 1 << 25 | 3 << 26 | 7 << 29
    assert agreed(with_user_flags(unused | 1 << 21)).user.flags == unused | 1 << 21


@pytest.mark.parametrize("hops", range(32))
def test_every_hop_count_is_read_and_stays_out_of_the_delivery_mode(hops: int) -> None:
    message = agreed(with_user_flags(hops | 1 << 5 | 1 << 21))
    assert message.user.flags & h.HOPS_MASK == hops and message.user.flags >> h.DM_SHIFT & 3 == 1


@pytest.mark.spec("MQ-080", "MQ-092", "MQ-110", "MQ-111")
@pytest.mark.parametrize("present", list(itertools.product([False, True], repeat=7)))
def test_every_combination_of_optional_headers_is_in_order_and_marked(present: tuple[bool, ...]) -> None:
    names = ("connector_type", "transaction", "security", "debug", "soap", "multi_queue", "session")
    absent = {name: None for name, there in zip(names, present, strict=True) if not there}
    packet = everything(**absent).encode()
    message = agreed(packet)
    for name, there in zip(names, present, strict=True):
        assert (getattr(message, name) is not None) == there
    bits = [bool(message.user.flags & bit) for bit in (1 << 22, 1 << 20, 1 << 19)]
    bits += [bool(message.base.flags & 0x20), bool(message.user.flags & 1 << 28), bool(message.user.flags & 1 << 23),
             bool(message.base.flags & 0x10)]
    assert tuple(bits) == present


@pytest.mark.spec("MQ-110")
def test_the_headers_of_a_whole_packet_are_the_bytes_of_their_tables_in_order() -> None:
    text = (
        "10 00 3300 4C494F52 7C010000 FFFFFFFF"  # BaseHeader: SH, DH
        + G.hex() + "00" * 16 + "FFFFFFFF 00000000 00000000 20DCFD10"  # UserHeader
        + "1000 4F005300 3A006100 62005C00 71000000 0000" + G.hex() + "05000000" + G.hex() + G.hex()
        + "1F000000 07000000 00000000 09000000 08000000" + G.hex()  # TransactionHeader
        + "0100 1000 0300 0900 04000000 0C000000" + SID.hex() + "6B657900 7369676E61747572 65000000 63657274"
        + "01000000 4300530050000000"  # SecurityHeader
        + "00 06 0000" + "00" * 20 + "00000000 00000000 00000000 04000000 00000000 00000000 00000000 03000000"
        + "6C0061006200 65006C000000 657874 626F6479 00"  # MessagePropertiesHeader
        + "0100 0000" + G.hex()  # DebugHeader
        + "2003 0000 05000000 68006500 61006400 0000 0000"
        + "8403 0000 05000000 74006100 69006C00 0000 0000"  # SoapHeader
        + "18000000 6400 0000 01000000 0300 4F0053003A0078000000"
        + "24000000 C800 0000 01000000 0200 0000" + G.hex() + "01000000"
        + "0C000000 2C01 0000 00000000 5E01 0000 09000000 7369676E61747572 65000000"  # MultiQueueFormatHeader
        + "0100 0200 03000000 0400 0500 0600 0700")  # SessionHeader
    packet = bytearray(bytes.fromhex(text))
    packet[8:12] = (len(packet) - 16).to_bytes(4, "little")
    assert everything().encode() == bytes(packet)
    agreed(bytes(packet))


@pytest.mark.spec("MQ-111")
@pytest.mark.parametrize(("at", "bit"), [(60, 19), (60, 20), (60, 22), (60, 23), (60, 28), (2, 4), (2, 5)])
def test_a_flag_whose_header_is_missing_is_refused(at: int, bit: int) -> None:
    for packet in (SMALLEST, built(body=b"x" * 100).encode()):
        flags = int.from_bytes(packet[at : at + 4], "little") | 1 << bit | (1 << 5 if at == 60 else 0)
        refused(patched(packet, at, flags.to_bytes(4, "little").hex()))


@pytest.mark.spec("MQ-110")
@pytest.mark.parametrize("extra", [1, 2, 3, 4, 5, 16])
def test_bytes_between_the_last_header_and_the_packet_size_are_refused(extra: int) -> None:
    for message in (built(), everything(session=None)):
        packet = message.encode() + bytes(extra)
        refused(packet[:8] + len(packet).to_bytes(4, "little") + packet[12:])


@pytest.mark.spec("MQ-094")
def test_a_connector_type_is_sixteen_opaque_bytes() -> None:
    assert agreed(built(connector_type=G).encode()).connector_type == G
    with pytest.raises(InvalidParameter, match="ConnectorType"):
        built(connector_type=b"short").encode()


# ---- MessagePropertiesHeader ----------------------------------------------------------------------------------------


@pytest.mark.spec("MQ-045", "MQ-100")
@pytest.mark.parametrize("value", [0, 8, 0xDEADBEEF, 0xFFFFFFFF])
def test_body_type_application_tag_and_unknown_algorithms_pass_unchanged(value: int) -> None:
    message = built()
    properties = message.properties
    properties.body_type = properties.application_tag = value
    properties.privacy_level = properties.hash_algorithm = properties.encryption_algorithm = value
    read = agreed(message.encode()).properties
    assert {read.body_type, read.application_tag, read.privacy_level, read.hash_algorithm,
            read.encryption_algorithm} == {value}


@pytest.mark.spec("MQ-098", "QB-045")
@pytest.mark.parametrize("length", [0, 1, 2, 249])
def test_a_label_has_up_to_249_units_and_a_nul_or_no_bytes_at_all(length: int) -> None:
    label = ("x" * length + "\0").encode("utf-16-le")
    message = agreed(built(label=label).encode())
    assert (message.label_text, message.properties.label_length) == ("x" * length, length + 1)
    assert agreed(built().encode()).properties.label_length == 0


@pytest.mark.spec("MQ-098", "QB-045")
def test_a_label_of_251_units_or_without_its_nul_is_refused() -> None:
    packet = built(label=("x" * 249 + "\0").encode("utf-16-le"), body=bytes(8)).encode()
    refused(patched(packet, 64 + 1, "FB"), "MessagePropertiesHeader")
    refused(patched(packet, 64 + 56 + 498, "4100"), "Label")
    refused(patched(packet, 64 + 56, "0000"), "Label")
    for label in (b"x", "xx".encode("utf-16-le"), ("x" * 250 + "\0").encode("utf-16-le")):
        with pytest.raises(InvalidParameter, match="Label"):
            built(label=label).encode()


@pytest.mark.spec("MQ-108", "MQ-109")
@pytest.mark.parametrize(("label", "extension", "body"), list(itertools.product(range(3), range(4), range(8))))
def test_extension_and_body_follow_the_label_unaligned_and_the_header_is_padded(
        label: int, extension: int, body: int) -> None:
    text = ("x" * label + "\0").encode("utf-16-le") if label else b""
    packet = built(label=text, extension=b"e" * extension, body=b"b" * body, debug=Debug()).encode()
    at = 120 + len(text)
    assert packet[at : at + extension + body] == b"e" * extension + b"b" * body
    end = at + extension + body
    pad = -end % 4
    assert len(packet) == end + pad + 4
    agreed(packet)
    noisy = packet[:end] + b"\xEE" * pad + packet[end + pad :]
    assert plain(UserMessage.decode(noisy)) == second_user_message.decode(noisy) == second_user_message.decode(packet)


@pytest.mark.spec("MQ-101")
def test_what_follows_the_body_is_behind_its_allocated_size() -> None:
    message = built(body=b"sixteen bytes ..", debug=Debug(queue_identifier=G))
    message.properties.message_size = 5
    read = agreed(message.encode())
    assert (read.properties.message_size, read.properties.allocation_body_size) == (5, 16)
    assert read.body == b"sixteen bytes .." and read.debug == Debug(DebugHeader(1), G)


@pytest.mark.spec("MQ-101", "MQ-077")
@pytest.mark.parametrize(("at", "text"), [
    (32, "0D000000"), (32, "FFFFFFFF"), (36, "0D000000"), (36, "FFFFFFFF"), (36, "00000080"), (52, "01000000"),
    (52, "FFFFFFFF"), (52, "FDFFFFFF"), (36, "07000000")])
def test_sizes_beyond_the_packet_or_each_other_are_refused(at: int, text: str) -> None:
    message = built(body=b"twelve bytes")
    message.properties.message_size = 12
    refused(patched(message.encode(), 64 + at, text), "MessagePropertiesHeader")
    message.properties.message_size = 13
    with pytest.raises(InvalidParameter, match="MessageSize 13"):
        message.encode()


@pytest.mark.parametrize("flags", range(256))
def test_unused_acknowledgement_bits_are_accepted(flags: int) -> None:
    assert agreed(patched(SMALLEST, 64, f"{flags:02X}")).properties.flags == flags


# ---- what may not happen --------------------------------------------------------------------------------------------


def test_no_size_in_a_packet_makes_the_decoder_allocate_more_than_the_packet() -> None:
    packet = everything().encode()
    tracemalloc.start()
    for at in range(len(packet) - 3):
        for value in ("FFFFFFFF", "FFFFFF7F", "00004000"):
            try:
                UserMessage.decode(patched(packet, at, value))
            except LiorError as error:
                assert type(error) is Malformed
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_the_body_is_a_view_of_the_packet_and_a_buffer_is_copied_first() -> None:
    packet = built(body=b"body").encode()
    view = UserMessage.decode(packet).body
    assert isinstance(view, memoryview) and view.obj is packet
    buffer = bytearray(packet)
    for source in (buffer, memoryview(buffer)):
        message = UserMessage.decode(source)
        buffer[120:124] = b"gone"
        assert message.body == b"body" and message.packet == packet
        buffer[:] = packet


@pytest.mark.parametrize("session", [None, SessionHeader(1, 2, 3)])
@pytest.mark.parametrize("body", [b"", b"b", b"body body"])
def test_envelope_and_body_make_the_packet_again(session: SessionHeader | None, body: bytes) -> None:
    noisy = bytearray(everything(session=session, body=body).encode())
    at = bytes(noisy).index(b"ext") + 3 + len(body)
    noisy[at : at + -at % 4] = b"\xEE" * (-at % 4)
    message = UserMessage.decode(noisy)
    envelope = message.envelope
    message.session, message.body = SessionHeader(), b"changed on the way"
    assert message.envelope == envelope
    alone = rejoin(envelope, body)
    if session is None:
        assert alone == message.packet
    else:  # a session's counters mean nothing elsewhere
        assert alone == message.packet[:2] + b"\x23\0" + message.packet[4:-16]
    assert len(envelope) == len(alone) - len(body)
    with pytest.raises(Malformed, match="envelope"):
        rejoin(envelope, body + b"x")
