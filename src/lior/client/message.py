"""Messages as the library hands them out, and what callers may give instead of one."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, Final
from uuid import UUID

from lior.client.formatters import AUTO, Formatter, formatter_named
from lior.client.signing import set_privacy
from lior.errors import IllegalPropertyValue, Malformed
from lior.message import Message, MessageSecurity, MessageSoap, ObjectId
from lior.wire.srmp_reader import check_header_text

FIELDS = frozenset(Message.__slots__) - {
    "abort_count",
    "arrival_time",
    "failed_destination",
    "failure_reason",
    "hop_count",
    "identifier",
    "last_move_time",
    "lookup_identifier",
    "move_count",
    "packet",
    "sent_time",
    "soap",
    "source_queue_manager",
    "transaction",
}
_OPTIONAL: Final[dict[str, type]] = {"connector_type": UUID, "security": MessageSecurity}
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    name: (_OPTIONAL[name], NoneType) if name in _OPTIONAL else (type(getattr(Message(), name)),) for name in FIELDS
}
ALIASES = {
    "admin_queue": "administration_queue",
    "app_tag": "application_tag",
    "dead_letter": "negative_journaling_requested",
    "journal": "positive_journaling_requested",
    "acknowledge": "acknowledgements_requested",
    "class_": "message_class",
    "dead_letter_queue": "application_deadletter_queue",
}


_TO_SEND: Final = Message(delivery_guarantee=1, negative_journaling_requested=True)
_FURTHER: Final = frozenset({"recoverable", "express", "privacy", "sign", "soap_header"})


class ReceivedMessage(Message):
    """A message that was read. It is the reader's own: changing it changes nothing in the queue."""

    __slots__ = ()

    def value(self, formatter: str | Formatter = AUTO) -> Any:
        """The body as a Python value: by its body type, or as the formatter of that name reads it."""
        chosen = formatter_named(formatter) if isinstance(formatter, str) else formatter
        return chosen.decode(self.body, self.body_type)

    @property
    def id(self) -> str:
        """The message identifier as it is written everywhere: {GUID}\\number."""
        return str(self.identifier) if self.identifier is not None else ""

    @property
    def soap_header(self) -> str:
        """What the sender added to the SOAP header; of a message that came over HTTP the whole element Header."""
        return self.soap.header if self.soap is not None else ""


def received(message: Message) -> ReceivedMessage:
    """The same object, seen as a received message: the two have the same layout."""
    message.__class__ = ReceivedMessage
    return message  # type: ignore[return-value]


def build(body: Any, formatter: str | Formatter | None, properties: dict[str, Any]) -> Message:
    """A message to send from a body and named properties. Two defaults differ from the API of MSMQ, so that
    nothing is lost in silence: the message is recoverable, and one that fails is kept with its reason."""
    if type(body) is bytes and formatter is None:
        message = _TO_SEND.copy()  # in less time than making one
        message.body = body
    elif isinstance(body, Message):
        message = _anew(body)
    else:
        chosen = formatter_named(formatter) if isinstance(formatter, str) else formatter or AUTO
        data, body_type = chosen.encode(body)
        message = _TO_SEND.copy()
        message.body, message.body_type = data, body_type
    for name, value in properties.items():
        usual = _USUAL.get(name)
        if usual is not None and type(value) is usual[1]:
            setattr(message, usual[0], value)
            continue
        setter = _SPECIAL.get(name)
        if setter is not None:
            setter(message, value)
        else:
            _set(message, name, value)
    return message


def _anew(body: Message) -> Message:
    """A message to send with the content of another one, and nothing of what that went through."""
    message = Message()
    for name in FIELDS:
        _set(message, name, getattr(body, name))
    return message


def _recoverable(message: Message, value: Any) -> None:
    message.delivery_guarantee = 1 if value else 0


def _express(message: Message, value: Any) -> None:
    message.delivery_guarantee = 0 if value else 1


def _correlation(message: Message, value: Any) -> None:
    _set(message, "correlation_id", value.to_bytes() if isinstance(value, ObjectId) else value)


def _soap_header(message: Message, value: Any) -> None:
    if not isinstance(value, str):
        raise IllegalPropertyValue(f"{type(value).__name__} instead of str", where="soap_header")
    try:
        check_header_text(value)
    except Malformed as error:
        raise IllegalPropertyValue(error.what, where="soap_header",
                                   remedy="give whole XML elements in a namespace of their own") from None
    message.soap = MessageSoap(header=value) if value else None


_SPECIAL: Final[dict[str, Callable[[Message, Any], None]]] = {
    "recoverable": _recoverable,
    "express": _express,
    "correlation_id": _correlation,
    "privacy": set_privacy,
    "soap_header": _soap_header,
}


# Name, as the caller writes it -> the field, and the type that needs no closer look
_USUAL: Final[dict[str, tuple[str, type]]] = {
    alias: (ALIASES.get(alias, alias), _TYPES[ALIASES.get(alias, alias)][0])
    for alias in (FIELDS | set(ALIASES)) - set(_SPECIAL)
}


def _set(message: Message, name: str, value: Any) -> None:
    name = ALIASES.get(name, name)
    if name not in FIELDS:
        raise IllegalPropertyValue(
            f"there is no message property {name} to set",
            where=name,
            remedy="settable: " + ", ".join(sorted(FIELDS | set(ALIASES) | _FURTHER)),
        )
    if not isinstance(value, _TYPES[name]):
        wanted = " or ".join("nothing" if kind is NoneType else kind.__name__ for kind in _TYPES[name])
        raise IllegalPropertyValue(f"{type(value).__name__} instead of {wanted}", where=name)
    setattr(message, name, value)
