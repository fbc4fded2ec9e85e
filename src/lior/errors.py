"""Every error of Lior, carrying the HRESULT that the protocols put on the wire ([MS-MQMQ] 2.4).

An error says what went wrong, where, and what to do about it:

    raise QueueNotFound("no queue named orders", where=r".\\private$\\orders",
                        remedy="create it with: lior queue create ...")
"""

from typing import ClassVar, Final

FACILITY: Final = 0x000E0000
CUSTOMER_BIT: Final = 0x20000000  # [MS-MQMQ] 1.7: set in every code that is ours
ERROR_RANGE: Final = 0xC0000000 | FACILITY  # failures of Message Queuing, but for their last 16 bits
RANGE_MASK: Final = 0xFFFF0000 & ~CUSTOMER_BIT

HRESULTS: Final[dict[str, int]] = {
    "MQ_OK": 0x00000000,
    "MQ_INFORMATION_PROPERTY": 0x400E0001,
    "MQ_INFORMATION_ILLEGAL_PROPERTY": 0x400E0002,
    "MQ_INFORMATION_PROPERTY_IGNORED": 0x400E0003,
    "MQ_INFORMATION_UNSUPPORTED_PROPERTY": 0x400E0004,
    "MQ_INFORMATION_DUPLICATE_PROPERTY": 0x400E0005,
    "MQ_INFORMATION_OPERATION_PENDING": 0x400E0006,
    "MQ_INFORMATION_FORMATNAME_BUFFER_TOO_SMALL": 0x400E0009,
    "MQ_INFORMATION_INTERNAL_USER_CERT_EXIST": 0x400E000A,
    "MQ_INFORMATION_OWNER_IGNORED": 0x400E000B,
    "MQ_ERROR": 0xC00E0001,
    "MQ_ERROR_PROPERTY": 0xC00E0002,
    "MQ_ERROR_QUEUE_NOT_FOUND": 0xC00E0003,
    "MQ_ERROR_QUEUE_NOT_ACTIVE": 0xC00E0004,
    "MQ_ERROR_QUEUE_EXISTS": 0xC00E0005,
    "MQ_ERROR_INVALID_PARAMETER": 0xC00E0006,
    "MQ_ERROR_INVALID_HANDLE": 0xC00E0007,
    "MQ_ERROR_OPERATION_CANCELLED": 0xC00E0008,
    "MQ_ERROR_SHARING_VIOLATION": 0xC00E0009,
    "MQ_ERROR_SERVICE_NOT_AVAILABLE": 0xC00E000B,
    "MQ_ERROR_MACHINE_NOT_FOUND": 0xC00E000D,
    "MQ_ERROR_ILLEGAL_SORT": 0xC00E0010,
    "MQ_ERROR_ILLEGAL_USER": 0xC00E0011,
    "MQ_ERROR_NO_DS": 0xC00E0013,
    "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME": 0xC00E0014,
    "MQ_ERROR_ILLEGAL_PROPERTY_VALUE": 0xC00E0018,
    "MQ_ERROR_ILLEGAL_PROPERTY_VT": 0xC00E0019,
    "MQ_ERROR_BUFFER_OVERFLOW": 0xC00E001A,
    "MQ_ERROR_IO_TIMEOUT": 0xC00E001B,
    "MQ_ERROR_ILLEGAL_CURSOR_ACTION": 0xC00E001C,
    "MQ_ERROR_MESSAGE_ALREADY_RECEIVED": 0xC00E001D,
    "MQ_ERROR_ILLEGAL_FORMATNAME": 0xC00E001E,
    "MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL": 0xC00E001F,
    "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION": 0xC00E0020,
    "MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR": 0xC00E0021,
    "MQ_ERROR_SENDERID_BUFFER_TOO_SMALL": 0xC00E0022,
    "MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL": 0xC00E0023,
    "MQ_ERROR_CANNOT_IMPERSONATE_CLIENT": 0xC00E0024,
    "MQ_ERROR_ACCESS_DENIED": 0xC00E0025,
    "MQ_ERROR_PRIVILEGE_NOT_HELD": 0xC00E0026,
    "MQ_ERROR_INSUFFICIENT_RESOURCES": 0xC00E0027,
    "MQ_ERROR_USER_BUFFER_TOO_SMALL": 0xC00E0028,
    "MQ_ERROR_MESSAGE_STORAGE_FAILED": 0xC00E002A,
    "MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL": 0xC00E002B,
    "MQ_ERROR_INVALID_CERTIFICATE": 0xC00E002C,
    "MQ_ERROR_CORRUPTED_INTERNAL_CERTIFICATE": 0xC00E002D,
    "MQ_ERROR_INTERNAL_USER_CERT_EXIST": 0xC00E002E,
    "MQ_ERROR_NO_INTERNAL_USER_CERT": 0xC00E002F,
    "MQ_ERROR_CORRUPTED_SECURITY_DATA": 0xC00E0030,
    "MQ_ERROR_CORRUPTED_PERSONAL_CERT_STORE": 0xC00E0031,
    "MQ_ERROR_COMPUTER_DOES_NOT_SUPPORT_ENCRYPTION": 0xC00E0033,
    "MQ_ERROR_BAD_SECURITY_CONTEXT": 0xC00E0035,
    "MQ_ERROR_COULD_NOT_GET_USER_SID": 0xC00E0036,
    "MQ_ERROR_COULD_NOT_GET_ACCOUNT_INFO": 0xC00E0037,
    "MQ_ERROR_ILLEGAL_MQCOLUMNS": 0xC00E0038,
    "MQ_ERROR_ILLEGAL_PROPID": 0xC00E0039,
    "MQ_ERROR_ILLEGAL_RELATION": 0xC00E003A,
    "MQ_ERROR_ILLEGAL_PROPERTY_SIZE": 0xC00E003B,
    "MQ_ERROR_ILLEGAL_RESTRICTION_PROPID": 0xC00E003C,
    "MQ_ERROR_ILLEGAL_MQQUEUEPROPS": 0xC00E003D,
    "MQ_ERROR_PROPERTY_NOTALLOWED": 0xC00E003E,
    "MQ_ERROR_INSUFFICIENT_PROPERTIES": 0xC00E003F,
    "MQ_ERROR_MACHINE_EXISTS": 0xC00E0040,
    "MQ_ERROR_ILLEGAL_MQQMPROPS": 0xC00E0041,
    "MQ_ERROR_DS_IS_FULL": 0xC00E0042,
    "MQ_ERROR_DS_ERROR": 0xC00E0043,
    "MQ_ERROR_INVALID_OWNER": 0xC00E0044,
    "MQ_ERROR_UNSUPPORTED_ACCESS_MODE": 0xC00E0045,
    "MQ_ERROR_RESULT_BUFFER_TOO_SMALL": 0xC00E0046,
    "MQ_ERROR_DELETE_CN_IN_USE": 0xC00E0048,
    "MQ_ERROR_NO_RESPONSE_FROM_OBJECT_SERVER": 0xC00E0049,
    "MQ_ERROR_OBJECT_SERVER_NOT_AVAILABLE": 0xC00E004A,
    "MQ_ERROR_QUEUE_NOT_AVAILABLE": 0xC00E004B,
    "MQ_ERROR_DTC_CONNECT": 0xC00E004C,
    "MQ_ERROR_TRANSACTION_IMPORT": 0xC00E004E,
    "MQ_ERROR_TRANSACTION_USAGE": 0xC00E0050,
    "MQ_ERROR_TRANSACTION_SEQUENCE": 0xC00E0051,
    "MQ_ERROR_MISSING_CONNECTOR_TYPE": 0xC00E0055,
    "MQ_ERROR_STALE_HANDLE": 0xC00E0056,
    "MQ_ERROR_TRANSACTION_ENLIST": 0xC00E0058,
    "MQ_ERROR_QUEUE_DELETED": 0xC00E005A,
    "MQ_ERROR_ILLEGAL_CONTEXT": 0xC00E005B,
    "MQ_ERROR_ILLEGAL_SORT_PROPID": 0xC00E005C,
    "MQ_ERROR_LABEL_TOO_LONG": 0xC00E005D,
    "MQ_ERROR_LABEL_BUFFER_TOO_SMALL": 0xC00E005E,
    "MQ_ERROR_MQIS_SERVER_EMPTY": 0xC00E005F,
    "MQ_ERROR_MQIS_READONLY_MODE": 0xC00E0060,
    "MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL": 0xC00E0061,
    "MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL": 0xC00E0062,
    "MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL": 0xC00E0063,
    "MQ_ERROR_ILLEGAL_OPERATION": 0xC00E0064,
    "MQ_ERROR_WRITE_NOT_ALLOWED": 0xC00E0065,
    "MQ_ERROR_WKS_CANT_SERVE_CLIENT": 0xC00E0066,
    "MQ_ERROR_DEPEND_WKS_LICENSE_OVERFLOW": 0xC00E0067,
    "MQ_CORRUPTED_QUEUE_WAS_DELETED": 0xC00E0068,
    "MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE": 0xC00E0069,
    "MQ_ERROR_UNSUPPORTED_OPERATION": 0xC00E006A,
    "MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED": 0xC00E006B,
    "MQ_ERROR_CANNOT_SET_CRYPTO_SEC_DESCR": 0xC00E006C,
    "MQ_ERROR_CERTIFICATE_NOT_PROVIDED": 0xC00E006D,
    "MQ_ERROR_Q_DNS_PROPERTY_NOT_SUPPORTED": 0xC00E006E,
    "MQ_ERROR_CANNOT_CREATE_CERT_STORE": 0xC00E006F,
    "MQ_ERROR_CANNOT_OPEN_CERT_STORE": 0xC00E0070,
    "MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION": 0xC00E0071,
    "MQ_ERROR_CANNOT_GRANT_ADD_GUID": 0xC00E0072,
    "MQ_ERROR_CANNOT_LOAD_MSMQOCM": 0xC00E0073,
    "MQ_ERROR_NO_ENTRY_POINT_MSMQOCM": 0xC00E0074,
    "MQ_ERROR_NO_MSMQ_SERVERS_ON_DC": 0xC00E0075,
    "MQ_ERROR_CANNOT_JOIN_DOMAIN": 0xC00E0076,
    "MQ_ERROR_CANNOT_CREATE_ON_GC": 0xC00E0077,
    "MQ_ERROR_GUID_NOT_MATCHING": 0xC00E0078,
    "MQ_ERROR_PUBLIC_KEY_NOT_FOUND": 0xC00E0079,
    "MQ_ERROR_PUBLIC_KEY_DOES_NOT_EXIST": 0xC00E007A,
    "MQ_ERROR_ILLEGAL_MQPRIVATEPROPS": 0xC00E007B,
    "MQ_ERROR_NO_GC_IN_DOMAIN": 0xC00E007C,
    "MQ_ERROR_NO_MSMQ_SERVERS_ON_GC": 0xC00E007D,
    "MQ_ERROR_CANNOT_GET_DN": 0xC00E007E,
    "MQ_ERROR_CANNOT_HASH_DATA_EX": 0xC00E007F,
    "MQ_ERROR_CANNOT_SIGN_DATA_EX": 0xC00E0080,
    "MQ_ERROR_CANNOT_CREATE_HASH_EX": 0xC00E0081,
    "MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX": 0xC00E0082,
    "MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS": 0xC00E0083,
    "MQ_ERROR_NO_MQUSER_OU": 0xC00E0084,
    "MQ_ERROR_CANNOT_LOAD_MQAD": 0xC00E0085,
    "MQ_ERROR_CANNOT_LOAD_MQDSSRV": 0xC00E0086,
    "MQ_ERROR_PROPERTIES_CONFLICT": 0xC00E0087,
    "MQ_ERROR_MESSAGE_NOT_FOUND": 0xC00E0088,
    "MQ_ERROR_CANT_RESOLVE_SITES": 0xC00E0089,
    "MQ_ERROR_NOT_SUPPORTED_BY_DEPENDENT_CLIENTS": 0xC00E008A,
    "MQ_ERROR_OPERATION_NOT_SUPPORTED_BY_REMOTE_COMPUTER": 0xC00E008B,
    "MQ_ERROR_NOT_A_CORRECT_OBJECT_CLASS": 0xC00E008C,
    "MQ_ERROR_MULTI_SORT_KEYS": 0xC00E008D,
    "MQ_ERROR_GC_NEEDED": 0xC00E008E,
    "MQ_ERROR_DS_BIND_ROOT_FOREST": 0xC00E008F,
    "MQ_ERROR_DS_LOCAL_USER": 0xC00E0090,
    "MQ_ERROR_Q_ADS_PROPERTY_NOT_SUPPORTED": 0xC00E0091,
    "MQ_ERROR_BAD_XML_FORMAT": 0xC00E0092,
    "MQ_ERROR_UNSUPPORTED_CLASS": 0xC00E0093,
    "MQ_ERROR_UNINITIALIZED_OBJECT": 0xC00E0094,
    "MQ_ERROR_CANNOT_CREATE_PSC_OBJECTS": 0xC00E0095,
    "MQ_ERROR_CANNOT_UPDATE_PSC_OBJECTS": 0xC00E0096,
    "MQ_ERROR_RESOLVE_ADDRESS": 0xC00E0099,
    "MQ_ERROR_TOO_MANY_PROPERTIES": 0xC00E009A,
    "MQ_ERROR_MESSAGE_NOT_AUTHENTICATED": 0xC00E009B,
    "MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION": 0xC00E009C,
    "MQDS_UNKNOWN_SOURCE": 0xC00E0504,
    # [MS-ERREF] 2.3.1; answered by Cancel Waiting Message Read Request ([MS-MQDMPR] 3.1.7.1.17)
    "STATUS_NOT_FOUND": 0xC0000225,
    # Ours
    "LIOR_ERROR_STORE_IN_USE": 0xE00E0001,
    "LIOR_ERROR_STORE_FOREIGN": 0xE00E0002,
    "LIOR_ERROR_STORE_CORRUPT": 0xE00E0003,
    "LIOR_ERROR_STORE_VERSION": 0xE00E0004,
    "LIOR_ERROR_STORE_UNUSABLE": 0xE00E0005,
    "LIOR_ERROR_MALFORMED": 0xE00E0006,
    "LIOR_ERROR_CONFIGURATION": 0xE00E0007,
    "LIOR_ERROR_MESSAGE_TOO_LARGE": 0xE00E0008,
    "LIOR_ERROR_FORMATTER": 0xE00E0009,
    "LIOR_ERROR_NO_SUBSCRIPTION": 0xE00E000A,
    "LIOR_ERROR_CLAIM_FENCED": 0xE00E000B,
    "LIOR_ERROR_CLAIM_BUSY": 0xE00E000C,
    "LIOR_ERROR_CLAIMED": 0xE00E000D,
    "LIOR_ERROR_NOT_QUEUEABLE": 0xE00E0020,
    "LIOR_ERROR_NOT_PERSISTABLE": 0xE00E0021,
    "LIOR_ERROR_CALL_REFUSED": 0xE00E0022,
}
NAMES: Final[dict[int, str]] = {code: name for name, code in HRESULTS.items()}


