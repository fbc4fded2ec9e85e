"""Descriptors survive every form; the access check agrees with the document's pseudocode."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from lior.errors import IllegalSecurityDescriptor, Malformed
from lior.security import (
    DACL_TYPES,
    EVERYONE,
    LAID_OUT_TYPES,
    NOBODY,
    OBJECT_TYPES,
    OWNER_RIGHTS,
    QUEUE_MAPPING,
    SACL_TYPES,
    Ace,
    Acl,
    Caller,
    SecurityDescriptor,
    Sid,
    access_check,
)
from lior.wire.dtyp import decode_security_descriptor, decode_sid, encode_security_descriptor, encode_sid
from lior.wire.sddl import format_sddl, parse_sddl

U32 = st.integers(0, 0xFFFFFFFF)
FEW_SIDS = [Sid(5, (21, 1, 2, 3, rid)) for rid in range(4)] + [EVERYONE, OWNER_RIGHTS]
sids = st.one_of(
    st.sampled_from(FEW_SIDS),
    st.builds(Sid, st.integers(0, (1 << 48) - 1), st.lists(U32, max_size=15).map(tuple)),
)
extras = st.integers(0, 6).flatmap(lambda words: st.binary(min_size=4 * words, max_size=4 * words))
guids = st.none() | st.builds(UUID, int=st.integers(0, (1 << 128) - 1))
unknown_types = set(range(256)) - LAID_OUT_TYPES


def aces_of(types: frozenset[int]) -> st.SearchStrategy[Ace]:
    flags = st.integers(0, 255)
    plain = st.builds(Ace, st.sampled_from(sorted((types & LAID_OUT_TYPES) - OBJECT_TYPES)), flags, U32, sids, extras)
    objects = st.builds(Ace, st.sampled_from(sorted(types & OBJECT_TYPES)), flags, U32, sids, extras, guids, guids)
    opaque = st.builds(
        Ace,
        st.sampled_from(sorted(unknown_types - (set(range(0x14)) - types))),
        flags,
        st.just(0),
        st.just(NOBODY),
        extras,
    )
    return st.one_of(plain, objects, opaque)


def acls(types: frozenset[int]) -> st.SearchStrategy[Acl]:
    return st.builds(Acl, st.sampled_from([2, 4]), st.lists(aces_of(types), max_size=5).map(tuple))


descriptors = st.builds(
    SecurityDescriptor,
    st.none() | sids,
    st.none() | sids,
    st.none() | acls(DACL_TYPES),
    st.none() | acls(SACL_TYPES),
    st.integers(0, 0xFFFF),
    st.integers(0, 255),
)


@given(sids)
def test_a_sid_survives_its_text_and_its_bytes(sid: Sid) -> None:
    assert Sid.parse(str(sid)) == sid
    assert decode_sid(encode_sid(sid)) == (sid, 8 + 4 * len(sid.sub_authorities))


@given(descriptors)
def test_a_descriptor_survives_its_bytes(descriptor: SecurityDescriptor) -> None:
    data = encode_security_descriptor(descriptor)
    assert decode_security_descriptor(data) == descriptor
    assert encode_security_descriptor(decode_security_descriptor(data)) == data


text_flags = st.integers(0, 31).map(lambda bits: bits & 0x1F) | st.sampled_from([0x40, 0x80, 0xC0])


def text_aces(plain: list[int], objects: list[int]) -> st.SearchStrategy[Ace]:
    return st.one_of(
        st.builds(Ace, st.sampled_from(plain), text_flags, U32, sids),
        st.builds(Ace, st.sampled_from(objects), text_flags, U32, sids, st.just(b""), guids, guids),
    )


def text_acls(aces: st.SearchStrategy[Ace]) -> st.SearchStrategy[Acl]:
    return st.lists(aces, max_size=5).map(lambda made: Acl.of(*made))


text_descriptors = st.builds(
    SecurityDescriptor,
    st.none() | sids,
    st.none() | sids,
    text_acls(text_aces([0, 1], [5, 6])),
    text_acls(text_aces([2, 0x11, 0x13], [7])),
    st.sampled_from([0, 0x1000, 0x2000, 0x0400, 0x0800, 0x0100, 0x0200, 0x3F00]),
)


@given(text_descriptors)
def test_a_descriptor_survives_its_text(descriptor: SecurityDescriptor) -> None:
    text = format_sddl(descriptor)
    assert parse_sddl(text) == descriptor
    assert format_sddl(parse_sddl(text.lower())) == text


@given(descriptors, descriptors, st.integers(0, 15))
def test_merging_what_was_selected_restores_it(old: SecurityDescriptor, new: SecurityDescriptor, parts: int) -> None:
    assert old.select(15) == old
    if new.owner is not None and new.has_dacl:
        merged = old.merge(new, parts)
        assert merged == old.merge(new.select(parts), parts)
        assert merged.select(parts).merge(merged, 0) == merged.select(parts)


@given(st.binary(max_size=200))
def test_bytes_become_a_descriptor_or_the_one_error(data: bytes) -> None:
    for head in (b"", bytes.fromhex("01000480")):
        try:
            descriptor = decode_security_descriptor(head + data)
        except IllegalSecurityDescriptor:
            continue
        assert decode_security_descriptor(encode_security_descriptor(descriptor)) == descriptor


@given(st.binary(max_size=80), st.integers(-2, 90))
def test_bytes_become_a_sid_or_the_one_error(data: bytes, at: int) -> None:
    try:
        sid, size = decode_sid(data, at)
    except Malformed:
        return
    assert encode_sid(sid)[2:] == data[at + 2 : at + size]


@given(st.text() | st.from_regex(r"(?:[OGDS]:|\((?:A|D|AU);|;|GA|WD|BA|0x1F|P|AI|\)){0,12}", fullmatch=True))
def test_text_becomes_a_descriptor_or_the_one_error(text: str) -> None:
    try:
        descriptor = parse_sddl(text)
    except IllegalSecurityDescriptor:
        return
    assert parse_sddl(format_sddl(descriptor)) == descriptor


# --- the access check, written a second time from the pseudocode of 2.5.3.2


def evaluate_token_against_descriptor(
    token: set[Sid], descriptor: SecurityDescriptor, access_request_mask: int, generic: dict[int, int]
) -> bool:
    """Grant or refuse as a whole, one entry after the other; basic entries, no privileges, no object tree."""

    def translated(mask: int) -> int:
        for bit, meaning in generic.items():
            if mask & bit:
                mask = mask & ~bit | meaning
        return mask

    remaining = translated(access_request_mask)
    if descriptor.dacl is None:
        return True
    owner = descriptor.owner in token
    limited = any(ace.sid == OWNER_RIGHTS and not ace.flags & 0x08 for ace in descriptor.dacl.aces)
    if owner and not limited:
        remaining &= ~0x60000
    for ace in descriptor.dacl.aces:
        if ace.flags & 0x08:
            continue
        matches = ace.sid in token or (owner and ace.sid == OWNER_RIGHTS)
        if ace.type == 0 and matches:
            remaining &= ~translated(ace.mask)
        elif ace.type == 1 and matches and remaining & translated(ace.mask):
            return False
    return remaining == 0


SPECIFIC = st.integers(0, 0xFFFF).map(lambda bits: (bits & 0xFF) | (bits >> 8 & 0xF) << 16)
GENERIC = {0x80000000: 0x2002B, 0x40000000: 0x20024, 0x10000000: 0xF003F}
masks = SPECIFIC | st.builds(lambda mask, bit: mask | bit, SPECIFIC, st.sampled_from(sorted(GENERIC)))
checked = st.builds(
    SecurityDescriptor,
    st.none() | st.sampled_from(FEW_SIDS[:4]),
    st.none(),
    st.none()
    | st.lists(
        st.builds(Ace, st.sampled_from([0, 1]), st.sampled_from([0, 0, 0x10, 0x08]), masks, st.sampled_from(FEW_SIDS)),
        max_size=6,
    ).map(lambda aces: Acl.of(*aces)),
)
callers = st.builds(Caller, st.sampled_from(FEW_SIDS[:4]), st.sets(st.sampled_from(FEW_SIDS[:4])).map(frozenset))


@given(checked, callers, masks)
def test_the_access_check_agrees_with_the_documents_pseudocode(
    descriptor: SecurityDescriptor, caller: Caller, wanted: int
) -> None:
    token = {caller.sid, *caller.groups, EVERYONE}
    granted = evaluate_token_against_descriptor(token, descriptor, wanted, GENERIC)
    assert (access_check(descriptor, caller, wanted) == 0) == granted


@given(checked, callers, masks)
def test_each_denied_bit_is_denied_alone_and_the_others_are_granted(
    descriptor: SecurityDescriptor, caller: Caller, wanted: int
) -> None:
    denied = access_check(descriptor, caller, wanted)
    assert denied & ~QUEUE_MAPPING.apply(wanted) == 0
    for bit in (1 << number for number in range(20)):
        if QUEUE_MAPPING.apply(wanted) & bit:
            assert access_check(descriptor, caller, bit) == denied & bit


@given(checked, callers, masks)
def test_a_refusal_never_comes_from_being_in_one_more_group_that_no_entry_denies(
    descriptor: SecurityDescriptor, caller: Caller, wanted: int
) -> None:
    stranger = Sid(22, (2, 4711))
    larger = Caller(caller.sid, caller.groups | {stranger})
    assert access_check(descriptor, larger, wanted) == access_check(descriptor, caller, wanted)
