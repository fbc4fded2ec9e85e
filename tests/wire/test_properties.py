"""The property tables against a transcription of both editions of the document, and the rules for setting them."""

import csv
import re
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import property_document
from lior.errors import HRESULTS, LiorError, succeeded
from lior.message import INFINITE, NULL_GUID
from lior.security.descriptors import Ace, AceType, Acl, SecurityDescriptor, allow
from lior.security.sids import Sid
from lior.wire.dtyp import decode_security_descriptor, encode_security_descriptor, encode_sid
from lior.wire.properties import (
    IGNORED,
    MAX_PROPERTIES,
    PROPERTIES,
    UNSUPPORTED,
    Access,
    CheckedSet,
    ConnectedState,
    ConnectionStatus,
    ObjectClass,
    QueueLocation,
    QueueState,
    QueueType,
    ThreeValued,
    check_get,
    check_properties,
    check_set,
    check_value,
    is_old_machine_type,
    next_hop,
    property_of,
    time_of,
    time_value,
)
from lior.wire.propvariant import (
    NULL,
    VT_BLOB,
    VT_CLSID,
    VT_I2,
    VT_I4,
    VT_LPWSTR,
    VT_UI1,
    VT_UI4,
    VT_UI8,
    VT_VARIANT,
    VT_VECTOR,
    PropVariant,
    VarEnum,
)
from lior.wire.structures import (
    MqDsPublicKey,
    MqUserSignCert,
    SequenceInfo,
    TaAddress,
    addresses_to_bytes,
    public_keys_to_bytes,
    sign_certs_to_bytes,
)

C = ObjectClass
ROOT = Path(__file__).parents[2]
with (ROOT / "tests/vectors/propids.csv").open(newline="", encoding="utf-8") as file:
    TRANSCRIBED = list(csv.DictReader(file))
BY_CLASS = {c: [row for row in TRANSCRIBED if row["object_class"] == c.value] for c in C}
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
EVERYONE = Sid.parse("S-1-1-0")
DACL = Acl.of(allow(EVERYONE, 0x3F))
SD = encode_security_descriptor(SecurityDescriptor(owner=EVERYONE, dacl=DACL))
CALLBACK_SD = encode_security_descriptor(SecurityDescriptor(
    owner=EVERYONE, dacl=Acl.of(Ace(int(AceType.ACCESS_ALLOWED_CALLBACK), 0, 1, EVERYONE))))
PATH = {103: PropVariant(VT_LPWSTR, "host\\private$\\orders")}


def code_of(action: Any, *arguments: Any) -> int:
    with pytest.raises(LiorError) as caught:
        action(*arguments)
    assert caught.value.where
    return caught.value.code


def creating(propid: int, variant: PropVariant, object_class: ObjectClass=C.QUEUE) -> CheckedSet:
    values = {propid: variant} if object_class is not C.QUEUE or propid == 103 else {**PATH, propid: variant}
    return check_properties(object_class, values, True)


def setting(propid: int, variant: PropVariant, object_class: ObjectClass=C.QUEUE) -> CheckedSet:
    return check_properties(object_class, {propid: variant}, False)


def vt_of(names: str) -> int:
    return sum(VarEnum[name].value for name in names.split("|"))


CLASS_ROWS = [(object_class, pytest.mark.spec(*rows)) for object_class, rows in {
    C.QUEUE: ["MQ-151"], C.MACHINE: ["MQ-170", "MQ-171"], C.SITE: ["MQ-181"], C.CONNECTED_NETWORK: ["MQ-182"],
    C.ENTERPRISE: ["MQ-183"], C.USER: ["MQ-185"], C.ROUTING_LINK: ["MQ-186"], C.SETTINGS: ["MQ-187"],
    C.MQ_USER: ["MQ-188"], C.COMPUTER: ["MQ-189"], C.MANAGEMENT_MACHINE: ["MQ-190"],
    C.MANAGEMENT_QUEUE: ["MQ-194", "MQ-195"], C.DELETION_NOTIFICATION: ["MQ-203"]}.items()]


