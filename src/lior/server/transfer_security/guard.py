"""The guard at both ends of a transfer: what may come in and as whom, and what leaves signed and encrypted
([MS-MQQB] 3.1.5.8.3, 3.1.7.1.4, 3.1.7.1.5).

The order is decrypt, verify, look the certificate up, check the rights: the document verifies first, but a sender
signs the clear body and then encrypts it. Nothing that a packet says about itself is believed: AU and AS are cleared,
a SID without a signature is nobody's, and a message without a SecurityHeader is checked like any other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from lior.errors import HRESULTS, AccessDenied, LiorError, Malformed, UnsupportedFormatNameOperation, error_from_code
from lior.message import AuthenticationLevel, Message, MessageClass, SenderIdentifierType
from lior.protocols.security import encryption
from lior.protocols.security.caches import AgingCache
from lior.protocols.security.policy import DEFAULT_POLICY, SecurityPolicy
from lior.protocols.security.signing import SenderCertificate, as_sent, read_certificate, verified_level
from lior.queues.definition import QueuePrivacy, QueueProperties, QueueType
from lior.queues.manager import QueueManager
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.security import ANONYMOUS_CALLER, EVERYONE, Caller, QueueAccess, Sid
from lior.server.transfer_security.certificates import Owner
from lior.server.transfer_security.place import SecurityFiles
from lior.wire.digests import ACCEPTED_HASHES, WEAK_HASHES
from lior.wire.dtyp import decode_sid
from lior.wire.headers import AS_MASK, AU, DE, EB, NULL_GUID_BYTES, ST_MASK, SecurityHeader
from lior.wire.message_packet import to_user_message
from lior.wire.optional_headers import Security, provider_info
from lior.wire.queue_names import DIRECT
from lior.wire.structures import PROVIDER_TYPES
from lior.wire.user_message import UserMessage

BAD_SIGNATURE: Final = MessageClass.NACK_BAD_SIGNATURE.value
BAD_ENCRYPTION: Final = MessageClass.NACK_BAD_ENCRYPTION.value
DENIED: Final = MessageClass.NACK_ACCESS_DENIED.value
UNSUPPORTED: Final = MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER.value

EVERYONE_CALLER: Final = Caller(EVERYONE)
_CLAIMS: Final = AU | AS_MASK
_WRITE: Final = int(QueueAccess.WRITE_MESSAGE)
_TAKES_MESSAGES: Final = (QueueType.PRIVATE, QueueType.PUBLIC, QueueType.CONNECTOR, QueueType.SUBQUEUE)
_MOST_DECISIONS: Final = 4096
_ENTROPY: Final = 32


class Checked:
    """What the guard found. `refused` is the class to refuse the message with, 0 to take it."""

    __slots__ = ("authentication_level", "body", "caller", "refused", "why")

    def __init__(self, refused: int = 0, why: str = "", *, caller: Caller = ANONYMOUS_CALLER,
                 authentication_level: int = 0, body: bytes | None = None) -> None:
        self.refused = refused
        self.why = why  # for logs and events of this side only: the sender learns the class at most
        self.caller = caller
        self.authentication_level = authentication_level
        self.body = body  # the clear body of an encrypted message, None for any other

    def settle(self, message: Message) -> None:
        """Write into the message what was found about its packet."""
        security = message.security
        if security is not None:
            security.authentication_level = self.authentication_level
        if self.body is not None:
            message.body = self.body
            if security is not None:
                security.symmetric_key = b""  # of a ciphertext that is gone


PLAIN: Final = Checked()  # shared: an anonymous message that may be delivered as it is


class Guard:
    def __init__(
        self,
        manager: QueueManager,
        files: SecurityFiles,
        *,
        wall: Callable[[], float] = time.time,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        policy = files.policy
        self._access = manager.access
        self._identifier = manager.core.properties.identifier
        self._files = files
        self._policy = policy
        self._wall = wall
        self._entropy = entropy
        self._form, self._order = policy.digest_form, policy.signature_order
        self._allowed_hashes = policy.allowed_hashes
        self._allowed_ciphers = policy.allowed_ciphers
        self._open: dict[int, QueueProperties] = {}  # queues that take plain messages of anybody
        self._writers: dict[tuple[int, Sid, bool], QueueProperties] = {}  # who was found to have the right
        lifetime = policy.symmetric_key_lifetime
        self._received_keys: AgingCache[tuple[int, int, bytes, bytes], tuple[bytes, bool]] = AgingCache(
            policy.receive_key_cache_size, lifetime)
        self._sent_keys: AgingCache[tuple[object, ...], tuple[bytes, bytes]] = AgingCache(
            policy.send_key_cache_size, lifetime)
        self._certificates: AgingCache[tuple[int, bytes, bytes], tuple[SenderCertificate, Caller]] = AgingCache(
            policy.certificate_cache_size, policy.certificate_lifetime)
        self._registry_generation = -1

    # Arrivals

    def check(self, message: UserMessage, queue: Queue | None, now: float) -> Checked:
        """May this message enter this queue, and as whose? `now` is monotonic. Without a queue here the message is on
        its way to another queue manager, whose business all this is."""
        if message.security is None and queue is not None and message.multi_queue is None \
                and self.is_open(queue):
            return PLAIN
        return self._check(message, queue, now)

    def is_open(self, queue: Queue) -> bool:
        """Whether `check` passes any message without signature that is for this queue, and is known to."""
        return self._open.get(queue.queue_id) is queue.main.properties

    def _check(self, message: UserMessage, queue: Queue | None, now: float) -> Checked:
        security = message.security
        if security is not None:
            security.header.flags &= ~_CLAIMS
        if queue is None or isinstance(queue, OutgoingQueue):
            return PLAIN
        encrypted = security is not None and security.header.flags & EB != 0
        privacy = queue.main.properties.privacy_level
        if privacy == (QueuePrivacy.NONE if encrypted else QueuePrivacy.BODY):
            return Checked(BAD_ENCRYPTION, "the queue takes encrypted bodies only" if not encrypted else
                           "the queue takes clear bodies only")
        clear = None
        if security is not None and encrypted:
            refused, clear = self._decrypt(message, security, now)
            if clear is None:
                return Checked(refused, "the body cannot be decrypted")
        checked = self._authenticate(message, message.body if clear is None else clear, now)
        checked.body = clear
        if not checked.refused:
            self._authorise(checked, message, queue)
        if checked.refused:
            checked.body = None
        elif security is None and message.multi_queue is None:
            self._remember_open(queue)
        return checked

    # Who sent it

    def _authenticate(self, message: UserMessage, body: bytes | memoryview, now: float) -> Checked:
        security, lists = message.security, message.multi_queue
        if security is None:
            signed = lists is not None and bool(lists.signature)
            return Checked(BAD_SIGNATURE, "signed without a certificate") if signed else Checked()
        kind = security.header.flags & ST_MASK
        if not security.signature and (lists is None or not lists.signature):
            return Checked(caller=EVERYONE_CALLER if kind == SenderIdentifierType.QUEUE_MANAGER else ANONYMOUS_CALLER)
        provider = security.provider
        if provider is not None and provider[0] not in PROVIDER_TYPES:
            return Checked(UNSUPPORTED, f"signed with a provider of type {provider[0]}")
        found = self._certificate(security, kind, now)
        if found is None:
            return Checked(BAD_SIGNATURE, "the certificate is not registered for the sender, or is not usable")
        certificate, caller = found
        level = verified_level(message, body, certificate.key, allowed=self._allowed_hashes,
                               form=self._form, order=self._order)
        if not level:
            return Checked(BAD_SIGNATURE, "the signature does not fit the message")
        if caller is ANONYMOUS_CALLER:
            level = AuthenticationLevel.NONE.value  # somebody signed, but nobody says who
        return Checked(caller=caller, authentication_level=level)

    def _certificate(self, security: Security, kind: int, now: float) -> tuple[SenderCertificate, Caller] | None:
        """The sender's certificate and who that is. A signature without a sender identifier is checked, yet proves
        nobody's identity."""
        generation = self._files.certificates.refresh()
        if generation != self._registry_generation:
            self._certificates.clear()
            self._registry_generation = generation
        self._certificates.tick(now)
        key = (kind, security.sender_cert, security.sender_id)
        found = self._certificates.get(key, now)
        if found is None:
            found = self._looked_up(security, kind)
            if found is None:
                return None
            if found[1] is not ANONYMOUS_CALLER:
                self._certificates.add(key, found, now)
        certificate = found[0]
        if self._policy.check_certificate_dates and not certificate.valid_at(self._wall()):
            return None
        return found if certificate.key.key_size >= self._policy.minimum_signature_bits else None

    def _looked_up(self, security: Security, kind: int) -> tuple[SenderCertificate, Caller] | None:
        caller = ANONYMOUS_CALLER
        if kind != SenderIdentifierType.NONE:
            owner = _owner(kind, security.sender_id)
            registered = () if owner is None else self._files.certificates.of(owner)
            if all(entry.certificate != security.sender_cert for entry in registered):
                return None
            caller = Caller(owner if isinstance(owner, Sid) else EVERYONE, authenticated=True)
        certificate = read_certificate(security.sender_cert)
        return None if certificate is None else (certificate, caller)

    def proven(self, message: Message, destination: str, transactional: bool, *, clock: Callable[[], float]) -> int:
        """The level that the signature proves of a message that is sent here, not received: see Sending."""
        security = message.security
        if security is None or not (security.signature or security.multi_queue_signature):
            return AuthenticationLevel.NONE.value
        try:
            packet = to_user_message(as_sent(message, destination, self._identifier, transactional))
            return self._authenticate(packet, message.body, clock()).authentication_level
        except LiorError:  # a message that no packet can hold was not signed as one
            return AuthenticationLevel.NONE.value

    def clear_body(self, message: Message, destination: str, now: float) -> bytes | None:
        """The body of a message that a client here encrypted for this queue manager ([MS-MQMP] 3.1.5.2); None if its
        key, cipher or padding is not right."""
        packet = to_user_message(as_sent(message, destination, self._identifier, False))
        if packet.security is None:
            return None
        packet.properties.message_size = len(packet.body)
        return self._decrypt(packet, packet.security, now)[1]

    # What it may do

    def _authorise(self, checked: Checked, message: UserMessage, queue: Queue) -> None:
        properties = queue.main.properties
        if properties.authentication and not checked.authentication_level:
            checked.refused, checked.why = BAD_SIGNATURE, "the queue takes signed messages only"
            return
        if queue.kind not in _TAKES_MESSAGES:
            checked.refused, checked.why = DENIED, "no message is sent to a queue of the system"
            return
        caller = checked.caller
        if self._open.get(queue.queue_id) is properties and caller is ANONYMOUS_CALLER:
            return
        if self._writers.get((queue.queue_id, caller.sid, caller.authenticated)) is properties:
            return
        try:
            self._access.check_queue(caller, queue, _WRITE)
            if caller is EVERYONE_CALLER:  # claimed, like a SID without signature: never more than anonymous
                self._access.check_queue(ANONYMOUS_CALLER, queue, _WRITE)
        except AccessDenied as error:
            checked.refused, checked.why = DENIED, error.what
            return
        if self._access.descriptor_of(queue).sacl is None:  # what is audited is audited every time
            if len(self._writers) >= _MOST_DECISIONS:
                self._writers.clear()
            self._writers[queue.queue_id, caller.sid, caller.authenticated] = properties

    def _remember_open(self, queue: Queue) -> None:
        """The fast path: the next message like this one is answered by one comparison. Properties are never
        changed, only replaced, so the same object means the same answer."""
        properties = queue.main.properties
        if self._writers.get((queue.queue_id, ANONYMOUS_CALLER.sid, False)) is properties:
            if len(self._open) >= _MOST_DECISIONS:
                self._open.clear()
            self._open[queue.queue_id] = properties

    # Bodies that arrive

    def _decrypt(self, message: UserMessage, security: Security, now: float) -> tuple[int, bytes | None]:
        """The clear body; or none, and the class to refuse with."""
        policy, properties = self._policy, message.properties
        provider, algorithm = encryption.PROVIDERS.get(properties.privacy_level), properties.encryption_algorithm
        if provider is None or algorithm not in self._allowed_ciphers \
                or not encryption.algorithm_fits(provider, algorithm) \
                or (provider is encryption.BASE and not policy.allow_40_bit_keys):
            return BAD_ENCRYPTION, None
        own = self._files.keys.get(provider)
        if own is None:
            return UNSUPPORTED, None
        self._received_keys.tick(now)
        known = (provider.privacy_level, algorithm, message.user.source_queue_manager, security.encryption_key)
        found = self._received_keys.get(known, now)
        if found is None:
            found = encryption.unwrap_key(security.encryption_key, algorithm, provider, own, self._entropy(_ENTROPY))
            self._received_keys.add(known, found, now)  # the bad ones too: a second try must not be told apart
        key, good = found
        clear = encryption.decrypt_body(encryption.ciphertext(message), algorithm, key)
        if not policy.allow_40_bit_keys and encryption.has_40_bits(key):
            good = False  # RejectEnhancedRC2Using40BitKeys, and the same for RC4
        return (0, clear) if good and clear is not None else (BAD_ENCRYPTION, None)

    # Departures

    def protect(self, packet: UserMessage, message: Message, recipient: UUID, now: float) -> None:
        """Make of a packet that is about to leave what its message asks for: see that it is signed, encrypt its body.
        Raises where that cannot be: then it must not leave at all. `recipient` is the queue manager at the other
        end of the session; the packet's destination goes before, for there may be a router between."""
        security = message.security
        if security is None or packet.packet:  # what came from elsewhere is passed on as it is
            return
        if security.authentication_level or security.signature or security.multi_queue_signature:
            self._see_that_it_is_signed(packet)
        if security.privacy_level:
            self._encrypt(packet, security.privacy_level, recipient, now)

    def _see_that_it_is_signed(self, packet: UserMessage) -> None:
        """The library signs when it sends. What would be refused at its destination is better kept here, where its
        sender finds it: receivers tell nobody, by default, why they drop a message."""
        security = packet.security
        certificate = None if security is None else read_certificate(security.sender_cert)
        if certificate is None:
            raise error_from_code(HRESULTS["MQ_ERROR_CERTIFICATE_NOT_PROVIDED"], "no certificate to sign with",
                                  where="signature", remedy="send with sign=, see docs/message-security.md")
        if not verified_level(packet, packet.body, certificate.key, allowed=ACCEPTED_HASHES | WEAK_HASHES,
                              form=self._form, order=self._order):
            raise error_from_code(HRESULTS["MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX"],
                                  "the message is not what its sender signed", where="signature",
                                  remedy="send it again: a message that was changed has to be signed anew")

    def _encrypt(self, packet: UserMessage, wanted: int, recipient: UUID, now: float) -> None:
        address = packet.user.queue_manager_address
        if packet.destination_queue.type == DIRECT and not self._policy.encrypt_direct_names:
            raise UnsupportedFormatNameOperation(
                "a message to a direct name is not encrypted", where=packet.destination_queue.text,
                remedy="use a PRIVATE= name, or set security.encrypt_direct_names")
        target = UUID(bytes_le=address) if address != NULL_GUID_BYTES else recipient
        keys = self._files.peers.of(target)
        if not keys:
            raise encryption.cannot_encrypt(f"the public keys of {{{str(target).upper()}}} are not known")
        choice = encryption.choose(wanted, keys, self._policy)
        key, blob = self._session_key(choice, target, now)
        packet.body = encryption.encrypt_body(packet.body, choice.algorithm, key)
        properties = packet.properties
        properties.message_size = len(packet.body)
        properties.privacy_level = choice.provider.privacy_level  # the receiver picks its key by it
        properties.encryption_algorithm = choice.algorithm
        security = packet.security
        if security is None:
            security = packet.security = Security(SecurityHeader())
        security.header.flags |= EB
        security.encryption_key = blob
        if not security.signature and not security.header.flags & DE:
            security.provider_info = provider_info(choice.provider.type, choice.provider.name)

    def _session_key(self, choice: encryption.Choice, target: UUID, now: float) -> tuple[bytes, bytes]:
        self._sent_keys.tick(now)
        known = (choice.provider.privacy_level, choice.algorithm, choice.bits, target, choice.key.modulus)
        found = self._sent_keys.get(known, now)
        if found is None:
            key = encryption.new_key(choice.algorithm, choice.bits, choice.provider, self._entropy(_ENTROPY))
            found = key, encryption.wrap_key(key, choice.algorithm, encryption.usable_key(choice.key))
            self._sent_keys.add(known, found, now)
        return found


def _owner(kind: int, sender_id: bytes) -> Owner | None:
    """Whom a sender identifier names."""
    try:
        return decode_sid(sender_id)[0] if kind == SenderIdentifierType.SID else UUID(bytes_le=sender_id)
    except (Malformed, ValueError):
        return None


def install(manager: QueueManager, data: str | os.PathLike[str] | None,
            policy: SecurityPolicy = DEFAULT_POLICY) -> Guard:
    """The guard of a queue manager with its files in the data directory. It also has the last word on signatures of
    messages that are sent here."""
    guard = Guard(manager, SecurityFiles(data, policy))
    manager.sending.authenticate = partial(guard.proven, clock=manager.core.clock.monotonic)
    return guard


__all__ = ["PLAIN", "Checked", "Guard", "install"]
