"""Writes docs/properties.md from the property tables; `tests/wire/test_properties.py` checks that the two agree.

Run: python tools/property_document.py docs/properties.md
"""

import sys
from pathlib import Path

from lior.wire.properties import IGNORED, PROPERTIES, UNSUPPORTED, Access, Property
from lior.wire.propvariant import Value

HEAD = """\
# Properties

Every property identifier of [MS-MQMQ] 2.3, by object class, as `lior.wire.property_tables` has it. Written by
`tools/property_document.py`; change the table, not this page.

- *Set*: when a caller may give a value. `dropped` properties are accepted and not stored; the caller's status array
  says 0x400E0003 (ignored) or 0x400E0004 (not supported).
- *Values*: what is taken beyond the type. Any other value is refused with 0xC00E0018, a path name with 0xC00E0014, a
  security descriptor with 0xC00E0021; another type with 0xC00E0019.
- *Since*: the first MSMQ version that knows the property.

The classes that live in a directory (site, connected network, enterprise, user, routing link, settings, MQUser,
computer) have names and types here, so that tools can show them. Without a directory nothing stores them.
"""


def _default(value: Value) -> str:
    return "" if value is None else f"`{value!r}`" if isinstance(value, str) else f"`{value!s}`"


def _access(entry: Property) -> str:
    if entry.status == IGNORED:
        return f"{entry.access.value}, dropped"
    if entry.status == UNSUPPORTED:
        return f"{entry.access.value}, dropped as not supported"
    return f"{entry.access.value}, required" if entry.required else entry.access.value


def render() -> str:
    """The page."""
    lines = [HEAD]
    for object_class, entries in PROPERTIES.items():
        lines.append(f"## {object_class.value}\n")
        if all(entry.access is Access.GET for entry in entries.values()):
            lines.append("Read only.\n")
        lines.append("| Identifier | Name | Type | Set | Values | Default | Since |")
        lines.append("|---|---|---|---|---|---|---|")
        for entry in sorted(entries.values(), key=lambda entry: entry.propid):
            values = (entry.rule.text if entry.rule else "").replace("\\", "\\\\")
            cells = (str(entry.propid), entry.name, entry.type_name.replace("|", "\\|"), _access(entry), values,
                     _default(entry.default), f"{entry.since}.0")
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
