"""What path names and format names share: enumerations, alphabets, lengths ([MS-MQMQ] 2.1.1, 2.2.6, 2.2.11).

The grammar is ASCII; real queues have names in every script, so characters beyond ASCII are accepted in
queue and subqueue names, except those nobody can see: controls, separators, direction marks, halves of
surrogate pairs. Computer names stay ASCII.
"""

import re
from enum import Enum, IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from lior.errors import LiorError

MAX_COMPUTER_LENGTH: Final = 256
MAX_QUEUE_LENGTH: Final = 124  # UTF-16 code units, as the peers count
MAX_SUBQUEUE_LENGTH: Final = 32
PRIVATE: Final = "private$"
SYSTEM: Final = "system$"
FORMAT_PREFIXES: Final = ("DIRECT=", "PUBLIC=", "PRIVATE=", "MACHINE=", "CONNECTOR=", "DL=", "MULTICAST=")
REASONABLE_WHERE: Final = 200  # characters of the offending text that an error repeats


class QueueFormatType(IntEnum):
    """QUEUE_FORMAT_TYPE ([MS-MQMQ] 2.2.6)."""

    UNKNOWN = 0
    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    MACHINE = 4
    CONNECTOR = 5
    DL = 6
    MULTICAST = 7
    SUBQUEUE = 8


class QueueSuffix(IntEnum):
    """QUEUE_SUFFIX_TYPE ([MS-MQMQ] 2.2.11)."""

    NONE = 0
    JOURNAL = 1
    DEADLETTER = 2
    DEADXACT = 3
    XACTONLY = 4
    SUBQUEUE = 5


class PathKind(Enum):
    PUBLIC = "public"
    PRIVATE = "private"
    SYSTEM = "system"


# The suffixes that a name spells out; a subqueue is told by its own name.
SYSTEM_SUFFIXES: Final = {s.name: s for s in (QueueSuffix.JOURNAL, QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT)}

_INVISIBLE = r"\x80-\xa0\u1680\u2000-\u200a\u2028-\u202f\u205f\u2066-\u2069\u3000\ud800-\udfff\ufeff\ufffe\uffff"
_NOT_IN_QUEUE_1 = re.compile(rf"[\x00-\x20;\\{_INVISIBLE}]")
_NOT_IN_QUEUE = re.compile(rf'[\x00-\x20;\\"+,{_INVISIBLE}]')
_NOT_IN_COMPUTER = re.compile(r"[^!-\[\]-~]")  # VCHAR but the backslash, which ends the name
_NOT_IN_HOST = re.compile(r'[^!-~]|["*/:;<>?\\|,\[\]@#%+=]')
_HEX_NETWORK = re.compile(r"[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,12}")  # IPX: network ":" host
_SPX_ADDRESS = re.compile(r"[0-9A-Fa-f]{8}\.[0-9A-Fa-f]{12}")  # [MS-MQQB] 2.2.4: network "." node
_ZONE = re.compile(r"[0-9A-Za-z_.-]{1,32}")


class Tail(NamedTuple):
    """What follows the computer in a path name or a direct name."""

    is_private: bool
    is_system: bool
    queue: str
    subqueue: str
    suffix: QueueSuffix


def shortened(text: str) -> str:
    return text if len(text) <= REASONABLE_WHERE else text[:REASONABLE_WHERE] + "..."


def ascii_upper(text: str) -> str:
    """Upper case of A to Z only: keywords of the grammar are ASCII, and the long s is not an S."""
    return text.upper() if text.isascii() else "".join(c.upper() if c.isascii() else c for c in text)


def utf16_length(text: str) -> int:
    """In UTF-16 code units, which the protocols count; a lone surrogate is one."""
    return len(text) if text.isascii() else len(text) + sum(c > "\uffff" for c in text)


def refuse_excluded(text: str, excluded: re.Pattern[str], part: str, error: type[LiorError]) -> None:
    found = excluded.search(text)
    if found:
        raise error(f"the {part} contains the character U+{ord(found[0]):04X} at position {found.start()}",
                    where=shortened(text), remedy=f"take it out of the {part}")


def check_length(text: str, limit: int, part: str, error: type[LiorError]) -> None:
    length = utf16_length(text)
    if not 1 <= length <= limit:
        raise error(f"the {part} is {length} characters long", where=shortened(text),
                    remedy=f"give a {part} of 1 to {limit} characters")


def check_queue(queue: str, error: type[LiorError], *, version: int = 4) -> None:
    """MSMQ 1.0 allowed double quote, plus and comma; later versions do not."""
    check_length(queue, MAX_QUEUE_LENGTH, "queue name", error)
    refuse_excluded(queue, _NOT_IN_QUEUE_1 if version < 2 else _NOT_IN_QUEUE, "queue name", error)


