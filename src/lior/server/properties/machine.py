"""Machine properties ([MS-MQMQ] 2.3.2) of this queue manager. As in `queue`, reading checks no rights."""

from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Final, NamedTuple

from lior.names import LocalNames
from lior.queues.definition import QueueManagerProperties
from lior.queues.manager import QueueManager
from lior.security import SecurityDescriptor
from lior.server.properties.reading import (
    READABLE,
    Readers,
    descriptor_bytes,
    nt4_descriptor_bytes,
    read_values,
    seconds,
)
from lior.wire.properties import ObjectClass, is_old_machine_type
from lior.wire.propvariant import PropVariant, Value
from lior.wire.structures import (
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    TaAddress,
    addresses_to_bytes,
    public_keys_from_bytes,
)

ROUTING_SERVER: Final = 0x01
RAS_SERVER: Final = 0x10


class _Subject(NamedTuple):
    manager: QueueManager
    information: int

    @property
    def properties(self) -> QueueManagerProperties:
        return self.manager.core.properties

    @property
    def security(self) -> SecurityDescriptor:
        security = self.properties.security
        assert security is not None  # given at the first start
        return security


def transport_addresses(local: LocalNames) -> tuple[TaAddress, ...]:
    """What other computers reach this one under; TA_ADDRESS has no form for IPv6. Loopback addresses mean
    somebody else to them, so they are named only where there are no others."""
    addresses = sorted(IPv4Address(text) for text in local.addresses if _is_ipv4(text))
    reachable = [address for address in addresses if not address.is_loopback]
    return tuple(TaAddress.of_ip(address) for address in reachable or addresses)


def _is_ipv4(text: str) -> bool:
    try:
        return bool(IPv4Address(text).packed)
    except ValueError:
        return False


def machine_type(properties: QueueManagerProperties) -> str:
    """MSMQ 1.0 and 2.0 insist on their own form of this string ([MS-MQMQ] note 30), later versions on none.
    A queue manager that has to please the old ones is configured with versions that make that form."""
    text = f"{properties.operating_system_version} - {properties.queue_manager_version}"
    return text if is_old_machine_type(text) else ""


def _service(subject: _Subject) -> int:
    if subject.properties.routing_server:
        return ROUTING_SERVER
    return RAS_SERVER if subject.properties.remote_access_server else 0


def _key(provider: str) -> Value:
    """The key blob made by one provider, if there is one."""

    def read(subject: _Subject) -> Value:
        keys = public_keys_from_bytes(subject.properties.public_encryption_key_list)
        return next((key.key_blob for key in keys if key.provider_name == provider), None)

    return read


def _nothing(subject: _Subject) -> tuple[()]:
    """Sites, connected networks and routing servers of a directory: the list is empty."""
    return ()


_READERS: Final[Readers[_Subject]] = {
    202: lambda s: s.properties.identifier,
    203: lambda s: s.properties.computer_name,
    205: _key(BASE_PROVIDER),  # 231 supersedes it
    206: lambda s: addresses_to_bytes(transport_addresses(s.manager.core.local)),
    207: _nothing,
    208: _nothing,
    209: _nothing,
    210: _service,
    214: lambda s: s.properties.queue_manager_quota,
    215: lambda s: s.properties.journal_quota,
    216: lambda s: machine_type(s.properties),
    217: lambda s: seconds(s.properties.create_time),
    218: lambda s: seconds(s.properties.modify_time),
    219: lambda s: int(s.properties.foreign_system),
    220: lambda s: s.properties.operating_system_type,
    222: _nothing,
    223: _nothing,
    224: _nothing,
    227: lambda s: int(s.properties.routing_server),
    228: lambda s: int(s.properties.directory_server),
    229: lambda s: int(s.properties.supporting_server),
    231: _key(BASE_PROVIDER),
    232: _key(ENHANCED_PROVIDER),
    233: lambda s: s.properties.qualified_computer_name or None,
    234: lambda s: descriptor_bytes(s.security, s.information),
    237: lambda s: s.information,
    238: lambda s: s.properties.public_encryption_key_list,
    239: lambda s: s.properties.public_signing_key_list,
    242: lambda s: int(s.properties.clustered),
    1201: lambda s: nt4_descriptor_bytes(s.security, s.information),
    1202: lambda s: s.properties.public_signing_key_list,
    1203: lambda s: s.properties.public_encryption_key_list,
}


def machine_values(
    manager: QueueManager, propids: Iterable[int], information: int = READABLE
) -> dict[int, PropVariant]:
    """`information` says which parts the descriptors have ([MS-MQMQ] 2.2.3)."""
    return read_values(ObjectClass.MACHINE, _READERS, _Subject(manager, information), propids)
