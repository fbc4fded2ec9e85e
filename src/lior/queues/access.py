"""Rights of callers on queues and on the queue manager, with an audit event for what is refused."""

from lior.errors import AccessDenied
from lior.names import QueueSuffix
from lior.queues.core import Core
from lior.queues.definition import QueueType
from lior.queues.descriptor import PEEK_ONLY, QueueAccessType
from lior.queues.events import AccessAudited
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.queues.routing import SYSTEM_QUEUES
from lior.security import (
    QUEUE_MANAGER_MAPPING,
    QUEUE_MAPPING,
    Caller,
    GenericMapping,
    QueueAccess,
    QueueManagerAccess,
    SecurityDescriptor,
    SecurityInformation,
    access_check,
    audit_wanted,
    default_queue_descriptor,
)

_JOURNAL_NAME = SYSTEM_QUEUES[QueueSuffix.JOURNAL]

_QUEUE_RIGHTS = {
    QueueAccessType.RECEIVE: QueueAccess.RECEIVE_MESSAGE,
    QueueAccessType.RECEIVE_ADMIN: QueueAccess.RECEIVE_MESSAGE,
    QueueAccessType.MOVE: QueueAccess.RECEIVE_MESSAGE,
    QueueAccessType.PEEK: QueueAccess.PEEK_MESSAGE,
    QueueAccessType.PEEK_ADMIN: QueueAccess.PEEK_MESSAGE,
    QueueAccessType.SEND: QueueAccess.WRITE_MESSAGE,
}


class Access:
    def __init__(self, core: Core) -> None:
        self._core = core

    def descriptor_of(self, queue: Queue) -> SecurityDescriptor:
        """A journal and a subqueue have their queue's rights."""
        owner = queue.parent if queue.parent is not None else queue
        security = owner.properties.security
        assert security is not None  # given at creation
        return security

    def default_descriptor(self, caller: Caller, supplied: SecurityDescriptor | None) -> SecurityDescriptor:
        """[MS-MQDMPR] 3.1.7.1.3.1, or our hardened default (design ruling 6)."""
        properties = self._core.properties
        return default_queue_descriptor(
            caller,
            "literal" if properties.literal_default_rights else "hardened",
            supplied,
            http_reachable=properties.srmp_http_support,
        )

    def check_open(self, caller: Caller, queue: Queue, access: QueueAccessType) -> None:
        if isinstance(queue, OutgoingQueue):
            if access is not QueueAccessType.SEND:
                self.check_manager(caller, QueueManagerAccess.RECEIVE_DEADLETTER, str(queue.name))
            return
        if queue.kind is QueueType.SYSTEM:
            self.check_manager(caller, _system_rights(queue, access), queue.name)
            return
        rights: int = _QUEUE_RIGHTS[access]
        if queue.kind is QueueType.JOURNAL:
            peek = access in PEEK_ONLY
            rights = QueueAccess.PEEK_MESSAGE if peek else QueueAccess.RECEIVE_JOURNAL_MESSAGE
        self.check_queue(caller, queue, rights)

    def check_queue(self, caller: Caller, queue: Queue, wanted: int) -> None:
        self._check(caller, self.descriptor_of(queue), wanted, QUEUE_MAPPING, queue.name)

    def check_manager(self, caller: Caller, wanted: int, where: str) -> None:
        security = self._core.properties.security
        assert security is not None
        self._check(caller, security, wanted, QUEUE_MANAGER_MAPPING, where)

    def _check(
        self, caller: Caller, descriptor: SecurityDescriptor, wanted: int, mapping: GenericMapping, where: str
    ) -> None:
        denied = access_check(descriptor, caller, wanted, mapping)
        if denied or (descriptor.sacl is not None and audit_wanted(descriptor, caller, wanted, True, mapping)):
            self._core.emit(AccessAudited(caller, where, int(wanted), int(denied)))
        if denied:
            raise AccessDenied(
                f"{caller.sid} lacks the rights {_names(denied, mapping)}",
                where=where,
                remedy="ask the owner or an administrator for the rights, or see: lior queue show --security",
            )


def rights_to_change(information: int) -> int:
    """What setting these parts of a security descriptor takes; the bits are the same for every kind of object."""
    wanted = 0
    if information & (SecurityInformation.OWNER | SecurityInformation.GROUP):
        wanted |= QueueAccess.TAKE_OWNERSHIP
    if information & (SecurityInformation.DACL | SecurityInformation.SACL):
        wanted |= QueueAccess.CHANGE_PERMISSIONS
    return wanted


def _system_rights(queue: Queue, access: QueueAccessType) -> QueueManagerAccess:
    peek = access in PEEK_ONLY
    if queue.name == _JOURNAL_NAME:
        journal = QueueManagerAccess.PEEK_JOURNAL_QUEUE_MESSAGE
        return journal if peek else QueueManagerAccess.RECEIVE_JOURNAL
    return QueueManagerAccess.PEEK_DEADLETTER if peek else QueueManagerAccess.RECEIVE_DEADLETTER


def _names(mask: int, mapping: GenericMapping) -> str:
    kind = QueueAccess if mapping is QUEUE_MAPPING else QueueManagerAccess
    bits = [right for right in kind if right & mask and right.bit_count() == 1]
    return ", ".join(right.name or hex(right) for right in bits) or hex(mask)
