"""The optional headers, each field and what has to be refused ([MS-MQMQ] 2.2.20.1 to 2.2.20.8)."""

import itertools

import pytest

from lior.errors import InvalidParameter
from lior.wire.headers import (
    DebugHeader,
    SecurityHeader,
    TransactionHeader,
)
from lior.wire.optional_headers import Debug, MultiQueueFormat, Security, Soap, Transaction, provider_info
from lior.wire.queue_names import NameElement
from lior.wire.user_message import UserMessage
from tests.wire import second_user_message
from tests.wire.packet_checks import SID, G, agreed, built, patched, refused
from tests.wire.packets import plain


@pytest.mark.spec("MQ-123", "QB-055")
@pytest.mark.parametrize("connector", [None, G])
def test_a_transaction_header_has_20_bytes_or_36(connector: bytes | None) -> None:
    packet = built(transaction=Transaction(TransactionHeader(0, 1 << 32 | 2, 3, 0), connector)).encode()
    assert len(packet) == 120 + 20 + (16 if connector else 0)
    transaction = agreed(packet).transaction
    assert transaction is not None and transaction.connector_qm_guid == connector
    assert packet[68:76].hex() == "0200000001000000"  # Ordinal, TimeStamp


@pytest.mark.spec("MQ-124")
def test_unused_transaction_bits_are_ignored() -> None:
    packet = built(transaction=Transaction(TransactionHeader(0xFF00000E, 0, 1, 0))).encode()
    transaction = agreed(packet).transaction
    assert transaction is not None and transaction.header.flags == 0xFF00000E


@pytest.mark.spec("MQ-126", "QB-055")
@pytest.mark.parametrize(("number", "previous", "good"), [
    (0, 0, False), (1, 0, True), (1, 1, False), (2, 3, False), (0xFFFFFFFF, 0xFFFFFFFE, True),
    (0xFFFFFFFF, 0xFFFFFFFF, False), (0xFFFFFFFF, 0, True)])
def test_a_message_of_a_stream_follows_one_with_a_smaller_number(number: int, previous: int, good: bool) -> None:
    packet = built(transaction=Transaction(TransactionHeader())).encode()
    packet = patched(packet, 76, number.to_bytes(4, "little").hex() + previous.to_bytes(4, "little").hex())
    message = built(transaction=Transaction(TransactionHeader(0, 0, number, previous)))
    if good:
        assert agreed(packet).encode() == message.encode()
    else:
        refused(packet, "TransactionHeader")
        with pytest.raises(InvalidParameter, match="TransactionHeader"):
            message.encode()


def secured(flags: int, *items: bytes) -> UserMessage:
    return built(security=Security(SecurityHeader(flags), *items))


@pytest.mark.spec("MQ-130")
def test_security_items_start_at_multiples_of_four_and_empty_ones_take_no_room() -> None:
    items = (SID, b"12345", b"", b"c", provider_info(1, "AB"))
    packet = secured(1, *items).encode()
    assert packet[80:118].hex() == SID.hex() + "31323334350000006300000001000000410042000000"
    message = agreed(packet)
    assert message.security is not None and message.security.sender_cert == b"c"
    for sizes in itertools.product((0, 1, 2, 3, 4, 28), repeat=3):
        contents = [b"x" * size for size in sizes]
        assert len(secured(0x41, SID, *contents).encode()) == 136 + 16 + sum(size + -size % 4 for size in sizes)
        agreed(secured(0x41, SID, *contents).encode())


@pytest.mark.spec("MQ-131")
def test_security_data_is_there_by_its_sizes_whatever_ai_says() -> None:
    for flags in (0x01, 0x81):
        message = agreed(secured(flags, SID).encode())
        assert message.security is not None and message.security.sender_id == SID


@pytest.mark.spec("MQ-132")
def test_a_security_header_without_data_or_with_a_huge_certificate_is_refused() -> None:
    refused(patched(secured(1, SID).encode(), 64, "0000 0000 0000 0000 00000000 00000000"), "sizes")
    with pytest.raises(InvalidParameter, match="without any data"):
        secured(0).encode()
    packet = secured(0, b"", b"", b"", bytes(0xFFFF)).encode()
    agreed(packet)
    refused(patched(packet, 72, "00000100"), "sizes")
    with pytest.raises(InvalidParameter, match="certificate of 65536"):
        secured(0, b"", b"", b"", bytes(0x10000)).encode()


