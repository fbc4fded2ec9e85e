"""Kerberos through a GSSAPI library of the system (RFC 2744, with the calls of MIT 1.12 and later for messages in
parts). The library comes as an argument, loaded by whoever may: nothing here opens a file or a socket by itself, but
the library does, and blocks while it asks a key distribution center.

RPC wants the DCE style of Kerberos ([MS-RPCE] 2.2.2.12): three legs, tokens without a frame, no trailer apart.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, Final

from lior.protocols.rpc.security import AuthenticationFailed
from lior.security import Caller
from lior.wire.rpc_pdu import LEVEL_CONNECT, SERVICE_KERBEROS
from lior.wire.spnego import KERBEROS

LIBRARY: Final = "libgssapi_krb5.so.2"
COMPLETE, CONTINUE_NEEDED = 0, 1
MUTUAL, REPLAY, SEQUENCE, CONFIDENTIALITY, INTEGRITY = 2, 4, 8, 16, 32
DCE_STYLE: Final = 0x1000
_ACCEPT, _INITIATE = 2, 1
_HEADER, _DATA, _SIGN_ONLY, _MIC_TOKEN = 2, 1, 11, 12
_FRAME: Final = b"\x06\x09" + KERBEROS + b"\x01\x00"  # the mechanism, and that an AP-REQ follows
_WHERE: Final = "Kerberos"


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_void_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _KeyValue(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _KeyValueSet(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_KeyValue)))


class _Iov(ctypes.Structure):
    _fields_ = (("type", c_uint32), ("buffer", _Buffer))


def _buffer(data: bytes | bytearray) -> tuple[_Buffer, Any]:
    """The second part keeps the memory alive."""
    memory = ctypes.create_string_buffer(bytes(data), len(data)) if data else ctypes.create_string_buffer(1)
    return _Buffer(len(data), ctypes.cast(memory, c_void_p)), memory


class Gss:
    """The calls of one library."""

    def __init__(self, library: Any) -> None:
        self._library = library
        raw = KERBEROS
        self._oid_bytes = ctypes.create_string_buffer(raw, len(raw))
        self.kerberos = _Oid(len(raw), ctypes.cast(self._oid_bytes, c_void_p))
        host = bytes.fromhex("2a864886f71201020104")  # GSS_C_NT_HOSTBASED_SERVICE
        self._host_bytes = ctypes.create_string_buffer(host, len(host))
        self.host_based = _Oid(len(host), ctypes.cast(self._host_bytes, c_void_p))

    def call(self, name: str, *arguments: Any) -> int:
        """The major status; a failure raises."""
        minor = c_uint32()
        function = getattr(self._library, name)
        function.restype = c_uint32
        major = int(function(byref(minor), *arguments))
        if major & 0xFFFF0000:
            raise AuthenticationFailed(self._text(major, minor.value) or name, where=_WHERE,
                                       remedy="look at keytab, clocks and names with `klist -k` and `kvno`")
        return major

    def forget(self, context: c_void_p) -> None:
        if context.value:
            self.call("gss_delete_sec_context", byref(context), None)

    def _text(self, major: int, minor: int) -> str:
        texts = []
        for code, kind in ((major, 1), (minor, 2)):
            more, found, ignored = c_uint32(), _Buffer(), c_uint32()
            mechanism = byref(self.kerberos) if kind == 2 else None
            self._library.gss_display_status(byref(ignored), c_uint32(code), c_int(kind), mechanism, byref(more),
                                             byref(found))
            texts.append(self.taken(found).decode("utf-8", "replace"))
        return ": ".join(text for text in texts if text)[:300]

    def taken(self, buffer: _Buffer) -> bytes:
        """The content of a buffer that the library made."""
        data = ctypes.string_at(buffer.value, buffer.length) if buffer.length else b""
        ignored = c_uint32()
        self._library.gss_release_buffer(byref(ignored), byref(buffer))
        return data

    def credentials(self, usage: int, store: dict[str, str]) -> c_void_p:
        elements = (_KeyValue * max(len(store), 1))(*(
            _KeyValue(key.encode(), value.encode()) for key, value in store.items()))
        pairs = _KeyValueSet(len(store), elements)
        mechanisms = _OidSet(1, ctypes.pointer(self.kerberos))
        found = c_void_p()
        self.call("gss_acquire_cred_from", None, c_uint32(0xFFFFFFFF), byref(mechanisms), c_int(usage),
                  byref(pairs) if store else None, byref(found), None, None)
        return found

    def name(self, service: str, host: str) -> c_void_p:
        text, memory = _buffer(f"{service}@{host}".encode())
        found = c_void_p()
        self.call("gss_import_name", byref(text), byref(self.host_based), byref(found))
        del memory
        return found

    def shown(self, name: c_void_p) -> str:
        found = _Buffer()
        self.call("gss_display_name", name, byref(found), None)
        self.call("gss_release_name", byref(name))
        return self.taken(found).decode("utf-8", "replace")


class GssSession:
    """Message security of a context that is complete."""

    signs_headers = False

    def __init__(self, gss: Gss, context: c_void_p) -> None:
        self._gss = gss
        self._context = context
        self._sizes: dict[bool, int] = {}

    def __del__(self) -> None:
        self._gss.forget(self._context)

    def signature_size(self, privacy: bool) -> int:
        if privacy not in self._sizes:
            kinds = [_HEADER, _SIGN_ONLY, _DATA, _SIGN_ONLY] if privacy else [_DATA, _MIC_TOKEN]
            iov, memory = self._iov([(kind, bytes(16) if kind in (_DATA, _SIGN_ONLY) else b"") for kind in kinds])
            if privacy:
                self._gss.call("gss_wrap_iov_length", self._context, c_int(1), c_uint32(0), None, iov, c_int(len(iov)))
            else:
                self._gss.call("gss_get_mic_iov_length", self._context, c_uint32(0), iov, c_int(len(iov)))
            self._sizes[privacy] = iov[0 if privacy else 1].buffer.length
            del memory
        return self._sizes[privacy]

    @staticmethod
    def _iov(parts: list[tuple[int, bytes]]) -> tuple[Any, list[Any]]:
        iov = (_Iov * len(parts))()
        kept = []
        for entry, (kind, data) in zip(iov, parts, strict=True):
            entry.type = kind
            entry.buffer, memory = _buffer(data)
            kept.append(memory)
        return iov, kept

    def sign(self, message: bytes) -> bytes:
        given, memory = _buffer(message)
        found = _Buffer()
        self._gss.call("gss_get_mic", self._context, c_uint32(0), byref(given), byref(found))
        del memory
        return self._gss.taken(found)

    def verify(self, message: bytes, signature: bytes) -> None:
        given, memory = _buffer(message)
        token, kept = _buffer(signature)
        status = self._gss.call("gss_verify_mic", self._context, byref(given), byref(token), None)
        del memory, kept
        _in_sequence(status)

    def seal(self, before: bytes, body: bytes, after: bytes) -> tuple[bytes, bytes]:
        parts = [(_HEADER, bytes(self.signature_size(True))), (_SIGN_ONLY, before), (_DATA, body), (_SIGN_ONLY, after)]
        iov, memory = self._iov(parts)
        self._gss.call("gss_wrap_iov", self._context, c_int(1), c_uint32(0), None, iov, c_int(len(iov)))
        header, data = iov[0].buffer, iov[2].buffer
        sealed = ctypes.string_at(data.value, data.length), ctypes.string_at(header.value, header.length)
        del memory
        return sealed

    def unseal(self, before: bytes, body: bytes, after: bytes, signature: bytes) -> bytes:
        iov, memory = self._iov([(_HEADER, signature), (_SIGN_ONLY, before), (_DATA, body), (_SIGN_ONLY, after)])
        sealed = c_int()
        status = self._gss.call("gss_unwrap_iov", self._context, byref(sealed), None, iov, c_int(len(iov)))
        data = iov[2].buffer
        plain = ctypes.string_at(data.value, data.length)
        del memory
        if not sealed.value:
            raise AuthenticationFailed("a message that is not encrypted", where=_WHERE)
        _in_sequence(status)
        return plain


def _in_sequence(status: int) -> None:
    """Supplementary bits: a duplicate, an old token, one out of order, or a gap."""
    if status & 0x1E:
        raise AuthenticationFailed("a message that was repeated or dropped", where=_WHERE)


class _Half:
    def __init__(self, gss: Gss) -> None:
        self._gss = gss
        self._context = c_void_p()
        self._session: GssSession | None = None

    @property
    def messages(self) -> GssSession:
        assert self._session is not None
        return self._session

    def __del__(self) -> None:
        if self._session is None:  # else the context is the session's
            self._gss.forget(self._context)


class KerberosAcceptor(_Half):
    """The server's half. `caller` says who a principal is here."""

    def __init__(self, gss: Gss, credentials: c_void_p, caller: Callable[[str], Caller]) -> None:
        super().__init__(gss)
        self._credentials = credentials
        self._who = caller
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        assert self._caller is not None
        return self._caller

    def accept(self, token: bytes, level: int, now: float) -> tuple[bytes, bool]:
        given, memory = _buffer(unframed(token))
        name, answer, flags = c_void_p(), _Buffer(), c_uint32()
        status = self._gss.call(
            "gss_accept_sec_context", byref(self._context), self._credentials, byref(given), None, byref(name), None,
            byref(answer), byref(flags), None, None)
        del memory
        reply = self._gss.taken(answer)
        if status & CONTINUE_NEEDED:
            return reply, False
        check_flags(flags.value, level)
        self._caller = self._who(self._gss.shown(name))
        self._session = GssSession(self._gss, self._context)
        return reply, True


