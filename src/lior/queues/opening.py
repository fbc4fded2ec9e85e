"""Open and close: kinds of names, rights, share modes, descriptors ([MS-MQDMPR] 3.1.7.1.5, 3.1.7.1.6)."""

from __future__ import annotations

from lior.errors import (
    InvalidHandle,
    LiorError,
    QueueNotFound,
    SharingViolation,
    UnsupportedAccessMode,
    UnsupportedFormatNameOperation,
)
from lior.names import (
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleName,
    SingleName,
    expand,
    parse_format_name,
)
from lior.queues.access import Access
from lior.queues.core import Core
from lior.queues.descriptor import (
    ADMIN_ACCESS,
    PEEK_ONLY,
    RECEIVE_ACCESS,
    OpenQueueDescriptor,
    QueueAccessType,
    QueueShareMode,
)
from lior.queues.moving import Moving
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.queues.reading import Reading
from lior.queues.routing import Routing, elements, require_resolvable, require_sendable
from lior.security import Caller

SEND = QueueAccessType.SEND


class Opening:
    def __init__(self, core: Core, routing: Routing, access: Access, reading: Reading, moving: Moving) -> None:
        self._core = core
        self._routing = routing
        self._access = access
        self._reading = reading
        self._moving = moving
        self.descriptors: dict[int, OpenQueueDescriptor] = {}

    def open(
        self, name: FormatName | str, access: QueueAccessType, share: QueueShareMode, caller: Caller
    ) -> OpenQueueDescriptor:
        self._core.require_service()
        if isinstance(name, str):
            name = parse_format_name(name)
        name = self._core.local.expand_dot(name)
        if isinstance(name, MultipleName):
            name = expand(elements(name))
        if isinstance(name, MultipleName):
            return self._open_multiple(name, access, share, caller)
        return self._open_single(name, access, share, caller)

    def _open_multiple(
        self, name: MultipleName, access: QueueAccessType, share: QueueShareMode, caller: Caller
    ) -> OpenQueueDescriptor:
        """All or nothing over the elements (DM-090)."""
        if access is not SEND:
            raise UnsupportedFormatNameOperation(
                "several queues at once can only be sent to", where=str(name), remedy="open them one by one"
            )
        if share is not QueueShareMode.DENY_NONE:
            raise UnsupportedAccessMode("several queues at once cannot be opened exclusively", where=str(name))
        children: list[OpenQueueDescriptor] = []
        try:
            for element in name.elements:
                children.append(self._open_single(element, SEND, share, caller))
        except Exception:
            for child in children:
                self.close(child)
            raise
        return self._descriptor(None, name, access, share, caller, tuple(children))

    def _open_single(
        self, name: SingleName, access: QueueAccessType, share: QueueShareMode, caller: Caller
    ) -> OpenQueueDescriptor:
        check_kind(name, access)
        if access is SEND:
            require_sendable(name)
        queue = self._find(name, access)
        try:
            self._access.check_open(caller, queue, access)
            check_share(queue, access, share, name)
        except LiorError:
            self._moving.forget_if_unused(queue)  # a subqueue that was made for this opener
            raise
        return self._descriptor(queue, name, access, share, caller)

    def _find(self, name: SingleName, access: QueueAccessType) -> Queue:
        found = self._routing.find(name)
        if found is not None:
            self._check_found(found, name, access)
            return found
        parent = self._routing.parent_of_subqueue(name)
        if parent is not None and isinstance(name, DirectName):
            if access is SEND:
                raise UnsupportedFormatNameOperation(
                    "a subqueue cannot be sent to", where=str(name), remedy="send to its queue and move the message"
                )
            return self._moving.subqueue(parent, name.subqueue)
        if self._core.local.designates_me(name):
            raise _not_found(name)
        if access in ADMIN_ACCESS:
            raise QueueNotFound("there is no outgoing queue to this destination", where=str(name))
        if access is not SEND and not isinstance(name, DistributionListName):
            raise QueueNotFound(
                "the queue is on another computer", where=str(name), remedy="connect to that computer to read it"
            )
        require_resolvable(name, self._core)
        self._require_support(name)
        return self._routing.outgoing(name)

    def _require_support(self, name: SingleName) -> None:
        """SrmpHttpSupport and SrmpPgmSupport (MC-MQSRM): nothing is taken for a way that is switched off."""
        properties = self._core.properties
        for off, what, flag in (
            (isinstance(name, DirectName) and name.is_http and not properties.srmp_http_support,
             "SOAP messaging", "srmp_http_support"),
            (isinstance(name, MulticastName) and not properties.srmp_pgm_support, "multicast", "srmp_pgm_support"),
        ):  # fmt: skip
            if off:
                raise UnsupportedFormatNameOperation(
                    f"{what} is switched off here", where=str(name), remedy=f"set the property {flag} of the machine")

    def _check_found(self, queue: Queue, name: SingleName, access: QueueAccessType) -> None:
        if isinstance(queue, OutgoingQueue):
            if access is SEND:
                self._require_support(name)
            if access is not SEND and access not in ADMIN_ACCESS:
                raise QueueNotFound(
                    "the queue is on another computer",
                    where=str(name),
                    remedy="connect to that computer to read it, or open the outgoing queue with admin access",
                )
        elif access is SEND and (queue.is_system or queue.parent is not None):
            raise UnsupportedFormatNameOperation(
                "journals, dead-letter queues and subqueues cannot be sent to", where=str(name)
            )

    def _descriptor(
        self,
        queue: Queue | None,
        name: FormatName,
        access: QueueAccessType,
        share: QueueShareMode,
        caller: Caller,
        children: tuple[OpenQueueDescriptor, ...] = (),
    ) -> OpenQueueDescriptor:
        descriptor = OpenQueueDescriptor(self._core.handle(), queue, name, access, share, caller, children)
        if queue is not None:
            queue.descriptors.append(descriptor)
        self.descriptors[descriptor.handle] = descriptor
        return descriptor

    def close(self, descriptor: OpenQueueDescriptor) -> None:
        """Children first (DM-096), then reads that wait, cursors, two-phase reads and the share."""
        if descriptor.closed:
            raise InvalidHandle("the handle is closed", where=descriptor.text)
        descriptor.closed = True
        for child in descriptor.children:
            if not child.closed:
                self.close(child)
        self._reading.cancel_of(descriptor, "its handle was closed")
        for cursor in list(descriptor.cursors.values()):
            self._reading.close_cursor(cursor)
        self._reading.give_back_of(descriptor)
        del self.descriptors[descriptor.handle]
        queue, descriptor.queue = descriptor.queue, None
        if queue is not None:
            queue.descriptors.remove(descriptor)
            self._moving.forget_if_unused(queue)

    def find(self, handle: int) -> OpenQueueDescriptor:
        descriptor = self.descriptors.get(handle)
        if descriptor is None:
            raise InvalidHandle(f"no open queue has the handle {handle}", remedy="open the queue first")
        return descriptor


