"""A second peer of connection-oriented RPC ([C706] chapter 12, [MS-RPCE] 2.2.2), with impacket's NTLM beneath.

It is made to be told to do wrong things as well: fragments of any size, false lengths, half binds, calls side by side.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from Cryptodome.Cipher import ARC4
from impacket import ntlm

from tests.interop.rpc.second_interfaces import INTERFACES
from tests.interop.rpc.second_ndr import Interface, Method

REQUEST, RESPONSE, FAULT, BIND, BIND_ACK, BIND_NAK, ALTER, ALTER_RESPONSE, AUTH3, CANCEL, ORPHANED = (
    0, 2, 3, 11, 12, 13, 14, 15, 16, 18, 19)  # fmt: skip
FIRST, LAST, PENDING_CANCEL, SIGN_HEADER, MULTIPLEX, DID_NOT_EXECUTE, OBJECT = 1, 2, 4, 4, 0x10, 0x20, 0x80
NDR_SYNTAX: Final = ("8a885d04-1ceb-11c9-9fe8-08002b104860", 2)
NDR64_SYNTAX: Final = ("71710533-beba-4937-8319-b5dbef9ccc36", 1)
NEGOTIATION: Final = "6cb71c2c-9812-4540-"  # bind-time features follow as 8 bytes of a mask
NONE, CONNECT, CALL, PACKET, INTEGRITY, PRIVACY = 1, 2, 3, 4, 5, 6
ANSWER_WITHIN: Final = 60.0


class Fault(AssertionError):
    """The call was answered with a fault PDU."""

    def __init__(self, status: int, flags: int = 0) -> None:
        super().__init__(f"fault {status:#010x}")
        self.status = status
        self.flags = flags


class Refused(AssertionError):
    """The bind was not accepted."""


class Gone(AssertionError):
    """The server ended the connection."""


@dataclass
class Pdu:
    kind: int
    flags: int
    call: int
    data: bytes  # after the common header
    auth_length: int
    raw: bytes

    @property
    def verifier(self) -> bytes:
        return self.data[len(self.data) - self.auth_length :] if self.auth_length else b""


def pdu(kind: int, call: int, body: bytes, *, flags: int = FIRST | LAST, auth: bytes = b"", minor: int = 0) -> bytes:
    """A whole PDU; `auth` is its verifier without the 8 bytes before it, which are in `body`."""
    length = 16 + len(body) + len(auth)
    return struct.pack("<BBBBIHHI", 5, minor, kind, flags, 0x10, length, len(auth), call) + body + auth


def syntax(uuid: str, version: int) -> bytes:
    return UUID(uuid).bytes_le + struct.pack("<I", version)


def bind_body(contexts: Sequence[tuple[int, bytes, Sequence[bytes]]], *, fragment: int = 5840, group: int = 0) -> bytes:
    items = b"".join(
        struct.pack("<HBB", number, len(offered), 0) + abstract + b"".join(offered)
        for number, abstract, offered in contexts
    )
    return struct.pack("<HHIB3x", fragment, fragment, group, len(contexts)) + items


@dataclass
class Credentials:
    user: str
    password: str
    domain: str = ""
    level: int = INTEGRITY


class Ntlm:
    """The initiator's side; every signature of the server is checked."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.level = credentials.level
        self.first = ntlm.getNTLMSSPType1("", "", signingRequired=True, use_ntlmv2=True)
        self.sent = self.received = 0

    def authenticate(self, challenge: bytes) -> bytes:
        who = self.credentials
        last, key = ntlm.getNTLMSSPType3(self.first, challenge, who.user, who.password, who.domain, use_ntlmv2=True)
        self.flags = last["flags"]
        self.signing = [ntlm.SIGNKEY(self.flags, key, mode) for mode in ("Client", "Server")]
        self.sealing = [ARC4.new(ntlm.SEALKEY(self.flags, key, mode)).encrypt for mode in ("Client", "Server")]
        return bytes(last.getData())

    def protect(self, header: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        """The stub as it goes out, and its signature: over the whole PDU ([MS-RPCE] 3.3.1.5.2.2)."""
        whole = header + stub + trailer
        if self.level == PRIVACY:
            sealed, signature = ntlm.SEAL(self.flags, self.signing[0], b"", whole, stub, self.sent, self.sealing[0])
        else:
            sealed, signature = stub, ntlm.SIGN(self.flags, self.signing[0], whole, self.sent, self.sealing[0])
        self.sent += 1
        return sealed, bytes(signature.getData())

    def unprotect(self, header: bytes, stub: bytes, trailer: bytes, verifier: bytes) -> bytes:
        plain = self.sealing[1](stub) if self.level == PRIVACY else stub
        mine = ntlm.SIGN(self.flags, self.signing[1], header + plain + trailer, self.received, self.sealing[1])
        self.received += 1
        assert bytes(mine.getData()) == verifier, "the server's signature is wrong"
        return plain


@dataclass
class Connection:
    """One TCP connection; `group` joins the association of another one."""

    host: str
    port: int
    group: int = 0
    fragment: int = 5840  # what we say we take and give
    chunk: int = 0  # bytes of stub in a fragment of ours; 0: as many as there is room for
    credentials: Credentials | None = None
    source: str = ""
    stream: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        source = (self.source, 0) if self.source else None
        self.stream = socket.create_connection((self.host, self.port), ANSWER_WITHIN, source)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffered = b""
        self.calls = 1
        self.contexts: dict[str, tuple[int, Interface, bool]] = {}
        self.security: Ntlm | None = None
        self.room = self.fragment
        self.parts: dict[int, bytes] = {}
        self.done: dict[int, bytes | Fault] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.stream.close()

    def reset(self) -> None:
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()

    # Bytes

    def write(self, data: bytes) -> None:
        try:
            self.stream.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Gone("the server ended the connection") from error

    def _bytes(self, count: int) -> bytes:
        while len(self.buffered) < count:
            try:
                data = self.stream.recv(1 << 16)
            except ConnectionResetError as error:
                raise Gone("the server ended the connection") from error
            if not data:
                raise Gone("the server ended the connection")
            self.buffered += data
        found, self.buffered = self.buffered[:count], self.buffered[count:]
        return found

    def read(self) -> Pdu:
        header = self._bytes(16)
        major, minor, kind, flags, drep, length, auth, call = struct.unpack("<BBBBIHHI", header)
        assert (major, minor & ~1, drep) == (5, 0, 0x10), header.hex()
        assert 16 <= length <= max(self.fragment, 2048), f"a fragment of {length} where {self.fragment} was said"
        body = self._bytes(length - 16)
        return Pdu(kind, flags, call, body, auth, header + body)

    def until_closed(self) -> None:
        """Whatever comes before is not looked at."""
        try:
            while True:
                self._bytes(1)
        except Gone:
            return

    # Binding

    def bind(self, *names: str, wide: bool = False, both: bool = False, version: int | None = None) -> Self:
        """The interfaces of these names: with the first call a bind, afterwards alter_context."""
        first = not self.contexts
        offered: list[tuple[int, bytes, list[bytes]]] = []
        for name in names:
            interface = INTERFACES[name]
            transfer = [syntax(*(NDR64_SYNTAX if wide else NDR_SYNTAX))]
            if both:
                transfer = [syntax(*NDR_SYNTAX), syntax(*NDR64_SYNTAX)]
            number = len(self.contexts) + len(offered)
            major = interface.version[0] if version is None else version
            offered.append((number, syntax(interface.uuid, major), transfer))
        body = bind_body(offered, fragment=self.fragment, group=self.group)
        auth = b""
        if first and self.credentials and self.credentials.level > NONE:
            self.security = Ntlm(self.credentials)
            auth = bytes(self.security.first.getData())
            body += self._trailer(0)
        self.write(pdu(BIND if first else ALTER, self.calls, body, auth=auth, flags=FIRST | LAST | MULTIPLEX))
        answer = self.read()
        self.calls += 1
        if answer.kind == FAULT:
            raise Fault(struct.unpack_from("<I", answer.data, 8)[0], answer.flags)
        if answer.kind == BIND_NAK:
            raise Refused(f"bind_nak {struct.unpack_from('<H', answer.data)[0]}")
        assert answer.kind == (BIND_ACK if first else ALTER_RESPONSE), answer
        results = self._results(answer)
        if len(results) != len(names) or any(result[0] for result in results):
            raise Refused(f"{names}: {results}")
        for number, name in enumerate(names, len(self.contexts)):
            self.contexts[name] = (
                number,
                INTERFACES[name],
                results[number - len(self.contexts)][2] == UUID(NDR64_SYNTAX[0]),
            )
        if self.security and first:
            self._authenticate(answer)
        return self

    def _results(self, answer: Pdu) -> list[tuple[int, int, UUID]]:
        _, receive, group, address = struct.unpack_from("<HHIH", answer.data)
        self.room = min(receive, self.fragment)
        if not self.group:
            self.group = group
        at = 10 + address
        at += -(at + 16) % 4
        (count,) = struct.unpack_from("<B", answer.data, at)
        found = []
        for number in range(count):
            result, reason = struct.unpack_from("<HH", answer.data, at + 4 + 24 * number)
            found.append((result, reason, UUID(bytes_le=answer.data[at + 8 + 24 * number :][:16])))
        return found

    def _authenticate(self, answer: Pdu) -> None:
        assert self.security is not None and answer.auth_length, "no challenge came"
        token = self.security.authenticate(answer.verifier)
        self.write(pdu(AUTH3, self.calls - 1, b"    " + self._trailer(0), auth=token))

    def _trailer(self, padding: int) -> bytes:
        assert self.security is not None
        return struct.pack("<BBBBI", 10, self.security.level, padding, 0, 79231)

    # Calls

    def start(self, name: str, number: int, stub: bytes) -> int:
        """Send a request; the number of the call."""
        call, self.calls = self.calls, self.calls + 1
        context = self.contexts[name][0]
        for part, flags in self._fragments(stub):
            self.write(self.request(call, context, number, part, flags, len(stub)))
        return call

    def _fragments(self, stub: bytes) -> list[tuple[bytes, int]]:
        room = (self.room - 24 - (24 + 16 if self.security else 0)) & ~15
        size = min(self.chunk or room, room)
        parts = [stub[at : at + size] for at in range(0, len(stub), size)] or [b""]
        return [
            (part, (FIRST if index == 0 else 0) | (LAST if index == len(parts) - 1 else 0))
            for index, part in enumerate(parts)
        ]

    def request(
        self, call: int, context: int, number: int, stub: bytes, flags: int = FIRST | LAST, hint: int = 0
    ) -> bytes:
        prefix = struct.pack("<IHH", hint, context, number)
        if not self.security or self.security.level < CALL:
            return pdu(REQUEST, call, prefix + stub, flags=flags)
        padding = -len(stub) % 16
        stub += bytes(padding)
        trailer = self._trailer(padding)
        header = struct.pack("<BBBBIHHI", 5, 0, REQUEST, flags, 0x10, 24 + len(stub) + 24, 16, call) + prefix
        sealed, signature = self.security.protect(header, stub, trailer)
        return header + sealed + trailer + signature

    def _collect(self) -> None:
        """One PDU of an answer."""
        answer = self.read()
        assert answer.kind in (RESPONSE, FAULT), answer
        body = answer.data[8:]
        if answer.auth_length:
            assert self.security is not None
            end = len(answer.data) - answer.auth_length - 8
            trailer = answer.data[end : end + 8]
            body = answer.data[8:end]
            if self.security.level >= CALL:
                body = self.security.unprotect(answer.raw[:24], body, trailer, answer.verifier)
            body = body[: len(body) - trailer[2]]
        else:
            assert answer.kind == FAULT or self.security is None or self.security.level < CALL, (
                "an answer is not signed"
            )
        if answer.kind == FAULT:
            self.parts.pop(answer.call, None)
            self.done[answer.call] = Fault(struct.unpack_from("<I", body)[0], answer.flags)
            return
        assert bool(answer.flags & FIRST) == (answer.call not in self.parts), "fragments out of order"
        self.parts[answer.call] = self.parts.get(answer.call, b"") + body
        if answer.flags & LAST:
            self.done[answer.call] = self.parts.pop(answer.call)

    def finish(self, call: int) -> bytes:
        while call not in self.done:
            self._collect()
        found = self.done.pop(call)
        if isinstance(found, Fault):
            raise found
        return found

    def raw(self, name: str, number: int, stub: bytes) -> bytes:
        return self.finish(self.start(name, number, stub))

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        return self.complete(self.begin(method, **values), method)

    def begin(self, method: str, **values: Any) -> int:
        name, found = self._find(method)
        wide = self.contexts[name][2]
        return self.start(name, found.opnum, found.request.encode(values, wide))

    def complete(self, call: int, method: str) -> dict[str, Any]:
        name, found = self._find(method)
        return found.response.decode(self.finish(call), self.contexts[name][2])

    def _find(self, method: str) -> tuple[str, Method]:
        for name, (_, interface, _) in self.contexts.items():
            for found in interface.methods:
                if found.name == method:
                    return name, found
        raise KeyError(method)

    def cancel(self, call: int, orphan: bool = False) -> None:
        self.write(pdu(ORPHANED if orphan else CANCEL, call, b""))


def changed(values: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    return {**values, **others}
