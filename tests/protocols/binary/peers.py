"""Sessions under test: packets to feed them by hand, and two of them over a link in memory.

Whatever a session emits passes through `check_emitted`: the second decoders read it too, and find what ours find.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lior.protocols.binary.session import (
    Acknowledged,
    Close,
    Effect,
    Opened,
    Persisted,
    Received,
    Send,
    Session,
    SessionState,
)
from lior.protocols.binary.settings import SessionSettings
from lior.wire.headers import DM_SHIFT, BaseHeader, MessagePropertiesHeader, SessionHeader, UserHeader
from lior.wire.plain_packets import PlainMessage
from lior.wire.queue_names import PacketName
from lior.wire.session_packets import (
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    InternalHeader,
    SessionAck,
    with_session_header,
)
from lior.wire.user_message import UserMessage
from tests.wire import second_session_packets as second
from tests.wire import second_user_message
from tests.wire.packets import plain
from tests.wire.session_packet_values import agreed, session_values

OWN, PEER, OTHER = b"own queue manage", b"peer queue manag", b"another one here"
DEFAULTS = SessionSettings()
NULL = bytes(16)


# ---- packets --------------------------------------------------------------------------------------------------------


def message(number: int = 0, recoverable: bool = False, direct: bool = False) -> bytes:
    """A small UserMessage; its MessageID is how it is known again."""
    name = PacketName(7, text=r"OS:here\private$\a") if direct else PacketName(3, number=1)
    return UserMessage(BaseHeader(), UserHeader(PEER, NULL if direct else OWN, message_id=number,
                                                flags=recoverable << DM_SHIFT),
                       MessagePropertiesHeader(), destination_queue=name).encode()


def with_body(size: int) -> bytes:
    """An express message with a body."""
    return UserMessage(BaseHeader(), UserHeader(PEER, OWN), MessagePropertiesHeader(message_size=size),
                       body=bytes(size), destination_queue=PacketName(3, number=1)).encode()


EXPRESS, RECOVERABLE = message(), message(recoverable=True)


def acknowledgement(ack: int = 0, base: int = 0, flags: int = 0, sent: int = 0, recoverable: int = 0,
                    window: int = 64) -> bytes:
    return SessionAck(SessionHeader(ack & 0xFFFF, base & 0xFFFF, flags, sent & 0xFFFF, recoverable & 0xFFFF,
                                    window)).encode()


def connection(client: bytes = PEER, server: bytes = OWN, stamp: int = 77, system: int = 0x0110,
               refused: bool = False) -> bytes:
    return EstablishConnection(EstablishConnectionHeader(client, server, stamp, system),
                               InternalHeader(flags=2 | refused << 4)).encode()


def parameters(recoverable: int = 500, ack: int = 20000, window: int = 64, refused: bool = False) -> bytes:
    header = InternalHeader(flags=3 | refused << 4)
    base = BaseHeader(flags=0x0B, packet_size=32)
    return b"".join((base.encode(), header.encode(), ConnectionParametersHeader(recoverable, ack, 0, window).encode()))


def piggyback(packet: bytes, ack: int = 0, base: int = 0, flags: int = 0, sent: int = 1, recoverable: int = 0,
              window: int = 64) -> bytes:
    return with_session_header(packet, SessionHeader(ack, base, flags, sent, recoverable, window).encode())


# ---- what comes out -------------------------------------------------------------------------------------------------


def check_emitted(data: bytes) -> None:
    """Whole packets, which the second decoders read as ours do."""
    packets, rest = second.split(data)
    assert packets and not rest
    for packet in packets:
        if second.base_header(packet)["internal"]:
            agreed(packet)
            continue
        ours = UserMessage.decode(packet)
        assert plain(ours) == second_user_message.decode(packet)
        if ours.session is not None:
            assert session_values(ours.session) == second.session_header(packet[-16:])


def sent_by(effects: Iterable[Effect]) -> list[bytes]:
    data = [effect.data for effect in effects if isinstance(effect, Send)]
    for one in data:
        check_emitted(one)
    return data


def ack_in(data: bytes) -> SessionHeader:
    return SessionAck.decode(data).session


def acks_in(effects: Iterable[Effect]) -> list[SessionHeader]:
    return [ack_in(data) for data in sent_by(effects)]


def closed(effects: list[Effect]) -> Close:
    """The Close that ends these effects; there is one."""
    assert [type(effect) for effect in effects].count(Close) == 1
    last = effects[-1]
    assert isinstance(last, Close) and last.reason
    return last


def number_of(message: UserMessage | PlainMessage) -> int:
    if isinstance(message, UserMessage):
        return message.user.message_id
    identifier = message.message.identifier
    assert identifier is not None
    return identifier.uniquifier


def is_recoverable(message: UserMessage | PlainMessage) -> bool:
    if isinstance(message, UserMessage):
        return message.user.flags >> DM_SHIFT & 3 != 0
    return message.message.is_recoverable


def messages_in(effects: Iterable[Effect]) -> list[int]:
    return [number_of(message) for effect in effects if isinstance(effect, Received) for message in effect.messages]


# ---- sessions in a state --------------------------------------------------------------------------------------------


def initiator(settings: SessionSettings = DEFAULTS, *, remote: bytes | None = PEER, pinged: bool = False,
              now: float = 0.0) -> Session:
    return Session(settings, own=OWN, initiator=True, remote=remote, pinged=pinged, now=now)


def acceptor(settings: SessionSettings = DEFAULTS, *, refuse: bool = False, now: float = 0.0) -> Session:
    return Session(settings, own=OWN, initiator=False, refuse=refuse, now=now)


def in_state(state: SessionState, settings: SessionSettings = DEFAULTS) -> Session:
    """A session that a well-behaved peer has brought there, at 0.0."""
    if state is SessionState.WAITING_EC:
        return acceptor(settings)
    if state is SessionState.WAITING_CP:
        session = acceptor(settings)
        session.receive(connection(), 0.0)
    elif state in (SessionState.WAITING_ECR, SessionState.WAITING_CPR):
        session = initiator(settings)
        session.start(0.0)
        if state is SessionState.WAITING_CPR:
            session.receive(connection(OWN, PEER, 0), 0.0)
    else:
        session = opened(settings)
        if state is SessionState.CLOSED:
            session.close("the test wants it closed")
    assert session.state is state
    return session


def opened(settings: SessionSettings = DEFAULTS, *, window: int = 64, recoverable: int = 500, ack: int = 20000,
           server: bytes = OWN) -> Session:
    """An acceptor in OPEN at 0.0; the peer's parameters are the arguments."""
    session = acceptor(settings)
    session.receive(connection(server=server), 0.0)
    effects = session.receive(parameters(recoverable, ack, window), 0.0)
    assert isinstance(effects[-1], Opened) and session.state is SessionState.OPEN
    return session


