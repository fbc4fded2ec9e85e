"""Fuzz target: packets before the guard. Each ends in a class, and only who signed it gets into a queue that asks."""

from contextlib import suppress
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from lior.errors import LiorError, Malformed
from lior.protocols.security.encryption import ADVANCED, BASE, ENHANCED, choose, decrypt_body, unwrap_key
from lior.protocols.security.policy import SecurityPolicy
from lior.protocols.security.signing import read_certificate
from lior.security import Sid
from lior.server.transfer_security import Guard, SecurityFiles
from lior.testing.engine import ManualEngine
from lior.wire.headers import AS_MASK, AU
from lior.wire.structures import public_keys_from_bytes
from lior.wire.user_message import UserMessage

# The key that the corpus was signed with and encrypted for. It protects nothing.
PEM = b"""-----BEGIN PRIVATE KEY-----
MIIBVAIBADANBgkqhkiG9w0BAQEFAASCAT4wggE6AgEAAkEAxl4mNEbTk0e1ckmX
ylJR+CTJEMQcfoWB6cs4OBFO5Xt/wflunkl/SQ7FoV6lTCYndTP3DGYFD6JVdbRJ
mzKwVQIDAQABAkBbwGZ5XZ01DUD+2M1Ntp/VX+ZkS+FGICiD5Axf2pmciJ3rRZS2
nXZigJk6skHRBlshi+JY+C1ezv1hBCFXuR7NAiEA/0lYrV/vhJiNHgK0dYHSmTSs
hEN1xnKgdFeNvz2c3lsCIQDG7BQOvmNT/3x/O3RlDU3R7tJKc6d4IBl3HQGSnidL
DwIhANA/L9R2XvemTe9+O2Fj3rzViCl4slmI5jUhuuKXSyDjAiBaU5LcCwnRd57R
q260ADGJFVf6JMAz5OeLVemD6TrQcwIgWuhSusoEl+m9l11pSaLqJdTEVDEbLG4r
//aBSCAej5g=
-----END PRIVATE KEY-----
"""
CLASSES = {0, 0x8004, 0x8006, 0x8007, 0x800B}
POLICY = SecurityPolicy(allow_md5=True, allow_rc2=True, allow_rc4=True, allow_40_bit_keys=True,
                        minimum_signature_bits=512, check_certificate_dates=False)
SIGNER = Sid.parse("S-1-5-21-1-2-3-1001")


def own_key() -> rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key(PEM, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


KEY = own_key()


def certificate() -> bytes:
    """The same bytes every time: the signature of PKCS#1 v1.5 has nothing random in it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fuzz")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    made = builder.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC)).sign(KEY, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


ENGINE = ManualEngine()
OPEN = ENGINE.create(r".\private$\open")
SIGNED = ENGINE.create(r".\private$\signed", authentication=True)
SECRET = ENGINE.create(r".\private$\secret", privacy_level=2)
FILES = SecurityFiles(None, POLICY, generate=lambda bits: KEY)
FILES.certificates.register(SIGNER, certificate())
FILES.keys.public()
GUARD = Guard(ENGINE.manager, FILES, wall=lambda: 0.0, entropy=bytes)


def target(data: bytes) -> None:
    read_certificate(data)
    for provider, algorithm in ((ADVANCED, 0x6610), (ENHANCED, 0x6602), (BASE, 0x6801)):
        key, _ = unwrap_key(data, algorithm, provider, KEY, bytes(32))
        decrypt_body(data, algorithm, key)
    with suppress(LiorError):
        choose(1, public_keys_from_bytes(data), POLICY)
    if len(data) >= 12 and data[:1] == b"\x01":  # let the length be right, or nothing gets past it
        data = b"\x10" + data[1:4] + b"LIOR" + (len(data) - (16 if data[2] & 0x10 else 0)).to_bytes(
            4, "little", signed=True) + data[12:]
    for queue in (OPEN, SIGNED, SECRET):
        try:
            packet = UserMessage.decode(data)
        except Malformed:
            return
        checked = GUARD.check(packet, queue, 0.0)
        assert checked.refused in CLASSES
        assert packet.security is None or not packet.security.header.flags & (AU | AS_MASK)
        assert not checked.authentication_level or checked.caller.sid == SIGNER
        if checked.refused:
            assert checked.body is None
        elif queue is SIGNED:
            assert checked.authentication_level
        elif queue is SECRET:
            assert checked.body is not None


if __name__ == "__main__":
    from harness import run

    run(target)
