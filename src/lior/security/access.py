"""The access check ([MS-DTYP] 2.5.3.2) and the identities it looks at."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lior.security.descriptors import AceFlags, AceType, SecurityDescriptor
from lior.security.rights import QUEUE_MAPPING, AccessMask, GenericMapping
from lior.security.sids import (
    ADMINISTRATORS,
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    LOCAL_ACCOUNT,
    NOBODY,
    OWNER_RIGHTS,
    Sid,
    unix_group_sid,
    unix_user_sid,
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `authenticated` says that the identity was proven; `sids` is all that an ACE can match."""

    sid: Sid
    groups: frozenset[Sid] = frozenset()
    is_administrator: bool = False
    authenticated: bool = False
    sids: frozenset[Sid] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        implied = {self.sid, EVERYONE}
        # [MS-DTYP] 2.4.2.4: guests and the anonymous user are never members of this group
        if self.authenticated and self.sid != ANONYMOUS and not self.sid.is_guest:
            implied.add(AUTHENTICATED_USERS)
        if self.is_administrator:
            implied.add(ADMINISTRATORS)
        object.__setattr__(self, "sids", frozenset(self.groups | implied))

    def may_own(self, sid: Sid) -> bool:
        """Whether this caller may make `sid` the owner of an object: itself or a group of its own, and an
        administrator anyone. Nobody becomes an owner by proxy, and strangers never do."""
        if self.is_administrator:
            return True
        return sid in {self.sid, *self.groups} and sid not in (EVERYONE, ANONYMOUS, NOBODY)


ANONYMOUS_CALLER: Final = Caller(ANONYMOUS)


def local_caller(uid: int, gids: Iterable[int], is_administrator: bool = False) -> Caller:
    """A user of this machine, as the kernel names the peer of a Unix socket."""
    groups = frozenset(unix_group_sid(gid) for gid in gids) | {LOCAL_ACCOUNT}
    return Caller(unix_user_sid(uid), groups, is_administrator, authenticated=True)


_OWNER_IMPLIED: Final = int(AccessMask.READ_CONTROL | AccessMask.WRITE_DAC)
# An ACE cannot hand these out ([MS-DTYP] 2.4.3): changing the SACL takes a privilege, and "maximum allowed" is
# a way of asking that this check does not have
_BEYOND_ACES: Final = int(AccessMask.ACCESS_SYSTEM_SECURITY | AccessMask.MAXIMUM_ALLOWED)
_GENERIC_EXECUTE: Final = int(AccessMask.GENERIC_EXECUTE)
_INHERIT_ONLY: Final = int(AceFlags.INHERIT_ONLY)
_ALLOW: Final = int(AceType.ACCESS_ALLOWED)
# Conditions and object types are not evaluated here. 2.4.4.17.3 has an unknown condition deny and never allow
_DENIES: Final = frozenset(
    {
        AceType.ACCESS_DENIED,
        AceType.ACCESS_DENIED_OBJECT,
        AceType.ACCESS_DENIED_CALLBACK,
        AceType.ACCESS_DENIED_CALLBACK_OBJECT,
    }
)
_AUDITS: Final = frozenset(
    {
        AceType.SYSTEM_AUDIT,
        AceType.SYSTEM_AUDIT_OBJECT,
        AceType.SYSTEM_AUDIT_CALLBACK,
        AceType.SYSTEM_AUDIT_CALLBACK_OBJECT,
    }
)


def administrator_bypass(caller: Caller) -> bool:
    """The one place where a descriptor does not decide: an administrator may do everything.

    On Windows administrators may take ownership, and through it reach everything else in two steps; here a
    queue whose list locks everyone out can be repaired, emptied or deleted in one.
    """
    return caller.is_administrator


def access_check(
    descriptor: SecurityDescriptor, caller: Caller, wanted: int, mapping: GenericMapping = QUEUE_MAPPING
) -> int:
    """The bits of `wanted` that are denied: 0 grants.

    The first entry that names a bit decides it, and a bit that nothing grants is denied. The document refuses
    a request as a whole; so must the caller whenever the answer is not 0.
    """
    if administrator_bypass(caller):
        return 0
    wanted = int(wanted)
    denied = wanted & _BEYOND_ACES
    if wanted & _GENERIC_EXECUTE and not mapping.execute:
        denied |= _GENERIC_EXECUTE  # without a meaning it cannot be granted
    undecided = mapping.apply(wanted) & ~_BEYOND_ACES
    if descriptor.dacl is None:
        return denied
    sids = caller.sids
    if descriptor.owner is not None and descriptor.owner in sids:
        sids = sids | {OWNER_RIGHTS}
        if not _limits_owner(descriptor):
            undecided &= ~_OWNER_IMPLIED
    for ace in descriptor.dacl.aces:
        if not undecided:
            break
        if ace.flags & _INHERIT_ONLY or ace.sid not in sids:
            continue
        mask = mapping.apply(ace.mask)
        if ace.type == _ALLOW:
            undecided &= ~mask
        elif ace.type in _DENIES:
            denied |= undecided & mask
            undecided &= ~mask
    return denied | undecided


def _limits_owner(descriptor: SecurityDescriptor) -> bool:
    """An OWNER_RIGHTS entry replaces what an owner has by itself.

    2.5.3.2 says "ACEs from object owner", 2.4.2.4 describes it under OWNER_RIGHTS: the first taken literally
    would lock an owner out of a list that grants him anything.
    """
    aces = descriptor.dacl.aces if descriptor.dacl is not None else ()
    return any(ace.sid == OWNER_RIGHTS and not ace.flags & _INHERIT_ONLY for ace in aces)


def audit_wanted(
    descriptor: SecurityDescriptor,
    caller: Caller,
    mask: int,
    success: bool,
    mapping: GenericMapping = QUEUE_MAPPING,
) -> bool:
    """Whether the SACL asks for a record of this attempt. A condition is not evaluated: it audits."""
    if descriptor.sacl is None:
        return False
    outcome = int(AceFlags.SUCCESSFUL_ACCESS if success else AceFlags.FAILED_ACCESS)
    attempted = mapping.apply(int(mask))
    return any(
        ace.type in _AUDITS
        and ace.flags & outcome
        and not ace.flags & _INHERIT_ONLY
        and ace.sid in caller.sids
        and mapping.apply(ace.mask) & attempted
        for ace in descriptor.sacl.aces
    )
