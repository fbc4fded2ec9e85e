"""CACTransferBufferV2 of a send -> Message ([MS-MQMP] 2.2.3.2, 3.1.1.11, 3.1.5.2)."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from lior.errors import (
    HRESULTS,
    InsufficientResources,
    InvalidParameter,
    LiorError,
    UnsupportedFormatNameOperation,
    error_from_code,
)
from lior.message import MAX_LABEL_LENGTH, MAX_MESSAGE_SIZE, Message, MessageSecurity
from lior.names import LocalNames, QueueFormat, from_queue_format
from lior.security import Caller
from lior.wire.interfaces.structures import CACTB_SEND, CACTransferBufferV2, Send
from lior.wire.structures import PROV_RSA_FULL

MQ_ERROR_PROPERTY: Final = HRESULTS["MQ_ERROR_PROPERTY"]
MAX_ALLOCATION: Final = 0x00420000  # as qm2qm allows a packet to be; a body has no more room than its message
INFINITE_TIME: Final = 0xFFFFFFFF
DEFAULT_PRIORITY: Final = 3
DEAD_LETTER, JOURNAL = 1, 2  # pAuditing
SENDER_SID, SENDER_QUEUE_MANAGER = 1, 2  # pulSenderIDType

# pulPrivLevel -> Message.PrivacyLevel. The document has 0, 1 and 2; the constants of the programming interface are 3
# for "enhanced" and 5 for AES, which the document leaves out: all are taken (docs/spec-notes.md).
PRIVACY: Final = {0: 0, 1: 1, 2: 3, 3: 3, 5: 5}
HASHES: Final = frozenset({0x8001, 0x8002, 0x8003, 0x8004, 0x800C, 0x800E})
CIPHERS: Final = frozenset({0x6602, 0x6801, 0x660E, 0x660F, 0x6610})


def bad(member: str, what: str, remedy: str = "") -> LiorError:
    """A member that violates 3.1.5.2."""
    return error_from_code(MQ_ERROR_PROPERTY, what, where=member, remedy=remedy)


def to_message(ptb: CACTransferBufferV2, caller: Caller, sender_sid: bytes, local: LocalNames, *, direct: bool
               ) -> Message:  # fmt: skip
    """`sender_sid` is what the message may say of its sender; `direct` that its queue was opened by a direct name."""
    send = ptb.transfer
    if ptb.u_transfer_type != CACTB_SEND or not isinstance(send, Send):
        raise InvalidParameter(f"transfer type {ptb.u_transfer_type} of a send", where="uTransferType", remedy="use 0")
    message = Message(
        _body(ptb),
        label_of(ptb.pp_title) if ptb.pp_title else "",
        ptb.pul_body_type or 0,
        delivery_guarantee=ptb.p_delivery or 0,
        priority=DEFAULT_PRIORITY if ptb.p_priority is None else ptb.p_priority,
        time_to_reach_queue=ptb.ul_absolute_time_to_queue or INFINITE_TIME,  # relative, despite its name
        time_to_be_received=ptb.ul_relative_time_to_live,
        application_tag=ptb.p_application_tag or 0,
        acknowledgements_requested=ptb.p_acknowledge or 0,
    )
    _check_numbers(ptb, message)
    if ptb.pp_msg_extension:
        message.extension = _octets(ptb.pp_msg_extension)
    if ptb.pp_correlation_id:
        message.correlation_id = _octets(ptb.pp_correlation_id)
    if ptb.p_auditing:
        message.negative_journaling_requested = ptb.p_auditing & DEAD_LETTER != 0
        message.positive_journaling_requested = ptb.p_auditing & JOURNAL != 0
    if ptb.p_trace:
        message.tracing_requested = True
    if send.p_admin_queue_format is not None:
        message.administration_queue = _name(send.p_admin_queue_format, local)
    if send.p_response_queue_format is not None:
        message.response_queue = _name(send.p_response_queue_format, local)
    if isinstance(ptb.pp_connector_type, UUID):
        message.connector_type = ptb.pp_connector_type
    if ptb.p_class:
        _set_class(message, ptb.p_class, caller)
    if ptb.pul_sender_id_type or ptb.u_sender_id_len or ptb.pp_sender_id is not None or _has_security(ptb):
        message.security = _security(ptb, caller, sender_sid, direct=direct)
    return message


def _body(ptb: CACTransferBufferV2) -> bytes:
    """The bytes in use; what is allocated beyond them is only bounded."""
    body: Any = ptb.pp_body
    if not body:
        return b""
    if ptb.ul_alloc_body_buffer_in_bytes > MAX_ALLOCATION:
        raise InsufficientResources(f"room for {ptb.ul_alloc_body_buffer_in_bytes} bytes of body is asked for",
                                    where="ulAllocBodyBufferInBytes",
                                    remedy=f"a message holds at most {MAX_MESSAGE_SIZE} bytes")
    return bytes(body)


def label_of(title: Any) -> str:
    """At most 250 elements, the last of which is made NUL; the label ends before the first one."""
    text: str = title.partition("\0")[0]
    if len(text) <= MAX_LABEL_LENGTH and text.isascii():
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    return text if len(units) <= 2 * MAX_LABEL_LENGTH else units[: 2 * MAX_LABEL_LENGTH].decode("utf-16-le", "ignore")


def _check_numbers(ptb: CACTransferBufferV2, message: Message) -> None:
    """3.1.5.2 and the lists of 2.2.3.2. Acknowledgements are a set of bits; the list names the useful ones."""
    if message.priority > 7:
        raise bad("pPriority", f"{message.priority} is out of range", "use 0 to 7")
    if message.delivery_guarantee > 1:
        raise bad("pDelivery", f"{message.delivery_guarantee} is no delivery mode", "use 0 or 1")
    if message.acknowledgements_requested > 0x0F:
        raise bad("pAcknowledge", f"{message.acknowledgements_requested:#04x}", "use the bits 1 to 8")
    if ptb.p_auditing is not None and ptb.p_auditing > 3:
        raise bad("pAuditing", f"{ptb.p_auditing} is no journaling mode", "use 0 to 3")
    if ptb.p_trace is not None and ptb.p_trace > 1:
        raise bad("pTrace", f"{ptb.p_trace} is neither 0 nor 1")


def _name(queue_format: QueueFormat, local: LocalNames) -> str:
    """"." is this computer, where the queue manager is, and means nothing to who answers."""
    return str(local.expand_dot(from_queue_format(queue_format)))


def _set_class(message: Message, message_class: int, caller: Caller) -> None:
    """Acknowledgements come from queue managers and from connectors; nobody else may forge them (MP-161)."""
    if message.connector_type is None:
        raise error_from_code(HRESULTS["MQ_ERROR_MISSING_CONNECTOR_TYPE"],
                              f"class 0x{message_class:04X} without a connector type", where="pClass",
                              remedy="send class 0, or say which connector it comes from")
    if not caller.is_administrator:
        raise error_from_code(HRESULTS["MQ_ERROR_ACCESS_DENIED"],
                              f"class 0x{message_class:04X} is for connectors", where="pClass",
                              remedy="send class 0, or as an administrator")
    message.message_class = message_class


# ---- sender, signature, encryption ---------------------------------------------------------------------------------


def _has_security(ptb: CACTransferBufferV2) -> bool:
    return bool(
        ptb.pul_priv_level or ptb.ul_signature_size or ptb.ul_sender_cert_len or ptb.ul_symm_keys_size
        or ptb.b_encrypted or ptb.pul_hash_alg or ptb.pul_encrypt_alg
    )


def _security(ptb: CACTransferBufferV2, caller: Caller, sender_sid: bytes, *, direct: bool) -> MessageSecurity | None:
    """The preconditions of 3.1.5.2, each with its clause."""
    security = MessageSecurity(hash_algorithm=ptb.pul_hash_alg or 0, encryption_algorithm=ptb.pul_encrypt_alg or 0)
    _set_sender(security, ptb, sender_sid)
    _set_privacy(security, ptb, direct=direct)
    if ptb.ul_sender_cert_len and ptb.pp_sender_cert is None:
        raise bad("ppSenderCert", "a length without a certificate")
    security.sender_certificate = _octets(ptb.pp_sender_cert)
    if ptb.ul_symm_keys_size and ptb.pp_symm_keys is None:
        raise bad("ppSymmKeys", "a length without a key")
    security.symmetric_key = _octets(ptb.pp_symm_keys)
    if ptb.ul_signature_size:
        _set_signature(security, ptb)
    elif security.hash_algorithm and security.hash_algorithm not in HASHES:
        raise bad("pulHashAlg", f"0x{security.hash_algorithm:X} is no hash algorithm")
    plain = not (security.sender_identifier or security.sender_certificate or security.symmetric_key
                 or security.signature or security.privacy_level or security.hash_algorithm
                 or security.encryption_algorithm)  # fmt: skip
    return None if plain else security


def _set_sender(security: MessageSecurity, ptb: CACTransferBufferV2, sender_sid: bytes) -> None:
    """Who sent it is known from the call, not from what it says (MP-161)."""
    kind = ptb.pul_sender_id_type
    if kind is None:
        if ptb.u_sender_id_len:
            raise bad("pulSenderIDType", "a sender identifier without a type")
        return
    if kind not in (0, SENDER_SID, SENDER_QUEUE_MANAGER):
        raise bad("pulSenderIDType", f"{kind} is no type of sender identifier", "use 0 or 1")
    if kind == 0:
        if ptb.u_sender_id_len:
            raise bad("pulSenderIDType", "a sender identifier of type none")
        return
    if ptb.pp_sender_id is None:
        raise bad("ppSenderID", f"type {kind} without a sender identifier")
    if kind == SENDER_QUEUE_MANAGER:
        raise bad("pulSenderIDType", "a client is no queue manager", "use 0 or 1")
    _require_sid(_octets(ptb.pp_sender_id))
    if sender_sid:
        security.sender_identifier_type = SENDER_SID
        security.sender_identifier = sender_sid


def _require_sid(data: bytes) -> None:
    well_formed = len(data) >= 8 and data[0] == 1 and data[1] <= 15 and len(data) >= 8 + 4 * data[1]
    if not well_formed:
        raise bad("ppSenderID", f"{len(data)} bytes are no SID", "give the SID of the user")


def _set_privacy(security: MessageSecurity, ptb: CACTransferBufferV2, *, direct: bool) -> None:
    level = PRIVACY.get(ptb.pul_priv_level or 0)
    if level is None:
        raise bad("pulPrivLevel", f"{ptb.pul_priv_level} is no privacy level", "use 0, 1 or 2")
    if direct and (level or ptb.b_encrypted):
        raise UnsupportedFormatNameOperation("a message to a direct name is not encrypted", where="pulPrivLevel",
                                             remedy="open the queue by another format name, or send it clear")
    if ptb.pul_priv_level is not None and level and ptb.pul_encrypt_alg is None:
        raise bad("pulEncryptAlg", "a privacy level without an algorithm")
    if security.encryption_algorithm and security.encryption_algorithm not in CIPHERS:
        raise bad("pulEncryptAlg", f"0x{security.encryption_algorithm:X} is no encryption algorithm")
    security.privacy_level = level


def _set_signature(security: MessageSecurity, ptb: CACTransferBufferV2) -> None:
    """Two signatures may stand behind one another; the first is of MSMQ 1.0, and then ignored."""
    if ptb.pul_hash_alg is None or ptb.pul_hash_alg not in HASHES:
        raise bad("pulHashAlg", "a signature without its hash algorithm")
    signature = _octets(ptb.pp_signature)
    if not signature:
        raise bad("ppSignature", "a length without a signature")
    _set_provider(security, ptb)
    together = ptb.pul_auth_prov_name_len_prop
    if together is None:
        security.signature = signature
        return
    second = together - ptb.ul_prov_name_len
    if not 0 <= second <= len(signature):
        raise bad("pulAuthProvNameLenProp", f"a second signature of {second} bytes in {len(signature)}")
    security.signature = signature[len(signature) - second :]


def _set_provider(security: MessageSecurity, ptb: CACTransferBufferV2) -> None:
    name: Any = ptb.ppwcs_prov_name
    if ptb.f_default_provider:
        if ptb.pul_prov_type != PROV_RSA_FULL:
            raise bad("pulProvType", "the default provider has type 1")
        security.authentication_provider_type = PROV_RSA_FULL
        return
    if not name:
        raise bad("ppwcsProvName", "a signature without its provider")
    text, nul, _ = name.partition("\0")
    if not nul:
        raise bad("ppwcsProvName", "a name without its NUL")
    security.authentication_provider_name = text
    security.authentication_provider_type = ptb.pul_prov_type or 0


def _octets(value: Any) -> bytes:
    """NULL at either level is nothing."""
    return bytes(value) if value else b""
