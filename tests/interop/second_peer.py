"""A second implementation of the binary protocol, to hold Lior against: one blocking socket a session, no threads.

It keeps the counts that the documents ask for and checks every packet that comes: its layout (second_packets), its
legality for a sender, and the counts of each SessionHeader. It acknowledges nothing by itself: tests say when and what.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from tests.interop.second_packets import (
    NULL,
    ORDER_ACK,
    ORDER_LABEL,
    ORDER_QUEUE,
    Establish,
    FinalBody,
    Name,
    OrderBody,
    Packet,
    Parameters,
    SessionAck,
    SessionHeader,
    Strange,
    Transaction,
    UserMessage,
    check_emitted,
    decode,
    must,
    size_of,
)

PORT: Final = 1801
PATIENCE: Final = 60.0  # seconds for anything that has to happen, on a machine with much else to do

P = TypeVar("P", bound=Packet)


class Gone(Exception):
    """The other side closed the connection."""


class Silence(AssertionError):
    """What was waited for did not come."""


class Identity:
    """A queue manager that is not Lior: its GUID, its address, and the numbers of its messages."""

    def __init__(self, address: str, guid: bytes) -> None:
        self.address = address
        self.guid = guid
        self.numbers = itertools.count(1)
        self.streams = itertools.count((int(time.time()) << 32) + 1)  # TxSequenceID as one number

    def message(self, destination: Name, body: bytes = b"", **values: Any) -> UserMessage:
        values.setdefault("message_id", next(self.numbers))
        values.setdefault("sent_time", int(time.time()))
        return UserMessage(destination, body, source=self.guid, **values)

    def transactional(self, destination: Name, body: bytes, stream: int, number: int, **values: Any) -> UserMessage:
        """Message `number` of a stream; `previous` is the one before it unless given."""
        previous = values.pop("previous", number - 1)
        final_ack = values.pop("final_ack", False)
        transaction = Transaction(stream, number, previous, final_ack=final_ack, identifier=number & 0xFFFFF)
        return self.message(destination, body, transaction=transaction, delivery=1, priority=0, **values)

    def order_message(self, to: Name, body: bytes, message_class: int, *, recoverable: bool) -> UserMessage:
        must(to.kind in (3, 7), "the order queue has a direct name or a private identifier")
        return self.message(
            to, body, message_class=message_class, label=ORDER_LABEL, priority=0, delivery=int(recoverable),
        )  # fmt: skip

    def connect(self, address: str, port: int = PORT) -> Session:
        """A connection from this peer's own address, before any handshake."""
        connection = socket.create_connection((address, port), PATIENCE, source_address=(self.address, 0))
        return Session(connection, self)

    def open(self, address: str, server: bytes = NULL, port: int = PORT, **parameters: Any) -> Session:
        """A session that is open, as its initiator."""
        session = self.connect(address, port)
        session.initiate(server, **parameters)
        return session

    def listen(self, port: int = PORT) -> Listener:
        return Listener(self, port)


class Listener:
    def __init__(self, identity: Identity, port: int) -> None:
        self.identity = identity
        family = socket.AF_INET6 if ":" in identity.address else socket.AF_INET
        self._socket = socket.create_server((identity.address, port), family=family, backlog=64)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def connection(self, timeout: float = PATIENCE) -> Session:
        """The next connection, before any handshake."""
        self._socket.settimeout(timeout)
        try:
            connection, _ = self._socket.accept()
        except TimeoutError:
            raise Silence(f"no connection in {timeout} s") from None
        return Session(connection, self.identity)

    def accept(self, window: int = 64, timeout: float = PATIENCE) -> Session:
        """The next session, open."""
        session = self.connection(timeout)
        session.accept(window=window)
        return session


