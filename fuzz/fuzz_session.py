"""Fuzz target: a session fed anything gives effects until it gives Close, and every token back exactly once.

The input is a script: one byte says what happens next, then come what it needs. The first byte chooses the role.
"""

from lior.protocols.binary.session import Acknowledged, Close, Effect, Persisted, Received, Send, Session, SessionState
from lior.protocols.binary.settings import SessionSettings
from lior.wire.headers import (
    DM_SHIFT,
    MAX_PACKET_SIZE,
    BaseHeader,
    MessagePropertiesHeader,
    SessionHeader,
    UserHeader,
)
from lior.wire.plain_packets import PlainMessage
from lior.wire.queue_names import PacketName
from lior.wire.session_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
    with_session_header,
)
from lior.wire.user_message import UserMessage

OWN, PEER = b"own queue manage", b"peer queue manag"
SETTINGS = SessionSettings()
MOST_HELD = MAX_PACKET_SIZE + 16


def message(recoverable: bool) -> bytes:
    user = UserHeader(PEER, OWN, flags=recoverable << DM_SHIFT)
    return UserMessage(BaseHeader(), user, MessagePropertiesHeader(),
                       destination_queue=PacketName(7, text=r"OS:here\private$\a")).encode()


MESSAGES = (message(False), message(True))
REQUEST = EstablishConnection(EstablishConnectionHeader(PEER, OWN)).encode()
RESPONSE = EstablishConnection(EstablishConnectionHeader(OWN, PEER)).encode()


class Script:
    """The input, taken from the front; zeros where it has ended."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    @property
    def over(self) -> bool:
        return self.at >= len(self.data)


class Play:
    """A session and what came of it."""

    def __init__(self, initiator: bool, direct: bool) -> None:
        self.now = 0.0
        self.session = Session(SETTINGS, own=OWN, initiator=initiator, remote=None if direct else PEER, now=0.0)
        self.sent: list[tuple[int, bool]] = []
        self.acknowledged: list[object] = []
        self.persisted: list[object] = []
        self.received = self.recoverable_received = 0
        self.closed = False
        if initiator:
            self.take(self.session.start(0.0))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert not self.closed, "something after Close"
            if isinstance(effect, Acknowledged):
                self.acknowledged += effect.tokens
            elif isinstance(effect, Persisted):
                self.persisted += effect.tokens
            elif isinstance(effect, Received):
                self.received += len(effect.messages)
                self.recoverable_received += sum(
                    message.message.is_recoverable if isinstance(message, PlainMessage)
                    else message.user.flags >> DM_SHIFT & 1 for message in effect.messages)
            elif isinstance(effect, Close):
                assert effect.reason
                self.closed = True
            elif isinstance(effect, Send):
                assert effect.data
        assert self.closed == (self.session.state is SessionState.CLOSED)

    def feed(self, data: bytes) -> None:
        self.take(self.session.receive(data, self.now))

    def acknowledge(self, script: Script, behind: bytes) -> None:
        """A SessionHeader with plausible counts, each of which the script may spoil."""
        counts = (len(self.acknowledged) + script.number(1) & 0xFFFF, script.number(1), script.number(4),
                  self.received + (1 if behind else 0) + script.number(1) // 255 & 0xFFFF,
                  self.recoverable_received + (1 if behind == MESSAGES[1] else 0) + script.number(1) // 255 & 0xFFFF,
                  script.number(1))
        header = SessionHeader(*counts)
        self.feed(with_session_header(behind, header.encode()) if behind else SessionAck(header).encode())

    def send(self, recoverable: bool) -> None:
        if self.session.window > 0:
            self.sent.append((len(self.sent), recoverable))
            self.session.send(MESSAGES[recoverable], len(self.sent) - 1, recoverable, self.now)

    def finish(self) -> None:
        left = self.session.close("the end")
        stored, counted = set(self.persisted), set(self.acknowledged)
        assert len(stored) == len(self.persisted) and len(counted) == len(self.acknowledged) and stored <= counted
        assert left == [token for token, recoverable in self.sent if token not in (stored if recoverable else counted)]


def step(play: Play, script: Script) -> None:
    match script.number(1) % 12:
        case 0:
            play.feed(script.bytes(script.number(1)))
        case 1:
            play.feed(REQUEST)
        case 2:
            play.feed(RESPONSE)
        case 3:
            play.feed(ConnectionParameters(ConnectionParametersHeader(window_size=script.number(1))).encode())
        case 4:
            play.acknowledge(script, b"")
        case 5:
            play.acknowledge(script, MESSAGES[script.number(1) & 1])
        case 6:
            play.feed(MESSAGES[script.number(1) & 1] * (script.number(1) & 0x3F))
        case 7:
            play.send(bool(script.number(1) & 1))
        case 8:
            play.take(play.session.stored(script.number(1) % (play.session.unstored + 1), play.now))
        case 9:
            play.now += script.number(1) / 4
            play.take(play.session.tick(play.now))
        case 10:
            play.take(play.session.set_window(1 + script.number(1), play.now))
        case _:
            play.take(play.session.flush(play.now))


def target(data: bytes) -> None:
    script = Script(data)
    role = script.number(1)
    play = Play(bool(role & 1), bool(role & 2))
    while not script.over:
        step(play, script)
        session = play.session
        assert session._framer.pending <= MOST_HELD
        assert session.in_flight <= SETTINGS.window_size
        assert play.closed or session.unstored <= play.recoverable_received  # a refused message may be counted
        deadline = session.deadline
        assert (deadline is None) == play.closed
    play.finish()


if __name__ == "__main__":
    from harness import run

    run(target)