@pytest.mark.spec("MQ-129")
@pytest.mark.parametrize(("sender_type", "sender"), [
    (0, SID), (0, G), (1, b""), (1, SID[:-1]), (1, SID + b"\0\0\0\0"), (1, b"\2" + SID[1:]), (1, G), (2, b""),
    (2, G[:15]), (2, SID + b"\0"), (3, G), (15, SID)])
def test_a_sender_id_that_is_not_of_its_type_is_refused(sender_type: int, sender: bytes) -> None:
    with pytest.raises(InvalidParameter, match="SecurityHeader"):
        secured(sender_type, sender, b"key").encode()
    packet = secured(0x80, b"", sender or b"k", b"").encode()  # as a key; then the sizes change places
    sizes = len(sender).to_bytes(2, "little") + (b"\0\0" if sender else b"\1\0")
    refused(patched(packet, 64, f"8{sender_type:X}00" + sizes.hex()), "SecurityHeader")


@pytest.mark.spec("MQ-129")
@pytest.mark.parametrize(("sender_type", "sender"), [(0, b""), (1, SID), (2, G)])
def test_the_three_kinds_of_sender_id_are_read(sender_type: int, sender: bytes) -> None:
    security = agreed(secured(sender_type, sender, b"key").encode()).security
    assert security is not None and security.sender_id == sender


@pytest.mark.spec("MQ-136")
def test_provider_info_is_a_type_and_a_name_and_counts_unless_de_is_set() -> None:
    info = bytes.fromhex("18000000 4300 5300 5000 0000")
    assert provider_info(0x18, "CSP") == info
    for flags, provider in ((0x00, (0x18, "CSP")), (0x40, None)):
        security = agreed(secured(flags, b"", b"", b"signature", b"", info).encode()).security
        assert security is not None and security.provider == provider
    broken = secured(0x40, b"", b"", b"signature", b"", b"odd").encode()
    assert agreed(broken).security is not None
    refused(patched(broken, 64, "0000"), "ProviderInfo")
    for name in ("4300 5300", "0000 4300 0000", "4300 0000 0000"):
        packet = secured(0x40, b"", b"", b"signature", b"", bytes.fromhex("18000000" + name)).encode()
        refused(patched(packet, 64, "0000"), "ProviderName")
    refused(patched(secured(0x40, b"", b"", b"signature").encode(), 64, "0000"), "provider")


@pytest.mark.spec("MQ-139", "QB-067")
@pytest.mark.parametrize(("flags", "size"), [(0, 4), (1, 20), (0xFFFC, 4), (0xFFFD, 20)])
def test_a_debug_header_has_4_bytes_or_20(flags: int, size: int) -> None:
    debug = Debug(DebugHeader(flags, 7), G if flags & 1 else None)
    packet = built(debug=debug).encode()
    assert len(packet) == 120 + size and agreed(packet).debug == debug


@pytest.mark.spec("MQ-139", "QB-067")
@pytest.mark.parametrize("queue_type", ["02", "03"])
def test_a_debug_header_with_another_queue_type_is_refused(queue_type: str) -> None:
    refused(patched(built(debug=Debug(queue_identifier=G)).encode(), 120, queue_type), "DebugHeader")


@pytest.mark.spec("MQ-138")
def test_soap_lengths_count_units_and_both_alignments_are_read() -> None:
    sections = ("2003 0000 02000000 6800 0000", "8403 0000 03000000 7400 6100 0000")
    padded = built(soap=Soap.of("h", "ta")).encode()
    assert padded[120:] == bytes.fromhex(sections[0] + sections[1] + "0000")
    soap_read = agreed(padded).soap
    assert soap_read is not None and soap_read.texts == ("h", "ta") and soap_read.padded
    for header in ("hd", "h"):  # what is behind the first section is at 2 mod 4, or the end alone can tell
        soap = Soap.of(header, "ta")
        soap.padded = False
        for lists in (None, MultiQueueFormat.of([], [], [])):
            message = built(soap=soap, multi_queue=lists)
            message.base.packet_size = 120 + 8 + 2 * len(header) + 2 + 8 + 6 + (0 if lists is None else 44)
            packet = message.encode()
            assert len(packet) == message.base.packet_size
            assert agreed(packet).soap == soap


