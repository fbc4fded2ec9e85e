"""A second reading of the RPC interfaces, for comparison: from the IDL of [MS-MQMP], [MS-MQQP], [MS-MQRR], [MS-MQMR],
[MS-RPCE] 2.2.1 and [C706] 14 alone. It shares nothing with src/lior.

Each function here writes and reads: a `Sink` puts what it is given, a `Source` ignores it and gives what it finds.
Values are dicts with the names of the IDL; a pointer that is NULL is absent, one to a NULL pointer is "null".
"""

import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

Value = Any
Shape = Callable[["Sink | Source", Value], Value]


class Sink:
    def __init__(self, wide: bool = False, order: str = "<") -> None:
        self.out = b""
        self.wide = wide
        self.order = order
        self.referents: list[int] = []  # where they are: which numbers they have is the writer's choice

    def align(self, to: int) -> None:
        while len(self.out) % to:
            self.out += b"\0"

    def number(self, code: str, value: Value) -> int:
        self.align(struct.calcsize("<" + code))
        self.out += struct.pack(self.order + code, value)
        return int(value)

    def octets(self, count: int, value: Value) -> bytes:
        assert len(value) == count, (len(value), count)
        self.out += bytes(value)
        return bytes(value)

    def pointer(self, value: Value) -> bool:
        self.number("Q" if self.wide else "I", 0 if value is None else 1)
        if value is not None:
            self.referents.append(len(self.out) - (8 if self.wide else 4))
        return value is not None

    def count(self, value: Value) -> int:
        return self.number("Q" if self.wide else "I", value)

    def end(self) -> bytes:
        return self.out


class Source:
    def __init__(self, data: bytes, wide: bool = False, order: str = "<") -> None:
        self.data = data
        self.wide = wide
        self.order = order
        self.at = 0

    def align(self, to: int) -> None:
        while self.at % to:
            self.at += 1

    def number(self, code: str, value: Value) -> int:
        size = struct.calcsize("<" + code)
        self.align(size)
        self.at += size
        (found,) = struct.unpack(self.order + code, self.data[self.at - size:self.at])
        return int(found)

    def octets(self, count: int, value: Value) -> bytes:
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count:self.at]

    def pointer(self, value: Value) -> bool:
        return self.number("Q" if self.wide else "I", None) != 0

    def count(self, value: Value) -> int:
        return self.number("Q" if self.wide else "I", None)

    def end(self) -> bytes:
        assert self.at == len(self.data)
        return b""


IO = Sink | Source


# ---- simple types ---------------------------------------------------------------------------------------------------


def u8(io: IO, value: Value) -> int:
    return io.number("B", value)


def u16(io: IO, value: Value) -> int:
    return io.number("H", value)


def u32(io: IO, value: Value) -> int:
    return io.number("I", value)


def i32(io: IO, value: Value) -> int:
    return io.number("i", value)


def u64(io: IO, value: Value) -> int:
    return io.number("Q", value)


def enum(io: IO, value: Value) -> int:
    return io.number("i" if io.wide else "H", value)


def guid(io: IO, value: Value) -> uuid.UUID:
    fields = value.fields if isinstance(io, Sink) else (None,) * 6
    one, two, three = io.number("I", fields[0]), io.number("H", fields[1]), io.number("H", fields[2])
    rest = io.octets(8, value.bytes[8:] if isinstance(io, Sink) else None)
    return uuid.UUID(fields=(one, two, three, rest[0], rest[1], int.from_bytes(rest[2:], "big")))


def objectid(io: IO, value: Value) -> tuple[uuid.UUID, int]:
    lineage, uniquifier = value or (None, None)
    return guid(io, lineage), u32(io, uniquifier)


def xactuow(io: IO, value: Value) -> uuid.UUID:
    rgb = io.octets(16, value.bytes_le if isinstance(io, Sink) else None)
    return uuid.UUID(bytes_le=bytes(rgb))


def handle(io: IO, value: Value) -> bytes:
    """A context handle: attributes and a UUID."""
    attributes = u32(io, int.from_bytes(value[:4], "little") if isinstance(io, Sink) else None)
    name = guid(io, uuid.UUID(bytes_le=value[4:]) if isinstance(io, Sink) else None)
    return attributes.to_bytes(4, "little") + name.bytes_le


