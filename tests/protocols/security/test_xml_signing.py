"""XML signatures, checked by a verifier that shares nothing with lior ([MC-MQSRM] 2.2.7)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, padding, rsa, utils

import lior
from lior.client.xml_identity import XmlIdentity
from lior.message import HashAlgorithm
from lior.protocols.security.xml_signing import (
    BadSignature,
    ReadSignature,
    is_signed_by,
    read_signature,
    read_xml_certificate,
    write_signature,
)
from lior.wire.strict_xml import Element, parse

QM = "f6a3323c-7c7b-4a5f-b0ed-b3f63a200893"
DRAFT = "http://www.w3.org/2000/02/xmldsig#"


@pytest.fixture(scope="module")
def signer() -> XmlIdentity:
    return XmlIdentity.create("sender")


@pytest.fixture(scope="module")
def rsa_signer() -> XmlIdentity:
    return XmlIdentity.create("sender", kind="rsa")


def second_verifier(text: str, key: object, parts: dict[str, bytes]) -> bool:
    """Thirty lines of another hand: strings, hashlib and the key."""
    signed = text[text.index("<SignedInfo>") : text.index("</SignedInfo>") + len("</SignedInfo>")].encode()
    digests = dict(re.findall(r'URI="cid:(\w+)@[^"]*">.*?<DigestValue>([^<]*)<', signed.decode()))
    if digests.keys() != parts.keys():
        return False
    for name, content in parts.items():
        new = hashlib.md5 if f'"cid:{name}' in text and "#md5" in text else hashlib.sha1
        if base64.b64encode(new(content).digest()).decode() != digests[name]:
            return False
    value = base64.b64decode(re.findall("<SignatureValue>([^<]*)<", text)[0])
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(value, signed, padding.PKCS1v15(), hashes.SHA1())
        else:
            assert isinstance(key, dsa.DSAPublicKey)
            pair = utils.encode_dss_signature(int.from_bytes(value[:32], "big"), int.from_bytes(value[32:], "big"))
            key.verify(pair, signed, hashes.SHA1())
    except Exception:
        return False
    return True


def key_of(signer: XmlIdentity) -> object:
    return x509.load_der_x509_certificate(signer.certificate).public_key()


@pytest.mark.spec("SR-195", "SR-089", "SR-090", "SR-091", "SR-092", "SR-093")
@pytest.mark.parametrize(
    "parts", [{"body": b"pay\x00load"}, {"extension": b"ext"}, {"body": b"b" * 9000, "extension": b"e"}]
)
def test_a_signature_is_the_documents_template_and_another_verifier_takes_it(
    signer: XmlIdentity, parts: dict[str, bytes]
) -> None:
    text = write_signature(parts.get("body", b""), parts.get("extension", b""), QM, signer.key, HashAlgorithm.SHA1)
    references = "".join(
        f'<Reference URI="cid:{name}@{QM}"><DigestMethod Algorithm="{DRAFT}sha1"></DigestMethod><DigestValue>'
        + base64.b64encode(hashlib.sha1(content).digest()).decode() + "</DigestValue></Reference>"
        for name, content in parts.items()
    )  # fmt: skip
    before = (f'<Signature xmlns="{DRAFT}"><SignedInfo><SignatureMethod Algorithm="{DRAFT}dsa"></SignatureMethod>'
              f"{references}</SignedInfo><SignatureValue>")  # fmt: skip
    assert text.startswith(before)
    assert text.endswith("</SignatureValue></Signature>")
    value = text.removeprefix(before).removesuffix("</SignatureValue></Signature>")
    assert (len(value), len(base64.b64decode(value))) == (88, 64)
    assert second_verifier(text, key_of(signer), parts)
    assert not second_verifier(text.replace("cid:", "cId:"), key_of(signer), parts)


@pytest.mark.spec("SR-092", "SR-195")
def test_the_digest_is_md5_when_the_message_says_so_and_sha1_for_everything_else(signer: XmlIdentity) -> None:
    weak = write_signature(b"x", b"", QM, signer.key, HashAlgorithm.MD5)
    assert f'Algorithm="{DRAFT}md5"' in weak
    assert len(re.findall("<DigestValue>([^<]*)<", weak)[0]) == 24
    assert f'Algorithm="{DRAFT}sha1"' in write_signature(b"x", b"", QM, signer.key, HashAlgorithm.SHA512)


def read(text: str, body: bytes | None = b"x", extension: bytes | None = None, md5: bool = False) -> ReadSignature:
    document = b"<r>" + text.encode() + b"</r>"
    element: Element = parse(document).children[0]
    return read_signature(element, document, body, extension, allow_md5=md5)


@pytest.mark.spec("SR-154", "SR-089", "SR-093")
def test_a_good_signature_is_taken_and_a_changed_one_is_not(signer: XmlIdentity) -> None:
    certificate = read_xml_certificate(signer.certificate)
    assert certificate is not None
    text = write_signature(b"x", b"y", QM, signer.key, HashAlgorithm.SHA1)
    good = read(text, b"x", b"y")
    assert is_signed_by(good, certificate.key, allow_rsa=False)
    for changed in (text.replace("<SignedInfo>", "<SignedInfo> "), text.replace("cid:body@f", "cid:body@a")):
        assert not is_signed_by(read(changed, b"x", b"y"), certificate.key, allow_rsa=False)
    moved = text.replace(f' xmlns="{DRAFT}"', f'\n  xmlns="{DRAFT}" ')  # outside what is signed
    assert is_signed_by(read(moved, b"x", b"y"), certificate.key, allow_rsa=False)
    for body, extension in ((b"X", b"y"), (b"x", b"Y")):
        with pytest.raises(BadSignature, match="not what was signed"):
            read(text, body, extension)
    for value in (bytes(64), bytes(32) + good.value[32:], good.value[:32] + b"\xff" * 32, good.value[:63], b""):
        assert not is_signed_by(ReadSignature(good.signed, value, b""), certificate.key, allow_rsa=False)
    other = read_xml_certificate(XmlIdentity.create("other").certificate)
    assert other is not None
    assert not is_signed_by(good, other.key, allow_rsa=False)


@pytest.mark.spec("SR-155")
def test_rsa_counts_only_where_it_is_allowed(rsa_signer: XmlIdentity) -> None:
    text = write_signature(b"x", b"", QM, rsa_signer.key, HashAlgorithm.SHA1)
    assert second_verifier(text, key_of(rsa_signer), {"body": b"x"})
    certificate = read_xml_certificate(rsa_signer.certificate)
    assert certificate is not None
    assert is_signed_by(read(text), certificate.key, allow_rsa=True)
    assert not is_signed_by(read(text), certificate.key, allow_rsa=False)


REFERENCE = re.compile("<Reference .*</Reference>")
DEFECTS: dict[str, Callable[[str], str]] = {
    "no SignedInfo": lambda text: re.sub("<SignedInfo>.*</SignedInfo>", "", text),
    "two SignedInfo": lambda text: re.sub("(<SignedInfo>.*</SignedInfo>)", r"\1\1", text),
    "no SignatureMethod": lambda text: re.sub("<SignatureMethod.*</SignatureMethod>", "", text),
    "another method": lambda text: text.replace("#dsa", "#rsa-sha1"),
    "no Reference": lambda text: REFERENCE.sub("", text),
    "three references": lambda text: REFERENCE.sub(lambda m: m[0] * 3, text),
    "two of one kind": lambda text: REFERENCE.sub(lambda m: m[0] * 2, text),
    "to an extension that is not there": lambda text: text.replace("cid:body", "cid:extension"),
    "to something else": lambda text: text.replace("cid:body", "cid:header"),
    "no DigestMethod": lambda text: re.sub("<DigestMethod.*</DigestMethod>", "", text),
    "another digest": lambda text: text.replace("#sha1", "#sha256"),
    "no DigestValue": lambda text: re.sub("<DigestValue>.*</DigestValue>", "", text),
    "a digest that is no base64": lambda text: re.sub("<DigestValue>.", "<DigestValue>*", text),
    "no SignatureValue": lambda text: re.sub("<SignatureValue>.*</SignatureValue>", "", text),
    "the Recommendation's namespace inside": lambda text: text.replace("<SignedInfo>", '<SignedInfo xmlns="x">'),
    "md5, which is off": lambda text: text.replace("#sha1", "#md5"),
}


@pytest.mark.spec("SR-153", "SR-090")
@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_of_a_signature_is_found(signer: XmlIdentity, defect: str) -> None:
    text = write_signature(b"x", b"", QM, signer.key, HashAlgorithm.SHA1)
    read(text)
    changed = DEFECTS[defect](text)
    assert changed != text
    with pytest.raises(BadSignature):
        read(changed)


@pytest.mark.spec("SR-091", "SR-153")
def test_a_part_without_a_reference_is_found(signer: XmlIdentity) -> None:
    text = write_signature(b"x", b"", QM, signer.key, HashAlgorithm.SHA1)
    with pytest.raises(BadSignature, match="extension is not signed"):
        read(text, b"x", b"sneaked in")


@pytest.mark.spec("SR-218")
def test_the_values_of_the_document_have_the_lengths_that_it_says() -> None:
    assert len(base64.b64decode("XU9yAzfwEPuP7L5iOcQY9XRNEWM=")) == 20
    value = "ZxvFMInWLSb1+iNj5xA/OhPHE4uzIx4nXOCmoOyGSSyHWEuODsByooS00j9RsMuGN/FmpEEOgJ1NF CBEDaBAag=="
    assert len(base64.b64decode(value.replace(" ", ""))) == 64


def test_an_identity_is_saved_and_loaded_and_signs_for_http_names_only(
    signer: XmlIdentity, tmp_path: object
) -> None:
    file = f"{tmp_path}/identity.pem"
    signer.save(file)
    loaded = XmlIdentity.load(file)
    assert loaded.certificate == signer.certificate
    from uuid import UUID

    with pytest.raises(lior.LiorError):
        loaded.sign(lior.Message(b"x"), r"DIRECT=TCP:127.0.0.1\private$\q", queue_manager=UUID(QM), transactional=False)


def test_short_keys_and_other_kinds_of_keys_are_no_certificates_of_signatures() -> None:
    assert read_xml_certificate(b"") is None
    assert read_xml_certificate(b"junk") is None
