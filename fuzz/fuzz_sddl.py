"""SIDs and security descriptors from any text; what is read is written and read again."""

from lior.errors import IllegalSecurityDescriptor, LiorError
from lior.security import Sid
from lior.wire.sddl import format_sddl, parse_sddl

DOMAIN = Sid(5, (21, 1, 2, 3))


def target(data: bytes) -> None:
    text = data.decode("utf-8", errors="replace")
    try:
        sid = Sid.parse(text)
    except LiorError as error:
        _expect(error)
    else:
        _same(Sid.parse(str(sid)), sid)
    try:
        descriptor = parse_sddl(text, domain=DOMAIN, root_domain=DOMAIN, machine=DOMAIN)
    except LiorError as error:
        _expect(error)
    else:
        _same(parse_sddl(format_sddl(descriptor)), descriptor)


def _expect(error: LiorError) -> None:
    if type(error) is not IllegalSecurityDescriptor:
        raise AssertionError(f"{type(error).__name__} instead of IllegalSecurityDescriptor") from error


def _same(again: object, read: object) -> None:
    if again != read:
        raise AssertionError(f"{read!r} was read back as {again!r}")


if __name__ == "__main__":
    from harness import run

    run(target)