def succeeded(code: int) -> bool:
    """True for MQ_OK and the informational codes: the severity bit is clear."""
    return not code & 0x80000000


class LiorError(Exception):
    """An error with an HRESULT: what happened, where, and what to do next."""

    code: int = HRESULTS["MQ_ERROR"]
    _by_code: ClassVar[dict[int, type["LiorError"]]] = {}

    def __init_subclass__(cls, symbol: str = "", **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if symbol:
            cls.code = HRESULTS[symbol]
            if LiorError._by_code.setdefault(cls.code, cls) is not cls:
                raise TypeError(f"{symbol} already belongs to {LiorError._by_code[cls.code].__name__}")

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy
        if remedy:
            self.add_note(f"do: {remedy}")  # the last line of a traceback says it, too

    @property
    def symbol(self) -> str:
        """The specification's name of the code."""
        return NAMES.get(self.code, f"0x{self.code:08X}")

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.symbol} 0x{self.code:08X})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.code, self.what, self.where, self.remedy)


def _rebuild(cls: type[LiorError], code: int, what: str, where: str, remedy: str) -> LiorError:
    error = cls(what, where=where, remedy=remedy)
    error.code = code
    return error


def error_from_code(code: int, what: str = "", *, where: str = "", remedy: str = "") -> LiorError:
    """The exception for a failure code that came over a wire."""
    if succeeded(code):
        raise ValueError(f"0x{code:08X} is not a failure")
    what = what or NAMES.get(code, "unknown error").lower().replace("_", " ")
    return _rebuild(LiorError._by_code.get(code, LiorError), code, what, where, remedy)


