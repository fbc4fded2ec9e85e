"""The formatter that chooses by the value's type when writing and by the body type when reading."""

from dataclasses import dataclass, field

from lior.client.formatters.activex import ActiveXFormatter
from lior.client.formatters.body_type import BodyType, Variant, refuse_binary
from lior.client.formatters.json_text import JsonFormatter


@dataclass(frozen=True, slots=True)
class AutoFormatter:
    """Bytes stay bytes without a claim (body type 0), text is a BSTR, containers are JSON, the rest as ActiveX."""

    name: str = "auto"
    activex: ActiveXFormatter = field(default_factory=ActiveXFormatter)
    json: JsonFormatter = field(default_factory=JsonFormatter)

    def encode(self, value: object) -> tuple[bytes, int]:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value), int(BodyType.VT_EMPTY)
        if isinstance(value, dict | list | tuple):
            return self.json.encode(value)
        return self.activex.encode(Variant(BodyType.VT_BSTR, value) if isinstance(value, str) else value)

    def decode(self, body: bytes, body_type: int) -> object:
        refuse_binary(body_type, self.name)
        if body_type not in _KNOWN:
            return bytes(body)
        return self.activex.decode(body, body_type)


_KNOWN = frozenset(map(int, BodyType))
