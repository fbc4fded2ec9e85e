"""Headers of a recorded message, both ways and bent: [MC-COMQC] 2.2.1 to 2.2.6."""

import struct
from collections.abc import Sequence
from uuid import UUID

import pytest

from lior.errors import InvalidParameter, Malformed, MessageTooLarge
from lior.wire import recorded_call
from lior.wire.recorded_call import (
    EXTENSION,
    GLOBAL_PARTITION,
    MESSAGE_SIGNATURE,
    STRUCTURE_ID,
    Call,
    Limits,
    RecordedMessage,
    decode,
    encode,
    is_recorded,
)
from tests.wire import second_recorded_call as second
from tests.wire.recorded_call_vectors import (
    ALL,
    CLASS,
    CLASS_ID,
    CONTEXT_A,
    CONTEXT_B,
    GLOBAL,
    INTERFACE,
    INTERFACE_ID,
    A,
    B,
    C,
    add_lines,
    place_order,
)

CHDR_END, SECD_AT, METH_AT, SMTH_AT = 0xC8, 0xE0, 0x140, 0x198  # in A
OTHER = UUID(int=7)


def bent(at: int, value: int, body: bytes = A) -> bytes:
    return body[:at] + struct.pack("<I", value & 0xFFFFFFFF) + body[at + 4:]


def resized(body: bytes) -> bytes:
    """With a Message Size that is right again."""
    return bent(32, len(body), body)


def refuses(body: bytes, word: str = "") -> None:
    with pytest.raises(Malformed) as caught:
        decode(body)
    assert word in str(caught.value), str(caught.value)


def call(number: int = 3, security: bytes = CONTEXT_A, interface: UUID = INTERFACE_ID, data: bytes = b"data") -> Call:
    return Call(interface, number, security, data)


def signatures(body: bytes) -> list[str]:
    return [signature.decode() for signature, _, _ in second.headers(body)]


# ---- both ways ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-016", "QC-019", "QC-025", "QC-030", "QC-034", "QC-036", "QC-054", "QC-055")
def test_worked_example_is_built_by_the_second_hand_and_by_the_codec_octet_for_octet() -> None:
    one = place_order(1001, "Zoë", 249.5)
    two = add_lines(-2, [10, 20, -30], True, one.referent)
    headers = (second.part(GLOBAL), second.secd(CONTEXT_A), second.meth(INTERFACE, 3, one.octets),
               second.smth(4, two.octets))
    assert second.message(CLASS, *headers) == A
    calls = [call(3, data=one.octets), call(4, data=two.octets)]
    assert encode(RecordedMessage(CLASS_ID, calls, GLOBAL_PARTITION)) == A
    assert len(A) == 512


@pytest.mark.spec("QC-028")
@pytest.mark.parametrize("name", sorted(set(ALL) - {"B"}))
def test_each_example_is_read_and_written_again_octet_for_octet(name: str) -> None:
    message = decode(ALL[name], strict=True)
    assert encode(message) == ALL[name]


@pytest.mark.spec("QC-019")
@pytest.mark.parametrize("name", sorted(ALL))
def test_headers_and_what_they_carry_start_at_multiples_of_eight(name: str) -> None:
    for signature, at, _ in second.headers(ALL[name]):
        assert at % 8 == 0, signature
    assert (METH_AT + 48) % 8 == (SMTH_AT + 32) % 8 == (SECD_AT + 16) % 8 == 80 % 8 == 0


@pytest.mark.spec("QC-062")
def test_slack_behind_the_parameters_and_in_the_padding_changes_nothing() -> None:
    plain, slack = decode(A), decode(B)
    for one, other in zip(plain.calls, slack.calls, strict=True):
        assert other[:3] == one[:3]
        assert bytes(other.data).startswith(bytes(one.data))
        assert len(other.data) > len(one.data)


@pytest.mark.spec("QC-002", "QC-004")
def test_three_guids_stand_in_their_three_places() -> None:
    assert EXTENSION == second.EXTENSION
    assert MESSAGE_SIGNATURE == second.MESSAGE_SIGNATURE == A[8:24]
    assert STRUCTURE_ID == second.STRUCTURE == A[80:96]
    for at, other in ((8, STRUCTURE_ID), (8, EXTENSION), (80, MESSAGE_SIGNATURE), (80, EXTENSION)):
        refuses(A[:at] + other + A[at + 16:])


