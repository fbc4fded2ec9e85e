"""Which queue a format name means here: a local queue, a system queue, or an outgoing one."""

from lior.errors import IllegalFormatName, LiorError, NoDirectory, UnsupportedFormatNameOperation
from lior.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MultipleName,
    PathKind,
    PathName,
    PrivateName,
    PublicName,
    QueueSuffix,
    SingleName,
    parse_format_name,
)
from lior.queues.core import Core
from lior.queues.directory import DirectoryOperationResult, by_identifier
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue, is_hidden

SYSTEM_QUEUES = {
    QueueSuffix.DEADLETTER: "system$;DEADLETTER",
    QueueSuffix.DEADXACT: "system$;DEADXACT",
    QueueSuffix.JOURNAL: "system$;JOURNAL",
}


def private_name(queue: str) -> str:
    """The key of a private queue: its path without the computer."""
    return f"private$\\{queue}"


class Routing:
    def __init__(self, core: Core) -> None:
        self._core = core

    def find(self, name: SingleName) -> Queue | None:
        """The queue of this queue manager that `name` means, or the existing outgoing queue; None for
        neither. Subqueues are found only if they exist."""
        if self._core.local.designates_me(name) or isinstance(name, PublicName):
            return self._local(name)
        return self._core.outgoing.get(name.key)

    def _local(self, name: SingleName) -> Queue | None:
        """Neither a queue whose deletion is under way nor one that applications never see."""
        queue = self._named(name)
        return None if queue is None or queue.deleted or is_hidden(queue) else queue

    def _named(self, name: SingleName) -> Queue | None:
        if isinstance(name, DirectName):
            return self._direct(name)
        if isinstance(name, PrivateName):
            return _part(self._core.private_numbers.get(name.number), "", name.suffix)
        if isinstance(name, PublicName):
            return _part(self._core.identifiers.get(name.guid), "", name.suffix)
        if isinstance(name, MachineName):
            return self.system(name.suffix)
        return None

    def _direct(self, name: DirectName) -> Queue | None:
        if name.is_system:
            return self.system(name.suffix)
        return _part(self._whole(name), name.subqueue, name.suffix)

    def _whole(self, name: DirectName) -> Queue | None:
        """The queue that a direct name is about, or about a part of."""
        key = private_name(name.queue) if name.is_private else name.queue
        return self._core.paths.get(key.casefold())

    def by_path(self, path: PathName) -> Queue | None:
        """The queue of a path on this computer."""
        whole = self._core.paths.get(path.without_subqueue().without_suffix().local_key)
        return _part(whole, path.subqueue, QueueSuffix.NONE if path.kind is PathKind.SYSTEM else path.suffix)

    def system(self, suffix: QueueSuffix) -> Queue | None:
        path = SYSTEM_QUEUES.get(suffix)
        return None if path is None else self._core.paths[path.casefold()]

    def parent_of_subqueue(self, name: SingleName) -> Queue | None:
        """The local queue under which `name` would be a subqueue."""
        if not isinstance(name, DirectName) or not name.subqueue or not self._core.local.designates_me(name):
            return None
        queue = self._whole(name)
        return None if queue is None or queue.is_system or queue.deleted else queue

    def outgoing(self, name: SingleName) -> OutgoingQueue:
        """The outgoing queue of a remote name, made if need be. It is written to the store with the first
        message, so that opening alone leaves nothing behind."""
        found = self._core.outgoing.get(name.key)
        if found is None:
            found = OutgoingQueue(
                self._core.take_queue_id(),
                name,
                identifier=self._core.ids.guid(),
                hardened=self._core.properties.hardened_security,
                create_time=int(self._core.clock.wall()),
                cache=self._core.cache,
            )
            self._core.queues[found.queue_id] = found
            self._core.outgoing[name.key] = found
        return found

    # The way to other queue managers

    def next_hop(self, name: SingleName) -> str:
        """The host that messages for this destination go to next: its own, or what a route or a session says."""
        peers = self._core.peers
        hop = None
        if isinstance(name, DirectName):
            hop = peers.route(name.host) or name.host
        elif isinstance(name, (PrivateName, MachineName)):
            hop = peers.host_of(name.guid)
        if hop is None:
            raise NoDirectory(
                "the computer of this name is not known",
                where=str(name),
                remedy="give a route to it under [routes], or use a direct name",
            )
        return hop

    def is_routed(self, name: SingleName) -> bool:
        """A route says where its messages go: to another queue manager, perhaps, that hands them on."""
        if isinstance(name, DirectName):
            return self._core.peers.route(name.host) is not None
        return isinstance(name, (PrivateName, MachineName)) and self._core.peers.is_configured(name.guid)

    def is_on_the_way(self, name: SingleName) -> bool:
        """Whether messages of others to this destination go through us (QB-155): a host with a route, a queue manager
        that is known. Anybody may ask us, so not every host that there is."""
        if isinstance(name, DirectName):
            return self._core.peers.route(name.host) is not None
        return isinstance(name, (PrivateName, MachineName)) and self._core.peers.host_of(name.guid) is not None

    def for_sending(self, name: SingleName) -> Queue | None:
        """Where a system-made message to `name` goes; None if there is no such queue and never will be."""
        if self._core.local.designates_me(name):
            return self._local(name)
        if isinstance(name, (PublicName, DistributionListName, ConnectorName, MachineName)):
            return self._local(name) if isinstance(name, PublicName) else None
        return None if is_bygone(name) else self.outgoing(name)


