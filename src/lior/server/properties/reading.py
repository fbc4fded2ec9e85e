"""One way to answer a property query, for every object class."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from lior.security import NT4_TYPES, SecurityDescriptor, SecurityInformation
from lior.wire.dtyp import encode_security_descriptor
from lior.wire.properties import ObjectClass, check_get, property_of, time_value
from lior.wire.propvariant import NULL, PropVariant, Value

S = TypeVar("S")
Readers = Mapping[int, Callable[[S], Value]]

# A SACL takes a privilege to read ([MS-DTYP] 2.4.3), so it must be asked for.
READABLE: Final = int(SecurityInformation.OWNER | SecurityInformation.GROUP | SecurityInformation.DACL)


def read_values(
    object_class: ObjectClass, readers: Readers[S], subject: S, propids: Iterable[int]
) -> dict[int, PropVariant]:
    """The values by identifier; VT_NULL for what this object does not have, an error for an unknown identifier."""
    wanted = list(propids)
    check_get(object_class, wanted)  # bounds the number of them
    answers: dict[int, PropVariant] = {}
    for propid in wanted:
        entry = property_of(object_class, propid)
        reader = readers.get(propid)
        value = None if reader is None else reader(subject)
        answers[propid] = NULL if value is None else PropVariant(entry.vt, value)
    return answers


def counter(number: int) -> int:
    """A count for VT_UI4, which holds no more than it holds."""
    return min(number, 0xFFFFFFFF)


def seconds(time: float) -> Value:
    return time_value(time).value


def signed(number: int, bits: int) -> int:
    """The same bits as a signed number: HRESULTs in VT_I4, sequence identifiers in SEQUENCE_INFO."""
    low = number & ((1 << bits) - 1)
    return low - (low >> bits - 1 << bits)


def descriptor_bytes(descriptor: SecurityDescriptor, information: int) -> bytes:
    return encode_security_descriptor(descriptor.select(information))


def nt4_descriptor_bytes(descriptor: SecurityDescriptor, information: int) -> bytes | None:
    """For the properties that know the entries of NT 4 only ([MS-MQMQ] notes 27, 31). A list with others has no
    such form: without them it would say less than it does, and setting it again would widen the rights."""
    selected = descriptor.select(information)
    for acl in (selected.dacl, selected.sacl):
        if acl is not None and any(ace.type not in NT4_TYPES for ace in acl.aces):
            return None
    return encode_security_descriptor(selected)