def check_tail(tail: Tail, error: type[LiorError], *, version: int = 4) -> None:
    """Refuse every combination that could not be written down and read back as itself."""
    if tail.is_system:
        if tail.is_private or tail.queue or tail.subqueue or tail.suffix not in SYSTEM_SUFFIXES.values():
            raise error(f"{SYSTEM} has the queues JOURNAL, DEADLETTER and DEADXACT only",
                        where=shortened(tail.queue), remedy=rf"write for example .\{SYSTEM};DEADLETTER")
        return
    check_queue(tail.queue, error, version=version)
    if not tail.is_private and tail.queue.casefold() in (PRIVATE, SYSTEM):
        raise error(f"{tail.queue} is not a queue", where=tail.queue,
                    remedy=rf"write .\{PRIVATE}\name for a private queue, .\{SYSTEM};DEADLETTER for a system queue")
    if tail.suffix not in (QueueSuffix.NONE, QueueSuffix.JOURNAL):
        raise error(f"a queue has no {tail.suffix.name} queue", where=tail.queue, remedy="the only suffix is ;JOURNAL")
    if tail.subqueue:
        check_length(tail.subqueue, MAX_SUBQUEUE_LENGTH, "subqueue name", error)
        refuse_excluded(tail.subqueue, _NOT_IN_QUEUE, "subqueue name", error)
        if tail.suffix is not QueueSuffix.NONE or tail.subqueue.casefold() == "journal":
            raise error("a subqueue has no journal and cannot be called JOURNAL", where=tail.subqueue,
                        remedy="messages received from a subqueue go to the journal of its queue")


def split_tail(text: str, error: type[LiorError], *, separators: str = "\\", version: int = 4) -> Tail:
    """Take apart what follows `Computer\\`; the pieces are checked by `check_tail`."""
    head = ascii_upper(text[:9])
    if head.startswith("SYSTEM$;"):
        suffix = SYSTEM_SUFFIXES.get(ascii_upper(text[8:24]))
        if suffix is None:
            raise error(f"{SYSTEM} has no queue {shortened(text[8:])!r}", where=shortened(text),
                        remedy=f"write {SYSTEM};JOURNAL, {SYSTEM};DEADLETTER or {SYSTEM};DEADXACT")
        return Tail(False, True, "", "", suffix)
    is_private = len(head) == 9 and head.startswith("PRIVATE$") and head[8] in separators
    queue, semicolon, rest = text[9 if is_private else 0 :].partition(";")
    if not semicolon:
        return Tail(is_private, False, queue, "", QueueSuffix.NONE)
    if ascii_upper(rest[:8]) == "JOURNAL":
        return Tail(is_private, False, queue, "", QueueSuffix.JOURNAL)
    if version < 4 or not rest:
        raise error("nothing but JOURNAL can follow the semicolon" if rest else "nothing follows the semicolon",
                    where=shortened(text), remedy="take the semicolon out, or name a subqueue (MSMQ 4.0 and later)")
    return Tail(is_private, False, queue, rest, QueueSuffix.NONE)


def format_tail(tail: Tail, separator: str = "\\") -> str:
    if tail.is_system:
        return f"{SYSTEM};{tail.suffix.name}"
    head = f"{PRIVATE}{separator}{tail.queue}" if tail.is_private else tail.queue
    if tail.subqueue:
        return f"{head};{tail.subqueue}"
    return f"{head};{tail.suffix.name}" if tail.suffix is not QueueSuffix.NONE else head


def check_computer(computer: str, error: type[LiorError]) -> None:
    """[MS-MQMQ] 2.1.1: VCHARs; a backslash would end the name, a keyword would be taken for one."""
    check_length(computer, MAX_COMPUTER_LENGTH, "computer name", error)
    refuse_excluded(computer, _NOT_IN_COMPUTER, "computer name", error)
    if computer.casefold() in (PRIVATE, SYSTEM):
        raise error("the computer name is missing", where=computer, remedy=rf"write .\{computer}... for this computer")
    if computer.upper().startswith(FORMAT_PREFIXES):
        raise error("this is a format name, not a path name", where=shortened(computer),
                    remedy=rf"write Computer\{PRIVATE}\Queue, or give the name where a format name is expected")


def check_host(host: str, error: type[LiorError]) -> None:
    """A computer name as the operating system knows it, or an address."""
    check_length(host, MAX_COMPUTER_LENGTH, "host", error)
    if ":" in host and parse_address(host):
        return
    refuse_excluded(host, _NOT_IN_HOST, "host", error)
    if host.casefold() in (PRIVATE, SYSTEM):
        raise error("the computer name is missing", where=host,
                    remedy=rf"write DIRECT=OS:.\{host}\... for this computer")


def is_ipx_address(text: str) -> bool:
    return _HEX_NETWORK.fullmatch(text) is not None


def is_spx_address(text: str) -> bool:
    return _SPX_ADDRESS.fullmatch(text) is not None


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An IP address in any spelling, without brackets; None for anything else."""
    if len(text) > 80:
        return None
    address, percent, zone = text.partition("%")
    try:
        if ":" not in address:
            return None if percent else IPv4Address(address)
        return None if percent and not _ZONE.fullmatch(zone) else IPv6Address(text)
    except ValueError:
        return None


def folded_host(host: str) -> str:
    """The form in which hosts compare: without case, and one spelling for an IPv6 address."""
    address = parse_address(host) if ":" in host else None
    return str(address).casefold() if address else host.casefold()