def opened_initiator(settings: SessionSettings = DEFAULTS, *, remote: bytes | None = PEER, window: int = 64) -> Session:
    session = initiator(settings, remote=remote)
    session.start(0.0)
    session.receive(connection(OWN, PEER, 0), 0.0)
    session.receive(parameters(window=window), 0.0)
    assert session.state is SessionState.OPEN
    return session


def with_sent(express: int = 0, recoverable: int = 0, *, window: int = 64) -> Session:
    """An open session with messages in flight: tokens 1, 2, ... the express ones first."""
    session = opened(SessionSettings(window_size=window), window=window)
    for number in range(1, express + recoverable + 1):
        session.send(EXPRESS, number, number > express, 0.0)
    return session


# ---- two sessions ---------------------------------------------------------------------------------------------------


@dataclass
class Side:
    """A session with a store of its own: what it received, what is durable, and what it knows of what it sent."""

    session: Session
    out: bytearray = field(default_factory=bytearray)
    received: list[int] = field(default_factory=list)
    unstored: list[int] = field(default_factory=list)  # recoverable, in order, not durable yet
    durable: list[int] = field(default_factory=list)
    sent: list[object] = field(default_factory=list)
    acknowledged: list[object] = field(default_factory=list)
    persisted: list[object] = field(default_factory=list)
    close: Close | None = None

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert self.close is None, "something came after Close"
            if isinstance(effect, Send):
                check_emitted(effect.data)
                self.out += effect.data
            elif isinstance(effect, Received):
                for message in effect.messages:
                    self.received.append(number_of(message))
                    if is_recoverable(message):
                        self.unstored.append(number_of(message))
            elif isinstance(effect, Acknowledged):
                self.acknowledged += effect.tokens
            elif isinstance(effect, Persisted):
                self.persisted += effect.tokens
            elif isinstance(effect, Close):
                self.close = effect

    def send(self, number: int, recoverable: bool, now: float) -> None:
        data = self.session.send(message(number, recoverable), number, recoverable, now)
        check_emitted(data)
        self.out += data
        self.sent.append(number)

    def store(self, count: int, now: float) -> None:
        count = min(count, len(self.unstored))
        self.durable += self.unstored[:count]
        del self.unstored[:count]
        self.take(self.session.stored(count, now))


@dataclass
class Link:
    """Two sides, a clock and the bytes between; nothing is lost until `cut`."""

    left: Side
    right: Side
    now: float = 0.0

    @classmethod
    def opened(cls, settings: SessionSettings = DEFAULTS, other: SessionSettings = DEFAULTS, *,
               remote: bytes | None = PEER) -> "Link":
        link = cls(Side(Session(settings, own=OWN, initiator=True, remote=remote, now=0.0)),
                   Side(Session(other, own=PEER, initiator=False, now=0.0)))
        link.left.take(link.left.session.start(0.0))
        link.settle()
        assert link.left.session.state is link.right.session.state is SessionState.OPEN
        return link

    def move(self, sender: Side, size: int | None = None) -> None:
        """Some of what a side has written arrives at the other."""
        receiver = self.right if sender is self.left else self.left
        chunk = bytes(sender.out[:size])
        del sender.out[:size]
        if chunk and receiver.close is None:
            receiver.take(receiver.session.receive(chunk, self.now))

    def settle(self) -> None:
        """Until nobody has anything to say."""
        while self.left.out or self.right.out:
            self.move(self.left)
            self.move(self.right)

    def advance(self, seconds: float) -> None:
        """The clock moves; timers fire when they are due, and what they send arrives at once."""
        end = self.now + seconds
        while True:
            deadlines = [side.session.deadline for side in (self.left, self.right)]
            due = min((one for one in deadlines if one is not None), default=None)
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            for side in (self.left, self.right):
                side.take(side.session.tick(self.now))
            self.settle()
        self.now = end