class QueueNotFound(LiorError, symbol="MQ_ERROR_QUEUE_NOT_FOUND"):
    """MQ_ERROR_QUEUE_NOT_FOUND."""


class QueueExists(LiorError, symbol="MQ_ERROR_QUEUE_EXISTS"):
    """MQ_ERROR_QUEUE_EXISTS."""


class InvalidParameter(LiorError, symbol="MQ_ERROR_INVALID_PARAMETER"):
    """MQ_ERROR_INVALID_PARAMETER."""


class InvalidHandle(LiorError, symbol="MQ_ERROR_INVALID_HANDLE"):
    """MQ_ERROR_INVALID_HANDLE."""


class OperationCancelled(LiorError, symbol="MQ_ERROR_OPERATION_CANCELLED"):
    """MQ_ERROR_OPERATION_CANCELLED."""


class SharingViolation(LiorError, symbol="MQ_ERROR_SHARING_VIOLATION"):
    """MQ_ERROR_SHARING_VIOLATION."""


class ServiceNotAvailable(LiorError, symbol="MQ_ERROR_SERVICE_NOT_AVAILABLE"):
    """MQ_ERROR_SERVICE_NOT_AVAILABLE."""


class NoDirectory(LiorError, symbol="MQ_ERROR_NO_DS"):
    """MQ_ERROR_NO_DS."""


