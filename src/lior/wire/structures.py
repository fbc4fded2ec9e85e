"""Small structures that stand by themselves in blobs and directories ([MS-MQMQ] 2.2.1, 2.2.4, 2.2.5, 2.2.18, 2.2.22).

Everything is little endian and packed. `from_bytes` takes exactly one structure and refuses what is left over.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address
from typing import Final, NamedTuple, Self
from uuid import UUID

from lior.errors import InvalidParameter, Malformed
from lior.message import ObjectId

PROV_RSA_FULL: Final = 0x00000001
PROV_RSA_AES: Final = 0x00000018
PROVIDER_TYPES: Final = (PROV_RSA_FULL, PROV_RSA_AES)
BASE_PROVIDER: Final = "Microsoft Base Cryptographic Provider v1.0"
ENHANCED_PROVIDER: Final = "Microsoft Enhanced Cryptographic Provider v1.0"
AES_PROVIDER: Final = "Microsoft Enhanced RSA and AES Cryptographic Provider"

CALG_RSA_SIGN: Final = 0x00002400
CALG_RSA_KEYX: Final = 0x0000A400
PUBLICKEYBLOB: Final = 6
CUR_BLOB_VERSION: Final = 2
RSA1: Final = 0x31415352  # bytes 52 53 41 31; the first is missing in one print of 2.2.20.6
MAX_KEY_BITS: Final = 16384

_PUBLIC_KEY: Final = struct.Struct("<BBHIIII")  # BLOBHEADER, then RSAPUBKEY: magic, bitlen, pubexp
_MQDSPUBLICKEY: Final = struct.Struct("<III")  # ulKeyLen, ulProviderLen, ulProviderType
_MQDSPUBLICKEYS: Final = struct.Struct("<II")  # ulLen, cNumofKeys
_TA_ADDRESS: Final = struct.Struct("<HH")  # AddressLength, AddressType
_SEQUENCE_INFO: Final = struct.Struct("<qII")
_SIGN_CERT: Final = struct.Struct("<16s16sI")
_U32: Final = struct.Struct("<I")


def _malformed(where: str, what: str) -> Malformed:
    return Malformed(what, where=where, remedy="the bytes were cut or come from something else")


def _slice(data: bytes, at: int, count: int, where: str) -> bytes:
    if count > len(data) - at:
        raise _malformed(where, f"{count} bytes announced at offset {at}, {max(len(data) - at, 0)} left")
    return data[at:at + count]


# ---- public keys ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RsaPublicKey:
    """A PUBLICKEYBLOB: BLOBHEADER, RSAPUBKEY and the modulus ([MS-MQMQ] 2.2.1 and 2.2.20.6).

    The diagram in 2.2.20.6 shows one reserved byte; BLOBHEADER ([MS-MQDS] 2.2.19) has two, as does every key blob.
    """

    modulus: int
    public_exponent: int
    algorithm: int = CALG_RSA_KEYX
    bit_length: int = 0  # 0: as long as the modulus, rounded up to whole bytes

    def to_bytes(self) -> bytes:
        bits = self.bit_length or -(-self.modulus.bit_length() // 8) * 8
        if not 0 < self.modulus.bit_length() <= bits <= MAX_KEY_BITS or not 0 < self.public_exponent <= 0xFFFFFFFF:
            raise InvalidParameter(f"no RSA key of {bits} bits with these numbers", where="PUBLICKEYBLOB")
        head = _PUBLIC_KEY.pack(PUBLICKEYBLOB, CUR_BLOB_VERSION, 0, self.algorithm, RSA1, bits, self.public_exponent)
        return head + self.modulus.to_bytes(-(-bits // 8), "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        where = "PUBLICKEYBLOB"
        kind, version, _, algorithm, magic, bits, exponent = _PUBLIC_KEY.unpack(
            _slice(data, 0, _PUBLIC_KEY.size, where))
        if kind != PUBLICKEYBLOB or version != CUR_BLOB_VERSION or magic != RSA1:
            raise _malformed(where, f"type {kind}, version {version}, magic 0x{magic:08X} are not those of an RSA key")
        if algorithm not in (CALG_RSA_SIGN, CALG_RSA_KEYX):
            raise _malformed(where, f"key type 0x{algorithm:08X}")
        if not 0 < bits <= MAX_KEY_BITS or not exponent:
            raise _malformed(where, f"{bits} bits, exponent {exponent}")
        size = -(-bits // 8)
        modulus = int.from_bytes(_slice(data, _PUBLIC_KEY.size, size, where), "little")
        if not modulus or modulus.bit_length() > bits or any(data[_PUBLIC_KEY.size + size:]):
            raise _malformed(where, f"modulus is not one of {bits} bits")
        return cls(modulus, exponent, algorithm, bits)


@dataclass(frozen=True, slots=True)
class MqDsPublicKey:
    """MQDSPUBLICKEY ([MS-MQMQ] 2.2.1): a key and the provider that made it."""

    provider_type: int
    provider_name: str
    key_blob: bytes  # aBuf: a PUBLICKEYBLOB

    @property
    def key(self) -> RsaPublicKey:
        return RsaPublicKey.from_bytes(self.key_blob)

    def to_bytes(self) -> bytes:
        if self.provider_type not in PROVIDER_TYPES:
            raise InvalidParameter(f"provider type 0x{self.provider_type:08X}", where="MQDSPUBLICKEY",
                                   remedy="use PROV_RSA_FULL (1) or PROV_RSA_AES (0x18)")
        try:
            name = self.provider_name.encode("utf-16-le") + b"\0\0"
        except UnicodeEncodeError:
            raise InvalidParameter("provider name is not UTF-16", where="MQDSPUBLICKEY") from None
        if "\0" in self.provider_name:
            raise InvalidParameter("provider name with a NUL", where="MQDSPUBLICKEY")
        return _MQDSPUBLICKEY.pack(len(self.key_blob), len(name), self.provider_type) + name + self.key_blob

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        key, end = cls._read(data, 0)
        if end != len(data):
            raise _malformed("MQDSPUBLICKEY", f"{len(data) - end} bytes too many")
        return key

    @classmethod
    def _read(cls, data: bytes, at: int) -> tuple[Self, int]:
        where = "MQDSPUBLICKEY"
        key_size, name_size, provider_type = _MQDSPUBLICKEY.unpack(_slice(data, at, _MQDSPUBLICKEY.size, where))
        at += _MQDSPUBLICKEY.size
        try:
            name = _slice(data, at, name_size, where).decode("utf-16-le")
        except UnicodeDecodeError:
            raise _malformed(where, "provider name is not UTF-16") from None
        if name.find("\0") != len(name) - 1 or not name:
            raise _malformed(where, "provider name without a single terminator at its end")
        at += name_size
        return cls(provider_type, name[:-1], _slice(data, at, key_size, where)), at + key_size


def public_keys_to_bytes(keys: Sequence[MqDsPublicKey]) -> bytes:
    """MQDSPUBLICKEYS ([MS-MQMQ] 2.2.2)."""
    body = b"".join([key.to_bytes() for key in keys])
    return _MQDSPUBLICKEYS.pack(_MQDSPUBLICKEYS.size + len(body), len(keys)) + body


def public_keys_from_bytes(data: bytes) -> tuple[MqDsPublicKey, ...]:
    """The keys of an MQDSPUBLICKEYS whose provider type 2.2.1 knows; a key of another provider is of no use here."""
    where = "MQDSPUBLICKEYS"
    size, count = _MQDSPUBLICKEYS.unpack(_slice(data, 0, _MQDSPUBLICKEYS.size, where))
    if size != len(data):
        raise _malformed(where, f"ulLen {size} in a structure of {len(data)} bytes")
    at = _MQDSPUBLICKEYS.size
    if count > (len(data) - at) // _MQDSPUBLICKEY.size:
        raise _malformed(where, f"{count} keys in {len(data) - at} bytes")
    keys: list[MqDsPublicKey] = []
    for _ in range(count):
        key, at = MqDsPublicKey._read(data, at)
        if key.provider_type in PROVIDER_TYPES:
            keys.append(key)
    if at != len(data):
        raise _malformed(where, f"{len(data) - at} bytes behind the last key")
    return tuple(keys)


# ---- addresses ------------------------------------------------------------------------------------------------------


class AddressType(IntEnum):
    """[MS-MQMQ] 2.2.4"""

    IP = 0x0001
    IP_RAS = 0x0002
    IPX = 0x0003
    FOREIGN = 0x0005


ADDRESS_LENGTHS: Final[dict[int, int]] = {
    AddressType.IP: 4, AddressType.IP_RAS: 4, AddressType.IPX: 10, AddressType.FOREIGN: 16}


@dataclass(frozen=True, slots=True)
class TaAddress:
    """TA_ADDRESS ([MS-MQMQ] 2.2.4). An IP address is its octets in the order in which they are spoken."""

    address_type: int
    address: bytes

    @classmethod
    def of_ip(cls, address: IPv4Address) -> Self:
        return cls(AddressType.IP.value, address.packed)

    def __str__(self) -> str:
        if self.address_type in (AddressType.IP, AddressType.IP_RAS):
            return str(IPv4Address(self.address))
        if self.address_type == AddressType.FOREIGN:
            return str(UUID(bytes_le=self.address)).upper()
        return f"{self.address[:4].hex().upper()}.{self.address[4:].hex().upper()}"

    def to_bytes(self) -> bytes:
        if ADDRESS_LENGTHS.get(self.address_type) != len(self.address):
            raise InvalidParameter(f"{len(self.address)} bytes are no address of type {self.address_type}",
                                   where="TA_ADDRESS")
        return _TA_ADDRESS.pack(len(self.address), self.address_type) + self.address


def addresses_to_bytes(addresses: Sequence[TaAddress]) -> bytes:
    """The packed array of PROPID_QM_ADDRESS ([MS-MQMQ] 2.3.2.5)."""
    return b"".join([address.to_bytes() for address in addresses])


def addresses_from_bytes(data: bytes) -> tuple[TaAddress, ...]:
    addresses: list[TaAddress] = []
    at = 0
    while at < len(data):
        length, address_type = _TA_ADDRESS.unpack(_slice(data, at, _TA_ADDRESS.size, "TA_ADDRESS"))
        at += _TA_ADDRESS.size
        if ADDRESS_LENGTHS.get(address_type) != length:
            raise _malformed("TA_ADDRESS", f"length {length} for an address of type {address_type}")
        addresses.append(TaAddress(address_type, _slice(data, at, length, "TA_ADDRESS")))
        at += length
    return tuple(addresses)


# ---- sequences and identifiers --------------------------------------------------------------------------------------


class SequenceInfo(NamedTuple):
    """SEQUENCE_INFO ([MS-MQMQ] 2.2.5), the same bytes in the IDL form and in the management blobs."""

    seq_id: int  # signed here, a TxSequenceID everywhere else
    seq_no: int
    prev_no: int

    def to_bytes(self) -> bytes:
        try:
            return _SEQUENCE_INFO.pack(*self)
        except struct.error:
            raise InvalidParameter(f"{tuple(self)} does not fit the fields", where="SEQUENCE_INFO") from None

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        if len(data) != _SEQUENCE_INFO.size:
            raise _malformed("SEQUENCE_INFO", f"{len(data)} bytes where 16 belong")
        return cls(*_SEQUENCE_INFO.unpack(data))


class TxSequenceId(NamedTuple):
    """TxSequenceID ([MS-MQMQ] 2.2.18.1.2). Compares as the 64-bit number does: the timestamp first."""

    time_stamp: int
    ordinal: int

    def __int__(self) -> int:
        return self.time_stamp << 32 | self.ordinal

    @classmethod
    def of_int(cls, value: int) -> Self:
        return cls(value >> 32 & 0xFFFFFFFF, value & 0xFFFFFFFF)

    def to_bytes(self) -> bytes:
        if not (0 <= self.time_stamp <= 0xFFFFFFFF and 0 <= self.ordinal <= 0xFFFFFFFF):
            raise InvalidParameter(f"{tuple(self)} does not fit the fields", where="TxSequenceID")
        return int(self).to_bytes(8, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        if len(data) != 8:
            raise _malformed("TxSequenceID", f"{len(data)} bytes where 8 belong")
        return cls.of_int(int.from_bytes(data, "little"))


def object_id_to_bytes(value: ObjectId) -> bytes:
    """OBJECTID ([MS-MQMQ] 2.2.8), which is also the MessageIdentifier of 2.2.18.1.3."""
    if not 0 <= value.uniquifier <= 0xFFFFFFFF:
        raise InvalidParameter(f"uniquifier {value.uniquifier} is not 32 bits", where="OBJECTID")
    return value.to_bytes()


def object_id_from_bytes(data: bytes) -> ObjectId:
    if len(data) != 20:
        raise _malformed("OBJECTID", f"{len(data)} bytes where 20 belong")
    return ObjectId.from_bytes(data)


# ---- certificates of users ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MqUserSignCert:
    """MQUSERSIGNCERT ([MS-MQMQ] 2.2.22)."""

    identifier: UUID  # chosen by whoever registers the certificate
    certificate: bytes  # DER

    @property
    def digest(self) -> bytes:
        """MD5 because the structure says so; it is a name here, never evidence."""
        return hashlib.md5(self.certificate, usedforsecurity=False).digest()

    def to_bytes(self) -> bytes:
        return _SIGN_CERT.pack(self.digest, self.identifier.bytes_le, len(self.certificate)) + self.certificate


def sign_certs_to_bytes(certificates: Sequence[MqUserSignCert]) -> bytes:
    """MQUSERSIGNCERTS ([MS-MQMQ] 2.2.21)."""
    return _U32.pack(len(certificates)) + b"".join([certificate.to_bytes() for certificate in certificates])


def sign_certs_from_bytes(data: bytes) -> tuple[MqUserSignCert, ...]:
    where = "MQUSERSIGNCERTS"
    count = _U32.unpack(_slice(data, 0, 4, where))[0]
    at = 4
    if count > (len(data) - at) // _SIGN_CERT.size:
        raise _malformed(where, f"{count} certificates in {len(data) - at} bytes")
    certificates: list[MqUserSignCert] = []
    for _ in range(count):
        digest, identifier, length = _SIGN_CERT.unpack(_slice(data, at, _SIGN_CERT.size, where))
        at += _SIGN_CERT.size
        certificate = MqUserSignCert(UUID(bytes_le=identifier), _slice(data, at, length, where))
        if certificate.digest != digest:
            raise _malformed(where, "digest is not that of the certificate")
        certificates.append(certificate)
        at += length
    if at != len(data):
        raise _malformed(where, f"{len(data) - at} bytes behind the last certificate")
    return tuple(certificates)
