"""XML signatures of messages that arrive ([MC-MQSRM] 3.1.5.1.6.1), and those that leave."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lior.errors import Malformed
from lior.message import AuthenticationLevel, Message, MessageSecurity
from lior.protocols.security.policy import SecurityPolicy
from lior.protocols.security.xml_signing import (
    BadSignature,
    ReadSignature,
    XmlCertificate,
    is_signed_by,
    read_signature,
    read_xml_certificate,
)
from lior.queues.queue import Queue
from lior.server.transfer_security.certificates import CertificateRegistry
from lior.wire.srmp_elements import SIGNATURE
from lior.wire.strict_xml import parse

if TYPE_CHECKING:
    from lior.server.srmp.incoming import Received

log = logging.getLogger("lior.srmp")


class Signatures:
    """The certificate is the one in KeyInfo, else one that is registered for the message's SourceQmGuid. Only a
    registered one says who signed: with another the message is whole, and nobody's (design ruling 4)."""

    def __init__(self, certificates: CertificateRegistry, policy: SecurityPolicy) -> None:
        self._certificates = certificates
        self._policy = policy
        self.refused = 0

    def verify(self, received: Received, queue: Queue, message: Message, wall: float) -> bool:
        """Whether the message may be delivered. What the signature proves is written into it."""
        wanted = queue.main.properties.authentication
        if received.envelope.signature is None:
            return not wanted
        try:
            proven = self._proven(received, message, wall)
            if wanted and not proven:
                raise BadSignature("nobody registered the certificate")
        except BadSignature as error:
            self.refused += 1
            log.warning("a signature is not right", extra={"fields": {
                "message": str(message.identifier), "queue": queue.name, "why": str(error)}})
            return False
        security = message.security = message.security or MessageSecurity()
        security.authentication_level = AuthenticationLevel.XML_SIG.value if proven else 0
        return True

    def _proven(self, received: Received, message: Message, wall: float) -> bool:
        entity, element = received.entity, received.envelope.signature
        assert element is not None
        body, extension = entity.body, entity.extension
        signature = read_signature(
            element, entity.envelope, body.data if body else None, extension.data if extension else None,
            allow_md5=self._policy.allow_md5)
        registered = [entry.certificate for entry in self._certificates.of(message.source_queue_manager)]
        candidates = [signature.certificate] if signature.certificate else registered
        for candidate in candidates:
            certificate = read_xml_certificate(candidate)
            if certificate is not None and self._is_good(signature, certificate, wall):
                if message.security is not None:
                    message.security.sender_certificate = candidate
                return candidate in registered or self._is_somebodys(candidate)
        raise BadSignature("no certificate of the sender is known" if not candidates else "it is not the sender's")

    def _is_somebodys(self, certificate: bytes) -> bool:
        return any(found.entry.certificate == certificate for found in self._certificates.list())

    def _is_good(self, signature: ReadSignature, certificate: XmlCertificate, wall: float) -> bool:
        if self._policy.check_certificate_dates and not certificate.valid_at(wall):
            return False
        return is_signed_by(signature, certificate.key, allow_rsa=self._policy.allow_rsa_xml_signatures)


def signature_text(message: Message) -> str:
    """The element Signature that the library made when the message was sent; it goes out as it is."""
    security = message.security
    if security is None or not security.signature:
        return ""
    try:
        root = parse(security.signature)
        text = security.signature.decode("utf-8")
    except (Malformed, UnicodeDecodeError):
        raise Malformed("this is no XML signature", where="signature", remedy="sign with XmlIdentity") from None
    if (root.namespace, root.name) != (SIGNATURE, "Signature"):
        raise Malformed("this is no XML signature", where="signature", remedy="sign with XmlIdentity")
    return text
