"""qmmgmt: what a queue manager tells about itself and its queues ([MS-MQMR], IDL in section 6); NDR alone (2.1)."""

from dataclasses import dataclass
from typing import Final

from lior.names import QueueFormat
from lior.wire.ndr_arrays import PROPVARIANT, Array
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_structure import Structure, Union
from lior.wire.ndr_types import ENUM, QUEUE_FORMAT, STRING, U32, Ranged
from lior.wire.rpc_interface import In, InOut, interface, method

MGMT_MACHINE: Final = 1  # MgmtObjectType
MGMT_QUEUE: Final = 2
MGMT_SESSION: Final = 3


@dataclass(slots=True)
class Reserved:
    """Reserved1 and Reserved2: what stands where there is no queue."""

    reserved: int = 0


@dataclass(slots=True)
class QueueReference:
    """The arm MGMT_QUEUE."""

    p_queue_format: QueueFormat | None = None


@dataclass(slots=True)
class MgmtObject:
    """MGMT_OBJECT, 2.2.1.2; `object` is a QueueReference for MGMT_QUEUE."""

    type: int
    object: QueueReference | Reserved


_RESERVED: Final = Structure(Reserved, (("reserved", U32),))
MGMT_OBJECT: Final = Structure(MgmtObject, (
    ("type", ENUM),
    ("object", Union("type", ENUM, {
        MGMT_MACHINE: _RESERVED,
        MGMT_QUEUE: Structure(QueueReference, (("p_queue_format", Unique(QUEUE_FORMAT)),)),
        MGMT_SESSION: _RESERVED})),
))

QMMGMT: Final = interface(
    "qmmgmt", "41208ee0-e970-11d1-9b9e-00e02c064c39", (1, 0), 2,
    method(0, "R_QMMgmtGetInfo",
           In("p_object_format", MGMT_OBJECT),
           In("cp", Ranged(U32, 1, 128)),
           In("a_prop", Array(U32, "cp")),
           InOut("ap_var", Array(PROPVARIANT, "cp"))),
    method(1, "R_QMMgmtAction",
           In("p_object_format", MGMT_OBJECT),
           In("lpwsz_action", STRING)),
)
