"""Keys, addresses, sequences and certificates: hand-written bytes, and the cryptography package as the other reader."""

import hashlib
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Address
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from lior.errors import InvalidParameter, Malformed
from lior.message import ObjectId
from lior.wire.structures import (
    AES_PROVIDER,
    BASE_PROVIDER,
    CALG_RSA_KEYX,
    CALG_RSA_SIGN,
    ENHANCED_PROVIDER,
    PROV_RSA_AES,
    PROV_RSA_FULL,
    MqDsPublicKey,
    MqUserSignCert,
    RsaPublicKey,
    SequenceInfo,
    TaAddress,
    TxSequenceId,
    addresses_from_bytes,
    addresses_to_bytes,
    object_id_from_bytes,
    object_id_to_bytes,
    public_keys_from_bytes,
    public_keys_to_bytes,
    sign_certs_from_bytes,
    sign_certs_to_bytes,
)

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
GUID_HEX = "33221100 5544 7766 8899aabbccddeeff"
SMALL_KEY = bytes.fromhex("06 02 0000 00a40000 52534131 20000000 01000100 efbeadde")  # 32 bits: 0xdeadbeef


@pytest.fixture(scope="module")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=1024)


@pytest.fixture(scope="module")
def certificate(private_key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sender")])
    return (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private_key.public_key())
            .serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
            .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC)).sign(private_key, hashes.SHA256()))


def blob_numbers(blob: bytes) -> tuple[int, int, int, int]:
    """A PUBLICKEYBLOB read by the layout of BLOBHEADER and RSAPUBKEY: algorithm, bits, exponent, modulus."""
    assert blob[:4] == b"\x06\x02\0\0"
    assert blob[8:12] == b"RSA1"
    algorithm, bits, exponent = (int.from_bytes(blob[at:at + 4], "little") for at in (4, 12, 16))
    return algorithm, bits, exponent, sum(octet << 8 * index for index, octet in enumerate(blob[20:]))


def ds_key(blob: bytes=SMALL_KEY, name: str=BASE_PROVIDER, kind: int=PROV_RSA_FULL) -> MqDsPublicKey:
    return MqDsPublicKey(kind, name, blob)


def all_cuts_are_malformed(data: bytes, parse: Callable[[bytes], object], good: tuple[int, ...]=()) -> None:
    for cut in range(len(data)):
        if cut not in good:
            with pytest.raises(Malformed):
                parse(data[:cut])


@pytest.mark.spec("MQ-024")
def test_a_directory_key_is_three_numbers_a_name_and_the_key() -> None:
    data = ds_key(name="ab").to_bytes()
    assert data == bytes.fromhex("18000000 06000000 01000000 6100 6200 0000") + SMALL_KEY
    assert MqDsPublicKey.from_bytes(data) == ds_key(name="ab")
    all_cuts_are_malformed(data, MqDsPublicKey.from_bytes)
    with pytest.raises(Malformed):
        MqDsPublicKey.from_bytes(data + b"\0")


@pytest.mark.spec("MQ-024")
@pytest.mark.parametrize("name", [BASE_PROVIDER, ENHANCED_PROVIDER, AES_PROVIDER])
def test_the_size_of_a_directory_key_is_the_sum_of_its_parts(name: str) -> None:
    data = ds_key(name=name).to_bytes()
    key_size, name_size, _ = struct.unpack_from("<III", data)
    assert name_size == 2 * (len(name) + 1)
    assert len(data) == 12 + name_size + key_size
    assert MqDsPublicKey.from_bytes(data).provider_name == name


@pytest.mark.parametrize("name", ["", "61000000 0000", "6100", "610062", "00d80000"])
def test_refuses_a_provider_name_without_one_terminator(name: str) -> None:
    raw = bytes.fromhex(name)
    with pytest.raises(Malformed):
        MqDsPublicKey.from_bytes(struct.pack("<III", 0, len(raw), 1) + raw)


@pytest.mark.spec("MQ-025")
def test_an_unknown_provider_type_is_not_written_and_is_skipped_when_read() -> None:
    assert (PROV_RSA_FULL, PROV_RSA_AES) == (0x01, 0x18)
    with pytest.raises(InvalidParameter):
        ds_key(kind=2).to_bytes()
    good = ds_key(kind=PROV_RSA_AES)
    strange = good.to_bytes()[:8] + b"\x0d\0\0\0" + good.to_bytes()[12:]
    body = ds_key().to_bytes() + strange + good.to_bytes()
    assert public_keys_from_bytes(struct.pack("<II", 8 + len(body), 3) + body) == (ds_key(), good)