def string(io: IO, value: Value) -> str:
    code = "utf-16-le" if io.order == "<" else "utf-16-be"
    units = (value + "\0").encode(code) if isinstance(io, Sink) else b""
    maximum, offset, actual = io.count(len(units) // 2), io.count(0), io.count(len(units) // 2)
    assert offset == 0
    assert maximum == actual
    return io.octets(2 * actual, units).decode(code)[:-1]


def chars(count: int | None, actual: int | None = None) -> Shape:
    """Octets, or WCHARs given as their bytes; conformant, and varying if `actual` is given."""
    return _array(count, actual, 1)


def wchars(count: int | None, actual: int | None = None) -> Shape:
    return _array(count, actual, 2)


def _array(count: int | None, actual: int | None, width: int) -> Shape:
    def shape(io: IO, value: Value) -> bytes:
        maximum = io.count(count)
        assert count in (None, maximum)
        many = maximum

        def swapped(data: bytes) -> bytes:
            if width == 1 or io.order == "<":
                return data
            return b"".join(data[at + 1:at + 2] + data[at:at + 1] for at in range(0, len(data), 2))

        if actual is not None:
            assert io.count(0) == 0
            many = io.count(actual)
            assert many == actual <= maximum
        return swapped(io.octets(many * width, swapped(value) if isinstance(io, Sink) else None))

    return shape


def array_of(shape: Shape, count: int | None) -> Shape:
    """Elements without pointers."""
    def whole(io: IO, value: Value) -> tuple[Value, ...]:
        maximum = io.count(count)
        assert count in (None, maximum)
        return tuple(shape(io, each) for each in (value if isinstance(io, Sink) else (None,) * maximum))

    return whole


def pointer(shape: Shape) -> Shape:
    """A pointer outside a structure, with what it points to; None is NULL, and "null" what points to NULL."""
    def whole(io: IO, value: Value) -> Value:
        return shape(io, value) if io.pointer(value) else None

    return whole


def inner(shape: Shape) -> Shape:
    def whole(io: IO, value: Value) -> Value:
        found = pointer(shape)(io, None if value == "null" else value)
        return "null" if found is None else found

    return whole


# ---- structures -----------------------------------------------------------------------------------------------------


class Members:
    """Goes through the members of a structure; pointees wait until `rest`."""

    def __init__(self, io: IO, value: Value) -> None:
        self.io = io
        self.v: dict[str, Value] = dict(value) if isinstance(io, Sink) else {}
        self.todo: list[Callable[[], None]] = []

    def n(self, name: str, shape: Shape = u32) -> Value:
        self.v[name] = shape(self.io, self.v.get(name))
        return self.v[name]

    def p(self, name: str, shape: Callable[[], Shape] | Shape, late: bool = False) -> None:
        """A unique pointer. `late`: the shape is made when the counts are known."""
        if self.io.pointer(self.v.get(name)):
            def act() -> None:
                actual: Any = shape() if late else shape  # type: ignore[call-arg]
                self.v[name] = actual(self.io, self.v.get(name))
            self.todo.append(act)

    def pp(self, name: str, shape: Callable[[], Shape]) -> None:
        self.p(name, lambda: inner(shape()), late=True)

    def rest(self) -> dict[str, Value]:
        for act in self.todo:
            act()
        return self.v


def queue_format(io: IO, value: Value) -> Value:
    found, rest = queue_format_in_place(io, value)
    return (*found, rest())


def queue_format_in_place(io: IO, value: Value) -> Any:
    """QUEUE_FORMAT as (m_qft, m_SuffixAndFlags, what the arm holds) and what reads the pointee."""
    kind, suffix, content = value or (None, None, None)
    io.align(8 if io.wide else 4)
    kind, suffix = u8(io, kind), u8(io, suffix)
    u16(io, 0)
    if io.wide:
        io.align(8)
    assert u8(io, kind) == kind
    if io.wide:
        io.align(8)
    rest: Callable[[], Value] = lambda: content  # noqa: E731
    if kind in (1, 4, 5):
        content = guid(io, content)
    elif kind == 2:
        content = objectid(io, content)
    elif kind == 7:
        address, port = content or (None, None)
        four = u32(io, int.from_bytes(address, "little") if address else 0)
        content = (four.to_bytes(4, "little"), u32(io, port))
    elif kind == 6:
        dl, domain = content or (None, None)
        dl = guid(io, dl)
        present = io.pointer(domain)
        rest = lambda: (dl, string(io, domain) if present else None)  # noqa: E731
    elif kind in (3, 8):
        assert io.pointer(content if isinstance(io, Sink) else 0)
        rest = lambda: string(io, content)  # noqa: E731
    else:
        assert kind == 0
    if io.wide:
        io.align(8)
    return (kind, suffix), rest


def cursor(io: IO, value: Value) -> Value:
    io.align(4)
    m = Members(io, value)
    for name in ("hCursor", "srv_hACQueue", "cli_pQMQueue"):
        m.n(name)
    return m.rest()


def _send(m: Members) -> None:
    m.p("pAdminQueueFormat", queue_format)
    m.p("pResponseQueueFormat", queue_format)


def _receive(m: Members) -> None:
    for name in ("RequestTimeout", "Action", "Asynchronous", "Cursor"):
        m.n(name)
    for kind in ("Response", "Admin", "Dest", "Ordering"):
        length = m.n(f"ul{kind}FormatNameLen")
        assert length <= 1024
        m.pp(f"pp{kind}FormatName", lambda length=length: wchars(length))  # type: ignore[misc]
        m.p(f"pul{kind}FormatNameLenProp", u32)


def _create_cursor(m: Members) -> None:
    for name in ("hCursor", "srv_hACQueue", "cli_pQMQueue"):
        m.n(name)


def message_buffer_v1(io: IO, value: Value) -> Value:
    return _message_buffer(io, value, 1)


def message_buffer_v2(io: IO, value: Value) -> Value:
    return _message_buffer(io, value, 2)


def _message_buffer(io: IO, value: Value, version: int) -> Value:
    io.align(4)
    m = Members(io, value)
    kind = m.n("uTransferType")
    assert u32(io, kind) == kind
    (_send, _receive, _create_cursor)[kind](m)
    v = m.v
    m.p("pClass", u16)
    m.pp("ppMessageID", lambda: objectid)
    m.pp("ppCorrelationID", lambda: chars(20, 20))
    m.p("pSentTime", u32)
    m.p("pArrivedTime", u32)
    for name in ("pPriority", "pDelivery", "pAcknowledge", "pAuditing"):
        m.p(name, u8)
    m.p("pApplicationTag", u32)
    m.pp("ppBody", lambda: chars(v["ulAllocBodyBufferInBytes"], v["ulBodyBufferSizeInBytes"]))
    m.n("ulBodyBufferSizeInBytes")
    m.n("ulAllocBodyBufferInBytes")
    m.p("pBodySize", u32)
    m.pp("ppTitle", lambda: wchars(v["ulTitleBufferSizeInWCHARs"], v["ulTitleBufferSizeInWCHARs"]))
    m.n("ulTitleBufferSizeInWCHARs")
    m.p("pulTitleBufferSizeInWCHARs", u32)
    m.n("ulAbsoluteTimeToQueue")
    m.p("pulRelativeTimeToQueue", u32)
    m.n("ulRelativeTimeToLive")
    m.p("pulRelativeTimeToLive", u32)
    m.p("pTrace", u8)
    m.p("pulSenderIDType", u32)
    m.pp("ppSenderID", lambda: chars(v["uSenderIDLen"]))
    m.p("pulSenderIDLenProp", u32)
    m.p("pulPrivLevel", u32)
    m.n("ulAuthLevel")
    m.p("pAuthenticated", u8)
    m.p("pulHashAlg", u32)
    m.p("pulEncryptAlg", u32)
    m.pp("ppSenderCert", lambda: chars(v["ulSenderCertLen"]))
    m.n("ulSenderCertLen")
    m.p("pulSenderCertLenProp", u32)
    m.pp("ppwcsProvName", lambda: wchars(v["ulProvNameLen"]))
    m.n("ulProvNameLen")
    m.p("pulAuthProvNameLenProp", u32)
    m.p("pulProvType", u32)
    m.n("fDefaultProvider", i32)
    m.pp("ppSymmKeys", lambda: chars(v["ulSymmKeysSize"]))
    m.n("ulSymmKeysSize")
    m.p("pulSymmKeysSizeProp", u32)
    m.n("bEncrypted", u8)
    m.n("bAuthenticated", u8)
    m.n("uSenderIDLen", u16)
    m.pp("ppSignature", lambda: chars(v["ulSignatureSize"]))
    m.n("ulSignatureSize")
    m.p("pulSignatureSizeProp", u32)
    m.pp("ppSrcQMID", lambda: guid)
    m.p("pUow", xactuow)
    m.pp("ppMsgExtension", lambda: chars(v["ulMsgExtensionBufferInBytes"], v["ulMsgExtensionBufferInBytes"]))
    m.n("ulMsgExtensionBufferInBytes")
    m.p("pMsgExtensionSize", u32)
    m.pp("ppConnectorType", lambda: guid)
    m.p("pulBodyType", u32)
    m.p("pulVersion", u32)
    if version == 2:
        m.p("pbFirstInXact", u8)
        m.p("pbLastInXact", u8)
        m.pp("ppXactID", lambda: objectid)
    return m.rest()


def object_format(io: IO, value: Value) -> Value:
    io.align(4)
    m = Members(io, value)
    kind = m.n("ObjType")
    assert u32(io, kind) == kind == 1
    m.p("pQueueFormat", queue_format)
    return m.rest()


def mgmt_object(io: IO, value: Value) -> Value:
    io.align(4)
    m = Members(io, value)
    kind = m.n("type", u16)
    assert u16(io, kind) == kind
    if kind == 2:
        m.p("pQueueFormat", queue_format)
    else:
        m.n("Reserved1" if kind == 1 else "Reserved2")
    return m.rest()


def remote_read_desc(io: IO, value: Value) -> Value:
    io.align(8 if io.wide else 4)
    m = Members(io, value)
    for name in ("hRemoteQueue", "hCursor", "ulAction", "ulTimeout", "dwSize", "dwQueue", "dwRequestId", "Reserved",
                 "dwArriveTime"):
        m.n(name)
    m.n("eAckNack", enum)
    m.p("lpBuffer", lambda: chars(m.v["dwSize"], m.v["dwSize"]), late=True)
    return m.rest()


def remote_read_desc2(io: IO, value: Value) -> Value:
    io.align(8)
    m = Members(io, value)
    m.p("pRemoteReadDesc", remote_read_desc)
    m.n("SequentialId", u64)
    return m.rest()


def sections(count: int | None) -> Shape:
    def shape(io: IO, value: Value) -> Value:
        maximum = io.count(count)
        assert count in (None, maximum)
        begun = []
        for each in value if isinstance(io, Sink) else [None] * maximum:
            io.align(8 if io.wide else 4)
            m = Members(io, each)
            m.n("SectionBufferType", enum)
            m.n("SectionSizeAlloc")
            m.n("SectionSize")
            m.p("pSectionBuffer", lambda m=m: chars(m.v["SectionSize"]), late=True)
            begun.append(m)
        return tuple(m.rest() for m in begun)

    return shape


def tower(io: IO, value: Value) -> bytes:
    count = io.count(len(value or b""))
    length = u32(io, count)
    assert length == count <= 2000
    return io.octets(length, value)


def towers(maximum: int) -> Shape:
    def shape(io: IO, value: Value) -> Value:
        assert io.count(maximum) == maximum
        assert io.count(0) == 0
        count = io.count(len(value or ()))
        values = value if isinstance(io, Sink) else [None] * count
        present = [io.pointer(each) for each in values]
        return tuple(tower(io, each) if there else None for there, each in zip(present, values, strict=True))

    return shape


def entries(maximum: int) -> Shape:
    def shape(io: IO, value: Value) -> Value:
        assert io.count(maximum) == maximum
        assert io.count(0) == 0
        count = io.count(len(value or ()))
        found = []
        for each in value if isinstance(io, Sink) else [(None, None, None)] * count:
            name = guid(io, each[0])
            present = io.pointer(each[1])
            assert u32(io, 0) == 0
            text = (each[2] or b"") + b"\0"
            found.append((name, present, each[1], io.octets(u32(io, len(text)), text)))
        return tuple((name, tower(io, body) if present else None, text[:-1]) for name, present, body, text in found)

    return shape


def if_id(io: IO, value: Value) -> Value:
    one, major, minor = value or (None, None, None)
    return guid(io, one), u16(io, major), u16(io, minor)


def if_ids(io: IO, value: Value) -> Value:
    count = io.count(len(value or ()))
    assert u32(io, count) == count
    values = value if isinstance(io, Sink) else [None] * count
    present = [io.pointer(each) for each in values]
    return tuple(if_id(io, each) for there, each in zip(present, values, strict=True) if there)


def char_string(maximum: int) -> Shape:
    def shape(io: IO, value: Value) -> bytes:
        text = (value or b"") + b"\0"
        assert io.count(maximum) == maximum
        assert io.count(0) == 0
        return io.octets(io.count(len(text)), text)[:-1]

    return shape


# ---- methods: the parameters of each, [in] and [out]; a function where a count is another parameter -----------------

Values = dict[str, Value]
Parameters = list[tuple[str, Shape | Callable[[Values], Shape]]]
RESULT: Parameters = [("return", u32)]


def by(make: Callable[[Values], Shape]) -> Any:
    """A shape that depends on other parameters."""
    make.depends = True  # type: ignore[attr-defined]
    return make


def names(*all_of: str) -> Parameters:
    return [(name, u32) for name in all_of]


_NAME = ("lplpRemoteQueueName", pointer(inner(string)))
_SD: Parameters = [("SDSize", u32), ("pSecurityDescriptor", by(lambda v: pointer(chars(v["SDSize"]))))]
_APROP = by(lambda v: array_of(u32, v["cp"]))
_HANDLE_INOUT: Parameters = [("phIntXact", handle)]
_OPEN: Parameters = [("pQueueFormat", queue_format), *names("dwAccess", "dwShareMode"), ("pClientId", guid),
         ("fNonRoutingServer", i32), ("Major", u8), ("Minor", u8), ("BuildNumber", u16), ("fWorkgroup", i32)]
_RECEIVE: Parameters = [("phContext", handle), ("LookupId", u64), *names(
    "hCursor", "ulAction", "ulTimeout", "dwRequestId", "dwMaxBodySize", "dwMaxCompoundMessageSize")]
_SECTIONS: Parameters = [("pdwArriveTime", u32), ("pSequenceId", u64), ("pdwNumberOfSections", u32),
             ("ppPacketSections", by(lambda v: pointer(sections(v["pdwNumberOfSections"])))), *RESULT]
_END: Parameters = [("phContext", handle), *names("dwAck", "dwRequestId")]

# PROPVARIANT has its own second reading (second_ndr.py), so opnums 6, 10, 11 and R_QMMgmtGetInfo are not here.
METHODS: dict[tuple[str, int], tuple[Parameters, Parameters]] = {
    ("qmcomm", 1): ([("pQueue", u32), _NAME], [_NAME, *RESULT]),
    ("qmcomm", 2): (
        [("pQueueFormat", pointer(queue_format)), *names("dwCallingProcessID", "dwDesiredAccess", "dwShareMode"),
         ("pLicGuid", guid), ("dwMQS", u32)],
        [("pphContext", handle), *names("pdwContext", "dwpQueue", "phQueue"), *RESULT]),
    ("qmcomm", 3): ([("pphContext", handle)], [("pphContext", handle)]),
    ("qmcomm", 4): ([("ptb1", message_buffer_v1), ("hQueue", u32)], [("phCursor", u32), *RESULT]),
    ("qmcomm", 7): ([("pObjectFormat", object_format), ("SecurityInformation", u32), *_SD], RESULT),
    ("qmcomm", 8): (
        [("pObjectFormat", object_format), *names("RequestedInformation", "nLength")],
        [("pSecurityDescriptor", by(lambda v: chars(v["nLength"]))), ("lpnLengthNeeded", u32), *RESULT]),
    ("qmcomm", 9): ([("pObjectFormat", object_format)], RESULT),
    ("qmcomm", 12): ([("lpwcsPathName", string), ("pObjectFormat", object_format)],
                     [("pObjectFormat", object_format), *RESULT]),
    ("qmcomm", 14): ([("cbBufSize", u32)],
                     [("pbWhereabouts", by(lambda v: chars(v["cbBufSize"]))), ("pcbWhereabouts", u32), *RESULT]),
    ("qmcomm", 15): ([("pUow", xactuow), ("cbCookie", u32), ("pbCookie", by(lambda v: chars(v["cbCookie"])))], RESULT),
    ("qmcomm", 16): ([("pUow", xactuow)], [("phIntXact", handle), *RESULT]),
    ("qmcomm", 17): (_HANDLE_INOUT, [*_HANDLE_INOUT, *RESULT]),
    ("qmcomm", 18): (_HANDLE_INOUT, [*_HANDLE_INOUT, *RESULT]),
    ("qmcomm", 19): (
        [("pQueueFormat", queue_format), *names("dwDesiredAccess", "dwShareMode", "hRemoteQueue"), _NAME,
         ("dwpQueue", u32), ("pLicGuid", guid), ("lpClientName", string),
         *names("dwRemoteProtocol", "dwpRemoteContext")],
        [_NAME, ("pdwQMContext", u32), ("phQueue", handle), *RESULT]),
    ("qmcomm", 20): ([("phQueue", handle)], [("phQueue", handle), *RESULT]),
    ("qmcomm", 22): ([("hQueue", handle), ("hCursor", u32)], RESULT),
    ("qmcomm", 23): ([("hProxy", handle), *names("hCursor", "hRemoteCursor")], RESULT),
    ("qmcomm", 26): (
        [("hQueue", handle), ("dwFormatNameRPCBufferLen", u32),
         ("lpwcsFormatName", by(lambda v: pointer(
             wchars(v["dwFormatNameRPCBufferLen"], v["dwFormatNameRPCBufferLen"])))), ("pdwLength", u32)],
        [("lpwcsFormatName", by(lambda v: pointer(
            wchars(v["dwFormatNameRPCBufferLen"], v["dwFormatNameRPCBufferLen"])))), ("pdwLength", u32), *RESULT]),
    ("qmcomm", 27): ([("hQueue", handle)], RESULT),
    ("qmcomm", 28): ([("dwQueryType", u32)], [("lplpMQISServer", pointer(string)), *RESULT]),
    ("qmcomm", 31): ([("fIP", u32)], RESULT),
    ("qmcomm2", 0): ([("pQueueFormat", queue_format), ("ptb", message_buffer_v2), ("pMessageID", pointer(objectid))],
                     [("pMessageID", pointer(objectid)), *RESULT]),
    ("qmcomm2", 1): ([("hQueue", handle), ("ptb", message_buffer_v2), ("pMessageID", pointer(objectid))],
                     [("pMessageID", pointer(objectid)), *RESULT]),
    ("qmcomm2", 2): ([("hQMContext", u32), ("ptb", message_buffer_v2)], [("ptb", message_buffer_v2), *RESULT]),
    ("qmcomm2", 3): ([("hQueue", handle), ("pcc", cursor)], [("pcc", cursor), *RESULT]),
    ("qm2qm", 0): ([("lpRemoteReadDesc", remote_read_desc)],
                   [("pphContext", handle), ("lpRemoteReadDesc", remote_read_desc), *RESULT]),
    ("qm2qm", 1): ([("pphContext", handle), ("dwAck", u32)], [("pphContext", handle), *RESULT]),
    ("qm2qm", 2): ([("pLicGuid", guid), *names("dwMQS", "hQueue", "pQueue", "dwpContext")],
                   [("phContext", handle), *RESULT]),
    ("qm2qm", 3): ([("pphContext", handle)], [("pphContext", handle), *RESULT]),
    ("qm2qm", 4): (names("hQueue", "hCursor"), RESULT),
    ("qm2qm", 5): (names("hQueue", "pQueue", "dwRequestId"), RESULT),
    ("qm2qm", 6): (names("hQueue"), RESULT),
    ("qm2qm", 7): (names("dwPortType"), RESULT),
    ("qm2qm", 8): ([], [("pMajor", u8), ("pMinor", u8), ("pBuildNumber", u16)]),
    ("qm2qm", 9): ([("lpRemoteReadDesc2", remote_read_desc2)],
                   [("pphContext", handle), ("lpRemoteReadDesc2", remote_read_desc2), *RESULT]),
    ("qm2qm", 10): ([("LookupId", u64), ("lpRemoteReadDesc2", remote_read_desc2)],
                    [("pphContext", handle), ("lpRemoteReadDesc2", remote_read_desc2), *RESULT]),
    ("RemoteRead", 0): ([], RESULT),
    ("RemoteRead", 2): (_OPEN, [("pphContext", handle)]),
    ("RemoteRead", 3): ([("pphContext", handle)], [("pphContext", handle), *RESULT]),
    ("RemoteRead", 4): ([("phContext", handle)], [("phCursor", u32), *RESULT]),
    ("RemoteRead", 5): ([("phContext", handle), ("hCursor", u32)], RESULT),
    ("RemoteRead", 6): ([("phContext", handle)], RESULT),
    ("RemoteRead", 7): (_RECEIVE, _SECTIONS),
    ("RemoteRead", 8): ([("phContext", handle), ("dwRequestId", u32)], RESULT),
    ("RemoteRead", 9): (_END, RESULT),
    ("RemoteRead", 10): ([("phContextFrom", handle), ("ullContextTo", u64), ("LookupId", u64),
                          ("pTransactionId", xactuow)], RESULT),
    ("RemoteRead", 11): (_OPEN, [("pMoveContext", u64), ("pphContext", handle)]),
    ("RemoteRead", 12): ([("pTransactionId", xactuow), ("cbPropagationToken", u32),
                          ("pbPropagationToken", by(lambda v: chars(v["cbPropagationToken"]))),
                          ("pQueueFormat", queue_format)], RESULT),
    ("RemoteRead", 13): ([*_RECEIVE, ("pTransactionId", xactuow)], _SECTIONS),
    ("RemoteRead", 14): ([("phContext", handle), ("LookupId", u64), ("usClass", u16)], RESULT),
    ("RemoteRead", 15): (_END, RESULT),
    ("qmmgmt", 1): ([("pObjectFormat", mgmt_object), ("lpwszAction", string)], RESULT),
    ("epmapper", 2): (
        [("inquiry_type", u32), ("object", pointer(guid)), ("Ifid", pointer(if_id)), ("vers_option", u32),
         ("entry_handle", handle), ("max_ents", u32)],
        [("entry_handle", handle), ("num_ents", u32), ("entries", by(lambda v: entries(v["max_ents"]))),
         ("status", u32)]),
    ("epmapper", 3): (
        [("obj", pointer(guid)), ("map_tower", pointer(tower)), ("entry_handle", handle), ("max_towers", u32)],
        [("entry_handle", handle), ("num_towers", u32), ("ITowers", by(lambda v: towers(v["max_towers"]))),
         ("status", u32)]),
    ("epmapper", 4): ([("entry_handle", handle)], [("entry_handle", handle), ("status", u32)]),
    ("mgmt", 0): ([], [("if_id_vector", pointer(if_ids)), ("status", u32)]),
    ("mgmt", 1): (names("count"), [("count", u32), ("statistics", by(lambda v: array_of(u32, v["count"]))),
                                   ("status", u32)]),
    ("mgmt", 2): ([], [("status", u32), *RESULT]),
    ("mgmt", 3): ([], [("status", u32)]),
    ("mgmt", 4): (names("authn_proto", "princ_name_size"),
                  [("princ_name", by(lambda v: char_string(v["princ_name_size"]))), ("status", u32)]),
}


def run(io: IO, parameters: Parameters, values: Values, outer: Values) -> Values:
    """Writes the values of the parameters, or reads them."""
    found: Values = {}
    for name, shape in parameters:
        known = {**outer, **values, **found}
        actual: Any = shape(known) if getattr(shape, "depends", False) else shape  # type: ignore[call-arg, arg-type]
        found[name] = actual(io, values.get(name))
    return found


def parts() -> Iterator[tuple[str, int, bool]]:
    """Every stub: interface, opnum, whether it is a response."""
    for name, opnum in METHODS:
        yield name, opnum, False
        yield name, opnum, True