@pytest.mark.parametrize("object_class", [pytest.param(c, marks=mark, id=c.name) for c, mark in CLASS_ROWS])
def test_each_class_has_the_identifiers_names_types_and_versions_of_the_document(object_class: ObjectClass) -> None:
    table = {(e.propid, e.name, e.vt, e.since) for e in PROPERTIES[object_class].values()}
    transcribed = {(int(row["propid"]), row["name"], vt_of(row["vt"]), int(row["since"]))
                   for row in BY_CLASS[object_class]}
    assert table == transcribed
    assert transcribed


@pytest.mark.spec("MQ-151")
def test_refuses_a_value_of_another_type_and_an_unknown_identifier() -> None:
    for row in BY_CLASS[C.QUEUE]:
        entry = property_of(C.QUEUE, int(row["propid"]))
        wrong = PropVariant(VT_I4, 1) if entry.vt != VT_I4 else PropVariant(VT_UI4, 1)
        if entry.access in (Access.CREATE, Access.BOTH):
            assert code_of(creating, entry.propid, wrong) == 0xC00E0019
    assert code_of(property_of, C.QUEUE, 122) == 0xC00E0039
    assert code_of(setting, 122, NULL) == 0xC00E0039
    assert check_get(C.QUEUE, [101, 122, 101]) == (0, 0x400E0004, 0x400E0005)


@pytest.mark.spec("MQ-171")
@pytest.mark.parametrize("propid", [204, 225, 226, 230, 235, 236, 240, 1204])
def test_the_gaps_between_machine_properties_are_gaps(propid: int) -> None:
    assert code_of(property_of, C.MACHINE, propid) == 0xC00E0039


@pytest.mark.spec("MQ-150")
def test_one_identifier_means_different_things_in_different_classes() -> None:
    assert property_of(C.MANAGEMENT_MACHINE, 3).name == "PROPID_MGMT_MSMQ_DSSERVER"
    assert property_of(C.MANAGEMENT_QUEUE, 3).name == "PROPID_MGMT_QUEUE_TYPE"
    assert property_of(C.MANAGEMENT_MACHINE, 6).vt != property_of(C.MANAGEMENT_QUEUE, 6).vt
    assert code_of(property_of, C.MANAGEMENT_MACHINE, 7) == 0xC00E0039
    assert all(0 <= propid <= 0xFFFFFFFF for table in PROPERTIES.values() for propid in table)


@pytest.mark.spec("MQ-003")
def test_both_editions_give_the_same_numbers_once_misprints_are_read_through() -> None:
    misprints = {"PROPID_QM_INFERS": "PROPID_QM_INFRS", "PROPID_QM_ENCRYPT_PKs": "PROPID_QM_ENCRYPT_PKS",
                 "PROPID_QM_SIGN_PKs": "PROPID_QM_SIGN_PKS", "MQ_ERROR_ILLEGAL_MQMQPROPS": "MQ_ERROR_ILLEGAL_MQQMPROPS"}
    for row in TRANSCRIBED:
        name = misprints.get(row["seed_name"], row["seed_name"])
        entry = next(e for table in PROPERTIES.values() for e in table.values() if e.name == name)
        assert (name, row["seed_propid"], row["seed_vt"]) == (row["name"], row["propid"], row["vt"])
        assert (entry.propid, entry.vt) == (int(row["seed_propid"]), vt_of(row["seed_vt"]))
    with (ROOT / "tests/vectors/hresults.csv").open(newline="", encoding="utf-8") as file:
        codes = list(csv.DictReader(file))
    for row in codes:
        name = misprints.get(row["seed_name"], row["seed_name"])
        assert name == row["name"]
        assert HRESULTS[name] == int(row["seed_code"] or row["code"], 16)
    assert sum(not row["seed_code"] for row in codes) == 4  # codes that the print left out


@pytest.mark.spec("MQ-152")
def test_the_guids_of_queue_and_queue_manager_are_read_only_and_the_type_is_not() -> None:
    guid = PropVariant(VT_CLSID, GUID)
    for propid in (101, 115):
        assert code_of(creating, propid, guid) == 0xC00E003E
        assert code_of(setting, propid, guid) == 0xC00E003E
    assert creating(102, guid).accepted[102] == guid
    assert setting(102, guid).accepted == {102: guid}
    assert property_of(C.QUEUE, 102).default == NULL_GUID


