"""The interfaces of the documents' appendices for `second_ndr`: [MS-MQMP] 6, [MS-MQQP] 6, [MS-MQRR] 6, [MS-MQMR] 6.

Names are the documents'; `result` is a method's return value. Counts that describe an array are fields of their own,
as on the wire: `sized` fills them in.
"""

from __future__ import annotations

from typing import Any, Final

from tests.interop.rpc.second_ndr import (
    ENUM,
    GUID,
    HANDLE,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Array,
    Direction,
    Fixed,
    Interface,
    Method,
    Pointer,
    Struct,
    Text,
    Type,
    Union,
)  # fmt: skip

OBJECTID: Final = Fixed(20, 4)
UOW: Final = Fixed(16)
BYTES: Final = Array()
WIDE: Final = Array(units=2)


def _vector(item: Type) -> Struct:
    return Struct(cElems=U32, pElems=Pointer(Array(item)))


_ARMS: Final[dict[int, Type | None]] = {
    0: None, 1: None, 16: I8, 17: U8, 2: I16, 18: U16, 3: I32, 19: U32, 20: I64, 21: U64, 11: I16, 72: Pointer(GUID),
    65: Struct(cbSize=U32, pBlobData=Pointer(BYTES)), 31: Pointer(Text()), 0x1011: _vector(U8), 0x1012: _vector(U16),
    0x1003: _vector(I32), 0x1013: _vector(U32), 0x1015: _vector(U64), 0x1048: _vector(GUID),
    0x101F: _vector(Pointer(Text())),
}  # fmt: skip


class _Variant(Struct):
    """Aligned by its widest arm, and it may hold itself."""

    def alignment(self, wide: bool) -> int:
        return 8


PROPVARIANT: Final = _Variant(vt=U16, wReserved1=U8, wReserved2=U8, wReserved3=U32)
_ARMS[0x100C] = _vector(PROPVARIANT)


class _VariantUnion(Union):
    def alignment(self, wide: bool) -> int:
        return 8 if wide else 2


PROPVARIANT.fields["varUnion"] = _VariantUnion(U16, _ARMS)

QUEUE_FORMAT: Final = Struct(
    m_qft=U8, m_SuffixAndFlags=U8, m_reserved=U16,
    id=Union(U8, {
        0: None, 1: GUID, 2: OBJECTID, 3: Pointer(Text()), 4: GUID, 5: GUID,
        6: Struct(m_DlGuid=GUID, m_pwzDomain=Pointer(Text())), 7: Struct(m_address=U32, m_port=U32), 8: Pointer(Text()),
    }),
)  # fmt: skip
CURSOR: Final = Struct(hCursor=U32, srv_hACQueue=U32, cli_pQMQueue=U32)
_NAME: Final = Pointer(Pointer(WIDE))
_BYTES: Final = Pointer(Pointer(BYTES))
_VARYING: Final = Pointer(Pointer(Array(varying=True)))
_U32: Final = Pointer(U32)
_U8: Final = Pointer(U8)

