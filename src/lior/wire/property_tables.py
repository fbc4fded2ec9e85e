"""Every property identifier of [MS-MQMQ] 2.3: its type, who may set it, and what values it takes.

Identifiers repeat between object classes, so each class has its own table. Which queue properties can be set, and when,
is [MS-MQMP] 3.1.1.12. Classes that live in a directory are listed so that their identifiers have names and types here;
without a directory nothing stores them.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from lior.errors import HRESULTS
from lior.message import INFINITE, NULL_GUID
from lior.wire.property_rules import (
    Rule,
    between,
    class_d_address,
    constant,
    format_names,
    masked,
    next_hops,
    one_of,
    path_name,
    prefixed,
    public_keys,
    queue_label,
    security_descriptor,
    sequence_info,
    sid,
    sign_certificates,
    size,
    transport_addresses,
    vector_types,
)
from lior.wire.propvariant import (
    VT_BLOB,
    VT_CLSID,
    VT_I2,
    VT_I4,
    VT_I8,
    VT_LPWSTR,
    VT_UI1,
    VT_UI2,
    VT_UI4,
    VT_UI8,
    VT_VARIANT,
    VT_VECTOR,
    Value,
    type_name,
)
from lior.wire.structures import AES_PROVIDER


class ObjectClass(Enum):
    """The classes of 2.3, by the title of their section."""

    QUEUE = "Queue"
    MACHINE = "Machine"
    SITE = "Site"
    CONNECTED_NETWORK = "Connected Network"
    ENTERPRISE = "Enterprise Object"
    USER = "User Object"
    ROUTING_LINK = "Routinglink"
    SETTINGS = "Settings"
    MQ_USER = "MQUser"
    COMPUTER = "Computer"
    MANAGEMENT_MACHINE = "Management Machine"
    MANAGEMENT_QUEUE = "Management Queue"
    DELETION_NOTIFICATION = "Deletion Notification"


class Access(Enum):
    """When a caller may give a value."""

    GET = "never"
    CREATE = "at creation"
    SET = "after creation"
    BOTH = "at creation and later"


MQ_OK: Final = HRESULTS["MQ_OK"]
IGNORED: Final = HRESULTS["MQ_INFORMATION_PROPERTY_IGNORED"]
UNSUPPORTED: Final = HRESULTS["MQ_INFORMATION_UNSUPPORTED_PROPERTY"]


@dataclass(frozen=True, slots=True)
class Property:
    """One property identifier. `status` other than MQ_OK: a value is accepted, and dropped with this code."""

    propid: int
    name: str
    vt: int
    access: Access = Access.BOTH
    rule: Rule | None = None
    default: Value = None
    since: int = 1  # the first MSMQ version that knows it
    status: int = MQ_OK
    required: bool = False  # at creation

    @property
    def type_name(self) -> str:
        return type_name(self.vt)


_p = Property
_GET, _CREATE, _SET = Access.GET, Access.CREATE, Access.SET
_BOOLEAN: Final = one_of(0, 1)
_CLSIDS, _STRINGS, _BYTES, _VARIANTS = (VT_VECTOR | vt for vt in (VT_CLSID, VT_LPWSTR, VT_UI1, VT_VARIANT))
_SD, _SD_NT4 = security_descriptor(nt4_only=False), security_descriptor(nt4_only=True)
_INFORMATION: Final = masked(0x0F, "SECURITY_INFORMATION bits")
_SERVICE: Final = one_of(0, 1, 2, 4, 8)
_COST: Final = between(1, 999999)
_SEQUENCE: Final = sequence_info()


def _partition(propid: int, name: str) -> Property:
    """x_PARTITIONID served the replication of mixed-mode directories only: accepted, never stored."""
    return Property(propid, name, VT_CLSID, status=IGNORED)


def _seqnum(propid: int, name: str) -> Property:
    """x_SEQNUM: as x_PARTITIONID."""
    return Property(propid, name, VT_BLOB, status=IGNORED)


def _reserved(propid: int, name: str, vt: int) -> Property:
    """"Reserved": undefined, and not to be interpreted by any implementation."""
    return Property(propid, name, vt, status=IGNORED)


_QUEUE = (
    _p(101, "PROPID_Q_INSTANCE", VT_CLSID, _GET),
    _p(102, "PROPID_Q_TYPE", VT_CLSID, default=NULL_GUID),
    _p(103, "PROPID_Q_PATHNAME", VT_LPWSTR, _CREATE, path_name(), required=True),
    _p(104, "PROPID_Q_JOURNAL", VT_UI1, rule=_BOOLEAN, default=0),
    _p(105, "PROPID_Q_QUOTA", VT_UI4, default=INFINITE),
    # Only public queues reached by their public name have one; for every other queue it is zero and cannot be set.
    _p(106, "PROPID_Q_BASEPRIORITY", VT_I2, default=0, status=IGNORED),
    _p(107, "PROPID_Q_JOURNAL_QUOTA", VT_UI4, default=INFINITE),
    _p(108, "PROPID_Q_LABEL", VT_LPWSTR, rule=queue_label(), default=""),
    _p(109, "PROPID_Q_CREATE_TIME", VT_I4, _GET),
    _p(110, "PROPID_Q_MODIFY_TIME", VT_I4, _GET),
    _p(111, "PROPID_Q_AUTHENTICATE", VT_UI1, rule=_BOOLEAN, default=0),
    _p(112, "PROPID_Q_PRIV_LEVEL", VT_UI4, rule=one_of(0, 1, 2), default=1),
    _p(113, "PROPID_Q_TRANSACTION", VT_UI1, _CREATE, _BOOLEAN, 0),
    _p(114, "PROPID_Q_SCOPE", VT_UI1, _GET, _BOOLEAN, 1),  # [MS-MQDMPR] 3.1.1.2: always Enterprise
    _p(115, "PROPID_Q_QMID", VT_CLSID, _GET),
    _partition(116, "PROPID_Q_PARTITIONID"),
    _seqnum(117, "PROPID_Q_SEQNUM"),
    _reserved(118, "PROPID_Q_HASHKEY", VT_UI4),
    _reserved(119, "PROPID_Q_LABEL_HASHKEY", VT_UI4),
    _p(121, "PROPID_Q_FULL_PATH", VT_LPWSTR, since=2, status=UNSUPPORTED),
    _p(123, "PROPID_Q_NAME_SUFFIX", VT_LPWSTR, since=2, status=UNSUPPORTED),
    _p(124, "PROPID_Q_PATHNAME_DNS", VT_LPWSTR, _GET, since=2),
    _p(125, "PROPID_Q_MULTICAST_ADDRESS", VT_LPWSTR, rule=class_d_address(), default="", since=3),
    _p(126, "PROPID_Q_ADS_PATH", VT_LPWSTR, _GET, since=3),
    _p(1101, "PROPID_Q_SECURITY", VT_BLOB, rule=_SD_NT4),
    _p(1102, "PROPID_Q_OBJ_SECURITY", VT_BLOB, rule=_SD, since=2),
    _p(1103, "PROPID_Q_SECURITY_INFORMATION", VT_UI4, rule=_INFORMATION),
)

_MACHINE = (
    _p(201, "PROPID_QM_SITE_ID", VT_CLSID),
    _p(202, "PROPID_QM_MACHINE_ID", VT_CLSID, _CREATE),
    _p(203, "PROPID_QM_PATHNAME", VT_LPWSTR, _CREATE),
    _p(205, "PROPID_QM_ENCRYPTION_PK", _BYTES),
    _p(206, "PROPID_QM_ADDRESS", VT_BLOB, rule=transport_addresses()),
    _p(207, "PROPID_QM_CNS", _CLSIDS),
    _p(208, "PROPID_QM_OUTFRS", _CLSIDS),
    _p(209, "PROPID_QM_INFRS", _CLSIDS),
    _p(210, "PROPID_QM_SERVICE", VT_UI4, rule=one_of(0, 1, 2, 4, 8, 0x10), default=0),
    _partition(211, "PROPID_QM_PARTITIONID"),
    _reserved(212, "PROPID_QM_HASHKEY", VT_UI4),
    _seqnum(213, "PROPID_QM_SEQNUM"),
    _p(214, "PROPID_QM_QUOTA", VT_UI4, default=INFINITE),  # in KB, as every other quota
    _p(215, "PROPID_QM_JOURNAL_QUOTA", VT_UI4, default=INFINITE),
    _p(216, "PROPID_QM_MACHINE_TYPE", VT_LPWSTR, default=""),
    _p(217, "PROPID_QM_CREATE_TIME", VT_I4, _GET),
    _p(218, "PROPID_QM_MODIFY_TIME", VT_I4, _GET),
    _p(219, "PROPID_QM_FOREIGN", VT_UI1, rule=_BOOLEAN, default=0),
    # 0x100 is "not Windows", which is the truth
    _p(220, "PROPID_QM_OS", VT_UI4, rule=one_of(0, 0x100, 0x200, 0x300, 0x400, 0x500), default=0x100),
    _p(221, "PROPID_QM_FULL_PATH", VT_LPWSTR, since=2),
    _p(222, "PROPID_QM_SITE_IDS", _CLSIDS, since=2),
    _p(223, "PROPID_QM_OUTFRS_DN", _STRINGS, since=2),
    _p(224, "PROPID_QM_INFRS_DN", _STRINGS, since=2),
    _p(227, "PROPID_QM_SERVICE_ROUTING", VT_UI1, _CREATE, _BOOLEAN, 0, since=2),
    _p(228, "PROPID_QM_SERVICE_DSSERVER", VT_UI1, rule=_BOOLEAN, default=0),
    _p(229, "PROPID_QM_SERVICE_DEPCLIENTS", VT_UI1, rule=_BOOLEAN, default=0),
    _p(231, "PROPID_QM_ENCRYPTION_PK_BASE", _BYTES, since=2),
    _p(232, "PROPID_QM_ENCRYPTION_PK_ENHANCED", _BYTES, since=2),
    _p(233, "PROPID_QM_PATHNAME_DNS", VT_LPWSTR, since=2),
    _p(234, "PROPID_QM_OBJ_SECURITY", VT_BLOB, rule=_SD, since=2),
    _p(237, "PROPID_QM_SECURITY_INFORMATION", VT_UI4, rule=_INFORMATION),
    # 2.3.2.32 says "used for signing"; its name and [MS-MQDMPR] say encryption
    _p(238, "PROPID_QM_ENCRYPT_PKS", VT_BLOB, rule=public_keys()),
    _p(239, "PROPID_QM_SIGN_PKS", VT_BLOB, rule=public_keys()),
    _p(241, "PROPID_QM_OWNER_SID", VT_BLOB, _CREATE, sid(), since=2),
    _p(242, "PROPID_QM_GROUP_IN_CLUSTER", VT_UI1, _CREATE, _BOOLEAN, 0, since=2),
    _p(1201, "PROPID_QM_SECURITY", VT_BLOB, rule=_SD_NT4),
    _p(1202, "PROPID_QM_SIGN_PK", VT_BLOB, _CREATE, public_keys()),
    _p(1203, "PROPID_QM_ENCRYPT_PK", VT_BLOB, _CREATE, public_keys()),
    _p(1205, "PROPID_QM_UPGRADE_DACL", VT_BLOB, _SET, status=IGNORED),  # a request; its value means nothing
)

_SITE = (
    _p(301, "PROPID_S_PATHNAME", VT_LPWSTR),
    _p(302, "PROPID_S_SITEID", VT_CLSID, _GET),
    _p(303, "PROPID_S_GATES", _CLSIDS),
    _p(304, "PROPID_S_PSC", VT_LPWSTR),
    _p(305, "PROPID_S_INTERVAL1", VT_UI2, default=2),
    _p(306, "PROPID_S_INTERVAL2", VT_UI2, default=10),
    _partition(307, "PROPID_S_PARTITIONID"),
    _seqnum(308, "PROPID_S_SEQNUM"),
    _p(309, "PROPID_S_FULL_NAME", VT_LPWSTR, since=2),
    _p(310, "PROPID_S_NT4_STUB", VT_UI2, rule=_BOOLEAN, default=0, since=2),
    _p(311, "PROPID_S_FOREIGN", VT_UI1, rule=_BOOLEAN, default=0, since=2),
    _p(312, "PROPID_S_DONOTHING", VT_UI1, since=2, status=IGNORED),
    _p(1301, "PROPID_S_SECURITY", VT_BLOB, rule=_SD_NT4),
    _p(1302, "PROPID_S_PSC_SIGNPK", VT_BLOB, rule=public_keys()),
    _p(1303, "PROPID_S_SECURITY_INFORMATION", VT_UI4, rule=_INFORMATION, since=3),
)

_CONNECTED_NETWORK = (
    _p(501, "PROPID_CN_PROTOCOLID", VT_UI1, rule=one_of(1, 3, 5)),
    _p(502, "PROPID_CN_NAME", VT_LPWSTR),
    _p(503, "PROPID_CN_GUID", VT_CLSID, _GET),
    _partition(504, "PROPID_CN_PARTITIONID"),
    _seqnum(505, "PROPID_CN_SEQNUM"),
    _p(1501, "PROPID_CN_SECURITY", VT_BLOB, rule=_SD_NT4),
)

_ENTERPRISE = (
    _p(601, "PROPID_E_NAME", VT_LPWSTR),
    _p(602, "PROPID_E_NAMESTYLE", VT_UI1, rule=one_of(0, 1, 2), default=2),  # 2: the internal default, which is 0
    _p(603, "PROPID_E_CSP_NAME", VT_LPWSTR, default=AES_PROVIDER),
    _p(604, "PROPID_E_PECNAME", VT_LPWSTR),
    _reserved(605, "PROPID_E_S_INTERVAL1", VT_UI2),
    _reserved(606, "PROPID_E_S_INTERVAL2", VT_UI2),
    _partition(607, "PROPID_E_PARTITIONID"),
    _seqnum(608, "PROPID_E_SEQNUM"),
    _p(609, "PROPID_E_ID", VT_CLSID, _GET),
    _reserved(610, "PROPID_E_CRL", VT_BLOB),
    _reserved(611, "PROPID_E_CSP_TYPE", VT_UI4),
    _reserved(612, "PROPID_E_ENCRYPT_ALG", VT_UI4),
    _reserved(613, "PROPID_E_SIGN_ALG", VT_UI4),
    _reserved(614, "PROPID_E_HASH_ALG", VT_UI4),
    _reserved(615, "PROPID_E_CIPHER_MODE", VT_UI4),
    _p(616, "PROPID_E_LONG_LIVE", VT_UI4, default=0x54600),  # four days, [MS-MQDMPR] 3.1.1.12
    _p(617, "PROPID_E_VERSION", VT_UI2),
    _p(1601, "PROPID_E_SECURITY", VT_BLOB, rule=_SD_NT4),
)

_USER = (
    _p(701, "PROPID_U_SID", VT_BLOB, rule=sid()),
    _p(702, "PROPID_U_SIGN_CERT", VT_BLOB, rule=sign_certificates()),
    _partition(703, "PROPID_U_PARTITIONID"),
    _seqnum(704, "PROPID_U_SEQNUM"),
    _p(705, "PROPID_U_DIGEST", _CLSIDS),  # MD5 digests in slots for GUIDs
    _p(706, "PROPID_U_ID", VT_CLSID, _GET),
)

_ROUTING_LINK = (
    _p(801, "PROPID_L_NEIGHBOR1", VT_CLSID),
    _p(802, "PROPID_L_NEIGHBOR2", VT_CLSID),
    _p(803, "PROPID_L_COST", VT_UI4, rule=_COST, default=1),
    _partition(804, "PROPID_L_PARTITIONID"),
    _seqnum(805, "PROPID_L_SEQNUM"),
    _p(806, "PROPID_L_ID", VT_CLSID, _GET),
    _p(807, "PROPID_L_GATES_DN", _STRINGS, since=3),
    _p(808, "PROPID_L_NEIGHBOR1_DN", VT_LPWSTR, since=2),
    _p(809, "PROPID_L_NEIGHBOR2_DN", VT_LPWSTR, since=2),
    _p(810, "PROPID_L_DESCRIPTION", VT_LPWSTR, since=2),
    _p(811, "PROPID_L_FULL_PATH", VT_LPWSTR, since=2),
    _p(812, "PROPID_L_ACTUAL_COST", VT_UI4, rule=_COST, default=1, since=2),
    _p(813, "PROPID_L_GATES", _CLSIDS, since=2),
)

_SETTINGS = (
    _p(5101, "PROPID_SET_NAME", VT_LPWSTR, rule=constant("MSMQ Settings"), default="MSMQ Settings", since=2),
    _p(5102, "PROPID_SET_SERVICE", VT_UI4, rule=_SERVICE, since=2),
    _p(5103, "PROPID_SET_QM_ID", VT_CLSID, since=2),
    _p(5105, "PROPID_SET_FULL_PATH", VT_LPWSTR, since=2),
    _p(5106, "PROPID_SET_NT4", VT_UI1, rule=_BOOLEAN, since=2),
    _p(5107, "PROPID_SET_PARTITIONID", VT_CLSID, since=2, status=IGNORED),
    _p(5108, "PROPID_SET_SITENAME", VT_LPWSTR, since=2),
    _p(5109, "PROPID_SET_SERVICE_ROUTING", VT_UI1, rule=_BOOLEAN, since=2),
    _p(5110, "PROPID_SET_SERVICE_DSSERVER", VT_UI1, rule=_BOOLEAN, since=2),
    _p(5111, "PROPID_SET_SERVICE_DEPCLIENTS", VT_UI1, rule=_BOOLEAN, since=2),
    _p(5112, "PROPID_SET_OLDSERVICE", VT_UI4, rule=_SERVICE, since=2),
)

_MQ_USER = (
    _p(5401, "PROPID_MQU_SID", VT_BLOB, rule=sid(), since=2),
    _p(5402, "PROPID_MQU_SIGN_CERT", VT_BLOB, since=2),
    _p(5405, "PROPID_MQU_DIGEST", _CLSIDS, since=2),
    _p(5406, "PROPID_MQU_ID", VT_CLSID, _GET, since=2),
    _p(5407, "PROPID_MQU_SECURITY", VT_BLOB, rule=_SD_NT4, since=2),
)

_COMPUTER = (
    _p(5201, "PROPID_COM_FULL_PATH", VT_LPWSTR, since=2),
    _p(5202, "PROPID_COM_SAM_ACCOUNT", VT_LPWSTR, rule=size(20), since=2),  # 19 characters and a dollar
    _p(5204, "PROPID_COM_ACCOUNT_CONTROL", VT_UI4, since=2),
    _p(5205, "PROPID_COM_DNS_HOSTNAME", VT_LPWSTR, since=2),
    _p(5206, "PROPID_COM_SID", VT_BLOB, rule=sid(), since=2),
    _p(5207, "PROPID_COM_SIGN_CERT", VT_BLOB, since=2),
    _p(5208, "PROPID_COM_DIGEST", _CLSIDS, since=2),
    _p(5209, "PROPID_COM_ID", VT_CLSID, _GET, since=2),
)

_MANAGEMENT_MACHINE = (
    _p(1, "PROPID_MGMT_MSMQ_ACTIVEQUEUES", _STRINGS, _GET, format_names()),
    _p(2, "PROPID_MGMT_MSMQ_PRIVATEQ", _STRINGS, _GET),
    _p(3, "PROPID_MGMT_MSMQ_DSSERVER", VT_LPWSTR, _GET, prefixed("\\\\")),
    _p(4, "PROPID_MGMT_MSMQ_CONNECTED", VT_LPWSTR, _GET, one_of("CONNECTED", "DISCONNECTED")),
    _p(5, "PROPID_MGMT_MSMQ_TYPE", VT_LPWSTR, _GET, default=""),
    _p(6, "PROPID_MGMT_MSMQ_BYTES_IN_ALL_QUEUES", VT_I8, _GET, since=3),
)

# EOD_SOURCE_INFO and CONNECTION_HISTORY hold one vector per column (2.3.12.24, 2.3.12.25)
_SOURCE_INFO: Final = vector_types(
    _STRINGS, _CLSIDS, VT_VECTOR | VT_UI8, VT_VECTOR | VT_UI4, VT_VECTOR | VT_I4, VT_VECTOR | VT_UI4)
_HISTORY: Final = vector_types(VT_VECTOR | VT_UI4, VT_VECTOR | VT_I4, VT_VECTOR | VT_I4, _VARIANTS)

_MANAGEMENT_QUEUE = (
    _p(1, "PROPID_MGMT_QUEUE_PATHNAME", VT_LPWSTR, _GET),
    _p(2, "PROPID_MGMT_QUEUE_FORMATNAME", VT_LPWSTR, _GET),
    _p(3, "PROPID_MGMT_QUEUE_TYPE", VT_LPWSTR, _GET, one_of("PUBLIC", "PRIVATE", "MACHINE", "CONNECTOR", "MULTICAST")),
    _p(4, "PROPID_MGMT_QUEUE_LOCATION", VT_LPWSTR, _GET, one_of("LOCAL", "REMOTE")),
    _p(5, "PROPID_MGMT_QUEUE_XACT", VT_LPWSTR, _GET, one_of("UNKNOWN", "YES", "NO")),
    _p(6, "PROPID_MGMT_QUEUE_FOREIGN", VT_LPWSTR, _GET, one_of("UNKNOWN", "YES", "NO")),
    _p(7, "PROPID_MGMT_QUEUE_MESSAGE_COUNT", VT_UI4, _GET),
    _p(8, "PROPID_MGMT_QUEUE_BYTES_IN_QUEUE", VT_UI4, _GET, since=3),
    _p(9, "PROPID_MGMT_QUEUE_JOURNAL_MESSAGE_COUNT", VT_UI4, _GET),
    _p(10, "PROPID_MGMT_QUEUE_BYTES_IN_JOURNAL", VT_UI4, _GET, since=3),
    _p(11, "PROPID_MGMT_QUEUE_STATE", VT_LPWSTR, _GET, one_of(
        "LOCAL CONNECTION", "INACTIVE", "WAITING", "NEED VALIDATION", "ONHOLD", "CONNECTED", "DISCONNECTING",
        "DISCONNECTED", "LOCKED")),  # LOCKED is of [MS-MQMR]
    _p(12, "PROPID_MGMT_QUEUE_NEXTHOPS", _STRINGS, _GET, next_hops()),
    _p(13, "PROPID_MGMT_QUEUE_EOD_LAST_ACK", VT_BLOB, _GET, _SEQUENCE),
    _p(14, "PROPID_MGMT_QUEUE_EOD_LAST_ACK_TIME", VT_I4, _GET),
    _p(15, "PROPID_MGMT_QUEUE_EOD_LAST_ACK_COUNT", VT_UI4, _GET),
    _p(16, "PROPID_MGMT_QUEUE_EOD_FIRST_NON_ACK", VT_BLOB, _GET, _SEQUENCE),
    _p(17, "PROPID_MGMT_QUEUE_EOD_LAST_NON_ACK", VT_BLOB, _GET, _SEQUENCE),
    _p(18, "PROPID_MGMT_QUEUE_EOD_NEXT_SEQ", VT_BLOB, _GET, _SEQUENCE),
    _p(19, "PROPID_MGMT_QUEUE_EOD_NO_READ_COUNT", VT_UI4, _GET),
    _p(20, "PROPID_MGMT_QUEUE_EOD_NO_ACK_COUNT", VT_UI4, _GET),
    _p(21, "PROPID_MGMT_QUEUE_EOD_RESEND_TIME", VT_I4, _GET),
    _p(22, "PROPID_MGMT_QUEUE_EOD_RESEND_INTERVAL", VT_UI4, _GET),
    _p(23, "PROPID_MGMT_QUEUE_EOD_RESEND_COUNT", VT_UI4, _GET),
    _p(24, "PROPID_MGMT_QUEUE_EOD_SOURCE_INFO", _VARIANTS, _GET, _SOURCE_INFO),
    _p(25, "PROPID_MGMT_QUEUE_CONNECTION_HISTORY", _VARIANTS, _GET, _HISTORY),
    _p(26, "PROPID_MGMT_QUEUE_SUBQUEUE_COUNT", VT_UI4, _GET),
    # [MS-MQMR] gives VT_VARIANT here; this document and every reader take strings
    _p(27, "PROPID_MGMT_QUEUE_SUBQUEUE_NAMES", _STRINGS, _GET),
)

_DELETION_NOTIFICATION = (
    _p(1401, "PROPID_D_SEQNUM", VT_BLOB, _GET),
    _p(1402, "PROPID_D_PARTITIONID", VT_CLSID, _GET),
    _p(1403, "PROPID_D_SCOPE", VT_UI1, _GET, _BOOLEAN),
    _p(1404, "PROPID_D_OBJTYPE", VT_UI1, _GET, one_of(1, 2, 3, 4, 5, 6, 7, 8)),
    _p(1405, "PROPID_D_IDENTIFIER", VT_CLSID, _GET),
)

PROPERTIES: Final[dict[ObjectClass, dict[int, Property]]] = {
    object_class: {entry.propid: entry for entry in entries}
    for object_class, entries in {
        ObjectClass.QUEUE: _QUEUE,
        ObjectClass.MACHINE: _MACHINE,
        ObjectClass.SITE: _SITE,
        ObjectClass.CONNECTED_NETWORK: _CONNECTED_NETWORK,
        ObjectClass.ENTERPRISE: _ENTERPRISE,
        ObjectClass.USER: _USER,
        ObjectClass.ROUTING_LINK: _ROUTING_LINK,
        ObjectClass.SETTINGS: _SETTINGS,
        ObjectClass.MQ_USER: _MQ_USER,
        ObjectClass.COMPUTER: _COMPUTER,
        ObjectClass.MANAGEMENT_MACHINE: _MANAGEMENT_MACHINE,
        ObjectClass.MANAGEMENT_QUEUE: _MANAGEMENT_QUEUE,
        ObjectClass.DELETION_NOTIFICATION: _DELETION_NOTIFICATION,
    }.items()
}