@pytest.mark.spec("MQ-153")
def test_the_path_name_is_given_at_creation_and_never_changed() -> None:
    assert creating(103, PATH[103]).accepted == PATH
    assert code_of(setting, 103, PATH[103]) == 0xC00E003E
    assert code_of(creating, 103, PropVariant(VT_LPWSTR, "no queue")) == 0xC00E0014
    assert code_of(creating, 103, PropVariant(VT_LPWSTR, "h\\private$\\" + "q" * 125)) == 0xC00E0014


def test_a_queue_cannot_be_created_without_a_path_name() -> None:
    assert code_of(check_set, C.QUEUE, {108: PropVariant(VT_LPWSTR, "x")}, True) == 0xC00E003F
    assert code_of(check_set, C.QUEUE, {}, True) == 0xC00E003F
    assert code_of(check_set, C.QUEUE, {}, False) == 0xC00E003D
    assert code_of(check_set, C.MACHINE, {}, False) == 0xC00E0041


@pytest.mark.parametrize(("propid", "vt", "good", "bad"), [
    (104, VT_UI1, (0, 1), (2, 255)), (111, VT_UI1, (0, 1), (2,)), (112, VT_UI4, (0, 1, 2), (3,)),
    (105, VT_UI4, (0, 1, 0xFFFFFFFF), ()), (107, VT_UI4, (0, 1, 0xFFFFFFFF), ()),
])
def test_queue_settings_take_the_values_of_their_tables(propid: int, vt: int, good: Any, bad: Any) -> None:
    for value in good:
        assert setting(propid, PropVariant(vt, value)).statuses == (0,)
        assert creating(propid, PropVariant(vt, value)).statuses == (0, 0)
    for value in bad:
        assert code_of(setting, propid, PropVariant(vt, value)) == 0xC00E0018


def test_defaults_are_those_of_the_document() -> None:
    defaults = {e.propid: e.default for e in PROPERTIES[C.QUEUE].values() if e.default is not None}
    assert defaults == {102: NULL_GUID, 104: 0, 105: INFINITE, 106: 0, 107: INFINITE, 108: "", 111: 0, 112: 1, 113: 0,
                        114: 1, 125: ""}


@pytest.mark.spec("MQ-156")
@pytest.mark.parametrize("value", [5, -32768, 32767])
def test_the_base_priority_of_a_private_queue_is_ignored_without_error(value: Any) -> None:
    checked = setting(106, PropVariant(VT_I2, value))
    assert (checked.accepted, checked.statuses) == ({}, (0x400E0003,))
    assert succeeded(checked.statuses[0])
    assert property_of(C.QUEUE, 106).default == 0
    assert code_of(setting, 106, PropVariant(VT_I4, value)) == 0xC00E0019


@pytest.mark.spec("MQ-158")
def test_a_queue_label_ends_at_124_characters() -> None:
    assert setting(108, PropVariant(VT_LPWSTR, "x" * 124)).accepted
    assert code_of(setting, 108, PropVariant(VT_LPWSTR, "x" * 125)) == 0xC00E0018
    assert code_of(setting, 108, PropVariant(VT_LPWSTR, "\U0001F600" * 63)) == 0xC00E0018
    assert code_of(setting, 108, PropVariant(VT_LPWSTR)) == 0xC00E0018


def test_times_are_read_only_and_go_on_after_2038() -> None:
    for propid in (109, 110):
        assert code_of(setting, propid, PropVariant(VT_I4, 1)) == 0xC00E003E
    for seconds in (0, 1, 2**31 - 1, 2**31, 2**32 - 1):
        variant = time_value(seconds)
        variant.check()
        assert time_of(variant) == seconds


@pytest.mark.spec("MQ-162")
def test_a_queue_is_transactional_from_its_creation_or_never() -> None:
    assert creating(113, PropVariant(VT_UI1, 1)).accepted[113].value == 1
    assert code_of(setting, 113, PropVariant(VT_UI1, 1)) == 0xC00E003E
    assert code_of(creating, 113, PropVariant(VT_UI1, 2)) == 0xC00E0018


@pytest.mark.spec("MQ-163")
def test_the_scope_is_enterprise_and_not_settable() -> None:
    assert property_of(C.QUEUE, 114).default == 1
    check_value(property_of(C.QUEUE, 114), PropVariant(VT_UI1, 0))
    assert code_of(check_value, property_of(C.QUEUE, 114), PropVariant(VT_UI1, 2)) == 0xC00E0018
    assert code_of(setting, 114, PropVariant(VT_UI1, 1)) == 0xC00E003E