def is_bygone(name: SingleName) -> bool:
    """An address of a network that only Windows NT and 2000 had ([MS-MQQB] 2.1.1, note 4)."""
    return isinstance(name, DirectName) and name.protocol in ("IPX", "SPX")


def _part(queue: Queue | None, subqueue: str, suffix: QueueSuffix) -> Queue | None:
    """The queue itself, its subqueue or its journal. Nothing of a hidden queue: applications never see those
    ([MS-MQDMPR] 3.1.1.1)."""
    if queue is None or is_hidden(queue):
        return None
    if subqueue:
        return queue.subqueues.get(subqueue.casefold())
    return queue.journal if suffix is QueueSuffix.JOURNAL else queue


def parse_single(text: str) -> SingleName | None:
    """A single-element format name, or None when the text is none."""
    try:
        name = parse_format_name(text)
    except LiorError:
        return None
    return None if isinstance(name, MultipleName) else name


def elements(name: FormatName) -> tuple[SingleName, ...]:
    return name.elements if isinstance(name, MultipleName) else (name,)


def require_resolvable(name: SingleName, core: Core) -> None:
    """Names that only a directory service can resolve end in the documented error (design ruling 8)."""
    success = DirectoryOperationResult.SUCCESS
    if isinstance(name, DistributionListName):
        raise NoDirectory(
            "distribution lists need a directory service, and this queue manager has none",
            where=str(name),
            remedy="list the queues instead: DIRECT=OS:a\\q,DIRECT=OS:b\\q",
        )
    if isinstance(name, PublicName) and core.directory.read("Queue", by_identifier(name.guid)).status is not success:
        raise UnsupportedFormatNameOperation(
            "public queues of other computers need a directory service, and this queue manager has none",
            where=str(name),
            remedy="use a direct name: DIRECT=OS:host\\queue",
        )
    if is_bygone(name):
        raise UnsupportedFormatNameOperation(
            "nobody speaks IPX and SPX any more", where=str(name), remedy="use DIRECT=OS or DIRECT=TCP"
        )
    if isinstance(name, ConnectorName):
        raise UnsupportedFormatNameOperation("there are no connector queues here", where=str(name))
    if not isinstance(name, (PrivateName, MachineName)) or name.guid == core.properties.identifier:
        return
    if core.directory.read("QueueManager", by_identifier(name.guid)).status is not success:
        raise NoDirectory(
            "the computer of this name can only be found through a directory service",
            where=str(name),
            remedy="use a direct name: DIRECT=OS:host\\private$\\queue",
        )


def require_sendable(name: SingleName) -> None:
    suffix = getattr(name, "suffix", QueueSuffix.NONE)
    if suffix not in (QueueSuffix.NONE, QueueSuffix.SUBQUEUE):
        raise IllegalFormatName(
            "journals and dead-letter queues cannot be sent to", where=str(name), remedy="open it to receive"
        )