class IllegalQueuePathname(LiorError, symbol="MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"):
    """MQ_ERROR_ILLEGAL_QUEUE_PATHNAME."""


class IllegalPropertyValue(LiorError, symbol="MQ_ERROR_ILLEGAL_PROPERTY_VALUE"):
    """MQ_ERROR_ILLEGAL_PROPERTY_VALUE."""


class IllegalPropertyType(LiorError, symbol="MQ_ERROR_ILLEGAL_PROPERTY_VT"):
    """MQ_ERROR_ILLEGAL_PROPERTY_VT."""


class Timeout(LiorError, symbol="MQ_ERROR_IO_TIMEOUT"):
    """MQ_ERROR_IO_TIMEOUT."""


class IllegalCursorAction(LiorError, symbol="MQ_ERROR_ILLEGAL_CURSOR_ACTION"):
    """MQ_ERROR_ILLEGAL_CURSOR_ACTION."""


class MessageAlreadyReceived(LiorError, symbol="MQ_ERROR_MESSAGE_ALREADY_RECEIVED"):
    """MQ_ERROR_MESSAGE_ALREADY_RECEIVED."""


class IllegalFormatName(LiorError, symbol="MQ_ERROR_ILLEGAL_FORMATNAME"):
    """MQ_ERROR_ILLEGAL_FORMATNAME."""