class KerberosInitiator(_Half):
    """The client's half: `service` and `host` make the principal of the server."""

    service = SERVICE_KERBEROS
    odd_legs = False

    def __init__(self, gss: Gss, host: str, level: int, *, service: str = "host", store: dict[str, str] | None = None,
                 ) -> None:  # fmt: skip
        super().__init__(gss)
        self.level = level
        self._credentials = gss.credentials(_INITIATE, store or {})
        self._target = gss.name(service, host)

    def initiate(self, token: bytes) -> tuple[bytes, bool]:
        given, memory = _buffer(token)
        answer, flags = _Buffer(), c_uint32()
        wanted = MUTUAL | DCE_STYLE | REPLAY | SEQUENCE | INTEGRITY | CONFIDENTIALITY
        status = self._gss.call(
            "gss_init_sec_context", self._credentials, byref(self._context), self._target, byref(self._gss.kerberos),
            c_uint32(wanted), c_uint32(0), None, byref(given) if token else None, None, byref(answer), byref(flags),
            None)
        del memory
        reply = self._gss.taken(answer)
        if status & CONTINUE_NEEDED:
            return reply, False
        check_flags(flags.value, self.level)
        self._session = GssSession(self._gss, self._context)
        return reply, True


def unframed(token: bytes) -> bytes:
    """In DCE style tokens have no frame (RFC 2743 3.1). Windows takes framed ones too, and impacket sends them; MIT's
    library does not."""
    if token[:1] != b"\x60":
        return token
    at = token.find(_FRAME, 0, 24)
    return token[at + len(_FRAME):] if at >= 0 else token


def check_flags(flags: int, level: int) -> None:
    needed = DCE_STYLE | (0 if level <= LEVEL_CONNECT else INTEGRITY | CONFIDENTIALITY)
    if flags & needed != needed:
        raise AuthenticationFailed("a context that protects less than the level asks for", where=_WHERE)


def acceptor_credentials(gss: Gss, keytab: str) -> c_void_p:
    """Those of every principal in the keytab."""
    return gss.credentials(_ACCEPT, {"keytab": f"FILE:{keytab}"})
