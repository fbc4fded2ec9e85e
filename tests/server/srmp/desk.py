"""What the tests of SRMP share: a server with short timers, raw requests, a stub of another web server, and envelopes
that are built and read without anything of lior.wire."""

from __future__ import annotations

import http.server
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from lxml import etree

import lior
from lior.testing.serving import Serving, loopback_address

PORT = 8080
QUICK: dict[str, Any] = {"srmp.receipt_delay": 0.05, "srmp.retransmission_timeout": 0.2, "srmp.http_port": PORT,
                         "srmp.send_timeout": 30.0}  # fmt: skip
SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
NS = {"se": SOAP, "rp": "http://schemas.xmlsoap.org/rp/", "s": "http://schemas.xmlsoap.org/srmp/",
      "m": "msmq.namespace.xml", "d": "http://www.w3.org/2000/02/xmldsig#"}  # fmt: skip
OTHER_QM = "0f52b9d4-3a1c-4a6e-9d3c-0a4a5b6c7d8e"
PLAIN = r".\private$\plain"
STREAM = r".\private$\stream"
ADMIN = r".\private$\admin"


def url(server: Serving | str, queue: str) -> str:
    host = server if isinstance(server, str) else server.address
    return f"http://{host}:{PORT}/msmq/private$/{queue}"


def stamp(seconds: float) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))


# ---- building -------------------------------------------------------------------------------------------------------

_ids = iter(range(1, 1 << 31))


@dataclass
class Built:
    """An envelope of another hand. Change the fields, then `post` it."""

    to: str
    body: bytes | None = b"body"
    extension: bytes | None = None
    label: str = "label"
    identifier: str = ""
    guid: str = OTHER_QM
    entries: str = ""  # services, stream, receipts, anything
    msmq: str = ""  # further children of Msmq, before TTrq
    message_class: int = 0
    priority: int = 3
    msmq_there: bool = True
    sent: float = field(default_factory=time.time)
    reach: float = 345600.0
    expires: str = "20380119T031407"
    via: str = ""
    body_type: int = 0

    def envelope(self) -> bytes:
        identifier = self.identifier or f"uuid:{next(_ids)}@{self.guid}"
        rev = f"<rev><via>{self.via}</via></rev>" if self.via else ""
        msmq = "" if not self.msmq_there else (
            f'<Msmq xmlns="{NS["m"]}"><Class>{self.message_class}</Class><Priority>{self.priority}</Priority>'
            f"<BodyType>{self.body_type}</BodyType><SourceQmGuid>{self.guid}</SourceQmGuid>{self.msmq}"
            f"<TTrq>{stamp(self.sent + self.reach)}</TTrq></Msmq>"
        )  # fmt: skip
        return (
            f'<se:Envelope xmlns:se="{SOAP}" xmlns="{NS["s"]}"><se:Header>'
            f'<path xmlns="{NS["rp"]}" se:mustUnderstand="1"><action>MSMQ:{self.label}</action><to>{self.to}</to>'
            f'<id>{identifier}</id>{rev}</path><properties se:mustUnderstand="1"><expiresAt>{self.expires}</expiresAt>'
            f"<sentAt>{stamp(self.sent)}</sentAt></properties>{self.entries}{msmq}</se:Header><se:Body></se:Body>"
            "</se:Envelope>"
        ).encode()

    def entity(self) -> tuple[str, bytes]:
        return entity(self.envelope(), self.body, self.extension)


def entity(envelope: bytes, body: bytes | None = None, extension: bytes | None = None) -> tuple[str, bytes]:
    """As RFC 2046 has it, with a line break before each delimiter."""
    if body is None and extension is None:
        return "text/xml", envelope
    boundary = f"=_{uuid4().hex}"
    parts = [b"Content-Type: text/xml; charset=UTF-8\r\nContent-Length: %d\r\n\r\n%s" % (len(envelope), envelope)]
    for name, part in (("body", body), ("extension", extension)):
        if part is not None:
            head = f"Content-Type: application/octet-stream\r\nContent-Id: {name}@{OTHER_QM}\r\n"
            parts.append(head.encode() + b"Content-Length: %d\r\n\r\n%s" % (len(part), part))
    delimiter = b"--" + boundary.encode()
    joined = b"".join(delimiter + b"\r\n" + part + b"\r\n" for part in parts) + delimiter + b"--\r\n"
    return f'multipart/related; boundary="{boundary}"; type="text/xml"', joined


def services(*, delivery: str = "", commitment: str = "", flags: str = "", durable: bool = True) -> str:
    found = "<durable/>" if durable else ""
    if delivery:
        found += f"<deliveryReceiptRequest><sendTo>{delivery}</sendTo></deliveryReceiptRequest>"
    if commitment:
        found += f"<commitmentReceiptRequest><sendTo>{commitment}</sendTo>{flags}</commitmentReceiptRequest>"
    return f'<services se:mustUnderstand="1">{found}</services>'


