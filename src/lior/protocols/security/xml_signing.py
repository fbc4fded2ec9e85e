"""XML signatures of SRMP messages ([MC-MQSRM] 2.2.7, 3.1.5.1.6.1, 3.1.7.2.4).

What is signed are the octets of SignedInfo as they stand in the envelope: a draft of XML signatures is meant, and no
canonical form is named. SignedInfo has digests of body and extension, so nothing else of the message is protected.
512 bits of signature are DSA with a q of 256 bits; an RSA signature under the same label is taken when that is allowed.
See docs/spec-notes.md, SR-089 to SR-093.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5, sha1
from hmac import compare_digest
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, padding, rsa, utils

from lior.errors import HRESULTS, error_from_code
from lior.message import HashAlgorithm
from lior.wire.headers import MAX_SENDER_CERT_SIZE
from lior.wire.srmp_elements import SIGNATURE
from lior.wire.strict_xml import Element

PrivateKey = dsa.DSAPrivateKey | rsa.RSAPrivateKey
PublicKey = dsa.DSAPublicKey | rsa.RSAPublicKey

Q_BITS: Final = 256
HALF: Final = Q_BITS // 8
LEAST_RSA_BITS: Final = 1024
MOST_KEY_BITS: Final = 4096
DSA_METHOD: Final = SIGNATURE + "dsa"
SHA1_METHOD: Final = SIGNATURE + "sha1"
MD5_METHOD: Final = SIGNATURE + "md5"
KINDS: Final = ("body", "extension")
_NO_NAMESPACE: Final = ""


@dataclass(frozen=True, slots=True)
class XmlCertificate:
    """What verification needs of a certificate (times in seconds since 1970, UTC)."""

    key: PublicKey
    not_before: float
    not_after: float

    def valid_at(self, wall: float) -> bool:
        return self.not_before <= wall <= self.not_after


def read_xml_certificate(der: bytes) -> XmlCertificate | None:
    """None for what is no X.509 certificate of a usable key: DSA with a q of 256 bits, or RSA."""
    if not 0 < len(der) <= MAX_SENDER_CERT_SIZE:
        return None
    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key()
        if not isinstance(key, dsa.DSAPublicKey | rsa.RSAPublicKey) or not _is_usable(key):
            return None
        return XmlCertificate(
            key, certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())
    except (ValueError, TypeError, OverflowError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None


def _is_usable(key: PublicKey) -> bool:
    if isinstance(key, rsa.RSAPublicKey):
        return LEAST_RSA_BITS <= key.key_size <= MOST_KEY_BITS
    return key.parameters().parameter_numbers().q.bit_length() == Q_BITS and key.key_size <= MOST_KEY_BITS


# ---- made -----------------------------------------------------------------------------------------------------------


def write_signature(
    body: bytes, extension: bytes, queue_manager: str, key: PrivateKey, hash_algorithm: int, certificate: bytes = b""
) -> str:
    """The element Signature, in the strings of 3.1.7.2.4. A certificate goes into a KeyInfo, which the document does
    not have: it is for receivers that have not registered it."""
    parts = ["<SignedInfo>", f'<SignatureMethod Algorithm="{DSA_METHOD}"></SignatureMethod>']
    for kind, content in zip(KINDS, (body, extension), strict=True):
        if content:
            parts.append(_reference(f"cid:{kind}@{queue_manager}", content, hash_algorithm))
    parts.append("</SignedInfo>")
    signed = "".join(parts)
    value = b64encode(_sign(signed.encode("ascii"), key)).decode("ascii")
    info = ""
    if certificate:
        text = b64encode(certificate).decode("ascii")
        info = f"<KeyInfo><X509Data><X509Certificate>{text}</X509Certificate></X509Data></KeyInfo>"
    return f'<Signature xmlns="{SIGNATURE}">{signed}<SignatureValue>{value}</SignatureValue>{info}</Signature>'


def _reference(uri: str, content: bytes, hash_algorithm: int) -> str:
    weak = hash_algorithm == HashAlgorithm.MD5
    method, digest = (MD5_METHOD, md5) if weak else (SHA1_METHOD, sha1)
    value = b64encode(digest(content, usedforsecurity=False).digest()).decode("ascii")
    return (f'<Reference URI="{uri}"><DigestMethod Algorithm="{method}"></DigestMethod>'
            f"<DigestValue>{value}</DigestValue></Reference>")


def _sign(signed: bytes, key: PrivateKey) -> bytes:
    try:
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(signed, padding.PKCS1v15(), hashes.SHA1())  # what the wire has
        if not _is_usable(key.public_key()):
            raise ValueError
        r, s = utils.decode_dss_signature(key.sign(signed, hashes.SHA1()))
        return r.to_bytes(HALF, "big") + s.to_bytes(HALF, "big")
    except (ValueError, UnsupportedAlgorithm):
        raise error_from_code(
            HRESULTS["MQ_ERROR_CANNOT_SIGN_DATA_EX"], "this key makes no XML signature", where="signature",
            remedy="use a DSA key with a q of 256 bits, or an RSA key of 2048 bits") from None


# ---- received -------------------------------------------------------------------------------------------------------


class BadSignature(Exception):
    """Why a message is disregarded."""


@dataclass(frozen=True, slots=True)
class ReadSignature:
    signed: bytes  # the octets of SignedInfo
    value: bytes
    certificate: bytes  # of KeyInfo; empty without one


def read_signature(
    element: Element, document: bytes, body: bytes | memoryview | None, extension: bytes | memoryview | None,
    *, allow_md5: bool,
) -> ReadSignature:
    """All that 3.1.5.1.6.1 asks of a signature before its value; the digests are right when this returns."""
    info = _one(element, "SignedInfo")
    method = _one(info, "SignatureMethod").attributes.get((_NO_NAMESPACE, "Algorithm"))
    if method != DSA_METHOD:
        raise BadSignature(f"the signature method {str(method)[:60]}")
    _check_references(info.all(SIGNATURE, "Reference"), {"body": body, "extension": extension}, allow_md5)
    value = _base64(_one(element, "SignatureValue"))
    return ReadSignature(document[info.start : info.end], value, _key_info(element))


def _one(parent: Element, name: str) -> Element:
    found = parent.all(SIGNATURE, name)
    if len(found) != 1:
        raise BadSignature(f"{len(found)} elements {name}")
    return found[0]


def _check_references(
    references: Sequence[Element], parts: dict[str, bytes | memoryview | None], allow_md5: bool
) -> None:
    if not 0 < len(references) <= len(KINDS):
        raise BadSignature(f"{len(references)} references")
    seen = set()
    for reference in references:
        kind = reference.attributes.get((_NO_NAMESPACE, "URI"), "").removeprefix("cid:").partition("@")[0]
        content = parts.get(kind)
        if content is None or kind in seen:
            raise BadSignature(f"a reference to {kind[:40]!r}, which is not there, or there twice")
        seen.add(kind)
        method = _one(reference, "DigestMethod").attributes.get((_NO_NAMESPACE, "Algorithm"))
        if method != SHA1_METHOD and (method != MD5_METHOD or not allow_md5):
            raise BadSignature(f"the digest method {str(method)[:60]}")
        digest = (md5 if method == MD5_METHOD else sha1)(content, usedforsecurity=False).digest()
        if not compare_digest(digest, _base64(_one(reference, "DigestValue"))):
            raise BadSignature(f"the {kind} is not what was signed")
    missing = [kind for kind, content in parts.items() if content is not None and kind not in seen]
    if missing:  # 2.2.7.1.2: there must be a reference for each
        raise BadSignature(f"the {missing[0]} is not signed")


def _base64(element: Element) -> bytes:
    try:
        return b64decode("".join(element.text.split()), validate=True)
    except (Base64Error, ValueError):
        raise BadSignature(f"{element.name} is not base64") from None


def _key_info(element: Element) -> bytes:
    found = element
    for name in ("KeyInfo", "X509Data", "X509Certificate"):
        inner = found.all(SIGNATURE, name)
        if not inner:
            return b""
        found = inner[0]
    return _base64(found)


def is_signed_by(signature: ReadSignature, key: PublicKey, *, allow_rsa: bool) -> bool:
    """DSA draws a number for every signature, so it can only be verified, not made again and compared."""
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if not allow_rsa:
                return False
            key.verify(signature.value, signature.signed, padding.PKCS1v15(), hashes.SHA1())
            return True
        if len(signature.value) != 2 * HALF:
            return False
        r, s = (int.from_bytes(half, "big") for half in (signature.value[:HALF], signature.value[HALF:]))
        q = key.parameters().parameter_numbers().q
        if not (0 < r < q and 0 < s < q):
            return False
        key.verify(utils.encode_dss_signature(r, s), signature.signed, hashes.SHA1())
        return True
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False


