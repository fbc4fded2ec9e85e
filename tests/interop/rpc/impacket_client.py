"""The verbs on the second peer: a marshaller and PDUs of the tests' own, with impacket's NTLM beneath."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from tests.interop.rpc.second_interfaces import object_format, sized
from tests.interop.rpc.second_ndr import To
from tests.interop.rpc.second_rpc import Connection, Credentials, Fault
from tests.interop.rpc.verbs import (
    ARM,
    FOREVER,
    LENGTHS,
    MEMBERS,
    SCALARS,
    SIZES,
    TAKE,
    XACT,
    Login,
    Opened,
    Outcome,
    message_of,
    text,
)


class ImpacketPeer:
    """On one connection of the second peer, with impacket's NTLM."""

    def __init__(self, host: str, login: Login | None = None, port: int = 2103, **options: Any) -> None:
        credentials = None if login is None else Credentials(login.user, login.password, login.domain, login.level)
        self.connection = Connection(host, port, credentials=credentials, **options).bind("qmcomm", "qmcomm2")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, method: str, **values: Any) -> Outcome:
        try:
            found = self.connection.call(method, **values)
        except Fault as fault:
            return Outcome(fault.status, raised=True)
        return Outcome(found.pop("result", 0), found)

    def port(self, which: int) -> int:
        return self.call("R_QMGetRTQMServerPort", fIP=which).code

    def registry(self, query: int) -> Outcome:
        found = self.call("R_QMQueryQMRegistryInternal", dwQueryType=query)
        return Outcome(found.code, {"value": found.values.get("lplpMQISServer")}, found.raised)

    def create(self, path: str, properties: Mapping[int, str], security: bytes | None = None) -> Outcome:
        return self.call("R_QMCreateObjectInternal", dwObjectType=1, lpwcsPathName=path, SDSize=len(security or b""),
                         pSecurityDescriptor=security, **_properties(properties))  # fmt: skip

    def delete(self, name: str) -> Outcome:
        return self.call("R_QMDeleteObject", pObjectFormat=object_format(format_of(name)))

    def get(self, name: str, properties: Mapping[int, str]) -> Outcome:
        found = self.call(
            "R_QMGetObjectProperties", pObjectFormat=object_format(format_of(name)), **_properties(properties)
        )
        values = found.values.get("apVar", [])
        return Outcome(
            found.code, {str(number): value["varUnion"][1] for number, value in zip(properties, values, strict=False)}
        )

    def set(self, name: str, properties: Mapping[int, str]) -> Outcome:
        return self.call(
            "R_QMSetObjectProperties", pObjectFormat=object_format(format_of(name)), **_properties(properties)
        )

    def get_security(self, name: str, parts: int, length: int) -> Outcome:
        found = self.call("R_QMGetObjectSecurityInternal", pObjectFormat=object_format(format_of(name)),
                          RequestedInformation=parts, nLength=length)  # fmt: skip
        return Outcome(found.code, {"needed": found.values.get("lpnLengthNeeded"),
                                    "security": found.values.get("pSecurityDescriptor")}, found.raised)  # fmt: skip

    def set_security(self, name: str, parts: int, security: bytes) -> Outcome:
        return self.call("R_QMSetObjectSecurityInternal", pObjectFormat=object_format(format_of(name)),
                         SecurityInformation=parts, SDSize=len(security), pSecurityDescriptor=security)  # fmt: skip

    def find(self, path: str) -> Outcome:
        found = self.call(
            "R_QMObjectPathToObjectFormat", lpwcsPathName=path, pObjectFormat=object_format(format_of("unknown:"))
        )
        if found.code:
            return found
        kind, value = found["pObjectFormat"]["object"][1]["id"]
        name = f"private:{value[:16].hex()}:{int.from_bytes(value[16:], 'little')}" if kind == 2 else None
        return Outcome(0, {"kind": kind, "name": name})

    def open(self, name: str, access: int, share: int = 0) -> Outcome:
        found = self.call("rpc_QMOpenQueueInternal", pQueueFormat=format_of(name), dwDesiredAccess=access,
                          dwShareMode=share,
                          lplpRemoteQueueName=To(None), lpClientName="impacket", pLicGuid=bytes(16))  # fmt: skip
        if found.raised:
            return found
        opened = Opened(found["phQueue"], found["phQueue"], found["pdwQMContext"])
        return Outcome(found.code, {"queue": opened, "remote": found["lplpRemoteQueueName"]})

    def close_queue(self, opened: Opened) -> Outcome:
        found = self.call("rpc_ACCloseHandle", phQueue=opened.handle)
        return Outcome(found.code, {"handle": found.values.get("phQueue")}, found.raised)

    def format_name(self, opened: Opened, length: int) -> Outcome:
        found = self.call("rpc_ACHandleToFormatName", hQueue=opened.handle, dwFormatNameRPCBufferLen=length,
                          lpwcsFormatName=bytes(2 * length) if length else None, pdwLength=length)  # fmt: skip
        name = found.values.get("lpwcsFormatName")
        return Outcome(
            found.code, {"name": None if name is None else text(name), "length": found.values.get("pdwLength")}
        )

    def purge(self, opened: Opened) -> Outcome:
        return self.call("rpc_ACPurgeQueue", hQueue=opened.handle)

    def send(self, opened: Opened, **values: Any) -> Outcome:
        found = self.call("rpc_ACSendMessageEx", hQueue=opened.handle, **self.sending(**values))
        return Outcome(found.code, {"message_id": found.values.get("pMessageID")}, found.raised)

    def sending(self, **values: Any) -> dict[str, Any]:
        given = {"time_to_live": FOREVER, **values}
        arm = {"pAdminQueueFormat": _format_or_none(given.pop("admin", None)),
               "pResponseQueueFormat": _format_or_none(given.pop("response", None))}  # fmt: skip
        if "label" in given:
            given["label"] = (given["label"] + "\0").encode("utf-16-le", "surrogatepass")
        members = {MEMBERS[name]: value for name, value in given.items()}
        old = sized({"uTransferType": 0, "arm": (0, arm), **members})
        return {"ptb": {"old": old}, "pMessageID": bytes(20)}

    def receive(self, opened: Opened, action: int = TAKE, **values: Any) -> Outcome:
        return self.received(self.call("rpc_ACReceiveMessageEx", **self.receiving(opened, action, **values)))

    def start_receive(self, opened: Opened, action: int = TAKE, **values: Any) -> int:
        return self.connection.begin("rpc_ACReceiveMessageEx", **self.receiving(opened, action, **values))

    def finish_receive(self, call: int) -> Outcome:
        try:
            found = self.connection.complete(call, "rpc_ACReceiveMessageEx")
        except Fault as fault:
            return Outcome(fault.status, raised=True)
        return self.received(Outcome(found.pop("result"), found))

    def receiving(self, opened: Opened, action: int = TAKE, **values: Any) -> dict[str, Any]:
        given = {**SIZES, **values}
        arm: dict[str, Any] = {
            "RequestTimeout": given.pop("timeout", 0),
            "Action": action,
            "Cursor": given.pop("cursor", 0),
        }
        old: dict[str, Any] = {MEMBERS[name]: 0 for name in SCALARS}
        old |= {"pUow": given.pop("uow", None), "ppMessageID": bytes(20), "ppCorrelationID": bytes(20),
                "ppSrcQMID": bytes(16), "ppConnectorType": bytes(16), "pBodySize": 0}  # fmt: skip
        for name, size in given.items():
            if name in ARM:
                arm |= {f"pp{ARM[name]}FormatName": bytes(2 * size), f"ul{ARM[name]}FormatNameLen": size,
                        f"pul{ARM[name]}FormatNameLenProp": size}  # fmt: skip
            else:
                old[MEMBERS[name]] = bytes(size * (2 if name == "label" else 1))
                old[LENGTHS[name]] = size
        buffer = {"old": sized({"uTransferType": 1, "arm": (1, arm), **old}), "pbFirstInXact": 0, "pbLastInXact": 0,
                  "ppXactID": bytes(20)}  # fmt: skip
        return {"hQMContext": opened.context, "ptb": buffer}

    def received(self, found: Outcome) -> Outcome:
        if found.raised:
            return found
        buffer = found["ptb"]
        old, arm = buffer["old"], buffer["old"]["arm"][1]
        values = {name: old[member] for name, member in MEMBERS.items() if old[member] is not None}
        values |= {f"{name}_length": old[member] for name, member in LENGTHS.items() if old[member] is not None}
        for name, part in ARM.items():
            if arm[f"pp{part}FormatName"] is not None:
                values |= {name: arm[f"pp{part}FormatName"], f"{name}_length": arm[f"pul{part}FormatNameLenProp"]}
        values |= {name: buffer[member] for name, member in XACT.items()} | {"xact_id": buffer["ppXactID"]}
        return Outcome(found.code, {"message": message_of(values), "raw": values})

    def cursor(self, opened: Opened) -> Outcome:
        found = self.call("rpc_ACCreateCursorEx", hQueue=opened.handle)
        return Outcome(found.code, {"cursor": found.values.get("pcc", {}).get("hCursor")}, found.raised)

    def close_cursor(self, opened: Opened, cursor: int) -> Outcome:
        return self.call("rpc_ACCloseCursor", hQueue=opened.handle, hCursor=cursor)

    def enlist(self, uow: bytes) -> Outcome:
        found = self.call("R_QMEnlistInternalTransaction", pUow=uow)
        return Outcome(
            found.code, {"handle": found.values.get("phIntXact"), "wire": found.values.get("phIntXact")}, found.raised
        )

    def commit(self, handle: Any) -> Outcome:
        return self.call("R_QMCommitTransaction", phIntXact=handle)

    def abort(self, handle: Any) -> Outcome:
        return self.call("R_QMAbortTransaction", phIntXact=handle)

    def whereabouts(self, length: int) -> Outcome:
        found = self.call("R_QMGetTmWhereabouts", cbBufSize=length)
        return Outcome(found.code, {"needed": found.values.get("pcbWhereabouts")}, found.raised)

    def close(self) -> None:
        self.connection.close()


