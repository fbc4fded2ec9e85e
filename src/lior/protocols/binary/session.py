"""One protocol session: bytes and the time in, effects out ([MS-MQQB] 3.1.5 and 3.1.6).

The session knows no socket, queue or disk. Who owns it writes the bytes of Send, stores what Received brings, says
`stored` when that is durable, and calls `tick` at `deadline`. Calls on a closed session do nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lior.errors import InvalidParameter, Malformed
from lior.protocols.binary import handshake
from lior.protocols.binary.effects import Acknowledged, Close, Effect, Opened, Persisted, Received, Send, SessionState
from lior.protocols.binary.framer import Framer
from lior.protocols.binary.receiving import NEVER, ReceivingHalf
from lior.protocols.binary.sending import SendingHalf
from lior.protocols.binary.settings import SessionSettings
from lior.wire.headers import DM_SHIFT, DQ_SHIFT, IN, MAX_PACKET_SIZE, NULL_GUID_BYTES, SessionHeader
from lior.wire.plain_packets import PlainDecoder, PlainMessage
from lior.wire.queue_names import DIRECT
from lior.wire.session_packets import (
    CONNECTION_PARAMETERS,
    ESTABLISH_CONNECTION,
    PT_MASK,
    SESSION_ACK,
    SESSION_ACK_HEAD,
    ConnectionParameters,
    EstablishConnection,
    SessionAck,
    with_session_header,
)
from lior.wire.user_message import UserMessage

__all__ = ["Acknowledged", "Close", "Effect", "Opened", "Persisted", "Received", "Send", "Session", "SessionState"]

_RECOVERABLE: Final = 1 << DM_SHIFT
_DIRECT_MASK: Final = 7 << DQ_SHIFT
_DIRECT: Final = DIRECT << DQ_SHIFT
_PACKET_TYPE_AT: Final = 18  # the low byte of InternalHeader.Flags
_LARGEST_BEFORE_OPEN: Final = EstablishConnection.SIZE

_OPEN: Final = SessionState.OPEN
_CLOSED: Final = SessionState.CLOSED


@dataclass(slots=True)
class _Timers:
    """When each fires next; NEVER where it is stopped. The Session Ack Send Timer is in the receiving half."""

    initialisation: float
    cleanup: float
    ack_wait: float = NEVER
    window: float = NEVER


@dataclass(slots=True)
class _Call:
    """One call of the session: when it is, and what comes of it."""

    now: float
    effects: list[Effect] = field(default_factory=list)


class Session:
    """A session from the connection to its end. `deadline` and every `now` are monotonic seconds.

    `remote` of an initiator is the GUID that the peer must have, or None for a direct format name, which does not say.
    An acceptor may be told to `refuse` whoever asks (QB-011)."""

    __slots__ = ("_ack_heard", "_ack_wait", "_active", "_framer", "_initiator", "_own", "_pinged", "_plain",
                 "_receiving", "_refuse", "_sending", "_settings", "_started", "_timers", "direct", "reason",
                 "remote", "state")

    def __init__(self, settings: SessionSettings, *, own: bytes, initiator: bool, remote: bytes | None = None,
                 pinged: bool = False, refuse: bool = False, now: float) -> None:
        self._settings = settings
        self._own = own
        self._initiator = initiator
        self._pinged = pinged
        self._refuse = refuse
        self._started = now
        self.state = SessionState.WAITING_EC
        self.reason = ""  # why it is closed
        self.remote = remote or NULL_GUID_BYTES
        self.direct = initiator and self.remote == NULL_GUID_BYTES  # DirectFormatSession
        self._framer = Framer(_LARGEST_BEFORE_OPEN)
        self._plain = PlainDecoder(own)
        self._sending = SendingHalf(settings.window_size)
        self._receiving = ReceivingHalf(settings.window_size, settings.ack_wait)
        self._active = False  # SessionActive
        self._ack_heard = False  # ReceivedAck
        self._timers = _Timers(now + settings.initialisation + 2 * settings.round_trip_delay, now + settings.cleanup)
        self._ack_wait = 0.0
        self._set_ack_wait()

    # ---- what it is -------------------------------------------------------------------------------------------------

    @property
    def window(self) -> int:
        """Messages that may be sent now: the smaller window without what is in flight. Not above 0: none."""
        return self._sending.window

    @property
    def half_window(self) -> int:
        """Half of the messages that may be in flight: what the peer acknowledges at once (QB-173)."""
        return max(1, self._sending.limit // 2)

    @property
    def in_flight(self) -> int:
        """Messages sent and not covered by AckSequenceNumber (UnAckedMessageCount)."""
        return self._sending.in_flight

    @property
    def unstored(self) -> int:
        """Recoverable messages received for which `stored` was not called."""
        return self._receiving.unstored

    @property
    def unfinished(self) -> int:
        """Bytes that wait for the rest of their packet."""
        return self._framer.pending

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to do next; None when never."""
        if self.state is _CLOSED:
            return None
        timers = self._timers
        return min(timers.initialisation, timers.cleanup, timers.ack_wait, timers.window, self._receiving.ack_at)

    # ---- what happens -----------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[Effect]:
        """The initiator's first packet, when the connection stands (3.1.5.2.3)."""
        if not self._initiator or self.state is not SessionState.WAITING_EC:
            raise InvalidParameter("only an initiator starts, and once", where="session")
        self.state = SessionState.WAITING_ECR
        self._started = now
        settings = self._settings
        self._timers.initialisation = now + settings.initialisation + 2 * settings.round_trip_delay
        return [Send(handshake.connection_request(settings, self._own, self.remote, self._pinged, now))]

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> list[Effect]:
        """Any part of the stream."""
        call = _Call(now)
        effects = call.effects
        if self.state is _CLOSED:
            return effects
        receiving = self._receiving
        receiving.volume += len(data)
        before = receiving.received
        self._ack_heard = True  # a part of a packet is a sign of life too: a large one takes its time
        if self._packets(data, call) and receiving.received != before:
            self._active = True
            receiving.counted(receiving.received - before, now)
            if receiving.half_window:
                effects.append(self._session_ack(now))
        return effects

    def _packets(self, data: bytes | bytearray | memoryview, call: _Call) -> bool:
        """Plain messages, nearly all, are taken in one step each and counted together. False when the session ended."""
        plain: list[PlainMessage] = []
        decode = self._plain.decode
        try:
            for packet in self._framer.feed(data):
                found = decode(packet) if self.state is _OPEN else None
                if found is not None:
                    plain.append(found)
                    continue
                if plain:
                    self._count_plain(plain, call)
                    plain = []
                if packet[2] & IN or self.state is not _OPEN:
                    if not self._internal_packet(packet, call):
                        return False
                elif not self._user_message(UserMessage.decode(packet), call):
                    return False
        except Malformed as error:
            if plain:  # those before a packet that is not right were received
                self._count_plain(plain, call)
            self._end(call, str(error), malformed=True)
            return False
        if plain:
            self._count_plain(plain, call)
        return True

    def _count_plain(self, messages: list[PlainMessage], call: _Call) -> None:
        receiving = self._receiving
        receiving.received += len(messages)
        receiving.recoverable_received += sum([message.message.delivery_guarantee for message in messages])
        if not self.direct and any(message.way.queue_type == _DIRECT for message in messages):
            self.direct = True
            self._set_ack_wait()
        call.effects.append(Received([*messages]))

    def _user_message(self, message: UserMessage, call: _Call) -> bool:
        """False when it has ended the session."""
        receiving, flags = self._receiving, message.user.flags
        receiving.received += 1
        if flags & _RECOVERABLE:
            receiving.recoverable_received += 1
        if flags & _DIRECT_MASK == _DIRECT and not self.direct:
            self.direct = True
            self._set_ack_wait()
        problem = "" if message.session is None else self._session_header(message.session, call)
        call.effects.append(Received([message]))
        if problem:
            # Delivered all the same ([MS-MQMQ] 2.2.20.4, note 14): it is the count that is wrong.
            self._end(call, problem, malformed=True)
        return not problem

    def send(self, packet: bytes, token: object, recoverable: bool, now: float) -> bytes:
        """The bytes to write for a UserMessage without a SessionHeader; `window` has to be above 0."""
        sending = self._sending
        if sending.window <= 0:
            raise InvalidParameter("the window is closed", where="session", remedy="wait for an acknowledgement")
        sending.send(token, recoverable)
        self._active = True
        if self._timers.ack_wait == NEVER:
            self._timers.ack_wait = now + self._ack_wait
        if now > self._receiving.piggyback_at:  # 3.1.7.11, filled when it leaves and not when it is made
            header = self._receiving.header(sending.sent, sending.recoverable_sent, now)
            return with_session_header(packet, header)
        return packet

    def send_all(self, packets: Sequence[bytes], tokens: Sequence[object], recoverable: Sequence[bool],
                 now: float) -> list[bytes]:
        """As `send` for each, one after the other; `window` has to be as much at least."""
        if len(packets) > self._sending.window:
            raise InvalidParameter("the window is too small", where="session", remedy="wait for an acknowledgement")
        out: list[bytes] = []
        if packets:
            out.append(self.send(packets[0], tokens[0], recoverable[0], now))  # it may carry an acknowledgement
            out += packets[1:]
            self._sending.send_all(tokens[1:], recoverable[1:])
        return out

    def stored(self, count: int, now: float) -> list[Effect]:
        """The oldest `count` recoverable messages are durably settled: stored, rejected, or found to be duplicates."""
        effects: list[Effect] = []
        if self.state is not _OPEN:
            return effects
        receiving = self._receiving
        receiving.stored(count, now)
        while receiving.full:  # a SessionHeader speaks of 32
            effects.append(self._session_ack(now))
        if receiving.half_window:  # it waited for this
            effects.append(self._session_ack(now))
        return effects

    def flush(self, now: float) -> list[Effect]:
        """Acknowledge now what can be: before an orderly end, so that the peer need not send it again."""
        effects: list[Effect] = []
        if self.state is _OPEN:
            while self._receiving.pending:
                effects.append(self._session_ack(now))
        return effects

    def set_window(self, size: int, now: float) -> list[Effect]:
        """Advertise another window, 1 to slow the peer down; it does not limit what we send.

        A peer that hears nothing else for 30 seconds doubles it ([MS-MQMQ] 2.2.20.4, note 15): say it again."""
        if not 1 <= size <= 0xFFFF:
            raise InvalidParameter(f"a window of {size}", where="session", remedy="it is 1 to 65535")
        self._receiving.window_size = size
        self._set_threshold()
        return [self._session_ack(now)] if self.state is _OPEN else []

    def close(self, reason: str) -> list[object]:
        """The session is over, whoever ended it. The tokens not given back so far, in the order of sending."""
        if self.state is not _CLOSED:  # no packet says good-bye (3.1.5.9)
            self.state = _CLOSED
            self.reason = reason
        return self._sending.remaining()

    def tick(self, now: float) -> list[Effect]:
        """Whatever is due (3.1.6)."""
        call = _Call(now)
        timers = self._timers
        if self.state is not _CLOSED and timers.initialisation <= now:
            self._end(call, "the handshake took too long")
        if self.state is not _CLOSED and timers.ack_wait <= now:
            self._ack_wait_over(call)
        if self.state is not _CLOSED and timers.cleanup <= now:
            self._cleanup(call)
        if self.state is _CLOSED:
            return call.effects
        if self._receiving.ack_at <= now:
            call.effects.append(self._session_ack(now))
        if timers.window <= now:
            timers.window = now + self._settings.window_recovery if self._sending.recover() else NEVER
            self._set_threshold()
        return call.effects

    # ---- timers -----------------------------------------------------------------------------------------------------

    def _set_ack_wait(self) -> None:
        """The Session Ack Wait Timer's duration: a multiple of AckWaitTimeout (3.1.2.4, note 46)."""
        settings = self._settings
        multiplier = settings.direct_ack_wait_multiplier if self.direct else settings.ack_wait_multiplier
        self._ack_wait = multiplier * self._receiving.ack_wait

    def _ack_wait_over(self, call: _Call) -> None:
        """3.1.6.3: a peer that is silent for one to two periods is gone."""
        if not self._ack_heard:  # something is in flight, or the timer would not run
            self._end(call, f"the peer acknowledged nothing for {self._ack_wait:g} seconds")
        self._timers.ack_wait = call.now + self._ack_wait
        self._ack_heard = False

    def _cleanup(self, call: _Call) -> None:
        """3.1.6.2"""
        if not self._active:
            self._end(call, "the session was idle")
        self._active = False
        self._timers.cleanup = call.now + self._settings.cleanup

    def _end(self, call: _Call, reason: str, *, malformed: bool = False, refused: bool = False) -> None:
        self.state = _CLOSED
        self.reason = reason
        self._sending.close()
        call.effects.append(Close(reason, malformed, refused))

    # ---- acknowledgements -------------------------------------------------------------------------------------------

    def _session_ack(self, now: float) -> Send:
        sending = self._sending
        return Send(SESSION_ACK_HEAD + self._receiving.header(sending.sent, sending.recoverable_sent, now))

    def _session_header(self, header: SessionHeader, call: _Call) -> str:
        """3.1.5.5, the same for both places a SessionHeader can stand in. What is wrong with its counts, or nothing."""
        sending, receiving, timers = self._sending, self._receiving, self._timers
        if tokens := sending.acknowledge(header.ack_sequence_number):
            call.effects.append(Acknowledged(tokens))
        if tokens := sending.persist(header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags):
            call.effects.append(Persisted(tokens))
        if header.window_size != sending.peer_window:
            sending.set_peer_window(header.window_size)
            below = sending.peer_window < sending.usual_window
            timers.window = call.now + self._settings.window_recovery if below else NEVER
            self._set_threshold()
        sending.refresh()
        timers.ack_wait = call.now + self._ack_wait if sending.in_flight else NEVER
        if header.user_msg_sequence_number != receiving.received & 0xFFFF \
                or header.recoverable_msg_seq_number != receiving.recoverable_received & 0xFFFF:
            return (f"the peer says it sent {header.user_msg_sequence_number} messages, "
                    f"{header.recoverable_msg_seq_number} recoverable; {receiving.received & 0xFFFF} and "
                    f"{receiving.recoverable_received & 0xFFFF} came")
        return ""

    def _set_threshold(self) -> None:
        """Half of what the peer can have in flight."""
        receiving = self._receiving
        receiving.threshold = max(1, min(receiving.window_size, self._sending.peer_window) // 2)

    # ---- internal packets -------------------------------------------------------------------------------------------

    def _internal_packet(self, packet: bytes, call: _Call) -> bool:
        """A packet that is no message, or one that came too early; False when it has ended the session."""
        if self.state is _OPEN and len(packet) == SessionAck.SIZE and packet.startswith(SESSION_ACK_HEAD):
            return self._acknowledged(SessionHeader.decode(packet, len(SESSION_ACK_HEAD)), call)  # as nearly all are
        packet_type = packet[_PACKET_TYPE_AT] & PT_MASK if packet[2] & IN else 0
        handler = _HANDLERS.get((self.state, packet_type))
        if handler is not None:
            handler(self, packet, call)
            return self.state is not _CLOSED
        name = _PACKET_NAMES.get(packet_type, f"packet of type {packet_type}") if packet[2] & IN else "message"
        self._end(call, f"a {name} while {self.state.value}", malformed=True)
        return False

    def _connection_request(self, packet: bytes, call: _Call) -> None:
        """3.1.5.3.1"""
        request = EstablishConnection.decode(packet)
        if self._initiator or request.refused:
            self._end(call, "an EstablishConnection request that makes no sense", malformed=True)
            return
        self.remote = request.header.client_guid
        response = handshake.connection_response(request, self._own, self._refuse)
        call.effects.append(Send(response.encode()))
        self.state = SessionState.WAITING_CP
        if response.refused:  # 3.1.5.3.1 would wait for parameters all the same
            self._end(call, "no session is possible now" if self._refuse else "the peer looks for somebody else",
                      refused=True)

    def _connection_response(self, packet: bytes, call: _Call) -> None:
        """3.1.5.3.2"""
        response = EstablishConnection.decode(packet)
        if response.refused:
            self._end(call, "the peer refused the session", refused=True)
            return
        if problem := handshake.response_problem(response, self._own, self.remote):
            self._end(call, problem, malformed=True)
            return
        self.remote = response.header.server_guid
        receiving = self._receiving
        receiving.recoverable_ack = handshake.recoverable_ack_timeout(self._settings, call.now - self._started)
        self._send_parameters(call)
        self.state = SessionState.WAITING_CPR

    def _parameters_request(self, packet: bytes, call: _Call) -> None:
        """3.1.5.4.1"""
        request = ConnectionParameters.decode(packet)
        if request.refused:
            self._end(call, "the peer refused the session", refused=True)
            return
        receiving, header = self._receiving, request.header
        receiving.ack_wait = header.ack_timeout / 1000
        receiving.recoverable_ack = header.recoverable_ack_timeout / 1000
        self._set_ack_wait()
        self._send_parameters(call)
        self._open(header.window_size, call)

    def _parameters_response(self, packet: bytes, call: _Call) -> None:
        """3.1.5.4.2; the times that come back are not read again."""
        response = ConnectionParameters.decode(packet)
        if response.refused:
            self._end(call, "the peer refused the session", refused=True)
            return
        self._open(response.header.window_size, call)

    def _send_parameters(self, call: _Call) -> None:
        ours = self._receiving
        call.effects.append(Send(handshake.parameters(ours.recoverable_ack, ours.ack_wait, ours.window_size)))

    def _open(self, peer_window: int, call: _Call) -> None:
        self._timers.initialisation = NEVER
        self._framer.limit = MAX_PACKET_SIZE
        self._sending.set_peer_window(peer_window)
        self._sending.refresh()
        self._set_threshold()
        self.state = _OPEN
        call.effects.append(Opened(self.remote))

    def _acknowledgement(self, packet: bytes, call: _Call) -> None:
        self._acknowledged(SessionAck.decode(packet).session, call)

    def _acknowledged(self, header: SessionHeader, call: _Call) -> bool:
        problem = self._session_header(header, call)
        if problem:
            self._end(call, problem, malformed=True)
        return not problem


_PACKET_NAMES: Final = {SESSION_ACK: "SessionAck", ESTABLISH_CONNECTION: "EstablishConnection",
                        CONNECTION_PARAMETERS: "ConnectionParameters"}

# What may come in which state (3.1.5.3 to 3.1.5.5), besides messages; anything else ends the session.
_HANDLERS: Final[dict[tuple[SessionState, int], Callable[[Session, bytes, _Call], None]]] = {
    (SessionState.WAITING_EC, ESTABLISH_CONNECTION): Session._connection_request,
    (SessionState.WAITING_ECR, ESTABLISH_CONNECTION): Session._connection_response,
    (SessionState.WAITING_CP, CONNECTION_PARAMETERS): Session._parameters_request,
    (SessionState.WAITING_CPR, CONNECTION_PARAMETERS): Session._parameters_response,
    (SessionState.OPEN, SESSION_ACK): Session._acknowledgement,
}