_V1: Final[dict[str, Type]] = {
    "uTransferType": U32,
    "arm": Union(U32, {
        0: Struct(pAdminQueueFormat=Pointer(QUEUE_FORMAT), pResponseQueueFormat=Pointer(QUEUE_FORMAT)),
        1: Struct(
            RequestTimeout=U32, Action=U32, Asynchronous=U32, Cursor=U32,
            ulResponseFormatNameLen=U32, ppResponseFormatName=_NAME, pulResponseFormatNameLenProp=_U32,
            ulAdminFormatNameLen=U32, ppAdminFormatName=_NAME, pulAdminFormatNameLenProp=_U32,
            ulDestFormatNameLen=U32, ppDestFormatName=_NAME, pulDestFormatNameLenProp=_U32,
            ulOrderingFormatNameLen=U32, ppOrderingFormatName=_NAME, pulOrderingFormatNameLenProp=_U32,
        ),
        2: CURSOR,
    }),
    "pClass": Pointer(U16), "ppMessageID": Pointer(Pointer(OBJECTID)), "ppCorrelationID": _VARYING, "pSentTime": _U32,
    "pArrivedTime": _U32, "pPriority": _U8, "pDelivery": _U8, "pAcknowledge": _U8, "pAuditing": _U8,
    "pApplicationTag": _U32, "ppBody": _VARYING, "ulBodyBufferSizeInBytes": U32, "ulAllocBodyBufferInBytes": U32,
    "pBodySize": _U32, "ppTitle": Pointer(Pointer(Array(varying=True, units=2))), "ulTitleBufferSizeInWCHARs": U32,
    "pulTitleBufferSizeInWCHARs": _U32, "ulAbsoluteTimeToQueue": U32, "pulRelativeTimeToQueue": _U32,
    "ulRelativeTimeToLive": U32, "pulRelativeTimeToLive": _U32, "pTrace": _U8, "pulSenderIDType": _U32,
    "ppSenderID": _BYTES, "pulSenderIDLenProp": _U32, "pulPrivLevel": _U32, "ulAuthLevel": U32, "pAuthenticated": _U8,
    "pulHashAlg": _U32, "pulEncryptAlg": _U32, "ppSenderCert": _BYTES, "ulSenderCertLen": U32,
    "pulSenderCertLenProp": _U32, "ppwcsProvName": _NAME, "ulProvNameLen": U32, "pulAuthProvNameLenProp": _U32,
    "pulProvType": _U32, "fDefaultProvider": I32, "ppSymmKeys": _BYTES, "ulSymmKeysSize": U32,
    "pulSymmKeysSizeProp": _U32, "bEncrypted": U8, "bAuthenticated": U8, "uSenderIDLen": U16, "ppSignature": _BYTES,
    "ulSignatureSize": U32, "pulSignatureSizeProp": _U32, "ppSrcQMID": Pointer(Pointer(GUID)), "pUow": Pointer(UOW),
    "ppMsgExtension": _VARYING, "ulMsgExtensionBufferInBytes": U32, "pMsgExtensionSize": _U32,
    "ppConnectorType": Pointer(Pointer(GUID)), "pulBodyType": _U32, "pulVersion": _U32,
}  # fmt: skip
BUFFER_V1: Final = Struct(**_V1)
BUFFER_V2: Final = Struct(old=BUFFER_V1, pbFirstInXact=_U8, pbLastInXact=_U8, ppXactID=Pointer(Pointer(OBJECTID)))
OBJECT_FORMAT: Final = Struct(ObjType=U32, object=Union(U32, {1: Pointer(QUEUE_FORMAT)}))

# The count that belongs to an array of the transfer buffer, and bytes an item.
SIZES: Final = {
    "ppResponseFormatName": ("ulResponseFormatNameLen", 2), "ppAdminFormatName": ("ulAdminFormatNameLen", 2),
    "ppDestFormatName": ("ulDestFormatNameLen", 2), "ppOrderingFormatName": ("ulOrderingFormatNameLen", 2),
    "ppBody": ("ulBodyBufferSizeInBytes", 1), "ppTitle": ("ulTitleBufferSizeInWCHARs", 2),
    "ppSenderID": ("uSenderIDLen", 1), "ppSenderCert": ("ulSenderCertLen", 1), "ppwcsProvName": ("ulProvNameLen", 2),
    "ppSymmKeys": ("ulSymmKeysSize", 1), "ppSignature": ("ulSignatureSize", 1),
    "ppMsgExtension": ("ulMsgExtensionBufferInBytes", 1),
}  # fmt: skip


def sized(values: dict[str, Any]) -> dict[str, Any]:
    """With the counts of the arrays it has, unless it says others."""
    counts: dict[str, Any] = {}
    for name, (count, unit) in SIZES.items():
        if isinstance(values.get(name), bytes):
            counts[count] = len(values[name]) // unit
    if isinstance(values.get("ppBody"), bytes):
        counts["ulAllocBodyBufferInBytes"] = len(values["ppBody"])
    return counts | values


def send_buffer(admin: Any = None, response: Any = None, **values: Any) -> dict[str, Any]:
    """CACTransferBufferV2 of a message to send."""
    arm = {"pAdminQueueFormat": admin, "pResponseQueueFormat": response}
    return {"old": sized({"uTransferType": 0, "arm": (0, arm), **values})}


def _method(opnum: int, name: str, request: dict[str, Type], response: dict[str, Type]) -> Method:
    return Method(name, opnum, Direction(request), Direction(response))


_H: Final[dict[str, Type]] = {"result": U32}
_VALUES: Final = Array(PROPVARIANT)
_SECURITY: Final[dict[str, Type]] = {"SDSize": U32, "pSecurityDescriptor": Pointer(BYTES)}

