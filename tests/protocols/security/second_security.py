"""A second reading of message security, for comparison: [MS-MQMQ] 2.5, [MS-MQQB] 2.4, RFC 8017.

It takes the bytes of a packet, reads them with the second packet decoder, and does RSA with plain integers; ciphers
and certificates are those of pycryptodomex, which is not what src/lior uses. Nothing here comes from src/lior.
"""

import hashlib
from typing import Any

from Cryptodome.Cipher import AES, ARC2, ARC4
from Cryptodome.PublicKey import RSA

from tests.wire import second_user_message

OIDS = {0x8003: "2a864886f70d0205", 0x8004: "2b0e03021a", 0x800C: "608648016503040201", 0x800E: "608648016503040203"}
HASHES = {0x8003: "md5", 0x8004: "sha1", 0x800C: "sha256", 0x800E: "sha512"}


def little(value: int, size: int) -> bytes:
    return bytes((value >> 8 * place) & 255 for place in range(size))


def words(values: list[int]) -> bytes:
    return b"".join(little(value, 2) for value in values)


def name_bytes(name: tuple[Any, ...]) -> bytes:
    """The packet's bytes of a queue name, without padding."""
    kind = name[0]
    if kind == 7:
        text = words([*name[1], 0])
        return little(len(text), 2) + text
    if kind in (2, 3, 4):
        return little(name[1], 4)
    if kind == 5:
        return bytes(name[1])
    return bytes(name[1]) + little(name[2], 4) if kind == 6 else b""


def list_bytes(elements: list[tuple[Any, ...]]) -> bytes:
    """FormatNameList, laid out from offset 12 of its header."""
    out = b""
    for element in elements:
        out += little(element[0], 2)
        boundary = 2 if element[0] == 3 else 4
        while (12 + len(out)) % boundary:
            out += b"\0"
        if element[0] == 3:
            out += words([*element[1], 0])
        else:
            out += bytes(element[1]) + (little(element[2], 4) if element[0] == 2 else b"")
    return out


def signed_bytes(packet: bytes, level: int, clear_body: bytes | None = None) -> bytes:
    """What is hashed: 2.5.1 for level 1, 2.5.2 for 3, 2.5.3 for 5."""
    m = second_user_message.decode(packet)
    body = m["body"] if clear_body is None else clear_body
    label = words([*m["label"], 0]) if m["label"] else b""
    out: bytes = (m["correlation_id"] + little(m["application_tag"], 4) + body + label
                  + name_bytes(m["response_queue"]) + name_bytes(m["admin_queue"]))
    if level == 1:
        return out
    if level == 5:
        out += m["extension"] + list_bytes(m["multi_queue"][0][0][1])
    flags = m["user_flags"]
    journal = 2 * (flags >> 9 & 1) + (flags >> 8 & 1)
    out += (m["source_queue_manager"] + little(flags >> 5 & 3, 1) + little(m["base_flags"] & 7, 1)
            + little(journal, 1) + little(m["ack_flags"] & 15, 1) + little(m["message_class"], 2)
            + little(m["body_type"], 4) + m.get("connector_type", bytes(16)))
    return out if level == 5 else out + name_bytes(m["destination_queue"])


def encoded(algorithm: int, data: bytes, size: int) -> bytes:
    """EMSA-PKCS1-v1_5 (RFC 8017 9.2)."""
    oid = bytes.fromhex(OIDS[algorithm])
    digest = hashlib.new(HASHES[algorithm], data).digest()
    identifier = bytes((6, len(oid))) + oid + b"\5\0"
    sequence = bytes((0x30, len(identifier))) + identifier + bytes((4, len(digest))) + digest
    info = bytes((0x30, len(sequence))) + sequence
    return b"\0\1" + b"\xff" * (size - len(info) - 3) + b"\0" + info


def verifies(signature: bytes, certificate: bytes, algorithm: int, data: bytes) -> bool:
    """A little-endian signature, under the key of a certificate in DER form."""
    key = RSA.import_key(certificate)
    size = (key.n.bit_length() + 7) // 8
    if len(signature) != size:
        return False
    number = pow(int.from_bytes(signature, "little"), int(key.e), int(key.n))
    return number.to_bytes(size, "big") == encoded(algorithm, data, size)


def signed(pem: bytes, algorithm: int, data: bytes) -> bytes:
    """A little-endian signature made with a private key."""
    key = RSA.import_key(pem)
    size = (key.n.bit_length() + 7) // 8
    return raw_signature(pem, encoded(algorithm, data, size))


def raw_signature(pem: bytes, block: bytes) -> bytes:
    key = RSA.import_key(pem)
    return pow(int.from_bytes(block, "big"), int(key.d), int(key.n)).to_bytes(len(block), "little")


# ---- encryption -----------------------------------------------------------------------------------------------------


def open_blob(blob: bytes, pem: bytes) -> tuple[int, bytes]:
    """Algorithm and session key of a SIMPLEBLOB (2.4.2; RSAES-PKCS1-v1_5, RFC 8017 7.2)."""
    assert blob[:4] == b"\1\2\0\0"
    assert blob[8:12] == b"\0\xa4\0\0"
    key = RSA.import_key(pem)
    size = (key.n.bit_length() + 7) // 8
    assert len(blob) == 12 + size
    block = pow(int.from_bytes(blob[12:], "little"), int(key.d), int(key.n)).to_bytes(size, "big")
    assert block[:2] == b"\0\2"
    end = block.index(0, 2)
    assert end >= 10
    return int.from_bytes(blob[4:8], "little"), block[end + 1 :]


def make_blob(algorithm: int, key: bytes, pem: bytes, *, kind: bytes = b"\0\2") -> bytes:
    public = RSA.import_key(pem)
    size = (public.n.bit_length() + 7) // 8
    block = kind + b"\x5a" * (size - len(key) - 3) + b"\0" + key
    number = pow(int.from_bytes(block, "big"), int(public.e), int(public.n))
    return b"\1\2\0\0" + little(algorithm, 4) + b"\0\xa4\0\0" + number.to_bytes(size, "little")


def cipher(algorithm: int, key: bytes) -> Any:
    if algorithm in (0x660E, 0x660F, 0x6610):
        assert len(key) == {0x660E: 16, 0x660F: 24, 0x6610: 32}[algorithm]
        return AES.new(key, AES.MODE_CBC, iv=bytes(16))
    key += bytes(16 - len(key))
    if algorithm == 0x6602:
        options: Any = {"iv": bytes(8), "effective_keylen": 128}
        return ARC2.new(key, ARC2.MODE_CBC, **options)
    return ARC4.new(key)


def enciphered(body: bytes, algorithm: int, key: bytes) -> bytes:
    if algorithm != 0x6801:
        block = 8 if algorithm == 0x6602 else 16
        count = block - len(body) % block
        body += bytes([count]) * count
    data: bytes = cipher(algorithm, key).encrypt(body)
    return data


def deciphered(data: bytes, algorithm: int, key: bytes) -> bytes:
    body: bytes = cipher(algorithm, key).decrypt(data)
    if algorithm == 0x6801:
        return body
    count = body[-1]
    assert body[-count:] == bytes([count]) * count
    return body[:-count]
