"""Security identifiers: the names of users and groups ([MS-DTYP] 2.4.2)."""

import re
from dataclasses import dataclass
from typing import Final

from lior.errors import IllegalSecurityDescriptor

MAX_SUB_AUTHORITIES: Final = 15

# Fifteen sub-authorities of ten digits: anything longer cannot be a SID, and is not worth a regex
_LONGEST_TEXT: Final = len("S-1-0x001122334455") + MAX_SUB_AUTHORITIES * 11
_TEXT: Final = re.compile(r"S-1-(0X[0-9A-F]{12}|0|[1-9][0-9]{0,9})((?:-(?:0|[1-9][0-9]{0,9})){0,15})")


@dataclass(frozen=True, slots=True)
class Sid:
    """A SID of revision 1: an authority of 48 bits and up to 15 sub-authorities of 32 bits."""

    authority: int
    sub_authorities: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.authority < 1 << 48:
            raise IllegalSecurityDescriptor(f"SID authority {self.authority} is not a 48-bit number", where="SID")
        if len(self.sub_authorities) > MAX_SUB_AUTHORITIES:
            raise IllegalSecurityDescriptor(
                f"{len(self.sub_authorities)} sub-authorities, at most {MAX_SUB_AUTHORITIES} are allowed", where="SID"
            )
        for value in self.sub_authorities:
            if not 0 <= value <= 0xFFFFFFFF:
                raise IllegalSecurityDescriptor(f"sub-authority {value} is not a 32-bit number", where="SID")

    def __str__(self) -> str:
        # [MS-DTYP] 2.4.2.1: an authority of 2^32 and above is printed in hexadecimal
        authority = str(self.authority) if self.authority < 1 << 32 else f"0x{self.authority:012X}"
        return "-".join(("S-1", authority, *map(str, self.sub_authorities)))

    @classmethod
    def parse(cls, text: str) -> "Sid":
        """Read the string form. "S-1-5", without sub-authorities, is accepted: 2.4.2.4 lists such SIDs."""
        match = _TEXT.fullmatch(text.upper()) if len(text) <= _LONGEST_TEXT and text.isascii() else None
        if match is None:
            raise IllegalSecurityDescriptor(
                f"{text[:60]!r} is not a SID", where="SID", remedy="write it like S-1-5-32-544"
            )
        authority, rest = match.groups()
        value = int(authority, 16) if authority.startswith("0X") else int(authority)
        if value >= 1 << 32 and not authority.startswith("0X"):
            raise IllegalSecurityDescriptor(
                f"SID authority {value} is over 32 bits", where="SID", remedy=f"write it as 0x{value:012X}"
            )
        return cls(value, tuple(int(part) for part in rest.split("-")[1:]))

    @property
    def is_domain_account(self) -> bool:
        """Issued by a Windows domain or account store: S-1-5-21-x-y-z-rid."""
        return self.authority == 5 and len(self.sub_authorities) == 5 and self.sub_authorities[0] == 21

    @property
    def is_guest(self) -> bool:
        """DOMAIN_USER_RID_GUEST of any account store."""
        return self.is_domain_account and self.sub_authorities[-1] == 501


def unix_user_sid(uid: int) -> Sid:
    """The SID of a local user, S-1-22-1-uid, as Samba maps it."""
    return Sid(22, (1, uid))


def unix_group_sid(gid: int) -> Sid:
    """The SID of a local group, S-1-22-2-gid, as Samba maps it."""
    return Sid(22, (2, gid))


# [MS-DTYP] 2.4.2.4
NOBODY: Final = Sid(0, (0,))  # NULL: "used when the SID is unknown"
EVERYONE: Final = Sid(1, (0,))
CREATOR_OWNER: Final = Sid(3, (0,))
CREATOR_GROUP: Final = Sid(3, (1,))
OWNER_RIGHTS: Final = Sid(3, (4,))
NETWORK: Final = Sid(5, (2,))
INTERACTIVE: Final = Sid(5, (4,))
ANONYMOUS: Final = Sid(5, (7,))
AUTHENTICATED_USERS: Final = Sid(5, (11,))
LOCAL_SYSTEM: Final = Sid(5, (18,))
LOCAL_SERVICE: Final = Sid(5, (19,))
NETWORK_SERVICE: Final = Sid(5, (20,))
ADMINISTRATORS: Final = Sid(5, (32, 544))
USERS: Final = Sid(5, (32, 545))
GUESTS: Final = Sid(5, (32, 546))
LOCAL_ACCOUNT: Final = Sid(5, (113,))