QMCOMM: Final = Interface("fdb3a030-065f-11d1-bb9b-00a024ea5525", (1, 0), [
    _method(1, "R_QMGetRemoteQueueName", {"pQueue": U32, "lplpRemoteQueueName": Pointer(Pointer(Text()))},
            {"lplpRemoteQueueName": Pointer(Pointer(Text())), **_H}),
    _method(2, "R_QMOpenRemoteQueue",
            {"pQueueFormat": Pointer(QUEUE_FORMAT), "dwCallingProcessID": U32, "dwDesiredAccess": U32,
             "dwShareMode": U32,
             "pLicGuid": GUID, "dwMQS": U32},
            {"pphContext": HANDLE, "pdwContext": U32, "dwpQueue": U32, "phQueue": U32, **_H}),
    _method(3, "R_QMCloseRemoteQueueContext", {"pphContext": HANDLE}, {"pphContext": HANDLE}),
    _method(4, "R_QMCreateRemoteCursor", {"ptb1": BUFFER_V1, "hQueue": U32}, {"phCursor": U32, **_H}),
    _method(6, "R_QMCreateObjectInternal",
            {"dwObjectType": U32, "lpwcsPathName": Text(), **_SECURITY, "cp": U32, "aProp": Array(U32),
             "apVar": _VALUES},
            _H),
    _method(7, "R_QMSetObjectSecurityInternal",
            {"pObjectFormat": OBJECT_FORMAT, "SecurityInformation": U32, **_SECURITY}, _H),
    _method(8, "R_QMGetObjectSecurityInternal",
            {"pObjectFormat": OBJECT_FORMAT, "RequestedInformation": U32, "nLength": U32},
            {"pSecurityDescriptor": BYTES, "lpnLengthNeeded": U32, **_H}),
    _method(9, "R_QMDeleteObject", {"pObjectFormat": OBJECT_FORMAT}, _H),
    _method(10, "R_QMGetObjectProperties",
            {"pObjectFormat": OBJECT_FORMAT, "cp": U32, "aProp": Array(U32), "apVar": _VALUES}, {"apVar": _VALUES,
                                                                                                 **_H}),
    _method(11, "R_QMSetObjectProperties",
            {"pObjectFormat": OBJECT_FORMAT, "cp": U32, "aProp": Pointer(Array(U32)), "apVar": Pointer(_VALUES)}, _H),
    _method(12, "R_QMObjectPathToObjectFormat", {"lpwcsPathName": Text(), "pObjectFormat": OBJECT_FORMAT},
            {"pObjectFormat": OBJECT_FORMAT, **_H}),
    _method(14, "R_QMGetTmWhereabouts", {"cbBufSize": U32}, {"pbWhereabouts": BYTES, "pcbWhereabouts": U32, **_H}),
    _method(15, "R_QMEnlistTransaction", {"pUow": UOW, "cbCookie": U32, "pbCookie": BYTES}, _H),
    _method(16, "R_QMEnlistInternalTransaction", {"pUow": UOW}, {"phIntXact": HANDLE, **_H}),
    _method(17, "R_QMCommitTransaction", {"phIntXact": HANDLE}, {"phIntXact": HANDLE, **_H}),
    _method(18, "R_QMAbortTransaction", {"phIntXact": HANDLE}, {"phIntXact": HANDLE, **_H}),
    _method(19, "rpc_QMOpenQueueInternal",
            {"pQueueFormat": QUEUE_FORMAT, "dwDesiredAccess": U32, "dwShareMode": U32, "hRemoteQueue": U32,
             "lplpRemoteQueueName": Pointer(Pointer(Text())), "dwpQueue": U32, "pLicGuid": GUID, "lpClientName": Text(),
             "dwRemoteProtocol": U32, "dwpRemoteContext": U32},
            {"lplpRemoteQueueName": Pointer(Pointer(Text())), "pdwQMContext": U32, "phQueue": HANDLE, **_H}),
    _method(20, "rpc_ACCloseHandle", {"phQueue": HANDLE}, {"phQueue": HANDLE, **_H}),
    _method(22, "rpc_ACCloseCursor", {"hQueue": HANDLE, "hCursor": U32}, _H),
    _method(23, "rpc_ACSetCursorProperties", {"hProxy": HANDLE, "hCursor": U32, "hRemoteCursor": U32}, _H),
    _method(26, "rpc_ACHandleToFormatName",
            {"hQueue": HANDLE, "dwFormatNameRPCBufferLen": U32, "lpwcsFormatName": Pointer(Array(varying=True,
                                                                                                 units=2)),
             "pdwLength": U32},
            {"lpwcsFormatName": Pointer(Array(varying=True, units=2)), "pdwLength": U32, **_H}),
    _method(27, "rpc_ACPurgeQueue", {"hQueue": HANDLE}, _H),
    _method(28, "R_QMQueryQMRegistryInternal", {"dwQueryType": U32}, {"lplpMQISServer": Pointer(Text()), **_H}),
    _method(31, "R_QMGetRTQMServerPort", {"fIP": U32}, _H),
])  # fmt: skip