@pytest.mark.spec("MQ-164")
@pytest.mark.parametrize(("object_class", "propid"), [(C.QUEUE, 118), (C.QUEUE, 119), (C.MACHINE, 212)])
def test_hash_keys_are_never_interpreted(object_class: ObjectClass, propid: int) -> None:
    for value in (0, 7, 0xFFFFFFFF):
        checked = setting(propid, PropVariant(VT_UI4, value), object_class)
        assert (checked.accepted, checked.statuses) == ({}, (IGNORED,))


@pytest.mark.parametrize("propid", [121, 123])
def test_what_only_a_directory_computes_is_reported_as_not_supported(propid: int) -> None:
    checked = setting(propid, PropVariant(VT_LPWSTR, "x"))
    assert (checked.accepted, checked.statuses) == ({}, (UNSUPPORTED,))


@pytest.mark.parametrize("propid", [124, 126])
def test_the_other_names_of_a_queue_are_read_only(propid: int) -> None:
    assert code_of(setting, propid, PropVariant(VT_LPWSTR, "x")) == 0xC00E003E
    check_value(property_of(C.QUEUE, propid), NULL)


@pytest.mark.spec("MQ-167")
def test_a_multicast_address_is_class_d_with_any_port() -> None:
    for good in ("224.1.1.1:8001", "239.255.255.255:65535", "224.0.0.0:0", ""):
        assert setting(125, PropVariant(VT_LPWSTR, good)).accepted
    for bad in ("10.0.0.1:1", "223.255.255.255:1", "240.0.0.1:1", "224.1.1.1", "224.1.1.1:", "224.1.1.1:65536",
                "224.1.1.1:01", "224.1.1.1:1:1", "224.1.1:1", "224.1.1.1:x", "224.1.1.1:+1", "224.01.1.1:1"):
        assert code_of(setting, 125, PropVariant(VT_LPWSTR, bad)) == 0xC00E0018
    both = {**PATH, 113: PropVariant(VT_UI1, 1), 125: PropVariant(VT_LPWSTR, "224.1.1.1:8001")}
    assert code_of(check_set, C.QUEUE, both, True) == 0xC00E0087
    assert check_set(C.QUEUE, {**both, 125: PropVariant(VT_LPWSTR, "")}, True) == {}


@pytest.mark.spec("MQ-169")
def test_a_security_descriptor_is_self_relative_and_the_old_one_has_old_entries_only() -> None:
    for propid in (1101, 1102):
        accepted = setting(propid, PropVariant(VT_BLOB, SD)).accepted[propid].value
        assert decode_security_descriptor(accepted).dacl == DACL
        for cut in (0, 19, len(SD) - 1):
            assert code_of(setting, propid, PropVariant(VT_BLOB, SD[:cut])) == 0xC00E0021
    assert code_of(setting, 1101, PropVariant(VT_BLOB, CALLBACK_SD)) == 0xC00E0021
    assert setting(1102, PropVariant(VT_BLOB, CALLBACK_SD)).accepted
    assert setting(1103, PropVariant(VT_UI4, 0x0F)).accepted
    assert code_of(setting, 1103, PropVariant(VT_UI4, 0x10)) == 0xC00E0018


@pytest.mark.spec("MQ-172")
def test_a_machine_address_is_a_packed_array() -> None:
    data = addresses_to_bytes([TaAddress.of_ip(IPv4Address("10.0.0.1")), TaAddress.of_ip(IPv4Address("10.0.0.2"))])
    assert setting(206, PropVariant(VT_BLOB, data), C.MACHINE).accepted
    assert code_of(setting, 206, PropVariant(VT_BLOB, data[:-1]), C.MACHINE) == 0xC00E0018