def _not_found(name: SingleName) -> QueueNotFound:
    path = rf".\private$\{name.queue}" if isinstance(name, DirectName) and name.is_private else "PATH"
    return QueueNotFound(
        "there is no such queue here",
        where=str(name),
        remedy=f"create it with: lior queue create '{path}', or list the queues with: lior queue list",
    )


def check_kind(name: SingleName, access: QueueAccessType) -> None:
    """What a kind of name can be opened for (DM-091)."""
    send_only = isinstance(name, MulticastName) or (isinstance(name, DirectName) and name.is_http)
    if send_only and access is not SEND:
        raise UnsupportedFormatNameOperation(
            "HTTP and multicast names can only be sent to", where=str(name), remedy="use DIRECT=OS:host\\queue to read"
        )
    if isinstance(name, MachineName) and access is SEND:
        raise UnsupportedFormatNameOperation("a machine name cannot be sent to", where=str(name))


def check_share(queue: Queue, access: QueueAccessType, share: QueueShareMode, name: SingleName) -> None:
    """DM-094. The mode says that nobody else receives or peeks; the text forgets the peeks beside an
    exclusive receiver, and the mode of a receiver beside one who denies receiving. See docs/spec-notes.md."""
    wants_receive = access in RECEIVE_ACCESS
    wants_read = wants_receive or access in PEEK_ONLY
    for other in queue.descriptors:
        if other.share is QueueShareMode.DENY_RECEIVE:
            if other.access in RECEIVE_ACCESS:
                refused = wants_read or share is QueueShareMode.DENY_RECEIVE
            else:
                refused = wants_receive and other.access in PEEK_ONLY
        else:
            refused = share is QueueShareMode.DENY_RECEIVE and other.access in RECEIVE_ACCESS
        if refused:
            raise SharingViolation(
                "the queue is open for exclusive reading",
                where=str(name),
                remedy="try again when the other reader closed it",
            )