def stream(
    number: int, current: int, receipts: str = "", previous: int | None = None, guid: str = OTHER_QM,
    tag: str = "stream",
) -> str:  # fmt: skip
    before = "" if previous is None else f"<previous>{previous}</previous>"
    start = f"<start><sendReceiptsTo>{receipts}</sendReceiptsTo></start>" if receipts else ""
    return (f'<{tag} se:mustUnderstand="1"><streamId>uid:{guid}\\{number}</streamId><current>{current}</current>'
            f"{before}{start}</{tag}>")  # fmt: skip


# ---- posting --------------------------------------------------------------------------------------------------------


def request(host: str, content_type: str, data: bytes, path: str = "/msmq/private$/q", method: str = "POST") -> bytes:
    return (f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data  # fmt: skip


def raw(server: Serving, *pieces: bytes, timeout: float = 30.0, port: int = PORT) -> bytes:
    """The answer to raw octets, or what there is of it when the server closes."""
    with socket.create_connection((server.address, port), timeout=timeout) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            return read_answer(connection)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def read_answer(connection: socket.socket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found:
        more = connection.recv(65536)
        if not more:
            return found
        found += more
    return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def post(server: Serving, built: Built | tuple[str, bytes]) -> int:
    kind, data = built.entity() if isinstance(built, Built) else built
    return status(raw(server, request(server.address, kind, data)))


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """A request as a stub server got it, read with lxml."""

    line: str
    headers: dict[str, str]
    entity: bytes
    at: float
    names: list[str]  # of the headers, in their order

    @property
    def envelope(self) -> Any:
        return etree.fromstring(self.parts()[0])

    def parts(self) -> list[bytes]:
        """By the lengths that they say they have."""
        kind = self.headers["content-type"]
        if kind == "text/xml":
            return [self.entity]
        found = re.search('boundary="([^"]+)"', kind)
        assert found is not None
        parts: list[bytes] = []
        delimiter, rest = b"--" + found[1].encode(), self.entity
        while True:
            assert rest.startswith(delimiter), rest[:80]
            rest = rest[len(delimiter) :]
            if rest.startswith(b"--"):
                assert rest == b"--\r\n"
                return parts
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", head)
            assert length is not None
            parts.append(rest[: int(length[1])])
            rest = rest[int(length[1]) :]

    def text(self, path: str) -> str | None:
        found = self.envelope.find(path, NS)
        return None if found is None else (found.text or "")

    def has(self, path: str) -> bool:
        return self.envelope.find(path, NS) is not None


class Stub:
    """A web server that answers as it is told: a status, None for silence, "reset" for a cut connection."""

    def __init__(
        self, answers: Sequence[int | str | None] = (), last: int | str | None = 200, port: int = PORT
    ) -> None:
        self.address = loopback_address()
        self.seen: list[Seen] = []
        self.connections = 0
        self._answers = list(answers)
        self._last = last
        self._changed = threading.Condition()
        self._released = threading.Event()
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                stub.connections += 1

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                stub._took(self, data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((self.address, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def _took(self, handler: Any, data: bytes) -> None:
        names = [name for name, _ in handler.headers.items()]
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._changed:
            answer = self._answers.pop(0) if self._answers else self._last
            self.seen.append(Seen(handler.requestline, headers, data, time.monotonic(), names))
            self._changed.notify_all()
        if answer is None:
            self._released.wait(60)
            handler.close_connection = True
        elif answer == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            handler.connection.close()
            handler.close_connection = True
        else:
            handler.send_response_only(int(answer))
            if answer in (301, 302):
                handler.send_header("Location", url(self.address, "elsewhere"))
            handler.send_header("Content-Length", "0")
            handler.end_headers()

    def let_go(self) -> None:
        """End the connections that get no answer."""
        self._released.set()

    def wait(self, count: int, seconds: float = 60.0) -> list[Seen]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, seconds), f"{len(self.seen)} of {count}"
            return list(self.seen)

    def __enter__(self) -> Stub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()


def connect(server: Serving) -> lior.QueueManager:
    """By the admin API, which has all properties of a message; what RPC shows is another matter."""
    return lior.connect(server.admin_url, token=server.token)


@contextmanager
def serving(data: Any, **settings: Any) -> Iterator[Serving]:
    """A server with the queues plain, stream and admin."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    server = Serving(data, settings=QUICK | named)
    with server:
        with connect(server) as qm:
            qm.create_queue(PLAIN)
            qm.create_queue(STREAM, transactional=True)
            qm.create_queue(ADMIN)
        yield server
        assert "Traceback" not in server.log, server.log


def eventually(value: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Another process's state."""
    end = time.monotonic() + seconds
    while not (found := value()):
        assert time.monotonic() < end, f"not in {seconds} s"
        threading.Event().wait(0.02)
    return found
