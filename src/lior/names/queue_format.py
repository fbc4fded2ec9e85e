"""QUEUE_FORMAT: a single-element name as remote calls carry it ([MS-MQMQ] 2.2.7).

This is the structure in memory; its bytes are the business of the RPC marshalling.
"""

from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from lior.errors import IllegalFormatName
from lior.names.elements import (
    ConnectorName,
    DirectName,
    DistributionListName,
    MachineName,
    MulticastName,
    PrivateName,
    PublicName,
    SingleName,
)
from lior.names.grammar import SYSTEM_SUFFIXES, QueueFormatType, QueueSuffix
from lior.names.parsing import parse_direct_id

FLAG_NOT_SYSTEM: Final = 0x00
FLAG_SYSTEM: Final = 0x80

_ALL: Final = frozenset(QueueFormatType)
_T = QueueFormatType
# Suffix -> (flags that may stand with it, types that may carry it).
_RULES: Final[dict[int, tuple[tuple[int, ...], frozenset[QueueFormatType]]]] = {
    QueueSuffix.NONE: ((FLAG_NOT_SYSTEM,), _ALL - {_T.MACHINE}),
    QueueSuffix.JOURNAL: ((FLAG_SYSTEM,), _ALL - {_T.CONNECTOR, _T.DL, _T.MULTICAST}),
    QueueSuffix.DEADLETTER: ((FLAG_SYSTEM,), _ALL - {_T.PUBLIC, _T.PRIVATE, _T.CONNECTOR, _T.DL, _T.MULTICAST}),
    QueueSuffix.DEADXACT: ((FLAG_SYSTEM,), frozenset({_T.DIRECT, _T.MACHINE})),
    QueueSuffix.XACTONLY: ((FLAG_NOT_SYSTEM, FLAG_SYSTEM), frozenset({_T.CONNECTOR})),
    QueueSuffix.SUBQUEUE: ((FLAG_NOT_SYSTEM,), frozenset({_T.SUBQUEUE})),
}


@dataclass(frozen=True, slots=True)
class QueueFormat:
    """QUEUE_FORMAT; which of the value fields count depends on `format_type`."""

    format_type: QueueFormatType
    suffix: int = QueueSuffix.NONE  # a number above 5 makes it no name
    flags: int = FLAG_NOT_SYSTEM
    guid: UUID | None = None  # PUBLIC, PRIVATE (Lineage), MACHINE, CONNECTOR, DL
    number: int = 0  # PRIVATE (Uniquifier)
    direct_id: str = ""  # DIRECT, SUBQUEUE: the name without DIRECT=
    domain: str = ""  # DL; "" for a null pointer
    address: str = ""  # MULTICAST, dotted
    port: int = 0  # MULTICAST
    reserved: int = field(default=0, compare=False)  # sent as 0, never looked at

    @property
    def suffix_and_flags(self) -> int:
        """m_SuffixAndFlags: the suffix in the low four bits."""
        return self.suffix | self.flags


def split_suffix_and_flags(value: int) -> tuple[int, int]:
    """Take m_SuffixAndFlags apart: suffix and flags, whether or not they may stand together."""
    suffix = value & 0x0F
    return QueueSuffix(suffix) if suffix in _RULES else suffix, value & 0xF0


def is_valid_suffix(format_type: int, suffix: int, flags: int) -> bool:
    """Whether the three may stand together, by the table of [MS-MQMQ] 2.2.7."""
    rule = _RULES.get(suffix)
    return rule is not None and flags in rule[0] and format_type in rule[1]


def to_queue_format(name: SingleName) -> QueueFormat:
    """The QUEUE_FORMAT of a name; a machine name without suffix has none."""
    suffix = name.suffix
    if isinstance(name, DirectName) and name.subqueue:
        suffix = QueueSuffix.SUBQUEUE
    flags = FLAG_SYSTEM if suffix in SYSTEM_SUFFIXES.values() else FLAG_NOT_SYSTEM
    if not is_valid_suffix(name.format_type, suffix, flags):
        raise IllegalFormatName("a machine name needs a suffix", where=str(name),
                                remedy="add ;JOURNAL, ;DEADLETTER or ;DEADXACT")
    head = QueueFormat(name.format_type, suffix, flags)
    match name:
        case DirectName():
            return replace(head, direct_id=name.direct_id)
        case PrivateName():
            return replace(head, guid=name.guid, number=name.number)
        case DistributionListName():
            return replace(head, guid=name.guid, domain=name.domain)
        case MulticastName():
            return replace(head, address=name.address, port=name.port)
        case _:
            return replace(head, guid=name.guid)


def from_queue_format(f: QueueFormat) -> SingleName:
    """The name that a QUEUE_FORMAT stands for; IllegalFormatName if there is none."""
    if not is_valid_suffix(f.format_type, f.suffix, f.flags):
        raise IllegalFormatName(f"type {f.format_type}, suffix {f.suffix} and flags 0x{f.flags:02X} do not fit",
                                where="QUEUE_FORMAT", remedy="see [MS-MQMQ] 2.2.7 for what may stand together")
    suffix = QueueSuffix(f.suffix)
    if f.format_type in (_T.DIRECT, _T.SUBQUEUE):
        return _direct_name(f, suffix)
    if f.format_type is _T.MULTICAST:
        return MulticastName(f.address, f.port)
    if f.guid is None:
        raise IllegalFormatName(f"no name in a QUEUE_FORMAT of type {f.format_type}", where="QUEUE_FORMAT",
                                remedy="fill the member of the union that the type selects")
    if f.format_type is _T.PUBLIC:
        return PublicName(f.guid, suffix)
    if f.format_type is _T.PRIVATE:
        return PrivateName(f.guid, f.number, suffix)
    if f.format_type is _T.MACHINE:
        return MachineName(f.guid, suffix)
    if f.format_type is _T.CONNECTOR:
        return ConnectorName(f.guid, suffix is QueueSuffix.XACTONLY)
    if f.format_type is _T.DL:
        return DistributionListName(f.guid, f.domain)
    raise IllegalFormatName("the type of the name is unknown", where="QUEUE_FORMAT", remedy="give a type from 1 to 8")


def _direct_name(f: QueueFormat, suffix: QueueSuffix) -> DirectName:
    """The text names the queue. A suffix field that the text does not repeat is added to it; one that
    contradicts the text is refused."""
    name = parse_direct_id(f.direct_id)
    if f.format_type is _T.SUBQUEUE:
        if not name.subqueue or suffix not in (QueueSuffix.NONE, QueueSuffix.SUBQUEUE):
            raise IllegalFormatName("the name of a subqueue lacks the subqueue", where=f.direct_id[:200],
                                    remedy="write the name as Protocol:Computer\\Queue;Subqueue")
        return name
    if suffix in (QueueSuffix.NONE, name.suffix):
        return name
    if name.suffix is QueueSuffix.NONE and not name.subqueue:
        return replace(name, suffix=suffix)
    raise IllegalFormatName(f"the suffix {suffix.name} contradicts the name", where=f.direct_id[:200],
                            remedy="give the suffix that the name ends with")
