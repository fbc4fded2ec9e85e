"""Format names: one immutable value for each kind ([MS-MQMQ] 2.1.2 to 2.1.7).

A value that exists is valid: the constructors check, so str() always gives a name that parses to an equal
value. Names compare without case, an IPv6 address in any spelling, a default port written or not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import ClassVar, Final
from uuid import UUID

from lior.errors import IllegalFormatName
from lior.names.grammar import (
    SYSTEM_SUFFIXES,
    PathKind,
    QueueFormatType,
    QueueSuffix,
    Tail,
    check_host,
    check_length,
    check_tail,
    folded_host,
    format_tail,
    is_ipx_address,
    is_spx_address,
    parse_address,
    shortened,
)
from lior.names.path import PathName

PROTOCOLS: Final = ("TCP", "OS", "HTTP", "HTTPS", "IPX", "SPX")
DEFAULT_PORTS: Final = {"HTTP": 80, "HTTPS": 443}
MAX_DOMAIN_LENGTH: Final = 255
MAX_ELEMENTS: Final = 128
ORDER_QUEUE: Final = "order_queue$"


class _Name:
    """What every format name has in common."""

    __slots__ = ()
    format_type: ClassVar[QueueFormatType]

    @property
    def key(self) -> str:
        """The name as it compares; usable as a dict key."""
        return str(self).casefold()

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, _Name) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


def _suffix_text(suffix: QueueSuffix) -> str:
    return f";{suffix.name}" if suffix is not QueueSuffix.NONE else ""


def _check_suffix(suffix: QueueSuffix, allowed: Iterable[QueueSuffix], kind: str) -> None:
    if suffix is not QueueSuffix.NONE and suffix not in allowed:
        raise IllegalFormatName(f"a {kind} name has no suffix {suffix.name}",
                                remedy="allowed: " + ", ".join(s.name for s in allowed))


@dataclass(frozen=True, slots=True, eq=False)
class DirectName(_Name):
    """DIRECT=Protocol:Address\\... ([MS-MQMQ] 2.1.2). `host` has no brackets around an IPv6 address."""

    protocol: str
    host: str
    port: int | None = None  # HTTP and HTTPS only
    is_private: bool = False
    queue: str = ""
    subqueue: str = ""
    suffix: QueueSuffix = QueueSuffix.NONE
    is_system: bool = False

    def __post_init__(self) -> None:
        check_tail(self._tail, IllegalFormatName)
        _check_address(self)
        if self.port is not None and not (self.is_http and 1 <= self.port <= 65535):
            raise IllegalFormatName(f"port {self.port} cannot stand here", where=self.host,
                                    remedy="HTTP and HTTPS names may have a port from 1 to 65535, others none")
        if self.is_http and not self.is_private and self.queue.casefold().startswith("private$/"):
            raise IllegalFormatName("an HTTP name cannot tell this public queue from a private one",
                                    where=self.queue, remedy="set is_private and leave private$/ out of the queue name")

    @property
    def _tail(self) -> Tail:
        return Tail(self.is_private, self.is_system, self.queue, self.subqueue, self.suffix)

    @property
    def format_type(self) -> QueueFormatType:  # type: ignore[override]  # a subqueue is a type of its own
        return QueueFormatType.SUBQUEUE if self.subqueue else QueueFormatType.DIRECT

    @property
    def is_http(self) -> bool:
        return self.protocol in DEFAULT_PORTS

    @property
    def effective_port(self) -> int | None:
        """The port of an HTTP or HTTPS name, its default filled in; None for the other protocols."""
        return self.port or DEFAULT_PORTS.get(self.protocol)

    @property
    def direct_id(self) -> str:
        """The name without DIRECT=, as packets and QUEUE_FORMAT carry it."""
        if not self.is_http:
            return f"{self.protocol}:{self.host}\\{format_tail(self._tail)}"
        return f"{self.protocol}:{self._location(self.host, self.port)}"

    def _location(self, host: str, port: int | None) -> str:
        bracketed = f"[{host}]" if ":" in host else host
        return f"//{bracketed}{f':{port}' if port is not None else ''}/msmq/{format_tail(self._tail, '/')}"

    @property
    def url(self) -> str:
        """The URL of an HTTP or HTTPS name, nothing in it percent-encoded; empty for the other protocols."""
        return f"{self.protocol.lower()}:{self._location(self.host, self.port)}" if self.is_http else ""

    def __str__(self) -> str:
        return f"DIRECT={self.direct_id}"

    @property
    def key(self) -> str:
        host = folded_host(self.host)
        if self.is_http:
            return f"direct={self.protocol}:{self._location(host, self.effective_port)}".casefold()
        return f"direct={self.protocol}:{host}\\{format_tail(self._tail)}".casefold()

    @property
    def path(self) -> PathName:
        """The path name of the queue, its computer spelled as in this name."""
        kind = PathKind.SYSTEM if self.is_system else PathKind.PRIVATE if self.is_private else PathKind.PUBLIC
        return PathName(self.host, kind, self.queue, self.subqueue, self.suffix)

    @classmethod
    def from_path(cls, path: PathName, protocol: str = "OS") -> "DirectName":
        """DIRECT=OS:path, the format name of a queue in workgroup mode ([MC-MQAC] 3.1.6.2)."""
        return cls(protocol, path.computer, None, path.kind is PathKind.PRIVATE, path.queue, path.subqueue,
                   path.suffix, path.kind is PathKind.SYSTEM)

    def with_host(self, host: str) -> "DirectName":
        return replace(self, host=host)


def _check_address(name: DirectName) -> None:
    protocol, host = name.protocol, name.host
    if protocol == "TCP":
        if parse_address(host) is None:
            raise IllegalFormatName("TCP needs an IP address", where=shortened(host),
                                    remedy=f"write DIRECT=OS:{shortened(host)}\\... for a computer name")
    elif protocol in ("OS", "HTTP", "HTTPS"):
        check_host(host, IllegalFormatName)
        if name.is_http and "%" in host:
            raise IllegalFormatName("an HTTP name cannot carry the zone of an address", where=host,
                                    remedy="use a computer name, or DIRECT=TCP")
    elif protocol == "IPX":
        if not is_ipx_address(host):
            raise IllegalFormatName("IPX needs a network number and a host number", where=shortened(host),
                                    remedy="IPX is not spoken any more: use DIRECT=OS or DIRECT=TCP")
    elif protocol != "SPX":
        raise IllegalFormatName(f"unknown protocol {shortened(protocol)!r}", where=shortened(protocol),
                                remedy="use TCP, OS, HTTP or HTTPS")
    elif not (is_spx_address(host) and name.is_private and name.queue.casefold() == ORDER_QUEUE
              and not name.subqueue and name.suffix is QueueSuffix.NONE):
        # [MS-MQQB] 2.2.4 builds these; nothing else has the protocol SPX.
        raise IllegalFormatName("SPX names the order queue only", where=shortened(host),
                                remedy="SPX is not spoken any more: use DIRECT=OS or DIRECT=TCP")


@dataclass(frozen=True, slots=True, eq=False)
class PublicName(_Name):
    """PUBLIC=guid ([MS-MQMQ] 2.1.3); ;JOURNAL comes from 2.2.7, which allows it for this type."""

    format_type = QueueFormatType.PUBLIC
    guid: UUID
    suffix: QueueSuffix = QueueSuffix.NONE

    def __post_init__(self) -> None:
        _check_suffix(self.suffix, (QueueSuffix.JOURNAL,), "public")

    def __str__(self) -> str:
        return f"PUBLIC={str(self.guid).upper()}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True, eq=False)
class PrivateName(_Name):
    """PRIVATE=guid\\number ([MS-MQMQ] 2.1.4); the number is printed with eight hexadecimal digits."""

    format_type = QueueFormatType.PRIVATE
    guid: UUID
    number: int
    suffix: QueueSuffix = QueueSuffix.NONE

    def __post_init__(self) -> None:
        _check_suffix(self.suffix, (QueueSuffix.JOURNAL,), "private")
        if not 0 <= self.number <= 0xFFFFFFFF:
            raise IllegalFormatName(f"private queue number {self.number}", remedy="the number has 32 bits")

    def __str__(self) -> str:
        return f"PRIVATE={str(self.guid).upper()}\\{self.number:08X}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True, eq=False)
class MachineName(_Name):
    """MACHINE=guid;suffix: the journal and dead-letter queues of a computer ([MS-MQMQ] 2.1.6)."""

    format_type = QueueFormatType.MACHINE
    guid: UUID
    suffix: QueueSuffix = QueueSuffix.NONE

    def __post_init__(self) -> None:
        _check_suffix(self.suffix, tuple(SYSTEM_SUFFIXES.values()), "machine")

    def __str__(self) -> str:
        return f"MACHINE={str(self.guid).upper()}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True, eq=False)
class ConnectorName(_Name):
    """CONNECTOR=guid, its transactional twin with ;XACTONLY ([MS-MQMQ] 2.1.6)."""

    format_type = QueueFormatType.CONNECTOR
    guid: UUID
    transactional: bool = False

    @property
    def suffix(self) -> QueueSuffix:
        return QueueSuffix.XACTONLY if self.transactional else QueueSuffix.NONE

    def __str__(self) -> str:
        return f"CONNECTOR={str(self.guid).upper()}{_suffix_text(self.suffix)}"


@dataclass(frozen=True, slots=True, eq=False)
class DistributionListName(_Name):
    """DL=guid, optionally @domain ([MS-MQMQ] 2.1.5)."""

    format_type = QueueFormatType.DL
    suffix = QueueSuffix.NONE
    guid: UUID
    domain: str = ""

    def __post_init__(self) -> None:
        if not self.domain:
            return
        check_length(self.domain, MAX_DOMAIN_LENGTH, "domain", IllegalFormatName)
        # A comma would end the element ([MS-MQMQ] 2.1.7), though VCHAR includes it.
        if any(not "!" <= c <= "~" or c == "," for c in self.domain):
            raise IllegalFormatName("the domain may have visible ASCII characters but the comma only",
                                    where=shortened(self.domain), remedy="correct the domain after the @")

    def __str__(self) -> str:
        return f"DL={str(self.guid).upper()}{f'@{self.domain}' if self.domain else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class MulticastName(_Name):
    """MULTICAST=address:port ([MS-MQMQ] 2.1.6)."""

    format_type = QueueFormatType.MULTICAST
    suffix = QueueSuffix.NONE
    address: str
    port: int

    def __post_init__(self) -> None:
        address = parse_address(self.address)
        if not isinstance(address, IPv4Address) or not address.is_multicast:
            raise IllegalFormatName("not an IPv4 multicast address", where=shortened(self.address),
                                    remedy="give an address from 224.0.0.0 to 239.255.255.255")
        if not 0 <= self.port <= 65535:
            raise IllegalFormatName(f"port {self.port}", where=self.address, remedy="give a port from 0 to 65535")

    def __str__(self) -> str:
        return f"MULTICAST={self.address}:{self.port}"


SingleName = (
    DirectName | PublicName | PrivateName | MachineName | ConnectorName | DistributionListName | MulticastName
)


@dataclass(frozen=True, slots=True, eq=False)
class MultipleName(_Name):
    """Two or more names separated by commas ([MS-MQMQ] 2.1.7); it has no QUEUE_FORMAT of its own."""

    format_type = QueueFormatType.UNKNOWN
    suffix = QueueSuffix.NONE
    elements: tuple[SingleName, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.elements) <= MAX_ELEMENTS:
            raise IllegalFormatName(f"a multiple-element name with {len(self.elements)} elements",
                                    remedy=f"give 2 to {MAX_ELEMENTS} names")
        for element in self.elements:
            if isinstance(element, MachineName) or is_read_only(element):
                raise IllegalFormatName("a journal or dead-letter queue cannot be sent to", where=str(element),
                                        remedy="take it out of the list of destinations")

    def __str__(self) -> str:
        return ",".join(map(str, self.elements))

    @property
    def key(self) -> str:
        return ",".join(element.key for element in self.elements)


FormatName = SingleName | MultipleName


def is_read_only(name: FormatName) -> bool:
    """A queue journal, computer journal or dead-letter queue: only a queue manager writes to it."""
    return name.suffix in SYSTEM_SUFFIXES.values()
