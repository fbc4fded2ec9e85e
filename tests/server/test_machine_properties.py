"""Machine properties of a running queue manager ([MS-MQMQ] 2.3.2)."""

from typing import Any

import pytest

from lior.errors import IllegalPropertyId, InsufficientResources
from lior.names import LocalNames
from lior.server.properties import machine_values
from lior.server.properties.machine import transport_addresses
from lior.testing.clock import FakeClock
from lior.testing.engine import IDENTIFIER, ManualEngine
from lior.wire.dtyp import decode_security_descriptor
from lior.wire.structures import MqDsPublicKey, addresses_to_bytes, public_keys_to_bytes
from tests.server.property_answers import on_the_wire

# From the tables of [MS-MQMQ] 2.3.2, by hand: the type of every property, 1 for those that a workgroup has not
TYPES = {
    202: 72, 203: 31, 206: 65, 207: 0x1048, 208: 0x1048, 209: 0x1048, 210: 19, 214: 19, 215: 19, 216: 31, 217: 3,
    218: 3, 219: 17, 220: 19, 222: 0x1048, 223: 0x101F, 224: 0x101F, 227: 17, 228: 17, 229: 17, 233: 31, 234: 65,
    237: 19, 238: 65, 239: 65, 242: 17, 1201: 65, 1202: 65, 1203: 65,
}  # fmt: skip
NOT_HERE = dict.fromkeys((201, 205, 211, 212, 213, 221, 231, 232, 241, 1205), 1)
BASE = "Microsoft Base Cryptographic Provider v1.0"
ENHANCED = "Microsoft Enhanced Cryptographic Provider v1.0"
NO_KEYS = bytes.fromhex("08000000 00000000")  # MQDSPUBLICKEYS: its length, and no key


def read(engine: ManualEngine, *propids: int) -> dict[int, Any]:
    return {propid: value for propid, (_, value) in on_the_wire(machine_values(engine.manager, propids)).items()}


@pytest.mark.spec("MQ-170", "MQ-171")
def test_every_property_is_answered_with_its_type_or_null(engine: ManualEngine) -> None:
    expected = TYPES | NOT_HERE
    answers = on_the_wire(machine_values(engine.manager, expected))
    assert {propid: vt for propid, (vt, _) in answers.items()} == expected
    for unused in (204, 225, 226, 230, 235, 236, 240, 1204):
        with pytest.raises(IllegalPropertyId):
            machine_values(engine.manager, [unused])


@pytest.mark.spec("DM-004", "MQ-170", "MQ-171", "MQ-173", "MQ-176", "MQ-177", "MQ-178")
def test_a_workgroups_queue_manager_tells_who_it_is(engine: ManualEngine) -> None:
    now = int(engine.clock.wall())
    assert read(engine, 202, 203, 210, 217, 218, 219, 220, 227, 228, 229, 233, 242) == {
        202: IDENTIFIER, 203: "lior", 210: 0, 217: now, 218: now, 219: 0, 220: 0x100, 227: 0, 228: 0, 229: 0,
        233: "lior.example.org", 242: 0,
    }  # fmt: skip
    assert read(engine, 207, 208, 209, 222, 223, 224) == dict.fromkeys((207, 208, 209, 222, 223, 224), ())


@pytest.mark.spec("DM-004", "MQ-177", "MQ-176", "MQ-178", "MQ-173")
@pytest.mark.parametrize(
    ("attribute", "value", "answers"),
    [
        ("operating_system_type", 0x400, {220: 0x400}),
        ("foreign_system", True, {219: 1}),
        ("supporting_server", True, {229: 1, 227: 0, 228: 0, 210: 0}),
        ("routing_server", True, {227: 1, 229: 0, 210: 1}),
        ("directory_server", True, {228: 1, 229: 0}),
        ("remote_access_server", True, {210: 0x10, 227: 0}),
        ("clustered", True, {242: 1}),
        ("name", "other", {203: "other", 233: "other.example.org"}),
    ],
)
def test_each_attribute_is_read_under_its_own_identifier(attribute: str, value: Any, answers: dict[int, Any]) -> None:
    assert read(ManualEngine(**{attribute: value}), *answers) == answers