_KINDS: Final = ("unknown", "public", "private", "direct", "machine", "connector", "dl", "multicast", "subqueue")
_TYPES: Final = {"empty": 0, "null": 1, "i2": 2, "i4": 3, "bool": 11, "i1": 16, "ui1": 17, "ui2": 18, "ui4": 19,
                 "i8": 20,
                 "ui8": 21, "wstr": 31, "clsid": 72, "blob": 65}  # fmt: skip


def format_of(name: str) -> dict[str, Any]:
    """QUEUE_FORMAT of the names that the Wine program takes, unquoted."""
    kind, _, rest = name.partition(":")
    rest, _, suffix = rest.rpartition("@") if "@0x" in rest else (rest, "", "0")
    qft = _KINDS.index(kind)
    value: Any = None
    if qft in (1, 4, 5):
        value = bytes.fromhex(rest)
    elif qft == 2:
        guid, _, number = rest.partition(":")
        value = bytes.fromhex(guid) + int(number, 0).to_bytes(4, "little")
    elif qft in (3, 8):
        value = rest
    elif qft == 6:
        guid, _, domain = rest.partition(":")
        value = {"m_DlGuid": bytes.fromhex(guid), "m_pwzDomain": domain or None}
    elif qft == 7:
        address, _, port = rest.partition(":")
        value = {"m_address": int(address, 0), "m_port": int(port, 0)}
    return {"m_qft": qft, "m_SuffixAndFlags": int(suffix, 0), "id": (qft, value)}


def _format_or_none(name: str | None) -> dict[str, Any] | None:
    return None if name is None else format_of(name)


def _properties(properties: Mapping[int, str]) -> dict[str, Any]:
    values: list[dict[str, Any]] = []
    for given in properties.values():
        kind, _, value = given.partition(":")
        vt = _TYPES[kind]
        arm: Any = None
        if vt == 31:
            arm = value
        elif vt == 72:
            arm = bytes.fromhex(value)
        elif vt > 1:
            arm = int(value or "0", 0)
        values.append({"vt": vt, "varUnion": (vt, arm)})
    return {"cp": len(values), "aProp": list(properties), "apVar": values}