@pytest.mark.spec("MQ-138")
@pytest.mark.parametrize(("at", "text"), [
    (0, "2103"), (0, "8403"), (4, "03000000"), (4, "01000000"), (4, "00000080"), (4, "FFFFFFFF"), (10, "4100"),
    (12, "8503"), (16, "00000080"), (16, "04000000"), (20, "0000")])
def test_a_wrong_soap_section_is_refused(at: int, text: str) -> None:
    packet = built(soap=Soap.of("h", "ta")).encode()
    refused(patched(packet, 120 + at, text), "Soap")


LISTS = MultiQueueFormat.of(
    [NameElement(3, text="OS:ab"), NameElement(1, G)], [NameElement(6, G)], [NameElement(2, G, 9)], b"sig")


@pytest.mark.spec("MQ-112", "MQ-114", "QB-062", "QB-063")
def test_a_multi_queue_header_is_three_padded_lists_and_a_signature() -> None:
    packet = built(multi_queue=LISTS).encode()
    assert agreed(packet).multi_queue == LISTS
    lists = packet[120:]
    assert lists[0:4] == (12 + 2 + 12 + 2 + 16).to_bytes(4, "little")
    assert [lists[at + 4 : at + 6].hex() for at in (0, 44, 76)] == ["6400", "c800", "2c01"]
    assert lists[112:].hex() == "5e01 0000 03000000 736967 00".replace(" ", "")
    empty = built(multi_queue=MultiQueueFormat.of([], [], [])).encode()
    assert empty[120:132].hex() == "0c0000006400000000000000" and len(empty) == 120 + 3 * 12 + 8
    agreed(empty)


@pytest.mark.spec("MQ-112", "MQ-114")
def test_header_size_may_include_the_padding_and_the_padding_may_hold_anything() -> None:
    packet = built(multi_queue=MultiQueueFormat.of([NameElement(3, text="OS:a")], [], [])).encode()
    assert packet[120:124] == (24).to_bytes(4, "little")
    packet = built(multi_queue=MultiQueueFormat.of([NameElement(3, text="OS:ab")], [], [])).encode()
    assert packet[120:124] == (26).to_bytes(4, "little")
    agreed(patched(packet, 120, "1C"))
    noisy = patched(packet, 120 + 26, "EEEE")
    assert plain(UserMessage.decode(noisy)) == second_user_message.decode(noisy)


@pytest.mark.spec("MQ-114", "MQ-115", "QB-063")
@pytest.mark.parametrize(("at", "text"), [
    (0, "0B000000"), (0, "00000000"), (0, "FFFFFFFF"), (0, "2B000000"), (0, "30000000"), (0, "1B000000"), (4, "C800"),
    (4, "5E01"), (8, "01000000"), (8, "03000000"), (8, "FFFFFFFF"), (44 + 4, "6400"), (76 + 4, "C800"),
    (112, "6400"), (112, "0000"), (116, "00000000"), (116, "08000000"), (116, "05000000"), (116, "FFFFFFFF")])
def test_a_wrong_multi_queue_header_is_refused(at: int, text: str) -> None:
    refused(patched(built(multi_queue=LISTS).encode(), 120 + at, text))


@pytest.mark.spec("MQ-115")
@pytest.mark.parametrize("size", range(9))
def test_the_size_of_a_list_signature_is_that_of_the_signature_alone(size: int) -> None:
    message = built(multi_queue=MultiQueueFormat.of([], [], [], b"s" * size))
    packet = message.encode()
    assert packet[156:164] == b"\x5e\1\0\0" + size.to_bytes(4, "little")
    assert len(packet) == 164 + size + -size % 4
    agreed(packet)
    bare = packet[: 164 + size]  # nothing is said of padding behind it
    agreed(bare[:8] + len(bare).to_bytes(4, "little") + bare[12:])