@pytest.mark.spec("DM-004")
def test_times_are_those_of_the_installation_and_of_its_last_change(engine: ManualEngine) -> None:
    installed = int(engine.clock.wall())
    engine.advance(60)
    engine.do(engine.manager.set_manager_properties, {"queue_manager_quota": 9}, engine.admin)
    assert read(engine, 214, 217, 218) == {214: 9, 217: installed, 218: installed + 60}
    again = engine.restart()
    assert read(again, 202, 217, 218) == {202: IDENTIFIER, 217: installed, 218: installed + 60}
    assert read(ManualEngine(clock=FakeClock(wall=2.0**31 + 7)), 217) == {217: -(2**31) + 7}


@pytest.mark.spec("DM-004", "MQ-175")
def test_the_machine_type_is_empty_unless_the_versions_make_the_old_form() -> None:
    assert read(ManualEngine(), 216) == {216: ""}
    told = ManualEngine(operating_system_version="Linux 6.1", queue_manager_version="Lior 1.0")
    assert read(told, 216) == {216: ""}
    old = ManualEngine(
        operating_system_version="Windows NT 5.0 (Build 2195, Service Pack 4)",
        queue_manager_version="MSMQ 2.0 (Build 711)",
    )
    assert read(old, 216) == {216: "Windows NT 5.0 (Build 2195, Service Pack 4) - MSMQ 2.0 (Build 711)"}


@pytest.mark.spec("MQ-172")
def test_the_addresses_are_packed_and_all_that_others_can_use() -> None:
    addresses = frozenset({"127.0.0.1", "198.51.100.3", "192.0.2.7", "::1", "2001:db8::1", "fe80::1%eth0"})
    local = LocalNames("lior", "lior.example.org", addresses, IDENTIFIER)
    # by hand from [MS-MQMQ] 2.2.4: AddressLength 4, AddressType 1 (IP), four octets
    both = bytes.fromhex("0400 0100 C0000207  0400 0100 C6336403")
    assert addresses_to_bytes(transport_addresses(local)) == both
    alone = LocalNames("lior", "lior", frozenset({"127.0.0.2", "::1"}), IDENTIFIER)
    assert addresses_to_bytes(transport_addresses(alone)) == bytes.fromhex("0400 0100 7F000002")
    assert transport_addresses(LocalNames("lior", "lior", frozenset({"::1"}), IDENTIFIER)) == ()


@pytest.mark.spec("MQ-172")
def test_a_running_queue_manager_answers_its_addresses(engine: ManualEngine) -> None:
    assert read(engine, 206) == {206: bytes.fromhex("0400 0100 C0000207")}


@pytest.mark.spec("MQ-174", "MQ-170")
def test_the_quota_read_is_the_one_that_holds_over_all_queues(engine: ManualEngine) -> None:
    assert read(engine, 214, 215) == {214: 0x100000, 215: 0xFFFFFFFF}
    engine.do(engine.manager.set_manager_properties, {"queue_manager_quota": 1, "journal_quota": 2}, engine.admin)
    assert read(engine, 214, 215) == {214: 1, 215: 2}
    for name in "ab":
        engine.create(rf".\private$\{name}")
    engine.send(engine.sender(r"DIRECT=OS:.\private$\a"), body=b"b" * 500)
    with pytest.raises(InsufficientResources):
        engine.send(engine.sender(r"DIRECT=OS:.\private$\b"), body=b"b" * 500)


@pytest.mark.spec("MQ-179", "MQ-171")
def test_keys_for_encryption_and_for_signing_are_told_apart() -> None:
    assert read(ManualEngine(), 238, 239, 1202, 1203) == dict.fromkeys((238, 239, 1202, 1203), NO_KEYS)
    encryption = public_keys_to_bytes([MqDsPublicKey(1, ENHANCED, b"enhanced"), MqDsPublicKey(1, BASE, b"base")])
    signing = public_keys_to_bytes([MqDsPublicKey(1, BASE, b"sign")])
    engine = ManualEngine(public_encryption_key_list=encryption, public_signing_key_list=signing)
    assert read(engine, 238, 239, 1202, 1203) == {238: encryption, 239: signing, 1202: signing, 1203: encryption}
    assert read(engine, 205, 231, 232) == {205: b"base", 231: b"base", 232: b"enhanced"}


def test_the_rights_read_are_those_of_the_queue_manager(engine: ManualEngine) -> None:
    security = engine.manager.core.properties.security
    assert security is not None
    values = read(engine, 234, 237, 1201)
    assert values[234] == values[1201]
    assert decode_security_descriptor(values[234]) == security.select(7)
    assert values[237] == 7
