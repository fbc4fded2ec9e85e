"""qm2qm: how a queue manager reads from another one's queue, the old way ([MS-MQQP], IDL in section 6)."""

from dataclasses import dataclass
from typing import Final

from lior.wire.ndr import NDR, NDR64
from lior.wire.ndr_arrays import VIEW, Array
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_structure import Structure
from lior.wire.ndr_types import CONTEXT_HANDLE, ENUM, GUID, U8, U16, U32, U64, Ranged
from lior.wire.rpc_interface import In, InOut, Out, interface, method

RR_UNKNOWN: Final = 0  # REMOTEREADACK, 2.2.1.3
RR_NACK: Final = 1
RR_ACK: Final = 2

MAX_PACKET_SIZE: Final = 4325376


@dataclass(slots=True)
class RemoteReadDesc:
    """REMOTEREADDESC, 2.2.2.1; `lp_buffer` is a whole packet of [MS-MQMQ] 2.2.20."""

    h_remote_queue: int = 0
    h_cursor: int = 0
    ul_action: int = 0
    ul_timeout: int = 0
    dw_size: int = 0
    dw_queue: int = 0
    dw_request_id: int = 0
    reserved: int = 0
    dw_arrive_time: int = 0
    e_ack_nack: int = RR_UNKNOWN
    lp_buffer: bytes | bytearray | memoryview | None = None


@dataclass(slots=True)
class RemoteReadDesc2:
    """REMOTEREADDESC2, 2.2.2.2"""

    sequential_id: int = 0
    p_remote_read_desc: RemoteReadDesc | None = None


REMOTEREADDESC: Final = Structure(RemoteReadDesc, (
    ("h_remote_queue", U32),
    ("h_cursor", U32),
    ("ul_action", U32),
    ("ul_timeout", U32),
    ("dw_size", Ranged(U32, 0, MAX_PACKET_SIZE)),
    ("dw_queue", U32),
    ("dw_request_id", U32),
    ("reserved", U32),
    ("dw_arrive_time", U32),
    ("e_ack_nack", ENUM),
    ("lp_buffer", Unique(Array(VIEW, "dw_size", "dw_size"))),
))
REMOTEREADDESC2: Final = Structure(RemoteReadDesc2, (
    ("p_remote_read_desc", Unique(REMOTEREADDESC)),
    ("sequential_id", U64),
))

QM2QM: Final = interface(
    "qm2qm", "1088a980-eae5-11d0-8d9b-00a02453c337", (1, 0), 11,
    method(0, "RemoteQMStartReceive",
           Out("pph_context", CONTEXT_HANDLE),
           InOut("lp_remote_read_desc", REMOTEREADDESC)),
    method(1, "RemoteQMEndReceive",
           InOut("pph_context", CONTEXT_HANDLE),
           In("dw_ack", Ranged(U32, 1, 2))),
    method(2, "RemoteQMOpenQueue",
           Out("ph_context", CONTEXT_HANDLE),
           In("p_lic_guid", GUID),
           In("dw_mqs", Ranged(U32, 0, 16)),
           In("h_queue", U32),
           In("p_queue", U32),
           In("dwp_context", U32)),
    method(3, "RemoteQMCloseQueue",
           InOut("pph_context", CONTEXT_HANDLE)),
    method(4, "RemoteQMCloseCursor",
           In("h_queue", U32),
           In("h_cursor", U32)),
    method(5, "RemoteQMCancelReceive",
           In("h_queue", U32),
           In("p_queue", U32),
           In("dw_request_id", U32)),
    method(6, "RemoteQMPurgeQueue",
           In("h_queue", U32)),
    method(7, "RemoteQMGetQMQMServerPort",
           In("dw_port_type", Ranged(U32, 0, 3))),
    method(8, "RemoteQmGetVersion",
           Out("p_major", U8),
           Out("p_minor", U8),
           Out("p_build_number", U16),
           result=None),
    method(9, "RemoteQMStartReceive2",
           Out("pph_context", CONTEXT_HANDLE),
           InOut("lp_remote_read_desc2", REMOTEREADDESC2)),
    method(10, "RemoteQMStartReceiveByLookupId",
           In("lookup_id", U64),
           Out("pph_context", CONTEXT_HANDLE),
           InOut("lp_remote_read_desc2", REMOTEREADDESC2)),
    syntaxes=(NDR, NDR64),
)