class UnsupportedFormatNameOperation(LiorError, symbol="MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"):
    """MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION."""


class IllegalSecurityDescriptor(LiorError, symbol="MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR"):
    """MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR."""


class AccessDenied(LiorError, symbol="MQ_ERROR_ACCESS_DENIED"):
    """MQ_ERROR_ACCESS_DENIED."""


class InsufficientResources(LiorError, symbol="MQ_ERROR_INSUFFICIENT_RESOURCES"):
    """MQ_ERROR_INSUFFICIENT_RESOURCES."""


class MessageStorageFailed(LiorError, symbol="MQ_ERROR_MESSAGE_STORAGE_FAILED"):
    """MQ_ERROR_MESSAGE_STORAGE_FAILED."""


class IllegalPropertyId(LiorError, symbol="MQ_ERROR_ILLEGAL_PROPID"):
    """MQ_ERROR_ILLEGAL_PROPID."""


class PropertyNotAllowed(LiorError, symbol="MQ_ERROR_PROPERTY_NOTALLOWED"):
    """MQ_ERROR_PROPERTY_NOTALLOWED."""


class InsufficientProperties(LiorError, symbol="MQ_ERROR_INSUFFICIENT_PROPERTIES"):
    """MQ_ERROR_INSUFFICIENT_PROPERTIES."""


class UnsupportedAccessMode(LiorError, symbol="MQ_ERROR_UNSUPPORTED_ACCESS_MODE"):
    """MQ_ERROR_UNSUPPORTED_ACCESS_MODE."""


class QueueNotAvailable(LiorError, symbol="MQ_ERROR_QUEUE_NOT_AVAILABLE"):
    """MQ_ERROR_QUEUE_NOT_AVAILABLE."""


class TransactionUsage(LiorError, symbol="MQ_ERROR_TRANSACTION_USAGE"):
    """MQ_ERROR_TRANSACTION_USAGE."""


