"""Security descriptors of new objects ([MS-MQDMPR] 3.1.7.1.3.1)."""

from dataclasses import replace
from typing import Final, Literal

from lior.security.access import Caller
from lior.security.descriptors import Acl, SecurityDescriptor, SecurityInformation, allow
from lior.security.rights import QueueAccess, QueueManagerAccess
from lior.security.sids import ADMINISTRATORS, ANONYMOUS, EVERYONE, LOCAL_ACCOUNT, NOBODY, Sid

Profile = Literal["hardened", "literal"]

_READ_ABOUT: Final = QueueAccess.GET_QUEUE_PROPERTIES | QueueAccess.GET_PERMISSIONS
_SEND: Final = QueueAccess.WRITE_MESSAGE | QueueAccess.GET_QUEUE_PROPERTIES


def default_queue_descriptor(
    owner: Caller,
    profile: Profile,
    supplied: SecurityDescriptor | None = None,
    http_reachable: bool = False,
    machine: Sid | None = None,
) -> SecurityDescriptor:
    """What a new queue gets. A DACL and a SACL that the creator supplies are kept in both profiles.

    `hardened` lets anyone send and read the properties; the rest is the owner's and the administrators'.
    `literal` is the document's text, which in a workgroup gives everyone full control; `http_reachable` then
    adds sending for World and Anonymous, who may send in the hardened profile anyway. `machine` is the
    computer's account in a directory.
    """
    supplied = supplied if supplied is not None else SecurityDescriptor()
    if profile == "hardened":
        owner_sid = _hardened_owner(owner, supplied.owner)
        dacl = _hardened_dacl(owner_sid)
    else:
        owner_sid = _literal_owner(owner, supplied.owner)
        dacl = _literal_dacl(owner_sid, machine, http_reachable)
    kept = supplied.select(SecurityInformation.GROUP | SecurityInformation.DACL | SecurityInformation.SACL)
    return replace(kept, owner=owner_sid, dacl=kept.dacl if kept.has_dacl else dacl)


def _hardened_owner(creator: Caller, supplied: Sid | None) -> Sid:
    """The supplied owner if the creator may name it, else the creator; MQ_INFORMATION_OWNER_IGNORED is the
    code for the difference. What a stranger creates belongs to the administrators: an owner can change the list.
    """
    if supplied is not None and creator.may_own(supplied):
        return supplied
    return creator.sid if creator.sid not in (EVERYONE, ANONYMOUS, NOBODY) else ADMINISTRATORS


def _hardened_dacl(owner: Sid) -> Acl:
    aces = [allow(EVERYONE, _SEND), allow(ANONYMOUS, _SEND), allow(ADMINISTRATORS, QueueAccess.GENERIC_ALL)]
    if owner != ADMINISTRATORS:
        aces.append(allow(owner, QueueAccess.GENERIC_ALL))
    return Acl.of(*aces)


def _literal_owner(creator: Caller, supplied: Sid | None) -> Sid:
    owner = supplied if supplied is not None else creator.sid
    return owner if owner.is_domain_account else ANONYMOUS


def _literal_dacl(owner: Sid, machine: Sid | None, http_reachable: bool) -> Acl:
    world, owners = _READ_ABOUT, QueueAccess.GENERIC_ALL
    if owner.is_guest or not owner.is_domain_account:
        world, owners = QueueAccess.GENERIC_ALL, QueueAccess(0)
    write = QueueAccess.WRITE_MESSAGE if http_reachable else QueueAccess(0)
    aces = [allow(EVERYONE, world | write)]
    if write:
        aces.append(allow(ANONYMOUS, write))
    if machine is not None:
        aces.append(allow(machine, _READ_ABOUT))
    if owners:
        aces.append(allow(owner, owners))
    return Acl.of(*aces)


def default_queue_manager_descriptor(owner: Caller) -> SecurityDescriptor:
    """What a new queue manager gets; its rights are MQQMACCESSMASK.

    Anyone may read its properties and permissions, users of this machine may create queues, and the rest
    (the dead letters and the journal among it) is its owner's and the administrators'.
    """
    owner_sid = _hardened_owner(owner, None)
    aces = [
        allow(EVERYONE, QueueManagerAccess.WORLD_RIGHTS),
        allow(LOCAL_ACCOUNT, QueueManagerAccess.CREATE_QUEUE),
        allow(ADMINISTRATORS, QueueManagerAccess.GENERIC_ALL),
    ]
    if owner_sid != ADMINISTRATORS:
        aces.append(allow(owner_sid, QueueManagerAccess.GENERIC_ALL))
    return SecurityDescriptor(owner=owner_sid, dacl=Acl.of(*aces))