@pytest.mark.spec("MQ-026", "MQ-135")
@pytest.mark.parametrize("algorithm", [CALG_RSA_KEYX, CALG_RSA_SIGN])
def test_a_key_blob_carries_the_numbers_of_a_real_key(private_key: rsa.RSAPrivateKey, algorithm: int) -> None:
    numbers = private_key.public_key().public_numbers()
    blob = RsaPublicKey(numbers.n, numbers.e, algorithm).to_bytes()
    assert blob_numbers(blob) == (algorithm, 1024, numbers.e, numbers.n)
    assert len(blob) == 20 + 128
    again = RsaPublicKey.from_bytes(blob)
    assert rsa.RSAPublicNumbers(again.public_exponent, again.modulus).public_key().key_size == 1024


@pytest.mark.spec("MQ-026", "MQ-135")
def test_a_key_blob_is_as_written_out_by_hand() -> None:
    assert (CALG_RSA_SIGN, CALG_RSA_KEYX) == (0x2400, 0xA400)
    assert RsaPublicKey.from_bytes(SMALL_KEY) == RsaPublicKey(0xDEADBEEF, 65537, CALG_RSA_KEYX, 32)
    assert RsaPublicKey(0xDEADBEEF, 65537).to_bytes() == SMALL_KEY
    assert RsaPublicKey(0x1FF, 3).to_bytes()[12:] == bytes.fromhex("10000000 03000000 ff01")  # padded to whole bytes
    all_cuts_are_malformed(SMALL_KEY, RsaPublicKey.from_bytes)


@pytest.mark.spec("MQ-026", "MQ-135")
@pytest.mark.parametrize(("at", "octet"), [(0, 7), (1, 3), (4, 1), (8, 0x53), (11, 0x32), (13, 0xFF), (15, 1)])
def test_refuses_a_key_blob_with_a_wrong_constant(at: int, octet: int) -> None:
    broken = bytearray(SMALL_KEY)
    broken[at] = octet
    with pytest.raises(Malformed):
        RsaPublicKey.from_bytes(bytes(broken))


def test_refuses_a_key_whose_numbers_are_none() -> None:
    for blob in (SMALL_KEY[:16] + bytes(4) + SMALL_KEY[20:], SMALL_KEY[:20] + bytes(4), SMALL_KEY + b"\1"):
        with pytest.raises(Malformed):
            RsaPublicKey.from_bytes(blob)
    for key in (RsaPublicKey(0, 3), RsaPublicKey(5, 0), RsaPublicKey(5, 1 << 32), RsaPublicKey(0x1FF, 3, bit_length=8)):
        with pytest.raises(InvalidParameter):
            key.to_bytes()


@pytest.mark.spec("MQ-027")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_set_of_keys_is_packed_behind_its_size_and_count(count: int) -> None:
    keys = (ds_key(name="a"), ds_key(name=AES_PROVIDER, kind=PROV_RSA_AES), ds_key(blob=b""))[:count]
    data = public_keys_to_bytes(keys)
    assert data == struct.pack("<II", len(data), count) + b"".join(key.to_bytes() for key in keys)
    assert public_keys_from_bytes(data) == keys
    all_cuts_are_malformed(data, public_keys_from_bytes)


@pytest.mark.spec("MQ-027")
def test_refuses_a_set_of_keys_whose_size_or_count_is_wrong() -> None:
    body = ds_key().to_bytes()
    for size, count in ((7 + len(body), 1), (8 + len(body), 2), (8 + len(body), 0), (8 + len(body), 0xFFFFFFFF)):
        with pytest.raises(Malformed):
            public_keys_from_bytes(struct.pack("<II", size, count) + body)
    assert ds_key().key == RsaPublicKey(0xDEADBEEF, 65537, CALG_RSA_KEYX, 32)


@pytest.mark.spec("MQ-029")
def test_addresses_are_packed_one_behind_the_other() -> None:
    addresses = (TaAddress.of_ip(IPv4Address("10.1.2.3")), TaAddress(3, bytes(range(10))), TaAddress(5, GUID.bytes_le),
                 TaAddress(2, b"\x7f\0\0\1"))
    data = bytes.fromhex(f"0400 0100 0a010203 0a00 0300 00010203040506070809 1000 0500 {GUID_HEX} 0400 0200 7f000001")
    assert addresses_to_bytes(addresses) == data
    assert addresses_from_bytes(data) == addresses
    all_cuts_are_malformed(data, addresses_from_bytes, good=(0, 8, 22, 42))
    assert [str(address) for address in addresses] == [
        "10.1.2.3", "00010203.040506070809", "00112233-4455-6677-8899-AABBCCDDEEFF", "127.0.0.1"]


