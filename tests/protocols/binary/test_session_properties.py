"""Two sessions and anything that can happen between them: what has to hold at every step, and in the end."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import InvalidParameter
from lior.protocols.binary.session import Effect, Send, Session, SessionState
from lior.protocols.binary.settings import SessionSettings
from lior.wire.headers import IN, SH, SessionHeader
from tests.protocols.binary.peers import (
    OWN,
    PEER,
    Link,
    Side,
    acknowledgement,
    connection,
    message,
    opened,
    parameters,
)
from tests.wire import second_session_packets as second

LASTING = SessionSettings(cleanup=1e6)  # nobody is closed for being idle here
SMALL = SessionSettings(cleanup=1e6, window_size=5)

SIDES = st.sampled_from(["left", "right"])
ACTIONS = st.one_of(
    st.tuples(st.just("send"), SIDES, st.booleans(), st.integers(1, 40)),
    st.tuples(st.just("move"), SIDES, st.none() | st.integers(1, 700)),
    st.tuples(st.just("store"), SIDES, st.integers(1, 50)),
    st.tuples(st.just("wait"), st.floats(0.0, 0.6)),
    st.tuples(st.just("flush"), SIDES))
SCRIPTS = st.lists(ACTIONS, max_size=40)


def headers_in(data: bytes) -> list[SessionHeader]:
    out = []
    for packet in second.split(data)[0]:
        if packet[2] & SH:
            out.append(SessionHeader.decode(packet, 20 if packet[2] & IN else len(packet) - 16))
    return out


@dataclass
class Watched(Side):
    """A side of which every acknowledgement is held against what is durable at that moment."""

    recoverable: set[object] = field(default_factory=set)

    def watch(self, data: bytes) -> None:
        for header in headers_in(data):
            base, flags = header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags
            assert base + flags.bit_length() - 1 <= len(self.durable), "acknowledged before it was stored"
            assert header.ack_sequence_number <= len(self.received)
            assert header.recoverable_msg_seq_number == len(self.recoverable)
            assert header.user_msg_sequence_number == len(self.sent)

    def take(self, effects: list[Effect]) -> None:
        super().take(effects)
        for effect in effects:
            if isinstance(effect, Send) and self.session.state is SessionState.OPEN:
                self.watch(effect.data)

    def send(self, number: int, recoverable: bool, now: float) -> None:
        before = len(self.out)
        if recoverable:
            self.recoverable.add(number)
        super().send(number, recoverable, now)
        self.watch(bytes(self.out[before:]))


class Play:
    """A link and its invariants."""

    def __init__(self, settings: SessionSettings, other: SessionSettings) -> None:
        link = Link.opened(settings, other)
        self.link = Link(Watched(link.left.session), Watched(link.right.session))
        self.limit = min(settings.window_size, other.window_size)
        self.number = 0

    def side(self, name: str) -> Watched:
        side = self.link.left if name == "left" else self.link.right
        assert isinstance(side, Watched)
        return side

    def do(self, action: tuple[object, ...]) -> None:
        link = self.link
        match action:
            case ("send", str(name), bool(recoverable), int(count)):
                side = self.side(name)
                for _ in range(min(count, side.session.window)):
                    self.number += 1
                    side.send(self.number, recoverable, link.now)
            case ("move", str(name), size):
                assert size is None or isinstance(size, int)
                link.move(self.side(name), size)
            case ("store", str(name), int(count)):
                self.side(name).store(count, link.now)
            case ("wait", float(seconds)):
                link.now += seconds
                for name in ("left", "right"):
                    self.side(name).take(self.side(name).session.tick(link.now))
            case ("flush", str(name)):
                self.side(name).take(self.side(name).session.flush(link.now))
        self.check()

    def check(self) -> None:
        for mine, other in ((self.side("left"), self.side("right")), (self.side("right"), self.side("left"))):
            assert mine.close is None
            assert len(mine.sent) - len(mine.acknowledged) == mine.session.in_flight <= self.limit
            assert mine.session.window == self.limit - mine.session.in_flight
            assert mine.acknowledged == mine.sent[: len(mine.acknowledged)]
            assert other.received == mine.sent[: len(other.received)]
            assert mine.persisted == other.durable[: len(mine.persisted)]
            assert len(mine.acknowledged) <= len(other.received)

    def finish(self) -> None:
        """Everything arrives, everything is stored, and the timers run."""
        self.link.settle()
        for name in ("left", "right"):
            self.side(name).store(10**6, self.link.now)
        self.link.settle()
        self.link.advance(11.0)
        self.check()


@pytest.mark.spec("QB-172", "QB-081", "QB-095", "QB-186", "QB-187", "QB-139")
@given(SCRIPTS, st.sampled_from([LASTING, SMALL]), st.sampled_from([LASTING, SMALL]))
def test_whatever_happens_on_a_whole_link_everything_is_acknowledged_and_nothing_too_early(
        script: list[tuple[object, ...]], settings: SessionSettings, other: SessionSettings) -> None:
    play = Play(settings, other)
    for action in script:
        play.do(action)
    play.finish()
    for name in ("left", "right"):
        side = play.side(name)
        assert side.acknowledged == side.sent
        assert side.persisted == [number for number in side.sent if number in side.recoverable]
        assert side.session.close("") == []


@pytest.mark.spec("QB-075", "QB-140", "QB-142")
@given(SCRIPTS, st.sampled_from([LASTING, SMALL]))
def test_a_cut_gives_back_exactly_what_is_not_settled_and_nothing_is_lost(
        script: list[tuple[object, ...]], settings: SessionSettings) -> None:
    play = Play(settings, LASTING)
    for action in script:
        play.do(action)
    for name, peer in (("left", "right"), ("right", "left")):
        mine, other = play.side(name), play.side(peer)
        acknowledged, persisted = set(mine.acknowledged), set(mine.persisted)
        left = mine.session.close("the link was cut")
        assert left == [number for number in mine.sent
                        if number not in (persisted if number in mine.recoverable else acknowledged)]
        # What is not sent again has arrived, and is durable where that was promised.
        for number in mine.sent:
            if number not in left:
                assert number in (other.durable if number in mine.recoverable else other.received)


@given(st.lists(SCRIPTS, min_size=1, max_size=4))
def test_over_any_number_of_cuts_every_message_arrives_in_order_once_duplicates_are_dropped(
        scripts: list[list[tuple[object, ...]]]) -> None:
    waiting: list[object] = list(range(1, 150))
    durable: list[int] = []

    def take_in(numbers: list[int]) -> None:
        durable.extend(number for number in numbers if number not in durable)

    for script in [*scripts, None]:
        play = Play(LASTING, LASTING)
        left, right = play.side("left"), play.side("right")
        at = 0
        for action in script if script is not None else [("send", "left", True, 64), ("wait", 0.1)] * 8:
            if action[0] == "send":
                for number in waiting[at : at + left.session.window]:
                    assert isinstance(number, int)
                    left.send(number, True, play.link.now)
                    at += 1
            else:
                play.do(action)
            if script is None:
                play.link.settle()
                right.store(1000, play.link.now)
                play.link.settle()
        if script is None:
            play.finish()
        take_in(right.durable)
        persisted = set(left.persisted)
        assert left.session.close("cut") == [number for number in waiting[:at] if number not in persisted]
        waiting = [number for number in waiting if number not in persisted]
    assert waiting == [] and durable == list(range(1, 150))


# ---- any bytes ------------------------------------------------------------------------------------------------------

PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([connection(), connection(OWN, PEER, 0), parameters(), parameters(window=0), message(1),
                     message(2, recoverable=True), message(3, direct=True)]))


@pytest.mark.spec("QB-128")
@given(st.booleans(), st.lists(PIECES, max_size=8), st.integers(1, 600))
def test_any_bytes_end_in_effects_or_in_close(initiator: bool, pieces: list[bytes], step: int) -> None:
    session = Session(LASTING, own=OWN, initiator=initiator, remote=PEER, now=0.0)
    if initiator:
        session.start(0.0)
    data, over = b"".join(pieces), False
    for at in range(0, len(data), step):
        effects = session.receive(data[at : at + step], float(at))
        assert not (over and effects)
        over = session.state is SessionState.CLOSED
        assert over == any(type(effect).__name__ == "Close" for effect in effects) or not effects
    assert (session.deadline is None) is over


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFF))
def test_any_session_header_gives_tokens_back_once_or_closes(ack: int, base: int, flags: int, window: int) -> None:
    session = opened()
    for number in range(1, 41):
        session.send(message(number), number, number % 2 == 0, 0.0)
    given_back: list[object] = []
    for header in ((20, 1, 0x1FF), (ack, base, flags), (40, base, flags)):
        for effect in session.receive(acknowledgement(*header, window=window), 1.0):
            tokens = getattr(effect, "tokens", [])
            kept = {"Persisted": lambda token: token % 2 == 0, "Acknowledged": lambda token: token % 2}
            given_back += [token for token in tokens if kept[type(effect).__name__](token)]
    given_back += session.close("")
    assert sorted(given_back, key=int) == list(range(1, 41))  # type: ignore[arg-type]


def test_sending_into_a_closed_window_changes_nothing() -> None:
    session = opened(window=1)
    session.send(message(1), 1, False, 0.0)
    with pytest.raises(InvalidParameter):
        session.send(message(2), 2, False, 0.0)
    assert session.in_flight == 1 and session.close("") == [1]