@pytest.mark.spec("QC-002")
def test_extension_of_another_length_or_with_one_octet_changed_is_not_ours() -> None:
    assert is_recorded(EXTENSION)
    for other in (b"", EXTENSION[:15], EXTENSION + b"\0"):
        assert not is_recorded(other)
    for at in range(16):
        assert not is_recorded(EXTENSION[:at] + bytes([EXTENSION[at] ^ 1]) + EXTENSION[at + 1:])


@pytest.mark.spec("QC-005")
def test_guids_are_in_packet_form() -> None:
    text = "00112233-4455-6677-8899-aabbccddeeff"
    assert second.guid(text) == UUID(text).bytes_le
    body = encode(RecordedMessage(UUID(text), [call()], UUID(text)))
    assert body[96:112] == second.guid(text)
    assert body[CHDR_END + 8:CHDR_END + 24] == second.guid(text)
    assert decode(body).class_id == UUID(text)


@pytest.mark.spec("QC-023")
def test_signatures_are_ascii_in_reading_order_and_case_matters() -> None:
    numbers = {b"CHDR": 0x52444843, b"PART": 0x54524150, b"SECD": 0x44434553, b"SECR": 0x52434553,
               b"METH": 0x4854454D, b"SMTH": 0x48544D53}  # fmt: skip
    for octets, number in numbers.items():
        assert struct.unpack("<I", octets) == (number,)
    assert frozenset(numbers) == recorded_call.SIGNATURES
    for at in (0, CHDR_END, SECD_AT, METH_AT, SMTH_AT):
        refuses(A[:at] + A[at:at + 4].lower() + A[at + 4:])


# ---- which headers in which order -----------------------------------------------------------------------------------

X = "XXXX"


def sequence(words: Sequence[str]) -> bytes:
    """A message of these headers; SECR refers to the first SECD."""
    parts: list[bytes] = []
    at, first = CHDR_END, 0
    for word in words:
        made = {
            "PART": lambda: second.part(GLOBAL),
            "SECD": lambda: second.secd(CONTEXT_A),
            "SECR": lambda: second.secr(first),  # noqa: B023
            "METH": lambda: second.meth(INTERFACE, 3, b"12345"),
            "SMTH": lambda: second.smth(3, b"12345"),
            X: lambda: b"XXXX" + struct.pack("<I", 24) + bytes(16),
            "CHDR": lambda: second.chdr(CLASS, 0),
        }[word]()
        if word == "SECD" and not first:
            first = at
        parts.append(made)
        at += len(made)
    return second.message(CLASS, *parts)


@pytest.mark.spec("QC-016", "QC-017", "QC-018", "QC-039", "QC-057")
@pytest.mark.parametrize("words", [
    "SECD METH", "SECD METH METH", "SECD METH SMTH", "PART SECD METH", "SECD METH PART", "SECD METH SMTH SMTH PART",
    "SECD METH SECD METH", "SECD METH SECD SMTH", "SECD METH SECR METH", "SECD METH SECR SMTH", "XXXX SECD METH",
    "SECD METH XXXX", "PART XXXX SECD METH", "XXXX PART SECD METH",
])  # fmt: skip
def test_reads_every_legal_order_of_headers(words: str) -> None:
    message = decode(sequence(words.split()))
    assert len(message.calls) == words.count("METH") + words.count("SMTH")
    assert all(found.interface_id == INTERFACE_ID and found.security == CONTEXT_A for found in message.calls)
    assert message.partition == (GLOBAL_PARTITION if "PART" in words else None)
    assert message.skipped == (b"XXXX",) * words.count(X)


@pytest.mark.spec("QC-016", "QC-017", "QC-018", "QC-020", "QC-021", "QC-026", "QC-037", "QC-056")
@pytest.mark.parametrize("words", [
    "", "SECD", "METH", "SECR METH", "SMTH", "SECD SMTH", "PART METH", "SECD SECD METH", "SECD METH SECD",
    "SECD METH SECR", "SECD METH SECR SECD METH", "SECD METH SECD SECD METH", "SECD METH SECR SECR METH",
    "PART PART SECD METH", "SECD PART METH", "SECD METH PART SMTH", "SECD METH PART PART", "PART SECD METH PART",
    "SECD XXXX METH", "SECD METH XXXX METH", "XXXX XXXX SECD METH", "SECD METH XXXX PART", "SECD METH SECD XXXX METH",
    "CHDR SECD METH", "SECD METH CHDR", "SECD CHDR METH", "XXXX SECD METH XXXX",
])  # fmt: skip
def test_refuses_every_other_order_of_headers(words: str) -> None:
    refuses(sequence(words.split()))