@pytest.mark.parametrize(("object_class", "propid", "vt", "good", "bad"), [
    pytest.param(C.MACHINE, 210, VT_UI4, (0, 1, 2, 4, 8, 0x10), (3, 0x20), marks=pytest.mark.spec("MQ-173")),
    pytest.param(C.MACHINE, 219, VT_UI1, (0, 1), (2,), marks=pytest.mark.spec("MQ-176")),
    pytest.param(C.MACHINE, 220, VT_UI4, (0, 0x100, 0x200, 0x300, 0x400, 0x500), (1, 0x600),
                 marks=pytest.mark.spec("MQ-177")),
    pytest.param(C.CONNECTED_NETWORK, 501, VT_UI1, (1, 3, 5), (0, 2, 4), marks=pytest.mark.spec("MQ-182")),
    pytest.param(C.ENTERPRISE, 602, VT_UI1, (0, 1, 2), (3,), marks=pytest.mark.spec("MQ-184")),
    pytest.param(C.ROUTING_LINK, 803, VT_UI4, (1, 999999), (0, 1000000), marks=pytest.mark.spec("MQ-186")),
    pytest.param(C.ROUTING_LINK, 812, VT_UI4, (1, 999999), (0, 1000000), marks=pytest.mark.spec("MQ-186")),
    pytest.param(C.SETTINGS, 5102, VT_UI4, (0, 1, 2, 4, 8), (3, 16), marks=pytest.mark.spec("MQ-187")),
    pytest.param(C.SETTINGS, 5112, VT_UI4, (0, 1, 2, 4, 8), (3, 16), marks=pytest.mark.spec("MQ-187")),
    pytest.param(C.SETTINGS, 5101, VT_LPWSTR, ("MSMQ Settings",), ("msmq settings",),
                 marks=pytest.mark.spec("MQ-187")),
    pytest.param(C.COMPUTER, 5202, VT_LPWSTR, ("x" * 19 + "$",), ("x" * 21,), marks=pytest.mark.spec("MQ-189")),
])
def test_other_classes_take_the_values_of_their_tables(
        object_class: ObjectClass, propid: int, vt: int, good: Any, bad: Any) -> None:
    for value in good:
        assert setting(propid, PropVariant(vt, value), object_class).accepted
    for value in bad:
        assert code_of(setting, propid, PropVariant(vt, value), object_class) == 0xC00E0018


@pytest.mark.spec("MQ-181")
def test_site_intervals_and_flags_are_those_of_the_document() -> None:
    assert (property_of(C.SITE, 305).default, property_of(C.SITE, 306).default) == (2, 10)
    for propid, vt in ((310, VarEnum.VT_UI2), (311, VarEnum.VT_UI1)):
        assert setting(propid, PropVariant(vt.value, 1), C.SITE).accepted
        assert code_of(setting, propid, PropVariant(vt.value, 2), C.SITE) == 0xC00E0018
    assert setting(312, PropVariant(VT_UI1, 9), C.SITE).statuses == (IGNORED,)


@pytest.mark.spec("MQ-173", "MQ-176", "MQ-177")
def test_this_queue_manager_is_a_plain_machine_that_is_not_windows() -> None:
    assert [property_of(C.MACHINE, propid).default for propid in (210, 219, 220)] == [0, 0, 0x100]


@pytest.mark.spec("MQ-175")
def test_a_machine_type_may_be_empty_and_the_old_form_is_known() -> None:
    assert setting(216, PropVariant(VT_LPWSTR, ""), C.MACHINE).accepted
    assert property_of(C.MACHINE, 216).default == ""
    assert is_old_machine_type("Windows NT 5.0 (Build 2195, x86) - MSMQ 2.0 (Build 711)")
    for other in ("", "Linux", "Windows NT 5.0 (Build 2195) - MSMQ 2.0 (Build 711)", "Windows NT 5.0"):
        assert not is_old_machine_type(other)


@pytest.mark.spec("MQ-179")
def test_machine_keys_are_key_sets_and_the_old_two_are_given_at_creation_only() -> None:
    keys = PropVariant(VT_BLOB, public_keys_to_bytes([MqDsPublicKey(1, "p", b"k")]))
    for propid in (238, 239):
        assert setting(propid, keys, C.MACHINE).accepted
    for propid in (1202, 1203):
        assert creating(propid, keys, C.MACHINE).accepted
        assert code_of(setting, propid, keys, C.MACHINE) == 0xC00E003E
        assert code_of(creating, propid, PropVariant(VT_BLOB, b"k"), C.MACHINE) == 0xC00E0018
    assert property_of(C.MACHINE, 238).name == "PROPID_QM_ENCRYPT_PKS"


