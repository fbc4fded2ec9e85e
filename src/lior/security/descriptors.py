"""Security descriptors, their lists and entries, as values ([MS-DTYP] 2.4.4-2.4.7).

An object of these classes is well-formed or cannot be made: IllegalSecurityDescriptor says what is wrong.
"""

from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from typing import Final
from uuid import UUID

from lior.errors import IllegalSecurityDescriptor
from lior.security.sids import NOBODY, Sid

ACL_REVISION: Final = 2
ACL_REVISION_DS: Final = 4


class SecurityInformation(IntFlag):
    """Which parts of a descriptor a call reads or writes ([MS-MQMQ] 2.2.3)."""

    OWNER = 0x1
    GROUP = 0x2
    DACL = 0x4
    SACL = 0x8


class AceType(IntEnum):
    """[MS-DTYP] 2.4.4.1."""

    ACCESS_ALLOWED = 0x00
    ACCESS_DENIED = 0x01
    SYSTEM_AUDIT = 0x02
    SYSTEM_ALARM = 0x03
    ACCESS_ALLOWED_COMPOUND = 0x04
    ACCESS_ALLOWED_OBJECT = 0x05
    ACCESS_DENIED_OBJECT = 0x06
    SYSTEM_AUDIT_OBJECT = 0x07
    SYSTEM_ALARM_OBJECT = 0x08
    ACCESS_ALLOWED_CALLBACK = 0x09
    ACCESS_DENIED_CALLBACK = 0x0A
    ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0B
    ACCESS_DENIED_CALLBACK_OBJECT = 0x0C
    SYSTEM_AUDIT_CALLBACK = 0x0D
    SYSTEM_ALARM_CALLBACK = 0x0E
    SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0F
    SYSTEM_ALARM_CALLBACK_OBJECT = 0x10
    SYSTEM_MANDATORY_LABEL = 0x11
    SYSTEM_RESOURCE_ATTRIBUTE = 0x12
    SYSTEM_SCOPED_POLICY_ID = 0x13


OBJECT_TYPES: Final = frozenset({0x05, 0x06, 0x07, 0x08, 0x0B, 0x0C, 0x0F, 0x10})
CALLBACK_TYPES: Final = frozenset({0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10})
# Laid out as mask, [object type GUIDs,] SID. The compound ACE (0x04) is reserved and its layout is not published
LAID_OUT_TYPES: Final = frozenset(set(range(0x14)) - {0x04})
DACL_TYPES: Final = frozenset({0x00, 0x01, 0x04, 0x05, 0x06, 0x09, 0x0A, 0x0B, 0x0C})
SACL_TYPES: Final = frozenset(set(range(0x14)) - DACL_TYPES)
NT4_TYPES: Final = frozenset({0x00, 0x01, 0x02, 0x03})  # [MS-MQMQ] 2.3.1.25 note 27


class AceFlags(IntFlag):
    """[MS-DTYP] 2.4.4.1."""

    OBJECT_INHERIT = 0x01
    CONTAINER_INHERIT = 0x02
    NO_PROPAGATE_INHERIT = 0x04
    INHERIT_ONLY = 0x08
    INHERITED = 0x10
    SUCCESSFUL_ACCESS = 0x40
    FAILED_ACCESS = 0x80


class Control(IntFlag):
    """The control bits of a descriptor ([MS-DTYP] 2.4.6). SELF_RELATIVE belongs to the byte form only."""

    OWNER_DEFAULTED = 0x0001
    GROUP_DEFAULTED = 0x0002
    DACL_PRESENT = 0x0004
    DACL_DEFAULTED = 0x0008
    SACL_PRESENT = 0x0010
    SACL_DEFAULTED = 0x0020
    DACL_TRUSTED = 0x0040
    SERVER_SECURITY = 0x0080
    DACL_COMPUTED = 0x0100
    SACL_COMPUTED = 0x0200
    DACL_AUTO_INHERITED = 0x0400
    SACL_AUTO_INHERITED = 0x0800
    DACL_PROTECTED = 0x1000
    SACL_PROTECTED = 0x2000
    RM_CONTROL_VALID = 0x4000
    SELF_RELATIVE = 0x8000


# The control bits that travel with each part
_CONTROL_OF: Final = {
    SecurityInformation.OWNER: Control.OWNER_DEFAULTED,
    SecurityInformation.GROUP: Control.GROUP_DEFAULTED,
    SecurityInformation.DACL: Control.DACL_PRESENT
    | Control.DACL_DEFAULTED
    | Control.DACL_TRUSTED
    | Control.SERVER_SECURITY
    | Control.DACL_COMPUTED
    | Control.DACL_AUTO_INHERITED
    | Control.DACL_PROTECTED,
    SecurityInformation.SACL: Control.SACL_PRESENT
    | Control.SACL_DEFAULTED
    | Control.SACL_COMPUTED
    | Control.SACL_AUTO_INHERITED
    | Control.SACL_PROTECTED,
}