@pytest.mark.spec("QC-018")
@pytest.mark.parametrize("words", ["XXXX SECD METH", "SECD METH XXXX"])
def test_strict_reader_refuses_headers_that_nobody_defined(words: str) -> None:
    with pytest.raises(Malformed, match="XXXX"):
        decode(sequence(words.split()), strict=True)


@pytest.mark.spec("QC-026")
def test_the_first_header_is_the_container() -> None:
    refuses(resized(second.part(GLOBAL) + A[:CHDR_END] + A[CHDR_END + 24:]))
    refuses(A[CHDR_END:])


@pytest.mark.spec("QC-021")
def test_nothing_is_carried_from_one_message_to_the_next() -> None:
    decode(A)
    refuses(sequence(["SECD", "SMTH"]), "names no interface")


# ---- fields ---------------------------------------------------------------------------------------------------------

IGNORED = {  # offset: what stands there
    **{36 + 4 * word: "Reserved 3" for word in range(8)}, 72: "Reserved 4", 76: "Reserved 4",
    SECD_AT + 12: "Header Padding", METH_AT + 28: "Padding 1", SMTH_AT + 28: "Padding 1", 0x1FA - 2: "Padding 2",
    0xC4: "Padding",
}  # fmt: skip


@pytest.mark.spec("QC-024")
@pytest.mark.parametrize(("at", "what"), sorted(IGNORED.items()))
def test_ignores_what_is_to_be_ignored(at: int, what: str) -> None:
    body = bytearray(A)
    if what == "Padding 2":
        body[0x1FA:0x200] = b"\xCC" * 6
    elif what == "Padding":
        body[0xC2:0xC8] = b"\xCC" * 6
    else:
        body[at:at + 4] = b"\xCC" * 4
    assert decode(bytes(body)) == decode(A)


@pytest.mark.spec("QC-024")
def test_ignores_the_padding_of_a_reference_and_of_security_data() -> None:
    [secr_at] = [at for signature, at, _ in second.headers(C) if signature == b"SECR"]
    assert decode(bent(secr_at + 12, 0xCCCCCCCC, C)) == decode(C)
    short = second.message(CLASS, second.secd(b"x" * 9)[:-7] + b"\xCC" * 7, second.meth(INTERFACE, 3, b""))
    assert decode(short).calls[0].security == b"x" * 9


@pytest.mark.spec("QC-022", "QC-127")
@pytest.mark.parametrize("at", [0, CHDR_END, SECD_AT, METH_AT, SMTH_AT])
@pytest.mark.parametrize("size", [0, 4, 8, 12, 15, 17, 0x7FFFFFF8, 0xFFFFFFF8, 0xFFFFFFFF])
def test_refuses_a_header_size_that_is_too_small_odd_or_beyond_the_end(at: int, size: int) -> None:
    refuses(bent(at + 4, size))


@pytest.mark.spec("QC-019", "QC-022")
def test_refuses_a_header_that_is_not_padded_to_eight_even_where_nothing_follows() -> None:
    call = second.meth(INTERFACE, 3, b"12345678")
    short = call[:4] + struct.pack("<I", 52) + call[8:20] + struct.pack("<I", 4) + call[24:52]
    for last in (short, call + b"XXXX" + struct.pack("<I", 20) + bytes(12)):
        refuses(second.message(CLASS, second.secd(CONTEXT_A), last), "header size")
    assert len(decode(second.message(CLASS, second.secd(CONTEXT_A), call)).calls) == 1


WRONG = [
    (24, 0), (24, 2), (24, 0xFFFFFFFF), (28, 0), (28, 2), (28, 0xFFFFFFFF),  # versions
    (32, 504), (32, 520), (32, 0), (32, 0xFFFFFFFF),  # Message Size
    (68, 0x74), (68, 0), (68, 0x28), (68, 0x80), (68, 0xFFFFFFF8),  # Call Target Identifier Size
    (80, 0), (112, 0), (112, 77), (112, 76), (112, 80), (112, 84), (112, 0xFFFFFFFE),  # Structure ID, string size
    (CHDR_END + 4, 0x20), (CHDR_END + 4, 0x10),  # PART Size
    (SECD_AT + 8, 0x51), (SECD_AT + 8, 0xFFFFFFFF), (SECD_AT + 8, 0xFFFFFFF0),  # Security Data Size
    (METH_AT + 12, 0), (METH_AT + 12, 0x10000000), (METH_AT + 16, 0), (METH_AT + 16, 0x1001),  # representation, Flags
    (METH_AT + 20, 0x29), (METH_AT + 20, 0xFFFFFFFF), (METH_AT + 24, 0), (METH_AT + 24, 2),  # data size, Reserved
    (SMTH_AT + 12, 0), (SMTH_AT + 16, 0), (SMTH_AT + 20, 0x49), (SMTH_AT + 24, 0),
]  # fmt: skip