class TransactionSequence(LiorError, symbol="MQ_ERROR_TRANSACTION_SEQUENCE"):
    """MQ_ERROR_TRANSACTION_SEQUENCE."""


class StaleHandle(LiorError, symbol="MQ_ERROR_STALE_HANDLE"):
    """MQ_ERROR_STALE_HANDLE."""


class QueueDeleted(LiorError, symbol="MQ_ERROR_QUEUE_DELETED"):
    """MQ_ERROR_QUEUE_DELETED."""


class LabelTooLong(LiorError, symbol="MQ_ERROR_LABEL_TOO_LONG"):
    """MQ_ERROR_LABEL_TOO_LONG."""


class UnsupportedOperation(LiorError, symbol="MQ_ERROR_UNSUPPORTED_OPERATION"):
    """MQ_ERROR_UNSUPPORTED_OPERATION."""


class MessageNotFound(LiorError, symbol="MQ_ERROR_MESSAGE_NOT_FOUND"):
    """MQ_ERROR_MESSAGE_NOT_FOUND."""


class TooManyProperties(LiorError, symbol="MQ_ERROR_TOO_MANY_PROPERTIES"):
    """MQ_ERROR_TOO_MANY_PROPERTIES."""


class MessageNotAuthenticated(LiorError, symbol="MQ_ERROR_MESSAGE_NOT_AUTHENTICATED"):
    """MQ_ERROR_MESSAGE_NOT_AUTHENTICATED."""


class MessageLocked(LiorError, symbol="MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION"):
    """MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION."""


class UnsupportedClass(LiorError, symbol="MQ_ERROR_UNSUPPORTED_CLASS"):
    """MQ_ERROR_UNSUPPORTED_CLASS."""


class WaitNotFound(LiorError, symbol="STATUS_NOT_FOUND"):
    """No waiting read carries this tag."""


class StoreInUse(LiorError, symbol="LIOR_ERROR_STORE_IN_USE"):
    """Another process has the data directory open."""


class StoreForeign(LiorError, symbol="LIOR_ERROR_STORE_FOREIGN"):
    """The file is not a Lior store."""


class StoreCorrupt(LiorError, symbol="LIOR_ERROR_STORE_CORRUPT"):
    """The store is damaged; serving it could lose or invent messages."""


class StoreVersion(LiorError, symbol="LIOR_ERROR_STORE_VERSION"):
    """The store was written by a newer Lior."""


class StoreUnusable(LiorError, symbol="LIOR_ERROR_STORE_UNUSABLE"):
    """The directory or file cannot be used: permissions, a missing path, a failed sync."""


class Malformed(LiorError, symbol="LIOR_ERROR_MALFORMED"):
    """Bytes that do not decode: truncated, inconsistent or out of bounds."""


class BadConfiguration(LiorError, symbol="LIOR_ERROR_CONFIGURATION"):
    """A setting is unknown or has an impossible value."""


class MessageTooLarge(LiorError, symbol="LIOR_ERROR_MESSAGE_TOO_LARGE"):
    """The message is over the 4 MiB that a packet can carry."""


class NoSubscription(LiorError, symbol="LIOR_ERROR_NO_SUBSCRIPTION"):
    """There is no subscription of that name."""


class ClaimFenced(LiorError, symbol="LIOR_ERROR_CLAIM_FENCED"):
    """Another reader has the subscription now."""


class ClaimBusy(LiorError, symbol="LIOR_ERROR_CLAIM_BUSY"):
    """Another call on the subscription is under way."""


class MessagesClaimed(LiorError, symbol="LIOR_ERROR_CLAIMED"):
    """Messages are claimed by a subscription and stay until it releases or abandons them."""


class FormatterError(LiorError, symbol="LIOR_ERROR_FORMATTER"):
    """A body does not fit its formatter, or a value has no body form."""


class NotQueueable(LiorError, symbol="LIOR_ERROR_NOT_QUEUEABLE"):
    """An interface or a call that cannot be recorded: it has results, or types that no message carries."""


class NotPersistable(LiorError, symbol="LIOR_ERROR_NOT_PERSISTABLE"):
    """An object that has no by-value form; only those can be recorded."""


class CallRefused(LiorError, symbol="LIOR_ERROR_CALL_REFUSED"):
    """A recorded message that is not played: nobody serves what it names, or its caller may not."""
