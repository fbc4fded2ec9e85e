"""Fuzz target: SRMP envelopes; what was read is written and read again as the same, and by both readers."""

from lior.errors import LiorError, Malformed
from lior.wire.mime import Entity
from lior.wire.srmp_known_form import read_known_form
from lior.wire.srmp_message import Receipts, to_envelope, to_message
from lior.wire.srmp_reader import read_any_form, read_envelope
from lior.wire.srmp_writer import EXAMPLES, TEXT, write_envelope


def target(data: bytes) -> None:
    try:
        envelope = read_envelope(data)
    except Malformed:
        assert read_known_form(data) is None
        return
    quick = read_known_form(data)
    assert quick is None or quick == read_any_form(data)
    header, body = envelope.header_text, envelope.body_text
    assert header in data.decode("utf-8") and body in data.decode("utf-8")
    envelope.header_text = envelope.body_text = ""
    signature, envelope.signature = envelope.signature, None
    if signature is not None:
        assert data[signature.start : signature.start + 1] == b"<" and data[signature.end - 1 : signature.end] == b">"
    for spelling in (EXAMPLES, TEXT):
        octets = write_envelope(envelope, spelling)
        again = read_envelope(octets)  # dates that 31 bits do not hold became the nearest
        again.header_text = again.body_text = ""
        assert (again.to, again.label, again.identifier, again.services, again.stream) == (
            envelope.to, envelope.label, envelope.identifier, envelope.services, envelope.stream)
        assert write_envelope(again, spelling) == octets
    try:
        message = to_message(envelope, Entity(data), b"", 0.0)
    except LiorError:
        return
    if message.identifier is not None:
        write_envelope(to_envelope(message, envelope.to, Receipts()))


if __name__ == "__main__":
    from harness import run

    run(target)