@pytest.mark.spec("QC-024", "QC-027", "QC-028", "QC-029", "QC-034", "QC-036", "QC-054", "QC-055", "QC-060", "QC-061",
                  "QC-127")
@pytest.mark.parametrize(("at", "value"), WRONG)
def test_refuses_a_wrong_value_in_a_field_that_is_checked(at: int, value: int) -> None:
    refuses(bent(at, value))


@pytest.mark.spec("QC-028")
def test_refuses_a_message_cut_anywhere_or_with_something_behind_it() -> None:
    for end in range(len(A)):
        refuses(A[:end])
        if end >= 36:
            refuses(resized(A[:end])) if end not in (SMTH_AT,) else decode(resized(A[:end]))
    refuses(A + bytes(8))
    refuses(resized(A + bytes(8)))


def with_string(text: bytes) -> bytes:
    target = second.STRUCTURE + second.guid(CLASS) + struct.pack("<I", len(text)) + text
    target += bytes(-len(target) % 8)
    head = A[:4] + struct.pack("<I", 80 + len(target)) + A[8:68] + struct.pack("<I", len(target)) + bytes(8)
    return resized(head + target + A[CHDR_END:])


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


@pytest.mark.spec("QC-033")
@pytest.mark.parametrize("text", [
    "\0", f"{CLASS}\0", f"{{{CLASS}}}\0", f"{CLASS.upper()}\0", "{00000000-0000-0000-0000-000000000000}\0",
])  # fmt: skip
def test_accepts_a_target_string_that_is_a_guid_or_empty(text: str) -> None:
    assert decode(with_string(utf16(text))).class_id == CLASS_ID


@pytest.mark.spec("QC-033")
@pytest.mark.parametrize("text", [
    b"", b"\0", utf16(f"{{{CLASS}}}\0")[:-1], utf16(f"{{{CLASS}}}"), utf16(f"{{{CLASS}\0"), utf16(f"{CLASS}}}\0"),
    utf16(f"({CLASS})\0"), utf16("{}\0"), utf16(f"{CLASS}\0\0"), utf16(f"{CLASS[:-1]}\0"), utf16(f"\0{CLASS}\0"),
    utf16(f"{CLASS[:-1]}g\0"), utf16(CLASS[:-1] + "\ud800\0"), utf16(CLASS.replace("-", "")), utf16(f" {CLASS}\0"),
])  # fmt: skip
def test_refuses_a_target_string_that_is_no_guid(text: bytes) -> None:
    refuses(with_string(text))


@pytest.mark.spec("QC-031")
def test_the_binary_class_decides_and_the_string_does_not() -> None:
    assert decode(with_string(utf16(f"{{{OTHER}}}\0"))).class_id == CLASS_ID


@pytest.mark.spec("QC-025", "QC-032")
def test_writes_the_braced_upper_case_string_in_a_container_of_200_octets() -> None:
    for class_id in (CLASS_ID, OTHER, UUID(int=0), UUID(int=(1 << 128) - 1)):
        body = encode(RecordedMessage(class_id, [call()]))
        assert struct.unpack_from("<I", body, 4) == (200,)
        assert body[116:116 + 78] == utf16(f"{{{str(class_id).upper()}}}\0")
        assert body[194:200] == bytes(6)


# ---- sharing --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-038", "QC-041")
def test_context_of_each_call_is_that_of_the_latest_security_header() -> None:
    assert [found.security for found in decode(C).calls] == [CONTEXT_A, CONTEXT_B, CONTEXT_A, CONTEXT_A]


