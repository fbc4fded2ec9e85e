"""A message as CACTransferBufferV2 and back ([MS-MQMP] 2.2.3.2, 2.2.3.3, 3.1.1.11): every member, at leisure.

What most messages look like is sent by `send_stub.py`. The structure has no place for several administration or
response queues, for the dead-letter queue of an application, and for a few things of later documents; who sends such a
message needs another way.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from lior.errors import HRESULTS
from lior.message import (
    MAX_LABEL_LENGTH,
    NULL_CORRELATION_ID,
    NULL_GUID,
    Message,
    MessageSecurity,
    MessageTransaction,
    ObjectId,
    PrivacyLevel,
)
from lior.names import MultipleName, QueueFormat, parse_format_name, to_queue_format
from lior.wire.interfaces.structures import (
    CACTB_RECEIVE,
    CACTB_SEND,
    MAX_FORMAT_NAME_LENGTH,
    CACTransferBufferV2,
    Receive,
    Send,
)
from lior.wire.remote_packets import LEVELS

DEAD_LETTER: Final = 1  # pAuditing (2.2.3.2)
JOURNAL: Final = 2
PRIVACY: Final = {  # pulPrivLevel has numbers of its own, and none above 128 bits
    PrivacyLevel.NONE.value: 0, PrivacyLevel.BASE.value: 1, PrivacyLevel.ENHANCED.value: 2,
}  # fmt: skip
_MEMBERS_OF_OTHERS: Final = ("application_deadletter_queue", "tracing_queue", "allow_peek_when_locked", "soap")
_NOTHING: Final = {"application_deadletter_queue": "", "tracing_queue": NULL_GUID, "allow_peek_when_locked": False,
                   "soap": None}  # fmt: skip


# Sending


def inexpressible(message: Message) -> str:
    """The first property of a message that the structure has no member for; empty if there is none."""
    for name in _MEMBERS_OF_OTHERS:
        if getattr(message, name) != _NOTHING[name]:
            return name
    if not message.time_to_reach_queue:
        return "time_to_reach_queue"  # 0 stands for infinite there (3.1.5.2)
    for name in ("administration_queue", "response_queue"):
        if "," in getattr(message, name):
            return name
    security = message.security
    if security is not None:
        if security.multi_queue_signature:
            return "multi_queue_signature"
        if security.privacy_level not in PRIVACY:
            return "privacy_level"
    return ""


def sent(message: Message, uow: UUID | None = None) -> CACTransferBufferV2:
    """ptb of rpc_ACSendMessageEx (3.1.5.2)."""
    title = message.label + "\0" if message.label else None
    size, units = len(message.body), len(message.label.encode("utf-16-le", "surrogatepass")) // 2 + 1
    auditing = message.negative_journaling_requested * DEAD_LETTER + message.positive_journaling_requested * JOURNAL
    correlated = message.correlation_id != NULL_CORRELATION_ID
    buffer = CACTransferBufferV2(
        CACTB_SEND, Send(_queue_format(message.administration_queue), _queue_format(message.response_queue)),
        p_class=message.message_class or None,
        pp_correlation_id=message.correlation_id if correlated else None,
        p_priority=message.priority,
        p_delivery=message.delivery_guarantee,
        p_acknowledge=message.acknowledgements_requested or None,
        p_auditing=auditing or None,
        p_application_tag=message.application_tag or None,
        pp_body=message.body,
        ul_body_buffer_size_in_bytes=size,
        ul_alloc_body_buffer_in_bytes=size,
        pp_title=title,
        ul_title_buffer_size_in_wchars=0 if title is None else units,
        ul_absolute_time_to_queue=message.time_to_reach_queue,
        ul_relative_time_to_live=message.time_to_be_received,
        p_trace=1 if message.tracing_requested else None,
        p_uow=uow,
        pp_msg_extension=message.extension or None,
        ul_msg_extension_buffer_in_bytes=len(message.extension),
        pp_connector_type=message.connector_type,
        pul_body_type=message.body_type or None,
    )  # fmt: skip
    if message.security is not None:
        _put_security(buffer, message.security)
    return buffer


def _queue_format(name: str) -> QueueFormat | None:
    if not name:
        return None
    parsed = parse_format_name(name)
    assert not isinstance(parsed, MultipleName)  # `inexpressible` was asked
    return to_queue_format(parsed)


def _put_security(buffer: CACTransferBufferV2, security: MessageSecurity) -> None:
    """The signature is the second of the two parts that ppSignature has; the first one, that of MSMQ 1.0, is empty."""
    buffer.pul_priv_level = PRIVACY[security.privacy_level] or None
    buffer.pul_hash_alg = security.hash_algorithm
    buffer.pul_encrypt_alg = security.encryption_algorithm if buffer.pul_priv_level else None
    if security.sender_identifier:
        buffer.pul_sender_id_type = security.sender_identifier_type
        buffer.pp_sender_id = security.sender_identifier
        buffer.u_sender_id_len = len(security.sender_identifier)
    if security.sender_certificate:
        buffer.pp_sender_cert = security.sender_certificate
        buffer.ul_sender_cert_len = len(security.sender_certificate)
    if security.symmetric_key:
        buffer.pp_symm_keys = security.symmetric_key
        buffer.ul_symm_keys_size = len(security.symmetric_key)
        buffer.b_encrypted = 1
    if security.signature:
        name = security.authentication_provider_name + "\0"
        buffer.ppwcs_prov_name = name
        buffer.ul_prov_name_len = len(name)
        buffer.pul_prov_type = security.authentication_provider_type
        buffer.pp_signature = security.signature
        buffer.ul_signature_size = len(security.signature)
        buffer.pul_auth_prov_name_len_prop = len(name) + len(security.signature)


# Receiving

TOO_SMALL: Final = frozenset(
    HRESULTS[f"MQ_ERROR_{name}"]
    for name in (
        "BUFFER_OVERFLOW", "FORMATNAME_BUFFER_TOO_SMALL", "LABEL_BUFFER_TOO_SMALL", "SENDERID_BUFFER_TOO_SMALL",
        "SENDER_CERT_BUFFER_TOO_SMALL", "SYMM_KEY_BUFFER_TOO_SMALL", "SIGNATURE_BUFFER_TOO_SMALL",
        "PROV_NAME_BUFFER_TOO_SMALL",
    )
)  # fmt: skip


class Room:
    """How large the buffers of a receive are. They travel whole in both directions, so they start small, and what a
    message did not fit into is what the next receive from that queue has."""

    __slots__ = ("admin", "body", "certificate", "dest", "extension", "key", "ordering", "provider", "response",
                 "sender", "signature")  # fmt: skip

    def __init__(self) -> None:
        self.response = self.admin = self.dest = self.ordering = 128  # WCHARs
        self.body = 4096
        self.extension = 0
        self.sender = 68  # the longest SID
        self.certificate = self.key = self.signature = 0
        self.provider = 0

    def grown(self, found: CACTransferBufferV2) -> bool:
        """As large as the answer to a receive says; whether that is more than before."""
        transfer = found.transfer
        assert isinstance(transfer, Receive)
        before = [getattr(self, name) for name in self.__slots__]
        for name, needed in (
            ("response", transfer.pul_response_format_name_len_prop),
            ("admin", transfer.pul_admin_format_name_len_prop),
            ("dest", transfer.pul_dest_format_name_len_prop),
            ("ordering", transfer.pul_ordering_format_name_len_prop),
        ):  # fmt: skip
            setattr(self, name, min(max(getattr(self, name), needed or 0), MAX_FORMAT_NAME_LENGTH))
        for name, needed in (
            ("body", found.p_body_size), ("extension", found.p_msg_extension_size),
            ("sender", found.pul_sender_id_len_prop), ("certificate", found.pul_sender_cert_len_prop),
            ("key", found.pul_symm_keys_size_prop), ("signature", found.pul_signature_size_prop),
            ("provider", found.pul_auth_prov_name_len_prop),
        ):  # fmt: skip
            setattr(self, name, min(max(getattr(self, name), needed or 0), MOST))
        return [getattr(self, name) for name in self.__slots__] != before


MOST: Final = 4 << 20  # no message is larger


def wanted(room: Room, action: int, timeout_ms: int, cursor: int, uow: UUID | None) -> CACTransferBufferV2:
    """ptb of rpc_ACReceiveMessageEx (3.1.5.3): every buffer, and every property."""
    receive = Receive(
        request_timeout=timeout_ms, action=action, cursor=cursor,
        ul_response_format_name_len=room.response, pp_response_format_name="",
        pul_response_format_name_len_prop=room.response,
        ul_admin_format_name_len=room.admin, pp_admin_format_name="", pul_admin_format_name_len_prop=room.admin,
        ul_dest_format_name_len=room.dest, pp_dest_format_name="", pul_dest_format_name_len_prop=room.dest,
        ul_ordering_format_name_len=room.ordering, pp_ordering_format_name="",
        pul_ordering_format_name_len_prop=room.ordering,
    )  # fmt: skip
    empty = UUID(int=0)
    return CACTransferBufferV2(
        CACTB_RECEIVE, receive,
        p_class=0, pp_message_id=ObjectId(empty, 0), pp_correlation_id=NULL_CORRELATION_ID, p_sent_time=0,
        p_arrived_time=0, p_priority=0, p_delivery=0, p_acknowledge=0, p_auditing=0, p_application_tag=0,
        pp_body=b"", ul_body_buffer_size_in_bytes=room.body, ul_alloc_body_buffer_in_bytes=room.body, p_body_size=0,
        pp_title="", ul_title_buffer_size_in_wchars=MAX_LABEL_LENGTH + 1,
        pul_title_buffer_size_in_wchars=MAX_LABEL_LENGTH + 1,
        pul_relative_time_to_queue=0, pul_relative_time_to_live=0, p_trace=0, pul_sender_id_type=0,
        pp_sender_id=b"", u_sender_id_len=room.sender, pul_sender_id_len_prop=0, pul_priv_level=0, p_authenticated=0,
        pul_hash_alg=0, pul_encrypt_alg=0, pp_sender_cert=b"", ul_sender_cert_len=room.certificate,
        pul_sender_cert_len_prop=0, ppwcs_prov_name="", ul_prov_name_len=room.provider, pul_auth_prov_name_len_prop=0,
        pul_prov_type=0, pp_symm_keys=b"", ul_symm_keys_size=room.key, pul_symm_keys_size_prop=0, pp_signature=b"",
        ul_signature_size=room.signature, pul_signature_size_prop=0, pp_src_qm_id=empty, p_uow=uow,
        pp_msg_extension=b"", ul_msg_extension_buffer_in_bytes=room.extension, p_msg_extension_size=0,
        pp_connector_type=empty, pul_body_type=0, pul_version=0, pb_first_in_xact=0, pb_last_in_xact=0,
        pp_xact_id=ObjectId(empty, 0),
    )  # fmt: skip


def received(found: CACTransferBufferV2) -> Message:
    """The message in an answered buffer."""
    names = found.transfer
    assert isinstance(names, Receive)
    body_size = found.p_body_size or 0
    auditing = found.p_auditing or 0
    connector = found.pp_connector_type
    extension = _bytes(found.pp_msg_extension)[: found.p_msg_extension_size or 0]
    return Message(
        body=_bytes(found.pp_body)[:body_size],
        label=_text(found.pp_title),
        body_type=found.pul_body_type or 0,
        extension=extension,
        application_tag=found.p_application_tag or 0,
        correlation_id=_bytes(found.pp_correlation_id) or NULL_CORRELATION_ID,
        message_class=found.p_class or 0,
        priority=found.p_priority or 0,
        delivery_guarantee=found.p_delivery or 0,
        acknowledgements_requested=found.p_acknowledge or 0,
        positive_journaling_requested=bool(auditing & JOURNAL),
        negative_journaling_requested=bool(auditing & DEAD_LETTER),
        time_to_reach_queue=found.pul_relative_time_to_queue or 0,
        time_to_be_received=found.pul_relative_time_to_live or 0,
        administration_queue=_text(names.pp_admin_format_name),
        response_queue=_text(names.pp_response_format_name),
        destination_queue=_text(names.pp_dest_format_name),
        identifier=found.pp_message_id if isinstance(found.pp_message_id, ObjectId) else None,
        source_queue_manager=found.pp_src_qm_id if isinstance(found.pp_src_qm_id, UUID) else NULL_GUID,
        sent_time=float(found.p_sent_time or 0),
        tracing_requested=bool(found.p_trace),
        connector_type=connector if isinstance(connector, UUID) and connector.int else None,
        arrival_time=float(found.p_arrived_time or 0),
        security=_security(found),
        transaction=_transaction(found, _text(names.pp_ordering_format_name)),
    )


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""


def _text(value: object) -> str:
    return value.partition("\0")[0] if isinstance(value, str) else ""


def _security(found: CACTransferBufferV2) -> MessageSecurity | None:
    sender = _bytes(found.pp_sender_id)[: found.pul_sender_id_len_prop or 0]
    certificate = _bytes(found.pp_sender_cert)[: found.pul_sender_cert_len_prop or 0]
    signature = _bytes(found.pp_signature)[: found.pul_signature_size_prop or 0]
    if not (sender or certificate or signature or found.pul_priv_level or found.p_authenticated):
        return None
    names = {number: level for level, number in PRIVACY.items()}
    return MessageSecurity(
        sender_identifier_type=found.pul_sender_id_type or 0,
        sender_identifier=sender,
        sender_certificate=certificate,
        signature=signature,
        authentication_level=LEVELS.get(found.p_authenticated or 0, 0),
        authentication_provider_type=found.pul_prov_type or 0,
        authentication_provider_name=_text(found.ppwcs_prov_name),
        symmetric_key=_bytes(found.pp_symm_keys)[: found.pul_symm_keys_size_prop or 0],
        privacy_level=names.get(found.pul_priv_level or 0, found.pul_priv_level or 0),
        hash_algorithm=found.pul_hash_alg or 0,
        encryption_algorithm=found.pul_encrypt_alg or 0,
    )


def _transaction(found: CACTransferBufferV2, status_queue: str) -> MessageTransaction | None:
    identifier = found.pp_xact_id
    number = identifier.uniquifier if isinstance(identifier, ObjectId) else 0
    if not (number or found.pb_first_in_xact or found.pb_last_in_xact):
        return None
    return MessageTransaction(
        index=number & 0xFFFFF, first_in_transaction=bool(found.pb_first_in_xact),
        last_in_transaction=bool(found.pb_last_in_xact), status_queue=status_queue,
    )  # fmt: skip
