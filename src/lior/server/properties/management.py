"""Management properties ([MS-MQMQ] 2.3.11, 2.3.12) as R_QMMgmtGetInfo answers them ([MS-MQMR] 3.1.4.1)."""

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

from lior.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    MachineName,
    MulticastName,
    PublicName,
    QueueSuffix,
    SingleName,
)
from lior.names.grammar import parse_address
from lior.queues.definition import QueueType
from lior.queues.manager import QueueManager
from lior.queues.outgoing import (
    IncomingTransactionalTransferInfo,
    OutgoingQueue,
    OutgoingState,
    OutgoingTransferInfo,
    SequenceInfo,
)
from lior.queues.queue import Queue, is_hidden
from lior.server.figures import format_name
from lior.server.properties.reading import Readers, counter, read_values, seconds, signed
from lior.wire.properties import (
    ConnectedState,
    ObjectClass,
    QueueLocation,
    QueueState,
    ThreeValued,
    next_hop,
)
from lior.wire.properties import QueueType as TypeName
from lior.wire.property_rules import is_next_hop
from lior.wire.propvariant import VT_CLSID, VT_I4, VT_LPWSTR, VT_UI4, VT_UI8, VT_VARIANT, VT_VECTOR, PropVariant, Value
from lior.wire.structures import SequenceInfo as WireSequenceInfo

# ---- the queue manager ----------------------------------------------------------------------------------------------


def _active_queues(manager: QueueManager) -> tuple[str, ...]:
    return tuple(format_name(manager, queue) for queue in manager.active_queues() if not is_hidden(queue))


def _private_queues(manager: QueueManager) -> tuple[str, ...]:
    queues = manager.core.queues.values()
    return tuple(str(queue.path) for queue in queues if queue.kind is QueueType.PRIVATE and not queue.deleted)


def _connected(manager: QueueManager) -> str:
    active = manager.core.properties.connection_active
    return (ConnectedState.MSMQ_CONNECTED if active else ConnectedState.MSMQ_DISCONNECTED).value


def _version(manager: QueueManager) -> str:
    """Free text, empty when neither version is to be told."""
    properties = manager.core.properties
    versions = (properties.queue_manager_version, properties.operating_system_version)
    return ", ".join(version for version in versions if version)


_MACHINE: Final[Readers[QueueManager]] = {  # without DSSERVER: there is no directory server
    1: _active_queues,
    2: _private_queues,
    4: _connected,
    5: _version,
    6: QueueManager.bytes_in_all_queues,
}


def management_machine_values(manager: QueueManager, propids: Iterable[int]) -> dict[int, PropVariant]:
    return read_values(ObjectClass.MANAGEMENT_MACHINE, _MACHINE, manager, propids)


# ---- queues ---------------------------------------------------------------------------------------------------------


class _Subject(NamedTuple):
    manager: QueueManager
    queue: Queue

    @property
    def outgoing(self) -> OutgoingQueue | None:
        return self.queue if isinstance(self.queue, OutgoingQueue) else None

    @property
    def incoming(self) -> list[IncomingTransactionalTransferInfo]:
        prefix = f"{self.queue.queue_id}/"
        return [info for key, info in self.manager.core.incoming.items() if key.startswith(prefix)]


def _path(subject: _Subject) -> Value:
    """Of an outgoing queue only a direct name tells it."""
    if subject.outgoing is None:
        return None if subject.queue.path is None else str(subject.queue.path)
    name = subject.outgoing.destination
    return str(name.path) if isinstance(name, DirectName) else None


def _type(subject: _Subject) -> str:
    queue = subject.queue
    if subject.outgoing is not None:
        return _type_of_name(subject.outgoing.destination).value
    if queue.is_system:
        return TypeName.MACHINE.value
    return (TypeName.PUBLIC if queue.main.kind is QueueType.PUBLIC else TypeName.PRIVATE).value


def _type_of_name(name: SingleName) -> TypeName:
    """What an outgoing queue leads to, as far as its name says."""
    if isinstance(name, MulticastName):
        return TypeName.MULTICAST
    if isinstance(name, ConnectorName):
        return TypeName.CONNECTOR
    if isinstance(name, MachineName) or name.suffix is QueueSuffix.JOURNAL:
        return TypeName.MACHINE
    public = isinstance(name, PublicName | DistributionListName)
    if isinstance(name, DirectName):
        if name.is_system:
            return TypeName.MACHINE
        public = not name.is_private
    return TypeName.PUBLIC if public else TypeName.PRIVATE


def _location(subject: _Subject) -> str:
    return (QueueLocation.LOCAL if subject.outgoing is None else QueueLocation.REMOTE).value


def _transactional(subject: _Subject) -> str:
    """An outgoing queue takes both kinds; whether its destination is transactional is known there only."""
    if subject.outgoing is not None:
        return ThreeValued.UNKNOWN.value
    return (ThreeValued.YES if subject.queue.transactional else ThreeValued.NO).value


def _foreign(subject: _Subject) -> str:
    properties = subject.manager.core.properties
    if properties.directory_offline:
        known = subject.queue.kind is QueueType.PRIVATE
        return (ThreeValued.NO if known else ThreeValued.UNKNOWN).value
    return (ThreeValued.YES if properties.foreign_system else ThreeValued.NO).value


