"""GUIDs, SIDs and security descriptors from any bytes; what is read is written and read again."""

from lior.errors import IllegalSecurityDescriptor, LiorError, Malformed
from lior.wire.dtyp import (
    decode_acl,
    decode_security_descriptor,
    decode_sid,
    encode_acl,
    encode_security_descriptor,
    encode_sid,
    guid_from_bytes,
    guid_to_bytes,
)


def target(data: bytes) -> None:
    """The first byte chooses the structure, its high bit the entry types of NT4 only."""
    if not data:
        return
    kind, nt4, body = data[0] & 0x03, bool(data[0] & 0x80), data[1:]
    expected: type[LiorError] = Malformed if kind in (0, 1) else IllegalSecurityDescriptor
    try:
        if kind == 0:
            read: object = guid_from_bytes(body)
            again: object = guid_from_bytes(guid_to_bytes(guid_from_bytes(body)))
        elif kind == 1:
            read = decode_sid(body)
            again = decode_sid(encode_sid(decode_sid(body)[0]))
        elif kind == 2:
            read = decode_acl(body, nt4_aces_only=nt4)[0]
            again = decode_acl(encode_acl(decode_acl(body)[0]))[0]
        else:
            read = decode_security_descriptor(body, nt4_aces_only=nt4)
            again = decode_security_descriptor(encode_security_descriptor(decode_security_descriptor(body)))
    except LiorError as error:
        if type(error) is not expected:
            raise AssertionError(f"{type(error).__name__} instead of {expected.__name__}") from error
        return
    if read != again:
        raise AssertionError(f"{read!r} was read back as {again!r}")


if __name__ == "__main__":
    from harness import run

    run(target)
