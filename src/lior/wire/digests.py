"""What a message's signature is computed over ([MS-MQMQ] 2.5, [MS-MQQB] 3.1.5.8.3 and 3.1.7.1.4).

The text lists the fields and their order, not their bytes. What it leaves open is one switch each in `DigestForm`;
only a message signed by Windows can settle them, so signatures are not claimed to interoperate until such a message
stands among the vectors. Hashing only: keys and verification are elsewhere.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from lior.errors import HRESULTS, InvalidParameter, LiorError, error_from_code
from lior.message import NULL_CORRELATION_ID, NULL_GUID, AuthenticationLevel, HashAlgorithm

DEFAULT_HASH: Final = HashAlgorithm.SHA512.value  # [MS-MQMQ] 2.2.19.3 note 7: the default since Windows 7
ACCEPTED_HASHES: Final = frozenset(
    {HashAlgorithm.SHA1.value, HashAlgorithm.SHA256.value, HashAlgorithm.SHA512.value})
WEAK_HASHES: Final = frozenset({HashAlgorithm.MD2.value, HashAlgorithm.MD4.value, HashAlgorithm.MD5.value})

_CONSTRUCTORS: Final[dict[int, str]] = {
    HashAlgorithm.MD4: "md4", HashAlgorithm.MD5: "md5", HashAlgorithm.SHA1: "sha1",
    HashAlgorithm.SHA256: "sha256", HashAlgorithm.SHA512: "sha512"}  # hashlib has no MD2


class QueueNameForm(Enum):
    PACKET = "packet"
    TEXT = "text"


class AbsentConnector(Enum):
    ZEROS = "zeros"
    OMITTED = "omitted"


@dataclass(frozen=True, slots=True)
class DigestForm:
    """The open points of 2.5, each with the reading that its text favours.

    label_nul: MessagePropertiesHeader.Label is a packet field, and its LabelLength counts the terminator (2.2.19.3),
    so the field's value ends with it.

    queue_names: UserHeader.ResponseQueue and its like are packet fields too, so the bytes of the packet are hashed.
    Without the padding: its content is arbitrary (note 2), and a relay may lay the packet out anew. TEXT is the other
    plausible reading, the format name that the application sees.

    text_nul: whether TEXT ends with its terminator. Without by default: [MS-MQDMPR] keeps format names as
    plain strings.

    absent_connector: ConnectorType stands between fields that are cast to fixed sizes, as in a record filled before it
    is hashed; such a record holds zeros where the packet holds nothing.
    """

    label_nul: bool = True
    queue_names: QueueNameForm = QueueNameForm.PACKET
    text_nul: bool = False
    absent_connector: AbsentConnector = AbsentConnector.ZEROS


DEFAULT_FORM: Final = DigestForm()


@dataclass(frozen=True, slots=True)
class QueueName:
    """A queue name in both of its forms: the packet's bytes without padding, and the format name."""

    packet: bytes = b""
    text: str = ""


NO_QUEUE: Final = QueueName()


@dataclass(frozen=True, slots=True)
class DigestFields:
    """The fields of 2.5 as they stand in the packet: the priority is hashed as sent, the hop count not at all."""

    correlation_id: bytes = NULL_CORRELATION_ID
    application_tag: int = 0
    body: bytes | memoryview = b""  # clear text: a message is signed, then encrypted
    label: str = ""
    response_queue: QueueName = NO_QUEUE
    admin_queue: QueueName = NO_QUEUE
    extension: bytes | memoryview = b""
    format_name_list: QueueName = NO_QUEUE  # MultiQueueFormatHeader.Destination.FormatNameList
    source_queue_manager: UUID = NULL_GUID
    delivery_mode: int = 0  # UserHeader.Flags.DM
    priority: int = 0  # BaseHeader.Flags.PR
    positive_journaling: bool = False  # UserHeader.Flags.JP
    negative_journaling: bool = False  # UserHeader.Flags.JN
    flags: int = 0  # MessagePropertiesHeader.Flags; its low four bits are hashed
    message_class: int = 0
    body_type: int = 0
    connector_type: UUID | None = None
    destination_queue: QueueName = NO_QUEUE


Parts = list[bytes | memoryview]
DigestInput = Callable[[DigestFields, DigestForm], Parts]


def digest_input_10(fields: DigestFields, form: DigestForm = DEFAULT_FORM) -> Parts:
    """[MS-MQMQ] 2.5.1"""
    return [
        _correlation(fields),
        _number("<I", fields.application_tag, "ApplicationTag"),
        fields.body,
        label_bytes(fields.label, form),
        queue_name_bytes(fields.response_queue, form),
        queue_name_bytes(fields.admin_queue, form),
    ]


