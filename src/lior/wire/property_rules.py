"""What values a property takes, beyond its type ([MS-MQMQ] 2.3). A rule has a text for the documentation and a test."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from lior.errors import IllegalPropertyValue, IllegalQueuePathname, IllegalSecurityDescriptor, LiorError
from lior.names import parse_format_name, parse_path_name
from lior.wire.dtyp import decode_security_descriptor, decode_sid
from lior.wire.propvariant import PropVariant, Value, type_name
from lior.wire.structures import (
    SequenceInfo,
    addresses_from_bytes,
    public_keys_from_bytes,
    sign_certs_from_bytes,
)

MAX_QUEUE_LABEL: Final = 124  # [MS-MQMQ] 2.3.1.8, UTF-16 code units
_GUID: Final = re.compile(r"[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}")
_PORT: Final = re.compile(r"0|[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Rule:
    """`holds` says whether a value of the right VARTYPE is allowed; it may raise any LiorError to say no."""

    text: str
    holds: Callable[[Value], bool]
    error: type[LiorError] = IllegalPropertyValue

    def check(self, value: Value, where: str) -> None:
        cause: LiorError | None = None
        try:
            allowed = self.holds(value)
        except LiorError as error:
            allowed, cause = False, error
        if not allowed:
            what = f"{_shown(value)} is not allowed" + (f": {cause.what}" if cause else "")
            raise self.error(what, where=where, remedy=f"give {self.text}") from cause


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def one_of(*values: int | str) -> Rule:
    allowed = frozenset(values)
    return Rule(" or ".join(str(value) for value in values), lambda value: value in allowed)


def constant(text: str) -> Rule:
    return Rule(f'"{text}"', lambda value: value == text)


def between(low: int, high: int) -> Rule:
    return Rule(f"{low} to {high}", lambda value: isinstance(value, int) and low <= value <= high)


def masked(mask: int, meaning: str) -> Rule:
    return Rule(f"{meaning} (0x{mask:X})", lambda value: isinstance(value, int) and not value & ~mask)


def size(limit: int) -> Rule:
    return Rule(f"at most {limit} characters", lambda value: isinstance(value, str) and _units(value) <= limit)


def queue_label() -> Rule:
    return size(MAX_QUEUE_LABEL)


def prefixed(prefix: str) -> Rule:
    """PROPID_MGMT_MSMQ_DSSERVER ([MS-MQMQ] 2.3.11.3): no comma and no NUL in the name."""
    return Rule(f"a name behind {prefix}", lambda value: isinstance(value, str) and value.startswith(prefix)
                and len(value) > len(prefix) and "," not in value)


def path_name() -> Rule:
    return Rule("a path name, Computer\\Queue or Computer\\private$\\Queue",
                lambda value: isinstance(value, str) and bool(parse_path_name(value)), IllegalQueuePathname)


def format_names() -> Rule:
    return Rule("format names", lambda value: isinstance(value, tuple) and all(
        isinstance(name, str) and bool(parse_format_name(name)) for name in value))


def class_d_address() -> Rule:
    return Rule("a class D address and a port, 224.0.0.0:0 to 239.255.255.255:65535, or nothing to unbind", _is_class_d)


def _is_class_d(value: Value) -> bool:
    """The ABNF of 2.1.6 has no four-digit port above 1999, its text no restriction; the text is followed."""
    if not isinstance(value, str):
        return False
    if not value:
        return True
    address, colon, port = value.partition(":")
    try:
        return bool(colon) and IPv4Address(address).is_multicast and (
            _PORT.fullmatch(port) is not None and int(port) <= 0xFFFF)
    except AddressValueError:
        return False


def next_hops() -> Rule:
    return Rule("IP=, IPv6= or FOREIGN= addresses",
                lambda value: isinstance(value, tuple) and all(is_next_hop(hop) for hop in value))


def is_next_hop(text: object) -> bool:
    """One element of PROPID_MGMT_QUEUE_NEXTHOPS ([MS-MQMQ] 2.3.12.12)."""
    if not isinstance(text, str):
        return False
    kind, _, address = text.partition("=")
    try:
        if kind == "IP":
            return bool(IPv4Address(address))
        if kind == "IPv6":
            return "%" not in address and bool(IPv6Address(address))
    except AddressValueError:
        return False
    return kind == "FOREIGN" and _GUID.fullmatch(address) is not None


def security_descriptor(*, nt4_only: bool) -> Rule:
    """Self-relative. Q_SECURITY and its like carry only the ACE types of NT 4 (notes 27, 31, 33, 35, 38, 42)."""

    def holds(value: Value) -> bool:
        return isinstance(value, bytes) and bool(decode_security_descriptor(value, nt4_aces_only=nt4_only))

    kind = "a self-relative security descriptor"
    return Rule(f"{kind} with allow, deny and audit entries only" if nt4_only else kind, holds,
                IllegalSecurityDescriptor)


def sid() -> Rule:
    return Rule("a SID", lambda value: isinstance(value, bytes) and decode_sid(value)[1] == len(value))


def sequence_info() -> Rule:
    return _parsed("the 16 bytes of a SEQUENCE_INFO", SequenceInfo.from_bytes)


def public_keys() -> Rule:
    return _parsed("an MQDSPUBLICKEYS structure", public_keys_from_bytes)


def transport_addresses() -> Rule:
    return _parsed("packed TA_ADDRESS structures", addresses_from_bytes)


def sign_certificates() -> Rule:
    return _parsed("an MQUSERSIGNCERTS structure", sign_certs_from_bytes)


def _parsed(text: str, parse: Callable[[bytes], object]) -> Rule:
    def holds(value: Value) -> bool:
        if not isinstance(value, bytes):
            return False
        parse(value)
        return True

    return Rule(text, holds)


def vector_types(*types: int) -> Rule:
    """A vector of variants, one column each, all of one length."""

    def holds(value: Value) -> bool:
        if not isinstance(value, tuple) or len(value) != len(types):
            return False
        lengths = set()
        for column, vt in zip(value, types, strict=True):
            if not isinstance(column, PropVariant) or column.vt != vt or not isinstance(column.value, bytes | tuple):
                return False
            lengths.add(len(column.value))
        return len(lengths) == 1

    return Rule("columns of one length: " + ", ".join(type_name(vt) for vt in types), holds)


def _units(text: str) -> int:
    """UTF-16 code units; the text has passed PropVariant.check, so it has a UTF-16 form."""
    return len(text) + sum(character > "\uffff" for character in text)
