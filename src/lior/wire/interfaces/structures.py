"""The structures of qmcomm and qmcomm2 ([MS-MQMP] 2.2.3): dataclasses that a handler fills, and their descriptions.

None is a NULL pointer. A pointer to a pointer is None where the outer one is NULL and `lior.wire.ndr.NULL` where only
the inner one is. Counts are members as in the IDL: an array that is shorter than its count is filled with zeros when it
is written, a longer one is refused.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from lior.message import ObjectId
from lior.names import QueueFormat
from lior.wire.ndr import Null
from lior.wire.ndr_arrays import CHARACTERS, OCTETS, VIEW, Array
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_structure import Structure, Union
from lior.wire.ndr_types import GUID, I32, OBJECTID, QUEUE_FORMAT, U8, U16, U32, XACTUOW, Ranged, Type

CACTB_SEND: Final = 0  # TRANSFER_TYPE, 2.2.2.1
CACTB_RECEIVE: Final = 1
CACTB_CREATECURSOR: Final = 2

MQ_ACTION_RECEIVE: Final = 0x00000000
MQ_ACTION_PEEK_CURRENT: Final = 0x80000000
MQ_ACTION_PEEK_NEXT: Final = 0x80000001

MAX_FORMAT_NAME_LENGTH: Final = 1024  # the ranges of 2.2.3.2

Octets: TypeAlias = bytes | bytearray | memoryview


@dataclass(slots=True)
class CACCreateRemoteCursor:
    """2.2.3.4"""

    h_cursor: int = 0
    srv_h_ac_queue: int = 0
    cli_p_qm_queue: int = 0


@dataclass(slots=True)
class Send:
    """The arm CACTB_SEND of CACTransferBufferV1."""

    p_admin_queue_format: QueueFormat | None = None
    p_response_queue_format: QueueFormat | None = None


@dataclass(slots=True)
class Receive:
    """The arm CACTB_RECEIVE. Names are arrays of so many WCHARs, NUL and what is behind it included."""

    request_timeout: int = 0
    action: int = MQ_ACTION_RECEIVE
    asynchronous: int = 0
    cursor: int = 0
    ul_response_format_name_len: int = 0
    ul_admin_format_name_len: int = 0
    ul_dest_format_name_len: int = 0
    ul_ordering_format_name_len: int = 0
    pp_response_format_name: str | Null | None = None
    pul_response_format_name_len_prop: int | None = None
    pp_admin_format_name: str | Null | None = None
    pul_admin_format_name_len_prop: int | None = None
    pp_dest_format_name: str | Null | None = None
    pul_dest_format_name_len_prop: int | None = None
    pp_ordering_format_name: str | Null | None = None
    pul_ordering_format_name_len_prop: int | None = None


@dataclass(slots=True)
class CACTransferBufferV1:
    """2.2.3.2, its counts and flags before its pointers. `transfer` is what `u_transfer_type` selects."""

    u_transfer_type: int
    transfer: Send | Receive | CACCreateRemoteCursor
    ul_body_buffer_size_in_bytes: int = 0
    ul_alloc_body_buffer_in_bytes: int = 0
    ul_title_buffer_size_in_wchars: int = 0
    ul_absolute_time_to_queue: int = 0
    ul_relative_time_to_live: int = 0
    ul_auth_level: int = 0
    ul_sender_cert_len: int = 0
    ul_prov_name_len: int = 0
    f_default_provider: int = 0
    ul_symm_keys_size: int = 0
    b_encrypted: int = 0
    b_authenticated: int = 0
    u_sender_id_len: int = 0
    ul_signature_size: int = 0
    ul_msg_extension_buffer_in_bytes: int = 0
    p_class: int | None = None
    pp_message_id: ObjectId | Null | None = None
    pp_correlation_id: Octets | Null | None = None
    p_sent_time: int | None = None
    p_arrived_time: int | None = None
    p_priority: int | None = None
    p_delivery: int | None = None
    p_acknowledge: int | None = None
    p_auditing: int | None = None
    p_application_tag: int | None = None
    pp_body: Octets | Null | None = None
    p_body_size: int | None = None
    pp_title: str | Null | None = None
    pul_title_buffer_size_in_wchars: int | None = None
    pul_relative_time_to_queue: int | None = None
    pul_relative_time_to_live: int | None = None
    p_trace: int | None = None
    pul_sender_id_type: int | None = None
    pp_sender_id: Octets | Null | None = None
    pul_sender_id_len_prop: int | None = None
    pul_priv_level: int | None = None
    p_authenticated: int | None = None
    pul_hash_alg: int | None = None
    pul_encrypt_alg: int | None = None
    pp_sender_cert: Octets | Null | None = None
    pul_sender_cert_len_prop: int | None = None
    ppwcs_prov_name: str | Null | None = None
    pul_auth_prov_name_len_prop: int | None = None
    pul_prov_type: int | None = None
    pp_symm_keys: Octets | Null | None = None
    pul_symm_keys_size_prop: int | None = None
    pp_signature: Octets | Null | None = None
    pul_signature_size_prop: int | None = None
    pp_src_qm_id: UUID | Null | None = None
    p_uow: UUID | None = None
    pp_msg_extension: Octets | Null | None = None
    p_msg_extension_size: int | None = None
    pp_connector_type: UUID | Null | None = None
    pul_body_type: int | None = None
    pul_version: int | None = None


@dataclass(slots=True)
class CACTransferBufferV2(CACTransferBufferV1):
    """2.2.3.3: the members of `old` are its own."""

    pb_first_in_xact: int | None = None
    pb_last_in_xact: int | None = None
    pp_xact_id: ObjectId | Null | None = None


@dataclass(slots=True)
class ObjectFormat:
    """OBJECT_FORMAT, 2.2.3.5. `obj_type` has no other value on the wire."""

    obj_type: int = 1
    p_queue_format: QueueFormat | None = None


def _octets(size: str, length: str | None = None) -> Type:
    return Unique(Unique(Array(OCTETS, size, length)))


def _characters(size: str, length: str | None = None) -> Type:
    return Unique(Unique(Array(CHARACTERS, size, length)))


_FORMAT_NAME_LEN: Final = Ranged(U32, 0, MAX_FORMAT_NAME_LENGTH)

CAC_CREATE_REMOTE_CURSOR: Final = Structure(CACCreateRemoteCursor, (
    ("h_cursor", U32),
    ("srv_h_ac_queue", U32),
    ("cli_p_qm_queue", U32),
))
SEND: Final = Structure(Send, (
    ("p_admin_queue_format", Unique(QUEUE_FORMAT)),
    ("p_response_queue_format", Unique(QUEUE_FORMAT)),
))
RECEIVE: Final = Structure(Receive, (
    ("request_timeout", U32),
    ("action", U32),
    ("asynchronous", U32),
    ("cursor", U32),
    ("ul_response_format_name_len", _FORMAT_NAME_LEN),
    ("pp_response_format_name", _characters("ul_response_format_name_len")),
    ("pul_response_format_name_len_prop", Unique(U32)),
    ("ul_admin_format_name_len", _FORMAT_NAME_LEN),
    ("pp_admin_format_name", _characters("ul_admin_format_name_len")),
    ("pul_admin_format_name_len_prop", Unique(U32)),
    ("ul_dest_format_name_len", _FORMAT_NAME_LEN),
    ("pp_dest_format_name", _characters("ul_dest_format_name_len")),
    ("pul_dest_format_name_len_prop", Unique(U32)),
    ("ul_ordering_format_name_len", _FORMAT_NAME_LEN),
    ("pp_ordering_format_name", _characters("ul_ordering_format_name_len")),
    ("pul_ordering_format_name_len_prop", Unique(U32)),
))
_V1: Final[tuple[tuple[str, Type], ...]] = (
    ("u_transfer_type", Ranged(U32, 0, 2)),
    ("transfer", Union("u_transfer_type", U32, {
        CACTB_SEND: SEND, CACTB_RECEIVE: RECEIVE, CACTB_CREATECURSOR: CAC_CREATE_REMOTE_CURSOR})),
    ("p_class", Unique(U16)),
    ("pp_message_id", Unique(Unique(OBJECTID))),
    ("pp_correlation_id", Unique(Unique(Array(OCTETS, 20, 20)))),
    ("p_sent_time", Unique(U32)),
    ("p_arrived_time", Unique(U32)),
    ("p_priority", Unique(U8)),
    ("p_delivery", Unique(U8)),
    ("p_acknowledge", Unique(U8)),
    ("p_auditing", Unique(U8)),
    ("p_application_tag", Unique(U32)),
    ("pp_body", Unique(Unique(Array(VIEW, "ul_alloc_body_buffer_in_bytes", "ul_body_buffer_size_in_bytes")))),
    ("ul_body_buffer_size_in_bytes", U32),
    ("ul_alloc_body_buffer_in_bytes", U32),
    ("p_body_size", Unique(U32)),
    ("pp_title", _characters("ul_title_buffer_size_in_wchars", "ul_title_buffer_size_in_wchars")),
    ("ul_title_buffer_size_in_wchars", U32),
    ("pul_title_buffer_size_in_wchars", Unique(U32)),
    ("ul_absolute_time_to_queue", U32),
    ("pul_relative_time_to_queue", Unique(U32)),
    ("ul_relative_time_to_live", U32),
    ("pul_relative_time_to_live", Unique(U32)),
    ("p_trace", Unique(U8)),
    ("pul_sender_id_type", Unique(U32)),
    ("pp_sender_id", _octets("u_sender_id_len")),
    ("pul_sender_id_len_prop", Unique(U32)),
    ("pul_priv_level", Unique(U32)),
    ("ul_auth_level", U32),
    ("p_authenticated", Unique(U8)),
    ("pul_hash_alg", Unique(U32)),
    ("pul_encrypt_alg", Unique(U32)),
    ("pp_sender_cert", _octets("ul_sender_cert_len")),
    ("ul_sender_cert_len", U32),
    ("pul_sender_cert_len_prop", Unique(U32)),
    ("ppwcs_prov_name", _characters("ul_prov_name_len")),
    ("ul_prov_name_len", U32),
    ("pul_auth_prov_name_len_prop", Unique(U32)),
    ("pul_prov_type", Unique(U32)),
    ("f_default_provider", I32),
    ("pp_symm_keys", _octets("ul_symm_keys_size")),
    ("ul_symm_keys_size", U32),
    ("pul_symm_keys_size_prop", Unique(U32)),
    ("b_encrypted", U8),
    ("b_authenticated", U8),
    ("u_sender_id_len", U16),
    ("pp_signature", _octets("ul_signature_size")),
    ("ul_signature_size", U32),
    ("pul_signature_size_prop", Unique(U32)),
    ("pp_src_qm_id", Unique(Unique(GUID))),
    ("p_uow", Unique(XACTUOW)),
    ("pp_msg_extension", _octets("ul_msg_extension_buffer_in_bytes", "ul_msg_extension_buffer_in_bytes")),
    ("ul_msg_extension_buffer_in_bytes", U32),
    ("p_msg_extension_size", Unique(U32)),
    ("pp_connector_type", Unique(Unique(GUID))),
    ("pul_body_type", Unique(U32)),
    ("pul_version", Unique(U32)),
)
CAC_TRANSFER_BUFFER_V1: Final = Structure(CACTransferBufferV1, _V1)
CAC_TRANSFER_BUFFER_V2: Final = Structure(CACTransferBufferV2, (
    *_V1,
    ("pb_first_in_xact", Unique(U8)),
    ("pb_last_in_xact", Unique(U8)),
    ("pp_xact_id", Unique(Unique(OBJECTID))),
))
OBJECT_FORMAT: Final = Structure(ObjectFormat, (
    ("obj_type", Ranged(U32, 1, 2)),
    ("p_queue_format", Union("obj_type", U32, {1: Unique(QUEUE_FORMAT)})),
))