_ID: Final = Pointer(OBJECTID)
QMCOMM2: Final = Interface("76d12b80-3467-11d3-91ff-0090272f9ea3", (1, 0), [
    _method(0, "QMSendMessageInternalEx", {"pQueueFormat": QUEUE_FORMAT, "ptb": BUFFER_V2, "pMessageID": _ID},
            {"pMessageID": _ID, **_H}),
    _method(1, "rpc_ACSendMessageEx", {"hQueue": HANDLE, "ptb": BUFFER_V2, "pMessageID": _ID}, {"pMessageID": _ID,
                                                                                                **_H}),
    _method(2, "rpc_ACReceiveMessageEx", {"hQMContext": U32, "ptb": BUFFER_V2}, {"ptb": BUFFER_V2, **_H}),
    _method(3, "rpc_ACCreateCursorEx", {"hQueue": HANDLE, "pcc": CURSOR}, {"pcc": CURSOR, **_H}),
])  # fmt: skip

READDESC: Final = Struct(
    hRemoteQueue=U32, hCursor=U32, ulAction=U32, ulTimeout=U32, dwSize=U32, dwQueue=U32, dwRequestID=U32, Reserved=U32,
    dwArriveTime=U32, eAckNack=ENUM, lpBuffer=Pointer(Array(varying=True)),
)  # fmt: skip
READDESC2: Final = Struct(pRemoteReadDesc=Pointer(READDESC), SequentialId=U64)
QM2QM: Final = Interface("1088a980-eae5-11d0-8d9b-00a02453c337", (1, 0), [
    _method(0, "RemoteQMStartReceive", {"lpRemoteReadDesc": READDESC}, {"pphContext": HANDLE,
                                                                        "lpRemoteReadDesc": READDESC, **_H}),
    _method(1, "RemoteQMEndReceive", {"pphContext": HANDLE, "dwAck": U32}, {"pphContext": HANDLE, **_H}),
    _method(2, "RemoteQMOpenQueue", {"pLicGuid": GUID, "dwMQS": U32, "hQueue": U32, "pQueue": U32, "dwpContext": U32},
            {"phContext": HANDLE, **_H}),
    _method(3, "RemoteQMCloseQueue", {"pphContext": HANDLE}, {"pphContext": HANDLE, **_H}),
    _method(4, "RemoteQMCloseCursor", {"hQueue": U32, "hCursor": U32}, _H),
    _method(5, "RemoteQMCancelReceive", {"hQueue": U32, "pQueue": U32, "dwRequestID": U32}, _H),
    _method(6, "RemoteQMPurgeQueue", {"hQueue": U32}, _H),
    _method(7, "RemoteQMGetQMQMServerPort", {"dwPortType": U32}, _H),
    _method(8, "RemoteQmGetVersion", {}, {"pMajor": U8, "pMinor": U8, "pBuildNumber": U16}),
    _method(9, "RemoteQMStartReceive2", {"lpRemoteReadDesc2": READDESC2},
            {"pphContext": HANDLE, "lpRemoteReadDesc2": READDESC2, **_H}),
    _method(10, "RemoteQMStartReceiveByLookupId", {"LookupId": U64, "lpRemoteReadDesc2": READDESC2},
            {"pphContext": HANDLE, "lpRemoteReadDesc2": READDESC2, **_H}),
])  # fmt: skip

