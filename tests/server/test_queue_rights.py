"""Rights among the queue properties of a running queue manager ([MS-MQMQ] 2.3.1.25 to 2.3.1.27)."""

import struct

import pytest

from lior.errors import IllegalSecurityDescriptor, LiorError
from lior.security import (
    EVERYONE,
    Ace,
    AceType,
    Acl,
    SecurityDescriptor,
    SecurityInformation,
    allow,
    local_caller,
)
from lior.testing.engine import ManualEngine
from lior.wire.dtyp import encode_security_descriptor
from lior.wire.propvariant import VT_BLOB, VT_I2, PropVariant
from tests.server.queue_answers import TYPES, creating, read, setting, text, u4

ANNA = local_caller(1000, (1000,))

# Self-relative, by hand from [MS-DTYP] 2.4.6: a DACL with one entry that lets Everyone (S-1-1-0) peek
DACL = struct.pack("<BBHHH BBHI", 2, 0, 28, 1, 0, 0, 0, 20, 2) + bytes.fromhex("01 01 000000000001 00000000")
DESCRIPTOR = struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 20) + DACL
CALLBACK = encode_security_descriptor(
    SecurityDescriptor(dacl=Acl.of(Ace(int(AceType.ACCESS_ALLOWED_CALLBACK), 0, 2, EVERYONE)))
)


@pytest.mark.spec("MQ-169")
@pytest.mark.parametrize("propid", [1101, 1102])
def test_rights_are_read_back_as_they_were_set(engine: ManualEngine, propid: int) -> None:
    queue = engine.create()
    owner = queue.properties.security.owner if queue.properties.security else None
    setting(engine, queue, {propid: PropVariant(VT_BLOB, DESCRIPTOR)})
    for asked in (1101, 1102):
        values = read(engine, queue, asked, 1103, information=4)
        assert (values[asked], values[1103]) == (DESCRIPTOR, 4)
    assert queue.properties.security is not None
    assert queue.properties.security.owner == owner
    again = creating(engine, p103=text(r".\private$\again"), **{f"p{propid}": PropVariant(VT_BLOB, DESCRIPTOR)})
    assert read(engine, again, propid, information=4)[propid] == DESCRIPTOR


@pytest.mark.spec("MQ-169")
def test_the_old_form_knows_no_callback_entries(engine: ManualEngine) -> None:
    queue = engine.create()
    before = read(engine, queue, 1102)
    with pytest.raises(IllegalSecurityDescriptor) as caught:
        setting(engine, queue, {1101: PropVariant(VT_BLOB, CALLBACK)})
    assert caught.value.code == 0xC00E0021
    assert read(engine, queue, 1102) == before
    setting(engine, queue, {1102: PropVariant(VT_BLOB, CALLBACK)})
    assert read(engine, queue, 1101, 1102, information=4) == {1101: None, 1102: CALLBACK}


@pytest.mark.spec("MQ-169")
def test_the_information_says_which_parts_are_meant(engine: ManualEngine) -> None:
    queue = engine.create()
    full = SecurityDescriptor(owner=ANNA.sid, dacl=Acl.of(allow(EVERYONE, 2)))
    blob = PropVariant(VT_BLOB, encode_security_descriptor(full))
    setting(engine, queue, {1102: blob, 1103: u4(SecurityInformation.DACL)})
    assert queue.properties.security is not None
    assert queue.properties.security.owner == engine.admin.sid
    assert queue.properties.security.dacl == full.dacl
    setting(engine, queue, {1102: blob, 1103: u4(SecurityInformation.OWNER)})
    assert queue.properties.security.owner == ANNA.sid


@pytest.mark.parametrize(
    "values",
    [
        {1102: PropVariant(VT_BLOB, DESCRIPTOR), 108: text("new")},
        {1101: PropVariant(VT_BLOB, DESCRIPTOR), 1102: PropVariant(VT_BLOB, DESCRIPTOR)},
        {1103: u4(4)},
        {1102: PropVariant(VT_BLOB, DESCRIPTOR), 1103: u4(0)},
        {1102: PropVariant(VT_BLOB, struct.pack("<BBHIIII", 1, 0, 0x8000, 0, 0, 0, 0))},
    ],
)
def test_a_set_that_does_not_say_what_it_means_changes_nothing(
    engine: ManualEngine, values: dict[int, PropVariant]
) -> None:
    queue = engine.create()
    before = read(engine, queue, *TYPES)
    with pytest.raises(LiorError):
        setting(engine, queue, values)
    assert read(engine, queue, *TYPES) == before


def test_setting_needs_the_rights_even_for_what_is_ignored(engine: ManualEngine) -> None:
    queue = engine.create()
    for values in ({108: text("mine")}, {106: PropVariant(VT_I2, 5)}, {1102: PropVariant(VT_BLOB, DESCRIPTOR)}):
        with pytest.raises(LiorError) as caught:
            setting(engine, queue, values, ANNA)
        assert caught.value.code == 0xC00E0025
    assert queue.properties.label == ""
