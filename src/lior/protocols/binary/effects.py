"""What a session wants done, or tells ([MS-MQQB] 3.1.5): the results of its calls, in order; and its states."""

from dataclasses import dataclass
from enum import Enum

from lior.wire.plain_packets import PlainMessage
from lior.wire.user_message import UserMessage


class SessionState(Enum):
    """SessionState (3.1.1.3.1); WAITING_RECONNECT belongs to whoever makes the next session."""

    WAITING_EC = "waiting for an EstablishConnection request"
    WAITING_ECR = "waiting for an EstablishConnection response"
    WAITING_CP = "waiting for a ConnectionParameters request"
    WAITING_CPR = "waiting for a ConnectionParameters response"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(slots=True)
class Send:
    """Write these bytes to the peer."""

    data: bytes


@dataclass(slots=True)
class Opened:
    """The handshake is complete; `remote` is the peer's GUID, as it claims."""

    remote: bytes


@dataclass(slots=True)
class Received:
    """Messages, counted already; the SessionHeaders they carried are processed."""

    messages: list[UserMessage | PlainMessage]


@dataclass(slots=True)
class Acknowledged:
    """The peer has received these messages, express and recoverable ones, in the order of sending."""

    tokens: list[object]


@dataclass(slots=True)
class Persisted:
    """The peer has stored these recoverable messages, in the order of sending; each was in Acknowledged before."""

    tokens: list[object]


@dataclass(slots=True)
class Close:
    """Close the connection. Nothing comes after it; `close` gives the tokens that are left."""

    reason: str
    malformed: bool = False  # the peer broke the protocol
    refused: bool = False  # one side refused the session in the handshake


Effect = Send | Opened | Received | Acknowledged | Persisted | Close