@pytest.mark.spec("MQ-180")
def test_an_upgrade_request_is_taken_and_its_value_ignored() -> None:
    for blob in (b"", b"anything"):
        checked = setting(1205, PropVariant(VT_BLOB, blob), C.MACHINE)
        assert (checked.accepted, checked.statuses) == ({}, (IGNORED,))
    assert code_of(creating, 1205, PropVariant(VT_BLOB, b""), C.MACHINE) == 0xC00E003E
    assert creating(241, PropVariant(VT_BLOB, encode_sid(EVERYONE)), C.MACHINE).accepted
    assert code_of(creating, 241, PropVariant(VT_BLOB, b"x"), C.MACHINE) == 0xC00E0018
    for value, good in ((0, True), (1, True), (2, False)):
        variant = PropVariant(VT_UI1, value)
        assert (creating(242, variant, C.MACHINE).accepted if good
                else code_of(creating, 242, variant, C.MACHINE) == 0xC00E0018)


@pytest.mark.spec("MQ-183")
def test_reserved_enterprise_properties_are_dropped() -> None:
    reserved = {605, 606, 610, 611, 612, 613, 614, 615}
    dropped = {e.propid for e in PROPERTIES[C.ENTERPRISE].values() if e.status == IGNORED}
    assert dropped == reserved | {607, 608}


@pytest.mark.spec("MQ-184")
def test_enterprise_defaults_are_those_of_the_document() -> None:
    assert property_of(C.ENTERPRISE, 603).default == "Microsoft Enhanced RSA and AES Cryptographic Provider"
    assert property_of(C.ENTERPRISE, 602).default == 2
    assert property_of(C.ENTERPRISE, 616).default == 4 * 24 * 3600


@pytest.mark.spec("MQ-185")
def test_user_certificates_and_digests_have_their_forms() -> None:
    certificates = sign_certs_to_bytes([MqUserSignCert(GUID, b"der")])
    assert setting(702, PropVariant(VT_BLOB, certificates), C.USER).accepted
    assert code_of(setting, 702, PropVariant(VT_BLOB, b"der"), C.USER) == 0xC00E0018
    assert setting(705, PropVariant(VT_VECTOR | VT_CLSID, (GUID,)), C.USER).accepted


@pytest.mark.spec("MQ-204")
def test_partitions_and_sequence_numbers_are_accepted_and_not_stored() -> None:
    found = 0
    for object_class, table in PROPERTIES.items():
        for entry in table.values():
            if not entry.name.endswith(("_PARTITIONID", "_SEQNUM")) or object_class is C.DELETION_NOTIFICATION:
                continue
            found += 1
            variant = PropVariant(VT_BLOB, b"x") if entry.name.endswith("SEQNUM") else PropVariant(VT_CLSID, GUID)
            for action in (creating, setting):
                checked = action(entry.propid, variant, object_class)
                assert entry.propid not in checked.accepted
                assert checked.statuses[-1] == IGNORED
    assert found == 15


def test_management_and_deletion_properties_cannot_be_set() -> None:
    for object_class in (C.MANAGEMENT_MACHINE, C.MANAGEMENT_QUEUE, C.DELETION_NOTIFICATION):
        for propid in PROPERTIES[object_class]:
            assert code_of(setting, propid, NULL, object_class) == 0xC00E003E


@pytest.mark.spec("MQ-203")
def test_a_deletion_notice_names_its_scope_and_object_type() -> None:
    for propid, good in ((1403, range(2)), (1404, range(1, 9))):
        entry = property_of(C.DELETION_NOTIFICATION, propid)
        for value in range(12):
            if value in good:
                check_value(entry, PropVariant(VT_UI1, value))
            else:
                assert code_of(check_value, entry, PropVariant(VT_UI1, value)) == 0xC00E0018


def answer(object_class: ObjectClass, propid: int, vt: int, value: Any) -> None:
    check_value(property_of(object_class, propid), PropVariant(vt, value))


@pytest.mark.spec("MQ-192")
def test_the_directory_server_has_backslashes_or_is_null_and_the_connection_has_two_states() -> None:
    entry = property_of(C.MANAGEMENT_MACHINE, 3)
    check_value(entry, NULL)
    answer(C.MANAGEMENT_MACHINE, 3, VT_LPWSTR, "\\\\server")
    for bad in ("server", "\\\\", "\\server", "\\\\a,b"):
        assert code_of(answer, C.MANAGEMENT_MACHINE, 3, VT_LPWSTR, bad) == 0xC00E0018
    assert [str(state) for state in ConnectedState] == ["CONNECTED", "DISCONNECTED"]
    for state in ConnectedState:
        answer(C.MANAGEMENT_MACHINE, 4, VT_LPWSTR, state.value)
    assert code_of(answer, C.MANAGEMENT_MACHINE, 4, VT_LPWSTR, "connected") == 0xC00E0018
    answer(C.MANAGEMENT_MACHINE, 5, VT_LPWSTR, "")


