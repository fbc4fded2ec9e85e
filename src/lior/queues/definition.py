"""What defines a queue ([MS-MQDMPR] 3.1.1.2) and the queue manager ([MS-MQDMPR] 3.1.1.1)."""

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from ipaddress import AddressValueError, IPv4Address
from types import NoneType
from typing import Any, Final
from uuid import UUID

from lior.errors import IllegalPropertyValue, LabelTooLong
from lior.message import INFINITE, NULL_GUID
from lior.names.grammar import utf16_length
from lior.security import Ace, Acl, SecurityDescriptor, Sid

MAX_QUEUE_LABEL: Final = 124  # [MS-MQMQ] 2.3.1.8
QUEUE_MANAGER_QUOTA: Final = 0x00100000  # KB; [MS-MQDMPR] 3.1.1.1 prints bytes, its property KB


class QueueType(StrEnum):
    PRIVATE = "private"
    PUBLIC = "public"
    SYSTEM = "system"
    CONNECTOR = "connector"
    JOURNAL = "journal"  # ours: the store keeps a journal as a queue of its own
    SUBQUEUE = "subqueue"
    OUTGOING = "outgoing"


class QueuePrivacy(IntEnum):
    NONE = 0  # takes clear bodies only
    OPTIONAL = 1
    BODY = 2  # takes encrypted bodies only


_OPTIONAL: Final = QueuePrivacy.OPTIONAL.value


class QueueScope(IntEnum):
    SITE = 0
    ENTERPRISE = 1


@dataclass(slots=True, frozen=True)
class QueueProperties:
    """The attributes an owner sets; the defaults are those of [MS-MQDMPR] 3.1.7.1.33."""

    label: str = ""
    type: UUID = NULL_GUID
    journaling: bool = False
    quota: int = INFINITE  # KB
    journal_quota: int = INFINITE  # KB
    authentication: bool = False
    privacy_level: int = QueuePrivacy.OPTIONAL.value
    transactional: bool = False
    multicast_address: str = ""
    base_priority: int = 0
    security: SecurityDescriptor | None = None  # None: the default descriptor
    max_aborts: int | None = None  # ours: to ;poison after so many aborts, None for never
    description: dict[str, str] = field(default_factory=dict)  # ours: notes of the operator

    @property
    def takes_plain(self) -> bool:
        """Takes what nearly every message is: outside a transaction, not signed, not encrypted."""
        return not self.transactional and self.takes_unsigned

    @property
    def takes_unsigned(self) -> bool:
        """Takes what is neither signed nor encrypted."""
        return not self.authentication and self.privacy_level == _OPTIONAL

    def checked(self) -> "QueueProperties":
        """The same, or the documented error."""
        self._check_types()
        length = utf16_length(self.label)
        if length > MAX_QUEUE_LABEL:
            raise LabelTooLong(
                f"the label has {length} characters",
                where="queue label",
                remedy=f"use at most {MAX_QUEUE_LABEL}",
            )
        for name in ("quota", "journal_quota"):
            _within(name, getattr(self, name), 0, INFINITE)
        _within("privacy_level", self.privacy_level, 0, 2)
        _within("base_priority", self.base_priority, -32768, 32767)
        if self.max_aborts is not None:
            _within("max_aborts", self.max_aborts, 0, INFINITE)
        if self.multicast_address:
            check_multicast_address(self.multicast_address)
            if self.transactional:
                raise IllegalPropertyValue(
                    "a transactional queue cannot listen to a multicast address",
                    where="multicast_address",
                    remedy="create the queue without transactional",
                )
        return self

    def _check_types(self) -> None:
        """Values come from the wire and from JSON: a wrong one is the caller's error, not ours."""
        for name, types in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                raise IllegalPropertyValue(f"{value!r} is no value for it", where=name)

    def changed(self, **changes: Any) -> "QueueProperties":
        return replace(self, **changes).checked()

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "type": str(self.type),
            "journaling": self.journaling,
            "quota": self.quota,
            "journal_quota": self.journal_quota,
            "authentication": self.authentication,
            "privacy_level": self.privacy_level,
            "transactional": self.transactional,
            "multicast_address": self.multicast_address,
            "base_priority": self.base_priority,
            "security": None if self.security is None else descriptor_to_json(self.security),
            "max_aborts": self.max_aborts,
            "description": self.description,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "QueueProperties":
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        values["type"] = UUID(values["type"])
        if values.get("security") is not None:
            values["security"] = descriptor_from_json(values["security"])
        return cls(**values)