def _journal_messages(subject: _Subject) -> int:
    journal = subject.queue.journal
    return 0 if journal is None else counter(journal.message_count)


def _journal_bytes(subject: _Subject) -> int:
    """What is in it, though journaling was turned off since."""
    journal = subject.queue.journal
    return 0 if journal is None else counter(journal.total_bytes)


def _state(subject: _Subject) -> str:
    return QueueState.LOCAL.value if subject.outgoing is None else QueueState(subject.outgoing.state.value).value


def _next_hops(subject: _Subject) -> Value:
    """Known while there is a connection, or while one is being made."""
    queue = subject.outgoing
    if queue is None or queue.state not in (OutgoingState.CONNECTED, OutgoingState.WAITING):
        return None
    if isinstance(queue.destination, MulticastName):
        return (next_hop(ip_address(queue.destination.address)),)  # [MS-MQMR] says a path name, which is no next hop
    return tuple(hop for hop in map(_hop, queue.next_hops) if is_next_hop(hop))


def _hop(address: str) -> str:
    """An address in the form of 2.3.12.12; what is none stays as it is, and has no place there."""
    parsed = parse_address(address.partition("%")[0])
    return address if parsed is None else next_hop(parsed)


def _transfer(read: Callable[[OutgoingTransferInfo], Value]) -> Callable[[_Subject], Value]:
    """A property that only outgoing queues have."""

    def value(subject: _Subject) -> Value:
        queue = subject.outgoing
        return None if queue is None else read(subject.manager.outgoing_streams.transfer_info(queue))

    return value


def _sequence(info: SequenceInfo) -> bytes:
    return WireSequenceInfo(signed(info.sequence_id, 64), info.sequence_number, info.previous_number).to_bytes()


def _source_info(subject: _Subject) -> tuple[PropVariant, ...]:
    """Six columns, one row for each stream that came here."""
    rows = subject.incoming
    return (
        PropVariant(VT_VECTOR | VT_LPWSTR, tuple(row.format_name for row in rows)),
        PropVariant(VT_VECTOR | VT_CLSID, tuple(row.sender for row in rows)),
        PropVariant(VT_VECTOR | VT_UI8, tuple(row.sequence_id for row in rows)),
        PropVariant(VT_VECTOR | VT_UI4, tuple(row.last_sequence_number for row in rows)),
        PropVariant(VT_VECTOR | VT_I4, tuple(seconds(row.last_access_time) for row in rows)),
        PropVariant(VT_VECTOR | VT_UI4, tuple(counter(row.reject_count) for row in rows)),
    )


def _connection_history(subject: _Subject) -> Value:
    """Four columns, one row for each entry; the addresses of an entry are a vector in a variant of their own."""
    if subject.outgoing is None:
        return None
    rows = list(subject.outgoing.connection_history)
    return (
        PropVariant(VT_VECTOR | VT_UI4, tuple(int(row.status) for row in rows)),
        PropVariant(VT_VECTOR | VT_I4, tuple(seconds(row.time) for row in rows)),
        PropVariant(VT_VECTOR | VT_I4, tuple(signed(row.error, 32) for row in rows)),
        PropVariant(VT_VECTOR | VT_VARIANT, tuple(PropVariant(VT_VECTOR | VT_LPWSTR, row.addresses) for row in rows)),
    )


def _subqueues(subject: _Subject) -> tuple[str, ...]:
    """Their own names, without the queue's."""
    subqueues = subject.queue.subqueues.values()
    return tuple(subqueue.name.rpartition(";")[2] for subqueue in subqueues if not subqueue.deleted)


_QUEUE: Final[Readers[_Subject]] = {
    1: _path,
    2: lambda s: format_name(s.manager, s.queue),
    3: _type,
    4: _location,
    5: _transactional,
    6: _foreign,
    7: lambda s: counter(s.queue.message_count),
    8: lambda s: counter(s.queue.total_bytes),
    9: _journal_messages,
    10: _journal_bytes,
    11: _state,
    12: _next_hops,
    13: _transfer(lambda info: _sequence(info.eod_last_ack)),
    14: _transfer(lambda info: seconds(info.eod_last_ack_time)),
    15: _transfer(lambda info: counter(info.eod_last_ack_count)),
    16: _transfer(lambda info: _sequence(info.eod_first_non_ack)),
    17: _transfer(lambda info: _sequence(info.eod_last_non_ack)),
    18: _transfer(lambda info: _sequence(info.eod_next_seq)),
    19: _transfer(lambda info: counter(info.eod_no_read_count)),
    20: _transfer(lambda info: counter(info.eod_no_ack_count)),
    21: _transfer(lambda info: seconds(info.eod_resend_time)),
    22: _transfer(lambda info: counter(info.eod_resend_interval)),
    23: _transfer(lambda info: counter(info.eod_resend_count)),
    24: _source_info,
    25: _connection_history,
    26: lambda s: len(_subqueues(s)),
    27: _subqueues,
}


def management_queue_values(manager: QueueManager, queue: Queue, propids: Iterable[int]) -> dict[int, PropVariant]:
    """VT_NULL for what the queue does not have: a local queue no transfer, an outgoing one no path."""
    return read_values(ObjectClass.MANAGEMENT_QUEUE, _QUEUE, _Subject(manager, queue), propids)