@pytest.mark.spec("MQ-196")
@pytest.mark.parametrize(("propid", "enumeration", "strings"), [
    (3, QueueType, ["PUBLIC", "PRIVATE", "MACHINE", "CONNECTOR", "MULTICAST"]),
    (4, QueueLocation, ["LOCAL", "REMOTE"]), (5, ThreeValued, ["UNKNOWN", "YES", "NO"]),
    (6, ThreeValued, ["UNKNOWN", "YES", "NO"])])
def test_management_strings_are_upper_case_and_exact(propid: int, enumeration: Any, strings: Any) -> None:
    assert [str(member) for member in enumeration] == strings
    for text in strings:
        answer(C.MANAGEMENT_QUEUE, propid, VT_LPWSTR, text)
        assert code_of(answer, C.MANAGEMENT_QUEUE, propid, VT_LPWSTR, text.lower()) == 0xC00E0018


@pytest.mark.spec("MQ-197")
def test_an_outgoing_queue_has_the_nine_states() -> None:
    assert [str(state) for state in QueueState] == [
        "LOCAL CONNECTION", "INACTIVE", "WAITING", "NEED VALIDATION", "ONHOLD", "CONNECTED", "DISCONNECTING",
        "DISCONNECTED", "LOCKED"]
    for state in QueueState:
        answer(C.MANAGEMENT_QUEUE, 11, VT_LPWSTR, state.value)
    assert code_of(answer, C.MANAGEMENT_QUEUE, 11, VT_LPWSTR, "BROKEN") == 0xC00E0018


@pytest.mark.spec("MQ-198")
def test_next_hops_name_their_kind_of_address() -> None:
    hops = (next_hop(IPv4Address("10.0.0.1")), next_hop(IPv6Address("fe80::1")), next_hop(GUID))
    assert hops == ("IP=10.0.0.1", "IPv6=fe80::1", "FOREIGN=00112233-4455-6677-8899-AABBCCDDEEFF")
    answer(C.MANAGEMENT_QUEUE, 12, VT_VECTOR | VT_LPWSTR, hops)
    for bad in ("10.0.0.1", "IP=fe80::1", "IPv6=10.0.0.1", "ip=10.0.0.1", "IPv6=fe80::1%eth0", "FOREIGN=x", "IP=",
                None):
        assert code_of(answer, C.MANAGEMENT_QUEUE, 12, VT_VECTOR | VT_LPWSTR, (bad,)) == 0xC00E0018


@pytest.mark.spec("MQ-199")
@pytest.mark.parametrize("propid", [13, 16, 17, 18])
def test_positions_in_a_stream_are_sixteen_byte_blobs(propid: int) -> None:
    answer(C.MANAGEMENT_QUEUE, propid, VT_BLOB, SequenceInfo(1, 2, 3).to_bytes())
    for size in (0, 15, 17):
        assert code_of(answer, C.MANAGEMENT_QUEUE, propid, VT_BLOB, bytes(size)) == 0xC00E0018


@pytest.mark.spec("MQ-200")
def test_source_information_has_six_aligned_columns() -> None:
    types = (VT_LPWSTR, VT_CLSID, VT_UI8, VT_UI4, VT_I4, VT_UI4)
    two = [("a", "b"), (GUID, GUID), (1, 2), (1, 2), (1, 2), (0, 0)]
    columns = tuple(PropVariant(VT_VECTOR | vt, values) for vt, values in zip(types, two, strict=True))
    vt = VT_VECTOR | VT_VARIANT
    answer(C.MANAGEMENT_QUEUE, 24, vt, columns)
    for bad in (columns[:5], columns[::-1], (*columns[:5], PropVariant(VT_VECTOR | VT_UI4, (0,)))):
        assert code_of(answer, C.MANAGEMENT_QUEUE, 24, vt, bad) == 0xC00E0018


