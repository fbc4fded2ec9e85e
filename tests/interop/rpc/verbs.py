"""The verbs of the client protocol, whichever independent client carries them out: one scenario runs on all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

RECEIVE, SEND, PEEK = 1, 2, 0x20
TAKE, PEEK_CURRENT, PEEK_NEXT = 0, 0x80000000, 0x80000001
FOREVER: Final = 0xFFFFFFFF
NTLM, SPNEGO = 10, 9
NONE, CONNECT, CALL, PACKET, INTEGRITY, PRIVACY = 1, 2, 3, 4, 5, 6
SIZES: Final = {"body": 4096, "label": 250, "extension": 1024, "response": 1024, "admin": 1024, "destination": 1024,
                "ordering": 1024, "sender_id": 64}  # fmt: skip
# The names of the Wine program's lines: the members of the transfer buffer.
MEMBERS: Final = {
    "class": "pClass", "priority": "pPriority", "delivery": "pDelivery", "acknowledge": "pAcknowledge",
    "auditing": "pAuditing", "application_tag": "pApplicationTag", "trace": "pTrace", "sender_id_type":
    "pulSenderIDType",
    "priv_level": "pulPrivLevel", "hash_alg": "pulHashAlg", "encrypt_alg": "pulEncryptAlg", "prov_type": "pulProvType",
    "body_type": "pulBodyType", "sent_time": "pSentTime", "arrived_time": "pArrivedTime", "authenticated":
    "pAuthenticated",
    "relative_time_to_queue": "pulRelativeTimeToQueue", "relative_time_to_live": "pulRelativeTimeToLive",
    "version": "pulVersion", "uow": "pUow", "correlation": "ppCorrelationID", "message_id": "ppMessageID",
    "connector_type": "ppConnectorType", "source": "ppSrcQMID", "body": "ppBody", "label": "ppTitle",
    "extension": "ppMsgExtension", "sender_id": "ppSenderID", "certificate": "ppSenderCert",
    "symmetric_key": "ppSymmKeys", "signature": "ppSignature", "time_to_queue": "ulAbsoluteTimeToQueue",
    "time_to_live": "ulRelativeTimeToLive", "default_provider": "fDefaultProvider", "encrypted": "bEncrypted",
}  # fmt: skip
LENGTHS: Final = {
    "body": "pBodySize", "label": "pulTitleBufferSizeInWCHARs", "extension": "pMsgExtensionSize",
    "sender_id": "pulSenderIDLenProp", "certificate": "pulSenderCertLenProp", "symmetric_key": "pulSymmKeysSizeProp",
    "signature": "pulSignatureSizeProp",
}  # fmt: skip
ARM: Final = {"response": "Response", "admin": "Admin", "destination": "Dest", "ordering": "Ordering"}
XACT: Final = {"first_in_xact": "pbFirstInXact", "last_in_xact": "pbLastInXact"}
SCALARS: Final = ("class", "priority", "delivery", "acknowledge", "auditing", "application_tag", "trace",
                   "sender_id_type",
                   "priv_level", "hash_alg", "encrypt_alg", "prov_type", "body_type", "sent_time", "arrived_time",
                   "authenticated", "relative_time_to_queue", "relative_time_to_live", "version")  # fmt: skip


@dataclass
class Outcome:
    """The HRESULT, returned or raised, and what came with it."""

    code: int
    values: dict[str, Any] = field(default_factory=dict)
    raised: bool = False

    def ok(self) -> Self:
        assert self.code == 0, f"{self.code:#010x} {'raised' if self.raised else 'returned'} {self.values}"
        return self

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass
class Message:
    """What a receive brought, cut to the lengths it says."""

    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass
class Opened:
    handle: Any  # as the client keeps it
    wire: bytes
    context: int


@dataclass
class Login:
    user: str
    password: str
    domain: str = ""
    level: int = CONNECT
    service: int = NTLM


class Peer(Protocol):
    """One client: one association group."""

    def port(self, which: int) -> int: ...
    def registry(self, query: int) -> Outcome: ...
    def create(self, path: str, properties: Mapping[int, str], security: bytes | None = None) -> Outcome: ...
    def delete(self, name: str) -> Outcome: ...
    def get(self, name: str, properties: Mapping[int, str]) -> Outcome: ...
    def set(self, name: str, properties: Mapping[int, str]) -> Outcome: ...
    def get_security(self, name: str, parts: int, length: int) -> Outcome: ...
    def set_security(self, name: str, parts: int, security: bytes) -> Outcome: ...
    def find(self, path: str) -> Outcome: ...
    def open(self, name: str, access: int, share: int = 0) -> Outcome: ...
    def close_queue(self, opened: Opened) -> Outcome: ...
    def format_name(self, opened: Opened, length: int) -> Outcome: ...
    def purge(self, opened: Opened) -> Outcome: ...
    def send(self, opened: Opened, **values: Any) -> Outcome: ...
    def receive(self, opened: Opened, action: int = TAKE, **values: Any) -> Outcome: ...
    def cursor(self, opened: Opened) -> Outcome: ...
    def close_cursor(self, opened: Opened, cursor: int) -> Outcome: ...
    def enlist(self, uow: bytes) -> Outcome: ...
    def commit(self, handle: Any) -> Outcome: ...
    def abort(self, handle: Any) -> Outcome: ...
    def whereabouts(self, length: int) -> Outcome: ...
    def close(self) -> None: ...


def text(data: bytes) -> str:
    return data.decode("utf-16-le").split("\0")[0]


def direct_name(name: str) -> str:
    return "direct:" + name


def message_of(found: dict[str, Any]) -> Message:
    """Bytes cut to what came; names and labels as text."""
    cut = dict(found)
    for name in (*LENGTHS, *ARM):
        if f"{name}_length" in cut and isinstance(cut.get(name), bytes):
            unit = 2 if name in (*ARM, "label") else 1
            cut[name] = cut[name][: cut[f"{name}_length"] * unit]
        if name in (*ARM, "label") and isinstance(cut.get(name), bytes):
            cut[name] = text(cut[name])
    return Message(cut)


def walk(peer: Peer, opened: Opened, cursor: int) -> Iterable[bytes]:
    """Bodies from where the cursor stands to the end."""
    found = peer.receive(opened, PEEK_CURRENT, cursor=cursor)
    while found.code == 0:
        yield found["message"].body
        found = peer.receive(opened, PEEK_NEXT, cursor=cursor)
    assert found.code == 0xC00E001B, hex(found.code)
