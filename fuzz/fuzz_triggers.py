"""Fuzz target: the text of a triggers file, and labels put into its commands and header fields."""

from contextlib import suppress

from lior.client.triggers import Command, loads
from lior.client.triggers.properties import environment_of, header_fields_of, properties_of
from lior.errors import LiorError
from lior.message import Message


def target(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with suppress(LiorError):
        for trigger in loads(text):
            for rule in trigger.rules:
                if isinstance(rule.action, Command):
                    filled = [template.fill(dict.fromkeys(PROPERTIES, "x")) for template in rule.action.templates]
                    assert len(filled) == len(rule.action.arguments)
    label = _label(data[:498])
    properties = properties_of(Message(data, label), "t", "r", "q")
    for name, value in environment_of(properties).items():
        assert "\0" not in name + value
        value.encode()
    for value in header_fields_of(properties).values():
        assert value.isascii()
        assert value.isprintable()
        assert " " not in value


PROPERTIES = list(properties_of(Message(), "t", "r", "q"))


def _label(data: bytes) -> str:
    """Text as a packet may hold it, halves of surrogate pairs included."""
    try:
        return data[: len(data) // 2 * 2].decode("utf-16-le", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


if __name__ == "__main__":
    from harness import run

    run(target)
