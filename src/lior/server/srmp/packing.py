"""The POST of a message at the moment it leaves ([MC-MQSRM] 3.1.7.2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from lior.errors import LiorError
from lior.message import Message
from lior.names import DirectName, MultipleName, parse_format_name
from lior.protocols.srmp.redirection import Redirections
from lior.queues.outgoing import OutgoingQueue
from lior.queues.position import Position
from lior.server.listening import url_host
from lior.server.srmp.client import Origin, Post, format_post
from lior.server.srmp.signatures import signature_text
from lior.wire.http1 import header_values, passed_by
from lior.wire.mime import format_entity, parse_entity
from lior.wire.srmp_elements import StreamId
from lior.wire.srmp_message import Receipts, to_envelope
from lior.wire.srmp_reader import check_header_text, read_envelope
from lior.wire.srmp_writer import EXAMPLES, TEXT, write_envelope

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp

ORDER_QUEUE: Final = "MSMQ/PRIVATE$/order_queue$"
MOST_KNOWN: Final = 1024
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_UNRESERVED: Final = "/$;=+,!'()*:@&~\\"  # as web servers of queue managers get them


class Unsendable(Exception):
    """The message cannot be an SRMP message."""


def pack(hub: Srmp, queue: OutgoingQueue, position: Position) -> Post:
    message = position.message
    if message.is_encrypted:
        raise Unsendable("SRMP does not encrypt; use https")
    soap = message.soap
    if soap is not None and soap.compound_message and not hub.manager.core.is_source(message):
        return _passed_on(hub, queue, message)
    if soap is not None and soap.envelope:  # a receipt of ours, made when it was called for
        envelope = soap.envelope.encode("utf-8")
        kind, pieces = format_entity(envelope, b"", b"", "", 1)
        return _post(hub, read_envelope(envelope).to, kind, pieces)
    return _message(hub, queue, position)


def _message(hub: Srmp, queue: OutgoingQueue, position: Position) -> Post:
    message = position.message
    assert isinstance(queue.destination, DirectName)
    to = queue.destination.url
    transaction = message.transaction
    previous = None
    if transaction is not None:
        previous = hub.manager.outgoing_streams.previous_for(position)
        hub.note_sent(transaction.sequence_identifier, transaction.sequence_number)
    receipts = Receipts(_admin_url(hub, message), _admin_url(hub, message), _receipts_url(hub, to))
    envelope = to_envelope(message, to, receipts, previous=previous, text_form=hub.settings.text_form)
    if envelope.header_text:
        check_header_text(envelope.header_text)  # it may have come from another queue manager (SR-043)
    if envelope.stream is not None:
        own = hub.manager.core.properties.identifier
        envelope.stream.stream_id = StreamId(own, envelope.stream.stream_id.number)
    octets = write_envelope(envelope, TEXT if hub.settings.text_form else EXAMPLES, signature_text(message))
    kind, pieces = format_entity(octets, message.body, message.extension, str(message.source_queue_manager), 1)
    return _post(hub, to, kind, pieces)


def _passed_on(hub: Srmp, queue: OutgoingQueue, message: Message) -> Post:
    """For somebody else: the entity as it came (SR-146)."""
    assert message.soap is not None
    head, _, entity = message.soap.compound_message.partition(b"\r\n\r\n")
    text = b"".join(header_values(head, b"content-type")[:1]).decode("latin-1")
    parse_entity(text, entity)
    assert isinstance(queue.destination, DirectName)
    via = ", ".join([*passed_by(head), f"1.1 {hub.manager.core.properties.identifier}"])
    return _post(hub, queue.destination.url, text, [entity], via)


def _post(hub: Srmp, to: str, kind: str, pieces: list[bytes], via: str = "") -> Post:
    origin, host, target = hub.place(to)
    if not (kind + via).isprintable():
        raise Unsendable("its header has control characters")
    return format_post(origin, target, host, kind, b"".join(pieces), via)


def place_of(to: str, outbound: Redirections) -> tuple[Origin, str, str]:
    """Where the connection goes, the header Host and the request target. Outbound redirection changes the first, not
    what is asked for there (3.1.7.9)."""
    asked = urlsplit(to)
    goes = urlsplit(outbound.target(to) or to)
    try:
        origin = Origin(goes.scheme == "https", _ascii(goes.hostname or ""), goes.port or DEFAULT_PORTS[goes.scheme])
        name, colon, port = asked.netloc.partition(":")
        host = asked.netloc if asked.netloc.isascii() else _ascii(name) + colon + port
    except (ValueError, KeyError):
        raise Unsendable(f"{to!r:.200} is no address of a web server") from None
    target = quote(asked.path, safe=_UNRESERVED + "%")
    query = quote(asked.query, safe=_UNRESERVED + "%?")
    return origin, host, target + (f"?{query}" if query else "")


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _admin_url(hub: Srmp, message: Message) -> str:
    """Receipts need an administration queue with a URL; one of our own has one (2.2.5.2.2)."""
    if not message.administration_queue:
        return ""
    try:
        name = parse_format_name(message.administration_queue)
    except LiorError:
        return ""
    if isinstance(name, MultipleName):
        name = name.elements[0]
    if not isinstance(name, DirectName):
        return ""
    if name.is_http:
        return name.url
    if not hub.manager.core.local.designates_me(name) or name.is_system:
        return ""
    place = "private$/" if name.is_private else ""
    return f"http://{_own_host(hub)}/msmq/{place}{name.queue}"


def _receipts_url(hub: Srmp, to: str) -> str:
    """Where stream receipts are to go: our order queue, unless an administrator says otherwise."""
    known = hub.receipt_urls.get(to)
    if known is not None:
        return known
    if len(hub.receipt_urls) >= MOST_KNOWN:
        hub.receipt_urls.clear()
    url = hub.receipt_urls[to] = _found_receipts_url(hub, to)
    return url


def _found_receipts_url(hub: Srmp, to: str) -> str:
    settings = hub.settings
    found = settings.receipt_urls.target(to) or settings.default_receipt_url
    return found or f"{urlsplit(to).scheme}://{_own_host(hub, urlsplit(to).scheme)}/{ORDER_QUEUE}"


def _own_host(hub: Srmp, scheme: str = "http") -> str:
    settings = hub.settings
    host = settings.receipts_host
    if not host:
        own = [a for a in settings.addresses if a not in ("0.0.0.0", "::")]
        host = own[0] if len(own) == 1 else hub.manager.core.properties.computer_name
    port, default = (settings.https_port, 443) if scheme == "https" else (settings.http_port, 80)
    return url_host(host) + ("" if port in (0, default) else f":{port}")