@pytest.mark.spec("QC-039", "QC-040", "QC-042")
def test_a_context_is_written_once_and_referred_to_when_it_comes_again() -> None:
    contexts = [CONTEXT_A, CONTEXT_B, CONTEXT_A, CONTEXT_A, CONTEXT_B]
    body = encode(RecordedMessage(CLASS_ID, [call(security=context) for context in contexts]))
    assert signatures(body) == ["CHDR", "SECD", "METH", "SECD", "SMTH", "SECR", "SMTH", "SMTH", "SECR", "SMTH"]
    assert [found.security for found in decode(body).calls] == contexts


@pytest.mark.spec("QC-039")
def test_one_context_for_all_calls_is_written_once() -> None:
    assert signatures(encode(RecordedMessage(CLASS_ID, [call()] * 3))) == ["CHDR", "SECD", "METH", "SMTH", "SMTH"]


@pytest.mark.spec("QC-043")
def test_contexts_that_differ_in_one_octet_are_not_shared() -> None:
    other = second.extension(second.caller("S-1-5-18"), style=2)
    calls = [call(security=second.extension(second.caller("S-1-5-18"))), call(security=other)]
    assert signatures(encode(RecordedMessage(CLASS_ID, calls))).count("SECD") == 2


@pytest.mark.spec("QC-041")
def test_refuses_a_reference_that_leads_to_no_earlier_security_header() -> None:
    [secr_at] = [at for signature, at, _ in second.headers(C) if signature == b"SECR"]
    secds = [at for signature, at, _ in second.headers(C) if signature == b"SECD"]
    assert decode(bent(secr_at + 8, secds[1], C)).calls[2].security == CONTEXT_B
    later = second.message(CLASS, second.secd(CONTEXT_A), second.meth(INTERFACE, 3, b""), second.secr(10_000),
                           second.smth(3, b""), second.secd(CONTEXT_B), second.smth(3, b""))
    [later_at] = [at for signature, at, _ in second.headers(later) if signature == b"SECR"]
    forward = [at for signature, at, _ in second.headers(later) if signature == b"SECD"][1]
    refuses(bent(later_at + 8, forward, later))
    for offset in (0, secds[0] + 4, secds[0] + 1, secr_at, len(C), len(C) + 8, 0xFFFFFFFF):
        refuses(bent(secr_at + 8, offset, C))
    refuses(bent(secr_at + 4, 24, C))


@pytest.mark.spec("QC-057")
def test_an_interface_that_repeats_is_named_once() -> None:
    interfaces = [INTERFACE_ID, INTERFACE_ID, OTHER, INTERFACE_ID]
    body = encode(RecordedMessage(CLASS_ID, [call(interface=each) for each in interfaces]))
    assert signatures(body) == ["CHDR", "SECD", "METH", "SMTH", "METH", "METH"]
    assert [found.interface_id for found in decode(body).calls] == interfaces


@pytest.mark.spec("QC-058")
def test_a_short_call_has_the_interface_of_the_latest_long_one_whatever_security_stands_between() -> None:
    body = second.message(CLASS, second.secd(CONTEXT_A), second.meth(str(OTHER), 3, b""), second.secd(CONTEXT_B),
                          second.smth(4, b""))
    assert [found.interface_id for found in decode(body).calls] == [OTHER, OTHER]


# ---- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-020")
def test_a_message_without_a_call_is_not_built() -> None:
    with pytest.raises(InvalidParameter):
        encode(RecordedMessage(CLASS_ID, []))


@pytest.mark.spec("QC-015")
def test_a_message_over_four_megabytes_is_refused_not_split() -> None:
    with pytest.raises(MessageTooLarge):
        encode(RecordedMessage(CLASS_ID, [call(data=bytes(1 << 20))] * 4))


@pytest.mark.spec("QC-127")
def test_a_reader_stops_at_its_limit_of_calls_and_octets() -> None:
    body = encode(RecordedMessage(CLASS_ID, [call()] * 11))
    assert len(decode(body, Limits(calls=11)).calls) == 11
    with pytest.raises(Malformed, match="more than 10 calls"):
        decode(body, Limits(calls=10))
    with pytest.raises(Malformed, match="at most"):
        decode(body, Limits(octets=len(body) - 1))


@pytest.mark.spec("QC-028", "QC-127")
@pytest.mark.parametrize("name", sorted(ALL))
def test_every_single_octet_changed_ends_in_a_message_or_in_one_error(name: str) -> None:
    body = ALL[name]
    for at in range(len(body)):
        for value in (0, 0xFF, body[at] ^ 0x80):
            changed = body[:at] + bytes([value]) + body[at + 1:]
            try:
                decode(changed)
            except Malformed:
                continue
