"""qmcomm2: messages and cursors of a message queuing client ([MS-MQMP] 3.1.5, IDL in section 6)."""

from typing import Final

from lior.wire.interfaces.structures import CAC_CREATE_REMOTE_CURSOR, CAC_TRANSFER_BUFFER_V2
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_types import CONTEXT_HANDLE, OBJECTID, QUEUE_FORMAT, U32
from lior.wire.rpc_interface import In, InOut, interface, method

QMCOMM2: Final = interface(
    "qmcomm2", "76d12b80-3467-11d3-91ff-0090272f9ea3", (1, 0), 4,
    method(0, "QMSendMessageInternalEx",
           In("p_queue_format", QUEUE_FORMAT),
           In("ptb", CAC_TRANSFER_BUFFER_V2),
           InOut("p_message_id", Unique(OBJECTID))),
    method(1, "rpc_ACSendMessageEx",
           In("h_queue", CONTEXT_HANDLE),
           In("ptb", CAC_TRANSFER_BUFFER_V2),
           InOut("p_message_id", Unique(OBJECTID))),
    method(2, "rpc_ACReceiveMessageEx",
           In("h_qm_context", U32),
           InOut("ptb", CAC_TRANSFER_BUFFER_V2)),
    method(3, "rpc_ACCreateCursorEx",
           In("h_queue", CONTEXT_HANDLE),
           InOut("pcc", CAC_CREATE_REMOTE_CURSOR)),
)
