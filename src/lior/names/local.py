"""What names mean on this computer: is it me, which path, what needs a directory ([MS-MQDMPR] 3.1.7)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from ipaddress import IPv6Address
from typing import overload
from uuid import UUID

from lior.errors import IllegalFormatName, NoDirectory
from lior.names.elements import (
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    SingleName,
)
from lior.names.grammar import PathKind, QueueSuffix, parse_address
from lior.names.path import PathName, parse_path_name


@dataclass(frozen=True)
class LocalNames:
    """Every name under which this queue manager is known.

    Loopback addresses count only when listed: several queue managers may share a computer, one on
    127.0.0.1, one on 127.0.0.2. "localhost" and "." always count."""

    computer_name: str
    qualified_name: str
    addresses: frozenset[str]
    guid: UUID
    aliases: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def _names(self) -> frozenset[str]:
        names = {self.computer_name, self.qualified_name, *self.aliases, ".", "localhost"}
        return frozenset(_host_key(name) for name in (*names, *self.addresses) if name)

    def is_local(self, host: str) -> bool:
        """Whether a host designates this computer: without case, an address in any spelling."""
        return bool(host) and _host_key(host) in self._names

    def designates_me(self, name: SingleName) -> bool:
        """Whether the queue of this name lives here ([MS-MQDMPR] 3.1.7.1.5): a direct name with a local
        host, a private or machine name with our GUID. Public names would need a directory to tell."""
        if isinstance(name, DirectName):
            return name.protocol not in ("IPX", "SPX") and self.is_local(name.host)
        return isinstance(name, PrivateName | MachineName) and name.guid == self.guid

    def own_path(self, path: PathName) -> PathName:
        """A path on this computer with the computer name in its one spelling; others unchanged."""
        return path.with_computer(self.computer_name) if self.is_local(path.computer) else path

    def qualified_path(self, path: PathName) -> PathName:
        """PROPID_Q_PATHNAME_DNS ([MS-MQMQ] 2.3.1.22): the path of a queue here with the full DNS name."""
        return path.with_computer(self.qualified_name) if self.is_local(path.computer) else path

    @overload
    def expand_dot(self, name: PathName) -> PathName: ...
    @overload
    def expand_dot(self, name: SingleName) -> SingleName: ...
    @overload
    def expand_dot(self, name: MultipleName) -> MultipleName: ...
    def expand_dot(self, name: PathName | FormatName) -> PathName | FormatName:
        """Put the computer name in place of ".", which means nothing on another computer."""
        if isinstance(name, PathName):
            return name.with_computer(self.computer_name) if name.computer == "." else name
        if isinstance(name, MultipleName):
            return MultipleName(tuple(self.expand_dot(element) for element in name.elements))
        return name.with_host(self.computer_name) if isinstance(name, DirectName) and name.host == "." else name


@lru_cache(1024)
def _host_key(host: str) -> str:
    """One spelling for a host: no case, no brackets, no final dot, an IPv4-mapped address as IPv4."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    address = parse_address(bare)
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Address(int(address)))  # the zone says how to get there, not where
    if address is not None:
        return str(address)
    rooted = bare.endswith(".") and bare.strip(".0123456789") != ""  # a full name as DNS writes it
    return (bare[:-1] if rooted else bare).casefold()


def queue_path(name: SingleName, local: LocalNames, private_path_of: Callable[[int], str | None]) -> PathName:
    """Get Queue Path ([MS-MQDMPR] 3.1.7.1.26) without a directory; the machine is the path's computer.

    `private_path_of` gives the path of the local private queue with a number. Names that only a directory
    could resolve raise IllegalFormatName, as the document has it."""
    if isinstance(name, DirectName):
        return name.path
    if isinstance(name, PrivateName) and name.guid == local.guid:
        text = private_path_of(name.number)
        if text is not None:
            path = parse_path_name(text)
            return path.journal() if name.suffix is QueueSuffix.JOURNAL else path
    if isinstance(name, MachineName) and name.guid == local.guid and name.suffix is not QueueSuffix.NONE:
        return PathName(local.computer_name, PathKind.SYSTEM, suffix=name.suffix)
    raise IllegalFormatName("no queue path is known for this name", where=str(name),
                            remedy="use a direct format name, for example DIRECT=OS:host\\private$\\queue")


def check_without_directory(name: FormatName, local: LocalNames) -> None:
    """Raise NoDirectory for a name that cannot be used in workgroup mode ([MS-MQMQ] 2.1.4 to 2.1.7).

    A single private or machine name needs no directory when its GUID is ours; as elements of a
    multiple-element name only direct and multicast names can be used."""
    elements = name.elements if isinstance(name, MultipleName) else (name,)
    for element in elements:
        if isinstance(element, DirectName | MulticastName):
            continue
        if isinstance(name, MultipleName) or not local.designates_me(element):
            raise NoDirectory(f"a {element.format_type.name.lower()} format name needs a directory service",
                              where=str(element), remedy="use a direct format name: DIRECT=OS:host\\private$\\queue")


def expand(elements: Iterable[SingleName]) -> FormatName:
    """Expand Format Name ([MS-MQDMPR] 3.1.7.3.8): sorted without case, each name once, one left alone."""
    unique: dict[str, SingleName] = {}
    for element in elements:
        if isinstance(element, DistributionListName):
            raise NoDirectory("a distribution list needs a directory service", where=str(element),
                              remedy="name the queues of the list one by one")
        unique.setdefault(element.key, element)
    if not unique:
        raise IllegalFormatName("no format name was given", remedy="give at least one")
    ordered = tuple(unique[key] for key in sorted(unique))
    return ordered[0] if len(ordered) == 1 else MultipleName(ordered)
