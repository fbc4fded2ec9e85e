"""RemoteRead: how a queue manager reads from another one's queue ([MS-MQRR], IDL in section 6)."""

from dataclasses import dataclass
from typing import Final

from lior.wire.ndr import NDR, NDR64
from lior.wire.ndr_arrays import OCTETS, VIEW, Array
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_structure import Structure
from lior.wire.ndr_types import CONTEXT_HANDLE, ENUM, GUID, I32, QUEUE_FORMAT, U8, U16, U32, U64, XACTUOW, Ranged
from lior.wire.rpc_interface import In, InOut, Out, interface, method

ST_FULL_PACKET: Final = 0  # SectionType, 2.2.5.1
ST_BINARY_FIRST_SECTION: Final = 1
ST_BINARY_SECOND_SECTION: Final = 2
ST_SRMP_FIRST_SECTION: Final = 3
ST_SRMP_SECOND_SECTION: Final = 4


@dataclass(slots=True)
class SectionBuffer:
    """2.2.6; SectionSizeAlloc is the size of the section in the packet, SectionSize what of it is here."""

    section_buffer_type: int = ST_FULL_PACKET
    section_size_alloc: int = 0
    section_size: int = 0
    p_section_buffer: bytes | bytearray | memoryview | None = None


SECTION_BUFFER: Final = Structure(SectionBuffer, (
    ("section_buffer_type", ENUM),
    ("section_size_alloc", U32),
    ("section_size", U32),
    ("p_section_buffer", Unique(Array(VIEW, "section_size"))),
))

_OPENING: Final = (
    In("p_queue_format", QUEUE_FORMAT),
    In("dw_access", U32),
    In("dw_share_mode", U32),
    In("p_client_id", GUID),
    In("f_non_routing_server", I32),
    In("major", U8),
    In("minor", U8),
    In("build_number", U16),
    In("f_workgroup", I32),
)
_READING: Final = (
    In("ph_context", CONTEXT_HANDLE),
    In("lookup_id", U64),
    In("h_cursor", U32),
    In("ul_action", U32),
    In("ul_timeout", U32),
    In("dw_request_id", U32),
    In("dw_max_body_size", U32),
    In("dw_max_compound_message_size", U32),
)
_READ: Final = (
    Out("pdw_arrive_time", U32),
    Out("p_sequence_id", U64),
    Out("pdw_number_of_sections", U32),
    Out("pp_packet_sections", Unique(Array(SECTION_BUFFER, "pdw_number_of_sections"))),
)
_ENDING: Final = (
    In("ph_context", CONTEXT_HANDLE),
    In("dw_ack", Ranged(U32, 1, 2)),
    In("dw_request_id", U32),
)

REMOTE_READ: Final = interface(
    "RemoteRead", "1a9134dd-7b39-45ba-ad88-44d01ca47f28", (1, 0), 16,
    method(0, "R_GetServerPort"),
    method(2, "R_OpenQueue",
           *_OPENING,
           Out("pph_context", CONTEXT_HANDLE),
           result=None),
    method(3, "R_CloseQueue",
           InOut("pph_context", CONTEXT_HANDLE)),
    method(4, "R_CreateCursor",
           In("ph_context", CONTEXT_HANDLE),
           Out("ph_cursor", U32)),
    method(5, "R_CloseCursor",
           In("ph_context", CONTEXT_HANDLE),
           In("h_cursor", U32)),
    method(6, "R_PurgeQueue",
           In("ph_context", CONTEXT_HANDLE)),
    method(7, "R_StartReceive",
           *_READING, *_READ),
    method(8, "R_CancelReceive",
           In("ph_context", CONTEXT_HANDLE),
           In("dw_request_id", U32)),
    method(9, "R_EndReceive",
           *_ENDING),
    method(10, "R_MoveMessage",
           In("ph_context_from", CONTEXT_HANDLE),
           In("ull_context_to", U64),
           In("lookup_id", U64),
           In("p_transaction_id", XACTUOW)),
    method(11, "R_OpenQueueForMove",
           *_OPENING,
           Out("p_move_context", U64),
           Out("pph_context", CONTEXT_HANDLE),
           result=None),
    method(12, "R_QMEnlistRemoteTransaction",
           In("p_transaction_id", XACTUOW),
           In("cb_propagation_token", Ranged(U32, 0, 131072)),
           In("pb_propagation_token", Array(OCTETS, "cb_propagation_token")),
           In("p_queue_format", QUEUE_FORMAT)),
    method(13, "R_StartTransactionalReceive",
           *_READING,
           In("p_transaction_id", XACTUOW),
           *_READ),
    method(14, "R_SetUserAcknowledgementClass",
           In("ph_context", CONTEXT_HANDLE),
           In("lookup_id", U64),
           In("us_class", U16)),
    method(15, "R_EndTransactionalReceive",
           *_ENDING),
    syntaxes=(NDR, NDR64),
)