_NUMBERS = ("quota", "journal_quota", "privacy_level", "base_priority")
_FLAGS = ("journaling", "authentication", "transactional")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "label": (str,),
    "type": (UUID,),
    "multicast_address": (str,),
    "security": (SecurityDescriptor, NoneType),
    "max_aborts": (int, NoneType),
    "description": (dict,),
    **dict.fromkeys(_NUMBERS, (int,)),
    **dict.fromkeys(_FLAGS, (bool,)),
}


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise IllegalPropertyValue(f"{value} is out of range", where=name, remedy=f"use a value from {low} to {high}")


def check_multicast_address(text: str) -> None:
    """address:port with a class D address ([MS-MQMQ] 2.3.1.23)."""
    address, _, port = text.partition(":")
    try:
        good = IPv4Address(address).is_multicast and port.isascii() and port.isdecimal() and int(port) <= 65535
    except (AddressValueError, ValueError):
        good = False
    if not good:
        raise IllegalPropertyValue(
            f"{text!r} is not a multicast address and port",
            where="multicast_address",
            remedy="write it as 224.0.1.7:8001 (224.0.0.0 to 239.255.255.255)",
        )


def descriptor_to_json(descriptor: SecurityDescriptor) -> dict[str, Any]:
    def acl(value: Acl | None) -> Any:
        if value is None:
            return None
        aces = [[ace.type, ace.flags, ace.mask, str(ace.sid), ace.extra.hex()] for ace in value.aces]
        return {"revision": value.revision, "aces": aces}

    return {
        "owner": None if descriptor.owner is None else str(descriptor.owner),
        "group": None if descriptor.group is None else str(descriptor.group),
        "dacl": acl(descriptor.dacl),
        "sacl": acl(descriptor.sacl),
        "control": int(descriptor.control),
    }


def descriptor_from_json(data: dict[str, Any]) -> SecurityDescriptor:
    def acl(value: Any) -> Acl | None:
        if value is None:
            return None
        aces = tuple(
            Ace(type=kind, flags=flags, mask=mask, sid=Sid.parse(sid), extra=bytes.fromhex(extra))
            for kind, flags, mask, sid, extra in value["aces"]
        )
        return Acl(revision=value["revision"], aces=aces)

    return SecurityDescriptor(
        owner=None if data["owner"] is None else Sid.parse(data["owner"]),
        group=None if data["group"] is None else Sid.parse(data["group"]),
        dacl=acl(data["dacl"]),
        sacl=acl(data["sacl"]),
        control=data["control"],
    )


@dataclass(slots=True)
class QueueManagerProperties:
    """The queue manager's own attributes; identifier, names and modes survive a restart."""

    identifier: UUID
    computer_name: str
    qualified_computer_name: str = ""
    queue_manager_version: str = ""
    operating_system_version: str = ""
    operating_system_type: int = 0x100  # Foreign: not Windows ([MS-MQMQ] 2.3.2.19)
    create_time: int = 0
    modify_time: int = 0
    queue_manager_quota: int = QUEUE_MANAGER_QUOTA  # KB
    journal_quota: int = INFINITE  # KB, every journal and dead-letter queue together
    foreign_system: bool = False
    remote_access_server: bool = False
    supporting_server: bool = False
    routing_server: bool = False
    directory_server: bool = False
    clustered: bool = False
    directory_integrated: bool = False
    directory_offline: bool = False
    hardened_security: bool = False
    srmp_http_support: bool = True
    srmp_pgm_support: bool = True
    connection_active: bool = True
    public_encryption_key_list: bytes = b"\x08\0\0\0\0\0\0\0"  # MQDSPUBLICKEYS without a key
    public_signing_key_list: bytes = b"\x08\0\0\0\0\0\0\0"
    security: SecurityDescriptor | None = None
    default_time_to_reach_queue: int = 0x54600  # seconds
    send_insecure_nacks: bool = False
    literal_default_rights: bool = False  # DM-086's text instead of the hardened default

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["identifier"] = str(self.identifier)
        data["public_encryption_key_list"] = self.public_encryption_key_list.hex()
        data["public_signing_key_list"] = self.public_signing_key_list.hex()
        data["security"] = None if self.security is None else descriptor_to_json(self.security)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "QueueManagerProperties":
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        values["identifier"] = UUID(values["identifier"])
        for name in ("public_encryption_key_list", "public_signing_key_list"):
            if name in values:
                values[name] = bytes.fromhex(values[name])
        if values.get("security") is not None:
            values["security"] = descriptor_from_json(values["security"])
        return cls(**values)