@pytest.mark.spec("MQ-029")
@pytest.mark.parametrize(("kind", "length"), [(1, 16), (2, 10), (3, 4), (5, 4), (4, 4), (0, 4), (1, 0), (6, 16)])
def test_refuses_an_address_of_a_wrong_length_or_kind(kind: int, length: int) -> None:
    with pytest.raises(Malformed):
        addresses_from_bytes(struct.pack("<HH", length, kind) + bytes(length))
    with pytest.raises(InvalidParameter):
        TaAddress(kind, bytes(length)).to_bytes()


@pytest.mark.spec("MQ-030", "MQ-002")
def test_a_sequence_is_sixteen_bytes_little_endian() -> None:
    info = SequenceInfo(-2, 0x01020304, 5)
    assert info.to_bytes() == bytes.fromhex("feffffffffffffff 04030201 05000000")
    assert SequenceInfo.from_bytes(info.to_bytes()) == info
    for size in (0, 15, 17):
        with pytest.raises(Malformed):
            SequenceInfo.from_bytes(bytes(size))
    with pytest.raises(InvalidParameter):
        SequenceInfo(0, -1, 0).to_bytes()


@pytest.mark.spec("MQ-057", "MQ-002")
def test_a_transaction_sequence_compares_its_timestamp_first() -> None:
    assert TxSequenceId(1, 5) < TxSequenceId(2, 0)
    assert TxSequenceId(1, 5).to_bytes() == bytes.fromhex("05000000 01000000")
    assert TxSequenceId.from_bytes(bytes.fromhex("05000000 01000000")) == TxSequenceId(time_stamp=1, ordinal=5)
    values = [TxSequenceId(stamp, ordinal) for stamp in (0, 1, 0xFFFFFFFF) for ordinal in (0, 1, 0xFFFFFFFF)]
    by_number = sorted(values, key=lambda value: int.from_bytes(value.to_bytes(), "little"))
    assert sorted(values) == by_number == [TxSequenceId.of_int(int(value)) for value in by_number]
    for broken in (TxSequenceId(1 << 32, 0), TxSequenceId(0, -1)):
        with pytest.raises(InvalidParameter):
            broken.to_bytes()
    with pytest.raises(Malformed):
        TxSequenceId.from_bytes(bytes(7))


@pytest.mark.spec("MQ-038", "MQ-058", "MQ-002")
def test_a_message_identifier_is_the_senders_guid_and_a_number() -> None:
    identifier = ObjectId(GUID, 0x01020304)
    assert object_id_to_bytes(identifier) == bytes.fromhex(f"{GUID_HEX} 04030201")
    assert object_id_from_bytes(object_id_to_bytes(identifier)) == identifier
    for size in (0, 19, 21):
        with pytest.raises(Malformed):
            object_id_from_bytes(bytes(size))
    with pytest.raises(InvalidParameter):
        object_id_to_bytes(ObjectId(GUID, 1 << 32))


@pytest.mark.spec("MQ-141", "MQ-142")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_user_certificates_are_packed_behind_their_count(certificate: x509.Certificate, count: int) -> None:
    der = certificate.public_bytes(Encoding.DER)
    certificates = (MqUserSignCert(GUID, der), MqUserSignCert(UUID(int=1), b"other"))[:count]
    data = sign_certs_to_bytes(certificates)
    expected = struct.pack("<I", count) + b"".join(
        hashlib.new("md5", cert.certificate).digest() + cert.identifier.bytes_le
        + struct.pack("<I", len(cert.certificate)) + cert.certificate for cert in certificates)
    assert data == expected
    read = sign_certs_from_bytes(data)
    assert read == certificates
    if count:
        assert x509.load_der_x509_certificate(read[0].certificate) == certificate
        assert read[0].digest == certificate.fingerprint(hashes.MD5())
    all_cuts_are_malformed(data, sign_certs_from_bytes)


@pytest.mark.spec("MQ-142")
def test_refuses_a_certificate_whose_digest_is_another() -> None:
    data = bytearray(sign_certs_to_bytes([MqUserSignCert(GUID, b"der")]))
    data[4] ^= 1
    with pytest.raises(Malformed):
        sign_certs_from_bytes(bytes(data))


@pytest.mark.spec("MQ-141")
def test_refuses_more_certificates_than_there_is_room_for() -> None:
    data = sign_certs_to_bytes([MqUserSignCert(GUID, b"der")])
    for count in (0, 2, 0xFFFFFFFF):
        with pytest.raises(Malformed):
            sign_certs_from_bytes(struct.pack("<I", count) + data[4:])


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_refuses_to_write_a_provider_name_that_the_structure_cannot_hold(name: str) -> None:
    with pytest.raises(InvalidParameter):
        ds_key(name=name).to_bytes()
