"""Users, groups and guarded objects of the tests of security."""

from lior.security import (
    Ace,
    Acl,
    Caller,
    SecurityDescriptor,
    Sid,
    local_caller,
    unix_user_sid,
)

ANNA = unix_user_sid(1000)
BEN = unix_user_sid(1001)
DOMAIN_USER = Sid.parse("S-1-5-21-1-2-3-1105")
DOMAIN_GUEST = Sid.parse("S-1-5-21-1-2-3-501")
anna = local_caller(1000, [1000])
ben = local_caller(1001, [1001])
root = local_caller(0, [0], is_administrator=True)
domain_user = Caller(DOMAIN_USER, authenticated=True)


def guarded(*aces: Ace, owner: Sid | None = None) -> SecurityDescriptor:
    return SecurityDescriptor(owner=owner, dacl=Acl.of(*aces))