@dataclass(frozen=True, slots=True)
class Ace:
    """One entry of a list.

    `extra` is what follows the known fields: the condition of a callback ACE, or bytes that 2.4.4.1 says to
    ignore; for a type outside LAID_OUT_TYPES it is everything after the header, and `sid` is NOBODY.
    """

    type: int
    flags: int
    mask: int
    sid: Sid
    extra: bytes = b""
    object_type: UUID | None = None
    inherited_object_type: UUID | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.type <= 0xFF and 0 <= self.flags <= 0xFF and 0 <= self.mask <= 0xFFFFFFFF):
            raise IllegalSecurityDescriptor(
                f"type {self.type}, flags {self.flags} or mask {self.mask} does not fit its field", where="ACE"
            )
        if len(self.extra) % 4:
            raise IllegalSecurityDescriptor(f"{len(self.extra)} extra bytes are not a multiple of 4", where="ACE")
        if self.type not in LAID_OUT_TYPES and (self.mask or self.sid != NOBODY):
            raise IllegalSecurityDescriptor(f"type {self.type} has no known mask or SID", where="ACE")
        if self.type not in OBJECT_TYPES and (self.object_type or self.inherited_object_type):
            raise IllegalSecurityDescriptor(f"type {self.type} has no object types", where="ACE")


def allow(sid: Sid, mask: int, flags: int = 0) -> Ace:
    return Ace(int(AceType.ACCESS_ALLOWED), flags, int(mask), sid)


def deny(sid: Sid, mask: int, flags: int = 0) -> Ace:
    return Ace(int(AceType.ACCESS_DENIED), flags, int(mask), sid)


@dataclass(frozen=True, slots=True)
class Acl:
    """An access control list: its entries are evaluated in order."""

    revision: int = ACL_REVISION
    aces: tuple[Ace, ...] = ()

    def __post_init__(self) -> None:
        if self.revision not in (ACL_REVISION, ACL_REVISION_DS):
            raise IllegalSecurityDescriptor(f"ACL revision {self.revision}, only 2 and 4 are valid", where="ACL")

    @classmethod
    def of(cls, *aces: Ace) -> "Acl":
        """A list with the revision that its entries ask for ([MS-DTYP] 2.4.5)."""
        revision = ACL_REVISION_DS if any(ace.type in OBJECT_TYPES for ace in aces) else ACL_REVISION
        return cls(revision, aces)


@dataclass(frozen=True, slots=True)
class SecurityDescriptor:
    """Owner, group and the two lists of an object.

    `dacl` None lets everyone do everything. The bit DACL_PRESENT in `control` then tells a NULL list (set on
    purpose) from no list at all; a list that is given sets its own bit.
    """

    owner: Sid | None = None
    group: Sid | None = None
    dacl: Acl | None = None
    sacl: Acl | None = None
    control: int = 0
    resource_manager: int = 0  # Sbz1, meaningful with RM_CONTROL_VALID only

    def __post_init__(self) -> None:
        if not 0 <= self.control <= 0xFFFF or not 0 <= self.resource_manager <= 0xFF:
            raise IllegalSecurityDescriptor(
                f"control {self.control} or resource manager bits {self.resource_manager} do not fit",
                where="security descriptor",
            )
        _refuse_misplaced("DACL", self.dacl, SACL_TYPES)
        _refuse_misplaced("SACL", self.sacl, DACL_TYPES)
        control = int(self.control) & ~int(Control.SELF_RELATIVE)
        control |= int(Control.DACL_PRESENT) if self.dacl is not None else 0
        control |= int(Control.SACL_PRESENT) if self.sacl is not None else 0
        object.__setattr__(self, "control", control)
        if not control & Control.RM_CONTROL_VALID:
            object.__setattr__(self, "resource_manager", 0)

    @property
    def has_dacl(self) -> bool:
        """A DACL was given, be it the NULL one."""
        return bool(self.control & Control.DACL_PRESENT)

    def select(self, information: int) -> "SecurityDescriptor":
        """Only the parts named by SecurityInformation bits, with their control bits."""
        keep = int(Control.RM_CONTROL_VALID) | _control_of(information)
        return SecurityDescriptor(
            self.owner if information & SecurityInformation.OWNER else None,
            self.group if information & SecurityInformation.GROUP else None,
            self.dacl if information & SecurityInformation.DACL else None,
            self.sacl if information & SecurityInformation.SACL else None,
            self.control & keep,
            self.resource_manager,
        )

    def merge(self, other: "SecurityDescriptor", information: int) -> "SecurityDescriptor":
        """This descriptor with the named parts taken from `other`.

        Naming the owner or the DACL without giving one is refused: the object would lose its owner, or be
        open to everyone. A NULL DACL that is marked present is taken as said.
        """
        if information & SecurityInformation.OWNER and other.owner is None:
            raise IllegalSecurityDescriptor("the owner is to be set but none is given", where="security descriptor")
        if information & SecurityInformation.DACL and not other.has_dacl:
            raise IllegalSecurityDescriptor(
                "the DACL is to be set but none is given",
                where="security descriptor",
                remedy="to let everyone do everything, give a NULL DACL marked as present",
            )
        taken = _control_of(information)
        return replace(
            self,
            owner=other.owner if information & SecurityInformation.OWNER else self.owner,
            group=other.group if information & SecurityInformation.GROUP else self.group,
            dacl=other.dacl if information & SecurityInformation.DACL else self.dacl,
            sacl=other.sacl if information & SecurityInformation.SACL else self.sacl,
            control=self.control & ~taken | other.control & taken,
        )


def _control_of(information: int) -> int:
    return sum(int(control) for part, control in _CONTROL_OF.items() if information & part)


def _refuse_misplaced(name: str, acl: Acl | None, foreign: frozenset[int]) -> None:
    """[MS-DTYP] 2.4.5: entries of the other list must not be here; what they would do is unspecified."""
    for ace in acl.aces if acl is not None else ():
        if ace.type in foreign:
            raise IllegalSecurityDescriptor(f"an ACE of type {ace.type} does not belong in a {name}", where=name)
