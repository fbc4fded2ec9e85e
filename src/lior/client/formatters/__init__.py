"""Message bodies as existing MSMQ clients write and read them; docs/formatters.md has the tables."""

import difflib
from typing import Final

from lior.client.formatters.activex import ActiveXFormatter, BytesFormatter, TextFormatter
from lior.client.formatters.auto import AutoFormatter
from lior.client.formatters.body_type import BodyType, Formatter, Variant
from lior.client.formatters.dotnet_xml import XmlFormatter
from lior.client.formatters.json_text import JsonFormatter
from lior.errors import FormatterError

__all__ = [
    "ACTIVEX", "ACTIVEX_DOTNET", "AUTO", "BYTES", "FORMATTERS", "JSON", "STRING", "TEXT_LPSTR", "TEXT_LPWSTR", "XML",
    "ActiveXFormatter", "AutoFormatter", "BodyType", "BytesFormatter", "Formatter", "JsonFormatter", "TextFormatter",
    "Variant", "XmlFormatter", "formatter_named",
]

BYTES: Final = BytesFormatter()
STRING: Final = TextFormatter()
TEXT_LPWSTR: Final = TextFormatter("lpwstr", BodyType.VT_LPWSTR)
TEXT_LPSTR: Final = TextFormatter("lpstr", BodyType.VT_LPSTR)
ACTIVEX: Final = ActiveXFormatter()
ACTIVEX_DOTNET: Final = ActiveXFormatter("activex-dotnet", dates="ticks")
XML: Final = XmlFormatter()
JSON: Final = JsonFormatter()
AUTO: Final = AutoFormatter()

_ALL: Final[tuple[Formatter, ...]] = (
    BYTES, STRING, TEXT_LPWSTR, TEXT_LPSTR, ACTIVEX, ACTIVEX_DOTNET, XML, JSON, AUTO,
)
FORMATTERS: Final[dict[str, Formatter]] = {formatter.name: formatter for formatter in _ALL}


def formatter_named(name: str) -> Formatter:
    """The formatter of that name; the error names the nearest one."""
    formatter = FORMATTERS.get(name)
    if formatter is not None:
        return formatter
    near = difflib.get_close_matches(name[:100].lower(), FORMATTERS, n=1, cutoff=0.0)
    raise FormatterError(
        f"there is no formatter {name[:100]!r}",
        where="formatter",
        remedy=f"did you mean {near[0]!r}? There are {', '.join(FORMATTERS)}",
    )