@pytest.mark.spec("MQ-201")
def test_the_connection_history_has_four_aligned_columns_and_known_statuses() -> None:
    hops = PropVariant(VT_VECTOR | VT_LPWSTR, ("10.0.0.1",))
    columns = (PropVariant(VT_VECTOR | VT_UI4, (0x80000004,)), PropVariant(VT_VECTOR | VT_I4, (1,)),
               PropVariant(VT_VECTOR | VT_I4, (-1,)), PropVariant(VT_VECTOR | VT_VARIANT, (hops,)))
    answer(C.MANAGEMENT_QUEUE, 25, VT_VECTOR | VT_VARIANT, columns)
    assert code_of(answer, C.MANAGEMENT_QUEUE, 25, VT_VECTOR | VT_VARIANT, columns[:3]) == 0xC00E0018
    assert {member.value for member in ConnectionStatus} == {0, 1, 2} | {0x80000000 + n for n in range(14)}
    assert (ConnectionStatus.CONNECT_SOCKET_FAILURE, ConnectionStatus.DNS_FAILURE) == (0x80000004, 0x80000008)
    assert (ConnectionStatus.CONNECTION_REFUSED, ConnectionStatus.LOW_MEMORY) == (0x8000000B, 0x8000000D)


@pytest.mark.spec("MQ-202")
def test_subqueues_are_a_number_and_strings() -> None:
    answer(C.MANAGEMENT_QUEUE, 26, VT_UI4, 2)
    answer(C.MANAGEMENT_QUEUE, 27, VT_VECTOR | VT_LPWSTR, ("a", "b"))
    assert code_of(answer, C.MANAGEMENT_QUEUE, 27, VT_VECTOR | VT_VARIANT, ()) == 0xC00E0019


def test_active_queues_are_format_names() -> None:
    answer(C.MANAGEMENT_MACHINE, 1, VT_VECTOR | VT_LPWSTR, ("DIRECT=OS:host\\private$\\q",))
    assert code_of(answer, C.MANAGEMENT_MACHINE, 1, VT_VECTOR | VT_LPWSTR, ("host\\q",)) == 0xC00E0018


def test_of_a_property_given_twice_the_first_counts() -> None:
    pairs = [(108, PropVariant(VT_LPWSTR, "first")), (105, PropVariant(VT_UI4, 1)), (108, PropVariant(VT_UI1, 9))]
    checked = check_properties(C.QUEUE, pairs, False)
    assert checked.statuses == (0, 0, 0x400E0005)
    assert checked.accepted[108].value == "first"
    assert check_set(C.QUEUE, pairs, False) == {108: 0x400E0005}


def test_takes_128_properties_and_refuses_129() -> None:
    pairs = [(105, PropVariant(VT_UI4, 1))] * MAX_PROPERTIES
    assert MAX_PROPERTIES == 128
    assert len(check_properties(C.QUEUE, pairs, False).statuses) == 128
    assert code_of(check_properties, C.QUEUE, [*pairs, pairs[0]], False) == 0xC00E009A
    assert code_of(check_get, C.QUEUE, [101] * 129) == 0xC00E009A


def test_a_bad_second_property_leaves_nothing_accepted() -> None:
    assert code_of(check_set, C.QUEUE, {105: PropVariant(VT_UI4, 1), 104: PropVariant(VT_UI1, 2)}, False) == 0xC00E0018


def test_a_query_takes_the_type_of_the_property_or_null() -> None:
    assert check_get(C.QUEUE, [105, 106], [VT_UI4, 1]) == (0, 0)
    assert code_of(check_get, C.QUEUE, [105], [VT_UI8]) == 0xC00E0019


def test_the_document_lists_the_tables_as_they_are() -> None:
    page = (ROOT / "docs/properties.md").read_text(encoding="utf-8")
    assert page == property_document.render(), "run tools/property_document.py docs/properties.md"
    for row in TRANSCRIBED:
        assert re.search(rf"^\| {row['propid']} \| {row['name']} \|", page, re.MULTILINE)


def test_a_rule_says_no_to_what_is_not_of_its_kind() -> None:
    for object_class, propid in ((C.QUEUE, 125), (C.MACHINE, 206), (C.MANAGEMENT_QUEUE, 12)):
        rule = property_of(object_class, propid).rule
        assert rule is not None
        assert code_of(rule.check, 7, "value") == 0xC00E0018
        assert rule.text