SECTION: Final = Struct(SectionBufferType=ENUM, SectionSizeAlloc=U32, SectionSize=U32, pSectionBuffer=Pointer(BYTES))
_OPEN: Final[dict[str, Type]] = {
    "pQueueFormat": QUEUE_FORMAT, "dwAccess": U32, "dwShareMode": U32, "pClientId": GUID, "fNonRoutingServer": I32,
    "Major": U8, "Minor": U8, "BuildNumber": U16, "fWorkgroup": I32,
}  # fmt: skip
_START: Final[dict[str, Type]] = {
    "phContext": HANDLE, "LookupId": U64, "hCursor": U32, "ulAction": U32, "ulTimeout": U32, "dwRequestId": U32,
    "dwMaxBodySize": U32, "dwMaxCompoundMessageSize": U32,
}  # fmt: skip
_STARTED: Final[dict[str, Type]] = {
    "pdwArriveTime": U32, "pSequenceId": U64, "pdwNumberOfSections": U32, "ppPacketSections": Pointer(Array(SECTION)),
    **_H,
}  # fmt: skip
_CONTEXT: Final[dict[str, Type]] = {"phContext": HANDLE}
_END: Final[dict[str, Type]] = {**_CONTEXT, "dwAck": U32, "dwRequestId": U32}
REMOTE_READ: Final = Interface("1a9134dd-7b39-45ba-ad88-44d01ca47f28", (1, 0), [
    _method(0, "R_GetServerPort", {}, _H),
    _method(2, "R_OpenQueue", _OPEN, {"pphContext": HANDLE}),
    _method(3, "R_CloseQueue", {"pphContext": HANDLE}, {"pphContext": HANDLE, **_H}),
    _method(4, "R_CreateCursor", _CONTEXT, {"phCursor": U32, **_H}),
    _method(5, "R_CloseCursor", {**_CONTEXT, "hCursor": U32}, _H),
    _method(6, "R_PurgeQueue", _CONTEXT, _H),
    _method(7, "R_StartReceive", _START, _STARTED),
    _method(8, "R_CancelReceive", {**_CONTEXT, "dwRequestId": U32}, _H),
    _method(9, "R_EndReceive", _END, _H),
    _method(10, "R_MoveMessage", {"phContextFrom": HANDLE, "ullContextTo": U64, "LookupId": U64,
                                  "pTransactionId": UOW}, _H),
    _method(11, "R_OpenQueueForMove", _OPEN, {"pMoveContext": U64, "pphContext": HANDLE}),
    _method(12, "R_QMEnlistRemoteTransaction",
            {"pTransactionId": UOW, "cbPropagationToken": U32, "pbPropagationToken": BYTES,
             "pQueueFormat": QUEUE_FORMAT}, _H),
    _method(13, "R_StartTransactionalReceive", {**_START, "pTransactionId": UOW}, _STARTED),
    _method(14, "R_SetUserAcknowledgementClass", {**_CONTEXT, "LookupId": U64, "usClass": U16}, _H),
    _method(15, "R_EndTransactionalReceive", _END, _H),
])  # fmt: skip

MGMT_OBJECT: Final = Struct(type=ENUM, object=Union(ENUM, {2: Pointer(QUEUE_FORMAT), 1: U32, 3: U32}))
QMMGMT: Final = Interface("41208ee0-e970-11d1-9b9e-00e02c064c39", (1, 0), [
    _method(0, "R_QMMgmtGetInfo", {"pObjectFormat": MGMT_OBJECT, "cp": U32, "aProp": Array(U32), "apVar": _VALUES},
            {"apVar": _VALUES, **_H}),
    _method(1, "R_QMMgmtAction", {"pObjectFormat": MGMT_OBJECT, "lpwszAction": Text()}, _H),
])  # fmt: skip

INTERFACES: Final = {"qmcomm": QMCOMM, "qmcomm2": QMCOMM2, "qm2qm": QM2QM, "remote_read": REMOTE_READ, "qmmgmt": QMMGMT}


# Names of queues


def direct(name: str, suffix: int = 0) -> dict[str, Any]:
    return {"m_qft": 3, "m_SuffixAndFlags": suffix, "id": (3, name)}


def private(lineage: bytes, number: int, suffix: int = 0) -> dict[str, Any]:
    return {"m_qft": 2, "m_SuffixAndFlags": suffix, "id": (2, lineage + number.to_bytes(4, "little"))}


def object_format(name: dict[str, Any] | None) -> dict[str, Any]:
    return {"ObjType": 1, "object": (1, name)}