class Session:
    """One TCP connection and the counts of both directions."""

    def __init__(self, connection: socket.socket, identity: Identity) -> None:
        if connection.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.identity = identity
        self.remote = NULL
        self.parameters = Parameters()  # the other side's
        self.window = 0  # the last that the other side told
        self.own_window = 64  # what we tell
        self.sent = self.recoverable_sent = 0
        self.received = self.recoverable_received = 0
        self.recoverable_acked = 0  # how many of theirs we have acknowledged as stored
        self.acked = 0  # how many of ours they have received
        self.persisted: set[int] = set()  # recoverable numbers of ours that they have on disk
        self.messages: list[UserMessage] = []  # all that came, in order
        self.headers: list[tuple[float, SessionHeader]] = []  # with the moment of each
        self.raw = b""  # what came and is not yet a whole packet

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close with an RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    # Bytes

    def write(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Gone(str(error)) from None

    def read(self, timeout: float = PATIENCE) -> bytes:
        """The bytes of the next whole packet."""
        end = time.monotonic() + timeout
        while len(self.raw) < 16 or len(self.raw) < size_of(self.raw):
            wanted = max(0.0, end - time.monotonic())
            if not select.select([self.socket], [], [], wanted)[0]:
                raise Silence(f"no packet in {timeout} s; {len(self.raw)} bytes of one")
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Gone(f"with {len(self.raw)} bytes of a packet unread")
            self.raw += data
        size = size_of(self.raw)
        packet, self.raw = self.raw[:size], self.raw[size:]
        return packet

    # Handshake

    def initiate(
        self, server: bytes = NULL, *, window: int = 64, recoverable_ack_timeout: int = 500, ack_timeout: int = 20000
    ) -> Establish:
        self.own_window = window
        stamp = int(time.monotonic() * 1000) & 0xFFFFFFFF
        self.write(Establish(self.identity.guid, server, stamp).encode())
        answer = self.take(Establish)
        must(answer.client == self.identity.guid, "ClientGuid is echoed")
        must(answer.time_stamp == stamp, "TimeStamp is echoed")
        if answer.refused:
            return answer
        must(server in (NULL, answer.server), "ServerGuid is the one asked for")
        self.remote = answer.server
        asked = Parameters(recoverable_ack_timeout, ack_timeout, window)
        self.write(asked.encode())
        self.parameters = self.take(Parameters)
        echoed = (self.parameters.recoverable_ack_timeout, self.parameters.ack_timeout)
        must(echoed == (asked.recoverable_ack_timeout, asked.ack_timeout), "the timeouts are echoed")
        self.window = self.parameters.window
        return answer

    def accept(self, *, window: int = 64) -> Establish:
        self.own_window = window
        request = self.take(Establish)
        must(request.server in (NULL, self.identity.guid), "ServerGuid is ours or zero")
        must(not request.refused, "a request that refuses")
        self.remote = request.client
        answer = Establish(request.client, self.identity.guid, request.time_stamp, request.operating_system)
        self.write(answer.encode())
        self.parameters = self.take(Parameters)
        self.window = self.parameters.window
        timeouts = (self.parameters.recoverable_ack_timeout, self.parameters.ack_timeout)
        self.write(Parameters(*timeouts, window=window).encode())
        return request

    # Sending

    def send_together(self, messages: Iterable[UserMessage]) -> None:
        """In one write, so that they come as one."""
        together = b""
        for message in messages:
            self.sent += 1
            self.recoverable_sent += message.recoverable
            together += message.encode()
        self.write(together)

    def send(self, message: UserMessage, *, piggyback: bool = False) -> UserMessage:
        self.sent += 1
        self.recoverable_sent += message.recoverable
        if piggyback:
            message.session = self.honest()
        self.write(message.encode())
        if message.session is not None:
            self._told(message.session)
        return message

    def express(self, destination: Name, body: bytes = b"", **values: Any) -> UserMessage:
        return self.send(self.identity.message(destination, body, **values))

    def recoverable(self, destination: Name, body: bytes = b"", **values: Any) -> UserMessage:
        return self.send(self.identity.message(destination, body, delivery=1, **values))

    def transactional(self, destination: Name, body: bytes, stream: int, number: int, **values: Any) -> UserMessage:
        return self.send(self.identity.transactional(destination, body, stream, number, **values))

    def order_ack(self, to: Name, stream: int, number: int, *, reserved: bytes = bytes(20), **values: Any) -> None:
        body = OrderBody(stream, number, number - 1).encode(reserved)
        message = self.identity.order_message(to, body, ORDER_ACK, recoverable=False)
        self._addressed(message, **values)

    def final_ack(self, to: Name, message: UserMessage, message_class: int, **values: Any) -> None:
        """The end of a message that came; `source` and `message_id` of the body can be others."""
        transaction = message.transaction
        must(transaction is not None, "only transactional messages have a FinalAck")
        assert transaction is not None
        body = FinalBody(
            transaction.stream, transaction.number, transaction.previous,
            values.pop("source", message.source), values.pop("message_id", message.message_id),
        )  # fmt: skip
        final = self.identity.order_message(to, body.encode(), message_class, recoverable=True)
        self._addressed(final, **values)

    def _addressed(self, message: UserMessage, **values: Any) -> None:
        if message.destination is not None and message.destination.kind == 3:
            message.address = self.remote
        for name, value in values.items():
            setattr(message, name, value)
        self.send(message)

    # Acknowledging

    def honest(self) -> SessionHeader:
        """What is true now: everything received is stored."""
        fresh = min(self.recoverable_received - self.recoverable_acked, 32)
        return SessionHeader(
            self.received & 0xFFFF, (self.recoverable_acked + 1) & 0xFFFF if fresh else 0, (1 << fresh) - 1,
            self.sent & 0xFFFF, self.recoverable_sent & 0xFFFF, max(1, self.own_window),
        )  # fmt: skip

    def acknowledge(self, **values: int) -> SessionHeader:
        """A SessionAck: honest but for the values given."""
        header = self.honest()
        for name, value in values.items():
            setattr(header, name, value)
        self.write(SessionAck(header).encode())
        self._told(header)
        return header

    def _told(self, header: SessionHeader) -> None:
        if header.recoverable_flags:
            last = header.recoverable_base + header.recoverable_flags.bit_length() - 1
            self.recoverable_acked += (last - self.recoverable_acked) & 0xFFFF

    # Receiving

    def next(self, timeout: float = PATIENCE) -> Packet:
        """The next packet, checked and counted."""
        packet = decode(self.read(timeout))
        check_emitted(packet)
        if isinstance(packet, UserMessage):
            self.received += 1
            self.recoverable_received += packet.recoverable
            self.messages.append(packet)
            if packet.session is not None:
                self._heard(packet.session)
        elif isinstance(packet, SessionAck):
            self._heard(packet.header)
        return packet

    def _heard(self, header: SessionHeader) -> None:
        self.headers.append((time.monotonic(), header))
        must(header.sent == self.received & 0xFFFF, f"UserMsgSequenceNumber {header.sent} of {self.received}")
        recoverable = self.recoverable_received & 0xFFFF
        must(header.recoverable_sent == recoverable, f"RecoverableMsgSeqNumber {header.recoverable_sent}")
        fresh = (header.ack - self.acked) & 0xFFFF
        must(self.acked + fresh <= self.sent, f"AckSequenceNumber {header.ack} of {self.sent} sent")
        self.acked += fresh
        for number in header.persisted():
            must(1 <= number <= self.recoverable_sent, f"recoverable number {number} was never sent")
            self.persisted.add(number)
        self.window = header.window

    def take(self, kind: type[P], timeout: float = PATIENCE) -> P:
        """The next packet, which is of that kind."""
        packet = self.next(timeout)
        if not isinstance(packet, kind):
            raise Strange(f"{packet} came, not a {kind.__name__}")
        return packet

    def find(self, wanted: Callable[[Packet], bool], timeout: float = PATIENCE) -> Packet:
        """The next packet of which that is true; the others are counted and passed over."""
        end = time.monotonic() + timeout
        while True:
            packet = self.next(max(0.0, end - time.monotonic()))
            if wanted(packet):
                return packet

    def message(self, timeout: float = PATIENCE) -> UserMessage:
        """The next UserMessage that is no order or final acknowledgement."""
        found = self.find(lambda p: isinstance(p, UserMessage) and not is_order_message(p), timeout)
        assert isinstance(found, UserMessage)
        return found

    def order_body(self, timeout: float = PATIENCE) -> tuple[UserMessage, OrderBody]:
        """The next OrderAck."""
        found = self.find(lambda p: is_order_message(p) and class_of(p) == ORDER_ACK, timeout)
        assert isinstance(found, UserMessage)
        return found, order_ack_of(found)

    def final_body(self, timeout: float = PATIENCE) -> tuple[UserMessage, FinalBody]:
        """The next FinalAck."""
        found = self.find(lambda p: is_order_message(p) and class_of(p) != ORDER_ACK, timeout)
        assert isinstance(found, UserMessage)
        return found, final_ack_of(found)

    def until_acked(self, count: int | None = None, timeout: float = PATIENCE) -> None:
        """Until that many of our messages (all) are acknowledged as received."""
        wanted = self.sent if count is None else count
        end = time.monotonic() + timeout
        while self.acked < wanted:
            self.next(max(0.0, end - time.monotonic()))

    def until_persisted(self, count: int | None = None, timeout: float = PATIENCE) -> None:
        """Until that many of our recoverable messages (all) are acknowledged as stored."""
        wanted = self.recoverable_sent if count is None else count
        end = time.monotonic() + timeout
        while len(self.persisted) < wanted:
            self.next(max(0.0, end - time.monotonic()))

    def arriving(self, quiet: float) -> Iterator[Packet]:
        """Everything that comes until nothing has come for so long."""
        while True:
            try:
                yield self.next(quiet)
            except Silence:
                return

    def nothing(self, seconds: float) -> None:
        """Nothing comes, and the connection stays."""
        with contextlib.suppress(Silence):
            raise Strange(f"{self.next(seconds)} came")

    def until_closed(self, timeout: float = PATIENCE) -> list[Packet]:
        """What comes before the other side closes, as it has to."""
        packets: list[Packet] = []
        end = time.monotonic() + timeout
        try:
            while True:
                packets.append(self.next(max(0.0, end - time.monotonic())))
        except Gone:
            return packets


def class_of(packet: Packet) -> int:
    return packet.message_class if isinstance(packet, UserMessage) else 0


def is_order_message(packet: Packet) -> bool:
    """True for what is addressed to an order queue."""
    if not isinstance(packet, UserMessage) or packet.destination is None:
        return False
    name = packet.destination
    if name.kind == 7:
        return name.text.lower().endswith("\\private$\\order_queue$")
    return name.kind == 3 and name.number == ORDER_QUEUE


def _plain(message: UserMessage, delivery: int) -> None:
    """[MS-MQQB] 2.2.4 and 2.2.5: what an OrderAck and a FinalAck have in common."""
    must(message.label == ORDER_LABEL, f"label {message.label!r}")
    must(message.priority == 0 and not message.base_flags, "BaseHeader.Flags of an order message")
    must(message.delivery == delivery, f"DM {message.delivery}")
    must(not message.acknowledge and message.body_type == 0, "MessagePropertiesHeader of an order message")
    must(message.admin is None and message.response is None, "queues of an order message")
    must(not message.negative_journal and not message.positive_journal, "journaling of an order message")
    must(message.transaction is None and message.security is None, "headers of an order message")
    must(len(message.body) == 36, f"a body of {len(message.body)} bytes")


def order_ack_of(message: UserMessage) -> OrderBody:
    _plain(message, 0)
    stream = int.from_bytes(message.body[:8], "little")
    body = OrderBody(stream, *(int.from_bytes(message.body[at : at + 4], "little") for at in (8, 12)))
    must(body.number >= 1 and body.previous == body.number - 1, f"{body}")
    return body


def final_ack_of(message: UserMessage) -> FinalBody:
    _plain(message, 1)
    must(message.message_class >= 0x4000, f"class {message.message_class:#x}")
    numbers = [int.from_bytes(message.body[at : at + 4], "little") for at in (8, 12, 32)]
    stream = int.from_bytes(message.body[:8], "little")
    return FinalBody(stream, numbers[0], numbers[1], message.body[16:32], numbers[2])