def digest_input_20(fields: DigestFields, form: DigestForm = DEFAULT_FORM) -> Parts:
    """[MS-MQMQ] 2.5.2"""
    return [*digest_input_10(fields, form), *_properties(fields, form),
            queue_name_bytes(fields.destination_queue, form)]


def digest_input_30(fields: DigestFields, form: DigestForm = DEFAULT_FORM) -> Parts:
    """[MS-MQMQ] 2.5.3. The list of destinations stands for the destination, so one signature serves every copy."""
    return [*digest_input_10(fields, form), fields.extension, queue_name_bytes(fields.format_name_list, form),
            *_properties(fields, form)]


DIGEST_INPUTS: Final[dict[int, DigestInput]] = {
    AuthenticationLevel.SIG10: digest_input_10,
    AuthenticationLevel.SIG20: digest_input_20,
    AuthenticationLevel.SIG30: digest_input_30,
}


def label_bytes(label: str, form: DigestForm) -> bytes:
    """An empty label is absent from the packet, terminator included (2.2.19.3)."""
    return _utf16(label, form.label_nul, "Label") if label else b""


def queue_name_bytes(name: QueueName, form: DigestForm) -> bytes:
    if form.queue_names is QueueNameForm.PACKET:
        return name.packet
    return _utf16(name.text, form.text_nul, "format name") if name.text else b""


def connector_type_bytes(connector_type: UUID | None, form: DigestForm) -> bytes:
    if connector_type is not None:
        return connector_type.bytes_le
    return bytes(16) if form.absent_connector is AbsentConnector.ZEROS else b""


def _properties(fields: DigestFields, form: DigestForm) -> Parts:
    journaling = fields.positive_journaling << 1 | fields.negative_journaling
    return [
        fields.source_queue_manager.bytes_le,
        _number("<B", fields.delivery_mode, "DM"),
        _number("<B", fields.priority, "PR"),
        _number("<B", journaling, "JP, JN"),
        _number("<B", fields.flags & 0x0F, "Flags"),
        _number("<H", fields.message_class, "MessageClass"),
        _number("<I", fields.body_type, "BodyType"),
        connector_type_bytes(fields.connector_type, form),
    ]


def message_digest(level: int, fields: DigestFields, hash_algorithm: int = DEFAULT_HASH, *,
                   form: DigestForm = DEFAULT_FORM, allowed: frozenset[int] = ACCEPTED_HASHES) -> bytes:
    """The digest that a signature of this AuthenticationLevel signs.

    `allowed` is policy: the MD family is refused unless the caller's configuration adds it.
    """
    build = DIGEST_INPUTS.get(level)
    if build is None:
        raise InvalidParameter(f"authentication level {level} has no digest", where="signature")
    hasher = _hasher(hash_algorithm, allowed)
    for part in build(fields, form):
        hasher.update(part)
    return hasher.digest()


def _hasher(hash_algorithm: int, allowed: frozenset[int]) -> "hashlib._Hash":
    name = _CONSTRUCTORS.get(hash_algorithm)
    if hash_algorithm not in allowed:
        raise _no_hash(f"hash algorithm 0x{hash_algorithm:04X} is not allowed",
                       "allow it in the security section of the configuration, if it must be")
    if name is None:
        raise _no_hash(f"hash algorithm 0x{hash_algorithm:04X} is not available", "have it signed with SHA-512")
    try:
        return hashlib.new(name, usedforsecurity=False)
    except ValueError:
        raise _no_hash(f"{name} is not available in this build of Python", "have it signed with SHA-512") from None


def _no_hash(what: str, remedy: str) -> LiorError:
    return error_from_code(HRESULTS["MQ_ERROR_CANNOT_CREATE_HASH_EX"], what, where="signature", remedy=remedy)


def _correlation(fields: DigestFields) -> bytes:
    if len(fields.correlation_id) != 20:
        raise InvalidParameter(f"correlation identifier of {len(fields.correlation_id)} bytes", where="signature")
    return fields.correlation_id


def _number(form: str, value: int, name: str) -> bytes:
    try:
        return struct.pack(form, value)
    except struct.error:
        raise InvalidParameter(f"{name} {value} does not fit its field", where="signature") from None


def _utf16(text: str, terminated: bool, name: str) -> bytes:
    try:
        return (text + "\0" * terminated).encode("utf-16-le")
    except UnicodeEncodeError:
        raise InvalidParameter(f"{name} is not UTF-16", where="signature") from None
