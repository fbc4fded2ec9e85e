"""Message -> CACTransferBufferV2 of a receive ([MS-MQMP] 2.2.3.2, 3.1.1.11, 3.1.5.3).

Two steps: `shortage` says whether the client's buffers hold the message, before the message leaves its queue; `fill`
puts it in. What is NULL stays NULL, what is not stays not, and no array grows beyond what the client sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lior.errors import HRESULTS, InvalidParameter
from lior.message import INFINITE, NULL_GUID, Message, MessageSecurity, ObjectId, PrivacyLevel
from lior.queues.expiry import time_to_be_received_end
from lior.wire.interfaces.structures import CACTB_RECEIVE, CACTransferBufferV2, Receive
from lior.wire.ndr import NULL
from lior.wire.remote_packets import NUMBERS

FALCON_PACKET_VERSION: Final = 0x10
MAX_FORMAT_NAME: Final = 1024

BODY_SHORT: Final = HRESULTS["MQ_ERROR_BUFFER_OVERFLOW"]
LABEL_SHORT: Final = HRESULTS["MQ_ERROR_LABEL_BUFFER_TOO_SMALL"]
NAME_SHORT: Final = HRESULTS["MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL"]
SENDER_SHORT: Final = HRESULTS["MQ_ERROR_SENDERID_BUFFER_TOO_SMALL"]
CERTIFICATE_SHORT: Final = HRESULTS["MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL"]
PROVIDER_SHORT: Final = HRESULTS["MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL"]
KEY_SHORT: Final = HRESULTS["MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL"]
SIGNATURE_SHORT: Final = HRESULTS["MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL"]

_PRIVACY: Final = {PrivacyLevel.ENHANCED.value: 2}  # as 2.2.3.2 numbers it
_PLAIN: Final = MessageSecurity(hash_algorithm=0, encryption_algorithm=0)
_NO_OBJECT: Final = ObjectId(NULL_GUID, 0)


def receive_of(ptb: CACTransferBufferV2) -> Receive:
    """The arm of a receive, with what 3.1.5.3 asks of its sizes."""
    receive = ptb.transfer
    if ptb.u_transfer_type != CACTB_RECEIVE or not isinstance(receive, Receive):
        raise InvalidParameter(f"transfer type {ptb.u_transfer_type} of a receive", where="uTransferType",
                               remedy="use 1")
    if not given(ptb.pp_body) and (ptb.ul_body_buffer_size_in_bytes or ptb.ul_alloc_body_buffer_in_bytes):
        raise InvalidParameter("a size without a body buffer", where="ulBodyBufferSizeInBytes")
    return receive


def given(pointer: object) -> bool:
    """There is a buffer: neither of its two pointers is NULL."""
    return pointer is not None and pointer is not NULL


def units(text: str) -> int:
    """UTF-16 code units with the NUL; nothing for no text."""
    if not text:
        return 0
    return len(text) + 1 if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2 + 1


def shortage(ptb: CACTransferBufferV2, message: Message) -> int:
    """0 if every buffer that the client gave holds its part, else the code for the first that does not. Sizes are set
    either way, so that the client can come again with room enough (MP-169)."""
    code = 0
    size = len(message.body)
    if ptb.p_body_size is not None:
        ptb.p_body_size = size
    if given(ptb.pp_body) and ptb.ul_body_buffer_size_in_bytes < size:
        code = BODY_SHORT
    if given(ptb.pp_title) or ptb.pul_title_buffer_size_in_wchars is not None:
        short = _title(ptb, units(message.label))
        code = code or short
    if given(ptb.pp_msg_extension) or ptb.p_msg_extension_size is not None:
        size = len(message.extension)
        if ptb.p_msg_extension_size is not None:
            ptb.p_msg_extension_size = size
        if given(ptb.pp_msg_extension) and ptb.ul_msg_extension_buffer_in_bytes < size:
            code = code or BODY_SHORT
    receive = ptb.transfer
    assert isinstance(receive, Receive)
    names, security = _names_shortage(receive, message), _security_shortage(ptb, message.security or _PLAIN)
    return code or names or security


def _title(ptb: CACTransferBufferV2, length: int) -> int:
    room = ptb.ul_title_buffer_size_in_wchars
    if ptb.pul_title_buffer_size_in_wchars is not None:
        room = min(room, ptb.pul_title_buffer_size_in_wchars)
        ptb.pul_title_buffer_size_in_wchars = length
    if not given(ptb.pp_title):
        return 0
    ptb.ul_title_buffer_size_in_wchars = min(ptb.ul_title_buffer_size_in_wchars, length)
    return LABEL_SHORT if length > room else 0


def _names_shortage(receive: Receive, message: Message) -> int:
    """The four names; [MS-MQMP] has the order queue of a transactional message as the fourth."""
    code = 0
    if given(receive.pp_response_format_name) or receive.pul_response_format_name_len_prop is not None:
        code, receive.ul_response_format_name_len, receive.pul_response_format_name_len_prop = _name(
            receive.pp_response_format_name, receive.ul_response_format_name_len,
            receive.pul_response_format_name_len_prop, message.response_queue, code)  # fmt: skip
    if given(receive.pp_admin_format_name) or receive.pul_admin_format_name_len_prop is not None:
        code, receive.ul_admin_format_name_len, receive.pul_admin_format_name_len_prop = _name(
            receive.pp_admin_format_name, receive.ul_admin_format_name_len,
            receive.pul_admin_format_name_len_prop, message.administration_queue, code)  # fmt: skip
    if given(receive.pp_dest_format_name) or receive.pul_dest_format_name_len_prop is not None:
        code, receive.ul_dest_format_name_len, receive.pul_dest_format_name_len_prop = _name(
            receive.pp_dest_format_name, receive.ul_dest_format_name_len,
            receive.pul_dest_format_name_len_prop, message.destination_queue, code)  # fmt: skip
    if given(receive.pp_ordering_format_name) or receive.pul_ordering_format_name_len_prop is not None:
        code, receive.ul_ordering_format_name_len, receive.pul_ordering_format_name_len_prop = _name(
            receive.pp_ordering_format_name, receive.ul_ordering_format_name_len,
            receive.pul_ordering_format_name_len_prop, _status_queue(message), code)  # fmt: skip
    return code


def _name(buffer: object, size: int, length: int | None, name: str, code: int) -> tuple[int, int, int | None]:
    """The code so far or NAME_SHORT, the size on output and the full length."""
    full = units(name)
    room = min(size, MAX_FORMAT_NAME) if length is None else min(size, length)
    if not given(buffer):
        return code, 0, None if length is None else full
    short = full > room
    return code or (NAME_SHORT if short else 0), min(size, full), None if length is None else full


def _status_queue(message: Message) -> str:
    return "" if message.transaction is None else message.transaction.status_queue


def _security_shortage(ptb: CACTransferBufferV2, security: MessageSecurity) -> int:
    """3.1.5.3 has a code for each of these buffers."""
    code = 0
    size = len(security.sender_identifier)
    if ptb.pul_sender_id_len_prop is not None:
        ptb.pul_sender_id_len_prop = size
    if given(ptb.pp_sender_id) and ptb.u_sender_id_len < size:
        code = SENDER_SHORT
    size = len(security.sender_certificate)
    if ptb.pul_sender_cert_len_prop is not None:
        ptb.pul_sender_cert_len_prop = size
    if given(ptb.pp_sender_cert) and ptb.ul_sender_cert_len < size:
        code = code or CERTIFICATE_SHORT
    size = units(security.authentication_provider_name)
    if ptb.pul_auth_prov_name_len_prop is not None:
        ptb.pul_auth_prov_name_len_prop = size
    if given(ptb.ppwcs_prov_name) and ptb.ul_prov_name_len < size:
        code = code or PROVIDER_SHORT
    size = len(security.symmetric_key)
    if ptb.pul_symm_keys_size_prop is not None:
        ptb.pul_symm_keys_size_prop = size
    if given(ptb.pp_symm_keys) and ptb.ul_symm_keys_size < size:
        code = code or KEY_SHORT
    size = len(security.signature)
    if ptb.pul_signature_size_prop is not None:
        ptb.pul_signature_size_prop = size
    if given(ptb.pp_signature) and ptb.ul_signature_size < size:
        code = code or SIGNATURE_SHORT
    return code


def blank(ptb: CACTransferBufferV2) -> None:
    """Take out of a buffer that goes back unfilled what the client sent in it: shape and sizes stay, zeros follow."""
    for member in ("pp_body", "pp_msg_extension", "pp_sender_id", "pp_sender_cert", "pp_symm_keys", "pp_signature"):
        if getattr(ptb, member):
            setattr(ptb, member, b"")
    for member in ("pp_title", "ppwcs_prov_name"):
        if getattr(ptb, member):
            setattr(ptb, member, "")
    receive = ptb.transfer
    if isinstance(receive, Receive):
        for member in ("pp_response_format_name", "pp_admin_format_name", "pp_dest_format_name",
                       "pp_ordering_format_name"):  # fmt: skip
            if getattr(receive, member):
                setattr(receive, member, "")


def not_received(request: Any, code: int) -> Sequence[Any]:
    """The answer of a receive that failed: the whole structure all the same."""
    blank(request.ptb)
    return (request.ptb, code)


def fill(ptb: CACTransferBufferV2, message: Message, now: float) -> None:
    """Put a message that fits into the buffers. `now` is unix seconds, for what is left of its time."""
    if given(ptb.pp_body):
        ptb.pp_body = message.body  # the codec adds zeros up to the client's size
    if given(ptb.pp_title):
        ptb.pp_title = message.label
    if given(ptb.pp_msg_extension):
        ptb.pp_msg_extension = message.extension
    if ptb.pul_body_type is not None:
        ptb.pul_body_type = message.body_type
    if ptb.p_application_tag is not None:
        ptb.p_application_tag = message.application_tag
    if ptb.pul_version is not None:
        ptb.pul_version = FALCON_PACKET_VERSION
    _fill_identity(ptb, message)
    _fill_times(ptb, message, now)
    _fill_delivery(ptb, message)
    _fill_transaction(ptb, message)
    _fill_security(ptb, message.security or _PLAIN)
    _fill_names(ptb, message)


def _fill_identity(ptb: CACTransferBufferV2, message: Message) -> None:
    if ptb.pp_message_id:
        ptb.pp_message_id = message.identifier or _NO_OBJECT
    if given(ptb.pp_correlation_id):
        ptb.pp_correlation_id = message.correlation_id
    if ptb.pp_src_qm_id:
        ptb.pp_src_qm_id = message.source_queue_manager
    if ptb.pp_connector_type:
        ptb.pp_connector_type = message.connector_type or NULL_GUID


def _fill_times(ptb: CACTransferBufferV2, message: Message, now: float) -> None:
    if ptb.p_sent_time is not None:
        ptb.p_sent_time = int(message.sent_time) & 0xFFFFFFFF
    if ptb.p_arrived_time is not None:
        ptb.p_arrived_time = int(message.arrival_time) & 0xFFFFFFFF
    if ptb.pul_relative_time_to_queue is not None:
        ptb.pul_relative_time_to_queue = message.time_to_reach_queue
    if ptb.pul_relative_time_to_live is not None:
        ptb.pul_relative_time_to_live = _time_left(message, now)


def _fill_delivery(ptb: CACTransferBufferV2, message: Message) -> None:
    if ptb.p_class is not None:
        ptb.p_class = message.message_class
    if ptb.p_priority is not None:
        ptb.p_priority = message.priority
    if ptb.p_delivery is not None:
        ptb.p_delivery = message.delivery_guarantee
    if ptb.p_acknowledge is not None:
        ptb.p_acknowledge = message.acknowledgements_requested
    if ptb.p_auditing is not None:
        ptb.p_auditing = message.negative_journaling_requested | message.positive_journaling_requested << 1
    if ptb.p_trace is not None:
        ptb.p_trace = int(message.tracing_requested)


def _time_left(message: Message, now: float) -> int:
    if message.time_to_be_received == INFINITE:
        return INFINITE
    return max(0, int(time_to_be_received_end(message) - now))


def _fill_transaction(ptb: CACTransferBufferV2, message: Message) -> None:
    """The identifier is an OBJECTID: the queue manager and the number of the transaction there ([MS-MQMQ] 2.2.20.5)."""
    transaction = message.transaction
    if ptb.pb_first_in_xact is not None:
        ptb.pb_first_in_xact = int(transaction is not None and transaction.first_in_transaction)
    if ptb.pb_last_in_xact is not None:
        ptb.pb_last_in_xact = int(transaction is not None and transaction.last_in_transaction)
    if ptb.pp_xact_id:
        ptb.pp_xact_id = _NO_OBJECT if transaction is None else ObjectId(message.source_queue_manager,
                                                                         transaction.index)


def _fill_security(ptb: CACTransferBufferV2, security: MessageSecurity) -> None:
    if ptb.pul_sender_id_type is not None:
        ptb.pul_sender_id_type = security.sender_identifier_type
    if given(ptb.pp_sender_id):
        ptb.pp_sender_id = security.sender_identifier
    if given(ptb.pp_sender_cert):
        ptb.pp_sender_cert = security.sender_certificate
    if given(ptb.pp_symm_keys):
        ptb.pp_symm_keys = security.symmetric_key
    if given(ptb.pp_signature):
        ptb.pp_signature = security.signature
    if given(ptb.ppwcs_prov_name):
        ptb.ppwcs_prov_name = security.authentication_provider_name
    if ptb.pul_prov_type is not None:
        ptb.pul_prov_type = security.authentication_provider_type
    if ptb.p_authenticated is not None:
        ptb.p_authenticated = NUMBERS.get(security.authentication_level, 0)
    if ptb.pul_priv_level is not None:
        ptb.pul_priv_level = _PRIVACY.get(security.privacy_level, security.privacy_level)
    if ptb.pul_hash_alg is not None:
        ptb.pul_hash_alg = security.hash_algorithm
    if ptb.pul_encrypt_alg is not None:
        ptb.pul_encrypt_alg = security.encryption_algorithm


def _fill_names(ptb: CACTransferBufferV2, message: Message) -> None:
    receive = ptb.transfer
    assert isinstance(receive, Receive)
    if given(receive.pp_response_format_name):
        receive.pp_response_format_name = message.response_queue
    if given(receive.pp_admin_format_name):
        receive.pp_admin_format_name = message.administration_queue
    if given(receive.pp_dest_format_name):
        receive.pp_dest_format_name = message.destination_queue
    if given(receive.pp_ordering_format_name):
        receive.pp_ordering_format_name = _status_queue(message)
